/* What a ticket's cell and its queue's timeline say of it. Wait-free. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_TICKET_STATE_H
#define ROTA_SCHED_RUNTIME_SHARED_TICKET_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"

typedef struct rota_cell rota_cell;

typedef struct rota_cell_view {
    bool old; /* the cell has gone on to a later ticket: this one has ended */
    uint64_t number, point;
    uint32_t state;
} rota_cell_view;

/* No ticket that the runtime ever gave out: nothing of it is followed. */
rota_status rota_not_a_ticket(void);
/* What the ticket's cell says; *out_cell, where asked for, is NULL if its chunk has gone on. */
rota_status rota_ticket_view(rota_ticket ticket, rota_cell_view *out_view, rota_cell **out_cell);
rota_status rota_ticket_status(rota_ticket ticket); /* as rota_poll, with no check of the runtime */
bool rota_ticket_taken(rota_ticket ticket);
/* The point that the ticket's end waits for: NONE before it is sequenced, PASSED where it waits for none; and
 * its submission's number, from when it is sequenced on; 0 once its cell has gone on to a later ticket. */
uint64_t rota_ticket_point(rota_ticket ticket, uint64_t *out_number);

#endif
