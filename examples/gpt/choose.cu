/* The CUDA form of the kernels in choose.c. */
#include "rota_kernel.cuh"

#define THREADS 1024

struct choose_params {
    uint32_t count, top_k;
    float temperature;
    uint32_t reserved;
    double top_p;
};

struct threshold {
    uint32_t key;
    uint64_t ties;
};

struct shared_memory {
    unsigned long long amounts[256];
    uint64_t sums[32]; // of warps
    threshold chosen;
    uint64_t above;
    uint32_t digit, found;
};

__device__ static uint32_t key_of(float x) {
    const uint32_t bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ static float value_of(uint32_t key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
}

__device__ static uint64_t weight_of(uint32_t key, uint32_t most, float temperature) {
    const float weight = key == most ? 1.0f : expf((value_of(key) - value_of(most)) / temperature);
    return weight > 0 ? static_cast<uint64_t>(weight * 4294967296.0f) : 0;
}

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

// The largest, and the first that is it.
__device__ static void find_most(shared_memory &s, const float *logits, uint32_t count, uint32_t *key,
                                 uint32_t *position) {
    uint64_t most = 0; // keys above, positions that come first below
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        const uint64_t mine = static_cast<uint64_t>(key_of(logits[i])) << 32 | static_cast<uint32_t>(~i);
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
    *key = static_cast<uint32_t>(most >> 32);
    *position = ~static_cast<uint32_t>(most);
    __syncthreads();
}

__device__ static threshold select(shared_memory &s, const float *logits, uint32_t count, uint64_t wanted, bool weighs,
                                   uint32_t most, float temperature) {
    uint32_t prefix = 0;
    uint64_t above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256) s.amounts[threadIdx.x] = 0;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            const uint32_t key = key_of(logits[i]);
            if (shift < 24 && key >> (shift + 8) != prefix) continue;
            const uint64_t amount = weighs ? weight_of(key, most, temperature) : 1;
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
    const uint64_t each = weighs ? weight_of(prefix, most, temperature) : 1;
    return {prefix, each ? (wanted - above + each - 1) / each : ~0ull};
}

// Each thread has `each` logits, one after the other, so that ties stay by their numbers. Whether one stays, where
// `ties` came before it.
__device__ static bool stays(const threshold &t, uint64_t *ties, uint32_t key) {
    return key > t.key || (key == t.key && (*ties)++ < t.ties);
}

struct piece {
    uint32_t first, end;
    uint64_t ties; // before it
};

__device__ static piece piece_of(shared_memory &s, const float *logits, uint32_t count, const threshold &t) {
    const uint32_t each = (count + THREADS - 1) / THREADS;
    piece p = {threadIdx.x * each, threadIdx.x * each + each, 0};
    if (p.first > count) p.first = count;
    if (p.end > count) p.end = count;
    uint64_t mine = 0, all;
    for (uint32_t i = p.first; i < p.end; i++) mine += key_of(logits[i]) == t.key;
    p.ties = scan(s, mine, &all);
    return p;
}

__device__ static uint64_t weights(const piece &p, const float *logits, const threshold &t, uint32_t most,
                                   float temperature) {
    uint64_t sum = 0, ties = p.ties;
    for (uint32_t i = p.first; i < p.end; i++) {
        const uint32_t key = key_of(logits[i]);
        if (stays(t, &ties, key)) sum += weight_of(key, most, temperature);
    }
    return sum;
}

ROTA_KERNEL(gpt_choose, 4, choose_params, THREADS) {
    __shared__ shared_memory s;
    const choose_params &p = args.params;
    const float *logits = rota_operand<const float>(args, 0);
    const uint32_t index = *rota_operand<const uint32_t>(args, 2);
    uint32_t most, best;
    find_most(s, logits, p.count, &most, &best);
    if (threadIdx.x == 0) *rota_operand<int32_t>(args, 3) = static_cast<int32_t>(best);
    if (p.temperature == 0) return;
    threshold t = {0, ~0ull};
    if (p.top_k) t = select(s, logits, p.count, p.top_k, false, most, p.temperature);
    piece mine = piece_of(s, logits, p.count, t);
    uint64_t sum, weight = weights(mine, logits, t, most, p.temperature);
    uint64_t before = scan(s, weight, &sum);
    if (p.top_p < 1) {
        const uint64_t wanted = static_cast<uint64_t>(ceil(p.top_p * static_cast<double>(sum)));
        const threshold other = select(s, logits, p.count, wanted ? wanted : 1, true, most, p.temperature);
        if (other.key > t.key || (other.key == t.key && other.ties < t.ties)) t = other;
        mine = piece_of(s, logits, p.count, t);
        weight = weights(mine, logits, t, most, p.temperature);
        before = scan(s, weight, &sum);
    }
    const uint64_t point = rota_operand<const uint32_t>(args, 1)[index];
    uint64_t left = (sum >> 32) * point + ((sum & 0xFFFFFFFFu) * point >> 32), ties = mine.ties;
    __syncthreads(); // the first thread's `best` is written
    if (left < before || left >= before + weight) return;
    left -= before;
    for (uint32_t i = mine.first; i < mine.end; i++) {
        const uint32_t key = key_of(logits[i]);
        if (!stays(t, &ties, key)) continue;
        const uint64_t share = weight_of(key, most, p.temperature);
        if (left < share) {
            *rota_operand<int32_t>(args, 3) = static_cast<int32_t>(i);
            return;
        }
        left -= share;
    }
}

struct advance_params {
    uint32_t begins, most;
};
struct loop_state {
    int32_t token, position, chosen;
    uint32_t index, more, chooses, ended, reserved;
};
struct loop_control {
    uint32_t count, given, restarts;
    int32_t end;
};

ROTA_KERNEL(gpt_advance, 4, advance_params, 32) {
    const loop_control c = *rota_operand<const loop_control>(args, 0);
    const int32_t *given = rota_operand<const int32_t>(args, 1);
    loop_state &state = *rota_operand<loop_state>(args, 2);
    if (threadIdx.x > 0) return;
    loop_state s = state;
    const uint32_t count = c.count < args.params.most ? c.count : args.params.most;
    if (args.params.begins) {
        s.index = 0;
        if (c.restarts) s.position = 0, s.ended = 0;
        s.token = c.given ? given[0] : s.chosen;
        s.more = count && !s.ended;
        s.chooses = c.given <= 1;
    } else {
        if (s.chooses) {
            rota_operand<int32_t>(args, 3)[s.index] = s.chosen;
            s.ended = s.chosen == c.end;
        }
        s.position++;
        s.index++;
        s.token = s.index < c.given && s.index < count ? given[s.index] : s.chosen;
        s.more = s.index < count && !s.ended;
        s.chooses = s.index + 1 >= c.given;
    }
    state = s;
}
