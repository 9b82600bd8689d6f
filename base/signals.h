/* Threads of rota's own run with every asynchronous signal blocked, so that the application's handlers run on
 * its threads. What an instruction raises (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS) stays open: a
 * fault in a kernel is for the application's crash handler, or a sanitizer's, to report. A thread inherits
 * the mask of whoever starts it. Internal; not installed. */
#ifndef ROTA_BASE_SIGNALS_H
#define ROTA_BASE_SIGNALS_H

#include <signal.h>

/* Blocks those signals in the calling thread; *out_before is for rota_signals_restore. */
void rota_signals_block(sigset_t *out_before);
void rota_signals_restore(const sigset_t *before);

#endif
