/* Commands that decide: the step from an iteration to the next.
 *
 * Whoever finished the last of an iteration goes on here and begins the next one, so that no worker waits: of a serial
 * body its worker, of others the one that took the run's `remaining` to zero (acquire and release with itself: it has
 * seen all that the iteration wrote, condition and all). What it then writes of the loop, and the counters of units
 * that their last predecessors armed again, are published to other workers by the pushes of the next iteration's tasks.
 * So at any time a loop has one writer, whoever that is, and its readers run units of the iteration that it began.
 *
 *     begin --> step --BODY--> units of the body --last one--> step --BODY--> ... --OVER--> what comes after it
 *                                    | a failure: root.is_over
 *                                    v
 *                       units that follow do nothing, but count
 *
 * The host knows the outermost command alone (`root`): it is asked for that before each iteration that is due, by
 * which a submission that was cancelled ends at one, and told once of what failed. */
#include "exec/cpu/loop.h"
#include "exec/common/names.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "exec/common/decisions.h"
#include "exec/cpu/device.h"
#include "graph/conditional_internal.h"

enum { MESSAGE_BYTES = 1024 };

static const rota_exec_conditional *conditional_of(const rota_cpu_loop *loop) {
    return loop->record->u.conditional->desc;
}

static const char *name_of(const rota_cpu_device *device, const rota_exec_instance *instance, uint32_t node) {
    return rota_node_name_of(&device->host, instance->program->owner, node);
}

/* ---- Failures ---- */

/* From the outermost in. */
static size_t describe(const rota_cpu_device *device, const rota_cpu_loop *loop, char *text, size_t length) {
    if (loop->outer) length = describe(device, loop->outer, text, length);
    return rota_decision_place(text, MESSAGE_BYTES, length, conditional_of(loop)->kind, loop->begun,
                               name_of(device, loop->instance, loop->record->node));
}

/* The first to fail says so. */
static void fail(rota_cpu_device *device, const rota_cpu_work *work, rota_cpu_loop *loop, rota_status status,
                 const char *text) {
    rota_cpu_loop *root = loop->root;
    if (ra_load_acquire(&device->end.stop)) return; /* pairs with close */
    /* Nothing is published by it: units that miss it run as they would have. */
    if (ra_fetch_add_relaxed(&root->is_over, 1) != 0) return;
    device->host.failed(device->host.user, work->cookie, root->instance->program->owner, root->record->node,
                        status, text);
}

void rota_cpu_loop_fail(rota_cpu_device *device, const rota_cpu_scope *scope, const rota_cpu_record *record,
                        rota_status status) {
    char text[MESSAGE_BYTES];
    size_t length = describe(device, scope->loop, text, 0);
    length = rota_decision_node(text, sizeof text, length, name_of(device, scope->instance, record->node));
    (void)snprintf(text + length, sizeof text - length, "%s", rota_last_error());
    fail(device, scope->work, scope->loop, status, text);
}

static void fail_limit(rota_cpu_device *device, const rota_cpu_work *work, rota_cpu_loop *loop,
                       uint32_t value) {
    char text[MESSAGE_BYTES];
    const size_t length = describe(device, loop, text, 0);
    (void)rota_decision_limit(text, sizeof text, length, conditional_of(loop), value);
    fail(device, work, loop, ROTA_NODE_FAILED, text);
}

/* ---- Steps ---- */

static uint32_t *find_word(const rota_cpu_scope *scope, const rota_cpu_record *record,
                           const rota_exec_word *word) {
    if (word->operand == UINT32_MAX) return NULL;
    const rota_exec_program *program = scope->instance->program;
    const uint32_t operand = record->first_operand + word->operand;
    uintptr_t address = (uintptr_t)scope->instance->operands[operand] + (uintptr_t)word->offset_bytes;
    const uint32_t slot = program->operand_word[operand];
    if (slot != ROTA_CPU_NONE) {
        const uint64_t *block = program->block_words > ROTA_CPU_INLINE_WORDS ? scope->work->large_block
                                                                             : scope->work->inline_block;
        address += (uintptr_t)block[slot];
    }
    return (uint32_t *)address;
}

static uint32_t read_word(const uint32_t *word) {
    uint32_t value;
    memcpy(&value, word, sizeof value);
    return value;
}

/* A submission that was cancelled, or what it reads failed: the host has marked what it writes. */
static bool must_skip(const rota_cpu_device *device, const rota_cpu_work *work, const rota_cpu_loop *root,
                      bool *out_watched) {
    *out_watched = ra_load_acquire(device->host.poison_active) != 0;
    return *out_watched && device->host.must_skip(device->host.user, work->cookie,
                                                  root->instance->program->owner, root->record->node);
}

void rota_cpu_loop_begin(const rota_cpu_scope *scope, const rota_cpu_record *record,
                         rota_cpu_unit_state *state, rota_cpu_loop *loop) {
    const rota_exec_conditional *conditional = record->u.conditional->desc;
    *loop = (rota_cpu_loop){.outer = scope->loop,
                            .root = scope->loop ? scope->loop->root : loop,
                            .record = record,
                            .instance = scope->instance,
                            .state = state,
                            .condition = find_word(scope, record, &conditional->condition),
                            .index = find_word(scope, record, &conditional->index)};
    if (scope->instance->times) loop->begin_ns = rota_clock_ns();
}

/* What is left to be said of a command that has ended. */
static void end(rota_cpu_device *device, const rota_cpu_work *work, const rota_cpu_loop *loop) {
    rota_cpu_times *times = loop->instance->times;
    const bool has_run = loop->begun != 0 || ra_load_relaxed(&loop->root->is_over) == 0;
    if (times) {
        ra_store_relaxed(&times[loop->record->command].begin_ns, has_run ? loop->begin_ns : 0);
        ra_store_relaxed(&times[loop->record->command].end_ns, has_run ? rota_clock_ns() : 0);
    }
    if (loop->root == loop && loop->watched && ra_load_relaxed(&loop->is_over) == 0)
        device->host.succeeded(device->host.user, work->cookie, loop->instance->program->owner,
                               loop->record->node);
}

/* Whether one more iteration is due, and of which of its bodies. */
static bool is_due(rota_cpu_device *device, const rota_cpu_work *work, rota_cpu_loop *loop,
                   uint32_t *out_body) {
    const rota_exec_conditional *conditional = conditional_of(loop);
    *out_body = 0;
    if (conditional->kind == ROTA_CONDITIONAL_FOR) {
        if (loop->begun == 0) {
            loop->count = read_word(loop->condition);
            if (loop->count > conditional->iterations_max) {
                fail_limit(device, work, loop, (uint32_t)loop->count);
                return false;
            }
        }
        if (loop->begun == loop->count) return false;
        const uint32_t index = (uint32_t)loop->begun;
        if (loop->index) memcpy(loop->index, &index, sizeof index);
        return true;
    }
    if (conditional->kind != ROTA_CONDITIONAL_WHILE && loop->begun != 0) return false;
    const uint32_t value = read_word(loop->condition);
    if (conditional->kind == ROTA_CONDITIONAL_SWITCH) {
        *out_body = value;
        return value < conditional->body_count && conditional->bodies[value];
    }
    if (conditional->kind == ROTA_CONDITIONAL_IF) {
        *out_body = value ? 0 : 1;
        return conditional->bodies[*out_body] != NULL;
    }
    if (value == 0) return false;
    if (loop->begun < conditional->iterations_max) return true;
    fail_limit(device, work, loop, value);
    return false;
}

/* Nothing more begins once the host says so. */
static void look_at_host(rota_cpu_device *device, const rota_cpu_work *work, rota_cpu_loop *loop) {
    rota_cpu_loop *root = loop->root;
    bool watched = false;
    if (ra_load_relaxed(&root->is_over) == 0 && must_skip(device, work, root, &watched))
        (void)ra_fetch_add_relaxed(&root->is_over, 1);
    if (loop == root && loop->begun == 0) root->watched = watched;
}

rota_cpu_step rota_cpu_loop_step(rota_cpu_device *device, const rota_cpu_work *work, rota_cpu_loop *loop,
                                 rota_exec_instance **out_body) {
    if (ra_load_acquire(&device->end.stop)) return ROTA_CPU_STEP_STOP; /* pairs with close */
    rota_cpu_loop *root = loop->root;
    uint32_t body;
    /* Before all else in any case: what decides may have failed. Of a node all of which has begun nothing is left
     * out. */
    const bool is_first = loop == root && loop->begun == 0;
    if (is_first) look_at_host(device, work, loop);
    bool is_more = ra_load_relaxed(&root->is_over) == 0 && is_due(device, work, loop, &body);
    if (is_more && !is_first) look_at_host(device, work, loop);
    is_more = is_more && ra_load_relaxed(&root->is_over) == 0;
    if (!is_more) {
        end(device, work, loop);
        return ROTA_CPU_STEP_OVER;
    }
    loop->begun++;
    *out_body = loop->instance->bodies[loop->record->u.conditional->first_body + body];
    return ROTA_CPU_STEP_BODY;
}
