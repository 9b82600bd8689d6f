/* Cases of the executor contract: commands that are counted (rota_exec_command.is_counted). */
#include "tests/exec/exec_contract.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"

#define COUNT CONTRACT_COUNT
#define BYTES CONTRACT_BYTES

/* One memory: arrays a, b, c, and the count. */
enum { A = 0, B = BYTES, C = 2 * BYTES, WORD = 3 * BYTES, UNIT = 8 };
enum { MEMORY_BYTES = WORD + 4, KERNEL_NODE = 1, COPY_NODE = 2 };

static const contract_step_params params = {COUNT, 1, 0};

/* The last command is counted, by a word that the fill before writes. */
static void count(test_program *p, bool is_slot) {
    test_program_operand(p, 0, is_slot, WORD, 4, ROTA_READ);
    p->commands[p->desc.command_count - 1].is_counted = true;
}

/* The count is `value`; as many elements of a = 3 a + b + 1; as many pairs of c = a. `is_slot`: of the memory whose
 * address is argument word 0; 1 is the 1 that is added. */
static test_program *new_program(uint32_t value, uint32_t kernel_max, uint32_t copy_max, bool is_slot) {
    static const uint8_t kinds[] = {ROTA_EXEC_BASE_PERSISTENT};
    test_program *p = test_program_new(CONTRACT_QUEUES, 1, is_slot ? 2 : 0);
    p->desc.memory_kind = kinds;
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_fill(p, value);
    test_program_operand(p, 0, is_slot, WORD, 4, ROTA_WRITE);
    test_program_batch(p);
    rota_exec_command *command = test_program_kernel(p, &contract_step, &params);
    command->u.kernel.count_max = kernel_max;
    command->u.kernel.items_per_group = 64;
    command->u.kernel.count_bindable_plus_1 = 3;
    test_program_operand(p, 0, is_slot, A, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, is_slot, B, BYTES, ROTA_READ);
    count(p, is_slot);
    if (is_slot) test_program_binding(p, 0, 1);
    test_program_batch(p);
    command = test_program_copy(p);
    command->u.copy.unit_bytes = UNIT;
    command->u.copy.count_max = copy_max;
    test_program_operand(p, 0, is_slot, C, (uint64_t)UNIT * copy_max, ROTA_READWRITE);
    test_program_operand(p, 0, is_slot, A, (uint64_t)UNIT * copy_max, ROTA_READ);
    count(p, is_slot);
    return p;
}

static contract *open_counting(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    if (c->device->caps.runs_counted) return c;
    contract_close(c);
    print_message("skipped: it runs no counted commands\n");
    skip();
    return NULL;
}

static uint32_t *fill(rota_exec_memory *memory) {
    uint32_t *x = memory->host;
    for (uint32_t i = 0; i < MEMORY_BYTES / 4; i++) x[i] = i;
    return x;
}

/* a and c after `elements` and `pairs`, else as they were. */
static void expect(const uint32_t *x, uint32_t elements, uint32_t pairs) {
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t a = i < elements ? contract_stepped(i, COUNT + i, 1) : i;
        const uint32_t c = i < 2 * pairs ? a : 2 * COUNT + i;
        if (x[i] != a || x[2 * COUNT + i] != c)
            fail_msg("element %u of a, %u counted, is %u, not %u; of c, %u counted, %u, not %u", i, elements,
                     x[i], a, 2 * pairs, x[2 * COUNT + i], c);
    }
}

/* As many as the word says that a command before wrote, from none to all. */
void contract_counted(const contract_kit *kit) {
    contract *c = open_counting(kit);
    rota_exec_memory *memory = contract_mapped(c, MEMORY_BYTES);
    static const uint32_t counts[] = {0, 1, 63, COUNT / 2};
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        test_program *p = new_program(counts[i], COUNT, COUNT / 2, false);
        contract_loaded l = contract_load(c, p, &memory);
        for (uint32_t round = 0; round < 2; round++) {
            const uint32_t *x = fill(memory);
            contract_run(c, l, NULL);
            expect(x, counts[i], counts[i]);
        }
        contract_unload(c, l);
        free(p);
    }
    assert_int_equal(ra_load_acquire(&c->host.failures), 0);
    contract_close(c);
}

/* The same where all is in slots: also when the words have stayed the same for a while, and when they change. */
void contract_counted_slots(const contract_kit *kit) {
    enum { ROUNDS = 40, PAIRS = 97 };
    contract *c = open_counting(kit);
    rota_exec_memory *memories[2] = {contract_mapped(c, MEMORY_BYTES), contract_mapped(c, MEMORY_BYTES)};
    test_program *p = new_program(PAIRS, COUNT, COUNT / 2, true);
    contract_loaded l = contract_load(c, p, memories);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        rota_exec_memory *memory = memories[round / (ROUNDS / 2)];
        const uint64_t block[2] = {memory->address, 1};
        const uint32_t *x = fill(memory);
        contract_run(c, l, block);
        expect(x, PAIRS, PAIRS);
    }
    contract_unload(c, l);
    free(p);
    assert_int_equal(ra_load_acquire(&c->host.failures), 0);
    contract_close(c);
}

static void run_excess(contract *c, rota_exec_memory *memory, uint32_t kernel_max, uint32_t node,
                       uint32_t failures) {
    enum { VALUE = 41 };
    test_program *p = new_program(VALUE, kernel_max, VALUE - (node == COPY_NODE), false);
    contract_loaded l = contract_load(c, p, &memory);
    const uint32_t *x = fill(memory);
    contract_run(c, l, NULL);
    assert_int_equal(ra_load_acquire(&c->host.failures), failures);
    assert_int_equal(ra_load_acquire(&c->host.failed_node), node);
    if (!strstr(c->host.message, "41") || !strstr(c->host.message, "40"))
        fail_msg("'%s' does not say 41 and 40", c->host.message);
    expect(x, node == KERNEL_NODE ? 0 : VALUE, node == COPY_NODE ? 0 : VALUE);
    contract_unload(c, l);
    free(p);
}

/* One more than there may be: the command fails, and nothing of it is run. */
void contract_counted_excess(const contract_kit *kit) {
    contract *c = open_counting(kit);
    rota_exec_memory *memory = contract_mapped(c, MEMORY_BYTES);
    run_excess(c, memory, 40, KERNEL_NODE, 1);
    run_excess(c, memory, COUNT, COPY_NODE, 2);
    contract_close(c);
}
