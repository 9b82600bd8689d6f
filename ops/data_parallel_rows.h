/* Gradients of tables, of which an embedding adds a few rows: all ranks' rows, in the place of a sum of whole tables.
 * Internal. */
#ifndef ROTA_OPS_DATA_PARALLEL_ROWS_H
#define ROTA_OPS_DATA_PARALLEL_ROWS_H

#include "ops/gradient.h"
#include "ops/ops_collective.h"

/* An embedding whose rows go to all ranks. */
typedef struct rota_row_exchange {
    const rota_tape_use *used;
    uint64_t use; /* its number */
    uint32_t parameter;
    rota_tensor words; /* of all ranks, one after the other: rows, and their indices; none yet, or ever */
} rota_row_exchange;

/* Bytes of all ranks' rows, with their indices, that a use adds to a contiguous table's gradient; 0: it is no
 * embedding, or of no rows. */
uint64_t rota_rows_bytes(const rota_op_use *use, const rota_communicator *communicator);
/* In the place of the gradient of the embedding, which the tape is at: its rows and their index go to all ranks, a part
 * of their number each if what is wanted is a mean. */
rota_status rota_rows_gather(rota_tape *tape, rota_communicator *communicator, bool sum,
                             rota_row_exchange *exchange);
/* They are added to the table's gradient, on all ranks in the same order. */
rota_status rota_rows_add(rota_tape *tape, const rota_communicator *communicator,
                          const rota_row_exchange *exchange);

#endif
