// The CUDA form of conjugate gradient's kernels (kernels.c).
#include "rota_kernel.cuh"

enum { GROUP_THREADS = 256, BLOCK_ROWS = 4096 };

struct cg_params {
    uint64_t rows, grain;
    double factor;
};

// Of one a thread, in the first of them: halves are added, the same ones each time.
__device__ double group_sum(double value) {
    __shared__ double sums[GROUP_THREADS];
    sums[threadIdx.x] = value;
    for (uint32_t half = GROUP_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    return sums[0];
}

__device__ double sum_parts(const double *parts, uint64_t rows) {
    const uint64_t blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    double sum = 0;
    for (uint64_t i = threadIdx.x; i < blocks; i += GROUP_THREADS) sum += parts[i];
    return group_sum(sum);
}

ROTA_KERNEL(cg_product, 5, cg_params, GROUP_THREADS) {
    const uint64_t row = rota_index();
    if (row >= args.params.rows) return;
    const uint64_t *starts = rota_operand<const uint64_t>(args, 0);
    const uint32_t *columns = rota_operand<const uint32_t>(args, 1);
    const double *values = rota_operand<const double>(args, 2), *p = rota_operand<const double>(args, 3);
    const uint64_t end = starts[row + 1];
    double sum = 0;
    for (uint64_t i = starts[row]; i < end; i++) sum += values[i] * p[columns[i]];
    rota_operand<double>(args, 4)[row] = sum;
}

ROTA_KERNEL(cg_dot, 3, cg_params, GROUP_THREADS) {
    const uint64_t block = rota_group_index(), first = block * BLOCK_ROWS, rows = args.params.rows;
    if (first >= rows) return;
    const uint64_t end = first + BLOCK_ROWS < rows ? first + BLOCK_ROWS : rows;
    const double *a = rota_operand<const double>(args, 0), *b = rota_operand<const double>(args, 1);
    double sum = 0;
    for (uint64_t i = first + threadIdx.x; i < end; i += GROUP_THREADS) sum += a[i] * b[i];
    sum = group_sum(sum);
    if (threadIdx.x == 0) rota_operand<double>(args, 2)[block] = sum;
}

ROTA_KERNEL(cg_update, 3, cg_params, GROUP_THREADS) {
    const uint64_t i = rota_index();
    if (i >= args.params.rows) return;
    const double factor = args.params.factor * *rota_operand<const double>(args, 1);
    rota_operand<double>(args, 2)[i] += factor * rota_operand<const double>(args, 0)[i];
}

ROTA_KERNEL(cg_turn, 3, cg_params, GROUP_THREADS) {
    const uint64_t i = rota_index();
    if (i >= args.params.rows) return;
    double *p = rota_operand<double>(args, 2);
    p[i] = rota_operand<const double>(args, 0)[i] + *rota_operand<const double>(args, 1) * p[i];
}

ROTA_KERNEL(cg_begin, 4, cg_params, GROUP_THREADS) {
    const double square = sum_parts(rota_operand<const double>(args, 0), args.params.rows);
    if (threadIdx.x) return;
    const double enough = args.params.factor * args.params.factor * square;
    uint32_t *more = rota_operand<uint32_t>(args, 3);
    *rota_operand<double>(args, 1) = square;
    *rota_operand<double>(args, 2) = enough;
    more[0] = square > enough && isfinite(square);
    more[1] = 0;
}

ROTA_KERNEL(cg_choose_step, 3, cg_params, GROUP_THREADS) {
    const double curvature = sum_parts(rota_operand<const double>(args, 0), args.params.rows);
    if (threadIdx.x) return;
    const bool is_good = curvature > 0 && isfinite(curvature);
    *rota_operand<double>(args, 2) =
        is_good ? *rota_operand<const double>(args, 1) / curvature : __longlong_as_double(0x7FF8000000000000ll);
}

ROTA_KERNEL(cg_choose_mix, 5, cg_params, GROUP_THREADS) {
    const double next = sum_parts(rota_operand<const double>(args, 0), args.params.rows);
    if (threadIdx.x) return;
    double *square = rota_operand<double>(args, 1);
    uint32_t *more = rota_operand<uint32_t>(args, 4);
    *rota_operand<double>(args, 3) = next / *square;
    *square = next;
    more[0] = next > *rota_operand<const double>(args, 2) && isfinite(next);
    more[1]++;
}
