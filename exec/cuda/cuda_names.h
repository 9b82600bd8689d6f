/* Names for tools (Nsight Systems), by NVTX. Internal to exec/cuda.
 *
 * NVTX is headers alone: the tool that starts the process says by NVTX_INJECTION64_PATH which library takes the calls,
 * and without one they go nowhere. A range is open on the thread that makes it: around the launch of a segment, and
 * around each node while its CUDA graph is built. CUDA has no name for a node of a graph: of a replay the device's rows
 * have the graph's launch, or its kernels by their functions' names. */
#ifndef ROTA_EXEC_CUDA_CUDA_NAMES_H
#define ROTA_EXEC_CUDA_CUDA_NAMES_H

#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;

/* A device's domain, where its options ask for names and a tool takes them; NULL: none, and the rest does nothing. */
void *rota_cuda_names_open(rota_cuda_device *device);
void rota_cuda_names_close(void *domain);

/* Each is ended by rota_cuda_range_end on the same thread. */
void rota_cuda_range_segment(void *domain, const rota_exec_program_desc *desc, uint32_t segment);
void rota_cuda_range_node(rota_cuda_device *device, const rota_exec_program_desc *desc,
                          const rota_exec_command *command);
void rota_cuda_range_end(void *domain);

#endif
