/* The synchronization validation as an oracle for barriers: lowered random graphs are recorded in touch mode
 * as they are, with no message, and once for each barrier with that barrier left out, with a message exactly
 * if it is the only one that orders some two conflicting accesses. Which ones those are is worked out here
 * from the lowered program.
 *
 * test_touch [SEED [COUNT]] checks other cases. */
#include "tests/exec/vk/exec_vk_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "sched/plan/compiled.h"
#include "tests/random/mirror.h"

enum { NODES = 160, BUFFER_BYTES = 4096, GRANULE = 16, BARRIERS_MAX = 512 };

#if defined __SANITIZE_ADDRESS__
static uint64_t first_seed = 500001, case_count = 150;
#else /* check.sh --full: 700 more */
static uint64_t first_seed = 500001, case_count = 300;
#endif

/* ---- What is expected ---- */

typedef struct access {
    uint64_t memory, begin, end; /* place: memory, or slot word */
    uint32_t batch, command;     /* batch: of those of the segment that are not empty */
    uint8_t mode, kind;          /* kind: ROTA_VK_DISPATCH or ROTA_VK_TRANSFER */
    bool sum;                    /* an atomic accumulate */
} access;

typedef struct expectation {
    uint32_t barriers;
    bool needed[BARRIERS_MAX];
} expectation;

static const rota_exec_operand *operand_of(const rota_exec_program_desc *desc,
                                           const rota_exec_command *command, uint32_t i) {
    return &desc->operands[command->first_operand + i];
}

/* Copies and fills run as transfers unless something of theirs is in a slot. */
static uint8_t kind_of(const rota_exec_program_desc *desc, const rota_exec_command *command) {
    if (command->kind == ROTA_EXEC_COMMAND_KERNEL) return ROTA_VK_DISPATCH;
    for (uint32_t i = 0; i < command->operand_count; i++)
        if (operand_of(desc, command, i)->is_slot) return ROTA_VK_DISPATCH;
    return ROTA_VK_TRANSFER;
}

static uint32_t collect(const rota_exec_program_desc *desc, uint32_t batch, const rota_exec_batch *from,
                        access *out) {
    uint32_t count = 0;
    for (uint32_t c = from->first_command; c < from->first_command + from->command_count; c++) {
        const rota_exec_command *command = &desc->commands[c];
        for (uint32_t i = 0; i < command->operand_count; i++) {
            const rota_exec_operand *operand = operand_of(desc, command, i);
            out[count++] = (access){.memory = (uint64_t)operand->is_slot << 32 | operand->memory,
                                    .begin = operand->offset_bytes,
                                    .end = rota_exec_operand_end(operand),
                                    .batch = batch,
                                    .command = c,
                                    .mode = operand->mode,
                                    .kind = kind_of(desc, command),
                                    .sum = operand->mode == ROTA_ACCUMULATE &&
                                           command->kind == ROTA_EXEC_COMMAND_KERNEL &&
                                           (command->u.kernel.kernel->flags & ROTA_KERNEL_ATOMIC_ACCUMULATE)};
        }
    }
    return count;
}

static bool conflict(const access *a, const access *b) {
    if (a->memory != b->memory || a->end <= b->begin || b->end <= a->begin || a->command == b->command)
        return false;
    return !(a->mode == ROTA_READ && b->mode == ROTA_READ) && !(a->sum && b->sum);
}

/* A barrier orders all that came before with what follows and runs as its batch does (vk_record.c). So the
 * one before batch j is the only one between an access of batch i and one of batch j if no batch between runs
 * anything as the latter does. */
static void expect_segment(const rota_exec_program_desc *desc, const rota_exec_segment *segment,
                           expectation *out) {
    access *accesses = calloc(desc->operand_count + 1u, sizeof *accesses);
    uint8_t *kinds = calloc(segment->batch_count + 1u, 1);
    if (!accesses || !kinds) abort();
    uint32_t count = 0, batches = 0;
    for (uint32_t b = 0; b < segment->batch_count; b++) {
        const rota_exec_batch *batch = &desc->batches[segment->first_batch + b];
        if (batch->command_count == 0) continue;
        uint32_t before = count;
        count += collect(desc, batches, batch, accesses + count);
        for (uint32_t c = 0; c < batch->command_count; c++)
            kinds[batches] |= kind_of(desc, &desc->commands[batch->first_command + c]);
        for (uint32_t i = 0; i < before && out->barriers < BARRIERS_MAX; i++)
            for (uint32_t j = before; j < count; j++) {
                bool other = false;
                for (uint32_t m = accesses[i].batch + 1; m < batches; m++)
                    other = other || (kinds[m] & accesses[j].kind);
                if (!other && conflict(&accesses[i], &accesses[j])) out->needed[out->barriers] = true;
            }
        out->barriers += batches++ > 0;
    }
    free(accesses);
    free(kinds);
}

/* ---- Recording without a barrier ---- */

typedef struct subject {
    fixture *f;
    const rota_exec_program_desc *desc;
    rota_exec_program *program;
    rota_exec_memory **memories, **bound; /* bound: of the argument words that are slots' addresses */
    uint64_t *block;
} subject;

static void prepare(subject *s, fixture *f, const rota_partition *part) {
    const rota_exec_program_desc *desc = &part->desc;
    *s = (subject){.f = f, .desc = desc};
    s->memories = calloc(desc->memory_count + 1, sizeof *s->memories);
    s->bound = calloc(desc->block_words + 1, sizeof *s->bound);
    s->block = calloc(desc->block_words + 1, sizeof *s->block);
    uint64_t *fixed = calloc(desc->memory_count + 1, 8), *words = calloc(desc->block_words + 1, 8);
    if (!s->memories || !s->bound || !s->block || !fixed || !words) abort();
    for (uint32_t i = 0; i < desc->operand_count; i++) {
        const rota_exec_operand *operand = &desc->operands[i];
        uint64_t *most = operand->is_slot ? &words[operand->memory] : &fixed[operand->memory];
        uint64_t end = rota_exec_operand_end(operand);
        if (end > *most) *most = end;
    }
    for (uint32_t i = 0; i < desc->memory_count; i++)
        s->memories[i] = memory(f, fixed[i] ? fixed[i] : 16, part->memories[i].flags);
    for (uint32_t i = 0; i < desc->block_words; i++)
        if (words[i]) {
            s->bound[i] = memory(f, words[i], ROTA_EXEC_MEMORY_DEVICE);
            s->block[i] = s->bound[i]->address;
        }
    free(fixed);
    free(words);
    assert_ok(f->device->vtable->program_create(f->device, desc, &s->program));
}

static void dispose(subject *s) {
    const rota_exec_device_vtable *v = s->f->device->vtable;
    v->program_destroy(s->f->device, s->program);
    for (uint32_t i = 0; i < s->desc->memory_count; i++) v->memory_destroy(s->f->device, s->memories[i]);
    for (uint32_t i = 0; i < s->desc->block_words; i++)
        if (s->bound[i]) v->memory_destroy(s->f->device, s->bound[i]);
    free(s->memories);
    free(s->bound);
    free(s->block);
}

/* Messages of one recording with `skipped` left out (-1: none); the text of the last is in `text`. */
static uint64_t messages_without(subject *s, int64_t skipped, char *text, size_t text_bytes) {
    fixture *f = s->f;
    loaded l = {.program = s->program};
    uint64_t before = rota_vk_validation_messages(f->device, NULL, 0);
    rota_vk_skip_barrier(f->device, skipped);
    assert_ok(f->device->vtable->instance_create(f->device, s->program, s->memories, &l.instance));
    if (s->desc->block_words) { /* What is in slots is recorded when it is known. */
        uint32_t last = 0;
        for (uint32_t i = 0; i < s->desc->segment_count; i++) {
            rota_exec_wait wait = {.queue = last, .value = f->next[last]};
            last = s->desc->segments[i].queue;
            rota_exec_work w = work(f, l, i, last, &wait, 1, s->block);
            submit(f, &w, 1);
        }
        wait_for(f, last);
    }
    uint64_t after = rota_vk_validation_messages(f->device, text, text_bytes);
    f->device->vtable->instance_destroy(f->device, l.instance);
    return after - before;
}

/* ---- The cases ---- */

static void print_program(const rota_exec_program_desc *desc) {
    for (uint32_t s = 0; s < desc->segment_count; s++)
        for (uint32_t b = 0; b < desc->segments[s].batch_count; b++) {
            const rota_exec_batch *batch = &desc->batches[desc->segments[s].first_batch + b];
            for (uint32_t c = batch->first_command; c < batch->first_command + batch->command_count; c++) {
                const rota_exec_command *command = &desc->commands[c];
                printf("segment %u, batch %u: %s", s, b,
                       command->kind == ROTA_EXEC_COMMAND_KERNEL ? command->u.kernel.kernel->name
                       : command->kind == ROTA_EXEC_COMMAND_COPY ? "copy"
                                                                 : "fill");
                for (uint32_t i = 0; i < command->operand_count; i++) {
                    const rota_exec_operand *operand = operand_of(desc, command, i);
                    printf(" %s:%s%u[%" PRIu64 ", +%" PRIu64 ")", rota_access_mode_name(operand->mode),
                           operand->is_slot ? "slot" : "memory", operand->memory,
                           (uint64_t)operand->offset_bytes, (uint64_t)operand->size_bytes);
                }
                printf("\n");
            }
        }
}

static void complain(const rota_exec_program_desc *desc, uint64_t seed, uint32_t barrier, uint32_t barriers,
                     const char *what) {
    print_program(desc);
    fail_msg("barrier %u of %u left out: %s\nrepeat: test_touch %" PRIu64 " 1", barrier, barriers, what,
             seed);
}

typedef struct tally {
    uint32_t programs, with_slots, with_sums, barriers, needed;
} tally;

static void check_part(fixture *f, const rota_partition *part, uint64_t seed, tally *t) {
    static expectation expected;
    memset(&expected, 0, sizeof expected);
    for (uint32_t i = 0; i < part->desc.segment_count; i++)
        expect_segment(&part->desc, &part->desc.segments[i], &expected);
    if (part->desc.command_count == 0 || expected.barriers >= BARRIERS_MAX) return;
    subject s;
    char text[1024] = "";
    prepare(&s, f, part);
    if (messages_without(&s, -1, text, sizeof text))
        fail_msg("seed %" PRIu64 ", with all barriers: %s", seed, text);
    assert_int_equal(rota_vk_barriers_recorded(f->device), expected.barriers);
    for (uint32_t b = 0; b < expected.barriers; b++) {
        uint64_t messages = messages_without(&s, b, text, sizeof text);
        if (messages && (!expected.needed[b] || !strstr(text, "SYNC-HAZARD")))
            complain(s.desc, seed, b, expected.barriers, text);
        if (!messages && expected.needed[b])
            complain(s.desc, seed, b, expected.barriers, "it is needed and nothing was said");
        t->needed += expected.needed[b];
    }
    t->programs++;
    t->barriers += expected.barriers;
    bool slots = false, sums = false;
    for (uint32_t i = 0; i < s.desc->operand_count; i++) slots = slots || s.desc->operands[i].is_slot;
    for (uint32_t i = 0; i < s.desc->command_count; i++)
        sums = sums || (s.desc->commands[i].kind == ROTA_EXEC_COMMAND_KERNEL &&
                        (s.desc->commands[i].u.kernel.kernel->flags & ROTA_KERNEL_ATOMIC_ACCUMULATE));
    t->with_slots += slots;
    t->with_sums += sums;
    dispose(&s);
}

static void check_case(fixture *f, uint64_t seed, tally *t) {
    mirror_case mirror;
    mirror_limits limits = {
        .nodes = NODES, .bytes = BUFFER_BYTES, .granule = GRANULE, .queues = QUEUES, .devices = 1};
    uint64_t random = seed;
    mirror_generate(&mirror, seed, &limits);
    for (uint32_t p = 0; p < mirror.persistent_count; p++)
        assert_ok(rota_buffer_create("p", mirror.persistents[p].bytes, &mirror.persistents[p].handle));
    for (uint32_t g = 0; g < mirror.graph_count; g++) {
        assert_ok(mirror_record(&mirror, &mirror.graphs[g], &random));
        assert_ok(mirror_compile(&mirror.graphs[g], NULL, NULL, 0));
        for (uint32_t p = 0; p < mirror.graphs[g].plan->partition_count; p++)
            check_part(f, &mirror.graphs[g].plan->partitions[p], seed, t);
        mirror_release(&mirror.graphs[g]);
    }
    for (uint32_t p = 0; p < mirror.persistent_count; p++) rota_buffer_release(mirror.persistents[p].handle);
    mirror_free(&mirror);
}

static void every_barrier_is_missed(void **state) {
    (void)state;
    fixture *f = open_with(&(rota_exec_open_options){.touch = true});
    if (!rota_vk_validation_active(f->device)) {
        print_message("skipped: the validation layer is not installed\n");
        close_quiet(f, false);
        skip();
    }
    tally t = {0};
    for (uint64_t i = 0; i < case_count; i++) check_case(f, first_seed + i, &t);
    print_message("%u programs (%u with slots, %u with atomic sums), %u barriers, of which %u order "
                  "something that nothing "
                  "else does\n",
                  t.programs, t.with_slots, t.with_sums, t.barriers, t.needed);
    /* The rest are there for rota_node_after, for reads of what nothing wrote (an OUTPUT that no node names
     * is still read back), and because transients that share memory are ordered as wholes, whichever of their
     * bytes are used. */
    assert_true(t.barriers == 0 || case_count < 100 || t.needed * 100 >= t.barriers * 95);
    close_quiet(f, true);
}

int main(int argc, char **argv) {
    if (argc > 1) first_seed = strtoull(argv[1], NULL, 0);
    if (argc > 2) case_count = strtoull(argv[2], NULL, 0);
    /* By default the layer falls silent after ten messages of a kind. */
    setenv("VK_LAYER_DUPLICATE_MESSAGE_LIMIT", "1000000000", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_barrier_is_missed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
