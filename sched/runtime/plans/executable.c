/* What a plan needs to run: programs, transient arenas, and instances, which are made as replays overlap
 * (instances.c). */
#include <stdlib.h>

#include "base/atomic.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/instances.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"

void rota_executable_destroy(rota_executable *executable) {
    const rota_plan *plan = executable->plan;
    for (uint32_t i = 0; executable->instances && i < executable->instance_capacity; i++)
        if (executable->instances[i].parts) rota_instance_free(executable, &executable->instances[i]);
    for (uint32_t a = 0; executable->arenas.memory && a < executable->arenas.count; a++) {
        if (executable->arenas.memory[a])
            rota_executable_arena_destroy(executable, executable->arenas.memory[a]);
        free(executable->arenas.memory[a]);
    }
    for (uint32_t p = 0; executable->partitions && p < plan->partition_count; p++) {
        rota_executable_partition *part = &executable->partitions[p];
        if (part->program) part->device->exec->vtable->program_destroy(part->device->exec, part->program);
        free(part->by_node);
    }
    free(executable->arenas.memory);
    free(executable->arenas.base);
    free(executable->order.own_points);
    free(executable->instances);
    free(executable->partitions);
    free(executable->arguments.slot_buffers);
    free(executable->arguments.slot_of_buffer);
    free(executable->direct);
    free(executable->observers.users);
    free(executable->arguments.needed);
    free(executable->arguments.no_arguments);
}

/* How replays share instances: those whose executor may have one in flight several times go round the arenas;
 * others take one that is idle. */
static void choose_sharing(rota_executable *executable) {
    const rota_plan *plan = executable->plan;
    bool shared = !executable->has_staging;
    for (uint32_t p = 0; p < plan->partition_count; p++)
        if (plan->partitions[p].desc.block_words &&
            !executable->partitions[p].device->exec->caps.reuse_in_flight)
            shared = false;
    for (uint32_t s = 0; s < plan->segment_count; s++)
        if ((plan->segments[s].may_fail || plan->segments[s].has_loops) &&
            !executable->partitions[plan->segments[s].part].device->exec->caps.reuse_in_flight)
            shared = false;
    executable->rotates = !shared;
    executable->arenas.count = plan->options.arenas ? plan->options.arenas : 1;
    uint32_t instances = plan->options.instances ? plan->options.instances : 4;
    if (instances < executable->arenas.count) instances = executable->arenas.count;
    executable->instance_capacity = shared ? executable->arenas.count : instances;
    executable->order.instance_count = shared ? executable->arenas.count : 1;
}

/* Works of theirs are told that they failed when they are done, and so come by the gate. */
static rota_status open_gates(const rota_executable *executable) {
    const rota_plan *plan = executable->plan;
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        rota_device *device = executable->partitions[plan->segments[s].part].device;
        if (plan->segments[s].may_fail && !device->asks_poison) ROTA_TRY(rota_device_open_gate(device));
    }
    return ROTA_OK;
}

static int by_segment(const void *a, const void *b, void *user) {
    const rota_plan_transfer *transfers = user;
    const uint32_t left = transfers[*(const uint32_t *)a].segment,
                   right = transfers[*(const uint32_t *)b].segment;
    return left < right ? -1 : left > right;
}

static rota_status list_direct(rota_executable *executable) {
    const rota_plan *plan = executable->plan;
    executable->direct = malloc((plan->transfer_count - plan->input_count + 1u) * sizeof *executable->direct);
    if (!executable->direct) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    for (uint32_t t = plan->input_count; t < plan->transfer_count; t++)
        if (plan->transfers[t].word != ROTA_NONE) executable->direct[executable->direct_count++] = t;
    qsort_r(executable->direct, executable->direct_count, sizeof *executable->direct, by_segment,
            plan->transfers);
    return ROTA_OK;
}

static rota_status list_needed(rota_executable *executable) {
    const rota_plan *plan = executable->plan;
    executable->arguments.needed = malloc(executable->arguments.payload_words + 1u);
    executable->arguments.no_arguments =
        calloc(executable->arguments.payload_words + 1u, sizeof *executable->arguments.no_arguments);
    if (!executable->arguments.needed || !executable->arguments.no_arguments)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    for (uint32_t w = 0; w < executable->arguments.payload_words; w++) {
        executable->arguments.needed[w] =
            w >= plan->word_count || plan->words[w].kind != ROTA_WORD_VALUE || plan->words[w].used;
        executable->arguments.needed_count += executable->arguments.needed[w];
    }
    return ROTA_OK;
}

static rota_status describe(rota_executable *executable) {
    const rota_plan *plan = executable->plan;
    uint32_t memories = 0;
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        const rota_partition *part = &plan->partitions[p];
        executable->partitions[p].device = part->device;
        executable->device_mask |= (uint64_t)1 << part->device->index;
        executable->arenas.base[p] = memories;
        memories += part->desc.memory_count;
        if (part->ends_later) executable->ends_later = true;
        for (uint32_t m = 0; m < part->desc.memory_count; m++) {
            if (part->memories[m].kind == ROTA_EXEC_BASE_ARENA) executable->has_arena = true;
            if (part->memories[m].kind == ROTA_EXEC_BASE_STAGING) executable->has_staging = true;
        }
    }
    /* An input that commands read where the caller has it is taken when the replay is complete, not before.
     */
    executable->stages_inputs = executable->has_staging;
    for (uint32_t t = 0; t < plan->input_count; t++)
        if (plan->transfers[t].memory == ROTA_NONE) executable->stages_inputs = false;
    executable->arenas.memories = memories;
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const rota_buffer *buffer = plan->buffers[b].buffer;
        executable->arguments.slot_of_buffer[b] = ROTA_NONE;
        if (buffer->kind == ROTA_BUFFER_PERSISTENT) {
            const rota_residency *residency = buffer->residency;
            if (!residency || residency->closed || residency->runtime != plan->runtime)
                return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': buffer '%s' is not of this runtime",
                                 plan->name, buffer->name);
        }
    }
    for (uint32_t w = 0; w < plan->word_count; w++) {
        uint32_t b = plan->words[w].index;
        if (plan->words[w].kind != ROTA_WORD_BUFFER || executable->arguments.slot_of_buffer[b] != ROTA_NONE)
            continue;
        executable->arguments.slot_of_buffer[b] = executable->arguments.slot_buffer_count;
        executable->arguments.slot_buffers[executable->arguments.slot_buffer_count++] = b;
    }
    executable->arguments.payload_words = plan->word_count + 2 * executable->arguments.slot_buffer_count +
                                          (executable->has_staging ? plan->transfer_count : 0);
    if (executable->arguments.payload_words > ROTA_PAYLOAD_WORDS_MAX)
        return rota_fail(ROTA_UNSUPPORTED,
                         "plan '%s': it takes %u words of arguments, at most %d are possible", plan->name,
                         executable->arguments.payload_words, ROTA_PAYLOAD_WORDS_MAX);
    choose_sharing(executable);
    if (executable->ends_later) ROTA_TRY(rota_observers_find(plan, &executable->observers));
    ROTA_TRY(list_direct(executable));
    return list_needed(executable);
}

static rota_status build(rota_executable *executable) {
    rota_plan *plan = executable->plan;
    executable->partitions = calloc(plan->partition_count, sizeof *executable->partitions);
    executable->arenas.base = calloc(plan->partition_count, sizeof *executable->arenas.base);
    executable->arguments.slot_buffers =
        calloc(plan->buffer_count + 1u, sizeof *executable->arguments.slot_buffers);
    executable->arguments.slot_of_buffer =
        calloc(plan->buffer_count + 1u, sizeof *executable->arguments.slot_of_buffer);
    if (!executable->partitions || !executable->arenas.base || !executable->arguments.slot_buffers ||
        !executable->arguments.slot_of_buffer)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    ROTA_TRY(describe(executable));
    ROTA_TRY(open_gates(executable));
    executable->instances = calloc(executable->instance_capacity, sizeof *executable->instances);
    executable->arenas.memory = calloc(executable->arenas.count, sizeof *executable->arenas.memory);
    executable->order.own_points = calloc(executable->arenas.count, sizeof *executable->order.own_points);
    if (!executable->instances || !executable->arenas.memory || !executable->order.own_points)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    executable->order.arena_points = rota_executable_arena_owner_of(executable)
                                         ? rota_executable_arena_owner_of(executable)->order.arena_points
                                         : executable->order.own_points;
    for (uint32_t i = 0; i < executable->instance_capacity; i++) {
        executable->instances[i].executable = executable;
        executable->instances[i].arena = i % executable->arenas.count;
    }
    for (uint32_t a = 0; a < executable->arenas.count; a++) {
        executable->arenas.memory[a] =
            calloc(executable->arenas.memories + 1u, sizeof **executable->arenas.memory);
        if (!executable->arenas.memory[a])
            return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    }
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        rota_exec_device *exec = executable->partitions[p].device->exec;
        ROTA_TRY(exec->vtable->program_create(exec, &plan->partitions[p].desc,
                                              &executable->partitions[p].program));
    }
    return rota_instance_make(&executable->instances[0]);
}

rota_status rota_executable_create(rota_plan *plan) {
    rota_runtime *runtime = plan->runtime;
    ROTA_TRY(rota_runtime_check(runtime));
    rota_executable *executable = calloc(1, sizeof *executable);
    if (!executable) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    executable->released.kind = ROTA_RELEASED_PLAN;
    executable->plan = plan;
    rota_status status = build(executable);
    if (status != ROTA_OK) {
        rota_executable_destroy(executable);
        free(executable);
        return rota_fail_context(status, "plan '%s': ", plan->name);
    }
    plan->executable = executable;
    (void)ra_fetch_add_relaxed(&runtime->objects.plan_count, 1);
    (void)pthread_mutex_lock(&runtime->objects.mutex);
    executable->next = runtime->objects.executables;
    if (executable->next) executable->next->previous = executable;
    runtime->objects.executables = executable;
    (void)pthread_mutex_unlock(&runtime->objects.mutex);
    return ROTA_OK;
}
