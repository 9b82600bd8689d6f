/* The executor contract: what sched hands to a device and what it may rely on. Internal; not installed.
 *
 * An executor gets *lowered programs*: commands on logical queues, cut into segments, with batches, barriers,
 * waits and signals written out. It knows nothing of graphs or plans. Everything that orders two commands is
 * in what it receives; a correct executor may do anything that this allows (tests/adversary.c does).
 *
 * What orders commands, and nothing else does:
 *   - inside a segment, either of two equivalent descriptions; an executor picks one:
 *       batches: all commands of batch i complete, and their writes are visible, before any command of batch
 * i+1 of that segment starts (a barrier stands between); commands of one batch are unordered; edges:   a
 * command starts after all its predecessors in the segment completed (CSR, transitively reduced but for edges
 * through joins).
 *   - between works (one submission of one segment): a work starts after, for each of its waits (queue,
 * value), that queue's timeline has reached the value. Waits are cumulative along a queue: a wait of a work
 * holds for all later works of the same queue. A wait on the work's own queue is legal and means: after the
 * earlier works up to that value (on a GPU: a barrier). Without a wait two works of one queue may overlap and
 * finish in any order, but
 *   - a queue's timeline reaches value v only when every work of that queue with signal value <= v has
 * completed and its writes are visible to whoever waits for v, on any queue, or on the host after `advanced`.
 * Values of a queue's works are handed over in ascending order; waits name values handed over earlier (P2).
 *
 * Threads: one thread at a time per device calls submit (the device's submit thread). memory_*, program_* and
 * instance_* may be called from any threads at once, also during submit. Destroy functions are called only
 * after the last use's timeline value has passed or the device was lost, and may block in the driver until
 * the device has nothing more to do. */
#ifndef ROTA_EXEC_EXEC_H
#define ROTA_EXEC_EXEC_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/log.h"
#include "base/status.h"
#include "exec/device.h"
#include "graph/graph.h"

typedef struct rota_exec_driver rota_exec_driver;
typedef struct rota_exec_device rota_exec_device;
typedef struct rota_exec_memory rota_exec_memory;
typedef struct rota_exec_program rota_exec_program;
typedef struct rota_exec_instance rota_exec_instance;
typedef struct rota_exec_timeline rota_exec_timeline;

#define ROTA_EXEC_QUEUES_MAX 22

/* ---- Memory ---- */

typedef enum rota_exec_memory_flags {
    ROTA_EXEC_MEMORY_DEVICE = 0,
    ROTA_EXEC_MEMORY_HOST_WRITE = 1u << 0, /* mapped, for the host to write and the device to read (upload staging) */
    ROTA_EXEC_MEMORY_HOST_READ = 1u << 1,  /* mapped and cached, for the host to read (read-back staging) */
    ROTA_EXEC_MEMORY_SHARED = 1u << 2 /* other devices of the GPU may import it; alone, and only where
                                         caps.shares_memory */
} rota_exec_memory_flags;

/* An executor's memory object starts with this. Address and size never change (P5). */
struct rota_exec_memory {
    uint64_t address; /* device address; on the CPU executor the pointer. Aligned to ROTA_BUFFER_ALIGNMENT */
    void *host;       /* mapped pointer, coherent; NULL if not mapped */
    uint64_t size_bytes;
};

/* A memory as another device of the same GPU takes it over: an opaque file descriptor of the allocation that it
 * lies in. An import ends before the memory that it is of, unless its device is lost: what that may still touch
 * is kept. */
typedef struct rota_exec_export {
    int fd;                    /* the caller's to close; an import leaves it as it is */
    uint64_t allocation_bytes; /* of all that the descriptor stands for */
    uint64_t offset_bytes;     /* of the memory in it */
    uint64_t size_bytes;
} rota_exec_export;

/* ---- Lowered program ---- */

typedef enum rota_exec_command_kind {
    ROTA_EXEC_COMMAND_KERNEL,
    ROTA_EXEC_COMMAND_COPY, /* operand 0 destination (WRITE), operand 1 source (READ) */
    ROTA_EXEC_COMMAND_FILL, /* operand 0 */
    ROTA_EXEC_COMMAND_HOST  /* CPU executor only */
} rota_exec_command_kind;

typedef struct rota_exec_operand {
    uint64_t offset_bytes; /* added to the base; below 2^48 */
    uint64_t size_bytes;
    /* Base: the address of memories[memory] of the instance; or, if is_slot, block[memory], a 64-bit address given
     * at each submission (on the CPU executor it may be any host pointer). */
    uint32_t memory;
    uint8_t is_slot;
    uint8_t mode;    /* rota_access_mode */
    uint16_t reserved;
} rota_exec_operand;

/* A bindable parameter taken from the argument block: the low 4 or all 8 bytes of block[word] at every submission. */
typedef struct rota_exec_binding {
    uint32_t bindable; /* index in kernel->bindables */
    uint32_t word;
} rota_exec_binding;

typedef struct rota_exec_command {
    uint32_t node;          /* for messages and per-node times: see rota_exec_host.node_name */
    uint8_t kind;           /* rota_exec_command_kind */
    uint8_t operand_count; /* a kernel's, and one more where the scheduler added a workspace (last) */
    uint8_t binding_count;
    uint8_t reserved;
    uint32_t first_operand; /* in program->operands */
    uint32_t first_binding; /* in program->bindings */
    union {
        struct {
            const rota_kernel *kernel;
            const void *params; /* kernel->param_bytes; lives as long as the program description */
            uint32_t groups[3]; /* where the kernel has no grid function */
        } kernel;
        struct {
            uint32_t pattern;
        } fill;
        struct {
            rota_host_fn fn;
            void *user;
        } host;
    } u;
} rota_exec_command;

typedef struct rota_exec_batch {
    uint32_t first_command, command_count; /* commands of a segment are contiguous, batch after batch */
} rota_exec_batch;

typedef struct rota_exec_segment {
    uint32_t queue;
    uint32_t first_batch, batch_count; /* batch_count 0: an empty segment that only waits and signals */
    uint32_t first_command, command_count;
    uint32_t first_join, join_count; /* of the program's joins */
} rota_exec_segment;

typedef enum rota_exec_memory_kind {
    ROTA_EXEC_BASE_PERSISTENT, /* one persistent buffer's memory: the same in every instance */
    ROTA_EXEC_BASE_ARENA,      /* a piece of a transient arena: per arena */
    ROTA_EXEC_BASE_STAGING     /* mapped memory of INPUT or OUTPUT contents: per instance */
} rota_exec_memory_kind;

/* A lowered program. Borrowed by program_create until program_destroy; immutable. */
typedef struct rota_exec_program_desc {
    const char *name;
    uint32_t queue_count;
    uint32_t command_count, operand_count, binding_count, batch_count, segment_count, memory_count;
    const rota_exec_command *commands;
    const rota_exec_operand *operands;
    const rota_exec_binding *bindings;
    const rota_exec_batch *batches;
    const rota_exec_segment *segments;
    /* Edges inside segments, over command indices: successors of c are successor[first_successor[c] ..
     * first_successor[c+1]); predecessor_count[c] is how many there are. From command_count on stand joins,
     * which have no command: one is passed when its predecessors completed or were passed, and has
     * successors, commands or joins of higher numbers, in the same segment. Batches need none. */
    uint32_t join_count;
    const uint32_t *first_successor; /* command_count + join_count + 1 */
    const uint32_t *successor;
    const uint32_t *predecessor_count;
    uint32_t block_words; /* 8-byte words of the argument block; 0: none */
    const uint8_t *memory_kind; /* rota_exec_memory_kind of each memory */
    const void *owner; /* for rota_exec_host.node_name and the poison calls */
} rota_exec_program_desc;

/* ---- Submission ---- */

typedef struct rota_exec_wait {
    uint32_t queue;
    uint64_t value;
} rota_exec_wait;

/* Most timeline_waits of one work. */
#define ROTA_EXEC_TIMELINE_WAITS_MAX 4

/* A wait, on the device, for another device of the same GPU: until a timeline that both have has the value. */
typedef struct rota_exec_timeline_wait {
    rota_exec_timeline *timeline; /* this device's object */
    uint64_t value;
} rota_exec_timeline_wait;

/* A copy that comes with a work instead of with a program: host reads and writes, moves between devices. Any byte
 * offsets and sizes. Both are memories of this device; on a device with caps.unified_host either may instead be any
 * mapped memory, of which only `host` is used. The copies of one work do not overlap and are unordered. */
typedef struct rota_exec_copy {
    rota_exec_memory *destination, *source;
    uint64_t destination_offset, source_offset, size_bytes;
} rota_exec_copy;

/* One submission of one segment, or of a list of copies. */
typedef struct rota_exec_work {
    rota_exec_instance *instance; /* NULL: no commands, only waits, copies if any, and a signal */
    const rota_exec_copy *copies; /* with instance NULL; read during submit only */
    uint32_t copy_count;
    uint32_t segment;
    /* The segment's own, or in its place one from segment_queues on: that for all works of the submission whose
     * segments are of the same queue. */
    uint32_t queue;
    uint64_t signal_value; /* greater than every earlier one of this queue */
    const rota_exec_wait *waits; /* read during submit only, as is block */
    uint32_t wait_count;
    /* The work comes after works of devices that share memory with this one, which the host has seen complete or
     * which timeline_waits are for. What they wrote is to be visible to this work and to all that are handed over
     * after it. */
    bool acquires;
    /* Cumulative along the queue like waits. Each is for a value whose signal the other device's driver was given
     * before, so what waits for what on the GPU follows the order of submission, and no circle can arise. */
    const rota_exec_timeline_wait *timeline_waits; /* read during submit only */
    uint32_t timeline_wait_count;
    /* NULL, or what other devices wait for instead of this queue: made to reach signal_value, or a later value of the
     * queue, once the queue's timeline may, and the driver has been told to when submit returns. */
    rota_exec_timeline *timeline;
    /* block_words words of arguments; the executor copies them during submit. Every work of a submission has the same
     * contents. NULL where block_words is 0. */
    const uint64_t *block;
    void *cookie; /* handed back through rota_exec_host */
} rota_exec_work;

/* What an executor calls back. All may be called from any executor thread. None waits for a device or for an
 * application thread; `advanced` takes no lock but such as are held for moments, where devices wait for each other and
 * with diagnostics. */
typedef struct rota_exec_host {
    void *user;
    rota_log log;
    /* The timeline of `queue` has reached `value`. Called in ascending order per queue; may skip values. */
    void (*advanced)(void *user, uint32_t queue, uint64_t value);
    /* A command of the work failed (before the work's value is reached). `message` is copied. */
    void (*failed)(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                   const char *message);
    /* The device is lost: submit fails, no timeline moves any more, and the host frees what only this device used. So
     * it is called when nothing of the device's touches memory any more; an executor that cannot know (the driver gave
     * up, or a deadline did) keeps all memory that it may still touch, whatever is destroyed, until close. Where it takes
     * a while until nothing is touched, submit may take works in vain meanwhile. */
    void (*lost)(void *user, rota_status status, const char *message);
    /* Failed ranges (P9). `poison_active` is nonzero while any range known to this device's runtime is failed; an
     * executor that can (the CPU's) then asks before each command whether it must be skipped, and reports success
     * after it. When a command failed it calls `failed`, which marks the ranges. A work of copies is asked for and
     * reported as a whole, with owner NULL and node 0; skipped copies move no bytes. */
    const _Atomic uint32_t *poison_active;
    bool (*must_skip)(void *user, void *cookie, const void *owner, uint32_t node);
    void (*succeeded)(void *user, void *cookie, const void *owner, uint32_t node);
    /* The device's interrupts keep these CPUs busy: threads that serve it do better on others. NULL: nobody cares. */
    void (*interrupted)(void *user, const cpu_set_t *cpus);
    /* The name of a node, for messages; static for the life of the program. */
    const char *(*node_name)(const void *owner, uint32_t node);
} rota_exec_host;

typedef struct rota_exec_open_options {
    rota_exec_host host;
    uint32_t queue_count;     /* logical queues, 1 to ROTA_EXEC_QUEUES_MAX */
    uint32_t transfer_queue;  /* logical queue meant for uploads and read-backs; queue_count or above: none */
    uint32_t segment_queues;  /* 0, or: the queues from this one on are those of no segment and take works of any */
    uint32_t worker_threads;  /* CPU executor; 0: one per core of the process's affinity */
    bool diagnostics;         /* per-node markers and times */
    bool touch;               /* exec/vk: the touch mode of the tests */
    const char *cache_dir;    /* pipeline caches; NULL: $XDG_CACHE_HOME/rota, else ~/.cache/rota; "": none */
    uint64_t spin_ns;         /* exec/vk, exec/cuda: how long the completion thread looks before it naps; 0: its default */
    uint32_t max_in_flight;   /* bound on driver submissions not yet complete; 0: the executor's default */
    bool validation;          /* exec/vk: enable the Khronos validation layer; messages count as errors */
    void *test;               /* test executors' own options */
} rota_exec_open_options;

/* Times of one command in its last completed run, on the host's clock (rota_clock_ns), only with diagnostics. */
typedef struct rota_exec_time {
    uint64_t begin_ns, end_ns; /* both 0: not run */
} rota_exec_time;

typedef struct rota_exec_device_vtable {
    /* Stops the device. Ends at the deadline whatever the driver does: what it may still touch, or call the host
     * from, is then abandoned, its bytes counted in out_abandoned_bytes (never 0 then). No calls follow. */
    void (*close)(rota_exec_device *device, uint64_t deadline_ns, uint64_t *out_abandoned_bytes);
    /* OUT_OF_MEMORY names asked and free bytes. */
    rota_status (*memory_create)(rota_exec_device *device, uint64_t size_bytes, uint32_t flags, const char *name,
                                 rota_exec_memory **out_memory);
    void (*memory_destroy)(rota_exec_device *device, rota_exec_memory *memory);
    /* Where caps.shares_memory: a descriptor of memory made with ROTA_EXEC_MEMORY_SHARED; and memory of another
     * device by its descriptor, at an address of this device's own, which memory_destroy ends. */
    rota_status (*memory_export)(rota_exec_device *device, rota_exec_memory *memory,
                                 rota_exec_export *out_export);
    rota_status (*memory_import)(rota_exec_device *device, const rota_exec_export *from, const char *name,
                                 rota_exec_memory **out_memory);
    /* Where caps.timeline_queues: a timeline at 0, new where fd is -1 (caps.makes_timelines), else the one that fd
     * stands for, which stays the caller's. It lives until close. */
    rota_status (*timeline_create)(rota_exec_device *device, int fd, rota_exec_timeline **out_timeline);
    /* Where caps.makes_timelines; the descriptor is the caller's to close. */
    rota_status (*timeline_export)(rota_exec_device *device, rota_exec_timeline *timeline, int *out_fd);
    /* Lets the timeline reach the value, from outside all queues: whoever should have signalled it is lost, and what
     * waits for it on this GPU is to go on. May be asked again and again, and of a device that is lost itself. One
     * thread at a time. */
    rota_status (*timeline_signal)(rota_exec_device *device, rota_exec_timeline *timeline, uint64_t value);
    /* Compiles pipelines and so on; may block. UNSUPPORTED names kernel and reason. */
    rota_status (*program_create)(rota_exec_device *device, const rota_exec_program_desc *desc,
                                  rota_exec_program **out_program);
    void (*program_destroy)(rota_exec_device *device, rota_exec_program *program);
    /* A program with its memories (memory_count of them, borrowed until instance_destroy): command buffers are recorded
     * here, once. If the program has argument words, an instance is not submitted again before its earlier
     * submission completed, unless caps.reuse_in_flight. Without, it may be in flight any number of times. */
    rota_status (*instance_create)(rota_exec_device *device, rota_exec_program *program,
                                   rota_exec_memory *const *memories, rota_exec_instance **out_instance);
    void (*instance_destroy)(rota_exec_device *device, rota_exec_instance *instance);
    /* Hands over works, in order; may merge them into one driver call and signal only the last value of a run. May
     * block in the driver, never for a stopped application thread. DEVICE_LOST or OUT_OF_MEMORY: nothing of the rest
     * was submitted and `lost` was or will be called. */
    rota_status (*submit)(rota_exec_device *device, const rota_exec_work *works, uint32_t count);
    /* Per-command times of the instance's last completed run (diagnostics only). `out` has the program's
     * command_count entries. */
    rota_status (*times)(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out);
    /* Diagnostics: the node most likely running or stuck, for deadline messages. False if not known.
     * Wait-free, as who asks is inside a wait: takes what the executor's own threads have noted, enters no
     * driver. */
    bool (*stuck_node)(rota_exec_device *device, rota_exec_instance *instance, uint32_t *out_node);
    /* NULL, or: the CPU time so far of the threads with which the executor watches the device (not of those that run
     * kernels), spinning excluded. Any thread. */
    uint64_t (*own_cpu_ns)(rota_exec_device *device);
} rota_exec_device_vtable;

typedef struct rota_exec_caps {
    bool unified_host;      /* device addresses are host pointers: no staging memory, slots may hold host pointers */
    bool reuse_in_flight;   /* an instance with argument words may be submitted again before it completed */
    bool submit_never_blocks; /* the sequencer may call submit itself */
    bool runs_host_nodes;
    bool shares_memory; /* with devices that say so too and whose `gpu` is the same */
    bool makes_timelines; /* that those take over by descriptor */
    uint32_t timeline_queues; /* bit per logical queue whose works can wait for and signal such timelines */
} rota_exec_caps;

/* An executor's device object starts with this. */
struct rota_exec_device {
    const rota_exec_device_vtable *vtable;
    rota_exec_caps caps;
    rota_device_info info;
    uint8_t gpu[16]; /* which GPU it is, as its vendor tells them apart; with caps.shares_memory */
    const rota_cuda_target *cuda; /* what CUDA kernels are chosen by; NULL on other devices */
};

/* The kernel whose cuda part a node of `kernel` runs on a device: asked in the same way by who compiles a plan and by
 * who launches it. */
static inline const rota_kernel *rota_exec_cuda_kernel(const rota_kernel *kernel, const void *params,
                                                       const uint64_t *operand_bytes, uint32_t slot_mask,
                                                       const rota_cuda_target *target) {
    const rota_kernel *other =
        kernel->cuda.select ? kernel->cuda.select(params, operand_bytes, slot_mask, target) : NULL;
    return other ? other : kernel;
}

struct rota_exec_driver {
    const char *name; /* the part of the id before ':' */
    rota_exec_kind kind;
    /* Lists devices, also those that lack something (usable = false). Fills up to capacity; out_count is how many
     * there are. No driver installed: ROTA_OK with 0 devices, and a sentence in rota_last_error saying why. */
    rota_status (*enumerate)(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                             uint32_t *out_count);
    rota_status (*open)(const rota_exec_driver *driver, uint32_t index, const rota_exec_open_options *options,
                        rota_exec_device **out_device);
};

extern const rota_exec_driver rota_exec_cpu_driver;
extern const rota_exec_driver rota_exec_vk_driver;
extern const rota_exec_driver rota_exec_cuda_driver;

#endif
