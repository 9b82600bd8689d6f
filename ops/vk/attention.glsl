/* What the attention kernels share. A workgroup of 64 owns 8 rows (queries, or keys for their gradients) and walks over
 * the others 64 at a time, one an invocation ("lanes"). Scores never leave shared memory. Any dim: what is multiplied
 * goes through shared memory in pieces of 32 columns, as vectors of four; results are kept for 128 columns at a time
 * and walked again for more. Sums of products are fma, so that no compiler chooses what is rounded there. (A kernel
 * with its operands in slots is compiled apart, and may still differ in the last bits: tests/ops/kernel_case.c.) */
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 64) in;

const uint ROWS = 8u, LANES = 64u;
const uint PIECE = 32u;               /* columns staged at a time */
const uint COLUMNS = 128u;            /* columns of results kept at a time */
const uint PITCH = PIECE / 4u + 1u;   /* of the staged lanes, in vectors; one more, against bank conflicts */
const uint KEPT = ROWS * COLUMNS / 4u / LANES; /* vectors of results an invocation keeps */
const uint PARTS = LANES / ROWS;      /* invocations that share the reduction of a row */

#ifdef HALF
const uint64_t VALUE_BYTES = 2ul;
#else
const uint64_t VALUE_BYTES = 4ul;
#endif
/* Base moved by i elements of q, k, v, out or their gradients. */
uint64_t value_at(uint64_t base, uint64_t i) { return base + i * VALUE_BYTES; }

shared vec4 row_tile[ROWS * (PIECE / 4u)];
shared vec4 lane_tile[LANES * PITCH];

/* Stages columns [first, first + width) of 64 lanes; zero beyond the count and beyond width up to a multiple of 4. */
void stage_lanes(uint64_t lanes, uint stride, uint count, uint first, uint width) {
    const uint quads = (width + 3u) / 4u;
    for (uint e = gl_LocalInvocationIndex; e < LANES * quads; e += LANES) {
        const uint lane = e / quads, d = e % quads * 4u;
        const uint64_t address = value_at(lanes, uint64_t(lane) * stride + first);
        vec4 value = vec4(0.0);
        if (lane < count) value = load4_any(address, d, width, d + 4u <= width && aligned_any(address));
        lane_tile[lane * PITCH + d / 4u] = value;
    }
}

/* result[r] = row r . lane t for this invocation t; zero for rows and lanes beyond the counts. */
void dots(uint64_t rows, uint row_stride, uint row_count, uint64_t lanes, uint lane_stride, uint lane_count,
          uint dim, out float result[ROWS]) {
    const uint t = gl_LocalInvocationIndex;
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) result[r] = 0.0;
    for (uint first = 0u; first < dim; first += PIECE) {
        const uint width = min(PIECE, dim - first), quads = (width + 3u) / 4u;
        barrier(); /* readers of what was staged before, and of weights, are done */
        for (uint e = t; e < ROWS * quads; e += LANES) {
            const uint row = e / quads, d = e % quads * 4u;
            const uint64_t address = value_at(rows, uint64_t(row) * row_stride + first);
            vec4 value = vec4(0.0);
            if (row < row_count) value = load4_any(address, d, width, d + 4u <= width && aligned_any(address));
            row_tile[row * (PIECE / 4u) + d / 4u] = value;
        }
        stage_lanes(lanes, lane_stride, lane_count, first, width);
        barrier();
        for (uint d = 0u; d < quads; ++d) {
            const vec4 x = lane_tile[t * PITCH + d];
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                const vec4 y = row_tile[r * (PIECE / 4u) + d];
                result[r] = fma(y.w, x.w, fma(y.z, x.z, fma(y.y, x.y, fma(y.x, x.x, result[r]))));
            }
        }
    }
}

/* Results: vector i of an invocation is row (e / quads), columns 4 (e % quads) and on, where e = t + i LANES counts
 * through the 8 rows of the columns kept. */
#define FOR_KEPT(width, body)                                                                                \
    {                                                                                                        \
        const uint kept_quads = ((width) + 3u) / 4u;                                                         \
        [[unroll]] for (uint i = 0u; i < KEPT; ++i) {                                                        \
            const uint e = gl_LocalInvocationIndex + i * LANES;                                              \
            if (e < ROWS * kept_quads) {                                                                     \
                const uint row = e / kept_quads, quad = e % kept_quads;                                      \
                body                                                                                         \
            }                                                                                                \
        }                                                                                                    \
    }

/* total += sum over lanes j of weight[row][j] * lane j, columns [first, first + width). weight: shared float array,
 * zero for lanes beyond the count. */
#define ACCUMULATE(weight, lanes, lane_stride, lane_count, first, width, total)                              \
    for (uint piece = 0u; piece < (width); piece += PIECE) {                                                 \
        barrier(); /* readers of what was staged before are done; weights are written */                     \
        stage_lanes(lanes, lane_stride, lane_count, (first) + piece, min(PIECE, (width) - piece));           \
        barrier();                                                                                           \
        FOR_KEPT(width, {                                                                                    \
            if (quad >= piece / 4u && quad < piece / 4u + PIECE / 4u)                                        \
                for (uint j = 0u; j < (lane_count); j += 4u) /* to a multiple of 4, of zeroes */             \
                    [[unroll]] for (uint l = 0u; l < 4u; ++l)                                                \
                        total[i] = fma(vec4(weight[row * LANES + j + l]),                                    \
                                       lane_tile[(j + l) * PITCH + quad - piece / 4u], total[i]);            \
        })                                                                                                   \
    }

/* Where [batch, head, sequence] of a strided array starts. */
#define PLACE(operand, stride, batch_index, head, sequence)                                                  \
    value_at(rota_operand(operand), uint64_t(batch_index) * (stride)[0] + uint64_t(head) * (stride)[1] +           \
                                        uint64_t(sequence) * (stride)[2])

shared float weights[ROWS * LANES];
