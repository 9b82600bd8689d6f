/* Host functions that end later than they return: no worker waits for them, what depends on them does, however they end
 * and on whatever thread. */
#include <pthread.h>

#include "exec/cpu/device.h"
#include "graph/host_run.h"
#include "tests/exec/cpu/exec_cpu_kit.h"

enum { RUNS_MAX = 64 };

/* What a test's runs are, and who ends them. */
typedef struct later_kit {
    _Atomic(rota_host_run *) begun[RUNS_MAX];
    _Atomic uint32_t begins, skips;
    rota_status at_once; /* what begin returns */
    bool ends_inside;    /* begin ends the run itself */
    bool is_brief;       /* begin says so */
} later_kit;

static rota_status begin(void *user, void *const *operands, const uint64_t *bytes, uint32_t count,
                         rota_host_run *run) {
    later_kit *kit = user;
    (void)operands, (void)bytes, (void)count;
    if (kit->at_once != ROTA_OK) return rota_fail(kit->at_once, "refused at once");
    /* First, since the kit may go when the run has ended. */
    const uint32_t index = ra_fetch_add_acq_rel(&kit->begins, 1);
    if (kit->is_brief) run->is_brief(run);
    if (kit->ends_inside)
        rota_host_end(run, ROTA_OK);
    else
        ra_store_release(&kit->begun[index % RUNS_MAX], run);
    return ROTA_OK;
}

static void skipped(void *user) {
    ra_fetch_add_acq_rel(&((later_kit *)user)->skips, 1);
}

static const rota_host_later later = {begin, skipped};

static rota_host_run *take_run(later_kit *kit, uint32_t index) {
    rota_host_run *run;
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (!(run = ra_exchange_acq_rel(&kit->begun[index % RUNS_MAX], NULL))) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_us(20);
    }
    return run;
}

static void add_later(kit_program *p, later_kit *kit, uint32_t count, const rota_exec_operand *operands) {
    rota_exec_command *c = kit_node(p, ROTA_EXEC_COMMAND_HOST, count, operands);
    c->u.host.later = &later;
    c->u.host.user = kit;
}

static rota_status store_one(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)operands, (void)bytes, (void)count;
    ra_store_release((_Atomic uint32_t *)user, 1);
    return ROTA_OK;
}

static void add_host(kit_program *p, _Atomic uint32_t *flag, const rota_exec_operand *operand) {
    rota_exec_command *c = kit_node(p, ROTA_EXEC_COMMAND_HOST, operand ? 1 : 0, operand);
    c->u.host.fn = store_one;
    c->u.host.user = flag;
}

typedef struct opened {
    kit_host host;
    rota_exec_device *device;
    rota_exec_program *program;
    rota_exec_instance *instance;
    rota_exec_memory *memories[16];
    uint32_t memory_count;
    kit_program *kit;
} opened;

static void make_of(opened *o, uint32_t workers, bool diagnostics, kit_program *p, uint32_t memory_count) {
    o->device = kit_open(&o->host, workers, 2, diagnostics);
    o->kit = p;
    assert_ok(o->device->vtable->program_create(o->device, kit_finish(p, 0), &o->program));
    o->memory_count = memory_count;
    for (uint32_t i = 0; i < memory_count; i++) {
        assert_ok(o->device->vtable->memory_create(o->device, 64, 0, "m", &o->memories[i]));
        memset(o->memories[i]->host, 0, 64);
    }
    assert_ok(o->device->vtable->instance_create(o->device, o->program, o->memories, &o->instance));
}

static void make(opened *o, uint32_t workers, bool diagnostics, kit_program *p) {
    make_of(o, workers, diagnostics, p, 1);
}

static void end(opened *o) {
    o->device->vtable->instance_destroy(o->device, o->instance);
    o->device->vtable->program_destroy(o->device, o->program);
    for (uint32_t i = 0; i < o->memory_count; i++)
        o->device->vtable->memory_destroy(o->device, o->memories[i]);
    kit_close(o->device);
    kit_free(o->kit);
}

/* One worker: an independent node runs while the other has not ended, and a dependent one does not. */
static void no_worker_waits(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        later_kit runs = {.at_once = ROTA_OK};
        _Atomic uint32_t dependent = 0, independent = 0;
        const rota_exec_operand written = kit_at(0, 0, 4, ROTA_WRITE), read = kit_at(0, 0, 4, ROTA_READ);
        kit_program *p = kit_begin(3, 1, 0);
        add_later(p, &runs, 1, &written);
        add_host(p, &dependent, &read);
        add_host(p, &independent, NULL);
        opened o;
        make(&o, workers, false, p);
        kit_submit(o.device, o.instance, 0, 1, NULL, 0, NULL);
        rota_host_run *run = take_run(&runs, 0);
        const uint64_t deadline = rota_deadline_after(10000000000u);
        while (!ra_load_acquire(&independent)) {
            assert_true(rota_clock_ns() < deadline);
            test_nap_us(20);
        }
        rota_exec_stuck stuck = {.node = 99, .iterations = 99};
        do assert_true(o.device->vtable->stuck_node(o.device, o.instance, &stuck));
        while (stuck.node == 2 && rota_clock_ns() < deadline); /* its worker has not returned from it yet */
        assert_int_equal(stuck.node, 0);
        assert_int_equal(stuck.iterations, 0);
        assert_int_equal(ra_load_acquire(&dependent), 0);
        assert_int_equal(ra_load_acquire(&o.host.timeline[0]), 0);
        rota_host_end(run, ROTA_OK);
        kit_wait(&o.host, 0, 1);
        assert_int_equal(ra_load_acquire(&dependent), 1);
        assert_false(o.device->vtable->stuck_node(o.device, o.instance, &stuck));
        end(&o);
    }
}

static void add_noting(kit_program *p, const rota_exec_operand *operand) {
    (void)kit_kernel(p, &count_kernel, NULL, 1, operand);
}

static void wait_for_notes(const _Atomic uint32_t *note, uint32_t count) {
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (ra_load_acquire(note) < count) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_us(20);
    }
}

/* Short nodes that would be gathered in one unit: each waits for what it comes after, and for nothing else that ends
 * later. Two functions that end later, each with memory of its own and two nodes after it, and two that
 * come after neither before and behind. */
static void units_wait_for_no_others(void **state) {
    (void)state;
    for (uint32_t first_ended = 0; first_ended < 2; first_ended++) {
        later_kit runs[2] = {{.at_once = ROTA_OK}, {.at_once = ROTA_OK}};
        kit_program *p = kit_begin(10, 4, 0);
        for (uint32_t l = 0; l < 2; l++) {
            const rota_exec_operand after = kit_at(l, 0, 4, ROTA_READWRITE),
                                    alone = kit_at(l + 2, 0, 4, ROTA_READWRITE);
            add_noting(p, &alone);
            add_later(p, &runs[l], 1, &after);
            add_noting(p, &after);
            add_noting(p, &after);
            add_noting(p, &alone);
        }
        opened o;
        make_of(&o, 2, false, p, 4);
        const _Atomic uint32_t *notes[4];
        for (uint32_t i = 0; i < 4; i++) notes[i] = o.memories[i]->host;
        kit_submit(o.device, o.instance, 0, 1, NULL, 0, NULL);
        wait_for_notes(notes[2], 2);
        wait_for_notes(notes[3], 2);
        rota_host_run *begun[2] = {take_run(&runs[0], 0), take_run(&runs[1], 0)};
        assert_int_equal(ra_load_acquire(notes[0]) + ra_load_acquire(notes[1]), 0);
        rota_host_end(begun[first_ended], ROTA_OK);
        wait_for_notes(notes[first_ended], 2);
        assert_int_equal(ra_load_acquire(notes[!first_ended]), 0);
        assert_int_equal(ra_load_acquire(&o.host.timeline[0]), 0);
        rota_host_end(begun[!first_ended], ROTA_OK);
        kit_wait(&o.host, 0, 1);
        for (uint32_t i = 0; i < 4; i++) assert_int_equal(ra_load_acquire(notes[i]), 2);
        end(&o);
    }
}

/* ---- Order ---- */

enum { STEPS = 6 };

/* A backward pass of one worker: each step leads to the next, and to a node behind which something ends later. */
typedef struct early_kit {
    _Atomic uint32_t steps;           /* done */
    _Atomic uint32_t at_begin[STEPS]; /* that were done when it began */
} early_kit;
typedef struct early_later {
    early_kit *kit;
    uint32_t index;
} early_later;

static rota_status count_step(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)operands, (void)bytes, (void)count;
    ra_fetch_add_acq_rel((_Atomic uint32_t *)user, 1);
    return ROTA_OK;
}

static rota_status begin_early(void *user, void *const *operands, const uint64_t *bytes, uint32_t count,
                               rota_host_run *run) {
    const early_later *own = user;
    (void)operands, (void)bytes, (void)count;
    ra_store_release(&own->kit->at_begin[own->index], ra_load_acquire(&own->kit->steps));
    rota_host_end(run, ROTA_OK);
    return ROTA_OK;
}

static void skip_early(void *user) {
    (void)user;
}

/* What ends later begins when what it waits for is there, not when everything else is done. */
static void what_ends_later_begins_early(void **state) {
    (void)state;
    static const rota_host_later ends_early = {begin_early, skip_early};
    for (uint32_t side_first = 0; side_first < 2; side_first++) {
        early_kit kit = {.steps = 0};
        early_later laters[STEPS];
        _Atomic uint32_t sides = 0;
        kit_program *p = kit_begin(1 + 3 * STEPS, 1 + 2 * STEPS, 0);
        const rota_exec_operand first = kit_at(0, 0, 4, ROTA_WRITE);
        add_host(p, &sides, &first);
        for (uint32_t i = 0; i < STEPS; i++) {
            const rota_exec_operand step[] = {kit_at(i, 0, 4, ROTA_READ), kit_at(i + 1, 0, 4, ROTA_WRITE)},
                                    side[] = {kit_at(i, 0, 4, ROTA_READ),
                                              kit_at(1 + STEPS + i, 0, 4, ROTA_WRITE)},
                                    result = kit_at(1 + STEPS + i, 0, 4, ROTA_READ);
            for (uint32_t k = 0; k < 2; k++) {
                const bool is_side = (k == 0) == (side_first == 1);
                rota_exec_command *c = kit_node(p, ROTA_EXEC_COMMAND_HOST, 2, is_side ? side : step);
                c->u.host.fn = count_step;
                c->u.host.user = is_side ? &sides : &kit.steps;
            }
            laters[i] = (early_later){&kit, i};
            rota_exec_command *c = kit_node(p, ROTA_EXEC_COMMAND_HOST, 1, &result);
            c->u.host.later = &ends_early;
            c->u.host.user = &laters[i];
        }
        opened o;
        make_of(&o, 1, false, p, 1 + 2 * STEPS);
        kit_submit(o.device, o.instance, 0, 1, NULL, 0, NULL);
        kit_wait(&o.host, 0, 1);
        for (uint32_t i = 0; i < STEPS; i++) assert_in_range(ra_load_acquire(&kit.at_begin[i]), 0, i + 1);
        end(&o);
    }
}

static void *end_all(void *user) {
    later_kit *kit = user;
    for (uint32_t i = 0; i < 2000; i++) rota_host_end(take_run(kit, i), ROTA_OK);
    return NULL;
}

/* One instance again and again, ended by another thread, or by `begin` before it returns. */
static void many_runs(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 4; way++) {
        const uint32_t inside = way % 2;
        later_kit runs = {.ends_inside = inside != 0, .is_brief = way > 1};
        _Atomic uint32_t dependent = 0;
        const rota_exec_operand written = kit_at(0, 0, 4, ROTA_WRITE), read = kit_at(0, 0, 4, ROTA_READ);
        kit_program *p = kit_begin(2, 1, 0);
        add_later(p, &runs, 1, &written);
        add_host(p, &dependent, &read);
        opened o;
        make(&o, 2, false, p);
        pthread_t ender;
        if (!inside) assert_int_equal(pthread_create(&ender, NULL, end_all, &runs), 0);
        for (uint64_t i = 1; i <= 2000; i++) kit_submit(o.device, o.instance, 0, i, NULL, 0, NULL);
        kit_wait(&o.host, 0, 2000);
        if (!inside) assert_int_equal(pthread_join(ender, NULL), 0);
        assert_int_equal(ra_load_acquire(&o.host.disorder), 0);
        assert_int_equal(ra_load_acquire(&runs.begins), 2000);
        end(&o);
    }
}

/* After a brief run a worker looks for a while; then all sleep. */
static void all_sleep_after_brief_ones(void **state) {
    (void)state;
    for (uint32_t is_brief = 0; is_brief < 2; is_brief++) {
        later_kit runs = {.is_brief = is_brief != 0};
        const rota_exec_operand written = kit_at(0, 0, 4, ROTA_WRITE);
        kit_program *p = kit_begin(1, 1, 0);
        add_later(p, &runs, 1, &written);
        opened o;
        make(&o, 2, false, p);
        const rota_cpu_device *device = rota_cpu_device_of(o.device);
        const uint64_t began = rota_clock_ns();
        kit_submit(o.device, o.instance, 0, 1, NULL, 0, NULL);
        rota_host_run *run = take_run(&runs, 0);
        const uint64_t until = ra_load_relaxed(&device->tasks.looks_until_ns);
        assert_true(is_brief ? until > began : until == 0);
        test_nap_us(100);
        rota_host_end(run, ROTA_OK);
        kit_wait(&o.host, 0, 1);
        assert_true(ra_load_relaxed(&device->tasks.looks_until_ns) >= until + (is_brief ? 100000 : 0));
        const uint64_t deadline = rota_deadline_after(10000000000u);
        while (ra_load_seq_cst(&device->tasks.idle[0]) != 3) {
            assert_true(rota_clock_ns() < deadline);
            test_nap_us(100);
        }
        assert_int_equal(ra_load_seq_cst(&device->tasks.searchers), 0);
        end(&o);
    }
}

static void failures_are_told(void **state) {
    (void)state;
    later_kit runs = {.at_once = ROTA_OK};
    const rota_exec_operand written = kit_at(0, 0, 4, ROTA_WRITE);
    kit_program *p = kit_begin(1, 1, 0);
    add_later(p, &runs, 1, &written);
    opened o;
    make(&o, 1, true, p);
    kit_submit(o.device, o.instance, 0, 1, NULL, 0, NULL);
    rota_host_end(take_run(&runs, 0), rota_fail(ROTA_TIMEOUT, "rank 3 did not come"));
    kit_wait(&o.host, 0, 1);
    assert_int_equal(ra_load_acquire(&o.host.failures), 1);
    assert_string_equal(o.host.message, "rank 3 did not come");
    /* Left out, and told so; then a success that is reported while something has failed. */
    ra_store_release(&o.host.skip[0], 1);
    kit_submit(o.device, o.instance, 0, 2, NULL, 0, NULL);
    kit_wait(&o.host, 0, 2);
    assert_int_equal(ra_load_acquire(&runs.skips), 1);
    rota_exec_time time;
    assert_ok(o.device->vtable->times(o.device, o.instance, &time));
    assert_int_equal(time.begin_ns, 0);
    ra_store_release(&o.host.skip[0], 0);
    kit_submit(o.device, o.instance, 0, 3, NULL, 0, NULL);
    rota_host_end(take_run(&runs, 1), ROTA_OK);
    kit_wait(&o.host, 0, 3);
    assert_int_equal(ra_load_acquire(&o.host.successes), 1);
    assert_ok(o.device->vtable->times(o.device, o.instance, &time));
    assert_true(time.begin_ns != 0 && time.end_ns >= time.begin_ns);
    runs.at_once = ROTA_WRONG_STATE;
    kit_submit(o.device, o.instance, 0, 4, NULL, 0, NULL);
    kit_wait(&o.host, 0, 4);
    assert_int_equal(ra_load_acquire(&o.host.failures), 2);
    assert_string_equal(o.host.message, "refused at once");
    end(&o);
}

/* A second end of a run is nobody's: nothing comes twice, and nothing stands still. */
static void ended_twice(void **state) {
    (void)state;
    later_kit runs = {.at_once = ROTA_OK};
    kit_program *p = kit_begin(2, 2, 0);
    const rota_exec_operand first = kit_at(0, 0, 4, ROTA_READWRITE), second = kit_at(1, 0, 4, ROTA_READWRITE);
    add_later(p, &runs, 1, &first);
    add_later(p, &runs, 1, &second); /* keeps the work, and so the first run's memory */
    opened o;
    make_of(&o, 1, false, p, 2);
    for (uint64_t i = 1; i <= 50; i++) {
        kit_submit(o.device, o.instance, 0, i, NULL, 0, NULL);
        rota_host_run *run = take_run(&runs, 2 * ((uint32_t)i - 1));
        for (uint32_t twice = 0; twice < 3; twice++) rota_host_end(run, ROTA_OK);
        rota_host_end(take_run(&runs, 2 * ((uint32_t)i - 1) + 1), ROTA_OK);
        kit_wait(&o.host, 0, i);
    }
    assert_int_equal(ra_load_acquire(&runs.begins), 100);
    end(&o);
}

static void *end_in_a_while(void *user) {
    test_nap_us(50000);
    rota_host_end(user, ROTA_OK);
    return NULL;
}

/* Close waits for a run that ends in time. */
static void close_waits(void **state) {
    (void)state;
    later_kit runs = {.at_once = ROTA_OK};
    kit_program *p = kit_begin(1, 1, 0);
    add_later(p, &runs, 0, NULL);
    opened o;
    make(&o, 1, false, p);
    kit_submit(o.device, o.instance, 0, 1, NULL, 0, NULL);
    pthread_t ender;
    assert_int_equal(pthread_create(&ender, NULL, end_in_a_while, take_run(&runs, 0)), 0);
    uint64_t abandoned = 1;
    o.device->vtable->close(o.device, rota_deadline_after(10000000000u), &abandoned);
    assert_int_equal(abandoned, 0);
    assert_int_equal(pthread_join(ender, NULL), 0);
    kit_free(p);
}

/* And abandons the device where one does not end; what ends then touches nothing that is gone. */
static void close_abandons(void **state) {
    (void)state;
    later_kit runs = {.at_once = ROTA_OK};
    kit_program *p = kit_begin(1, 1, 0);
    add_later(p, &runs, 0, NULL);
    opened o;
    make(&o, 1, false, p);
    kit_submit(o.device, o.instance, 0, 1, NULL, 0, NULL);
    rota_host_run *run = take_run(&runs, 0);
    uint64_t abandoned = 0;
    const uint64_t begin_ns = rota_clock_ns();
    o.device->vtable->close(o.device, rota_deadline_after(20000000), &abandoned);
    assert_true(abandoned != 0);
    assert_true(rota_clock_ns() - begin_ns < 5000000000u);
    rota_host_end(run, ROTA_OK);
    kit_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_worker_waits),
        cmocka_unit_test(many_runs),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(units_wait_for_no_others),
        cmocka_unit_test(ended_twice),
        cmocka_unit_test(close_waits),
        cmocka_unit_test(close_abandons),
        cmocka_unit_test(what_ends_later_begins_early),
        cmocka_unit_test(all_sleep_after_brief_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
