/* Cases of the executor contract: what is computed, and in which order. */
#include "tests/exec/exec_contract.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"

#define COUNT CONTRACT_COUNT
#define BYTES CONTRACT_BYTES
#define QUEUES CONTRACT_QUEUES

static void two_operands(test_program *p, uint64_t x, uint64_t y) {
    test_program_operand(p, 0, false, x, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, y, BYTES, ROTA_READ);
}

/* Upload, a chain, read back, with memory of every kind. */
static void fixed(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[] = {contract_memory(c, 3u << 20, ROTA_EXEC_MEMORY_DEVICE),
                                    contract_mapped(c, 3 * BYTES)};
    uint32_t *host = memories[1]->host;
    for (uint32_t i = 0; i < 3 * COUNT; i++) host[i] = i;
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 2, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 0, false, 256, 2 * BYTES, ROTA_WRITE);
    test_program_operand(p, 1, false, 0, 2 * BYTES, ROTA_READ);
    for (uint32_t i = 0; i < 5; i++) {
        test_program_batch(p);
        test_program_kernel(p, &contract_step, &params);
        two_operands(p, 256, 256 + BYTES);
    }
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, 2 * BYTES, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, 256, BYTES, ROTA_READ);
    contract_loaded l = contract_load(c, p, memories);
    contract_run(c, l, NULL);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(host[2 * COUNT + i], contract_stepped(i, COUNT + i, 5));
    contract_unload(c, l);
    free(p);
    for (uint32_t m = 0; m < 2; m++) c->v->memory_destroy(c->device, memories[m]);
    contract_close(c);
}

/* ---- Argument words ---- */

/* A kernel with an operand and two parameters from words, then a copy and a fill to words' addresses: in two
 * segments on two queues, with everything odd about the copy, or in one. */
static test_program *slot_program(const contract_step_params *params, bool two) {
    const uint32_t odd = two;
    test_program *p = test_program_new(QUEUES, 1, 4);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_kernel(p, &contract_step, params);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, true, BYTES, BYTES, ROTA_READ); /* block[0] + BYTES */
    test_program_binding(p, 0, 1);
    test_program_binding(p, 1, 3);
    if (two) test_program_segment(p, 1);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 0, true, 2 * BYTES + odd, BYTES - 1 - 2 * odd, ROTA_WRITE);
    test_program_operand(p, 0, false, odd, BYTES - 1 - 2 * odd, ROTA_READ);
    test_program_fill(p, 0xABCD1234u);
    test_program_operand(p, 2, true, 4, 8, ROTA_WRITE);
    return p;
}

static void check_slots(const uint32_t *x, const uint32_t *other, uint32_t round, bool two) {
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t expected = 3 * i + 7 * i + round + 100 + round + round + 1;
        assert_int_equal(x[i], expected);
        if ((i || !two) && i + 1 < COUNT) assert_int_equal(other[2 * COUNT + i], expected);
        assert_int_equal(other[3 * COUNT + i], i == 1 || i == 2 ? 0xABCD1234u : 5);
    }
    if (two) assert_int_equal(((const uint8_t *)&other[2 * COUNT])[0], 0);
    assert_int_equal(((const uint8_t *)&other[3 * COUNT - 1])[two ? 2 : 3], 0);
}

/* Other values each time; the words are taken during submit. */
static void slots(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[] = {contract_mapped(c, BYTES), contract_mapped(c, 4 * BYTES)};
    uint32_t *x = memories[0]->host, *other = memories[1]->host;
    const contract_step_params params = {COUNT, 0, 0};
    for (uint32_t two = 0; two < 2; two++) {
        test_program *p = slot_program(&params, two);
        contract_loaded l = contract_load(c, p, memories);
        for (uint32_t round = 0; round < 20; round++) {
            for (uint32_t i = 0; i < COUNT; i++) {
                x[i] = i;
                other[COUNT + i] = 7 * i + round;
                other[2 * COUNT + i] = 0;
                other[3 * COUNT + i] = 5;
            }
            uint64_t block[4] = {memories[1]->address, 100 + round, memories[1]->address + 3 * BYTES,
                                 (uint64_t)(round + 1) << 32};
            const rota_exec_wait wait = {.queue = 0, .value = c->next[0] + 1};
            rota_exec_work works[2] = {contract_work(c, l, 0, 0, NULL, block)};
            if (two) works[1] = contract_work(c, l, 1, 1, &wait, block);
            contract_submit(c, works, 1 + two);
            memset(block, 0xee, sizeof block);
            contract_wait(c, two);
            check_slots(x, other, round, two);
        }
        contract_unload(c, l);
        free(p);
    }
    contract_close(c);
}

/* ---- Copies and fills ---- */

enum { SPACE = 200000 };

typedef struct transfer {
    uint64_t size, a, b, c, fill_at, fill_size;
} transfer;

/* From mapped memory through two of the device's, and a fill inside another. */
static test_program *transfer_program(const transfer *t) {
    static const uint8_t kinds[] = {ROTA_EXEC_BASE_STAGING, ROTA_EXEC_BASE_ARENA, ROTA_EXEC_BASE_ARENA,
                                    ROTA_EXEC_BASE_STAGING};
    test_program *p = test_program_new(QUEUES, 4, 0);
    p->desc.memory_kind = kinds;
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, t->b, t->size, ROTA_WRITE);
    test_program_operand(p, 0, false, t->a, t->size, ROTA_READ);
    test_program_fill(p, 0x22222222u);
    test_program_operand(p, 3, false, SPACE, SPACE, ROTA_WRITE);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 2, false, t->c, t->size, ROTA_WRITE);
    test_program_operand(p, 1, false, t->b, t->size, ROTA_READ);
    test_program_fill(p, 0xA1B2C3D4u);
    test_program_operand(p, 3, false, SPACE + t->fill_at, t->fill_size, ROTA_WRITE);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 3, false, t->c, t->size, ROTA_WRITE);
    test_program_operand(p, 2, false, t->c, t->size, ROTA_READ);
    return p;
}

/* Copies and fills of every alignment and of many sizes, between the device and mapped memory and inside the
 * device. */
static void transfers(const contract_kit *kit) {
    static uint8_t expected[SPACE], filled[SPACE];
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[] = {contract_mapped(c, SPACE), contract_memory(c, SPACE, 0),
                                    contract_memory(c, SPACE, 0), contract_mapped(c, 2 * SPACE)};
    uint64_t seed = 11;
    for (uint32_t round = 0; round < contract_rounds(c, 60); round++) {
        uint8_t *host = memories[0]->host, *back = memories[3]->host;
        transfer t = {.size = round % 3 ? 1 + test_below(&seed, 100) : 1 + test_below(&seed, 150000)};
        t.a = test_below(&seed, 33), t.b = test_below(&seed, 33), t.c = test_below(&seed, 33);
        t.fill_at = 4 * (uint64_t)test_below(&seed, 9), t.fill_size = 4 * (t.size / 4);
        for (uint32_t i = 0; i < SPACE; i++) host[i] = (uint8_t)test_random(&seed);
        memset(back, 0x11, 2 * SPACE);
        memset(expected, 0x11, sizeof expected);
        memcpy(expected + t.c, host + t.a, t.size);
        memset(filled, 0x22, sizeof filled);
        for (uint64_t i = 0; i < t.fill_size; i++)
            filled[t.fill_at + i] = (uint8_t)(0xA1B2C3D4u >> 8 * (i % 4));
        test_program *p = transfer_program(&t);
        contract_loaded l = contract_load(c, p, memories);
        contract_run(c, l, NULL);
        if (memcmp(back, expected, SPACE) != 0)
            fail_msg("a copy of %llu bytes went wrong", (unsigned long long)t.size);
        if (memcmp(back + SPACE, filled, SPACE) != 0)
            fail_msg("a fill of %llu bytes went wrong", (unsigned long long)t.fill_size);
        contract_unload(c, l);
        free(p);
    }
    contract_close(c);
}

/* ---- Works in order ---- */

/* 1 000 submissions of a chain in flight at once, each behind the one before. */
static void many(const contract_kit *kit) {
    contract *c = contract_open(kit, &(rota_exec_open_options){.max_in_flight = 8});
    rota_exec_memory *memories[] = {contract_mapped(c, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(3, &params);
    contract_loaded l = contract_load(c, p, memories);
    for (uint32_t sent = 0; sent < 1000;) {
        rota_exec_work works[10];
        rota_exec_wait waits[10];
        for (uint32_t i = 0; i < 10; i++, sent++) {
            waits[i] = (rota_exec_wait){.queue = 0, .value = c->next[0]};
            works[i] = contract_work(c, l, 0, 0, &waits[i], NULL);
        }
        contract_submit(c, works, 10);
    }
    contract_wait(c, 0);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], contract_stepped(i, i, 3000));
    contract_unload(c, l);
    free(p);
    contract_close(c);
}

/* One round of a chain that is handed over from queue to queue, between an upload and a read-back that come
 * with works. */
static void hand_over(contract *c, contract_loaded l, rota_exec_memory *own, rota_exec_memory *up,
                      rota_exec_memory *down, uint64_t *seed) {
    const rota_exec_copy upload = {.destination = own, .source = up, .size_bytes = 2 * BYTES};
    const rota_exec_copy download = {
        .destination = down, .source = own, .destination_offset = 3, .size_bytes = BYTES};
    rota_exec_work works[22] = {0};
    rota_exec_wait waits[22] = {0};
    uint32_t queue = QUEUES - 1;
    works[0] = (rota_exec_work){
        .copies = &upload, .copy_count = 1, .queue = queue, .signal_value = ++c->next[queue]};
    for (uint32_t i = 1; i <= 20; i++) {
        waits[i] = (rota_exec_wait){.queue = queue, .value = c->next[queue]};
        queue = (uint32_t)(test_random(seed) % QUEUES);
        works[i] = contract_work(c, l, queue, queue, &waits[i], NULL);
    }
    waits[21] = (rota_exec_wait){.queue = queue, .value = c->next[queue]};
    works[21] = (rota_exec_work){.copies = &download,
                                 .copy_count = 1,
                                 .queue = QUEUES - 1,
                                 .signal_value = ++c->next[QUEUES - 1],
                                 .waits = &waits[21],
                                 .wait_count = 1};
    contract_submit(c, works, 22);
    contract_wait(c, QUEUES - 1);
}

static void queues(const contract_kit *kit) {
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[] = {contract_memory(c, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
    rota_exec_memory *up = contract_memory(c, 2 * BYTES, ROTA_EXEC_MEMORY_HOST_WRITE);
    rota_exec_memory *down = contract_memory(c, BYTES + 3, ROTA_EXEC_MEMORY_HOST_READ);
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        test_program_segment(p, queue);
        test_program_batch(p);
        test_program_kernel(p, &contract_step, &params);
        two_operands(p, 0, BYTES);
    }
    contract_loaded l = contract_load(c, p, memories);
    uint64_t seed = 7;
    for (uint32_t round = 0; round < 50; round++) {
        uint32_t *values = up->host;
        for (uint32_t i = 0; i < COUNT; i++) {
            values[i] = i + round;
            values[COUNT + i] = i;
        }
        hand_over(c, l, memories[0], up, down, &seed);
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t got;
            memcpy(&got, (uint8_t *)down->host + 3 + 4 * i, 4);
            assert_int_equal(got, contract_stepped(i + round, i, 20));
        }
    }
    contract_unload(c, l);
    free(p);
    contract_close(c);
}

/* A wait holds for all later works of its queue: a copy waits for a chain, the kernel after it does not say
 * so again. Nor does the value before the chain's end come. */
static void cumulative(const contract_kit *kit) {
    enum { CHAIN = 200 };
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[] = {contract_mapped(c, 3 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    /* The last kernel is another than the chain's: in another place it gives other numbers. */
    const contract_step_params params = {COUNT, 1, 0}, other = {COUNT, 7, 0};
    const uint32_t last = QUEUES - 1;
    test_program *p = contract_chain(CHAIN, &params); /* segment 0, queue 0 */
    test_program_segment(p, last);                    /* 1: a copy of something else */
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 0, false, 2 * BYTES, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    test_program_segment(p, last); /* 2: a kernel on what the chain writes */
    test_program_batch(p);
    test_program_kernel(p, &contract_step, &other);
    two_operands(p, 0, BYTES);
    contract_loaded l = contract_load(c, p, memories);
    const rota_exec_wait wait = {.queue = 0, .value = 1};
    const rota_exec_work works[] = {contract_work(c, l, 0, 0, NULL, NULL),
                                    contract_work(c, l, 1, last, &wait, NULL),
                                    contract_work(c, l, 2, last, NULL, NULL)};
    contract_submit(c, works, 3);
    contract_wait(c, last);
    contract_wait(c, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(x[i], contract_stepped(i, i, CHAIN) * 3 + i + 7);
        assert_int_equal(x[2 * COUNT + i], i);
    }
    contract_unload(c, l);
    free(p);
    contract_close(c);
}

/* Works without commands: they wait, also for their own queue, and signal; on as many queues as there can be.
 */
static void empty_works(const contract_kit *kit) {
    contract *c = contract_open(kit, &(rota_exec_open_options){.queue_count = ROTA_EXEC_QUEUES_MAX});
    const uint32_t most = ROTA_EXEC_QUEUES_MAX;
    for (uint32_t round = 0; round < 20; round++)
        for (uint32_t q = 0; q < most; q++) {
            const rota_exec_wait waits[] = {{q, c->next[q]},
                                            {(q + most - 1) % most, c->next[(q + most - 1) % most]}};
            const rota_exec_work work = {.queue = q,
                                         .signal_value = c->next[q] + 1 + round % 3,
                                         .waits = waits,
                                         .wait_count = c->next[q] ? 2 : 0};
            contract_submit(c, &work, 1);
            c->next[q] = work.signal_value;
        }
    for (uint32_t q = 0; q < most; q++) contract_wait(c, q);
    contract_close(c);
}

/* ---- Commands in order ---- */

enum { WIDTH = 100, DEPTH = 6 };

static uint32_t wide_target(uint32_t d, uint32_t w) {
    return w + d % 2;
}

static uint32_t wide_source(uint32_t d, uint32_t w) {
    return (w + 1 - d % 2 + 2 * d) % WIDTH;
}

/* Wide batches, each of which waits for all of the one before. */
static void wide(const contract_kit *kit) {
    static uint32_t y[WIDTH][COUNT];
    contract *c = contract_open(kit, NULL);
    rota_exec_memory *memories[] = {contract_mapped(c, WIDTH * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < WIDTH * COUNT; i++) y[i / COUNT][i % COUNT] = x[i] = i;
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t d = 0; d < DEPTH; d++) {
        test_program_batch(p);
        /* Odd ones read, even ones change, then the other way round. */
        for (uint32_t w = 0; w < WIDTH; w += 2) {
            test_program_kernel(p, &contract_step, &params);
            two_operands(p, wide_target(d, w) * BYTES, wide_source(d, w) * BYTES);
        }
    }
    contract_loaded l = contract_load(c, p, memories);
    for (uint32_t round = 0; round < 5; round++) {
        const rota_exec_wait before = {0, c->next[0]};
        const rota_exec_work work = contract_work(c, l, 0, 0, round ? &before : NULL, NULL);
        contract_submit(c, &work, 1);
    }
    contract_wait(c, 0);
    for (uint32_t round = 0; round < 5; round++)
        for (uint32_t d = 0; d < DEPTH; d++)
            for (uint32_t w = 0; w < WIDTH; w += 2)
                for (uint32_t i = 0; i < COUNT; i++) {
                    uint32_t *to = &y[wide_target(d, w)][i];
                    *to = *to * 3 + y[wide_source(d, w)][i] + 1;
                }
    for (uint32_t i = 0; i < WIDTH * COUNT; i++) assert_int_equal(x[i], y[i / COUNT][i % COUNT]);
    contract_unload(c, l);
    free(p);
    contract_close(c);
}

/* Per-command times lie in order, inside the time that the host saw; before the first run there are none. */
static void times(const contract_kit *kit) {
    enum { CHAIN = 200 };
    contract *c = contract_open(kit, &(rota_exec_open_options){.diagnostics = true});
    rota_exec_memory *memories[] = {contract_mapped(c, 2 * BYTES)};
    memset(memories[0]->host, 0, 2 * BYTES);
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(CHAIN, &params);
    contract_loaded l = contract_load(c, p, memories);
    rota_exec_time got[CHAIN], never[CHAIN] = {0};
    memset(got, 0xff, sizeof got);
    assert_ok(c->v->times(c->device, l.instance, got));
    assert_memory_equal(got, never, sizeof got);
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < 2; i++) {
        const rota_exec_wait wait = {.queue = 0, .value = c->next[0]};
        const rota_exec_work work = contract_work(c, l, 0, 0, &wait, NULL);
        contract_submit(c, &work, 1);
    }
    contract_wait(c, 0);
    assert_ok(c->v->times(c->device, l.instance, got));
    const uint64_t end = rota_clock_ns(), slack = 2000000; /* a device without clocks to compare says now */
    for (uint32_t i = 0; i < CHAIN; i++) {
        assert_true(got[i].begin_ns + slack >= begin && got[i].end_ns <= end + slack);
        assert_true(got[i].begin_ns && got[i].begin_ns <= got[i].end_ns);
        if (i) assert_true(got[i].begin_ns >= got[i - 1].end_ns);
    }
    rota_exec_stuck stuck = {0};
    assert_false(c->v->stuck_node(c->device, l.instance, &stuck));
    contract_unload(c, l);
    free(p);
    contract_close(c);
}

const contract_case contract_cases[] = {
    {"listing", contract_listing},
    {"refusals", contract_refusals},
    {"fixed", fixed},
    {"slots", slots},
    {"steady words", contract_steady_words},
    {"transfers", transfers},
    {"many", many},
    {"queues", queues},
    {"cumulative", cumulative},
    {"empty works", empty_works},
    {"wide", wide},
    {"random", contract_random},
    {"counted", contract_counted},
    {"counted through slots", contract_counted_slots},
    {"counted too high", contract_counted_excess},
    {"loops", contract_loops},
    {"loops that fail", contract_loops_fail},
    {"loops that are ended", contract_loops_end},
    {"times", times},
    {"failures", contract_failures},
    {"leaks", contract_leaks},
    {"threads", contract_threads},
    {"idle", contract_idle},
    {"loss", contract_loss},
    {NULL, NULL},
};
