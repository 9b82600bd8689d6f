/* Inside of the CPU executor. Internal to exec/cpu.
 *
 * A program's segment is cut at program_create into *units*: a unit is one or more commands run one after the
 * other by one worker, or one large kernel split over several (cluster.c). A segment of one unit is a
 * *serial* work: it needs no state and its runs may overlap. Any other has per-instance counters, one per
 * unit, that arm themselves again when they reach zero; its runs of one instance are ordered behind one
 * another by queue.c.
 *
 * Life of a work: submit (one thread) takes a work from the pool, copies its block, links it behind its queue
 * and, if its waits are met, pushes it to the injection deque; a worker steals it and runs its units, pushing
 * units that became ready to its own deque; the last one marks the work done and pumps: the pump (one thread
 * at a time, others hand it their events and go on) moves timelines and starts works whose waits are now met.
 *
 * Progress: submit, the pump's entry, and all deque traffic are lock-free and allocate only when the pool
 * grows. No application thread takes part in any of it, so one that is stopped delays nothing (P4). */
#ifndef ROTA_EXEC_CPU_CPU_H
#define ROTA_EXEC_CPU_CPU_H

#include <pthread.h>
#include "base/arena.h"
#include "base/atomic.h"
#include "exec/cpu/deque.h"
#include "exec/exec.h"

#define ROTA_CPU_WORKERS_MAX 256
#define ROTA_CPU_NONE UINT32_MAX

/* Items of a kernel at the most. Each worker that looks for a piece past the last one counts a piece on; there
 * are no more workers than pieces, so that the count stays below seven times the items, and does not wrap. */
#define ROTA_CPU_ITEMS_MAX ((uint64_t)1 << 60)
enum {
    ROTA_CPU_DEQUE_CAPACITY = 8192,
    ROTA_CPU_INJECT_CAPACITY = 16384,
    ROTA_CPU_INLINE_WORDS = 8 /* argument blocks up to this size need no memory of their own */
};

/* What deques hold: a work about to start, or a unit of a started one. */
typedef enum rota_cpu_task_kind { ROTA_CPU_TASK_WORK, ROTA_CPU_TASK_UNIT } rota_cpu_task_kind;
struct rota_cpu_task {
    rota_cpu_task *overflow_next; /* while it stands on the overflow list (all deques full) */
    uint32_t kind;
    uint32_t unit; /* UNIT: index in the program */
};

/* ---- Program ---- */

typedef enum rota_cpu_record_flags {
    ROTA_CPU_RECORD_SLOTS = 1u << 0,    /* an operand's base is in the block */
    ROTA_CPU_RECORD_BINDINGS = 1u << 1, /* a parameter is in the block */
    ROTA_CPU_RECORD_HOST = 1u << 2
} rota_cpu_record_flags;

/* One command as the hot loop reads it, in execution order. */
typedef struct rota_cpu_record {
    union {
        rota_cpu_fn kernel;
        rota_host_fn host;
    } fn;
    union {
        const void *params; /* the program's own copy */
        void *user;
    } u;
    uint64_t items;
    uint32_t first_operand; /* in the program's operand_bytes and operand_word, and the instance's operands */
    uint32_t node;
    uint32_t command; /* index in the description */
    uint8_t operand_count;
    uint8_t flags;
    uint16_t reserved;
} rota_cpu_record;

typedef struct rota_cpu_unit {
    uint32_t first_record, record_count;       /* none: a join */
    uint32_t first_successor, successor_count; /* in unit_successors; 0: a sink */
    uint32_t predecessor_count;
    uint32_t split; /* index of its split state; ROTA_CPU_NONE: run by one worker */
    uint64_t grain; /* of a split kernel */
} rota_cpu_unit;

typedef struct rota_cpu_segment {
    uint32_t first_unit, unit_count; /* unit_count 1 and not split: serial */
    uint32_t first_root, root_count; /* in roots: units without predecessors */
    uint32_t sink_count;
    bool serial;
} rota_cpu_segment;

struct rota_exec_program {
    rota_exec_program *previous, *next; /* the device's list, under its mutex */
    rota_arena arena;                   /* of this struct's arrays */
    const rota_exec_program_desc *desc;
    const void *owner;
    rota_cpu_record *records; /* command_count */
    /* Operands in record order: size, block word of a slot (ROTA_CPU_NONE: fixed), and index in the
     * description. */
    uint64_t *operand_bytes;
    uint32_t *operand_word;
    uint32_t *operand_source;
    uint32_t operand_count;
    rota_cpu_unit *units;
    uint32_t *unit_successors;
    uint32_t *roots;
    uint32_t unit_count, split_count;
    rota_cpu_segment *segments;
    uint32_t block_words;
};

/* ---- Instance ---- */

typedef struct rota_cpu_work rota_cpu_work;

/* One segment of one instance while it runs (not used by serial segments). */
typedef struct rota_cpu_run {
    rota_cpu_work *work;
    _Atomic uint32_t remaining; /* sinks not yet complete */
    uint64_t last_signal;       /* submit thread: value of the latest work that uses this run */
    uint32_t last_queue;        /* and its queue */
} rota_cpu_run;

typedef struct rota_cpu_unit_state {
    rota_cpu_task task;
    rota_cpu_run *run;
    _Atomic uint32_t pending; /* predecessors not yet complete; armed again by whoever takes it to zero */
} rota_cpu_unit_state;

/* A split kernel in progress. `users` counts the worker that started it and the helper tasks pushed for it;
 * the last one to leave completes the unit, so that no task for it is left in any deque. */
typedef struct rota_cpu_split_state {
    _Alignas(64) _Atomic uint64_t next; /* first item not yet claimed */
    _Atomic uint32_t users;
    _Atomic uint32_t failed;
    uint64_t items, chunk;
    uint64_t begin_ns;
    bool watched; /* report success */
} rota_cpu_split_state;

typedef struct rota_cpu_times {
    _Atomic uint64_t begin_ns, end_ns;
} rota_cpu_times;

struct rota_exec_instance {
    rota_exec_instance *previous, *next; /* the device's list, under its mutex */
    rota_arena arena;                    /* of this struct's arrays */
    rota_exec_program *program;
    void **operands;    /* resolved; of a slot operand: its offset */
    rota_cpu_run *runs; /* per segment */
    rota_cpu_unit_state *units;
    rota_cpu_split_state *splits;
    rota_cpu_times *times; /* per command; NULL without diagnostics */
};

/* ---- Works and queues ---- */

typedef struct rota_cpu_wait {
    uint32_t queue;
    uint64_t value;
} rota_cpu_wait;

/* A copy that came with a work, resolved. */
typedef struct rota_cpu_copy {
    void *destination;
    const void *source;
    size_t size_bytes;
} rota_cpu_copy;

struct rota_cpu_work {
    _Alignas(64) rota_cpu_task task;
    _Atomic(rota_cpu_work *) next; /* in its queue; in the free list while unused */
    rota_exec_instance *instance;
    void *cookie;
    const uint64_t *block;
    uint64_t signal_value;
    uint32_t segment, queue;
    uint64_t inline_block[ROTA_CPU_INLINE_WORDS];
    _Atomic uint32_t done;
    uint32_t wait_count;
    uint64_t *large_block; /* may be kept for the next use of this work */
    uint32_t large_words;
    uint32_t copy_count, large_copy_count;
    const rota_cpu_copy *copies; /* one_copy or large_copies */
    rota_cpu_copy one_copy;
    rota_cpu_copy *large_copies;               /* likewise */
    rota_cpu_wait waits[ROTA_EXEC_QUEUES_MAX]; /* those not met at submit, one per queue */
};

typedef struct rota_cpu_queue {
    /* Submit thread. */
    _Alignas(64) rota_cpu_work *tail;
    uint64_t blocked; /* works ever blocked; its published twin is blocked_published */
    uint64_t
        waited[ROTA_EXEC_QUEUES_MAX]; /* largest value of each queue that some work of this one waits for */
    /* Between the submit thread and the pump. */
    _Alignas(64) _Atomic uint64_t blocked_published; /* submit to pump */
    rota_cpu_work *blocked_head; /* the work that shut the gate last, and its number among the blocked;
                                    written while the gate is open, published by blocked_published */
    uint64_t blocked_head_number;
    _Alignas(64) _Atomic uint64_t released; /* pump to submit: of the blocked, how many were started */
    _Atomic uint64_t timeline;
    /* Pump. */
    rota_cpu_work
        *retired; /* the newest work of the completed prefix; recycled when the next one completes */
    rota_cpu_work *last_released; /* of the blocked; not recycled before the next one is released */
    bool is_last_retired;         /* it was left out when it should have been recycled */
} rota_cpu_queue;

/* ---- Workers and device ---- */

typedef struct rota_cpu_device rota_cpu_device;

typedef struct rota_cpu_worker {
    rota_cpu_deque deque;
    _Alignas(64) rota_cpu_device *device;
    /* What it runs now, for stuck_node and close: node is ROTA_CPU_NONE outside kernels and host functions.
     */
    _Atomic(rota_exec_instance *) instance;
    _Atomic uint32_t node;
    uint32_t index;
    uint32_t tick; /* tasks run: now and then the injection deque comes first */
    uint64_t random;
    _Alignas(64) _Atomic uint32_t wake_word; /* 1: woken by wake.c, which counted it as searching */
    _Atomic uint32_t exited;
    pthread_t thread;
} rota_cpu_worker;

typedef struct rota_cpu_memory rota_cpu_memory;

typedef enum rota_cpu_stop {
    ROTA_CPU_RUNS,
    ROTA_CPU_IS_LOST, /* from rota_cpu_lose to close */
    ROTA_CPU_CLOSES
} rota_cpu_stop;

struct rota_cpu_device {
    rota_exec_device base;
    rota_exec_host host;
    uint32_t queue_count, worker_count;
    _Atomic uint32_t queues_used; /* submit thread to pump: one more than the highest that had a work */
    bool diagnostics;
    rota_cpu_device *next_abandoned;
    bool is_abandoned; /* open failed and a worker that was started does not end */
    rota_cpu_worker *workers;
    /* rota_cpu_stop. Not 0: workers leave at the next command and call nothing of the host but `lost`. */
    _Atomic uint32_t stop;
    _Atomic uint32_t lost;
    _Atomic uint32_t parked; /* workers that have left for a loss */
    char loss[160];          /* what the host is told of it; written before `stop` */

    rota_cpu_deque inject; /* owned by the submit thread */
    _Alignas(64) _Atomic(rota_cpu_task *) overflow;
    _Alignas(64) _Atomic uint32_t searchers; /* workers looking for tasks, and workers woken to do so */
    _Alignas(64) _Atomic uint64_t idle[ROTA_CPU_WORKERS_MAX / 64]; /* sleeping workers */
    _Alignas(64) _Atomic uint32_t events;             /* pump requests not yet served; see queue.c */
    _Alignas(64) _Atomic uint32_t kick;               /* 1: the submit thread asks any worker to pump */
    _Alignas(64) _Atomic(rota_cpu_work *) free_works; /* recycled by the pump, taken whole by submit */
    _Atomic uint32_t large_kept; /* free works that keep memory for large blocks or many copies */
    _Alignas(64) rota_cpu_work *local_free;           /* submit thread */
    void *work_chunks;                                /* submit thread: all chunks, for close */
    _Atomic uint32_t exited_count;

    pthread_mutex_t mutex; /* the lists below; create and destroy only */
    rota_cpu_memory *memories;
    rota_exec_program *programs;
    rota_exec_instance *instances;
    uint64_t allocated_bytes;
    rota_cpu_queue queues[ROTA_EXEC_QUEUES_MAX];
};

static inline rota_cpu_device *rota_cpu_device_of(rota_exec_device *device) {
    return (rota_cpu_device *)device;
}

/* info.c: what the machine is. If out_sets is not NULL it gets one cpu_set_t for each of the info's
 * compute_units, which are the cores of the process's affinity; malloc'ed, the caller frees. */
rota_status rota_cpu_describe(rota_device_info *out_info, void **out_sets);

/* memory.c */
rota_status rota_cpu_memory_create(rota_exec_device *device, uint64_t size_bytes, uint32_t flags,
                                   const char *name, rota_exec_memory **out_memory);
void rota_cpu_memory_destroy(rota_exec_device *device, rota_exec_memory *memory);
void rota_cpu_memory_free_all(rota_cpu_device *device);

/* cluster.c */
typedef struct rota_cpu_estimate {
    uint64_t cost_ns; /* a rough guess from bytes and grains */
    uint64_t items, grain;
    bool split; /* worth splitting over workers */
} rota_cpu_estimate;
/* Cuts the segments into units: fills segments, units, unit_successors, roots and their counts, from the
 * program's arena. out_order[command_count] gets the commands in the order in which their records must stand.
 * Time and memory are linear in commands and edges. */
rota_status rota_cpu_cluster(rota_exec_program *program, const rota_cpu_estimate *estimates,
                             uint32_t worker_count, uint32_t *out_order);

/* program.c */
rota_status rota_cpu_program_create(rota_exec_device *device, const rota_exec_program_desc *desc,
                                    rota_exec_program **out_program);
void rota_cpu_program_destroy(rota_exec_device *device, rota_exec_program *program);
rota_status rota_cpu_instance_create(rota_exec_device *device, rota_exec_program *program,
                                     rota_exec_memory *const *memories, rota_exec_instance **out_instance);
void rota_cpu_instance_destroy(rota_exec_device *device, rota_exec_instance *instance);
rota_status rota_cpu_times_read(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out);
/* Frees what is left of either kind (close). */
void rota_cpu_program_free_all(rota_cpu_device *device);

/* queue.c */
rota_status rota_cpu_queues_init(rota_cpu_device *device);
void rota_cpu_queues_free(rota_cpu_device *device);
rota_status rota_cpu_submit(rota_exec_device *device, const rota_exec_work *works, uint32_t count);
/* A work has run to its end on this worker. */
void rota_cpu_complete(rota_cpu_worker *worker, rota_cpu_work *work);
/* Retires, moves timelines and starts what may start; or leaves that to the worker that is at it. */
void rota_cpu_pump(rota_cpu_worker *worker);

/* run.c */
void rota_cpu_run_task(rota_cpu_worker *worker, rota_cpu_task *task);

/* wake.c */
/* Pushes to the worker's own deque, or the overflow list, and wakes a sleeper if nobody is looking. */
void rota_cpu_push(rota_cpu_worker *worker, rota_cpu_task *task);
/* The same without waking anyone: for a task that this worker is about to pop itself. */
void rota_cpu_push_quietly(rota_cpu_worker *worker, rota_cpu_task *task);
/* Pushes from the submit thread, and wakes. */
void rota_cpu_inject(rota_cpu_device *device, rota_cpu_task *task);
/* Something was pushed: wakes one sleeper if no worker is looking for tasks. */
void rota_cpu_notify(rota_cpu_device *device);
/* Gives the device up: its workers leave what they do after their present command, and the last of them tells
 * the host, as nothing touches memory any more. Submit thread. */
void rota_cpu_lose(rota_cpu_device *device, const char *message);
/* Wakes everyone (a loss, close). */
void rota_cpu_wake_all(rota_cpu_device *device);
/* A worker's whole life: takes and runs tasks until the device stops. */
void *rota_cpu_worker_main(void *worker);

#endif
