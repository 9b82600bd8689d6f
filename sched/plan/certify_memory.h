/* Which memory each operand is in. Internal to certify*.c. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_MEMORY_H
#define ROTA_SCHED_PLAN_CERTIFY_MEMORY_H

#include "sched/plan/certify_parts.h"

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

#endif
