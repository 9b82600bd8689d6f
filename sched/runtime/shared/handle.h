/* The structs of runtimes, between opening and closing. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_HANDLE_H
#define ROTA_SCHED_RUNTIME_SHARED_HANDLE_H

#include "sched/runtime/shared/runtime.h"

/* A struct for a new runtime of this process, zero from `options` on; NULL: no host memory. */
rota_runtime *rota_runtime_take_handle(void);
void rota_runtime_note_opened(void);
bool rota_runtime_is_forked(const rota_runtime *runtime);
/* Keeps a closed runtime's struct for a later open. */
void rota_runtime_keep_handle(rota_runtime *runtime);
/* One runtime fewer is open; with the last one what rota keeps for the next graphs goes. */
void rota_runtime_note_closed(void);
/* Keeps it for good, because a device that did not stop may still call into it. */
void rota_runtime_abandon_handle(rota_runtime *runtime);

/* ROTA_OK, or WRONG_STATE with a sentence, in a closed runtime or a forked child. Wait-free. */
rota_status rota_runtime_check(const rota_runtime *runtime);
/* Logical queues per device that plans know. */
uint32_t rota_runtime_queue_count(const rota_runtime *runtime);
/* Whether a pointer that a caller made up or kept is a runtime, open or closed, without looking at what it
 * points to. Wait-free; O(runtimes) for one that the thread has not asked about before. */
bool rota_runtime_is_known(const rota_runtime *runtime);

/* A thread of the runtime adds its CPU time before it ends. */
void rota_runtime_thread_ends(rota_runtime *runtime);

#endif
