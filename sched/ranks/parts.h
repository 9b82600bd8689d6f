/* Inside of a communicator. Internal to sched/ranks.
 *
 * Workers of the CPU device post collectives, one at a time, since each writes the token; the communicator's thread has
 * the transport. What is between them is atomic; what each owns stands below. */
#ifndef ROTA_SCHED_RANKS_PARTS_H
#define ROTA_SCHED_RANKS_PARTS_H

#include <sys/types.h>
#include "base/atomic.h"
#include "exec/nccl/nccl.h"
#include "exec/comm/transport.h"
#include "sched/communicator.h"
#include "sched/ranks/order.h"
#include "sched/ranks/rank_thread.h"

/* From workers, and the sequencer, to the thread. */
typedef struct rota_posted {
    rota_rank_call look; /* pushed while is_queued, with a reference */
    _Atomic uint32_t is_queued;
    _Atomic(rota_host_run *) run; /* of a collective that is to begin; publishes */
    rota_collective collective;
    char left_out_name
        [96]; /* of the first node that was not run, since what it reads has failed; published by */
    _Atomic uint32_t left_out;    /* once for good */
    uint64_t left_out_after;      /* how many were submitted before it, which end first; published likewise */
    uint64_t submitted;           /* the sequencer's own: of all replays that had their turn */
    _Atomic uint32_t is_skipped;  /* by a worker, as it had its turn: nothing is before it */
    _Atomic uint32_t is_left_out; /* by who sets it first, and so has the name: a worker, or the sequencer */
    _Atomic uint32_t is_closed;
} rota_posted;

/* Collectives by the device's library: the thread's own, but for `device`, which is set before any node is recorded. */
typedef struct rota_on_device {
    rota_device *device;          /* NULL: all are by messages */
    char id[32];                  /* its, for sentences: a runtime that did not wait may have closed it */
    rota_nccl *nccl;              /* NULL: it is not open, or closed */
    bool is_deterministic;        /* rota_communicator_options.deterministic */
    bool carries;                 /* `run` is at the library: the ranks have agreed */
    bool has_failed;              /* meanwhile: it ends when the device touches nothing more of it */
    uint64_t since_ns, looked_ns; /* when it began to; when it was last looked at */
    uint32_t stands;              /* how often this process was stopped since then */
    struct rota_opening *opening; /* while it opens (device.c) */
} rota_on_device;

/* The thread's own. */
typedef struct rota_under_way {
    rota_rank_work work; /* in the thread's list while one of these is there, or a device opens: */
    rota_host_run *run;
    rota_rank_asked *split;
    rota_rank_asked *close; /* by `close_deadline_ns` */
    uint64_t close_deadline_ns;
    rota_transport *transport; /* NULL: closed */
    rota_rank_work flush;      /* in the thread's list while */
    bool is_flushing;          /* its farewell, by which other ranks are told of its end, has still to go */
    uint64_t ended_count;      /* runs so far */
} rota_under_way;

struct rota_communicator {
    _Alignas(64) uint8_t token_memory[64]; /* the token's: what is in it nobody reads */
    _Atomic uint32_t references; /* the application's, the token's, of a look that is queued, of who posts */
    rota_runtime *runtime;
    rota_device *device; /* the runtime's CPU */
    rota_buffer *token;  /* what each collective writes */
    rota_rank_thread *thread;
    char name[64];
    const char *kind;
    pid_t process; /* that has the thread: not a child after a fork */
    uint32_t rank, size;
    uint64_t timeout_ns;
    rota_posted posted;
    rota_under_way under_way;
    rota_on_device on_device;
    rota_ordered ordered;
};

/* By who has a reference, or runs a node that names the token. */
static inline rota_communicator *rota_communicator_retain(rota_communicator *communicator) {
    ra_fetch_add_relaxed(&communicator->references, 1);
    return communicator;
}
void rota_communicator_release(rota_communicator *communicator);
/* By who has a reference; lock-free: the thread is to look at what is posted. */
void rota_communicator_notify(rota_communicator *communicator);

/* communicator.c. One without a transport yet; takes the thread's user and reference, also where it fails. */
rota_status rota_communicator_make(rota_runtime *runtime, rota_device *device, rota_rank_thread *thread,
                                   rota_communicator **out_communicator);
/* Of one that has no transport. */
void rota_communicator_unmake(rota_communicator *communicator);
void rota_communicator_carry_by(rota_communicator *communicator, rota_transport *transport);
/* Compares what graphs have on it from `first` on, whose graph is there until it is over; all ranks do. In three steps,
 * so that of several communicators none waits for another one's: begun, which waits for nothing where there is room for
 * one more read; posted, when what was submitted on it is over; and waited for, until the other ranks have come. Errors
 * as of a split. Where one fails before it is waited for it is gone. */
typedef struct rota_comparison rota_comparison;
rota_status rota_comparison_begin(rota_communicator *communicator, const rota_collective_position *first,
                                  rota_comparison **out_comparison);
/* Waits for what was submitted before it was begun. */
rota_status rota_comparison_await_turn(rota_comparison *comparison);
void rota_comparison_post(rota_comparison *comparison);
/* How long its transport may take, and says whom it waited for, and its thread. */
uint64_t rota_comparison_patience_ns(const rota_comparison *comparison);
/* *out_is_over false: it is the thread's still. The deadline of several, as in rota_rank_await. */
rota_status rota_comparison_wait(rota_comparison *comparison, uint64_t *deadline_ns, bool *out_is_over);
/* open_ranks.c. rota_rank_devices_open; where it fails the communicators are closed, and NULL. */
rota_status rota_communicator_open_devices(rota_communicator **communicators, uint32_t count,
                                           rota_device *const *devices);

/* device.c. Has collectives of these ranks, which are all of this process's and have just been opened, carried out on
 * devices[i], by the device's library: all ranks of the communicator call it. Where it fails on any, for whatever
 * reason, it does so on all, and they are to be closed. */
rota_status rota_rank_devices_open(rota_communicator *const *communicators, uint32_t count,
                                   rota_device *const *devices);
/* The rest on the thread. Gets on with opening it: false: that is over. */
bool rota_rank_device_open(rota_communicator *communicator, bool *out_moved);
/* The ranks have agreed on what is posted; from here on rota_rank_device_carry gets on with it: true: it is over, as
 * *out_status says. */
void rota_rank_device_begin(rota_communicator *communicator);
bool rota_rank_device_carry(rota_communicator *communicator, bool *out_moved, rota_status *out_status);
/* True: the library has nothing of this rank's any more. */
bool rota_rank_device_close(rota_communicator *communicator);

#endif
