/* What kernels that take indices share. Internal. */
#ifndef ROTA_OPS_CPU_INDEX_H
#define ROTA_OPS_CPU_INDEX_H

#include <stdint.h>
#include "base/status.h"

/* Fails the node for the index of `position`, which is not below n. */
rota_status rota_cpu_outside(const char *kernel, uint64_t position, int32_t index, uint32_t n);

#endif
