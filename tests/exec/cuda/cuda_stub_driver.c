/* The stand-in for the CUDA driver as a library of the driver's name, for programs that are not linked with it: those
 * of Python's tests (python/tests/stub_driver.py). It has two devices and the built-in kernels, starts when it is first
 * asked for something, and runs to the process's end. */
#include "tests/exec/cuda/cuda_stub.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "ops/kernels.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- What the library and the package ask the driver's library for ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) {
    static const char *const kernels[] = {
#define KERNEL(name, ...) #name,
#include "ops/kernels.def"
    };
    cuda_stub_start(11, 2);
    for (uint32_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const rota_kernel *kernel = rota_kernel_find(kernels[i]);
        if (kernel && kernel->cuda.entry && kernel->cpu.fn) cuda_stub_kernel(kernel);
    }
}

/* The stand-in has streams that are gone with all their work alone, so that an address is a name. */
static CUresult CUDAAPI stream_id(CUstream stream, unsigned long long *out) {
    *out = (uintptr_t)stream;
    return CUDA_SUCCESS;
}

/* A function as a data pointer, for which ISO C has no cast. */
static void *address_of(void (*function)(void)) {
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

static void *function_of(const char *name) {
    if (strcmp(name, "StreamGetId") == 0) return address_of((void (*)(void))stream_id);
    for (uint32_t i = 0; cuda_stub_name(i); i++) {
        if (strcmp(cuda_stub_name(i), name) != 0) continue;
        void *function; /* the table is functions alone, in the order of their names */
        memcpy(&function, (const char *)cuda_stub_api() + i * sizeof function, sizeof function);
        return function;
    }
    return NULL;
}

EXPORT CUresult CUDAAPI cuDriverGetVersion(int *out_version) {
    (void)pthread_once(&once, start);
    return cuda_stub_api()->DriverGetVersion(out_version);
}

EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                            CUdriverProcAddressQueryResult *out_found) {
    (void)version, (void)flags;
    (void)pthread_once(&once, start);
    *out = strncmp(name, "cu", 2) == 0 ? function_of(name + 2) : NULL;
    *out_found = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

/* ---- What tests ask it for ---- */

/* What a stream waits for until a test opens it. */
typedef struct gate {
    CUexternalSemaphore semaphore;
    _Atomic uint64_t *word;
} gate;

/* NULL: none could be made. The context is current, here and below. */
EXPORT gate *stub_gate_new(void) {
    gate *made = calloc(1, sizeof *made);
    const int fd = memfd_create("gate", 0);
    if (!made || fd < 0 || ftruncate(fd, sizeof(uint64_t)) != 0) return NULL;
    made->word = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC from = {
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = fd};
    if (made->word == MAP_FAILED ||
        cuda_stub_api()->ImportExternalSemaphore(&made->semaphore, &from) != CUDA_SUCCESS)
        return NULL;
    return made;
}

/* What is put on the stream from now on waits for the gate. */
EXPORT CUresult stub_gate_hold(const gate *own, CUstream stream) {
    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params.fence.value = 1};
    return cuda_stub_api()->WaitExternalSemaphoresAsync(&own->semaphore, &params, 1, stream);
}

EXPORT void stub_gate_open(const gate *own) {
    atomic_store(own->word, 1);
}

/* Once no stream waits for it. */
EXPORT void stub_gate_free(gate *own) {
    (void)cuda_stub_api()->DestroyExternalSemaphore(own->semaphore);
    (void)munmap((void *)(uintptr_t)own->word, sizeof(uint64_t));
    free(own);
}

EXPORT void stub_pause(bool paused) {
    cuda_stub_pause(paused);
}

EXPORT uint32_t stub_violations(char *out_text, size_t text_bytes) {
    return cuda_stub_violations(out_text, text_bytes);
}
