/* The transport contract: a group of ranks, as one of them sees it, which carries out collectives between them.
 * Internal; not installed.
 *
 * All calls on one transport, and on those that were split from it, come from one thread at a time, its owner's. None
 * waits: a collective is posted, and gets on whenever `progress` is called. One is under way at a time; who
 * calls keeps the order, which is that of the records and the same on all ranks.
 *
 * Before any byte of a collective moves the ranks compare what they are about to do: kind, type, count and name. Where
 * they differ, all ranks end it with the same sentence, and the transport with it. A rank that does not come, or sends
 * nothing, for timeout_ns ends it, too: who waited for it says so, and a quarter of that later, or of a second, names
 * all that have said nothing since, as it may have waited for one that waited itself. From then on everything posted
 * fails with that sentence.
 *
 * Memory of the caller's is touched during calls alone: nothing that comes late writes or reads it (P1). A result is
 * the same, bit for bit, in every run with as many ranks, and on every transport of messages: elements are combined in
 * ascending order of ranks.
 *
 * Of a collective that is on_device a transport has the agreement alone: when all ranks have come to it and mean the
 * same, it is over here, and is carried out by who posted it (nccl.h), on each rank's device. Until that says `carried`
 * it is under way all the same: `progress` then says whether another rank has ended meanwhile. */
#ifndef ROTA_EXEC_COMM_TRANSPORT_H
#define ROTA_EXEC_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "exec/collective_kinds.h"

typedef struct rota_transport rota_transport;
typedef struct rota_announcement rota_announcement;

typedef struct rota_transport_vtable {
    /* Begins a collective; its memory is the transport's until it is over. Errors come from `progress`. */
    void (*post)(rota_transport *transport, const rota_collective *collective);
    /* Gets on. *out_over: the collective has ended, as the status says; else OK. *out_moved: something came or went,
     * and another look soon is worth it. Between the agreement on one that is on_device and `carried` it waits for
     * nothing: *out_over only where the transport has ended, with that sentence. */
    rota_status (*progress)(rota_transport *transport, bool *out_over, bool *out_moved);
    /* A collective that is on_device, and over here, has come to its end on this rank's device; or not, and then the
     * transport ends with that cause; `gave_up`: by a deadline. What it ends with `progress` says once more then. */
    void (*carried)(rota_transport *transport, const char *cause, bool gave_up);
    /* What a rank says of a collective that it has come to, and this one has not; NULL: nothing came, this rank waits
     * for what others say itself, or the transport has ended. Valid until this rank posts, or calls another function.
     * For who waits elsewhere: nothing else tells it of that. NODE_FAILED, and the sentence: what came has ended it
     * now, of which `flush` tells the others. */
    rota_status (*ahead)(rota_transport *transport, uint32_t rank,
                         const rota_announcement **out_announcement);
    /* Ends it for all ranks, with this sentence: what is under way, and all that comes. Again: nothing. */
    void (*abort)(rota_transport *transport, const char *cause);
    /* Of one that has ended, or is to be closed: goes on with sending its farewell, by which other ranks are told, also
     * while what was under way is with a device still. True: some of it has still to go, which it does while somebody
     * calls this; for the timeout at the most. */
    bool (*flush)(rota_transport *transport);
    /* Begins a split, as a collective of its own, which `progress` ends: ranks of one colour become a group, in the
     * order of their keys, and of equal ones of their ranks. */
    void (*split)(rota_transport *transport, uint32_t color, uint32_t key);
    /* After a split that ended well: the group's, with a timeout and a name of its own; closed like any other. */
    rota_status (*take_split)(rota_transport *transport, const char *name, rota_transport **out_transport);
    /* Of one that has nothing under way, and gets nothing any more: tells others that this rank closes it, before
     * `close`, for who has something to end of its own before that. Of one that has ended, or again: nothing. */
    void (*begin_to_close)(rota_transport *transport);
    /* Gets on with closing it; what is under way has been aborted or is over. True: it is closed and gone. Others are
     * told, and what they want of this rank from then on fails with that. Waits for nobody, but for the last one of a
     * process's, which waits for the other ranks to come to their last one where the library must (MPI_Finalize): it
     * is not over before, or before the deadline has passed. What others may still write then is kept for good, and
     * *out_abandoned_bytes, set where it returns true, says how much; where that is not 0, rota_last_error why. Where
     * `lingers` is set who closes it need not wait: all that keeps it is its farewell, which waits behind other
     * messages, and goes while somebody goes on with closing it, in vain once the deadline has passed. */
    bool (*close)(rota_transport *transport, uint64_t deadline_ns, uint64_t *out_abandoned_bytes);
} rota_transport_vtable;

/* A transport's struct begins with this. */
struct rota_transport {
    const rota_transport_vtable *vtable;
    const char *kind; /* "mpi", "threads"; static */
    char name[64];    /* of the communicator, for sentences */
    uint32_t rank, size;
    uint64_t timeout_ns; /* counted from what moved last */
    bool lingers;        /* see close */
    bool is_told;        /* whatever it waits for wakes its owner, but for time (engine.h) */
    uint64_t id;         /* the same on all of its ranks, and of no other transport; 0: one rank */
    uint64_t
        crossed; /* it has ended since ranks have another order of its collectives and that one's; 0: no */
};

/* For how long this process was stopped itself, as one is that looks at what is under way so seldom; 0: it was not, but
 * at rest between two looks. What it did not see may have come, or may come soon: others are given their time anew, as
 * all of a job may have been stopped together. Those that have given this one up have said so, which is heard first.
 * No more than ROTA_TRANSPORT_STANDS times in one wait, or who is stopped again and again would wait for ever. */
enum { ROTA_TRANSPORT_STANDS = 4 };
static inline uint64_t rota_transport_stood_ns(const rota_transport *transport, uint64_t looked_ns,
                                               uint64_t now_ns) {
    const uint64_t unseen_ns = now_ns - looked_ns, least_ns = 100000000;
    return unseen_ns > transport->timeout_ns / 4 && unseen_ns > least_ns ? unseen_ns : 0;
}

/* Gives the transport of a whole engine an identity that rank 0 makes, before anything is posted: all ranks call it,
 * and it waits for them, until the deadline, and a moment longer for who else gives up. NODE_FAILED. */
rota_status rota_transport_identify(rota_transport *transport, uint64_t deadline_ns);

/* Closes it at once, and naps meanwhile: for who has nothing else to do. */
void rota_transport_close(rota_transport *transport, uint64_t deadline_ns, uint64_t *out_abandoned_bytes);

#endif
