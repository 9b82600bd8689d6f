/* The cases of the transport contract. Each names what it looks for; expectations are computed here. */
#include "tests/exec/comm/transport_contract.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/kit/nap.h"
#include "tests/ranks/rank_cases.h"

static const uint64_t long_ns = 60000000000u;

/* Goes on until it is over. */
static rota_status finish(rota_transport *t) {
    const uint64_t deadline = rota_deadline_after(long_ns);
    for (;;) {
        bool is_over, moved;
        const rota_status status = t->vtable->progress(t, &is_over, &moved);
        rank_want(is_over || status == ROTA_OK, "a status before it is over");
        if (is_over) return status;
        rank_want(rota_clock_ns() < deadline, "rank %u: it does not end", t->rank);
        if (!moved) test_nap_us(20);
    }
}

static rota_status carry_out(rota_transport *t, const rota_collective *collective) {
    t->vtable->post(t, collective);
    return finish(t);
}

static rota_transport *split_off(rota_transport *t, uint32_t color, const char *name) {
    rota_transport *made;
    t->vtable->split(t, color, 0);
    rank_ok(finish(t));
    rank_ok(t->vtable->take_split(t, name, &made));
    return made;
}

static void end(rota_transport *t) {
    uint64_t abandoned = 1;
    rota_transport_close(t, rota_deadline_after(long_ns), &abandoned);
    rank_want(abandoned == 0, "%llu bytes abandoned", (unsigned long long)abandoned);
}

/* ---- Results ---- */

static int32_t value(uint32_t rank, uint64_t i) {
    return (int32_t)((i * 7919u + (uint64_t)rank * 104729u) % 100003u) - 50000;
}

static int32_t *values(uint32_t rank, uint64_t count) {
    int32_t *x = malloc((size_t)(count ? count : 1) * sizeof *x);
    for (uint64_t i = 0; i < count; i++) x[i] = value(rank, i);
    return x;
}

static int32_t sum(uint32_t size, uint64_t i) {
    int32_t total = 0;
    for (uint32_t r = 0; r < size; r++) total += value(r, i);
    return total;
}

/* What element i of the output of `kind` is on rank r. */
static int32_t wanted(const rota_transport *t, rota_collective_kind kind, uint64_t count, uint32_t root,
                      uint64_t i) {
    switch (kind) {
    case ROTA_COLLECTIVE_ALL_REDUCE:
        return sum(t->size, i);
    case ROTA_COLLECTIVE_REDUCE_SCATTER:
        return sum(t->size, t->rank * count + i);
    case ROTA_COLLECTIVE_ALL_GATHER:
        return value((uint32_t)(i / count), i % count);
    case ROTA_COLLECTIVE_ALL_TO_ALL:
        return value((uint32_t)(i / count), t->rank * count + i % count);
    default:
        return value(root, i);
    }
}

static void check_kind(rota_transport *t, rota_collective_kind kind, uint64_t count, uint32_t root,
                       bool in_place) {
    const bool wide_in = kind == ROTA_COLLECTIVE_REDUCE_SCATTER || kind == ROTA_COLLECTIVE_ALL_TO_ALL;
    const bool wide_out = kind == ROTA_COLLECTIVE_ALL_GATHER || kind == ROTA_COLLECTIVE_ALL_TO_ALL;
    const uint64_t ins = count * (wide_in ? t->size : 1), outs = count * (wide_out ? t->size : 1);
    int32_t *x = values(t->rank, ins > outs ? ins : outs),
            *y = in_place ? x : malloc((size_t)(outs + 1) * sizeof *y);
    const int32_t *input = x;
    if (in_place && kind == ROTA_COLLECTIVE_REDUCE_SCATTER) y = x + t->rank * count;
    if (in_place && kind == ROTA_COLLECTIVE_ALL_GATHER) {
        memmove(x + t->rank * count, x, (size_t)count * sizeof *x);
        input = x + t->rank * count;
    }
    const rota_collective collective = {.kind = kind,
                                        .type = ROTA_COLLECTIVE_I32,
                                        .peer = root,
                                        .count = count,
                                        .input = input,
                                        .output = y,
                                        .name = "checked"};
    rank_ok(carry_out(t, &collective));
    for (uint64_t i = 0; i < outs; i++)
        rank_want(y[i] == wanted(t, kind, count, root, i),
                  "rank %u, %s of %llu%s: element %llu is %d, not %d", t->rank,
                  rota_collective_kind_text(kind), (unsigned long long)count, in_place ? " in place" : "",
                  (unsigned long long)i, y[i], wanted(t, kind, count, root, i));
    if (!in_place) free(y);
    free(x);
}

static void results(rota_transport *t) {
    static const uint64_t counts[] = {0, 1, 5, 4096, 200003};
    for (uint32_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint32_t kind = ROTA_COLLECTIVE_ALL_REDUCE; kind <= ROTA_COLLECTIVE_BROADCAST; kind++)
            for (uint32_t in_place = 0; in_place < 2; in_place++)
                check_kind(t, (rota_collective_kind)kind, counts[c], t->size - 1, in_place);
}

static void messages_of_two(rota_transport *t) {
    int32_t *x = values(t->rank, 100000), *y = malloc(100000 * sizeof *y);
    /* Each pair both ways, the lower one first; all others do nothing meanwhile. */
    for (uint32_t a = 0; a < t->size; a++) {
        for (uint32_t b = a + 1; b < t->size; b++) {
            if (t->rank != a && t->rank != b) continue;
            const uint32_t peer = t->rank == a ? b : a;
            rota_collective c = {
                .type = ROTA_COLLECTIVE_I32, .peer = peer, .count = 100000, .input = x, .output = y};
            for (uint32_t turn = 0; turn < 2; turn++) {
                c.kind = (turn == 0) == (t->rank == a) ? ROTA_COLLECTIVE_SEND : ROTA_COLLECTIVE_RECEIVE;
                c.name = c.kind == ROTA_COLLECTIVE_SEND ? "there" : "back";
                rank_ok(carry_out(t, &c));
            }
            for (uint64_t i = 0; i < 100000; i++)
                rank_want(y[i] == value(peer, i), "element %llu", (unsigned long long)i);
        }
    }
    free(x);
    free(y);
}

/* ---- Waiting ---- */

/* A post, and each look, return while others have not come: there are several before the barrier is over. */
static void nothing_blocks(rota_transport *t) {
    const rota_collective barrier = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "barrier"};
    rank_ok(carry_out(t, &barrier));
    if (t->rank == t->size - 1) test_nap_ms(400);
    const uint64_t begin = rota_clock_ns();
    uint64_t looks = 0;
    bool is_over = false, moved;
    t->vtable->post(t, &barrier);
    for (; !is_over; looks++) {
        rank_ok(t->vtable->progress(t, &is_over, &moved));
        test_nap_us(20);
    }
    const uint64_t waited_ns = rota_clock_ns() - begin;
    if (t->rank != t->size - 1) /* less: this rank came late itself */
        rank_want(looks > 2 || waited_ns < 200000000u, "%llu looks in %llu us", (unsigned long long)looks,
                  (unsigned long long)waited_ns / 1000);
}

/* ---- Ends ---- */

static void expect_ended(rota_transport *t, const char *text) {
    const rota_collective barrier = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "after the end"};
    for (uint32_t i = 0; i < 2; i++) {
        rank_want(carry_out(t, &barrier) == ROTA_NODE_FAILED, "it goes on");
        rank_want(strstr(rota_last_error(), text), "'%s' is not in: %s", text, rota_last_error());
    }
}

/* Each thing that may differ, on the last rank; all get the same sentence, which has both. */
static void differences(rota_transport *t) {
    int32_t x[8 * 64] = {0}, y[8 * 64];
    const rota_collective as_all = {.kind = ROTA_COLLECTIVE_ALL_REDUCE,
                                    .type = ROTA_COLLECTIVE_I32,
                                    .count = 8,
                                    .input = x,
                                    .output = y,
                                    .name = "the node"};
    for (uint32_t what = 0; what < 6; what++) {
        rota_transport *own = split_off(t, 0, "differing");
        rota_collective c = as_all;
        static const char *const shows[] = {"of 7 i32",       "8 u32",      "by max",
                                            "'another node'", "all_gather", "from rank 1"};
        if (what == 5) c.kind = ROTA_COLLECTIVE_BROADCAST;
        if (t->rank == t->size - 1) {
            c.count = what == 0 ? 7 : 8;
            if (what == 1) c.type = ROTA_COLLECTIVE_U32;
            if (what == 2) c.reduction = ROTA_COLLECTIVE_MAX;
            if (what == 3) c.name = "another node";
            if (what == 4) c.kind = ROTA_COLLECTIVE_ALL_GATHER;
            if (what == 5) c.peer = 1;
        }
        rank_want(carry_out(own, &c) == ROTA_NODE_FAILED, "difference %u goes unnoticed", what);
        rank_want(strstr(rota_last_error(), shows[what]) && strstr(rota_last_error(), "'the node'") &&
                      strstr(rota_last_error(), "communicator 'differing'"),
                  "'%s' is not in: %s", shows[what], rota_last_error());
        expect_ended(own, shows[what]);
        end(own);
    }
}

/* The last rank does not come. The others end by their timeout; what they gave is theirs again, and stays as it is when
 * the late one comes. */
static void a_rank_that_is_late(rota_transport *t) {
    rota_transport *own = split_off(t, 0, "late");
    own->timeout_ns = 200000000u;
    int32_t x[8], y[8];
    memset(x, 1, sizeof x);
    memset(y, 2, sizeof y);
    const rota_collective c = {.kind = ROTA_COLLECTIVE_ALL_REDUCE,
                               .type = ROTA_COLLECTIVE_I32,
                               .count = 8,
                               .input = x,
                               .output = y,
                               .name = "late one"};
    if (t->rank == t->size - 1) test_nap_ms(1500);
    rank_want(carry_out(own, &c) == ROTA_NODE_FAILED, "it did not wait for rank %u", t->size - 1);
    char who[64];
    (void)snprintf(who, sizeof who, "for rank %u, which did not come to it", t->size - 1);
    rank_want(strstr(rota_last_error(), who) && strstr(rota_last_error(), "'late one'"), "%s",
              rota_last_error());
    rank_want(t->rank == t->size - 1 || strstr(rota_last_error(), "; nothing was heard then of rank"), "%s",
              rota_last_error());
    if (t->rank != t->size - 1) test_nap_ms(1700);
    for (uint32_t i = 0; i < 8; i++)
        rank_want(y[i] == 0x02020202 && x[i] == 0x01010101, "memory was touched late");
    expect_ended(own, who);
    end(own);
}

/* Rank 1 waits for rank 2, which waits for rank 0, which does not come: all name that one, though rank 1, which gives
 * up first, waited for another one. */
static void a_rank_that_waits_itself(rota_transport *t) {
    if (t->size < 3) return;
    rota_transport *own = split_off(t, 0, "chain");
    own->timeout_ns = t->rank == 1 ? 1500000000u : 2400000000u;
    const bool is_of_two = t->rank == 1 || t->rank == 2;
    int32_t x[8];
    const rota_collective c = {.kind = is_of_two ? ROTA_COLLECTIVE_RECEIVE : ROTA_COLLECTIVE_BARRIER,
                               .type = ROTA_COLLECTIVE_I32,
                               .peer = t->rank == 1 ? 2 : 0,
                               .count = 8,
                               .output = x,
                               .name = "one after the other"};
    if (!is_of_two) test_nap_ms(4000);
    rank_want(carry_out(own, &c) == ROTA_NODE_FAILED, "it does not end");
    const char *said = rota_last_error();
    rank_want(!is_of_two || strstr(said, "; nothing was heard then of rank 0") ||
                  strstr(said, "; nothing was heard then of ranks 0,"),
              "%s", said);
    end(own);
}

/* The last rank's process stands still in a collective, until the others have given it up: it is told so when it goes
 * on, and ends by what they have said, not by a timeout of its own from there on. */
static void a_rank_that_was_stopped(rota_transport *t) {
    const uint64_t count = 100000;
    int32_t *x = values(t->rank, count);
    rota_transport *own = split_off(t, 0, "stopped");
    const bool is_last = t->rank == t->size - 1;
    own->timeout_ns = is_last ? 5000000000u : 200000000u;
    const rota_collective c = {.kind = ROTA_COLLECTIVE_ALL_REDUCE,
                               .type = ROTA_COLLECTIVE_I32,
                               .count = count,
                               .input = x,
                               .output = x,
                               .name = "cut short"};
    own->vtable->post(own, &c);
    if (is_last) test_nap_ms(1500); /* more than a quarter of its timeout */
    const uint64_t begin = rota_clock_ns();
    rank_want(finish(own) == ROTA_NODE_FAILED, "it goes on without rank %u", t->size - 1);
    const char *expected = is_last ? "itself stood still for " : "; nothing was heard then of rank";
    rank_want(strstr(rota_last_error(), expected), "%s", rota_last_error());
    rank_want(!is_last || rota_clock_ns() - begin < own->timeout_ns / 2, "it took %llu ms",
              (unsigned long long)(rota_clock_ns() - begin) / 1000000);
    end(own);
    free(x);
}

/* The last rank does not come, and the others are stopped again and again, for most of their timeout: they end all the
 * same, after some of those. */
static void ranks_that_are_stopped_again(rota_transport *t) {
    rota_transport *own = split_off(t, 0, "stopped again");
    own->timeout_ns = 250000000u;
    const rota_collective c = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "never there"};
    const uint64_t deadline = rota_deadline_after(long_ns);
    const bool is_last = t->rank == t->size - 1;
    bool is_over = is_last, moved;
    if (!is_last) own->vtable->post(own, &c);
    while (!is_over) {
        const rota_status status = own->vtable->progress(own, &is_over, &moved);
        rank_want(is_over == (status == ROTA_NODE_FAILED), "%s", rota_status_name(status));
        rank_want(is_over || rota_clock_ns() < deadline, "rank %u waits for ever", t->rank);
        if (!is_over) test_nap_ms(150);
    }
    rank_want(is_last || strstr(rota_last_error(), "itself stood still for "), "%s", rota_last_error());
    rank_ok(carry_out(t, &c));             /* until when the last one waits */
    if (is_last) (void)carry_out(own, &c); /* it may hear what they announced before it hears that */
    expect_ended(own, "did not come to it");
    end(own);
}

static void abort_by_one(rota_transport *t) {
    rota_transport *own = split_off(t, 0, "aborted");
    const rota_collective barrier = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "barrier"};
    if (t->rank == 0) {
        own->vtable->abort(own, "it is all too much");
        own->vtable->abort(own, "and again");
    }
    rank_want(carry_out(own, &barrier) == ROTA_NODE_FAILED, "it goes on");
    expect_ended(own, "it is all too much");
    end(own);
}

/* One rank ends it in the midst of a large one, after as many looks as `looks`: all end, and all close. Engines that
 * can't take a message back end all the same: nothing is left over when the last transport closes. */
static void ended_in_the_midst(rota_transport *t) {
    const uint64_t count = 400000;
    int32_t *x = values(t->rank, count * t->size), *y = malloc(count * t->size * sizeof *y);
    for (uint32_t looks = 0; looks < 24; looks++) {
        rota_transport *own = split_off(t, 0, "cut short");
        const rota_collective c = {.kind = looks % 2 ? ROTA_COLLECTIVE_ALL_TO_ALL : ROTA_COLLECTIVE_BROADCAST,
                                   .type = ROTA_COLLECTIVE_I32,
                                   .peer = t->size - 1,
                                   .count = count,
                                   .input = x,
                                   .output = y,
                                   .name = "long one"};
        own->vtable->post(own, &c);
        bool is_over = false, moved;
        for (uint32_t i = 0; t->rank == 0 && i < looks && !is_over; i++) {
            (void)own->vtable->progress(own, &is_over, &moved);
            test_nap_us(50);
        }
        if (t->rank == 0) own->vtable->abort(own, "in the midst of it");
        const rota_status status = is_over ? ROTA_OK : finish(own);
        /* What the system has of a connection's is sent, so nobody of a broadcast waits for rank 0 to take it. */
        const bool is_through =
            strcmp(t->kind, "tcp") == 0 && c.kind == ROTA_COLLECTIVE_BROADCAST && t->rank != 0;
        rank_want(status == ROTA_NODE_FAILED || looks > 4 || is_through, "%u looks: it went through", looks);
        expect_ended(own, "in the midst of it");
        end(own);
    }
    free(x);
    free(y);
}

/* Who has ended its part leaves at once, by an abort or by closing. The others have all that they need, so theirs ends
 * well; only what comes after fails. */
static void left_after_the_end(rota_transport *t) {
    const uint64_t count = 30000;
    int32_t *x = values(t->rank, count), *y = malloc(count * t->size * sizeof *y);
    for (uint32_t i = 0; i < 60; i++) {
        rota_transport *own = split_off(t, 0, "left");
        const rota_collective c = {.kind = i % 2 ? ROTA_COLLECTIVE_ALL_GATHER : ROTA_COLLECTIVE_ALL_REDUCE,
                                   .type = ROTA_COLLECTIVE_I32,
                                   .count = count,
                                   .input = x,
                                   .output = y,
                                   .name = "the last one"};
        rank_ok(carry_out(own, &c));
        if (i % 2) rank_want(y[count * (t->size - 1)] == value(t->size - 1, 0), "not what was gathered");
        const uint32_t who = i / 2 % t->size;
        if (t->rank == who && i % 4 < 2) {
            end(own);
            continue;
        }
        if (t->rank == who) own->vtable->abort(own, "it has had enough");
        expect_ended(own, i % 4 < 2 ? "closed it" : "it has had enough");
        end(own);
    }
    free(x);
    free(y);
}

/* Rank 0 ends it in the midst of a large message to the last rank, which may have it or not: it waits for nothing that
 * was taken back. */
static void ended_in_a_send(rota_transport *t) {
    const uint64_t count = 1000000;
    int32_t *x = values(0, count), *y = malloc(count * sizeof *y);
    for (uint32_t turn = 0; turn < 100; turn++) {
        rota_transport *own = split_off(t, 0, "torn");
        rota_collective c = {.kind = ROTA_COLLECTIVE_SEND,
                             .type = ROTA_COLLECTIVE_I32,
                             .peer = t->size - 1,
                             .count = count,
                             .input = x,
                             .output = y,
                             .name = "there"};
        if (t->rank == 0) {
            bool is_over = false, moved;
            own->vtable->post(own, &c);
            for (uint32_t i = 0; i < turn && !is_over; i++)
                (void)own->vtable->progress(own, &is_over, &moved);
            own->vtable->abort(own, "in the midst of it");
            if (!is_over) (void)finish(own);
        } else if (t->rank == t->size - 1) {
            c.kind = ROTA_COLLECTIVE_RECEIVE;
            c.peer = 0;
            const uint64_t begin = rota_clock_ns();
            (void)carry_out(own, &c);
            rank_want(rota_clock_ns() - begin < 10000000000u, "turn %u: it waited %llu ms", turn,
                      (unsigned long long)(rota_clock_ns() - begin) / 1000000);
        }
        expect_ended(own, "in the midst of it");
        end(own);
    }
    free(x);
    free(y);
}

/* A timeout shorter than what lies between two looks. The last rank, which comes when the others have given up, may
 * hear what they announced before it hears that. */
static void a_short_timeout(rota_transport *t) {
    rota_transport *own = split_off(t, 0, "short");
    const rota_collective barrier = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "barrier"};
    const bool is_last = t->rank == t->size - 1;
    own->timeout_ns = 150000;
    if (is_last) test_nap_ms(2500);
    const uint64_t begin = rota_clock_ns();
    const rota_status status = carry_out(own, &barrier);
    rank_want(is_last || status == ROTA_NODE_FAILED, "it did not wait for rank %u", t->size - 1);
    rank_want(rota_clock_ns() - begin < 2300000000u, "it took %llu us",
              (unsigned long long)(rota_clock_ns() - begin) / 1000);
    end(own);
}

/* ---- Groups ---- */

static void finish_both(rota_transport *a, rota_transport *b) {
    bool is_over[2] = {false, false}, moved;
    const uint64_t deadline = rota_deadline_after(long_ns);
    while (!is_over[0] || !is_over[1]) {
        if (!is_over[0]) rank_ok(a->vtable->progress(a, &is_over[0], &moved));
        if (!is_over[1]) rank_ok(b->vtable->progress(b, &is_over[1], &moved));
        rank_want(rota_clock_ns() < deadline, "rank %u: they do not end", a->rank);
        test_nap_us(20);
    }
}

/* Splits of two transports at once; then a collective on each of the two groups at once, begun in one order on some
 * ranks and in the other on the others: none gets what is the other's. */
static void two_splits_at_once(rota_transport *t) {
    for (uint32_t turn = 0; turn < 20; turn++) {
        rota_transport *other = split_off(t, 0, "other"), *parents[2] = {t, other}, *made[2];
        const uint32_t first = (t->rank + turn) % 2;
        for (uint32_t i = 0; i < 2; i++) {
            rota_transport *parent = parents[(i + first) % 2];
            parent->vtable->split(parent, 1, parent == t ? 0 : t->size - t->rank);
        }
        finish_both(t, other);
        for (uint32_t i = 0; i < 2; i++)
            rank_ok(parents[i]->vtable->take_split(parents[i], "alike", &made[i]));
        int32_t x[2] = {(int32_t)t->rank, 1000 + (int32_t)t->rank}, y[2] = {0, 0};
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t which = (i + first) % 2;
            const rota_collective c = {.kind = ROTA_COLLECTIVE_ALL_REDUCE,
                                       .type = ROTA_COLLECTIVE_I32,
                                       .count = 1,
                                       .input = &x[which],
                                       .output = &y[which],
                                       .name = "sum"};
            made[which]->vtable->post(made[which], &c);
        }
        finish_both(made[0], made[1]);
        const int32_t size = (int32_t)t->size, ranks = size * (size - 1) / 2;
        rank_want(y[0] == ranks && y[1] == 1000 * size + ranks, "sums %d and %d", y[0], y[1]);
        end(made[0]);
        end(made[1]);
        end(other);
    }
}

/* Groups of groups, in use in turns: none gets what is another's. */
static void groups(rota_transport *t) {
    rota_transport *halves = split_off(t, t->rank % 2, "half"), *all = split_off(t, 3, "all again");
    rota_transport *inner = split_off(halves, 0, "of the half"),
                   *more = split_off(t, t->rank < t->size / 2, "sides");
    rota_transport *const in_turns[] = {halves, all, inner, more, t};
    for (uint32_t i = 0; i < 25; i++) {
        rota_transport *now = in_turns[i % 5];
        int32_t x[2] = {(int32_t)t->rank, 1}, y[2];
        const rota_collective c = {.kind = ROTA_COLLECTIVE_ALL_REDUCE,
                                   .type = ROTA_COLLECTIVE_I32,
                                   .count = 2,
                                   .input = x,
                                   .output = y,
                                   .name = now->name};
        rank_ok(carry_out(now, &c));
        rank_want(y[1] == (int32_t)now->size, "'%s' sums over %d of %u ranks", now->name, y[1], now->size);
    }
    /* An end is that of one group. */
    if (halves->rank == 0) halves->vtable->abort(halves, "of the half alone");
    expect_ended(halves, "of the half alone");
    check_kind(inner, ROTA_COLLECTIVE_ALL_TO_ALL, 3, 0, false);
    check_kind(t, ROTA_COLLECTIVE_ALL_TO_ALL, 3, 0, false);
    end(halves);
    end(inner);
    end(all);
    end(more);
}

/* ---- Carried by a library ---- */

/* The ranks agree; what a rank's device then does is over when it says so. */
static rota_status begin_carried(rota_transport *t, rota_collective_kind kind, uint32_t peer) {
    const rota_collective c = {.kind = kind,
                               .type = ROTA_COLLECTIVE_F32,
                               .peer = peer,
                               .count = 1000,
                               .on_device = true,
                               .name = "on devices"};
    return carry_out(t, &c);
}

/* It is under way: nothing ends it, nor the timeout, which is of who has it. */
static void expect_carried(rota_transport *t) {
    const uint64_t timeout_ns = t->timeout_ns;
    t->timeout_ns = 10000000u;
    const uint64_t end_ns = rota_deadline_after(50000000u);
    while (rota_clock_ns() < end_ns) {
        bool is_over, moved;
        rank_ok(t->vtable->progress(t, &is_over, &moved));
        rank_want(!is_over, "rank %u: it ended by itself", t->rank);
    }
    t->timeout_ns = timeout_ns;
}

/* Rank 0 fails in it, or has done its part and ends the transport then; where the others are late they say so, too. */
static void carried(rota_transport *t, bool fails, bool is_of_two, bool are_late) {
    rota_transport *own = split_off(t, 0, "carried");
    const uint32_t last = t->size - 1;
    const rota_collective_kind kind = !is_of_two ? ROTA_COLLECTIVE_ALL_REDUCE
                                      : t->rank  ? ROTA_COLLECTIVE_RECEIVE
                                                 : ROTA_COLLECTIVE_SEND;
    const bool takes_part = !is_of_two || t->rank == 0 || t->rank == last;
    for (uint32_t i = 0; i < 2 && takes_part; i++) {
        rank_ok(begin_carried(own, kind, t->rank ? 0 : last));
        if (i == 0) expect_carried(own);
        own->vtable->carried(own, NULL, false);
    }
    const rota_status begun = takes_part ? begin_carried(own, kind, t->rank ? 0 : last) : ROTA_OK;
    /* Rank 0 may have failed in it before the others know that all have come. */
    rank_want(begun == ROTA_OK || (t->rank && fails), "rank %u: %s", t->rank, rota_last_error());
    if (t->rank == 0) {
        own->vtable->carried(own, fails ? "a device of rank 0's failed" : NULL, false);
        if (!fails) own->vtable->abort(own, "a device of rank 0's failed");
    } else if (takes_part && fails && begun == ROTA_OK) {
        rank_want(finish(own) == ROTA_NODE_FAILED, "rank %u hears nothing", t->rank);
    } else if (takes_part && !fails) {
        expect_carried(own);
        if (are_late) test_nap_ms(500);
        own->vtable->carried(own, are_late ? "it took too long" : NULL, are_late);
    }
    expect_ended(own, "a device of rank 0's failed");
    end(own);
}

/* Rank 0 ends before it knows that the last one has come to its message, too, which by then may be at a library. */
static void left_before_carried(rota_transport *t) {
    rota_transport *own = split_off(t, 0, "left");
    const uint32_t last = t->size - 1;
    const rota_collective c = {.kind = t->rank ? ROTA_COLLECTIVE_RECEIVE : ROTA_COLLECTIVE_SEND,
                               .type = ROTA_COLLECTIVE_F32,
                               .peer = t->rank ? 0 : last,
                               .count = 1000,
                               .on_device = true,
                               .name = "on devices"};
    if (t->rank == 0) {
        own->vtable->post(own, &c);
        test_nap_us(50000); /* what it has said is taken */
        own->vtable->abort(own, "rank 0 gave up");
    } else if (t->rank == last) {
        rota_status status = carry_out(own, &c);
        if (status == ROTA_OK) status = finish(own);
        rank_want(status == ROTA_NODE_FAILED, "rank %u hears nothing", t->rank);
    }
    expect_ended(own, "rank 0 gave up");
    end(own);
}

/* One rank's is on a device, another's is not. */
static void carried_by_some(rota_transport *t) {
    float x[8] = {0}, y[8];
    rota_transport *own = split_off(t, 0, "mixed");
    const rota_collective c = {.kind = ROTA_COLLECTIVE_ALL_REDUCE,
                               .type = ROTA_COLLECTIVE_F32,
                               .count = 8,
                               .on_device = t->rank == 0,
                               .input = x,
                               .output = y,
                               .name = "on devices"};
    rank_want(carry_out(own, &c) == ROTA_NODE_FAILED, "it goes unnoticed");
    expect_ended(own, "of 8 f32, by sum, on a device, rank");
    end(own);
}

static void carried_by_libraries(rota_transport *t) {
    for (uint32_t i = 0; i < 4; i++) carried(t, i % 2, i / 2, false);
    for (uint32_t i = 0; i < 2; i++) carried(t, false, i, true);
    left_before_carried(t);
    carried_by_some(t);
}

void transport_contract(rota_transport *t) {
    results(t);
    if (t->size == 1) return;
    messages_of_two(t);
    nothing_blocks(t);
    differences(t);
    a_rank_that_is_late(t);
    a_rank_that_waits_itself(t);
    a_rank_that_was_stopped(t);
    ranks_that_are_stopped_again(t);
    abort_by_one(t);
    ended_in_the_midst(t);
    ended_in_a_send(t);
    left_after_the_end(t);
    a_short_timeout(t);
    groups(t);
    two_splits_at_once(t);
    carried_by_libraries(t);
    const rota_collective barrier = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "last"};
    rank_ok(carry_out(t, &barrier));
}
