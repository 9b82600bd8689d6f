/* Instances: memories resolved to operands, and room for what a run counts.
 *
 * Threads: create and destroy may be called from any threads at once; they block in malloc and in the
 * device's list mutex only. */
#include "exec/cpu/instance.h"

#include <stdlib.h>

#include "exec/cpu/device.h"
#include "exec/cpu/later.h"

static rota_status make(rota_cpu_device *device, rota_exec_program *program, rota_cpu_loop *loop,
                        bool is_body, rota_exec_memory *const *memories, rota_exec_instance **out_instance);

static void free_instance(rota_exec_instance *instance) {
    if (!instance) return;
    for (uint32_t i = 0; instance->bodies && i < instance->program->body_count; i++)
        free_instance(instance->bodies[i]);
    rota_arena_free(&instance->arena);
    free(instance);
}

/* Of the bodies: their runs know whose iterations they are. */
static rota_status make_bodies(rota_cpu_device *device, rota_exec_instance *instance,
                               rota_exec_memory *const *memories) {
    const rota_exec_program *program = instance->program;
    if (program->conditional_count == 0) return ROTA_OK;
    instance->loops = rota_arena_calloc(&instance->arena, program->loop_count * sizeof *instance->loops, 64);
    instance->bodies = rota_arena_calloc(&instance->arena, program->body_count * sizeof *instance->bodies, 8);
    if (!instance->loops || !instance->bodies)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for the bodies of an instance of program '%s'",
                         program->desc->name);
    for (uint32_t i = 0; i < program->conditional_count; i++) {
        const rota_cpu_conditional *conditional = &program->conditionals[i];
        rota_cpu_loop *loop = conditional->loop == ROTA_CPU_NONE ? NULL : &instance->loops[conditional->loop];
        for (uint32_t b = conditional->first_body;
             b < conditional->first_body + conditional->desc->body_count; b++)
            if (program->bodies[b])
                ROTA_TRY(make(device, program->bodies[b], loop, true, memories, &instance->bodies[b]));
    }
    return ROTA_OK;
}

static rota_status fill_instance(rota_cpu_device *device, rota_exec_instance *instance, rota_cpu_loop *loop,
                                 bool is_body, rota_exec_memory *const *memories) {
    const bool has_times = device->diagnostics && !is_body;
    rota_exec_program *program = instance->program;
    const rota_exec_program_desc *desc = program->desc;
    rota_arena *arena = &instance->arena;
    instance->operands = rota_arena_alloc(arena, program->operand_count * sizeof *instance->operands, 64);
    instance->runs = rota_arena_calloc(arena, desc->segment_count * sizeof *instance->runs, 64);
    instance->units = rota_arena_calloc(arena, program->unit_count * sizeof *instance->units, 64);
    instance->splits = rota_arena_calloc(arena, program->split_count * sizeof *instance->splits, 64);
    instance->laters = rota_arena_calloc(arena, program->later_count * sizeof *instance->laters, 64);
    if (has_times)
        instance->times = rota_arena_calloc(arena, desc->command_count * sizeof *instance->times, 64);
    if (!instance->operands || !instance->runs || !instance->units || !instance->splits ||
        !instance->laters || (has_times && !instance->times))
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for an instance of program '%s' of %u commands",
                         desc->name, desc->command_count);
    for (uint32_t i = 0; i < program->operand_count; i++) {
        const rota_exec_operand *operand = &desc->operands[program->operand_source[i]];
        uint64_t base = operand->is_slot ? 0 : memories[operand->memory]->address;
        if (!operand->is_slot &&
            (operand->offset_bytes > memories[operand->memory]->size_bytes ||
             operand->size_bytes > memories[operand->memory]->size_bytes - operand->offset_bytes))
            return rota_fail(
                ROTA_OUT_OF_RANGE,
                "cpu: an operand of program '%s' covers bytes %llu to %llu of memory %u, which has %llu",
                desc->name, (unsigned long long)operand->offset_bytes,
                (unsigned long long)(rota_exec_operand_end(operand)), operand->memory,
                (unsigned long long)memories[operand->memory]->size_bytes);
        instance->operands[i] = (void *)(uintptr_t)(base + operand->offset_bytes);
    }
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        const rota_cpu_segment *segment = &program->segments[s];
        instance->runs[s].instance = instance;
        instance->runs[s].loop = loop;
        for (uint32_t u = segment->first_unit; u < segment->first_unit + segment->unit_count; u++) {
            instance->units[u].task.kind = ROTA_CPU_TASK_UNIT;
            instance->units[u].task.unit = u;
            instance->units[u].run = &instance->runs[s];
            atomic_init(&instance->units[u].pending, program->units[u].predecessor_count);
            const rota_cpu_unit *unit = &program->units[u];
            if (unit->state != ROTA_CPU_NONE &&
                program->records[unit->first_record].flags & ROTA_CPU_RECORD_LATER)
                rota_cpu_later_init(&instance->laters[unit->state], device, &instance->units[u]);
        }
    }
    return make_bodies(device, instance, memories);
}

static rota_status make(rota_cpu_device *device, rota_exec_program *program, rota_cpu_loop *loop,
                        bool is_body, rota_exec_memory *const *memories, rota_exec_instance **out_instance) {
    rota_exec_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for an instance of '%s'", program->desc->name);
    instance->program = program;
    instance->arena.is_small = is_body;
    const rota_status status = fill_instance(device, instance, loop, is_body, memories);
    if (status == ROTA_OK)
        *out_instance = instance;
    else
        free_instance(instance);
    return status;
}

rota_status rota_cpu_instance_create(rota_exec_device *base, rota_exec_program *program,
                                     rota_exec_memory *const *memories, rota_exec_instance **out_instance) {
    rota_cpu_device *device = rota_cpu_device_of(base);
    rota_exec_instance *instance = NULL;
    ROTA_TRY(make(device, program, NULL, false, memories, &instance));
    pthread_mutex_lock(&device->objects.mutex);
    rota_link_add(&device->objects.instances, &instance->link);
    pthread_mutex_unlock(&device->objects.mutex);
    *out_instance = instance;
    return ROTA_OK;
}

void rota_cpu_instance_destroy(rota_exec_device *base, rota_exec_instance *instance) {
    if (!instance) return;
    rota_cpu_device *device = rota_cpu_device_of(base);
    pthread_mutex_lock(&device->objects.mutex);
    rota_link_remove(&instance->link);
    pthread_mutex_unlock(&device->objects.mutex);
    free_instance(instance);
}

void rota_cpu_instance_free_all(rota_cpu_device *device) {
    rota_link *list = &device->objects.instances;
    while (!rota_link_is_alone(list))
        rota_cpu_instance_destroy(&device->base, ROTA_LINKED(list->next, rota_exec_instance, link));
}

rota_status rota_cpu_times_read(rota_exec_device *base, rota_exec_instance *instance, rota_exec_time *out) {
    (void)base;
    const rota_exec_program_desc *desc = instance->program->desc;
    if (!instance->times)
        return rota_fail(ROTA_WRONG_STATE, "cpu: times of '%s' need a device opened with diagnostics",
                         desc->name);
    for (uint32_t i = 0; i < desc->command_count; i++) {
        out[i].begin_ns = ra_load_relaxed(&instance->times[i].begin_ns);
        out[i].end_ns = ra_load_relaxed(&instance->times[i].end_ns);
    }
    return ROTA_OK;
}
