/* References of the ops whose results have a length that the contents decide. */
#ifndef ROTA_BENCH_OPS_REFERENCE_LENGTH_H
#define ROTA_BENCH_OPS_REFERENCE_LENGTH_H

#include "bench/ops_reference.h"

void reference_nonzero(reference *r);
void reference_compact(reference *r);
void reference_unique(reference *r);
void reference_top_p(reference *r);

#endif
