/* Opening the Vulkan loader and filling the function tables. */
#include "exec/vk/vk_loader.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static rota_vk_global loaded;
static char load_error[256];

/* A function pointer out of a data pointer: what dlsym needs and ISO C has no cast for. */
static PFN_vkVoidFunction symbol(void *library, const char *name) {
    void *address = dlsym(library, name);
    PFN_vkVoidFunction function;
    memcpy(&function, &address, sizeof function);
    return function;
}

static void load(void) {
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        (void)snprintf(load_error, sizeof load_error, "%s", reason ? reason : "unknown reason");
        return;
    }
    rota_vk_global table;
    table.GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)symbol(library, "vkGetInstanceProcAddr");
    if (!table.GetInstanceProcAddr) {
        (void)snprintf(load_error, sizeof load_error, "libvulkan.so.1 has no vkGetInstanceProcAddr");
        return;
    }
#define ROTA_VK_LOAD(name)                                                                                   \
    table.name = (PFN_vk##name)table.GetInstanceProcAddr(VK_NULL_HANDLE, "vk" #name);                        \
    if (!table.name) {                                                                                       \
        (void)snprintf(load_error, sizeof load_error, "libvulkan.so.1 has no vk" #name);                     \
        return;                                                                                              \
    }
    ROTA_VK_GLOBAL_FUNCTIONS(ROTA_VK_LOAD)
#undef ROTA_VK_LOAD
    loaded = table;
    /* One bare instance stays as long as the process: with the last one the loader unloads all drivers, which
     * costs tens of milliseconds at the next open and which not every driver survives. Failure shows when a
     * real one is made. */
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application};
    static VkInstance kept;
    if (table.CreateInstance(&info, NULL, &kept) != VK_SUCCESS) kept = VK_NULL_HANDLE;
}

rota_status rota_vk_global_get(const rota_vk_global **out_global) {
    pthread_once(&load_once, load);
    if (!loaded.GetInstanceProcAddr)
        return rota_fail(ROTA_UNSUPPORTED, "the Vulkan loader could not be opened: %s", load_error);
    *out_global = &loaded;
    return ROTA_OK;
}

rota_status rota_vk_instance_load(const rota_vk_global *global, VkInstance instance,
                                  rota_vk_instance_table *out_table) {
#define ROTA_VK_LOAD(name)                                                                                   \
    out_table->name = (PFN_vk##name)global->GetInstanceProcAddr(instance, "vk" #name);                       \
    if (!out_table->name) return rota_fail(ROTA_UNSUPPORTED, "the Vulkan instance has no vk" #name);
    ROTA_VK_INSTANCE_FUNCTIONS(ROTA_VK_LOAD)
#undef ROTA_VK_LOAD
#define ROTA_VK_LOAD(name) out_table->name = (PFN_vk##name)global->GetInstanceProcAddr(instance, "vk" #name);
    ROTA_VK_INSTANCE_OPTIONAL(ROTA_VK_LOAD)
#undef ROTA_VK_LOAD
    return ROTA_OK;
}

rota_status rota_vk_device_load(const rota_vk_instance_table *instance, VkDevice device,
                                rota_vk_table *out_table) {
#define ROTA_VK_LOAD(name)                                                                                   \
    out_table->name = (PFN_vk##name)instance->GetDeviceProcAddr(device, "vk" #name);                         \
    if (!out_table->name) return rota_fail(ROTA_UNSUPPORTED, "the Vulkan device has no vk" #name);
    ROTA_VK_DEVICE_FUNCTIONS(ROTA_VK_LOAD)
#undef ROTA_VK_LOAD
#define ROTA_VK_LOAD(name)                                                                                   \
    out_table->name = (PFN_vk##name##KHR)instance->GetDeviceProcAddr(device, "vk" #name);                    \
    if (!out_table->name)                                                                                    \
        out_table->name = (PFN_vk##name##KHR)instance->GetDeviceProcAddr(device, "vk" #name "KHR");          \
    if (!out_table->name) return rota_fail(ROTA_UNSUPPORTED, "the Vulkan device has no vk" #name);
    ROTA_VK_SYNC2_FUNCTIONS(ROTA_VK_LOAD)
#undef ROTA_VK_LOAD
#define ROTA_VK_LOAD(name) out_table->name = (PFN_vk##name)instance->GetDeviceProcAddr(device, "vk" #name);
    ROTA_VK_DEVICE_OPTIONAL(ROTA_VK_LOAD)
#undef ROTA_VK_LOAD
    return ROTA_OK;
}

const char *rota_vk_result_name(VkResult result) {
    switch (result) {
#define ROTA_VK_RESULT(name)                                                                                 \
    case name:                                                                                               \
        return #name;
        ROTA_VK_RESULT(VK_SUCCESS)
        ROTA_VK_RESULT(VK_NOT_READY)
        ROTA_VK_RESULT(VK_TIMEOUT)
        ROTA_VK_RESULT(VK_INCOMPLETE)
        ROTA_VK_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY)
        ROTA_VK_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        ROTA_VK_RESULT(VK_ERROR_INITIALIZATION_FAILED)
        ROTA_VK_RESULT(VK_ERROR_DEVICE_LOST)
        ROTA_VK_RESULT(VK_ERROR_MEMORY_MAP_FAILED)
        ROTA_VK_RESULT(VK_ERROR_LAYER_NOT_PRESENT)
        ROTA_VK_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT)
        ROTA_VK_RESULT(VK_ERROR_FEATURE_NOT_PRESENT)
        ROTA_VK_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER)
        ROTA_VK_RESULT(VK_ERROR_TOO_MANY_OBJECTS)
        ROTA_VK_RESULT(VK_ERROR_FRAGMENTED_POOL)
        ROTA_VK_RESULT(VK_ERROR_OUT_OF_POOL_MEMORY)
        ROTA_VK_RESULT(VK_ERROR_INVALID_EXTERNAL_HANDLE)
        ROTA_VK_RESULT(VK_ERROR_INVALID_SHADER_NV)
        ROTA_VK_RESULT(VK_ERROR_UNKNOWN)
#undef ROTA_VK_RESULT
    default:
        return "a Vulkan error without a name here";
    }
}

rota_status rota_vk_fail(VkResult result, const char *what) {
    rota_status status = ROTA_SYSTEM;
    if (result == VK_ERROR_DEVICE_LOST) status = ROTA_DEVICE_LOST;
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
        result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_TOO_MANY_OBJECTS)
        status = ROTA_OUT_OF_MEMORY;
    return rota_fail(status, "%s: %s (%d)", what, rota_vk_result_name(result), (int)result);
}
