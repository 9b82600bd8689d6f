/* Between runtime.c and close.c. Internal; not installed. */
#ifndef ROTA_SCHED_SHELL_H
#define ROTA_SCHED_SHELL_H

#include "sched/runtime_internal.h"

bool rota_runtime_is_forked(const rota_runtime *runtime);
/* Keeps a closed runtime's struct for a later open. */
void rota_runtime_keep_shell(rota_runtime *runtime);
/* One runtime fewer is open; with the last one what rota keeps for the next graphs goes. */
void rota_runtime_note_closed(void);
/* Keeps it for good, because a device that did not stop may still call into it. */
void rota_runtime_abandon_shell(rota_runtime *runtime);
/* Ends the threads and frees everything of a runtime with no devices (a failed open). */
void rota_runtime_dismantle(rota_runtime *runtime);

#endif
