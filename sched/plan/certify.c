/* The certificate: an independent look at what compiling made. It shares no code and no intermediate result
 * with the steps that find hazards, pack memory, cut segments and lower: it reads the graph's records and
 * what executors get.
 *
 * An operation's number is its place in record order, which every command carries. Then:
 *   shape    every operation has one command, in one batch of one segment; segments are handed over in an
 * order in which each waits only for earlier ones; the last one is reached after all others. order    what is
 * complete when a segment starts, as how far each queue's timeline is (waits are cumulative along a queue,
 * and so is what a queue's value stands for): exact. Inside a segment by batches: exact. By edges: an edge,
 *            or a bounded vector clock over chains, or else a search backwards: exact.
 *   accesses each command's operands are the record's accesses, each buffer at one place. Operations are gone
 * through in record order; a buffer that is touched in several ranges has a tree over them, each of whose
 * nodes knows who touched all of it, and who some of it, since it was last overwritten. Each access must come
 * after those that it conflicts with. Where many meet many, each set is proved against an operation at once:
 * by its last commands on each queue, and by a command or join that was found to come after all of it.
 *   tenants  a buffer that first uses memory which others had comes after all uses of those, which end there.
 * Where that is not so each pair is looked at, since the other order is as good. outside  what a segment
 * touches of buffers that outlive the plan is in its externals. */
#include "sched/plan/certify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/buffer_internal.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"

enum { CLOCK_ENTRIES = 6, CROWD_AT = 64, WITNESSES = 4, HOPS = 16 };

/* What comes before a node inside its segment, as far as remembered: of each chain the last. */
typedef struct chain_clock {
    uint32_t chain[CLOCK_ENTRIES], latest[CLOCK_ENTRIES]; /* latest: place in the topological order */
    uint32_t count;
} chain_clock;

/* The last of a set's operations on a queue. */
typedef struct last_on_queue {
    uint32_t timeline;
    uint32_t segment, batch; /* of the latest */
    uint32_t earlier;        /* ordinal of the segment before that has one; 0: none */
} last_on_queue;

/* What is known of a long list. */
typedef struct crowd {
    uint32_t summed; /* of its operations, the oldest, are in `last` */
    uint32_t last_count, last_capacity;
    last_on_queue *last;
    uint32_t witness[WITNESSES]; /* nodes that come after the oldest `covered` of those in their segment */
    uint32_t covered[WITNESSES];
    uint32_t next_witness;
} crowd;

/* Operations, newest first: a list of links. */
typedef struct op_list {
    uint32_t head, count;
    uint32_t crowd; /* plus 1 */
} op_list;

typedef struct op_link {
    uint32_t operation, next;
} op_link;

typedef enum use_kind { USE_READ, USE_ADD, USE_WRITE, USE_KINDS } use_kind;

/* Who touched a range since it was last overwritten: all of it, and parts of it. */
typedef struct range_uses {
    op_list whole[USE_KINDS], part[USE_KINDS];
    uint32_t written; /* the last operation that overwrote all of it, plus 1 */
} range_uses;

/* A buffer in one memory. */
typedef struct instance {
    uint64_t space;
    const rota_buffer *buffer; /* NULL: memory that is told apart by bytes only */
    uint64_t base;             /* of byte 0 in the memory */
    uint64_t low, high;        /* bytes of the memory that are used */
    uint32_t next;             /* with the same hash, plus 1 */
    uint32_t arena;            /* that it is in, with a buffer */
    uint32_t tree;             /* first of its range_uses */
    uint32_t leaves;           /* 1: always the same range */
    uint32_t first_point;      /* leaves + 1 in points */
    uint32_t access_count;
    uint32_t predecessors;  /* list of links: instances that had its memory before */
    uint32_t first_checked; /* the first use, plus 1, which comes after all of those; 0: none yet */
    uint32_t part;          /* that uses it; ROTA_NONE: several */
    bool has_base, replaced;
} instance;

/* Memory that several buffers share: who has which bytes now. A tree over the ends of their ranges. */
typedef struct arena_space {
    uint64_t space;
    uint32_t first_end, leaves;
    uint32_t tree; /* in tenant: instance plus 1; 0: nobody; ROTA_NONE: several */
} arena_space;

typedef struct certifier {
    const rota_plan *plan;
    const rota_compile_info *info;
    rota_arena arena;
    uint32_t operations;
    /* Order between segments */
    uint32_t timelines, timeline_of_queue[UINT8_MAX + 1][ROTA_EXEC_QUEUES_MAX];
    uint32_t *segment_timeline;
    uint32_t *start; /* segments x timelines: ordinals that are complete when the segment starts */
    /* By operation */
    uint32_t *node, *segment, *batch;
    /* Commands and joins of all parts */
    uint32_t node_count, *part_first;
    uint32_t *node_segment, *first_predecessor, *predecessor, *place, *chain;
    chain_clock *clock;
    uint32_t *is_before; /* node + 1 for which a node is a direct predecessor */
    uint32_t *visited, visit, *stack;
    /* Accesses */
    uint32_t *instance_of; /* by operand, as info->accesses has them */
    rota_vector instances, links, crowds, arenas;
    uint32_t *instance_hash, hash_mask;
    uint64_t *points; /* of buffers */
    range_uses *ranges;
    uint64_t *ends; /* of arenas */
    uint32_t *tenant;
    uint64_t *reaches[2]; /* by external, for READ and WRITE */
    bool out_of_order; /* some buffer is not after one that had its memory */
    /* The access at hand, for messages. */
    const char *at_buffer;
    uint64_t at_low, at_high;
} certifier;

#define INSTANCES(c) ((instance *)(c)->instances.data)
#define LINKS(c) ((op_link *)(c)->links.data)
#define CROWDS(c) ((crowd *)(c)->crowds.data)

static rota_status no_memory(const certifier *c) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "certificate of plan '%s': no host memory", c->plan->name);
}

__attribute__((format(printf, 2, 3))) static rota_status wrong(const certifier *c, const char *format, ...) {
    char text[640];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rota_fail(ROTA_INTERNAL, "plan '%s' is wrong: %s", c->plan->name, text);
}

static rota_status unordered(const certifier *c, uint32_t earlier, uint32_t later, const char *why,
                             bool by_edges) {
    char first[256];
    (void)snprintf(first, sizeof first, "%s", rota_operation_describe(c->plan, earlier));
    return wrong(c, "%s does not come before %s by %s: %s, bytes [%llu, %llu) of '%s'", first,
                 rota_operation_describe(c->plan, later),
                 c->segment[earlier] != c->segment[later] ? "waits"
                 : by_edges                               ? "edges"
                                                          : "batches",
                 why, (unsigned long long)c->at_low, (unsigned long long)c->at_high, c->at_buffer);
}

/* ---- Shape ---- */

static rota_status number_timelines(certifier *c) {
    const rota_plan *plan = c->plan;
    memset(c->timeline_of_queue, 0xff, sizeof c->timeline_of_queue);
    c->segment_timeline = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (plan->segment_count + 1u), 8);
    if (!c->segment_timeline) return no_memory(c);
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        if (segment->part >= plan->part_count || segment->queue >= ROTA_EXEC_QUEUES_MAX)
            return wrong(c, "segment %u is on queue %u of device %u", s, segment->queue, segment->part);
        uint32_t *timeline = &c->timeline_of_queue[segment->part][segment->queue];
        if (*timeline == ROTA_NONE) *timeline = c->timelines++;
        c->segment_timeline[s] = *timeline;
    }
    return ROTA_OK;
}

/* Commands of a segment: batch after batch, each operation once. */
static rota_status read_segment(certifier *c, uint32_t s) {
    const rota_plan_segment *segment = &c->plan->segments[s];
    const rota_exec_program_desc *desc = &c->plan->parts[segment->part].desc;
    if (segment->index >= desc->segment_count)
        return wrong(c, "segment %u has no part %u", s, segment->index);
    const rota_exec_segment *lowered = &desc->segments[segment->index];
    if (lowered->queue != segment->queue)
        return wrong(c, "segment %u is on queue %u and runs on queue %u", s, segment->queue, lowered->queue);
    uint32_t next = lowered->first_command;
    for (uint32_t b = 0; b < lowered->batch_count; b++) {
        if (lowered->first_batch + b >= desc->batch_count)
            return wrong(c, "segment %u has no batch %u", s, b);
        const rota_exec_batch *batch = &desc->batches[lowered->first_batch + b];
        if (batch->first_command != next || batch->command_count > desc->command_count - next)
            return wrong(c, "batch %u of segment %u is out of place", b, s);
        for (uint32_t i = 0; i < batch->command_count; i++, next++) {
            const uint32_t n = desc->commands[next].node, node = c->part_first[segment->part] + next;
            if (n >= c->operations || c->node[n] != ROTA_NONE)
                return wrong(c, "command %u of device %u is of operation %u, %s", next, segment->part, n,
                             n >= c->operations ? "which there isn't" : "which has one already");
            c->node[n] = node;
            c->segment[n] = s;
            c->batch[n] = b;
            c->node_segment[node] = s;
        }
    }
    if (next != lowered->first_command + lowered->command_count)
        return wrong(c, "the batches of segment %u are not its commands", s);
    if (lowered->first_join > desc->join_count ||
        lowered->join_count > desc->join_count - lowered->first_join)
        return wrong(c, "segment %u has joins beyond the program's", s);
    for (uint32_t j = 0; j < lowered->join_count; j++)
        c->node_segment[c->part_first[segment->part] + desc->command_count + lowered->first_join + j] = s;
    return ROTA_OK;
}

/* What is complete when each segment starts. */
static rota_status read_waits(certifier *c) {
    const rota_plan *plan = c->plan;
    uint32_t *last = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (c->timelines + 1u), 8);
    c->start =
        rota_arena_calloc(&c->arena, sizeof(uint32_t) * ((size_t)plan->segment_count * c->timelines + 1), 8);
    if (!last || !c->start) return no_memory(c);
    for (uint32_t t = 0; t < c->timelines; t++) last[t] = ROTA_NONE;
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        uint32_t t = c->segment_timeline[s], *start = c->start + (size_t)s * c->timelines;
        const uint32_t before = last[t] == ROTA_NONE ? 0 : plan->segments[last[t]].ordinal;
        if (segment->ordinal != before + 1)
            return wrong(c, "segment %u signals value %u of its queue, after %u", s, segment->ordinal,
                         before);
        if (last[t] != ROTA_NONE)
            memcpy(start, c->start + (size_t)last[t] * c->timelines, sizeof *start * c->timelines);
        for (uint32_t w = 0; w < segment->wait_count; w++) {
            const uint32_t waited = plan->segment_waits[segment->first_wait + w];
            if (waited >= s)
                return wrong(c, "segment %u waits for segment %u, which is handed over after it", s, waited);
            const uint32_t *from = c->start + (size_t)waited * c->timelines;
            for (uint32_t k = 0; k < c->timelines; k++)
                if (start[k] < from[k]) start[k] = from[k];
            uint32_t *own = &start[c->segment_timeline[waited]];
            if (*own < plan->segments[waited].ordinal) *own = plan->segments[waited].ordinal;
        }
        last[t] = s;
    }
    if (plan->segment_count == 0) return ROTA_OK;
    if (plan->final_segment >= plan->segment_count)
        return wrong(c, "there is no final segment %u", plan->final_segment);
    const uint32_t *end = c->start + (size_t)plan->final_segment * c->timelines;
    for (uint32_t t = 0; t < c->timelines; t++)
        if (end[t] < plan->segments[last[t]].ordinal && last[t] != plan->final_segment)
            return wrong(
                c, "a replay is over, and its instance used again, with segment %u, before segment %u is",
                plan->final_segment, last[t]);
    for (uint32_t p = 0; p < plan->part_count; p++)
        for (uint32_t q = 0; q < ROTA_EXEC_QUEUES_MAX; q++) {
            const uint32_t t = c->timeline_of_queue[p][q];
            const uint32_t values = t == ROTA_NONE ? 0 : plan->segments[last[t]].ordinal;
            if (plan->parts[p].values_per_queue[q] != values)
                return wrong(c, "a replay moves queue %u of device %u by %u, and its segments by %u", q, p,
                             plan->parts[p].values_per_queue[q], values);
        }
    return ROTA_OK;
}

static rota_status read_shape(certifier *c) {
    const rota_plan *plan = c->plan;
    c->part_first = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (plan->part_count + 1u), 8);
    if (!c->part_first) return no_memory(c);
    uint64_t nodes = 0, commands = 0;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        c->part_first[p] = (uint32_t)nodes;
        commands += plan->parts[p].desc.command_count;
        nodes += (uint64_t)plan->parts[p].desc.command_count + plan->parts[p].desc.join_count;
    }
    c->part_first[plan->part_count] = c->node_count = (uint32_t)nodes;
    c->operations = c->info->operation_count;
    if (nodes > UINT32_MAX / 2 || commands != c->operations)
        return wrong(c, "it has %llu commands for %u operations", (unsigned long long)commands,
                     c->operations);
    c->node = rota_arena_alloc(&c->arena, sizeof(uint32_t) * ((size_t)c->operations + 1), 8);
    c->segment = rota_arena_alloc(&c->arena, sizeof(uint32_t) * ((size_t)c->operations + 1), 8);
    c->batch = rota_arena_alloc(&c->arena, sizeof(uint32_t) * ((size_t)c->operations + 1), 8);
    c->node_segment = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (nodes + 1), 8);
    if (!c->node || !c->segment || !c->batch || !c->node_segment) return no_memory(c);
    memset(c->node, 0xff, sizeof(uint32_t) * c->operations);
    memset(c->node_segment, 0xff, sizeof(uint32_t) * nodes);
    ROTA_TRY(number_timelines(c));
    for (uint32_t s = 0; s < plan->segment_count; s++) ROTA_TRY(read_segment(c, s));
    for (uint32_t n = 0; n < c->operations; n++)
        if (c->node[n] == ROTA_NONE) return wrong(c, "no segment runs %s", rota_operation_describe(plan, n));
    return read_waits(c);
}

/* ---- Edges ---- */

/* Turns the edges round, and sees that they stay in their segments and that executors wait for as many as
 * there are. */
static rota_status turn_edges(certifier *c) {
    const rota_plan *plan = c->plan;
    uint64_t edges = 0;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        const rota_exec_program_desc *desc = &plan->parts[p].desc;
        if (desc->command_count) edges += desc->first_successor[desc->command_count + desc->join_count];
    }
    c->first_predecessor = rota_arena_calloc(&c->arena, sizeof(uint32_t) * ((size_t)c->node_count + 2), 8);
    c->predecessor = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (edges + 1), 8);
    if (!c->first_predecessor || !c->predecessor) return no_memory(c);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t p = 0; p < plan->part_count; p++) {
            const rota_exec_program_desc *desc = &plan->parts[p].desc;
            const uint32_t base = c->part_first[p], nodes = desc->command_count + desc->join_count;
            for (uint32_t i = 0; i < nodes; i++)
                for (uint32_t e = desc->first_successor[i]; e < desc->first_successor[i + 1]; e++) {
                    const uint32_t to = desc->successor[e];
                    if (to >= nodes || c->node_segment[base + to] != c->node_segment[base + i])
                        return wrong(c, "an edge of device %u from command %u to %u leaves its segment", p, i,
                                     to);
                    if (pass == 0)
                        c->first_predecessor[base + to + 2]++;
                    else
                        c->predecessor[c->first_predecessor[base + to + 1]++] = base + i;
                }
            for (uint32_t i = 0; pass == 0 && i < nodes; i++)
                if (desc->predecessor_count[i] != c->first_predecessor[base + i + 2])
                    return wrong(c, "command %u of device %u waits for %u others and has edges from %u", i, p,
                                 desc->predecessor_count[i], c->first_predecessor[base + i + 2]);
        }
        for (uint32_t i = 2; pass == 0 && i <= c->node_count; i++)
            c->first_predecessor[i] += c->first_predecessor[i - 1];
    }
    return ROTA_OK;
}

static void clock_note(chain_clock *clock, uint32_t chain, uint32_t latest) {
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < clock->count; i++) {
        if (clock->chain[i] == chain) {
            if (clock->latest[i] < latest) clock->latest[i] = latest;
            return;
        }
        if (clock->latest[i] < clock->latest[oldest]) oldest = i;
    }
    if (clock->count < CLOCK_ENTRIES) {
        oldest = clock->count++;
    } else if (clock->latest[oldest] > latest) {
        return;
    }
    clock->chain[oldest] = chain;
    clock->latest[oldest] = latest;
}

/* Topological order, chains and clocks. */
static rota_status sort_nodes(certifier *c) {
    const size_t bytes = sizeof(uint32_t) * ((size_t)c->node_count + 1);
    uint32_t *left = rota_arena_alloc(&c->arena, bytes, 8), *queue = rota_arena_alloc(&c->arena, bytes, 8);
    uint32_t *tail = rota_arena_alloc(&c->arena, bytes, 8);
    c->place = rota_arena_alloc(&c->arena, bytes, 8);
    c->chain = rota_arena_alloc(&c->arena, bytes, 8);
    c->is_before = rota_arena_calloc(&c->arena, bytes, 8);
    c->visited = rota_arena_calloc(&c->arena, bytes, 8);
    c->clock = rota_arena_alloc(&c->arena, sizeof *c->clock * ((size_t)c->node_count + 1), 8);
    if (!left || !queue || !tail || !c->place || !c->chain || !c->is_before || !c->visited || !c->clock)
        return no_memory(c);
    uint32_t count = 0, chains = 0;
    for (uint32_t i = 0; i < c->node_count; i++) {
        left[i] = c->first_predecessor[i + 1] - c->first_predecessor[i];
        if (left[i] == 0) queue[count++] = i;
    }
    for (uint32_t at = 0; at < count; at++) {
        const uint32_t node = queue[at];
        chain_clock *clock = &c->clock[node];
        clock->count = 0;
        c->place[node] = at;
        c->chain[node] = ROTA_NONE;
        for (uint32_t e = c->first_predecessor[node]; e < c->first_predecessor[node + 1]; e++) {
            const uint32_t before = c->predecessor[e];
            if (c->chain[node] == ROTA_NONE && tail[c->chain[before]] == before)
                c->chain[node] = c->chain[before];
        }
        if (c->chain[node] == ROTA_NONE) c->chain[node] = chains++;
        tail[c->chain[node]] = node;
        for (uint32_t e = c->first_predecessor[node]; e < c->first_predecessor[node + 1]; e++) {
            const uint32_t before = c->predecessor[e];
            const chain_clock *other = &c->clock[before];
            for (uint32_t i = 0; i < other->count; i++)
                if (other->chain[i] != c->chain[node]) clock_note(clock, other->chain[i], other->latest[i]);
            if (c->chain[before] != c->chain[node]) clock_note(clock, c->chain[before], c->place[before]);
        }
        uint32_t part = 0;
        while (node >= c->part_first[part + 1]) part++;
        const rota_exec_program_desc *desc = &c->plan->parts[part].desc;
        const uint32_t inner = node - c->part_first[part];
        for (uint32_t e = desc->first_successor[inner]; e < desc->first_successor[inner + 1]; e++)
            if (--left[c->part_first[part] + desc->successor[e]] == 0)
                queue[count++] = c->part_first[part] + desc->successor[e];
    }
    if (count != c->node_count)
        return wrong(c, "%u of its commands wait for one another", c->node_count - count);
    c->stack = left; /* done with */
    return ROTA_OK;
}

/* ---- Order of two ---- */

/* By an edge into `b`, whose predecessors are stamped, or by its clock. */
static bool known_before(const certifier *c, uint32_t a, uint32_t b) {
    if (c->chain[a] == c->chain[b]) return c->place[a] < c->place[b];
    if (c->is_before[a] == b + 1) return true;
    const chain_clock *clock = &c->clock[b];
    for (uint32_t i = 0; i < clock->count; i++)
        if (clock->chain[i] == c->chain[a]) return c->place[a] <= clock->latest[i];
    return false;
}

static void stamp_predecessors(certifier *c, uint32_t node) {
    for (uint32_t e = c->first_predecessor[node]; e < c->first_predecessor[node + 1]; e++)
        c->is_before[c->predecessor[e]] = node + 1;
}

/* Visits what comes before `from` and not before `earliest` in the topological order; until `wanted`
 * (ROTA_NONE: all). */
static bool search(certifier *c, uint32_t from, uint32_t earliest, uint32_t wanted) {
    uint32_t depth = 0;
    c->visit++;
    c->stack[depth++] = from;
    while (depth) {
        const uint32_t node = c->stack[--depth];
        for (uint32_t e = c->first_predecessor[node]; e < c->first_predecessor[node + 1]; e++) {
            const uint32_t before = c->predecessor[e];
            if (c->place[before] < earliest || c->visited[before] == c->visit) continue;
            if (wanted != ROTA_NONE && (before == wanted || known_before(c, wanted, before))) return true;
            c->visited[before] = c->visit;
            c->stack[depth++] = before;
        }
    }
    return false;
}

static bool before_by_edges(certifier *c, uint32_t a, uint32_t b) {
    if (known_before(c, a, b)) return true;
    return c->place[a] < c->place[b] && search(c, b, c->place[a], a);
}

static bool before_by_waits(const certifier *c, uint32_t segment, uint32_t later_segment) {
    return c->start[(size_t)later_segment * c->timelines + c->segment_timeline[segment]] >=
           c->plan->segments[segment].ordinal;
}

/* Whether operation `a` completes before `b` starts; *out_by_edges: it is by edges that it does not. */
static bool is_before(certifier *c, uint32_t a, uint32_t b, bool *out_by_edges) {
    *out_by_edges = false;
    if (c->segment[a] != c->segment[b]) return before_by_waits(c, c->segment[a], c->segment[b]);
    if (c->batch[a] >= c->batch[b]) return false;
    *out_by_edges = true;
    return before_by_edges(c, c->node[a], c->node[b]);
}

static rota_status check_pair(certifier *c, uint32_t earlier, uint32_t later, const char *why) {
    bool by_edges;
    if (earlier == later || is_before(c, earlier, later, &by_edges)) return ROTA_OK;
    return unordered(c, earlier, later, why, by_edges);
}

/* The same without a search; false: unknown. */
static bool is_known_before(const certifier *c, uint32_t a, uint32_t b) {
    if (c->segment[a] != c->segment[b]) return before_by_waits(c, c->segment[a], c->segment[b]);
    return c->batch[a] < c->batch[b] && known_before(c, c->node[a], c->node[b]);
}

/* ---- Order of many ---- */

static rota_status list_push(certifier *c, op_list *list, uint32_t operation) {
    if (list->count && LINKS(c)[list->head].operation == operation) return ROTA_OK;
    if (!rota_vector_reserve(&c->links, sizeof(op_link), 1)) return no_memory(c);
    LINKS(c)[c->links.count] = (op_link){operation, list->count ? list->head : 0};
    list->head = (uint32_t)c->links.count++;
    list->count++;
    return ROTA_OK;
}

static rota_status crowd_of(certifier *c, op_list *list, crowd **out) {
    if (!list->crowd) {
        if (!rota_vector_reserve(&c->crowds, sizeof(crowd), 1)) return no_memory(c);
        CROWDS(c)[c->crowds.count++] = (crowd){0};
        list->crowd = (uint32_t)c->crowds.count;
    }
    *out = &CROWDS(c)[list->crowd - 1];
    return ROTA_OK;
}

static rota_status sum_operation(certifier *c, crowd *at, uint32_t n) {
    const uint32_t s = c->segment[n], t = c->segment_timeline[s];
    uint32_t i = 0;
    while (i < at->last_count && at->last[i].timeline != t) i++;
    if (i == at->last_count) {
        if (i == at->last_capacity) {
            const uint32_t room = i ? 2 * i : 2;
            last_on_queue *grown = rota_arena_alloc(&c->arena, sizeof *grown * room, 8);
            if (!grown) return no_memory(c);
            if (i) memcpy(grown, at->last, sizeof *grown * i);
            at->last = grown;
            at->last_capacity = room;
        }
        at->last[at->last_count++] = (last_on_queue){t, s, c->batch[n], 0};
        return ROTA_OK;
    }
    last_on_queue *last = &at->last[i];
    const uint32_t ordinal = c->plan->segments[s].ordinal, known = c->plan->segments[last->segment].ordinal;
    if (ordinal > known) {
        last->earlier = known;
        last->segment = s;
        last->batch = c->batch[n];
    } else if (ordinal == known) {
        if (c->batch[n] > last->batch) last->batch = c->batch[n];
    } else if (ordinal > last->earlier) {
        last->earlier = ordinal;
    }
    return ROTA_OK;
}

/* *out_meets: some are in n's own segment. */
static bool crowd_is_before(const certifier *c, const crowd *at, uint32_t n, bool *out_meets) {
    const uint32_t *start = c->start + (size_t)c->segment[n] * c->timelines;
    *out_meets = false;
    for (uint32_t i = 0; i < at->last_count; i++) {
        const last_on_queue *last = &at->last[i];
        *out_meets = *out_meets || last->segment == c->segment[n];
        if (last->segment == c->segment[n]
                ? last->batch >= c->batch[n] || start[last->timeline] < last->earlier
                : start[last->timeline] < c->plan->segments[last->segment].ordinal)
            return false;
    }
    return true;
}

static bool is_join(const certifier *c, uint32_t node) {
    uint32_t part = 0;
    while (node >= c->part_first[part + 1]) part++;
    return node - c->part_first[part] >= c->plan->parts[part].desc.command_count;
}

/* Tries whether `node` comes after all of the list that is in its segment, and remembers it. */
static bool bear_witness(certifier *c, const op_list *list, crowd *at, uint32_t node) {
    const uint32_t segment = c->node_segment[node];
    uint32_t covered = 0, earliest = UINT32_MAX, index = list->count;
    /* What a witness before this one covers need not be looked at again. */
    for (uint32_t w = 0; w < WITNESSES; w++)
        if (at->covered[w] > covered && c->node_segment[at->witness[w]] == segment &&
            known_before(c, at->witness[w], node))
            covered = at->covered[w];
    for (uint32_t hop = node, hops = 0; hop != ROTA_NONE && hops < HOPS; hops++) {
        uint32_t next = ROTA_NONE;
        for (uint32_t e = c->first_predecessor[hop]; e < c->first_predecessor[hop + 1]; e++) {
            const uint32_t before = c->predecessor[e];
            for (uint32_t w = 0; w < WITNESSES; w++)
                if (at->covered[w] > covered && at->witness[w] == before) covered = at->covered[w];
            if (is_join(c, before)) next = before;
        }
        hop = next;
    }
    for (uint32_t link = list->head; index > covered; link = LINKS(c)[link].next, index--) {
        const uint32_t n = LINKS(c)[link].operation;
        if (c->segment[n] == segment && c->place[c->node[n]] < earliest) earliest = c->place[c->node[n]];
    }
    if (earliest != UINT32_MAX) (void)search(c, node, earliest, ROTA_NONE);
    index = list->count;
    for (uint32_t link = list->head; index > covered; link = LINKS(c)[link].next, index--) {
        const uint32_t n = LINKS(c)[link].operation;
        if (c->segment[n] == segment && c->node[n] != node && c->visited[c->node[n]] != c->visit)
            return false;
    }
    at->witness[at->next_witness] = node;
    at->covered[at->next_witness] = list->count;
    at->next_witness = (at->next_witness + 1) % WITNESSES;
    return true;
}

/* A predecessor of operation n's that may come after all of the list: a join, or the last of them. */
static bool find_witness(certifier *c, const op_list *list, crowd *at, uint32_t n) {
    const uint32_t node = c->node[n];
    uint32_t last = ROTA_NONE, tried = 0;
    for (uint32_t e = c->first_predecessor[node]; e < c->first_predecessor[node + 1]; e++) {
        const uint32_t before = c->predecessor[e];
        if (last == ROTA_NONE || c->place[before] > c->place[last]) last = before;
        if (is_join(c, before) && tried++ < WITNESSES && bear_witness(c, list, at, before)) return true;
    }
    return last != ROTA_NONE && !tried && bear_witness(c, list, at, last);
}

static uint32_t covered_for(const certifier *c, const crowd *at, uint32_t n) {
    uint32_t covered = 0;
    for (uint32_t w = 0; w < WITNESSES; w++)
        if (at->covered[w] > covered && c->node_segment[at->witness[w]] == c->segment[n] &&
            (at->witness[w] == c->node[n] || known_before(c, at->witness[w], c->node[n])))
            covered = at->covered[w];
    return covered;
}

/* A list as an operation meets it: only what is later than `since` counts, as that overwrote the rest; of the list of a
 * range's parts, only what was not overwritten since. */
typedef struct meeting {
    op_list *list;
    uint32_t since; /* operation plus 1 */
    uint32_t skip;  /* for this operation nor is what is earlier than that, as it comes after something that does */
    const range_uses *parts; /* NULL: no list of parts */
    uint32_t low, high;      /* its leaves */
    uint32_t instance;
} meeting;

static bool is_overwritten(const certifier *c, const meeting *m, uint32_t operation);

static rota_status check_each(certifier *c, const meeting *m, uint32_t n, uint32_t covered, const char *why) {
    uint32_t index = m->list->count;
    for (uint32_t link = m->list->head; index > covered; link = LINKS(c)[link].next, index--) {
        const uint32_t earlier = LINKS(c)[link].operation;
        if (earlier + 1 < m->since || earlier + 1 < m->skip) break;
        if (earlier == n || is_known_before(c, earlier, n) || (m->parts && is_overwritten(c, m, earlier))) continue;
        ROTA_TRY(check_pair(c, earlier, n, why));
    }
    return ROTA_OK;
}

/* Operation n comes after all of the list, if it is not one of them. */
static rota_status check_list(certifier *c, const meeting *m, uint32_t n, const char *why) {
    op_list *list = m->list;
    if (list->count && LINKS(c)[list->head].operation + 1 < m->since) *list = (op_list){0};
    if (list->count && LINKS(c)[list->head].operation + 1 < m->skip) return ROTA_OK;
    if (list->count <= CROWD_AT) return check_each(c, m, n, 0, why);
    crowd *at = NULL;
    ROTA_TRY(crowd_of(c, list, &at));
    uint32_t fresh = list->count - at->summed;
    for (uint32_t link = list->head; fresh; link = LINKS(c)[link].next, fresh--)
        ROTA_TRY(sum_operation(c, at, LINKS(c)[link].operation));
    at->summed = list->count;
    bool meets;
    if (!crowd_is_before(c, at, n, &meets)) /* says which, or that it is n itself */
        return check_each(c, m, n, 0, why);
    if (!meets) return ROTA_OK;
    /* By batches and waits all is well. By edges: what no witness covers, one by one. */
    uint32_t covered = covered_for(c, at, n);
    if (list->count - covered > CROWD_AT && find_witness(c, list, at, n)) covered = covered_for(c, at, n);
    return check_each(c, m, n, covered, why);
}

/* ---- Buffers and memory ---- */

/* Scratch memory of one command is in the place of a buffer that nobody recorded: without a base. */
static const char *name_of(const instance *at) {
    return at->has_base ? at->buffer->name : "scratch memory";
}

static uint64_t space_of(const rota_plan *plan, uint32_t part, const rota_exec_operand *operand) {
    if (operand->is_slot) {
        const rota_plan_word *word = &plan->words[operand->memory];
        if (word->kind == ROTA_WORD_BUFFER)
            return (uint64_t)1 << 62 | (uint64_t)plan->parts[part].memory_part << 32 | word->index;
        return (uint64_t)1 << 63 | (uint64_t)part << 32 | operand->memory;
    }
    const rota_plan_memory *memory = &plan->parts[part].memories[operand->memory];
    return memory->foreign_part != ROTA_NONE ? (uint64_t)memory->foreign_part << 32 | memory->foreign_memory
                                             : (uint64_t)part << 32 | operand->memory;
}

static const rota_buffer *recorded_buffer(const certifier *c, uint64_t stored) {
    if (!(stored & 1)) return (const rota_buffer *)(uintptr_t)stored;
    const uint32_t lane = (uint32_t)(stored >> 32), index = (uint32_t)stored >> 1;
    const rota_graph *graph = c->plan->graph;
    if (lane > graph->lane_count) {
        const uint64_t own = (uint64_t)c->info->own_base + index;
        return own < c->plan->buffer_count ? c->plan->buffers[own].buffer : NULL;
    }
    const rota_recorder *recorder = lane ? graph->lanes[lane - 1] : &graph->own;
    return index < recorder->buffer_count ? recorder->buffers[index] : NULL;
}

static uint32_t hash_of(uint64_t space, const rota_buffer *buffer) {
    return (uint32_t)((space * 0x9e3779b97f4a7c15u ^ ((uintptr_t)buffer >> 4) * 0xc2b2ae3d27d4eb4fu) >> 32);
}

static rota_status find_instance(certifier *c, uint64_t space, const rota_buffer *buffer, uint32_t *out) {
    uint32_t *slot = &c->instance_hash[hash_of(space, buffer) & c->hash_mask];
    for (uint32_t i = *slot; i; i = INSTANCES(c)[i - 1].next)
        if (INSTANCES(c)[i - 1].space == space && INSTANCES(c)[i - 1].buffer == buffer) {
            *out = i - 1;
            return ROTA_OK;
        }
    if (!rota_vector_reserve(&c->instances, sizeof(instance), 1)) return no_memory(c);
    *out = (uint32_t)c->instances.count++;
    INSTANCES(c)
    [*out] =
        (instance){.space = space, .buffer = buffer, .low = UINT64_MAX, .next = *slot, .part = ROTA_NONE - 1};
    *slot = *out + 1;
    return ROTA_OK;
}

/* What an operand should be, from the record or the transfer that its command is of. */
typedef struct expected {
    const rota_buffer *buffer; /* NULL: memory of the host's, or scratch memory */
    uint64_t offset, size;
    rota_access_mode mode;
    bool any_offset; /* a copy between devices: the same byte as the other operand's */
} expected;

static rota_status expect(const certifier *c, uint32_t n, uint32_t k, const rota_exec_operand *operand,
                          expected *out) {
    const rota_operation *operation = &c->info->operations[n];
    const rota_plan *plan = c->plan;
    *out = (expected){.size = operand->size_bytes, .mode = (rota_access_mode)operand->mode};
    if (operation->kind == ROTA_OPERATION_NODE) {
        const rota_node_record *record = operation->record;
        if (k >= record->access_count) return ROTA_OK; /* a workspace */
        const rota_access_record *access = &rota_node_accesses(record)[k];
        out->buffer = recorded_buffer(c, access->buffer);
        out->offset = ROTA_ACCESS_OFFSET(access);
        out->size = access->size_bytes;
        out->mode = ROTA_ACCESS_MODE(access);
        return out->buffer ? ROTA_OK : wrong(c, "%s touches no buffer", rota_operation_describe(plan, n));
    }
    out->mode = k == 0 ? ROTA_WRITE : ROTA_READ;
    if (operation->kind == ROTA_OPERATION_TRANSFER) {
        out->buffer = plan->buffers[operation->node].buffer;
        out->any_offset = true;
        return ROTA_OK;
    }
    const rota_plan_transfer *transfer = &plan->transfers[operation->node];
    const bool is_device = k == (transfer->is_output ? 1u : 0u);
    out->size = plan->buffers[transfer->buffer].buffer->size_bytes;
    if (is_device) out->buffer = plan->buffers[transfer->buffer].buffer;
    if (!is_device && (operand->memory != (operand->is_slot ? transfer->word : transfer->memory) ||
                       operand->offset_bytes != (operand->is_slot ? 0 : transfer->offset_bytes)))
        return wrong(c, "%s is at another place than its contents", rota_operation_describe(plan, n));
    return ROTA_OK;
}

/* Finds the buffer in its memory that an operand is of, and sees that it is what was recorded. */
static rota_status read_operand(certifier *c, uint32_t n, uint32_t part, uint32_t k,
                                const rota_exec_operand *operand, uint32_t *out_instance) {
    const rota_plan *plan = c->plan;
    const rota_exec_program_desc *desc = &plan->parts[part].desc;
    if (operand->memory >= (operand->is_slot ? plan->word_count : desc->memory_count))
        return wrong(c, "operand %u of %s names no memory", k, rota_operation_describe(plan, n));
    expected want;
    ROTA_TRY(expect(c, n, k, operand, &want));
    if (want.any_offset) {
        /* One of the two is in a mirror, or both are: it begins with the buffer's first byte. */
        const rota_exec_operand *other =
            &desc->operands[desc->commands[c->node[n] - c->part_first[part]].first_operand + 1 - k];
        const bool in_mirror =
            !operand->is_slot && plan->parts[part].memories[operand->memory].kind == ROTA_EXEC_BASE_STAGING;
        const bool other_is = !other->is_slot && other->memory < desc->memory_count &&
                              plan->parts[part].memories[other->memory].kind == ROTA_EXEC_BASE_STAGING;
        if ((!in_mirror && !other_is) ||
            (in_mirror && other_is && operand->offset_bytes != other->offset_bytes))
            return wrong(c, "%s does not copy to or from the same byte of a mirror",
                         rota_operation_describe(plan, n));
        want.offset = in_mirror ? operand->offset_bytes : other->offset_bytes;
    }
    if (want.size != operand->size_bytes || want.mode != operand->mode)
        return wrong(c, "operand %u of %s is of %llu bytes (%s), recorded as %llu (%s)", k,
                     rota_operation_describe(plan, n), (unsigned long long)operand->size_bytes,
                     rota_access_mode_name((rota_access_mode)operand->mode), (unsigned long long)want.size,
                     rota_access_mode_name(want.mode));
    const rota_plan_memory *memory = operand->is_slot ? NULL : &plan->parts[part].memories[operand->memory];
    const rota_plan_word *word = operand->is_slot ? &plan->words[operand->memory] : NULL;
    const bool is_arena = memory && memory->kind == ROTA_EXEC_BASE_ARENA;
    const uint32_t outside = word && word->kind == ROTA_WORD_BUFFER                ? word->index
                             : memory && memory->kind == ROTA_EXEC_BASE_PERSISTENT ? memory->buffer
                                                                                   : ROTA_NONE;
    /* Scratch memory is a buffer of its own for each that uses it: a name that no buffer has. */
    const rota_buffer *name = !is_arena ? NULL : want.buffer ? want.buffer : (const rota_buffer *)operand;
    if (outside != ROTA_NONE && (!want.buffer || plan->buffers[outside].buffer != want.buffer ||
                                 operand->offset_bytes != want.offset))
        return wrong(c, "operand %u of %s is byte %llu of buffer '%s', recorded as byte %llu of '%s'", k,
                     rota_operation_describe(plan, n), (unsigned long long)operand->offset_bytes,
                     plan->buffers[outside].buffer->name, (unsigned long long)want.offset,
                     want.buffer ? want.buffer->name : "no buffer");
    if (operand->size_bytes > UINT64_MAX - operand->offset_bytes ||
        (memory && operand->offset_bytes + operand->size_bytes > memory->size_bytes))
        return wrong(c, "operand %u of %s ends after its memory's %llu bytes", k,
                     rota_operation_describe(plan, n),
                     memory ? (unsigned long long)memory->size_bytes : 0ull);
    ROTA_TRY(find_instance(c, space_of(plan, part, operand), name, out_instance));
    instance *at = &INSTANCES(c)[*out_instance];
    if (is_arena && want.buffer) {
        const uint64_t base = operand->offset_bytes - want.offset;
        if (operand->offset_bytes < want.offset || (at->has_base && at->base != base))
            return wrong(c, "operand %u of %s has buffer '%s' at byte %lld of the arena, others at %llu", k,
                         rota_operation_describe(plan, n), want.buffer->name, (long long)base,
                         (unsigned long long)at->base);
        at->base = base;
        at->has_base = true;
    }
    if (at->access_count &&
        (at->low != operand->offset_bytes || at->high != operand->offset_bytes + operand->size_bytes))
        at->leaves = 2; /* several */
    else if (!at->access_count)
        at->leaves = 1;
    at->access_count++;
    if (at->low > operand->offset_bytes) at->low = operand->offset_bytes;
    if (at->high < operand->offset_bytes + operand->size_bytes)
        at->high = operand->offset_bytes + operand->size_bytes;
    at->part = at->part == ROTA_NONE - 1 ? part : at->part == part ? part : ROTA_NONE;
    return ROTA_OK;
}

static uint32_t part_of(const certifier *c, uint32_t n) {
    return c->plan->segments[c->segment[n]].part;
}

static const rota_exec_command *command_of(const certifier *c, uint32_t n) {
    const uint32_t part = part_of(c, n);
    return &c->plan->parts[part].desc.commands[c->node[n] - c->part_first[part]];
}

static rota_status read_operands(certifier *c) {
    uint64_t operands = 0;
    for (uint32_t n = 0; n < c->operations; n++) {
        const rota_exec_command *command = command_of(c, n);
        const uint64_t end = (uint64_t)command->first_operand + command->operand_count;
        if (end > c->plan->parts[part_of(c, n)].desc.operand_count)
            return wrong(c, "%s has operands beyond the program's", rota_operation_describe(c->plan, n));
        if (end > operands) operands = end;
    }
    uint32_t size = 256;
    while (size < c->plan->buffer_count * 2u && size < 1u << 30) size *= 2;
    c->hash_mask = size - 1;
    c->instance_hash = rota_arena_calloc(&c->arena, sizeof(uint32_t) * size, 8);
    c->instance_of = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (operands + 1), 8);
    if (!c->instance_hash || !c->instance_of) return no_memory(c);
    for (uint32_t n = 0; n < c->operations; n++) {
        const uint32_t part = part_of(c, n);
        const rota_exec_command *command = command_of(c, n);
        const rota_operation *operation = &c->info->operations[n];
        const uint32_t least = operation->kind == ROTA_OPERATION_NODE ? operation->record->access_count : 2;
        const uint32_t most = operation->kind == ROTA_OPERATION_NODE ? least + 1 : least;
        if (command->operand_count < least || command->operand_count > most)
            return wrong(c, "%s has %u operands, recorded with %u", rota_operation_describe(c->plan, n),
                         command->operand_count, least);
        for (uint32_t k = 0; k < command->operand_count; k++)
            ROTA_TRY(read_operand(c, n, part, k,
                                  &c->plan->parts[part].desc.operands[command->first_operand + k],
                                  &c->instance_of[command->first_operand + k]));
    }
    return ROTA_OK;
}

/* ---- Trees over ranges ---- */

static int compare_points(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Sorts points and leaves each once. */
static uint32_t settle_points(uint64_t *points, uint64_t count) {
    bool sorted = true;
    for (uint64_t i = 1; i < count && sorted; i++) sorted = points[i - 1] <= points[i];
    if (!sorted) qsort(points, (size_t)count, sizeof *points, compare_points);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++)
        if (!kept || points[kept - 1] != points[i]) points[kept++] = points[i];
    return (uint32_t)kept;
}

static uint32_t leaf_of(const uint64_t *points, uint32_t count, uint64_t at) {
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (points[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Gives each buffer that is touched in several ranges a tree over their ends. */
static rota_status make_trees(certifier *c) {
    uint64_t points = 0;
    for (uint32_t i = 0; i < c->instances.count; i++) {
        instance *at = &INSTANCES(c)[i];
        at->first_point = (uint32_t)points;
        if (at->leaves > 1) points += 2ull * at->access_count;
    }
    if (points > UINT32_MAX) return no_memory(c);
    c->points = rota_arena_alloc(&c->arena, sizeof(uint64_t) * (points + 1), 8);
    if (!c->points) return no_memory(c);
    for (uint32_t n = 0; n < c->operations && points; n++) {
        const rota_exec_command *command = command_of(c, n);
        for (uint32_t k = 0; k < command->operand_count; k++) {
            instance *at = &INSTANCES(c)[c->instance_of[command->first_operand + k]];
            if (at->leaves <= 1) continue;
            const rota_exec_operand *operand =
                &c->plan->parts[part_of(c, n)].desc.operands[command->first_operand + k];
            c->points[at->first_point++] = operand->offset_bytes;
            c->points[at->first_point++] = operand->offset_bytes + operand->size_bytes;
        }
    }
    uint64_t trees = 0;
    for (uint32_t i = 0; i < c->instances.count; i++) {
        instance *at = &INSTANCES(c)[i];
        at->tree = (uint32_t)trees;
        if (at->leaves > 1) {
            at->first_point -= 2 * at->access_count;
            at->leaves = settle_points(c->points + at->first_point, 2ull * at->access_count) - 1;
            trees += 2ull * at->leaves - 1; /* nodes in depth first order */
        } else {
            trees++;
        }
    }
    if (trees > UINT32_MAX) return no_memory(c);
    c->ranges = rota_arena_calloc(&c->arena, sizeof *c->ranges * (trees + 1), 8);
    return c->ranges ? ROTA_OK : no_memory(c);
}

/* One access, while it goes through its buffer's tree. */
typedef struct access {
    uint32_t n;
    use_kind use;
    uint32_t instance;
    bool free_order;     /* adds that commute: never at once, in either order */
    uint32_t first, end; /* leaves */
} access;

/* By what the earlier one does, and the later. */
static const char *const conflicts[USE_KINDS][USE_KINDS] = {
    {"both read", "one reads and one then adds", "one reads and one then writes"},
    {"one adds and one then reads", "both add", "one adds and one then writes"},
    {"one writes and one then reads", "one writes and one then adds", "both write"}};

static rota_status check_free(certifier *c, op_list *list, uint32_t n) {
    bool by_edges;
    uint32_t count = list->count;
    if (!count || is_before(c, LINKS(c)[list->head].operation, n, &by_edges)) return ROTA_OK;
    for (uint32_t link = list->head; count; link = LINKS(c)[link].next, count--) {
        const uint32_t other = LINKS(c)[link].operation;
        if (other != n && !is_before(c, other, n, &by_edges) && !is_before(c, n, other, &by_edges))
            return unordered(c, other, n, "both add there, and may not do it at once", by_edges);
    }
    return ROTA_OK;
}

/* The last read and the last add of all of a range that holds the one at hand, each plus 1: a write or add comes after the
 * read, and so after what that came after; and anything but an add after the add. */
typedef struct between {
    uint32_t read, add;
} between;

static rota_status check_uses(certifier *c, op_list lists[USE_KINDS], meeting m, between last, const access *a) {
    for (uint32_t use = 0; use < USE_KINDS; use++) {
        if (lists[use].count == 0 || (use == USE_READ && a->use == USE_READ)) continue;
        if (use == USE_ADD && a->use == USE_ADD) {
            if (a->free_order) ROTA_TRY(check_free(c, &lists[use], a->n));
            continue;
        }
        m.list = &lists[use];
        m.skip = a->use == USE_READ || use == USE_READ ? 0 : last.read;
        if (a->use != USE_ADD && use != USE_ADD && m.skip < last.add) m.skip = last.add;
        ROTA_TRY(check_list(c, &m, a->n, conflicts[use][a->use]));
    }
    return ROTA_OK;
}

/* Whether all that the operation touched of the range was overwritten since, in the tree below. */
static bool is_covered(const range_uses *ranges, uint32_t low, uint32_t high, uint32_t first, uint32_t end,
                       uint32_t operation) {
    if (ranges->written > operation + 1) return true;
    if (first <= low && high <= end) return false;
    const uint32_t middle = low + (high - low) / 2;
    return (first >= middle || is_covered(ranges + 1, low, middle, first, end, operation)) &&
           (end <= middle || is_covered(ranges + 2 * (middle - low), middle, high, first, end, operation));
}

static bool is_overwritten(const certifier *c, const meeting *m, uint32_t operation) {
    const instance *at = &INSTANCES(c)[m->instance];
    const uint64_t *points = c->points + at->first_point;
    const rota_exec_command *command = command_of(c, operation);
    const rota_exec_operand *operands = c->plan->parts[part_of(c, operation)].desc.operands;
    for (uint32_t k = command->first_operand; k < command->first_operand + command->operand_count; k++) {
        if (c->instance_of[k] != m->instance) continue;
        const uint32_t first = leaf_of(points, at->leaves, operands[k].offset_bytes);
        const uint32_t end = leaf_of(points, at->leaves + 1, operands[k].offset_bytes + operands[k].size_bytes);
        if (first < m->high && end > m->low && !is_covered(m->parts, m->low, m->high, first, end, operation)) return false;
    }
    return true;
}

static uint32_t newest(const certifier *c, const op_list *list) {
    return list->count ? LINKS(c)[list->head].operation + 1 : 0;
}

static void drop_older(const certifier *c, op_list *list, uint32_t than) {
    if (newest(c, list) < than) *list = (op_list){0};
}

/* Reads that adds or writes came after and now a read of all, or adds that reads came after and now an add to all: who
 * comes after that comes after them. */
static void drop_implied(const certifier *c, range_uses *ranges, use_kind use) {
    const use_kind other = use == USE_READ ? USE_ADD : USE_READ;
    const uint32_t whole = newest(c, &ranges->whole[other]);
    uint32_t any = newest(c, &ranges->part[other]);
    if (any < whole) any = whole;
    if (any < newest(c, &ranges->part[USE_WRITE])) any = newest(c, &ranges->part[USE_WRITE]);
    drop_older(c, &ranges->whole[use], any);
    drop_older(c, &ranges->part[use], whole);
}

/* Node `v` of the tree has leaves [low, high): its left half follows it, its right half that. */
static rota_status visit_range(certifier *c, range_uses *ranges, uint32_t low, uint32_t high, uint32_t since,
                               between last, const access *a) {
    meeting m = {.since = since, .instance = a->instance};
    if (last.read < newest(c, &ranges->whole[USE_READ])) last.read = newest(c, &ranges->whole[USE_READ]);
    if (last.add < newest(c, &ranges->whole[USE_ADD])) last.add = newest(c, &ranges->whole[USE_ADD]);
    ROTA_TRY(check_uses(c, ranges->whole, m, last, a));
    if (a->first <= low && high <= a->end) {
        m.parts = high - low > 1 ? ranges : NULL;
        m.low = low;
        m.high = high;
        ROTA_TRY(check_uses(c, ranges->part, m, last, a));
        if (a->use == USE_WRITE)
            *ranges = (range_uses){.written = a->n + 1};
        else
            drop_implied(c, ranges, a->use);
        return list_push(c, &ranges->whole[a->use], a->n);
    }
    ROTA_TRY(list_push(c, &ranges->part[a->use], a->n));
    if (since < ranges->written) since = ranges->written;
    const uint32_t middle = low + (high - low) / 2;
    if (a->first < middle) ROTA_TRY(visit_range(c, ranges + 1, low, middle, since, last, a));
    if (a->end > middle) ROTA_TRY(visit_range(c, ranges + 2 * (middle - low), middle, high, since, last, a));
    return ROTA_OK;
}

/* ---- Tenants ---- */

static uint32_t arena_at(const certifier *c, uint64_t space) {
    const arena_space *arenas = c->arenas.data;
    uint32_t low = 0, high = (uint32_t)c->arenas.count; /* ascending */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (arenas[middle].space <= space)
            low = middle;
        else
            high = middle;
    }
    return high && arenas[low].space == space ? low : ROTA_NONE;
}

/* Gives each piece of an arena a tree over the ends of the buffers in it. */
static rota_status make_arenas(certifier *c) {
    const rota_plan *plan = c->plan;
    for (uint32_t p = 0; p < plan->part_count; p++)
        for (uint32_t m = 0; m < plan->parts[p].desc.memory_count; m++) {
            const rota_plan_memory *memory = &plan->parts[p].memories[m];
            if (memory->kind != ROTA_EXEC_BASE_ARENA || memory->foreign_part != ROTA_NONE) continue;
            if (!rota_vector_reserve(&c->arenas, sizeof(arena_space), 1)) return no_memory(c);
            ((arena_space *)c->arenas.data)[c->arenas.count++] =
                (arena_space){.space = (uint64_t)p << 32 | m};
        }
    arena_space *arenas = c->arenas.data;
    for (uint32_t i = 0; i < c->instances.count; i++) {
        instance *at = &INSTANCES(c)[i];
        if (!at->buffer) continue;
        at->arena = arena_at(c, at->space);
        if (at->arena == ROTA_NONE) return wrong(c, "'%s' is in no arena of its own device", name_of(at));
        arenas[at->arena].leaves += 2;
    }
    c->ends = rota_arena_alloc(&c->arena, sizeof(uint64_t) * (2 * c->instances.count + 1), 8);
    if (!c->ends) return no_memory(c);
    uint32_t first = 0;
    for (uint32_t k = 0; k < c->arenas.count; k++) {
        arenas[k].first_end = first;
        first += arenas[k].leaves;
        arenas[k].leaves = 0;
    }
    for (uint32_t i = 0; i < c->instances.count; i++) {
        const instance *at = &INSTANCES(c)[i];
        if (!at->buffer) continue;
        arena_space *arena = &arenas[at->arena];
        c->ends[arena->first_end + arena->leaves++] = at->low;
        c->ends[arena->first_end + arena->leaves++] = at->high;
    }
    uint64_t trees = 0;
    for (uint32_t k = 0; k < c->arenas.count; k++) {
        if (!arenas[k].leaves) continue;
        arenas[k].leaves = settle_points(c->ends + arenas[k].first_end, arenas[k].leaves) - 1;
        arenas[k].tree = (uint32_t)trees;
        trees += 2ull * arenas[k].leaves;
    }
    c->tenant = rota_arena_calloc(&c->arena, sizeof(uint32_t) * (trees + 1), 8);
    return c->tenant ? ROTA_OK : no_memory(c);
}

static rota_status replace(certifier *c, uint32_t tenant, uint32_t by) {
    instance *at = &INSTANCES(c)[by];
    for (uint32_t link = at->predecessors, looked = 0; link && looked < 4;
         link = LINKS(c)[link].next, looked++)
        if (LINKS(c)[link].operation == tenant) return ROTA_OK;
    INSTANCES(c)[tenant].replaced = true;
    if (!rota_vector_reserve(&c->links, sizeof(op_link), 1)) return no_memory(c);
    LINKS(c)[c->links.count] = (op_link){tenant, at->predecessors};
    at->predecessors = (uint32_t)c->links.count++;
    return ROTA_OK;
}

/* Instance `by` has leaves [first, end) from now on: notes who had them. */
static rota_status take_range(certifier *c, uint32_t *tree, uint32_t low, uint32_t high, uint32_t first,
                              uint32_t end, uint32_t by) {
    const bool all = first <= low && high <= end;
    if (*tree != ROTA_NONE) {
        if (*tree && *tree != by + 1) ROTA_TRY(replace(c, *tree - 1, by));
        if (all) {
            *tree = by + 1;
            return ROTA_OK;
        }
        if (*tree == by + 1) return ROTA_OK;
    }
    if (high - low == 1) return ROTA_OK; /* all of it, so never */
    const uint32_t middle = low + (high - low) / 2;
    uint32_t *left = tree + 1, *right = tree + 2 * (middle - low);
    if (*tree != ROTA_NONE) *left = *right = *tree;
    *tree = all ? by + 1 : ROTA_NONE;
    if (first < middle) ROTA_TRY(take_range(c, left, low, middle, first, end, by));
    if (end > middle) ROTA_TRY(take_range(c, right, middle, high, first, end, by));
    return ROTA_OK;
}

/* Operation n, a use of the instance, comes after all uses of those that had its memory before, or
 * out_of_order is set. */
static rota_status check_predecessors(certifier *c, uint32_t index, uint32_t n) {
    const instance *at = &INSTANCES(c)[index];
    for (uint32_t link = at->predecessors; link; link = LINKS(c)[link].next) {
        const instance *other = &INSTANCES(c)[LINKS(c)[link].operation];
        range_uses *uses = &c->ranges[other->tree];
        for (uint32_t use = 0; use < USE_KINDS && !c->out_of_order; use++) {
            rota_status status = check_list(c, &(meeting){.list = &uses->whole[use]}, n, "");
            if (status == ROTA_OK) status = check_list(c, &(meeting){.list = &uses->part[use]}, n, "");
            if (status == ROTA_OUT_OF_MEMORY) return status;
            c->out_of_order = status != ROTA_OK;
        }
    }
    return ROTA_OK;
}

/* All uses of two buffers that share memory, pair by pair: those of one come first. */
static rota_status check_tenants(certifier *c, uint32_t one, uint32_t two) {
    uint32_t direction = 0;
    for (uint32_t n = 0; n < c->operations; n++) {
        const rota_exec_command *first = command_of(c, n);
        for (uint32_t k = 0; k < first->operand_count; k++) {
            if (c->instance_of[first->first_operand + k] != one) continue;
            for (uint32_t m = 0; m < c->operations; m++) {
                const rota_exec_command *second = command_of(c, m);
                bool uses = false, by_edges;
                for (uint32_t i = 0; i < second->operand_count; i++)
                    uses = uses || c->instance_of[second->first_operand + i] == two;
                if (!uses || n == m) continue;
                const uint32_t found = is_before(c, n, m, &by_edges)   ? 1
                                       : is_before(c, m, n, &by_edges) ? 2
                                                                       : 3;
                if (found != 3 && (!direction || direction == found)) {
                    direction = found;
                    continue;
                }
                char why[256];
                (void)snprintf(why, sizeof why, "'%s' and '%s' share memory and %s",
                               name_of(&INSTANCES(c)[one]), name_of(&INSTANCES(c)[two]),
                               found == 3 ? "meet" : "take turns");
                return unordered(c, n < m ? n : m, n < m ? m : n, why, by_edges);
            }
        }
    }
    return ROTA_OK;
}

static rota_status check_all_tenants(certifier *c) {
    for (uint32_t i = 0; i < c->instances.count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const instance *a = &INSTANCES(c)[i], *b = &INSTANCES(c)[k];
            if (!a->buffer || !b->buffer || a->space != b->space || a->low >= b->high || b->low >= a->high)
                continue;
            c->at_buffer = name_of(a);
            c->at_low = (a->low > b->low ? a->low : b->low) - a->base;
            c->at_high = (a->high < b->high ? a->high : b->high) - a->base;
            ROTA_TRY(check_tenants(c, k, i));
        }
    return ROTA_OK;
}

static rota_status use_memory(certifier *c, uint32_t index, uint32_t n) {
    instance *at = &INSTANCES(c)[index];
    if (at->replaced) { /* by one that comes later in record order, and starts before its last use */
        c->out_of_order = true;
        return ROTA_OK;
    }
    if (!at->first_checked) {
        const arena_space *space = (const arena_space *)c->arenas.data + at->arena;
        const uint64_t *ends = c->ends + space->first_end;
        ROTA_TRY(take_range(c, c->tenant + space->tree, 0, space->leaves,
                            leaf_of(ends, space->leaves, at->low), leaf_of(ends, space->leaves + 1, at->high),
                            index));
        at = &INSTANCES(c)[index];
        at->first_checked = n + 1;
        return check_predecessors(c, index, n);
    }
    if (!at->predecessors || at->first_checked == n + 1) return ROTA_OK;
    bool by_edges;
    const uint32_t first = at->first_checked - 1;
    if (is_before(c, first, n, &by_edges)) return ROTA_OK;
    return check_predecessors(c, index, n);
}

/* An operation whose output takes its input's memory: its kernel says that it may. */
static rota_status check_inplace(const certifier *c, uint32_t n) {
    const rota_exec_command *command = command_of(c, n);
    const rota_exec_operand *operands = c->plan->parts[part_of(c, n)].desc.operands + command->first_operand;
    for (uint32_t i = 0; i < command->operand_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const uint32_t a = c->instance_of[command->first_operand + i],
                           b = c->instance_of[command->first_operand + k];
            if (a == b || INSTANCES(c)[a].space != INSTANCES(c)[b].space ||
                (operands[i].mode == ROTA_READ && operands[k].mode == ROTA_READ) ||
                operands[i].offset_bytes >= operands[k].offset_bytes + operands[k].size_bytes ||
                operands[k].offset_bytes >= operands[i].offset_bytes + operands[i].size_bytes)
                continue;
            const uint32_t out = operands[i].mode == ROTA_READ ? k : i, in = out == i ? k : i;
            const rota_kernel *kernel =
                command->kind == ROTA_EXEC_COMMAND_KERNEL ? command->u.kernel.kernel : NULL;
            if (operands[in].mode != ROTA_READ || !kernel || !(kernel->inplace_outputs >> out & 1) ||
                !(kernel->inplace_inputs >> in & 1) ||
                operands[in].offset_bytes != operands[out].offset_bytes ||
                operands[in].size_bytes != operands[out].size_bytes)
                return wrong(c, "operands %u and %u of %s share memory, and it does not work in place", k, i,
                             rota_operation_describe(c->plan, n));
        }
    return ROTA_OK;
}

/* ---- What outlives the plan ---- */

/* How far one may go from the beginning of each external through those of its segment that have a flag. */
static rota_status read_externals(certifier *c) {
    const rota_plan *plan = c->plan;
    for (int k = 0; k < 2; k++) {
        c->reaches[k] = rota_arena_alloc(&c->arena, sizeof(uint64_t) * ((size_t)plan->external_count + 1), 8);
        if (!c->reaches[k]) return no_memory(c);
    }
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const uint32_t first = plan->segments[s].first_external, count = plan->segments[s].external_count;
        if (first > plan->external_count || count > plan->external_count - first)
            return wrong(c, "segment %u has externals beyond the plan's", s);
        for (uint32_t i = first + count; i-- > first;) {
            const rota_plan_external *at = &plan->externals[i], *next = at + 1;
            const uint64_t end = at->offset_bytes + at->size_bytes;
            const bool joins =
                i + 1 < first + count && next->buffer == at->buffer && next->offset_bytes == end;
            for (int k = 0; k < 2; k++) {
                const bool has = at->flags & (k == 0 ? ROTA_EXTERNAL_READ : ROTA_EXTERNAL_WRITE);
                c->reaches[k][i] = !has                                  ? at->offset_bytes
                                   : joins && c->reaches[k][i + 1] > end ? c->reaches[k][i + 1]
                                                                         : end;
            }
        }
    }
    return ROTA_OK;
}

/* Each byte is in an external of the segment that has the flag. */
static rota_status check_external(const certifier *c, uint32_t n, uint32_t buffer, uint64_t low,
                                  uint64_t high, uint32_t flag) {
    const rota_plan_segment *segment = &c->plan->segments[c->segment[n]];
    const rota_plan_external *list = c->plan->externals + segment->first_external;
    uint32_t first = 0, end = segment->external_count;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (list[middle].buffer < buffer ||
            (list[middle].buffer == buffer && list[middle].offset_bytes + list[middle].size_bytes <= low))
            first = middle + 1;
        else
            end = middle;
    }
    if (low < high && first < segment->external_count && list[first].buffer == buffer &&
        list[first].offset_bytes <= low) {
        const uint64_t reach =
            c->reaches[flag == ROTA_EXTERNAL_READ ? 0 : 1][segment->first_external + first];
        if (low < reach) low = reach;
    }
    if (low >= high) return ROTA_OK;
    return wrong(c, "%s %s byte %llu of '%s', which its segment does not say",
                 rota_operation_describe(c->plan, n), flag == ROTA_EXTERNAL_READ ? "reads" : "writes",
                 (unsigned long long)low, c->plan->buffers[buffer].buffer->name);
}

/* ---- The pass ---- */

static use_kind use_of(const certifier *c, const rota_exec_command *command, const rota_exec_operand *operand,
                       const instance *at, bool *out_free_order) {
    *out_free_order = false;
    if (operand->mode == ROTA_READ) return USE_READ;
    if (operand->mode != ROTA_ACCUMULATE || command->kind != ROTA_EXEC_COMMAND_KERNEL) return USE_WRITE;
    const uint32_t flags = command->u.kernel.kernel->flags;
    if (!(flags & ROTA_KERNEL_INTEGER_ACCUMULATE) && !c->plan->graph->allow_reassociation) return USE_WRITE;
    /* Nobody promises that two devices' atomics are each other's. */
    *out_free_order = !(flags & ROTA_KERNEL_ATOMIC_ACCUMULATE) || at->part == ROTA_NONE;
    return USE_ADD;
}

/* For messages: what the access at hand is of. */
static void name_access(certifier *c, uint32_t index, const rota_exec_operand *operand) {
    const instance *at = &INSTANCES(c)[index];
    c->at_buffer = at->buffer ? name_of(at) : "host memory";
    if (!at->buffer && (at->space >> 62 & 1))
        c->at_buffer = c->plan->buffers[(uint32_t)at->space].buffer->name;
    const uint32_t part = (uint32_t)(at->space >> 32);
    if (!at->buffer && !(at->space >> 62) &&
        c->plan->parts[part].memories[(uint32_t)at->space].kind == ROTA_EXEC_BASE_PERSISTENT)
        c->at_buffer =
            c->plan->buffers[c->plan->parts[part].memories[(uint32_t)at->space].buffer].buffer->name;
    c->at_low = operand->offset_bytes - (at->has_base ? at->base : 0);
    c->at_high = c->at_low + operand->size_bytes;
}

static rota_status check_operand(certifier *c, uint32_t n, const rota_exec_command *command, uint32_t k) {
    const uint32_t part = part_of(c, n), index = c->instance_of[command->first_operand + k];
    const rota_exec_operand *operand = &c->plan->parts[part].desc.operands[command->first_operand + k];
    const uint64_t low = operand->offset_bytes, high = low + operand->size_bytes;
    name_access(c, index, operand);
    if (INSTANCES(c)[index].buffer) ROTA_TRY(use_memory(c, index, n));
    const instance *at = &INSTANCES(c)[index];
    access a = {.n = n, .instance = index, .end = 1};
    a.use = use_of(c, command, operand, at, &a.free_order);
    if (at->leaves > 1) {
        const uint64_t *points = c->points + at->first_point;
        a.first = leaf_of(points, at->leaves, low);
        a.end = leaf_of(points, at->leaves + 1, high);
    }
    if (low < high) ROTA_TRY(visit_range(c, &c->ranges[at->tree], 0, at->leaves, 0, (between){0, 0}, &a));
    const rota_plan *plan = c->plan;
    uint32_t outside = ROTA_NONE;
    if (operand->is_slot) {
        if (plan->words[operand->memory].kind == ROTA_WORD_BUFFER)
            outside = plan->words[operand->memory].index;
    } else if (plan->parts[part].memories[operand->memory].kind == ROTA_EXEC_BASE_PERSISTENT) {
        outside = plan->parts[part].memories[operand->memory].buffer;
    }
    if (outside == ROTA_NONE) return ROTA_OK;
    if (operand->mode != ROTA_WRITE) ROTA_TRY(check_external(c, n, outside, low, high, ROTA_EXTERNAL_READ));
    if (operand->mode != ROTA_READ) ROTA_TRY(check_external(c, n, outside, low, high, ROTA_EXTERNAL_WRITE));
    return ROTA_OK;
}

static rota_status check_operations(certifier *c) {
    for (uint32_t n = 0; n < c->operations; n++) {
        const rota_exec_command *command = command_of(c, n);
        const rota_exec_operand *operands =
            c->plan->parts[part_of(c, n)].desc.operands + command->first_operand;
        stamp_predecessors(c, c->node[n]);
        ROTA_TRY(check_inplace(c, n));
        /* Reads before writes: an operation in place reads what was there before it. */
        for (int writes = 0; writes < 2; writes++)
            for (uint32_t k = 0; k < command->operand_count; k++)
                if ((operands[k].mode != ROTA_READ) == (writes != 0))
                    ROTA_TRY(check_operand(c, n, command, k));
    }
    return ROTA_OK;
}

/* The operations of a node, from the first on: its own, or its parts'. */
static uint32_t next_part(const certifier *c, uint32_t n) {
    const rota_operation *operations = c->info->operations;
    if (!operations[n].goes_on) return ROTA_NONE;
    uint32_t next = n + 1;
    while (operations[next].kind != ROTA_OPERATION_NODE || operations[next].node != operations[n].node)
        next++;
    return next;
}

static rota_status check_afters(certifier *c) {
    const rota_compile_info *info = c->info;
    c->at_buffer = "none";
    c->at_low = c->at_high = 0;
    for (uint32_t l = 0; l < info->lane_count; l++)
        for (uint32_t i = 0; i < info->lanes[l]->after_count; i++) {
            const rota_after after = info->lanes[l]->afters[i];
            const uint32_t lane = info->lane_rank[after.earlier.lane - 1];
            const uint32_t later = info->operation_of_node[info->lane_first_node[l] + after.later.index];
            const uint32_t earlier =
                info->operation_of_node[info->lane_first_node[lane] + after.earlier.index];
            if (later == ROTA_NONE || earlier == ROTA_NONE) continue;
            for (uint32_t to = later; to != ROTA_NONE; to = next_part(c, to)) {
                stamp_predecessors(c, c->node[to]);
                for (uint32_t from = earlier; from != ROTA_NONE; from = next_part(c, from))
                    ROTA_TRY(check_pair(c, from, to, "rota_node_after"));
            }
        }
    return ROTA_OK;
}

static rota_status certify(certifier *c) {
    ROTA_TRY(read_shape(c));
    ROTA_TRY(turn_edges(c));
    ROTA_TRY(sort_nodes(c));
    ROTA_TRY(read_operands(c));
    ROTA_TRY(make_trees(c));
    ROTA_TRY(make_arenas(c));
    ROTA_TRY(read_externals(c));
    ROTA_TRY(check_operations(c));
    if (c->out_of_order) ROTA_TRY(check_all_tenants(c));
    return check_afters(c);
}

rota_status rota_plan_certify(const rota_plan *plan) {
    certifier *c = calloc(1, sizeof *c);
    if (!c) return rota_fail(ROTA_OUT_OF_MEMORY, "certificate of plan '%s': no host memory", plan->name);
    c->plan = plan;
    c->info = plan->compile_info;
    rota_status status = rota_vector_reserve(&c->links, sizeof(op_link), 64) ? ROTA_OK : no_memory(c);
    if (status == ROTA_OK) {
        c->links.count = 1; /* 0 ends lists */
        status = certify(c);
    }
    rota_vector *const vectors[] = {&c->instances, &c->links, &c->crowds, &c->arenas};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) rota_vector_free(vectors[i]);
    rota_arena_free(&c->arena);
    free(c);
    return status;
}
