/* Matrix products on a CUDA device: rota's Hopper kernels, and the library nodes that select gives, against
 * sums in f64. Skipped where there is no Hopper GPU. */
#include "tests/kit/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/half.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/matmul_choice.h"
#include "ops/cuda/matmul_cuda.h"
#include "tests/ops/cuda/cuda_kit.h"

typedef struct trial {
    rota_matmul_params params;
    rota_dtype dtype;
    uint64_t count[3]; /* elements of the operands, batches and all */
    uint64_t offset;   /* elements between a 256-byte boundary and each operand's first one */
    uint32_t every;    /* of so many rows of c one is calculated; 0: all are */
    float *values[3];  /* what a, b and, before the product, c hold */
    uint64_t address[3];
} trial;

static rota_dtype dtype_of(const trial *t, int operand) {
    return operand == 2 ? (rota_dtype)t->params.c_dtype : t->dtype;
}

static void trial_make(cuda_kit *kit, trial *t) {
    const rota_matmul_params *p = &t->params;
    const uint32_t *strides[3] = {p->a_batch_stride, p->b_batch_stride, p->c_batch_stride};
    t->count[0] = (uint64_t)(p->flags & ROTA_MATMUL_TRANSPOSE_A ? p->k : p->m) * p->lda;
    t->count[1] = (uint64_t)(p->flags & ROTA_MATMUL_TRANSPOSE_B ? p->n : p->k) * p->ldb;
    t->count[2] = (uint64_t)p->m * p->ldc;
    uint32_t seed = 1 + p->m + p->n * 3 + p->k * 5;
    for (int o = 0; o < 3; o++) {
        for (int axis = 0; axis < 3; axis++) t->count[o] += (uint64_t)(p->batch[axis] - 1) * strides[o][axis];
        const uint64_t bytes = rota_dtype_bytes(dtype_of(t, o));
        t->values[o] = malloc(t->count[o] * sizeof *t->values[o]);
        void *data = malloc(t->count[o] * bytes);
        assert_true(t->values[o] && data);
        for (uint64_t i = 0; i < t->count[o]; i++) {
            seed = seed * 1664525u + 1013904223u;
            element_set(data, dtype_of(t, o), i, (float)(seed >> 8) / (1 << 23) - 1);
            t->values[o][i] = element_get(data, dtype_of(t, o), i);
        }
        t->address[o] = cuda_kit_alloc(kit, (t->count[o] + t->offset) * bytes + 256) + t->offset * bytes;
        cuda_kit_write(kit, t->address[o], data, t->count[o] * bytes);
        free(data);
    }
}

static void trial_free(cuda_kit *kit, trial *t) {
    for (int o = 0; o < 3; o++) {
        cuda_kit_free(kit, t->address[o] - t->offset * rota_dtype_bytes(dtype_of(t, o)));
        free(t->values[o]);
    }
}

/* c against sums in f64; what lies between c's rows must be as it was. */
static void trial_check(cuda_kit *kit, const trial *t, const char *what) {
    const rota_matmul_params *p = &t->params;
    const rota_dtype type = dtype_of(t, 2);
    void *got = malloc(t->count[2] * rota_dtype_bytes(type));
    float *expected = malloc(t->count[2] * sizeof *expected), *bound = calloc(t->count[2], sizeof *bound);
    assert_true(got && expected && bound);
    cuda_kit_read(kit, t->address[2], got, t->count[2] * rota_dtype_bytes(type));
    memcpy(expected, t->values[2], t->count[2] * sizeof *expected);
    for (uint32_t i = 0; t->every && i < p->m; i++) /* what is not calculated may be anything */
        for (uint32_t j = 0; j < p->n && i % t->every; j++) bound[(uint64_t)i * p->ldc + j] = INFINITY;
    const double unit = type == ROTA_F16 ? 0x1p-11 : type == ROTA_BF16 ? 0x1p-8 : 0x1p-22;
    for (uint32_t x = 0; x < p->batch[0]; x++)
        for (uint32_t y = 0; y < p->batch[1]; y++)
            for (uint32_t z = 0; z < p->batch[2]; z++)
                for (uint32_t i = 0; i < p->m; i += t->every ? t->every : 1)
                    for (uint32_t j = 0; j < p->n; j++) {
                        const float *a = t->values[0] + (uint64_t)x * p->a_batch_stride[0] +
                                         (uint64_t)y * p->a_batch_stride[1] +
                                         (uint64_t)z * p->a_batch_stride[2];
                        const float *b = t->values[1] + (uint64_t)x * p->b_batch_stride[0] +
                                         (uint64_t)y * p->b_batch_stride[1] +
                                         (uint64_t)z * p->b_batch_stride[2];
                        const uint64_t element =
                            (uint64_t)i * p->ldc + j + (uint64_t)x * p->c_batch_stride[0] +
                            (uint64_t)y * p->c_batch_stride[1] + (uint64_t)z * p->c_batch_stride[2];
                        double sum = 0, size = 0;
                        for (uint32_t s = 0; s < p->k; s++) {
                            double product_ =
                                (double)a[p->flags & ROTA_MATMUL_TRANSPOSE_A ? (uint64_t)s * p->lda + i
                                                                             : (uint64_t)i * p->lda + s] *
                                (double)b[p->flags & ROTA_MATMUL_TRANSPOSE_B ? (uint64_t)j * p->ldb + s
                                                                             : (uint64_t)s * p->ldb + j];
                            sum += product_;
                            size += fabs(product_);
                        }
                        sum *= (double)p->alpha;
                        if (p->flags & ROTA_MATMUL_ACCUMULATE) sum += (double)t->values[2][element];
                        expected[element] = (float)sum;
                        bound[element] = (float)(fabs(sum) * unit + (size + 1) * p->k * 0x1p-24 + 1e-6);
                    }
    for (uint64_t i = 0; i < t->count[2]; i++) {
        const float value = element_get(got, type, i);
        if (!(fabsf(value - expected[i]) <= bound[i]))
            fail_msg("%s, %u x %u x %u, flags %u: c[%llu] is %.9g, expected %.9g within %.2g", what, p->m,
                     p->n, p->k, p->flags, (unsigned long long)i, (double)value, (double)expected[i],
                     (double)bound[i]);
    }
    free(got);
    free(expected);
    free(bound);
}

static rota_cuda_call call_of(cuda_kit *kit, const trial *t, uint64_t *operands, uint64_t *bytes) {
    for (int o = 0; o < 3; o++) {
        operands[o] = t->address[o];
        bytes[o] = t->count[o] * rota_dtype_bytes(dtype_of(t, o));
    }
    return (rota_cuda_call){.target = &kit->target,
                            .stream = kit->stream,
                            .operands = operands,
                            .operand_bytes = bytes,
                            .operand_count = 3,
                            .params = &t->params};
}

static void skip_without_hopper(cuda_kit *kit) {
    const char *why = cuda_kit_open(kit);
    if (!why && kit->target.compute_capability != 90) {
        why = "the device is no Hopper GPU";
        cuda_kit_close(kit);
    }
    if (why) {
        print_message("skipped: %s\n", why);
        skip();
    }
}

static void test_every_tile(void **state) {
    (void)state;
    cuda_kit kit;
    skip_without_hopper(&kit);
    static const uint32_t shapes[][3] = {
        {128, 256, 64}, {384, 384, 384}, {200, 72, 520}, {1, 8, 8}, {328, 1016, 136}};
    for (uint32_t tile = 0; tile < ROTA_MATMUL_SM90_TILE_COUNT; tile++)
        for (uint32_t flags = 0; flags < 4; flags++)
            for (uint32_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                const rota_dtype dtype = (tile + flags + s) % 2 ? ROTA_BF16 : ROTA_F16;
                /* Rows that begin 16 bytes apart, and results with gaps. */
                uint32_t m = (shapes[s][0] + 7) & ~7u;
                trial t = {.params = cuda_kit_product(m, shapes[s][1], shapes[s][2], flags, dtype),
                           .dtype = dtype};
                t.params.m = shapes[s][0];
                t.params.ldc += s % 2 ? 8 : 0;
                t.params.lda += s % 3 ? 8 : 0;
                t.params.alpha = s == 1 ? 0.5f : 1.0f;
                t.offset = s == 2 ? 8 : 0;
                if (!rota_matmul_sm90_takes(&t.params, dtype, &kit.target))
                    fail_msg("a product is not taken");
                trial_make(&kit, &t);
                uint64_t operands[4], bytes[4];
                rota_cuda_call call = call_of(&kit, &t, operands, bytes);
                assert_ok(rota_matmul_sm90_run(&call, dtype, tile));
                cuda_kit_finish(&kit);
                char what[64];
                snprintf(what, sizeof what, "tile %u x %u", rota_matmul_sm90_tiles[tile].rows,
                         rota_matmul_sm90_tiles[tile].columns);
                trial_check(&kit, &t, what);
                trial_free(&kit, &t);
            }
    cuda_kit_close(&kit);
}

/* ---- Uneven rows ---- */

/* As it is put on the stream once operands and workspace are there. */
static void check_uneven(cuda_kit *kit, trial *t, uint32_t tile, const char *what) {
    uint64_t operands[4], bytes[4];
    rota_matmul_evened e;
    rota_matmul_evened_of(&t->params, &e);
    trial_make(kit, t);
    rota_cuda_call call = call_of(kit, t, operands, bytes);
    operands[3] = cuda_kit_alloc(kit, e.workspace_bytes + 1), bytes[3] = e.workspace_bytes;
    call.operand_count = 4;
    assert_true(rota_matmul_evened_fits(&call));
    assert_ok(rota_matmul_evened_run(&call, t->dtype, tile));
    cuda_kit_finish(kit);
    trial_check(kit, t, what);
    cuda_kit_free(kit, operands[3]);
    trial_free(kit, t);
}

/* Each extent odd; one operand, both, or the result alone uneven; every distance between rows that a copy of 16 bytes
 * can have; operands at odd elements; a result's rows with and without gaps, of each type, added to what is there. */
static void test_uneven_rows(void **state) {
    (void)state;
    cuda_kit kit;
    skip_without_hopper(&kit);
    static const uint32_t shapes[][3] = {{257, 259, 131}, {165, 83, 333}, {107, 1334, 301},
                                         {64, 250, 64},   {200, 72, 127}, {1, 513, 65},
                                         {130, 131, 8},   {511, 1, 64},   {2500, 2501, 19}};
    enum { COUNT = sizeof shapes / sizeof *shapes };
    for (uint32_t tile = 0; tile < ROTA_MATMUL_SM90_TILE_COUNT; tile++)
        for (uint32_t s = 0; s < COUNT; s++)
            for (uint32_t flags = 0; flags < 4; flags++) {
                if (s + 1 == COUNT && flags != tile % 4) continue; /* more tiles than multiprocessors */
                const uint32_t draw = tile + flags + s;
                const rota_dtype dtype = draw % 2 ? ROTA_BF16 : ROTA_F16;
                const bool wide = draw % 3 == 1, adds = draw % 9 == 1;
                trial t = {.params = cuda_kit_product(shapes[s][0], shapes[s][1], shapes[s][2],
                                                      flags | (adds ? ROTA_MATMUL_ACCUMULATE : 0),
                                                      wide ? ROTA_F32 : dtype),
                           .dtype = dtype};
                t.params.lda += draw % 4 ? draw % 11 : 0;
                t.params.ldb += draw % 5 ? draw % 7 : 0;
                t.params.ldc += draw % 6;
                t.params.alpha = draw % 4 == 2 ? 0.5f : 1.0f;
                t.every = s + 1 == COUNT ? 7 : 0;
                rota_matmul_evened e;
                rota_matmul_evened_of(&t.params, &e);
                if (!e.by_threads && !e.workspace_bytes) t.params.ldc++; /* the one that came out even */
                rota_matmul_evened_of(&t.params, &e);
                if (e.by_threads && e.moved[0].rows && e.moved[1].rows) t.offset = draw % 3;
                char what[64];
                snprintf(what, sizeof what, "tile %u, uneven, leading %u %u %u", tile, t.params.lda,
                         t.params.ldb, t.params.ldc);
                check_uneven(&kit, &t, tile, what);
            }
    cuda_kit_close(&kit);
}

/* The node that select gives: measured, of which the way is among the candidates, and by table, captured both times. */
static void test_uneven_nodes(void **state) {
    (void)state;
    cuda_kit kit;
    skip_without_hopper(&kit);
    static const uint32_t shapes[][4] = {{1300, 1301, 1303, 0},
                                         {1024, 5025, 768, ROTA_MATMUL_TRANSPOSE_B},
                                         {1024, 768, 5025, 0},
                                         {5025, 768, 1024, ROTA_MATMUL_TRANSPOSE_A}};
    for (uint32_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (uint32_t by_table = 0; by_table < 2; by_table++) {
            trial t = {.params = cuda_kit_product(shapes[s][0], shapes[s][1], shapes[s][2],
                                                  shapes[s][3] | ROTA_MATMUL_ALIGNED_16, ROTA_BF16),
                       .dtype = ROTA_BF16,
                       .every = 97};
            kit.target.by_table = by_table != 0;
            assert_true(rota_matmul_evened_by_table(&t.params));
            const rota_kernel *kernel = rota_cuda_select_matmul_bf16(&t.params, NULL, 0, &kit.target);
            assert_non_null(kernel);
            uint64_t operands[4], bytes[4];
            rota_choices_forget();
            trial_make(&kit, &t);
            rota_cuda_call call = call_of(&kit, &t, operands, bytes);
            bytes[3] = kernel->cuda.workspace(&t.params, bytes, &kit.target);
            assert_true(bytes[3] >= rota_matmul_evened_workspace(&t.params, t.dtype, &kit.target));
            operands[3] = cuda_kit_alloc(&kit, bytes[3] + 1);
            call.operand_count = 4;
            if (!by_table) {
                rota_matmul_report report = {0};
                uint32_t evened = 0;
                assert_ok(kernel->cuda.tune(&call)); /* which overwrites the operands */
                assert_true(rota_matmul_choice_report(&t.params, t.dtype, &kit.target, &report).is_known);
                for (uint32_t i = 0; i < report.count; i++)
                    evened += report.candidates[i].choice.way == ROTA_MATMUL_BY_EVENED &&
                              report.candidates[i].measured.look_ms > 0;
                assert_true(evened > 0);
                trial_free(&kit, &t);
                trial_make(&kit, &t);
                for (int o = 0; o < 3; o++) operands[o] = t.address[o];
            }
            cuda_kit_capture_begin(&kit);
            assert_ok(kernel->cuda.call(&call));
            cuda_kit_capture_end_and_run(&kit);
            trial_check(&kit, &t, by_table ? "uneven, by table" : "uneven, measured");
            cuda_kit_free(&kit, operands[3]);
            trial_free(&kit, &t);
        }
    rota_choices_forget();
    cuda_kit_close(&kit);
}

/* ---- Products with what follows them ---- */

/* 16-bit values of an operand of its own, as f32, and where it is. */
typedef struct array {
    uint64_t count, address;
    float *values;
} array;

static array array_make(cuda_kit *kit, rota_dtype dtype, uint64_t count, float size, uint32_t seed) {
    array a = {count, cuda_kit_alloc(kit, count * 2), malloc(count * sizeof *a.values)};
    uint16_t *data = malloc(count * sizeof *data);
    assert_true(data && a.values);
    for (uint64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        element_set(data, dtype, i, size * ((float)(seed >> 8) / (1 << 23) - 1));
        a.values[i] = element_get(data, dtype, i);
    }
    cuda_kit_write(kit, a.address, data, count * 2);
    free(data);
    return a;
}

static void array_read(cuda_kit *kit, const array *a, rota_dtype dtype) {
    void *data = malloc(a->count * 4);
    assert_non_null(data);
    cuda_kit_read(kit, a->address, data, a->count * rota_dtype_bytes(dtype));
    for (uint64_t i = 0; i < a->count; i++) a->values[i] = element_get(data, dtype, i);
    free(data);
}

static void array_free(cuda_kit *kit, array *a) {
    cuda_kit_free(kit, a->address);
    free(a->values);
}

static double slope_of_gelu(double x, double *out_gelu) {
    const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = tanh(u);
    *out_gelu = 0.5 * x * (1 + t);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

static void assert_near(const char *what, const rota_matmul_params *p, uint64_t element, float value,
                        double expected, double bound) {
    if (isnan(expected) ? !isnan(value) : !(fabs((double)value - expected) <= bound))
        fail_msg("%s, %u x %u x %u, flags %u: element %llu is %.9g, expected %.9g within %.2g", what, p->m,
                 p->n, p->k, p->flags, (unsigned long long)element, (double)value, expected, bound);
}

/* Of dz's columns, over each tile's rows; behind them is the NaN that memory begins with. */
static void check_column_sums(cuda_kit *kit, const rota_matmul_params *p, const array *dz, uint64_t sums) {
    const uint64_t chunk = ROTA_LINEAR_SM90_ROWS, chunks = (p->m + chunk - 1) / chunk;
    for (uint64_t c = 0; c <= chunks; c++)
        for (uint32_t j = 0; j < p->n; j++) {
            double sum = c < chunks ? 0 : NAN, size = 0;
            for (uint64_t i = c * chunk; i < (c + 1) * chunk && i < p->m; i++) {
                sum += (double)dz->values[i * p->n + j];
                size += fabs((double)dz->values[i * p->n + j]);
            }
            float got;
            cuda_kit_read(kit, sums + (c * p->n + j) * sizeof got, &got, sizeof got);
            assert_near("sums", p, c * p->n + j, got, sum, size * 0x1p-20 + 1e-6);
        }
}

/* kept = x w + bias and y = GELU of that; or dz = x w times GELU's slope at kept, with sums of its columns. */
static void check_linear(cuda_kit *kit, const rota_matmul_params *p, rota_dtype dtype, bool gradient) {
    const uint64_t chunk = ROTA_LINEAR_SM90_ROWS, chunks = (p->m + chunk - 1) / chunk;
    const double unit = dtype == ROTA_F16 ? 0x1p-11 : 0x1p-8;
    array x = array_make(kit, dtype, (uint64_t)p->m * p->k, 1, 1),
          w = array_make(kit, dtype, (uint64_t)p->n * p->k, 0.5f, 2),
          bias = array_make(kit, dtype, p->n, 2, 3),
          kept = array_make(kit, dtype, (uint64_t)p->m * p->n, 4, 4),
          y = array_make(kit, dtype, (uint64_t)p->m * p->n, 1, 5), sums = {.address = 0};
    sums.address = cuda_kit_alloc(kit, (chunks + 1) * p->n * sizeof(float));
    const rota_linear_sm90_operands operands = {x.address, w.address, y.address, kept.address,
                                                gradient ? sums.address : bias.address};
    const rota_cuda_call call = {.target = &kit->target, .stream = kit->stream};
    assert_true(gradient ? rota_linear_sm90_takes_gradient(p, dtype, &kit->target)
                         : rota_linear_sm90_takes(p, dtype, &kit->target));
    assert_true(rota_linear_sm90_aligned(&operands));
    assert_ok(rota_linear_sm90_run(&call, p, dtype, gradient, &operands));
    cuda_kit_finish(kit);
    array_read(kit, &y, dtype);
    if (!gradient) array_read(kit, &kept, dtype);
    for (uint32_t i = 0; i < p->m; i++)
        for (uint32_t j = 0; j < p->n; j++) {
            const uint64_t element = (uint64_t)i * p->n + j;
            double sum = 0, size = 0, gelu;
            for (uint32_t s = 0; s < p->k; s++) {
                const double product =
                    (double)x.values[(uint64_t)i * p->k + s] *
                    (double)w.values[p->flags & ROTA_MATMUL_TRANSPOSE_B ? (uint64_t)j * p->k + s
                                                                        : (uint64_t)s * p->n + j];
                sum += product;
                size += fabs(product);
            }
            const double error = (size + 1) * p->k * 0x1p-24 + 1e-5;
            if (gradient) {
                const double slope = slope_of_gelu((double)kept.values[element], &gelu);
                assert_near("dz", p, element, y.values[element], sum * slope,
                            fabs(sum * slope) * unit + 1.2 * error + fabs(sum) * 1e-5);
            } else {
                if (p->flags & ROTA_LINEAR_BIAS) sum += (double)bias.values[j];
                (void)slope_of_gelu(sum, &gelu);
                assert_near("kept", p, element, kept.values[element], sum, fabs(sum) * unit + error);
                assert_near("y", p, element, y.values[element], gelu,
                            fabs(gelu) * unit + 1.2 * error + fabs(sum) * 1e-5);
            }
        }
    if (gradient) check_column_sums(kit, p, &y, sums.address);
    array_free(kit, &x), array_free(kit, &w), array_free(kit, &bias);
    array_free(kit, &kept), array_free(kit, &y), array_free(kit, &sums);
}

static void test_linear(void **state) {
    (void)state;
    cuda_kit kit;
    skip_without_hopper(&kit);
    /* One tile, rows and columns beyond it, long and short sums, and more tiles than there are multiprocessors. */
    static const uint32_t shapes[][3] = {{128, 128, 64}, {8, 8, 8},        {136, 72, 520},
                                         {640, 392, 72}, {256, 1024, 704}, {1900, 2304, 40}};
    const uint32_t gelu = ROTA_LINEAR_GELU | ROTA_LINEAR_KEEP;
    for (uint32_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (uint32_t way = 0; way < 8; way++) {
            const uint32_t transposed = way & 1 ? ROTA_MATMUL_TRANSPOSE_B : 0;
            const rota_dtype dtype = way & 2 ? ROTA_BF16 : ROTA_F16;
            const uint32_t flags = way & 4 ? 0 : gelu | ((s + way) % 3 ? ROTA_LINEAR_BIAS : 0);
            const rota_matmul_params p =
                cuda_kit_product(shapes[s][0], shapes[s][1], shapes[s][2], transposed | flags, dtype);
            check_linear(&kit, &p, dtype, (way & 4) != 0);
        }
    cuda_kit_close(&kit);
}

/* What select gives: measured or not, captured into a graph, replayed; aligned and not; one batch and many.
 */
static void test_library_nodes(void **state) {
    (void)state;
    cuda_kit kit;
    skip_without_hopper(&kit);
    char folder_path[] = "/tmp/rota-choices-XXXXXX";
    assert_non_null(mkdtemp(folder_path));
    kit.target.cache_dir = folder_path;
    for (uint32_t i = 0; i < 14; i++) {
        const rota_dtype dtype = i % 3 == 0 ? ROTA_F16 : i % 3 == 1 ? ROTA_BF16 : ROTA_F32;
        trial t = {.params = cuda_kit_product(192, 264, 320, i % 4, dtype), .dtype = dtype};
        if (i % 5 == 4) t.params.c_dtype = ROTA_F32, t.params.flags |= ROTA_MATMUL_ACCUMULATE;
        if (i % 7 == 3) t.offset = 4 / rota_dtype_bytes(dtype);
        if (i % 4 == 1) { /* a b^T, twelve batches of which a repeats along the outer axis */
            t.params.batch[1] = 3, t.params.batch[2] = 4;
            t.params.a_batch_stride[2] = 192 * t.params.lda;
            t.params.b_batch_stride[2] = 264 * t.params.ldb,
            t.params.b_batch_stride[1] = 4 * 264 * t.params.ldb;
            t.params.c_batch_stride[2] = 192 * t.params.ldc,
            t.params.c_batch_stride[1] = 4 * 192 * t.params.ldc;
        }
        const rota_kernel *kernel =
            dtype == ROTA_F16    ? rota_cuda_select_matmul_f16(&t.params, NULL, 0, &kit.target)
            : dtype == ROTA_BF16 ? rota_cuda_select_matmul_bf16(&t.params, NULL, 0, &kit.target)
                                 : rota_cuda_select_matmul(&t.params, NULL, 0, &kit.target);
        if (!kernel) continue; /* no cuBLASLt, and nothing of ours */
        trial_make(&kit, &t);
        uint64_t operands[4], bytes[4];
        rota_cuda_call call = call_of(&kit, &t, operands, bytes);
        bytes[3] = kernel->cuda.workspace(&t.params, bytes, &kit.target);
        if (bytes[3]) {
            operands[3] = cuda_kit_alloc(&kit, bytes[3]);
            call.operand_count = 4;
        }
        rota_choices_forget();
        if (i % 2) { /* measured on other memory, then found in its file */
            uint64_t scratch[4], total = 0;
            for (int o = 0; o < 3; o++) total += bytes[o] + 256;
            const uint64_t memory = cuda_kit_alloc(&kit, total);
            uint64_t address = memory;
            for (int o = 0; o < 3; o++)
                scratch[o] = address, address = (address + bytes[o] + 255) & ~UINT64_C(255);
            scratch[3] = operands[3];
            rota_cuda_call tune = call;
            tune.operands = scratch;
            assert_ok(kernel->cuda.tune(&tune));
            cuda_kit_free(&kit, memory);
            rota_choices_forget();
            rota_matmul_choice found;
            assert_true(rota_matmul_choice_find(&t.params, dtype, &kit.target, &found));
            print_message("%s %u x %u x %u, flags %u: %s\n", rota_dtype_name(dtype), t.params.m, t.params.n,
                          t.params.k, t.params.flags,
                          found.way == ROTA_MATMUL_BY_SM90 ? "rota's" : "cuBLASLt's");
        }
        cuda_kit_capture_begin(&kit);
        assert_ok(kernel->cuda.call(&call));
        cuda_kit_capture_end_and_run(&kit);
        trial_check(&kit, &t, kernel->name);
        if (bytes[3]) cuda_kit_free(&kit, operands[3]);
        trial_free(&kit, &t);
    }
    char remove[128];
    snprintf(remove, sizeof remove, "rm -r %s", folder_path);
    assert_int_equal(system(remove), 0);
    rota_choices_forget();
    cuda_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tile),    cmocka_unit_test(test_uneven_rows),
        cmocka_unit_test(test_uneven_nodes),  cmocka_unit_test(test_linear),
        cmocka_unit_test(test_library_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
