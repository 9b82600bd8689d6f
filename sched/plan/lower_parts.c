/* Lowering: the description that an executor gets of each part. */
#include "sched/plan/lower_parts.h"

#include <string.h>
#include "base/assert.h"

#include "sched/plan/names.h"

uint32_t rota_lower_pieces(const rota_compiler *c, uint32_t part) {
    uint32_t pieces = 0;
    for (uint32_t p = 0; p < part; p++) pieces += c->pieces.count[p];
    return pieces;
}

/* Operands name so many memories and words. */
static rota_status check_named(const rota_compiler *c, uint64_t count, const char *what) {
    if (count <= ROTA_EXEC_MEMORY_MAX) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_RANGE, "compile of graph '%s': %llu %s, at most %u", c->graph->name,
                     (unsigned long long)count, what, ROTA_EXEC_MEMORY_MAX);
}

rota_status rota_lower_write_parts(lowering *l) {
    rota_compiler *c = l->c;
    rota_plan *plan = c->plan;
    ROTA_TRY(check_named(c, l->words.count, "words of arguments"));
    plan->word_count = (uint32_t)l->words.count;
    plan->words = rota_arena_alloc(&plan->arena, sizeof *plan->words * (plan->word_count + 1u), 8);
    plan->partitions = rota_arena_calloc(&plan->arena, sizeof *plan->partitions * c->partitions.count, 8);
    if (!plan->words || !plan->partitions) return rota_compile_no_memory(c);
    if (plan->word_count) memcpy(plan->words, l->words.data, sizeof *plan->words * plan->word_count);
    plan->partition_count = c->partitions.count;
    for (uint32_t p = 0; p < c->partitions.count; p++) {
        part_builder *from = &l->parts[p];
        rota_partition *part = &plan->partitions[p];
        ROTA_TRY(check_named(c, from->memories.count, "memories of one device"));
        uint32_t memory_count = (uint32_t)from->memories.count;
        rota_plan_memory *memories =
            rota_arena_alloc(&plan->arena, sizeof *memories * (memory_count + 1u), 8);
        uint8_t *kinds = rota_arena_alloc(&plan->arena, memory_count + 1u, 1);
        if (!memories || !kinds) return rota_compile_no_memory(c);
        if (memory_count) memcpy(memories, from->memories.data, sizeof *memories * memory_count);
        for (uint32_t i = 0; i < memory_count; i++) kinds[i] = memories[i].kind;
        uint32_t highest_queue = 0;
        for (uint32_t i = 0; i < from->segment_count; i++) {
            uint32_t queue = from->segments[i].queue;
            part->values_per_queue[queue]++;
            if (queue > highest_queue) highest_queue = queue;
        }
        part->device = c->partitions.device[p] ? c->partitions.device[p]->device : NULL;
        part->memories = memories;
        part->plan = plan;
        part->memory_partition = c->partitions.memory[p];
        part->ends_later = from->ends_later;
        part->desc = (rota_exec_program_desc){.name = plan->name,
                                              .queue_count = highest_queue + 1,
                                              .command_count = from->command_count,
                                              .operand_count = (uint32_t)c->accesses.count,
                                              .binding_count = from->binding_count,
                                              .batch_count = from->batch_count,
                                              .segment_count = from->segment_count,
                                              .join_count = from->join_count,
                                              .memory_count = memory_count,
                                              .commands = from->commands,
                                              .operands = c->info->accesses,
                                              .bindings = from->bindings,
                                              .batches = from->batches,
                                              .segments = from->segments,
                                              .first_successor = from->first_successor,
                                              .successor = from->successor,
                                              .predecessor_count = from->predecessor_count,
                                              .block_words = plan->word_count,
                                              .memory_kind = kinds,
                                              .by_table = plan->options.deterministic,
                                              .owner = part};
    }
    plan->stats.devices = c->partitions.count;
    plan->stats.segments = plan->segment_count;
    plan->stats.commands = c->operations.count;
    plan->stats.accesses = c->accesses.count;
    return ROTA_OK;
}

/* Of a body, of which there may be thousands, in its arena. */
static rota_plan_physical *room_for_physicals(rota_compiler *c) {
    rota_vector *kept = &c->info->kept[ROTA_KEPT_PHYSICALS];
    const size_t bytes = sizeof(rota_plan_physical) * ((size_t)c->physicals.count + 1);
    if (c->graph->outer) return rota_arena_alloc(&c->plan->arena, bytes, 16);
    return kept->data = rota_chunk_alloc(bytes, &kept->usable_bytes);
}

rota_status rota_lower_keep_physicals(rota_compiler *c) {
    const uint32_t last_operation = (uint32_t)c->operations.count - 1;
    const rota_physical *from = ROTA_PHYSICALS(c);
    rota_plan_physical *to = c->info->physicals = room_for_physicals(c);
    if (!to) return rota_compile_no_memory(c);
    if (c->spread.several_parts) {
        uint32_t *buffers =
            rota_arena_alloc(&c->plan->arena, sizeof *buffers * ((size_t)c->physicals.count + 1), 8);
        if (!buffers) return rota_compile_no_memory(c);
        for (uint32_t i = 0; i < c->physicals.count; i++) buffers[i] = from[i].buffer;
        c->info->lookup.physical_buffer = buffers;
    }
    for (uint32_t i = 0; i < c->physicals.count; i++)
        to[i] = (rota_plan_physical){.offset_bytes = from[i].offset_bytes & ROTA_EXEC_OFFSET_MAX,
                                     .part = from[i].part,
                                     .packed = from[i].packed,
                                     .is_mirror = from[i].is_mirror,
                                     .is_inplace = from[i].inplace_of != ROTA_NONE,
                                     .handed_on = from[i].handed_on,
                                     .outlives = from[i].last_operation == last_operation};
    return ROTA_OK;
}

/* Frees a vector's elements, and keeps how many there were. */
static void drop_vector(rota_vector *vector) {
    const uint64_t count = vector->count;
    rota_vector_free(vector);
    vector->count = count;
}

void rota_lower_drop_physicals(rota_compiler *c) {
    if (c->spread.several_parts || c->memory.target) return;
    c->info->building = NULL;
    drop_vector(&c->physicals);
    if (ROTA_ASSERTIONS) return;
    c->info->access_physical = NULL;
    drop_vector(&c->access_physical);
}

void rota_lower_counted(const lowering *l, const rota_operation *operation, rota_exec_command *command) {
    const rota_node_record *record = operation->record;
    command->is_counted = true;
    const uint32_t n = (uint32_t)(operation - ROTA_OPERATIONS(l->c));
    l->c->plan->segments[rota_segment_of(l->c, n)].may_fail = true;
    if (record->kind == ROTA_NODE_COPY) {
        command->u.copy.unit_bytes = record->u.copy.unit_bytes;
        command->u.copy.count_max = record->u.copy.count_max;
        return;
    }
    const uint32_t *given = record->u.kernel.groups;
    command->u.kernel.items_per_group = given[0] ? given[0] : 1;
    command->u.kernel.count_bindable_plus_1 = given[1];
    command->u.kernel.count_max = record->u.kernel.count_max;
}

static bool runs_on_vk(const rota_kernel *kernel, uint32_t features) {
    return kernel->vk.words || ((features & ROTA_FEATURE_CUDA_IMAGES) && kernel->cuda.image);
}

rota_status rota_lower_find_kernel(const lowering *l, uint32_t n, const rota_kernel *kernel,
                                   const rota_device_traits *device) {
    bool there = device->kind == ROTA_EXEC_CPU ? kernel->cpu.fn != NULL
                 : device->kind == ROTA_EXEC_VK
                     ? runs_on_vk(kernel, device->features)
                     : kernel->cuda.image || kernel->cuda.call ||
                           rota_kernel_has_cuda_select(kernel); /* which the executor asks */
    if (there) return ROTA_OK;
    static const char *const forms[ROTA_EXEC_KIND_COUNT] = {"C function", "SPIR-V", "CUDA image"};
    return rota_fail(ROTA_UNSUPPORTED, "%s: kernel '%s' brings no %s, which device %s needs",
                     rota_operation_describe(l->c->plan, n), kernel->name, forms[device->kind], device->id);
}
