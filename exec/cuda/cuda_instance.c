/* Instances: the executable graphs of a program's segments with an instance's memories, its argument blocks,
 * and the graphs that hold for certain values only. */
#include "exec/cuda/cuda_instance.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_decide.h"
#include "exec/cuda/cuda_loops.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_graph.h"
#include "exec/cuda/cuda_steady.h"
#include "exec/cuda/cuda_times.h"
#include <stdlib.h>
#include <string.h>

static uint64_t block_bytes(const rota_exec_program_desc *desc, const rota_cuda_segment *segment) {
    const uint64_t words = (uint64_t)desc->block_words + segment->count_words;
    if (!segment->uses_block && !segment->count_words) return 0;
    return (words * 8 + 255) & ~(uint64_t)255;
}

/* ---- Variants ---- */

typedef void (*word_fn)(void *user, uint32_t word);

static void for_each_word_of(const rota_cuda_program *program, uint32_t first, uint32_t count, word_fn fn,
                             void *user) {
    const rota_exec_program_desc *desc = program->desc;
    for (uint32_t c = first; c < first + count; c++) {
        const rota_cuda_decision *decision = program->dispatches[c].decision;
        for (uint32_t b = 0; decision && b < decision->desc->body_count; b++)
            if (decision->bodies[b])
                for_each_word_of(decision->bodies[b], 0, decision->bodies[b]->desc->command_count, fn, user);
        if (program->dispatches[c].form != ROTA_CUDA_LIBRARY) continue;
        const rota_exec_command *command = &desc->commands[c];
        for (uint32_t i = 0; i < command->operand_count; i++)
            if (desc->operands[command->first_operand + i].is_slot)
                fn(user, desc->operands[command->first_operand + i].memory);
        for (uint32_t i = 0; i < command->binding_count; i++)
            fn(user, desc->bindings[command->first_binding + i].word);
    }
}

/* The words that the segment's library nodes take, in order, repeated as they repeat. */
static void for_each_word(const rota_cuda_program *program, uint32_t segment, word_fn fn, void *user) {
    const rota_exec_segment *about = &program->desc->segments[segment];
    for_each_word_of(program, about->first_command, about->command_count, fn, user);
}

typedef struct word_visit {
    const uint64_t *block;
    uint64_t *words;
    uint32_t count;
    bool differs;
} word_visit;

static void count_word(void *user, uint32_t word) {
    (void)word;
    ((word_visit *)user)->count++;
}
static void compare_word(void *user, uint32_t word) {
    word_visit *visit = user;
    if (visit->words[visit->count++] != visit->block[word]) visit->differs = true;
}
static void keep_word(void *user, uint32_t word) {
    word_visit *visit = user;
    visit->words[visit->count++] = visit->block[word];
}

static rota_status make_variants(const rota_cuda_program *program, uint32_t segment,
                                 rota_cuda_segment_instance *out) {
    word_visit visit = {0};
    for_each_word(program, segment, count_word, &visit);
    out->variants = calloc(ROTA_CUDA_VARIANTS, sizeof *out->variants);
    uint64_t *words = calloc((size_t)ROTA_CUDA_VARIANTS * visit.count, sizeof *words);
    if (!out->variants || !words) {
        free(words);
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         program->desc->name);
    }
    for (uint32_t v = 0; v < ROTA_CUDA_VARIANTS; v++)
        out->variants[v].words = words + (size_t)v * visit.count;
    return ROTA_OK;
}

static void free_variant(rota_cuda_device *device, rota_cuda_variant *variant) {
    if (variant->exec) (void)device->cu->GraphExecDestroy(variant->exec);
    rota_cuda_script_free(device, variant->script);
    variant->exec = NULL;
    variant->script = NULL;
}

rota_status rota_cuda_instance_exec(rota_cuda_device *device, rota_cuda_instance *instance, uint32_t segment,
                                    const uint64_t *block, CUgraphExec *out_exec,
                                    rota_cuda_script **out_script) {
    rota_cuda_segment_instance *own = &instance->segments[segment];
    *out_exec = own->exec;
    *out_script = own->script;
    if (own->steady && block) ROTA_TRY(rota_cuda_steady_follow(device, instance, segment, block));
    if (!own->variants) return ROTA_OK;
    rota_cuda_variant *oldest = &own->variants[0];
    instance->launches++;
    for (uint32_t v = 0; v < ROTA_CUDA_VARIANTS; v++) {
        rota_cuda_variant *variant = &own->variants[v];
        if (variant->used < oldest->used) oldest = variant;
        if (!variant->exec && !variant->script) continue;
        word_visit visit = {.block = block, .words = variant->words};
        for_each_word(instance->program, segment, compare_word, &visit);
        if (visit.differs) continue;
        variant->used = instance->launches;
        *out_exec = variant->exec;
        *out_script = variant->script;
        return ROTA_OK;
    }
    /* An instance with argument words is not in flight now, so that the one that makes room is not either
     * (P1). */
    free_variant(device, oldest);
    ROTA_TRY(rota_cuda_graph_build(device, instance, instance->memories, segment, block, &oldest->exec,
                                   &oldest->script));
    word_visit visit = {.block = block, .words = oldest->words};
    for_each_word(instance->program, segment, keep_word, &visit);
    oldest->used = instance->launches;
    *out_exec = oldest->exec;
    *out_script = oldest->script;
    return ROTA_OK;
}

/* ---- Instances ---- */

static rota_status make_blocks(rota_cuda_device *device, rota_cuda_instance *instance) {
    const rota_exec_program_desc *desc = instance->program->desc;
    const rota_cuda_segment *segments = instance->program->segments;
    uint64_t bytes = 0;
    if (instance->program->block_segments == 0) return ROTA_OK;
    if (desc->block_words)
        ROTA_TRY(rota_cuda_piece_take(device, &device->objects.pinned, 8 * (uint64_t)desc->block_words,
                                      &instance->host_block));
    for (uint32_t s = 0; s < desc->segment_count; s++) bytes += block_bytes(desc, &segments[s]);
    ROTA_TRY(rota_cuda_piece_take(device, &device->objects.blocks, bytes, &instance->device_block));
    uint64_t address = instance->device_block.address;
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        const uint64_t own = block_bytes(desc, &segments[s]);
        if (own) instance->segments[s].block_address = address;
        address += own;
    }
    return ROTA_OK;
}

static rota_status keep_memories(rota_cuda_instance *instance, rota_exec_memory *const *memories) {
    uint32_t count = instance->program->desc->memory_count;
    if (instance->memories) return ROTA_OK;
    instance->memories = calloc(count + 1, sizeof(rota_exec_memory *));
    if (!instance->memories)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         instance->program->desc->name);
    if (count) memcpy(instance->memories, memories, count * sizeof(rota_exec_memory *));
    return ROTA_OK;
}

static rota_status make_instance(rota_cuda_device *device, rota_cuda_instance *instance,
                                 rota_exec_memory *const *memories) {
    const rota_exec_program_desc *desc = instance->program->desc;
    instance->segments = calloc(desc->segment_count + 1, sizeof *instance->segments);
    if (!instance->segments)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         desc->name);
    instance->segment_count = desc->segment_count;
    ROTA_TRY(make_blocks(device, instance));
    if (device->options.diagnostics && desc->command_count)
        ROTA_TRY(rota_cuda_timestamps_create(device, instance));
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        if (desc->segments[s].command_count == 0) continue;
        ROTA_TRY(rota_cuda_loops_create(device, instance, s, &instance->segments[s].loops));
        if (instance->program->segments[s].has_variant) {
            ROTA_TRY(keep_memories(instance, memories));
            ROTA_TRY(make_variants(instance->program, s, &instance->segments[s]));
        } else {
            ROTA_TRY(rota_cuda_steady_create(instance->program, s, &instance->segments[s].steady));
            if (instance->segments[s].steady) ROTA_TRY(keep_memories(instance, memories));
            ROTA_TRY(rota_cuda_graph_build(device, instance, memories, s, NULL, &instance->segments[s].exec,
                                           &instance->segments[s].script));
        }
    }
    return ROTA_OK;
}

/* The context is current; calls fail on a lost device, which holds nothing any more. */
void rota_cuda_instance_free(rota_cuda_device *device, rota_cuda_instance *instance) {
    /* Its works are reported, and the completion thread is through with what it has; or the device is lost, which that
     * thread looks for with this lock before it looks at loops or goes on with a script, but may have found too early.
     * It is not held while anything is freed: the driver may keep who frees until the device has nothing to do, and a
     * loop that runs on it may end, or a script go on, by that thread alone. */
    pthread_mutex_lock(&device->stops.looks);
    pthread_mutex_unlock(&device->stops.looks);
    for (uint32_t s = 0; s < instance->segment_count; s++) {
        rota_cuda_segment_instance *segment = &instance->segments[s];
        if (segment->exec) (void)device->cu->GraphExecDestroy(segment->exec);
        rota_cuda_script_free(device, segment->script);
        rota_cuda_steady_free(device, segment->steady);
        rota_cuda_loops_free(device, segment->loops);
        if (!segment->variants) continue;
        for (uint32_t v = 0; v < ROTA_CUDA_VARIANTS; v++) free_variant(device, &segment->variants[v]);
        free(segment->variants[0].words);
        free(segment->variants);
    }
    rota_cuda_timestamps_destroy(device, instance);
    rota_cuda_piece_give(device, &device->objects.pinned, &instance->host_block);
    rota_cuda_piece_give(device, &device->objects.blocks, &instance->device_block);
    free(instance->segments);
    free(instance->memories);
    free(instance);
}

rota_status rota_cuda_instance_create(rota_exec_device *base, rota_exec_program *program,
                                      rota_exec_memory *const *memories, rota_exec_instance **out_instance) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    rota_cuda_instance *instance = calloc(1, sizeof *instance);
    if (!instance) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a plan instance");
    instance->program = (rota_cuda_program *)program;
    rota_status status = rota_cuda_enter(device);
    if (status != ROTA_OK) {
        free(instance);
        return status;
    }
    status = make_instance(device, instance, memories);
    if (status != ROTA_OK) rota_cuda_instance_free(device, instance);
    rota_cuda_leave(device);
    if (status != ROTA_OK)
        return rota_fail_context(status, "program '%s' on %s: ", ((rota_cuda_program *)program)->desc->name,
                                 base->info.id);
    pthread_mutex_lock(&device->objects.lock);
    rota_link_add(&device->objects.instances, &instance->link);
    pthread_mutex_unlock(&device->objects.lock);
    *out_instance = (rota_exec_instance *)instance;
    return ROTA_OK;
}

void rota_cuda_instance_destroy(rota_exec_device *base, rota_exec_instance *handle) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    rota_cuda_instance *instance = (rota_cuda_instance *)handle;
    if (!instance || ra_load_acquire(&device->noisy)) return; /* pairs with rota_cuda_give_up */
    bool entered = rota_cuda_push_to_free(device, "a plan's instance");
    pthread_mutex_lock(&device->objects.lock);
    if (entered)
        rota_link_remove(&instance->link);
    else
        instance->program = NULL; /* which goes now */
    pthread_mutex_unlock(&device->objects.lock);
    if (!entered) return;
    rota_cuda_instance_free(device, instance);
    rota_cuda_leave(device);
}
