/* The machine of tests/exec/two_by_two.xml in the place of the one that the test runs on, as far as hwloc goes: two
 * packages of two memories of four CPUs each. GPUs hang on the first CPU (0000:31:00.0), on the first memory
 * (0001:01:01.0, where the stand-in for CUDA's driver has its first), on the second (0000:11:00.0), on the second
 * package (0000:21:00.0), where a memory is the GPU's own, and on the machine (0000:41:00.0).
 *
 * For tests that are linked with --wrap=pthread_create,--wrap=hwloc_get_cpubind. One thread at a time. */
#ifndef ROTA_TESTS_MADE_UP_MACHINE_H
#define ROTA_TESTS_MADE_UP_MACHINE_H

#include <pthread.h>
#include <sched.h>

/* The process may use so many CPUs from the first on; 0: all. */
void made_up_machine_begin(unsigned first, unsigned count);
void made_up_machine_end(void);
/* The same of whichever machine hwloc is told of, until the end. */
void made_up_machine_allow(unsigned first, unsigned count);
/* Threads that are to begin on CPUs of their own are refused from now on; 0: no more. */
void made_up_machine_refuse(int error);
/* What a thread was to begin on, as far as that went to pthread_create; none: wherever its maker was. */
cpu_set_t made_up_machine_cpus(pthread_t thread);

#endif
