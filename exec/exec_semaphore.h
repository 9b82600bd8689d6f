/* Timeline semaphores of the application's, on a device of the application's (exec.h). Internal; not installed. */
#ifndef ROTA_EXEC_EXEC_SEMAPHORE_H
#define ROTA_EXEC_EXEC_SEMAPHORE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum rota_exec_look {
    ROTA_EXEC_LOOK_NOT, /* nobody wants to know its value */
    ROTA_EXEC_LOOK,
    ROTA_EXEC_LOOK_LATER, /* soon: somebody else has it now */
    ROTA_EXEC_LOOK_NEVER  /* any more: it may be gone */
} rota_exec_look;

/* One that the executor's thread asks the driver for (semaphore_adopt). What it belongs to begins with this. */
typedef struct rota_exec_semaphore rota_exec_semaphore;
struct rota_exec_semaphore {
    rota_exec_semaphore *next; /* the executor's */
    void *handle;
    /* Around each look, on that thread, which waits for no other one in there; begin may call semaphore_signal.
     * Where it says LOOK, end follows with the value, or 0 where the driver says none, and the handle is good until
     * then. */
    rota_exec_look (*begin)(rota_exec_semaphore *semaphore);
    void (*end)(rota_exec_semaphore *semaphore, uint64_t value);
    /* The executor does not know it any more: after NEVER, or since the device is closed. On that thread, too, which
     * does so for all that are left before it ends, and so before any object of the device is destroyed. It may call
     * semaphore_signal; nothing is asked of the executor for it afterwards. False: a thread that asks something is
     * still at it, and the executor keeps the semaphore, to try again. */
    bool (*forget)(rota_exec_semaphore *semaphore);
};

#endif
