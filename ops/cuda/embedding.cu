/* CUDA kernels that follow indices: embedding, embedding_backward, index_add. */
#include "ops/cuda/values.cuh"

/* A thread has eight elements in groups of W neighbours, where rows are whole groups, else one by one. An index outside
 * gives NaN, and one of another part of the table 0. */
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
        const uint32_t given = index[i / p.dim], row = given - p.first;
        pack<W> value;
#pragma unroll
        for (int j = 0; j < W; j++) value.v[j] = given < p.all ? 0.0f : not_a_number();
        if (row < p.classes) value = table.template load<W>(static_cast<uint64_t>(row) * p.dim + i % p.dim, whole);
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

/* A block owns every so many-th class, and the columns of one warp, of the table: neighbours are often used alike (the
 * first tokens of a vocabulary are the most frequent ones). Its warps take turns at walking over the index, and each
 * lists the rows of those classes that it meets; when a list may overflow, and at the end, the listed rows are added to
 * the table: where a class has few, all of them by one warp; where it has many, each list by its own warp, and then the
 * warps' sums. Which row is added where follows from the index alone: no atomics, the same whatever the timing. */
constexpr uint32_t WARPS = ROTA_CUDA_THREADS / 32;
constexpr uint32_t ROUNDS = 4,
                   TURN = 32 * 4 * ROUNDS; /* rows that a warp looks at in a turn: four a lane, so many times */
constexpr uint32_t LISTED = 704 + TURN; /* WARPS * 704 rows are added at a time where they are spread evenly */
constexpr uint32_t ROW_BITS = 26, FEW = 32, IN_FLIGHT = 4;
constexpr uint32_t CLASSES = ROTA_CUDA_EMBEDDING_CLASSES;
static_assert(CLASSES <= 1u << (32 - ROW_BITS), "class and row in one word");

template <int W> struct listed_rows {
    uint32_t entry[WARPS][LISTED]; /* the class above ROW_BITS, the row, less `base`, below */
    uint32_t count[WARPS], of_class[CLASSES];
    float part[WARPS][W][32];
};

/* Four neighbours of the index, all ones where there are no rows. */
ROTA_DEVICE uint4 load_index(const uint32_t *index, uint64_t row, uint64_t rows, bool whole) {
    if (whole && row + 4 <= rows) return *reinterpret_cast<const uint4 *>(index + row);
    uint32_t v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = row + k < rows ? index[row + k] : 0xFFFFFFFFu;
    return make_uint4(v[0], v[1], v[2], v[3]);
}

/* Which of the block's classes it is, those being class0 and every 2^shift-th after it; of all others, something
 * larger: what is shifted out below comes back as the highest bits. */
ROTA_DEVICE uint32_t own_class(uint32_t given, uint32_t class0, uint32_t shift) {
    return __funnelshift_r(given - class0, given - class0, shift);
}

/* Lists those of the warp's next TURN rows whose class is one of the block's; how many are listed now. */
template <int W>
ROTA_DEVICE uint32_t list_rows(const uint32_t *index, uint64_t first, uint64_t rows, uint64_t base, uint32_t class0,
                               uint32_t shift, uint32_t classes, uint32_t listed, listed_rows<W> &list) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, below = (1u << lane) - 1u;
    const bool whole = aligned16(index);
    uint4 given[ROUNDS];
#pragma unroll
    for (uint32_t r = 0; r < ROUNDS; r++) given[r] = load_index(index, first + (r * 32 + lane) * 4, rows, whole);
#pragma unroll
    for (uint32_t r = 0; r < ROUNDS; r++) {
        const uint32_t own[4] = {own_class(given[r].x, class0, shift), own_class(given[r].y, class0, shift),
                                 own_class(given[r].z, class0, shift), own_class(given[r].w, class0, shift)};
        if (!__any_sync(0xFFFFFFFFu, min(min(own[0], own[1]), min(own[2], own[3])) < classes)) continue;
        uint32_t next = listed;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t hits = __ballot_sync(0xFFFFFFFFu, own[k] < classes);
            next += __popc(hits & below);
            listed += __popc(hits);
        }
        const uint32_t row = static_cast<uint32_t>(first - base) + (r * 32 + lane) * 4;
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (own[k] < classes) {
                list.entry[warp][next++] = own[k] << ROW_BITS | (row + k);
                atomicAdd(&list.of_class[own[k]], 1u); /* of integers: in any order */
            }
    }
    return listed;
}

/* Adds to `total` the first `count` of several rows that were in flight, in order. */
template <int W, int MOST>
ROTA_DEVICE void add_in_order(const pack<W> (&value)[MOST], uint32_t count, pack<W> &total) {
#pragma unroll
    for (uint32_t k = 0; k < MOST; k++)
        if (k < count) {
#pragma unroll
            for (int j = 0; j < W; j++) total.v[j] += value[k].v[j];
        }
}

/* Adds to `total` the rows of a class that one warp has listed, in order. */
template <bool HALF, int W>
ROTA_DEVICE void add_list(const values<HALF> &dy, uint64_t dim, uint64_t base, uint32_t own, uint32_t column,
                          bool inside, bool whole, uint32_t of_warp, const listed_rows<W> &list, pack<W> &total) {
    const uint32_t lane = threadIdx.x % 32, count = list.count[of_warp];
    const uint32_t *entry = list.entry[of_warp];
    for (uint32_t e = 0; e < count; e += 32) {
        uint32_t hits = __ballot_sync(0xFFFFFFFFu, e + lane < count && entry[e + lane] >> ROW_BITS == own);
        while (hits) {
            pack<W> value[IN_FLIGHT];
            uint32_t found = 0;
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) {
                if (hits == 0) continue;
                const uint64_t row = base + (entry[e + __ffs(static_cast<int>(hits)) - 1] & ((1u << ROW_BITS) - 1u));
                if (inside) value[k] = dy.template load<W>(row * dim + column, whole);
                hits &= hits - 1;
                found++;
            }
            add_in_order(value, found, total);
        }
    }
}

/* Adds the listed rows to the block's part of the table, whose rows are `step` elements apart. fresh: what is there
 * does not count. */
template <bool HALF, int W>
ROTA_DEVICE void add_listed(const values<HALF> &dy, const values<HALF> &dtable, uint64_t dim, uint64_t step,
                            uint64_t base, uint32_t classes, uint32_t columns, bool fresh, listed_rows<W> &list) {
    const bool whole = dy.aligned() && dtable.aligned();
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = lane * W;
    const bool inside = column < columns;
    for (uint32_t own = warp; own < classes; own += WARPS) {
        const uint32_t count = list.of_class[own];
        if (count > FEW || (count == 0 && !fresh)) continue;
        pack<W> total = {};
        if (inside && !fresh) total = dtable.template load<W>(own * step + column, whole);
        for (uint32_t w = 0; count && w < WARPS; w++)
            add_list<HALF, W>(dy, dim, base, own, column, inside, whole, w, list, total);
        if (inside) dtable.template store<W>(own * step + column, total, whole);
    }
    for (uint32_t own = 0; own < classes; own++) {
        if (list.of_class[own] <= FEW) continue;
        pack<W> total = {};
        add_list<HALF, W>(dy, dim, base, own, column, inside, whole, warp, list, total);
        __syncthreads(); /* the sums of the class before have been read */
#pragma unroll
        for (int j = 0; j < W; j++) list.part[warp][j][lane] = total.v[j];
        __syncthreads();
        if (warp != 0 || !inside) continue;
        pack<W> sum = {};
        if (!fresh) sum = dtable.template load<W>(own * step + column, whole);
#pragma unroll
        for (int j = 0; j < W; j++)
#pragma unroll
            for (uint32_t w = 0; w < WARPS; w++) sum.v[j] += list.part[w][j][lane];
        dtable.template store<W>(own * step + column, sum, whole);
    }
}

template <bool HALF, int W, typename A> ROTA_DEVICE void embedding_backward_block(const A &args, listed_rows<W> &list) {
    const rota_embedding_params &p = args.params;
    const uint32_t *index = rota_operand<const uint32_t>(args, 1); /* a negative one is far outside */
    const uint32_t shift = rota_cuda_embedding_shift(p.classes), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t parts = (p.dim + 32 * W - 1) / (32 * W);
    const uint64_t group = rota_group_index(), step = static_cast<uint64_t>(p.dim) << shift;
    if (group / parts >= p.classes) return;
    const uint32_t class0 = static_cast<uint32_t>(group / parts), classes = ((p.classes - class0 - 1) >> shift) + 1;
    const uint32_t column0 = static_cast<uint32_t>(group % parts) * (32 * W), columns = min(32u * W, p.dim - column0);
    /* Below 2^31, so whatever is negative, or no row, is far outside of what begins there, too. */
    const uint32_t given0 = p.first + class0;
    const values<HALF> dy(rota_operand<const void>(args, 0), column0, p.dtype);
    const values<HALF> dtable(rota_operand<void>(args, 2), static_cast<uint64_t>(class0) * p.dim + column0, p.dtype);
    bool fresh = !p.accumulate;
    uint32_t listed = 0;
    uint64_t base = 0;
    for (uint32_t i = threadIdx.x; i < CLASSES; i += ROTA_CUDA_THREADS) list.of_class[i] = 0;
    __syncthreads();
    for (uint64_t first = 0; first < p.rows;) {
        listed = list_rows<W>(index, first + warp * TURN, p.rows, base, given0, shift, classes, listed, list);
        first += WARPS * TURN;
        const bool full = listed > LISTED - TURN || first + WARPS * TURN - base > 1u << ROW_BITS;
        if (!__syncthreads_or(full || first >= p.rows)) continue;
        if (lane == 0) list.count[warp] = listed;
        __syncthreads();
        add_listed<HALF, W>(dy, dtable, p.dim, step, base, classes, columns, fresh, list);
        __syncthreads(); /* before the lists and counts are of other rows */
        for (uint32_t i = threadIdx.x; i < CLASSES; i += ROTA_CUDA_THREADS) list.of_class[i] = 0;
        __syncthreads();
        fresh = false;
        listed = 0;
        base = first;
    }
}

/* Where few rows are added to a large table, a block has some rows, and a share of its threads each: it looks at all
 * of the index, and the first row of a class adds up those of that class, in order, and adds the sum to the table; the
 * others have nothing to do. Nobody else touches that row of the table. */
constexpr uint32_t OWN = ROTA_CUDA_EMBEDDING_ROWS, ACROSS = ROTA_CUDA_THREADS / OWN, LOOKED = ROTA_CUDA_THREADS * 4;
static_assert(ACROSS % 32 == 0 && LOOKED / 32 == 32, "a row's threads are whole warps, and a lane has a word of hits");
struct met_rows {
    uint32_t hits[OWN][LOOKED / 32];
};

/* Adds to `total` the rows from `base` on that have a bit in the hits of `mine`, of which each lane has a word, in
 * order; false: one of them comes before `mine`. */
template <bool HALF, int W>
ROTA_DEVICE bool add_met(const values<HALF> &dy, uint64_t dim, uint64_t base, uint64_t mine, uint32_t column,
                         bool inside, bool whole, uint32_t word, pack<W> &total) {
    constexpr int FLYING = W == 8 ? IN_FLIGHT : 2 * IN_FLIGHT;
    uint32_t there = __ballot_sync(0xFFFFFFFFu, word != 0), hits = 0;
    uint64_t first = base;
    while (there != 0 || hits != 0) {
        pack<W> value[FLYING];
        uint32_t found = 0;
#pragma unroll
        for (int k = 0; k < FLYING; k++) {
            if (hits == 0) {
                if (there == 0) continue;
                const int of = __ffs(static_cast<int>(there)) - 1;
                there &= there - 1;
                first = base + 32 * of;
                hits = __shfl_sync(0xFFFFFFFFu, word, of);
            }
            const uint64_t row = first + __ffs(static_cast<int>(hits)) - 1;
            if (row < mine) return false;
            if (inside) value[k] = dy.template load<W>(row * dim + column, whole);
            hits &= hits - 1;
            found++;
        }
        add_in_order(value, found, total);
    }
    return true;
}

template <bool HALF, int W, typename A> ROTA_DEVICE void embedding_backward_rows(const A &args, met_rows &met) {
    const rota_embedding_params &p = args.params;
    const uint32_t *index = rota_operand<const uint32_t>(args, 1); /* a negative one is far outside */
    const uint64_t parts = (static_cast<uint64_t>(p.dim) + ACROSS * W - 1) / (ACROSS * W), group = rota_group_index(),
                   first = group / parts * OWN;
    if (first >= p.rows) return;
    const uint32_t own = threadIdx.x / ACROSS;
    const uint64_t mine = first + own,
                   column = (group % parts * ACROSS + threadIdx.x % ACROSS) * static_cast<uint64_t>(W);
    uint32_t classes[OWN];
#pragma unroll
    for (uint32_t k = 0; k < OWN; k++) classes[k] = first + k < p.rows ? index[first + k] : 0xFFFFFFFFu;
    const uint32_t row = (mine < p.rows ? index[mine] : 0xFFFFFFFFu) - p.first;
    const values<HALF> dy(rota_operand<const void>(args, 0), 0, p.dtype);
    const values<HALF> dtable(rota_operand<void>(args, 2), 0, p.dtype);
    const bool inside = column < p.dim, whole = dy.aligned() && dtable.aligned(), whole_index = aligned16(index);
    bool adds = row < p.classes;
    pack<W> total = {};
    for (uint64_t base = 0; base < p.rows; base += LOOKED) {
        const uint4 given = load_index(index, base + threadIdx.x * 4, p.rows, whole_index);
        if (threadIdx.x < OWN * (LOOKED / 32)) met.hits[threadIdx.x / 32][threadIdx.x % 32] = 0;
        __syncthreads();
#pragma unroll
        for (uint32_t k = 0; k < OWN; k++) {
            const uint32_t hits = (given.x == classes[k] ? 1u : 0u) | (given.y == classes[k] ? 2u : 0u) |
                                  (given.z == classes[k] ? 4u : 0u) | (given.w == classes[k] ? 8u : 0u);
            if (hits) atomicOr(&met.hits[k][threadIdx.x / 8], hits << threadIdx.x % 8 * 4); /* in any order */
        }
        __syncthreads();
        if (adds)
            adds = add_met<HALF, W>(dy, p.dim, base, mine, static_cast<uint32_t>(column), inside, whole,
                                    met.hits[own][threadIdx.x % 32], total);
        if (!__syncthreads_or(adds)) return;
    }
    if (!adds || !inside) return;
    const uint64_t offset = static_cast<uint64_t>(row) * p.dim + column;
    const pack<W> before = dtable.template load<W>(offset, whole);
#pragma unroll
    for (int j = 0; j < W; j++) total.v[j] = before.v[j] + total.v[j];
    dtable.template store<W>(offset, total, whole);
}

template <bool HALF, int W, typename A> ROTA_DEVICE void embedding_backward_any(const A &args, void *room) {
    if (rota_cuda_embedding_by_rows(&args.params))
        embedding_backward_rows<HALF, W>(args, *static_cast<met_rows *>(room));
    else
        embedding_backward_block<HALF, W>(args, *static_cast<listed_rows<W> *>(room));
}

ROTA_KERNEL_BLOCKS(embedding_backward, 3, rota_embedding_params, ROTA_CUDA_THREADS, 3) {
    __shared__ __align__(16) unsigned char room[sizeof(listed_rows<8>)];
    if (args.params.dtype == DTYPE_F32) {
        if (args.params.dim % 4 == 0)
            embedding_backward_any<false, 4>(args, room);
        else
            embedding_backward_any<false, 1>(args, room);
    } else if (args.params.dim % 8 == 0)
        embedding_backward_any<true, 8>(args, room);
    else
        embedding_backward_any<true, 1>(args, room);
}

/* Integer and atomic. Rows outside are skipped. */
ROTA_KERNEL(index_add, 2, rota_index_add_params, ROTA_CUDA_THREADS) {
    const rota_index_add_params &p = args.params;
    const uint64_t row = rota_index();
    if (row >= p.rows) return;
    const uint32_t element = rota_operand<const uint32_t>(args, 0)[row]; /* a negative one is far outside */
    if (element < p.size) atomicAdd(rota_operand<int32_t>(args, 1) + element, p.value);
}
