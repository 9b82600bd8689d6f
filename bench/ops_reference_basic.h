/* References of the ops that work element by element, move, or reduce along an axis. */
#ifndef ROTA_BENCH_OPS_REFERENCE_BASIC_H
#define ROTA_BENCH_OPS_REFERENCE_BASIC_H

#include "bench/ops_reference.h"

/* False if the op is none of them. */
bool reference_run_basic(reference *r);
/* Roundings to f32 between inputs and result, but for those of a long sum; -1 if the op is none of them. */
double reference_roundings_basic(const reference *r);

#endif
