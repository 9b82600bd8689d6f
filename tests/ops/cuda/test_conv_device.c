/* Convolutions on a CUDA device: cuDNN's way of a library node against rota's own kernels, measured and captured as
 * plans do, twice for the same bits. Skipped where there is no GPU or no cuDNN. With the argument "time": how long
 * each takes of a batch of 64 by ResNet-18's convolutions, a line of JSON each. */
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cudnn.h>)

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/half.h"
#include "ops/conv.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/conv_cudnn.h"
#include "ops/cuda/cudnn_plan.h"
#include "ops/kernel_objects.h"
#include "ops/window.h"
#include "tests/kit/random.h"
#include "tests/ops/cuda/cuda_kit.h"

enum { TIMED_BATCH = 64, TIMED_RUNS = 20, TIMED_ROUNDS = 5, OPERANDS_MAX = ROTA_CONV_WEIGHT_OPERANDS + 1 };

typedef struct shape {
    uint32_t batch, groups, in, out; /* channels, of all groups */
    uint32_t size[2], window[2], stride[2], padding[2], dilation[2];
} shape;

#define SQUARE(batch, in, out, size, window, stride, padding)                                                \
    {                                                                                                        \
        batch, 1, in, out, {size, size}, {window, window}, {stride, stride}, {padding, padding}, {           \
            1, 1                                                                                             \
        }                                                                                                    \
    }
/* ResNet-18's, of images of 224 x 224. */
static const shape resnet18[] = {
    SQUARE(4, 3, 64, 224, 7, 2, 3),    SQUARE(4, 64, 64, 56, 3, 1, 1),   SQUARE(4, 64, 128, 56, 3, 2, 1),
    SQUARE(8, 64, 128, 56, 1, 2, 0),   SQUARE(4, 128, 128, 28, 3, 1, 1), SQUARE(4, 128, 256, 28, 3, 2, 1),
    SQUARE(16, 128, 256, 28, 1, 2, 0), SQUARE(4, 256, 256, 14, 3, 1, 1), SQUARE(4, 256, 512, 14, 3, 2, 1),
    SQUARE(32, 256, 512, 14, 1, 2, 0), SQUARE(4, 512, 512, 7, 3, 1, 1),
};
static const shape others[] = {
    {3, 4, 64, 96, {29, 31}, {3, 5}, {2, 1}, {1, 2}, {1, 1}},
    {2, 1, 48, 40, {41, 37}, {3, 3}, {1, 2}, {2, 3}, {2, 3}},
    {6, 1, 96, 80, {1, 999}, {1, 7}, {1, 3}, {0, 3}, {1, 1}},
    {8, 64, 64, 64, {120, 120}, {7, 7}, {1, 1}, {3, 3}, {1, 1}},
    {2, 1, 33, 65, {50, 50}, {4, 4}, {2, 2}, {1, 1}, {1, 1}},
};

typedef struct numbers {
    rota_dtype dtype;
    uint32_t flags;
    double apart; /* at most, as the root of the mean square over that of the results */
    const char *name;
} numbers;
/* (Winograd's transforms cost f32 some digits.) */
static const numbers all_numbers[] = {{ROTA_F32, 0, 5e-5, "f32"},
                                      {ROTA_F32, ROTA_CONV_TF32, 2e-3, "tf32"},
                                      {ROTA_F16, 0, 2e-3, "f16"},
                                      {ROTA_BF16, 0, 1e-2, "bf16"}};
enum { F32, TF32, F16, BF16 };

typedef enum conv_form { FORWARD, INPUT, WEIGHT_GRADIENT, FORMS } conv_form;
static const char *const form_names[FORMS] = {"forward", "by x", "by w"};
static const rota_kernel *const kernels[FORMS] = {&rota_kernel_conv2d, &rota_kernel_conv2d_backward_input,
                                                  &rota_kernel_conv2d_weight_gradient};

static cuda_kit kit;
static uint32_t warnings;
static char last_line[ROTA_ERROR_MESSAGE_MAX];

static void listen(void *user, rota_log_level level, const char *message) {
    (void)user;
    warnings += level == ROTA_LOG_WARNING;
    snprintf(last_line, sizeof last_line, "%s", message);
}

typedef struct node {
    conv_form form;
    const numbers *numbers;
    rota_conv_params p;
    uint64_t operands[OPERANDS_MAX], bytes[OPERANDS_MAX];
    rota_cuda_call call;
    const rota_kernel *kernel;
} node;

static rota_conv_params params_of(const shape *s, uint32_t batch, const numbers *of) {
    rota_conv_params p = {.batch = batch,
                          .groups = s->groups,
                          .in_channels = s->in / s->groups,
                          .out_channels = s->out / s->groups,
                          .flags = of->flags,
                          .dtype = of->dtype};
    for (int i = 0; i < 2; i++) {
        p.in[i] = s->size[i];
        p.window[i] = s->window[i];
        p.stride[i] = s->stride[i];
        p.padding[i] = s->padding[i];
        p.dilation[i] = s->dilation[i];
        p.out[i] = (p.in[i] + 2 * p.padding[i] - p.dilation[i] * (p.window[i] - 1) - 1) / p.stride[i] + 1;
    }
    p.chunk = rota_conv_chunk(&p);
    return p;
}

static const rota_kernel *select_node(const node *n) {
    if (n->form == WEIGHT_GRADIENT)
        return rota_cuda_conv_weight_by_cudnn(&n->p, &kit.target) ? kernels[n->form] : NULL;
    return kernels[n->form]->cuda.select(&n->p, n->bytes, 0, &kit.target);
}

/* False: cuDNN has no engine for it, which the log was told. */
static bool node_open(node *n, const shape *s, uint32_t batch, conv_form form, const numbers *of) {
    *n = (node){.form = form, .numbers = of, .p = params_of(s, batch, of)};
    const rota_conv_params *p = &n->p;
    const uint64_t element = rota_dtype_bytes(of->dtype),
                   w = (uint64_t)s->out * p->in_channels * p->window[0] * p->window[1];
    const uint64_t wide = (uint64_t)batch * s->in * p->in[0] * p->in[1],
                   narrow = (uint64_t)batch * s->out * p->out[0] * p->out[1];
    const uint64_t counts[FORMS][4] = {{wide, w, 64, narrow}, {narrow, w, 64, wide}, {wide, narrow, 0, w}};
    for (uint32_t i = 0; i < 4; i++) n->bytes[i] = counts[form][i] * element;
    if (form == WEIGHT_GRADIENT) n->bytes[ROTA_CONV_WEIGHT_PARTIAL] = w * rota_conv_chunks(p) * 4;
    n->kernel = select_node(n);
    if (!n->kernel) return false;
    n->bytes[4] = n->kernel->cuda.workspace(p, n->bytes, &kit.target);
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) n->operands[i] = cuda_kit_alloc(&kit, n->bytes[i] + 1);
    n->call = (rota_cuda_call){.target = &kit.target,
                               .stream = kit.stream,
                               .operands = n->operands,
                               .operand_bytes = n->bytes,
                               .operand_count = OPERANDS_MAX,
                               .params = p};
    return true;
}

static void node_close(node *n) {
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) cuda_kit_free(&kit, n->operands[i]);
}

/* As compiling does. Overwrites the operands. Engines that fail to run are left out, with a warning. */
static void measure(node *n) {
    assert_ok(n->kernel->cuda.tune(&n->call));
    if (warnings) print_message("  %u engines could not be run\n", warnings);
    warnings = 0;
}

static void fill(const node *n, uint32_t operand, uint64_t seed) {
    const uint64_t count = n->bytes[operand] / rota_dtype_bytes(n->numbers->dtype);
    uint8_t *data = malloc(n->bytes[operand]);
    assert_non_null(data);
    for (uint64_t i = 0; i < count; i++)
        element_set(data, n->numbers->dtype, i, (float)test_below(&seed, 4001) / 2000.0f - 1.0f);
    cuda_kit_write(&kit, n->operands[operand], data, n->bytes[operand]);
    free(data);
}

/* The last operand, once the node's graph has run one way or the other. */
static uint8_t *run(node *n, bool by_rota) {
    uint8_t *result = malloc(n->bytes[3]);
    assert_non_null(result);
    n->call.again = by_rota;
    cuda_kit_capture_begin(&kit);
    assert_ok(n->kernel->cuda.call(&n->call));
    cuda_kit_capture_end_and_run(&kit);
    cuda_kit_read(&kit, n->operands[3], result, n->bytes[3]);
    if (warnings) fail_msg("cuDNN did not run it: %s", last_line);
    return result;
}

static double apart(const node *n, const uint8_t *got, const uint8_t *expected) {
    double of = 0, all = 0;
    for (uint64_t i = 0; i < n->bytes[3] / rota_dtype_bytes(n->numbers->dtype); i++) {
        const double a = (double)element_get(got, n->numbers->dtype, i),
                     b = (double)element_get(expected, n->numbers->dtype, i);
        of += (a - b) * (a - b);
        all += b * b;
    }
    return sqrt(of / all);
}

static void check(const shape *s, uint32_t batch, conv_form form, const numbers *of) {
    node n;
    warnings = 0;
    if (!node_open(&n, s, batch, form, of)) {
        print_message("  %s, %s: rota's own kernel (%s)\n", form_names[form], of->name, last_line);
        return;
    }
    measure(&n);
    print_message("  %s\n", last_line);
    if (strstr(last_line, "rota's own kernel is faster"))
        rota_choices_forget(); /* cuDNN's best guess, then */
    for (uint32_t i = 0; i < 2; i++) fill(&n, i, 7 + i);
    uint8_t *one = run(&n, false), *two = run(&n, false), *own = run(&n, true);
    if (memcmp(one, two, n.bytes[3]) != 0) fail_msg("%s, %s: other bits", form_names[form], of->name);
    const double off = apart(&n, one, own);
    if (!(off <= of->apart))
        fail_msg("%s, %s, of [%u, %u, %u, %u] to %u channels by %u x %u: %g apart", form_names[form],
                 of->name, batch, s->in, s->size[0], s->size[1], s->out, s->window[0], s->window[1], off);
    rota_choices_forget();
    free(one), free(two), free(own);
    node_close(&n);
}

static void test_ways(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof resnet18 / sizeof *resnet18; i++)
        for (conv_form form = 0; form < FORMS; form++)
            for (int n = F32; n <= BF16; n++)
                if (n != F16) check(&resnet18[i], resnet18[i].batch, form, &all_numbers[n]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (conv_form form = 0; form < FORMS; form++)
            for (int n = F32; n <= BF16; n++) check(&others[i], others[i].batch, form, &all_numbers[n]);
}

/* ---- Times ---- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of one of many calls, without a graph: least, median and most of some rounds. */
static void time_runs(node *n, bool by_rota, double out_us[3]) {
    double rounds[TIMED_ROUNDS];
    n->call.again = by_rota;
    const uint32_t runs = by_rota ? 3 : TIMED_RUNS;
    for (uint32_t r = 0; r < TIMED_ROUNDS; r++) {
        assert_ok(n->kernel->cuda.call(&n->call));
        cuda_kit_finish(&kit);
        const uint64_t begin = rota_clock_ns();
        for (uint32_t i = 0; i < runs; i++) assert_ok(n->kernel->cuda.call(&n->call));
        cuda_kit_finish(&kit);
        rounds[r] = (double)(rota_clock_ns() - begin) / 1e3 / runs;
    }
    qsort(rounds, TIMED_ROUNDS, sizeof *rounds, by_value);
    out_us[0] = rounds[0], out_us[1] = rounds[TIMED_ROUNDS / 2], out_us[2] = rounds[TIMED_ROUNDS - 1];
}

static void time_one(const shape *s, conv_form form, const numbers *of) {
    node n;
    double chosen[3], own[3];
    warnings = 0;
    if (!node_open(&n, s, TIMED_BATCH, form, of)) {
        print_message("# %s, %s: %s\n", form_names[form], of->name, last_line);
        return;
    }
    measure(&n);
    for (uint32_t i = 0; i < 2; i++) fill(&n, i, 7 + i);
    time_runs(&n, false, chosen);
    time_runs(&n, true, own);
    uint8_t *got = run(&n, false), *expected = run(&n, true);
    const double off = apart(&n, got, expected);
    printf("{\"conv\": [%u, %u, %u, %u, %u, %u], \"of\": \"%s\", \"dtype\": \"%s\", \"us\": %.1f, \"min\": "
           "%.1f, "
           "\"max\": %.1f, \"own_us\": %.1f, \"workspace\": %llu, \"apart\": %.2g, \"choice\": \"%s\"}\n",
           TIMED_BATCH, s->in, s->size[0], s->out, s->window[0], s->stride[0], form_names[form], of->name,
           chosen[1], chosen[0], chosen[2], own[1], (unsigned long long)n.bytes[4], off,
           strstr(last_line, ": ") ? strstr(last_line, ": ") + 2 : last_line);
    fflush(stdout);
    if (!(off <= of->apart)) fail_msg("%s, %s: %g apart", form_names[form], of->name, off);
    free(got), free(expected);
    node_close(&n);
}

static void times(void **state) {
    (void)state;
    static const int timed[] = {F32, TF32, BF16};
    for (size_t i = 0; i < sizeof resnet18 / sizeof *resnet18; i++)
        for (conv_form form = 0; form < FORMS; form++)
            for (int k = 0; k < 3; k++) time_one(&resnet18[i], form, &all_numbers[timed[k]]);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways)}, timing[] = {cmocka_unit_test(times)};
    const char *missing = cuda_kit_open(&kit);
    if (!missing && !rota_cudnn_present()) missing = "there is no cuDNN";
    if (!missing && !rota_kernels_have_cuda_images()) missing = "no CUDA images were built";
    if (missing) {
        printf("skipped: %s\n", missing);
        return 77;
    }
    static const rota_log log = {.fn = listen, .level = ROTA_LOG_INFO};
    kit.target.log = &log;
    const int failed = count > 1 && strcmp(arguments[1], "time") == 0
                           ? cmocka_run_group_tests(timing, NULL, NULL)
                           : cmocka_run_group_tests(tests, NULL, NULL);
    cuda_kit_close(&kit);
    return failed;
}

#else

int main(void) {
    return 77; /* built without cuDNN's headers */
}

#endif
