/* Devices of the application's are opened: a VkDevice, a CUDA context. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_LIFE_APPLICATION_H
#define ROTA_SCHED_RUNTIME_LIFE_APPLICATION_H

#include "sched/embed.h"
#include "sched/runtime/life/device_open.h"

/* As rota_device_open_vulkan and rota_device_open_cuda, with what is given not NULL. `trials`: as
 * rota_device_open_tried's. */
rota_status rota_device_open_vulkan_tried(rota_runtime *runtime, const rota_vulkan_device *vulkan,
                                          const rota_trials *trials, rota_device **out_device);
rota_status rota_device_open_cuda_tried(rota_runtime *runtime, const rota_cuda_context *cuda,
                                        const rota_trials *trials, rota_device **out_device);

#endif
