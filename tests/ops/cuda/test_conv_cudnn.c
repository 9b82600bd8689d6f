/* Convolutions by cuDNN without a device: stand-ins for cuDNN and the driver take their places, and compute on host
 * memory what is described to them. */
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cudnn.h>)

#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/half.h"
#include "ops/conv.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/conv_cudnn.h"
#include "ops/cuda/cudnn_conv.h"
#include "ops/kernel_objects.h"
#include "tests/kit/random.h"
#include "tests/ops/cuda/standins.h"

enum { WORKSPACE = 4096, OPERANDS_MAX = ROTA_CONV_WEIGHT_OPERANDS + 1 };

/* Any address that is not NULL. */
static char some_stream, some_workspace[WORKSPACE] __attribute__((aligned(64)));

static standins standin;

static int open_standins(void **state) {
    (void)state;
    if (!standins_open(&standin)) return -1;
    *standin.workspace_bytes = WORKSPACE;
    return 0;
}

/* Each test begins with one engine that computes. */
static int forget(void **state) {
    (void)state;
    rota_choices_forget();
    *standin.refuses = *standin.fails = *standin.idle = false;
    *standin.engines = 1;
    *standin.run_ms = *standin.launch_ms = 1;
    memset(standin.notes, 0, 8 * sizeof *standin.notes);
    memset(standin.engine_ms, 0, 8 * sizeof *standin.engine_ms);
    return 0;
}

/* ---- A node: its parameters, memory and call ---- */

typedef enum conv_form { FORWARD, INPUT, WEIGHT, WEIGHT_GRADIENT, FORMS } conv_form;

static const rota_kernel *const kernels[FORMS] = {&rota_kernel_conv2d, &rota_kernel_conv2d_backward_input,
                                                  &rota_kernel_conv2d_backward_weight,
                                                  &rota_kernel_conv2d_weight_gradient};

static uint32_t warnings, infos;
static char last_line[512];
static void listen(void *user, rota_log_level level, const char *message) {
    (void)user;
    warnings += level == ROTA_LOG_WARNING;
    infos += level == ROTA_LOG_INFO;
    snprintf(last_line, sizeof last_line, "%s", message);
}

typedef struct node {
    conv_form form;
    rota_conv_params p;
    rota_log log;
    rota_cuda_target target;
    const rota_kernel *kernel; /* the library node; NULL: none */
    void *memory[OPERANDS_MAX];
    uint64_t operands[OPERANDS_MAX], bytes[OPERANDS_MAX];
    rota_cuda_call call;
} node;

static const rota_kernel *select_node(const node *n) {
    if (n->form == WEIGHT_GRADIENT)
        return rota_cuda_conv_weight_by_cudnn(&n->p, &n->target) ? kernels[n->form] : NULL;
    return kernels[n->form]->cuda.select(&n->p, n->bytes, 0, &n->target);
}

static uint64_t address(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

static void node_open(node *n, conv_form form, const rota_conv_params *p) {
    uint64_t seed = 5;
    *n = (node){.form = form, .p = *p, .log = {.fn = listen, .level = ROTA_LOG_DEBUG}};
    n->target = (rota_cuda_target){.compute_capability = 90,
                                   .multiprocessors = 132,
                                   .name = "a Hopper GPU",
                                   .driver = "580",
                                   .shared_bytes_max = 232448,
                                   .log = &n->log};
    const uint64_t of = (uint64_t)p->batch * p->groups, window = (uint64_t)p->window[0] * p->window[1];
    const uint64_t wide = of * p->in_channels * p->in[0] * p->in[1],
                   narrow = of * p->out_channels * p->out[0] * p->out[1],
                   w = p->groups * p->out_channels * p->in_channels * window,
                   bias = (uint64_t)p->groups * (form == FORWARD ? p->out_channels : p->in_channels);
    n->p.chunk = form == WEIGHT ? p->batch * p->out[0] * p->out[1] : 300;
    const uint64_t counts[FORMS][4] = {[FORWARD] = {wide, w, bias, narrow},
                                       [INPUT] = {narrow, w, bias, wide},
                                       [WEIGHT] = {wide, narrow, w},
                                       [WEIGHT_GRADIENT] = {wide, narrow, w * rota_conv_chunks(&n->p), w}};
    const uint32_t count = kernels[form]->operand_count;
    for (uint32_t i = 0; i < count; i++) {
        const rota_dtype dtype =
            form == WEIGHT_GRADIENT && i == ROTA_CONV_WEIGHT_PARTIAL ? ROTA_F32 : (rota_dtype)p->dtype;
        n->bytes[i] = counts[form][i] * rota_dtype_bytes(dtype);
        n->memory[i] = aligned_alloc(64, (n->bytes[i] + 63) / 64 * 64);
        assert_non_null(n->memory[i]);
        for (uint64_t e = 0; e < counts[form][i]; e++)
            element_set(n->memory[i], dtype, e, (float)test_below(&seed, 2001) / 1000.0f - 1.0f);
        n->operands[i] = address(n->memory[i]);
    }
    warnings = infos = 0;
    n->kernel = select_node(n);
    n->operands[count] = address(some_workspace);
    n->bytes[count] = n->kernel ? n->kernel->cuda.workspace(&n->p, n->bytes, &n->target) : 0;
    n->call = (rota_cuda_call){.target = &n->target,
                               .stream = &some_stream,
                               .operands = n->operands,
                               .operand_bytes = n->bytes,
                               .operand_count = count + 1,
                               .params = &n->p};
}

static void node_close(node *n) {
    for (uint32_t i = 0; i < kernels[n->form]->operand_count; i++) free(n->memory[i]);
    assert_int_equal(*standin.pushed, 0);
    assert_int_equal(*standin.retained, 0);
}

/* Who does the node's work when its graph is made: an engine of cuDNN, or (-1) rota's own kernels. */
static void expect(node *n, int64_t engine) {
    const uint32_t runs = *standin.runs;
    const int launches = *standin.launches;
    const int own = n->form == WEIGHT_GRADIENT ? 2 : 1;
    assert_ok(n->kernel->cuda.call(&n->call));
    assert_int_equal(*standin.runs - runs, engine >= 0 ? 1 : 0);
    assert_int_equal(*standin.launches - launches, engine >= 0 ? 0 : own);
    if (engine >= 0) assert_int_equal(*standin.engine, engine);
}

static void need_images(void) {
    if (!rota_kernels_have_cuda_images()) skip();
}

/* ---- What is computed ---- */

/* 16.8 million products and more. */
static const rota_conv_params plain = {.batch = 8,
                                       .groups = 1,
                                       .in_channels = 64,
                                       .out_channels = 64,
                                       .in = {8, 8},
                                       .out = {8, 8},
                                       .window = {3, 3},
                                       .stride = {1, 1},
                                       .padding = {1, 1},
                                       .dilation = {1, 1}},
                              odd = {.batch = 5,
                                     .groups = 3,
                                     .in_channels = 32,
                                     .out_channels = 48,
                                     .in = {23, 14},
                                     .out = {11, 12},
                                     .window = {4, 2},
                                     .stride = {2, 1},
                                     .padding = {1, 0},
                                     .dilation = {1, 2},
                                     .dtype = ROTA_F32};

/* The kernel's own function for the CPU, into memory of the result's size. */
static float *on_cpu(const node *n) {
    rota_conv_params p = n->p;
    const rota_kernel *kernel = n->form == WEIGHT_GRADIENT ? kernels[WEIGHT] : kernels[n->form];
    const uint32_t count = kernel->operand_count,
                   last = n->form == WEIGHT_GRADIENT ? ROTA_CONV_WEIGHT_DW : count - 1;
    const bool sums = n->form >= WEIGHT; /* f32, one chunk */
    if (sums) p.chunk = p.batch * p.out[0] * p.out[1];
    const uint64_t elements = n->bytes[last] / rota_dtype_bytes((rota_dtype)p.dtype);
    void *result = malloc(elements * 4), *operands[4];
    float *floats = malloc(elements * 4);
    assert_true(result && floats);
    for (uint32_t i = 0; i < count - 1; i++) operands[i] = n->memory[i];
    operands[count - 1] = result;
    uint64_t items, grain;
    kernel->cpu.items(&p, n->bytes, &items, &grain);
    const rota_kernel_call call = {operands, &p, 0, items, items, count, n->bytes, NULL};
    assert_ok(kernel->cpu.fn(&call));
    for (uint64_t i = 0; i < elements; i++)
        floats[i] = (float)element_get(result, sums ? ROTA_F32 : (rota_dtype)p.dtype, i);
    free(result);
    return floats;
}

static void check_result(node *n) {
    const uint32_t last = kernels[n->form]->operand_count - 1;
    const rota_dtype dtype = (rota_dtype)n->p.dtype;
    float *expected = on_cpu(n);
    assert_non_null(n->kernel);
    assert_int_equal(n->bytes[last + 1], WORKSPACE);
    assert_ok(n->kernel->cuda.call(&n->call));
    assert_ptr_equal(*standin.stream, &some_stream);
    const double unit = dtype == ROTA_F32 ? 2e-6 : dtype == ROTA_F16 ? 0x1p-10 : 0x1p-7;
    for (uint64_t i = 0; i < n->bytes[last] / rota_dtype_bytes(dtype); i++) {
        const double got = element_get(n->memory[last], dtype, i), off = fabs(got - (double)expected[i]);
        if (!(off <= unit * (8 + fabs((double)expected[i]))))
            fail_msg("form %d, element %llu is %g, expected %g", (int)n->form, (unsigned long long)i, got,
                     (double)expected[i]);
    }
    free(expected);
}

static void test_results(void **state) {
    (void)state;
    for (conv_form form = 0; form < FORMS; form++)
        for (rota_dtype dtype = ROTA_F32; dtype <= ROTA_BF16; dtype++)
            for (int i = 0; i < 4; i++) {
                node n;
                rota_conv_params p = i % 2 ? odd : plain;
                p.dtype = dtype;
                p.flags = i / 2 ? ROTA_CONV_CHANNELS_LAST : 0;
                if (form == WEIGHT && dtype != ROTA_F32) continue;
                node_open(&n, form, &p);
                check_result(&n);
                assert_int_equal(warnings, 0);
                node_close(&n);
            }
}

/* A bias is added by rota's own kernel, behind cuDNN's. */
static void test_bias(void **state) {
    (void)state;
    need_images();
    rota_conv_params p = plain;
    p.batch = 9;
    p.flags = ROTA_CONV_BIAS;
    for (conv_form form = FORWARD; form <= INPUT; form++) {
        node n;
        node_open(&n, form, &p);
        const int launches = *standin.launches;
        assert_ok(n.kernel->cuda.call(&n.call));
        assert_int_equal(*standin.launches - launches, 1);
        node_close(&n);
    }
}

/* ---- Which engines ---- */

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)

static rota_cudnn_conv about_of(uint32_t batch, rota_dtype dtype, bool tf32) {
    rota_cudnn_conv about;
    memset(&about, 0, sizeof about);
    about.p = plain;
    about.p.batch = batch;
    about.p.dtype = dtype;
    about.tf32 = tf32;
    return about;
}

/* Numbers stay f32's unless TF32 is asked for, sums f32's and in a fixed order. */
static void test_engines(void **state) {
    (void)state;
    const rota_cuda_target target = {.name = "a Hopper GPU"};
    *standin.engines = 5;
    standin.notes[0] = NOTE(TENSOR_CORE);
    standin.notes[1] = NOTE(TENSOR_CORE) | NOTE(NONDETERMINISTIC);
    standin.notes[2] = NOTE(DOWN_CONVERT_INPUTS);
    standin.notes[3] = NOTE(REDUCED_PRECISION_REDUCTION) | NOTE(TENSOR_CORE);
    standin.notes[4] = NOTE(WINOGRAD);
    const rota_cudnn_conv f32 = about_of(20, ROTA_F32, false), tf32 = about_of(20, ROTA_F32, true),
                          half = about_of(20, ROTA_BF16, false);
    standin.notes[7] = NOTE(FFT); /* what the heuristics fall back to */
    assert_int_equal(rota_cudnn_conv_ways(&f32, &target, NULL), 2);
    assert_int_equal(rota_cudnn_conv_engine(&f32, &target, 0), 4);
    assert_int_equal(rota_cudnn_conv_engine(&f32, &target, 1), 7);
    assert_int_equal(rota_cudnn_conv_engine(&f32, &target, 2), -1);
    assert_int_equal(rota_cudnn_conv_ways(&tf32, &target, NULL), 3);
    assert_int_equal(rota_cudnn_conv_engine(&tf32, &target, 0), 0);
    assert_int_equal(rota_cudnn_conv_engine(&tf32, &target, 1), 4);
    assert_int_equal(rota_cudnn_conv_ways(&half, &target, NULL), 4);
    /* Where none of the best is as wished. */
    *standin.engines = 2;
    const rota_cudnn_conv other = about_of(21, ROTA_F32, false);
    assert_int_equal(rota_cudnn_conv_ways(&other, &target, NULL), 1);
    assert_int_equal(rota_cudnn_conv_engine(&other, &target, 0), 7);
    /* Too much workspace. */
    char why[ROTA_ERROR_MESSAGE_MAX];
    const rota_cudnn_conv large = about_of(22, ROTA_BF16, false);
    *standin.workspace_bytes = INT64_C(1) << 40;
    assert_int_equal(rota_cudnn_conv_ways(&large, &target, why), 0);
    *standin.workspace_bytes = WORKSPACE;
    assert_non_null(strstr(why, "bytes of workspace"));
}

/* What cuDNN is not asked for, or refuses, is rota's own kernels'. */
static void test_refusals(void **state) {
    (void)state;
    node n;
    rota_conv_params p = plain;
    p.batch = 7; /* a million products too few */
    uint32_t plans = *standin.plans;
    node_open(&n, FORWARD, &p);
    assert_null(n.kernel);
    assert_int_equal(*standin.plans, plans);
    assert_int_equal(warnings, 0);
    node_close(&n);
    p.batch = 30;
    node_open(&n, WEIGHT, &p);
    n.p.chunk--; /* partial sums */
    assert_null(select_node(&n));
    node_close(&n);
    p.batch = 31;
    *standin.refuses = true;
    for (int i = 0; i < 2; i++) {
        node_open(&n, FORWARD, &p);
        assert_null(n.kernel);
        assert_int_equal(warnings, i == 0);
        if (i == 0) assert_non_null(strstr(last_line, "cuDNN does not take conv2d of f32 [31, 64, 8, 8]"));
        node_close(&n);
        *standin.refuses = false; /* it was asked once */
    }
}

/* The weights' gradient is one call where a library has it, else two kernels. */
static void test_parts(void **state) {
    (void)state;
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    const rota_kernel *kernel = &rota_kernel_conv2d_weight_gradient;
    const rota_cuda_target target = {.name = "a Hopper GPU"};
    rota_conv_params p = plain;
    p.chunk = 100;
    assert_int_equal(kernel->parts(ROTA_EXEC_CUDA, &p, NULL, 0, &target, parts), 0);
    assert_int_equal(kernel->parts(ROTA_EXEC_VK, &p, NULL, 0, NULL, parts), 2);
    p.batch = 1;
    assert_int_equal(kernel->parts(ROTA_EXEC_CUDA, &p, NULL, 0, &target, parts), 2);
    assert_ptr_equal(parts[0].kernel, &rota_kernel_conv2d_backward_weight);
    assert_ptr_equal(parts[1].kernel, &rota_kernel_reduce);
    rota_reduce_params sum;
    memcpy(&sum, parts[1].params, sizeof sum);
    assert_int_equal(sum.inner, 64 * 64 * 9);
}

/* ---- The choice ---- */

/* Whichever is measured to be the fastest takes it, and goes on doing so. */
static void test_choice(void **state) {
    (void)state;
    need_images();
    for (conv_form form = 0; form < FORMS; form++)
        for (int64_t fastest = -1; fastest < 3; fastest++) {
            node n;
            rota_conv_params p = plain;
            p.batch = 40 + (uint32_t)form;
            p.stride[0] = 1;
            *standin.engines = 3;
            *standin.idle = true;
            *standin.run_ms = 1;
            *standin.launch_ms = fastest < 0 ? 0.4 : 50;
            for (int i = 0; i < 8; i++) standin.engine_ms[i] = i == fastest ? 0 : 1 + i;
            rota_choices_forget();
            node_open(&n, form, &p);
            assert_ok(n.kernel->cuda.tune(&n.call));
            assert_int_equal(infos, 1);
            assert_int_equal(warnings, 0);
            assert_non_null(
                strstr(last_line, fastest < 0 ? "rota's own kernel is faster" : "is the fastest"));
            expect(&n, fastest);
            *standin.run_ms = fastest < 0 ? 0.01 : 100;
            assert_ok(n.kernel->cuda.tune(&n.call)); /* again: only to load cuDNN's code */
            expect(&n, fastest);
            assert_int_equal(infos, 1);
            assert_int_equal(n.kernel->cuda.workspace(&n.p, n.bytes, &n.target), fastest < 0 ? 0 : WORKSPACE);
            node_close(&n);
        }
}

/* Not measured, for want of memory, say: cuDNN's best guess takes it, and goes on doing so. */
static void test_choice_unmeasured(void **state) {
    (void)state;
    node n;
    rota_conv_params p = plain;
    p.batch = 50;
    *standin.engines = 2;
    *standin.idle = true;
    node_open(&n, FORWARD, &p);
    expect(&n, 0);
    standin.engine_ms[0] = 100;
    assert_ok(n.kernel->cuda.tune(&n.call));
    expect(&n, 0);
    node_close(&n);
}

/* What cuDNN fails to run rota's own kernels do, with a line for each engine; so does a call whose capture was spoilt
 * though cuDNN said nothing. */
static void test_failure(void **state) {
    (void)state;
    need_images();
    for (conv_form form = 0; form < FORMS; form++) {
        node n;
        rota_conv_params p = plain;
        p.batch = 60 + (uint32_t)form;
        *standin.idle = true;
        node_open(&n, form, &p);
        expect(&n, 0);
        n.call.again = true;
        expect(&n, -1);
        n.call.again = false;
        *standin.fails = true;
        assert_int_equal(warnings, 0);
        expect(&n, -1);
        *standin.fails = false;
        expect(&n, -1);
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(last_line, "told to fail"));
        node_close(&n);
    }
}

/* Views of buffers may begin where cuDNN's kernels would fault; and a plan's workspace may be another's. */
static void test_odd_address(void **state) {
    (void)state;
    need_images();
    for (conv_form form = 0; form < FORMS; form++) {
        node n;
        rota_conv_params p = plain;
        p.batch = 70 + (uint32_t)form;
        *standin.idle = true;
        node_open(&n, form, &p);
        const uint32_t count = kernels[form]->operand_count;
        for (uint32_t i = 0; i < count; i++) {
            const bool is_read = form < WEIGHT ? i != 2 : form == WEIGHT || i != ROTA_CONV_WEIGHT_PARTIAL;
            n.operands[i] += 8;
            expect(&n, is_read ? -1 : 0);
            n.operands[i] -= 8;
        }
        n.bytes[count]--;
        expect(&n, -1);
        n.bytes[count]++;
        expect(&n, 0);
        assert_int_equal(warnings, 0);
        node_close(&n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_results, forget),
        cmocka_unit_test_setup(test_bias, forget),
        cmocka_unit_test_setup(test_engines, forget),
        cmocka_unit_test_setup(test_refusals, forget),
        cmocka_unit_test_setup(test_parts, forget),
        cmocka_unit_test_setup(test_choice, forget),
        cmocka_unit_test_setup(test_choice_unmeasured, forget),
        cmocka_unit_test_setup(test_failure, forget),
        cmocka_unit_test_setup(test_odd_address, forget),
    };
    return cmocka_run_group_tests(tests, open_standins, NULL);
}

#else

int main(void) {
    return 77; /* built without cuDNN's headers */
}

#endif
