/* What a submission touches, read from its plan and its arguments, and that it failed. */
#include "sched/runtime_internal.h"

const uint64_t *rota_submission_bound(const rota_submission *submission, uint32_t slot) {
    const rota_plan_run *run = submission->plan->run;
    return &submission->payload[run->payload_words - 2 * (run->slot_buffer_count - slot)];
}

const rota_buffer *rota_submission_root(const rota_submission *submission, const rota_plan_external *external,
                                        uint64_t *out_begin) {
    const rota_plan *plan = submission->plan;
    const rota_buffer *root = plan->buffers[external->buffer].buffer;
    uint32_t slot = plan->run->slot_of_buffer[external->buffer];
    *out_begin = external->offset_bytes;
    if (slot != ROTA_NONE) {
        const uint64_t *bound = rota_submission_bound(submission, slot);
        root = (const rota_buffer *)(uintptr_t)bound[0];
        *out_begin += bound[1];
    }
    return root;
}

rota_residency *rota_submission_external(const rota_submission *submission,
                                         const rota_plan_external *external, uint64_t *out_begin) {
    return rota_submission_root(submission, external, out_begin)->residency;
}

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
