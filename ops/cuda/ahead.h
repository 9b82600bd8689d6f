/* CUDA C++: copies to shared memory that are on their way while a thread calculates. */
#ifndef ROTA_OPS_CUDA_AHEAD_H
#define ROTA_OPS_CUDA_AHEAD_H

#include "ops/cuda/common.cuh"

/* 16 bytes of global memory to a place in shared memory that no other thread looks at, and the wait for all of a
 * thread's (plain loads where there are no such copies). */
ROTA_DEVICE void copy_ahead(uint4 *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
#else
    *to = *static_cast<const uint4 *>(from);
#endif
}
ROTA_DEVICE void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

#endif
