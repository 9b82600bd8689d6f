/* What each op computes, written down a second time, plainly and in f64: what rota-bench ops compares with.
 */
#ifndef ROTA_BENCH_OPS_REFERENCE_H
#define ROTA_BENCH_OPS_REFERENCE_H

#include "ops/table.h"

/* A use with its contents as f64, dense in row-major order. Ops in place change `in`. Absent inputs are NULL.
 */
typedef struct reference {
    const rota_op_use *use; /* shapes of inputs and outputs, attributes */
    double *in[ROTA_OP_INPUTS_MAX], *out[ROTA_OP_OUTPUTS_MAX];
    bool by_matrix_units; /* the result's device may multiply 8-bit floats so: sums of some 14 bits */
} reference;

/* False if there is no reference for the op. */
bool reference_run(reference *r);

/* How far an op's result may be from the reference, which has run: roundings to f32 times its unit roundoff
 * times the largest magnitude of the result (1, if that is less), and one rounding to the result's dtype. */
double reference_bound(const reference *r, uint32_t output);

#endif
