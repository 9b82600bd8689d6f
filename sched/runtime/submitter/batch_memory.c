/* Staging memory for works that are about to go over.
 *
 * One place makes it, the submit thread between taking works and handing them over, since a driver may keep who asks
 * for memory, and under a memory limit also who gives some back for it. Meanwhile the works are nobody's in particular
 * (ROTA_HANDS_MEMORY): where the device is lost another thread may put them back to what is blocked. Whether a work may
 * be taken only asks what was found here before (rota_work_starves).
 *
 * Under a memory limit there may be none. Then what lies idle is given back, and the work, with all that was taken
 * behind it, is blocked again as rota_staging_trim waits: while the reclaimer gets on with that. What was taken before
 * it does not come after it, has its memory, and goes over; so no blocked work keeps memory that another one is blocked
 * for. */
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/submitter/batch_memory.h"
#include "sched/runtime/submitter/cancelled.h"
#include "sched/runtime/submitter/handover.h"
#include "sched/runtime/submitter/submitter.h"

/* What it needs and has not. */
static rota_need missing(const rota_work *work) {
    const rota_work_row *row = rota_work_row_of(work);
    const rota_need nothing = {NULL, 0, 0};
    if (!row->need || work->skipped || work->dropped) return nothing;
    const rota_need need = row->need(work);
    /* What is cancelled now is so when it is handed over, and left out there. */
    return need.span && !*need.span && !rota_cancelled_leaves_out(work) ? need : nothing;
}

void rota_batch_memory_ask(const rota_submitter *submitter, rota_batch_memory *memory) {
    const bool is_lost = rota_device_is_lost(submitter->device);
    memory->count = memory->ready = submitter->batch_count;
    memory->is_needed = false;
    for (uint32_t i = 0; i < memory->count; i++) {
        memory->needs[i] = is_lost ? (rota_need){NULL, 0, 0} : missing(submitter->batch[i]);
        memory->is_needed = memory->is_needed || memory->needs[i].span;
        memory->spans[i] = NULL;
        memory->causes[i] = NULL;
    }
}

/* False: the work is to be blocked until memory is back. */
static bool try_to_make(rota_submitter *submitter, const rota_work *work, const rota_need *need,
                        rota_staging **out_span, rota_status *out_status) {
    rota_device *device = submitter->device;
    rota_starving *starving = &submitter->starving[work->queue];
    bool is_limited;
    while ((*out_status = rota_staging_try(device, need->size, need->flags, &is_limited, out_span)) !=
               ROTA_OK &&
           is_limited) {
        if (starving->value != work->value) *starving = (rota_starving){.value = work->value};
        const rota_trim_state state =
            starving->rounds ? rota_trim_look(device->runtime, &starving->trim) : ROTA_TRIM_ROOM;
        if (state == ROTA_TRIM_WAIT) return false;
        if (state == ROTA_TRIM_NONE || starving->rounds == ROTA_TRIMS_MAX) break; /* it fails */
        starving->rounds++;
        rota_trim_begin_for_span(device->runtime, need->size, &starving->trim);
    }
    return true;
}

void rota_batch_memory_make(rota_submitter *submitter, rota_batch_memory *memory) {
    for (uint32_t i = 0; i < memory->count; i++) {
        const rota_work *work = submitter->batch[i];
        rota_status status;
        if (!memory->needs[i].span) continue;
        if (!try_to_make(submitter, work, &memory->needs[i], &memory->spans[i], &status)) {
            memory->ready = i;
            return;
        }
        rota_handover_note(submitter->device); /* it gets on: who gives up on it counts for each of them anew */
        if (status == ROTA_OK) continue;
        const rota_submission *submission = work->submission;
        const rota_kind *kind = &rota_kinds[submission->kind];
        memory->causes[i] = rota_cause_new(submitter->device->runtime, status,
                                           "submission " ROTA_CAUSE_NUMBER ": %s '%s': %s", kind->noun,
                                           kind->name(submission), rota_last_error());
    }
}

void rota_batch_memory_give(const rota_batch_memory *memory) {
    for (uint32_t i = 0; i < memory->ready; i++)
        if (memory->spans[i]) *memory->needs[i].span = memory->spans[i];
}

void rota_batch_memory_release(const rota_batch_memory *memory) {
    for (uint32_t i = 0; i < memory->ready; i++)
        if (memory->spans[i]) rota_staging_release(memory->spans[i]);
}

bool rota_work_starves(rota_submitter *submitter, const rota_work *work) {
    rota_assert_submitter(submitter);
    rota_starving *starving = &submitter->starving[work->queue];
    if (work->skipped || starving->value != work->value || rota_cancelled_leaves_out(work)) return false;
    if (rota_trim_look(submitter->device->runtime, &starving->trim) != ROTA_TRIM_WAIT) return false;
    submitter->starves = true;
    return true;
}

bool rota_work_take_memory(const rota_work *work) {
    if (!rota_work_row_of(work)->need) return true; /* most */
    const rota_need need = missing(work);
    if (need.span) *need.span = rota_staging_take(work->device, need.size, need.flags);
    return !need.span || *need.span;
}
