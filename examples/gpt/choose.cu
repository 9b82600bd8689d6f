/* The CUDA form of the kernels in choose.c. */
#include "rota_kernel.cuh"
#include "choose_step.h"

#define THREADS 1024

struct shared_memory {
    unsigned long long amounts[256];
    uint64_t sums[32]; // of warps
    uint64_t above;
    uint32_t digit;
};

// Of all threads before this one; all of them into `all`.
__device__ static uint64_t scan(shared_memory &s, uint64_t value, uint64_t *all) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t sum = value;
    for (uint32_t i = 1; i < 32; i *= 2) {
        const uint64_t other = __shfl_up_sync(~0u, sum, i);
        if (lane >= i) sum += other;
    }
    __syncthreads();
    if (lane == 31) s.sums[warp] = sum;
    __syncthreads();
    uint64_t before = 0, total = 0;
    for (uint32_t i = 0; i < THREADS / 32; i++) {
        if (i < warp) before += s.sums[i];
        total += s.sums[i];
    }
    *all = total;
    return before + sum - value;
}

// The first of the largest.
__device__ static uint32_t find_most(shared_memory &s, const float *logits, uint32_t count) {
    uint64_t most = 0; // keys above, positions that come first below
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        const uint64_t mine = static_cast<uint64_t>(gpt_key_of(logits[i])) << 32 | static_cast<uint32_t>(~i);
        if (mine > most) most = mine;
    }
    for (uint32_t i = 16; i > 0; i /= 2) {
        const uint64_t other = __shfl_xor_sync(~0u, most, i);
        if (other > most) most = other;
    }
    if (threadIdx.x % 32 == 0) s.sums[threadIdx.x / 32] = most;
    __syncthreads();
    for (uint32_t i = 0; i < THREADS / 32; i++)
        if (s.sums[i] > most) most = s.sums[i];
    __syncthreads();
    return ~static_cast<uint32_t>(most);
}

__device__ static gpt_threshold select(shared_memory &s, const float *logits, uint32_t count, uint64_t wanted,
                                       bool weighs, float most, float temperature) {
    uint32_t prefix = 0;
    uint64_t above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256) s.amounts[threadIdx.x] = 0;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            const uint32_t key = gpt_key_of(logits[i]);
            if (shift < 24 && key >> (shift + 8) != prefix) continue;
            const uint64_t amount = weighs ? gpt_weight_of(logits[i], most, temperature) : 1;
            if (amount) atomicAdd(&s.amounts[key >> shift & 255], static_cast<unsigned long long>(amount));
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            uint32_t digit = 255;
            while (digit > 0 && above + s.amounts[digit] < wanted) above += s.amounts[digit--];
            s.digit = digit;
            s.above = above;
        }
        __syncthreads();
        prefix = prefix << 8 | s.digit;
        above = s.above;
        __syncthreads();
    }
    const uint64_t each = weighs ? gpt_weight_of(gpt_value_of(prefix), most, temperature) : 1;
    return gpt_threshold_at(prefix, wanted, above, each);
}

// Each thread has a piece of the logits, one after the other, so that ties stay by their numbers.
struct piece {
    uint32_t first, end;
    uint64_t ties; // before it
};

__device__ static piece piece_of(shared_memory &s, const float *logits, uint32_t count, const gpt_threshold &t) {
    const uint32_t each = (count + THREADS - 1) / THREADS;
    piece p = {threadIdx.x * each, threadIdx.x * each + each, 0};
    if (p.first > count) p.first = count;
    if (p.end > count) p.end = count;
    uint64_t mine = 0, all;
    for (uint32_t i = p.first; i < p.end; i++) mine += gpt_key_of(logits[i]) == t.key;
    p.ties = scan(s, mine, &all);
    return p;
}

__device__ static uint64_t weights(const piece &p, const float *logits, const gpt_threshold &t, float most,
                                   float temperature) {
    uint64_t sum = 0, ties = p.ties;
    for (uint32_t i = p.first; i < p.end; i++)
        if (gpt_stays(&t, &ties, gpt_key_of(logits[i]))) sum += gpt_weight_of(logits[i], most, temperature);
    return sum;
}

ROTA_KERNEL(gpt_choose, 4, gpt_choose_params, THREADS) {
    __shared__ shared_memory s;
    const gpt_choose_params &p = args.params;
    const float *logits = rota_operand<const float>(args, 0);
    const uint32_t index = *rota_operand<const uint32_t>(args, 2), best = find_most(s, logits, p.count);
    if (threadIdx.x == 0) *rota_operand<int32_t>(args, 3) = static_cast<int32_t>(best);
    if (p.temperature == 0) return;
    const float most = logits[best];
    gpt_threshold t = {0, UINT64_MAX};
    if (p.top_k) t = select(s, logits, p.count, p.top_k, false, most, p.temperature);
    piece mine = piece_of(s, logits, p.count, t);
    uint64_t sum, weight = weights(mine, logits, t, most, p.temperature);
    uint64_t before = scan(s, weight, &sum);
    if (p.top_p < 1) {
        t = gpt_narrower(
            t, select(s, logits, p.count, gpt_share(p.top_p, sum), true, most, p.temperature));
        mine = piece_of(s, logits, p.count, t);
        weight = weights(mine, logits, t, most, p.temperature);
        before = scan(s, weight, &sum);
    }
    uint64_t left = gpt_point_in(sum, rota_operand<const uint32_t>(args, 1)[index]), ties = mine.ties;
    __syncthreads(); // the first thread's `best` is written
    if (left < before || left >= before + weight) return;
    left -= before;
    for (uint32_t i = mine.first; i < mine.end; i++) {
        if (!gpt_stays(&t, &ties, gpt_key_of(logits[i]))) continue;
        const uint64_t share = gpt_weight_of(logits[i], most, p.temperature);
        if (left < share) {
            *rota_operand<int32_t>(args, 3) = static_cast<int32_t>(i);
            return;
        }
        left -= share;
    }
}

ROTA_KERNEL(gpt_advance, 4, gpt_advance_params, 32) {
    if (threadIdx.x > 0) return;
    gpt_loop_control control = *rota_operand<const gpt_loop_control>(args, 0);
    const int32_t *given = rota_operand<const int32_t>(args, 1);
    gpt_loop_state *state = rota_operand<gpt_loop_state>(args, 2);
    if (control.count > args.params.most) control.count = args.params.most;
    if (args.params.begins)
        gpt_begin(state, &control, given);
    else
        gpt_advance(state, &control, given, rota_operand<int32_t>(args, 3));
}
