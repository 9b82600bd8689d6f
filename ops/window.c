/* Rules of sizes of the ops whose windows slide over height and width. */
#include "ops/window.h"

#include "base/divide.h"
#include "ops/custom.h"

/* Kernels count positions along an axis, those in the padding too, in 31 bits. */
#define LARGEST ((uint64_t)INT32_MAX)

static const char *const axis_names[2] = {"height", "width"};

uint64_t rota_window_reach(uint64_t extent, uint32_t dilation) {
    return (extent - 1) * dilation + 1;
}

rota_status rota_window_image(const rota_op_window *window, rota_dtype dtype, uint64_t batch,
                              uint64_t channels, const uint64_t size[2], rota_tensor *out) {
    if (window->channels_last)
        return rota_tensor_of(NULL, 0, dtype, ROTA_SHAPE(batch, size[0], size[1], channels), out);
    return rota_tensor_of(NULL, 0, dtype, ROTA_SHAPE(batch, channels, size[0], size[1]), out);
}

static rota_status check_pair(const rota_op_use *use, const char *name, const uint32_t *pair,
                              uint64_t least) {
    for (uint32_t i = 0; i < 2; i++)
        if (pair[i] < least || pair[i] > LARGEST)
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s along %s is %u; expected %llu to %llu",
                                name, axis_names[i], pair[i], (unsigned long long)least,
                                (unsigned long long)LARGEST);
    return ROTA_OK;
}

rota_status rota_window_check(const rota_op_use *use) {
    const rota_op_window *w = &use->attributes.window;
    ROTA_TRY(check_pair(use, "stride", w->stride, 1));
    ROTA_TRY(check_pair(use, "dilation", w->dilation, 1));
    return check_pair(use, "padding", w->padding, 0);
}

rota_status rota_window_count(const rota_op_use *use, uint32_t axis, uint64_t size, uint64_t extent,
                              bool ceil_mode, uint64_t *out_count) {
    const rota_op_window *w = &use->attributes.window;
    const uint64_t padding = w->padding[axis], stride = w->stride[axis], padded = size + 2 * padding;
    if (extent == 0 || extent > LARGEST)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "a window of %llu elements along %s; expected 1 to %llu",
                            (unsigned long long)extent, axis_names[axis], (unsigned long long)LARGEST);
    const uint64_t reach = rota_window_reach(extent, w->dilation[axis]);
    if (size > LARGEST || padded > LARGEST)
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT,
            "%s %llu with padding of %llu on both sides; expected at most %llu elements in all",
            axis_names[axis], (unsigned long long)size, (unsigned long long)padding,
            (unsigned long long)LARGEST);
    if (reach > padded)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "a window of %llu with dilation %u reaches over %llu elements along %s, of %llu "
                            "with padding of %llu on both "
                            "sides; expected at most as many as there are",
                            (unsigned long long)extent, w->dilation[axis], (unsigned long long)reach,
                            axis_names[axis], (unsigned long long)size, (unsigned long long)padding);
    *out_count = (padded - reach) / stride + 1;
    /* A window that begins behind x and the padding before it would see nothing. */
    if (ceil_mode && (padded - reach) % stride != 0 && *out_count * stride < size + padding) ++*out_count;
    return ROTA_OK;
}

/* Pieces of work for a large device. */
#define PIECES 512
/* A chunk is at least so long, and at most as many turns as every device's loops take. */
#define CHUNK_LEAST 256
#define CHUNK_MOST (1u << 18)

uint32_t rota_conv_chunk(const rota_conv_params *p) {
    const uint64_t positions = (uint64_t)p->batch * p->out[0] * p->out[1];
    const uint64_t columns = (uint64_t)p->in_channels * p->window[0] * p->window[1];
    const uint64_t tiles =
        p->groups * rota_divide_up(p->out_channels, ROTA_CONV_TILE) * rota_divide_up(columns, ROTA_CONV_TILE);
    uint64_t chunk = rota_divide_up(positions, rota_divide_up(PIECES, tiles));
    chunk = chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk > CHUNK_MOST ? CHUNK_MOST : chunk;
    return (uint32_t)(chunk < positions ? chunk : positions);
}
