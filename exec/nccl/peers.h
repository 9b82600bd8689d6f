/* Collectives between GPUs of one process by their copy engines: large all_reduces and reduce_scatters of real numbers,
 * by sum or mean, and large all_gathers, whose ranks are all here and reach one another's memory. Internal to
 * exec/nccl.
 *
 * NCCL's kernels hold multiprocessors for as long as bytes are on their way, and what runs beside them is slowed by far
 * more than the bytes cost: products by 0.64 ms for 250 MiB on two H200s, by copy engines, with the sums, 0.10.
 *
 * Each rank has a share of the elements. Where there is something to add up it gets that of all others, into memory of
 * its own, and adds all in the order of the ranks; its sums, or what it has, it sends to all that are to have them.
 * Whoever comes last of the ranks puts all of it on all ranks' streams at once. No stream waits for another, whose
 * device may fail: each rank looks at all ranks' events, since the others touch its memory. So what has been put there
 * ends whatever the ranks do then, but for what is on a device that stops. */
#ifndef ROTA_EXEC_NCCL_PEERS_H
#define ROTA_EXEC_NCCL_PEERS_H

#include <stdbool.h>
#include "exec/collective_kinds.h"
#include "exec/cuda/cuda_api.h"
#include "exec/nccl/nccl_api.h"

typedef struct rota_peers rota_peers;

/* A rank, as the others need it. */
typedef struct rota_peers_rank {
    const rota_cuda_api *cu;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    uint32_t rank, size;
} rota_peers_rank;

/* Joins the ranks that have this id; the context is current. *out_peers NULL: some are not of this process, or they are
 * too many. What the rank gives is there until it leaves. */
rota_status rota_peers_join(const rota_nccl_id *id, const rota_peers_rank *rank, const uint32_t *others,
                            uint32_t other_count, rota_peers **out_peers);
/* Nothing of this rank's is under way. The context is current. */
void rota_peers_leave(rota_peers *peers, uint32_t rank);

/* Whether it is taken: as all ranks find, which have all joined: where one of the devices can't reach another's memory,
 * or a rank could not join for another reason, nothing is. */
bool rota_peers_take(const rota_peers *peers, const rota_collective *collective);
/* Bytes of device memory to get the others' values; 0: none is needed. */
uint64_t rota_peers_scratch_bytes(const rota_peers *peers, const rota_collective *collective);
/* This rank has come, with operands that the other devices reach, and scratch memory, which stay until it is over. The
 * context is current. Not OK: it is the last one, and could not put all there. */
rota_status rota_peers_post(rota_peers *peers, uint32_t rank, const rota_collective *collective,
                            CUdeviceptr scratch);
/* *out_over: all is complete, on all devices, that touches this rank's memory. It never is where a rank gives up before
 * all have come: the transport says so, or the timeout. Not OK: a device fails, and the sentence says which rank's. */
rota_status rota_peers_look(rota_peers *peers, uint32_t rank, bool *out_over);
/* A rank gives up what is under way, and with it all do. */
void rota_peers_abort(rota_peers *peers);
/* After that: no device touches anything of it any more. */
bool rota_peers_are_at_rest(rota_peers *peers);

#endif
