/* What the stand-in for cuDNN has in files of their own: convolutions, and what each descriptor must have. */
#ifndef ROTA_TESTS_CUDNN_STANDIN_H
#define ROTA_TESTS_CUDNN_STANDIN_H

#include <cudnn.h>
#include <stdint.h>

#define NO_NAME ((cudnnBackendAttributeName_t)-1)
/* The attributes that one of this type is not complete without; NO_NAME ends them. */
const cudnnBackendAttributeName_t *cudnn_standin_wanted(cudnnBackendDescriptorType_t type);

typedef struct cudnn_standin_tensor {
    void *descriptor;
    const int64_t *shape, *stride; /* four axes */
} cudnn_standin_tensor;

double cudnn_standin_load(const void *descriptor, int64_t offset);
void cudnn_standin_store(void *descriptor, int64_t offset, double value);

typedef struct cudnn_standin_window {
    const int64_t *stride, *padding, *dilation;
} cudnn_standin_window;

typedef enum cudnn_standin_result { STANDIN_Y, STANDIN_X, STANDIN_W } cudnn_standin_result;

/* Computes one of x, w and y of the other two, in doubles; NULL, or what is wrong with the shapes. */
const char *cudnn_standin_convolve(cudnn_standin_result result, const cudnn_standin_window *window,
                                   const cudnn_standin_tensor *x, const cudnn_standin_tensor *w,
                                   const cudnn_standin_tensor *y);

#endif
