/* What ops record whose results have a length that the contents decide. Internal. */
#ifndef ROTA_OPS_OP_LENGTH_H
#define ROTA_OPS_OP_LENGTH_H

#include "ops/tape.h"

/* Elements of a chunk of an axis of n. */
uint32_t rota_length_chunk(uint64_t n);
/* There are no more than an i32 numbers; else an error. */
rota_status rota_shape_require_indices(const rota_op_use *use, uint32_t input, uint64_t n);
/* Of counts u32 [rows, ...], in each row: where those of each begin among all (made, of counts' shape), and how many
 * all are: total [rows], u32 or i32. */
rota_status rota_record_exclusive_sum(rota_tape *tape, const rota_tensor *counts, uint64_t rows,
                                      rota_tensor *out_offsets, const rota_tensor *total);

#endif
