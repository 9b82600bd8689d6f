/* Lanes, buffers, slots (load_lists.c) and nodes of a graph file, recorded into a graph. Internal; not installed. */
#ifndef ROTA_FILE_LOAD_RECORDS_H
#define ROTA_FILE_LOAD_RECORDS_H

#include "base/set.h"
#include "base/vector.h"
#include "file/cbor_read.h"
#include "file/load_kernels.h"
#include "file/loaded.h"

typedef struct rota_record_loader {
    rota_cbor_reader *reader;
    rota_arena *arena; /* lives as long as the graph */
    const rota_graph_load_options *options;
    rota_graph_file *file; /* whose graph is recorded into, and which gets buffers and counts */
    rota_loaded_kernels kernels;
    bool has_bodies, has_counts; /* the version of the format says so */
    rota_graph **graphs; /* the file's, then its bodies, which are the loader's until a node takes one */
    uint32_t graph_count;
    rota_recorder **lanes; /* open until all of their graph is read */
    uint32_t *lane_graphs; /* whose they are: index in `graphs` */
    uint32_t lane_count;
    rota_set hosts;     /* the options', by name */
    rota_vector afters; /* of rota_after, whose lanes are counted from 0 */
} rota_record_loader;

/* Before what follows. OUT_OF_MEMORY. */
rota_status rota_load_records_begin(rota_record_loader *loader);

/* Each reads one key of the file's map: "bodies" (none where the version has none), "lanes", "buffers", "slots",
 * "records". Errors as of rota_graph_load. */
rota_status rota_load_bodies(rota_record_loader *loader);
rota_status rota_load_lanes(rota_record_loader *loader);
rota_status rota_load_buffers(rota_record_loader *loader);
rota_status rota_load_slots(rota_record_loader *loader);
rota_status rota_load_records(rota_record_loader *loader);

/* Element `element`: whose something is, as an index in `graphs`, of those that there are by now: null for the file's
 * graph, else a body's number. */
rota_status rota_load_graph_number(rota_record_loader *loader, uint64_t element, uint32_t *out_graph);

/* Closes the lanes, and frees what the loader has, bodies that no node has taken included; also after an error, but of
 * what was begun. */
void rota_load_records_end(rota_record_loader *loader);

/* A buffer by its number in the file, which is read. */
rota_status rota_load_buffer_number(rota_cbor_reader *reader, const rota_graph_file *file,
                                    uint32_t *out_index);

#endif
