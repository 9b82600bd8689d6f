/* Gradients of all ranks. A parameter's gradient is finished when the first op that reads it, or that made it, has been
 * gone through: the backward pass goes from the last to the first. Finished ones are gathered until they are a bucket,
 * and that is all-reduced: by nodes in place where gradients lie side by side, by one node in a copy for small ones
 * that don't. Or each rank gets a part of it (sharding.c).
 *
 * On devices a collective costs as much beside its bytes as copying many of them does, and whoever copies the results
 * back waits for the collective: on a queue in order, with all that is recorded later. So small gradients of all
 * buckets are held, and go together when they are as much as a bucket, or with the last one; and what was reduced in a
 * copy is copied back behind the backward pass, which by then has nothing left that would wait for it. */
#include "ops/data_parallel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sized_copy.h"
#include "ops/record.h"
#include "ops/sharding.h"

/* A run of fewer bytes costs less to copy, there and back, than a collective of its own costs beside its bytes
 * (docs/measurements.md). */
#define ALONE_BYTES (UINT64_C(64) << 10)
/* The same on devices: 8 MiB there and back are some 10 us by what an H200's memory moves, and a collective of few
 * bytes took 99 us there (docs/measurements.md). */
#define ALONE_DEVICE_BYTES (UINT64_C(8) << 20)
#define NONE UINT32_MAX

/* A gradient, or several that lie side by side. */
typedef struct run {
    rota_buffer *root;
    uint64_t begin, end; /* bytes of it */
    rota_dtype dtype;
    uint32_t parameter; /* the first of them */
    /* The first parameter whose gradient lies in this buffer: the same on all ranks, unlike addresses. */
    uint32_t home;
} run;

/* What comes back from a copy. */
typedef struct back {
    rota_tensor from, to;
} back;

struct rota_buckets {
    rota_tape *tape;
    rota_data_parallel options;
    rota_sharding *sharding; /* what becomes of the buckets; NULL: each gradient is all-reduced */
    uint32_t count;          /* parameters */
    rota_gradient_region **regions;
    uint32_t *homes;
    uint32_t *first, *next; /* lists of parameters, by the use that finishes them; NONE ends */
    uint64_t use_count;
    uint64_t last_use; /* with a list; use_count comes after all others, which go down to 0 */
    run *runs;         /* of the bucket so far */
    uint32_t run_count;
    uint64_t bytes;
    uint64_t alone_bytes; /* a run of as many is one collective by itself */
    run *held;            /* small ones; NULL: they go with their bucket, and back at once */
    uint32_t held_count;
    uint64_t held_bytes;
    back *backs; /* as long as `held` */
    uint32_t back_count;
    uint32_t made;        /* buckets */
    uint32_t fingerprint; /* of what is in the bucket and where, for the nodes' names, which ranks compare */
};

/* ---- Which use finishes which ---- */

static void note_use(rota_tape *tape, const rota_tensor *x, uint64_t use) {
    if (!x->buffer || rota_tensor_is_empty(x)) return;
    const rota_tape_buffer *entry = rota_tape_lookup(tape, x);
    const uint64_t begin = rota_tensor_begin(x), end = begin + rota_tensor_extent_bytes(x);
    for (uint32_t i = rota_gradient_given_from(entry, begin);
         entry && i < entry->given_count && entry->given[i]->begin < end; i++) {
        rota_gradient_region *region = entry->given[i];
        if (!region->is_used) region->first_use = use;
        region->is_used = true;
    }
}

static int by_root(const void *a, const void *b) {
    const run *x = a, *y = b;
    if (x->root != y->root) return (uintptr_t)x->root < (uintptr_t)y->root ? -1 : 1;
    return x->home < y->home ? -1 : x->home > y->home;
}

/* Of each gradient the first parameter that has one in the same buffer. */
static void find_homes(rota_buckets *b) {
    uint32_t count = 0, first = 0;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->regions[i]) b->runs[count++] = (run){.root = b->regions[i]->memory.buffer, .home = i};
    qsort(b->runs, count, sizeof *b->runs, by_root);
    for (uint32_t i = 0; i < count; i++) {
        if (b->runs[i].root != b->runs[first].root) first = i;
        b->homes[b->runs[i].home] = b->runs[first].home;
    }
}

static rota_gradient_region *region_of(rota_tape *tape, const rota_tensor *param) {
    const rota_tape_buffer *entry = rota_tape_lookup(tape, param);
    const uint32_t first = rota_gradient_given_from(entry, rota_tensor_begin(param));
    return entry && first < entry->given_count ? entry->given[first] : NULL;
}

/* Bytes of two gradients would be reduced twice. */
static rota_status check_apart(rota_tape *tape, const rota_tensor *grads, uint32_t count) {
    rota_place *places;
    rota_overlap overlap;
    uint32_t n;
    ROTA_TRY(rota_gradient_places(tape, grads, count, &places, &n, &overlap));
    if (!overlap.found) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "backward: gradients %u and %u share bytes of buffer '%s'; expected gradients that lie "
                     "apart, since data_parallel reduces each once",
                     overlap.first, overlap.second, rota_buffer_name(grads[overlap.first].buffer));
}

static uint64_t find_last_use(const rota_buckets *b) {
    uint64_t use = 0;
    if (b->first[b->use_count] != NONE) return b->use_count;
    while (use < b->use_count && b->first[use] == NONE) use++;
    return use;
}

static rota_status hold_small_ones(rota_buckets *b) {
    b->alone_bytes = ALONE_DEVICE_BYTES;
    b->held = rota_arena_calloc(&b->tape->arena, (b->count + 1) * sizeof *b->held, 8);
    b->backs = rota_arena_calloc(&b->tape->arena, (b->count + 1) * sizeof *b->backs, 8);
    return b->held && b->backs ? ROTA_OK : rota_backward_no_memory();
}

/* Not measured on the ranks: they would have to meet to agree on it, which recording does not wait for, and what a
 * sharding gives to whom would be another in each run; and it would gain little (docs/measurements.md). */
uint64_t rota_bucket_bytes(uint32_t ranks, bool has_devices) {
    const uint64_t of_ranks = ROTA_BUCKET_RANK_BYTES * ranks;
    if (has_devices) return ROTA_BUCKET_DEVICE_BYTES;
    return of_ranks > ROTA_BUCKET_BYTES ? of_ranks : ROTA_BUCKET_BYTES;
}

rota_status rota_buckets_open(rota_tape *tape, const rota_data_parallel *options, const rota_tensor *params,
                              const rota_tensor *grads, uint32_t count, rota_buckets **out_buckets) {
    rota_data_parallel room;
    *out_buckets = NULL;
    if (!(options = ROTA_SIZED_IN(rota_data_parallel, options, &room))) return ROTA_INVALID_ARGUMENT;
    if (!options->communicator)
        return rota_fail(ROTA_INVALID_ARGUMENT, "backward: data_parallel has no communicator");
    ROTA_TRY(check_apart(tape, grads, count));
    if (rota_communicator_size(options->communicator) == 1 && !options->sharding)
        return ROTA_OK; /* they are what they are to become */
    rota_buckets *b = rota_arena_calloc(&tape->arena, sizeof *b, 8);
    if (!b) return rota_backward_no_memory();
    b->options = *options;
    if (!b->options.bucket_bytes)
        b->options.bucket_bytes = rota_bucket_bytes(rota_communicator_size(options->communicator),
                                                    rota_communicator_device(options->communicator) != NULL);
    if (!b->options.first_bucket_bytes)
        b->options.first_bucket_bytes = b->options.bucket_bytes / 4 + (b->options.bucket_bytes % 4 != 0);
    b->tape = tape;
    b->count = count;
    b->use_count = tape->use_count;
    b->regions = rota_arena_calloc(&tape->arena, (count + 1) * sizeof(rota_gradient_region *), 8);
    b->homes = rota_arena_calloc(&tape->arena, (count + 1) * sizeof *b->homes, 8);
    b->runs = rota_arena_calloc(&tape->arena, (count + 1) * sizeof *b->runs, 8);
    b->next = rota_arena_calloc(&tape->arena, (count + 1) * sizeof *b->next, 8);
    b->alone_bytes = ALONE_BYTES;
    if (rota_communicator_device(options->communicator) && !options->sharding) ROTA_TRY(hold_small_ones(b));
    b->first = rota_arena_alloc(&tape->arena, (b->use_count + 1) * sizeof *b->first, 8);
    if (!b->regions || !b->homes || !b->runs || !b->next || !b->first) return rota_backward_no_memory();
    for (uint64_t u = 0; u <= b->use_count; u++) b->first[u] = NONE;
    for (uint64_t u = 0; u < b->use_count; u++) {
        const rota_op_use *use = &tape->uses[u]->use;
        for (uint32_t i = 0; i < use->input_count; i++) note_use(tape, &use->inputs[i], u);
        for (uint32_t i = 0; i < use->output_count; i++) note_use(tape, &use->outputs[i], u);
    }
    /* In ascending order of parameters within a use; the last list is of those that none finishes. */
    for (uint32_t i = count; i-- > 0;) {
        if (rota_tensor_is_empty(&params[i])) continue;
        rota_gradient_region *region = region_of(tape, &params[i]);
        if (!region) return rota_fail(ROTA_INTERNAL, "backward: parameter %u has no region", i);
        uint32_t *list = &b->first[region->is_used ? region->first_use : b->use_count];
        b->regions[i] = region;
        b->next[i] = *list;
        *list = i;
    }
    b->last_use = find_last_use(b);
    find_homes(b);
    *out_buckets = b;
    b->sharding = options->sharding;
    return b->sharding ? rota_sharding_begin(b->sharding, options->communicator, count) : ROTA_OK;
}

/* ---- A bucket ---- */

static int by_place(const void *a, const void *b) {
    const run *x = a, *y = b;
    if (x->dtype != y->dtype) return x->dtype < y->dtype ? -1 : 1;
    if (x->home != y->home) return x->home < y->home ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void add_to_fingerprint(rota_buckets *b, uint64_t value) {
    for (int i = 0; i < 8; i++) b->fingerprint = rota_hash32_byte(b->fingerprint, (uint8_t)(value >> 8 * i));
}

static void order_runs(rota_buckets *b) {
    qsort(b->runs, b->run_count, sizeof *b->runs, by_place);
    b->fingerprint = ROTA_HASH32_BEGIN;
    for (uint32_t i = 0; i < b->run_count; i++) {
        const run *r = &b->runs[i];
        add_to_fingerprint(b, r->parameter);
        add_to_fingerprint(b, i && b->runs[i - 1].home == r->home ? r->begin - b->runs[i - 1].begin : 0);
        add_to_fingerprint(b, r->end - r->begin);
    }
}

/* Side by side become one. */
static void join_runs(rota_buckets *b) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->run_count; i++) {
        const run *r = &b->runs[i];
        run *last = count ? &b->runs[count - 1] : NULL;
        if (last && last->root == r->root && last->dtype == r->dtype && last->end == r->begin)
            last->end = r->end;
        else
            b->runs[count++] = *r;
    }
    b->run_count = count;
}

static rota_status tensor_of(const run *r, rota_tensor *out) {
    return rota_tensor_of(r->root, r->begin, r->dtype,
                          ROTA_SHAPE((r->end - r->begin) / rota_dtype_bytes(r->dtype)), out);
}

static rota_status reduce(rota_buckets *b, const rota_tensor *x) {
    return rota_op_all_reduce_into(b->tape, b->options.communicator, *x,
                                   b->options.sum ? ROTA_COLLECTIVE_SUM : ROTA_COLLECTIVE_MEAN, *x);
}

/* Runs [first, end) of one dtype, in one copy. */
static rota_status reduce_together(rota_buckets *b, uint32_t first, uint32_t end) {
    rota_tensor all, x, part;
    uint64_t elements = 0, offset = 0;
    if (end - first == 1) {
        ROTA_TRY(tensor_of(&b->runs[first], &x));
        return reduce(b, &x);
    }
    for (uint32_t i = first; i < end; i++)
        elements += (b->runs[i].end - b->runs[i].begin) / rota_dtype_bytes(b->runs[i].dtype);
    ROTA_TRY(rota_tape_temporary(b->tape, "bucket", b->runs[first].dtype, ROTA_SHAPE(elements), &all));
    for (uint32_t back_again = 0; back_again < 2; back_again++, offset = 0) {
        for (uint32_t i = first; i < end; i++) {
            ROTA_TRY(tensor_of(&b->runs[i], &x));
            ROTA_TRY(rota_tensor_slice(&all, 0, offset, x.shape[0], &part));
            if (!back_again)
                ROTA_TRY(rota_op_copy_into(b->tape, x, part));
            else if (b->backs)
                b->backs[b->back_count++] = (back){part, x};
            else
                ROTA_TRY(rota_op_copy_into(b->tape, part, x));
            offset += x.shape[0];
        }
        if (!back_again) ROTA_TRY(reduce(b, &all));
    }
    return ROTA_OK;
}

/* Those of a bucket; small ones are held, or go together as well. */
static rota_status reduce_runs(rota_buckets *b, bool holds) {
    rota_tensor x;
    uint32_t small = 0;
    join_runs(b);
    for (uint32_t i = 0; i < b->run_count; i++) {
        const run r = b->runs[i];
        if (r.end - r.begin >= b->alone_bytes) {
            ROTA_TRY(tensor_of(&r, &x));
            ROTA_TRY(reduce(b, &x));
        } else if (holds) {
            b->held[b->held_count++] = r;
            b->held_bytes += r.end - r.begin;
        } else {
            b->runs[small++] = r;
        }
    }
    for (uint32_t i = 0, end; i < small; i = end) {
        end = i + 1;
        while (end < small && b->runs[end].dtype == b->runs[i].dtype) end++;
        ROTA_TRY(reduce_together(b, i, end));
    }
    return ROTA_OK;
}

/* A bucket each of those of one dtype. */
static rota_status shard_runs(rota_buckets *b) {
    rota_shard_run *runs = rota_arena_calloc(&b->tape->arena, b->run_count * sizeof *runs, 8);
    if (!runs) return rota_backward_no_memory();
    for (uint32_t i = 0; i < b->run_count; i++) {
        runs[i].parameter = b->runs[i].parameter;
        ROTA_TRY(tensor_of(&b->runs[i], &runs[i].gradient));
    }
    for (uint32_t i = 0, end; i < b->run_count; i = end) {
        end = i + 1;
        while (end < b->run_count && b->runs[end].dtype == b->runs[i].dtype) end++;
        ROTA_TRY(rota_sharding_add(b->sharding, b->tape, b->options.sum, &runs[i], end - i));
    }
    return ROTA_OK;
}

static rota_status send_runs(rota_buckets *b, bool holds) {
    rota_tape *tape = b->tape;
    const char *const name = tape->name;
    char text[64];
    order_runs(b);
    b->made++;
    snprintf(text, sizeof text, "gradients, bucket %" PRIu32 " (%08" PRIx32 ")", b->made, b->fingerprint);
    ROTA_TRY(rota_tape_name(tape, text));
    const rota_status status = b->sharding ? shard_runs(b) : reduce_runs(b, holds);
    tape->name = name;
    b->run_count = 0;
    b->bytes = 0;
    return status;
}

/* The small ones of the buckets so far, as a bucket. */
static rota_status send_held(rota_buckets *b) {
    run *const runs = b->runs;
    b->runs = b->held;
    b->run_count = b->held_count;
    const rota_status status = send_runs(b, false);
    b->runs = runs;
    b->held_count = 0;
    b->held_bytes = 0;
    return status;
}

/* Nothing is left to hide the last bucket behind, so what is held goes with it: side by side with its gradients, in
 * their collective. There is room: each parameter is in one of the two lists, once. */
static void add_held(rota_buckets *b) {
    memcpy(b->runs + b->run_count, b->held, b->held_count * sizeof *b->runs);
    b->run_count += b->held_count;
    b->held_count = 0;
    b->held_bytes = 0;
}

static rota_status send_bucket(rota_buckets *b, bool is_last) {
    if (is_last && b->held_count) add_held(b);
    if (b->run_count) ROTA_TRY(send_runs(b, b->held && !is_last));
    if (!b->held_count || b->held_bytes < b->options.bucket_bytes) return ROTA_OK;
    return send_held(b);
}

/* ---- Parameters that are finished ---- */

static rota_status finish(rota_buckets *b, uint32_t i, bool goes_on) {
    const rota_gradient_region *region = b->regions[i];
    rota_tensor param = region->memory;
    const uint64_t size = region->end - region->begin, begin = rota_tensor_begin(&param);
    b->runs[b->run_count++] = (run){.root = rota_tensor_root(&param),
                                    .begin = begin,
                                    .end = begin + size,
                                    .dtype = param.dtype,
                                    .parameter = i,
                                    .home = b->homes[i]};
    b->bytes += size;
    const uint64_t wanted = b->made ? b->options.bucket_bytes : b->options.first_bucket_bytes;
    return b->bytes >= wanted && goes_on ? send_bucket(b, false) : ROTA_OK;
}

rota_status rota_buckets_step(rota_buckets *b, uint64_t use) {
    /* What is finished together, and last, goes with what is held: also where it is a bucket by itself. */
    const bool is_last = b->held && use == b->last_use;
    for (uint32_t i = b->first[use]; i != NONE; i = b->next[i]) {
        /* What no op added to is 0. */
        ROTA_TRY(rota_gradient_zero_rest(b->tape, b->regions[i], b->regions[i]->begin, b->regions[i]->end));
        ROTA_TRY(finish(b, i, !is_last));
    }
    return is_last ? send_bucket(b, true) : ROTA_OK;
}

rota_status rota_buckets_close(rota_buckets *b) {
    ROTA_TRY(rota_buckets_step(b, b->use_count));
    ROTA_TRY(send_bucket(b, true));
    for (uint32_t i = 0; i < b->back_count; i++)
        ROTA_TRY(rota_op_copy_into(b->tape, b->backs[i].from, b->backs[i].to));
    return ROTA_OK;
}
