/* Memory of the application's as a buffer's on one device. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_MEMORY_ADOPT_H
#define ROTA_SCHED_RUNTIME_MEMORY_ADOPT_H

#include <stdint.h>
#include "sched/embed_memory.h"

typedef struct rota_residency rota_residency;

typedef struct rota_adopted {
    struct rota_adopted *next; /* objects.unreturned, under objects.mutex */
    rota_device *device;
    rota_release_fn release; /* NULL: nobody wants to know */
    void *user;
} rota_adopted;

/* The buffer's last use has passed, or its runtime closes: the application has its memory back, at once or, where a
 * lost device may still touch it, when that is closed. While the runtime closes always then: `release` may drop what
 * the application still holds, this buffer too, of which all is to be at its end before. */
void rota_adopted_end(rota_residency *residency, bool is_closing);
/* The devices are closed but for those of the mask, which may go on: what others kept goes back. */
void rota_adopted_return(rota_runtime *runtime, uint64_t left);

#endif
