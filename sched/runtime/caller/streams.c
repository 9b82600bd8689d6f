/* The application's streams: points of timelines that they reach, tickets that they come after, and works that come
 * after them. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/given.h"
#include "base/spin.h"
#include "sched/embed.h"
#include "sched/opened.h"
#include "sched/runtime/shared/devices.h" /* IWYU pragma: keep */
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/pins.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/ticket_state.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/submit.h"

/* How long it is looked for that the driver is given a ticket's work: all the time first, then now and then, as where
 * other threads have the cores. Then the ticket is waited for. */
#define HANDOVER_NS 1000000u
#define HANDOVER_MOST_NS 1000000000u
#define HANDOVER_NAP_NS 50000u

typedef struct stream_point {
    rota_exec_stream_call call;       /* first */
    rota_external_timeline *timeline; /* held */
    uint64_t value;
} stream_point;

/* On a thread of the driver's, which may come after the runtime was closed. A point that the stream does not come to is
 * not reached, and only given back. */
static void reach(rota_exec_stream_call *call, bool is_done) {
    stream_point *point = (stream_point *)call;
    if (is_done)
        (void)rota_external_timeline_signal(point->timeline, point->value); /* closed: nobody waits */
    rota_external_timeline_drop(point->timeline);
    free(point);
}

static rota_status check(const rota_device *device, const rota_external_timeline *timeline) {
    if (timeline->opened.runtime != device->runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "external timeline '%s' is of another runtime than device '%s'", timeline->name,
                         device->id);
    ROTA_TRY(rota_opened_check(timeline->opened));
    if (!device->exec->vtable->streams)
        return rota_fail(ROTA_UNSUPPORTED, "device '%s' has no streams", device->id);
    if (rota_device_is_lost(device)) return rota_fail(ROTA_DEVICE_LOST, "device '%s' is lost", device->id);
    return ROTA_OK;
}

rota_status rota_stream_signal(rota_device *device, void *stream, rota_external_timeline *timeline,
                               uint64_t value) {
    ROTA_GIVEN(device);
    ROTA_GIVEN(stream);
    ROTA_GIVEN(timeline);
    ROTA_TRY(check(device, timeline));
    stream_point *point = malloc(sizeof *point);
    if (!point) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory to watch a stream");
    *point = (stream_point){{reach}, timeline, value};
    rota_external_timeline_retain(timeline);
    const rota_status status = device->exec->vtable->streams->call(device->exec, stream, &point->call);
    if (status != ROTA_OK) {
        rota_external_timeline_drop(timeline);
        free(point);
    }
    return status;
}

static rota_status check_wait(const rota_device *device, rota_ticket ticket) {
    if (!ticket.runtime || !ticket.id)
        return rota_fail(ROTA_INVALID_ARGUMENT, "the ticket names no submission");
    if (!rota_runtime_is_known(ticket.runtime)) return rota_not_a_ticket();
    ROTA_TRY(rota_runtime_check(ticket.runtime));
    if (ticket.runtime != device->runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT, "the ticket is of another runtime than device '%s'",
                         device->id);
    if (!device->exec->vtable->streams)
        return rota_fail(ROTA_UNSUPPORTED, "device '%s' has no streams", device->id);
    return ROTA_OK;
}

/* ---- Streams after tickets ----
 *
 * A ticket's last work comes after all its others, also those of other devices. Where it is the device's own, and
 * nothing is delivered to the host behind it, the stream waits for its event. Else the completer lets the stream go on
 * when the ticket has ended, however it did: the stream waits on the GPU for a latch.
 *
 * What the stream waits for must depend on nothing that a CUDA driver is given later: a device that follows the stream
 * (rota_stream_follow) would keep that, and so may the GPU itself, whose channels take the works of several streams one
 * after the other. So the latch is closed once the driver has all works of devices with streams that the ticket's end
 * comes after: those of its chain (progress.h), and of what its delivery comes after. Others, of the CPU and Vulkan,
 * may come later: no stream keeps them. Nor is it asked what else those devices have: that does not open the latch. */

/* Whether the ticket's end is that of a work of the device's: where it ends when something has been delivered to the
 * host, no event on the device is its end. */
static bool ends_on(const rota_device *device, const rota_cell_view *view) {
    return device->runtime->devices[rota_point_device(view->point)] == device &&
           !(view->state & ROTA_CELL_BY_DELIVERY);
}

/* Whether the driver has all of the work, where its device has streams: the submit thread has handed it over, and the
 * executor has given it on. */
static bool is_given(const rota_runtime *runtime, uint64_t point) {
    const rota_device *device = runtime->devices[rota_point_device(point)];
    const rota_exec_streams *streams = device->exec->vtable->streams;
    const uint32_t queue = rota_point_queue(point);
    const uint64_t value = rota_point_value(point);
    return !streams ||
           (ra_load_acquire(&device->timelines[queue].handed_over) >= value && /* with hand_over */
            streams->is_given(device->exec, queue, value));
}

/* Of a ticket that is not over; false also where its submission is just ending. */
static bool is_all_given(rota_ticket ticket, const rota_cell_view *view, rota_cell *cell) {
    rota_runtime *runtime = ticket.runtime;
    rota_progress chain;
    rota_progress_begin(&chain, runtime);
    rota_progress_watch_chain(&chain, view->point); /* PASSED: nothing */
    if (view->state & ROTA_CELL_BY_DELIVERY) {
        rota_submission *submission =
            cell ? rota_submission_pin(ra_load_acquire(&cell->submission), view->number) : NULL;
        if (!submission) return false;
        rota_progress_watch_points(&chain, submission->delivery.after, submission->delivery.after_count);
        rota_submission_unpin(runtime, submission);
    }
    bool is_all = true;
    for (uint32_t i = 0; is_all && i < chain.count; i++) is_all = is_given(runtime, chain.watched[i].point);
    return is_all;
}

static rota_status latch(rota_device *device, void *stream, rota_ticket ticket) {
    rota_completion *completion = calloc(1, sizeof *completion);
    if (!completion) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory to watch a ticket");
    const rota_status status =
        device->exec->vtable->streams->latch(device->exec, stream, &completion->u.watch.latch);
    if (status != ROTA_OK) {
        free(completion);
        return status;
    }
    completion->kind = ROTA_COMPLETION_STREAM;
    completion->u.watch.ticket = ticket;
    completion->u.watch.device = device;
    rota_completer_push(ticket.runtime, completion);
    return ROTA_OK;
}

/* BUSY: the drivers were not given all of it yet. */
static rota_status try_wait(rota_device *device, void *stream, rota_ticket ticket) {
    const rota_status status = rota_ticket_status(ticket);
    if (status != ROTA_BUSY) return status;
    rota_cell_view view;
    rota_cell *cell;
    ROTA_TRY(rota_ticket_view(ticket, &view, &cell));
    if (view.old || view.point == ROTA_POINT_NONE) return ROTA_BUSY; /* over just now; not sequenced */
    if (view.point != ROTA_POINT_PASSED && ends_on(device, &view))
        return device->exec->vtable->streams->wait(device->exec, stream, rota_point_queue(view.point),
                                                   rota_point_value(view.point));
    return is_all_given(ticket, &view, cell) ? latch(device, stream, ticket) : ROTA_BUSY;
}

rota_status rota_stream_wait(rota_device *device, void *stream, rota_ticket ticket, uint64_t timeout_ns) {
    ROTA_GIVEN(device);
    ROTA_GIVEN(stream);
    ROTA_TRY(check_wait(device, ticket));
    rota_spin looking = rota_spin_begin(HANDOVER_NS);
    const uint64_t until = rota_deadline_after(HANDOVER_MOST_NS);
    do {
        const rota_status status = try_wait(device, stream, ticket);
        if (status == ROTA_UNSUPPORTED) break; /* the stream has no latches */
        if (status != ROTA_BUSY) return status;
        if (!rota_spin_yields(&looking)) /* rota's threads may need this core */
            rota_nap_until(rota_deadline_after(HANDOVER_NAP_NS));
    } while (rota_clock_ns() < until);
    return rota_wait(ticket, timeout_ns);
}

rota_status rota_stream_follow(rota_device *device, void *stream) {
    ROTA_GIVEN(device);
    ROTA_GIVEN(stream);
    ROTA_TRY(rota_runtime_check(device->runtime));
    if (!device->exec->vtable->streams)
        return rota_fail(ROTA_UNSUPPORTED, "device '%s' has no streams", device->id);
    if (rota_device_is_lost(device)) return rota_fail(ROTA_DEVICE_LOST, "device '%s' is lost", device->id);
    return device->exec->vtable->streams->follow(device->exec, stream, device->runtime->options.timeout_ns);
}
