/* rota in a CUDA context of the application's, with memory from its allocator, over the stand-in for the driver. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/devices.h" /* IWYU pragma: keep */
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kit/nap.h"

#ifdef ROTA_HAVE_CUDA
#include "exec/cuda/cuda_device.h"

enum { WORDS = 4096, BYTES = 4 * WORDS };
enum { ALIGNMENT = 256 }; /* of what the driver gives */
#define PATIENCE_NS 20000000000u

/* An allocator that knows what it gave, and on which stream. */
typedef struct pool {
    const rota_cuda_api *cu;
    pthread_mutex_t lock;
    uint64_t live, live_bytes, given;
    void *stream;
    uint32_t wrong_streams, without_context;
    uint64_t shift, largest_bytes; /* what is given is not aligned; and none that is larger, 0: any */
    const char *says;              /* by rota_fail, when it gives nothing; NULL: nothing */
    bool is_late;                  /* what is given is not to be used before its stream has come to that */
    _Atomic uint64_t ready;
    _Atomic bool stays; /* the stream does not come to it before this is changed */
} pool;

static void note_call(pool *own, void *stream) {
    CUdevice device;
    if (!own->stream) own->stream = stream;
    if (own->stream != stream || !stream) own->wrong_streams++;
    if (own->cu->CtxGetDevice(&device) != CUDA_SUCCESS) own->without_context++;
}

static void CUDAAPI become_ready(CUstream stream, CUresult result, void *user) {
    (void)stream, (void)result;
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    test_nap_ms(2);
    while (ra_load_acquire(&((pool *)user)->stays) && rota_clock_ns() < until) test_nap_ms(1);
    (void)ra_fetch_add_relaxed(&((pool *)user)->ready, 1);
}

static void *take(void *user, uint64_t size_bytes, void *stream) {
    pool *own = user;
    CUdeviceptr memory = 0;
    (void)pthread_mutex_lock(&own->lock);
    note_call(own, stream);
    if (!own->largest_bytes || size_bytes <= own->largest_bytes)
        if (own->cu->MemAlloc(&memory, size_bytes + own->shift) == CUDA_SUCCESS) {
            own->live++;
            own->given++;
            own->live_bytes += size_bytes;
        }
    if (memory && own->is_late) (void)own->cu->StreamAddCallback(stream, become_ready, own, 0);
    if (!memory && own->says) (void)rota_fail(ROTA_SYSTEM, "%s", own->says);
    (void)pthread_mutex_unlock(&own->lock);
    return memory ? (void *)(uintptr_t)(memory + own->shift) : NULL;
}

static void give(void *user, void *memory, uint64_t size_bytes, void *stream) {
    pool *own = user;
    (void)pthread_mutex_lock(&own->lock);
    note_call(own, stream);
    own->live--;
    own->live_bytes -= size_bytes;
    /* By its address: what is given back may have been given before what is given now is shifted. */
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory, base = address - address % ALIGNMENT;
    if (own->cu->MemFree(base) != CUDA_SUCCESS) own->without_context++;
    (void)pthread_mutex_unlock(&own->lock);
}

/* While rota's threads may be giving back. */
static void set_pool(pool *own, uint64_t shift, uint64_t largest_bytes) {
    (void)pthread_mutex_lock(&own->lock);
    own->shift = shift;
    own->largest_bytes = largest_bytes;
    (void)pthread_mutex_unlock(&own->lock);
}

typedef struct scene {
    pool pool;
    rota_runtime *runtime;
    rota_device *device;
    CUcontext context;
} scene;

static void begin(scene *s) {
    *s = (scene){.pool.lock = PTHREAD_MUTEX_INITIALIZER};
    cuda_stub_start(5, 2);
    s->pool.cu = cuda_stub_api();
    assert_int_equal(s->pool.cu->DevicePrimaryCtxRetain(&s->context, 1), CUDA_SUCCESS);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &s->runtime));
}

static void end(scene *s) {
    assert_ok(rota_runtime_close(s->runtime, 0));
    assert_int_equal(s->pool.live, 0);
    assert_int_equal(s->pool.live_bytes, 0);
    assert_int_equal(s->pool.wrong_streams, 0);
    assert_int_equal(s->pool.without_context, 0);
    assert_int_equal(s->pool.cu->DevicePrimaryCtxRelease(1), CUDA_SUCCESS); /* rota did not */
    cuda_stub_end_clean();
}

/* b = a by a plan, with a and b in the device's memory. */
static void copy_words(rota_device *device, uint32_t value) {
    rota_buffer *a = test_words(device, "a", WORDS, value);
    rota_buffer *b = test_buffer(rota_device_runtime(device), "b", BYTES);
    rota_plan *plan = test_plan_copy_node(device, a, b, BYTES);
    assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    test_expect_words(b, WORDS, value);
    rota_plan_release(plan);
    rota_buffer_release(a);
    rota_buffer_release(b);
}

static void opened(bool own_context, bool own_memory) {
    scene s;
    begin(&s);
    rota_cuda_context given = ROTA_CUDA_CONTEXT(.index = 1);
    if (own_context) given.context = s.context;
    if (own_context) given.index = 0; /* without meaning */
    if (own_memory) given.allocate = take;
    if (own_memory) given.free = give;
    given.user = &s.pool;
    rota_device *found, *beside;
    assert_ok(rota_device_open_cuda(s.runtime, &given, &s.device));
    assert_string_equal(rota_device_get_info(s.device)->id, "cuda:app0");
    assert_string_equal(rota_device_get_info(s.device)->name, "stand-in 1");
    assert_ok(rota_device_open(s.runtime, "cuda:app0", &found));
    assert_ptr_equal(found, s.device);
    copy_words(s.device, 7);
    assert_int_equal(s.pool.given != 0, own_memory);
    assert_ok(rota_device_open(s.runtime, "cuda:1", &beside));
    assert_ptr_not_equal(beside, s.device);
    copy_words(beside, 8);
    copy_words(s.device, 9);
    if (own_context) {
        assert_status(rota_device_open_cuda(s.runtime, &given, &found), ROTA_INVALID_ARGUMENT);
        expect_said("is open already, as device 'cuda:app0'");
    }
    end(&s);
}

static void contexts(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) opened(i & 1, i & 2);
}

/* What the allocator does not give is no memory, and what it gives is to be aligned. */
static void refused(void **state) {
    (void)state;
    scene s;
    begin(&s);
    rota_cuda_context given =
        ROTA_CUDA_CONTEXT(.context = s.context, .allocate = take, .free = give, .user = &s.pool);
    assert_ok(rota_device_open_cuda(s.runtime, &given, &s.device));
    rota_buffer *buffer = test_buffer(s.runtime, "large", 64 * BYTES);
    set_pool(&s.pool, 0, BYTES);
    assert_status(rota_buffer_prepare(buffer, s.device), ROTA_OUT_OF_MEMORY);
    expect_said("'large' asks for 1048576 bytes, which the application's allocator does not give");
    assert_null(strstr(rota_last_error(), "the pool is full"));
    s.pool.says = "the pool is full";
    assert_status(rota_buffer_prepare(buffer, s.device), ROTA_OUT_OF_MEMORY);
    const size_t length = strlen(rota_last_error()), tail = strlen(": the pool is full");
    assert_string_equal(rota_last_error() + length - tail, ": the pool is full");
    s.pool.says = NULL;
    assert_status(rota_buffer_prepare(buffer, s.device),
                  ROTA_OUT_OF_MEMORY); /* what was said is not said again */
    assert_null(strstr(rota_last_error(), "the pool is full"));
    set_pool(&s.pool, 16, 0);
    assert_status(rota_buffer_prepare(buffer, s.device), ROTA_MISALIGNED);
    expect_said("expected a multiple of 256");
    set_pool(&s.pool, 0, 0);
    assert_ok(rota_buffer_prepare(buffer, s.device));
    rota_buffer_release(buffer);
    end(&s);
}

/* As cuMemAllocAsync: the memory is another stream's to use only when that of the call has come so far. */
static void ordered(void **state) {
    (void)state;
    scene s;
    begin(&s);
    rota_cuda_context given =
        ROTA_CUDA_CONTEXT(.context = s.context, .allocate = take, .free = give, .user = &s.pool);
    s.pool.is_late = true;
    assert_ok(rota_device_open_cuda(s.runtime, &given, &s.device));
    rota_buffer *buffer = test_buffer(s.runtime, "late", BYTES);
    assert_ok(rota_buffer_prepare(buffer, s.device));
    assert_int_equal(ra_load_relaxed(&s.pool.ready), s.pool.given);
    rota_buffer_release(buffer);
    copy_words(s.device, 7);
    end(&s);
}

/* A stream that waits for what does not come, for as long as another one that waits for rota: an error, in time. */
static rota_buffer *begin_circle(scene *s) {
    begin(s);
    rota_cuda_context given =
        ROTA_CUDA_CONTEXT(.context = s->context, .allocate = take, .free = give, .user = &s->pool);
    s->pool.is_late = true;
    assert_ok(rota_device_open_cuda(s->runtime, &given, &s->device));
    ((rota_cuda_device *)s->device->exec)->bounds.stall_ns = 50000000;
    rota_buffer *buffer = test_buffer(s->runtime, "circle", BYTES);
    ra_store_release(&s->pool.stays, true);
    const uint64_t begun_ns = rota_clock_ns();
    assert_status(rota_buffer_prepare(buffer, s->device), ROTA_TIMEOUT);
    assert_true(rota_clock_ns() - begun_ns < PATIENCE_NS / 2);
    expect_said("'circle': the application's allocator gives memory that is not ready after 0.050 s");
    return buffer;
}

/* The memory is given back, and the next is had. */
static void circle(void **state) {
    (void)state;
    scene s;
    rota_buffer *buffer = begin_circle(&s);
    ra_store_release(&s.pool.stays, false);
    ((rota_cuda_device *)s.device->exec)->bounds.stall_ns = PATIENCE_NS;
    assert_ok(rota_buffer_prepare(buffer, s.device));
    rota_buffer_release(buffer);
    copy_words(s.device, 7);
    end(&s);
}

/* The same over a close: that has its deadline too, and leaves the device to the driver. */
static void circle_over_close(void **state) {
    (void)state;
    scene s;
    rota_buffer_release(begin_circle(&s));
    const uint64_t begun_ns = rota_clock_ns();
    assert_status(rota_runtime_close(s.runtime, 200000000), ROTA_TIMEOUT);
    assert_true(rota_clock_ns() - begun_ns < PATIENCE_NS / 2);
    expect_said("abandoned");
    ra_store_release(&s.pool.stays, false);
    while (ra_load_acquire(&s.pool.ready) < s.pool.given) test_nap_ms(1);
    cuda_stub_end();
}

static void wrong(void **state) {
    (void)state;
    scene s;
    begin(&s);
    rota_device *device;
    rota_cuda_context given = ROTA_CUDA_CONTEXT(.index = 2);
    assert_status(rota_device_open_cuda(s.runtime, NULL, &device), ROTA_INVALID_ARGUMENT);
    assert_status(rota_device_open_cuda(s.runtime, &given, &device), ROTA_NOT_FOUND);
    given.index = 1;
    given.allocate = take;
    assert_status(rota_device_open_cuda(s.runtime, &given, &device), ROTA_INVALID_ARGUMENT);
    expect_said("rota_cuda_context has allocate or free alone, expected both or neither");
    given.struct_size = 0;
    assert_status(rota_device_open_cuda(s.runtime, &given, &device), ROTA_INVALID_ARGUMENT);
    assert_null(device);
    end(&s);
}

int main(void) {
    if (!cuda_stub_has_images()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(contexts),          cmocka_unit_test(refused),
                                       cmocka_unit_test(ordered),           cmocka_unit_test(circle),
                                       cmocka_unit_test(circle_over_close), cmocka_unit_test(wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    return 77; /* this build has no CUDA executor */
}
#endif
