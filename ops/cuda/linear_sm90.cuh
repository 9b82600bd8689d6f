/* Products of 16-bit matrices on Hopper with what follows them (sm_90a), for matmul_sm90.cu's variants: tiles of 128 x
 * 128, sums in f32. What matmul_sm90.cuh says of copying holds here; but a block's two multiplying warpgroups take its
 * tiles in turns, so that one multiplies while the other does what follows its product: that then costs no time of the
 * matrix units'. */
#ifndef ROTA_OPS_CUDA_LINEAR_SM90_CUH
#define ROTA_OPS_CUDA_LINEAR_SM90_CUH

#include "ops/cuda/activation.cuh"
#include "ops/cuda/matmul_sm90.cuh"
#include "ops/cuda/values.cuh"

struct linear_prepared { /* rota_linear_sm90_run */
    tensor_map a, b, c, kept;
    uint32_t group; /* as of matmul_prepared */
    uint32_t unused[15];
};
static_assert(sizeof(linear_prepared) == ROTA_LINEAR_SM90_PREPARED_BYTES);

struct linear_tile {
    static constexpr int rows = ROTA_LINEAR_SM90_ROWS, columns = ROTA_LINEAR_SM90_COLUMNS, warpgroups = 2;
    static constexpr int stages = ROTA_LINEAR_SM90_STAGES, cluster_m = ROTA_LINEAR_SM90_CLUSTER, cluster_n = 1,
                         cluster = cluster_m;
    static constexpr int slabs = rows / 64, parts = columns / PIECE, staging = slabs * parts; /* pieces of a tile */
    static constexpr int threads = (warpgroups + 1) * WARPGROUP;
    static constexpr int a_bytes = rows * STEP_K * 2, b_bytes = columns * STEP_K * 2, stage_bytes = a_bytes + b_bytes;
    static constexpr int staging_bytes = warpgroups * staging * PIECE_BYTES;
    static constexpr int registers_copying = 40, registers_multiplying = 232;
    /* After the ring's barriers: one for each warpgroup's kept values, then room for half of its columns' sums. */
    static constexpr int sums_bytes = columns * 4;
    static constexpr int shared_bytes = ROTA_LINEAR_SM90_SHARED;
    static_assert(shared_bytes ==
                  SWIZZLE_BYTES + stages * stage_bytes + staging_bytes + 2 * (stages + 1) * 8 + 2 * sums_bytes);
    static_assert(shared_bytes <= 232448);
};

/* Numbers of the block's barriers: 1 + warpgroup is a warpgroup's own. */
constexpr uint32_t TURN_BARRIER = 3;

__device__ __forceinline__ void named_arrive(uint32_t number, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* The converse of store_matrices. */
__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&v)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address)
                 : "memory");
}

template <bool bf16> __device__ __forceinline__ void open_two(uint32_t bits, float &low, float &high) {
    if constexpr (bf16) {
        low = __uint_as_float(bits << 16);
        high = __uint_as_float(bits & 0xFFFF0000u);
    } else {
        low = widen_f16(bits & 0xFFFFu);
        high = widen_f16(bits >> 16);
    }
}

/* Of what is rounded to 16 bits: exp and the reciprocal by one instruction each, within 2^-20 or so. */
__device__ __forceinline__ float quick_sigmoid(float x, float square) {
    float s;
    asm("rcp.approx.ftz.f32 %0, %1;"
        : "=f"(s)
        : "f"(1.0f + quick_exp(x * fmaf(-GELU_SCALE * GELU_CUBE, square, -GELU_SCALE))));
    return s;
}
__device__ __forceinline__ float quick_gelu(float x) { return x * quick_sigmoid(x, x * x); }
__device__ __forceinline__ float quick_gelu_derivative(float x) {
    const float square = x * x, s = quick_sigmoid(x, square);
    return fmaf(x * fmaf(3.0f * GELU_SCALE * GELU_CUBE, square, GELU_SCALE), fmaf(-s, s, s), s);
}

/* A thread of a warpgroup, and where the epilogue of that works. */
struct linear_member {
    uint32_t warpgroup, staging, kept_barrier, sums;
    uint32_t thread, lane, row; /* row: of a piece, whose address this thread gives for its warp */
    __device__ linear_member(const matmul_shared<linear_tile> &shared, uint32_t warpgroup) : warpgroup(warpgroup) {
        staging = shared.staging(warpgroup);
        kept_barrier = shared.empty(linear_tile::stages) + warpgroup * 8;
        sums = shared.empty(linear_tile::stages) + 16 + warpgroup * linear_tile::sums_bytes;
        thread = threadIdx.x % WARPGROUP;
        lane = thread % 32;
        row = thread / 32 * 16 + lane % 16;
    }
    /* Of 16 columns of a piece. */
    __device__ uint32_t chunk(uint32_t piece, uint32_t i) const {
        return staging + piece * PIECE_BYTES + row * 128 + ((i * 2 + lane / 16) ^ (row % 8)) * 16;
    }
    __device__ void meet() const { named_barrier(1 + warpgroup, WARPGROUP); }
};

/* kept = a b + bias, y = GELU of that (kept from before it is rounded). Operand 0 is the bias. */
template <bool bf16> struct gelu_epilogue {
    const matmul_params &p;
    const linear_prepared &prepared;
    const uint16_t *bias;
    uint32_t added[linear_tile::parts * 8], pair = 0;
    template <typename A>
    __device__ gelu_epilogue(const A &args, const linear_prepared &prepared)
        : p(args.params), prepared(prepared), bias(rota_operand<const uint16_t>(args, 0)) {}

    /* Before the product: the bias' values are on their way meanwhile. */
    __device__ __forceinline__ void begin(const linear_member &member, uint32_t, uint32_t column) {
#pragma unroll
        for (int i = 0; i < linear_tile::parts * 8; i++) {
            const uint32_t mine = column + i * 8 + member.lane % 4 * 2;
            added[i] = p.flags & ROTA_LINEAR_BIAS && mine < p.n
                           ? bias[mine] | static_cast<uint32_t>(bias[mine + 1]) << 16
                           : 0;
        }
    }
    __device__ __forceinline__ void end(const float (&sums)[linear_tile::slabs][linear_tile::columns / 2],
                                        const linear_member &member, uint32_t row, uint32_t column) {
#pragma unroll
        for (int slab = 0; slab < linear_tile::slabs; slab++)
#pragma unroll
            for (int part = 0; part < linear_tile::parts; part++) {
                /* Two pairs of pieces: of kept values, and of results. */
                if (member.thread == 0) tile_store_wait_read<2>();
                member.meet();
                /* All of a piece before the first is stored: a warp has a scheduler almost to itself, and hides its
                 * latencies only by independent work. */
                uint32_t kept[PIECE / 16][4], result[PIECE / 16][4];
#pragma unroll
                for (int i = 0; i < PIECE / 16; i++) {
                    const float *s = &sums[slab][part * (PIECE / 2) + i * 8];
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        float low, high;
                        open_two<bf16>(added[part * 8 + i * 2 + j / 2], low, high);
                        low += s[2 * j];
                        high += s[2 * j + 1];
                        kept[i][j] = matmul_pack<bf16>(low, high);
                        result[i][j] = matmul_pack<bf16>(quick_gelu(low), quick_gelu(high));
                    }
                }
#pragma unroll
                for (int i = 0; i < PIECE / 16; i++) {
                    store_matrices(member.chunk(pair * 2, i), kept[i][0], kept[i][1], kept[i][2], kept[i][3]);
                    store_matrices(member.chunk(pair * 2 + 1, i), result[i][0], result[i][1], result[i][2],
                                   result[i][3]);
                }
                fence_shared_async();
                member.meet();
                if (member.thread == 0) {
                    const uint32_t from = member.staging + pair * 2 * PIECE_BYTES;
                    tile_store(&prepared.kept, from, column + part * PIECE, row + slab * 64);
                    tile_store(&prepared.c, from + PIECE_BYTES, column + part * PIECE, row + slab * 64);
                }
                pair ^= 1;
            }
    }
};

/* dz = (a b) times GELU's derivative at kept, and the sums of dz's columns over each tile's rows, of rounded values.
 * Operand 0 is those sums, [ceil(m / rows), n]. */
template <bool bf16> struct gelu_gradient_epilogue {
    const matmul_params &p;
    const linear_prepared &prepared;
    float *partial;
    uint32_t parity = 0;
    template <typename A>
    __device__ gelu_gradient_epilogue(const A &args, const linear_prepared &prepared)
        : p(args.params), prepared(prepared), partial(rota_operand<float>(args, 0)) {}

    /* Before the product: kept values come to where the results will be. All threads are through with what was there,
     * since they met after they read it. */
    __device__ __forceinline__ void begin(const linear_member &member, uint32_t row, uint32_t column) {
        if (member.thread != 0) return;
        tile_store_wait_read<0>();
        barrier_expect_bytes(member.kept_barrier, linear_tile::staging * PIECE_BYTES);
#pragma unroll
        for (int piece = 0; piece < linear_tile::staging; piece++)
            tile_load(member.staging + piece * PIECE_BYTES, &prepared.kept, member.kept_barrier,
                      column + piece % linear_tile::parts * PIECE, row + piece / linear_tile::parts * 64);
    }
    __device__ __forceinline__ void end(const float (&sums)[linear_tile::slabs][linear_tile::columns / 2],
                                        const linear_member &member, uint32_t row, uint32_t column) {
        barrier_wait(member.kept_barrier, parity);
        parity ^= 1;
#pragma unroll
        for (int piece = 0; piece < linear_tile::staging; piece++) {
            uint32_t bits[PIECE / 16][4]; /* all of a piece at once, as gelu_epilogue has it */
#pragma unroll
            for (int i = 0; i < PIECE / 16; i++) load_matrices(member.chunk(piece, i), bits[i]);
#pragma unroll
            for (int i = 0; i < PIECE / 16; i++) {
                const float *s = &sums[piece / linear_tile::parts][piece % linear_tile::parts * (PIECE / 2) + i * 8];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float low, high;
                    open_two<bf16>(bits[i][j], low, high);
                    bits[i][j] = matmul_pack<bf16>(s[2 * j] * quick_gelu_derivative(low),
                                                     s[2 * j + 1] * quick_gelu_derivative(high));
                }
            }
#pragma unroll
            for (int i = 0; i < PIECE / 16; i++)
                store_matrices(member.chunk(piece, i), bits[i][0], bits[i][1], bits[i][2], bits[i][3]);
        }
        fence_shared_async();
        member.meet();
        if (member.thread == 0)
#pragma unroll
            for (int piece = 0; piece < linear_tile::staging; piece++)
                tile_store(&prepared.c, member.staging + piece * PIECE_BYTES,
                           column + piece % linear_tile::parts * PIECE, row + piece / linear_tile::parts * 64);
        add_columns(member, row, column);
    }

private:
    /* A thread has two neighbouring columns of half the rows. */
    __device__ __forceinline__ void add_columns(const linear_member &member, uint32_t row, uint32_t column) const {
        const uint32_t two = member.thread % 64, half = member.thread / 64, part = two / 32, word = two % 32;
        float low = 0.0f, high = 0.0f;
#pragma unroll
        for (int slab = 0; slab < linear_tile::slabs; slab++)
#pragma unroll
            for (uint32_t r = 0; r < 32; r++) {
                const uint32_t of = half * 32 + r;
                float a, b;
                open_two<bf16>(load_shared(member.staging + (slab * linear_tile::parts + part) * PIECE_BYTES +
                                           of * 128 + ((word / 4) ^ (of % 8)) * 16 + word % 4 * 4),
                               a, b);
                low += a;
                high += b;
            }
        const uint32_t room = member.sums + two * 8;
        if (half) asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(room), "f"(low), "f"(high) : "memory");
        member.meet();
        const uint32_t mine = column + two * 2;
        if (half || mine >= p.n || row >= p.m) return; /* a cluster's second tile may be beyond the last row */
        float *to = partial + static_cast<uint64_t>(row / linear_tile::rows) * p.n + mine;
        to[0] = low + __uint_as_float(load_shared(room));
        to[1] = high + __uint_as_float(load_shared(room + 4));
    }
};

template <bool bf16, bool b_across, typename E>
__device__ __forceinline__ void linear_multiply(const matmul_params &p, uint32_t group, uint32_t warpgroup,
                                                E &epilogue) {
    using tile = linear_tile;
    const matmul_shared<tile> shared;
    const linear_member member(shared, warpgroup);
    matmul_walk<tile> walk(p, group);
    uint32_t stage = 0, parity = 0;
    constexpr uint32_t a_step = 32 / 16, b_step = (b_across ? 16 * 128 : 32) / 16; /* as in matmul_multiply */
    auto release = [&](uint32_t of) {
        if constexpr (tile::cluster > 1) {
            if (member.lane < tile::cluster) barrier_arrive_at(shared.empty(of), member.lane);
        } else {
            if (member.lane == 0) barrier_arrive(shared.empty(of));
        }
    };
    if (warpgroup == 1) named_arrive(TURN_BARRIER, 2 * WARPGROUP); /* the first turn is warpgroup 0's */
    for (uint32_t turn = 0; walk.take(); turn ^= 1) {
        if (turn != warpgroup) { /* the other one's tile */
            stage += walk.steps;
            parity ^= stage / tile::stages & 1;
            stage %= tile::stages;
            continue;
        }
        float sums[tile::slabs][tile::columns / 2];
        epilogue.begin(member, walk.row, walk.column);
        /* A stage's barrier tells phases apart by their parity alone: none is waited for before the other warpgroup has
         * seen the one before it. */
        named_barrier(TURN_BARRIER + warpgroup, 2 * WARPGROUP);
        for (uint32_t step = 0; step < walk.steps; step++) {
            barrier_wait(shared.full(stage), parity);
            if (step + 1 == walk.steps && walk.next < walk.count)
                named_arrive(TURN_BARRIER + (warpgroup ^ 1), 2 * WARPGROUP);
            const uint64_t a = matrix_descriptor(shared.a(stage), PIECE_BYTES, SWIZZLE_BYTES);
            const uint64_t b = matrix_descriptor(shared.b(stage), PIECE_BYTES, SWIZZLE_BYTES);
            products_begin();
#pragma unroll
            for (int i = 0; i < STEP_K / 16; i++)
#pragma unroll
                for (int slab = 0; slab < tile::slabs; slab++)
                    warpgroup_product<tile::columns, bf16, false, b_across>::add_to(
                        sums[slab], a + slab * (PIECE_BYTES / 16) + i * a_step, b + i * b_step, step > 0 || i > 0);
            products_commit();
            products_wait<1>();
            if (step > 0) release(stage == 0 ? tile::stages - 1 : stage - 1);
            if (++stage == tile::stages) stage = 0, parity ^= 1;
        }
        products_wait<0>();
        release(stage == 0 ? tile::stages - 1 : stage - 1);
        epilogue.end(sums, member, walk.row, walk.column);
    }
    if (member.thread == 0) tile_store_wait_read<0>();
}

template <bool bf16, bool transpose_b, template <bool> class E, typename A>
__device__ __forceinline__ void linear_sm90(const A &args, const linear_prepared &prepared) {
    using tile = linear_tile;
    const matmul_shared<tile> shared;
    const uint32_t warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0), warpgroup = warp / 4;
    if (threadIdx.x == 0) {
        for (int i = 0; i < tile::stages; i++) {
            barrier_init(shared.full(i), 1);
            barrier_init(shared.empty(i), tile::cluster * 4); /* warps of one warpgroup */
        }
        for (int i = 0; i < tile::warpgroups; i++) barrier_init(shared.empty(tile::stages) + i * 8, 1);
        barrier_init_done();
        tile_prefetch_map(&prepared.a);
        tile_prefetch_map(&prepared.b);
        tile_prefetch_map(&prepared.c);
        tile_prefetch_map(&prepared.kept);
    }
    cluster_sync();
    if (warpgroup == tile::warpgroups) {
        registers_give<tile::registers_copying>();
        if (warp == tile::warpgroups * 4 && threadIdx.x % 32 == 0)
            matmul_copy<tile, false, !transpose_b>(args.params, prepared);
        __syncwarp();
    } else {
        registers_take<tile::registers_multiplying>();
        E<bf16> epilogue(args, prepared);
        linear_multiply<bf16, !transpose_b>(args.params, prepared.group, warpgroup, epilogue);
    }
    /* No block may end while another can still write to its shared memory or arrive at its barriers. */
    cluster_sync();
}

#endif
