/* What a watched kernel did: the comparison of its shadows (check.h), on a host node. Internal. */
#ifndef ROTA_SCHED_PLAN_CHECK_COMPARE_H
#define ROTA_SCHED_PLAN_CHECK_COMPARE_H

#include <stdbool.h>
#include <stdint.h>
#include "graph/graph.h"

/* Bytes of the pattern on each side of an operand. */
enum { ROTA_CHECK_BAND = 4096 };
/* 32-bit patterns of the two shadows: no byte is alike. */
#define ROTA_CHECK_PATTERN_A 0xa5a5a5a5u
#define ROTA_CHECK_PATTERN_B 0x3c3c3c3cu

typedef struct rota_check_operand {
    const char *buffer;
    uint64_t offset_bytes; /* in that */
    uint64_t lead_bytes;   /* in a shadow: where the operand begins */
    uint64_t size_bytes;
    rota_access_mode mode;
    uint32_t number;
    bool is_scratch; /* WRITE, and may be left */
    /* Which accesses of the host node are its shadows, and, of a READ, what they were copied from. */
    uint32_t first, second, original;
} rota_check_operand;

/* What a host node compares. */
typedef struct rota_check {
    const rota_kernel *kernel;
    const rota_check_operand *operands;
    uint32_t count;
} rota_check;

/* rota_host_fn of a rota_check: NODE_FAILED says what the kernel did, where, and what to do about it. */
rota_status rota_check_compare(void *user, void *const *operands, const uint64_t *operand_bytes,
                               uint32_t operand_count);

#endif
