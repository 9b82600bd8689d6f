/* Trivial kernels that are launched when they can run: what raw CUDA runs, and rota-bench replay --plain. */
#include "rota_kernel.cuh"
#include "trivial.cuh"
