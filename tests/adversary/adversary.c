/* The adversarial executor: devices, programs, submission and the checks of the caller. Its memory is
 * adversary_memory.c, running the works adversary_run.c. */
#include "tests/adversary/adversary_internal.h"
#include "tests/adversary/adversary_peer.h"
#include "tests/kit/nap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "graph/buffer.h"
#include "sched/runtime/shared/submission.h"
#include "sched/testing.h"

void adversary_violation(adversary_device *device, const char *format, ...) {
    if (atomic_fetch_add(&device->options->violations, 1) != 0) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(device->options->violation, sizeof device->options->violation, format, arguments);
    va_end(arguments);
    rota_log_write(&device->host.log, ROTA_LOG_ERROR, "adversary: contract violated: %s",
                   device->options->violation);
}

bool adversary_breaks_program(const adversary_device *device, const rota_exec_program_desc *desc) {
    const char *name = device->options->breaks.program;
    return !name || (desc && desc->name && strcmp(desc->name, name) == 0);
}

bool adversary_strikes(_Atomic uint32_t *countdown) {
    uint32_t left = atomic_load(countdown);
    while (left != 0)
        if (atomic_compare_exchange_weak(countdown, &left, left - 1)) return left == 1;
    return false;
}

/* ---- Programs and instances ---- */

/* What every program must satisfy whatever it computes. */
static void check_program(adversary_device *device, const rota_exec_program_desc *desc) {
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        const rota_exec_segment *segment = &desc->segments[s];
        uint32_t next = segment->first_command;
        for (uint32_t b = 0; b < segment->batch_count; b++) {
            const rota_exec_batch *batch = &desc->batches[segment->first_batch + b];
            if (batch->first_command != next || batch->command_count == 0)
                adversary_violation(device, "program '%s', segment %u: batch %u is empty or out of place",
                                    desc->name, s, b);
            next += batch->command_count;
        }
        if (next != segment->first_command + segment->command_count)
            adversary_violation(device, "program '%s', segment %u: the batches do not cover the commands",
                                desc->name, s);
        const uint32_t joins = desc->command_count + segment->first_join;
        for (uint32_t i = 0; i < segment->command_count + segment->join_count; i++) {
            uint32_t c =
                i < segment->command_count ? segment->first_command + i : joins + i - segment->command_count;
            for (uint32_t e = desc->first_successor[c]; e < desc->first_successor[c + 1]; e++) {
                uint32_t to = desc->successor[e];
                if ((to < segment->first_command || to >= next) &&
                    (to < joins || to >= joins + segment->join_count))
                    adversary_violation(device, "program '%s': an edge leaves segment %u", desc->name, s);
            }
        }
    }
    for (uint32_t c = 0; c < desc->command_count; c++)
        for (uint32_t k = 0; k < desc->commands[c].operand_count; k++) {
            const rota_exec_operand *operand = &desc->operands[desc->commands[c].first_operand + k];
            if (operand->is_slot ? operand->memory >= desc->block_words
                                 : operand->memory >= desc->memory_count)
                adversary_violation(device, "program '%s', command %u: operand %u names no memory",
                                    desc->name, c, k);
        }
}

/* An operand of a body's command lies in one of the command's that decides, of a mode that says as much. */
static bool is_within(const rota_exec_program_desc *desc, const rota_exec_command *command,
                      const rota_exec_operand *inner) {
    for (uint32_t k = 0; k < command->operand_count; k++) {
        const rota_exec_operand *outer = &desc->operands[command->first_operand + k];
        if (outer->memory == inner->memory && outer->is_slot == inner->is_slot &&
            inner->offset_bytes >= outer->offset_bytes &&
            rota_exec_operand_end(inner) <= rota_exec_operand_end(outer) &&
            (outer->mode != ROTA_READ || inner->mode == ROTA_READ))
            return true;
    }
    return false;
}

static void check_touched(adversary_device *device, const rota_exec_program_desc *desc,
                          const rota_exec_command *command, const rota_exec_program_desc *body) {
    for (uint32_t c = 0; c < body->command_count; c++)
        for (uint32_t k = 0; k < body->commands[c].operand_count; k++)
            if (!is_within(desc, command, &body->operands[body->commands[c].first_operand + k]))
                adversary_violation(
                    device, "body '%s', command %u: operand %u is not within those of its node in '%s'",
                    body->name, c, k, desc->name);
}

static rota_status check_commands(adversary_device *device, const rota_exec_program_desc *desc, bool is_body);

/* A body is in the memories and words of what it is in, and declares to it what it touches. */
static rota_status check_bodies(adversary_device *device, const rota_exec_program_desc *desc,
                                const rota_exec_command *command) {
    const rota_exec_conditional *conditional = command->u.conditional;
    if (!device->base.caps.runs_conditionals)
        return rota_fail(ROTA_UNSUPPORTED, "%s runs no nodes that decide", device->base.info.id);
    for (uint32_t b = 0; b < conditional->body_count; b++) {
        const rota_exec_program_desc *body = conditional->bodies[b];
        if (!body || body->command_count == 0) continue;
        if (body->segment_count != 1)
            adversary_violation(device, "body '%s' has %u segments", body->name, body->segment_count);
        if (body->memory_count != desc->memory_count || body->block_words != desc->block_words)
            adversary_violation(device, "body '%s' has other memories or words than '%s'", body->name,
                                desc->name);
        check_touched(device, desc, command, body);
        check_program(device, body);
        ROTA_TRY(check_commands(device, body, true));
    }
    return ROTA_OK;
}

/* A kernel or copy that reads its count last, and whose WRITEs all became READWRITEs. */
static rota_status check_count(adversary_device *device, const rota_exec_program_desc *desc,
                               const rota_exec_command *command) {
    if (!device->base.caps.runs_counted)
        return rota_fail(ROTA_UNSUPPORTED, "%s runs no counted nodes", device->base.info.id);
    const rota_exec_operand *operands = &desc->operands[command->first_operand];
    const uint32_t last = command->operand_count - 1u;
    if ((command->kind != ROTA_EXEC_COMMAND_KERNEL && command->kind != ROTA_EXEC_COMMAND_COPY) ||
        operands[last].mode != ROTA_READ || operands[last].size_bytes != sizeof(uint32_t))
        adversary_violation(device,
                            "program '%s', node %u: counted, but of no kernel or copy that reads it last",
                            desc->name, command->node);
    for (uint32_t k = 0; k < last; k++)
        if (operands[k].mode == ROTA_WRITE)
            adversary_violation(device, "program '%s', node %u: counted, and operand %u is WRITE", desc->name,
                                command->node, k);
    return ROTA_OK;
}

static rota_status check_commands(adversary_device *device, const rota_exec_program_desc *desc,
                                  bool is_body) {
    const rota_exec_device *base = &device->base;
    for (uint32_t c = 0; c < desc->command_count; c++) {
        const rota_exec_command *command = &desc->commands[c];
        if (command->kind == ROTA_EXEC_COMMAND_KERNEL && !command->u.kernel.kernel->cpu.fn)
            return rota_fail(ROTA_UNSUPPORTED, "%s: kernel '%s' has no C function", base->info.id,
                             command->u.kernel.kernel->name);
        if (command->kind == ROTA_EXEC_COMMAND_HOST && !is_body && !base->caps.runs_host_nodes)
            return rota_fail(ROTA_UNSUPPORTED, "%s runs no host functions", base->info.id);
        if (command->kind == ROTA_EXEC_COMMAND_HOST && command->u.host.later && is_body)
            return rota_fail(ROTA_UNSUPPORTED, "%s: a function of body '%s' ends later", base->info.id,
                             desc->name);
        if (command->kind == ROTA_EXEC_COMMAND_CONDITIONAL) ROTA_TRY(check_bodies(device, desc, command));
        if (command->is_counted) ROTA_TRY(check_count(device, desc, command));
    }
    return ROTA_OK;
}

static rota_status program_create(rota_exec_device *base, const rota_exec_program_desc *desc,
                                  rota_exec_program **out_program) {
    adversary_device *device = (adversary_device *)base;
    ROTA_TRY(check_commands(device, desc, false));
    check_program(device, desc);
    adversary_program *program = calloc(1, sizeof *program);
    if (!program) return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no memory for a program", base->info.id);
    program->magic = ADVERSARY_LIVE;
    program->desc = desc;
    atomic_fetch_add(&device->options->live_programs, 1);
    *out_program = (rota_exec_program *)program;
    return ROTA_OK;
}

static void program_destroy(rota_exec_device *base, rota_exec_program *base_program) {
    adversary_device *device = (adversary_device *)base;
    adversary_program *program = (adversary_program *)base_program;
    if (!program || device->options->breaks.keep_objects) return;
    if (atomic_load(&program->instances) != 0)
        adversary_violation(device, "program '%s' is destroyed before its instances", program->desc->name);
    program->magic = ADVERSARY_DEAD;
    free(program);
    atomic_fetch_sub(&device->options->live_programs, 1);
}

static void instance_free(adversary_instance *instance) {
    free(instance->memories);
    free(instance->own);
    free(instance->block);
    free(instance->stale_block);
    free(instance->submitted);
    free(instance->times);
    free(instance);
}

static bool stays(const adversary_options *options, uint32_t creation) {
    uint32_t from = atomic_load(&options->faults.instances_stay_from);
    return from && creation >= from;
}

static rota_status instance_create(rota_exec_device *base, rota_exec_program *base_program,
                                   rota_exec_memory *const *memories, rota_exec_instance **out_instance) {
    adversary_device *device = (adversary_device *)base;
    const uint32_t mine = atomic_fetch_add(&device->options->instance_creations, 1) + 1;
    const uint64_t over = rota_deadline_after(atomic_load(&device->options->faults.instance_ns));
    while (stays(device->options, mine) || rota_clock_ns() < over) test_nap_ms(1);
    adversary_program *program = (adversary_program *)base_program;
    const rota_exec_program_desc *desc = program->desc;
    adversary_instance *instance = calloc(1, sizeof *instance);
    if (!instance) return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no memory for an instance", base->info.id);
    instance->magic = ADVERSARY_LIVE;
    instance->program = program;
    instance->memories = calloc(desc->memory_count + 1, sizeof *instance->memories);
    instance->own = calloc(desc->memory_count + 1, sizeof *instance->own);
    instance->block = calloc(desc->block_words + 1, sizeof *instance->block);
    instance->stale_block = calloc(desc->block_words + 1, sizeof *instance->block);
    instance->submitted = calloc(desc->segment_count + 1, sizeof *instance->submitted);
    instance->times = calloc(desc->command_count + 1, sizeof *instance->times);
    if (!instance->memories || !instance->own || !instance->block || !instance->stale_block ||
        !instance->submitted || !instance->times) {
        instance_free(instance);
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no memory for an instance", base->info.id);
    }
    for (uint32_t m = 0; m < desc->memory_count; m++) {
        instance->memories[m] = memories[m];
        instance->own[m] = adversary_memory_find(device, memories[m]);
        if (!memories[m] || (instance->own[m] && instance->own[m]->magic != ADVERSARY_LIVE))
            adversary_violation(device, "program '%s': memory %u of an instance is not live", desc->name, m);
        else if (!instance->own[m] && !device->base.caps.unified_host &&
                 desc->memory_kind[m] != ROTA_EXEC_BASE_STAGING && !adversary_may_read(device, memories[m]))
            adversary_violation(device,
                                "program '%s': memory %u of an instance, of kind %u, '%s', is not open to %s",
                                desc->name, m, desc->memory_kind[m],
                                ((const adversary_memory *)memories[m])->name, base->info.id);
    }
    atomic_fetch_add(&program->instances, 1);
    atomic_fetch_add(&device->options->live_instances, 1);
    *out_instance = (rota_exec_instance *)instance;
    return ROTA_OK;
}

static void instance_destroy(rota_exec_device *base, rota_exec_instance *base_instance) {
    adversary_device *device = (adversary_device *)base;
    adversary_instance *instance = (adversary_instance *)base_instance;
    if (!instance || device->options->breaks.keep_objects) return;
    if (atomic_load(&instance->pending) != 0 && !atomic_load(&device->lost) &&
        !device->options->breaks.early_signal)
        adversary_violation(device, "an instance of program '%s' is destroyed while in flight",
                            instance->program->desc->name);
    instance->magic = ADVERSARY_DEAD;
    atomic_fetch_sub(&instance->program->instances, 1);
    atomic_fetch_sub(&device->options->live_instances, 1);
    /* The executor thread may still look at it: it is freed when the device closes. */
    pthread_mutex_lock(&device->lock);
    instance->next_dead = device->dead_instances;
    device->dead_instances = instance;
    pthread_mutex_unlock(&device->lock);
}

/* ---- Submission ---- */

static void lose(adversary_device *device, const char *why) {
    if (!atomic_exchange(&device->lost, true)) device->host.lost(device->host.user, ROTA_DEVICE_LOST, why);
}

static void check_copy_end(adversary_device *device, const rota_exec_memory *memory, uint64_t offset,
                           uint64_t bytes) {
    if (!device->base.caps.unified_host && !adversary_may_read(device, memory))
        adversary_violation(device, "a copy names memory that is not live, or not open to the device");
    else if (offset > memory->size_bytes || bytes > memory->size_bytes - offset)
        adversary_violation(device, "a copy of %llu bytes at %llu leaves a memory of %llu bytes",
                            (unsigned long long)bytes, (unsigned long long)offset,
                            (unsigned long long)memory->size_bytes);
}

/* Whether the work is on its segment's queue, or on one that takes any. */
static bool may_take(const adversary_device *device, const rota_exec_program_desc *desc,
                     const rota_exec_work *work) {
    return work->queue == desc->segments[work->segment].queue ||
           (device->segment_queues && work->queue >= device->segment_queues);
}

static void check_work(adversary_device *device, const rota_exec_work *work) {
    const adversary_instance *instance = (const adversary_instance *)work->instance;
    if (work->queue >= device->queue_count) {
        adversary_violation(device, "a work names queue %u of %u", work->queue, device->queue_count);
        return;
    }
    if (work->signal_value <= device->queues[work->queue].handed_over)
        adversary_violation(device, "queue %u: signal value %llu after %llu", work->queue,
                            (unsigned long long)work->signal_value,
                            (unsigned long long)device->queues[work->queue].handed_over);
    for (uint32_t i = 0; i < work->wait_count; i++)
        if (work->waits[i].queue >= device->queue_count ||
            work->waits[i].value > device->queues[work->waits[i].queue].handed_over)
            adversary_violation(device, "a wait names queue %u value %llu, which was not handed over",
                                work->waits[i].queue, (unsigned long long)work->waits[i].value);
    if (work->timeline_wait_count > ROTA_EXEC_TIMELINE_WAITS_MAX)
        adversary_violation(device, "a work waits for %u timelines", work->timeline_wait_count);
    for (uint32_t i = 0; i < work->timeline_wait_count; i++)
        adversary_timeline_check(device, &work->timeline_waits[i]);
    if (work->timeline_wait_count && !work->acquires)
        adversary_violation(device, "a work waits for another device and does not acquire");
    if (instance && work->copy_count) adversary_violation(device, "a work has an instance and copies");
    for (uint32_t i = 0; !instance && i < work->copy_count; i++) {
        check_copy_end(device, work->copies[i].destination, work->copies[i].destination_offset,
                       work->copies[i].size_bytes);
        check_copy_end(device, work->copies[i].source, work->copies[i].source_offset,
                       work->copies[i].size_bytes);
        if (device->base.caps.unified_host) continue;
        if (((const adversary_memory *)work->copies[i].destination)->device != device->index)
            adversary_violation(device, "a copy writes another device's memory");
        if (((const adversary_memory *)work->copies[i].source)->device != device->index)
            (void)atomic_fetch_add(&device->options->peer_copies, 1);
    }
    if (!instance) return;
    const rota_exec_program_desc *desc = instance->program->desc;
    if (instance->magic != ADVERSARY_LIVE)
        adversary_violation(device, "a destroyed instance is submitted");
    else if (work->segment >= desc->segment_count || !may_take(device, desc, work))
        adversary_violation(device, "program '%s': segment %u is submitted on queue %u", desc->name,
                            work->segment, work->queue);
    else if ((desc->block_words != 0) != (work->block != NULL))
        adversary_violation(device, "program '%s': argument block is %s", desc->name,
                            work->block ? "given but not used" : "missing");
}

/* Which replay of its instance a work belongs to, and its arguments. An instance with arguments holds one
 * block. */
static uint64_t take_block(adversary_device *device, const rota_exec_work *work) {
    adversary_instance *instance = (adversary_instance *)work->instance;
    const rota_exec_program_desc *desc = instance->program->desc;
    /* Of a submission's works any may have been left out: counting does where none are. */
    const rota_work *of = work->cookie;
    const uint64_t replay =
        device->options->counts_replays ? ++instance->submitted[work->segment] : of->submission->number;
    if (desc->block_words == 0) return replay;
    if (replay != instance->block_replay) {
        if (atomic_load(&instance->pending) != 0 && !device->options->breaks.early_signal)
            adversary_violation(
                device, "program '%s': an instance with arguments is submitted again in flight", desc->name);
        memcpy(instance->stale_block, instance->block_replay ? instance->block : work->block,
               desc->block_words * 8);
        memcpy(instance->block, work->block, desc->block_words * 8);
        instance->block_replay = replay;
    } else if (memcmp(instance->block, work->block, desc->block_words * 8) != 0) {
        adversary_violation(device, "program '%s': works of one submission have different arguments",
                            desc->name);
    }
    return replay;
}

static adversary_work *copy_work(adversary_device *device, const rota_exec_work *from) {
    adversary_work *work = calloc(1, sizeof *work + from->wait_count * sizeof work->waits[0]);
    if (!work) return NULL;
    work->instance = (adversary_instance *)from->instance;
    work->desc = work->instance ? work->instance->program->desc : NULL;
    work->cookie = from->cookie;
    work->segment = from->segment;
    work->queue = from->queue;
    work->signal_value = from->signal_value;
    for (uint32_t i = 0; i < from->wait_count; i++) {
        uint32_t drop = device->options->breaks.wait;
        bool mine = adversary_breaks_program(device, work->desc);
        if (mine) device->waits_handed_over++;
        if (mine && (drop == ADVERSARY_ALL || drop == device->waits_handed_over)) continue;
        work->waits[work->wait_count++] = from->waits[i];
    }
    atomic_fetch_add(&device->options->waits, from->wait_count);
    for (uint32_t i = 0; i < from->timeline_wait_count; i++)
        if (!device->options->breaks.timeline_waits && from->timeline_waits[i].timeline)
            work->timeline_waits[work->timeline_wait_count++] = from->timeline_waits[i];
    atomic_fetch_add(&device->options->timeline_waits, from->timeline_wait_count);
    work->timeline = from->timeline;
    work->copy_count = from->instance ? 0 : from->copy_count;
    work->left_out = from->instance ? NULL : from->left_out;
    if (work->copy_count) {
        work->copies = malloc(work->copy_count * sizeof *work->copies);
        if (!work->copies) {
            free(work);
            return NULL;
        }
        memcpy(work->copies, from->copies, work->copy_count * sizeof *work->copies);
    }
    if (work->instance) {
        work->replay = take_block(device, from);
        atomic_fetch_add(&work->instance->pending, 1);
    }
    return work;
}

static rota_status submit(rota_exec_device *base, const rota_exec_work *works, uint32_t count) {
    adversary_device *device = (adversary_device *)base;
    void (*on_submit)(void *, uint32_t) = atomic_load(&device->options->on_submit);
    if (on_submit) on_submit(device->options->on_submit_user, device->index);
    while (atomic_load(&device->options->faults.submits_stay) >> device->index & 1u) test_nap_ms(1);
    for (uint32_t i = 0; i < count; i++) {
        bool lost = atomic_load(&device->lost);
        bool fail = adversary_strikes(&device->options->faults.submit_fails_in);
        if (fail) lose(device, "adversary: the submit failed");
        if (lost || fail) return rota_fail(ROTA_DEVICE_LOST, "%s: the submit failed", base->info.id);
        check_work(device, &works[i]);
        if (works[i].acquires) atomic_fetch_add(&device->options->acquires, 1);
        adversary_work *work = copy_work(device, &works[i]);
        if (!work) {
            lose(device, "adversary: out of memory");
            return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no memory for a work", base->info.id);
        }
        device->queues[work->queue].handed_over = work->signal_value;
        if (work->timeline) adversary_timeline_promise(device, work->timeline, work->signal_value);
        if (device->options->breaks.early_signal) {
            atomic_store(&device->queues[work->queue].too_early, work->signal_value);
            device->host.advanced(device->host.user, work->queue, work->signal_value);
        }
        atomic_fetch_add(&device->unfinished, 1);
        pthread_mutex_lock(&device->lock);
        if (device->inbox_tail)
            device->inbox_tail->next = work;
        else
            device->inbox = work;
        device->inbox_tail = work;
        device->inbox_count++;
        pthread_cond_signal(&device->wake);
        pthread_mutex_unlock(&device->lock);
    }
    return ROTA_OK;
}

static rota_status times(rota_exec_device *base, rota_exec_instance *base_instance, rota_exec_time *out) {
    adversary_device *device = (adversary_device *)base;
    const adversary_instance *instance = (const adversary_instance *)base_instance;
    if (!device->diagnostics) return rota_fail(ROTA_WRONG_STATE, "%s: no diagnostics", base->info.id);
    memcpy(out, instance->times, instance->program->desc->command_count * sizeof *out);
    return ROTA_OK;
}

static bool stuck_node(rota_exec_device *base, rota_exec_instance *instance, rota_exec_stuck *out_stuck) {
    adversary_device *device = (adversary_device *)base;
    uint64_t stuck = atomic_load(&device->stuck);
    if (stuck == 0 || atomic_load(&device->stuck_instance) != (adversary_instance *)instance) return false;
    *out_stuck = (rota_exec_stuck){.node = (uint32_t)(stuck - 1),
                                   .iterations = atomic_load(&device->stuck_iterations)};
    return true;
}

/* ---- Devices ---- */

static void close_device(rota_exec_device *base, uint64_t deadline_ns, uint64_t *out_abandoned_bytes) {
    adversary_device *device = (adversary_device *)base;
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    uint64_t abandoned = sizeof *device; /* so that it is never 0 */
    pthread_mutex_lock(&device->lock);
    device->stop = true;
    pthread_cond_signal(&device->wake);
    while (!device->has_ended && pthread_cond_timedwait(&device->ended, &device->lock, &until) != ETIMEDOUT) {
    }
    bool ended = device->has_ended;
    for (adversary_memory *m = device->memories; m; m = m->next) {
        if (m->magic == ADVERSARY_DEAD) adversary_memory_check(device, m);
        if (m->magic == ADVERSARY_LIVE) abandoned += m->base.size_bytes;
    }
    pthread_mutex_unlock(&device->lock);
    ended = ended && adversary_semaphores_end(device, deadline_ns);
    if (out_abandoned_bytes) *out_abandoned_bytes = ended ? 0 : abandoned;
    if (!ended) {
        pthread_detach(device->thread);
        return; /* It may still touch everything: left as it is. */
    }
    pthread_join(device->thread, NULL);
    while (device->memories) {
        adversary_memory *memory = device->memories;
        device->memories = memory->next;
        adversary_memory_free(memory);
    }
    while (device->dead_instances) {
        adversary_instance *instance = device->dead_instances;
        device->dead_instances = instance->next_dead;
        instance_free(instance);
    }
    adversary_timelines_free(device);
    pthread_cond_destroy(&device->wake);
    pthread_cond_destroy(&device->ended);
    pthread_mutex_destroy(&device->lock);
    free(device->active);
    free(device->stray);
    atomic_fetch_add(&device->options->closes, 1);
    free(device);
}

static const rota_exec_device_vtable vtable = {
    .close = close_device,
    .memory_create = adversary_memory_create,
    .memory_destroy = adversary_memory_destroy,
    .memory_export = adversary_memory_export,
    .memory_import = adversary_memory_import,
    .memory_adopt = adversary_memory_adopt,
    .memory_return = adversary_memory_return,
    .peers = &adversary_peers,
    .timeline_create = adversary_timeline_create,
    .timeline_export = adversary_timeline_export,
    .timeline_signal = adversary_timeline_signal,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .instance_create = instance_create,
    .instance_destroy = instance_destroy,
    .submit = submit,
    .times = times,
    .stuck_node = stuck_node,
    .semaphore_adopt = adversary_semaphore_adopt,
    .semaphore_import = adversary_semaphore_import,
    .semaphore_export = adversary_semaphore_export,
    .semaphore_look = adversary_semaphore_look,
    .semaphore_signal = adversary_semaphore_signal,
};

enum { DEVICES = 3 };

static void describe(uint32_t index, rota_device_info *info) {
    memset(info, 0, sizeof *info);
    snprintf(info->id, sizeof info->id, index ? "adversary:%u" : "adversary", index);
    snprintf(info->name, sizeof info->name, "adversarial executor %u", index);
    snprintf(info->driver, sizeof info->driver, "tests");
    info->kind = ROTA_EXEC_CPU;
    info->device_class = ROTA_DEVICE_TEST;
    info->usable = true;
    info->memory_bytes = (uint64_t)4 << 30;
    info->max_allocation_bytes = (uint64_t)1 << 30;
    info->compute_units = 1;
    info->compute_queues = 1;
    info->subgroup_size = 1;
}

static rota_status enumerate(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                             uint32_t *out_count) {
    (void)driver;
    *out_count = DEVICES;
    for (uint32_t i = 0; i < DEVICES && i < capacity; i++) describe(i, &out_infos[i]);
    return ROTA_OK;
}

static rota_status open_device(const rota_exec_driver *driver, uint32_t index,
                               const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver;
    if (!options->test) return rota_fail(ROTA_INVALID_ARGUMENT, "adversary: no options were given");
    if (index >= DEVICES)
        return rota_fail(ROTA_NOT_FOUND, "adversary: there is no device %u of %u", index, DEVICES);
    if (options->queue_count == 0 || options->queue_count > ROTA_EXEC_QUEUES_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "adversary: %u queues asked for; 1 to %u are possible",
                         options->queue_count, ROTA_EXEC_QUEUES_MAX);
    adversary_device *device = calloc(1, sizeof *device);
    if (!device) return rota_fail(ROTA_OUT_OF_MEMORY, "adversary: no memory for a device");
    device->options = options->test;
    device->base.vtable = &vtable;
    device->base.caps.unified_host = device->options->unified_host;
    device->base.caps.runs_host_nodes = !device->options->no_host_nodes;
    device->base.caps.runs_conditionals = !device->options->no_conditionals;
    device->base.caps.runs_counted = !device->options->no_conditionals;
    device->base.caps.asks_must_skip = true;
    device->base.caps.submit_never_blocks = device->options->submit_never_blocks;
    device->base.caps.shares_memory = device->options->shares_memory;
    device->base.caps.makes_timelines = device->options->timelines;
    if ((device->base.caps.shares_memory || device->options->peers) && device->options->timelines)
        device->base.caps.timeline_queues = (1u << options->queue_count) - 1;
    if (device->options->foreign) memset(device->base.gpu, 7, sizeof device->base.gpu); /* cuda_stub.c */
    describe(index, &device->base.info);
    if (device->options->memory_bytes) device->base.info.memory_bytes = device->options->memory_bytes;
    if (device->options->max_allocation_bytes)
        device->base.info.max_allocation_bytes = device->options->max_allocation_bytes;
    device->host = options->host;
    device->index = index;
    device->queue_count = options->queue_count;
    device->segment_queues = options->segment_queues;
    device->diagnostics = options->diagnostics;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->wake, &monotonic);
    pthread_cond_init(&device->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&device->thread, NULL, adversary_thread, device) != 0) {
        free(device);
        return rota_fail(ROTA_SYSTEM, "adversary: no thread");
    }
    *out_device = &device->base;
    return ROTA_OK;
}

const rota_exec_driver adversary_driver = {
    .name = "adversary", .kind = ROTA_EXEC_CPU, .enumerate = enumerate, .open = open_device};

rota_status adversary_runtime_open(adversary_options *options, const rota_runtime_options *runtime_options,
                                   rota_runtime **out_runtime) {
    rota_runtime *runtime = NULL;
    ROTA_TRY(rota_runtime_open(runtime_options, &runtime));
    rota_status status = rota_runtime_add_driver(runtime, &adversary_driver, options);
    if (status != ROTA_OK) {
        rota_runtime_close(runtime, 0);
        return status;
    }
    *out_runtime = runtime;
    return ROTA_OK;
}
