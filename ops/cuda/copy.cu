/* CUDA kernels: copy_strided, copy_row. The former: a vector of up to 16 bytes at a time along the innermost dimension;
 * where x is contiguous along another dimension than y, tiles through shared memory, so that both sides are read and
 * written in long runs. */
#include "ops/cuda/typed.cuh"

constexpr int LAST = ROTA_KERNEL_DIMS - 1, TILE = ROTA_CUDA_TRANSPOSE_TILE;

/* Bits of an element, as a number and back. */
ROTA_DEVICE float number_of(const rota_copy_strided_params &, uint32_t bits) { return __uint_as_float(bits); }
ROTA_DEVICE float number_of(const rota_copy_strided_params &p, uint16_t bits) {
    return p.dtype == DTYPE_F16 ? widen(__ushort_as_half(bits)) : widen(__ushort_as_bfloat16(bits));
}
ROTA_DEVICE void set_bits(const rota_copy_strided_params &, float value, uint32_t &bits) {
    bits = __float_as_uint(value);
}
ROTA_DEVICE void set_bits(const rota_copy_strided_params &p, float value, uint16_t &bits) {
    bits = p.dtype == DTYPE_F16 ? __half_as_ushort(narrow<__half>(value))
                                : __bfloat16_as_ushort(narrow<__nv_bfloat16>(value));
}

/* What goes to y: bits as they are, or a number scaled and added. 8-bit floats are only ever moved. */
ROTA_DEVICE uint8_t result(const rota_copy_strided_params &, uint8_t x, const uint8_t *) { return x; }
template <typename T> ROTA_DEVICE T result(const rota_copy_strided_params &p, T x, const T *y) {
    if (p.flags == 0) return x;
    const float value = (p.flags & ROTA_COPY_SCALE ? p.alpha : 1.0f) * number_of(p, x);
    set_bits(p, p.flags & ROTA_COPY_ACCUMULATE ? number_of(p, *y) + value : value, x);
    return x;
}

ROTA_DEVICE void offsets(const rota_copy_strided_params &p, uint32_t i, uint64_t &from, uint64_t &to) {
    from = p.x_offset;
    to = p.y_offset;
    for (int d = LAST; d >= 0 && i != 0; d--) {
        const uint64_t index = i % p.shape[d];
        i /= p.shape[d];
        from += index * p.x_stride[d];
        to += index * p.y_stride[d];
    }
}

/* W divides the innermost extent. */
template <typename T, int W> ROTA_DEVICE void copy(const rota_copy_strided_params &p, const T *x, T *y) {
    using vector = several<T, W>;
    const uint64_t xs = p.x_stride[LAST], ys = p.y_stride[LAST];
    constexpr int GROUPS = EIGHT / W;
    uint64_t from[GROUPS], to[GROUPS], base = rota_group_index() * ROTA_CUDA_ELEMENTS;
    vector value[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const uint64_t i = base + static_cast<uint64_t>(g * ROTA_CUDA_THREADS + threadIdx.x) * W;
        if (i >= p.count) break;
        offsets(p, static_cast<uint32_t>(i), from[g], to[g]);
        if (W > 1 && xs == 1 && aligned_to<vector>(x + from[g]))
            value[g] = *reinterpret_cast<const vector *>(x + from[g]);
        else
#pragma unroll
            for (int j = 0; j < W; j++) value[g].v[j] = x[from[g] + xs * j];
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const uint64_t i = base + static_cast<uint64_t>(g * ROTA_CUDA_THREADS + threadIdx.x) * W;
        if (i >= p.count) return;
        T *target = y + to[g];
        if (W > 1 && ys == 1 && aligned_to<vector>(target)) {
            vector before = {};
            if (p.flags & ROTA_COPY_ACCUMULATE) before = *reinterpret_cast<const vector *>(target);
#pragma unroll
            for (int j = 0; j < W; j++) value[g].v[j] = result(p, value[g].v[j], &before.v[j]);
            *reinterpret_cast<vector *>(target) = value[g];
        } else {
#pragma unroll
            for (int j = 0; j < W; j++) target[ys * j] = result(p, value[g].v[j], target + ys * j);
        }
    }
}

/* A block moves one tile of dimensions `dim` (along which x is contiguous) and the innermost (along which y is): a
 * square, each warp a line of it at a time, or a narrow one, whose elements are dealt out as they come. */
template <typename T> ROTA_DEVICE void transpose(const rota_copy_strided_params &p, int dim, const T *x, T *y) {
    __shared__ T tile[TILE * (TILE + 4 / sizeof(T))]; /* a square's lines padded by a bank: no conflicts either way */
    const rota_cuda_tile size = rota_cuda_transposed_tile(&p, dim);
    const uint32_t height = p.shape[dim], width = p.shape[LAST];
    const uint32_t rows = (height + size.rows - 1) / size.rows, columns = (width + size.columns - 1) / size.columns;
    uint64_t rest = rota_group_index();
    const uint32_t column = static_cast<uint32_t>(rest % columns) * size.columns;
    rest /= columns;
    const uint32_t row = static_cast<uint32_t>(rest % rows) * size.rows;
    rest /= rows;
    uint64_t from = p.x_offset, to = p.y_offset;
    for (int d = LAST - 1; d >= 0; d--) {
        if (d == dim) continue;
        const uint64_t index = rest % p.shape[d];
        rest /= p.shape[d];
        from += index * p.x_stride[d];
        to += index * p.y_stride[d];
    }
    if (rest != 0) return; /* the padding of a folded grid */
    const uint64_t x_step = p.x_stride[LAST], y_step = p.y_stride[dim];
    from += column * x_step + row;
    to += row * y_step + column;
    if (size.rows == TILE && size.columns == TILE) {
        constexpr uint32_t STEP = ROTA_CUDA_THREADS / TILE, PITCH = TILE + 4 / sizeof(T);
        const uint32_t lane = threadIdx.x % TILE, group = threadIdx.x / TILE;
#pragma unroll
        for (uint32_t k = group; k < TILE; k += STEP)
            if (column + k < width && row + lane < height) tile[k * PITCH + lane] = x[from + k * x_step + lane];
        __syncthreads();
#pragma unroll
        for (uint32_t k = group; k < TILE; k += STEP)
            if (row + k < height && column + lane < width) {
                T *target = y + to + k * y_step + lane;
                *target = result(p, tile[lane * PITCH + k], target);
            }
        return;
    }
    const uint32_t high = min(size.rows, height - row), wide = min(size.columns, width - column);
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < high * wide; i += ROTA_CUDA_THREADS)
        tile[i] = x[from + i / high * x_step + i % high];
    __syncthreads();
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < high * wide; i += ROTA_CUDA_THREADS) {
        T *target = y + to + i / wide * y_step + i % wide;
        *target = result(p, tile[i % wide * high + i / wide], target);
    }
}

template <typename T, typename A> ROTA_DEVICE void run(const A &args) {
    constexpr int WIDEST = sizeof(T) == 1 ? EIGHT : 16 / sizeof(T);
    const T *x = rota_operand<const T>(args, 0);
    T *y = rota_operand<T>(args, 1);
    const int dim = rota_cuda_transposed_dim(&args.params);
    if (dim >= 0)
        transpose(args.params, dim, x, y);
    else if (args.params.shape[LAST] % WIDEST == 0)
        copy<T, WIDEST>(args.params, x, y);
    else
        copy<T, 1>(args.params, x, y);
}

ROTA_KERNEL(copy_strided, 2, rota_copy_strided_params, ROTA_CUDA_THREADS) {
    if (args.params.dtype == DTYPE_F16 || args.params.dtype == DTYPE_BF16)
        run<uint16_t>(args);
    else if (args.params.dtype == DTYPE_F8_E4M3FN || args.params.dtype == DTYPE_F8_E5M2)
        run<uint8_t>(args);
    else
        run<uint32_t>(args);
}

ROTA_KERNEL(copy_row, 3, rota_copy_row_params, ROTA_CUDA_THREADS) {
    const rota_copy_row_params &p = args.params;
    const uint64_t i = rota_index();
    const uint32_t row = *rota_operand<const uint32_t>(args, 0); /* a negative one is far outside */
    if (i >= p.words || row >= p.rows) return;
    const uint64_t from = static_cast<uint64_t>(row) * p.x_step + i, to = static_cast<uint64_t>(row) * p.y_step + i;
    rota_operand<uint32_t>(args, 2)[to] = rota_operand<const uint32_t>(args, 1)[from];
}
