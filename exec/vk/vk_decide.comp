/* One turn of a command that decides, or the end of its turns, for one of its bodies: whether the body is on, and how
 * many groups those of its commands have that stand before the first that is gone on with; none, where it is off. At
 * the end: whether what stands behind the command is on, and its groups likewise. See vk_decide.c. The words:
 * rota_vk_decision_words; the table: of each command rota_vk_decided_groups.
 *
 * What the turn before left is read from one of the two halves, and what this one leaves is written to the other: so
 * all groups of a dispatch read the same. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(2)     // the condition, and where the iteration's number goes
    uint64_t words;
    uint64_t outer;      // 0, or a word that is outer_value where what the command is in is on
    uint64_t over;       // a word that is not 0 once the outermost command has failed, or is to end
    uint64_t any_excess; // the segment's word
    uint64_t table;      // of the first of the commands
    uint64_t outer_busy; // END: the word of the command that this one is in the body of, or 0
    uint64_t iterations_max; // UINT64_MAX is without an end
    uint outer_value;
    uint kind;           // rota_conditional_kind
    uint body;           // 1 + its number
    uint body_count;
    uint commands;
    uint flags;
ROTA_KERNEL_END

const uint IF = 0u, WHILE = 1u, FOR = 2u;
const uint PARITY = 1u, FIRST = 2u, GOES_ON = 4u, END = 8u, HAS_INDEX = 16u; // rota_vk_decide_flags
const uint BEGINS = 2u; // of `live`: ROTA_VK_BEGINS
// rota_vk_decision_words: two turns of 8 words, then
const uint ON = 0u, FRESH = 1u, LIVE = 2u, ACTIVE = 3u, COUNT = 4u, BEGUN = 3u, TURN = 8u;
const uint BUSY = 16u, PASSED = 17u, EXCESS = 18u, FAILED = 19u, SO_FAR = 11u;

void main() {
    rota_u32 words = rota_u32(pc.words);
    rota_u64 longs = rota_u64(pc.words);
    uint now = (pc.flags & PARITY) * TURN, last = TURN - now;
    bool is_first = (pc.flags & FIRST) != 0u, goes_on = (pc.flags & GOES_ON) != 0u, is_end = (pc.flags & END) != 0u;
    bool is_over = rota_u32(pc.over).v[0] != 0u;
    bool is_in = pc.outer == 0ul || rota_u32(pc.outer).v[0] == pc.outer_value;
    uint value = rota_u32(rota_operand(0)).v[0];
    uint live = is_first && !goes_on ? 0u : words.v[last + LIVE];
    uint count = words.v[last + COUNT], body = words.v[last + ON];
    uint64_t begun = longs.v[last / 2u + BEGUN];
    bool waits = goes_on && pc.outer == 0ul; // the host says when it begins
    bool begins = is_first && !is_over && (waits ? live == BEGINS : live == 0u && is_in);
    bool was_live = live == 1u && !is_over;
    bool is_active = is_first ? begins || was_live : words.v[last + ACTIVE] != 0u;
    if (begins) {
        begun = 0ul;
        count = value;
    }
    bool is_fresh = begins || (was_live && !(body != 0u && words.v[BUSY] != 0u)), fails = false;
    uint on = was_live ? body : 0u; // whose commands are not over yet
    if (is_fresh && pc.kind == WHILE) {
        fails = value != 0u && begun == pc.iterations_max;
        on = value != 0u && !fails ? 1u : 0u;
    } else if (is_fresh && pc.kind == FOR) {
        fails = begins && uint64_t(value) > pc.iterations_max;
        on = !fails && begun < uint64_t(count) ? 1u : 0u;
    } else if (is_fresh && pc.kind == IF) {
        on = !begins ? 0u : value != 0u ? 1u : 2u;
    } else if (is_fresh) {
        on = begins && value < pc.body_count ? value + 1u : 0u;
    }
    uint fresh = is_fresh && !is_end ? on : 0u;
    bool has_passed = is_end && is_active && !is_over && !fails && on == 0u;
    if (gl_GlobalInvocationID.x == 0u) {
        words.v[now + ON] = is_end && is_fresh && on != 0u ? 0u : on; // the next turn begins an iteration, then
        words.v[now + FRESH] = fresh;
        words.v[now + LIVE] = on != 0u ? 1u : 0u;
        words.v[now + ACTIVE] = is_active ? 1u : 0u;
        words.v[now + COUNT] = count;
        longs.v[now / 2u + BEGUN] = fresh != 0u ? begun + 1ul : begun;
        if (begins) {
            words.v[BUSY] = 0u;
            longs.v[SO_FAR] = 0ul;
        }
        if (fresh != 0u) longs.v[SO_FAR] = begun + 1ul;
        if (fresh != 0u && (pc.flags & HAS_INDEX) != 0u) rota_u32(rota_operand(1)).v[0] = uint(begun);
        if (is_end) words.v[PASSED] = has_passed ? 1u : 0u;
        if (is_end && goes_on && is_active && pc.outer_busy != 0ul) rota_u32(pc.outer_busy).v[0] = on != 0u ? 1u : 0u;
        if (fails) {
            words.v[EXCESS] = value;
            words.v[FAILED] = 1u;
            rota_u32(pc.over).v[0] = 1u;
            rota_u32(pc.any_excess).v[0] = 1u;
        }
    }
    bool is_on = is_end ? has_passed : fresh == pc.body;
    rota_u32 table = rota_u32(pc.table);
    for (uint i = gl_GlobalInvocationID.x; i < pc.commands; i += gl_NumWorkGroups.x * 64u)
        for (uint axis = 0u; axis < 3u; axis++) table.v[i * 8u + 4u + axis] = is_on ? table.v[i * 8u + axis] : 0u;
}
