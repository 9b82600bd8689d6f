/* Sparse symmetric matrices by rows (CSR), and what plain C makes of them. */
#include "examples/cg/matrix.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool matrix_allocate(uint64_t rows, uint64_t entries, sparse_matrix *out) {
    *out = (sparse_matrix){.rows = rows, .entries = entries};
    out->starts = calloc(rows + 1, sizeof *out->starts);
    out->columns = calloc(entries ? entries : 1, sizeof *out->columns);
    out->values = calloc(entries ? entries : 1, sizeof *out->values);
    if (out->starts && out->columns && out->values) return true;
    fprintf(stderr, "no memory for a matrix of %" PRIu64 " rows and %" PRIu64 " entries\n", rows, entries);
    matrix_free(out);
    return false;
}

void matrix_free(sparse_matrix *m) {
    free(m->starts);
    free(m->columns);
    free(m->values);
    *m = (sparse_matrix){0};
}

bool matrix_poisson(uint64_t side, sparse_matrix *out) {
    if (!matrix_allocate(side * side, side * side * 5 - side * 4, out)) return false;
    uint64_t next = 0;
    for (uint64_t row = 0; row < out->rows; row++) {
        const uint64_t x = row % side, y = row / side;
        const bool is_there[5] = {y > 0, x > 0, true, x + 1 < side, y + 1 < side};
        const uint64_t column[5] = {row - side, row - 1, row, row + 1, row + side};
        for (int i = 0; i < 5; i++) {
            if (!is_there[i]) continue;
            out->columns[next] = (uint32_t)column[i];
            out->values[next++] = i == 2 ? 4 : -1;
        }
        out->starts[row + 1] = next;
    }
    return true;
}

double matrix_residual(const sparse_matrix *m, const double *x, const double *b, uint64_t iterations,
                       double *out_rounding) {
    double residual = 0, right = 0, sizes = 0;
    for (uint64_t row = 0; row < m->rows; row++) {
        double product = 0, size = 0;
        for (uint64_t i = m->starts[row]; i < m->starts[row + 1]; i++) {
            product += m->values[i] * x[m->columns[i]];
            size += fabs(m->values[i] * x[m->columns[i]]);
        }
        residual += (b[row] - product) * (b[row] - product);
        right += b[row] * b[row];
        sizes += size * size;
    }
    const double scale = right > 0 ? sqrt(right) : 1;
    *out_rounding = (double)(iterations + 1) * DBL_EPSILON * sqrt(sizes) / scale;
    return sqrt(residual) / scale;
}
