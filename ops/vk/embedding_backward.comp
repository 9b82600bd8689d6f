/* rota_kernel_embedding_backward: a workgroup per class finds the rows of that class among 128 at a time, and sums them
 * in row order: no atomics on floats, and the same sum whatever the timing. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 128) in;

ROTA_KERNEL_BEGIN(3)
uint rows;
uint dim;
uint classes;
uint accumulate;
uint dtype;
uint first;
uint all;
ROTA_KERNEL_END

const uint COLUMNS = 8u; /* per invocation and pass: 1024 columns in a pass over the index */
shared uint matches[4];
shared uint found[128];

void main() {
    const uint group = rota_group_index(), t = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    if (group >= pc.classes) return;
    const uint64_t dtable = value_at(rota_operand(2), uint64_t(group) * pc.dim);
    for (uint column = t; column < pc.dim + t; column += COLUMNS * size) {
        float total[COLUMNS];
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) {
            total[c] = 0.0;
            if (pc.accumulate != 0u && column + c * size < pc.dim) total[c] = get(dtable, column + c * size);
        }
        for (uint row = 0u; row < pc.rows; row += size) {
            if (t < 4u) matches[t] = 0u;
            barrier();
            const bool here = row + t < pc.rows && uint(load_i32(rota_operand(1), row + t)) - pc.first == group;
            if (here) atomicOr(matches[t / 32u], 1u << (t % 32u));
            barrier();
            uint count = 0u, before = bitCount(matches[t / 32u] & ((1u << (t % 32u)) - 1u));
            [[unroll]] for (uint word = 0u; word < 4u; ++word) {
                count += bitCount(matches[word]);
                if (word < t / 32u) before += bitCount(matches[word]);
            }
            if (here) found[before] = row + t;
            barrier();
            for (uint m = 0u; m < count; m += 4u) /* four a turn, as each.glsl says; mostly there are none */
                [[unroll]] for (uint ahead = 0u; ahead < 4u; ++ahead)
                    if (m + ahead < count) {
                        const uint64_t dy = value_at(rota_operand(0), uint64_t(found[m + ahead]) * pc.dim);
                        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c)
                            if (column + c * size < pc.dim) total[c] += get(dy, column + c * size);
                    }
        }
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c)
            if (column + c * size < pc.dim) put(dtable, column + c * size, total[c]);
    }
}
