/* The graphs that the benchmarks and tests build. */
#include "bench/graphs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "bench/graphs_train.h"

#define RANDOM_BUFFERS 1024
/* Persistent buffers of small graphs are views this far apart, so many in one allocation. */
#define VIEW_SPACING ROTA_BUFFER_ALIGNMENT
#define VIEWS_PER_ROOT 1024

/* What every input holds. */
static const uint32_t input_words[BENCH_WORDS_MAX] = {12345, 23456, 34567};

/* The first content of a persistent buffer. */
static uint32_t first_word(uint64_t number) {
    return (uint32_t)rota_hash_mix(number + 1);
}

/* What is added to a node's seed in set 1. */
#define OTHER_SEED UINT32_C(0x9e3779b9)

/* ---- What each buffer holds ---- */

static uint64_t train_buffer_bytes(const bench_graph *g, uint64_t in_layer) {
    if (g->options.real_sizes) return train_elements(in_layer) * 4;
    return in_layer == TRAIN_QKV || in_layer == TRAIN_DQKV ? 3 * 4 : 4;
}

/* Kind, size and name of a train graph's buffer; COUNT where there is none of that number. */
static rota_buffer_kind train_kind(const bench_graph *g, uint64_t buffer, uint64_t *out_size, char *name,
                                   size_t name_size) {
    uint64_t block = buffer / TRAIN_STRIDE, in_layer = buffer % TRAIN_STRIDE;
    *out_size = train_buffer_bytes(g, in_layer);
    snprintf(name, name_size, "%s.%" PRIu64, train_name(in_layer), block);
    if (block == 0) return in_layer == TRAIN_X2 ? ROTA_BUFFER_PERSISTENT : ROTA_BUFFER_KIND_COUNT;
    if (block == g->layers + 1)
        return in_layer == TRAIN_DXPREV ? ROTA_BUFFER_PERSISTENT : ROTA_BUFFER_KIND_COUNT;
    if (in_layer < TRAIN_TRANSIENT_COUNT) return ROTA_BUFFER_TRANSIENT;
    if (in_layer == TRAIN_INPUT) return g->options.uploads ? ROTA_BUFFER_INPUT : ROTA_BUFFER_KIND_COUNT;
    if (in_layer == TRAIN_WQKV && g->options.uploads) return ROTA_BUFFER_TRANSIENT;
    return ROTA_BUFFER_PERSISTENT;
}

static rota_buffer_kind buffer_kind_of(const bench_graph *g, uint64_t buffer, uint64_t *out_size, char *name,
                                       size_t name_size) {
    if (g->options.kind == BENCH_TRAIN) return train_kind(g, buffer, out_size, name, name_size);
    *out_size = g->options.real_sizes ? TRAIN_SIZE_X * 4 : 4;
    snprintf(name, name_size, "b%" PRIu64, buffer);
    return ROTA_BUFFER_PERSISTENT;
}

/* ---- Nodes ---- */

static const rota_kernel *kernel_for(uint32_t access_count, bool inplace) {
    return inplace ? &bench_kernels_inplace[access_count - 1] : &bench_kernels[access_count - 1];
}

static void set_modes(bench_node *node, uint64_t index, uint32_t words) {
    node->params = (bench_params){.seed = (uint32_t)index, .words = words};
    for (uint32_t i = 0; i < node->access_count; i++) {
        if (node->accesses[i].mode != ROTA_WRITE) node->params.modes |= 1u << i;
        if (node->accesses[i].mode != ROTA_READ) node->params.modes |= 1u << (8 + i);
    }
}

static const char *row_name(const bench_graph *g, uint64_t layer, uint32_t row) {
    return g->layer_names ? g->layer_names[layer * BENCH_LAYER_NODES + row] : train_layer[row].name;
}

static void train_table_node(const bench_graph *g, uint64_t layer, uint32_t row, bench_node *node) {
    const train_node *t = &train_layer[row];
    int64_t base = (int64_t)(layer + 1) * TRAIN_STRIDE;
    node->name = row_name(g, layer, row);
    node->kernel = kernel_for(t->access_count, t->inplace);
    node->access_count = t->access_count;
    for (uint32_t i = 0; i < t->access_count; i++) {
        const train_access *a = &t->accesses[i];
        bench_access *access = &node->accesses[i];
        access->buffer = (uint64_t)(base + a->buffer);
        access->mode = (rota_access_mode)a->mode;
        access->offset_bytes = 0;
        access->size_bytes = ROTA_WHOLE;
        if (a->third) {
            access->size_bytes = train_buffer_bytes(g, (uint64_t)a->buffer) / 3;
            access->offset_bytes = access->size_bytes * (a->third - 1u);
        }
    }
}

static void train_optimizer_node(const bench_graph *g, uint64_t k, bench_node *node) {
    uint64_t base = (k / TRAIN_PARAMETER_COUNT % g->layers + 1) * TRAIN_STRIDE;
    uint64_t parameter = TRAIN_LN1 + k % TRAIN_PARAMETER_COUNT;
    if (g->options.uploads && parameter == TRAIN_WQKV) parameter = TRAIN_LN1;
    node->name = "update";
    node->kernel = kernel_for(2, false);
    node->access_count = 2;
    node->accesses[0] =
        (bench_access){base + parameter - TRAIN_LN1 + TRAIN_GRAD_LN1, 0, ROTA_WHOLE, ROTA_READ};
    node->accesses[1] = (bench_access){base + parameter, 0, ROTA_WHOLE, ROTA_READWRITE};
}

/* The layer and row of node `index` of a train graph; false for uploads and optimizer nodes. */
static bool train_row(const bench_graph *g, uint64_t index, uint64_t *out_layer, uint32_t *out_row) {
    if (g->options.uploads) {
        if (index < g->layers) return false;
        index -= g->layers;
    }
    uint64_t forward = g->layers * TRAIN_FORWARD_NODES;
    if (index < forward) {
        *out_layer = index / TRAIN_FORWARD_NODES;
        *out_row = (uint32_t)(index % TRAIN_FORWARD_NODES);
        return true;
    }
    index -= forward;
    *out_layer = g->layers - 1 - index / TRAIN_BACKWARD_NODES;
    *out_row = TRAIN_FORWARD_NODES + (uint32_t)(index % TRAIN_BACKWARD_NODES);
    return index < g->layers * TRAIN_BACKWARD_NODES;
}

/* Uploads come first, then forward, backward, optimizer. */
static uint32_t train_graph_node(const bench_graph *g, uint64_t index, bench_node *node) {
    uint64_t layer, uploads = g->options.uploads ? g->layers : 0;
    uint32_t row;
    if (train_row(g, index, &layer, &row)) {
        train_table_node(g, layer, row, node);
        return train_layer[row].words;
    }
    if (index < uploads) {
        uint64_t base = (index + 1) * TRAIN_STRIDE;
        node->name = "upload";
        node->kernel = NULL;
        node->access_count = 2;
        node->accesses[0] = (bench_access){base + TRAIN_WQKV, 0, ROTA_WHOLE, ROTA_WRITE};
        node->accesses[1] = (bench_access){base + TRAIN_INPUT, 0, ROTA_WHOLE, ROTA_READ};
    } else {
        train_optimizer_node(g, index - uploads - g->layers * BENCH_LAYER_NODES, node);
    }
    return 1;
}

static const rota_kernel *simple_kernel(const bench_graph *g, uint32_t access_count) {
    return g->options.plain ? &bench_kernels_plain[access_count - 1] : kernel_for(access_count, false);
}

static void random_node(const bench_graph *g, uint64_t index, bench_node *node) {
    uint64_t bits = rota_hash_mix(index * UINT64_C(0x9e3779b97f4a7c15) + 1);
    uint64_t a = bits % RANDOM_BUFFERS, b = (bits >> 20) % RANDOM_BUFFERS, c = (bits >> 40) % RANDOM_BUFFERS;
    /* A write may not overlap a read of the same node. */
    while (c == a || c == b) c = (c + 1) % RANDOM_BUFFERS;
    node->name = "random";
    node->kernel = simple_kernel(g, 3);
    node->access_count = 3;
    node->accesses[0] = (bench_access){a, 0, ROTA_WHOLE, ROTA_READ};
    node->accesses[1] = (bench_access){b, 0, ROTA_WHOLE, ROTA_READ};
    node->accesses[2] = (bench_access){c, 0, ROTA_WHOLE, ROTA_WRITE};
}

void bench_graph_node(const bench_graph *g, uint64_t index, bench_node *out_node) {
    uint32_t words = 1;
    switch (g->options.kind) {
    case BENCH_TRAIN:
        words = train_graph_node(g, index, out_node);
        break;
    case BENCH_RANDOM:
        random_node(g, index, out_node);
        break;
    default:
        out_node->name = g->options.kind == BENCH_CHAIN ? "link" : "lone";
        out_node->kernel = simple_kernel(g, 1);
        out_node->access_count = 1;
        out_node->accesses[0] = (bench_access){g->options.kind == BENCH_CHAIN ? g->options.skip : index, 0,
                                               ROTA_WHOLE, ROTA_READWRITE};
    }
    set_modes(out_node, index, words);
}

/* ---- Building ---- */

static rota_status make_persistent(bench_graph *g, uint64_t buffer, const char *name, uint64_t size) {
    rota_buffer **out = g->options.slots ? &g->bound[buffer] : &g->buffers[buffer];
    uint64_t number = g->persistent_count++;
    if (g->persistent_number) g->persistent_number[buffer] = (uint32_t)number + 1;
    if (g->options.slots)
        ROTA_TRY(rota_graph_buffer(g->graph, ROTA_BUFFER_SLOT, name, size, &g->buffers[buffer]));
    if (!g->options.runtime) return rota_buffer_create(name, size, out);
    if (number / VIEWS_PER_ROOT == g->root_count) {
        ROTA_TRY(rota_buffer_create_in(g->options.runtime, "bench root",
                                       (uint64_t)VIEW_SPACING * VIEWS_PER_ROOT, &g->roots[g->root_count]));
        g->root_count++;
    }
    return rota_buffer_create_view(g->roots[number / VIEWS_PER_ROOT], number % VIEWS_PER_ROOT * VIEW_SPACING,
                                   size, out);
}

static rota_status make_buffers(bench_graph *g) {
    for (uint64_t buffer = 0; buffer < g->buffer_count; buffer++) {
        uint64_t size;
        char name[32];
        rota_buffer_kind kind = buffer_kind_of(g, buffer, &size, name, sizeof name);
        if (kind == ROTA_BUFFER_PERSISTENT)
            ROTA_TRY(make_persistent(g, buffer, name, size));
        else if (kind != ROTA_BUFFER_KIND_COUNT)
            ROTA_TRY(rota_graph_buffer(g->graph, kind, name, size, &g->buffers[buffer]));
    }
    return ROTA_OK;
}

static rota_status make_layer_names(bench_graph *g) {
    if (!g->options.layer_names || g->options.kind != BENCH_TRAIN) return ROTA_OK;
    const uint64_t count = g->layers * BENCH_LAYER_NODES;
    g->layer_names = calloc(count, sizeof *g->layer_names);
    if (!g->layer_names)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the names of %" PRIu64 " nodes", count);
    for (uint64_t i = 0; i < count; i++)
        snprintf(g->layer_names[i], sizeof *g->layer_names, "layer %" PRIu64 " %s", i / BENCH_LAYER_NODES,
                 train_layer[i % BENCH_LAYER_NODES].name);
    return ROTA_OK;
}

rota_status bench_graph_create(const bench_graph_options *options, bench_graph **out_graph) {
    if (options->kind == BENCH_TRAIN && options->nodes < BENCH_LAYER_NODES)
        return rota_fail(ROTA_INVALID_ARGUMENT, "a train graph has at least %d nodes, not %" PRIu64,
                         BENCH_LAYER_NODES, options->nodes);
    bench_graph *g = calloc(1, sizeof *g);
    if (!g) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a benchmark graph");
    g->options = *options;
    g->node_count = options->nodes;
    switch (options->kind) {
    case BENCH_TRAIN:
        g->layers = options->nodes / BENCH_LAYER_NODES;
        g->buffer_count = (g->layers + 2) * TRAIN_STRIDE;
        if (options->uploads) g->node_count += g->layers;
        break;
    case BENCH_RANDOM:
        g->buffer_count = RANDOM_BUFFERS;
        break;
    case BENCH_WIDE:
        g->buffer_count = options->nodes;
        break;
    default:
        g->buffer_count =
            options->slots && options->seeds ? 2 : 1 + options->skip; /* the second is for set 1 */
    }
    g->buffers = calloc(g->buffer_count, sizeof *g->buffers);
    g->bound = calloc(g->buffer_count, sizeof *g->bound);
    g->roots = calloc(g->buffer_count / VIEWS_PER_ROOT + 1, sizeof *g->roots);
    if (!options->real_sizes) g->persistent_number = calloc(g->buffer_count, sizeof *g->persistent_number);
    for (uint32_t row = 0; row < BENCH_LAYER_NODES && options->kind == BENCH_TRAIN; row++) {
        bench_node node;
        train_table_node(g, 0, row, &node);
        set_modes(&node, 0, 0);
        g->train_modes[row] = node.params.modes;
    }
    if (options->seeds) g->seed_slots = calloc(g->node_count, sizeof *g->seed_slots);
    rota_status status = ROTA_OK;
    if (!g->buffers || !g->bound || !g->roots || (!options->real_sizes && !g->persistent_number) ||
        (options->seeds && !g->seed_slots))
        status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " buffers", g->buffer_count);
    if (status == ROTA_OK) status = make_layer_names(g);
    if (status == ROTA_OK) status = rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "bench"), &g->graph);
    if (status == ROTA_OK) status = make_buffers(g);
    for (uint64_t i = 0; options->seeds && i < g->node_count && status == ROTA_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "seed%" PRIu64, i);
        status = rota_graph_slot(g->graph, name, sizeof(uint32_t), &g->seed_slots[i]);
    }
    if (status != ROTA_OK) {
        bench_graph_release(g);
        return status;
    }
    *out_graph = g;
    return ROTA_OK;
}

void bench_graph_release(bench_graph *g) {
    if (!g) return;
    /* The graph owns all but the persistent ones. */
    if (g->buffers && g->bound)
        for (uint64_t buffer = 0; buffer < g->buffer_count; buffer++) {
            rota_buffer *held = g->options.slots ? g->bound[buffer] : g->buffers[buffer];
            if (held && rota_buffer_get_kind(held) == ROTA_BUFFER_PERSISTENT) rota_buffer_release(held);
        }
    for (uint64_t i = 0; i < g->root_count; i++) rota_buffer_release(g->roots[i]);
    rota_graph_release(g->graph);
    free(g->buffers);
    free(g->bound);
    free(g->layer_names);
    free(g->seed_slots);
    free(g->roots);
    free(g->persistent_number);
    free(g);
}

/* As bench_graph_node and record_node, but with no more work than a program has that knows its model: what is
 * timed is recording. */
static rota_status record_train_row(const bench_graph *g, rota_recorder *recorder, uint64_t index,
                                    uint64_t layer, uint32_t row) {
    const train_node *t = &train_layer[row];
    rota_buffer *const *base = g->buffers + (layer + 1) * TRAIN_STRIDE;
    rota_access accesses[BENCH_OPERANDS_MAX];
    for (uint32_t i = 0; i < t->access_count; i++) {
        const train_access *a = &t->accesses[i];
        accesses[i] = (rota_access){base[a->buffer], 0, ROTA_WHOLE, (rota_access_mode)a->mode};
        if (a->third) {
            accesses[i].size_bytes = train_buffer_bytes(g, (uint64_t)a->buffer) / 3;
            accesses[i].offset_bytes = accesses[i].size_bytes * (a->third - 1u);
        }
    }
    const bench_params params = {.seed = (uint32_t)index, .modes = g->train_modes[row], .words = t->words};
    return rota_record_kernel(recorder,
                              &ROTA_KERNEL_NODE(.kernel = kernel_for(t->access_count, t->inplace),
                                                .name = row_name(g, layer, row), .accesses = accesses,
                                                .access_count = t->access_count, .params = &params),
                              NULL);
}

static rota_status record_node(const bench_graph *g, rota_recorder *recorder, uint64_t index) {
    bench_node node;
    bench_graph_node(g, index, &node);
    if (!node.kernel) {
        rota_buffer *to = g->buffers[node.accesses[0].buffer], *from = g->buffers[node.accesses[1].buffer];
        return rota_record_copy(recorder, to, 0, from, 0, rota_buffer_size(to), NULL);
    }
    rota_access accesses[BENCH_OPERANDS_MAX];
    for (uint32_t a = 0; a < node.access_count; a++)
        accesses[a] = (rota_access){g->buffers[node.accesses[a].buffer], node.accesses[a].offset_bytes,
                                    node.accesses[a].size_bytes, node.accesses[a].mode};
    rota_kernel_node record = ROTA_KERNEL_NODE(.kernel = node.kernel, .name = node.name, .accesses = accesses,
                                               .access_count = node.access_count, .params = &node.params);
    rota_param_binding binding = {0};
    if (g->seed_slots) {
        binding.slot = g->seed_slots[index];
        record.kernel = &bench_kernels_seeded[node.access_count - 1];
        record.bindings = &binding;
        record.binding_count = 1;
    }
    return rota_record_kernel(recorder, &record, NULL);
}

/* The rest of a layer's forward or backward nodes, from node `first` on. */
static rota_status record_train_rows(const bench_graph *g, rota_recorder *recorder, uint64_t first,
                                     uint64_t end, uint64_t layer, uint32_t row) {
    const uint32_t row_end = row < TRAIN_FORWARD_NODES ? TRAIN_FORWARD_NODES : BENCH_LAYER_NODES;
    for (; first < end && row < row_end; first++, row++)
        ROTA_TRY(record_train_row(g, recorder, first, layer, row));
    return ROTA_OK;
}

rota_status bench_graph_record(const bench_graph *g, rota_recorder *recorder, uint64_t first,
                               uint64_t count) {
    const uint64_t end = first + count;
    const bool train = g->options.kind == BENCH_TRAIN && !g->seed_slots;
    while (first < end) {
        uint64_t layer;
        uint32_t row;
        if (train && train_row(g, first, &layer, &row)) {
            ROTA_TRY(record_train_rows(g, recorder, first, end, layer, row));
            first += (row < TRAIN_FORWARD_NODES ? TRAIN_FORWARD_NODES : BENCH_LAYER_NODES) - row;
        } else {
            ROTA_TRY(record_node(g, recorder, first++));
        }
    }
    return ROTA_OK;
}

rota_status bench_graph_record_all(const bench_graph *g, uint32_t lanes) {
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint64_t first = g->node_count * lane / lanes, end = g->node_count * (lane + 1) / lanes;
        rota_recorder *recorder;
        ROTA_TRY(rota_recorder_open(g->graph, lane, NULL, &recorder));
        rota_status status = bench_graph_record(g, recorder, first, end - first);
        rota_recorder_close(recorder);
        ROTA_TRY(status);
    }
    return ROTA_OK;
}

/* ---- Running and checking ---- */

/* The buffer that set `set` binds to a slot: that of the next one in set 1, where all are alike. */
static uint64_t bound_buffer(const bench_graph *g, uint64_t buffer, uint32_t set) {
    if (!set || !g->options.slots || g->options.kind == BENCH_TRAIN) return buffer;
    return (buffer + 1) % g->buffer_count;
}

rota_status bench_graph_bind(const bench_graph *g, rota_args *args, uint32_t set) {
    for (uint64_t i = 0; g->seed_slots && i < g->node_count; i++)
        ROTA_TRY(rota_args_set_u32(args, g->seed_slots[i], (uint32_t)i + (set ? OTHER_SEED : 0)));
    for (uint64_t buffer = 0; buffer < g->buffer_count; buffer++) {
        if (g->bound[buffer])
            ROTA_TRY(rota_args_set_buffer(args, g->buffers[buffer], g->bound[bound_buffer(g, buffer, set)]));
        if (g->buffers[buffer] && rota_buffer_get_kind(g->buffers[buffer]) == ROTA_BUFFER_INPUT)
            ROTA_TRY(rota_args_set_input(args, g->buffers[buffer], input_words,
                                         rota_buffer_size(g->buffers[buffer]), false));
    }
    return ROTA_OK;
}

rota_status bench_graph_reset(const bench_graph *g, rota_device *device) {
    uint32_t *words = calloc(VIEWS_PER_ROOT, VIEW_SPACING);
    if (!words) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a benchmark's data");
    rota_status status = ROTA_OK;
    for (uint64_t r = 0; r < g->root_count && status == ROTA_OK; r++) {
        for (uint64_t i = 0; i < VIEWS_PER_ROOT; i++)
            words[i * (VIEW_SPACING / 4)] = first_word(r * VIEWS_PER_ROOT + i);
        status =
            rota_buffer_write(g->roots[r], device, 0, words, (uint64_t)VIEWS_PER_ROOT * VIEW_SPACING, NULL);
    }
    free(words);
    return status;
}

/* All nodes once, in record order, on BENCH_WORDS_MAX words a buffer. */
static void run_in_order(const bench_graph *g, uint32_t *state, uint32_t set) {
    for (uint64_t i = 0; i < g->node_count; i++) {
        bench_node node;
        bench_graph_node(g, i, &node);
        if (set) node.params.seed += OTHER_SEED;
        uint32_t *operands[BENCH_OPERANDS_MAX];
        for (uint32_t a = 0; a < node.access_count; a++)
            operands[a] = state + bound_buffer(g, node.accesses[a].buffer, set) * BENCH_WORDS_MAX +
                          node.accesses[a].offset_bytes / 4;
        if (node.kernel)
            bench_kernel_apply(&node.params, node.access_count, operands);
        else
            *operands[0] = *operands[1];
    }
}

uint32_t *bench_graph_state(const bench_graph *g, uint64_t replays, const uint8_t *sets) {
    uint32_t *state = calloc(g->buffer_count, BENCH_WORDS_MAX * sizeof *state);
    if (!state) return NULL;
    for (uint64_t buffer = 0; buffer < g->buffer_count; buffer++) {
        if (g->persistent_number[buffer])
            state[buffer * BENCH_WORDS_MAX] = first_word(g->persistent_number[buffer] - 1);
        else if (g->buffers[buffer] && rota_buffer_get_kind(g->buffers[buffer]) == ROTA_BUFFER_INPUT)
            memcpy(state + buffer * BENCH_WORDS_MAX, input_words, sizeof input_words);
    }
    for (uint64_t r = 0; r < replays; r++) run_in_order(g, state, sets ? sets[r] : 0);
    return state;
}

rota_status bench_graph_check(const bench_graph *g, uint64_t replays, const uint8_t *sets) {
    uint32_t *state = bench_graph_state(g, replays, sets);
    uint32_t *seen = malloc((size_t)VIEWS_PER_ROOT * VIEW_SPACING);
    rota_status status = ROTA_OK;
    if (!state || !seen) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a benchmark's reference");
        goto done;
    }
    uint64_t loaded = UINT64_MAX;
    for (uint64_t buffer = 0; buffer < g->buffer_count && status == ROTA_OK; buffer++) {
        if (!g->persistent_number[buffer]) continue;
        uint64_t number = g->persistent_number[buffer] - 1, root = number / VIEWS_PER_ROOT;
        if (root != loaded) {
            status = rota_buffer_read(g->roots[root], 0, seen, (uint64_t)VIEWS_PER_ROOT * VIEW_SPACING);
            if (status != ROTA_OK) break;
            loaded = root;
        }
        uint32_t got = seen[number % VIEWS_PER_ROOT * (VIEW_SPACING / 4)],
                 expected = state[buffer * BENCH_WORDS_MAX];
        if (got != expected)
            status = rota_fail(ROTA_INTERNAL,
                               "persistent buffer %" PRIu64 " of %" PRIu64 " holds %" PRIu32 " after %" PRIu64
                               " replays, not %" PRIu32,
                               number, g->persistent_count, got, replays, expected);
    }
done:
    free(state);
    free(seen);
    return status;
}

/* ---- The lower bound of the arena ---- */

uint64_t bench_graph_lower_bound(const bench_graph *g) {
    uint64_t *last_use = calloc(g->buffer_count, sizeof *last_use);
    bool *live = calloc(g->buffer_count, sizeof *live);
    uint64_t bytes = 0, most = 0;
    if (!last_use || !live) goto done;
    for (uint64_t i = 0; i < g->node_count; i++) {
        bench_node node;
        bench_graph_node(g, i, &node);
        for (uint32_t a = 0; a < node.access_count; a++) last_use[node.accesses[a].buffer] = i;
    }
    for (uint64_t i = 0; i < g->node_count; i++) {
        bench_node node;
        bench_graph_node(g, i, &node);
        uint64_t taken_over = 0; /* inputs, as bits, whose memory an output of this node took */
        for (uint32_t a = 0; a < node.access_count; a++) {
            rota_buffer *out = g->buffers[node.accesses[a].buffer];
            if (live[node.accesses[a].buffer] || rota_buffer_get_kind(out) != ROTA_BUFFER_TRANSIENT) continue;
            live[node.accesses[a].buffer] = true;
            bool reused = false;
            for (uint32_t b = 0; b < node.access_count && node.kernel && !reused; b++) {
                uint64_t in = node.accesses[b].buffer;
                reused = (node.kernel->inplace_outputs >> a & 1) && (node.kernel->inplace_inputs >> b & 1) &&
                         !(taken_over >> b & 1) && last_use[in] == i && node.accesses[b].mode == ROTA_READ &&
                         rota_buffer_get_kind(g->buffers[in]) == ROTA_BUFFER_TRANSIENT &&
                         rota_buffer_size(g->buffers[in]) == rota_buffer_size(out);
                if (reused) taken_over |= (uint64_t)1 << b;
            }
            if (!reused) bytes += rota_buffer_size(out);
        }
        if (bytes > most) most = bytes;
        for (uint32_t a = 0; a < node.access_count; a++) {
            uint64_t buffer = node.accesses[a].buffer;
            if (!live[buffer] || last_use[buffer] != i) continue;
            live[buffer] = false;
            if (!(taken_over >> a & 1)) bytes -= rota_buffer_size(g->buffers[buffer]);
        }
    }
done:
    free(last_use);
    free(live);
    return most;
}
