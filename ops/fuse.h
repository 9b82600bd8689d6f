/* Fusion: chains of elementwise nodes become one node each, whose intermediate values are never written. */
#ifndef ROTA_OPS_FUSE_H
#define ROTA_OPS_FUSE_H

#include "../graph/graph.h"

/* Has every compile of the graph fuse its elementwise nodes, by a rewrite hook (sched/rewrite.h): groups of the
 * kernels unary, unary_backward, binary, where, cast, dropout, and of copy_strided that adds to a contiguous
 * tensor, of the same number of elements, where each reads what one of the group reads or writes. Operands may
 * repeat along leading or trailing dimensions (a bias, a column, a number). A group becomes a node of a kernel
 * made for it, at the place of its last node; what later nodes read of its results stays written, the rest is
 * not. Nodes that rota_node_after names, and what other nodes touch in between, end a group.
 *
 * Before that, a plain copy of a whole transient buffer goes where nobody reads the original after the copy is
 * written again; and on CUDA devices a cross entropy of 16-bit scores and its gradient in their place are one
 * node, where the gradient is of the loss itself: its sums have another order than those of the two nodes.
 * Where such scores take more than 1 GiB, come from a product and go into nothing but their loss and the two
 * products of the gradient, those are of that node, too, and it has the scores of some rows at a time, of at
 * most 304 MiB; the weights' gradient is added up in f32 over the pieces. Under a memory limit that is missed even
 * with nodes computed again, scores of more than an eighth of it are made so, in pieces of a thirty-second.
 *
 * Results are those of the nodes one by one, bit for bit on the CPU; on GPUs too wherever the compiler that
 * makes the kernel at run time takes the same instructions for a function as the one that built rota did, and
 * else to that function's rounding. On CUDA devices the kernels are compiled by NVRTC, once for each form of
 * group and kind of device, and kept in the cache folder; without NVRTC nothing is fused there, which
 * rota_plan_explain says. On Vulkan devices each form of group is a pipeline of one shader. What was fused is
 * in rota_plan_stats.merged.
 *
 * Any thread; before the graph is compiled. WRONG_STATE: it is. OUT_OF_MEMORY. Compiling takes time linear in
 * nodes and accesses for it. */
ROTA_API rota_status rota_graph_fuse(rota_graph *graph);

#endif
