/* Reading with a deadline of the caller's. Internal; not installed. */
#ifndef ROTA_SCHED_HOST_READ_H
#define ROTA_SCHED_HOST_READ_H

#include "sched/runtime.h"

/* As rota_buffer_read, waiting for the copy up to `timeout_ns` (0: the runtime's default deadline). */
rota_status rota_buffer_read_within(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                                    uint64_t size_bytes, uint64_t timeout_ns);

#endif
