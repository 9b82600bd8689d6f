/* CUDA kernel: copy_strided. Four elements a thread along the innermost dimension; where x is contiguous along another
 * dimension than y, tiles through shared memory, so that both sides are read and written in long runs. */
#include "ops/cuda/common.cuh"

constexpr int LAST = ROTA_KERNEL_DIMS - 1, TILE = ROTA_CUDA_TRANSPOSE_TILE;

template <typename T> struct alignas(4 * sizeof(T)) four {
    T v[4];
};

/* What goes to y: bits as they are, or a float scaled and added. */
ROTA_DEVICE uint16_t result(const rota_copy_strided_params &, uint16_t x, const uint16_t *) { return x; }
ROTA_DEVICE uint32_t result(const rota_copy_strided_params &p, uint32_t x, const uint32_t *y) {
    if (p.flags == 0) return x;
    const float value = (p.flags & ROTA_COPY_SCALE ? p.alpha : 1.0f) * __uint_as_float(x);
    return __float_as_uint(p.flags & ROTA_COPY_ACCUMULATE ? __uint_as_float(*y) + value : value);
}

ROTA_DEVICE void places(const rota_copy_strided_params &p, uint32_t i, uint64_t &from, uint64_t &to) {
    from = p.x_offset;
    to = p.y_offset;
    for (int d = LAST; d >= 0 && i != 0; d--) {
        const uint64_t at = i % p.shape[d];
        i /= p.shape[d];
        from += at * p.x_stride[d];
        to += at * p.y_stride[d];
    }
}

template <typename T> ROTA_DEVICE void copy(const rota_copy_strided_params &p, const T *x, T *y) {
    const uint64_t xs = p.x_stride[LAST], ys = p.y_stride[LAST];
    const bool by_four = p.shape[LAST] % 4 == 0;
    uint64_t from, to;
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++) {
        const uint64_t i = element_of(g);
        if (i >= p.count) return;
        if (!by_four) {
            for (int j = 0; j < 4 && i + j < p.count; j++) {
                places(p, static_cast<uint32_t>(i + j), from, to);
                y[to] = result(p, x[from], y + to);
            }
            continue;
        }
        places(p, static_cast<uint32_t>(i), from, to);
        four<T> value;
        if (xs == 1 && reinterpret_cast<uint64_t>(x + from) % sizeof(four<T>) == 0)
            value = *reinterpret_cast<const four<T> *>(x + from);
        else
#pragma unroll
            for (int j = 0; j < 4; j++) value.v[j] = x[from + xs * j];
#pragma unroll
        for (int j = 0; j < 4; j++) value.v[j] = result(p, value.v[j], y + to + ys * j);
        if (ys == 1 && reinterpret_cast<uint64_t>(y + to) % sizeof(four<T>) == 0)
            *reinterpret_cast<four<T> *>(y + to) = value;
        else
#pragma unroll
            for (int j = 0; j < 4; j++) y[to + ys * j] = value.v[j];
    }
}

/* A block moves one tile of dimensions `dim` (along which x is contiguous) and the innermost (along which y is). */
template <typename T> ROTA_DEVICE void transpose(const rota_copy_strided_params &p, int dim, const T *x, T *y) {
    __shared__ T tile[TILE][TILE + 4 / sizeof(T)]; /* padded by a bank: no conflicts either way */
    const uint32_t height = p.shape[dim], width = p.shape[LAST];
    const uint32_t rows = (height + TILE - 1) / TILE, columns = (width + TILE - 1) / TILE;
    uint64_t rest = rota_group_index();
    const uint32_t column = static_cast<uint32_t>(rest % columns) * TILE;
    rest /= columns;
    const uint32_t row = static_cast<uint32_t>(rest % rows) * TILE;
    rest /= rows;
    uint64_t from = p.x_offset, to = p.y_offset;
    for (int d = LAST - 1; d >= 0; d--) {
        if (d == dim) continue;
        const uint64_t at = rest % p.shape[d];
        rest /= p.shape[d];
        from += at * p.x_stride[d];
        to += at * p.y_stride[d];
    }
    if (rest != 0) return; /* the padding of a folded grid */
    const uint32_t lane = threadIdx.x % TILE, group = threadIdx.x / TILE;
    constexpr uint32_t STEP = ROTA_CUDA_THREADS / TILE;
#pragma unroll
    for (uint32_t k = group; k < TILE; k += STEP)
        if (column + k < width && row + lane < height)
            tile[k][lane] = x[from + static_cast<uint64_t>(column + k) * p.x_stride[LAST] + row + lane];
    __syncthreads();
#pragma unroll
    for (uint32_t k = group; k < TILE; k += STEP)
        if (row + k < height && column + lane < width) {
            T *at = y + to + static_cast<uint64_t>(row + k) * p.y_stride[dim] + column + lane;
            *at = result(p, tile[lane][k], at);
        }
}

template <typename T, typename A> ROTA_DEVICE void run(const A &args) {
    const T *x = rota_operand<const T>(args, 0);
    T *y = rota_operand<T>(args, 1);
    const int dim = rota_cuda_transposed_dim(&args.params);
    if (dim < 0)
        copy(args.params, x, y);
    else
        transpose(args.params, dim, x, y);
}

ROTA_KERNEL(copy_strided, 2, rota_copy_strided_params, ROTA_CUDA_THREADS) {
    if (args.params.element_bytes == 2)
        run<uint16_t>(args);
    else
        run<uint32_t>(args);
}
