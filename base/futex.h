/* Sleeping on a 32-bit word with a deadline (Linux futex, private). Internal; not installed. */
#ifndef ROTA_BASE_FUTEX_H
#define ROTA_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sleeps while *word == expected, until woken or until `deadline_ns` of rota_clock_ns. Returns false when the
 * deadline passed; true otherwise (woken, changed, or spuriously: check again). */
bool rota_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* Wakes up to `count` sleepers (INT32_MAX: all). */
void rota_futex_wake(_Atomic uint32_t *word, int count);

/* Sleeps until `deadline_ns` of rota_clock_ns; nothing wakes it. */
void rota_nap_until(uint64_t deadline_ns);

#endif
