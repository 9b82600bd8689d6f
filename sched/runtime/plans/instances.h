/* Instances of a plan. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_INSTANCES_H
#define ROTA_SCHED_RUNTIME_PLANS_INSTANCES_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"

typedef struct rota_executable rota_executable;
typedef struct rota_instance rota_instance;

/* Makes its memories and the executors' instances of it, or nothing. */
rota_status rota_instance_make(rota_instance *instance);
void rota_instance_free(rota_executable *executable, rota_instance *instance); /* all but the struct */
/* The sequencer's: has the instance made, where it is not. True: it is there. */
bool rota_instance_ask(rota_executable *executable, uint32_t instance);
/* The sequencer's: whether it is there, or is made next if it is asked for. */
bool rota_instance_is_near(const rota_executable *executable, uint32_t instance);
/* Whether it is, or will not be. */
bool rota_instance_is_decided(const rota_instance *instance);
/* The sequencer's: whether the builder has an instance of it, or will: replays that were cancelled do not wait for
 * that. */
bool rota_executable_is_asked_for(const rota_executable *executable);
/* The plan whose arena is used as far as it goes: it is held, and so freed later. */
const rota_executable *rota_executable_arena_owner_of(const rota_executable *executable);
void rota_executable_arena_destroy(const rota_executable *executable, rota_exec_memory *const *memories);

#endif
