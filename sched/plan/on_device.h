/* Host nodes of what a device may do as well (rota_host_on_device): what they become there. Internal.
 *
 * Three records take the node's turn, and later steps know nothing of it. A kernel on the device has the operands as
 * the node has them and writes where they are; the host node reads that, begins what the device's library is to do, and
 * ends when that has ended; a kernel of no work has the operands as the node has them, and reads a word that the host
 * node writes. So the bytes stay on the device; all that the node depends on is complete there before the host node
 * begins, since that waits for the first kernel; all that depends on the node waits for the last one, and is left out
 * where the host node failed, since the last one reads what failed; and until then the memory of the operands is the
 * node's, since both kernels have it.
 *
 * The first kernel is on the node's queue, behind what made the operands. The other two, with the copies of the words
 * that they read, are on a queue beyond those of nodes (the end queue), since a queue is in order: on the node's own
 * whatever is recorded later, on the device or the host, would wait for the end, though it does not depend on it. So
 * that nothing else puts it behind the end, what the host and the device tell one another by shares its memory with
 * nothing: where the next tenant of those bytes were of a node on the compute queue, that would come after.
 *
 * All such host nodes of a plan write one buffer (their turn), so that each begins when the one recorded before it has
 * ended, as those of one communicator do in any case. That is needed where communicators are several: kernels of two,
 * which the ranks' devices are given in two orders, may wait for each other, where streams share a channel to the
 * device. What is overwritten there does not hand a failure on. Those that the host carries out in such a plan, by
 * messages, take their turn there, too: on one rank a node may come after another by its data alone, as one that a
 * rank only sends for, and in a queue of the host's, in order, it would stand behind one that the other rank comes to
 * later.
 *
 * A plan without such nodes has no end queue, and costs what it cost. One with them is on side queues in any case
 * (order/side_queues.c), so the end queue's number is only ever that of a row there. */
#ifndef ROTA_SCHED_PLAN_ON_DEVICE_H
#define ROTA_SCHED_PLAN_ON_DEVICE_H

#include "sched/plan/compiler.h"

enum { ROTA_ON_DEVICE_RECORDS = 3, ROTA_ON_DEVICE_HOST = 1, ROTA_ON_DEVICE_END = 2 };

/* Whether the node is to be on the plan's first device, which is partition 0. */
bool rota_compile_is_on_device(const rota_compiler *compiler, const rota_node_record *record);
/* The three records, in order, in the plan's memory; the one of index ROTA_ON_DEVICE_HOST is the host's. O(1). */
rota_status rota_compile_on_device(rota_compiler *compiler, const rota_node_record *record,
                                   const rota_node_record *out_records[ROTA_ON_DEVICE_RECORDS]);

/* Whether it takes its turn with those that are on the plan's first device, and is not on it itself. */
bool rota_compile_takes_turn(const rota_compiler *compiler, const rota_node_record *record);
/* The record of one that does, of the host's, in the plan's memory: with one access more. O(1). */
rota_status rota_compile_in_turn(rota_compiler *compiler, const rota_node_record *record,
                                 const rota_node_record **out_record);

/* The logical queue of such a node's records but the first; `queue` is the node's own. */
uint32_t rota_compile_end_queue(rota_compiler *compiler, uint32_t queue);
/* When all operations are there: gives what such nodes tell one another by its memory to the plan's end. O(nodes). */
void rota_compile_end_lives(rota_compiler *compiler);

#endif
