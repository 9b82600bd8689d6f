/* The end of a transport of messages. Each rank says farewell to each other one once, when it ends with a failure, of
 * its own or another's, or closes: it will send no more, and take no more, and says how many messages there were. So
 * who hears it knows whether what is under way can come to its end all the same, since all that it wants of that rank
 * was sent before, and all that it sends was taken: a farewell may come before what was sent before it.
 *
 * A farewell is all that tells another rank of this end, so it is never taken back, however long it waits behind other
 * messages of the same connection: of this transport's, of which one may have gone in part, or another's, while that
 * rank takes none. Engines send only while they are asked. So whose transport has ended asks for it
 * (rota_messages_flush) when nothing else is under way, and while what was is a device's still, which may take its time
 * to end, or for ever; whose is to be closed says so before it ends a device's library; and whose is closed while
 * others of its group are open goes on with it. Who closes the last one waits for it a little, and then the engine has
 * it; where that ends before it has gone, so does the connection, which the other rank sees.
 *
 * A rank that has ended takes nothing more, so what others had sent it may never be wanted, and some engines can't take
 * a message back. A transport that closes with such ones is left to its group, with its cells, and the last one of the
 * group has the other ranks take them before the engine ends (drain.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "exec/comm/drain.h"
#include "exec/comm/messages_parts.h"
#include "exec/comm/rank_list.h"

enum {
    PATIENCE_NS = 20000000,  /* how long close waits for messages that go by themselves */
    CONCLUDES_NS = 250000000 /* how long others have for their farewells after one gave up, at the most */
};

/* ---- Sent and heard ---- */

static void cancel_all(rota_messages *m, rota_engine_request **requests) {
    rota_engine *engine = m->group->engine;
    for (uint32_t i = 0; i < m->base.size; i++)
        if (requests[i]) (void)engine->vtable->cancel(engine, requests[i]);
}

/* Before the farewell, which has how many were sent. */
static void take_back(rota_messages *m) {
    rota_engine *engine = m->group->engine;
    for (uint32_t i = 0; i < m->base.size; i++)
        if (m->outs[i] && engine->vtable->cancel(engine, m->outs[i])) m->counts[i].sent--;
    cancel_all(m, m->ins);
    cancel_all(m, m->expected);
}

/* The message of two that this rank has begun with i and a library carries, or is to when both have come to it; 0:
 * none. It is the same for both, and other for the other direction, which has numbers of its own. */
static uint64_t carried_with(const rota_messages *m, uint32_t i) {
    const rota_collective *c = &m->now.collective;
    if (m->now.stage == ROTA_MESSAGES_IDLE || !c->on_device || !rota_collective_is_of_two(c->kind) ||
        c->peer != i)
        return 0;
    const bool sends = c->kind == ROTA_COLLECTIVE_SEND;
    const uint64_t number = sends ? m->sent[i] : m->received[i];
    return 2 * number + (sends ? m->base.rank > i : i > m->base.rank);
}

static void send_farewells(rota_messages *m, const char *cause, bool is_failure) {
    rota_messages_end *end = &m->end;
    rota_engine *engine = m->group->engine;
    if (end->is_sent) return;
    end->is_sent = true;
    end->flushes_until_ns =
        rota_deadline_after(m->base.timeout_ns); /* who waits longer has ended by itself */
    const bool is_in_one =
        m->now.stage != ROTA_MESSAGES_IDLE && !rota_collective_is_of_two(m->now.collective.kind);
    for (uint32_t i = 0; i < m->base.size; i++) {
        if (i == m->base.rank) continue;
        rota_messages_farewell *own = &end->own[i];
        own->sent = m->counts[i].sent;
        own->taken = m->counts[i].taken;
        own->unfinished = is_in_one ? m->collectives : 0;
        own->unfinished_between = carried_with(m, i);
        own->is_failure = is_failure;
        own->gave_up = end->gave_up;
        (void)snprintf(own->cause, sizeof own->cause, "%s", cause);
        /* Whom it does not reach ends by a deadline of its own. */
        if (engine->vtable->send(engine, m->members[i], rota_messages_tag(m, ROTA_MESSAGES_END), own,
                                 sizeof *own, &end->sends[i]) != ROTA_OK)
            end->sends[i] = NULL;
    }
}

void rota_messages_end_with(rota_messages *m, const char *cause) {
    rota_messages_end *end = &m->end;
    if (end->is_over) return;
    end->is_over = true;
    if (cause != end->cause) (void)snprintf(end->cause, sizeof end->cause, "%s", cause);
    take_back(m);
    send_farewells(m, end->cause, true);
}

/* Whoever gives up names those that it waited for. They may be waiting themselves, for one that stands still: which it
 * is the others can't know at once. But all that live say farewell soon, so who has not, a little later, is to blame,
 * or has not come yet. */
void rota_messages_give_up(rota_messages *m, const char *cause) {
    const uint64_t part = m->base.timeout_ns / 4;
    if (m->end.is_over) return;
    m->end.gave_up = true;
    m->end.concludes_ns = rota_deadline_after(part < CONCLUDES_NS ? part : CONCLUDES_NS);
    rota_messages_end_with(m, cause);
}

void rota_messages_end_as(rota_messages *m, const rota_messages_farewell *heard) {
    if (heard->gave_up)
        rota_messages_give_up(m, heard->cause);
    else
        rota_messages_end_with(m, heard->cause);
}

bool rota_messages_flush(rota_transport *transport) {
    rota_messages *m = (rota_messages *)(void *)transport;
    rota_engine *engine = m->group->engine;
    bool is_left = false;
    if (!m->end.is_sent || engine->why_ended || rota_clock_ns() > m->end.flushes_until_ns) return false;
    for (uint32_t i = 0; i < m->base.size; i++) {
        bool is_over = false;
        if (!m->end.sends[i]) continue;
        (void)engine->vtable->test(engine, m->end.sends[i], &is_over);
        if (is_over) m->end.sends[i] = NULL;
        const bool is_gone = engine->vtable->gone && engine->vtable->gone(engine, m->members[i]);
        is_left = is_left || (!is_over && !is_gone);
    }
    return is_left;
}

static void add_to_cause(rota_messages *m, const char *text) {
    char *cause = m->end.cause;
    const size_t used = strlen(cause);
    (void)snprintf(cause + used, ROTA_MESSAGES_CAUSE - used, "%s", text);
}

static void name_silent(rota_messages *m) {
    char text[96];
    rota_rank_list silent = {.count = 0};
    for (uint32_t i = 0; i < m->base.size; i++)
        if (m->end.receives[i]) rota_rank_list_add(&silent, i);
    if (silent.count) {
        add_to_cause(m, silent.count > 1 ? "; nothing was heard then of ranks "
                                         : "; nothing was heard then of rank ");
        add_to_cause(m, rota_rank_list_end(&silent));
    }
    /* And what ended another one that did not give up itself, though what was under way here was no matter of that. */
    for (uint32_t i = 0; i < m->base.size; i++) {
        const rota_messages_farewell *heard = &m->end.received[i];
        if (i == m->base.rank || m->end.receives[i] || !heard->is_failure || heard->gave_up) continue;
        if (strstr(m->end.cause, heard->cause)) break;
        add_to_cause(m, "; ");
        add_to_cause(m, heard->cause);
        break;
    }
    if (m->now.stood_ns) {
        (void)snprintf(text, sizeof text, "; rank %u itself stood still for %.1f s", m->base.rank,
                       (double)m->now.stood_ns * 1e-9);
        add_to_cause(m, text);
    }
}

bool rota_messages_conclude(rota_messages *m) {
    if (!m->end.concludes_ns) return true;
    (void)rota_messages_listen(m);
    if (m->end.received_count < m->base.size - 1 && rota_clock_ns() < m->end.concludes_ns) return false;
    m->end.concludes_ns = 0;
    name_silent(m);
    return true;
}

/* Without a farewell nothing that a rank may have meant can be counted on. */
static void hear_failure(rota_messages_farewell *heard, const char *cause) {
    *heard = (rota_messages_farewell){.is_failure = 1};
    (void)snprintf(heard->cause, sizeof heard->cause, "%s", cause);
}

/* Rank i ended without one, and its engine says how. */
static void hear_gone(rota_messages *m, uint32_t i, const char *how) {
    rota_engine *engine = m->group->engine;
    char cause[ROTA_MESSAGES_CAUSE], what[192], where[256] = "";
    bool is_over;
    (void)engine->vtable->cancel(engine, m->end.receives[i]);
    (void)engine->vtable->test(engine, m->end.receives[i], &is_over);
    rota_announcement_describe(&m->announced[m->base.rank], what, sizeof what);
    if (m->now.stage != ROTA_MESSAGES_IDLE)
        (void)snprintf(where, sizeof where, ", as rank %u was at %s", m->base.rank, what);
    (void)snprintf(cause, sizeof cause, "communicator '%s': rank %u is gone%s: %s", m->base.name, i, where,
                   how);
    hear_failure(&m->end.received[i], cause);
}

/* Whether rank i's is there, or is known not to come. */
static bool hear(rota_messages *m, uint32_t i) {
    rota_engine *engine = m->group->engine;
    /* Asked before it is looked for: what it said before it went is there then. */
    const char *how = engine->vtable->gone ? engine->vtable->gone(engine, m->members[i]) : NULL;
    bool is_over = false;
    const rota_status status = engine->vtable->test(engine, m->end.receives[i], &is_over);
    if (!is_over && !how) return false;
    if (!is_over)
        hear_gone(m, i, how);
    else if (status != ROTA_OK)
        hear_failure(&m->end.received[i], rota_last_error());
    rota_messages_farewell *heard = &m->end.received[i];
    heard->cause[ROTA_MESSAGES_CAUSE - 1] = 0;
    if (!heard->cause[0])
        (void)snprintf(heard->cause, sizeof heard->cause,
                       "communicator '%s': rank %u ended it, and does not say why", m->base.name, i);
    m->end.receives[i] = NULL;
    m->end.received_count++;
    return true;
}

const rota_messages_farewell *rota_messages_listen(rota_messages *m) {
    const rota_messages_farewell *first = NULL;
    for (uint32_t i = 0; i < m->base.size; i++) {
        const rota_messages_farewell *heard = &m->end.received[i];
        if (i == m->base.rank || (m->end.receives[i] && !hear(m, i))) continue;
        if (heard->is_failure && !first) first = heard;
    }
    return first;
}

/* Whether this rank waits for a message of i's that was not sent, or with one that i did not take. */
static bool waits_in_vain(const rota_messages *m, uint32_t i) {
    const rota_messages_farewell *heard = &m->end.received[i];
    const rota_messages_counts *counts = &m->counts[i];
    return (m->ins[i] && counts->taken >= heard->sent) || (m->outs[i] && counts->sent > heard->taken);
}

const rota_messages_farewell *rota_messages_hindrance(const rota_messages *m) {
    const bool is_of_two = rota_collective_is_of_two(m->now.collective.kind);
    for (uint32_t i = 0; i < m->base.size; i++) {
        const rota_messages_farewell *heard = &m->end.received[i];
        if (m->end.receives[i] || !rota_messages_has_part(m, i)) continue;
        /* In this very collective: then it ends for all, also for who has all that it wants. */
        const bool was_in_it = !is_of_two && heard->is_failure && heard->unfinished == m->collectives;
        /* A message that a library carries: all that has gone wrong with it is that the other one was in it, too. */
        const uint64_t carried = m->now.stage == ROTA_MESSAGES_CARRIED ? carried_with(m, i) : 0;
        const bool was_carrying = carried && heard->is_failure && heard->unfinished_between == carried;
        if (was_in_it || was_carrying || waits_in_vain(m, i)) return heard;
    }
    return NULL;
}

/* ---- Closing ---- */

static bool are_all_over(rota_messages *m, rota_engine_request **requests) {
    rota_engine *engine = m->group->engine;
    bool are_over = true;
    for (uint32_t i = 0; i < m->base.size; i++) {
        bool is_over = false;
        if (!requests[i]) continue;
        (void)engine->vtable->test(engine, requests[i], &is_over);
        if (is_over)
            requests[i] = NULL;
        else
            are_over = false;
    }
    return are_over;
}

/* All that this rank sent, or took in a collective. */
static bool is_sent(rota_messages *m) {
    bool are_over = are_all_over(m, m->ins);
    are_over = are_all_over(m, m->expected) && are_over;
    are_over = are_all_over(m, m->outs) && are_over;
    return are_all_over(m, m->end.sends) && are_over;
}

/* And others' farewells. */
static bool is_through(rota_messages *m) {
    const bool is_over = is_sent(m);
    return are_all_over(m, m->end.receives) && is_over;
}

void rota_messages_begin_to_close(rota_transport *transport) {
    rota_messages *m = (rota_messages *)(void *)transport;
    char cause[ROTA_MESSAGES_CAUSE];
    if (m->end.is_closing) return;
    (void)snprintf(cause, sizeof cause, "communicator '%s': rank %u closed it", m->base.name, m->base.rank);
    m->end.is_closing = true;
    if (!m->end.is_over) cancel_all(m, m->expected);
    send_farewells(m, cause, false); /* unless it has: nothing is under way */
}

static uint64_t bytes_of(const rota_messages *m) {
    return sizeof *m + (m->outgoing ? 2 * m->cell_bytes : 0) * m->base.size;
}

/* Frees those of the group's that are through, but for the last one, by whose closing it ends. Whether all are. */
static bool are_left_through(rota_messages_group *group, const rota_messages *last) {
    bool are_through = true;
    for (rota_messages **link = &group->left; *link;) {
        rota_messages *m = *link;
        const bool is_over = is_through(m);
        are_through = is_over && are_through;
        if (is_over && m != last) {
            *link = m->next_left;
            if (m->base.lingers)
                m->group = NULL; /* who closes it has it still */
            else
                rota_messages_free(m);
        } else {
            link = &m->next_left;
        }
    }
    return are_through;
}

static uint32_t messages_left(const rota_messages_group *group, rota_drain_message *out_messages) {
    uint32_t count = 0;
    for (const rota_messages *m = group->left; m; m = m->next_left)
        for (uint32_t i = 0; i < m->base.size; i++) {
            const rota_messages_counts *counts = &m->counts[i];
            if (m->outs[i] && out_messages)
                out_messages[count] = (rota_drain_message){m->members[i], (uint32_t)counts->outgoing_tag,
                                                           counts->outgoing_bytes};
            count += m->outs[i] != NULL;
            if (m->end.sends[i] && out_messages)
                out_messages[count] = (rota_drain_message){
                    m->members[i], rota_messages_tag(m, ROTA_MESSAGES_END), sizeof *m->end.own};
            count += m->end.sends[i] != NULL;
        }
    return count;
}

/* Without memory nobody is asked, and what is left is kept. */
static void begin_to_drain(rota_messages_group *group) {
    const uint32_t count = messages_left(group, NULL);
    rota_drain_message *messages = calloc((size_t)count + 1, sizeof *messages);
    if (!messages) return;
    (void)messages_left(group, messages);
    /* Of each transport that another rank is of, too, and which this one was asked for, a message and a farewell. */
    group->drain = rota_drain_begin(group->engine, messages, count, 2 * ((uint64_t)group->reserved + 1));
    free(messages);
}

static void fail_left(const rota_messages_group *group, const char *name, uint64_t bytes) {
    const char *why = group->drain ? rota_drain_failure(group->drain) : "";
    if (group->engine->why_ended)
        (void)rota_fail(ROTA_TIMEOUT, "communicator '%s': %s; %llu bytes are kept for good", name,
                        group->engine->why_ended, (unsigned long long)bytes);
    else
        (void)rota_fail(
            ROTA_TIMEOUT,
            "communicator '%s': other ranks did not come to their end, or messages of theirs%s%s; "
            "%llu bytes are kept for good",
            name, why[0] ? ": " : "", why, (unsigned long long)bytes);
}

static void detach_farewells(rota_messages *m) {
    rota_engine *engine = m->group->engine;
    for (uint32_t i = 0; i < m->base.size; i++)
        if (m->end.sends[i] && engine->vtable->detach) engine->vtable->detach(engine, m->end.sends[i]);
}

/* By the last one's closing: true when the engine has ended, or is kept for good with what it may still touch. */
static bool close_group(rota_messages *last, uint64_t deadline_ns, uint64_t *out_abandoned_bytes) {
    rota_messages_group *group = last->group;
    rota_engine *engine = group->engine;
    if (!group->is_ending) {
        group->is_ending = true;
        for (rota_messages *m = group->left; m; m = m->next_left) {
            cancel_all(m, m->end.receives);
            if (m->base.lingers) detach_farewells(m);
        }
    }
    if (!group->drain && engine->is_ended_together) begin_to_drain(group);
    bool are_through = are_left_through(group, last);
    if (engine->is_ended_together)
        are_through = group->drain && rota_drain_go_on(group->drain, are_through) && are_through;
    if (!are_through) {
        if (rota_clock_ns() < deadline_ns && !engine->why_ended) return false;
        for (const rota_messages *m = group->left; m; m = m->next_left) *out_abandoned_bytes += bytes_of(m);
        if (group->drain) *out_abandoned_bytes += rota_drain_bytes(group->drain);
        fail_left(group, last->base.name, *out_abandoned_bytes);
        return true;
    }
    if (group->drain) rota_drain_free(group->drain);
    engine->vtable->close(engine);
    rota_messages_free(last);
    free(group);
    return true;
}

/* It is the group's from then on, until others have closed theirs, too: what they say then has a receive, and does not
 * stay with the engine. Cells are only needed where something of them is under way. */
static void leave(rota_messages *m, bool is_over) {
    m->end.is_left = true;
    m->next_left = m->group->left;
    m->group->left = m;
    m->group->users--;
    if (!is_over) return;
    free(m->outgoing);
    free(m->incoming);
    m->outgoing = m->incoming = NULL;
}

/* Of one that has left. The group may end before it. */
static bool linger(rota_messages *m, uint64_t deadline_ns) {
    rota_messages_group *group = m->group;
    if (!group) {
        rota_messages_free(m);
        return true;
    }
    if (rota_clock_ns() < deadline_ns && rota_messages_flush(&m->base)) return false;
    m->base.lingers = false;
    if (group->is_ending) return true; /* which has let go of them, and frees it */
    detach_farewells(m);
    (void)are_left_through(group, NULL);
    return true;
}

bool rota_messages_close(rota_transport *transport, uint64_t deadline_ns, uint64_t *out_abandoned_bytes) {
    rota_messages *m = (rota_messages *)(void *)transport;
    rota_messages_group *group = m->group;
    *out_abandoned_bytes = 0;
    if (transport->lingers) return linger(m, deadline_ns);
    rota_messages_begin_to_close(transport);
    if (!m->end.patience_ns) m->end.patience_ns = rota_deadline_after(PATIENCE_NS);
    if (!m->end.is_left) {
        const bool is_over = is_sent(m);
        if (!is_over && rota_clock_ns() < m->end.patience_ns) return false;
        const bool lingers = group->users > 1 && rota_messages_flush(transport);
        if (!is_over && !lingers) detach_farewells(m);
        leave(m, is_over);
        transport->lingers = lingers;
        if (lingers) return false;
        if (group->users) {
            (void)are_left_through(group, NULL);
            return true;
        }
    }
    return close_group(m, deadline_ns, out_abandoned_bytes);
}
