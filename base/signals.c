/* The signal mask around the start of threads. */
#include "base/signals.h"

void rota_signals_block(sigset_t *out_before) {
    sigset_t all;
    (void)sigfillset(&all);
    /* Neither call fails: the set and how to change it are valid. */
    (void)pthread_sigmask(SIG_SETMASK, &all, out_before);
}

void rota_signals_restore(const sigset_t *before) {
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}
