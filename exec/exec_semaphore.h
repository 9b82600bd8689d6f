/* Timeline semaphores of the application's, on a device of the application's (exec.h). Internal; not installed. */
#ifndef ROTA_EXEC_EXEC_SEMAPHORE_H
#define ROTA_EXEC_EXEC_SEMAPHORE_H

#include <stdint.h>

typedef enum rota_exec_look {
    ROTA_EXEC_LOOK_NOT, /* nobody wants to know its value */
    ROTA_EXEC_LOOK,
    ROTA_EXEC_LOOK_NEVER /* any more: it may be gone */
} rota_exec_look;

/* One that the executor's thread asks the driver for (semaphore_adopt). What it belongs to begins with this. */
typedef struct rota_exec_semaphore rota_exec_semaphore;
struct rota_exec_semaphore {
    rota_exec_semaphore *next; /* the executor's */
    void *handle;
    /* Around each look, on that thread. Where begin says LOOK, end follows with the value, or 0 where the driver says
     * none, and the handle is good until then. */
    rota_exec_look (*begin)(rota_exec_semaphore *semaphore);
    void (*end)(rota_exec_semaphore *semaphore, uint64_t value);
    /* The executor does not know it any more: after NEVER, or since the device is closed: then before any
     * of its objects is destroyed, and nothing is asked of the executor for it afterwards. */
    void (*forget)(rota_exec_semaphore *semaphore);
};

#endif
