/* Names for tools (RenderDoc, Nsight), by VK_EXT_debug_utils: of nodes, as labels around their commands, and of
 * objects. Internal to exec/vk.
 *
 * Only where rota_exec_open_options.debug_names asks for them and the extension is there (rota_vk_instance.names); else
 * each call is a look at that word. All are made while programs and memories are, none while works are submitted. */
#ifndef ROTA_EXEC_VK_VK_NAMES_H
#define ROTA_EXEC_VK_VK_NAMES_H

#include <stdbool.h>
#include "exec/exec.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;

/* Whether the loader, or a layer that is on by itself, has the extension. */
bool rota_vk_names_there(const rota_vk_global *global);

/* What an object is called from now on; `handle` is its value. */
void rota_vk_name(rota_vk_device *device, VkObjectType type, uint64_t handle, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Around a segment's commands, and around a node's. */
void rota_vk_label_segment(rota_vk_device *device, VkCommandBuffer buffer, const rota_exec_program_desc *desc,
                           uint32_t segment);
void rota_vk_label_node(rota_vk_device *device, VkCommandBuffer buffer, const rota_exec_program_desc *desc,
                        const rota_exec_command *command);
void rota_vk_label_end(rota_vk_device *device, VkCommandBuffer buffer);

#endif
