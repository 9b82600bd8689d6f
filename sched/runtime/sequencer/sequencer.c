/* The sequencer thread: takes records of all lanes in the order of their order numbers.
 *
 * An order number is drawn before its record is published, so a lower order number may appear after a higher one. Each
 * round scans all lanes twice and takes, in order number order, what the second scan holds up to the highest order
 * number of the first: a record that was published before that order number was drawn is in the second scan; one that
 * comes later was submitted by a call that had not returned then, so nobody can tell that it comes after. A thread
 * stopped between order number and publication holds up nobody. */
#include <sched.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/spin.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/sequencer/cancels.h"
#include "sched/runtime/sequencer/last_use.h"
#include "sched/runtime/sequencer/reap.h"
#include "sched/runtime/sequencer/record.h"
#include "sched/runtime/sequencer/sequencer.h"
#include "sched/runtime/sequencer/submission_pool.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/gate.h"
#include "sched/runtime/submitter/ring.h"
#include "sched/testing.h" /* IWYU pragma: keep */

/* Works, of which each record counts for one at least, after which what was pushed goes over. No more than what goes
 * directly to a device at once, so that this flush comes with that. */
#define FLUSH_WORKS ROTA_HANDOVER_BATCH
#define SLEEP_SLICE_NS 1000000000u
#define OVERFLOW_SLICE_NS 200000u
#define CLOCK_ROUNDS 64 /* from one look at the clock to the next */
#define LENT_SLICE_NS 1000000u

typedef struct rota_merge {
    uint32_t count;
    uint32_t lanes[ROTA_LANES_MAX]; /* heap, lowest order number first */
    uint64_t order_numbers[ROTA_LANES_MAX];
    uint64_t limits[ROTA_LANES_MAX]; /* by lane: end of what may be taken */
} rota_merge;

/* Lanes of which records were taken since the last flush. */
typedef struct untold_lanes {
    rota_lane *lanes[FLUSH_WORKS];
    uint32_t count;
    uint64_t cancels_asked; /* before the first of them was taken */
} untold_lanes;

rota_status rota_sequencer_create(rota_runtime *runtime) {
    const uint32_t timelines = ROTA_DEVICES_MAX * runtime->queue_count;
    rota_sequencer *sequencer = runtime->sequencer = calloc(1, sizeof *sequencer);
    if (!sequencer) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for the sequencer");
    sequencer->runtime = runtime;
    sequencer->merge = calloc(1, sizeof *sequencer->merge);
    sequencer->wanted.value = calloc(timelines, sizeof *sequencer->wanted.value);
    sequencer->wanted.touched = calloc(timelines, sizeof *sequencer->wanted.touched);
    sequencer->pool = calloc(1, sizeof *sequencer->pool);
    sequencer->last_uses = calloc(1, sizeof *sequencer->last_uses);
    if (!sequencer->merge || !sequencer->wanted.value || !sequencer->wanted.touched || !sequencer->pool ||
        !sequencer->last_uses)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for the sequencer");
    return ROTA_OK;
}

void rota_sequencer_free(rota_runtime *runtime) {
    rota_sequencer *sequencer = runtime->sequencer;
    if (!sequencer) return;
    free(sequencer->merge);
    free(sequencer->wanted.value);
    free(sequencer->wanted.touched);
    free(sequencer->pool);
    free(sequencer->last_uses);
    free(sequencer);
    runtime->sequencer = NULL;
}

static uint64_t order_number_at(const rota_lane *lane, uint64_t position) {
    return lane->store->records[position % ROTA_LANE_RECORDS].order_number;
}

/* What the lane's next record will need comes from other cores: asked for while others are worked on. */
static void fetch_next(const rota_lane *lane, uint64_t position, uint64_t sequence) {
    ra_prefetch(&lane->store->records[position % ROTA_LANE_RECORDS]);
    const rota_cell *cell = rota_lane_cell(lane, sequence);
    if (cell) ra_prefetch(cell);
}

static void sift_down(rota_merge *merge, uint32_t i) {
    uint32_t lane = merge->lanes[i];
    uint64_t order_number = merge->order_numbers[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= merge->count) break;
        if (child + 1 < merge->count && merge->order_numbers[child + 1] < merge->order_numbers[child])
            child++;
        if (merge->order_numbers[child] >= order_number) break;
        merge->lanes[i] = merge->lanes[child];
        merge->order_numbers[i] = merge->order_numbers[child];
        i = child;
    }
    merge->lanes[i] = lane;
    merge->order_numbers[i] = order_number;
}

/* Fills the heap; false if no lane has anything. */
static bool scan(rota_sequencer *sequencer) {
    rota_runtime *runtime = sequencer->runtime;
    rota_merge *merge = sequencer->merge;
    uint64_t highest = 0;
    uint32_t lanes = ra_load_seq_cst(&runtime->lanes.high);
    for (uint32_t i = 0; i < lanes; i++) {
        rota_lane *lane = rota_lane_at(&runtime->lanes, i);
        uint64_t tail = ra_load_seq_cst(&lane->tail); /* with rota_lane_publish */
        if (tail == ra_load_relaxed(&lane->head)) continue;
        uint64_t order_number = order_number_at(lane, tail - 1);
        if (order_number > highest) highest = order_number;
    }
    if (highest == 0) return false;
    merge->count = 0;
    lanes = ra_load_seq_cst(&runtime->lanes.high);
    for (uint32_t i = 0; i < lanes; i++) {
        rota_lane *lane = rota_lane_at(&runtime->lanes, i);
        uint64_t tail = ra_load_seq_cst(&lane->tail);
        uint64_t head = ra_load_relaxed(&lane->head);
        while (tail > head && order_number_at(lane, tail - 1) > highest) tail--;
        if (tail == head) continue;
        merge->limits[i] = tail;
        merge->lanes[merge->count] = i;
        merge->order_numbers[merge->count++] = order_number_at(lane, head);
    }
    for (uint32_t i = merge->count / 2; i-- > 0;) sift_down(merge, i);
    return true;
}

static void flush(rota_runtime *runtime) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) rota_handover_flush(runtime->devices[d]);
}

static void wake_lane(rota_lane *lane) {
    if (ra_load_seq_cst(&lane->sleepers) == 0) return; /* with sleep_once in tickets.c */
    (void)ra_fetch_add_seq_cst(&lane->taken_word, 1);
    rota_futex_wake(&lane->taken_word, INT32_MAX);
}

/* The completer is about to sleep for a ticket without a point. Where the device was through with it before
 * it had one, that has woken the completer in vain. All seq_cst: this thread stores `head` after the point
 * and then loads completing.awaits and the timeline; the completer stores that and then loads `head`
 * (look_again); the device moves the timeline and then loads completing.interest. So the completer sees the
 * point, or is woken here, or is woken by the device and sees the point then. */
static void tell_of_points(rota_runtime *runtime, const rota_lane *lane) {
    for (uint64_t sequence = lane->untold; sequence <= lane->taken; sequence++) {
        const rota_cell *cell = rota_lane_cell(lane, sequence);
        if (!cell || !rota_point_passed(runtime, ra_load_relaxed(&cell->point))) continue;
        rota_sleeper_wake(&runtime->completing.sleeper);
        return;
    }
}

/* Who sleeps until a record of a lane is taken is told once for all that were taken since the last flush: a store
 * that comes before later loads is dear. Until then nobody waits in vain, as no work of those records is at a device,
 * and no ticket of theirs is over; else they are told at once (take_all). `head` has its value already, by a release;
 * the store of it here is the one that these loads come after. A sleeper whose load of `head` comes before it, in the
 * one order of all seq_cst operations, had said before that it sleeps, and is seen; any other load of `head` sees this
 * store, and the points. */
static void tell_lanes(rota_sequencer *sequencer, untold_lanes *untold) {
    rota_runtime *runtime = sequencer->runtime;
    for (uint32_t i = 0; i < untold->count; i++) {
        rota_lane *lane = untold->lanes[i];
        ra_store_seq_cst(&lane->head, ra_load_relaxed(&lane->head));
        rota_cancels_find(sequencer, lane, lane->untold, untold->cancels_asked);
        wake_lane(lane);
        if (ra_load_seq_cst(&runtime->completing.awaits)) tell_of_points(runtime, lane);
        lane->untold = 0;
    }
    untold->count = 0;
}

static void take_all(rota_sequencer *sequencer) {
    rota_runtime *runtime = sequencer->runtime;
    rota_merge *merge = sequencer->merge;
    uint32_t since_flush = 0;
    untold_lanes untold; /* of `lanes` as many as it counts */
    untold.count = 0;
    untold.cancels_asked = ra_load_acquire(&runtime->lanes.cancels_asked); /* with rota_lane_ask_cancel */
    while (merge->count > 0) {
        uint32_t index = merge->lanes[0];
        rota_lane *lane = rota_lane_at(&runtime->lanes, index);
        uint64_t head = ra_load_relaxed(&lane->head);
        const rota_record *record = &lane->store->records[head % ROTA_LANE_RECORDS];
        if (!lane->untold) {
            lane->untold = record->sequence;
            untold.lanes[untold.count++] = lane;
        }
        fetch_next(lane, head + 1, record->sequence + 1);
        const rota_sequenced sequenced = rota_sequence_record(sequencer, lane, index, record);
        /* Releases the record and its words to the producer. */
        ra_store_release(&lane->words_head, record->words_end);
        ra_store_release(&lane->head, ++head);
        if (head == merge->limits[index]) {
            merge->count--;
            merge->lanes[0] = merge->lanes[merge->count];
            merge->order_numbers[0] = merge->order_numbers[merge->count];
        } else {
            merge->order_numbers[0] = order_number_at(lane, head);
        }
        if (merge->count > 0) sift_down(merge, 0);
        since_flush += sequenced.work_count ? sequenced.work_count : 1;
        const bool is_due = since_flush >= FLUSH_WORKS;
        if (is_due) {
            since_flush = 0;
            flush(runtime);
        }
        /* What a device may have is told of now: it may be through with it long before the next flush, while other
         * records are sequenced. That is a store more for a record whose work went into a ring, the thread of which
         * takes longer for it in the driver; those that go directly are told of at the flush with which they go. */
        if (is_due || sequenced.may_be_over) tell_lanes(sequencer, &untold);
    }
    flush(runtime);
    tell_lanes(sequencer, &untold);
}

static bool has_work(rota_runtime *runtime) {
    if (!rota_stack_is_empty_upmc(&runtime->sequencing.released) ||
        ra_load_seq_cst(&runtime->sequencing.lost_pending) ||
        !rota_stack_is_empty_upmc(&runtime->sequencing.ended) || ra_load_seq_cst(&runtime->stop) ||
        rota_hooks_lent(&runtime->hooks) || ra_load_seq_cst(&runtime->lanes.provision_wanted) ||
        ra_load_seq_cst(&runtime->sequencing.reap_requested) !=
            ra_load_relaxed(&runtime->sequencing.reap_done) ||
        ra_load_seq_cst(&runtime->failed.active) & ROTA_FAILED_CANCELS_NEW) /* with rota_submission_cancel */
        return true;
    uint32_t lanes = ra_load_seq_cst(&runtime->lanes.high);
    for (uint32_t i = 0; i < lanes; i++) {
        rota_lane *lane = rota_lane_at(&runtime->lanes, i);
        if (ra_load_seq_cst(&lane->tail) != ra_load_relaxed(&lane->head)) return true;
    }
    return false;
}

/* Works that found no room in a device's ring. */
static bool has_overflow(const rota_runtime *runtime) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        if (runtime->devices[d]->outbox->overflow_first) return true;
    return false;
}

/* What a yield takes when no other thread wants the core. */
#define YIELD_NS 1000u
/* Of a core that it has to itself it makes use for a microsecond or two before it yields again. */
#define PAUSES_PER_YIELD 32

/* What nobody needed for a while is given back. */
static void look_at_idle_memory(rota_sequencer *sequencer, uint64_t now_ns) {
    rota_runtime *runtime = sequencer->runtime;
    if (now_ns < sequencer->idle_looked_ns + runtime->options.staging_idle_ns) return;
    sequencer->idle_looked_ns = now_ns;
    rota_staging_sweep_idle(runtime);
    rota_submissions_trim(sequencer);
}

/* Looks for work; false: there is none. */
static bool look_for_work(rota_sequencer *sequencer) {
    rota_runtime *runtime = sequencer->runtime;
    const uint64_t asked_ns = runtime->options.spin_ns;
    const uint64_t least_ns = asked_ns > ROTA_SPIN_NS ? asked_ns : ROTA_SPIN_NS;
    rota_spin spin =
        rota_patience_spin(&sequencer->patience, rota_patience_ns(&sequencer->patience, least_ns), asked_ns);
    uint64_t now = spin.begin_ns, spun = 0, watched = now;
    const uint64_t late_ns = rota_deadlines_first_ns(sequencer);
    bool found = false;
    while (!found && spun < spin.limit_ns && (!spin.has_lost || spun < asked_ns)) {
        /* What it waits for may need this core: with fewer cores than threads a spin that kept it would last
         * its full time, time and again. */
        (void)sched_yield();
        uint64_t back = rota_clock_ns();
        /* A longer absence was another thread's time, not spinning. */
        const uint64_t away_ns = back - now;
        const bool is_alone = away_ns < ROTA_SPIN_ALONE_NS; /* else it is seldom looked, and soon slept */
        spun += away_ns < YIELD_NS ? away_ns : YIELD_NS;
        if (!is_alone) rota_spin_note_others(&spin, away_ns);
        if (back - watched > SLEEP_SLICE_NS) { /* as often as if it slept */
            rota_gate_watch(runtime, false);
            watched = back;
        }
        found = back >= late_ns;
        for (uint32_t i = 0; i < PAUSES_PER_YIELD && !found; i++) {
            ra_pause();
            if (is_alone || i + 1 == PAUSES_PER_YIELD) found = has_work(runtime);
            /* Where many threads submit, each with a lane of its own, a look takes as long as many. */
            if (is_alone && rota_clock_ns() - back >= YIELD_NS) break;
        }
        now = rota_clock_ns();
        spun += now - back;
    }
    rota_patience_note(&sequencer->patience, &spin);
    (void)ra_fetch_add_relaxed(&runtime->stats.spin_ns, spun);
    return found;
}

static void sleep_until_work(rota_sequencer *sequencer, uint64_t now) {
    rota_runtime *runtime = sequencer->runtime;
    rota_sleeper_prepare(&runtime->sequencing.sleeper);
    /* With `advanced`: either it sees the interest and wakes this thread, or the sweep below sees the new
     * value. */
    if (sequencer->last_uses->released || sequencer->last_uses->retained || sequencer->orphaning ||
        sequencer->pool->pinned || sequencer->unordered_first || sequencer->is_unquiet ||
        sequencer->cancels.up_to) {
        ra_store_seq_cst(&runtime->sequencing.interest, 1);
        rota_sequence_reap(sequencer, true);
        rota_cancels_look(sequencer);
        rota_reclaim_sweep(sequencer, NULL);
    }
    uint64_t slice = has_overflow(runtime) ? OVERFLOW_SLICE_NS : SLEEP_SLICE_NS;
    rota_staging_sweep(runtime, sequencer->quiet);
    look_at_idle_memory(sequencer, now);
    if ((rota_staging_has_idle(runtime) || sequencer->pool->unused) &&
        slice > runtime->options.staging_idle_ns)
        slice = runtime->options.staging_idle_ns;
    const uint64_t until_ns = rota_deadline_after(slice), first_ns = rota_deadlines_first_ns(sequencer);
    if (has_work(runtime))
        rota_sleeper_cancel(&runtime->sequencing.sleeper);
    else
        rota_sleeper_wait(&runtime->sequencing.sleeper, first_ns < until_ns ? first_ns : until_ns);
    ra_store_relaxed(&runtime->sequencing.interest, 0);
}

static void idle(rota_sequencer *sequencer) {
    const uint64_t since_ns = rota_clock_ns();
    if (!look_for_work(sequencer)) sleep_until_work(sequencer, rota_clock_ns());
    rota_patience_learn(&sequencer->patience, rota_clock_ns() - since_ns);
}

/* One look at everything; true if there was anything. */
bool rota_sequencer_round(rota_sequencer *sequencer) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    uint64_t requested = ra_load_acquire(&runtime->sequencing.reap_requested);
    (void)ra_exchange_seq_cst(&runtime->sequencing.lost_pending, 0);
    /* Taken before the scan: every submission that uses these was published before they were released, so
     * it is sequenced, and known as their last use, in this round. */
    rota_released *fresh = rota_stack_seems_empty_upmc(&runtime->sequencing.released)
                               ? NULL
                               : rota_released_take(&runtime->sequencing.released);
    rota_lanes_provide(runtime);
    bool any = scan(sequencer);
    if (any)
        take_all(sequencer);
    else
        flush(runtime);
    rota_gate_watch(runtime, false);
    rota_sequence_reap(sequencer, false);
    if (sequencer->cancels.deadlines || sequencer->cancels.up_to || ra_load_relaxed(&runtime->failed.active))
        rota_cancels_look(sequencer);
    rota_staging_sweep(runtime, sequencer->quiet);
    if (++sequencer->rounds % CLOCK_ROUNDS == 0) look_at_idle_memory(sequencer, rota_clock_ns());
    if (fresh || sequencer->last_uses->released || sequencer->last_uses->retained)
        rota_reclaim_sweep(sequencer, fresh);
    ra_store_release(&runtime->sequencing.reap_done, requested);
    return any || fresh;
}

/* Rests for a while where rota_submit_locked has it. */
static bool is_lent(rota_runtime *runtime) {
#if ROTA_TEST_HOOKS
    if (rota_hooks_lent(&runtime->hooks)) {
        rota_owner_leave(&runtime->sequencing.owner);
        ra_store_release(&runtime->hooks.lent_away, 1); /* with rota_runtime_lock_submission */
        rota_nap_until(rota_deadline_after(LENT_SLICE_NS));
        return true;
    }
    if (ra_load_relaxed(&runtime->hooks.lent_away)) rota_owner_take(&runtime->sequencing.owner);
    ra_store_release(&runtime->hooks.lent_away, 0);
#endif
    (void)runtime;
    return false;
}

void *rota_sequencer_main(void *user) {
    rota_runtime *runtime = user;
    rota_sequencer *sequencer = runtime->sequencer;
    rota_thread_cpus_begin(&runtime->sequencing.cpus);
    rota_owner_take(&runtime->sequencing.owner);
    while (!ra_load_acquire(&runtime->stop)) {
        if (is_lent(runtime)) continue;
        if (!rota_sequencer_round(sequencer)) idle(sequencer);
    }
    rota_owner_leave(&runtime->sequencing.owner);
    rota_thread_cpus_end(&runtime->sequencing.cpus);
    rota_runtime_thread_ends(runtime);
    return NULL;
}
