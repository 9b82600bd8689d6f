/* What ops are told of a Hopper GPU where there is none. */
#ifndef ROTA_TESTS_OPS_CUDA_HOPPER_H
#define ROTA_TESTS_OPS_CUDA_HOPPER_H

#include "graph/kernel.h"

static const rota_cuda_target hopper = {.compute_capability = 90,
                                        .multiprocessors = 132,
                                        .l2_bytes = 60 << 20,
                                        .shared_bytes_max = 232448,
                                        .name = "a Hopper GPU",
                                        .driver = "580"};

#endif
