/* Counted commands: sizes that are known when the commands before them have run.
 *
 *     count --count shader--> words of the command in the block --+-- groups --> vkCmdDispatchIndirect
 *      (a READ)                 value, excess, groups             +-- value ---> a parameter, as one in a slot
 *                                                                 +-- excess --> the host, when the work is complete
 *
 * Such a parameter is told where its word is, in the place of its value, as those in slots are (rota_kernel.glsl): so a
 * kernel has one form for all three. The words are the instance's, which is in flight once at a time where it has any
 * (exec_table.h); those of the argument block come from the host, these from the device alone. */
#include "exec/vk/vk_count.h"

#include <stdio.h>
#include <string.h>
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_record.h"
#include "spv/vk_count.h"

_Static_assert(sizeof(rota_vk_count_words) == 32, "as vk_count.comp has them");

const rota_kernel rota_vk_count_kernel = {
    .name = "count",
    .operand_count = 1,
    .param_bytes = sizeof(rota_vk_count_params),
    .vk = {.words = rota_spv_vk_count, .size_bytes = sizeof rota_spv_vk_count},
};

static uint32_t first_word(const rota_vk_program *program) {
    const uint32_t whole = ROTA_VK_COUNT_BLOCK_WORDS; /* each command's begin at a multiple of theirs */
    return (program->desc->block_words + whole - 1) / whole * whole;
}

uint32_t rota_vk_count_word(const rota_vk_program *program, uint32_t index) {
    return first_word(program) + index * (uint32_t)ROTA_VK_COUNT_BLOCK_WORDS;
}

uint32_t rota_vk_count_excess_word(const rota_vk_program *program, uint32_t segment) {
    return rota_vk_count_word(program, program->counts.count) + segment;
}

uint32_t rota_vk_count_block_words(const rota_vk_program *program) {
    if (program->counts.count == 0) return program->desc->block_words;
    return rota_vk_count_excess_word(program, program->desc->segment_count);
}

void rota_vk_count_clear(rota_vk_recorded *recorded) {
    const rota_vk_program *program = recorded->program;
    if (program->counts.count == 0) return;
    const uint32_t first = first_word(program);
    memset(recorded->block.words + first, 0, 8 * (size_t)(rota_vk_count_block_words(program) - first));
}

static void report(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t index, void *cookie) {
    const rota_vk_program *program = recorded->program;
    const rota_vk_count *count = &program->counts.list[index];
    rota_vk_count_words *words =
        (rota_vk_count_words *)(recorded->block.words + rota_vk_count_word(program, index));
    char message[128];
    if (words->excess == 0) return;
    (void)snprintf(message, sizeof message, "its count is %u, the most it may be is %u (rota_count.max)",
                   words->excess, count->params.max);
    if (device->host.failed)
        device->host.failed(device->host.user, cookie, program->desc->owner,
                            program->desc->commands[count->command].node, ROTA_NODE_FAILED, message);
}

void rota_vk_count_report(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment,
                          void *cookie) {
    const rota_vk_program *program = recorded->program;
    /* Written on the device, which has made it visible to the host at the segment's end. */
    volatile uint64_t *any = recorded->block.words + rota_vk_count_excess_word(program, segment);
    if (*any == 0) return;
    *any = 0; /* not in flight: for the next time */
    for (uint32_t i = program->counts.first[segment]; i < program->counts.first[segment + 1]; i++)
        report(device, recorded, i, cookie);
}
