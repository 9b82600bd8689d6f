/* Kernels by name, those that are made of others among them. */
#include <string.h>
#include "ops/kernel_objects.h" /* IWYU pragma: keep */
#include "ops/kernels.h"

const rota_kernel *rota_kernel_find(const char *name) {
    static const rota_kernel *const all[] = {
#define KERNEL(NAME, ...) &rota_kernel_##NAME,
#define COMPOSITE(NAME) &rota_kernel_##NAME,
#include "ops/kernels.def"
    };
    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}
