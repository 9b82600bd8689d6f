/* See exec_contract.h: the kernel, an open device, and the calls of the contract by short names. */
#include "tests/exec/exec_contract.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "spv/test_step.h"

/* ---- The kernel ---- */

static rota_status run_step(const rota_kernel_call *call) {
    const contract_step_params *params = call->params;
    uint32_t *x = call->operands[0];
    const uint32_t *y = call->operands[1];
    if (params->count != call->items)
        return rota_fail(ROTA_INTERNAL, "%u in the parameters, and %llu items", params->count,
                         (unsigned long long)call->items);
    for (uint64_t i = call->begin; i < call->end; i++)
        x[i] = x[i] * 3 + y[i] + params->add + (uint32_t)(params->wide >> 32);
    return ROTA_OK;
}

static void step_items(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                       uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const contract_step_params *)params)->count;
    *out_grain = 64;
}

static void step_grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    out_groups[0] = (((const contract_step_params *)params)->count + 63) / 64;
    out_groups[1] = out_groups[2] = 1;
}

static const rota_kernel_bindable step_bindables[] = {{.name = "add", .offset_bytes = 4, .size_bytes = 4},
                                                      {.name = "wide", .offset_bytes = 8, .size_bytes = 8},
                                                      {.name = "count", .offset_bytes = 0, .size_bytes = 4}};
const rota_kernel contract_step = {
    .name = "step",
    .operand_count = 2,
    .param_bytes = sizeof(contract_step_params),
    .bindables = step_bindables,
    .bindable_count = 3,
    .cpu = {.fn = run_step, .items = step_items},
    .vk = {.words = rota_spv_test_step, .size_bytes = sizeof rota_spv_test_step, .grid = step_grid},
    .cuda = {TEST_IMAGE, .entry = "test_step", .grid = step_grid, .block = {64, 1, 1}},
};

uint32_t contract_stepped(uint32_t x, uint32_t y, uint32_t times) {
    for (uint32_t i = 0; i < times; i++) x = x * 3 + y + 1;
    return x;
}

/* ---- The host ---- */

static void on_advanced(void *user, uint32_t queue, uint64_t value) {
    contract_host *host = user;
    if (ra_fetch_add_acq_rel(&host->inside[queue], 1) != 0 || value <= ra_load_relaxed(&host->reached[queue]))
        ra_fetch_add_relaxed(&host->disorder, 1);
    ra_store_release(&host->reached[queue], value);
    ra_fetch_sub_acq_rel(&host->inside[queue], 1);
}

static void on_lost(void *user, rota_status status, const char *message) {
    (void)status, (void)message;
    ra_fetch_add_acq_rel(&((contract_host *)user)->lost, 1);
}

static void on_failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                      const char *message) {
    contract_host *host = user;
    (void)cookie, (void)owner, (void)status;
    (void)snprintf(host->message, sizeof host->message, "%s", message);
    ra_store_relaxed(&host->failed_node, node);
    ra_store_release(&host->poison, 1);
    ra_fetch_add_acq_rel(&host->failures, 1);
}

static bool must_skip(void *user, void *cookie, const void *owner, uint32_t node) {
    (void)cookie, (void)owner;
    return ra_load_acquire(&((contract_host *)user)->skipped) == node + 1;
}

static void on_succeeded(void *user, void *cookie, const void *owner, uint32_t node) {
    (void)cookie, (void)owner, (void)node;
    ra_fetch_add_acq_rel(&((contract_host *)user)->successes, 1);
}

static void on_goes_on(void *user) {
    ra_store_seq_cst(&((contract_host *)user)->goes_on, 1);
}

static const char *name_of(const void *owner, uint32_t node) {
    static _Thread_local char name[32];
    (void)owner;
    (void)snprintf(name, sizeof name, "node %u", node);
    return name;
}

/* ---- An open device ---- */

contract *contract_open(const contract_kit *kit, const rota_exec_open_options *changes) {
    contract *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->kit = kit;
    rota_exec_open_options options = {.host = {.user = &c->host,
                                               .advanced = on_advanced,
                                               .failed = on_failed,
                                               .lost = on_lost,
                                               .poison_active = &c->host.poison,
                                               .must_skip = must_skip,
                                               .succeeded = on_succeeded,
                                               .goes_on = on_goes_on,
                                               .node_name = name_of},
                                      .queue_count = CONTRACT_QUEUES,
                                      .worker_threads = 3,
                                      .cache_dir = ""};
    if (changes) {
        if (changes->queue_count) options.queue_count = changes->queue_count;
        options.max_in_flight = changes->max_in_flight;
        options.diagnostics = changes->diagnostics;
    }
    options.transfer_queue = options.queue_count - 1;
    if (kit->before_open) kit->before_open(c, &options);
    const rota_status status = kit->driver->open(kit->driver, 0, &options, &c->device);
    if (status == ROTA_OK) {
        c->v = c->device->vtable;
        return c;
    }
    free(c);
    if (!kit->is_optional) fail_msg("%s", rota_last_error());
    print_message("skipped: no device: %s\n", rota_last_error());
    skip();
    return NULL;
}

void contract_close(contract *c) {
    if (c->kit->before_close) c->kit->before_close(c);
    uint64_t abandoned = 1;
    c->v->close(c->device, rota_deadline_after(10000000000u), &abandoned);
    assert_int_equal(abandoned, 0);
    assert_int_equal(ra_load_relaxed(&c->host.disorder), 0);
    if (c->kit->after_close) c->kit->after_close(c);
    free(c);
}

rota_exec_memory *contract_memory(contract *c, uint64_t size, uint32_t flags) {
    rota_exec_memory *m = NULL;
    assert_ok(c->v->memory_create(c->device, size, flags, "test memory", &m));
    assert_int_equal(m->address % 256, 0);
    assert_int_equal(m->size_bytes, size);
    if (flags & (ROTA_EXEC_MEMORY_HOST_READ | ROTA_EXEC_MEMORY_HOST_WRITE)) assert_non_null(m->host);
    return m;
}

rota_exec_memory *contract_mapped(contract *c, uint64_t size) {
    return contract_memory(c, size, ROTA_EXEC_MEMORY_HOST_READ | ROTA_EXEC_MEMORY_HOST_WRITE);
}

test_program *contract_chain(uint32_t length, const contract_step_params *params) {
    test_program *p = test_program_new(CONTRACT_QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < length; i++) {
        test_program_batch(p);
        test_program_kernel(p, &contract_step, params);
        test_program_operand(p, 0, false, 0, CONTRACT_BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, CONTRACT_BYTES, CONTRACT_BYTES, ROTA_READ);
    }
    return p;
}

/* The edges of one command, to all of the batch behind its own. Written where `successor` is not NULL. */
static uint32_t add_edges(const test_program *p, const rota_exec_batch *next, uint32_t edge,
                          uint32_t *successor, uint32_t *predecessor_count) {
    (void)p;
    for (uint32_t n = 0; next && n < next->command_count; n++, edge++) {
        if (!successor) continue;
        successor[edge] = next->first_command + n;
        predecessor_count[next->first_command + n]++;
    }
    return edge;
}

uint32_t *contract_edges(test_program *p) {
    static const uint8_t kinds[64];
    const uint32_t count = p->desc.command_count;
    uint32_t *first = NULL, *successor = NULL, *predecessors = NULL, total = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t edge = 0;
        for (uint32_t s = 0; s < p->desc.segment_count; s++)
            for (uint32_t b = 0; b < p->segments[s].batch_count; b++) {
                const rota_exec_batch *batch = &p->batches[p->segments[s].first_batch + b];
                const rota_exec_batch *next = b + 1 < p->segments[s].batch_count ? batch + 1 : NULL;
                for (uint32_t c = 0; c < batch->command_count; c++) {
                    if (pass) first[batch->first_command + c] = edge;
                    edge = add_edges(p, next, edge, successor, predecessors);
                }
            }
        if (pass) first[count] = edge;
        total = edge;
        if (pass) break;
        first = calloc(2 * (size_t)count + 2 + total, sizeof *first);
        assert_non_null(first);
        predecessors = first + count + 1;
        successor = predecessors + count + 1;
    }
    p->desc.first_successor = first;
    p->desc.predecessor_count = predecessors;
    p->desc.successor = successor;
    if (!p->desc.memory_kind) p->desc.memory_kind = kinds;
    return first;
}

contract_loaded contract_load(contract *c, test_program *p, rota_exec_memory *const *memories) {
    contract_loaded l = {.edges = contract_edges(p)};
    assert_ok(c->v->program_create(c->device, &p->desc, &l.program));
    assert_ok(c->v->instance_create(c->device, l.program, memories, &l.instance));
    return l;
}

void contract_unload(contract *c, contract_loaded l) {
    c->v->instance_destroy(c->device, l.instance);
    c->v->program_destroy(c->device, l.program);
    free(l.edges);
}

rota_exec_work contract_work(contract *c, contract_loaded l, uint32_t segment, uint32_t queue,
                             const rota_exec_wait *wait, const uint64_t *block) {
    return (rota_exec_work){.instance = l.instance,
                            .segment = segment,
                            .queue = queue,
                            .signal_value = ++c->next[queue],
                            .waits = wait,
                            .wait_count = wait != NULL,
                            .block = block};
}

void contract_submit(contract *c, const rota_exec_work *works, uint32_t count) {
    assert_ok(c->v->submit(c->device, works, count));
}

void contract_go_on(contract *c) {
    if (!ra_load_seq_cst(&c->host.goes_on)) return;
    ra_store_seq_cst(&c->host.goes_on, 0);
    bool moved;
    const rota_status status = c->device->go_on(c->device, &moved);
    if (status != ROTA_OK) assert_status(status, ROTA_DEVICE_LOST);
}

void contract_wait(contract *c, uint32_t queue) {
    const uint64_t deadline = rota_deadline_after(c->kit->patience_ns ? c->kit->patience_ns : 10000000000u);
    while (ra_load_acquire(&c->host.reached[queue]) < c->next[queue]) {
        if (rota_clock_ns() > deadline)
            fail_msg("queue %u stands at %llu, not %llu", queue,
                     (unsigned long long)ra_load_acquire(&c->host.reached[queue]),
                     (unsigned long long)c->next[queue]);
        contract_go_on(c);
        (void)sched_yield();
    }
}

void contract_run(contract *c, contract_loaded l, const uint64_t *block) {
    const rota_exec_work work = contract_work(c, l, 0, 0, NULL, block);
    contract_submit(c, &work, 1);
    contract_wait(c, 0);
}

uint32_t contract_rounds(const contract *c, uint32_t rounds) {
    const uint32_t fewer = c->kit->slow ? rounds / c->kit->slow : rounds;
    return fewer ? fewer : 1;
}

/* ---- Running ---- */

typedef struct contract_given {
    const contract_kit *kit;
    const contract_case *one;
} contract_given;

static void run_given(void **state) {
    const contract_given *given = *state;
    given->one->run(given->kit);
}

static int run_cases(const contract_kit *kit, const char *only) {
    enum { MOST = 64 };
    static struct CMUnitTest tests[MOST];
    static contract_given given[MOST];
    static char names[MOST][64];
    size_t count = 0;
    for (const contract_case *one = contract_cases; one->name; one++) {
        if (only && strcmp(one->name, only) != 0) continue;
        (void)snprintf(names[count], sizeof names[count], "%s: %s", kit->name, one->name);
        given[count] = (contract_given){kit, one};
        tests[count] = (struct CMUnitTest){names[count], run_given, NULL, NULL, &given[count]};
        count++;
    }
    if (count == 0) return 1;
    return _cmocka_run_group_tests(kit->name, tests, count, NULL, NULL);
}

int contract_main(const contract_kit *kit) {
    return run_cases(kit, NULL);
}

bool contract_passes(const contract_kit *kit, const char *name) {
    (void)fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        const int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(quiet, STDOUT_FILENO);
        (void)dup2(quiet, STDERR_FILENO);
        _exit(run_cases(kit, name) ? 1 : 0);
    }
    int status = 0;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
