/* A transport made of messages. A collective's life: post says what this rank is about to do to all who take part; when
 * all have said so and mean the same, rounds.c moves the bytes. Whoever finds that something is wrong tells all others
 * in one message each, which every transport listens for, and all end with the same sentence (farewell.c).
 *
 * Messages go out of cells of the transport's own and come into them: what a rank that was given up still sends, or an
 * engine still reads, is never the caller's memory. */
#include "exec/comm/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "exec/comm/messages_parts.h"
#include "exec/comm/rank_list.h"

enum {
    CELL_BYTES = 256 * 1024,        /* below ROTA_ENGINE_MESSAGE_MOST */
    CELLS_BYTES = 16 * 1024 * 1024, /* of all ranks' */
    CELL_LEAST = 4096,
    LOOKS_PER_LISTEN = 16, /* of progress: others' ends come seldom; */
    LISTENS_NS =
        20000, /* when nothing has moved for so long it looks seldom itself, and then for those, too */
    NAP_NS = 20000
};

static rota_messages *messages_of(rota_transport *transport) {
    return (rota_messages *)(void *)transport;
}

static void abort_transport(rota_transport *transport, const char *cause) {
    rota_messages *m = messages_of(transport);
    m->end.concludes_ns = 0; /* who gave up and is ended waits for nobody's farewell */
    rota_messages_end_with(m, cause);
}

/* ---- Messages ---- */

static rota_status test_all(rota_messages *m, bool *out_moved) {
    rota_engine *engine = m->group->engine;
    for (uint32_t i = 0; i < m->base.size && m->now.pending; i++) {
        for (uint32_t out = 0; out < 2; out++) {
            rota_engine_request **request = out ? &m->outs[i] : &m->ins[i];
            bool is_over = false;
            if (!*request) continue;
            const rota_status status = engine->vtable->test(engine, *request, &is_over);
            if (is_over) {
                *request = NULL;
                m->now.pending--;
                *out_moved = true;
                if (!out && status == ROTA_OK) m->counts[i].taken++;
            }
            ROTA_TRY(status);
        }
    }
    return ROTA_OK;
}

/* As one of them ended. */
static void end_with_message(rota_messages *m) {
    char cause[ROTA_MESSAGES_CAUSE];
    (void)snprintf(cause, sizeof cause, "communicator '%s': %s", m->base.name, rota_last_error());
    rota_messages_end_with(m, cause);
}

/* ---- A collective ---- */

/* Of what came from rank i nothing is used before; else it has ended. */
static bool is_announcement(rota_messages *m, uint32_t i) {
    char cause[ROTA_MESSAGES_CAUSE];
    if (rota_announcement_check(&m->announced[i], m->base.size, m->base.name, i, cause, sizeof cause))
        return true;
    rota_messages_end_with(m, cause);
    return false;
}

/* The rank's next announcement, where that has come; false: not yet, or it has ended the transport. */
static bool take_expected(rota_messages *m, uint32_t rank) {
    rota_engine *engine = m->group->engine;
    bool is_over;
    if (!m->expected[rank]) return true;
    const rota_status status = engine->vtable->test(engine, m->expected[rank], &is_over);
    if (!is_over) return false;
    m->expected[rank] = NULL;
    if (status == ROTA_OK)
        m->counts[rank].taken++;
    else
        end_with_message(m);
    return status == ROTA_OK && is_announcement(m, rank);
}

/* rota_transport_vtable.ahead. */
static rota_status ahead(rota_transport *transport, uint32_t rank, const rota_announcement **out) {
    rota_messages *m = messages_of(transport);
    *out = NULL;
    if (rank == m->base.rank || m->end.is_over || m->end.is_closing || m->now.stage == ROTA_MESSAGES_AGREES)
        return ROTA_OK;
    if (take_expected(m, rank)) *out = &m->announced[rank];
    return m->end.is_over ? rota_fail(ROTA_NODE_FAILED, "%s", m->end.cause) : ROTA_OK;
}

static void announce_to_all(rota_messages *m) {
    const rota_collective *c = &m->now.collective;
    const bool is_of_two = rota_collective_is_of_two(c->kind);
    uint64_t *counter = !is_of_two                        ? &m->collectives
                        : c->kind == ROTA_COLLECTIVE_SEND ? &m->sent[c->peer]
                                                          : &m->received[c->peer];
    rota_announcement *own = &m->announced[m->base.rank];
    rota_announce(c, ++*counter, own);
    if (rota_messages_announce(m) != ROTA_OK) rota_messages_end_with(m, rota_last_error());
}

static void post(rota_transport *transport, const rota_collective *collective) {
    rota_messages *m = messages_of(transport);
    /* While nothing is under way: this rank was in none then. */
    const rota_messages_farewell *heard = m->end.is_over ? NULL : rota_messages_listen(m);
    if (heard) rota_messages_end_as(m, heard);
    const uint64_t now = rota_clock_ns();
    m->now = (rota_messages_now){
        .collective = *collective, .stage = ROTA_MESSAGES_AGREES, .moved_ns = now, .looked_ns = now};
    m->end.looks = 0;
    if (!m->end.is_over) announce_to_all(m);
}

/* All that have a part in it, in ascending order, so that all ranks come to the same sentence. */
static bool do_all_agree(rota_messages *m) {
    char cause[ROTA_MESSAGES_CAUSE];
    for (uint32_t i = 0; i < m->base.size; i++)
        if (rota_messages_has_part(m, i) && !is_announcement(m, i)) return false;
    const bool is_of_two = rota_collective_is_of_two(m->now.collective.kind);
    const uint32_t self = m->base.rank, peer = m->now.collective.peer;
    const uint32_t first = !is_of_two ? 0 : self < peer ? self : peer;
    for (uint32_t i = first + 1; i < m->base.size; i++) {
        if (i != self && !rota_messages_has_part(m, i)) continue;
        if (rota_announcements_agree(m->base.name, first, &m->announced[first], i, &m->announced[i], cause,
                                     sizeof cause))
            continue;
        rota_messages_end_with(m, cause);
        return false;
    }
    return true;
}

/* Of this communicator's collectives and others'. */
static rota_status do_orders_agree(rota_messages *m) {
    char cause[ROTA_MESSAGES_CAUSE];
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->base.size; i++)
        if (i == m->base.rank || rota_messages_has_part(m, i)) m->parts[count++] = i;
    ROTA_TRY(rota_orders_agree(m->base.name, m->announced, m->parts, count, &m->base.crossed, cause,
                               sizeof cause));
    if (m->base.crossed) rota_messages_end_with(m, cause);
    return ROTA_OK;
}

/* Whether what the ranks' graphs have on this communicator behind it is the same, as far as all know it of theirs. */
static bool do_rests_agree(const rota_messages *m) {
    const rota_announcement *own = &m->announced[m->base.rank];
    bool are_known = own->rest_count > 0, are_same = true;
    for (uint32_t i = 0; i < m->base.size; i++) {
        if (!rota_messages_has_part(m, i)) continue;
        are_known = are_known && m->announced[i].rest_count > 0;
        are_same =
            are_same && m->announced[i].rest == own->rest && m->announced[i].rest_count == own->rest_count;
    }
    return are_same || !are_known;
}

static rota_status expect_all(rota_messages *m) {
    for (uint32_t i = 0; i < m->base.size; i++)
        if (rota_messages_has_part(m, i)) ROTA_TRY(rota_messages_expect(m, i));
    return ROTA_OK;
}

/* Somewhere behind it the graphs differ: nothing of them is begun, and the ranks go on comparing, one collective after
 * the other, until they are at the one that does, or past the end of one of the graphs. */
static rota_status compare_next(rota_messages *m) {
    rota_announcement *own = &m->announced[m->base.rank];
    rota_collective_position *position = &m->now.collective.position;
    /* Of what a plan is compared by, that was not recorded itself, the first one is the graph's first. */
    const uint64_t number = own->number + (m->now.compared_count || position->index ? 1 : 0);
    const void *last = m->now.compared_count++ ? m->now.compared : position->node;
    rota_collective next = {0};
    if (own->is_end) { /* a digest's fault */
        char cause[ROTA_MESSAGES_CAUSE];
        (void)snprintf(
            cause, sizeof cause,
            "communicator '%s': the ranks' graphs '%s' differ on it, and none of their collectives",
            m->base.name, position->graph ? position->graph : "");
        rota_messages_end_with(m, cause);
        return ROTA_OK;
    }
    if (last && position->next && position->next(last, &next)) {
        next.on_device = m->now.collective.on_device;
        rota_announce(&next, number, own);
        m->now.compared = next.position.node;
        position->next = next.position.next;
    } else {
        rota_announce_end(position->graph, number, own);
    }
    return rota_messages_announce(m);
}

static rota_status begin_agreed(rota_messages *m, bool *out_over) {
    const bool differ_later = m->now.compared_count || !do_rests_agree(m);
    if (!m->now.compared_count) ROTA_TRY(do_orders_agree(m));
    if (m->end.is_over) return ROTA_OK;
    ROTA_TRY(expect_all(m)); /* from here on what was announced may be written over */
    if (differ_later) return compare_next(m);
    m->now.stage = m->now.collective.on_device ? ROTA_MESSAGES_CARRIED : ROTA_MESSAGES_MOVES;
    return m->now.stage == ROTA_MESSAGES_MOVES ? rota_rounds_begin(m, out_over) : ROTA_OK;
}

/* Who keeps this one waiting, where nothing moved for too long: the timeout, or, while it opens, what is left. */
static void give_up(rota_messages *m) {
    char cause[ROTA_MESSAGES_CAUSE], what[192];
    rota_rank_list who = {.count = 0};
    for (uint32_t i = 0; i < m->base.size; i++)
        if (m->ins[i] || m->outs[i]) rota_rank_list_add(&who, i);
    rota_announcement_describe(&m->announced[m->base.rank], what, sizeof what);
    (void)snprintf(
        cause, sizeof cause, "communicator '%s': rank %u waited %.1f s at %s for rank%s %s, which %s",
        m->base.name, m->base.rank, (double)(rota_clock_ns() - m->now.moved_ns) * 1e-9, what,
        who.count > 1 ? "s" : "", rota_rank_list_end(&who),
        m->now.stage == ROTA_MESSAGES_AGREES ? "did not come to it" : "came to it and then stopped");
    rota_messages_give_up(m, cause);
}

static rota_status over(rota_messages *m, bool *out_over) {
    *out_over = !m->end.is_over || rota_messages_conclude(m);
    if (!*out_over) return ROTA_OK;
    m->now.stage = ROTA_MESSAGES_IDLE;
    return m->end.is_over ? rota_fail(ROTA_NODE_FAILED, "%s", m->end.cause) : ROTA_OK;
}

static void go_on(rota_messages *m, bool *out_over) {
    rota_status status = ROTA_OK;
    if (m->now.stage == ROTA_MESSAGES_MOVES) {
        status = rota_rounds_go_on(m, out_over);
    } else if (do_all_agree(m)) {
        status = begin_agreed(m, out_over);
    }
    if (status != ROTA_OK) rota_messages_end_with(m, rota_last_error());
}

/* What another one said goes before. */
static void expire(rota_messages *m) {
    if (m->end.is_over) return;
    const rota_messages_farewell *heard = rota_messages_listen(m);
    if (heard)
        rota_messages_end_as(m, heard);
    else
        give_up(m);
}

static void look_for_hindrance(rota_messages *m) {
    const rota_messages_farewell *heard =
        !m->end.is_over && m->end.received_count ? rota_messages_hindrance(m) : NULL;
    if (heard) rota_messages_end_as(m, heard);
}

/* What a library carries, it carries well or not; how long it takes is for who has it. */
static rota_status look_at_carried(rota_messages *m, bool *out_over) {
    if (!m->end.is_over && m->end.looks++ % LOOKS_PER_LISTEN == 0) (void)rota_messages_listen(m);
    look_for_hindrance(m);
    return m->end.is_over ? over(m, out_over) : ROTA_OK;
}

static void carried(rota_transport *transport, const char *cause, bool gave_up) {
    rota_messages *m = messages_of(transport);
    /* What another one said goes before: this rank's may be how it looks from here, as of one that was stopped. */
    const rota_messages_farewell *heard = cause && !m->end.is_over ? rota_messages_listen(m) : NULL;
    /* In the stage that it failed in, which the others are told. */
    if (heard)
        rota_messages_end_as(m, heard);
    else if (cause && gave_up)
        rota_messages_give_up(m, cause);
    else if (cause)
        rota_messages_end_with(m, cause);
    m->now.stage = ROTA_MESSAGES_IDLE;
}

static rota_status progress(rota_transport *transport, bool *out_over, bool *out_moved) {
    rota_messages *m = messages_of(transport);
    bool is_done = false, goes_on = false;
    *out_over = *out_moved = false;
    if (m->now.stage == ROTA_MESSAGES_CARRIED) return look_at_carried(m, out_over);
    const uint64_t now = rota_clock_ns(),
                   stood_ns = rota_transport_stood_ns(transport, m->now.looked_ns, now);
    if (stood_ns && m->now.stands++ < ROTA_TRANSPORT_STANDS) m->now.moved_ns = now;
    if (stood_ns > m->now.stood_ns) m->now.stood_ns = stood_ns;
    m->now.looked_ns = now;
    if (m->now.stage == ROTA_MESSAGES_IDLE || m->end.is_over) return over(m, out_over);
    if (m->end.looks++ % LOOKS_PER_LISTEN == 0 || now - m->now.moved_ns > LISTENS_NS)
        (void)rota_messages_listen(m);
    /* After that: what came before a farewell is taken before it is looked at. */
    if (test_all(m, out_moved) != ROTA_OK) {
        end_with_message(m);
    } else if (m->now.pending == 0) {
        go_on(m, &is_done);
        *out_moved = goes_on = true;
    }
    /* Not of what was posted just now: it may be here, from a rank that is gone. */
    if (!goes_on) look_for_hindrance(m);
    if (!is_done && !m->end.is_over && !*out_moved && now - m->now.moved_ns > m->base.timeout_ns) expire(m);
    if (*out_moved) {
        m->now.moved_ns = now;
        m->now.stands = 0;
    }
    if (m->now.stage == ROTA_MESSAGES_CARRIED && !m->end.is_over) {
        *out_over = true; /* here: it is under way until it was carried */
        return ROTA_OK;
    }
    return is_done || m->end.is_over ? over(m, out_over) : ROTA_OK;
}

/* ---- Life ---- */

void rota_messages_free(rota_messages *m) {
    free(m->members);
    free(m->sent);
    free(m->received);
    free(m->announced);
    free(m->expected);
    free(m->parts);
    free(m->outgoing);
    free(m->incoming);
    free(m->sources);
    free(m->outs);
    free(m->ins);
    free(m->counts);
    free(m->end.own);
    free(m->end.received);
    free(m->end.receives);
    free(m->end.sends);
    free(m->split.all);
    free(m);
}

static void split(rota_transport *transport, uint32_t color, uint32_t key);
static rota_status take_split(rota_transport *transport, const char *name, rota_transport **out_transport);
static const rota_transport_vtable vtable = {.post = post,
                                             .progress = progress,
                                             .carried = carried,
                                             .ahead = ahead,
                                             .abort = abort_transport,
                                             .flush = rota_messages_flush,
                                             .split = split,
                                             .take_split = take_split,
                                             .begin_to_close = rota_messages_begin_to_close,
                                             .close = rota_messages_close};

static bool make_room(rota_messages *m, uint32_t size) {
    const uint64_t share = CELLS_BYTES / size;
    m->cell_bytes = share / CELL_LEAST * CELL_LEAST;
    if (m->cell_bytes > CELL_BYTES) m->cell_bytes = CELL_BYTES;
    if (m->cell_bytes < CELL_LEAST) m->cell_bytes = CELL_LEAST;
    m->members = calloc(size, sizeof *m->members);
    m->sent = calloc(size, sizeof *m->sent);
    m->received = calloc(size, sizeof *m->received);
    m->announced = calloc(size, sizeof *m->announced);
    m->expected = calloc(size, sizeof *m->expected);
    m->parts = calloc(size, sizeof *m->parts);
    m->outgoing = malloc(m->cell_bytes * size);
    m->incoming = malloc(m->cell_bytes * size);
    m->sources = calloc(size, sizeof *m->sources);
    m->outs = calloc(size, sizeof *m->outs);
    m->ins = calloc(size, sizeof *m->ins);
    m->counts = calloc(size, sizeof *m->counts);
    m->end.own = calloc(size, sizeof *m->end.own);
    m->end.received = calloc(size, sizeof *m->end.received);
    m->end.receives = calloc(size, sizeof *m->end.receives);
    m->end.sends = calloc(size, sizeof *m->end.sends);
    return m->members && m->sent && m->received && m->announced && m->expected && m->parts && m->outgoing &&
           m->incoming && m->sources && m->outs && m->ins && m->counts && m->end.own && m->end.received &&
           m->end.receives && m->end.sends;
}

/* `members` NULL: all ranks of the engine. */
static rota_status make(rota_messages_group *group, const char *name, uint64_t timeout_ns, uint32_t number,
                        uint32_t rank, uint32_t size, const uint32_t *members, rota_messages **out_messages) {
    rota_engine *engine = group->engine;
    rota_messages *m = calloc(1, sizeof *m);
    if (!m || !make_room(m, size)) {
        if (m) rota_messages_free(m);
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory for the messages of %u ranks",
                         name, size);
    }
    m->base = (rota_transport){.vtable = &vtable,
                               .kind = engine->kind,
                               .rank = rank,
                               .size = size,
                               .timeout_ns = timeout_ns,
                               .is_told = engine->is_told};
    (void)snprintf(m->base.name, sizeof m->base.name, "%s", name);
    m->group = group;
    m->number = number;
    for (uint32_t i = 0; i < size; i++) m->members[i] = members ? members[i] : i;
    group->users++;
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < size && status == ROTA_OK; i++)
        if (i != rank)
            status = engine->vtable->receive(engine, m->members[i], rota_messages_tag(m, ROTA_MESSAGES_END),
                                             &m->end.received[i], sizeof m->end.received[i],
                                             sizeof m->end.received[i], &m->end.receives[i]);
    for (uint32_t i = 0; i < size && status == ROTA_OK; i++)
        if (i != rank) status = rota_messages_expect(m, i);
    m->base.id = rota_messages_id(m);
    if (status != ROTA_OK)
        rota_messages_end_with(m, rota_last_error()); /* as if it had ended at once, which is said to all */
    *out_messages = m;
    return ROTA_OK;
}

rota_status rota_messages_open(rota_engine *engine, const char *name, uint64_t timeout_ns,
                               rota_transport **out_transport) {
    rota_messages_group *group = calloc(1, sizeof *group);
    rota_messages *m = NULL;
    rota_status status = rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory", name);
    if (group) {
        group->engine = engine;
        group->id = engine->id;
        status = make(group, name, timeout_ns, 0, engine->rank, engine->size, NULL, &m);
    }
    if (status != ROTA_OK) {
        free(group);
        engine->vtable->close(engine);
        return status;
    }
    *out_transport = &m->base;
    return ROTA_OK;
}

/* ---- Identity ---- */

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
        if (!is_over && rota_clock_ns() > deadline_ns) expire(m);
        if (!is_over && !has_moved) rota_nap_until(rota_deadline_after(NAP_NS));
    }
    m->collectives = 0; /* it is none of the application's */
    m->group->id = id;
    transport->id = rota_messages_id(m);
    return ROTA_OK;
}

/* ---- Split ---- */

/* An all_gather of what each rank wants, and of a number that this rank gives to no other group: taken here, before
 * another split can be under way. */
static void split(rota_transport *transport, uint32_t color, uint32_t key) {
    rota_messages *m = messages_of(transport);
    free(m->split.all);
    m->split.all = calloc(m->base.size, sizeof *m->split.all);
    m->split.own = (rota_messages_wish){color, key, ++m->group->reserved};
    const rota_collective gather = {.kind = ROTA_COLLECTIVE_ALL_GATHER,
                                    .type = ROTA_COLLECTIVE_U32,
                                    .count = sizeof m->split.own / sizeof(uint32_t),
                                    .input = &m->split.own,
                                    .output = m->split.all,
                                    .name = "split"};
    if (!m->split.all) rota_messages_end_with(m, "no host memory for a split");
    post(transport, &gather);
}

/* Ranks of `color`, by key and then by rank. Returns how many; *out_own: which of them this one is. */
static uint32_t gather_group(const rota_messages *m, uint32_t color, uint32_t *out_members,
                             uint32_t *out_own) {
    uint32_t count = 0;
    *out_own = 0;
    for (uint32_t i = 0; i < m->base.size; i++) {
        if (m->split.all[i].color != color) continue;
        uint32_t position = count++;
        for (; position > 0 && m->split.all[out_members[position - 1]].key > m->split.all[i].key; position--)
            out_members[position] = out_members[position - 1];
        out_members[position] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        if (out_members[i] == m->base.rank) *out_own = i;
    return count;
}

static rota_status take_split(rota_transport *transport, const char *name, rota_transport **out_transport) {
    rota_messages *m = messages_of(transport);
    const rota_engine *engine = m->group->engine;
    uint32_t *members = calloc(m->base.size, sizeof *members), own = 0;
    if (!members) return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory for a split", name);
    const uint32_t size = gather_group(m, m->split.own.color, members, &own);
    const uint64_t reserved = m->split.all[members[0]].reserved;
    if (reserved == 0) {
        free(members);
        return rota_fail(ROTA_INTERNAL,
                         "communicator '%s': a rank takes part in split 0, expected 1 at the least", name);
    }
    for (uint32_t i = 0; i < size; i++) members[i] = m->members[members[i]];
    const uint64_t number = reserved * engine->size + members[0];
    rota_messages *made = NULL;
    /* All of the group come to the same here. */
    const bool has_tags = (number + 1) * ROTA_MESSAGES_CHANNELS - 1 <= engine->last_tag;
    const rota_status status =
        has_tags ? make(m->group, name, m->base.timeout_ns, (uint32_t)number, own, size, members, &made)
                 : rota_fail(ROTA_UNSUPPORTED,
                             "communicator '%s': split %llu of %u ranks; '%s' has tags for no more", name,
                             (unsigned long long)reserved, engine->size, engine->kind);
    free(members);
    if (status != ROTA_OK) return status;
    *out_transport = &made->base;
    return ROTA_OK;
}
