/* PatchTST (Nie et al., A time series is worth 64 words, 2023): each channel by itself is normalised, cut
 * into patches that overlap, and forecast by a transformer of post-norm layers, with batch norm for layer
 * norm and attention scores that are added up over the layers. All weights lie in one buffer, so that one
 * node is the optimizer. The graphs made of it are graph.h's. */
#ifndef ROTA_EXAMPLES_PATCHTST_MODEL_H
#define ROTA_EXAMPLES_PATCHTST_MODEL_H

#include "examples/common/random.h"
#include "ops/ops.h"
#include "rota.h"

typedef struct patchtst_config {
    uint64_t channels, look_back, horizon, patch, stride, layers, heads, dim, wide;
    uint64_t batch; /* windows */
    double dropout, beta1, beta2;
    bool fuse; /* elementwise nodes are put together */
} patchtst_config;

/* After the last patch that fits, one more ends in copies of the last value. */
static inline uint64_t patchtst_patches(const patchtst_config *c) {
    return (c->look_back - c->patch) / c->stride + 2;
}

/* Places of the parameters: the patches' projection and the positions, a layer's for each layer, the head. */
enum { PATCHTST_EMBED, PATCHTST_EMBED_BIAS, PATCHTST_POSITIONS, PATCHTST_FIRST_LAYER };
enum {
    PATCHTST_QKV,
    PATCHTST_QKV_BIAS,
    PATCHTST_PROJECT,
    PATCHTST_PROJECT_BIAS,
    PATCHTST_NORM1,
    PATCHTST_NORM1_BIAS,
    PATCHTST_WIDEN,
    PATCHTST_WIDEN_BIAS,
    PATCHTST_NARROW,
    PATCHTST_NARROW_BIAS,
    PATCHTST_NORM2,
    PATCHTST_NORM2_BIAS,
    PATCHTST_LAYER_PLACES
};
static inline uint32_t patchtst_parameter_index(uint64_t layer, uint32_t which) {
    return (uint32_t)(PATCHTST_FIRST_LAYER + layer * PATCHTST_LAYER_PLACES + which);
}
#define PATCHTST_HEAD(layers) patchtst_parameter_index(layers, 0)
#define PATCHTST_PLACES(layers) (PATCHTST_HEAD(layers) + 2)

typedef struct patchtst_parameter {
    char name[48];
    uint32_t rank;
    uint64_t shape[2];
    uint64_t offset, count; /* elements */
    double bound;           /* first values are uniform between -bound and bound; 0: zeroes; below: ones */
} patchtst_parameter;

typedef struct patchtst_model {
    patchtst_config config;
    rota_runtime *runtime;
    rota_device *device;
    patchtst_parameter *parameters; /* by index */
    uint32_t parameter_count;
    uint64_t weight_count, statistic_count; /* elements */
    /* f32: weights and their two moments; running mean and variance [dim] of each norm, in the order of the
     * graph. */
    rota_buffer *weights, *m, *v, *statistics;
} patchtst_model;

/* INVALID_ARGUMENT: sizes that don't fit together, with both numbers. */
rota_status patchtst_model_create(const patchtst_config *config, rota_runtime *runtime, rota_device *device,
                                  patchtst_model *out);
void patchtst_model_free(patchtst_model *model);
/* Writes the first values, as PyTorch's layers have them; moments of 0, means of 0 and variances of 1. */
rota_status patchtst_model_initialize(patchtst_model *model, random_state *random);

#endif
