/* Cutting segments into units: how much runs serially before workers have to talk to one another.
 *
 * A trivial kernel takes less time than handing it to another worker. So chains (one successor, which has no
 * other predecessor) are never parted, and chains are gathered until they are worth a handover. They are
 * gathered in a depth-first topological order and as contiguous pieces of it: all edges go forward in that
 * order, so edges between pieces go forward too and no cycle of units can arise. Large kernels whose items
 * may be split stand alone, and so do host functions that end later, commands that decide and whose bodies are worth
 * several workers, and joins, which are units without commands.
 *
 * What comes after such a function ends when something elsewhere does, so no unit may hold it together with what does
 * not come after that: each command has a *key*, which stands for the set of those functions that it comes after, and a
 * unit is of one key. Keys are a forest: a function's own is a child of the key of what it comes after, so a chain of
 * them, as a communicator's collectives are, is a path, and of two keys of a path the deeper stands for both. Where a
 * command comes after two that are of no path it gets a key of its own, a child of one of them. */
#include "exec/cpu/cluster.h"

#include <stdlib.h>
#include <string.h>

enum {
    SERIAL_NS = 20000,  /* a segment estimated below this runs on one worker: waking another costs as much */
    UNIT_MIN_NS = 4000, /* some ten times the cost of handing a unit over */
    UNIT_MAX_NS = 50000,
    UNITS_PER_WORKER = 64 /* of a long segment; more only add handovers */
};

/* With the parent far above, a power of two of generations or so, any ancestor is found in O(log n). */
typedef struct key {
    uint32_t parent, far, depth;
} key;

/* A successor, and how long the longest way from where it begins is. */
typedef struct way {
    uint64_t left_ns;
    uint32_t unit;
} way;

typedef struct cluster {
    rota_exec_program *program;
    const rota_exec_program_desc *desc;
    const rota_cpu_estimate *estimates;
    uint32_t *order;
    uint32_t order_count;
    uint32_t open; /* the unit that commands are gathered into; ROTA_CPU_NONE: none */
    uint64_t open_ns;
    uint32_t *follower; /* next command of the same chain, or ROTA_CPU_NONE */
    /* By command or join, numbered as in the description's edges. */
    uint32_t *remaining; /* predecessors of a chain's head not yet emitted */
    uint32_t *stack;     /* heads that are ready */
    uint32_t *unit_of;
    uint64_t *start_ns; /* length of the longest way to it */
    uint32_t *key;      /* what ends later and it comes after; 0: nothing does. NULL: nothing ends later */
    key *keys;          /* by key: 0, one a later command, one an edge at the most */
    uint32_t key_count, open_key;
    uint32_t *last_source; /* of each unit: the unit that listed it as a successor last */
    uint32_t *join_of;     /* of each unit: its join, or ROTA_CPU_NONE */
    uint64_t
        *left_ns; /* of each unit, where something ends later: length of the longest way from its beginning */
    way *ways;    /* room for a unit's successors */
    uint32_t successor_count;
} cluster;

static uint32_t add_unit(cluster *c, uint32_t state) {
    rota_cpu_unit *unit = &c->program->units[c->program->unit_count];
    *unit = (rota_cpu_unit){.first_record = c->order_count, .state = state};
    c->join_of[c->program->unit_count] = ROTA_CPU_NONE;
    return c->program->unit_count++;
}

static void emit(cluster *c, uint32_t unit, uint32_t command) {
    c->order[c->order_count++] = command;
    c->program->units[unit].record_count++;
    c->unit_of[command] = unit;
}

static void add_serial(cluster *c, const rota_exec_segment *segment) {
    uint32_t unit = add_unit(c, ROTA_CPU_NONE);
    for (uint32_t i = 0; i < segment->command_count; i++) emit(c, unit, segment->first_command + i);
    for (uint32_t i = 0; i < segment->join_count; i++)
        c->unit_of[c->desc->command_count + segment->first_join + i] = unit;
}

/* ---- What ends later ---- */

static uint32_t child_of(cluster *c, uint32_t parent) {
    key *keys = c->keys;
    const uint32_t far = keys[parent].far;
    const bool joins = keys[parent].depth - keys[far].depth == keys[far].depth - keys[keys[far].far].depth;
    keys[c->key_count] = (key){parent, joins ? keys[far].far : parent, keys[parent].depth + 1};
    return c->key_count++;
}

static bool is_above(const cluster *c, uint32_t upper, uint32_t lower) {
    const key *keys = c->keys;
    const uint32_t depth = keys[upper].depth;
    while (keys[lower].depth > depth)
        lower = keys[keys[lower].far].depth >= depth ? keys[lower].far : keys[lower].parent;
    return upper == lower;
}

/* All have key 0. False: no memory. */
static bool begin_keys(cluster *c, rota_arena *scratch, size_t nodes, size_t edges, size_t laters) {
    c->key = rota_arena_calloc(scratch, nodes * sizeof *c->key, 8);
    c->keys = rota_arena_alloc(scratch, (1 + laters + edges) * sizeof *c->keys, 8);
    c->left_ns = rota_arena_alloc(scratch, nodes * sizeof *c->left_ns, 8);
    c->ways = rota_arena_alloc(scratch, nodes * sizeof *c->ways, 8);
    if (!c->key || !c->keys || !c->left_ns || !c->ways) return false;
    c->keys[0] = (key){0, 0, 0};
    c->key_count = 1;
    return true;
}

/* `to` comes after what has this key, too. */
static void add_key(cluster *c, uint32_t to, uint32_t added) {
    const uint32_t own = c->key[to];
    if (own == added || is_above(c, added, own)) return;
    if (is_above(c, own, added))
        c->key[to] = added;
    else
        c->key[to] = child_of(c, own); /* of this one alone, and below `own` for good */
}

/* Of what comes after a command or join. */
static uint32_t key_behind(cluster *c, uint32_t node) {
    const bool later = node < c->desc->command_count && c->estimates[node].later;
    return later ? child_of(c, c->key[node]) : c->key[node];
}

/* ---- Serial segments ---- */

/* What comes after `from`, which ends at `finish`, starts no earlier; what joins pass it on when all is
 * known. has_keys: whether there are any. */
static inline __attribute__((always_inline)) void pass_on(cluster *c, uint32_t from, uint64_t finish,
                                                          bool has_keys) {
    const rota_exec_program_desc *desc = c->desc;
    uint32_t depth = 0, passed = has_keys ? key_behind(c, from) : 0;
    for (;;) {
        for (uint32_t e = desc->first_successor[from]; e < desc->first_successor[from + 1]; e++) {
            uint32_t to = desc->successor[e];
            if (c->start_ns[to] < finish) c->start_ns[to] = finish;
            if (has_keys && passed != c->key[to]) add_key(c, to, passed);
            if (to >= desc->command_count && --c->remaining[to] == 0) c->stack[depth++] = to;
        }
        if (depth == 0) return;
        from = c->stack[--depth];
        finish = c->start_ns[from];
        if (has_keys) passed = c->key[from];
    }
}

/* Whether one worker should run all of it. */
static bool is_serial(cluster *c, const rota_exec_segment *segment, uint32_t worker_count,
                      uint64_t *out_total_ns) {
    const rota_exec_program_desc *desc = c->desc;
    uint64_t total = 0, longest = 0;
    bool has_split = false, has_units = false;
    for (uint32_t i = 0; i < segment->join_count; i++) {
        uint32_t join = desc->command_count + segment->first_join + i;
        c->remaining[join] = desc->predecessor_count[join];
    }
    for (uint32_t i = segment->first_command; i < segment->first_command + segment->command_count; i++) {
        uint64_t finish = c->start_ns[i] + c->estimates[i].cost_ns;
        total += c->estimates[i].cost_ns;
        if (finish > longest) longest = finish;
        has_split |= c->estimates[i].split;
        has_units |= c->estimates[i].is_alone && !c->estimates[i].split;
        if (c->key) /* two loops, of which the usual one knows nothing of keys */
            pass_on(c, i, finish, true);
        else
            pass_on(c, i, finish, false);
    }
    *out_total_ns = total;
    if (has_units) return false;
    if (worker_count == 1 || total <= SERIAL_NS) return true;
    /* With less than a fifth of it off the longest way, handovers cost more than a second worker brings. */
    return !has_split && total - longest < total / 5;
}

static void find_chains(cluster *c, const rota_exec_segment *segment) {
    const rota_exec_program_desc *desc = c->desc;
    uint32_t begin = segment->first_command, end = begin + segment->command_count;
    for (uint32_t i = begin; i < end; i++) {
        c->remaining[i] = desc->predecessor_count[i];
        c->follower[i] = ROTA_CPU_NONE;
        uint32_t first = desc->first_successor[i];
        if (desc->first_successor[i + 1] - first != 1 || c->estimates[i].is_alone) continue;
        uint32_t next = desc->successor[first];
        if (next >= desc->command_count) continue;
        if (desc->predecessor_count[next] == 1 && !c->estimates[next].is_alone) c->follower[i] = next;
    }
    for (uint32_t i = 0; i < segment->join_count; i++) {
        uint32_t join = desc->command_count + segment->first_join + i;
        c->remaining[join] = desc->predecessor_count[join];
    }
}

/* All that it joins has been emitted. What comes after it must not get into the unit that some of that is in.
 */
static void emit_join(cluster *c, uint32_t join) {
    uint32_t unit = add_unit(c, ROTA_CPU_NONE);
    c->join_of[unit] = join;
    c->unit_of[join] = unit;
    c->open = ROTA_CPU_NONE;
}

/* Puts one chain into the open unit or a new one. Returns its last command. */
static uint32_t emit_chain(cluster *c, uint32_t head, uint64_t target_ns) {
    if (c->estimates[head].is_alone) {
        const rota_cpu_estimate *estimate = &c->estimates[head];
        const uint32_t unit =
            add_unit(c, estimate->split   ? c->program->split_count++
                        : estimate->later ? c->program->later_count++
                                          : c->program->conditionals[estimate->conditional].loop);
        emit(c, unit, head);
        c->program->units[unit].grain = estimate->grain;
        c->open = ROTA_CPU_NONE;
        return head;
    }
    uint64_t cost = 0;
    for (uint32_t i = head; i != ROTA_CPU_NONE; i = c->follower[i]) cost += c->estimates[i].cost_ns;
    const uint32_t own_key = c->key ? c->key[head] : 0;
    if (c->open == ROTA_CPU_NONE || c->open_ns + cost > target_ns || c->open_key != own_key) {
        c->open = add_unit(c, ROTA_CPU_NONE);
        c->open_ns = 0;
        c->open_key = own_key;
    }
    c->open_ns += cost;
    uint32_t last = head;
    for (uint32_t i = head; i != ROTA_CPU_NONE; i = c->follower[i]) {
        emit(c, c->open, i);
        last = i;
    }
    return last;
}

static void add_units(cluster *c, const rota_exec_segment *segment, uint64_t target_ns) {
    const rota_exec_program_desc *desc = c->desc;
    uint32_t begin = segment->first_command, end = begin + segment->command_count;
    uint32_t depth = 0;
    c->open = ROTA_CPU_NONE;
    /* Backwards, here and below, so that the earliest recorded comes off the stack first. */
    for (uint32_t i = end; i-- > begin;) {
        if (c->remaining[i] == 0) c->stack[depth++] = i;
    }
    while (depth != 0) {
        uint32_t last = c->stack[--depth];
        if (last >= desc->command_count)
            emit_join(c, last);
        else
            last = emit_chain(c, last, target_ns);
        for (uint32_t e = desc->first_successor[last + 1]; e-- > desc->first_successor[last];) {
            if (--c->remaining[desc->successor[e]] == 0) c->stack[depth++] = desc->successor[e];
        }
    }
}

/* Unit `u` comes before those of what comes after a command or join of it. */
static void link_node(cluster *c, uint32_t u, uint32_t node) {
    rota_exec_program *program = c->program;
    const rota_exec_program_desc *desc = c->desc;
    for (uint32_t e = desc->first_successor[node]; e < desc->first_successor[node + 1]; e++) {
        uint32_t to = c->unit_of[desc->successor[e]];
        if (to == u || c->last_source[to] == u) continue;
        c->last_source[to] = u;
        program->unit_successors[c->successor_count++] = to;
        program->units[to].predecessor_count++;
    }
}

static int shorter_first(const void *a, const void *b) {
    const way *x = a, *y = b;
    if (x->left_ns != y->left_ns) return x->left_ns < y->left_ns ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* Of the units that one makes ready a worker goes on with the first, and then takes the others from the last on, so
 * what comes first of them waits for all that those lead to, unless another worker steals it. What ends later, such as
 * a collective, is to begin early, so that much runs beside it: the shortest way, to a weight's gradient, comes before
 * the longest, through the layers before, however few workers there are; and the longest is what is stolen first. */
static void order_successors(cluster *c, const rota_cpu_segment *segment) {
    const rota_exec_program *program = c->program;
    for (uint32_t u = segment->first_unit + segment->unit_count; u-- > segment->first_unit;) {
        const rota_cpu_unit *unit = &program->units[u];
        uint32_t *successors = program->unit_successors + unit->first_successor;
        const uint32_t count = unit->successor_count;
        for (uint32_t i = 0; i < count; i++) c->ways[i] = (way){c->left_ns[successors[i]], successors[i]};
        qsort(c->ways, count, sizeof *c->ways, shorter_first);
        c->left_ns[u] = count ? c->ways[count - 1].left_ns : 0;
        for (uint32_t r = unit->first_record; r < unit->first_record + unit->record_count; r++)
            c->left_ns[u] += c->estimates[c->order[r]].cost_ns;
        if (count) successors[0] = c->ways[0].unit;
        for (uint32_t i = 1; i < count; i++) successors[i] = c->ways[count - i].unit;
    }
}

/* Edges between the segment's units, each once, and its roots and sinks. */
static void link_units(cluster *c, rota_cpu_segment *segment) {
    rota_exec_program *program = c->program;
    uint32_t end = segment->first_unit + segment->unit_count;
    for (uint32_t u = segment->first_unit; u < end; u++) {
        rota_cpu_unit *unit = &program->units[u];
        unit->first_successor = c->successor_count;
        if (c->join_of[u] != ROTA_CPU_NONE) link_node(c, u, c->join_of[u]);
        for (uint32_t r = unit->first_record; r < unit->first_record + unit->record_count; r++)
            link_node(c, u, c->order[r]);
        unit->successor_count = c->successor_count - unit->first_successor;
        segment->sink_count += unit->successor_count == 0;
    }
    for (uint32_t u = segment->first_unit; u < end; u++) {
        if (program->units[u].predecessor_count == 0)
            program->roots[segment->first_root + segment->root_count++] = u;
    }
    if (c->ways) order_successors(c, segment);
}

rota_status rota_cpu_cluster(rota_exec_program *program, const rota_cpu_estimate *estimates,
                             size_t later_count, uint32_t worker_count, uint32_t *out_order) {
    const rota_exec_program_desc *desc = program->desc;
    size_t commands = desc->command_count, nodes = commands + desc->join_count;
    size_t edges = commands ? desc->first_successor[nodes] : 0;
    rota_arena scratch = ROTA_ARENA_INIT;
    rota_status status = ROTA_OK;
    cluster c = {.program = program, .desc = desc, .estimates = estimates, .order = out_order};
    c.follower = rota_arena_alloc(&scratch, commands * sizeof *c.follower, 8);
    c.remaining = rota_arena_alloc(&scratch, nodes * sizeof *c.remaining, 8);
    c.stack = rota_arena_alloc(&scratch, nodes * sizeof *c.stack, 8);
    c.unit_of = rota_arena_alloc(&scratch, nodes * sizeof *c.unit_of, 8);
    c.last_source = rota_arena_alloc(&scratch, nodes * sizeof *c.last_source, 8);
    c.join_of = rota_arena_alloc(&scratch, nodes * sizeof *c.join_of, 8);
    c.start_ns = rota_arena_calloc(&scratch, nodes * sizeof *c.start_ns, 8);
    program->units = rota_arena_alloc(&program->arena, nodes * sizeof *program->units, 64);
    program->roots = rota_arena_alloc(&program->arena, nodes * sizeof *program->roots, 8);
    program->unit_successors = rota_arena_alloc(&program->arena, edges * sizeof *program->unit_successors, 8);
    program->segments =
        rota_arena_calloc(&program->arena, desc->segment_count * sizeof *program->segments, 8);
    if (!c.follower || !c.remaining || !c.stack || !c.unit_of || !c.last_source || !c.start_ns ||
        (later_count && !begin_keys(&c, &scratch, nodes, edges, later_count)) || !c.join_of ||
        !program->units || !program->roots || !program->unit_successors || !program->segments) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory to cut program '%s' of %u commands into units",
                           desc->name, desc->command_count);
        goto done;
    }
    memset(c.last_source, 0xff, nodes * sizeof *c.last_source);
    uint32_t root_count = 0;
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        const rota_exec_segment *from = &desc->segments[s];
        rota_cpu_segment *segment = &program->segments[s];
        segment->first_unit = program->unit_count;
        segment->first_root = root_count;
        segment->serial = true;
        if (from->command_count == 0) continue;
        uint64_t total_ns;
        segment->serial = is_serial(&c, from, worker_count, &total_ns);
        if (segment->serial) {
            add_serial(&c, from);
        } else {
            uint64_t target_ns = total_ns / ((uint64_t)worker_count * UNITS_PER_WORKER);
            if (target_ns < UNIT_MIN_NS) target_ns = UNIT_MIN_NS;
            if (target_ns > UNIT_MAX_NS) target_ns = UNIT_MAX_NS;
            find_chains(&c, from);
            add_units(&c, from, target_ns);
        }
        segment->unit_count = program->unit_count - segment->first_unit;
        link_units(&c, segment);
        root_count += segment->root_count;
        /* One unit needs no counters, unless it is split or ends later, or its bodies' units have some. */
        if (segment->unit_count == 1 && program->units[segment->first_unit].state == ROTA_CPU_NONE)
            segment->serial = true;
    }
done:
    rota_arena_free(&scratch);
    return status;
}
