/* A case of the executor contract: argument words of which some stay the same for a while and some never do,
 * since executors may keep what stays. */
#include "tests/exec/exec_contract.h"

#include <stdlib.h>
#include <string.h>
#include "tests/kit/random.h"

enum { CELLS = 4, STEPS = 24, WORDS = 8, SOME = 4, ROUNDS = 80 };

/* A step of the chain: where its operands and its parameters come from. */
typedef struct drawn_step {
    uint32_t to, from, add, wide; /* words, or STEPS and more: a cell, and none */
    contract_step_params params;
} drawn_step;

typedef struct drawn_words {
    drawn_step steps[STEPS];
    uint64_t block[WORDS]; /* 0 .. 2: addresses of cells; 3 .. 7: numbers, of which the last always changes */
    uint32_t cell_of[3];
    uint32_t cells[CELLS][SOME];
} drawn_words;

static test_program *draw_program(drawn_words *d, uint64_t *seed) {
    test_program *p = test_program_new(CONTRACT_QUEUES, CELLS, WORDS);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < STEPS; i++) {
        drawn_step *step = &d->steps[i];
        *step = (drawn_step){.to = test_below(seed, 2),
                             .from = 2 + test_below(seed, 2), /* word 2, or cell 3 */
                             .add = test_below(seed, 2) ? 3 + test_below(seed, 5) : WORDS,
                             .wide = test_below(seed, 2) ? 3 + test_below(seed, 5) : WORDS,
                             .params = {SOME, (uint32_t)test_random(seed), test_random(seed)}};
        test_program_batch(p);
        test_program_kernel(p, &contract_step, &step->params);
        test_program_operand(p, step->to, true, 0, SOME * 4, ROTA_READWRITE);
        test_program_operand(p, step->from, step->from == 2, 0, SOME * 4, ROTA_READ);
        if (step->add < WORDS) test_program_binding(p, 0, step->add);
        if (step->wide < WORDS) test_program_binding(p, 1, step->wide);
    }
    return p;
}

/* Words 0 and 1 name cells 0 and 1 in either order, word 2 cell 2 or 3. */
static void draw_words(drawn_words *d, rota_exec_memory *const *memories, bool all, uint64_t *seed) {
    if (all || test_below(seed, 8) == 0) {
        d->cell_of[0] = test_below(seed, 2);
        d->cell_of[1] = 1 - d->cell_of[0];
    }
    if (all || test_below(seed, 8) == 0) d->cell_of[2] = 2 + test_below(seed, 2);
    for (uint32_t w = 0; w < 3; w++) d->block[w] = memories[d->cell_of[w]]->address;
    for (uint32_t w = 3; w < WORDS; w++)
        if (all || w + 1 == WORDS || test_below(seed, 12) == 0) d->block[w] = test_random(seed);
}

static void run_serially(drawn_words *d) {
    for (uint32_t i = 0; i < STEPS; i++) {
        const drawn_step *step = &d->steps[i];
        const uint32_t add = step->add < WORDS ? (uint32_t)d->block[step->add] : step->params.add;
        const uint64_t wide = step->wide < WORDS ? d->block[step->wide] : step->params.wide;
        uint32_t *to = d->cells[d->cell_of[step->to]];
        const uint32_t *from = d->cells[step->from == 2 ? d->cell_of[2] : step->from];
        for (uint32_t n = 0; n < SOME; n++) to[n] = to[n] * 3 + from[n] + add + (uint32_t)(wide >> 32);
    }
}

void contract_steady_words(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[CELLS];
    uint64_t seed = 41;
    for (uint32_t m = 0; m < CELLS; m++) memories[m] = contract_mapped(c, CONTRACT_BYTES);
    for (uint32_t draws = 0; draws < 3; draws++) {
        drawn_words d = {0};
        test_program *p = draw_program(&d, &seed);
        contract_loaded l = contract_load(c, p, memories);
        for (uint32_t m = 0; m < CELLS; m++) memset(memories[m]->host, 0, CONTRACT_BYTES);
        draw_words(&d, memories, true, &seed);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            contract_run(c, l, d.block);
            run_serially(&d);
            for (uint32_t m = 0; m < CELLS; m++)
                for (uint32_t n = 0; n < SOME; n++)
                    assert_int_equal(((const uint32_t *)memories[m]->host)[n], d.cells[m][n]);
            draw_words(&d, memories, false, &seed);
        }
        contract_unload(c, l);
        free(p);
    }
    for (uint32_t m = 0; m < CELLS; m++) c->v->memory_destroy(c->device, memories[m]);
    contract_close(c);
}
