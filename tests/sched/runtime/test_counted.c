/* Counted nodes (graph/counted.h) on the CPU executor, with one worker and with four, to whom kernels are split. What
 * the order is worth against random graphs: rota-fuzz --counted. */
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic.h"
#include "sched/plan/certify.h"
#include "sched/plan/operations.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

enum { WIDE = 1 << 16, OLD = 9 };

/* ---- Kernels ---- */

static _Atomic uint64_t calls, wrong_calls;

/* to[i] = items; says how many there are at most, by its first operand's size. */
static rota_status put_items(const rota_kernel_call *call) {
    (void)ra_fetch_add_relaxed(&calls, 1);
    if (call->operand_count != 1 || call->begin >= call->end || call->end > call->items)
        (void)ra_fetch_add_relaxed(&wrong_calls, 1);
    uint32_t *to = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) to[i] = (uint32_t)call->items;
    return ROTA_OK;
}
static void word_items(const void *params, const uint64_t *operand_bytes, uint64_t *items, uint64_t *grain) {
    (void)params;
    *items = operand_bytes[0] / 4;
    *grain = 512;
}
static const rota_kernel k_put = {
    .name = "put", .operand_count = 1, .cpu = {.fn = put_items, .items = word_items}};
/* The same, and says nothing. */
static const rota_kernel k_put_any = {.name = "put any", .operand_count = 1, .cpu = {.fn = put_items}};

/* As many items as a parameter says, which may be bound. */
static void param_items(const void *params, const uint64_t *operand_bytes, uint64_t *items, uint64_t *grain) {
    (void)operand_bytes;
    *items = *(const uint32_t *)params;
    *grain = 512;
}
static const rota_kernel_bindable items_bindable = {.name = "items", .offset_bytes = 0, .size_bytes = 4};
static const rota_kernel k_put_param = {.name = "put param",
                                        .operand_count = 1,
                                        .param_bytes = 4,
                                        .bindables = &items_bindable,
                                        .bindable_count = 1,
                                        .cpu = {.fn = put_items, .items = param_items}};

/* to[0] = from[0] */
static rota_status take(const rota_kernel_call *call) {
    *(uint32_t *)call->operands[0] = *(const uint32_t *)call->operands[1];
    return ROTA_OK;
}
static const rota_kernel k_take = {.name = "take", .operand_count = 2, .cpu = {.fn = take}};

/* ---- Recording ---- */

typedef struct program {
    runtime_fixture *f;
    rota_graph *graph;
    rota_recorder *lane;
} program;

static program begin(runtime_fixture *f) {
    program p = {f, NULL, NULL};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "outer"), &p.graph));
    assert_ok(rota_recorder_open(p.graph, 0, "main", &p.lane));
    return p;
}

static rota_status try_compile(program *p, rota_plan **out_plan) {
    rota_recorder_close(p->lane);
    const rota_status status = rota_compile(
        p->f->runtime, p->graph,
        &ROTA_COMPILE_OPTIONS(.devices = &p->f->device, .device_count = 1, .certify = true), out_plan);
    rota_graph_release(p->graph);
    return status;
}

static rota_plan *compile(program *p) {
    rota_plan *plan = NULL;
    assert_ok(try_compile(p, &plan));
    return plan;
}

static rota_status try_run(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    return rota_wait(ticket, 0);
}

static rota_access all(rota_buffer *buffer, rota_access_mode mode) {
    return (rota_access){buffer, 0, ROTA_WHOLE, mode};
}

static rota_status put(rota_recorder *lane, const rota_kernel *kernel, rota_buffer *to,
                       const rota_count *count, rota_node *out_node) {
    const rota_access access = all(to, ROTA_WRITE);
    return rota_record_counted_kernel(
        lane, &ROTA_KERNEL_NODE(.kernel = kernel, .name = "use", .accesses = &access, .access_count = 1),
        count, out_node);
}

/* to[0] = from[0], by a node. */
static void record_take(rota_recorder *lane, rota_buffer *to, rota_buffer *from) {
    const rota_access accesses[2] = {{to, 0, 4, ROTA_WRITE}, {from, 0, 4, ROTA_READ}};
    assert_ok(rota_record_kernel(
        lane, &ROTA_KERNEL_NODE(.kernel = &k_take, .accesses = accesses, .access_count = 2), NULL));
}

static void set_word(const program *p, rota_buffer *buffer, uint32_t value) {
    assert_ok(rota_buffer_write(buffer, p->f->device, 0, &value, 4, NULL));
}

static void set_all(const program *p, rota_buffer *buffer, uint32_t value) {
    static uint32_t words[WIDE * 4];
    const uint64_t bytes = rota_buffer_size(buffer);
    for (uint64_t i = 0; i < bytes / 4; i++) words[i] = value;
    assert_ok(rota_buffer_write(buffer, p->f->device, 0, words, bytes, NULL));
}

static void expect(rota_buffer *buffer, uint32_t count, uint32_t value, uint32_t old) {
    static uint32_t got[WIDE];
    assert_ok(rota_buffer_read(buffer, 0, got, sizeof got));
    for (uint32_t i = 0; i < WIDE; i++)
        if (got[i] != (i < count ? value : old))
            fail_msg("'%s'[%u] is %u, not %u", rota_buffer_name(buffer), i, got[i], i < count ? value : old);
}

#define EXPECT_TEXT(part)                                                                                    \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), (part))) fail_msg("no '%s' in: %s", (part), rota_last_error());       \
    } while (0)

/* ---- What they do ---- */

/* A count that a node before it writes: items, what is left alone, and each of several replays its own. */
static void test_kernel(void **state) {
    static const uint32_t counts[] = {0, 1, 511, 513, WIDE - 1, WIDE};
    const rota_kernel *const kernels[] = {&k_put, &k_put_any};
    for (uint32_t k = 0; k < 2; k++) {
        program p = begin(*state);
        rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD),
                    *given = test_words(p.f->device, "given", 1, 0);
        rota_buffer *count;
        assert_ok(rota_recorder_buffer(p.lane, ROTA_BUFFER_TRANSIENT, "count", 8, &count));
        assert_ok(rota_record_fill(p.lane, count, 4, 4, 77, NULL));
        record_take(p.lane, count, given);
        assert_ok(put(p.lane, kernels[k], x, &ROTA_COUNT(.buffer = count, .max = WIDE), NULL));
        /* Writing the count again waits for who read it. */
        assert_ok(rota_record_fill(p.lane, count, 0, 4, UINT32_MAX, NULL));
        rota_plan *plan = compile(&p);
        for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            set_all(&p, x, OLD);
            set_word(&p, given, counts[i]);
            ra_store_relaxed(&calls, 0);
            ra_store_relaxed(&wrong_calls, 0);
            assert_ok(try_run(plan));
            expect(x, counts[i], counts[i], OLD);
            assert_int_equal(ra_load_relaxed(&wrong_calls), 0);
            assert_true(counts[i] ? ra_load_relaxed(&calls) > 0 : ra_load_relaxed(&calls) == 0);
        }
        rota_plan_release(plan);
        rota_buffer_release(x);
        rota_buffer_release(given);
    }
}

static void test_copies(void **state) {
    for (uint32_t unit = 0; unit <= 12; unit += 4) {
        program p = begin(*state);
        const uint32_t bytes = unit ? unit : 1, most = WIDE / 2;
        rota_buffer *to = test_words(p.f->device, "to", WIDE * 4, OLD),
                    *from = test_words(p.f->device, "from", WIDE * 4, 0x05050505),
                    *count = test_words(p.f->device, "count", 1, 0);
        const rota_count counted = ROTA_COUNT(.buffer = count, .max = most, .unit_bytes = unit);
        assert_ok(rota_record_counted_copy(p.lane, to, 8, from, 4, &counted, NULL));
        rota_plan *plan = compile(&p);
        static const uint32_t counts[] = {0, 1, 65, WIDE / 2};
        for (uint32_t i = 0; i < 4; i++) {
            static uint8_t got[WIDE * 16];
            set_all(&p, to, 0x09090909);
            set_word(&p, count, counts[i]);
            assert_ok(try_run(plan));
            assert_ok(rota_buffer_read(to, 0, got, sizeof got));
            for (uint32_t b = 0; b < sizeof got; b++)
                assert_int_equal(got[b], b >= 8 && b - 8 < counts[i] * bytes ? 5 : 9);
        }
        set_word(&p, count, most + 1);
        assert_status(try_run(plan), ROTA_NODE_FAILED);
        EXPECT_TEXT("copy");
        EXPECT_TEXT("its count is 32769, the most it may be is 32768");
        rota_plan_release(plan);
        rota_buffer_release(to);
        rota_buffer_release(from);
        rota_buffer_release(count);
    }
}

/* Nothing of the node has run then, who reads what it writes fails with it, and the next replay is well. */
static void test_excess(void **state) {
    for (uint32_t in_body = 0; in_body < 2; in_body++) {
        program p = begin(*state);
        rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD),
                    *count = test_words(p.f->device, "count", 1, 101),
                    *after = test_words(p.f->device, "after", 1, OLD),
                    *apart = test_words(p.f->device, "apart", 1, OLD),
                    *two = test_words(p.f->device, "two", 1, 2);
        rota_graph *body = NULL;
        rota_recorder *lane = p.lane;
        if (in_body) {
            assert_ok(rota_graph_create_body(p.graph, "body", &body));
            assert_ok(rota_recorder_open(body, 0, NULL, &lane));
        }
        assert_ok(put(lane, &k_put, x, &ROTA_COUNT(.buffer = count, .max = 100), NULL));
        if (in_body) {
            rota_recorder_close(lane);
            assert_ok(rota_record_for(
                p.lane, &ROTA_FOR_NODE(.name = "loop", .count = two, .body = body, .iterations_max = 2),
                NULL));
        }
        record_take(p.lane, after, x);
        assert_ok(rota_record_fill(p.lane, apart, 0, 4, 3, NULL));
        rota_plan *plan = compile(&p);
        assert_status(try_run(plan), ROTA_NODE_FAILED);
        EXPECT_TEXT("'use'");
        EXPECT_TEXT("its count is 101, the most it may be is 100");
        if (in_body) EXPECT_TEXT("iteration 0 of for 'loop'");
        test_expect_words(apart, 1, 3);
        set_word(&p, count, 100);
        set_all(&p, x, OLD);
        assert_ok(try_run(plan));
        expect(x, 100, 100, OLD);
        test_expect_words(after, 1, 100);
        set_word(&p, count, UINT32_MAX);
        assert_status(try_run(plan), ROTA_NODE_FAILED);
        rota_plan_release(plan);
        rota_buffer_release(x);
        rota_buffer_release(count);
        rota_buffer_release(after);
        rota_buffer_release(apart);
        rota_buffer_release(two);
    }
}

/* What a kernel says of its items is looked at as it is compiled; what a slot says, as it runs. */
static void test_items(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD),
                *count = test_words(p.f->device, "count", 1, 90);
    rota_plan *plan = NULL;
    assert_ok(put(p.lane, &k_put, x, &ROTA_COUNT(.buffer = count, .max = WIDE + 1), NULL));
    assert_status(try_compile(&p, &plan), ROTA_OUT_OF_RANGE);
    EXPECT_TEXT("'use'");
    EXPECT_TEXT("65537");
    EXPECT_TEXT("65536 items");
    p = begin(*state);
    rota_slot slot;
    assert_ok(rota_graph_slot(p.graph, "items", 4, &slot));
    const rota_access access = all(x, ROTA_WRITE);
    const uint32_t none = 0;
    assert_ok(rota_record_counted_kernel(
        p.lane,
        &ROTA_KERNEL_NODE(.kernel = &k_put_param, .name = "use", .accesses = &access, .access_count = 1,
                          .params = &none, .bindings = &(rota_param_binding){0, slot}, .binding_count = 1),
        &ROTA_COUNT(.buffer = count, .max = 100), NULL));
    plan = compile(&p);
    rota_args *args = NULL;
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t items = 89; items < 92; items++) {
        rota_ticket ticket;
        set_all(&p, x, OLD); /* what failed once is no contents to keep */
        assert_ok(rota_args_set_u32(args, slot, items));
        assert_ok(rota_submit(plan, args, &ticket));
        assert_status(rota_wait(ticket, 0), items < 90 ? ROTA_NODE_FAILED : ROTA_OK);
        if (items < 90) EXPECT_TEXT("its count is 90, and kernel 'put param' has 89 items");
    }
    expect(x, 90, 90, OLD);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(count);
}

/* ---- What is refused ---- */

/* What a count is good for, but the node is not. */
static void refuse_kernels(const program *p, rota_buffer *x, rota_buffer *count) {
    const rota_count good = ROTA_COUNT(.buffer = count, .max = 1);
    const rota_access access = all(x, ROTA_WRITE);
    assert_status(
        rota_record_counted_kernel(p->lane,
                                   &ROTA_KERNEL_NODE(.kernel = &k_put, .name = "use", .accesses = &access,
                                                     .access_count = 1, .groups = {1}),
                                   &good, NULL),
        ROTA_INVALID_ARGUMENT);
    EXPECT_TEXT("groups");
    assert_status(rota_record_counted_kernel(p->lane, &ROTA_KERNEL_NODE(.name = "use"), &good, NULL),
                  ROTA_INVALID_ARGUMENT);
    EXPECT_TEXT("no kernel");
    assert_status(rota_record_counted_kernel(
                      p->lane, &ROTA_KERNEL_NODE(.kernel = &k_put, .accesses = &access), &good, NULL),
                  ROTA_INVALID_ARGUMENT);
    EXPECT_TEXT("0 accesses, kernel 'put' has 1");
    /* 24 operands leave the count no place. */
    const rota_kernel crowded = {
        .name = "crowded", .operand_count = ROTA_KERNEL_OPERANDS_MAX, .cpu = {.fn = put_items}};
    rota_access many[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < ROTA_KERNEL_OPERANDS_MAX; i++) many[i] = (rota_access){x, 0, 4, ROTA_READ};
    assert_status(rota_record_counted_kernel(p->lane,
                                             &ROTA_KERNEL_NODE(.kernel = &crowded, .accesses = many,
                                                               .access_count = ROTA_KERNEL_OPERANDS_MAX),
                                             &good, NULL),
                  ROTA_INVALID_ARGUMENT);
    EXPECT_TEXT("24 accesses and a count");
    /* A copy's ranges are of as much as it may copy. */
    assert_status(rota_record_counted_copy(
                      p->lane, x, 0, count, 0,
                      &ROTA_COUNT(.buffer = count, .offset_bytes = 4, .max = 3, .unit_bytes = 4), NULL),
                  ROTA_OUT_OF_RANGE);
    EXPECT_TEXT("bytes [0, +12) of buffer 'count' of 8 bytes");
}

static void test_refused(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD), *count = test_words(p.f->device, "count", 2, 0);
    rota_graph *other = NULL;
    rota_buffer *foreign = NULL;
    assert_ok(rota_graph_create(NULL, &other));
    assert_ok(rota_graph_buffer(other, ROTA_BUFFER_TRANSIENT, "foreign", 4, &foreign));
    const struct {
        rota_count count;
        rota_status status;
        const char *says;
    } cases[] = {
        {ROTA_COUNT(.max = 1), ROTA_INVALID_ARGUMENT, "its count has no buffer"},
        {ROTA_COUNT(.buffer = count), ROTA_INVALID_ARGUMENT, "maximum (rota_count.max) is 0"},
        {ROTA_COUNT(.buffer = count, .max = 1, .unit_bytes = 4), ROTA_INVALID_ARGUMENT, "unit_bytes"},
        {ROTA_COUNT(.buffer = count, .max = 1, .offset_bytes = 5), ROTA_OUT_OF_RANGE,
         "bytes [5, +4) of buffer 'count' of 8 bytes"},
        {ROTA_COUNT(.buffer = count, .max = 1, .offset_bytes = UINT64_MAX), ROTA_OUT_OF_RANGE, "its count"},
        {ROTA_COUNT(.buffer = count, .max = 1, .offset_bytes = 2), ROTA_MISALIGNED,
         "byte 2 of buffer 'count'"},
        {ROTA_COUNT(.buffer = count, .max = 1, .bindable_plus_1 = 1), ROTA_INVALID_ARGUMENT,
         "bindable_plus_1"},
        {ROTA_COUNT(.buffer = x, .max = 1), ROTA_OVERLAP, "'x'"},
        {ROTA_COUNT(.buffer = foreign, .max = 1), ROTA_INVALID_ARGUMENT, "'foreign'"},
        {{.struct_size = 0, .buffer = count, .max = 1}, ROTA_INVALID_ARGUMENT, "rota_count"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_status(put(p.lane, &k_put, x, &cases[i].count, NULL), cases[i].status);
        EXPECT_TEXT(cases[i].says);
        if (i == 2) continue; /* which copies have */
        assert_status(rota_record_counted_copy(p.lane, x, 0, x, 64, &cases[i].count, NULL), cases[i].status);
    }
    refuse_kernels(&p, x, count);
    /* The count is none of the operands that the masks are of. */
    const rota_kernel in_place = {.name = "in place",
                                  .operand_count = 1,
                                  .inplace_outputs = 1,
                                  .inplace_inputs = UINT32_MAX,
                                  .cpu = {.fn = put_items}};
    rota_buffer *self = test_words(p.f->device, "self", 1, 1);
    assert_status(put(p.lane, &in_place, self, &ROTA_COUNT(.buffer = self, .max = 1), NULL), ROTA_OVERLAP);
    rota_buffer_release(self);
    assert_status(rota_recorder_last_node(p.lane, &(rota_node){0}), ROTA_NOT_FOUND);
    const rota_count good = ROTA_COUNT(.buffer = count, .max = 1);
    assert_ok(put(p.lane, &k_put, x, &good, NULL));
    rota_recorder_close(p.lane);
    assert_status(put(p.lane, &k_put, x, &good, NULL), ROTA_WRONG_STATE);
    rota_graph_release(p.graph);
    rota_graph_release(other);
    rota_buffer_release(x);
    rota_buffer_release(count);
}

/* to[i] = what parameter 0 says; as many items as parameter 1 says. */
static rota_status put_param(const rota_kernel_call *call) {
    uint32_t *to = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) to[i] = *(const uint32_t *)call->params;
    return ROTA_OK;
}
static void second_items(const void *params, const uint64_t *operand_bytes, uint64_t *items,
                         uint64_t *grain) {
    (void)operand_bytes;
    *items = ((const uint32_t *)params)[1];
    *grain = 512;
}
static const rota_kernel_bindable some_bindables[] = {
    {.name = "count", .offset_bytes = 0, .size_bytes = 4, .type = ROTA_VALUE_U32},
    {.name = "items", .offset_bytes = 4, .size_bytes = 4},
    {.name = "rate", .offset_bytes = 8, .size_bytes = 4, .type = ROTA_VALUE_F32},
    {.name = "wide", .offset_bytes = 16, .size_bytes = 8}};
static const rota_kernel k_put_some = {.name = "put some",
                                       .operand_count = 1,
                                       .param_bytes = 24,
                                       .bindables = some_bindables,
                                       .bindable_count = 4,
                                       .cpu = {.fn = put_param, .items = second_items}};

static rota_status put_some(const program *p, rota_buffer *to, rota_buffer *count, uint32_t max,
                            uint32_t bindable_plus_1, rota_slot slot) {
    const uint32_t params[6] = {7, 7};
    const rota_param_binding binding = {bindable_plus_1 - 1, slot};
    const rota_access access = all(to, ROTA_WRITE);
    return rota_record_counted_kernel(
        p->lane,
        &ROTA_KERNEL_NODE(.kernel = &k_put_some, .name = "use", .accesses = &access, .access_count = 1,
                          .params = params, .bindings = &binding, .binding_count = slot.index ? 1 : 0),
        &ROTA_COUNT(.buffer = count, .max = max, .bindable_plus_1 = bindable_plus_1), NULL);
}

/* A parameter gets the exact number as the kernel runs, and the most where it is asked for its items before. */
static void test_parameter(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD), *y = test_words(p.f->device, "y", WIDE, OLD),
                *count = test_words(p.f->device, "count", 1, 900);
    assert_ok(put_some(&p, x, count, 7, 1, (rota_slot){0}));
    assert_ok(put_some(&p, y, count, WIDE, 2, (rota_slot){0}));
    rota_slot slot;
    assert_ok(rota_graph_slot(p.graph, "some", 4, &slot));
    const struct {
        uint32_t plus_1;
        rota_slot slot;
        const char *says;
    } refused[] = {{5, {0}, "parameter 4 (rota_count.bindable_plus_1 - 1), and kernel 'put some' has 4"},
                   {3, {0}, "'rate' of kernel 'put some', expected one of type u32"},
                   {4, {0}, "'wide' of kernel 'put some', expected one of type u32"},
                   {1, slot, "'count' of kernel 'put some' gets the count, and is bound to a slot"}};
    for (uint32_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_status(put_some(&p, x, count, 7, refused[i].plus_1, refused[i].slot), ROTA_INVALID_ARGUMENT);
        EXPECT_TEXT(refused[i].says);
    }
    assert_ok(put_some(&p, x, count, 7, 1, ROTA_SLOT_CONSTANT));
    rota_plan *plan = compile(&p);
    for (uint32_t i = 0; i < 8; i += 7) {
        set_all(&p, x, OLD);
        set_all(&p, y, OLD);
        set_word(&p, count, i);
        assert_ok(try_run(plan));
        expect(x, i, i, OLD);
        expect(y, i, 7, OLD);
    }
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(count);
}

/* Nobody knows how much of a transient a counted node writes. */
static void test_undefined(void **state) {
    for (uint32_t filled = 0; filled < 2; filled++) {
        program p = begin(*state);
        rota_buffer *count = test_words(p.f->device, "count", 1, 2), *y = test_words(p.f->device, "y", 1, 0),
                    *x = NULL;
        rota_plan *plan = NULL;
        assert_ok(rota_recorder_buffer(p.lane, ROTA_BUFFER_TRANSIENT, "x", 16, &x));
        if (filled) assert_ok(rota_record_fill(p.lane, x, 0, 16, OLD, NULL));
        assert_ok(put(p.lane, &k_put, x, &ROTA_COUNT(.buffer = count, .max = 4), NULL));
        const rota_access accesses[2] = {all(y, ROTA_WRITE), {x, 12, 4, ROTA_READ}};
        assert_ok(rota_record_kernel(
            p.lane, &ROTA_KERNEL_NODE(.kernel = &k_take, .accesses = accesses, .access_count = 2), NULL));
        assert_status(try_compile(&p, &plan), filled ? ROTA_OK : ROTA_UNDEFINED_DATA);
        if (!filled) EXPECT_TEXT("may leave as they are bytes [0, 16) of TRANSIENT buffer 'x'");
        if (filled) assert_ok(try_run(plan));
        test_expect_words(y, 1, filled ? OLD : 0);
        if (plan) rota_plan_release(plan);
        rota_buffer_release(count);
        rota_buffer_release(y);
    }
}

/* A device that runs none refuses them, by name. */
static void test_placed(void **state) {
    const runtime_fixture *f = *state;
    static adversary_options options = {.no_conditionals = true};
    rota_device *device = NULL;
    assert_ok(rota_runtime_add_driver(f->runtime, &adversary_driver, &options));
    assert_ok(rota_device_open(f->runtime, "adversary", &device));
    for (uint32_t copies = 0; copies < 2; copies++) {
        program p = begin(&(runtime_fixture){f->runtime, device});
        rota_buffer *x = test_words(device, "x", 64, OLD), *count = test_words(device, "count", 1, 1);
        rota_plan *plan = NULL;
        const rota_count counted = ROTA_COUNT(.buffer = count, .max = 4);
        assert_ok(copies ? rota_record_counted_copy(p.lane, x, 0, x, 128, &counted, NULL)
                         : put(p.lane, &k_put, x, &counted, NULL));
        assert_status(try_compile(&p, &plan), ROTA_UNSUPPORTED);
        EXPECT_TEXT(copies ? "node 'copy'" : "node 'use'");
        EXPECT_TEXT("device 'adversary");
        rota_buffer_release(x);
        rota_buffer_release(count);
    }
}

/* ---- What others know of them ---- */

static rota_status see(void *user, rota_rewriter *rewriter) {
    rota_node_view node = ROTA_NODE_VIEW();
    ROTA_TRY(rota_rewriter_view(rewriter, 1, &node));
    const bool is_right = !node.kernel && node.access_count == 2 && node.accesses[0].mode == ROTA_READWRITE &&
                          node.accesses[1].mode == ROTA_READ && node.accesses[1].size_bytes == 4;
    *(uint32_t *)user = is_right ? 1 : 2;
    return ROTA_OK;
}

static void test_shown(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD), *given = test_words(p.f->device, "given", 2, 5),
                *count = NULL;
    rota_node node;
    uint32_t seen = 0;
    assert_ok(rota_graph_add_rewrite(p.graph, see, &seen));
    assert_ok(rota_recorder_buffer(p.lane, ROTA_BUFFER_TRANSIENT, "count", 8, &count));
    const rota_access accesses[2] = {{count, 4, 4, ROTA_WRITE}, {given, 0, 4, ROTA_READ}};
    assert_ok(rota_record_kernel(
        p.lane, &ROTA_KERNEL_NODE(.kernel = &k_take, .accesses = accesses, .access_count = 2), NULL));
    assert_ok(put(p.lane, &k_put, x, &ROTA_COUNT(.buffer = count, .offset_bytes = 4, .max = 77), &node));
    rota_plan *plan = compile(&p);
    assert_int_equal(seen, 1);
    char text[4096];
    assert_ok(rota_plan_explain(plan, node, text, sizeof text, NULL));
    if (!strstr(text, "runs as its count in buffer 'count', bytes [4, 8), at most 77\n") ||
        !strstr(text, "RAW, it writes what is read here, buffer 'count' bytes [4, 8)"))
        fail_msg("explained as: %s", text);
    char path[] = "/tmp/rota-counted-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(rota_plan_write_dot(plan, path));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    (void)fclose(file);
    assert_int_equal(unlink(path), 0);
    if (!strstr(text, "count in buffer 'count', bytes [4, 8), at most 77")) fail_msg("drawn as: %s", text);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(given);
}

/* Each thing that a counted command must be, and one that isn't counted. */
static void test_certificate(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD), *count = test_words(p.f->device, "count", 1, 5);
    assert_ok(put(p.lane, &k_put, x, &ROTA_COUNT(.buffer = count, .max = 77), NULL));
    rota_plan *plan = compile(&p);
    assert_ok(rota_plan_certify(plan));
    rota_exec_command *command = (rota_exec_command *)(uintptr_t)plan->partitions[0].desc.commands;
    rota_exec_operand *operands =
        (rota_exec_operand *)(uintptr_t)plan->partitions[0].desc.operands + command->first_operand;
    rota_access_record *recorded =
        (rota_access_record *)(uintptr_t)rota_node_accesses(rota_plan_info(plan)->operations[0].record);
    command->is_counted = false;
    assert_status(rota_plan_certify(plan), ROTA_INTERNAL);
    EXPECT_TEXT("is counted, and its command not");
    command->is_counted = true;
    command->u.kernel.count_max++;
    assert_status(rota_plan_certify(plan), ROTA_INTERNAL);
    EXPECT_TEXT("counts up to 77, and its command up to 78");
    command->u.kernel.count_max--;
    for (uint32_t k = 0; k < 2; k++) {
        const rota_access_record as_it_was = recorded[k];
        const rota_access_mode wrong = k ? ROTA_READWRITE : ROTA_WRITE;
        recorded[k] = rota_access_record_like(&as_it_was, rota_access_stored(&as_it_was), wrong);
        operands[k].mode = (unsigned)wrong & 3;
        assert_status(rota_plan_certify(plan), ROTA_INTERNAL);
        EXPECT_TEXT(k ? "its last operand is READWRITE of 4 bytes" : "counts as writing all of operand 0");
        recorded[k] = as_it_was;
        operands[k].mode = (unsigned)ROTA_ACCESS_MODE(&as_it_was) & 3;
    }
    assert_ok(rota_plan_certify(plan));
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(count);
}

static void test_certificate_of_units(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD), *y = test_words(p.f->device, "y", WIDE, OLD),
                *count = test_words(p.f->device, "count", 1, 5);
    assert_ok(rota_record_counted_copy(p.lane, y, 0, x, 0,
                                       &ROTA_COUNT(.buffer = count, .max = 77, .unit_bytes = 4), NULL));
    rota_plan *plan = compile(&p);
    assert_ok(rota_plan_certify(plan));
    rota_exec_command *command = (rota_exec_command *)(uintptr_t)plan->partitions[0].desc.commands;
    command->u.copy.unit_bytes = 8;
    assert_status(rota_plan_certify(plan), ROTA_INTERNAL);
    EXPECT_TEXT("counts units of 4 bytes, and its command of 8");
    command->u.copy.unit_bytes = 4;
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(count);
}

/* A kernel that is watched runs in shadows, of which what it leaves alone is right as well. */
static void test_watched(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", WIDE, OLD),
                *count = test_words(p.f->device, "count", 1, 70);
    assert_ok(put(p.lane, &k_put, x, &ROTA_COUNT(.buffer = count, .max = WIDE), NULL));
    rota_recorder_close(p.lane);
    rota_plan *plan = NULL;
    assert_ok(rota_compile(
        p.f->runtime, p.graph,
        &ROTA_COMPILE_OPTIONS(.devices = &p.f->device, .device_count = 1, .check_kernels = true), &plan));
    rota_graph_release(p.graph);
    assert_ok(try_run(plan));
    expect(x, 70, 70, OLD);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(count);
}

int main(void) {
#define BOTH(test)                                                                                           \
    {#test " (1 worker)", test, runtime_setup_1, runtime_teardown, NULL}, {                                  \
#test " (4 workers)", test, runtime_setup_4, runtime_teardown, NULL                                  \
    }
    const struct CMUnitTest tests[] = {
        BOTH(test_kernel),
        BOTH(test_copies),
        BOTH(test_excess),
        BOTH(test_items),
        BOTH(test_parameter),
        BOTH(test_refused),
        BOTH(test_undefined),
        BOTH(test_watched),
        {"test_placed", test_placed, runtime_setup_4, runtime_teardown, NULL},
        {"test_shown", test_shown, runtime_setup_1, runtime_teardown, NULL},
        {"test_certificate", test_certificate, runtime_setup_1, runtime_teardown, NULL},
        {"test_certificate_of_units", test_certificate_of_units, runtime_setup_1, runtime_teardown, NULL}};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
