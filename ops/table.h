/* The op table: one description of every op, for recording, gradients, tests and benchmarks alike. */
#ifndef ROTA_OPS_TABLE_H
#define ROTA_OPS_TABLE_H

#include "kernels.h"
#include "ops.h"

#define ROTA_OP_INPUTS_MAX 6
#define ROTA_OP_OUTPUTS_MAX 3

/* Of ops whose windows slide over height and width. */
typedef struct rota_op_window {
    uint32_t extent[2]; /* of pooling, and of a weight's gradient */
    uint32_t size[2];   /* of x, where an op gives its gradient */
    uint32_t stride[2], padding[2], dilation[2];
    uint32_t output_padding[2]; /* of conv_transpose2d */
    uint32_t groups;
    bool ceil_mode, exclude_padding;
    bool allow_tf32;    /* of convolutions */
    bool channels_last; /* images are [batch, height, width, channels], and weights lie alike */
} rota_op_window;

/* The scalar attributes of any op; each op reads its own (rota_op.attributes lists them). */
typedef struct rota_op_attributes {
    rota_value value[2]; /* affine: alpha, beta; dropout: seed, step; adamw: lr, step; masked_fill: number */
    bool transpose_a, transpose_b, causal, keep;
    uint32_t axis[2];
    /* embedding: first class, all classes; dropout: first along the axis, elements of the whole. length: of a slice;
     * one_hot: classes; top_k: k; cross_entropy: classes */
    uint64_t start, length;
    rota_dtype dtype;
    float scale, eps, p;
    float beta1, beta2, weight_decay;
    int32_t integer; /* index_add: value; variance: correction; cross_entropy: ignored */
    float smoothing, growth, backoff;
    bool evaluate, interleaved;
    uint32_t flags; /* optimizers: ROTA_UPDATE_ */
    uint32_t stream;
    rota_tensor
        kept; /* linear_gelu: x w + bias, which its gradient needs: made where it may have one, and else
                         written where it is given, of the result's shape and dtype, contiguous */
    rota_op_window window;
} rota_op_attributes;

typedef enum rota_attribute_type {
    ROTA_ATTRIBUTE_VALUE, /* rota_value */
    ROTA_ATTRIBUTE_BOOL,
    ROTA_ATTRIBUTE_U32,
    ROTA_ATTRIBUTE_U64,
    ROTA_ATTRIBUTE_I32,
    ROTA_ATTRIBUTE_F32,
    ROTA_ATTRIBUTE_DTYPE, /* rota_dtype */
    ROTA_ATTRIBUTE_TYPE_COUNT
} rota_attribute_type;

/* An attribute of an op: what it is there, and the member of rota_op_attributes that has it. */
typedef struct rota_op_attribute {
    const char *name; /* "lr"; NULL: the list ends before this */
    rota_attribute_type type;
    uint32_t offset_bytes; /* of the member: offsetof(rota_op_attributes, value[0]) */
} rota_op_attribute;

typedef struct rota_op rota_op;

/* One use of an op. */
typedef struct rota_op_use {
    const rota_op *op;
    uint32_t input_count, output_count;
    rota_tensor inputs[ROTA_OP_INPUTS_MAX];   /* NULL buffer: an absent optional input */
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX]; /* NULL buffer: to be made */
    rota_op_attributes attributes;
} rota_op_use;

/* How an example's input is filled. */
typedef enum rota_fill_kind {
    ROTA_FILL_UNIFORM,  /* in (-1, 1) */
    ROTA_FILL_POSITIVE, /* in (0.5, 1.5): log, sqrt, divisors */
    ROTA_FILL_DISTINCT, /* a permutation of evenly spaced values, none near 0: max, relu */
    ROTA_FILL_INDEX,    /* integers in [0, example.classes) */
    ROTA_FILL_ZERO,
    ROTA_FILL_NEGATIVE, /* in (-1.5, -0.5) */
    ROTA_FILL_KIND_COUNT
} rota_fill_kind;

/* A use with shapes and contents but no buffers: what tests and benchmarks run. Inputs are contiguous tensors
 * without buffer; an absent optional input has dtype ROTA_DTYPE_COUNT. */
typedef struct rota_op_example {
    const char *label; /* "odd sizes" and so on; static */
    rota_op_use use;
    rota_fill_kind fill[ROTA_OP_INPUTS_MAX];
    uint64_t classes;
    double flops, bytes; /* of the forward pass, for rates */
} rota_op_example;

/* What an op gives where an operand has no elements and what it writes has some. (Where that has none either,
 * nothing is recorded, whatever the op.) */
typedef enum rota_of_nothing {
    ROTA_OF_NOTHING_REFUSED,   /* INVALID_ARGUMENT, naming both: max, mean */
    ROTA_OF_NOTHING_ZERO,      /* zeroes: sums */
    ROTA_OF_NOTHING_FIRST,     /* its first input: scatter_add */
    ROTA_OF_NOTHING_UNCHANGED, /* what it writes in place stays: index_add */
    ROTA_OF_NOTHING_RECORDED,  /* its `record` knows */
} rota_of_nothing;

struct rota_op {
    const char *name;
    uint32_t input_count, optional_inputs; /* all inputs; bit mask of those that may be absent */
    uint32_t output_count;
    const char *input_names[ROTA_OP_INPUTS_MAX];
    const char *output_names[ROTA_OP_OUTPUTS_MAX];
    rota_access_mode
        input_modes[ROTA_OP_INPUTS_MAX]; /* READ; READWRITE or ACCUMULATE for ops in place (adamw) */
    /* Those that it reads; NULL: none. For who describes ops or fills uses in: recording asks the functions
     * below alone. */
    const rota_op_attribute *attributes;
    /* Output 0 may be exactly this input (bit i), if no other input overlaps it; any other overlap is copied
     * around, but for what follows. */
    uint32_t inplace_inputs;
    /* Whether output 0 may lie as it does to input 0, which overlaps it, beside that; NULL: it may not. */
    bool (*overlaps_in_place)(const rota_op_use *use);
    bool strided_output; /* writes a strided output 0 itself; else it goes through a contiguous copy */
    rota_of_nothing of_nothing;
    uint32_t varies_by_step;           /* bit i: attributes.value[i] varies by step */
    const rota_kernel *const *kernels; /* that the forward pass may record; NULL-terminated */
    /* Checks the inputs and sets dtype, rank, shape and contiguous strides of every output. */
    rota_status (*shape)(const rota_op_use *use, rota_tensor *out_outputs);
    /* Records the nodes; outputs have buffers. */
    rota_status (*record)(rota_tape *tape, rota_op_use *use);
    /* Records the gradient of each input that has one, given the gradients of the outputs; NULL: not
     * differentiable. */
    rota_status (*gradient)(rota_tape *tape, const rota_op_use *use);
    /* In the place of `gradient`: remembers, by rota_tape_remember_use, uses of other ops that together are
     * what this one computed. */
    rota_status (*remember)(rota_tape *tape, const rota_op_use *use);
    uint32_t differentiable;              /* bit i: input i gets a gradient */
    bool stops_gradient;                  /* in its place: none passes to the inputs, and that is no error */
    uint32_t saved_inputs, saved_outputs; /* those whose contents the gradient reads */
    /* Fills in example `index`, or returns false past the last. size 0: small and odd (tests); 1: benchmark
     * sizes. The example's use.op is the op already. */
    bool (*example)(uint32_t index, uint32_t size, rota_op_example *out_example);
    void *user; /* for the functions, which find it by use->op; borrowed like the op */
};

/* Op number `index`; NULL past the last. Wait-free. */
ROTA_API const rota_op *rota_op_at(uint32_t index);
ROTA_API uint32_t rota_op_count(void);
/* By name; NULL if there is none. */
ROTA_API const rota_op *rota_op_find(const char *name);

/* Example `index` of an op, or false past the last. size 0: small and odd (tests); 1: sizes for benchmarks.
 * Some ops' outputs have a shape in the example (copy, reshape, fill): it is the destination's. Wait-free. */
ROTA_API bool rota_op_get_example(const rota_op *op, uint32_t index, uint32_t size,
                                  rota_op_example *out_example);

/* Uses an op generically: checks the use against the shape rule, makes outputs whose buffer is NULL, records,
 * and remembers it for gradients. The rota_op_<name> functions are this with names; ops of one's own are used
 * by it (custom.h). `use->op` is borrowed until the tape forgets its ops. INVALID_ARGUMENT: also an op that
 * is not complete, or whose shape rule gives no shape; the sentence says what is missing. */
ROTA_API rota_status rota_op_apply(rota_tape *tape, rota_op_use *use);

/* Records the gradients of a use by its inputs, of the gradient `dy` of its first output, without what
 * computed the use, which another graph or library may have done: remembers nothing, and needs no tape that
 * does. Inputs have what they had then; of the outputs those that the gradient reads (rota_op.saved_outputs)
 * do, the others may have no buffer. `wanted`, bit i: of input i, contiguous, whose gradient is grads[i]: a
 * contiguous destination like the input, or, without a buffer, one that is made (TRANSIENT) and returned
 * there. `grads` has a place for each input. Inputs whose gradients are wanted do not overlap. Or they are all of one
 * range of a buffer, between one another (queries, keys and values as a product makes them), and `grads` lie in
 * another buffer just so. UNSUPPORTED: the op has no gradient; INVALID_ARGUMENT as rota_op_apply. */
ROTA_API rota_status rota_op_gradient(rota_tape *tape, const rota_op_use *use, rota_tensor dy,
                                      uint32_t wanted, rota_tensor *grads);

/* Every built-in kernel. Static; wait-free. */
ROTA_API const rota_kernel *const *rota_kernel_table(uint32_t *out_count);

#endif
