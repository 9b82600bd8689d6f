/* rota_buffer_write: one submission, and so one place in the order, whatever its size. */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "sched/runtime/caller/room.h"
#include "sched/runtime/kinds/write.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/loss.h"

/* What writes may have under way on a device: all that will come to an end by itself, and those of the buffer
 * that are kept, which take no other buffer's room. One that is larger than that goes when it is alone. */
static bool fits(const rota_host_write *write, bool beside_others) {
    const uint64_t limit = write->device->runtime->options.staging_limit_bytes;
    /* First, acquire: with give_back_uploads, and with rota_sequence_record, which counts a write as kept
     * before it is no longer counted here. */
    int64_t under_way = ra_load_acquire(&write->device->staging->uploading);
    const uint64_t others = beside_others && under_way > 0 ? (uint64_t)under_way : 0;
    const uint64_t kept = ra_load_relaxed(&write->residency->kept_bytes);
    if (ra_load_relaxed(&write->residency->kept) >= ROTA_KEPT_MAX) return false;
    return others + kept == 0 || others + kept + rota_host_write_charge(write) <= limit;
}

static rota_taking take_own(void *user, bool may) {
    return may && fits(user, false) ? ROTA_TAKEN : ROTA_NOT_YET;
}
static bool own_is_free(void *user, uint64_t wanted) {
    const rota_host_write *write = user;
    const uint64_t kept = ra_load_relaxed(&write->residency->kept_bytes);
    return ra_load_relaxed(&write->residency->kept) < ROTA_KEPT_MAX &&
           (kept == 0 || kept + wanted <= write->device->runtime->options.staging_limit_bytes);
}

static rota_taking take_pool(void *user, bool may) {
    if (!fits(user, false)) return ROTA_ELSEWHERE;
    return may && fits(user, true) ? ROTA_TAKEN : ROTA_NOT_YET;
}
/* Of its buffer's kept writes, which count too, nothing is known here; but all else comes to its end. */
static bool pool_is_free(void *user, uint64_t wanted) {
    (void)wanted;
    const rota_host_write *write = user;
    return ra_load_acquire(&write->device->staging->uploading) <= 0;
}

/* The turns of those that wait until less of the buffer's is kept: made when there is the first. */
static rota_status turns_of(rota_residency *residency, rota_turns **out) {
    rota_turns *none = NULL;
    *out = ra_load_acquire(&residency->turns); /* with the release below */
    if (*out) return ROTA_OK;
    rota_turns *turns = aligned_alloc(_Alignof(rota_turns), sizeof *turns);
    if (!turns) return rota_fail(ROTA_OUT_OF_MEMORY, "buffer '%s': no host memory", residency->buffer->name);
    memset(turns, 0, sizeof *turns);
    *out = turns;
    if (ra_cas_acq_rel(&residency->turns, &none, turns)) return ROTA_OK;
    free(turns);
    *out = none;
    return ROTA_OK;
}

/* Until the write has room among all that there is a limit for. While its own buffer has none it has no turn
 * that writes to others wait behind. */
static rota_status wait_for_pool(rota_host_write *write, rota_room_wait *w) {
    rota_runtime *runtime = write->device->runtime;
    const rota_room in_pool = {&write->device->staging->turns, ROTA_NO_STAGING, write->device, true,
                               rota_host_write_charge(write),  take_pool,       pool_is_free,  write};
    rota_promised wanted = {runtime, write->size};
    const rota_room in_limit = rota_promise_room(&wanted, write->device);
    rota_taking got = ROTA_NOT_YET;
    while (got != ROTA_TAKEN) {
        rota_turns *before = ra_load_acquire(&write->residency->turns); /* with turns_of */
        if (w->own.turns || (before && !rota_turns_are_none(before)) || !fits(write, false)) {
            rota_room_leave(&w->pool);
            rota_room of_own = {NULL,     ROTA_NO_STAGING, write->device, true, rota_host_write_charge(write),
                                take_own, own_is_free,     write};
            ROTA_TRY(turns_of(write->residency, &of_own.turns));
            ROTA_TRY(rota_room_take(w, &of_own, &w->own, &got));
        }
        ROTA_TRY(rota_room_take(w, &in_pool, &w->pool, &got));
    }
    return runtime->options.memory_limit_bytes ? rota_room_take(w, &in_limit, &w->promise, &got) : ROTA_OK;
}

/* Memory for the whole of it: before the last byte is here nothing is submitted, so that others wait for no
 * thread that is stopped, and a write that finds no memory leaves the buffer as it was. */
static rota_status stage_in_pool(rota_host_write *write, const uint8_t *data, rota_room_wait *w) {
    rota_device *device = write->device;
    ROTA_TRY(wait_for_pool(write, w));
    rota_status status =
        rota_staging_acquire(device, write->size, ROTA_EXEC_MEMORY_HOST_WRITE, &write->staging);
    if (status != ROTA_OK) {
        rota_staging_return(device->runtime, write->size);
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

static rota_taking take_slot(void *user, bool may) {
    rota_host_write *write = user;
    switch (rota_staging_claim_slot(write->device, may, &write->slot)) {
    case ROTA_SLOT_CLAIMED:
        return ROTA_TAKEN;
    case ROTA_SLOTS_ARE_KEPT:
        return ROTA_ELSEWHERE;
    case ROTA_SLOT_IS_FREE:
    case ROTA_SLOTS_ARE_TAKEN:
        break;
    }
    return ROTA_NOT_YET;
}
static bool slot_is_free(void *user, uint64_t wanted) {
    (void)wanted;
    rota_host_write *write = user;
    return rota_staging_claim_slot(write->device, false, &write->slot) == ROTA_SLOT_IS_FREE;
}

/* Through the ring; but if none of its slots comes free by itself soon, as larger ones. */
static rota_status stage_small(rota_host_write *write, const uint8_t *data, rota_room_wait *w) {
    rota_device *device = write->device;
    const rota_room in_ring = {&device->staging->slot_turns,
                               "no free slot in the upload ring",
                               device,
                               false,
                               1,
                               take_slot,
                               slot_is_free,
                               write};
    rota_taking got;
    ROTA_TRY(rota_room_take(w, &in_ring, &w->slot, &got));
    if (got == ROTA_ELSEWHERE) {
        rota_room_leave(&w->slot);
        return stage_in_pool(write, data, w);
    }
    memcpy((uint8_t *)device->uploads.memory->host +
               write->slot * device->runtime->options.staging_slot_bytes,
           data, write->size);
    return ROTA_OK;
}

static rota_status submit_write(rota_host_write *write, const uint8_t *data, rota_room_wait *w,
                                rota_ticket *out_ticket) {
    rota_device *device = write->device;
    bool is_large = write->size > device->runtime->options.staging_slot_bytes;
    ROTA_TRY(is_large ? stage_in_pool(write, data, w) : stage_small(write, data, w));
    /* The sequencer has the write once it is published. */
    const int64_t charge = write->staging ? (int64_t)rota_host_write_charge(write) : 0;
    rota_status status = rota_device_is_lost(device)
                             ? rota_room_device_lost(device)
                             : rota_room_publish(device->runtime, ROTA_RECORD_WRITE, write, w, out_ticket);
    if (status != ROTA_OK)
        rota_host_write_unstage(write);
    else if (charge) /* afterwards: a thread that is stopped before it takes nobody's room */
        (void)ra_fetch_add_relaxed(&device->staging->uploading, charge);
    return status;
}

rota_status rota_buffer_write(rota_buffer *buffer, rota_device *device, uint64_t offset_bytes,
                              const void *data, uint64_t size_bytes, rota_ticket *out_ticket) {
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    rota_residency *residency;
    ROTA_TRY(rota_host_check_range(buffer, offset_bytes, data, size_bytes, &residency));
    rota_runtime *runtime = residency->runtime;
    if (buffer->is_read_only)
        return rota_fail(ROTA_INVALID_ARGUMENT, "write to buffer '%s', which is read-only",
                         rota_buffer_name(buffer));
    if (device && device->runtime != runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s' and device '%s' are of different runtimes",
                         rota_buffer_name(buffer), device->id);
    if (!device) {
        uint32_t home = ra_load_relaxed(&residency->home_plus_1);
        if (home != 0 && !rota_device_is_lost(runtime->devices[home - 1]))
            device = runtime->devices[home - 1];
        uint32_t devices = ra_load_acquire(&runtime->device_count);
        for (uint32_t d = 0; !device && d < devices; d++)
            if (ra_load_acquire(&runtime->devices[d]->is_seen) && !rota_device_is_lost(runtime->devices[d]))
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
    rota_room_wait w;
    rota_room_wait_begin(&w, runtime);
    rota_status status = submit_write(write, data, &w, &ticket);
    rota_room_leave_all(&w);
    if (status != ROTA_OK) free(write); /* else the sequencer has it */
    if (status == ROTA_OK && out_ticket) *out_ticket = ticket;
    return status;
}
