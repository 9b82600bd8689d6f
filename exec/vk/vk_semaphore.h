/* Timeline semaphores of the application's: see vk_semaphore.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_SEMAPHORE_H
#define ROTA_EXEC_VK_VK_SEMAPHORE_H

#include <stdbool.h>
#include "exec/exec.h"

typedef struct rota_vk_device rota_vk_device;

void rota_vk_semaphore_adopt(rota_exec_device *device, rota_exec_semaphore *semaphore);
rota_status rota_vk_semaphore_import(rota_exec_device *device, int fd, void **out_handle);
rota_status rota_vk_semaphore_export(rota_exec_device *device, void *handle, int *out_fd);
void rota_vk_semaphore_look(rota_exec_device *device);
rota_status rota_vk_semaphore_signal(rota_exec_device *device, void *handle, uint64_t value);

/* The completion thread's: looks at those that somebody waits for. How long it may sleep until it looks again; 0: until
 * it is told to. */
uint64_t rota_vk_semaphores_watch(rota_vk_device *device);
/* How long it may be in the driver, or nap, at a time, where nobody can tell it that one is wanted or to be signalled;
 * 0: as it likes. */
uint64_t rota_vk_semaphores_slice(const rota_vk_device *device);
/* The completion thread's last, when the device is closed: close itself enters no driver for them. False: somebody is
 * still at one of them, and close waits no longer. */
bool rota_vk_semaphores_forget(rota_vk_device *device);

#endif
