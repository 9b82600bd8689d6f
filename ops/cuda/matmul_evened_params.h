/* Moving a product's operands to even rows, as host and kernel both have it. C and CUDA C. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_EVENED_PARAMS_H
#define ROTA_OPS_CUDA_MATMUL_EVENED_PARAMS_H

#include <stdint.h>
#include "ops/cuda/matmul_sm90_tiles.h"

#define ROTA_MATMUL_MOVE_THREADS 256
#define ROTA_MATMUL_MOVE_ROWS 4 /* that a thread moves a chunk of: so many copies are on their way at once */
#define ROTA_MATMUL_EVEN_BYTES 16 /* between rows, as the copy engine needs it: a multiple of this */
#define ROTA_MATMUL_EVEN 8        /* ... in elements of 16 bits; a chunk */

/* matmul_move: a:READ, even a:WRITE, b:READ, even b:WRITE. Rows of `length` 16-bit elements, `ld` apart, become rows
 * `even_ld` apart; what lies between those is undefined. `rows` is 0 of an operand that stays, which is not touched. */
typedef struct rota_matmul_moved {
    uint32_t rows, length, ld, even_ld;
    uint32_t blocks; /* that move it: those of a come first */
} rota_matmul_moved;
typedef struct rota_matmul_move_params {
    rota_matmul_moved of[2];
} rota_matmul_move_params;

#endif
