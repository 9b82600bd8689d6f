/* Functions of a kernel that get its `user` (graph/kernel_functions.h): each stands in the place of the one without,
 * on every executor, and who gives them wrongly is told. */
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <string.h>
#include "base/atomic.h"
#include "graph/kernel_calls.h"
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kernels/kernels.h"

enum { COUNT = 1000, BYTES = 4 * COUNT };

/* ---- What a binding has of a kernel ---- */

typedef enum question {
    WORK,
    PARTS,
    SPEC,
    SELECT,
    IMAGE,
    TURNS,
    LAUNCH,
    WORKSPACE,
    CUDA_SELECT,
    WHY,
    CALL,
    QUESTIONS
} question;

typedef struct bound {
    _Atomic uint32_t asked[QUESTIONS];
    const rota_kernel *inner; /* what it chooses, is made of, or goes by */
    uint64_t number;          /* what it answers */
} bound;

static bound *ask(void *user, question what) {
    bound *mine = user;
    (void)ra_fetch_add_relaxed(&mine->asked[what], 1);
    return mine;
}

static uint32_t asked(bound *mine, question what) {
    return ra_load_relaxed(&mine->asked[what]);
}

static double work_of(void *user, const void *params, const uint64_t *operand_bytes) {
    (void)params;
    return (double)(ask(user, WORK)->number * operand_bytes[0]);
}

/* Two of them, each on the whole of what the node has, on devices of this kind. */
static uint32_t parts_of(void *user, rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                         uint32_t slot_mask, const rota_cuda_target *target,
                         rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes, (void)slot_mask, (void)target;
    const bound *mine = ask(user, PARTS);
    if (kind != (rota_exec_kind)mine->number) return 0;
    for (uint32_t i = 0; i < 2; i++) {
        out_parts[i].kernel = mine->inner;
        out_parts[i].operand_count = mine->inner->operand_count;
        if (mine->inner->operand_count == 1) {
            out_parts[i].mode[0] = ROTA_READWRITE;
        } else {
            out_parts[i].operand[1] = 1;
            out_parts[i].mode[1] = ROTA_WRITE;
        }
        memcpy(out_parts[i].params, params, mine->inner->param_bytes);
    }
    return 2;
}

static void spec_of(void *user, const void *params, uint32_t *out_values) {
    ask(user, SPEC)->inner->vk.spec(params, out_values);
}

static const rota_kernel *select_of(void *user, const void *params, const uint64_t *operand_bytes,
                                    uint32_t features) {
    return ask(user, SELECT)->inner->vk.select(params, operand_bytes, features);
}

static const rota_kernel *image_of(void *user, const void *params, const uint64_t *operand_bytes,
                                   uint32_t slot_mask, const rota_cuda_target *target) {
    (void)params, (void)operand_bytes, (void)slot_mask, (void)target;
    (void)ask(user, IMAGE);
    return NULL;
}

static uint64_t turns_of(void *user, const void *params) {
    (void)params;
    return ask(user, TURNS)->number;
}

static void launch_of(void *user, const void *params, const uint64_t *operand_bytes,
                      const rota_cuda_target *target, rota_cuda_launch *out_launch) {
    (void)params, (void)target;
    (void)ask(user, LAUNCH);
    *out_launch = (rota_cuda_launch){.groups = {(uint32_t)(operand_bytes[0] / 4 + 63) / 64}, .block = {64}};
}

static uint64_t workspace_of(void *user, const void *params, const uint64_t *operand_bytes,
                             const rota_cuda_target *target) {
    (void)params, (void)operand_bytes, (void)target;
    return ask(user, WORKSPACE)->number;
}

static const rota_kernel *cuda_select_of(void *user, const void *params, const uint64_t *operand_bytes,
                                         uint32_t slot_mask, const rota_cuda_target *target) {
    (void)params, (void)operand_bytes, (void)slot_mask, (void)target;
    return ask(user, CUDA_SELECT)->inner;
}

static uint64_t why_of(void *user, const rota_kernel_use *use, char *text, uint64_t capacity) {
    const bound *mine = ask(user, WHY);
    return (uint64_t)snprintf(text, capacity, "since %u operands of %u bytes are number %u\n",
                              use->operand_count, (uint32_t)use->operand_bytes[0], (uint32_t)mine->number);
}

static const rota_kernel_functions all_functions = {
    .struct_size = sizeof all_functions,
    .work = work_of,
    .parts = parts_of,
    .vk_spec = spec_of,
    .vk_select = select_of,
    .vk_select_image = image_of,
    .vk_turns = turns_of,
    .cuda_launch = launch_of,
    .cuda_workspace = workspace_of,
    .cuda_select = cuda_select_of,
    .why = why_of,
};

/* ---- On the CPU ---- */

static rota_status add_number(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint32_t i = 0; i < COUNT; i++) x[i] += (uint32_t)((bound *)call->user)->number;
    return ROTA_OK;
}

/* Two nodes of kernels that are two of another, each with its own `user`; the plan knows what each costs. */
static void parts_and_work(void **state) {
    runtime_fixture *f = *state;
    bound adds = {.number = 3};
    const rota_kernel add = {.name = "add",
                             .operand_count = 1,
                             .flags = ROTA_KERNEL_HAS_FUNCTIONS,
                             .cpu = {.fn = add_number},
                             .user = &adds,
                             .functions = &ROTA_KERNEL_FUNCTIONS(.work = work_of)};
    bound twice = {.inner = &add, .number = ROTA_EXEC_CPU}, never = {.inner = &add, .number = ROTA_EXEC_CUDA};
    const rota_kernel_functions of_parts = ROTA_KERNEL_FUNCTIONS(.parts = parts_of);
    rota_kernel adds_twice = {.name = "twice",
                              .operand_count = 1,
                              .flags = ROTA_KERNEL_HAS_FUNCTIONS,
                              .user = &twice,
                              .functions = &of_parts},
                adds_itself = adds_twice;
    adds_itself.cpu.fn = add_number;
    adds_itself.user = &never; /* as it is on the CPU */
    rota_buffer *words = test_words(f->device, "words", COUNT, 1);
    const rota_access access = {words, 0, ROTA_WHOLE, ROTA_READWRITE};
    rota_plan *plan = test_plan(
        f->device, "two and one",
        (test_node[]){{&adds_twice, "twice", {access}, 1}, {&adds_itself, "itself", {access}, 1}}, 2);
    rota_plan_command commands[3];
    commands[0] = ROTA_PLAN_COMMAND();
    assert_ok(rota_plan_get_commands(plan, commands, 3));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ptr_equal(commands[i].kernel, i < 2 ? &add : &adds_itself);
        assert_true(commands[i].work == (i < 2 ? 3.0 * BYTES : 0));
    }
    assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    test_expect_words(words, COUNT, 1 + 2 * 3 + ROTA_EXEC_CUDA);
    assert_true(asked(&twice, PARTS) > 0 && asked(&never, PARTS) > 0 && asked(&adds, WORK) >= 2);
    rota_plan_release(plan);
    rota_buffer_release(words);
}

static rota_status record(rota_graph *graph, const rota_kernel *kernel, rota_buffer *words) {
    rota_recorder *recorder;
    const rota_access access = {words, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_recorder_open(graph, 0, "lane", &recorder));
    const rota_status status = rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = kernel, .name = "node", .accesses = &access, .access_count = 1),
        NULL);
    rota_recorder_close(recorder);
    return status;
}

/* Functions that are none, of no size, or of later versions are refused where the kernel is recorded, by names; those
 * of an earlier version end before what that did not have; and without the flag nobody looks at them. */
static void sizes(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *words = test_words(f->device, "words", COUNT, 1);
    rota_graph *graph;
    assert_ok(rota_graph_create(NULL, &graph));
    struct {
        rota_kernel_functions now;
        void *later;
    } functions = {.now = all_functions};
    bound mine = {.number = 5};
    rota_kernel kernel = test_increment;
    kernel.name = "sized";
    kernel.user = &mine;
    kernel.functions = (const rota_kernel_functions *)(uintptr_t)1;
    assert_ok(record(graph, &kernel, words));
    assert_false(rota_kernel_has_parts(&kernel));
    kernel.flags |= ROTA_KERNEL_HAS_FUNCTIONS;
    kernel.functions = NULL;
    assert_status(record(graph, &kernel, words), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(),
                           "node 'node' (lane 'lane', node 0): kernel 'sized' has "
                           "ROTA_KERNEL_HAS_FUNCTIONS in its flags, and its functions are NULL"));
    kernel.functions = &functions.now;
    functions.now.struct_size = 0;
    assert_status(record(graph, &kernel, words), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(),
                           "kernel 'sized', its functions: rota_kernel_functions.struct_size is 0, "
                           "which is no size of it: make one by ROTA_KERNEL_FUNCTIONS()"));
    functions.now.struct_size = sizeof functions;
    assert_ok(record(graph, &kernel, words));
    functions.later = &functions;
    assert_status(record(graph, &kernel, words), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "has something at byte"));
    functions.now.struct_size = offsetof(rota_kernel_functions, cuda_select);
    assert_ok(record(graph, &kernel, words));
    assert_true(rota_kernel_has_parts(&kernel) && rota_kernel_has_workspace(&kernel));
    assert_false(rota_kernel_has_cuda_select(&kernel));
    rota_graph_release(graph);
    rota_buffer_release(words);
}

/* A kernel says itself why it runs as it does; another's text says which function it is; a copy has no kernel. */
static void why(void **state) {
    runtime_fixture *f = *state;
    bound mine = {.number = 7};
    const rota_kernel says = {.name = "says",
                              .operand_count = 1,
                              .flags = ROTA_KERNEL_HAS_FUNCTIONS,
                              .cpu = {.fn = add_number},
                              .user = &mine,
                              .functions = &ROTA_KERNEL_FUNCTIONS(.why = why_of)};
    rota_buffer *words = test_words(f->device, "words", COUNT, 1);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_node nodes[3];
    rota_plan *plan, *analysed;
    const rota_access access = {words, 0, ROTA_WHOLE, ROTA_READWRITE};
    const rota_kernel *kernels[] = {&says, &test_increment};
    char text[256], begin[8];
    uint64_t length;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, "lane", &recorder));
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(rota_record_kernel(
            recorder,
            &ROTA_KERNEL_NODE(.kernel = kernels[i], .name = "node", .accesses = &access, .access_count = 1),
            &nodes[i]));
    assert_ok(rota_record_fill(recorder, words, 0, ROTA_WHOLE, 0, &nodes[2]));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    assert_ok(rota_plan_explain_kernel(plan, nodes[0], text, sizeof text, &length));
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "node 'node' (lane 1 'lane', node 0): kernel 'says' on "));
    assert_non_null(strstr(text, ")\nsince 1 operands of 4000 bytes are number 7\n"));
    assert_int_equal(asked(&mine, WHY), 1);
    assert_ok(rota_plan_explain_kernel(plan, nodes[0], begin, sizeof begin, &length));
    assert_int_equal(length, strlen(text));
    assert_string_equal(begin, "node 'n");
    assert_ok(rota_plan_explain_kernel(plan, nodes[1], text, sizeof text, NULL));
    assert_non_null(strstr(text, "'\nwhy: it is the kernel's own, by no choice\n"));
    assert_ok(rota_plan_explain_kernel(plan, nodes[2], text, sizeof text, NULL));
    assert_non_null(strstr(text, ": has no kernel\n"));
    nodes[2].index = 3;
    assert_status(rota_plan_explain_kernel(plan, nodes[2], text, sizeof text, NULL), ROTA_NOT_FOUND);
    assert_ok(rota_compile(NULL, graph, NULL, &analysed));
    assert_status(rota_plan_explain_kernel(analysed, nodes[0], text, sizeof text, NULL), ROTA_WRONG_STATE);
    rota_plan_release(analysed);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(words);
}

/* ---- On Vulkan devices ---- */

static rota_status compile_unary(rota_device *device, const rota_kernel *kernel, rota_buffer *from,
                                 rota_buffer *to, rota_plan **out_plan) {
    rota_graph *graph;
    rota_recorder *recorder;
    const rota_unary_params params = {COUNT, ROTA_UNARY_AFFINE, 3, 2, ROTA_F32};
    const rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses, .access_count = 2, .params = &params),
        NULL));
    rota_recorder_close(recorder);
    const rota_status status =
        rota_compile(rota_device_runtime(device), graph,
                     &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), out_plan);
    rota_graph_release(graph);
    return status;
}

/* A kernel of rota's own whose functions go by `user`: the same bits. */
static void on_vulkan(void **state) {
    (void)state;
    rota_device *device;
#ifdef __SANITIZE_THREAD__
    skip(); /* a driver that is not instrumented */
#endif
    if (rota_open("vk:0", NULL, &device) != ROTA_OK) skip();
    bound mine = {.inner = rota_kernel_find("unary"), .number = 1};
    rota_kernel wrapped = *mine.inner;
    wrapped.vk.spec = NULL;
    wrapped.vk.select = NULL;
    wrapped.flags |= ROTA_KERNEL_HAS_FUNCTIONS;
    wrapped.user = &mine;
    wrapped.functions = &ROTA_KERNEL_FUNCTIONS(.vk_spec = spec_of, .vk_select = select_of,
                                               .vk_select_image = image_of, .vk_turns = turns_of);
    float x[COUNT], y[2][COUNT];
    for (uint32_t i = 0; i < COUNT; i++) x[i] = (float)i / 7;
    rota_buffer *from = test_buffer(rota_device_runtime(device), "from", BYTES),
                *to = test_buffer(rota_device_runtime(device), "to", BYTES);
    assert_ok(rota_buffer_write(from, device, 0, x, BYTES, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        rota_plan *plan;
        assert_ok(compile_unary(device, i ? &wrapped : mine.inner, from, to, &plan));
        assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        assert_ok(rota_buffer_read(to, 0, y[i], BYTES));
        rota_plan_release(plan);
    }
    assert_memory_equal(y[0], y[1], BYTES);
    assert_true(asked(&mine, SPEC) > 0 && asked(&mine, SELECT) > 0);
    const bool has_images = rota_device_get_info(device)->features & ROTA_FEATURE_CUDA_IMAGES;
    assert_int_equal(asked(&mine, IMAGE) > 0, has_images);
    if (asked(&mine, TURNS)) { /* of a driver that ends loops */
        rota_plan *plan;
        mine.number = UINT64_MAX;
        assert_status(compile_unary(device, &wrapped, from, to, &plan), ROTA_UNSUPPORTED);
        assert_non_null(strstr(rota_last_error(), "may take 18446744073709551615 turns of its loops"));
    }
    rota_buffer_release(from);
    rota_buffer_release(to);
    assert_ok(rota_close(device, 0));
}

/* ---- On CUDA devices ---- */

#ifdef ROTA_HAVE_CUDA
/* A library's node, whose workspace comes last. It puts nothing on the stream. */
static rota_status call_library(const rota_cuda_call *call) {
    const bound *mine = ask(call->user, CALL);
    if (call->operand_count != 3 || call->operand_bytes[2] != mine->number)
        return rota_fail(ROTA_INTERNAL, "%u operands", call->operand_count);
    return ROTA_OK;
}

/* Over a stand-in for the driver, whose kernels are the C functions of their names: a kernel with a launch of its own,
 * one that is two of it, and one that chooses a library's node with a workspace. */
static void on_cuda(void **state) {
    (void)state;
    const rota_kernel *map = &test_kernels[TEST_KERNEL_map].kernel;
    if (!map->cuda.image) skip();
    cuda_stub_start(7, 1);
    cuda_stub_kernel(map);
    rota_device *device;
    assert_ok(rota_open("cuda:0", NULL, &device));
    rota_runtime *runtime = rota_device_runtime(device);

    bound launches = {0}, library = {.number = 8192};
    rota_kernel launching = *map;
    launching.bindables = NULL;
    launching.bindable_count = 0;
    launching.cuda.grid = NULL;
    launching.flags |= ROTA_KERNEL_HAS_FUNCTIONS;
    launching.user = &launches;
    launching.functions = &ROTA_KERNEL_FUNCTIONS(.cuda_launch = launch_of);
    const rota_kernel in_library = {.name = "in a library",
                                    .operand_count = 2,
                                    .param_bytes = map->param_bytes,
                                    .flags = ROTA_KERNEL_HAS_FUNCTIONS,
                                    .cuda.call = call_library,
                                    .user = &library,
                                    .functions = &ROTA_KERNEL_FUNCTIONS(.cuda_workspace = workspace_of)};
    bound twice = {.inner = &launching, .number = ROTA_EXEC_CUDA}, chooses = {.inner = &in_library};
    rota_kernel parted = launching, choosing = in_library;
    parted.user = &twice;
    parted.functions = &ROTA_KERNEL_FUNCTIONS(.parts = parts_of);
    choosing.cuda.call = NULL;
    choosing.user = &chooses;
    choosing.functions = &ROTA_KERNEL_FUNCTIONS(.cuda_select = cuda_select_of);

    const rota_kernel *const kernels[] = {&launching, &choosing, &parted};
    rota_buffer *from = test_words(device, "from", COUNT, 5), *to = test_words(device, "to", COUNT, 0);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    const test_params params = {.n = COUNT, .p = 7, .seed = 9};
    const rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(rota_record_kernel(recorder,
                                     &ROTA_KERNEL_NODE(.kernel = kernels[i], .accesses = accesses,
                                                       .access_count = 2, .params = &params),
                                     NULL));
    rota_recorder_close(recorder);
    assert_ok(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(graph);
    assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    uint32_t y[COUNT];
    assert_ok(rota_buffer_read(to, 0, y, BYTES));
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(y[i], test_mix(5 + 7, i + 9));
    assert_int_equal(asked(&launches, LAUNCH), 3);
    assert_int_equal(asked(&twice, LAUNCH), 0);
    assert_true(asked(&twice, PARTS) > 0 && asked(&chooses, CUDA_SELECT) > 0);
    assert_true(asked(&library, WORKSPACE) > 0 && asked(&library, CALL) > 0);
    assert_int_equal(asked(&chooses, WORKSPACE), 0);
    rota_plan_release(plan);
    rota_buffer_release(from);
    rota_buffer_release(to);
    assert_ok(rota_close(device, 0));
    cuda_stub_end();
}
#else
static void on_cuda(void **state) {
    (void)state;
    skip();
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_and_work, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(why, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(sizes, runtime_setup, runtime_teardown),
        cmocka_unit_test(on_vulkan),
        cmocka_unit_test(on_cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
