/* Kernels whose functions get their `user`. */
#include "graph/kernel_calls.h"

#include "base/sized_copy.h"

rota_status rota_kernel_check_functions(const rota_kernel *kernel) {
    if (!(kernel->flags & ROTA_KERNEL_HAS_FUNCTIONS)) return ROTA_OK;
    if (!kernel->functions)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "kernel '%s' has ROTA_KERNEL_HAS_FUNCTIONS in its flags, and its functions are NULL",
                         kernel->name);
    rota_kernel_functions room;
    if (ROTA_SIZED_IN(rota_kernel_functions, kernel->functions, &room)) return ROTA_OK;
    return rota_fail_context(ROTA_INVALID_ARGUMENT, "kernel '%s', its functions: ", kernel->name);
}
