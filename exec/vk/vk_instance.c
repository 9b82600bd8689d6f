/* The VkInstance: layers, the validation messenger, and the driver's list of devices. */
#include "exec/vk/vk_instance.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_names.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"

/* Counts and keeps what the validation layer says. Called from any thread inside a Vulkan call. */
static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *user) {
    rota_vk_device *device = user;
    const char *text = data->pMessage ? data->pMessage : "";
    if ((types & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT) == 0) {
        rota_log_write(&device->host.log, ROTA_LOG_DEBUG, "%s: Vulkan: %s", device->base.info.id, text);
        return VK_FALSE;
    }
    ra_fetch_add_relaxed(&device->messages.count, 1);
    pthread_mutex_lock(&device->messages.lock);
    snprintf(device->messages.last, sizeof device->messages.last, "%s", text);
    pthread_mutex_unlock(&device->messages.lock);
    bool error = (severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT) != 0;
    rota_log_write(&device->host.log, error ? ROTA_LOG_ERROR : ROTA_LOG_WARNING, "%s: Vulkan validation: %s",
                   device->base.info.id, text);
    return VK_FALSE;
}

static VkDebugUtilsMessengerCreateInfoEXT messenger_info(rota_vk_device *device) {
    return (VkDebugUtilsMessengerCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType =
            VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = device,
    };
}

/* Keeps the layer's library loaded for good: leak reports of the tests then name it. Not finding it is
 * harmless. */
static void pin_layer(void) {
    (void)dlopen("libVkLayer_khronos_validation.so", RTLD_NOW | RTLD_NODELETE | RTLD_LOCAL);
}

static bool layer_installed(const rota_vk_global *global) {
    uint32_t count = 0;
    if (global->EnumerateInstanceLayerProperties(&count, NULL) != VK_SUCCESS || count == 0) return false;
    VkLayerProperties *layers = calloc(count, sizeof *layers);
    if (!layers) return false;
    bool found = false;
    if (global->EnumerateInstanceLayerProperties(&count, layers) >= 0)
        for (uint32_t i = 0; i < count; i++)
            found = found || strcmp(layers[i].layerName, VALIDATION_LAYER) == 0;
    free(layers);
    return found;
}

/* `messenger`: NULL without the validation layer. */
static rota_status create(rota_vk_instance *instance, const VkDebugUtilsMessengerCreateInfoEXT *messenger) {
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "rota",
        .pEngineName = "rota",
        .engineVersion = VK_MAKE_API_VERSION(0, ROTA_VERSION_MAJOR, ROTA_VERSION_MINOR, ROTA_VERSION_PATCH),
        .apiVersion = instance->api_version,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    const char *layers[] = {VALIDATION_LAYER};
    const char *extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = messenger,
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = enabled,
    };
    if (messenger) {
        pin_layer();
        info.pNext = &features;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = layers;
        info.enabledExtensionCount = 2;
        info.ppEnabledExtensionNames = extensions;
    } else if (instance->names) {
        info.enabledExtensionCount = 1; /* the first */
        info.ppEnabledExtensionNames = extensions;
    }
    VkResult result = instance->global->CreateInstance(&info, NULL, &instance->handle);
    if (result != VK_SUCCESS) {
        rota_vk_fail(result, "vkCreateInstance");
        return result == VK_ERROR_INCOMPATIBLE_DRIVER
                   ? rota_fail(ROTA_UNSUPPORTED,
                               "no Vulkan driver is installed (VK_ERROR_INCOMPATIBLE_DRIVER)")
                   : ROTA_UNSUPPORTED;
    }
    return ROTA_OK;
}

rota_status rota_vk_instance_open(rota_vk_device *device, bool validation, rota_vk_instance *out_instance) {
    rota_vk_instance instance = {0};
    ROTA_TRY(rota_vk_global_get(&instance.global));
    uint32_t loader_version = VK_API_VERSION_1_0;
    VkResult result = instance.global->EnumerateInstanceVersion(&loader_version);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkEnumerateInstanceVersion");
    if (loader_version < VK_API_VERSION_1_2)
        return rota_fail(ROTA_UNSUPPORTED, "the Vulkan loader is version %u.%u; rota needs 1.2",
                         VK_API_VERSION_MAJOR(loader_version), VK_API_VERSION_MINOR(loader_version));
    instance.api_version = loader_version >= VK_API_VERSION_1_3 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_2;
    instance.validation = validation && device && layer_installed(instance.global);
    if (validation && !instance.validation && device)
        rota_log_write(&device->host.log, ROTA_LOG_WARNING,
                       "validation was asked for, but " VALIDATION_LAYER " is not installed");

    instance.names = device && device->options.debug_names && rota_vk_names_there(instance.global);
    VkDebugUtilsMessengerCreateInfoEXT messenger = {0};
    if (instance.validation) messenger = messenger_info(device);
    ROTA_TRY(create(&instance, instance.validation ? &messenger : NULL));
    rota_status status = rota_vk_instance_load(instance.global, instance.handle, &instance.vk);
    if (status == ROTA_OK && instance.validation) {
        if (!instance.vk.CreateDebugUtilsMessengerEXT || !instance.vk.DestroyDebugUtilsMessengerEXT)
            status = rota_fail(ROTA_UNSUPPORTED, "the validation layer has no VK_EXT_debug_utils");
        else if ((result = instance.vk.CreateDebugUtilsMessengerEXT(
                      instance.handle, &messenger, NULL, &device->messages.messenger)) != VK_SUCCESS)
            status = rota_vk_fail(result, "vkCreateDebugUtilsMessengerEXT");
    }
    instance.names = instance.names && instance.vk.SetDebugUtilsObjectNameEXT &&
                     instance.vk.CmdBeginDebugUtilsLabelEXT && instance.vk.CmdEndDebugUtilsLabelEXT;
    if (device && device->options.debug_names && !instance.names)
        rota_log_write(
            &device->host.log, ROTA_LOG_WARNING,
            "names for tools were asked for, but Vulkan has no " VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    if (status != ROTA_OK) {
        if (instance.vk.DestroyInstance) instance.vk.DestroyInstance(instance.handle, NULL);
        return status;
    }
    *out_instance = instance;
    return ROTA_OK;
}

void rota_vk_instance_close(rota_vk_instance *instance) {
    if (instance->handle) instance->vk.DestroyInstance(instance->handle, NULL);
    instance->handle = VK_NULL_HANDLE;
}

rota_status rota_vk_physical_list(const rota_vk_instance *instance, VkPhysicalDevice *out_handles,
                                  uint32_t capacity, uint32_t *out_count) {
    uint32_t count = 0;
    VkResult result = instance->vk.EnumeratePhysicalDevices(instance->handle, &count, NULL);
    if (result < 0) return rota_vk_fail(result, "vkEnumeratePhysicalDevices");
    *out_count = count;
    uint32_t wanted = count < capacity ? count : capacity;
    if (wanted == 0) return ROTA_OK;
    result = instance->vk.EnumeratePhysicalDevices(instance->handle, &wanted, out_handles);
    if (result < 0) return rota_vk_fail(result, "vkEnumeratePhysicalDevices");
    return ROTA_OK;
}

uint64_t rota_vk_validation_messages(rota_exec_device *base, char *out_text, size_t text_bytes) {
    rota_vk_device *device = (rota_vk_device *)base;
    if (out_text && text_bytes > 0) {
        pthread_mutex_lock(&device->messages.lock);
        snprintf(out_text, text_bytes, "%s", device->messages.last);
        pthread_mutex_unlock(&device->messages.lock);
    }
    return ra_load_relaxed(&device->messages.count);
}

bool rota_vk_validation_active(rota_exec_device *base) {
    return ((rota_vk_device *)base)->instance.validation;
}
