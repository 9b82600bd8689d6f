/* What a graph file begins with, and what it may have. docs/reference/graph_files.md has the whole of it. Internal; not
 * installed. */
#ifndef ROTA_FILE_FORMAT_H
#define ROTA_FILE_FORMAT_H

#include <stdint.h>

#define ROTA_GRAPH_FILE_TAG 55799u /* of CBOR that describes itself: the bytes d9 d9 f7 */
#define ROTA_GRAPH_FILE_FORMAT "rota graph"

/* The first versions of the format that have bodies, and counted nodes, too; files with neither are of the first. */
#define ROTA_GRAPH_FILE_VERSION_BODIES 2
#define ROTA_GRAPH_FILE_VERSION_COUNTS 3

/* Beyond what the calls that record a graph refuse. */
#define ROTA_GRAPH_FILE_LIMIT_BYTES (UINT64_C(4) << 30)
#define ROTA_GRAPH_FILE_BODIES_MAX (UINT64_C(1) << 20)
#define ROTA_GRAPH_FILE_LANES_MAX (UINT64_C(1) << 20)
#define ROTA_GRAPH_FILE_KERNELS_MAX (UINT64_C(1) << 24)
#define ROTA_GRAPH_FILE_REPLAYS_MAX 1000000u
#define ROTA_GRAPH_FILE_FEATURES_MAX UINT32_MAX

#endif
