/* Opening the CUDA libraries. */
#include "ops/cuda/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define TOOLKIT "/usr/local/cuda/lib64/"

static const char *const driver_files[] = {"libcuda.so.1", NULL};
static const char *const cublaslt_files[] = {"libcublasLt.so.13", TOOLKIT "libcublasLt.so.13",
                                             "libcublasLt.so.12", TOOLKIT "libcublasLt.so.12", NULL};
static const char *const cudnn_files[] = {"libcudnn.so.9", TOOLKIT "libcudnn.so.9", NULL};
static const char *const nvrtc_files[] = {"libnvrtc.so.13", TOOLKIT "libnvrtc.so.13", "libnvrtc.so.12",
                                          TOOLKIT "libnvrtc.so.12", NULL};

static rota_cuda_library libraries[ROTA_CUDA_LIBRARY_COUNT] = {
    [ROTA_CUDA_LIBRARY_DRIVER] = {.name = "NVIDIA driver", .lost = "all CUDA devices", .files = driver_files},
    [ROTA_CUDA_LIBRARY_CUBLASLT] =
        {.name = "cuBLASLt",
         .lost = "its matrix products: rota's own kernels take them, slower where they "
                 "aren't written for the device",
         .files = cublaslt_files},
    [ROTA_CUDA_LIBRARY_CUDNN] =
        {.name = "cuDNN",
         .lost = "attention of 16-bit floats, and convolutions: rota's own kernels take them, several times "
                 "slower",
         .files = cudnn_files},
    [ROTA_CUDA_LIBRARY_NVRTC] = {.name = "NVRTC",
                                 .lost = "fusion on CUDA devices: elementwise nodes run one by one, and what "
                                         "they hand on goes through memory",
                                 .files = nvrtc_files},
};

static void open_library(rota_cuda_library *library) {
    for (const char *const *file = library->files; *file; file++) {
        library->handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
        if (library->handle) {
            library->file = *file;
            library->reason[0] = 0;
            return;
        }
        /* The first is the one that the system would find: its reason says most. */
        const char *reason = file == library->files ? dlerror() : NULL;
        if (reason) strncpy(library->reason, reason, sizeof library->reason - 1);
    }
}

#define OPEN(kind)                                                                                           \
    static void open_##kind(void) {                                                                          \
        open_library(&libraries[ROTA_CUDA_LIBRARY_##kind]);                                                  \
    }
OPEN(DRIVER)
OPEN(CUBLASLT)
OPEN(CUDNN)
OPEN(NVRTC)

const rota_cuda_library *rota_cuda_library_get(rota_cuda_library_kind kind) {
    static pthread_once_t once[ROTA_CUDA_LIBRARY_COUNT] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                                           PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};
    static void (*const open[])(void) = {open_DRIVER, open_CUBLASLT, open_CUDNN, open_NVRTC};
    pthread_once(&once[kind], open[kind]);
    return &libraries[kind];
}

bool rota_cuda_library_find(rota_cuda_library_kind kind, const char *name, void *out_function,
                            size_t size_bytes) {
    const rota_cuda_library *library = rota_cuda_library_get(kind);
    void *address = library->handle ? dlsym(library->handle, name) : NULL;
    /* A function pointer out of a data pointer: what dlsym needs and ISO C has no cast for. */
    memcpy(out_function, &address, size_bytes);
    return address != NULL;
}
