/* A case of the executor contract: random programs, whose order is all in their batches and edges, against
 * the same commands one by one. */
#include "tests/exec/exec_contract.h"

#include <stdlib.h>
#include <string.h>
#include "tests/exec/cpu/exec_cpu_kit.h"

enum { CELLS = 12, NODES_MAX = 200, REPLAYS = 5 };

typedef struct drawn_node {
    rota_exec_command_kind kind;
    uint32_t to, from; /* cells */
    contract_step_params params;
    uint32_t pattern;
} drawn_node;

typedef struct drawn {
    kit_program *program;
    uint32_t node_count, words;
    drawn_node nodes[NODES_MAX];
} drawn;

static void draw(drawn *d, uint64_t seed) {
    d->node_count = 1 + test_below(&seed, NODES_MAX);
    d->words = 16 + test_below(&seed, CONTRACT_COUNT - 16);
    d->program = kit_begin(d->node_count, CELLS, 0);
    for (uint32_t i = 0; i < d->node_count; i++) {
        drawn_node *node = &d->nodes[i];
        const uint32_t kind = test_below(&seed, 8);
        *node = (drawn_node){.kind = kind == 0   ? ROTA_EXEC_COMMAND_COPY
                                     : kind == 1 ? ROTA_EXEC_COMMAND_FILL
                                                 : ROTA_EXEC_COMMAND_KERNEL,
                             .to = test_below(&seed, CELLS),
                             .params = {d->words, (uint32_t)test_random(&seed), test_random(&seed)},
                             .pattern = (uint32_t)test_random(&seed)};
        node->from = (node->to + 1 + test_below(&seed, CELLS - 1)) % CELLS;
        const uint64_t bytes = 4ull * d->words;
        const bool is_kernel = node->kind == ROTA_EXEC_COMMAND_KERNEL;
        const rota_exec_operand operands[] = {
            kit_at(node->to, 0, bytes, is_kernel ? ROTA_READWRITE : ROTA_WRITE),
            kit_at(node->from, 0, bytes, ROTA_READ)};
        if (is_kernel)
            kit_kernel(d->program, &contract_step, &node->params, 2, operands);
        else if (node->kind == ROTA_EXEC_COMMAND_COPY)
            kit_node(d->program, node->kind, 2, operands);
        else
            kit_node(d->program, node->kind, 1, operands)->u.fill.pattern = node->pattern;
    }
}

static void run_serially(const drawn *d, uint32_t (*cells)[CONTRACT_COUNT]) {
    for (uint32_t i = 0; i < d->node_count; i++) {
        const drawn_node *node = &d->nodes[i];
        uint32_t *to = cells[node->to];
        for (uint32_t w = 0; w < d->words; w++) {
            if (node->kind == ROTA_EXEC_COMMAND_COPY)
                to[w] = cells[node->from][w];
            else if (node->kind == ROTA_EXEC_COMMAND_FILL)
                to[w] = node->pattern;
            else
                to[w] =
                    to[w] * 3 + cells[node->from][w] + node->params.add + (uint32_t)(node->params.wide >> 32);
        }
    }
}

static void check_drawn(const contract_kit *kit, uint64_t seed) {
    static drawn d;
    static uint32_t expected[CELLS][CONTRACT_COUNT];
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[CELLS];
    draw(&d, seed);
    for (uint32_t i = 0; i < CELLS; i++) {
        memories[i] = contract_mapped(c, CONTRACT_BYTES);
        for (uint32_t w = 0; w < d.words; w++)
            expected[i][w] = ((uint32_t *)memories[i]->host)[w] = i * 77 + w;
    }
    contract_loaded l = {0};
    assert_ok(c->v->program_create(c->device, kit_finish(d.program, 0), &l.program));
    assert_ok(c->v->instance_create(c->device, l.program, memories, &l.instance));
    for (uint32_t r = 0; r < REPLAYS; r++) {
        const rota_exec_wait wait = {0, c->next[0]};
        const rota_exec_work work = contract_work(c, l, 0, 0, r ? &wait : NULL, NULL);
        contract_submit(c, &work, 1);
        run_serially(&d, expected);
    }
    contract_wait(c, 0);
    for (uint32_t i = 0; i < CELLS; i++)
        if (memcmp(expected[i], memories[i]->host, 4 * (size_t)d.words) != 0)
            fail_msg("cell %u differs: seed %llu, %u nodes of %u words", i, (unsigned long long)seed,
                     d.node_count, d.words);
    contract_unload(c, l);
    kit_free(d.program);
    contract_close(c);
}

void contract_random(const contract_kit *kit) {
    const contract any = {.kit = kit};
    for (uint32_t seed = 1; seed <= contract_rounds(&any, 16); seed++) check_drawn(kit, seed);
}
