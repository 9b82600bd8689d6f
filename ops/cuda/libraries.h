/* The libraries that CUDA kernels of ops can do with or without, opened at run time: which file answered, and
 * what is lost where none did. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_LIBRARIES_H
#define ROTA_OPS_CUDA_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum rota_cuda_library_kind {
    ROTA_CUDA_LIBRARY_DRIVER,
    ROTA_CUDA_LIBRARY_CUBLASLT,
    ROTA_CUDA_LIBRARY_CUDNN,
    ROTA_CUDA_LIBRARY_NVRTC,
    ROTA_CUDA_LIBRARY_COUNT
} rota_cuda_library_kind;

typedef struct rota_cuda_library {
    const char *name;         /* "cuBLASLt" */
    const char *lost;         /* what is lost without it */
    const char *const *files; /* tried in this order; NULL ends them */
    const char *file;         /* the one that was opened; NULL: none of them */
    char reason[256];         /* why the last one could not be opened; empty where one was */
    void *handle;
} rota_cuda_library;

/* Opens the library if that has not been tried; the answer lives as long as the process, and so does what was
 * opened. Any thread; the first call of each kind may block in the loader. */
const rota_cuda_library *rota_cuda_library_get(rota_cuda_library_kind kind);

/* The function of that name; NULL: the library is not there or lacks it. A function pointer of any type is
 * filled with rota_cuda_library_find(kind, name, &pointer, sizeof pointer). */
bool rota_cuda_library_find(rota_cuda_library_kind kind, const char *name, void *out_function,
                            size_t size_bytes);

#endif
