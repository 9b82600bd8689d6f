/* Messages of a transport's, and first of all announcements: they are wanted at any time, so that what another rank has
 * come to is known also to who waits elsewhere. And an identity, by which ranks of several communicators know which one
 * is meant. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "exec/comm/messages.h"
#include "exec/comm/messages_parts.h"

enum { NAP_NS = 20000 };

rota_status rota_messages_exchange(rota_messages *m, rota_messages_channel channel, uint32_t i,
                                   const void *from, uint64_t from_bytes, void *to, uint64_t to_bytes) {
    rota_engine *engine = m->group->engine;
    rota_messages_counts *counts = &m->counts[i];
    const uint32_t tag = rota_messages_tag(m, channel);
    if (to_bytes) {
        ROTA_TRY(engine->vtable->receive(engine, m->members[i], tag, to, to_bytes, to_bytes, &m->ins[i]));
        m->now.pending++;
    }
    if (from_bytes) {
        ROTA_TRY(engine->vtable->send(engine, m->members[i], tag, from, from_bytes, &m->outs[i]));
        m->now.pending++;
        counts->sent++;
        counts->outgoing_tag = tag;
        counts->outgoing_bytes = from_bytes;
    }
    return ROTA_OK;
}

rota_status rota_messages_expect(rota_messages *m, uint32_t i) {
    rota_engine *engine = m->group->engine;
    rota_announcement *a = &m->announced[i];
    rota_announcement_clear(a);
    return engine->vtable->receive(engine, m->members[i], rota_messages_tag(m, ROTA_MESSAGES_AGREE), a,
                                   offsetof(rota_announcement, orders), sizeof *a, &m->expected[i]);
}

rota_status rota_messages_announce(rota_messages *m) {
    const rota_announcement *own = &m->announced[m->base.rank];
    for (uint32_t i = 0; i < m->base.size; i++) {
        if (!rota_messages_has_part(m, i)) continue;
        if (m->expected[i]) { /* else it is there */
            m->ins[i] = m->expected[i];
            m->expected[i] = NULL;
            m->now.pending++;
        }
        ROTA_TRY(
            rota_messages_exchange(m, ROTA_MESSAGES_AGREE, i, own, rota_announcement_bytes(own), NULL, 0));
    }
    return ROTA_OK;
}

/* ---- Identity ---- */

uint64_t rota_messages_make_id(void) {
    uint64_t id = 0;
    if (getrandom(&id, sizeof id, GRND_NONBLOCK) != (ssize_t)sizeof id)
        id = (rota_clock_ns() ^ (uint64_t)getpid() << 40) * 0x9e3779b97f4a7c15u;
    return id | 1; /* 0 is none */
}

rota_status rota_transport_identify(rota_transport *transport, uint64_t deadline_ns) {
    rota_messages *m = (rota_messages *)(void *)transport;
    if (transport->id || transport->size == 1) return ROTA_OK;
    uint64_t id = rota_messages_make_id();
    const rota_collective opening = {.kind = ROTA_COLLECTIVE_BROADCAST,
                                     .type = ROTA_COLLECTIVE_U32,
                                     .count = sizeof id / sizeof(uint32_t),
                                     .input = &id,
                                     .output = &id,
                                     .name = "opening"};
    transport->vtable->post(transport, &opening);
    for (bool is_over = false; !is_over;) {
        bool has_moved;
        ROTA_TRY(transport->vtable->progress(transport, &is_over, &has_moved));
        if (!is_over && rota_clock_ns() > deadline_ns) rota_messages_expire(m);
        if (!is_over && !has_moved) rota_nap_until(rota_deadline_after(NAP_NS));
    }
    m->collectives = 0; /* it is none of the application's */
    m->group->id = id;
    transport->id = rota_messages_id(m);
    return ROTA_OK;
}
