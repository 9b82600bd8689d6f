/* NCCL's communicator of one rank, on one CUDA device: collectives of its device's memory. Internal.
 *
 * Calls on one come from one thread, the communicator's. None waits for another rank: what of NCCL's may is called by a
 * thread of its own, and what was begun gets on whenever `progress` is called. It knows of no order, agreement or
 * deadline; whoever posts has those (transport.h). */
#ifndef ROTA_EXEC_NCCL_NCCL_H
#define ROTA_EXEC_NCCL_NCCL_H

#include <stdbool.h>
#include "exec/collective_kinds.h"
#include "exec/nccl/nccl_api.h"

typedef struct rota_nccl rota_nccl;

/* What a rank has, for the others to compare. */
typedef struct rota_nccl_about {
    uint64_t process;   /* a number of its process's alone: containers and hosts have processes of one id */
    uint32_t version;   /* of its NCCL, which is to be one for all */
    uint32_t index;     /* CUDA's, in the process */
    uint8_t device[16]; /* the GPU's UUID, which is to be another one for each */
    uint32_t pinned;    /* rota_nccl_pins, which are to be the same for all; 0: they need not be */
} rota_nccl_about;

/* Of CUDA device `index`. UNSUPPORTED: no NCCL here, or none that will do; no CUDA in this build. */
rota_status rota_nccl_look(uint32_t index, rota_nccl_about *out_about);
/* What the ranks of one communicator find each other by: of one of them, for all. */
rota_status rota_nccl_make_id(rota_nccl_id *out_id);

/* Begins to open it on CUDA device `index`, whose primary context it holds; `progress` says when it is open, or why
 * not. `others`: the devices of other ranks in this process, of which NCCL may reach this one's memory directly: what
 * is posted is made accessible to them. Where it fails at once nothing is left. */
rota_status rota_nccl_open(uint32_t index, const rota_nccl_id *id, uint32_t rank, uint32_t size,
                           const uint32_t *others, uint32_t other_count, rota_nccl **out_nccl);
/* A collective is to be posted soon: makes that faster. */
void rota_nccl_stir(rota_nccl *nccl);
/* Puts a collective on its stream, where nothing of it is under way; all ranks do, with the same. `input` and `output`
 * are the device's, what they hold is complete there, and they are NCCL's until it is over. Errors come from
 * `progress`. WRONG_STATE: it was aborted. */
rota_status rota_nccl_post(rota_nccl *nccl, const rota_collective *collective);
/* *out_over: it is open, or what was posted is complete on this rank's device. Not OK: it can't be, and who calls
 * aborts it. After an abort it is OK, and *out_over says that the device touches nothing more of what was posted. */
rota_status rota_nccl_progress(rota_nccl *nccl, bool *out_over);
/* Ends what is under way, whatever other ranks do. Again: nothing. May take as long as NCCL's threads need. */
void rota_nccl_abort(rota_nccl *nccl);
/* Gets on with closing it: true: it is gone. Nothing is under way but its opening, or it was aborted and is over. What
 * this rank has sent may be on its way still, to one whose device is busy: NCCL has half of the time to the deadline
 * for it, from the first call on, and is aborted then. */
bool rota_nccl_close(rota_nccl *nccl, uint64_t deadline_ns);

#endif
