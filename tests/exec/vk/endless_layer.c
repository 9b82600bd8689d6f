/* A Vulkan layer for tests: of the shader modules that a process makes, those after the first
 * ROTA_TEST_ENDLESS (an environment variable) become a kernel that never ends, as a fault in somebody's own
 * would. Once there is one, the process's exit handlers wait for the device for ever, as NVIDIA's do. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include "spv/test_endless.h"

#define EXPORT __attribute__((visibility("default")))

/* The next layer's functions are the same for every instance and device. */
static PFN_vkGetInstanceProcAddr next_instance_proc;
static PFN_vkGetDeviceProcAddr next_device_proc;
static PFN_vkCreateShaderModule next_create_shader_module;
static _Atomic long modules;

/* Instances by their dispatch tables, which their physical devices have too; the newest counts. */
static VkInstance instances[64];
static void *tables[64];
static uint32_t instance_count;

static void *table_of(const void *handle) {
    void *table;
    memcpy(&table, handle, sizeof table);
    return table;
}

static void wait_for_the_device(void) {
    for (;;) (void)pause();
}

static VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device,
                                                           const VkShaderModuleCreateInfo *info,
                                                           const VkAllocationCallbacks *callbacks,
                                                           VkShaderModule *out) {
    const char *text = getenv("ROTA_TEST_ENDLESS");
    if (!text || atomic_fetch_add(&modules, 1) < strtol(text, NULL, 10))
        return next_create_shader_module(device, info, callbacks, out);
    static atomic_flag waits = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&waits)) (void)atexit(wait_for_the_device);
    VkShaderModuleCreateInfo endless = *info;
    endless.codeSize = sizeof rota_spv_test_endless;
    endless.pCode = rota_spv_test_endless;
    return next_create_shader_module(device, &endless, callbacks, out);
}

/* The link to the next layer, in the loader's chain. */
static VkLayerInstanceCreateInfo *instance_link(const VkInstanceCreateInfo *info) {
    VkLayerInstanceCreateInfo *link = NULL;
    memcpy(&link, &info->pNext, sizeof link);
    while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO &&
                     link->function == VK_LAYER_LINK_INFO))
        memcpy(&link, &link->pNext, sizeof link);
    return link;
}

static VkLayerDeviceCreateInfo *device_link(const VkDeviceCreateInfo *info) {
    VkLayerDeviceCreateInfo *link = NULL;
    memcpy(&link, &info->pNext, sizeof link);
    while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO &&
                     link->function == VK_LAYER_LINK_INFO))
        memcpy(&link, &link->pNext, sizeof link);
    return link;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *callbacks,
                                                      VkInstance *out) {
    VkLayerInstanceCreateInfo *link = instance_link(info);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    next_instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    PFN_vkCreateInstance next = (PFN_vkCreateInstance)next_instance_proc(NULL, "vkCreateInstance");
    VkResult result = next(info, callbacks, out);
    if (result != VK_SUCCESS) return result;
    if (instance_count == sizeof instances / sizeof *instances) return VK_ERROR_INITIALIZATION_FAILED;
    instances[instance_count] = *out;
    tables[instance_count++] = table_of(*out);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkDevice *out) {
    VkLayerDeviceCreateInfo *link = device_link(info);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    next_device_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    uint32_t i = instance_count;
    while (i > 0 && tables[i - 1] != table_of(physical)) i--;
    if (i == 0) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkCreateDevice next = (PFN_vkCreateDevice)instance_proc(instances[i - 1], "vkCreateDevice");
    VkResult result = next(physical, info, callbacks, out);
    if (result == VK_SUCCESS)
        next_create_shader_module = (PFN_vkCreateShaderModule)next_device_proc(*out, "vkCreateShaderModule");
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char *name) {
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)get_device_proc;
    if (strcmp(name, "vkCreateShaderModule") == 0) return (PFN_vkVoidFunction)create_shader_module;
    return next_device_proc ? next_device_proc(device, name) : NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char *name) {
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)get_instance_proc;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)get_device_proc;
    if (strcmp(name, "vkCreateInstance") == 0) return (PFN_vkVoidFunction)create_instance;
    if (strcmp(name, "vkCreateDevice") == 0) return (PFN_vkVoidFunction)create_device;
    if (strcmp(name, "vkCreateShaderModule") == 0) return (PFN_vkVoidFunction)create_shader_module;
    return next_instance_proc ? next_instance_proc(instance, name) : NULL;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *negotiated) {
    if (negotiated->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    negotiated->loaderLayerInterfaceVersion = 2;
    negotiated->pfnGetInstanceProcAddr = get_instance_proc;
    negotiated->pfnGetDeviceProcAddr = get_device_proc;
    negotiated->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
