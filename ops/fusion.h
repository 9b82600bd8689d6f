/* Inside of fusion: what a group of elementwise nodes computes, as data, from which each executor makes its
 * kernel. Internal; not installed. */
#ifndef ROTA_OPS_FUSION_H
#define ROTA_OPS_FUSION_H

#include <stdbool.h>
#include <stdint.h>
#include "graph/kernel.h"
#include "ops/kernel_params.h"
#include "sched/rewrite.h"

enum {
    ROTA_FUSED_STEPS_MAX = 12,
    ROTA_FUSED_VALUES_MAX = 32,
    ROTA_FUSED_OPERANDS_MAX = 16,
    ROTA_FUSED_WORDS_MAX = ROTA_KERNEL_BINDABLE_MAX,
    ROTA_FUSED_SOURCES_MAX = 3,
    ROTA_FUSED_STEP_WORDS_MAX = 6,
    ROTA_FUSED_NONE = 0xFF
};

typedef enum rota_fused_kind {
    ROTA_FUSED_UNARY,          /* words: alpha, beta */
    ROTA_FUSED_UNARY_BACKWARD, /* v, dy; words: alpha, beta */
    ROTA_FUSED_BINARY,         /* a, b */
    ROTA_FUSED_WHERE,          /* c, a and, without NUMBER, b; words: number with NUMBER */
    ROTA_FUSED_CAST,
    ROTA_FUSED_DROPOUT /* x and, perhaps, residual; words: threshold, scale, stream, seed, step, first */
} rota_fused_kind;

/* A number for each element of the group: read from an operand, or the result of a step. */
typedef struct rota_fused_value {
    uint32_t div, mod; /* of an operand: element i of the group is its element (i / div) % mod; mod 0: i */
    uint8_t dtype;
    uint8_t operand; /* where it is read, or written; NONE: nowhere */
    uint8_t input;
    uint8_t unused;
} rota_fused_value;

typedef struct rota_fused_step {
    uint8_t kind;  /* rota_fused_kind */
    uint8_t op;    /* rota_unary, rota_binary, or ROTA_WHERE_ flags */
    uint8_t dtype; /* of the kernel's parameters; of a cast, from */
    uint8_t source_count;
    uint8_t source[ROTA_FUSED_SOURCES_MAX]; /* values */
    uint8_t result;                         /* value */
    uint8_t word, word_count;               /* of the node's words */
    uint8_t slot;                           /* on the CPU: scratch block of a result that no operand has */
    uint8_t unused;
} rota_fused_step;

/* Everything that the code depends on, and nothing else; compared byte by byte. */
typedef struct rota_fused_shape {
    uint32_t step_count, value_count, operand_count, word_count, slot_count;
    uint32_t inplace_outputs, inplace_inputs;
    rota_fused_step steps[ROTA_FUSED_STEPS_MAX];
    rota_fused_value values[ROTA_FUSED_VALUES_MAX];
} rota_fused_shape;

typedef struct rota_fused_program rota_fused_program;

/* A fused node's parameters; of `words` there are as many as the program has. Every word is a bindable. */
typedef struct rota_fused_params {
    const rota_fused_program *program; /* lives as long as the process */
    uint32_t count;
    uint32_t words[ROTA_FUSED_WORDS_MAX];
} rota_fused_params;

/* Bytes of parameters of a program with so many words. */
static inline uint32_t rota_fused_param_bytes(uint32_t words) {
    return (uint32_t)(sizeof(void *) + sizeof(uint32_t) * (1 + words));
}

struct rota_fused_program {
    rota_fused_shape shape;
    rota_kernel kernel;
    rota_kernel_bindable bindables[ROTA_FUSED_WORDS_MAX];
    char name[96];
    char entry[32]; /* the kernel's name in a CUDA image */
};

/* Whether a graph's rewrite hook is that of rota_graph_fuse. */
bool rota_fuse_is_hook(void (*hook)(void));

#endif
