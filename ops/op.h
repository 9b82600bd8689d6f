/* What the files that define ops share: their lists, and helpers for examples. Internal. */
#ifndef ROTA_OPS_OP_H
#define ROTA_OPS_OP_H

#include <stddef.h>
#include "ops/tape.h"

/* Ops of each file, ended by one without name. */
#define FAMILY(NAME) extern const rota_op rota_ops_##NAME[];
#define OP(FAMILY, NAME)
#include "ops/ops.def"

/* The places of ops: rota_op_at(ROTA_OP_add). Between two families' nothing is left out. */
enum {
#define FAMILY(NAME) ROTA_OPS_FIRST_##NAME, ROTA_OPS_BEFORE_##NAME = ROTA_OPS_FIRST_##NAME - 1,
#define OP(FAMILY, NAME) ROTA_OP_##NAME,
#include "ops/ops.def"
    ROTA_OPS_COUNT
};

/* The attributes of an op, each with the member that has it; the type is the member's. (A dtype's is a u32's to
 * the compiler.) */
#define ATTRIBUTES(...) ((const rota_op_attribute[]){__VA_ARGS__, {0}})
/* clang-format off */
#define ATTRIBUTE(NAME, MEMBER) {#NAME, ATTRIBUTE_TYPE(MEMBER), offsetof(rota_op_attributes, MEMBER)}
#define ATTRIBUTE_DTYPE {"dtype", ROTA_ATTRIBUTE_DTYPE, offsetof(rota_op_attributes, dtype)}
#define ATTRIBUTE_TYPE(MEMBER)                                                                               \
    _Generic(((rota_op_attributes *)0)->MEMBER,                                                              \
        rota_value: ROTA_ATTRIBUTE_VALUE,                                                                    \
        bool: ROTA_ATTRIBUTE_BOOL,                                                                           \
        uint32_t: ROTA_ATTRIBUTE_U32,                                                                        \
        uint64_t: ROTA_ATTRIBUTE_U64,                                                                        \
        int32_t: ROTA_ATTRIBUTE_I32,                                                                         \
        float: ROTA_ATTRIBUTE_F32)
/* clang-format on */

#endif
