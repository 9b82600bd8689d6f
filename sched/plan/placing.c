/* Automatic placement: what is to be placed, told to a policy, and what follows from its answer.
 *
 *     records --placing_values.c--> edges, bytes --\
 *   history, or placing_costs.c---> costs ----------> policy (placing_search.c) --> a device of each node
 *                                                                                      |
 *     gather.c places nodes by it, and sends what one device writes and another reads <-/
 *
 * It comes before rewrites, so that what they make is for the device that it will be on. */
#include "sched/plan/placing.h"

#include <math.h>
#include <string.h>
#include "graph/record.h"
#include "sched/plan/placing_clock.h"
#include "sched/plan/placing_costs.h"
#include "sched/plan/placing_history.h"
#include "sched/plan/placing_settle.h"
#include "sched/plan/placing_values.h"

/* What the policy is given, and where that is. */
typedef struct problem {
    rota_compiler *c;
    const rota_node_record *const *records;
    rota_placing placing;
    rota_placing_node *nodes;
    rota_placing_cost *costs;
    rota_placing_values values;
    const rota_device_traits *traits[ROTA_PLACING_DEVICES_MAX];
    rota_device *devices[ROTA_PLACING_DEVICES_MAX];
    uint32_t hardware[ROTA_PLACING_DEVICES_MAX];
    double host_latency_ns[ROTA_PLACING_DEVICES_MAX], host_byte_ns[ROTA_PLACING_DEVICES_MAX];
    double host_taken_ns[ROTA_PLACING_DEVICES_MAX];
    uint64_t memory_bytes[ROTA_PLACING_DEVICES_MAX];
    double latency_ns[ROTA_PLACING_DEVICES_MAX * ROTA_PLACING_DEVICES_MAX];
    double byte_ns[ROTA_PLACING_DEVICES_MAX * ROTA_PLACING_DEVICES_MAX];
    uint32_t host; /* the device of host nodes; ROTA_NONE: none */
} problem;

/* ---- What is to be placed ---- */

static rota_status list_devices(problem *p) {
    const rota_plan_devices *devices = p->c->devices;
    uint32_t count = 0;
    if (devices->count >= ROTA_PLACING_DEVICES_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE, "compile of graph '%s': %u devices to place nodes on, at most %d",
                         p->c->graph->name, devices->count, ROTA_PLACING_DEVICES_MAX - 1);
    p->host = ROTA_NONE;
    for (; count < devices->count; count++) {
        p->traits[count] = &devices->all[count];
        if (p->host == ROTA_NONE && devices->all[count].runs_host_nodes) p->host = count;
    }
    if (p->host == ROTA_NONE && devices->cpu) {
        p->host = count;
        p->traits[count++] = devices->cpu;
    }
    for (uint32_t d = 0; d < count; d++) {
        p->devices[d] = p->traits[d]->device;
        p->hardware[d] = d;
        for (uint32_t e = 0; e < d && p->hardware[d] == d; e++)
            if (rota_placing_same_hardware(p->traits[d], p->traits[e])) p->hardware[d] = p->hardware[e];
        rota_placing_prior_host(p->traits[d], &p->host_latency_ns[d], &p->host_byte_ns[d]);
        p->host_taken_ns[d] = rota_placing_prior_taken(p->traits[d]);
        p->memory_bytes[d] = p->traits[d]->memory_bytes;
        for (uint32_t e = 0; e < count; e++)
            rota_placing_prior_copy(p->traits[d], p->traits[e], &p->latency_ns[d * count + e],
                                    &p->byte_ns[d * count + e]);
    }
    p->placing.device_count = count;
    return ROTA_OK;
}

/* The devices that a node may be on, as bits, of those whose costs are finite. */
static rota_status set_possible(problem *p, uint32_t n) {
    const rota_node_record *record = p->records[n];
    const uint32_t count = p->c->devices->count;
    rota_placing_node *node = &p->nodes[n];
    rota_placing_cost *costs = &p->costs[(size_t)n * p->placing.device_count];
    uint32_t fixed = ROTA_NONE;
    if (record->kind == ROTA_NODE_HOST) {
        fixed = p->host == ROTA_NONE ? 0 : p->host;
    } else if (record->device_plus_1 && record->device_plus_1 != ROTA_PLACE_AUTO) {
        fixed = record->device_plus_1 - 1u;
        if (fixed >= count)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "node '%s' is placed on device %u; the plan has %u devices",
                             rota_node_record_name(record), fixed, count);
    } else if (record->device_plus_1 == 0 && !p->c->plan->options.place_auto) {
        fixed = 0;
    }
    for (uint32_t d = 0; d < count && fixed == ROTA_NONE; d++)
        if (isfinite(costs[d].span_ns)) node->possible |= 1u << d;
    if (node->possible) return ROTA_OK;
    /* Whether it runs there is the lowering's to say, and the executor's: also of what is thought to run nowhere. */
    if (fixed == ROTA_NONE) fixed = 0;
    node->possible = 1u << fixed;
    if (!isfinite(costs[fixed].span_ns)) costs[fixed] = (rota_placing_cost){1, 1};
    return ROTA_OK;
}

/* Costs on a device by its history, where that knows the node; those that it doesn't know are as much faster or slower
 * than their table says as the others are together. */
static void ask_history(const problem *p, uint32_t d) {
    const uint32_t count = p->placing.device_count, nodes = p->c->node_count;
    rota_history *history = p->traits[d]->history;
    double said = 0, took = 0, share = 1000;
    if (!rota_history_has_any(history)) return;
    (void)rota_history_find(history, ROTA_HISTORY_SHARE, &share);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t n = 0; n < nodes; n++) {
            rota_placing_cost *cost = &p->costs[(size_t)n * count + d];
            double ns;
            if (!isfinite(cost->span_ns)) continue;
            const bool known = rota_history_find(history, rota_history_key(p->records[n]), &ns);
            if (pass == 0 && known) {
                said += cost->span_ns;
                took += ns;
            }
            if (pass == 0 || (!known && took == 0)) continue;
            const double factor = known ? ns / cost->span_ns : took / said;
            cost->span_ns *= factor;
            cost->busy_ns *= factor;
            /* Where others ran beside it, it took longer, but they began. */
            if (known && cost->busy_ns > cost->span_ns * share / 1000)
                cost->busy_ns = cost->span_ns * share / 1000;
        }
}

/* Of copies: halves that were measured, from and to the host's memory, and how long they were on their way. */
static void ask_history_of_copies(problem *p) {
    const uint32_t count = p->placing.device_count;
    double half[ROTA_PLACING_DEVICES_MAX];
    for (uint32_t d = 0; d < count; d++) {
        half[d] = -1;
        if (rota_history_find(p->traits[d]->history, ROTA_HISTORY_COPY, &half[d])) half[d] /= 1 << 20;
    }
    for (uint32_t d = 0; d < count; d++)
        for (uint32_t e = 0; e < count; e++) {
            double ns;
            if (p->traits[e]->peers >> p->traits[d]->index & 1u) {
                if (rota_history_find(p->traits[e]->history, ROTA_HISTORY_PEER, &ns))
                    p->byte_ns[d * count + e] = ns / (1 << 20);
                continue;
            }
            if (p->byte_ns[d * count + e] > 0 &&
                rota_history_find(p->traits[e]->history, ROTA_HISTORY_LATENCY, &ns))
                p->latency_ns[d * count + e] = ns;
            const bool by_host = !p->traits[d]->unified_host && !p->traits[e]->unified_host;
            const double between = by_host && p->host != ROTA_NONE ? half[p->host] : 0;
            if (p->byte_ns[d * count + e] > 0 && half[d] >= 0 && half[e] >= 0 && between >= 0)
                p->byte_ns[d * count + e] = half[d] + half[e] + between;
        }
}

static rota_status list_nodes(problem *p) {
    const rota_compiler *c = p->c;
    const uint32_t count = p->placing.device_count;
    for (uint32_t n = 0; n < c->node_count; n++)
        for (uint32_t d = 0; d < count; d++)
            p->costs[(size_t)n * count + d] = rota_placing_prior(p->traits[d], p->records[n]);
    for (uint32_t d = 0; d < count; d++) ask_history(p, d);
    ask_history_of_copies(p);
    for (uint32_t n = 0; n < c->node_count; n++) {
        const rota_node_record *record = p->records[n];
        const uint32_t lane = rota_lane_of_node(c->info, n);
        p->nodes[n].node = (rota_node){c->info->lanes[lane]->lane, n - c->info->lane_first_node[lane]};
        p->nodes[n].name = rota_node_record_name(record);
        if (record->kind == ROTA_NODE_KERNEL) p->nodes[n].kernel = record->u.kernel.kernel;
        ROTA_TRY(set_possible(p, n));
    }
    return ROTA_OK;
}

/* What touches a buffer that stays is on the first device, where that runs it. */
static void keep_persistent(problem *p) {
    const rota_placing_buffer *buffers = p->values.buffers.data;
    const uint32_t *touches = p->values.touches.data;
    for (uint32_t n = 0; n < p->c->node_count; n++) {
        rota_placing_node *node = &p->nodes[n];
        for (uint32_t t = node->first_touch; t < node->first_touch + node->touch_count; t++)
            if (buffers[touches[t]].last == UINT32_MAX && (node->possible & 1)) node->possible = 1;
    }
}

static rota_status pose(problem *p) {
    rota_compiler *c = p->c;
    ROTA_TRY(list_devices(p));
    const size_t nodes = (size_t)c->node_count + 1;
    p->nodes = rota_arena_calloc(&c->scratch, sizeof *p->nodes * nodes, 8);
    p->costs = rota_arena_alloc(&c->scratch, sizeof *p->costs * nodes * p->placing.device_count, 8);
    if (!p->nodes || !p->costs) return rota_compile_no_memory(c);
    ROTA_TRY(list_nodes(p));
    ROTA_TRY(rota_placing_find_values(c, p->records, p->nodes, &p->values));
    if (c->plan->options.place_persistent_first) keep_persistent(p);
    p->placing = (rota_placing){.struct_size = sizeof p->placing,
                                .node_count = c->node_count,
                                .edge_count = (uint32_t)p->values.edges.count,
                                .value_count = p->values.value_count,
                                .device_count = p->placing.device_count,
                                .nodes = p->nodes,
                                .edges = p->values.edges.data,
                                .costs = p->costs,
                                .devices = p->devices,
                                .hardware = p->hardware,
                                .latency_ns = p->latency_ns,
                                .byte_ns = p->byte_ns,
                                .host_latency_ns = p->host_latency_ns,
                                .host_byte_ns = p->host_byte_ns,
                                .host_plus_1 = p->host == ROTA_NONE ? 0 : p->host + 1,
                                .host_taken_ns = p->host_taken_ns,
                                .touches = p->values.touches.data,
                                .buffers = p->values.buffers.data,
                                .buffer_count = (uint32_t)p->values.buffers.count,
                                .memory_bytes = p->memory_bytes,
                                .transient_limit_bytes = c->memory.target};
    return ROTA_OK;
}

/* ---- The answer ---- */

/* All that can be on one device there. */
static void choose_one(const problem *p, uint32_t device, uint8_t *out_devices) {
    for (uint32_t n = 0; n < p->placing.node_count; n++) {
        const uint32_t possible = p->nodes[n].possible;
        out_devices[n] = (uint8_t)(possible >> device & 1 ? device : (uint32_t)__builtin_ctz(possible));
    }
}

/* What replays have taught of placements of this graph goes before the model's choice. */
static rota_status settle(const problem *p, uint8_t *devices) {
    rota_compiler *c = p->c;
    rota_history *histories[ROTA_PLACING_DEVICES_MAX];
    rota_settled *const settled = &c->info->placing;
    uint64_t graph = ROTA_HISTORY_GRAPH;
    for (uint32_t n = 0; n < c->node_count; n++) graph = rota_history_mix_node(graph, p->records[n]);
    uint64_t set = graph;
    for (uint32_t d = 0; d < p->placing.device_count; d++) {
        histories[d] = p->traits[d]->history;
        for (const char *id = p->traits[d]->id; *id; id++) set = rota_history_mix(set, (unsigned char)*id);
        set = rota_history_mix(set, 0);
    }
    ROTA_TRY(rota_placing_settle(
        &(rota_settling){&p->placing, histories, c->devices->count, graph, set, c->devices->teaches}, devices,
        settled));
    if (settled->device != UINT32_MAX) return ROTA_OK;
    uint8_t *const kept = rota_arena_alloc(&c->plan->arena, (size_t)c->node_count + 1, 1);
    if (!kept) return rota_compile_no_memory(c);
    memcpy(kept, devices, c->node_count);
    settled->devices = kept;
    return ROTA_OK;
}

static rota_status choose(const problem *p, uint8_t *out_devices) {
    const rota_compiler *c = p->c;
    const rota_compile_options *options = &c->plan->options;
    if (c->devices->only_plus_1) {
        choose_one(p, c->devices->only_plus_1 - 1, out_devices);
        return ROTA_OK;
    }
    if (!options->placer) {
        ROTA_TRY(rota_placing_choose(&p->placing, out_devices));
        return p->traits[0]->history ? settle(p, out_devices) : ROTA_OK;
    }
    ROTA_TRY(options->placer(options->placer_user, &p->placing, out_devices));
    for (uint32_t n = 0; n < c->node_count; n++)
        if (out_devices[n] >= p->placing.device_count || !(p->nodes[n].possible >> out_devices[n] & 1))
            return rota_fail(
                ROTA_INVALID_ARGUMENT,
                "compile of graph '%s': the placer puts node '%s' on device %u of %u; it may be on "
                "those of bits %#x",
                c->graph->name, p->nodes[n].name, out_devices[n], p->placing.device_count,
                p->nodes[n].possible);
    return ROTA_OK;
}

/* The first part is of a device that is used, and the only one where all are the same. */
static void find_home(const problem *p, const uint8_t *devices) {
    rota_compile_placing *placing = &p->c->spread.placing;
    uint32_t used = 0;
    for (uint32_t n = 0; n < p->placing.node_count; n++) used |= 1u << devices[n];
    uint32_t own = used & ((1u << p->c->devices->count) - 1);
    placing->home = own ? (uint32_t)__builtin_ctz(own) : 0;
    placing->alone = (used & (used - 1)) == 0 && used == own && !p->c->plan->options.check_kernels;
    for (uint32_t n = 0; n < p->placing.node_count; n++)
        if (p->records[n]->may_be_on_device) placing->home = 0, placing->alone = false;
    placing->host_idle = p->host == ROTA_NONE || !(used >> p->host & 1);
}

/* Notes which values leave their device for which other, by the nodes that write them. */
static rota_status list_sends(const problem *p, const uint8_t *devices) {
    rota_compiler *c = p->c;
    rota_compile_placing *placing = &c->spread.placing;
    const rota_placing_edge *edges = p->values.edges.data;
    const rota_placing_range *ranges = p->values.ranges.data;
    placing->first_send = rota_arena_calloc(&c->scratch, sizeof(uint32_t) * ((size_t)c->node_count + 2), 8);
    placing->input_devices =
        rota_arena_calloc(&c->scratch, sizeof(uint32_t) * ((size_t)c->gathering.graph_buffer_count + 1), 8);
    if (!placing->first_send || !placing->input_devices) return rota_compile_no_memory(c);
    uint32_t *first =
        placing->first_send + 1; /* while they are counted, and then filled in, those of the next node */
    for (uint32_t fill = 0; fill < 2; fill++) {
        for (uint32_t n = 0; n < c->node_count; n++)
            for (uint32_t e = p->nodes[n].first_edge; e < p->nodes[n].first_edge + p->nodes[n].edge_count;
                 e++) {
                /* What the host's device gets, it gets where that is asked for. */
                if (!ranges[e].high || devices[n] >= c->devices->count) continue;
                const uint64_t stored = ranges[e].stored;
                if (edges[e].from == ROTA_PLACING_OUTSIDE) {
                    placing->input_devices[c->gathering.lane_base[stored >> 32] + ((uint32_t)stored >> 1)] |=
                        1u << devices[n];
                } else if (devices[edges[e].from] != devices[n]) {
                    if (fill)
                        placing->sends[first[edges[e].from]] =
                            (rota_compile_send){stored, ranges[e].low, ranges[e].high, devices[n]};
                    first[edges[e].from]++;
                }
            }
        if (fill) break;
        uint32_t sum = 0;
        for (uint32_t n = 0; n < c->node_count; n++) {
            const uint32_t count = first[n];
            first[n] = sum;
            sum += count;
        }
        placing->sends = rota_arena_alloc(&c->scratch, sizeof *placing->sends * ((size_t)sum + 1), 8);
        if (!placing->sends) return rota_compile_no_memory(c);
    }
    return ROTA_OK;
}

rota_status rota_compile_placing_choose(rota_compiler *c, const rota_node_record *const *records) {
    problem *p = rota_arena_calloc(&c->scratch, sizeof *p, 8);
    uint8_t *devices = rota_arena_alloc(&c->scratch, (size_t)c->node_count + 1, 1);
    if (!p || !devices) return rota_compile_no_memory(c);
    p->c = c;
    p->records = records;
    rota_status status = pose(p);
    if (status == ROTA_OK) status = choose(p, devices);
    if (status == ROTA_OK) {
        find_home(p, devices);
        c->spread.placing.device = devices;
        if (!c->spread.placing.alone) status = list_sends(p, devices);
    }
    rota_placing_values_free(&p->values);
    return status;
}
