/* Reading a buffer with a deadline of the trial's. Internal; not installed. */
#ifndef ROTA_SCHED_TRIALS_READ_WITHIN_H
#define ROTA_SCHED_TRIALS_READ_WITHIN_H

#include <stdint.h>
#include "sched/runtime.h"

/* As rota_buffer_read from byte 0 on, but that it waits for no longer than `patience_ns` (0: rota_buffer_read itself).
 * After an error `out_data` is as it was, and nothing writes to it later. TIMEOUT; OUT_OF_MEMORY. May block in malloc.
 */
rota_status rota_trial_read(rota_buffer *buffer, void *out_data, uint64_t size_bytes, uint64_t patience_ns);

#endif
