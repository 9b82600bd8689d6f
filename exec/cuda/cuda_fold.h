/* Which graph nodes wait for which, in an executable graph of a segment: the policy, with no driver in it.
 * Internal; not installed.
 *
 * Launching a CUDA graph costs CPU time for each branch that it has (about 1 us), the device little for a
 * node in a chain, and what several chains hold runs side by side. So the commands are laid onto few lanes: a
 * command waits for the one before it on its lane and for those of its predecessors that this does not imply.
 * Commands of a lane that need not be ordered are, which costs overlap beyond the number of lanes, and
 * nothing else.
 *
 * Measured on an H200 (driver 580), 1 000 independent trivial kernels, device time a node and CPU time of a
 * launch: 1 lane 0.93 us, 5.2 us; 2: 0.53, 4.7; 4: 0.29, 7.5; 6: 0.21, 8.2; 8: 0.18, 13.7; 12: 0.18, 22; 16: 0.18,
 * 32; 1 000: 1.03, 1 038. Launched early (rota_kernel_early.cuh), 4 lanes and more take 0.17. Joins by empty nodes
 * cost 3 us of CPU each, edges from several predecessors next to nothing. With 8 lanes rather than 6 rota-bench's
 * random graph takes 0.26 us a node rather than 0.32, and its train graph as long. */
#ifndef ROTA_EXEC_CUDA_CUDA_FOLD_H
#define ROTA_EXEC_CUDA_CUDA_FOLD_H

#include "exec/exec.h"

#define ROTA_CUDA_LANES 8u

/* Commands of the segment by their place in it; before[first[i] .. first[i + 1]) are those that i waits for.
 */
typedef struct rota_cuda_fold {
    uint32_t count;
    uint32_t most; /* that one command waits for; at least 1 */
    uint32_t *first;
    uint32_t *before;
} rota_cuda_fold;

/* O((commands + edges) * lanes). The order is that of the description's edges. OUT_OF_MEMORY. */
rota_status rota_cuda_fold_create(const rota_exec_program_desc *desc, const rota_exec_segment *segment,
                                  uint32_t lanes, rota_cuda_fold *out_fold);
void rota_cuda_fold_free(rota_cuda_fold *fold);

#endif
