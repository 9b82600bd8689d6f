/* The table of ops, put together from its files. */
#include "ops/op.h"

#include <string.h>

static const rota_op *const *families(uint32_t *out_count) {
    static const rota_op *const lists[] = {
        rota_ops_binary, rota_ops_unary,      rota_ops_choose, rota_ops_move,
        rota_ops_reduce, rota_ops_along,      rota_ops_matmul, rota_ops_linear,
        rota_ops_norm,   rota_ops_batch_norm, rota_ops_rope,   rota_ops_scores,
        rota_ops_loss,   rota_ops_attention,  rota_ops_update, rota_ops_optimizer};
    *out_count = sizeof lists / sizeof lists[0];
    return lists;
}

const rota_op *rota_op_at(uint32_t index) {
    uint32_t count;
    const rota_op *const *lists = families(&count);
    for (uint32_t f = 0; f < count; f++)
        for (const rota_op *op = lists[f]; op->name; op++)
            if (index-- == 0) return op;
    return NULL;
}

uint32_t rota_op_count(void) {
    uint32_t count = 0;
    while (rota_op_at(count)) count++;
    return count;
}

const rota_op *rota_op_find(const char *name) {
    if (!name) return NULL;
    uint32_t count;
    const rota_op *const *lists = families(&count);
    for (uint32_t f = 0; f < count; f++)
        for (const rota_op *op = lists[f]; op->name; op++)
            if (strcmp(op->name, name) == 0) return op;
    return NULL;
}

bool rota_op_get_example(const rota_op *op, uint32_t index, uint32_t size, rota_op_example *out_example) {
    if (!op || !out_example || !op->example || !op->example(index, size, out_example)) return false;
    out_example->use.op = op;
    out_example->use.input_count = op->input_count;
    out_example->use.output_count = op->output_count;
    return true;
}
