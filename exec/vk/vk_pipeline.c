/* Compute pipelines, one per SPIR-V module, slot masks, specialization values and subgroup size, kept by the
 * device until it closes. */
#include "exec/vk/vk_pipeline.h"
#include "exec/vk/vk_spirv.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_names.h"
#include "exec/vk/vk_loss.h"
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "exec/vk/vk_interface.h"
#include "exec/vk/vk_spirv_tools.h"

static uint64_t hash_words(uint64_t hash, const uint32_t *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static const char *entry_of(const rota_kernel *kernel) {
    return kernel->vk.entry ? kernel->vk.entry : "main";
}

static uint64_t key_hash(const rota_vk_pipeline_key *key) {
    const rota_kernel *kernel = key->kernel;
    const char *entry = entry_of(kernel);
    uint64_t hash = hash_words(ROTA_HASH_BEGIN, kernel->vk.words, kernel->vk.size_bytes / 4);
    hash = rota_hash_text(hash, entry);
    hash = hash_words(hash, key->spec, kernel->vk.spec_count);
    const uint32_t rest[] = {key->slot_mask, key->bind_mask, kernel->vk.subgroup_size, kernel->vk.spec_count};
    return hash_words(hash, rest, 4);
}

static bool key_equal(const rota_vk_pipeline *p, uint64_t hash, const rota_vk_pipeline_key *key) {
    const rota_kernel *kernel = key->kernel;
    return p->hash == hash && p->size_bytes == kernel->vk.size_bytes && p->slot_mask == key->slot_mask &&
           p->bind_mask == key->bind_mask && p->subgroup_size == kernel->vk.subgroup_size &&
           p->spec_count == kernel->vk.spec_count &&
           memcmp(p->spec, key->spec, (size_t)p->spec_count * 4) == 0 &&
           strcmp(p->entry, entry_of(kernel)) == 0 && memcmp(p->words, kernel->vk.words, p->size_bytes) == 0;
}

static void pipeline_free(rota_vk_device *device, rota_vk_pipeline *pipeline) {
    if (pipeline->handle)
        device->vk.DestroyPipeline(device->handle, pipeline->handle, device->application.allocator);
    free(pipeline->words);
    free(pipeline->entry);
    free(pipeline);
}

VkResult rota_vk_compute_pipeline(const rota_vk_device *device, const rota_vk_shader *shader,
                                  VkPipelineLayout layout, VkPipeline *out_pipeline, const char **out_call) {
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = shader->subgroup_size};
    const VkShaderModuleCreateInfo module_info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                                  .codeSize = shader->size_bytes,
                                                  .pCode = shader->words};
    VkShaderModule module;
    *out_call = "vkCreateShaderModule";
    VkResult result =
        device->vk.CreateShaderModule(device->handle, &module_info, device->application.allocator, &module);
    if (result != VK_SUCCESS) return result;
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = shader->subgroup_size ? &subgroup : NULL,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = shader->entry,
                  .pSpecializationInfo = shader->specialization},
        .layout = layout,
    };
    *out_call = "vkCreateComputePipelines";
    result = device->vk.CreateComputePipelines(device->handle, device->compiled.cache, 1, &info,
                                               device->application.allocator, out_pipeline);
    device->vk.DestroyShaderModule(device->handle, module, device->application.allocator);
    return result;
}

/* The driver's part, with the specialization. */
static rota_status build(rota_vk_device *device, const rota_vk_pipeline_key *key,
                         rota_vk_pipeline *pipeline) {
    const rota_kernel *kernel = key->kernel;
    uint32_t values[2 + ROTA_KERNEL_SPEC_MAX] = {key->slot_mask, key->bind_mask};
    VkSpecializationMapEntry entries[2 + ROTA_KERNEL_SPEC_MAX];
    uint32_t count = 2 + kernel->vk.spec_count;
    memcpy(values + 2, key->spec, (size_t)kernel->vk.spec_count * 4);
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = i * 4, .size = 4};
    const VkSpecializationInfo specialization = {
        .mapEntryCount = count, .pMapEntries = entries, .dataSize = (size_t)count * 4, .pData = values};
    const rota_vk_shader shader = {kernel->vk.words, kernel->vk.size_bytes, entry_of(kernel), &specialization,
                                   kernel->vk.subgroup_size};
    const char *call;
    const VkResult result =
        rota_vk_compute_pipeline(device, &shader, device->layout, &pipeline->handle, &call);
    if (result == VK_ERROR_DEVICE_LOST) return rota_vk_lose(device, result, call);
    if (result != VK_SUCCESS) return rota_vk_fail(result, call);
    rota_vk_name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipeline->handle, "%s", kernel->name);
    return ROTA_OK;
}

/* Before the driver sees it. */
static rota_status check_spirv(const rota_vk_device *device, const rota_kernel *kernel) {
    rota_status status = rota_spirv_check(kernel->vk.words, kernel->vk.size_bytes, entry_of(kernel));
    if (status == ROTA_OK)
        status = rota_spirv_check_interface(kernel->vk.words, kernel->vk.size_bytes, kernel->operand_count,
                                            kernel->param_bytes);
    if (status == ROTA_OK)
        status =
            rota_spirv_validate(&device->host.log, kernel->name, kernel->vk.words, kernel->vk.size_bytes);
    return status == ROTA_OK ? ROTA_OK : rota_fail_context(status, "kernel '%s', its SPIR-V: ", kernel->name);
}

static rota_status pipeline_new(rota_vk_device *device, const rota_vk_pipeline_key *key, uint64_t hash,
                                rota_vk_pipeline **out_pipeline) {
    const rota_kernel *kernel = key->kernel;
    ROTA_TRY(check_spirv(device, kernel));
    rota_vk_pipeline *pipeline = calloc(1, sizeof *pipeline);
    rota_status status = ROTA_OK;
    if (pipeline) {
        pipeline->words = malloc(kernel->vk.size_bytes);
        pipeline->entry = strdup(entry_of(kernel));
    }
    if (!pipeline || !pipeline->words || !pipeline->entry) {
        status =
            rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for the pipeline of kernel '%s'", kernel->name);
    } else {
        pipeline->hash = hash;
        pipeline->size_bytes = kernel->vk.size_bytes;
        pipeline->slot_mask = key->slot_mask;
        pipeline->bind_mask = key->bind_mask;
        pipeline->subgroup_size = kernel->vk.subgroup_size;
        pipeline->spec_count = kernel->vk.spec_count;
        memcpy(pipeline->spec, key->spec, (size_t)kernel->vk.spec_count * 4);
        memcpy(pipeline->words, kernel->vk.words, kernel->vk.size_bytes);
        status = build(device, key, pipeline);
        if (status != ROTA_OK) rota_fail_context(status, "kernel '%s': ", kernel->name);
    }
    if (status != ROTA_OK) {
        if (pipeline) pipeline_free(device, pipeline);
        return status;
    }
    *out_pipeline = pipeline;
    return ROTA_OK;
}

rota_status rota_vk_pipeline_get(rota_vk_device *device, const rota_vk_pipeline_key *key,
                                 const rota_vk_pipeline **out_pipeline) {
    uint64_t hash = key_hash(key);
    pthread_mutex_lock(&device->compiled.lock);
    rota_vk_pipeline **bucket = &device->compiled.pipelines[hash % ROTA_VK_PIPELINE_BUCKETS];
    rota_vk_pipeline *pipeline = *bucket;
    while (pipeline && !key_equal(pipeline, hash, key)) pipeline = pipeline->next;
    rota_status status = ROTA_OK;
    if (!pipeline) {
        status = pipeline_new(device, key, hash, &pipeline);
        if (status == ROTA_OK) {
            pipeline->next = *bucket;
            *bucket = pipeline;
            device->compiled.cache_dirty = true;
        }
    }
    pthread_mutex_unlock(&device->compiled.lock);
    if (status == ROTA_OK) *out_pipeline = pipeline;
    return status;
}

void rota_vk_pipelines_free(rota_vk_device *device) {
    for (uint32_t i = 0; i < ROTA_VK_PIPELINE_BUCKETS; i++)
        while (device->compiled.pipelines[i]) {
            rota_vk_pipeline *pipeline = device->compiled.pipelines[i];
            device->compiled.pipelines[i] = pipeline->next;
            pipeline_free(device, pipeline);
        }
}
