/* Counted nodes: kernels and copies whose size is a value that an earlier node wrote.
 *
 *     rota_record_kernel(recorder, find, NULL);                           writes indices, and how many there are
 *     rota_record_counted_kernel(recorder, &use, &ROTA_COUNT(.buffer = found, .max = 1000), NULL);
 *
 * The value is 4 bytes, unsigned, and read when the node's turn comes: an access of the node, a READ like any, so that
 * the node waits for who wrote it and who overwrites it waits for the node. What memory, hazards and other nodes know
 * of the node is its declared maximum: its accesses name the ranges that it touches at most.
 *
 * A value of 0 runs nothing. One above the maximum fails the node (NODE_FAILED), with a sentence that names node, value
 * and maximum, before anything of it has run.
 *
 * Bytes that the node then doesn't write keep what they had. So its WRITEs are recorded as READWRITEs, as those of a
 * body are (conditional.h): a transient that only such a node writes is not written for who reads it later
 * (UNDEFINED_DATA), so fill it before. The result is, bit for bit, that of running the nodes one at a time in record
 * order (P8).
 *
 * Such nodes run on every executor, in bodies, too. On Vulkan devices the size is that of an indirect dispatch; on CUDA
 * devices the grid is that of the most there may be, and the kernel leaves out what is beyond. On both nothing goes to
 * the host between who writes the count and who uses it, and a node whose count is too high fails with all that its
 * segment of the plan writes: what the queue was given at once. */
#ifndef ROTA_GRAPH_COUNTED_H
#define ROTA_GRAPH_COUNTED_H

#include "graph.h"

/* A count, and what it counts. */
typedef struct rota_count {
    size_t struct_size;    /* sizeof, by ROTA_COUNT() */
    rota_buffer *buffer;   /* borrowed during the call; 4 bytes are read, at a multiple of 4 */
    uint64_t offset_bytes; /* of the value, in `buffer` */
    uint32_t max;          /* 1 or more: the highest value that the node runs with */
    /* Of a copy: the bytes of one of what is counted; 0 is 1. The copy is of that many for each. */
    uint32_t unit_bytes;
    /* Of a kernel that runs on a GPU: how many items one workgroup runs; 0 is 1. So many groups are run, along x, as
     * the count needs, or as the most does (CUDA: in whole clusters); along y and z as many as the kernel's grid
     * function says for the most, else 1. */
    uint32_t items_per_group;
    /* Of a kernel: 1 + the place in its bindables of the 4-byte parameter that gets the count, whatever is recorded for
     * it; 0: none does. What asks for items or groups before the count is known is given `max` in its place. */
    uint32_t bindable_plus_1;
} rota_count;
#define ROTA_COUNT(...) ROTA_SIZED(rota_count, __VA_ARGS__)

/* As rota_record_kernel, of a kernel that runs as many items as the count says, in the place of those that it says
 * itself (rota_kernel_cpu.items): the first ones, and its function gets their number as `items`. A kernel that says how
 * many it has has at least `max`: compile refuses another (OUT_OF_RANGE); where any of its parameters is in a slot the
 * node fails as it runs, on the CPU executor. One that doesn't has as many as are counted, which the executor splits as
 * it likes. The function does not get the count's address; a kernel that wants it names it as an operand as well.
 *
 * Groups of a GPU's kernel are a count rounded up, or more: on CUDA devices those of `max`, whatever the count, 0 among
 * it. So such a kernel has a parameter for the exact number, as one that may be bound to a slot, and whatever is beyond
 * it writes nothing:
 *
 *     ROTA_KERNEL_BEGIN(2)
 *         uint count;                                         bindable 0
 *     ROTA_KERNEL_END
 *     void main() {
 *         uint i = rota_index();
 *         if (i >= rota_param_u32(0, pc.count)) return;
 *
 * with ROTA_COUNT(..., .items_per_group = 64, .bindable_plus_1 = 1) where local_size_x is 64; in CUDA C likewise, by
 * `rota_param_u32(args, 0, args.params.count)`. On a GPU rota_compile refuses a count without one, more groups for the
 * maximum than the device has (UNSUPPORTED, each naming node and kernel), and a kernel that may be another one there
 * (rota_kernel.vk.select, .cuda.select); on a Vulkan device one that has CUDA images alone, on a CUDA device one that
 * is a function (rota_kernel.cuda.call).
 *
 * Further errors, each naming the node: INVALID_ARGUMENT (no buffer, a maximum of 0, unit_bytes or groups given, a
 * parameter that the kernel has not, that is no u32, or that is bound to a slot as well; a kernel of more than 23
 * operands, of which the count takes one's place), OUT_OF_RANGE (outside of its buffer), MISALIGNED, OVERLAP (with
 * what the node writes), UNSUPPORTED (a kernel that is several on some devices, rota_kernel_functions.parts). What a
 * rewrite hook sees of the node is its accesses, as of a host node's. */
ROTA_API rota_status rota_record_counted_kernel(rota_recorder *recorder, const rota_kernel_node *node,
                                                const rota_count *count, rota_node *out_node);

/* As rota_record_copy, of the first count * unit_bytes bytes; both ranges are of max * unit_bytes. Errors as of
 * rota_record_copy, and as above. */
ROTA_API rota_status rota_record_counted_copy(rota_recorder *recorder, rota_buffer *destination,
                                              uint64_t destination_offset_bytes, rota_buffer *source,
                                              uint64_t source_offset_bytes, const rota_count *count,
                                              rota_node *out_node);

#endif
