/* The CUDA executor's objects, shared by its files. Internal; not installed.
 *
 * Context. A device is the primary context of a GPU, retained while the device is open. It is pushed at the
 * start of each call and popped at its end (rota_cuda_enter, rota_cuda_leave), so that whatever context the
 * calling thread had is current again. Every stream is non-blocking and rota's own; the default streams are
 * never named.
 *
 * Queues. Each logical queue is a stream. Works go to it in order, so waits for works of the same queue hold
 * by themselves. A *mark* is an event recorded behind a run of works: all of them are complete when it is.
 * One is set at the end of each submit call on the queues that it used; behind each work while few marks are
 * in flight, else at the latest behind ROTA_CUDA_MERGE_MAX works; and where a work of another queue waits for
 * a value that no mark covers yet. A wait for (queue, value) is a wait for the first mark at or above the
 * value; it is left out when that is complete or an earlier wait of the same stream implies it. The
 * completion thread looks at the oldest marks of the queues and reports their values.
 *
 * Instances. Each segment that has commands is one executable graph (cuda_graph.c), with parameters as fixed
 * values. Only what is in slots is read from the argument block: the submission's words are written to pinned
 * memory, and the graph's first node copies them to a block in device memory, one for each segment. */
#ifndef ROTA_EXEC_CUDA_CUDA_DEVICE_H
#define ROTA_EXEC_CUDA_CUDA_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include "base/atomic.h"
#include "exec/cuda/cuda_api.h"
#include "exec/exec.h"

/* Works behind which a mark is set at the latest: bounds how long the first of them waits to be reported. */
#define ROTA_CUDA_MERGE_MAX 16u
/* While fewer marks than this are in flight, each work has its own: two long works handed over at once, as by
 * a trainer that keeps one step ahead, are else reported together, and the device has nothing to do until
 * their caller has been woken and has sent the next. */
#define ROTA_CUDA_UNMERGED_MAX 4u
/* Marks of a queue in flight when the options give no bound. With MERGE_MAX works each this stays below the
 * depth (about 1 000 launches) at which a stream blocks the caller. */
#define ROTA_CUDA_IN_FLIGHT_DEFAULT 32u
#define ROTA_CUDA_MARKS 64u /* the most */
/* A kernel's operands and, last, its scratch memory. */
#define ROTA_CUDA_OPERANDS_MAX (ROTA_KERNEL_OPERANDS_MAX + 1)
#define ROTA_CUDA_PREPARED_MAX 3072u

typedef struct rota_cuda_device rota_cuda_device;

/* ---- Objects in lists, so that close can find what is left ---- */

typedef struct rota_cuda_link {
    struct rota_cuda_link *previous, *next;
} rota_cuda_link;

/* Under the device's lock. */
static inline void rota_cuda_link_add(rota_cuda_link *list, rota_cuda_link *link) {
    link->next = list->next;
    link->previous = list;
    list->next->previous = link;
    list->next = link;
}
static inline void rota_cuda_link_remove(rota_cuda_link *link) {
    link->previous->next = link->next;
    link->next->previous = link->previous;
}

/* ---- Results, the context, streams (cuda_context.c) ---- */

/* OK, or the failure as a sentence; a result that ends the context marks the device lost. */
rota_status rota_cuda_check(rota_cuda_device *device, CUresult result, const char *what);
/* Marks the device lost and returns DEVICE_LOST with the sentence. Once, it waits until the device touches
 * nothing more, and calls host.lost: at once where the result ends the context, else when what is in flight
 * is through. Where it is not within DRAIN_NS, what it may still touch is never freed (`noisy`). */
rota_status rota_cuda_lose(rota_cuda_device *device, CUresult result, const char *what);
/* Marks the device lost with that sentence and, once, lets it come to rest and calls host.lost, as above.
 * `is_over`: its context has ended, and nothing is at work any more. */
void rota_cuda_give_up(rota_cuda_device *device, bool is_over, const char *message);
/* Makes the device's context current, until rota_cuda_leave. DEVICE_LOST if it is gone. Until then the
 * thread's capture mode is relaxed: a capture of the application's in the default mode, on any thread, would
 * else make the driver refuse rota's queries and allocations, and break off that capture. */
rota_status rota_cuda_enter(rota_cuda_device *device);
/* The same, also on a lost device. */
CUresult rota_cuda_push(rota_cuda_device *device);
/* For what ends an object: false where the driver does not make the context current now (it is short of
 * memory itself). What was to go stays on its list for close then, as the log says: a driver's call without
 * the context would fail, or act on another one that the thread has. */
bool rota_cuda_push_to_free(rota_cuda_device *device, const char *what);
void rota_cuda_leave(rota_cuda_device *device);

/* A stream that waits for no default stream. */
rota_status rota_cuda_stream_create(rota_cuda_device *device, CUstream *out_stream);
/* Where nothing else tells: looks until the stream is through, for so long at most. */
void rota_cuda_settle(rota_cuda_device *device, CUstream stream, uint64_t timeout_ns);

/* ---- Memory (cuda_memory.c) ---- */

/* A piece of a page of pinned or of device memory. */
typedef struct rota_cuda_piece {
    uint64_t address;
    uint8_t *host; /* pinned memory */
    uint32_t page, slot;
    bool taken;
} rota_cuda_piece;

/* Device memory that can be exported. */
typedef struct rota_cuda_mapping {
    CUmemGenericAllocationHandle handle;
    uint64_t address, bytes; /* bytes 0: none */
} rota_cuda_mapping;

/* Of one kind: a mapping, a piece of the pool of small memory that can be exported, an import, pinned memory,
 * or what cuMemAlloc gave. */
typedef struct rota_cuda_memory {
    struct rota_exec_memory base; /* first: the contract's part */
    rota_cuda_link link;
    rota_cuda_mapping mapping;
    rota_cuda_piece piece;
    CUexternalMemory external; /* another device's */
} rota_cuda_memory;

/* Pages cut into equal slots, one list of pages for each power-of-two size: pinning costs a millisecond, and
 * freeing device memory waits for the device. */
typedef struct rota_cuda_page {
    rota_cuda_mapping mapping; /* of pages that can be exported */
    uint64_t address;
    uint8_t *host;
    uint64_t slot_bytes;
    uint32_t slot_count, free_count, free_hint;
    uint8_t *used;
} rota_cuda_page;

typedef enum rota_cuda_pool_kind {
    ROTA_CUDA_POOL_DEVICE,
    ROTA_CUDA_POOL_PINNED,
    ROTA_CUDA_POOL_SHARED
} rota_cuda_pool_kind;

typedef struct rota_cuda_pool {
    rota_cuda_pool_kind kind;
    rota_cuda_page *pages;
    uint32_t page_count, page_capacity;
} rota_cuda_pool;

rota_status rota_cuda_piece_take(rota_cuda_device *device, rota_cuda_pool *pool, uint64_t size_bytes,
                                 rota_cuda_piece *out_piece);
void rota_cuda_piece_give(rota_cuda_device *device, rota_cuda_pool *pool, rota_cuda_piece *piece);
void rota_cuda_pool_free(rota_cuda_device *device, rota_cuda_pool *pool);

/* Memory that can be exported, of at least so many bytes. */
CUresult rota_cuda_map(rota_cuda_device *device, uint64_t size_bytes, rota_cuda_mapping *out_mapping);
void rota_cuda_unmap(rota_cuda_device *device, rota_cuda_mapping *mapping);

rota_status rota_cuda_memory_create(rota_exec_device *device, uint64_t size_bytes, uint32_t flags,
                                    const char *name, rota_exec_memory **out_memory);
rota_status rota_cuda_memory_export(rota_exec_device *device, rota_exec_memory *memory,
                                    rota_exec_export *out_export);
rota_status rota_cuda_memory_import(rota_exec_device *device, const rota_exec_export *from, const char *name,
                                    rota_exec_memory **out_memory);
/* The two ways in which an object of a device's list begins and ends. */
void rota_cuda_memory_keep(rota_cuda_device *device, rota_cuda_memory *memory);
void rota_cuda_memory_destroy(rota_exec_device *device, rota_exec_memory *memory);
void rota_cuda_memories_free(rota_cuda_device *device);

/* ---- Timelines of other drivers (cuda_timeline.c) ---- */

rota_status rota_cuda_timeline_create(rota_exec_device *device, int fd, rota_exec_timeline **out_timeline);
rota_status rota_cuda_timeline_signal(rota_exec_device *device, rota_exec_timeline *timeline, uint64_t value);
/* On a stream, with the context current: all that follows waits; and, behind all that is there, the value. */
rota_status rota_cuda_timelines_wait(rota_cuda_device *device, CUstream stream,
                                     const rota_exec_timeline_wait *waits, uint32_t count);
rota_status rota_cuda_timeline_reach(rota_cuda_device *device, CUstream stream, rota_exec_timeline *timeline,
                                     uint64_t value);
void rota_cuda_timelines_free(rota_cuda_device *device);

/* ---- Modules and programs ---- */

/* A loaded image; made once for each content. */
typedef struct rota_cuda_module {
    struct rota_cuda_module *next;
    uint64_t hash[2];
    size_t size_bytes;
    CUmodule handle;
} rota_cuda_module;

/* The function of a kernel that has an image. Blocks in the driver's compiler, under a lock that only
 * compiling takes, the first time. */
rota_status rota_cuda_function_get(rota_cuda_device *device, const rota_kernel *kernel,
                                   CUfunction *out_function);
void rota_cuda_modules_free(rota_cuda_device *device);

typedef enum rota_cuda_form {
    ROTA_CUDA_NOTHING, /* no work: an empty grid, a copy of no bytes */
    ROTA_CUDA_KERNEL,
    ROTA_CUDA_MEMCPY,
    ROTA_CUDA_LIBRARY
} rota_cuda_form;

/* What building a graph needs of one command. */
typedef struct rota_cuda_dispatch {
    const rota_kernel *kernel; /* the chosen one; NULL: a memcpy node */
    CUfunction function;
    rota_cuda_launch launch;
    uint32_t slot_mask, bind_mask;
    uint8_t form; /* rota_cuda_form */
} rota_cuda_dispatch;

typedef struct rota_cuda_segment {
    bool uses_block;  /* some command takes an operand or parameter from the argument block */
    bool has_variant; /* some library node does: its graph depends on the values */
} rota_cuda_segment;

typedef struct rota_cuda_program {
    const rota_exec_program_desc *desc;
    rota_cuda_dispatch *dispatches; /* per command */
    rota_cuda_segment *segments;
    uint32_t block_segments; /* how many use the block */
} rota_cuda_program;

/* Copies with an operand in a slot or small ones from or to pinned memory, and all fills, are kernels. */
extern const rota_kernel rota_cuda_copy_kernel, rota_cuda_fill_kernel;
typedef struct rota_cuda_copy_params {
    uint64_t size_bytes;
} rota_cuda_copy_params;
typedef struct rota_cuda_fill_params {
    uint64_t size_bytes;
    uint32_t pattern;
    uint32_t reserved;
} rota_cuda_fill_params;

rota_status rota_cuda_program_create(rota_exec_device *device, const rota_exec_program_desc *desc,
                                     rota_exec_program **out_program);
void rota_cuda_program_destroy(rota_exec_device *device, rota_exec_program *program);
/* The parameters of a command's kernel: the node's, or those of the kernel that stands in for a copy or fill,
 * written to out_own. */
const void *rota_cuda_command_params(const rota_exec_program_desc *desc, const rota_exec_command *command,
                                     rota_cuda_fill_params *out_own);

/* ---- Library nodes (cuda_library.c) ---- */

/* Captures the node's work alone into a graph of its own. block: the submission's words, NULL if it needs
 * none. */
rota_status rota_cuda_library_capture(rota_cuda_device *device, const rota_cuda_program *program,
                                      uint32_t command, rota_exec_memory *const *memories,
                                      const uint64_t *block, CUgraph *out_graph);
/* Lets the kernels that measure themselves do so, once for each distinct node. */
rota_status rota_cuda_library_tune(rota_cuda_device *device, const rota_cuda_program *program);

/* ---- Instances ---- */

/* Executable graphs of a segment whose library nodes take values from the argument block, by those values. */
#define ROTA_CUDA_VARIANTS 4u
typedef struct rota_cuda_variant {
    uint64_t *words; /* what the segment's library nodes take, in order */
    CUgraphExec exec;
    uint64_t used; /* the count of launches when it was used last */
} rota_cuda_variant;

typedef struct rota_cuda_segment_run {
    CUgraphExec exec;            /* NULL: no commands, or variants */
    rota_cuda_variant *variants; /* ROTA_CUDA_VARIANTS of them, or NULL */
    uint64_t block_address;      /* of its copy of the argument block */
} rota_cuda_segment_run;

typedef struct rota_cuda_run {
    rota_cuda_link link;
    rota_cuda_program *program;  /* NULL: destroyed, but for what close is to free */
    rota_exec_memory **memories; /* for variants; NULL where there are none */
    rota_cuda_segment_run *segments;
    uint32_t segment_count;
    rota_cuda_piece host_block, device_block;
    bool block_written;
    uint64_t launches;
    uint64_t *stamps; /* diagnostics: pinned, two for each command */
    uint64_t stamps_address;
} rota_cuda_run;

rota_status rota_cuda_instance_create(rota_exec_device *device, rota_exec_program *program,
                                      rota_exec_memory *const *memories, rota_exec_instance **out_instance);
void rota_cuda_instance_destroy(rota_exec_device *device, rota_exec_instance *instance);
void rota_cuda_run_free(rota_cuda_device *device, rota_cuda_run *run);
/* The executable graph of a segment for a submission with these words. */
rota_status rota_cuda_run_exec(rota_cuda_device *device, rota_cuda_run *run, uint32_t segment,
                               const uint64_t *block, CUgraphExec *out_exec);
/* Builds a segment's executable graph (cuda_graph.c). block: as in rota_cuda_library_capture. */
rota_status rota_cuda_graph_build(rota_cuda_device *device, rota_cuda_run *run,
                                  rota_exec_memory *const *memories, uint32_t segment, const uint64_t *block,
                                  CUgraphExec *out_exec);

/* ---- Submission ---- */

typedef struct rota_cuda_mark {
    uint64_t value;        /* of the queue */
    uint64_t submitted_ns; /* when it was recorded */
    CUevent event;
} rota_cuda_mark;

typedef struct rota_cuda_queue {
    CUstream stream;
    uint64_t last_value;                    /* submit thread: of the last work */
    uint32_t unmarked;                      /* submit thread: works behind the last mark */
    uint64_t covered[ROTA_EXEC_QUEUES_MAX]; /* submit thread: up to where the stream waits for each queue */
    uint64_t marked_value;                  /* submit thread: of the last mark */
    rota_exec_timeline *timeline; /* submit thread: signalled with the next mark, and nobody's after it */
    uint64_t head;                /* submit thread: marks ever recorded */
    _Atomic uint64_t published;   /* head as the completion thread may see it */
    _Atomic uint64_t tail;        /* marks seen complete by the completion thread */
    rota_cuda_mark marks[ROTA_CUDA_MARKS]; /* at index % ROTA_CUDA_MARKS */
    uint64_t completed_ns;                 /* completion thread: when the last mark was seen complete */
    uint64_t each_ns;                      /* completion thread: what a mark takes, of late */
} rota_cuda_queue;

struct rota_cuda_device {
    rota_exec_device base; /* first: the contract's part */
    rota_exec_host host;
    rota_exec_open_options options;
    const rota_cuda_api *cu;
    rota_cuda_target target;
    char *cache_dir; /* NULL: none */
    CUdevice handle;
    CUcontext context;
    uint64_t granularity; /* of memory that can be exported; 0: the driver has none */

    pthread_mutex_t module_lock; /* modules, functions' attributes; held while the driver compiles */
    rota_cuda_module *modules;
    pthread_mutex_t lock; /* pools, object lists */
    rota_cuda_pool pinned, blocks, shared;
    rota_cuda_link memories, runs;
    _Atomic uint64_t memory_bytes;

    pthread_mutex_t library_lock; /* the private stream: captures, tuning, stamps of the clock */
    CUstream private_stream;
    CUstream submit_stream; /* the same for the submit thread, which waits for no lock that a caller may hold
                               (P4) */
    pthread_mutex_t upload_lock; /* held for two calls, never while waiting */
    CUstream upload_stream;      /* of graphs */
    rota_exec_timeline *timelines;
    CUstream signal_stream; /* on which a lost device's timelines are signalled in its place */
    CUfunction upload_function, stamp_function, fill_function; /* of exec_helpers.cu */
    rota_cuda_piece clock_piece; /* diagnostics: where a stamp is written to compare clocks */
    int64_t clock_offset_ns;     /* rota_clock_ns less the device's timer */

    pthread_mutex_t
        submit_lock; /* recursive; held while works are put on streams, and while a loss waits for them */
    rota_cuda_queue queues[ROTA_EXEC_QUEUES_MAX];
    uint32_t in_flight_max;

    pthread_t thread;
    bool thread_started;
    _Atomic uint32_t closing;
    _Atomic uint32_t thread_done;
    _Atomic uint32_t sleeping;     /* futex of the completion thread: 1 while it sleeps or is about to */
    _Atomic uint64_t nap_until_ns; /* of the completion thread; 0: awake */
    _Atomic uint32_t progress;     /* futex of a submit that waits for room: counts what was seen complete */
    _Atomic uint32_t room_wanted;
    _Atomic uint64_t spin_ns; /* of the completion thread */
    _Atomic uint32_t lost;
    _Atomic uint32_t noisy; /* lost, and still at work */
};

rota_status rota_cuda_submit(rota_exec_device *device, const rota_exec_work *works, uint32_t count);
void *rota_cuda_complete_main(void *device);
uint64_t rota_cuda_own_cpu_ns(rota_exec_device *device);

/* ---- Diagnostics (cuda_times.c; what runs: cuda_running.c) ---- */

/* A stamp, which the device may write meanwhile: what is read is judged by itself. */
static inline uint64_t rota_cuda_stamp_at(const uint64_t *stamps, uint64_t index) {
    return ra_load_relaxed((const _Atomic uint64_t *)&stamps[index]);
}

/* Pinned memory for the stamps of an instance. */
rota_status rota_cuda_stamps_create(rota_cuda_device *device, rota_cuda_run *run);
void rota_cuda_stamps_destroy(rota_cuda_device *device, rota_cuda_run *run);
rota_status rota_cuda_times(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out);
bool rota_cuda_stuck_node(rota_exec_device *device, rota_exec_instance *instance, uint32_t *out_node);
/* The name of a node that began and did not end, in whatever is in flight; NULL without diagnostics. */
const char *rota_cuda_running_node(rota_cuda_device *device);

/* ---- For tests ---- */

/* Whether this build has CUDA images of rota's kernels: without, its devices are listed as not usable. */
bool rota_cuda_has_kernels(void);

#endif
