/* Kinds of submissions, and of their works: a row of functions each. A new kind is a file and a row; nothing
 * else asks which kind a submission or a work is. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_KINDS_H
#define ROTA_SCHED_RUNTIME_KINDS_KINDS_H

#include "exec/exec.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/work.h"

/* What a submission is. NULL: there is nothing to be done for such. */
typedef struct rota_kind {
    const char *noun;
    bool writes_host; /* memory of the caller's: its place there is among deliveries */

    /* ---- Any thread's that has the submission pinned ---- */

    /* Of its plan, or of the buffer that is read or written. */
    const char *(*name)(const rota_submission *submission);
    /* Appends where it stands, for the sentence of a deadline. */
    void (*describe)(rota_runtime *runtime, const rota_submission *submission, char *text, size_t capacity,
                     size_t *length);

    /* ---- The sequencer's, or who closes ---- */

    /* A record will not be sequenced: gives back what it holds, it and its words. */
    void (*drop)(void *object, const uint64_t *words);
    /* Makes the submission and its works, all settled, of a record; false: status and reason say why it
     * failed, and no work was made. */
    bool (*sequence)(rota_sequencing *sequencing);
    /* No device was given the submission, nor will be. */
    void (*give_back)(const rota_submission *submission);
    /* Calls fn for each range of a root buffer that it writes. The root may be gone, and is an address then.
     */
    void (*for_written)(rota_runtime *runtime, const rota_submission *submission, rota_written_fn fn,
                        void *user);
    /* It has ended as it should. */
    void (*note_end)(rota_sequencer *sequencer, const rota_submission *submission);
    /* It counts among those that wait no more. */
    void (*uncount)(rota_sequencer *sequencer, rota_submission *submission);
    /* No device and no completer has it any more. */
    void (*end)(rota_sequencer *sequencer, rota_submission *submission);
    /* Nor any thread that waited for it. */
    void (*forget)(const rota_submission *submission);
} rota_kind;

/* By rota_record_kind. */
extern const rota_kind rota_kinds[];

/* What a work is. */
typedef struct rota_work_row {
    /* ---- The submit thread's, or the sequencer's while that has nothing ---- */

    /* What the executor gets beyond queue, waits and signal; the work has what it needs. Enters no driver. As
     * rota_fail: the work fails with that. */
    rota_status (*prepare)(rota_work *work, rota_exec_work *out);
    /* It won't run: what the executor gets for that. */
    void (*leave_out)(const rota_work *work, rota_exec_work *out);
    /* Whether it may be handed over as far as its kind goes. */
    bool (*is_decided)(const rota_work *work);
    /* Whether the bytes that it brings are there to be brought. */
    bool (*has_source)(const rota_work *work);
    /* The staging memory that it needs; it may have it from when it was sequenced, or while it was blocked. */
    rota_need (*need)(const rota_work *work);
    /* Its device is lost and is not given it: gives back what is not kept with its submission. */
    void (*give_back)(const rota_work *work);

    /* ---- The sequencer's ---- */

    /* Its submission is kept, since a lost device may still have works of it: gives back what this one needs
     * no more, if it has ended. */
    void (*release)(rota_sequencer *sequencer, const rota_work *work);

    /* ---- Judges', who hold failed.mutex (touch.h) ---- */

    /* Calls `before` for each range that it reads and `after` for each that it writes, as far as others can
     * see them; either may be NULL. Stops at true. With both, marks of what is moved go along with it; with
     * `before` alone it is what is read from before the submission, of a work that does not move. */
    bool (*touch)(rota_runtime *runtime, const rota_work *work, rota_touch_fn before, rota_touch_fn after,
                  void *user);
    /* The same for one node of a plan's part, `owner`; or for a work that is a copy, NULL. */
    bool (*touch_node)(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                       rota_touch_fn fn, void *user);
    /* Has the marks of what the node, or the copy, moves go along with it. False: it is none that moves. */
    bool (*carry)(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node);
    /* A loss keeps it from running: what it stands for, and a lost device will not write, is marked. */
    void (*undone)(rota_runtime *runtime, const rota_work *work);
} rota_work_row;

/* By rota_work_kind. */
extern const rota_work_row rota_work_rows[];

static inline const rota_work_row *rota_work_row_of(const rota_work *work) {
    return &rota_work_rows[work->kind];
}

#endif
