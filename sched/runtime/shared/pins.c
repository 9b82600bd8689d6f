/* Pins: how a thread whose wait has timed out reads the submission that it waits for, to say where it stands,
 * while the sequencer goes on. It keeps that one submission and its plan, whether it goes on itself or is
 * stopped in there; all else is recycled and freed as ever.
 *
 * `pins` of a submission holds its number, which no other submission ever has, and how many threads read it.
 * A thread counts itself in only where the number is the one that its ticket has; the sequencer takes the
 * number away only where nobody is counted. Both by compare-and-swap on the one word, so that either the
 * thread finds the number gone and reads nothing, or the sequencer finds the thread and lets the submission
 * lie until a later round. The word itself can be looked at whatever it belongs to by then, since the memory
 * of submissions is not given back before close. */
#include "base/atomic.h"
#include "sched/runtime/shared/pins.h"
#include "sched/runtime/shared/runtime.h"

#define THREAD_BITS 16 /* threads that read one submission at a time */

void rota_submission_publish(rota_submission *submission) {
    /* Releases what was written of the submission to rota_submission_pin. */
    ra_store_release(&submission->pins, submission->number << THREAD_BITS);
}

rota_submission *rota_submission_pin(rota_submission *submission, uint64_t number) {
    if (!submission) return NULL;
    uint64_t pins = ra_load_acquire(&submission->pins);
    while (pins >> THREAD_BITS == number && number != 0)
        /* Acquires what publish released; a failure loads anew. */
        if (ra_cas_acq_rel(&submission->pins, &pins, pins + 1)) return submission;
    return NULL;
}

void rota_submission_unpin(rota_runtime *runtime, rota_submission *submission) {
    /* Releases the reads to rota_submission_unpublish; seq_cst, with the sequencer's sleep flag: it sees this
     * when it looks before it sleeps, or this thread sees it asleep. */
    (void)ra_fetch_add_seq_cst(&submission->pins, (uint64_t)-1);
    rota_sleeper_wake(&runtime->sequencing.sleeper);
}

bool rota_submission_unpublish(rota_submission *submission) {
    uint64_t unread = submission->number << THREAD_BITS;
    return ra_cas_seq_cst(&submission->pins, &unread, 0); /* with the fetch_add in rota_submission_unpin */
}
