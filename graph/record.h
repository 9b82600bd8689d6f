/* Recording as the library's own parts do it. Internal; not installed. */
#ifndef ROTA_GRAPH_RECORD_H
#define ROTA_GRAPH_RECORD_H

#include <stddef.h>
#include "graph/graph_internal.h"

/* How a sentence begins that is about the node which `lane` is about to get. */
#define ROTA_NODE_TEXT "node '%s' (lane '%s', node %u): "
#define ROTA_NODE_ARGUMENTS(lane, node_name) (node_name), (lane)->name, (lane)->node_count

/* The name to show for a node; never NULL. */
const char *rota_node_record_name(const rota_node_record *node);

/* As rota_record_fill, with a name, which is borrowed for the life of graph and plans; NULL: "fill". */
rota_status rota_record_named_fill(rota_recorder *recorder, const char *name, rota_buffer *destination,
                                   uint64_t offset_bytes, uint64_t size_bytes, uint32_t pattern);

/* The node at lane->next: header and accesses, which are copied. What the header says it has room for behind
 * those is the caller's to write afterwards, as are a kernel's checks before. Accesses of ROTA_NODE_CONDITIONAL don't
 * overlap. */
rota_status rota_record_plain(rota_recorder *recorder, const rota_node_record *header,
                              const rota_access *accesses, rota_node *out_node);

/* The checks of rota_record_kernel but for those of accesses. */
rota_status rota_record_check_kernel(const rota_recorder *recorder, const rota_kernel_node *node);

/* 4 bytes at `offset_bytes` of a buffer, the node's `what` ("count"). OUT_OF_RANGE, MISALIGNED. */
rota_status rota_record_check_word(const rota_recorder *recorder, const char *name, const char *what,
                                   const rota_buffer *buffer, uint64_t offset_bytes);

/* UNSUPPORTED in the body of a node that decides: a host node of that name would end later than its function. */
rota_status rota_record_may_end_later(const rota_recorder *recorder, const char *name);

/* As rota_record_host, of a node that has 2 or 3 accesses, and no function in the node. Borrowed for the life of graph
 * and plans. */
rota_status rota_record_host_on_device(rota_recorder *recorder, const rota_host_node *node,
                                       const rota_host_on_device *on_device);

/* Builds a kernel node's record in memory of the caller (size from rota_kernel_record_bytes), after the same
 * checks as rota_record_kernel; for rewriting. `arena`: for what it refers to. */
size_t rota_kernel_record_bytes(const rota_kernel_node *node);
rota_status rota_kernel_record_build(rota_graph *graph, const rota_kernel_node *node, rota_arena *arena,
                                     rota_node_record *out_record);

#endif
