/* Matrix products on CUDA devices. Without a device: which kernel a product takes, tensor maps and grids,
 * batches for cuBLASLt, choices kept in files. On a Hopper GPU: every kernel, and cuBLASLt, against sums in
 * f64. */
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/half.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/libraries.h"
#include "ops/cuda/matmul_choice.h"
#include "ops/cuda/matmul_cuda.h"
#include "tests/cuda_kit.h"

static const rota_cuda_target h200 = {.compute_capability = 90,
                                      .multiprocessors = 132,
                                      .l2_bytes = 60 << 20,
                                      .shared_bytes_max = 232448,
                                      .name = "a Hopper GPU",
                                      .driver = "580"};

static rota_matmul_params product(uint32_t m, uint32_t n, uint32_t k, uint32_t flags, rota_dtype c_dtype) {
    return (rota_matmul_params){
        .m = m,
        .n = n,
        .k = k,
        .lda = flags & ROTA_MATMUL_TRANSPOSE_A ? m : k,
        .ldb = flags & ROTA_MATMUL_TRANSPOSE_B ? k : n,
        .ldc = n,
        .flags = flags,
        .c_dtype = c_dtype,
        .alpha = 1,
        .batch = {1, 1, 1},
    };
}

/* ---- Files of choices ---- */

typedef struct folder {
    char path[64];
} folder;

static folder folder_make(void) {
    folder f = {"/tmp/rota-choices-XXXXXX"};
    assert_non_null(mkdtemp(f.path));
    rota_choices_forget();
    return f;
}

static void folder_remove(const folder *f, const char *key) {
    char path[256];
    assert_true(rota_choices_path(f->path, key, path, sizeof path));
    unlink(path);
    assert_int_equal(rmdir(f->path), 0); /* and no temporary file was left */
}

static long file_read(const char *path, unsigned char *bytes, size_t capacity) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, capacity, file);
    fclose(file);
    return (long)size;
}

static void file_write(const char *path, const unsigned char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void test_choices_last(void **state) {
    (void)state;
    folder f = folder_make();
    uint32_t value = 7, other = 8, got = 0;
    assert_false(rota_choices_find(f.path, "key", &got, sizeof got));
    rota_choices_remember(f.path, "key", &value, sizeof value);
    rota_choices_remember(f.path, "key", &other, sizeof other);
    assert_int_equal(other, 7); /* the first stays */
    assert_true(rota_choices_find(NULL, "key", &got, sizeof got));
    assert_int_equal(got, 7);
    rota_choices_forget();
    assert_false(rota_choices_find(NULL, "key", &got, sizeof got));
    got = 0;
    assert_true(rota_choices_find(f.path, "key", &got, sizeof got));
    assert_int_equal(got, 7);
    assert_false(rota_choices_find(f.path, "another key", &got, sizeof got));
    uint16_t narrow;
    rota_choices_forget();
    assert_false(rota_choices_find(f.path, "key", &narrow, sizeof narrow));
    folder_remove(&f, "key");
}

static void test_choices_without_a_folder(void **state) {
    (void)state;
    rota_choices_forget();
    uint32_t value = 5, got = 0;
    rota_choices_remember(NULL, "key", &value, sizeof value);
    assert_true(rota_choices_find(NULL, "key", &got, sizeof got));
    assert_int_equal(got, 5);
    value = 6;
    rota_choices_remember("/nonexistent/folder", "key 2", &value,
                          sizeof value); /* kept in memory all the same */
    assert_true(rota_choices_find("/nonexistent/folder", "key 2", &got, sizeof got));
    assert_int_equal(got, 6);
    rota_choices_forget();
}

/* Every byte of a file changed, every length cut, one more byte: none of them is believed. */
static void test_choices_damaged(void **state) {
    (void)state;
    folder f = folder_make();
    char path[256];
    unsigned char good[256], bad[256];
    uint64_t value = 0x0123456789abcdef, got;
    assert_true(rota_choices_path(f.path, "a key", path, sizeof path));
    rota_choices_remember(f.path, "a key", &value, sizeof value);
    const long size = file_read(path, good, sizeof good - 1);
    assert_true(size > 32);
    for (long i = 0; i < size; i++) {
        memcpy(bad, good, (size_t)size);
        bad[i] ^= 0x10;
        file_write(path, bad, (size_t)size);
        rota_choices_forget();
        bool found = rota_choices_find(f.path, "a key", &got, sizeof got);
        if (i >= 20 && i < 24)
            assert_true(found); /* reserved bytes of the header */
        else
            assert_false(found);
        file_write(path, good, (size_t)i);
        rota_choices_forget();
        assert_false(rota_choices_find(f.path, "a key", &got, sizeof got));
    }
    good[size] = 0;
    file_write(path, good, (size_t)size + 1);
    rota_choices_forget();
    assert_false(rota_choices_find(f.path, "a key", &got, sizeof got));
    /* And is written anew. */
    value = 9;
    rota_choices_remember(f.path, "a key", &value, sizeof value);
    rota_choices_forget();
    assert_true(rota_choices_find(f.path, "a key", &got, sizeof got));
    assert_int_equal(got, 9);
    folder_remove(&f, "a key");
}

static void test_choice_of_a_product(void **state) {
    (void)state;
    rota_choices_forget();
    const rota_matmul_params p = product(2048, 2048, 2048, 0, ROTA_F16);
    char key[ROTA_CHOICE_KEY_MAX], longest[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice_key(&p, ROTA_F16, &h200, key, sizeof key);
    /* Every field is part of the key. */
    for (size_t i = 0; i < sizeof p / 4; i++) {
        rota_matmul_params changed = p;
        uint32_t word;
        memcpy(&word, (char *)&changed + 4 * i, 4);
        word = i == 6 ? 1 : i == 7 ? ROTA_F32 : word + 1;
        memcpy((char *)&changed + 4 * i, &word, 4);
        rota_matmul_choice_key(&changed, ROTA_F16, &h200, longest, sizeof longest);
        assert_string_not_equal(key, longest);
    }
    rota_matmul_choice_key(&p, ROTA_BF16, &h200, longest, sizeof longest);
    assert_string_not_equal(key, longest);
    rota_cuda_target other = h200;
    other.driver = "590";
    rota_matmul_choice_key(&p, ROTA_F16, &other, longest, sizeof longest);
    assert_string_not_equal(key, longest);
    /* The longest key fits: numbers of ten digits everywhere. */
    rota_matmul_params large;
    memset(&large, 0xff, sizeof large);
    large.c_dtype = ROTA_F16;
    rota_matmul_choice_key(&large, ROTA_F16, &h200, longest, sizeof longest);
    assert_true(strlen(longest) < sizeof longest - 64);

    rota_matmul_choice choice = {.way = ROTA_MATMUL_BY_SM90, .tile = ROTA_MATMUL_SM90_TILE_COUNT}, got;
    rota_choices_remember(NULL, key, &choice, sizeof choice);
    assert_false(rota_matmul_choice_find(&p, ROTA_F16, &h200, &got)); /* a tile that isn't there */
    rota_choices_forget();
    choice.tile = 1;
    rota_choices_remember(NULL, key, &choice, sizeof choice);
    assert_int_equal(rota_matmul_choice_find(&p, ROTA_F16, &h200, &got),
                     rota_matmul_sm90_takes(&p, ROTA_F16, &h200));
    rota_choices_forget();
    choice.way = 77;
    rota_choices_remember(NULL, key, &choice, sizeof choice);
    assert_false(rota_matmul_choice_find(&p, ROTA_F16, &h200, &got));
    rota_choices_forget();
}

/* ---- The Hopper kernels' arithmetic ---- */

static uint32_t find_tile(uint32_t rows, uint32_t columns, uint32_t cluster_m) {
    for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
        if (rota_matmul_sm90_tiles[t].rows == rows && rota_matmul_sm90_tiles[t].columns == columns &&
            rota_matmul_sm90_tiles[t].cluster_m == cluster_m)
            return t;
    fail_msg("no tile %u x %u", rows, columns);
    return 0;
}

static void assert_map(const rota_matmul_sm90_map *map, uint64_t address, uint64_t x, uint64_t y,
                       uint64_t stride, uint32_t box_x, uint32_t box_y) {
    assert_int_equal(map->address, address);
    assert_int_equal(map->extent_x, x);
    assert_int_equal(map->extent_y, y);
    assert_int_equal(map->stride_y_bytes, stride);
    assert_int_equal(map->box_x, box_x);
    assert_int_equal(map->box_y, box_y);
}

static void test_maps(void **state) {
    (void)state;
    const uint64_t operands[3] = {0x1000, 0x2000, 0x3000};
    rota_matmul_sm90_map maps[3];
    /* m 1000, n 776, k 520; blocks in pairs along the rows share b. */
    const uint32_t pair = find_tile(128, 256, 2), alone = find_tile(192, 192, 1);
    rota_matmul_params p = product(1000, 776, 520, 0, ROTA_F16);
    p.lda = 528;
    rota_matmul_sm90_maps(&p, pair, operands, maps);
    assert_map(&maps[0], 0x1000, 520, 1000, 1056, 64, 128);
    assert_map(&maps[1], 0x2000, 776, 520, 1552, 64, 32);
    assert_map(&maps[2], 0x3000, 776, 1000, 1552, 64, 64);
    p = product(1000, 776, 520, ROTA_MATMUL_TRANSPOSE_A | ROTA_MATMUL_TRANSPOSE_B, ROTA_F16);
    rota_matmul_sm90_maps(&p, pair, operands, maps);
    assert_map(&maps[0], 0x1000, 1000, 520, 2000, 64, 64);
    assert_map(&maps[1], 0x2000, 520, 776, 1040, 64, 128);
    rota_matmul_sm90_maps(&p, alone, operands, maps);
    assert_map(&maps[0], 0x1000, 1000, 520, 2000, 64, 64);
    assert_map(&maps[1], 0x2000, 520, 776, 1040, 64, 192);
    for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            p = product(4096, 4096, 4096, flags, ROTA_F16);
            rota_matmul_sm90_maps(&p, t, operands, maps);
            for (int i = 0; i < 3; i++) {
                assert_true(maps[i].box_y >= 8 &&
                            maps[i].box_y <= 256); /* whole periods of the swizzle; the limit */
                assert_int_equal(maps[i].box_y % 8, 0);
                assert_int_equal(maps[i].box_x * 2, 128);
            }
        }
}

static void test_grids(void **state) {
    (void)state;
    rota_cuda_launch launch;
    rota_matmul_params p = product(2048, 2048, 2048, 0, ROTA_F16);
    rota_matmul_sm90_launch_of(&p, find_tile(128, 256, 1), &h200, &launch);
    assert_int_equal(launch.groups[0], 128);
    assert_int_equal(launch.block[0], 384);
    p = product(3072, 3072, 3072, 0, ROTA_F16);
    rota_matmul_sm90_launch_of(&p, find_tile(128, 256, 2), &h200, &launch);
    assert_int_equal(launch.groups[0], 132);
    assert_int_equal(launch.cluster[0], 2);
    rota_matmul_sm90_launch_of(&p, find_tile(192, 192, 1), &h200, &launch);
    assert_int_equal(launch.groups[0], 132);
    assert_int_equal(launch.block[0], 512);
    p = product(1, 8, 8, 0, ROTA_F16);
    rota_matmul_sm90_launch_of(&p, find_tile(128, 192, 2), &h200, &launch);
    assert_int_equal(launch.groups[0], 2);
    for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
        assert_true(rota_matmul_sm90_tiles[t].shared_bytes <= h200.shared_bytes_max);

    /* 3072: 288 tiles of 128 x 256 take three rounds of 132 multiprocessors, 256 of 192 x 192 take two. */
    p = product(3072, 3072, 3072, 0, ROTA_F16);
    assert_true(rota_matmul_sm90_cost(&p, &h200, find_tile(192, 192, 1)) == 1);
    assert_float_equal(rota_matmul_sm90_cost(&p, &h200, find_tile(128, 256, 1)), 4.0 / 3, 1e-9);
    p = product(2048, 2048, 2048, 0, ROTA_F16);
    assert_true(rota_matmul_sm90_cost(&p, &h200, find_tile(128, 256, 1)) == 1);
}

static void test_takes(void **state) {
    (void)state;
    rota_matmul_params p = product(512, 512, 512, 0, ROTA_F16);
    if (!rota_matmul_sm90_takes(&p, ROTA_F16, &h200)) {
        print_message("skipped: the Hopper kernels were not compiled\n");
        skip();
    }
    assert_true(rota_matmul_sm90_takes(&p, ROTA_F16, &h200));
    assert_false(rota_matmul_sm90_takes(&p, ROTA_BF16, &h200)); /* results of another type */
    assert_false(rota_matmul_sm90_takes(&p, ROTA_F32, &h200));
    rota_cuda_target other = h200;
    other.compute_capability = 100;
    assert_false(rota_matmul_sm90_takes(&p, ROTA_F16, &other));
    other = h200;
    other.shared_bytes_max = 100000;
    assert_false(rota_matmul_sm90_takes(&p, ROTA_F16, &other));
    struct {
        uint32_t *field, value;
    } spoilt[] = {{&p.lda, 516},    {&p.ldb, 513},         {&p.ldc, 514}, {&p.flags, ROTA_MATMUL_ACCUMULATE},
                  {&p.batch[1], 2}, {&p.c_dtype, ROTA_F32}};
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        const uint32_t kept = *spoilt[i].field;
        *spoilt[i].field = spoilt[i].value;
        assert_false(rota_matmul_sm90_takes(&p, ROTA_F16, &h200));
        *spoilt[i].field = kept;
    }
    assert_true(rota_matmul_sm90_aligned((const uint64_t[]){16, 32, 4096}));
    for (int i = 0; i < 3; i++) {
        uint64_t operands[3] = {256, 256, 256};
        operands[i] += 4;
        assert_false(rota_matmul_sm90_aligned(operands));
    }
}

static void test_select(void **state) {
    (void)state;
    rota_matmul_params p = product(8, 8, 8, ROTA_MATMUL_ALIGNED_16, ROTA_F16);
    assert_null(rota_cuda_select_matmul_f16(&p, NULL, 0, &h200)); /* too small to gain */
    p = product(512, 512, 512, ROTA_MATMUL_ALIGNED_16, ROTA_F16);
    const rota_kernel *kernel = rota_cuda_select_matmul_f16(&p, NULL, 0, &h200);
    rota_matmul_params uneven = product(512, 512, 512, 0, ROTA_F16);
    if (rota_cublaslt_present()) {
        assert_non_null(kernel);
        assert_non_null(kernel->cuda.call);
        assert_int_equal(kernel->operand_count, 3);
        assert_int_equal(kernel->param_bytes, sizeof p);
        assert_ptr_equal(rota_cuda_select_matmul_f16(&uneven, NULL, 1, &h200), kernel);
        p.c_dtype = ROTA_F32;
        assert_non_null(rota_cuda_select_matmul(&p, NULL, 0, &h200));
        /* Scratch memory only where the sum is worth splitting. */
        assert_int_equal(
            kernel->cuda.workspace(&(rota_matmul_params){.m = 4096, .n = 4096, .k = 64, .batch = {1, 1, 1}},
                                   NULL, &h200),
            0);
        assert_int_equal(
            kernel->cuda.workspace(&(rota_matmul_params){.m = 16, .n = 4096, .k = 4096, .batch = {1, 1, 1}},
                                   NULL, &h200),
            4 << 20);
    } else {
        assert_int_equal(kernel != NULL, rota_matmul_sm90_takes(&p, ROTA_F16, &h200));
        assert_null(rota_cuda_select_matmul_f16(&uneven, NULL, 0, &h200));
        assert_null(rota_cuda_select_matmul_f16(&p, NULL, 1, &h200));
        assert_null(rota_cuda_select_matmul(&p, NULL, 0, &h200));
    }
    assert_non_null(rota_cuda_library_get(ROTA_CUDA_LIBRARY_CUBLASLT)->lost);
    for (int i = 0; i < ROTA_CUDA_LIBRARY_COUNT; i++) {
        const rota_cuda_library *library = rota_cuda_library_get((rota_cuda_library_kind)i);
        assert_true((library->handle != NULL) == (library->file != NULL));
        assert_true((library->handle != NULL) == (library->reason[0] == 0));
    }
}

static void test_batches(void **state) {
    (void)state;
    uint32_t count, outer[2];
    uint64_t stride[3], outer_stride[3][2];
    rota_matmul_params p = product(4, 5, 6, 0, ROTA_F32);
    rota_cublaslt_batches(&p, &count, stride, outer, outer_stride);
    assert_int_equal(count * outer[0] * outer[1], 1);
    /* Evenly spaced: one batch of 12. */
    p.batch[1] = 3, p.batch[2] = 4;
    p.a_batch_stride[1] = 96, p.a_batch_stride[2] = 24;
    p.b_batch_stride[1] = 120, p.b_batch_stride[2] = 30;
    p.c_batch_stride[1] = 80, p.c_batch_stride[2] = 20;
    rota_cublaslt_batches(&p, &count, stride, outer, outer_stride);
    assert_int_equal(count, 12);
    assert_int_equal(stride[0], 24);
    assert_int_equal(stride[1], 30);
    assert_int_equal(stride[2], 20);
    assert_int_equal(outer[0] * outer[1], 1);
    /* a repeats along the outer axis. */
    p.a_batch_stride[1] = 0;
    p.batch[0] = 2, p.c_batch_stride[0] = 240, p.b_batch_stride[0] = 7;
    rota_cublaslt_batches(&p, &count, stride, outer, outer_stride);
    assert_int_equal(count, 4);
    assert_int_equal(outer[0], 3);
    assert_int_equal(outer[1], 2);
    assert_int_equal(outer_stride[0][0], 0);
    assert_int_equal(outer_stride[1][0], 120);
    assert_int_equal(outer_stride[2][0], 80);
    assert_int_equal(outer_stride[1][1], 7);
    assert_int_equal(outer_stride[2][1], 240);
}

/* ---- On a device ---- */

typedef struct trial {
    rota_matmul_params params;
    rota_dtype dtype;
    uint64_t count[3]; /* elements of the operands, batches and all */
    uint64_t offset;   /* elements between a 256-byte boundary and each operand's first one */
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
    const double unit = type == ROTA_F16 ? 0x1p-11 : type == ROTA_BF16 ? 0x1p-8 : 0x1p-22;
    for (uint32_t x = 0; x < p->batch[0]; x++)
        for (uint32_t y = 0; y < p->batch[1]; y++)
            for (uint32_t z = 0; z < p->batch[2]; z++)
                for (uint32_t i = 0; i < p->m; i++)
                    for (uint32_t j = 0; j < p->n; j++) {
                        const float *a = t->values[0] + (uint64_t)x * p->a_batch_stride[0] +
                                         (uint64_t)y * p->a_batch_stride[1] +
                                         (uint64_t)z * p->a_batch_stride[2];
                        const float *b = t->values[1] + (uint64_t)x * p->b_batch_stride[0] +
                                         (uint64_t)y * p->b_batch_stride[1] +
                                         (uint64_t)z * p->b_batch_stride[2];
                        const uint64_t at = (uint64_t)i * p->ldc + j + (uint64_t)x * p->c_batch_stride[0] +
                                            (uint64_t)y * p->c_batch_stride[1] +
                                            (uint64_t)z * p->c_batch_stride[2];
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
                        if (p->flags & ROTA_MATMUL_ACCUMULATE) sum += (double)t->values[2][at];
                        expected[at] = (float)sum;
                        bound[at] = (float)(fabs(sum) * unit + (size + 1) * p->k * 0x1p-24 + 1e-6);
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
                trial t = {.params = product(m, shapes[s][1], shapes[s][2], flags, dtype), .dtype = dtype};
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
        trial t = {.params = product(192, 264, 320, i % 4, dtype), .dtype = dtype};
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
            uint64_t at = memory;
            for (int o = 0; o < 3; o++) scratch[o] = at, at = (at + bytes[o] + 255) & ~UINT64_C(255);
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
        cmocka_unit_test(test_choices_last),
        cmocka_unit_test(test_choices_without_a_folder),
        cmocka_unit_test(test_choices_damaged),
        cmocka_unit_test(test_choice_of_a_product),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_takes),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_every_tile),
        cmocka_unit_test(test_library_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
