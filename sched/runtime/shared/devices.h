/* The table of devices. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_DEVICES_H
#define ROTA_SCHED_RUNTIME_SHARED_DEVICES_H

#include <stddef.h>
#include "exec/exec.h"
#include "sched/runtime.h"

rota_exec_device *rota_device_exec(const rota_device *device);
/* "'cpu', 'vk:0'": the runtime's open devices, for messages; cut to the capacity. */
void rota_runtime_name_devices(const rota_runtime *runtime, char *text, size_t capacity);

#endif
