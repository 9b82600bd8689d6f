/* exec/cuda through its contract on a device; every case is skipped by name where there is none. What ends
 * the context, or the device's patience, runs in a process of its own, begun before this one opens the
 * driver. */
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/exec/cuda/exec_cuda_kit.h"

static const rota_kernel spin = {
    .name = "spin",
    .operand_count = 1,
    .param_bytes = 4,
    .cuda = {TEST_IMAGE, .entry = "test_spin"},
};

/* ---- The application's context and the default stream ---- */

/* A kernel spins on the legacy default stream meanwhile: whatever used that stream, or waited for it, would
 * not end. And the application's context stays current. */
static void test_tripwire(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_cuda_device *device = (rota_cuda_device *)f->device;
    const rota_cuda_api *cu = device->cu;
    rota_exec_memory *flag = cuda_shared(f, 256);
    volatile uint32_t *word = flag->host;
    *word = 0;
    /* Allocating and loading wait for the device, whoever does it: that is done first. */
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(50, &params);
    contract_loaded l = cuda_load(f, p, memories);
    CUfunction function;
    assert_int_equal(cu->CtxPushCurrent(device->context),
                     CUDA_SUCCESS); /* and it stays current, as an application would have it */
    assert_ok(rota_cuda_function_get(device, &spin, &function, NULL));
    struct {
        uint64_t block, masks, operand, params;
    } arguments = {.operand = flag->address};
    void *parameters[] = {&arguments};
    assert_int_equal(cu->LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, parameters, NULL),
                     CUDA_SUCCESS);
    rota_exec_copy copy = {
        .destination = memories[0], .source = memories[0], .destination_offset = BYTES, .size_bytes = 4};
    rota_exec_work first = cuda_work(f, l, 0, 0, NULL, 0, NULL);
    rota_exec_wait wait = {0, first.signal_value};
    rota_exec_work works[] = {first,
                              {.copies = &copy,
                               .copy_count = 1,
                               .queue = 1,
                               .signal_value = ++f->next[1],
                               .waits = &wait,
                               .wait_count = 1}};
    cuda_submit(f, works, 2);
    bool came = test_host_wait(&f->host, 1, f->next[1]);
    *word = 1; /* whatever happened, the kernel ends */
    assert_true(came);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], contract_stepped(i, i, 50));
    CUcontext popped;
    assert_int_equal(cu->CtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_ptr_equal(popped, device->context);
    assert_int_not_equal(cu->CtxPopCurrent(&popped), CUDA_SUCCESS); /* and nothing else was left */
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* An application captures in the default mode meanwhile: neither is disturbed. */
static void test_capture_elsewhere(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_cuda_device *device = (rota_cuda_device *)f->device;
    const rota_cuda_api *cu = device->cu;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUcontext popped;
    assert_int_equal(cu->CtxPushCurrent(device->context), CUDA_SUCCESS);
    assert_int_equal(cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(1, &params);
    contract_loaded l = cuda_load(f, p, memories);
    cuda_run(f, l, NULL, 20);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], contract_stepped(i, i, 20));
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    assert_int_equal(cu->StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cu->GraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(cu->StreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cu->CtxPopCurrent(&popped), CUDA_SUCCESS);
    cuda_close(f);
}

/* ---- In processes of their own ---- */

enum { CHILD_GOOD = 0, CHILD_BAD = 1, CHILD_SKIPPED = 77 };
#define WANT(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, rota_last_error());                   \
            return CHILD_BAD;                                                                                \
        }                                                                                                    \
    } while (0)

/* One segment: a step, the command under test, a step. The command: a step through a slot, or a spin. */
static test_program *three(bool fault, const uint32_t *spin_params, const contract_step_params *params) {
    test_program *p = test_program_new(QUEUES, 2, 1);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < 3; i++) {
        test_program_batch(p);
        if (i == 1 && !fault) {
            test_program_kernel(p, &spin, spin_params);
            test_program_operand(p, 1, false, 0, 4, ROTA_READ);
            continue;
        }
        test_program_kernel(p, &contract_step, params);
        test_program_operand(p, 0, i == 1, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    }
    return p;
}

static int child(bool fault) {
    static lost_host host;
    static uint32_t spin_params;
    const rota_exec_open_options options = lost_host_options(&host, true);
    rota_exec_device *device;
    if (rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device) != ROTA_OK)
        return CHILD_SKIPPED;
    const rota_exec_device_vtable *v = device->vtable;
    rota_exec_memory *memories[2];
    WANT(v->memory_create(device, 2 * BYTES, 0, "m", &memories[0]) == ROTA_OK);
    WANT(v->memory_create(device, 256, ROTA_EXEC_MEMORY_HOST_WRITE, "flag", &memories[1]) == ROTA_OK);
    volatile uint32_t *flag = memories[1]->host;
    *flag = 0;
    static const contract_step_params params = {COUNT, 1, 0};
    test_program *p = three(fault, &spin_params, &params);
    (void)contract_edges(p);
    rota_exec_program *program;
    rota_exec_instance *instance;
    WANT(v->program_create(device, &p->desc, &program) == ROTA_OK);
    WANT(v->instance_create(device, program, memories, &instance) == ROTA_OK);
    uint64_t block[1] = {0x10000}; /* no memory of anybody's */
    rota_exec_work w = {.instance = instance, .queue = 0, .signal_value = 1, .block = block};
    rota_status submitted = v->submit(device, &w, 1);
    WANT(submitted == ROTA_OK || submitted == ROTA_DEVICE_LOST);
    rota_exec_stuck stuck = {.node = 77};
    uint64_t abandoned = 1, begin = rota_clock_ns();
    if (fault) {
        (void)lost_host_wait(&host);
        printf("lost: %s\n", host.message);
        WANT(strstr(host.message, "ILLEGAL_ADDRESS") && strstr(host.message, "'node 1' ran"));
        WANT(v->stuck_node(device, instance, &stuck) && stuck.node == 1);
        w.signal_value = 2;
        WANT(v->submit(device, &w, 1) == ROTA_DEVICE_LOST);
        v->instance_destroy(device, instance);
        v->close(device, rota_deadline_after(5000000000ull), &abandoned);
        WANT(abandoned == 0);
        WANT(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device) != ROTA_OK);
        printf("opened again: %s\n", rota_last_error());
        WANT(strstr(rota_last_error(), "new process"));
        return CHILD_GOOD;
    }
    test_nap_ms(300);
    WANT(atomic_load(&host.host.reached[0]) == 0);
    WANT(v->stuck_node(device, instance, &stuck) && stuck.node == 1);
    /* Another queue goes on. */
    rota_exec_work other = {.queue = 1, .signal_value = 1};
    WANT(v->submit(device, &other, 1) == ROTA_OK && test_host_wait(&host.host, 1, 1));
    begin = rota_clock_ns();
    v->close(device, begin + 300000000ull, &abandoned);
    printf("closed after %.0f ms, %llu bytes abandoned\n", (double)(rota_clock_ns() - begin) * 1e-6,
           (unsigned long long)abandoned);
    WANT(rota_clock_ns() - begin < 2000000000ull && abandoned >= 2 * BYTES);
    *flag = 1;
    return CHILD_GOOD;
}

static int results[2];

static void test_fault(void **state) {
    (void)state;
    if (results[0] == CHILD_SKIPPED) skip();
    assert_int_equal(results[0], CHILD_GOOD);
}
static void test_endless(void **state) {
    (void)state;
    if (results[1] == CHILD_SKIPPED) skip();
    assert_int_equal(results[1], CHILD_GOOD);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tripwire),
                                       cmocka_unit_test(test_capture_elsewhere), cmocka_unit_test(test_fault),
                                       cmocka_unit_test(test_endless)};
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            int result = child(i == 0);
            fflush(stdout);
            _exit(result);
        }
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid) return 1;
        results[i] = WIFEXITED(status) ? WEXITSTATUS(status) : CHILD_BAD;
    }
    exec_cuda_real = true;
    contract_kit kit = exec_cuda_contract();
    int failed = contract_main(&kit);
    if (exec_cuda_hide_conditionals()) {
        kit.name = "cuda, decided by the host";
        failed += contract_main(&kit);
        rota_cuda_api_use(NULL);
    }
    return failed + exec_cuda_run("exec_cuda_device", tests, sizeof tests / sizeof tests[0]);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
