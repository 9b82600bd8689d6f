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
            for (rota_dtype dtype = ROTA_F32; dtype < ROTA_DTYPE_COUNT; dtype++)
                if (!kernel_case_is_short || (i == 5 && k == 2))
                    nonzero_case(sizes[i][0], sizes[i][1], dtype, one_in[k]);
    test_sums();
}
