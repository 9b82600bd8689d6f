/* Inside an application: memory that it has already becomes a buffer's, and work comes after its own. Threads, progress
 * and fork are as of runtime.h. */
#ifndef ROTA_SCHED_EMBED_H
#define ROTA_SCHED_EMBED_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime.h"

/* ---- Memory of the application's ---- */

typedef enum rota_memory_kind {
    /* Host memory: of `cpu`, and of Vulkan devices with VK_EXT_external_memory_host. */
    ROTA_MEMORY_HOST,
    /* A CUDA device pointer, of cuMemAlloc, cudaMalloc, a pool or cuMemMap, on that GPU. */
    ROTA_MEMORY_DEVICE,
    /* A file descriptor of an allocation that a driver exported for others of its GPU (opaque): of Vulkan
     * (VkMemoryGetFdInfoKHR) or of CUDA (cuMemExportToShareableHandle). */
    ROTA_MEMORY_FD,
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
 * does not know, or knows to be shorter or another device's;
 * UNSUPPORTED: memory of a kind that the device does not take; DEVICE_LOST; OUT_OF_MEMORY. */
ROTA_API rota_status rota_buffer_adopt(rota_device *device, const rota_adopt_options *options,
                                       rota_buffer **out_buffer);

/* ---- Points of the application's ----
 *
 * A timeline is a number that only rises; a point of it is reached once the number is at least the point's value.
 * Submissions come after points by rota_submit_options.after, and points are reached by tickets
 * (rota_ticket_export). So rota's work and the application's are put in order without a thread that waits. */

/* A timeline at 0. `name` is copied (NULL: unnamed). The caller owns one reference; submissions, tickets and streams
 * that name it hold it. May block in malloc. */
ROTA_API rota_status rota_external_timeline_create(rota_runtime *runtime, const char *name,
                                                   rota_external_timeline **out_timeline);
/* One reference less. Any thread, also after the runtime was closed; the last one may block in malloc. NULL is
 * ignored. */
ROTA_API void rota_external_timeline_release(rota_external_timeline *timeline);

/* All points up to `value` are reached: what the calling thread wrote before is seen by what comes after them. A value
 * that the timeline has passed changes nothing. Any thread; lock-free: it may be called from a driver's callback. Who
 * comes after the point may release the timeline before the call is over: where that was the last reference, the call
 * frees it, and may block in malloc.
 * Also while the runtime closes, which waits for what is held up to its deadline; WRONG_STATE after that, and in a
 * child after a fork, though the value rises then too. */
ROTA_API rota_status rota_external_timeline_signal(rota_external_timeline *timeline, uint64_t value);
/* Where it is. What was to be done before is visible to the calling thread. Wait-free. */
ROTA_API rota_status rota_external_timeline_value(const rota_external_timeline *timeline,
                                                  uint64_t *out_value);

/* The point is reached when all that was put on the application's CUDA stream so far is done: the driver calls, and
 * nobody waits. So a submission comes after a stream's position, and after an event by cuStreamWaitEvent before.
 * `stream` is a CUstream of the primary context of `device`; a default stream is CU_STREAM_LEGACY or
 * CU_STREAM_PER_THREAD, not NULL. May block in malloc and the driver. UNSUPPORTED: a device without streams;
 * INVALID_ARGUMENT: also a stream of another context, a timeline of another runtime; WRONG_STATE: also a stream that
 * is being captured; DEVICE_LOST. Where the context fails meanwhile the point is not reached, and what comes after it
 * has its deadline. The call holds the timeline until the driver has called, which it does in that case, too. */
ROTA_API rota_status rota_stream_signal(rota_device *device, void *stream, rota_external_timeline *timeline,
                                        uint64_t value);

/* What is put on the application's CUDA stream after the call comes after the ticket: the device waits, and the call
 * returns when the ticket's last work has been given to the driver. A ticket that ends elsewhere (work of several
 * devices, bytes that go to the host), or that the driver has not been given within a second, is waited for, as by
 * rota_wait with `timeout_ns`. What was written before is visible to what comes after. A ticket that fails later does
 * so for itself: rota_poll says that, and the stream goes on. `stream` as for rota_stream_signal, whose errors these
 * are, too; also rota_wait's. May block in the driver. */
ROTA_API rota_status rota_stream_wait(rota_device *device, void *stream, rota_ticket ticket,
                                      uint64_t timeout_ns);

/* The point is reached when the ticket is complete or failed; which of the two, rota_poll says. It is rota's completer
 * that moves the timeline then. May block in malloc. INVALID_ARGUMENT: also a timeline of another runtime. */
ROTA_API rota_status rota_ticket_export(rota_ticket ticket, rota_external_timeline *timeline, uint64_t value);

#endif
