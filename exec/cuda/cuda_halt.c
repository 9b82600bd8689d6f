/* A device that is lost or closed comes to rest when its loops do: each of their steps looks at a word of the device's
 * memory, which is written here, on the stream of stops (cuda_loops.c). */
#include "exec/cuda/cuda_halt.h"
#include "exec/cuda/cuda_device.h"

void rota_cuda_halt(rota_cuda_device *device) {
    rota_cuda_stops_shared *stops = &device->stops;
    pthread_mutex_lock(&stops->lock);
    if (stops->halt.taken && !stops->is_halted) {
        stops->is_halted = true;
        *(uint64_t *)(void *)stops->halting.host = 1;
        /* Where it fails the context is gone, or loops are waited for as long as anything is. */
        (void)device->cu->MemcpyAsync(stops->halt.address, stops->halting.address, sizeof(uint64_t),
                                      stops->stream);
    }
    pthread_mutex_unlock(&stops->lock);
}
