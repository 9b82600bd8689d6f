/* A VkDevice for its compiler alone. */
#include "tests/ops/offline_device.h"

#include <stdio.h>
#include <string.h>

#include "exec/vk/vk_features.h"

static bool has_extension(const offline_device *device, const char *name) {
    static VkExtensionProperties found[1024];
    uint32_t count = sizeof found / sizeof *found;
    if (device->instance.vk.EnumerateDeviceExtensionProperties(device->physical.handle, NULL, &count, found) <
        0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(found[i].extensionName, name) == 0) return true;
    return false;
}

/* As vk_physical.c opens one, with what is asked of pipelines besides. */
static rota_status make_device(offline_device *device) {
    const rota_vk_physical *physical = &device->physical;
    rota_vk_features have, want;
    rota_vk_features_begin(physical, &have);
    device->instance.vk.GetPhysicalDeviceFeatures2(physical->handle, &have.core);
    rota_vk_features_choose(physical, &have, &want);
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR told = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = &want.core,
        .pipelineExecutableInfo = VK_TRUE};
    const char *extensions[8] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
    uint32_t count = 1;
    if (!physical->core13) extensions[count++] = VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME;
    if (!physical->core13 && physical->subgroup_control_extension)
        extensions[count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (physical->cooperative_matrix) extensions[count++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (physical->bfloat16) extensions[count++] = VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME;
    if (physical->cooperative_matrix_2) extensions[count++] = VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME;
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = physical->compute_family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &told,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = count,
                               .ppEnabledExtensionNames = extensions};
    VkResult result = device->instance.vk.CreateDevice(physical->handle, &info, NULL, &device->handle);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkCreateDevice");
}

static rota_status make_layout(offline_device *device) {
    const uint32_t most = 8 + 8 * ROTA_KERNEL_OPERANDS_MAX + ROTA_KERNEL_PARAM_BYTES_MAX;
    const uint32_t limit = device->physical.properties.limits.maxPushConstantsSize;
    device->push_bytes = limit < most ? limit : most;
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = device->push_bytes};
    VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .pushConstantRangeCount = 1,
                                       .pPushConstantRanges = &range};
    VkResult result = device->vk.CreatePipelineLayout(device->handle, &info, NULL, &device->layout);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkCreatePipelineLayout");
}

static rota_status open_first(offline_device *device) {
    VkPhysicalDevice handles[1];
    uint32_t count = 0;
    ROTA_TRY(rota_vk_physical_list(&device->instance, handles, 1, &count));
    if (!count) return rota_fail(ROTA_UNSUPPORTED, "the drivers have no device");
    rota_vk_physical_query(&device->instance, handles[0], 0, NULL, &device->physical);
    const rota_device_info *info = &device->physical.info;
    (void)snprintf(device->name, sizeof device->name, "%.63s", info->name);
    if (!info->usable) return rota_fail(ROTA_UNSUPPORTED, "%s lacks %s", info->name, info->missing);
    if (!has_extension(device, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME))
        return rota_fail(ROTA_UNSUPPORTED, "%s has no " VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
                         info->name);
    ROTA_TRY(make_device(device));
    ROTA_TRY(rota_vk_device_load(&device->instance.vk, device->handle, &device->vk));
    device->executables = (PFN_vkGetPipelineExecutablePropertiesKHR)device->instance.vk.GetDeviceProcAddr(
        device->handle, "vkGetPipelineExecutablePropertiesKHR");
    device->statistics = (PFN_vkGetPipelineExecutableStatisticsKHR)device->instance.vk.GetDeviceProcAddr(
        device->handle, "vkGetPipelineExecutableStatisticsKHR");
    if (!device->executables || !device->statistics)
        return rota_fail(ROTA_UNSUPPORTED, "%s has no vkGetPipelineExecutableStatisticsKHR", info->name);
    return make_layout(device);
}

rota_status rota_offline_open(offline_device *out_device) {
    memset(out_device, 0, sizeof *out_device);
    ROTA_TRY(rota_vk_instance_open(NULL, false, &out_device->instance));
    const rota_status status = open_first(out_device);
    if (status != ROTA_OK) rota_offline_close(out_device);
    return status;
}

void rota_offline_close(offline_device *device) {
    if (device->layout) device->vk.DestroyPipelineLayout(device->handle, device->layout, NULL);
    if (device->handle && device->vk.DestroyDevice) device->vk.DestroyDevice(device->handle, NULL);
    rota_vk_instance_close(&device->instance);
    device->handle = VK_NULL_HANDLE;
    device->layout = VK_NULL_HANDLE;
}

bool rota_offline_runs(const offline_device *device, const rota_kernel *kernel) {
    const uint32_t size = kernel->vk.subgroup_size;
    const VkPhysicalDeviceSubgroupSizeControlProperties *subgroup = &device->physical.subgroup;
    if (kernel->vk.required_features & ~device->physical.info.features) return false;
    return !size || (size >= subgroup->minSubgroupSize && size <= subgroup->maxSubgroupSize);
}

/* ---- What the compiler says, by the names that each driver has for it ---- */

static void take(const char *name, uint64_t value, offline_result *result) {
    static const struct {
        const char *name;
        size_t offset;
        uint32_t unit;
    } known[] = {
#define SAYS(text, field, unit) {text, offsetof(offline_result, field), unit},
        /* RADV */
        SAYS("VGPRs", registers, 1) SAYS("SGPRs", scalar_registers, 1) SAYS("Spilled SGPRs", spilled, 1)
            SAYS("Spilled VGPRs", spilled, 1) SAYS("Scratch size", scratch_bytes, 1)
                SAYS("LDS size", shared_bytes, 1) SAYS("Code size", code_bytes, 1)
        /* ANV */
        SAYS("Max live registers", registers, 1) SAYS("Spill Count", spilled, 1)
            SAYS("Scratch Memory Size", scratch_bytes, 1) SAYS("Workgroup Memory Size", shared_bytes, 1)
                SAYS("Instruction Count", code_bytes, 16)
        /* NVIDIA */
        SAYS("Register Count", registers, 1) SAYS("Local Memory Size", scratch_bytes, 1)
            SAYS("Shared Memory Size", shared_bytes, 1) SAYS("Binary Size", code_bytes, 1)
#undef SAYS
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        uint64_t *field = (uint64_t *)(void *)((char *)result + known[i].offset);
        *field += value * known[i].unit;
    }
}

static rota_status ask(const offline_device *device, VkPipeline pipeline, offline_result *result) {
    VkPipelineInfoKHR which = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    uint32_t count = 0;
    VkResult status = device->executables(device->handle, &which, &count, NULL);
    if (status != VK_SUCCESS) return rota_vk_fail(status, "vkGetPipelineExecutablePropertiesKHR");
    if (count == 0) return rota_fail(ROTA_SYSTEM, "the driver says that the pipeline has no code");
    /* Of several, as an Intel GPU has for several widths, the last is the widest. */
    VkPipelineExecutableInfoKHR executable = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                              .pipeline = pipeline,
                                              .executableIndex = count - 1};
    VkPipelineExecutableStatisticKHR said[64];
    for (uint32_t i = 0; i < 64; i++)
        said[i] =
            (VkPipelineExecutableStatisticKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    count = 64;
    status = device->statistics(device->handle, &executable, &count, said);
    if (status < 0) return rota_vk_fail(status, "vkGetPipelineExecutableStatisticsKHR");
    for (uint32_t i = 0; i < count; i++)
        if (said[i].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR)
            take(said[i].name, said[i].value.u64, result);
    return ROTA_OK;
}

rota_status rota_offline_compile(const offline_device *device, const offline_pipeline *made,
                                 offline_result *out_result) {
    const rota_kernel *kernel = made->kernel;
    const uint32_t count = 2 + kernel->vk.spec_count,
                   push_bytes = 8 + 8 * kernel->operand_count + kernel->param_bytes;
    if (push_bytes > device->push_bytes)
        return rota_fail(ROTA_UNSUPPORTED, "%u bytes of push constants, of %u", push_bytes,
                         device->push_bytes);
    VkSpecializationMapEntry entries[2 + ROTA_KERNEL_SPEC_MAX];
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = i * 4, .size = 4};
    VkSpecializationInfo specialization = {
        .mapEntryCount = count, .pMapEntries = entries, .dataSize = (size_t)count * 4, .pData = made->spec};
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = kernel->vk.subgroup_size};
    VkShaderModuleCreateInfo module_info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                            .codeSize = kernel->vk.size_bytes,
                                            .pCode = kernel->vk.words};
    VkShaderModule module;
    VkResult result = device->vk.CreateShaderModule(device->handle, &module_info, NULL, &module);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateShaderModule");
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = kernel->vk.subgroup_size ? &subgroup : NULL,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = kernel->vk.entry ? kernel->vk.entry : "main",
                  .pSpecializationInfo = &specialization},
        .layout = device->layout,
    };
    VkPipeline pipeline;
    result = device->vk.CreateComputePipelines(device->handle, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
    device->vk.DestroyShaderModule(device->handle, module, NULL);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateComputePipelines");
    const rota_status status = ask(device, pipeline, out_result);
    device->vk.DestroyPipeline(device->handle, pipeline, NULL);
    return status;
}
