/* A GPT: layers of pre-norm causal attention and a four times wider GELU layer, learned positions, the output
 * head tied to the token table. Parameters have the names, shapes and layout of the Hugging Face model of
 * GPT-2; GPT_PLAIN has no biases. The graphs made of it are graph.h's. */
#ifndef ROTA_EXAMPLES_GPT_MODEL_H
#define ROTA_EXAMPLES_GPT_MODEL_H

#include "examples/gpt/data.h"
#include "ops/ops.h"
#include "rota.h"

/* In the order of --arch. */
typedef enum gpt_arch { GPT_PLAIN, GPT_2 } gpt_arch;

typedef struct gpt_config {
    int arch;  /* gpt_arch */
    int dtype; /* rota_dtype: what training and its losses are calculated in; f32: no copies, no loss scale */
    uint64_t vocabulary, block, layers, heads, dim;
    /* Windows of a micro-batch, and micro-batches of a step; 0: no training, so no optimizer's state. */
    uint64_t batch, accumulate;
    double dropout, weight_decay, beta1, beta2, grad_clip; /* grad_clip 0: none */
    uint64_t
        shards; /* ranks that have a part each of values and the optimizer's state (groups.h); 0: one has all */
    bool
        gathers_once; /* all weights at a step's beginning, for all of it; else layer by layer, as ops read them */
    uint64_t slices; /* ranks that have one model together (cuts.h); 0: each has all */
} gpt_config;

/* How a parameter is cut among them. */
typedef enum gpt_cut { GPT_CUT_NONE, GPT_CUT_ROWS, GPT_CUT_COLUMNS } gpt_cut;

/* A parameter: a range of the model's buffers. */
typedef struct gpt_parameter {
    char name[48];
    uint32_t index; /* in the list of all parameters that either arch has */
    uint32_t rank;
    uint64_t shape[2];
    uint64_t count;         /* elements */
    uint64_t room;          /* elements from `first` on that are its own, or gaps */
    uint64_t first;         /* index of its first element in each buffer; not of shards of groups */
    uint32_t group, member; /* of groups: which, and its number there */
    /* Of rows, or columns, each of so many equal blocks has `part` for this rank; own_: what it has of it all. */
    gpt_cut cut;
    uint64_t blocks;
    rota_rank_part part;
    uint64_t own_shape[2], own_count;
    double deviation; /* of the normal distribution it starts with; 0: at zero; below: at 1 */
} gpt_parameter;

/* The buffers, PERSISTENT, with all parameters one after the other, so that one optimizer node updates many:
 * first the matrices, which decay, from the last layer to the tables, then norms and biases, which don't; where ranks
 * have the model together, what each of them has stands in the middle, from shared_first on. Parameters begin at
 * multiples of GPT_ALIGNMENT elements; what lies between them stays zero. */
enum { GPT_VALUES, GPT_FIRST_MOMENTS, GPT_SECOND_MOMENTS, GPT_PARTS };
#define GPT_ALIGNMENT 64u
/* The token table has its rows rounded up to a multiple of this in memory, zeroes that stay so: the logits'
 * rows then begin where the products' fast kernels can read them; and, of a vocabulary that is so large that this is
 * less than a sixteenth of it, where a line of a GPU's cache does, so that products read and write no parts of
 * lines. */
#define GPT_VOCABULARY_ALIGNMENT 16u
#define GPT_VOCABULARY_LINES 64u

/* Places: tokens, positions, then a layer's twelve for each layer, then the last norm's two. */
enum { GPT_TOKENS, GPT_POSITIONS, GPT_FIRST_LAYER };
enum {
    GPT_NORM1,
    GPT_NORM1_BIAS,
    GPT_QKV,
    GPT_QKV_BIAS,
    GPT_PROJECT,
    GPT_PROJECT_BIAS,
    GPT_NORM2,
    GPT_NORM2_BIAS,
    GPT_WIDEN,
    GPT_WIDEN_BIAS,
    GPT_NARROW,
    GPT_NARROW_BIAS,
    GPT_LAYER_PLACES
};
static inline uint32_t gpt_parameter_index(uint64_t layer, uint32_t which) {
    return (uint32_t)(GPT_FIRST_LAYER + layer * GPT_LAYER_PLACES + which);
}
#define GPT_LAST_NORM(layers) gpt_parameter_index(layers, 0)
#define GPT_PLACES(layers) (GPT_LAST_NORM(layers) + 2)

/* Parameters that are gathered together, where each rank has a shard of all (gpt_config.shards): group 0 are the
 * tables and the last norm, which the first ops and the last ones read, then a layer's each. Within a group those that
 * decay come first. */
typedef struct gpt_group {
    rota_sharding *sharding;
    uint32_t *members; /* indices among the model's parameters */
    uint32_t count;
    uint64_t first; /* of the shard, in each buffer */
} gpt_group;

typedef struct gpt_model {
    gpt_config config;
    rota_runtime *runtime;
    rota_device *device;
    gpt_parameter *parameters; /* by index */
    uint32_t parameter_count;
    uint64_t weight_count;                 /* elements of all parameters */
    uint64_t decayed_count, element_count; /* of a buffer: what decays, which comes first; all */
    gpt_group *groups;                     /* NULL: this rank has everything */
    uint32_t group_count;
    rota_buffer *parts[GPT_PARTS]; /* f32; the moments with training only */
    rota_buffer *copies; /* of the values, in the model's dtype, which graphs of that dtype read; or NULL */
    rota_buffer *scale;  /* f16 with training: f32 {of the loss, steps since it changed} */
    /* Of plans made from now on: elementwise nodes are fused; how transient memory is packed. */
    bool fuse;
    uint64_t bucket_bytes; /* of gradients that are reduced together; 0: as the library likes */
    rota_packing packing;
    bool deterministic; /* rota_compile_options.deterministic */
    rota_communicator
        *communicator; /* the training's ranks; NULL: one. Borrowed, as those of gpt_ranks are */
    rota_communicator *one_model, *one_part;
    uint64_t shared_first, shared_end; /* elements of a buffer that all ranks of one model have */
    const float *const
        *kept; /* what is read instead of the parts (keep.h), and of the scale; NULL: these are */
    const float *kept_scale;
} gpt_model;

/* Bytes that training needs on the device, about: parameters, optimizer state, gradients, activations.
 * Infinite where a size overflows. */
double gpt_model_bytes(const gpt_config *config);

struct gpt_ranks;
/* Makes the parameters' buffers. INVALID_ARGUMENT and OUT_OF_MEMORY with both numbers. `ranks`: that train it; NULL:
 * one. */
rota_status gpt_model_create(const gpt_config *config, rota_runtime *runtime, rota_device *device,
                             const struct gpt_ranks *ranks, gpt_model *out);
void gpt_model_free(gpt_model *model);
/* Rows of the token table in memory; where ranks have the model together, of this rank's. */
uint64_t gpt_model_table_rows(const gpt_model *model);
/* Writes a part of a parameter; the values to their copies too, rounded. Of what is cut or sharded this rank's
 * elements. */
rota_status gpt_model_write(gpt_model *model, const gpt_parameter *p, int part, const float *values);
/* Rounded values to the copies. */
rota_status gpt_model_write_copies(gpt_model *model, uint64_t first, const float *values, uint64_t count);
/* What is other ranks' comes from them: then all ranks call it, for the same. May block as a collective does. */
rota_status gpt_model_read(const gpt_model *model, const gpt_parameter *p, int part, float *out_values);
/* What the other ranks do while one reads the first `parts` parts of each parameter: theirs go to it. */
rota_status gpt_model_follow(const gpt_model *model, int parts);

/* Writes the first values: normal numbers for matrices, ones for norms, zeroes for biases and the optimizer's
 * state. */
rota_status gpt_model_initialize(gpt_model *model, random_state *random);

#endif
