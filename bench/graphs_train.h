/* One layer of the train graph as a table: which node touches which of the layer's buffers how. */
#ifndef ROTA_BENCH_GRAPHS_TRAIN_HEADS
#define ROTA_BENCH_GRAPHS_TRAIN_HEADS

#include "bench/graphs.h"

/* batch, tokens, width, heads */
#define TRAIN_BATCH 8
#define TRAIN_TOKENS 256
#define TRAIN_WIDTH UINT64_C(384)
#define TRAIN_HEADS 6

/* What one layer owns: name, elements (f32). Transients first. STAT is a mean and a reciprocal deviation a
 * row; PART are sums over 32 blocks of rows. */
#define TRAIN_ROWS ((uint64_t)TRAIN_BATCH * TRAIN_TOKENS)
#define TRAIN_SIZE_X (TRAIN_ROWS * TRAIN_WIDTH)
#define TRAIN_SIZE_P ((uint64_t)TRAIN_BATCH * TRAIN_HEADS * TRAIN_TOKENS * TRAIN_TOKENS)
/* clang-format off */
#define TRAIN_TRANSIENTS(X)                                                                                  \
    X(N1, TRAIN_SIZE_X) X(STAT1, 2 * TRAIN_ROWS) X(QKV, 3 * TRAIN_SIZE_X) X(S, TRAIN_SIZE_P)                 \
    X(P, TRAIN_SIZE_P) X(A, TRAIN_SIZE_X) X(AP, TRAIN_SIZE_X) X(X1, TRAIN_SIZE_X) X(N2, TRAIN_SIZE_X)        \
    X(STAT2, 2 * TRAIN_ROWS) X(H, 4 * TRAIN_SIZE_X) X(G, 4 * TRAIN_SIZE_X) X(M, TRAIN_SIZE_X)                \
    X(X2, TRAIN_SIZE_X)                                                                                      \
    X(DM, TRAIN_SIZE_X) X(DG, 4 * TRAIN_SIZE_X) X(DH, 4 * TRAIN_SIZE_X) X(DN2, TRAIN_SIZE_X)                 \
    X(PART2, 32 * TRAIN_WIDTH) X(DAP, TRAIN_SIZE_X) X(DA, TRAIN_SIZE_X) X(DP, TRAIN_SIZE_P)                  \
    X(DS, TRAIN_SIZE_P) X(DQKV, 3 * TRAIN_SIZE_X) X(DN1, TRAIN_SIZE_X) X(PART1, 32 * TRAIN_WIDTH)            \
    X(DXPREV, TRAIN_SIZE_X)
#define TRAIN_PARAMETERS(X)                                                                                  \
    X(LN1, TRAIN_WIDTH) X(WQKV, 3 * TRAIN_WIDTH * TRAIN_WIDTH) X(WPROJ, TRAIN_WIDTH * TRAIN_WIDTH)           \
    X(LN2, TRAIN_WIDTH) X(WFC, 4 * TRAIN_WIDTH * TRAIN_WIDTH) X(WFC2, 4 * TRAIN_WIDTH * TRAIN_WIDTH)
/* clang-format on */

enum {
#define TRAIN_BUFFER(name, elements) TRAIN_##name,
    TRAIN_TRANSIENTS(TRAIN_BUFFER) TRAIN_PARAMETERS(TRAIN_BUFFER)
#undef TRAIN_BUFFER
#define TRAIN_BUFFER(name, elements) TRAIN_GRAD_##name,
        TRAIN_PARAMETERS(TRAIN_BUFFER)
#undef TRAIN_BUFFER
            TRAIN_INPUT, /* what WQKV is uploaded from, with uploads */
    TRAIN_STRIDE,
    TRAIN_XIN = -TRAIN_STRIDE + TRAIN_X2,   /* the layer below's output */
    TRAIN_DX = TRAIN_STRIDE + TRAIN_DXPREV, /* the gradient that the layer above hands down */
    TRAIN_TRANSIENT_COUNT = TRAIN_LN1,
    TRAIN_PARAMETER_COUNT = TRAIN_GRAD_LN1 - TRAIN_LN1
};

typedef struct train_access {
    int16_t buffer; /* in the layer's buffers */
    uint8_t mode;   /* rota_access_mode */
    uint8_t third;  /* 0: all of it; 1 to 3: that third */
} train_access;

typedef struct train_node {
    const char *name;
    bool inplace;
    uint8_t access_count, words; /* words the small form writes */
    train_access accesses[BENCH_OPERANDS_MAX];
} train_node;

extern const train_node train_layer[BENCH_LAYER_NODES];
#define TRAIN_FORWARD_NODES 12
#define TRAIN_BACKWARD_NODES 24

/* Elements and name of a layer's buffer. */
uint64_t train_elements(uint64_t buffer);
const char *train_name(uint64_t buffer);

#endif
