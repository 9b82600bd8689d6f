/* Host access to persistent buffers, ordered like nodes: records in the caller's lane, copies on the device's
 * queue. A call is one submission, and so one place in the order, whatever its size. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime_internal.h"

static _Atomic uint32_t never_word;

static rota_status check_range(rota_buffer *buffer, uint64_t offset_bytes, const void *data,
                               uint64_t size_bytes, rota_residency **out) {
    if (!buffer || !data) return rota_fail(ROTA_INVALID_ARGUMENT, "buffer or data is NULL");
    rota_residency *residency = buffer->root->residency;
    if (buffer->kind != ROTA_BUFFER_PERSISTENT || !residency)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s' is not a runtime's persistent buffer",
                         rota_buffer_name(buffer));
    if (residency->closed)
        return rota_fail(ROTA_WRONG_STATE, "buffer '%s': its runtime was closed", rota_buffer_name(buffer));
    if (offset_bytes > buffer->size_bytes || size_bytes > buffer->size_bytes - offset_bytes)
        return rota_fail(ROTA_OUT_OF_RANGE, "bytes [%llu, +%llu) of buffer '%s', which has %llu",
                         (unsigned long long)offset_bytes, (unsigned long long)size_bytes,
                         rota_buffer_name(buffer), (unsigned long long)buffer->size_bytes);
    *out = residency;
    return rota_runtime_check(residency->runtime);
}

/* ---- Waiting for room ---- */

/* Of one call. */
typedef struct waiting {
    rota_runtime *runtime;
    uint64_t start_ns, pause_ns;
    bool is_watching;
    rota_progress progress;
} waiting;

static void begin_waiting(waiting *w, rota_runtime *runtime) {
    w->runtime = runtime;
    w->start_ns = rota_clock_ns();
    w->pause_ns = 10000;
    w->is_watching = false;
}

/* Room comes from the device, whose uploads are on one queue; or, where `device` is NULL, from whatever has
 * been submitted. */
static void watch(waiting *w, const rota_device *device) {
    if (w->is_watching) return;
    w->is_watching = true;
    rota_progress_begin(&w->progress, w->runtime);
    if (device) {
        /* The newest of those that slots wait for, or one after them. */
        uint64_t issued = ra_load_acquire(&device->timelines[device->io_queue].issued);
        rota_progress_watch_chain(&w->progress, rota_point(device->index, device->io_queue, issued));
        return;
    }
    uint32_t devices = ra_load_acquire(&w->runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) rota_progress_watch_device(&w->progress, w->runtime->devices[d]);
}

/* Sleeps a little and checks the deadline, counted from the last progress of what room comes from. */
static rota_status wait_for_room(waiting *w, const rota_device *device, const char *what) {
    rota_runtime *runtime = w->runtime;
    watch(w, device);
    uint64_t from = rota_progress_look(&w->progress), now = rota_clock_ns();
    if (now > from && now - from > runtime->options.timeout_ns)
        return rota_fail(ROTA_TIMEOUT, "%s within %.3f s", what, (double)runtime->options.timeout_ns * 1e-9);
    (void)rota_futex_wait(&never_word, 0, now + w->pause_ns);
    if (w->pause_ns < 200000) w->pause_ns *= 2;
    return rota_runtime_check(runtime);
}

/* ---- Turns ---- */

/* A waiter that has not looked for so long lets others pass: it may be stopped. */
#define TURN_LAPSES_NS 20000000u

/* Who comes later does not take what the one who waits the longest waits for. */
static bool is_my_turn(const rota_room_turn *turn, uint64_t start_ns) {
    uint64_t first = ra_load_relaxed(&turn->start_ns);
    return first == 0 || first >= start_ns ||
           rota_clock_ns() > ra_load_relaxed(&turn->seen_ns) + TURN_LAPSES_NS;
}

/* Before a sleep. What two threads that look at once make of it is put right by their next look. */
static void keep_turn(rota_room_turn *turn, uint64_t start_ns) {
    uint64_t first = ra_load_relaxed(&turn->start_ns);
    if (first != start_ns &&
        (!is_my_turn(turn, start_ns) || !ra_cas_acq_rel(&turn->start_ns, &first, start_ns)))
        return;
    ra_store_relaxed(&turn->seen_ns, rota_clock_ns());
}

static void end_turn(rota_room_turn *turn, uint64_t start_ns) {
    uint64_t first = ra_load_relaxed(&turn->start_ns);
    if (first == start_ns) (void)ra_cas_acq_rel(&turn->start_ns, &first, 0);
}

/* ---- Writes ---- */

/* What large writes may have under way on a device; one that is larger than that goes when it is alone. */
static bool has_room(rota_device *device, uint64_t size) {
    int64_t under_way = ra_load_acquire(&device->staging.uploading); /* with give_back_uploads */
    return under_way <= 0 || (uint64_t)under_way + size <= device->runtime->options.staging_limit_bytes;
}

/* The sequencer gives back what has passed. */
static rota_status wait_for_staging(waiting *w, const rota_device *device) {
    (void)ra_fetch_add_seq_cst(&w->runtime->reap_requested, 1);
    rota_sleeper_wake(&w->runtime->sequencer_sleeper);
    return wait_for_room(w, device, "no room for staging memory");
}

static rota_status device_lost(const rota_device *device) {
    const rota_cause *cause = ra_load_acquire(&device->lost_cause);
    return rota_fail(ROTA_DEVICE_LOST, "%s", cause ? cause->message : "device lost");
}

static bool take_promise(rota_runtime *runtime, uint64_t size, uint64_t start) {
    if (runtime->options.memory_limit_bytes == 0) return true;
    if (is_my_turn(&runtime->promise_turn, start) && rota_staging_promise(runtime, size)) return true;
    keep_turn(&runtime->promise_turn, start);
    return false;
}

/* Memory for the whole of it: before the last byte is here nothing is submitted, so that others wait for no
 * thread that is stopped, and a write that finds no memory leaves the buffer as it was. */
static rota_status stage_large(rota_host_write *write, const uint8_t *data, waiting *w) {
    rota_device *device = write->device;
    rota_runtime *runtime = device->runtime;
    rota_room_turn *turn = &device->staging.large_turn;
    uint64_t start = w->start_ns;
    rota_status status = ROTA_OK;
    while (!is_my_turn(turn, start) || !has_room(device, write->size) ||
           !take_promise(runtime, write->size, start)) {
        keep_turn(turn, start);
        status = rota_device_is_lost(device) ? device_lost(device) : wait_for_staging(w, NULL);
        if (status != ROTA_OK) break;
    }
    end_turn(turn, start);
    end_turn(&runtime->promise_turn, start);
    if (status != ROTA_OK) return status;
    status = rota_staging_acquire(device, write->size, ROTA_EXEC_MEMORY_HOST_WRITE, &write->staging);
    if (status != ROTA_OK) {
        rota_staging_return(runtime, write->size);
        return rota_fail_context(status,
                                 "write of %llu bytes to buffer '%s': ", (unsigned long long)write->size,
                                 write->buffer->name);
    }
    for (rota_staging *block = write->staging; block; block = block->more) {
        memcpy(block->memory->host, data, block->used);
        data += block->used;
    }
    return ROTA_OK;
}

static rota_status stage_small(rota_host_write *write, const uint8_t *data, waiting *w) {
    rota_device *device = write->device;
    rota_runtime *runtime = device->runtime;
    rota_room_turn *turn = &device->staging.slot_turn;
    uint64_t start = w->start_ns;
    rota_status status = ROTA_OK;
    while (!is_my_turn(turn, start) || !rota_staging_claim_slot(device, &write->slot)) {
        keep_turn(turn, start);
        status = rota_device_is_lost(device) ? device_lost(device)
                                             : wait_for_room(w, device, "no free slot in the upload ring");
        if (status != ROTA_OK) break;
    }
    end_turn(turn, start);
    if (status != ROTA_OK) return status;
    memcpy((uint8_t *)device->upload_memory->host + write->slot * runtime->options.staging_slot_bytes, data,
           write->size);
    return ROTA_OK;
}

static void unstage(const rota_host_write *write) {
    if (write->staging) {
        rota_staging_release(write->staging);
        rota_staging_return(write->device->runtime, write->size);
    } else {
        /* Release: with the claim; nothing reads the slot. */
        ra_store_release(&write->device->upload_slots[write->slot].state, 0);
    }
}

void rota_host_write_drop(const rota_host_write *write) {
    if (write->staging)
        (void)ra_fetch_sub_release(&write->device->staging.uploading,
                                   (int64_t)write->size); /* with has_room */
    unstage(write);
}

/* Waits for room, where `w` is given. */
static rota_status publish(rota_runtime *runtime, rota_record_kind kind, void *object, waiting *w,
                           rota_ticket *out_ticket) {
    for (;;) {
        rota_status status = rota_lane_publish(runtime, kind, object, NULL, NULL, 0, out_ticket);
        if (status != ROTA_BUSY || !w) return status;
        ROTA_TRY(wait_for_room(w, NULL, "no room for a submission"));
    }
}

static rota_status submit_write(rota_host_write *write, const uint8_t *data, rota_ticket *out_ticket) {
    rota_device *device = write->device;
    bool is_large = write->size > device->runtime->options.staging_slot_bytes;
    waiting w;
    begin_waiting(&w, device->runtime);
    ROTA_TRY(is_large ? stage_large(write, data, &w) : stage_small(write, data, &w));
    int64_t bytes = (int64_t)write->size;
    rota_status status = rota_device_is_lost(device)
                             ? device_lost(device)
                             : publish(device->runtime, ROTA_RECORD_WRITE, write, &w, out_ticket);
    if (status != ROTA_OK)
        unstage(write);
    else if (is_large) /* afterwards: a thread that is stopped before it takes nobody's room */
        (void)ra_fetch_add_relaxed(&device->staging.uploading, bytes);
    return status;
}

rota_status rota_buffer_write(rota_buffer *buffer, rota_device *device, uint64_t offset_bytes,
                              const void *data, uint64_t size_bytes, rota_ticket *out_ticket) {
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    rota_residency *residency;
    ROTA_TRY(check_range(buffer, offset_bytes, data, size_bytes, &residency));
    rota_runtime *runtime = residency->runtime;
    if (device && device->runtime != runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s' and device '%s' are of different runtimes",
                         rota_buffer_name(buffer), device->id);
    if (!device) {
        uint32_t home = ra_load_relaxed(&residency->home_plus_1);
        if (home != 0 && !rota_device_is_lost(runtime->devices[home - 1]))
            device = runtime->devices[home - 1];
        uint32_t devices = ra_load_acquire(&runtime->device_count);
        for (uint32_t d = 0; !device && d < devices; d++)
            if (ra_load_acquire(&runtime->devices[d]->visible) && !rota_device_is_lost(runtime->devices[d]))
                device = runtime->devices[d];
        if (!device)
            return rota_fail(ROTA_WRONG_STATE, "write to buffer '%s': the runtime has no open device",
                             rota_buffer_name(buffer));
    }
    ROTA_TRY(rota_residency_prepare(residency, device));
    if (size_bytes == 0) return ROTA_OK;
    rota_host_write *write = malloc(sizeof *write);
    if (!write)
        return rota_fail(ROTA_OUT_OF_MEMORY, "write to buffer '%s': no host memory",
                         rota_buffer_name(buffer));
    *write = (rota_host_write){.buffer = residency->buffer,
                               .residency = residency,
                               .device = device,
                               .offset = buffer->root_offset + offset_bytes,
                               .size = size_bytes};
    rota_ticket ticket = {NULL, 0};
    rota_status status = submit_write(write, data, &ticket);
    if (status != ROTA_OK) free(write); /* else the sequencer has it */
    if (status == ROTA_OK && out_ticket) *out_ticket = ticket;
    return status;
}

/* ---- Reads ---- */

static void return_staging(rota_host_read *read) {
    for (uint32_t p = 0; p < read->part_count; p++) {
        rota_staging_release(read->parts[p].down);
        read->parts[p].down = NULL;
    }
    if (!read->is_returned) rota_staging_return(read->runtime, read->size);
    read->is_returned = true;
}

void rota_host_read_release(rota_host_read *read) {
    if (ra_fetch_sub_acq_rel(&read->references, 1) != 1) return;
    return_staging(read);
    if (read->extents != &read->one_extent) free(read->extents);
    if (read->parts != &read->one_part) free(read->parts);
    free(read);
}

const rota_extent *rota_host_read_extents(const rota_work *work, uint32_t *out_count) {
    const rota_host_read *read = work->submission->read;
    *out_count = read->parts[work->segment].extent_count;
    return &read->extents[read->parts[work->segment].first_extent];
}

void rota_host_read_deliver(rota_host_read *read, uint8_t *out) {
    for (uint32_t p = 0; p < read->part_count; p++) {
        rota_read_part *part = &read->parts[p];
        const rota_extent *extent = &read->extents[part->first_extent];
        uint64_t done = 0; /* of the extent */
        for (const rota_staging *block = part->down; block; block = block->more)
            for (uint64_t at = 0; at < block->used;) {
                if (done == extent->size) {
                    extent++;
                    done = 0;
                }
                uint64_t left = extent->size - done, here = block->used - at,
                         bytes = left < here ? left : here;
                memcpy(out + (extent->offset - read->offset) + done,
                       (const uint8_t *)block->memory->host + at, bytes);
                done += bytes;
                at += bytes;
            }
    }
    return_staging(
        read); /* at once, not when the sequencer next recycles, which looks at it only afterwards */
}

static rota_status promise(const rota_host_read *read, waiting *w) {
    uint64_t start = w->start_ns;
    rota_status status = ROTA_OK;
    while (status == ROTA_OK && !take_promise(read->runtime, read->size, start))
        status = read->data ? rota_fail(ROTA_BUSY,
                                        "read of buffer '%s': its %llu bytes of staging memory do not fit "
                                        "beside what others have before them",
                                        read->residency->buffer->name, (unsigned long long)read->size)
                            : wait_for_staging(w, NULL);
    end_turn(&read->runtime->promise_turn, start);
    return status;
}

/* `data`: where the completer brings the bytes; NULL: `out_read`, which is then held for the caller too. */
static rota_status submit_read(rota_residency *residency, uint64_t offset, uint64_t size, uint8_t *data,
                               rota_host_read **out_read, rota_ticket *out_ticket) {
    rota_host_read *read = calloc(1, sizeof *read);
    if (!read)
        return rota_fail(ROTA_OUT_OF_MEMORY, "read of buffer '%s': no host memory", residency->buffer->name);
    atomic_init(&read->references, data ? 1 : 2);
    read->residency = residency;
    read->offset = offset;
    read->size = size;
    read->data = data;
    read->runtime = residency->runtime;
    *out_read = read;
    waiting w;
    begin_waiting(&w, read->runtime);
    rota_status status = promise(read, &w);
    if (status == ROTA_OK)
        status = publish(read->runtime, ROTA_RECORD_READ, read, data ? NULL : &w, out_ticket);
    else
        read->is_returned = true;
    if (status != ROTA_OK) {
        return_staging(read);
        free(read);
    }
    return status;
}

rota_status rota_buffer_read(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                             uint64_t size_bytes) {
    rota_residency *residency;
    rota_host_read *read;
    rota_ticket ticket;
    ROTA_TRY(check_range(buffer, offset_bytes, out_data, size_bytes, &residency));
    if (size_bytes == 0) return ROTA_OK;
    ROTA_TRY(submit_read(residency, buffer->root_offset + offset_bytes, size_bytes, NULL, &read, &ticket));
    rota_status status = rota_wait(ticket, 0);
    if (status == ROTA_OK) rota_host_read_deliver(read, out_data);
    rota_host_read_release(read);
    return status;
}

rota_status rota_buffer_read_async(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                                   uint64_t size_bytes, rota_ticket *out_ticket) {
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    rota_residency *residency;
    rota_host_read *read;
    ROTA_TRY(check_range(buffer, offset_bytes, out_data, size_bytes, &residency));
    if (size_bytes == 0) return ROTA_OK;
    return submit_read(residency, buffer->root_offset + offset_bytes, size_bytes, out_data, &read,
                       out_ticket);
}

void rota_host_record_drop(const rota_record *record) {
    if (record->kind == ROTA_RECORD_READ) rota_host_read_release(record->object);
    if (record->kind != ROTA_RECORD_WRITE) return;
    rota_host_write *write = record->object;
    rota_host_write_drop(write);
    free(write);
}
