/* The CPU executor, driven through the contract of exec/exec.h by hand-built programs. With an argument
 * "bench": the times that its clustering and queues were tuned by. */
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tests/exec/cpu/exec_cpu_kit.h"
#include "tests/kit/nap.h"

/* ---- Random graphs against serial execution ---- */

enum { CELLS = 12 };

typedef struct random_graph {
    kit_program *program;
    uint32_t salts[600];
    uint32_t node_count, words;
    struct {
        uint32_t operand_count, cells[4];
        uint8_t kind; /* 0 mix, 1 copy, 2 fill */
    } nodes[600];
} random_graph;

static void make_random(random_graph *g, uint64_t seed, uint32_t node_count, uint32_t words) {
    g->program = kit_begin(node_count, CELLS, 0);
    g->node_count = node_count;
    g->words = words;
    for (uint32_t i = 0; i < node_count; i++) {
        uint32_t kind = (uint32_t)(test_random(&seed) % 8);
        uint32_t count = 1 + (uint32_t)(test_random(&seed) % 4);
        g->nodes[i].kind = kind == 0 ? 1 : kind == 1 ? 2 : 0;
        if (g->nodes[i].kind == 1) count = 2;
        if (g->nodes[i].kind == 2) count = 1;
        rota_exec_operand operands[4];
        for (uint32_t o = 0; o < count; o++) {
            uint32_t cell;
            bool is_new;
            do {
                cell = (uint32_t)(test_random(&seed) % CELLS);
                is_new = true;
                for (uint32_t before = 0; before < o; before++) is_new &= g->nodes[i].cells[before] != cell;
            } while (!is_new);
            g->nodes[i].cells[o] = cell;
            operands[o] = kit_at(cell, 0, (uint64_t)words * 8, o == 0 ? ROTA_READWRITE : ROTA_READ);
        }
        g->nodes[i].operand_count = count;
        g->salts[i] = (uint32_t)test_random(&seed);
        if (g->nodes[i].kind == 1) {
            kit_node(g->program, ROTA_EXEC_COMMAND_COPY, 2, operands);
        } else if (g->nodes[i].kind == 2) {
            kit_node(g->program, ROTA_EXEC_COMMAND_FILL, 1, operands)->u.fill.pattern = g->salts[i];
        } else {
            kit_kernel(g->program, kind & 1 ? &mix_split : &mix_whole, &g->salts[i], count, operands);
        }
    }
}

static void run_serially(const random_graph *g, uint64_t *const *cells) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint64_t *to = cells[g->nodes[i].cells[0]];
        if (g->nodes[i].kind == 1) {
            memcpy(to, cells[g->nodes[i].cells[1]], (size_t)g->words * 8);
            continue;
        }
        for (uint32_t w = 0; w < g->words; w++) {
            if (g->nodes[i].kind == 2) {
                to[w] = g->salts[i] | (uint64_t)g->salts[i] << 32;
                continue;
            }
            uint64_t value = mix(to[w], g->salts[i]);
            for (uint32_t o = 1; o < g->nodes[i].operand_count; o++)
                value = mix(value, cells[g->nodes[i].cells[o]][w]);
            to[w] = value;
        }
    }
}

static void check_random(uint64_t seed, uint32_t workers, uint32_t node_count, uint32_t words) {
    static random_graph g;
    make_random(&g, seed, node_count, words);
    kit_host host;
    rota_exec_device *device = kit_open(&host, workers, 1, (seed & 1) != 0);
    rota_exec_memory *memories[CELLS];
    uint64_t *expected[CELLS];
    for (uint32_t i = 0; i < CELLS; i++) {
        assert_ok(device->vtable->memory_create(device, (uint64_t)words * 8, 0, "cell", &memories[i]));
        assert_int_equal(memories[i]->address % ROTA_BUFFER_ALIGNMENT, 0);
        expected[i] = malloc((size_t)words * 8);
        for (uint32_t w = 0; w < words; w++) expected[i][w] = ((uint64_t *)memories[i]->host)[w] = mix(i, w);
    }
    rota_exec_program *program;
    rota_exec_instance *instance;
    assert_ok(device->vtable->program_create(device, kit_finish(g.program, 0), &program));
    assert_ok(device->vtable->instance_create(device, program, memories, &instance));
    enum { REPLAYS = 5 };
    for (uint64_t r = 1; r <= REPLAYS; r++) {
        rota_exec_wait wait = {0, r - 1};
        kit_submit(device, instance, 0, r, NULL, r > 1, &wait);
        run_serially(&g, expected);
    }
    kit_wait(&host, 0, REPLAYS);
    for (uint32_t i = 0; i < CELLS; i++) {
        if (memcmp(expected[i], memories[i]->host, (size_t)words * 8) != 0)
            fail_msg("cell %u differs: seed %llu, %u workers, %u nodes of %u words", i,
                     (unsigned long long)seed, workers, node_count, words);
    }
    assert_int_equal(ra_load_relaxed(&host.disorder), 0);
    rota_exec_time *times = calloc(node_count, sizeof *times);
    if (seed & 1) {
        assert_ok(device->vtable->times(device, instance, times));
        for (uint32_t i = 0; i < node_count; i++) {
            assert_true(times[i].begin_ns != 0 && times[i].end_ns >= times[i].begin_ns);
            for (uint32_t e = g.program->first_successor[i]; e < g.program->first_successor[i + 1]; e++)
                assert_true(times[g.program->successor[e]].begin_ns >= times[i].end_ns);
        }
    } else {
        assert_status(device->vtable->times(device, instance, times), ROTA_WRONG_STATE);
    }
    free(times);
    device->vtable->instance_destroy(device, instance);
    device->vtable->program_destroy(device, program);
    for (uint32_t i = 0; i < CELLS; i++) {
        device->vtable->memory_destroy(device, memories[i]);
        free(expected[i]);
    }
    kit_close(device);
    kit_free(g.program);
}

static void random_graphs_equal_serial(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (uint32_t round = 0; round < 30; round++) {
        static const uint32_t words[] = {4, 64, 1024, 8192,
                                         300}; /* a few in one task, gathered, alone, split */
        uint32_t nodes = 1 + (uint32_t)(test_random(&seed) % (words[round % 5] > 4096 ? 60 : 500));
        check_random(round, 1 + round % 4, nodes, words[round % 5]);
    }
}

/* ---- Many programs in flight ---- */

/* Two programs as one with two segments on different queues. Owns nothing but its arrays. */
typedef struct joined {
    rota_exec_program_desc desc;
    rota_exec_segment segments[2];
} joined;

static void *concat(const void *a, size_t a_count, const void *b, size_t b_count, size_t size) {
    uint8_t *both = calloc(a_count + b_count + 1, size);
    if (a_count) memcpy(both, a, a_count * size);
    if (b_count) memcpy(both + a_count * size, b, b_count * size);
    return both;
}

static void join(joined *j, const rota_exec_program_desc *a, const rota_exec_program_desc *b) {
    uint32_t n = a->command_count, m = b->command_count, edges = a->first_successor[n];
    j->desc = *a;
    rota_exec_command *commands = concat(a->commands, n, b->commands, m, sizeof *commands);
    rota_exec_batch *batches =
        concat(a->batches, a->batch_count, b->batches, b->batch_count, sizeof *batches);
    uint32_t *first = concat(a->first_successor, n, b->first_successor, m + 1, sizeof *first);
    uint32_t *successor = concat(a->successor, edges, b->successor, b->first_successor[m], sizeof *successor);
    for (uint32_t i = 0; i < m; i++) {
        commands[n + i].first_operand += a->operand_count;
        commands[n + i].node += n;
    }
    for (uint32_t i = 0; i < b->batch_count; i++) batches[a->batch_count + i].first_command += n;
    for (uint32_t i = 0; i < b->first_successor[m]; i++) successor[edges + i] += n;
    for (uint32_t i = 0; i <= m; i++) first[n + i] += edges;
    j->segments[0] = a->segments[0];
    j->segments[1] = (rota_exec_segment){b->segments[0].queue, a->batch_count, b->batch_count, n, m, 0, 0};
    j->desc.segments = j->segments;
    j->desc.segment_count = 2;
    j->desc.command_count += m;
    j->desc.batch_count += b->batch_count;
    j->desc.commands = commands;
    j->desc.batches = batches;
    j->desc.first_successor = first;
    j->desc.successor = successor;
    j->desc.operands =
        concat(a->operands, a->operand_count, b->operands, b->operand_count, sizeof *a->operands);
    j->desc.operand_count += b->operand_count;
    j->desc.predecessor_count = concat(a->predecessor_count, n, b->predecessor_count, m, sizeof *first);
}

static void free_joined(joined *j) {
    free((void *)(uintptr_t)j->desc.commands), free((void *)(uintptr_t)j->desc.batches);
    free((void *)(uintptr_t)j->desc.first_successor), free((void *)(uintptr_t)j->desc.successor);
    free((void *)(uintptr_t)j->desc.operands), free((void *)(uintptr_t)j->desc.predecessor_count);
}

/* Programs of two segments, submitted over and over with only the waits that their data needs: each segment
 * works on a set of cells and waits for the last work on that set, whatever its queue, so that sets overlap
 * in time and instances are submitted again while they run. */
static void many_programs_in_flight(void **state) {
    (void)state;
    enum { SETS = 4, PROGRAMS = 6, WORKS = 400, QUEUES = 3, WORDS = 700 };
    kit_host host;
    rota_exec_device *device = kit_open(&host, 3, QUEUES, false);
    rota_exec_memory *memories[SETS][CELLS];
    uint64_t *expected[SETS][CELLS];
    for (uint32_t i = 0; i < SETS * CELLS; i++) {
        rota_exec_memory **memory = &memories[i / CELLS][i % CELLS];
        uint64_t **words = &expected[i / CELLS][i % CELLS];
        assert_ok(device->vtable->memory_create(device, WORDS * 8, 0, "cell", memory));
        *words = malloc(WORDS * 8);
        for (uint32_t w = 0; w < WORDS; w++) (*words)[w] = ((uint64_t *)(*memory)->host)[w] = mix(i, w);
    }
    static random_graph graphs[PROGRAMS][2];
    joined programs[PROGRAMS];
    rota_exec_program *made[PROGRAMS];
    rota_exec_instance *instances[PROGRAMS][SETS];
    uint64_t seed = 7;
    for (uint32_t p = 0; p < PROGRAMS; p++) {
        for (uint32_t s = 0; s < 2; s++) {
            make_random(&graphs[p][s], test_random(&seed),
                        1 + (uint32_t)(test_random(&seed) % (p < 3 ? 8 : 120)), WORDS);
            kit_finish(graphs[p][s].program, (p + s) % QUEUES);
        }
        join(&programs[p], &graphs[p][0].program->desc, &graphs[p][1].program->desc);
        assert_ok(device->vtable->program_create(device, &programs[p].desc, &made[p]));
        for (uint32_t set = 0; set < SETS; set++)
            assert_ok(device->vtable->instance_create(device, made[p], memories[set], &instances[p][set]));
    }
    uint64_t value[QUEUES] = {0};
    rota_exec_wait last[SETS] = {{0}};
    for (uint32_t i = 0; i < WORKS; i++) {
        uint32_t p = (uint32_t)(test_random(&seed) % PROGRAMS), set = (uint32_t)(test_random(&seed) % SETS);
        uint32_t s = (uint32_t)(test_random(&seed) % 2), queue = (p + s) % QUEUES;
        rota_exec_work work = {.instance = instances[p][set],
                               .segment = s,
                               .queue = queue,
                               .signal_value = ++value[queue],
                               .waits = &last[set],
                               .wait_count = last[set].value != 0};
        assert_ok(device->vtable->submit(device, &work, 1));
        last[set] = (rota_exec_wait){queue, value[queue]};
        run_serially(&graphs[p][s], expected[set]);
    }
    for (uint32_t q = 0; q < QUEUES; q++) kit_wait(&host, q, value[q]);
    for (uint32_t i = 0; i < SETS * CELLS; i++) {
        assert_memory_equal(expected[i / CELLS][i % CELLS], memories[i / CELLS][i % CELLS]->host, WORDS * 8);
        device->vtable->memory_destroy(device, memories[i / CELLS][i % CELLS]);
        free(expected[i / CELLS][i % CELLS]);
    }
    assert_int_equal(ra_load_relaxed(&host.disorder), 0);
    for (uint32_t p = 0; p < PROGRAMS; p++) {
        for (uint32_t set = 0; set < SETS; set++) device->vtable->instance_destroy(device, instances[p][set]);
        device->vtable->program_destroy(device, made[p]);
        free_joined(&programs[p]);
        for (uint32_t s = 0; s < 2; s++) kit_free(graphs[p][s].program);
    }
    kit_close(device);
}

/* ---- Arguments ---- */

static void slots_and_bindings(void **state) {
    (void)state;
    enum { COPIES = 300, WORDS = 4096 };
    /* Small: serial, overlapping runs. Large: split, runs of the instance one after the other. */
    for (uint32_t large = 0; large < 2; large++) {
        uint32_t words = large ? WORDS : 16, copies = large ? 40 : COPIES;
        kit_host host;
        rota_exec_device *device = kit_open(&host, 3, 1, false);
        rota_exec_memory *memory;
        assert_ok(device->vtable->memory_create(device, WORDS * 8, 0, "source", &memory));
        for (uint32_t i = 0; i < WORDS; i++) ((uint64_t *)memory->host)[i] = i;
        uint32_t unset = 0xdead;
        kit_program *p = kit_begin(1, 1, 12); /* more words than fit into a work */
        rota_exec_operand operands[2] = {kit_at(10, 8, (uint64_t)words * 8, ROTA_READWRITE),
                                         kit_at(0, 0, (uint64_t)words * 8, ROTA_READ)};
        operands[0].is_slot = 1;
        rota_exec_command *c = kit_kernel(p, &mix_split, &unset, 2, operands);
        c->binding_count = 1;
        p->bindings[p->binding_count++] = (rota_exec_binding){.bindable = 0, .word = 11};
        rota_exec_program *program;
        rota_exec_instance *instance;
        assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
        assert_ok(device->vtable->instance_create(device, program, &memory, &instance));
        uint64_t *out = calloc((size_t)copies * (words + 1), 8);
        for (uint32_t k = 0; k < copies; k++) {
            uint64_t block[12] = {0};
            block[10] = (uint64_t)(uintptr_t)&out[(size_t)k * (words + 1)];
            block[11] = k * 7 + 1;
            kit_submit(device, instance, 0, k + 1, block, 0, NULL);
            memset(block, 0xee, sizeof block); /* the block was taken during submit */
        }
        kit_wait(&host, 0, copies);
        for (uint32_t k = 0; k < copies; k++) {
            assert_int_equal(out[(size_t)k * (words + 1)], 0);
            for (uint32_t i = 0; i < words; i++)
                assert_true(out[(size_t)k * (words + 1) + 1 + i] == mix(mix(0, k * 7 + 1), i));
        }
        device->vtable->instance_destroy(device, instance);
        device->vtable->program_destroy(device, program);
        device->vtable->memory_destroy(device, memory);
        kit_close(device);
        kit_free(p);
        free(out);
    }
}

/* ---- Waits ---- */

/* What a work's host function checks: the points that it waits for had been reached by those works'
 * functions. */
typedef struct point {
    _Atomic uint32_t done;
    struct point *after[64];
    uint32_t after_count;
    _Atomic uint32_t *violations;
    _Atomic uint32_t *gate; /* held until this is set */
    uint32_t nap_us;
} point;

static rota_status reach(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    point *p = user;
    (void)operands, (void)bytes, (void)count;
    while (p->gate && !ra_load_acquire(p->gate)) (void)sched_yield();
    for (uint32_t i = 0; i < p->after_count; i++) {
        if (!ra_load_relaxed(&p->after[i]->done)) ra_fetch_add_relaxed(p->violations, 1);
    }
    if (p->nap_us) test_nap_us(p->nap_us);
    ra_store_relaxed(&p->done, 1); /* relaxed on purpose: the executor must order it */
    return ROTA_OK;
}

static void waits_across_queues(void **state) {
    (void)state;
    enum { QUEUES = 5, WORKS = 1500 };
    kit_host host;
    rota_exec_device *device = kit_open(&host, 3, QUEUES, false);
    static point points[WORKS];
    memset(points, 0, sizeof points);
    static uint32_t queue_of[WORKS];
    static uint64_t value_of[WORKS];
    _Atomic uint32_t violations = 0;
    uint64_t seed = 42, values[QUEUES] = {0};
    /* reached[q][p]: index+1 of the newest work of queue p that queue q's works wait for, cumulatively. */
    uint32_t reached[QUEUES][QUEUES] = {{0}};
    kit_program *programs[WORKS];
    rota_exec_program *made[WORKS];
    rota_exec_instance *instances[WORKS];
    for (uint32_t i = 0; i < WORKS; i++) {
        uint32_t q = queue_of[i] = (uint32_t)(test_random(&seed) % QUEUES);
        values[q] += 1 + test_random(&seed) % 3;
        value_of[i] = values[q];
        points[i].violations = &violations;
        points[i].nap_us = test_random(&seed) % 16 == 0 ? 50 : 0;
        rota_exec_wait waits[4];
        uint32_t wait_count = (uint32_t)(test_random(&seed) % 4);
        uint32_t kept = 0;
        for (uint32_t w = 0; w < wait_count && i; w++) {
            uint32_t other = i - 1 - (uint32_t)(test_random(&seed) % (i < 20 ? i : 20));
            waits[kept++] = (rota_exec_wait){queue_of[other], value_of[other]};
            uint32_t *newest = &reached[q][queue_of[other]];
            if (*newest < other + 1) *newest = other + 1;
        }
        for (uint32_t p = 0; p < QUEUES; p++) {
            if (reached[q][p]) points[i].after[points[i].after_count++] = &points[reached[q][p] - 1];
        }
        programs[i] = NULL;
        instances[i] = NULL;
        if (test_random(&seed) % 8 != 0) {
            programs[i] = kit_begin(1, 1, 0);
            rota_exec_command *c = kit_node(programs[i], ROTA_EXEC_COMMAND_HOST, 0, NULL);
            c->u.host.fn = reach;
            c->u.host.user = &points[i];
            assert_ok(device->vtable->program_create(device, kit_finish(programs[i], q), &made[i]));
            assert_ok(device->vtable->instance_create(device, made[i], NULL, &instances[i]));
        } else {
            points[i].done = 1; /* an empty work */
        }
        kit_submit(device, instances[i], q, values[q], NULL, kept, waits);
    }
    for (uint32_t q = 0; q < QUEUES; q++) kit_wait(&host, q, values[q]);
    assert_int_equal(ra_load_relaxed(&violations), 0);
    assert_int_equal(ra_load_relaxed(&host.disorder), 0);
    for (uint32_t i = 0; i < WORKS; i++) {
        assert_int_equal(ra_load_relaxed(&points[i].done), 1);
        if (!programs[i]) continue;
        device->vtable->instance_destroy(device, instances[i]);
        device->vtable->program_destroy(device, made[i]);
        kit_free(programs[i]);
    }
    kit_close(device);
}

/* Works without waits overlap even if an earlier one is held; the timeline stays behind the held one. Also:
 * far more works in flight than the pool began with, and works held back behind a wait. */
static void works_overlap_and_queue_up(void **state) {
    (void)state;
    enum { WORKS = 3000 };
    kit_host host;
    rota_exec_device *device = kit_open(&host, 2, 2, false);
    _Atomic uint32_t gate = 0, violations = 0;
    static point held, counted;
    memset(&held, 0, sizeof held), memset(&counted, 0, sizeof counted);
    held.gate = &gate;
    held.violations = counted.violations = &violations;
    kit_program *p[2] = {kit_begin(1, 1, 0), kit_begin(1, 1, 0)};
    rota_exec_program *program[2];
    rota_exec_instance *instance[2];
    for (uint32_t i = 0; i < 2; i++) {
        rota_exec_command *c = kit_node(p[i], ROTA_EXEC_COMMAND_HOST, 0, NULL);
        c->u.host.fn = reach;
        c->u.host.user = i ? &counted : &held;
        assert_ok(device->vtable->program_create(device, kit_finish(p[i], 0), &program[i]));
        assert_ok(device->vtable->instance_create(device, program[i], NULL, &instance[i]));
    }
    kit_submit(device, instance[0], 0, 1, NULL, 0, NULL);
    kit_submit(device, instance[1], 0, 2, NULL, 0, NULL);
    uint64_t deadline = rota_deadline_after(20000000000u);
    while (!ra_load_acquire(&counted.done)) assert_true(rota_clock_ns() < deadline);
    assert_int_equal(ra_load_acquire(&host.timeline[0]), 0);
    /* The exact node that runs is known. */
    rota_exec_stuck stuck = {.node = 77};
    while (!device->vtable->stuck_node(device, instance[0], &stuck)) assert_true(rota_clock_ns() < deadline);
    assert_int_equal(stuck.node, 0);
    counted.done = 0;
    rota_exec_wait wait = {0, 1};
    for (uint64_t i = 1; i <= WORKS; i++) kit_submit(device, instance[1], 1, i, NULL, i == 1, &wait);
    test_nap_ms(20);
    assert_int_equal(ra_load_acquire(&host.timeline[1]), 0);
    assert_int_equal(ra_load_acquire(&counted.done), 0);
    ra_store_release(&gate, 1);
    kit_wait(&host, 0, 2);
    kit_wait(&host, 1, WORKS);
    for (uint32_t i = 0; i < 2; i++) {
        device->vtable->instance_destroy(device, instance[i]);
        device->vtable->program_destroy(device, program[i]);
        kit_free(p[i]);
    }
    kit_close(device);
}

/* More ready units at once than a deque holds. */
static void wide_graph_overflows_the_deques(void **state) {
    (void)state;
    enum { NODES = 30000, BYTES = 1 << 19 };
    kit_host host;
    rota_exec_device *device = kit_open(&host, 2, 1, false);
    rota_exec_memory *memory;
    assert_ok(device->vtable->memory_create(device, BYTES, ROTA_EXEC_MEMORY_HOST_READ, "counter", &memory));
    memset(memory->host, 0, BYTES);
    kit_program *p = kit_begin(NODES, 1, 1);
    /* Through a slot, so that the kit sees no hazards: count_kernel's sum is atomic. */
    rota_exec_operand operand = {.memory = 0, .is_slot = 1, .size_bytes = BYTES, .mode = ROTA_ACCUMULATE};
    for (uint32_t i = 0; i < NODES; i++) kit_kernel(p, &count_kernel, NULL, 1, &operand);
    rota_exec_program *program;
    rota_exec_instance *instance;
    assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
    assert_ok(device->vtable->instance_create(device, program, &memory, &instance));
    for (uint64_t r = 1; r <= 4; r++) kit_submit(device, instance, 0, r, &memory->address, 0, NULL);
    kit_wait(&host, 0, 4);
    assert_int_equal(ra_load_acquire((_Atomic uint32_t *)memory->host), 4 * NODES);
    device->vtable->instance_destroy(device, instance);
    device->vtable->program_destroy(device, program);
    device->vtable->memory_destroy(device, memory);
    kit_close(device);
    kit_free(p);
}

/* ---- Failures ---- */

static rota_status fail_run(const rota_kernel_call *call) {
    if (call->begin != 0) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_RANGE, "row 9 of 4 in a test");
}
static const rota_kernel fail_kernel = {.name = "fail", .cpu = {.fn = fail_run, .items = mix_items}};

static void failures_are_reported_and_the_rest_goes_on(void **state) {
    (void)state;
    for (uint32_t large = 0; large < 2; large++) {
        uint64_t bytes = large ? 1 << 18 : 64;
        kit_host host;
        rota_exec_device *device = kit_open(&host, 2, 1, true);
        rota_exec_memory *memories[3];
        for (uint32_t i = 0; i < 3; i++) {
            assert_ok(device->vtable->memory_create(device, bytes, 0, "m", &memories[i]));
            memset(memories[i]->host, 0, bytes);
        }
        uint32_t salt = 5;
        kit_program *p = kit_begin(4, 3, 0);
        rota_exec_operand a = kit_at(0, 0, bytes, ROTA_READWRITE), b = kit_at(1, 0, bytes, ROTA_READWRITE);
        rota_exec_operand read_a = kit_at(0, 0, bytes, ROTA_READ), c = kit_at(2, 0, bytes, ROTA_READWRITE);
        kit_kernel(p, &fail_kernel, NULL, 1, &a);
        kit_kernel(p, &mix_split, &salt, 2, (rota_exec_operand[]){b, read_a}); /* node 1: to be skipped */
        kit_kernel(p, &mix_split, &salt, 1, &c);
        kit_kernel(p, &mix_split, &salt, 1, &a);
        rota_exec_program *program;
        rota_exec_instance *instance;
        assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
        assert_ok(device->vtable->instance_create(device, program, memories, &instance));
        host.skip[1] = 1;
        kit_submit(device, instance, 0, 1, NULL, 0, NULL);
        kit_wait(&host, 0, 1);
        assert_int_equal(ra_load_acquire(&host.failures), 1);
        assert_int_equal(ra_load_acquire(&host.failed_node), 0);
        assert_string_equal(host.message, "row 9 of 4 in a test");
        rota_exec_time times[4];
        assert_ok(device->vtable->times(device, instance, times));
        for (uint32_t i = 0; i < 4; i++) assert_int_equal(times[p->command_of[i]].end_ns != 0, i != 1);
        assert_true(*(uint64_t *)memories[1]->host == 0);
        assert_true(*(uint64_t *)memories[2]->host == mix(0, 5));
        assert_true(*(uint64_t *)memories[0]->host == mix(0, 5));
        /* Node 3 ran after the failure and was reported; node 2 may have run before it. */
        uint32_t successes = ra_load_acquire(&host.successes);
        assert_true(successes == 1 || successes == 2);
        /* Nothing is asked or reported once the poison is gone. */
        ra_store_release(&host.poison, 0);
        p->nodes[p->command_of[0]].u.kernel.kernel = &mix_split;
        p->nodes[p->command_of[0]].u.kernel.params = &salt;
        rota_exec_program *good;
        rota_exec_instance *good_instance;
        assert_ok(device->vtable->program_create(device, &p->desc, &good));
        assert_ok(device->vtable->instance_create(device, good, memories, &good_instance));
        kit_submit(device, good_instance, 0, 2, NULL, 0, NULL);
        kit_wait(&host, 0, 2);
        assert_int_equal(ra_load_acquire(&host.successes), successes);
        assert_int_equal(ra_load_acquire(&host.failures), 1);
        assert_true(*(uint64_t *)memories[1]->host != 0);
        device->vtable->instance_destroy(device, good_instance);
        device->vtable->program_destroy(device, good);
        device->vtable->instance_destroy(device, instance);
        device->vtable->program_destroy(device, program);
        for (uint32_t i = 0; i < 3; i++) device->vtable->memory_destroy(device, memories[i]);
        kit_close(device);
        kit_free(p);
    }
}

/* What an operand is put together of is what its members say, with none of another's bits, also where they are the
 * largest that there are. */
static void operands_are_what_they_are_made_of(void **state) {
    (void)state;
    const uint64_t offsets[] = {0, 1, ROTA_EXEC_OFFSET_MAX}, sizes[] = {0, 1, ROTA_BUFFER_SIZE_MAX};
    const uint32_t memories[] = {0, 1, (1 << 13) - 1, 1 << 13, ROTA_EXEC_MEMORY_MAX};
    for (uint32_t i = 0; i < 3 * 3 * 5 * 2 * ROTA_ACCESS_MODE_COUNT; i++) {
        const uint64_t offset = offsets[i % 3], size = sizes[i / 3 % 3];
        const uint32_t memory = memories[i / 9 % 5], mode = i / 90;
        const bool is_slot = i / 45 % 2;
        rota_exec_operand operand = rota_exec_operand_of(memory, is_slot, offset, size, mode);
        assert_true(operand.offset_bytes == offset && operand.size_bytes == size);
        assert_true(operand.memory == memory && operand.is_slot == is_slot && operand.mode == mode);
        assert_true(rota_exec_operand_end(&operand) == offset + size);
        rota_exec_operand_set_memory(&operand, 5);
        rota_exec_operand_move(&operand, 3);
        const rota_exec_operand moved =
            rota_exec_operand_of(5, is_slot, (offset + 3) & ROTA_EXEC_OFFSET_MAX, size, mode);
        assert_memory_equal(&operand, &moved, sizeof moved);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_are_what_they_are_made_of),
        cmocka_unit_test(random_graphs_equal_serial),
        cmocka_unit_test(many_programs_in_flight),
        cmocka_unit_test(slots_and_bindings),
        cmocka_unit_test(waits_across_queues),
        cmocka_unit_test(works_overlap_and_queue_up),
        cmocka_unit_test(wide_graph_overflows_the_deques),
        cmocka_unit_test(failures_are_reported_and_the_rest_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
