/* What other ops' gradients know of a norm's. Internal. */
#ifndef ROTA_OPS_OP_NORM_H
#define ROTA_OPS_OP_NORM_H

#include <stdint.h>

/* Rows whose sums make one partial gradient of a norm's weights. */
uint64_t rota_norm_chunk(uint64_t rows);

/* The longest rows whose columns' sums a norm's gradient may make for another op (fuse_norm.c). */
#define ROTA_NORM_SUMS_COLUMNS_MOST 1024u

#endif
