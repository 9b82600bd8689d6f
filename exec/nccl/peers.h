/* Sums of gradients between GPUs of one process by their copy engines: large all_reduces of real numbers, whose ranks
 * are all here and reach one another's memory. Internal to exec/nccl.
 *
 * NCCL's kernels hold multiprocessors for as long as bytes are on their way, and what runs beside them is slowed by far
 * more than the bytes cost: products by 0.64 ms for 250 MiB on two H200s, by copy engines, with the sums, 0.10.
 *
 * Each rank has a share of the elements. It gets that of all others, into memory of its own, adds all up in the order
 * of the ranks, and sends the sums to all. Whoever comes last of the ranks puts all of it on all ranks' streams at
 * once, and each stream waits by events for what the others do to its rank's memory; so what has been put there ends
 * whatever the ranks do then. */
#ifndef ROTA_EXEC_NCCL_PEERS_H
#define ROTA_EXEC_NCCL_PEERS_H

#include <stdbool.h>
#include "exec/collective_kinds.h"
#include "exec/cuda/cuda_api.h"
#include "exec/nccl/nccl_api.h"

typedef struct rota_peers rota_peers;

/* A rank, as the others need it. */
typedef struct rota_peer {
    const rota_cuda_api *cu;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    uint32_t rank, size;
} rota_peer;

/* Joins the ranks that have this id; the context is current. *out_peers NULL: some are not of this process, or they are
 * too many. What the rank gives is there until it leaves. */
rota_status rota_peers_join(const rota_nccl_id *id, const rota_peer *rank, const uint32_t *others,
                            uint32_t other_count, rota_peers **out_peers);
/* Nothing of this rank's is under way. The context is current. */
void rota_peers_leave(rota_peers *peers, uint32_t rank);

/* Whether it is taken: as all ranks find, which have all joined: where one of the devices can't reach another's memory,
 * or a rank could not join for another reason, nothing is. */
bool rota_peers_take(const rota_peers *peers, const rota_collective *collective);
/* Bytes of device memory to get the others' shares. */
uint64_t rota_peers_scratch_bytes(const rota_peers *peers, const rota_collective *collective);
/* This rank has come, with operands that the other devices reach, and scratch memory, which stay until it is over. The
 * context is current. Not OK: it is the last one, and could not put all there. */
rota_status rota_peers_post(rota_peers *peers, uint32_t rank, const rota_collective *collective,
                            CUdeviceptr scratch);
/* *out_over: all is complete, on all devices, that touches this rank's memory. It never is where a rank gives up before
 * all have come: the transport says so, or the timeout. Not OK: the device fails. */
rota_status rota_peers_look(rota_peers *peers, uint32_t rank, bool *out_over);
/* A rank gives up what is under way, and with it all do. */
void rota_peers_abort(rota_peers *peers);
/* After that: no device touches anything of it any more. */
bool rota_peers_are_at_rest(rota_peers *peers);

#endif
