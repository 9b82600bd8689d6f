/* The devices that the drivers have. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_LIFE_CATALOG_H
#define ROTA_SCHED_RUNTIME_LIFE_CATALOG_H

#include <stdint.h>
#include "exec/device.h"
#include "sched/runtime/shared/runtime.h"

/* One of them, open or not. */
typedef struct rota_listed {
    rota_device_info info;
    const rota_driver_entry *entry;
    uint32_t index; /* within the driver */
} rota_listed;

/* All of them, in the order of drivers. */
typedef struct rota_catalog {
    rota_listed *list;
    uint32_t count;
    char notes[512]; /* which drivers have none, and why; "": each has some */
} rota_catalog;

/* Asks every driver; the caller frees, also after an error. A driver that fails to list is as one with no devices.
 * OUT_OF_MEMORY. May block in drivers. */
rota_status rota_catalog_make(rota_runtime *runtime, rota_catalog *out_catalog);
void rota_catalog_free(rota_catalog *catalog);

#endif
