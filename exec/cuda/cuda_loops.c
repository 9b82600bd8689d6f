/* What the host and a running loop say to each other; of one that is counted the host hears likewise that it failed.
 *
 *     submit thread          completion thread                 device
 *     launched++, launch --------------------------------------> step: launch++, begun = 0
 *     fence, with the loops --> must_skip? -- copies launch ---> stop: no further step goes on
 *                               record of that launch <--------- first to fail: over, record
 *                               failed; reported++ (fence)
 *
 * Launches of a segment of an instance run one after the other, since they are launches of one executable graph; so the
 * device counts them as the submit thread does, and a record is read before its place is written again (`reported`
 * bounds what is in flight). `stop` is written while the graph runs, by a copy on a stream of its own: a step that
 * looked at pinned memory would cross the bus each time, for as long as it takes by itself. */
#include "exec/cuda/cuda_loops.h"
#include <stdlib.h>
#include <string.h>
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_instance.h"

enum { MESSAGE_BYTES = 1024 };

_Static_assert((ROTA_CUDA_RECORDS & (ROTA_CUDA_RECORDS - 1)) == 0, "steps count round by a mask");

/* ---- Layout ---- */

static uint64_t words_of_record(const rota_cuda_root *root) {
    return 1 + (uint64_t)root->count;
}

/* In words: of the first record of a root, of which there are `first_state` states and root_index roots before. */
static uint64_t record_offset(const rota_cuda_loops *loops, const rota_cuda_root *root) {
    const uint64_t index = (uint64_t)(root - loops->roots->all);
    return ROTA_CUDA_RECORDS * (index + root->first_state);
}

static uint64_t progress_offset(const rota_cuda_loops *loops, const rota_cuda_root *root) {
    return loops->record_words + (uint64_t)(root - loops->roots->all); /* rota_cuda_loops.progress */
}

static uint64_t stop_offset(const rota_cuda_loops *loops, const rota_cuda_root *root) {
    return progress_offset(loops, root) + loops->roots->count;
}

static uint64_t any_offset(const rota_cuda_loops *loops) {
    return loops->record_words + 2 * (uint64_t)loops->roots->count;
}

static uint64_t *word_at(const rota_cuda_loops *loops, uint64_t offset) {
    return (uint64_t *)(void *)loops->pinned.host + offset;
}

static uint64_t state_address(const rota_cuda_loops *loops, const rota_cuda_root *root) {
    return loops->states.address + root->first_state * sizeof(rota_decide_state);
}

void rota_cuda_loops_describe(const rota_cuda_loops *loops, const rota_cuda_root *root,
                              rota_decide_root *out_root) {
    *out_root = (rota_decide_root){.states = state_address(loops, root),
                                   .records = loops->pinned.address + 8 * record_offset(loops, root),
                                   .any = loops->pinned.address + 8 * any_offset(loops),
                                   .failed = loops->states.address +
                                             loops->roots->state_count * sizeof(rota_decide_state),
                                   .count = root->count,
                                   .ring = ROTA_CUDA_RECORDS};
}

uint64_t rota_cuda_loops_progress_address(const rota_cuda_loops *loops, const rota_cuda_root *root) {
    return loops->pinned.address + 8 * progress_offset(loops, root);
}

/* ---- Life ---- */

/* On the stream of stops, whose lock is held for the call. */
static rota_status copy(rota_cuda_device *device, uint64_t to, uint64_t from, size_t bytes) {
    pthread_mutex_lock(&device->stops.lock);
    const CUresult result = device->cu->MemcpyAsync(to, from, bytes, device->stops.stream);
    pthread_mutex_unlock(&device->stops.lock);
    return rota_cuda_check(device, result, "cuMemcpyAsync");
}

/* Returns when it is done; `out_is_used`: whether it is is not known, and both ends may be used still. */
static rota_status copy_now(rota_cuda_device *device, uint64_t to, uint64_t from, size_t bytes,
                            bool *out_is_used) {
    ROTA_TRY(copy(device, to, from, bytes));
    CUresult result = CUDA_ERROR_NOT_READY;
    for (uint32_t i = 0; i < 2; i++) { /* a driver that is short of memory may say it the second time */
        result = rota_cuda_settle(device, device->stops.stream, device->bounds.stall_ns);
        if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY || rota_cuda_is_fatal(result)) break;
    }
    *out_is_used = result != CUDA_SUCCESS && !rota_cuda_is_fatal(result);
    if (result != CUDA_ERROR_NOT_READY) return rota_cuda_check(device, result, "cuStreamQuery");
    return rota_fail(ROTA_TIMEOUT, "%s: a copy of %zu bytes did not end within two minutes",
                     device->base.info.id, bytes);
}

/* The device's first loops are made. The lock is not held meanwhile: what fails may halt them. */
static rota_status make_halt(rota_cuda_device *device) {
    rota_cuda_piece halt = {0}, halting = {0};
    bool is_used = false;
    pthread_mutex_lock(&device->stops.lock);
    const bool is_made = device->stops.halt.taken;
    pthread_mutex_unlock(&device->stops.lock);
    if (is_made) return ROTA_OK;
    rota_status status = rota_cuda_piece_take(device, &device->objects.pinned, sizeof(uint64_t), &halting);
    if (status == ROTA_OK)
        status = rota_cuda_piece_take(device, &device->objects.blocks, sizeof(uint64_t), &halt);
    if (status == ROTA_OK) {
        *(uint64_t *)(void *)halting.host = 0;
        status = copy_now(device, halt.address, halting.address, sizeof(uint64_t), &is_used);
    }
    if (is_used) return status;
    pthread_mutex_lock(&device->stops.lock);
    if (status == ROTA_OK && !device->stops.halt.taken) {
        device->stops.halt = halt;
        device->stops.halting = halting;
        halt.taken = halting.taken = false;
    }
    pthread_mutex_unlock(&device->stops.lock);
    rota_cuda_piece_give(device, &device->objects.blocks, &halt);
    rota_cuda_piece_give(device, &device->objects.pinned, &halting);
    return status;
}

static rota_status make(rota_cuda_device *device, rota_cuda_loops *loops) {
    const rota_cuda_roots *roots = loops->roots;
    const uint64_t state_bytes = roots->state_count * sizeof(rota_decide_state) + sizeof(uint64_t);
    loops->record_words = ROTA_CUDA_RECORDS * ((uint64_t)roots->count + roots->state_count);
    uint64_t pinned_bytes = 8 * (any_offset(loops) + ROTA_CUDA_RECORDS);
    if (pinned_bytes < state_bytes) pinned_bytes = state_bytes; /* which come from there */
    loops->stopped = calloc(roots->count, sizeof *loops->stopped);
    if (!loops->stopped) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for loops");
    ROTA_TRY(rota_cuda_piece_take(device, &device->objects.pinned, pinned_bytes, &loops->pinned));
    ROTA_TRY(rota_cuda_piece_take(device, &device->objects.blocks, state_bytes, &loops->states));
    memset(loops->pinned.host, 0, pinned_bytes);
    loops->progress = word_at(loops, loops->record_words);
    bool is_used = false;
    const rota_status status =
        copy_now(device, loops->states.address, loops->pinned.address, state_bytes, &is_used);
    if (is_used) loops->states.taken = loops->pinned.taken = false; /* until close */
    return status == ROTA_OK ? make_halt(device) : status;
}

rota_status rota_cuda_loops_create(rota_cuda_device *device, const rota_cuda_instance *instance,
                                   uint32_t segment, rota_cuda_loops **out_loops) {
    const rota_cuda_roots *roots = instance->program->segments[segment].roots;
    if (!roots || roots->count == 0) return ROTA_OK;
    rota_cuda_loops *loops = calloc(1, sizeof *loops);
    if (!loops)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         instance->program->desc->name);
    *out_loops = loops; /* freed with its instance from now on */
    loops->desc = instance->program->desc;
    loops->roots = roots;
    return make(device, loops);
}

void rota_cuda_loops_free(rota_cuda_device *device, rota_cuda_loops *loops) {
    if (!loops) return;
    rota_cuda_piece_give(device, &device->objects.blocks, &loops->states);
    rota_cuda_piece_give(device, &device->objects.pinned, &loops->pinned);
    free(loops->stopped);
    free(loops);
}

/* ---- Failures ---- */

static void report_root(const rota_cuda_device *device, const rota_cuda_fence *fence,
                        const rota_cuda_root *root, uint64_t *record) {
    if (record[0] == 0) return;
    char text[MESSAGE_BYTES];
    rota_cuda_root_describe(device, root, record, text, sizeof text);
    record[0] = 0;
    if (device->host.failed)
        device->host.failed(device->host.user, fence->cookie, fence->loops->desc->owner, root->node,
                            ROTA_NODE_FAILED, text);
}

static void report(const rota_cuda_device *device, const rota_cuda_fence *fence) {
    rota_cuda_loops *loops = fence->loops;
    const uint64_t index = (fence->launch - 1) % ROTA_CUDA_RECORDS;
    uint64_t *any = word_at(loops, any_offset(loops) + index);
    for (uint32_t r = 0; *any && r < loops->roots->count; r++) {
        const rota_cuda_root *root = &loops->roots->all[r];
        report_root(device, fence, root,
                    word_at(loops, record_offset(loops, root) + index * words_of_record(root)));
    }
    *any = 0;
    /* Launches on two queues may be seen to end in either order. */
    if (ra_load_relaxed(&loops->reported) < fence->launch)
        ra_store_seq_cst(&loops->reported, fence->launch); /* with a submit that waits for room */
}

/* Whether the fence's loops are still there: with stops.looks. */
static bool are_there(rota_cuda_device *device) {
    return !ra_load_acquire(&device->lost); /* pairs with rota_cuda_give_up, after which instances end */
}

void rota_cuda_loops_report(rota_cuda_device *device, const rota_cuda_fence *fence) {
    pthread_mutex_lock(&device->stops.looks);
    if (are_there(device)) report(device, fence);
    pthread_mutex_unlock(&device->stops.looks);
}

/* ---- Stops ---- */

/* The word was nobody's since an earlier launch's stop has come, or does not matter any more. */
static void stop(rota_cuda_device *device, const rota_cuda_fence *fence, const rota_cuda_root *root) {
    const rota_cuda_loops *loops = fence->loops;
    const uint64_t offset = stop_offset(loops, root);
    loops->stopped[root - loops->roots->all] = fence->launch;
    *word_at(loops, offset) = fence->launch;
    if (copy(device, state_address(loops, root) + offsetof(rota_decide_state, stop),
             loops->pinned.address + 8 * offset, sizeof(uint64_t)) != ROTA_OK)
        rota_log_write(&device->host.log, ROTA_LOG_WARNING, "%s: a loop is not told to end: %s",
                       device->base.info.id, rota_last_error());
}

/* The device may be lost by it, and the loops with it. */
static void look(rota_cuda_device *device, const rota_cuda_fence *fence) {
    const rota_cuda_loops *loops = fence->loops;
    if (ra_load_relaxed(&loops->reported) + 1 != fence->launch) return; /* its turn has not come */
    for (uint32_t r = 0; are_there(device) && r < loops->roots->count; r++) {
        const rota_cuda_root *root = &loops->roots->all[r];
        if (root->has_loop && loops->stopped[r] != fence->launch &&
            device->host.must_skip(device->host.user, fence->cookie, loops->desc->owner, root->node))
            stop(device, fence, root);
    }
}

void rota_cuda_loops_look(rota_cuda_device *device, const rota_cuda_fence *fence) {
    pthread_mutex_lock(&device->stops.looks);
    if (are_there(device)) look(device, fence);
    pthread_mutex_unlock(&device->stops.looks);
}
