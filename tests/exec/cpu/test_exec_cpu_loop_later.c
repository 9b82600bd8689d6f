/* A command that decides beside a host function that ends later, in one program: neither waits for the other, and both
 * are there when the device is closed or lost. In a body no function may end later. */
#include <pthread.h>

#include "exec/cpu/device.h"
#include "graph/conditional_internal.h"
#include "tests/exec/cpu/exec_cpu_kit.h"

/* ---- The function that ends later ---- */

static rota_status begin(void *user, void *const *operands, const uint64_t *bytes, uint32_t count,
                         rota_host_run *run) {
    (void)operands, (void)bytes, (void)count;
    ra_store_release((_Atomic(rota_host_run *) *)user, run);
    return ROTA_OK;
}
static const rota_host_later later = {begin, NULL};

static rota_host_run *take_run(_Atomic(rota_host_run *) *begun) {
    rota_host_run *run;
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (!(run = ra_exchange_acq_rel(begun, NULL))) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_us(20);
    }
    return run;
}

static void add_later(kit_program *p, _Atomic(rota_host_run *) *begun, const rota_exec_operand *operand) {
    rota_exec_command *c = kit_node(p, ROTA_EXEC_COMMAND_HOST, 1, operand);
    c->u.host.later = &later;
    c->u.host.user = begun;
}

/* ---- A while, and its body ---- */

enum { WIDE_BYTES = 1 << 20 };

typedef enum body_kind { NARROW, WIDE, EMPTY, BODY_KINDS } body_kind;

typedef struct loop {
    rota_exec_conditional conditional;
    const rota_exec_program_desc *bodies[1];
    kit_program *body;
} loop;

/* Memory 0 has the condition, which the body counts up and never is 0, and what the body works on if it is wide. */
static void make_loop(loop *l, uint32_t memory_count, body_kind kind) {
    static const uint32_t salt = 7;
    const rota_exec_operand condition = kit_at(0, 0, 4, ROTA_READWRITE);
    const rota_exec_operand wide = kit_at(1, 0, WIDE_BYTES, ROTA_READWRITE);
    l->body = kit_begin(2, memory_count, 0);
    (void)kit_kernel(l->body, &count_kernel, NULL, 1, &condition);
    if (kind == WIDE) (void)kit_kernel(l->body, &mix_split, &salt, 1, &wide);
    l->bodies[0] = kit_finish(l->body, 0);
    if (kind == EMPTY) l->bodies[0] = NULL;
    l->conditional = (rota_exec_conditional){.kind = ROTA_CONDITIONAL_WHILE,
                                             .body_count = 1,
                                             .iterations_max = UINT64_MAX,
                                             .condition = {0, 0},
                                             .index = {.operand = UINT32_MAX},
                                             .bodies = l->bodies};
}

static void add_loop(kit_program *p, const loop *l) {
    const rota_exec_operand operands[] = {kit_at(0, 0, 4, ROTA_READWRITE),
                                          kit_at(1, 0, WIDE_BYTES, ROTA_READWRITE)};
    rota_exec_command *c = kit_node(p, ROTA_EXEC_COMMAND_CONDITIONAL, 2, operands);
    memset(&c->u, 0xff, sizeof c->u); /* a description is read as its kind says */
    c->u.conditional = &l->conditional;
}

/* ---- Both, under way ---- */

typedef struct both {
    kit_host host;
    rota_exec_device *device;
    rota_exec_program *program;
    rota_exec_instance *instance;
    rota_exec_memory *memories[3];
    _Atomic(rota_host_run *) begun;
    loop loop;
    kit_program *kit;
} both;

static _Atomic uint32_t *condition_of(both *b) {
    return b->memories[0]->host;
}

static void open_both(both *b, body_kind kind, uint32_t condition) {
    const rota_exec_operand written = kit_at(2, 0, 4, ROTA_WRITE);
    b->device = kit_open(&b->host, 2, 2, false);
    ra_store_release(&b->begun, NULL);
    make_loop(&b->loop, 3, kind);
    b->kit = kit_begin(2, 3, 0);
    add_later(b->kit, &b->begun, &written); /* the worker that begins it can go on with the loop */
    add_loop(b->kit, &b->loop);
    assert_ok(b->device->vtable->program_create(b->device, kit_finish(b->kit, 0), &b->program));
    static const uint64_t bytes[3] = {64, WIDE_BYTES, 64};
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(b->device->vtable->memory_create(b->device, bytes[i], 0, "m", &b->memories[i]));
        memset(b->memories[i]->host, 0, bytes[i]);
    }
    ra_store_release(condition_of(b), condition);
    assert_ok(b->device->vtable->instance_create(b->device, b->program, b->memories, &b->instance));
}

static void wait_for_rounds(both *b, uint32_t more) {
    const uint32_t from = ra_load_acquire(condition_of(b));
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (ra_load_acquire(condition_of(b)) - from < more) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_us(20);
    }
}

/* Both have begun; the loop goes round while the function has not ended, which an empty one does unseen. */
static rota_host_run *begin_both(both *b) {
    kit_submit(b->device, b->instance, 0, 1, NULL, 0, NULL);
    rota_host_run *run = take_run(&b->begun);
    if (b->loop.bodies[0]) wait_for_rounds(b, 10);
    return run;
}

static void free_both(both *b) {
    kit_free(b->kit);
    kit_free(b->loop.body);
}

/* What is stuck is the function once the loop has nothing to do, and nothing once both have ended. */
static void a_loop_of_none_beside_it(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < BODY_KINDS; kind++) {
        both b;
        open_both(&b, (body_kind)kind, 0);
        for (uint64_t i = 1; i <= 20; i++) {
            kit_submit(b.device, b.instance, 0, i, NULL, 0, NULL);
            rota_host_run *run = take_run(&b.begun);
            rota_exec_stuck stuck = {.node = 99, .iterations = 99};
            assert_true(b.device->vtable->stuck_node(b.device, b.instance, &stuck));
            assert_int_equal(stuck.node, 0);
            assert_int_equal(stuck.iterations, 0);
            assert_int_equal(ra_load_acquire(&b.host.timeline[0]), i - 1);
            rota_host_end(run, ROTA_OK);
            kit_wait(&b.host, 0, i);
            assert_false(b.device->vtable->stuck_node(b.device, b.instance, &stuck));
        }
        b.device->vtable->instance_destroy(b.device, b.instance);
        b.device->vtable->program_destroy(b.device, b.program);
        for (uint32_t i = 0; i < 3; i++) b.device->vtable->memory_destroy(b.device, b.memories[i]);
        kit_close(b.device);
        free_both(&b);
    }
}

static void *end_in_a_while(void *user) {
    test_nap_us(50000);
    rota_host_end(user, ROTA_OK);
    return NULL;
}

/* Close ends the loop at an iteration and waits for the run. */
static void close_waits(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < BODY_KINDS; kind++) {
        both b;
        open_both(&b, (body_kind)kind, 1);
        pthread_t ender;
        assert_int_equal(pthread_create(&ender, NULL, end_in_a_while, begin_both(&b)), 0);
        uint64_t abandoned = 1;
        b.device->vtable->close(b.device, rota_deadline_after(10000000000u), &abandoned);
        assert_int_equal(abandoned, 0);
        assert_int_equal(pthread_join(ender, NULL), 0);
        free_both(&b);
    }
}

/* And abandons the device where that does not end; the end touches nothing that is gone. */
static void close_abandons(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < BODY_KINDS; kind++) {
        both b;
        open_both(&b, (body_kind)kind, 1);
        rota_host_run *run = begin_both(&b);
        uint64_t abandoned = 0;
        const uint64_t begin_ns = rota_clock_ns();
        b.device->vtable->close(b.device, rota_deadline_after(20000000), &abandoned);
        assert_true(abandoned != 0);
        assert_true(rota_clock_ns() - begin_ns < 5000000000u);
        rota_host_end(run, ROTA_OK);
        free_both(&b);
    }
}

/* A lost device runs no further iteration, and says that it is lost when the run has ended. */
static void loss_waits(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < BODY_KINDS; kind++) {
        both b;
        open_both(&b, (body_kind)kind, 1);
        rota_host_run *run = begin_both(&b);
        rota_cpu_device *device = rota_cpu_device_of(b.device);
        rota_cpu_lose(device, "given up by a test");
        const uint64_t parked_by = rota_deadline_after(10000000000u);
        while (ra_load_acquire(&device->end.parked) != device->worker_count) { /* none is in an iteration */
            assert_true(rota_clock_ns() < parked_by);
            test_nap_us(20);
        }
        const uint32_t rounds = ra_load_acquire(condition_of(&b));
        test_nap_us(20000);
        assert_int_equal(ra_load_acquire(condition_of(&b)), rounds);
        assert_int_equal(ra_load_acquire(&b.host.losses), 0);
        rota_host_end(run, ROTA_OK);
        const uint64_t deadline = rota_deadline_after(10000000000u);
        while (ra_load_acquire(&b.host.losses) == 0) {
            assert_true(rota_clock_ns() < deadline);
            test_nap_us(20);
        }
        assert_int_equal(ra_load_acquire(&b.host.timeline[0]), 0);
        uint64_t abandoned = 1;
        b.device->vtable->close(b.device, rota_deadline_after(10000000000u), &abandoned);
        assert_int_equal(abandoned, 0);
        free_both(&b);
    }
}

/* ---- In a body ---- */

static void none_in_bodies(void **state) {
    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        kit_host host;
        _Atomic(rota_host_run *) begun = NULL;
        const rota_exec_operand operand = kit_at(0, 0, 4, ROTA_READWRITE);
        kit_program *programs[3];
        loop loops[2];
        programs[0] = kit_begin(1, 1, 0);
        add_later(programs[0], &begun, &operand);
        for (uint32_t d = 0; d < depth; d++) {
            loops[d].bodies[0] = kit_finish(programs[d], 0);
            loops[d].conditional = (rota_exec_conditional){.kind = ROTA_CONDITIONAL_WHILE,
                                                           .body_count = 1,
                                                           .iterations_max = 1,
                                                           .index = {.operand = UINT32_MAX},
                                                           .bodies = loops[d].bodies};
            programs[d + 1] = kit_begin(1, 1, 0);
            rota_exec_command *c = kit_node(programs[d + 1], ROTA_EXEC_COMMAND_CONDITIONAL, 1, &operand);
            c->u.conditional = &loops[d].conditional;
        }
        rota_exec_device *device = kit_open(&host, 1, 1, false);
        rota_exec_program *program = NULL;
        assert_status(device->vtable->program_create(device, kit_finish(programs[depth], 0), &program),
                      ROTA_UNSUPPORTED);
        expect_said("node 'test node' of body 'kit' ends later than its function");
        assert_null(program);
        kit_close(device);
        for (uint32_t i = 0; i <= depth; i++) kit_free(programs[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_of_none_beside_it), cmocka_unit_test(close_waits),
        cmocka_unit_test(close_abandons),           cmocka_unit_test(loss_waits),
        cmocka_unit_test(none_in_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
