/* Between rota-faults' files: faults.c has the run and what it has to come to, faults_calls.c what fails in
 * it. Linked with --wrap for what is counted. */
#ifndef ROTA_TESTS_FAULTS_H
#define ROTA_TESTS_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "tests/exec/cuda/cuda_stub.h"

enum { FRAMES = 8, SITES_MAX = 1 << 14, RESULTS_MAX = 2 };

/* A call, by a hash of its stack and the phase. */
typedef struct site {
    uint64_t key; /* 0: free */
    uint32_t count, seen;
    int phase;
    const char *call;
    uint32_t results; /* different ones that it can fail with */
    void *frames[FRAMES];
} site;
extern site sites[SITES_MAX];

extern atomic_bool counting; /* calls are counted, and the wanted one fails */
extern atomic_int phase;
extern uint32_t wanted_site, wanted_ordinal; /* which call that is; site UINT32_MAX: none */
extern atomic_uint wanted_result;
extern atomic_bool fired;
extern void *outermost; /* where main calls run_once: compilers have several copies of the call */
extern char __executable_start;

/* Blocks of memory that were not freed; Vulkan objects, less those that were destroyed. */
extern uint32_t live;
extern int made;
void print_left(void);
/* A device of Vulkan's that was lost once stays so. */
extern atomic_bool vk_lost;
#ifdef ROTA_HAVE_CUDA
CUresult ask_stub(const char *name); /* for cuda_stub_watch */
#endif

/* What is wrong on purpose from the failure on, to see that it is found. */
typedef enum plant {
    PLANT_NONE,
    PLANT_FORGOTTEN, /* nobody remembers which ranges failed */
    PLANT_WRONG,     /* a read brings other bytes */
    PLANT_SILENT,    /* failures have no sentence */
    PLANT_LEAK       /* now and then nothing is freed */
} plant;
extern plant planted;

#endif
