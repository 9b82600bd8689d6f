/* The thread that has the messages: it takes what others push, and looks at what is under way until that is over. While
 * nothing is, it sleeps; while something is, it looks again and again, and the longer nothing moves the less often. It
 * does neither for a while after a collective of a device's memory began or ended (rota_rank_thread_look_on).
 *
 * Who asks and waits may have gone when the answer comes. `is_over` goes from ASKED to ANSWERED by the thread, or to
 * LEFT by who asked; whichever comes second knows of the other, and exactly one of the two has what was made. */
#include "sched/ranks/rank_thread.h"

#include <fenv.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/signals.h"

enum { ASKED, ANSWERED, LEFT };
enum { YIELDS_NS = 50000, NAP_NS = 20000, LONG_NAP_NS = 200000, LONG_AFTER_NS = 5000000 };
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

static void rest(rota_rank_thread *thread, uint64_t moved_ns) {
    const uint64_t now = rota_clock_ns();
    if (now < thread->looks_until_ns) {
        (void)sched_yield();
        return;
    }
    if (!thread->works) {
        rota_sleeper_prepare(&thread->sleeper);
        /* Both after the sleeper's flag: see base/sleep.h. */
        if (!rota_stack_is_empty_upmc(&thread->calls) || ra_load_seq_cst(&thread->users) == 0)
            rota_sleeper_cancel(&thread->sleeper);
        else
            rota_sleeper_wait(&thread->sleeper, rota_deadline_after(sleep_ns));
        return;
    }
    const uint64_t still_ns = now - moved_ns;
    if (still_ns < YIELDS_NS)
        (void)sched_yield();
    else
        rota_nap_until(rota_deadline_after(still_ns < LONG_AFTER_NS ? NAP_NS : LONG_NAP_NS));
}

static void *run(void *argument) {
    rota_rank_thread *thread = argument;
    /* It combines elements: not as whoever started it had its numbers rounded or flushed. */
    (void)fesetenv(FE_DFL_ENV);
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* without it naps end 50 us late */
    uint64_t moved_ns = rota_clock_ns();
    for (;;) {
        /* Before the calls: what was pushed before the last user left is taken. */
        const bool is_left = ra_load_seq_cst(&thread->users) == 0;
        bool moved = take_calls(thread);
        moved = look_at_all(thread) || moved;
        if (is_left && !thread->works) break;
        if (moved)
            moved_ns = rota_clock_ns();
        else
            rest(thread, moved_ns);
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

void rota_rank_thread_share(rota_rank_thread *thread) {
    ra_fetch_add_relaxed(&thread->references, 1);
    ra_fetch_add_relaxed(&thread->users, 1);
}

void rota_rank_thread_leave(rota_rank_thread *thread) {
    if (ra_fetch_add_seq_cst(&thread->users, UINT32_MAX) == 1) rota_sleeper_wake(&thread->sleeper);
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
        rota_sleeper_wake(&thread->sleeper);
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
