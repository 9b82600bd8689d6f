/* Breadth-first search, from the top down, as a graph:
 *
 *     begin:      levels = none but the source's --> frontier = source
 *     while more: expand, an item for each vertex of the frontier --> levels, next and how many they are
 *                 advance --> frontier's length, more --> frontier = next, so many of it
 *
 * A level costs what its vertices have edges, since both the kernel and the copy are counted. Which vertex another is
 * found from, and where it stands in a frontier, is not the same each time; how far it is away is. */
#include "examples/bfs/search.h"

#include <stdatomic.h>
#include <stddef.h>
#include "base/clock.h"
#include "cuda/bfs_cuda.h"
#include "examples/common/plans.h"
#include "spv/bfs_advance.h"
#include "spv/bfs_begin.h"
#include "spv/bfs_expand.h"

#define COUNT(list) (uint32_t)(sizeof(list) / sizeof *(list))

/* ---- On CPUs ---- */

/* Found vertices are put into the next frontier some at a time. */
enum { FOUND_AT_ONCE = 64 };

typedef struct found_list {
    _Atomic uint32_t *length;
    uint32_t *next;
    uint32_t count, vertices[FOUND_AT_ONCE];
} found_list;

static void put(found_list *found) {
    const uint32_t first = atomic_fetch_add_explicit(found->length, found->count, memory_order_relaxed);
    for (uint32_t i = 0; i < found->count; i++) found->next[first + i] = found->vertices[i];
    found->count = 0;
}

enum {
    EXPAND_STARTS,
    EXPAND_TARGETS,
    EXPAND_FRONTIER,
    EXPAND_LEVEL,
    EXPAND_LEVELS,
    EXPAND_NEXT,
    EXPAND_LENGTH
};

/* A vertex an item: of its neighbours those that nobody has reached are the next level's, each once. */
static rota_status expand(const rota_kernel_call *call) {
    const uint64_t *starts = call->operands[EXPAND_STARTS];
    const uint32_t *targets = call->operands[EXPAND_TARGETS], *frontier = call->operands[EXPAND_FRONTIER];
    const uint32_t level = *(const uint32_t *)call->operands[EXPAND_LEVEL] + 1;
    _Atomic uint32_t *levels = call->operands[EXPAND_LEVELS];
    found_list found = {.length = call->operands[EXPAND_LENGTH], .next = call->operands[EXPAND_NEXT]};
    for (uint64_t i = call->begin; i < call->end; i++)
        for (uint64_t edge = starts[frontier[i]]; edge < starts[frontier[i] + 1]; edge++) {
            uint32_t unreached = BFS_UNREACHED;
            _Atomic uint32_t *other = &levels[targets[edge]];
            if (atomic_load_explicit(other, memory_order_relaxed) != BFS_UNREACHED ||
                !atomic_compare_exchange_strong_explicit(other, &unreached, level, memory_order_relaxed,
                                                         memory_order_relaxed))
                continue;
            found.vertices[found.count++] = targets[edge];
            if (found.count == FOUND_AT_ONCE) put(&found);
        }
    if (found.count) put(&found);
    return ROTA_OK;
}

/* The level that was found becomes the frontier. */
static rota_status advance(const rota_kernel_call *call) {
    bfs_state *s = call->operands[0];
    s->frontier = s->next;
    s->next = 0;
    s->more = s->frontier > 0;
    s->level += s->more;
    s->reached += s->frontier;
    if (s->frontier > s->widest) s->widest = s->frontier;
    return ROTA_OK;
}

/* The source is the first frontier; all other levels are none. */
static rota_status begin(const rota_kernel_call *call) {
    const uint32_t source = *(const uint32_t *)call->operands[0];
    bfs_state *state = call->operands[1];
    uint32_t *levels = call->operands[3];
    *state = (bfs_state){.frontier = 1, .more = 1, .widest = 1, .reached = 1};
    *(uint32_t *)call->operands[2] = source;
    levels[source] = 0;
    return ROTA_OK;
}

/* ---- Kernels ---- */

/* On a GPU each vertex has some threads of a group. */
enum { GROUP_THREADS = 256, VERTEX_THREADS = 32, GROUP_VERTICES = GROUP_THREADS / VERTEX_THREADS };

static const rota_kernel_bindable counted[] = {
    {.name = "count", .size_bytes = sizeof(uint32_t), .type = ROTA_VALUE_U32}};

#define ON_GPUS(what, threads)                                                                               \
    .vk = {.words = rota_spv_bfs_##what, .size_bytes = sizeof rota_spv_bfs_##what},                          \
    .cuda = {ROTA_CUDA_IMAGE_bfs_cuda, .entry = ROTA_CUDA_ENTRY_bfs_cuda(bfs_##what),                        \
             .block = {threads, 1, 1}}

static const rota_kernel k_expand = {.name = "expand",
                                     .operand_count = 7,
                                     .param_bytes = sizeof(uint32_t), /* how many vertices */
                                     .bindables = counted,
                                     .bindable_count = COUNT(counted),
                                     .cpu = {.fn = expand},
                                     ON_GPUS(expand, GROUP_THREADS)};
static const rota_kernel k_advance = {
    .name = "advance", .operand_count = 1, .cpu = {.fn = advance}, ON_GPUS(advance, 1)};
static const rota_kernel k_begin = {
    .name = "begin", .operand_count = 4, .cpu = {.fn = begin}, ON_GPUS(begin, 1)};

/* ---- Nodes ---- */

/* What nodes are recorded with: frontiers are the searcher's or transients. */
typedef struct bfs_recording {
    const bfs_searcher *searcher;
    rota_recorder *recorder;
    rota_buffer *frontier, *next;
} bfs_recording;

#define STATE(searcher, field, mode)                                                                         \
    { (searcher)->state, offsetof(bfs_state, field), 4, mode }

static rota_status record_begin(const bfs_recording *r) {
    const bfs_searcher *s = r->searcher;
    ROTA_TRY(rota_record_fill(r->recorder, s->levels, 0, s->vertices * 4, BFS_UNREACHED, NULL));
    /* What only a level writes is written, too. */
    ROTA_TRY(rota_record_fill(r->recorder, r->frontier, 0, s->vertices * 4, 0, NULL));
    ROTA_TRY(rota_record_fill(r->recorder, r->next, 0, s->vertices * 4, 0, NULL));
    const rota_access accesses[] = {{s->source, 0, 4, ROTA_READ},
                                    {s->state, 0, sizeof(bfs_state), ROTA_WRITE},
                                    {r->frontier, 0, ROTA_WHOLE, ROTA_READWRITE},
                                    {s->levels, 0, ROTA_WHOLE, ROTA_READWRITE}};
    return rota_record_kernel(
        r->recorder,
        &ROTA_KERNEL_NODE(.kernel = &k_begin, .accesses = accesses, .access_count = COUNT(accesses)), NULL);
}

static rota_status record_level(const bfs_recording *r) {
    const bfs_searcher *s = r->searcher;
    const rota_count count =
        ROTA_COUNT(.buffer = s->state, .offset_bytes = offsetof(bfs_state, frontier),
                   .max = (uint32_t)s->vertices, .items_per_group = GROUP_VERTICES, .bindable_plus_1 = 1);
    const uint32_t vertices = 0; /* each run gives the count instead */
    const rota_access of_expand[] = {
        [EXPAND_STARTS] = {s->starts, 0, ROTA_WHOLE, ROTA_READ},
        [EXPAND_TARGETS] = {s->targets, 0, ROTA_WHOLE, ROTA_READ},
        [EXPAND_FRONTIER] = {r->frontier, 0, ROTA_WHOLE, ROTA_READ},
        [EXPAND_LEVEL] = STATE(s, level, ROTA_READ),
        [EXPAND_LEVELS] = {s->levels, 0, ROTA_WHOLE, ROTA_READWRITE},
        [EXPAND_NEXT] = {r->next, 0, ROTA_WHOLE, ROTA_READWRITE},
        [EXPAND_LENGTH] = STATE(s, next, ROTA_READWRITE),
    };
    ROTA_TRY(
        rota_record_counted_kernel(r->recorder,
                                   &ROTA_KERNEL_NODE(.kernel = &k_expand, .accesses = of_expand,
                                                     .access_count = COUNT(of_expand), .params = &vertices),
                                   &count, NULL));
    const rota_access of_advance[] = {{s->state, 0, sizeof(bfs_state), ROTA_READWRITE}};
    ROTA_TRY(rota_record_kernel(
        r->recorder,
        &ROTA_KERNEL_NODE(.kernel = &k_advance, .accesses = of_advance, .access_count = COUNT(of_advance)),
        NULL));
    const rota_count found =
        ROTA_COUNT(.buffer = s->state, .offset_bytes = count.offset_bytes, .max = count.max, .unit_bytes = 4);
    return rota_record_counted_copy(r->recorder, r->frontier, 0, r->next, 0, &found, NULL);
}

/* ---- Graphs ---- */

static rota_status record_search(const void *user, rota_graph *graph, rota_recorder *outer) {
    const bfs_searcher *s = user;
    bfs_recording r = {.searcher = s, .recorder = outer};
    rota_graph *body = NULL;
    const uint64_t bytes = s->vertices * 4;
    ROTA_TRY(rota_recorder_buffer(outer, ROTA_BUFFER_TRANSIENT, "frontier", bytes, &r.frontier));
    ROTA_TRY(rota_recorder_buffer(outer, ROTA_BUFFER_TRANSIENT, "next", bytes, &r.next));
    ROTA_TRY(record_begin(&r));
    ROTA_TRY(rota_graph_create_body(graph, "level", &body));
    rota_status status = rota_recorder_open(body, 0, NULL, &r.recorder);
    if (status == ROTA_OK) status = record_level(&r);
    rota_recorder_close(r.recorder);
    if (status == ROTA_OK)
        status = rota_record_while(outer,
                                   &ROTA_WHILE_NODE(.name = "search", .condition = s->state,
                                                    .condition_offset_bytes = offsetof(bfs_state, more),
                                                    .body = body, .iterations_max = s->vertices),
                                   NULL);
    if (status != ROTA_OK) rota_graph_release(body);
    return status;
}

/* Of the loop on the host, with buffers that stay from one submission to the next. */
static rota_status record_host_begin(const void *user, rota_graph *graph, rota_recorder *recorder) {
    const bfs_searcher *s = user;
    (void)graph;
    return record_begin(&(bfs_recording){s, recorder, s->frontier, s->next});
}

static rota_status record_host_level(const void *user, rota_graph *graph, rota_recorder *recorder) {
    const bfs_searcher *s = user;
    (void)graph;
    return record_level(&(bfs_recording){s, recorder, s->frontier, s->next});
}

/* ---- The searcher ---- */

static rota_status make_buffer(const bfs_searcher *s, const char *name, uint64_t bytes, const void *data,
                               rota_buffer **out) {
    return plans_buffer(s->runtime, s->device, name, bytes, data, out);
}

rota_status bfs_searcher_create(rota_runtime *runtime, rota_device *device, const sparse_matrix *graph,
                                bool is_host_loop, bfs_searcher *out) {
    const uint64_t vertices = graph->rows, edges = graph->entries;
    const uint32_t none = 0;
    *out = (bfs_searcher){.runtime = runtime, .device = device, .vertices = vertices, .edges = edges};
    ROTA_TRY(make_buffer(out, "starts", (vertices + 1) * sizeof *graph->starts, graph->starts, &out->starts));
    /* A buffer has a byte at least. */
    ROTA_TRY(
        make_buffer(out, "targets", edges ? edges * 4 : 4, edges ? graph->columns : &none, &out->targets));
    ROTA_TRY(make_buffer(out, "levels", vertices * 4, NULL, &out->levels));
    ROTA_TRY(make_buffer(out, "state", sizeof(bfs_state), NULL, &out->state));
    ROTA_TRY(make_buffer(out, "source", 4, &none, &out->source));
    if (!is_host_loop)
        return plans_compile(runtime, device, "breadth-first search", record_search, out, &out->plan);
    ROTA_TRY(make_buffer(out, "frontier", vertices * 4, NULL, &out->frontier));
    ROTA_TRY(make_buffer(out, "next", vertices * 4, NULL, &out->next));
    ROTA_TRY(
        plans_compile(runtime, device, "breadth-first search begins", record_host_begin, out, &out->plan));
    return plans_compile(runtime, device, "level of breadth-first search", record_host_level, out,
                         &out->step);
}

void bfs_searcher_free(bfs_searcher *s) {
    rota_plan_release(s->plan);
    rota_plan_release(s->step);
    rota_buffer *const buffers[] = {s->starts, s->targets,  s->levels, s->state,
                                    s->source, s->frontier, s->next};
    for (size_t i = 0; i < COUNT(buffers); i++) rota_buffer_release(buffers[i]);
    *s = (bfs_searcher){0};
}

rota_status bfs_search(const bfs_searcher *s, uint32_t source, bfs_result *out) {
    bfs_state state;
    if (source >= s->vertices)
        return rota_fail(ROTA_OUT_OF_RANGE, "source %u of a graph of %llu vertices", source,
                         (unsigned long long)s->vertices);
    ROTA_TRY(rota_buffer_write(s->source, s->device, 0, &source, 4, NULL));
    const uint64_t begin_ns = rota_clock_ns();
    ROTA_TRY(plans_replay(s->plan));
    if (s->step) {
        ROTA_TRY(rota_buffer_read(s->state, 0, &state, sizeof state));
        while (state.more) {
            ROTA_TRY(plans_replay(s->step));
            ROTA_TRY(rota_buffer_read(s->state, 0, &state, sizeof state));
        }
    }
    const uint64_t end_ns = rota_clock_ns();
    ROTA_TRY(rota_buffer_read(s->state, 0, &state, sizeof state));
    *out = (bfs_result){.levels = state.level,
                        .reached = state.reached,
                        .widest = state.widest,
                        .seconds = (double)(end_ns - begin_ns) / 1e9};
    return ROTA_OK;
}

rota_status bfs_read(const bfs_searcher *s, uint32_t *levels) {
    return rota_buffer_read(s->levels, 0, levels, s->vertices * 4);
}
