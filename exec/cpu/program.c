/* Programs: from commands to compact records.
 *
 * Threads: create and destroy may be called from any threads at once; they block in malloc and in the
 * device's list mutex only. */
#include "exec/cpu/program.h"
#include "exec/common/names.h"

#include <stdlib.h>
#include <string.h>

#include "graph/kernel_calls.h"
#include "exec/cpu/cluster.h"
#include "exec/cpu/device.h"

enum {
    KERNEL_NS = 20,  /* calling a kernel */
    HOST_NS = 50000, /* a host function: unknown, so never gathered with much else */
    GRAIN_NS = 4000, /* "the smallest piece worth a task of its own" */
    BYTES_PER_NS = 8,
    COST_MAX_NS = 1000000000,
    COPY_GRAIN_ITEMS = 4096 /* 256 KiB: well above what a handover costs */
};

/* ---- Copies and fills as kernels ---- */

static void byte_range(const rota_kernel_call *call, size_t *out_begin, size_t *out_size) {
    uint64_t size = call->operand_bytes[0];
    uint64_t begin = call->begin * ROTA_CPU_COPY_ITEM_BYTES, end = call->end * ROTA_CPU_COPY_ITEM_BYTES;
    if (end > size) end = size;
    *out_begin = (size_t)begin;
    *out_size = (size_t)(end > begin ? end - begin : 0);
}

static rota_status run_copy(const rota_kernel_call *call) {
    size_t begin, size;
    byte_range(call, &begin, &size);
    if (size) memcpy((uint8_t *)call->operands[0] + begin, (const uint8_t *)call->operands[1] + begin, size);
    return ROTA_OK;
}

static rota_status run_fill(const rota_kernel_call *call) {
    size_t begin, size;
    byte_range(call, &begin, &size);
    uint32_t pattern;
    memcpy(&pattern, call->params, sizeof pattern);
    uint8_t *to = (uint8_t *)call->operands[0] + begin;
    if (pattern == (pattern & 0xffu) * 0x01010101u) {
        if (size) memset(to, (int)(pattern & 0xffu), size);
        return ROTA_OK;
    }
    for (size_t i = 0; i + sizeof pattern <= size; i += sizeof pattern)
        memcpy(to + i, &pattern, sizeof pattern);
    return ROTA_OK;
}

/* ---- Checks and estimates ---- */

static const char *node_name(const rota_cpu_device *device, const rota_exec_program_desc *desc,
                             uint32_t node) {
    return rota_node_name_of(&device->host, desc->owner, node);
}

static rota_status check_command(const rota_cpu_device *device, const rota_exec_program_desc *desc,
                                 const rota_exec_command *command) {
    uint32_t wanted = command->kind == ROTA_EXEC_COMMAND_COPY   ? 2
                      : command->kind == ROTA_EXEC_COMMAND_FILL ? 1
                                                                : 0;
    if (command->operand_count < wanted)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "cpu: node '%s' of '%s' has %u operands where its command needs %u",
                         node_name(device, desc, command->node), desc->name, command->operand_count, wanted);
    if (command->kind == ROTA_EXEC_COMMAND_KERNEL && !command->u.kernel.kernel->cpu.fn)
        return rota_fail(ROTA_UNSUPPORTED, "cpu: kernel '%s' of node '%s' in '%s' has no CPU function",
                         command->u.kernel.kernel->name, node_name(device, desc, command->node), desc->name);
    for (uint32_t i = 0; i < command->operand_count; i++) {
        const rota_exec_operand *operand = &desc->operands[command->first_operand + i];
        uint32_t limit = operand->is_slot ? desc->block_words : desc->memory_count;
        if (operand->memory >= limit)
            return rota_fail(ROTA_OUT_OF_RANGE, "cpu: operand %u of node '%s' in '%s' names %s %u of %u", i,
                             node_name(device, desc, command->node), desc->name,
                             operand->is_slot ? "block word" : "memory", operand->memory, limit);
    }
    for (uint32_t i = 0; i < command->binding_count; i++) {
        const rota_exec_binding *binding = &desc->bindings[command->first_binding + i];
        const rota_kernel *kernel = command->u.kernel.kernel;
        if (command->kind != ROTA_EXEC_COMMAND_KERNEL || binding->word >= desc->block_words ||
            binding->bindable >= kernel->bindable_count || kernel->param_bytes > ROTA_KERNEL_PARAM_BYTES_MAX)
            return rota_fail(ROTA_OUT_OF_RANGE,
                             "cpu: binding %u of node '%s' in '%s' has no such parameter or block word", i,
                             node_name(device, desc, command->node), desc->name);
    }
    return ROTA_OK;
}

/* Its last operand is the count, and what that may be at most the node's ranges, and the kernel's items, hold; what
 * slots say of those is looked at as it runs. */
static rota_status check_count(const rota_cpu_device *device, const rota_exec_program_desc *desc,
                               const rota_exec_command *command) {
    const bool is_copy = command->kind == ROTA_EXEC_COMMAND_COPY;
    const uint32_t count = command->operand_count, wanted = is_copy ? 3 : 1;
    const rota_exec_operand *operands = &desc->operands[command->first_operand];
    const char *name = node_name(device, desc, command->node);
    if ((!is_copy && command->kind != ROTA_EXEC_COMMAND_KERNEL) || count < wanted ||
        operands[count - 1].size_bytes != sizeof(uint32_t) || operands[count - 1].mode != ROTA_READ)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "cpu: node '%s' in '%s' is counted, but is no kernel or copy whose last operand is 4 "
            "bytes that it reads",
            name, desc->name);
    const uint64_t most = rota_exec_count_max(command) * (is_copy ? command->u.copy.unit_bytes : 1);
    if (is_copy && (operands[0].size_bytes != most || operands[1].size_bytes != most))
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "cpu: node '%s' in '%s' copies at most %llu bytes, in ranges of others", name,
                         desc->name, (unsigned long long)most);
    if (most == 0)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "cpu: node '%s' in '%s' is counted up to 0, expected at least 1", name, desc->name);
    uint64_t bytes[UINT8_MAX], items = most, grain;
    if (is_copy || command->binding_count) return ROTA_OK;
    for (uint32_t i = 0; i < count; i++) bytes[i] = operands[i].size_bytes;
    (void)rota_kernel_items(command->u.kernel.kernel, command->u.kernel.params, bytes, &items, &grain);
    if (most <= items) return ROTA_OK;
    return rota_fail(
        ROTA_OUT_OF_RANGE,
        "cpu: node '%s' in '%s' may have a count of %llu (rota_count.max), and its kernel '%s' has "
        "%llu items",
        name, desc->name, (unsigned long long)most, command->u.kernel.kernel->name,
        (unsigned long long)items);
}

/* Edges must stay in their segment and go forward: commands stand batch after batch, and an edge goes from a
 * join to a later one or to any command. */
static rota_status check_edges(const rota_cpu_device *device, const rota_exec_program_desc *desc,
                               const rota_exec_segment *segment) {
    uint32_t end = segment->first_command + segment->command_count;
    uint32_t joins = desc->command_count + segment->first_join, joins_end = joins + segment->join_count;
    for (uint32_t c = segment->first_command; c < end; c++) {
        for (uint32_t e = desc->first_successor[c]; e < desc->first_successor[c + 1]; e++) {
            uint32_t to = desc->successor[e];
            if ((to <= c || to >= end) && (to < joins || to >= joins_end))
                return rota_fail(ROTA_INTERNAL,
                                 "cpu: an edge of node '%s' in '%s' leaves its segment or goes back",
                                 node_name(device, desc, desc->commands[c].node), desc->name);
        }
    }
    for (uint32_t j = joins; j < joins_end; j++) {
        for (uint32_t e = desc->first_successor[j]; e < desc->first_successor[j + 1]; e++) {
            uint32_t to = desc->successor[e];
            if ((to < segment->first_command || to >= end) && (to <= j || to >= joins_end))
                return rota_fail(ROTA_INTERNAL,
                                 "cpu: an edge of join %u in '%s' leaves its segment or goes back",
                                 j - desc->command_count, desc->name);
        }
    }
    return ROTA_OK;
}

/* Its words lie in its operands, and what its bodies' commands do is checked as they are made. */
static rota_status check_conditional(const rota_cpu_device *device, const rota_exec_program_desc *desc,
                                     const rota_exec_command *command) {
    const rota_exec_conditional *conditional = command->u.conditional;
    const rota_exec_word *const words[] = {&conditional->condition, &conditional->index};
    for (uint32_t i = 0; i < 2; i++) {
        if (i == 1 && words[i]->operand == UINT32_MAX) continue;
        const rota_exec_operand *operand = words[i]->operand < command->operand_count
                                               ? &desc->operands[command->first_operand + words[i]->operand]
                                               : NULL;
        if (!operand || words[i]->offset_bytes > operand->size_bytes ||
            operand->size_bytes - words[i]->offset_bytes < sizeof(uint32_t))
            return rota_fail(ROTA_OUT_OF_RANGE,
                             "cpu: the %s of node '%s' in '%s' is in none of its %u operands",
                             i ? "index" : "condition", node_name(device, desc, command->node), desc->name,
                             command->operand_count);
    }
    return ROTA_OK;
}

/* Of a kernel that is counted and says nothing of its items. */
static uint64_t grain_by_bytes(uint64_t items, uint64_t bytes) {
    const uint64_t grain_bytes = (uint64_t)GRAIN_NS * BYTES_PER_NS, bytes_of_item = bytes / items;
    return bytes_of_item ? grain_bytes / bytes_of_item : grain_bytes;
}

static rota_cpu_estimate estimate(const rota_exec_command *command, const uint64_t *operand_bytes) {
    rota_cpu_estimate out = {.items = 1, .grain = 1, .conditional = ROTA_CPU_NONE};
    uint64_t bytes = 0;
    bool has_items = false;
    for (uint32_t i = 0; i < command->operand_count; i++) bytes += operand_bytes[i];
    switch ((rota_exec_command_kind)command->kind) {
    case ROTA_EXEC_COMMAND_KERNEL: {
        const rota_kernel *kernel = command->u.kernel.kernel;
        has_items =
            rota_kernel_items(kernel, command->u.kernel.params, operand_bytes, &out.items, &out.grain);
        if (command->is_counted) out.items = command->u.kernel.count_max;
        if (command->is_counted && !has_items) out.grain = grain_by_bytes(out.items, bytes);
        break;
    }
    case ROTA_EXEC_COMMAND_COPY:
    case ROTA_EXEC_COMMAND_FILL:
        out.items = rota_cpu_copy_items(operand_bytes[0]);
        out.grain = COPY_GRAIN_ITEMS;
        break;
    case ROTA_EXEC_COMMAND_HOST:
        out.cost_ns = HOST_NS;
        out.later = command->u.host.later != NULL;
        break;
    case ROTA_EXEC_COMMAND_CONDITIONAL:
        out.cost_ns = HOST_NS;
        break;
    }
    if (out.grain == 0) out.grain = 1;
    uint64_t grains = out.items / out.grain;
    out.split = grains >= 2;
    out.is_alone = out.split || out.later;
    uint64_t by_bytes = KERNEL_NS + bytes / BYTES_PER_NS;
    if (out.cost_ns < by_bytes) out.cost_ns = by_bytes;
    if (has_items) {
        double by_items = (double)out.items / (double)out.grain * (double)GRAIN_NS;
        if (by_items > (double)COST_MAX_NS)
            by_items = (double)COST_MAX_NS; /* so that sums stay far from overflow */
        if (out.cost_ns < (uint64_t)by_items) out.cost_ns = (uint64_t)by_items;
    }
    return out;
}

/* ---- Programs ---- */

static uint8_t flags_of(const rota_exec_command *command) {
    return (uint8_t)((command->binding_count != 0) * ROTA_CPU_RECORD_BINDINGS |
                     command->is_counted * ROTA_CPU_RECORD_COUNTED);
}

static rota_status make_record(rota_exec_program *program, const rota_cpu_estimate *estimates, uint32_t index,
                               uint32_t command_index) {
    const rota_exec_program_desc *desc = program->desc;
    const rota_exec_command *command = &desc->commands[command_index];
    rota_cpu_record *record = &program->records[index];
    *record = (rota_cpu_record){
        .items = estimates[command_index].items,
        .first_operand = program->operand_count,
        .node = command->node,
        .command = command_index,
        .operand_count = command->operand_count,
        .flags = flags_of(command),
    };
    for (uint32_t i = 0; i < command->operand_count; i++) {
        const rota_exec_operand *operand = &desc->operands[command->first_operand + i];
        uint32_t operand_index = program->operand_count++;
        program->operand_bytes[operand_index] = operand->size_bytes;
        program->operand_word[operand_index] = operand->is_slot ? operand->memory : ROTA_CPU_NONE;
        program->operand_source[operand_index] = command->first_operand + i;
        if (operand->is_slot) record->flags |= ROTA_CPU_RECORD_SLOTS;
    }
    const void *params = NULL;
    size_t param_bytes = 0;
    switch ((rota_exec_command_kind)command->kind) {
    case ROTA_EXEC_COMMAND_KERNEL:
        record->fn.kernel = command->u.kernel.kernel->cpu.fn;
        if (command->u.kernel.kernel->user) record->flags |= ROTA_CPU_RECORD_USER;
        params = command->u.kernel.params;
        param_bytes = command->u.kernel.kernel->param_bytes;
        break;
    case ROTA_EXEC_COMMAND_COPY:
        record->fn.kernel = run_copy;
        break;
    case ROTA_EXEC_COMMAND_FILL:
        record->fn.kernel = run_fill;
        params = &command->u.fill.pattern;
        param_bytes = sizeof command->u.fill.pattern;
        break;
    case ROTA_EXEC_COMMAND_HOST:
        if (command->u.host.later)
            record->fn.later = command->u.host.later;
        else
            record->fn.host = command->u.host.fn;
        record->u.user = command->u.host.user;
        record->flags |= command->u.host.later ? ROTA_CPU_RECORD_LATER : ROTA_CPU_RECORD_HOST;
        return ROTA_OK;
    case ROTA_EXEC_COMMAND_CONDITIONAL:
        record->u.conditional = &program->conditionals[estimates[command_index].conditional];
        record->flags |= ROTA_CPU_RECORD_CONDITIONAL;
        return ROTA_OK;
    }
    if (param_bytes == 0) return ROTA_OK;
    /* An own copy stays valid for a kernel that close has to abandon. */
    void *copy = rota_arena_alloc(&program->arena, param_bytes, 16);
    if (!copy)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for the parameters of program '%s'", desc->name);
    memcpy(copy, params, param_bytes);
    record->u.params = copy;
    return ROTA_OK;
}

static rota_status make_program(rota_cpu_device *device, const rota_exec_program_desc *desc, bool is_body,
                                rota_exec_program **out_program);

static void free_program(rota_exec_program *program) {
    if (!program) return;
    for (uint32_t i = 0; i < program->body_count; i++) free_program(program->bodies[i]);
    rota_arena_free(&program->arena);
    free(program);
}

static bool is_serial(const rota_exec_program *body) {
    for (uint32_t i = 0; body && i < body->desc->segment_count; i++)
        if (!body->segments[i].serial) return false;
    return true;
}

/* Whoever ends a function later knows nothing of iterations, and nobody would tell it of those that don't come. */
static rota_status check_body(const rota_cpu_device *device, const rota_exec_program_desc *body) {
    for (uint32_t i = 0; i < body->command_count; i++) {
        const rota_exec_command *command = &body->commands[i];
        if (command->kind == ROTA_EXEC_COMMAND_HOST && command->u.host.later)
            return rota_fail(
                ROTA_UNSUPPORTED,
                "cpu: node '%s' of body '%s' ends later than its function, which in bodies none may",
                node_name(device, body, command->node), body->name);
    }
    return ROTA_OK;
}

/* Programs of a command's bodies. */
static rota_status make_bodies(rota_cpu_device *device, rota_exec_program *program,
                               rota_cpu_conditional *made) {
    bool is_inline = true;
    made->loop = ROTA_CPU_NONE;
    made->first_body = program->body_count;
    for (uint32_t i = 0; i < made->desc->body_count; i++) {
        const rota_exec_program_desc *body = made->desc->bodies[i];
        rota_exec_program **out = &program->bodies[program->body_count++];
        if (!body || body->command_count == 0) continue;
        if (body->segment_count != 1)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "cpu: body %u of node '%s' in '%s' has %u segments, expected one", i,
                             node_name(device, program->desc, program->desc->commands[made->command].node),
                             program->desc->name, body->segment_count);
        ROTA_TRY(check_body(device, body));
        ROTA_TRY(make_program(device, body, true, out));
        is_inline &= is_serial(*out);
    }
    if (!is_inline) made->loop = program->loop_count++;
    return ROTA_OK;
}

/* `count`: how many commands decide, at least one. */
static rota_status make_conditionals(rota_cpu_device *device, rota_exec_program *program, uint32_t count) {
    const rota_exec_program_desc *desc = program->desc;
    size_t bodies = 0;
    for (uint32_t i = 0; i < desc->command_count; i++)
        if (desc->commands[i].kind == ROTA_EXEC_COMMAND_CONDITIONAL)
            bodies += desc->commands[i].u.conditional->body_count;
    program->conditionals = rota_arena_calloc(&program->arena, count * sizeof *program->conditionals, 8);
    program->bodies = rota_arena_calloc(&program->arena, bodies * sizeof *program->bodies, 8);
    if (!program->conditionals || !program->bodies)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for the bodies of program '%s'", desc->name);
    for (uint32_t i = 0; i < desc->command_count; i++) {
        const rota_exec_command *command = &desc->commands[i];
        if (command->kind != ROTA_EXEC_COMMAND_CONDITIONAL) continue;
        ROTA_TRY(check_conditional(device, desc, command));
        rota_cpu_conditional *made = &program->conditionals[program->conditional_count++];
        *made = (rota_cpu_conditional){.desc = command->u.conditional, .command = i};
        ROTA_TRY(make_bodies(device, program, made));
    }
    return ROTA_OK;
}

static rota_status fill_program(rota_cpu_device *device, rota_exec_program *program, rota_arena *scratch) {
    const rota_exec_program_desc *desc = program->desc;
    size_t commands = desc->command_count;
    size_t operands = 0;
    uint32_t decisions = 0;
    for (size_t i = 0; i < commands; i++) {
        operands += desc->commands[i].operand_count;
        decisions += desc->commands[i].kind == ROTA_EXEC_COMMAND_CONDITIONAL;
    }
    for (uint32_t i = 0; i < desc->segment_count; i++)
        ROTA_TRY(check_edges(device, desc, &desc->segments[i]));
    rota_cpu_estimate *estimates = rota_arena_alloc(scratch, commands * sizeof *estimates, 8);
    uint32_t *order = rota_arena_alloc(scratch, commands * sizeof *order, 8);
    program->records = rota_arena_alloc(&program->arena, commands * sizeof *program->records, 64);
    program->operand_bytes = rota_arena_alloc(&program->arena, operands * sizeof *program->operand_bytes, 64);
    program->operand_word = rota_arena_alloc(&program->arena, operands * sizeof *program->operand_word, 64);
    program->operand_source =
        rota_arena_alloc(&program->arena, operands * sizeof *program->operand_source, 64);
    if (!estimates || !order || !program->records || !program->operand_bytes || !program->operand_word ||
        !program->operand_source)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for program '%s' of %u commands", desc->name,
                         desc->command_count);
    if (decisions) ROTA_TRY(make_conditionals(device, program, decisions));
    uint32_t next_conditional = 0;
    size_t laters = 0;
    for (uint32_t i = 0; i < desc->command_count; i++) {
        const rota_exec_command *command = &desc->commands[i];
        ROTA_TRY(check_command(device, desc, command));
        if (command->is_counted) ROTA_TRY(check_count(device, desc, command));
        uint64_t bytes[UINT8_MAX];
        for (uint32_t o = 0; o < command->operand_count; o++)
            bytes[o] = desc->operands[command->first_operand + o].size_bytes;
        estimates[i] = estimate(command, bytes);
        if (command->kind == ROTA_EXEC_COMMAND_CONDITIONAL) {
            estimates[i].conditional = next_conditional++;
            estimates[i].is_alone |= program->conditionals[estimates[i].conditional].loop != ROTA_CPU_NONE;
        }
        laters += estimates[i].later;
        if (estimates[i].items > ROTA_CPU_ITEMS_MAX)
            return rota_fail(
                ROTA_OUT_OF_RANGE,
                "cpu: kernel '%s' of node '%s' in '%s' says that it has %llu items, at most %llu",
                command->u.kernel.kernel->name, node_name(device, desc, command->node), desc->name,
                (unsigned long long)estimates[i].items, (unsigned long long)ROTA_CPU_ITEMS_MAX);
    }
    ROTA_TRY(rota_cpu_cluster(program, estimates, laters, device->worker_count, order));
    for (uint32_t i = 0; i < desc->command_count; i++) ROTA_TRY(make_record(program, estimates, i, order[i]));
    return ROTA_OK;
}

static rota_status make_program(rota_cpu_device *device, const rota_exec_program_desc *desc, bool is_body,
                                rota_exec_program **out_program) {
    rota_exec_program *program = calloc(1, sizeof *program);
    if (!program) return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for program '%s'", desc->name);
    program->desc = desc;
    program->arena.is_small = is_body;
    program->owner = desc->owner;
    program->block_words = desc->block_words;
    rota_arena scratch = ROTA_ARENA_INIT;
    rota_status status = fill_program(device, program, &scratch);
    rota_arena_free(&scratch);
    if (status == ROTA_OK)
        *out_program = program;
    else
        free_program(program);
    return status;
}

rota_status rota_cpu_program_create(rota_exec_device *base, const rota_exec_program_desc *desc,
                                    rota_exec_program **out_program) {
    rota_cpu_device *device = rota_cpu_device_of(base);
    rota_exec_program *program;
    ROTA_TRY(make_program(device, desc, false, &program));
    pthread_mutex_lock(&device->objects.mutex);
    rota_link_add(&device->objects.programs, &program->link);
    pthread_mutex_unlock(&device->objects.mutex);
    *out_program = program;
    return ROTA_OK;
}

void rota_cpu_program_destroy(rota_exec_device *base, rota_exec_program *program) {
    if (!program) return;
    rota_cpu_device *device = rota_cpu_device_of(base);
    pthread_mutex_lock(&device->objects.mutex);
    rota_link_remove(&program->link);
    pthread_mutex_unlock(&device->objects.mutex);
    free_program(program);
}

void rota_cpu_program_free_all(rota_cpu_device *device) {
    rota_link *list = &device->objects.programs;
    while (!rota_link_is_alone(list))
        rota_cpu_program_destroy(&device->base, ROTA_LINKED(list->next, rota_exec_program, link));
}
