/* The thread that waits for a device and reports what it reached: its life, its sleep, and what it and the
 * submit thread say to each other. What it looks at is the executor's. Internal to the executors.
 *
 * No wake is lost: who hands over work publishes it, and then loads `sleeping`; the thread stores that it
 * sleeps, and then looks for work once more. All four are seq_cst, so one of the two sees the other. */
#ifndef ROTA_EXEC_COMMON_COMPLETER_H
#define ROTA_EXEC_COMMON_COMPLETER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/patience.h"
#include "base/status.h"
#include "exec/locality.h"

typedef enum rota_completer_close {
    ROTA_COMPLETER_WORKS,
    ROTA_COMPLETER_ENDS, /* when nothing is in flight */
    ROTA_COMPLETER_STOPS /* at its next look */
} rota_completer_close;

typedef struct rota_completer_shared {
    pthread_t thread;
    bool is_started;          /* written by open, read by close */
    _Atomic uint32_t closing; /* rota_completer_close */
    _Atomic uint32_t done;    /* futex of close */
    /* Futex of the thread: 1 while it sleeps or is about to; 2 then, too: somebody is waking it. */
    _Atomic uint32_t sleeping;
    _Atomic uint32_t progress; /* futex of a submit that waits for room: counts what was seen complete */
    _Atomic uint64_t spin_ns;  /* time in which it kept looking */
    rota_patience patience;    /* the thread's: with works, where none were */
} rota_completer_shared;

/* What close finds of the thread. */
typedef enum rota_completer_end {
    ROTA_COMPLETER_QUIET, /* it has ended: nothing was in flight any more */
    ROTA_COMPLETER_CUT,   /* it has ended, and something may be in flight */
    ROTA_COMPLETER_STUCK  /* it is inside the driver, and left alone */
} rota_completer_end;

/* Whether the thread has something to do; asked with seq_cst loads after its sleep is visible. */
typedef bool (*rota_completer_work_fn)(void *user);

/* Starts main(device), which calls rota_completer_is_done as its last deed; it stays near the device. SYSTEM names
 * that. */
rota_status rota_completer_start(rota_completer_shared *completer, void *(*main)(void *), void *device,
                                 const char *id, rota_locality *locality);
/* Close's: lets the thread end, and waits until the deadline; then it is cut short. */
rota_completer_end rota_completer_stop(rota_completer_shared *completer, uint64_t deadline_ns);
/* The thread's last deed: what it did is visible to close. */
void rota_completer_is_done(rota_completer_shared *completer);

/* The submit thread's, after it has published work with a seq_cst store; a system call only if the thread
 * sleeps. */
void rota_completer_wake(rota_completer_shared *completer);
/* The same for threads that may be stopped, of the application's: who is stopped in it keeps nobody else's wake. */
void rota_completer_wake_by_any(rota_completer_shared *completer);

/* The thread's: looks for work for so long, or longer where it came soon of late (base/patience.h), then sleeps until
 * there is some, close, or a while is over. */
void rota_completer_rest(rota_completer_shared *completer, rota_completer_work_fn has_work, void *user,
                         uint64_t spin_ns);
/* The thread's: sleeps unless there is work, until then at most. */
void rota_completer_sleep(rota_completer_shared *completer, rota_completer_work_fn has_work, void *user,
                          uint64_t until_ns);

/* Any thread's: the CPU time so far, less what was spent looking; 0 once it has ended. */
uint64_t rota_completer_cpu_ns(rota_completer_shared *completer);

#endif
