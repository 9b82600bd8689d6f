/* A product and GELU's gradient behind it on CUDA devices: what fusion makes one node and what it leaves, and what that
 * node puts on its stream, by stand-ins for cuBLASLt and the driver. What the kernel calculates is for
 * test_matmul_cuda_device. */
#include "ops/fuse_gelu.h"
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cublasLt.h>)
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/gelu_product_cuda.h"
#include "ops/cuda/matmul_sm90_tiles.h"
#include "ops/kernel_objects.h"
#include "ops/linear.h"
#include "rota.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/ops/ops_stub.h"
#include "tests/ops/cuda/cublaslt_standin.h"
#include "tests/ops/cuda/hopper.h"

/* ---- The node ---- */

enum { M = 16, N = 8, K = 24 };

static struct {
    _Alignas(16) uint16_t a[M * K];
    _Alignas(16) uint16_t b[N * K + 1];
    _Alignas(16) uint16_t kept[M * N], dz[M * N];
    float partial[N];
    uint64_t own[4096];
} operands;

/* What the kernels behind the product were given. */
typedef struct launch {
    const char *kernel;
    uint64_t words[3 + ROTA_LINEAR_GELU_OPERANDS];
} launch;
static launch launches[4];
static uint32_t launch_count;

/* A kernel's first parameter: block, masks, then operands. */
static void launched(const char *kernel, const void *args) {
    assert_true(launch_count < 4);
    launches[launch_count].kernel = kernel;
    memcpy(launches[launch_count++].words, args, sizeof launches->words);
}

static void call(uint64_t b) {
    const rota_linear_params p = {.m = M,
                                  .n = N,
                                  .k = K,
                                  .lda = K,
                                  .ldb = K,
                                  .flags = ROTA_MATMUL_TRANSPOSE_B,
                                  .dtype = ROTA_BF16,
                                  .chunk = ROTA_LINEAR_SM90_ROWS};
    const uint64_t addresses[] = {(uint64_t)(uintptr_t)operands.a,       b,
                                  (uint64_t)(uintptr_t)operands.kept,    (uint64_t)(uintptr_t)operands.dz,
                                  (uint64_t)(uintptr_t)operands.partial, (uint64_t)(uintptr_t)operands.own};
    const uint64_t bytes[] = {sizeof operands.a,  (uint64_t)N * K * 2,     sizeof operands.kept,
                              sizeof operands.dz, sizeof operands.partial, sizeof operands.own};
    cublaslt_standin.products = launch_count = 0;
    cublaslt_standin.launched = launched;
    rota_choices_forget();
    assert_ok(rota_cuda_gelu_product.cuda.call(
        &(rota_cuda_call){.target = &hopper,
                          .stream = (void *)(uintptr_t)CUBLASLT_STANDIN_STREAM,
                          .operands = addresses,
                          .operand_bytes = bytes,
                          .operand_count = ROTA_CUDA_GELU_PRODUCT_OPERANDS + 1,
                          .params = &p}));
    assert_int_equal(cublaslt_standin.alive, 0);
}

static void one_kernel(void **state) {
    (void)state;
    if (!rota_kernels_have_cuda_images()) skip();
    call((uint64_t)(uintptr_t)operands.b);
    assert_int_equal(cublaslt_standin.products, 0);
    assert_int_equal(launch_count, 1);
    assert_string_equal(launches[0].kernel, "linear_sm90_gelu_gradient_bf16_nt");
}

/* An operand that is at no multiple of 16 bytes is none of the Hopper kernel's: the product by the library to where dz
 * is going to be, and GELU's gradient in its place. */
static void unaligned(void **state) {
    (void)state;
    if (!rota_kernels_have_cuda_images()) skip();
    uint16_t *b = operands.b + 1;
    for (int i = 0; i < M * K; i++) operands.a[i] = cublaslt_to_bf16(sinf((float)(3 * i + 1)));
    for (int i = 0; i < N * K; i++) b[i] = cublaslt_to_bf16(cosf((float)(5 * i + 2)));
    call((uint64_t)(uintptr_t)b);
    assert_int_equal(cublaslt_standin.products, 1);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum +=
                    (double)cublaslt_of_bf16(operands.a[i * K + k]) * (double)cublaslt_of_bf16(b[j * K + k]);
            const double got = (double)cublaslt_of_bf16(operands.dz[i * N + j]);
            if (!(fabs(got - sum) <= fabs(sum) / 256 + 1e-5))
                fail_msg("element %d, %d is %g, expected %g", i, j, got, sum);
        }
    assert_int_equal(launch_count, 1);
    assert_string_equal(launches[0].kernel, "linear_gelu_gradient");
    const void *const expected[ROTA_LINEAR_GELU_OPERANDS] = {operands.kept, operands.dz, operands.dz,
                                                             operands.partial};
    for (uint32_t i = 0; i < ROTA_LINEAR_GELU_OPERANDS; i++)
        assert_int_equal(launches[0].words[2 + i], (uint64_t)(uintptr_t)expected[i]);
}

/* ---- What becomes one node ---- */

typedef enum form { PLAIN, TRANSPOSED, FEW_ROWS, HALF, READ_ELSEWHERE, BY_HAND, CHANGED, FORMS } form;

static uint32_t found, left;

/* Counts, and ends the compile: nothing here could run it. */
static rota_status look(void *user, rota_rewriter *rewriter) {
    const uint32_t *rows = user;
    rota_fuse_index index;
    ROTA_TRY(rota_fuse_index_make(rewriter, &index));
    rota_status status = rota_fuse_gelus(rewriter, &index);
    rota_fuse_index_free(&index);
    ROTA_TRY(status);
    found = left = 0;
    for (uint64_t n = 0; n < rota_rewriter_node_count(rewriter); n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        left += view.kernel == &rota_kernel_linear_gelu_gradient;
        if (view.kernel != &rota_cuda_gelu_product) continue;
        found++;
        const rota_linear_params *p = view.params;
        assert_true(p->m == *rows && p->n == 64 && p->k == 32 && p->chunk == ROTA_LINEAR_SM90_ROWS);
    }
    return rota_fail(ROTA_UNSUPPORTED, "looked");
}

static uint32_t rows_of(form f) {
    return f == FEW_ROWS ? 1024 : 4096;
}

static rota_access all_of(rota_buffer *buffer, rota_access_mode mode) {
    return (rota_access){buffer, 0, rota_buffer_size(buffer), mode};
}

/* The two nodes alone; between them, perhaps, one that writes an operand of the product. */
static void record_by_hand(rota_graph *graph, rota_recorder *recorder, form f) {
    enum { A, B, KEPT, DY, DZ, PARTIAL, BUFFERS };
    const uint32_t m = rows_of(f), n = 64, k = 32, chunks = m / ROTA_LINEAR_SM90_ROWS;
    const uint64_t bytes[BUFFERS] = {2ull * m * k, 2ull * n * k, 2ull * m * n,
                                     2ull * m * n, 2ull * m * n, 4ull * chunks * n};
    rota_buffer *buffers[BUFFERS];
    for (uint32_t i = 0; i < BUFFERS; i++)
        assert_ok(rota_graph_buffer(graph,
                                    i == DY || i == B ? ROTA_BUFFER_TRANSIENT
                                    : i < DY          ? ROTA_BUFFER_INPUT
                                                      : ROTA_BUFFER_OUTPUT,
                                    "operand", bytes[i], &buffers[i]));
    const rota_access product[] = {all_of(buffers[A], ROTA_READ), all_of(buffers[B], ROTA_READ),
                                   all_of(buffers[DY], ROTA_WRITE)},
                      gradient[] = {all_of(buffers[KEPT], ROTA_READ), all_of(buffers[DY], ROTA_READ),
                                    all_of(buffers[DZ], ROTA_WRITE), all_of(buffers[PARTIAL], ROTA_WRITE)};
    const rota_matmul_params p = {.m = m,
                                  .n = n,
                                  .k = k,
                                  .batch = {1, 1, 1},
                                  .lda = k,
                                  .ldb = n,
                                  .ldc = n,
                                  .c_dtype = ROTA_BF16,
                                  .alpha = 1};
    const rota_linear_params g = {.m = m, .n = n, .dtype = ROTA_BF16, .chunk = ROTA_LINEAR_SM90_ROWS};
    assert_ok(rota_record_fill(recorder, buffers[B], 0, bytes[B], 0, NULL));
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &rota_kernel_matmul_bf16, .accesses = product,
                                                   .access_count = 3, .params = &p),
                                 NULL));
    if (f == CHANGED) assert_ok(rota_record_fill(recorder, buffers[B], 0, bytes[B], 1, NULL));
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &rota_kernel_linear_gelu_gradient,
                                                   .accesses = gradient, .access_count = 4, .params = &g),
                                 NULL));
}

/* loss = sum((gelu(x w1) w2)^2): w2's gradient of y is a product that nothing but GELU's gradient reads. */
static void record(rota_tape *tape, form f) {
    const rota_dtype dtype = f == HALF ? ROTA_F16 : ROTA_BF16;
    const bool transposed = f == TRANSPOSED;
    rota_tensor x, w1, w2, bias, y, z, loss,
        grads[4] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE}, out;
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "x", dtype, ROTA_SHAPE(rows_of(f), 16), &x));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "w1", dtype, ROTA_SHAPE(16, 64), &w1));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "w2", dtype,
                               ROTA_SHAPE(transposed ? 32u : 64u, transposed ? 64u : 32u), &w2));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "bias", dtype, ROTA_SHAPE(64), &bias));
    assert_ok(
        rota_op_linear(tape, x, w1, &ROTA_LINEAR(.bias = bias, .activation = ROTA_ACTIVATION_GELU), &y));
    assert_ok(rota_op_linear(tape, y, w2, &ROTA_LINEAR(.transposed = transposed), &z));
    assert_ok(rota_op_sum_squares(tape, z, &loss));
    const rota_tensor of[] = {w1, bias, w2, y};
    assert_ok(rota_backward(tape, loss, of, f == READ_ELSEWHERE ? 4 : 3, grads, NULL));
    for (uint32_t i = 0; i < (f == READ_ELSEWHERE ? 4u : 3u); i++) {
        assert_ok(
            rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, "grad", dtype, grads[i].rank, grads[i].shape, &out));
        assert_ok(rota_op_copy_into(tape, grads[i], out));
    }
}

static void see(rota_runtime *runtime, rota_device *device, form f) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan = NULL;
    uint32_t rows = rows_of(f);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_add_rewrite(graph, look, &rows));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    if (f == BY_HAND || f == CHANGED) {
        record_by_hand(graph, recorder, f);
    } else {
        rota_tape *tape;
        assert_ok(rota_tape_create(recorder, NULL, &tape));
        record(tape, f);
        rota_tape_destroy(tape);
    }
    rota_recorder_close(recorder);
    assert_int_not_equal(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan),
        ROTA_OK);
    assert_non_null(strstr(rota_last_error(), "looked"));
    rota_graph_release(graph);
}

static void what_becomes_one_node(void **state) {
    (void)state;
    if (!rota_kernels_have_cuda_images()) skip();
    ops_stub_start(7);
    rota_runtime *runtime;
    rota_device *devices[2];
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &devices[0]));
    assert_ok(rota_device_open(runtime, "cuda:0", &devices[1]));
    for (form f = PLAIN; f < FORMS; f++)
        for (int cuda = 0; cuda < 2; cuda++) {
            const bool fits = cuda && (f == PLAIN || f == TRANSPOSED || f == HALF || f == BY_HAND);
            see(runtime, devices[cuda], f);
            if (found != fits || left != !fits)
                fail_msg("form %d on %s: %u are one node, %u are left", f, cuda ? "cuda:0" : "cpu", found,
                         left);
        }
    assert_ok(rota_runtime_close(runtime, UINT64_C(20000000000)));
    cuda_stub_stop();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_kernel), cmocka_unit_test(unaligned),
                                       cmocka_unit_test(what_becomes_one_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    return 77; /* built without CUDA's headers */
}

#endif
