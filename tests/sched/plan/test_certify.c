/* The certificate of compiled plans: it accepts what compiling makes, and of plans that were damaged at
 * random (a barrier, a wait, an edge, an offset, an order changed) just those that true reachability,
 * recomputed as sets of commands, finds harmless. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/graph.h"
#include "rota.h"
#include "sched/plan/certify.h"
#include "sched/plan/derived.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"
#include "tests/adversary/adversary.h"
#include "tests/random/mirror.h"
#include "tests/random/reach.h"
#include "tests/kit/support.h"

typedef enum damage {
    DAMAGE_BARRIER, /* two batches become one */
    DAMAGE_EDGE,    /* one goes, or goes to another command */
    DAMAGE_WAIT,    /* one goes, or is for another segment */
    DAMAGE_OFFSET,  /* of one operand, or of all of a buffer's */
    DAMAGE_ORDER,   /* two commands change places, or another segment is the last */
    DAMAGES
} damage;

static const char *const damage_names[DAMAGES] = {"barriers", "edges", "waits", "offsets", "orders"};

/* ---- What is damaged, and put back ---- */

typedef struct saved {
    void *original, *copy;
    size_t bytes;
} saved;

typedef struct backup {
    saved list[256];
    uint32_t count;
} backup;

static void save(backup *b, const void *original, size_t bytes) {
    assert_true(b->count < sizeof b->list / sizeof *b->list);
    saved *entry = &b->list[b->count++];
    *entry = (saved){(void *)(uintptr_t)original, malloc(bytes + 1), bytes};
    assert_non_null(entry->copy);
    memcpy(entry->copy, original, bytes);
}

static void restore(backup *b) {
    while (b->count) {
        saved *entry = &b->list[--b->count];
        memcpy(entry->original, entry->copy, entry->bytes);
        free(entry->copy);
    }
}

static void save_plan(backup *b, rota_plan *plan) {
    const rota_compile_info *info = plan->compile_info;
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        const rota_exec_program_desc *d = &plan->partitions[p].desc;
        const size_t nodes = (size_t)d->command_count + d->join_count;
        save(b, d->batches, sizeof *d->batches * d->batch_count);
        save(b, d->segments, sizeof *d->segments * d->segment_count);
        save(b, d->commands, sizeof *d->commands * d->command_count);
        save(b, d->first_successor, sizeof(uint32_t) * (nodes + 1));
        save(b, d->successor, sizeof(uint32_t) * d->first_successor[nodes]);
        save(b, d->predecessor_count, sizeof(uint32_t) * nodes);
    }
    save(b, info->accesses, sizeof *info->accesses * info->access_count);
    save(b, info->operations, sizeof *info->operations * info->operation_count);
    save(b, plan->segments, sizeof *plan->segments * plan->segment_count);
    save(b, plan->segment_waits, sizeof(uint32_t) * (plan->stats.queue_waits + 1));
    save(b, &plan->final_segment, sizeof plan->final_segment);
}

#define WRITABLE(pointer) ((void *)(uintptr_t)(pointer))

/* The segment's batches i and i + 1 become one. */
static void join_batches(const rota_exec_program_desc *d, rota_exec_segment *segment, uint32_t i) {
    rota_exec_batch *batches = (rota_exec_batch *)WRITABLE(d->batches) + segment->first_batch;
    batches[i].command_count += batches[i + 1].command_count;
    memmove(&batches[i + 1], &batches[i + 2], sizeof *batches * (segment->batch_count - i - 2));
    segment->batch_count--;
}

static bool damage_barrier(rota_plan *plan, uint64_t *random) {
    const uint32_t p = test_below(random, plan->partition_count);
    const rota_exec_program_desc *d = &plan->partitions[p].desc;
    if (!d->segment_count) return false;
    rota_exec_segment *segment =
        (rota_exec_segment *)WRITABLE(d->segments) + test_below(random, d->segment_count);
    if (segment->batch_count < 2) return false;
    join_batches(d, segment, test_below(random, segment->batch_count - 1));
    return true;
}

/* The program's edge e, of its node `from`, goes. */
static void remove_edge(const rota_exec_program_desc *d, uint32_t from, uint32_t e) {
    const uint32_t nodes = d->command_count + d->join_count;
    uint32_t *first = WRITABLE(d->first_successor), *successor = WRITABLE(d->successor);
    memmove(successor + e, successor + e + 1, sizeof *successor * (first[nodes] - e - 1));
    for (uint32_t i = from + 1; i <= nodes; i++) first[i]--;
}

static bool damage_edge(rota_plan *plan, uint64_t *random) {
    const uint32_t p = test_below(random, plan->partition_count);
    const rota_exec_program_desc *d = &plan->partitions[p].desc;
    const uint32_t nodes = d->command_count + d->join_count, edges = nodes ? d->first_successor[nodes] : 0;
    if (!edges) return false;
    const uint32_t e = test_below(random, edges);
    uint32_t *first = WRITABLE(d->first_successor), *successor = WRITABLE(d->successor);
    uint32_t *count = WRITABLE(d->predecessor_count), from = 0;
    while (first[from + 1] <= e) from++;
    count[successor[e]]--;
    if (test_below(random, 2) == 0 || from >= d->command_count) {
        remove_edge(d, from, e);
        return true;
    }
    /* To another, later, command of its segment. */
    uint32_t s = 0;
    while (from < d->segments[s].first_command ||
           from >= d->segments[s].first_command + d->segments[s].command_count)
        s++;
    const uint32_t end = d->segments[s].first_command + d->segments[s].command_count;
    if (from + 1 >= end) return false;
    successor[e] = from + 1 + test_below(random, end - from - 1);
    count[successor[e]]++;
    return true;
}

/* *out_wrong: whatever the order, a wait for what comes later is wrong. */
static bool damage_wait(rota_plan *plan, uint64_t *random, bool *out_wrong) {
    if (!plan->stats.queue_waits) return false;
    const uint32_t s = test_below(random, plan->segment_count);
    rota_plan_segment *segment = &plan->segments[s];
    if (!segment->wait_count) return false;
    uint32_t *wait = &plan->segment_waits[segment->first_wait + test_below(random, segment->wait_count)];
    if (test_below(random, 2)) {
        *wait = plan->segment_waits[segment->first_wait + --segment->wait_count];
        return true;
    }
    *wait = test_below(random, plan->segment_count);
    *out_wrong = *wait >= s;
    return true;
}

/* Moves all uses of a physical; how many there are. */
static uint32_t move_uses(const rota_plan *plan, uint32_t physical, uint64_t bytes) {
    const rota_compile_info *info = plan->compile_info;
    uint32_t uses = 0;
    for (uint32_t n = 0; n < info->operation_count; n++)
        for (uint32_t i = 0; i < info->operations[n].access_count; i++) {
            if (rota_access_physical(plan, &info->operations[n], i) != physical) continue;
            rota_exec_operand_move(&info->accesses[info->operations[n].first_access + i], bytes);
            uses++;
        }
    return uses;
}

static bool damage_offset(rota_plan *plan, uint64_t *random, bool *out_wrong) {
    const rota_compile_info *info = plan->compile_info;
    const uint32_t n = test_below(random, info->operation_count);
    const rota_operation *operation = &info->operations[n];
    const uint32_t number = test_below(random, operation->access_count), k = operation->first_access + number;
    const uint32_t physical = rota_access_physical(plan, operation, number);
    const uint32_t uses = physical == ROTA_NONE ? 0 : move_uses(plan, physical, 0);
    const rota_exec_operand *operand = &info->accesses[k];
    const rota_plan_memory *memory =
        operand->is_slot ? NULL : &plan->partitions[operation->part].memories[operand->memory];
    const bool in_arena = memory && memory->kind == ROTA_EXEC_BASE_ARENA;
    if (in_arena && (uses == 1 || test_below(random, 2))) {
        /* All of the buffer, somewhere else in the arena. */
        const rota_plan_physical *it = &info->physicals[physical];
        const uint64_t to =
            test_below(random, (uint32_t)(memory->size_bytes - rota_physical_bytes(plan, physical) + 1)) &
            ~(uint64_t)3;
        if (to == it->offset_bytes) return false;
        (void)move_uses(plan, physical, to - it->offset_bytes);
        return true;
    }
    if (physical == ROTA_NONE || uses < 2)
        return false; /* the host's side, which reachability does not know */
    rota_exec_operand_move(&info->accesses[k],
                           test_below(random, 2) && operand->offset_bytes >= 4 ? -(uint64_t)4 : 4);
    *out_wrong = true;
    return true;
}

static bool damage_order(rota_plan *plan, uint64_t *random) {
    const rota_compile_info *info = plan->compile_info;
    if (plan->segment_count > 1 && test_below(random, 4) == 0) {
        const uint32_t final = test_below(random, plan->segment_count);
        if (final == plan->final_segment) return false;
        plan->final_segment = final;
        return true;
    }
    rota_operation *a = &info->operations[test_below(random, info->operation_count)];
    rota_operation *b = &info->operations[test_below(random, info->operation_count)];
    if (a == b || rota_operation_segment(plan, a) != rota_operation_segment(plan, b)) return false;
    rota_exec_command *commands = WRITABLE(plan->partitions[a->part].desc.commands);
    const rota_exec_command command = commands[a->command];
    commands[a->command] = commands[b->command];
    commands[b->command] = command;
    const uint32_t index = a->command;
    a->command = b->command;
    b->command = index;
    return true;
}

/* ---- Judging ---- */

typedef struct tally {
    uint64_t damaged[DAMAGES], harmless[DAMAGES];
    uint64_t accepted, alarms; /* falsely */
} tally;

static bool is_harmless(const rota_plan *plan, char *message, uint32_t capacity) {
    return reach_check(plan, REACH_BATCHES, NULL, message, capacity) &&
           reach_check(plan, REACH_EDGES, NULL, message, capacity);
}

static void damage_once(rota_plan *plan, damage kind, uint64_t *random, tally *t, uint64_t seed) {
    backup b = {.count = 0};
    bool wrong = false, done = false;
    save_plan(&b, plan);
    switch (kind) {
    case DAMAGE_BARRIER:
        done = damage_barrier(plan, random);
        break;
    case DAMAGE_EDGE:
        done = damage_edge(plan, random);
        break;
    case DAMAGE_WAIT:
        done = damage_wait(plan, random, &wrong);
        break;
    case DAMAGE_OFFSET:
        done = damage_offset(plan, random, &wrong);
        break;
    case DAMAGE_ORDER:
        done = damage_order(plan, random);
        break;
    case DAMAGES:
        break;
    }
    if (done) {
        char message[384] = "it is wrong in itself";
        const bool harmless = !wrong && is_harmless(plan, message, sizeof message);
        const rota_status status = rota_plan_certify(plan);
        t->damaged[kind]++;
        t->harmless[kind] += harmless;
        if (status == ROTA_OK && !harmless) {
            if (!t->accepted++)
                print_message("seed %llu, %s: accepted, but %s\n", (unsigned long long)seed,
                              damage_names[kind], message);
        } else if (status != ROTA_OK && harmless) {
            if (!t->alarms++)
                print_message("seed %llu, %s: harmless, but %s\n", (unsigned long long)seed,
                              damage_names[kind], rota_last_error());
        }
        if (status != ROTA_OK) assert_int_equal(status, ROTA_INTERNAL);
    }
    restore(&b);
}

/* Graphs of the fuzzer, compiled for no device or for three, two of which share memory. */
static void judge(uint64_t seeds, uint64_t first_seed, uint32_t nodes, uint32_t each, rota_runtime *runtime,
                  rota_device *const *devices, uint32_t device_count, tally *t) {
    for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
        mirror_case mirror;
        mirror_limits limits = {.nodes = nodes,
                                .bytes = 4096,
                                .granule = 4,
                                .queues = device_count ? 2 : 5,
                                .devices = device_count ? device_count : 1,
                                .host_nodes = true};
        uint64_t random = seed;
        mirror_generate(&mirror, seed, &limits);
        for (uint32_t p = 0; p < mirror.persistent_count; p++)
            assert_ok(runtime ? rota_buffer_create_in(runtime, "p", mirror.persistents[p].bytes,
                                                      &mirror.persistents[p].handle)
                              : rota_buffer_create("p", mirror.persistents[p].bytes,
                                                   &mirror.persistents[p].handle));
        for (uint32_t g = 0; g < mirror.graph_count; g++) {
            assert_ok(mirror_record(&mirror, &mirror.graphs[g], &random));
            assert_ok(
                mirror_compile(&mirror.graphs[g], runtime, devices, device_count)); /* which certifies */
            rota_plan *plan = mirror.graphs[g].plan;
            for (uint32_t i = 0; i < each && plan->stats.commands; i++)
                for (uint32_t kind = 0; kind < DAMAGES; kind++)
                    damage_once(plan, (damage)kind, &random, t, seed);
            /* All is as it was. */
            assert_ok(rota_plan_certify(plan));
        }
        for (uint32_t g = 0; g < mirror.graph_count; g++) mirror_release(&mirror.graphs[g]);
        for (uint32_t p = 0; p < mirror.persistent_count; p++)
            rota_buffer_release(mirror.persistents[p].handle);
        mirror_free(&mirror);
    }
}

static void expect(const tally *t, uint64_t least) {
    uint64_t damaged = 0, harmless = 0;
    for (uint32_t kind = 0; kind < DAMAGES; kind++) {
        print_message("%-8s %llu damaged, %llu of them harmless\n", damage_names[kind],
                      (unsigned long long)t->damaged[kind], (unsigned long long)t->harmless[kind]);
        damaged += t->damaged[kind];
        assert_true(t->damaged[kind] > least / 20);
        harmless += t->harmless[kind];
        assert_true(t->damaged[kind] - t->harmless[kind] > least / 40);
    }
    print_message("%llu falsely accepted, %llu false alarms\n", (unsigned long long)t->accepted,
                  (unsigned long long)t->alarms);
    assert_true(damaged >= least);
    assert_true(harmless > least / 20);
    assert_int_equal(t->accepted, 0);
    assert_int_equal(t->alarms, 0);
}

static void damaged_plans_are_refused(void **state) {
    (void)state;
    tally t = {0};
    judge(850, 1, 90, 3, NULL, NULL, 0, &t);
    expect(&t, 8000);
}

static void damaged_plans_of_devices_are_refused(void **state) {
    (void)state;
    static adversary_options options = {.shares_memory = true};
    rota_runtime *runtime;
    rota_device *devices[3];
    assert_ok(adversary_runtime_open(&options, NULL, &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary:1", &devices[1]));
    assert_ok(rota_device_open(runtime, "cpu", &devices[2]));
    tally t = {0};
    judge(300, 5001, 60, 3, runtime, devices, 3, &t);
    expect(&t, 2000);
    assert_ok(rota_runtime_close(runtime, 10000000000ull));
}

/* ---- Crowds: more uses of a buffer than are looked at one by one ---- */

enum { CROWD = 70, BLOCK = 64 }; /* members, and bytes of each one's own */

typedef enum crowd_shape {
    CROWD_READS,
    CROWD_WRITES_PARTS,
    CROWD_ADDS,
    CROWD_READS_AND_ADDS,
    CROWD_SHAPES
} crowd_shape;

static rota_status nothing(const rota_kernel_call *call) {
    (void)call;
    return ROTA_OK;
}
static const rota_kernel one_operand = {.name = "one", .operand_count = 1, .cpu = {.fn = nothing}};
static const rota_kernel two_operands = {.name = "two", .operand_count = 2, .cpu = {.fn = nothing}};
static const rota_kernel adds = {.name = "adds",
                                 .operand_count = 1,
                                 .flags = ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE,
                                 .cpu = {.fn = nothing}};

static const rota_kernel reads_and_adds = {.name = "reads and adds",
                                           .operand_count = 2,
                                           .inplace_outputs = 2,
                                           .inplace_inputs = 1,
                                           .flags =
                                               ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE,
                                           .cpu = {.fn = nothing}};

static void record(rota_recorder *recorder, const rota_kernel *kernel, const rota_access *accesses) {
    assert_ok(rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses, .access_count = kernel->operand_count),
        NULL));
}

static uint32_t in_thirds(void *user, rota_node node, uint32_t queue_count) {
    (void)user;
    return node.index % queue_count;
}

/* A write of x, then the crowd and another write of x, twice. */
static rota_plan *compile_crowd(crowd_shape shape, uint32_t queues, rota_buffer *x, rota_buffer *y) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    const rota_access writes = {x, 0, ROTA_WHOLE, ROTA_WRITE}, all = {x, 0, ROTA_WHOLE, ROTA_READWRITE};
    record(recorder, &one_operand, &writes);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < CROWD; i++) {
            const rota_access reads[] = {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, i * BLOCK, BLOCK, ROTA_WRITE}},
                              part = {x, i * BLOCK, BLOCK, ROTA_READWRITE},
                              add = {x, 0, ROTA_WHOLE, ROTA_ACCUMULATE},
                              both[] = {{x, 0, ROTA_WHOLE, ROTA_READ}, add};
            static const rota_kernel *const kernels[] = {&two_operands, &one_operand, &adds, &reads_and_adds};
            const rota_access *const accesses[] = {reads, &part, &add, both};
            record(recorder, kernels[shape], accesses[shape]);
        }
        record(recorder, &one_operand, &all);
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(NULL, graph,
                           &ROTA_COMPILE_OPTIONS(.certify = true, .queues = queues,
                                                 .queue_policy = queues > 1 ? in_thirds : NULL),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

/* Whether the certificate says what true reachability does; puts the plan back. */
static void judge_damage(rota_plan *plan, backup *b, const char *what, uint32_t *refused) {
    char message[384];
    const bool harmless = is_harmless(plan, message, sizeof message);
    const rota_status status = rota_plan_certify(plan);
    if (harmless != (status == ROTA_OK))
        fail_msg("%s: %s, but %s", what, harmless ? "harmless" : message,
                 harmless ? rota_last_error() : "accepted");
    *refused += !harmless;
    restore(b);
}

/* Each edge, barrier and wait of such a plan is taken away, one after the other. */
static void crowds_are_looked_at(void **state) {
    (void)state;
    rota_buffer *x, *y;
    assert_ok(rota_buffer_create("x", CROWD * BLOCK, &x));
    assert_ok(rota_buffer_create("y", CROWD * BLOCK, &y));
    for (uint32_t shape = 0; shape < CROWD_SHAPES; shape++)
        for (uint32_t queues = 1; queues <= 3; queues += 2) {
            rota_plan *plan = compile_crowd((crowd_shape)shape, queues, x, y);
            const rota_exec_program_desc *d = &plan->partitions[0].desc;
            const uint32_t nodes = d->command_count + d->join_count;
            uint32_t edges = 0, barriers = 0, waits = 0;
            backup b = {.count = 0};
            for (uint32_t from = 0; from < nodes; from++)
                for (uint32_t e = d->first_successor[from]; e < d->first_successor[from + 1]; e++) {
                    save_plan(&b, plan);
                    ((uint32_t *)WRITABLE(d->predecessor_count))[d->successor[e]]--;
                    remove_edge(d, from, e);
                    judge_damage(plan, &b, "an edge", &edges);
                }
            for (uint32_t k = 0; k < d->segment_count; k++)
                for (uint32_t i = 0; i + 1 < d->segments[k].batch_count; i++) {
                    save_plan(&b, plan);
                    join_batches(d, (rota_exec_segment *)WRITABLE(d->segments) + k, i);
                    judge_damage(plan, &b, "a barrier", &barriers);
                }
            for (uint32_t k = 0; k < plan->segment_count; k++)
                for (uint32_t i = 0; i < plan->segments[k].wait_count; i++) {
                    save_plan(&b, plan);
                    uint32_t *of = &plan->segment_waits[plan->segments[k].first_wait];
                    of[i] = of[--plan->segments[k].wait_count];
                    judge_damage(plan, &b, "a wait", &waits);
                }
            assert_true(queues > 1 ? waits > 0 : edges >= CROWD && barriers > 0);
            rota_plan_release(plan);
        }
    rota_buffer_release(x);
    rota_buffer_release(y);
}

/* A segment that says it has more externals than the plan, or has them behind the plan's. */
static void externals_are_within_the_plans(void **state) {
    (void)state;
    rota_buffer *x, *y;
    assert_ok(rota_buffer_create("x", CROWD * BLOCK, &x));
    assert_ok(rota_buffer_create("y", CROWD * BLOCK, &y));
    rota_plan *plan = compile_crowd((crowd_shape)0, 1, x, y);
    rota_plan_segment *segment = &plan->segments[0];
    const rota_plan_segment good = *segment;
    assert_true(plan->external_count > 0);
    for (uint32_t behind = 0; behind < 2; behind++) {
        segment->first_external = behind ? plan->external_count + 1 : 0;
        segment->external_count = behind ? 0 : plan->external_count + 1;
        assert_true(rota_plan_certify(plan) != ROTA_OK);
        assert_non_null(strstr(rota_last_error(), "segment 0 has externals beyond the plan's"));
        *segment = good;
        assert_ok(rota_plan_certify(plan));
    }
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
}

enum { WORDS = 1024 };

/* c[i] = a[i] + b[n - 1 - i] */
static rota_status add_reversed(const rota_kernel_call *call) {
    const uint32_t *a = call->operands[0], *b = call->operands[1];
    uint32_t *c = call->operands[2];
    for (uint32_t i = 0; i < WORDS; i++) c[i] = a[i] + b[WORDS - 1 - i];
    return ROTA_OK;
}

/* A kernel works in place on its first operand only. Where its second is the same buffer, and both end there,
 * the result is not put over them. */
static void what_is_read_twice_is_not_overwritten(void **state) {
    (void)state;
    static const rota_kernel reversed = {.name = "reversed",
                                         .operand_count = 3,
                                         .inplace_outputs = 4,
                                         .inplace_inputs = 1,
                                         .cpu = {.fn = add_reversed}};
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    static uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = i;
    for (uint32_t certify = 0; certify < 2; certify++) {
        rota_buffer *in, *out, *x, *y;
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        assert_ok(rota_buffer_create_in(runtime, "in", sizeof words, &in));
        assert_ok(rota_buffer_create_in(runtime, "out", sizeof words, &out));
        assert_ok(rota_buffer_write(in, device, 0, words, sizeof words, NULL));
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "x", sizeof words, &x));
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "y", sizeof words, &y));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_record_copy(recorder, x, 0, in, 0, ROTA_WHOLE, NULL));
        rota_access accesses[] = {
            {x, 0, ROTA_WHOLE, ROTA_READ}, {x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}};
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &reversed, .accesses = accesses, .access_count = 3), NULL));
        assert_ok(rota_record_copy(recorder, out, 0, y, 0, ROTA_WHOLE, NULL));
        rota_recorder_close(recorder);
        assert_ok(rota_compile(
            runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = certify),
            &plan));
        assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        static uint32_t got[WORDS];
        assert_ok(rota_buffer_read(out, 0, got, sizeof got));
        for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(got[i], WORDS - 1);
        rota_plan_release(plan);
        rota_graph_release(graph);
        rota_buffer_release(in);
        rota_buffer_release(out);
    }
    assert_ok(rota_runtime_close(runtime, 10000000000ull));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_plans_are_refused),
        cmocka_unit_test(damaged_plans_of_devices_are_refused),
        cmocka_unit_test(crowds_are_looked_at),
        cmocka_unit_test(externals_are_within_the_plans),
        cmocka_unit_test(what_is_read_twice_is_not_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
