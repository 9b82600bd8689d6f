/* Scratch for rows that are widened, and strided rows to and from it. Internal. */
#ifndef ROTA_OPS_CPU_ROWS_H
#define ROTA_OPS_CPU_ROWS_H

#include "ops/cpu/cpu.h"

/* Scratch for rows that are widened, to be freed; NULL for f32. False for want of memory. */
bool rota_cpu_scratch(uint32_t dtype, uint64_t floats, float **out_scratch);
/* What is `floats` into the scratch; NULL, to which nothing may be added, where there is none. */
ROTA_INLINE float *rota_cpu_part(float *scratch, uint64_t floats) {
    return scratch ? scratch + floats : NULL;
}
rota_status rota_cpu_no_scratch(const char *kernel, uint64_t floats);
/* [rows, columns] of a dtype from element `first` on, `stride` from row to row, to or from dense f32. */
void rota_cpu_widen_rows(uint32_t dtype, const void *x, uint64_t first, uint64_t rows, uint64_t columns,
                         uint64_t stride, float *out);
void rota_cpu_narrow_rows(uint32_t dtype, const float *x, uint64_t rows, uint64_t columns, void *y,
                          uint64_t first, uint64_t stride);

#endif
