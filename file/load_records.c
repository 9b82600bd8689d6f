/* Nodes of a graph file: recorded by the calls that any program records by, which refuse what makes no graph. */
#include "file/load_records.h"

#include <string.h>
#include "file/format.h"
#include "file/hosts.h"
#include "graph/conditional_internal.h"
#include "graph/counted.h"
#include "graph/record.h"

/* At least, in a file: of 3 numbers and their array's head. */
enum { AFTER_BYTES = 4 };

rota_status rota_load_records_begin(rota_record_loader *l) {
    rota_hosts_begin_by_name(&l->hosts);
    return rota_hosts_add(&l->hosts, l->options->hosts, l->options->host_count)
               ? ROTA_OK
               : rota_cbor_no_memory(l->reader);
}

/* ---- Nodes ---- */

rota_status rota_load_buffer_number(rota_cbor_reader *reader, const rota_graph_file *file,
                                    uint32_t *out_index) {
    if (!file->info.buffer_count) return rota_cbor_refuse(reader, "a buffer, of which the file has none");
    return rota_cbor_read_u32(reader, 0, file->info.buffer_count - 1, out_index);
}

static rota_status read_buffer_at(rota_record_loader *l, uint64_t element, uint32_t *out_index) {
    rota_cbor_element(l->reader, element);
    return rota_load_buffer_number(l->reader, l->file, out_index);
}

/* What is no range of the buffer's is refused by the call that records it. */
static rota_status note_write(rota_record_loader *l, uint32_t index, uint64_t offset, uint64_t size) {
    const rota_buffer_kind kind = rota_buffer_get_kind(l->file->buffers[index]);
    rota_vector *writes = &l->file->writes;
    if (kind != ROTA_BUFFER_PERSISTENT && kind != ROTA_BUFFER_OUTPUT && kind != ROTA_BUFFER_SLOT)
        return ROTA_OK;
    if (!rota_vector_reserve(writes, sizeof(rota_loaded_write), 1)) return rota_cbor_no_memory(l->reader);
    ((rota_loaded_write *)writes->data)[writes->count++] = (rota_loaded_write){index, offset, size};
    return ROTA_OK;
}

static rota_status read_accesses(rota_record_loader *l, rota_access *out_accesses, uint32_t *out_count) {
    rota_cbor_reader *reader = l->reader;
    const char *names[ROTA_ACCESS_MODE_COUNT];
    uint64_t count, four;
    for (uint32_t i = 0; i < ROTA_ACCESS_MODE_COUNT; i++)
        names[i] = rota_access_mode_name((rota_access_mode)i);
    ROTA_TRY(rota_cbor_want_key(reader, "accesses"));
    ROTA_TRY(rota_cbor_begin_array(reader, 0, ROTA_KERNEL_OPERANDS_MAX, &count));
    for (uint32_t i = 0; i < count; i++) {
        rota_access *access = &out_accesses[i];
        uint32_t mode, index;
        rota_cbor_element(reader, i);
        ROTA_TRY(rota_cbor_begin_array(reader, 4, 4, &four));
        ROTA_TRY(read_buffer_at(l, 0, &index));
        access->buffer = l->file->buffers[index];
        rota_cbor_element(reader, 1);
        ROTA_TRY(rota_cbor_read_name(reader, names, ROTA_ACCESS_MODE_COUNT, &mode));
        access->mode = (rota_access_mode)mode;
        ROTA_TRY(rota_cbor_read_uint_at(reader, 2, ROTA_BUFFER_SIZE_MAX, &access->offset_bytes));
        ROTA_TRY(rota_cbor_read_uint_at(reader, 3, ROTA_BUFFER_SIZE_MAX, &access->size_bytes));
        if (access->mode != ROTA_READ)
            ROTA_TRY(note_write(l, index, access->offset_bytes, access->size_bytes));
        ROTA_TRY(rota_cbor_end(reader));
    }
    *out_count = (uint32_t)count;
    return rota_cbor_end(reader);
}

static rota_status read_node_name(rota_record_loader *l, const char **out_name) {
    *out_name = NULL;
    return rota_cbor_take_key(l->reader, "name") ? rota_cbor_read_text(l->reader, l->arena, out_name)
                                                 : ROTA_OK;
}

static rota_status read_bindings(rota_record_loader *l, rota_param_binding *out_bindings,
                                 uint32_t *out_count) {
    rota_cbor_reader *reader = l->reader;
    uint64_t count, two;
    ROTA_TRY(rota_cbor_begin_array(reader, 0, ROTA_KERNEL_BINDABLE_MAX, &count));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t slot;
        rota_cbor_element(reader, i);
        ROTA_TRY(rota_cbor_begin_array(reader, 2, 2, &two));
        ROTA_TRY(rota_cbor_read_u32_at(reader, 0, &out_bindings[i].bindable));
        rota_cbor_element(reader, 1);
        out_bindings[i].slot = ROTA_SLOT_CONSTANT;
        if (!rota_cbor_take_null(reader)) {
            ROTA_TRY(rota_cbor_read_uint(reader, ROTA_GRAPH_SLOTS_MAX - 1, &slot));
            out_bindings[i].slot.index = (uint32_t)slot + 1;
        }
        ROTA_TRY(rota_cbor_end(reader));
    }
    *out_count = (uint32_t)count;
    return rota_cbor_end(reader);
}

/* A number whose successor is kept. */
static rota_status read_plus_1(rota_cbor_reader *reader, const char *key, uint32_t most, uint32_t *out_plus_1,
                               uint32_t *most_so_far) {
    uint32_t value;
    if (!rota_cbor_take_key(reader, key)) return ROTA_OK;
    ROTA_TRY(rota_cbor_read_u32(reader, 0, most - 1, &value));
    *out_plus_1 = value + 1;
    if (*most_so_far < value + 1) *most_so_far = value + 1;
    return ROTA_OK;
}

/* One that rota chooses is none that a plan has to have. */
static rota_status read_device(rota_record_loader *l, uint32_t *out_plus_1) {
    uint32_t most = 0;
    ROTA_TRY(read_plus_1(l->reader, "device", UINT8_MAX, out_plus_1, &most));
    if (*out_plus_1 != ROTA_PLACE_AUTO && l->file->info.device_count < most)
        l->file->info.device_count = most;
    return ROTA_OK;
}

/* Whether the node is counted, and by what; *out_buffer NULL: it is not. */
static rota_status begin_count(rota_record_loader *l, uint64_t items, rota_count *out_count) {
    rota_cbor_reader *reader = l->reader;
    uint32_t index;
    *out_count = ROTA_COUNT(.buffer = NULL);
    if (!l->has_counts || !rota_cbor_take_key(reader, "count")) return ROTA_OK;
    ROTA_TRY(rota_cbor_begin_array(reader, items, items, &items));
    ROTA_TRY(read_buffer_at(l, 0, &index));
    out_count->buffer = l->file->buffers[index];
    ROTA_TRY(rota_cbor_read_uint_at(reader, 1, ROTA_BUFFER_SIZE_MAX, &out_count->offset_bytes));
    return rota_cbor_read_u32_at(reader, 2, &out_count->max);
}

static rota_status read_kernel_count(rota_record_loader *l, rota_count *out_count) {
    rota_cbor_reader *reader = l->reader;
    ROTA_TRY(begin_count(l, 5, out_count));
    if (!out_count->buffer) return ROTA_OK;
    ROTA_TRY(rota_cbor_read_u32_at(reader, 3, &out_count->items_per_group));
    rota_cbor_element(reader, 4);
    if (!rota_cbor_take_null(reader)) {
        ROTA_TRY(rota_cbor_read_u32(reader, 0, ROTA_KERNEL_BINDABLE_MAX - 1, &out_count->bindable_plus_1));
        out_count->bindable_plus_1++;
    }
    return rota_cbor_end(reader);
}

static rota_status read_kernel_node(rota_record_loader *l, rota_recorder *lane) {
    rota_cbor_reader *reader = l->reader;
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    rota_param_binding bindings[ROTA_KERNEL_BINDABLE_MAX];
    uint64_t params[ROTA_KERNEL_PARAM_BYTES_MAX / 8];
    rota_kernel_node node = ROTA_KERNEL_NODE(.accesses = accesses, .bindings = bindings, .params = params);
    rota_count count;
    uint32_t kernel;
    if (!l->kernels.count) return rota_cbor_refuse(reader, "a kernel, of which the file has none");
    ROTA_TRY(rota_cbor_read_u32(reader, 0, l->kernels.count - 1, &kernel));
    node.kernel = l->kernels.list[kernel];
    ROTA_TRY(read_node_name(l, &node.name));
    ROTA_TRY(read_accesses(l, accesses, &node.access_count));
    rota_cbor_bytes given = {0};
    if (rota_cbor_take_key(reader, "parameters")) ROTA_TRY(rota_cbor_read_bytes(reader, &given));
    if (given.size != node.kernel->param_bytes)
        return rota_cbor_refuse(reader, "%zu bytes of parameters, kernel '%s' has %u", given.size,
                                node.kernel->name, node.kernel->param_bytes);
    if (given.size) memcpy(params, given.data, given.size);
    ROTA_CBOR_TRY(reader, rota_kernel_check_divisors(l->kernels.divisors[kernel], node.kernel, params));
    if (rota_cbor_take_key(reader, "bindings")) ROTA_TRY(read_bindings(l, bindings, &node.binding_count));
    if (rota_cbor_take_key(reader, "groups")) ROTA_TRY(rota_cbor_read_u32s(reader, 3, node.groups));
    ROTA_TRY(read_kernel_count(l, &count));
    ROTA_TRY(read_device(l, &node.placement.device_plus_1));
    ROTA_TRY(
        read_plus_1(reader, "queue", UINT16_MAX, &node.placement.queue_plus_1, &l->file->info.queue_count));
    ROTA_CBOR_TRY(reader, count.buffer ? rota_record_counted_kernel(lane, &node, &count, NULL)
                                       : rota_record_kernel(lane, &node, NULL));
    return ROTA_OK;
}

static rota_status read_copy(rota_record_loader *l, rota_recorder *lane) {
    rota_cbor_reader *reader = l->reader;
    uint32_t destination, source;
    uint64_t five, destination_offset, source_offset, size;
    rota_count count;
    ROTA_TRY(rota_cbor_begin_array(reader, 5, 5, &five));
    ROTA_TRY(read_buffer_at(l, 0, &destination));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 1, ROTA_BUFFER_SIZE_MAX, &destination_offset));
    ROTA_TRY(read_buffer_at(l, 2, &source));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 3, ROTA_BUFFER_SIZE_MAX, &source_offset));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 4, ROTA_BUFFER_SIZE_MAX, &size));
    ROTA_TRY(rota_cbor_end(reader));
    ROTA_TRY(begin_count(l, 3, &count));
    if (count.buffer) {
        ROTA_TRY(rota_cbor_end(reader));
        if (size == 0 || size > UINT32_MAX)
            return rota_cbor_refuse(reader, "%llu bytes for each that is counted, expected 1 to %u",
                                    (unsigned long long)size, UINT32_MAX);
        count.unit_bytes = (uint32_t)size;
        ROTA_TRY(note_write(l, destination, destination_offset, size * count.max));
        ROTA_CBOR_TRY(reader,
                      rota_record_counted_copy(lane, l->file->buffers[destination], destination_offset,
                                               l->file->buffers[source], source_offset, &count, NULL));
        return ROTA_OK;
    }
    ROTA_TRY(note_write(l, destination, destination_offset, size));
    ROTA_CBOR_TRY(reader, rota_record_copy(lane, l->file->buffers[destination], destination_offset,
                                           l->file->buffers[source], source_offset, size, NULL));
    return ROTA_OK;
}

static rota_status read_fill(rota_record_loader *l, rota_recorder *lane) {
    rota_cbor_reader *reader = l->reader;
    uint64_t four, offset, size;
    uint32_t destination, pattern;
    const char *name;
    ROTA_TRY(rota_cbor_begin_array(reader, 4, 4, &four));
    ROTA_TRY(read_buffer_at(l, 0, &destination));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 1, ROTA_BUFFER_SIZE_MAX, &offset));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 2, ROTA_BUFFER_SIZE_MAX, &size));
    ROTA_TRY(rota_cbor_read_u32_at(reader, 3, &pattern));
    ROTA_TRY(rota_cbor_end(reader));
    ROTA_TRY(read_node_name(l, &name));
    ROTA_TRY(note_write(l, destination, offset, size));
    ROTA_CBOR_TRY(reader,
                  rota_record_named_fill(lane, name, l->file->buffers[destination], offset, size, pattern));
    return ROTA_OK;
}

static rota_status read_host(rota_record_loader *l, rota_recorder *lane) {
    rota_cbor_reader *reader = l->reader;
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    rota_host_node node = ROTA_HOST_NODE(.accesses = accesses);
    const char *host;
    ROTA_TRY(rota_cbor_read_text(reader, &l->file->arena, &host));
    const rota_graph_file_host *given = rota_hosts_named(&l->hosts, host);
    if (given) {
        node.fn = given->fn;
        node.user = given->user;
    }
    if (!node.fn)
        return rota_cbor_context(reader, rota_fail(ROTA_NOT_FOUND,
                                                   "host function '%s' is not among the %u that were given",
                                                   host, l->options->host_count));
    ROTA_TRY(read_node_name(l, &node.name));
    ROTA_TRY(read_accesses(l, accesses, &node.access_count));
    ROTA_CBOR_TRY(reader, rota_record_host(lane, &node, NULL));
    return ROTA_OK;
}

/* [buffer, offset] of 4 bytes. */
static rota_status read_word(rota_record_loader *l, bool is_written, rota_buffer **out_buffer,
                             uint64_t *out_offset) {
    uint64_t two;
    uint32_t index;
    ROTA_TRY(rota_cbor_begin_array(l->reader, 2, 2, &two));
    ROTA_TRY(read_buffer_at(l, 0, &index));
    ROTA_TRY(rota_cbor_read_uint_at(l->reader, 1, ROTA_BUFFER_SIZE_MAX, out_offset));
    *out_buffer = l->file->buffers[index];
    if (is_written) ROTA_TRY(note_write(l, index, *out_offset, 4));
    return rota_cbor_end(l->reader);
}

static rota_status read_body_numbers(rota_record_loader *l, uint8_t kind,
                                     uint32_t out_numbers[ROTA_SWITCH_BODIES_MAX], uint32_t *out_count) {
    uint64_t count;
    const uint64_t least = kind == ROTA_CONDITIONAL_IF ? 2 : 1;
    ROTA_TRY(rota_cbor_want_key(l->reader, "bodies"));
    ROTA_TRY(rota_cbor_begin_array(l->reader, least,
                                   kind == ROTA_CONDITIONAL_SWITCH ? ROTA_SWITCH_BODIES_MAX : least, &count));
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(rota_load_graph_number(l, i, &out_numbers[i]));
    if (kind != ROTA_CONDITIONAL_SWITCH && !out_numbers[0])
        return rota_cbor_refuse(l->reader, "null, expected a body");
    *out_count = (uint32_t)count;
    return rota_cbor_end(l->reader);
}

/* A node that decides, as it was read. */
typedef struct read_conditional {
    const char *name;
    rota_buffer *condition, *index;
    uint64_t condition_offset, index_offset, iterations_max;
    rota_graph *bodies[ROTA_SWITCH_BODIES_MAX];
    uint32_t body_count;
    rota_placement placement;
} read_conditional;

static rota_status record_conditional(const read_conditional *c, uint8_t kind, rota_recorder *lane) {
    switch ((rota_conditional_kind)kind) {
    case ROTA_CONDITIONAL_IF:
        return rota_record_if(lane,
                              &ROTA_IF_NODE(.name = c->name, .condition = c->condition,
                                            .condition_offset_bytes = c->condition_offset,
                                            .body = c->bodies[0], .otherwise = c->bodies[1],
                                            .placement = c->placement),
                              NULL);
    case ROTA_CONDITIONAL_WHILE:
        return rota_record_while(lane,
                                 &ROTA_WHILE_NODE(.name = c->name, .condition = c->condition,
                                                  .condition_offset_bytes = c->condition_offset,
                                                  .body = c->bodies[0], .iterations_max = c->iterations_max,
                                                  .placement = c->placement),
                                 NULL);
    case ROTA_CONDITIONAL_FOR:
        return rota_record_for(lane,
                               &ROTA_FOR_NODE(.name = c->name, .count = c->condition,
                                              .count_offset_bytes = c->condition_offset, .index = c->index,
                                              .index_offset_bytes = c->index_offset, .body = c->bodies[0],
                                              .iterations_max = c->iterations_max, .placement = c->placement),
                               NULL);
    default:
        return rota_record_switch(lane,
                                  &ROTA_SWITCH_NODE(.name = c->name, .condition = c->condition,
                                                    .condition_offset_bytes = c->condition_offset,
                                                    .bodies = c->bodies, .body_count = c->body_count,
                                                    .placement = c->placement),
                                  NULL);
    }
}

static rota_status read_conditional_node(rota_record_loader *l, uint8_t kind, rota_recorder *lane) {
    rota_cbor_reader *reader = l->reader;
    read_conditional c = {0};
    uint32_t numbers[ROTA_SWITCH_BODIES_MAX];
    ROTA_TRY(read_word(l, false, &c.condition, &c.condition_offset));
    ROTA_TRY(read_node_name(l, &c.name));
    if (kind == ROTA_CONDITIONAL_FOR && rota_cbor_take_key(reader, "index"))
        ROTA_TRY(read_word(l, true, &c.index, &c.index_offset));
    if (rota_conditional_is_loop(kind)) {
        ROTA_TRY(rota_cbor_want_key(reader, "iterations"));
        ROTA_TRY(rota_cbor_read_uint(reader, UINT64_MAX, &c.iterations_max));
    }
    ROTA_TRY(read_body_numbers(l, kind, numbers, &c.body_count));
    for (uint32_t i = 0; i < c.body_count; i++) {
        c.bodies[i] = numbers[i] ? l->graphs[numbers[i]] : NULL;
        if (numbers[i] && !c.bodies[i])
            return rota_cbor_refuse(reader, "body %u, which another node has", numbers[i] - 1);
    }
    ROTA_TRY(read_device(l, &c.placement.device_plus_1));
    ROTA_TRY(read_plus_1(reader, "queue", UINT16_MAX, &c.placement.queue_plus_1, &l->file->info.queue_count));
    ROTA_CBOR_TRY(reader, record_conditional(&c, kind, lane));
    for (uint32_t i = 0; i < c.body_count; i++)
        if (numbers[i]) l->graphs[numbers[i]] = NULL; /* the graph's that the node is in */
    return ROTA_OK;
}

static rota_status read_node(rota_record_loader *l, rota_recorder *lane) {
    rota_cbor_reader *reader = l->reader;
    ROTA_TRY(rota_cbor_begin_map(reader));
    for (uint8_t kind = 0; l->has_bodies && kind < ROTA_CONDITIONAL_KIND_COUNT; kind++)
        if (rota_cbor_take_key(reader, rota_conditional_kind_name(kind))) {
            ROTA_TRY(read_conditional_node(l, kind, lane));
            return rota_cbor_end(reader);
        }
    if (rota_cbor_take_key(reader, "kernel"))
        ROTA_TRY(read_kernel_node(l, lane));
    else if (rota_cbor_take_key(reader, "copy"))
        ROTA_TRY(read_copy(l, lane));
    else if (rota_cbor_take_key(reader, "fill"))
        ROTA_TRY(read_fill(l, lane));
    else if (rota_cbor_take_key(reader, "host"))
        ROTA_TRY(read_host(l, lane));
    else
        return rota_cbor_refuse(reader, "a node that is no kernel, copy, fill or host%s",
                                l->has_bodies ? ", nor decides" : "");
    return rota_cbor_end(reader);
}

/* ---- Edges of rota_node_after ---- */

static rota_status read_afters(rota_record_loader *l, uint32_t lane) {
    rota_cbor_reader *reader = l->reader;
    uint64_t count, three;
    ROTA_TRY(rota_cbor_begin_list(reader, AFTER_BYTES, UINT32_MAX, &count));
    if (!rota_vector_reserve(&l->afters, sizeof(rota_after), count)) return rota_cbor_no_memory(l->reader);
    for (uint64_t i = 0; i < count; i++) {
        rota_after after = {.later.lane = lane};
        rota_cbor_element(reader, i);
        ROTA_TRY(rota_cbor_begin_array(reader, 3, 3, &three));
        ROTA_TRY(rota_cbor_read_u32_at(reader, 0, &after.later.index));
        rota_cbor_element(reader, 1);
        ROTA_TRY(rota_cbor_read_u32(reader, 0, l->lane_count - 1, &after.earlier.lane));
        ROTA_TRY(rota_cbor_read_u32_at(reader, 2, &after.earlier.index));
        ROTA_TRY(rota_cbor_end(reader));
        ((rota_after *)l->afters.data)[l->afters.count++] = after;
    }
    return rota_cbor_end(reader);
}

/* Of a graph all nodes of which are there: the earlier one may be of a lane that the file has later. */
static rota_status record_afters(rota_record_loader *l) {
    for (uint64_t i = 0; i < l->afters.count; i++) {
        rota_after after = ((const rota_after *)l->afters.data)[i];
        rota_recorder *later = l->lanes[after.later.lane], *earlier = l->lanes[after.earlier.lane];
        if (later->graph != earlier->graph)
            return rota_cbor_refuse(
                l->reader, "node %u of lane '%s' is after one of lane '%s', which is of another graph",
                after.later.index, later->name, earlier->name);
        if (after.earlier.index >= earlier->node_count)
            return rota_cbor_refuse(
                l->reader, "node %u of lane '%s' is after node %u of lane '%s', which has %u",
                after.later.index, later->name, after.earlier.index, earlier->name, earlier->node_count);
        after.later.lane = later->lane;
        after.earlier.lane = earlier->lane;
        ROTA_CBOR_TRY(l->reader, rota_node_after(later, after.later, after.earlier));
    }
    l->afters.count = 0;
    return ROTA_OK;
}

/* Of the graph whose last lane this is: nodes of the graphs around it may take it then. */
static rota_status end_graph(rota_record_loader *l, uint32_t last) {
    ROTA_TRY(record_afters(l));
    for (uint32_t lane = last + 1; lane-- > 0 && l->lane_graphs[lane] == l->lane_graphs[last];)
        rota_recorder_close(l->lanes[lane]);
    return ROTA_OK;
}

static rota_status check_bodies(const rota_record_loader *l) {
    for (uint32_t i = 1; i < l->graph_count; i++)
        if (l->graphs[i])
            return rota_cbor_refuse(l->reader, "body %u '%s' is none of any node's", i - 1,
                                    l->graphs[i]->name);
    return ROTA_OK;
}

rota_status rota_load_records(rota_record_loader *l) {
    rota_cbor_reader *reader = l->reader;
    uint64_t lanes, nodes;
    ROTA_TRY(rota_cbor_want_key(reader, "records"));
    ROTA_TRY(rota_cbor_begin_array(reader, l->lane_count, l->lane_count, &lanes));
    for (uint32_t lane = 0; lane < lanes; lane++) {
        rota_cbor_element(reader, lane);
        ROTA_TRY(rota_cbor_begin_map(reader));
        ROTA_TRY(rota_cbor_want_key(reader, "nodes"));
        ROTA_TRY(rota_cbor_begin_array(reader, 0, UINT32_MAX, &nodes));
        for (uint64_t i = 0; i < nodes; i++) {
            rota_cbor_element(reader, i);
            ROTA_TRY(read_node(l, l->lanes[lane]));
        }
        ROTA_TRY(rota_cbor_end(reader));
        if (!l->lane_graphs[lane]) l->file->info.node_count += nodes;
        if (rota_cbor_take_key(reader, "after")) ROTA_TRY(read_afters(l, lane));
        ROTA_TRY(rota_cbor_end(reader));
        if (lane + 1 == lanes || l->lane_graphs[lane + 1] != l->lane_graphs[lane])
            ROTA_TRY(end_graph(l, lane));
    }
    ROTA_TRY(check_bodies(l));
    return rota_cbor_end(reader);
}

void rota_load_records_end(rota_record_loader *l) {
    for (uint32_t i = 0; i < l->lane_count; i++) rota_recorder_close(l->lanes[i]);
    for (uint32_t i = l->graph_count; i-- > 1;) rota_graph_release(l->graphs[i]);
    rota_set_end(&l->hosts);
    rota_vector_free(&l->afters);
}
