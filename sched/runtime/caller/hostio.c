/* Host access to persistent buffers, ordered like nodes: records in the caller's lane, copies on the device's
 * queue. A call is one submission, and so one place in the order, whatever its size. */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "graph/buffer_internal.h"
#include "sched/host_read.h"
#include "sched/runtime/kinds/read.h"
#include "sched/runtime/kinds/write.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/shared/shell.h"
#include "sched/runtime/state/runtime.h"

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

/* A call's place among those that wait for one kind of room; zero: none. */
typedef struct place {
    rota_turns *turns;
    uint64_t number;
} place;

static void leave(place *p) {
    if (!p->turns) return;
    ra_store_relaxed(&p->turns->wanted, 0); /* whoever's turn it is says it again at its next look */
    rota_turns_leave(p->turns, p->number);
    p->turns = NULL;
}

/* Of one call. The turns that it had it keeps until its submission is published, so that those are in order,
 * too. */
typedef struct waiting {
    rota_runtime *runtime;
    uint64_t pause_ns;
    bool is_watching;
    rota_progress progress;
    uint64_t counted; /* turns that had led to room when it was last looked at: each is progress, too */
    place slot, own, pool, promise;
} waiting;

static void begin_waiting(waiting *w, rota_runtime *runtime) {
    w->runtime = runtime;
    w->pause_ns = 10000;
    w->is_watching = false;
    w->counted = 0;
    w->slot = w->own = w->pool = w->promise = (place){NULL, 0};
}

static void leave_all(waiting *w) {
    leave(&w->slot);
    leave(&w->own);
    leave(&w->pool);
    leave(&w->promise);
}

/* Room comes from all that the device was given, and what that comes after; or, where `device` is NULL, from
 * whatever has been submitted. */
static void watch(waiting *w, const rota_device *device) {
    if (w->is_watching) return;
    w->is_watching = true;
    rota_progress_begin(&w->progress, w->runtime);
    if (device) {
        for (uint32_t q = 0; q < w->runtime->queue_count; q++)
            rota_progress_watch_chain(
                &w->progress, rota_point(device->index, q, ra_load_acquire(&device->timelines[q].issued)));
        return;
    }
    uint32_t devices = ra_load_acquire(&w->runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) rota_progress_watch_device(&w->progress, w->runtime->devices[d]);
}

/* Whether the deadline has passed, counted from the last progress of what room comes from. */
static rota_status check_deadline(waiting *w, const rota_device *device, const char *what) {
    rota_runtime *runtime = w->runtime;
    watch(w, device);
    uint64_t from = rota_progress_look(&w->progress), now = rota_clock_ns();
    if (now > from && now - from > runtime->options.timeout_ns)
        return rota_fail(ROTA_TIMEOUT, "%s within %.3f s", what, (double)runtime->options.timeout_ns * 1e-9);
    return ROTA_OK;
}

static rota_status pause_a_little(waiting *w) {
    rota_nap_until(rota_deadline_after(w->pause_ns));
    if (w->pause_ns < 200000) w->pause_ns *= 2;
    return rota_runtime_check(w->runtime);
}

static rota_status device_lost(const rota_device *device) {
    const rota_cause *cause = ra_load_acquire(&device->lost_cause);
    return rota_fail(ROTA_DEVICE_LOST, "%s", cause ? cause->message : "device lost");
}

/* ---- Turns ---- */

typedef enum taking {
    NOT_YET,
    TAKEN,
    ELSEWHERE /* what is waited for does not come by waiting here */
} taking;

/* Some kind of room, and who is to have some. */
typedef struct room {
    rota_turns *turns;
    const char *what;
    rota_device *device; /* that it comes from; NULL: any */
    bool is_staging;     /* given back by the sequencer */
    uint64_t size;       /* how much of it is wanted */
    /* `may`: it is this one's turn. */
    taking (*take)(void *user, bool may);
    /* Whether whoever's turn it is, and wants so much (0: has not said), has room: its time runs then. */
    bool (*is_free)(void *user, uint64_t wanted);
    void *user;
} room;

static bool is_free(const room *r) {
    return r->is_free(r->user, ra_load_relaxed(&r->turns->wanted));
}

/* Takes some of the room at once where nobody waits for any, else in turn (turns.h). */
static rota_status take_in_turn(waiting *w, const room *r, place *p, taking *out_taking) {
    w->pause_ns = 10000;
    w->is_watching = false;
    w->counted = rota_turns_counted(r->turns);
    for (;;) {
        rota_turn turn = ROTA_TURN_NOW;
        if (!p->turns && !rota_turns_are_none(r->turns)) {
            p->turns = r->turns;
            p->number = rota_turns_take(r->turns);
        }
        if (p->turns) turn = rota_turns_look(p->turns, p->number, is_free(r), rota_clock_ns());
        if (turn == ROTA_TURN_LAPSED) {
            p->number = rota_turns_take(p->turns);
            continue;
        }
        if (p->turns && turn == ROTA_TURN_NOW) ra_store_relaxed(&p->turns->wanted, r->size);
        *out_taking = r->take(r->user, turn == ROTA_TURN_NOW);
        if (*out_taking == TAKEN) rota_turns_count(r->turns);
        if (*out_taking != NOT_YET) return ROTA_OK;
        if (!p->turns) { /* from here on nobody who comes later takes it first */
            p->turns = r->turns;
            p->number = rota_turns_take(r->turns);
            continue;
        }
        if (r->device && rota_device_is_lost(r->device)) return device_lost(r->device);
        const uint64_t counted = rota_turns_counted(r->turns);
        if (counted != w->counted) w->is_watching = false;
        w->counted = counted;
        ROTA_TRY(check_deadline(w, r->device, r->what));
        if (r->is_staging) rota_sequencer_request_reap(w->runtime);
        if (turn == ROTA_TURN_LATER) { /* a look now and then lets a stopped one's turn lapse */
            rota_turns_sleep(p->turns, p->number, rota_deadline_after(ROTA_TURN_LAPSE_NS / 2));
            w->pause_ns = 10000;
            ROTA_TRY(rota_runtime_check(w->runtime));
        } else {
            ROTA_TRY(pause_a_little(w));
        }
    }
}

/* ---- Writes ---- */

static const char NO_STAGING[] = "no room for staging memory";

/* What writes may have under way on a device: all that will come to an end by itself, and those of the buffer
 * that are kept, which take no other buffer's room. One that is larger than that goes when it is alone. */
static bool fits(const rota_host_write *write, bool beside_others) {
    const uint64_t limit = write->device->runtime->options.staging_limit_bytes;
    /* First, acquire: with give_back_uploads, and with rota_sequence_record, which counts a write as kept
     * before it is no longer counted here. */
    int64_t under_way = ra_load_acquire(&write->device->staging.uploading);
    const uint64_t others = beside_others && under_way > 0 ? (uint64_t)under_way : 0;
    const uint64_t kept = ra_load_relaxed(&write->residency->kept_bytes);
    if (ra_load_relaxed(&write->residency->kept) >= ROTA_KEPT_MAX) return false;
    return others + kept == 0 || others + kept + rota_host_write_charge(write) <= limit;
}

static taking take_own(void *user, bool may) {
    return may && fits(user, false) ? TAKEN : NOT_YET;
}
static bool own_is_free(void *user, uint64_t wanted) {
    const rota_host_write *write = user;
    const uint64_t kept = ra_load_relaxed(&write->residency->kept_bytes);
    return ra_load_relaxed(&write->residency->kept) < ROTA_KEPT_MAX &&
           (kept == 0 || kept + wanted <= write->device->runtime->options.staging_limit_bytes);
}

static taking take_pool(void *user, bool may) {
    if (!fits(user, false)) return ELSEWHERE;
    return may && fits(user, true) ? TAKEN : NOT_YET;
}
/* Of its buffer's kept writes, which count too, nothing is known here; but all else comes to its end. */
static bool pool_is_free(void *user, uint64_t wanted) {
    (void)wanted;
    const rota_host_write *write = user;
    return ra_load_acquire(&write->device->staging.uploading) <= 0;
}

typedef struct promised {
    rota_runtime *runtime;
    uint64_t size;
} promised;

static taking take_promise(void *user, bool may) {
    const promised *p = user;
    if (!may || !rota_staging_promise(p->runtime, p->size)) return NOT_YET;
    ra_store_relaxed(&p->runtime->promise_turns.wanted, 0); /* it has it, should it be stopped now */
    return TAKEN;
}
static bool promise_is_free(void *user, uint64_t wanted) {
    const promised *p = user;
    return rota_staging_may_promise(p->runtime, wanted);
}
static room promise_room(promised *p, rota_device *device) {
    return (room){
        &p->runtime->promise_turns, NO_STAGING, device, true, p->size, take_promise, promise_is_free, p};
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
static rota_status wait_for_pool(rota_host_write *write, waiting *w) {
    rota_runtime *runtime = write->device->runtime;
    const room in_pool = {&write->device->staging.turns, NO_STAGING, write->device, true,
                          rota_host_write_charge(write), take_pool,  pool_is_free,  write};
    promised wanted = {runtime, write->size};
    const room in_limit = promise_room(&wanted, write->device);
    taking got = NOT_YET;
    while (got != TAKEN) {
        rota_turns *before = ra_load_acquire(&write->residency->turns); /* with turns_of */
        if (w->own.turns || (before && !rota_turns_are_none(before)) || !fits(write, false)) {
            leave(&w->pool);
            room of_own = {NULL,     NO_STAGING,  write->device, true, rota_host_write_charge(write),
                           take_own, own_is_free, write};
            ROTA_TRY(turns_of(write->residency, &of_own.turns));
            ROTA_TRY(take_in_turn(w, &of_own, &w->own, &got));
        }
        ROTA_TRY(take_in_turn(w, &in_pool, &w->pool, &got));
    }
    return runtime->options.memory_limit_bytes ? take_in_turn(w, &in_limit, &w->promise, &got) : ROTA_OK;
}

/* Memory for the whole of it: before the last byte is here nothing is submitted, so that others wait for no
 * thread that is stopped, and a write that finds no memory leaves the buffer as it was. */
static rota_status stage_in_pool(rota_host_write *write, const uint8_t *data, waiting *w) {
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

static taking take_slot(void *user, bool may) {
    rota_host_write *write = user;
    switch (rota_staging_claim_slot(write->device, may, &write->slot)) {
    case ROTA_SLOT_CLAIMED:
        return TAKEN;
    case ROTA_SLOTS_ARE_KEPT:
        return ELSEWHERE;
    case ROTA_SLOT_IS_FREE:
    case ROTA_SLOTS_ARE_TAKEN:
        break;
    }
    return NOT_YET;
}
static bool slot_is_free(void *user, uint64_t wanted) {
    (void)wanted;
    rota_host_write *write = user;
    return rota_staging_claim_slot(write->device, false, &write->slot) == ROTA_SLOT_IS_FREE;
}

/* Through the ring; but if none of its slots comes free by itself soon, as larger ones. */
static rota_status stage_small(rota_host_write *write, const uint8_t *data, waiting *w) {
    rota_device *device = write->device;
    const room in_ring = {&device->staging.slot_turns,
                          "no free slot in the upload ring",
                          device,
                          false,
                          1,
                          take_slot,
                          slot_is_free,
                          write};
    taking got;
    ROTA_TRY(take_in_turn(w, &in_ring, &w->slot, &got));
    if (got == ELSEWHERE) {
        leave(&w->slot);
        return stage_in_pool(write, data, w);
    }
    memcpy((uint8_t *)device->upload_memory->host + write->slot * device->runtime->options.staging_slot_bytes,
           data, write->size);
    return ROTA_OK;
}

/* Waits for room, where `w` is given. */
static rota_status publish(rota_runtime *runtime, rota_record_kind kind, void *object, waiting *w,
                           rota_ticket *out_ticket) {
    if (w) w->is_watching = false;
    for (;;) {
        rota_status status = rota_lane_publish(runtime, kind, object, NULL, NULL, 0, out_ticket);
        if (status != ROTA_BUSY || !w) return status;
        ROTA_TRY(check_deadline(w, NULL, "no room for a submission"));
        ROTA_TRY(pause_a_little(w));
    }
}

static rota_status submit_write(rota_host_write *write, const uint8_t *data, waiting *w,
                                rota_ticket *out_ticket) {
    rota_device *device = write->device;
    bool is_large = write->size > device->runtime->options.staging_slot_bytes;
    ROTA_TRY(is_large ? stage_in_pool(write, data, w) : stage_small(write, data, w));
    /* The sequencer has the write once it is published. */
    const int64_t charge = write->staging ? (int64_t)rota_host_write_charge(write) : 0;
    rota_status status = rota_device_is_lost(device)
                             ? device_lost(device)
                             : publish(device->runtime, ROTA_RECORD_WRITE, write, w, out_ticket);
    if (status != ROTA_OK)
        rota_host_write_unstage(write);
    else if (charge) /* afterwards: a thread that is stopped before it takes nobody's room */
        (void)ra_fetch_add_relaxed(&device->staging.uploading, charge);
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
    waiting w;
    begin_waiting(&w, runtime);
    rota_status status = submit_write(write, data, &w, &ticket);
    leave_all(&w);
    if (status != ROTA_OK) free(write); /* else the sequencer has it */
    if (status == ROTA_OK && out_ticket) *out_ticket = ticket;
    return status;
}

/* ---- Reads ---- */

static rota_status promise(const rota_host_read *read, waiting *w) {
    rota_runtime *runtime = read->runtime;
    if (runtime->options.memory_limit_bytes == 0) return ROTA_OK;
    promised wanted = {runtime, read->size};
    if (read->data) {
        rota_turns *turns = &runtime->promise_turns;
        if ((rota_turns_are_none(turns) || (promise_is_free(&wanted, ra_load_relaxed(&turns->wanted)) &&
                                            rota_turns_lapse(turns, rota_clock_ns()))) &&
            rota_staging_promise(runtime, read->size))
            return ROTA_OK;
        return rota_fail(ROTA_BUSY,
                         "read of buffer '%s': its %llu bytes of staging memory do not fit beside what "
                         "others have before them",
                         read->residency->buffer->name, (unsigned long long)read->size);
    }
    const room in_limit = promise_room(&wanted, NULL);
    taking got;
    return take_in_turn(w, &in_limit, &w->promise, &got);
}

/* Those that nobody waits for in the call have no other bound: each of the others keeps its thread. */
static rota_status check_kept(const rota_residency *residency) {
    if (ra_load_relaxed(&residency->kept) < ROTA_KEPT_MAX) return ROTA_OK;
    rota_sequencer_request_reap(residency->runtime);
    return rota_fail(ROTA_BUSY,
                     "read of buffer '%s': %d reads and writes of it wait for kernels or other devices, at "
                     "most %d may",
                     residency->buffer->name, ROTA_KEPT_MAX, ROTA_KEPT_MAX);
}

/* `data`: where the completer brings the bytes; NULL: `out_read`, which is then held for the caller too. */
static rota_status submit_read(rota_residency *residency, uint64_t offset, uint64_t size, uint8_t *data,
                               rota_host_read **out_read, rota_ticket *out_ticket) {
    if (data) ROTA_TRY(check_kept(residency));
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
    leave_all(&w);
    if (status != ROTA_OK) {
        rota_host_read_return_staging(read);
        free(read);
    }
    return status;
}

rota_status rota_buffer_read_within(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                                    uint64_t size_bytes, uint64_t timeout_ns) {
    rota_residency *residency;
    rota_host_read *read;
    rota_ticket ticket;
    ROTA_TRY(check_range(buffer, offset_bytes, out_data, size_bytes, &residency));
    if (size_bytes == 0) return ROTA_OK;
    ROTA_TRY(submit_read(residency, buffer->root_offset + offset_bytes, size_bytes, NULL, &read, &ticket));
    rota_status status = rota_wait(ticket, timeout_ns);
    if (status == ROTA_OK) rota_host_read_deliver(read, out_data);
    rota_host_read_release(read);
    return status;
}

rota_status rota_buffer_read(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                             uint64_t size_bytes) {
    return rota_buffer_read_within(buffer, offset_bytes, out_data, size_bytes, 0);
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
