/* The kernel conv2d_weight_gradient: its operands, and what it is made of where no library does all of it.
 * Internal; not installed. */
#ifndef ROTA_OPS_CONV_H
#define ROTA_OPS_CONV_H

#include "graph/kernel.h"
#include "ops/window_params.h"

/* Places of its operands. A library leaves partial as it was, which nobody reads. */
enum {
    ROTA_CONV_WEIGHT_X,
    ROTA_CONV_WEIGHT_DY,
    ROTA_CONV_WEIGHT_PARTIAL,
    ROTA_CONV_WEIGHT_DW,
    ROTA_CONV_WEIGHT_OPERANDS
};

/* How many chunks of positions conv2d_backward_weight has; params.chunk is there. */
uint64_t rota_conv_chunks(const rota_conv_params *params);

/* The two kernels that together do it. */
uint32_t rota_conv_weight_parts(const rota_conv_params *params, rota_kernel_part *parts);

#endif
