/* Host access to persistent buffers, ordered like nodes: records in the caller's lane, copies on the device's
 * queue. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime_internal.h"

/* A read is one copy, so that it is one point in the order, up to this size. */
#define READ_BYTES_MAX ((uint64_t)256 << 20)

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

/* Claims a slot of the device's upload ring: a free one, or one whose last copy has passed. */
static bool claim_slot(rota_device *device, uint32_t *out_slot) {
    for (uint32_t i = 0; i < device->upload_slot_count; i++) {
        rota_upload_slot *slot = &device->upload_slots[i];
        uint64_t state = ra_load_acquire(&slot->state); /* with the sequencer's release of the point */
        if (state == 1 || (state != 0 && !rota_point_passed(device->runtime, state))) continue;
        if (!ra_cas_acq_rel(&slot->state, &state, 1)) continue;
        *out_slot = i;
        return true;
    }
    return false;
}

/* Sleeps a little and checks the deadline, counted from the last progress of what room comes from. */
static rota_status wait_for_room(rota_progress *progress, uint64_t *pause_ns, const char *what) {
    rota_runtime *runtime = progress->runtime;
    uint64_t from = rota_progress_look(progress), now = rota_clock_ns();
    if (now > from && now - from > runtime->options.timeout_ns)
        return rota_fail(ROTA_TIMEOUT, "%s within %.3f s", what, (double)runtime->options.timeout_ns * 1e-9);
    (void)rota_futex_wait(&never_word, 0, now + *pause_ns);
    if (*pause_ns < 200000) *pause_ns *= 2;
    return rota_runtime_check(runtime);
}

/* Of the queue that uploads take: the newest of those that slots wait for, or one after them. */
static uint64_t newest_point(const rota_device *device) {
    return rota_point(device->index, device->io_queue,
                      ra_load_acquire(&device->timelines[device->io_queue].issued));
}

static rota_status write_piece(rota_residency *residency, rota_device *device, uint64_t offset,
                               const uint8_t *data, uint64_t size, rota_ticket *out_ticket) {
    rota_runtime *runtime = residency->runtime;
    uint64_t pause = 10000;
    rota_progress progress;
    rota_progress_begin(&progress, runtime);
    rota_progress_watch_chain(&progress, newest_point(device));
    uint32_t slot = 0;
    while (!claim_slot(device, &slot)) {
        if (rota_device_is_lost(device)) break;
        ROTA_TRY(wait_for_room(&progress, &pause, "no free slot in the upload ring"));
    }
    if (rota_device_is_lost(device)) {
        const rota_cause *cause = ra_load_acquire(&device->lost_cause);
        return rota_fail(ROTA_DEVICE_LOST, "%s", cause ? cause->message : "device lost");
    }
    rota_host_write *write = malloc(sizeof *write);
    if (!write) {
        ra_store_release(&device->upload_slots[slot].state, 0);
        return rota_fail(ROTA_OUT_OF_MEMORY, "write to buffer '%s': no host memory", residency->buffer->name);
    }
    *write = (rota_host_write){residency->buffer, residency, device, offset, size, slot};
    memcpy((uint8_t *)device->upload_memory->host + slot * runtime->options.staging_slot_bytes, data, size);
    for (;;) {
        rota_status status = rota_lane_publish(runtime, ROTA_RECORD_WRITE, write, NULL, NULL, 0, out_ticket);
        if (status == ROTA_OK) return ROTA_OK;
        if (status == ROTA_BUSY) status = wait_for_room(&progress, &pause, "no room for a submission");
        if (status != ROTA_OK) {
            free(write);
            ra_store_release(&device->upload_slots[slot].state, 0);
            return status;
        }
    }
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
    uint64_t piece_max = runtime->options.staging_slot_bytes;
    rota_ticket ticket = {NULL, 0};
    for (uint64_t done = 0; done < size_bytes;) {
        uint64_t piece = size_bytes - done < piece_max ? size_bytes - done : piece_max;
        ROTA_TRY(write_piece(residency, device, buffer->root_offset + offset_bytes + done,
                             (const uint8_t *)data + done, piece, &ticket));
        done += piece;
    }
    if (out_ticket) *out_ticket = ticket;
    return ROTA_OK;
}

void rota_host_read_release(rota_host_read *read) {
    if (ra_fetch_sub_acq_rel(&read->references, 1) != 1) return;
    for (uint32_t i = 0; i < read->piece_count; i++)
        if (read->pieces[i].down) rota_staging_release(read->pieces[i].down);
    free(read->pieces);
    free(read);
}

static rota_status read_piece(rota_residency *residency, uint64_t offset, uint8_t *out, uint64_t size) {
    rota_runtime *runtime = residency->runtime;
    rota_host_read *read = calloc(1, sizeof *read);
    if (!read)
        return rota_fail(ROTA_OUT_OF_MEMORY, "read of buffer '%s': no host memory", residency->buffer->name);
    atomic_init(&read->references, 2);
    read->residency = residency;
    read->offset = offset;
    read->size = size;
    rota_ticket ticket;
    uint64_t pause = 10000;
    rota_progress progress;
    rota_progress_begin(&progress, runtime);
    for (;;) {
        rota_status status = rota_lane_publish(runtime, ROTA_RECORD_READ, read, NULL, NULL, 0, &ticket);
        if (status == ROTA_OK) break;
        if (status == ROTA_BUSY) status = wait_for_room(&progress, &pause, "no room for a submission");
        if (status != ROTA_OK) {
            free(read);
            return status;
        }
    }
    rota_status status = rota_wait(ticket, 0);
    if (status == ROTA_OK) {
        for (uint32_t i = 0; i < read->piece_count; i++) {
            const rota_transfer *piece = &read->pieces[i];
            memcpy(out + (piece->offset - offset), piece->down->memory->host, piece->size);
            rota_staging_release(piece->down);
        }
        /* Given back at once, not when the sequencer next recycles; it looks only if it lets go last. */
        read->piece_count = 0;
    }
    rota_host_read_release(read);
    return status;
}

void rota_host_record_drop(const rota_record *record) {
    if (record->kind == ROTA_RECORD_READ) rota_host_read_release(record->object);
    if (record->kind != ROTA_RECORD_WRITE) return;
    rota_host_write *write = record->object;
    /* Release: with the claim; nothing has read the slot. */
    ra_store_release(&write->device->upload_slots[write->slot].state, 0);
    free(write);
}

rota_status rota_buffer_read(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                             uint64_t size_bytes) {
    rota_residency *residency;
    ROTA_TRY(check_range(buffer, offset_bytes, out_data, size_bytes, &residency));
    for (uint64_t done = 0; done < size_bytes;) {
        uint64_t piece = size_bytes - done < READ_BYTES_MAX ? size_bytes - done : READ_BYTES_MAX;
        ROTA_TRY(read_piece(residency, buffer->root_offset + offset_bytes + done, (uint8_t *)out_data + done,
                            piece));
        done += piece;
    }
    return ROTA_OK;
}
