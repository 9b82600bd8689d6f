/* What a program of ops and gradients looks like. */
#include "tests/random/gradient_draw.h"

#include <stdio.h>

static void print_view(const program *p, const program_view *view) {
    const rota_tensor *t = &view->tensor;
    if (view->root == PROGRAM_NONE) {
        fprintf(stderr, "-");
        return;
    }
    fprintf(stderr, "r%u", view->root);
    uint64_t stride = 1;
    bool is_whole = t->offset_bytes == 0;
    for (uint32_t i = t->rank; i-- > 0; stride *= t->shape[i])
        is_whole = is_whole && (t->stride[i] == stride || t->shape[i] == 1);
    fprintf(stderr, "[");
    for (uint32_t i = 0; i < t->rank; i++) fprintf(stderr, "%s%u", i ? "," : "", (unsigned)t->shape[i]);
    if (!is_whole || stride != p->roots[view->root].count) {
        fprintf(stderr, " at %u by", (unsigned)(t->offset_bytes / rota_dtype_bytes(t->dtype)));
        for (uint32_t i = 0; i < t->rank; i++) fprintf(stderr, "%s%u", i ? "," : " ", (unsigned)t->stride[i]);
    }
    fprintf(stderr, "]");
}

static void print_views(const program *p, const char *before, const program_view *views, uint32_t count) {
    fprintf(stderr, "%s", before);
    for (uint32_t i = 0; i < count; i++) {
        if (i) fprintf(stderr, ", ");
        print_view(p, &views[i]);
    }
}

static void print_attributes(const program_item *item) {
    const rota_op_attributes *a = &item->attributes;
    fprintf(
        stderr,
        "  {axis %u,%u start %u length %u integer %d numbers %g %g p %g scale %g smoothing %g%s%s%s%s%s%s}\n",
        a->axis[0], a->axis[1], (unsigned)a->start, (unsigned)a->length, a->integer, a->value[0].number,
        a->value[1].number, (double)a->p, (double)a->scale, (double)a->smoothing, a->keep ? " keep" : "",
        a->transpose_a ? " ta" : "", a->transpose_b ? " tb" : "", a->causal ? " causal" : "",
        a->evaluate ? " evaluate" : "", a->interleaved ? " interleaved" : "");
}

void program_print(const program *p) {
    for (uint32_t r = 0; r < p->root_count; r++) {
        const program_root *root = &p->roots[r];
        fprintf(stderr, "r%u: %s [%u]%s%s%s", r, rota_dtype_name(root->dtype), root->count,
                root->made_by == PROGRAM_NONE ? root->input && !root->written ? ", INPUT" : ", variable" : "",
                root->constant ? ", constant" : "", root->made_by == PROGRAM_NONE ? " =" : "");
        for (uint32_t e = 0; e < root->count && root->made_by == PROGRAM_NONE; e++)
            fprintf(stderr, " %.9g", p->start[root->base + e]);
        fprintf(stderr, "\n");
    }
    for (uint32_t k = 0; k < p->item_count; k++) {
        const program_item *item = &p->items[k];
        if (item->kind == PROGRAM_CALL) {
            const program_call *call = &p->calls[item->call];
            print_views(p, "backward of ", call->loss, call->loss_count);
            print_views(p, " by ", call->param, call->param_count);
            print_views(p, " into ", call->grad, call->param_count);
            fprintf(stderr, "%s%s\n", call->keep ? ", keep" : "", call->accumulate ? ", accumulate" : "");
            continue;
        }
        print_views(p, "", item->out, item->output_count);
        fprintf(stderr, " %s %s", item->made[0] ? "=" : "<-",
                item->kind == PROGRAM_OP ? item->op->name : draw_name(item->kind));
        print_views(p, "(", item->in, item->input_count);
        fprintf(stderr, ")");
        print_attributes(item);
    }
}
