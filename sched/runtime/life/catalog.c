/* Drivers, and the devices there are. */
#include "sched/runtime/life/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/given.h"
#include "base/sized_copy.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/point.h"

/* Has `infos` for each driver's in turn: ROTA_DEVICES_MAX. */
static void ask(rota_runtime *runtime, rota_device_info *infos, rota_catalog *catalog) {
    for (uint32_t i = 0; i < runtime->opening.driver_count; i++) {
        const rota_exec_driver *driver = runtime->opening.drivers[i].driver;
        uint32_t found = 0;
        rota_status status = driver->enumerate(driver, infos, ROTA_DEVICES_MAX, &found);
        if (status != ROTA_OK || found == 0) {
            size_t used = strlen(catalog->notes);
            (void)snprintf(catalog->notes + used, sizeof catalog->notes - used, "%s%s: %s", used ? "; " : "",
                           driver->name, rota_last_error());
        }
        if (status != ROTA_OK) continue;
        if (found > ROTA_DEVICES_MAX) found = ROTA_DEVICES_MAX;
        for (uint32_t d = 0; d < found; d++) {
            infos[d].struct_size = sizeof *infos;
            catalog->list[catalog->count++] = (rota_listed){infos[d], &runtime->opening.drivers[i], d};
        }
    }
}

rota_status rota_catalog_make(rota_runtime *runtime, rota_catalog *out_catalog) {
    out_catalog->count = 0;
    out_catalog->notes[0] = 0;
    out_catalog->list = calloc((size_t)ROTA_DRIVERS_MAX * ROTA_DEVICES_MAX, sizeof *out_catalog->list);
    rota_device_info *infos = calloc(ROTA_DEVICES_MAX, sizeof *infos);
    if (!out_catalog->list || !infos) {
        free(infos);
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory to list devices");
    }
    ask(runtime, infos, out_catalog);
    free(infos);
    return ROTA_OK;
}

void rota_catalog_free(rota_catalog *catalog) {
    free(catalog->list);
    catalog->list = NULL;
}

rota_status rota_devices(rota_runtime *runtime, rota_device_info *out_infos, uint32_t capacity,
                         uint32_t *out_count) {
    ROTA_GIVEN_ARRAY(out_infos, capacity);
    ROTA_GIVEN(out_count);
    *out_count = 0;
    size_t stride = capacity ? out_infos->struct_size : 0;
    if (capacity) ROTA_TRY(rota_sized_check(stride, "rota_device_info"));
    ROTA_TRY(rota_runtime_check(runtime));
    rota_catalog catalog;
    rota_status status = rota_catalog_make(runtime, &catalog);
    if (status == ROTA_OK) {
        (void)rota_fail(ROTA_OK, "%s", catalog.notes);
        for (uint32_t i = 0; i < catalog.count && i < capacity; i++) {
            void *out = (char *)out_infos + i * stride;
            memcpy(out, &stride, sizeof stride);
            rota_sized_out(out, &catalog.list[i].info, sizeof catalog.list[i].info);
        }
        *out_count = catalog.count;
    }
    rota_catalog_free(&catalog);
    return status;
}
