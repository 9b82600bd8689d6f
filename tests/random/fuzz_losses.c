/* Plans, reads and writes of four devices at random, some of which are lost on the way, against a model in
 * the order of submissions: what is read is what the model has, or its reader is told of a loss, and nothing
 * waits for ever. What is written anew on a device that is well can be read again.
 *
 *   rota-fuzz-losses [--seed N] [--count N] [--limit KIB] [--after 1]
 *
 * Each seed is a runtime of its own; the last line names one that failed. --limit: that much memory for the
 * devices together, where what is refused for want of it may fail, too. --after 1: plans come after points of timelines
 * that a thread moves meanwhile. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/adversary/adversary_internal.h"
#include "tests/kit/nap.h"
#include "tests/kit/never_asks.h"
#include "tests/kit/random.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/sequenced.h"
#include "tests/random/held.h"

/* The adversary's devices come first. */
enum { HALF = 4096, ALL = 2 * HALF, BUFFERS = 5, DEVICES = 4, FAKES = 3, OPS = 70, KINDS = 4 };
#define HALF_BYTES (HALF * 4u)
#define WAIT_NS 60000000000u

/* dst[i] += src[i] + src[HALF + i] + 1; of one half of dst, and all of src. */
static rota_status sum(const rota_kernel_call *call) {
    const uint32_t *src = call->operands[0];
    uint32_t *dst = call->operands[1];
    for (uint32_t i = 0; i < HALF; i++) dst[i] += src[i] + src[i + HALF] + 1;
    return ROTA_OK;
}
static const rota_kernel sum_kernel = {.name = "sum", .operand_count = 2, .cpu = {.fn = sum}};

/* The same, once the gate is open. */
static _Atomic uint32_t is_gate_open;
static rota_status late_sum(const rota_kernel_call *call) {
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (!ra_load_seq_cst(&is_gate_open) && rota_clock_ns() < deadline) test_nap();
    return sum(call);
}
static const rota_kernel late_kernel = {.name = "late sum", .operand_count = 2, .cpu = {.fn = late_sum}};

/* What a plan does: a sum; a copy of all; a sum into src's successor, and a copy of that one, which is on the device
 * after it; or a late sum. */
typedef enum plan_kind { SUM, COPY, SUM_AND_COPY, LATE } plan_kind;

/* Operations of run_order; and how many late sums stand for one: the adversary looks for new works every 64 steps. */
enum { ORDER_OPS = 12, LATES = 32 };

typedef struct op {
    rota_ticket ticket;
    bool waits; /* a read or a plan, not refused */
    uint32_t wanted[2];
    uint32_t *words; /* of a read */
} op;

typedef struct world {
    adversary_options options;
    uint64_t seed, limit, random;
    uint32_t queues;
    rota_runtime *runtime;
    held *held; /* NULL: no plan comes after points */
    rota_device *devices[DEVICES];
    rota_buffer *buffers[BUFFERS];
    rota_plan *plans[KINDS][DEVICES][BUFFERS][BUFFERS][2];
    uint32_t values[BUFFERS][2];
    op ops[OPS];
    uint32_t order_at; /* run_order begins there; OPS: nowhere */
    /* A loss: of whom, before which operation, and how. */
    uint32_t who[2], when[2];
    uint32_t well_after; /* operations after a loss that ended well */
} world;

/* A device that was given up may go on looking at its options. */
static world *worlds;
static uint32_t world_count;

static uint32_t draw(world *w, uint32_t bound) {
    return test_below(&w->random, bound);
}

/* ---- The devices ---- */

/* Whether threads that are to stay in the driver stay where they make memory for a read or a move, and not in submit:
 * there the sequencer may not be. */
static bool stays_for_memory(const world *w) {
    return w->seed / 4 % 2 == 0;
}

static void world_open(world *w, uint64_t seed, uint64_t limit) {
    static const char *const ids[] = {"adversary", "adversary:1", "adversary:2", "cpu"};
    *w = (world){.seed = seed, .limit = limit, .random = seed * 6364136223846793005u};
    const bool is_linked = draw(w, 3) != 0, asks = draw(w, 2);
    w->options.seed = seed;
    /* Of one GPU the first two, or each of its own and all three peers. */
    const bool are_peers = seed / 16 % 3 == 0;
    w->options.shares_memory = is_linked && !are_peers;
    w->options.timelines = is_linked;
    w->options.peers = are_peers;
    w->options.faults.slow_command_ns = draw(w, 3) ? 0 : 20000;
    w->queues = 1 + draw(w, 3);
    w->order_at = is_linked && !are_peers && seed % 2 ? (uint32_t)(seed / 2 % (OPS / 2)) : OPS;
    if (w->order_at < OPS && w->queues == 1) w->queues = 2;
    /* Not with run_order, which has a thread stay in submit. */
    w->options.submit_never_blocks = w->order_at == OPS && stays_for_memory(w) && seed % 3 == 0;
    const rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.timeout_ns = 2 * WAIT_NS, .queues_per_device = w->queues,
                             .memory_limit_bytes = limit, .staging_slots = 2, .staging_slot_bytes = 4096,
                             .staging_idle_ns = 1000000000000u);
    assert_ok(adversary_runtime_open(&w->options, &options, &w->runtime));
    for (uint32_t d = 0; d < DEVICES; d++) {
        if (d == 2) w->options.shares_memory = false;
        assert_ok(rota_device_open(w->runtime, ids[d], &w->devices[d]));
        if (!asks && d < FAKES) test_never_asks(w->devices[d], true);
    }
    for (uint32_t b = 0; b < BUFFERS; b++) {
        w->buffers[b] = test_words(w->devices[b % DEVICES], "b", ALL, b + 1);
        w->values[b][0] = w->values[b][1] = b + 1;
    }
    ra_store_seq_cst(&is_gate_open, 1);
    w->options.faults.free_ns = draw(w, 2) ? 0 : 400000;
    w->options.faults.frees = draw(w, 5) ? ADVERSARY_FREES_AT_ONCE : ADVERSARY_FREES_AFTER_WORKS;
}

static void world_close(world *w) {
    if (w->held) held_close(w->held);
    ra_store_seq_cst(&w->options.faults.submits_stay, 0);
    ra_store_seq_cst(&w->options.faults.memories_stay, 0);
    for (uint32_t i = 0; i < OPS; i++) free(w->ops[i].words);
    rota_plan **plans = &w->plans[0][0][0][0][0];
    for (uint32_t i = 0; i < sizeof w->plans / sizeof *plans; i++)
        if (plans[i]) rota_plan_release(plans[i]);
    for (uint32_t b = 0; b < BUFFERS; b++) rota_buffer_release(w->buffers[b]);
    (void)rota_runtime_close(w->runtime, 5000000000u); /* a lost device may keep something */
    if (w->options.violations) fail_msg("%s", w->options.violation);
}

/* ---- Losses ---- */

static void draw_losses(world *w) {
    w->who[0] = draw(w, FAKES);
    w->when[0] = draw(w, OPS);
    w->who[1] = draw(w, FAKES);
    w->when[1] = w->when[0] + draw(w, 4) * draw(w, 4); /* often at once, or soon */
    if (draw(w, 2) || w->when[1] > OPS) w->when[1] = OPS;
    if (draw(w, 3) == 0) {
        w->when[0] = OPS;
        ra_store_relaxed(&w->options.faults.lost_in_works, 1 + draw(w, 2 * OPS));
    }
}

/* Whether its thread is to stay in the driver by then: for a while, or close behind what it waits for on the GPU. */
static bool stays_before(const world *w, uint32_t l, uint32_t i) {
    if (w->when[l] >= OPS || i >= w->when[l] || w->order_at < OPS) return false; /* run_order waits */
    if (stays_for_memory(w)) return i + 8 >= w->when[l];
    if ((w->seed + l) % 4 == 0) return i + 8 == w->when[l];
    return (w->seed + l) % 4 == 1 && i + 16 > w->when[l] &&
           ra_load_seq_cst(&w->devices[w->who[l]]->gate.pending);
}

/* Its thread stays: what lies idle is given back where it is to make some. */
static void stay(world *w, uint32_t l) {
    const bool for_memory = stays_for_memory(w);
    adversary_faults *faults = &w->options.faults;
    (void)atomic_fetch_or(for_memory ? &faults->memories_stay : &faults->submits_stay, 1u << w->who[l]);
    rota_trim trim;
    if (for_memory) rota_trim_begin(w->runtime, 0, &trim);
}

static void lose_at(world *w, uint32_t i) {
    for (uint32_t l = 0; l < 2; l++) {
        if (stays_before(w, l, i)) stay(w, l);
        if (i == w->when[l]) rota_device_set_lost(w->devices[w->who[l]], "given up by the test");
    }
}

/* ---- Operations ---- */

static void begin_read(world *w, op *it, uint32_t b) {
    const uint64_t deadline = rota_deadline_after(WAIT_NS);
    rota_status status = ROTA_BUSY;
    memcpy(it->wanted, w->values[b], sizeof it->wanted);
    it->words = calloc(ALL, sizeof *it->words);
    assert_non_null(it->words);
    while (status == ROTA_BUSY && rota_clock_ns() < deadline) {
        status = rota_buffer_read_async(w->buffers[b], 0, it->words, ALL * sizeof *it->words, &it->ticket);
        if (status == ROTA_BUSY) test_nap();
    }
    assert_ok(status);
    it->waits = true;
}

/* Refused where the device is lost, or for want of memory: then nothing was written. */
static rota_status write_half(world *w, rota_device *device, uint32_t b, uint32_t half, uint32_t value,
                              rota_ticket *out_ticket) {
    static uint32_t words[HALF];
    for (uint32_t i = 0; i < HALF; i++) words[i] = value;
    const rota_status status =
        rota_buffer_write(w->buffers[b], device, half * HALF_BYTES, words, HALF_BYTES, out_ticket);
    if (status == ROTA_OK) w->values[b][half] = value;
    return status;
}

static void begin_write(world *w, op *it) {
    const uint32_t b = draw(w, BUFFERS), half = draw(w, 2), value = draw(w, 1000);
    rota_device *device = w->devices[draw(w, DEVICES)];
    it->waits = write_half(w, device, b, half, value, &it->ticket) == ROTA_OK;
}

static uint32_t queue_of(const world *w, uint32_t d, uint32_t src, uint32_t dst, uint32_t half) {
    return 1 + (d + 3 * src + 5 * dst + 7 * half) % w->queues;
}

static rota_plan *compile(world *w, plan_kind kind, uint32_t d, uint32_t src, uint32_t dst, uint32_t half) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan = NULL;
    const uint32_t last = (dst + 1) % BUFFERS == src ? (dst + 2) % BUFFERS : (dst + 1) % BUFFERS;
    rota_access sums[] = {{w->buffers[src], 0, ROTA_WHOLE, ROTA_READ},
                          {w->buffers[dst], half * HALF_BYTES, HALF_BYTES, ROTA_READWRITE}};
    rota_access copies[] = {{w->buffers[kind == COPY ? src : dst], 0, ROTA_WHOLE, ROTA_READ},
                            {w->buffers[kind == COPY ? dst : last], 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_device *devices[] = {w->devices[d], w->devices[(d + 1) % DEVICES]};
    const uint32_t queue = queue_of(w, d, src, dst, half);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "random"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_kernel_node sum_node =
        ROTA_KERNEL_NODE(.kernel = kind == LATE ? &late_kernel : &sum_kernel, .accesses = sums,
                         .access_count = 2, .placement = {.device_plus_1 = 1, .queue_plus_1 = queue});
    rota_kernel_node copy_node =
        ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = copies, .access_count = 2,
                         .placement = {.device_plus_1 = kind == COPY ? 1 : 2, .queue_plus_1 = queue});
    if (kind != COPY) assert_ok(rota_record_kernel(recorder, &sum_node, NULL));
    if (kind == COPY || kind == SUM_AND_COPY) assert_ok(rota_record_kernel(recorder, &copy_node, NULL));
    rota_recorder_close(recorder);
    const rota_status status =
        rota_compile(w->runtime, graph,
                     &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = kind == SUM_AND_COPY ? 2 : 1,
                                           .queues = w->queues),
                     &plan);
    rota_graph_release(graph);
    bool any_lost = false; /* it need not compile then */
    for (uint32_t i = 0; i < FAKES; i++) any_lost = any_lost || rota_device_is_lost(w->devices[i]);
    if (status != ROTA_OK && !any_lost && !(w->limit && status == ROTA_OUT_OF_MEMORY))
        fail_msg("rota_compile: %s", rota_last_error());
    return plan;
}

static void begin_plan_of(world *w, op *it, plan_kind kind, uint32_t d, uint32_t src, uint32_t dst,
                          uint32_t half) {
    const uint32_t last = (dst + 1) % BUFFERS == src ? (dst + 2) % BUFFERS : (dst + 1) % BUFFERS;
    rota_plan **plan = &w->plans[kind][d][src][dst][half];
    if (!*plan) *plan = compile(w, kind, d, src, dst, half);
    if (!*plan) return;
    rota_submit_options options = ROTA_SUBMIT_OPTIONS(.timeout_ns = 0);
    if (w->held && w->order_at == OPS) held_draw(w->held, &w->random, &options);
    assert_ok(rota_submit_with(*plan, &options, &it->ticket));
    it->waits = true;
    if (kind != COPY) w->values[dst][half] += w->values[src][0] + w->values[src][1] + 1;
    if (kind == COPY) memcpy(w->values[dst], w->values[src], sizeof w->values[dst]);
    if (kind == SUM_AND_COPY) memcpy(w->values[last], w->values[dst], sizeof w->values[last]);
}

static void begin_plan(world *w, op *it) {
    const plan_kind kind = draw(w, 4) ? draw(w, 2) : SUM_AND_COPY;
    const uint32_t d = draw(w, DEVICES), src = draw(w, BUFFERS), half = draw(w, 2);
    const uint32_t dst = (src + 1 + draw(w, BUFFERS - 1)) % BUFFERS;
    begin_plan_of(w, it, kind, d, src, dst, half);
}

/* ---- An order through a lost device ---- */

/* As soon as it comes about, and no longer than a while. */
static void await_pending(const rota_device *device) {
    const uint64_t deadline = rota_deadline_after(5000000);
    while (!ra_load_seq_cst(&device->gate.pending) && rota_clock_ns() < deadline) test_nap();
}
static void await_handed_over(const world *w, const rota_device *device) {
    const uint64_t deadline = rota_deadline_after(5000000);
    for (uint32_t q = 0; q < w->runtime->queue_count; q++)
        while (ra_load_acquire(&device->timelines[q].handed_over) <
                   ra_load_acquire(&device->timelines[q].issued) &&
               rota_clock_ns() < deadline)
            test_nap();
}

/* A buffer is read behind something slow, written on a device that waits for that on the GPU and whose thread stays
 * there, written there once more on another queue, then on a third device, and on the first one beside what reads; and
 * the second device is lost. What is read is as it was before all that. The first write is not with the device: that
 * may go on with what it has, and nobody waits for it. Returns the operation behind all. */
static uint32_t run_order(world *w, uint32_t i) {
    const uint32_t reader = draw(w, 2), lost = 1 - reader, other = 2 + draw(w, DEVICES - 2);
    const uint32_t y = draw(w, BUFFERS), turn = draw(w, BUFFERS - 1), a = draw(w, 2),
                   b = draw(w, 8) ? 1 - a : a;
    const uint32_t to = (y + 1 + turn) % BUFFERS;
    const uint32_t first = i; /* once without: all is where it is used then */
    uint32_t from = (to + 1) % BUFFERS, third;
    if (from == y) from = (from + 1) % BUFFERS;
    third = (from + 1) % BUFFERS;
    while (third == y || third == to) third = (third + 1) % BUFFERS;
    /* A copy's half says on which queue it is, and nothing else; the late sum's, that it is on that of what reads. */
    const uint32_t late =
        queue_of(w, reader, y, to, a) == queue_of(w, reader, from, to, 0) ? 0 : 1; /* of two queues */
    const uint32_t beside = queue_of(w, reader, y, to, a) == queue_of(w, reader, third, y, 0) ? 1 : 0;
    op *ops = w->ops;
    begin_plan_of(w, &ops[i++], COPY, other, third, y, 0);
    begin_plan_of(w, &ops[i++], COPY, reader, third, y, beside);
    begin_plan_of(w, &ops[i++], COPY, reader, y, to, a);
    begin_plan_of(w, &ops[i++], COPY, lost, from, y, a);
    begin_plan_of(w, &ops[i++], COPY, lost, from, y, b); /* it is not what is to be written last */
    for (uint32_t o = first; o < i; o++)
        if (ops[o].waits) (void)rota_wait(ops[o].ticket, WAIT_NS);
    ra_store_seq_cst(&is_gate_open, 0);
    for (uint32_t l = 0; l < LATES; l++) begin_plan_of(w, &ops[i], LATE, reader, from, to, late);
    i++;
    begin_plan_of(w, &ops[i++], COPY, reader, y, to, a);
    if (ops[i - 1].waits) test_sequenced(ops[i - 1].ticket);
    await_handed_over(w, w->devices[reader]);
    (void)atomic_fetch_or(&w->options.faults.submits_stay, 1u << lost);
    begin_plan_of(w, &ops[i++], COPY, lost, from, y, a);
    await_pending(w->devices[lost]);
    begin_plan_of(w, &ops[i++], COPY, lost, from, y, b);
    begin_plan_of(w, &ops[i++], COPY, other, third, y, 0);
    begin_plan_of(w, &ops[i++], COPY, reader, third, y, beside);
    if (ops[i - 1].waits) test_sequenced(ops[i - 1].ticket);
    rota_device_set_lost(w->devices[lost], "given up by the test");
    test_nap_ms(1u << draw(w, 7));
    ra_store_seq_cst(&is_gate_open, 1);
    begin_read(w, &ops[i++], to);
    return i;
}

/* ---- What became of them ---- */

static void expect_words(uint32_t number, const uint32_t *words, const uint32_t *wanted) {
    for (uint32_t i = 0; i < ALL; i++)
        if (words[i] != wanted[i / HALF])
            fail_msg("operation %u: word %u is %u, not %u", number, i, words[i], wanted[i / HALF]);
}

static void expect_end(const world *w, uint32_t number, rota_status status) {
    if (status != ROTA_OK && status != ROTA_DEVICE_LOST && !(w->limit && status == ROTA_OUT_OF_MEMORY))
        fail_msg("operation %u: %s: %s", number, rota_status_name(status), rota_last_error());
}

static void check(world *w, uint32_t i) {
    const op *it = &w->ops[i];
    if (!it->waits) return;
    const rota_status status = rota_wait(it->ticket, WAIT_NS);
    expect_end(w, i, status);
    if (status != ROTA_OK) return;
    if (i > w->when[0] || i > w->when[1]) w->well_after++;
    if (it->words) expect_words(i, it->words, it->wanted);
}

/* The CPU is never lost. A write that comes after what a lost device left fails with it; the next comes after
 * that write alone. */
static rota_status write_anew(world *w, uint32_t b, uint32_t half) {
    rota_status status = ROTA_DEVICE_LOST;
    for (uint32_t tries = 0; status == ROTA_DEVICE_LOST && tries < 2; tries++) {
        rota_ticket ticket;
        status = write_half(w, w->devices[DEVICES - 1], b, half, b + half, &ticket);
        if (status == ROTA_OK) status = rota_wait(ticket, WAIT_NS);
    }
    return status;
}

static void check_end(world *w) {
    static uint32_t words[ALL];
    for (uint32_t b = 0; b < BUFFERS; b++) {
        rota_status status = rota_buffer_read(w->buffers[b], 0, words, sizeof words);
        expect_end(w, OPS + b, status);
        if (status == ROTA_OK) expect_words(OPS + b, words, w->values[b]);
        for (uint32_t half = 0; half < 2; half++) {
            status = write_anew(w, b, half);
            if (w->limit && status == ROTA_OUT_OF_MEMORY) return;
            if (status != ROTA_OK) fail_msg("writing anew: %s", rota_last_error());
        }
        status = rota_buffer_read(w->buffers[b], 0, words, sizeof words);
        if (status != ROTA_OK && !(w->limit && status == ROTA_OUT_OF_MEMORY))
            fail_msg("what was written anew: %s", rota_last_error());
        if (status == ROTA_OK) expect_words(OPS + b, words, w->values[b]);
    }
}

static uint32_t run(world *w, uint64_t seed, uint64_t limit, bool after) {
    world_open(w, seed, limit);
    if (after) w->held = held_open(w->runtime, seed);
    draw_losses(w);
    for (uint32_t i = 0; i < OPS; i++) {
        lose_at(w, i);
        if (i == w->order_at) {
            i = run_order(w, i) - 1;
            continue;
        }
        const uint32_t what = draw(w, 10);
        if (what < 2)
            begin_read(w, &w->ops[i], draw(w, BUFFERS));
        else if (what < 3)
            begin_write(w, &w->ops[i]);
        else
            begin_plan(w, &w->ops[i]);
    }
    for (uint32_t i = 0; i < OPS; i++) check(w, i);
    check_end(w);
    world_close(w);
    return w->well_after;
}

static uint64_t first = 1, limit_bytes, current;
static bool is_after;

static void what_is_read_is_so(void **state) {
    (void)state;
    uint32_t well = 0;
    for (uint32_t i = 0; i < world_count; i++) {
        current = first + i;
        well += run(&worlds[i], current, limit_bytes, is_after);
    }
    if (world_count >= 8) assert_int_not_equal(well, 0); /* else nothing was looked at */
}

int main(int argc, char **argv) {
    world_count = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        const uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0)
            first = value;
        else if (strcmp(argv[i], "--count") == 0)
            world_count = (uint32_t)value;
        else if (strcmp(argv[i], "--limit") == 0)
            limit_bytes = value << 10;
        else if (strcmp(argv[i], "--after") == 0)
            is_after = value != 0;
        else
            return fprintf(stderr, "%s: no such option\n", argv[i]), 2;
    }
    worlds = calloc(world_count, sizeof *worlds);
    if (!worlds) return 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_read_is_so)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed)
        printf("rota-fuzz-losses --seed %llu --limit %llu --after %d fails\n", (unsigned long long)current,
               (unsigned long long)limit_bytes >> 10, is_after);
    return failed;
}
