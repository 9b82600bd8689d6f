/* Executable graphs: see cuda_graph.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_GRAPH_H
#define ROTA_EXEC_CUDA_CUDA_GRAPH_H

#include "exec/cuda/cuda_instance.h"

/* Builds a segment's executable graph (cuda_graph.c). block: as in rota_cuda_library_capture. */
rota_status rota_cuda_graph_build(rota_cuda_device *device, rota_cuda_instance *instance,
                                  rota_exec_memory *const *memories, uint32_t segment, const uint64_t *block,
                                  CUgraphExec *out_exec);

#endif
