/* The executor contract: what sched hands to a device and what it may rely on. Internal; not installed.
 *
 * An executor gets *lowered programs*: commands on logical queues, cut into segments, with batches, barriers,
 * waits and signals written out. It knows nothing of graphs or plans. Everything that orders two commands is
 * in what it receives; a correct executor may do anything that this allows (tests/adversary/adversary.c does).
 *
 * What orders commands, and nothing else does:
 *   - inside a segment, either of two equivalent descriptions; an executor picks one:
 *       - batches: all commands of batch i complete, and their writes are visible, before any command of
 *         batch i+1 of that segment starts (a barrier stands between); commands of one batch are unordered;
 *       - edges: a command starts after all its predecessors in the segment completed (CSR, transitively
 *         reduced but for edges through joins).
 *   - between works (one submission of one segment): a work starts after, for each of its waits (queue,
 * value), that queue's timeline has reached the value. Waits are cumulative along a queue: a wait of a work
 * holds for all later works of the same queue. A wait on the work's own queue is legal and means: after the
 * earlier works up to that value (on a GPU: a barrier). Without a wait two works of one queue may overlap and
 * finish in any order, but
 *   - a queue's timeline reaches value v only when every work of that queue with signal value <= v has
 * completed and its writes are visible to whoever waits for v, on any queue, or on the host after `advanced`.
 * Values of a queue's works are handed over in ascending order; waits name values handed over earlier (P2).
 *
 * Threads: one thread at a time per device calls submit (the device's submit thread). memory_*, program_* and
 * instance_* may be called from any threads at once, also during submit. Destroy functions are called only
 * after the last use's timeline value has passed or the device was lost, and may block in the driver until
 * the device has nothing more to do. */
#ifndef ROTA_EXEC_EXEC_H
#define ROTA_EXEC_EXEC_H

#include "exec/exec_driver.h"
#include "exec/exec_host.h"
#include "exec/exec_memory.h"
#include "exec/exec_program.h"
#include "exec/exec_semaphore.h"
#include "exec/exec_table.h"
#include "exec/exec_work.h"

#endif
