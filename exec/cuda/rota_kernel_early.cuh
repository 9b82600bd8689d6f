/* For kernels that may be launched early: included in place of rota_kernel.cuh it gives the ROTA_KERNEL macros another
 * body, and nothing else changes. On devices of compute capability 9.0 and later the CUDA executor launches such a
 * kernel, where it comes after a single other kernel, while that one still runs ("programmatic dependent launch"): it
 * is on its multiprocessors when the other ends. Until then it waits, before the body's first statement, so the body
 * sees what any kernel sees: all that it comes after is complete, and its writes are visible.
 *
 * Worth it for kernels of a few microseconds. A block that waits keeps its registers and its shared memory, so a kernel
 * that has much of either, or runs beside others that do, is better launched when it can run.
 *
 * The image must be made for compute_90 or later, beside what older devices need: those have no such wait, and the
 * kernel is launched as others are. By the entry rota_starts_early the executor knows that the kernels of an image
 * wait. */
#ifndef ROTA_KERNEL_EARLY_CUH
#define ROTA_KERNEL_EARLY_CUH

#include "rota_kernel.cuh"

/* Lets what comes after be launched, which then waits in turn for this kernel's end; and waits for what is before. All
 * threads do: what comes after this kernel relies on that it has not ended before those did. */
static __device__ __forceinline__ void rota_begin_early() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
extern "C" __global__ void __launch_bounds__(1) rota_starts_early() {}
#endif

#undef ROTA_KERNEL
#undef ROTA_KERNEL_BLOCKS
#undef ROTA_KERNEL_PREPARED

/* The arguments stay where they are: the body is inlined, and so its reference is to the kernel's parameter. */
#define ROTA_KERNEL_BODY(name, operand_count, parameters)                                                    \
    static __device__ __forceinline__ void name##_body(const rota_args<operand_count, parameters> &args)
#define ROTA_KERNEL(name, operand_count, parameters, max_threads)                                            \
    ROTA_KERNEL_BODY(name, operand_count, parameters);                                                       \
    extern "C" __global__ void __launch_bounds__(max_threads)                                                \
        name(const __grid_constant__ rota_args<operand_count, parameters> args) {                            \
        rota_begin_early();                                                                                  \
        name##_body(args);                                                                                   \
    }                                                                                                        \
    ROTA_KERNEL_BODY(name, operand_count, parameters)
#define ROTA_KERNEL_BLOCKS(name, operand_count, parameters, max_threads, blocks)                             \
    ROTA_KERNEL_BODY(name, operand_count, parameters);                                                       \
    extern "C" __global__ void __launch_bounds__(max_threads, blocks)                                        \
        name(const __grid_constant__ rota_args<operand_count, parameters> args) {                            \
        rota_begin_early();                                                                                  \
        name##_body(args);                                                                                   \
    }                                                                                                        \
    ROTA_KERNEL_BODY(name, operand_count, parameters)

#endif
