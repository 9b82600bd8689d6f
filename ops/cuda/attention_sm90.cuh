/* The gradients of attention on Hopper (sm_90a), for 16-bit floats and up to 64 columns; sums in f32.
 *
 * With p = exp(scale * q k^T - lse) (0 where masked), dp = dout v^T and ds = p * (dp - delta) (with dropout dp = m *
 * (dout v^T), and m * p in the place of p for dv), for a block of 128 keys
 * and a tile of 128 queries, two warpgroups, of which each has 64 of the keys, compute p^T and dp^T, and from them dv
 * += p^T dout, dk += ds^T q, and, each for 64 of the queries, dq += ds k. dk and dv stay in registers while a block
 * walks over its tiles. Of a third warpgroup one thread copies, and one for each half of a tile adds dq.
 *
 * dq is summed in memory, in floats, in an order that is always the same; whoever comes last fetches the sum and writes
 * dq. A block of threads that has a pair of batch and head for itself walks its key blocks from the last to the first,
 * and waits until an addition is done before the next. Where the key blocks of a pair are divided among blocks of
 * threads, these add in turns: a number for each half of a tile says who is next. attention_sm90_shares.c has the
 * order, and why nobody waits forever; the launch lets them all run at the same time. */
#ifndef ROTA_OPS_CUDA_ATTENTION_SM90_CUH
#define ROTA_OPS_CUDA_ATTENTION_SM90_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "ops/cuda/attention_drop_half.cuh"
#include "ops/cuda/attention_sm90_walk.cuh"

struct attention_prepared {
    tensor_map q, k, v, dout, dq, dk, dv;
    rota_attention_sm90_shares shares;
};
static_assert(sizeof(attention_prepared) == ROTA_ATTENTION_SM90_PREPARED_BYTES);

constexpr uint32_t TILE_BYTES = ROTA_ATTENTION_SM90_TILE_BYTES, SUMS_BYTES = ROTA_ATTENTION_SM90_SUMS_BYTES,
                   STATS_BYTES = ROTA_ATTENTION_SM90_STATS_BYTES, TOLD_BYTES = 16;
constexpr uint32_t WARPGROUP = 128, MULTIPLYING = 2; /* threads; warpgroups */
constexpr uint32_t ROW = 128, SWIZZLE = 1024;        /* bytes: of a row; of 8 rows */
constexpr float LOG2_E = 1.4426950408889634f;

struct attention_shared {
    uint32_t base;
    __device__ attention_shared() {
        extern __shared__ __align__(1024) uint8_t attention_memory[];
        base = shared_address(attention_memory);
        if (base % SWIZZLE) __trap();
    }
    __device__ uint32_t k(uint32_t i) const { return base + i * 2 * TILE_BYTES; }
    __device__ uint32_t v(uint32_t i) const { return k(i) + TILE_BYTES; }
    __device__ uint32_t q(uint32_t i) const { return base + (4 + i * 2) * TILE_BYTES; }
    __device__ uint32_t dout(uint32_t i) const { return q(i) + TILE_BYTES; }
    /* [keys, queries] in two pieces of 64 queries */
    __device__ uint32_t ds(uint32_t i) const { return base + (8 + i * 2) * TILE_BYTES; }
    __device__ uint32_t sums(uint32_t half) const { return base + 12 * TILE_BYTES + half * (SUMS_BYTES / 2); }
    __device__ uint32_t stats(uint32_t i) const { return base + 12 * TILE_BYTES + SUMS_BYTES + i * STATS_BYTES; }
    __device__ uint32_t told(uint32_t i) const { return stats(2) + i * TOLD_BYTES; } /* an attention_tile */
    __device__ uint32_t barrier(uint32_t i) const { return told(2) + i * 8; }
    __device__ uint32_t full(uint32_t i) const { return barrier(i); }
    __device__ uint32_t empty(uint32_t i) const { return barrier(2 + i); }
    __device__ uint32_t block_full(uint32_t i) const { return barrier(4 + i); }
    __device__ uint32_t block_empty(uint32_t i) const { return barrier(6 + i); }
    __device__ uint32_t ds_full(uint32_t i) const { return barrier(8 + i); }
    __device__ uint32_t ds_empty(uint32_t i) const { return barrier(10 + i); }
    __device__ uint32_t sums_full(uint32_t half) const { return barrier(12 + half); }
    __device__ uint32_t sums_empty(uint32_t half) const { return barrier(14 + half); }
    __device__ uint32_t fetched(uint32_t half) const { return barrier(16 + half); }
};

/* A place in a ring of two. */
struct attention_place {
    uint32_t count = 0;
    __device__ uint32_t buffer() const { return count % 2; }
    __device__ uint32_t parity() const { return count / 2 % 2; }
};

/* What the copying thread tells of a tile, beside its operands. */
struct attention_tile {
    uint32_t pair, block, tile, is;
    enum { OPENS = 1, FETCHES = 2, ENDS = 4, LAST = 8, NONE = 16 };
    __device__ attention_tile() : pair(0), block(0), tile(0), is(0) {}
    __device__ explicit attention_tile(const attention_walk &walk)
        : pair(walk.pair), block(walk.block), tile(walk.tile),
          is((walk.opens() ? OPENS : 0) | (walk.fetches() ? FETCHES : 0) | (walk.ends() ? ENDS : 0)) {}
    __device__ void put(uint32_t address) const {
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(pair), "r"(block), "r"(tile),
                     "r"(is)
                     : "memory");
    }
    __device__ void get(uint32_t address) {
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(pair), "=r"(block), "=r"(tile), "=r"(is)
                     : "r"(address)
                     : "memory");
    }
};

__device__ __forceinline__ void attention_copy(const attention_params &p, const attention_prepared &prepared,
                                               const float *stats) {
    const attention_shared shared;
    attention_walk walk(p, prepared.shares);
    attention_place tile, block;
    int32_t head = 0, batch = 0;
    const float *of_tile = stats;
    if (!walk.any) {
        attention_tile none;
        none.is = attention_tile::NONE;
        none.put(shared.told(0));
        barrier_arrive(shared.full(0));
    }
    for (bool more = walk.any; more; tile.count++) {
        if (walk.opens()) {
            head = walk.pair % p.heads, batch = walk.pair / p.heads;
            of_tile = stats + (static_cast<uint64_t>(walk.pair) * walk.tiles + walk.tile) * (STATS_BYTES / 4);
            const uint32_t full = shared.block_full(block.buffer());
            const int32_t row = walk.block * BLOCK;
            barrier_wait(shared.block_empty(block.buffer()), block.parity() ^ 1);
            barrier_expect_bytes(full, 2 * TILE_BYTES);
            tile_load(shared.k(block.buffer()), &prepared.k, full, 0, row, head, batch);
            tile_load(shared.v(block.buffer()), &prepared.v, full, 0, row, head, batch);
            block.count++;
        }
        const uint32_t full = shared.full(tile.buffer());
        const int32_t row = walk.tile * BLOCK;
        barrier_wait(shared.empty(tile.buffer()), tile.parity() ^ 1);
        tile_load(shared.q(tile.buffer()), &prepared.q, full, 0, row, head, batch);
        bytes_load(shared.stats(tile.buffer()), of_tile, STATS_BYTES, full);
        tile_load(shared.dout(tile.buffer()), &prepared.dout, full, 0, row, head, batch);
        of_tile += STATS_BYTES / 4;
        attention_tile told(walk);
        more = walk.go_on();
        if (!more) told.is |= attention_tile::LAST;
        told.put(shared.told(tile.buffer()));
        barrier_expect_bytes(full, 2 * TILE_BYTES + STATS_BYTES);
    }
}

/* Until so many have added. What they added is visible to copies from here on. */
__device__ __forceinline__ void attention_await(const uint32_t *turn, uint32_t rank) {
    uint32_t value;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(turn) : "memory");
    while (value != rank);
    fence_async();
}
/* This thread's additions are done: the next one's turn. */
__device__ __forceinline__ void attention_pass_on(uint32_t *turn, uint32_t rank) {
    fence_async();
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(rank + 1) : "memory");
}

/* One thread: adds dq of a half of each tile to its sum, or, where nothing comes after, fetches the sum and writes what
 * comes of both. */
__device__ __forceinline__ void attention_add(const attention_params &p, const attention_prepared &prepared,
                                              uint32_t half, uint32_t *turns, float *sums) {
    const attention_shared shared;
    attention_walk walk(p, prepared.shares);
    const uint32_t staging = shared.sums(half), full = shared.sums_full(half), fetched = shared.fetched(half);
    uint32_t parity = 0;
    for (bool more = walk.any; more; more = walk.go_on()) {
        uint32_t *turn = turns + (static_cast<uint64_t>(walk.pair) * walk.tiles + walk.tile) * 2 + half;
        float *sum = sums + (static_cast<uint64_t>(walk.slot()) * (SUMS_BYTES / 4) + half * (SUMS_BYTES / 8));
        const bool in_turns = walk.in_turns(), touched = walk.touched();
        if (walk.fetches()) {
            if (in_turns) attention_await(turn, walk.rank);
            barrier_expect_bytes(fetched, SUMS_BYTES / 2);
            bytes_load(staging, sum, SUMS_BYTES / 2, fetched);
        }
        barrier_wait(full, parity);
        parity ^= 1;
        if (walk.ends()) {
            const int32_t row = walk.tile * BLOCK + half * 64, head = walk.pair % p.heads, batch = walk.pair / p.heads;
            if (row < static_cast<int32_t>(p.queries)) tile_store(&prepared.dq, staging, 0, row, head, batch);
        } else {
            if (in_turns && touched) attention_await(turn, walk.rank);
            floats_store(sum, staging, SUMS_BYTES / 2, touched);
        }
        tile_store_wait_read<0>();
        barrier_arrive(shared.sums_empty(half));
        stores_wait();
        if (in_turns && !walk.ends()) attention_pass_on(turn, walk.rank);
    }
}

__device__ __forceinline__ float attention_power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
template <bool bf16> __device__ __forceinline__ uint32_t attention_pack(float low, float high) {
    if constexpr (bf16) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    } else {
        __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    }
}
__device__ __forceinline__ float2 load_two(uint32_t address) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ void store_four(uint32_t address, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

__device__ __forceinline__ float4 load_four(uint32_t address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

/* What a warpgroup that multiplies has; drops: with dropout of the probabilities. */
template <bool bf16, bool drops> struct attention_member {
    const attention_shared shared;
    const attention_params &p;
    const attention_prepared &prepared;
    const rota_attention_draw *const draw; /* what is drawn from, where it drops */
    const uint32_t warpgroup, thread, lane, warp;
    float dk[32], dv[32];
    uint32_t fetched = 0, drained = 1; /* parities of what comes to shared.fetched and .sums_empty next */

    __device__ attention_member(const attention_params &p, const attention_prepared &prepared,
                                const rota_attention_draw *draw, uint32_t warpgroup)
        : p(p), prepared(prepared), draw(draw), warpgroup(warpgroup), thread(threadIdx.x % WARPGROUP),
          lane(threadIdx.x % 32), warp(threadIdx.x % WARPGROUP / 32) {}

    __device__ void sync() const { named_barrier(1 + warpgroup, WARPGROUP); }

    /* s [64 keys, 128 queries] = our keys' rows of `keys` times the rows of `queries`. */
    __device__ void scores(float (&s)[64], uint32_t keys, uint32_t queries) const {
        const uint64_t a = matrix_descriptor(keys + warpgroup * (TILE_BYTES / 2), SWIZZLE, SWIZZLE),
                       b = matrix_descriptor(queries, SWIZZLE, SWIZZLE);
#pragma unroll
        for (int i = 0; i < 4; i++)
            warpgroup_product<128, bf16, false, false>::add_to(s, a + i * 2, b + i * 2, i > 0);
    }
    /* sum [64 keys, 64] (+)= weights [64 keys, 128 queries] times the rows of `queries`. */
    __device__ static void weigh(float (&sum)[32], const uint32_t (&weights)[32], uint32_t queries, bool add) {
        const uint64_t b = matrix_descriptor(queries, SWIZZLE, SWIZZLE);
#pragma unroll
        for (int i = 0; i < 8; i++)
            product_of_kept<bf16>(sum, weights + 4 * i, b + i * (16 * ROW / 16), i > 0 || add);
    }
    /* dq [64 queries, 64] = ds of our half of the queries times the keys. */
    __device__ void queries_sum(float (&dq)[32], uint32_t ds, uint32_t keys) const {
        const uint64_t a = matrix_descriptor(ds + warpgroup * TILE_BYTES, SWIZZLE, SWIZZLE),
                       b = matrix_descriptor(keys, SWIZZLE, SWIZZLE);
#pragma unroll
        for (int i = 0; i < 8; i++)
            warpgroup_product<64, bf16, true, true>::add_to(dq, a + i * (16 * ROW / 16), b + i * (16 * ROW / 16),
                                                            i > 0);
    }
    /* p of the scores: exp, where the query sees the key. */
    template <bool masked>
    __device__ void weights_of(float (&s)[64], uint32_t stats, int32_t key, int32_t query) const {
        const float scale = p.scale * LOG2_E;
        int32_t from[2]; /* the first column that sees a row's key */
        if constexpr (masked) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int32_t row = key + static_cast<int32_t>(warpgroup * 64 + warp * 16 + lane / 4) + h * 8;
                from[h] = p.flags & ROTA_ATTENTION_CAUSAL ? row - static_cast<int32_t>(p.keys - p.queries) - query : 0;
                if (row >= static_cast<int32_t>(p.keys)) from[h] = BLOCK;
            }
        }
#pragma unroll
        for (int n = 0; n < 16; n++) {
            const int32_t column = n * 8 + lane % 4 * 2;
            const float2 lse = load_two(stats + column * 4);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const float weight = attention_power_of_2(fmaf(s[4 * n + c], scale, c % 2 ? -lse.y : -lse.x));
                s[4 * n + c] = masked && column + c % 2 < from[c / 2] ? 0.0f : weight;
            }
        }
    }
    __device__ void weights(float (&s)[64], uint32_t stats, uint32_t key, uint32_t query) const {
        const bool causal = p.flags & ROTA_ATTENTION_CAUSAL;
        if (key + BLOCK > p.keys || (causal && key + BLOCK - 1 > query + (p.keys - p.queries)))
            weights_of<true>(s, stats, key, query);
        else
            weights_of<false>(s, stats, key, query);
    }
    /* ds, of p and dp, in the place of dp. */
    __device__ void gradient(const float (&weights)[64], float (&dp)[64], uint32_t stats) const {
#pragma unroll
        for (int n = 0; n < 16; n++) {
            const float2 delta = load_two(stats + (BLOCK + n * 8 + lane % 4 * 2) * 4);
#pragma unroll
            for (int c = 0; c < 4; c++)
                dp[4 * n + c] = weights[4 * n + c] * (dp[4 * n + c] - (c % 2 ? delta.y : delta.x));
        }
    }
    /* ... and with dropout, after which p is what of it is kept. */
    __device__ void gradient_dropping(float (&weights)[64], float (&dp)[64], uint32_t stats,
                                      const kept_across<64, drops> (&kept)[2]) const {
        const float by = draw->kept;
#pragma unroll
        for (int n = 0; n < 16; n++) {
            const float2 delta = load_two(stats + (BLOCK + n * 8 + lane % 4 * 2) * 4);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const bool keeps = kept[n / 8].is(n % 8, c);
                const float of_value = keeps ? dp[4 * n + c] * by : 0.0f;
                dp[4 * n + c] = weights[4 * n + c] * (of_value - (c % 2 ? delta.y : delta.x));
                if (!keeps) weights[4 * n + c] = 0.0f;
            }
        }
    }
    /* What is kept of our [64 keys, 128 queries] of a tile. */
    __device__ void draw_kept(kept_across<64, drops> (&kept)[2], const attention_tile &tile) const {
        const attention_drop drop(*draw, tile.pair, p.queries, p.keys);
#pragma unroll
        for (int i = 0; i < 2; i++)
            kept[i].draw(drop, tile.block * BLOCK + warpgroup * 64 + warp * 16, tile.tile * BLOCK + i * 64);
    }
    /* Weights as the left operand of a product. */
    __device__ static void pack(const float (&s)[64], uint32_t (&packed)[32]) {
#pragma unroll
        for (int i = 0; i < 32; i++) packed[i] = attention_pack<bf16>(s[2 * i], s[2 * i + 1]);
    }
    /* Ours [64, 64] of 128-byte rows: columns 16 i and on. */
    __device__ uint32_t place_in(uint32_t piece, uint32_t i) const {
        const uint32_t row = warp * 16 + lane % 16;
        return piece + row * ROW + ((i * 2 + lane / 16) ^ (row % 8)) * 16;
    }
    __device__ void put_ds(const uint32_t (&ds)[32], uint32_t to) const {
#pragma unroll
        for (int i = 0; i < 8; i++)
            store_matrices(place_in(to + i / 4 * TILE_BYTES + warpgroup * (TILE_BYTES / 2), i % 4), ds[4 * i],
                           ds[4 * i + 1], ds[4 * i + 2], ds[4 * i + 3]);
    }
    __device__ void put_sum(const float (&sum)[32], float factor, uint32_t to) const {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *s = sum + i * 8;
            store_matrices(place_in(to, i), attention_pack<bf16>(factor * s[0], factor * s[1]),
                           attention_pack<bf16>(factor * s[2], factor * s[3]),
                           attention_pack<bf16>(factor * s[4], factor * s[5]),
                           attention_pack<bf16>(factor * s[6], factor * s[7]));
        }
    }
    /* dk and dv of a block, by way of our halves of a buffer of ds. */
    __device__ void write_block(uint32_t ds, uint32_t pair, uint32_t block) const {
        const uint32_t to = ds + warpgroup * (TILE_BYTES / 2);
        float by = 1.0f;
        if constexpr (drops) by = draw->kept;
        put_sum(dv, by, to);
        put_sum(dk, p.scale, to + TILE_BYTES);
        fence_shared_async();
        sync();
        if (thread == 32) {
            const int32_t row = block * BLOCK + warpgroup * 64, head = pair % p.heads, batch = pair / p.heads;
            if (row < static_cast<int32_t>(p.keys)) {
                tile_store(&prepared.dv, to, 0, row, head, batch);
                tile_store(&prepared.dk, to + TILE_BYTES, 0, row, head, batch);
            }
        }
    }
    /* dq of our half of a tile, as an addition to its sum or, with that, as 16-bit floats: for attention_add. */
    __device__ void drain(float (&dq)[32], uint32_t is) {
        const bool ends = is & attention_tile::ENDS;
        const uint32_t staging = shared.sums(warpgroup);
        barrier_wait(shared.sums_empty(warpgroup), drained);
        drained ^= 1;
        if (is & attention_tile::FETCHES) {
            barrier_wait(shared.fetched(warpgroup), fetched);
            fetched ^= 1;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const float4 more = load_four(staging + (i * WARPGROUP + thread) * 16);
                dq[4 * i] += more.x, dq[4 * i + 1] += more.y, dq[4 * i + 2] += more.z, dq[4 * i + 3] += more.w;
            }
            if (ends) sync();
        }
        if (ends)
            put_sum(dq, p.scale, staging);
        else
#pragma unroll
            for (int i = 0; i < 8; i++)
                store_four(staging + (i * WARPGROUP + thread) * 16, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2],
                           dq[4 * i + 3]);
        fence_shared_async();
        __syncwarp();
        if (lane == 0) barrier_arrive(shared.sums_full(warpgroup));
    }
    __device__ void multiply();
};

/* A turn for each tile. It ends with the next tile's scores there and its dq under way, for which the other
 * warpgroup's part of ds is awaited as late as can be. */
template <bool bf16, bool drops> __device__ void attention_member<bf16, drops>::multiply() {
    attention_place tile, block;
    attention_tile now, last;
    uint32_t last_block = 0; /* its buffer */
    bool before = false;     /* there is a tile before */
    float s[64], dq[32];
    barrier_wait(shared.full(0), 0);
    now.get(shared.told(0));
    if (now.is & attention_tile::NONE) return;
    barrier_wait(shared.block_full(0), 0);
    products_begin();
    scores(s, shared.k(0), shared.q(0));
    products_commit();
    for (;;) {
        const bool opens = now.is & attention_tile::OPENS;
        const uint32_t buffer = tile.buffer(), stats = shared.stats(buffer), ds_buffer = shared.ds(buffer);
        products_wait<0>();
        if (before) {
            if (lane == 0) {
                barrier_arrive(shared.empty(buffer ^ 1));
                barrier_arrive(shared.ds_empty(buffer ^ 1));
                if (opens) barrier_arrive(shared.block_empty(last_block));
            }
            drain(dq, last.is);
            if (opens) {
                barrier_wait(shared.ds_empty(buffer), tile.parity() ^ 1);
                write_block(ds_buffer, last.pair, last.block);
            }
        }
        kept_across<64, drops> kept[2];
        if constexpr (drops) draw_kept(kept, now);
        float dp[64];
        products_begin();
        scores(dp, shared.v(block.buffer()), shared.dout(buffer));
        products_commit();
        weights(s, stats, now.block * BLOCK, now.tile * BLOCK);
        products_wait<0>();
        if constexpr (drops)
            gradient_dropping(s, dp, stats, kept);
        else
            gradient(s, dp, stats);
        uint32_t packed_p[32], packed_ds[32];
        pack(s, packed_p);
        pack(dp, packed_ds);
        if (before && opens) { /* what write_block put into this buffer has been read */
            if (thread == 32) tile_store_wait_read<0>();
            sync();
        }
        barrier_wait(shared.ds_empty(buffer), tile.parity() ^ 1);
        put_ds(packed_ds, ds_buffer);
        fence_shared_async();
        __syncwarp();
        if (lane == 0) barrier_arrive(shared.ds_full(buffer));
        products_begin();
        weigh(dv, packed_p, shared.dout(buffer), !opens);
        weigh(dk, packed_ds, shared.q(buffer), !opens);
        products_commit();
        last = now;
        last_block = block.buffer();
        before = true;
        if (now.is & attention_tile::LAST) break;
        tile.count++;
        barrier_wait(shared.full(tile.buffer()), tile.parity());
        now.get(shared.told(tile.buffer()));
        if (now.is & attention_tile::OPENS) {
            block.count++;
            barrier_wait(shared.block_full(block.buffer()), block.parity());
        }
        products_begin();
        scores(s, shared.k(block.buffer()), shared.q(tile.buffer()));
        products_commit();
        products_wait<0>();
        barrier_wait(shared.ds_full(buffer), (tile.count - 1) / 2 % 2);
        products_begin();
        queries_sum(dq, ds_buffer, shared.k(last_block));
        products_commit();
    }
    products_wait<0>();
    barrier_wait(shared.ds_full(tile.buffer()), tile.parity());
    products_begin();
    queries_sum(dq, shared.ds(tile.buffer()), shared.k(last_block));
    products_commit();
    barrier_wait(shared.ds_empty(tile.buffer() ^ 1), (tile.count + 1) / 2 % 2 ^ 1);
    write_block(shared.ds(tile.buffer() ^ 1), last.pair, last.block);
    products_wait<0>();
    drain(dq, last.is);
    if (thread == 32) stores_wait();
}

template <bool bf16, bool drops, typename A>
__device__ __forceinline__ void attention_sm90(const A &args, const attention_prepared &prepared) {
    const attention_shared shared;
    const uint32_t warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0), warpgroup = warp / 4;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            barrier_init(shared.full(i), 1);
            barrier_init(shared.empty(i), MULTIPLYING * 4);
            barrier_init(shared.block_full(i), 1);
            barrier_init(shared.block_empty(i), MULTIPLYING * 4);
            barrier_init(shared.ds_full(i), MULTIPLYING * 4);
            barrier_init(shared.ds_empty(i), MULTIPLYING * 4);
            barrier_init(shared.sums_full(i), 4);
            barrier_init(shared.sums_empty(i), 1);
            barrier_init(shared.fetched(i), 1);
        }
        barrier_init_done();
        tile_prefetch_map(&prepared.q);
        tile_prefetch_map(&prepared.k);
        tile_prefetch_map(&prepared.v);
        tile_prefetch_map(&prepared.dout);
    }
    __syncthreads();
    if (warpgroup == MULTIPLYING) {
        registers_give<40>();
        if (threadIdx.x % 32 == 0) {
            if (warp == MULTIPLYING * 4)
                attention_copy(args.params, prepared, rota_operand<const float>(args, 0));
            else if (warp < MULTIPLYING * 4 + 3)
                attention_add(args.params, prepared, warp - MULTIPLYING * 4 - 1, rota_operand<uint32_t>(args, 1),
                              rota_operand<float>(args, 2));
        }
    } else {
        registers_take<232>();
        const rota_attention_draw *draw = nullptr;
        if constexpr (drops) draw = &draw_of(args);
        attention_member<bf16, drops> member(args.params, prepared, draw, warpgroup);
        member.multiply();
    }
}

/* ---- Before ---- */

template <bool bf16> __device__ __forceinline__ float attention_dot(uint4 a, uint4 b) {
    const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 u, v;
        if constexpr (bf16) {
            u = make_float2(__uint_as_float(x[i] << 16), __uint_as_float(x[i] & 0xFFFF0000u));
            v = make_float2(__uint_as_float(y[i] << 16), __uint_as_float(y[i] & 0xFFFF0000u));
        } else {
            u = __half22float2(*reinterpret_cast<const __half2 *>(&x[i]));
            v = __half22float2(*reinterpret_cast<const __half2 *>(&y[i]));
        }
        sum = fmaf(u.x, v.x, sum);
        sum = fmaf(u.y, v.y, sum);
    }
    return sum;
}

/* Of each tile {128 lse in powers of 2, 128 sums of out * dout}; lse beyond the queries is infinite, so that p is 0;
 * and the first turns. A block a tile, those of all heads one after the other,
 * whose rows are often side by side; 8 threads a query. */
template <bool bf16, typename A> __device__ __forceinline__ void attention_sm90_prepare(const A &args) {
    constexpr uint32_t ROWS_AT_ONCE = ROTA_ATTENTION_SM90_ROW_THREADS / 8, TURNS = BLOCK / ROWS_AT_ONCE;
    const attention_params &p = args.params;
    const uint32_t tiles = attention_ceil(p.queries), head = blockIdx.x % p.heads, tile = blockIdx.x / p.heads % tiles,
                   batch = blockIdx.x / p.heads / tiles, pair = batch * p.heads + head, number = pair * tiles + tile;
    const uint32_t column = threadIdx.x % 8 * 8;
    const uint64_t first = static_cast<uint64_t>(batch) * p.out_stride[0] +
                           static_cast<uint64_t>(head) * p.out_stride[1] + column;
    const uint16_t *out = rota_operand<const uint16_t>(args, 0) + first;
    const uint16_t *dout = rota_operand<const uint16_t>(args, 1) + first;
    const float *lse = rota_operand<const float>(args, 2) + static_cast<uint64_t>(pair) * p.queries;
    float *stats = rota_operand<float>(args, 3) + static_cast<uint64_t>(number) * (STATS_BYTES / 4);
    if (threadIdx.x < 2) rota_operand<uint32_t>(args, 4)[number * 2 + threadIdx.x] = 0;
    uint4 x[TURNS], y[TURNS];
#pragma unroll
    for (uint32_t i = 0; i < TURNS; i++) {
        const uint32_t row = tile * BLOCK + i * ROWS_AT_ONCE + threadIdx.x / 8;
        x[i] = y[i] = make_uint4(0, 0, 0, 0);
        if (row >= p.queries || column >= p.dim) continue;
        x[i] = *reinterpret_cast<const uint4 *>(out + static_cast<uint64_t>(row) * p.out_stride[2]);
        y[i] = *reinterpret_cast<const uint4 *>(dout + static_cast<uint64_t>(row) * p.out_stride[2]);
    }
#pragma unroll
    for (uint32_t i = 0; i < TURNS; i++) {
        const uint32_t in_tile = i * ROWS_AT_ONCE + threadIdx.x / 8, row = tile * BLOCK + in_tile;
        float sum = attention_dot<bf16>(x[i], y[i]);
        for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
        if (threadIdx.x % 8 != 0) continue;
        stats[in_tile] = row < p.queries ? lse[row] * LOG2_E : __int_as_float(0x7F800000);
        stats[BLOCK + in_tile] = sum;
    }
}

#endif
