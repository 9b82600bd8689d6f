/* The built-in kernels as objects, for what the library is made of. Internal; not installed: programs ask
 * rota_kernel_find, so that no address of a datum is part of the shared library's interface. */
#ifndef ROTA_OPS_KERNEL_OBJECTS_H
#define ROTA_OPS_KERNEL_OBJECTS_H

#include "ops/kernels.h"

#define KERNEL(NAME, ...) extern const rota_kernel rota_kernel_##NAME;
#define COMPOSITE(NAME) extern const rota_kernel rota_kernel_##NAME;
#include "ops/kernels.def"

#endif
