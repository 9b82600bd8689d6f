/* The built-in kernels as objects, for what the library is made of. Internal; not installed: programs ask
 * rota_kernel_find, so that no address of a datum is part of the shared library's interface. */
#ifndef ROTA_OPS_KERNEL_OBJECTS_H
#define ROTA_OPS_KERNEL_OBJECTS_H

#include "ops/kernels.h"

#define ROTA_KERNEL_DECLARE(name) extern const rota_kernel rota_kernel_##name;
ROTA_KERNEL_LIST(ROTA_KERNEL_DECLARE)
ROTA_KERNEL_COMPOSITE_LIST(ROTA_KERNEL_DECLARE)
#undef ROTA_KERNEL_DECLARE

#endif
