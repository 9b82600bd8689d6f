/* The cases of the kernels whose results have a length: of operands that fit one another, as no random ones do. */
#include <stdlib.h>
#include <string.h>
#include "tests/ops/kernel_case.h"

static uint64_t seed = 34;

static uint32_t *room(uint64_t count) {
    uint32_t *made = calloc(count + 1, 4);
    assert_non_null(made);
    return made;
}

/* Runs a kernel on the CPU. */
static void run(const rota_kernel *kernel, const void *params, void **operands, const uint64_t *bytes) {
    rota_kernel_call call = {.operands = operands,
                             .params = params,
                             .operand_count = kernel->operand_count,
                             .operand_bytes = bytes};
    uint64_t grain;
    kernel->cpu.items(params, bytes, &call.items, &grain);
    call.end = call.items;
    assert_ok(kernel->cpu.fn(&call));
}

#define WORDS(mode, count)                                                                                   \
    { ROTA_U32, (mode), (count), 0, 0, 0 }

/* One in `one_in` elements is not zero: 0, none; of real numbers, of those that are some are -0. */
static void fill(void *x, uint32_t n, rota_dtype dtype, uint32_t one_in) {
    for (uint32_t i = 0; i < n; i++) {
        const bool is_some = one_in && test_random(&seed) % one_in == 0;
        const uint32_t bits = (uint32_t)test_random(&seed) | 1u, sign = bits & 0x80000000u;
        if (rota_dtype_bytes(dtype) == 2)
            ((uint16_t *)x)[i] = (uint16_t)(is_some ? bits : sign >> 16);
        else
            ((uint32_t *)x)[i] = is_some ? bits : dtype == ROTA_F32 ? sign : 0;
    }
}

static void nonzero_case(uint32_t n, uint32_t chunk, rota_dtype dtype, uint32_t one_in) {
    const rota_nonzero_params p = {n, chunk, dtype};
    const uint32_t chunks = (n + chunk - 1) / chunk;
    uint32_t *x = room(n), *counts = room(chunks), *offsets = room(chunks), *index = room(n), total = 0;
    fill(x, n, dtype, one_in);
    const kernel_array of_x = {dtype, ROTA_READ, n, 0, 0, 0};
    kernel_check_given(&rota_kernel_nonzero_counts, &p,
                       (const kernel_array[]){of_x, WORDS(ROTA_WRITE, chunks)}, (const void *[]){x, NULL}, 2,
                       0);
    run(&rota_kernel_nonzero_counts, &p, (void *[]){x, counts}, NULL);
    const rota_exclusive_sum_params sum = {1, chunks};
    kernel_check_given(
        &rota_kernel_exclusive_sum, &sum,
        (const kernel_array[]){WORDS(ROTA_READ, chunks), WORDS(ROTA_WRITE, chunks), WORDS(ROTA_WRITE, 1)},
        (const void *[]){counts, NULL, NULL}, 3, 0);
    run(&rota_kernel_exclusive_sum, &sum, (void *[]){counts, offsets, &total}, NULL);
    kernel_check_given(
        &rota_kernel_nonzero, &p,
        (const kernel_array[]){
            of_x, WORDS(ROTA_READ, chunks), WORDS(ROTA_READ, 1), {ROTA_I32, ROTA_WRITE, n, 0, 0, 0}},
        (const void *[]){x, offsets, &total, NULL}, 4, 0);
    run(&rota_kernel_nonzero, &p, (void *[]){x, offsets, &total, index}, NULL);
    for (uint32_t width = 1; width < 4; width += 2)
        for (uint32_t put = 0; put < 2; put++) {
            const rota_select_rows_params select = {n, width, put, dtype};
            const rota_dtype real = rota_dtype_is_real(dtype) ? dtype : ROTA_F32;
            kernel_check_given(&rota_kernel_select_rows, &select,
                               (const kernel_array[]){{real, ROTA_READ, (uint64_t)n * width, -2, 2, 0},
                                                      {ROTA_I32, ROTA_READ, n, 0, 0, 0},
                                                      WORDS(ROTA_READ, 1),
                                                      {real, ROTA_WRITE, (uint64_t)n * width, 0, 0, 0}},
                               (const void *[]){NULL, index, &total, NULL}, 4, 0);
        }
    free(x);
    free(counts);
    free(offsets);
    free(index);
}

static void test_sums(void) {
    static const uint32_t shapes[][2] = {{1, 1}, {3, 7}, {70, 255}, {5, 2049}, {2, 70001}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const uint32_t rows = shapes[i][0], n = shapes[i][1];
        const rota_exclusive_sum_params p = {rows, n};
        CHECK(exclusive_sum, &p, 0, {ROTA_U32, ROTA_READ, (uint64_t)rows * n, 0, 60000, 0},
              WORDS(ROTA_WRITE, (uint64_t)rows * n), WORDS(ROTA_WRITE, rows));
    }
}

/* ---- Sorting ---- */

#define INDEXES(mode, count)                                                                                 \
    { ROTA_I32, (mode), (count), 0, 0, 0 }

/* All passes over random keys, each on the device too; the last one's results. */
static void sort_case(uint32_t rows, uint32_t n, uint32_t chunk, uint32_t *keys, int32_t *index) {
    const uint64_t count = (uint64_t)rows * n, chunks = (n - 1) / chunk + 1, cells = rows * chunks * 16;
    uint32_t *counts = room(cells), *offsets = room(cells), *totals = room(rows), *to = room(count);
    int32_t *to_index = (int32_t *)room(count);
    for (uint32_t shift = 0; shift < 32; shift += ROTA_SORT_BITS) {
        const rota_sort_params p = {rows, n, chunk, shift, shift == 0};
        const rota_exclusive_sum_params sum = {rows, (uint32_t)chunks * 16};
        kernel_check_given(&rota_kernel_sort_counts, &p,
                           (const kernel_array[]){WORDS(ROTA_READ, count), WORDS(ROTA_WRITE, cells)},
                           (const void *[]){keys, NULL}, 2, 0);
        run(&rota_kernel_sort_counts, &p, (void *[]){keys, counts}, NULL);
        run(&rota_kernel_exclusive_sum, &sum, (void *[]){counts, offsets, totals}, NULL);
        kernel_check_given(&rota_kernel_sort, &p,
                           (const kernel_array[]){WORDS(ROTA_READ, count), INDEXES(ROTA_READ, count),
                                                  WORDS(ROTA_READ, cells), WORDS(ROTA_WRITE, count),
                                                  INDEXES(ROTA_WRITE, count)},
                           (const void *[]){keys, index, offsets, NULL, NULL}, 5, 0);
        run(&rota_kernel_sort, &p, (void *[]){keys, index, offsets, to, to_index}, NULL);
        memcpy(keys, to, count * 4);
        memcpy(index, to_index, count * 4);
    }
    for (uint64_t i = 1; i < n; i++)
        assert_true(keys[i - 1] < keys[i] || (keys[i - 1] == keys[i] && index[i - 1] < index[i]));
    free(counts);
    free(offsets);
    free(totals);
    free(to);
    free(to_index);
}

static void unique_case(uint32_t n, uint32_t chunk, uint32_t kinds) {
    const uint32_t chunks = (n - 1) / chunk + 1;
    uint32_t *keys = room(n), *counts = room(chunks), *offsets = room(chunks), total = 0;
    int32_t *index = (int32_t *)room(n);
    for (uint32_t i = 0; i < n; i++) keys[i] = (uint32_t)(test_random(&seed) % kinds) * 0x01234567u;
    sort_case(1, n, chunk, keys, index);
    const rota_dtype dtypes[] = {ROTA_F32, ROTA_I32, ROTA_U32};
    for (int d = 0; d < 3; d++) {
        const rota_unique_params p = {n, chunk, dtypes[d]};
        const rota_exclusive_sum_params sum = {1, chunks};
        kernel_check_given(&rota_kernel_unique_counts, &p,
                           (const kernel_array[]){WORDS(ROTA_READ, n), WORDS(ROTA_WRITE, chunks)},
                           (const void *[]){keys, NULL}, 2, 0);
        run(&rota_kernel_unique_counts, &p, (void *[]){keys, counts}, NULL);
        run(&rota_kernel_exclusive_sum, &sum, (void *[]){counts, offsets, &total}, NULL);
        kernel_check_given(&rota_kernel_unique, &p,
                           (const kernel_array[]){WORDS(ROTA_READ, n), INDEXES(ROTA_READ, n),
                                                  WORDS(ROTA_READ, chunks), WORDS(ROTA_READ, 1),
                                                  WORDS(ROTA_WRITE, n), INDEXES(ROTA_WRITE, n)},
                           (const void *[]){keys, index, offsets, &total, NULL, NULL}, 6, 0);
    }
    free(keys);
    free(counts);
    free(offsets);
    free(index);
}

static void top_p_case(uint32_t rows, uint32_t n, uint32_t chunk) {
    static const float shares[] = {0, 0.001f, 0.5f, 0.9f, 0.999999f, 1, 2};
    const uint64_t count = (uint64_t)rows * n, chunks = (n - 1) / chunk + 1;
    uint32_t *keys = room(count), *sums = room(rows * chunks * 2);
    int32_t *index = (int32_t *)room(count);
    for (uint64_t i = 0; i < count; i++) /* from 2^-35 up, and beyond 1 */
        keys[i] = ~(0x2E000000u + (uint32_t)(test_random(&seed) % 0x12000000u));
    sort_case(rows, n, chunk, keys, index);
    rota_top_p_params p = {rows, n, chunk, 0};
    kernel_check_given(&rota_kernel_top_p_sums, &p,
                       (const kernel_array[]){WORDS(ROTA_READ, count), WORDS(ROTA_WRITE, rows * chunks * 2)},
                       (const void *[]){keys, NULL}, 2, 0);
    run(&rota_kernel_top_p_sums, &p, (void *[]){keys, sums}, NULL);
    for (uint32_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        p.p = shares[i];
        kernel_check_given(&rota_kernel_top_p, &p,
                           (const kernel_array[]){WORDS(ROTA_READ, count),
                                                  WORDS(ROTA_READ, rows * chunks * 2),
                                                  INDEXES(ROTA_WRITE, rows)},
                           (const void *[]){keys, sums, NULL}, 3, 0);
    }
    free(keys);
    free(sums);
    free(index);
}

static void test_keys(void) {
    const uint32_t special[] = {0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0x7F800000u, 0xFF800000u,
                                0,           0x80000000u, 1,           0x80000001u, 0x3F800000u,
                                0xBF800000u, 0x7FFFFFFFu, 0xFFFFFFFFu};
    const uint32_t n = sizeof special / sizeof *special;
    const rota_dtype rising[] = {ROTA_F32, ROTA_I32, ROTA_U32}, probable[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    for (int d = 0; d < 3; d++) {
        const uint32_t count = probable[d] == ROTA_F32 ? n : 2 * n;
        const rota_sort_keys_params numbers = {n, ROTA_SORT_RISING, rising[d]},
                                    parts = {count, ROTA_SORT_PROBABLE, probable[d]},
                                    many = {70001, ROTA_SORT_PROBABLE, probable[d]};
        kernel_check_given(&rota_kernel_sort_keys, &numbers,
                           (const kernel_array[]){{rising[d], ROTA_READ, n, 0, 0, 0}, WORDS(ROTA_WRITE, n)},
                           (const void *[]){special, NULL}, 2, 0);
        kernel_check_given(
            &rota_kernel_sort_keys, &parts,
            (const kernel_array[]){{probable[d], ROTA_READ, count, 0, 0, 0}, WORDS(ROTA_WRITE, count)},
            (const void *[]){special, NULL}, 2, 0);
        CHECK(sort_keys, &many, 0, {probable[d], ROTA_READ, 70001, -1, 1, 0}, WORDS(ROTA_WRITE, 70001));
    }
}

void test_sort(void **state) {
    (void)state;
    static const uint32_t sizes[][2] = {
        /* n, chunk */ {1, 4096}, {255, 4096}, {2049, 100}, {4097, 4096}, {70001, 4096}};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (kernel_case_is_short && i != 3) continue;
        unique_case(sizes[i][0], sizes[i][1], i % 2 ? 7 : 100000);
        top_p_case(i % 2 ? 3 : 1, sizes[i][0], sizes[i][1]);
    }
    test_keys();
}

/* ---- Lengths ---- */

void test_length(void **state) {
    (void)state;
    static const uint32_t sizes[][2] = {/* n, chunk */ {1, 4096},
                                        {3, 2},
                                        {255, 4096},
                                        {2047, 2048},
                                        {2049, 100},
                                        {4097, 4096},
                                        {70001, 4096},
                                        {70001, 131072}};
    static const uint32_t one_in[] = {0, 1, 2, 50};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t k = 0; k < sizeof one_in / sizeof *one_in; k++)
            for (rota_dtype dtype = ROTA_F32; dtype <= ROTA_U32; dtype++)
                if (!kernel_case_is_short || (i == 5 && k == 2))
                    nonzero_case(sizes[i][0], sizes[i][1], dtype, one_in[k]);
    test_sums();
}
