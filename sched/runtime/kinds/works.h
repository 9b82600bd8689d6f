/* What kinds of submissions share: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_WORKS_H
#define ROTA_SCHED_RUNTIME_KINDS_WORKS_H

#include "sched/plan/compiled.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/side_queues.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/work.h"

/* The host's access to the buffer waits for more than copies: it is counted there until it is over. */
void rota_keeping_begin(rota_submission *submission, rota_residency *residency, uint64_t bytes);

/* Room for so many of each; contents are not kept. False: no host memory. */
bool rota_submission_reserve(rota_runtime *runtime, rota_submission *submission, uint64_t works,
                             uint64_t segments, uint64_t transfers, uint64_t payload);
/* Of the buffer that is read or written. */
void rota_submission_note_name(rota_submission *submission, const char *name);
/* Of rota_kind, for accesses of the host's. */
const char *rota_kind_host_name(const rota_submission *submission);
void rota_kind_host_uncount(rota_sequencer *sequencer, rota_submission *submission);
/* Whether the completer is to deliver others' bytes to the same memory first. */
static inline bool rota_submission_comes_after_others(const rota_submission *submission) {
    return submission->by_delivery && (submission->delivery.wait_count || submission->delivery.point_count);
}

/* A device that has the bytes: best one whose memory `to` reads itself (NULL: nobody), else one whose memory the host
 * sees. One that is lost only where there is no other: what is handed to it fails with its cause. */
rota_device *rota_residency_holder(rota_runtime *runtime, const rota_residency *residency, rota_copies valid,
                                   const rota_device *to);
/* Up to where, at most `end`, bytes from `begin` on are on the same devices. */
uint64_t rota_residency_end_of_same(rota_residency *residency, uint64_t begin, uint64_t end,
                                    rota_copies *out_valid);
/* Where one copy of some bytes is good and another is not, only the copying failed: that one counts as not
 * there, and is made again if it is needed. Not before who wrote or moved the bytes last is through. */
void rota_copies_drop_failed(rota_sequencer *sequencer, rota_residency *residency, uint64_t begin,
                             uint64_t end);
/* Whether bytes [begin, end) can be had where `there` says (as rota_range.valid; 0: by the host); counts the
 * moves that takes. On failure status and reason say why not. */
bool rota_incoming_check(rota_sequencing *sequencing, rota_residency *residency, uint64_t begin, uint64_t end,
                         rota_copies there, const char *node, uint32_t *moves);
/* Moves what of bytes [begin, end) the device has not to it. */
void rota_bytes_bring(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                      rota_residency *residency, uint64_t begin, uint64_t end, rota_device *device);

static inline rota_work_kind rota_work_kind_of(const rota_plan_segment *segment) {
    return segment->has_loops && !segment->may_fail ? ROTA_WORK_LOOPS
                                                    : ROTA_WORK_SEGMENT; /* else by the gate */
}
/* The next work of the submission, and of the queue. */
rota_work *rota_work_add(rota_submission *submission, rota_device *device, uint32_t queue,
                         rota_work_kind kind, uint32_t index);
/* The works of a submission that come with no plan, and those that move bytes for one. */
rota_work *rota_work_add_copy(rota_submission *submission, const rota_prospect *prospect, rota_work_kind kind,
                              uint32_t index);
/* Under a memory limit a copy whose staging memory does not lie idle may have to be blocked until there is some:
 * it is late. What goes over soon has its own from here on. */
void rota_work_provide(rota_sequencer *sequencer, rota_prospect *prospect, uint64_t size, uint32_t flags,
                       rota_staging **out_span);
/* The work has all that it comes after in the wanted values: they become its waits, and later works may come
 * after it. */
void rota_work_settle(rota_sequencer *sequencer, rota_wanted *wanted, rota_work *work,
                      const rota_prospect *prospect);

#endif
