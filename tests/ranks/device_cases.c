/* The cases: whatever all ranks make is small whole numbers, which every type has, so that each order of combining them
 * comes to the same. */
#include "tests/ranks/device_cases.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

enum { COUNT = 30001 };

/* Real numbers first; short ones before longer ones, so that what is kept for them grows. */
static const rota_dtype dtypes[] = {ROTA_F16, ROTA_F32, ROTA_BF16, ROTA_I32, ROTA_U32};

/* ---- Elements ---- */

static uint32_t element(uint32_t rank, uint64_t i) {
    return 1 + (uint32_t)((i + (uint64_t)rank * 7) % 3);
}

static void put(rota_dtype dtype, void *bytes, uint64_t i, float value) {
    if (dtype == ROTA_F32) ((float *)bytes)[i] = value;
    if (dtype == ROTA_F16) ((uint16_t *)bytes)[i] = rota_to_f16(value);
    if (dtype == ROTA_BF16) {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        ((uint16_t *)bytes)[i] = (uint16_t)(bits >> 16);
    }
    if (dtype == ROTA_I32 || dtype == ROTA_U32) ((int32_t *)bytes)[i] = (int32_t)value;
}

static rota_tensor made(const device_rank *r, rota_dtype dtype, uint64_t count, const void *bytes) {
    rota_buffer *buffer;
    rota_tensor tensor;
    rank_ok(rota_buffer_create_in(r->runtime, "t", count * rota_dtype_bytes(dtype), &buffer));
    if (bytes) rank_ok(rota_buffer_write(buffer, NULL, 0, bytes, count * rota_dtype_bytes(dtype), NULL));
    rank_ok(rota_tensor_of(buffer, 0, dtype, ROTA_SHAPE(count), &tensor));
    return tensor;
}

/* Of `parts` parts of COUNT, of which part p is what rank first + p has, or this rank's all the same. */
static void fill(rota_dtype dtype, uint32_t rank, uint32_t parts, bool by_rank, void *bytes) {
    for (uint64_t i = 0; i < (uint64_t)parts * COUNT; i++)
        put(dtype, bytes, i,
            by_rank ? (float)element((uint32_t)(i / COUNT), i % COUNT) : (float)element(rank, i));
}

static void expect(const device_rank *r, const char *what, rota_dtype dtype, rota_tensor got_in,
                   uint64_t count, const void *wanted) {
    const uint64_t bytes = count * rota_dtype_bytes(dtype), each = rota_dtype_bytes(dtype);
    uint8_t *got = malloc(bytes);
    rank_ok(rota_buffer_read(got_in.buffer, 0, got, bytes));
    for (uint64_t i = 0; i < count; i++)
        rank_want(memcmp(got + i * each, (const uint8_t *)wanted + i * each, each) == 0,
                  "%s of %s on rank %u: element %llu of %llu", what, rota_dtype_name(dtype),
                  rota_communicator_rank(r->communicator), (unsigned long long)i, (unsigned long long)count);
    free(got);
}

/* ---- Graphs ---- */

typedef struct recording {
    const device_rank *rank;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan *plan;
} recording;

static recording begin(const device_rank *r) {
    recording g = {.rank = r};
    rank_ok(rota_graph_create(NULL, &g.graph));
    rank_ok(rota_recorder_open(g.graph, 0, NULL, &g.recorder));
    rank_ok(rota_tape_create(g.recorder, NULL, &g.tape));
    return g;
}

static void compile(recording *g) {
    rota_tape_destroy(g->tape);
    rota_recorder_close(g->recorder);
    rota_device *device = g->rank->device;
    const rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true);
    rank_ok(rota_compile(g->rank->runtime, g->graph, &options, &g->plan));
    rota_graph_release(g->graph);
}

/* So many replays, of which none waits for the one before. */
static void replay(const recording *g, uint32_t times) {
    rota_ticket ticket;
    for (uint32_t i = 0; i < times; i++) rank_ok(rota_submit_wait(g->plan, NULL, 0, &ticket));
    rank_ok(rota_wait(ticket, 0));
}

/* ---- Cases ---- */

static float combined(rota_collective_reduction reduction, uint32_t size, uint64_t i) {
    float result = (float)element(0, i);
    for (uint32_t r = 1; r < size; r++) {
        const float x = (float)element(r, i);
        if (reduction == ROTA_COLLECTIVE_MAX)
            result = x > result ? x : result;
        else if (reduction == ROTA_COLLECTIVE_MIN)
            result = x < result ? x : result;
        else if (reduction == ROTA_COLLECTIVE_PRODUCT)
            result *= x;
        else
            result += x;
    }
    return reduction == ROTA_COLLECTIVE_MEAN ? result / (float)size : result;
}

static bool has_mean(rota_dtype dtype, uint32_t size) {
    return dtype != ROTA_I32 && dtype != ROTA_U32 && (size & (size - 1)) == 0;
}

static void reductions(const device_rank *r) {
    const uint32_t size = rota_communicator_size(r->communicator),
                   rank = rota_communicator_rank(r->communicator);
    uint8_t *own = malloc((size_t)size * COUNT * 4), *wanted = malloc(COUNT * sizeof(uint32_t));
    for (uint32_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (uint32_t k = 0; k < ROTA_COLLECTIVE_REDUCTION_COUNT; k++) {
            const rota_collective_reduction reduction = (rota_collective_reduction)k;
            if (reduction == ROTA_COLLECTIVE_MEAN && !has_mean(dtypes[d], size)) continue;
            recording g = begin(r);
            fill(dtypes[d], rank, size, false, own);
            const rota_tensor x = made(r, dtypes[d], COUNT, own), y = made(r, dtypes[d], COUNT, NULL),
                              wide = made(r, dtypes[d], (uint64_t)size * COUNT, own),
                              part = made(r, dtypes[d], COUNT, NULL);
            rank_ok(rota_op_all_reduce_into(g.tape, r->communicator, x, reduction, y));
            rank_ok(rota_op_reduce_scatter_into(g.tape, r->communicator, wide, reduction, part));
            compile(&g);
            for (uint32_t times = 0; times < 3; times++) {
                replay(&g, 1);
                for (uint64_t i = 0; i < COUNT; i++) put(dtypes[d], wanted, i, combined(reduction, size, i));
                expect(r, "all_reduce", dtypes[d], y, COUNT, wanted);
                for (uint64_t i = 0; i < COUNT; i++)
                    put(dtypes[d], wanted, i, combined(reduction, size, (uint64_t)rank * COUNT + i));
                expect(r, "reduce_scatter", dtypes[d], part, COUNT, wanted);
            }
            rota_plan_release(g.plan);
            const rota_tensor all[] = {x, y, wide, part};
            for (uint32_t i = 0; i < 4; i++) rota_buffer_release(all[i].buffer);
        }
    free(own);
    free(wanted);
}

/* Enough to go between GPUs of one process by copies: apart and in place, from the middle of a buffer
 * on one rank, and again; the last share is shorter, and not of 16 bytes. */
static void large(const device_rank *r) {
    enum { LARGE = 262153, MORE = 128 };
    const uint32_t size = rota_communicator_size(r->communicator),
                   rank = rota_communicator_rank(r->communicator);
    uint8_t *own = malloc((LARGE + MORE) * sizeof(uint32_t)), *wanted = malloc(LARGE * sizeof(uint32_t));
    for (uint32_t d = 0; d < 3; d++)
        for (uint32_t way = 0; way < 4; way++) {
            const rota_collective_reduction reduction =
                way / 2 && has_mean(dtypes[d], size) ? ROTA_COLLECTIVE_MEAN : ROTA_COLLECTIVE_SUM;
            const uint64_t skipped = rank == 1 ? MORE : 0, each = rota_dtype_bytes(dtypes[d]);
            recording g = begin(r);
            for (uint64_t i = 0; i < LARGE; i++) {
                put(dtypes[d], own, skipped + i, (float)element(rank, i));
                put(dtypes[d], wanted, i, combined(reduction, size, i));
            }
            const rota_tensor all = made(r, dtypes[d], LARGE + MORE, own),
                              y = made(r, dtypes[d], LARGE, NULL);
            rota_tensor x;
            rank_ok(rota_tensor_of(all.buffer, skipped * each, dtypes[d], ROTA_SHAPE(LARGE), &x));
            if (way % 2) {
                rank_ok(
                    rota_record_copy(g.recorder, y.buffer, 0, x.buffer, skipped * each, LARGE * each, NULL));
                rank_ok(rota_op_all_reduce_into(g.tape, r->communicator, y, reduction, y));
            } else {
                rank_ok(rota_op_all_reduce_into(g.tape, r->communicator, x, reduction, y));
            }
            compile(&g);
            for (uint32_t times = 0; times < 2; times++) {
                replay(&g, 3);
                expect(r, "a large all_reduce", dtypes[d], y, LARGE, wanted);
            }
            rota_plan_release(g.plan);
            rota_buffer_release(all.buffer);
            rota_buffer_release(y.buffer);
        }
    free(own);
    free(wanted);
}

/* The same of parts: each rank's part of the sum, or of integers what rank 0 has, then all parts on each. Parts have an
 * odd number of elements, and on one rank begin where 16 bytes are not whole; those of 32 bits are every other time in
 * place. */
static void large_parts(const device_rank *r) {
    enum { PART = 65551, SKIPPED = 130 };
    const uint32_t size = rota_communicator_size(r->communicator),
                   rank = rota_communicator_rank(r->communicator);
    const uint64_t all = (uint64_t)size * PART;
    uint8_t *own = malloc((all + SKIPPED) * sizeof(uint32_t)), *wanted = malloc(all * sizeof(uint32_t));
    for (uint32_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (uint32_t way = 0; way < 4; way++) {
            const rota_dtype dtype = dtypes[d];
            const bool mean = way / 2, in_place = way % 2;
            if (in_place && rota_dtype_bytes(dtype) != 4) continue;
            const bool sums = dtype != ROTA_I32 && dtype != ROTA_U32;
            const rota_collective_reduction reduction =
                mean && has_mean(dtype, size) ? ROTA_COLLECTIVE_MEAN : ROTA_COLLECTIVE_SUM;
            const uint64_t each = rota_dtype_bytes(dtype), skipped = rank == 1 ? SKIPPED : 0;
            for (uint64_t i = 0; i < all; i++) {
                put(dtype, own, skipped + i, (float)element(sums ? rank : 0, i));
                put(dtype, wanted, i, sums ? combined(reduction, size, i) : (float)element(0, i));
            }
            recording g = begin(r);
            const rota_tensor from = made(r, dtype, all + SKIPPED, own),
                              parts = made(r, dtype, PART + SKIPPED, NULL), whole = made(r, dtype, all, NULL);
            rota_tensor x, part;
            rank_ok(rota_tensor_of(from.buffer, skipped * each, dtype, ROTA_SHAPE(all), &x));
            rank_ok(rota_tensor_of(parts.buffer, skipped * each, dtype, ROTA_SHAPE(PART), &part));
            if (in_place) {
                rank_ok(rota_record_copy(g.recorder, whole.buffer, 0, from.buffer, skipped * each, all * each,
                                         NULL));
                x = whole;
                rank_ok(rota_tensor_slice(&whole, 0, (uint64_t)rank * PART, PART, &part));
            }
            if (sums)
                rank_ok(rota_op_reduce_scatter_into(g.tape, r->communicator, x, reduction, part));
            else if (!in_place)
                rank_ok(rota_record_copy(g.recorder, parts.buffer, skipped * each, from.buffer,
                                         (skipped + (uint64_t)rank * PART) * each, PART * each, NULL));
            rank_ok(rota_op_all_gather_into(g.tape, r->communicator, part, whole));
            compile(&g);
            for (uint32_t times = 0; times < 2; times++) {
                replay(&g, 2);
                expect(r, "of large parts", dtype, whole, all, wanted);
            }
            rota_plan_release(g.plan);
            const rota_tensor tensors[] = {from, parts, whole};
            for (uint32_t i = 0; i < 3; i++) rota_buffer_release(tensors[i].buffer);
        }
    free(own);
    free(wanted);
}

/* Those that move elements as they are, apart and in place. */
static void moves(const device_rank *r) {
    const uint32_t size = rota_communicator_size(r->communicator),
                   rank = rota_communicator_rank(r->communicator);
    const uint64_t all = (uint64_t)size * COUNT;
    uint8_t *own = malloc(all * 4), *gathered = malloc(all * 4), *turned = malloc(all * 4);
    for (uint32_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        const rota_dtype dtype = dtypes[d];
        recording g = begin(r);
        fill(dtype, rank, size, false, own);
        fill(dtype, rank, size, true, gathered);
        for (uint64_t i = 0; i < all; i++)
            put(dtype, turned, i, (float)element((uint32_t)(i / COUNT), (uint64_t)rank * COUNT + i % COUNT));
        const rota_tensor x = made(r, dtype, COUNT, own), whole = made(r, dtype, all, NULL),
                          wide = made(r, dtype, all, own), apart = made(r, dtype, all, NULL),
                          cast = made(r, dtype, COUNT, own), other = made(r, dtype, COUNT, NULL),
                          within = made(r, dtype, all, own);
        rota_tensor part;
        rank_ok(rota_tensor_slice(&within, 0, (uint64_t)rank * COUNT, COUNT, &part));
        rank_ok(rota_op_all_gather_into(g.tape, r->communicator, x, whole));
        rank_ok(rota_op_all_to_all_into(g.tape, r->communicator, wide, apart));
        rank_ok(rota_op_broadcast_from_into(g.tape, r->communicator, size - 1, x, other));
        rank_ok(rota_op_broadcast_from_into(g.tape, r->communicator, size - 1, cast, cast));
        rank_ok(rota_op_barrier(g.tape, r->communicator));
        rank_ok(rota_op_all_to_all_into(g.tape, r->communicator, wide, wide));
        const uint64_t part_bytes = (uint64_t)COUNT * rota_dtype_bytes(dtype);
        rank_ok(
            rota_record_copy(g.recorder, within.buffer, part.offset_bytes, x.buffer, 0, part_bytes, NULL));
        /* Parts that are no multiple of 4 bytes would go through a copy, by a kernel that stand-ins don't have. */
        const bool is_in_place = part_bytes % 4 == 0;
        rank_ok(rota_op_all_gather_into(g.tape, r->communicator, is_in_place ? part : x, within));
        compile(&g);
        replay(&g, 1);
        expect(r, "all_gather", dtype, whole, all, gathered);
        expect(r, "all_to_all", dtype, apart, all, turned);
        expect(r, "all_to_all in place", dtype, wide, all, turned);
        expect(r, "all_gather in place", dtype, within, all, gathered);
        fill(dtype, size - 1, 1, false, own);
        expect(r, "broadcast_from", dtype, other, COUNT, own);
        expect(r, "broadcast_from in place", dtype, cast, COUNT, own);
        rota_plan_release(g.plan);
        const rota_tensor tensors[] = {x, whole, wide, apart, cast, other, within};
        for (uint32_t i = 0; i < 7; i++) rota_buffer_release(tensors[i].buffer);
    }
    free(own);
    free(gathered);
    free(turned);
}

/* What rank 0 has goes round, and comes back to it. */
static void round_of_messages(const device_rank *r) {
    const uint32_t size = rota_communicator_size(r->communicator),
                   rank = rota_communicator_rank(r->communicator);
    const uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint8_t *bytes = malloc(COUNT * sizeof(uint32_t));
    for (uint32_t d = 0; d < sizeof dtypes / sizeof *dtypes && size > 1; d++) {
        recording g = begin(r);
        fill(dtypes[d], 0, 1, false, bytes);
        const rota_tensor x = made(r, dtypes[d], COUNT, rank ? NULL : bytes),
                          end = made(r, dtypes[d], COUNT, NULL);
        if (rank) rank_ok(rota_op_receive_into(g.tape, r->communicator, before, x));
        rank_ok(rota_op_send(g.tape, r->communicator, next, x));
        if (!rank) rank_ok(rota_op_receive_into(g.tape, r->communicator, before, end));
        compile(&g);
        replay(&g, 5);
        expect(r, "a round of messages", dtypes[d], rank ? x : end, COUNT, bytes);
        rota_plan_release(g.plan);
        rota_buffer_release(x.buffer);
        rota_buffer_release(end.buffer);
    }
    free(bytes);
}

/* Copies and fills of the device's before and behind, of memory that lives in the replay alone, and again before the
 * last one ends: hazards order them. */
static void chains(const device_rank *r) {
    enum { WORDS = 40000 };
    static const uint64_t bytes = WORDS * sizeof(uint32_t);
    const uint32_t size = rota_communicator_size(r->communicator),
                   rank = rota_communicator_rank(r->communicator);
    uint32_t *words = malloc(WORDS * sizeof(uint32_t));
    for (uint32_t i = 0; i < WORDS; i++) words[i] = rank + 1;
    recording g = begin(r);
    rota_buffer *passing;
    const rota_tensor x = made(r, ROTA_U32, WORDS, words), y = made(r, ROTA_U32, WORDS, NULL);
    rota_tensor inner, sum;
    rank_ok(rota_graph_buffer(g.graph, ROTA_BUFFER_TRANSIENT, "passing", bytes, &passing));
    rank_ok(rota_tensor_of(passing, 0, ROTA_U32, ROTA_SHAPE(WORDS), &inner));
    for (uint32_t i = 0; i < 4; i++) {
        rank_ok(rota_record_copy(g.recorder, passing, 0, x.buffer, 0, ROTA_WHOLE, NULL));
        rank_ok(rota_op_all_reduce(g.tape, r->communicator, inner, ROTA_COLLECTIVE_SUM, &sum));
        rank_ok(rota_record_copy(g.recorder, y.buffer, 0, sum.buffer, 0, bytes, NULL));
        rank_ok(rota_record_fill(g.recorder, passing, 0, bytes, 0xdeadbeef, NULL));
        rank_ok(rota_op_all_reduce_into(g.tape, r->communicator, y, ROTA_COLLECTIVE_MAX, y));
        rank_ok(rota_record_fill(g.recorder, y.buffer, 0, 4, i, NULL));
    }
    compile(&g);
    replay(&g, 50);
    for (uint32_t i = 0; i < WORDS; i++) words[i] = i ? size * (size + 1) / 2 : 3;
    expect(r, "a chain", ROTA_U32, y, WORDS, words);
    rota_plan_release(g.plan);
    rota_buffer_release(x.buffer);
    rota_buffer_release(y.buffer);
    free(words);
}

/* Host memory of each replay: brought to the device, and back. */
static void inputs(const device_rank *r) {
    enum { WORDS = 300 };
    const uint32_t size = rota_communicator_size(r->communicator),
                   rank = rota_communicator_rank(r->communicator);
    uint32_t in[WORDS], out[WORDS];
    recording g = begin(r);
    rota_buffer *from, *to;
    rota_tensor x, y;
    rank_ok(rota_graph_buffer(g.graph, ROTA_BUFFER_INPUT, "in", sizeof in, &from));
    rank_ok(rota_graph_buffer(g.graph, ROTA_BUFFER_OUTPUT, "out", sizeof out, &to));
    rank_ok(rota_tensor_of(from, 0, ROTA_U32, ROTA_SHAPE(WORDS), &x));
    rank_ok(rota_tensor_of(to, 0, ROTA_U32, ROTA_SHAPE(WORDS), &y));
    rank_ok(rota_op_all_reduce_into(g.tape, r->communicator, x, ROTA_COLLECTIVE_SUM, y));
    rota_args *args;
    compile(&g);
    rank_ok(rota_args_create(g.plan, &args));
    for (uint32_t times = 0; times < 5; times++) {
        rota_ticket ticket;
        for (uint32_t i = 0; i < WORDS; i++) in[i] = rank + i + times;
        rank_ok(rota_args_set_input(args, from, in, sizeof in, false));
        rank_ok(rota_args_set_output(args, to, out, sizeof out));
        rank_ok(rota_submit(g.plan, args, &ticket));
        rank_ok(rota_wait(ticket, 0));
        for (uint32_t i = 0; i < WORDS; i++)
            rank_want(out[i] == size * (i + times) + size * (size - 1) / 2, "input: element %u is %u", i,
                      out[i]);
    }
    rota_args_release(args);
    rota_plan_release(g.plan);
}

/* Even and odd ranks apart, both in use with the whole in one graph. */
static void split(const device_rank *r) {
    const uint32_t size = rota_communicator_size(r->communicator),
                   rank = rota_communicator_rank(r->communicator);
    device_rank half = *r;
    rank_ok(rota_communicator_open_split(r->communicator, rank % 2, rank, "half", &half.communicator));
    rank_want(rota_communicator_device(half.communicator) == r->device, "a split that has no device");
    uint32_t words[4] = {rank, rank, rank, rank}, odd = 0, all = 0;
    for (uint32_t i = 0; i < size; i++) {
        all += i;
        if (i % 2 == rank % 2) odd += i;
    }
    recording g = begin(r);
    const rota_tensor x = made(r, ROTA_U32, 4, words), y = made(r, ROTA_U32, 4, words);
    rank_ok(rota_op_all_reduce_into(g.tape, half.communicator, x, ROTA_COLLECTIVE_SUM, x));
    rank_ok(rota_op_all_reduce_into(g.tape, r->communicator, y, ROTA_COLLECTIVE_SUM, y));
    compile(&g);
    replay(&g, 1);
    for (uint32_t i = 0; i < 4; i++) words[i] = odd;
    expect(r, "a half's sum", ROTA_U32, x, 4, words);
    for (uint32_t i = 0; i < 4; i++) words[i] = all;
    expect(r, "the sum", ROTA_U32, y, 4, words);
    rota_plan_release(g.plan);
    rota_buffer_release(x.buffer);
    rota_buffer_release(y.buffer);
    rank_ok(rota_communicator_close(half.communicator, 0));
}

static bool is_nan(rota_dtype dtype, const void *bytes, uint64_t i) {
    const uint32_t word = dtype == ROTA_F32 ? ((const uint32_t *)bytes)[i] : ((const uint16_t *)bytes)[i];
    if (dtype == ROTA_F32) return (word & 0x7fffffffu) > 0x7f800000u;
    return (word & 0x7fffu) > (dtype == ROTA_F16 ? 0x7c00u : 0x7f80u);
}

/* What one rank has of them all have, by whatever reduction. */
static void nans(const device_rank *r) {
    enum { ELEMENTS = 64, REALS = 3 };
    static const rota_collective_reduction kinds[] = {ROTA_COLLECTIVE_SUM, ROTA_COLLECTIVE_MAX,
                                                      ROTA_COLLECTIVE_MIN};
    const uint32_t rank = rota_communicator_rank(r->communicator);
    const bool is_last = rank + 1 == rota_communicator_size(r->communicator);
    for (uint32_t n = 0; n < REALS * 3; n++) {
        const rota_dtype dtype = dtypes[n / 3];
        uint32_t words[ELEMENTS] = {0};
        for (uint32_t i = 0; i < ELEMENTS; i++)
            put(dtype, words, i, is_last && i % 8 == 0 ? NAN : (float)element(rank, i));
        const rota_tensor x = made(r, dtype, ELEMENTS, words);
        recording g = begin(r);
        rank_ok(rota_op_all_reduce_into(g.tape, r->communicator, x, kinds[n % 3], x));
        compile(&g);
        replay(&g, 1);
        rank_ok(rota_buffer_read(x.buffer, 0, words, (uint64_t)ELEMENTS * rota_dtype_bytes(dtype)));
        for (uint32_t i = 0; i < ELEMENTS; i++)
            rank_want(is_nan(dtype, words, i) == (i % 8 == 0), "reduction %u of %s on rank %u: element %u",
                      kinds[n % 3], rota_dtype_name(dtype), rank, i);
        rota_plan_release(g.plan);
        rota_buffer_release(x.buffer);
    }
}

const device_case device_cases[] = {
    {"reductions", reductions},
    {"nans", nans},
    {"moves", moves},
    {"messages", round_of_messages},
    {"chains", chains},
    {"inputs", inputs},
    {"split", split},
    {"large", large}, /* by copies, as the next */
    {"large_parts", large_parts},
    {NULL, NULL},
};
