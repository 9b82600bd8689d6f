/* The ABI between rota and a CUDA kernel (rota_kernel.cuda in graph/kernel.h): what a kernel written in CUDA C
 * includes. The CUDA executor launches such a kernel from its graphs; the Vulkan executor may, on devices with
 * VK_NVX_binary_import, from its command buffers.
 *
 *     #include "rota_kernel.cuh"
 *
 *     struct saxpy_params {     // the parameter struct, field by field as in C, or the C struct itself
 *         uint32_t count;
 *         float scale;          // bindable 0: read with rota_param_f32 only
 *     };
 *     ROTA_KERNEL(saxpy, 3, saxpy_params, 256) {    // name, operands, parameters, threads of a block at most
 *         uint64_t i = rota_index();                // out = scale * a + b
 *         if (i >= args.params.count) return;
 *         const float *a = rota_operand<const float>(args, 0), *b = rota_operand<const float>(args, 1);
 *         rota_operand<float>(args, 2)[i] = rota_param_f32(args, 0, args.params.scale) * a[i] + b[i];
 *     }
 *
 * One kernel parameter, `args`, by value, at most 4096 bytes (rota_args below). An operand or bindable whose bit is
 * set in its mask comes from the argument block: the operand's entry then holds a word index in the top 16 bits and
 * a byte offset in the low 48 (address = block[index] + offset), the bindable's first 4 bytes the index of its word, of
 * which a 4-byte bindable is the low half. The masks are uniform over the launch, so a kernel with nothing in slots
 * reads nothing from memory for them.
 *
 * A kernel without parameters has `void` in the place of their struct.
 *
 * A kernel that asks for prepared bytes (rota_kernel.cuda.prepare) takes them as a second parameter: declare it with
 * ROTA_KERNEL_PREPARED.
 *
 * Nothing here belongs to the CUDA runtime API: kernels use no default stream, no device-side launches and no
 * managed memory. */
#ifndef ROTA_KERNEL_CUH
#define ROTA_KERNEL_CUH

#include <stdint.h>

template <int operand_count, typename parameters> struct rota_args {
    const uint64_t *block; /* the argument block; NULL when the node takes nothing from slots */
    uint32_t slot_mask, bind_mask;
    uint64_t operands[operand_count];
    parameters params;
};
template <int operand_count> struct rota_args<operand_count, void> {
    const uint64_t *block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[operand_count];
};

#define ROTA_KERNEL(name, operand_count, parameters, max_threads)                                            \
    extern "C" __global__ void __launch_bounds__(max_threads)                                                \
        name(const __grid_constant__ rota_args<operand_count, parameters> args)
/* ... of which `blocks` should fit on a multiprocessor at a time: bounds the registers of a thread. */
#define ROTA_KERNEL_BLOCKS(name, operand_count, parameters, max_threads, blocks)                             \
    extern "C" __global__ void __launch_bounds__(max_threads, blocks)                                        \
        name(const __grid_constant__ rota_args<operand_count, parameters> args)
#define ROTA_KERNEL_PREPARED(name, operand_count, parameters, prepared_type, max_threads)                    \
    extern "C" __global__ void __launch_bounds__(max_threads, 1)                                             \
        name(const __grid_constant__ rota_args<operand_count, parameters> args,                              \
             const __grid_constant__ prepared_type prepared)

/* Operand i's first byte. */
template <typename T, typename A> __device__ __forceinline__ T *rota_operand(const A &args, int i) {
    uint64_t value = args.operands[i];
    if (args.slot_mask >> i & 1u) value = args.block[value >> 48] + (value & 0xFFFFFFFFFFFFull);
    return reinterpret_cast<T *>(value);
}

/* Bindable j (its place in kernel->bindables), whose field is `field`. */
template <typename A> __device__ __forceinline__ uint32_t rota_param_u32(const A &args, int j, uint32_t field) {
    return args.bind_mask >> j & 1u ? static_cast<uint32_t>(args.block[field]) : field;
}
template <typename A> __device__ __forceinline__ float rota_param_f32(const A &args, int j, uint32_t field) {
    return __uint_as_float(rota_param_u32(args, j, field));
}
template <typename A> __device__ __forceinline__ float rota_param_f32(const A &args, int j, float field) {
    return rota_param_f32(args, j, __float_as_uint(field));
}
template <typename A> __device__ __forceinline__ uint64_t rota_param_u64(const A &args, int j, uint64_t field) {
    return args.bind_mask >> j & 1u ? args.block[static_cast<uint32_t>(field)] : field;
}

/* This block's number and this thread's number in the launch, counted along x, then y, then z. */
__device__ __forceinline__ uint64_t rota_group_index() {
    return (static_cast<uint64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}
__device__ __forceinline__ uint64_t rota_index() {
    return rota_group_index() * (blockDim.x * blockDim.y * blockDim.z) +
           (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

#endif
