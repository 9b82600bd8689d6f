/* The table of devices, and what each is. */
#include <stdio.h>

#include "base/atomic.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

const rota_device_info *rota_device_get_info(const rota_device *device) {
    return device ? &device->info : NULL;
}
rota_runtime *rota_device_runtime(const rota_device *device) {
    return device ? device->runtime : NULL;
}
void rota_runtime_name_devices(const rota_runtime *runtime, char *text, size_t capacity) {
    uint32_t devices = ra_load_acquire(&runtime->device_count); /* with the release of who opened the last */
    size_t length = 0;
    text[0] = 0;
    for (uint32_t d = 0; d < devices && length < capacity; d++)
        length += (size_t)snprintf(text + length, capacity - length, "%s'%s'", d ? ", " : "",
                                   runtime->devices[d]->id);
}
rota_exec_device *rota_device_exec(const rota_device *device) {
    return device->exec;
}
