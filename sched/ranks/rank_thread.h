/* The thread that has the messages of a process's ranks: see rank_thread.c. Internal. */
#ifndef ROTA_SCHED_RANKS_RANK_THREAD_H
#define ROTA_SCHED_RANKS_RANK_THREAD_H

#include <pthread.h>
#include "base/patience.h"
#include "base/sleep.h"
#include "base/stack_upmc.h"
#include "base/status.h"

/* Something for the thread to do; begins the caller's own struct, in one list at a time. */
typedef struct rota_rank_call {
    rota_stack_entry entry;
    void (*fn)(struct rota_rank_call *call); /* on the thread */
} rota_rank_call;

/* What is under way on the thread: its own. */
typedef struct rota_rank_work {
    struct rota_rank_work *next;
    /* Gets on; false: it is over, and taken off the list. *out_moved: another look soon is worth it. */
    bool (*look)(struct rota_rank_work *work, bool *out_moved);
    bool is_told; /* by the last look: whatever it waits for wakes `told`, but for time */
} rota_rank_work;

typedef struct rota_rank_thread {
    rota_stack_upmc calls;
    rota_sleeper sleeper;        /* while nothing is under way, and */
    rota_sleeper told;           /* while something is, which messages that come wake, too (engine.h) */
    _Atomic uint32_t references; /* of communicators, and of the thread while it runs; the last one frees */
    _Atomic uint32_t users;      /* communicators that are open: without any the thread ends */
    _Atomic uint32_t is_ended;   /* nobody takes calls any more but who makes them */
    rota_rank_work *works;       /* the thread's own */
    rota_patience patience;      /* the thread's own */
    uint64_t looks_until_ns;     /* the thread's own: until then it looks on, but where the core was lost */
} rota_rank_thread;

/* A thread with one user and one reference. SYSTEM, OUT_OF_MEMORY. */
rota_status rota_rank_thread_start(rota_rank_thread **out_thread);
/* One user and one reference more, by who has one. */
void rota_rank_thread_share(rota_rank_thread *thread);
/* One user less: the last one's leaving ends the thread. Its reference stays. */
void rota_rank_thread_leave(rota_rank_thread *thread);
void rota_rank_thread_release(rota_rank_thread *thread);
/* Any thread; lock-free. When the thread has ended, who calls makes the call itself. */
void rota_rank_thread_call(rota_rank_thread *thread, rota_rank_call *call);
/* On the thread, by a call. */
void rota_rank_thread_add(rota_rank_thread *thread, rota_rank_work *work);
void rota_rank_thread_remove(rota_rank_thread *thread, const rota_rank_work *work);
/* On the thread: it looks again and again for the next ROTA_RANK_LOOKS_NS, since what is under way, or is soon to be,
 * is shorter than waking up: collectives of a device's memory, which come one after the other. */
#define ROTA_RANK_LOOKS_NS 1000000u
void rota_rank_thread_look_on(rota_rank_thread *thread);

/* A call that somebody waits for: `fn` runs on the thread, with what it needs in a struct that this begins. */
typedef struct rota_rank_asked {
    rota_rank_call call;
    _Atomic uint32_t references; /* two: who asks, and the thread */
    _Atomic uint32_t is_over;
    rota_status status;
    char message[ROTA_ERROR_MESSAGE_MAX];
} rota_rank_asked;

/* A time, or how long something takes, and so much more; where that is more than there is, for ever. */
static inline uint64_t rota_rank_later(uint64_t time_ns, uint64_t more_ns) {
    return more_ns > UINT64_MAX - time_ns ? UINT64_MAX : time_ns + more_ns;
}

/* How long the thread may take beside what it waits for, or for what waits for nobody. */
#define ROTA_RANK_ANSWER_NS UINT64_C(5000000000)
/* How long who asks waits for an answer that takes so many exchanges between ranks one after the other, each with the
 * transport's timeout, and so long beside; where that is more than there is, for ever. The transport ends an exchange
 * by its timeout, and says whom it waited for after a quarter of that at most, in which it hears who says farewell; as
 * much again is for ranks that come one after the other, each of which begins the timeout anew. Who asked is to hear
 * that sentence, so it waits longer. */
static inline uint64_t rota_rank_patience_ns(uint64_t timeout_ns, uint32_t exchanges, uint64_t more_ns) {
    uint64_t all_ns = rota_rank_later(more_ns, ROTA_RANK_ANSWER_NS);
    for (uint32_t i = 0; i < exchanges; i++)
        all_ns = rota_rank_later(all_ns, rota_rank_later(timeout_ns, timeout_ns / 2));
    return all_ns;
}

/* An asked call of so many bytes, zeroed. NULL: no memory. */
rota_rank_asked *rota_rank_ask(size_t size_bytes, void (*fn)(rota_rank_call *call));
/* Gives it to the thread and waits until rota_rank_answer, or the deadline, or, where this process was stopped until
 * then, a second more: TIMEOUT, *out_is_answered false, and it is the thread's alone. Else it is the caller's to let go
 * of with rota_rank_forget, and what the thread wrote is seen. */
rota_status rota_rank_wait(rota_rank_thread *thread, rota_rank_asked *asked, uint64_t deadline_ns,
                           const char *what, bool *out_is_answered);
/* The waiting alone, of one that the thread was given. *deadline_ns is that second later then: of several that are
 * waited for by one deadline all have the same second. */
rota_status rota_rank_await(rota_rank_asked *asked, uint64_t *deadline_ns, const char *what,
                            bool *out_is_answered);
/* On the thread, once for each; where the status is not OK its sentence is this thread's. True: nobody waits any more,
 * and what was made is to be undone; the struct is gone. */
bool rota_rank_answer(rota_rank_asked *asked, rota_status status);
void rota_rank_forget(rota_rank_asked *asked);

#endif
