/* Instances: a program's command buffers, recorded once with the addresses of an instance's memories and
 * argument block, for any number of submissions. */
#include "exec/vk/vk_record.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_names.h"
#include "exec/vk/vk_recording.h"
#include <stdlib.h>
#include <string.h>

/* A barrier that names more than it must costs a GPU dearly: on an H200 one between dispatches takes 1 us,
 * and twice to four times that with transfers or with all of memory in its scopes. */

static VkPipelineStageFlags2 stages_of(uint32_t kinds) {
    return (kinds & ROTA_VK_DISPATCH ? VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT : 0) |
           (kinds & ROTA_VK_TRANSFER ? VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT : 0);
}

static VkAccessFlags2 writes_of(uint32_t kinds) {
    return (kinds & ROTA_VK_DISPATCH ? VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT : 0) |
           (kinds & ROTA_VK_TRANSFER ? VK_ACCESS_2_TRANSFER_WRITE_BIT : 0);
}

static VkAccessFlags2 accesses_of(uint32_t kinds) {
    return writes_of(kinds) | (kinds & ROTA_VK_DISPATCH ? VK_ACCESS_2_SHADER_STORAGE_READ_BIT : 0) |
           (kinds & ROTA_VK_TRANSFER ? VK_ACCESS_2_TRANSFER_READ_BIT : 0);
}

static void memory_barrier(rota_vk_device *device, VkCommandBuffer buffer, uint32_t from,
                           VkPipelineStageFlags2 to_stages, VkAccessFlags2 to_access) {
    VkMemoryBarrier2 barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
        .srcStageMask = stages_of(from),
        .srcAccessMask = writes_of(from),
        .dstStageMask = to_stages,
        .dstAccessMask = to_access,
    };
    VkDependencyInfo dependency = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &barrier};
    device->vk.CmdPipelineBarrier2(buffer, &dependency);
}

void rota_vk_record_whole_barrier(rota_vk_recording *r) {
    const VkMemoryBarrier2 barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
        .srcStageMask = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_DRAW_INDIRECT_BIT,
        .srcAccessMask = VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT,
        .dstStageMask = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_DRAW_INDIRECT_BIT,
        .dstAccessMask = VK_ACCESS_2_SHADER_STORAGE_READ_BIT | VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT |
                         VK_ACCESS_2_INDIRECT_COMMAND_READ_BIT};
    const VkDependencyInfo dependency = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &barrier};
    r->device->vk.CmdPipelineBarrier2(r->buffer, &dependency);
}

void rota_vk_record_barrier(rota_vk_device *device, VkCommandBuffer buffer, uint32_t from, uint32_t to) {
    memory_barrier(device, buffer, from, stages_of(to), accesses_of(to));
}

void rota_vk_record_host_barrier(rota_vk_device *device, VkCommandBuffer buffer, uint32_t from) {
    memory_barrier(device, buffer, from, VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT);
}

typedef rota_vk_recording recording;

/* Whether the command is told all that it has in slots, so that it reads nothing from the block. */
static bool is_told(const recording *r, const rota_exec_command *command) {
    const rota_exec_program_desc *desc = r->program->desc;
    if (!r->steady) return false;
    for (uint32_t i = 0; i < command->operand_count; i++) {
        const rota_exec_operand *operand = &desc->operands[command->first_operand + i];
        if (operand->is_slot && !rota_steady_is(r->steady, operand->memory)) return false;
    }
    for (uint32_t i = 0; i < command->binding_count; i++)
        if (!rota_steady_is(r->steady, desc->bindings[command->first_binding + i].word)) return false;
    return true;
}

uint64_t rota_vk_record_operand(const recording *r, const rota_exec_operand *operand, bool told) {
    if (!operand->is_slot) return r->memories[operand->memory]->base.address + operand->offset_bytes;
    if (told) return r->steady->values[operand->memory] + operand->offset_bytes;
    return ((uint64_t)operand->memory << 48) | operand->offset_bytes;
}

/* Of the operands those that a kernel is given: all but a count. */
static uint32_t given_operands(const rota_exec_command *command) {
    return (uint32_t)command->operand_count - command->is_counted;
}

/* A command's operands and parameters as kernels take them: addresses, words in place of what is in slots. */
static void write_arguments(const recording *r, const rota_exec_command *command, bool told,
                            const void *params, uint32_t param_bytes, uint64_t *out_words) {
    const rota_exec_program_desc *desc = r->program->desc;
    const rota_exec_operand *operands = desc->operands + command->first_operand;
    const uint32_t given = given_operands(command);
    for (uint32_t i = 0; i < given; i++) out_words[i] = rota_vk_record_operand(r, &operands[i], told);
    uint8_t *param_area = (uint8_t *)&out_words[given];
    if (param_bytes) memcpy(param_area, params, param_bytes);
    if (command->kind != ROTA_EXEC_COMMAND_KERNEL) return;
    const rota_exec_binding *bindings = desc->bindings + command->first_binding;
    const rota_kernel *kernel = command->u.kernel.kernel;
    for (uint32_t i = 0; i < command->binding_count; i++) {
        const rota_kernel_bindable *bindable = &kernel->bindables[bindings[i].bindable];
        if (told)
            memcpy(param_area + bindable->offset_bytes, &r->steady->values[bindings[i].word],
                   bindable->size_bytes);
        else
            memcpy(param_area + bindable->offset_bytes, &bindings[i].word, 4);
    }
}

static const rota_vk_count *count_of(const recording *r, const rota_vk_dispatch *dispatch) {
    return dispatch->count_plus_1 ? &r->program->counts.list[dispatch->count_plus_1 - 1] : NULL;
}

/* Of the words that the count shader leaves (rota_vk_count_words). */
static uint32_t count_word(const recording *r, const rota_vk_dispatch *dispatch) {
    return rota_vk_count_word(r->program, dispatch->count_plus_1 - 1);
}

void rota_vk_record_bind(recording *r, VkPipeline pipeline) {
    if (r->bound == pipeline) return;
    r->device->vk.CmdBindPipeline(r->buffer, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    r->bound = pipeline;
}

/* As many groups as the words of the block there say. */
static void dispatch_indirect(const recording *r, uint64_t offset_bytes) {
    const rota_vk_block *block = &r->recorded->block;
    r->device->vk.CmdDispatchIndirect(r->buffer, block->memory->buffer,
                                      block->memory->buffer_offset + block->offset_bytes + offset_bytes);
}

static void dispatch_counted(const recording *r, const rota_vk_dispatch *dispatch) {
    dispatch_indirect(r, 8 * (uint64_t)count_word(r, dispatch) + offsetof(rota_vk_count_words, groups));
}

static void record_dispatch(recording *r, const rota_exec_command *command, const rota_vk_dispatch *dispatch,
                            const void *params, uint32_t param_bytes) {
    const rota_vk_table *vk = &r->device->vk;
    const bool told = is_told(r, command);
    /* Push constants begin with the block's address; a rota_args of exec/cuda/rota_kernel.cuh with that and
     * the masks. */
    uint64_t words[2 + ROTA_KERNEL_OPERANDS_MAX + ROTA_KERNEL_PARAM_BYTES_MAX / 8] = {
        r->recorded->block.address};
    if (dispatch->image) {
        words[1] = told ? 0 : dispatch->slot_mask | (uint64_t)dispatch->bind_mask << 32;
        write_arguments(r, command, told, params, param_bytes, words + 2);
        rota_vk_image_record(r->device, r->buffer, dispatch->image, &dispatch->launch, words);
        r->bound = VK_NULL_HANDLE; /* nothing says that a bound pipeline stays */
        return;
    }
    write_arguments(r, command, told, params, param_bytes, words + 1);
    const VkPipeline pipeline = told && dispatch->told ? dispatch->told->handle : dispatch->pipeline->handle;
    const uint32_t given = given_operands(command);
    rota_vk_record_bind(r, pipeline);
    if (dispatch->count_plus_1) {
        const uint32_t word = count_word(r, dispatch);
        memcpy((uint8_t *)&words[1 + given] + count_of(r, dispatch)->param_offset, &word, sizeof word);
    }
    vk->CmdPushConstants(r->buffer, r->device->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                         8 + 8 * given + param_bytes, words);
    const uint32_t *groups = dispatch->launch.groups;
    if (dispatch->count_plus_1)
        dispatch_counted(r, dispatch);
    else if (r->in.on)
        dispatch_indirect(r,
                          rota_vk_decided_offset(r->program, (uint32_t)(dispatch - r->program->dispatches)));
    else
        vk->CmdDispatch(r->buffer, groups[0], groups[1], groups[2]);
}

static void record_copy(recording *r, const rota_exec_operand *operands) {
    const rota_vk_memory *target = r->memories[operands[0].memory], *source = r->memories[operands[1].memory];
    VkBufferCopy region = {
        .srcOffset = source->buffer_offset + operands[1].offset_bytes,
        .dstOffset = target->buffer_offset + operands[0].offset_bytes,
        .size = operands[0].size_bytes,
    };
    if (region.size) r->device->vk.CmdCopyBuffer(r->buffer, source->buffer, target->buffer, 1, &region);
}

static void record_fill(recording *r, const rota_exec_operand *operand, uint32_t pattern) {
    const rota_vk_memory *target = r->memories[operand->memory];
    if (operand->size_bytes)
        r->device->vk.CmdFillBuffer(r->buffer, target->buffer, target->buffer_offset + operand->offset_bytes,
                                    operand->size_bytes, pattern);
}

rota_status rota_vk_record_command(recording *r, uint32_t index) {
    const rota_exec_program_desc *desc = r->program->desc;
    const rota_exec_command *command = &desc->commands[index];
    const rota_exec_operand *operands = desc->operands + command->first_operand;
    const rota_vk_dispatch *dispatch = &r->program->dispatches[index];
    for (uint32_t i = 0; i < command->operand_count; i++)
        if (operands[i].mode != ROTA_READ && !operands[i].is_slot &&
            r->memories[operands[i].memory]->base.host)
            r->writes_mapped = true;
    if (rota_vk_is_dispatch(dispatch) && r->device->options.touch) {
        if (dispatch->count_plus_1) { /* of no groups: nobody writes any; beside what is bound for a read */
            ROTA_TRY(rota_vk_touch_segment(r->device, r->recorded, r->buffer));
            dispatch_counted(r, dispatch);
        }
        return rota_vk_touch_record(r->device, r->recorded, r->buffer, command);
    }
    if (command->kind == ROTA_EXEC_COMMAND_CONDITIONAL) return rota_vk_decide_record(r, command, dispatch);
    if (command->kind == ROTA_EXEC_COMMAND_KERNEL) {
        record_dispatch(r, command, dispatch, command->u.kernel.params,
                        command->u.kernel.kernel->param_bytes);
    } else if (command->kind == ROTA_EXEC_COMMAND_COPY) {
        rota_vk_copy_params params = {.size_bytes = operands[0].size_bytes};
        if (dispatch->pipeline)
            record_dispatch(r, command, dispatch, &params, sizeof params);
        else
            record_copy(r, operands);
        if (r->device->options.touch) return rota_vk_touch_copied(r->device, r->recorded, r->buffer, command);
    } else {
        rota_vk_fill_params params = {.size_bytes = operands[0].size_bytes,
                                      .pattern = command->u.fill.pattern};
        if (dispatch->pipeline)
            record_dispatch(r, command, dispatch, &params, sizeof params);
        else
            record_fill(r, &operands[0], command->u.fill.pattern);
    }
    return ROTA_OK;
}

static uint32_t batch_kinds(const recording *r, const rota_exec_batch *batch) {
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < batch->command_count; i++)
        kinds |= rota_vk_is_dispatch(&r->program->dispatches[batch->first_command + i]) ? ROTA_VK_DISPATCH
                                                                                        : ROTA_VK_TRANSFER;
    return kinds;
}

/* Between batches: everything recorded so far before commands of the kinds that follow, as far as no earlier
 * barrier has ordered them already. A barrier's first scope is all that came before it, so what is left out
 * here (say, dispatches before transfers, while only dispatches follow) is made up for by the first barrier
 * that needs it. */
static void record_batch_barrier(recording *r, uint32_t next) {
    uint32_t from = (r->after_dispatch & next ? ROTA_VK_DISPATCH : 0u) |
                    (r->after_transfer & next ? ROTA_VK_TRANSFER : 0u);
    if (from & ROTA_VK_DISPATCH) r->after_dispatch &= ~next;
    if (from & ROTA_VK_TRANSFER) r->after_transfer &= ~next;
    if (from) rota_vk_record_barrier(r->device, r->buffer, from, next);
}

/* Whether a test wants to see what happens without this barrier. */
static bool is_left_out(const rota_vk_device *device, uint32_t barrier) {
    return ROTA_TEST_HOOKS && (int64_t)barrier == device->counts.skip_barrier;
}

/* The count shader of a command. */
static rota_status record_count(recording *r, const rota_exec_command *command,
                                const rota_vk_dispatch *dispatch) {
    const rota_vk_count *count = count_of(r, dispatch);
    const rota_exec_operand *operand =
        &r->program->desc->operands[command->first_operand + given_operands(command)];
    const uint64_t block = r->recorded->block.address;
    struct {
        uint64_t block, operand;
        rota_vk_count_params params;
    } push = {block, 0, count->params};
    if (r->device->options.touch)
        return rota_vk_touch_count(r->device, r->recorded, r->buffer, operand, count_word(r, dispatch));
    const bool told = !operand->is_slot || (r->steady && rota_steady_is(r->steady, operand->memory));
    push.operand = rota_vk_record_operand(r, operand, told);
    push.params.on = r->in.on;
    push.params.on_value = r->in.on_value;
    push.params.over = r->in.over;
    push.params.words = block + 8 * (uint64_t)count_word(r, dispatch);
    push.params.any_excess = block + 8 * (uint64_t)(r->recorded->program->excess_word + r->segment);
    rota_vk_record_bind(r, told ? count->told->handle : count->pipeline->handle);
    r->device->vk.CmdPushConstants(r->buffer, r->device->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push,
                                   &push);
    r->device->vk.CmdDispatch(r->buffer, 1, 1, 1);
    return ROTA_OK;
}

/* What the batch's counted commands read, once their counts are there: all of it behind one barrier. */
rota_status rota_vk_record_counts(recording *r, const rota_exec_batch *batch) {
    uint32_t recorded = 0;
    for (uint32_t i = 0; i < batch->command_count; i++) {
        const uint32_t index = batch->first_command + i;
        const rota_vk_dispatch *dispatch = &r->program->dispatches[index];
        if (!dispatch->count_plus_1) continue;
        ROTA_TRY(record_count(r, &r->program->desc->commands[index], dispatch));
        recorded++;
    }
    if (recorded && !is_left_out(r->device, r->barriers++))
        memory_barrier(r->device, r->buffer, ROTA_VK_DISPATCH,
                       VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_DRAW_INDIRECT_BIT,
                       VK_ACCESS_2_SHADER_STORAGE_READ_BIT | VK_ACCESS_2_INDIRECT_COMMAND_READ_BIT);
    return ROTA_OK;
}

/* Into *buffer, anew, or into one of the pool. */
static rota_status begin_buffer(recording *r, VkCommandBuffer *buffer) {
    const rota_vk_device *device = r->device;
    VkCommandBufferAllocateInfo allocate_info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = r->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkResult result = VK_SUCCESS;
    r->buffer = *buffer;
    if (!r->buffer) result = device->vk.AllocateCommandBuffers(device->handle, &allocate_info, &r->buffer);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkAllocateCommandBuffers");
    *buffer = r->buffer;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    result = device->vk.BeginCommandBuffer(r->buffer, &begin);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkBeginCommandBuffer");
    rota_vk_label_segment(r->device, r->buffer, r->program->desc, r->segment);
    r->bound = VK_NULL_HANDLE;
    return ROTA_OK;
}

static rota_status end_buffer(recording *r) {
    if (r->writes_mapped)
        rota_vk_record_host_barrier(r->device, r->buffer, r->program->segment_kinds[r->segment]);
    rota_vk_label_end(r->device, r->buffer);
    const VkResult result = r->device->vk.EndCommandBuffer(r->buffer);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkEndCommandBuffer");
}

static void barrier_for_all(const recording *r) {
    const VkMemoryBarrier2 barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                                      .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                      .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                                      .dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                      .dstAccessMask =
                                          VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT};
    const VkDependencyInfo dependency = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &barrier};
    r->device->vk.CmdPipelineBarrier2(r->buffer, &dependency);
}

/* Ends the command buffer, records the command into one of its own, and begins the next: vk_pieces.c. */
static rota_status record_piece(recording *r, uint32_t command) {
    const rota_exec_program_desc *desc = r->program->desc;
    rota_vk_pieces *pieces = r->recorded->pieces[r->segment];
    const uint32_t piece = r->piece++;
    barrier_for_all(r);
    ROTA_TRY(end_buffer(r));
    ROTA_TRY(begin_buffer(r, &pieces->runs[piece]));
    rota_vk_record_whole_barrier(r); /* between two of them */
    rota_vk_label_node(r->device, r->buffer, desc, &desc->commands[command]);
    ROTA_TRY(rota_vk_record_command(r, command));
    rota_vk_label_end(r->device, r->buffer);
    ROTA_TRY(end_buffer(r));
    ROTA_TRY(begin_buffer(r, &pieces->leads[piece + 1]));
    barrier_for_all(r);
    r->after_dispatch = r->after_transfer = ROTA_VK_BOTH; /* what is left of the batch */
    return ROTA_OK;
}

static rota_status record_in_place(recording *r, uint32_t index) {
    const rota_exec_program_desc *desc = r->program->desc;
    if (rota_vk_pieces_cuts(r, index)) return record_piece(r, index);
    rota_vk_label_node(r->device, r->buffer, desc, &desc->commands[index]);
    ROTA_TRY(rota_vk_record_command(r, index));
    rota_vk_label_end(r->device, r->buffer);
    return ROTA_OK;
}

static rota_status record_batches(recording *r, uint32_t index) {
    const rota_exec_program_desc *desc = r->program->desc;
    const rota_exec_segment *segment = &desc->segments[index];
    const bool has_counts = r->program->counts.count != 0;
    rota_vk_device *device = r->device;
    bool first = true;
    for (uint32_t b = 0; b < segment->batch_count; b++) {
        const rota_exec_batch *batch = &desc->batches[segment->first_batch + b];
        if (batch->command_count == 0) continue;
        uint32_t kinds = batch_kinds(r, batch);
        if (!first && !is_left_out(device, r->barriers++)) record_batch_barrier(r, kinds);
        first = false;
        if (kinds & ROTA_VK_DISPATCH) r->after_dispatch = ROTA_VK_BOTH;
        if (kinds & ROTA_VK_TRANSFER) r->after_transfer = ROTA_VK_BOTH;
        if (has_counts) ROTA_TRY(rota_vk_record_counts(r, batch));
        for (uint32_t i = 0; i < batch->command_count; i++) {
            uint32_t command = batch->first_command + i;
            if (r->recorded->queries)
                device->vk.CmdWriteTimestamp2(r->buffer, VK_PIPELINE_STAGE_2_TOP_OF_PIPE_BIT,
                                              r->recorded->queries, 2 * command);
            ROTA_TRY(record_in_place(r, command));
            if (r->recorded->queries)
                device->vk.CmdWriteTimestamp2(r->buffer, VK_PIPELINE_STAGE_2_BOTTOM_OF_PIPE_BIT,
                                              r->recorded->queries, 2 * command + 1);
        }
    }
    return ROTA_OK;
}

/* The driver's own thread reads the queries that it resets itself: nobody else has to ask for them. */
static void record_results(const recording *r, const rota_exec_segment *segment) {
    const rota_vk_memory *results = r->recorded->results;
    r->device->vk.CmdCopyQueryPoolResults(
        r->buffer, r->recorded->queries, 2 * segment->first_command, 2 * segment->command_count,
        results->buffer,
        results->buffer_offset + 2 * (uint64_t)segment->first_command * sizeof(rota_vk_timestamp),
        sizeof(rota_vk_timestamp),
        VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT | VK_QUERY_RESULT_WAIT_BIT);
    rota_vk_record_host_barrier(r->device, r->buffer, ROTA_VK_TRANSFER);
}

/* Into *buffer, and what is cut off into the buffers of its pieces. */
static rota_status record_segment(recording *r, uint32_t index, VkCommandPool pool, VkCommandBuffer *buffer) {
    const rota_exec_segment *segment = &r->program->desc->segments[index];
    rota_vk_device *device = r->device;
    if (segment->command_count == 0) return ROTA_OK;
    r->pool = pool;
    r->segment = index;
    r->piece = 0;
    r->in = (rota_vk_inside){0};
    r->writes_mapped = rota_vk_may_fail(r->program, index); /* what has failed */
    r->after_dispatch = r->after_transfer = 0;
    ROTA_TRY(begin_buffer(r, buffer));
    if (r->recorded->queries)
        device->vk.CmdResetQueryPool(r->buffer, r->recorded->queries, 2 * segment->first_command,
                                     2 * segment->command_count);
    if (device->options.touch) ROTA_TRY(rota_vk_touch_segment(device, r->recorded, r->buffer));
    ROTA_TRY(record_batches(r, index));
    if (r->recorded->results) record_results(r, segment);
    return end_buffer(r);
}

static rota_status make_pools(rota_vk_device *device, rota_vk_recorded *recorded) {
    bool used[ROTA_VK_REALS_MAX] = {false};
    for (uint32_t i = 0; i < recorded->program->desc->segment_count; i++)
        if (recorded->program->desc->segments[i].command_count)
            used[recorded->program->segment_real[i]] = true;
    for (uint32_t i = 0; i < device->real_count; i++) {
        if (!used[i]) continue;
        VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = device->reals[i].family};
        VkResult result = device->vk.CreateCommandPool(device->handle, &info, device->application.allocator,
                                                       &recorded->pools[i]);
        if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateCommandPool");
    }
    return ROTA_OK;
}

static rota_status make_queries(rota_vk_device *device, rota_vk_recorded *recorded) {
    uint32_t count = recorded->program->desc->command_count;
    if (!device->options.diagnostics || device->physical.timestamp_bits == 0 ||
        !device->physical.host_query_reset || count == 0)
        return ROTA_OK;
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = 2 * count};
    VkResult result =
        device->vk.CreateQueryPool(device->handle, &info, device->application.allocator, &recorded->queries);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateQueryPool");
    device->vk.ResetQueryPool(device->handle, recorded->queries, 0, 2 * count);
    if (device->physical.queries_wait) {
        const uint64_t bytes = 2 * (uint64_t)count * sizeof(rota_vk_timestamp);
        ROTA_TRY(rota_vk_memory_take(device, bytes, &recorded->results));
        memset(recorded->results->base.host, 0, bytes);
    }
    recorded->looked_at = calloc(2 * (size_t)count, sizeof *recorded->looked_at);
    if (!recorded->looked_at)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for the times of %u commands", count);
    return ROTA_OK;
}

static rota_status record_run(rota_vk_device *device, rota_vk_recorded *recorded,
                              const rota_vk_memory *const *memories) {
    recording r = {
        .device = device, .program = recorded->program, .recorded = recorded, .memories = memories};
    if (device->options.touch) ROTA_TRY(rota_vk_touch_begin(device, recorded));
    for (uint32_t i = 0; i < recorded->program->desc->segment_count; i++)
        ROTA_TRY(record_segment(&r, i, recorded->pools[recorded->program->segment_real[i]],
                                &recorded->buffers[i]));
    ra_store_relaxed(&device->counts.barriers_recorded, r.barriers);
    return ROTA_OK;
}

rota_status rota_vk_record_steady(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment,
                                  VkCommandPool pool, VkCommandBuffer *buffer) {
    recording r = {.device = device,
                   .program = recorded->program,
                   .recorded = recorded,
                   .memories = recorded->memories,
                   .steady = &recorded->steady[segment].words};
    return record_segment(&r, segment, pool, buffer);
}

/* What recording a segment again takes. */
static rota_status keep_for_steady(rota_vk_recorded *recorded, const rota_vk_memory *const *memories) {
    const rota_exec_program_desc *desc = recorded->program->desc;
    if (!recorded->program->readers || desc->block_words == 0) return ROTA_OK;
    recorded->memories = calloc(desc->memory_count + (size_t)1, sizeof *recorded->memories);
    if (!recorded->memories)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         desc->name);
    if (desc->memory_count)
        memcpy(recorded->memories, memories, desc->memory_count * sizeof *recorded->memories);
    return rota_vk_steady_create(recorded);
}

static rota_status make_run(rota_vk_device *device, rota_vk_recorded *recorded,
                            const rota_vk_memory *const *memories) {
    const rota_exec_program_desc *desc = recorded->program->desc;
    recorded->buffers = calloc(desc->segment_count + 1, sizeof(VkCommandBuffer));
    recorded->block_copy = calloc(desc->block_words + 1, sizeof *recorded->block_copy);
    if (!recorded->buffers || !recorded->block_copy)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         desc->name);
    const uint32_t block_words = recorded->program->block_words;
    if (block_words) ROTA_TRY(rota_vk_block_take(device, block_words, &recorded->block));
    rota_vk_words_begin(recorded);
    ROTA_TRY(make_queries(device, recorded));
    ROTA_TRY(make_pools(device, recorded));
    ROTA_TRY(keep_for_steady(recorded, memories));
    if (!device->options.touch) ROTA_TRY(rota_vk_pieces_create(recorded));
    if (device->options.touch) ROTA_TRY(rota_vk_touch_run_create(recorded, memories));
    return recorded->touch.has_slots ? ROTA_OK : record_run(device, recorded, memories);
}

rota_status rota_vk_recorded_anew(rota_vk_device *device, rota_vk_recorded *recorded) {
    for (uint32_t i = 0; i < ROTA_VK_REALS_MAX; i++) {
        if (!recorded->pools[i]) continue;
        VkResult result = device->vk.ResetCommandPool(device->handle, recorded->pools[i], 0);
        if (result != VK_SUCCESS) return rota_vk_fail(result, "vkResetCommandPool");
    }
    return record_run(device, recorded, recorded->touch.memories);
}

void rota_vk_recorded_free(rota_vk_device *device, rota_vk_recorded *recorded) {
    for (uint32_t i = 0; i < ROTA_VK_REALS_MAX; i++)
        if (recorded->pools[i])
            device->vk.DestroyCommandPool(device->handle, recorded->pools[i], device->application.allocator);
    if (recorded->results) rota_vk_memory_give(device, recorded->results);
    if (recorded->queries)
        device->vk.DestroyQueryPool(device->handle, recorded->queries, device->application.allocator);
    rota_vk_touch_run_free(device, recorded);
    rota_vk_block_give(device, &recorded->block);
    rota_vk_steady_free(device, recorded);
    rota_vk_pieces_free(recorded);
    free(recorded->memories);
    free(recorded->buffers);
    free(recorded->block_copy);
    free(recorded->looked_at);
    free(recorded);
}

rota_status rota_vk_instance_create(rota_exec_device *base, rota_exec_program *program,
                                    rota_exec_memory *const *memories, rota_exec_instance **out_instance) {
    rota_vk_device *device = (rota_vk_device *)base;
    if (ra_load_acquire(&device->lost)) /* pairs with rota_vk_lose */
        return rota_fail(ROTA_DEVICE_LOST, "%s is lost", base->info.id);
    rota_vk_recorded *recorded = calloc(1, sizeof *recorded);
    if (!recorded) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a plan instance");
    recorded->program = (rota_vk_program *)program;
    /* The contract's memory object is the first member of ours. */
    rota_status status = make_run(device, recorded, (const rota_vk_memory *const *)memories);
    if (status != ROTA_OK) {
        rota_vk_recorded_free(device, recorded);
        return rota_fail_context(status, "program '%s' on %s: ", ((rota_vk_program *)program)->desc->name,
                                 base->info.id);
    }
    pthread_mutex_lock(&device->objects.lock);
    rota_link_add(&device->objects.instances, &recorded->link);
    pthread_mutex_unlock(&device->objects.lock);
    *out_instance = (rota_exec_instance *)recorded;
    return ROTA_OK;
}

void rota_vk_instance_destroy(rota_exec_device *base, rota_exec_instance *instance) {
    rota_vk_device *device = (rota_vk_device *)base;
    rota_vk_recorded *recorded = (rota_vk_recorded *)instance;
    if (!recorded || ra_load_acquire(&device->noisy)) return; /* close finds it; pairs with rota_vk_lose */
    /* Pairs with rota_vk_lose. Who goes on looks whether it is, with the lock, and then at this, or submits it. */
    if (recorded->pieces && ra_load_acquire(&device->lost)) {
        pthread_mutex_lock(&device->going.lock);
        pthread_mutex_unlock(&device->going.lock);
    }
    pthread_mutex_lock(&device->objects.lock);
    rota_link_remove(&recorded->link);
    pthread_mutex_unlock(&device->objects.lock);
    rota_vk_recorded_free(device, recorded);
}

#if ROTA_TEST_HOOKS
uint32_t rota_vk_barriers_recorded(rota_exec_device *base) {
    return ra_load_relaxed(&((rota_vk_device *)base)->counts.barriers_recorded);
}

void rota_vk_skip_barrier(rota_exec_device *base, int64_t index) {
    ((rota_vk_device *)base)->counts.skip_barrier = index;
}
#endif
