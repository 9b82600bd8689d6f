/* Kernels by which the host learns where a device has a node's operands, and is waited for: the two sides of a host
 * node whose work a device's library does (sched/plan/on_device.c). By the number of such operands less one. Internal;
 * not installed. */
#ifndef ROTA_EXEC_ADDRESS_KERNELS_H
#define ROTA_EXEC_ADDRESS_KERNELS_H

#include "graph/graph_internal.h"

/* Operand 0 is ROTA_ADDRESSED_MAX words of 64 bits: the addresses of operands 1 to 3, of which it touches no byte. */
extern const rota_kernel rota_address_kernels[ROTA_ADDRESSED_MAX];
/* Touches nothing, and is launched by nobody: its node is there for what it waits for, and what waits for it. Operand 0
 * is what the host wrote. */
extern const rota_kernel rota_address_ends[ROTA_ADDRESSED_MAX];

#endif
