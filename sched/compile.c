/* rota_compile: runs the steps, then lets the runtime give the plan its memory and instances. */
#include "sched/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "sched/certify.h"

static const rota_compile_options default_options = {0};

/* Compilations under a memory limit, each aiming at less than the last. */
enum { ATTEMPTS_MAX = 8 };

static rota_status check_arena_of(const rota_runtime *runtime, const rota_graph *graph,
                                  const rota_compile_options *options) {
    const rota_plan *other = options->arena_of;
    ROTA_TRY(rota_plan_check(other));
    if (other->runtime != runtime || other->options.device_count != 1 || options->device_count != 1 ||
        other->options.devices[0] != options->devices[0])
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "compile of graph '%s': arena_of is plan '%s'; expected both to be for one device, the same",
            graph->name, other->name);
    if (other->options.arenas > 1 || options->arenas > 1)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "compile of graph '%s': %u arenas, and plan '%s' of arena_of has %u; expected one of each",
            graph->name, options->arenas, other->name, other->options.arenas);
    return ROTA_OK;
}

/* Refuses a device of another runtime: says which devices this one has. */
static rota_status other_runtime(const rota_runtime *runtime, const rota_graph *graph,
                                 const rota_compile_options *options, uint32_t device) {
    char own[256];
    rota_runtime_name_devices(runtime, own, sizeof own);
    char theirs[256];
    rota_runtime_name_devices(rota_device_runtime(options->devices[device]), theirs, sizeof theirs);
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "compile of graph '%s': devices[%u], '%s', is of another runtime, whose devices are %s; "
                     "this one's are %s",
                     graph->name, device, rota_device_exec(options->devices[device])->info.id, theirs, own);
}

static rota_status check_options(rota_runtime *runtime, const rota_graph *graph,
                                 const rota_compile_options *options) {
    if (runtime) ROTA_TRY(rota_runtime_check(runtime));
    if (options->device_count && !runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT, "compile of graph '%s': devices without a runtime",
                         graph->name);
    if (options->device_count && !options->devices)
        return rota_fail(ROTA_INVALID_ARGUMENT, "compile of graph '%s': device_count %u, but devices is NULL",
                         graph->name, options->device_count);
    for (uint32_t i = 0; i < options->device_count; i++)
        if (!options->devices[i])
            return rota_fail(ROTA_INVALID_ARGUMENT, "compile of graph '%s': devices[%u] is NULL", graph->name,
                             i);
    for (uint32_t i = 0; i < options->device_count; i++)
        if (rota_device_runtime(options->devices[i]) != runtime)
            ROTA_TRY(other_runtime(runtime, graph, options, i));
    if (options->queues > ROTA_PLAN_QUEUES_MAX ||
        (runtime && options->device_count && options->queues > rota_runtime_queue_count(runtime)))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "compile of graph '%s': %u queues; the runtime has %u a device (at most %d)",
                         graph->name, options->queues,
                         runtime ? rota_runtime_queue_count(runtime) : ROTA_PLAN_QUEUES_MAX,
                         ROTA_PLAN_QUEUES_MAX);
    if (options->packing != ROTA_PACK_TIGHT && options->packing != ROTA_PACK_CONCURRENT)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "compile of graph '%s': packing %d, expected TIGHT or CONCURRENT", graph->name,
                         (int)options->packing);
    if (options->arena_of) ROTA_TRY(check_arena_of(runtime, graph, options));
    return ROTA_OK;
}

static rota_status new_plan(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                            rota_plan **out_plan) {
    rota_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return rota_fail(ROTA_OUT_OF_MEMORY, "compile of graph '%s': no host memory", graph->name);
    atomic_init(&plan->references, 1);
    plan->runtime = runtime;
    plan->graph = graph;
    rota_graph_retain(graph);
    plan->options = *options;
    plan->name = rota_arena_strdup(&plan->arena, options->name ? options->name : graph->name);
    plan->compile_info = rota_arena_calloc(&plan->arena, sizeof(rota_compile_info), 16);
    rota_device **devices = rota_arena_alloc(&plan->arena, sizeof *devices * (options->device_count + 1u), 8);
    if (!plan->name || !plan->compile_info || !devices) {
        plan->options.arena_of = NULL; /* not held yet */
        rota_plan_free(plan);
        return rota_fail(ROTA_OUT_OF_MEMORY, "compile of graph '%s': no host memory", graph->name);
    }
    for (uint32_t i = 0; i < options->device_count; i++) devices[i] = options->devices[i];
    plan->options.devices = devices;
    plan->options.name = plan->name;
    rota_plan_retain(plan->options.arena_of);
    *out_plan = plan;
    return ROTA_OK;
}

/* Arrays built as vectors become the plan's. */
static void keep_vectors(rota_compiler *c) {
    rota_compile_info *info = c->info;
    rota_vector *const vectors[] = {&c->buffers,   &c->operations, &c->accesses, &c->access_physical,
                                    &c->physicals, &c->edge_from,  &c->joins,    &c->join_from};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        info->kept[i] = *vectors[i];
        *vectors[i] = (rota_vector){0};
    }
}

/* Makes what was gathered so far readable through the plan: messages name buffers and operations. */
static void show_gathered(rota_compiler *c) {
    rota_compile_info *info = c->info;
    c->plan->buffers = c->buffers.data;
    c->plan->buffer_count = (uint32_t)c->buffers.count;
    info->operations = c->operations.data;
    info->operation_count = (uint32_t)c->operations.count;
    info->physicals = c->physicals.data;
    info->physical_count = (uint32_t)c->physicals.count;
    info->accesses = c->accesses.data;
    info->access_count = (uint32_t)c->accesses.count;
    info->access_physical = c->access_physical.data;
}

static void count_edges(rota_compiler *c) {
    rota_plan_stats *stats = &c->plan->stats;
    uint64_t kinds[ROTA_EDGE_KIND_COUNT] = {0};
    const uint8_t *edge_kind = c->edge_kind.data;
    for (uint64_t i = 0; i < c->edge_kind.count; i++) kinds[edge_kind[i]]++;
    const rota_join *joins = c->joins.data;
    for (uint64_t i = 0; i < c->joins.count; i++) kinds[joins[i].kind] += joins[i].count;
    stats->edges = c->edge_from.count + c->join_from.count;
    stats->joins = c->joins.count;
    stats->edges_raw = kinds[ROTA_EDGE_RAW];
    stats->edges_war = kinds[ROTA_EDGE_WAR];
    stats->edges_waw = kinds[ROTA_EDGE_WAW];
    stats->edges_memory = kinds[ROTA_EDGE_MEMORY];
    stats->edges_after = kinds[ROTA_EDGE_AFTER];
    stats->queues = c->queue_count;
}

static rota_status run_steps(rota_compiler *c) {
    rota_plan *plan = c->plan;
    ROTA_TRY(rota_compile_gather(c));
    show_gathered(c);
    if (plan->options.packing == ROTA_PACK_TIGHT)
        ROTA_TRY(rota_compile_pack_tight(c)); /* counts lifetimes as it goes */
    else
        rota_compile_lifetimes(c);
    ROTA_TRY(rota_compile_hazards(c));
    ROTA_TRY(rota_compile_segments(c));
    ROTA_TRY(rota_compile_lower(c));
    ROTA_TRY(rota_compile_externals(c));
    ROTA_TRY(rota_compile_placed(c));
    rota_compile_info *info = c->info;
    info->own_base = c->lane_base[c->graph->lane_count + 1];
    info->first_edge = c->first_edge;
    info->edge_from = c->edge_from.data;
    info->edge_count = (uint32_t)c->edge_from.count;
    info->joins = c->joins.data;
    info->join_count = (uint32_t)c->joins.count;
    info->join_from = c->join_from.data;
    info->edge_kind = rota_arena_alloc(&plan->arena, (size_t)c->edge_kind.count + 1, 1);
    if (!info->edge_kind) return rota_compile_no_memory(c);
    if (c->edge_kind.count) memcpy(info->edge_kind, c->edge_kind.data, (size_t)c->edge_kind.count);
    count_edges(c);
    return ROTA_OK;
}

static void free_compiler(rota_compiler *c) {
    rota_vector *const vectors[] = {
        &c->buffers,   &c->operations, &c->accesses,    &c->access_physical, &c->physicals,   &c->edge_from,
        &c->edge_kind, &c->externals,  &c->physical_of, &c->valid,           &c->mirrors,     &c->tenants,
        &c->transfers, &c->workspaces, &c->joins,       &c->join_from,       &c->join_places, &c->afters};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) rota_vector_free(vectors[i]);
    rota_arena_free(&c->scratch);
}

static void freeze(rota_graph *graph) {
    /* Recorders are checked to be closed afterwards; none can be opened from here on. */
    pthread_mutex_lock(&graph->mutex);
    ra_store_release(&graph->compiled, true);
    pthread_mutex_unlock(&graph->mutex);
}

/* Names the largest of what lives at the peak. */
static void name_largest(const rota_compiler *c, char *text, size_t capacity) {
    enum { SHOWN = 3 };
    const rota_physical *largest[SHOWN] = {NULL};
    for (uint32_t i = 0; i < c->physicals.count; i++) {
        const rota_physical *at = &ROTA_PHYSICALS(c)[i];
        if (!at->packed || at->first_operation > c->peak_operation || at->last_operation == ROTA_NONE ||
            at->last_operation < c->peak_operation)
            continue;
        for (uint32_t k = 0; k < SHOWN && at; k++) {
            if (largest[k] && largest[k]->size_bytes >= at->size_bytes) continue;
            const rota_physical *smaller = largest[k];
            largest[k] = at;
            at = smaller;
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
    uint64_t limit;  /* 0: none */
    uint64_t target; /* of this attempt */
    uint32_t left;   /* with this one */
    uint64_t least;  /* bytes that one took */
    char best[512];  /* what is to be said of that one */
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
    return rota_fail(ROTA_OUT_OF_MEMORY, "compile of graph '%s': %s", c->graph->name, a->best);
}

/* *out_plan NULL and OK: to be tried again with a smaller target. */
static rota_status compile_once(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                                attempts *a, rota_plan **out_plan) {
    rota_plan *plan = NULL;
    bool again = false;
    ROTA_TRY(new_plan(runtime, graph, options, &plan));
    freeze(graph);
    rota_compiler c = {.runtime = runtime,
                       .graph = graph,
                       .plan = plan,
                       .info = plan->compile_info,
                       .memory_target = a->target};
    c.policy_queues = c.queue_count = options->queues ? options->queues : 1;
    /* A device's transfer queue is its last one, whatever the policy may use; a runtime of one queue has
     * none. */
    uint32_t available = runtime && options->device_count ? rota_runtime_queue_count(runtime) : 2;
    if (options->transfer_queue && c.queue_count < available) c.queue_count = available;
    rota_status status = run_steps(&c);
    /* Room was made for as many persistent buffers as lanes hold references. */
    rota_vector_fit(&c.buffers, sizeof(rota_plan_buffer));
    rota_vector_fit(&c.physicals, sizeof(rota_physical));
    show_gathered(&c);
    if (status == ROTA_OK && a->limit) status = judge_memory(&c, a, &again);
    plan->stats.recomputed = c.recomputed.count;
    keep_vectors(&c);
    free_compiler(&c);
    if (status == ROTA_OK) {
        plan->stats.plan_bytes = plan->arena.total_bytes + sizeof *plan;
        for (size_t i = 0; i < sizeof c.info->kept / sizeof *c.info->kept; i++)
            plan->stats.plan_bytes += c.info->kept[i].usable_bytes;
        if (options->certify && !again) status = rota_plan_certify(plan);
        if (status == ROTA_OK && options->device_count && !again) status = rota_plan_run_create(plan);
    }
    if (status != ROTA_OK || again) {
        rota_plan_free(plan);
        return status;
    }
    *out_plan = plan;
    return ROTA_OK;
}

rota_status rota_compile(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                         rota_plan **out_plan) {
    *out_plan = NULL;
    if (!options) options = &default_options;
    ROTA_TRY(check_options(runtime, graph, options));
    attempts a = {.left = ATTEMPTS_MAX, .least = UINT64_MAX};
    a.limit = options->memory_limit_bytes ? options->memory_limit_bytes : graph->memory_limit_bytes;
    if (a.limit == UINT64_MAX) a.limit = 0;
    a.target = a.limit;
    while (!*out_plan) ROTA_TRY(compile_once(runtime, graph, options, &a, out_plan));
    return ROTA_OK;
}

void rota_plan_retain(rota_plan *plan) {
    if (plan) (void)ra_fetch_add_relaxed(&plan->references, 1);
}

void rota_plan_release(rota_plan *plan) {
    /* acq_rel: publishes this thread's use; the last one sees all others'. */
    if (!plan || ra_fetch_sub_acq_rel(&plan->references, 1) != 1) return;
    if (plan->run)
        rota_plan_run_release(plan);
    else
        rota_plan_free(plan);
}

void rota_plan_free(rota_plan *plan) {
    rota_compile_info *info = plan->compile_info;
    if (info) {
        /* Buffers of the graph itself live as long as the graph, which the plan holds. */
        for (uint32_t i = 0; i < plan->buffer_count; i++)
            if (!plan->buffers[i].buffer->graph) rota_buffer_release(plan->buffers[i].buffer);
        for (size_t i = 0; i < sizeof info->kept / sizeof *info->kept; i++) rota_vector_free(&info->kept[i]);
    }
    rota_plan_release(plan->options.arena_of);
    rota_graph_release(plan->graph);
    rota_arena_free(&plan->arena);
    free(plan);
}

void rota_plan_get_stats(const rota_plan *plan, rota_plan_stats *out_stats) {
    *out_stats = plan->stats;
}
