/* Before a counted command: what its indirect dispatch reads, and what it reads itself, made of the count, which is
 * operand 0. One that is too high is noted, and nothing is dispatched. The words: rota_vk_count_words. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 1) in;

ROTA_KERNEL_BEGIN(1)
    uint64_t words;      // of this command
    uint64_t any_excess; // the segment's word
    uint64_t unit;       // the value is that many for each that is counted
    uint64_t per_group;  // of the value
    uint64_t on;         // in a body: a word that is on_value where it is on; else 0
    uint64_t over;       // in a body: a word that is not 0 once the command that it is of has failed
    uint max;
    uint groups_max;
    uint groups_y;
    uint groups_z;
    uint on_value;
    uint reserved;
ROTA_KERNEL_END

void main() {
    uint count = rota_u32(rota_operand(0)).v[0];
    bool is_on = pc.on == 0ul || (rota_u32(pc.on).v[0] == pc.on_value && rota_u32(pc.over).v[0] == 0u);
    bool is_excess = is_on && count > pc.max;
    uint64_t value = is_excess || !is_on ? 0ul : uint64_t(count) * pc.unit;
    uint64_t groups = value == 0ul ? 0ul : (value - 1ul) / pc.per_group + 1ul; // one division: 64 bits are in software
    rota_u64(pc.words).v[0] = value;
    rota_u32 words = rota_u32(pc.words);
    if (is_on) words.v[2] = is_excess ? count : 0u;
    words.v[4] = uint(min(groups, uint64_t(pc.groups_max)));
    words.v[5] = pc.groups_y;
    words.v[6] = pc.groups_z;
    if (!is_excess) return;
    rota_u32(pc.any_excess).v[0] = 1u;
    if (pc.on != 0ul) rota_u32(pc.over).v[0] = 1u;
}
