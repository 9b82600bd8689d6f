/* Which command a hung or lost device is at, from the timestamps that cuda_times.c describes: they are read
 * without a call of the driver, so also while a loss is made known. */
#include "exec/cuda/cuda_running.h"
#include "exec/cuda/cuda_loops.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_times.h"

/* A command that began and did not end; commands have several lanes, so the first found is taken. */
static bool running_command(const rota_cuda_instance *instance, uint32_t *out_command) {
    for (uint32_t c = 0; instance->timestamps && c < instance->program->desc->command_count; c++) {
        if (!rota_cuda_timestamp_at(instance->timestamps, 2 * (uint64_t)c) ||
            rota_cuda_timestamp_at(instance->timestamps, 2 * (uint64_t)c + 1))
            continue;
        *out_command = c;
        return true;
    }
    return false;
}

bool rota_cuda_stuck_node(rota_exec_device *base, rota_exec_instance *handle, rota_exec_stuck *out_stuck) {
    (void)base;
    const rota_cuda_instance *instance = (const rota_cuda_instance *)handle;
    uint32_t command;
    if (!running_command(instance, &command)) return false;
    out_stuck->node = instance->program->desc->commands[command].node;
    for (uint32_t s = 0; s < instance->segment_count && out_stuck->iterations == 0; s++)
        out_stuck->iterations = rota_cuda_loops_progress(instance->segments[s].loops, command);
    return true;
}

const char *rota_cuda_running_node(rota_cuda_device *device) {
    const char *name = NULL;
    if (!device->options.diagnostics || !device->host.node_name) return NULL;
    /* Whoever found the loss may hold the lock; then the name is not worth waiting for. */
    if (pthread_mutex_trylock(&device->objects.lock) != 0) return NULL;
    for (rota_link *link = device->objects.instances.next; link != &device->objects.instances && !name;
         link = link->next) {
        const rota_cuda_instance *instance = ROTA_LINKED(link, rota_cuda_instance, link);
        uint32_t command;
        if (instance->program && running_command(instance, &command))
            name = device->host.node_name(instance->program->desc->owner,
                                          instance->program->desc->commands[command].node);
    }
    pthread_mutex_unlock(&device->objects.lock);
    return name;
}
