/* What nodes of a graph file are recorded into and name: its bodies, lanes, buffers and slots, made by the calls that
 * any program makes them by. */
#include "file/format.h"
#include "file/load_records.h"
#include "graph/conditional_internal.h"
#include "ops/fuse.h"

/* At least, in a file: of 3 items and their array's head; of 2; of 4, one of which is the kind's name. */
enum { BODY_BYTES = 4, LANE_BYTES = 3, BUFFER_BYTES = 4 + sizeof "SLOT" };

rota_status rota_load_graph_number(rota_record_loader *l, uint64_t element, uint32_t *out_graph) {
    *out_graph = 0;
    rota_cbor_element(l->reader, element);
    if (rota_cbor_take_null(l->reader)) return ROTA_OK;
    if (l->graph_count == 1) return rota_cbor_refuse(l->reader, "a body, of which the file has none by then");
    ROTA_TRY(rota_cbor_read_u32(l->reader, 0, l->graph_count - 2, out_graph));
    ++*out_graph;
    return ROTA_OK;
}

/* Element `element`: an array of so many, the first of which is a name. */
static rota_status begin_named(rota_record_loader *l, uint64_t element, uint64_t items,
                               const char **out_name) {
    uint64_t count;
    rota_cbor_element(l->reader, element);
    ROTA_TRY(rota_cbor_begin_array(l->reader, items, items, &count));
    rota_cbor_element(l->reader, 0);
    return rota_cbor_read_text(l->reader, &l->file->arena, out_name);
}

rota_status rota_load_bodies(rota_record_loader *l) {
    rota_cbor_reader *reader = l->reader;
    uint64_t count = 0;
    if (l->has_bodies) {
        ROTA_TRY(rota_cbor_want_key(reader, "bodies"));
        ROTA_TRY(rota_cbor_begin_list(reader, BODY_BYTES, ROTA_GRAPH_FILE_BODIES_MAX, &count));
    }
    l->graphs = rota_arena_calloc(&l->file->arena, sizeof *l->graphs * ((size_t)count + 1), 8);
    if (!l->graphs) return rota_cbor_no_memory(l->reader);
    l->graphs[l->graph_count++] = l->file->graph;
    for (uint64_t i = 0; i < count; i++) {
        const char *name;
        uint32_t outer;
        bool fuses;
        ROTA_TRY(begin_named(l, i, 3, &name));
        ROTA_TRY(rota_load_graph_number(l, 1, &outer));
        rota_cbor_element(reader, 2);
        ROTA_TRY(rota_cbor_read_bool(reader, &fuses));
        ROTA_CBOR_TRY(reader, rota_graph_create_body(l->graphs[outer], name, &l->graphs[l->graph_count]));
        l->graph_count++;
        if (fuses) ROTA_CBOR_TRY(reader, rota_graph_fuse(l->graphs[l->graph_count - 1]));
        ROTA_TRY(rota_cbor_end(reader));
    }
    return l->has_bodies ? rota_cbor_end(reader) : ROTA_OK;
}

rota_status rota_load_lanes(rota_record_loader *l) {
    rota_cbor_reader *reader = l->reader;
    uint64_t count, items, key;
    ROTA_TRY(rota_cbor_want_key(reader, "lanes"));
    ROTA_TRY(rota_cbor_begin_list(reader, LANE_BYTES, ROTA_GRAPH_FILE_LANES_MAX, &count));
    l->lanes = rota_arena_calloc(&l->file->arena, sizeof *l->lanes * ((size_t)count + 1), 8);
    l->lane_graphs = rota_arena_calloc(&l->file->arena, sizeof *l->lane_graphs * ((size_t)count + 1), 8);
    if (!l->lanes || !l->lane_graphs) return rota_cbor_no_memory(l->reader);
    for (uint64_t i = 0; i < count; i++) {
        const char *name;
        uint32_t *graph = &l->lane_graphs[i];
        rota_cbor_element(reader, i);
        ROTA_TRY(rota_cbor_begin_array(reader, 2 + l->has_bodies, 2 + l->has_bodies, &items));
        ROTA_TRY(rota_cbor_read_uint_at(reader, 0, UINT64_MAX, &key));
        rota_cbor_element(reader, 1);
        ROTA_TRY(rota_cbor_read_text(reader, &l->file->arena, &name));
        if (l->has_bodies) ROTA_TRY(rota_load_graph_number(l, 2, graph));
        if (i && *graph > graph[-1])
            return rota_cbor_refuse(reader, "a lane of a body behind one of what comes before that body");
        ROTA_CBOR_TRY(reader, rota_recorder_open(l->graphs[*graph], key, name, &l->lanes[i]));
        l->lane_count++;
        ROTA_TRY(rota_cbor_end(reader));
    }
    return rota_cbor_end(reader);
}

static rota_status read_kind(rota_cbor_reader *reader, rota_buffer_kind *out_kind) {
    const char *names[ROTA_BUFFER_KIND_COUNT];
    uint32_t which;
    for (uint32_t i = 0; i < ROTA_BUFFER_KIND_COUNT; i++)
        names[i] = rota_buffer_kind_name((rota_buffer_kind)i);
    ROTA_TRY(rota_cbor_read_name(reader, names, ROTA_BUFFER_KIND_COUNT, &which));
    *out_kind = (rota_buffer_kind)which;
    return ROTA_OK;
}

static rota_status read_buffer(rota_record_loader *l, rota_buffer **out_buffer) {
    rota_cbor_reader *reader = l->reader;
    rota_buffer_kind kind;
    const char *name;
    uint64_t four, size, lane;
    ROTA_TRY(rota_cbor_begin_array(reader, 4, 4, &four));
    rota_cbor_element(reader, 0);
    ROTA_TRY(read_kind(reader, &kind));
    rota_cbor_element(reader, 1);
    ROTA_TRY(rota_cbor_read_text(reader, &l->file->arena, &name));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 2, ROTA_BUFFER_SIZE_MAX, &size));
    ROTA_TRY(rota_cbor_read_uint_at(
        reader, 3, kind == ROTA_BUFFER_PERSISTENT ? 0 : l->lane_count + (l->graph_count - 1), &lane));
    if (kind != ROTA_BUFFER_PERSISTENT && lane && lane <= l->lane_count)
        ROTA_CBOR_TRY(reader, rota_recorder_buffer(l->lanes[lane - 1], kind, name, size, out_buffer));
    else if (kind != ROTA_BUFFER_PERSISTENT)
        ROTA_CBOR_TRY(reader, rota_graph_buffer(l->graphs[lane ? lane - l->lane_count : 0], kind, name, size,
                                                out_buffer));
    else if (l->options->runtime)
        ROTA_CBOR_TRY(reader, rota_buffer_create_in(l->options->runtime, name, size, out_buffer));
    else
        ROTA_CBOR_TRY(reader, rota_buffer_create(name, size, out_buffer));
    if (kind == ROTA_BUFFER_PERSISTENT) l->file->held[l->file->held_count++] = *out_buffer;
    return rota_cbor_end(reader);
}

rota_status rota_load_buffers(rota_record_loader *l) {
    rota_cbor_reader *reader = l->reader;
    rota_graph_file *file = l->file;
    uint64_t count;
    ROTA_TRY(rota_cbor_want_key(reader, "buffers"));
    ROTA_TRY(rota_cbor_begin_list(reader, BUFFER_BYTES, UINT32_MAX, &count));
    file->buffers = rota_arena_calloc(&file->arena, sizeof *file->buffers * ((size_t)count + 1), 8);
    file->held = rota_arena_calloc(&file->arena, sizeof *file->held * ((size_t)count + 1), 8);
    if (!file->buffers || !file->held) return rota_cbor_no_memory(l->reader);
    for (uint64_t i = 0; i < count; i++) {
        rota_cbor_element(reader, i);
        ROTA_TRY(read_buffer(l, &file->buffers[i]));
        file->info.buffer_count++;
    }
    return rota_cbor_end(reader);
}

rota_status rota_load_slots(rota_record_loader *l) {
    rota_cbor_reader *reader = l->reader;
    uint64_t count;
    ROTA_TRY(rota_cbor_want_key(reader, "slots"));
    ROTA_TRY(rota_cbor_begin_list(reader, LANE_BYTES, ROTA_GRAPH_SLOTS_MAX, &count));
    for (uint64_t i = 0; i < count; i++) {
        const char *name;
        uint32_t size;
        rota_slot slot;
        ROTA_TRY(begin_named(l, i, 2, &name));
        ROTA_TRY(rota_cbor_read_u32_at(reader, 1, &size));
        ROTA_CBOR_TRY(reader, rota_graph_slot(l->file->graph, name, size, &slot));
        ROTA_TRY(rota_cbor_end(reader));
    }
    l->file->info.slot_count = (uint32_t)count;
    return rota_cbor_end(reader);
}
