/* Trivial kernels that may be launched early. */
#include "rota_kernel_early.cuh"
#include "trivial.cuh"
