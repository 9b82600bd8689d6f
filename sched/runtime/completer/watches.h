/* Watches of tickets that have ended. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_COMPLETER_WATCHES_H
#define ROTA_SCHED_RUNTIME_COMPLETER_WATCHES_H

#include "sched/runtime/shared/mailboxes.h"

/* The completer's: the watch's ticket has ended so. The completion is nobody's afterwards, or the callback thread's. */
void rota_watch_end(rota_completion *completion, rota_status status, const char *message);

#endif
