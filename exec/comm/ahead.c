/* Messages of a transport's, and first of all announcements: they are wanted at any time, so that what another rank has
 * come to is known also to who waits elsewhere. And how an identity is made, by which ranks of several communicators
 * know which one is meant. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/comm/messages.h"
#include "exec/comm/messages_parts.h"

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
