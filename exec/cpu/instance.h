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
    rota_cpu_times *times; /* per command; NULL without diagnostics */
};

rota_status rota_cpu_instance_create(rota_exec_device *device, rota_exec_program *program,
                                     rota_exec_memory *const *memories, rota_exec_instance **out_instance);
void rota_cpu_instance_destroy(rota_exec_device *device, rota_exec_instance *instance);
rota_status rota_cpu_times_read(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out);
/* What is left (close). */
void rota_cpu_instance_free_all(rota_cpu_device *device);

#endif
