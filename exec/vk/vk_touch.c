/* Touch mode (tests): each kernel is recorded as dispatches that touch its declared ranges through storage
 * descriptors, read-only or writable, so that synchronization validation, which cannot see accesses through
 * device addresses, judges the plan's barriers. One dispatch per range and no barrier between those of one
 * command; ranges that a command both reads and writes are touched once, writable. Ranges in argument slots
 * have no address yet and are left out. A range starts at the next multiple of
 * minStorageBufferOffsetAlignment (16 bytes on most devices): a finer one is not seen whole.
 *
 * An ACCUMULATE of an atomic kernel is touched as a read: such kernels may overlap one another, which writes
 * would be reported for, while what comes between them and other writes still is.
 *
 * The data stay as they are: nothing is really read or written, so results in touch mode mean nothing. */
#include "exec/vk/vk_device.h"
#include "spv/vk_touch.h"
#include "spv/vk_touch_write.h"
#include <stdlib.h>
#include <string.h>

#define SETS_PER_POOL 256u

typedef struct touch_range {
    uint32_t memory;
    uint64_t begin, end;
} touch_range;

/* A command's ranges with overlaps resolved. Twice the operands bound how many pieces there can be of each.
 */
typedef struct touch_set {
    touch_range ranges[3 * ROTA_KERNEL_OPERANDS_MAX];
    uint32_t count;
} touch_set;

rota_status rota_vk_touch_open(rota_vk_device *device) {
    rota_vk_touch *touch = &device->touch;
    VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                            .descriptorCount = 1,
                                            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                .bindingCount = 1,
                                                .pBindings = &binding};
    VkResult result =
        device->vk.CreateDescriptorSetLayout(device->handle, &set_info, NULL, &touch->set_layout);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateDescriptorSetLayout");
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = 4};
    VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                              .setLayoutCount = 1,
                                              .pSetLayouts = &touch->set_layout,
                                              .pushConstantRangeCount = 1,
                                              .pPushConstantRanges = &range};
    result = device->vk.CreatePipelineLayout(device->handle, &layout_info, NULL, &touch->pipeline_layout);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreatePipelineLayout");
    for (uint32_t i = 0; i < 2; i++) {
        VkShaderModuleCreateInfo module_info = {
            .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
            .codeSize = i ? sizeof rota_spv_vk_touch_write : sizeof rota_spv_vk_touch,
            .pCode = i ? rota_spv_vk_touch_write : rota_spv_vk_touch,
        };
        VkShaderModule module;
        result = device->vk.CreateShaderModule(device->handle, &module_info, NULL, &module);
        if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateShaderModule");
        VkComputePipelineCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
            .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                      .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                      .module = module,
                      .pName = "main"},
            .layout = touch->pipeline_layout,
        };
        result = device->vk.CreateComputePipelines(device->handle, device->cache, 1, &info, NULL,
                                                   &touch->pipelines[i]);
        device->vk.DestroyShaderModule(device->handle, module, NULL);
        if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateComputePipelines");
    }
    return ROTA_OK;
}

void rota_vk_touch_close(rota_vk_device *device) {
    rota_vk_touch *touch = &device->touch;
    for (uint32_t i = 0; i < 2; i++)
        if (touch->pipelines[i]) device->vk.DestroyPipeline(device->handle, touch->pipelines[i], NULL);
    if (touch->pipeline_layout)
        device->vk.DestroyPipelineLayout(device->handle, touch->pipeline_layout, NULL);
    if (touch->set_layout) device->vk.DestroyDescriptorSetLayout(device->handle, touch->set_layout, NULL);
    memset(touch, 0, sizeof *touch);
}

/* A set from the instance's newest pool, or of a new one when that is used up. */
static rota_status take_set(rota_vk_device *device, rota_vk_run *run, VkDescriptorSet *out_set) {
    if (run->sets_left == 0) {
        VkDescriptorPool *pools =
            realloc(run->descriptor_pools, (run->descriptor_pool_count + 1) * sizeof(VkDescriptorPool));
        if (!pools) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for touch-mode descriptors");
        run->descriptor_pools = pools;
        VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                     .descriptorCount = SETS_PER_POOL};
        VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                           .maxSets = SETS_PER_POOL,
                                           .poolSizeCount = 1,
                                           .pPoolSizes = &size};
        VkResult result =
            device->vk.CreateDescriptorPool(device->handle, &info, NULL, &pools[run->descriptor_pool_count]);
        if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateDescriptorPool");
        run->descriptor_pool_count++;
        run->sets_left = SETS_PER_POOL;
    }
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool =
                                            run->descriptor_pools[run->descriptor_pool_count - 1],
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &device->touch.set_layout};
    VkResult result = device->vk.AllocateDescriptorSets(device->handle, &info, out_set);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkAllocateDescriptorSets");
    run->sets_left--;
    return ROTA_OK;
}

/* Adds a range to the written ones, merging those it overlaps. */
static void add_written(touch_set *set, touch_range range) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        touch_range *other = &set->ranges[i];
        if (other->memory == range.memory && other->begin < range.end && range.begin < other->end) {
            if (other->begin < range.begin) range.begin = other->begin;
            if (other->end > range.end) range.end = other->end;
        } else {
            set->ranges[kept++] = *other;
        }
    }
    set->ranges[kept] = range;
    set->count = kept + 1;
}

/* Adds the parts of a read range that nothing of `written` covers. */
static void add_read(touch_set *set, const touch_set *written, touch_range range) {
    while (range.begin < range.end) {
        uint64_t end = range.end, skip_to = range.begin;
        for (uint32_t i = 0; i < written->count; i++) {
            const touch_range *w = &written->ranges[i];
            if (w->memory != range.memory || w->end <= range.begin || w->begin >= range.end) continue;
            if (w->begin <= range.begin)
                skip_to = w->end > skip_to ? w->end : skip_to;
            else if (w->begin < end)
                end = w->begin;
        }
        if (skip_to > range.begin) {
            range.begin = skip_to;
            continue;
        }
        if (set->count < sizeof set->ranges / sizeof set->ranges[0])
            set->ranges[set->count++] =
                (touch_range){.memory = range.memory, .begin = range.begin, .end = end};
        range.begin = end;
    }
}

static rota_status touch_range_record(rota_vk_device *device, rota_vk_run *run, VkCommandBuffer buffer,
                                      const rota_vk_memory *memory, const touch_range *range, uint32_t kind) {
    const VkPhysicalDeviceLimits *limits = &device->physical.properties.limits;
    uint64_t alignment =
        limits->minStorageBufferOffsetAlignment ? limits->minStorageBufferOffsetAlignment : 1;
    uint64_t most = limits->maxStorageBufferRange / alignment * alignment;
    uint64_t end = memory->buffer_offset + range->end;
    uint64_t begin = (memory->buffer_offset + range->begin + alignment - 1) / alignment * alignment;
    for (; begin + 4 <= end; begin += most) {
        VkDescriptorSet set;
        ROTA_TRY(take_set(device, run, &set));
        VkDescriptorBufferInfo info = {
            .buffer = memory->buffer, .offset = begin, .range = end - begin < most ? end - begin : most};
        VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = set,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      .pBufferInfo = &info};
        device->vk.UpdateDescriptorSets(device->handle, 1, &write, 0, NULL);
        uint32_t enabled = 0;
        device->vk.CmdBindPipeline(buffer, VK_PIPELINE_BIND_POINT_COMPUTE, device->touch.pipelines[kind]);
        device->vk.CmdBindDescriptorSets(buffer, VK_PIPELINE_BIND_POINT_COMPUTE,
                                         device->touch.pipeline_layout, 0, 1, &set, 0, NULL);
        device->vk.CmdPushConstants(buffer, device->touch.pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4,
                                    &enabled);
        device->vk.CmdDispatch(buffer, 1, 1, 1);
    }
    return ROTA_OK;
}

static bool touched_as_write(const rota_exec_command *command, uint8_t mode) {
    if (mode == ROTA_ACCUMULATE && command->kind == ROTA_EXEC_COMMAND_KERNEL)
        return (command->u.kernel.kernel->flags & ROTA_KERNEL_ATOMIC_ACCUMULATE) == 0;
    return mode != ROTA_READ;
}

rota_status rota_vk_touch_record(rota_vk_device *device, rota_vk_run *run, VkCommandBuffer buffer,
                                 const rota_exec_program_desc *desc, const rota_exec_command *command,
                                 rota_vk_memory *const *memories) {
    const rota_exec_operand *operands = desc->operands + command->first_operand;
    touch_set sets[2] = {{.count = 0}, {.count = 0}}; /* read, written */
    for (uint32_t pass = 2; pass-- > 0;)
        for (uint32_t i = 0; i < command->operand_count; i++) {
            const rota_exec_operand *operand = &operands[i];
            if (operand->is_slot || touched_as_write(command, operand->mode) != (pass == 1)) continue;
            touch_range range = {.memory = operand->memory,
                                 .begin = operand->offset_bytes,
                                 .end = operand->offset_bytes + operand->size_bytes};
            if (pass == 1)
                add_written(&sets[1], range);
            else
                add_read(&sets[0], &sets[1], range);
        }
    /* Reads overlap one another harmlessly. */
    for (uint32_t kind = 0; kind < 2; kind++)
        for (uint32_t i = 0; i < sets[kind].count; i++)
            ROTA_TRY(touch_range_record(device, run, buffer, memories[sets[kind].ranges[i].memory],
                                        &sets[kind].ranges[i], kind));
    return ROTA_OK;
}
