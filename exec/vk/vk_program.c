/* Programs: every kernel command checked against the device and given its pipeline and workgroup counts;
 * every segment given its real queue. */
#include "exec/vk/vk_program.h"
#include <stdio.h>
#include "base/hash.h"
#include "exec/common/checks.h"
#include "graph/kernel_calls.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_steady.h"
#include "exec/vk/vk_turns.h"
#include "spv/vk_copy.h"
#include "spv/vk_copy_bytes.h"
#include "spv/vk_fill.h"
#include <stdlib.h>
#include <string.h>

#define COPY_ITEM_BYTES (256u * 16u) /* one workgroup's pass over 16-byte items */
#define COPY_GROUPS_MAX 2048u

static void copy_grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    uint64_t size_bytes;
    memcpy(&size_bytes, params, sizeof size_bytes); /* first in both parameter structs */
    uint64_t groups = (size_bytes + (uint64_t)COPY_ITEM_BYTES - 1) / (uint64_t)COPY_ITEM_BYTES;
    out_groups[0] = (uint32_t)(groups < COPY_GROUPS_MAX ? groups : COPY_GROUPS_MAX);
    out_groups[1] = out_groups[2] = 1;
}

/* So that a copy's size may be a count's (vk_count.c). */
static const rota_kernel_bindable copy_size = {
    .name = "size_bytes", .offset_bytes = offsetof(rota_vk_copy_params, size_bytes), .size_bytes = 8};

const rota_kernel rota_vk_copy_kernel = {
    .name = "copy through a slot",
    .operand_count = 2,
    .param_bytes = sizeof(rota_vk_copy_params),
    .bindables = &copy_size,
    .bindable_count = 1,
    .vk = {.words = rota_spv_vk_copy, .size_bytes = sizeof rota_spv_vk_copy, .grid = copy_grid},
};
const rota_kernel rota_vk_copy_bytes_kernel = {
    .name = "copy through a slot, bytewise",
    .operand_count = 2,
    .param_bytes = sizeof(rota_vk_copy_params),
    .bindables = &copy_size,
    .bindable_count = 1,
    .vk = {.words = rota_spv_vk_copy_bytes,
           .size_bytes = sizeof rota_spv_vk_copy_bytes,
           .grid = copy_grid,
           .required_features = ROTA_FEATURE_INT8_STORAGE},
};
const rota_kernel rota_vk_fill_kernel = {
    .name = "fill through a slot",
    .operand_count = 1,
    .param_bytes = sizeof(rota_vk_fill_params),
    .vk = {.words = rota_spv_vk_fill, .size_bytes = sizeof rota_spv_vk_fill, .grid = copy_grid},
};

/* Pipelines found for the program so far, so that a kernel used a thousand times is looked up in the device
 * once: hashing SPIR-V a node would cost more than the rest. */
typedef struct known_pipeline {
    rota_vk_pipeline_key key;
    const rota_vk_pipeline *pipeline;
} known_pipeline;

#define KNOWN_MAX 64u

typedef struct maker {
    rota_vk_device *device;
    const rota_exec_program_desc *desc;
    rota_vk_program *program;
    bool is_body;
    known_pipeline known[KNOWN_MAX]; /* a direct-mapped cache */
} maker;

static const char *feature_names(uint32_t features) {
    if (features & ROTA_FEATURE_F16_STORAGE) return "16-bit storage";
    if (features & ROTA_FEATURE_F16_ARITHMETIC) return "float16 arithmetic";
    if (features & ROTA_FEATURE_COOPERATIVE_MATRIX) return "cooperative matrices of float16";
    if (features & ROTA_FEATURE_COOPERATIVE_MATRIX_BF16) return "cooperative matrices of bfloat16";
    if (features & ROTA_FEATURE_COOPERATIVE_MATRIX_2) return "cooperative matrices 2";
    if (features & ROTA_FEATURE_SUBGROUP_SIZE_CONTROL) return "subgroup size control";
    if (features & ROTA_FEATURE_INT64_ATOMICS) return "64-bit atomics";
    if (features & ROTA_FEATURE_INT8_STORAGE) return "8-bit storage";
    if (features & ROTA_FEATURE_CUDA_IMAGES) return "CUDA images";
    if (features & ROTA_FEATURE_F64) return "double arithmetic";
    return "a feature without a name here";
}

static rota_status check_operands(const rota_exec_command *command, const rota_exec_operand *operands,
                                  const rota_kernel *kernel) {
    if (command->operand_count == 0 || command->operand_count > ROTA_KERNEL_OPERANDS_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "kernel '%s' has %u operands; Vulkan kernels have 1 to %u",
                         kernel->name, command->operand_count, ROTA_KERNEL_OPERANDS_MAX);
    return rota_check_slots(command, operands, kernel);
}

static rota_status check_kernel(const maker *m, const rota_exec_command *command, const rota_kernel *kernel) {
    const rota_device_info *info = &m->device->base.info;
    if (!kernel->vk.words)
        return rota_fail(ROTA_UNSUPPORTED, "kernel '%s' has no SPIR-V; it does not run on %s", kernel->name,
                         info->id);
    uint32_t lacking = kernel->vk.required_features & ~info->features;
    if (lacking)
        return rota_fail(ROTA_UNSUPPORTED, "kernel '%s' needs %s, which %s (%s) lacks", kernel->name,
                         feature_names(lacking), info->id, info->name);
    if (kernel->vk.spec_count > ROTA_KERNEL_SPEC_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "kernel '%s' has %u specialization constants; at most %u are possible", kernel->name,
                         kernel->vk.spec_count, ROTA_KERNEL_SPEC_MAX);
    ROTA_TRY(rota_kernel_check_functions(kernel));
    uint32_t push_bytes = 8 + 8 * (uint32_t)command->operand_count + kernel->param_bytes;
    if (push_bytes > m->device->bounds.push_bytes)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "kernel '%s' needs %u bytes of push constants (8 + 8 for each of %u operands + %u of "
            "parameters); %s (%s) has %u",
            kernel->name, push_bytes, command->operand_count, kernel->param_bytes, info->id, info->name,
            m->device->bounds.push_bytes);
    const VkPhysicalDeviceSubgroupSizeControlProperties *subgroup = &m->device->physical.subgroup;
    uint32_t size = kernel->vk.subgroup_size;
    if (size && !(info->features & ROTA_FEATURE_SUBGROUP_SIZE_CONTROL))
        return rota_fail(ROTA_UNSUPPORTED,
                         "kernel '%s' needs subgroups of %u; %s has no subgroup size control", kernel->name,
                         size, info->id);
    if (size && (size < subgroup->minSubgroupSize || size > subgroup->maxSubgroupSize || (size & (size - 1))))
        return rota_fail(ROTA_UNSUPPORTED, "kernel '%s' needs subgroups of %u; %s has %u to %u", kernel->name,
                         size, info->id, subgroup->minSubgroupSize, subgroup->maxSubgroupSize);
    return ROTA_OK;
}

static rota_status find_pipeline(maker *m, const rota_vk_pipeline_key *key,
                                 const rota_vk_pipeline **out_pipeline) {
    uint32_t hash = rota_hash_pointer(key->kernel);
    hash = rota_hash_word(hash ^ key->slot_mask ^ (uint64_t)key->bind_mask << 32);
    for (uint32_t i = 0; i < key->kernel->vk.spec_count; i++) hash = rota_hash_word(hash ^ key->spec[i]);
    known_pipeline *known = &m->known[hash % KNOWN_MAX];
    if (!known->pipeline || memcmp(&known->key, key, sizeof *key) != 0) {
        ROTA_TRY(rota_vk_pipeline_get(m->device, key, &known->pipeline));
        known->key = *key;
    }
    *out_pipeline = known->pipeline;
    return ROTA_OK;
}

/* The kernel whose CUDA image runs in place of `kernel`; NULL: SPIR-V does. */
static const rota_kernel *select_image(const maker *m, const rota_kernel *kernel, const void *params,
                                       const uint64_t *operand_bytes, uint32_t slot_mask) {
    if (!(m->device->base.info.features & ROTA_FEATURE_CUDA_IMAGES)) return NULL;
    const rota_kernel *image;
    if (rota_kernel_vk_select_image(kernel, params, operand_bytes, slot_mask, &m->device->target, &image))
        return image;
    return kernel->vk.words || !kernel->cuda.image ? NULL : kernel;
}

static rota_status check_turns(const maker *m, const rota_kernel *kernel, const rota_kernel *chosen,
                               const void *params) {
    const uint32_t most = m->device->physical.turns_max;
    uint64_t turns = 0;
    if (!most) return ROTA_OK;
    if (rota_kernel_vk_turns(chosen, params, &turns))
        kernel = chosen;
    else
        (void)rota_kernel_vk_turns(kernel, params, &turns);
    if (turns <= most) return ROTA_OK;
    return rota_fail(
        ROTA_UNSUPPORTED,
        "kernel '%s' may take %llu turns of its loops in one invocation; %s (%s) ends them after %u, and "
        "the result would be wrong",
        kernel->name, (unsigned long long)turns, m->device->base.info.id, m->device->base.info.name, most);
}

static rota_status check_grid(const maker *m, const rota_kernel *kernel, const uint32_t *groups) {
    const rota_device_info *info = &m->device->base.info;
    char whose[sizeof info->id + sizeof info->name + 4];
    (void)snprintf(whose, sizeof whose, "%s (%s)", info->id, info->name);
    return rota_check_groups(kernel, groups, m->device->physical.properties.limits.maxComputeWorkGroupCount,
                             "workgroups", whose);
}

/* `count_mask`: the parameter that a count is given to, as a bit; 0: none. */
static rota_status make_dispatch(maker *m, const rota_exec_command *command, const rota_kernel *kernel,
                                 const void *params, const uint32_t *given_groups, uint32_t count_mask,
                                 rota_vk_dispatch *out_dispatch) {
    const rota_exec_operand *operands = m->desc->operands + command->first_operand;
    ROTA_TRY(check_operands(command, operands, kernel));
    uint64_t operand_bytes[ROTA_KERNEL_OPERANDS_MAX] = {0};
    rota_vk_pipeline_key key;
    memset(&key, 0, sizeof key); /* compared as bytes */
    for (uint32_t i = 0; i < command->operand_count; i++) operand_bytes[i] = operands[i].size_bytes;
    key.slot_mask = rota_slot_mask(command, operands);
    key.bind_mask = rota_bind_mask(command, m->desc->bindings + command->first_binding) | count_mask;

    /* Which is launched by numbers alone. */
    const rota_kernel *image =
        count_mask || m->is_body ? NULL : select_image(m, kernel, params, operand_bytes, key.slot_mask);
    if (image) {
        out_dispatch->slot_mask = key.slot_mask;
        out_dispatch->bind_mask = key.bind_mask;
        ROTA_TRY(rota_vk_image_launch(m->device, image, params, operand_bytes, given_groups,
                                      &out_dispatch->launch));
        return rota_vk_image_get(m->device, image, &out_dispatch->image);
    }
    const rota_kernel *recorded = kernel;
    const rota_kernel *chosen =
        rota_kernel_vk_select(kernel, params, operand_bytes, m->device->base.info.features);
    if (chosen) kernel = chosen;
    ROTA_TRY(check_turns(m, recorded, kernel, params));
    ROTA_TRY(check_kernel(m, command, kernel));
    key.kernel = kernel;
    if (kernel->vk.spec_count) rota_kernel_vk_spec(kernel, params, key.spec);
    ROTA_TRY(find_pipeline(m, &key, &out_dispatch->pipeline));
    if (!m->device->options.touch && (key.slot_mask | (key.bind_mask & ~count_mask))) {
        key.slot_mask = 0;
        key.bind_mask = count_mask;
        ROTA_TRY(find_pipeline(m, &key, &out_dispatch->told));
    }
    uint32_t *groups = out_dispatch->launch.groups;
    rota_kernel_groups(kernel, kernel->vk.grid, kernel->vk.grid_with, params, operand_bytes, given_groups,
                       groups);
    return count_mask ? ROTA_OK : check_grid(m, kernel, groups);
}

static bool copies_bytes(const maker *m) {
    return m->device->physical.bytes_8bit;
}

static rota_status check_copy(const maker *m, const rota_exec_operand *operands, uint64_t bytes,
                              const char *how) {
    if (copies_bytes(m) || (bytes | operands[0].offset_bytes | operands[1].offset_bytes) % 4 == 0)
        return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED, "a copy of %llu bytes %s needs 8-bit storage, which %s lacks",
                     (unsigned long long)bytes, how, m->device->base.info.id);
}

/* ---- Counted commands ---- */

static rota_status make_counted_kernel(maker *m, const rota_exec_command *command, rota_vk_count *count,
                                       rota_vk_dispatch *out_dispatch) {
    const rota_kernel *kernel = command->u.kernel.kernel;
    const uint32_t plus_1 = command->u.kernel.count_bindable_plus_1,
                   per_group = command->u.kernel.items_per_group;
    if (plus_1 == 0)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "kernel '%s' is counted, and none of its parameters gets the count "
            "(rota_count.bindable_plus_1), which it needs on %s: its groups are a count rounded up",
            kernel->name, m->device->base.info.id);
    if (kernel->vk.select)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "kernel '%s' is counted, and another may take its place on %s (rota_kernel.vk.select), "
            "whose items in a group nobody has said",
            kernel->name, m->device->base.info.id);
    rota_exec_command plain = *command;
    plain.operand_count--;
    static const uint32_t one_each[3] = {1, 1, 1};
    ROTA_TRY(make_dispatch(m, &plain, kernel, command->u.kernel.params, one_each, 1u << (plus_1 - 1),
                           out_dispatch));
    uint32_t *groups = out_dispatch->launch.groups;
    groups[0] = (count->params.max - 1) / per_group + 1;
    count->param_offset = kernel->bindables[plus_1 - 1].offset_bytes;
    count->params.unit = 1;
    count->params.per_group = per_group;
    count->params.groups_max = groups[0];
    count->params.groups_y = groups[1];
    count->params.groups_z = groups[2];
    return check_grid(m, kernel, groups);
}

static rota_status make_counted_copy(maker *m, const rota_exec_command *command, rota_vk_count *count,
                                     rota_vk_dispatch *out_dispatch) {
    const rota_exec_operand *operands = m->desc->operands + command->first_operand;
    const rota_vk_copy_params params = {.size_bytes = operands[0].size_bytes};
    const uint32_t none[3] = {0};
    rota_exec_command plain = *command;
    plain.operand_count--;
    ROTA_TRY(check_copy(m, operands, command->u.copy.unit_bytes, "each, as many as are counted,"));
    ROTA_TRY(make_dispatch(m, &plain, copies_bytes(m) ? &rota_vk_copy_bytes_kernel : &rota_vk_copy_kernel,
                           &params, none, 1, out_dispatch));
    count->param_offset = offsetof(rota_vk_copy_params, size_bytes);
    count->params.unit = command->u.copy.unit_bytes;
    count->params.per_group = (uint64_t)COPY_ITEM_BYTES;
    count->params.groups_max = COPY_GROUPS_MAX;
    count->params.groups_y = count->params.groups_z = 1;
    return ROTA_OK;
}

static rota_status make_counted(maker *m, uint32_t index, rota_vk_dispatch *out_dispatch) {
    const rota_exec_command *command = &m->desc->commands[index];
    const rota_exec_operand *operands = m->desc->operands + command->first_operand;
    rota_vk_counts_of *counts = &m->program->counts;
    rota_vk_count *count = &counts->list[counts->count++];
    *count = (rota_vk_count){.command = index, .params.max = rota_exec_count_max(command)};
    ROTA_TRY(rota_check_count(command, operands));
    ROTA_TRY(command->kind == ROTA_EXEC_COMMAND_COPY ? make_counted_copy(m, command, count, out_dispatch)
                                                     : make_counted_kernel(m, command, count, out_dispatch));
    out_dispatch->count_plus_1 = counts->count;
    rota_vk_pipeline_key key;
    memset(&key, 0, sizeof key); /* compared as bytes */
    key.kernel = &rota_vk_count_kernel;
    ROTA_TRY(find_pipeline(m, &key, &count->told));
    key.slot_mask = operands[command->operand_count - 1].is_slot;
    return find_pipeline(m, &key, &count->pipeline);
}

/* Copies and fills with a slot operand become kernels; the rest need nothing here. */
static rota_status make_transfer(maker *m, const rota_exec_command *command, rota_vk_dispatch *out_dispatch) {
    const rota_exec_operand *operands = m->desc->operands + command->first_operand;
    bool slot = m->is_body; /* or is in a body, where what is not run is a dispatch of nothing */
    for (uint32_t i = 0; i < command->operand_count; i++) slot = slot || operands[i].is_slot;
    if (!slot) return ROTA_OK;
    const uint32_t none[3] = {0};
    if (command->kind == ROTA_EXEC_COMMAND_FILL) {
        rota_vk_fill_params params = {.size_bytes = operands[0].size_bytes,
                                      .pattern = command->u.fill.pattern};
        return make_dispatch(m, command, &rota_vk_fill_kernel, &params, none, 0, out_dispatch);
    }
    rota_vk_copy_params params = {.size_bytes = operands[0].size_bytes};
    ROTA_TRY(check_copy(m, operands, operands[0].size_bytes, "through a slot"));
    return make_dispatch(m, command, copies_bytes(m) ? &rota_vk_copy_bytes_kernel : &rota_vk_copy_kernel,
                         &params, none, 0, out_dispatch);
}

/* ---- Commands that decide ---- */

static rota_status make_body(maker *m, const rota_exec_program_desc *desc, rota_vk_program **out_body);

static rota_status make_decision(maker *m, uint32_t index, rota_vk_dispatch *out_dispatch) {
    const rota_exec_command *command = &m->desc->commands[index];
    const rota_exec_conditional *conditional = command->u.conditional;
    const rota_exec_operand *operands = m->desc->operands + command->first_operand;
    rota_vk_decisions_of *decisions = &m->program->decisions;
    rota_vk_decision *decision = &decisions->list[decisions->count];
    ROTA_TRY(rota_vk_decide_check(command, operands));
    *decision = (rota_vk_decision){.command = index, .conditional = conditional};
    decision->bodies = calloc(conditional->body_count + (size_t)1, sizeof *decision->bodies);
    if (!decision->bodies)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for %u bodies", conditional->body_count);
    out_dispatch->decision_plus_1 = ++decisions->count;
    for (uint32_t b = 0; b < conditional->body_count; b++)
        if (conditional->bodies[b]) ROTA_TRY(make_body(m, conditional->bodies[b], &decision->bodies[b]));
    rota_vk_pipeline_key key;
    memset(&key, 0, sizeof key); /* compared as bytes */
    key.kernel = &rota_vk_decide_kernel;
    key.slot_mask = operands[conditional->condition.operand].is_slot;
    const rota_exec_word *second =
        conditional->index.operand != UINT32_MAX ? &conditional->index : &conditional->condition;
    key.slot_mask |= (uint32_t)operands[second->operand].is_slot << 1;
    return find_pipeline(m, &key, &decision->pipeline);
}

static rota_status make_command(maker *m, uint32_t index) {
    const rota_exec_command *command = &m->desc->commands[index];
    rota_vk_dispatch *dispatch = &m->program->dispatches[index];
    if (command->is_counted) return make_counted(m, index, dispatch);
    switch (command->kind) {
    case ROTA_EXEC_COMMAND_KERNEL:
        return make_dispatch(m, command, command->u.kernel.kernel, command->u.kernel.params,
                             command->u.kernel.groups, 0, dispatch);
    case ROTA_EXEC_COMMAND_COPY:
    case ROTA_EXEC_COMMAND_FILL:
        return make_transfer(m, command, dispatch);
    case ROTA_EXEC_COMMAND_CONDITIONAL:
        return make_decision(m, index, dispatch);
    default:
        return rota_fail_kind(&m->device->base, command);
    }
}

static uint8_t kinds_of_segment(const maker *m, const rota_exec_segment *segment) {
    uint8_t kinds = 0;
    for (uint32_t i = 0; i < segment->command_count; i++)
        kinds |= rota_vk_is_dispatch(&m->program->dispatches[segment->first_command + i]) ? ROTA_VK_DISPATCH
                                                                                          : ROTA_VK_TRANSFER;
    return kinds;
}

/* Which of the commands that are such are each segment's; NULL: there are none. */
static rota_status list_of_segments(const rota_exec_program_desc *desc,
                                    bool (*is_such)(const rota_exec_command *), size_t size, void **out_list,
                                    uint32_t **out_first) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < desc->command_count; i++) count += is_such(&desc->commands[i]);
    if (count == 0) return ROTA_OK;
    void *list = *out_list = calloc(count, size);
    uint32_t *first = *out_first = calloc(desc->segment_count + (size_t)1, sizeof *first);
    if (!list || !first)
        return rota_fail(ROTA_OUT_OF_MEMORY,
                         "out of host memory for a program of %u counted commands, or that decide", count);
    for (uint32_t s = 0, so_far = 0; s < desc->segment_count; s++) {
        const rota_exec_segment *segment = &desc->segments[s];
        first[s] = so_far;
        for (uint32_t i = 0; i < segment->command_count; i++)
            so_far += is_such(&desc->commands[segment->first_command + i]);
        first[s + 1] = so_far;
    }
    return ROTA_OK;
}

static bool is_counted(const rota_exec_command *command) {
    return command->is_counted;
}

static bool decides(const rota_exec_command *command) {
    return command->kind == ROTA_EXEC_COMMAND_CONDITIONAL;
}

/* Its commands. */
static rota_status make_commands(maker *m) {
    const rota_exec_program_desc *desc = m->desc;
    rota_vk_program *program = m->program;
    program->dispatches = calloc(desc->command_count + (size_t)1, sizeof *program->dispatches);
    if (!program->dispatches)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a program of %u commands",
                         desc->command_count);
    void *counts = NULL, *decisions = NULL;
    rota_status listed =
        list_of_segments(desc, is_counted, sizeof *program->counts.list, &counts, &program->counts.first);
    if (listed == ROTA_OK)
        listed = list_of_segments(desc, decides, sizeof *program->decisions.list, &decisions,
                                  &program->decisions.first);
    program->counts.list = counts;
    program->decisions.list = decisions;
    ROTA_TRY(listed);
    for (uint32_t i = 0; i < desc->command_count; i++) {
        rota_status status = make_command(m, i);
        if (status != ROTA_OK) return rota_fail_at_node(status, &m->device->host, desc, i);
    }
    return ROTA_OK;
}

static rota_status make_body(maker *m, const rota_exec_program_desc *desc, rota_vk_program **out_body) {
    const rota_exec_program_desc *outer_desc = m->desc;
    rota_vk_program *outer = m->program,
                    *body = *out_body = calloc(1, sizeof *body); /* freed with the outer one */
    const bool is_in_body = m->is_body;
    if (!body) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a body");
    body->desc = m->desc = desc;
    m->program = body;
    m->is_body = true;
    const rota_status status = make_commands(m);
    m->desc = outer_desc;
    m->program = outer;
    m->is_body = is_in_body;
    return status;
}

static rota_status make_program(maker *m) {
    const rota_exec_program_desc *desc = m->desc;
    m->program->segment_real = calloc(desc->segment_count + 1, 1);
    m->program->segment_kinds = calloc(desc->segment_count + 1, 1);
    if (!m->program->segment_real || !m->program->segment_kinds)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a program of %u segments",
                         desc->segment_count);
    ROTA_TRY(make_commands(m));
    rota_vk_turns_choose(m->program, m->device->options.few_turns);
    rota_vk_words_lay_out(m->program);
    ROTA_TRY(rota_check_queues(&m->device->base, desc, m->device->options.queue_count));
    for (uint32_t i = 0; i < desc->segment_count; i++) {
        uint8_t kinds = m->program->segment_kinds[i] = kinds_of_segment(m, &desc->segments[i]);
        /* The transfer queue takes segments of its logical queue that hold nothing but plain copies and
         * fills. */
        bool split = m->device->logical[desc->segments[i].queue].split;
        m->program->segment_real[i] = split && !(kinds & ROTA_VK_DISPATCH);
    }
    return m->device->options.touch ? ROTA_OK : rota_vk_readers_create(m->program);
}

rota_status rota_vk_program_create(rota_exec_device *base, const rota_exec_program_desc *desc,
                                   rota_exec_program **out_program) {
    maker *m = calloc(1, sizeof *m);
    rota_vk_program *program = calloc(1, sizeof *program);
    rota_status status = ROTA_OK;
    if (!m || !program) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for program '%s'", desc->name);
    } else {
        *m = (maker){.device = (rota_vk_device *)base, .desc = desc, .program = program};
        program->desc = desc;
        status = make_program(m);
    }
    free(m);
    if (status != ROTA_OK) {
        if (program) rota_vk_program_destroy(base, (rota_exec_program *)program);
        return status;
    }
    *out_program = (rota_exec_program *)program;
    return ROTA_OK;
}

static void free_program(rota_vk_program *program) {
    for (uint32_t i = 0; i < program->decisions.count; i++) {
        const rota_vk_decision *decision = &program->decisions.list[i];
        for (uint32_t b = 0; b < decision->conditional->body_count; b++)
            if (decision->bodies[b]) free_program(decision->bodies[b]);
        free(decision->bodies);
    }
    free(program->dispatches);
    free(program->segment_real);
    free(program->segment_kinds);
    free(program->counts.list);
    free(program->counts.first);
    free(program->decisions.list);
    free(program->decisions.first);
    free(program);
}

void rota_vk_program_destroy(rota_exec_device *base, rota_exec_program *program_base) {
    (void)base;
    rota_vk_program *program = (rota_vk_program *)program_base;
    if (!program) return;
    rota_vk_readers_free(program);
    free_program(program);
}
