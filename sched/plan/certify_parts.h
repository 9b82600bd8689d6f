/* What the certificate's files share: an operation is a number, its position in record order. Internal to
 * certify*.c. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_PARTS_H
#define ROTA_SCHED_PLAN_CERTIFY_PARTS_H

#include "base/arena.h"
#include "base/vector.h"
#include "sched/plan/compiled.h"
#include "sched/plan/operations.h"

enum { CLOCK_ENTRIES = 6, CROWD_AT = 64, WITNESSES = 4, HOPS = 16 };

/* What comes before a node inside its segment, as far as remembered: of each chain the last. */
typedef struct chain_clock {
    uint32_t chain[CLOCK_ENTRIES], latest[CLOCK_ENTRIES]; /* latest: position in the topological order */
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

/* What segments say of their order. */
typedef struct segment_order {
    uint32_t timelines, timeline_of_queue[UINT8_MAX + 1][ROTA_EXEC_QUEUES_MAX];
    uint32_t *timeline; /* by segment */
    uint32_t *start;    /* segments x timelines: ordinals that are complete when the segment starts */
} segment_order;

/* Commands and joins of all parts, and the edges between them. */
typedef struct node_graph {
    uint32_t count, *part_first;
    uint32_t *segment, *first_predecessor, *predecessor;
    uint32_t *position, *chain; /* in the topological order */
    chain_clock *clock;
    uint32_t *is_before; /* node + 1 for which a node is a direct predecessor */
    uint32_t *visited, visit, *stack;
} node_graph;

/* Who has which memory, and what they did to it. */
typedef struct memory_uses {
    uint32_t *instance_of; /* by operand, as info->accesses has them */
    rota_vector instances, links, crowds, arenas;
    uint32_t *instance_hash, hash_mask;
    uint64_t *points; /* of buffers */
    range_uses *ranges;
    uint64_t *ends; /* of arenas */
    uint32_t *tenant;
    uint64_t *reaches[2]; /* by external, for READ and WRITE */
    bool out_of_order;    /* some buffer is not after one that had its memory */
} memory_uses;

typedef struct certifier {
    const rota_plan *plan;
    const rota_compile_info *info;
    rota_arena arena;
    uint32_t operations;
    uint32_t *node, *segment, *batch; /* by operation */
    segment_order order;
    node_graph nodes;
    memory_uses memory;
    /* The access at hand, for messages. */
    const char *at_buffer;
    uint64_t at_low, at_high;
} certifier;

#define INSTANCES(c) ((instance *)(c)->memory.instances.data)
#define LINKS(c) ((op_link *)(c)->memory.links.data)
#define CROWDS(c) ((crowd *)(c)->memory.crowds.data)

/* A list as an operation meets it: only what is later than `since` counts, as that overwrote the rest; of the
 * list of a range's parts, only what was not overwritten since. */
typedef struct meeting {
    op_list *list;
    uint32_t since; /* operation plus 1 */
    uint32_t
        skip; /* for this operation nor is what is earlier than that, as it comes after something that does */
    const range_uses *parts; /* NULL: no list of parts */
    uint32_t low, high;      /* its leaves */
    uint32_t instance;
} meeting;

/* One access, while it goes through its buffer's tree. */
typedef struct range_access {
    uint32_t n;
    use_kind use;
    uint32_t instance;
    bool free_order;     /* adds that commute: never at once, in either order */
    uint32_t first, end; /* leaves */
} range_access;

/* The last read and the last add of all of a range that holds the one at hand, each plus 1: a write or add
 * comes after the read, and so after what that came after; and anything but an add after the add. */
typedef struct between {
    uint32_t read, add;
} between;

/* ---- certify_text.c: why a plan is wrong ---- */

rota_status rota_certify_no_memory(const certifier *c);
rota_status rota_certify_wrong(const certifier *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
rota_status rota_certify_unordered(const certifier *c, uint32_t earlier, uint32_t later, const char *why,
                                   bool by_edges);

/* ---- certify_shape.c ---- */

/* Which operation is which command of which batch, what is complete when a segment starts. */
rota_status rota_certify_read_shape(certifier *c);
/* The edges of each segment, turned round, and its nodes in topological order. */
rota_status rota_certify_turn_edges(certifier *c);
rota_status rota_certify_sort_nodes(certifier *c);

/* ---- certify_order.c: of two ---- */

/* By an edge into `b`, whose predecessors are remembered, or by its clock. */
static inline bool known_before(const certifier *c, uint32_t a, uint32_t b) {
    if (c->nodes.chain[a] == c->nodes.chain[b]) return c->nodes.position[a] < c->nodes.position[b];
    if (c->nodes.is_before[a] == b + 1) return true;
    const chain_clock *clock = &c->nodes.clock[b];
    for (uint32_t i = 0; i < clock->count; i++)
        if (clock->chain[i] == c->nodes.chain[a]) return c->nodes.position[a] <= clock->latest[i];
    return false;
}

static inline void remember_predecessors(certifier *c, uint32_t node) {
    for (uint32_t e = c->nodes.first_predecessor[node]; e < c->nodes.first_predecessor[node + 1]; e++)
        c->nodes.is_before[c->nodes.predecessor[e]] = node + 1;
}

static inline bool before_by_waits(const certifier *c, uint32_t segment, uint32_t later_segment) {
    return c->order.start[(size_t)later_segment * c->order.timelines + c->order.timeline[segment]] >=
           c->plan->segments[segment].ordinal;
}

/* Visits what comes before `from` and not before `earliest` in the topological order; until `wanted`
 * (ROTA_NONE: all). */
bool rota_certify_search(certifier *c, uint32_t from, uint32_t earliest, uint32_t wanted);
/* Whether operation `a` completes before `b` starts; *out_by_edges: it is by edges that it does not. */
bool rota_certify_is_before(certifier *c, uint32_t a, uint32_t b, bool *out_by_edges);
rota_status rota_certify_check_pair(certifier *c, uint32_t earlier, uint32_t later, const char *why);
/* The same without a search; false: unknown. */
static inline bool is_known_before(const certifier *c, uint32_t a, uint32_t b) {
    if (c->segment[a] != c->segment[b]) return before_by_waits(c, c->segment[a], c->segment[b]);
    return c->batch[a] < c->batch[b] && known_before(c, c->node[a], c->node[b]);
}

/* ---- certify_memory.c ---- */

/* Finds the buffer and the memory of each operand, and sees that both are what was recorded. */
rota_status rota_certify_read_operands(certifier *c);
/* Scratch memory of one command is in the place of a buffer that nobody recorded: without a base. */
static inline const char *name_of(const instance *it) {
    return it->has_base ? it->buffer->name : "scratch memory";
}

static inline uint32_t part_of(const certifier *c, uint32_t n) {
    return c->plan->segments[c->segment[n]].part;
}

static inline const rota_exec_command *command_of(const certifier *c, uint32_t n) {
    const uint32_t part = part_of(c, n);
    return &c->plan->partitions[part].desc.commands[c->node[n] - c->nodes.part_first[part]];
}

/* ---- certify_ranges.c: who comes after whom ---- */

/* Sorts points and leaves each once. */
rota_status rota_certify_settle_points(certifier *c, uint64_t *points, uint64_t count, uint32_t *out_count);
uint32_t rota_certify_leaf_of(const uint64_t *points, uint32_t count, uint64_t point);
/* Gives each buffer that is touched in several ranges a tree over their ends. */
rota_status rota_certify_make_trees(certifier *c);
/* Operation n comes after all of the list, if it is not one of them. */
rota_status rota_certify_check_list(certifier *c, const meeting *m, uint32_t n, const char *why);
/* Node `v` of the tree has leaves [low, high): its left half follows it, its right half that. */
rota_status rota_certify_visit_range(certifier *c, range_uses *ranges, uint32_t low, uint32_t high,
                                     uint32_t since, between last, const range_access *a);

/* ---- certify_tenants.c: who had the memory before ---- */

/* Gives each piece of an arena a tree over the ends of the buffers in it. */
rota_status rota_certify_make_arenas(certifier *c);
/* Operation n uses the instance: after all uses of those that had its memory, or out_of_order is set. */
rota_status rota_certify_use_memory(certifier *c, uint32_t index, uint32_t n);
/* Where that is: pair by pair. */
rota_status rota_certify_check_all_tenants(certifier *c);
/* An operation whose output takes its input's memory: its kernel says that it may. */
rota_status rota_certify_check_inplace(const certifier *c, uint32_t n);

#endif
