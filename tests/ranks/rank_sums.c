/* The order in which real numbers are combined: ascending by rank, in f32, rounded once. Expectations are computed
 * here, of numbers whose order shows. */
#include <string.h>

#include "base/half.h"
#include "tests/ranks/rank_cases.h"
#include "tests/ranks/rank_graph.h"

/* Signs and sizes that cancel out, so that what is added last is there or is rounded away. */
static float number(uint32_t rank, uint64_t i) {
    static const float sizes[] = {1, 4096, 0.001f, 300};
    const uint32_t mixed = (uint32_t)((i + 1) * 2654435761u) ^ (uint32_t)((rank + 7) * 2246822519u);
    const float part = 1 + (float)(mixed & 0x7FFFFF) / 8388608;
    return (mixed >> 31 ? -part : part) * sizes[(i + rank) % 4];
}

static uint16_t to_half(rota_dtype dtype, float x) {
    return dtype == ROTA_F16 ? rota_to_f16(x) : rota_to_bf16(x);
}

static float from_half(rota_dtype dtype, uint16_t bits) {
    return dtype == ROTA_F16 ? rota_from_f16(bits) : rota_from_bf16(bits);
}

/* As the rank has it. */
static float element(rota_dtype dtype, uint32_t rank, uint64_t i) {
    const float x = number(rank, i);
    return dtype == ROTA_F32 ? x : from_half(dtype, to_half(dtype, x));
}

static void put(rota_dtype dtype, void *to, uint64_t i, float x) {
    const uint16_t half = dtype == ROTA_F32 ? 0 : to_half(dtype, x);
    if (dtype == ROTA_F32)
        memcpy((uint8_t *)to + i * sizeof x, &x, sizeof x);
    else
        memcpy((uint8_t *)to + i * sizeof half, &half, sizeof half);
}

/* Of all ranks, from the first on; or in another way: f32 from the last on, halves rounded at each rank. */
static float combined(rota_dtype dtype, rota_collective_reduction reduction, uint32_t size, bool otherwise,
                      uint64_t i) {
    const bool descending = otherwise && dtype == ROTA_F32, rounds = otherwise && dtype != ROTA_F32;
    float sum = element(dtype, descending ? size - 1 : 0, i);
    for (uint32_t k = 1; k < size; k++) {
        const float x = element(dtype, descending ? size - 1 - k : k, i);
        sum = reduction == ROTA_COLLECTIVE_PRODUCT ? sum * x : sum + x;
        if (rounds) sum = from_half(dtype, to_half(dtype, sum));
    }
    return reduction == ROTA_COLLECTIVE_MEAN ? sum / (float)size : sum;
}

static void expect_order(const rank_graph *g, rota_tensor y, rota_dtype dtype,
                         rota_collective_reduction reduction, uint64_t first, uint64_t count,
                         uint64_t *shows) {
    const size_t each = rota_dtype_bytes(dtype);
    uint8_t *got = malloc(count * each);
    get(y, got);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t wanted[4], other[4];
        put(dtype, wanted, 0, combined(dtype, reduction, g->size, false, first + i));
        rank_want(memcmp(got + i * each, wanted, each) == 0, "%s, reduction %d: element %llu of %llu",
                  rota_dtype_name(dtype), (int)reduction, (unsigned long long)i, (unsigned long long)count);
        if (i > 1000) continue;
        put(dtype, other, 0, combined(dtype, reduction, g->size, true, first + i));
        *shows += memcmp(wanted, other, each) != 0;
    }
    free(got);
}

/* Sums, means and products, whole and in parts, and sums of more than a piece has; twice, to the bit. */
void rank_order_of_sums(rota_runtime *runtime, rota_communicator *communicator) {
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    static const rota_collective_reduction reductions[] = {ROTA_COLLECTIVE_SUM, ROTA_COLLECTIVE_MEAN,
                                                           ROTA_COLLECTIVE_PRODUCT};
    for (uint32_t n = 0; n < 12; n++) {
        const rota_dtype dtype = dtypes[n % 3];
        const rota_collective_reduction reduction = reductions[n / 3 % 3];
        rank_graph g;
        begin(&g, runtime, communicator, false);
        const uint64_t part = n < 9 ? 250 : 70002, count = part * g.size;
        const size_t bytes = count * rota_dtype_bytes(dtype);
        uint8_t *own = malloc(bytes), *again = malloc(bytes);
        uint64_t shows = 0;
        for (uint64_t i = 0; i < count; i++) put(dtype, own, i, number(g.rank, i));
        const rota_tensor x = made(&g, dtype, count, own), y = made(&g, dtype, count, NULL),
                          z = made(&g, dtype, part, NULL);
        rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, reduction, y));
        rank_ok(rota_op_reduce_scatter_into(g.tape, communicator, x, reduction, z));
        compile(&g);
        rank_ok(run(&g));
        get(y, own);
        rank_ok(run(&g));
        get(y, again);
        rank_want(memcmp(own, again, bytes) == 0, "not the same again");
        expect_order(&g, y, dtype, reduction, 0, count, &shows);
        expect_order(&g, z, dtype, reduction, part * g.rank, part, &shows);
        rank_want(g.size < 3 || shows > 0, "no other way has another result");
        free(own);
        free(again);
        end(&g);
        drop(x);
        drop(y);
        drop(z);
    }
}
