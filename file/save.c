/* rota_graph_save: two walks over the nodes, one that gathers what they name, one that writes them. */
#include "file/graph_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/given.h"
#include "base/output.h"
#include "base/sized_copy.h"
#include "file/cbor_write.h"
#include "file/format.h"
#include "file/hosts.h"
#include "file/save_buffers.h"
#include "file/save_kernels.h"
#include "graph/conditional_internal.h"
#include "graph/lane_records.h"
#include "graph/record.h"
#include "ops/fusion.h"

typedef struct saver {
    const rota_graph_save_options *options;
    rota_saved_graph graph;
    rota_saved_buffers buffers;
    rota_saved_kernels kernels;
    rota_set hosts, host_names; /* by what they are; those of the options by name */
    uint32_t hosts_named;
    uint32_t version; /* of the format: no later one than it takes */
    /* By number of a buffer, of those that there are with `contents`: the options have its first bytes. */
    bool *is_given;
    FILE *file;
} saver;

/* ---- What there is to save ---- */

static rota_status check_hooks(rota_saved_part *part) {
    rota_graph *graph = part->graph;
    rota_status status = ROTA_OK;
    pthread_mutex_lock(&graph->mutex);
    for (uint32_t i = 0; i < graph->hook_count && status == ROTA_OK; i++) {
        if (!rota_fuse_is_hook((void (*)(void))graph->hooks[i].fn))
            status =
                rota_fail(ROTA_UNSUPPORTED,
                          "graph '%s' to be saved: it has a rewrite hook other than rota_graph_fuse's, which "
                          "a file can't have",
                          graph->name);
        part->fuses = true;
    }
    pthread_mutex_unlock(&graph->mutex);
    return status;
}

static const rota_graph_file_host *find_host(saver *s, const rota_node_record *node) {
    return rota_hosts_of(&s->hosts, node->u.host.fn, node->u.host.user);
}

static rota_status no_memory(const saver *s) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "graph '%s' to be saved: no host memory", s->graph.graph->name);
}

/* The next of "host 1", "host 2" that is no name of the options'. */
static rota_status name_host(saver *s, const rota_node_record *node) {
    rota_graph_file_host *host = rota_arena_alloc(&s->graph.arena, sizeof *host, 8);
    char name[24];
    do (void)snprintf(name, sizeof name, "host %u", ++s->hosts_named);
    while (rota_hosts_named(&s->host_names, name));
    if (host)
        *host = (rota_graph_file_host){rota_arena_strdup(&s->graph.arena, name), node->u.host.fn,
                                       node->u.host.user};
    return host && host->name && rota_hosts_add(&s->hosts, host, 1) ? ROTA_OK : no_memory(s);
}

static rota_status gather_node(saver *s, const rota_recorder *lane, uint32_t index,
                               const rota_node_record *node) {
    if (node->is_counted) s->version = ROTA_GRAPH_FILE_VERSION_COUNTS;
    for (uint32_t i = 0; i < node->access_count; i++) {
        const uint64_t key = rota_access_stored(&rota_node_accesses(node)[i]);
        if (ROTA_ACCESS_IS_PERSISTENT(key))
            ROTA_TRY(rota_saved_buffers_add(&s->buffers, ROTA_ACCESS_BUFFER(key)));
    }
    if (node->kind == ROTA_NODE_KERNEL) return rota_saved_kernels_add(&s->kernels, node);
    if (node->kind != ROTA_NODE_HOST) return ROTA_OK;
    if (node->u.host.later)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "graph '%s' to be saved: node '%s' (lane '%s', node %u) ends later than its function, as "
            "collectives do, which a file can't have",
            s->graph.graph->name, node->name ? node->name : "host", lane->name, index);
    if (find_host(s, node)) return ROTA_OK;
    if (!s->options->name_hosts)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "graph '%s' to be saved: the host function of node '%s' (lane '%s', node %u) has no name "
            "among the options' hosts",
            s->graph.graph->name, node->name ? node->name : "host", lane->name, index);
    return name_host(s, node);
}

static rota_status check_bytes(saver *s, const char *what, const rota_graph_file_bytes *bytes, uint32_t count,
                               rota_buffer_kind kind) {
    for (uint32_t i = 0; i < count; i++) {
        const rota_buffer *buffer = bytes[i].buffer;
        const char *graph = s->graph.graph->name;
        uint32_t index;
        uint64_t offset;
        if (!buffer)
            return rota_fail(ROTA_INVALID_ARGUMENT, "graph '%s' to be saved: %s[%u] has no buffer", graph,
                             what, i);
        if (buffer->kind != ROTA_BUFFER_PERSISTENT && buffer->kind != kind)
            return rota_fail(
                ROTA_INVALID_ARGUMENT,
                "graph '%s' to be saved: %s[%u] is of buffer '%s', which is %s, expected %s or PERSISTENT",
                graph, what, i, buffer->root->name, rota_buffer_kind_name((rota_buffer_kind)buffer->kind),
                rota_buffer_kind_name(kind));
        if (kind == ROTA_BUFFER_OUTPUT && !bytes[i].data)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "graph '%s' to be saved: %s[%u], of buffer '%s', has no data", graph, what, i,
                             buffer->root->name);
        if (!(bytes[i].tolerance >= 0) || (bytes[i].tolerance > 0 && buffer->size_bytes % 4))
            return rota_fail(
                ROTA_INVALID_ARGUMENT,
                "graph '%s' to be saved: %s[%u], of buffer '%s' of %llu bytes, has tolerance %g, expected "
                "0, or more for f32",
                graph, what, i, buffer->root->name, (unsigned long long)buffer->size_bytes,
                (double)bytes[i].tolerance);
        ROTA_TRY(rota_saved_buffers_find(&s->buffers, buffer, &index, &offset));
    }
    return ROTA_OK;
}

static rota_status check_arguments(saver *s) {
    for (uint32_t i = 0; i < s->options->argument_count; i++) {
        const rota_graph_file_argument *argument = &s->options->arguments[i];
        const char *graph = s->graph.graph->name;
        uint32_t index;
        uint64_t offset;
        if (!argument->slot_buffer) {
            if (argument->slot.index - 1u < s->graph.slot_count) continue;
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "graph '%s' to be saved: arguments[%u] is of slot %u of %u", graph, i,
                             argument->slot.index, s->graph.slot_count);
        }
        const rota_buffer *slot = argument->slot_buffer, *bound = argument->bound;
        if (slot->kind != ROTA_BUFFER_SLOT || slot->is_view || !bound ||
            bound->kind != ROTA_BUFFER_PERSISTENT || bound->size_bytes < slot->size_bytes)
            return rota_fail(
                ROTA_INVALID_ARGUMENT,
                "graph '%s' to be saved: arguments[%u] binds %s '%s' to %s '%s', expected a SLOT and a "
                "PERSISTENT one that is as large",
                graph, i, rota_buffer_kind_name((rota_buffer_kind)slot->kind), slot->root->name,
                bound ? rota_buffer_kind_name((rota_buffer_kind)bound->kind) : "no buffer",
                bound ? bound->root->name : "");
        ROTA_TRY(rota_saved_buffers_find(&s->buffers, slot, &index, &offset));
        ROTA_TRY(rota_saved_buffers_find(&s->buffers, bound, &index, &offset));
    }
    return ROTA_OK;
}

/* When all buffers have their numbers. */
static rota_status note_given(saver *s) {
    const size_t count = (size_t)s->buffers.graph_count + (size_t)s->buffers.persistents.count;
    s->is_given = rota_arena_calloc(&s->graph.arena, count + 1, 1);
    if (!s->is_given) return no_memory(s);
    for (uint32_t i = 0; i < s->options->first_count; i++) {
        uint32_t index;
        uint64_t offset;
        ROTA_TRY(rota_saved_buffers_find(&s->buffers, s->options->first[i].buffer, &index, &offset));
        s->is_given[index] = true;
    }
    return ROTA_OK;
}

static rota_status gather_part(saver *s, rota_saved_part *part) {
    ROTA_TRY(check_hooks(part));
    for (uint32_t i = 0; i < part->lane_count; i++) {
        rota_record_cursor records = rota_lane_records(part->lanes[i]);
        uint32_t index = 0;
        for (const rota_node_record *node; (node = rota_record_take(&records)); index++)
            ROTA_TRY(gather_node(s, part->lanes[i], index, node));
    }
    return ROTA_OK;
}

static rota_status gather(saver *s) {
    rota_hosts_begin_by_function(&s->hosts);
    rota_hosts_begin_by_name(&s->host_names);
    if (!rota_hosts_add(&s->hosts, s->options->hosts, s->options->host_count) ||
        !rota_hosts_add(&s->host_names, s->options->hosts, s->options->host_count))
        return no_memory(s);
    s->version = s->graph.parts.count > 1 ? ROTA_GRAPH_FILE_VERSION_BODIES : 1;
    for (uint64_t i = 0; i < s->graph.parts.count; i++)
        ROTA_TRY(gather_part(s, rota_saved_graph_part(&s->graph, i)));
    const rota_graph_save_options *options = s->options;
    ROTA_TRY(check_bytes(s, "first", options->first, options->first_count, ROTA_BUFFER_INPUT));
    ROTA_TRY(check_bytes(s, "results", options->results, options->result_count, ROTA_BUFFER_OUTPUT));
    ROTA_TRY(check_arguments(s));
    return note_given(s);
}

/* ---- Nodes ---- */

static void put_pair(FILE *file, const char *key, uint64_t value) {
    rota_cbor_put_text(file, key);
    rota_cbor_put_uint(file, value);
}

/* A part whose nodes are written. */
typedef struct part_writer {
    saver *s;
    const rota_saved_part *part;
    uint32_t number;
    uint32_t next_body; /* the part that is the next node's first body */
} part_writer;

static void put_buffer(const part_writer *w, const rota_access_record *access) {
    rota_cbor_put_uint(w->s->file,
                       rota_saved_buffers_index(&w->s->buffers, w->number, rota_access_stored(access)));
}

/* But for a count. */
static void put_accesses(const part_writer *w, const rota_node_record *node) {
    const saver *s = w->s;
    const rota_access_record *accesses = rota_node_accesses(node);
    const uint32_t count = (uint32_t)node->access_count - node->is_counted;
    rota_cbor_put_text(s->file, "accesses");
    rota_cbor_put_array(s->file, count);
    for (uint32_t i = 0; i < count; i++) {
        rota_cbor_put_array(s->file, 4);
        put_buffer(w, &accesses[i]);
        rota_cbor_put_text(s->file, rota_access_mode_name(ROTA_ACCESS_MODE(&accesses[i])));
        rota_cbor_put_uint(s->file, ROTA_ACCESS_OFFSET(&accesses[i]));
        rota_cbor_put_uint(s->file, rota_access_size(&accesses[i]));
    }
}

static void put_name(const saver *s, const char *name) {
    if (!name) return;
    rota_cbor_put_text(s->file, "name");
    rota_cbor_put_text(s->file, name);
}

static void put_placement(const saver *s, const rota_node_record *node) {
    if (node->device_plus_1) put_pair(s->file, "device", node->device_plus_1 - 1u);
    if (node->queue_plus_1) put_pair(s->file, "queue", node->queue_plus_1 - 1u);
}

/* Where the node is counted: [buffer, offset, most], and of a kernel items of a group, and a parameter or null. */
static void put_count(const part_writer *w, const rota_node_record *node) {
    FILE *file = w->s->file;
    const bool is_kernel = node->kind == ROTA_NODE_KERNEL;
    const rota_access_record *access = rota_node_accesses(node) + node->access_count - 1;
    if (!node->is_counted) return;
    rota_cbor_put_text(file, "count");
    rota_cbor_put_array(file, is_kernel ? 5 : 3);
    put_buffer(w, access);
    rota_cbor_put_uint(file, ROTA_ACCESS_OFFSET(access));
    rota_cbor_put_uint(file, is_kernel ? node->u.kernel.count_max : node->u.copy.count_max);
    if (!is_kernel) return;
    rota_cbor_put_uint(file, node->u.kernel.groups[0]);
    if (node->u.kernel.groups[1])
        rota_cbor_put_uint(file, node->u.kernel.groups[1] - 1);
    else
        rota_cbor_put_null(file);
}

static void put_kernel(const part_writer *w, const rota_node_record *node) {
    saver *s = w->s;
    const uint32_t *groups = node->u.kernel.groups;
    const rota_param_binding *bindings = rota_node_bindings(node);
    const bool has_groups = !node->is_counted && (groups[0] || groups[1] || groups[2]);
    rota_cbor_put_map(s->file,
                      (size_t)(2 + !!node->name + !!rota_node_param_bytes(node) + !!node->binding_count +
                               has_groups + node->is_counted + !!node->device_plus_1 + !!node->queue_plus_1));
    put_pair(s->file, "kernel", rota_saved_kernels_index(&s->kernels, node));
    put_name(s, node->name);
    put_accesses(w, node);
    if (rota_node_param_bytes(node)) {
        rota_cbor_put_text(s->file, "parameters");
        rota_cbor_put_bytes(s->file, rota_node_params(node), rota_node_param_bytes(node));
    }
    if (node->binding_count) {
        rota_cbor_put_text(s->file, "bindings");
        rota_cbor_put_array(s->file, node->binding_count);
        for (uint32_t i = 0; i < node->binding_count; i++) {
            rota_cbor_put_array(s->file, 2);
            rota_cbor_put_uint(s->file, bindings[i].bindable);
            if (bindings[i].slot.index == ROTA_SLOT_CONSTANT.index)
                rota_cbor_put_null(s->file);
            else
                rota_cbor_put_uint(s->file, bindings[i].slot.index - 1);
        }
    }
    if (has_groups) {
        rota_cbor_put_text(s->file, "groups");
        rota_cbor_put_array(s->file, 3);
        for (uint32_t i = 0; i < 3; i++) rota_cbor_put_uint(s->file, groups[i]);
    }
    put_count(w, node);
    put_placement(s, node);
}

/* 4 bytes that the node itself reads or writes: [buffer, offset]. */
static void put_word(const part_writer *w, const rota_node_record *node, const rota_conditional_word *word) {
    const rota_access_record *access = rota_node_accesses(node) + word->access;
    rota_cbor_put_array(w->s->file, 2);
    put_buffer(w, access);
    rota_cbor_put_uint(w->s->file, ROTA_ACCESS_OFFSET(access) + word->offset_bytes);
}

/* Bodies are the parts behind the graph, for which null stands. */
static void put_body_number(const saver *s, uint64_t part) {
    if (part)
        rota_cbor_put_uint(s->file, part - 1);
    else
        rota_cbor_put_null(s->file);
}

static void put_conditional(part_writer *w, const rota_node_record *node) {
    const saver *s = w->s;
    const rota_conditional *conditional = node->u.conditional;
    const bool has_index = conditional->iteration.access != ROTA_CONDITIONAL_NO_WORD;
    const bool is_loop = rota_conditional_is_loop(conditional->kind);
    rota_cbor_put_map(s->file, (size_t)(2 + !!node->name + has_index + is_loop + !!node->device_plus_1 +
                                        !!node->queue_plus_1));
    rota_cbor_put_text(s->file, rota_conditional_kind_name(conditional->kind));
    put_word(w, node, &conditional->condition);
    put_name(s, node->name);
    if (has_index) {
        rota_cbor_put_text(s->file, "index");
        put_word(w, node, &conditional->iteration);
    }
    if (is_loop) put_pair(s->file, "iterations", conditional->iterations_max);
    rota_cbor_put_text(s->file, "bodies");
    rota_cbor_put_array(s->file, conditional->body_count);
    for (uint32_t i = 0; i < conditional->body_count; i++)
        put_body_number(s, conditional->bodies[i] ? w->next_body++ : 0);
    put_placement(s, node);
}

static void put_node(part_writer *w, const rota_node_record *node) {
    saver *s = w->s;
    const rota_access_record *accesses = rota_node_accesses(node);
    switch ((rota_node_kind)node->kind) {
    case ROTA_NODE_KERNEL:
        put_kernel(w, node);
        return;
    case ROTA_NODE_COPY:
        rota_cbor_put_map(s->file, (size_t)1 + node->is_counted);
        rota_cbor_put_text(s->file, "copy");
        rota_cbor_put_array(s->file, 5);
        for (uint32_t i = 0; i < 2; i++) {
            put_buffer(w, &accesses[i]);
            rota_cbor_put_uint(s->file, ROTA_ACCESS_OFFSET(&accesses[i]));
        }
        rota_cbor_put_uint(s->file,
                           node->is_counted ? node->u.copy.unit_bytes : rota_access_size(&accesses[0]));
        put_count(w, node);
        return;
    case ROTA_NODE_FILL:
        rota_cbor_put_map(s->file, (size_t)(1 + !!node->name));
        rota_cbor_put_text(s->file, "fill");
        rota_cbor_put_array(s->file, 4);
        put_buffer(w, &accesses[0]);
        rota_cbor_put_uint(s->file, ROTA_ACCESS_OFFSET(&accesses[0]));
        rota_cbor_put_uint(s->file, rota_access_size(&accesses[0]));
        rota_cbor_put_uint(s->file, node->u.fill.pattern);
        put_name(s, node->name);
        return;
    case ROTA_NODE_HOST:
        rota_cbor_put_map(s->file, (size_t)(2 + !!node->name));
        rota_cbor_put_text(s->file, "host");
        rota_cbor_put_text(s->file, find_host(s, node)->name);
        put_name(s, node->name);
        put_accesses(w, node);
        return;
    case ROTA_NODE_CONDITIONAL:
        put_conditional(w, node);
        return;
    }
}

static void put_records(part_writer *w, const rota_recorder *lane) {
    const saver *s = w->s;
    rota_cbor_put_map(s->file, (size_t)(1 + !!lane->afters.count));
    rota_cbor_put_text(s->file, "nodes");
    rota_cbor_put_array(s->file, lane->node_count);
    rota_record_cursor records = rota_lane_records(lane);
    for (const rota_node_record *node; (node = rota_record_take(&records));) put_node(w, node);
    if (!lane->afters.count) return;
    rota_cbor_put_text(s->file, "after");
    rota_cbor_put_array(s->file, lane->afters.count);
    for (uint32_t i = 0; i < lane->afters.count; i++) {
        rota_cbor_put_array(s->file, 3);
        rota_cbor_put_uint(s->file, lane->afters.list[i].later.index);
        rota_cbor_put_uint(s->file, w->part->first_lane + lane->afters.list[i].earlier.lane - 1u);
        rota_cbor_put_uint(s->file, lane->afters.list[i].earlier.index);
    }
}

/* ---- Contents ---- */

/* buffer, offset, size: of what was checked. */
static void put_range(saver *s, const rota_buffer *buffer, uint64_t size_bytes) {
    uint32_t index = 0;
    uint64_t offset = 0;
    (void)rota_saved_buffers_find(&s->buffers, buffer, &index, &offset);
    rota_cbor_put_uint(s->file, index);
    rota_cbor_put_uint(s->file, offset);
    if (size_bytes) rota_cbor_put_uint(s->file, size_bytes);
}

/* Whether the contents of a PERSISTENT buffer are read. */
static bool is_read(const saver *s, const rota_saved_buffer *saved) {
    return s->options->contents && !s->is_given[saved->index] && saved->buffer->residency;
}

/* Null in the place of the bytes where a part of them was never written. */
static rota_status put_contents(saver *s, rota_buffer *root) {
    rota_cbor_put_array(s->file, 4);
    put_range(s, root, root->size_bytes);
    void *bytes = malloc(root->size_bytes);
    if (!bytes)
        return rota_fail(ROTA_OUT_OF_MEMORY,
                         "graph '%s' to be saved: no host memory for %llu bytes of buffer '%s'",
                         s->graph.graph->name, (unsigned long long)root->size_bytes, root->name);
    rota_status status = rota_buffer_read(root, 0, bytes, root->size_bytes);
    if (status == ROTA_OK)
        rota_cbor_put_bytes(s->file, bytes, root->size_bytes);
    else
        rota_cbor_put_null(s->file);
    free(bytes);
    return status == ROTA_UNDEFINED_DATA ? ROTA_OK : status;
}

static rota_status put_first(saver *s) {
    const rota_graph_save_options *options = s->options;
    const rota_vector *persistents = &s->buffers.persistents;
    size_t count = options->first_count;
    rota_saved_buffer *const *all = persistents->data;
    for (uint64_t i = 0; i < persistents->count; i++) count += is_read(s, all[i]);
    rota_cbor_put_text(s->file, "first");
    rota_cbor_put_array(s->file, count);
    for (uint32_t i = 0; i < options->first_count; i++) {
        const rota_graph_file_bytes *first = &options->first[i];
        rota_cbor_put_array(s->file, 4);
        put_range(s, first->buffer, first->buffer->size_bytes);
        if (first->data)
            rota_cbor_put_bytes(s->file, first->data, first->buffer->size_bytes);
        else
            rota_cbor_put_uint(s->file, 0);
    }
    for (uint64_t i = 0; i < persistents->count; i++)
        if (is_read(s, all[i])) ROTA_TRY(put_contents(s, all[i]->buffer));
    return ROTA_OK;
}

static void put_arguments(saver *s) {
    const rota_graph_save_options *options = s->options;
    rota_cbor_put_text(s->file, "arguments");
    rota_cbor_put_array(s->file, options->argument_count);
    for (uint32_t i = 0; i < options->argument_count; i++) {
        const rota_graph_file_argument *argument = &options->arguments[i];
        if (!argument->slot_buffer) {
            rota_cbor_put_array(s->file, 2);
            rota_cbor_put_uint(s->file, argument->slot.index - 1);
            rota_cbor_put_uint(s->file, argument->value);
            continue;
        }
        rota_cbor_put_array(s->file, 4);
        uint32_t index = 0;
        uint64_t offset = 0;
        (void)rota_saved_buffers_find(&s->buffers, argument->slot_buffer, &index, &offset);
        rota_cbor_put_uint(s->file, index);
        put_range(s, argument->bound, argument->bound->size_bytes);
    }
}

static void put_results(saver *s) {
    const rota_graph_save_options *options = s->options;
    rota_cbor_put_text(s->file, "results");
    rota_cbor_put_array(s->file, options->result_count);
    for (uint32_t i = 0; i < options->result_count; i++) {
        const rota_graph_file_bytes *result = &options->results[i];
        rota_cbor_put_array(s->file, 4);
        put_range(s, result->buffer, 0);
        rota_cbor_put_bytes(s->file, result->data, result->buffer->size_bytes);
        rota_cbor_put_f32(s->file, result->tolerance);
    }
}

/* ---- The file ---- */

static void put_bodies(const saver *s) {
    rota_cbor_put_text(s->file, "bodies");
    rota_cbor_put_array(s->file, s->graph.parts.count - 1);
    for (uint64_t i = 1; i < s->graph.parts.count; i++) {
        const rota_saved_part *part = rota_saved_graph_part(&s->graph, i);
        rota_cbor_put_array(s->file, 3);
        rota_cbor_put_text(s->file, part->graph->name);
        put_body_number(s, part->outer);
        rota_cbor_put_bool(s->file, part->fuses);
    }
}

/* Those of the last body first. Whose they are stands there where there may be bodies. */
static void put_lanes(const saver *s) {
    const bool has_bodies = s->version >= ROTA_GRAPH_FILE_VERSION_BODIES;
    rota_cbor_put_text(s->file, "lanes");
    rota_cbor_put_array(s->file, s->graph.lane_count);
    for (uint64_t p = s->graph.parts.count; p-- > 0;) {
        const rota_saved_part *part = rota_saved_graph_part(&s->graph, p);
        for (uint32_t i = 0; i < part->lane_count; i++) {
            rota_cbor_put_array(s->file, 2 + has_bodies);
            rota_cbor_put_uint(s->file, rota_lane_plain_key(part->lanes[i], part->lanes, part->lane_count));
            rota_cbor_put_text(s->file, part->lanes[i]->name);
            if (has_bodies) put_body_number(s, p);
        }
    }
}

static void put_all_records(saver *s) {
    rota_cbor_put_text(s->file, "records");
    rota_cbor_put_array(s->file, s->graph.lane_count);
    for (uint64_t p = s->graph.parts.count; p-- > 0;) {
        const rota_saved_part *part = rota_saved_graph_part(&s->graph, p);
        part_writer writer = {s, part, (uint32_t)p, part->first_body};
        for (uint32_t i = 0; i < part->lane_count; i++) put_records(&writer, part->lanes[i]);
    }
}

static rota_status put_graph(saver *s) {
    const rota_graph *graph = s->graph.graph;
    const bool has_bodies = s->version >= ROTA_GRAPH_FILE_VERSION_BODIES;
    rota_cbor_put_tag(s->file, ROTA_GRAPH_FILE_TAG);
    rota_cbor_put_map(s->file, 18 + has_bodies);
    rota_cbor_put_text(s->file, "format");
    rota_cbor_put_text(s->file, ROTA_GRAPH_FILE_FORMAT);
    put_pair(s->file, "version", s->version);
    put_pair(s->file, "edition", ROTA_GRAPH_FILE_EDITION);
    rota_cbor_put_text(s->file, "writer");
    rota_cbor_put_text(s->file, rota_version());
    put_name(s, graph->name);
    rota_cbor_put_text(s->file, "reassociation");
    rota_cbor_put_bool(s->file, graph->allow_reassociation);
    put_pair(s->file, "memory limit", graph->memory_limit_bytes);
    rota_cbor_put_text(s->file, "fuse");
    rota_cbor_put_bool(s->file, rota_saved_graph_part(&s->graph, 0)->fuses);
    rota_saved_kernels_write(&s->kernels, s->file);
    if (has_bodies) put_bodies(s);
    put_lanes(s);
    rota_saved_buffers_write(&s->buffers, s->file);
    rota_cbor_put_text(s->file, "slots");
    rota_cbor_put_array(s->file, s->graph.slot_count);
    for (uint32_t i = 1; i <= s->graph.slot_count; i++) {
        rota_cbor_put_array(s->file, 2);
        rota_cbor_put_text(s->file, rota_graph_slot_info(graph, i)->name);
        rota_cbor_put_uint(s->file, rota_graph_slot_info(graph, i)->size_bytes);
    }
    put_all_records(s);
    put_pair(s->file, "replays", s->options->replays ? s->options->replays : 1);
    ROTA_TRY(put_first(s));
    put_arguments(s);
    put_results(s);
    return ROTA_OK;
}

static rota_status save(saver *s, rota_graph *graph, const char *path) {
    ROTA_TRY(rota_saved_graph_begin(graph, &s->graph));
    ROTA_TRY(rota_saved_buffers_begin(&s->graph, &s->buffers));
    ROTA_TRY(gather(s));
    rota_output output;
    ROTA_TRY(rota_output_open(&output, path));
    s->file = output.file;
    return rota_output_close(&output, put_graph(s));
}

rota_status rota_graph_save(rota_graph *graph, const rota_graph_save_options *options, const char *path) {
    ROTA_GIVEN(graph);
    ROTA_GIVEN(path);
    rota_graph_save_options room, none = ROTA_GRAPH_SAVE_OPTIONS();
    if (!options) options = &none;
    if (!(options = ROTA_SIZED_IN(rota_graph_save_options, options, &room))) return ROTA_INVALID_ARGUMENT;
    ROTA_GIVEN_ARRAY(options->hosts, options->host_count);
    ROTA_GIVEN_ARRAY(options->first, options->first_count);
    ROTA_GIVEN_ARRAY(options->arguments, options->argument_count);
    ROTA_GIVEN_ARRAY(options->results, options->result_count);
    if (graph->outer)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "graph '%s' to be saved: it is a body, which is no graph by itself", graph->name);
    saver s = {.options = options};
    rota_saved_kernels_begin(&s.kernels);
    const rota_status status = save(&s, graph, path);
    rota_set_end(&s.hosts);
    rota_set_end(&s.host_names);
    rota_saved_kernels_end(&s.kernels);
    rota_saved_buffers_end(&s.buffers);
    rota_saved_graph_end(&s.graph);
    return status;
}
