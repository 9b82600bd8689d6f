/* Operands of products, and their reference in f64. */
#include "bench/matmul_reference.h"

#include <string.h>
#include "bench/half.h"

void matmul_fill(void *data, rota_dtype dtype, uint64_t count, uint32_t seed) {
    uint32_t x = seed;
    for (uint64_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        element_set(data, dtype, i, (float)(2.0 * x / 4294967296.0 - 1));
    }
}

uint32_t matmul_seed_a(uint64_t set) {
    return 0x1234abcdu + (uint32_t)set * 0x9e3779b9u;
}
uint32_t matmul_seed_b(uint64_t set) {
    return 0x5678ef90u + (uint32_t)set * 0x9e3779b9u;
}

void matmul_reference_row(const matmul_shape *of, rota_dtype dtype, const void *a, const void *b,
                          uint64_t batch, uint64_t row, double *sums) {
    const matmul_extent of_a = matmul_extent_a(of), of_b = matmul_extent_b(of);
    const uint64_t from_a = batch * of_a.rows * of_a.stride, from_b = batch * of_b.rows * of_b.stride;
    memset(sums, 0, of->n * sizeof *sums);
    for (uint64_t i = 0; i < of->k; i++) {
        const uint64_t offset = of->transpose_a ? i * of_a.stride + row : row * of_a.stride + i;
        const double left = element_get(a, dtype, from_a + offset);
        const uint64_t along = of->transpose_b ? of_b.stride : 1,
                       start = of->transpose_b ? i : i * of_b.stride;
        for (uint64_t j = 0; j < of->n; j++)
            sums[j] += left * element_get(b, dtype, from_b + start + j * along);
    }
}
