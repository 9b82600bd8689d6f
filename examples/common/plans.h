/* What programs with buffers that stay and plans that are replayed do alike. */
#ifndef ROTA_EXAMPLES_COMMON_PLANS_H
#define ROTA_EXAMPLES_COMMON_PLANS_H

#include "rota.h"

/* A PERSISTENT buffer, with `data` on the device, or without contents where that is NULL. */
rota_status plans_buffer(rota_runtime *runtime, rota_device *device, const char *name, uint64_t bytes,
                         const void *data, rota_buffer **out);
/* A plan of what `record` records, for one device. */
rota_status plans_compile(rota_runtime *runtime, rota_device *device, const char *name,
                          rota_status (*record)(const void *user, rota_graph *graph, rota_recorder *recorder),
                          const void *user, rota_plan **out_plan);
/* Submits it and waits for the end. */
rota_status plans_replay(rota_plan *plan);

#endif
