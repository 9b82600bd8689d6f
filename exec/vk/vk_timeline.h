/* Timelines that other drivers have too: see vk_timeline.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_TIMELINE_H
#define ROTA_EXEC_VK_VK_TIMELINE_H

#include "exec/exec.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;

rota_status rota_vk_timeline_create(rota_exec_device *device, int fd, rota_exec_timeline **out_timeline);
rota_status rota_vk_timeline_export(rota_exec_device *device, rota_exec_timeline *timeline, int *out_fd);
rota_status rota_vk_timeline_signal(rota_exec_device *device, rota_exec_timeline *timeline, uint64_t value);
VkSemaphore rota_vk_timeline_handle(const rota_exec_timeline *timeline);
/* Lets a semaphore reach the value, unless it has. */
rota_status rota_vk_timeline_raise(rota_vk_device *device, VkSemaphore semaphore, uint64_t value);
/* Of one that nobody was given yet. */
void rota_vk_timeline_destroy(rota_vk_device *device, rota_exec_timeline *timeline);
void rota_vk_timelines_free(rota_vk_device *device);

#endif
