/* The loss of a row of scores with its gradient in their place, on CUDA devices alone (fuse_loss.c).
 * Internal. */
#ifndef ROTA_OPS_CUDA_LOSS_CUDA_H
#define ROTA_OPS_CUDA_LOSS_CUDA_H

#include "graph/graph.h"
#include "ops/cuda/loss_params.h"

/* ---- cross_entropy_in_place, with rota_cross_entropy_params: logits:READWRITE, labels:READ, losses:WRITE,
 * lse:WRITE. What cross_entropy does, and then cross_entropy_backward to the place of the logits, with a
 * dloss of 1 and the inverse that cross_entropy_mean gives. ---- */
extern const rota_kernel rota_cuda_cross_entropy_in_place;
/* ---- cross_entropy_piece, with rota_cuda_loss_piece_params: the same of rows [first, first + count), whose
 * logits its operand begins with; the other operands, and the labels that are counted, are those of all rows.
 * ---- */
extern const rota_kernel rota_cuda_cross_entropy_piece;

/* Rows of whole vectors of 16-bit scores at a multiple of 16 bytes, two of which a multiprocessor has room
 * for. */
bool rota_cuda_loss_takes(const rota_cross_entropy_params *params, const rota_access *logits,
                          const rota_cuda_target *target);

#endif
