/* Waiting for room, in turn: what the calls that read and write buffers from the host wait for. */
#include "base/clock.h"
#include "base/futex.h"
#include "sched/runtime/caller/room.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/point.h"

const char ROTA_NO_STAGING[] = "no room for staging memory";

rota_status rota_host_check_range(rota_buffer *buffer, uint64_t offset_bytes, const void *data,
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

void rota_room_leave(rota_room_turn *p) {
    if (!p->turns) return;
    ra_store_relaxed(&p->turns->wanted, 0); /* whoever's turn it is says it again at its next look */
    rota_turns_leave(p->turns, p->number);
    p->turns = NULL;
}

void rota_room_wait_begin(rota_room_wait *w, rota_runtime *runtime) {
    w->runtime = runtime;
    w->pause_ns = 10000;
    w->is_watching = false;
    w->counted = 0;
    w->slot = w->own = w->pool = w->promise = (rota_room_turn){NULL, 0};
}

void rota_room_leave_all(rota_room_wait *w) {
    rota_room_leave(&w->slot);
    rota_room_leave(&w->own);
    rota_room_leave(&w->pool);
    rota_room_leave(&w->promise);
}

/* Room comes from all that the device was given, and what that comes after; or, where `device` is NULL, from
 * whatever has been submitted. */
static void watch(rota_room_wait *w, const rota_device *device) {
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
static rota_status check_deadline(rota_room_wait *w, const rota_device *device, const char *what) {
    rota_runtime *runtime = w->runtime;
    watch(w, device);
    uint64_t from = rota_progress_look(&w->progress), now = rota_clock_ns();
    if (now > from && now - from > runtime->options.timeout_ns)
        return rota_fail(ROTA_TIMEOUT, "%s within %.3f s", what, (double)runtime->options.timeout_ns * 1e-9);
    return ROTA_OK;
}

static rota_status pause_a_little(rota_room_wait *w) {
    rota_nap_until(rota_deadline_after(w->pause_ns));
    if (w->pause_ns < 200000) w->pause_ns *= 2;
    return rota_runtime_check(w->runtime);
}

rota_status rota_room_device_lost(const rota_device *device) {
    const rota_cause *cause = ra_load_acquire(&device->lost_cause);
    return rota_fail(ROTA_DEVICE_LOST, "%s", cause ? cause->message : "device lost");
}

/* ---- Turns ---- */

static bool is_free(const rota_room *r) {
    return r->is_free(r->user, ra_load_relaxed(&r->turns->wanted));
}

/* Takes some of the room at once where nobody waits for any, else in turn (turns.h). */
rota_status rota_room_take(rota_room_wait *w, const rota_room *r, rota_room_turn *p,
                           rota_taking *out_taking) {
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
        if (*out_taking == ROTA_TAKEN) rota_turns_count(r->turns);
        if (*out_taking != ROTA_NOT_YET) return ROTA_OK;
        if (!p->turns) { /* from here on nobody who comes later takes it first */
            p->turns = r->turns;
            p->number = rota_turns_take(r->turns);
            continue;
        }
        if (r->device && rota_device_is_lost(r->device)) return rota_room_device_lost(r->device);
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

static rota_taking take_promise(void *user, bool may) {
    const rota_promised *p = user;
    if (!may || !rota_staging_promise(p->runtime, p->size)) return ROTA_NOT_YET;
    ra_store_relaxed(&p->runtime->budget.promise_turns.wanted, 0); /* it has it, should it be stopped now */
    return ROTA_TAKEN;
}
bool rota_promise_is_free(void *user, uint64_t wanted) {
    const rota_promised *p = user;
    return rota_staging_may_promise(p->runtime, wanted);
}
rota_room rota_promise_room(rota_promised *p, rota_device *device) {
    return (rota_room){&p->runtime->budget.promise_turns,
                       ROTA_NO_STAGING,
                       device,
                       true,
                       p->size,
                       take_promise,
                       rota_promise_is_free,
                       p};
}

/* Waits for room, where `w` is given. */
rota_status rota_room_publish(rota_runtime *runtime, rota_record_kind kind, void *object, rota_room_wait *w,
                              rota_ticket *out_ticket) {
    if (w) w->is_watching = false;
    for (;;) {
        rota_status status = rota_lane_publish(runtime, kind, object, NULL, NULL, 0, out_ticket);
        if (status != ROTA_BUSY || !w) return status;
        ROTA_TRY(check_deadline(w, NULL, "no room for a submission"));
        ROTA_TRY(pause_a_little(w));
    }
}
