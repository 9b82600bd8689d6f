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
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/ticket_state.h"
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

/* Whether the ticket's end is that of a work of the device's: where others are at work for it, or it ends when
 * something has been delivered to the host, no event on the device is its end. */
static bool ends_on(const rota_device *device, const rota_cell_view *view) {
    return device->runtime->devices[rota_point_device(view->point)] == device &&
           !(view->state & (ROTA_CELL_BY_DELIVERY | ROTA_CELL_SPREAD));
}

/* BUSY: its last work is not the driver's yet; *out_ends_elsewhere: nor would that do. */
static rota_status try_wait(rota_device *device, void *stream, rota_ticket ticket, bool *out_ends_elsewhere) {
    const rota_status status = rota_ticket_status(ticket);
    if (status != ROTA_BUSY) return status;
    rota_cell_view view;
    ROTA_TRY(rota_ticket_view(ticket, &view, NULL));
    if (view.old || view.point == ROTA_POINT_NONE) return ROTA_BUSY; /* over just now; not sequenced */
    *out_ends_elsewhere = !ends_on(device, &view);
    return *out_ends_elsewhere
               ? ROTA_BUSY
               : device->exec->vtable->streams->wait(device->exec, stream, rota_point_queue(view.point),
                                                     rota_point_value(view.point));
}

rota_status rota_stream_wait(rota_device *device, void *stream, rota_ticket ticket, uint64_t timeout_ns) {
    ROTA_GIVEN(device);
    ROTA_GIVEN(stream);
    ROTA_TRY(check_wait(device, ticket));
    bool ends_elsewhere = false;
    const rota_spin looking = rota_spin_begin(HANDOVER_NS);
    const uint64_t until = rota_deadline_after(HANDOVER_MOST_NS);
    do {
        const rota_status status = try_wait(device, stream, ticket, &ends_elsewhere);
        if (status != ROTA_BUSY) return status;
        if (ends_elsewhere) break;
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
