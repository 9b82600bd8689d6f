/* Memory of the application's, and memory that it has of rota's. Threads, progress and fork are as of runtime.h. */
#ifndef ROTA_SCHED_EMBED_MEMORY_H
#define ROTA_SCHED_EMBED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime.h"

typedef enum rota_memory_kind {
    /* Host memory: of `cpu`, and of Vulkan devices with VK_EXT_external_memory_host. */
    ROTA_MEMORY_HOST,
    /* A CUDA device pointer, of cuMemAlloc, cudaMalloc, a pool or cuMemMap, on that GPU. */
    ROTA_MEMORY_DEVICE,
    /* A file descriptor of an allocation that a driver exported for others of its GPU (opaque): of Vulkan
     * (VkMemoryGetFdInfoKHR) or of CUDA (cuMemExportToShareableHandle). */
    ROTA_MEMORY_FD,
    /* A dma-buf's file descriptor, of whatever driver exported it: another GPU's, a camera's, /dev/dma_heap or
     * /dev/udmabuf. Vulkan devices with VK_EXT_external_memory_dma_buf take it. `cpu` maps it, where its exporter lets
     * that be done, as it does any other descriptor that can be mapped shared (memfd_create); it calls no
     * DMA_BUF_IOCTL_SYNC, which the application does, before a submission and after its ticket, where the exporter's
     * memory is not coherent with the CPU. CUDA's driver imports none but on Jetson, from Thor on. */
    ROTA_MEMORY_DMA_BUF,
    ROTA_MEMORY_KIND_COUNT
} rota_memory_kind;

/* What memory that is adopted begins at a multiple of, in bytes; a descriptor's at one of ROTA_BUFFER_ALIGNMENT in its
 * allocation. */
#define ROTA_ADOPT_ALIGNMENT 16

typedef struct rota_adopt_options {
    size_t struct_size; /* sizeof, by ROTA_ADOPT_OPTIONS() */
    const char *name;   /* copied; NULL: unnamed */
    rota_memory_kind kind;
    void *memory; /* an address of the host's or the device's; NULL for a descriptor */
    int fd;       /* a descriptor, which stays the caller's; and of the allocation that it stands for: */
    uint64_t allocation_bytes, offset_bytes; /* how large that is, and where in it the memory begins */
    uint64_t size_bytes;
    bool is_undefined; /* there is nothing in it to be read before it is written */
    bool read_only;    /* nodes and the host only read it: recording anything else is INVALID_ARGUMENT */
    /* NULL, or: called once, when nothing of rota's touches the memory any more: the buffer, its views, the graphs and
     * plans that it is in are released, and all that used it has ended; or its runtime was closed. On rota's
     * reclaiming thread, or in rota_runtime_close; while it runs no memory is reclaimed, and close waits for it up to
     * its deadline. It may call anything here but rota_runtime_close. Not called where close abandons the device
     * (rota_devices_abandoned), which may go on to touch the memory. */
    rota_release_fn release;
    void *user;
} rota_adopt_options;
#define ROTA_ADOPT_OPTIONS(...) ROTA_SIZED(rota_adopt_options, __VA_ARGS__)

/* A PERSISTENT buffer whose memory on `device` is the application's: no byte is copied, and the address there is the
 * one given (rota_buffer_address; of host memory on a Vulkan device it is what that maps it to). It counts in no
 * memory limit. The memory stays the application's, which neither frees nor writes it, nor reads what nodes write,
 * while submissions that touch it are unfinished: it waits for their tickets. The bytes in it count as written, unless
 * `is_undefined`.
 *
 * A buffer's bytes are where they were written last. Where a plan on another device writes them, the memory has them
 * again once a node or a copy on `device` needs them. Other devices, of the same GPU too, have memory of their own.
 *
 * The caller owns one reference; after an error `release` is not called. May block in the driver. MISALIGNED;
 * INVALID_ARGUMENT: size 0, memory beyond the last address or the descriptor's allocation, a pointer that the driver
 * does not know, or knows to be shorter or another device's, a dma-buf that is shorter than allocation_bytes;
 * UNSUPPORTED: memory of a kind that the device does not take, and what it lacks for it; DEVICE_LOST; OUT_OF_MEMORY. */
ROTA_API rota_status rota_buffer_adopt(rota_device *device, const rota_adopt_options *options,
                                       rota_buffer **out_buffer);

/* A buffer's memory on a device as others of its GPU take it over. */
typedef struct rota_memory_export {
    size_t struct_size; /* sizeof, by ROTA_MEMORY_EXPORT() */
    int fd;             /* of the allocation: the caller's to close, or to give to an import that takes it */
    uint64_t allocation_bytes, offset_bytes; /* how large that is, and where in it the buffer begins */
    uint64_t size_bytes;                     /* of the buffer */
    uint32_t
        memory_type; /* of a Vulkan device: the index of its type, by which an import is made of an opaque
                             descriptor; of a dma-buf, the importer asks for the types (vkGetMemoryFdPropertiesKHR) */
} rota_memory_export;
#define ROTA_MEMORY_EXPORT(...) ROTA_SIZED(rota_memory_export, __VA_ARGS__)

/* The other way: a descriptor of the memory that the buffer has on the device, made now if there is none, for Vulkan
 * (VkImportMemoryFdInfoKHR) or CUDA (cuImportExternalMemory) of the application's, or another runtime's
 * rota_buffer_adopt. The bytes are the buffer's as ever: who else touches them comes after the tickets that do, and
 * says so to those that are later, by points; the buffer stays while an import is used. Where a plan on another device
 * writes the buffer, the memory has its bytes again once a node or a copy on `device` needs them.
 * INVALID_ARGUMENT: not a persistent buffer, or of another runtime, or out_export->struct_size; UNSUPPORTED: the device
 * exports none, or the memory is not its own (adopted, or another device's); OUT_OF_MEMORY; DEVICE_LOST. May block. */
ROTA_API rota_status rota_buffer_export(rota_buffer *buffer, rota_device *device,
                                        rota_memory_export *out_export);
/* The same by a dma-buf, which others than the GPU's drivers take, too: other devices' drivers, RDMA, a video encoder,
 * and Vulkan (VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT). A dma-buf's implicit fences are not rota's to set:
 * tickets and points say when the bytes are there. UNSUPPORTED also names what the device lacks: a Vulkan one
 * VK_EXT_external_memory_dma_buf, or a kind of memory that is exported both ways; a CUDA one
 * CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED; `cpu` exports none. */
ROTA_API rota_status rota_buffer_export_dma_buf(rota_buffer *buffer, rota_device *device,
                                                rota_memory_export *out_export);

#endif
