/* A device and its calls: the table that each executor fills (exec.h says who calls what). Internal; not
 * installed. */
#ifndef ROTA_EXEC_EXEC_TABLE_H
#define ROTA_EXEC_EXEC_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "exec/device.h"
#include "exec/exec_host.h"
#include "exec/exec_memory.h"
#include "exec/exec_program.h"
#include "exec/exec_semaphore.h"
#include "exec/exec_work.h"
#include "exec/locality.h"
#include "graph/kernel_calls.h"

typedef struct rota_exec_device rota_exec_device;

/* Times of one command in its last completed run, on the host's clock (rota_clock_ns), only with diagnostics.
 */
typedef struct rota_exec_time {
    uint64_t begin_ns, end_ns; /* both 0: not run */
} rota_exec_time;

/* To be called when what the application has put on a stream is done; begins the caller's own struct. `is_done`: false
 * where it never will be, since the stream's context has failed. */
typedef struct rota_exec_stream_call {
    void (*fn)(struct rota_exec_stream_call *call, bool is_done);
} rota_exec_stream_call;

/* What keeps a stream of the application's until the host opens it; begins the executor's own struct. */
typedef struct rota_exec_stream_latch {
    char unused;
} rota_exec_stream_latch;

/* Where an instance is. */
typedef struct rota_exec_stuck {
    uint32_t node;
    uint64_t iterations; /* of a node that decides: how many it has begun; 0: not known */
    /* And the node of its bodies, or of bodies in them, that runs: with the body's owner. NULL: not known. */
    const void *body_owner;
    uint32_t body_node;
} rota_exec_stuck;

/* Streams of the application's. Any thread. INVALID_ARGUMENT: not a stream of this device; WRONG_STATE: one that is
 * being captured. */
typedef struct rota_exec_streams {
    /* `call` is made once, on a thread of the driver's, when what was put on the stream so far is done or has failed,
     * also after the device was closed; after an error not. */
    rota_status (*call)(rota_exec_device *device, void *stream, rota_exec_stream_call *call);
    /* What is put on the stream from now on comes after a value of a queue, for which the device waits. BUSY, without a
     * sentence: the value was not handed over yet. Waits for no thread of the executor's. */
    rota_status (*wait)(rota_exec_device *device, void *stream, uint32_t queue, uint64_t value);
    /* Works that submit is given from now on, of all queues, come after what was put on the stream so far, for which
     * the device waits. TIMEOUT: streams that were followed before do not get on, and there is no room for one more. */
    rota_status (*follow)(rota_exec_device *device, void *stream, uint64_t timeout_ns);
    /* Whether the driver has what submit was given of a queue up to the value, and nothing of it is launched later;
     * true of a device that is lost. Wait-free. */
    bool (*is_given)(rota_exec_device *device, uint32_t queue, uint64_t value);
    /* What is put on the stream from now on waits until the latch is opened, once, or the device closes. UNSUPPORTED:
     * its streams can't. What opens it depends on nothing that any device's driver is given later. */
    rota_status (*latch)(rota_exec_device *device, void *stream, rota_exec_stream_latch **out_latch);
    /* Any thread, also of a device that was lost; lock-free, enters no driver. */
    void (*open_latch)(rota_exec_device *device, rota_exec_stream_latch *latch);
    /* All of them, of a device that is left and not closed; from now on none is closed. As open_latch. */
    void (*open_latches)(rota_exec_device *device);
} rota_exec_streams;

/* Peers: devices of one executor on different GPUs, whose works wait for one another's and whose copies read one
 * another's memory, without the host. Any thread; may block in the driver. */
typedef struct rota_exec_peers {
    /* Whether the device can do all of that with the other; both are asked. From then on the rest may be. UNSUPPORTED:
     * why it can't. */
    rota_status (*meet)(rota_exec_device *device, rota_exec_device *other);
    /* The device's copies, of works and of programs, may read memory of the other's own from now on, by the other's
     * object, until it is destroyed; so the device's works that do have ended before that. UNSUPPORTED: memory of a
     * kind of which it can't. */
    rota_status (*memory_open)(rota_exec_device *device, rota_exec_device *other, rota_exec_memory *memory);
    /* A timeline at 0 which the device's works signal, and the same as another device waits for it. Both live until
     * close of the device that has them, in any order. timeline_signal is by the host, and also of a lost device's. */
    rota_status (*timeline_open)(rota_exec_device *device, rota_exec_timeline **out_timeline);
    rota_status (*timeline_meet)(rota_exec_device *device, const rota_exec_timeline *other,
                                 rota_exec_timeline **out_timeline);
} rota_exec_peers;

typedef struct rota_exec_device_vtable {
    /* Stops the device. Ends at the deadline whatever the driver does: what it may still touch, or call the
     * host from, is then abandoned, its bytes counted in out_abandoned_bytes (never 0 then). No calls follow.
     */
    void (*close)(rota_exec_device *device, uint64_t deadline_ns, uint64_t *out_abandoned_bytes);
    /* OUT_OF_MEMORY names asked and free bytes. */
    rota_status (*memory_create)(rota_exec_device *device, uint64_t size_bytes, uint32_t flags,
                                 const char *name, rota_exec_memory **out_memory);
    void (*memory_destroy)(rota_exec_device *device, rota_exec_memory *memory);
    /* Where caps.shares_memory: a descriptor of memory made with ROTA_EXEC_MEMORY_SHARED, opaque or a dma-buf
     * (UNSUPPORTED: what the device lacks for that); and memory of another device by its descriptor, at an address of
     * this device's own, which memory_destroy ends. */
    rota_status (*memory_export)(rota_exec_device *device, rota_exec_memory *memory, bool is_dma_buf,
                                 rota_exec_export *out_export);
    rota_status (*memory_import)(rota_exec_device *device, const rota_exec_export *from, const char *name,
                                 rota_exec_memory **out_memory);
    /* NULL, or: memory of the application's as the device's, which it makes no copy of and never frees.
     * UNSUPPORTED: of a kind that it does not take; INVALID_ARGUMENT: not there, or not all of it. */
    rota_status (*memory_adopt)(rota_exec_device *device, const rota_exec_foreign *from, const char *name,
                                rota_exec_memory **out_memory);
    /* In the place of memory_destroy for such. False: the device is lost and may still touch it, until it is
     * closed. */
    bool (*memory_return)(rota_exec_device *device, rota_exec_memory *memory);
    /* Where caps.timeline_queues: a timeline at 0, new where fd is -1 (caps.makes_timelines), else the one
     * that fd stands for, which stays the caller's. It lives until close. */
    rota_status (*timeline_create)(rota_exec_device *device, int fd, rota_exec_timeline **out_timeline);
    /* Where caps.makes_timelines; the descriptor is the caller's to close. */
    rota_status (*timeline_export)(rota_exec_device *device, rota_exec_timeline *timeline, int *out_fd);
    /* Lets the timeline reach the value, from outside all queues: whoever should have signalled it is lost,
     * and what waits for it on this GPU is to go on. May be asked again and again, and of a device that is
     * lost itself. One thread at a time. */
    rota_status (*timeline_signal)(rota_exec_device *device, rota_exec_timeline *timeline, uint64_t value);
    /* Compiles pipelines and so on; may block. UNSUPPORTED names kernel and reason. */
    rota_status (*program_create)(rota_exec_device *device, const rota_exec_program_desc *desc,
                                  rota_exec_program **out_program);
    void (*program_destroy)(rota_exec_device *device, rota_exec_program *program);
    /* A program with its memories (memory_count of them, borrowed until instance_destroy): command buffers
     * are recorded here. If the program has argument words or counted commands, an instance is not submitted
     * again before its earlier submission completed, unless caps.reuse_in_flight, so that submit may record or
     * rewrite what reads words that have stayed the same (common/steady.h), and the host may look at what a
     * command left. Without, it may be in flight any number of
     * times. */
    rota_status (*instance_create)(rota_exec_device *device, rota_exec_program *program,
                                   rota_exec_memory *const *memories, rota_exec_instance **out_instance);
    /* Once each of its works has been reported on its own queue (rota_exec_host.advanced), not only what came after
     * them on another, or the device is lost: what failed of a work may be looked at until then. */
    void (*instance_destroy)(rota_exec_device *device, rota_exec_instance *instance);
    /* Hands over works, in order; may merge them into one driver call and signal only the last value of a
     * run. May block in the driver, never for a stopped application thread. DEVICE_LOST or OUT_OF_MEMORY:
     * nothing of the rest was submitted and `lost` was or will be called. */
    rota_status (*submit)(rota_exec_device *device, const rota_exec_work *works, uint32_t count);
    /* Per-command times of the instance's last completed run (diagnostics only). `out` has the program's
     * command_count entries. */
    rota_status (*times)(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out);
    /* Diagnostics: the node most likely running or stuck, for deadline messages. False if not known.
     * Wait-free, as who asks is inside a wait: takes what the executor's own threads have noted, enters no
     * driver. */
    bool (*stuck_node)(rota_exec_device *device, rota_exec_instance *instance, rota_exec_stuck *out_stuck);
    const rota_exec_streams *streams; /* NULL: the device has none */
    const rota_exec_peers *peers;     /* NULL: it has none; the same for those that may be */
    /* NULL, or: a timeline semaphore that the application may signal, of this device. A thread of the executor's looks
     * at it from each semaphore_look on for as long as one is wanted, until it is to be forgotten, or close; also after
     * the device was lost. */
    void (*semaphore_adopt)(rota_exec_device *device, rota_exec_semaphore *semaphore);
    /* NULL, or: the handle of a semaphore of the device's own that others have, too, for semaphore_adopt: of a
     * descriptor, which stays the caller's, or new at 0 where fd is -1. It lives until close. */
    rota_status (*semaphore_import)(rota_exec_device *device, int fd, void **out_handle);
    rota_status (*semaphore_export)(rota_exec_device *device, void *handle, int *out_fd);
    /* More of a semaphore is wanted than before, or is to be signalled. Wakes that thread; enters no driver. */
    void (*semaphore_look)(rota_exec_device *device);
    /* Lets a semaphore reach the value by the host; one that has is left alone. One thread at a time for each. */
    rota_status (*semaphore_signal)(rota_exec_device *device, void *handle, uint64_t value);
    /* NULL, or: the CPU time so far of the threads with which the executor watches the device (not of those
     * that run kernels), spinning excluded. Any thread. */
    uint64_t (*own_cpu_ns)(rota_exec_device *device);
} rota_exec_device_vtable;

typedef struct rota_exec_caps {
    bool unified_host; /* device addresses are host pointers: no staging memory, slots may hold host pointers
                        */
    bool reuse_in_flight;     /* an instance with argument words may be submitted again before it completed */
    bool submit_never_blocks; /* the sequencer may call submit itself */
    bool runs_host_nodes;
    bool runs_conditionals; /* and what their bodies hold; what it can't run of that program_create refuses */
    /* What they choose is launched by the host: nothing that comes after a work that has some is handed over before it
     * has ended. */
    bool hosts_decisions;
    bool runs_counted;        /* rota_exec_command.is_counted */
    bool asks_must_skip;      /* of its works and nodes, by the host's must_skip; else hand-over decides */
    bool only_touches;        /* rota_exec_open_options.touch: it computes nothing */
    bool shares_memory;       /* with devices that say so too and whose `gpu` is the same */
    bool makes_timelines;     /* that those take over by descriptor */
    uint32_t timeline_queues; /* bit per logical queue whose works can wait for and signal such timelines */
} rota_exec_caps;

/* An executor's device object starts with this. */
struct rota_exec_device {
    const rota_exec_device_vtable *vtable;
    rota_exec_caps caps;
    /* NULL, or: submit may leave a part of a work with loops to this, which goes on with all such works as far as it
     * can. By the thread that calls submit, once the host was told that it goes_on; errors as submit. *out_moved: the
     * device got on with one since the last call. */
    rota_status (*go_on)(rota_exec_device *device, bool *out_moved);
    /* NULL, or: by the thread that calls submit, when it ends; also of a lost device. It may block as submit does, and
     * nothing is submitted after it. */
    void (*submit_ended)(rota_exec_device *device);
    rota_device_info info;
    uint8_t gpu[16];         /* which GPU it is, as its vendor tells them apart; with caps.shares_memory */
    rota_locality locality;  /* threads that serve it are near it, and the host's memory that it works on */
    const void *application; /* handle of the application's device that it is; NULL: of one that rota made */
    /* What CUDA kernels are chosen by, and the same for plans that are deterministic; NULL on other devices. */
    const rota_cuda_target *cuda, *cuda_by_table;
    const rota_cuda_target
        *images; /* what CUDA images are chosen by on a Vulkan device that launches them, else NULL */
};

/* The kernel whose cuda part a node of `kernel` runs on a device: asked in the same way by who compiles a
 * plan and by who launches it. */
static inline const rota_kernel *rota_exec_cuda_kernel(const rota_kernel *kernel, const void *params,
                                                       const uint64_t *operand_bytes, uint32_t slot_mask,
                                                       const rota_cuda_target *target) {
    const rota_kernel *other = rota_kernel_cuda_select(kernel, params, operand_bytes, slot_mask, target);
    return other ? other : kernel;
}

#endif
