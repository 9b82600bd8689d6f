/* Commands that decide: an iteration is a work of its own, which runs among all others, its commands in any order that
 * the body's description allows. */
#include "tests/adversary/adversary_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph/conditional_internal.h"

static const rota_exec_command *command_of(const adversary_loop *loop) {
    return &loop->work->desc->commands[loop->command];
}

static uint32_t *word_of(const adversary_running *running, const rota_exec_word *word) {
    if (word->operand == UINT32_MAX) return NULL;
    return (uint32_t *)(void *)((uint8_t *)running->operands[word->operand] + word->offset_bytes);
}

bool adversary_loop_begin(const adversary_work *work, adversary_running *running) {
    const rota_exec_conditional *conditional = work->desc->commands[running->command].u.conditional;
    adversary_loop *loop = calloc(1, sizeof *loop);
    if (!loop) return false;
    running->loop = loop;
    loop->work = work;
    loop->command = running->command;
    loop->root = work->loop ? work->loop->root : loop;
    loop->condition = word_of(running, &conditional->condition);
    loop->index = word_of(running, &conditional->index);
    return true;
}

/* ---- Failures ---- */

/* From the outermost in. */
static void describe(const adversary_device *device, const adversary_loop *loop, char *text, size_t length) {
    char outer[512] = "";
    if (loop->work->loop) describe(device, loop->work->loop, outer, sizeof outer);
    const char *name = device->host.node_name(loop->work->desc->owner, command_of(loop)->node);
    (void)snprintf(text, length, "%s%siteration %llu of '%s'", outer, outer[0] ? ", " : "",
                   (unsigned long long)(loop->begun ? loop->begun - 1 : 0), name ? name : "?");
}

static void fail(adversary_device *device, const adversary_loop *loop, rota_status status, const char *why) {
    adversary_loop *root = loop->root;
    if (root->is_over) return;
    root->is_over = true;
    char where[1024], text[2048];
    describe(device, loop, where, sizeof where);
    (void)snprintf(text, sizeof text, "%s: %s", where, why);
    if (!device->options->breaks.mute_failures)
        device->host.failed(device->host.user, root->work->cookie, root->work->desc->owner,
                            command_of(root)->node, status, text);
}

void adversary_loop_fail(adversary_device *device, const adversary_work *work, uint32_t command,
                         rota_status status, const char *why) {
    const char *name = device->host.node_name(work->desc->owner, work->desc->commands[command].node);
    char text[1024];
    (void)snprintf(text, sizeof text, "node '%s': %s", name ? name : "?", why);
    fail(device, work->loop, status, text);
}

static void fail_limit(adversary_device *device, const adversary_loop *loop, uint32_t value) {
    char text[128];
    (void)snprintf(text, sizeof text, "its value is %u, and it may have %llu iterations (iterations_max)",
                   value, (unsigned long long)command_of(loop)->u.conditional->iterations_max);
    fail(device, loop, ROTA_NODE_FAILED, text);
}

/* ---- Iterations ---- */

/* Whether one more is due, and of which body. */
static bool is_due(adversary_device *device, adversary_loop *loop, uint32_t *out_body) {
    const rota_exec_conditional *conditional = command_of(loop)->u.conditional;
    uint32_t value;
    memcpy(&value, loop->condition, sizeof value);
    *out_body = 0;
    switch (conditional->kind) {
    case ROTA_CONDITIONAL_IF:
        *out_body = value == 0;
        return loop->begun == 0;
    case ROTA_CONDITIONAL_SWITCH:
        *out_body = value;
        return loop->begun == 0 && value < conditional->body_count;
    case ROTA_CONDITIONAL_WHILE:
        if (value && loop->begun == conditional->iterations_max) fail_limit(device, loop, value);
        return value && !loop->root->is_over;
    default:
        if (loop->begun == 0) loop->count = value;
        if (loop->begun == 0 && loop->count > conditional->iterations_max) fail_limit(device, loop, value);
        if (loop->begun == loop->count || loop->root->is_over) return false;
        value = (uint32_t)loop->begun;
        if (loop->index) memcpy(loop->index, &value, sizeof value);
        return true;
    }
}

/* What a body writes for itself means nothing in the next iteration. */
static void poison(const adversary_loop *loop, const adversary_running *running) {
    const rota_exec_command *command = command_of(loop);
    for (uint32_t k = 0; k < command->operand_count; k++)
        if (loop->work->desc->operands[command->first_operand + k].mode == ROTA_WRITE)
            memset(running->operands[k], ADVERSARY_POISON_FRESH, running->operand_bytes[k]);
}

static bool is_left_out(adversary_device *device, adversary_loop *root) {
    const rota_exec_host *host = &device->host;
    if (!root->is_over && host->poison_active && atomic_load(host->poison_active) &&
        host->must_skip(host->user, root->work->cookie, root->work->desc->owner, command_of(root)->node))
        root->is_over = true;
    return root->is_over;
}

static adversary_work *make_iteration(const adversary_loop *loop, const rota_exec_program_desc *body) {
    adversary_work *inner = calloc(1, sizeof *inner);
    if (!inner) return NULL;
    const adversary_work *outer = loop->work;
    inner->loop = (adversary_loop *)(uintptr_t)loop;
    inner->instance = outer->instance;
    inner->desc = body;
    inner->cookie = outer->cookie;
    inner->queue = outer->queue;
    inner->signal_value = outer->signal_value;
    inner->sequence = outer->sequence;
    inner->replay = outer->replay;
    inner->started = true;
    return inner;
}

adversary_step adversary_loop_step(adversary_device *device, adversary_running *running,
                                   adversary_work **out_iteration) {
    adversary_loop *loop = running->loop;
    *out_iteration = NULL;
    if (loop->running && !device->options->breaks.iterations) return ADVERSARY_STEP_WAITS;
    uint32_t body;
    const bool skips_first = loop->begun == 0 && is_left_out(device, loop->root);
    if (skips_first || loop->root->is_over || !is_due(device, loop, &body) ||
        (loop->begun && !device->options->breaks.deaf_loops && is_left_out(device, loop->root)))
        return loop->running ? ADVERSARY_STEP_WAITS : ADVERSARY_STEP_OVER;
    loop->begun++;
    atomic_store(&device->stuck_iterations, loop->root->begun);
    poison(loop, running);
    const rota_exec_program_desc *desc = command_of(loop)->u.conditional->bodies[body];
    if (!desc || desc->command_count == 0) return ADVERSARY_STEP_WAITS; /* it has ended already */
    *out_iteration = make_iteration(loop, desc);
    if (!*out_iteration) {
        adversary_violation(device, "the adversary itself is out of memory");
        return ADVERSARY_STEP_OVER;
    }
    loop->running++;
    return ADVERSARY_STEP_ITERATION;
}
