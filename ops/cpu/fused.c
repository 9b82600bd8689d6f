/* CPU kernel of fused nodes: runs the kernels of a run of nodes over one block of elements after another, so
 * that what one hands to the next stays in the first cache. Items are elements. The arithmetic is the
 * kernels' own: results are those of the nodes one by one, bit for bit. */
#include "ops/cpu/fused.h"
#include "cpu.h"
#include "ops/fusion.h"

/* Of a block of each value in scratch, 4 KiB: a few of them fit a first-level cache. */
enum { BLOCK = 1024 };

void rota_cpu_items_fused(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_fused_params *)params)->count;
    *out_grain = ROTA_CPU_GRAIN;
}

/* A step's kernel and its parameters. */
typedef struct ready_step {
    rota_cpu_fn fn;
    union {
        rota_unary_params unary;
        rota_binary_params binary;
        rota_where_params where;
        rota_cast_params cast;
        rota_dropout_params dropout;
    } params;
} ready_step;

static float as_float(uint32_t word) {
    return rota_f32_of_bits(word);
}

/* The run's elements as (repeats, mod, div), along which a value that repeats has strides 0, 1, 0. */
static void set_shape(const rota_fused_value *like, uint32_t count, uint32_t shape[ROTA_KERNEL_DIMS]) {
    const uint32_t div = like->mod ? like->div : count, mod = like->mod ? like->mod : 1;
    for (int d = 0; d < ROTA_KERNEL_DIMS; d++) shape[d] = 1;
    shape[ROTA_KERNEL_DIMS - 1] = div;
    shape[ROTA_KERNEL_DIMS - 2] = mod;
    shape[ROTA_KERNEL_DIMS - 3] = count / (div * mod);
    if (div == 1) { /* a row: the innermost dimension is its */
        shape[ROTA_KERNEL_DIMS - 1] = mod;
        shape[ROTA_KERNEL_DIMS - 2] = count / mod;
        shape[ROTA_KERNEL_DIMS - 3] = 1;
    }
}

/* The strides of a value in a shape that set_shape made, of it or of another that repeats. */
static void set_strides(const rota_fused_value *value, const uint32_t shape[ROTA_KERNEL_DIMS],
                        uint32_t stride[ROTA_KERNEL_DIMS]) {
    const int last = ROTA_KERNEL_DIMS - 1;
    for (int d = 0; d < ROTA_KERNEL_DIMS; d++) stride[d] = 0;
    if (value->mod == 0) {
        stride[last] = 1;
        for (int d = last - 1; d >= last - 2; d--) stride[d] = stride[d + 1] * shape[d + 1];
    } else if (value->mod > 1) {
        stride[value->div == 1 ? last : last - 1] = 1;
    }
}

/* The value whose repetition decides the shape of a step: one that is neither whole nor a single number. */
static const rota_fused_value *shaping(const rota_fused_value *a, const rota_fused_value *b) {
    return a->mod > 1 ? a : b;
}

static void get_ready(const rota_fused_shape *shape, const rota_fused_step *step, const uint32_t *words,
                      uint32_t count, ready_step *out) {
    static const rota_fused_value whole = {0};
    const rota_fused_value *values = shape->values;
    const uint32_t *word = words + step->word;
    switch ((rota_fused_kind)step->kind) {
    case ROTA_FUSED_UNARY:
    case ROTA_FUSED_UNARY_BACKWARD:
        out->fn = step->kind == ROTA_FUSED_UNARY ? rota_cpu_unary : rota_cpu_unary_backward;
        out->params.unary = (rota_unary_params){.count = count,
                                                .op = step->op,
                                                .alpha = step->word_count > 0 ? as_float(word[0]) : 0.0f,
                                                .beta = step->word_count > 1 ? as_float(word[1]) : 0.0f,
                                                .dtype = step->dtype};
        return;
    case ROTA_FUSED_BINARY:
        out->fn = rota_cpu_binary;
        out->params.binary = (rota_binary_params){.count = count, .op = step->op, .dtype = step->dtype};
        set_shape(shaping(&values[step->source[1]], &whole), count, out->params.binary.shape);
        set_strides(&values[step->source[1]], out->params.binary.shape, out->params.binary.b_stride);
        return;
    case ROTA_FUSED_WHERE: {
        const rota_fused_value *c = &values[step->source[0]];
        const rota_fused_value *b = step->op & ROTA_WHERE_NUMBER ? &whole : &values[step->source[2]];
        out->fn = rota_cpu_where;
        out->params.where = (rota_where_params){.count = count,
                                                .flags = step->op,
                                                .number = step->word_count ? as_float(word[0]) : 0.0f,
                                                .dtype = step->dtype};
        set_shape(shaping(c, shaping(b, &whole)), count, out->params.where.shape);
        set_strides(c, out->params.where.shape, out->params.where.c_stride);
        set_strides(b, out->params.where.shape, out->params.where.b_stride);
        return;
    }
    case ROTA_FUSED_CAST:
        out->fn = rota_cpu_cast;
        out->params.cast = (rota_cast_params){count, step->dtype, values[step->result].dtype};
        return;
    case ROTA_FUSED_DROPOUT:
        out->fn = rota_cpu_dropout;
        out->params.dropout = (rota_dropout_params){.count = count,
                                                    .threshold = word[0],
                                                    .scale = as_float(word[1]),
                                                    .stream = word[2],
                                                    .seed = word[3],
                                                    .step = word[4],
                                                    .has_residual = step->source_count > 1,
                                                    .dtype = step->dtype,
                                                    .first = word[5]};
        return;
    }
}

/* Where a kernel that starts at element `begin` finds a value: in its operand, or in a scratch block that
 * holds the elements from `begin` on. */
static void *memory_of(const rota_fused_shape *shape, const uint8_t *slot_of, float scratch[][BLOCK],
                       const rota_kernel_call *call, uint8_t value, uint64_t begin) {
    const rota_fused_value *entry = &shape->values[value];
    if (entry->operand != ROTA_FUSED_NONE) return call->operands[entry->operand];
    const uintptr_t first = (uintptr_t)scratch[slot_of[value]];
    return (void *)(first - begin * rota_dtype_bytes((rota_dtype)entry->dtype));
}

rota_status rota_cpu_fused(const rota_kernel_call *call) {
    const rota_fused_params *p = call->params;
    const rota_fused_program *program;
    memcpy(&program, &p->program, sizeof program);
    const rota_fused_shape *shape = &program->shape;
    ready_step ready[ROTA_FUSED_STEPS_MAX];
    uint8_t slot_of[ROTA_FUSED_VALUES_MAX];
    _Alignas(64) float scratch[ROTA_FUSED_STEPS_MAX][BLOCK];
    for (uint32_t s = 0; s < shape->step_count; s++) {
        get_ready(shape, &shape->steps[s], p->words, p->count, &ready[s]);
        slot_of[shape->steps[s].result] = shape->steps[s].slot;
    }
    for (uint64_t i = call->begin; i < call->end; i += BLOCK) {
        const uint64_t end = call->end - i < BLOCK ? call->end : i + BLOCK;
        for (uint32_t s = 0; s < shape->step_count; s++) {
            const rota_fused_step *step = &shape->steps[s];
            void *operands[ROTA_FUSED_SOURCES_MAX + 1];
            /* An absent operand is bound to one that is read. */
            const uint32_t reads = step->kind == ROTA_FUSED_DROPOUT ? 2
                                   : step->kind == ROTA_FUSED_WHERE ? 3
                                                                    : step->source_count;
            for (uint32_t k = 0; k < reads; k++)
                operands[k] =
                    memory_of(shape, slot_of, scratch, call, step->source[k < step->source_count ? k : 0], i);
            operands[reads] = memory_of(shape, slot_of, scratch, call, step->result, i);
            ROTA_TRY(ready[s].fn(&(rota_kernel_call){.operands = operands,
                                                     .params = &ready[s].params,
                                                     .begin = i,
                                                     .end = end,
                                                     .items = call->items,
                                                     .operand_count = reads + 1,
                                                     .operand_bytes = NULL}));
        }
    }
    return ROTA_OK;
}
