/* Commands that decide on exec/cuda where the driver has no conditional nodes (cuda_script.c), over a stand-in for such
 * a driver: what else is handed over beside them, whom a value is said to, and what is left of a device that is lost in
 * between. What they compute: the contract's cases, test_decides_cuda, rota-fuzz. */
#include "tests/kit/support.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include "exec/cuda/cuda_instance.h"
#include "graph/conditional_internal.h"
#include "tests/exec/cuda/exec_cuda_kit.h"
#include "tests/kit/nap.h"

enum { SIZE = BYTES, WORD = 2 * BYTES, MEMORY = WORD + 16, ROUNDS = 100 };

/* x = 3 x + y + add: of a body, and of what else there is, so that their order shows. */
enum { CHOSEN = 1, PLAIN = 7 };
static const contract_step_params chosen_params = {COUNT, CHOSEN, 0}, plain_params = {COUNT, PLAIN, 0};

typedef struct deciding {
    test_program *program, *body;
    uint32_t *edges; /* of the body */
    const rota_exec_program_desc *bodies[1];
    rota_exec_conditional conditional;
} deciding;

static void put_step(test_program *p, const contract_step_params *params) {
    test_program_kernel(p, &contract_step, params);
    test_program_operand(p, 0, false, 0, SIZE, ROTA_READWRITE);
    test_program_operand(p, 0, false, SIZE, SIZE, ROTA_READ);
}

static test_program *new_program(void) {
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    return p;
}

/* One of this kind has a step run, by the word, which is set to `value` before, if anything is. */
static void begin(deciding *d, uint8_t kind, const uint32_t *value) {
    *d = (deciding){.program = new_program(), .body = new_program()};
    put_step(d->body, &chosen_params);
    d->edges = contract_edges(d->body);
    d->bodies[0] = &d->body->desc;
    d->conditional = (rota_exec_conditional){.kind = kind,
                                             .body_count = 1,
                                             .iterations_max = 100,
                                             .condition = {2, 0},
                                             .index = {UINT32_MAX, 0},
                                             .bodies = d->bodies};
    test_program *p = d->program;
    if (value) {
        test_program_fill(p, *value);
        test_program_operand(p, 0, false, WORD, 4, ROTA_WRITE);
        test_program_batch(p);
    }
    test_program_fill(p, 0);
    rota_exec_command *command = &p->commands[p->desc.command_count - 1];
    command->kind = ROTA_EXEC_COMMAND_CONDITIONAL;
    command->u.conditional = &d->conditional;
    test_program_operand(p, 0, false, 0, SIZE, ROTA_READWRITE);
    test_program_operand(p, 0, false, SIZE, SIZE, ROTA_READ);
    test_program_operand(p, 0, false, WORD, 4, ROTA_READ);
}

static void end(deciding *d) {
    free(d->edges);
    free(d->body);
    free(d->program);
}

static rota_exec_memory *new_memory(cuda_fixture *f) {
    rota_exec_memory *m = cuda_shared(f, MEMORY);
    for (uint32_t i = 0; i < 2 * COUNT; i++) ((uint32_t *)(void *)m->host)[i] = i;
    return m;
}

/* So many rounds of so many of each, the chosen ones first. */
static void expect_steps(const rota_exec_memory *m, uint32_t rounds, uint32_t chosen, uint32_t plain) {
    const uint32_t *x = (const uint32_t *)(const void *)m->host;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t want = i;
        for (uint32_t s = 0; s < rounds * (chosen + plain); s++)
            want = 3 * want + COUNT + i + (s % (chosen + plain) < chosen ? CHOSEN : PLAIN);
        if (x[i] != want) fail_msg("word %u after %u rounds: %u instead of %u", i, rounds, x[i], want);
    }
}

static cuda_fixture *open_hosted(void) {
    exec_cuda_hosted = true;
    cuda_fixture *f = cuda_open(NULL);
    assert_true(f->device->caps.runs_conditionals && f->device->caps.hosts_decisions);
    assert_int_equal(f->device->caps.timeline_queues, 0);
    return f;
}

/* ---- What comes after ---- */

/* One with an if, or a for of two; behind it, by waits, a step on another queue and on its own, and an if again. */
static void waits(uint8_t kind, uint32_t value) {
    cuda_fixture *f = open_hosted();
    rota_exec_memory *m = new_memory(f);
    deciding d;
    begin(&d, kind, &value);
    test_program *p = new_program();
    put_step(p, &plain_params);
    contract_loaded chosen = cuda_load(f, d.program, &m), plain = cuda_load(f, p, &m);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint64_t next = f->next[0] + 1, other = f->next[1] + 1;
        const rota_exec_wait before = {1, f->next[1]}, first = {0, next}, second = {1, other};
        const rota_exec_work works[3] = {cuda_work(f, chosen, 0, 0, &before, i != 0, NULL),
                                         cuda_work(f, plain, 0, 1, &first, 1, NULL),
                                         cuda_work(f, plain, 0, 0, &second, 1, NULL)};
        cuda_submit(f, works, 3);
        const rota_exec_wait own = {0, f->next[0]};
        const rota_exec_work last = cuda_work(f, plain, 0, 1, &own, 1, NULL);
        cuda_submit(f, &last, 1);
    }
    cuda_wait(f, 0);
    cuda_wait(f, 1);
    expect_steps(m, ROUNDS, value, 3);
    cuda_unload(f, chosen);
    cuda_unload(f, plain);
    f->device->vtable->memory_destroy(f->device, m);
    end(&d);
    free(p);
    cuda_close(f);
}

static void test_waits(void **state) {
    (void)state;
    waits(ROTA_CONDITIONAL_IF, 1);
    waits(ROTA_CONDITIONAL_FOR, 2);
}

/* The same instance in flight on two queues at once, which touch nothing but what they decide by; and what is behind
 * one on its queue without a wait is not reported before it. */
static void test_twice(void **state) {
    (void)state;
    cuda_fixture *f = open_hosted();
    rota_exec_memory *m = new_memory(f), *apart = new_memory(f);
    deciding d;
    begin(&d, ROTA_CONDITIONAL_FOR, NULL);
    d.bodies[0] = NULL;
    ((uint32_t *)(void *)m->host)[WORD / 4] = 9;
    test_program *p = new_program();
    put_step(p, &plain_params);
    contract_loaded chosen = cuda_load(f, d.program, &m), plain = cuda_load(f, p, &apart);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const rota_exec_wait before = {1, f->next[1]};
        const rota_exec_work works[3] = {cuda_work(f, chosen, 0, 0, NULL, 0, NULL),
                                         cuda_work(f, chosen, 0, 1, NULL, 0, NULL),
                                         cuda_work(f, plain, 0, 1, &before, i != 0, NULL)};
        cuda_submit(f, works, 3);
    }
    cuda_wait(f, 0);
    cuda_wait(f, 1);
    expect_steps(apart, ROUNDS, 0, 1);
    /* A step before the first iteration and one after each, of one at a time. */
    assert_int_equal(cuda_stub_calls("GraphLaunch"), ROUNDS * (2 * (1 + 9) + 1));
    cuda_unload(f, chosen);
    cuda_unload(f, plain);
    f->device->vtable->memory_destroy(f->device, m);
    f->device->vtable->memory_destroy(f->device, apart);
    end(&d);
    free(p);
    cuda_close(f);
}

/* ---- Who is told of its value ---- */

/* A stream of the application's has nothing to wait for until it has ended, and other devices of the GPU none to wait
 * for at all. */
static void test_told(void **state) {
    (void)state;
    cuda_fixture *f = open_hosted();
    const rota_exec_device_vtable *v = f->device->vtable;
    rota_cuda_device *device = (rota_cuda_device *)f->device;
    rota_exec_memory *m = new_memory(f);
    deciding d;
    begin(&d, ROTA_CONDITIONAL_FOR, &(uint32_t){3});
    contract_loaded chosen = cuda_load(f, d.program, &m);
    CUstream stream = NULL;
    assert_int_equal(rota_cuda_push(device), CUDA_SUCCESS);
    assert_int_equal(device->cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    rota_cuda_leave(device);
    for (uint32_t i = 1; i <= 5; i++) {
        const rota_exec_work work = cuda_work(f, chosen, 0, 0, NULL, 0, NULL);
        cuda_stub_hang("test_step"); /* in the body: what is before has run, and its event has come */
        cuda_submit(f, &work, 1);
        while (cuda_stub_calls("GraphLaunch") < 2 + 4 * (i - 1)) test_nap();
        assert_status(v->streams->wait(f->device, stream, 0, work.signal_value), ROTA_BUSY);
        assert_int_equal(atomic_load(&f->host.reached[0]), i - 1);
        cuda_stub_hang(NULL);
        cuda_wait(f, 0);
        assert_ok(v->streams->wait(f->device, stream, 0, work.signal_value));
    }
    expect_steps(m, 5, 3, 0);
    assert_int_equal(rota_cuda_push(device), CUDA_SUCCESS);
    assert_int_equal(device->cu->StreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(device->cu->StreamDestroy(stream), CUDA_SUCCESS);
    rota_cuda_leave(device);
    cuda_unload(f, chosen);
    v->memory_destroy(f->device, m);
    end(&d);
    cuda_close(f);
}

/* ---- Loss ---- */

/* Each call that the script makes fails: the device is lost with a sentence that names it, nothing of it is launched
 * any more, and its instance may go. */
static void test_lost(void **state) {
    (void)state;
    static const struct {
        const char *call;
        uint32_t skip;
        CUresult with;
    } ways[] = {{"GraphLaunch", 0, CUDA_ERROR_OUT_OF_MEMORY},  {"GraphLaunch", 2, CUDA_ERROR_OUT_OF_MEMORY},
                {"EventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY},  {"EventRecord", 3, CUDA_ERROR_ILLEGAL_ADDRESS},
                {"EventQuery", 0, CUDA_ERROR_ILLEGAL_ADDRESS}, {"EventQuery", 9, CUDA_ERROR_OUT_OF_MEMORY}};
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        lost_host host = {0};
        rota_exec_open_options options = lost_host_options(&host, true);
        cuda_stub_start(3 + i, 1);
        cuda_stub_version(12030);
        cuda_stub_kernel(&contract_step);
        cuda_fixture f = {0};
        assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &f.device));
        rota_exec_memory *m = new_memory(&f);
        deciding d;
        begin(&d, ROTA_CONDITIONAL_FOR, &(uint32_t){50});
        contract_loaded chosen = cuda_load(&f, d.program, &m);
        cuda_stub_fail(ways[i].call, ways[i].skip, ways[i].with);
        const rota_exec_work work = cuda_work(&f, chosen, 0, 0, NULL, 0, NULL);
        (void)f.device->vtable->submit(f.device, &work, 1);
        assert_true(lost_host_wait(&host));
        if (!strstr(host.message, ways[i].call))
            fail_msg("'%s' does not name %s", host.message, ways[i].call);
        const uint64_t launches = cuda_stub_calls("GraphLaunch");
        cuda_unload(&f, chosen);
        f.device->vtable->memory_destroy(f.device, m);
        uint64_t abandoned = 1;
        f.device->vtable->close(f.device, rota_deadline_after(10000000000ull), &abandoned);
        assert_int_equal(abandoned, 0);
        assert_int_equal(cuda_stub_calls("GraphLaunch"), launches);
        end(&d);
        char text[256];
        if (cuda_stub_violations(text, sizeof text)) fail_msg("way %u violated: %s", i, text);
        if (cuda_stub_alive(text, sizeof text)) fail_msg("way %u left in the driver: %s", i, text);
        cuda_stub_stop();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waits), cmocka_unit_test(test_twice),
                                       cmocka_unit_test(test_told), cmocka_unit_test(test_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
