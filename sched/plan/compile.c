/* Runs the steps of the compiler, again with a smaller target where a memory limit was missed. */
#include "sched/plan/compile.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/assert.h"
#include "base/atomic.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/lane_records.h"
#include "sched/plan/bodies.h"
#include "sched/plan/certify.h"
#include "sched/plan/compiler.h"
#include "sched/plan/derived.h"
#include "sched/plan/edges.h"
#include "sched/plan/externals.h"
#include "sched/plan/gather.h"
#include "sched/plan/lower.h"
#include "sched/plan/names.h"
#include "sched/plan/pack.h"
#include "sched/plan/placement.h"
#include "sched/plan/segments.h"
#include "sched/plan/workspace.h"

/* From so many operations on the blocks that steps give up amount to hundreds of megabytes. */
enum { LARGE_OPERATIONS = 4 << 20 };
/* Compilations under a memory limit, each aiming at less than the last; and as many with rewrites that know of it. */
enum { ATTEMPTS_MAX = 8 };

static rota_status new_plan(rota_graph *graph, const rota_compile_options *options, rota_plan **out_plan) {
    rota_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return rota_fail(ROTA_OUT_OF_MEMORY, "compile of graph '%s': no host memory", graph->name);
    atomic_init(&plan->references, 1);
    plan->graph = graph;
    rota_graph_retain(graph);
    plan->options = *options;
    plan->arena.is_small = graph->outer != NULL;
    plan->name = rota_arena_strdup(&plan->arena, options->name ? options->name : graph->name);
    plan->compile_info = rota_arena_calloc(&plan->arena, sizeof(rota_compile_info), 16);
    rota_device **devices = rota_arena_alloc(&plan->arena, sizeof *devices * (options->device_count + 1u), 8);
    if (!plan->name || !plan->compile_info || !devices) {
        rota_plan_destroy(plan);
        return rota_fail(ROTA_OUT_OF_MEMORY, "compile of graph '%s': no host memory", graph->name);
    }
    for (uint32_t i = 0; i < options->device_count; i++) devices[i] = options->devices[i];
    plan->options.devices = devices;
    plan->options.name = plan->name;
    *out_plan = plan;
    return ROTA_OK;
}

/* What lowering put together of physicals is all that stays of them. */
static void drop_physicals(rota_compiler *c) {
    rota_vector_free(&c->physicals);
    c->info->building = NULL;
}

/* For an assertion alone. */
static inline __attribute__((unused)) bool are_derivable(const rota_compiler *c) {
    for (uint32_t n = 0; n < c->operations.count; n++) {
        const rota_operation *operation = &ROTA_OPERATIONS(c)[n];
        for (uint32_t i = 0; i < operation->access_count; i++)
            if (rota_access_physical(c->plan, operation, i) !=
                ROTA_ACCESS_PHYSICAL(c)[operation->first_access + i])
                return false;
    }
    return true;
}

/* Lets go of the list of accesses' physicals where they can be derived: of plans on one device. */
static rota_status drop_access_physicals(rota_compiler *c) {
    rota_compile_info *info = c->info;
    if (c->spread.several_parts) return ROTA_OK;
    const size_t lanes = (size_t)c->graph->lane_count + 2;
    uint32_t *lane_base = rota_arena_alloc(&c->plan->arena, sizeof *lane_base * lanes, 8);
    uint32_t *workspaces =
        rota_arena_alloc(&c->plan->arena, sizeof *workspaces * ((size_t)c->workspaces.count + 1), 8);
    if (!lane_base || !workspaces) return rota_compile_no_memory(c);
    memcpy(lane_base, c->gathering.lane_base, sizeof *lane_base * lanes);
    rota_compile_list_workspaces(c, workspaces);
    info->lookup.lane_base = lane_base;
    info->lookup.workspaces = workspaces;
    info->lookup.workspace_count = (uint32_t)c->workspaces.count;
    info->lookup.first_workspace = (uint32_t)(c->physicals.count - c->workspaces.count);
    info->access_physical = NULL;
    rota_assert(are_derivable(c));
    rota_vector_free(&c->access_physical);
    return ROTA_OK;
}

/* The arrays built as vectors that stay with the plan: rota_compile_info.kept. */
#define VECTOR(member, type) offsetof(rota_compiler, member), sizeof(type)
static const struct {
    size_t offset; /* in the compiler */
    size_t element_bytes;
} kept_vectors[] = {{VECTOR(buffers, rota_plan_buffer)},   {VECTOR(operations, rota_operation)},
                    {VECTOR(accesses, rota_exec_operand)}, {VECTOR(access_physical, uint32_t)},
                    {VECTOR(edges.from, uint32_t)},        {VECTOR(edges.joins, rota_join)},
                    {VECTOR(edges.join_from, uint32_t)},   {VECTOR(edges.segment, uint32_t)}};
#undef VECTOR
_Static_assert(sizeof kept_vectors / sizeof *kept_vectors == ROTA_KEPT_VECTORS, "one for each");

static rota_vector *kept_vector_of(rota_compiler *c, uint32_t i) {
    return (rota_vector *)((char *)c + kept_vectors[i].offset);
}

/* They become the plan's. */
static void keep_vectors(rota_compiler *c) {
    for (uint32_t i = 0; i < ROTA_KEPT_VECTORS; i++) {
        rota_vector *vector = kept_vector_of(c, i);
        if (vector->usable_bytes) c->info->kept[i] = *vector; /* else it is the arena's */
        *vector = (rota_vector){0};
    }
}

/* Those of a body, of which there may be thousands, become parts of its arena instead. */
static rota_status settle_vectors(rota_compiler *c) {
    for (uint32_t i = 0; i < ROTA_KEPT_VECTORS; i++) {
        rota_vector *vector = kept_vector_of(c, i);
        const size_t bytes = kept_vectors[i].element_bytes * (size_t)vector->count;
        if (!vector->data) continue;
        void *settled = rota_arena_alloc(&c->plan->arena, bytes, 64);
        if (!settled) return rota_compile_no_memory(c);
        if (bytes) memcpy(settled, vector->data, bytes);
        rota_chunk_free(vector->data, vector->usable_bytes);
        *vector = (rota_vector){.data = settled, .count = vector->count, .capacity = vector->count};
    }
    c->info->edge_from = c->edges.from.data;
    c->info->joins = c->edges.joins.data;
    c->info->join_from = c->edges.join_from.data;
    for (uint32_t p = 0; p < c->plan->partition_count; p++)
        c->plan->partitions[p].desc.operands = c->accesses.data;
    return ROTA_OK;
}

/* Makes what was gathered so far readable through the plan: messages name buffers and operations. */
static void show_gathered(rota_compiler *c) {
    rota_compile_info *info = c->info;
    c->plan->buffers = c->buffers.data;
    c->plan->buffer_count = (uint32_t)c->buffers.count;
    info->operations = c->operations.data;
    info->operation_count = (uint32_t)c->operations.count;
    info->building = c->physicals.data; /* NULL once they were dropped */
    info->physical_count = (uint32_t)c->physicals.count;
    info->accesses = c->accesses.data;
    info->access_count = (uint32_t)c->accesses.count;
    info->access_physical = c->access_physical.data;
    info->lookup.segment_of = c->edges.segment.data;
}

static void count_edges(rota_compiler *c) {
    rota_plan_stats *stats = &c->plan->stats;
    uint64_t kinds[ROTA_EDGE_KIND_COUNT] = {0};
    const uint8_t *edge_kind = c->edges.kind.data;
    for (uint64_t i = 0; i < c->edges.kind.count; i++) kinds[edge_kind[i]]++;
    const rota_join *joins = c->edges.joins.data;
    for (uint64_t i = 0; i < c->edges.joins.count; i++) kinds[joins[i].kind] += joins[i].count;
    stats->edges = c->edges.from.count + c->edges.join_from.count;
    stats->joins = c->edges.joins.count;
    stats->edges_raw = kinds[ROTA_EDGE_RAW];
    stats->edges_war = kinds[ROTA_EDGE_WAR];
    stats->edges_waw = kinds[ROTA_EDGE_WAW];
    stats->edges_memory = kinds[ROTA_EDGE_MEMORY];
    stats->edges_after = kinds[ROTA_EDGE_AFTER];
    stats->queues = c->queue_count;
}

/* After a step of a large compile: what it gave up is of no size that the next asks for, so the system gets it. */
static void end_step(const rota_compiler *c) {
    if (c->operations.count >= LARGE_OPERATIONS) rota_chunk_cache_trim();
}

static rota_status run_steps(rota_compiler *c) {
    rota_plan *plan = c->plan;
    ROTA_TRY(rota_compile_gather(c));
    show_gathered(c);
    end_step(c);
    if (plan->options.packing == ROTA_PACK_TIGHT)
        ROTA_TRY(rota_compile_pack_tight(c)); /* counts lifetimes as it goes */
    else
        rota_compile_lifetimes(c);
    end_step(c);
    ROTA_TRY(rota_compile_edges(c));
    rota_vector_free(&c->pieces.tenants);
    end_step(c);
    ROTA_TRY(rota_compile_segments(c));
    ROTA_TRY(rota_compile_lower(c));
    end_step(c);
    ROTA_TRY(rota_compile_externals(c));
    end_step(c);
    ROTA_TRY(rota_compile_final_placement(c));
    rota_compile_info *info = c->info;
    info->lookup.own_base = c->gathering.lane_base[c->graph->lane_count + 1];
    rota_vector_fit(&c->edges.from, sizeof(uint32_t));
    info->first_edge = c->edges.first;
    info->edge_from = c->edges.from.data;
    info->edge_count = (uint32_t)c->edges.from.count;
    info->joins = c->edges.joins.data;
    info->join_count = (uint32_t)c->edges.joins.count;
    info->join_from = c->edges.join_from.data;
    info->edge_kind = rota_arena_alloc(&plan->arena, (size_t)c->edges.kind.count + 1, 1);
    if (!info->edge_kind) return rota_compile_no_memory(c);
    if (c->edges.kind.count) memcpy(info->edge_kind, c->edges.kind.data, (size_t)c->edges.kind.count);
    count_edges(c);
    return ROTA_OK;
}

static void free_compiler(rota_compiler *c) {
    rota_vector *const vectors[] = {&c->physicals,          &c->edges.kind,        &c->externals,
                                    &c->spread.physical_of, &c->spread.valid,      &c->spread.mirrors,
                                    &c->pieces.tenants,     &c->transfers,         &c->workspaces,
                                    &c->edges.afters,       &c->edges.local_joins, &c->spread.ends.own,
                                    &c->spread.written};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) rota_vector_free(vectors[i]);
    rota_compile_free_hash(c);
    rota_arena_free(&c->scratch);
}

/* Names the largest of what lives at the peak. */
static void name_largest(const rota_compiler *c, char *text, size_t capacity) {
    enum { SHOWN = 3 };
    const rota_physical *largest[SHOWN] = {NULL};
    for (uint32_t i = 0; i < c->physicals.count; i++) {
        const rota_physical *physical = &ROTA_PHYSICALS(c)[i];
        if (!physical->packed || physical->first_operation > c->peak_operation ||
            physical->last_operation == ROTA_NONE || physical->last_operation < c->peak_operation)
            continue;
        for (uint32_t k = 0; k < SHOWN && physical; k++) {
            if (largest[k] && largest[k]->size_bytes >= physical->size_bytes) continue;
            const rota_physical *smaller = largest[k];
            largest[k] = physical;
            physical = smaller;
        }
    }
    size_t length = 0;
    text[0] = 0;
    for (uint32_t k = 0; k < SHOWN && largest[k]; k++) {
        const rota_buffer *root = ((const rota_plan_buffer *)c->buffers.data)[largest[k]->buffer].buffer;
        length += (size_t)snprintf(text + length, capacity - length, "%s'%s' of %llu bytes", k ? ", " : "",
                                   root->name, (unsigned long long)largest[k]->size_bytes);
        if (length >= capacity) return;
    }
}

/* A compilation under a memory limit: what it aims at, and what came of the attempts so far. */
typedef struct attempts {
    uint64_t limit;      /* 0: none */
    uint64_t target;     /* of this attempt */
    uint32_t left;       /* with this one */
    bool tells_rewrites; /* of the limit: they may choose what takes less and costs more */
    uint64_t
        rewrite_limit; /* the one that they hear of: the caller's, never what happens to be free; 0: none */
    uint64_t least;    /* bytes that one took */
    char best[512];    /* what is to be said of that one */
} attempts;

/* Whether the arena keeps the limit. If not, and there may be a way: OK with a smaller target, *out_again
 * set. */
static rota_status judge_memory(const rota_compiler *c, attempts *a, bool *out_again) {
    const uint64_t bytes = c->plan->stats.arena_bytes;
    if (bytes <= a->limit) return ROTA_OK;
    if (bytes < a->least) {
        a->least = bytes;
        char largest[256];
        name_largest(c, largest, sizeof largest);
        snprintf(a->best, sizeof a->best,
                 "its buffers take %llu bytes, %llu over the limit of %llu, with %u of %u nodes computed "
                 "again (%llu "
                 "without); most live at %s; the largest there: %s",
                 (unsigned long long)bytes, (unsigned long long)(bytes - a->limit),
                 (unsigned long long)a->limit, c->recomputed.count, c->node_count,
                 (unsigned long long)c->recomputed.bytes_without,
                 rota_operation_describe(c->plan, c->peak_operation), largest);
    }
    /* Packing took more than what lives at once: as much less is aimed at. */
    if (--a->left && bytes - a->limit < a->target) {
        a->target -= bytes - a->limit;
        *out_again = true;
        return ROTA_OK;
    }
    /* Once more from the beginning, with rewrites that do what they can. */
    if (!a->tells_rewrites && a->rewrite_limit && c->graph->hook_count) {
        a->tells_rewrites = *out_again = true;
        a->left = ATTEMPTS_MAX;
        a->target = a->limit;
        return ROTA_OK;
    }
    return rota_fail(ROTA_OUT_OF_MEMORY, "compile of graph '%s': %s", c->graph->name, a->best);
}

/* *out_plan NULL and OK: to be tried again with a smaller target. */
static rota_status compile_once(rota_graph *graph, const rota_compile_options *options,
                                const rota_plan_devices *devices, attempts *a, rota_plan **out_plan) {
    rota_plan *plan = NULL;
    bool again = false;
    ROTA_TRY(new_plan(graph, options, &plan));
    rota_compiler c = {.graph = graph,
                       .devices = devices,
                       .plan = plan,
                       .info = plan->compile_info,
                       .memory = {a->target, a->tells_rewrites ? a->rewrite_limit : 0}};
    c.policy_queues = c.queue_count = options->queues ? options->queues : 1;
    /* A device's transfer queue is its last one, whatever the policy may use; a runtime of one queue has
     * none. */
    uint32_t available = devices->count ? devices->queues : 2;
    if (options->transfer_queue && c.queue_count < available) c.queue_count = available;
    rota_status status = run_steps(&c);
    /* Room was made for as many persistent buffers as lanes hold references. */
    rota_vector_fit(&c.buffers, sizeof(rota_plan_buffer));
    if (status == ROTA_OK) status = drop_access_physicals(&c);
    if (status == ROTA_OK && graph->outer) status = settle_vectors(&c);
    show_gathered(&c);
    if (status == ROTA_OK && a->limit) status = judge_memory(&c, a, &again);
    if (status == ROTA_OK && !again) drop_physicals(&c);
    plan->stats.recomputed = c.recomputed.count;
    keep_vectors(&c);
    free_compiler(&c);
    if (status == ROTA_OK) {
        plan->stats.plan_bytes += plan->arena.total_bytes + sizeof *plan;
        for (uint32_t i = 0; i < ROTA_KEPT_COUNT; i++) plan->stats.plan_bytes += c.info->kept[i].usable_bytes;
        if (options->certify && !again) status = rota_plan_certify(plan);
    }
    if (status != ROTA_OK || again) {
        rota_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    return ROTA_OK;
}

/* The caller's own; 0: none. */
static uint64_t limit_of(const rota_graph *graph, const rota_compile_options *options) {
    const uint64_t limit =
        options->memory_limit_bytes ? options->memory_limit_bytes : graph->memory_limit_bytes;
    return limit == UINT64_MAX ? 0 : limit;
}

static rota_status compile_within(rota_graph *graph, const rota_compile_options *options,
                                  const rota_plan_devices *devices, uint64_t limit, rota_plan **out_plan) {
    attempts a = {.limit = limit,
                  .target = limit,
                  .rewrite_limit = limit_of(graph, options),
                  .left = ATTEMPTS_MAX,
                  .least = UINT64_MAX};
    *out_plan = NULL;
    while (!*out_plan) ROTA_TRY(compile_once(graph, options, devices, &a, out_plan));
    return ROTA_OK;
}

rota_status rota_plan_compile(rota_graph *graph, const rota_compile_options *options,
                              const rota_plan_devices *devices, rota_plan **out_plan) {
    return compile_within(graph, options, devices, limit_of(graph, options), out_plan);
}

rota_status rota_plan_compile_in(rota_graph *graph, const rota_compile_options *options,
                                 const rota_plan_devices *devices, uint64_t free_bytes,
                                 rota_plan **out_plan) {
    const uint64_t limit = limit_of(graph, options);
    return compile_within(graph, options, devices, limit && limit < free_bytes ? limit : free_bytes,
                          out_plan);
}

static bool any_record(const rota_graph *graph, bool (*has)(const rota_node_record *record)) {
    for (uint32_t i = 0; i < graph->lane_count; i++) {
        const rota_recorder *lane = graph->lanes[i];
        /* Acquire pairs with rota_recorder_close. An open one is the compile's to refuse. */
        if (!ra_load_acquire(&lane->closed)) continue;
        rota_record_cursor cursor = rota_lane_records(lane);
        for (const rota_node_record *record; (record = rota_record_take(&cursor));)
            if (has(record)) return true;
    }
    return false;
}

static bool is_host(const rota_node_record *record) {
    return record->kind == ROTA_NODE_HOST;
}

bool rota_plan_needs_host(const rota_graph *graph, const rota_device_traits *devices, uint32_t count) {
    if (count == 0 || devices[0].runs_host_nodes) return false;
    return count > 1 || any_record(graph, is_host);
}

static bool is_automatic(const rota_node_record *record) {
    return record->device_plus_1 == ROTA_PLACE_AUTO;
}

bool rota_plan_is_automatic(const rota_graph *graph, const rota_compile_options *options) {
    return options->place_auto || any_record(graph, is_automatic);
}

void rota_plan_destroy(rota_plan *plan) {
    rota_compile_info *info = plan->compile_info;
    rota_plan_free_bodies(plan);
    if (info) {
        /* Buffers of graphs live as long as the graph does, which the plan holds; of those around a body, as the plan
         * does that holds this one. */
        for (uint32_t i = 0; i < plan->buffer_count; i++)
            if (!plan->buffers[i].buffer->graph) rota_buffer_release(plan->buffers[i].buffer);
        for (uint32_t i = 0; i < ROTA_KEPT_COUNT; i++) rota_vector_free(&info->kept[i]);
    }
    rota_graph_release(plan->graph);
    rota_arena_free(&plan->arena);
    free(plan);
}

rota_status rota_plan_get_stats(const rota_plan *plan, rota_plan_stats *out_stats) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN(out_stats);
    ROTA_TRY(rota_sized_check(out_stats->struct_size, "rota_plan_stats"));
    rota_sized_out(out_stats, &plan->stats, sizeof plan->stats);
    return ROTA_OK;
}
