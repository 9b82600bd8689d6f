/* Who writes which host memory last: a treap of disjoint ranges, each with the newest submission that writes
 * it. The sequencer's alone, so nothing here is shared.
 *
 * A submission takes its ranges over from those before it, and comes after them: the completer delivers it
 * when they have been, and its ticket ends then (complete.c). What it takes over it answers for, so that
 * whoever takes a range over from it comes after all of them. Where a device writes the caller's memory
 * itself, and so did the device for the one before, the later segment waits for the earlier one like for any
 * other memory; where the one before is the completer's, or another device's, the device gets memory of
 * rota's to write, and the completer brings that on when it is its turn. So no device waits for the completer
 * here, and the completer waits for devices only by looking. */
#include "sched/runtime/order/deliver.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/hash.h"
#include "graph/buffer_internal.h" /* IWYU pragma: keep */
#include "sched/runtime/order/chain.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* ---- The treap ---- */

/* What begins before `offset` goes left. */
static void split(rota_host_range *root, uint64_t offset, rota_host_range **out_left,
                  rota_host_range **out_right) {
    if (!root) {
        *out_left = *out_right = NULL;
    } else if (root->begin < offset) {
        split(root->right, offset, &root->right, out_right);
        *out_left = root;
    } else {
        split(root->left, offset, out_left, &root->left);
        *out_right = root;
    }
}

static rota_host_range *merge(rota_host_range *left, rota_host_range *right) {
    if (!left) return right;
    if (!right) return left;
    if (left->priority > right->priority) {
        left->right = merge(left->right, right);
        return left;
    }
    right->left = merge(left, right->left);
    return right;
}

static void erase(rota_host_range **root, rota_host_range *range) {
    while (*root != range) root = range->begin < (*root)->begin ? &(*root)->left : &(*root)->right;
    *root = merge(range->left, range->right);
}

/* ---- Ranges ---- */

static bool reserve_ranges(rota_deliveries *all, uint64_t count) {
    while (all->spare_count < count) {
        rota_host_range *range = malloc(sizeof *range);
        if (!range) return false;
        range->next_own = all->spare;
        all->spare = range;
        all->spare_count++;
    }
    return true;
}

/* Of a spare one, which there is. */
static rota_host_range *new_range(rota_deliveries *all, rota_delivery *owner, uint64_t begin, uint64_t end,
                                  uint64_t point) {
    rota_host_range *range = all->spare;
    all->spare = range->next_own;
    all->spare_count--;
    *range = (rota_host_range){.begin = begin,
                               .end = end,
                               .owner = owner,
                               .point = point,
                               .next_own = owner->ranges,
                               .priority = rota_hash_priority(range)};
    if (owner->ranges) owner->ranges->previous_own = range;
    owner->ranges = range;
    return range;
}

static void free_range(rota_deliveries *all, rota_host_range *range) {
    if (range->previous_own)
        range->previous_own->next_own = range->next_own;
    else
        range->owner->ranges = range->next_own;
    if (range->next_own) range->next_own->previous_own = range->previous_own;
    range->next_own = all->spare;
    all->spare = range;
    all->spare_count++;
}

/* ---- What comes before ---- */

/* Among those from `first` on. */
static void note_point(rota_delivery *delivery, uint32_t first, uint64_t point) {
    for (uint32_t i = first; i < delivery->point_count; i++)
        if (rota_point_timeline(delivery->points[i]) == rota_point_timeline(point)) {
            if (delivery->points[i] < point) delivery->points[i] = point;
            return;
        }
    delivery->points[delivery->point_count++] = point;
}

static void comes_after(rota_runtime *runtime, rota_delivery *delivery, uint32_t first_point,
                        const rota_host_range *before) {
    rota_delivery *older = before->owner;
    if (older == delivery) return;
    if (before->point != ROTA_POINT_NONE) {
        if (!rota_point_passed(runtime, before->point)) note_point(delivery, first_point, before->point);
        return;
    }
    if (older->noted == delivery->number) return;
    older->noted = delivery->number;
    delivery->waits[delivery->wait_count++] = (rota_delivery_wait){older, older->number, delivery, NULL};
}

/* All ranges of a part of the treap go: the delivery has them as a whole. */
static void take_over_all(rota_sequencer *sequencer, rota_delivery *delivery, uint32_t first_point,
                          rota_host_range *taken) {
    rota_runtime *runtime = sequencer->runtime;
    while (taken) {
        rota_host_range *right = taken->right;
        take_over_all(sequencer, delivery, first_point, taken->left);
        comes_after(runtime, delivery, first_point, taken);
        free_range(&sequencer->deliveries, taken);
        taken = right;
    }
}

static rota_host_range *last_of(rota_host_range *root) {
    while (root && root->right) root = root->right;
    return root;
}

/* [begin, end) becomes the delivery's. Two spare ranges, and room for what comes before, are there. Points
 * are noted from `first_point` on. */
static void take_over(rota_sequencer *sequencer, rota_delivery *delivery, uint64_t begin, uint64_t end,
                      uint64_t point, uint32_t first_point) {
    rota_runtime *runtime = sequencer->runtime;
    rota_deliveries *all = &sequencer->deliveries;
    if (begin >= end) return;
    rota_host_range *before, *taken, *after;
    split(all->root, begin, &before, &taken);
    split(taken, end, &taken, &after);
    rota_host_range *first = last_of(before);
    if (first && first->end > begin) {
        comes_after(runtime, delivery, first_point, first);
        if (first->end > end)
            after = merge(new_range(all, first->owner, end, first->end, first->point), after);
        first->end = begin;
    }
    rota_host_range *last = last_of(taken);
    if (last && last->end > end) {
        comes_after(runtime, delivery, first_point, last);
        erase(&taken, last);
        last->left = last->right = NULL;
        last->begin = end;
        after = merge(last, after);
    }
    take_over_all(sequencer, delivery, first_point, taken);
    all->root = merge(merge(before, new_range(all, delivery, begin, end, point)), after);
}

typedef struct overlap {
    uint32_t ranges;
    bool of_completer; /* one of them is written by the completer, */
    uint64_t unpassed; /* or by these devices (bits), which have not done so yet */
} overlap;

/* Adds up what of [begin, end) is another's. */
static void look(rota_runtime *runtime, const rota_delivery *delivery, const rota_host_range *range,
                 uint64_t begin, uint64_t end, overlap *b) {
    while (range) {
        if (range->begin < end && range->end > begin) {
            b->ranges++;
            if (range->owner != delivery && range->point == ROTA_POINT_NONE)
                b->of_completer = true;
            else if (range->owner != delivery && !rota_point_passed(runtime, range->point))
                b->unpassed |= (uint64_t)1 << rota_point_device(range->point);
        }
        /* Ranges are disjoint: to the left of one that begins at or before `begin` all end before it. */
        if (range->begin > begin) look(runtime, delivery, range->left, begin, end, b);
        range = range->begin < end ? range->right : NULL;
    }
}

/* ---- Submissions ---- */

static bool room(void *array, uint32_t *capacity, uint64_t count, size_t element) {
    void **pointer = array;
    if (count <= *capacity) return true;
    uint64_t wanted = *capacity * 2ull > count ? *capacity * 2ull : count;
    void *memory = wanted <= UINT32_MAX ? realloc(*pointer, wanted * element) : NULL;
    if (!memory) return false;
    *pointer = memory;
    *capacity = (uint32_t)wanted;
    return true;
}

/* What others look at only of a submission that delivers is as it must be before it does. */
static void begin(rota_submission *submission) {
    rota_delivery *delivery = &submission->delivery;
    submission->delivers = true;
    ra_store_relaxed(&submission->told.delivery_done, ROTA_DELIVERY_PENDING);
    delivery->submission = submission;
    delivery->number = submission->number;
    delivery->wait_count = delivery->point_count = delivery->after_count = 0;
    submission->output.bounce_count = 0;
}

static bool reserve(rota_sequencer *sequencer, rota_submission *submission, uint64_t outputs,
                    uint64_t before) {
    rota_runtime *runtime = sequencer->runtime;
    rota_delivery *delivery = &submission->delivery;
    const uint64_t timelines =
        before ? (uint64_t)ra_load_acquire(&runtime->device_count) * runtime->queue_count : 0;
    return room(&delivery->after, &delivery->after_capacity, timelines, sizeof *delivery->after) &&
           reserve_ranges(&sequencer->deliveries, 2 * outputs) &&
           room(&delivery->waits, &delivery->wait_capacity, before, sizeof *delivery->waits) &&
           room(&delivery->points, &delivery->point_capacity, before, sizeof *delivery->points);
}

/* What the completer's turn comes after, all taken over. Those before are there: their ranges were. */
static void note_after(rota_sequencer *sequencer, rota_wanted *wanted, rota_delivery *delivery) {
    rota_runtime *runtime = sequencer->runtime;
    for (uint32_t i = 0; i < delivery->point_count; i++)
        rota_chain_want(sequencer, wanted, delivery->points[i]);
    for (uint32_t i = 0; i < delivery->wait_count; i++) {
        const rota_delivery *older = delivery->waits[i].older;
        rota_chain_want(sequencer, wanted, older->submission->final_point);
        for (uint32_t k = 0; k < older->after_count; k++)
            if (!rota_point_passed(runtime, older->after[k]))
                rota_wanted_add(wanted, runtime->queue_count, older->after[k]);
    }
    delivery->after_count = rota_wanted_take(wanted, runtime->queue_count, delivery->after);
}

static uint64_t address_of(const rota_submission *submission, uint32_t t) {
    const rota_plan *plan = submission->plan;
    const uint32_t word = plan->transfers[t].word;
    return submission->made.payload[word != ROTA_NONE ? word : plan->word_count + t];
}

static uint64_t bytes_of(const rota_plan *plan, uint32_t t) {
    return plan->buffers[plan->transfers[t].buffer].buffer->size_bytes;
}

/* Whether the device may write the OUTPUT into the caller's memory itself: what comes before is on the same
 * device, and so ordered there, or over. */
static bool is_direct(const rota_plan_transfer *transfer, const rota_device *device, const overlap *b) {
    return transfer->word != ROTA_NONE && !b->of_completer &&
           (b->unpassed & ~((uint64_t)1 << device->index)) == 0;
}

bool rota_deliver_outputs(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    const rota_plan *plan = submission->plan;
    rota_delivery *delivery = &submission->delivery;
    const uint32_t outputs = plan->transfer_count - plan->input_count;
    if (outputs == 0) return true;
    begin(submission);
    if (!room(&submission->output.bounces, &submission->output.bounce_capacity, outputs,
              sizeof *submission->output.bounces))
        return false;
    uint64_t overlapping = 0, bounce_bytes = 0;
    uint32_t bounces = 0;
    for (uint32_t t = plan->input_count; t < plan->transfer_count; t++) {
        const rota_plan_transfer *transfer = &plan->transfers[t];
        const uint64_t address = address_of(submission, t), bytes = bytes_of(plan, t);
        overlap b = {0};
        look(runtime, delivery, sequencer->deliveries.root, address, address + bytes, &b);
        overlapping += b.ranges;
        if (transfer->word == ROTA_NONE || is_direct(transfer, plan->partitions[transfer->part].device, &b))
            continue;
        submission->output.bounces[bounces++] = (rota_bounce){t, address, bytes, bounce_bytes};
        bounce_bytes += (bytes + 63) / 64 * 64;
    }
    if (!reserve(sequencer, submission, outputs, overlapping)) return false;
    if (bounces) {
        submission->output.bounce = malloc(bounce_bytes);
        if (!submission->output.bounce) return false;
        submission->output.bounce_count = bounces;
        submission->output.bounce_bytes = bounce_bytes;
        submission->by_delivery = true;
    }
    uint32_t bounced = 0;
    for (uint32_t t = plan->input_count; t < plan->transfer_count; t++) {
        const uint64_t address = address_of(submission, t), bytes = bytes_of(plan, t);
        const uint32_t word = plan->transfers[t].word;
        const bool is_bounced = bounced < bounces && submission->output.bounces[bounced].transfer == t;
        if (word != ROTA_NONE && !is_bounced) continue; /* in rota_deliver_segment */
        if (is_bounced)
            submission->made.payload[word] =
                (uint64_t)(uintptr_t)submission->output.bounce + submission->output.bounces[bounced++].offset;
        take_over(sequencer, delivery, address, address + bytes, ROTA_POINT_NONE, 0);
    }
    note_after(sequencer, wanted, delivery);
    return true;
}

bool rota_deliver_to(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                     const void *memory, uint64_t bytes) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    overlap b = {0};
    begin(submission);
    look(runtime, &submission->delivery, sequencer->deliveries.root, address, address + bytes, &b);
    if (!reserve(sequencer, submission, 1, b.ranges)) return false;
    take_over(sequencer, &submission->delivery, address, address + bytes, ROTA_POINT_NONE, 0);
    note_after(sequencer, wanted, &submission->delivery);
    return true;
}

void rota_deliver_segment(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                          uint32_t segment, uint64_t point, uint32_t *next) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    const rota_plan *plan = submission->plan;
    const rota_executable *executable = plan->executable;
    rota_delivery *delivery = &submission->delivery;
    for (; *next < executable->direct_count && plan->transfers[executable->direct[*next]].segment == segment;
         ++*next) {
        const uint32_t t = executable->direct[*next], noted = delivery->point_count;
        const uint64_t address = address_of(submission, t);
        const uint64_t in_bounce = address - (uint64_t)(uintptr_t)submission->output.bounce;
        if (submission->output.bounce_count && in_bounce < submission->output.bounce_bytes) continue;
        take_over(sequencer, delivery, address, address + bytes_of(plan, t), point, noted);
        while (delivery->point_count > noted)
            rota_wanted_add(wanted, runtime->queue_count, delivery->points[--delivery->point_count]);
    }
}

/* Of memory that the submission names: how much of it others write, in ranges. */
static uint64_t overlapping_ranges(rota_sequencer *sequencer, const rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    const rota_delivery *delivery = &submission->delivery;
    const rota_host_read *read = submission->read;
    overlap b = {0};
    if (read) {
        const uint64_t address = (uint64_t)(uintptr_t)read->data;
        if (read->data)
            look(runtime, delivery, sequencer->deliveries.root, address, address + read->size, &b);
        return b.ranges;
    }
    const rota_plan *plan = submission->plan;
    uint64_t overlapping = 0;
    for (uint32_t t = plan->input_count; t < plan->transfer_count; t++) {
        const uint64_t address = address_of(submission, t);
        b = (overlap){0};
        look(runtime, delivery, sequencer->deliveries.root, address, address + bytes_of(plan, t), &b);
        overlapping += b.ranges;
    }
    return overlapping;
}

bool rota_deliver_is_behind(rota_sequencer *sequencer, const rota_submission *submission) {
    rota_assert_sequencer(sequencer);
    return overlapping_ranges(sequencer, submission) != 0;
}

bool rota_deliver_nothing(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission) {
    rota_assert_sequencer(sequencer);
    const rota_host_read *read = submission->read;
    if (read) return rota_deliver_to(sequencer, wanted, submission, read->data, read->size);
    const rota_plan *plan = submission->plan;
    rota_delivery *delivery = &submission->delivery;
    const uint32_t outputs = plan->transfer_count - plan->input_count;
    begin(submission);
    if (!reserve(sequencer, submission, outputs, overlapping_ranges(sequencer, submission))) return false;
    for (uint32_t t = plan->input_count; t < plan->transfer_count; t++) {
        const uint64_t address = address_of(submission, t);
        take_over(sequencer, delivery, address, address + bytes_of(plan, t), ROTA_POINT_NONE, 0);
    }
    note_after(sequencer, wanted, delivery);
    return true;
}

void rota_deliver_end(rota_sequencer *sequencer, rota_submission *submission) {
    rota_assert_sequencer(sequencer);
    while (submission->delivery.ranges) {
        rota_host_range *range = submission->delivery.ranges;
        erase(&sequencer->deliveries.root, range);
        free_range(&sequencer->deliveries, range);
    }
}

static void free_all(rota_host_range *range) {
    while (range) {
        rota_host_range *right = range->right;
        free_all(range->left);
        free(range);
        range = right;
    }
}

void rota_deliveries_free(rota_sequencer *sequencer) {
    rota_deliveries *all = &sequencer->deliveries;
    free_all(all->root);
    while (all->spare) {
        rota_host_range *next = all->spare->next_own;
        free(all->spare);
        all->spare = next;
    }
    *all = (rota_deliveries){0};
}
