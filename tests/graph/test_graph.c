/* graph: what recording accepts, and what it refuses with which words. */
#include "tests/kit/support.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "graph/graph_internal.h"
#include "sched/plan/compiled.h"

static const rota_kernel_bindable step_bindables[] = {{"scale", 0, 4, false, ROTA_VALUE_F32},
                                                      {"seed", 4, 4, true, ROTA_VALUE_U32}};
static const rota_kernel plain = {.name = "plain", .operand_count = 2};
static const rota_kernel in_place = {
    .name = "in_place", .operand_count = 3, .inplace_outputs = 1u << 2, .inplace_inputs = 3};
static const rota_kernel stepped = {.name = "stepped",
                                    .operand_count = 1,
                                    .param_bytes = 8,
                                    .bindables = step_bindables,
                                    .bindable_count = 2};

typedef struct fixture {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *a, *b;
} fixture;

static void set_up(fixture *f) {
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "g"), &f->graph));
    assert_ok(rota_recorder_open(f->graph, 1, "main", &f->recorder));
    assert_ok(rota_graph_buffer(f->graph, ROTA_BUFFER_TRANSIENT, "a", 1024, &f->a));
    assert_ok(rota_graph_buffer(f->graph, ROTA_BUFFER_TRANSIENT, "b", 1024, &f->b));
}

static void tear_down(fixture *f) {
    rota_recorder_close(f->recorder);
    rota_graph_release(f->graph);
}

static rota_status record(fixture *f, const rota_kernel *kernel, const rota_access *accesses,
                          uint32_t count) {
    return rota_record_kernel(
        f->recorder, &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses, .access_count = count), NULL);
}

static void expect_words(const char *a, const char *b, const char *c) {
    if (!strstr(rota_last_error(), a) || !strstr(rota_last_error(), b) || !strstr(rota_last_error(), c))
        fail_msg("\"%s\" lacks one of \"%s\", \"%s\", \"%s\"", rota_last_error(), a, b, c);
}

static void accesses_are_checked(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_access good[] = {{f.a, 0, 512, ROTA_READ}, {f.b, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(record(&f, &plain, good, 2));
    assert_status(record(&f, &plain, good, 1), ROTA_INVALID_ARGUMENT);
    expect_words("plain", "main", "2 operands");
    rota_access outside[] = {{f.a, 1000, 512, ROTA_READ}, {f.b, 0, 4, ROTA_WRITE}};
    assert_status(record(&f, &plain, outside, 2), ROTA_OUT_OF_RANGE);
    expect_words("'a'", "1000", "1024");
    rota_access wraps[] = {{f.a, 8, UINT64_MAX - 4, ROTA_READ}, {f.b, 0, 4, ROTA_WRITE}};
    assert_status(record(&f, &plain, wraps, 2), ROTA_OUT_OF_RANGE);
    rota_access odd[] = {{f.a, 2, 4, ROTA_READ}, {f.b, 0, 4, ROTA_WRITE}};
    assert_status(record(&f, &plain, odd, 2), ROTA_MISALIGNED);
    expect_words("'a'", "byte 2", "multiple of 4");
    rota_access none[] = {{NULL, 0, 4, ROTA_READ}, {f.b, 0, 4, ROTA_WRITE}};
    assert_status(record(&f, &plain, none, 2), ROTA_INVALID_ARGUMENT);
    rota_buffer *input;
    assert_ok(rota_graph_buffer(f.graph, ROTA_BUFFER_INPUT, "x", 64, &input));
    rota_access into_input[] = {{f.a, 0, 4, ROTA_READ}, {input, 0, 4, ROTA_WRITE}};
    assert_status(record(&f, &plain, into_input, 2), ROTA_INVALID_ARGUMENT);
    expect_words("INPUT", "'x'", "WRITE");
    rota_graph *other;
    rota_buffer *foreign;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "other"), &other));
    assert_ok(rota_graph_buffer(other, ROTA_BUFFER_TRANSIENT, "f", 64, &foreign));
    rota_access of_other[] = {{foreign, 0, 4, ROTA_READ}, {f.b, 0, 4, ROTA_WRITE}};
    assert_status(record(&f, &plain, of_other, 2), ROTA_INVALID_ARGUMENT);
    expect_words("'f'", "other", "'g'");
    rota_graph_release(other);
    rota_recorder_close(f.recorder);
    assert_int_equal(rota_graph_node_count(f.graph), 1);
    tear_down(&f);
}

/* What fits neither where a node keeps it nor where a plan does. */
static void placements_are_checked(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    const rota_access good[] = {{f.a, 0, 512, ROTA_READ}, {f.b, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &plain, .accesses = good, .access_count = 2);
    node.placement = (rota_placement){.device_plus_1 = UINT8_MAX, .queue_plus_1 = UINT16_MAX};
    assert_ok(rota_record_kernel(f.recorder, &node, NULL));
    node.placement = (rota_placement){.device_plus_1 = UINT8_MAX + 1, .queue_plus_1 = 1};
    assert_status(rota_record_kernel(f.recorder, &node, NULL), ROTA_INVALID_ARGUMENT);
    expect_words("device 255, queue 0;", "below 255", "and 65535");
    node.placement = (rota_placement){.device_plus_1 = 1, .queue_plus_1 = UINT16_MAX + 1};
    assert_status(rota_record_kernel(f.recorder, &node, NULL), ROTA_INVALID_ARGUMENT);
    expect_words("device 0, queue 65535;", "below 255", "and 65535");
    tear_down(&f);
}

/* As many operands as a kernel may have are not what is wrong with a node. */
static void the_reason_is_the_right_one(void **state) {
    (void)state;
    static const rota_kernel widest = {
        .name = "widest", .operand_count = ROTA_KERNEL_OPERANDS_MAX, .param_bytes = 8};
    fixture f;
    set_up(&f);
    rota_access reads[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < ROTA_KERNEL_OPERANDS_MAX; i++) reads[i] = (rota_access){f.a, 0, 4, ROTA_READ};
    assert_status(record(&f, &widest, reads, ROTA_KERNEL_OPERANDS_MAX), ROTA_INVALID_ARGUMENT);
    expect_words("no parameters", "'widest'", "8 bytes");
    tear_down(&f);
}

/* A graph whose name finds no memory leaves nothing behind. */
static void no_memory_for_a_name(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own memory would be refused */
#else
    enum { NAME_BYTES = 128 << 20, ROUNDS = 16 };
    char *name = malloc(NAME_BYTES);
    struct rlimit limit, least;
    assert_non_null(name);
    memset(name, 'n', NAME_BYTES - 1);
    name[NAME_BYTES - 1] = 0;
    free(malloc(64 << 10)); /* for what is small */
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    least = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    size_t before = 0, after = 0;
    uint32_t refused = 0;
    assert_int_equal(setrlimit(RLIMIT_AS, &least), 0);
    void *beyond = malloc(NAME_BYTES);
    const bool is_kept = beyond == NULL;
    free(beyond);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        rota_graph *graph = NULL;
        refused +=
            rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &graph) == ROTA_OUT_OF_MEMORY && !graph;
        after = mallinfo2().uordblks;
        if (round == 0) before = after;
    }
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    free(name);
    if (!is_kept) {
        print_message("skipped: RLIMIT_AS is not kept here (by qemu-user 7.2, for one)\n");
        skip();
    }
    assert_int_equal(refused, ROUNDS);
    assert_true(after <= before + 512);
#endif
}

static void overlaps_need_the_kernels_leave(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_access same[] = {{f.a, 0, 64, ROTA_READ}, {f.b, 0, 64, ROTA_READ}, {f.a, 0, 64, ROTA_WRITE}};
    assert_ok(record(&f, &in_place, same, 3));
    rota_access partial[] = {{f.a, 0, 64, ROTA_READ}, {f.b, 0, 64, ROTA_READ}, {f.a, 32, 64, ROTA_WRITE}};
    assert_status(record(&f, &in_place, partial, 3), ROTA_OVERLAP);
    expect_words("'a'", "in part", "in_place");
    rota_access refused[] = {{f.a, 0, 64, ROTA_READ}, {f.a, 0, 64, ROTA_WRITE}};
    assert_status(record(&f, &plain, refused, 2), ROTA_OVERLAP);
    rota_access both_read[] = {{f.a, 0, 64, ROTA_READ}, {f.a, 32, 64, ROTA_READ}};
    assert_ok(record(&f, &plain, both_read, 2));
    /* Views of one buffer are that buffer. */
    rota_buffer *view;
    assert_ok(rota_buffer_create_view(f.a, 32, 64, &view));
    rota_access by_view[] = {{view, 0, 32, ROTA_READ}, {f.a, 0, 64, ROTA_WRITE}};
    assert_status(record(&f, &plain, by_view, 2), ROTA_OVERLAP);
    rota_buffer_release(view);
    assert_status(rota_record_copy(f.recorder, f.a, 0, f.a, 32, 64, NULL), ROTA_OVERLAP);
    assert_ok(rota_record_copy(f.recorder, f.a, 0, f.a, 64, 64, NULL));
    tear_down(&f);
}

/* As many as there can be, each known by its name. */
static void slots_have_names_of_their_own(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    for (uint32_t i = 0; i < ROTA_GRAPH_SLOTS_MAX; i++) {
        char name[16];
        rota_slot slot, again;
        snprintf(name, sizeof name, "slot %u", i);
        assert_ok(rota_graph_slot(f.graph, name, i % 2 ? 4 : 8, &slot));
        assert_int_equal(slot.index, i + 1);
        assert_status(rota_graph_slot(f.graph, name, 4, &again), ROTA_ALREADY_EXISTS);
    }
    rota_slot slot;
    assert_status(rota_graph_slot(f.graph, "slot 0", 8, &slot), ROTA_ALREADY_EXISTS);
    assert_status(rota_graph_slot(f.graph, "one too many", 4, &slot), ROTA_OUT_OF_RANGE);
    tear_down(&f);
}

static void step_varying_parameters_need_a_slot_or_a_word(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_access access = {f.a, 0, 64, ROTA_WRITE};
    uint32_t params[2] = {1, 2};
    rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &stepped, .accesses = &access, .access_count = 1, .params = params);
    assert_status(rota_record_kernel(f.recorder, &node, NULL), ROTA_INVALID_ARGUMENT);
    expect_words("'seed'", "plain value", "ROTA_CONSTANT");
    rota_param_binding constant = {1, ROTA_SLOT_CONSTANT};
    node.bindings = &constant;
    node.binding_count = 1;
    assert_ok(rota_record_kernel(f.recorder, &node, NULL));
    rota_slot wide, narrow;
    assert_ok(rota_graph_slot(f.graph, "wide", 8, &wide));
    assert_ok(rota_graph_slot(f.graph, "narrow", 4, &narrow));
    assert_status(rota_graph_slot(f.graph, "wide", 4, &narrow), ROTA_ALREADY_EXISTS);
    assert_status(rota_graph_slot(f.graph, "odd", 3, &narrow), ROTA_INVALID_ARGUMENT);
    assert_ok(rota_graph_slot(f.graph, "narrow2", 4, &narrow));
    rota_param_binding bound = {1, wide};
    node.bindings = &bound;
    assert_status(rota_record_kernel(f.recorder, &node, NULL), ROTA_INVALID_ARGUMENT);
    expect_words("'seed' has 4", "'wide' has 8", "main");
    bound.slot = (rota_slot){77};
    assert_status(rota_record_kernel(f.recorder, &node, NULL), ROTA_INVALID_ARGUMENT);
    expect_words("slot 77", "no such slot", "'seed'");
    bound.slot = narrow;
    assert_ok(rota_record_kernel(f.recorder, &node, NULL));
    tear_down(&f);
}

/* A slot is of one type: what one kernel takes for a float is no other's count. */
static void slots_have_one_type(void **state) {
    (void)state;
    static const rota_kernel_bindable types[] = {{"any", 0, 4, false, ROTA_VALUE_ANY},
                                                 {"rate", 0, 4, false, ROTA_VALUE_F32},
                                                 {"count", 0, 4, false, ROTA_VALUE_U32}};
    fixture f;
    set_up(&f);
    rota_slot slot, other;
    assert_ok(rota_graph_slot(f.graph, "s", 4, &slot));
    assert_ok(rota_graph_slot(f.graph, "t", 4, &other));
    rota_access access = {f.a, 0, 64, ROTA_WRITE};
    const uint32_t params[2] = {1, 2};
    rota_param_binding binding = {0, slot};
    rota_kernel kernels[3];
    rota_kernel_node nodes[3];
    for (size_t i = 0; i < 3; i++) {
        kernels[i] = (rota_kernel){.name = "takes",
                                   .operand_count = 1,
                                   .param_bytes = 8,
                                   .bindables = &types[i],
                                   .bindable_count = 1};
        nodes[i] = ROTA_KERNEL_NODE(.kernel = &kernels[i], .accesses = &access, .access_count = 1,
                                    .params = params, .bindings = &binding, .binding_count = 1);
    }
    assert_ok(rota_record_kernel(f.recorder, &nodes[0], NULL));
    assert_ok(rota_record_kernel(f.recorder, &nodes[1], NULL));
    assert_ok(rota_record_kernel(f.recorder, &nodes[1], NULL));
    assert_ok(rota_record_kernel(f.recorder, &nodes[0], NULL));
    assert_status(rota_record_kernel(f.recorder, &nodes[2], NULL), ROTA_INVALID_ARGUMENT);
    expect_words("'count' of kernel 'takes' is u32", "slot 's'", "f32");
    binding.slot = other;
    assert_ok(rota_record_kernel(f.recorder, &nodes[2], NULL));
    tear_down(&f);
}

/* A bindable outside its kernel's parameters would be patched in over other memory. */
static void bindables_lie_in_the_parameters(void **state) {
    (void)state;
    static const rota_kernel_bindable wrong[] = {
        {"behind", 8, 4, false, ROTA_VALUE_ANY}, {"across", 4, 8, false, ROTA_VALUE_ANY},
        {"odd", 2, 4, false, ROTA_VALUE_ANY},    {"tiny", 0, 2, false, ROTA_VALUE_ANY},
        {"wide", 0, 8, false, ROTA_VALUE_F32},   {"narrow", 0, 4, false, ROTA_VALUE_U64}};
    fixture f;
    set_up(&f);
    rota_slot slot;
    assert_ok(rota_graph_slot(f.graph, "s", 4, &slot));
    rota_access access = {f.a, 0, 64, ROTA_WRITE};
    uint32_t params[2] = {1, 2};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const rota_kernel kernel = {
            .name = "bad", .operand_count = 1, .param_bytes = 8, .bindables = &wrong[i], .bindable_count = 1};
        rota_kernel_node node =
            ROTA_KERNEL_NODE(.kernel = &kernel, .accesses = &access, .access_count = 1, .params = params);
        assert_status(rota_record_kernel(f.recorder, &node, NULL), ROTA_INVALID_ARGUMENT);
        expect_words(wrong[i].name, "'bad'", "inside the parameters");
    }
    tear_down(&f);
}

/* The sentence names the offset that is outside, not a rest that has wrapped round. */
static void whole_copies_are_checked(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    assert_ok(rota_record_copy(f.recorder, f.a, 24, f.b, 24, ROTA_WHOLE, NULL));
    assert_status(rota_record_copy(f.recorder, f.a, 0, f.b, 24, ROTA_WHOLE, NULL), ROTA_INVALID_ARGUMENT);
    expect_words("1000", "1024", "ROTA_WHOLE");
    assert_status(rota_record_copy(f.recorder, f.a, 2000, f.b, 24, ROTA_WHOLE, NULL), ROTA_OUT_OF_RANGE);
    expect_words("2000", "'a'", "1024");
    tear_down(&f);
}

/* Parameters of any number of words, all bound, whose records are rounded up; for many numbers of nodes,
 * since memory comes in pieces of certain sizes and what is missing may be there by chance. */
static void reserved_room_is_enough_for_odd_parameters(void **state) {
    (void)state;
    enum { WORDS = 5, COUNTS = 40 };
    for (uint32_t k = 0; k < WORDS * COUNTS; k++) {
        const uint32_t words = 1 + k % WORDS, nodes = 2000 + k / WORDS * 103;
        static rota_kernel_bindable bindables[WORDS];
        const rota_kernel kernel = {.name = "odd",
                                    .operand_count = 1,
                                    .param_bytes = 4 * words,
                                    .bindables = bindables,
                                    .bindable_count = words};
        const uint32_t params[WORDS] = {0};
        rota_param_binding bindings[WORDS];
        rota_slot slot;
        fixture f;
        set_up(&f);
        assert_ok(rota_graph_slot(f.graph, "s", 4, &slot));
        for (uint32_t i = 0; i < words; i++) {
            bindables[i] =
                (rota_kernel_bindable){.name = "p", .offset_bytes = (uint16_t)(4 * i), .size_bytes = 4};
            bindings[i] = (rota_param_binding){i, slot};
        }
        rota_access access = {f.a, 0, 64, ROTA_WRITE};
        assert_ok(rota_recorder_reserve(f.recorder, nodes, nodes, (uint64_t)nodes * kernel.param_bytes));
        const rota_lane_chunk *chunk = f.recorder->chunk;
        for (uint32_t i = 0; i < nodes; i++)
            assert_ok(rota_record_kernel(f.recorder,
                                         &ROTA_KERNEL_NODE(.kernel = &kernel, .accesses = &access,
                                                           .access_count = 1, .params = params,
                                                           .bindings = bindings, .binding_count = words),
                                         NULL));
        assert_ptr_equal(f.recorder->chunk, chunk);
        tear_down(&f);
    }
}

/* Within reserved room nothing is allocated: neither for nodes all of whose parameters are bound, nor for
 * persistent buffers that push one another out of what the lane remembers. */
static void reserved_room_is_enough(void **state) {
    (void)state;
    enum { NODES = 5000, BOUND = 16 };
    static rota_kernel_bindable bindables[BOUND];
    static const rota_kernel kernel = {.name = "bound",
                                       .operand_count = 1,
                                       .param_bytes = 4 * BOUND,
                                       .bindables = bindables,
                                       .bindable_count = BOUND};
    fixture f;
    set_up(&f);
    rota_slot slot;
    assert_ok(rota_graph_slot(f.graph, "s", 4, &slot));
    rota_param_binding bindings[BOUND];
    for (uint32_t i = 0; i < BOUND; i++) {
        bindables[i] = (rota_kernel_bindable){"p", (uint16_t)(4 * i), 4, false, ROTA_VALUE_ANY};
        bindings[i] = (rota_param_binding){i, slot};
    }
    rota_buffer *buffers[65]; /* the first and the last meet in the lane's memory of recent ones */
    for (uint32_t i = 0; i < 65; i++) assert_ok(rota_buffer_create("p", 64, &buffers[i]));
    const uint32_t params[BOUND] = {0};
    assert_ok(rota_recorder_reserve(f.recorder, NODES, NODES, NODES * sizeof params));
    const rota_lane_chunk *chunk = f.recorder->chunk;
    rota_buffer **held = f.recorder->held;
    uint64_t held_capacity = f.recorder->held_capacity;
    for (uint32_t i = 0; i < NODES; i++) {
        rota_access access = {buffers[i % 2 ? 0 : 64], 0, 64, ROTA_WRITE};
        assert_ok(rota_record_kernel(f.recorder,
                                     &ROTA_KERNEL_NODE(.kernel = &kernel, .accesses = &access,
                                                       .access_count = 1, .params = params,
                                                       .bindings = bindings, .binding_count = BOUND),
                                     NULL));
    }
    assert_ptr_equal(f.recorder->chunk, chunk);
    assert_ptr_equal(f.recorder->held, held);
    assert_int_equal(f.recorder->held_capacity, held_capacity);
    assert_int_equal(f.recorder->held_count, NODES);
    tear_down(&f);
    for (uint32_t i = 0; i < 65; i++) rota_buffer_release(buffers[i]);
}

typedef struct adding {
    rota_graph *graph;
    _Atomic uint32_t added;
    rota_status ended;
} adding;

static void *add_until_compiled(void *argument) {
    adding *a = argument;
    rota_buffer *buffer;
    while ((a->ended = rota_graph_buffer(a->graph, ROTA_BUFFER_TRANSIENT, "one more", 4, &buffer)) == ROTA_OK)
        a->added++;
    return NULL;
}

/* A buffer made while another thread compiles is either in the plan or refused; the thread sanitizer watches.
 */
static void buffers_are_in_the_plan_or_refused(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 20; round++) {
        fixture f;
        set_up(&f);
        assert_ok(rota_record_fill(f.recorder, f.a, 0, ROTA_WHOLE, 0, NULL));
        rota_recorder_close(f.recorder);
        adding a = {.graph = f.graph};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, add_until_compiled, &a), 0);
        while (a.added < 10) sched_yield();
        rota_plan *plan;
        assert_ok(rota_compile(NULL, f.graph, NULL, &plan));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(a.ended, ROTA_WRONG_STATE);
        assert_int_equal(plan->buffer_count, a.added + 2);
        rota_plan_release(plan);
        rota_graph_release(f.graph);
    }
}

static void states_are_checked(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_node first, second;
    assert_ok(rota_record_fill(f.recorder, f.a, 0, ROTA_WHOLE, 0, &first));
    assert_ok(rota_record_fill(f.recorder, f.b, 0, ROTA_WHOLE, 0, &second));
    assert_status(rota_record_fill(f.recorder, f.b, 0, 6, 0, NULL), ROTA_MISALIGNED);
    assert_ok(rota_node_after(f.recorder, second, first));
    assert_status(rota_node_after(f.recorder, first, second), ROTA_INVALID_ARGUMENT);
    rota_plan *plan;
    assert_status(rota_compile(NULL, f.graph, NULL, &plan), ROTA_WRONG_STATE);
    expect_words("'main'", "open", "'g'");
    rota_recorder_close(f.recorder);
    assert_status(rota_record_fill(f.recorder, f.b, 0, 4, 0, NULL), ROTA_WRONG_STATE);
    assert_ok(rota_compile(NULL, f.graph, NULL, &plan));
    rota_plan_release(plan);
    rota_recorder *late;
    rota_buffer *buffer;
    rota_slot slot;
    assert_status(rota_recorder_open(f.graph, 9, NULL, &late), ROTA_WRONG_STATE);
    assert_status(rota_graph_buffer(f.graph, ROTA_BUFFER_TRANSIENT, "late", 4, &buffer), ROTA_WRONG_STATE);
    assert_status(rota_graph_slot(f.graph, "late", 4, &slot), ROTA_WRONG_STATE);
    tear_down(&f);
}

static void buffers_refuse_bad_sizes_and_views(void **state) {
    (void)state;
    rota_buffer *buffer, *view;
    assert_status(rota_buffer_create("none", 0, &buffer), ROTA_INVALID_ARGUMENT);
    assert_status(rota_buffer_create("huge", ROTA_BUFFER_SIZE_MAX + 1, &buffer), ROTA_INVALID_ARGUMENT);
    assert_ok(rota_buffer_create("p", 100, &buffer));
    assert_status(rota_buffer_create_view(buffer, 90, 20, &view), ROTA_OUT_OF_RANGE);
    expect_words("'p'", "90", "100");
    assert_status(rota_buffer_create_view(buffer, 101, UINT64_MAX, &view), ROTA_OUT_OF_RANGE);
    assert_ok(rota_buffer_create_view(buffer, 10, 50, &view));
    rota_buffer *inner;
    assert_ok(rota_buffer_create_view(view, 10, 20, &inner));
    rota_buffer_release(buffer);
    rota_buffer_release(view);
    assert_string_equal(rota_buffer_name(inner), "p");
    assert_int_equal(rota_buffer_size(inner), 20);
    rota_buffer_release(inner);
}

/* Eight threads make and drop views of one allocation; the sanitizers see a double free or a leak. */
static void *churn_views(void *argument) {
    rota_buffer *buffer = argument;
    for (uint64_t i = 0; i < 1000; i++) {
        rota_buffer *view;
        if (rota_buffer_create_view(buffer, i, 8, &view) != ROTA_OK) return buffer;
        rota_buffer_release(view);
    }
    return NULL;
}

static void views_from_many_threads_free_once(void **state) {
    (void)state;
    rota_buffer *buffer;
    assert_ok(rota_buffer_create("shared", 4096, &buffer));
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, churn_views, buffer), 0);
    for (int i = 0; i < 8; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    rota_buffer_release(buffer);
}

/* Names are the numbers, so that a buffer found by the wrong one is seen; enough for blocks of the largest size. */
static void a_lanes_buffers_are_found_by_number(void **state) {
    (void)state;
    enum { BUFFERS = 200000 };
    rota_graph *graph;
    rota_buffer *buffer;
    char name[16];
    assert_ok(rota_graph_create(NULL, &graph));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        snprintf(name, sizeof name, "%u", i);
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, name, 4, &buffer));
        assert_ptr_equal(rota_lane_buffer(&graph->own, i), buffer);
    }
    uint32_t blocks = 0;
    for (uint32_t i = 0, count; i < BUFFERS; i += count, blocks++) {
        rota_buffer *side_by_side = rota_lane_buffers(&graph->own, i, &count);
        assert_true(count > 0 && count <= BUFFERS - i);
        for (uint32_t k = 0; k < count; k++) {
            snprintf(name, sizeof name, "%u", i + k);
            assert_string_equal(side_by_side[k].name, name);
            assert_ptr_equal(rota_lane_buffer(&graph->own, i + k), &side_by_side[k]);
        }
    }
    assert_int_equal(blocks, graph->own.buffer_block_count);
    rota_graph_release(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accesses_are_checked),
        cmocka_unit_test(placements_are_checked),
        cmocka_unit_test(the_reason_is_the_right_one),
        cmocka_unit_test(no_memory_for_a_name),
        cmocka_unit_test(overlaps_need_the_kernels_leave),
        cmocka_unit_test(slots_have_names_of_their_own),
        cmocka_unit_test(step_varying_parameters_need_a_slot_or_a_word),
        cmocka_unit_test(slots_have_one_type),
        cmocka_unit_test(bindables_lie_in_the_parameters),
        cmocka_unit_test(whole_copies_are_checked),
        cmocka_unit_test(reserved_room_is_enough),
        cmocka_unit_test(reserved_room_is_enough_for_odd_parameters),
        cmocka_unit_test(buffers_are_in_the_plan_or_refused),
        cmocka_unit_test(states_are_checked),
        cmocka_unit_test(buffers_refuse_bad_sizes_and_views),
        cmocka_unit_test(a_lanes_buffers_are_found_by_number),
        cmocka_unit_test(views_from_many_threads_free_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
