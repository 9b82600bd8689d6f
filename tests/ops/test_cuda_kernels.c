/* Every built-in kernel's CUDA form against its CPU kernel (kernel_cases.c), on the first CUDA device. */
#include "tests/ops/kernel_case.h"

int main(int argc, char **argv) {
    return kernel_case_main(&rota_exec_cuda_driver, argc, argv);
}
