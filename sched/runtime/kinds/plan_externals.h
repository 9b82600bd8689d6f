/* What a submission touches, read from its plan and its arguments. Internal. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_PLAN_EXTERNALS_H
#define ROTA_SCHED_RUNTIME_KINDS_PLAN_EXTERNALS_H

#include "graph/buffer_internal.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/shared/submission.h"

/* What is bound to a slot of a plan's submission: the root buffer's address and the offset in it. */
static inline const uint64_t *rota_submission_bound(const rota_submission *submission, uint32_t slot) {
    const rota_executable *executable = submission->plan->executable;
    return &submission->made.payload[executable->arguments.payload_words -
                                     2 * (executable->arguments.slot_buffer_count - slot)];
}

/* The range of a root buffer that an external of the submission's plan names. What is bound to a slot may be
 * gone once the submission's works have passed: then the root is an address that can be compared. */
static inline const rota_buffer *rota_submission_root(const rota_submission *submission,
                                                      const rota_plan_external *external,
                                                      uint64_t *out_begin) {
    const rota_plan *plan = submission->plan;
    const rota_buffer *root = plan->buffers[external->buffer].buffer;
    uint32_t slot = plan->executable->arguments.slot_of_buffer[external->buffer];
    *out_begin = external->offset_bytes;
    if (slot != ROTA_NONE) {
        const uint64_t *bound = rota_submission_bound(submission, slot);
        root = (const rota_buffer *)(uintptr_t)bound[0];
        *out_begin += bound[1];
    }
    return root;
}

static inline rota_residency *rota_submission_external(const rota_submission *submission,
                                                       const rota_plan_external *external,
                                                       uint64_t *out_begin) {
    return rota_submission_root(submission, external, out_begin)->residency;
}

#endif
