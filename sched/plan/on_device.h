/* Host nodes of what a device may do as well (rota_host_on_device): what they become there. Internal.
 *
 * Three records take the node's turn, and later steps know nothing of it. A kernel on the device has the operands as
 * the node has them and writes where they are; the host node reads that, begins what the device's library is to do, and
 * ends when that has ended; a kernel of no work has the operands as the node has them, and reads a word that the host
 * node writes. So the bytes stay on the device; all that the node depends on is complete there before the host node
 * begins, since that waits for the first kernel; all that depends on the node waits for the last one, and is left out
 * where the host node failed, since the last one reads what failed; and until then the memory of the operands is the
 * node's, since both kernels have it. */
#ifndef ROTA_SCHED_PLAN_ON_DEVICE_H
#define ROTA_SCHED_PLAN_ON_DEVICE_H

#include "sched/plan/compiler.h"

enum { ROTA_ON_DEVICE_RECORDS = 3, ROTA_ON_DEVICE_HOST = 1 };

/* Whether the node is to be on the plan's first device, which is partition 0. */
bool rota_compile_is_on_device(const rota_compiler *compiler, const rota_node_record *record);
/* The three records, in order, in the plan's memory; the one of index ROTA_ON_DEVICE_HOST is the host's. O(1). */
rota_status rota_compile_on_device(rota_compiler *compiler, const rota_node_record *record,
                                   const rota_node_record *out_records[ROTA_ON_DEVICE_RECORDS]);

#endif
