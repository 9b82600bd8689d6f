/* The thread that has the messages: it takes what others push, and looks at what is under way until that is over. While
 * nothing is, it sleeps; while something is, it looks again and again for a while, and then now and then, the longer
 * nothing moves the less often. It looks on for longer after a collective of a device's memory began or ended
 * (rota_rank_thread_look_on). Calls wake it at any time, and where all that is under way is told of its messages
 * (rota_engine_vtable.tell) so do those: then it looks every 2 ms for what is a matter of time.
 *
 * No wake is lost: it says that it sleeps, and then asks for calls, and looks, once more (seq_cst, base/sleep.h). Who
 * ends one of its requests does so under the mutex under which it asks, before he asks whether it sleeps (threads.c).
 *
 * Who asks and waits may have gone when the answer comes. `is_over` goes from ASKED to ANSWERED by the thread, or to
 * LEFT by who asked; whichever comes second knows of the other, and exactly one of the two has what was made. */
#include "sched/ranks/rank_thread.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/signals.h"
#include "base/spin.h"

enum { ASKED, ANSWERED, LEFT };
enum {
    LOOKS_NS = 50000,
    NAP_NS = 20000,
    LONG_NAP_NS = 200000,
    LONG_AFTER_NS = 5000000,
    TOLD_NAP_NS = 2000000
};
static const uint64_t sleep_ns = 10000000000u; /* a sleeper looks again after this long */
#define TIMER_SLACK_NS 1000ul
/* Who sees so late that a deadline has passed was stopped, and so was the thread, which then has so long for what came
 * meanwhile: it answers with what other ranks say of it. */
enum { STOOD_NS = 100000000, AGAIN_NS = 1000000000 };

/* ---- The thread ---- */

static bool take_calls(rota_rank_thread *thread) {
    rota_stack_entry *entry = rota_stack_turned(rota_stack_take_upmc(&thread->calls));
    const bool has_any = entry != NULL;
    while (entry) {
        rota_stack_entry *next = entry->next; /* read first: the call may be pushed again, or freed */
        rota_rank_call *call = ROTA_STACK_OBJECT(entry, rota_rank_call, entry);
        call->fn(call);
        entry = next;
    }
    return has_any;
}

static bool look_at_all(rota_rank_thread *thread) {
    bool any_moved = false;
    for (rota_rank_work **link = &thread->works; *link;) {
        rota_rank_work *work = *link;
        bool moved = false;
        /* It may be freed, or begun again by somebody else, as soon as it is over: taken off first. */
        *link = work->next;
        if (work->look(work, &moved)) {
            work->next = *link; /* as it is now: a look may add others */
            *link = work;
            link = &work->next;
        } else {
            moved = true;
        }
        any_moved = any_moved || moved;
    }
    return any_moved;
}

/* All that is under way wakes the thread when it moves. */
static bool is_told_of_all(const rota_rank_thread *thread) {
    for (const rota_rank_work *work = thread->works; work; work = work->next)
        if (!work->is_told) return false;
    return true;
}

/* Until when to sleep, where nothing has moved for so long. */
static uint64_t sleep_until_ns(const rota_rank_thread *thread, uint64_t still_ns) {
    if (!thread->works) return rota_deadline_after(sleep_ns);
    if (is_told_of_all(thread)) return rota_deadline_after(TOLD_NAP_NS);
    return rota_deadline_after(still_ns < LONG_AFTER_NS ? NAP_NS : LONG_NAP_NS);
}

static rota_spin begin_to_look(rota_rank_thread *thread) {
    rota_patience_learn(&thread->patience, UINT64_MAX); /* it looks no longer where things came soon */
    return rota_patience_spin(&thread->patience, LOOKS_NS, 0);
}

/* Whether it is to look at once, since little time has passed since something moved of what is under way. */
static bool looks_on(rota_rank_thread *thread, rota_spin *spin) {
    if (!thread->works && rota_clock_ns() >= thread->looks_until_ns) return false;
    const uint64_t asked_ns =
        thread->looks_until_ns > spin->begin_ns ? thread->looks_until_ns - spin->begin_ns : 0;
    if (spin->limit_ns != 0 && spin->limit_ns < asked_ns) spin->limit_ns = asked_ns;
    if (rota_spin_yields(spin)) return true;
    if (spin->limit_ns) rota_patience_note(&thread->patience, spin);
    spin->limit_ns = 0; /* noted once */
    return false;
}

/* Takes what there is, and looks at what is under way; true: something moved. */
static bool get_on(rota_rank_thread *thread) {
    const bool has_called = take_calls(thread);
    return look_at_all(thread) || has_called;
}

/* True: something moved after all. */
static bool sleep_for_a_while(rota_rank_thread *thread, uint64_t still_ns) {
    rota_sleeper *sleeper = thread->works ? &thread->told : &thread->sleeper;
    rota_sleeper_prepare(sleeper);
    /* All after the sleeper's flag: see base/sleep.h. */
    bool moved = !rota_stack_is_empty_upmc(&thread->calls);
    if (!thread->works)
        moved = moved || ra_load_seq_cst(&thread->users) == 0;
    else if (!moved && is_told_of_all(thread))
        moved = look_at_all(thread);
    if (moved)
        rota_sleeper_cancel(sleeper);
    else
        rota_sleeper_wait(sleeper, sleep_until_ns(thread, still_ns));
    return moved;
}

static void *run(void *argument) {
    rota_rank_thread *thread = argument;
    /* It combines elements: not as whoever started it had its numbers rounded or flushed. */
    (void)fesetenv(FE_DFL_ENV);
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* without it naps end 50 us late */
    rota_spin spin = begin_to_look(thread);
    for (;;) {
        /* Before the calls: what was pushed before the last user left is taken. */
        const bool is_left = ra_load_seq_cst(&thread->users) == 0;
        bool moved = get_on(thread);
        if (is_left && !thread->works) break;
        if (!moved && !looks_on(thread, &spin)) moved = sleep_for_a_while(thread, rota_spin_ns(&spin));
        if (moved) spin = begin_to_look(thread);
    }
    /* Either the thread sees a call, or who pushed it sees this, and makes it. */
    ra_store_seq_cst(&thread->is_ended, 1);
    (void)take_calls(thread);
    rota_rank_thread_release(thread);
    return NULL;
}

rota_status rota_rank_thread_start(rota_rank_thread **out_thread) {
    rota_rank_thread *thread = aligned_alloc(64, (sizeof *thread + 63) / 64 * 64);
    if (!thread) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a communicator's thread");
    memset(thread, 0, sizeof *thread);
    atomic_init(&thread->references, 2);
    atomic_init(&thread->users, 1);
    sigset_t before;
    pthread_t started;
    rota_signals_block(&before);
    const int error = pthread_create(&started, NULL, run, thread);
    rota_signals_restore(&before);
    if (error) {
        free(thread);
        return rota_fail(ROTA_SYSTEM, "a communicator's thread can't be started: %s", strerror(error));
    }
    (void)pthread_setname_np(started, "rota-ranks");
    (void)pthread_detach(
        started); /* in MPI it may stay for ever: nobody waits for more than what it answers */
    *out_thread = thread;
    return ROTA_OK;
}

/* It sleeps on one of them at the most. */
static void wake(rota_rank_thread *thread) {
    rota_sleeper_wake(&thread->sleeper);
    rota_sleeper_wake(&thread->told);
}

void rota_rank_thread_share(rota_rank_thread *thread) {
    ra_fetch_add_relaxed(&thread->references, 1);
    ra_fetch_add_relaxed(&thread->users, 1);
}

void rota_rank_thread_leave(rota_rank_thread *thread) {
    if (ra_fetch_add_seq_cst(&thread->users, UINT32_MAX) == 1) wake(thread);
}

void rota_rank_thread_release(rota_rank_thread *thread) {
    /* Pairs with itself: who frees comes after all that others did. */
    if (ra_fetch_sub_acq_rel(&thread->references, 1) == 1) free(thread);
}

void rota_rank_thread_call(rota_rank_thread *thread, rota_rank_call *call) {
    rota_stack_push_upmc(&thread->calls, &call->entry);
    if (ra_load_seq_cst(&thread->is_ended)) /* with the store in run */
        (void)take_calls(thread);
    else
        wake(thread);
}

void rota_rank_thread_remove(rota_rank_thread *thread, const rota_rank_work *work) {
    rota_rank_work **link = &thread->works;
    while (*link && *link != work) link = &(*link)->next;
    if (*link) *link = work->next;
}

void rota_rank_thread_look_on(rota_rank_thread *thread) {
    thread->looks_until_ns = rota_deadline_after(ROTA_RANK_LOOKS_NS);
}

void rota_rank_thread_add(rota_rank_thread *thread, rota_rank_work *work) {
    work->next = thread->works;
    thread->works = work;
}

/* ---- Who asks ---- */

rota_rank_asked *rota_rank_ask(size_t size_bytes, void (*fn)(rota_rank_call *call)) {
    rota_rank_asked *asked = calloc(1, size_bytes);
    if (!asked) return NULL;
    asked->call.fn = fn;
    atomic_init(&asked->references, 2);
    return asked;
}

void rota_rank_forget(rota_rank_asked *asked) {
    if (ra_fetch_sub_acq_rel(&asked->references, 1) == 1) free(asked); /* pairs with itself */
}

rota_status rota_rank_wait(rota_rank_thread *thread, rota_rank_asked *asked, uint64_t deadline_ns,
                           const char *what, bool *out_is_answered) {
    rota_rank_thread_call(thread, &asked->call);
    return rota_rank_await(asked, &deadline_ns, what, out_is_answered);
}

rota_status rota_rank_await(rota_rank_asked *asked, uint64_t *deadline_ns, const char *what,
                            bool *out_is_answered) {
    bool has_stood = false;
    *out_is_answered = true;
    while (ra_load_acquire(&asked->is_over) == ASKED) { /* pairs with rota_rank_answer */
        if (rota_futex_wait(&asked->is_over, ASKED, *deadline_ns)) continue;
        if (!has_stood && rota_clock_ns() > rota_rank_later(*deadline_ns, STOOD_NS)) {
            has_stood = true;
            *deadline_ns = rota_deadline_after(AGAIN_NS);
            continue;
        }
        uint32_t seen = ASKED;
        if (!ra_cas_acq_rel(&asked->is_over, &seen, LEFT)) break; /* the answer came now */
        rota_rank_forget(asked);
        *out_is_answered = false;
        return rota_fail(ROTA_TIMEOUT, "%s: it was not done by the deadline", what);
    }
    return asked->status == ROTA_OK ? ROTA_OK : rota_fail(asked->status, "%s", asked->message);
}

bool rota_rank_answer(rota_rank_asked *asked, rota_status status) {
    asked->status = status;
    if (status != ROTA_OK) (void)snprintf(asked->message, sizeof asked->message, "%s", rota_last_error());
    uint32_t seen = ASKED;
    const bool is_heard = ra_cas_acq_rel(&asked->is_over, &seen, ANSWERED); /* pairs with rota_rank_wait */
    if (is_heard) rota_futex_wake(&asked->is_over, 1);
    rota_rank_forget(asked);
    return !is_heard;
}
