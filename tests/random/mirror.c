/* Random graphs: generating their description. Recording them into rota is mirror_record.c. */
#include "tests/random/mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/kit/random.h"

typedef struct generator {
    mirror_case *mirror;
    mirror_graph *graph;
    uint64_t random;
} generator;

static uint32_t below(generator *g, uint32_t bound) {
    return test_below(&g->random, bound);
}

static bool chance(generator *g, uint32_t percent) {
    return below(g, 100) < percent;
}

static void *need(void *memory) {
    if (!memory) abort();
    return memory;
}

/* Small more often than large. */
static uint32_t skewed(generator *g, uint32_t most) {
    uint32_t cap = chance(g, 60) ? (most < 16 ? most : 16) : chance(g, 70) ? (most < 96 ? most : 96) : most;
    return 1 + below(g, cap);
}

/* ---- Buffers ---- */

static uint32_t add_buffer(generator *g, rota_buffer_kind kind, uint32_t bytes) {
    mirror_graph *graph = g->graph;
    graph->buffers = need(realloc(graph->buffers, (graph->buffer_count + 1) * sizeof *graph->buffers));
    uint32_t index = graph->buffer_count++;
    mirror_buffer *buffer = &graph->buffers[index];
    memset(buffer, 0, sizeof *buffer);
    buffer->kind = kind;
    buffer->bytes = bytes;
    buffer->root = index;
    buffer->through_recorder = chance(g, 30);
    snprintf(buffer->name, sizeof buffer->name, "%c%u", "pioTs"[kind], index);
    if (kind == ROTA_BUFFER_TRANSIENT || kind == ROTA_BUFFER_OUTPUT) buffer->defined = need(calloc(1, bytes));
    return index;
}

static void add_view(generator *g, uint32_t parent) {
    uint32_t granule = g->mirror->limits.granule, units = g->graph->buffers[parent].bytes / granule;
    uint32_t first = below(g, units), count = 1 + below(g, units - first);
    uint32_t index = add_buffer(g, g->graph->buffers[parent].kind, count * granule);
    mirror_buffer *view = &g->graph->buffers[index];
    free(view->defined);
    view->defined = NULL;
    view->is_view = true;
    view->root = g->graph->buffers[parent].root;
    view->root_offset = g->graph->buffers[parent].root_offset + first * granule;
    view->persistent = g->graph->buffers[parent].persistent;
    view->through_recorder = false;
}

static uint32_t random_bytes(generator *g) {
    uint32_t granule = g->mirror->limits.granule;
    return granule * skewed(g, g->mirror->limits.bytes / granule);
}

static void make_buffers(generator *g, uint32_t nodes) {
    for (uint32_t p = 0; p < g->mirror->persistent_count; p++)
        if (!g->mirror->persistents[p].for_slots) {
            uint32_t b = add_buffer(g, ROTA_BUFFER_PERSISTENT, g->mirror->persistents[p].bytes);
            g->graph->buffers[b].persistent = p;
            g->graph->buffers[b].through_recorder = false;
        }
    uint32_t inputs = below(g, 4), outputs = 1 + below(g, 3), slots = below(g, 3);
    uint32_t transients = below(g, 4 + nodes / (chance(g, 50) ? 3 : 8));
    for (uint32_t i = 0; i < inputs; i++) add_buffer(g, ROTA_BUFFER_INPUT, random_bytes(g));
    for (uint32_t i = 0; i < outputs; i++) add_buffer(g, ROTA_BUFFER_OUTPUT, random_bytes(g));
    for (uint32_t i = 0; i < transients; i++) add_buffer(g, ROTA_BUFFER_TRANSIENT, random_bytes(g));
    /* As many as there are buffers to bind, each no larger than the smallest of those. */
    uint32_t bindable = 0, smallest = UINT32_MAX;
    for (uint32_t p = 0; p < g->mirror->persistent_count; p++)
        if (g->mirror->persistents[p].for_slots) {
            bindable++;
            if (g->mirror->persistents[p].bytes < smallest) smallest = g->mirror->persistents[p].bytes;
        }
    for (uint32_t i = 0; i < slots && i < bindable; i++)
        add_buffer(g, ROTA_BUFFER_SLOT,
                   g->mirror->limits.granule * (1 + below(g, smallest / g->mirror->limits.granule)));
    uint32_t views = below(g, 6), roots = g->graph->buffer_count;
    for (uint32_t i = 0; i < views; i++) add_view(g, below(g, i % 2 ? g->graph->buffer_count : roots));
}

/* ---- Nodes ---- */

static bool is_defined(const mirror_graph *graph, const mirror_access *access) {
    const mirror_buffer *buffer = &graph->buffers[access->buffer];
    const uint8_t *defined = graph->buffers[buffer->root].defined;
    if (!defined) return true;
    for (uint32_t i = 0; i < access->bytes; i++)
        if (!defined[buffer->root_offset + access->offset + i]) return false;
    return true;
}

static void range_of(const mirror_graph *graph, const mirror_access *access, uint32_t *out_root,
                     uint32_t *out_low, uint32_t *out_high) {
    const mirror_buffer *buffer = &graph->buffers[access->buffer];
    *out_root = buffer->root;
    *out_low = buffer->root_offset + access->offset;
    *out_high = *out_low + access->bytes;
}

/* Whether access k of the node goes with those before it. */
static bool fits(const generator *g, const mirror_node *node, uint32_t k) {
    uint32_t root, low, high;
    range_of(g->graph, &node->access[k], &root, &low, &high);
    for (uint32_t e = 0; e < k; e++) {
        uint32_t other, other_low, other_high;
        range_of(g->graph, &node->access[e], &other, &other_low, &other_high);
        if (other != root || other_high <= low || high <= other_low) continue;
        if (node->access[e].mode == ROTA_READ && node->access[k].mode == ROTA_READ) continue;
        if (node->kind >= TEST_KERNEL_COUNT || low != other_low || high != other_high) return false;
        const rota_kernel *kernel = &test_kernels[node->kind].kernel;
        if (!(kernel->inplace_inputs >> e & 1) || !(kernel->inplace_outputs >> k & 1)) return false;
    }
    return true;
}

/* Draws the place of access k, whose mode and size are set. */
static bool draw_access(generator *g, mirror_node *node, uint32_t k) {
    mirror_access *access = &node->access[k];
    mirror_graph *graph = g->graph;
    uint32_t granule = g->mirror->limits.granule;
    bool any_byte = node->kind == MIRROR_COPY && granule == 4 && chance(g, 30);
    for (uint32_t attempt = 0; attempt < 12; attempt++) {
        const mirror_access *same =
            k && access->mode != ROTA_READ && chance(g, 30) ? &node->access[below(g, k)] : NULL;
        if (same && same->bytes == access->bytes) {
            access->buffer = same->buffer;
            access->offset = same->offset;
        } else {
            /* Recent buffers more often: chains and reuse. */
            access->buffer = below(g, graph->buffer_count);
            if (graph->buffers[access->buffer].bytes < access->bytes) continue;
            uint32_t room = graph->buffers[access->buffer].bytes - access->bytes;
            access->offset = chance(g, 40)   ? 0
                             : any_byte      ? below(g, room + 1)
                             : chance(g, 50) ? room / granule * granule
                                             : below(g, room / granule + 1) * granule;
        }
        rota_buffer_kind kind = graph->buffers[access->buffer].kind;
        if (access->mode != ROTA_READ && kind == ROTA_BUFFER_INPUT) continue;
        if (access->mode != ROTA_WRITE && !is_defined(graph, access)) continue;
        if (fits(g, node, k)) return true;
    }
    return false;
}

static uint32_t draw_slot(generator *g, uint32_t bytes) {
    for (uint32_t attempt = 0; attempt < 3 && g->graph->slot_count; attempt++) {
        uint32_t s = below(g, g->graph->slot_count);
        if (g->graph->slot_bytes[s] == bytes) return s + 1;
    }
    return 0;
}

static bool draw_node(generator *g, mirror_node *node) {
    uint32_t granule = g->mirror->limits.granule;
    memset(node, 0, sizeof *node);
    node->kind = below(g, MIRROR_NODE_KINDS + 6);
    if (node->kind >= MIRROR_NODE_KINDS) node->kind = chance(g, 50) ? TEST_KERNEL_map : TEST_KERNEL_zip;
    const uint32_t host_percent = g->mirror->limits.many_host_nodes ? 100 : 30;
    if (node->kind == MIRROR_HOST && !(g->mirror->limits.host_nodes && chance(g, host_percent)))
        node->kind = TEST_KERNEL_split;
    uint32_t n = random_bytes(g), m = random_bytes(g);
    node->pattern = (uint32_t)test_random(&g->random);
    node->queue_plus_1 = chance(g, 10) ? 1 + below(g, g->graph->options.queues) : 0;
    if (g->mirror->limits.devices > 1) node->device_plus_1 = below(g, g->mirror->limits.devices + 1);
    if (g->mirror->limits.automatic && chance(g, 60))
        node->device_plus_1 = chance(g, 50) ? ROTA_PLACE_AUTO : 0;
    if (node->kind == TEST_KERNEL_sum && m > 4096) m = 4096;
    if (node->kind < TEST_KERNEL_COUNT) {
        const test_kernel *kernel = &test_kernels[node->kind];
        node->access_count = kernel->kernel.operand_count;
        for (uint32_t k = 0; k < node->access_count; k++) {
            node->access[k].mode = kernel->operands[k].mode;
            node->access[k].bytes = kernel->operands[k].length == TEST_N ? n : m;
        }
        node->params =
            (test_params){n / 4, m / 4, (uint32_t)test_random(&g->random), 0, test_random(&g->random)};
        node->p_slot = chance(g, 30) ? draw_slot(g, 4) : 0;
        node->seed_slot = chance(g, 30) ? draw_slot(g, 8) : 0;
    } else if (node->kind == MIRROR_FILL) {
        node->access_count = 1;
        node->access[0] = (mirror_access){.mode = ROTA_WRITE, .bytes = n};
    } else {
        /* A copy has the destination first, a host node the source. */
        node->access_count = 2;
        uint32_t bytes = node->kind == MIRROR_COPY && granule == 4 && chance(g, 20) ? 1 + below(g, n) : n;
        node->access[0] =
            (mirror_access){.mode = node->kind == MIRROR_COPY ? ROTA_WRITE : ROTA_READ, .bytes = bytes};
        node->access[1] =
            (mirror_access){.mode = node->kind == MIRROR_COPY ? ROTA_READ : ROTA_WRITE, .bytes = bytes};
    }
    for (uint32_t k = 0; k < node->access_count; k++)
        if (!draw_access(g, node, k)) return false;
    return true;
}

/* Half of those that may leave alone what they write, as it is defined. */
static void draw_counted(generator *g, mirror_node *node) {
    if (!g->mirror->limits.counted || node->kind == MIRROR_FILL || node->kind == MIRROR_HOST || chance(g, 50))
        return;
    uint64_t most = node->access[0].bytes, grain, bytes[MIRROR_ACCESSES_MAX];
    for (uint32_t k = 0; k < node->access_count; k++) {
        if (node->access[k].mode == ROTA_WRITE && !is_defined(g->graph, &node->access[k])) return;
        bytes[k] = node->access[k].bytes;
    }
    node->unit_bytes = 1;
    while (node->kind == MIRROR_COPY && most % ((uint64_t)2 * node->unit_bytes) == 0 && chance(g, 60))
        node->unit_bytes *= 2;
    if (node->kind == MIRROR_COPY)
        most /= node->unit_bytes;
    else
        test_kernels[node->kind].kernel.cpu.items(&node->params, bytes, &most, &grain);
    if (most == 0 || most >= UINT32_MAX) return;
    node->count_max_plus_1 = (uint32_t)most + 1;
    node->count = chance(g, 15) ? 0 : chance(g, 15) ? (uint32_t)most : below(g, (uint32_t)most + 1);
    if (chance(g, 50)) return;
    const uint32_t word = below(g, MIRROR_COUNTS);
    uint32_t *of_all = &g->graph->count_most[word];
    node->count_word_plus_1 = word + 1;
    if (*of_all == 0 || *of_all > most) *of_all = (uint32_t)most;
}

static void define(mirror_graph *graph, const mirror_node *node) {
    for (uint32_t k = 0; k < node->access_count; k++) {
        uint32_t root, low, high;
        range_of(graph, &node->access[k], &root, &low, &high);
        graph->buffers[root].used = true;
        if (graph->buffers[root].defined && node->access[k].mode == ROTA_WRITE)
            memset(graph->buffers[root].defined + low, 1, high - low);
    }
}

static uint32_t draw_count(generator *g) {
    const mirror_limits *limits = &g->mirror->limits;
    uint32_t most = chance(g, 2)    ? limits->nodes
                    : chance(g, 12) ? limits->nodes / 4 + 1
                                    : limits->nodes / 16 + 1;
    return chance(g, 1) ? limits->nodes : 1 + below(g, most);
}

static void make_nodes(generator *g, uint32_t count) {
    mirror_graph *graph = g->graph;
    const mirror_limits *limits = &g->mirror->limits;
    graph->nodes = need(calloc(count + graph->buffer_count, sizeof *graph->nodes));
    /* Most outputs are written whole first; an output that nothing wrote is an error unless undefined reads
     * are allowed. */
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        if (graph->buffers[b].kind != ROTA_BUFFER_OUTPUT || graph->buffers[b].is_view || chance(g, 10))
            continue;
        mirror_node *node = &graph->nodes[graph->node_count++];
        node->kind = MIRROR_FILL;
        node->access_count = 1;
        node->access[0] = (mirror_access){b, 0, graph->buffers[b].bytes, ROTA_WRITE};
        node->pattern = (uint32_t)test_random(&g->random);
        define(graph, node);
    }
    count = count > graph->node_count ? count : graph->node_count;
    for (uint32_t tries = 0; graph->node_count < count && tries < count * 8; tries++) {
        mirror_node *node = &graph->nodes[graph->node_count];
        if (!draw_node(g, node)) continue;
        draw_counted(g, node);
        define(graph, node);
        graph->node_count++;
    }
    if (limits->keep_nodes && graph->node_count > limits->keep_nodes) {
        graph->node_count = limits->keep_nodes;
        for (uint32_t b = 0; b < graph->buffer_count; b++) {
            graph->buffers[b].used = false;
            if (graph->buffers[b].defined) memset(graph->buffers[b].defined, 0, graph->buffers[b].bytes);
        }
        for (uint32_t i = 0; i < graph->node_count; i++) define(graph, &graph->nodes[i]);
    }
    for (uint32_t b = 0; b < graph->buffer_count; b++)
        if (graph->buffers[b].kind == ROTA_BUFFER_OUTPUT && !graph->buffers[b].is_view &&
            memchr(graph->buffers[b].defined, 0, graph->buffers[b].bytes))
            graph->options.allow_undefined_reads = true;
}

static void make_lanes(generator *g) {
    mirror_graph *graph = g->graph;
    graph->lane_count = 1 + below(g, MIRROR_LANES_MAX);
    uint64_t key = below(g, 5);
    uint32_t node = 0;
    for (uint32_t l = 0; l < graph->lane_count; l++) {
        graph->lane_key[l] = key;
        key += 1 + below(g, 1000);
        uint32_t end =
            l + 1 == graph->lane_count ? graph->node_count : node + below(g, graph->node_count - node + 1);
        for (; node < end; node++) graph->nodes[node].lane = l;
    }
    graph->after_count = graph->node_count > 1 && chance(g, 40) ? below(g, 4) : 0;
    graph->afters = need(calloc(graph->after_count + 1, sizeof *graph->afters));
    for (uint32_t i = 0; i < graph->after_count; i++) {
        graph->afters[i][0] = 1 + below(g, graph->node_count - 1);
        graph->afters[i][1] = below(g, graph->afters[i][0]);
    }
}

static void make_graph(generator *g, mirror_graph *graph) {
    g->graph = graph;
    graph->policy_seed = test_random(&g->random);
    graph->automatic = g->mirror->limits.automatic;
    graph->options.struct_size = sizeof graph->options;
    graph->options.name = "fuzz";
    graph->options.packing = chance(g, 50) ? ROTA_PACK_TIGHT : ROTA_PACK_CONCURRENT;
    graph->options.queues = chance(g, 30) ? 1 : 1 + below(g, g->mirror->limits.queues);
    graph->options.transfer_queue = chance(g, 50);
    graph->options.instances = 1 + below(g, 4);
    graph->options.arenas = 1 + below(g, 3);
    graph->slot_count = below(g, MIRROR_SLOTS_MAX + 1);
    for (uint32_t s = 0; s < graph->slot_count; s++) graph->slot_bytes[s] = chance(g, 50) ? 4 : 8;
    uint32_t count = draw_count(g);
    make_buffers(g, count);
    make_nodes(g, count);
    make_lanes(g);
}

void mirror_generate(mirror_case *out_case, uint64_t seed, const mirror_limits *limits) {
    memset(out_case, 0, sizeof *out_case);
    out_case->seed = seed;
    out_case->limits = *limits;
    generator g = {out_case, NULL, seed * 0x9e3779b97f4a7c15u + 1};
    uint32_t slots = below(&g, 4);
    out_case->persistent_count = 1 + below(&g, 6) + slots;
    out_case->persistents = need(calloc(out_case->persistent_count, sizeof *out_case->persistents));
    for (uint32_t p = 0; p < out_case->persistent_count; p++) {
        mirror_persistent *persistent = &out_case->persistents[p];
        persistent->for_slots = p >= out_case->persistent_count - slots;
        persistent->bytes = random_bytes(&g);
        persistent->values = need(malloc(persistent->bytes));
        for (uint32_t i = 0; i < persistent->bytes; i++)
            persistent->values[i] = (uint8_t)test_random(&g.random);
    }
    out_case->graph_count = 1 + below(&g, chance(&g, 50) ? 1 : MIRROR_PLANS_MAX);
    out_case->script_length = 1 + below(&g, 8);
    for (uint32_t i = 0; i < out_case->graph_count; i++) make_graph(&g, &out_case->graphs[i]);
}

void mirror_free(mirror_case *mirror) {
    for (uint32_t i = 0; i < mirror->graph_count; i++) {
        mirror_graph *graph = &mirror->graphs[i];
        free(graph->groups);
        for (uint32_t b = 0; b < graph->buffer_count; b++) free(graph->buffers[b].defined);
        free(graph->buffers);
        free(graph->nodes);
        free(graph->afters);
    }
    for (uint32_t p = 0; p < mirror->persistent_count; p++) free(mirror->persistents[p].values);
    free(mirror->persistents);
    memset(mirror, 0, sizeof *mirror);
}

/* ---- Replays ---- */

void mirror_replay_generate(const mirror_case *mirror, const mirror_graph *graph, uint64_t *random,
                            mirror_replay *out_replay) {
    uint32_t count = graph->buffer_count;
    memset(out_replay, 0, sizeof *out_replay);
    out_replay->data = need(calloc(count, sizeof *out_replay->data));
    out_replay->expected = need(calloc(count, sizeof *out_replay->expected));
    out_replay->bound = need(calloc(count, sizeof *out_replay->bound));
    out_replay->bound_offset = need(calloc(count, sizeof *out_replay->bound_offset));
    for (uint32_t s = 0; s < graph->slot_count; s++) out_replay->slot_value[s] = test_random(random);
    for (uint32_t w = 0; w < MIRROR_COUNTS; w++)
        out_replay->counts[w] = test_below(random, graph->count_most[w] + 1);
    uint32_t slots = 0;
    for (uint32_t p = 0; p < mirror->persistent_count; p++) slots += mirror->persistents[p].for_slots;
    uint32_t turn = slots ? test_below(random, slots) : 0;
    for (uint32_t b = 0; b < count; b++) {
        const mirror_buffer *buffer = &graph->buffers[b];
        if (buffer->is_view) continue;
        if (buffer->kind == ROTA_BUFFER_INPUT || buffer->kind == ROTA_BUFFER_OUTPUT) {
            out_replay->data[b] = need(malloc(buffer->bytes));
            for (uint32_t i = 0; i < buffer->bytes; i++)
                out_replay->data[b][i] =
                    buffer->kind == ROTA_BUFFER_INPUT ? (uint8_t)test_random(random) : 0x99;
        } else if (buffer->kind == ROTA_BUFFER_SLOT) {
            /* Different buffers for different slots. */
            uint32_t bound = mirror->persistent_count - slots + turn++ % slots;
            uint32_t room = mirror->persistents[bound].bytes - buffer->bytes,
                     granule = mirror->limits.granule;
            out_replay->bound[b] = bound;
            out_replay->bound_offset[b] = test_below(random, room / granule + 1) * granule;
        }
    }
}

void mirror_replay_free(const mirror_graph *graph, mirror_replay *replay) {
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        free(replay->data[b]);
        free(replay->expected[b]);
    }
    free(replay->data);
    free(replay->expected);
    free(replay->bound);
    free(replay->bound_offset);
    memset(replay, 0, sizeof *replay);
}

/* ---- Showing ---- */

static void print_node(const mirror_graph *graph, uint32_t index) {
    const mirror_node *node = &graph->nodes[index];
    static const char *const others[] = {"copy", "fill", "host"};
    printf("  %u: lane %u %s", index, node->lane,
           node->kind < TEST_KERNEL_COUNT ? test_kernels[node->kind].kernel.name
                                          : others[node->kind - MIRROR_COPY]);
    if (node->queue_plus_1) printf(" queue %u", node->queue_plus_1 - 1);
    if (node->device_plus_1) printf(" device %u", node->device_plus_1 - 1);
    for (uint32_t k = 0; k < node->access_count; k++) {
        uint32_t root, low, high;
        range_of(graph, &node->access[k], &root, &low, &high);
        printf(" %s:%s[%u,%u)", rota_access_mode_name(node->access[k].mode), graph->buffers[root].name, low,
               high);
    }
    printf("\n");
}

void mirror_print(const mirror_case *mirror) {
    for (uint32_t i = 0; i < mirror->graph_count; i++) {
        const mirror_graph *graph = &mirror->graphs[i];
        printf("graph %u: %u nodes, %u lanes, %s, queues %u, transfer queue %d, instances %u, arenas %u\n", i,
               graph->node_count, graph->lane_count,
               graph->options.packing == ROTA_PACK_TIGHT ? "tight" : "concurrent", graph->options.queues,
               graph->options.transfer_queue, graph->options.instances, graph->options.arenas);
        for (uint32_t b = 0; b < graph->buffer_count; b++)
            if (graph->buffers[b].used)
                printf("  buffer %s: %s, %u bytes%s\n", graph->buffers[b].name,
                       rota_buffer_kind_name(graph->buffers[b].kind), graph->buffers[b].bytes,
                       graph->buffers[b].is_view ? ", a view" : "");
        for (uint32_t n = 0; n < graph->node_count; n++) print_node(graph, n);
        for (uint32_t a = 0; a < graph->after_count; a++)
            if (graph->afters[a][0] < graph->node_count)
                printf("  %u after %u\n", graph->afters[a][0], graph->afters[a][1]);
    }
}
