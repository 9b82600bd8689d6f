/* Bytes of a buffer to the host. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_READ_H
#define ROTA_SCHED_RUNTIME_KINDS_READ_H

#include "sched/runtime_internal.h"

/* The sequencer's: its works; *out_final is the point of its end. On failure the cause and status of the
 * ticket. */
bool rota_kind_read_sequence(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                             uint64_t *out_final, rota_reason *out_reason, rota_status *out_status);
/* The submit thread's. */
rota_status rota_kind_read_prepare(rota_work *work, rota_exec_work *out);
/* The extents that a read's work takes from its device. */
const rota_extent *rota_host_read_extents(const rota_work *work, uint32_t *out_count);

#endif
