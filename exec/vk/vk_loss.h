/* A device that is lost: see vk_loss.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_LOSS_H
#define ROTA_EXEC_VK_VK_LOSS_H

#include "base/status.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;

/* Marks the device lost (once; calls host.lost) and returns DEVICE_LOST with the sentence. */
rota_status rota_vk_lose(rota_vk_device *device, VkResult result, const char *what);

#endif
