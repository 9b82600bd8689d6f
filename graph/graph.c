/* Graphs: their lanes, buffers and slots. */
#include "graph/graph_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/given.h"
#include "base/hash.h"
#include "base/sized_copy.h"
#include "graph/conditional_internal.h"

static unsigned long hash_slot(const void *slot, unsigned long seed) {
    return rota_hash_text(ROTA_HASH_BEGIN ^ seed, ((const rota_slot_info *)slot)->name);
}

static bool same_name(const void *a, const void *b) {
    return strcmp(((const rota_slot_info *)a)->name, ((const rota_slot_info *)b)->name) == 0;
}

rota_status rota_graph_create(const rota_graph_options *options, rota_graph **out_graph) {
    ROTA_GIVEN(out_graph);
    *out_graph = NULL;
    rota_graph_options room;
    if (options && !(options = ROTA_SIZED_IN(rota_graph_options, options, &room)))
        return ROTA_INVALID_ARGUMENT;
    /* With its name: an arena takes pages of its own with the first that it has. */
    const char *name = options && options->name ? options->name : "graph";
    const size_t name_bytes = strlen(name) + 1;
    rota_graph *graph = calloc(1, sizeof *graph + name_bytes);
    if (!graph) return rota_fail(ROTA_OUT_OF_MEMORY, "graph: no host memory");
    atomic_init(&graph->references, 1);
    pthread_mutex_init(&graph->mutex, NULL);
    graph->own.graph = graph;
    graph->own.name = "graph";
    graph->slot_names = (rota_set)ROTA_SET(hash_slot, same_name);
    graph->allow_reassociation = options && options->allow_reassociation;
    graph->memory_limit_bytes = options ? options->memory_limit_bytes : 0;
    graph->name = memcpy(graph + 1, name, name_bytes);
    graph->release = options ? options->release : NULL;
    graph->user = options ? options->user : NULL;
    *out_graph = graph;
    return ROTA_OK;
}

void rota_graph_retain(rota_graph *graph) {
    if (graph) (void)ra_fetch_add_relaxed(&graph->references, 1);
}

/* Whole pages, of which blocks have powers of two: the chunk cache has just such ones. */
static size_t buffer_block_bytes(uint32_t block) {
    return sizeof(rota_buffer) * ROTA_BUFFERS_PER_PAGE * rota_buffer_block_pages(block);
}

static void free_lane(rota_recorder *lane) {
    for (rota_lane_chunk *chunk = lane->first_chunk; chunk;) {
        rota_lane_chunk *next = chunk->next;
        rota_chunk_free(chunk, chunk->usable_bytes);
        chunk = next;
    }
    for (uint32_t i = 0; i < lane->buffer_block_count; i++)
        rota_chunk_free(lane->buffer_blocks[i], buffer_block_bytes(i));
    free(lane->buffer_blocks);
    for (uint64_t i = 0; i < lane->held_count; i++) rota_buffer_release(lane->held[i]);
    rota_chunk_free(lane->held, lane->held_usable);
    free(lane->afters.list);
    rota_arena_free(&lane->arena);
}

void rota_graph_release(rota_graph *graph) {
    /* acq_rel, for the same reason as in rota_buffer_release. */
    if (!graph || ra_fetch_sub_acq_rel(&graph->references, 1) != 1) return;
    for (const rota_conditional *it = graph->conditionals; it; it = it->next)
        for (uint32_t i = 0; i < it->body_count; i++) rota_graph_release(it->bodies[i]);
    for (uint32_t i = 0; i < graph->lane_count; i++) {
        free_lane(graph->lanes[i]);
        free(graph->lanes[i]);
    }
    free_lane(&graph->own);
    free(graph->lanes);
    free(graph->hooks);
    rota_set_end(&graph->slot_names);
    rota_arena_free(&graph->arena);
    pthread_mutex_destroy(&graph->mutex);
    const rota_release_fn release = graph->release;
    void *user = graph->user;
    rota_graph *outer = graph->is_taken ? NULL : graph->outer;
    free(graph);
    if (release) release(user);
    if (!outer) return;
    pthread_mutex_lock(&outer->mutex);
    outer->open_bodies--;
    pthread_mutex_unlock(&outer->mutex);
    rota_graph_release(outer);
}

/* Room for the lane's next buffer; NULL when out of memory. */
static rota_buffer *next_buffer(rota_recorder *lane) {
    uint32_t first;
    const uint32_t block = rota_buffer_block_of(lane->buffer_count, &first);
    if (block == lane->buffer_block_count) {
        /* As many more as there are, each time that their number is a power of two. */
        if ((block & (block - 1)) == 0) {
            rota_buffer **grown =
                realloc(lane->buffer_blocks, sizeof *grown * (block ? (size_t)block * 2 : 1));
            if (!grown) return NULL;
            lane->buffer_blocks = grown;
        }
        size_t usable; /* as much as was asked for */
        lane->buffer_blocks[block] = rota_chunk_alloc(buffer_block_bytes(block), &usable);
        if (!lane->buffer_blocks[block]) return NULL;
        lane->buffer_block_count++;
    }
    return lane->buffer_blocks[block] + (lane->buffer_count - first);
}

static rota_status lane_buffer(rota_recorder *lane, rota_buffer_kind kind, const char *name,
                               uint64_t size_bytes, rota_buffer **out_buffer) {
    *out_buffer = NULL;
    if ((unsigned)kind >= ROTA_BUFFER_KIND_COUNT || kind == ROTA_BUFFER_PERSISTENT)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "buffer '%s' of graph '%s': kind %s, expected INPUT, OUTPUT, TRANSIENT or SLOT",
                         name ? name : "", lane->graph->name, rota_buffer_kind_name(kind));
    if (lane->graph->outer && kind != ROTA_BUFFER_TRANSIENT)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "buffer '%s' of body '%s': kind %s, expected TRANSIENT; a body may touch those of graph '%s'",
            name ? name : "", lane->graph->name, rota_buffer_kind_name(kind),
            rota_graph_outermost(lane->graph)->name);
    if (size_bytes == 0 || size_bytes > ROTA_BUFFER_SIZE_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "buffer '%s' of graph '%s': size %llu bytes, expected 1 to %llu", name ? name : "",
                         lane->graph->name, (unsigned long long)size_bytes,
                         (unsigned long long)ROTA_BUFFER_SIZE_MAX);
    if (lane->buffer_count == INT32_MAX) /* an access record keeps the number in 31 bits */
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "buffer '%s': lane '%s' of graph '%s' has 2^31 - 1 buffers, the most "
                         "there can be",
                         name ? name : "", lane->name, lane->graph->name);
    const char *copy = name ? rota_arena_strdup(&lane->arena, name) : "";
    rota_buffer *buffer = copy ? next_buffer(lane) : NULL;
    if (!buffer) return rota_fail(ROTA_OUT_OF_MEMORY, "buffer '%s': no host memory", name ? name : "");
    memset(buffer, 0, sizeof *buffer);
    atomic_init(&buffer->references, 1);
    buffer->kind = (uint8_t)kind;
    buffer->is_read_only = kind == ROTA_BUFFER_INPUT;
    buffer->size_bytes = size_bytes;
    buffer->root = buffer;
    buffer->graph = lane->graph;
    buffer->graph_key = rota_graph_buffer_key(lane->lane, lane->buffer_count++);
    buffer->name = copy;
    *out_buffer = buffer;
    return ROTA_OK;
}

/* With the graph's mutex held, under which compile freezes it: what is added now is in every plan. */
static rota_status check_open(const rota_graph *graph, const char *what) {
    if (ra_load_relaxed(&graph->compiled))
        return rota_fail(ROTA_WRONG_STATE, "%s: graph '%s' is already %s", what, graph->name,
                         graph->is_taken ? "the body of a node" : "compiled");
    return ROTA_OK;
}

rota_status rota_graph_buffer(rota_graph *graph, rota_buffer_kind kind, const char *name, uint64_t size_bytes,
                              rota_buffer **out_buffer) {
    ROTA_GIVEN(graph);
    ROTA_GIVEN(out_buffer);
    *out_buffer = NULL;
    pthread_mutex_lock(&graph->mutex);
    rota_status status = check_open(graph, "new buffer");
    if (status == ROTA_OK) status = lane_buffer(&graph->own, kind, name, size_bytes, out_buffer);
    pthread_mutex_unlock(&graph->mutex);
    return status;
}

rota_status rota_recorder_buffer(rota_recorder *recorder, rota_buffer_kind kind, const char *name,
                                 uint64_t size_bytes, rota_buffer **out_buffer) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(out_buffer);
    *out_buffer = NULL;
    if (ra_load_relaxed(&recorder->closed))
        return rota_fail(ROTA_WRONG_STATE, "new buffer: recorder '%s' of graph '%s' is closed",
                         recorder->name, recorder->graph->name);
    return lane_buffer(recorder, kind, name, size_bytes, out_buffer);
}

static rota_status add_slot(rota_graph *graph, const char *name, uint32_t size_bytes, rota_slot *out_slot) {
    uint32_t count = ra_load_relaxed(&graph->slot_count);
    if (rota_set_get(&graph->slot_names, &(rota_slot_info){.name = name}))
        return rota_fail(ROTA_ALREADY_EXISTS, "slot '%s': graph '%s' has one of that name", name,
                         graph->name);
    if (count == ROTA_GRAPH_SLOTS_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE, "slot '%s': graph '%s' has %d slots, the most there can be", name,
                         graph->name, ROTA_GRAPH_SLOTS_MAX);
    rota_slot_info **block = &graph->slot_blocks[count / ROTA_SLOT_BLOCK];
    if (!*block) *block = rota_arena_alloc(&graph->arena, sizeof **block * ROTA_SLOT_BLOCK, 16);
    char *copy = *block ? rota_arena_strdup(&graph->arena, name) : NULL;
    if (copy) (*block)[count % ROTA_SLOT_BLOCK] = (rota_slot_info){copy, size_bytes, ROTA_VALUE_ANY};
    if (!copy || !rota_set_put(&graph->slot_names, &(*block)[count % ROTA_SLOT_BLOCK]))
        return rota_fail(ROTA_OUT_OF_MEMORY, "slot '%s': no host memory", name);
    out_slot->index = count + 1;
    /* Publishes the entry to check_bindings, which acquires the count. */
    ra_store_release(&graph->slot_count, count + 1);
    return ROTA_OK;
}

rota_status rota_graph_slot(rota_graph *graph, const char *name, uint32_t size_bytes, rota_slot *out_slot) {
    ROTA_GIVEN(graph);
    ROTA_GIVEN(name);
    ROTA_GIVEN(out_slot);
    *out_slot = (rota_slot){0};
    if (!*name) return rota_fail(ROTA_INVALID_ARGUMENT, "slot of graph '%s': it needs a name", graph->name);
    if (size_bytes != 4 && size_bytes != 8)
        return rota_fail(ROTA_INVALID_ARGUMENT, "slot '%s': size %u bytes, expected 4 or 8", name,
                         size_bytes);
    pthread_mutex_lock(&graph->mutex);
    rota_status status = check_open(graph, "new slot");
    pthread_mutex_unlock(&graph->mutex);
    ROTA_TRY(status);
    while (graph->outer) graph = graph->outer; /* a body's are the outermost graph's */
    pthread_mutex_lock(&graph->mutex);
    status = check_open(graph, "new slot");
    if (status == ROTA_OK) status = add_slot(graph, name, size_bytes, out_slot);
    pthread_mutex_unlock(&graph->mutex);
    return status;
}

/* With the graph's mutex held. */
static rota_status add_lane(rota_graph *graph, rota_recorder *lane) {
    if (!lane->order.is_first || !graph->is_taken) ROTA_TRY(check_open(graph, "new recorder"));
    if (graph->lane_count == graph->lane_capacity) {
        uint32_t capacity = graph->lane_capacity ? graph->lane_capacity * 2 : 8;
        rota_recorder **grown = realloc(graph->lanes, sizeof *grown * capacity);
        if (!grown) return rota_fail(ROTA_OUT_OF_MEMORY, "recorder '%s': no host memory", lane->name);
        graph->lanes = grown;
        graph->lane_capacity = capacity;
    }
    graph->lanes[graph->lane_count++] = lane;
    lane->lane = graph->lane_count;
    return ROTA_OK;
}

static rota_status open_lane(rota_graph *graph, uint64_t order_key, bool is_first, const char *name,
                             rota_recorder **out_recorder) {
    /* With its name: a lane's arena takes pages of its own with the first that it has. */
    const size_t name_bytes = strlen(name) + 1;
    rota_recorder *lane = calloc(1, sizeof *lane + name_bytes);
    rota_status status = ROTA_OK;
    if (!lane) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "recorder '%s': no host memory", name);
    } else {
        lane->name = memcpy(lane + 1, name, name_bytes);
        lane->graph = graph;
        lane->order.key = order_key;
        lane->order.is_first = is_first;
        pthread_mutex_lock(&graph->mutex);
        status = add_lane(graph, lane);
        pthread_mutex_unlock(&graph->mutex);
    }
    if (status == ROTA_OK) {
        *out_recorder = lane;
    } else {
        free(lane);
    }
    return status;
}

rota_status rota_recorder_open(rota_graph *graph, uint64_t order_key, const char *name,
                               rota_recorder **out_recorder) {
    ROTA_GIVEN(graph);
    ROTA_GIVEN(out_recorder);
    *out_recorder = NULL;
    char made[40];
    if (!name) {
        (void)snprintf(made, sizeof made, "key %llu", (unsigned long long)order_key);
        name = made;
    }
    return open_lane(graph, order_key, false, name, out_recorder);
}

rota_status rota_recorder_open_first(rota_graph *graph, const char *name, rota_recorder **out_recorder) {
    *out_recorder = NULL;
    return open_lane(graph, 0, true, name, out_recorder);
}

bool rota_lane_precedes(const rota_recorder *a, const rota_recorder *b) {
    if (a->order.is_first != b->order.is_first) return a->order.is_first;
    if (!a->order.is_first && a->order.key != b->order.key) return a->order.key < b->order.key;
    return a->lane < b->lane;
}

uint64_t rota_lane_plain_key(const rota_recorder *lane, const rota_recorder *const *lanes, uint32_t count) {
    uint64_t before = 0, first = 0;
    for (uint32_t i = 0; i < count; i++) {
        first += lanes[i]->order.is_first;
        before += rota_lane_precedes(lanes[i], lane);
    }
    return first ? before : lane->order.key;
}

void rota_recorder_close(rota_recorder *recorder) {
    if (!recorder) return;
    if (recorder->chunk) recorder->chunk->end = recorder->next;
    /* Pairs with the acquire in rota_compile and rota_graph_node_count. */
    ra_store_release(&recorder->closed, true);
}

rota_status rota_recorder_last_node(const rota_recorder *recorder, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(out_node);
    if (recorder->node_count == 0)
        return rota_fail(ROTA_NOT_FOUND, "recorder '%s' has no node yet", recorder->name);
    *out_node = (rota_node){recorder->lane, recorder->node_count - 1};
    return ROTA_OK;
}

rota_graph *rota_recorder_graph(const rota_recorder *recorder) {
    return recorder ? recorder->graph : NULL;
}

uint64_t rota_graph_node_count(const rota_graph *graph) {
    uint64_t count = 0;
    if (!graph) return 0;
    rota_graph *mutable_graph = (rota_graph *)(uintptr_t)graph; /* only its mutex changes */
    pthread_mutex_lock(&mutable_graph->mutex);
    for (uint32_t i = 0; i < graph->lane_count; i++)
        if (ra_load_acquire(&graph->lanes[i]->closed)) count += graph->lanes[i]->node_count;
    pthread_mutex_unlock(&mutable_graph->mutex);
    return count;
}

void rota_graph_freeze(rota_graph *graph) {
    /* Recorders are checked to be closed afterwards; none can be opened from here on. */
    pthread_mutex_lock(&graph->mutex);
    ra_store_release(&graph->compiled, true);
    pthread_mutex_unlock(&graph->mutex);
}

rota_status rota_graph_add_hook(rota_graph *graph, rota_rewrite_opaque_fn fn, void *user) {
    pthread_mutex_lock(&graph->mutex);
    rota_status status = check_open(graph, "new rewrite hook");
    if (status == ROTA_OK && graph->hook_count == graph->hook_capacity) {
        uint32_t capacity = graph->hook_capacity ? graph->hook_capacity * 2 : 4;
        rota_rewrite_hook *grown = realloc(graph->hooks, sizeof *grown * capacity);
        if (grown) {
            graph->hooks = grown;
            graph->hook_capacity = capacity;
        } else {
            status = rota_fail(ROTA_OUT_OF_MEMORY, "rewrite hook: no host memory");
        }
    }
    if (status == ROTA_OK) graph->hooks[graph->hook_count++] = (rota_rewrite_hook){fn, user};
    pthread_mutex_unlock(&graph->mutex);
    return status;
}

rota_status rota_node_after(rota_recorder *recorder, rota_node later, rota_node earlier) {
    ROTA_GIVEN(recorder);
    if (ra_load_relaxed(&recorder->closed))
        return rota_fail(ROTA_WRONG_STATE, "rota_node_after: recorder '%s' is closed", recorder->name);
    if (later.lane != recorder->lane || later.index >= recorder->node_count)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "rota_node_after: the later node (%u of lane %u) is not of lane '%s'", later.index,
                         later.lane, recorder->name);
    if (earlier.lane == later.lane && earlier.index >= later.index)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "rota_node_after: node %u of lane '%s' can't be after node %u", later.index,
                         recorder->name, earlier.index);
    if (recorder->afters.count == recorder->afters.capacity) {
        uint32_t capacity = recorder->afters.capacity ? recorder->afters.capacity * 2 : 16;
        rota_after *grown = realloc(recorder->afters.list, sizeof *grown * capacity);
        if (!grown) return rota_fail(ROTA_OUT_OF_MEMORY, "rota_node_after: no host memory");
        recorder->afters.list = grown;
        recorder->afters.capacity = capacity;
    }
    recorder->afters.list[recorder->afters.count++] = (rota_after){later, earlier};
    return ROTA_OK;
}

const char *rota_access_mode_name(rota_access_mode mode) {
    static const char *const names[ROTA_ACCESS_MODE_COUNT] = {"READ", "WRITE", "READWRITE", "ACCUMULATE"};
    return (unsigned)mode < ROTA_ACCESS_MODE_COUNT ? names[mode] : "UNKNOWN";
}
