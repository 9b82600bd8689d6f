/* Attention of f16 and bf16 by matrix units, sums in f32 (after Dao, FlashAttention-2, 2023). A block of 4 warps owns
 * rows (queries, or keys for their gradients), 16 or 32 of them a warp, and walks over the others LANES at a time, the
 * next of which are copied meanwhile. Scores stay in registers: what the matrix units leave as a result is what they
 * take as an operand. D is dim rounded up to 64 or 128; columns beyond dim are 0. What a block sums follows from the
 * parameters alone. */
#ifndef ROTA_OPS_CUDA_ATTENTION_HALF_CUH
#define ROTA_OPS_CUDA_ATTENTION_HALF_CUH

#include "ops/cuda/mma.cuh"

#if __CUDA_ARCH__ >= 800

constexpr uint32_t HALF_THREADS = ROTA_CUDA_ATTENTION_THREADS, WARPS = HALF_THREADS / 32;
constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

ROTA_DEVICE float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
ROTA_DEVICE uint32_t two(__half, float a, float b) {
    const __half2 both = __floats2half2_rn(a, b);
    return *reinterpret_cast<const uint32_t *>(&both);
}
ROTA_DEVICE uint32_t two(__nv_bfloat16, float a, float b) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t *>(&both);
}

/* Rows of a strided matrix as they lie in shared memory: chunks of 8 columns, permuted by the row's number so that
 * eight rows' chunks of one column lie in different banks. */
template <int D> struct rows_in_shared {
    static constexpr int CHUNKS = D / 8;
    uint32_t address;
    ROTA_DEVICE uint32_t address_of(uint32_t row, uint32_t chunk) const {
        return address + (row * CHUNKS + (chunk ^ (row & 7))) * 16;
    }
    /* Copies ROWS rows of `from`, of which `count` are there. */
    template <int ROWS, typename T>
    ROTA_DEVICE void copy(const T *from, uint64_t stride, uint32_t count, uint32_t dim, uint32_t unit) const {
#pragma unroll
        for (uint32_t e = threadIdx.x; e < ROWS * CHUNKS; e += HALF_THREADS) {
            const uint32_t row = e / CHUNKS, column = e % CHUNKS * 8;
            const uint32_t there = row < count && column < dim ? min(dim - column, 8u) : 0;
            copy_chunk(address_of(row, e % CHUNKS), there ? from + row * stride + column : from, there, unit);
        }
    }
    /* A of 16 rows from `row` and 16 columns from `column`. */
    ROTA_DEVICE void left(uint32_t row, uint32_t column, uint32_t (&r)[4]) const {
        const uint32_t lane = threadIdx.x % 32;
        load_matrices<false>(address_of(row + lane % 16, column / 8 + lane / 16), r);
    }
    /* B whose columns are 16 rows from `row`, along `column` and on: two times two registers. */
    ROTA_DEVICE void right_across(uint32_t row, uint32_t column, uint32_t (&r)[4]) const {
        const uint32_t lane = threadIdx.x % 32;
        load_matrices<false>(address_of(row + lane % 8 + lane / 16 * 8, column / 8 + lane / 8 % 2), r);
    }
    /* B of 16 rows from `row` and 16 columns from `column`. */
    ROTA_DEVICE void right(uint32_t row, uint32_t column, uint32_t (&r)[4]) const {
        const uint32_t lane = threadIdx.x % 32;
        load_matrices<true>(address_of(row + lane % 16, column / 8 + lane / 16), r);
    }
};

/* Results of 16 rows and N columns: element [n][c] is of row lane / 4 + c / 2 * 8 and column 8 n + lane % 4 * 2 + c %
 * 2. */
template <int N> struct warp_result {
    static constexpr int BLOCKS = N / 8;
    float v[BLOCKS][4];
    ROTA_DEVICE void clear() {
#pragma unroll
        for (int n = 0; n < BLOCKS; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) v[n][c] = 0.0f;
    }
    ROTA_DEVICE static uint32_t row(int c) { return threadIdx.x % 32 / 4 + c / 2 * 8; }
    ROTA_DEVICE static uint32_t column(int n, int c) { return n * 8 + threadIdx.x % 4 * 2 + c % 2; }
    /* += a x the 16 columns of b (right_across, right) that begin at 16 n. */
    template <typename T> ROTA_DEVICE void add(int n, const uint32_t (&a)[4], const uint32_t (&b)[4]) {
        multiply(T(), v[2 * n], a, b);
        multiply(T(), v[2 * n + 1], a, b + 2);
    }
    /* Columns 16 k and on, as the left operand of a product. */
    template <typename T> ROTA_DEVICE void as_left(int k, uint32_t (&a)[4]) const {
        a[0] = two(T(), v[2 * k][0], v[2 * k][1]);
        a[1] = two(T(), v[2 * k][2], v[2 * k][3]);
        a[2] = two(T(), v[2 * k + 1][0], v[2 * k + 1][1]);
        a[3] = two(T(), v[2 * k + 1][2], v[2 * k + 1][3]);
    }
    /* factor[c / 2] times the results go to `count` rows of `dim` columns. */
    template <typename T>
    ROTA_DEVICE void write(T *to, uint64_t stride, uint32_t count, uint32_t dim, const float (&factor)[2]) const {
        const bool pairs = copy_unit(to, stride) >= 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (row(2 * h) >= count) continue;
            T *target = to + row(2 * h) * stride;
#pragma unroll
            for (int n = 0; n < BLOCKS; n++) {
                const uint32_t first = column(n, 0);
                const float a = v[n][2 * h] * factor[h], b = v[n][2 * h + 1] * factor[h];
                if (pairs && first + 2 <= dim) {
                    *reinterpret_cast<uint32_t *>(target + first) = two(T(), a, b);
                } else {
                    if (first < dim) target[first] = static_cast<T>(a);
                    if (first + 1 < dim) target[first + 1] = static_cast<T>(b);
                }
            }
        }
    }
};

/* scores += 16 rows of a (its D columns in registers) x LANES rows of b. */
template <typename T, int D, int LANES>
ROTA_DEVICE void add_products(const uint32_t (&a)[D / 16][4], const rows_in_shared<D> &b, warp_result<LANES> &scores) {
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int n = 0; n < LANES / 16; n++) {
            uint32_t r[4];
            b.right_across(n * 16, k * 16, r);
            scores.template add<T>(n, a[k], r);
        }
}
/* The same with 16 rows of a in shared memory. */
template <typename T, int D, int LANES>
ROTA_DEVICE void add_products(const rows_in_shared<D> &a, uint32_t row, const rows_in_shared<D> &b,
                              warp_result<LANES> &scores) {
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t left[4];
        a.left(row, k * 16, left);
#pragma unroll
        for (int n = 0; n < LANES / 16; n++) {
            uint32_t r[4];
            b.right_across(n * 16, k * 16, r);
            scores.template add<T>(n, left, r);
        }
    }
}
/* total += weights x LANES rows of b. */
template <typename T, int D, int LANES>
ROTA_DEVICE void add_weighted(const warp_result<LANES> &weights, const rows_in_shared<D> &b, warp_result<D> &total) {
#pragma unroll
    for (int k = 0; k < LANES / 16; k++) {
        uint32_t a[4];
        weights.template as_left<T>(k, a);
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            uint32_t r[4];
            b.right(k * 16, n * 16, r);
            total.template add<T>(n, a, r);
        }
    }
}

/* Which rows a block has; see attention_block of attention.cuh. */
template <uint32_t ROWS> struct half_block {
    uint64_t batch, head, pair;
    uint32_t first;
    bool beyond;
    ROTA_DEVICE half_block(uint32_t batches, uint32_t heads, uint32_t rows, bool last_first) {
        const uint64_t blocks = (rows - 1) / ROWS + 1, group = rota_group_index(), block = group % blocks;
        pair = group / blocks;
        batch = pair / heads;
        head = pair % heads;
        first = static_cast<uint32_t>(last_first ? blocks - 1 - block : block) * ROWS;
        beyond = batch >= batches;
    }
    ROTA_DEVICE uint64_t offset(const uint32_t (&stride)[3], uint64_t row) const {
        return batch * stride[0] + head * stride[1] + row * stride[2];
    }
};

ROTA_DEVICE uint32_t rows_left(uint32_t rows, uint32_t from) { return rows > from ? rows - from : 0; }

#endif
#endif
