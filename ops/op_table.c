/* The table of ops, put together from its files. */
#include "ops/op_table.h"

#include <string.h>

#include "ops/op.h"

const rota_op *rota_op_at(uint32_t index) {
    static const rota_op *const ops[] = {
#define FAMILY(NAME)
#define OP(FAMILY, NAME) &rota_ops_##FAMILY[ROTA_OP_##NAME - ROTA_OPS_FIRST_##FAMILY],
#include "ops/ops.def"
    };
    return index < ROTA_OPS_COUNT ? ops[index] : NULL;
}

bool rota_op_is_listed(const rota_op *op) {
    static const struct {
        const rota_op *ops;
        uint32_t first;
    } families[] = {
#define FAMILY(NAME) {rota_ops_##NAME, ROTA_OPS_FIRST_##NAME},
#define OP(FAMILY, NAME)
#include "ops/ops.def"
        {NULL, ROTA_OPS_COUNT},
    };
    for (uint32_t f = 0; families[f].ops; f++)
        if ((uintptr_t)op - (uintptr_t)families[f].ops <
            (families[f + 1].first - families[f].first) * sizeof(rota_op))
            return true;
    return false;
}

uint32_t rota_op_count(void) {
    return ROTA_OPS_COUNT;
}

const rota_op *rota_op_find(const char *name) {
    if (!name) return NULL;
    for (uint32_t i = 0; i < ROTA_OPS_COUNT; i++)
        if (strcmp(rota_op_at(i)->name, name) == 0) return rota_op_at(i);
    return NULL;
}

bool rota_op_get_example(const rota_op *op, uint32_t index, uint32_t size, rota_op_example *out_example) {
    if (!op || !out_example || !op->example) return false;
    out_example->use.op = op; /* where the function finds its `user`; it may fill in the whole example */
    if (!op->example(index, size, out_example)) return false;
    out_example->use.op = op;
    out_example->use.input_count = op->input_count;
    out_example->use.output_count = op->output_count;
    return true;
}
