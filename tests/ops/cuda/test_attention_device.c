/* Attention of 16-bit floats on a CUDA device: cuDNN's way of a library node, and that of the kernels for Hopper,
 * against rota's kernels for any GPU, measured and captured as plans do, whole and in pieces, and twice for the
 * same bits; and how long each takes. Skipped where there is no GPU or no cuDNN. */
#include "ops/cuda/attention_cudnn_backward.h"
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cudnn.h>)

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/half.h"
#include "ops/attention.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/cuda/attention_sm90.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/cudnn_plan.h"
#include "ops/kernel_objects.h"
#include "tests/ops/cuda/cuda_kit.h"
#include "tests/kit/random.h"

enum { TIMED_RUNS = 20 };

/* By row: heads side by side, as products make them. */
typedef struct shape {
    rota_dtype dtype;
    bool causal, by_row;
    uint32_t batch, heads, queries, keys, dim;
} shape;

/* The third and the fourth are more than one piece of the gradient. */
static const shape shapes[] = {
    {ROTA_BF16, true, true, 4, 12, 1024, 1024, 64},  {ROTA_F16, false, false, 8, 12, 1024, 1024, 64},
    {ROTA_BF16, true, true, 32, 12, 1024, 1024, 64}, {ROTA_BF16, true, false, 1, 16, 4096, 4096, 128},
    {ROTA_BF16, true, true, 2, 4, 201, 330, 64},     {ROTA_F16, false, true, 2, 4, 257, 150, 128},
    {ROTA_BF16, true, true, 64, 6, 256, 256, 64},    {ROTA_F16, true, false, 3, 50, 777, 1025, 48},
};

static cuda_kit kit;
static uint32_t lines;
static char last_line[ROTA_ERROR_MESSAGE_MAX];

static void listen(void *user, rota_log_level level, const char *message) {
    (void)user;
    if (level < ROTA_LOG_WARNING) return; /* which way is the fastest */
    lines++;
    snprintf(last_line, sizeof last_line, "%s", message);
}

/* A node of the shape, with memory of its own. */
typedef struct node {
    const shape *shape;
    rota_attention_backward_params p;
    rota_attention_params forward;
    uint64_t operands[ROTA_ATTENTION_BACKWARD_OPERANDS + 1], bytes[ROTA_ATTENTION_BACKWARD_OPERANDS + 1];
    rota_cuda_call call;
    const rota_kernel *kernel;
} node;

static void strides_of(const shape *s, uint32_t rows, uint32_t out[3]) {
    out[0] = s->heads * rows * s->dim;
    out[1] = s->by_row ? s->dim : rows * s->dim;
    out[2] = s->by_row ? s->heads * s->dim : s->dim;
}

static void fill(rota_dtype dtype, uint64_t address, uint64_t bytes, uint64_t seed) {
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    for (uint64_t i = 0; i < bytes / 2; i++)
        element_set(data, dtype, i, (float)test_below(&seed, 4001) / 2000.0f - 1.0f);
    cuda_kit_write(&kit, address, data, bytes);
    free(data);
}

static void node_open(node *n, const shape *s, bool backward) {
    *n = (node){.shape = s,
                .p = {s->batch,
                      s->heads,
                      s->queries,
                      s->keys,
                      s->dim,
                      (s->causal ? ROTA_ATTENTION_CAUSAL : 0u) | ROTA_ATTENTION_ALIGNED_16 |
                          (uint32_t)s->dtype << ROTA_ATTENTION_DTYPE_SHIFT,
                      1.0f / sqrtf((float)s->dim),
                      {0},
                      {0},
                      {0}}};
    strides_of(s, s->queries, n->p.q_stride);
    strides_of(s, s->keys, n->p.kv_stride);
    strides_of(s, s->queries, n->p.out_stride);
    n->forward = (rota_attention_params){s->batch,   s->heads, s->queries, s->keys, s->dim, n->p.flags,
                                         n->p.scale, {0},      {0},        {0},     {0}};
    memcpy(n->forward.q_stride, n->p.q_stride, sizeof n->p.q_stride);
    memcpy(n->forward.k_stride, n->p.kv_stride, sizeof n->p.kv_stride);
    memcpy(n->forward.v_stride, n->p.kv_stride, sizeof n->p.kv_stride);
    memcpy(n->forward.out_stride, n->p.out_stride, sizeof n->p.out_stride);
    const uint64_t rows = (uint64_t)s->batch * s->heads, q = rows * s->queries * s->dim * 2,
                   kv = rows * s->keys * s->dim * 2, row = rows * s->queries * 4;
    const uint64_t forward[] = {q, kv, kv, q, row}, gradient[] = {q, kv, kv, q, q, row, 2 * row, q, kv, kv};
    const uint32_t own = backward ? 10 : 5;
    memcpy(n->bytes, backward ? gradient : forward, own * sizeof *n->bytes);
    n->kernel = backward ? &rota_kernel_attention_backward
                         : rota_cuda_attention_by_cudnn(&n->forward, 0, &kit.target);
    if (!n->kernel || (backward && !rota_cuda_attention_backward_by_cudnn(&n->p, 0, &kit.target)))
        fail_msg("cuDNN does not take it: %s", last_line);
    const void *params = backward ? (const void *)&n->p : &n->forward;
    n->bytes[own] = n->kernel->cuda.workspace(params, n->bytes, &kit.target);
    for (uint32_t i = 0; i <= own; i++) n->operands[i] = cuda_kit_alloc(&kit, n->bytes[i] + 1);
    n->call = (rota_cuda_call){.target = &kit.target,
                               .stream = kit.stream,
                               .operands = n->operands,
                               .operand_bytes = n->bytes,
                               .operand_count = own + 1,
                               .params = params};
}

/* As compiling does. Overwrites the operands. */
static void measure(node *n) {
    assert_ok(n->kernel->cuda.tune(&n->call));
    if (lines) fail_msg("measuring: %s", last_line);
    rota_choices_forget(); /* from here on it is cuDNN's, whichever is the faster */
    for (uint32_t i = 0; i < 3; i++) fill(n->shape->dtype, n->operands[i], n->bytes[i], 7 + i);
}

static void node_close(node *n) {
    for (uint32_t i = 0; i < n->call.operand_count; i++) cuda_kit_free(&kit, n->operands[i]);
}

/* Hopper's way; the others are the kernel's. */
static rota_status call_sm90(const rota_cuda_call *call) {
    return rota_attention_sm90_run(call, call->operands[ROTA_ATTENTION_BACKWARD_OPERANDS],
                                   call->operand_bytes[ROTA_ATTENTION_BACKWARD_OPERANDS]);
}

/* Runs the graph of a call, of rota's kernels or not, and reads `count` operands from `first` on. */
static uint8_t *run_call(node *n, rota_cuda_call_fn function, bool by_rota, uint32_t first, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = first; i < first + count; i++) bytes += n->bytes[i];
    uint8_t *results = malloc(bytes), *result = results;
    assert_non_null(results);
    memset(results, 0xff, bytes); /* NaN, which are to be written over */
    for (uint32_t i = first; i < first + count; i++)
        cuda_kit_write(&kit, n->operands[i], results, n->bytes[i]);
    n->call.again = by_rota;
    cuda_kit_capture_begin(&kit);
    assert_ok(function(&n->call));
    cuda_kit_capture_end_and_run(&kit);
    for (uint32_t i = first; i < first + count; result += n->bytes[i++])
        cuda_kit_read(&kit, n->operands[i], result, n->bytes[i]);
    if (lines) fail_msg("cuDNN did not run it: %s", last_line);
    return results;
}

static uint8_t *run(node *n, bool by_rota, uint32_t first, uint32_t count) {
    return run_call(n, n->kernel->cuda.call, by_rota, first, count);
}

/* Microseconds of one of many calls, without a graph. */
static double time_runs(node *n, rota_cuda_call_fn function, bool by_rota) {
    n->call.again = by_rota;
    for (uint32_t i = 0; i < 3; i++) assert_ok(function(&n->call));
    cuda_kit_finish(&kit);
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < TIMED_RUNS; i++) assert_ok(function(&n->call));
    cuda_kit_finish(&kit);
    return (double)(rota_clock_ns() - begin) / 1e3 / TIMED_RUNS;
}

static void expect_close(const shape *s, rota_dtype dtype, const uint8_t *got, const uint8_t *expected,
                         uint64_t bytes, const char *what) {
    const uint64_t count = bytes / rota_dtype_bytes(dtype);
    double most = 0, apart = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double a = (double)element_get(got, dtype, i), b = (double)element_get(expected, dtype, i);
        most = fmax(most, fabs(b));
        apart = fmax(apart, isfinite(a) ? fabs(a - b) : INFINITY);
    }
    const double unit = dtype == ROTA_F32 ? 1e-4 : dtype == ROTA_F16 ? 0.004 : 0.03;
    print_message("  %s: at most %.3g apart, of at most %.3g\n", what, apart, most);
    if (!(most > 0 && apart <= unit * most))
        fail_msg("%s of %u x %u heads of %u x %u, %u keys: %g apart", what, s->batch, s->heads, s->queries,
                 s->dim, s->keys, apart);
}

/* Compares the call with rota's own kernels, and with itself. */
static void check(node *n, rota_cuda_call_fn function, const char *way, uint32_t first, uint32_t count,
                  const char *const *names) {
    uint8_t *one = run_call(n, function, false, first, count),
            *two = run_call(n, function, false, first, count);
    uint8_t *own = run(n, true, first, count);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; offset += n->bytes[first + i++]) {
        const bool is_lse = strcmp(names[i], "lse") == 0;
        if (memcmp(one + offset, two + offset, n->bytes[first + i]) != 0)
            fail_msg("%s by %s: other bits", names[i], way);
        expect_close(n->shape, is_lse ? ROTA_F32 : n->shape->dtype, one + offset, own + offset,
                     n->bytes[first + i], names[i]);
    }
    print_message("  %s %.1f us, rota %.1f us; workspace %llu bytes\n", way, time_runs(n, function, false),
                  time_runs(n, n->kernel->cuda.call, true),
                  (unsigned long long)n->bytes[n->call.operand_count - 1]);
    free(one), free(two), free(own);
}

static void compare(const shape *s) {
    static const char *const forward[] = {"out", "lse"}, *const gradient[] = {"dq", "dk", "dv"};
    node f, b;
    print_message("%u x %u heads of %u x %u, %u keys%s, %s\n", s->batch, s->heads, s->queries, s->dim,
                  s->keys, s->causal ? ", causal" : "", rota_dtype_name(s->dtype));
    node_open(&f, s, false);
    measure(&f);
    check(&f, f.kernel->cuda.call, "cuDNN", 3, 2, forward);
    node_open(&b, s, true);
    measure(&b);
    uint8_t *results = run(&f, true, 3, 2);
    cuda_kit_write(&kit, b.operands[ROTA_ATTENTION_BACKWARD_OUT], results, f.bytes[3]);
    cuda_kit_write(&kit, b.operands[ROTA_ATTENTION_BACKWARD_LSE], results + f.bytes[3], f.bytes[4]);
    fill(s->dtype, b.operands[ROTA_ATTENTION_BACKWARD_DOUT], b.bytes[ROTA_ATTENTION_BACKWARD_DOUT], 31);
    free(results);
    check(&b, b.kernel->cuda.call, "cuDNN", ROTA_ATTENTION_BACKWARD_DQ, 3, gradient);
    if (rota_attention_sm90_takes(&b.p, &kit.target))
        check(&b, call_sm90, "on Hopper", ROTA_ATTENTION_BACKWARD_DQ, 3, gradient);
    node_close(&f);
    node_close(&b);
}

static void test_ways(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) compare(&shapes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways)};
    const char *missing = cuda_kit_open(&kit);
    if (!missing && !rota_cudnn_present()) missing = "there is no cuDNN";
    if (!missing && !rota_kernels_have_cuda_images()) missing = "no CUDA images were built";
    if (missing) {
        printf("skipped: %s\n", missing);
        return 77;
    }
    static const rota_log log = {.fn = listen, .level = ROTA_LOG_INFO};
    kit.target.log = &log;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_kit_close(&kit);
    return failed;
}

#else

int main(void) {
    return 77; /* built without cuDNN's headers */
}

#endif
