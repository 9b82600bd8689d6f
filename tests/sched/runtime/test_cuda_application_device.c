/* rota in a CUDA context of the application's, with memory from its allocator, on a CUDA device. Skipped where there is
 * none. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "base/atomic.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/vulkan_application.h"

#ifdef ROTA_HAVE_CUDA
#include "exec/cuda/cuda_api.h"

#define PATIENCE_NS 20000000000u

typedef struct pool {
    const rota_cuda_api *cu;
    _Atomic uint64_t live, given;
} pool;

static void *take(void *user, uint64_t size_bytes, void *stream) {
    pool *own = user;
    CUdeviceptr memory = 0;
    if (!stream || own->cu->MemAlloc(&memory, size_bytes) != CUDA_SUCCESS) return NULL;
    (void)ra_fetch_add_relaxed(&own->live, 1);
    (void)ra_fetch_add_relaxed(&own->given, 1);
    return (void *)(uintptr_t)memory;
}

static void give(void *user, void *memory, uint64_t size_bytes, void *stream) {
    pool *own = user;
    (void)size_bytes, (void)stream;
    if (own->cu->MemFree((CUdeviceptr)(uintptr_t)memory) == CUDA_SUCCESS)
        (void)ra_fetch_sub_release(&own->live, 1);
}

typedef CUresult(CUDAAPI *create_fn)(CUcontext *, unsigned, CUdevice);
typedef CUresult(CUDAAPI *destroy_fn)(CUcontext);

static void *symbol(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

static void run(CUcontext context, pool *own) {
    rota_runtime *runtime;
    rota_device *device, *beside;
    rota_cuda_context given = ROTA_CUDA_CONTEXT(.context = context, .user = own);
    if (own) given.allocate = take;
    if (own) given.free = give;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &runtime));
    assert_ok(rota_device_open_cuda(runtime, &given, &device));
    assert_ok(rota_device_open(runtime, "cuda:0", &beside));
    for (uint32_t d = 0; d < 2; d++) {
        adding sums = adding_make(d ? beside : device, 1, 2);
        for (uint32_t i = 0; i < 100; i++) adding_submit(&sums, NULL);
        adding_expect(&sums, 201);
        adding_release(&sums);
    }
    assert_ok(rota_runtime_close(runtime, 0));
    if (!own) return;
    assert_true(ra_load_relaxed(&own->given) > 0);
    assert_int_equal(ra_load_acquire(&own->live), 0);
}

static void contexts(void **state) {
    (void)state;
    pool own = {0};
    CUdevice handle;
    CUcontext context, popped;
    create_fn create = NULL;
    destroy_fn destroy = NULL;
    if (rota_cuda_api_get(&own.cu) != ROTA_OK || own.cu->Init(0) != CUDA_SUCCESS ||
        own.cu->DeviceGet(&handle, 0) != CUDA_SUCCESS) {
        printf("skipped: no CUDA device\n");
        skip();
    }
    memcpy(&create, &(void *){symbol("cuCtxCreate_v2")}, sizeof create);
    memcpy(&destroy, &(void *){symbol("cuCtxDestroy_v2")}, sizeof destroy);
    assert_true(create && destroy);
    run(NULL, NULL);
    run(NULL, &own);
    assert_int_equal(create(&context, 0, handle), CUDA_SUCCESS);
    assert_int_equal(own.cu->CtxPopCurrent(&popped), CUDA_SUCCESS);
    run(context, NULL);
    run(context, &own); /* which is still there */
    assert_int_equal(destroy(context), CUDA_SUCCESS);
    printf("a context of the application's, and its allocator: %llu blocks\n",
           (unsigned long long)ra_load_relaxed(&own.given));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(contexts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    return 77; /* this build has no CUDA executor */
}
#endif
