/* Collectives are held to what their nodes declare, on any transport of the CPU: every kind is run twice, with every
 * buffer snapshotted. A byte that changes outside of the declared writes is found, one of a declared WRITE that keeps
 * its poison both times, and one that is another the second time, when nothing is but what is not declared as read. And
 * those are found: nodes that declare less than the collective does, or more. */
#include <string.h>

#include "sched/collectives.h"
#include "sched/rewrite.h"
#include "tests/kit/random.h"
#include "tests/ranks/rank_graph.h"

#define GUARD UINT64_C(256)
enum { ACCESSES_MAX = 8, RUNS = 2 };
enum { X, Y, AREAS };

/* A buffer, and what was in it before and after each run. */
typedef struct area {
    rota_buffer *buffer;
    uint64_t bytes;
    uint8_t *before[RUNS], *after[RUNS];
} area;

typedef struct looked_at {
    area areas[AREAS];
    rota_access declared[ACCESSES_MAX]; /* of those buffers */
    uint32_t declared_count;
    char found[160]; /* "": nothing is wrong */
} looked_at;

static const uint8_t poison[RUNS] = {0xa5, 0x3c};

static rota_status look(void *user, rota_rewriter *rewriter) {
    looked_at *l = user;
    const uint64_t count = rota_rewriter_node_count(rewriter);
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        for (uint32_t k = 0; k < view.access_count; k++) {
            rota_access access = view.accesses[k];
            const bool is_own = access.buffer == l->areas[X].buffer || access.buffer == l->areas[Y].buffer;
            if (!is_own) continue; /* the token */
            rank_want(l->declared_count < ACCESSES_MAX, "more than one collective");
            if (access.size_bytes == ROTA_WHOLE)
                access.size_bytes = rota_buffer_size(access.buffer) - access.offset_bytes;
            l->declared[l->declared_count++] = access;
        }
    }
    return ROTA_OK;
}

static void make_area(rota_runtime *runtime, uint64_t bytes, area *out) {
    out->bytes = bytes + 2 * GUARD;
    rank_ok(rota_buffer_create_in(runtime, "guarded", out->bytes, &out->buffer));
    for (uint32_t r = 0; r < RUNS; r++) {
        out->before[r] = malloc(out->bytes);
        out->after[r] = malloc(out->bytes);
    }
}

static void drop_areas(looked_at *l) {
    for (uint32_t a = 0; a < AREAS; a++) {
        rota_buffer_release(l->areas[a].buffer);
        for (uint32_t r = 0; r < RUNS; r++) {
            free(l->areas[a].before[r]);
            free(l->areas[a].after[r]);
        }
    }
}

/* How a byte is declared: in which modes, as bits. */
static uint32_t modes_of(const looked_at *l, const area *of, uint64_t byte) {
    uint32_t modes = 0;
    for (uint32_t k = 0; k < l->declared_count; k++) {
        const rota_access *access = &l->declared[k];
        if (access->buffer == of->buffer && byte >= access->offset_bytes &&
            byte - access->offset_bytes < access->size_bytes)
            modes |= 1u << access->mode;
    }
    return modes;
}
static const uint32_t only_read = 1u << ROTA_READ, only_written = 1u << ROTA_WRITE;

/* What is read is the same in both runs, and finite in each type; all else is not the same. */
static void fill(const looked_at *l, uint32_t rank, uint32_t run, area *a) {
    uint64_t random = run * UINT64_C(1000) + rank + 1;
    for (uint64_t i = 0; i < a->bytes; i++) {
        const uint32_t modes = modes_of(l, a, i);
        a->before[run][i] = modes == only_written ? poison[run]
                            : modes               ? (uint8_t)((i * 7 + rank * UINT64_C(13)) & 0x3f)
                                                  : (uint8_t)(test_random(&random) >> 58);
    }
    rank_ok(rota_buffer_write(a->buffer, NULL, 0, a->before[run], a->bytes, NULL));
}

static void find(looked_at *l, const area *a, uint64_t i) {
    const uint32_t modes = modes_of(l, a, i);
    const char *what = NULL;
    for (uint32_t r = 0; r < RUNS; r++)
        if (!(modes & ~only_read) && a->after[r][i] != a->before[r][i])
            what = "changes a byte that it does not declare";
    const bool is_left = modes == only_written && a->after[0][i] == poison[0] && a->after[1][i] == poison[1];
    if (is_left) what = "leaves a byte unwritten that it declares as WRITE";
    if (!is_left && (modes & ~only_read) && a->after[0][i] != a->after[1][i])
        what = "reads what it does not declare";
    if (what && !l->found[0])
        (void)snprintf(l->found, sizeof l->found, "%s: byte %lld of operand %c", what,
                       (long long)i - (long long)GUARD, a == &l->areas[X] ? 'x' : 'y');
}

/* Runs what was recorded, and says what it does that it does not declare. */
static void watch(rank_graph *g, looked_at *l) {
    rank_ok(rota_graph_add_rewrite(g->graph, look, l));
    compile(g);
    for (uint32_t r = 0; r < RUNS; r++) {
        for (uint32_t a = 0; a < AREAS; a++) fill(l, g->rank, r, &l->areas[a]);
        rank_ok(run(g));
        for (uint32_t a = 0; a < AREAS; a++)
            rank_ok(rota_buffer_read(l->areas[a].buffer, 0, l->areas[a].after[r], l->areas[a].bytes));
    }
    for (uint32_t a = 0; a < AREAS; a++)
        for (uint64_t i = 0; i < l->areas[a].bytes; i++) find(l, &l->areas[a], i);
    end(g);
}

static rota_tensor tensor_of(const looked_at *l, uint32_t which, rota_dtype dtype, uint64_t offset_bytes,
                             uint64_t count) {
    rota_tensor made;
    rank_ok(rota_tensor_of(l->areas[which].buffer, GUARD + offset_bytes, dtype, ROTA_SHAPE(count), &made));
    return made;
}

/* ---- What the ops record ---- */

/* In place: y is x, or one is the rank's part of the other. */
typedef enum kind_case {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    PAIR,
    BARRIER,
    ALL_REDUCE_IN_PLACE,
    ALL_TO_ALL_IN_PLACE,
    BROADCAST_IN_PLACE,
    REDUCE_SCATTER_IN_PLACE,
    ALL_GATHER_IN_PLACE,
    KINDS
} kind_case;

static void record(rank_graph *g, const looked_at *l, kind_case kind, rota_dtype dtype, uint64_t count) {
    const uint64_t all = count * g->size;
    const uint32_t y = kind >= ALL_REDUCE_IN_PLACE ? X : Y;
    const uint64_t before = g->rank * count * rota_dtype_bytes(dtype);
    switch (kind) {
    case ALL_REDUCE:
    case ALL_REDUCE_IN_PLACE:
        rank_ok(rota_op_all_reduce_into(g->tape, g->communicator, tensor_of(l, X, dtype, 0, count),
                                        ROTA_COLLECTIVE_SUM, tensor_of(l, y, dtype, 0, count)));
        return;
    case REDUCE_SCATTER:
        rank_ok(rota_op_reduce_scatter_into(g->tape, g->communicator, tensor_of(l, X, dtype, 0, all),
                                            ROTA_COLLECTIVE_SUM, tensor_of(l, y, dtype, 0, count)));
        return;
    case REDUCE_SCATTER_IN_PLACE:
        rank_ok(rota_op_reduce_scatter_into(g->tape, g->communicator, tensor_of(l, X, dtype, 0, all),
                                            ROTA_COLLECTIVE_SUM, tensor_of(l, X, dtype, before, count)));
        return;
    case ALL_GATHER_IN_PLACE:
        rank_ok(rota_op_all_gather_into(g->tape, g->communicator, tensor_of(l, X, dtype, before, count),
                                        tensor_of(l, X, dtype, 0, all)));
        return;
    case ALL_GATHER:
        rank_ok(rota_op_all_gather_into(g->tape, g->communicator, tensor_of(l, X, dtype, 0, count),
                                        tensor_of(l, y, dtype, 0, all)));
        return;
    case ALL_TO_ALL:
    case ALL_TO_ALL_IN_PLACE:
        rank_ok(rota_op_all_to_all_into(g->tape, g->communicator, tensor_of(l, X, dtype, 0, all),
                                        tensor_of(l, y, dtype, 0, all)));
        return;
    case BROADCAST:
    case BROADCAST_IN_PLACE:
        rank_ok(rota_op_broadcast_from_into(g->tape, g->communicator, g->size - 1,
                                            tensor_of(l, X, dtype, 0, count),
                                            tensor_of(l, y, dtype, 0, count)));
        return;
    case PAIR:
        if (g->rank == 0 && g->size > 1)
            rank_ok(rota_op_send(g->tape, g->communicator, 1, tensor_of(l, X, dtype, 0, count)));
        if (g->rank == 1)
            rank_ok(rota_op_receive_into(g->tape, g->communicator, 0, tensor_of(l, y, dtype, 0, count)));
        return;
    default:
        rank_ok(rota_op_barrier(g->tape, g->communicator));
        return;
    }
}

void rank_declared(rota_runtime *runtime, rota_communicator *communicator) {
    /* The last one is more than a cell of messages.c holds. */
    static const uint64_t counts[] = {1, 5, 1000, 70001};
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16, ROTA_I32, ROTA_U32};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t t = 0; t < 5; t++)
            for (uint32_t c = 0; c < (t ? 2 : 4); c++) {
                rank_graph g;
                looked_at l = {.declared_count = 0};
                begin(&g, runtime, communicator, false);
                const uint64_t bytes = counts[c] * rota_dtype_bytes(dtypes[t]) * g.size;
                for (uint32_t a = 0; a < AREAS; a++) make_area(runtime, bytes, &l.areas[a]);
                record(&g, &l, (kind_case)kind, dtypes[t], counts[c]);
                watch(&g, &l);
                rank_want(!l.found[0], "kind %u of %llu %s: it %s", kind, (unsigned long long)counts[c],
                          rota_dtype_name(dtypes[t]), l.found);
                drop_areas(&l);
            }
}

/* ---- What is not as declared is found ---- */

/* An all_gather of some words of each rank, whose node declares some more or fewer of what is read and written. */
static void declare(rota_runtime *runtime, rota_communicator *communicator, int64_t more_read,
                    int64_t more_written, const char *expected) {
    const uint64_t count = 6;
    rank_graph g;
    looked_at l = {.declared_count = 0};
    begin(&g, runtime, communicator, false);
    const uint64_t read = count * 4, written = read * g.size;
    for (uint32_t a = 0; a < AREAS; a++) make_area(runtime, written + 4, &l.areas[a]);
    const rota_collective_node node = {
        .communicator = communicator,
        .collective = {.kind = ROTA_COLLECTIVE_ALL_GATHER,
                       .type = ROTA_COLLECTIVE_U32,
                       .count = count,
                       .name = "not as declared"},
        .input = {l.areas[X].buffer, GUARD, (uint64_t)((int64_t)read + more_read), ROTA_READ},
        .output = {l.areas[Y].buffer, GUARD, (uint64_t)((int64_t)written + more_written), ROTA_WRITE}};
    rank_ok(rota_record_collective(g.recorder, &node));
    watch(&g, &l);
    rank_want(expected ? strstr(l.found, expected) != NULL : !l.found[0], "expected '%s', found '%s'",
              expected ? expected : "nothing", l.found);
    drop_areas(&l);
}

void rank_undeclared(rota_runtime *runtime, rota_communicator *communicator) {
    declare(runtime, communicator, 0, 0, NULL);
    declare(runtime, communicator, 0, -4, "changes a byte that it does not declare");
    declare(runtime, communicator, 0, 4, "leaves a byte unwritten that it declares as WRITE");
    declare(runtime, communicator, -4, 0, "reads what it does not declare");
}
