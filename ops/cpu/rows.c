/* Scratch for CPU kernels of rows of any real dtype, and strided rows to and from it. */
#include "half.h"
#include "rows.h"

#include <stdlib.h>

bool rota_cpu_scratch(uint32_t dtype, uint64_t floats, float **out_scratch) {
    *out_scratch = dtype == ROTA_F32 ? NULL : malloc(floats * sizeof(float));
    return dtype == ROTA_F32 || *out_scratch;
}

rota_status rota_cpu_no_scratch(const char *kernel, uint64_t floats) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no host memory for %llu floats of scratch", kernel,
                     (unsigned long long)floats);
}

void rota_cpu_widen_rows(uint32_t dtype, const void *x, uint64_t first, uint64_t rows, uint64_t columns,
                         uint64_t stride, float *out) {
    for (uint64_t r = 0; r < rows; r++) {
        float *to = out + r * columns;
        const float *from = rota_cpu_widen(dtype, x, first + r * stride, columns, to);
        if (from != to) memcpy(to, from, columns * sizeof(float));
    }
}

void rota_cpu_narrow_rows(uint32_t dtype, const float *x, uint64_t rows, uint64_t columns, void *y,
                          uint64_t first, uint64_t stride) {
    for (uint64_t r = 0; r < rows; r++)
        if (dtype == ROTA_F32)
            memcpy((float *)y + first + r * stride, x + r * columns, columns * sizeof(float));
        else
            rota_cpu_narrow(dtype, x + r * columns, y, first + r * stride, columns);
}
