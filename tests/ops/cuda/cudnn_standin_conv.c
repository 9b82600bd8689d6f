/* See cudnn_standin.h. */
#include "tests/ops/cuda/cudnn_standin.h"

#include <stdlib.h>

#define EACH(index, shape)                                                                                   \
    for (index[0] = 0; index[0] < (shape)[0]; index[0]++)                                                    \
        for (index[1] = 0; index[1] < (shape)[1]; index[1]++)                                                \
            for (index[2] = 0; index[2] < (shape)[2]; index[2]++)                                            \
                for (index[3] = 0; index[3] < (shape)[3]; index[3]++)

static int64_t offset_of(const cudnn_standin_tensor *t, const int64_t index[4]) {
    int64_t offset = 0;
    for (int i = 0; i < 4; i++) offset += index[i] * t->stride[i];
    return offset;
}

static int64_t element_of(const cudnn_standin_tensor *t, const int64_t index[4]) {
    return ((index[0] * t->shape[1] + index[1]) * t->shape[2] + index[2]) * t->shape[3] + index[3];
}

const char *cudnn_standin_convolve(cudnn_standin_result result, const cudnn_standin_window *window,
                                   const cudnn_standin_tensor *x, const cudnn_standin_tensor *w,
                                   const cudnn_standin_tensor *y) {
    const cudnn_standin_tensor *of = result == STANDIN_Y ? y : result == STANDIN_X ? x : w;
    const int64_t groups = x->shape[1] / w->shape[1], in_group = y->shape[1] / groups;
    if (x->shape[1] % w->shape[1] != 0 || y->shape[1] != w->shape[0] || y->shape[1] % groups != 0 ||
        x->shape[0] != y->shape[0])
        return "a convolution of other channels";
    for (int i = 0; i < 2; i++)
        if (y->shape[2 + i] !=
            (x->shape[2 + i] + 2 * window->padding[i] - window->dilation[i] * (w->shape[2 + i] - 1) - 1) /
                    window->stride[i] +
                1)
            return "a convolution of another size";
    const int64_t count = of->shape[0] * of->shape[1] * of->shape[2] * of->shape[3];
    double *sums = calloc((size_t)count, sizeof *sums);
    if (!sums) return "no memory";
    int64_t p[4], k[4] = {0};
    EACH(p, y->shape)
    for (k[1] = 0; k[1] < w->shape[1]; k[1]++)
        for (k[2] = 0; k[2] < w->shape[2]; k[2]++)
            for (k[3] = 0; k[3] < w->shape[3]; k[3]++) {
                k[0] = p[1];
                const int64_t q[4] = {
                    p[0], p[1] / in_group * w->shape[1] + k[1],
                    p[2] * window->stride[0] + k[2] * window->dilation[0] - window->padding[0],
                    p[3] * window->stride[1] + k[3] * window->dilation[1] - window->padding[1]};
                if (q[2] < 0 || q[3] < 0 || q[2] >= x->shape[2] || q[3] >= x->shape[3]) continue;
                const double of_x =
                    result == STANDIN_X ? 1 : cudnn_standin_load(x->descriptor, offset_of(x, q));
                const double of_w =
                    result == STANDIN_W ? 1 : cudnn_standin_load(w->descriptor, offset_of(w, k));
                const double of_y =
                    result == STANDIN_Y ? 1 : cudnn_standin_load(y->descriptor, offset_of(y, p));
                sums[result == STANDIN_Y   ? element_of(y, p)
                     : result == STANDIN_X ? element_of(x, q)
                                           : element_of(w, k)] += of_x * of_w * of_y;
            }
    EACH(p, of->shape) cudnn_standin_store(of->descriptor, offset_of(of, p), sums[element_of(of, p)]);
    free(sums);
    return NULL;
}
