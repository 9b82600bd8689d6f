/* The end of all loops of a device: see cuda_halt.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_HALT_H
#define ROTA_EXEC_CUDA_CUDA_HALT_H

typedef struct rota_cuda_device rota_cuda_device;

/* Whichever loops run on the device end with their iteration, and no further ones begin: it is lost or closed, and the
 * context is current. Any thread. */
void rota_cuda_halt(rota_cuda_device *device);

#endif
