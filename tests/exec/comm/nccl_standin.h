/* A stand-in for NCCL between threads of one process, over the CUDA stand-in (cuda_stub.h), so that what rota does with
 * it is tested where there is no GPU. It believes nothing but what NCCL promises: calls on a communicator come from one
 * thread at a time; one that does not block is for opening and its end, and has a child, which does, and has its abort
 * flag; what is posted there is on its stream when the call returns; it runs when its turn on the stream has come, and
 * ends when all ranks' has, or after an abort, and then with bytes that mean nothing. */
#ifndef ROTA_TESTS_NCCL_STANDIN_H
#define ROTA_TESTS_NCCL_STANDIN_H

#include <stdbool.h>
#include "exec/nccl/nccl_api.h"

enum { NCCL_STANDIN_RANKS = 8 };

/* Puts it in NCCL's position, fresh; the CUDA stand-in was started. */
void nccl_standin_start(void);
/* Takes it out again; the CUDA stand-in was stopped. */
void nccl_standin_stop(void);
const rota_nccl_api *nccl_standin_api(void);

/* Communicators alive; violations so far, and the first one's sentence. */
uint32_t nccl_standin_alive(void);
uint32_t nccl_standin_violations(char *out_text, size_t text_bytes);
/* Collectives that were put on streams, on all ranks together. */
uint64_t nccl_standin_posted(void);
/* Collectives that ended well, on all ranks together. */
uint64_t nccl_standin_done(void);
/* Aborts of communicators that were not closed. */
uint32_t nccl_standin_aborts(void);

/* The next call of nccl<name>, on any rank, fails with this. */
void nccl_standin_fail(const char *name, rota_nccl_result result);
/* This rank's kernels don't get on any more: as of a rank that is stopped. UINT32_MAX: none. */
void nccl_standin_stop_rank(uint32_t rank);
/* This rank is told of an error as soon as it has something under way. UINT32_MAX: none. */
void nccl_standin_async_error(uint32_t rank);
/* This rank's calls do not return before its communicator's parent is aborted. UINT32_MAX: none. */
void nccl_standin_hold_rank(uint32_t rank);
/* How many it has kept so. */
uint32_t nccl_standin_held(void);
/* Opening does not come to its end. */
void nccl_standin_never_opens(bool never);
/* An abort takes so long to reach what is on the device. */
void nccl_standin_abort_takes(uint64_t ns);
/* What a rank has sent is on its way for so long after it closes. */
void nccl_standin_finalize_takes(uint64_t ns);
/* The version that it says it is of. */
void nccl_standin_version(int version);

#endif
