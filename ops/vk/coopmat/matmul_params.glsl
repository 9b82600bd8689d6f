/* What the cooperative-matrix products share: parameters (rota_matmul_params), constants, and where a workgroup's tile
 * and its operands are. Include after defining TILE_M, TILE_N and the local size. */
layout(constant_id = 2) const bool TRANSPOSE_A = false;
layout(constant_id = 3) const bool TRANSPOSE_B = false;
layout(constant_id = 4) const bool ADD = false;
layout(constant_id = 5) const uint C_DTYPE = 0u; /* rota_dtype; not 0 (f32): the type of a and b */

ROTA_KERNEL_BEGIN(3)
uint m;
uint n;
uint k;
uint lda;
uint ldb;
uint ldc;
uint flags;
uint c_dtype;
float alpha;
uint batch[3];
uint a_batch_stride[3];
uint b_batch_stride[3];
uint c_batch_stride[3];
ROTA_KERNEL_END

/* A result as it goes into C: a driver's own conversion to bfloat16 may cut bits off (NVIDIA's does), so what it
 * converts is rounded to nearest even already. */
float as_stored(float value) { return C_DTYPE == 2u ? rota_from_bf16(rota_to_bf16(value)) : value; }

const uint BAND = 8u; /* rows of tiles that are worked through together, so that their operands stay in the L2 cache */

struct rota_tile {
    bool there;         /* false: this workgroup is past the last tile */
    uint row, column;   /* of its first result */
    uint64_t a, b, c;   /* addresses of the batch's first elements */
};

rota_tile tile_of_group() {
    const uint rows = (pc.m - 1u) / TILE_M + 1u, columns = (pc.n - 1u) / TILE_N + 1u;
    const uint product = rota_group_index() / (rows * columns), id = rota_group_index() % (rows * columns);
    const uint band = id / (BAND * columns), height = min(rows - band * BAND, BAND), in_band = id % (BAND * columns);
    rota_tile tile;
    tile.there = product < pc.batch[0] * pc.batch[1] * pc.batch[2];
    tile.row = (band * BAND + in_band % height) * TILE_M;
    tile.column = in_band / height * TILE_N;
    const uvec3 index = uvec3(product / pc.batch[2] / pc.batch[1], product / pc.batch[2] % pc.batch[1],
                              product % pc.batch[2]);
    tile.a = tile.b = tile.c = 0ul;
    for (uint i = 0u; i < 3u; ++i) {
        tile.a += uint64_t(index[i]) * pc.a_batch_stride[i];
        tile.b += uint64_t(index[i]) * pc.b_batch_stride[i];
        tile.c += uint64_t(index[i]) * pc.c_batch_stride[i];
    }
    tile.a = rota_operand(0) + tile.a * 2ul;
    tile.b = rota_operand(1) + tile.b * 2ul;
    tile.c = rota_operand(2) + tile.c * (C_DTYPE == 0u ? 4ul : 2ul);
    return tile;
}
