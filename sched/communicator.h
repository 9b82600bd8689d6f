/* Communicators: several ranks, each a process of its own or a part of one, that run graphs with collectives between
 * them (ops/ops_collective.h).
 *
 * A communicator is a resource that each collective on it writes. So any two collectives on one are ordered by hazards,
 * in the order of the records and submissions, as two writes of a buffer are, and everything else overlaps with them as
 * its own hazards allow. Ranks that record and submit the same collectives in the same order can't come to a deadlock;
 * where those of one communicator are not the same, all of its ranks get an error that names the first node that
 * differs.
 *
 * The order is that of the collectives of all communicators together, in which all ranks that share any of them record
 * and submit, whatever plans they are in. Where two ranks that share two communicators have other orders of those, both
 * communicators end on all of their ranks, soon, with a sentence that names the collective and says how many of the
 * other communicator each rank had submitted before it; also where the two wait for each other by it. Messages of two
 * (send, receive) are compared with collectives of all ranks, and not among themselves. A communicator of own_order is
 * compared with no other.
 *
 * Collectives are nodes of the CPU device: a plan for a GPU brings what they read to the host and back. Where the
 * communicator has the plan's CUDA device (rota_communicator_options.devices) the bytes stay there, and NCCL has them;
 * what the ranks agree on, and how it fails, is the same. No thread of a device waits in one: a thread of the
 * communicator's has the messages, and NCCL.
 *
 * What has gone wrong once has for good: a mismatch, a rank that does not come, or one that left a collective out since
 * what it reads had failed, ends the communicator on all ranks, with one sentence for all, and each later collective
 * on it fails with that. Open another one, or split, when all are well again. */
#ifndef ROTA_SCHED_COMMUNICATOR_H
#define ROTA_SCHED_COMMUNICATOR_H

#include "../base/sized.h"
#include "../exec/collective.h"
#include "runtime.h"

typedef struct rota_communicator rota_communicator;

typedef struct rota_communicator_options {
    size_t struct_size; /* sizeof, by ROTA_COMMUNICATOR_OPTIONS() */
    const char *name;   /* for messages, cut at 63 characters; NULL: "world" */
    /* What carries the bytes. "mpi": MPI's, between processes that mpirun or srun started, or of `mpi_communicator`.
     * "tcp": connections of rota's own, between processes that meet by `address`, or as torchrun (RANK, WORLD_SIZE,
     * MASTER_ADDR, MASTER_PORT) or srun (SLURM_PROCID and the like) told each of them. "alone": one rank, this one.
     * NULL: as `mpi_communicator` or `address` say; else "mpi" where mpirun, or srun with an MPI, started the process,
     * and not torchrun within srun; else "tcp" where torchrun or srun started several; else "alone". */
    const char *transport;
    /* How long a collective waits for another rank that neither comes nor sends; on devices, once all have come, how
     * long the whole of it may take; and how long opening waits for all ranks. 0: 20 s, less than a runtime's 30, so
     * that who waits for the ticket is told which rank it was. */
    uint64_t timeout_ns;
    /* NULL, or the CUDA devices on which collectives of their memory run, by NCCL (libnccl.so.2, opened at run time):
     * one of the runtime's, or as many as there are runtimes, each another GPU. All ranks give one, or none does. Then
     * a collective of a plan whose first device is that one runs there, but for the largest or smallest of real
     * numbers, which NCCL makes without what is NaN; all others are by messages, in host memory. */
    rota_device *const *devices;
    /* NULL, or where the ranks meet that call it with a `rank` of their own below the `size`: "host:port", where rank 0
     * listens until all have come ("[::1]:4000" for IPv6), or "file:PATH", a file that all see and rank 0 writes. Who
     * can reach that can come: it is for networks whose hosts trust each other. A process may meet at several one after
     * the other, and at one again. */
    const char *address;
    uint32_t rank, size;
    /* NULL, or a pointer to an MPI_Comm of the application's, which has initialised MPI: its ranks are these. It is
     * duplicated, so all of its ranks call this, and the application finalises MPI when it has closed this (before,
     * what is under way fails, NODE_FAILED, what this keeps stays for good, and closing it is a TIMEOUT); but where a
     * communicator of rota's began MPI, the last one of the process to close does. */
    const void *mpi_communicator;
    /* Its collectives are in an order of their own: that of the others on its ranks is not compared with it. For those
     * whose submissions come from threads of their own, in any order beside others'; that no rank waits in a circle is
     * the application's to see to then, or the timeout's. Splits have it, too. */
    bool own_order;
    /* Real numbers are combined in an order that follows from the number of ranks, by an algorithm that nothing chooses
     * as it runs: by messages and by copies they always are. Of NCCL, where there are `devices`, algorithm and protocol
     * are pinned, which it takes from the process's environment alone, before its first communicator: NCCL_ALGO and
     * NCCL_PROTO name one each (Ring or Tree; Simple, LL or LL128), the same on all ranks. Else opening is UNSUPPORTED,
     * and says what is missing. It costs what the algorithm that NCCL would have chosen is faster by. Splits have it,
     * too. */
    bool deterministic;
} rota_communicator_options;
#define ROTA_COMMUNICATOR_OPTIONS(...) ROTA_SIZED(rota_communicator_options, __VA_ARGS__)

/* Opens this process's rank of all ranks, and the runtime's CPU device. All ranks call it; it waits for them, up to the
 * timeout. `options` may be NULL. The caller owns the communicator, and closes it before the runtime. With MPI: it is
 * initialised by a thread of rota's, unless the application has done so, with MPI_THREAD_MULTIPLE, and finalised when
 * the last communicator of the process closes; then it cannot be opened again. With devices all ranks are told where
 * one of them cannot do it, and which. UNSUPPORTED: the transport is not there, or NCCL is not on some rank, or two
 * ranks have one GPU, and what is missing; INVALID_ARGUMENT: a launcher did not say what ranks need to meet, or ranks
 * that meet say different sizes or names, or two the same rank; WRONG_STATE: the process's ranks are open already, or
 * MPI was finalised, or not initialised; TIMEOUT: and which ranks did not come; SYSTEM: what MPI or the system says.
 * May block. */
ROTA_API rota_status rota_communicator_open(rota_runtime *runtime, const rota_communicator_options *options,
                                            rota_communicator **out_communicator);

/* Ranks of one process: `size` of them at once, rank i on runtimes[i], of which no two are the same (a rank waits for
 * others while work of one order does). For tests, and for what is to run on one machine without MPI.
 * `options->transport` is NULL. INVALID_ARGUMENT; errors of rota_device_open; OUT_OF_MEMORY, SYSTEM. May block. */
ROTA_API rota_status rota_communicator_open_ranks(rota_runtime *const *runtimes, uint32_t size,
                                                  const rota_communicator_options *options,
                                                  rota_communicator **out_communicators);

/* Wait-free, until it is closed. Of NULL 0 and "". */
ROTA_API uint32_t rota_communicator_rank(const rota_communicator *communicator);
ROTA_API uint32_t rota_communicator_size(const rota_communicator *communicator);
ROTA_API const char *rota_communicator_name(const rota_communicator *communicator);
/* On which its collectives of that device's memory run (rota_communicator_options.devices); NULL: none. */
ROTA_API rota_device *rota_communicator_device(const rota_communicator *communicator);
/* "mpi", "tcp", "threads" or "alone". Static storage. */
ROTA_API const char *rota_communicator_transport(const rota_communicator *communicator);

#define ROTA_COMMUNICATOR_NO_COLOR UINT32_MAX

/* The ranks that give the same colour become a communicator of their own, in ascending order of their keys, and of
 * equal ones of their ranks. All ranks call it, between the same submissions: it waits for the collectives that were
 * submitted, and then for the other ranks. ROTA_COMMUNICATOR_NO_COLOR: of none, *out_communicator is NULL. It has the
 * timeout of the one it comes from, and runs on the same devices, but neither depends on the other. NODE_FAILED, with
 * what has ended the communicator, or differs on another rank; TIMEOUT, WRONG_STATE (closed), OUT_OF_MEMORY. May
 * block. */
ROTA_API rota_status rota_communicator_open_split(rota_communicator *communicator, uint32_t color,
                                                  uint32_t key, const char *name,
                                                  rota_communicator **out_communicator);

/* Ends the communicator on all ranks, with this sentence: what is under way fails on each, but where this rank has done
 * its part of it, and so does what comes. Without it the others learn of a rank that gives up only when they have
 * waited for it. INVALID_ARGUMENT, WRONG_STATE (closed), TIMEOUT. May block for moments. */
ROTA_API rota_status rota_communicator_abort(rota_communicator *communicator, const char *cause);

/* Closes this rank: collectives of it that are under way fail, on all ranks, and so does each that comes, here with
 * WRONG_STATE, elsewhere with a sentence that says so. Graphs and plans that name it may live on. The last one of MPI's
 * in a process waits for all other ranks to close their last one (MPI_Finalize); others of the process go on meanwhile.
 * Ends at its deadline: TIMEOUT, and what a rank that does not answer may still touch is kept for good. `timeout_ns` 0:
 * the communicator's. No other call on it may be running. In a child after a fork, where each other call is
 * WRONG_STATE, it only frees. NULL is ignored. */
ROTA_API rota_status rota_communicator_close(rota_communicator *communicator, uint64_t timeout_ns);

#endif
