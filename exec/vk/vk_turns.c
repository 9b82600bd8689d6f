/* How many turns of a command that decides are recorded, and which are gone on with (vk_decide.c). What a submission
 * costs follows from it: each command that is recorded costs its barrier, about 1 us on an H200, whether it is on or
 * off.
 *
 *   - An outermost loop is recorded whole where that is no more than two runs would be of what is submitted first. Else
 *     a run has about RUN_COMMANDS, and is submitted as often as it takes (vk_run.c): two runs at first, so that one is
 *     with the device while the host looks at the other. What is off in the end is then no more than those two, or
 *     than a part of what was on.
 *   - One in a body is recorded whole where that is little; else its turns are as many commands as stand around it, at
 *     least INNER_COMMANDS, since a turn of the command around it costs them all and makes progress in one.
 *
 * Turns of those that are gone on with are odd: with the end behind them the words of the turn before are always in the
 * other half (rota_vk_decision_words.turns). */
#include "exec/vk/vk_turns.h"

#include "exec/vk/vk_program.h"
#include "graph/conditional_internal.h"

enum { RUN_COMMANDS = 64, INNER_COMMANDS = 32, INNER_WHOLE = 64, BODY_COMMANDS = 4096 };

/* In commands: what is recorded whole, of the outermost ones and of others, and how much else, at least. */
typedef struct bounds {
    uint64_t whole, run, inner_whole, inner;
} bounds;

static const bounds usual = {UINT64_C(2) * RUN_COMMANDS, RUN_COMMANDS, INNER_WHOLE, INNER_COMMANDS},
                    least = {0};

static uint32_t odd_turns(uint64_t commands, uint64_t turn_commands) {
    const uint64_t turns = commands / turn_commands;
    return turns < 2 ? 1 : (uint32_t)(turns - 1) | 1u;
}

static uint64_t recorded(const rota_vk_decision *decision) {
    return decision->turns * decision->turn_commands + 1;
}

static uint64_t choose_body(rota_vk_program *body, const bounds *b);

/* All but the turns of one that is gone on with, which follow from what is around it. */
static void choose(rota_vk_decision *decision, uint64_t whole, const bounds *b) {
    const rota_exec_conditional *conditional = decision->conditional;
    const bool is_loop = rota_conditional_is_loop(conditional->kind);
    bool goes_on = false;
    decision->turn_commands = 0;
    for (uint32_t i = 0; i < conditional->body_count; i++) {
        rota_vk_program *body = decision->bodies[i];
        decision->turn_commands += 1 + (body ? choose_body(body, b) : 0);
        for (uint32_t k = 0; body && k < body->decisions.count; k++)
            goes_on = goes_on || body->decisions.list[k].goes_on;
    }
    if (decision->turn_commands == 0) decision->turn_commands = 1;
    const uint64_t most = whole / decision->turn_commands;
    decision->goes_on = goes_on || (is_loop && conditional->iterations_max > (most ? most : 1));
    decision->is_plain = is_loop && !goes_on;
    decision->turns = is_loop && !decision->goes_on ? (uint32_t)conditional->iterations_max : 1;
}

/* Of what is recorded of it once. */
static uint64_t choose_body(rota_vk_program *body, const bounds *b) {
    uint64_t commands = (uint64_t)body->desc->command_count + body->counts.count;
    uint32_t going_on = 0;
    for (uint32_t i = 0; i < body->decisions.count; i++) {
        rota_vk_decision *decision = &body->decisions.list[i];
        choose(decision, b->inner_whole, b);
        if (decision->goes_on)
            going_on++;
        else
            commands += recorded(decision);
    }
    if (going_on == 0) return commands;
    uint64_t each = commands < BODY_COMMANDS / going_on ? commands : BODY_COMMANDS / going_on;
    if (each < b->inner || b->inner == 0) each = b->inner;
    for (uint32_t i = 0; i < body->decisions.count; i++) {
        rota_vk_decision *decision = &body->decisions.list[i];
        if (!decision->goes_on) continue;
        if (rota_conditional_is_loop(decision->conditional->kind))
            decision->turns = odd_turns(each, decision->turn_commands);
        commands += recorded(decision);
    }
    return commands;
}

void rota_vk_turns_choose(rota_vk_program *program, bool few) {
    const bounds *b = few ? &least : &usual;
    for (uint32_t i = 0; i < program->decisions.count; i++) {
        rota_vk_decision *decision = &program->decisions.list[i];
        choose(decision, b->whole, b);
        if (decision->goes_on) decision->turns = odd_turns(b->run, decision->turn_commands);
    }
}
