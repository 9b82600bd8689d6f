/* What lowering builds of each part. Internal to lower*.c. */
#ifndef ROTA_SCHED_PLAN_LOWER_PARTS_H
#define ROTA_SCHED_PLAN_LOWER_PARTS_H

#include "sched/plan/compiler.h"

/* Per part, while it is built. */
typedef struct part_builder {
    rota_exec_command *commands;
    rota_exec_batch *batches;
    rota_exec_segment *segments;
    rota_vector memories; /* rota_plan_memory */
    uint32_t *first_successor, *successor, *predecessor_count;
    uint32_t command_count, batch_count, segment_count, edge_count, join_count;
    uint32_t input_memory, output_memory; /* staging of INPUT and OUTPUT contents */
    uint64_t input_bytes, output_bytes;
    uint32_t first_piece; /* memory of arena piece 0 */
    uint32_t
        *foreign_piece; /* memory index here of the pieces of other parts' arenas; ROTA_NONE: not used yet */
    rota_exec_binding *bindings;
    uint32_t binding_count;
    bool ends_later; /* it has a host node that does */
} part_builder;

typedef struct lowering {
    rota_compiler *c;
    part_builder *parts;
    part_builder *only_part;          /* of the plan's only segment; NULL: it has several */
    rota_vector words;                /* rota_plan_word */
    uint32_t *first_batch;            /* by plan segment, in its part */
    uint32_t *level_count;            /* by plan segment */
    uint32_t *command_of;             /* by operation: its command, dense for the passes over edges */
    uint32_t *first_join, *joins_end; /* by plan segment, in its part */
    uint32_t
        *foreign_memory; /* of several parts, by physical and part: its memory index (SLOT: word) in a part
                                 that does not own it */
} lowering;

/* What dot, explain and traces need of physicals, once they are packed. */
rota_status rota_lower_keep_physicals(rota_compiler *compiler);
/* Operands have from physicals what they need, before what executors get takes as much memory: those of plans on one
 * device go, where no memory limit asks for the largest, and the list of accesses' where it isn't looked at. */
void rota_lower_drop_physicals(rota_compiler *compiler);

/* lower_parts.c: how many pieces of arenas the parts before this one have; what executors get. */
uint32_t rota_lower_pieces(const rota_compiler *c, uint32_t part);
rota_status rota_lower_write_parts(lowering *l);
/* Of a node that is counted: what, and that it may fail by itself. */
void rota_lower_counted(const lowering *l, const rota_operation *operation, rota_exec_command *command);
/* Refuses a kernel that brings nothing for its device. */
rota_status rota_lower_find_kernel(const lowering *l, uint32_t n, const rota_kernel *kernel,
                                   const rota_device_traits *device);
static inline rota_status rota_lower_check_kernel(const lowering *l, uint32_t n, const rota_kernel *kernel,
                                                  const rota_device_traits *device) {
    if (device->kind == ROTA_EXEC_CPU && kernel->cpu.fn) return ROTA_OK;
    return rota_lower_find_kernel(l, n, kernel, device);
}

#endif
