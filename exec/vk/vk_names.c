/* Names for tools, by VK_EXT_debug_utils. */
#include "exec/vk/vk_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "exec/common/names.h"
#include "exec/vk/vk_device.h"

bool rota_vk_names_there(const rota_vk_global *global) {
    uint32_t count = 0;
    if (global->EnumerateInstanceExtensionProperties(NULL, &count, NULL) != VK_SUCCESS || count == 0)
        return false;
    VkExtensionProperties *extensions = calloc(count, sizeof *extensions);
    if (!extensions) return false;
    bool found = false;
    if (global->EnumerateInstanceExtensionProperties(NULL, &count, extensions) >= 0)
        for (uint32_t i = 0; i < count; i++)
            found = found || strcmp(extensions[i].extensionName, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) == 0;
    free(extensions);
    return found;
}

void rota_vk_name(rota_vk_device *device, VkObjectType type, uint64_t handle, const char *format, ...) {
    if (!device->instance.names) return;
    char text[ROTA_NAME_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    VkDebugUtilsObjectNameInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                          .objectType = type,
                                          .objectHandle = handle,
                                          .pObjectName = text};
    /* Nothing but the tool's view depends on it. */
    (void)device->instance.vk.SetDebugUtilsObjectNameEXT(device->handle, &info);
}

static void begin(rota_vk_device *device, VkCommandBuffer buffer, const char *text) {
    VkDebugUtilsLabelEXT label = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, .pLabelName = text};
    device->instance.vk.CmdBeginDebugUtilsLabelEXT(buffer, &label);
}

void rota_vk_label_segment(rota_vk_device *device, VkCommandBuffer buffer, const rota_exec_program_desc *desc,
                           uint32_t segment) {
    if (!device->instance.names) return;
    char text[ROTA_NAME_MAX_BYTES];
    rota_segment_text(desc, segment, text);
    begin(device, buffer, text);
    rota_vk_name(device, VK_OBJECT_TYPE_COMMAND_BUFFER, (uint64_t)(uintptr_t)buffer, "%s", text);
}

void rota_vk_label_node(rota_vk_device *device, VkCommandBuffer buffer, const rota_exec_program_desc *desc,
                        const rota_exec_command *command) {
    if (!device->instance.names) return;
    char text[ROTA_NAME_MAX_BYTES];
    rota_node_text(&device->host, desc, command, text);
    begin(device, buffer, text);
}

void rota_vk_label_end(rota_vk_device *device, VkCommandBuffer buffer) {
    if (device->instance.names) device->instance.vk.CmdEndDebugUtilsLabelEXT(buffer);
}
