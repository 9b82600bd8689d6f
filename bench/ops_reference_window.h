/* References of the ops whose windows slide over planes. */
#ifndef ROTA_BENCH_OPS_REFERENCE_WINDOW_H
#define ROTA_BENCH_OPS_REFERENCE_WINDOW_H

#include "bench/ops_reference.h"

/* False if the op is none of them. */
bool reference_run_window(reference *r);
/* How many products or elements a result is the sum of; 0 if the op is none of them. */
double reference_sum_window(const rota_op_use *use);

#endif
