/* Inside an application: devices and memory that it has already are rota's, too, and work comes after its own. Threads,
 * progress and fork are as of runtime.h. */
#ifndef ROTA_SCHED_EMBED_H
#define ROTA_SCHED_EMBED_H

#include <stdbool.h>
#include <stdint.h>
#include "../exec/application.h"
#include "embed_memory.h"
#include "runtime.h"

/* ---- Devices of the application's ---- */

/* Opens a VkDevice that the application has made, beside whatever else it does with that. It is a device like any
 * other: it passes the smoke test, its id ("vk:app0") is found by rota_device_open, and it belongs to the runtime; in
 * rota_devices it is not. rota makes its objects on the VkDevice and destroys them in rota_runtime_close; instance,
 * device and queues are the application's, which keeps them, the queues' locks and the allocators until then: also
 * where the call is REFUSED or the device is lost, for rota has its objects, and maybe works, on it as before. Where
 * close abandons the device (rota_devices_abandoned), the driver may still be at its work, and a thread of rota's in a
 * queue's lock: the application keeps all of that for good.
 *
 * Required are VK_QUEUE_COMPUTE_BIT of the queue's family, and, switched on when the VkDevice was made, the features
 * timelineSemaphore, bufferDeviceAddress, synchronization2 (of Vulkan 1.3 or VK_KHR_synchronization2), shaderInt64 and
 * scalarBlockLayout. What else kernels use where it is on: storageBuffer16BitAccess with shaderInt16, shaderFloat16,
 * storageBuffer8BitAccess with shaderInt8, shaderBufferInt64Atomics, hostQueryReset, subgroupSizeControl,
 * vulkanMemoryModel with cooperativeMatrix; VK_EXT_memory_budget, VK_EXT_calibrated_timestamps,
 * VK_KHR_external_memory_fd, VK_EXT_external_memory_dma_buf, VK_KHR_external_semaphore_fd,
 * VK_EXT_external_memory_host.
 *
 * INVALID_ARGUMENT names the member that is wrong, or the device that the VkDevice is open as; UNSUPPORTED names all
 * that the VkDevice was made without; DEVICE_LOST: it was REFUSED to this runtime before, or its device is lost, and it
 * is not tried again; REFUSED, OUT_OF_RANGE: as rota_device_open. May block, also for a queue's lock, and for what
 * the application has on a queue that is shared: the smoke test's works are behind it. So are the last ones of a
 * runtime that closes: who closes it holds no such lock, and lets nothing on the queue wait for what comes after, or
 * the device is abandoned at close's deadline, with all its memory. */
ROTA_API rota_status rota_device_open_vulkan(rota_runtime *runtime, const rota_vulkan_device *vulkan,
                                             rota_device **out_device);

/* Opens a GPU in a CUDA context of the application's, or in its primary one, with device memory from the application's
 * allocator, so that rota's and its own come from one pool (exec/application.h says how). It is a device like any other
 * (id "cuda:app0"), which may stand beside "cuda:0". A context that is given stays current where it was, and must live
 * until the runtime is closed. INVALID_ARGUMENT names the member that is wrong, or the device that the context is open
 * as; DEVICE_LOST: as of rota_device_open_vulkan; NOT_FOUND, UNSUPPORTED, REFUSED, OUT_OF_RANGE: as rota_device_open.
 * May block. */
ROTA_API rota_status rota_device_open_cuda(rota_runtime *runtime, const rota_cuda_context *cuda,
                                           rota_device **out_device);

/* ---- Points of the application's ----
 *
 * A timeline is a number that only rises; a point of it is reached once the number is at least the point's value.
 * Submissions come after points by rota_submit_options.after, and points are reached by tickets
 * (rota_ticket_export). So rota's work and the application's are put in order without a thread that waits. */

/* A timeline at 0. `name` is copied (NULL: unnamed). The caller owns one reference; submissions, tickets and streams
 * that name it hold it. May block in malloc. */
ROTA_API rota_status rota_external_timeline_create(rota_runtime *runtime, const char *name,
                                                   rota_external_timeline **out_timeline);
/* One reference less. Any thread, also after the runtime was closed; the last one may block in malloc, and one of a
 * semaphore's until rota's thread has asked the driver for its value, or given it the signal of what was reached: where
 * a driver keeps that thread, as of a GPU that hangs, for the runtime's timeout. Then the log says so, the timeline
 * stays, and the semaphore is not to be destroyed, as on a device that close abandons. So meanwhile no lock is held
 * that this thread may take: the queue's, or one of the log function's, from which none is released. NULL is
 * ignored. */
ROTA_API void rota_external_timeline_release(rota_external_timeline *timeline);

/* All points up to `value` are reached: what the calling thread wrote before is seen by what comes after them. A value
 * that the timeline has passed changes nothing. Any thread; lock-free: it may be called from a driver's callback. Who
 * comes after the point may release the timeline before the call is over: where that was the last reference, the call
 * frees it, and may block in malloc.
 * Also while the runtime closes, which waits for what is held up to its deadline; WRONG_STATE after that, and in a
 * child after a fork, though the value rises then too. A semaphore's is signalled (vkSignalSemaphore) by a
 * thread of rota's, mostly within 1 ms of the call, and at the latest when the runtime is closed; that is WRONG_STATE,
 * with nothing changed, as soon as it closes. Where the driver does not take the signal, which the log says, the point
 * is reached for rota all the same. */
ROTA_API rota_status rota_external_timeline_signal(rota_external_timeline *timeline, uint64_t value);
/* Where it is; a semaphore's as rota saw it last, which looks at those that something waits for. What was to be done
 * before is visible to the calling thread. Wait-free. */
ROTA_API rota_status rota_external_timeline_value(const rota_external_timeline *timeline,
                                                  uint64_t *out_value);

/* A timeline that is a semaphore of the application's: `semaphore` is a VkSemaphore of VK_SEMAPHORE_TYPE_TIMELINE, made
 * by the VkDevice that `device` was opened on (rota_device_open_vulkan). It is where the semaphore is: what the
 * application's queues and threads signal are points of it, and a point that rota reaches (rota_ticket_export,
 * rota_external_timeline_signal) is signalled on the semaphore, so that submits of the application's wait for it on the
 * GPU. Each value is signalled by one of the two, in ascending order, as Vulkan wants it. That a value of rota's is
 * signalled is seen on the semaphore alone: the ticket has ended, and rota_external_timeline_value has the value, some
 * time before, mostly less than 1 ms. So who signals a later one waits for rota's on the semaphore (vkWaitSemaphores on
 * the host, or a wait of the submit that signals): else Vulkan may be told of rota's after that, which it forbids.
 *
 * A submission of any device comes after points of it: it is held without a thread of the application's waiting, while
 * one of rota's looks at the semaphore, up to 2 ms late. What the application has promised
 * (rota_external_timeline_promise) the device waits for itself.
 *
 * The semaphore stays the application's, which releases the timeline, in the runtime's life, before it destroys it,
 * and both when the tickets that come after it have ended: what is held for a released timeline has its deadline.
 * Where the device is lost, tickets end before the GPU is through, and the semaphore stays until the runtime is
 * closed; where close abandons the device, for good. It is behind one timeline at a time: who adopts it once more
 * has released the one before. Some drivers (Mesa's) still use a semaphore when what waited for it on the GPU has
 * ended, and its ticket with it: vkQueueWaitIdle on the queue, or the runtime's close, is the end of that, too. May
 * block in malloc. UNSUPPORTED: a device that is not an application's; DEVICE_LOST; OUT_OF_MEMORY. */
ROTA_API rota_status rota_external_timeline_adopt(rota_device *device, void *semaphore, const char *name,
                                                  rota_external_timeline **out_timeline);

/* A timeline that is a semaphore of `device`, a Vulkan one of rota's or of the application's, which others have too: of
 * an opaque file descriptor that Vulkan exported (vkGetSemaphoreFdKHR, of another VkDevice or process on the GPU, or
 * rota_external_timeline_export), which stays the caller's; or, with fd -1, a new one at 0. It is to be of a timeline
 * semaphore: what a binary one's becomes Vulkan does not say. It is as of
 * rota_external_timeline_adopt, but that it is rota's, and lives until the runtime is closed. INVALID_ARGUMENT: also a
 * descriptor that the driver does not take; UNSUPPORTED: a device that takes none over. May block in the driver. */
ROTA_API rota_status rota_external_timeline_import(rota_device *device, int fd, const char *name,
                                                   rota_external_timeline **out_timeline);
/* A descriptor of such a semaphore, the caller's to close. UNSUPPORTED: a timeline that rota_external_timeline_import
 * did not make; TIMEOUT: a driver has kept who asks for it for the runtime's timeout. May block in the driver. */
ROTA_API rota_status rota_external_timeline_export(rota_external_timeline *timeline, int *out_fd);

/* The application says that the signals of all points of a semaphore up to `value` are submitted to their queues, or
 * done, and wait for no ticket that is submitted later than what comes after them: the queue would wait for itself.
 * A submission whose works are all on the semaphore's device, and which comes after no more than 4 points of such
 * semaphores, then waits for them on the GPU: it goes over at once, and nobody waits on the host. Without it that would
 * not do: the queue would wait for a signal that may never be submitted, with all that is behind on it.
 * May come before rota_submit_with or after. What was promised and does not come about keeps the device from there on,
 * like a kernel that does not end. Any thread; lock-free. UNSUPPORTED: a timeline that is no semaphore; WRONG_STATE. */
ROTA_API rota_status rota_external_timeline_promise(rota_external_timeline *timeline, uint64_t value);

/* The point is reached when all that was put on the application's CUDA stream so far is done: the driver calls, and
 * nobody waits. So a submission comes after a stream's position, and after an event by cuStreamWaitEvent before.
 * `stream` is a CUstream of the context of `device`, mostly the GPU's primary one; a default stream is
 * CU_STREAM_LEGACY or CU_STREAM_PER_THREAD, not NULL. May block in malloc and the driver. UNSUPPORTED: a device
 * without streams; INVALID_ARGUMENT: also a stream of another context, a timeline of another runtime; WRONG_STATE:
 * also a stream that is being captured; DEVICE_LOST. Where the context fails meanwhile the point is not reached, and
 * what comes after it has its deadline. The call holds the timeline until the driver has called, which it does in that
 * case, too. A stream that gets there while the runtime closes does not move a semaphore's, and nobody is told: where a
 * submit waits for that, who closes the runtime has waited for the stream. */
ROTA_API rota_status rota_stream_signal(rota_device *device, void *stream, rota_external_timeline *timeline,
                                        uint64_t value);

/* What is put on the application's CUDA stream after the call comes after the ticket: the device waits, and the call
 * returns when the drivers of CUDA devices have been given all works that the ticket's end comes after. Where that end
 * is another device's, or bytes that go to the host, the stream waits for a word in memory that rota's completer
 * writes, some microseconds after it. What the drivers have not been given within a second, as behind a point that is
 * not reached, or works that bring their bytes through the host, is waited for, as by rota_wait with `timeout_ns`; so
 * is an end elsewhere where the GPU's streams do not wait for words
 * (CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS). What was written before is visible to what comes after. A ticket
 * that fails later does so for itself, whatever it fails by, a lost device or the runtime's close included: rota_poll
 * says that, and the stream goes on. A ticket that nothing ends, as a host node of the application's that is never
 * ended, keeps the stream until close. The stream may come to its wait after the runtime was closed: then 4 KiB of
 * pinned memory stay in the context. Nothing that the ticket's end waits for on the host may wait for the stream, as a
 * host node does, or who signals a point that works of the CPU come after, by calls that wait for all of the device
 * (cuMemFree, cuCtxSynchronize, the legacy stream), or by another stream's work that is put there after the call: they
 * would wait for one another, for good. `stream` as for rota_stream_signal, whose errors these are, too; also
 * rota_wait's. May block in the driver. */
ROTA_API rota_status rota_stream_wait(rota_device *device, void *stream, rota_ticket ticket,
                                      uint64_t timeout_ns);

/* What is submitted to the device after the call comes after what was put on the application's CUDA stream so far: the
 * device waits, on each of its queues that has a work by then, and nobody does on the host; a submission that is held,
 * or on its way to the driver, may come after it, too. So replays follow one another without a gap where a stream has
 * what is between them: rota_stream_wait, the stream's own work, this, and the next replay. rota_stream_signal and
 * rota_submit_options.after put one submission after a stream, and leave the rest of the device alone; here a stream
 * that does not get on keeps all of it, for as long as it stands. The stream waits for tickets by rota_stream_wait
 * alone, which sees to it that the driver has them: one that waits in another way (a point of rota_ticket_export, a
 * function of the host's) for a ticket that is not complete may wait for what comes after the stream itself, for good.
 * `stream` as for rota_stream_signal, whose errors these are, too. The 65th of such calls waits while the first is
 * behind a stream that does not get on, and is TIMEOUT after the runtime's. May block in the driver. */
ROTA_API rota_status rota_stream_follow(rota_device *device, void *stream);

/* The point is reached when the ticket is complete or failed; which of the two, rota_poll says. It is rota's completer
 * that moves the timeline then, as rota_external_timeline_signal does: of a semaphore, a submit of the application's
 * that waits for the value goes on. On a queue that it shares with rota it may not wait for a ticket that is not
 * complete, whose works may be behind it there. The semaphore is signalled after the ticket's end is seen: who signals
 * a later value waits for this one on the semaphore (rota_external_timeline_adopt).
 * May block in malloc. INVALID_ARGUMENT: also a timeline of another runtime. */
ROTA_API rota_status rota_ticket_export(rota_ticket ticket, rota_external_timeline *timeline, uint64_t value);

#endif
