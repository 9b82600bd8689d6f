/* Cases of the executor contract: commands that decide (rota_exec_conditional), with bodies put together by hand. */
#include "tests/exec/exec_contract.h"
#include "tests/kit/nap.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/conditional_internal.h"

#define COUNT CONTRACT_COUNT
#define BYTES CONTRACT_BYTES
#define QUEUES CONTRACT_QUEUES

/* Memory 0: arrays a, b, c, a loop's own, and words from WORDS on. Memory 1, of slots: an array. */
enum { A = 0, B = BYTES, C = 2 * BYTES, OWN = 3 * BYTES, WORDS = 4 * BYTES };
enum { CONDITION, ADDEND, SUM, NUMBER, OTHER, SIXTH, WORD_COUNT };
#define WORD(i) (WORDS + 4 * (uint64_t)(i))
enum { MEMORY_BYTES = WORDS + 4 * WORD_COUNT, LOOP_NODE = 0, LIMIT = 40, DECIDING_MAX = 3 };

/* c = 3 c + 1 for a condition, which is 0 after `times`. */
static const contract_step_params array_params = {COUNT, 1, 0}, word_params = {1, 1, 0},
                                  plain_params = {1, 0, 0};

static uint32_t condition_of(uint32_t times) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < times; i++) value = (value - 1) * 0xAAAAAAABu; /* 3 times that is 1 */
    return value;
}

/* ---- Programs ---- */

/* A command of the last batch that decides, and what its bodies are. */
typedef struct deciding {
    rota_exec_conditional conditional;
    const rota_exec_program_desc *descs[DECIDING_MAX];
    test_program *bodies[DECIDING_MAX];
    uint32_t *edges[DECIDING_MAX];
} deciding;

static test_program *new_program(uint32_t block_words) {
    static const uint8_t kinds[] = {ROTA_EXEC_BASE_PERSISTENT};
    test_program *p = test_program_new(QUEUES, 1, block_words);
    p->desc.memory_kind = kinds;
    test_program_segment(p, 0);
    test_program_batch(p);
    return p;
}

static void step(test_program *p, const contract_step_params *params, uint64_t x, uint64_t y) {
    const uint64_t bytes = 4 * (uint64_t)params->count;
    test_program_kernel(p, &contract_step, params);
    test_program_operand(p, 0, false, x, bytes, ROTA_READWRITE);
    test_program_operand(p, 0, false, y, bytes, ROTA_READ);
}

/* Its operands: all arrays, its own memory, the words, in this order; `slots`: the array of a slot, too. */
static void decide(test_program *p, deciding *d, uint8_t kind, uint32_t condition, uint32_t body_count,
                   bool slots) {
    test_program_fill(p, 0);
    rota_exec_command *command = &p->commands[p->desc.command_count - 1];
    command->kind = ROTA_EXEC_COMMAND_CONDITIONAL;
    test_program_operand(p, 0, false, A, 3 * BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, WORDS, 4 * WORD_COUNT, ROTA_READWRITE);
    if (slots) test_program_operand(p, 0, true, 0, BYTES, ROTA_READ);
    test_program_operand(p, 0, false, OWN, BYTES, ROTA_WRITE);
    for (uint32_t i = 0; i < body_count; i++) {
        d->descs[i] = NULL;
        if (!d->bodies[i]) continue;
        d->edges[i] = contract_edges(d->bodies[i]);
        d->descs[i] = &d->bodies[i]->desc;
    }
    d->conditional = (rota_exec_conditional){
        .kind = kind,
        .body_count = body_count,
        .iterations_max = LIMIT,
        .condition = {1, 4 * (uint64_t)condition},
        .index = {kind == ROTA_CONDITIONAL_FOR ? 1 : UINT32_MAX, 4 * (uint64_t)NUMBER},
        .bodies = d->descs};
    command->u.conditional = &d->conditional;
}

static void free_bodies(deciding *d) {
    for (uint32_t i = 0; i < DECIDING_MAX; i++) {
        if (!d->bodies[i]) continue;
        free(d->edges[i]);
        free(d->bodies[i]);
    }
}

static contract *open_deciding(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    if (c->device->caps.runs_conditionals) return c;
    contract_close(c);
    print_message("skipped: it runs no commands that decide\n");
    skip();
    return NULL;
}

static uint32_t *fill(rota_exec_memory *memory) {
    uint32_t *x = memory->host;
    for (uint32_t i = 0; i < MEMORY_BYTES / 4; i++) x[i] = i;
    for (uint32_t i = 0; i < WORD_COUNT; i++) x[WORDS / 4 + i] = 0;
    return x;
}

/* ---- What is computed ---- */

/* a and b side by side, through memory of the body's own; c out of both; then the condition. */
static test_program *wide_body(bool decides) {
    test_program *p = new_program(0);
    step(p, &array_params, A, C);
    test_program_copy(p);
    test_program_operand(p, 0, false, OWN, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, B, BYTES, ROTA_READ);
    test_program_batch(p);
    step(p, &array_params, OWN, B);
    test_program_batch(p);
    step(p, &array_params, B, OWN);
    test_program_batch(p);
    step(p, &array_params, C, A);
    test_program_batch(p);
    step(p, &array_params, C, B);
    if (decides) step(p, &word_params, WORD(CONDITION), WORD(ADDEND));
    return p;
}

static void expect_wide(const uint32_t *x, uint32_t iterations) {
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t a = i, b = COUNT + i, c = 2 * COUNT + i;
        for (uint32_t n = 0; n < iterations; n++) {
            a = a * 3 + c + 1;
            b = b * 3 + (b * 3 + b + 1) + 1;
            c = (c * 3 + a + 1) * 3 + b + 1;
        }
        a = a * 3 + c + 1; /* what comes after it */
        if (x[i] != a || x[COUNT + i] != b || x[2 * COUNT + i] != c)
            fail_msg("word %u after %u iterations: %u, %u, %u instead of %u, %u, %u", i, iterations, x[i],
                     x[COUNT + i], x[2 * COUNT + i], a, b, c);
    }
}

/* Before it, after it, and as often as the condition says. */
static void run_wide(contract *c, rota_exec_memory *memory, uint8_t kind) {
    static const uint32_t counts[] = {0, 1, 2, 7};
    deciding d = {.bodies = {wide_body(kind == ROTA_CONDITIONAL_WHILE)}};
    test_program *p = new_program(0);
    test_program_copy(p);
    test_program_operand(p, 0, false, WORD(CONDITION), 4, ROTA_WRITE);
    test_program_operand(p, 0, false, WORD(OTHER), 4, ROTA_READ);
    test_program_batch(p);
    decide(p, &d, kind, CONDITION, 1, false);
    test_program_batch(p);
    step(p, &array_params, A, C);
    contract_loaded l = contract_load(c, p, &memory);
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t count = counts[i % 4];
        uint32_t *x = fill(memory);
        x[WORDS / 4 + OTHER] = kind == ROTA_CONDITIONAL_WHILE ? condition_of(count) : count;
        contract_run(c, l, NULL);
        expect_wide(x, count);
        if (kind == ROTA_CONDITIONAL_FOR) assert_int_equal(x[WORDS / 4 + NUMBER], count ? count - 1 : 0);
    }
    contract_unload(c, l);
    free(p);
    free_bodies(&d);
}

static test_program *word_body(const contract_step_params *params, uint32_t x, uint32_t y) {
    test_program *p = new_program(0);
    step(p, params, WORD(x), WORD(y));
    return p;
}

/* The body of that number: some have nothing to run. */
static void run_choice(contract *c, rota_exec_memory *memory, uint8_t kind) {
    const uint32_t count = kind == ROTA_CONDITIONAL_IF ? 2 : 3;
    for (uint32_t empty = 0; empty <= count; empty++) {
        deciding d = {0};
        test_program *p = new_program(0);
        static const contract_step_params adds[] = {{1, 10, 0}, {1, 20, 0}, {1, 30, 0}};
        for (uint32_t i = 0; i < count; i++)
            if (i != empty) d.bodies[i] = word_body(&adds[i], SUM, ADDEND);
        decide(p, &d, kind, CONDITION, count, false);
        contract_loaded l = contract_load(c, p, &memory);
        for (uint32_t value = 0; value < 5; value++) {
            uint32_t *x = fill(memory);
            x[WORDS / 4 + CONDITION] = value;
            contract_run(c, l, NULL);
            const uint32_t chosen = kind == ROTA_CONDITIONAL_SWITCH ? value : value == 0;
            const bool runs = chosen < count && chosen != empty;
            assert_int_equal(x[WORDS / 4 + SUM], runs ? adds[chosen].add : 0);
        }
        contract_unload(c, l);
        free(p);
        free_bodies(&d);
    }
}

/* A while of fors: each makes the sum of the numbers so far, which it begins anew. */
static void run_nested(contract *c, rota_exec_memory *memory) {
    deciding inner = {.bodies = {word_body(&plain_params, SUM, NUMBER)}}, outer = {0};
    test_program *p = new_program(0), *body = outer.bodies[0] = new_program(0);
    decide(body, &inner, ROTA_CONDITIONAL_FOR, OTHER, 1, false);
    step(body, &word_params, WORD(CONDITION), WORD(ADDEND));
    test_program_batch(body);
    step(body, &plain_params, WORD(SIXTH), WORD(SUM));
    decide(p, &outer, ROTA_CONDITIONAL_WHILE, CONDITION, 1, false);
    contract_loaded l = contract_load(c, p, &memory);
    uint32_t *x = fill(memory), sum = 0, sixth = 0;
    x[WORDS / 4 + CONDITION] = condition_of(4);
    x[WORDS / 4 + OTHER] = 5;
    contract_run(c, l, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t number = 0; number < 5; number++) sum = sum * 3 + number;
        sixth = sixth * 3 + sum;
    }
    assert_int_equal(x[WORDS / 4 + SUM], sum);
    assert_int_equal(x[WORDS / 4 + SIXTH], sixth);
    contract_unload(c, l);
    free(p);
    free_bodies(&outer);
    free_bodies(&inner);
}

/* A body's operand and parameter out of words, other ones in each of several works one behind the other. */
static void run_slots(contract *c, rota_exec_memory *memory, rota_exec_memory *other) {
    deciding d = {.bodies = {new_program(2)}};
    test_program *p = new_program(2), *body = d.bodies[0];
    test_program_kernel(body, &contract_step, &array_params);
    test_program_operand(body, 0, false, A, BYTES, ROTA_READWRITE);
    test_program_operand(body, 0, true, 0, BYTES, ROTA_READ);
    test_program_binding(body, 0, 1);
    decide(p, &d, ROTA_CONDITIONAL_FOR, CONDITION, 1, true);
    contract_loaded l = contract_load(c, p, &memory);
    uint32_t *x = fill(memory), *y = other->host;
    x[WORDS / 4 + CONDITION] = 3;
    for (uint32_t i = 0; i < 2 * COUNT; i++) y[i] = 7 * i;
    for (uint32_t n = 0; n < 10; n++) {
        const uint64_t block[2] = {other->address + n % 2 * BYTES, 100 + n};
        const rota_exec_wait wait = {.queue = 0, .value = c->next[0]};
        const rota_exec_work work = contract_work(c, l, 0, 0, c->next[0] ? &wait : NULL, block);
        contract_submit(c, &work, 1);
        if (!c->device->caps.reuse_in_flight) contract_wait(c, 0);
    }
    contract_wait(c, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t expected = i;
        for (uint32_t n = 0; n < 30; n++) expected = expected * 3 + y[n / 3 % 2 * COUNT + i] + 100 + n / 3;
        assert_int_equal(x[i], expected);
    }
    contract_unload(c, l);
    free(p);
    free_bodies(&d);
}

/* Ifs, whiles, fors and switches, also within one another, do what one after the other would do. */
void contract_loops(const contract_kit *kit) {
    contract *c = open_deciding(kit);
    rota_exec_memory *memory = contract_mapped(c, MEMORY_BYTES), *other = contract_mapped(c, 2 * BYTES);
    run_wide(c, memory, ROTA_CONDITIONAL_WHILE);
    run_wide(c, memory, ROTA_CONDITIONAL_FOR);
    run_choice(c, memory, ROTA_CONDITIONAL_IF);
    run_choice(c, memory, ROTA_CONDITIONAL_SWITCH);
    run_nested(c, memory);
    run_slots(c, memory, other);
    contract_close(c);
}

/* ---- Failures ---- */

/* Fails in the third iteration, and says so. */
static rota_status fail_third(const rota_kernel_call *call) {
    uint32_t *count = call->operands[0];
    return ++*count == 3 ? rota_fail(ROTA_OUT_OF_RANGE, "row 9 of 4 in a test") : ROTA_OK;
}

static const rota_kernel failing = {.name = "fail", .operand_count = 1, .cpu = {.fn = fail_third}};

static void expect_failure(contract *c, uint32_t failures, const char *what, const char *where) {
    assert_int_equal(ra_load_acquire(&c->host.failures), failures);
    assert_int_equal(ra_load_acquire(&c->host.failed_node), LOOP_NODE);
    if (!strstr(c->host.message, what) || !strstr(c->host.message, where))
        fail_msg("'%s' does not say '%s' and '%s'", c->host.message, what, where);
}

static void run_limit(contract *c, rota_exec_memory *memory, uint8_t kind, uint32_t failures) {
    deciding d = {.bodies = {word_body(&word_params, SUM, ADDEND)}};
    test_program *p = new_program(0);
    decide(p, &d, kind, CONDITION, 1, false);
    step(p, &word_params, OWN, OWN + 4);
    contract_loaded l = contract_load(c, p, &memory);
    uint32_t *x = fill(memory);
    x[WORDS / 4 + CONDITION] = LIMIT + 1;
    x[OWN / 4] = x[OWN / 4 + 1] = 5;
    contract_run(c, l, NULL);
    expect_failure(c, failures, "node 0", "40 iterations");
    const uint32_t iterations = kind == ROTA_CONDITIONAL_WHILE ? LIMIT : 0;
    assert_int_equal(x[WORDS / 4 + SUM], contract_stepped(0, 0, iterations));
    contract_unload(c, l);
    free(p);
    free_bodies(&d);
}

static void run_failing(contract *c, rota_exec_memory *memory, uint32_t failures) {
    deciding d = {.bodies = {word_body(&word_params, SUM, ADDEND)}};
    test_program *p = new_program(0), *body = d.bodies[0];
    test_program_batch(body);
    test_program_kernel(body, &failing, NULL);
    test_program_operand(body, 0, false, WORD(OTHER), 4, ROTA_READWRITE);
    test_program_batch(body);
    step(body, &word_params, WORD(SIXTH), WORD(ADDEND));
    decide(p, &d, ROTA_CONDITIONAL_FOR, CONDITION, 1, false);
    contract_loaded l = contract_load(c, p, &memory);
    uint32_t *x = fill(memory);
    x[WORDS / 4 + CONDITION] = 10;
    contract_run(c, l, NULL);
    expect_failure(c, failures, "row 9 of 4 in a test", "iteration 2");
    assert_non_null(strstr(c->host.message, "node 1"));
    assert_int_equal(x[WORDS / 4 + SUM], contract_stepped(0, 0, 3));
    assert_int_equal(x[WORDS / 4 + SIXTH], contract_stepped(0, 0, 2));
    contract_unload(c, l);
    free(p);
    free_bodies(&d);
}

/* More iterations than there may be, and a command of a body that fails: the command that decides fails, once, in a
 * sentence with the iteration, and no further one begins. */
void contract_loops_fail(const contract_kit *kit) {
    contract *c = open_deciding(kit);
    rota_exec_memory *memory = contract_mapped(c, MEMORY_BYTES);
    run_limit(c, memory, ROTA_CONDITIONAL_WHILE, 1);
    run_limit(c, memory, ROTA_CONDITIONAL_FOR, 2);
    if (c->device->info.kind == ROTA_EXEC_CPU) run_failing(c, memory, 3);
    contract_close(c);
}

/* ---- Ends ---- */

/* A while whose condition is odd for ever. */
static test_program *endless(deciding *d) {
    static const contract_step_params params = {1, 0, 0};
    *d = (deciding){.bodies = {word_body(&params, CONDITION, ADDEND)}};
    test_program *p = new_program(0);
    decide(p, d, ROTA_CONDITIONAL_WHILE, CONDITION, 1, false);
    d->conditional.iterations_max = UINT64_MAX;
    return p;
}

static void begin_endless(contract *c, contract_loaded l, rota_exec_memory *memory) {
    fill(memory)[WORDS / 4 + CONDITION] = 1;
    const rota_exec_work work = contract_work(c, l, 0, 0, NULL, NULL);
    contract_submit(c, &work, 1);
    test_nap_ms(20);
    assert_int_equal(ra_load_acquire(&c->host.reached[0]), c->next[0] - 1);
}

static void cancel_endless(contract *c, contract_loaded l, rota_exec_memory *memory) {
    begin_endless(c, l, memory);
    ra_store_release(&c->host.skipped, LOOP_NODE + 1);
    ra_store_release(&c->host.poison, 1);
    contract_wait(c, 0);
    assert_int_equal(ra_load_acquire(&c->host.successes), 0);
    assert_int_equal(ra_load_acquire(&c->host.failures), 0);
    ra_store_release(&c->host.poison, 0);
    ra_store_release(&c->host.skipped, 0);
}

static void lose_endless(contract *c, contract_loaded l, rota_exec_memory *memory) {
    begin_endless(c, l, memory);
    c->kit->lose(c);
    const uint64_t deadline = rota_deadline_after(c->kit->patience_ns ? c->kit->patience_ns : 10000000000u);
    while (!ra_load_acquire(&c->host.lost) && rota_clock_ns() < deadline) {
        /* What is beside it goes on until then. */
        const rota_exec_work work = {.queue = 1, .signal_value = ++c->next[1]};
        const rota_status status = c->v->submit(c->device, &work, 1);
        if (status != ROTA_OK) assert_status(status, ROTA_DEVICE_LOST);
        test_nap_ms(1);
    }
    const rota_exec_work after = contract_work(c, l, 0, 0, NULL, NULL);
    const rota_status status = c->v->submit(c->device, &after, 1);
    if (status != ROTA_OK) assert_status(status, ROTA_DEVICE_LOST);
    test_nap_ms(5);
    assert_int_equal(ra_load_acquire(&c->host.lost), 1);
    assert_int_equal(ra_load_acquire(&c->host.reached[0]), c->next[0] - 2);
}

/* A loop without an end is ended at an iteration: by the host, which skips its node, and by a loss. */
void contract_loops_end(const contract_kit *kit) {
    contract *c = open_deciding(kit);
    rota_exec_memory *memory = contract_mapped(c, MEMORY_BYTES);
    deciding d;
    test_program *p = endless(&d);
    contract_loaded l = contract_load(c, p, &memory);
    cancel_endless(c, l, memory);
    if (kit->lose) lose_endless(c, l, memory);
    contract_unload(c, l);
    free(p);
    free_bodies(&d);
    contract_close(c);
}
