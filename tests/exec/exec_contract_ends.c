/* Cases of the executor contract: what is refused, what fails, what is left, and ends. */
#include "tests/exec/exec_contract.h"
#include "tests/kit/nap.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/atomic.h"
#include "base/clock.h"

#define COUNT CONTRACT_COUNT
#define BYTES CONTRACT_BYTES
#define QUEUES CONTRACT_QUEUES

/* ---- Devices ---- */

static void refused_open(const contract_kit *kit, uint32_t index, uint32_t queue_count, rota_status status) {
    contract *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->kit = kit;
    rota_exec_open_options options = {.host = {.user = &c->host},
                                      .queue_count = queue_count,
                                      .transfer_queue = UINT32_MAX,
                                      .cache_dir = ""};
    if (kit->before_open) kit->before_open(c, &options);
    rota_exec_device *device = NULL;
    assert_status(kit->driver->open(kit->driver, index, &options, &device), status);
    assert_null(device);
    assert_true(strlen(rota_last_error()) > 0);
    if (kit->after_close) kit->after_close(c);
    free(c);
}

/* What is listed has names, and says what it lacks; what is not listed, and more queues than there can be, is
 * refused. */
void contract_listing(const contract_kit *kit) {
    rota_device_info infos[8];
    uint32_t count = 77;
    contract passing = {.kit = kit};
    rota_exec_open_options options = {.queue_count = 1};
    if (kit->before_open) kit->before_open(&passing, &options);
    assert_ok(kit->driver->enumerate(kit->driver, infos, 8, &count));
    if (count == 0) assert_true(strlen(rota_last_error()) > 0);
    if (kit->after_close) kit->after_close(&passing);
    contract_close(contract_open(kit, NULL)); /* skips where there is none */
    assert_true(count > 0);
    for (uint32_t i = 0; i < count && i < 8; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%s:%u", kit->driver->name, i);
        if (i || strcmp(infos[i].id, kit->driver->name) != 0) assert_string_equal(infos[i].id, id);
        assert_true(strlen(infos[i].name) > 0);
        assert_int_equal(infos[i].usable, infos[i].missing[0] == 0);
        print_message("%s: %s, %s, %s%s, features %x, %u push-constant bytes\n", infos[i].id, infos[i].name,
                      infos[i].driver, infos[i].usable ? "usable" : "lacks ", infos[i].missing,
                      infos[i].features, infos[i].max_push_constant_bytes);
    }
    refused_open(kit, count, 1, ROTA_NOT_FOUND);
    refused_open(kit, 0, 0, ROTA_INVALID_ARGUMENT);
    refused_open(kit, 0, ROTA_EXEC_QUEUES_MAX + 1, ROTA_INVALID_ARGUMENT);
}

/* ---- Refusals ---- */

/* What cannot run is refused with names and numbers. */
void contract_refusals(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *m = NULL;
    const uint64_t most = c->device->info.max_allocation_bytes;
    assert_status(c->v->memory_create(c->device, most + 1, 0, "too big", &m), ROTA_OUT_OF_MEMORY);
    assert_non_null(strstr(rota_last_error(), "too big"));
    assert_status(c->v->memory_create(c->device, 0, 0, "nothing at all", &m), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "nothing at all"));
    assert_null(m);
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(1, &params);
    uint32_t *edges = contract_edges(p);
    rota_exec_program *program = NULL;
    const rota_kernel none = {.name = "of no executor", .operand_count = 2, .param_bytes = sizeof params};
    p->commands[0].u.kernel.kernel = &none;
    assert_status(c->v->program_create(c->device, &p->desc, &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "of no executor"));
    if (!c->device->caps.runs_counted) {
        p->commands[0].u.kernel.kernel = &contract_step;
        p->commands[0].is_counted = true;
        assert_status(c->v->program_create(c->device, &p->desc, &program), ROTA_UNSUPPORTED);
        assert_non_null(strstr(rota_last_error(), "counted"));
    }
    if (!c->device->caps.runs_host_nodes) {
        p->commands[0].kind = ROTA_EXEC_COMMAND_HOST;
        assert_status(c->v->program_create(c->device, &p->desc, &program), ROTA_UNSUPPORTED);
    }
    if (!c->device->caps.runs_conditionals) {
        static const rota_exec_conditional nothing = {.body_count = 0};
        p->commands[0].kind = ROTA_EXEC_COMMAND_CONDITIONAL;
        p->commands[0].u.conditional = &nothing;
        assert_status(c->v->program_create(c->device, &p->desc, &program), ROTA_UNSUPPORTED);
    }
    assert_null(program);
    free(edges);
    free(p);
    contract_close(c);
}

/* ---- Failures ---- */

static rota_status fail_run(const rota_kernel_call *call) {
    if (call->begin != 0) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_RANGE, "row 9 of 4 in a test");
}

static const rota_kernel failing = {.name = "fail", .operand_count = 2, .cpu = {.fn = fail_run}};

/* A command that fails is reported with its node and sentence, before its work's value; what must be skipped
 * then does not run, and the rest goes on. On executors that run C functions. */
void contract_failures(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    if (c->device->info.kind != ROTA_EXEC_CPU) {
        contract_close(c);
        print_message("skipped: its kernels cannot fail\n");
        skip();
    }
    rota_exec_memory *memories[] = {contract_mapped(c, 4 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < 4 * COUNT; i++) x[i] = i;
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < 3; i++) {
        if (i < 2) test_program_batch(p);
        test_program_kernel(p, i ? &contract_step : &failing, &params);
        test_program_operand(p, 0, false, i * BYTES, BYTES,
                             ROTA_READWRITE); /* 0 fails, 1 reads it, 2 does not */
        test_program_operand(p, 0, false, i == 1 ? 0 : 3 * BYTES, BYTES, ROTA_READ);
    }
    contract_loaded l = contract_load(c, p, memories);
    ra_store_release(&c->host.skipped, 1 + 1);
    contract_run(c, l, NULL);
    assert_int_equal(ra_load_acquire(&c->host.failures), 1);
    assert_int_equal(ra_load_acquire(&c->host.failed_node), 0);
    assert_string_equal(c->host.message, "row 9 of 4 in a test");
    assert_int_equal(ra_load_acquire(&c->host.successes), 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(x[COUNT + i], COUNT + i);
        assert_int_equal(x[2 * COUNT + i], contract_stepped(2 * COUNT + i, 3 * COUNT + i, 1));
    }
    contract_unload(c, l);
    free(p);
    contract_close(c);
}

/* ---- What is left ---- */

/* Compile and destroy rounds leave nothing behind. */
void contract_leaks(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[] = {contract_memory(c, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
    const contract_step_params params = {COUNT, 1, 0};
    uint64_t held = 0;
    for (uint32_t round = 0; round < 100; round++) {
        test_program *p = contract_chain(4, &params);
        p->desc.block_words = 1 + round % 3 * 100;
        test_program_binding(p, 0, 0);
        contract_loaded l = contract_load(c, p, memories);
        uint64_t block[256] = {0};
        contract_run(c, l, block);
        contract_unload(c, l);
        free(p);
        if (round == 10) held = kit->in_use(c);
        if (round > 10) assert_int_equal(kit->in_use(c), held);
    }
    contract_close(c);
}

/* Memories, programs and instances come and go on several threads while works are submitted. */
static void *churn(void *argument) {
    contract *c = argument;
    const contract_step_params params = {COUNT, 1, 0};
    for (uint32_t round = 0; round < 30; round++) {
        test_program *p = contract_chain(2 + round % 3, &params);
        uint32_t *edges = contract_edges(p);
        p->desc.block_words = round % 2;
        rota_exec_memory *m = NULL;
        rota_exec_program *program = NULL;
        rota_exec_instance *instance = NULL;
        const bool good = c->v->memory_create(c->device, 2 * BYTES, 0, "churn", &m) == ROTA_OK &&
                          c->v->program_create(c->device, &p->desc, &program) == ROTA_OK &&
                          c->v->instance_create(c->device, program, &m, &instance) == ROTA_OK;
        if (!good) return p; /* not NULL: the thread failed */
        c->v->instance_destroy(c->device, instance);
        c->v->program_destroy(c->device, program);
        c->v->memory_destroy(c->device, m);
        free(edges);
        free(p);
    }
    return NULL;
}

void contract_threads(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[] = {contract_mapped(c, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(1, &params);
    contract_loaded l = contract_load(c, p, memories);
    pthread_t threads[3];
    for (uint32_t t = 0; t < 3; t++) assert_int_equal(pthread_create(&threads[t], NULL, churn, c), 0);
    for (uint32_t i = 0; i < 200; i++) {
        const rota_exec_wait wait = {.queue = 0, .value = c->next[0]};
        const rota_exec_work work = contract_work(c, l, 0, 0, &wait, NULL);
        contract_submit(c, &work, 1);
    }
    for (uint32_t t = 0; t < 3; t++) {
        void *failed;
        assert_int_equal(pthread_join(threads[t], &failed), 0);
        assert_null(failed);
    }
    contract_wait(c, 0);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], contract_stepped(i, i, 200));
    contract_unload(c, l);
    free(p);
    contract_close(c);
}

/* ---- Ends ---- */

/* With nothing to do, after every queue had something, the executor's threads sleep. */
void contract_idle(const contract_kit *kit) {
    contract *c = contract_open(kit, &(rota_exec_open_options){.queue_count = ROTA_EXEC_QUEUES_MAX});
    for (uint32_t q = 0; q < ROTA_EXEC_QUEUES_MAX; q++) {
        const rota_exec_work work = {.queue = q, .signal_value = ++c->next[q]};
        contract_submit(c, &work, 1);
    }
    for (uint32_t q = 0; q < ROTA_EXEC_QUEUES_MAX; q++) contract_wait(c, q);
    if (kit->idle_ms_max) {
        test_nap_ms(100);
        struct timespec before, after;
        assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before), 0);
        test_nap_ms(1000);
        assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after), 0);
        const double took_ms =
            (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) * 1e-6;
        print_message("%.3f ms in a second\n", took_ms);
        assert_true(took_ms < kit->idle_ms_max);
    }
    contract_close(c);
}

/* A device that is lost says so once; no value comes after that, works handed over are refused or taken in
 * vain, and all that there is can be ended. */
void contract_loss(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    if (!kit->lose) {
        contract_close(c);
        print_message("skipped: nobody knows how to lose the device\n");
        skip();
    }
    rota_exec_memory *memories[] = {contract_mapped(c, 2 * BYTES)};
    memset(memories[0]->host, 0, 2 * BYTES);
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(3, &params);
    contract_loaded l = contract_load(c, p, memories);
    contract_run(c, l, NULL);
    assert_int_equal(ra_load_acquire(&c->host.lost), 0);
    kit->lose(c);
    const uint64_t deadline = rota_deadline_after(kit->patience_ns ? kit->patience_ns : 10000000000u);
    while (!ra_load_acquire(&c->host.lost) && rota_clock_ns() < deadline) {
        /* Several at once, so that some run when it is lost: what they ran is gone before the device is. */
        rota_exec_work works[16];
        for (uint32_t i = 0; i < 16; i++) works[i] = contract_work(c, l, 0, 0, NULL, NULL);
        const rota_status status = c->v->submit(c->device, works, 16);
        if (status != ROTA_OK) assert_status(status, ROTA_DEVICE_LOST);
        test_nap_ms(1);
    }
    assert_int_equal(ra_load_acquire(&c->host.lost), 1);
    const uint64_t reached = ra_load_acquire(&c->host.reached[0]);
    for (uint32_t i = 0; i < 3; i++) {
        const rota_exec_work work = contract_work(c, l, 0, 0, NULL, NULL);
        const rota_status status = c->v->submit(c->device, &work, 1);
        if (status != ROTA_OK) assert_status(status, ROTA_DEVICE_LOST);
    }
    test_nap_ms(20);
    assert_int_equal(ra_load_acquire(&c->host.reached[0]), reached);
    assert_int_equal(ra_load_acquire(&c->host.lost), 1);
    contract_unload(c, l);
    c->v->memory_destroy(c->device, memories[0]);
    free(p);
    contract_close(c);
}
