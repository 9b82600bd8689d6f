/* Loops and counts of an instance's segment while they run: see cuda_loops.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_LOOPS_H
#define ROTA_EXEC_CUDA_CUDA_LOOPS_H

#include "base/atomic.h"
#include "exec/cuda/cuda_decide.h"
#include "exec/cuda/cuda_pool.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;
typedef struct rota_cuda_instance rota_cuda_instance;
typedef struct rota_cuda_fence rota_cuda_fence;

/* Launches of a segment with loops or counts that may be in flight: each has a record of what failed. A power of
 * two. */
#define ROTA_CUDA_RECORDS 16u

typedef struct rota_cuda_loops {
    const rota_exec_program_desc *desc;
    const rota_cuda_roots *roots; /* the program's */
    /* Device memory: the states of all roots, and the word that they have together; and pinned memory: the records of
     * all of them, of each root ROTA_CUDA_RECORDS; then, per root, how many iterations have begun, and a word that is
     * on its way to a state's `stop`; then as many words that say of all records of a launch whether any is written. */
    rota_cuda_piece states, pinned;
    uint64_t *progress;        /* where those numbers are */
    uint64_t record_words;     /* of all records */
    uint64_t launched;         /* the submit thread's */
    _Atomic uint64_t reported; /* launches that the completion thread is through with */
    uint64_t *stopped;         /* the completion thread's: per root, the last launch that was told to end */
} rota_cuda_loops;

/* NULL where the segment has no loops or counts. OUT_OF_MEMORY, TIMEOUT, and what the driver says. */
rota_status rota_cuda_loops_create(rota_cuda_device *device, const rota_cuda_instance *instance,
                                   uint32_t segment, rota_cuda_loops **out_loops);
/* With its instance: the completion thread looks at them no more (rota_cuda_instance_free). */
void rota_cuda_loops_free(rota_cuda_device *device, rota_cuda_loops *loops);

/* Where a root's states and records are, and how many they are, for the steps of what is in it; and its progress. */
void rota_cuda_loops_describe(const rota_cuda_loops *loops, const rota_cuda_root *root,
                              rota_decide_root *out_root);
uint64_t rota_cuda_loops_progress_address(const rota_cuda_loops *loops, const rota_cuda_root *root);
/* Iterations that the root of this command has begun in its last launch; with diagnostics. 0: it has none, or there is
 * no such. Any thread. */
static inline uint64_t rota_cuda_loops_progress(const rota_cuda_loops *loops, uint32_t command) {
    for (uint32_t r = 0; loops && r < loops->roots->count; r++)
        if (loops->roots->all[r].command == command)
            return ra_load_relaxed((_Atomic uint64_t *)&loops->progress[r]);
    return 0;
}

/* ---- The completion thread's ---- */

/* The fence's launch is complete: the host hears of those of its nodes that failed. */
void rota_cuda_loops_report(rota_cuda_device *device, const rota_cuda_fence *fence);
/* The fence's launch may run: those of its loops that the host skips end with their iteration. */
void rota_cuda_loops_look(rota_cuda_device *device, const rota_cuda_fence *fence);

#endif
