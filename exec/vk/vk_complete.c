/* The completion thread: waits for the real queues' timelines in bounded slices and reports what the logical
 * queues reached. Asleep on a futex while nothing is in flight. */
#include "exec/vk/vk_complete.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/thread_time.h"
#include "exec/vk/vk_decide.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_loss.h"
#include "exec/vk/vk_semaphore.h"
#include "exec/vk/vk_times.h"
#include <sys/prctl.h>
#include <time.h>

#define WAIT_SLICE_NS (50ull * 1000000ull)
#define GATHER_NS 40000ull
/* With diagnostics: how often it is looked which commands run, while nothing completes. */
#define STUCK_NS 10000000ull
#define SHORT_SLICE_NS 1000000ull
/* With this many submissions in flight the device has work for a while, and looking at the counters now and
 * then is enough. */
#define POLL_FROM 3
#define POLL_MANY 16
#define POLL_MAX_NS 500000ull
/* Some drivers work while they wait (NVIDIA's 580: a quarter to half a core, and in the way of
 * vkQueueSubmit2). Once waits of JUDGED_NS together took more than a quarter of that in CPU time, this thread
 * sleeps by the clock instead, until about when the next completion is due. */
#define JUDGED_NS 1000000ull
#define DUE_MAX_NS 250000ull
#define TIMER_SLACK_NS 1000ul
/* After the last completion the thread looks out for new work this long before it sleeps, or as long as
 * spin_ns asks: waking it costs the submit thread several microseconds. */
#define SPIN_NS 20000ull
/* What ends so soon is looked for all along: a nap ends late by what waking up takes, which is no less. */
#define NEAR_NS 50000ull
#define LOOK_ON 1ull
#define LOOK_NS 1500ull
/* How long the thread of a lost device sleeps at a time. */
#define OUTLAST_NS 1000000000ull
/* Completed submissions between two looks at where the interrupts go. */
#define UNLOOKED_MAX 2048u

static bool in_flight(rota_vk_device *device) {
    for (uint32_t i = 0; i < device->real_count; i++) {
        rota_vk_real *real = &device->reals[i];
        if (ra_load_seq_cst(&real->shared.submitted) > ra_load_relaxed(&real->shared.completed)) return true;
    }
    return false;
}

/* Works that were gone on with have ended since the last look, maybe with nothing in flight: with their ends, around
 * the sleep. */
static bool has_news(rota_vk_device *device) {
    return ra_load_seq_cst(&device->going.ended) != device->watch.ended_seen;
}

/* What the thread does not sleep through. */
static bool has_work(void *user) {
    rota_vk_device *device = user;
    return in_flight(device) || has_news(device) ||
           ra_load_seq_cst(&device->objects.look) || /* with rota_vk_semaphore_look */
           ra_load_acquire(&device->lost);           /* pairs with rota_vk_lose */
}

/* The signal value to wait for: of the first submission of a real queue that is not complete, or of one a few
 * places later; 0: none in flight. */
static uint64_t next_end(const rota_vk_real *real, uint32_t skip) {
    /* Pairs with publish. */
    uint64_t in_flight = ra_load_acquire(&real->shared.end_published) - real->watch.end_cursor;
    if (in_flight == 0) return 0;
    uint64_t index = real->watch.end_cursor + (skip < in_flight / 4 ? skip : in_flight / 4);
    return real->shared.ends[index % ROTA_VK_IN_FLIGHT_MAX];
}

/* Short submissions in quick succession are collected several at a time, at most GATHER_NS late: waking for
 * each would cost more than they do. */
static void choose_skip(rota_vk_real *real, uint64_t passed, uint64_t elapsed_ns, uint64_t nap_ns) {
    if (passed == 0) return;
    /* One that was seen to have ended after a nap ended in the midst of it, for all that is known. Taken to have ended
     * with it, works would never again be seen to be shorter than the nap that is chosen by what they take. */
    if (passed == 1) elapsed_ns -= nap_ns / 2;
    uint64_t each_ns = elapsed_ns / passed + 1;
    real->watch.each_ns = each_ns;
    real->watch.end_skip = (uint32_t)(GATHER_NS / each_ns); /* 0 where one takes longer */
}

/* A few submissions are in flight and the driver's wait would work: how long to sleep, from what one took of
 * late and how long ago the last one completed. */
static uint64_t until_due(const rota_vk_real *real, uint64_t since_ns) {
    uint64_t nap;
    if (real->watch.each_ns > since_ns + NEAR_NS)
        nap = real->watch.each_ns - since_ns - SPIN_NS / 2;
    else if (since_ns < real->watch.each_ns + SPIN_NS)
        nap = LOOK_ON;
    else
        nap = SPIN_NS + (since_ns - real->watch.each_ns) / 4;
    /* What is in flight may be shorter than what came before: late by no more than a quarter of that. */
    uint64_t longest = real->watch.each_ns / 4 > DUE_MAX_NS ? real->watch.each_ns / 4 : DUE_MAX_NS;
    if (longest > 4 * DUE_MAX_NS) longest = 4 * DUE_MAX_NS;
    return nap < longest ? nap : longest;
}

/* How long to sleep before the next look at the counters: with several submissions in flight a part of what
 * they will take. LOOK_ON: not at all, since a completion is due, or not to be slept through (spin_ns). 0: to
 * be left to the driver's wait. */
static uint64_t poll_period(rota_vk_device *device, uint64_t since_ns) {
    uint64_t period = 0;
    if (since_ns < device->options.spin_ns) return LOOK_ON;
    for (uint32_t i = 0; i < device->real_count; i++) {
        rota_vk_real *real = &device->reals[i];
        /* Pairs with publish. */
        uint64_t waiting = ra_load_acquire(&real->shared.end_published) - real->watch.end_cursor;
        if (waiting == 0) continue;
        /* Many: until half of them are done, which is what a submit thread without room waits for. */
        bool many = waiting >= POLL_MANY;
        uint64_t own = real->watch.each_ns * waiting / (many ? 2 : 4),
                 most = many ? 2 * POLL_MAX_NS : POLL_MAX_NS;
        if (own < GATHER_NS) own = GATHER_NS;
        if (own > most) own = most;
        if (waiting < POLL_FROM || real->watch.each_ns == 0) {
            if (!device->watch.wait_works) return 0;
            own = until_due(real, since_ns);
        }
        if (period == 0 || own < period) period = own;
    }
    return period;
}

/* While a loop is gone on with: its next run is with the device when this one ends, and lasts as long, so to be late by
 * a part of that costs nothing. */
static uint64_t until_run(uint64_t period, uint64_t since_ns) {
    const uint64_t nap = since_ns / 4;
    if (nap < SPIN_NS) return LOOK_ON;
    return nap < period ? nap : period;
}

static uint64_t choose_period(rota_vk_device *device, uint64_t since_ns) {
    const uint64_t longest_ns = rota_vk_semaphores_slice(device);
    uint64_t period = poll_period(device, since_ns);
    if (longest_ns && period > longest_ns) period = longest_ns;
    return period > LOOK_ON && rota_vk_is_going(device) ? until_run(period, since_ns) : period;
}

/* Waits until some real queue completes something more; VK_TIMEOUT after a slice. */
static VkResult wait_slice(rota_vk_device *device) {
    VkSemaphore semaphores[ROTA_VK_REALS_MAX];
    uint64_t values[ROTA_VK_REALS_MAX], slice_ns = device->options.diagnostics ? STUCK_NS : WAIT_SLICE_NS;
    uint32_t count = 0;
    for (uint32_t i = 0; i < device->real_count; i++) {
        rota_vk_real *real = &device->reals[i];
        uint64_t end = next_end(real, real->watch.end_skip);
        if (real->watch.end_skip && slice_ns > GATHER_NS)
            slice_ns = GATHER_NS; /* whatever the later ones do, the first is reported by then */
        if (!end) {
            /* Work may come to an idle queue meanwhile, so look again soon. (Waiting for a value that nothing
             * has been submitted for would do too, but drivers poll for those, and the validation layer takes
             * ten seconds.) */
            if (slice_ns > SHORT_SLICE_NS) slice_ns = SHORT_SLICE_NS;
            continue;
        }
        semaphores[count] = real->timeline;
        values[count++] = end;
    }
    if (count == 0) return VK_TIMEOUT;
    const uint64_t longest_ns = rota_vk_semaphores_slice(device);
    if (longest_ns && slice_ns > longest_ns) slice_ns = longest_ns;
    if (rota_vk_is_going(device) && slice_ns > SHORT_SLICE_NS)
        slice_ns = SHORT_SLICE_NS; /* may end meanwhile */
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .flags = count > 1 ? VK_SEMAPHORE_WAIT_ANY_BIT : 0,
        .semaphoreCount = count,
        .pSemaphores = semaphores,
        .pValues = values,
    };
    if (device->base.info.device_class !=
        ROTA_DEVICE_GPU) /* looking on would take cores from its own threads */
        return device->vk.WaitSemaphores(device->handle, &info, slice_ns);
    uint64_t begin = rota_clock_ns(), cpu = rota_thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    VkResult result = device->vk.WaitSemaphores(device->handle, &info, slice_ns);
    device->watch.waited_ns += rota_clock_ns() - begin;
    device->watch.waited_cpu_ns += rota_thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (device->watch.waited_ns >= JUDGED_NS) {
        device->watch.wait_works = device->watch.waited_cpu_ns * 4 > device->watch.waited_ns;
        device->watch.waited_ns = device->watch.waited_cpu_ns = 0;
    }
    return result;
}

/* Looks at the counters every LOOK_NS, at most for SPIN_NS, until one has moved. */
static void look_on(rota_vk_device *device) {
    uint64_t begin = rota_clock_ns(), now = begin;
    bool moved = false;
    while (!moved && now - begin < SPIN_NS) {
        for (uint32_t i = 0; i < device->real_count && !moved; i++) {
            uint64_t value = 0, end = next_end(&device->reals[i], 0);
            moved = end && (device->vk.GetSemaphoreCounterValue(device->handle, device->reals[i].timeline,
                                                                &value) != VK_SUCCESS ||
                            value >= end);
        }
        uint64_t next = (now = rota_clock_ns()) + LOOK_NS;
        while (!moved && now < next) {
            ra_pause();
            now = rota_clock_ns();
        }
    }
    ra_fetch_add_relaxed(&device->completer.spin_ns, now - begin);
}

/* Moves a logical queue on over the points whose works completed. */
static void report(rota_vk_device *device, uint32_t queue) {
    rota_vk_logical *logical = &device->logical[queue];
    uint64_t published = ra_load_acquire(&logical->published); /* pairs with publish */
    uint64_t tail = ra_load_relaxed(&logical->tail), reached = 0;
    while (tail != published) {
        const rota_vk_point *point = &logical->points[tail % ROTA_VK_HISTORY];
        /* Acquire: with the end of a work that was gone on with. */
        if (ra_load_relaxed(&device->reals[point->real].shared.completed) < ra_load_acquire(&point->sequence))
            break;
        if (point->may_fail) rota_vk_failures_report(device, point->may_fail, point->segment, point->cookie);
        reached = point->value;
        tail++;
    }
    if (!reached) return;
    ra_store_release(&logical->tail, tail); /* pairs with make_point_room: the points may be overwritten */
    if (device->host.advanced) device->host.advanced(device->host.user, queue, reached);
}

/* `elapsed_ns` after the last look at which something had completed, the last part of it a nap. */
static bool collect(rota_vk_device *device, uint64_t elapsed_ns, uint64_t nap_ns, uint64_t *out_completed) {
    bool room = false; /* what submit sleeps for is complete */
    device->watch.ended_seen =
        ra_load_seq_cst(&device->going.ended); /* first: what ends later is looked at again */
    for (uint32_t i = 0; i < device->real_count; i++) {
        rota_vk_real *real = &device->reals[i];
        uint64_t value = 0, submitted = ra_load_seq_cst(&real->shared.submitted);
        VkResult result = device->vk.GetSemaphoreCounterValue(device->handle, real->timeline, &value);
        /* Drivers may set every counter to its highest value when they lose the device. */
        if (result == VK_SUCCESS && value > submitted && value > ra_load_seq_cst(&real->shared.submitted))
            result = VK_ERROR_DEVICE_LOST;
        if (result != VK_SUCCESS) {
            rota_vk_lose(device, result, "vkGetSemaphoreCounterValue");
            return false;
        }
        /* Before `completed` moves: then the submit thread may write over the ends passed. */
        uint64_t passed = 0;
        for (uint64_t end = next_end(real, 0); end && end <= value; end = next_end(real, 0)) {
            real->watch.end_cursor++;
            passed++;
        }
        choose_skip(real, passed, elapsed_ns, nap_ns);
        *out_completed += passed;
        /* Releases to the submit thread's is_completed; seq_cst for wait_completed. */
        if (value > ra_load_relaxed(&real->shared.completed))
            ra_store_seq_cst(&real->shared.completed, value);
        uint64_t wanted = ra_load_seq_cst(&real->shared.room_sequence);
        room = room || (wanted && wanted <= value);
    }
    for (uint32_t i = 0; i < device->options.queue_count; i++) report(device, i);
    if (*out_completed) ra_store_relaxed(&device->moves, ra_load_relaxed(&device->moves) + 1);
    ra_fetch_add_seq_cst(&device->completer.progress, 1);
    if (room) rota_futex_wake(&device->completer.progress, INT32_MAX);
    rota_vk_going_completed(device, ra_load_relaxed(&device->reals[0].shared.completed));
    return true;
}

/* Nothing has completed since then. A driver whose answer comes after all that is in flight says nothing of that. */
static void look_for_stuck(rota_vk_device *device, uint64_t collected_ns) {
    const uint64_t now = rota_clock_ns();
    if (!device->options.diagnostics || device->physical.queries_wait || now - collected_ns < STUCK_NS / 2 ||
        now - device->watch.looked_ns < STUCK_NS / 2)
        return;
    device->watch.looked_ns = now;
    rota_vk_look_for_stuck(device);
}

/* A CPU that takes an interrupt for every submission is no place for rota's threads: exec/interrupts.h. */
static void watch_interrupts(rota_vk_device *device, uint64_t completed, uint64_t now_ns) {
    device->watch.unlooked += completed;
    if (device->watch.unlooked < UNLOOKED_MAX) return;
    device->watch.unlooked = 0;
    if (!rota_interrupts_look(&device->watch.interrupts, now_ns)) return;
    rota_thread_cpus_keep_off(&device->watch.thread_cpus, &device->watch.interrupts.busy);
    if (device->host.interrupted) device->host.interrupted(device->host.user, &device->watch.interrupts.busy);
}

static bool is_looked_for(void *user) {
    return ra_load_seq_cst(&((rota_vk_device *)user)->objects.look); /* with rota_vk_semaphore_look */
}

/* A device that is lost completes nothing more, but what failed on it reaches points of semaphores, which submits of
 * the application's wait for: until close. The last look is after that, for what was reached before. */
static void outlast(rota_vk_device *device) {
    while (ra_load_acquire(&device->lost) &&               /* pairs with rota_vk_lose */
           !ra_load_acquire(&device->completer.closing)) { /* pairs with close */
        const uint64_t nap_ns = rota_vk_semaphores_watch(device);
        rota_completer_sleep(&device->completer, is_looked_for, device,
                             rota_deadline_after(nap_ns ? nap_ns : OUTLAST_NS));
    }
    (void)rota_vk_semaphores_watch(device);
}

uint64_t rota_vk_own_cpu_ns(rota_exec_device *base) {
    return rota_completer_cpu_ns(&((rota_vk_device *)base)->completer);
}

void *rota_vk_complete_main(void *argument) {
    rota_vk_device *device = argument;
    (void)pthread_setname_np(pthread_self(), "rota-vk-done"); /* for who reads a profile */
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);           /* the usual 50 us would be most of a nap */
    rota_thread_cpus_begin(&device->watch.thread_cpus);
    const uint64_t spin_ns = device->options.spin_ns > SPIN_NS ? device->options.spin_ns : SPIN_NS;
    uint64_t collected_ns = rota_clock_ns();
    while (!ra_load_acquire(&device->lost)) { /* pairs with rota_vk_lose */
        const uint64_t nap_ns = rota_vk_semaphores_watch(device);
        rota_vk_going_look(device, rota_clock_ns());
        uint64_t completed = 0;
        if (has_news(device) && !collect(device, rota_clock_ns() - collected_ns, 0, &completed)) break;
        if (!in_flight(device)) {
            if (ra_load_acquire(&device->completer.closing)) break; /* pairs with close */
            if (nap_ns)
                rota_completer_sleep(&device->completer, has_work, device, rota_deadline_after(nap_ns));
            else
                rota_completer_rest(&device->completer, has_work, device, spin_ns);
            collected_ns = rota_clock_ns(); /* what comes now begins now */
            continue;
        }
        const uint64_t before_ns = rota_clock_ns(), period = choose_period(device, before_ns - collected_ns);
        VkResult result = VK_SUCCESS;
        if (period == LOOK_ON)
            look_on(device);
        else if (period)
            rota_nap_until(rota_deadline_after(period));
        else
            result = wait_slice(device);
        if (result == VK_TIMEOUT || period) {
            look_for_stuck(device, collected_ns);
            /* Close gave up waiting for the device. */
            if (ra_load_acquire(&device->completer.closing) == ROTA_COMPLETER_STOPS) break;
            bool gathering = false;
            for (uint32_t i = 0; i < device->real_count; i++) {
                gathering = gathering || device->reals[i].watch.end_skip;
                device->reals[i].watch.end_skip = 0;
            }
            if (!gathering && !period) continue;
        }
        if (result != VK_SUCCESS && result != VK_TIMEOUT) {
            rota_vk_lose(device, result, "vkWaitSemaphores");
            break;
        }
        uint64_t now_ns = rota_clock_ns();
        if (!collect(device, now_ns - collected_ns, period > LOOK_ON ? now_ns - before_ns : 0, &completed))
            break;
        if (completed) collected_ns = now_ns;
        watch_interrupts(device, completed, now_ns);
    }
    outlast(device);
    device->watch.is_settled = rota_vk_queues_settle(device);
    /* Last, and whatever came of the device: a point that was noted before is signalled, for a submit of the
     * application's to go on. Who still sees the runtime open notes points until then. */
    (void)rota_vk_semaphores_forget(device);
    rota_thread_cpus_end(&device->watch.thread_cpus);
    rota_completer_is_done(&device->completer);
    return NULL;
}
