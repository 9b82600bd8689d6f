/* Instances of a plan. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_INSTANCES_H
#define ROTA_SCHED_RUNTIME_PLANS_INSTANCES_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"

typedef struct rota_plan_run rota_plan_run;
typedef struct rota_run_instance rota_run_instance;

/* Makes its memories and the executors' instances of it, or nothing. */
rota_status rota_run_instance_make(rota_run_instance *instance);
void rota_run_instance_free(rota_plan_run *run, rota_run_instance *instance); /* all but the struct */
/* The sequencer's: has the instance made, where it is not. True: it is there. */
bool rota_run_instance_ask(rota_plan_run *run, uint32_t instance);
/* The sequencer's: whether it is there, or is made next if it is asked for. */
bool rota_run_instance_is_near(const rota_plan_run *run, uint32_t instance);
/* Whether it is, or will not be. */
bool rota_run_instance_is_decided(const rota_run_instance *instance);
/* The plan whose arena is used as far as it goes: it is held, and so freed later. */
const rota_plan_run *rota_run_lender_of(const rota_plan_run *run);
void rota_run_arena_destroy(const rota_plan_run *run, rota_exec_memory *const *memories);

#endif
