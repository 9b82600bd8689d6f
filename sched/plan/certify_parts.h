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

#endif
