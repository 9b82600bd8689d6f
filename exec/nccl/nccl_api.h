/* NCCL, opened at run time: what rota calls of libnccl.so.2, declared here, so that no build needs its header. One
 * list, from which the table and its filling come. The values are NCCL's ABI, which has them since 2.18. Internal.
 *
 * Streams are the driver's; NCCL takes its device from the context that is current. */
#ifndef ROTA_EXEC_NCCL_NCCL_API_H
#define ROTA_EXEC_NCCL_NCCL_API_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* Communicators that don't block, with a config of the form below, are complete from 2.18 on. As ncclGetVersion
 * says it. */
#define ROTA_NCCL_NEEDED 21800

typedef struct ncclComm *rota_nccl_comm;
typedef struct CUstream_st *rota_nccl_stream;

enum { ROTA_NCCL_ID_BYTES = 128 };
typedef struct rota_nccl_id {
    char bytes[ROTA_NCCL_ID_BYTES];
} rota_nccl_id;

typedef int rota_nccl_result; /* ncclResult_t */
enum { ROTA_NCCL_SUCCESS = 0, ROTA_NCCL_IN_PROGRESS = 7 };

enum { ROTA_NCCL_I32 = 2, ROTA_NCCL_U32 = 3, ROTA_NCCL_F16 = 6, ROTA_NCCL_F32 = 7, ROTA_NCCL_BF16 = 9 };
enum { ROTA_NCCL_SUM = 0, ROTA_NCCL_PRODUCT = 1, ROTA_NCCL_MAX = 2, ROTA_NCCL_MIN = 3, ROTA_NCCL_MEAN = 4 };

/* ncclConfig_t of 2.18, which later ones take: they tell by `version` what it has not. */
typedef struct rota_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
} rota_nccl_config;
#define ROTA_NCCL_MAGIC 0xcafebeefu
#define ROTA_NCCL_UNSET INT32_MIN
/* All as NCCL has it by itself, but whether calls block. */
#define ROTA_NCCL_CONFIG(blocks)                                                                             \
    (rota_nccl_config) {                                                                                     \
        .size = sizeof(rota_nccl_config), .magic = ROTA_NCCL_MAGIC, .version = ROTA_NCCL_NEEDED,             \
        .blocking = (blocks), .cga_cluster_size = ROTA_NCCL_UNSET, .min_ctas = ROTA_NCCL_UNSET,              \
        .max_ctas = ROTA_NCCL_UNSET, .split_share = ROTA_NCCL_UNSET                                          \
    }

/* Name without "nccl", result, parameters. */
#define ROTA_NCCL_FUNCTIONS(X)                                                                               \
    X(GetVersion, rota_nccl_result, (int *))                                                                 \
    X(GetErrorString, const char *, (rota_nccl_result))                                                      \
    X(GetLastError, const char *, (rota_nccl_comm))                                                          \
    X(GetUniqueId, rota_nccl_result, (rota_nccl_id *))                                                       \
    X(CommInitRankConfig, rota_nccl_result,                                                                  \
      (rota_nccl_comm *, int ranks, rota_nccl_id, int rank, rota_nccl_config *))                             \
    X(CommSplit, rota_nccl_result,                                                                           \
      (rota_nccl_comm, int color, int key, rota_nccl_comm *, rota_nccl_config *))                            \
    X(CommGetAsyncError, rota_nccl_result, (rota_nccl_comm, rota_nccl_result *))                             \
    X(CommFinalize, rota_nccl_result, (rota_nccl_comm))                                                      \
    X(CommDestroy, rota_nccl_result, (rota_nccl_comm))                                                       \
    X(CommAbort, rota_nccl_result, (rota_nccl_comm))                                                         \
    X(AllReduce, rota_nccl_result,                                                                           \
      (const void *, void *, size_t, int type, int reduction, rota_nccl_comm, rota_nccl_stream))             \
    X(ReduceScatter, rota_nccl_result,                                                                       \
      (const void *, void *, size_t, int type, int reduction, rota_nccl_comm, rota_nccl_stream))             \
    X(AllGather, rota_nccl_result,                                                                           \
      (const void *, void *, size_t, int type, rota_nccl_comm, rota_nccl_stream))                            \
    X(Broadcast, rota_nccl_result,                                                                           \
      (const void *, void *, size_t, int type, int root, rota_nccl_comm, rota_nccl_stream))                  \
    X(Send, rota_nccl_result, (const void *, size_t, int type, int peer, rota_nccl_comm, rota_nccl_stream))  \
    X(Recv, rota_nccl_result, (void *, size_t, int type, int peer, rota_nccl_comm, rota_nccl_stream))        \
    X(GroupStart, rota_nccl_result, (void))                                                                  \
    X(GroupEnd, rota_nccl_result, (void))

typedef struct rota_nccl_api {
    int version;
#define ROTA_NCCL_MEMBER(name, result, parameters) result(*name) parameters;
    ROTA_NCCL_FUNCTIONS(ROTA_NCCL_MEMBER)
#undef ROTA_NCCL_MEMBER
} rota_nccl_api;

/* Finds "ncclName"; NULL where it is missing. */
typedef void *(*rota_nccl_find_fn)(void *user, const char *name);

/* Fills the table out of an open library. UNSUPPORTED: a function is missing (named), or it is older than
 * ROTA_NCCL_NEEDED (both versions named). */
rota_status rota_nccl_api_fill(const char *library, rota_nccl_find_fn find, void *user,
                               rota_nccl_api *out_api);
/* Opens the library of this name, and fills the table. UNSUPPORTED, with the reason. */
rota_status rota_nccl_api_load(const char *library, rota_nccl_api *out_api);
/* That of this process: libnccl.so.2, opened once and kept. Any thread; may block in the dynamic linker. */
rota_status rota_nccl_api_get(const rota_nccl_api **out_api);
/* Which algorithm and protocol the process's environment pins for NCCL (NCCL_ALGO, NCCL_PROTO), as a number that is not
 * 0. NCCL has no such option of a communicator. UNSUPPORTED: it pins none, or names several. */
rota_status rota_nccl_pins(uint32_t *out_pinned);
/* For tests: from now on rota_nccl_api_get gives `api`; NULL: the process's again. Borrowed. */
void rota_nccl_api_use(const rota_nccl_api *api);

#endif
