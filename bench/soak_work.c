/* What the threads of rota-bench soak do: each makes plans, buffers or runtimes of its own, uses them in a
 * way that a seed chooses, compares everything that comes back, and releases them, also while they are in
 * use. */
#include "bench/soak.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/hash.h"
#include "bench/graphs.h"
#include "sched/plan.h"

#define WAIT_NS UINT64_C(60000000000)

static uint64_t next(soak_thread *t) {
    return rota_hash_mix(t->seed += UINT64_C(0x9E3779B97F4A7C15)); /* splitmix64 */
}

static uint64_t below(soak_thread *t, uint64_t n) {
    return next(t) % n;
}

static rota_device *any_device(soak_thread *t) {
    return t->soak->devices[below(t, t->soak->device_count)];
}

static bool wrong(soak_thread *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(soak_thread *t, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(t->message, sizeof t->message, format, list);
    va_end(list);
    return false;
}

static bool expected(soak_thread *t, rota_status status, rota_status want, const char *call) {
    if (status == want) return true;
    return wrong(t, "%s: %s, not %s: %s", call, rota_status_name(status), rota_status_name(want),
                 status == ROTA_OK ? "" : rota_last_error());
}

#define WANT(want, call)                                                                                     \
    do {                                                                                                     \
        if (!expected(t, (call), (want), #call)) goto done;                                                  \
    } while (0)
#define GOOD(call) WANT(ROTA_OK, call)

static bool same(soak_thread *t, const uint8_t *got, const uint8_t *want, uint64_t size, const char *what) {
    if (memcmp(got, want, size) == 0) return true;
    uint64_t i = 0;
    while (got[i] == want[i]) i++;
    return wrong(t, "%s: byte %" PRIu64 " of %" PRIu64 " is %u, not %u", what, i, size, got[i], want[i]);
}

static void fill_random(soak_thread *t, uint8_t *bytes, uint64_t size) {
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t x = next(t);
        memcpy(bytes + i, &x, size - i < 8 ? size - i : 8);
    }
}

/* ---- Graphs: recorded, compiled for each device, replayed on them in turn ---- */

static bool replays(soak_thread *t) {
    const soak *s = t->soak;
    bench_graph_options options = {.kind = (bench_graph_kind)below(t, BENCH_GRAPH_KIND_COUNT),
                                   .nodes = BENCH_LAYER_NODES + below(t, 150),
                                   .slots = below(t, 2),
                                   .runtime = s->runtime};
    bench_graph *g = NULL;
    rota_plan *plans[SOAK_DEVICES_MAX] = {NULL};
    rota_args *args[SOAK_DEVICES_MAX] = {NULL};
    bool good = false;
    GOOD(bench_graph_create(&options, &g));
    GOOD(bench_graph_record_all(g, 1 + (uint32_t)below(t, 3)));
    for (uint32_t d = 0; d < s->device_count; d++) {
        GOOD(rota_compile(
            s->runtime, g->graph,
            &ROTA_COMPILE_OPTIONS(.devices = &s->devices[d], .device_count = 1,
                                  .packing = (rota_packing)below(t, 2), .queues = 1 + (uint32_t)below(t, 2),
                                  .instances = (uint32_t)below(t, 5), .arenas = 1 + (uint32_t)below(t, 2),
                                  .certify = below(t, 4) == 0),
            &plans[d]));
        GOOD(rota_args_create(plans[d], &args[d]));
        GOOD(bench_graph_bind(g, args[d], 0));
    }
    GOOD(bench_graph_reset(g, s->devices[0]));
    uint64_t count = 1 + below(t, 40);
    for (uint64_t r = 0; r < count; r++) {
        uint64_t d = below(t, s->device_count);
        rota_ticket ticket;
        GOOD(rota_submit_wait(plans[d], args[d], 0, &ticket));
        if (below(t, 8) == 0) GOOD(rota_wait(ticket, 0));
    }
    if (below(t, 2)) /* while they are in flight */
        for (uint32_t d = 0; d < s->device_count; d++) {
            rota_args_release(args[d]);
            rota_plan_release(plans[d]);
            args[d] = NULL;
            plans[d] = NULL;
        }
    GOOD(bench_graph_check(g, count, NULL));
    good = true;
done:
    for (uint32_t d = 0; d < s->device_count; d++) {
        rota_args_release(args[d]);
        rota_plan_release(plans[d]);
    }
    bench_graph_release(g);
    return good;
}

/* ---- Host access: writes and reads of any range, of some bytes and of several times a staging slot ---- */

#define ACCESS_BYTES (UINT64_C(3) << 20)

static bool host_access(soak_thread *t) {
    uint64_t size = 1 + below(t, below(t, 4) ? 65536 : ACCESS_BYTES), offset[2], length[2];
    uint8_t *mirror = malloc(size), *got[2] = {malloc(size), malloc(size)};
    rota_buffer *buffer = NULL;
    rota_ticket tickets[2] = {{0}};
    bool good = false, pending = false;
    if (!mirror || !got[0] || !got[1]) {
        wrong(t, "no host memory for %" PRIu64 " bytes", size);
        goto done;
    }
    fill_random(t, mirror, size);
    GOOD(rota_buffer_create_in(t->soak->runtime, "soak", size, &buffer));
    GOOD(rota_buffer_write(buffer, any_device(t), 0, mirror, size, NULL));
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            offset[i] = below(t, size);
            length[i] = 1 + below(t, size - offset[i]);
        }
        fill_random(t, mirror + offset[0], length[0]);
        GOOD(rota_buffer_write(buffer, below(t, 2) ? any_device(t) : NULL, offset[0], mirror + offset[0],
                               length[0], NULL));
        if (below(t, 2)) {
            GOOD(rota_buffer_read(buffer, offset[1], got[0], length[1]));
            if (!same(t, got[0], mirror + offset[1], length[1], "a read")) goto done;
            continue;
        }
        pending = true;
        for (uint32_t i = 0; i < 2; i++)
            GOOD(rota_buffer_read_async(buffer, offset[i], got[i], length[i], &tickets[i]));
        if (round == 19) { /* released under its reads */
            rota_buffer_release(buffer);
            buffer = NULL;
        }
        for (uint32_t i = 0; i < 2; i++) {
            GOOD(rota_wait(tickets[i], 0));
            if (!same(t, got[i], mirror + offset[i], length[i], "a read that did not wait")) goto done;
        }
        pending = false;
    }
    good = true;
done:
    for (uint32_t i = 0; pending && i < 2; i++)
        if (tickets[i].id) (void)rota_wait(tickets[i], WAIT_NS);
    rota_buffer_release(buffer);
    free(mirror);
    for (uint32_t i = 0; i < 2; i++) free(got[i]);
    return good;
}

/* ---- Arguments: inputs, copied and borrowed, outputs, slots, callbacks ---- */

#define ARGUMENT_REPLAYS 8
#define ARGUMENT_WORDS 700

/* The output is the input with its first `filled` words replaced by a pattern; the slot's buffer the input.
 */
static rota_status argument_plan(soak_thread *t, uint64_t filled, rota_buffer *out_buffers[3],
                                 rota_graph **out_graph, rota_plan **out_plan) {
    const uint64_t size = (uint64_t)ARGUMENT_WORDS * 4;
    rota_recorder *recorder;
    rota_buffer *middle;
    rota_device *device = any_device(t);
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "arguments"), out_graph));
    ROTA_TRY(rota_graph_buffer(*out_graph, ROTA_BUFFER_INPUT, "in", size, &out_buffers[0]));
    ROTA_TRY(rota_graph_buffer(*out_graph, ROTA_BUFFER_OUTPUT, "out", size, &out_buffers[1]));
    ROTA_TRY(rota_graph_buffer(*out_graph, ROTA_BUFFER_SLOT, "slot", size, &out_buffers[2]));
    ROTA_TRY(rota_graph_buffer(*out_graph, ROTA_BUFFER_TRANSIENT, "middle", size, &middle));
    ROTA_TRY(rota_recorder_open(*out_graph, 0, NULL, &recorder));
    rota_status status = rota_record_copy(recorder, middle, 0, out_buffers[0], 0, size, NULL);
    if (status == ROTA_OK) status = rota_record_copy(recorder, out_buffers[2], 0, middle, 0, size, NULL);
    if (status == ROTA_OK) status = rota_record_fill(recorder, middle, 0, filled * 4, 0xA5A5A5A5u, NULL);
    if (status == ROTA_OK) status = rota_record_copy(recorder, out_buffers[1], 0, middle, 0, size, NULL);
    rota_recorder_close(recorder);
    ROTA_TRY(status);
    return rota_compile(
        t->soak->runtime, *out_graph,
        &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .transfer_queue = below(t, 2)),
        out_plan);
}

static void count_call(void *user, rota_status status, const char *message) {
    (void)message;
    atomic_fetch_add((_Atomic uint32_t *)user, status == ROTA_OK ? 1u : 1000u);
}

typedef struct argument_memory {
    uint8_t in[ARGUMENT_WORDS * 4], kept[ARGUMENT_WORDS * 4];
    uint8_t out[ARGUMENT_REPLAYS][ARGUMENT_WORDS * 4], want[ARGUMENT_REPLAYS][ARGUMENT_WORDS * 4];
    rota_ticket tickets[ARGUMENT_REPLAYS];
    _Atomic uint32_t calls;
    uint32_t called;
} argument_memory;

/* Submits the plan with the next contents of its input; if `copied`, not waiting for them to be taken. */
static bool argument_replay(soak_thread *t, rota_plan *plan, rota_args *args, rota_buffer *output,
                            uint64_t filled, bool copied, argument_memory *m) {
    const uint64_t size = (uint64_t)ARGUMENT_WORDS * 4;
    const uint32_t r = m->called;
    bool good = false;
    fill_random(t, m->in, size);
    memcpy(m->kept, m->in, size);
    memcpy(m->want[r], m->in, size);
    memset(m->want[r], 0xA5, filled * 4);
    GOOD(rota_args_set_output(args, output, m->out[r], size));
    rota_status status = rota_submit_wait(plan, args, 0, &m->tickets[r]);
    if (status == ROTA_BUSY && r) { /* all copies of the input are in flight */
        GOOD(rota_wait(m->tickets[r - 1], 0));
        status = rota_submit_wait(plan, args, 0, &m->tickets[r]);
    }
    GOOD(status);
    GOOD(rota_ticket_on_complete(m->tickets[r], count_call, (void *)&m->calls));
    m->called++;
    if (!copied) GOOD(rota_wait_inputs_taken(m->tickets[r], 0));
    good = true;
done:
    return good;
}

static bool arguments(soak_thread *t) {
    const uint64_t size = (uint64_t)ARGUMENT_WORDS * 4, filled = 1 + below(t, ARGUMENT_WORDS);
    argument_memory *m = calloc(1, sizeof *m);
    rota_graph *graph = NULL;
    rota_plan *plan = NULL;
    rota_args *args = NULL;
    rota_buffer *buffers[3], *bound = NULL;
    bool good = false, copied = below(t, 2);
    if (!m) return wrong(t, "no host memory for arguments");
    GOOD(argument_plan(t, filled, buffers, &graph, &plan));
    GOOD(rota_buffer_create_in(t->soak->runtime, "bound", size, &bound));
    GOOD(rota_args_create(plan, &args));
    GOOD(rota_args_set_buffer(args, buffers[2], bound));
    GOOD(rota_args_set_input(args, buffers[0], m->in, size, copied));
    for (uint32_t r = 0; r < ARGUMENT_REPLAYS; r++)
        if (!argument_replay(t, plan, args, buffers[1], filled, copied, m)) goto done;
    if (below(t, 2)) {
        rota_args_release(args);
        rota_plan_release(plan);
        args = NULL;
        plan = NULL;
    }
    for (uint32_t r = 0; r < ARGUMENT_REPLAYS; r++) {
        GOOD(rota_wait(m->tickets[r], 0));
        if (!same(t, m->out[r], m->want[r], size, "an output")) goto done;
    }
    GOOD(rota_buffer_read(bound, 0, m->in, size));
    if (!same(t, m->in, m->kept, size, "what was in the slot")) goto done;
    good = true;
done:
    for (uint32_t r = 0; r < ARGUMENT_REPLAYS; r++)
        if (m->tickets[r].id) (void)rota_wait(m->tickets[r], WAIT_NS);
    uint64_t deadline = rota_deadline_after(WAIT_NS);
    while (atomic_load(&m->calls) < m->called && rota_clock_ns() < deadline) usleep(100);
    if (good && atomic_load(&m->calls) != m->called)
        good = wrong(t, "%u callbacks for %u tickets (those with a failure count 1000)",
                     atomic_load(&m->calls), m->called);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(bound);
    free(m);
    return good;
}

/* ---- A runtime of its own, under a memory limit ---- */

#define LIMIT_BYTES (UINT64_C(8) << 20)
#define PIECE_BYTES (UINT64_C(512) << 10)
#define PIECES_MAX 64
#define STAGED_BYTES 65536

/* A piece there and back, in parts, since what is staged counts too. Full to the last page there is no room to stage
 * what is read: then one of the `spares` pieces from the second on is released. */
static bool piece_returns(soak_thread *t, rota_device *device, rota_buffer **pieces, uint32_t p,
                          uint32_t spares, uint8_t *bytes, uint8_t *got) {
    bool good = false;
    rota_status status = ROTA_OK;
    fill_random(t, bytes, PIECE_BYTES);
    for (uint64_t offset = 0; offset < PIECE_BYTES; offset += STAGED_BYTES)
        GOOD(rota_buffer_write(pieces[p], device, offset, bytes + offset, STAGED_BYTES, NULL));
    for (uint64_t offset = 0; offset < PIECE_BYTES; offset += STAGED_BYTES) {
        uint32_t spare = 1;
        while ((status = rota_buffer_read(pieces[p], offset, got + offset, STAGED_BYTES)) ==
                   ROTA_OUT_OF_MEMORY &&
               spare < spares) {
            t->refusals++;
            rota_buffer_release(pieces[spare]);
            pieces[spare++] = NULL;
            usleep(10000); /* freed by and by */
        }
        GOOD(status);
    }
    good = same(t, got, bytes, PIECE_BYTES, "a piece under a memory limit");
done:
    return good;
}

static bool opener(soak_thread *t) {
    rota_runtime *runtime = NULL;
    rota_device *device;
    rota_buffer *pieces[PIECES_MAX] = {NULL};
    uint8_t *bytes = malloc(PIECE_BYTES), *got = malloc(PIECE_BYTES);
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    uint32_t made = 0;
    bool good = false, closed = false;
    if (!bytes || !got) {
        wrong(t, "no host memory for a piece");
        goto done;
    }
    GOOD(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = LIMIT_BYTES, .staging_slots = 4,
                                                 .staging_slot_bytes = STAGED_BYTES, .worker_threads = 2),
                           &runtime));
    GOOD(rota_device_open(runtime, rota_device_get_info(any_device(t))->id, &device));
    rota_status status = ROTA_OK;
    for (; made < PIECES_MAX && status == ROTA_OK; made++) {
        GOOD(rota_buffer_create_in(runtime, "piece", PIECE_BYTES, &pieces[made]));
        status = rota_buffer_prepare(pieces[made], device);
    }
    WANT(ROTA_OUT_OF_MEMORY, status);
    t->refusals++;
    rota_runtime_get_stats(runtime, &stats);
    if (stats.memory_bytes > LIMIT_BYTES || made < 4) {
        wrong(t, "%u pieces and %" PRIu64 " bytes under a limit of %" PRIu64, made, stats.memory_bytes,
              LIMIT_BYTES);
        goto done;
    }
    /* What one gives back another can have. */
    rota_buffer_release(pieces[0]);
    pieces[0] = NULL;
    uint64_t deadline = rota_deadline_after(WAIT_NS);
    while ((status = rota_buffer_prepare(pieces[made - 1], device)) == ROTA_OUT_OF_MEMORY &&
           rota_clock_ns() < deadline)
        usleep(1000);
    GOOD(status);
    for (uint32_t p = made - 2; p < made; p++)
        if (!piece_returns(t, device, pieces, p, made - 2, bytes, got)) goto done;
    if (below(t, 2)) { /* else they are released when the runtime is gone */
        for (uint32_t p = 0; p < made; p++) rota_buffer_release(pieces[p]);
        memset(pieces, 0, sizeof pieces);
    }
    closed = true;
    GOOD(rota_runtime_close(runtime, WAIT_NS));
    t->reopened++;
    good = true;
done:
    if (runtime && !closed) (void)rota_runtime_close(runtime, WAIT_NS);
    for (uint32_t p = 0; p < made; p++) rota_buffer_release(pieces[p]);
    free(bytes);
    free(got);
    return good;
}

/* ---- Failures that are asked for, and what they are to reach ---- */

#define FAILING_WORDS 1024

static rota_status fail_or_add(void *user, void *const *operands, const uint64_t *operand_bytes,
                               uint32_t operand_count) {
    (void)operand_bytes, (void)operand_count;
    if (atomic_load((_Atomic uint32_t *)user)) return rota_fail(ROTA_INVALID_ARGUMENT, "told to fail");
    uint32_t *words = operands[0];
    for (uint32_t i = 0; i < FAILING_WORDS; i++) words[i]++;
    return ROTA_OK;
}

static rota_status failing_plan(soak_thread *t, rota_buffer *x, rota_buffer *y, _Atomic uint32_t *fails,
                                rota_plan **out_plan) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_device *devices[2] = {any_device(t), t->soak->devices[0]};
    for (uint32_t d = 0; d < t->soak->device_count; d++)
        if (rota_device_get_info(t->soak->devices[d])->kind == ROTA_EXEC_CPU)
            devices[1] = t->soak->devices[d];
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "failing"), &graph));
    rota_status status = rota_recorder_open(graph, 0, NULL, &recorder);
    const rota_access access = {x, 0, ROTA_WHOLE, ROTA_READWRITE};
    const rota_host_node node = ROTA_HOST_NODE(.fn = fail_or_add, .user = (void *)fails,
                                               .name = "fail or add", .accesses = &access, .access_count = 1);
    if (status == ROTA_OK) status = rota_record_host(recorder, &node, NULL);
    if (status == ROTA_OK) status = rota_record_copy(recorder, y, 0, x, 0, (uint64_t)FAILING_WORDS * 4, NULL);
    if (status == ROTA_OK) {
        rota_recorder_close(recorder);
        rota_compile_options options =
            ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = devices[0] == devices[1] ? 1 : 2);
        status = rota_compile(t->soak->runtime, graph, &options, out_plan);
    }
    rota_graph_release(graph);
    return status;
}

static bool has_cpu(const soak *s) {
    for (uint32_t d = 0; d < s->device_count; d++)
        if (rota_device_get_info(s->devices[d])->kind == ROTA_EXEC_CPU) return true;
    return false;
}

static bool failures(soak_thread *t) {
    if (!has_cpu(t->soak)) return host_access(t); /* host nodes run there */
    uint32_t words[FAILING_WORDS], got[FAILING_WORDS];
    rota_buffer *x = NULL, *y = NULL, *other = NULL;
    rota_plan *plan = NULL;
    rota_ticket ticket = {0};
    _Atomic uint32_t fails = 0;
    bool good = false;
    GOOD(rota_buffer_create_in(t->soak->runtime, "x", sizeof words, &x));
    GOOD(rota_buffer_create_in(t->soak->runtime, "y", sizeof words, &y));
    GOOD(rota_buffer_create_in(t->soak->runtime, "other", sizeof words, &other));
    GOOD(failing_plan(t, x, y, &fails, &plan));
    for (uint32_t round = 0; round < 6; round++) {
        fill_random(t, (uint8_t *)words, sizeof words);
        GOOD(rota_buffer_write(x, any_device(t), 0, words, sizeof words, NULL));
        GOOD(rota_buffer_write(other, any_device(t), 0, words, sizeof words, NULL));
        atomic_store(&fails, (uint32_t)below(t, 2));
        GOOD(rota_submit_wait(plan, NULL, 0, &ticket));
        GOOD(rota_buffer_read(other, 0, got, sizeof got));
        if (!same(t, (uint8_t *)got, (uint8_t *)words, sizeof words, "what failed nowhere")) goto done;
        if (atomic_load(&fails)) {
            WANT(ROTA_NODE_FAILED, rota_wait(ticket, 0));
            WANT(ROTA_NODE_FAILED, rota_buffer_read(x, 0, got, sizeof got));
            WANT(ROTA_NODE_FAILED, rota_buffer_read(y, 0, got, sizeof got));
            continue;
        }
        GOOD(rota_wait(ticket, 0));
        for (uint32_t i = 0; i < FAILING_WORDS; i++) words[i]++;
        GOOD(rota_buffer_read(y, 0, got, sizeof got));
        if (!same(t, (uint8_t *)got, (uint8_t *)words, sizeof words, "behind a host function")) goto done;
    }
    good = true;
done:
    if (ticket.id) (void)rota_wait(ticket, WAIT_NS); /* `fails` is this call's */
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(other);
    return good;
}

/* ---- All ---- */

bool soak_round(soak_thread *thread) {
    static bool (*const rounds[SOAK_KINDS])(soak_thread * t) = {replays, host_access, arguments, opener,
                                                                failures};
    return rounds[thread->kind](thread);
}
