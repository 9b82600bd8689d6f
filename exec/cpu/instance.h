/* Instances: a program with its memories, and the counters of its runs. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_INSTANCE_H
#define ROTA_EXEC_CPU_INSTANCE_H

#include "base/arena.h"
#include "base/atomic.h"
#include "exec/cpu/deque.h"
#include "exec/cpu/program.h"
#include "exec/common/link.h"
#include "exec/exec.h"

typedef struct rota_cpu_device rota_cpu_device;
typedef struct rota_cpu_work rota_cpu_work;

typedef struct rota_cpu_loop rota_cpu_loop;

/* One segment of one instance while it runs (not used by serial segments). */
typedef struct rota_cpu_run {
    rota_cpu_work *work;
    rota_exec_instance *instance; /* whose segment it is */
    rota_cpu_loop *loop;          /* a body's: of the command that runs it; NULL: a work's own */
    _Atomic uint32_t remaining;   /* sinks not yet complete */
    uint64_t last_signal;         /* submit thread: value of the latest work that uses this run */
    uint32_t last_queue;          /* and its queue */
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

/* A command that decides, while it runs; in its instance, or on the stack of the one worker that runs all of it. What
 * is not atomic is written by the worker that begins an iteration, and published with the tasks of that. */
struct rota_cpu_loop {
    rota_cpu_loop *outer; /* of the body that it is in; NULL: it is in no body */
    rota_cpu_loop *root;  /* the outermost, which may be itself */
    const rota_cpu_record *record;
    rota_exec_instance *instance; /* whose record it is */
    rota_cpu_unit_state *state;   /* its unit; NULL on a stack */
    const uint32_t *condition;
    uint32_t *index;
    uint64_t begun; /* iterations; the one that runs is this less one */
    uint64_t count; /* FOR */
    uint64_t begin_ns;
    _Atomic uint32_t
        is_over;  /* of the root: a body failed, or the submission was cancelled: no more begins */
    bool watched; /* of the root: report success */
};

typedef struct rota_cpu_later_state rota_cpu_later_state;

struct rota_exec_instance {
    rota_link link;   /* the device's list, under its mutex */
    rota_arena arena; /* of this struct's arrays */
    rota_exec_program *program;
    void **operands;    /* resolved; of a slot operand: its offset */
    rota_cpu_run *runs; /* per segment */
    rota_cpu_unit_state *units;
    rota_cpu_split_state *splits;
    rota_cpu_later_state *laters;
    rota_cpu_times *times;       /* per command; NULL without diagnostics, and in bodies */
    rota_cpu_loop *loops;        /* of units that decide */
    rota_exec_instance **bodies; /* of the program's bodies; in no list of the device's */
};

rota_status rota_cpu_instance_create(rota_exec_device *device, rota_exec_program *program,
                                     rota_exec_memory *const *memories, rota_exec_instance **out_instance);
void rota_cpu_instance_destroy(rota_exec_device *device, rota_exec_instance *instance);
rota_status rota_cpu_times_read(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out);
/* What is left (close). */
void rota_cpu_instance_free_all(rota_cpu_device *device);

#endif
