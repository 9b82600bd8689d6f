/* Matrix products on CUDA devices, without one: which kernel a product takes, tensor maps and grids, batches
 * for cuBLASLt, choices kept in files. */
#include "tests/kit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/libraries.h"
#include "ops/cuda/matmul_choice.h"
#include "ops/cuda/matmul_cuda.h"
#include "tests/ops/cuda/cuda_kit.h"
#include "tests/ops/cuda/hopper.h"

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

/* A folder that isn't there yet, nor the one above it. */
static void test_choices_make_their_folder(void **state) {
    (void)state;
    folder f = folder_make();
    char above[128], below[160], path[256];
    snprintf(above, sizeof above, "%s/cache", f.path);
    snprintf(below, sizeof below, "%s/rota", above);
    uint32_t value = 3, got = 0;
    rota_choices_remember(below, "key", &value, sizeof value);
    rota_choices_forget();
    assert_true(rota_choices_find(below, "key", &got, sizeof got));
    assert_int_equal(got, 3);
    assert_true(rota_choices_path(below, "key", path, sizeof path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(below), 0);
    assert_int_equal(rmdir(above), 0);
    assert_int_equal(rmdir(f.path), 0);
    rota_choices_forget();
}

/* What was taken without measuring stays, and no file says that it was measured. */
static void test_choice_kept_unmeasured(void **state) {
    (void)state;
    folder f = folder_make();
    rota_cuda_target target = hopper;
    target.cache_dir = f.path;
    const rota_matmul_params p = cuda_kit_product(256, 256, 256, 0, ROTA_F16);
    rota_matmul_choice choice = {.way = ROTA_MATMUL_BY_CUBLASLT, .algorithm.bytes = {1, 2, 3}}, got;
    rota_matmul_choice_keep(&p, ROTA_F16, &target, &choice);
    if (rota_cublaslt_present()) {
        assert_true(rota_matmul_choice_find(&p, ROTA_F16, &target, &got));
        assert_memory_equal(&got, &choice, sizeof got);
    }
    assert_int_equal(rmdir(f.path), 0); /* empty */
    rota_choices_forget();
}

/* Threads that measured different things at once all go on with one of them. */
typedef struct rememberer {
    const char *folder;
    uint32_t value;
} rememberer;

static void *remember(void *argument) {
    rememberer *own = argument;
    for (uint32_t i = 0; i < 64; i++) {
        char key[16];
        uint32_t value = own->value, found = 0;
        snprintf(key, sizeof key, "key %u", i);
        rota_choices_remember(own->folder, key, &value, sizeof value);
        if (!rota_choices_find(own->folder, key, &found, sizeof found) || found != value) own->folder = NULL;
    }
    return NULL;
}

static void test_choices_of_threads(void **state) {
    (void)state;
    folder f = folder_make();
    pthread_t threads[8];
    rememberer all[8];
    for (uint32_t t = 0; t < 8; t++) {
        all[t] = (rememberer){f.path, t};
        assert_int_equal(pthread_create(&threads[t], NULL, remember, &all[t]), 0);
    }
    for (uint32_t t = 0; t < 8; t++) pthread_join(threads[t], NULL);
    for (uint32_t t = 0; t < 8; t++) assert_non_null(all[t].folder);
    for (uint32_t i = 0; i < 64; i++) {
        char key[16], path[256];
        uint32_t kept = 0, stored = 0;
        snprintf(key, sizeof key, "key %u", i);
        assert_true(rota_choices_find(NULL, key, &kept, sizeof kept));
        assert_true(rota_choices_path(f.path, key, path, sizeof path));
        rota_choices_forget();
        assert_true(rota_choices_find(f.path, key, &stored, sizeof stored));
        assert_int_equal(kept, stored);
        unlink(path);
        for (uint32_t j = i + 1; j < 64; j++) { /* what was forgotten with it comes back from its file */
            snprintf(key, sizeof key, "key %u", j);
            assert_true(rota_choices_find(f.path, key, &stored, sizeof stored));
        }
    }
    assert_int_equal(rmdir(f.path), 0);
    rota_choices_forget();
}

static void test_choices_without_a_folder(void **state) {
    (void)state;
    rota_choices_forget();
    uint32_t value = 5, got = 0;
    rota_choices_remember(NULL, "key", &value, sizeof value);
    assert_true(rota_choices_find(NULL, "key", &got, sizeof got));
    assert_int_equal(got, 5);
    value = 6;
    rota_choices_remember("/proc/no/folder", "key 2", &value, sizeof value); /* kept in memory all the same */
    assert_true(rota_choices_find("/proc/no/folder", "key 2", &got, sizeof got));
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
    const rota_matmul_params p = cuda_kit_product(2048, 2048, 2048, 0, ROTA_F16);
    char key[ROTA_CHOICE_KEY_MAX], longest[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice_key(&p, ROTA_F16, &hopper, key, sizeof key);
    /* Every field is part of the key. */
    for (size_t i = 0; i < sizeof p / 4; i++) {
        rota_matmul_params changed = p;
        uint32_t word;
        memcpy(&word, (char *)&changed + 4 * i, 4);
        word = i == 6 ? 1 : i == 7 ? ROTA_F32 : word + 1;
        memcpy((char *)&changed + 4 * i, &word, 4);
        rota_matmul_choice_key(&changed, ROTA_F16, &hopper, longest, sizeof longest);
        assert_string_not_equal(key, longest);
    }
    rota_matmul_choice_key(&p, ROTA_BF16, &hopper, longest, sizeof longest);
    assert_string_not_equal(key, longest);
    rota_cuda_target other = hopper;
    other.driver = "590";
    rota_matmul_choice_key(&p, ROTA_F16, &other, longest, sizeof longest);
    assert_string_not_equal(key, longest);
    /* The longest key fits: numbers of ten digits everywhere. */
    rota_matmul_params large;
    memset(&large, 0xff, sizeof large);
    large.c_dtype = ROTA_F16;
    rota_matmul_choice_key(&large, ROTA_F16, &hopper, longest, sizeof longest);
    assert_true(strlen(longest) < sizeof longest - 64);

    rota_matmul_choice choice = {.way = ROTA_MATMUL_BY_SM90, .tile = ROTA_MATMUL_SM90_TILE_COUNT}, got;
    rota_choices_remember(NULL, key, &choice, sizeof choice);
    assert_false(rota_matmul_choice_find(&p, ROTA_F16, &hopper, &got)); /* a tile that isn't there */
    rota_choices_forget();
    choice.tile = 1;
    rota_choices_remember(NULL, key, &choice, sizeof choice);
    assert_int_equal(rota_matmul_choice_find(&p, ROTA_F16, &hopper, &got),
                     rota_matmul_sm90_takes(&p, ROTA_F16, &hopper));
    /* By table nothing that was measured counts, and nothing is kept. */
    rota_cuda_target table = hopper;
    table.by_table = true;
    assert_false(rota_matmul_choice_find(&p, ROTA_F16, &table, &got));
    rota_choices_forget();
    rota_matmul_choice_keep(&p, ROTA_F16, &table, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_CUBLASLT});
    rota_matmul_choice_key(&p, ROTA_F16, &table, longest, sizeof longest);
    assert_string_not_equal(key, longest);
    assert_false(rota_choices_find(NULL, longest, &got, sizeof got));
    rota_choices_forget();
    choice.way = 77;
    rota_choices_remember(NULL, key, &choice, sizeof choice);
    assert_false(rota_matmul_choice_find(&p, ROTA_F16, &hopper, &got));
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
    rota_matmul_params p = cuda_kit_product(1000, 776, 520, 0, ROTA_F16);
    p.lda = 528;
    rota_matmul_sm90_maps(&p, pair, operands, maps);
    assert_map(&maps[0], 0x1000, 520, 1000, 1056, 64, 128);
    assert_map(&maps[1], 0x2000, 776, 520, 1552, 64, 32);
    assert_map(&maps[2], 0x3000, 776, 1000, 1552, 64, 64);
    p = cuda_kit_product(1000, 776, 520, ROTA_MATMUL_TRANSPOSE_A | ROTA_MATMUL_TRANSPOSE_B, ROTA_F16);
    rota_matmul_sm90_maps(&p, pair, operands, maps);
    assert_map(&maps[0], 0x1000, 1000, 520, 2000, 64, 64);
    assert_map(&maps[1], 0x2000, 520, 776, 1040, 64, 128);
    rota_matmul_sm90_maps(&p, alone, operands, maps);
    assert_map(&maps[0], 0x1000, 1000, 520, 2000, 64, 64);
    assert_map(&maps[1], 0x2000, 520, 776, 1040, 64, 192);
    for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            p = cuda_kit_product(4096, 4096, 4096, flags, ROTA_F16);
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
    rota_matmul_params p = cuda_kit_product(2048, 2048, 2048, 0, ROTA_F16);
    rota_matmul_sm90_launch_of(&p, find_tile(128, 256, 1), &hopper, &launch);
    assert_int_equal(launch.groups[0], 128);
    assert_int_equal(launch.block[0], 384);
    p = cuda_kit_product(3072, 3072, 3072, 0, ROTA_F16);
    rota_matmul_sm90_launch_of(&p, find_tile(128, 256, 2), &hopper, &launch);
    assert_int_equal(launch.groups[0], 132);
    assert_int_equal(launch.cluster[0], 2);
    rota_matmul_sm90_launch_of(&p, find_tile(192, 192, 1), &hopper, &launch);
    assert_int_equal(launch.groups[0], 132);
    assert_int_equal(launch.block[0], 512);
    p = cuda_kit_product(1, 8, 8, 0, ROTA_F16);
    rota_matmul_sm90_launch_of(&p, find_tile(128, 192, 2), &hopper, &launch);
    assert_int_equal(launch.groups[0], 2);
    for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
        assert_true(rota_matmul_sm90_tiles[t].shared_bytes <= hopper.shared_bytes_max);

    /* 3072: 288 tiles of 128 x 256 take three rounds of 132 multiprocessors, 256 of 192 x 192 take two. */
    p = cuda_kit_product(3072, 3072, 3072, 0, ROTA_F16);
    assert_true(rota_matmul_sm90_cost(&p, &hopper, find_tile(192, 192, 1)) == 1);
    assert_float_equal(rota_matmul_sm90_cost(&p, &hopper, find_tile(128, 256, 1)), 4.0 / 3, 1e-9);
    p = cuda_kit_product(2048, 2048, 2048, 0, ROTA_F16);
    assert_true(rota_matmul_sm90_cost(&p, &hopper, find_tile(128, 256, 1)) == 1);
}

static void test_takes(void **state) {
    (void)state;
    rota_matmul_params p = cuda_kit_product(512, 512, 512, 0, ROTA_F16);
    if (!rota_matmul_sm90_takes(&p, ROTA_F16, &hopper)) {
        print_message("skipped: the Hopper kernels were not compiled\n");
        skip();
    }
    assert_true(rota_matmul_sm90_takes(&p, ROTA_F16, &hopper));
    assert_false(rota_matmul_sm90_takes(&p, ROTA_BF16, &hopper)); /* results of another type */
    assert_false(rota_matmul_sm90_takes(&p, ROTA_F32, &hopper));
    rota_cuda_target other = hopper;
    other.compute_capability = 100;
    assert_false(rota_matmul_sm90_takes(&p, ROTA_F16, &other));
    other = hopper;
    other.shared_bytes_max = 100000;
    assert_false(rota_matmul_sm90_takes(&p, ROTA_F16, &other));
    struct {
        uint32_t *field, value;
    } spoilt[] = {{&p.lda, 516},    {&p.ldb, 513},          {&p.ldc, 514}, {&p.flags, ROTA_MATMUL_ACCUMULATE},
                  {&p.batch[1], 2}, {&p.c_dtype, ROTA_F32}, {&p.n, 510}};
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        const uint32_t kept = *spoilt[i].field;
        *spoilt[i].field = spoilt[i].value;
        assert_false(rota_matmul_sm90_takes(&p, ROTA_F16, &hopper));
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
    rota_matmul_params p = cuda_kit_product(8, 8, 8, ROTA_MATMUL_ALIGNED_16, ROTA_F16);
    assert_null(rota_cuda_select_matmul_f16(&p, NULL, 0, &hopper)); /* too small to gain */
    p = cuda_kit_product(512, 512, 512, ROTA_MATMUL_ALIGNED_16, ROTA_F16);
    const rota_kernel *kernel = rota_cuda_select_matmul_f16(&p, NULL, 0, &hopper);
    rota_matmul_params uneven = cuda_kit_product(512, 512, 512, 0, ROTA_F16);
    /* PatchTST's scores: 896 launches of 4 products of 42 x 42 x 4 took 47 ms. The general kernel takes them
     * in one; and where a launch is larger, or takes all batches, it is the library's. */
    rota_matmul_params many = cuda_kit_product(42, 42, 4, ROTA_MATMUL_ALIGNED_16, ROTA_F32);
    many.batch[1] = 896, many.batch[2] = 4;
    many.a_batch_stride[1] = 672, many.a_batch_stride[2] = 168;
    many.b_batch_stride[1] = 2016, many.b_batch_stride[2] = 4;
    many.c_batch_stride[1] = 7056, many.c_batch_stride[2] = 1764;
    const rota_kernel *general = rota_cuda_select_matmul(&many, NULL, 0, &hopper);
    assert_true(!general || !general->cuda.call);
    if (rota_cublaslt_present()) {
        many.m = many.n = many.k = 256;
        assert_non_null(rota_cuda_select_matmul(&many, NULL, 0, &hopper)->cuda.call);
        many.m = many.n = 42, many.k = 4;
        many.b_batch_stride[1] = 672, many.b_batch_stride[2] = 168;
        assert_non_null(rota_cuda_select_matmul(&many, NULL, 0, &hopper)->cuda.call);
        assert_non_null(kernel);
        assert_non_null(kernel->cuda.call);
        assert_int_equal(kernel->operand_count, 3);
        assert_int_equal(kernel->param_bytes, sizeof p);
        assert_ptr_equal(rota_cuda_select_matmul_f16(&uneven, NULL, 1, &hopper), kernel);
        p.c_dtype = ROTA_F32;
        assert_non_null(rota_cuda_select_matmul(&p, NULL, 0, &hopper));
        /* Scratch memory only where the sum is worth splitting. */
        assert_int_equal(
            kernel->cuda.workspace(&(rota_matmul_params){.m = 4096, .n = 4096, .k = 64, .batch = {1, 1, 1}},
                                   NULL, &hopper),
            0);
        assert_int_equal(
            kernel->cuda.workspace(&(rota_matmul_params){.m = 16, .n = 4096, .k = 4096, .batch = {1, 1, 1}},
                                   NULL, &hopper),
            4 << 20);
    } else {
        assert_int_equal(kernel != NULL, rota_matmul_sm90_takes(&p, ROTA_F16, &hopper));
        assert_null(rota_cuda_select_matmul_f16(&uneven, NULL, 0, &hopper));
        assert_null(rota_cuda_select_matmul_f16(&p, NULL, 1, &hopper));
        assert_null(rota_cuda_select_matmul(&p, NULL, 0, &hopper));
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
    rota_matmul_params p = cuda_kit_product(4, 5, 6, 0, ROTA_F32);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices_last),
        cmocka_unit_test(test_choices_make_their_folder),
        cmocka_unit_test(test_choices_of_threads),
        cmocka_unit_test(test_choice_kept_unmeasured),
        cmocka_unit_test(test_choices_without_a_folder),
        cmocka_unit_test(test_choices_damaged),
        cmocka_unit_test(test_choice_of_a_product),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_takes),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
