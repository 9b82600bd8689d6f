/* Programs of fused nodes: one for each shape of group in the process, with the kernel object that its nodes
 * name. */
#include "ops/fuse_program.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/set.h"
#include "ops/cpu/fused.h"
#include "ops/cuda/fused.h"
#include "ops/fusion.h"
#include "ops/op.h"
#include "ops/vk/fused.h"

static uint64_t hash_of(const rota_fused_shape *shape) {
    const uint64_t hash = rota_hash_bytes(ROTA_HASH_BEGIN, shape, sizeof *shape);
    return hash ^ hash >> 29;
}

/* The programs, each by its first member. */
static unsigned long hash_shape(const void *shape, unsigned long seed) {
    return hash_of(shape) ^ seed;
}

static bool same_shape(const void *a, const void *b) {
    return memcmp(a, b, sizeof(rota_fused_shape)) == 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rota_set programs = ROTA_SET(hash_shape, same_shape);

const char *rota_fused_step_name(const rota_fused_step *step) {
    static const char *const binary[ROTA_BINARY_COUNT] = {
        [ROTA_BINARY_ADD] = "add",
        [ROTA_BINARY_SUB] = "sub",
        [ROTA_BINARY_MUL] = "mul",
        [ROTA_BINARY_DIV] = "div",
        [ROTA_BINARY_RSUB] = "sub",
        [ROTA_BINARY_RDIV] = "div",
        [ROTA_BINARY_MINIMUM] = "minimum",
        [ROTA_BINARY_MAXIMUM] = "maximum",
        [ROTA_BINARY_POW] = "pow",
        [ROTA_BINARY_SILU_MUL] = "silu_mul",
        [ROTA_BINARY_ADD_GELU] = "add_gelu",
        [ROTA_BINARY_EQ] = "eq",
        [ROTA_BINARY_NE] = "ne",
        [ROTA_BINARY_LT] = "lt",
        [ROTA_BINARY_LE] = "le",
        [ROTA_BINARY_GT] = "gt",
        [ROTA_BINARY_GE] = "ge",
    };
    switch ((rota_fused_kind)step->kind) {
    case ROTA_FUSED_UNARY:
    case ROTA_FUSED_UNARY_BACKWARD:
        return rota_ops_unary[step->op].name;
    case ROTA_FUSED_BINARY:
        return binary[step->op];
    case ROTA_FUSED_WHERE:
        return "where";
    case ROTA_FUSED_CAST:
        return "cast";
    case ROTA_FUSED_DROPOUT:
        return "dropout";
    }
    return "";
}

/* "fused: gelu mul add", as much as there is room for. */
static void name_program(rota_fused_program *program) {
    size_t used = (size_t)snprintf(program->name, sizeof program->name, "fused:");
    for (uint32_t s = 0; s < program->shape.step_count; s++) {
        const rota_fused_step *step = &program->shape.steps[s];
        const char *name = rota_fused_step_name(step);
        const char *suffix = step->kind == ROTA_FUSED_UNARY_BACKWARD ? "'" : "";
        if (used + strlen(name) + 6 > sizeof program->name) {
            (void)snprintf(program->name + used, sizeof program->name - used, " ...");
            return;
        }
        used += (size_t)snprintf(program->name + used, sizeof program->name - used, " %s%s", name, suffix);
    }
}

static rota_fused_program *make(const rota_fused_shape *shape) {
    rota_fused_program *program = calloc(1, sizeof *program);
    if (!program) return NULL;
    program->shape = *shape;
    name_program(program);
    (void)snprintf(program->entry, sizeof program->entry, "fused_%016llx",
                   (unsigned long long)hash_of(shape));
    for (uint32_t w = 0; w < shape->word_count; w++)
        program->bindables[w] = (rota_kernel_bindable){
            "word", (uint16_t)(offsetof(rota_fused_params, words) + sizeof(uint32_t) * w), 4, false,
            ROTA_VALUE_ANY};
    program->kernel = (rota_kernel){
        .name = program->name,
        .operand_count = shape->operand_count,
        .param_bytes = rota_fused_param_bytes(shape->word_count),
        .flags = ROTA_KERNEL_PURE,
        .inplace_outputs = shape->inplace_outputs,
        .inplace_inputs = shape->inplace_inputs,
        .bindables = program->bindables,
        .bindable_count = shape->word_count,
        .cpu = {.fn = rota_cpu_fused, .items = rota_cpu_items_fused},
        .cuda = {.entry = program->entry, .launch = rota_cuda_launch_fused, .select = rota_cuda_select_fused},
    };
    rota_vk_fused_kernel(shape, &program->kernel);
    return program;
}

const rota_fused_program *rota_fused_program_get(const rota_fused_shape *shape) {
    pthread_mutex_lock(&lock);
    _Static_assert(offsetof(rota_fused_program, shape) == 0, "the set has shapes");
    rota_fused_program *program = rota_set_get(&programs, shape);
    if (!program && (program = make(shape)) && !rota_set_put(&programs, &program->shape)) {
        free(program);
        program = NULL;
    }
    pthread_mutex_unlock(&lock);
    return program;
}

bool rota_fused_prepare(const rota_fused_program *program, const rota_rewrite_target *target,
                        char *out_reason, size_t capacity) {
    if (target->known && target->kind == ROTA_EXEC_CUDA)
        return rota_cuda_fused_prepare(program, target->cuda, out_reason, capacity);
    if (!target->known || target->kind == ROTA_EXEC_CPU || program->kernel.vk.words) return true;
    (void)snprintf(out_reason, capacity, "the shader of fused nodes has no room for '%s'", program->name);
    return false;
}
