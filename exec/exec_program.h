/* Lowered programs: what sched makes of a plan and gives to a device (exec.h). Internal; not installed. */
#ifndef ROTA_EXEC_EXEC_PROGRAM_H
#define ROTA_EXEC_EXEC_PROGRAM_H

#include <stdint.h>
#include <string.h>
#include "graph/graph.h"

typedef struct rota_exec_program rota_exec_program;
/* A program with memories of its own. */
typedef struct rota_exec_instance rota_exec_instance;

typedef enum rota_exec_command_kind {
    ROTA_EXEC_COMMAND_KERNEL,
    ROTA_EXEC_COMMAND_COPY, /* operand 0 destination (WRITE; counted: READWRITE), operand 1 source (READ) */
    ROTA_EXEC_COMMAND_FILL, /* operand 0 */
    ROTA_EXEC_COMMAND_HOST, /* where caps.runs_host_nodes */
    ROTA_EXEC_COMMAND_CONDITIONAL /* where caps.runs_conditionals */
} rota_exec_command_kind;

/* A plan has some three for each node, so it takes no more bits than it needs: `size_bytes` is a buffer's at most,
 * which is 2^46, and packing gives no byte of a piece a number of more than 48 bits. */
typedef struct rota_exec_operand {
    uint64_t offset_bytes : 48; /* added to the base */
    uint64_t is_slot : 1;
    uint64_t mode : 2; /* rota_access_mode */
    /* Base: the address of memories[memory] of the instance; or, if is_slot, block[memory], a 64-bit address
     * given at each submission (on the CPU executor it may be any host pointer). */
    uint64_t memory : 30;
    uint64_t size_bytes : 47;
} __attribute__((packed, aligned(8))) rota_exec_operand;
_Static_assert(sizeof(rota_exec_operand) == 16, "a plan has some three for each node");
_Static_assert(ROTA_BUFFER_SIZE_MAX < (uint64_t)1 << 47 && ROTA_ACCESS_MODE_COUNT <= 4, "its bits suffice");
#define ROTA_EXEC_OFFSET_MAX (((uint64_t)1 << 48) - 1)
#define ROTA_EXEC_SIZE_MAX (((uint64_t)1 << 47) - 1)
#define ROTA_EXEC_MEMORY_MAX (((uint32_t)1 << 30) - 1) /* also of a word of the block */

/* `offset_bytes` and `size_bytes` as above. The two words are put together here as compilers lay the members out, so
 * that each is written once: member by member they would be read and written for each. A test looks that they agree. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first member has the lowest bits");
static inline rota_exec_operand rota_exec_operand_of(uint32_t memory, bool is_slot, uint64_t offset_bytes,
                                                     uint64_t size_bytes, uint32_t mode) {
    const uint64_t words[2] = {(offset_bytes & ROTA_EXEC_OFFSET_MAX) | (uint64_t)is_slot << 48 |
                                   (uint64_t)(mode & 3) << 49 | (uint64_t)memory << 51,
                               (memory & ROTA_EXEC_MEMORY_MAX) >> 13 | size_bytes << 17};
    rota_exec_operand out;
    memcpy(&out, words, sizeof out);
    return out;
}
static inline rota_exec_operand rota_exec_operand_at(uint32_t memory, uint64_t offset_bytes,
                                                     uint64_t size_bytes, rota_access_mode mode) {
    return rota_exec_operand_of(memory, false, offset_bytes, size_bytes, (uint32_t)mode);
}
/* One past its last byte. To some compilers a sum of two of its members has no more bits than the wider one. */
static inline uint64_t rota_exec_operand_end(const rota_exec_operand *operand) {
    return (uint64_t)operand->offset_bytes + (uint64_t)operand->size_bytes;
}
/* So many bytes on, modulo 2^48. */
static inline void rota_exec_operand_move(rota_exec_operand *operand, uint64_t bytes) {
    operand->offset_bytes = (operand->offset_bytes + bytes) & ROTA_EXEC_OFFSET_MAX;
}
static inline void rota_exec_operand_set_memory(rota_exec_operand *operand, uint32_t memory) {
    operand->memory = memory & ROTA_EXEC_MEMORY_MAX;
}

/* A bindable parameter taken from the argument block: the low 4 or all 8 bytes of block[word] at every
 * submission. */
typedef struct rota_exec_binding {
    uint32_t bindable; /* index in kernel->bindables */
    uint32_t word;
} rota_exec_binding;

/* 4 bytes in one of a command's operands. */
typedef struct rota_exec_word {
    uint32_t operand; /* UINT32_MAX: there is none */
    uint64_t offset_bytes;
} rota_exec_word;

/* A node that decides. Its bodies are programs of one segment, or none, whose operands are in the memories and words of
 * the program that the command is in; their commands come after all that the command comes after, and it ends when the
 * last of them has. A body may hold such commands, too.
 *
 * IF: runs bodies[0] once where the condition is not 0, else bodies[1]. WHILE: bodies[0] while it is not 0, read before
 * each iteration; not 0 after iterations_max of them: a failure. FOR: bodies[0] as often as it says, read once; more
 * than iterations_max: a failure without an iteration; `index` gets the number of each before it. SWITCH: the body of
 * that number, if there is one. An iteration begins when all of the one before it has ended. What fails in a body fails
 * the command, with body and iteration in its sentence, and no further iteration begins. Neither does one once the host
 * must_skip the node, which an executor that asks about nodes asks before each; one that does not asks now and then
 * while a loop runs, and the host leaves nothing to it that comes after a loop until that has ended. No host function
 * in a body ends later: an executor refuses the program (UNSUPPORTED).
 *
 * What a body's commands touch lies within the command's operands: what they write within those that are not READ. An
 * operand that is WRITE is memory of the bodies' own, without contents when an iteration begins. */
typedef struct rota_exec_conditional {
    uint8_t kind; /* rota_conditional_kind (graph/conditional_internal.h) */
    uint32_t body_count;
    uint64_t iterations_max;
    rota_exec_word condition, index;
    const struct rota_exec_program_desc *const *bodies; /* NULL among them: nothing to run */
} rota_exec_conditional;

typedef struct rota_exec_command {
    uint32_t node;         /* for messages and per-node times: see rota_exec_host.node_name */
    uint8_t kind;          /* rota_exec_command_kind */
    uint8_t operand_count; /* a kernel's, and one more where the scheduler added a workspace (last) */
    uint8_t binding_count;
    /* A kernel or copy whose last operand is 4 bytes, a READ: how many items it runs, or units it copies, which is read
     * once all that it comes after has ended. More than count_max: the node fails and nothing is run; 0: nothing is
     * run. The kernel does not get the operand; what it gets in the place of a parameter (count_bindable_plus_1) is
     * that number. Where caps.runs_counted. */
    bool is_counted;
    uint32_t first_operand; /* in program->operands */
    uint32_t first_binding; /* in program->bindings */
    union {
        struct {
            const rota_kernel *kernel;
            const void *params; /* kernel->param_bytes; lives as long as the program description */
            union {
                uint32_t groups[3]; /* where the kernel has no grid function */
                /* Of one that is counted, whose groups along x are as many as its items need, of so many each, and
                 * one along y and z where it has no grid function. */
                struct {
                    uint32_t items_per_group;
                    uint32_t count_bindable_plus_1; /* 0: no parameter gets the count */
                };
            };
            uint32_t count_max; /* of one that is counted */
        } kernel;
        struct {
            uint64_t unit_bytes; /* of one that is counted: its ranges are of count_max of them */
            uint32_t count_max;
        } copy;
        struct {
            uint32_t pattern;
        } fill;
        struct {
            rota_host_fn fn;
            void *user;
            const rota_host_later *later; /* in the place of fn */
        } host;
        const rota_exec_conditional *conditional;
    } u;
} rota_exec_command;

_Static_assert(sizeof(void *) != 8 || sizeof(rota_exec_command) == 48, "a plan has one for each node");

/* Of one that is counted. */
static inline uint32_t rota_exec_count_max(const rota_exec_command *command) {
    return command->kind == ROTA_EXEC_COMMAND_COPY ? command->u.copy.count_max : command->u.kernel.count_max;
}

typedef struct rota_exec_batch {
    uint32_t first_command, command_count; /* commands of a segment are contiguous, batch after batch */
} rota_exec_batch;

typedef struct rota_exec_segment {
    uint32_t queue;
    uint32_t first_batch, batch_count; /* batch_count 0: an empty segment that only waits and signals */
    uint32_t first_command, command_count;
    uint32_t first_join, join_count; /* of the program's joins */
} rota_exec_segment;

typedef enum rota_exec_memory_kind {
    ROTA_EXEC_BASE_PERSISTENT, /* one persistent buffer's memory: the same in every instance */
    ROTA_EXEC_BASE_ARENA,      /* a piece of a transient arena: per arena */
    ROTA_EXEC_BASE_STAGING     /* mapped memory of INPUT or OUTPUT contents: per instance */
} rota_exec_memory_kind;

/* A lowered program. Borrowed by program_create until program_destroy; immutable. */
typedef struct rota_exec_program_desc {
    const char *name;
    uint32_t queue_count;
    uint32_t command_count, operand_count, binding_count, batch_count, segment_count, memory_count;
    const rota_exec_command *commands;
    const rota_exec_operand *operands;
    const rota_exec_binding *bindings;
    const rota_exec_batch *batches;
    const rota_exec_segment *segments;
    /* Edges inside segments, over command indices: successors of c are successor[first_successor[c] ..
     * first_successor[c+1]); predecessor_count[c] is how many there are. From command_count on stand joins,
     * which have no command: one is passed when its predecessors completed or were passed, and has
     * successors, commands or joins of higher numbers, in the same segment. Batches need none. */
    uint32_t join_count;
    const uint32_t *first_successor; /* command_count + join_count + 1 */
    const uint32_t *successor;
    const uint32_t *predecessor_count;
    uint32_t block_words;       /* 8-byte words of the argument block; 0: none */
    const uint8_t *memory_kind; /* rota_exec_memory_kind of each memory */
    bool by_table;              /* nothing is chosen by measuring: rota_compile_options.deterministic */
    const void *owner;          /* for rota_exec_host.node_name and the poison calls */
} rota_exec_program_desc;

#endif
