/* Works whose loops have more iterations than one command buffer has turns (vk_pieces.c): the submit thread submits the
 * same run again, behind itself, until the loop is over, and then what stands behind the loop.
 *
 *     submit thread                      device                     completion thread
 *     lead, run, run -----------------> lead run                    (point: not to be told of)
 *     wanted = the first run's end           |---------- ends ----> completed; wanted is reached: goes_on
 *     go_on: live? one more run -------->    run                    (the host wakes the submit thread)
 *       ...                                  run
 *     go_on: not live: nothing more          run (off) -- ends ---> completed: goes_on
 *     go_on: what is behind; -----------> lead
 *     point = its end                        |------------- ends -> value reached
 *
 * Two submissions are with the device at a time, so that it has work while the host looks. Each is as many runs as an
 * eighth of those that have ended, so what is off in the end is no more than a quarter of what was on, or than the two
 * that begin; and a loop of n iterations takes about log n submissions, until they have RUNS_LONGEST, or take
 * LONGEST_NS. No more runs are submitted than a plain loop may have iterations for. Nobody waits for any of it.
 *
 * Why it is right:
 *
 *   - *One owner.* Only the submit thread reads and writes rota_vk_going, and only it submits. What the completion
 *     thread has of it is the work's point, which it does not pass while its sequence is GOES_ON, `wanted` and `ended`.
 *   - *No end is missed.* This thread stores `wanted`, and then looks at `completed`; the completion thread stores
 *     `completed`, and then loads `wanted`: all seq_cst, so one of them sees the other's, and calls goes_on. Too many
 *     calls do no harm. The host, likewise, notes the call before it wakes the thread, which looks for it after it has
 *     said that it sleeps (sched/runtime/submitter/thread.c).
 *   - *The end is told.* The point's sequence is released and `ended` counted before the completion thread is woken;
 *     it acquires the one, and does not rest without having looked at the other (vk_complete.c).
 *   - *Words.* The host writes them before the first submission of the work, and reads them behind a run's end, by a
 *     barrier there. Earlier reads are hints: `live` goes from BEGINS to 1 to 0 and never back within a work, `over`
 *     from 0 to 1, so what is seen early is so for good. But a loop that fails writes both, in whichever order they
 *     are seen: so what stands behind it is submitted when all of its runs have ended, and `over` is 0 then.
 *   - *Nothing comes after it.* Real queues count works in the order in which they were submitted, and a run that is
 *     submitted late has a sequence later than works that came meanwhile. Who waits for the work would wait for too
 *     little; so nothing that comes after it is handed over before its value is reached, as of any loop on a device
 *     that does not ask (exec_program.h; rota_vk_going_check says so if it is). Nor is what waits on the device for
 *     other devices, or for the application: in front of the next run it would keep that from the queue, maybe for what
 *     itself comes after the work (comes_after_all in sched/runtime/submitter/blocked.c). Works that don't come after
 *     it pass it, and are told of: all that it holds up is its own queue's points.
 *   - *The end by the host.* must_skip is asked by this thread, before it submits more; `over` is written where the
 *     device reads it, so that a run that is under way ends at an iteration where that is seen in time, and no further
 *     one is submitted in any case. What stands behind the loop is not submitted, nor where something failed: the work
 *     fails as a whole.
 *   - *Loss and close.* Once the device is lost nothing is submitted, and the host may free the instance, which this
 *     thread may be looking at, or submitting: with the lock, and only if the device was not lost then (look_at, and
 *     hand_over in vk_submit.c). Who frees it has heard of the loss and takes the lock first
 *     (rota_vk_instance_destroy): this thread is through with it, or finds the loss. A device that is closed has no
 *     submit thread any more: what is in flight ends by itself, since it is no more than was submitted. */
#include "exec/vk/vk_run.h"

#include "base/clock.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_record.h"

#define RUNS_LONGEST 64u
/* Of the runs that have ended, what each of the two submissions is. */
#define SHARE 8u
#define LONGEST_NS 20000000ull /* of a submission */
/* While something is cancelled or failed: how often the submit thread is to ask. */
#define LOOK_NS 1000000ull

typedef rota_vk_going going;

static const rota_vk_pieces *pieces_of(const going *g) {
    return rota_vk_pieces_of(g->recorded, g->segment);
}

/* What the device writes meanwhile, or reads. */
static uint32_t look(const uint32_t *word) {
    return *(const volatile uint32_t *)word;
}

rota_status rota_vk_going_check(const rota_vk_device *device, const rota_exec_work *work) {
    uint32_t queue = UINT32_MAX;
    if (device->going.open == 0) return ROTA_OK;
    if (device->logical[work->queue].going.is_open) queue = work->queue;
    for (uint32_t i = 0; i < work->wait_count && queue == UINT32_MAX; i++) {
        const rota_vk_logical *waited = &device->logical[work->waits[i].queue];
        if (waited->going.is_open &&
            work->waits[i].value >= waited->points[waited->going.point % ROTA_VK_HISTORY].value)
            queue = work->waits[i].queue;
    }
    if (queue == UINT32_MAX) return ROTA_OK;
    return rota_fail(ROTA_INTERNAL,
                     "a work of queue %u was handed over before a loop of queue %u, which it comes after, "
                     "has ended",
                     work->queue, queue);
}

/* ---- Submissions ---- */

static rota_status submit_runs(rota_vk_device *device, going *g, VkCommandBuffer before, uint64_t runs) {
    VkCommandBuffer buffers[RUNS_LONGEST + 1];
    uint32_t count = 0;
    if (runs > RUNS_LONGEST) runs = RUNS_LONGEST;
    if (runs > g->left) runs = g->left;
    if (runs == 0) return ROTA_OK;
    if (g->left != UINT64_MAX) g->left -= runs;
    if (before) buffers[count++] = before;
    for (uint64_t i = 0; i < runs; i++) buffers[count++] = g->run;
    ROTA_TRY(rota_vk_submit_buffers(device, buffers, count, &g->last));
    g->runs[g->count] = (uint32_t)runs;
    g->sequence[g->count++] = g->last;
    return ROTA_OK;
}

/* Each turn of a plain loop is an iteration, and behind the last that there may be it is over. */
static void begin_piece(going *g) {
    const rota_vk_pieces *pieces = pieces_of(g);
    const rota_vk_decision *decision = pieces->decisions[g->piece];
    g->run = pieces->runs[g->piece];
    g->ended = 0;
    g->left =
        decision->is_plain ? (decision->conditional->iterations_max - 1) / decision->turns + 1 : UINT64_MAX;
}

static void note_where(const going *g, bool is_over) {
    ra_store_relaxed(&g->recorded->going, is_over ? 0 : (uint64_t)g->segment << 32 | (g->piece + 1u));
}

rota_status rota_vk_going_begin(rota_vk_device *device, const rota_exec_work *work, uint64_t first_sequence) {
    rota_vk_logical *logical = &device->logical[work->queue];
    going *g = &logical->going;
    *g = (going){.is_open = true,
                 .recorded = (rota_vk_recorded *)work->instance,
                 .segment = work->segment,
                 .runs = {1},
                 .sequence = {first_sequence},
                 .count = 1,
                 .point = logical->head - 1,
                 .since_ns = rota_clock_ns(),
                 .cookie = work->cookie};
    begin_piece(g);
    if (g->left != UINT64_MAX) g->left--;
    note_where(g, false);
    device->going.open++;
    return submit_runs(device, g, VK_NULL_HANDLE, 1);
}

/* The work is complete when its newest submission is: for who looks at its value, and for who comes after it. Its queue
 * has got nothing since, so no later point names an earlier one. */
static void end(rota_vk_device *device, rota_vk_logical *logical) {
    going *g = &logical->going;
    logical->last_sequence[0] = logical->points[g->point % ROTA_VK_HISTORY].last[0] = g->last;
    /* Pairs with the completion thread's report. */
    ra_store_release(&logical->points[g->point % ROTA_VK_HISTORY].sequence, g->last);
    *g = (going){0};
    device->going.open--;
    (void)ra_fetch_add_seq_cst(&device->going.ended, 1); /* with has_news, around its sleep */
    rota_completer_wake(&device->completer);
}

/* ---- Going on ---- */

static bool is_to_end(const rota_vk_device *device, const going *g) {
    const rota_exec_host *host = &device->host;
    /* Acquire: what was cancelled before is asked for. */
    if (!host->poison_active || !host->must_skip || !ra_load_acquire(host->poison_active)) return false;
    const rota_exec_program_desc *desc = g->recorded->program->desc;
    const rota_vk_decision *decision = pieces_of(g)->decisions[g->piece];
    return host->must_skip(host->user, g->cookie, desc->owner, desc->commands[decision->command].node);
}

typedef enum next { NEXT_RUN, NEXT_LOOP, NEXT_TAIL, NEXT_END, NEXT_WAIT, NEXT_LOST } next;

static next end_at(const going *g) {
    note_where(g, true);
    return NEXT_END;
}

/* What is to come behind what the device has, by its words: with the lock. NEXT_LOOP, NEXT_TAIL: *out_behind before
 * that. NEXT_WAIT: `live` may be of a run that is under way, and fails; only behind its end both words are there. */
static next look_at(rota_vk_device *device, going *g, VkCommandBuffer *out_behind) {
    if (ra_load_acquire(&device->lost))
        return NEXT_LOST; /* pairs with rota_vk_lose; before the instance is looked at */
    const rota_vk_pieces *pieces = pieces_of(g);
    rota_vk_decision_words *words = rota_vk_words_of(g->recorded, pieces->decisions[g->piece]);
    const bool ends = is_to_end(device, g), is_live = look(&words->turns[1].live) != 0;
    if (ends) *(volatile uint32_t *)&words->over = 1;
    if (!ends && !look(&words->over)) {
        const bool is_last = g->piece + 1 == pieces->count;
        if (is_live) return NEXT_RUN;
        if (is_last && !pieces->has_tail) return end_at(g);
        if (g->count != 0) return NEXT_WAIT;
        *out_behind = pieces->leads[++g->piece];
        if (!is_last) begin_piece(g);
        note_where(g, is_last);
        return is_last ? NEXT_TAIL : NEXT_LOOP;
    }
    return end_at(g);
}

/* Runs that have ended since the last look, and what one took. */
static bool see_ended(rota_vk_device *device, going *g) {
    const uint64_t before = g->ended;
    for (; g->count && rota_vk_has_completed(device, g->sequence[0]); g->count--) {
        g->ended += g->runs[0];
        g->runs[0] = g->runs[1];
        g->sequence[0] = g->sequence[1];
    }
    if (g->ended == before) return false;
    const uint64_t now_ns = rota_clock_ns();
    g->each_ns = (now_ns - g->since_ns) / (g->ended - before);
    g->since_ns = now_ns;
    return true;
}

/* How many the next submission has: no longer than others may wait for a sign of life, and for who cancels. */
static uint64_t next_runs(const going *g) {
    uint64_t runs = g->ended / SHARE;
    if (g->each_ns && runs > LONGEST_NS / g->each_ns) runs = LONGEST_NS / g->each_ns;
    return runs ? runs : 1;
}

static rota_status go_on_with(rota_vk_device *device, rota_vk_logical *logical, bool *out_moved) {
    going *g = &logical->going;
    while (g->is_open) {
        VkCommandBuffer behind = VK_NULL_HANDLE;
        if (see_ended(device, g)) *out_moved = true;
        pthread_mutex_lock(&device->going.lock);
        const next what = look_at(device, g, &behind);
        pthread_mutex_unlock(&device->going.lock);
        switch (what) {
        case NEXT_RUN:
            if (g->count == ROTA_VK_RUNS_MAX || g->left == 0) return ROTA_OK;
            ROTA_TRY(submit_runs(device, g, VK_NULL_HANDLE, next_runs(g)));
            break;
        case NEXT_LOOP:
            ROTA_TRY(submit_runs(device, g, behind, 1));
            ROTA_TRY(submit_runs(device, g, VK_NULL_HANDLE, 1));
            break;
        case NEXT_TAIL:
            ROTA_TRY(rota_vk_submit_buffers(device, &behind, 1, &g->last));
            end(device, logical);
            break;
        case NEXT_END:
            end(device, logical);
            break;
        case NEXT_WAIT:
            return ROTA_OK;
        default:
            return rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
        }
    }
    return ROTA_OK;
}

rota_status rota_vk_go_on(rota_exec_device *base, bool *out_moved) {
    rota_vk_device *device = (rota_vk_device *)base;
    uint64_t wanted = 0;
    rota_status status = ROTA_OK;
    *out_moved = false;
    if (device->going.open == 0) return ROTA_OK;
    for (uint32_t q = 0; q < device->options.queue_count && status == ROTA_OK; q++) {
        const going *g = &device->logical[q].going;
        if (g->is_open) status = go_on_with(device, &device->logical[q], out_moved);
        if (g->is_open && g->count && (wanted == 0 || g->sequence[0] < wanted)) wanted = g->sequence[0];
    }
    const rota_status flushed = rota_vk_submit_flush(device);
    if (status == ROTA_OK) status = flushed;
    if (status != ROTA_OK) return status;
    ra_store_seq_cst(&device->going.wanted, wanted);
    if (wanted && ra_load_seq_cst(&device->reals[0].shared.completed) >= wanted && device->host.goes_on)
        device->host.goes_on(device->host.user);
    return ROTA_OK;
}

/* ---- Other threads ---- */

void rota_vk_going_completed(rota_vk_device *device, uint64_t value) {
    const uint64_t wanted = ra_load_seq_cst(&device->going.wanted);
    if (wanted && wanted <= value && device->host.goes_on) device->host.goes_on(device->host.user);
}

bool rota_vk_is_going(rota_vk_device *device) {
    return ra_load_relaxed(&device->going.wanted) != 0;
}

void rota_vk_going_look(rota_vk_device *device, uint64_t now_ns) {
    const _Atomic uint32_t *active = device->host.poison_active;
    if (!rota_vk_is_going(device) || !active || !ra_load_acquire(active) || !device->host.goes_on ||
        now_ns - device->watch.went_on_ns < LOOK_NS)
        return;
    device->watch.went_on_ns = now_ns;
    device->host.goes_on(device->host.user);
}

bool rota_vk_going_where(const rota_vk_recorded *recorded, rota_exec_stuck *out_stuck) {
    const uint64_t where = ra_load_relaxed(&recorded->going);
    if (where == 0) return false;
    const rota_vk_decision *decision =
        rota_vk_pieces_of(recorded, (uint32_t)(where >> 32))->decisions[(uint32_t)where - 1];
    *out_stuck = (rota_exec_stuck){
        .node = recorded->program->desc->commands[decision->command].node,
        .iterations = *(const volatile uint64_t *)&rota_vk_words_of(recorded, decision)->so_far};
    return true;
}
