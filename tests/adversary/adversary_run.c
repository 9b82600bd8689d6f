/* The adversarial executor's thread: starts works whose waits are met, and runs their commands one piece at a
 * time in an order drawn from the seed. */
#include "tests/adversary/adversary_internal.h"
#include "tests/adversary/adversary_later.h"
#include "tests/adversary/adversary_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/kernel_calls.h"
#include "tests/kit/nap.h"
#include "tests/kit/random.h"

/* Between two looks at what other devices signal. */
#define OTHERS_NS 20000

static uint32_t draw(adversary_device *device, uint32_t bound) {
    return (uint32_t)(test_random(&device->random) >> 33) % bound;
}

/* ---- Commands ---- */

static uint64_t operand_address(adversary_device *device, const adversary_work *work,
                                const rota_exec_operand *operand) {
    const adversary_instance *instance = work->instance;
    const uint64_t *block = device->options->breaks.stale_block ? instance->stale_block : instance->block;
    if (operand->is_slot) return block[operand->memory] + operand->offset_bytes;
    const rota_exec_memory *memory = instance->memories[operand->memory];
    const adversary_memory *own = instance->own[operand->memory];
    if (own && own->magic != ADVERSARY_LIVE)
        adversary_violation(device, "program '%s' uses destroyed memory '%s'", work->desc->name, own->name);
    else if (rota_exec_operand_end(operand) > memory->size_bytes)
        adversary_violation(device, "program '%s': [%llu, +%llu) lies outside memory '%s' of %llu bytes",
                            work->desc->name, (unsigned long long)operand->offset_bytes,
                            (unsigned long long)operand->size_bytes, own ? own->name : "of another device",
                            (unsigned long long)memory->size_bytes);
    return memory->address + operand->offset_bytes;
}

static void *stray(adversary_device *device, uint64_t bytes) {
    if (bytes > device->stray_bytes) {
        /* What was there before stays: a command begun may still write to it. */
        device->stray = aligned_alloc(64, (bytes + 63) / 64 * 64);
        device->stray_bytes = device->stray ? bytes : 0;
    }
    return device->stray;
}

/* Cuts [0, items) at multiples of the grain into a few pieces. */
static void cut_pieces(adversary_device *device, adversary_running *running, uint64_t items, uint64_t grain) {
    running->items = items;
    uint64_t cuts = grain ? items / grain : 0, begin = 0;
    uint32_t pieces = draw(device, 2) ? 1 : 1 + draw(device, ADVERSARY_PIECES_MAX);
    for (uint32_t p = 0; p < pieces && begin < items; p++) {
        uint64_t end = items;
        if (p + 1 < pieces && cuts > 1)
            end = begin + grain * (1 + draw(device, (uint32_t)(cuts > 1u << 20 ? 1u << 20 : cuts)));
        if (end > items || p + 1 == pieces) end = items;
        running->piece_begin[running->piece_count] = begin;
        running->piece_end[running->piece_count++] = end;
        begin = end;
    }
}

/* Of `items`, as many as the count says. One that is too high fails as its only piece is run. */
static uint64_t take_count(const adversary_device *device, const rota_exec_command *command,
                           adversary_running *running, uint64_t unit, uint64_t items) {
    if (!command->is_counted || device->options->breaks.blind_counts) return items;
    memcpy(&running->count, running->operands[command->operand_count - 1], sizeof running->count);
    return running->count > rota_exec_count_max(command) ? 1 : running->count * unit;
}

static void begin_kernel(adversary_device *device, const adversary_work *work,
                         const rota_exec_command *command, adversary_running *running) {
    const rota_kernel *kernel = command->u.kernel.kernel;
    const adversary_instance *instance = work->instance;
    const uint64_t *block = device->options->breaks.stale_block ? instance->stale_block : instance->block;
    if (kernel->param_bytes) memcpy(running->params, command->u.kernel.params, kernel->param_bytes);
    for (uint32_t b = 0; b < command->binding_count; b++) {
        const rota_exec_binding *binding = &work->desc->bindings[command->first_binding + b];
        const rota_kernel_bindable *bindable = &kernel->bindables[binding->bindable];
        memcpy(running->params + bindable->offset_bytes, &block[binding->word], bindable->size_bytes);
    }
    uint64_t items = 1, grain = 1;
    (void)rota_kernel_items(kernel, running->params, running->operand_bytes, &items, &grain);
    items = take_count(device, command, running, 1, items);
    if (command->is_counted && command->u.kernel.count_bindable_plus_1)
        memcpy(running->params + kernel->bindables[command->u.kernel.count_bindable_plus_1 - 1].offset_bytes,
               &running->count, sizeof running->count);
    cut_pieces(device, running, items, grain);
    if (!device->options->breaks.stray_writes || !adversary_breaks_program(device, work->desc)) return;
    for (uint32_t k = 0; k < command->operand_count; k++)
        if (work->desc->operands[command->first_operand + k].mode == ROTA_WRITE) {
            void *elsewhere = stray(device, running->operand_bytes[k]);
            if (elsewhere) running->operands[k] = elsewhere;
            return;
        }
}

static void trace_command(const adversary_device *device, const adversary_work *work,
                          const adversary_running *running) {
    const rota_exec_command *command = &work->desc->commands[running->command];
    fprintf(stderr, "  %u: q%u v%llu '%s' segment %u: %s", device->index, work->queue,
            (unsigned long long)work->signal_value, work->desc->name, work->segment,
            device->host.node_name(work->desc->owner, command->node));
    for (uint32_t k = 0; k < command->operand_count; k++)
        fprintf(stderr, " %s:%p+%llu (%08x)",
                rota_access_mode_name(work->desc->operands[command->first_operand + k].mode),
                running->operands[k], (unsigned long long)running->operand_bytes[k],
                running->operand_bytes[k] >= 4 ? *(const uint32_t *)running->operands[k] : 0);
    fprintf(stderr, "\n");
}

/* What the host knows of what runs: of a body the node that it is of. */
static void note_stuck(adversary_device *device, const adversary_work *work,
                       const rota_exec_command *command) {
    const adversary_loop *root = work->loop ? work->loop->root : NULL;
    if (root) command = &root->work->desc->commands[root->command];
    atomic_store(&device->stuck_iterations, root ? root->begun : 0);
    atomic_store(&device->stuck, 1 + (uint64_t)command->node);
}

/* False when the runtime asks to skip it: its data failed. */
static bool begin_command(adversary_device *device, const adversary_work *work, uint32_t index,
                          adversary_running *running) {
    const rota_exec_command *command = &work->desc->commands[index];
    const rota_exec_host *host = &device->host;
    running->command = index;
    if (work->loop && work->loop->root->is_over) return false;
    if (!work->loop && host->poison_active && atomic_load(host->poison_active) &&
        host->must_skip(host->user, work->cookie, work->desc->owner, command->node)) {
        adversary_later_skip(command);
        return false;
    }
    for (uint32_t k = 0; k < command->operand_count; k++) {
        const rota_exec_operand *operand = &work->desc->operands[command->first_operand + k];
        uint64_t address = operand_address(device, work, operand);
        if (operand->is_slot && !device->base.caps.unified_host &&
            !adversary_range_is_live(device, address, operand->size_bytes)) {
            adversary_violation(device, "program '%s', node %u: operand %u is bound to no live memory",
                                work->desc->name, command->node, k);
            return false;
        }
        running->operands[k] = (void *)(uintptr_t)address;
        running->operand_bytes[k] = operand->size_bytes;
    }
    atomic_store(&device->stuck_instance, work->instance);
    note_stuck(device, work, command);
    if (device->diagnostics && !work->loop) work->instance->times[index].begin_ns = rota_clock_ns();
    atomic_fetch_add(&device->options->commands, 1);
    if (device->active_count > 1) atomic_fetch_add(&device->options->overlaps, 1);
    if (device->options->trace) trace_command(device, work, running);
    if (draw(device, 4) == 0) adversary_tear(work, running);
    switch (command->kind) {
    case ROTA_EXEC_COMMAND_KERNEL:
        begin_kernel(device, work, command, running);
        break;
    case ROTA_EXEC_COMMAND_COPY:
        if (running->operand_bytes[0] != running->operand_bytes[1])
            adversary_violation(device, "program '%s': a copy of %llu to %llu bytes", work->desc->name,
                                (unsigned long long)running->operand_bytes[1],
                                (unsigned long long)running->operand_bytes[0]);
        cut_pieces(
            device, running,
            take_count(device, command, running, command->u.copy.unit_bytes, running->operand_bytes[0]), 1);
        break;
    case ROTA_EXEC_COMMAND_FILL:
        cut_pieces(device, running, running->operand_bytes[0] / 4, 1);
        break;
    case ROTA_EXEC_COMMAND_CONDITIONAL:
        return adversary_loop_begin(work, running);
    default:
        cut_pieces(device, running, 1, 1);
        break;
    }
    return true;
}

static rota_status run_piece(const adversary_work *work, adversary_running *running, uint64_t begin,
                             uint64_t end) {
    const rota_exec_command *command = &work->desc->commands[running->command];
    if (command->is_counted && running->count > rota_exec_count_max(command))
        return rota_fail(ROTA_NODE_FAILED, "its count is %u, the most it may be is %u (rota_count.max)",
                         running->count, rota_exec_count_max(command));
    switch (command->kind) {
    case ROTA_EXEC_COMMAND_KERNEL: {
        const rota_kernel *kernel = command->u.kernel.kernel;
        rota_kernel_call call = {.operands = running->operands,
                                 .params = running->params,
                                 .begin = begin,
                                 .end = end,
                                 .items = running->items,
                                 .operand_count = command->operand_count - command->is_counted,
                                 .operand_bytes = running->operand_bytes,
                                 .user = kernel->user};
        return kernel->cpu.fn(&call);
    }
    case ROTA_EXEC_COMMAND_COPY:
        memcpy((uint8_t *)running->operands[0] + begin, (const uint8_t *)running->operands[1] + begin,
               end - begin);
        return ROTA_OK;
    case ROTA_EXEC_COMMAND_FILL:
        for (uint64_t i = begin; i < end; i++)
            memcpy((uint8_t *)running->operands[0] + i * 4, &command->u.fill.pattern, 4);
        return ROTA_OK;
    default:
        if (command->u.host.later) return adversary_later_begin(command, running);
        return command->u.host.fn(command->u.host.user, running->operands, running->operand_bytes,
                                  command->operand_count);
    }
}

/* Admits batches: the first with commands left, and those behind barriers that are switched off. */
static void admit_batches(adversary_device *device, adversary_work *work) {
    const rota_exec_segment *segment = &work->desc->segments[work->segment];
    uint32_t drop = adversary_breaks_program(device, work->desc) ? device->options->breaks.barrier : 0;
    while (work->batch_floor < segment->batch_count && work->remaining[work->batch_floor] == 0)
        work->batch_floor++;
    while (work->batch_admitted < segment->batch_count) {
        uint32_t b = work->batch_admitted, barrier = segment->first_batch + b;
        bool broken = b > 0 && (drop == ADVERSARY_ALL || drop == barrier) && b == work->batch_floor + 1;
        if (drop == ADVERSARY_ALL && b > 0) broken = true;
        if (b > work->batch_floor && !broken) break;
        const rota_exec_batch *batch = &work->desc->batches[segment->first_batch + b];
        for (uint32_t c = 0; c < batch->command_count; c++)
            work->ready[work->ready_count++] = batch->first_command + c;
        work->batch_admitted++;
    }
}

static uint32_t batch_of(const adversary_work *work, uint32_t command) {
    const rota_exec_segment *segment = &work->desc->segments[work->segment];
    uint32_t low = 0, high = segment->batch_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (work->desc->batches[segment->first_batch + middle].first_command <= command)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Of a command or join, numbered as in the description's edges. */
static uint32_t *remaining_of(adversary_work *work, uint32_t node) {
    const rota_exec_segment *segment = &work->desc->segments[work->segment];
    return node < work->desc->command_count
               ? &work->remaining[node - segment->first_command]
               : &work->remaining[segment->command_count + node - work->desc->command_count -
                                  segment->first_join];
}

/* What comes after a command or join that is over, as far as it waits for nothing else. */
static void pass_edges(adversary_work *work, uint32_t node) {
    const rota_exec_program_desc *desc = work->desc;
    for (uint32_t e = desc->first_successor[node]; e < desc->first_successor[node + 1]; e++) {
        uint32_t to = desc->successor[e], *left = remaining_of(work, to);
        if (*left == 0 || --*left != 0) continue;
        if (to < desc->command_count)
            work->ready[work->ready_count++] = to;
        else
            pass_edges(work, to);
    }
}

static void end_command(adversary_device *device, adversary_work *work, uint32_t index) {
    atomic_store(&device->stuck, 0);
    work->commands_left--;
    if (!work->edges_mode) {
        work->remaining[batch_of(work, index)]--;
        admit_batches(device, work);
        return;
    }
    pass_edges(work, index);
}

/* Takes edges that are switched off out of the counts, so that their ends may begin. */
static void break_edges(adversary_device *device, adversary_work *work) {
    const rota_exec_program_desc *desc = work->desc;
    const rota_exec_segment *segment = &desc->segments[work->segment];
    uint32_t drop = adversary_breaks_program(device, desc) ? device->options->breaks.edge : 0;
    if (!drop) return;
    for (uint32_t i = 0; i < segment->command_count + segment->join_count; i++) {
        uint32_t c = i < segment->command_count
                         ? segment->first_command + i
                         : desc->command_count + segment->first_join + i - segment->command_count;
        for (uint32_t e = desc->first_successor[c]; e < desc->first_successor[c + 1]; e++)
            if (drop == ADVERSARY_ALL || drop == e + 1) --*remaining_of(work, desc->successor[e]);
    }
}

/* It stands in no list of its work's. */
static void complete(adversary_device *device, adversary_work *work, adversary_running *running) {
    const rota_exec_command *command = &work->desc->commands[running->command];
    const rota_exec_host *host = &device->host;
    if (device->diagnostics && !work->loop) work->instance->times[running->command].end_ns = rota_clock_ns();
    adversary_mend(work, running);
    const bool has_failed = running->failed || (running->loop && running->loop->root->is_over);
    if (!has_failed && !work->loop && host->poison_active && atomic_load(host->poison_active))
        host->succeeded(host->user, work->cookie, work->desc->owner, command->node);
    uint32_t index = running->command;
    free(running->loop);
    free(running);
    end_command(device, work, index);
}

static void complete_running(adversary_device *device, adversary_work *work, uint32_t slot) {
    adversary_running *const running = work->running[slot];
    work->running[slot] = work->running[--work->running_count];
    complete(device, work, running);
}

static void fail(adversary_device *device, const adversary_work *work, adversary_running *running,
                 rota_status status) {
    running->failed = true;
    if (work->loop)
        adversary_loop_fail(device, work, running->command, status, rota_last_error());
    else if (!device->options->breaks.mute_failures)
        device->host.failed(device->host.user, work->cookie, work->desc->owner,
                            work->desc->commands[running->command].node, status, rota_last_error());
}

/* Whether one of those that end later is over, and was drawn, and with that completed. */
static bool complete_later(adversary_device *device, adversary_work *work) {
    for (adversary_running **link = &work->later; *link; link = &(*link)->next) {
        adversary_running *const running = *link;
        if (!adversary_later_is_over(running) || draw(device, 3) == 0) continue;
        *link = running->next;
        const rota_status status = adversary_later_end(running);
        if (status != ROTA_OK) fail(device, work, running, status);
        complete(device, work, running);
        return true;
    }
    return false;
}

static uint8_t *copy_end(const adversary_device *device, const rota_exec_memory *memory, uint64_t offset) {
    return (device->base.caps.unified_host ? (uint8_t *)memory->host
                                           : (uint8_t *)(uintptr_t)memory->address) +
           offset;
}

/* One of a work's own copies, or a part of it. */
static void step_copy(adversary_device *device, adversary_work *work) {
    const rota_exec_host *host = &device->host;
    if (work->commands_left == work->copy_count && !work->copies_begun) {
        work->copies_begun = true;
        if (host->poison_active && atomic_load(host->poison_active) &&
            host->must_skip(host->user, work->cookie, NULL, 0)) {
            work->commands_left = 0;
            return;
        }
    }
    rota_exec_copy *copy = &work->copies[draw(device, work->commands_left)];
    if (!device->base.caps.unified_host && !atomic_load(&device->lost) &&
        !adversary_may_read(device, copy->source))
        adversary_violation(device, "a copy reads memory that is not live any more");
    if (device->options->trace)
        fprintf(stderr, "  %u: q%u v%llu copy %p <- %p, %llu bytes\n", device->index, work->queue,
                (unsigned long long)work->signal_value,
                (void *)copy_end(device, copy->destination, copy->destination_offset),
                (void *)copy_end(device, copy->source, copy->source_offset),
                (unsigned long long)copy->size_bytes);
    uint64_t bytes = copy->size_bytes;
    if (bytes > 1 && draw(device, 2))
        bytes = 1 + draw(device, (uint32_t)(bytes < 1u << 30 ? bytes : 1u << 30));
    memcpy(copy_end(device, copy->destination, copy->destination_offset),
           copy_end(device, copy->source, copy->source_offset), bytes);
    copy->destination_offset += bytes;
    copy->source_offset += bytes;
    copy->size_bytes -= bytes;
    if (copy->size_bytes == 0) *copy = work->copies[--work->commands_left];
    if (work->commands_left == 0 && host->poison_active && atomic_load(host->poison_active))
        host->succeeded(host->user, work->cookie, NULL, 0);
}

static bool activate(adversary_device *device, adversary_work *work);
static bool begin_segment(adversary_device *device, adversary_work *work);

/* A command that decides: begins an iteration, or ends. */
static void step_loop(adversary_device *device, adversary_work *work, uint32_t slot) {
    adversary_work *iteration;
    const adversary_step next = adversary_loop_step(device, work->running[slot], &iteration);
    if (next == ADVERSARY_STEP_OVER) complete_running(device, work, slot);
    if (next != ADVERSARY_STEP_ITERATION) return;
    if (!activate(device, iteration) || !begin_segment(device, iteration))
        adversary_violation(device, "the adversary itself is out of memory");
}

/* One step of a started work: begins a command, or runs a piece of one begun. */
static void step(adversary_device *device, adversary_work *work) {
    bool room = work->running_count < sizeof work->running / sizeof work->running[0];
    if (work->ready_count && room && (work->running_count == 0 || draw(device, 2))) {
        uint32_t pick = draw(device, work->ready_count), command = work->ready[pick];
        work->ready[pick] = work->ready[--work->ready_count];
        adversary_running *running = calloc(1, sizeof *running);
        if (!running || !begin_command(device, work, command, running)) {
            free(running);
            end_command(device, work, command);
            return;
        }
        work->running[work->running_count++] = running;
        if (draw(device, 2) == 0) return;
    }
    if (work->later && (work->running_count == 0 || draw(device, 2))) {
        if (!complete_later(device, work) && work->running_count == 0) test_nap_us(10);
        return;
    }
    uint32_t slot = draw(device, work->running_count);
    adversary_running *running = work->running[slot];
    if (running->loop) {
        step_loop(device, work, slot);
        return;
    }
    if (device->options->faults.slow_command_ns) {
        uint64_t ns = device->options->faults.slow_command_ns;
        test_nap_ns(ns);
    }
    if (running->piece_count > 0) {
        uint32_t piece = draw(device, running->piece_count);
        uint64_t begin = running->piece_begin[piece], end = running->piece_end[piece];
        running->piece_count--;
        running->piece_begin[piece] = running->piece_begin[running->piece_count];
        running->piece_end[piece] = running->piece_end[running->piece_count];
        rota_status status = running->failed ? ROTA_OK : run_piece(work, running, begin, end);
        if (status != ROTA_OK) fail(device, work, running, status);
    }
    if (running->piece_count == 0 && running->later) {
        work->running[slot] = work->running[--work->running_count];
        running->next = work->later;
        work->later = running;
        return;
    }
    if (running->piece_count == 0) complete_running(device, work, slot);
}

/* ---- Works ---- */

static bool is_arena(const adversary_work *work, uint32_t m) {
    const adversary_memory *memory = work->instance->own[m];
    return memory && work->desc->memory_kind[m] == ROTA_EXEC_BASE_ARENA && !memory->flags &&
           memory->magic == ADVERSARY_LIVE;
}

/* Before a replay first touches its arena, the arena's contents mean nothing: they become poison, unless
 * another replay that shares the memory has begun or comes first. */
static void poison_arenas(adversary_device *device, adversary_work *work) {
    adversary_instance *instance = work->instance;
    if (device->base.caps.unified_host)
        return; /* Another device may have written there on the host's side. */
    uint32_t first = 0;
    while (first < work->desc->memory_count && !is_arena(work, first)) first++;
    if (first == work->desc->memory_count) return; /* and thousands of works need not be looked at */
    device->stamp++;
    for (uint32_t q = 0; q < device->queue_count; q++)
        for (const adversary_work *other = device->queues[q].head; other; other = other->next) {
            if (!other->instance || (other->instance == instance && other->replay == work->replay)) continue;
            if (other->done ||
                (other->sequence > work->sequence && other->instance->started_replay < other->replay))
                continue;
            for (uint32_t m = 0; m < other->desc->memory_count; m++)
                if (other->instance->own[m]) other->instance->own[m]->busy_stamp = device->stamp;
        }
    for (uint32_t m = first; m < work->desc->memory_count; m++) {
        const adversary_memory *memory = instance->own[m];
        if (!is_arena(work, m) || memory->busy_stamp == device->stamp) continue;
        adversary_memory_fill(memory, ADVERSARY_POISON_FRESH, memory->base.size_bytes);
    }
}

static bool activate(adversary_device *device, adversary_work *work) {
    if (device->active_count == device->active_capacity) {
        uint32_t capacity = device->active_capacity ? device->active_capacity * 2 : 64;
        adversary_work **active = realloc(device->active, capacity * sizeof *active);
        if (!active) return false;
        device->active = active;
        device->active_capacity = capacity;
    }
    device->active[device->active_count++] = work;
    work->started = true;
    return true;
}

static bool start_work(adversary_device *device, adversary_work *work) {
    if (!activate(device, work)) return false;
    if (device->options->trace) {
        fprintf(stderr, "  %u: q%u v%llu starts; waits:", device->index, work->queue,
                (unsigned long long)work->signal_value);
        for (uint32_t i = 0; i < work->wait_count; i++)
            fprintf(stderr, " q%u v%llu", work->waits[i].queue, (unsigned long long)work->waits[i].value);
        fprintf(stderr, "\n");
    }
    if (!work->instance) {
        if (work->left_out) adversary_later_leave_out(work->left_out, work->segment);
        work->commands_left = work->copy_count;
        return true;
    }
    if (work->replay > work->instance->started_replay) {
        poison_arenas(device, work);
        work->instance->started_replay = work->replay;
    }
    return begin_segment(device, work);
}

/* Its commands may begin, those that wait for none before. */
static bool begin_segment(adversary_device *device, adversary_work *work) {
    const rota_exec_segment *segment = &work->desc->segments[work->segment];
    if (segment->command_count == 0) return true;
    work->commands_left = segment->command_count;
    adversary_mode mode = device->options->mode;
    work->edges_mode = mode == ADVERSARY_EITHER ? draw(device, 2) == 0 : mode == ADVERSARY_EDGES;
    work->ready = calloc(segment->command_count, sizeof *work->ready);
    work->remaining =
        calloc(segment->command_count + segment->join_count + segment->batch_count, sizeof *work->remaining);
    if (!work->ready || !work->remaining) return false;
    if (work->edges_mode) {
        memcpy(work->remaining, work->desc->predecessor_count + segment->first_command,
               segment->command_count * sizeof *work->remaining);
        if (segment->join_count)
            memcpy(work->remaining + segment->command_count,
                   work->desc->predecessor_count + work->desc->command_count + segment->first_join,
                   segment->join_count * sizeof *work->remaining);
        break_edges(device, work);
        for (uint32_t j = 0; j < segment->join_count; j++)
            if (work->remaining[segment->command_count + j] == 0)
                pass_edges(work, work->desc->command_count + segment->first_join + j);
        for (uint32_t c = 0; c < segment->command_count; c++)
            if (work->remaining[c] == 0) work->ready[work->ready_count++] = segment->first_command + c;
    } else {
        for (uint32_t b = 0; b < segment->batch_count; b++)
            work->remaining[b] = work->desc->batches[segment->first_batch + b].command_count;
        admit_batches(device, work);
    }
    return true;
}

static bool waits_met(adversary_device *device, const adversary_work *work) {
    for (uint32_t i = 0; i < work->wait_count; i++)
        if (device->queues[work->waits[i].queue].reached < work->waits[i].value) return false;
    for (uint32_t i = 0; i < work->timeline_wait_count; i++)
        if (adversary_timeline_value(work->timeline_waits[i].timeline) < work->timeline_waits[i].value) {
            device->waiting = true;
            return false;
        }
    return true;
}

/* Starts every work that may: waits are cumulative along a queue, so those before it have started too. */
static bool start_works(adversary_device *device) {
    bool all = true;
    device->waiting = false;
    for (uint32_t q = 0; q < device->queue_count; q++) {
        adversary_queue *queue = &device->queues[q];
        while (queue->next_start && waits_met(device, queue->next_start)) {
            adversary_work *work = queue->next_start;
            queue->next_start = work->next;
            all &= start_work(device, work);
        }
    }
    return all;
}

static void wait_for_later(adversary_work *work) {
    while (work->later) {
        adversary_running *const running = work->later;
        work->later = running->next;
        (void)adversary_later_end(running);
        adversary_drop(running);
        free(running);
    }
}

/* Looks at nothing of the work's program: on a lost device that may be gone before its works are. */
static void free_work(adversary_work *work) {
    wait_for_later(work);
    for (uint32_t i = 0; i < work->running_count; i++) {
        adversary_drop(work->running[i]);
        free(work->running[i]->loop);
        free(work->running[i]);
    }
    free(work->ready);
    free(work->remaining);
    free(work->copies);
    free(work);
}

/* Signals the done works at the head of a queue, or only some of them. */
static void advance(adversary_device *device, uint32_t q) {
    adversary_queue *queue = &device->queues[q];
    uint32_t most = 1 + draw(device, 4);
    while (queue->head && queue->head->done && most--) {
        adversary_work *work = queue->head;
        queue->head = work->next;
        if (!queue->head) queue->tail = NULL;
        queue->reached = work->signal_value;
        if (work->timeline) adversary_timeline_reach(work->timeline, work->signal_value);
        if (work->instance) atomic_fetch_sub(&work->instance->pending, 1);
        atomic_fetch_add(&device->options->works, 1);
        atomic_fetch_sub(&device->unfinished, 1);
        if (adversary_strikes(&device->options->faults.lost_in_works)) device->dying = true;
        free_work(work);
    }
    if (device->options->trace)
        fprintf(stderr, "  %u: q%u reached %llu\n", device->index, q, (unsigned long long)queue->reached);
    if (!device->options->breaks.early_signal && queue->reached > atomic_load(&queue->too_early))
        device->host.advanced(device->host.user, q, queue->reached);
}

/* Chooses one of the started works. Uniform choice alone rarely finds an order in which one work is far
 * behind, so for a while at a time the newest, the oldest, or one drawn favourite is preferred. */
static uint32_t choose_active(adversary_device *device) {
    if (device->policy_steps-- == 0) {
        device->policy = draw(device, 4);
        device->favourite = draw(device, 1u << 16);
        device->policy_steps = 1 + draw(device, 128);
    }
    if (draw(device, 8) == 0) return draw(device, device->active_count);
    switch (device->policy) {
    case 0:
        return device->active_count - 1;
    case 1:
        return device->favourite % device->active_count;
    case 2: {
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < device->active_count; i++)
            if (device->active[i]->sequence < device->active[oldest]->sequence) oldest = i;
        return oldest;
    }
    default:
        return draw(device, device->active_count);
    }
}

/* One random step of everything that may happen. False when nothing may. */
static bool random_step(adversary_device *device) {
    uint32_t signals[ROTA_EXEC_QUEUES_MAX], signal_count = 0;
    for (uint32_t q = 0; q < device->queue_count; q++)
        if (device->queues[q].head && device->queues[q].head->done) signals[signal_count++] = q;
    if (device->active_count == 0 && signal_count == 0) return false;
    if (device->active_count == 0 || (signal_count && draw(device, 3) == 0)) {
        advance(device, signals[draw(device, signal_count)]);
        return true;
    }
    uint32_t pick = choose_active(device);
    adversary_work *work = device->active[pick];
    if (work->commands_left && work->copies)
        step_copy(device, work);
    else if (work->commands_left)
        step(device, work);
    if (work->commands_left == 0) {
        device->active[pick] = device->active[--device->active_count];
        if (work->loop) {
            work->loop->running--;
            free_work(work);
        } else {
            work->done = true;
        }
    }
    return true;
}

/* ---- The thread ---- */

static void take_inbox(adversary_device *device) {
    adversary_work *work = device->inbox;
    device->inbox = device->inbox_tail = NULL;
    while (work) {
        adversary_work *next = work->next;
        adversary_queue *queue = &device->queues[work->queue];
        work->next = NULL;
        work->sequence = ++device->sequence;
        if (queue->tail)
            queue->tail->next = work;
        else
            queue->head = work;
        queue->tail = work;
        if (!queue->next_start) queue->next_start = work;
        work = next;
    }
}

static void timed_wait(adversary_device *device, uint64_t ns) {
    uint64_t until = rota_clock_ns() + ns;
    struct timespec time = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    pthread_cond_timedwait(&device->wake, &device->lock, &time);
}

/* Waits, with the lock held, until no work has come for a while, so that what the caller submits without
 * waiting is all here before the first command runs. */
static void wait_quiet(adversary_device *device) {
    uint64_t quiet = device->options->quiet_ns ? device->options->quiet_ns : 60000;
    for (uint32_t round = 0; round < 64 && !device->stop; round++) {
        uint64_t before = device->inbox_count;
        timed_wait(device, quiet);
        if (device->inbox_count == before) return;
    }
}

static bool is_silent(const adversary_device *device) {
    return atomic_load(&device->lost) || atomic_load(&device->options->faults.silent);
}

/* Runs what is here until nothing may run. With the lock held, which it lets go of meanwhile. */
static void burst(adversary_device *device) {
    device->random = atomic_load(&device->options->seed) * 0x9e3779b97f4a7c15u + device->index;
    device->policy_steps = 0;
    bool progress = true;
    device->waiting = false;
    while (progress && !is_silent(device)) {
        take_inbox(device);
        pthread_mutex_unlock(&device->lock);
        uint32_t steps = 0;
        bool fine = true, lost = false;
        do {
            fine = start_works(device);
            progress = random_step(device);
            lost = device->dying;
        } while (progress && fine && !lost && ++steps < 64 && !is_silent(device));
        if (!fine) adversary_violation(device, "the adversary itself is out of memory");
        pthread_mutex_lock(&device->lock);
        if (lost && !atomic_exchange(&device->lost, true)) {
            pthread_mutex_unlock(&device->lock);
            for (uint32_t i = 0; i < device->active_count; i++) wait_for_later(device->active[i]);
            device->host.lost(device->host.user, ROTA_DEVICE_LOST, "adversary: the device was lost");
            pthread_mutex_lock(&device->lock);
        }
        progress |= device->inbox != NULL;
    }
}

void *adversary_thread(void *user) {
    adversary_device *device = user;
    pthread_mutex_lock(&device->lock);
    while (!device->stop) {
        bool waiting = device->waiting && !is_silent(device);
        if (waiting && !device->inbox) timed_wait(device, OTHERS_NS);
        if (!waiting && (!device->inbox || is_silent(device))) {
            timed_wait(device, 1000000000u);
            continue;
        }
        if (device->inbox) wait_quiet(device);
        burst(device);
    }
    take_inbox(device);
    for (uint32_t i = 0; i < device->active_count; i++)
        if (device->active[i]->loop) free_work(device->active[i]);
    for (uint32_t q = 0; q < device->queue_count; q++)
        while (device->queues[q].head) {
            adversary_work *work = device->queues[q].head;
            device->queues[q].head = work->next;
            free_work(work);
        }
    device->has_ended = true;
    pthread_cond_broadcast(&device->ended);
    pthread_mutex_unlock(&device->lock);
    return NULL;
}
