/* The op table's examples in other shapes. */
#include "bench/ops_shapes.h"

#include <string.h>
#include "base/hash.h"

#define EXTENTS_MAX (8 * ROTA_RANK_MAX)
#define RANDOM_ELEMENTS (1u << 14)
#define LARGE_ELEMENTS ((1u << 24) + 1)

/* The extents that occur, once each, and what becomes of them. */
typedef struct renaming {
    uint32_t count;
    uint64_t from[EXTENTS_MAX], to[EXTENTS_MAX];
} renaming;

static bool is_there(const rota_tensor *x) {
    return x->dtype != ROTA_DTYPE_COUNT && x->rank <= ROTA_RANK_MAX;
}

static void collect(renaming *r, const rota_tensor *x) {
    for (uint32_t d = 0; is_there(x) && d < x->rank; d++) {
        uint32_t i = 0;
        while (i < r->count && r->from[i] != x->shape[d]) i++;
        if (i < r->count || r->count == EXTENTS_MAX) continue;
        r->from[r->count] = r->to[r->count] = x->shape[d];
        r->count++;
    }
}

static uint64_t renamed(const renaming *r, uint64_t extent) {
    for (uint32_t i = 0; i < r->count; i++)
        if (r->from[i] == extent) return r->to[i];
    return extent;
}

static uint64_t elements(const renaming *r, const rota_tensor *x) {
    uint64_t count = 1;
    for (uint32_t d = 0; is_there(x) && d < x->rank; d++) count *= renamed(r, x->shape[d]);
    return count;
}

static uint64_t most_elements(const renaming *r, const rota_op_use *use) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < use->op->input_count; i++) {
        const uint64_t count = elements(r, &use->inputs[i]);
        most = count > most ? count : most;
    }
    return most;
}

static uint64_t random_bits(uint64_t *state) {
    return rota_hash_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static bool rename_random(renaming *r, const rota_op_use *use, uint64_t seed) {
    static const uint64_t extents[] = {1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 63, 65, 127, 200, 257};
    enum { COUNT = sizeof extents / sizeof *extents };
    uint64_t state = seed;
    for (uint32_t most = COUNT; most > 2; most--) { /* smaller ones, until it is small enough */
        for (uint32_t i = 0; i < r->count; i++)
            if (r->from[i] > 1) r->to[i] = extents[random_bits(&state) % most];
        if (most_elements(r, use) <= RANDOM_ELEMENTS) return true;
    }
    return false;
}

/* The axis that the op walks; the rank if it walks none. */
static uint32_t walked_axis(const rota_op_use *use) {
    static const char *const rows[] = {"softmax", "log_softmax",        "layernorm",     "rmsnorm",
                                       "matmul",  "residual_layernorm", "cross_entropy", "classifier"};
    const rota_tensor *x = &use->inputs[0];
    for (const rota_op_attribute *a = use->op->attributes; a && a->name; a++)
        if (a->offset_bytes == offsetof(rota_op_attributes, axis[0])) return use->attributes.axis[0];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(use->op->name, rows[i]) == 0)
            return x->rank - (use->attributes.transpose_a && x->rank > 1 ? 2 : 1);
    return x->rank;
}

/* The first axis that is not of one element alone: of what is summed over inside, or compared pair by pair,
 * there is no more then. */
static uint32_t first_axis(const rota_tensor *x) {
    uint32_t axis = 0;
    while (axis + 1 < x->rank && x->shape[axis] == 1) axis++;
    return axis;
}

static bool rename_large(renaming *r, const rota_op_use *use, bool walked) {
    const rota_tensor *x = use->op->input_count ? &use->inputs[0] : &use->outputs[0];
    if (!is_there(x) || x->rank == 0) return false;
    const uint32_t first = first_axis(x), grown = walked ? walked_axis(use) : first;
    if (grown >= x->rank || (walked && x->shape[grown] == x->shape[first])) return false;
    for (uint32_t i = 0; i < r->count; i++) r->to[i] = r->from[i];
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->from[i] != x->shape[grown]) continue;
        r->to[i] = 1;
        r->to[i] = LARGE_ELEMENTS / elements(r, x) + 1;
        break;
    }
    return elements(r, x) >= LARGE_ELEMENTS && most_elements(r, use) <= 4ull * LARGE_ELEMENTS;
}

static void rename_tensor(const renaming *r, rota_tensor *x) {
    uint64_t shape[ROTA_RANK_MAX];
    if (!is_there(x)) return;
    for (uint32_t d = 0; d < x->rank; d++) shape[d] = renamed(r, x->shape[d]);
    (void)rota_tensor_of(NULL, 0, x->dtype, x->rank, shape, x); /* too many elements: as it was */
}

bool shapes_walk(const rota_op_use *use, uint64_t *out_rows) {
    const rota_tensor *x = &use->inputs[0];
    const uint32_t axis = use->op->input_count ? walked_axis(use) : 0;
    if (!use->op->input_count || axis >= x->rank) return false;
    if (out_rows) *out_rows = x->shape[axis] ? rota_tensor_count(x) / x->shape[axis] : 0;
    return true;
}

bool shapes_change(rota_op_example *example, shapes_kind kind, uint64_t seed) {
    rota_op_use *use = &example->use;
    renaming r = {0};
    if (kind == SHAPES_AS_GIVEN) return seed == 0;
    for (uint32_t i = 0; i < use->op->input_count; i++) collect(&r, &use->inputs[i]);
    for (uint32_t i = 0; i < use->op->output_count; i++) collect(&r, &use->outputs[i]);
    if (r.count == 0) return false;
    if (kind == SHAPES_RANDOM && !rename_random(&r, use, seed)) return false;
    if (kind == SHAPES_LARGE && !rename_large(&r, use, seed > 0)) return false;
    if (kind == SHAPES_EMPTY) {
        if (seed >= r.count) return false;
        r.to[seed] = 0;
    }
    for (uint32_t i = 0; i < use->op->input_count; i++) rename_tensor(&r, &use->inputs[i]);
    for (uint32_t i = 0; i < use->op->output_count; i++) rename_tensor(&r, &use->outputs[i]);
    /* one_hot's are an attribute. */
    if (strcmp(use->op->name, "one_hot") != 0) example->classes = renamed(&r, example->classes);
    return true;
}
