/* The table of devices, and what each is. */
#include <stdio.h>
#include <stdlib.h>

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

rota_status rota_device_open_gate(rota_device *device) {
    if (ra_load_acquire(&device->gate.is_open)) return ROTA_OK; /* with the release below */
    (void)pthread_mutex_lock(&device->gate.mutex);
    if (!device->gate.works) device->gate.works = calloc(ROTA_GATE_WORKS, sizeof *device->gate.works);
    const bool is_open = device->gate.works != NULL;
    if (is_open) ra_store_release(&device->gate.is_open, 1);
    (void)pthread_mutex_unlock(&device->gate.mutex);
    return is_open ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "device '%s': no host memory", device->id);
}
