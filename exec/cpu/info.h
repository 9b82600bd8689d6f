/* What the machine is. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_INFO_H
#define ROTA_EXEC_CPU_INFO_H

#include "base/status.h"
#include "exec/device.h"

#define ROTA_CPU_WORKERS_MAX 256

/* What the machine is. If out_sets is not NULL it gets one cpu_set_t for each of the info's
 * compute_units, which are the cores of the process's affinity; malloc'ed, the caller frees. */
rota_status rota_cpu_describe(rota_device_info *out_info, void **out_sets);

#endif
