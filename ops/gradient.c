/* Where gradients live. The gradient of a tensor lies in a region that mirrors the memory of the tensor's
 * buffer, so a view's gradient is the same view of the region, and views need no ops of their own. A region
 * knows which bytes hold something (are written or zeroed) and which views were added to. */
#include "ops/gradient.h"
#include "base/given.h"
#include "ops/record.h"

#include <stdlib.h>
#include <string.h>

/* ---- Byte ranges that hold something: sorted, apart from one another ---- */

rota_status rota_backward_no_memory(void) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "backward: no host memory");
}

static rota_status ranges_insert(rota_tape *tape, rota_gradient_region *region, uint64_t begin,
                                 uint64_t end) {
    rota_byte_range **link = &region->written;
    while (*link && (*link)->end < begin) link = &(*link)->next;
    while (*link && (*link)->begin <= end) {
        begin = (*link)->begin < begin ? (*link)->begin : begin;
        end = (*link)->end > end ? (*link)->end : end;
        *link = (*link)->next;
    }
    rota_byte_range *range = rota_arena_alloc(&tape->arena, sizeof *range, 8);
    if (!range) return rota_backward_no_memory();
    *range = (rota_byte_range){*link, begin, end};
    *link = range;
    return ROTA_OK;
}

static rota_status ranges_remove(rota_tape *tape, rota_gradient_region *region, uint64_t begin,
                                 uint64_t end) {
    rota_byte_range **link = &region->written;
    while (*link && (*link)->begin < end) {
        rota_byte_range *range = *link;
        if (range->end <= begin) {
            link = &range->next;
            continue;
        }
        if (range->begin < begin && range->end > end) {
            rota_byte_range *rest = rota_arena_alloc(&tape->arena, sizeof *rest, 8);
            if (!rest) return rota_backward_no_memory();
            *rest = (rota_byte_range){range->next, end, range->end};
            range->next = rest;
            range->end = begin;
            return ROTA_OK;
        }
        if (range->begin < begin) {
            range->end = begin;
            link = &range->next;
        } else if (range->end > end) {
            range->begin = end;
            link = &range->next;
        } else {
            *link = range->next;
        }
    }
    return ROTA_OK;
}

static bool ranges_touch(const rota_gradient_region *region, uint64_t begin, uint64_t end) {
    for (const rota_byte_range *range = region->written; range && range->begin < end; range = range->next)
        if (range->end > begin) return true;
    return false;
}

/* Zeroes bytes [from, to) of a region. Fills write whole words; what is left at the ends of a region that was
 * given is one element of 16 bits. */
static rota_status zero_bytes(rota_tape *tape, const rota_gradient_region *region, uint64_t from,
                              uint64_t to) {
    rota_buffer *buffer = region->memory.buffer;
    uint64_t offset = region->memory.offset_bytes + from - region->begin, end = offset + to - from;
    while (offset < end) {
        const uint64_t words = offset % 4 == 0 ? (end - offset) / 4 * 4 : 0;
        if (words) {
            ROTA_TRY(rota_record_zero(tape, buffer, offset, words));
            offset += words;
            continue;
        }
        rota_tensor zero, half = {.buffer = buffer, .offset_bytes = offset, .dtype = ROTA_F16};
        ROTA_TRY(rota_tape_temporary(tape, "zero", ROTA_F16, 0, NULL, &zero));
        ROTA_TRY(rota_record_zero(tape, zero.buffer, 0, 4));
        ROTA_TRY(rota_record_strided(tape, &zero, &half, 1.0f, false));
        offset += 2;
    }
    return ROTA_OK;
}

/* Widens [begin, end) to whole words of the memory, as far as the region goes. What is written is whole words,
 * since a node that writes one half of a word reads the other. */
static void to_words(const rota_gradient_region *region, uint64_t *begin, uint64_t *end) {
    const uint64_t before = (region->memory.offset_bytes + *begin - region->begin) % 4,
                   beyond = (region->memory.offset_bytes + *end - region->begin) % 4;
    *begin = *begin - region->begin >= before ? *begin - before : region->begin;
    if (beyond) *end = *end + 4 - beyond < region->end ? *end + 4 - beyond : region->end;
}

rota_status rota_gradient_zero_rest(rota_tape *tape, rota_gradient_region *region, uint64_t begin,
                                    uint64_t end) {
    to_words(region, &begin, &end);
    uint64_t from = begin;
    for (const rota_byte_range *range = region->written; from < end; range = range->next) {
        uint64_t to = range && range->begin < end ? range->begin : end;
        if (to > from) ROTA_TRY(zero_bytes(tape, region, from, to));
        if (!range || range->begin >= end) break;
        from = range->end > from ? range->end : from;
    }
    return ranges_insert(tape, region, begin, end);
}

/* ---- Regions ---- */

rota_status rota_gradient_region_add(rota_tape *tape, const rota_tensor *x, const rota_tensor *memory,
                                     bool given, rota_gradient_region **out_region) {
    rota_tape_buffer *entry = rota_tape_lookup(tape, x);
    rota_gradient_region *region = entry ? rota_arena_calloc(&tape->arena, sizeof *region, 8) : NULL;
    if (!region) return rota_backward_no_memory();
    region->begin = rota_tensor_begin(x);
    region->end = region->begin + rota_tensor_extent_bytes(x);
    region->memory = *memory;
    *out_region = region;
    rota_gradient_region **link = &entry->regions;
    while (*link) link = &(*link)->next;
    if (!given) *link = region;
    return ROTA_OK;
}

static int by_place(const void *a, const void *b) {
    const rota_place *x = a, *y = b;
    if (x->root != y->root) return (uintptr_t)x->root < (uintptr_t)y->root ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

rota_status rota_gradient_places(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                 rota_place **out_places, uint32_t *out_count, rota_overlap *out_overlap) {
    rota_place *places = rota_arena_alloc(&tape->arena, ((uint64_t)count + 1) * sizeof *places, 8);
    uint32_t n = 0, longest = 0;
    if (!places) return rota_backward_no_memory();
    for (uint32_t i = 0; i < count; i++) {
        if (!tensors[i].buffer || rota_tensor_is_empty(&tensors[i])) continue;
        const uint64_t begin = rota_tensor_begin(&tensors[i]);
        places[n++] = (rota_place){.root = rota_tensor_root(&tensors[i]),
                                   .begin = begin,
                                   .end = begin + rota_tensor_extent_bytes(&tensors[i]),
                                   .index = i};
    }
    qsort(places, n, sizeof *places, by_place);
    *out_overlap = (rota_overlap){0};
    for (uint32_t i = 1; i < n && !out_overlap->found; i++) {
        const rota_place *before = &places[longest];
        if (before->root == places[i].root && before->end > places[i].begin) {
            const bool ascends = before->index < places[i].index;
            *out_overlap = (rota_overlap){.found = true,
                                          .first = ascends ? before->index : places[i].index,
                                          .second = ascends ? places[i].index : before->index};
        }
        if (before->root != places[i].root || before->end < places[i].end) longest = i;
    }
    *out_places = places;
    *out_count = n;
    return ROTA_OK;
}

uint32_t rota_gradient_given_from(const rota_tape_buffer *entry, uint64_t begin) {
    uint32_t low = 0, high = entry ? entry->given_count : 0;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (entry->given[middle]->end <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first that has bytes in common with [begin, end); NULL if none has. */
static rota_gradient_region *given_in(const rota_tape_buffer *entry, uint64_t begin, uint64_t end) {
    const uint32_t first = rota_gradient_given_from(entry, begin);
    return entry && first < entry->given_count && entry->given[first]->begin < end ? entry->given[first]
                                                                                   : NULL;
}

/* The region that holds x's gradient; NULL in *out if none is wanted. One that was given comes first;
 * else one that mirrors the whole buffer is made when it is first needed. */
static rota_status region_of(rota_tape *tape, const rota_tensor *x, rota_gradient_region **out) {
    *out = NULL;
    rota_tape_buffer *entry = rota_tape_lookup(tape, x);
    if (!entry) return rota_backward_no_memory();
    const uint64_t begin = rota_tensor_begin(x), end = begin + rota_tensor_extent_bytes(x);
    rota_gradient_region *given = given_in(entry, begin, end);
    if (given && (begin < given->begin || end > given->end)) {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_fail(ROTA_UNSUPPORTED, "backward: %s in buffer '%s' lies only partly in a parameter",
                         rota_tensor_describe(x, text, sizeof text), rota_buffer_name(x->buffer));
    }
    *out = given;
    for (rota_gradient_region *region = entry->regions; region && !*out; region = region->next)
        if (begin >= region->begin && end <= region->end) *out = region;
    if (*out) return ROTA_OK;
    if (!entry->wanted || !rota_dtype_is_real(x->dtype)) return ROTA_OK;
    /* Bytes alone: the tensors in the buffer may be of several dtypes. */
    const uint64_t words = (rota_buffer_size(entry->root) + 3) / 4;
    rota_tensor memory,
        whole = {.buffer = entry->root, .dtype = ROTA_F32, .rank = 1, .shape = {words}, .stride = {1}};
    ROTA_TRY(rota_tape_temporary(tape, "gradient", ROTA_F32, 1, &words, &memory));
    return rota_gradient_region_add(tape, &whole, &memory, false, out);
}

rota_status rota_gradient_in_place(rota_tape *tape, const rota_tensor *x, bool *out_in_place) {
    rota_tape_buffer *entry = rota_tape_lookup(tape, x);
    if (!entry) return rota_backward_no_memory();
    *out_in_place = !tape->keep && entry->wanted && !entry->regions && !entry->given_count &&
                    rota_tensor_is_contiguous(x) && rota_tensor_begin(x) == 0 &&
                    rota_tensor_root(x) == entry->root && !entry->unshard && /* others read it, or the same */
                    rota_buffer_get_kind(entry->root) == ROTA_BUFFER_TRANSIENT &&
                    rota_tensor_extent_bytes(x) == rota_buffer_size(entry->root);
    rota_gradient_region *region;
    return *out_in_place ? rota_gradient_region_add(tape, x, x, false, &region) : ROTA_OK;
}

static rota_tensor mirror(const rota_gradient_region *region, const rota_tensor *x) {
    rota_tensor dx = *x;
    dx.buffer = region->memory.buffer;
    dx.offset_bytes = region->memory.offset_bytes + rota_tensor_begin(x) - region->begin;
    return dx;
}

bool rota_gradient_wanted(rota_tape *tape, const rota_tensor *x) {
    return tape && x && rota_gradient_passes(tape, x);
}

bool rota_gradient_passes(rota_tape *tape, const rota_tensor *x) {
    if (!x->buffer || !rota_dtype_is_real(x->dtype) || rota_tensor_is_empty(x)) return false;
    const rota_tape_buffer *entry = rota_tape_lookup(tape, x);
    if (!entry) return false;
    if (entry->wanted) return true;
    const uint64_t begin = rota_tensor_begin(x), end = begin + rota_tensor_extent_bytes(x);
    if (given_in(entry, begin, end)) return true;
    for (const rota_gradient_region *region = entry->regions; region; region = region->next)
        if (begin < region->end && end > region->begin) return true;
    return false;
}

bool rota_gradient_touched(rota_tape *tape, const rota_tensor *y) {
    const rota_tape_buffer *entry = rota_tape_lookup(tape, y);
    if (!entry) return false;
    const uint64_t begin = rota_tensor_begin(y), end = begin + rota_tensor_extent_bytes(y);
    for (uint32_t i = rota_gradient_given_from(entry, begin);
         i < entry->given_count && entry->given[i]->begin < end; i++)
        if (ranges_touch(entry->given[i], begin, end)) return true;
    for (const rota_gradient_region *region = entry->regions; region; region = region->next)
        if (ranges_touch(region, begin, end)) return true;
    return false;
}

rota_gradient_region *rota_gradient_given(rota_tape *tape, const rota_tensor *y) {
    const rota_tape_buffer *entry = rota_tape_lookup(tape, y);
    const uint64_t begin = rota_tensor_begin(y);
    return given_in(entry, begin, begin + rota_tensor_extent_bytes(y));
}

rota_status rota_gradient_read(rota_tape *tape, const rota_tensor *y, rota_tensor *out_dy) {
    rota_gradient_region *region;
    ROTA_TRY(region_of(tape, y, &region));
    if (!region)
        return rota_fail(ROTA_INTERNAL, "backward: no gradient of buffer '%s'", rota_buffer_name(y->buffer));
    const uint64_t begin = rota_tensor_begin(y);
    ROTA_TRY(rota_gradient_zero_rest(tape, region, begin, begin + rota_tensor_extent_bytes(y)));
    *out_dy = mirror(region, y);
    return ROTA_OK;
}

rota_status rota_gradient_clear(rota_tape *tape, const rota_tensor *y, bool written_before) {
    rota_gradient_region *region;
    ROTA_TRY(region_of(tape, y, &region));
    if (!region) return ROTA_OK;
    rota_tensor dy = mirror(region, y);
    rota_gradient_view **link = &region->views;
    while (*link)
        if (rota_tensors_overlap(&(*link)->tensor, &dy) && rota_tensor_is_dense(&dy) &&
            rota_tensor_begin(&(*link)->tensor) >= rota_tensor_begin(&dy) &&
            rota_tensor_begin(&(*link)->tensor) + rota_tensor_extent_bytes(&(*link)->tensor) <=
                rota_tensor_begin(&dy) + rota_tensor_extent_bytes(&dy)) {
            *link = (*link)->next;
            region->view_count--;
        } else {
            link = &(*link)->next;
        }
    const uint64_t begin = rota_tensor_begin(y);
    if (rota_tensor_is_dense(y) && begin <= region->begin &&
        begin + rota_tensor_extent_bytes(y) >= region->end)
        region->crowded = false;
    if (rota_tensor_is_dense(y))
        return ranges_remove(tape, region, begin, begin + rota_tensor_extent_bytes(y));
    if (!written_before) return ROTA_OK;
    /* In the gaps lie other gradients, which such a write reads: only these elements become 0. */
    rota_tensor zero;
    ROTA_TRY(rota_gradient_zero_rest(tape, region, begin, begin + rota_tensor_extent_bytes(y)));
    ROTA_TRY(rota_tape_temporary(tape, "zero", y->dtype, 0, NULL, &zero));
    ROTA_TRY(rota_record_zero(tape, zero.buffer, 0, 4));
    return rota_record_strided(tape, &zero, &dy, 1.0f, false);
}

/* A region remembers this many views; past it, every target counts as one that was added to before. */
#define VIEWS_MAX 64

/* Nothing was added to the elements of dx yet. */
static bool is_fresh(const rota_gradient_region *region, const rota_tensor *dx) {
    if (region->crowded) return false;
    for (const rota_gradient_view *view = region->views; view; view = view->next)
        if (!rota_tensors_disjoint(&view->tensor, dx)) return false;
    return true;
}

/* Remembers that something is added to dx, unless that says nothing new. */
static rota_status add_view(rota_tape *tape, rota_gradient_region *region, const rota_tensor *dx) {
    const uint64_t begin = rota_tensor_begin(dx), end = begin + rota_tensor_extent_bytes(dx);
    if (region->crowded) return ROTA_OK;
    for (const rota_gradient_view *view = region->views; view; view = view->next) {
        const uint64_t first = rota_tensor_begin(&view->tensor);
        if (rota_tensors_equal(&view->tensor, dx) || (rota_tensor_is_dense(&view->tensor) && first <= begin &&
                                                      end <= first + rota_tensor_extent_bytes(&view->tensor)))
            return ROTA_OK;
    }
    region->crowded = region->view_count == VIEWS_MAX;
    if (region->crowded) return ROTA_OK;
    rota_gradient_view *view = rota_arena_alloc(&tape->arena, sizeof *view, 8);
    if (!view) return rota_backward_no_memory();
    *view = (rota_gradient_view){region->views, *dx};
    region->views = view;
    region->view_count++;
    return ROTA_OK;
}

bool rota_gradient_folds(const rota_tensor *x) {
    /* From the shortest stride on: an axis that steps over all that those before it reach adds no place
     * twice. */
    uint64_t reach = 0, stride = 0;
    for (;;) {
        uint64_t next = UINT64_MAX, along = 0;
        for (uint32_t i = 0; i < x->rank; i++) {
            if (x->shape[i] <= 1) continue;
            if (x->stride[i] == 0) return true;
            if (x->stride[i] == stride) along++;
            if (x->stride[i] > stride && x->stride[i] < next) next = x->stride[i];
        }
        if (along > 1) return true;
        if (next == UINT64_MAX) return false;
        if (next <= reach) return true;
        for (uint32_t i = 0; i < x->rank; i++)
            if (x->shape[i] > 1 && x->stride[i] == next) reach += next * (x->shape[i] - 1);
        stride = next;
    }
}

rota_status rota_gradient_target(rota_tape *tape, const rota_tensor *x, rota_tensor *out_dx,
                                 bool *out_fresh) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(x);
    ROTA_GIVEN(out_dx);
    ROTA_GIVEN(out_fresh);
    if (!x->buffer) return rota_fail(ROTA_INVALID_ARGUMENT, "rota_gradient_target: x has no buffer");
    rota_gradient_region *region;
    ROTA_TRY(region_of(tape, x, &region));
    if (!region)
        return rota_fail(ROTA_INTERNAL, "backward: no gradient of buffer '%s'", rota_buffer_name(x->buffer));
    *out_dx = mirror(region, x);
    *out_fresh = is_fresh(region, out_dx);
    if (rota_gradient_folds(x))
        return rota_fail(ROTA_INTERNAL,
                         "backward: the gradient of a view that holds an element several times is "
                         "asked for directly");
    ROTA_TRY(add_view(tape, region, out_dx));
    const uint64_t begin = rota_tensor_begin(x), end = begin + rota_tensor_extent_bytes(x);
    if (!*out_fresh || !rota_tensor_is_dense(x) || out_dx->offset_bytes % 4 != 0)
        return rota_gradient_zero_rest(tape, region, begin, end);
    if ((out_dx->offset_bytes + end - begin) % 4 != 0 && end < region->end)
        ROTA_TRY(rota_gradient_zero_rest(tape, region, end - 2, end));
    return ranges_insert(tape, region, begin, end);
}

bool rota_gradient_fill_a_range(const rota_tensor *const *xs, uint32_t count, uint64_t *out_begin,
                                uint64_t *out_end) {
    uint64_t bytes = 0;
    *out_begin = rota_tensor_begin(xs[0]);
    *out_end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t begin = rota_tensor_begin(xs[i]), end = begin + rota_tensor_extent_bytes(xs[i]);
        if (rota_tensor_root(xs[i]) != rota_tensor_root(xs[0]) || rota_gradient_folds(xs[i])) return false;
        for (uint32_t j = 0; j < i; j++)
            if (!rota_tensors_disjoint(xs[i], xs[j])) return false;
        if (begin < *out_begin) return false;
        if (end > *out_end) *out_end = end;
        bytes += rota_tensor_count(xs[i]) * rota_dtype_bytes(xs[i]->dtype);
    }
    return bytes == *out_end - *out_begin;
}

rota_status rota_gradient_targets(rota_tape *tape, const rota_tensor *const *xs, uint32_t count,
                                  rota_tensor *out_dx, bool *out_together) {
    rota_gradient_region *region, *first = NULL;
    uint64_t begin, end;
    *out_together = false;
    if (!rota_gradient_fill_a_range(xs, count, &begin, &end)) return ROTA_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (!rota_gradient_wanted(tape, xs[i])) return ROTA_OK;
        ROTA_TRY(region_of(tape, xs[i], &region));
        if (!region || (first && region != first)) return ROTA_OK;
        first = region;
        out_dx[i] = mirror(region, xs[i]);
        if (!is_fresh(region, &out_dx[i]) || out_dx[i].offset_bytes % 4 != 0) return ROTA_OK;
    }
    if ((out_dx[0].offset_bytes + end - begin) % 4 != 0) return ROTA_OK;
    *out_together = true;
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(add_view(tape, first, &out_dx[i]));
    return ranges_insert(tape, first, begin, end);
}

/* ---- Adding ---- */

/* A view that repeats elements is a broadcast of the view that doesn't. */
static rota_tensor without_repeats(const rota_tensor *x) {
    rota_tensor base = *x;
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->stride[i] == 0) base.shape[i] = 1;
    return base;
}

/* The shortest axis without which x holds no element several times; else the shortest. */
static uint32_t axis_that_folds(const rota_tensor *x) {
    uint32_t shortest = 0;
    bool unfolds = false;
    for (uint32_t i = 0; i < x->rank; i++) {
        rota_tensor rest = *x;
        if (x->shape[i] <= 1) continue;
        rest.shape[i] = 1;
        const bool helps = !rota_gradient_folds(&rest);
        if (x->shape[shortest] <= 1 || (helps && !unfolds) ||
            (helps == unfolds && x->shape[i] < x->shape[shortest])) {
            shortest = i;
            unfolds = helps;
        }
    }
    return shortest;
}

/* x's gradient += alpha * sum, of x's shape. Where x holds elements several times, part by part. */
static rota_status add_parts(rota_tape *tape, const rota_tensor *x, const rota_tensor *sum, float alpha) {
    rota_tensor dx, part, of_sum;
    bool fresh;
    if (!rota_gradient_folds(x)) {
        ROTA_TRY(rota_gradient_target(tape, x, &dx, &fresh));
        return rota_record_strided(tape, sum, &dx, alpha, !fresh);
    }
    rota_gradient_region *region;
    ROTA_TRY(region_of(tape, x, &region)); /* all of it, or none */
    const uint32_t axis = axis_that_folds(x);
    for (uint64_t i = 0; i < x->shape[axis]; i++) {
        ROTA_TRY(rota_tensor_slice(x, axis, i, 1, &part));
        ROTA_TRY(rota_tensor_slice(sum, axis, i, 1, &of_sum));
        ROTA_TRY(add_parts(tape, &part, &of_sum, alpha));
    }
    return ROTA_OK;
}

static rota_status check_rank(const rota_tensor *x) {
    if (x->rank <= ROTA_RANK_MAX) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT, "backward: a tensor of rank %u, at most %d", x->rank,
                     ROTA_RANK_MAX);
}

rota_status rota_gradient_add(rota_tape *tape, const rota_tensor *x, const rota_tensor *contribution,
                              float alpha) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(x);
    ROTA_GIVEN(contribution);
    ROTA_TRY(check_rank(contribution));
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    rota_tensor base = without_repeats(x), sum = *contribution;
    if (!rota_shapes_equal(&base, &sum)) {
        ROTA_TRY(rota_record_contiguous(tape, &sum, &sum));
        ROTA_TRY(rota_record_unbroadcast(tape, &sum, &base, &sum));
    }
    return add_parts(tape, &base, &sum, alpha);
}

rota_status rota_gradient_begin(rota_tape *tape, const rota_tensor *x, rota_gradient_write *out_write) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(x);
    ROTA_GIVEN(out_write);
    out_write->direct = false;
    if (rota_gradient_wanted(tape, x) && rota_tensor_is_contiguous(x)) {
        bool fresh;
        rota_gradient_region *region;
        ROTA_TRY(region_of(tape, x, &region));
        rota_tensor dx = mirror(region, x);
        if (dx.offset_bytes % 4 == 0 && is_fresh(region, &dx)) {
            out_write->direct = true;
            return rota_gradient_target(tape, x, &out_write->dx, &fresh);
        }
    }
    return rota_tape_temporary(tape, "gradient", x->dtype, x->rank, x->shape, &out_write->dx);
}

rota_status rota_gradient_end(rota_tape *tape, const rota_tensor *x, const rota_gradient_write *write) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(x);
    ROTA_GIVEN(write);
    return write->direct ? ROTA_OK : rota_gradient_add(tape, x, &write->dx, 1.0f);
}

const rota_tensor *rota_gradient_output(const rota_tape *tape, uint32_t output) {
    return tape && output < ROTA_OP_OUTPUTS_MAX ? &tape->output_gradients[output] : NULL;
}
