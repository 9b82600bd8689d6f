/* Bytes from the host into a buffer. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_WRITE_H
#define ROTA_SCHED_RUNTIME_KINDS_WRITE_H

#include "sched/runtime_internal.h"

/* The sequencer's: its work; *out_final is the point of its end. */
void rota_kind_write_sequence(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                              uint64_t *out_final);
/* The submit thread's. */
rota_status rota_kind_write_prepare(rota_work *work, rota_exec_work *out);

#endif
