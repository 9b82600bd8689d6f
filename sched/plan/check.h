/* rota_compile_options.check_kernels: what a kernel node becomes. Internal.
 *
 * Each operand gets two shadows, with bands of a pattern on both sides, which differs between the two. What
 * the kernel may read is copied into both; what it declares as WRITE keeps the pattern. The kernel runs once
 * on each, a host node compares them, and only what it finds right is copied out to where the node writes.
 * All of that are records like those of a lane, so it runs on every executor, and later steps know nothing of
 * it. */
#ifndef ROTA_SCHED_PLAN_CHECK_H
#define ROTA_SCHED_PLAN_CHECK_H

#include "sched/plan/compiler.h"

/* The records that take a kernel node's place, in order, in the plan's memory. */
typedef struct rota_check_records {
    const rota_node_record **list;
    uint32_t count;
} rota_check_records;

/* Whether a kernel node can be watched: not where what it writes lies interleaved, each operand between another's
 * bytes, of which a shadow of its own would lack what the others write. */
bool rota_compile_can_check(const rota_node_record *record);
/* For a node on `part`. O(accesses). */
rota_status rota_compile_check(rota_compiler *compiler, uint32_t part, const rota_node_record *record,
                               rota_check_records *out_records);

/* ---- What check.c tells check_compare.c ---- */

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
