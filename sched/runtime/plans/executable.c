/* What a plan needs to run: programs, transient arenas, and instances, which are made as replays overlap
 * (instances.c). */
#include <stdlib.h>

#include "base/atomic.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/instances.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/shell.h"
#include "sched/runtime/shared/runtime.h"

void rota_run_destroy(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    for (uint32_t i = 0; run->instances && i < run->instance_capacity; i++)
        if (run->instances[i].parts) rota_run_instance_free(run, &run->instances[i]);
    for (uint32_t a = 0; run->arenas.memory && a < run->arenas.count; a++) {
        if (run->arenas.memory[a]) rota_run_arena_destroy(run, run->arenas.memory[a]);
        free(run->arenas.memory[a]);
    }
    for (uint32_t p = 0; run->parts && p < plan->part_count; p++) {
        rota_run_part *part = &run->parts[p];
        if (part->program) part->device->exec->vtable->program_destroy(part->device->exec, part->program);
        free(part->by_node);
    }
    free(run->arenas.memory);
    free(run->arenas.base);
    free(run->order.own_points);
    free(run->instances);
    free(run->parts);
    free(run->arguments.slot_buffers);
    free(run->arguments.slot_of_buffer);
    free(run->direct);
    free(run->arguments.needed);
    free(run->arguments.no_arguments);
}

/* How replays share instances: those whose executor may have one in flight several times go round the arenas;
 * others take one that is idle. */
static void choose_sharing(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    bool shared = !run->has_staging;
    for (uint32_t p = 0; p < plan->part_count; p++)
        if (plan->parts[p].desc.block_words && !run->parts[p].device->exec->caps.reuse_in_flight)
            shared = false;
    run->rotates = !shared;
    run->arenas.count = plan->options.arenas ? plan->options.arenas : 1;
    uint32_t instances = plan->options.instances ? plan->options.instances : 4;
    if (instances < run->arenas.count) instances = run->arenas.count;
    run->instance_capacity = shared ? run->arenas.count : instances;
    run->order.instance_count = shared ? run->arenas.count : 1;
}

static int by_segment(const void *a, const void *b, void *user) {
    const rota_plan_transfer *transfers = user;
    const uint32_t left = transfers[*(const uint32_t *)a].segment,
                   right = transfers[*(const uint32_t *)b].segment;
    return left < right ? -1 : left > right;
}

static rota_status list_direct(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    run->direct = malloc((plan->transfer_count - plan->input_count + 1u) * sizeof *run->direct);
    if (!run->direct) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    for (uint32_t t = plan->input_count; t < plan->transfer_count; t++)
        if (plan->transfers[t].word != ROTA_NONE) run->direct[run->direct_count++] = t;
    qsort_r(run->direct, run->direct_count, sizeof *run->direct, by_segment, plan->transfers);
    return ROTA_OK;
}

static rota_status list_needed(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    run->arguments.needed = malloc(run->arguments.payload_words + 1u);
    run->arguments.no_arguments =
        calloc(run->arguments.payload_words + 1u, sizeof *run->arguments.no_arguments);
    if (!run->arguments.needed || !run->arguments.no_arguments)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    for (uint32_t w = 0; w < run->arguments.payload_words; w++) {
        run->arguments.needed[w] =
            w >= plan->word_count || plan->words[w].kind != ROTA_WORD_VALUE || plan->words[w].used;
        run->arguments.needed_count += run->arguments.needed[w];
    }
    return ROTA_OK;
}

static rota_status describe(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    uint32_t memories = 0;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        const rota_plan_part *part = &plan->parts[p];
        run->parts[p].device = part->device;
        run->device_mask |= (uint64_t)1 << part->device->index;
        run->arenas.base[p] = memories;
        memories += part->desc.memory_count;
        for (uint32_t m = 0; m < part->desc.memory_count; m++) {
            if (part->memories[m].kind == ROTA_EXEC_BASE_ARENA) run->has_arena = true;
            if (part->memories[m].kind == ROTA_EXEC_BASE_STAGING) run->has_staging = true;
        }
    }
    /* An input that commands read where the caller has it is taken when the replay is complete, not before.
     */
    run->stages_inputs = run->has_staging;
    for (uint32_t t = 0; t < plan->input_count; t++)
        if (plan->transfers[t].memory == ROTA_NONE) run->stages_inputs = false;
    run->arenas.memories = memories;
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const rota_buffer *buffer = plan->buffers[b].buffer;
        run->arguments.slot_of_buffer[b] = ROTA_NONE;
        if (buffer->kind == ROTA_BUFFER_PERSISTENT) {
            const rota_residency *residency = buffer->residency;
            if (!residency || residency->closed || residency->runtime != plan->runtime)
                return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': buffer '%s' is not of this runtime",
                                 plan->name, buffer->name);
        }
    }
    for (uint32_t w = 0; w < plan->word_count; w++) {
        uint32_t b = plan->words[w].index;
        if (plan->words[w].kind != ROTA_WORD_BUFFER || run->arguments.slot_of_buffer[b] != ROTA_NONE)
            continue;
        run->arguments.slot_of_buffer[b] = run->arguments.slot_buffer_count;
        run->arguments.slot_buffers[run->arguments.slot_buffer_count++] = b;
    }
    run->arguments.payload_words = plan->word_count + 2 * run->arguments.slot_buffer_count +
                                   (run->has_staging ? plan->transfer_count : 0);
    if (run->arguments.payload_words > ROTA_PAYLOAD_WORDS_MAX)
        return rota_fail(ROTA_UNSUPPORTED,
                         "plan '%s': it takes %u words of arguments, at most %d are possible", plan->name,
                         run->arguments.payload_words, ROTA_PAYLOAD_WORDS_MAX);
    choose_sharing(run);
    ROTA_TRY(list_direct(run));
    return list_needed(run);
}

static rota_status build(rota_plan_run *run) {
    rota_plan *plan = run->plan;
    run->parts = calloc(plan->part_count, sizeof *run->parts);
    run->arenas.base = calloc(plan->part_count, sizeof *run->arenas.base);
    run->arguments.slot_buffers = calloc(plan->buffer_count + 1u, sizeof *run->arguments.slot_buffers);
    run->arguments.slot_of_buffer = calloc(plan->buffer_count + 1u, sizeof *run->arguments.slot_of_buffer);
    if (!run->parts || !run->arenas.base || !run->arguments.slot_buffers || !run->arguments.slot_of_buffer)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    ROTA_TRY(describe(run));
    run->instances = calloc(run->instance_capacity, sizeof *run->instances);
    run->arenas.memory = calloc(run->arenas.count, sizeof *run->arenas.memory);
    run->order.own_points = calloc(run->arenas.count, sizeof *run->order.own_points);
    if (!run->instances || !run->arenas.memory || !run->order.own_points)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    run->order.arena_points =
        rota_run_lender_of(run) ? rota_run_lender_of(run)->order.arena_points : run->order.own_points;
    for (uint32_t i = 0; i < run->instance_capacity; i++) {
        run->instances[i].run = run;
        run->instances[i].arena = i % run->arenas.count;
    }
    for (uint32_t a = 0; a < run->arenas.count; a++) {
        run->arenas.memory[a] = calloc(run->arenas.memories + 1u, sizeof **run->arenas.memory);
        if (!run->arenas.memory[a])
            return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    }
    for (uint32_t p = 0; p < plan->part_count; p++) {
        rota_exec_device *exec = run->parts[p].device->exec;
        ROTA_TRY(exec->vtable->program_create(exec, &plan->parts[p].desc, &run->parts[p].program));
    }
    return rota_run_instance_make(&run->instances[0]);
}

rota_status rota_plan_run_create(rota_plan *plan) {
    rota_runtime *runtime = plan->runtime;
    ROTA_TRY(rota_runtime_check(runtime));
    rota_plan_run *run = calloc(1, sizeof *run);
    if (!run) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    run->dead.kind = ROTA_DEAD_PLAN;
    run->plan = plan;
    rota_status status = build(run);
    if (status != ROTA_OK) {
        rota_run_destroy(run);
        free(run);
        return rota_fail_context(status, "plan '%s': ", plan->name);
    }
    plan->run = run;
    (void)ra_fetch_add_relaxed(&runtime->objects.plan_count, 1);
    (void)pthread_mutex_lock(&runtime->objects.mutex);
    run->next = runtime->objects.runs;
    if (run->next) run->next->previous = run;
    runtime->objects.runs = run;
    (void)pthread_mutex_unlock(&runtime->objects.mutex);
    return ROTA_OK;
}
