/* Diagnostics: see vk_times.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_TIMES_H
#define ROTA_EXEC_VK_VK_TIMES_H

#include <stdbool.h>
#include "exec/exec.h"

typedef struct rota_vk_device rota_vk_device;

rota_status rota_vk_times(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out);
bool rota_vk_stuck_node(rota_exec_device *device, rota_exec_instance *instance, rota_exec_stuck *out_stuck);
/* The completion thread's, while nothing completes: notes for rota_vk_stuck_node what each instance is at. */
void rota_vk_look_for_stuck(rota_vk_device *device);

#endif
