/* Products whose rows lie unevenly on a CUDA device: what is moved, what is not taken, which way is chosen, and what is
 * then put on the stream, by stand-ins for cuBLASLt and the driver. The kernels are looked at by their names, and done
 * here as they are described; what theirs calculate is for test_matmul_cuda_device. */
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cublasLt.h>)
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/linear_cuda.h"
#include "ops/cuda/matmul_choice.h"
#include "ops/cuda/matmul_cuda.h"
#include "ops/kernel_objects.h"
#include "ops/linear.h"
#include "tests/ops/cuda/cublaslt_standin.h"
#include "tests/ops/cuda/hopper.h"

static rota_matmul_params product(uint32_t m, uint32_t n, uint32_t k, uint32_t flags) {
    return (rota_matmul_params){.m = m,
                                .n = n,
                                .k = k,
                                .lda = flags & ROTA_MATMUL_TRANSPOSE_A ? m : k,
                                .ldb = flags & ROTA_MATMUL_TRANSPOSE_B ? k : n,
                                .ldc = n,
                                .flags = flags | ROTA_MATMUL_ALIGNED_16,
                                .c_dtype = ROTA_BF16,
                                .alpha = 1,
                                .batch = {1, 1, 1}};
}

static void skip_without_images(void) {
    const rota_matmul_params p = product(333, 333, 333, 0);
    if (rota_matmul_evened_takes(&p, ROTA_BF16, &hopper)) return;
    print_message("skipped: the Hopper kernels were not compiled\n");
    skip();
}

/* ---- By the parameters ---- */

static void assert_moved(const rota_matmul_moved *of, uint32_t rows, uint32_t length, uint32_t ld,
                         uint32_t even_ld, uint32_t blocks) {
    assert_int_equal(of->rows, rows);
    assert_int_equal(of->length, length);
    assert_int_equal(of->ld, ld);
    assert_int_equal(of->even_ld, even_ld);
    assert_int_equal(of->blocks, blocks);
}

static void what_is_moved(void **state) {
    (void)state;
    rota_matmul_evened e;
    /* GPT-2's scores of whole words, and the gradients of both: the weights as [words, width]. */
    rota_matmul_params p = product(4096, 50257, 768, ROTA_MATMUL_TRANSPOSE_B);
    rota_matmul_evened_of(&p, &e);
    assert_int_equal(e.workspace_bytes, 0);
    assert_true(e.by_threads);
    assert_memory_equal(&e.params, &p, sizeof p);
    p = product(4096, 768, 50257, 0);
    rota_matmul_evened_of(&p, &e);
    assert_false(e.by_threads);
    assert_moved(&e.moved[0], 4096, 50257, 50257, 50264, 1024 * 6283 / 256);
    assert_int_equal(e.moved[1].rows, 0);
    assert_int_equal(e.params.lda, 50264);
    assert_int_equal(e.params.ldb, 768);
    assert_int_equal(e.workspace_bytes, UINT64_C(4096) * 50264 * 2);
    p = product(50257, 768, 4096, ROTA_MATMUL_TRANSPOSE_A);
    rota_matmul_evened_of(&p, &e);
    assert_moved(&e.moved[0], 4096, 50257, 50257, 50264, 1024 * 6283 / 256);
    assert_int_equal(e.moved[1].rows, 0);
    assert_false(e.by_threads);
    /* All three; rows with gaps, which are left behind; the second operand begins at a multiple of 256. */
    p = product(13, 21, 35, 0);
    p.lda = 37, p.ldb = 101;
    rota_matmul_evened_of(&p, &e);
    assert_moved(&e.moved[0], 13, 35, 37, 40, 1);
    assert_moved(&e.moved[1], 35, 21, 101, 24, 1);
    assert_int_equal(e.offset[0], 0);
    assert_int_equal(e.offset[1], 1280);
    assert_int_equal(e.workspace_bytes, 1280 + 1792);
    /* A multiple of 16 bytes is one of 4 elements of f32, of which the threads store all. */
    p = product(16, 12, 24, ROTA_MATMUL_TRANSPOSE_B);
    rota_matmul_evened_of(&p, &e);
    assert_true(e.by_threads);
    p.c_dtype = ROTA_F32;
    rota_matmul_evened_of(&p, &e);
    assert_true(e.by_threads);
    assert_int_equal(e.workspace_bytes, 0);
}

static void assert_refuses(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target,
                           const char *why) {
    const char *refuses = rota_matmul_evened_refuses(p, dtype, target);
    if (!why) assert_null(refuses);
    if (why && (!refuses || !strstr(refuses, why))) fail_msg("'%s', not '%s'", refuses, why);
    assert_int_equal(rota_matmul_evened_takes(p, dtype, target), !refuses);
    if (why && !(p->flags & ROTA_LINEAR_EPILOGUE))
        assert_int_equal(rota_matmul_evened_workspace(p, dtype, target), 0);
}

static void what_is_refused(void **state) {
    (void)state;
    skip_without_images();
    const rota_matmul_params good = product(515, 517, 519, 0);
    rota_cuda_target other = hopper;
    rota_matmul_params p = good;
    assert_refuses(&good, ROTA_BF16, &hopper, NULL);
    assert_refuses(&good, ROTA_F16, &hopper, "neither of the operands' type nor f32");
    assert_refuses(&good, ROTA_F32, &hopper, "operands are not f16 or bf16");
    other.compute_capability = 100;
    assert_refuses(&good, ROTA_BF16, &other, "9.0");
    p.c_dtype = ROTA_F32;
    assert_refuses(&p, ROTA_F16, &hopper, NULL);
    p.flags |= ROTA_MATMUL_ACCUMULATE;
    assert_refuses(&p, ROTA_F16, &hopper, NULL);
    p = good;
    p.flags |= ROTA_LINEAR_BIAS;
    assert_refuses(&p, ROTA_BF16, &hopper, "follows the product");
    assert_true(rota_matmul_evened_workspace(&p, ROTA_BF16, &hopper) > 0); /* of the product by itself */
    p = good;
    p.batch[2] = 2;
    assert_refuses(&p, ROTA_BF16, &hopper, "several batches");
    p = good;
    p.k = 0;
    assert_refuses(&p, ROTA_BF16, &hopper, "empty");
    p = product(512, 512, 512, 0);
    assert_refuses(&p, ROTA_BF16, &hopper, "all rows are a multiple of 16 bytes apart");
    p.c_dtype = ROTA_F32;
    assert_refuses(&p, ROTA_BF16, &hopper, "all rows are a multiple of 16 bytes apart");
    p.ldc = 514;
    assert_refuses(&p, ROTA_BF16, &hopper, NULL);
    p = product(4, 50257, 768, 0); /* its operand is read once, or three times to be moved */
    assert_refuses(&p, ROTA_BF16, &hopper, "would cost more than it saves");
    p = product(4, 50257, 768, ROTA_MATMUL_TRANSPOSE_B);
    assert_refuses(&p, ROTA_BF16, &hopper, NULL);
}

static void what_a_call_has(void **state) {
    (void)state;
    rota_matmul_params p = product(515, 520, 519, 0); /* a is moved */
    rota_matmul_evened e;
    rota_matmul_evened_of(&p, &e);
    uint64_t operands[] = {0x1002, 0x2000, 0x3000, 0x4000}, bytes[] = {0, 0, 0, e.workspace_bytes};
    rota_cuda_call call = {.operands = operands, .operand_bytes = bytes, .operand_count = 4, .params = &p};
    assert_true(rota_matmul_evened_fits(&call));
    for (uint32_t i = 1; i < 4; i++) { /* what is copied by the copy engine */
        operands[i] += 8;
        assert_false(rota_matmul_evened_fits(&call));
        operands[i] -= 8;
    }
    operands[0] = 0x1001;
    assert_false(rota_matmul_evened_fits(&call));
    operands[0] = 0x1000;
    bytes[3]--;
    assert_false(rota_matmul_evened_fits(&call));
    bytes[3]++;
    call.operand_count = 3;
    assert_false(rota_matmul_evened_fits(&call));
    p = product(520, 515, 520, ROTA_MATMUL_TRANSPOSE_B); /* c is uneven, and nothing is moved */
    operands[2] = 0x3002;
    assert_true(rota_matmul_evened_fits(&call));
    p.c_dtype = ROTA_F32;
    assert_false(rota_matmul_evened_fits(&call));
    operands[2] = 0x3004;
    assert_true(rota_matmul_evened_fits(&call));
}

/* ---- On the stream ---- */

enum { SIDE = 136, MOST = SIDE * SIDE };

static struct {
    _Alignas(256) uint16_t a[MOST];
    _Alignas(256) uint16_t b[MOST];
    _Alignas(256) uint16_t c[MOST];
    _Alignas(256) uint64_t own[1 << 20];
} memory;

/* A kernel's first parameter. */
typedef struct move_args {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[4];
    rota_matmul_move_params params;
} move_args;
typedef struct product_args {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[3];
    rota_matmul_params params;
} product_args;

static struct {
    uint32_t count;
    char names[4][64]; /* of the last */
    bool is_done;      /* as well as noted */
} launches;

static uint16_t *halves(uint64_t address) {
    return (uint16_t *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

static void move_rows(const move_args *args) {
    for (uint32_t o = 0; o < 2; o++) {
        const rota_matmul_moved *of = &args->params.of[o];
        const uint16_t *from = halves(args->operands[2 * o]);
        uint16_t *to = halves(args->operands[2 * o + 1]);
        for (uint32_t row = 0; row < of->rows; row++)
            for (uint32_t i = 0; i < of->length; i++) to[row * of->even_ld + i] = from[row * of->ld + i];
    }
}

static void multiply(const rota_matmul_params *p, const uint16_t *a, const uint16_t *b, uint16_t *c) {
    for (uint32_t i = 0; i < p->m; i++)
        for (uint32_t j = 0; j < p->n; j++) {
            float sum = 0;
            for (uint32_t s = 0; s < p->k; s++)
                sum +=
                    cublaslt_of_bf16(
                        a[p->flags & ROTA_MATMUL_TRANSPOSE_A ? s * p->lda + i : i * p->lda + s]) *
                    cublaslt_of_bf16(b[p->flags & ROTA_MATMUL_TRANSPOSE_B ? j * p->ldb + s : s * p->ldb + j]);
            c[i * p->ldc + j] = cublaslt_to_bf16(sum);
        }
}

static void launched(const char *kernel, const void *args) {
    (void)snprintf(launches.names[launches.count++ % 4], sizeof launches.names[0], "%s", kernel);
    if (!launches.is_done) return;
    if (strcmp(kernel, "matmul_move") == 0) {
        move_rows(args);
        return;
    }
    const product_args *of = args;
    assert_int_equal(of->params.lda % 8, 0);
    assert_int_equal(of->params.ldb % 8, 0);
    multiply(&of->params, halves(of->operands[0]), halves(of->operands[1]), halves(of->operands[2]));
}

static rota_cuda_call call_of(const rota_matmul_params *p, const rota_cuda_target *target,
                              uint64_t workspace) {
    static uint64_t addresses[4], bytes[4];
    const uint64_t all[] = {(uint64_t)(uintptr_t)memory.a, (uint64_t)(uintptr_t)memory.b,
                            (uint64_t)(uintptr_t)memory.c, (uint64_t)(uintptr_t)memory.own};
    memcpy(addresses, all, sizeof all);
    bytes[0] = bytes[1] = bytes[2] = sizeof memory.a;
    bytes[3] = workspace;
    assert_true(workspace <= sizeof memory.own);
    launches.count = 0;
    cublaslt_standin.products = 0;
    cublaslt_standin.launched = launched;
    return (rota_cuda_call){.target = target,
                            .stream = (void *)(uintptr_t)CUBLASLT_STANDIN_STREAM,
                            .operands = addresses,
                            .operand_bytes = bytes,
                            .operand_count = workspace ? 4 : 3,
                            .params = p};
}

static void choose(const rota_matmul_params *p, const rota_matmul_choice *choice) {
    char key[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice kept = *choice, found;
    rota_choices_forget();
    rota_matmul_choice_key(p, ROTA_BF16, &hopper, key, sizeof key);
    assert_non_null(strstr(key, ", uneven")); /* apart from what an edition without these kernels measured */
    rota_choices_remember(NULL, key, &kept, sizeof kept);
    assert_true(rota_matmul_choice_find(p, ROTA_BF16, &hopper, &found));
}

/* Operands of which one, both or none is moved, to each layout; results stored by a map and by threads; without its
 * workspace, and at odd addresses, the product is cuBLASLt's. */
static void what_is_launched(void **state) {
    (void)state;
    skip_without_images();
    static uint16_t expected[MOST];
    static const uint32_t extents[][3] = {
        {105, 131, 135}, {128, 131, 72}, {105, 128, 135}, {135, 136, 128}, {128, 128, 131}};
    launches.is_done = true;
    for (uint32_t i = 0; i < MOST; i++) {
        memory.a[i] = cublaslt_to_bf16(sinf((float)(3 * i + 1)));
        memory.b[i] = cublaslt_to_bf16(cosf((float)(5 * i + 2)));
    }
    for (uint32_t s = 0; s < sizeof extents / sizeof *extents; s++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            const rota_matmul_params p = product(extents[s][0], extents[s][1], extents[s][2], flags);
            const char *refuses = rota_matmul_evened_refuses(&p, ROTA_BF16, &hopper);
            if (refuses) {
                assert_string_equal(refuses, "all rows are a multiple of 16 bytes apart");
                continue;
            }
            const uint64_t workspace = rota_cuda_product_workspace(&p, ROTA_BF16, &hopper);
            rota_matmul_evened e;
            rota_matmul_evened_of(&p, &e);
            assert_true(workspace >= e.workspace_bytes);
            choose(&p, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_EVENED, .tile = (s + flags) % 6});
            multiply(&p, memory.a, memory.b, expected);
            rota_cuda_call call = call_of(&p, &hopper, workspace);
            memset(memory.c, 0, sizeof memory.c);
            assert_ok(rota_cuda_call_product(&call, ROTA_BF16));
            assert_int_equal(cublaslt_standin.products, 0);
            assert_int_equal(launches.count, e.workspace_bytes ? 2 : 1);
            if (e.workspace_bytes) assert_string_equal(launches.names[0], "matmul_move");
            static const char *const layouts[] = {"_bf16_nn_", "_bf16_nt_", "_bf16_tn_", "_bf16_tt_"};
            const char *last = launches.names[launches.count - 1];
            assert_non_null(strstr(last, e.by_threads ? "matmul_evened" : "matmul_sm90"));
            assert_non_null(strstr(last, layouts[(flags & 1) * 2 + flags / 2]));
            assert_memory_equal(memory.c, expected, (size_t)p.m * p.n * 2);
            if (e.workspace_bytes) {
                call = call_of(&p, &hopper, e.workspace_bytes - 1);
                assert_ok(rota_cuda_call_product(&call, ROTA_BF16));
                assert_int_equal(launches.count, 0);
                assert_int_equal(cublaslt_standin.products, 1);
                assert_int_equal(rota_matmul_evened_run(&call, ROTA_BF16, 0), ROTA_UNSUPPORTED);
                assert_non_null(strstr(rota_last_error(), "bytes of workspace, and has"));
            }
        }
    rota_choices_forget();
}

/* Of plans that are deterministic: what is large enough, by its parameters, is these kernels'. */
static void by_table(void **state) {
    (void)state;
    skip_without_images();
    rota_cuda_target table = hopper;
    table.by_table = true;
    launches.is_done = false;
    rota_choices_forget();
    rota_matmul_params p = product(1300, 1301, 1304, ROTA_MATMUL_TRANSPOSE_B);
    rota_cuda_call call = call_of(&p, &table, 0);
    assert_ok(rota_cuda_call_product(&call, ROTA_BF16));
    assert_int_equal(launches.count, 1);
    assert_int_equal(cublaslt_standin.products, 0);
    assert_non_null(strstr(launches.names[0], "matmul_evened_bf16_nt"));
    assert_true(rota_matmul_evened_by_table(&p));
    p.flags = ROTA_MATMUL_TRANSPOSE_B; /* operands may lie anywhere */
    assert_false(rota_matmul_evened_by_table(&p));
    p = product(64, 67, 64, ROTA_MATMUL_TRANSPOSE_B); /* small */
    assert_false(rota_matmul_evened_by_table(&p));
    call = call_of(&p, &table, 0);
    assert_ok(rota_cuda_call_product(&call, ROTA_BF16));
    assert_int_equal(launches.count, 0);
    assert_int_equal(cublaslt_standin.products, 1);
    rota_choices_forget();
}

/* Of a gradient of GPT-2's words, whose operand takes 393 MiB to move: before it is measured, by what is measured to be
 * the fastest, and by table. */
static void what_is_asked_for(void **state) {
    (void)state;
    skip_without_images();
    rota_cuda_target table = hopper;
    table.by_table = true;
    rota_choices_forget();
    rota_matmul_params p = product(4096, 768, 50257, 0);
    const uint64_t moved = UINT64_C(4096) * 50264 * 2;
    assert_int_equal(rota_cuda_product_workspace(&p, ROTA_BF16, &hopper), moved);
    assert_int_equal(rota_cuda_product_workspace(&p, ROTA_BF16, &table), moved);
    choose(&p, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_EVENED});
    assert_int_equal(rota_cuda_product_workspace(&p, ROTA_BF16, &hopper), moved);
    choose(&p,
           &(rota_matmul_choice){.way = ROTA_MATMUL_BY_CUBLASLT, .algorithm = {.workspace_bytes = 12288}});
    assert_int_equal(rota_cuda_product_workspace(&p, ROTA_BF16, &hopper), 12288);
    assert_int_equal(rota_cuda_product_workspace(&p, ROTA_BF16, &table), moved); /* whatever was measured */
    p.flags &= ~(uint32_t)ROTA_MATMUL_ALIGNED_16; /* cuBLASLt's by table, whose tiles leave nobody idle */
    assert_int_equal(rota_cuda_product_workspace(&p, ROTA_BF16, &table), 0);
    /* With an epilogue that is a kernel of its own: what the product alone wants. */
    const rota_matmul_params alone = product(512, 1024, 1003, 0);
    rota_matmul_params fused = alone;
    fused.flags |= ROTA_LINEAR_GELU | ROTA_LINEAR_KEEP;
    const uint64_t any = rota_cuda_product_workspace(&fused, ROTA_BF16, &hopper);
    assert_true(any >= rota_matmul_evened_workspace(&alone, ROTA_BF16, &hopper));
    choose(&fused, &(rota_matmul_choice){.way = ROTA_MATMUL_SEPARATELY});
    assert_int_equal(rota_cuda_product_workspace(&fused, ROTA_BF16, &hopper), any);
    char key[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice way = {.way = ROTA_MATMUL_BY_CUBLASLT, .algorithm = {.workspace_bytes = 4096}};
    rota_matmul_choice_key(&alone, ROTA_BF16, &hopper, key, sizeof key);
    rota_choices_remember(NULL, key, &way, sizeof way);
    assert_int_equal(rota_cuda_product_workspace(&fused, ROTA_BF16, &hopper), 4096);
    /* Even rows: rota's other kernels want none. */
    p = product(256, 256, 256, 0);
    assert_true(rota_cuda_product_workspace(&p, ROTA_BF16, &hopper) > 0);
    rota_choices_forget();
    way = (rota_matmul_choice){.way = ROTA_MATMUL_BY_SM90};
    rota_matmul_choice_key(&p, ROTA_BF16, &hopper, key, sizeof key);
    rota_choices_remember(NULL, key, &way, sizeof way);
    assert_int_equal(rota_cuda_product_workspace(&p, ROTA_BF16, &hopper), 0);
    rota_choices_forget();
}

static const char *why(const rota_matmul_params *p, const rota_cuda_target *target) {
    static char text[16384];
    rota_text_out out = {text, sizeof text, 0};
    rota_cuda_why_product(&out, p, ROTA_BF16, target);
    return text;
}

static void assert_says(const char *text, const char *what) {
    if (!strstr(text, what)) fail_msg("'%s' is not in:\n%s", what, text);
}

/* A layer of which x has uneven rows, and w, where it lies transposed: moved before the kernel with the epilogue. One
 * with uneven results is the product alone, by these kernels, and what comes after. */
static void linear_layers(void **state) {
    (void)state;
    skip_without_images();
    enum { M = 128, WORKSPACE = 1 << 22 };
    launches.is_done = false;
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t n = i == 2 ? 131 : 128, flags = ROTA_LINEAR_GELU | ROTA_LINEAR_KEEP |
                                                       ROTA_LINEAR_BIAS |
                                                       (i == 1 ? ROTA_MATMUL_TRANSPOSE_B : 0);
        const rota_linear_params p = {.m = M,
                                      .n = n,
                                      .k = 133,
                                      .lda = 133,
                                      .ldb = i == 1 ? 133 : n,
                                      .flags = flags,
                                      .dtype = ROTA_BF16,
                                      .chunk = M};
        const rota_matmul_params fused = rota_linear_product(&p);
        rota_matmul_params alone = fused;
        alone.flags &= ~(uint32_t)ROTA_LINEAR_EPILOGUE;
        assert_int_equal(rota_linear_evened_takes(&fused, ROTA_BF16, &hopper), i < 2);
        assert_true(rota_cuda_workspace_linear(&p, NULL, &hopper) <= WORKSPACE);
        uint64_t operands[ROTA_LINEAR_OPERANDS + 1], bytes[ROTA_LINEAR_OPERANDS + 1];
        for (uint32_t o = 0; o < ROTA_LINEAR_OPERANDS; o++) /* kernels are not run, and products not made */
            operands[o] = 0x10000 * (o + 1), bytes[o] = M * 136 * 2;
        operands[ROTA_LINEAR_OPERANDS] = 0x100000, bytes[ROTA_LINEAR_OPERANDS] = WORKSPACE;
        const rota_cuda_call call = {.target = &hopper,
                                     .stream = (void *)(uintptr_t)CUBLASLT_STANDIN_STREAM,
                                     .operands = operands,
                                     .operand_bytes = bytes,
                                     .operand_count = ROTA_LINEAR_OPERANDS + 1,
                                     .params = &p};
        choose(&alone, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_EVENED});
        char key[ROTA_CHOICE_KEY_MAX];
        rota_matmul_choice way = {.way = i < 2 ? ROTA_MATMUL_BY_EVENED : ROTA_MATMUL_SEPARATELY};
        rota_matmul_choice_key(&fused, ROTA_BF16, &hopper, key, sizeof key);
        assert_non_null(strstr(key, ", uneven"));
        rota_choices_remember(NULL, key, &way, sizeof way);
        launches.count = cublaslt_standin.products = 0;
        cublaslt_standin.launched = launched;
        assert_ok(rota_cuda_call_linear(&call));
        assert_int_equal(cublaslt_standin.products, 0);
        assert_string_equal(launches.names[0], "matmul_move");
        const char *const second[] = {"linear_sm90_gelu_bf16_nn", "linear_sm90_gelu_bf16_nt",
                                      "matmul_evened_bf16_nn"};
        assert_memory_equal(launches.names[1], second[i], strlen(second[i]));
        assert_true(i < 2 ? launches.count == 2 : launches.count > 2);
        if (i == 0) assert_says(why(&fused, &hopper), "epilogue, tile 128x128");
        if (i == 0) assert_says(why(&fused, &hopper), "; a moved to even rows first");
    }
    rota_choices_forget();
}

/* They are measured beside cuBLASLt, where there is workspace, and it is said what they do. */
static void what_is_measured(void **state) {
    (void)state;
    skip_without_images();
    launches.is_done = false;
    cublaslt_standin.algorithms = 1;
    cublaslt_standin.run_ms = 6;
    rota_matmul_params p = product(71, 71, 71, 0);
    const uint64_t workspace = rota_cuda_product_workspace(&p, ROTA_BF16, &hopper);
    for (uint32_t has = 0; has < 2; has++) {
        rota_choices_forget();
        launches.count = 0;
        const rota_cuda_call call = call_of(&p, &hopper, has ? workspace : 0);
        assert_ok(rota_matmul_choice_measure(&call, ROTA_BF16, NULL));
        rota_matmul_report report;
        uint32_t evened = 0;
        assert_true(rota_matmul_choice_report(&p, ROTA_BF16, &hopper, &report).is_known);
        for (uint32_t i = 0; i < report.count; i++)
            evened += report.candidates[i].choice.way == ROTA_MATMUL_BY_EVENED;
        assert_int_equal(evened > 0, has);
        if (!has) continue;
        assert_says(why(&p, &hopper),
                    "left out: rota's Hopper kernels: a leading dimension is not a multiple");
        assert_says(why(&p, &hopper), "; a and b moved to even rows first, 20 KiB; c stored by the threads");
    }
    rota_choices_forget();
    rota_cuda_target table = hopper;
    table.by_table = true;
    p = product(1300, 1301, 1304, ROTA_MATMUL_TRANSPOSE_B);
    assert_says(why(&p, &table), "runs: rota's Hopper kernel of uneven rows, of the tile");
    p = product(4, 50257, 768, 0);
    assert_says(why(&p, &table), "left out: those of uneven rows: to move its operands");
    rota_choices_forget();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_moved),    cmocka_unit_test(what_is_refused),
        cmocka_unit_test(what_a_call_has),  cmocka_unit_test(what_is_launched),
        cmocka_unit_test(by_table),         cmocka_unit_test(linear_layers),
        cmocka_unit_test(what_is_measured), cmocka_unit_test(what_is_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else /* nor has the library */
int main(void) {
    return 77;
}
#endif
