/* Graphs in files: what was recorded, with its kernels, and, where it is asked for, what its buffers hold and what a
 * replay gives. So a benchmark, or a report of what went wrong, is one file, which runs on any device.
 *
 * What a file has: the graph's buffers, slots, lanes with their order keys, nodes with accesses, parameters,
 * bindings and placements, the edges of rota_node_after, and whether rota_graph_fuse was called. Nodes that decide
 * (graph/conditional.h) are in it with their bodies; such a file is of format 2, one with counted nodes
 * (graph/counted.h) of format 3, others of format 1, which earlier editions of the library read. Of kernels:
 *
 * - a built-in one: its name, found again by rota_kernel_find, and the edition of the built-in kernels;
 *
 * - any other: its SPIR-V and its CUDA image, with the grid, the specialization constants and the turns of loops that
 *   its functions gave for each node. Other functions are none of a file: C functions (`cpu`), and of its GPU parts
 *   those that choose by device (select, select_image, parts, launch, prepare, call). Who loads the file may give
 *   such a kernel by its name (rota_graph_load_options.kernels), and it is then taken whole; without, the loaded
 *   kernel has what the file has: it runs on fewer devices, which rota_compile says.
 *
 * A rota that was built without libcbor has no graph files: rota_graph_save and rota_graph_load are UNSUPPORTED, and
 * their sentence says what is missing.
 *
 * The format is CBOR (RFC 8949), described in docs/reference/graph_files.md. Loading is safe whatever the file, and so
 * is compiling for no device and for the CPU. Run only files that you trust: their kernels are programs, their images
 * go to a GPU's driver when a plan is compiled for it, and kernels believe their parameters. */
#ifndef ROTA_FILE_GRAPH_FILE_H
#define ROTA_FILE_GRAPH_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include "../base/sized.h"
#include "../graph/graph.h"
#include "../sched/runtime.h"
#include "../sched/submit.h"

/* Versions of what files are made of: of the format, and of what the built-in kernels' parameters mean. Files of an
 * earlier format are read; built-in kernels of another edition are refused. */
#define ROTA_GRAPH_FILE_VERSION 3
#define ROTA_GRAPH_FILE_EDITION 1

/* A host function by a name, which a file has in its place. */
typedef struct rota_graph_file_host {
    const char *name; /* differs from the others' */
    rota_host_fn fn;
    void *user;
} rota_graph_file_host;

/* Bytes of a buffer. */
typedef struct rota_graph_file_bytes {
    rota_buffer *buffer; /* the graph's, or PERSISTENT; of a view: its part */
    const void *data;    /* as many bytes as `buffer` has; NULL of an INPUT or PERSISTENT one: zeros */
    /* Of a result: 0: the same bytes; else they are f32, and each differs by at most `tolerance` times the larger of 1
     * and its size (NaN equals NaN). Else 0. */
    float tolerance;
} rota_graph_file_bytes;

/* What a SLOT buffer or a value's slot is in the replays that a file describes. */
typedef struct rota_graph_file_argument {
    rota_buffer
        *slot_buffer; /* SLOT, to which `bound`, a PERSISTENT one or a view, is bound; NULL: a value */
    rota_buffer *bound;
    rota_slot slot;
    uint64_t value; /* its bits, the lower 4 bytes of a slot of 4 */
} rota_graph_file_argument;

typedef struct rota_graph_save_options {
    size_t struct_size; /* sizeof, by ROTA_GRAPH_SAVE_OPTIONS() */
    const rota_graph_file_host *hosts;
    uint32_t host_count;
    uint32_t first_count, argument_count, result_count;
    /* What buffers hold before the replays: INPUT and PERSISTENT ones. */
    const rota_graph_file_bytes *first;
    const rota_graph_file_argument *arguments;
    /* What OUTPUT and PERSISTENT buffers hold after `replays` replays. */
    const rota_graph_file_bytes *results;
    uint32_t replays; /* 0: 1 */
    /* The bytes that PERSISTENT buffers of a runtime hold now, read as rota_buffer_read does, one buffer at a time in
     * memory of its size. Those of which a part was never written are left out, and so are those that stand in
     * `first`. */
    bool contents;
    bool
        name_hosts; /* host functions that have no name in `hosts` are called "host 1", "host 2", as nodes have them */
} rota_graph_save_options;
#define ROTA_GRAPH_SAVE_OPTIONS(...) ROTA_SIZED(rota_graph_save_options, __VA_ARGS__)

/* Writes a graph, whose recorders are closed, to a file, which appears whole or not at all (a device or pipe is
 * written directly). The graph stays as it is, and may be compiled already. `options` may be NULL; all of it is
 * borrowed during the call. Any thread; calls functions of the graph's kernels. May block in malloc, in a driver (with
 * `contents`) and on the disk. O(nodes + accesses + bytes).
 *
 * WRONG_STATE: a recorder is open; OUT_OF_RANGE: more than 2^20 bodies; UNSUPPORTED: a rewrite hook other than
 * rota_graph_fuse's, a host function that has no name in `hosts`, or a host node that ends later, as collectives do;
 * INVALID_ARGUMENT: `graph` is a body, or `first`, `arguments` or `results` name a buffer that is of another graph or
 * of a kind that has none, or a slot that there is not; SYSTEM names the file and the reason; OUT_OF_MEMORY; with
 * `contents`, errors of rota_buffer_read. */
ROTA_API rota_status rota_graph_save(rota_graph *graph, const rota_graph_save_options *options,
                                     const char *path);

/* rota_runtime_options.compiled, which saves each graph of a program when it is compiled: to a file of its own in a
 * folder, "NAME-PROCESS-NUMBER.rota" by the graph's name and the process's id; the second with the bytes that
 * PERSISTENT buffers hold by then. `user` is the folder's path, a text, which lives as long as the runtime; a folder
 * that is not there is made, for the user alone. Host functions are named as by rota_graph_save_options.name_hosts. Any
 * thread, and so on as of rota_graph_save, whose errors rota_compile gives. */
ROTA_API rota_status rota_capture(void *user, rota_graph *graph, rota_plan *plan);
ROTA_API rota_status rota_capture_contents(void *user, rota_graph *graph, rota_plan *plan);

typedef struct rota_graph_load_options {
    size_t struct_size; /* sizeof, by ROTA_GRAPH_LOAD_OPTIONS() */
    rota_runtime
        *runtime; /* whose PERSISTENT buffers are made; NULL: the graph can only be compiled for no device */
    uint32_t kernel_count, host_count;
    /* Kernels that are not built in: one that has the name, operands, parameters, flags and bindables of a kernel in
     * the file is taken for it; of several the one whose images are those in the file. The array is borrowed during
     * the call, each kernel for the life of graph and plans. */
    const rota_kernel *const *kernels;
    const rota_graph_file_host *hosts; /* borrowed during the call, `user` for the life of graph and plans */
    uint64_t limit_bytes;              /* larger files are refused; 0: 4 GiB */
} rota_graph_load_options;
#define ROTA_GRAPH_LOAD_OPTIONS(...) ROTA_SIZED(rota_graph_load_options, __VA_ARGS__)

/* A loaded file: its graph, and what it says of replays. Its functions take one thread at a time, but those that only
 * look. */
typedef struct rota_graph_file rota_graph_file;

/* Reads a file. The caller owns what it gives, and ends it by rota_graph_file_release; the graph may live longer.
 * `options` may be NULL. Errors name the file, the byte and the place in it ("records[0].nodes[17].accesses[2]"), what
 * was there and what was expected; nothing is left then.
 *
 * WRONG_STATE: the runtime is not open; SYSTEM: it can't be read; INVALID_ARGUMENT: it is no graph file, or damaged;
 * UNSUPPORTED: a later version, another edition, or a built-in kernel that takes something else here; NOT_FOUND: a
 * kernel or host function that is neither in the file nor given; OUT_OF_RANGE: larger than the limit; errors of
 * recording (graph.h); OUT_OF_MEMORY. Any thread; may block in malloc and on the disk. Takes memory of the file's size
 * and in proportion to it. O(bytes + kernels in it * kernels given). */
ROTA_API rota_status rota_graph_load(const char *path, const rota_graph_load_options *options,
                                     rota_graph_file **out_file);

/* Ends it; a graph that was retained, and its plans, stay. NULL is ignored. Any thread. May block in malloc. */
ROTA_API void rota_graph_file_release(rota_graph_file *file);

/* The graph; lives as long as the file does, or as who retains it. Wait-free. */
ROTA_API rota_graph *rota_graph_file_graph(const rota_graph_file *file);

typedef struct rota_graph_file_info {
    size_t struct_size; /* sizeof, by ROTA_GRAPH_FILE_INFO() */
    const char *name,
        *writer; /* the graph's; the version of rota that wrote it ("0.2.0"). Live as long as the file */
    uint64_t node_count; /* without those of bodies */
    uint32_t buffer_count, slot_count;
    /* As many devices and queues as placements of nodes name, at least 1: what to compile it for. ROTA_PLACE_AUTO,
     * which a file has as device 254, names none. */
    uint32_t device_count, queue_count;
    uint32_t replays;                          /* that the results are of, at least 1 */
    uint32_t first_count, result_count;        /* pieces of buffers that it has the bytes of */
    uint32_t kernel_count, given_kernel_count; /* kernels; those of rota_graph_load_options.kernels */
} rota_graph_file_info;
#define ROTA_GRAPH_FILE_INFO(...) ROTA_SIZED(rota_graph_file_info, __VA_ARGS__)

/* What is in it. INVALID_ARGUMENT: out_info->struct_size (base/sized.h). Wait-free. */
ROTA_API rota_status rota_graph_file_get_info(const rota_graph_file *file, rota_graph_file_info *out_info);

/* Buffer `index`, below buffer_count, in the order of the file; NULL past the last. Of the file's: retain what is to
 * live longer. Wait-free. */
ROTA_API rota_buffer *rota_graph_file_buffer(const rota_graph_file *file, uint32_t index);

/* The first buffer, or the slot, of a name. NOT_FOUND names it. Linear in buffers, or slots. */
ROTA_API rota_status rota_graph_file_find_buffer(const rota_graph_file *file, const char *name,
                                                 rota_buffer **out_buffer);
ROTA_API rota_status rota_graph_file_find_slot(const rota_graph_file *file, const char *name,
                                               rota_slot *out_slot);

/* ---- Replays: with the runtime that it was loaded with, else WRONG_STATE, also once that is closed ---- */

/* Makes ready for the replays that the file describes: writes to PERSISTENT buffers what they hold first, or zeros,
 * on `device` (NULL: as of rota_buffer_write), and sets in `args`, of a plan of the graph, all INPUT buffers,
 * OUTPUT buffers (to memory of the file's), SLOT buffers and slots: to what the file says, else to zeros, and to a
 * buffer of zeros. `args` may be NULL where the graph has none of those. What it lends is lent until the file is
 * released. WRONG_STATE: loaded without a runtime; OUT_OF_MEMORY; errors of rota_buffer_write and of rota_args_set_...
 * May block in malloc and the driver. O(bytes of all buffers but transient ones). */
ROTA_API rota_status rota_graph_file_prepare(rota_graph_file *file, rota_device *device, rota_args *args);

/* After the replays, which are complete: compares what they made with the file's results. ROTA_OK: all of it is as it
 * should be, and NOT_FOUND: the file has no results. INTERNAL names the first difference: buffer, byte, what is there
 * and what was expected. WRONG_STATE: not prepared. Errors of rota_buffer_read. May block in malloc and the driver.
 * O(bytes of results). */
ROTA_API rota_status rota_graph_file_check(rota_graph_file *file);

/* After the replays, which are complete: writes the file again, to `path`, with what they made as its results: the
 * bytes that nodes write of OUTPUT and PERSISTENT buffers, and through SLOT ones that the file binds. With what one
 * device makes another is then compared. `tolerance` as of rota_graph_file_bytes, of pieces in words of 4 bytes;
 * else 0. WRONG_STATE: not prepared, or without the arguments that it needs; INVALID_ARGUMENT: a negative
 * tolerance, or NaN; SYSTEM names the file and the reason; OUT_OF_MEMORY; errors of rota_buffer_read. May block in
 * malloc, the driver and on the disk. O(accesses log accesses + bytes). */
ROTA_API rota_status rota_graph_file_save_results(rota_graph_file *file, float tolerance, const char *path);

#endif
