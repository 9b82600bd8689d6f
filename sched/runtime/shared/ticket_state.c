/* What a ticket's cell and its queue's timeline say of it. */
#include "base/atomic.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/ticket_state.h"
#include "sched/runtime/shared/timeline.h"

rota_status rota_not_a_ticket(void) {
    return rota_fail(
        ROTA_INVALID_ARGUMENT,
        "not a ticket of this runtime: of another one, or made up (expected what a submission gave)");
}

rota_status rota_ticket_view(rota_ticket ticket, rota_cell_view *out_view, rota_cell **out_cell) {
    rota_runtime *runtime = ticket.runtime;
    const uint64_t sequence = rota_ticket_sequence(ticket.id);
    const uint32_t index = rota_ticket_lane(ticket.id);
    if (sequence <= runtime->handle.sequence_base)
        return sequence <= runtime->handle.sequence_first
                   ? rota_not_a_ticket()
                   : rota_fail(ROTA_WRONG_STATE, "the ticket is of a runtime that was closed");
    if (index >= ra_load_acquire(&runtime->lanes.ready)) return rota_not_a_ticket(); /* with add_block */
    const rota_lane *lane = rota_lane_at(&runtime->lanes, index);
    /* Acquire: the cell has been this ticket's. */
    if (sequence > ra_load_acquire(&lane->sequence)) return rota_not_a_ticket();
    rota_cell *cell = rota_lane_cell(lane, sequence);
    if (out_cell) *out_cell = cell;
    *out_view = (rota_cell_view){.old = true};
    if (!cell) return ROTA_OK;
    /* Each acquire pairs with the release that stored the field: having read another ticket's field, the last
     * load of id can't miss that ticket. */
    out_view->point = ra_load_acquire(&cell->point);
    out_view->number = ra_load_acquire(&cell->number);
    /* seq_cst, here and in rota_ticket_status: a sleeper is visible before it looks (see base/sleep.h). */
    out_view->state = ra_load_seq_cst(&cell->state);
    out_view->old = ra_load_acquire(&cell->id) != ticket.id;
    return ROTA_OK;
}

rota_status rota_ticket_status(rota_ticket ticket) {
    rota_runtime *runtime = ticket.runtime;
    rota_cell_view view;
    rota_cell *cell;
    ROTA_TRY(rota_ticket_view(ticket, &view, &cell));
    if (view.old) return rota_failure_find(runtime, ticket.id);
    if (view.point == ROTA_POINT_NONE) return ROTA_BUSY;
    if (!rota_point_passed(runtime, view.point)) {
        rota_device *device = runtime->devices[rota_point_device(view.point)];
        /* Where other devices may be at work for it, the sequencer ends it: orphan in reap.c. */
        if (!rota_device_is_lost(device) || view.state & ROTA_CELL_SPREAD) return ROTA_BUSY;
        /* The value may have been reached just before. */
        if (!rota_point_passed(runtime, view.point)) {
            if (rota_device_fills(runtime, view.number)) return ROTA_BUSY;
            const rota_cause *cause = ra_load_acquire(&device->lost_cause);
            return rota_fail(ROTA_DEVICE_LOST, "%s", cause ? cause->message : "device lost");
        }
    }
    /* What failed was noted before its value was reached: look again now that it was. */
    view.state = ra_load_seq_cst(&cell->state);
    if (ra_load_acquire(&cell->id) != ticket.id) return rota_failure_find(runtime, ticket.id);
    if ((view.state & ROTA_CELL_BY_DELIVERY) && !(view.state & ROTA_CELL_DONE)) return ROTA_BUSY;
    if (!(view.state & ROTA_CELL_TAKEN) && rota_device_fills(runtime, view.number)) return ROTA_BUSY;
    if (!(view.state & ROTA_CELL_FAILED)) return ROTA_OK;
    rota_status status;
    rota_reason reason;
    if (!rota_cell_failure(cell, ticket.id, &status, &reason)) return rota_failure_find(runtime, ticket.id);
    return rota_reason_fail(status, reason);
}

bool rota_ticket_taken(rota_ticket ticket) {
    rota_cell_view view;
    if (rota_ticket_view(ticket, &view, NULL) != ROTA_OK || view.old || (view.state & ROTA_CELL_TAKEN))
        return true;
    return rota_ticket_status(ticket) != ROTA_BUSY;
}

uint64_t rota_ticket_point(rota_ticket ticket, uint64_t *out_number) {
    rota_cell_view view = {.number = 0};
    const bool is_over = rota_ticket_view(ticket, &view, NULL) != ROTA_OK || view.old;
    *out_number = is_over ? 0 : view.number; /* may be that of the later ticket */
    return is_over ? ROTA_POINT_PASSED : view.point;
}
