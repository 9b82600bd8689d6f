/* Looking a physical device over, and creating the VkDevice with what it has. */
#include "exec/vk/vk_physical.h"
#include "exec/vk/vk_features.h"
#include "exec/vk/vk_image.h"
#include "exec/vk/vk_memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct extension_list {
    VkExtensionProperties *items;
    uint32_t count;
} extension_list;

static bool has(const extension_list *list, const char *name) {
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].extensionName, name) == 0) return true;
    return false;
}

static void missing_add(rota_device_info *info, const char *what) {
    size_t used = strlen(info->missing);
    snprintf(info->missing + used, sizeof info->missing - used, "%s%s", used ? ", " : "", what);
    info->usable = false;
}

/* llvmpipe's own limit, which no property tells. */
#define LLVMPIPE_TURNS_MAX 65535

static void driver_text(const VkPhysicalDeviceProperties *properties,
                        const VkPhysicalDeviceDriverProperties *driver, rota_device_info *info) {
    snprintf(info->driver, sizeof info->driver, "%.100s %.100s (Vulkan %u.%u.%u)", driver->driverName,
             driver->driverInfo, VK_API_VERSION_MAJOR(properties->apiVersion),
             VK_API_VERSION_MINOR(properties->apiVersion), VK_API_VERSION_PATCH(properties->apiVersion));
}

/* The compute family, preferring one with graphics (the general queue, on which drivers test most), and a
 * family for copies alone. */
static void pick_families(const rota_vk_instance *instance, rota_vk_physical *physical) {
    uint32_t count = 0;
    VkQueueFamilyProperties families[32];
    instance->vk.GetPhysicalDeviceQueueFamilyProperties(physical->handle, &count, NULL);
    if (count > 32) count = 32;
    instance->vk.GetPhysicalDeviceQueueFamilyProperties(physical->handle, &count, families);
    physical->compute_family = physical->transfer_family = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        VkQueueFlags flags = families[i].queueFlags;
        if (families[i].queueCount == 0) continue;
        if ((flags & VK_QUEUE_COMPUTE_BIT) && physical->compute_family == UINT32_MAX) {
            physical->compute_family = i;
            physical->timestamp_bits = families[i].timestampValidBits;
            physical->info.compute_queues = families[i].queueCount;
        }
        VkQueueFlags other = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
        if ((flags & VK_QUEUE_TRANSFER_BIT) && !(flags & other) && physical->transfer_family == UINT32_MAX) {
            physical->transfer_family = i;
            physical->info.transfer_queues = families[i].queueCount;
        }
    }
    if (physical->transfer_family == UINT32_MAX) physical->transfer_family = physical->compute_family;
}

/* Which of the cooperative-matrix shapes that rota's kernels use the device lists. */
static void query_matrices(const rota_vk_instance *instance, rota_vk_physical *physical, bool bfloat16) {
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR get =
        instance->vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
    uint32_t count = 0;
    if (!get || get(physical->handle, &count, NULL) < 0 || count == 0) return;
    VkCooperativeMatrixPropertiesKHR *shapes = calloc(count, sizeof *shapes);
    if (!shapes) return;
    for (uint32_t i = 0; i < count; i++)
        shapes[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    if (get(physical->handle, &count, shapes) < 0) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const VkCooperativeMatrixPropertiesKHR *s = &shapes[i];
        if (s->scope != VK_SCOPE_SUBGROUP_KHR || s->AType != s->BType ||
            s->CType != VK_COMPONENT_TYPE_FLOAT32_KHR || s->ResultType != VK_COMPONENT_TYPE_FLOAT32_KHR ||
            s->MSize != 16 || s->NSize != 16 || s->KSize != 16)
            continue;
        if (s->AType == VK_COMPONENT_TYPE_FLOAT16_KHR)
            physical->info.features |= ROTA_FEATURE_COOPERATIVE_MATRIX;
        if (bfloat16 && s->AType == VK_COMPONENT_TYPE_BFLOAT16_KHR)
            physical->info.features |= ROTA_FEATURE_COOPERATIVE_MATRIX_BF16;
    }
    free(shapes);
}

static bool calibrated_to_monotonic(const rota_vk_instance *instance, VkPhysicalDevice handle) {
    PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT get =
        instance->vk.GetPhysicalDeviceCalibrateableTimeDomainsEXT;
    VkTimeDomainEXT domains[16];
    uint32_t count = 16;
    if (!get || get(handle, &count, domains) < 0) return false;
    bool device = false, host = false;
    for (uint32_t i = 0; i < count; i++) {
        device = device || domains[i] == VK_TIME_DOMAIN_DEVICE_EXT;
        host = host || domains[i] == VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
    }
    return device && host;
}

/* What becomes of buffers like rota's in memory by such descriptors. */
static VkExternalMemoryProperties shared_buffers(const rota_vk_instance *instance, VkPhysicalDevice handle,
                                                 VkExternalMemoryHandleTypeFlagBits type) {
    VkPhysicalDeviceExternalBufferInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
        .usage = ROTA_VK_BUFFER_USAGE,
        .handleType = type,
    };
    VkExternalBufferProperties properties = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    instance->vk.GetPhysicalDeviceExternalBufferProperties(handle, &info, &properties);
    return properties.externalMemoryProperties;
}

/* Whether buffers like rota's can be made in memory that other drivers of the GPU use, and the other way
 * round. */
static bool shares_memory(const rota_vk_instance *instance, VkPhysicalDevice handle) {
    VkExternalMemoryFeatureFlags features =
        shared_buffers(instance, handle, VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT).externalMemoryFeatures;
    VkExternalMemoryFeatureFlags both =
        VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
    return (features & both) == both && !(features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT);
}

/* Memory that rota shares is exported by opaque descriptors, too: as a dma-buf only where one allocation may be
 * both. */
static void query_dma_bufs(const rota_vk_instance *instance, const extension_list *extensions,
                           rota_vk_physical *physical) {
    rota_vk_sharing *sharing = &physical->sharing;
    const bool by_fd = has(extensions, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
    sharing->dma_bufs = by_fd && has(extensions, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME);
    if (!sharing->dma_bufs) {
        sharing->no_dma_buf_export = sharing->no_dma_buf_import =
            by_fd ? "no " VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME
                  : "no " VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
        return;
    }
    const VkExternalMemoryHandleTypeFlagBits opaque = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
                                             dma_buf = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT;
    const VkExternalMemoryProperties is = shared_buffers(instance, physical->handle, dma_buf),
                                     beside = shared_buffers(instance, physical->handle, opaque);
    const bool is_alone = is.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
    const char *dedicated = "the driver has only dedicated allocations as dma-bufs";
    if (!(is.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT))
        sharing->no_dma_buf_import = "the driver imports no buffer's memory as one";
    else if (is_alone)
        sharing->no_dma_buf_import = dedicated;
    if (!(is.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT))
        sharing->no_dma_buf_export = "the driver exports no buffer's memory as one";
    else if (is_alone)
        sharing->no_dma_buf_export = dedicated;
    else if (!(is.compatibleHandleTypes & opaque) || !(beside.compatibleHandleTypes & dma_buf))
        sharing->no_dma_buf_export =
            "the driver has no memory that is exported both as one and by an opaque descriptor";
}

/* Whether timelines can be made that other drivers of the GPU wait for and signal. */
static bool makes_timelines(const rota_vk_instance *instance, VkPhysicalDevice handle) {
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkPhysicalDeviceExternalSemaphoreInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO,
        .pNext = &type,
        .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT,
    };
    VkExternalSemaphoreProperties properties = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    instance->vk.GetPhysicalDeviceExternalSemaphoreProperties(handle, &info, &properties);
    return properties.externalSemaphoreFeatures & VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT;
}

/* What there is to be used of a device that is made with `extensions`: of an application's, what it switched on. */
static void query_features(const rota_vk_instance *instance, const extension_list *extensions,
                           const VkDeviceCreateInfo *given, rota_vk_physical *physical) {
    rota_device_info *info = &physical->info;
    physical->subgroup_control_extension = has(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    physical->memory_budget = has(extensions, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    physical->calibrated_timestamps = has(extensions, VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME) &&
                                      calibrated_to_monotonic(instance, physical->handle);
    physical->cooperative_matrix = has(extensions, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    physical->bfloat16 = has(extensions, VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
    physical->cooperative_matrix_2 =
        physical->cooperative_matrix && has(extensions, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME);
    physical->binary_import = has(extensions, VK_NVX_BINARY_IMPORT_EXTENSION_NAME);
    if (physical->binary_import) info->features |= ROTA_FEATURE_CUDA_IMAGES;
    physical->sharing.memory = has(extensions, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) &&
                               shares_memory(instance, physical->handle);
    query_dma_bufs(instance, extensions, physical);
    physical->sharing.timelines = physical->sharing.memory &&
                                  has(extensions, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME) &&
                                  makes_timelines(instance, physical->handle);
    bool sync2 = physical->core13 || has(extensions, VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME);

    rota_vk_features chain;
    rota_vk_features_begin(physical, &chain);
    if (given)
        rota_vk_features_given(given, &chain);
    else
        instance->vk.GetPhysicalDeviceFeatures2(physical->handle, &chain.core);
    if (!chain.v12.timelineSemaphore) missing_add(info, "timelineSemaphore");
    if (!chain.v12.bufferDeviceAddress) missing_add(info, "bufferDeviceAddress");
    if (!sync2 || !chain.sync2.synchronization2) missing_add(info, "synchronization2");
    if (!chain.core.features.shaderInt64) missing_add(info, "shaderInt64");
    if (!chain.v12.scalarBlockLayout) missing_add(info, "scalarBlockLayout");

    /* Kernels for such storage have arithmetic of its width, too: a driver has both, an application may not. */
    if (given && !chain.core.features.shaderInt16) chain.v11.storageBuffer16BitAccess = VK_FALSE;
    if (given && !chain.v12.shaderInt8) chain.v12.storageBuffer8BitAccess = VK_FALSE;

    physical->host_query_reset = chain.v12.hostQueryReset;
    physical->bytes_8bit = chain.v12.storageBuffer8BitAccess;
    if (chain.v11.storageBuffer16BitAccess) info->features |= ROTA_FEATURE_F16_STORAGE;
    if (chain.v12.shaderFloat16) info->features |= ROTA_FEATURE_F16_ARITHMETIC;
    if (chain.v12.shaderBufferInt64Atomics) info->features |= ROTA_FEATURE_INT64_ATOMICS;
    if (chain.core.features.shaderFloat64) info->features |= ROTA_FEATURE_F64;
    if (chain.v12.storageBuffer8BitAccess) info->features |= ROTA_FEATURE_INT8_STORAGE;
    if (chain.subgroup.subgroupSizeControl &&
        (physical->subgroup.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT))
        info->features |= ROTA_FEATURE_SUBGROUP_SIZE_CONTROL;
    if (chain.matrix.cooperativeMatrix && chain.v12.vulkanMemoryModel)
        query_matrices(instance, physical, chain.bfloat16.shaderBFloat16CooperativeMatrix);
    if (chain.matrix2.cooperativeMatrixWorkgroupScope && chain.matrix2.cooperativeMatrixTensorAddressing &&
        chain.matrix2.cooperativeMatrixPerElementOperations)
        info->features |= ROTA_FEATURE_COOPERATIVE_MATRIX_2;
}

static extension_list extensions_of(const rota_vk_instance *instance, VkPhysicalDevice handle) {
    extension_list list = {0};
    if (instance->vk.EnumerateDeviceExtensionProperties(handle, NULL, &list.count, NULL) < 0) list.count = 0;
    list.items = calloc(list.count ? list.count : 1, sizeof *list.items);
    if (!list.items ||
        instance->vk.EnumerateDeviceExtensionProperties(handle, NULL, &list.count, list.items) < 0)
        list.count = 0;
    return list;
}

/* Those that an application made its device with. */
static extension_list extensions_given(const VkDeviceCreateInfo *given) {
    extension_list list = {.count = given->enabledExtensionCount};
    list.items = calloc(list.count ? list.count : 1, sizeof *list.items);
    if (!list.items) list.count = 0;
    for (uint32_t i = 0; i < list.count; i++)
        (void)snprintf(list.items[i].extensionName, sizeof list.items[i].extensionName, "%s",
                       given->ppEnabledExtensionNames[i]);
    return list;
}

static void query_memory(const rota_vk_instance *instance, rota_vk_physical *physical) {
    VkPhysicalDeviceMemoryProperties2 memory = {.sType =
                                                    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    instance->vk.GetPhysicalDeviceMemoryProperties2(physical->handle, &memory);
    physical->memory = memory.memoryProperties;
    for (uint32_t i = 0; i < physical->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &physical->memory.memoryHeaps[i];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap->size > physical->info.memory_bytes)
            physical->info.memory_bytes = heap->size;
    }
}

/* What the device says of itself beyond Vulkan 1.0, in structs that it may know. */
static void query_properties(const rota_vk_instance *instance, const extension_list *extensions,
                             rota_vk_physical *physical) {
    rota_device_info *info = &physical->info;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sms = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                               .pNext = &id};
    VkPhysicalDeviceMaintenance3Properties limits = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &driver};
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &limits};
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &subgroup};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    if (has(extensions, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) id.pNext = &sms;
    physical->subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    if (physical->core13 || has(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
        physical->subgroup.pNext = properties.pNext;
        properties.pNext = &physical->subgroup;
    }
    bool on_pci = has(extensions, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    if (on_pci) {
        pci.pNext = properties.pNext;
        properties.pNext = &pci;
    }
    if (has(extensions, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) {
        host.pNext = properties.pNext;
        properties.pNext = &host;
    }
    instance->vk.GetPhysicalDeviceProperties2(physical->handle, &properties);
    physical->sharing.host_alignment = host.minImportedHostPointerAlignment;
    physical->subgroup.pNext = NULL;
    if (on_pci)
        snprintf(physical->pci, sizeof physical->pci, "%04x:%02x:%02x.%x", pci.pciDomain, pci.pciBus,
                 pci.pciDevice, pci.pciFunction);
    memcpy(physical->cache_uuid, properties.properties.pipelineCacheUUID, VK_UUID_SIZE);
    memcpy(physical->uuid, id.deviceUUID, VK_UUID_SIZE);
    driver_text(&physical->properties, &driver, info);
    if (driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE) {
        physical->turns_max = LLVMPIPE_TURNS_MAX;
        physical->queries_wait = true; /* seen in Mesa 22.3 */
    }
    info->max_allocation_bytes = limits.maxMemoryAllocationSize;
    info->compute_units = sms.shaderSMCount;
    info->subgroup_size = subgroup.subgroupSize;
    info->max_push_constant_bytes = physical->properties.limits.maxPushConstantsSize;
}

void rota_vk_physical_query(const rota_vk_instance *instance, VkPhysicalDevice handle, uint32_t index,
                            const VkDeviceCreateInfo *given, rota_vk_physical *physical) {
    memset(physical, 0, sizeof *physical);
    physical->handle = handle;
    rota_device_info *info = &physical->info;
    snprintf(info->id, sizeof info->id, "vk:%u", index);
    info->kind = ROTA_EXEC_VK;
    info->usable = true;

    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    instance->vk.GetPhysicalDeviceProperties2(handle, &properties);
    physical->properties = properties.properties;
    snprintf(info->name, sizeof info->name, "%s", physical->properties.deviceName);
    const bool is_software = physical->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    info->device_class = is_software ? ROTA_DEVICE_SOFTWARE_GPU : ROTA_DEVICE_GPU;
    uint32_t version = physical->properties.apiVersion;
    if (version < VK_API_VERSION_1_2) {
        snprintf(info->missing, sizeof info->missing, "Vulkan 1.2 (it has %u.%u)",
                 VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
        info->usable = false;
        return;
    }
    physical->core13 = version >= VK_API_VERSION_1_3 && instance->api_version >= VK_API_VERSION_1_3;
    extension_list extensions = extensions_of(instance, handle);
    query_properties(instance, &extensions, physical);
    query_memory(instance, physical);
    pick_families(instance, physical);
    if (physical->compute_family == UINT32_MAX) missing_add(info, "a compute queue");
    if (given) {
        free(extensions.items);
        extensions = extensions_given(given);
        if (!has(&extensions, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME))
            physical->sharing.host_alignment = 0;
    }
    query_features(instance, &extensions, given, physical);
    free(extensions.items);
}

enum { EXTENSIONS_MAX = 16 };

static uint32_t choose_extensions(const rota_vk_physical *physical, const char **extensions) {
    uint32_t count = 0;
    if (!physical->core13) extensions[count++] = VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME;
    if (!physical->core13 && physical->subgroup_control_extension)
        extensions[count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (physical->memory_budget) extensions[count++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    if (physical->calibrated_timestamps) extensions[count++] = VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME;
    if (physical->cooperative_matrix) extensions[count++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (physical->bfloat16) extensions[count++] = VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME;
    if (physical->cooperative_matrix_2) extensions[count++] = VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME;
    if (physical->binary_import) extensions[count++] = VK_NVX_BINARY_IMPORT_EXTENSION_NAME;
    if (physical->sharing.memory || physical->sharing.dma_bufs)
        extensions[count++] = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
    if (physical->sharing.dma_bufs) extensions[count++] = VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME;
    if (physical->sharing.timelines) extensions[count++] = VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME;
    if (physical->sharing.host_alignment) extensions[count++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    return count;
}

rota_status rota_vk_physical_open(const rota_vk_instance *instance, const rota_vk_physical *physical,
                                  VkDevice *out_device) {
    rota_vk_features have, want; /* asked again, and what rota may use left on */
    rota_vk_features_begin(physical, &have);
    instance->vk.GetPhysicalDeviceFeatures2(physical->handle, &have.core);
    rota_vk_features_choose(physical, &have, &want);
    const char *extensions[EXTENSIONS_MAX];
    const uint32_t count = choose_extensions(physical, extensions);
    float priority = 1.0f;
    VkDeviceQueueCreateInfo queues[2];
    for (uint32_t i = 0; i < 2; i++)
        queues[i] = (VkDeviceQueueCreateInfo){
            .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
            .queueFamilyIndex = i == 0 ? physical->compute_family : physical->transfer_family,
            .queueCount = 1,
            .pQueuePriorities = &priority,
        };
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &want.core,
        .queueCreateInfoCount = physical->transfer_family == physical->compute_family ? 1 : 2,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = count,
        .ppEnabledExtensionNames = extensions,
    };
    rota_vk_cuda_lock();
    VkResult result = instance->vk.CreateDevice(physical->handle, &info, NULL, out_device);
    rota_vk_cuda_unlock();
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateDevice");
    return ROTA_OK;
}
