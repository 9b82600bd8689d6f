/* Devices that an application has opened itself, as rota is told of them: public part of the executor contract. No
 * header of a driver's is needed to read this: handles and structs of its interface are pointers here. */
#ifndef ROTA_EXEC_APPLICATION_H
#define ROTA_EXEC_APPLICATION_H

#include <stdbool.h>
#include <stdint.h>
#include "../base/sized.h"

/* A queue of a VkDevice. */
typedef struct rota_vulkan_queue {
    uint32_t family, index; /* as of vkGetDeviceQueue: one that the device was made with, without flags */
    /* Both NULL: the queue is rota's alone until the runtime is closed. Else the application uses it as well, and
     * whoever does has the application's lock: rota takes it around each of its calls for the queue. Those are the
     * submit thread's of the device, the last of them when the runtime is closed; no thread that calls rota, no other
     * one of rota's, and none of another device, ever takes it. While the application keeps it the device gets no more
     * work. */
    void (*lock)(void *user);
    void (*unlock)(void *user);
    void *user;
} rota_vulkan_queue;

/* A piece of VkDeviceMemory of the application's. */
typedef struct rota_vulkan_memory {
    void *memory;          /* VkDeviceMemory */
    uint64_t offset_bytes; /* in it: a multiple of the alignment that was asked for */
    void *
        mapped; /* where the host has that offset, for as long as the piece is rota's, if that was asked for */
    void *piece; /* for the application to know it again */
} rota_vulkan_memory;

/* A VkDevice with what it was made of (rota_device_open_vulkan). All but the handles is borrowed during the call. */
typedef struct rota_vulkan_device {
    size_t struct_size; /* sizeof, by ROTA_VULKAN_DEVICE() */
    void *instance;     /* VkInstance */
    void *physical_device;
    void *device;
    uint32_t api_version; /* of the instance: VkApplicationInfo.apiVersion, VK_API_VERSION_1_2 or later */
    /* VkDeviceCreateInfo: what the device was made with, or one that says the same of its queues, extensions and
     * features (pEnabledFeatures, or the structs of features in pNext), since Vulkan has no question for that. */
    const void *create_info;
    void (*get_instance_proc_addr)(void); /* PFN_vkGetInstanceProcAddr; NULL: of libvulkan.so.1 */
    /* VkAllocationCallbacks, copied; NULL: none. rota gives them to all that it makes on the device, from any of its
     * threads, several at once. */
    const void *allocation_callbacks;
    rota_vulkan_queue compute; /* of a family with VK_QUEUE_COMPUTE_BIT */
    bool has_transfer;         /* `transfer` is another one, of any family that copies: uploads go there */
    rota_vulkan_queue transfer;
    /* Both NULL: rota's memory is by vkAllocateMemory. Else it is pieces of the application's, for a buffer each, of a
     * memory type that rota picks, allocated with VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT; false from allocate is
     * OUT_OF_MEMORY. Nothing of rota's uses a piece that free is given. They are called on threads that call rota and
     * on its own, several at once, and call nothing here. Memory that a lost device may still touch is not freed. Other
     * devices of the GPU do not share it. */
    bool (*allocate)(void *memory_user, uint64_t size_bytes, uint64_t alignment_bytes, uint32_t memory_type,
                     bool is_mapped, rota_vulkan_memory *out_memory);
    void (*free)(void *memory_user, const rota_vulkan_memory *memory);
    void *memory_user;
} rota_vulkan_device;
#define ROTA_VULKAN_DEVICE(...) ROTA_SIZED(rota_vulkan_device, __VA_ARGS__)

/* A CUDA context that the application uses, and the allocator of its device memory (rota_device_open_cuda). Borrowed
 * during the call, but for the context and what the functions are given. */
typedef struct rota_cuda_context {
    size_t struct_size; /* sizeof, by ROTA_CUDA_CONTEXT() */
    uint32_t
        index; /* of the GPU whose primary context it is, as of "cuda:0"; without meaning with `context` */
    void *context; /* CUcontext, in place of that: it stays the application's */
    /* Both NULL: rota's device memory is its own. Else it comes from here and goes back here, all but blocks of 64 KiB
     * for arguments: it may be in use on `stream` alone until what is there by then is done, as
     * of cuMemAllocAsync, for which rota waits, two minutes at most: a pool that makes `stream` wait for a stream that
     * waits for rota's works may have rota wait for itself, and then what needs the memory fails (TIMEOUT), and the
     * memory is freed on `stream`. NULL from allocate is OUT_OF_MEMORY, which ends with what allocate has said by
     * rota_fail, if anything; an address that is no multiple of ROTA_BUFFER_ALIGNMENT is MISALIGNED. `stream` is a
     * CUstream of rota's, always the same, so that a pool that keeps blocks by stream gives none that something of the
     * application's still uses; nothing of rota's uses what it frees any more. They are called with the context
     * current, on threads that call rota and on rota's own, several at once, and call nothing else here. Memory that a
     * lost device may still touch is not freed. Other devices of the GPU do not share it. */
    void *(*allocate)(void *user, uint64_t size_bytes, void *stream);
    void (*free)(void *user, void *memory, uint64_t size_bytes, void *stream);
    void *user;
} rota_cuda_context;
#define ROTA_CUDA_CONTEXT(...) ROTA_SIZED(rota_cuda_context, __VA_ARGS__)

#endif
