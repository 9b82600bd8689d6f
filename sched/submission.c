/* What a submission comes to. */
#include "sched/runtime_internal.h"

void rota_submission_fail(rota_runtime *runtime, rota_submission *submission, rota_reason reason,
                          bool first) {
    const rota_cause *none = NULL;
    if (!ra_cas_acq_rel(&submission->cause, &none, reason.cause)) return;
    rota_status status = first && reason.cause->status != ROTA_UNDEFINED_DATA
                             ? reason.cause->status
                             : rota_cause_inherited(reason.cause);
    rota_ticket_set_failed(runtime, submission->cell, submission->ticket_id, status, reason);
}

const rota_extent *rota_host_read_extents(const rota_work *work, uint32_t *out_count) {
    const rota_host_read *read = work->submission->read;
    *out_count = read->parts[work->segment].extent_count;
    return &read->extents[read->parts[work->segment].first_extent];
}
