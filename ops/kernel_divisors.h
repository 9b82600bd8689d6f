/* Parameters of built-in kernels that count something and by which their functions divide: of a node that ops record
 * none of them is 0. For who records built-in kernels from parameters that it does not know. Internal; not
 * installed. */
#ifndef ROTA_OPS_KERNEL_DIVISORS_H
#define ROTA_OPS_KERNEL_DIVISORS_H

#include "graph/kernel.h"

typedef struct rota_kernel_divisors rota_kernel_divisors;

/* Those of a built-in kernel; NULL: it has none. Static. Linear in the kernels there are. */
const rota_kernel_divisors *rota_kernel_divisors_of(const rota_kernel *kernel);

/* INVALID_ARGUMENT names a parameter that is 0, or says that those which functions multiply come to 2^63 or more: in 64
 * bits such a product may be 0. */
rota_status rota_kernel_check_divisors(const rota_kernel_divisors *divisors, const rota_kernel *kernel,
                                       const void *params);

#endif
