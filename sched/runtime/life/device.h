/* Devices from their making to where they are tried. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_LIFE_DEVICE_H
#define ROTA_SCHED_RUNTIME_LIFE_DEVICE_H

#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/runtime.h"

/* Where a device comes from. */
typedef struct rota_device_source {
    const rota_driver_entry *entry;
    uint32_t index;                   /* within the driver; or the application's: */
    const rota_vulkan_device *vulkan; /* borrowed */
    const rota_cuda_context *cuda;    /* borrowed */
} rota_device_source;

/* Makes the runtime's struct of a driver's device, opens its executor and starts its threads. The device is not
 * visible yet: nobody gets it by its id before it has passed its trials. With opening.mutex held. OUT_OF_RANGE,
 * OUT_OF_MEMORY, and as the driver's open; nothing is left then but what the driver abandoned. May block in drivers. */
rota_status rota_device_start(rota_runtime *runtime, const rota_device_source *source,
                              const rota_device_info *info, rota_device **out_device);

void rota_device_free(rota_device *device);

#endif
