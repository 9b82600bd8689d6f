/* Sparse symmetric matrices by rows (CSR), and what plain C makes of them. */
#ifndef ROTA_EXAMPLES_CG_MATRIX_H
#define ROTA_EXAMPLES_CG_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sparse_matrix {
    uint64_t rows, entries;
    uint64_t *starts;  /* rows + 1: where each row's entries begin */
    uint32_t *columns; /* ascending within a row */
    double *values;
} sparse_matrix;

/* Room for it, `starts` zeroed. False with a sentence on stderr: no memory. */
bool matrix_allocate(uint64_t rows, uint64_t entries, sparse_matrix *out);
void matrix_free(sparse_matrix *m);

/* Poisson's equation on a square of side x side points, zero around it: 4 on the diagonal, -1 for each neighbour. */
bool matrix_poisson(uint64_t side, sparse_matrix *out);

/* The norm of b - A x over that of b (of zeros: the norm itself), computed one row after the other; and how far
 * rounding may have led it away in so many iterations of the recurrence that says when to stop: each rounds at most as
 * |A| |x| does (Greenbaum, "Estimating the attainable accuracy of recursively computed residual methods", 1997). */
double matrix_residual(const sparse_matrix *m, const double *x, const double *b, uint64_t iterations,
                       double *out_rounding);

#endif
