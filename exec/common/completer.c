/* See completer.h. */
#include "exec/common/completer.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/spin.h"
#include "base/thread_time.h"

/* A sleeper looks again after this long, so that no wait is without a deadline. */
#define IDLE_SLICE_NS (1000ull * 1000000ull)
/* How long a thread that is told to stop at its next look may take to it. */
#define CUT_NS 100000000ull

rota_status rota_completer_start(rota_completer_shared *completer, void *(*main)(void *), void *device,
                                 const char *id, rota_locality *locality) {
    if (rota_locality_start(locality, NULL, &completer->thread, main, device) != 0)
        return rota_fail(ROTA_SYSTEM, "the completion thread of %s could not be started", id);
    completer->is_started = true;
    return ROTA_OK;
}

static bool is_done_by(rota_completer_shared *completer, uint64_t deadline_ns) {
    /* Pairs with rota_completer_is_done. */
    while (!ra_load_acquire(&completer->done) && rota_futex_wait(&completer->done, 0, deadline_ns)) continue;
    return ra_load_acquire(&completer->done);
}

rota_completer_end rota_completer_stop(rota_completer_shared *completer, uint64_t deadline_ns) {
    if (!completer->is_started) return ROTA_COMPLETER_QUIET;
    ra_store_seq_cst(&completer->closing, ROTA_COMPLETER_ENDS);
    ra_store_seq_cst(&completer->sleeping, 0);
    rota_futex_wake(&completer->sleeping, 1);
    rota_completer_end end = ROTA_COMPLETER_QUIET;
    if (!is_done_by(completer, deadline_ns)) {
        ra_store_seq_cst(&completer->closing, ROTA_COMPLETER_STOPS);
        end = is_done_by(completer, rota_deadline_after(CUT_NS)) ? ROTA_COMPLETER_CUT : ROTA_COMPLETER_STUCK;
    }
    if (end == ROTA_COMPLETER_STUCK)
        (void)pthread_detach(completer->thread);
    else
        (void)pthread_join(completer->thread, NULL);
    return end;
}

void rota_completer_is_done(rota_completer_shared *completer) {
    ra_store_release(&completer->done, 1); /* pairs with the loads in is_done_by */
    rota_futex_wake(&completer->done, INT32_MAX);
}

void rota_completer_wake(rota_completer_shared *completer) {
    if (!ra_load_seq_cst(&completer->sleeping)) return;
    ra_store_seq_cst(&completer->sleeping, 0);
    rota_futex_wake(&completer->sleeping, 1);
}

void rota_completer_wake_by_any(rota_completer_shared *completer) {
    /* Not to 0: it is not awake before the system call, and who came in between would leave it asleep. A thread that
     * is about to sleep does not: it finds another value. Only the thread itself, and a submit thread, which goes on to
     * wake it and is not the application's to stop, say 0. */
    uint32_t sleeping = ra_load_seq_cst(&completer->sleeping);
    if (sleeping == 1) (void)ra_cas_seq_cst(&completer->sleeping, &sleeping, 2);
    if (sleeping) rota_futex_wake(&completer->sleeping, 1);
}

void rota_completer_sleep(rota_completer_shared *completer, rota_completer_work_fn has_work, void *user,
                          uint64_t until_ns) {
    ra_store_seq_cst(&completer->sleeping, 1);
    if (!has_work(user) && !ra_load_seq_cst(&completer->closing))
        (void)rota_futex_wait(&completer->sleeping, 1, until_ns);
    ra_store_seq_cst(&completer->sleeping, 0);
}

void rota_completer_rest(rota_completer_shared *completer, rota_completer_work_fn has_work, void *user,
                         uint64_t spin_ns) {
    const uint64_t limit_ns = rota_patience_ns(&completer->patience, spin_ns);
    rota_spin spin =
        rota_patience_spin(&completer->patience, limit_ns, spin_ns > ROTA_PATIENCE_NS ? spin_ns : 0);
    const bool keeps_core = completer->patience.left != 0; /* else the submit thread may need it */
    bool work = false;
    while (!work && (keeps_core ? rota_spin_pauses(&spin) : rota_spin_yields(&spin)))
        work = has_work(user) || ra_load_acquire(&completer->closing); /* pairs with stop */
    ra_fetch_add_relaxed(&completer->spin_ns, rota_spin_own_ns(&spin));
    rota_patience_note(&completer->patience, &spin);
    if (!work) rota_completer_sleep(completer, has_work, user, rota_deadline_after(IDLE_SLICE_NS));
    rota_patience_learn(&completer->patience, rota_spin_ns(&spin));
}

uint64_t rota_completer_cpu_ns(rota_completer_shared *completer) {
    if (ra_load_acquire(&completer->done)) return 0; /* pairs with rota_completer_is_done */
    uint64_t cpu = rota_thread_cpu_ns_of(completer->thread);
    uint64_t spinning = ra_load_relaxed(&completer->spin_ns);
    return cpu > spinning ? cpu - spinning : 0;
}
