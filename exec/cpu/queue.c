/* Logical queues: submission, waits, and timelines.
 *
 * A queue's works are linked in submission order. They start in that order: once one is *blocked* (a wait not
 * yet met) all later ones are too, which is what makes waits cumulative. While a queue has no blocked work
 * the submit thread starts works itself; otherwise the pump does. The pump also retires the completed prefix
 * of each queue, moves the timelines and tells the host.
 *
 * The pump is one thread at a time without being a lock: `events` counts requests; whoever takes it from zero
 * pumps, the others leave their event behind and go on with their work, and the pumping thread looks again
 * until it has answered all. Hence host.advanced is called by one thread at a time, in ascending order per
 * queue.
 *
 * Progress: submit is lock-free; it allocates only when more works are in flight than ever before, but for fewer than
 * WORKS_PER_RETURN that the pump has yet to give back, or for a large block: of free works some keep theirs, and the
 * others give it back. */
#include "exec/cpu/queue.h"

#include <stdlib.h>
#include <string.h>

#include "exec/cpu/device.h"
#include "exec/cpu/instance.h"

/* The pump gives works back so many at a time, of all queues together: what it keeps is less than a chunk, however many
 * queues were ever used and fell idle. */
enum { WORKS_PER_CHUNK = 128, WORKS_PER_RETURN = 32 };
/* Works that are ready are shown to workers so many at a time, or at the end of the call. */
enum { WORKS_PER_INJECTION = 8 };
/* Free works that keep the memory for large blocks and many copies: beyond these a burst's is given back. */
#define LARGE_KEPT 64u

typedef struct work_chunk {
    struct work_chunk *next;
    _Alignas(64) rota_cpu_work works[WORKS_PER_CHUNK];
} work_chunk;

/* ---- Pool ---- */

static bool grow_pool(rota_cpu_device *device) {
    work_chunk *chunk = aligned_alloc(64, sizeof *chunk);
    if (!chunk) return false;
    memset(chunk, 0, sizeof *chunk);
    chunk->next = device->works.chunks;
    device->works.chunks = chunk;
    for (uint32_t i = 0; i < WORKS_PER_CHUNK; i++) {
        atomic_init(&chunk->works[i].next,
                    i + 1 < WORKS_PER_CHUNK ? &chunk->works[i + 1] : device->works.free);
        chunk->works[i].task.kind = ROTA_CPU_TASK_WORK;
    }
    device->works.free = chunk->works;
    return true;
}

static void give_memory(rota_cpu_work *work) {
    free(work->large_block);
    free(work->large_copies);
    work->large_block = NULL;
    work->large_copies = NULL;
    work->large_words = work->large_copy_count = 0;
    work->keeps_memory = false;
}

/* True: there are works, for which nothing had to be allocated. */
static bool has_works(rota_cpu_device *device) {
    if (device->works.free) return true;
    /* Pairs with the swap in give_back. */
    if (ra_load_relaxed(&device->recycled.free))
        device->works.free = ra_exchange_acq_rel(&device->recycled.free, NULL);
    return device->works.free != NULL;
}

/* One of those that there are. */
static rota_cpu_work *take_work(rota_cpu_device *device) {
    rota_cpu_work *work = device->works.free;
    device->works.free = ra_load_relaxed(&work->next);
    if (work->cookie) ra_prefetch(work->cookie); /* it lies where the pump was */
    ra_store_relaxed(&work->next, NULL);
    ra_store_relaxed(&work->done, 0);
    if (work->keeps_memory) (void)ra_fetch_add_relaxed(&device->recycled.large_kept, UINT32_MAX);
    return work;
}

/* Pump only. Several pushers are excluded, so the head cannot come back with another successor in between. */
static void give_back(rota_cpu_device *device) {
    rota_cpu_works_pump *works = &device->returning;
    rota_cpu_work *head = ra_load_relaxed(&device->recycled.free);
    do {
        ra_store_relaxed(&works->last->next, head);
    } while (!ra_cas_acq_rel(&device->recycled.free, &head,
                             works->first)); /* pairs with the exchange in has_works */
    works->count = 0;
}

/* Pump only. */
static void recycle(rota_cpu_device *device, rota_cpu_work *work) {
    rota_cpu_works_pump *works = &device->returning;
    /* Counted before it is free: take_work never takes off what was not added. */
    if (work->keeps_memory && ra_fetch_add_relaxed(&device->recycled.large_kept, 1) >= LARGE_KEPT) {
        (void)ra_fetch_add_relaxed(&device->recycled.large_kept, UINT32_MAX);
        give_memory(work);
    }
    if (works->count == 0)
        works->last = work;
    else
        ra_store_relaxed(&work->next, works->first);
    works->first = work;
    rota_cpu_work **entry = &works->newest[works->newest_count++ % ROTA_CPU_WORKS_UPCOMING];
    work->cookie = *entry;
    *entry = work;
    /* One that keeps memory at once: LARGE_KEPT counts those that there are to take. */
    if (++works->count == WORKS_PER_RETURN || work->keeps_memory) give_back(device);
}

rota_status rota_cpu_queues_init(rota_cpu_device *device) {
    for (uint32_t i = 0; i < device->queue_count; i++) {
        if (!has_works(device) && !grow_pool(device))
            return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for the works of %u queues",
                             device->queue_count);
        rota_cpu_work *stub = take_work(device);
        atomic_init(&stub->done, 1);
        device->queues[i].submit.tail = device->queues[i].pump.retired = stub;
    }
    return ROTA_OK;
}

void rota_cpu_queues_free(rota_cpu_device *device) {
    for (work_chunk *chunk = device->works.chunks; chunk;) {
        work_chunk *next = chunk->next;
        for (uint32_t i = 0; i < WORKS_PER_CHUNK; i++) give_memory(&chunk->works[i]);
        free(chunk);
        chunk = next;
    }
    device->works.chunks = NULL;
}

/* ---- Submission ---- */

/* Keeps a wait unless the timeline has reached it or an earlier work of this queue waits for as much. */
static void add_wait(rota_cpu_device *device, rota_cpu_work *work, uint32_t queue, uint64_t value) {
    uint64_t *waited = &device->queues[work->queue].submit.waited[queue];
    if (value <= *waited) return;
    *waited = value;
    /* Pairs with the store in retire: what the awaited works wrote is visible. */
    if (ra_load_acquire(&device->queues[queue].shared.timeline) >= value) return;
    for (uint32_t i = 0; i < work->wait_count; i++) {
        if (work->waits[i].queue == queue) {
            work->waits[i].value = value;
            return;
        }
    }
    work->waits[work->wait_count++] = (rota_cpu_wait){queue, value};
}

static bool waits_met(rota_cpu_device *device, const rota_cpu_work *work) {
    for (uint32_t i = 0; i < work->wait_count; i++) {
        /* Pairs with the store in retire; seq_cst for publish_blocked. */
        if (ra_load_seq_cst(&device->queues[work->waits[i].queue].shared.timeline) < work->waits[i].value)
            return false;
    }
    return true;
}

/* What one call of submit has made and nobody sees yet. */
typedef struct submitted {
    uint32_t ready; /* put in the injection deque */
    uint32_t
        queues; /* bits of those with works that are blocked; and for publish_blocked the first such of each: */
    rota_cpu_blocked first[ROTA_EXEC_QUEUES_MAX];
} submitted;

/* Hands the queue's gate to the pump, or adds to what the pump already holds back; seen with publish_blocked. */
static void block_work(submitted *made, rota_cpu_queue *queue, rota_cpu_work *work, bool is_open) {
    queue->submit.blocked++;
    if (is_open) {
        queue->shared.blocked_head = work;
        queue->shared.blocked_head_number = queue->submit.blocked;
    }
    if (made->queues >> work->queue & 1u) return;
    made->queues |= 1u << work->queue;
    made->first[work->queue] =
        (rota_cpu_blocked){queue->submit.blocked, work->wait_count ? work->waits[0] : (rota_cpu_wait){0, 0},
                           work->wait_count != 0, is_open};
}

/* Shows the pump what is blocked on a queue, all at once. Of what this call blocked there only the first may be one
 * that nobody will look at: the others come after it, and whoever starts it goes on with them. By then works may be
 * started, completed and recycled at any time: `first` is a copy. */
static void publish_blocked(rota_cpu_device *device, rota_cpu_queue *queue, const rota_cpu_blocked *first) {
    /* Publishes the works and blocked_head to release_blocked. seq_cst, here and in the loads that follow:
     * either the pump, which stores a timeline or `released` and then loads this count, sees the new works, or
     * we see what it stored and ask for another look. */
    ra_store_seq_cst(&queue->shared.blocked_published, queue->submit.blocked);
    if (first->has_wait &&
        ra_load_seq_cst(&device->queues[first->wait.queue].shared.timeline) < first->wait.value)
        return;
    if (!first->is_open && ra_load_seq_cst(&queue->shared.released) + 1 < first->number) return;
    ra_store_seq_cst(&device->pump.kick, 1);
    rota_cpu_notify(device, NULL);
}

static void publish(rota_cpu_device *device, submitted *made) {
    if (made->ready) rota_cpu_inject(device, made->ready);
    made->ready = 0;
    for (; made->queues; made->queues &= made->queues - 1) {
        const uint32_t q = (uint32_t)__builtin_ctz(made->queues);
        publish_blocked(device, &device->queues[q], &made->first[q]);
    }
}

/* What the call has made is shown before anything is allocated, which may take long, or for ever: it may be other
 * callers', and waits for no work that comes later in the call. */
static rota_cpu_work *work_for(rota_cpu_device *device, submitted *made) {
    if (!has_works(device)) {
        publish(device, made);
        if (!grow_pool(device)) return NULL;
    }
    return take_work(device);
}

static bool copy_block(rota_cpu_device *device, submitted *made, rota_cpu_work *work, const uint64_t *block,
                       uint32_t words) {
    if (words == 0) return true;
    uint64_t *to = work->inline_block;
    if (words > ROTA_CPU_INLINE_WORDS) {
        if (work->large_words < words) {
            publish(device, made); /* first: see work_for */
            uint64_t *larger = realloc(work->large_block, (size_t)words * sizeof *larger);
            if (!larger) return false;
            work->large_block = larger;
            work->large_words = words;
            work->keeps_memory = true;
        }
        to = work->large_block;
    }
    memcpy(to, block, (size_t)words * sizeof *to);
    return true;
}

static bool take_copies(rota_cpu_device *device, submitted *made, rota_cpu_work *work,
                        const rota_exec_copy *copies, uint32_t count) {
    rota_cpu_copy *to = &work->one_copy;
    work->copy_count = count;
    if (count > 1) {
        if (work->large_copy_count < count) {
            publish(device, made); /* first: see work_for */
            rota_cpu_copy *larger = realloc(work->large_copies, (size_t)count * sizeof *larger);
            if (!larger) return false;
            work->large_copies = larger;
            work->large_copy_count = count;
            work->keeps_memory = true;
        }
        to = work->large_copies;
    }
    for (uint32_t i = 0; i < count; i++)
        to[i] = (rota_cpu_copy){(uint8_t *)copies[i].destination->host + copies[i].destination_offset,
                                (const uint8_t *)copies[i].source->host + copies[i].source_offset,
                                (size_t)copies[i].size_bytes};
    return true;
}

static rota_status submit_one(rota_cpu_device *device, const rota_exec_work *in, submitted *made) {
    rota_cpu_work *work = work_for(device, made);
    rota_exec_instance *instance = in->instance;
    if (!work || !copy_block(device, made, work, in->block, instance ? instance->program->block_words : 0) ||
        !take_copies(device, made, work, in->copies, instance ? 0 : in->copy_count))
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for another work in flight");
    rota_cpu_queue *queue = &device->queues[in->queue];
    /* Before the work is anywhere: who completes it, or answers for it, looks at its queue. */
    if (ra_load_relaxed(&device->pump.queues_used) <= in->queue)
        ra_store_seq_cst(&device->pump.queues_used, in->queue + 1);
    work->instance = instance;
    if (!instance && (work->tells = in->left_out != NULL))
        work->one_copy.source = (const uint8_t *)in->left_out;
    work->cookie = in->cookie;
    work->signal_value = in->signal_value;
    work->segment = in->segment;
    work->queue = (uint8_t)in->queue;
    work->wait_count = 0;
    for (uint32_t i = 0; i < in->wait_count; i++)
        add_wait(device, work, in->waits[i].queue, in->waits[i].value);
    if (instance && !instance->program->segments[in->segment].serial) {
        /* The run's counters serve one work at a time. */
        rota_cpu_run *run = &instance->runs[in->segment];
        if (run->last_signal) add_wait(device, work, run->last_queue, run->last_signal);
        run->last_signal = in->signal_value;
        run->last_queue = in->queue;
    }
    ra_store_release(&queue->submit.tail->next, work); /* pairs with the load in retire */
    queue->submit.tail = work;
    /* Pairs with the store in release_blocked: all works blocked before have been started. */
    bool is_open = ra_load_acquire(&queue->shared.released) == queue->submit.blocked;
    if (!is_open || work->wait_count != 0)
        block_work(made, queue, work, is_open);
    else if (!rota_cpu_put(device, &work->task, &made->ready) || made->ready == WORKS_PER_INJECTION)
        publish(device, made);
    return ROTA_OK;
}

rota_status rota_cpu_submit(rota_exec_device *base, const rota_exec_work *works, uint32_t count) {
    rota_cpu_device *device = rota_cpu_device_of(base);
    submitted made; /* of `first` what `queues` says */
    made.ready = made.queues = 0;
    for (uint32_t i = 0; i < count; i++) {
        /* No work runs any more, and the host is told of the loss by the last worker that leaves its command:
         * as long as one may still read or write the caller's memory, the host must not end what it runs. */
        if (ra_load_relaxed(&device->end.lost)) return ROTA_OK;
        /* Without memory works may be missing for ever, and no timeline may pass them. */
        if (submit_one(device, &works[i], &made) != ROTA_OK) rota_cpu_lose(device, rota_last_error());
    }
    publish(device, &made);
    return ROTA_OK;
}

/* ---- Pump ---- */

/* Moves the timeline of one queue over the completed prefix. */
static void retire(rota_cpu_device *device, uint32_t index) {
    rota_cpu_queue *queue = &device->queues[index];
    uint64_t value = 0;
    for (;;) {
        rota_cpu_work *next = ra_load_acquire(&queue->pump.retired->next); /* pairs with submit_one */
        if (!next || !ra_load_acquire(&next->done)) break;                 /* pairs with rota_cpu_complete */
        value = next->signal_value;
        if (queue->pump.retired == queue->pump.last_released)
            queue->pump.is_last_retired = true;
        else
            recycle(device, queue->pump.retired);
        queue->pump.retired = next;
    }
    if (value == 0) return;
    /* Pairs with add_wait and waits_met; seq_cst for publish_blocked. */
    ra_store_seq_cst(&queue->shared.timeline, value);
    if (!ra_load_relaxed(&device->end.stop) && !ra_load_relaxed(&device->end.lost))
        device->host.advanced(device->host.user, index, value);
}

/* A work that was blocked may start: the pump's own worker runs the newest next, as waking another would only move it
 * there; the others it shows, each when the next one comes, so that the oldest is seen first. True if it is empty and
 * complete with that. */
static bool start_blocked(rota_cpu_worker *worker, rota_cpu_work *work) {
    if (!work->instance && work->copy_count == 0 && !work->tells) {
        ra_store_release(&work->done, 1); /* pairs with the load in retire */
        return true;
    }
    rota_cpu_show_handed(worker);
    worker->handed = &work->task;
    return false;
}

/* Starts the blocked works of one queue whose waits are met, of those that are published when it begins. True if the
 * pump is to look again: one was empty and is complete with that, or more were published since. */
static bool release_blocked(rota_cpu_worker *worker, uint32_t index) {
    rota_cpu_device *device = worker->device;
    rota_cpu_queue *queue = &device->queues[index];
    const uint64_t first = ra_load_relaxed(&queue->shared.released);        /* only the pump writes it */
    const uint64_t end = ra_load_seq_cst(&queue->shared.blocked_published); /* see publish_blocked */
    uint64_t released = first;
    bool completed = false;
    while (released < end) {
        /* The next blocked work: where the gate was shut, else behind the last one released. */
        rota_cpu_work *last = queue->pump.last_released;
        rota_cpu_work *work = queue->shared.blocked_head_number == released + 1
                                  ? queue->shared.blocked_head
                                  : ra_load_acquire(&last->next);
        if (!waits_met(device, work)) break;
        released++;
        queue->pump.last_released = work; /* kept out of the pool: its successor may be blocked */
        if (queue->pump.is_last_retired) recycle(device, last);
        queue->pump.is_last_retired = false;
        if (start_blocked(worker, work)) completed = true;
    }
    if (released == first) return false;
    /* Pairs with the loads in submit_one and publish_blocked. Once for all: the gate is open where this has come to all
     * that were ever blocked, of which there are `end` or more, so that a store on the way there opens nothing. */
    ra_store_seq_cst(&queue->shared.released, released);
    /* Where not all could start, who moves the timeline that the next one waits for looks again. Else what was
     * published since the count was loaded is looked for after the store: see publish_blocked. */
    return completed || (released == end && ra_load_seq_cst(&queue->shared.blocked_published) != end);
}

void rota_cpu_pump(rota_cpu_worker *worker) {
    rota_cpu_device *device = worker->device;
    if (ra_fetch_add_acq_rel(&device->pump.events, 1) != 0) return;
    uint32_t seen = 1;
    do {
        bool again;
        do {
            /* What the last turn handed to this worker: the pump goes on, for as long as works come that are complete
             * once they are started, or others leave events, and meanwhile another worker may run it. So what nobody
             * sees is one work at most, and that for a turn at most, which is as long as what was published when it
             * began. */
            rota_cpu_show_handed(worker);
            uint32_t queues = ra_load_acquire(&device->pump.queues_used); /* pairs with submit_one */
            for (uint32_t i = 0; i < queues; i++) retire(device, i);
            again = false;
            /* After the timelines were stored, as the count of blocked works: see publish_blocked. */
            queues = ra_load_seq_cst(&device->pump.queues_used);
            for (uint32_t i = 0; i < queues; i++) again |= release_blocked(worker, i);
        } while (again);
        seen = ra_fetch_add_acq_rel(&device->pump.events, 0 - seen) -
               seen; /* pairs with itself in all who leave an event, and hands `returning` on */
    } while (seen != 0);
}

void rota_cpu_complete(rota_cpu_worker *worker, rota_cpu_work *work) {
    ra_store_release(&work->done, 1); /* pairs with the load in retire: the work's writes are visible */
    rota_cpu_pump(worker);
}
