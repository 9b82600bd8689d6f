/* Dividing a Hopper product's last round of tiles along the sum (matmul_shares_sm90.cuh). Internal; not installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_SHARES_SM90_H
#define ROTA_OPS_CUDA_MATMUL_SHARES_SM90_H

#include <stdbool.h>
#include "ops/cuda/matmul_sm90_tiles.h"
#include "ops/kernel_params.h"

typedef struct rota_matmul_shares {
    uint32_t blocks; /* launched */
    uint32_t own;    /* stages of a stretch of a shared tile's sum */
    double rounds;   /* how many whole tiles' time it takes, the parts' ways through memory counted in */
} rota_matmul_shares;

/* How the product is divided among the multiprocessors by tiles of rows x columns; false: it can't be, or there is
 * nothing to be gained since the last round is full, or nearly. */
bool rota_matmul_share(const rota_matmul_params *params, uint32_t rows, uint32_t columns,
                       uint32_t multiprocessors, rota_matmul_shares *out_shares);

/* Bytes of the parts of blocks' tiles, and of the words behind them that say which are there. */
uint64_t rota_matmul_shares_bytes(uint32_t blocks, uint32_t rows, uint32_t columns);
uint32_t rota_matmul_shares_words(uint32_t blocks);

/* The row of the image's words for launches whose parts are at this address: whoever has that memory to work with is
 * alone with it, and so with the row. ROTA_MATMUL_SHARES_ROWS: all rows are other addresses', and the words are to be
 * memory that is cleared before each launch. Any thread. */
uint32_t rota_matmul_shares_row(uint64_t address);

#endif
