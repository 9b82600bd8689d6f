/* What replays teach of costs: means by key, kept in a file that is believed only where it is whole, and a placement
 * that changes by what was learned, but where it is to be by the table alone. */
#include "tests/kit/runtime_support.h"

#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/file.h"
#include "sched/plan/operations.h"
#include "sched/plan/placing_history.h"
#include "sched/plan/placing_learn.h"
#include "sched/runtime/plans/learn.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

enum { WORDS = 64, BYTES = 4 * WORDS, NODES = 8, COMMANDS_MAX = 100 };

static char folder[] = "/tmp/rota-history-XXXXXX";

/* Of the folder's files the last one's path. */
static void find_file(char *out_path, size_t capacity) {
    DIR *list = opendir(folder);
    out_path[0] = 0;
    for (const struct dirent *it; list && (it = readdir(list));)
        if (it->d_name[0] != '.') snprintf(out_path, capacity, "%s/%s", folder, it->d_name);
    if (list) closedir(list);
}

static void remove_files(void) {
    char path[512];
    for (find_file(path, sizeof path); path[0]; find_file(path, sizeof path))
        assert_int_equal(unlink(path), 0);
}

static void means_are_kept(void **state) {
    (void)state;
    double ns = 0;
    rota_history *history = rota_history_open(folder, "a device");
    assert_non_null(history);
    assert_ptr_equal(rota_history_open(folder, "a device"), history);
    assert_ptr_not_equal(rota_history_open(folder, "another"), history);
    assert_ptr_not_equal(rota_history_open(NULL, "a device"), history);
    assert_false(rota_history_has_any(history));
    assert_false(rota_history_find(history, 7, &ns));
    rota_history_add(history, 7, 100);
    rota_history_add(history, 7, 300);
    rota_history_add(history, 0, 1);  /* no key */
    rota_history_add(history, 8, -1); /* no time */
    assert_true(rota_history_find(history, 7, &ns) && ns > 199 && ns < 201);
    assert_false(rota_history_find(history, 8, &ns));
    for (uint64_t key = 1000; key < 6000; key++)
        rota_history_add(history, key * 0x9e3779b97f4a7c15u, (double)key);
    rota_history_save(history);
    rota_history_forget();
    history = rota_history_open(folder, "a device");
    assert_true(rota_history_find(history, 7, &ns) && ns > 199 && ns < 201);
    for (uint64_t key = 1000; key < 6000; key++)
        assert_true(rota_history_find(history, key * 0x9e3779b97f4a7c15u, &ns) && ns == (double)key);
    assert_false(rota_history_has_any(rota_history_open(folder, "another")));
    /* What is measured later replaces what was long ago. */
    for (uint32_t i = 0; i < 500; i++) rota_history_add(history, 7, 1000);
    assert_true(rota_history_find(history, 7, &ns) && ns > 990);
}

static void damaged_files_count_as_none(void **state) {
    (void)state;
    char path[512];
    static uint8_t whole[4096], changed[4096];
    remove_files();
    rota_history_forget();
    rota_history *history = rota_history_open(folder, "a device");
    for (uint64_t key = 2; key < 20; key++) rota_history_add(history, key << 20, (double)key);
    rota_history_keep(history, 5, "eleven byte", 11);
    rota_history_save(history);
    find_file(path, sizeof path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    for (size_t byte = 0; byte <= size; byte++) {
        memcpy(changed, whole, size);
        size_t bytes = size;
        if (byte == size)
            bytes = size - 5;
        else
            changed[byte] ^= 0x41;
        assert_int_equal(rota_cache_write(path, changed, bytes, "", 0), 0);
        rota_history_forget();
        assert_false(rota_history_has_any(rota_history_open(folder, "a device")));
    }
    assert_int_equal(rota_cache_write(path, whole, size, "", 0), 0);
    rota_history_forget();
    assert_true(rota_history_has_any(rota_history_open(folder, "a device")));
    assert_int_equal(rota_history_kept(rota_history_open(folder, "a device"), 5, changed, 100), 11);
    assert_memory_equal(changed, "eleven byte", 11);
}

/* What is kept beside the means: the latest under a key, and of all the latest. */
static void bytes_are_kept(void **state) {
    (void)state;
    static uint8_t data[ROTA_HISTORY_KEPT_MAX + 1], got[ROTA_HISTORY_KEPT_MAX + 1];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7 + i / 256);
    remove_files();
    rota_history_forget();
    rota_history *history = rota_history_open(folder, "a device");
    assert_int_equal(rota_history_kept(history, 1, got, sizeof got), 0);
    for (uint64_t key = 1; key <= 300; key++) rota_history_keep(history, key, data, (size_t)key);
    rota_history_keep(history, 7, data + 1, 1000);
    rota_history_keep(history, 8, data, 0);           /* nothing */
    rota_history_keep(history, 9, data, sizeof data); /* too much: not the one before, either */
    rota_history_add(history, 1000, 3);
    rota_history_save(history);
    rota_history_forget();
    history = rota_history_open(folder, "a device");
    for (uint64_t key = 1; key <= 300; key++) {
        const size_t bytes = key == 7 ? 1000 : key == 9 ? 0 : (size_t)key;
        assert_int_equal(rota_history_kept(history, key, got, sizeof got), bytes);
        assert_memory_equal(got, data + (key == 7), bytes);
    }
    memset(got, 0, 8);
    assert_int_equal(rota_history_kept(history, 300, got, 4), 300);
    assert_true(memcmp(got, data, 4) == 0 && got[4] == 0);
    /* Four of the largest leave no room for what is older. */
    for (uint64_t key = 1; key <= 4; key++) rota_history_keep(history, key, data, ROTA_HISTORY_KEPT_MAX - 64);
    assert_int_equal(rota_history_kept(history, 300, got, 0), 0);
    for (uint64_t key = 1; key <= 4; key++)
        assert_int_equal(rota_history_kept(history, key, got, 0), ROTA_HISTORY_KEPT_MAX - 64);
    for (uint64_t key = 1; key <= 5000; key++) rota_history_keep(history, key, data, 8);
    assert_int_equal(rota_history_kept(history, 3000, got, 0), 0);
    assert_int_equal(rota_history_kept(history, 5000, got, 0), 8);
}

/* Of times that something disturbed: close to the least, and to what they become. */
static void noted_times_are_close_to_the_least(void **state) {
    (void)state;
    double ns = 0;
    remove_files();
    rota_history_forget();
    rota_history *history = rota_history_open(NULL, "a device");
    rota_history_note(history, 7, 900, false);
    for (uint32_t i = 0; i < 20; i++) rota_history_note(history, 7, i % 5 == 0 ? 200 : 100, false);
    assert_true(rota_history_find(history, 7, &ns) && ns >= 100 && ns < 125);
    for (uint32_t i = 0; i < 40; i++) rota_history_note(history, 7, 1000, false);
    assert_true(rota_history_find(history, 7, &ns) && ns > 950);
    rota_history_note(history, 7, 600, true);
    assert_true(rota_history_find(history, 7, &ns) && ns == 600);
}

/* ---- From replays ---- */

/* Takes 2 ms, of which its kernel says nothing. */
static rota_status slow_fn(const rota_kernel_call *call) {
    const struct timespec a_while = {0, 2000000};
    nanosleep(&a_while, NULL);
    *(uint32_t *)call->operands[1] = *(const uint32_t *)call->operands[0] + 1;
    return ROTA_OK;
}
static const rota_kernel slow = {.name = "slow", .operand_count = 2, .cpu = {.fn = slow_fn}};

static uint32_t on_the_other(rota_runtime *runtime, rota_graph *graph, rota_device *const devices[2],
                             bool by_table) {
    static rota_plan_command commands[COMMANDS_MAX];
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan *plan;
    assert_ok(rota_compile(runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2, .place_auto = true,
                                                 .place_by_table = by_table, .certify = true),
                           &plan));
    assert_ok(rota_plan_get_stats(plan, &stats));
    commands[0].struct_size = sizeof *commands;
    assert_ok(rota_plan_get_commands(plan, commands, COMMANDS_MAX));
    uint32_t count = 0;
    for (uint64_t i = 0; i < stats.commands; i++)
        count += commands[i].kind == ROTA_PLAN_KERNEL && commands[i].device == devices[1];
    rota_plan_release(plan);
    return count;
}

static rota_graph *chain_of(rota_buffer *first) {
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < NODES; i++) {
        rota_buffer *next;
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "next", BYTES, &next));
        const rota_access accesses[] = {{first, 0, ROTA_WHOLE, ROTA_READ}, {next, 0, 4, ROTA_READWRITE}};
        assert_ok(rota_record_fill(recorder, next, 0, BYTES, 0, NULL));
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &slow, .accesses = accesses, .access_count = 2), NULL));
        first = next;
    }
    rota_recorder_close(recorder);
    return graph;
}

static void replays_teach(void **state) {
    (void)state;
    remove_files();
    rota_history_forget();
    for (uint32_t round = 0; round < 2; round++) {
        adversary_options options = {.seed = 3};
        rota_runtime *runtime;
        rota_device *devices[2];
        rota_plan *plan;
        rota_ticket ticket;
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.diagnostics = round == 0, .cache_dir = folder),
                                    &runtime));
        assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &options));
        assert_ok(rota_device_open(runtime, "cpu", &devices[0]));
        assert_ok(rota_device_open(runtime, "adversary", &devices[1]));
        rota_buffer *first = test_words(devices[0], "first", WORDS, 1);
        rota_graph *graph = chain_of(first);
        if (round == 0) {
            assert_int_equal(on_the_other(runtime, graph, devices, false), 0);
            assert_ok(rota_compile(runtime, graph,
                                   &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 1), &plan));
            assert_status(rota_plan_learn(plan), ROTA_WRONG_STATE);
            expect_said("completed no replay");
            assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
            assert_ok(rota_wait(ticket, 0));
            assert_ok(rota_plan_learn(plan));
            rota_plan_release(plan);
        } else {
            rota_history_forget(); /* what comes now was in the file */
        }
        /* The CPU was slow; of the other device nothing is known but the table. */
        assert_int_equal(on_the_other(runtime, graph, devices, false), NODES);
        assert_int_equal(on_the_other(runtime, graph, devices, true), 0);
        if (round == 1) {
            assert_ok(rota_compile(runtime, graph,
                                   &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 1), &plan));
            assert_status(rota_plan_learn(plan), ROTA_WRONG_STATE);
            expect_said("diagnostics");
            rota_plan_release(plan);
        }
        rota_graph_release(graph);
        rota_buffer_release(first);
        assert_ok(rota_runtime_close(runtime, 0));
    }
}

/* Keeps what the policy is told of a copy from the first device to the second. */
typedef struct told {
    double latency_ns, byte_ns;
} told;
static rota_status note_copies(void *user, const rota_placing *placing, uint8_t *out_devices) {
    told *t = user;
    *t = (told){placing->latency_ns[1], placing->byte_ns[1]};
    for (uint32_t n = 0; n < placing->node_count; n++) out_devices[n] = (uint8_t)(n / 2 % 2);
    return ROTA_OK;
}

static rota_status large_fn(const rota_kernel_call *call) {
    memcpy(call->operands[1], call->operands[0], (size_t)call->operand_bytes[0]);
    return ROTA_OK;
}
static const rota_kernel large = {.name = "large", .operand_count = 2, .cpu = {.fn = large_fn}};

static void copies_teach(void **state) {
    (void)state;
    enum { LARGE = 1 << 20, COPIES = 6 };
    remove_files();
    rota_history_forget();
    adversary_options options = {.seed = 3};
    rota_runtime *runtime;
    rota_device *devices[2];
    rota_plan *plan;
    rota_ticket ticket;
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.diagnostics = true, .cache_dir = folder), &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &options));
    assert_ok(rota_device_open(runtime, "cpu", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary", &devices[1]));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_buffer *from;
    assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "from", LARGE, &from));
    assert_ok(rota_record_fill(recorder, from, 0, LARGE, 0, NULL));
    for (uint32_t i = 0; i < COPIES; i++) {
        rota_buffer *to;
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "to", LARGE, &to));
        const rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &large, .accesses = accesses, .access_count = 2), NULL));
        from = to;
    }
    rota_recorder_close(recorder);
    told before = {0}, after = {0};
    for (uint32_t round = 0; round < 2; round++) {
        assert_ok(rota_compile(runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2,
                                                     .place_auto = true, .placer = note_copies,
                                                     .placer_user = round ? &after : &before),
                               &plan));
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        assert_ok(rota_plan_learn(plan));
        rota_plan_release(plan);
    }
    assert_true(before.byte_ns > 0 && after.byte_ns > 0 && after.latency_ns > 0);
    assert_true(before.byte_ns != after.byte_ns && before.latency_ns != after.latency_ns);
    rota_graph_release(graph);
    assert_ok(rota_runtime_close(runtime, 0));
}

static double much_work(const void *params, const uint64_t *operand_bytes) {
    (void)params, (void)operand_bytes;
    return 1e9;
}
static const rota_kernel boaster = {
    .name = "boaster", .operand_count = 2, .work = much_work, .cpu = {.fn = large_fn}};

/* The model has two devices be faster; replays were not. */
static void measured_replays_overrule_the_model(void **state) {
    (void)state;
    remove_files();
    rota_history_forget();
    adversary_options options = {.seed = 3};
    rota_runtime *runtime;
    rota_device *devices[2];
    rota_plan *plan;
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.cache_dir = folder), &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &options));
    assert_ok(rota_device_open(runtime, "cpu", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary", &devices[1]));
    rota_buffer *first = test_words(devices[0], "first", WORDS, 1);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < NODES; i++) {
        rota_buffer *next;
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "next", BYTES, &next));
        const rota_access accesses[] = {{first, 0, ROTA_WHOLE, ROTA_READ}, {next, 0, ROTA_WHOLE, ROTA_WRITE}};
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &boaster, .accesses = accesses, .access_count = 2), NULL));
    }
    rota_recorder_close(recorder);
    assert_true(on_the_other(runtime, graph, devices, false) > 0);
    assert_ok(rota_compile(runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2, .place_auto = true),
                           &plan));
    assert_true(rota_plan_info(plan)->placing.key != 0);
    rota_history *history = rota_device_history(devices[0]);
    rota_history_add(history, rota_plan_info(plan)->placing.key, 2e6);
    assert_true(on_the_other(runtime, graph, devices, false) > 0); /* of one device nothing is known */
    rota_history_add(history, rota_placing_graph_key(plan), 1e6);
    assert_int_equal(on_the_other(runtime, graph, devices, false), 0);
    assert_true(on_the_other(runtime, graph, devices, true) > 0);
    for (uint32_t i = 0; i < 64; i++) rota_history_add(history, rota_plan_info(plan)->placing.key, 1e5);
    assert_true(on_the_other(runtime, graph, devices, false) > 0);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(first);
    assert_ok(rota_runtime_close(runtime, 0));
}

/* ---- Which graph it is ---- */

typedef struct variant {
    const char *host;
    uint32_t pattern, iterations, crossed;
} variant;

static rota_status do_nothing(void *user, void *const *operands, const uint64_t *operand_bytes,
                              uint32_t operand_count) {
    (void)user, (void)operands, (void)operand_bytes, (void)operand_count;
    return ROTA_OK;
}

/* A host node, a loop whose body fills a buffer, and a copy from one of two alike to the third. */
static uint64_t key_of_variant(rota_runtime *runtime, rota_device *device, const variant *v) {
    rota_graph *graph, *body;
    rota_recorder *recorder, *inner;
    rota_buffer *buffers[3];
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "words", BYTES, &buffers[i]));
        assert_ok(rota_record_fill(recorder, buffers[i], 0, BYTES, 1, NULL));
    }
    const rota_access access = {buffers[0], 0, ROTA_WHOLE, ROTA_READ};
    assert_ok(rota_record_host(
        recorder, &ROTA_HOST_NODE(.name = v->host, .fn = do_nothing, .accesses = &access, .access_count = 1),
        NULL));
    assert_ok(rota_graph_create_body(graph, "body", &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &inner));
    assert_ok(rota_record_fill(inner, buffers[1], 0, BYTES, v->pattern, NULL));
    rota_recorder_close(inner);
    assert_ok(rota_record_for(
        recorder, &ROTA_FOR_NODE(.count = buffers[0], .body = body, .iterations_max = v->iterations), NULL));
    assert_ok(rota_record_copy(recorder, buffers[2], 0, buffers[v->crossed], 0, BYTES, NULL));
    rota_recorder_close(recorder);
    assert_ok(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    const uint64_t key = rota_placing_graph_key(plan);
    rota_plan_release(plan);
    rota_graph_release(graph);
    return key;
}

static void graphs_that_differ_have_times_of_their_own(void **state) {
    (void)state;
    static const variant variants[] = {
        {"a", 7, 3, 0}, {"b", 7, 3, 0}, {"a", 8, 3, 0}, {"a", 7, 4, 0}, {"a", 7, 3, 1}};
    uint64_t keys[5];
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.cache_dir = folder), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    for (uint32_t i = 0; i < 5; i++) {
        keys[i] = key_of_variant(runtime, device, &variants[i]);
        assert_true(key_of_variant(runtime, device, &variants[i]) == keys[i]);
        for (uint32_t k = 0; k < i; k++)
            if (keys[k] == keys[i]) fail_msg("variants %u and %u are one graph", k, i);
    }
    assert_ok(rota_runtime_close(runtime, 0));
}

/* What waited for another replay took longer by that, which is no cost of its placement. */
static void only_a_replay_alone_teaches_its_time(void **state) {
    (void)state;
    remove_files();
    rota_history_forget();
    rota_runtime *runtime;
    rota_device *device;
    rota_plan *plan;
    rota_ticket tickets[3];
    double ns;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.diagnostics = true, .cache_dir = folder), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *first = test_words(device, "first", WORDS, 1);
    rota_graph *graph = chain_of(first);
    assert_ok(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    for (uint32_t i = 0; i < 3; i++) assert_ok(rota_submit_wait(plan, NULL, 0, &tickets[i]));
    for (uint32_t i = 0; i < 3; i++) assert_ok(rota_wait(tickets[i], 0));
    assert_ok(rota_plan_learn(plan));
    rota_history *history = rota_device_history(device);
    assert_true(rota_history_has_any(history)); /* of its nodes */
    assert_false(rota_history_find(history, rota_placing_graph_key(plan), &ns));
    assert_ok(rota_submit_wait(plan, NULL, 0, &tickets[0]));
    assert_ok(rota_wait(tickets[0], 0));
    assert_ok(rota_plan_learn(plan));
    assert_true(rota_history_find(history, rota_placing_graph_key(plan), &ns) && ns >= NODES * 2e6);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(first);
    assert_ok(rota_runtime_close(runtime, 0));
}

static _Atomic uint32_t may_end;
static rota_status held_fn(const rota_kernel_call *call) {
    (void)call;
    while (!atomic_load(&may_end)) (void)sched_yield();
    return ROTA_OK;
}
static const rota_kernel held = {.name = "held", .operand_count = 1, .cpu = {.fn = held_fn}};

static rota_graph *graph_of_held(rota_buffer *buffer) {
    rota_graph *graph;
    rota_recorder *recorder;
    const rota_access access = {buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &held, .accesses = &access, .access_count = 1), NULL));
    rota_recorder_close(recorder);
    return graph;
}

/* A longer replay of another plan began before it, and ends after it. */
static void a_replay_within_another_does_not_teach_its_time(void **state) {
    (void)state;
    remove_files();
    rota_history_forget();
    rota_runtime *runtime;
    rota_device *device, *second;
    rota_plan *plan, *longer;
    adversary_options adversary = {.seed = 3};
    rota_ticket within, around;
    double ns;
    atomic_store(&may_end, 0);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.diagnostics = true, .cache_dir = folder), &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &adversary));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    assert_ok(rota_device_open(runtime, "adversary", &second));
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1);
    rota_buffer *first = test_words(device, "first", WORDS, 1),
                *other = test_words(second, "other", WORDS, 1);
    rota_graph *graph = chain_of(first), *held_graph = graph_of_held(other);
    assert_ok(rota_compile(runtime, graph, &options, &plan));
    options.devices = &second;
    assert_ok(rota_compile(runtime, held_graph, &options, &longer));
    assert_ok(rota_submit_wait(longer, NULL, 0, &around));
    assert_ok(rota_submit_wait(plan, NULL, 0, &within));
    assert_ok(rota_wait(within, 0));
    assert_ok(rota_plan_learn(plan));
    rota_history *history = rota_device_history(device);
    assert_false(rota_history_find(history, rota_placing_graph_key(plan), &ns));
    atomic_store(&may_end, 1);
    assert_ok(rota_wait(around, 0));
    assert_ok(rota_submit_wait(plan, NULL, 0, &within));
    assert_ok(rota_wait(within, 0));
    assert_ok(rota_plan_learn(plan));
    assert_true(rota_history_find(history, rota_placing_graph_key(plan), &ns));
    rota_plan_release(longer);
    rota_plan_release(plan);
    rota_graph_release(held_graph);
    rota_graph_release(graph);
    rota_buffer_release(other);
    rota_buffer_release(first);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(adversary.violations, 0);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_kept),
        cmocka_unit_test(damaged_files_count_as_none),
        cmocka_unit_test(bytes_are_kept),
        cmocka_unit_test(noted_times_are_close_to_the_least),
        cmocka_unit_test(replays_teach),
        cmocka_unit_test(copies_teach),
        cmocka_unit_test(measured_replays_overrule_the_model),
        cmocka_unit_test(graphs_that_differ_have_times_of_their_own),
        cmocka_unit_test(only_a_replay_alone_teaches_its_time),
        cmocka_unit_test(a_replay_within_another_does_not_teach_its_time),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_files();
    (void)rmdir(folder);
    rota_history_forget();
    return failed;
}
