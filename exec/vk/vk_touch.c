/* Touch mode (tests): each kernel is recorded as dispatches that touch its declared ranges through storage
 * descriptors, to read or to read and write, so that synchronization validation, which cannot see accesses
 * through device addresses, judges the plan's barriers. One dispatch per range and no barrier between those
 * of one command; of ranges that overlap inside a command the written one stands for both. A range starts at
 * the next multiple of minStorageBufferOffsetAlignment (16 bytes on most devices): a finer one is not seen
 * whole.
 *
 * What is in argument slots has an address only when a submission brings it: such an instance is recorded
 * when it is submitted with other arguments than before.
 *
 * ACCUMULATEs of atomic kernels may overlap one another in time and with nothing else, which neither a read
 * nor a write says. They are touched as reads, which makes them conflict with writes; and each (a *sum*) has
 * a word of its own, which it writes and everything that reads its range reads too.
 *
 * Two things are as they are for the layer's sake. WRITE ranges are read as well: it does not report a write
 * after a write where both are a shader's through descriptors, taking them for updates that do not overlap.
 * And each segment begins with a read of memory that was made last: of an access that reaches beyond all that
 * it has seen so far it forgets the part beyond (seen in 1.3.239).
 *
 * The data stay as they are: nothing is really read or written, so results in touch mode mean nothing. */
#include "exec/vk/vk_touch.h"

#if ROTA_TEST_HOOKS
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_pipeline.h"
#include "exec/vk/vk_record.h"
#include "spv/vk_touch.h"
#include "spv/vk_touch_write.h"
#include <stdlib.h>
#include <string.h>

#define SETS_PER_POOL 256u
#define WORD_BYTES 256u /* a multiple of every device's minStorageBufferOffsetAlignment */

typedef struct touch_range {
    const rota_vk_memory *memory;
    uint64_t begin, end;
} touch_range;

/* A command's ranges with overlaps resolved. Twice the operands bound how many pieces there can be of each.
 */
typedef struct touch_set {
    touch_range ranges[3 * UINT8_MAX];
    uint32_t count;
} touch_set;

/* ---- The device's part ---- */

static rota_status make_layouts(rota_vk_device *device) {
    rota_vk_touch *touch = &device->touch;
    VkDescriptorSetLayoutBinding bindings[2];
    for (uint32_t i = 0; i < 2; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                .bindingCount = 2,
                                                .pBindings = bindings};
    VkResult result = device->vk.CreateDescriptorSetLayout(device->handle, &set_info,
                                                           device->application.allocator, &touch->set_layout);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateDescriptorSetLayout");
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = 4};
    VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                              .setLayoutCount = 1,
                                              .pSetLayouts = &touch->set_layout,
                                              .pushConstantRangeCount = 1,
                                              .pPushConstantRanges = &range};
    result = device->vk.CreatePipelineLayout(device->handle, &layout_info, device->application.allocator,
                                             &touch->pipeline_layout);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkCreatePipelineLayout");
}

static rota_status make_pipeline(rota_vk_device *device, const uint32_t *words, size_t size_bytes,
                                 VkPipeline *out_pipeline) {
    const rota_vk_shader shader = {.words = words, .size_bytes = size_bytes, .entry = "main"};
    const char *call;
    const VkResult result =
        rota_vk_compute_pipeline(device, &shader, device->touch.pipeline_layout, out_pipeline, &call);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, call);
}

rota_status rota_vk_touch_open(rota_vk_device *device) {
    VkPipeline *pipelines = device->touch.pipelines;
    ROTA_TRY(make_layouts(device));
    ROTA_TRY(make_pipeline(device, rota_spv_vk_touch, sizeof rota_spv_vk_touch, &pipelines[0]));
    return make_pipeline(device, rota_spv_vk_touch_write, sizeof rota_spv_vk_touch_write, &pipelines[1]);
}

void rota_vk_touch_close(rota_vk_device *device) {
    rota_vk_touch *touch = &device->touch;
    for (uint32_t i = 0; i < 2; i++)
        if (touch->pipelines[i])
            device->vk.DestroyPipeline(device->handle, touch->pipelines[i], device->application.allocator);
    if (touch->pipeline_layout)
        device->vk.DestroyPipelineLayout(device->handle, touch->pipeline_layout,
                                         device->application.allocator);
    if (touch->set_layout)
        device->vk.DestroyDescriptorSetLayout(device->handle, touch->set_layout,
                                              device->application.allocator);
    memset(touch, 0, sizeof *touch);
}

/* ---- An instance's part ---- */

static bool is_sum(const rota_exec_command *command, const rota_exec_operand *operand) {
    return operand->mode == ROTA_ACCUMULATE && command->kind == ROTA_EXEC_COMMAND_KERNEL &&
           (command->u.kernel.kernel->flags & ROTA_KERNEL_ATOMIC_ACCUMULATE);
}

rota_status rota_vk_touch_run_create(rota_vk_recorded *recorded, const rota_vk_memory *const *memories) {
    const rota_exec_program_desc *desc = recorded->program->desc;
    rota_vk_touch_run *touch = &recorded->touch;
    uint32_t sums = 0, copies = 0;
    for (uint32_t c = 0; c < desc->command_count; c++) {
        const rota_exec_command *command = &desc->commands[c];
        copies += command->kind == ROTA_EXEC_COMMAND_COPY && !recorded->program->dispatches[c].pipeline;
        for (uint32_t i = 0; i < command->operand_count; i++) {
            const rota_exec_operand *operand = &desc->operands[command->first_operand + i];
            touch->has_slots = touch->has_slots || operand->is_slot;
            sums += is_sum(command, operand);
        }
    }
    touch->memories = calloc(desc->memory_count + 1, sizeof *touch->memories);
    touch->sums = calloc(sums + 1, sizeof *touch->sums);
    if (!touch->memories || !touch->sums)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for the touch mode");
    for (uint32_t i = 0; i < desc->memory_count; i++) touch->memories[i] = memories[i];
    touch->word_count = sums * (1 + copies) + 1;
    return ROTA_OK;
}

void rota_vk_touch_run_free(rota_vk_device *device, rota_vk_recorded *recorded) {
    rota_vk_touch_run *touch = &recorded->touch;
    for (uint32_t i = 0; i < touch->pool_count; i++)
        device->vk.DestroyDescriptorPool(device->handle, touch->pools[i], device->application.allocator);
    free(touch->pools);
    free(touch->sums);
    free(touch->memories);
    if (touch->words) rota_vk_memory_destroy(&device->base, touch->words);
}

/* The device's memory that holds [address, address + size). */
static const rota_vk_memory *memory_at(rota_vk_device *device, uint64_t address, uint64_t size_bytes) {
    const rota_vk_memory *found = NULL;
    pthread_mutex_lock(&device->objects.lock);
    for (rota_link *link = device->objects.memories.next; link != &device->objects.memories && !found;
         link = link->next) {
        const rota_vk_memory *memory =
            (const rota_vk_memory *)((char *)link - offsetof(rota_vk_memory, link));
        uint64_t base = memory->base.address, bytes = memory->base.size_bytes;
        if (address >= base && address - base <= bytes && size_bytes <= bytes - (address - base))
            found = memory;
    }
    pthread_mutex_unlock(&device->objects.lock);
    return found;
}

static rota_status resolve(rota_vk_device *device, const rota_vk_recorded *recorded,
                           const rota_exec_operand *operand, touch_range *out_range) {
    touch_range range = {.begin = operand->offset_bytes};
    if (operand->is_slot) {
        uint64_t address = recorded->block_copy[operand->memory] + operand->offset_bytes;
        range.memory = memory_at(device, address, operand->size_bytes);
        if (!range.memory)
            return rota_fail(ROTA_OUT_OF_RANGE, "program '%s': argument word %u leads to no memory of %s",
                             recorded->program->desc->name, operand->memory, device->base.info.id);
        range.begin = address - range.memory->base.address;
    } else {
        range.memory = recorded->touch.memories[operand->memory];
    }
    range.end = range.begin + operand->size_bytes;
    *out_range = range;
    return ROTA_OK;
}

rota_status rota_vk_touch_begin(rota_vk_device *device, rota_vk_recorded *recorded) {
    const rota_exec_program_desc *desc = recorded->program->desc;
    rota_vk_touch_run *touch = &recorded->touch;
    for (uint32_t i = 0; i < touch->pools_used; i++) {
        VkResult result = device->vk.ResetDescriptorPool(device->handle, touch->pools[i], 0);
        if (result != VK_SUCCESS) return rota_vk_fail(result, "vkResetDescriptorPool");
    }
    touch->pools_used = touch->sets_left = touch->sum_count = 0;
    if (touch->words) rota_vk_memory_destroy(&device->base, touch->words);
    touch->words = NULL;
    ROTA_TRY(rota_vk_memory_create(&device->base, (uint64_t)touch->word_count * WORD_BYTES,
                                   ROTA_EXEC_MEMORY_DEVICE, "touch mode", &touch->words));
    for (uint32_t c = 0; c < desc->command_count; c++) {
        const rota_exec_command *command = &desc->commands[c];
        for (uint32_t i = 0; i < command->operand_count; i++) {
            const rota_exec_operand *operand = &desc->operands[command->first_operand + i];
            touch_range range;
            if (!is_sum(command, operand)) continue;
            ROTA_TRY(resolve(device, recorded, operand, &range));
            touch->sums[touch->sum_count++] =
                (rota_vk_touch_sum){range.memory, range.begin, range.end, command->first_operand + i};
        }
    }
    touch->words_used = touch->sum_count;
    return ROTA_OK;
}

/* A set from the newest pool, or of the next one when that is used up. */
static rota_status take_set(rota_vk_device *device, rota_vk_touch_run *touch, VkDescriptorSet *out_set) {
    if (touch->sets_left == 0 && touch->pools_used == touch->pool_count) {
        VkDescriptorPool *pools = realloc(touch->pools, (touch->pool_count + 1) * sizeof *pools);
        if (!pools) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for touch-mode descriptors");
        touch->pools = pools;
        VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                     .descriptorCount = 2 * SETS_PER_POOL};
        VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                           .maxSets = SETS_PER_POOL,
                                           .poolSizeCount = 1,
                                           .pPoolSizes = &size};
        VkResult result = device->vk.CreateDescriptorPool(
            device->handle, &info, device->application.allocator, &pools[touch->pool_count]);
        if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateDescriptorPool");
        touch->pool_count++;
    }
    if (touch->sets_left == 0) {
        touch->pools_used++;
        touch->sets_left = SETS_PER_POOL;
    }
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = touch->pools[touch->pools_used - 1],
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &device->touch.set_layout};
    VkResult result = device->vk.AllocateDescriptorSets(device->handle, &info, out_set);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkAllocateDescriptorSets");
    touch->sets_left--;
    return ROTA_OK;
}

/* ---- Recording ---- */

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

static rota_status touch(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer,
                         const touch_range *range, bool write) {
    const VkPhysicalDeviceLimits *limits = &device->physical.properties.limits;
    uint64_t alignment =
        limits->minStorageBufferOffsetAlignment ? limits->minStorageBufferOffsetAlignment : 1;
    uint64_t most = limits->maxStorageBufferRange / alignment * alignment;
    uint64_t end = range->memory->buffer_offset + range->end;
    uint64_t begin = (range->memory->buffer_offset + range->begin + alignment - 1) / alignment * alignment;
    for (; begin + 4 <= end; begin += most) {
        VkDescriptorSet set;
        ROTA_TRY(take_set(device, &recorded->touch, &set));
        VkDescriptorBufferInfo info = {.buffer = range->memory->buffer,
                                       .offset = begin,
                                       .range = end - begin < most ? end - begin : most};
        VkWriteDescriptorSet writes[2];
        for (uint32_t i = 0; i < 2; i++)
            writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                               .dstSet = set,
                                               .dstBinding = i,
                                               .descriptorCount = 1,
                                               .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                               .pBufferInfo = &info};
        device->vk.UpdateDescriptorSets(device->handle, 2, writes, 0, NULL);
        uint32_t enabled = 0;
        device->vk.CmdBindPipeline(buffer, VK_PIPELINE_BIND_POINT_COMPUTE, device->touch.pipelines[write]);
        device->vk.CmdBindDescriptorSets(buffer, VK_PIPELINE_BIND_POINT_COMPUTE,
                                         device->touch.pipeline_layout, 0, 1, &set, 0, NULL);
        device->vk.CmdPushConstants(buffer, device->touch.pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4,
                                    &enabled);
        device->vk.CmdDispatch(buffer, 1, 1, 1);
    }
    return ROTA_OK;
}

static touch_range word_of(const rota_vk_touch_run *touch, uint32_t index) {
    uint64_t begin = (uint64_t)index * WORD_BYTES;
    return (touch_range){.memory = (const rota_vk_memory *)touch->words, .begin = begin, .end = begin + 4};
}

/* The first sum from `index` on that the range meets; sum_count: none. */
static uint32_t next_sum(const rota_vk_touch_run *touch, const touch_range *range, uint32_t index) {
    for (; index < touch->sum_count; index++) {
        const rota_vk_touch_sum *sum = &touch->sums[index];
        if (sum->memory == range->memory && sum->begin < range->end && range->begin < sum->end) break;
    }
    return index;
}

/* Writes the word of a sum, or reads those of the sums that a READ meets. */
static rota_status touch_words(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer,
                               uint32_t operand, bool sum, const touch_range *range) {
    const rota_vk_touch_run *touched = &recorded->touch;
    for (uint32_t s = next_sum(touched, range, 0); s < touched->sum_count;
         s = next_sum(touched, range, s + 1)) {
        if (sum && touched->sums[s].operand != operand) continue;
        touch_range word = word_of(touched, s);
        ROTA_TRY(touch(device, recorded, buffer, &word, sum));
    }
    return ROTA_OK;
}

rota_status rota_vk_touch_segment(rota_vk_device *device, rota_vk_recorded *recorded,
                                  VkCommandBuffer buffer) {
    touch_range last = word_of(&recorded->touch, recorded->touch.word_count - 1);
    return touch(device, recorded, buffer, &last, false);
}

rota_status rota_vk_touch_record(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer,
                                 const rota_exec_command *command) {
    const rota_exec_operand *operands = recorded->program->desc->operands + command->first_operand;
    touch_set reads = {.count = 0}, written = {.count = 0};
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < command->operand_count; i++) {
            bool sum = is_sum(command, &operands[i]), read = sum || operands[i].mode == ROTA_READ;
            touch_range range;
            if (read != (pass == 1)) continue;
            ROTA_TRY(resolve(device, recorded, &operands[i], &range));
            if (!read) {
                add_written(&written, range);
                continue;
            }
            add_read(&reads, &written, range);
            ROTA_TRY(touch_words(device, recorded, buffer, command->first_operand + i, sum, &range));
        }
    /* Reads overlap one another harmlessly. */
    for (uint32_t i = 0; i < reads.count; i++)
        ROTA_TRY(touch(device, recorded, buffer, &reads.ranges[i], false));
    for (uint32_t i = 0; i < written.count; i++)
        ROTA_TRY(touch(device, recorded, buffer, &written.ranges[i], true));
    return ROTA_OK;
}

rota_status rota_vk_touch_count(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer,
                                const rota_exec_operand *operand, uint32_t block_word) {
    const rota_vk_block *block = &recorded->block;
    touch_range read,
        words = {.memory = block->memory, .begin = block->offset_bytes + 8 * (uint64_t)block_word};
    ROTA_TRY(resolve(device, recorded, operand, &read));
    ROTA_TRY(touch(device, recorded, buffer, &read, false));
    ROTA_TRY(touch_words(device, recorded, buffer, UINT32_MAX, false, &read));
    words.begin += offsetof(rota_vk_count_words, groups);
    words.end = words.begin + sizeof(VkDispatchIndirectCommand);
    return touch(device, recorded, buffer, &words, true);
}

rota_status rota_vk_touch_copied(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer,
                                 const rota_exec_command *command) {
    rota_vk_touch_run *touch = &recorded->touch;
    touch_range source;
    ROTA_TRY(
        resolve(device, recorded, &recorded->program->desc->operands[command->first_operand + 1], &source));
    for (uint32_t s = next_sum(touch, &source, 0); s < touch->sum_count;
         s = next_sum(touch, &source, s + 1)) {
        touch_range from = word_of(touch, s), to = word_of(touch, touch->words_used++);
        VkBufferCopy region = {.srcOffset = from.memory->buffer_offset + from.begin,
                               .dstOffset = to.memory->buffer_offset + to.begin,
                               .size = 4};
        device->vk.CmdCopyBuffer(buffer, from.memory->buffer, to.memory->buffer, 1, &region);
    }
    return ROTA_OK;
}

#endif
