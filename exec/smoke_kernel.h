/* The kernel of the smoke test: c = a + b, f32; parameter: the number of elements. Internal; not installed.
 */
#ifndef ROTA_EXEC_SMOKE_KERNEL_H
#define ROTA_EXEC_SMOKE_KERNEL_H

#include "graph/kernel.h"

extern const rota_kernel rota_smoke_kernel;

#endif
