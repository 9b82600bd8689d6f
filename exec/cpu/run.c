/* Running tasks: works, units, and the commands in them.
 *
 * The hot loop runs plain kernels with nothing but a call; what needs more (slots, bindings, host functions,
 * failed ranges, times) goes through run_slow. After every command the worker looks at `stop`, so that once
 * close has given up on a kernel that never ends, nothing of the host is touched when it does end.
 *
 * The last worker to leave a work's run completes it; whatever runs after a counter's decrement uses only
 * local copies, because the instance may be gone by then. */
#include "exec/cpu/run.h"

#include <string.h>

#include "base/clock.h"
#include "graph/kernel_calls.h"
#include "exec/cpu/device.h"
#include "exec/cpu/instance.h"
#include "exec/cpu/later.h"
#include "exec/cpu/loop.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "a 4-byte parameter is the first half of its block word");

/* A call with slot operands and bound parameters filled in. */
typedef struct prepared_call {
    rota_kernel_call call;
    uint64_t grain;            /* of the bound parameters; set where they are bound and the kernel says it */
    uint64_t copy_bytes[2];    /* of a copy that is counted */
    void *operands[UINT8_MAX]; /* as many as a command can have */
    _Alignas(16) uint8_t params[ROTA_KERNEL_PARAM_BYTES_MAX];
} prepared_call;

static void report_failure(rota_cpu_device *device, const rota_cpu_scope *scope,
                           const rota_cpu_record *record, rota_status status) {
    if (ra_load_acquire(&device->end.stop)) return; /* pairs with close */
    if (scope->loop)
        rota_cpu_loop_fail(device, scope, record, status);
    else
        device->host.failed(device->host.user, scope->work->cookie, scope->instance->program->owner,
                            record->node, status, rota_last_error());
}

/* The parameter that the kernel wants it in, if any. */
static void put_count(const rota_exec_command *command, uint32_t count, prepared_call *out) {
    const rota_kernel *kernel = command->u.kernel.kernel;
    const uint32_t plus_1 = command->u.kernel.count_bindable_plus_1;
    if (plus_1 == 0) return;
    if (out->call.params != out->params) memcpy(out->params, out->call.params, kernel->param_bytes);
    out->call.params = out->params;
    memcpy(out->params + kernel->bindables[plus_1 - 1].offset_bytes, &count, sizeof count);
}

/* As many items as the last operand says; all workers of a split kernel read the same, as nobody writes it before the
 * node ends. */
static rota_status take_count(const rota_exec_program *program, const rota_cpu_record *record,
                              prepared_call *out) {
    const rota_exec_command *command = &program->desc->commands[record->command];
    const bool is_copy = command->kind == ROTA_EXEC_COMMAND_COPY;
    const uint32_t most = rota_exec_count_max(command);
    uint32_t count;
    memcpy(&count, out->call.operands[--out->call.operand_count], sizeof count);
    if (count > most)
        return rota_fail(ROTA_NODE_FAILED, "its count is %u, the most it may be is %u (rota_count.max)",
                         count, most);
    if (is_copy) {
        out->copy_bytes[0] = out->copy_bytes[1] = count * command->u.copy.unit_bytes;
        out->call.operand_bytes = out->copy_bytes;
        out->call.end = out->call.items = rota_cpu_copy_items(out->copy_bytes[0]);
        return ROTA_OK;
    }
    if (count > out->call.items) /* as the parameters in slots say */
        return rota_fail(ROTA_NODE_FAILED, "its count is %u, and kernel '%s' has %llu items", count,
                         command->u.kernel.kernel->name, (unsigned long long)out->call.items);
    out->call.end = out->call.items = count;
    put_count(command, count, out);
    return ROTA_OK;
}

static rota_status prepare(const rota_cpu_scope *scope, const rota_cpu_record *record, prepared_call *out) {
    const rota_cpu_work *work = scope->work;
    const rota_exec_instance *instance = scope->instance;
    const rota_exec_program *program = instance->program;
    const uint64_t *block =
        program->block_words > ROTA_CPU_INLINE_WORDS ? work->large_block : work->inline_block;
    out->call.operands = instance->operands + record->first_operand;
    out->call.params = record->u.params;
    out->call.begin = 0;
    out->call.end = out->call.items = record->items;
    out->call.operand_count = record->operand_count;
    out->call.operand_bytes = program->operand_bytes + record->first_operand;
    out->call.user = record->flags & ROTA_CPU_RECORD_USER
                         ? program->desc->commands[record->command].u.kernel.kernel->user
                         : NULL;
    if (record->flags & ROTA_CPU_RECORD_SLOTS) {
        const uint32_t *words = program->operand_word + record->first_operand;
        for (uint32_t i = 0; i < record->operand_count; i++) {
            uintptr_t address = (uintptr_t)instance->operands[record->first_operand + i];
            if (words[i] != ROTA_CPU_NONE) address += (uintptr_t)block[words[i]];
            out->operands[i] = (void *)address;
        }
        out->call.operands = out->operands;
    }
    if (record->flags & ROTA_CPU_RECORD_BINDINGS) {
        const rota_exec_command *command = &program->desc->commands[record->command];
        const rota_kernel *kernel = command->u.kernel.kernel;
        memcpy(out->params, record->u.params, kernel->param_bytes);
        for (uint32_t i = 0; i < command->binding_count; i++) {
            const rota_exec_binding *binding = &program->desc->bindings[command->first_binding + i];
            const rota_kernel_bindable *bindable = &kernel->bindables[binding->bindable];
            /* The low 4 bytes of a word come first: see the assertion above. */
            memcpy(out->params + bindable->offset_bytes, &block[binding->word], bindable->size_bytes);
        }
        out->call.params = out->params;
        (void)rota_kernel_items(kernel, out->params, out->call.operand_bytes, &out->call.items, &out->grain);
        out->call.end = out->call.items;
        if (out->call.items > ROTA_CPU_ITEMS_MAX)
            return rota_fail(ROTA_NODE_FAILED, "%s: %llu items of the parameters in slots, at most %llu",
                             kernel->name, (unsigned long long)out->call.items,
                             (unsigned long long)ROTA_CPU_ITEMS_MAX);
    }
    return record->flags & ROTA_CPU_RECORD_COUNTED ? take_count(program, record, out) : ROTA_OK;
}

/* For stuck_node: what the host knows of it, which of a body is the command that it is of; and which of the body's. */
static void show_node(rota_cpu_worker *worker, const rota_cpu_scope *scope, const rota_cpu_record *record) {
    ra_store_relaxed(&worker->inner, scope->loop ? record : NULL);
    ra_store_relaxed(&worker->node, scope->loop ? scope->loop->root->record->node : record->node);
    ra_store_relaxed(&worker->iteration, scope->loop ? scope->loop->root->begun : 0);
}

/* Whether a command must be left out because something it reads failed. *out_watched: success is to be
 * reported. Of what is in bodies the host is not asked, but of the command that they are of (loop.c). */
static bool must_skip(rota_cpu_device *device, const rota_cpu_scope *scope, const rota_cpu_record *record,
                      bool *out_watched) {
    *out_watched = false;
    if (scope->loop) return ra_load_relaxed(&scope->loop->root->is_over) != 0;
    /* A writer's failure is ordered before this by the same edges and waits as its data. */
    *out_watched = ra_load_acquire(device->host.poison_active) != 0;
    return *out_watched && device->host.must_skip(device->host.user, scope->work->cookie,
                                                  scope->instance->program->owner, record->node);
}

/* The times of a command that was left out say that it was not run. */
static void forget_times(rota_exec_instance *instance, const rota_cpu_record *record) {
    if (!instance->times) return;
    ra_store_relaxed(&instance->times[record->command].begin_ns, 0);
    ra_store_relaxed(&instance->times[record->command].end_ns, 0);
}

static __attribute__((noinline)) void run_slow(rota_cpu_worker *worker, const rota_cpu_scope *scope,
                                               const rota_cpu_record *record) {
    rota_cpu_device *device = worker->device;
    rota_exec_instance *instance = scope->instance;
    bool watched;
    if (must_skip(device, scope, record, &watched)) {
        forget_times(instance, record);
        return;
    }
    prepared_call prepared;
    rota_status status = prepare(scope, record, &prepared);
    uint64_t begin = instance->times ? rota_clock_ns() : 0;
    show_node(worker, scope, record);
    const bool is_run = status == ROTA_OK;
    if (!is_run) {
        forget_times(instance, record);
    } else if (record->flags & ROTA_CPU_RECORD_HOST) {
        status = record->fn.host(record->u.user, prepared.call.operands, prepared.call.operand_bytes,
                                 prepared.call.operand_count);
    } else if (prepared.call.items != 0 || !(record->flags & ROTA_CPU_RECORD_COUNTED)) {
        status = record->fn.kernel(&prepared.call);
    }
    ra_store_relaxed(&worker->node, ROTA_CPU_NONE);
    if (ra_load_acquire(&device->end.stop)) return; /* pairs with close */
    if (instance->times && is_run) {
        ra_store_relaxed(&instance->times[record->command].begin_ns, begin);
        ra_store_relaxed(&instance->times[record->command].end_ns, rota_clock_ns());
    }
    if (status != ROTA_OK) {
        report_failure(device, scope, record, status);
    } else if (watched) {
        device->host.succeeded(device->host.user, scope->work->cookie, instance->program->owner,
                               record->node);
    }
}

static __attribute__((noinline)) bool run_inline(rota_cpu_worker *worker, const rota_cpu_scope *scope,
                                                 const rota_cpu_record *record);

/* What is not a call of a kernel and nothing else. False when the device stops. */
static __attribute__((noinline)) bool run_other(rota_cpu_worker *worker, const rota_cpu_scope *scope,
                                                const rota_cpu_record *record) {
    if (record->flags & ROTA_CPU_RECORD_CONDITIONAL) return run_inline(worker, scope, record);
    run_slow(worker, scope, record);
    return true;
}

/* False when the device stops. */
static bool run_records(rota_cpu_worker *worker, const rota_cpu_scope *scope, const rota_cpu_record *record,
                        uint32_t count) {
    rota_cpu_device *device = worker->device;
    rota_exec_instance *instance = scope->instance;
    const rota_exec_program *program = instance->program;
    const _Atomic uint32_t *poison = device->host.poison_active;
    const bool is_slow = instance->times != NULL || scope->loop != NULL;
    rota_kernel_call call = {.begin = 0};
    for (const rota_cpu_record *end = record + count; record != end; record++) {
        if (ra_load_acquire(&device->end.stop)) return false; /* pairs with close */
        const bool is_plain =
            (record->flags | is_slow) == 0 && ra_load_acquire(poison) == 0; /* see must_skip */
        if (__builtin_expect(!is_plain, 0)) {
            if (!run_other(worker, scope, record)) return false;
        } else {
            call.operands = instance->operands + record->first_operand;
            call.params = record->u.params;
            call.end = call.items = record->items;
            call.operand_count = record->operand_count;
            call.operand_bytes = program->operand_bytes + record->first_operand;
            ra_store_relaxed(&worker->node, record->node);
            rota_status status = record->fn.kernel(&call);
            ra_store_relaxed(&worker->node, ROTA_CPU_NONE);
            if (status != ROTA_OK) report_failure(device, scope, record, status);
        }
    }
    return !ra_load_acquire(&device->end.stop); /* pairs with close */
}

/* A body whose segment is serial. False when the device stops. */
static bool run_body(rota_cpu_worker *worker, const rota_cpu_scope *scope, rota_cpu_loop *loop,
                     rota_exec_instance *body) {
    const rota_exec_program *program = body->program;
    const rota_cpu_unit *unit = &program->units[program->segments[0].first_unit];
    const rota_cpu_scope in_body = {scope->work, body, loop};
    return run_records(worker, &in_body, &program->records[unit->first_record], unit->record_count);
}

/* A command that decides, all of whose bodies are serial: as deep as bodies are within bodies. */
static bool run_inline(rota_cpu_worker *worker, const rota_cpu_scope *scope, const rota_cpu_record *record) {
    rota_cpu_loop loop;
    rota_cpu_loop_begin(scope, record, NULL, &loop);
    for (;;) {
        rota_exec_instance *body = NULL;
        const rota_cpu_step step = rota_cpu_loop_step(worker->device, scope->work, &loop, &body);
        if (step != ROTA_CPU_STEP_BODY) return step == ROTA_CPU_STEP_OVER;
        if (body && !run_body(worker, scope, &loop, body)) return false;
    }
}

/* ---- Split kernels ---- */

/* Runs pieces of a split kernel until none is left. True for the last worker out, which goes on with what
 * follows. */
static bool run_pieces(rota_cpu_worker *worker, const rota_cpu_scope *scope, const rota_cpu_record *record,
                       rota_cpu_split_state *split) {
    rota_cpu_device *device = worker->device;
    prepared_call prepared;
    (void)prepare(scope, record, &prepared); /* start_split has looked at what it says */
    for (;;) {
        uint64_t begin = ra_fetch_add_relaxed(&split->next, split->chunk);
        if (begin >= split->items) break;
        prepared.call.begin = begin;
        prepared.call.end = split->items - begin < split->chunk ? split->items : begin + split->chunk;
        show_node(worker, scope, record);
        rota_status status = record->fn.kernel(&prepared.call);
        ra_store_relaxed(&worker->node, ROTA_CPU_NONE);
        if (ra_load_acquire(&device->end.stop)) return false; /* pairs with close */
        if (status != ROTA_OK && ra_fetch_add_relaxed(&split->failed, 1) == 0)
            report_failure(device, scope, record, status);
    }
    /* The decrements pair with one another: the last worker sees what the others wrote. */
    if (ra_fetch_sub_acq_rel(&split->users, 1) != 1) return false;
    rota_cpu_times *times = scope->instance->times;
    if (times) {
        ra_store_relaxed(&times[record->command].begin_ns, split->begin_ns);
        ra_store_relaxed(&times[record->command].end_ns, rota_clock_ns());
    }
    if (split->watched && ra_load_relaxed(&split->failed) == 0)
        device->host.succeeded(device->host.user, scope->work->cookie, scope->instance->program->owner,
                               record->node);
    return true;
}

/* Starts a split kernel: sets out the pieces, invites helpers, takes part. True as run_pieces. */
static bool start_split(rota_cpu_worker *worker, rota_cpu_unit_state *state, const rota_cpu_unit *unit,
                        const rota_cpu_scope *scope, const rota_cpu_record *record,
                        rota_cpu_split_state *split) {
    rota_cpu_device *device = worker->device;
    if (must_skip(device, scope, record, &split->watched)) {
        forget_times(scope->instance, record);
        return true;
    }
    split->items = record->items;
    uint64_t grain = unit->grain;
    if (record->flags & (ROTA_CPU_RECORD_BINDINGS | ROTA_CPU_RECORD_COUNTED)) {
        prepared_call prepared;
        prepared.grain = grain; /* of a kernel that doesn't say it */
        const rota_status status = prepare(scope, record, &prepared);
        if (status != ROTA_OK) {
            report_failure(device, scope, record, status);
            forget_times(scope->instance, record);
            return true;
        }
        split->items = prepared.call.items;
        grain = prepared.grain ? prepared.grain : 1;
    }
    if (grain > split->items)
        grain = split->items ? split->items : 1; /* one piece, and sums that don't wrap */
    /* A few pieces per worker even out their speeds. Multiples of the grain. */
    uint64_t pieces = (uint64_t)device->worker_count * 4;
    uint64_t chunk = (split->items / pieces + grain - 1) / grain * grain;
    split->chunk = chunk ? chunk : grain;
    uint64_t piece_count = split->items / split->chunk + (split->items % split->chunk != 0);
    split->begin_ns = scope->instance->times ? rota_clock_ns() : 0;
    ra_store_relaxed(&split->next, 0);
    ra_store_relaxed(&split->failed, 0);
    uint32_t helpers = 0;
    if (piece_count > 1)
        helpers = piece_count < device->worker_count ? (uint32_t)piece_count - 1 : device->worker_count - 1;
    /* All is published to the helpers by the push of their tasks. */
    ra_store_relaxed(&split->users, helpers + 1);
    uint32_t pushed = 0;
    while (pushed < helpers && rota_cpu_deque_push(&worker->deque, &state->task)) {
        pushed++;
        rota_cpu_notify(device, &worker->near);
    }
    /* A full deque: fewer helpers. Ours is among the users left, so this does not take the count to zero. */
    if (pushed < helpers) ra_fetch_sub_acq_rel(&split->users, helpers - pushed);
    return run_pieces(worker, scope, record, split);
}

/* ---- Host functions that end later: of works, not of bodies (program.c) ---- */

/* True: the unit is through, left out or failed at once; else nothing of the work may be touched any more. */
static bool begin_later(rota_cpu_worker *worker, rota_cpu_later_state *later, const rota_cpu_scope *scope,
                        const rota_cpu_record *record) {
    rota_cpu_device *device = worker->device;
    const bool is_skipped = must_skip(device, scope, record, &later->watched);
    forget_times(scope->instance, record);
    if (is_skipped) {
        if (record->fn.later->skipped) record->fn.later->skipped(record->u.user);
        return true;
    }
    prepared_call prepared;
    rota_status status = prepare(scope, record, &prepared); /* never fails: it has no bindings */
    later->begin_ns = scope->instance->times ? rota_clock_ns() : 0;
    if (status == ROTA_OK &&
        rota_cpu_later_begin(later, record, prepared.call.operands, prepared.call.operand_bytes, &status))
        return false;
    report_failure(device, scope, record, status);
    return true;
}

/* The run has ended. False when the device stops. */
static bool finish_later(rota_cpu_worker *worker, rota_cpu_unit_state *state, rota_cpu_later_state *later,
                         const rota_cpu_scope *scope, const rota_cpu_record *record) {
    rota_cpu_device *device = worker->device;
    const void *owner = scope->instance->program->owner;
    state->task.kind = ROTA_CPU_TASK_UNIT; /* for the next run, which this one's end publishes */
    ra_store_relaxed(&later->node, ROTA_CPU_NONE);
    if (ra_load_acquire(&device->end.stop)) return false; /* pairs with close */
    rota_cpu_times *times = scope->instance->times;
    if (times) {
        ra_store_relaxed(&times[record->command].begin_ns, later->begin_ns);
        ra_store_relaxed(&times[record->command].end_ns, rota_clock_ns());
    }
    if (later->status != ROTA_OK)
        device->host.failed(device->host.user, scope->work->cookie, owner, record->node, later->status,
                            later->message);
    else if (later->watched)
        device->host.succeeded(device->host.user, scope->work->cookie, owner, record->node);
    return true;
}

/* ---- Units and works ---- */

static void leave(rota_cpu_worker *worker) {
    ra_store_relaxed(&worker->instance, NULL);
}

/* Makes ready what the unit was the last predecessor of: one is returned, the others go to the deque. */
static inline rota_cpu_unit_state *take_ready(rota_cpu_worker *worker, rota_exec_instance *instance,
                                              const rota_cpu_unit *unit) {
    const uint32_t *successors = instance->program->unit_successors + unit->first_successor;
    const rota_cpu_unit *units = instance->program->units;
    rota_cpu_unit_state *states = instance->units, *ready = NULL;
    for (uint32_t i = 0, count = unit->successor_count; i < count; i++) {
        uint32_t index = successors[i];
        rota_cpu_unit_state *next = &states[index];
        uint32_t predecessors = units[index].predecessor_count;
        if (predecessors > 1) {
            /* Pairs with itself in the other predecessors. */
            if (ra_fetch_sub_acq_rel(&next->pending, 1) != 1) continue;
            ra_store_relaxed(&next->pending,
                             predecessors); /* for the next run, which this one's end publishes */
        }
        if (ready)
            rota_cpu_push(worker, &next->task);
        else
            ready = next;
    }
    return ready;
}

/* Begins a run of a segment that is not serial: its units without predecessors are ready, of which one is returned. */
static rota_cpu_unit_state *begin_run(rota_cpu_worker *worker, rota_exec_instance *instance, uint32_t number,
                                      rota_cpu_work *work) {
    const rota_exec_program *program = instance->program;
    const rota_cpu_segment *segment = &program->segments[number];
    rota_cpu_run *run = &instance->runs[number];
    run->work = work;
    ra_store_relaxed(&run->remaining, segment->sink_count); /* published with the units' tasks */
    const uint32_t *roots = program->roots + segment->first_root;
    rota_cpu_unit_state *states = instance->units;
    /* Backwards, so that they are popped in record order. */
    for (uint32_t i = segment->root_count - 1; i > 0; i--) rota_cpu_push(worker, &states[roots[i]].task);
    return &states[roots[0]];
}

/* Goes on with a command that decides, which has a unit of its own: serial bodies are run here, of others a unit is
 * returned. NULL: it is over, or the device stops (*out_stops). */
static rota_cpu_unit_state *step_loop(rota_cpu_worker *worker, rota_cpu_work *work, rota_cpu_loop *loop,
                                      bool *out_stops) {
    *out_stops = false;
    const rota_cpu_scope scope = {work, loop->instance, loop->outer};
    for (;;) {
        rota_exec_instance *body = NULL;
        const rota_cpu_step step = rota_cpu_loop_step(worker->device, work, loop, &body);
        *out_stops = step == ROTA_CPU_STEP_STOP;
        if (step != ROTA_CPU_STEP_BODY) return NULL;
        if (!body) continue;
        if (!body->program->segments[0].serial) return begin_run(worker, body, 0, work);
        *out_stops = !run_body(worker, &scope, loop, body);
        if (*out_stops) return NULL;
    }
}

/* The run's last unit is complete: the work is, or an iteration of a body. Then one unit to go on with, of the next
 * iteration or of what comes after the command that decides; NULL: none. */
static __attribute__((noinline)) rota_cpu_unit_state *end_run(rota_cpu_worker *worker, rota_cpu_work *work,
                                                              rota_cpu_loop *loop) {
    while (loop) {
        bool stops;
        rota_cpu_unit_state *next = step_loop(worker, work, loop, &stops);
        if (next || stops) return next;
        /* Its own unit is complete: as at the end of run_within. */
        rota_cpu_run *run = loop->state->run;
        rota_exec_instance *instance = run->instance;
        const rota_cpu_unit *unit = &instance->program->units[loop->state->task.unit];
        if (unit->successor_count != 0) return take_ready(worker, instance, unit);
        loop = run->loop;
        if (ra_fetch_sub_acq_rel(&run->remaining, 1) != 1) return NULL;
    }
    leave(worker);
    rota_cpu_complete(worker, work);
    return NULL;
}

/* A unit that decides. False: it is not over, but *out_next is to be run, or the device stops. */
static __attribute__((noinline)) bool enter_loop(rota_cpu_worker *worker, rota_cpu_unit_state *state,
                                                 const rota_cpu_scope *scope, const rota_cpu_unit *unit,
                                                 rota_cpu_unit_state **out_next) {
    rota_cpu_loop *loop = &scope->instance->loops[unit->state];
    bool stops;
    rota_cpu_loop_begin(scope, &scope->instance->program->records[unit->first_record], state, loop);
    *out_next = step_loop(worker, scope->work, loop, &stops);
    return !*out_next && !stops;
}

/* Runs a unit and, one after the other, a unit of the same run that each made ready; the others go to the deque. Gives
 * one of another run to go on with; NULL: none. */
static rota_cpu_unit_state *run_within(rota_cpu_worker *worker, rota_cpu_unit_state *state) {
    rota_cpu_run *run = state->run;
    const rota_cpu_scope scope = {run->work, run->instance, run->loop};
    const rota_exec_program *program = scope.instance->program;
    while (state) {
        const rota_cpu_unit *unit = &program->units[state->task.unit];
        const rota_cpu_record *record = &program->records[unit->first_record];
        if (unit->state == ROTA_CPU_NONE) {
            if (!run_records(worker, &scope, record, unit->record_count)) return NULL;
        } else if (record->flags & ROTA_CPU_RECORD_CONDITIONAL) {
            rota_cpu_unit_state *next;
            if (!enter_loop(worker, state, &scope, unit, &next)) return next;
        } else if (record->flags & ROTA_CPU_RECORD_LATER) {
            rota_cpu_later_state *later = &scope.instance->laters[unit->state];
            const bool has_ended = state->task.kind == ROTA_CPU_TASK_ENDED;
            if (has_ended ? !finish_later(worker, state, later, &scope, record)
                          : !begin_later(worker, later, &scope, record))
                return NULL;
        } else {
            rota_cpu_split_state *split = &scope.instance->splits[unit->state];
            /* Nobody uses a split that has not started, and helper tasks exist only while it has users. */
            bool is_last = ra_load_acquire(&split->users) == 0
                               ? start_split(worker, state, unit, &scope, record, split)
                               : run_pieces(worker, &scope, record, split);
            if (!is_last) return NULL;
        }
        if (unit->successor_count == 0) {
            /* Pairs with itself: the last sink sees what all did. Where others are left, the run ends with them. */
            if (ra_fetch_sub_acq_rel(&run->remaining, 1) != 1) return NULL;
            return end_run(worker, scope.work, scope.loop);
        }
        state = take_ready(worker, scope.instance, unit);
    }
    return NULL;
}

static void run_units(rota_cpu_worker *worker, rota_cpu_unit_state *state) {
    ra_store_release(&worker->instance, state->run->work->instance); /* pairs with stuck_node */
    while (state) state = run_within(worker, state);
    leave(worker);
}

/* The copies of a work, asked for and reported as a whole. */
static void run_copies(rota_cpu_device *device, const rota_cpu_work *work) {
    const rota_exec_host *host = &device->host;
    bool watched = ra_load_acquire(host->poison_active) != 0; /* see must_skip */
    if (watched && host->must_skip(host->user, work->cookie, NULL, 0)) return;
    const rota_cpu_copy *copies = work->copy_count > 1 ? work->large_copies : &work->one_copy;
    for (uint32_t i = 0; i < work->copy_count; i++)
        memcpy(copies[i].destination, copies[i].source, copies[i].size_bytes);
    if (watched && !ra_load_acquire(&device->end.stop)) /* pairs with close */
        host->succeeded(host->user, work->cookie, NULL, 0);
}

/* Nothing of the work is run. */
static void tell_left_out(const rota_cpu_work *work) {
    const rota_exec_program_desc *desc = (const rota_exec_program_desc *)(const void *)work->one_copy.source;
    const rota_exec_segment *segment = &desc->segments[work->segment];
    for (uint32_t i = segment->first_command; i < segment->first_command + segment->command_count; i++) {
        const rota_exec_command *command = &desc->commands[i];
        if (command->kind == ROTA_EXEC_COMMAND_HOST && command->u.host.later &&
            command->u.host.later->skipped)
            command->u.host.later->skipped(command->u.host.user);
    }
}

static void run_work(rota_cpu_worker *worker, rota_cpu_work *work) {
    rota_exec_instance *instance = work->instance;
    if (!instance) {
        if (work->copy_count || work->tells) {
            if (work->copy_count)
                run_copies(worker->device, work);
            else
                tell_left_out(work);
            if (ra_load_acquire(&worker->device->end.stop)) return; /* pairs with close */
        }
        rota_cpu_complete(worker, work);
        return;
    }
    const rota_exec_program *program = instance->program;
    const rota_cpu_segment *segment = &program->segments[work->segment];
    if (!segment->serial) {
        run_units(worker, begin_run(worker, instance, work->segment, work));
        return;
    }
    ra_store_release(&worker->instance, instance); /* pairs with stuck_node */
    bool is_complete = true;
    if (segment->unit_count != 0) {
        const rota_cpu_unit *unit = &program->units[segment->first_unit];
        const rota_cpu_scope scope = {work, instance, NULL};
        is_complete = run_records(worker, &scope, &program->records[unit->first_record], unit->record_count);
    }
    leave(worker);
    if (is_complete) rota_cpu_complete(worker, work);
}

void rota_cpu_run_task(rota_cpu_worker *worker, rota_cpu_task *task) {
    if (task->kind == ROTA_CPU_TASK_WORK)
        run_work(worker, (rota_cpu_work *)(void *)task);
    else
        run_units(worker, (rota_cpu_unit_state *)(void *)task);
}
