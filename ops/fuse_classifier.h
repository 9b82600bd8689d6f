/* A pattern that fusion looks for: a classifier, with its loss. Takes time linear in nodes and
 * accesses, and an index that was made of the graph as it is. Internal. */
#ifndef ROTA_OPS_FUSE_CLASSIFIER_H
#define ROTA_OPS_FUSE_CLASSIFIER_H

#include <stdint.h>
#include "ops/fuse_index.h"

/* A cross entropy that rota_fuse_losses made one node, whose scores, at least least_bytes of them, come from a
 * product and go into the two that are its gradients, and nowhere else: on CUDA devices that have cuBLASLt one
 * node, which has the scores of some rows at a time, at most piece_bytes. */
rota_status rota_fuse_classifiers(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t least_bytes,
                                  uint64_t piece_bytes);

/* Rows of a piece whose scores take at most piece_bytes, if eight do: a multiple of 8, and of 128 where so many
 * fit. `rows`: all fit. */
uint32_t rota_cuda_classifier_piece(uint32_t rows, uint64_t row_bytes, uint64_t piece_bytes);

#endif
