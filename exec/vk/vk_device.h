/* The Vulkan executor's objects, shared by its files. Internal; not installed.
 *
 * Queues. A *real* queue is a VkQueue: the compute queue, and where the device has a family that only copies,
 * a transfer queue. Each real queue has one timeline semaphore. The works of a real queue are numbered
 * (sequence), in the order in which they were handed over; the semaphore's value is the sequence up to which
 * all of them completed, so a run of works merged into one VkSubmitInfo2 needs one signal. The timeline of a
 * *logical* queue is a history of (value, real queue, sequence); a wait for (logical queue, value) becomes a
 * wait for a sequence of each real queue that had works of it, and `advanced` is called when the completion
 * thread sees those sequences reached.
 *
 * Every logical queue runs on the compute queue, except the one named transfer_queue where there is a real
 * transfer queue: of its works, those whose segment holds nothing but copies and fills at fixed addresses
 * (and those without commands) go to the transfer queue, the others to the compute queue. Which one is fixed
 * per program segment. Its history keeps the values of both in order, and its waits hold for later works on
 * either.
 *
 * A wait for works on the same real queue of the same logical queue is a barrier between command buffers. One
 * for another logical queue is a semaphore wait even on the same real queue, so that a device with one queue
 * exercises them. A wait that an earlier wait or barrier on that real queue implies is dropped. */
#ifndef ROTA_EXEC_VK_VK_DEVICE_H
#define ROTA_EXEC_VK_VK_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include "base/atomic.h"
#include "base/thread_cpus.h"
#include "exec/exec.h"
#include "exec/interrupts.h"
#include "exec/vk/vk_loader.h"

#define ROTA_VK_REALS_MAX 2
/* Works of one logical queue whose sequence is remembered; also the bound on works in flight. */
#define ROTA_VK_HISTORY 2048u
/* Most works merged under one signal: bounds how long the first of them waits to be reported. */
#define ROTA_VK_MERGE_MAX 64u
/* While fewer signals than this are awaited, each work has its own: two long works handed over at once, as by
 * a trainer that keeps one step ahead, are else reported together, and the device has nothing to do until
 * their caller has been woken and has sent the next. */
#define ROTA_VK_UNMERGED_MAX 4u
/* Bounds of one vkQueueSubmit2 call. */
#define ROTA_VK_INFOS_MAX 64u
#define ROTA_VK_BUFFERS_MAX 512u
/* Of one info: a wait for each real queue, and for other devices; the signal of its own real queue, and one
 * for each logical queue. */
#define ROTA_VK_INFO_WAITS_MAX (ROTA_VK_REALS_MAX + ROTA_EXEC_TIMELINE_WAITS_MAX)
#define ROTA_VK_WAITS_MAX (ROTA_VK_INFOS_MAX * ROTA_VK_REALS_MAX + ROTA_VK_INFO_WAITS_MAX)
#define ROTA_VK_INFO_SIGNALS_MAX (1u + ROTA_EXEC_QUEUES_MAX)
#define ROTA_VK_SIGNALS_MAX (2u * ROTA_VK_INFOS_MAX + ROTA_VK_INFO_SIGNALS_MAX)
/* Works with copies of their own in flight on one real queue. */
#define ROTA_VK_COPIES_MAX 128u
/* Driver submissions in flight when the options give no bound; below the depth at which drivers block. */
#define ROTA_VK_IN_FLIGHT_DEFAULT 64u
#define ROTA_VK_IN_FLIGHT_MAX 256u
/* A full device that completes nothing for this long is given up: submit must end (P2), and a kernel is not
 * expected to run for minutes. */
#define ROTA_VK_STALL_NS (120ull * 1000000000ull)

typedef struct rota_vk_device rota_vk_device;

/* ---- Physical devices ---- */

/* What a device lent by the driver can do and which extensions and features are switched on for it. */
typedef struct rota_vk_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup;
    uint32_t turns_max; /* of the loops of an invocation, all together: what the driver ends them after; 0:
                           nothing */
    uint8_t cache_uuid[VK_UUID_SIZE];
    uint32_t compute_family, transfer_family; /* transfer_family == compute_family: no family of its own */
    uint32_t timestamp_bits;                  /* of the compute family */
    bool core13, memory_budget, calibrated_timestamps, bytes_8bit, host_query_reset;
    bool cooperative_matrix, bfloat16, cooperative_matrix_2, subgroup_control_extension, binary_import;
    bool shares_memory;   /* by opaque file descriptors */
    bool makes_timelines; /* that others take over by such */
    uint8_t uuid[VK_UUID_SIZE];
    char pci[40]; /* its folder under /sys/bus/pci/devices; "" where it does not say */
    rota_device_info info;
} rota_vk_physical;

/* A VkInstance with its functions; one per open device, and a passing one per enumeration. */
typedef struct rota_vk_instance {
    const rota_vk_global *global;
    VkInstance handle;
    rota_vk_instance_table vk;
    uint32_t api_version;
    bool validation; /* the layer is on */
} rota_vk_instance;

/* Makes an instance; with `validation` the Khronos layer where it is installed, its messages going to
 * `device`. */
rota_status rota_vk_instance_open(rota_vk_device *device, bool validation, rota_vk_instance *out_instance);
void rota_vk_instance_close(rota_vk_instance *instance);
/* The physical devices' handles; out_count may exceed capacity. */
rota_status rota_vk_physical_list(const rota_vk_instance *instance, VkPhysicalDevice *out_handles,
                                  uint32_t capacity, uint32_t *out_count);
/* Looks a device over; info.usable and info.missing say whether rota can run on it. */
void rota_vk_physical_query(const rota_vk_instance *instance, VkPhysicalDevice handle, uint32_t index,
                            rota_vk_physical *out_physical);
/* Creates the VkDevice with the queues and everything switched on that rota's kernels may use. */
rota_status rota_vk_physical_open(const rota_vk_instance *instance, const rota_vk_physical *physical,
                                  VkDevice *out_device);

/* ---- Objects in lists, so that close can find what is left ---- */

typedef struct rota_vk_link {
    struct rota_vk_link *previous, *next;
} rota_vk_link;

/* Under the device's lock. */
static inline void rota_vk_link_add(rota_vk_link *list, rota_vk_link *link) {
    link->next = list->next;
    link->previous = list;
    list->next->previous = link;
    list->next = link;
}
static inline void rota_vk_link_remove(rota_vk_link *link) {
    link->previous->next = link->next;
    link->next->previous = link->previous;
}

/* ---- Memory ---- */

/* Of every buffer. */
#define ROTA_VK_BUFFER_USAGE                                                                                 \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |                                 \
     VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT)

typedef struct rota_vk_memory {
    struct rota_exec_memory base; /* first: the contract's part */
    rota_vk_link link;
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t buffer_offset; /* of base.address in buffer, which begins where `memory` does */
    uint64_t allocation_bytes;
    bool is_import;
} rota_vk_memory;

/* A host-written, device-read piece of memory for an argument block. */
typedef struct rota_vk_block {
    uint64_t address;
    uint64_t *words;
    uint32_t page, slot; /* place in the pool; page UINT32_MAX: none */
} rota_vk_block;

/* Block pools: pages cut into equal slots, one list of pages for each power-of-two size. */
typedef struct rota_vk_block_page {
    rota_vk_memory *memory;
    uint32_t slot_bytes, slot_count, free_count, free_hint;
    uint8_t *used;
} rota_vk_block_page;

rota_status rota_vk_block_take(rota_vk_device *device, uint32_t words, rota_vk_block *out_block);
void rota_vk_block_give(rota_vk_device *device, rota_vk_block *block);
void rota_vk_blocks_free(rota_vk_device *device);

rota_status rota_vk_memory_create(rota_exec_device *device, uint64_t size_bytes, uint32_t flags,
                                  const char *name, rota_exec_memory **out_memory);
void rota_vk_memory_destroy(rota_exec_device *device, rota_exec_memory *memory);
rota_status rota_vk_memory_export(rota_exec_device *device, rota_exec_memory *memory,
                                  rota_exec_export *out_export);
rota_status rota_vk_memory_import(rota_exec_device *device, const rota_exec_export *from, const char *name,
                                  rota_exec_memory **out_memory);
void rota_vk_memories_free(rota_vk_device *device);

/* ---- Timelines that other drivers have too (vk_timeline.c) ---- */

rota_status rota_vk_timeline_create(rota_exec_device *device, int fd, rota_exec_timeline **out_timeline);
rota_status rota_vk_timeline_export(rota_exec_device *device, rota_exec_timeline *timeline, int *out_fd);
rota_status rota_vk_timeline_signal(rota_exec_device *device, rota_exec_timeline *timeline, uint64_t value);
VkSemaphore rota_vk_timeline_handle(const rota_exec_timeline *timeline);
void rota_vk_timelines_free(rota_vk_device *device);

/* ---- Pipelines and programs ---- */

typedef struct rota_vk_pipeline {
    struct rota_vk_pipeline *next; /* in its bucket */
    uint64_t hash;
    VkPipeline handle;
    /* The key. */
    uint32_t *words; /* a copy: the kernel may be gone when another comes with equal hash */
    size_t size_bytes;
    char *entry;
    uint32_t slot_mask, bind_mask, spec_count, subgroup_size;
    uint32_t spec[ROTA_KERNEL_SPEC_MAX];
} rota_vk_pipeline;

#define ROTA_VK_PIPELINE_BUCKETS 256u

typedef struct rota_vk_pipeline_key {
    const rota_kernel *kernel;
    uint32_t slot_mask, bind_mask;
    uint32_t spec[ROTA_KERNEL_SPEC_MAX];
} rota_vk_pipeline_key;

/* The pipeline for a key, made when it is the first use. Blocks in the driver's compiler, which serves one
 * caller at a time. */
rota_status rota_vk_pipeline_get(rota_vk_device *device, const rota_vk_pipeline_key *key,
                                 const rota_vk_pipeline **out_pipeline);
void rota_vk_pipelines_free(rota_vk_device *device);

/* ---- CUDA images (vk_image.c) ---- */

typedef struct rota_vk_image rota_vk_image;

/* Around what makes or ends the driver's CUDA context of a device, or a module in it. */
void rota_vk_cuda_lock(void);
void rota_vk_cuda_unlock(void);
/* Finds out what CUDA device this is, or takes the feature off. */
void rota_vk_images_open(rota_vk_device *device);
void rota_vk_images_close(rota_vk_device *device);
/* The function of a kernel's image, made when it is the first use. Blocks in the driver, under the device's
 * lock. */
rota_status rota_vk_image_get(rota_vk_device *device, const rota_kernel *kernel,
                              const rota_vk_image **out_image);
/* How the kernel is launched, checked against what images may have here. */
rota_status rota_vk_image_launch(const rota_vk_device *device, const rota_kernel *kernel, const void *params,
                                 const uint64_t *operand_bytes, const uint32_t *given_groups,
                                 rota_cuda_launch *out_launch);
/* `arguments`: a rota_args of exec/cuda/rota_kernel.cuh; read now. */
void rota_vk_image_record(rota_vk_device *device, VkCommandBuffer buffer, const rota_vk_image *image,
                          const rota_cuda_launch *launch, const void *arguments);

/* ---- Programs ---- */

/* What recording needs of one kernel (or shader-made copy or fill) command: a pipeline or an image, and
 * neither for a copy or fill by the transfer commands. */
typedef struct rota_vk_dispatch {
    const rota_vk_pipeline *pipeline;
    const rota_vk_image *image;
    uint32_t slot_mask, bind_mask; /* with an image */
    rota_cuda_launch launch;       /* with a pipeline, `groups` alone */
} rota_vk_dispatch;

static inline bool rota_vk_is_dispatch(const rota_vk_dispatch *dispatch) {
    return dispatch->pipeline || dispatch->image;
}

/* What commands run as: bits, since a batch or a segment may have both. Barriers name no more than they must:
 * see vk_record.c. */
enum { ROTA_VK_DISPATCH = 1, ROTA_VK_TRANSFER = 2, ROTA_VK_BOTH = 3 };

typedef struct rota_vk_program {
    const rota_exec_program_desc *desc;
    rota_vk_dispatch *dispatches; /* per command */
    uint8_t *segment_real;        /* real queue of each segment */
    uint8_t *segment_kinds;       /* ROTA_VK_DISPATCH and ROTA_VK_TRANSFER bits of each segment */
} rota_vk_program;

/* The kernels with which slot operands are copied and filled, whose addresses no transfer command takes. */
extern const rota_kernel rota_vk_copy_kernel, rota_vk_copy_bytes_kernel, rota_vk_fill_kernel;
typedef struct rota_vk_copy_params {
    uint64_t size_bytes;
} rota_vk_copy_params;
typedef struct rota_vk_fill_params {
    uint64_t size_bytes;
    uint32_t pattern;
    uint32_t reserved;
} rota_vk_fill_params;

rota_status rota_vk_program_create(rota_exec_device *device, const rota_exec_program_desc *desc,
                                   rota_exec_program **out_program);
void rota_vk_program_destroy(rota_exec_device *device, rota_exec_program *program);

/* ---- Touch mode (vk_touch.c) ---- */

typedef struct rota_vk_run rota_vk_run;

typedef struct rota_vk_touch {
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    VkPipeline pipelines[2]; /* that read; that read and write */
} rota_vk_touch;

/* An atomic ACCUMULATE of a program, with a word of its own: see vk_touch.c. */
typedef struct rota_vk_touch_sum {
    const rota_vk_memory *memory;
    uint64_t begin, end;
    uint32_t operand; /* in program->operands */
} rota_vk_touch_sum;

/* What an instance has for the touch mode. */
typedef struct rota_vk_touch_run {
    bool has_slots;                  /* recorded anew at each submission with other arguments */
    const rota_vk_memory **memories; /* of the instance */
    VkDescriptorPool *pools;
    uint32_t pool_count, pools_used, sets_left;
    rota_vk_touch_sum *sums;
    uint32_t sum_count;
    uint32_t word_count, words_used;
    rota_exec_memory *words; /* one word a sum, one for each copy of each sum, one last */
} rota_vk_touch_run;

rota_status rota_vk_touch_open(rota_vk_device *device);
void rota_vk_touch_close(rota_vk_device *device);
/* Makes the touch mode's part of an instance. */
rota_status rota_vk_touch_run_create(rota_vk_run *run, const rota_vk_memory *const *memories);
void rota_vk_touch_run_free(rota_vk_device *device, rota_vk_run *run);
/* Before all of an instance is recorded, for the first time or anew. */
rota_status rota_vk_touch_begin(rota_vk_device *device, rota_vk_run *run);
/* At the start of a segment. */
rota_status rota_vk_touch_segment(rota_vk_device *device, rota_vk_run *run, VkCommandBuffer buffer);
/* Records a command's declared ranges as dispatches that touch them. */
rota_status rota_vk_touch_record(rota_vk_device *device, rota_vk_run *run, VkCommandBuffer buffer,
                                 const rota_exec_command *command);
/* After a copy by the transfer commands: what it reads of sums. */
rota_status rota_vk_touch_copied(rota_vk_device *device, rota_vk_run *run, VkCommandBuffer buffer,
                                 const rota_exec_command *command);

/* ---- Instances ---- */

typedef struct rota_vk_stamp {
    uint64_t ticks, available;
} rota_vk_stamp;

struct rota_vk_run {
    rota_vk_link link;
    rota_vk_program *program;
    VkCommandPool pools[ROTA_VK_REALS_MAX];
    VkCommandBuffer *buffers; /* per segment; VK_NULL_HANDLE where a segment has no commands */
    rota_vk_block block;
    uint64_t *block_copy; /* what the block holds, readable: the block itself may be write-combined */
    bool block_written;
    VkQueryPool queries; /* diagnostics: two timestamps a command */
    rota_vk_stamp *looked_at; /* with queries: room for them, the completion thread's */
    _Atomic uint64_t stuck;   /* what its last look found: device->moves then, and 1 + the node, or 0 */
    rota_vk_touch_run touch;
};

rota_status rota_vk_instance_create(rota_exec_device *device, rota_exec_program *program,
                                    rota_exec_memory *const *memories, rota_exec_instance **out_instance);
void rota_vk_instance_destroy(rota_exec_device *device, rota_exec_instance *instance);
void rota_vk_run_free(rota_vk_device *device, rota_vk_run *run);

/* Touch mode: records the instance's command buffers again, with the addresses that its argument block holds
 * now. No submission of it may be in flight. */
rota_status rota_vk_run_record_anew(rota_vk_device *device, rota_vk_run *run);

/* A barrier: what came before and ran as `from` (kinds), before what follows and runs as `to`. */
void rota_vk_record_barrier(rota_vk_device *device, VkCommandBuffer buffer, uint32_t from, uint32_t to);
/* Makes what was written before visible to the host's reads. */
void rota_vk_record_host_barrier(rota_vk_device *device, VkCommandBuffer buffer, uint32_t from);

/* ---- Submission ---- */

typedef struct rota_vk_point {
    uint64_t value; /* of the logical queue */
    uint64_t sequence;
    uint64_t last[ROTA_VK_REALS_MAX]; /* of the queue's works so far, on each real queue */
    uint32_t real;
    uint32_t reserved;
} rota_vk_point;

typedef struct rota_vk_logical {
    bool split;                                /* works may go to either real queue */
    uint64_t last_value;                       /* submit thread */
    uint64_t last_sequence[ROTA_VK_REALS_MAX]; /* submit thread; 0: no work of it there yet */
    uint64_t
        last_wait[ROTA_EXEC_QUEUES_MAX]; /* split only: largest value waited for, of each logical queue */
    uint64_t head;                       /* submit thread: points ever written */
    _Atomic uint64_t published;          /* head as the completion thread may see it */
    _Atomic uint64_t tail;               /* points reported by the completion thread */
    rota_vk_point *points;               /* ROTA_VK_HISTORY of them, at index % ROTA_VK_HISTORY */
} rota_vk_logical;

typedef struct rota_vk_real {
    VkQueue queue;
    uint32_t family;
    VkSemaphore timeline;
    VkCommandPool pool;
    /* Barriers between works, recorded once, by the kinds before and after; VK_NULL_HANDLE for kinds that the
     * queue does not run. */
    VkCommandBuffer barriers[4][4];
    VkCommandBuffer copies[ROTA_VK_COPIES_MAX]; /* recorded anew for each work that carries copies, in turn */
    uint64_t copy_sequence[ROTA_VK_COPIES_MAX]; /* last work that used each; 0: none */
    uint32_t copy_next;
    uint64_t sequence; /* submit thread: last work added */
    uint64_t flushed;  /* submit thread: last work handed to the driver */
    /* Works of each real queue that later works here are to come after by waits so far. For its own works a
     * barrier for a kind is placed when the first work of that kind follows: covered_for says up to where
     * that was done (index: 0 dispatch, 1 transfer), pending what kinds ran since. */
    uint64_t covered[ROTA_VK_REALS_MAX];
    uint64_t covered_for[2];
    uint32_t pending[2];
    bool acquire; /* a barrier stands before the next work: another device wrote memory that both have */
    _Atomic uint64_t submitted; /* flushed, for the completion thread */
    _Atomic uint64_t completed; /* by the completion thread */
    /* Works being gathered. */
    bool open; /* infos[info_count] is being filled */
    uint32_t open_works;
    uint32_t info_count, buffer_count, wait_count;
    VkSubmitInfo2 infos[ROTA_VK_INFOS_MAX];
    VkSemaphoreSubmitInfo signals[ROTA_VK_SIGNALS_MAX];
    VkSemaphoreSubmitInfo waits[ROTA_VK_WAITS_MAX];
    uint32_t signal_count;
    /* Of the info that is open: logical queues whose timeline other devices have, as such, and the values. */
    uint32_t shared_mask;
    rota_exec_timeline *shared[ROTA_EXEC_QUEUES_MAX];
    uint64_t shared_value[ROTA_EXEC_QUEUES_MAX];
    VkCommandBufferSubmitInfo buffers[ROTA_VK_BUFFERS_MAX];
    /* The signal values (sequences) of the driver submissions in flight: for the bound on them, and for the
     * completion thread, which waits for exactly these. */
    uint64_t ends[ROTA_VK_IN_FLIGHT_MAX];
    uint64_t end_head, end_tail;    /* submit thread */
    _Atomic uint64_t end_published; /* end_head as the completion thread may see it */
    uint64_t end_cursor;            /* completion thread: the first that is not complete */
    uint64_t each_ns;               /* completion thread: what a submission takes, of late */
    uint32_t end_skip;              /* completion thread: how many ends beyond the first to wait for */
    _Atomic uint64_t room_sequence; /* the work whose completion submit sleeps for; 0: none */
} rota_vk_real;

struct rota_vk_device {
    rota_exec_device base; /* first: the contract's part */
    rota_exec_host host;
    rota_exec_open_options options;
    rota_vk_instance instance;
    rota_vk_physical physical;
    VkDebugUtilsMessengerEXT messenger;
    VkDevice handle;
    rota_vk_table vk;
    VkPipelineLayout layout; /* one for all kernels: push constants only */
    uint32_t push_bytes;

    /* Of pipelines, images and cache_dirty; held while the driver compiles, which may take seconds, so
     * nothing that runs or completes work takes it. */
    pthread_mutex_t compile_lock;
    VkPipelineCache cache;
    bool cache_dirty;
    rota_vk_pipeline *pipelines[ROTA_VK_PIPELINE_BUCKETS];
    rota_vk_image *images;
    rota_cuda_target target; /* with ROTA_FEATURE_CUDA_IMAGES */

    pthread_mutex_t lock; /* of the block pages and the lists of objects */
    rota_vk_block_page *pages;
    uint32_t page_count, page_capacity;
    rota_vk_link memories, runs;
    rota_exec_timeline *timelines;
    _Atomic uint64_t memory_bytes;

    uint32_t real_count;
    rota_vk_real *reals;
    rota_vk_logical logical[ROTA_EXEC_QUEUES_MAX];
    uint32_t in_flight_max;

    pthread_t thread;
    bool thread_started;
    _Atomic uint32_t closing;
    _Atomic uint32_t thread_done;
    _Atomic uint32_t sleeping; /* futex of the completion thread: 1 while it sleeps or is about to */
    _Atomic uint32_t
        progress; /* futex of a submit that waits for room: counts what the completion thread collected */
    _Atomic uint64_t spin_ns; /* of the completion thread */
    _Atomic uint32_t moves;   /* times that it found something complete */
    uint64_t looked_ns;       /* completion thread: when it last looked which commands run (diagnostics) */
    /* Completion thread: where the device's interrupts go, and submissions completed since it looked. */
    rota_thread_cpus thread_cpus;
    rota_interrupts interrupts;
    uint64_t unlooked;
    /* Completion thread: time in the driver's waits since it was last judged, the CPU time they took, and the
     * judgement, which stays once made. */
    uint64_t waited_ns, waited_cpu_ns;
    bool wait_works;
    _Atomic uint32_t lost;
    _Atomic uint32_t noisy; /* lost, but may still touch its memory */
    uint64_t stall_ns;      /* a full device that completes nothing for so long is given up */

    rota_vk_touch touch;
    int64_t skip_barrier;
    _Atomic uint32_t barriers_recorded;
    _Atomic uint64_t validation_messages;
    pthread_mutex_t message_lock;
    char last_message[1024];
    uint64_t submit_calls, submit_infos; /* submit thread */
};

rota_status rota_vk_submit(rota_exec_device *device, const rota_exec_work *works, uint32_t count);
/* Marks the device lost (once; calls host.lost) and returns DEVICE_LOST with the sentence. */
rota_status rota_vk_lose(rota_vk_device *device, VkResult result, const char *what);
void *rota_vk_complete_main(void *device);
uint64_t rota_vk_own_cpu_ns(rota_exec_device *device);

/* ---- Diagnostics ---- */

rota_status rota_vk_times(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out);
bool rota_vk_stuck_node(rota_exec_device *device, rota_exec_instance *instance, uint32_t *out_node);
/* The completion thread's, while nothing completes: notes for rota_vk_stuck_node what each instance is at. */
void rota_vk_look_for_stuck(rota_vk_device *device);

/* ---- Pipeline cache on disk ---- */

/* Makes device->cache, from the file where there is a good one. */
rota_status rota_vk_cache_open(rota_vk_device *device);
/* Writes the file if pipelines were added; failures are logged and leave the older file. */
void rota_vk_cache_save(rota_vk_device *device);
/* The payload of a cache file, from malloc; NULL: it is damaged or cut short, or no memory. */
uint8_t *rota_vk_cache_read(FILE *file, size_t *out_size);

/* ---- For tests ---- */

/* What rota_exec_open_options.test may point to; read by open only. */
typedef struct rota_vk_test_options {
    /* Gives the transfer queue a timeline of its own also where the device has one VkQueue for both, so that
     * everything about two real queues but their hardware is exercised. */
    bool split_transfer;
    uint64_t stall_ns; /* in place of ROTA_VK_STALL_NS; 0: that */
} rota_vk_test_options;

/* Warnings and errors of the validation layer so far; the text of the last one is copied ("" if none). */
uint64_t rota_vk_validation_messages(rota_exec_device *device, char *out_text, size_t text_bytes);
/* False where validation was asked for and the layer is not installed. */
bool rota_vk_validation_active(rota_exec_device *device);
/* Leaves out barrier `index` (counted over the segments) of the instances created from now on; -1: none. */
void rota_vk_skip_barrier(rota_exec_device *device, int64_t index);
/* Barriers recorded between batches of the last instance created. */
uint32_t rota_vk_barriers_recorded(rota_exec_device *device);
/* Driver calls and VkSubmitInfo2 structures so far. */
void rota_vk_submit_counts(rota_exec_device *device, uint64_t *out_calls, uint64_t *out_infos);

#endif
