/* Dropout of attention's probabilities, and what its kernels take from their arguments with it and without. What is
 * drawn (attention_params.h) is four neighbours of a row of probabilities at a time: where several threads of a warp
 * have those, each draws some of the fours of all, and they exchange the bits. */
#ifndef ROTA_OPS_CUDA_ATTENTION_DROP_CUH
#define ROTA_OPS_CUDA_ATTENTION_DROP_CUH

#include "ops/attention_drop_params.h"
#include "ops/cuda/philox.cuh"

/* How a kernel sees its parameters: DROPS, and all of them, of which with dropout the scale is in its last operand. */
template <typename A> struct attention_arguments;

template <int N> struct attention_arguments<rota_args<N, rota_attention_params>> {
    static constexpr bool DROPS = false;
    ROTA_DEVICE static const rota_attention_params &params(const rota_args<N, rota_attention_params> &args) {
        return args.params;
    }
};
template <int N> struct attention_arguments<rota_args<N, rota_attention_backward_params>> {
    static constexpr bool DROPS = false;
    ROTA_DEVICE static const rota_attention_backward_params &
    params(const rota_args<N, rota_attention_backward_params> &args) {
        return args.params;
    }
};

/* The members of a struct as those of another. */
struct attention_extents {
    uint32_t batch, heads, queries, keys, dim, flags;
    float scale;
};
template <int N, typename P> ROTA_DEVICE const rota_attention_draw &draw_of(const rota_args<N, P> &args) {
    return *rota_operand<const rota_attention_draw>(args, N - 1);
}
template <int N, typename P> ROTA_DEVICE attention_extents extents_of(const rota_args<N, P> &args) {
    const P &p = args.params;
    return {p.batch, p.heads, p.queries, p.keys, p.dim, p.flags, draw_of(args).scale};
}
template <int N> struct attention_arguments<rota_args<N, rota_attention_drop_params>> {
    static constexpr bool DROPS = true;
    struct all : attention_extents {
        const uint32_t (&q_stride)[3], (&k_stride)[3], (&v_stride)[3], (&out_stride)[3];
    };
    ROTA_DEVICE static all params(const rota_args<N, rota_attention_drop_params> &args) {
        const rota_attention_drop_params &p = args.params;
        return {extents_of(args), p.q_stride, p.k_stride, p.v_stride, p.out_stride};
    }
};
template <int N> struct attention_arguments<rota_args<N, rota_attention_drop_backward_params>> {
    static constexpr bool DROPS = true;
    struct all : attention_extents {
        const uint32_t (&q_stride)[3], (&kv_stride)[3], (&out_stride)[3];
    };
    ROTA_DEVICE static all params(const rota_args<N, rota_attention_drop_backward_params> &args) {
        const rota_attention_drop_backward_params &p = args.params;
        return {extents_of(args), p.q_stride, p.kv_stride, p.out_stride};
    }
};

/* What the probabilities of a pair of batch and head draw. */
struct attention_drop {
    uint32_t threshold, stream, seed, step;
    float kept;
    uint64_t first; /* row of the pair's first query, among all */
    uint32_t keys;
    bool even; /* fours don't go over the end of a row */

    template <typename A>
    ROTA_DEVICE attention_drop(const A &args, uint64_t pair, uint32_t queries, uint32_t keys)
        : attention_drop(draw_of(args), pair, queries, keys) {}
    ROTA_DEVICE attention_drop(const rota_attention_draw &draw, uint64_t pair, uint32_t queries, uint32_t keys)
        : threshold(draw.threshold), stream(draw.stream), seed(draw.seed), step(draw.step), kept(draw.kept),
          first((draw.first + pair) * queries), keys(keys), even(keys % 4 == 0) {}
    ROTA_DEVICE uint4 words(uint64_t block) const {
        return philox(make_uint4(static_cast<uint32_t>(block), stream, step, static_cast<uint32_t>(block >> 32)), seed);
    }
    /* Whether one is kept. */
    ROTA_DEVICE bool keeps(uint32_t query, uint32_t key) const {
        const uint64_t e = (first + query) * keys + key;
        const uint4 w = words(e / 4);
        const uint32_t word = e & 2 ? (e & 1 ? w.w : w.z) : (e & 1 ? w.y : w.x);
        return word >= threshold;
    }
    /* Bits of four from a key that is a multiple of 4; `even`. */
    ROTA_DEVICE uint32_t keeps_four(uint32_t query, uint32_t key) const {
        const uint4 w = words((first + query) * (keys / 4) + key / 4);
        return (w.x >= threshold ? 1u : 0) | (w.y >= threshold ? 2u : 0) | (w.z >= threshold ? 4u : 0) |
               (w.w >= threshold ? 8u : 0);
    }
};

/* That of a kernel, or nothing. */
template <bool DROPS> struct attention_dropping {
    template <typename A> ROTA_DEVICE attention_dropping(const A &, uint64_t, uint32_t, uint32_t) {}
};
template <> struct attention_dropping<true> : attention_drop {
    using attention_drop::attention_drop;
};
template <typename A>
ROTA_DEVICE attention_dropping<attention_arguments<A>::DROPS> dropping_of(const A &args, uint64_t pair,
                                                                          uint32_t queries, uint32_t keys) {
    return {args, pair, queries, keys};
}

#endif
