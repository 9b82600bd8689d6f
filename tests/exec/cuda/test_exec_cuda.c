/* exec/cuda over a stand-in for the CUDA driver (cuda_stub.h), beside what the contract asks of every executor
 * (exec_contract.h): the cases that hold on a device too, and what only the stand-in shows: the driver's
 * absence, the graphs made, which contexts are current. Library nodes are test_exec_cuda_library.c's. Linked with
 * --wrap for calloc, which gives nothing for nothing here, as C allows and Glibc's does not. */
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include <malloc.h>
#include <stdio.h>

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    return count && bytes ? __real_calloc(count, bytes) : NULL;
}

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include "exec/cuda/cuda_fold.h"
#include "tests/exec/cuda/exec_cuda_kit.h"

/* ---- The loader ---- */

typedef struct half_driver {
    const char *missing;
} half_driver;

static void *find_half(void *user, const char *name, int version) {
    const half_driver *half = user;
    static int function;
    assert_true(version >= 2000 && version <= ROTA_CUDA_DRIVER_NEEDED);
    return strcmp(name, half->missing) == 0 ? NULL : &function;
}

static void test_loader(void **state) {
    (void)state;
    static rota_cuda_api api;
    assert_status(rota_cuda_api_load("libno-such-cuda.so.1", &api), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "libno-such-cuda.so.1"));
    assert_status(rota_cuda_api_load("libm.so.6", &api), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "no CUDA driver"));
    half_driver half = {"cuGraphLaunch"};
    assert_status(rota_cuda_api_fill(11080, find_half, &half, &api), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "11.8"));
    assert_non_null(strstr(rota_last_error(), "12.0"));
    assert_status(rota_cuda_api_fill(12020, find_half, &half, &api), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "cuGraphLaunch"));
    half.missing = "";
    assert_ok(rota_cuda_api_fill(12020, find_half, &half, &api));
}

static uint32_t list(rota_device_info *infos) {
    uint32_t count = 77;
    assert_ok(rota_exec_cuda_driver.enumerate(&rota_exec_cuda_driver, infos, 4, &count));
    return count;
}

static void refused(uint32_t index, rota_status status, const char *text) {
    rota_exec_open_options options = {.queue_count = 1};
    rota_exec_device *device = NULL;
    assert_status(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, index, &options, &device), status);
    if (!strstr(rota_last_error(), text)) fail_msg("'%s' is not in: %s", text, rota_last_error());
}

/* Every way in which there is no device, or one that cannot be used, is said. */
static void test_listing(void **state) {
    (void)state;
    rota_device_info infos[4];
    cuda_stub_start(1, 0);
    assert_int_equal(list(infos), 0);
    assert_non_null(strstr(rota_last_error(), "lists no device"));
    cuda_stub_fail("Init", 0, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
    assert_int_equal(list(infos), 0);
    assert_non_null(strstr(rota_last_error(), "does not start"));
    cuda_stub_stop();
    cuda_stub_start(1, 2);
    assert_int_equal(list(infos), 2);
    assert_string_equal(infos[1].id, "cuda:1");
    assert_string_equal(infos[1].name, "stand-in 1");
    assert_non_null(strstr(infos[1].driver, "12.4"));
    assert_true(infos[1].usable && !infos[1].missing[0]);
    refused(2, ROTA_NOT_FOUND, "cuda:2");
    cuda_stub_compute_mode(CU_COMPUTEMODE_PROHIBITED);
    assert_int_equal(list(infos), 2);
    assert_false(infos[0].usable);
    assert_non_null(strstr(infos[0].missing, "prohibited"));
    refused(0, ROTA_UNSUPPORTED, "prohibited");
    cuda_stub_compute_mode(CU_COMPUTEMODE_DEFAULT);
    cuda_stub_lack(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    refused(0, ROTA_UNSUPPORTED, "compute capability 7.5 (it has 0.0)");
    cuda_stub_lack(0);
    cuda_stub_fail("DevicePrimaryCtxRetain", 0, CUDA_ERROR_DEVICE_UNAVAILABLE);
    refused(0, ROTA_UNSUPPORTED, "exclusive");
    char text[128];
    assert_int_equal(cuda_stub_alive(text, sizeof text), 0);
    cuda_stub_stop();
}

/* A driver that cannot export memory. */
static void test_without_export(void **state) {
    (void)state;
    cuda_stub_start(1, 1);
    cuda_stub_lack(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
    test_host host = {0};
    rota_exec_open_options options = test_vk_options(&host, 1);
    rota_exec_device *device;
    rota_exec_memory *m;
    assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device));
    assert_ok(device->vtable->memory_create(device, 1u << 20, 0, "large", &m));
    assert_int_equal(cuda_stub_calls("MemCreate"), 0);
    uint64_t abandoned;
    device->vtable->close(device, rota_deadline_after(5000000000u), &abandoned);
    char text[128];
    if (cuda_stub_alive(text, sizeof text)) fail_msg("left: %s", text);
    cuda_stub_stop();
}

/* ---- The application's own context and captures ---- */

/* Another library of the process captures in the default mode while the device is in use, and while it is
 * closed. */
static void test_capture_elsewhere(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    const rota_cuda_api *cu = cuda_stub_api();
    cuda_stub_capture_elsewhere(true);
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES), cuda_memory(f, 3u << 20, 0)};
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(3, &params);
    contract_loaded l = cuda_load(f, p, memories);
    cuda_run(f, l, NULL, 10);
    cuda_unload(f, l);
    for (uint32_t m = 0; m < 2; m++) f->device->vtable->memory_destroy(f->device, memories[m]);
    free(p);
    /* This thread's own mode is as it was. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    assert_int_equal(cu->ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(cu->ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    cuda_close(f);
}

static void test_contexts(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    const rota_cuda_api *cu = cuda_stub_api();
    /* As another library of the process has it. */
    CUcontext own, popped;
    rota_exec_work first = {.queue = 0, .signal_value = ++f->next[0]};
    cuda_submit(f, &first, 1);
    cuda_wait(f, 0); /* the completion thread is in its context, and stays there */
    assert_int_equal(cu->DevicePrimaryCtxRetain(&own, 0), CUDA_SUCCESS);
    uint64_t pushes = cuda_stub_calls("CtxPushCurrent"), pops = cuda_stub_calls("CtxPopCurrent");
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(3, &params);
    contract_loaded l = cuda_load(f, p, memories);
    cuda_run(f, l, NULL, 1);
    cuda_unload(f, l);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    assert_true(cuda_stub_calls("CtxPushCurrent") > pushes);
    assert_int_equal(cuda_stub_calls("CtxPushCurrent") - pushes, cuda_stub_calls("CtxPopCurrent") - pops);
    /* Nothing is left current here: popping is a violation that the stand-in counts. */
    assert_int_equal(cu->CtxPushCurrent(own), CUDA_SUCCESS);
    assert_int_equal(cu->CtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_ptr_equal(popped, own);
    assert_int_equal(cu->DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    free(p);
    cuda_close(f);
}

/* ---- Graphs ---- */

static void in_clusters(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                        rota_cuda_launch *out_launch) {
    (void)params, (void)operand_bytes;
    assert_int_equal(target->compute_capability, 90);
    *out_launch = (rota_cuda_launch){.groups = {8, 1, 0}, .block = {64, 0, 0}, .cluster = {4, 1, 1}};
}

static cuda_stub_graph graph_of(cuda_fixture *f, test_program *p, rota_exec_memory *const *memories) {
    contract_loaded l = cuda_load(f, p, memories);
    cuda_stub_graph graph = cuda_stub_last_graph();
    cuda_unload(f, l);
    free(p);
    return graph;
}

static void test_graphs(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_memory(f, 2 * BYTES, 0)};
    contract_step_params params = {COUNT, 1, 0};
    cuda_stub_graph g = graph_of(f, contract_chain(1000, &params), memories);
    assert_int_equal(g.nodes, 1000);
    assert_int_equal(g.kernels, 1000);
    assert_int_equal(g.edges, 999);
    assert_int_equal(g.roots, 1);
    /* 1 000 independent nodes: few branches, with and without the node that brings the argument block. */
    for (uint32_t slots = 0; slots < 2; slots++) {
        test_program *p = test_program_new(QUEUES, 1, slots);
        test_program_segment(p, 0);
        test_program_batch(p);
        for (uint32_t i = 0; i < 1000; i++) {
            test_program_kernel(p, &contract_step, &params);
            test_program_operand(p, 0, slots, 0, BYTES, ROTA_READWRITE);
            test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
        }
        g = graph_of(f, p, memories);
        assert_int_equal(g.nodes, 1000 + slots);
        assert_int_equal(g.roots, slots ? 1 : ROTA_CUDA_LANES);
        assert_int_equal(g.edges, slots ? 1000 : 1000 - ROTA_CUDA_LANES);
        assert_int_equal(g.empties, 0);
    }
    /* A cluster, an empty grid, a copy of no bytes, a copy by the driver. */
    rota_kernel clustered = contract_step, empty = contract_step;

    clustered.cuda.launch = in_clusters;
    clustered.cuda.grid = NULL;
    empty.cuda.grid = NULL;
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    for (uint32_t i = 0; i < 2; i++) {
        test_program_kernel(p, i ? &empty : &clustered, &params)->u.kernel.groups[2] = 0;
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    }
    for (uint32_t i = 0; i < 2; i++) {
        test_program_copy(p);
        test_program_operand(p, 0, false, 0, i * 16, ROTA_WRITE);
        test_program_operand(p, 0, false, BYTES, i * 16, ROTA_READ);
    }
    g = graph_of(f, p, memories);
    assert_int_equal(g.nodes, 4);
    assert_int_equal(g.kernels, 1);
    assert_int_equal(g.empties, 2);
    assert_int_equal(g.memcpys, 1);
    assert_int_equal(g.widest_cluster, 4);
    cuda_close(f);
}

/* A kernel that comes after one other is launched early where its image says that it waits, and where its times
 * are not taken; one that comes after several things, or a copy, is not. */
static void test_early(void **state) {
    (void)state;
#if defined ROTA_CUDA_HAVE_test_kernels && ROTA_CUDA_HAVE_test_kernels
    const bool is_of_another_image = true; /* than the executor's own, which was loaded before */
#else
    const bool is_of_another_image = false;
#endif
    contract_step_params params = {COUNT, 1, 0};
    for (uint32_t way = 0; way < 3; way++) {
        cuda_fixture *f = cuda_open(&(rota_exec_open_options){.diagnostics = way == 2});
        cuda_stub_starts_early(way != 0);
        rota_exec_memory *memories[] = {cuda_memory(f, 4 * BYTES, 0)};
        assert_int_equal(graph_of(f, contract_chain(10, &params), memories).early_edges,
                         way == 1 && is_of_another_image ? 9 : 0);
        test_program *p = test_program_new(QUEUES, 1, 0);
        test_program_segment(p, 0);
        for (uint32_t i = 0; i < 4; i++) {
            test_program_batch(p);
            if (i == 2) test_program_copy(p);
            for (uint32_t k = 0; i != 2 && k < (i == 0 ? 2 : 1); k++) {
                test_program_kernel(p, &contract_step, &params);
                test_program_operand(p, 0, false, 2 * k * (uint64_t)BYTES, BYTES, ROTA_READWRITE);
                test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
            }
            if (i != 2) continue;
            test_program_operand(p, 0, false, 3 * (uint64_t)BYTES, BYTES, ROTA_WRITE);
            test_program_operand(p, 0, false, 0, BYTES, ROTA_READ);
        }
        assert_int_equal(graph_of(f, p, memories).early_edges, 0);
        f->device->vtable->memory_destroy(f->device, memories[0]);
        cuda_close(f);
    }
}

/* Kernels are told what stays the same in their argument blocks, once, and no block is brought to the device when
 * nobody reads it; a word that changes concerns those alone that read it. */
static void test_steady(void **state) {
    (void)state;
    enum { STEPS = 40, READERS = 3 };
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES), cuda_shared(f, 2 * BYTES)};
    for (uint32_t m = 0; m < 2; m++) memset(memories[m]->host, 0, (size_t)2 * BYTES);
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 2);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < STEPS; i++) {
        test_program_batch(p);
        test_program_kernel(p, &contract_step, &params);
        test_program_operand(p, 0, true, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, true, BYTES, BYTES, ROTA_READ);
        if (i < READERS) test_program_binding(p, 0, 1);
    }
    contract_loaded l = cuda_load(f, p, memories);
    uint64_t block[2] = {memories[0]->address, 1};
    cuda_run(f, l, block, 2);
    assert_int_equal(cuda_stub_calls("GraphExecKernelNodeSetParams"), 0);
    /* The word that all read comes first and takes a launch's share, and more. */
    cuda_run(f, l, block, 10);
    assert_int_equal(cuda_stub_calls("GraphExecKernelNodeSetParams"), STEPS + READERS);
    assert_int_equal(cuda_stub_calls("GraphNodeSetEnabled"), 1);
    block[1] = 2;
    cuda_run(f, l, block, 1);
    assert_int_equal(cuda_stub_calls("GraphExecKernelNodeSetParams"), STEPS + 2 * READERS);
    assert_int_equal(cuda_stub_calls("GraphNodeSetEnabled"), 2);
    cuda_run(f, l, block, 10);
    assert_int_equal(cuda_stub_calls("GraphExecKernelNodeSetParams"), STEPS + 3 * READERS);
    assert_int_equal(cuda_stub_calls("GraphNodeSetEnabled"), 3);
    block[0] = memories[1]->address;
    cuda_run(f, l, block, 1);
    assert_int_equal(cuda_stub_calls("GraphExecKernelNodeSetParams"), 2 * STEPS + 3 * READERS);
    /* Nothing is left of what was: the second memory has had one round, of which three steps add 2. */
    uint32_t expected = 0;
    for (uint32_t i = 0; i < STEPS; i++) expected = expected * 3 + (i < READERS ? 2 : 1);
    assert_int_equal(((const uint32_t *)memories[1]->host)[0], expected);
    cuda_unload(f, l);
    free(p);
    for (uint32_t m = 0; m < 2; m++) f->device->vtable->memory_destroy(f->device, memories[m]);
    cuda_close(f);
}

/* A device that a plan names and gives nothing to do has a program without segments. */
static void test_without_segments(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    test_program *p = test_program_new(QUEUES, 0, 0);
    rota_exec_program *program = NULL;
    rota_exec_instance *instance = NULL;
    p->desc.segment_count = 0;
    assert_ok(f->device->vtable->program_create(f->device, &p->desc, &program));
    assert_ok(f->device->vtable->instance_create(f->device, program, NULL, &instance));
    f->device->vtable->instance_destroy(f->device, instance);
    f->device->vtable->program_destroy(f->device, program);
    free(p);
    cuda_close(f);
}

enum { UPLOAD_NS = 50000000 };

static _Thread_local bool upload_is_long;
static _Thread_local uint64_t upload_ends_ns, upload_looks;

/* From the first look on, which sees it under way however late it comes. */
static CUresult upload_takes_long(const char *name) {
    if (!upload_is_long || strcmp(name, "EventQuery") != 0) return CUDA_SUCCESS;
    if (upload_looks++ == 0) {
        upload_ends_ns = rota_deadline_after(UPLOAD_NS);
        return CUDA_ERROR_NOT_READY;
    }
    return rota_clock_ns() < upload_ends_ns ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* Who waits for a graph's upload looks at it now and then, and leaves the processor to others between. */
static void test_long_upload(void **state) {
    (void)state;
    enum { LOOKS_MAX = 5000 }; /* one in 20 us, and those of the first 30 us */
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_memory(f, 2 * BYTES, 0)};
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(1, &params);
    cuda_stub_watch(upload_takes_long);
    upload_is_long = true;
    contract_loaded l = cuda_load(f, p, memories);
    assert_true(rota_clock_ns() >= upload_ends_ns);
    upload_is_long = false;
    cuda_stub_watch(NULL);
    assert_in_range(upload_looks, 2, LOOKS_MAX);
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    cuda_close(f);
}

static _Thread_local uint32_t slow_launches;

static CUresult launches_are_slow(const char *name) {
    if (slow_launches && strcmp(name, "LaunchKernel") == 0) {
        slow_launches--;
        test_nap_ms(8);
    }
    return CUDA_SUCCESS;
}

/* Where the host is too slow at first for the clocks to be compared they are compared until it is not. */
static void test_slow_clock(void **state) {
    (void)state;
    enum { OFF_NS_MAX = 2000000 };
    cuda_fixture *f = cuda_open(&(rota_exec_open_options){.diagnostics = true});
    rota_exec_memory *memories[] = {cuda_memory(f, 2 * BYTES, 0)};
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(1, &params);
    contract_loaded l = cuda_load(f, p, memories);
    const uint64_t begin = rota_clock_ns();
    cuda_run(f, l, NULL, 1);
    const uint64_t end = rota_clock_ns();
    rota_exec_time time;
    cuda_stub_watch(launches_are_slow);
    slow_launches = 12;
    assert_ok(f->device->vtable->times(f->device, l.instance, &time));
    assert_int_equal(slow_launches, 0);
    cuda_stub_watch(NULL);
    assert_true(time.begin_ns + OFF_NS_MAX >= begin);
    assert_true(time.end_ns <= end + OFF_NS_MAX);
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    cuda_close(f);
}

/* ---- Waits ---- */

/* Waits that the stream's order, an earlier wait or completion implies cost no call; a work's value is not
 * reported before works before it are complete. */
static void test_waits(void **state) {
    (void)state;
    /* With one mark in flight no work has another of its own. */
    cuda_fixture *f = cuda_open(&(rota_exec_open_options){.max_in_flight = 3});
    cuda_stub_pause(true);
    rota_exec_wait waits[] = {{0, 2}, {0, 2}, {0, 3}, {1, 1}};
    rota_exec_work works[] = {
        {.queue = 0, .signal_value = 2},
        {.queue = 0, .signal_value = 3, .waits = &waits[0], .wait_count = 1}, /* its own queue */
        {.queue = 1, .signal_value = 1, .waits = &waits[1], .wait_count = 1},
        {.queue = 1, .signal_value = 2, .waits = &waits[2], .wait_count = 1},
        {.queue = 0, .signal_value = 4, .waits = &waits[3], .wait_count = 1},
    };
    cuda_submit(f, &(rota_exec_work){.queue = 0, .signal_value = 1}, 1);
    cuda_submit(f, works, 3);
    /* The mark that the wait asked for covers value 3 too. */
    assert_int_equal(cuda_stub_calls("StreamWaitEvent"), 1);
    assert_int_equal(cuda_stub_calls("EventRecord"), 3);
    cuda_submit(f, works + 3, 1);
    assert_int_equal(cuda_stub_calls("StreamWaitEvent"), 1);
    cuda_submit(f, works + 4, 1);
    assert_int_equal(cuda_stub_calls("StreamWaitEvent"), 2);
    assert_int_equal(atomic_load(&f->host.reached[0]), 0);
    cuda_stub_pause(false);
    f->next[0] = 4;
    f->next[1] = 2;
    cuda_wait(f, 0);
    cuda_wait(f, 1);
    /* Complete: no call. */
    rota_exec_wait done = {0, 4};
    rota_exec_work after = {.queue = 2, .signal_value = 1, .waits = &done, .wait_count = 1};
    cuda_submit(f, &after, 1);
    assert_int_equal(cuda_stub_calls("StreamWaitEvent"), 2);
    f->next[2] = 1;
    cuda_wait(f, 2);
    cuda_close(f);
}

/* A submit that finds the queue full waits, and goes on when there is room. */
static void *release_when_it_waits(void *user) {
    rota_cuda_device *device = user;
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (!ra_load_seq_cst(&device->waits.room_wanted) && rota_clock_ns() < deadline) test_nap_us(100);
    /* It wants room for as long as the device is paused. */
    const bool waits = ra_load_seq_cst(&device->waits.room_wanted) != 0;
    cuda_stub_pause(false);
    return waits ? user : NULL;
}

static void test_bound(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(&(rota_exec_open_options){.max_in_flight = 4});
    cuda_stub_pause(true);
    pthread_t thread;
    void *has_waited;
    for (uint32_t i = 0; i < 4; i++) {
        rota_exec_work w = {.queue = 0, .signal_value = ++f->next[0]};
        cuda_submit(f, &w, 1);
    }
    assert_int_equal(ra_load_seq_cst(&((rota_cuda_device *)f->device)->waits.room_wanted), 0);
    assert_int_equal(pthread_create(&thread, NULL, release_when_it_waits, f->device), 0);
    rota_exec_work w = {.queue = 0, .signal_value = ++f->next[0]};
    cuda_submit(f, &w, 1);
    assert_int_equal(pthread_join(thread, &has_waited), 0);
    assert_non_null(has_waited);
    cuda_wait(f, 0);
    /* A long list of works is marked now and then once two marks are in flight, not once each. */
    cuda_stub_pause(true);
    uint64_t records = cuda_stub_calls("EventRecord");
    rota_exec_work works[32] = {0};
    for (uint32_t i = 0; i < 32; i++) works[i] = (rota_exec_work){.queue = 0, .signal_value = ++f->next[0]};
    cuda_submit(f, works, 32);
    assert_int_equal(cuda_stub_calls("EventRecord") - records, 4);
    cuda_stub_pause(false);
    cuda_wait(f, 0);
    cuda_close(f);
}

/* Works handed over together while the device has little to do are reported each when it ends. */
static void test_reported_apart(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    cuda_stub_pause(true);
    rota_exec_work works[2];
    for (uint32_t i = 0; i < 2; i++) works[i] = (rota_exec_work){.queue = 0, .signal_value = ++f->next[0]};
    cuda_submit(f, works, 2);
    assert_int_equal(cuda_stub_calls("EventRecord"), 2);
    cuda_stub_pause(false);
    cuda_wait(f, 0);
    cuda_close(f);
}

/* More shared memory than every kernel may have is asked for once the function is known to have less. */
static void test_shared_memory(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    const contract_step_params params = {COUNT, 1, 0};
    for (uint32_t large = 0; large < 2; large++) {
        rota_kernel kernel = contract_step;
        kernel.cuda.shared_bytes = large ? 49153 : 49152;
        test_program *p = test_program_new(QUEUES, 1, 0);
        test_program_segment(p, 0);
        test_program_batch(p);
        test_program_kernel(p, &kernel, &params);
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
        uint32_t *edges = contract_edges(p);
        rota_exec_program *program;
        const uint64_t before = cuda_stub_calls("FuncSetAttribute");
        assert_ok(f->device->vtable->program_create(f->device, &p->desc, &program));
        assert_int_equal(cuda_stub_calls("FuncSetAttribute") - before, large);
        f->device->vtable->program_destroy(f->device, program);
        free(edges);
        free(p);
    }
    cuda_close(f);
}

/* What a program had when it was refused is given back. Counted where the allocator is the C library's own.
 */
static void test_refused_leaves_nothing(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    const contract_step_params params = {COUNT, 1, 0};
    rota_kernel none = contract_step;
    none.cuda = (rota_kernel_cuda){0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_kernel(p, &none, &params);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    uint32_t *edges = contract_edges(p);
    size_t before = 0;
    for (uint32_t round = 0; round < 100; round++) {
        rota_exec_program *program = NULL;
        assert_int_not_equal(f->device->vtable->program_create(f->device, &p->desc, &program), ROTA_OK);
        assert_null(program);
        if (round == 10) before = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks <= before + 1024);
    free(edges);
    free(p);
    cuda_close(f);
}

static void *try_submit_lock(void *user) {
    rota_cuda_device *device = user;
    if (pthread_mutex_trylock(&device->submit_lock) != 0) return "held";
    pthread_mutex_unlock(&device->submit_lock);
    return NULL;
}

/* Nobody has the submit thread's lock between its calls. */
static void test_lock_is_free(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(&(rota_exec_open_options){.queue_count = ROTA_EXEC_QUEUES_MAX});
    for (uint32_t q = 0; q < ROTA_EXEC_QUEUES_MAX; q++) {
        const rota_exec_work work = {.queue = q, .signal_value = ++f->next[q]};
        cuda_submit(f, &work, 1);
    }
    for (uint32_t q = 0; q < ROTA_EXEC_QUEUES_MAX; q++) cuda_wait(f, q);
    pthread_t other; /* the lock is recursive: this thread could always take it */
    void *held;
    assert_int_equal(pthread_create(&other, NULL, try_submit_lock, f->device), 0);
    assert_int_equal(pthread_join(other, &held), 0);
    assert_null(held);
    cuda_close(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loader),
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_without_export),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_capture_elsewhere),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_early),
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_without_segments),
        cmocka_unit_test(test_long_upload),
        cmocka_unit_test(test_slow_clock),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_reported_apart),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_refused_leaves_nothing),
        cmocka_unit_test(test_lock_is_free),
    };
    return exec_cuda_run("exec_cuda", tests, sizeof tests / sizeof tests[0]);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
