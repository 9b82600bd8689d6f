/* The completer thread: brings what was made for callers into their memory, in the order of submissions where
 * that is the same memory (deliver.h), adds to eventfds, hands tickets' callbacks to their own thread, and
 * ends the waits of devices for one that is lost. It frees nothing of a driver's, since a driver may let that
 * wait for all that its device has to do, and so for the very waits that are ended here. It never waits for
 * one thing while it could do another: what is not over is looked at again when its timeline has moved.
 *
 * Jobs come in the order of submissions. Each lies in its timeline's heap until its value is reached; then,
 * if it is a delivery whose turn has not come, with those that it waits for, whichever of them is over last
 * going on with it, or in the heap of what a device is to write before. The watch of a ticket whose delivery
 * is not over lies in a tree by number, where the delivery finds it. So what happens costs what it ends and
 * O(log n), however many others wait; but all that is left is looked at when a device is lost, which does
 * not happen often, and when the sequencer has ended tickets itself (ended_directly). */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "sched/runtime/completer/callbacks.h"
#include "sched/runtime/completer/complete.h"
#include "sched/runtime/completer/completer.h"
#include "sched/runtime/completer/rescue.h"
#include "sched/runtime/completer/watches.h"
#include "sched/runtime/kinds/read.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/ticket_state.h"
#include "sched/runtime/shared/timeline.h"

rota_status rota_completer_create(rota_runtime *runtime) {
    runtime->completer = calloc(1, sizeof *runtime->completer);
    if (!runtime->completer) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for the completer");
    runtime->completer->runtime = runtime;
    return ROTA_OK;
}

void rota_completer_free(rota_runtime *runtime) {
    free(runtime->completer);
    runtime->completer = NULL;
}

/* ---- Jobs by value: a pairing heap a timeline ---- */

static bool is_before(const rota_completion *a, const rota_completion *b) {
    return a->value != b->value ? a->value < b->value : a->arrival < b->arrival;
}

static rota_completion *meld(rota_completion *a, rota_completion *b) {
    if (!a) return b;
    if (!b) return a;
    if (is_before(b, a)) {
        rota_completion *first = b;
        b = a;
        a = first;
    }
    b->sibling = a->child;
    a->child = b;
    return a;
}

static rota_completion *without_first(rota_completion *heap) {
    rota_completion *pairs = NULL, *rest = heap->child;
    while (rest) { /* two by two, and then all from the last pair on */
        rota_completion *a = rest, *b = a->sibling;
        rest = b ? b->sibling : NULL;
        a->sibling = NULL;
        if (b) b->sibling = NULL;
        a = meld(a, b);
        a->sibling = pairs;
        pairs = a;
    }
    rota_completion *whole = NULL;
    while (pairs) {
        rota_completion *next = pairs->sibling;
        pairs->sibling = NULL;
        whole = meld(whole, pairs);
        pairs = next;
    }
    return whole;
}

static rota_completion **heap_of(rota_completer *c, uint64_t point) {
    return &c->heaps[rota_point_device(point) * ROTA_EXEC_QUEUES_MAX + rota_point_queue(point)];
}

static void put(rota_completer *c, rota_completion *completion, uint64_t point) {
    completion->value = rota_point_value(point);
    completion->arrival = ++c->arrivals;
    completion->child = completion->sibling = NULL;
    rota_completion **heap = heap_of(c, point);
    *heap = meld(*heap, completion);
}

/* ---- Watches by submission's number: a treap, through `child` and `sibling` ---- */

/* Numbers below go left. */
static void split(rota_completion *root, uint64_t number, rota_completion **out_left,
                  rota_completion **out_right) {
    if (!root) {
        *out_left = *out_right = NULL;
    } else if (root->value < number) {
        split(root->sibling, number, &root->sibling, out_right);
        *out_left = root;
    } else {
        split(root->child, number, out_left, &root->child);
        *out_right = root;
    }
}

static rota_completion *merge(rota_completion *left, rota_completion *right) {
    if (!left) return right;
    if (!right) return left;
    if (rota_hash_priority(left) > rota_hash_priority(right)) {
        left->sibling = merge(left->sibling, right);
        return left;
    }
    right->child = merge(left, right->child);
    return right;
}

static void put_ending(rota_completer *c, rota_completion *completion, uint64_t number) {
    rota_completion *left, *right;
    completion->value = number;
    completion->child = completion->sibling = NULL;
    split(c->ending, number, &left, &right);
    c->ending = merge(merge(left, completion), right);
}

static void prepend(rota_completion **list, rota_completion *completion) {
    completion->next = *list;
    *list = completion;
}

/* ---- Deliveries ---- */

static rota_instance *staging_of(const rota_submission *submission) {
    const bool has = submission->plan && submission->final_point != ROTA_POINT_PASSED;
    return has ? &submission->plan->executable->instances[submission->instance] : NULL;
}

typedef enum leg { FROM_STAGING, TO_ASIDE, FROM_ASIDE } leg;

/* Copies the OUTPUTs that are in the instance's staging memory; returns how many bytes they are. */
static uint64_t copy_staged(const rota_submission *submission, leg way, bool copies) {
    const rota_plan *plan = submission->plan;
    const rota_instance *instance = staging_of(submission);
    uint64_t bytes = 0;
    for (uint32_t t = plan->input_count; t < plan->transfer_count; t++) {
        const rota_plan_transfer *transfer = &plan->transfers[t];
        if (transfer->memory == ROTA_NONE) continue;
        const uint64_t size = plan->buffers[transfer->buffer].buffer->size_bytes;
        if (copies) {
            const uint8_t *from =
                way == FROM_ASIDE
                    ? submission->output.turn.aside + bytes
                    : (const uint8_t *)instance->memories[transfer->part][transfer->memory]->host +
                          transfer->offset_bytes;
            void *to = way == TO_ASIDE ? (void *)(submission->output.turn.aside + bytes)
                                       : (void *)(uintptr_t)submission->made.payload[plan->word_count + t];
            memcpy(to, from, size);
        }
        bytes += size;
    }
    return bytes;
}

/* The submission's bytes go to the caller's memory. */
static void deliver(const rota_submission *submission) {
    if (submission->plan)
        (void)copy_staged(submission, submission->output.turn.aside ? FROM_ASIDE : FROM_STAGING, true);
    if (submission->read) rota_host_read_deliver(submission->read, submission->read->data);
    for (uint32_t i = 0; i < submission->output.bounce_count; i++) {
        const rota_bounce *bounce = &submission->output.bounces[i];
        memcpy((void *)(uintptr_t)bounce->destination, submission->output.bounce + bounce->offset,
               bounce->size);
    }
}

static bool is_good(const rota_submission *submission) {
    /* Acquire: with rota_submission_fail; what failed was noted before the value was reached. */
    return !submission->output.turn.is_lost && submission->final_point != ROTA_POINT_PASSED &&
           !ra_load_acquire(&submission->shared.cause);
}

/* The instance's staging memory is not needed any more, and may be filled again. seq_cst: with the load in
 * outputs_are_copied, around the sleep of who wants that. */
static void give_staging_back(rota_runtime *runtime, const rota_submission *submission) {
    rota_instance *instance = staging_of(submission);
    if (!instance) return;
    (void)ra_fetch_add_seq_cst(&instance->outputs_copied, 1);
    rota_wait_table_wake(&runtime->completing.delivery_waiters, 1);
}

/* So that nobody who wants the instance waits for what this delivery waits for. Without memory they do. */
static void set_aside(rota_runtime *runtime, rota_submission *submission) {
    if (!submission->plan || submission->output.turn.aside) return;
    const bool good = is_good(submission);
    const uint64_t bytes = good ? copy_staged(submission, TO_ASIDE, false) : 0;
    submission->output.turn.aside = malloc(bytes + 1);
    if (!submission->output.turn.aside) return;
    if (good) (void)copy_staged(submission, TO_ASIDE, true);
    give_staging_back(runtime, submission);
}

/* Of what devices write into the same memory before: one that has not been written; a lost one's never will
 * be. NONE: there is none. */
static uint64_t unpassed_of(rota_runtime *runtime, const rota_delivery *delivery) {
    for (uint32_t i = 0; i < delivery->point_count; i++)
        if (!rota_point_passed(runtime, delivery->points[i]) &&
            !rota_device_is_lost(runtime->devices[rota_point_device(delivery->points[i])]))
            return delivery->points[i];
    return ROTA_POINT_NONE;
}

/* Those whose turn comes after this one. */
static void end_turn(rota_completer *c, rota_delivery *delivery) {
    rota_delivery_wait *wait = delivery->waiters;
    delivery->waiters = NULL;
    delivery->over = delivery->number;
    while (wait) {
        rota_delivery_wait *next = wait->next;
        rota_delivery *waiter = wait->waiter;
        if (--waiter->left == 0 && waiter->is_due) {
            waiter->is_due = false;
            c->waiting--;
            prepend(&c->due, waiter->submission->output.completion);
        }
        wait = next;
    }
}

static void end_watches(rota_completer *c, uint64_t number);

/* Its turn: delivers the submission, if there is something to deliver, and ends its ticket. Nothing of it may
 * be touched afterwards. */
static void finish_delivery(rota_completer *c, rota_submission *submission) {
    rota_runtime *runtime = c->runtime;
    const bool was_handed_over = submission->final_point != ROTA_POINT_PASSED;
    const uint64_t number = submission->number;
    if (is_good(submission)) deliver(submission);
    if (!submission->output.turn.aside) give_staging_back(runtime, submission);
    free(submission->output.turn.aside);
    submission->output.turn.aside = NULL;
    end_turn(c, &submission->delivery);
    ra_store_relaxed(&runtime->completing.delivered, ra_load_relaxed(&runtime->completing.delivered) + 1);
    if (submission->output.turn
            .is_lost) { /* the caller's memory may be gone; the sequencer fails the ticket */
        ra_store_release(&submission->told.delivery_done, ROTA_DELIVERY_LOST);
        ra_store_seq_cst(&runtime->sequencing.lost_pending, 1);
        rota_sleeper_wake(&runtime->sequencing.sleeper);
        return;
    }
    /* seq_cst: with the load in rota_ticket_view, around the sleep of who waits. */
    (void)ra_fetch_or_seq_cst(&submission->cell->state, (uint32_t)ROTA_CELL_DONE);
    if (was_handed_over) {
        /* Releases the submission to the sequencer, which may recycle it after this. seq_cst, with its
         * interest: it finds this when it looks before it sleeps, or is woken. */
        ra_store_seq_cst(&submission->told.delivery_done, ROTA_DELIVERY_COPIED);
        if (ra_load_seq_cst(&runtime->sequencing.interest)) rota_sleeper_wake(&runtime->sequencing.sleeper);
    } else {
        /* Likewise, to the take in rota_sequence_reap; ordered with the sequencer's sleep flag. */
        rota_stack_push_upmc(&runtime->sequencing.ended, &submission->seldom.ended);
        rota_sleeper_wake(&runtime->sequencing.sleeper);
    }
    rota_wait_table_wake(&runtime->completing.delivery_waiters, 1);
    end_watches(c, number);
}

/* Its value was reached, or its device is lost. */
static void try_delivery(rota_completer *c, rota_submission *submission) {
    rota_runtime *runtime = c->runtime;
    rota_delivery *delivery = &submission->delivery;
    if (delivery->left != 0) {
        set_aside(c->runtime, submission);
        delivery->is_due = true;
        c->waiting++;
        return;
    }
    const uint64_t before = unpassed_of(runtime, delivery);
    if (before != ROTA_POINT_NONE) {
        set_aside(c->runtime, submission);
        put(c, submission->output.completion, before);
        return;
    }
    finish_delivery(c, submission);
}

/* Whether its end was reached; how, is judged the first time. */
static bool is_reached(rota_runtime *runtime, rota_submission *submission) {
    if (submission->output.turn.is_reached || submission->final_point == ROTA_POINT_PASSED) return true;
    bool passed = rota_point_passed(runtime, submission->final_point);
    /* After it, both seq_cst: whoever saw the device lost and then the point not passed, and told the caller
     * that the ticket has ended, is seen here, though the point has passed since. Who asks later finds it
     * passed. */
    bool lost = rota_device_is_lost(runtime->devices[rota_point_device(submission->final_point)]);
    submission->output.turn.is_lost = lost;
    submission->output.turn.is_reached = passed || lost;
    return submission->output.turn.is_reached;
}

/* Of those before that are not over. They came earlier, as all completions of submissions come in their order. */
static void wait_for_turn(rota_submission *submission) {
    rota_delivery *delivery = &submission->delivery;
    delivery->left = 0;
    delivery->is_due = false;
    submission->output.turn.is_lost = submission->output.turn.is_reached = false;
    for (uint32_t i = 0; i < delivery->wait_count; i++) {
        rota_delivery_wait *wait = &delivery->waits[i];
        /* Of a struct that serves a later submission by now: a delivery is over before that. */
        if (wait->older->over >= wait->number) continue;
        wait->next = wait->older->waiters;
        wait->older->waiters = wait;
        delivery->left++;
    }
}

/* ---- Watches ---- */

/* Ends it, or lays it where what it waits for finds it. What that is, is asked first: who ends the ticket
 * after this thread saw that it has not ended is this thread itself, later, or says so afterwards. */
static void sort_in_watch(rota_completer *c, rota_completion *completion) {
    rota_runtime *runtime = c->runtime;
    const rota_ticket ticket = completion->u.watch.ticket;
    uint64_t number;
    const uint64_t point = rota_ticket_point(ticket, &number);
    const bool has_passed = rota_point_passed(runtime, point);
    const rota_status status = point == ROTA_POINT_NONE ? ROTA_BUSY : rota_ticket_status(ticket);
    if (status != ROTA_BUSY)
        rota_watch_end(completion, status, status == ROTA_OK ? "" : rota_last_error());
    else if (point == ROTA_POINT_NONE)
        prepend(&c->unsequenced, completion);
    else if (has_passed)
        put_ending(c, completion, number);
    else if (rota_device_is_lost(runtime->devices[rota_point_device(point)]))
        prepend(&c->late, completion);
    else
        put(c, completion, point);
}

static void sort_in_tree(rota_completer *c, rota_completion *tree) {
    while (tree) {
        rota_completion *right = tree->sibling;
        sort_in_tree(c, tree->child);
        sort_in_watch(c, tree);
        tree = right;
    }
}

static void end_watches(rota_completer *c, uint64_t number) {
    rota_completion *before, *found, *after;
    if (!c->ending) return;
    split(c->ending, number, &before, &found);
    split(found, number + 1, &found, &after);
    c->ending = merge(before, after);
    sort_in_tree(c, found);
}

/* ---- Kinds of completions ---- */

static void arrive_delivery(rota_completer *c, rota_completion *completion) {
    rota_submission *submission = completion->u.submission;
    wait_for_turn(submission);
    if (submission->final_point != ROTA_POINT_PASSED)
        put(c, completion, submission->final_point);
    else
        try_delivery(c, submission);
}

static void look_at_delivery(rota_completer *c, rota_completion *completion) {
    rota_submission *submission = completion->u.submission;
    if (is_reached(c->runtime, submission))
        try_delivery(c, submission);
    else
        put(c, completion, submission->final_point);
}

static void give_up_watch(rota_completion *completion) {
    rota_watch_end(completion, ROTA_TIMEOUT, "the runtime was closed before the submission ended");
}

/* What a completion is. */
typedef struct completion_row {
    /* It came: to where it waits, or it is over at once. */
    void (*arrive)(rota_completer *c, rota_completion *completion);
    /* The value that it waited for was reached, or the device is lost. */
    void (*look)(rota_completer *c, rota_completion *completion);
    /* The runtime closes, and what it waits for did not end. NULL: it is left to its submission. */
    void (*give_up)(rota_completion *completion);
} completion_row;

/* By rota_completion_kind. */
static const completion_row rows[] = {
    [ROTA_COMPLETION_DELIVERY] = {arrive_delivery, look_at_delivery, NULL},
    [ROTA_COMPLETION_CALLBACK] = {sort_in_watch, sort_in_watch, give_up_watch},
    [ROTA_COMPLETION_EVENTFD] = {sort_in_watch, sort_in_watch, give_up_watch},
    [ROTA_COMPLETION_EXTERNAL] = {sort_in_watch, sort_in_watch, give_up_watch},
    [ROTA_COMPLETION_STREAM] = {sort_in_watch, sort_in_watch, give_up_watch},
};

/* ---- Passes ---- */

/* What each delivery that was finished let go on, until nothing does. */
static void finish_due(rota_completer *c) {
    while (c->due) {
        rota_completion *completion = c->due;
        c->due = completion->next;
        try_delivery(c, completion->u.submission);
    }
}

static void take_completions(rota_completer *c) {
    /* With rota_completer_push. */
    rota_stack_entry *fresh = rota_stack_turned(rota_stack_take_upmc(&c->runtime->completing.completions));
    while (fresh) {
        rota_completion *completion = ROTA_STACK_OBJECT(fresh, rota_completion, entry);
        fresh = fresh->next;
        rows[completion->kind].arrive(c, completion);
        finish_due(c);
    }
}

/* What waits for a timeline of the device, as far as that got; of a lost device all, as what becomes of that
 * is not a matter of its timelines alone. */
static void look_at_device(rota_completer *c, const rota_device *device) {
    rota_runtime *runtime = c->runtime;
    for (uint32_t q = 0; q < runtime->queue_count; q++) {
        rota_completion **heap = &c->heaps[device->index * ROTA_EXEC_QUEUES_MAX + q];
        while (*heap) {
            rota_completion *completion = *heap;
            /* seq_cst: with `advanced`, around this thread's sleep. */
            if (completion->value > ra_load_seq_cst(&device->timelines[q].completed) &&
                !rota_device_is_lost(device))
                break;
            *heap = without_first(completion);
            rows[completion->kind].look(c, completion);
            finish_due(c);
        }
    }
}

/* Takes each of the list and sorts it in anew. */
static void look_again(rota_completer *c, rota_completion **list) {
    rota_completion *completions = *list;
    *list = NULL;
    while (completions) {
        rota_completion *completion = completions;
        completions = completion->next;
        const uint32_t lane = rota_ticket_lane(completion->u.watch.ticket.id);
        (void)ra_load_seq_cst(&rota_lane_at(&c->runtime->lanes, lane)->head); /* with tell_lanes */
        sort_in_watch(c, completion);
    }
}

/* How far lost devices got: one may go on after all. */
static uint64_t progress_of_lost(const rota_runtime *runtime) {
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    uint64_t sum = 0;
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; rota_device_is_lost(runtime->devices[d]) && q < runtime->queue_count; q++)
            sum += ra_load_seq_cst(&runtime->devices[d]->timelines[q].completed);
    return sum;
}

/* Watches that are found by nothing that ends. Before they are asked, both are loaded, seq_cst: whoever
 * changes one of them after that wakes this thread. */
static void look_at_ended_directly(rota_completer *c) {
    const uint64_t directly = ra_load_seq_cst(&c->runtime->completing.ended_directly);
    const uint64_t progress = c->late ? progress_of_lost(c->runtime) : c->lost_progress;
    if (directly == c->ended_directly && progress == c->lost_progress) return;
    if (directly != c->ended_directly) {
        rota_completion *tree = c->ending;
        c->ending = NULL;
        sort_in_tree(c, tree);
    }
    c->ended_directly = directly;
    c->lost_progress = progress;
    look_again(c, &c->late);
}

static void pass(rota_completer *c) {
    rota_assert_completer(c);
    uint32_t devices = ra_load_acquire(&c->runtime->device_count);
    take_completions(c);
    look_again(c, &c->unsequenced);
    for (uint32_t d = 0; d < devices; d++) look_at_device(c, c->runtime->devices[d]);
    look_at_ended_directly(c);
}

static bool has_pending(const rota_completer *c) {
    if (c->unsequenced || c->ending || c->late || c->waiting) return true;
    uint32_t devices = ra_load_acquire(&c->runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < c->runtime->queue_count; q++)
            if (c->heaps[d * ROTA_EXEC_QUEUES_MAX + q]) return true;
    return false;
}

static void give_up(rota_completion *completion) {
    if (rows[completion->kind].give_up) rows[completion->kind].give_up(completion);
}

static void give_up_all(rota_completion *completions) {
    while (completions) {
        rota_completion *completion = completions;
        completions = completion->next;
        give_up(completion);
    }
}

static void give_up_tree(rota_completion *tree) {
    while (tree) {
        rota_completion *right = tree->sibling;
        give_up_tree(tree->child);
        give_up(tree);
        tree = right;
    }
}

void *rota_completer_main(void *user) {
    rota_runtime *runtime = user;
    rota_completer *c = runtime->completer;
    rota_owner_take(&runtime->completing.owner);
    while (!ra_load_acquire(&runtime->completing.stop)) {
        pass(c);
        rota_linked_rescue(c);
        const bool calls = rota_callbacks_watch(c);
        if (!rota_stack_seems_empty_upmc(&runtime->completing.completions)) continue;
        rota_sleeper_prepare(&runtime->completing.sleeper);
        const bool awaits = c->unsequenced != NULL;
        /* With `advanced`: it sees the interest, or the pass below sees the new value. */
        if (has_pending(c)) {
            ra_store_seq_cst(&runtime->completing.interest, 1);
            if (awaits) ra_store_seq_cst(&runtime->completing.awaits, 1); /* with tell_lanes */
            pass(c);
        }
        if (!rota_stack_is_empty_upmc(&runtime->completing.completions) ||
            ra_load_seq_cst(&runtime->completing.stop) ||
            (c->unsequenced && !awaits)) /* it came with that pass */
            rota_sleeper_cancel(&runtime->completing.sleeper);
        else
            rota_sleeper_wait(&runtime->completing.sleeper,
                              rota_deadline_after(has_pending(c) || calls ? 100000000u : 1000000000u));
        ra_store_relaxed(&runtime->completing.interest, 0);
        ra_store_relaxed(&runtime->completing.awaits, 0);
    }
    /* At the end nothing is in flight any more: tickets have ended, or their device is abandoned. Twice,
     * since a ticket's callback may stand before its outputs. */
    for (int i = 0; i < 2; i++) pass(c);
    give_up_all(c->unsequenced);
    give_up_all(c->late);
    give_up_tree(c->ending);
    for (uint32_t i = 0; i < sizeof c->heaps / sizeof *c->heaps; i++)
        while (c->heaps[i]) {
            rota_completion *completion = c->heaps[i];
            c->heaps[i] = without_first(completion);
            give_up(completion);
        }
    c->unsequenced = c->late = c->ending = NULL;
    rota_owner_leave(&runtime->completing.owner);
    rota_runtime_thread_ends(runtime);
    ra_store_release(&runtime->completing.thread_ended, 1); /* with rota_runtime_close */
    return NULL;
}
