/* One layer of the train graph as a table: which node touches which of the layer's buffers how. */
#include "bench/graphs_train.h"

#define R(buffer)                                                                                            \
    { TRAIN_##buffer, ROTA_READ, 0 }
#define W(buffer)                                                                                            \
    { TRAIN_##buffer, ROTA_WRITE, 0 }
#define RW(buffer)                                                                                           \
    { TRAIN_##buffer, ROTA_READWRITE, 0 }
#define RW_THIRD(buffer, third)                                                                              \
    { TRAIN_##buffer, ROTA_READWRITE, third }

const train_node train_layer[BENCH_LAYER_NODES] = {
    {"norm1", false, 4, 1, {R(XIN), R(LN1), W(STAT1), W(N1)}},
    {"qkv", false, 3, 3, {R(N1), R(WQKV), W(QKV)}},
    {"scores", false, 2, 1, {R(QKV), W(S)}},
    {"softmax", true, 2, 1, {R(S), W(P)}},
    {"mix", false, 3, 1, {R(P), R(QKV), W(A)}},
    {"project", false, 3, 1, {R(A), R(WPROJ), W(AP)}},
    {"residual1", true, 3, 1, {R(XIN), R(AP), W(X1)}},
    {"norm2", false, 4, 1, {R(X1), R(LN2), W(STAT2), W(N2)}},
    {"widen", false, 3, 1, {R(N2), R(WFC), W(H)}},
    {"gelu", true, 2, 1, {R(H), W(G)}},
    {"narrow", false, 3, 1, {R(G), R(WFC2), W(M)}},
    {"residual2", true, 3, 1, {R(X1), R(M), W(X2)}},

    {"d_residual2", true, 2, 1, {R(DX), W(DM)}},
    {"d_narrow_input", false, 3, 1, {R(DM), R(WFC2), W(DG)}},
    {"d_narrow_weight", false, 3, 1, {R(DM), R(G), RW(GRAD_WFC2)}},
    {"d_gelu", true, 3, 1, {R(H), R(DG), W(DH)}},
    {"d_widen_input", false, 3, 1, {R(DH), R(WFC), W(DN2)}},
    {"d_widen_weight", false, 3, 1, {R(DH), R(N2), RW(GRAD_WFC)}},
    {"d_norm2_partial", false, 4, 1, {R(DN2), R(X1), R(STAT2), W(PART2)}},
    {"d_norm2_input", false, 4, 1, {R(DN2), R(X1), R(STAT2), RW(DX)}},
    {"d_norm2_weight", false, 2, 1, {R(PART2), RW(GRAD_LN2)}},
    {"d_residual1", true, 2, 1, {R(DX), W(DAP)}},
    {"d_project_input", false, 3, 1, {R(DAP), R(WPROJ), W(DA)}},
    {"d_project_weight", false, 3, 1, {R(DAP), R(A), RW(GRAD_WPROJ)}},
    {"d_mix_weights", false, 3, 1, {R(DA), R(QKV), W(DP)}},
    {"d_softmax", true, 3, 1, {R(P), R(DP), W(DS)}},
    {"d_qkv_zero", false, 1, 3, {W(DQKV)}},
    {"d_query", false, 3, 1, {R(DS), R(QKV), RW_THIRD(DQKV, 1)}},
    {"d_key", false, 3, 1, {R(DS), R(QKV), RW_THIRD(DQKV, 2)}},
    {"d_value", false, 3, 1, {R(P), R(DA), RW_THIRD(DQKV, 3)}},
    {"d_qkv_input", false, 3, 1, {R(DQKV), R(WQKV), W(DN1)}},
    {"d_qkv_weight", false, 3, 1, {R(DQKV), R(N1), RW(GRAD_WQKV)}},
    {"d_norm1_partial", false, 4, 1, {R(DN1), R(XIN), R(STAT1), W(PART1)}},
    {"d_norm1_input", false, 4, 1, {R(DN1), R(XIN), R(STAT1), RW(DX)}},
    {"d_norm1_weight", false, 2, 1, {R(PART1), RW(GRAD_LN1)}},
    {"d_input", true, 2, 1, {R(DX), W(DXPREV)}},
};

static const struct {
    const char *name;
    uint64_t elements;
} buffers[TRAIN_STRIDE] = {
#define PLACE(name, elements) {#name, elements},
    TRAIN_TRANSIENTS(PLACE) TRAIN_PARAMETERS(PLACE)
#undef PLACE
#define PLACE(name, elements) {"GRAD_" #name, elements},
        TRAIN_PARAMETERS(PLACE)
#undef PLACE
            {"INPUT", 3 * TRAIN_WIDTH *TRAIN_WIDTH}};

uint64_t train_elements(uint64_t buffer) {
    return buffers[buffer].elements;
}
const char *train_name(uint64_t buffer) {
    return buffers[buffer].name;
}
