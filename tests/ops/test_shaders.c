/* Every built-in kernel's shader against its CPU kernel (kernel_cases.c), on the first Vulkan device under
 * the validation layer. */
#include "tests/ops/kernel_case.h"

int main(int argc, char **argv) {
    return kernel_case_main(&rota_exec_vk_driver, argc, argv);
}
