/* What the table says of each op's attributes: of what types they are, where, and that the op reads no others. */
#include <stddef.h>
#include <string.h>
#include "graph/graph_internal.h"
#include "ops/op_table.h"
#include "rota.h"
#include "tests/kit/support.h"

/* ---- Types and places ---- */

static const struct {
    const char *name;
    rota_attribute_type type;
    size_t offset, size;
} members[] = {
#define MEMBER(MEMBER, TYPE)                                                                                 \
    {                                                                                                        \
#MEMBER, ROTA_ATTRIBUTE_##TYPE, offsetof(rota_op_attributes, MEMBER),                                \
            sizeof((rota_op_attributes *)0)->MEMBER                                                          \
    }
    MEMBER(value[0], VALUE),
    MEMBER(value[1], VALUE),
    MEMBER(transpose_a, BOOL),
    MEMBER(transpose_b, BOOL),
    MEMBER(causal, BOOL),
    MEMBER(keep, BOOL),
    MEMBER(axis[0], U32),
    MEMBER(axis[1], U32),
    MEMBER(start, U64),
    MEMBER(length, U64),
    MEMBER(dtype, DTYPE),
    MEMBER(scale, F32),
    MEMBER(eps, F32),
    MEMBER(p, F32),
    MEMBER(beta1, F32),
    MEMBER(beta2, F32),
    MEMBER(weight_decay, F32),
    MEMBER(integer, I32),
    MEMBER(smoothing, F32),
    MEMBER(growth, F32),
    MEMBER(backoff, F32),
    MEMBER(evaluate, BOOL),
    MEMBER(interleaved, BOOL),
    MEMBER(flags, U32),
    MEMBER(stream, U32),
    MEMBER(window.extent[0], U32),
    MEMBER(window.extent[1], U32),
    MEMBER(window.size[0], U32),
    MEMBER(window.size[1], U32),
    MEMBER(window.stride[0], U32),
    MEMBER(window.stride[1], U32),
    MEMBER(window.padding[0], U32),
    MEMBER(window.padding[1], U32),
    MEMBER(window.dilation[0], U32),
    MEMBER(window.dilation[1], U32),
    MEMBER(window.output_padding[0], U32),
    MEMBER(window.output_padding[1], U32),
    MEMBER(window.groups, U32),
    MEMBER(window.ceil_mode, BOOL),
    MEMBER(window.exclude_padding, BOOL),
    MEMBER(window.allow_tf32, BOOL),
    MEMBER(window.channels_last, BOOL),
};
enum { MEMBERS = sizeof members / sizeof *members };

static size_t member_of(const rota_op *op, const rota_op_attribute *attribute) {
    size_t m = 0;
    while (m < MEMBERS && members[m].offset != attribute->offset_bytes) m++;
    if (m == MEMBERS) fail_msg("attribute '%s' of '%s' is no member", attribute->name, op->name);
    return m;
}

static void each_is_a_member_of_its_type(void **state) {
    (void)state;
    uint32_t seen = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        const rota_op *op = rota_op_at(o);
        for (const rota_op_attribute *a = op->attributes; a && a->name; a++) {
            const size_t m = member_of(op, a);
            if (a->type != members[m].type || !a->name[0])
                fail_msg("attribute '%s' of '%s' is of type %d, and %s of %d", a->name, op->name,
                         (int)a->type, members[m].name, (int)members[m].type);
            for (const rota_op_attribute *b = op->attributes; b < a; b++)
                if (strcmp(a->name, b->name) == 0 || a->offset_bytes == b->offset_bytes)
                    fail_msg("attributes '%s' and '%s' of '%s' are one", b->name, a->name, op->name);
            seen++;
        }
        for (uint32_t v = 0; v < 2; v++) { /* what varies by step is listed */
            const rota_op_attribute *a = op->attributes;
            while (a && a->name &&
                   a->offset_bytes != offsetof(rota_op_attributes, value) + v * sizeof(rota_value))
                a++;
            if (op->varies_by_step & 1u << v && (!a || !a->name))
                fail_msg("value %u of '%s' is not listed", v, op->name);
        }
    }
    assert_true(seen > 60);
}

/* Whose names are static is told by their place in memory. */
static void ops_of_the_table_are_told_from_others(void **state) {
    (void)state;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        const rota_op other = *rota_op_at(o);
        assert_true(rota_op_is_listed(rota_op_at(o)));
        assert_false(rota_op_is_listed(&other));
    }
}

/* ---- What is read ---- */

typedef struct recording {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    uint8_t bytes[1u << 16]; /* the nodes as they were recorded, but for their names' addresses */
    size_t size;
} recording;

static rota_tensor tensor_of(rota_tape *tape, const rota_tensor *like) {
    rota_tensor made = ROTA_TENSOR_NONE;
    if (like->dtype != ROTA_DTYPE_COUNT)
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "operand", like->dtype, like->rank,
                                   like->shape, &made));
    return made;
}

/* The gradient of the op's first result by the first input that has one. */
static void record_gradient(rota_tape *tape, const rota_op_use *use) {
    rota_tensor loss = use->outputs[0], gradient = ROTA_TENSOR_NONE;
    uint32_t wanted = 0;
    while (wanted < use->input_count &&
           !(use->op->differentiable & 1u << wanted && use->inputs[wanted].buffer &&
             rota_dtype_is_real(use->inputs[wanted].dtype)))
        wanted++;
    if (wanted == use->input_count || use->output_count == 0 || !rota_dtype_is_real(loss.dtype)) return;
    if (rota_tensor_is_empty(&use->inputs[wanted]) || rota_tensor_is_empty(&loss)) return;
    assert_ok(rota_op_cast(tape, loss, ROTA_F32, &loss));
    assert_ok(rota_op_reshape(tape, loss, ROTA_SHAPE(rota_tensor_count(&loss)), &loss));
    assert_ok(rota_op_mse(tape, loss, loss, &loss));
    assert_ok(rota_backward(tape, loss, &use->inputs[wanted], 1, &gradient, NULL));
}

static void keep_nodes(recording *r) {
    r->size = 0;
    for (rota_lane_chunk *chunk = r->recorder->first_chunk; chunk; chunk = chunk->next) {
        const uint8_t *end = chunk == r->recorder->chunk ? r->recorder->next : chunk->end;
        for (const uint8_t *record = (const uint8_t *)(chunk + 1); record < end;) {
            const rota_node_record *node = (const void *)record;
            assert_true(r->size + rota_record_bytes(node) <= sizeof r->bytes);
            memcpy(r->bytes + r->size, node, rota_record_bytes(node));
            memset(r->bytes + r->size + offsetof(rota_node_record, name), 0, sizeof node->name);
            r->size += rota_record_bytes(node);
            record += rota_record_bytes(node);
        }
        if (chunk == r->recorder->chunk) break;
    }
}

static void record(recording *r, const rota_op_example *example, const rota_op_attributes *attributes) {
    memset(r, 0, sizeof *r);
    assert_ok(rota_graph_create(NULL, &r->graph));
    assert_ok(rota_recorder_open(r->graph, 0, NULL, &r->recorder));
    assert_ok(rota_tape_create(r->recorder, NULL, &r->tape));
    rota_op_use use = example->use;
    use.attributes = *attributes;
    for (uint32_t i = 0; i < use.input_count; i++)
        use.inputs[i] = tensor_of(r->tape, &example->use.inputs[i]);
    for (uint32_t i = 0; i < use.output_count; i++)
        if (use.outputs[i].rank) use.outputs[i] = tensor_of(r->tape, &example->use.outputs[i]);
    assert_ok(rota_op_apply(r->tape, &use));
    record_gradient(r->tape, &use);
    keep_nodes(r);
    rota_tape_destroy(r->tape);
    rota_recorder_close(r->recorder);
    rota_graph_release(r->graph);
}

/* The attributes with each that the op does not list changed: every byte 1, of a value its number and slot. */
static rota_op_attributes with_others_changed(const rota_op *op, const rota_op_attributes *attributes) {
    rota_op_attributes changed = *attributes;
    for (size_t m = 0; m < MEMBERS; m++) {
        bool listed = false;
        for (const rota_op_attribute *a = op->attributes; a && a->name; a++)
            listed = listed || a->offset_bytes == members[m].offset;
        if (listed) continue;
        memset((uint8_t *)&changed + members[m].offset, 1, members[m].size);
    }
    for (uint32_t v = 0; v < 2; v++) changed.value[v].kind = attributes->value[v].kind;
    return changed;
}

static void what_is_not_listed_is_not_read(void **state) {
    (void)state;
    static recording plain, changed;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        const rota_op *op = rota_op_at(o);
        rota_op_example example;
        for (uint32_t i = 0; rota_op_get_example(op, i, 0, &example); i++) {
            const rota_op_attributes others = with_others_changed(op, &example.use.attributes);
            record(&plain, &example, &example.use.attributes);
            record(&changed, &example, &others);
            assert_true(plain.size > 0 || op->stops_gradient || rota_tensor_is_empty(&example.use.inputs[0]));
            if (plain.size != changed.size || memcmp(plain.bytes, changed.bytes, plain.size) != 0)
                fail_msg("'%s' (%s) reads an attribute that it does not list", op->name, example.label);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_a_member_of_its_type),
        cmocka_unit_test(ops_of_the_table_are_told_from_others),
        cmocka_unit_test(what_is_not_listed_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
