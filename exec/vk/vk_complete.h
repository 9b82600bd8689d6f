/* The completion thread: see vk_complete.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_COMPLETE_H
#define ROTA_EXEC_VK_VK_COMPLETE_H

#include <stdbool.h>
#include "base/thread_cpus.h"
#include "exec/exec.h"
#include "exec/interrupts.h"

typedef struct rota_vk_device rota_vk_device;

/* The completion thread's own. */
typedef struct rota_vk_watch {
    uint64_t looked_ns; /* when it last looked which commands run (diagnostics) */
    /* Where the device's interrupts go, and submissions completed since it looked. */
    rota_thread_cpus thread_cpus;
    rota_interrupts interrupts;
    uint64_t unlooked;
    /* Time in the driver's waits since it was last judged, the CPU time they took, and the judgement, which
     * stays once made. */
    uint64_t waited_ns, waited_cpu_ns;
    bool wait_works;
    /* While semaphores of the application's are waited for: since when, and until it looks again. */
    uint64_t semaphores_since_ns, semaphores_nap_ns;
    uint64_t went_on_ns; /* rota_vk_going_look's last call of the host */
    uint32_t ended_seen; /* of rota_vk_going_shared.ended */
    bool is_settled;     /* at its end: of rota_vk_queues_settle */
} rota_vk_watch;

void *rota_vk_complete_main(void *device);
uint64_t rota_vk_own_cpu_ns(rota_exec_device *device);

#endif
