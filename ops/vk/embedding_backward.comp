/* rota_kernel_embedding_backward: a workgroup has every so many-th class, up to 32, since a vocabulary's first ones are
 * the most frequent, and walks over the index once for all of them:
 *
 *     index --1024 rows a turn--> listed: its classes' rows in order --an invocation a class--> sorted: by class
 *     sorted --> a class with few rows: a team's of 32 invocations, 8 columns each; of one with many a share is each
 *                team's, and the shares are added up
 *
 * Where the list has no room for all, that walk has counted them, and it walks again for as many classes at a time as
 * there is room for; for one with more rows than that by itself, and for each 256 columns. Each sum is rounded once. No
 * atomics on floats, and the same sums whatever the timing. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3) /* dy, index, dtable */
uint rows;
uint dim;
uint classes;
uint accumulate;
uint dtype;
uint first;
uint all;
ROTA_KERNEL_END

const uint CLASSES = 32u; /* dispatch.c: EMBEDDING_CLASSES */
const uint TEAM = 32u, TEAMS = 8u, COLUMNS = 8u * TEAM; /* of a pass over the sorted rows */
const uint TURN = 1024u, LISTED = 1536u, FEW = 256u;
const uint ROW_BITS = 27u; /* in an entry: the row, with its class above, which has 5 bits */

shared uint listed[TEAMS * COLUMNS]; /* of which LISTED are entries; then the teams' sums of a class, as bits */
shared uint sorted[LISTED];
shared uint hits[3][TURN / 32u], found[3]; /* of this turn, which of its rows are listed; the next one's are 0 */
shared uint of_class[CLASSES], begin_of[CLASSES];

uint shift_of(uint classes) { return classes <= CLASSES ? 0u : uint(findMSB((classes - 1u) / CLASSES)) + 1u; }

/* Which of the group's classes it is; of all others something larger: what is shifted out below comes back on top. */
uint own_class(uint given, uint group, uint shift) {
    const uint beyond = given - pc.first - group;
    return shift == 0u ? beyond : beyond >> shift | beyond << (32u - shift);
}

/* Whose rows a walk lists: the group's classes [from, to). */
struct walk {
    uint group, shift, from, to;
    bool counts; /* in of_class, too */
    bool alone;  /* of one class: entries are rows */
    bool whole;  /* the index is read by vectors */
};

void begin_walk() {
    const uint t = gl_LocalInvocationIndex;
    barrier();
    if (t < TURN / 32u) hits[0][t] = hits[1][t] = hits[2][t] = 0u;
    if (t < 3u) found[t] = 0u;
    barrier();
}

/* Lists those of the turn's rows, four an invocation, that the walk is for, behind `count` others, as far as there is
 * room; how many there were. */
uint list_rows(walk w, uint turn, uint count) {
    const uint t = gl_LocalInvocationIndex, slot = turn % 3u, row = turn * TURN + 4u * t;
    const uint64_t index = rota_operand(1);
    uvec4 own = uvec4(0xFFFFFFFFu);
    uint mask = 0u;
    if (row < pc.rows && row >= turn * TURN) {
        if (w.whole && pc.rows - row >= 4u) {
            const uvec4 given = rota_uvec4(element_at(index, row)).v[0];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) own[j] = own_class(given[j], w.group, w.shift);
        } else {
            [[unroll]] for (uint j = 0u; j < 4u; ++j)
                if (j < pc.rows - row) own[j] = own_class(uint(load_i32(index, row + j)), w.group, w.shift);
        }
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if (own[j] >= w.from && own[j] < w.to) mask |= 1u << j;
    }
    if (mask != 0u) {
        atomicOr(hits[slot][t / 8u], mask << (t % 8u * 4u));
        atomicAdd(found[slot], uint(bitCount(mask)));
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if (w.counts && (mask & 1u << j) != 0u) atomicAdd(of_class[own[j]], 1u);
    }
    barrier();
    const uint after = (turn + 2u) % 3u; /* was the last turn's, which all are beyond */
    if (t < TURN / 32u) hits[after][t] = 0u;
    if (t == 0u) found[after] = 0u;
    if (mask != 0u) {
        uint next = count + uint(bitCount(hits[slot][t / 8u] & ((1u << (t % 8u * 4u)) - 1u)));
        for (uint word = 0u; word < t / 8u; word += 8u)
            [[unroll]] for (uint ahead = 0u; ahead < 8u; ++ahead)
                if (word + ahead < t / 8u) next += uint(bitCount(hits[slot][word + ahead]));
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            if ((mask & 1u << j) == 0u) continue;
            if (next < LISTED) listed[next] = w.alone ? row + j : own[j] << ROW_BITS | (row + j);
            ++next;
        }
    }
    return found[slot];
}

/* All rows of the walk; where there are more than LISTED the list has the first ones. */
uint walk_all(walk w) {
    uint count = 0u;
    begin_walk();
    for (uint turn = 0u, turns = (pc.rows - 1u) / TURN + 1u; turn < turns; ++turn) count += list_rows(w, turn, count);
    barrier();
    return count;
}

/* The listed rows by class, each class's in order. */
void sort_rows(walk w, uint count) {
    const uint t = gl_LocalInvocationIndex;
    if (t >= w.from && t < w.to) {
        uint next = 0u;
        for (uint before = w.from; before < t; before += 8u)
            [[unroll]] for (uint ahead = 0u; ahead < 8u; ++ahead)
                if (before + ahead < t) next += of_class[before + ahead];
        begin_of[t] = next;
        if (of_class[t] != 0u)
            for (uint i = 0u; i < count; i += 16u)
                [[unroll]] for (uint ahead = 0u; ahead < 16u; ++ahead)
                    if (i + ahead < count && listed[i + ahead] >> ROW_BITS == t)
                        sorted[next++] = listed[i + ahead] & ((1u << ROW_BITS) - 1u);
    }
    barrier();
}

/* The total with the sorted rows [begin, end), eight loads on their way together. */
value8 add_rows(value8 total, uint begin, uint end, uint column, bool whole) {
    for (uint i = begin; i < end; i += 8u) {
        value8 row[8];
        [[unroll]] for (uint ahead = 0u; ahead < 8u; ++ahead) {
            row[ahead] = value8(vec4(0.0), vec4(0.0));
            if (i + ahead >= end) continue;
            const uint64_t dy = value_at(rota_operand(0), uint64_t(sorted[i + ahead]) * pc.dim);
            row[ahead] = get8(dy, column, pc.dim, whole);
        }
        [[unroll]] for (uint ahead = 0u; ahead < 8u; ++ahead) {
            total.low += row[ahead].low;
            total.high += row[ahead].high;
        }
    }
    return total;
}

uint64_t table_row(uint group, uint shift, uint own) {
    return value_at(rota_operand(2), uint64_t(group + (own << shift)) * pc.dim);
}

void add_class_of_few(walk w, uint own, uint column, bool whole) {
    const uint count = of_class[own];
    if (column >= pc.dim || count > FEW || (count == 0u && pc.accumulate != 0u)) return;
    const uint64_t dtable = table_row(w.group, w.shift, own);
    value8 total = value8(vec4(0.0), vec4(0.0));
    if (pc.accumulate != 0u) total = get8(dtable, column, pc.dim, whole);
    total = add_rows(total, begin_of[own], begin_of[own] + count, column, whole);
    put8(dtable, column, pc.dim, whole, total);
}

/* What the teams have of a class, into the table. All invocations of the workgroup come here together. */
void put_shares(walk w, uint own, uint column0, value8 share) {
    const uint t = gl_LocalInvocationIndex, team = t / TEAM, lane = t % TEAM;
    barrier();
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        listed[team * COLUMNS + j * TEAM + lane] = floatBitsToUint(share.low[j]);
        listed[team * COLUMNS + (4u + j) * TEAM + lane] = floatBitsToUint(share.high[j]);
    }
    barrier();
    const uint column = column0 + 8u * lane + team;
    if (column >= pc.dim) return;
    const uint64_t dtable = table_row(w.group, w.shift, own);
    float total = pc.accumulate == 0u ? 0.0 : get(dtable, column);
    [[unroll]] for (uint of_team = 0u; of_team < TEAMS; ++of_team)
        total += uintBitsToFloat(listed[of_team * COLUMNS + t]);
    put(dtable, column, total);
}

/* The team's share of the sorted rows [begin, begin + count). */
value8 add_share(value8 share, uint begin, uint count, uint column, bool whole) {
    const uint team = gl_LocalInvocationIndex / TEAM;
    if (column >= pc.dim) return share;
    return add_rows(share, begin + count * team / TEAMS, begin + count * (team + 1u) / TEAMS, column, whole);
}

void add_sorted(walk w, bool whole) {
    const uint team = gl_LocalInvocationIndex / TEAM, lane = gl_LocalInvocationIndex % TEAM;
    for (uint column0 = 0u; column0 < pc.dim; column0 += COLUMNS) {
        const uint column = column0 + 8u * lane;
        for (uint own = w.from + team; own < w.to; own += TEAMS) add_class_of_few(w, own, column, whole);
        for (uint own = w.from; own < w.to; ++own)
            if (of_class[own] > FEW)
                put_shares(w, own, column0,
                           add_share(value8(vec4(0.0), vec4(0.0)), begin_of[own], of_class[own], column, whole));
    }
}

/* Of one class with more rows than the list has room for. */
void add_long(walk w, bool whole) {
    const uint t = gl_LocalInvocationIndex, turns = (pc.rows - 1u) / TURN + 1u;
    for (uint column0 = 0u; column0 < pc.dim; column0 += COLUMNS) {
        value8 share = value8(vec4(0.0), vec4(0.0));
        uint count = 0u;
        begin_walk();
        for (uint turn = 0u; turn < turns; ++turn) {
            count += list_rows(w, turn, count);
            if (count <= LISTED - TURN && turn + 1u < turns) continue;
            barrier();
            [[unroll]] for (uint i = 0u; i < LISTED; i += 256u)
                if (i + t < count) sorted[i + t] = listed[i + t];
            barrier();
            share = add_share(share, 0u, count, column0 + 8u * (t % TEAM), whole);
            count = 0u;
        }
        put_shares(w, w.from, column0, share);
    }
}

void main() {
    const uint group = rota_group_index(), t = gl_LocalInvocationIndex, shift = shift_of(pc.classes);
    if (group >= min(1u << shift, pc.classes)) return;
    const uint own_count = ((pc.classes - 1u - group) >> shift) + 1u;
    const bool whole = pc.dim % 8u == 0u && values_aligned_8(rota_operand(0) | rota_operand(2));
    const bool fits = pc.rows <= 1u << ROW_BITS;
    walk w = walk(group, shift, 0u, own_count, true, false, aligned16(rota_operand(1)));
    if (t < CLASSES) of_class[t] = 0u;
    const uint count = walk_all(w);
    if (count <= LISTED && fits) {
        sort_rows(w, count);
        add_sorted(w, whole);
        return;
    }
    w.counts = false;
    for (w.from = 0u; w.from < own_count; w.from = w.to) {
        uint most = of_class[w.from];
        w.to = w.from + 1u;
        w.alone = most > LISTED || !fits;
        if (w.alone) {
            add_long(w, whole);
            continue;
        }
        while (w.to < own_count && most + of_class[w.to] <= LISTED) most += of_class[w.to++];
        sort_rows(w, walk_all(w));
        add_sorted(w, whole);
    }
}
