/* Devices of GPUs, and of the stand-in for the CUDA driver beside them, by one name each: for tests that run on all. */
#ifndef ROTA_TESTS_GPU_KIT_H
#define ROTA_TESTS_GPU_KIT_H

#include "tests/kit/runtime_support.h"

#define GPU_STAND_IN "stand-in"

/* A runtime and, in it, device "vk:0", "cuda:0" or GPU_STAND_IN, whose kernels are those of tests/kernels; NULL where
 * there is none, which is said. One at a time. */
void gpu_open(const char *name, runtime_fixture *out);
/* Closes, and wants it clean; may be closed already. */
void gpu_close(runtime_fixture *f);

#endif
