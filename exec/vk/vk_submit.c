/* Submission: works gathered into as few vkQueueSubmit2 calls as their waits allow. One thread per device;
 * nothing is allocated but where a segment is recorded with argument words that have stayed the same
 * (vk_steady.c). See vk_device.h for queues, sequences and waits. */
#include "exec/vk/vk_submit.h"
#include "base/clock.h"
#include "base/futex.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_loss.h"
#include "exec/vk/vk_memory.h"
#include "exec/vk/vk_record.h"
#include "exec/vk/vk_timeline.h"
#include <sched.h>
#include <string.h>

#define WAIT_SLICE_NS (20ull * 1000000ull)

/* ---- Room ---- */

static bool is_completed(rota_vk_real *real, uint64_t sequence) {
    /* Pairs with the completion thread's store. */
    return ra_load_acquire(&real->shared.completed) >= sequence;
}

/* Sleeps until the completion thread has seen sequence `until` of `real`. */
static rota_status wait_completed(rota_vk_device *device, rota_vk_real *real, uint64_t until) {
    uint32_t seen = ra_load_seq_cst(&device->completer.progress);
    uint64_t last_progress = rota_clock_ns();
    rota_status status = ROTA_OK;
    /* Stored before `completed` is looked at; the completion thread does it the other way round, both
     * seq_cst. */
    ra_store_seq_cst(&real->shared.room_sequence, until);
    while (ra_load_seq_cst(&real->shared.completed) < until && status == ROTA_OK) {
        if (ra_load_acquire(&device->lost)) { /* pairs with rota_vk_lose */
            status = rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
            break;
        }
        rota_futex_wait(&device->completer.progress, seen, rota_deadline_after(WAIT_SLICE_NS));
        /* Before the look, and progress is later than its look: however long the thread stands in between, what it
         * counts is time in which there was none. */
        const uint64_t now = rota_clock_ns();
        const uint32_t progress = ra_load_seq_cst(&device->completer.progress);
        if (progress != seen)
            last_progress = rota_clock_ns();
        else if (now > last_progress + device->bounds.stall_ns)
            status = rota_vk_lose(device, VK_TIMEOUT, "no submission completed for too long");
        seen = progress;
    }
    ra_store_relaxed(&real->shared.room_sequence, 0);
    return status;
}

/* ---- Handing over to the driver ---- */

static void add_signal(rota_vk_gather *gather, VkSubmitInfo2 *info, VkSemaphore semaphore, uint64_t value) {
    gather->signals[gather->signal_count++] = (VkSemaphoreSubmitInfo){
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
        .semaphore = semaphore,
        .value = value,
        .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    };
    info->signalSemaphoreInfoCount++;
}

static void close_info(rota_vk_device *device, rota_vk_real *real) {
    rota_vk_gather *gather = &real->submit.gather;
    if (!gather->is_open) return;
    VkSubmitInfo2 *info = &gather->infos[gather->info_count];
    info->pSignalSemaphoreInfos = &gather->signals[gather->signal_count];
    add_signal(gather, info, real->timeline, real->submit.sequence);
    for (; gather->shared_mask; gather->shared_mask &= gather->shared_mask - 1) {
        uint32_t queue = (uint32_t)__builtin_ctz(gather->shared_mask);
        add_signal(gather, info, rota_vk_timeline_handle(gather->shared[queue]), gather->shared_value[queue]);
    }
    real->shared.ends[real->submit.end_head++ % ROTA_VK_IN_FLIGHT_MAX] = real->submit.sequence;
    gather->info_count++;
    gather->is_open = false;
    device->counts.submit_infos++;
}

static void open_info(rota_vk_gather *gather) {
    gather->infos[gather->info_count] = (VkSubmitInfo2){
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
        .pCommandBufferInfos = &gather->buffers[gather->buffer_count],
        .pWaitSemaphoreInfos = &gather->waits[gather->wait_count],
    };
    gather->is_open = true;
    gather->open_works = 0;
}

/* Tells the completion thread of what is about to be submitted, before the driver has it: told later, it
 * could see the work complete and not find what to report. */
static void publish(rota_vk_device *device, rota_vk_real *real) {
    for (uint32_t i = 0; i < device->options.queue_count; i++) {
        rota_vk_logical *logical = &device->logical[i];
        /* Releases the points to the completion thread's acquire load. */
        if (logical->head != ra_load_relaxed(&logical->published))
            ra_store_release(&logical->published, logical->head);
    }
    /* Pairs with the completion thread's next_end. */
    ra_store_release(&real->shared.end_published, real->submit.end_head);
    /* Both seq_cst, and the thread does the two in the other order: it sees work, or this sees it sleep. */
    ra_store_seq_cst(&real->shared.submitted, real->submit.sequence);
    rota_completer_wake(&device->completer);
}

/* Whether the device is lost is looked at when the lock is had, however long that took: by then semaphores that are
 * waited for here may be gone, and close may have given up on this thread. What the completion thread is told of is
 * with the driver at once, so that it waits there for nothing that nobody has submitted. */
static VkResult hand_over(rota_vk_device *device, rota_vk_real *real) {
    const rota_vk_gather *gather = &real->submit.gather;
    VkResult result = VK_ERROR_DEVICE_LOST;
    ra_store_release(&real->shared.is_used, 1); /* before it has the lock: with has_settled */
    rota_vk_queue_lock(real);
    pthread_mutex_lock(&device->going.lock); /* of what is gone on with: rota_vk_instance_destroy */
    if (!ra_load_acquire(&device->lost)) {   /* pairs with rota_vk_lose */
        publish(device, real);
        result = device->vk.QueueSubmit2(real->queue, gather->info_count, gather->infos, VK_NULL_HANDLE);
    }
    pthread_mutex_unlock(&device->going.lock);
    rota_vk_queue_unlock(real);
    return result;
}

static rota_status flush_real(rota_vk_device *device, rota_vk_real *real) {
    rota_vk_gather *gather = &real->submit.gather;
    close_info(device, real);
    if (gather->info_count == 0) return ROTA_OK;
    const VkResult result = hand_over(device, real);
    device->counts.submit_calls++;
    gather->info_count = gather->buffer_count = gather->wait_count = gather->signal_count = 0;
    if (result != VK_SUCCESS) return rota_vk_lose(device, result, "vkQueueSubmit2");
    real->submit.flushed = real->submit.sequence;
    return ROTA_OK;
}

static rota_status flush_all(rota_vk_device *device) {
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < device->real_count; i++) {
        rota_status flushed = flush_real(device, &device->reals[i]);
        if (status == ROTA_OK) status = flushed;
    }
    return status;
}

/* Room for one more VkSubmitInfo2 with everything it may hold. */
static rota_status make_info_room(rota_vk_device *device, rota_vk_real *real) {
    rota_vk_real_submit *own = &real->submit;
    const rota_vk_gather *gather = &own->gather;
    if (gather->info_count == ROTA_VK_INFOS_MAX ||
        gather->wait_count + ROTA_VK_INFO_WAITS_MAX > ROTA_VK_WAITS_MAX ||
        gather->signal_count + ROTA_VK_INFO_SIGNALS_MAX > ROTA_VK_SIGNALS_MAX)
        ROTA_TRY(flush_real(device, real));
    while (own->end_tail != own->end_head &&
           is_completed(real, real->shared.ends[own->end_tail % ROTA_VK_IN_FLIGHT_MAX]))
        own->end_tail++;
    if (own->end_head - own->end_tail < device->bounds.in_flight_max) return ROTA_OK;
    ROTA_TRY(flush_real(device, real));
    /* Until half is free, not one place: a saturated device then wakes this thread seldom. */
    return wait_completed(
        device, real,
        real->shared.ends[(own->end_tail + device->bounds.in_flight_max / 2) % ROTA_VK_IN_FLIGHT_MAX]);
}

/* ---- Waits ---- */

/* The last work of a logical queue on real queue `target` whose value is at most `value`; 0: none. Values
 * older than the history are long complete; the work before the oldest one remembered stands in for them. */
static uint64_t sequence_of(const rota_vk_logical *logical, uint32_t target, uint64_t value) {
    if (value >= logical->last_value) return logical->last_sequence[target];
    uint64_t oldest = logical->head > ROTA_VK_HISTORY ? logical->head - ROTA_VK_HISTORY : 0;
    /* Waits are mostly for late values: the search begins at the end. */
    uint64_t known = logical->head - oldest, span = 1;
    while (span < known && logical->points[(logical->head - span) % ROTA_VK_HISTORY].value > value) span *= 2;
    uint64_t low = span < known ? logical->head - span : oldest;
    uint64_t high = logical->head; /* first index whose value is above `value` */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (logical->points[middle % ROTA_VK_HISTORY].value <= value)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > oldest) return logical->points[(low - 1) % ROTA_VK_HISTORY].last[target];
    if (oldest == 0) return 0;
    const rota_vk_point *point = &logical->points[oldest % ROTA_VK_HISTORY];
    return point->last[target] - (point->real == target);
}

/* What a work still has to wait for. */
typedef struct needs {
    bool barrier;
    uint64_t semaphore[ROTA_VK_REALS_MAX]; /* sequence to wait for; 0: none */
} needs;

static void need(rota_vk_device *device, uint32_t real_index, uint32_t queue, uint32_t waited_queue,
                 uint64_t value, needs *out) {
    rota_vk_real *real = &device->reals[real_index];
    const rota_vk_logical *waited = &device->logical[waited_queue];
    for (uint32_t target = 0; target < device->real_count; target++) {
        uint64_t sequence = sequence_of(waited, target, value);
        if (sequence <= real->submit.covered[target]) continue;
        if (target == real_index && waited_queue == queue)
            out->barrier = true;
        else if (sequence > out->semaphore[target])
            out->semaphore[target] = sequence;
    }
}

static rota_status gather_needs(rota_vk_device *device, const rota_exec_work *work, uint32_t real_index,
                                needs *out) {
    rota_vk_logical *logical = &device->logical[work->queue];
    for (uint32_t i = 0; i < work->wait_count; i++) {
        const rota_exec_wait *wait = &work->waits[i];
        if (wait->queue >= device->options.queue_count ||
            wait->value > device->logical[wait->queue].last_value)
            return rota_fail(ROTA_INTERNAL,
                             "a work of queue %u waits for value %llu of queue %u, which was not handed over",
                             work->queue, (unsigned long long)wait->value, wait->queue);
        if (logical->split && wait->value > logical->last_wait[wait->queue])
            logical->last_wait[wait->queue] = wait->value;
        need(device, real_index, work->queue, wait->queue, wait->value, out);
    }
    if (logical->split) /* waits of earlier works, which may have been on the other real queue */
        for (uint32_t i = 0; i < device->options.queue_count; i++)
            if (logical->last_wait[i]) need(device, real_index, work->queue, i, logical->last_wait[i], out);
    /* A barrier comes after everything before it on the real queue. */
    if (out->barrier) out->semaphore[real_index] = 0;
    return ROTA_OK;
}

/* Opens the info that the work goes to and puts its waits there. */
static rota_status place_waits(rota_vk_device *device, rota_vk_real *real, uint32_t real_index,
                               const rota_exec_work *work, const needs *wanted) {
    rota_vk_gather *gather = &real->submit.gather;
    bool waits = work->timeline_wait_count != 0;
    for (uint32_t target = 0; target < device->real_count; target++) {
        uint64_t sequence = wanted->semaphore[target];
        if (!sequence) continue;
        waits = true;
        /* Only signals that the driver has are waited for. */
        if (target != real_index && sequence > device->reals[target].submit.flushed)
            ROTA_TRY(flush_real(device, &device->reals[target]));
    }
    if (gather->is_open && (waits || gather->open_works == ROTA_VK_MERGE_MAX)) close_info(device, real);
    if (!gather->is_open) {
        ROTA_TRY(make_info_room(device, real));
        open_info(gather);
    }
    VkSubmitInfo2 *info = &gather->infos[gather->info_count];
    for (uint32_t target = 0; target < device->real_count; target++) {
        if (!wanted->semaphore[target]) continue;
        gather->waits[gather->wait_count++] = (VkSemaphoreSubmitInfo){
            .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
            .semaphore = device->reals[target].timeline,
            .value = wanted->semaphore[target],
            .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
        };
        info->waitSemaphoreInfoCount++;
        real->submit.covered[target] = wanted->semaphore[target];
        for (uint32_t k = 0; k < 2 && target == real_index; k++) /* a semaphore wait is for all kinds */
            if (real->submit.covered_for[k] < real->submit.covered[target])
                real->submit.covered_for[k] = real->submit.covered[target];
    }
    for (uint32_t i = 0; i < work->timeline_wait_count; i++, info->waitSemaphoreInfoCount++)
        gather->waits[gather->wait_count++] = (VkSemaphoreSubmitInfo){
            .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
            .semaphore = work->timeline_waits[i].semaphore
                             ? work->timeline_waits[i].semaphore
                             : rota_vk_timeline_handle(work->timeline_waits[i].timeline),
            .value = work->timeline_waits[i].value,
            .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
        };
    return ROTA_OK;
}

/* ---- Works ---- */

static void add_buffer(rota_vk_gather *gather, VkCommandBuffer buffer) {
    gather->buffers[gather->buffer_count++] = (VkCommandBufferSubmitInfo){
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, .commandBuffer = buffer};
    gather->infos[gather->info_count].commandBufferInfoCount++;
}

/* Places the barrier that a work of these kinds needs after what was waited for so far, if it was not placed.
 *
 * After works of another device that shares memory: all of the caches. To the letter of the specification
 * each buffer would have to be released by, and acquired from, VK_QUEUE_FAMILY_EXTERNAL; on one GPU that is
 * what the semaphore (or event) behind those works, waited for here or by the host, and this barrier do, and
 * it costs one barrier however many they are. */
static void place_barrier(rota_vk_real *real, uint32_t real_index, uint32_t kinds) {
    rota_vk_real_submit *own = &real->submit;
    uint32_t from = 0, to = 0, all = real_index == 0 ? ROTA_VK_BOTH : ROTA_VK_TRANSFER;
    if (own->acquire && kinds) {
        own->acquire = false;
        own->covered_for[0] = own->covered_for[1] = own->sequence;
        own->pending[0] = own->pending[1] = 0;
        add_buffer(&own->gather, real->barriers[all][all]);
        return;
    }
    for (uint32_t k = 0; k < 2; k++) {
        if (!(kinds & (1u << k)) || own->covered_for[k] >= own->covered[real_index]) continue;
        to |= 1u << k;
        from |= own->pending[k];
        own->covered_for[k] = own->sequence; /* a barrier is after everything before it */
        own->pending[k] = 0;
    }
    if (from) add_buffer(&own->gather, real->barriers[from][to]);
}

/* A command buffer with the work's copies, from the ring; P1: not before its last use has completed. */
static rota_status record_copies(rota_vk_device *device, rota_vk_real *real, const rota_exec_work *work,
                                 VkCommandBuffer *out_buffer) {
    uint32_t index = real->submit.copies.next++ % ROTA_VK_COPIES_MAX;
    uint64_t last_use = real->submit.copies.sequence[index];
    if (last_use > real->submit.flushed) ROTA_TRY(flush_real(device, real));
    if (!is_completed(real, last_use)) ROTA_TRY(wait_completed(device, real, last_use));
    VkCommandBuffer buffer = real->submit.copies.buffers[index];
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult result = device->vk.BeginCommandBuffer(buffer, &begin);
    if (result != VK_SUCCESS) return rota_vk_lose(device, result, "vkBeginCommandBuffer");
    bool to_host = false;
    for (uint32_t i = 0; i < work->copy_count; i++) {
        const rota_exec_copy *copy = &work->copies[i];
        const rota_vk_memory *target = (const rota_vk_memory *)copy->destination;
        const rota_vk_memory *source = (const rota_vk_memory *)copy->source;
        VkBufferCopy region = {
            .srcOffset = source->buffer_offset + copy->source_offset,
            .dstOffset = target->buffer_offset + copy->destination_offset,
            .size = copy->size_bytes,
        };
        to_host = to_host || target->base.host;
        if (region.size) device->vk.CmdCopyBuffer(buffer, source->buffer, target->buffer, 1, &region);
    }
    if (to_host) rota_vk_record_host_barrier(device, buffer, ROTA_VK_TRANSFER);
    result = device->vk.EndCommandBuffer(buffer);
    if (result != VK_SUCCESS) return rota_vk_lose(device, result, "vkEndCommandBuffer");
    real->submit.copies.sequence[index] = real->submit.sequence + 1;
    *out_buffer = buffer;
    return ROTA_OK;
}

/* Writes the argument block unless it holds the same already (other works of the submission, an earlier one
 * alike). */
static rota_status write_block(rota_vk_device *device, rota_vk_recorded *recorded, const uint64_t *block) {
    size_t bytes = (size_t)recorded->program->desc->block_words * 8;
    if (bytes == 0 || !block || (recorded->block_written && memcmp(recorded->block_copy, block, bytes) == 0))
        return ROTA_OK;
    memcpy(recorded->block_copy, block, bytes);
    memcpy(recorded->block.words, block, bytes);
    recorded->block_written = true;
    return recorded->touch.has_slots ? rota_vk_recorded_anew(device, recorded) : ROTA_OK;
}

static rota_status make_point_room(rota_vk_device *device, rota_vk_logical *logical) {
    /* Pairs with the completion thread's release of tail: it is done with those points. */
    uint64_t tail = ra_load_acquire(&logical->tail);
    if (logical->head - tail < ROTA_VK_HISTORY) return ROTA_OK;
    ROTA_TRY(flush_all(device));
    while (logical->head - ra_load_acquire(&logical->tail) == ROTA_VK_HISTORY) {
        const rota_vk_point *oldest = &logical->points[logical->head % ROTA_VK_HISTORY];
        ROTA_TRY(wait_completed(device, &device->reals[oldest->real], oldest->sequence));
        if (ra_load_acquire(&device->lost)) /* pairs with rota_vk_lose */
            return rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
        sched_yield(); /* the completion thread moves tail just after it tells of the completion */
    }
    return ROTA_OK;
}

rota_status rota_vk_submit_buffers(rota_vk_device *device, const VkCommandBuffer *buffers, uint32_t count,
                                   uint64_t *out_sequence) {
    rota_vk_real *real = &device->reals[0];
    rota_vk_gather *gather = &real->submit.gather;
    close_info(device, real);
    if (gather->buffer_count + count > ROTA_VK_BUFFERS_MAX) ROTA_TRY(flush_real(device, real));
    ROTA_TRY(make_info_room(device, real));
    open_info(gather);
    for (uint32_t i = 0; i < count; i++) add_buffer(gather, buffers[i]);
    real->submit.pending[0] |= ROTA_VK_BOTH;
    real->submit.pending[1] |= ROTA_VK_BOTH;
    *out_sequence = ++real->submit.sequence;
    close_info(device, real);
    return ROTA_OK;
}

rota_status rota_vk_submit_flush(rota_vk_device *device) {
    return flush_all(device);
}

bool rota_vk_has_completed(rota_vk_device *device, uint64_t sequence) {
    return is_completed(&device->reals[0], sequence);
}

/* Its place in the history of its queue. */
static void add_point(rota_vk_logical *logical, const rota_exec_work *work, uint32_t real_index,
                      uint64_t sequence, uint64_t last) {
    rota_vk_recorded *recorded = (rota_vk_recorded *)work->instance;
    logical->last_value = work->signal_value;
    logical->last_sequence[real_index] = last;
    rota_vk_point *point = &logical->points[logical->head++ % ROTA_VK_HISTORY];
    *point = (rota_vk_point){.value = work->signal_value, .sequence = sequence, .real = real_index};
    memcpy(point->last, logical->last_sequence, sizeof point->last);
    if (recorded && rota_vk_may_fail(recorded->program, work->segment)) {
        point->may_fail = recorded;
        point->segment = work->segment;
        point->cookie = work->cookie;
    }
}

static rota_status add_work(rota_vk_device *device, const rota_exec_work *work) {
    rota_vk_recorded *recorded = (rota_vk_recorded *)work->instance;
    rota_vk_logical *logical = &device->logical[work->queue];
    uint32_t real_index = 0;
    if (recorded)
        real_index = recorded->program->segment_real[work->segment];
    else if (logical->split)
        real_index = 1;
    rota_vk_real *real = &device->reals[real_index];
    rota_vk_gather *gather = &real->submit.gather;
    const rota_vk_pieces *pieces = recorded ? rota_vk_pieces_of(recorded, work->segment) : NULL;

    ROTA_TRY(rota_vk_going_check(device, work));
    if (pieces && work->timeline)
        return rota_fail(ROTA_INTERNAL,
                         "a work of queue %u has a loop that is gone on with, and a timeline for others",
                         work->queue);
    ROTA_TRY(make_point_room(device, logical));
    if (recorded) ROTA_TRY(write_block(device, recorded, work->block));
    if (pieces) rota_vk_words_anew(recorded, work->segment);
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    if (recorded) buffer = rota_vk_steady_buffer(device, recorded, work->segment, work->block);
    if (!recorded && work->copy_count) ROTA_TRY(record_copies(device, real, work, &buffer));
    if (gather->buffer_count + 3 > ROTA_VK_BUFFERS_MAX) ROTA_TRY(flush_real(device, real));
    needs wanted = {0};
    ROTA_TRY(gather_needs(device, work, real_index, &wanted));
    ROTA_TRY(place_waits(device, real, real_index, work, &wanted));
    if (wanted.barrier) real->submit.covered[real_index] = real->submit.sequence;
    if (work->acquires)
        for (uint32_t i = 0; i < device->real_count; i++) device->reals[i].submit.acquire = true;
    uint32_t kinds = buffer ? ROTA_VK_TRANSFER : 0;
    if (recorded) kinds = recorded->program->segment_kinds[work->segment];
    place_barrier(real, real_index, kinds);
    real->submit.pending[0] |= kinds;
    real->submit.pending[1] |= kinds;
    if (buffer) add_buffer(&real->submit.gather, buffer);
    if (pieces) add_buffer(&real->submit.gather, pieces->runs[0]);
    if (work->timeline) {
        gather->shared_mask |= 1u << work->queue;
        gather->shared[work->queue] = work->timeline;
        gather->shared_value[work->queue] = work->signal_value;
    }
    const uint64_t sequence = ++real->submit.sequence;
    gather->open_works++;
    add_point(logical, work, real_index, pieces ? ROTA_VK_GOES_ON : sequence, sequence);
    if (pieces) return rota_vk_going_begin(device, work, sequence);
    const uint64_t in_flight = real->submit.end_head - real->submit.end_tail;
    if (in_flight < ROTA_VK_UNMERGED_MAX && in_flight < device->bounds.in_flight_max / 2)
        close_info(device, real);
    return ROTA_OK;
}

rota_status rota_vk_submit(rota_exec_device *base, const rota_exec_work *works, uint32_t count) {
    rota_vk_device *device = (rota_vk_device *)base;
    if (ra_load_acquire(&device->lost)) /* pairs with rota_vk_lose */
        return rota_fail(ROTA_DEVICE_LOST, "%s is lost", base->info.id);
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < count && status == ROTA_OK; i++) status = add_work(device, &works[i]);
    rota_status flushed = flush_all(device);
    if (status == ROTA_OK) status = flushed;
    bool moved;
    return status == ROTA_OK ? rota_vk_go_on(base, &moved) : status; /* says what is wanted next */
}

void rota_vk_submit_counts(rota_exec_device *base, uint64_t *out_calls, uint64_t *out_infos) {
    rota_vk_device *device = (rota_vk_device *)base;
    *out_calls = device->counts.submit_calls;
    *out_infos = device->counts.submit_infos;
}
