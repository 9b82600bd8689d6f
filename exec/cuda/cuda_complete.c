/* The completion thread: looks at the oldest fences of the queues and reports what the queues reached. Between
 * looks it naps, as long as a fence took of late allows; asleep on a futex while nothing is in flight.
 *
 * Not cuEventSynchronize: it waits for one queue while another's works complete, has no deadline, and with
 * the flag that keeps it from spinning it returns 44 to 141 us late (H200, driver 580); naps 12 to 65 us, for
 * about the same CPU time. Nor a counter in pinned memory that the stream writes: that costs 2 us of device
 * time and 1.3 us of CPU for each fence, an event 0 and 0.3. */
#include "exec/cuda/cuda_complete.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/hash.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_halt.h"
#include "exec/cuda/cuda_loops.h"
#include <stdio.h>
#include <sys/prctl.h>

/* After the last completion, and while a fence is younger than this, the thread keeps looking: a sleep and the
 * waking from it cost more. */
#define SPIN_NS 20000ull
#define NAP_MIN_NS 4000ull
#define NAP_MAX_NS 500000ull
/* What another device waits for has no usual time: parts of a plan between two such waits differ. So the naps are as
 * long as a small part of what it has taken so far. */
#define NAP_AWAITED_NS 40000ull
/* With this many fences in flight the queue has work for a while, and looking now and then is enough. */
#define MANY_MARKS 3u
#define MANY_NAP_MIN_NS 40000ull
/* Around the time at which the last fence in flight is expected, by a sixteenth of what it takes and within
 * these bounds, the thread keeps looking: whoever waits has nothing else to do, and a nap ends late by what
 * waking up takes. */
#define NEAR_MIN_NS 20000ull
#define NEAR_MAX_NS 80000ull
#define TIMER_SLACK_NS 1000ul

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high) {
    return value < low ? low : value > high ? high : value;
}

static bool in_flight(rota_cuda_device *device) {
    for (uint32_t i = 0; i < device->options.queue_count; i++)
        if (ra_load_seq_cst(&device->queues[i].published) != ra_load_relaxed(&device->queues[i].tail))
            return true;
    return false;
}

static bool has_work(void *device) {
    return in_flight(device);
}

static rota_cuda_usual *usual_at(rota_cuda_queue *queue, const void *segment) {
    return &queue->usuals[rota_hash_pointer(segment) & (ROTA_CUDA_USUALS - 1)];
}

/* What it takes by all that is known: what its segment took, or any fence of the queue. */
static uint64_t usual_ns(rota_cuda_queue *queue, const rota_cuda_fence *fence) {
    const rota_cuda_usual *usual = usual_at(queue, fence->segment);
    return fence->segment && usual->segment == fence->segment ? usual->each_ns : queue->each_ns;
}

/* Down at once and up slowly: what came between (another process's turn) must not make the thread sleep through the end
 * of what takes its usual time. */
static uint64_t learned(uint64_t usual_ns, uint64_t took_ns) {
    return took_ns < usual_ns || !usual_ns ? took_ns : (usual_ns * 3 + took_ns) / 4;
}

static void learn(rota_cuda_queue *queue, const void *segment, uint64_t took_ns) {
    rota_cuda_usual *usual = usual_at(queue, segment);
    queue->each_ns = learned(queue->each_ns, took_ns);
    if (!segment) return;
    if (usual->segment != segment) *usual = (rota_cuda_usual){.segment = segment};
    usual->each_ns = learned(usual->each_ns, took_ns);
}

/* How long a queue needs no look; 0: keep looking. UINT64_MAX: nothing is in flight on it. */
static uint64_t nap_of(rota_cuda_queue *queue, uint64_t spin_ns, uint64_t now_ns) {
    uint64_t tail = ra_load_relaxed(&queue->tail);
    uint64_t waiting = ra_load_acquire(&queue->published) - tail; /* pairs with set_fence */
    if (waiting == 0) return UINT64_MAX;
    const rota_cuda_fence *fence = &queue->fences[tail % ROTA_CUDA_FENCES];
    uint64_t begin = fence->submitted_ns;
    if (begin < queue->completed_ns) begin = queue->completed_ns;
    uint64_t each = usual_ns(queue, fence);
    if (queue->script_state.since_ns) { /* the next of many that a script launches */
        begin = queue->script_state.since_ns;
        each = queue->script_state.each_ns;
        waiting = 1;
    }
    const uint64_t age = now_ns > begin ? now_ns - begin : 0;
    if (fence->is_awaited && age >= SPIN_NS) return clamp(age / 32, NAP_MIN_NS, NAP_AWAITED_NS);
    if (waiting >= MANY_MARKS && each) return clamp(each / 2, MANY_NAP_MIN_NS, NAP_MAX_NS);
    if ((age < SPIN_NS && each < 2 * SPIN_NS) || age < spin_ns) return 0;
    /* Up to shortly before it is expected, but never much longer than it has taken so far: it may be another
     * kind of work than the last. Then in steps that grow with how long it is overdue: what takes a little longer
     * than usual is seen soon after it ends. */
    uint64_t near = clamp(each / 16, NEAR_MIN_NS, NEAR_MAX_NS);
    uint64_t early = each > near ? each - near : 0;
    if (age < early) return clamp(age / 2 < early - age ? age / 2 : early - age, NAP_MIN_NS, NAP_MAX_NS);
    if (age < each + near) return waiting == 1 ? 0 : clamp(each / 32, NAP_MIN_NS, NAP_MAX_NS);
    const uint64_t overdue = (age - each) / 4, step = age / 16;
    return clamp(overdue < step ? overdue : step, NAP_MIN_NS, NAP_MAX_NS);
}

/* Whether all that the fence stands for is complete; what the host runs of it goes on. False: the device is lost. */
static bool look_at_fence(rota_cuda_device *device, rota_cuda_queue *queue, const rota_cuda_fence *fence,
                          bool *out_moved, bool *out_complete) {
    if (fence->script) {
        if (rota_cuda_script_advance(device, queue, fence, out_moved, out_complete) == ROTA_OK) return true;
        char message[ROTA_ERROR_MESSAGE_MAX];
        snprintf(message, sizeof message, "%s", rota_last_error());
        rota_cuda_give_up(device, false, message);
        return false;
    }
    const CUresult result = device->cu->EventQuery(fence->event);
    *out_complete = result == CUDA_SUCCESS;
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return true;
    rota_cuda_lose(device, result, "cuEventQuery");
    return false;
}

/* Moves a queue on over the fences that are complete. */
static bool report(rota_cuda_device *device, uint32_t index, bool *out_moved) {
    rota_cuda_queue *queue = &device->queues[index];
    uint64_t tail = ra_load_relaxed(&queue->tail), first = tail, reached = 0;
    uint64_t published = ra_load_seq_cst(&queue->published); /* acquires the fences: pairs with set_fence */
    uint64_t begin = 0;
    const void *segment = NULL;
    while (tail != published) {
        const rota_cuda_fence *fence = &queue->fences[tail % ROTA_CUDA_FENCES];
        bool is_complete;
        if (!look_at_fence(device, queue, fence, out_moved, &is_complete)) return false;
        if (!is_complete) break;
        if (fence->loops) rota_cuda_loops_report(device, fence);
        if (tail == first) begin = fence->submitted_ns;
        /* Of several that are seen at once nobody knows which took how long. */
        segment = tail == first ? fence->segment : NULL;
        reached = fence->value;
        tail++;
    }
    if (tail == first) return true;
    uint64_t now = rota_clock_ns();
    if (begin < queue->completed_ns) begin = queue->completed_ns;
    uint64_t took = now > begin ? (now - begin) / (tail - first) : 0;
    learn(queue, segment, took);
    queue->completed_ns = now;
    /* Releases to set_fence and find_fence: those fences may be written over, their works are complete. */
    ra_store_seq_cst(&queue->tail, tail);
    *out_moved = true;
    if (device->host.advanced) device->host.advanced(device->host.user, index, reached);
    return true;
}

/* Loops in flight are told to end where the host skips them, or the device is closed. */
static void look_at_loops(rota_cuda_device *device) {
    if (ra_load_acquire(&device->completer.closing) != ROTA_COMPLETER_WORKS) /* pairs with close */
        rota_cuda_halt(device);
    /* Acquire: what was cancelled before is asked for. */
    if (!device->host.poison_active || !ra_load_acquire(device->host.poison_active)) return;
    for (uint32_t i = 0; i < device->options.queue_count; i++) {
        const rota_cuda_queue *queue = &device->queues[i];
        const uint64_t published = ra_load_seq_cst(&queue->published); /* pairs with set_fence */
        for (uint64_t f = ra_load_relaxed(&queue->tail); f != published; f++) {
            const rota_cuda_fence *fence = &queue->fences[f % ROTA_CUDA_FENCES];
            if (fence->loops) rota_cuda_loops_look(device, fence);
        }
    }
}

static bool look(rota_cuda_device *device, bool *out_moved) {
    *out_moved = false;
    if (device->base.caps.runs_conditionals) look_at_loops(device);
    for (uint32_t i = 0; i < device->options.queue_count; i++)
        if (!report(device, i, out_moved)) return false;
    if (!*out_moved) return true;
    ra_fetch_add_seq_cst(&device->completer.progress, 1);
    if (ra_load_seq_cst(&device->waits.room_wanted)) rota_futex_wake(&device->completer.progress, INT32_MAX);
    return true;
}

static uint64_t fences_published(rota_cuda_device *device) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < device->options.queue_count; i++)
        sum += ra_load_seq_cst(&device->queues[i].published);
    return sum;
}

/* A nap ends with fences that came after so many. */
typedef struct nap_end {
    rota_cuda_device *device;
    uint64_t seen;
} nap_end;

static bool fences_came(void *user) {
    const nap_end *own = user;
    return fences_published(own->device) != own->seen;
}

/* Unless fences come and say so (wake_completion). */
static void nap_until(rota_cuda_device *device, uint64_t seen, uint64_t until_ns) {
    nap_end own = {device, seen};
    ra_store_relaxed(&device->waits.nap_until_ns, until_ns);
    rota_completer_sleep(&device->completer, fences_came, &own, until_ns);
}

static void sleep_until_work(rota_cuda_device *device) {
    const uint64_t spin_ns = device->options.spin_ns > SPIN_NS ? device->options.spin_ns : SPIN_NS;
    ra_store_relaxed(&device->waits.nap_until_ns, 0);
    rota_completer_rest(&device->completer, has_work, device, spin_ns);
}

/* False: there is no time to rest. */
static bool rest(rota_cuda_device *device) {
    uint64_t seen = fences_published(device), now = rota_clock_ns(), nap = UINT64_MAX;
    for (uint32_t i = 0; i < device->options.queue_count; i++) {
        uint64_t own = nap_of(&device->queues[i], device->options.spin_ns, now);
        if (own < nap) nap = own;
    }
    if (nap == 0) return false;
    if (nap != UINT64_MAX) nap_until(device, seen, now + nap);
    return true;
}

uint64_t rota_cuda_own_cpu_ns(rota_exec_device *base) {
    return rota_completer_cpu_ns(&((rota_cuda_device *)base)->completer);
}

void *rota_cuda_complete_main(void *argument) {
    rota_cuda_device *device = argument;
    (void)pthread_setname_np(pthread_self(), "rota-cuda-done"); /* for who reads a profile */
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);    /* without it naps end 50 us late */
    CUresult entered = rota_cuda_push(device);
    if (entered != CUDA_SUCCESS) rota_cuda_lose(device, entered, "cuCtxPushCurrent");
    while (!ra_load_acquire(&device->lost)) { /* pairs with rota_cuda_lose */
        if (!in_flight(device)) {
            if (ra_load_acquire(&device->completer.closing)) break; /* pairs with close */
            sleep_until_work(device);
            continue;
        }
        /* Close gave up waiting for the device. */
        if (ra_load_acquire(&device->completer.closing) == ROTA_COMPLETER_STOPS) break;
        uint64_t begin = rota_clock_ns();
        bool moved;
        if (!look(device, &moved)) break;
        if (!rest(device) && !moved)
            ra_fetch_add_relaxed(&device->completer.spin_ns, rota_clock_ns() - begin);
    }
    if (entered == CUDA_SUCCESS) rota_cuda_leave(device);
    rota_completer_is_done(&device->completer);
    return NULL;
}
