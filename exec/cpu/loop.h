/* Commands that decide, while they run: see loop.c. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_LOOP_H
#define ROTA_EXEC_CPU_LOOP_H

#include "exec/cpu/instance.h"

/* Where a record runs: what the worker has of it. */
typedef struct rota_cpu_scope {
    rota_cpu_work *work;
    rota_exec_instance *instance; /* the work's, or a body's */
    rota_cpu_loop *loop;          /* NULL: the work's own segment */
} rota_cpu_scope;

typedef enum rota_cpu_step {
    ROTA_CPU_STEP_BODY, /* an iteration begins */
    ROTA_CPU_STEP_OVER, /* the command has ended */
    ROTA_CPU_STEP_STOP  /* the device stops: nothing of the host is touched any more */
} rota_cpu_step;

/* The command begins at `scope`, on whose part `loop` is nobody's. `state`: its unit; NULL: it is inline. */
void rota_cpu_loop_begin(const rota_cpu_scope *scope, const rota_cpu_record *record,
                         rota_cpu_unit_state *state, rota_cpu_loop *loop);
/* Whether another iteration begins, of which body (of the instance's), which is NULL where there is nothing to run. All
 * of the iteration before has ended, and this worker has seen what it wrote. */
rota_cpu_step rota_cpu_loop_step(rota_cpu_device *device, const rota_cpu_work *work, rota_cpu_loop *loop,
                                 rota_exec_instance **out_body);
/* A record of the loop's body failed: the outermost command fails, and none of its iterations begins any more. */
void rota_cpu_loop_fail(rota_cpu_device *device, const rota_cpu_scope *scope, const rota_cpu_record *record,
                        rota_status status);

#endif
