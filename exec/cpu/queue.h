/* Works and logical queues: see queue.c. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_QUEUE_H
#define ROTA_EXEC_CPU_QUEUE_H

#include "base/atomic.h"
#include "exec/cpu/deque.h"
#include "exec/exec.h"

typedef struct rota_cpu_device rota_cpu_device;
typedef struct rota_cpu_worker rota_cpu_worker;
typedef struct rota_cpu_work rota_cpu_work;

/* Argument blocks up to this size need no memory of their own. */
enum { ROTA_CPU_INLINE_WORDS = 8 };
enum { ROTA_CPU_WORKS_UPCOMING = 4 };

typedef struct rota_cpu_wait {
    uint32_t queue;
    uint64_t value;
} rota_cpu_wait;

/* A work that is blocked: its number among those of its queue, what it waits for, and whether the queue's gate was open
 * until then. */
typedef struct rota_cpu_blocked {
    uint64_t number;
    rota_cpu_wait wait; /* the first */
    bool has_wait, is_open;
} rota_cpu_blocked;

/* A copy that came with a work, resolved. */
typedef struct rota_cpu_copy {
    void *destination;
    const void *source;
    size_t size_bytes;
} rota_cpu_copy;

/* One of a plan that waits for nothing has all in the first cache line, or in two with its block: of thousands in
 * flight each further line is a miss, for who submits and for who runs it. */
struct rota_cpu_work {
    _Alignas(64) rota_cpu_task task;
    _Atomic(rota_cpu_work *) next; /* in its queue; in the free list while unused */
    rota_exec_instance *instance;
    void *cookie; /* while unused: another one that was free so many before it, or NULL */
    uint64_t signal_value;
    uint32_t segment;
    _Atomic uint32_t done;
    uint32_t copy_count;
    uint8_t queue, wait_count;
    bool keeps_memory; /* large_block or large_copies */
    bool tells;        /* without instance or copies: one_copy.source is the program that is left out */
    uint64_t inline_block[ROTA_CPU_INLINE_WORDS];
    rota_cpu_copy one_copy;
    /* May be kept for the next use of this work. */
    uint64_t *large_block;
    rota_cpu_copy *large_copies;
    uint32_t large_words, large_copy_count;
    rota_cpu_wait waits[ROTA_EXEC_QUEUES_MAX]; /* those not met at submit, one per queue */
};
_Static_assert(offsetof(rota_cpu_work, inline_block) == 64, "what every work needs is one cache line");
_Static_assert(ROTA_EXEC_QUEUES_MAX <= UINT8_MAX, "a work counts its waits in a byte");

/* The submit thread's part of a queue. */
typedef struct rota_cpu_queue_submit {
    _Alignas(64) rota_cpu_work *tail;
    uint64_t blocked; /* works ever blocked; its published twin is blocked_published */
    /* Largest value of each queue that some work of this one waits for. */
    uint64_t waited[ROTA_EXEC_QUEUES_MAX];
} rota_cpu_queue_submit;

/* What the submit thread and the pump tell each other. */
typedef struct rota_cpu_queue_shared {
    _Alignas(64) _Atomic uint64_t blocked_published; /* submit to pump */
    /* The work that shut the gate last, and its number among the blocked; written while the gate is open,
     * published by blocked_published. */
    rota_cpu_work *blocked_head;
    uint64_t blocked_head_number;
    _Alignas(64) _Atomic uint64_t released; /* pump to submit: of the blocked, how many were started */
    _Alignas(64) _Atomic uint64_t timeline; /* apart from that, which who submits looks at for each work */
} rota_cpu_queue_shared;

/* The pump's part. */
typedef struct rota_cpu_queue_pump {
    rota_cpu_work *retired; /* the newest work of the completed prefix; recycled when the next completes */
    rota_cpu_work *last_released; /* of the blocked; not recycled before the next one is released */
    bool is_last_retired;         /* it was left out when it should have been recycled */
} rota_cpu_queue_pump;

typedef struct rota_cpu_queue {
    rota_cpu_queue_submit submit;
    rota_cpu_queue_shared shared;
    rota_cpu_queue_pump pump;
} rota_cpu_queue;

/* The submit thread's free works, and all chunks of works. */
typedef struct rota_cpu_works_submit {
    _Alignas(64) rota_cpu_work *free;
    void *chunks; /* for close */
} rota_cpu_works_submit;

/* Works on their way back to it. */
typedef struct rota_cpu_works_shared {
    _Alignas(64) _Atomic(rota_cpu_work *) free; /* recycled by the pump, taken whole by submit */
    _Atomic uint32_t large_kept; /* free works that keep memory for large blocks or many copies */
} rota_cpu_works_shared;

/* The pump's part of that: free works of all queues, given back some at a time; and those that were free last, which
 * who takes one so many before has asked for: their lines are where the pump was. */
typedef struct rota_cpu_works_pump {
    _Alignas(64) uint32_t count, newest_count;
    rota_cpu_work *first, *last, *newest[ROTA_CPU_WORKS_UPCOMING];
} rota_cpu_works_pump;

/* Who pumps, and what for. */
typedef struct rota_cpu_pump_shared {
    _Alignas(64) _Atomic uint32_t events; /* pump requests not yet served; see queue.c */
    _Alignas(64) _Atomic uint32_t kick;   /* 1: the submit thread asks any worker to pump */
    _Atomic uint32_t queues_used;         /* submit to pump: one more than the highest that had a work */
} rota_cpu_pump_shared;

rota_status rota_cpu_queues_init(rota_cpu_device *device);
void rota_cpu_queues_free(rota_cpu_device *device);
rota_status rota_cpu_submit(rota_exec_device *device, const rota_exec_work *works, uint32_t count);
/* A work has run to its end on this worker. */
void rota_cpu_complete(rota_cpu_worker *worker, rota_cpu_work *work);
/* Retires, moves timelines and starts what may start; or leaves that to the worker that is at it. */
void rota_cpu_pump(rota_cpu_worker *worker);

#endif
