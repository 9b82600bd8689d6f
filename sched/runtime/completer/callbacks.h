/* The thread that calls tickets' callbacks. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_COMPLETER_CALLBACKS_H
#define ROTA_SCHED_RUNTIME_COMPLETER_CALLBACKS_H

#include <stdbool.h>
#include "sched/runtime.h"

typedef struct rota_completer rota_completer; /* completer.h */

/* The completer's, now and then: names one that takes long. True: there is one, or may be soon. */
bool rota_callbacks_watch(rota_completer *completer);
void *rota_callbacks_main(void *runtime);

#endif
