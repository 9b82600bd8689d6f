/* Devices of other GPUs in this process: see cuda_peer.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_PEER_H
#define ROTA_EXEC_CUDA_CUDA_PEER_H

#include "exec/exec.h"

extern const rota_exec_peers rota_cuda_peers;

/* ROTA_PEER=0 in the environment: no GPU is to read another's memory. */
bool rota_cuda_peers_are_off(void);

#endif
