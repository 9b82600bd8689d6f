/* Executors: how their devices are listed and opened (exec.h). Internal; not installed. */
#ifndef ROTA_EXEC_EXEC_DRIVER_H
#define ROTA_EXEC_EXEC_DRIVER_H

#include "exec/exec_table.h"

typedef struct rota_exec_driver rota_exec_driver;

struct rota_exec_driver {
    const char *name; /* the part of the id before ':' */
    rota_exec_kind kind;
    /* Lists devices, also those that lack something (usable = false). Fills up to capacity; out_count is how
     * many there are. No driver installed: ROTA_OK with 0 devices, and a sentence in rota_last_error saying
     * why. */
    rota_status (*enumerate)(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                             uint32_t *out_count);
    rota_status (*open)(const rota_exec_driver *driver, uint32_t index, const rota_exec_open_options *options,
                        rota_exec_device **out_device);
};

extern const rota_exec_driver rota_exec_cpu_driver;
extern const rota_exec_driver rota_exec_vk_driver;
extern const rota_exec_driver rota_exec_cuda_driver;

#endif
