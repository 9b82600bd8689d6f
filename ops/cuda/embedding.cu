/* CUDA kernels that follow indices: embedding, embedding_backward, index_add. */
#include "ops/cuda/values.cuh"

/* A thread has eight elements in groups of W neighbours, where rows are whole groups, else one by one. An index outside gives
 * NaN. */
template <bool HALF, int W, typename A> ROTA_DEVICE void embedding_groups(const A &args) {
    const rota_embedding_params &p = args.params;
    const values<HALF> table(rota_operand<const void>(args, 0), 0, p.dtype), y(rota_operand<void>(args, 2), 0, p.dtype);
    const uint32_t *index = rota_operand<const uint32_t>(args, 1); /* a negative one is far outside */
    const bool whole = table.aligned() && y.aligned();
    const uint64_t count = static_cast<uint64_t>(p.rows) * p.dim;
    constexpr int GROUPS = ROTA_CUDA_ELEMENTS / W / ROTA_CUDA_THREADS;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const uint64_t i = rota_group_index() * ROTA_CUDA_ELEMENTS + (g * ROTA_CUDA_THREADS + threadIdx.x) * W;
        if (i >= count) return;
        const uint32_t place = index[i / p.dim];
        pack<W> value;
#pragma unroll
        for (int j = 0; j < W; j++) value.v[j] = not_a_number();
        if (place < p.classes) value = table.template load<W>(static_cast<uint64_t>(place) * p.dim + i % p.dim, whole);
        y.template store<W>(i, value, whole);
    }
}

ROTA_KERNEL(embedding, 3, rota_embedding_params, ROTA_CUDA_THREADS) {
    if (args.params.dtype == DTYPE_F32) {
        if (args.params.dim % 4 == 0)
            embedding_groups<false, 4>(args);
        else
            embedding_groups<false, 1>(args);
    } else if (args.params.dim % 8 == 0)
        embedding_groups<true, 8>(args);
    else
        embedding_groups<true, 1>(args);
}

/* A block owns some classes and columns of the table. It walks over the index in tiles and lists the rows of its classes in
 * order; when the list may overflow, and at the end, each class and group of columns is one warp's, which adds the listed
 * rows to the table: sums in row order without atomics, the same whatever the timing. */
constexpr uint32_t TILE = 2048, PER_THREAD = TILE / ROTA_CUDA_THREADS, WARPS = ROTA_CUDA_THREADS / 32;
constexpr uint32_t LISTED = 6144 + TILE; /* at least 6144 rows are added at a time: what is 16-bit is rounded as rarely */

struct listed_rows {
    uint32_t row[LISTED];
    uint8_t own[LISTED]; /* class of the block */
    uint32_t before[WARPS + 1];
};

/* Adds to the list those of rows [first, first + TILE) whose class is one of the block's; how many are listed now. */
ROTA_DEVICE uint32_t list_rows(const uint32_t *index, uint64_t first, uint64_t rows, uint32_t class0, uint32_t classes,
                               uint32_t listed, listed_rows &list) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t own[PER_THREAD], hits[PER_THREAD], total = 0;
#pragma unroll
    for (uint32_t k = 0; k < PER_THREAD; k++) { /* a warp's rows are neighbours, so that order is kept */
        const uint64_t row = first + warp * (32 * PER_THREAD) + k * 32 + lane;
        own[k] = row < rows ? index[row] - class0 : 0xFFFFFFFFu;
    }
#pragma unroll
    for (uint32_t k = 0; k < PER_THREAD; k++) {
        hits[k] = __ballot_sync(0xFFFFFFFFu, own[k] < classes);
        total += __popc(hits[k]);
    }
    __syncthreads(); /* what was listed before has been counted, or added up */
    if (lane == 0) list.before[warp + 1] = total;
    __syncthreads();
    uint32_t at = listed, all = listed;
    for (uint32_t w = 0; w < WARPS; w++) {
        if (w == warp) at = all;
        all += list.before[w + 1];
    }
#pragma unroll
    for (uint32_t k = 0; k < PER_THREAD; k++) {
        if (own[k] < classes) {
            const uint32_t to = at + __popc(hits[k] & ((1u << lane) - 1u));
            list.row[to] = static_cast<uint32_t>(first) + warp * (32 * PER_THREAD) + k * 32 + lane;
            list.own[to] = static_cast<uint8_t>(own[k]);
        }
        at += __popc(hits[k]);
    }
    __syncthreads();
    return all;
}

/* Adds the listed rows to the block's part of the table. fresh: what is there does not count. */
template <bool HALF, int W>
ROTA_DEVICE void add_listed(const values<HALF> &dy, const values<HALF> &dtable, uint64_t dim, uint32_t classes, uint32_t columns,
                            uint32_t listed, bool fresh, const listed_rows &list) {
    const bool whole = dy.aligned() && dtable.aligned();
    const uint32_t lane = threadIdx.x % 32, strips = (columns + 32 * W - 1) / (32 * W), units = classes * strips;
    for (uint32_t u = threadIdx.x / 32; u < units; u += WARPS) {
        const uint32_t column = (u % strips * 32 + lane) * W, own = u / strips;
        const bool inside = column < columns;
        const uint64_t to = own * dim + column;
        pack<W> total = {};
        if (inside && !fresh) total = dtable.template load<W>(to, whole);
        bool any = fresh;
        for (uint32_t e = 0; e < listed; e += 32) {
            const bool mine = e + lane < listed && list.own[e + lane] == own;
            uint32_t hits = __ballot_sync(0xFFFFFFFFu, mine);
            any = any || hits;
            while (hits) { /* four rows in flight, added in order */
                pack<W> value[4];
                uint32_t count = 0;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    if (hits == 0) continue;
                    const uint64_t row = list.row[e + __ffs(static_cast<int>(hits)) - 1];
                    if (inside) value[k] = dy.template load<W>(row * dim + column, whole);
                    hits &= hits - 1;
                    count++;
                }
#pragma unroll
                for (uint32_t k = 0; k < 4; k++)
                    if (k < count) {
#pragma unroll
                        for (int j = 0; j < W; j++) total.v[j] += value[k].v[j];
                    }
            }
        }
        if (inside && any) dtable.template store<W>(to, total, whole);
    }
}

template <bool HALF, int W, typename A> ROTA_DEVICE void embedding_backward_block(const A &args, listed_rows &list) {
    const rota_embedding_params &p = args.params;
    const uint32_t *index = rota_operand<const uint32_t>(args, 1);
    const uint32_t class_step = rota_cuda_embedding_classes(p.classes);
    const uint32_t column_step = rota_cuda_embedding_columns(p.classes, p.dim);
    const uint32_t parts = (p.dim - 1) / column_step + 1;
    const uint64_t group = rota_group_index(), class_at = group / parts * class_step;
    if (class_at >= p.classes) return;
    const uint32_t class0 = static_cast<uint32_t>(class_at), classes = min(class_step, p.classes - class0);
    const uint32_t column0 = static_cast<uint32_t>(group % parts) * column_step;
    const uint32_t columns = min(column_step, p.dim - column0);
    const values<HALF> dy(rota_operand<const void>(args, 0), column0, p.dtype);
    const values<HALF> dtable(rota_operand<void>(args, 2), static_cast<uint64_t>(class0) * p.dim + column0, p.dtype);
    bool fresh = !p.accumulate;
    uint32_t listed = 0;
    for (uint64_t first = 0; first < p.rows; first += TILE) {
        listed = list_rows(index, first, p.rows, class0, classes, listed, list);
        if (listed <= LISTED - TILE && first + TILE < p.rows) continue;
        if (listed || fresh) add_listed<HALF, W>(dy, dtable, p.dim, classes, columns, listed, fresh, list);
        fresh = false;
        listed = 0;
    }
}

ROTA_KERNEL(embedding_backward, 3, rota_embedding_params, ROTA_CUDA_THREADS) {
    __shared__ listed_rows list;
    if (args.params.dtype == DTYPE_F32) {
        if (args.params.dim % 4 == 0)
            embedding_backward_block<false, 4>(args, list);
        else
            embedding_backward_block<false, 1>(args, list);
    } else if (args.params.dim % 8 == 0)
        embedding_backward_block<true, 8>(args, list);
    else
        embedding_backward_block<true, 1>(args, list);
}

/* Integer and atomic. Rows outside are skipped. */
ROTA_KERNEL(index_add, 2, rota_index_add_params, ROTA_CUDA_THREADS) {
    const rota_index_add_params &p = args.params;
    const uint64_t row = rota_index();
    if (row >= p.rows) return;
    const uint32_t place = rota_operand<const uint32_t>(args, 0)[row]; /* a negative one is far outside */
    if (place < p.size) atomicAdd(rota_operand<int32_t>(args, 1) + place, p.value);
}
