/* Which CPUs the interrupts of a PCI device keep busy.
 *
 * NVIDIA's driver (580) raises an interrupt for every signalled submission and spends 20 to 35 us on each.
 * That time is the interrupted thread's: a submit thread on that CPU gets through a dozen submissions until
 * the first completes, and then stands still until the device has run dry. The kernel's scheduler does not
 * see such time and leaves a thread there for good. Internal; not installed. */
#ifndef ROTA_EXEC_INTERRUPTS_H
#define ROTA_EXEC_INTERRUPTS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#define ROTA_INTERRUPTS_MAX 32
/* A CPU with so many a second is busy: some percent of its time. */
#define ROTA_INTERRUPTS_BUSY_PER_S 2000u

typedef struct rota_interrupts {
    char counts[64]; /* folder with NUMBER/per_cpu_count */
    uint32_t count;
    uint32_t numbers[ROTA_INTERRUPTS_MAX];
    uint32_t *seen; /* count * CPU_SETSIZE, as of looked_ns */
    uint64_t looked_ns;
    cpu_set_t busy;
} rota_interrupts;

/* The interrupts listed in `device`/msi_irqs (say, of /sys/bus/pci/devices/0000:01:00.0), counted in `counts`
 * (/sys/kernel/irq). Where there is nothing to read it has none, and looking finds nothing. */
void rota_interrupts_open(rota_interrupts *out_interrupts, const char *device, const char *counts);
void rota_interrupts_close(rota_interrupts *interrupts);
/* Reads the counts; true if other CPUs were busy since the last look than known before: `busy` has all of
 * them then. One thread at a time; some tens of microseconds. */
bool rota_interrupts_look(rota_interrupts *interrupts, uint64_t now_ns);

#endif
