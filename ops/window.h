/* What the ops whose windows slide over height and width share: their rules of sizes. Internal. */
#ifndef ROTA_OPS_WINDOW_H
#define ROTA_OPS_WINDOW_H

#include "ops/table.h"

/* Images are [batch, channels, height, width], or, with channels_last, [batch, height, width, channels]; weights and
 * their window have their first axis first, and the second where channels are. The axis of channels, and the first of
 * the two that windows slide along. */
static inline uint32_t rota_window_channels(const rota_op_window *window) {
    return window->channels_last ? 3 : 1;
}
static inline uint32_t rota_window_first(const rota_op_window *window) {
    return window->channels_last ? 1 : 2;
}
/* A tensor without a buffer of so many images and channels of such planes. */
rota_status rota_window_image(const rota_op_window *window, rota_dtype dtype, uint64_t batch,
                              uint64_t channels, const uint64_t size[2], rota_tensor *out);

/* Elements that a window of `extent` reaches over, the first and the last included; extent is not 0. */
uint64_t rota_window_reach(uint64_t extent, uint32_t dilation);
/* Every number of the op's attributes is one that kernels count with: strides and dilations at least 1, all at most
 * 2^31 - 1. */
rota_status rota_window_check(const rota_op_use *use);
/* How many windows of `extent` along axis `axis` (0: height) slide over `size` elements of x, with padding as the op's
 * attributes say; an error where none does, or where there are more elements with padding than 2^31 - 1. */
rota_status rota_window_count(const rota_op_use *use, uint32_t axis, uint64_t size, uint64_t extent,
                              bool ceil_mode, uint64_t *out_count);
/* Products that x and dy make of a weight's gradient, in chunks of so many positions (n, p): some for each of a large
 * device's workers, and not so many that adding them up is work again. */
uint32_t rota_conv_chunk(const rota_conv_params *params);

#endif
