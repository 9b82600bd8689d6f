/* A replay that comes after points of the application's, or is to end by a deadline: one like any other. Where points
 * are not reached its works are on side queues, and held there by the submit threads until they are (blocked.c). One
 * whose points are reached by now differs from one that has none by what its works acquire. */
#include "sched/runtime/kinds/plan_after.h"
#include "sched/runtime/kinds/plan_describe.h"

#include "sched/runtime/kinds/plan.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/text.h"

static const uint64_t *points_of(const rota_plan *plan, const uint64_t *words) {
    return words + plan->executable->arguments.payload_words;
}

void rota_kind_after_drop(void *object, const uint64_t *words) {
    rota_external_wait_release(points_of(object, words));
}

static void end_after(rota_submission *submission) {
    submission->has_after = false;
    submission->seldom.after.count = 0; /* a queue may still name it: covers_row in side_queues.c */
}

/* What others wrote into memory that they share with a device, before the points that the host or the device saw, is to
 * be visible to the works: also where all were reached by now. */
static void acquire(rota_submission *submission) {
    for (uint32_t i = 0; i < submission->made.work_count; i++) submission->made.works[i].acquires = true;
}

bool rota_kind_after_sequence(rota_sequencing *s) {
    rota_submission *submission = s->submission;
    const uint64_t *points = points_of(s->object, s->words);
    const bool waits = s->has_record && !rota_external_wait_is_reached(points);
    submission->seldom.deadline.at_ns = rota_after_deadline(points);
    submission->has_deadline = submission->seldom.deadline.at_ns != 0;
    if (waits) s->after_words = rota_after_words(points);
    const bool ok = rota_kind_plan_sequence(s);
    if (!ok) submission->has_deadline = false;
    if (points[0]) acquire(submission);
    if (!waits || !ok) {
        end_after(submission);
        rota_external_wait_release(points);
        return ok;
    }
    const rota_device *device = submission->made.work_count ? submission->made.works[0].device : NULL;
    for (uint32_t i = 0; i < submission->made.work_count; i++) {
        submission->made.works[i].has_after = true;
        if (submission->made.works[i].device != device) device = NULL;
    }
    rota_external_wait_begin(&submission->seldom.after, device);
    return true;
}

void rota_kind_after_forget(const rota_submission *submission) {
    rota_submission *own = (rota_submission *)(uintptr_t)submission; /* nobody reads it any more */
    if (own->has_after) {
        rota_external_wait_release(own->seldom.after.words);
        end_after(own);
    }
    rota_kind_plan_forget(submission);
}

void rota_kind_after_describe(rota_runtime *runtime, const rota_submission *submission, char *text,
                              size_t capacity, size_t *length) {
    char clause[256];
    rota_external_wait_describe(&submission->seldom.after, clause, sizeof clause);
    if (clause[0]) rota_append(text, capacity, length, ", held for %s", clause);
    rota_kind_plan_describe(runtime, submission, text, capacity, length);
}
