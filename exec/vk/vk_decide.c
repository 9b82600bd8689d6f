/* Commands that decide. A command buffer has no jumps: bodies are recorded for so many turns (vk_turns.c), and what is
 * not to run is dispatched with no groups.
 *
 *     decide shader --> turns[0] of the command, groups of the body's commands -- one barrier -->
 *     the body's batches, by vkCmdDispatchIndirect -- barrier --> decide shader of the next turn ...
 *
 * Copies and fills in bodies are dispatches for that. A body is a program of its own (rota_vk_program) whose words are
 * in the block of the outermost one's instance, as those of counts are (vk_count.h): so the instance is in flight once
 * at a time. VK_EXT_conditional_rendering costs more than it saves (docs/architecture/executors.md).
 *
 * A loop of more iterations than turns is *gone on with*: an outermost one, and an `if` or `switch` around such a loop,
 * since the host submits its turns again (vk_run.c); one in a body in the next turn of the command around it, of which
 * all but that loop is off then:
 *
 *     turn 1:  decide   | before | inner: turn, turn, turn, end | behind |        on: before, inner
 *     turn 2:  decide   | before | inner: turn, turn, turn, end | behind |        on: inner, which ends, behind
 *     turn 3:  decide, of the next iteration ...
 *
 * The end looks whether the inner one is over. If so what stands behind it is on (`passed`), up to the next such one;
 * else the command around it is `busy`, and its next turn begins no iteration. So a turn costs all of its commands and
 * makes progress in one of them, and how many turns an inner loop has in a row is chosen so that both cost alike.
 *
 * The first failure, of a count or of iterations_max, makes `over` of the outermost command not 0, after which no body
 * is on and no shader touches what it said. The host reads it when the work is complete. */
#include "exec/vk/vk_decide.h"
#include "exec/common/names.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "exec/common/decisions.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_record.h"
#include "exec/vk/vk_recording.h"
#include "graph/conditional_internal.h"
#include "spv/vk_decide.h"

enum { MESSAGE_BYTES = 1024, DECIDE_GROUP = 64, WHOLE = ROTA_VK_COUNT_BLOCK_WORDS };
_Static_assert(sizeof(rota_vk_turn) == 32 && sizeof(rota_vk_decision_words) == 96 &&
                   offsetof(rota_vk_decision_words, so_far) == 88 && sizeof(rota_vk_decided_groups) == 32 &&
                   sizeof(rota_vk_decided_groups) == 8 * (size_t)WHOLE,
               "as the shaders have them");
#define DECISION_WORDS (sizeof(rota_vk_decision_words) / 8)

const rota_kernel rota_vk_decide_kernel = {
    .name = "decide",
    .operand_count = 2,
    .param_bytes = sizeof(rota_vk_decide_params),
    .vk = {.words = rota_spv_vk_decide, .size_bytes = sizeof rota_spv_vk_decide},
};

static rota_status check_word(const rota_exec_command *command, const rota_exec_operand *operands,
                              const rota_exec_word *word, const char *what) {
    const uint64_t size = word->operand < command->operand_count ? operands[word->operand].size_bytes : 0;
    if (word->offset_bytes <= size && size - word->offset_bytes >= sizeof(uint32_t)) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_RANGE, "its %s is in none of its %u operands", what, command->operand_count);
}

rota_status rota_vk_decide_check(const rota_exec_command *command, const rota_exec_operand *operands) {
    const rota_exec_conditional *conditional = command->u.conditional;
    ROTA_TRY(check_word(command, operands, &conditional->condition, "condition"));
    if (conditional->index.operand == UINT32_MAX) return ROTA_OK;
    return check_word(command, operands, &conditional->index, "index");
}

/* ---- Words ---- */

static void lay_out(rota_vk_program *program, uint32_t *next) {
    program->counts.word = *next;
    *next += program->counts.count * WHOLE;
    for (uint32_t i = 0; i < program->decisions.count; i++) {
        rota_vk_decision *decision = &program->decisions.list[i];
        decision->word = *next;
        *next += (uint32_t)DECISION_WORDS;
        for (uint32_t b = 0; b < decision->conditional->body_count; b++) {
            rota_vk_program *body = decision->bodies[b];
            if (!body) continue;
            body->table_word = *next;
            *next += body->desc->command_count * WHOLE;
            lay_out(body, next);
        }
    }
}

void rota_vk_words_lay_out(rota_vk_program *program) {
    uint32_t next = program->block_words = program->desc->block_words;
    if (program->counts.count + program->decisions.count == 0) return;
    next = (next + WHOLE - 1) / WHOLE * WHOLE; /* those of each begin at a multiple of their size */
    lay_out(program, &next);
    program->excess_word = next;
    program->block_words = next + program->desc->segment_count;
}

static void write_tables(const rota_vk_program *program, uint64_t *words) {
    for (uint32_t i = 0; i < program->decisions.count; i++) {
        const rota_vk_decision *decision = &program->decisions.list[i];
        for (uint32_t b = 0; b < decision->conditional->body_count; b++) {
            const rota_vk_program *body = decision->bodies[b];
            if (!body) continue;
            rota_vk_decided_groups *table = (rota_vk_decided_groups *)(words + body->table_word);
            for (uint32_t c = 0; c < body->desc->command_count; c++)
                memcpy(table[c].all, body->dispatches[c].launch.groups, sizeof table[c].all);
            write_tables(body, words);
        }
    }
}

void rota_vk_words_begin(rota_vk_recorded *recorded) {
    const rota_vk_program *program = recorded->program;
    const uint32_t first = program->desc->block_words;
    if (program->block_words == first) return;
    memset(recorded->block.words + first, 0, 8 * (size_t)(program->block_words - first));
    write_tables(program, recorded->block.words);
}

rota_vk_decision_words *rota_vk_words_of(const rota_vk_recorded *recorded, const rota_vk_decision *decision) {
    return (rota_vk_decision_words *)(recorded->block.words + decision->word);
}

static void begin_anew(const rota_vk_recorded *recorded, const rota_vk_decision *decision) {
    memset(rota_vk_words_of(recorded, decision), 0, sizeof(rota_vk_decision_words));
    for (uint32_t b = 0; b < decision->conditional->body_count; b++) {
        const rota_vk_program *body = decision->bodies[b];
        for (uint32_t i = 0; body && i < body->decisions.count; i++)
            begin_anew(recorded, &body->decisions.list[i]);
    }
}

void rota_vk_words_anew(rota_vk_recorded *recorded, uint32_t segment) {
    const rota_vk_decisions_of *decisions = &recorded->program->decisions;
    for (uint32_t i = decisions->first[segment]; i < decisions->first[segment + 1]; i++) {
        const rota_vk_decision *decision = &decisions->list[i];
        if (!decision->goes_on) continue;
        begin_anew(recorded, decision);
        rota_vk_words_of(recorded, decision)->turns[1].live = ROTA_VK_BEGINS;
    }
}

uint64_t rota_vk_decided_offset(const rota_vk_program *body, uint32_t command) {
    return 8 * (uint64_t)body->table_word + sizeof(rota_vk_decided_groups) * (uint64_t)command +
           offsetof(rota_vk_decided_groups, now);
}

/* ---- Recording ---- */

static uint64_t address_of(const rota_vk_recording *r, uint32_t word) {
    return r->recorded->block.address + 8 * (uint64_t)word;
}

/* Where 4 bytes in one of a command's operands are, as an operand of a kernel. */
static uint64_t word_operand(const rota_vk_recording *r, const rota_exec_command *command,
                             const rota_exec_word *word) {
    rota_exec_operand operand = r->program->desc->operands[command->first_operand + word->operand];
    rota_exec_operand_move(&operand, word->offset_bytes);
    return rota_vk_record_operand(r, &operand, false);
}

/* Commands of a body from `first` on that stand before the next one that is gone on with. */
static uint32_t section_of(const rota_vk_program *body, uint32_t first) {
    const rota_vk_decision *list = body->decisions.list;
    uint32_t low = 0, high = body->decisions.count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (list[middle].command < first)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < body->decisions.count && !list[low].goes_on) low++;
    return (low < body->decisions.count ? list[low].command : body->desc->command_count) - first;
}

/* What a dispatch of the shader is for. */
typedef struct deciding {
    uint32_t turn, flags;
    uint32_t body;                  /* 1 + its number */
    const rota_vk_program *program; /* whose commands are on or off; NULL: none's */
    uint32_t first;                 /* of them */
} deciding;

static void decide(rota_vk_recording *r, const rota_exec_command *command, const rota_vk_decision *decision,
                   const deciding *d) {
    const rota_exec_conditional *conditional = decision->conditional;
    const bool has_index = conditional->index.operand != UINT32_MAX;
    struct {
        uint64_t block, operands[2];
        rota_vk_decide_params params;
    } push = {r->recorded->block.address,
              {word_operand(r, command, &conditional->condition),
               word_operand(r, command, has_index ? &conditional->index : &conditional->condition)},
              {.words = address_of(r, decision->word),
               .outer = r->in.on,
               .over = r->in.over,
               .any_excess = address_of(r, r->recorded->program->excess_word + r->segment),
               .outer_busy = r->in.busy,
               .iterations_max = conditional->iterations_max,
               .outer_value = r->in.on_value,
               .kind = conditional->kind,
               .body = d->body,
               .body_count = conditional->body_count,
               .flags = d->flags | (d->turn % 2 ? ROTA_VK_DECIDE_PARITY : 0u) |
                        (decision->goes_on ? ROTA_VK_DECIDE_GOES_ON : 0u) |
                        (has_index ? ROTA_VK_DECIDE_HAS_INDEX : 0u)}};
    if (d->program) {
        push.params.commands = section_of(d->program, d->first);
        push.params.table = address_of(r, d->program->table_word + d->first * WHOLE);
    }
    rota_vk_record_bind(r, decision->pipeline->handle);
    r->device->vk.CmdPushConstants(r->buffer, r->device->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push,
                                   &push);
    r->device->vk.CmdDispatch(r->buffer, (push.params.commands + DECIDE_GROUP) / DECIDE_GROUP, 1, 1);
}

/* Those of a batch that stand side by side in one section. */
static rota_status record_range(rota_vk_recording *r, uint32_t first, uint32_t count) {
    const rota_exec_batch range = {.first_command = first, .command_count = count};
    ROTA_TRY(rota_vk_record_counts(r, &range));
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(rota_vk_record_command(r, first + i));
    return ROTA_OK;
}

/* A section ends with a command that is gone on with, and what stands behind that is on when it is over. */
static rota_status record_batch(rota_vk_recording *r, const rota_exec_batch *batch) {
    const rota_vk_program *body = r->program;
    uint32_t first = batch->first_command;
    const uint32_t end = first + batch->command_count;
    while (first < end) {
        const uint32_t section = section_of(body, first), left = end - first;
        ROTA_TRY(record_range(r, first, section < left ? section : left));
        if (section >= left) break;
        first += section;
        const rota_vk_dispatch *dispatch = &body->dispatches[first];
        const rota_vk_decision *decision = &body->decisions.list[dispatch->decision_plus_1 - 1];
        rota_vk_record_whole_barrier(r);
        ROTA_TRY(rota_vk_record_command(r, first++));
        rota_vk_record_whole_barrier(r);
        decide(r, &body->desc->commands[decision->command], decision,
               &(deciding){
                   .turn = decision->turns, .flags = ROTA_VK_DECIDE_END, .program = body, .first = first});
        rota_vk_record_whole_barrier(r);
        r->in.on = address_of(r, decision->word) + offsetof(rota_vk_decision_words, passed);
        r->in.on_value = 1;
    }
    return ROTA_OK;
}

static rota_status record_body(rota_vk_recording *r, const rota_vk_program *body, const rota_vk_inside *in) {
    const rota_exec_program_desc *desc = body->desc;
    rota_vk_recording inner = *r;
    bool first = true;
    inner.program = body;
    inner.in = *in;
    for (uint32_t b = 0; b < desc->segments[0].batch_count; b++) {
        const rota_exec_batch *batch = &desc->batches[desc->segments[0].first_batch + b];
        if (batch->command_count == 0) continue;
        if (!first) rota_vk_record_whole_barrier(&inner);
        first = false;
        ROTA_TRY(record_batch(&inner, batch));
    }
    r->bound = inner.bound;
    r->barriers = inner.barriers;
    return ROTA_OK;
}

rota_status rota_vk_decide_record(rota_vk_recording *r, const rota_exec_command *command,
                                  const rota_vk_dispatch *dispatch) {
    const rota_vk_decision *decision = &r->program->decisions.list[dispatch->decision_plus_1 - 1];
    const rota_exec_conditional *conditional = decision->conditional;
    const uint64_t words = address_of(r, decision->word);
    const rota_vk_inside outside = r->in;
    const bool is_outermost = !outside.over;
    if (is_outermost) r->in.over = words + offsetof(rota_vk_decision_words, over);
    rota_vk_inside in = r->in;
    in.busy = words + offsetof(rota_vk_decision_words, busy);
    for (uint32_t k = 0; k < decision->turns; k++) {
        if (k) rota_vk_record_whole_barrier(r);
        for (uint32_t b = 0; b < conditional->body_count; b++)
            if (decision->bodies[b])
                decide(r, command, decision,
                       &(deciding){.turn = k,
                                   .flags = k ? 0u : ROTA_VK_DECIDE_FIRST,
                                   .body = b + 1,
                                   .program = decision->bodies[b]});
        rota_vk_record_whole_barrier(r);
        in.on = words + offsetof(rota_vk_decision_words, turns) + sizeof(rota_vk_turn) * (k % 2) +
                offsetof(rota_vk_turn, fresh);
        for (uint32_t b = 0; b < conditional->body_count; b++) {
            in.on_value = b + 1;
            if (decision->bodies[b]) ROTA_TRY(record_body(r, decision->bodies[b], &in));
        }
    }
    /* The end of one in a body that is gone on with is its body's: record_batch. */
    if (decision->goes_on ? is_outermost : conditional->kind == ROTA_CONDITIONAL_WHILE) {
        rota_vk_record_whole_barrier(r);
        decide(r, command, decision, &(deciding){.turn = decision->turns, .flags = ROTA_VK_DECIDE_END});
    }
    r->in = outside;
    return ROTA_OK;
}

/* ---- Failures ---- */

typedef struct reporting {
    rota_vk_device *device;
    uint64_t *words; /* the block's */
    char text[MESSAGE_BYTES];
} reporting;

static rota_vk_count_words *count_words(const reporting *p, const rota_vk_program *program, uint32_t index) {
    return (rota_vk_count_words *)(p->words + rota_vk_count_word(program, index));
}

static rota_vk_decision_words *decision_words(const reporting *p, const rota_vk_decision *decision) {
    return (rota_vk_decision_words *)(p->words + decision->word);
}

static const char *name_of(const reporting *p, const rota_vk_program *program, uint32_t command) {
    return rota_node_name_of(&p->device->host, program->desc->owner, program->desc->commands[command].node);
}

static void say_count(reporting *p, const rota_vk_program *program, uint32_t index, size_t length) {
    (void)rota_decision_count(p->text, sizeof p->text, length, count_words(p, program, index)->excess,
                              program->counts.list[index].params.max);
}

/* What of it failed, as a sentence; false: nothing. */
static bool find_failure(reporting *p, const rota_vk_program *program, const rota_vk_decision *decision,
                         size_t length) {
    const rota_exec_conditional *conditional = decision->conditional;
    const rota_vk_decision_words *words = decision_words(p, decision);
    length = rota_decision_place(p->text, sizeof p->text, length, conditional->kind, words->so_far,
                                 name_of(p, program, decision->command));
    if (words->failed) {
        (void)rota_decision_limit(p->text, sizeof p->text, length, conditional, words->excess);
        return true;
    }
    for (uint32_t b = 0; b < conditional->body_count; b++) {
        const rota_vk_program *body = decision->bodies[b];
        for (uint32_t i = 0; body && i < body->counts.count; i++) {
            if (!count_words(p, body, i)->excess) continue;
            length = rota_decision_node(p->text, sizeof p->text, length,
                                        name_of(p, body, body->counts.list[i].command));
            say_count(p, body, i, length);
            return true;
        }
        for (uint32_t i = 0; body && i < body->decisions.count; i++)
            if (find_failure(p, body, &body->decisions.list[i], length)) return true;
    }
    return false;
}

/* For the next time: until then it is not in flight. */
static void forget(const reporting *p, const rota_vk_decision *decision) {
    rota_vk_decision_words *words = decision_words(p, decision);
    words->excess = words->failed = words->over = 0;
    for (uint32_t b = 0; b < decision->conditional->body_count; b++) {
        const rota_vk_program *body = decision->bodies[b];
        for (uint32_t i = 0; body && i < body->counts.count; i++) count_words(p, body, i)->excess = 0;
        for (uint32_t i = 0; body && i < body->decisions.count; i++) forget(p, &body->decisions.list[i]);
    }
}

static void tell(const reporting *p, const rota_vk_program *program, uint32_t command, void *cookie) {
    if (p->device->host.failed)
        p->device->host.failed(p->device->host.user, cookie, program->desc->owner,
                               program->desc->commands[command].node, ROTA_NODE_FAILED, p->text);
}

void rota_vk_failures_report(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment,
                             void *cookie) {
    const rota_vk_program *program = recorded->program;
    reporting p = {.device = device, .words = recorded->block.words};
    /* Written on the device, which has made it visible to the host at the segment's end. */
    volatile uint64_t *any = p.words + program->excess_word + segment;
    if (*any == 0) return;
    *any = 0;
    const rota_vk_counts_of *counts = &program->counts;
    const rota_vk_decisions_of *decisions = &program->decisions;
    for (uint32_t i = counts->first ? counts->first[segment] : 0;
         counts->first && i < counts->first[segment + 1]; i++) {
        if (!count_words(&p, program, i)->excess) continue;
        say_count(&p, program, i, 0);
        count_words(&p, program, i)->excess = 0;
        tell(&p, program, counts->list[i].command, cookie);
    }
    for (uint32_t i = decisions->first ? decisions->first[segment] : 0;
         decisions->first && i < decisions->first[segment + 1]; i++) {
        const rota_vk_decision *decision = &decisions->list[i];
        if (!decision_words(&p, decision)->over) continue;
        if (find_failure(&p, program, decision, 0)) tell(&p, program, decision->command, cookie);
        forget(&p, decision);
    }
}
