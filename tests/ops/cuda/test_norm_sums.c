/* The sums of the columns of what a norm's gradient writes, on CUDA devices: what fusion has make them, and what it
 * leaves. What the kernels calculate is for test_cuda_kernels. */
#include "ops/fuse_norm.h"
#include "tests/kit/support.h"

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include "ops/kernel_objects.h"
#include "ops/linear.h"
#include "rota.h"
#include "tests/exec/cuda/cuda_stub.h"

enum { ROWS = 256, DIM = 64, K = 32, CHUNK = 16, LINEAR_CHUNK = 64, CHUNKS = ROWS / CHUNK };

typedef enum form {
    PLAIN,
    TRANSPOSED,
    RMS,
    AFTER_READERS, /* the layer's product reads dx first, as its gradient of x does */
    RECORDED,      /* by the ops: a layer whose result is added to a stream that a norm reads */
    REWRITTEN,     /* something else writes dx in between */
    LITTLE_ROOM,   /* for the sums of the layer's own chunks alone */
    READ_TWICE,    /* someone else reads the partial sums */
    AT_ONCE,       /* the layer's sums are made without partial ones */
    WIDE,          /* f32: not by vectors */
    FORMS
} form;

static uint32_t made, plain, left;

/* Counts, and ends the compile: nothing here could run it. */
static rota_status look(void *user, rota_rewriter *rewriter) {
    (void)user;
    rota_fuse_index index;
    ROTA_TRY(rota_fuse_index_make(rewriter, &index));
    rota_status status = rota_fuse_norms(rewriter, &index);
    rota_fuse_index_free(&index);
    ROTA_TRY(status);
    made = plain = left = 0;
    const rota_buffer *sums = NULL;
    for (uint64_t n = 0; n < rota_rewriter_node_count(rewriter); n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        plain +=
            view.kernel == &rota_kernel_layernorm_gradient || view.kernel == &rota_kernel_rmsnorm_gradient;
        if (view.kernel == &rota_kernel_layernorm_gradient_sums ||
            view.kernel == &rota_kernel_rmsnorm_gradient_sums) {
            made++;
            assert_int_equal(view.access_count, 7);
            assert_int_equal(view.accesses[6].mode, ROTA_WRITE);
            sums = view.accesses[6].buffer;
        }
        if (view.kernel != &rota_kernel_linear_gradient) continue;
        const rota_linear_params *p = view.params;
        const rota_access *partial = &view.accesses[ROTA_LINEAR_GRADIENT_OPERAND_PARTIAL];
        rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX];
        if (!(p->flags & ROTA_LINEAR_SUMS_MADE)) {
            left++;
            continue;
        }
        assert_int_equal(p->chunk, CHUNK);
        assert_int_equal(partial->mode, ROTA_READ);
        assert_ptr_equal(partial->buffer, sums);
        assert_int_equal(rota_linear_gradient_parts(p, parts),
                         2); /* the product, and the sum of partial sums */
    }
    return rota_fail(ROTA_UNSUPPORTED, "looked");
}

static rota_access all_of(rota_buffer *buffer, rota_access_mode mode) {
    return (rota_access){buffer, 0, rota_buffer_size(buffer), mode};
}

static void record_kernel(rota_recorder *recorder, const rota_kernel *kernel, const rota_access *accesses,
                          const void *params) {
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses,
                                                   .access_count = kernel->operand_count, .params = params),
                                 NULL));
}

static void record(rota_graph *graph, rota_recorder *recorder, form f) {
    enum { X, WEIGHT, STATS, DY, DX, NORM_PARTIAL, LAYER_X, W, PARTIAL, DW, DBIAS, FLAT, BUFFERS };
    const uint32_t dtype = f == WIDE ? ROTA_F32 : ROTA_BF16, size = f == WIDE ? 4 : 2;
    const uint32_t rows_of_sums = f == LITTLE_ROOM ? ROWS / LINEAR_CHUNK : CHUNKS;
    const uint64_t matrix = (uint64_t)size * ROWS * DIM, bytes[BUFFERS] = {matrix,
                                                                           (uint64_t)size * DIM,
                                                                           8ull * ROWS,
                                                                           matrix,
                                                                           matrix,
                                                                           8ull * CHUNKS * DIM,
                                                                           (uint64_t)size * ROWS * K,
                                                                           (uint64_t)size * DIM * K,
                                                                           4ull * rows_of_sums * DIM,
                                                                           (uint64_t)size * K * DIM,
                                                                           (uint64_t)size * DIM,
                                                                           (uint64_t)size * ROWS * K};
    rota_buffer *b[BUFFERS];
    for (uint32_t i = 0; i < BUFFERS; i++)
        assert_ok(rota_graph_buffer(graph,
                                    i == DX || i == NORM_PARTIAL || i == PARTIAL ? ROTA_BUFFER_TRANSIENT
                                    : i >= DW                                    ? ROTA_BUFFER_OUTPUT
                                                                                 : ROTA_BUFFER_INPUT,
                                    "operand", bytes[i], &b[i]));
    const rota_norm_params norm = {ROWS, DIM, ROTA_NORM_WEIGHT, 1e-5f, CHUNK, dtype};
    const rota_access of_norm[] = {all_of(b[X], ROTA_READ),     all_of(b[WEIGHT], ROTA_READ),
                                   all_of(b[STATS], ROTA_READ), all_of(b[DY], ROTA_READ),
                                   all_of(b[DX], ROTA_WRITE),   all_of(b[NORM_PARTIAL], ROTA_WRITE)};
    record_kernel(recorder, f == RMS ? &rota_kernel_rmsnorm_gradient : &rota_kernel_layernorm_gradient,
                  of_norm, &norm);
    if (f == REWRITTEN) assert_ok(rota_record_fill(recorder, b[DX], 0, 4, 0, NULL));
    if (f == AFTER_READERS) {
        const rota_matmul_params p = {.m = ROWS,
                                      .n = K,
                                      .k = DIM,
                                      .batch = {1, 1, 1},
                                      .lda = DIM,
                                      .ldb = K,
                                      .ldc = K,
                                      .c_dtype = ROTA_BF16,
                                      .alpha = 1};
        const rota_access product[] = {all_of(b[DX], ROTA_READ), all_of(b[W], ROTA_READ),
                                       all_of(b[FLAT], ROTA_WRITE)};
        record_kernel(recorder, &rota_kernel_matmul_bf16, product, &p);
    }
    const bool transposed = f == TRANSPOSED;
    const rota_linear_params p = {.m = transposed ? DIM : K,
                                  .n = transposed ? K : DIM,
                                  .k = ROWS,
                                  .lda = transposed ? DIM : K,
                                  .ldb = transposed ? K : DIM,
                                  .flags = ROTA_MATMUL_TRANSPOSE_A |
                                           (transposed ? ROTA_LINEAR_SUMS_A : ROTA_LINEAR_SUMS_B),
                                  .dtype = dtype,
                                  .chunk = f == AT_ONCE ? ROWS : LINEAR_CHUNK};
    const rota_access dz = all_of(b[DX], ROTA_READ), x = all_of(b[LAYER_X], ROTA_READ);
    const rota_access of_linear[] = {transposed ? dz : x, transposed ? x : dz, all_of(b[DW], ROTA_WRITE),
                                     all_of(b[DBIAS], ROTA_WRITE), all_of(b[PARTIAL], ROTA_WRITE)};
    record_kernel(recorder, &rota_kernel_linear_gradient, of_linear, &p);
    if (f == READ_TWICE) assert_ok(rota_record_copy(recorder, b[FLAT], 0, b[PARTIAL], 0, 64, NULL));
}

/* loss = sum(layernorm(r + x w + bias)^2) */
static void record_ops(rota_recorder *recorder) {
    const uint64_t rows = 256ull * CHUNK; /* of which a norm has such chunks */
    rota_tape *tape;
    rota_tensor x, w, bias, r, weight, shift, y, z, loss,
        grads[3] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE}, out;
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "x", ROTA_BF16, ROTA_SHAPE(rows, K), &x));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "w", ROTA_BF16, ROTA_SHAPE(K, DIM), &w));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "bias", ROTA_BF16, ROTA_SHAPE(DIM), &bias));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "r", ROTA_BF16, ROTA_SHAPE(rows, DIM), &r));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "weight", ROTA_BF16, ROTA_SHAPE(DIM), &weight));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "shift", ROTA_BF16, ROTA_SHAPE(DIM), &shift));
    assert_ok(rota_op_linear(tape, x, w, &ROTA_LINEAR(.bias = bias, .residual = r), &y));
    assert_ok(rota_op_layernorm(tape, y, weight, shift, 1e-5f, &z));
    assert_ok(rota_op_sum_squares(tape, z, &loss));
    const rota_tensor of[] = {w, bias, weight};
    assert_ok(rota_backward(tape, loss, of, 3, grads, NULL));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, "grad", ROTA_BF16, grads[i].rank, grads[i].shape,
                                   &out));
        assert_ok(rota_op_copy_into(tape, grads[i], out));
    }
    rota_tape_destroy(tape);
}

static void see(rota_runtime *runtime, rota_device *device, form f) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan = NULL;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_add_rewrite(graph, look, NULL));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    if (f == RECORDED)
        record_ops(recorder);
    else
        record(graph, recorder, f);
    rota_recorder_close(recorder);
    assert_int_not_equal(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan),
        ROTA_OK);
    assert_non_null(strstr(rota_last_error(), "looked"));
    rota_graph_release(graph);
}

static void who_makes_the_sums(void **state) {
    (void)state;
    if (!rota_kernels_have_cuda_images()) skip();
    cuda_stub_start(7, 1);
    rota_runtime *runtime;
    rota_device *devices[2];
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &devices[0]));
    uint32_t count;
    const rota_kernel *const *kernels = rota_kernel_table(&count);
    for (uint32_t k = 0; k < count; k++)
        if (kernels[k]->cuda.entry) cuda_stub_kernel(kernels[k]);
    assert_ok(rota_device_open(runtime, "cuda:0", &devices[1]));
    for (form f = PLAIN; f < FORMS; f++)
        for (int cuda = 0; cuda < 2; cuda++) {
            const bool fits = cuda && f <= RECORDED;
            see(runtime, devices[cuda], f);
            if (made != fits || plain != !fits || left != !fits)
                fail_msg("form %d on %s: %u norms make the sums, %u don't; %u layers make them", f,
                         cuda ? "cuda:0" : "cpu", made, plain, left);
        }
    assert_ok(rota_runtime_close(runtime, UINT64_C(20000000000)));
    cuda_stub_stop();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_makes_the_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    return 77; /* built without CUDA's headers */
}

#endif
