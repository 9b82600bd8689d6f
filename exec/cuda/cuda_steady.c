/* Graphs whose kernels know what stays the same: a segment's kernels read what is in slots from its argument
 * block, until a word is steady (exec/common/steady.h); then the kernel nodes that read it are given its value.
 * When all are steady the node that brings the block to the device is switched off, too. */
#include "exec/cuda/cuda_steady.h"
#include "exec/cuda/cuda_arguments.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include <stdlib.h>

/* Rewriting a kernel node costs what reading costs it in two launches, and it may have to be rewritten back. At
 * one launch so few are that the submit thread stays ahead of a device that runs them. Measured on an H200
 * (driver 580), trivial kernels: reading a word costs one in a chain 0.28 us of device time, rewriting it 0.2 us
 * of CPU and as much again at the next launch. */
static const rota_steady_rules rules = {.patience = 2, .pays = 4, .readers_least = 64, .readers_share = 4};

/* ---- Who reads what ---- */

/* A kernel that is prepared for addresses is not rewritten, nor one of clusters, which an update of its node leaves
 * out, nor what is in bodies; library nodes have graphs by value. */
static bool can_follow(const rota_cuda_program *program, uint32_t segment) {
    const rota_exec_segment *about = &program->desc->segments[segment];
    if (!program->segments[segment].uses_block || program->segments[segment].has_variant ||
        program->segments[segment].roots)
        return false;
    for (uint32_t i = 0; i < about->command_count; i++) {
        const rota_cuda_dispatch *dispatch = &program->dispatches[about->first_command + i];
        const uint32_t *cluster = dispatch->launch.cluster;
        if ((dispatch->slot_mask | dispatch->bind_mask) &&
            (dispatch->kernel->cuda.prepare || cluster[0] * cluster[1] * cluster[2] > 1))
            return false;
    }
    return true;
}

rota_status rota_cuda_readers_create(rota_cuda_program *program) {
    const uint32_t count = program->desc->segment_count;
    program->readers = calloc(count + (size_t)1, sizeof *program->readers);
    if (!program->readers)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for program '%s'", program->desc->name);
    for (uint32_t s = 0; s < count; s++)
        if (can_follow(program, s))
            ROTA_TRY(rota_readers_create(program->desc, &program->desc->segments[s], &program->readers[s]));
    return ROTA_OK;
}

void rota_cuda_readers_free(rota_cuda_program *program) {
    for (uint32_t s = 0; program->readers && s < program->desc->segment_count; s++)
        rota_readers_free(&program->readers[s]);
    free(program->readers);
}

/* ---- A segment of an instance ---- */

rota_status rota_cuda_steady_create(const rota_cuda_program *program, uint32_t segment,
                                    rota_cuda_steady **out_steady) {
    const uint32_t count = program->desc->segments[segment].command_count;
    if (!program->readers[segment].first) return ROTA_OK;
    rota_cuda_steady *steady = calloc(1, sizeof *steady);
    if (!steady)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         program->desc->name);
    *out_steady = steady; /* freed with its instance from now on */
    steady->uploads = true;
    steady->kernels = calloc(count + (size_t)1, sizeof *steady->kernels);
    steady->stale = calloc(count + (size_t)1, sizeof *steady->stale);
    steady->is_stale = calloc(count + (size_t)1, sizeof *steady->is_stale);
    if (!steady->kernels || !steady->stale || !steady->is_stale)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         program->desc->name);
    return rota_steady_create(program->desc->block_words, program->readers[segment].first, &rules,
                              &steady->words);
}

/* The context is current; calls fail on a lost device, which holds nothing any more. */
void rota_cuda_steady_free(rota_cuda_device *device, rota_cuda_steady *steady) {
    if (!steady) return;
    if (steady->graph) (void)device->cu->GraphDestroy(steady->graph);
    rota_steady_free(&steady->words);
    free(steady->kernels);
    free(steady->stale);
    free(steady->is_stale);
    free(steady);
}

static uint32_t find_stale(rota_cuda_steady *steady, const rota_readers *readers) {
    uint32_t count = 0;
    for (uint32_t t = 0; t < steady->words.turned_count; t++) {
        const uint32_t word = steady->words.turned[t];
        for (uint32_t r = readers->first[word]; r < readers->first[word + 1]; r++) {
            const uint32_t position = readers->reader[r];
            if (steady->is_stale[position]) continue;
            steady->is_stale[position] = 1;
            steady->stale[count++] = position;
        }
    }
    return count;
}

static rota_status rewrite(rota_cuda_device *device, const rota_cuda_instance *instance, uint32_t segment,
                           uint32_t position) {
    const rota_cuda_segment_instance *own = &instance->segments[segment];
    const uint32_t command = instance->program->desc->segments[segment].first_command + position;
    const rota_cuda_dispatch *dispatch = &instance->program->dispatches[command];
    if (!own->steady->kernels[position]) return ROTA_OK; /* it has nothing to do */
    rota_cuda_arguments arguments;
    void *parameters[] = {&arguments};
    rota_cuda_arguments_fill(instance->program, command, instance->memories, own->block_address,
                             &own->steady->words, &arguments);
    const CUDA_KERNEL_NODE_PARAMS params =
        rota_cuda_node_params(dispatch->function, &dispatch->launch, parameters);
    CUresult result =
        device->cu->GraphExecKernelNodeSetParams(own->exec, own->steady->kernels[position], &params);
    return rota_cuda_check(device, result, "cuGraphExecKernelNodeSetParams");
}

rota_status rota_cuda_steady_follow(rota_cuda_device *device, const rota_cuda_instance *instance,
                                    uint32_t segment, const uint64_t *block) {
    const rota_cuda_segment_instance *own = &instance->segments[segment];
    rota_cuda_steady *steady = own->steady;
    rota_steady_look(&steady->words, block);
    if (steady->words.turned_count == 0) return ROTA_OK;
    const uint32_t count = find_stale(steady, &instance->program->readers[segment]);
    for (uint32_t i = 0; i < count; i++) {
        steady->is_stale[steady->stale[i]] = 0;
        ROTA_TRY(rewrite(device, instance, segment, steady->stale[i]));
    }
    const bool uploads = steady->words.loose_count > 0;
    if (uploads == steady->uploads) return ROTA_OK;
    steady->uploads = uploads;
    return rota_cuda_check(device, device->cu->GraphNodeSetEnabled(own->exec, steady->upload, uploads),
                           "cuGraphNodeSetEnabled");
}
