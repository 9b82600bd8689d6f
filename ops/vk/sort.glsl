/* What the shaders of sorting have in common: constants of length_params.h and tensor.h, and a row's chunks. */
#ifndef ROTA_OPS_SORT_GLSL
#define ROTA_OPS_SORT_GLSL

#define ORDER_PROBABLE 1u /* rota_sort_order */
#ifndef HALF
const uint DTYPE_F32 = 0u;
#endif
const uint DTYPE_I32 = 3u, DTYPE_U32 = 4u; /* rota_dtype */
const uint INFINITY_BITS = 0x7F800000u, NAN_KEY = 0xFFC00000u;

#define DIGITS 16u /* ROTA_SORT_DIGITS */

/* The chunk of a workgroup, by one of a row of n; `row` is past the last where the workgroup is. */
struct row_chunk {
    uint row, number, of, begin, end;
};
row_chunk chunk_of(uint group, uint n, uint chunk) {
    row_chunk c;
    c.of = (n - 1u) / chunk + 1u;
    c.row = group / c.of;
    c.number = group % c.of;
    c.begin = c.number * chunk;
    c.end = n - c.begin > chunk ? c.begin + chunk : n;
    return c;
}

#endif
