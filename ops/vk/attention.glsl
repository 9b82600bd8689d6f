/* What the attention kernels share. A workgroup of 64 owns 8 rows (queries, or keys for their gradients) and walks over
 * the others 64 at a time, one an invocation ("lanes"). Scores never leave shared memory. Any dim: products go through
 * shared memory in pieces of 64, results are kept for 128 columns at a time and walked again for more. */
layout(local_size_x = 64) in;

const uint ROWS = 8u, LANES = 64u;
const uint COLUMNS = 2u;          /* result columns an invocation keeps for each row, LANES apart */
const uint PITCH = LANES + 1u;    /* padded against bank conflicts when invocations read down a column */
const uint PARTS = LANES / ROWS;  /* invocations that share the reduction of a row */

shared float row_tile[ROWS * LANES];
shared float lane_tile[LANES * PITCH];
shared float weights[ROWS * LANES];

/* result[r] = row r . lane t for this invocation t; zero for rows and lanes beyond the counts. */
void dots(uint64_t rows, uint row_stride, uint row_count, uint64_t lanes, uint lane_stride, uint lane_count,
          uint dim, out float result[ROWS]) {
    const uint t = gl_LocalInvocationIndex;
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) result[r] = 0.0;
    for (uint first = 0u; first < dim; first += LANES) {
        const uint width = min(LANES, dim - first);
        barrier(); /* readers of the last piece, and of weights, are done */
        for (uint r = 0u; r < ROWS; ++r)
            row_tile[r * LANES + t] =
                r < row_count && t < width ? load(at(rows, uint64_t(r) * row_stride), first + t) : 0.0;
        for (uint r = 0u; r < LANES; ++r)
            lane_tile[r * PITCH + t] =
                r < lane_count && t < width ? load(at(lanes, uint64_t(r) * lane_stride), first + t) : 0.0;
        barrier();
        for (uint d = 0u; d < width; ++d) {
            const float x = lane_tile[t * PITCH + d];
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) result[r] += row_tile[r * LANES + d] * x;
        }
    }
}

/* total[r][c] += sum over lanes j of weight[r][j] * lane j's column. Columns first + t and LANES further. */
#define ACCUMULATE(weight, lanes, lane_stride, lane_count, first, dim, total)                                \
    for (uint j = 0u; j < (lane_count); ++j) {                                                               \
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) {                                                     \
            const uint column = (first) + c * LANES + gl_LocalInvocationIndex;                               \
            const float x = column < (dim) ? load(at(lanes, uint64_t(j) * (lane_stride)), column) : 0.0;     \
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) total[r][c] += weight[r * LANES + j] * x;            \
        }                                                                                                    \
    }

/* Where [batch, head, sequence] of a strided array starts. */
#define PLACE(operand, stride, batch_index, head, sequence)                                                  \
    at(rota_operand(operand), uint64_t(batch_index) * (stride)[0] + uint64_t(head) * (stride)[1] +           \
                                  uint64_t(sequence) * (stride)[2])
