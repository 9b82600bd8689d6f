/* CPU kernels: matmul, matmul_f16, matmul_bf16, through a BLAS. An item is a tile of one product; the tiles
 * follow from the shape alone, so results do not depend on the workers. The BLAS runs on the calling thread
 * only: the executor is what spreads the work. */
#include "cpu.h"
#include "gemm.h"
#include "half.h"
#include "ops/why.h"

/* A tile of this many multiply-adds runs for some 50 microseconds: small enough to balance, large enough that
 * packing its operands is a small part. */
#define TILE_WORK (2u * 1024 * 1024)
/* Tiles smaller than this in a direction waste the BLAS's register blocks. */
enum { TILE_MIN = 32 };
/* Block of the summed dimension for which 16-bit operands are widened on the stack, and the tile bounds that
 * go with it. */
enum { WIDE_K = 256, WIDE_M = 64, WIDE_N = 128 };

typedef struct tiling {
    uint64_t height, width; /* of a tile */
    uint64_t rows, columns; /* tiles in each direction */
} tiling;

static uint64_t halve(uint64_t size) {
    return ((size + 1) / 2 + TILE_MIN - 1) / TILE_MIN * TILE_MIN;
}

static tiling tile(const rota_matmul_params *p, bool wide) {
    tiling t = {p->m, p->n, 0, 0};
    if (wide) {
        t.height = t.height < WIDE_M ? t.height : WIDE_M;
        t.width = t.width < WIDE_N ? t.width : WIDE_N;
    }
    while (t.height * t.width * p->k > (uint64_t)TILE_WORK) {
        if (t.height >= t.width && t.height > TILE_MIN)
            t.height = halve(t.height);
        else if (t.width > TILE_MIN)
            t.width = halve(t.width);
        else
            break;
    }
    t.rows = (p->m + t.height - 1) / t.height;
    t.columns = (p->n + t.width - 1) / t.width;
    return t;
}

static void items(const rota_matmul_params *p, bool wide, uint64_t *out_items, uint64_t *out_grain) {
    tiling t = tile(p, wide);
    *out_items = (uint64_t)p->batch[0] * p->batch[1] * p->batch[2] * t.rows * t.columns;
    *out_grain = 1 + TILE_WORK / 4 / (t.height * t.width * p->k);
}

void rota_cpu_items_matmul(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    (void)operand_bytes;
    items(params, false, out_items, out_grain);
}

void rota_cpu_items_matmul_f16(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                               uint64_t *out_grain) {
    (void)operand_bytes;
    items(params, true, out_items, out_grain);
}

void rota_cpu_items_matmul_bf16(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                uint64_t *out_grain) {
    (void)operand_bytes;
    items(params, true, out_items, out_grain);
}

/* Where an item's tile begins in the three matrices, in elements. */
typedef struct item_tile {
    uint64_t a, b, c;
    uint64_t row, column, height, width;
} item_tile;

static item_tile locate(const rota_matmul_params *p, const tiling *t, uint64_t item) {
    item_tile tile = {0};
    tile.column = item % t->columns * t->width;
    item /= t->columns;
    tile.row = item % t->rows * t->height;
    item /= t->rows;
    for (int d = 2; d >= 0; d--) {
        uint64_t i = item % p->batch[d];
        item /= p->batch[d];
        tile.a += i * p->a_batch_stride[d];
        tile.b += i * p->b_batch_stride[d];
        tile.c += i * p->c_batch_stride[d];
    }
    tile.height = p->m - tile.row < t->height ? p->m - tile.row : t->height;
    tile.width = p->n - tile.column < t->width ? p->n - tile.column : t->width;
    tile.a += p->flags & ROTA_MATMUL_TRANSPOSE_A ? tile.row : tile.row * p->lda;
    tile.b += p->flags & ROTA_MATMUL_TRANSPOSE_B ? tile.column * p->ldb : tile.column;
    tile.c += tile.row * p->ldc + tile.column;
    return tile;
}

rota_status rota_cpu_matmul(const rota_kernel_call *call) {
    const rota_matmul_params *p = call->params;
    const tiling t = tile(p, false);
    for (uint64_t item = call->begin; item < call->end; item++) {
        item_tile tile = locate(p, &t, item);
        rota_cpu_sgemm(p->flags & ROTA_MATMUL_TRANSPOSE_A, p->flags & ROTA_MATMUL_TRANSPOSE_B, tile.height,
                       tile.width, p->k, p->alpha, (const float *)call->operands[0] + tile.a, p->lda,
                       (const float *)call->operands[1] + tile.b, p->ldb,
                       p->flags & ROTA_MATMUL_ACCUMULATE ? 1.0f : 0.0f, (float *)call->operands[2] + tile.c,
                       p->ldc);
    }
    return ROTA_OK;
}

/* rows x columns of a 16-bit matrix as floats, row after row. */
ROTA_VECTOR static void widen(bool bf16, const uint16_t *from, uint64_t stride, uint64_t rows,
                              uint64_t columns, float *to) {
    for (uint64_t r = 0; r < rows; r++) {
        const uint16_t *restrict x = from + r * stride;
        float *restrict y = to + r * columns;
        if (bf16)
            for (uint64_t c = 0; c < columns; c++) y[c] = rota_from_bf16(x[c]);
        else
            for (uint64_t c = 0; c < columns; c++) y[c] = rota_from_f16(x[c]);
    }
}

ROTA_VECTOR static void narrow(bool bf16, const float *restrict x, uint16_t *restrict y, uint64_t count) {
    if (bf16)
        for (uint64_t c = 0; c < count; c++) y[c] = rota_to_bf16(x[c]);
    else
        for (uint64_t c = 0; c < count; c++) y[c] = rota_to_f16(x[c]);
}

static void wide_tile(const rota_kernel_call *call, bool bf16, const item_tile *tile) {
    const rota_matmul_params *p = call->params;
    const bool ta = p->flags & ROTA_MATMUL_TRANSPOSE_A, tb = p->flags & ROTA_MATMUL_TRANSPOSE_B;
    const uint16_t *a = (const uint16_t *)call->operands[0] + tile->a;
    const uint16_t *b = (const uint16_t *)call->operands[1] + tile->b;
    float wide_a[WIDE_M * WIDE_K], wide_b[WIDE_K * WIDE_N], sum[WIDE_M * WIDE_N];
    for (uint64_t k0 = 0; k0 < p->k; k0 += WIDE_K) {
        uint64_t depth = p->k - k0 < WIDE_K ? p->k - k0 : WIDE_K;
        widen(bf16, ta ? a + k0 * p->lda : a + k0, p->lda, ta ? depth : tile->height,
              ta ? tile->height : depth, wide_a);
        widen(bf16, tb ? b + k0 : b + k0 * p->ldb, p->ldb, tb ? tile->width : depth, tb ? depth : tile->width,
              wide_b);
        rota_cpu_sgemm(ta, tb, tile->height, tile->width, depth, p->alpha, wide_a, ta ? tile->height : depth,
                       wide_b, tb ? depth : tile->width, k0 == 0 ? 0.0f : 1.0f, sum, tile->width);
    }
    for (uint64_t r = 0; r < tile->height; r++) {
        const float *row = sum + r * tile->width;
        uint64_t to = tile->c + r * p->ldc;
        if (p->c_dtype != ROTA_F32) {
            narrow(bf16, row, (uint16_t *)call->operands[2] + to, tile->width);
            continue;
        }
        float *c = (float *)call->operands[2] + to;
        for (uint64_t i = 0; i < tile->width; i++)
            c[i] = p->flags & ROTA_MATMUL_ACCUMULATE ? c[i] + row[i] : row[i];
    }
}

static rota_status wide(const rota_kernel_call *call, bool bf16) {
    const tiling t = tile(call->params, true);
    for (uint64_t item = call->begin; item < call->end; item++) {
        item_tile tile = locate(call->params, &t, item);
        wide_tile(call, bf16, &tile);
    }
    return ROTA_OK;
}

rota_status rota_cpu_matmul_f16(const rota_kernel_call *call) {
    return wide(call, false);
}

rota_status rota_cpu_matmul_bf16(const rota_kernel_call *call) {
    return wide(call, true);
}

void rota_cpu_why_matmul(rota_text_out *out, const rota_kernel_use *use, rota_dtype dtype) {
    const rota_matmul_params *p = use->params;
    const bool wide = dtype != ROTA_F32;
    const tiling t = tile(p, wide);
    uint64_t count, grain;
    const uint64_t longest = (uint64_t)p->m | p->n | p->k | p->lda | p->ldb | p->ldc;
    items(p, wide, &count, &grain);
    rota_text_say(out, "runs: ");
    rota_cpu_why_sgemm(out, longest);
    rota_text_say(out,
                  "tiles: %llu of %llux%llu, at least %llu to a task: by the shape alone, some %u "
                  "multiply-adds each, so "
                  "that results don't depend on the workers\n",
                  (unsigned long long)count, (unsigned long long)t.height, (unsigned long long)t.width,
                  (unsigned long long)grain, TILE_WORK);
    if (wide)
        rota_text_say(
            out,
            "operands of %s are widened to f32 in blocks of %u along the sum, and results rounded once\n",
            rota_dtype_name(dtype), (unsigned)WIDE_K);
}
