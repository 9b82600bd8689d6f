/* The runtime: its devices, persistent buffers, and their bytes as the host reads and writes them. Plans are
 * submitted by submit.h.
 *
 * Threads: every function may be called from any number of threads at once unless it says otherwise. The
 * outcome is bit-identical to the same submissions in the same order on one thread; the order is
 * rota_ticket_number.
 *
 * Progress: functions marked wait-free or lock-free never allocate or enter a driver, and a thread stopped
 * inside one delays no other thread's call or submission. The rest may block in malloc or a driver.
 *
 * Fork: a runtime does not survive fork; in the child every call on it that gives a status gives WRONG_STATE,
 * or what makes its arguments wrong anyway, and enters no driver; releases and close only free. */
#ifndef ROTA_SCHED_RUNTIME_H
#define ROTA_SCHED_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>
#include "../base/clock.h"
#include "../base/log.h"
#include "../exec/device.h"
#include "../graph/graph.h"
#include "submit.h"

typedef struct rota_device rota_device;

/* As of rota_runtime_options.compiled. */
typedef rota_status (*rota_compiled_fn)(void *user, rota_graph *graph, rota_plan *plan);

typedef struct rota_runtime_options {
    size_t struct_size; /* sizeof, by ROTA_RUNTIME_OPTIONS() */
    rota_log log;
    /* Default deadline of waits and of anything the runtime waits for inside, counted from the last progress
     * of what is waited for; 0: 30 s. Where that is an instance of a plan, which a driver makes while replays
     * overlap, four times as long as it took for the plan's first one is progress. */
    uint64_t timeout_ns;
    /* Of all devices together; 0: no limit beyond the devices'. A plan whose transients have no room in what is free
     * of it when it is compiled is compiled with that as its own limit (rota_compile_options.memory_limit_bytes). */
    uint64_t memory_limit_bytes;
    uint32_t worker_threads;    /* CPU executor; 0: one per core of the process's affinity */
    uint32_t queues_per_device; /* logical queues; 0: 2 (compute, transfer) */
    /* Submissions that wait for a device are merged into one driver call: so many segments of them at most; 0:
     * as many as wait. 1: each completes by itself. */
    uint32_t merge_max;
    uint32_t staging_slots;      /* slots of each device's upload ring; 0: 16 */
    uint64_t staging_slot_bytes; /* of each; what is larger is staged in memory made for it; 0: 1 MiB */
    /* Writes larger than a slot, and smaller ones while all slots wait for kernels or other devices, are
     * staged in whole, counted in memory_limit_bytes. Of those that are under way to a device at a time no
     * more than so many bytes, and of those to one buffer that wait for kernels or other devices as many
     * beside; one that is larger by itself goes when no other is. 0: 64 MiB */
    uint64_t staging_limit_bytes;
    /* Staging memory that no transfer needed for so long is given back, and of the memory of submissions that
     * have ended half of what no later one needed. 0: 5 s */
    uint64_t staging_idle_ns;
    /* How long rota's threads look for more work, or for the device's end, and rota_wait for its ticket's,
     * before they sleep: waking a sleeper costs 10 us, on a virtual machine up to 100, and there are two on
     * the way to the device and two on the way back. Each that looks keeps a core. 0, and anything shorter
     * than the default: 50 us after the last submission, 20 after the device's last work, 10 in rota_wait;
     * each of them 100 where what it looks for came within 100 us several times in a row, and the process
     * may use four CPUs or more, which others leave to it; and less where a thread that computes has the core.
     * The CPU executor's workers take no part. Whatever is said here, threads on the way of a collective of a
     * device's memory look for it for 1 ms, but there: two submit threads and that of ranks. */
    uint64_t spin_ns;
    bool diagnostics; /* per-node markers and times; costs device time */
    bool validation;  /* Vulkan: with the Khronos validation layer, whose messages go to `log` */
    /* Folder of the caches (Vulkan pipelines, fused CUDA kernels, choices found by measuring, what
     * rota_plan_learn keeps), copied; NULL:
     * $XDG_CACHE_HOME/rota, else $HOME/.cache/rota, of which a relative one counts as none; "": none. A file
     * there is used only if it belongs to the user or to root and nobody else may write it. */
    const char *cache_dir;
    /* Names of plans and nodes for tools. Vulkan: by VK_EXT_debug_utils, labels around each segment and node in
     * its command buffers, and names of buffers and pipelines, which RenderDoc and Nsight Graphics show. CUDA: by
     * NVTX, which Nsight Systems shows: a range around each launch of a segment, and one around each node while
     * its CUDA graph is built. Made when plans are; a launch costs a range where a tool is there. Without that
     * extension, or a tool that takes NVTX, there are none. */
    bool debug_names;
    /* Called with each graph that rota_compile compiled for this runtime, and its plan, before that returns, on its
     * thread: so a program's graphs are seen without a change where they are compiled. rota_capture
     * (file/graph_file.h) is such a function. What is not ROTA_OK is what rota_compile returns, in the place of the
     * plan. It must not close the runtime. NULL: nothing is called. */
    rota_compiled_fn compiled;
    void *compiled_user; /* lives as long as the runtime */
} rota_runtime_options;
#define ROTA_RUNTIME_OPTIONS(...) ROTA_SIZED(rota_runtime_options, __VA_ARGS__)

/* Opens a runtime; starts no device yet. `options` may be NULL, and is not needed afterwards. The caller owns
 * the runtime. May block. INVALID_ARGUMENT: more queues a device than possible, or staging slots of a size
 * that is not a multiple of ROTA_BUFFER_ALIGNMENT or that together pass ROTA_BUFFER_SIZE_MAX; OUT_OF_MEMORY;
 * SYSTEM: no threads. */
ROTA_API rota_status rota_runtime_open(const rota_runtime_options *options, rota_runtime **out_runtime);

/* Refuses new submissions (WRONG_STATE), waits up to timeout_ns for what is in flight, closes the devices.
 * Ends at its deadline, but for up to a second that each of its threads and devices has to end once it is
 * told to. Then TIMEOUT: what a device that doesn't answer may still touch is abandoned, counted in the
 * message, never freed, and submissions that had not begun are dropped. Tickets keep their meaning as values:
 * polling one after close is WRONG_STATE. Objects still referenced (plans, buffers) become empty shells whose
 * release is legal. No other call on the runtime may be running. NULL is ignored. */
ROTA_API rota_status rota_runtime_close(rota_runtime *runtime, uint64_t timeout_ns);

/* How many devices this process has given up so far: when their runtime was closed, or when they were refused
 * while opening, they, or a thread in their driver, had not come to an end, and may go on for ever. Where a
 * callback does not return by close's deadline all devices of its runtime count, as do those that lent memory
 * to one that is given up: none of them is closed. It never falls. Where it is not 0, leave the process by
 * fflush and _exit: returning from main, and exit, run the drivers' exit handlers, some of which wait for
 * their device without a deadline. Wait-free, any thread, with or without a runtime. */
ROTA_API uint32_t rota_devices_abandoned(void);

/* ---- Devices ---- */

/* Describes every device, also those that are not usable. out_infos may be NULL when capacity is 0; else
 * out_infos[0].struct_size is the size of each of its elements (base/sized.h; INVALID_ARGUMENT), which all
 * get it. On success rota_last_error names the executors that have no device, and why (no driver, say); empty
 * if there are none. May block. */
ROTA_API rota_status rota_devices(rota_runtime *runtime, rota_device_info *out_infos, uint32_t capacity,
                                  uint32_t *out_count);

/* Opens a device by id ("cpu", "vk:0"; NULL or "auto": the best that passes its smoke test, a real GPU before
 * the CPU before a software GPU, and of GPUs those of CUDA first), or returns it if it is open. The device
 * belongs to the runtime. Runs the smoke test, which waits for the device up to the runtime's default
 * deadline, at least 5 s: a device that fails it is REFUSED, and tried again by the next call for it.
 * NOT_FOUND lists the ids there are; UNSUPPORTED says what the device lacks; OUT_OF_RANGE: there are 64
 * already, those that were lost or refused counted in. May block. */
ROTA_API rota_status rota_device_open(rota_runtime *runtime, const char *id, rota_device **out_device);

/* Why "auto" chose what it chose the first time: one sentence, valid until the runtime closes. "" before.
 * Wait-free. */
ROTA_API const char *rota_device_choice(const rota_runtime *runtime);

/* Runs the smoke test: a = fill(65536, 1), b = fill(65536, 2), c = a + b, all with two back-to-back uploads;
 * every element of c must be 3.0. `idle_ns` idles between the steps. REFUSED names the first wrong element.
 */
ROTA_API rota_status rota_device_smoke(rota_device *device, uint64_t idle_ns);

ROTA_API const rota_device_info *rota_device_get_info(const rota_device *device);

/* The runtime a device belongs to. */
ROTA_API rota_runtime *rota_device_runtime(const rota_device *device);

/* ---- Persistent buffers ---- */

/* A PERSISTENT buffer. Memory on a device is allocated when the first plan that uses it there is compiled, or
 * at the first host write. Contents are undefined until written (reading them is UNDEFINED_DATA). The caller
 * owns one reference. */
ROTA_API rota_status rota_buffer_create_in(rota_runtime *runtime, const char *name, uint64_t size_bytes,
                                           rota_buffer **out_buffer);

/* Gives the buffer memory on the device now, so that nothing later allocates. OUT_OF_MEMORY names asked, free
 * and limit. */
ROTA_API rota_status rota_buffer_prepare(rota_buffer *buffer, rota_device *device);

/* The buffer's address on the device (fixed for its life); NOT_FOUND before it has memory there. */
ROTA_API rota_status rota_buffer_address(rota_buffer *buffer, rota_device *device, uint64_t *out_address);

/* ---- Host access to persistent buffers: ordered like nodes ---- */

/* Writes bytes, as one submission, whatever their number: a reader sees all of it or nothing, and if it
 * fails, the range counts as failed as a whole. `data` is copied before the call returns: into a slot of
 * the upload ring, or, larger than that, into staging memory of its size, which is made if there is none (in
 * pieces of 16 MiB and one of the next power of two). Where slots are taken, or large writes already have
 * staging_limit_bytes under way, or as much of the buffer's own waits for kernels or other devices, it waits
 * for room, in turn, up to the default deadline; for what waits on other buffers' account it does not. The
 * buffer goes to `device`, or, if NULL, to where its valid bytes are (never written: the runtime's first
 * open device). `out_ticket` may be NULL; of 0 bytes nothing is submitted, and the ticket is none (id 0).
 * OUT_OF_RANGE, OUT_OF_MEMORY (names the memory limit; nothing was written), DEVICE_LOST, TIMEOUT (no room),
 * WRONG_STATE (closed, or no device open). May block in malloc and the driver. */
ROTA_API rota_status rota_buffer_write(rota_buffer *buffer, rota_device *device, uint64_t offset_bytes,
                                       const void *data, uint64_t size_bytes, rota_ticket *out_ticket);

/* Reads what the last write submitted before this call produced: submits a copy, one whatever its size,
 * and waits for it, up to the default deadline. Needs staging memory of its size on the devices that have the
 * bytes; what it costs beyond that grows with the writers of the range that are unfinished, not with those
 * that are through. UNDEFINED_DATA if part of the range, or of what its writer read, was never written;
 * NODE_FAILED with the first cause if a writer of any of it failed; OUT_OF_MEMORY. After an error out_data is
 * as it was. May block in malloc. */
ROTA_API rota_status rota_buffer_read(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                                      uint64_t size_bytes);

/* The same without waiting. `out_data` is the caller's and stays so: it is to be valid, and left alone by
 * others, until the ticket has ended; of OUTPUTs and reads into the same memory the later one's bytes come
 * later. The bytes are there when the ticket is complete; if it failed, out_data is as it was. The buffer may
 * be released meanwhile. What the ticket says is what rota_buffer_read returns. `out_ticket` may be NULL; of
 * 0 bytes nothing is submitted, and the ticket is none (id 0). BUSY: no room for a submission; 4096 reads and
 * writes of the buffer wait for kernels or other devices; or, under a memory limit, no room for the staging
 * memory beside that of others. Waits for nobody; may block in malloc. */
ROTA_API rota_status rota_buffer_read_async(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                                            uint64_t size_bytes, rota_ticket *out_ticket);

/* ---- Statistics ---- */

typedef struct rota_runtime_stats {
    size_t struct_size;                       /* sizeof, by ROTA_RUNTIME_STATS() */
    uint64_t memory_bytes, memory_peak_bytes; /* device memory held; also what lost devices may still touch */
    uint64_t buffers, plans;                  /* live ones */
    uint64_t submissions, completed, failed;
    uint64_t driver_submits;             /* driver submit calls made (merging makes this less) */
    uint64_t waits_dropped;              /* cross-queue waits proved implied */
    uint64_t device_waits;               /* of a device for another one, without the host */
    uint64_t migrations, migrated_bytes; /* copies between devices */
    uint64_t reclaim_pending;            /* released objects that are not freed yet */
    uint64_t abandoned_bytes;            /* by devices that did not answer at close */
    uint64_t scheduler_cpu_ns; /* CPU time of the runtime's own threads; without spinning, callbacks */
    uint64_t peer_bytes;       /* of migrated_bytes: what a GPU read out of another one's memory itself */
} rota_runtime_stats;
#define ROTA_RUNTIME_STATS(...) ROTA_SIZED(rota_runtime_stats, __VA_ARGS__)

/* What was counted so far; each number is exact, but not all are of one moment. All 0 for a runtime that is
 * closed, and WRONG_STATE. INVALID_ARGUMENT: out_stats->struct_size (base/sized.h). Any thread; O(devices).
 */
ROTA_API rota_status rota_runtime_get_stats(rota_runtime *runtime, rota_runtime_stats *out_stats);

#endif
