/* exec/cuda over a driver that fails: each function in turn, kernels that fault or do not end. */
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include <unistd.h>
#include "graph/conditional_internal.h"
#include "tests/exec/cuda/exec_cuda_kit.h"

/* Waits for the value or for the loss. */
static bool wait_either(lost_host *host, uint32_t queue, uint64_t value) {
    uint64_t deadline = rota_deadline_after(10000000000ull);
    while (atomic_load(&host->host.reached[queue]) < value && !atomic_load(&host->host.lost)) {
        if (rota_clock_ns() > deadline) return false;
        test_nap_us(100);
    }
    return true;
}

/* ---- Each function in turn ---- */

/* Puts one kernel on the stream: a stamp over the first operand. */
static CUfunction library_function;
static rota_status library_call(const rota_cuda_call *call) {
    uint64_t address = call->operands[0];
    void *parameters[] = {&address};
    CUresult result =
        cuda_stub_api()->LaunchKernel(library_function, 1, 1, 1, 1, 1, 1, 0, call->stream, parameters, NULL);
    return result == CUDA_SUCCESS ? ROTA_OK : rota_fail(ROTA_SYSTEM, "cuLaunchKernel failed");
}
static rota_status library_tune(const rota_cuda_call *call) {
    (void)call;
    return ROTA_OK;
}

/* A small and a large memory that can be shared, exported and imported again, by the device itself. */
static bool share(rota_exec_device *device, rota_exec_memory **out_memories) {
    const rota_exec_device_vtable *v = device->vtable;
    bool good = device->caps.shares_memory;
    for (uint32_t m = 0; m < 2 && good; m++) {
        rota_exec_export export;
        good = v->memory_create(device, m ? 1u << 20 : 5000, ROTA_EXEC_MEMORY_SHARED, "d",
                                &out_memories[m]) == ROTA_OK &&
               v->memory_export(device, out_memories[m], false, &export) == ROTA_OK;
        if (!good) break;
        good = v->memory_import(device, &export, "e", &out_memories[2 + m]) == ROTA_OK;
        close(export.fd);
        if (!good || atomic_load(&((rota_cuda_device *)device)->lost)) break;
        uint32_t *own = (uint32_t *)(uintptr_t)out_memories[m]->address,
                 *imported = (uint32_t *)(uintptr_t)out_memories[2 + m]->address;
        own[1000] = 77 + m;
        assert_true(own != imported);
        assert_int_equal(imported[1000], 77 + m);
    }
    return good;
}

/* The last command is counted, too: by the second array's first word. */
static void count(test_program *p) {
    rota_exec_command *command = &p->commands[p->desc.command_count - 1];
    test_program_operand(p, 0, false, BYTES, 4, ROTA_READ);
    command->is_counted = true;
    if (command->kind == ROTA_EXEC_COMMAND_COPY) {
        command->u.copy.unit_bytes = 4;
        command->u.copy.count_max = COUNT;
    } else {
        command->u.kernel.count_max = COUNT;
        command->u.kernel.items_per_group = 64;
        command->u.kernel.count_bindable_plus_1 = 3;
    }
}

/* A for in the program's last batch, whose body is a counted kernel; its count is the second array's first word. */
typedef struct looping {
    rota_exec_conditional conditional;
    const rota_exec_program_desc *bodies[1];
    test_program *body;
    uint32_t *edges;
} looping;

static void put_loop(test_program *p, looping *loop, const contract_step_params *params) {
    loop->body = test_program_new(QUEUES, 3, 2);
    test_program_segment(loop->body, 0);
    test_program_batch(loop->body);
    test_program_kernel(loop->body, &contract_step, params);
    test_program_operand(loop->body, 0, true, 0, BYTES, ROTA_READWRITE);
    test_program_operand(loop->body, 0, false, BYTES, BYTES, ROTA_READ);
    count(loop->body);
    loop->edges = contract_edges(loop->body);
    loop->bodies[0] = &loop->body->desc;
    loop->conditional = (rota_exec_conditional){.kind = ROTA_CONDITIONAL_FOR,
                                                .body_count = 1,
                                                .iterations_max = 3,
                                                .condition = {1, 0},
                                                .index = {UINT32_MAX, 0},
                                                .bodies = loop->bodies};
    test_program_fill(p, 0);
    rota_exec_command *command = &p->commands[p->desc.command_count - 1];
    command->kind = ROTA_EXEC_COMMAND_CONDITIONAL;
    command->u.conditional = &loop->conditional;
    test_program_operand(p, 0, true, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
}

/* Uses everything that the executor does, goes on after a failure as a scheduler would, and ends. How far it
 * got. */
static uint32_t whole_life(lost_host *host, bool *out_hung) {
    contract_step_params params = {COUNT, 1, 0};
    rota_kernel library = contract_step;
    library.cuda = (rota_kernel_cuda){.call = library_call, .tune = library_tune};
    rota_kernel clustered = contract_step;
    clustered.cuda.shared_bytes = 100000;
    test_program *p = test_program_new(QUEUES, 3, 2);
    for (uint32_t s = 0; s < 2; s++) {
        test_program_segment(p, s);
        test_program_batch(p);
        test_program_kernel(p, s ? &library : &clustered, &params);
        test_program_operand(p, 0, true, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
        test_program_batch(p);
        test_program_copy(p);
        test_program_operand(p, 1, false, 0, BYTES, ROTA_WRITE);
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READ);
        test_program_batch(p);
        test_program_kernel(p, &library, &params);
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    }
    looping loop;
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READ);
    count(p);
    test_program_batch(p);
    put_loop(p, &loop, &params);
    uint32_t *edges = contract_edges(p), reached = 0;
    rota_exec_open_options options = lost_host_options(host, true);
    rota_exec_device *device = NULL;
    rota_exec_memory *memories[7] = {0}; /* the last two are imports of the two before */
    rota_exec_program *program = NULL;
    rota_exec_instance *instance = NULL;
    *out_hung = false;
    if (rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device) != ROTA_OK) goto done;
    reached = 1;
    library_function = ((rota_cuda_device *)device)->helpers.timestamp;
    const rota_exec_device_vtable *v = device->vtable;
    bool good = v->memory_create(device, 2 * BYTES, 0, "a", &memories[0]) == ROTA_OK &&
                v->memory_create(device, 1u << 20, 0, "b", &memories[1]) == ROTA_OK &&
                v->memory_create(device, BYTES, ROTA_EXEC_MEMORY_HOST_READ, "c", &memories[2]) == ROTA_OK;
    good = share(device, &memories[3]) && good;
    if (good) reached = 2;
    good = good && v->program_create(device, &p->desc, &program) == ROTA_OK;
    if (good) reached = 3;
    good = good && v->instance_create(device, program, memories, &instance) == ROTA_OK;
    if (good) {
        reached = 4;
        memset((void *)(uintptr_t)memories[0]->address, 0, 2 * BYTES);
        *(uint32_t *)(uintptr_t)(memories[0]->address + BYTES) = 2;
        uint64_t block[2] = {memories[0]->address};
        rota_exec_copy copy = {.destination = memories[2], .source = memories[1], .size_bytes = BYTES};
        rota_exec_wait wait = {0, 1}, last = {1, 1};
        rota_exec_work works[] = {
            {.instance = instance, .segment = 0, .queue = 0, .signal_value = 1, .block = block},
            {.instance = instance,
             .segment = 1,
             .queue = 1,
             .signal_value = 1,
             .waits = &wait,
             .wait_count = 1,
             .block = block},
            {.copies = &copy,
             .copy_count = 1,
             .queue = 2,
             .signal_value = 1,
             .waits = &last,
             .wait_count = 1}};
        if (v->submit(device, works, 3) == ROTA_OK) {
            reached = 5;
            /* The loop's own queue, too: the other may be seen to have come further before what became of the loop is
             * looked at, and until then the instance is in use (exec_table.h). */
            *out_hung = !wait_either(host, 2, 1) || !wait_either(host, 1, 1);
            rota_exec_time times[8];
            if (atomic_load(&host->host.reached[2]) && v->times(device, instance, times) == ROTA_OK)
                reached = 6;
        } else {
            assert_true(lost_host_wait(host));
        }
    }
    if (instance) v->instance_destroy(device, instance);
    if (program) v->program_destroy(device, program);
    for (uint32_t m = 7; m-- > 0;)
        if (memories[m]) v->memory_destroy(device, memories[m]);
    uint64_t abandoned = 1;
    v->close(device, rota_deadline_after(10000000000ull), &abandoned);
    assert_int_equal(abandoned, 0);
done:
    free(loop.edges);
    free(loop.body);
    free(edges);
    free(p);
    return reached;
}

static void each_function(int version) {
    /* Functions that report nothing, or are called in the middle of failing. */
    static const char *const left_out[] = {"GetErrorName", "GetErrorString"};
    static const CUresult results[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
                                       CUDA_ERROR_ILLEGAL_ADDRESS};
    uint32_t failures = 0, survived = 0;
    for (uint32_t n = 0; cuda_stub_name(n); n++)
        for (uint32_t r = 0; r < 3; r++)
            /* Nearly everything enters the context first: each time of a whole life. */
            for (uint32_t skip = 0; skip < (strcmp(cuda_stub_name(n), "CtxPushCurrent") ? 4u : 32u); skip++) {
                const char *name = cuda_stub_name(n);
                if (strcmp(name, left_out[0]) == 0 || strcmp(name, left_out[1]) == 0) continue;
                lost_host host = {0};
                bool hung;
                cuda_stub_start(n, 1);
                cuda_stub_version(version);
                cuda_stub_kernel(&contract_step);
                cuda_stub_fail(name, skip, results[r]);
                uint32_t reached = whole_life(&host, &hung);
                if (hung) fail_msg("cu%s fails with %d: nobody was told", name, (int)results[r]);
                if (reached < 6) failures++;
                if (reached == 6) survived++;
                char text[256];
                if (cuda_stub_violations(text, sizeof text))
                    fail_msg("cu%s fails with %d at %u: violated: %s", name, (int)results[r], skip, text);
                if (cuda_stub_alive(text, sizeof text))
                    fail_msg("cu%s fails with %d at %u: left: %s", name, (int)results[r], skip, text);
                assert_in_range(atomic_load(&host.host.lost), 0, 1);
                cuda_stub_stop();
            }
    assert_true(failures > 100 && survived > 10);
}

static void test_each_function(void **state) {
    (void)state;
    each_function(12040);
}

/* What decides is decided by the host. */
static void test_each_function_hosted(void **state) {
    (void)state;
    each_function(12030);
}

/* ---- Faults ---- */

static void test_fault(void **state) {
    (void)state;
    for (uint32_t diagnostics = 0; diagnostics < 2; diagnostics++) {
        cuda_stub_start(3, 1);
        cuda_stub_kernel(&contract_step);
        lost_host host = {0};
        rota_exec_open_options options = lost_host_options(&host, diagnostics);
        rota_exec_device *device;
        assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device));
        const rota_exec_device_vtable *v = device->vtable;
        rota_exec_memory *m;
        assert_ok(v->memory_create(device, 2 * BYTES, 0, "m", &m));
        contract_step_params params = {COUNT, 1, 0};
        test_program *p = test_program_new(QUEUES, 1, 0);
        test_program_segment(p, 0);
        for (uint32_t i = 0; i < 3; i++) { /* the second command faults */
            test_program_batch(p);
            if (i == 1)
                test_program_kernel(p, &contract_step, &params);
            else
                test_program_fill(p, 0);
            test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
            if (i == 1) test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
        }
        uint32_t *edges = contract_edges(p);
        rota_exec_program *program;
        rota_exec_instance *instance;
        assert_ok(v->program_create(device, &p->desc, &program));
        assert_ok(v->instance_create(device, program, &m, &instance));
        cuda_stub_fault("test_step");
        rota_exec_work w = {.instance = instance, .queue = 0, .signal_value = 1};
        rota_status submitted = v->submit(device, &w, 1); /* the fault may come before it returns */
        assert_true(submitted == ROTA_OK || submitted == ROTA_DEVICE_LOST);
        assert_true(lost_host_wait(&host));
        assert_int_equal(atomic_load(&host.host.reached[0]), 0);
        assert_non_null(strstr(host.message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
        assert_int_equal(strstr(host.message, "node 1") != NULL, diagnostics);
        rota_exec_stuck stuck = {.node = 77};
        assert_int_equal(v->stuck_node(device, instance, &stuck), diagnostics);
        if (diagnostics) assert_int_equal(stuck.node, 1);
        w.signal_value = 2;
        assert_status(v->submit(device, &w, 1), ROTA_DEVICE_LOST);
        rota_exec_memory *late;
        assert_status(v->memory_create(device, 1024, 0, "late", &late), ROTA_DEVICE_LOST);
        v->instance_destroy(device, instance);
        v->program_destroy(device, program);
        uint64_t abandoned = 1;
        v->close(device, rota_deadline_after(5000000000u), &abandoned);
        assert_int_equal(abandoned, 0);
        /* The driver gives the device back to a new process only, and that is said. */
        assert_status(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device),
                      ROTA_DEVICE_LOST);
        assert_non_null(strstr(rota_last_error(), "new process"));
        char text[128];
        if (cuda_stub_alive(text, sizeof text)) fail_msg("left: %s", text);
        free(edges);
        free(p);
        cuda_stub_stop();
    }
}

/* A kernel that does not end: close ends at its deadline and counts what it leaves; diagnostics name the
 * node. */
static lost_host *abandoned_host; /* what is abandoned is still pointed to */
static void *_Atomic abandoned_things[4];

static void test_endless(void **state) {
    (void)state;
    cuda_stub_start(3, 1);
    cuda_stub_kernel(&contract_step);
    lost_host *host = abandoned_host = calloc(1, sizeof *host);
    assert_non_null(host);
    rota_exec_open_options options = lost_host_options(host, true);
    rota_exec_device *device;
    assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device));
    abandoned_things[0] = device;
    const rota_exec_device_vtable *v = device->vtable;
    uint64_t before = atomic_load(&((rota_cuda_device *)device)->objects.memory_bytes);
    rota_exec_memory *m;
    assert_ok(v->memory_create(device, 2 * BYTES, 0, "m", &m));
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(2, &params);
    uint32_t *edges = contract_edges(p);
    abandoned_things[1] = p;
    abandoned_things[2] = edges;
    rota_exec_program *program;
    rota_exec_instance *instance;
    assert_ok(v->program_create(device, &p->desc, &program));
    assert_ok(v->instance_create(device, program, &m, &instance));
    cuda_stub_hang("test_step");
    rota_exec_work works[] = {{.instance = instance, .queue = 0, .signal_value = 1},
                              {.queue = 1, .signal_value = 1}};
    assert_ok(v->submit(device, works, 2));
    assert_true(wait_either(host, 1, 1)); /* the other queue goes on */
    test_nap_ms(20);
    assert_int_equal(atomic_load(&host->host.reached[0]), 0);
    uint64_t begin = rota_clock_ns(), abandoned = 0;
    v->close(device, begin + 200000000ull, &abandoned);
    assert_true(rota_clock_ns() - begin < 2000000000ull);
    assert_int_equal(abandoned, before + 2 * BYTES);
    assert_int_equal(cuda_stub_calls("DevicePrimaryCtxRelease"), 0);
    cuda_stub_stop();
}

/* A call fails while a kernel does not end: the device is given up, and nothing that the kernel may touch is
 * freed. */
static void test_noisy(void **state) {
    (void)state;
    cuda_stub_start(3, 1);
    cuda_stub_kernel(&contract_step);
    static lost_host *host;
    host = calloc(1, sizeof *host);
    assert_non_null(host);
    rota_exec_open_options options = lost_host_options(host, false);
    static rota_exec_device *device; /* what is abandoned is still pointed to */
    static test_program *p;
    assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device));
    const rota_exec_device_vtable *v = device->vtable;
    rota_exec_memory *m;
    assert_ok(v->memory_create(device, 2 * BYTES, 0, "m", &m));
    contract_step_params params = {COUNT, 1, 0};
    p = contract_chain(2, &params);
    abandoned_things[3] = contract_edges(p);
    rota_exec_program *program;
    rota_exec_instance *instance;
    assert_ok(v->program_create(device, &p->desc, &program));
    assert_ok(v->instance_create(device, program, &m, &instance));
    cuda_stub_hang("test_step");
    rota_exec_work w = {.instance = instance, .queue = 0, .signal_value = 1};
    assert_ok(v->submit(device, &w, 1));
    rota_exec_copy copy = {.destination = m, .source = m, .destination_offset = BYTES, .size_bytes = 16};
    rota_exec_work copies = {.copies = &copy, .copy_count = 1, .queue = 1, .signal_value = 1};
    cuda_stub_fail("MemcpyAsync", 0, CUDA_ERROR_INVALID_VALUE);
    assert_int_not_equal(v->submit(device, &copies, 1), ROTA_OK);
    assert_int_equal(atomic_load(&host->host.lost), 1);
    char before[256], after[256];
    cuda_stub_alive(before, sizeof before);
    v->instance_destroy(device, instance);
    v->memory_destroy(device, m);
    cuda_stub_alive(after, sizeof after);
    assert_string_equal(before, after);
    v->program_destroy(device, program);
    uint64_t abandoned = 0;
    v->close(device, rota_deadline_after(200000000ull), &abandoned);
    assert_true(abandoned >= 2 * BYTES);
    cuda_stub_stop();
}

static atomic_bool context_is_refused;
static CUresult refuse_context(const char *name) {
    return atomic_load(&context_is_refused) && strcmp(name, "CtxPushCurrent") == 0 ? CUDA_ERROR_OUT_OF_MEMORY
                                                                                   : CUDA_SUCCESS;
}

static void keep_line(void *user, rota_log_level level, const char *message) {
    char *text = user;
    (void)level;
    size_t used = strlen(text);
    snprintf(text + used, 1024 - used, "%s\n", message);
}

/* The context can't be entered: what is destroyed stays, no call is made without it, and close frees it; or,
 * where it still can't be entered then, gives the device up in time. */
static void test_no_context(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < 2; turn++) {
        static lost_host *host;
        static rota_exec_device *device; /* what is abandoned is still pointed to */
        char before[256], after[256], text[1024] = "";
        host = calloc(1, sizeof *host);
        assert_non_null(host);
        cuda_stub_start(4, 1);
        cuda_stub_kernel(&contract_step);
        atomic_store(&context_is_refused, false);
        cuda_stub_watch(refuse_context);
        rota_exec_open_options options = lost_host_options(host, true);
        options.host.log = (rota_log){keep_line, text, ROTA_LOG_WARNING};
        assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device));
        const rota_exec_device_vtable *v = device->vtable;
        contract_step_params params = {COUNT, 1, 0};
        test_program *p = contract_chain(2, &params);
        uint32_t *edges = contract_edges(p);
        rota_exec_memory *m;
        rota_exec_program *program;
        rota_exec_instance *instance;
        assert_ok(v->memory_create(device, 2 * BYTES, 0, "m", &m));
        assert_ok(v->program_create(device, &p->desc, &program));
        assert_ok(v->instance_create(device, program, &m, &instance));
        rota_exec_work w = {.instance = instance, .queue = 0, .signal_value = 1};
        assert_ok(v->submit(device, &w, 1));
        assert_true(wait_either(host, 0, 1));
        cuda_stub_alive(before, sizeof before);
        atomic_store(&context_is_refused, true);
        v->instance_destroy(device, instance);
        v->program_destroy(device, program);
        free(edges);
        free(p);
        v->memory_destroy(device, m);
        cuda_stub_alive(after, sizeof after);
        assert_string_equal(before, after);
        assert_non_null(strstr(text, "a plan's instance that was released stays until the device is closed"));
        assert_non_null(strstr(text, "memory that was released stays until the device is closed"));
        atomic_store(&context_is_refused, turn == 1);
        uint64_t abandoned = 0, begin = rota_clock_ns();
        /* Where it can be entered all is over soon; where not it gives up at its deadline. */
        v->close(device, rota_deadline_after(turn ? 200000000ull : 20000000000ull), &abandoned);
        assert_true(rota_clock_ns() - begin < 15000000000ull);
        assert_int_equal(cuda_stub_violations(after, sizeof after), 0);
        cuda_stub_alive(after, sizeof after);
        if (turn == 0) {
            assert_int_equal(abandoned, 0);
            assert_string_equal(after, "");
            free(host);
        } else {
            assert_true(abandoned >= 2 * BYTES);
            assert_string_equal(before, after);
            assert_non_null(strstr(text, "cannot be entered"));
        }
        cuda_stub_watch(NULL);
        cuda_stub_stop();
    }
}

static void test_out_of_memory(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *m = NULL, *held = cuda_memory(f, 4096, 0);
    static const struct {
        const char *function;
        uint64_t bytes;
        uint32_t flags;
    } ways[] = {{"MemAlloc", 12345, 0},
                {"MemCreate", 1234567, 0},
                {"MemSetAccess", 1234567, 0},
                {"MemHostAlloc", 54321, ROTA_EXEC_MEMORY_HOST_READ}};
    for (uint32_t i = 0; i < 4; i++) {
        char asked[32];
        snprintf(asked, sizeof asked, "%llu", (unsigned long long)ways[i].bytes);
        cuda_stub_fail(ways[i].function, 0, CUDA_ERROR_OUT_OF_MEMORY);
        assert_status(
            f->device->vtable->memory_create(f->device, ways[i].bytes, ways[i].flags, "weights", &m),
            ROTA_OUT_OF_MEMORY);
        assert_non_null(strstr(rota_last_error(), asked));
        assert_non_null(strstr(rota_last_error(), "'weights'"));
        assert_non_null(strstr(rota_last_error(), "holds 4096"));
        if (!ways[i].flags) assert_non_null(strstr(rota_last_error(), "12345 of 1073741824 are free"));
        assert_ok(f->device->vtable->memory_create(f->device, ways[i].bytes, ways[i].flags, "weights", &m));
        f->device->vtable->memory_destroy(f->device, m);
    }
    f->device->vtable->memory_destroy(f->device, held);
    cuda_close(f);
}

/* A wait for a value that its queue was not given, or of a queue that there is not, is not taken for one that
 * has ended: the work does not run, and the device is given up with those numbers. */
static void test_waits_for_nothing(void **state) {
    (void)state;
    static const struct {
        rota_exec_wait wait;
        const char *said;
    } ways[] = {{{1, 2}, "waits for value 2 of queue 1, "}, {{QUEUES, 0}, "waits for value 0 of queue 3, "}};
    for (uint32_t i = 0; i < 2; i++) {
        cuda_stub_start(5, 1);
        lost_host host = {0};
        rota_exec_open_options options = lost_host_options(&host, false);
        rota_exec_device *device;
        assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device));
        const rota_exec_device_vtable *v = device->vtable;
        const rota_exec_work well = {.queue = 1, .signal_value = 1},
                             bad = {.queue = 0, .signal_value = 1, .waits = &ways[i].wait, .wait_count = 1};
        assert_ok(v->submit(device, &well, 1));
        assert_true(wait_either(&host, 1, 1));
        assert_status(v->submit(device, &bad, 1), ROTA_INTERNAL);
        assert_non_null(strstr(rota_last_error(), ways[i].said));
        assert_true(lost_host_wait(&host));
        assert_non_null(strstr(host.message, ways[i].said));
        assert_int_equal(atomic_load(&host.host.reached[0]), 0);
        assert_int_equal(atomic_load(&host.host.reached[1]), 1);
        uint64_t abandoned = 1;
        v->close(device, rota_deadline_after(5000000000u), &abandoned);
        assert_int_equal(abandoned, 0);
        char text[128];
        if (cuda_stub_alive(text, sizeof text)) fail_msg("left: %s", text);
        cuda_stub_stop();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_function), cmocka_unit_test(test_each_function_hosted),
        cmocka_unit_test(test_fault),         cmocka_unit_test(test_endless),
        cmocka_unit_test(test_noisy),         cmocka_unit_test(test_no_context),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_waits_for_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
