/* Keeping a running thread off some CPUs, by its affinity. */
#include "base/thread_cpus.h"

#include <unistd.h>

#include "base/atomic.h"

void rota_thread_cpus_begin(rota_thread_cpus *own) {
    if (sched_getaffinity(0, sizeof own->home, &own->home) != 0) return;
    ra_store_release(&own->thread, gettid()); /* releases `home` to keep_off */
}

void rota_thread_cpus_end(rota_thread_cpus *own) {
    ra_store_relaxed(&own->thread, 0);
}

void rota_thread_cpus_keep_off(rota_thread_cpus *own, const cpu_set_t *cpus) {
    int32_t thread = ra_load_acquire(&own->thread); /* pairs with begin */
    if (thread == 0) return;
    cpu_set_t allowed;
    CPU_XOR(&allowed, &own->home, cpus);
    CPU_AND(&allowed, &allowed, &own->home);
    if (CPU_COUNT(&allowed) < ROTA_THREAD_CPUS_MIN) return;
    /* By number and not by pthread_t: one that ended meanwhile is not found, and no harm is done. */
    (void)sched_setaffinity(thread, sizeof allowed, &allowed);
}
