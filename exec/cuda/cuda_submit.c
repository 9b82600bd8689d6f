/* Submission: works put on their queues' streams in order, with fences behind them. One thread per device;
 * nothing is allocated but where a library node has values of its arguments for the first time, and what the
 * driver does to rewrite a graph's kernels (cuda_steady.c). See cuda_device.h for fences. */
#include "exec/cuda/cuda_submit.h"
#include "base/clock.h"
#include "base/futex.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_loops.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_instance.h"
#include "exec/cuda/cuda_names.h"
#include "exec/cuda/cuda_stream.h"
#include <stdio.h>
#include <string.h>

/* A full device that completes nothing for this long is taken for dead: submit must end (P2), and a kernel is
 * not expected to run for minutes. */
#define WAIT_SLICE_NS (20ull * 1000000ull)
/* A nap of the completion thread is cut short for new work on an idle queue if it would last longer: waking
 * costs the submit thread several microseconds. */
#define NAP_LEFT_NS 50000u

/* ---- Fences ---- */

/* Whether all that is in flight comes after streams of the application's that are not there yet: it is those that
 * nothing gets on for. A work that hangs is not excused by a stream that waits for it: what such a stream has in front
 * of it was there before, and so is of another queue, or in front of the queue's oldest fence. */
static bool is_behind_streams(rota_cuda_device *device) {
    for (uint32_t q = 0; q < device->options.queue_count; q++) {
        const rota_cuda_queue *queue = &device->queues[q];
        const uint64_t tail =
            ra_load_acquire(&queue->tail); /* pairs with report: that one is not written any more */
        if (tail != queue->head &&
            !rota_cuda_stream_is_awaited(device, queue->fences[tail % ROTA_CUDA_FENCES].followed))
            return false;
    }
    return true;
}

/* Sleeps until the completion thread moves on what it counts from this value, as with the oldest fence of a queue. */
static rota_status wait_for_room(rota_cuda_device *device, const _Atomic uint64_t *counter, uint64_t value) {
    uint32_t seen = ra_load_seq_cst(&device->completer.progress);
    uint64_t last_progress = rota_clock_ns();
    rota_status status = ROTA_OK;
    while (status == ROTA_OK) {
        /* Stored before it is looked at; the completion thread does it the other way round, both seq_cst. */
        ra_store_seq_cst(&device->waits.room_wanted, 1);
        if (ra_load_seq_cst(counter) != value) break;
        if (ra_load_acquire(&device->lost)) { /* pairs with rota_cuda_lose */
            status = rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
            break;
        }
        rota_futex_wait(&device->completer.progress, seen, rota_deadline_after(WAIT_SLICE_NS));
        /* Before the look, and progress is later than its look: however long the thread stands in between, what it
         * counts is time in which there was none. */
        const uint64_t now = rota_clock_ns();
        const uint32_t progress = ra_load_seq_cst(&device->completer.progress);
        if (progress != seen || is_behind_streams(device))
            last_progress = rota_clock_ns();
        else if (now > last_progress + device->bounds.stall_ns)
            status = rota_cuda_lose(device, CUDA_ERROR_NOT_READY, "no work completed for two minutes");
        seen = progress;
    }
    ra_store_relaxed(&device->waits.room_wanted, 0);
    return status;
}

static void wake_completion(rota_cuda_device *device, bool was_idle, uint64_t now_ns) {
    /* seq_cst, as is the store of `published` before: the thread sees the fence, or this sees it asleep. */
    bool asleep = ra_load_seq_cst(&device->completer.sleeping);
    uint64_t nap = ra_load_relaxed(&device->waits.nap_until_ns);
    if (!asleep || (nap && !(was_idle && nap > now_ns + NAP_LEFT_NS))) return;
    rota_completer_wake(&device->completer);
}

/* An event behind everything that the queue was given. */
static rota_status set_fence(rota_cuda_device *device, rota_cuda_queue *queue) {
    if (queue->fenced_value == queue->last_value) return ROTA_OK;
    uint64_t tail =
        ra_load_acquire(&queue->tail); /* pairs with report: the thread is done with those fences */
    if (queue->head - tail >= device->bounds.in_flight_max) {
        ROTA_TRY(wait_for_room(device, &queue->tail, tail));
        tail = ra_load_acquire(&queue->tail);
    }
    rota_cuda_fence *fence = &queue->fences[queue->head % ROTA_CUDA_FENCES];
    if (!fence->event)
        ROTA_TRY(rota_cuda_check(device, device->cu->EventCreate(&fence->event, CU_EVENT_DISABLE_TIMING),
                                 "cuEventCreate"));
    /* Before the event, so that a queue that is through has nothing left to signal. */
    if (queue->timeline)
        ROTA_TRY(rota_cuda_timeline_reach(device, queue->stream, queue->timeline, queue->last_value));
    queue->timeline = NULL;
    ROTA_TRY(rota_cuda_check(device, device->cu->EventRecord(fence->event, queue->stream), "cuEventRecord"));
    fence->value = queue->last_value;
    fence->loops = queue->loops;
    fence->launch = queue->loops ? queue->loops->launched : 0;
    fence->cookie = queue->cookie;
    fence->is_awaited = queue->is_awaited;
    fence->segment = queue->unfenced == 1 ? queue->segment : NULL;
    queue->loops = NULL;
    fence->script = queue->script;
    fence->script_launch = queue->script ? queue->script->own->launched : 0;
    queue->script = NULL;
    queue->is_awaited = false;
    fence->followed = queue->followed;
    fence->submitted_ns = rota_clock_ns();
    queue->fenced_value = queue->last_value;
    queue->unfenced = 0;
    queue->head++;
    /* Released by the next two: who finds the value finds that it is a script's. */
    if (fence->script) ra_store_relaxed(&queue->scripted_head, queue->head);
    ra_store_seq_cst(&queue->published, queue->head); /* releases the fence to the completion thread */
    ra_store_release(&queue->published_value, queue->fenced_value); /* with come_after of cuda_stream.c */
    wake_completion(device, tail + 1 == queue->head, fence->submitted_ns);
    return ROTA_OK;
}

/* ---- Waits ---- */

/* The first fence of the queue at or above the value, which some fence in the ring or before it has. NULL: that
 * is complete. */
static const rota_cuda_fence *find_fence(rota_cuda_queue *queue, uint64_t value) {
    uint64_t tail = ra_load_acquire(&queue->tail); /* pairs with report: those works are complete */
    uint64_t low = tail, high = queue->head;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (queue->fences[middle % ROTA_CUDA_FENCES].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    /* Where the oldest fence in flight is the answer, a complete one before it may cover the value already. */
    if (low == tail && tail > 0 && queue->head - tail < ROTA_CUDA_FENCES &&
        queue->fences[(tail - 1) % ROTA_CUDA_FENCES].value >= value)
        return NULL;
    return low < queue->head ? &queue->fences[low % ROTA_CUDA_FENCES] : NULL;
}

/* Returns once the newest script of the queue, and so each, is complete, where its work has this value or a lower one:
 * no event is behind what a script launches before it has ended (cuda_script.c). */
static rota_status wait_for_script(rota_cuda_device *device, const rota_cuda_queue *queue, uint64_t value) {
    const uint64_t until = ra_load_relaxed(&queue->scripted_head); /* this thread's own store */
    if (until == 0 || value < queue->scripted_value) return ROTA_OK;
    for (;;) {
        const uint64_t tail = ra_load_acquire(&queue->tail); /* pairs with report: the script is complete */
        if (tail >= until) return ROTA_OK;
        ROTA_TRY(wait_for_room(device, &queue->tail, tail));
    }
}

static rota_status place_wait(rota_cuda_device *device, rota_cuda_queue *own, const rota_exec_wait *wait) {
    if (wait->queue >= device->options.queue_count || wait->value > device->queues[wait->queue].last_value)
        return rota_fail(ROTA_INTERNAL, "a work waits for value %llu of queue %u, which was not handed over",
                         (unsigned long long)wait->value, wait->queue);
    rota_cuda_queue *other = &device->queues[wait->queue];
    ROTA_TRY(wait_for_script(device, other, wait->value));
    if (other == own || own->covered[wait->queue] >= wait->value) return ROTA_OK;
    if (wait->value > other->fenced_value) ROTA_TRY(set_fence(device, other));
    const rota_cuda_fence *fence = find_fence(other, wait->value);
    own->covered[wait->queue] = fence ? fence->value : wait->value;
    if (!fence) return ROTA_OK;
    return rota_cuda_check(device, device->cu->StreamWaitEvent(own->stream, fence->event, 0),
                           "cuStreamWaitEvent");
}

/* ---- Works ---- */

/* Writes the argument block unless it holds the same already (other works of the submission, an earlier one
 * alike). */
static void write_block(rota_cuda_instance *instance, const uint64_t *block) {
    size_t bytes = (size_t)instance->program->desc->block_words * 8;
    if (!instance->host_block.taken || !block) return;
    if (instance->block_written && memcmp(instance->host_block.host, block, bytes) == 0) return;
    memcpy(instance->host_block.host, block, bytes);
    instance->block_written = true;
}

/* A launch with loops has a record, and a fence of its own, which tells when that is to be read. */
static rota_status begin_loops(rota_cuda_device *device, rota_cuda_queue *queue, const rota_exec_work *work,
                               rota_cuda_loops *loops) {
    /* Pairs with rota_cuda_loops_report: the records of those launches are read. */
    uint64_t reported = ra_load_acquire(&loops->reported);
    while (loops->launched - reported >= ROTA_CUDA_RECORDS) {
        ROTA_TRY(wait_for_room(device, &loops->reported, reported));
        reported = ra_load_acquire(&loops->reported);
    }
    loops->launched++;
    queue->loops = loops;
    queue->cookie = work->cookie;
    return ROTA_OK;
}

/* One is in flight on a queue, and what was there before has fences of its own. */
static rota_status begin_script(rota_cuda_device *device, rota_cuda_queue *queue,
                                const rota_exec_work *work) {
    const rota_cuda_instance *instance = (const rota_cuda_instance *)work->instance;
    if (!rota_cuda_segment_is_scripted(device, instance->program, work->segment)) return ROTA_OK;
    ROTA_TRY(wait_for_script(device, queue, UINT64_MAX));
    return set_fence(device, queue);
}

static rota_status launch(rota_cuda_device *device, rota_cuda_queue *queue, const rota_exec_work *work) {
    rota_cuda_instance *instance = (rota_cuda_instance *)work->instance;
    rota_cuda_loops *loops = instance->segments[work->segment].loops;
    CUgraphExec exec = NULL;
    rota_cuda_script *script = NULL;
    ROTA_TRY(begin_script(device, queue, work));
    if (loops) ROTA_TRY(begin_loops(device, queue, work, loops));
    write_block(instance, work->block);
    ROTA_TRY(rota_cuda_instance_exec(device, instance, work->segment, work->block, &exec, &script));
    if (script) { /* which the completion thread launches once its fence has come */
        script->own->launched++;
        queue->script = script;
        queue->scripted_value = work->signal_value;
    }
    if (!exec) return ROTA_OK;
    rota_cuda_range_segment(device->names, instance->program->desc, work->segment);
    const CUresult result = device->cu->GraphLaunch(exec, queue->stream);
    rota_cuda_range_end(device->names);
    return rota_cuda_check(device, result, "cuGraphLaunch");
}

static rota_status copy(rota_cuda_device *device, rota_cuda_queue *queue, const rota_exec_work *work) {
    for (uint32_t i = 0; i < work->copy_count; i++) {
        const rota_exec_copy *c = &work->copies[i];
        if (c->size_bytes == 0) continue;
        ROTA_TRY(rota_cuda_check(device,
                                 device->cu->MemcpyAsync(c->destination->address + c->destination_offset,
                                                         c->source->address + c->source_offset, c->size_bytes,
                                                         queue->stream),
                                 "cuMemcpyAsync"));
    }
    return ROTA_OK;
}

static const void *segment_of(const rota_exec_work *work) {
    return &((const rota_cuda_instance *)work->instance)->program->segments[work->segment];
}

static rota_status add_work(rota_cuda_device *device, const rota_exec_work *work) {
    if (ra_load_acquire(&device->lost)) /* pairs with rota_cuda_give_up */
        return rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
    rota_cuda_queue *queue = &device->queues[work->queue];
    for (uint32_t i = 0; i < work->wait_count; i++) ROTA_TRY(place_wait(device, queue, &work->waits[i]));
    if (work->timeline_wait_count)
        ROTA_TRY(
            rota_cuda_timelines_wait(device, queue->stream, work->timeline_waits, work->timeline_wait_count));
    ROTA_TRY(rota_cuda_stream_come_after(device, queue));
    ROTA_TRY(work->instance ? launch(device, queue, work) : copy(device, queue, work));
    queue->segment = work->instance ? segment_of(work) : NULL;
    queue->last_value = work->signal_value;
    if (work->timeline) queue->timeline = work->timeline;
    queue->unfenced++;
    const uint64_t in_flight = queue->head - ra_load_acquire(&queue->tail); /* pairs with report */
    const bool few = in_flight < ROTA_CUDA_UNMERGED_MAX && in_flight < device->bounds.in_flight_max / 2;
    queue->is_awaited = queue->is_awaited || work->is_awaited;
    /* Not with the last fences that there are: for one more the thread would sleep here, and what ends such waits comes
     * by it, too. */
    const bool is_told = work->is_awaited && in_flight + 2 < device->bounds.in_flight_max;
    return few || is_told || queue->loops || queue->script || queue->unfenced >= ROTA_CUDA_MERGE_MAX
               ? set_fence(device, queue)
               : ROTA_OK;
}

rota_status rota_cuda_submit(rota_exec_device *base, const rota_exec_work *works, uint32_t count) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    if (ra_load_acquire(&device->lost)) /* pairs with rota_cuda_give_up */
        return rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
    /* Works that are not taken are the device's end, whatever the driver says: nobody gives them again. */
    CUresult pushed_context = rota_cuda_push(device);
    if (pushed_context != CUDA_SUCCESS) return rota_cuda_lose(device, pushed_context, "cuCtxPushCurrent");
    pthread_mutex_lock(&device->submit_lock);
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < count && status == ROTA_OK; i++) status = add_work(device, &works[i]);
    for (uint32_t i = 0; i < device->options.queue_count && status == ROTA_OK; i++)
        status = set_fence(device, &device->queues[i]);
    if (status != ROTA_OK) {
        /* What the driver has taken of a work that failed half way is unknown, so any failure here is the
         * device's. */
        char message[ROTA_ERROR_MESSAGE_MAX];
        snprintf(message, sizeof message, "%s", rota_last_error());
        rota_cuda_give_up(device, false, message);
        (void)rota_fail(status, "%s", message);
    }
    pthread_mutex_unlock(&device->submit_lock);
    rota_cuda_leave(device);
    return status;
}
