/* Ranks by the environment. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "bench/launched.h"

#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_set(const char *variable) {
    const char *text = getenv(variable);
    return text && *text;
}

/* As exec/comm/launch.c has it. Before srun's own variables, which torchrun's processes have too where srun started
 * that. WORLD_SIZE alone may be anybody's. */
static bool is_torchrun(void) {
    return is_set("TORCHELASTIC_RUN_ID") ||
           (is_set("RANK") && is_set("WORLD_SIZE") && is_set("MASTER_ADDR") && is_set("MASTER_PORT"));
}

uint32_t launched_ranks(void) {
    if (is_torchrun() && is_set("WORLD_SIZE")) return (uint32_t)strtoul(getenv("WORLD_SIZE"), NULL, 10);
    /* Open MPI; MPICH and whoever speaks PMI; srun. */
    static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", NULL};
    for (const char *const *name = counts; *name; name++) {
        const char *text = getenv(*name);
        if (text && *text) return (uint32_t)strtoul(text, NULL, 10);
    }
    return getenv("PMIX_RANK") ? 2 : 0;
}

uint32_t launched_number(void) {
    static const char *const numbers[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID",
                                          NULL};
    if (is_torchrun() && is_set("LOCAL_RANK")) return (uint32_t)strtoul(getenv("LOCAL_RANK"), NULL, 10);
    for (const char *const *name = numbers; *name; name++) {
        const char *text = getenv(*name);
        if (text && *text) return (uint32_t)strtoul(text, NULL, 10);
    }
    return 0;
}

bool launched_gpus(const char *device) {
    return device && strcmp(device, "cuda") == 0;
}

const char *launched_device(const char *device, uint32_t number, char room[16]) {
    if (!launched_gpus(device)) return device;
    (void)snprintf(room, 16, "cuda:%" PRIu32, number);
    return room;
}

uint32_t launched_workers(uint64_t ranks) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0; /* more than 1024: as many as there are */
    const uint64_t each = (uint64_t)CPU_COUNT(&set) / ranks;
    return each ? (uint32_t)each : 1;
}
