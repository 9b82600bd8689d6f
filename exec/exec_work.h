/* Works: what is handed to a device's submit (exec.h says what orders them). Internal; not installed. */
#ifndef ROTA_EXEC_EXEC_WORK_H
#define ROTA_EXEC_EXEC_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec_memory.h"
#include "exec/exec_program.h"

typedef struct rota_exec_timeline rota_exec_timeline;

#define ROTA_EXEC_QUEUES_MAX 25

typedef struct rota_exec_wait {
    uint32_t queue;
    uint64_t value;
} rota_exec_wait;

/* Most timeline_waits of one work, for other devices and for the application; and all together. */
#define ROTA_EXEC_LINKED_WAITS_MAX 4
#define ROTA_EXEC_SEMAPHORE_WAITS_MAX 4
#define ROTA_EXEC_TIMELINE_WAITS_MAX (ROTA_EXEC_LINKED_WAITS_MAX + ROTA_EXEC_SEMAPHORE_WAITS_MAX)

/* A wait, on the device, for another device of the same GPU, or a peer: until a timeline that both have has the value.
 * Or, where semaphore_adopt is, for a semaphore of the application's.
 */
typedef struct rota_exec_timeline_wait {
    rota_exec_timeline *timeline; /* this device's object */
    uint64_t value;
    void *semaphore; /* in place of the timeline: the application's handle */
} rota_exec_timeline_wait;

/* A copy that comes with a work instead of with a program: host reads and writes, moves between devices. Any
 * byte offsets and sizes. Both are memories of this device, or the source is one of a peer's that was
 * opened to it (rota_exec_peers); on a device with caps.unified_host either may instead be any mapped memory, of
 * which only `host` is used. The copies of one work do not overlap and are unordered. */
typedef struct rota_exec_copy {
    rota_exec_memory *destination, *source;
    uint64_t destination_offset, source_offset, size_bytes;
} rota_exec_copy;

/* One submission of one segment, or of a list of copies. */
typedef struct rota_exec_work {
    rota_exec_instance *instance; /* NULL: no commands, only waits, copies if any, and a signal */
    /* NULL, or with instance NULL and without copies: the program whose segment it would have been. When the work's
     * turn has come those of its host functions that end later are told that they are left out; who runs none needs
     * not look. The host's, as long as a program of it may live. */
    const rota_exec_program_desc *left_out;
    const rota_exec_copy *copies; /* with instance NULL; read during submit only */
    uint32_t copy_count;
    uint32_t segment;
    /* The segment's own, or in its place one from segment_queues on: that for all works of the submission
     * whose segments are of the same queue. */
    uint32_t queue;
    uint64_t signal_value;       /* greater than every earlier one of this queue */
    const rota_exec_wait *waits; /* read during submit only, as is block */
    uint32_t wait_count;
    /* The work comes after works of devices that share memory with this one, or are its peers, or after points of the
     * application's, which the host has seen complete or which timeline_waits are for. What they wrote is to be visible
     * to this work and to all that are handed over after it. */
    bool acquires;
    /* Cumulative along the queue like waits. Each is for a value whose signal the other device's driver was
     * given before (the application said so of its semaphores), so what waits for what on the GPU follows the
     * order of submission, and no circle can arise. */
    const rota_exec_timeline_wait *timeline_waits; /* read during submit only */
    uint32_t timeline_wait_count;
    /* NULL, or what other devices wait for instead of this queue: made to reach signal_value, or a later
     * value of the queue, once the queue's timeline may, and the driver has been told to when submit returns. Not of
     * a work with loops where the device has go_on. */
    rota_exec_timeline *timeline;
    /* block_words words of arguments; the executor copies them during submit. Every work of a submission has
     * the same contents. NULL where block_words is 0. */
    const uint64_t *block;
    /* Works of other devices wait for its value until the host is told of it: that it is told with later works of the
     * queue, or a nap late, would keep them. */
    bool is_awaited;
    void *cookie; /* handed back through rota_exec_host */
} rota_exec_work;

#endif
