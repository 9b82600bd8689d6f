/* A transport made of messages. A collective's life: post says what this rank is about to do to all who take part; when
 * all have said so and mean the same, rounds.c moves the bytes. Whoever finds that something is wrong tells all others
 * in one message each, which every transport listens for, and all end with the same sentence.
 *
 * Messages go out of cells of the transport's own and come into them: what a rank that was given up still sends, or an
 * engine still reads, is never the caller's memory. Where some never come to their end the cells are kept for good. */
#include "exec/comm/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "exec/comm/messages_parts.h"

enum {
    CELL_BYTES = 256 * 1024,
    CELLS_BYTES = 16 * 1024 * 1024, /* of all ranks' */
    CELL_LEAST = 4096,
    LOOKS_PER_LISTEN = 16, /* of progress: others' ends come seldom */
    LATEST_NS = 20000000   /* how long close waits for messages that it gives up itself */
};
static const uint64_t late_ns =
    5000000000u; /* and before for what was said last, to a rank that may be stopped */

static rota_messages *messages_of(rota_transport *transport) {
    return (rota_messages *)(void *)transport;
}

/* ---- The end ---- */

static void cancel_all(rota_messages *m, rota_engine_request **requests) {
    rota_engine *engine = m->group->engine;
    for (uint32_t i = 0; i < m->base.size; i++)
        if (requests[i]) engine->vtable->cancel(engine, requests[i]);
}

static void end_with(rota_messages *m, const char *cause, bool tells_others) {
    rota_messages_end *end = &m->end;
    rota_engine *engine = m->group->engine;
    if (end->is_over) return;
    end->is_over = true;
    (void)snprintf(end->cause, sizeof end->cause, "%s", cause);
    cancel_all(m, m->outs);
    cancel_all(m, m->ins);
    for (uint32_t i = 0; i < m->base.size && tells_others; i++) {
        if (i == m->base.rank) continue;
        /* Whom it does not reach ends by a deadline of its own. */
        if (engine->vtable->send(engine, m->members[i], m->number * 4 + ROTA_MESSAGES_END, end->cause,
                                 sizeof end->cause, &end->says[i]) != ROTA_OK)
            end->says[i] = NULL;
    }
}

static void abort_transport(rota_transport *transport, const char *cause) {
    end_with(messages_of(transport), cause, true);
}

/* Whether others have ended it. */
static void listen(rota_messages *m) {
    rota_engine *engine = m->group->engine;
    for (uint32_t i = 0; i < m->base.size; i++) {
        bool is_over = false;
        if (!m->end.hears[i]) continue;
        const rota_status status = engine->vtable->test(engine, m->end.hears[i], &is_over);
        if (!is_over) continue;
        m->end.hears[i] = NULL;
        char *cause = m->end.heard + (size_t)ROTA_MESSAGES_CAUSE * i;
        cause[ROTA_MESSAGES_CAUSE - 1] = 0;
        if (status == ROTA_OK) end_with(m, cause, false);
    }
}

/* ---- Messages ---- */

rota_status rota_messages_exchange(rota_messages *m, rota_messages_channel channel, uint32_t i,
                                   const void *from, uint64_t from_bytes, void *to, uint64_t to_bytes) {
    rota_engine *engine = m->group->engine;
    const uint32_t tag = m->number * 4 + channel;
    if (to_bytes) {
        ROTA_TRY(engine->vtable->receive(engine, m->members[i], tag, to, to_bytes, &m->ins[i]));
        m->now.pending++;
    }
    if (from_bytes) {
        ROTA_TRY(engine->vtable->send(engine, m->members[i], tag, from, from_bytes, &m->outs[i]));
        m->now.pending++;
    }
    return ROTA_OK;
}

static rota_status test_all(rota_messages *m, rota_engine_request **requests, bool *out_moved) {
    rota_engine *engine = m->group->engine;
    for (uint32_t i = 0; i < m->base.size && m->now.pending; i++) {
        bool is_over = false;
        if (!requests[i]) continue;
        const rota_status status = engine->vtable->test(engine, requests[i], &is_over);
        if (is_over) {
            requests[i] = NULL;
            m->now.pending--;
            *out_moved = true;
        }
        ROTA_TRY(status);
    }
    return ROTA_OK;
}

/* ---- A collective ---- */

static void announce_to_all(rota_messages *m) {
    const rota_collective *c = &m->now.collective;
    const bool is_of_two = rota_collective_is_of_two(c->kind);
    uint64_t *counter = !is_of_two                        ? &m->collectives
                        : c->kind == ROTA_COLLECTIVE_SEND ? &m->sent[c->peer]
                                                          : &m->received[c->peer];
    rota_announcement *own = &m->announced[m->base.rank];
    rota_announce(c, ++*counter, own);
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < m->base.size && status == ROTA_OK; i++)
        if (rota_messages_has_part(m, i))
            status = rota_messages_exchange(m, ROTA_MESSAGES_AGREE, i, own, sizeof *own, &m->announced[i],
                                            sizeof *own);
    if (status != ROTA_OK) end_with(m, rota_last_error(), true);
}

static void post(rota_transport *transport, const rota_collective *collective) {
    rota_messages *m = messages_of(transport);
    const uint64_t now = rota_clock_ns();
    m->now = (rota_messages_now){
        .collective = *collective, .stage = ROTA_MESSAGES_AGREES, .moved_ns = now, .looked_ns = now};
    m->end.looks = 0;
    if (!m->end.is_over) listen(m);
    if (!m->end.is_over) announce_to_all(m);
}

/* In ascending order of ranks, so that all come to the same sentence. */
static bool do_all_agree(rota_messages *m) {
    char cause[ROTA_MESSAGES_CAUSE];
    const bool is_of_two = rota_collective_is_of_two(m->now.collective.kind);
    const uint32_t self = m->base.rank, peer = m->now.collective.peer;
    const uint32_t first = !is_of_two ? 0 : self < peer ? self : peer;
    for (uint32_t i = first + 1; i < m->base.size; i++) {
        if (i != self && !rota_messages_has_part(m, i)) continue;
        if (rota_announcements_agree(m->base.name, first, &m->announced[first], i, &m->announced[i], cause,
                                     sizeof cause))
            continue;
        end_with(m, cause, true);
        return false;
    }
    return true;
}

/* Who keeps this one waiting, where nothing moved for too long. */
static void give_up(rota_messages *m) {
    char cause[ROTA_MESSAGES_CAUSE], what[192], who[128] = "";
    size_t used = 0;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < m->base.size; i++) {
        if (!m->ins[i] && !m->outs[i]) continue;
        if (missing++ < 8 && used < sizeof who)
            used += (size_t)snprintf(who + used, sizeof who - used, "%s%u", used ? ", " : "", i);
    }
    rota_announcement_describe(&m->announced[m->base.rank], what, sizeof what);
    (void)snprintf(
        cause, sizeof cause, "communicator '%s': rank %u waited %.1f s at %s for rank%s %s%s, which %s",
        m->base.name, m->base.rank, (double)m->base.timeout_ns * 1e-9, what, missing > 1 ? "s" : "", who,
        missing > 8 ? " and more" : "",
        m->now.stage == ROTA_MESSAGES_AGREES ? "did not come to it" : "came to it and then stopped");
    end_with(m, cause, true);
}

static rota_status over(rota_messages *m, bool *out_over) {
    *out_over = true;
    m->now.stage = ROTA_MESSAGES_IDLE;
    return m->end.is_over ? rota_fail(ROTA_NODE_FAILED, "%s", m->end.cause) : ROTA_OK;
}

static void go_on(rota_messages *m, bool *out_over) {
    rota_status status = ROTA_OK;
    if (m->now.stage == ROTA_MESSAGES_MOVES) {
        status = rota_rounds_go_on(m, out_over);
    } else if (do_all_agree(m)) {
        m->now.stage = ROTA_MESSAGES_MOVES;
        status = rota_rounds_begin(m, out_over);
    }
    if (status != ROTA_OK) end_with(m, rota_last_error(), true);
}

static rota_status progress(rota_transport *transport, bool *out_over, bool *out_moved) {
    rota_messages *m = messages_of(transport);
    bool is_done = false;
    *out_over = *out_moved = false;
    const uint64_t now = rota_clock_ns();
    /* This process was stopped itself: others are given their time from now on. */
    if (now - m->now.looked_ns > m->base.timeout_ns / 4) m->now.moved_ns = now;
    m->now.looked_ns = now;
    if (m->now.stage == ROTA_MESSAGES_IDLE) return over(m, out_over);
    if (!m->end.is_over &&
        (test_all(m, m->ins, out_moved) != ROTA_OK || test_all(m, m->outs, out_moved) != ROTA_OK))
        end_with(m, rota_last_error(), true);
    if (!m->end.is_over && m->end.looks++ % LOOKS_PER_LISTEN == 0) listen(m);
    if (m->end.is_over) return over(m, out_over);
    if (m->now.pending == 0) {
        go_on(m, &is_done);
        *out_moved = true;
    } else if (!*out_moved && now - m->now.moved_ns > m->base.timeout_ns) {
        listen(m); /* another's sentence comes first */
        give_up(m);
    }
    if (*out_moved) m->now.moved_ns = now;
    return is_done || m->end.is_over ? over(m, out_over) : ROTA_OK;
}

/* ---- Life ---- */

static void free_messages(rota_messages *m) {
    free(m->members);
    free(m->sent);
    free(m->received);
    free(m->announced);
    free(m->outgoing);
    free(m->incoming);
    free(m->sources);
    free(m->outs);
    free(m->ins);
    free(m->end.heard);
    free(m->end.hears);
    free(m->end.says);
    free(m->split.all);
    free(m);
}

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

/* What was said last should still get there; what was given up may be over only when its sender is. */
static bool wait_for_the_late(rota_messages *m, uint64_t deadline_ns) {
    const uint64_t now = rota_clock_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    const uint64_t late = rota_deadline_after(left / 2 < late_ns ? left / 2 : late_ns);
    bool has_cancelled_all = false;
    if (late < deadline_ns) deadline_ns = late;
    cancel_all(m, m->end.hears);
    cancel_all(m, m->ins);
    cancel_all(m, m->outs);
    for (;;) {
        bool are_over = are_all_over(m, m->ins);
        are_over = are_all_over(m, m->outs) && are_over;
        are_over = are_all_over(m, m->end.hears) && are_over;
        are_over = are_all_over(m, m->end.says) && are_over;
        if (are_over) return true;
        if (rota_clock_ns() >= deadline_ns) {
            if (has_cancelled_all) return false;
            cancel_all(m, m->end.says);
            has_cancelled_all = true;
            deadline_ns = rota_deadline_after(LATEST_NS);
        }
        rota_nap_until(rota_deadline_after(100000));
    }
}

static void close_messages(rota_transport *transport, uint64_t deadline_ns, uint64_t *out_abandoned_bytes) {
    rota_messages *m = messages_of(transport);
    rota_messages_group *group = m->group;
    rota_engine *engine = group->engine;
    const bool are_over = wait_for_the_late(m, deadline_ns);
    *out_abandoned_bytes = are_over ? 0 : sizeof *m + 2 * m->cell_bytes * m->base.size;
    if (!are_over) group->keeps_messages = true;
    const bool is_last = --group->users == 0;
    if (are_over) free_messages(m);
    if (!is_last) return;
    if (!group->keeps_messages) engine->vtable->close(engine, deadline_ns);
    free(group);
}

static void split(rota_transport *transport, uint32_t color, uint32_t key);
static rota_status take_split(rota_transport *transport, const char *name, rota_transport **out_transport);
static const rota_transport_vtable vtable = {post,  progress,   abort_transport,
                                             split, take_split, close_messages};

static bool make_room(rota_messages *m, uint32_t size) {
    const uint64_t share = CELLS_BYTES / size;
    m->cell_bytes = share / CELL_LEAST * CELL_LEAST;
    if (m->cell_bytes > CELL_BYTES) m->cell_bytes = CELL_BYTES;
    if (m->cell_bytes < CELL_LEAST) m->cell_bytes = CELL_LEAST;
    m->members = calloc(size, sizeof *m->members);
    m->sent = calloc(size, sizeof *m->sent);
    m->received = calloc(size, sizeof *m->received);
    m->announced = calloc(size, sizeof *m->announced);
    m->outgoing = malloc(m->cell_bytes * size);
    m->incoming = malloc(m->cell_bytes * size);
    m->sources = calloc(size, sizeof *m->sources);
    m->outs = calloc(size, sizeof *m->outs);
    m->ins = calloc(size, sizeof *m->ins);
    m->end.heard = calloc(size, ROTA_MESSAGES_CAUSE);
    m->end.hears = calloc(size, sizeof *m->end.hears);
    m->end.says = calloc(size, sizeof *m->end.says);
    return m->members && m->sent && m->received && m->announced && m->outgoing && m->incoming && m->sources &&
           m->outs && m->ins && m->end.heard && m->end.hears && m->end.says;
}

/* `members` NULL: all ranks of the engine. */
static rota_status make(rota_messages_group *group, const char *name, uint32_t number, uint32_t rank,
                        uint32_t size, const uint32_t *members, rota_messages **out_messages) {
    rota_engine *engine = group->engine;
    rota_messages *m = calloc(1, sizeof *m);
    if (!m || !make_room(m, size)) {
        if (m) free_messages(m);
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory for the messages of %u ranks",
                         name, size);
    }
    m->base = (rota_transport){.vtable = &vtable, .kind = engine->kind, .rank = rank, .size = size};
    (void)snprintf(m->base.name, sizeof m->base.name, "%s", name);
    m->group = group;
    m->number = number;
    if (group->free_number <= number) group->free_number = number + 1;
    for (uint32_t i = 0; i < size; i++) m->members[i] = members ? members[i] : i;
    group->users++;
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < size && status == ROTA_OK; i++)
        if (i != rank)
            status = engine->vtable->receive(engine, m->members[i], number * 4 + ROTA_MESSAGES_END,
                                             m->end.heard + (size_t)ROTA_MESSAGES_CAUSE * i,
                                             ROTA_MESSAGES_CAUSE, &m->end.hears[i]);
    if (status != ROTA_OK)
        end_with(m, rota_last_error(), true); /* as if it had ended at once, which is said to all */
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
        status = make(group, name, 0, engine->rank, engine->size, NULL, &m);
    }
    if (status != ROTA_OK) {
        free(group);
        engine->vtable->close(engine, rota_deadline_after(timeout_ns));
        return status;
    }
    m->base.timeout_ns = timeout_ns;
    *out_transport = &m->base;
    return ROTA_OK;
}

/* ---- Split ---- */

/* An all_gather of what each rank wants, and of the lowest number that no group has that it knows of. */
static void split(rota_transport *transport, uint32_t color, uint32_t key) {
    rota_messages *m = messages_of(transport);
    free(m->split.all);
    m->split.all = calloc(m->base.size, sizeof *m->split.all);
    m->split.own = (rota_messages_wish){color, key, m->group->free_number};
    const rota_collective gather = {.kind = ROTA_COLLECTIVE_ALL_GATHER,
                                    .type = ROTA_COLLECTIVE_U32,
                                    .count = sizeof m->split.own / sizeof(uint32_t),
                                    .input = &m->split.own,
                                    .output = m->split.all,
                                    .name = "split"};
    if (!m->split.all) end_with(m, "no host memory for a split", true);
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
    uint32_t *members = calloc(m->base.size, sizeof *members), own = 0, number = 0;
    if (!members) return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory for a split", name);
    for (uint32_t i = 0; i < m->base.size; i++)
        if (m->split.all[i].free_number > number) number = m->split.all[i].free_number;
    const uint32_t size = gather_group(m, m->split.own.color, members, &own);
    for (uint32_t i = 0; i < size; i++) members[i] = m->members[members[i]];
    rota_messages *made = NULL;
    /* Groups of one split have no rank in common, so one number does for all of them. */
    const rota_status status = make(m->group, name, number, own, size, members, &made);
    free(members);
    if (status != ROTA_OK) return status;
    made->base.timeout_ns = m->base.timeout_ns;
    *out_transport = &made->base;
    return ROTA_OK;
}
