/* Before a body of a command that decides: whether it is on, which is so of one body and iteration at most, and how
 * many groups each of its commands has then; none, where it is off. The words: rota_vk_decision_words; the table: of
 * each command rota_vk_decided_groups. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(2)     // the condition, and where the iteration's number goes
    uint64_t words;
    uint64_t outer;      // 0, or a word that is outer_value where the body that this is in is on
    uint64_t over;       // a word that is not 0 once the outermost command has failed
    uint64_t any_excess; // the segment's word
    uint64_t table;
    uint outer_value;
    uint kind;           // rota_conditional_kind
    uint iteration;
    uint iterations_max; // UINT32_MAX is without an end
    uint body;           // 1 + its number
    uint body_count;
    uint commands;       // of the body; 0: it is only seen whether there were too many iterations
    uint has_index;
ROTA_KERNEL_END

const uint IF = 0u, WHILE = 1u, FOR = 2u;

void main() {
    rota_u32 words = rota_u32(pc.words);
    uint it = pc.iteration, value = rota_u32(rota_operand(0)).v[0], on = 0u;
    bool is_over = rota_u32(pc.over).v[0] != 0u, fails = false;
    bool may_be = !is_over && (pc.outer == 0ul || rota_u32(pc.outer).v[0] == pc.outer_value);
    if (pc.kind == IF) {
        on = value != 0u ? 1u : 2u;
    } else if (pc.kind == WHILE) {
        bool goes_on = value != 0u && (it == 0u || words.v[(it - 1u) & 1u] != 0u);
        fails = goes_on && it == pc.iterations_max;
        on = goes_on && !fails ? 1u : 0u;
    } else if (pc.kind == FOR) {
        uint count = it == 0u ? value : words.v[2];
        fails = it == 0u && value > pc.iterations_max;
        on = !fails && it < count ? 1u : 0u;
    } else {
        on = value < pc.body_count ? value + 1u : 0u;
    }
    if (!may_be) {
        on = 0u;
        fails = false;
    }
    if (gl_GlobalInvocationID.x == 0u) {
        words.v[it & 1u] = on;
        if (it == 0u) words.v[2] = fails ? 0u : value;
        if (!is_over && it == 0u) words.v[3] = 0u;
        if (on != 0u) words.v[3] = it + 1u;
        if (on != 0u && pc.has_index != 0u) rota_u32(rota_operand(1)).v[0] = it;
        if (fails) {
            words.v[4] = value;
            words.v[5] = 1u;
            rota_u32(pc.over).v[0] = 1u;
            rota_u32(pc.any_excess).v[0] = 1u;
        }
    }
    bool is_on = on == pc.body;
    rota_u32 table = rota_u32(pc.table);
    for (uint i = gl_GlobalInvocationID.x; i < pc.commands; i += gl_NumWorkGroups.x * 64u)
        for (uint axis = 0u; axis < 3u; axis++) table.v[i * 8u + 4u + axis] = is_on ? table.v[i * 8u + axis] : 0u;
}
