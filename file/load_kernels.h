/* The kernels of a graph file. Internal; not installed. */
#ifndef ROTA_FILE_LOAD_KERNELS_H
#define ROTA_FILE_LOAD_KERNELS_H

#include "file/cbor_read.h"
#include "file/graph_file.h"
#include "ops/kernel_divisors.h"

typedef struct rota_loaded_kernels {
    const rota_kernel **list;
    const rota_kernel_divisors **divisors; /* of built-in ones, else NULL */
    uint32_t count, given_count;           /* given_count: of the options' */
    uint8_t **images;                      /* each aligned to 16 bytes, with a zero byte behind it */
    size_t *image_bytes;
    uint64_t image_count;
} rota_loaded_kernels;

/* Reads the keys "images" and "kernels" of the file's map. Kernels lie in `arena`, which lives as long as the graph,
 * lists in `scratch`. Errors as of rota_graph_load. */
rota_status rota_load_kernels(rota_cbor_reader *reader, rota_arena *arena, rota_arena *scratch,
                              const rota_graph_load_options *options, uint32_t edition, const char *writer,
                              rota_loaded_kernels *out_kernels);

#endif
