/* What ranks on CUDA devices do in tests of collectives by NCCL: the same over stand-ins and on GPUs. */
#ifndef ROTA_TESTS_DEVICE_CASES_H
#define ROTA_TESTS_DEVICE_CASES_H

#include "tests/ranks/rank_cases.h"

typedef struct device_rank {
    rota_runtime *runtime;
    rota_device *device; /* of which the communicator is */
    rota_communicator *communicator;
} device_rank;

typedef struct device_case {
    const char *name;
    void (*run)(const device_rank *rank);
} device_case;

/* Ended by one without name. */
extern const device_case device_cases[];

#endif
