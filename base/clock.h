/* Monotonic time. Deadlines in rota are absolute values of this clock, in nanoseconds. */
#ifndef ROTA_BASE_CLOCK_H
#define ROTA_BASE_CLOCK_H

#include <stdint.h>
#include "export.h"

/* CLOCK_MONOTONIC in nanoseconds. Wait-free. */
ROTA_API uint64_t rota_clock_ns(void);

/* The kernel's slowest tick. */
#define ROTA_CLOCK_TICK_NS 10000000u
/* The clock a tick ahead, as of the kernel's newest tick, at a fraction of what the clock costs: up to so much later
 * than it is, and never earlier, but where no processor was there to count ticks, as on a host that runs others in its
 * place. For what deadlines of many ticks are counted from: they are kept that much too late, or too early. Wait-free.
 */
uint64_t rota_clock_by_ns(void);

/* now + timeout_ns, saturating. Wait-free. */
ROTA_API uint64_t rota_deadline_after(uint64_t timeout_ns);

#endif
