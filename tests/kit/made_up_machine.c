/* See made_up_machine.h. */
#include "tests/kit/made_up_machine.h"

#include <hwloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include "tests/kit/support.h"

enum { THREADS_MAX = 256 };

static struct {
    pthread_mutex_t mutex;
    unsigned first, count;
    int refuses;
    pthread_t threads[THREADS_MAX]; /* the newest last */
    cpu_set_t cpus[THREADS_MAX];
    unsigned thread_count;
} machine = {.mutex = PTHREAD_MUTEX_INITIALIZER};

int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *user);
int __real_hwloc_get_cpubind(hwloc_topology_t topology, hwloc_cpuset_t out_set, int flags);
int __wrap_hwloc_get_cpubind(hwloc_topology_t topology, hwloc_cpuset_t out_set, int flags);

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *user) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (attributes && pthread_attr_getaffinity_np(attributes, sizeof cpus, &cpus) == 0 && machine.refuses)
        return machine.refuses;
    int error = __real_pthread_create(out, attributes, main, user);
    if (error && attributes)
        error = __real_pthread_create(out, NULL, main, user); /* there may be no such CPUs here */
    if (error) return error;
    (void)pthread_mutex_lock(&machine.mutex);
    if (machine.thread_count < THREADS_MAX) {
        machine.threads[machine.thread_count] = *out;
        machine.cpus[machine.thread_count++] = cpus;
    }
    (void)pthread_mutex_unlock(&machine.mutex);
    return 0;
}

int __wrap_hwloc_get_cpubind(hwloc_topology_t topology, hwloc_cpuset_t out_set, int flags) {
    if (machine.count == 0) return __real_hwloc_get_cpubind(topology, out_set, flags);
    hwloc_bitmap_zero(out_set);
    return hwloc_bitmap_set_range(out_set, machine.first, (int)(machine.first + machine.count - 1));
}

void made_up_machine_allow(unsigned first, unsigned count) {
    machine.first = first;
    machine.count = count;
}

void made_up_machine_begin(unsigned first, unsigned count) {
    made_up_machine_allow(first, count);
    assert_int_equal(setenv("HWLOC_XMLFILE", ROTA_MADE_UP_MACHINE, 1), 0);
}

void made_up_machine_end(void) {
    machine.first = machine.count = 0;
    machine.refuses = 0;
    assert_int_equal(unsetenv("HWLOC_XMLFILE"), 0);
}

void made_up_machine_refuse(int error) {
    machine.refuses = error;
}

cpu_set_t made_up_machine_cpus(pthread_t thread) {
    cpu_set_t cpus;
    bool found = false;
    CPU_ZERO(&cpus);
    (void)pthread_mutex_lock(&machine.mutex);
    for (unsigned i = machine.thread_count; !found && i-- > 0;) {
        found = pthread_equal(machine.threads[i], thread);
        if (found) cpus = machine.cpus[i];
    }
    (void)pthread_mutex_unlock(&machine.mutex);
    assert_true(found);
    return cpus;
}
