/* A loaded graph file. Internal; not installed. */
#ifndef ROTA_FILE_LOADED_H
#define ROTA_FILE_LOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/vector.h"
#include "file/graph_file.h"
#include "sched/opened.h"

/* Bytes [offset, offset + size) of a buffer. */
typedef struct rota_loaded_piece {
    rota_buffer *buffer;
    uint32_t index; /* of the buffer in the file */
    uint64_t offset_bytes, size_bytes;
    const uint8_t *data; /* in the file's bytes; NULL: zeros */
    float tolerance;
} rota_loaded_piece;

typedef struct rota_loaded_argument {
    rota_buffer *slot_buffer; /* NULL: a value */
    uint32_t slot_index;      /* of slot_buffer in the file */
    rota_loaded_piece bound;  /* without data */
    rota_slot slot;
    uint64_t value;
} rota_loaded_argument;

/* What a node writes of a PERSISTENT, OUTPUT or SLOT buffer. */
typedef struct rota_loaded_write {
    uint32_t index; /* of the buffer in the file */
    uint64_t offset_bytes, size_bytes;
} rota_loaded_write;

struct rota_graph_file {
    rota_graph *graph;
    rota_opened opened; /* the runtime that it was loaded with; of none NULL */
    uint8_t *bytes;     /* of the file, from malloc */
    size_t size_bytes;
    rota_arena arena; /* of what is here */
    /* Those of a body live as long as that does, which nobody has where a load failed. */
    rota_buffer **buffers;
    rota_buffer **held; /* the PERSISTENT ones of them, each with a reference */
    uint32_t held_count;
    rota_graph_file_info info;
    rota_loaded_piece *first, *results;
    rota_loaded_argument *arguments;
    uint32_t argument_count;
    rota_vector writes; /* of rota_loaded_write */
    size_t results_at;  /* where the value of "results" begins in the file's bytes */
    /* From rota_graph_file_prepare; by buffer, NULL where it needs none. */
    void **host; /* of INPUT and OUTPUT ones, from malloc; an INPUT whose bytes are the file's has none */
    rota_buffer **bound; /* of SLOT ones: a PERSISTENT one, or a view, with a reference */
    bool is_prepared;
};

/* OUT_OF_MEMORY, of `bytes` that there are not. */
rota_status rota_loaded_no_memory(const rota_graph_file *file, uint64_t bytes);
/* WRONG_STATE before rota_graph_file_prepare, or after its runtime was closed. */
rota_status rota_loaded_check_prepared(const rota_graph_file *file);
/* What replays made of the OUTPUT buffer of that index. WRONG_STATE: it was prepared without arguments. */
rota_status rota_loaded_output(const rota_graph_file *file, uint32_t index, const uint8_t **out_memory);

#endif
