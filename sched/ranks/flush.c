/* What goes on beside all else that the thread of ranks has: farewells that have still to go, and transports that
 * nobody wants. */
#include "sched/ranks/flush.h"

#include <stdlib.h>

#include "base/clock.h"
#include "sched/ranks/parts.h"

/* ---- Its farewell goes ---- */

static bool look_at_flush(rota_rank_work *work, bool *out_moved) {
    rota_under_way *own = &ROTA_STACK_OBJECT(work, rota_communicator, under_way.flush)->under_way;
    *out_moved = false;
    work->is_told = own->transport->is_told;
    own->is_flushing = own->transport->vtable->flush(own->transport);
    return own->is_flushing;
}

void rota_communicator_flush(rota_communicator *c) {
    if (c->under_way.is_flushing) return;
    c->under_way.is_flushing = true;
    c->under_way.flush.look = look_at_flush;
    rota_rank_thread_add(c->thread, &c->under_way.flush);
}

void rota_communicator_stop_flushing(rota_communicator *c) {
    if (c->under_way.is_flushing) rota_rank_thread_remove(c->thread, &c->under_way.flush);
    c->under_way.is_flushing = false;
}

/* ---- What nobody wants ---- */

/* A transport that nobody wants: closed beside what else the thread has. */
typedef struct unwanted {
    rota_rank_work work;
    rota_transport *transport;
    uint64_t deadline_ns;
} unwanted;

static bool look_at_unwanted(rota_rank_work *work, bool *out_moved) {
    unwanted *own = (unwanted *)(void *)work;
    uint64_t abandoned;
    *out_moved = false;
    work->is_told = own->transport->is_told;
    if (!own->transport->vtable->close(own->transport, own->deadline_ns, &abandoned)) return true;
    free(own);
    return false;
}

void rota_communicator_drop(rota_rank_thread *thread, rota_transport *transport) {
    const uint64_t deadline_ns = rota_deadline_after(transport->timeout_ns);
    unwanted *own = malloc(sizeof *own);
    uint64_t abandoned;
    if (!own) {
        rota_transport_close(transport, deadline_ns, &abandoned);
        return;
    }
    *own = (unwanted){{.look = look_at_unwanted}, transport, deadline_ns};
    rota_rank_thread_add(thread, &own->work);
}
