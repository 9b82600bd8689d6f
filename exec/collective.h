/* How a collective makes one element out of those of all ranks. */
#ifndef ROTA_EXEC_COLLECTIVE_H
#define ROTA_EXEC_COLLECTIVE_H

/* Real numbers in f32, in ascending order of ranks, and rounded once; integers wrap around, and have no mean. max and
 * min: NaN if an element is. Sums, means and products that NCCL makes on devices are in its order, and f16 and bf16 may
 * be rounded on the way. One list: enum name, text. */
#define ROTA_COLLECTIVE_REDUCTIONS(X)                                                                        \
    X(SUM, "sum") X(MEAN, "mean") X(MAX, "max") X(MIN, "min") X(PRODUCT, "product")
typedef enum rota_collective_reduction {
#define ROTA_COLLECTIVE_REDUCTION_ENUM(name, text) ROTA_COLLECTIVE_##name,
    ROTA_COLLECTIVE_REDUCTIONS(ROTA_COLLECTIVE_REDUCTION_ENUM)
#undef ROTA_COLLECTIVE_REDUCTION_ENUM
        ROTA_COLLECTIVE_REDUCTION_COUNT
} rota_collective_reduction;

#endif
