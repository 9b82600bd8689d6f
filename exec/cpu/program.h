/* Programs as workers run them: commands as compact records, gathered in units. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_PROGRAM_H
#define ROTA_EXEC_CPU_PROGRAM_H

#include "base/arena.h"
#include "exec/common/link.h"
#include "exec/exec.h"

typedef struct rota_cpu_device rota_cpu_device;
typedef struct rota_cpu_record rota_cpu_record;

#define ROTA_CPU_NONE UINT32_MAX

/* Items of a kernel at the most. Each worker that looks for a piece past the last one counts a piece on;
 * there are no more workers than pieces, so that the count stays below seven times the items, and does not
 * wrap. */
#define ROTA_CPU_ITEMS_MAX ((uint64_t)1 << 60)

/* Items of a copy or a fill. */
#define ROTA_CPU_COPY_ITEM_BYTES 64
static inline uint64_t rota_cpu_copy_items(uint64_t bytes) {
    return bytes / ROTA_CPU_COPY_ITEM_BYTES + (bytes % ROTA_CPU_COPY_ITEM_BYTES != 0);
}

typedef enum rota_cpu_record_flags {
    ROTA_CPU_RECORD_SLOTS = 1u << 0,    /* an operand's base is in the block */
    ROTA_CPU_RECORD_BINDINGS = 1u << 1, /* a parameter is in the block */
    ROTA_CPU_RECORD_HOST = 1u << 2,
    ROTA_CPU_RECORD_USER = 1u << 3,  /* the kernel has something for its function */
    ROTA_CPU_RECORD_LATER = 1u << 4, /* a host function that ends later; alone in its unit */
    ROTA_CPU_RECORD_CONDITIONAL = 1u << 5,
    ROTA_CPU_RECORD_COUNTED = 1u << 6 /* its last operand says how many items it runs */
} rota_cpu_record_flags;

/* A command that decides. Where all its bodies are serial it is *inline*: the worker that comes to it runs them itself,
 * and it may be part of a serial segment. Else it is a unit of its own, and the bodies' units are tasks. */
typedef struct rota_cpu_conditional {
    const rota_exec_conditional *desc;
    uint32_t command;    /* index in the description */
    uint32_t first_body; /* in program->bodies, and the instance's */
    uint32_t loop;       /* in the instance's loops; ROTA_CPU_NONE: inline */
} rota_cpu_conditional;

/* One command as the hot loop reads it, in execution order. */
struct rota_cpu_record {
    union {
        rota_cpu_fn kernel;
        rota_host_fn host;
        const rota_host_later *later;
    } fn;
    union {
        const void *params; /* the program's own copy */
        void *user;
        const rota_cpu_conditional *conditional;
    } u;
    uint64_t items;
    uint32_t first_operand; /* in the program's operand_bytes and operand_word, and the instance's operands */
    uint32_t node;
    uint32_t command; /* index in the description */
    uint8_t operand_count;
    uint8_t flags;
    uint16_t reserved;
};

typedef struct rota_cpu_unit {
    uint32_t first_record, record_count;       /* none: a join */
    uint32_t first_successor, successor_count; /* in unit_successors; 0: a sink */
    uint32_t predecessor_count;
    /* ROTA_CPU_NONE: it is run by one worker, and ends with its records. Else it is of one record, and this the index
     * of its state: in the instance's loops, where that decides (ROTA_CPU_RECORD_CONDITIONAL); among the host functions
     * that end later, where it is one (_LATER); or among the split kernels. */
    uint32_t state;
    uint64_t grain; /* of a split kernel */
} rota_cpu_unit;
_Static_assert(sizeof(rota_cpu_unit) == 32, "two a cache line: a wide graph has one for each node");

typedef struct rota_cpu_segment {
    uint32_t first_unit, unit_count; /* unit_count 1 and not split: serial */
    uint32_t first_root, root_count; /* in roots: units without predecessors */
    uint32_t sink_count;
    bool serial;
} rota_cpu_segment;

struct rota_exec_program {
    rota_link link;   /* the device's list, under its mutex */
    rota_arena arena; /* of this struct's arrays */
    const rota_exec_program_desc *desc;
    const void *owner;
    rota_cpu_record *records; /* command_count */
    /* Operands in record order: size, block word of a slot (ROTA_CPU_NONE: fixed), and index in the
     * description. */
    uint64_t *operand_bytes;
    uint32_t *operand_word;
    uint32_t *operand_source;
    uint32_t operand_count;
    rota_cpu_unit *units;
    uint32_t *unit_successors;
    uint32_t *roots;
    uint32_t unit_count, split_count, later_count;
    rota_cpu_segment *segments;
    uint32_t block_words;
    rota_cpu_conditional *conditionals; /* by command, ascending */
    uint32_t conditional_count, loop_count;
    rota_exec_program **bodies; /* of them all; in no list of the device's; NULL among them: nothing to run */
    uint32_t body_count;
};

rota_status rota_cpu_program_create(rota_exec_device *device, const rota_exec_program_desc *desc,
                                    rota_exec_program **out_program);
void rota_cpu_program_destroy(rota_exec_device *device, rota_exec_program *program);
/* What is left (close); no instance is. */
void rota_cpu_program_free_all(rota_cpu_device *device);

#endif
