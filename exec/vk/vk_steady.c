/* Command buffers that know what stays the same: beside the one in which what is in slots is read from the
 * argument block, a segment has another, recorded when words have become steady (exec/common/steady.h), with
 * their values in the push constants. It is submitted as long as they are. */
#include "exec/vk/vk_steady.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_record.h"
#include <stdlib.h>

/* A whole segment is recorded anew, for 0.2 to 0.6 us a command, of which a launch then saves at most 0.2 us each
 * (H200, driver 580): so words are left alone for longer, and all that turn are waited for. */
static const rota_steady_rules rules = {
    .patience = 6, .pays = 16, .readers_least = UINT32_MAX, .readers_share = 1};
#define QUIET_LAUNCHES 2u

rota_status rota_vk_readers_create(rota_vk_program *program) {
    const rota_exec_program_desc *desc = program->desc;
    program->readers = calloc(desc->segment_count + (size_t)1, sizeof *program->readers);
    if (!program->readers)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for program '%s'", desc->name);
    for (uint32_t s = 0; s < desc->segment_count && desc->block_words; s++) {
        rota_readers *readers = &program->readers[s];
        /* Of what bodies read nobody keeps account. */
        if (program->decisions.first && program->decisions.first[s] != program->decisions.first[s + 1])
            continue;
        ROTA_TRY(rota_readers_create(desc, &desc->segments[s], readers));
        if (readers->first[desc->block_words] == 0) rota_readers_free(readers);
    }
    return ROTA_OK;
}

void rota_vk_readers_free(rota_vk_program *program) {
    for (uint32_t s = 0; program->readers && s < program->desc->segment_count; s++)
        rota_readers_free(&program->readers[s]);
    free(program->readers);
}

rota_status rota_vk_steady_create(rota_vk_recorded *recorded) {
    const rota_vk_program *program = recorded->program;
    const rota_exec_program_desc *desc = program->desc;
    recorded->steady = calloc(desc->segment_count + (size_t)1, sizeof *recorded->steady);
    if (!recorded->steady)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         desc->name);
    recorded->steady_count = desc->segment_count;
    for (uint32_t s = 0; s < desc->segment_count; s++)
        if (program->readers[s].first)
            ROTA_TRY(rota_steady_create(desc->block_words, program->readers[s].first, &rules,
                                        &recorded->steady[s].words));
    return ROTA_OK;
}

void rota_vk_steady_free(rota_vk_device *device, rota_vk_recorded *recorded) {
    for (uint32_t s = 0; recorded->steady && s < recorded->steady_count; s++) {
        rota_vk_steady *steady = &recorded->steady[s];
        rota_steady_free(&steady->words);
        if (steady->pool)
            device->vk.DestroyCommandPool(device->handle, steady->pool, device->application.allocator);
    }
    free(recorded->steady);
}

/* A pool for the one buffer, so that resetting it frees what the buffer had. */
static VkResult make_pool(rota_vk_device *device, const rota_vk_recorded *recorded, uint32_t segment,
                          rota_vk_steady *steady) {
    const VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex =
                                              device->reals[recorded->program->segment_real[segment]].family};
    if (steady->pool) return device->vk.ResetCommandPool(device->handle, steady->pool, 0);
    return device->vk.CreateCommandPool(device->handle, &info, device->application.allocator, &steady->pool);
}

/* Without memory the other buffer does. */
static void record(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment) {
    rota_vk_steady *steady = &recorded->steady[segment];
    steady->is_current =
        make_pool(device, recorded, segment, steady) == VK_SUCCESS &&
        rota_vk_record_steady(device, recorded, segment, steady->pool, &steady->buffer) == ROTA_OK;
    steady->is_given_up = !steady->is_current;
}

VkCommandBuffer rota_vk_steady_buffer(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment,
                                      const uint64_t *block) {
    rota_vk_steady *steady = recorded->steady ? &recorded->steady[segment] : NULL;
    if (!block || !steady || !steady->words.values || steady->is_given_up) return recorded->buffers[segment];
    rota_steady_look(&steady->words, block);
    if (steady->words.turned_count) {
        steady->turned = steady->words.launches;
        steady->is_current = false;
    }
    const bool is_quiet = steady->turned && steady->words.launches - steady->turned >= QUIET_LAUNCHES;
    if (!steady->is_current && is_quiet && steady->words.loose_count < steady->words.read_count)
        record(device, recorded, segment);
    return steady->is_current ? steady->buffer : recorded->buffers[segment];
}
