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

#include "exec/vk/vk_program.h"
#include "spv/vk_count.h"

_Static_assert(sizeof(rota_vk_count_words) == 32, "as vk_count.comp has them");

const rota_kernel rota_vk_count_kernel = {
    .name = "count",
    .operand_count = 1,
    .param_bytes = sizeof(rota_vk_count_params),
    .vk = {.words = rota_spv_vk_count, .size_bytes = sizeof rota_spv_vk_count},
};

uint32_t rota_vk_count_word(const rota_vk_program *program, uint32_t index) {
    return program->counts.word + index * (uint32_t)ROTA_VK_COUNT_BLOCK_WORDS;
}
