/* The signal mask around the start of threads. */
#include "base/signals.h"

#include <stddef.h>

/* What a thread's own instruction raises. Blocked, the kernel ends the process without calling anybody. */
static const int rota_signals_of_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

void rota_signals_block(sigset_t *out_before) {
    /* None of these calls fails: the signals, the set and how to change it are valid. */
    sigset_t blocked;
    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof rota_signals_of_faults / sizeof *rota_signals_of_faults; i++)
        (void)sigdelset(&blocked, rota_signals_of_faults[i]);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, out_before);
}

void rota_signals_restore(const sigset_t *before) {
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}
