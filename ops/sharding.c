/* Shards of parameters (Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models",
 * 2020, stage 1): the elements of a bucket, one parameter after the other, are cut into as many equal parts as there
 * are ranks, of which each reduces, keeps and updates one. */
#include "ops/sharding.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/divide.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "ops/record.h"
#include "ops/unshard.h"

/* Parts begin at multiples of so many elements, for kernels that take several at once; runs at whole words, also of
 * 16-bit elements. */
#define PART_ELEMENTS 64u
#define RUN_ELEMENTS 2u
/* Of a group, which is one tensor when it is gathered. */
#define ELEMENTS_MAX ((uint64_t)UINT32_MAX)

typedef struct bucket_run {
    uint32_t parameter;
    uint64_t first, count; /* elements of the bucket */
} bucket_run;

/* A bucket. */
typedef struct bucket {
    uint64_t elements; /* of all runs, and of gaps between them */
    uint64_t part;     /* of each rank; of the last ones some are behind the elements, or all */
    uint64_t offset;   /* of the part in a shard */
    bool has_gaps;
    bucket_run *runs;
    uint32_t run_count;
} bucket;

struct rota_sharding {
    rota_communicator *communicator;
    uint32_t rank, size, parameter_count;
    bool is_begun; /* by a backward pass */
    uint64_t elements;
    bucket *buckets;
    rota_shard_piece *pieces;
    uint32_t bucket_count, bucket_room, piece_count, piece_room;
    rota_tensor *parts; /* the gradient of each bucket's part; NULL: of a group */
    rota_tensor *likes; /* of a group, without buffers; NULL: of a backward pass */
};

static rota_status no_memory(void) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "sharding: no host memory");
}

/* Room for one more of `size` bytes. */
static bool make_room(void **list, uint32_t count, uint32_t *room, size_t size) {
    if (count < *room) return true;
    const uint32_t more = *room ? 2 * *room : 16;
    void *longer = realloc(*list, more * size);
    if (!longer) return false;
    *list = longer;
    *room = more;
    return true;
}

rota_status rota_sharding_create(rota_communicator *communicator, rota_sharding **out_sharding) {
    ROTA_GIVEN(communicator);
    ROTA_GIVEN(out_sharding);
    rota_sharding *s = calloc(1, sizeof *s);
    if (!(*out_sharding = s)) return no_memory();
    s->communicator = communicator;
    s->rank = rota_communicator_rank(communicator);
    s->size = rota_communicator_size(communicator);
    return ROTA_OK;
}

rota_status rota_sharding_begin(rota_sharding *s, const rota_communicator *communicator,
                                uint32_t parameter_count) {
    if (s->communicator != communicator)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "backward: the sharding is of communicator '%s', and data_parallel of '%s'; expected "
            "one",
            rota_communicator_name(s->communicator), rota_communicator_name(communicator));
    if (s->is_begun)
        return rota_fail(ROTA_WRONG_STATE, "backward: the sharding is that of %s; expected a new one",
                         s->likes ? "a group" : "a backward pass before");
    s->is_begun = true;
    s->parameter_count = parameter_count;
    return ROTA_OK;
}

void rota_sharding_release(rota_sharding *s) {
    if (!s) return;
    for (uint32_t i = 0; i < s->bucket_count; i++) free(s->buckets[i].runs);
    free(s->buckets);
    free(s->pieces);
    free(s->parts);
    free(s->likes);
    free(s);
}

uint64_t rota_sharding_elements(const rota_sharding *s) {
    return s ? s->elements : 0;
}

rota_status rota_sharding_get_pieces(const rota_sharding *s, const rota_shard_piece **out_pieces,
                                     uint32_t *out_count) {
    ROTA_GIVEN(s);
    ROTA_GIVEN(out_pieces);
    ROTA_GIVEN(out_count);
    *out_pieces = s->pieces;
    *out_count = s->piece_count;
    return ROTA_OK;
}

/* ---- Flat tensors ---- */

static rota_status flat(const rota_tensor *x, uint64_t first, uint64_t count, rota_tensor *out) {
    return rota_tensor_of(rota_tensor_root(x), rota_tensor_begin(x) + first * rota_dtype_bytes(x->dtype),
                          x->dtype, ROTA_SHAPE(count), out);
}

/* What of a run lies in [first, end) of its bucket; false: nothing. */
static bool clip(const bucket_run *run, uint64_t first, uint64_t end, bucket_run *out) {
    const uint64_t run_end = run->first + run->count;
    out->parameter = run->parameter;
    out->first = run->first > first ? run->first : first;
    if (run_end < end) end = run_end;
    out->count = out->first < end ? end - out->first : 0;
    return out->count > 0;
}

/* ---- Buckets ---- */

static uint64_t part_of(const rota_sharding *s, uint64_t elements) {
    return rota_divide_up(rota_divide_up(elements, s->size), PART_ELEMENTS) * PART_ELEMENTS;
}

/* Where runs lie one behind the other in memory, and are as many elements as the parts: all of them. */
static bool is_whole(const rota_sharding *s, const bucket *b, const rota_shard_run *runs) {
    for (uint32_t i = 1; i < b->run_count; i++) {
        const rota_tensor *before = &runs[i - 1].gradient, *x = &runs[i].gradient;
        if (rota_tensor_root(before) != rota_tensor_root(x) ||
            rota_tensor_begin(before) + rota_tensor_extent_bytes(before) != rota_tensor_begin(x))
            return false;
    }
    return !b->has_gaps && b->part * s->size == b->elements;
}

/* Zeroes from an element on. */
static rota_status fill_rest(rota_tape *tape, const rota_tensor *x, uint64_t first) {
    rota_tensor rest;
    if (first == x->shape[0]) return ROTA_OK;
    ROTA_TRY(rota_tensor_slice(x, 0, first, x->shape[0] - first, &rest));
    return rota_op_fill_into(tape, rest, 0);
}

/* Elements of all parts: the runs, and zeroes. */
static rota_status gather_runs(const rota_sharding *s, rota_tape *tape, const bucket *b,
                               const rota_shard_run *runs, rota_tensor *out_all) {
    rota_tensor part;
    const uint64_t all = b->part * s->size;
    if (is_whole(s, b, runs)) return flat(&runs[0].gradient, 0, all, out_all);
    ROTA_TRY(rota_tape_temporary(tape, "bucket", runs[0].gradient.dtype, ROTA_SHAPE(all), out_all));
    ROTA_TRY(fill_rest(tape, out_all, b->has_gaps ? 0 : b->elements));
    for (uint32_t i = 0; i < b->run_count; i++) {
        ROTA_TRY(rota_tensor_slice(out_all, 0, b->runs[i].first, b->runs[i].count, &part));
        ROTA_TRY(rota_op_copy_into(tape, runs[i].gradient, part));
    }
    return ROTA_OK;
}

/* `gradient`: NULL, of a group. */
static rota_status add_pieces(rota_sharding *s, const bucket *b, const rota_tensor *gradient) {
    const uint64_t first = b->part * s->rank;
    for (uint32_t i = 0; i < b->run_count; i++) {
        bucket_run own;
        if (!clip(&b->runs[i], first, first + b->part, &own)) continue;
        if (!make_room((void **)&s->pieces, s->piece_count, &s->piece_room, sizeof *s->pieces))
            return no_memory();
        rota_shard_piece *piece = &s->pieces[s->piece_count++];
        *piece = (rota_shard_piece){.parameter = own.parameter,
                                    .first = own.first - b->runs[i].first,
                                    .count = own.count,
                                    .offset = b->offset + own.first - first,
                                    .gradient = ROTA_TENSOR_NONE};
        if (gradient)
            ROTA_TRY(rota_tensor_slice(gradient, 0, own.first - first, own.count, &piece->gradient));
    }
    return ROTA_OK;
}

rota_status rota_sharding_add(rota_sharding *s, rota_tape *tape, bool sum, const rota_shard_run *runs,
                              uint32_t count) {
    uint32_t room = s->bucket_room;
    if (!make_room((void **)&s->buckets, s->bucket_count, &room, sizeof *s->buckets)) return no_memory();
    if (room != s->bucket_room) {
        rota_tensor *parts = realloc(s->parts, room * sizeof *parts);
        if (!parts) return no_memory();
        s->parts = parts;
        s->bucket_room = room;
    }
    bucket *b = &s->buckets[s->bucket_count];
    *b = (bucket){.runs = calloc(count, sizeof *b->runs), .run_count = count, .offset = s->elements};
    if (!b->runs) return no_memory();
    rota_tensor *gradient = &s->parts[s->bucket_count++], all;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t elements = runs[i].gradient.shape[0], gap = elements % RUN_ELEMENTS;
        b->runs[i] = (bucket_run){runs[i].parameter, b->elements, elements};
        b->elements += elements + gap;
        b->has_gaps = b->has_gaps || gap > 0;
    }
    b->part = part_of(s, b->elements);
    s->elements += b->part;
    ROTA_TRY(gather_runs(s, tape, b, runs, &all));
    ROTA_TRY(rota_tape_temporary(tape, "shard of gradients", all.dtype, ROTA_SHAPE(b->part), gradient));
    ROTA_TRY(rota_op_reduce_scatter_into(tape, s->communicator, all,
                                         sum ? ROTA_COLLECTIVE_SUM : ROTA_COLLECTIVE_MEAN, *gradient));
    return add_pieces(s, b, gradient);
}

/* ---- Groups ---- */

static rota_status lay_out_group(rota_sharding *s, const rota_tensor *tensors, uint32_t count) {
    s->buckets = calloc(1, sizeof *s->buckets);
    s->likes = calloc((size_t)count + 1, sizeof *s->likes);
    if (!s->buckets || !s->likes) return no_memory();
    s->bucket_count = s->bucket_room = 1;
    s->parameter_count = count;
    s->is_begun = true;
    bucket *b = s->buckets;
    if (!(b->runs = calloc((size_t)count + 1, sizeof *b->runs))) return no_memory();
    b->run_count = count;
    for (uint32_t i = 0; i < count; i++) {
        ROTA_TRY(rota_tensor_of(NULL, 0, tensors[i].dtype, tensors[i].rank, tensors[i].shape, &s->likes[i]));
        const uint64_t elements = rota_tensor_count(&s->likes[i]),
                       room = rota_divide_up(elements, PART_ELEMENTS) * PART_ELEMENTS;
        b->runs[i] = (bucket_run){i, b->elements, elements};
        b->elements += room;
        b->has_gaps = b->has_gaps || room > elements;
    }
    if (b->elements == 0)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "sharding: %u tensors without elements; expected one with some", count);
    s->elements = b->part = part_of(s, b->elements);
    if (b->part > ELEMENTS_MAX / s->size)
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "sharding: a group of %" PRIu64 " elements, in parts of %" PRIu64 " for %" PRIu32
                         " ranks; expected at most %" PRIu64 ", those of a tensor",
                         b->elements, b->part, s->size, ELEMENTS_MAX);
    return add_pieces(s, b, NULL);
}

rota_status rota_sharding_create_group(rota_communicator *communicator, const rota_tensor *tensors,
                                       uint32_t count, rota_sharding **out_sharding) {
    ROTA_GIVEN(communicator);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_GIVEN(out_sharding);
    rota_sharding *s;
    *out_sharding = NULL;
    ROTA_TRY(rota_sharding_create(communicator, &s));
    const rota_status status = lay_out_group(s, tensors, count);
    if (status == ROTA_OK)
        *out_sharding = s;
    else
        rota_sharding_release(s);
    return status;
}

static rota_status check_group(const rota_sharding *s, uint32_t count) {
    if (!s->likes)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "sharding: it is a backward pass's; expected one of rota_sharding_create_group");
    if (count == s->parameter_count) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT, "sharding: %u tensors, expected %u, those of the group", count,
                     s->parameter_count);
}

static rota_status check_real_shard(const rota_sharding *s, const rota_tensor *shard) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (shard->buffer && rota_dtype_is_real(shard->dtype) && rota_tensor_is_contiguous(shard) &&
        shard->rank == 1 && shard->shape[0] == s->elements)
        return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "sharding: the shard is %s; expected a contiguous f32, f16 or bf16 [%" PRIu64
                     "] (rota_sharding_elements)",
                     shard->buffer ? rota_tensor_describe(shard, text, sizeof text) : "missing", s->elements);
}

/* Where the group's tensors are in all shards, one after the other. */
static rota_status view_group(const rota_sharding *s, const rota_tensor *all, rota_tensor *out_tensors) {
    for (uint32_t i = 0; i < s->parameter_count; i++)
        ROTA_TRY(rota_tensor_of(rota_tensor_root(all),
                                rota_tensor_begin(all) +
                                    s->buckets[0].runs[i].first * rota_dtype_bytes(all->dtype),
                                all->dtype, s->likes[i].rank, s->likes[i].shape, &out_tensors[i]));
    return ROTA_OK;
}

rota_status rota_sharding_unshard(const rota_sharding *s, rota_tape *tape, rota_tensor shard,
                                  const rota_unshard *options, uint32_t count, rota_tensor *out_tensors) {
    ROTA_GIVEN(s);
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(out_tensors, count);
    rota_tensor all;
    rota_unshard room = ROTA_UNSHARD();
    for (uint32_t i = 0; i < count; i++) out_tensors[i] = ROTA_TENSOR_NONE;
    if (options && !(options = ROTA_SIZED_IN(rota_unshard, options, &room))) return ROTA_INVALID_ARGUMENT;
    if (!options) options = &room;
    ROTA_TRY(check_group(s, count));
    ROTA_TRY(check_real_shard(s, &shard));
    ROTA_TRY(rota_collective_unshard(tape, s->communicator, shard,
                                     options->sum ? ROTA_COLLECTIVE_SUM : ROTA_COLLECTIVE_MEAN, options->keep,
                                     &all));
    return view_group(s, &all, out_tensors);
}

rota_status rota_sharding_tensors(const rota_sharding *s, rota_tape *tape, rota_dtype dtype, uint32_t count,
                                  rota_tensor *out_tensors) {
    ROTA_GIVEN(s);
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(out_tensors, count);
    rota_tensor all;
    for (uint32_t i = 0; i < count; i++) out_tensors[i] = ROTA_TENSOR_NONE;
    ROTA_TRY(check_group(s, count));
    ROTA_TRY(rota_tape_temporary(tape, "group", dtype, ROTA_SHAPE(s->elements * s->size), &all));
    const bool remembered = tape->remember;
    tape->remember = false;
    const rota_status status = fill_rest(tape, &all, s->buckets[0].has_gaps ? 0 : s->buckets[0].elements);
    tape->remember = remembered;
    ROTA_TRY(status);
    return view_group(s, &all, out_tensors);
}

/* Whether they lie as rota_sharding_tensors has them; *out_all then is all of those. */
static bool lie_as_group(const rota_sharding *s, const rota_tensor *tensors, rota_tensor *out_all) {
    const bucket *b = s->buckets;
    uint64_t base = 0;
    const rota_tensor *first = NULL;
    for (uint32_t i = 0; i < b->run_count; i++) {
        const rota_tensor *x = &tensors[i];
        const uint64_t offset = b->runs[i].first * rota_dtype_bytes(x->dtype);
        if (b->runs[i].count == 0) continue;
        if (!first) first = x, base = rota_tensor_begin(x) - offset;
        if (rota_tensor_root(x) != rota_tensor_root(first) || rota_tensor_begin(x) != base + offset)
            return false;
    }
    const uint64_t all = b->part * s->size;
    return base == 0 && rota_buffer_get_kind(rota_tensor_root(first)) == ROTA_BUFFER_TRANSIENT &&
           rota_buffer_size(rota_tensor_root(first)) == all * rota_dtype_bytes(first->dtype) &&
           rota_tensor_of(rota_tensor_root(first), 0, first->dtype, ROTA_SHAPE(all), out_all) == ROTA_OK;
}

static rota_status record_reduce(const rota_sharding *s, rota_tape *tape, const rota_tensor *tensors,
                                 bool sum, const rota_tensor *shard) {
    const bucket *b = s->buckets;
    rota_tensor all, to;
    if (!lie_as_group(s, tensors, &all)) {
        ROTA_TRY(rota_tape_temporary(tape, "group", shard->dtype, ROTA_SHAPE(b->part * s->size), &all));
        ROTA_TRY(fill_rest(tape, &all, b->has_gaps ? 0 : b->elements));
        for (uint32_t i = 0; i < b->run_count; i++) {
            rota_tensor from;
            ROTA_TRY(flat(&tensors[i], 0, b->runs[i].count, &from));
            ROTA_TRY(rota_tensor_slice(&all, 0, b->runs[i].first, b->runs[i].count, &to));
            ROTA_TRY(rota_op_copy_into(tape, from, to));
        }
    }
    return rota_op_reduce_scatter_into(tape, s->communicator, all,
                                       sum ? ROTA_COLLECTIVE_SUM : ROTA_COLLECTIVE_MEAN, *shard);
}

/* ---- Norm ---- */

static rota_status record_norm(rota_tape *tape, rota_communicator *communicator, const rota_tensor *tensors,
                               uint32_t count, float max_norm, rota_tensor *out_norm_factor) {
    rota_tensor own, norm, norms;
    ROTA_TRY(rota_op_global_norm(tape, tensors, count, FLT_MAX, &own));
    ROTA_TRY(rota_tensor_slice(&own, 0, 0, 1, &norm));
    ROTA_TRY(rota_op_all_gather(tape, communicator, norm, &norms));
    return rota_op_global_norm(tape, &norms, 1, max_norm, out_norm_factor);
}

/* What it does is not remembered. */
static rota_status norm_of(rota_tape *tape, rota_communicator *communicator, const rota_tensor *tensors,
                           uint32_t count, float max_norm, rota_tensor *out_norm_factor) {
    *out_norm_factor = ROTA_TENSOR_NONE;
    const bool remembered = tape->remember;
    tape->remember = false;
    const rota_status status = record_norm(tape, communicator, tensors, count, max_norm, out_norm_factor);
    tape->remember = remembered;
    return status;
}

rota_status rota_op_global_norm_of_ranks(rota_tape *tape, rota_communicator *communicator,
                                         const rota_tensor *tensors, uint32_t count, float max_norm,
                                         rota_tensor *out_norm_factor) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(communicator);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_GIVEN(out_norm_factor);
    return norm_of(tape, communicator, tensors, count, max_norm, out_norm_factor);
}

/* Whether it is one that rota_backward has filled, and there is something in it. */
static rota_status check(const rota_sharding *s) {
    if (s->bucket_count > 0) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT, "sharding: no elements; expected one of rota_backward's, of "
                                            "parameters that are not empty");
}

rota_status rota_sharding_norm(const rota_sharding *s, rota_tape *tape, float max_norm,
                               rota_tensor *out_norm_factor) {
    ROTA_GIVEN(s);
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_norm_factor);
    *out_norm_factor = ROTA_TENSOR_NONE;
    ROTA_TRY(check(s));
    if (s->likes)
        return rota_fail(ROTA_INVALID_ARGUMENT, "sharding: a group has no gradients; expected one that a "
                                                "backward pass has filled, or rota_op_global_norm_of_ranks");
    return norm_of(tape, s->communicator, s->parts, s->bucket_count, max_norm, out_norm_factor);
}

/* ---- Tensors of all, and shards ---- */

static rota_status check_tensors(const rota_sharding *s, const rota_tensor *tensors, uint32_t count) {
    ROTA_TRY(check(s));
    if (count != s->parameter_count)
        return rota_fail(ROTA_INVALID_ARGUMENT, "sharding: %u tensors, expected %u, one for each parameter",
                         count, s->parameter_count);
    for (uint32_t i = 0; i < s->bucket_count; i++) {
        const bucket *b = &s->buckets[i];
        for (uint32_t r = 0; r < b->run_count; r++) {
            const bucket_run *run = &b->runs[r];
            const rota_tensor *x = &tensors[run->parameter];
            if (!x->buffer || !rota_tensor_is_contiguous(x) || rota_tensor_count(x) != run->count)
                return rota_fail(ROTA_INVALID_ARGUMENT,
                                 "sharding: tensor %u, expected a contiguous one of %" PRIu64
                                 " elements, as its parameter has",
                                 run->parameter, run->count);
            if (x->dtype != tensors[b->runs[0].parameter].dtype)
                return rota_fail(ROTA_INVALID_ARGUMENT,
                                 "sharding: tensor %u is %s, and %u, of the same bucket, %s; expected one "
                                 "dtype",
                                 run->parameter, rota_dtype_name(x->dtype), b->runs[0].parameter,
                                 rota_dtype_name(tensors[b->runs[0].parameter].dtype));
        }
    }
    return ROTA_OK;
}

/* What this rank keeps of a bucket's tensors, with zeroes behind them. */
static rota_status pack(const rota_sharding *s, rota_tape *tape, const bucket *b, const rota_tensor *tensors,
                        const rota_tensor *to) {
    rota_tensor from, part;
    const uint64_t first = b->part * s->rank, left = b->elements > first ? b->elements - first : 0;
    ROTA_TRY(fill_rest(tape, to, b->has_gaps ? 0 : left < b->part ? left : b->part));
    for (uint32_t i = 0; i < b->run_count; i++) {
        bucket_run own;
        if (!clip(&b->runs[i], first, first + b->part, &own)) continue;
        ROTA_TRY(flat(&tensors[own.parameter], own.first - b->runs[i].first, own.count, &from));
        ROTA_TRY(rota_tensor_slice(to, 0, own.first - first, own.count, &part));
        ROTA_TRY(rota_op_copy_into(tape, from, part));
    }
    return ROTA_OK;
}

static rota_status unpack(rota_tape *tape, const bucket *b, const rota_tensor *all,
                          const rota_tensor *tensors) {
    rota_tensor to, part;
    for (uint32_t i = 0; i < b->run_count; i++) {
        const bucket_run *run = &b->runs[i];
        ROTA_TRY(flat(&tensors[run->parameter], 0, run->count, &to));
        ROTA_TRY(rota_tensor_slice(all, 0, run->first, run->count, &part));
        ROTA_TRY(rota_op_copy_into(tape, part, to));
    }
    return ROTA_OK;
}

/* `shard`: NULL, and each rank's parts are the tensors' own; or all that it keeps. */
static rota_status gather_bucket(const rota_sharding *s, rota_tape *tape, const bucket *b,
                                 const rota_tensor *shard, const rota_tensor *tensors) {
    rota_tensor own, all;
    const rota_dtype dtype = tensors[b->runs[0].parameter].dtype;
    if (shard) {
        ROTA_TRY(rota_tensor_slice(shard, 0, b->offset, b->part, &own));
    } else {
        ROTA_TRY(rota_tape_temporary(tape, "shard", dtype, ROTA_SHAPE(b->part), &own));
        ROTA_TRY(pack(s, tape, b, tensors, &own));
    }
    ROTA_TRY(rota_tape_temporary(tape, "all shards", dtype, ROTA_SHAPE(b->part * s->size), &all));
    ROTA_TRY(rota_op_all_gather_into(tape, s->communicator, own, all));
    return unpack(tape, b, &all, tensors);
}

/* With nodes that are named by their bucket, which ranks compare; and what ops do is not remembered. */
static rota_status for_buckets(rota_tape *tape, const rota_sharding *s, const char *what,
                               const rota_tensor *shard, const rota_tensor *tensors, bool is_gather) {
    const char *const name = tape->name;
    const bool remembered = tape->remember;
    rota_status status = ROTA_OK;
    tape->remember = false;
    /* Those first that the backward pass finished last, and the next forward pass needs first. */
    for (uint32_t i = s->bucket_count; i-- > 0 && status == ROTA_OK;) {
        const bucket *b = &s->buckets[i];
        rota_tensor own;
        char text[64];
        snprintf(text, sizeof text, "%s, bucket %" PRIu32, what, i + 1);
        status = rota_tape_name(tape, text);
        if (status != ROTA_OK) break;
        if (is_gather) {
            status = gather_bucket(s, tape, b, shard, tensors);
            continue;
        }
        status = rota_tensor_slice(shard, 0, b->offset, b->part, &own);
        if (status == ROTA_OK) status = pack(s, tape, b, tensors, &own);
    }
    tape->name = name;
    tape->remember = remembered;
    return status;
}

rota_status rota_sharding_gather(const rota_sharding *s, rota_tape *tape, const rota_tensor *tensors,
                                 uint32_t count) {
    ROTA_GIVEN(s);
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_TRY(check_tensors(s, tensors, count));
    return for_buckets(tape, s, "parameters", NULL, tensors, true);
}

static rota_status check_shard(const rota_sharding *s, const rota_tensor *shard, const rota_tensor *tensors) {
    if (!shard->buffer || !rota_tensor_is_contiguous(shard) || shard->rank != 1 ||
        shard->shape[0] != s->elements)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "sharding: the shard, expected a contiguous tensor of %" PRIu64
                         " elements (rota_sharding_elements)",
                         s->elements);
    for (uint32_t i = 0; i < s->bucket_count; i++) {
        const uint32_t parameter = s->buckets[i].runs[0].parameter;
        if (tensors[parameter].dtype != shard->dtype)
            return rota_fail(ROTA_INVALID_ARGUMENT, "sharding: tensor %u is %s, expected %s, as the shard is",
                             parameter, rota_dtype_name(tensors[parameter].dtype),
                             rota_dtype_name(shard->dtype));
    }
    return ROTA_OK;
}

rota_status rota_sharding_gather_shards(const rota_sharding *s, rota_tape *tape, rota_tensor shard,
                                        const rota_tensor *tensors, uint32_t count) {
    ROTA_GIVEN(s);
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_TRY(check_tensors(s, tensors, count));
    ROTA_TRY(check_shard(s, &shard, tensors));
    return for_buckets(tape, s, "shards", &shard, tensors, true);
}

rota_status rota_sharding_take(const rota_sharding *s, rota_tape *tape, const rota_tensor *tensors,
                               uint32_t count, rota_tensor shard) {
    ROTA_GIVEN(s);
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_TRY(check_tensors(s, tensors, count));
    ROTA_TRY(check_shard(s, &shard, tensors));
    return for_buckets(tape, s, "shard", &shard, tensors, false);
}

rota_status rota_sharding_reduce(const rota_sharding *s, rota_tape *tape, const rota_tensor *tensors,
                                 uint32_t count, bool sum, rota_tensor shard) {
    ROTA_GIVEN(s);
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_TRY(check_group(s, count));
    ROTA_TRY(check_real_shard(s, &shard));
    ROTA_TRY(check_tensors(s, tensors, count));
    ROTA_TRY(check_shard(s, &shard, tensors));
    const bool remembered = tape->remember;
    tape->remember = false;
    const rota_status status = record_reduce(s, tape, tensors, sum, &shard);
    tape->remember = remembered;
    return status;
}
