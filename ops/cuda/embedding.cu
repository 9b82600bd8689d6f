/* CUDA kernels that follow indices: embedding, embedding_backward, index_add. */
#include "ops/cuda/common.cuh"

/* Four elements a thread where rows are whole vectors, else one. An index outside gives NaN. */
ROTA_KERNEL(embedding, 3, rota_embedding_params, ROTA_CUDA_THREADS) {
    const rota_embedding_params &p = args.params;
    const float *table = rota_operand<const float>(args, 0);
    const uint32_t *index = rota_operand<const uint32_t>(args, 1); /* a negative one is far outside */
    float *y = rota_operand<float>(args, 2);
    const bool whole = aligned16(table) && aligned16(y);
    const uint64_t count = static_cast<uint64_t>(p.rows) * p.dim;
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++) {
        const uint64_t i = element_of(g);
        if (i >= count) return;
        if (p.dim % 4 == 0) {
            const uint32_t place = index[i / p.dim];
            pack<4> value = {{not_a_number(), not_a_number(), not_a_number(), not_a_number()}};
            if (place < p.classes) value = load<4>(table + static_cast<uint64_t>(place) * p.dim + i % p.dim, whole);
            store(y + i, value, whole);
        } else {
            for (int j = 0; j < 4 && i + j < count; j++) {
                const uint32_t place = index[(i + j) / p.dim];
                y[i + j] = place < p.classes ? table[static_cast<uint64_t>(place) * p.dim + (i + j) % p.dim]
                                             : not_a_number();
            }
        }
    }
}

/* A block owns some classes and columns of the table. It walks over the index in tiles, lists the rows of its classes in
 * order, and each class is one warp's: sums in row order without atomics, the same whatever the timing. */
constexpr uint32_t TILE = 2048, PER_THREAD = TILE / ROTA_CUDA_THREADS, WARPS = ROTA_CUDA_THREADS / 32;

struct listed_rows {
    uint16_t entry[TILE]; /* row of the tile, and class of the block above it */
    uint32_t before[WARPS + 1];
};
constexpr uint32_t ROW_BITS = 11; /* of TILE; 5 are left for up to 32 classes */

/* Lists rows [first, first + TILE) whose class is one of the block's; returns how many. */
ROTA_DEVICE uint32_t list_rows(const uint32_t *index, uint64_t first, uint64_t rows, uint32_t class0, uint32_t classes,
                               listed_rows &list) {
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
    __syncthreads(); /* the list of the tile before has been read */
    if (lane == 0) list.before[warp + 1] = total;
    __syncthreads();
    uint32_t at = 0, all = 0;
    for (uint32_t w = 0; w < WARPS; w++) {
        if (w == warp) at = all;
        all += list.before[w + 1];
    }
#pragma unroll
    for (uint32_t k = 0; k < PER_THREAD; k++) {
        if (own[k] < classes)
            list.entry[at + __popc(hits[k] & ((1u << lane) - 1u))] =
                static_cast<uint16_t>(own[k] << ROW_BITS | (warp * (32 * PER_THREAD) + k * 32 + lane));
        at += __popc(hits[k]);
    }
    __syncthreads();
    return all;
}

ROTA_KERNEL(embedding_backward, 3, rota_embedding_params, ROTA_CUDA_THREADS) {
    const rota_embedding_params &p = args.params;
    const float *dy = rota_operand<const float>(args, 0);
    const uint32_t *index = rota_operand<const uint32_t>(args, 1);
    float *dtable = rota_operand<float>(args, 2);
    __shared__ listed_rows list;
    const uint32_t class_step = rota_cuda_embedding_classes(p.classes);
    const uint32_t column_step = rota_cuda_embedding_columns(p.classes, p.dim);
    const uint32_t parts = (p.dim - 1) / column_step + 1;
    const uint64_t group = rota_group_index(), class_at = group / parts * class_step;
    if (class_at >= p.classes) return;
    const uint32_t class0 = static_cast<uint32_t>(class_at), classes = min(class_step, p.classes - class0);
    const uint32_t column0 = static_cast<uint32_t>(group % parts) * column_step;
    const uint32_t columns = min(column_step, p.dim - column0);
    dtable += static_cast<uint64_t>(class0) * p.dim + column0;
    dy += column0;
    /* A warp's unit of work: a class and 32 columns. The same warp has it in every tile. */
    const uint32_t lane = threadIdx.x % 32, strips = (columns + 31) / 32, units = classes * strips;
    if (!p.accumulate)
        for (uint32_t u = threadIdx.x / 32; u < units; u += WARPS) {
            const uint32_t column = u % strips * 32 + lane;
            if (column < columns) dtable[static_cast<uint64_t>(u / strips) * p.dim + column] = 0.0f;
        }
    for (uint64_t first = 0; first < p.rows; first += TILE) {
        const uint32_t listed = list_rows(index, first, p.rows, class0, classes, list);
        if (listed == 0) continue;
        for (uint32_t u = threadIdx.x / 32; u < units; u += WARPS) {
            const uint32_t column = u % strips * 32 + lane, own = u / strips;
            const bool inside = column < columns;
            float *to = dtable + static_cast<uint64_t>(own) * p.dim + column;
            float total = inside ? *to : 0.0f;
            for (uint32_t e = 0; e < listed; e += 32) {
                const uint32_t entry = e + lane < listed ? list.entry[e + lane] : 0xFFFFFFFFu;
                uint32_t hits = __ballot_sync(0xFFFFFFFFu, entry >> ROW_BITS == own);
                while (hits) { /* four rows in flight, added in order */
                    float value[4];
                    uint32_t count = 0;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        value[k] = 0.0f;
                        if (hits == 0) continue;
                        const uint32_t row = __shfl_sync(0xFFFFFFFFu, entry, __ffs(static_cast<int>(hits)) - 1) & (TILE - 1);
                        if (inside) value[k] = dy[(first + row) * p.dim + column];
                        hits &= hits - 1;
                        count++;
                    }
#pragma unroll
                    for (uint32_t k = 0; k < 4; k++)
                        if (k < count) total += value[k];
                }
            }
            if (inside) *to = total;
        }
    }
}

/* Integer and atomic. Rows outside are skipped. */
ROTA_KERNEL(index_add, 2, rota_index_add_params, ROTA_CUDA_THREADS) {
    const rota_index_add_params &p = args.params;
    const uint64_t row = rota_index();
    if (row >= p.rows) return;
    const uint32_t place = rota_operand<const uint32_t>(args, 0)[row]; /* a negative one is far outside */
    if (place < p.size) atomicAdd(rota_operand<int32_t>(args, 1) + place, p.value);
}
