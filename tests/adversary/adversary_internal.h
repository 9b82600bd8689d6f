/* Inside of the adversarial executor, shared by adversary.c (objects, submission, checks) and adversary_run.c
 * (the executor thread). */
#ifndef ROTA_TESTS_ADVERSARY_INTERNAL_H
#define ROTA_TESTS_ADVERSARY_INTERNAL_H

#include <pthread.h>
#include "tests/adversary/adversary.h"

#define ADVERSARY_POISON_FRESH 0xffu /* NaN as a float, and a large index */
#define ADVERSARY_POISON_DEAD 0xddu
#define ADVERSARY_LIVE 0x51a7e11eu
#define ADVERSARY_DEAD 0xdeadbea7u
#define ADVERSARY_GONE 0x90ffe000u
#define ADVERSARY_PIECES_MAX 4

typedef struct adversary_memory {
    rota_exec_memory base;
    uint32_t magic;
    uint32_t flags;
    uint64_t busy_stamp;   /* see poison_arenas */
    int fd;                /* of memory that may be shared ... */
    uint64_t mapped_bytes; /* ... and how much of it is mapped; 0: memory of its own */
    uint64_t offset_bytes; /* of the memory in the mapping */
    bool is_import, is_adopted;
    uint32_t device;         /* whose it is */
    _Atomic uint32_t opened; /* to which devices, as bits */
    struct adversary_memory *next;
    char name[64];
} adversary_memory;

typedef struct adversary_program {
    uint32_t magic;
    const rota_exec_program_desc *desc;
    _Atomic uint32_t instances;
} adversary_program;

typedef struct adversary_instance {
    uint32_t magic;
    adversary_program *program;
    rota_exec_memory **memories;
    adversary_memory *
        *own; /* the same where the memory is this device's; NULL: another's, seen through host pointers */
    uint64_t *block, *stale_block; /* the newest submission's arguments, and the one's before */
    uint64_t *submitted;           /* of each segment: how often */
    uint64_t block_replay;         /* the replay that `block` belongs to */
    uint64_t started_replay;       /* the newest replay of which a work has started */
    _Atomic uint32_t pending;      /* works handed over and not complete */
    rota_exec_time *times;
    struct adversary_instance *next_dead;
} adversary_instance;

/* A copy of operands that share bytes, in whose place a torn command works. */
typedef struct adversary_copy {
    uint8_t *real, *copy;
    uint64_t bytes, skip; /* skip: from the start of the allocation */
} adversary_copy;

typedef struct adversary_work adversary_work;

/* A command that decides, begun. */
typedef struct adversary_loop {
    struct adversary_loop *root; /* the outermost, which may be itself */
    const adversary_work *work;  /* which it is a command of; that one's `loop` is the one around it */
    uint32_t command;
    const uint32_t *condition;
    uint32_t *index;
    uint64_t begun, count;
    uint32_t running; /* iterations that have begun and not ended: one at most, or breaks.iterations */
    bool is_over;     /* of the root: no more begins, as a body failed or the host said so */
} adversary_loop;

typedef enum adversary_step {
    ADVERSARY_STEP_WAITS,     /* for an iteration, or to be asked again */
    ADVERSARY_STEP_ITERATION, /* one begins */
    ADVERSARY_STEP_OVER
} adversary_step;

typedef struct adversary_later adversary_later;

/* A command that has begun: pieces left to run. */
typedef struct adversary_running {
    struct adversary_running *next; /* among those that end later */
    adversary_later *later;         /* what it waits for; NULL: nothing */
    adversary_loop *loop;           /* where it decides: no pieces, but iterations */
    uint32_t command;
    uint32_t piece_count;
    bool failed;
    uint64_t piece_begin[ADVERSARY_PIECES_MAX], piece_end[ADVERSARY_PIECES_MAX];
    uint64_t items;
    uint32_t count; /* as a counted one read it when it began */
    /* A kernel may have a workspace after its operands. */
    void *operands[ROTA_KERNEL_OPERANDS_MAX + 1];
    uint64_t operand_bytes[ROTA_KERNEL_OPERANDS_MAX + 1];
    _Alignas(16) uint8_t params[ROTA_KERNEL_PARAM_BYTES_MAX];
    adversary_copy copies[ROTA_KERNEL_OPERANDS_MAX + 1]; /* of a torn command */
    uint32_t copy_count;
    void *real[ROTA_KERNEL_OPERANDS_MAX + 1]; /* of a torn command: where its operands are */
} adversary_running;

struct adversary_work {
    struct adversary_work *next; /* of its queue, in the order handed over */
    adversary_loop *loop;        /* an iteration's: in no queue */
    adversary_instance *instance;
    const rota_exec_program_desc *desc;
    void *cookie;
    uint32_t segment, queue;
    uint64_t signal_value, sequence, replay;
    uint32_t wait_count;
    bool started, done, edges_mode;
    /* While started: commands that may begin, those begun, and what remains. */
    uint32_t *ready, ready_count;
    adversary_running *running[3];
    uint32_t running_count;
    adversary_running *later;               /* begun, and their functions have returned: any number */
    const rota_exec_program_desc *left_out; /* with no instance: whose functions are told so */
    uint32_t commands_left;
    uint32_t *remaining; /* edges: predecessors of each command; batches: commands left of each batch */
    uint32_t batch_floor,
        batch_admitted;     /* first batch with commands left; batches below admitted are in ready */
    rota_exec_copy *copies; /* with no instance: commands_left of them to go, each at first split in two */
    uint32_t copy_count;
    bool copies_begun;
    rota_exec_timeline *timeline; /* signalled with its value */
    rota_exec_timeline_wait timeline_waits[ROTA_EXEC_TIMELINE_WAITS_MAX];
    uint32_t timeline_wait_count;
    rota_exec_wait waits[];
};

typedef struct adversary_queue {
    adversary_work *head, *tail; /* not yet signalled */
    adversary_work *next_start;  /* first work not started */
    uint64_t reached;            /* its timeline */
    uint64_t handed_over;        /* submit side: the newest value */
    _Atomic uint64_t too_early;  /* the newest value that breaks.early_signal reported */
} adversary_queue;

typedef struct adversary_semaphores adversary_semaphores;

typedef struct adversary_device {
    rota_exec_device base;
    rota_exec_host host;
    adversary_options *options;
    uint32_t index, queue_count, segment_queues;
    bool diagnostics;

    pthread_mutex_t lock; /* guards the inbox, flags and the memory list; held only briefly */
    pthread_cond_t wake, ended;
    adversary_work *inbox, *inbox_tail;
    uint64_t inbox_count;
    bool stop, has_ended;
    _Atomic bool lost;
    _Atomic uint64_t unfinished; /* works handed over that are not complete */
    adversary_instance *dead_instances;
    adversary_memory *memories; /* live ones, then forever the dead */
    uint64_t dead_bytes;
    uint32_t waits_handed_over;
    rota_exec_timeline *timelines;    /* all that were made here */
    adversary_semaphores *semaphores; /* NULL: there never was one */

    pthread_t thread; /* everything below is its own */
    adversary_queue queues[ROTA_EXEC_QUEUES_MAX];
    adversary_work **active; /* started, not done */
    uint32_t active_count, active_capacity;
    uint64_t random, sequence, stamp;
    uint32_t policy, policy_steps, favourite;
    bool dying;   /* lost once the step ends */
    bool waiting; /* some work waits for another device's */
    uint8_t *stray;
    uint64_t stray_bytes;
    _Atomic uint64_t stuck; /* 1 + node of a command begun; with its instance, for stuck_node */
    _Atomic(adversary_instance *) stuck_instance;
    _Atomic uint64_t stuck_iterations; /* of that node, where it decides */
} adversary_device;

/* Reports a breach of the contract by the caller; the first one is kept as text. */
void adversary_violation(adversary_device *device, const char *format, ...) ROTA_PRINTF(2, 3);

/* adversary_memory.c: the contract's calls ... */
rota_status adversary_memory_create(rota_exec_device *device, uint64_t size_bytes, uint32_t flags,
                                    const char *name, rota_exec_memory **out_memory);
rota_status adversary_memory_export(rota_exec_device *device, rota_exec_memory *memory, bool is_dma_buf,
                                    rota_exec_export *out_export);
rota_status adversary_memory_adopt(rota_exec_device *device, const rota_exec_foreign *from, const char *name,
                                   rota_exec_memory **out_memory);
bool adversary_memory_return(rota_exec_device *device, rota_exec_memory *memory);
rota_status adversary_memory_import(rota_exec_device *device, const rota_exec_export *from, const char *name,
                                    rota_exec_memory **out_memory);
void adversary_memory_destroy(rota_exec_device *device, rota_exec_memory *memory);
/* ... the device's memory object of this address, dead or alive (NULL: another device's) ... */
adversary_memory *adversary_memory_find(adversary_device *device, const rota_exec_memory *memory);
/* ... whether destroyed memory was written, which is a violation; and its end when the device closes. */
/* Its first `size` bytes become `value`, as poison. */
void adversary_memory_fill(const adversary_memory *memory, uint8_t value, uint64_t size);
void adversary_memory_check(adversary_device *device, const adversary_memory *memory);
void adversary_memory_free(adversary_memory *memory);

/* adversary_timeline.c: the contract's calls ... */
rota_status adversary_timeline_create(rota_exec_device *device, int fd, rota_exec_timeline **out_timeline);
rota_status adversary_timeline_export(rota_exec_device *device, rota_exec_timeline *timeline, int *out_fd);
rota_status adversary_timeline_signal(rota_exec_device *device, rota_exec_timeline *timeline, uint64_t value);
/* ... a work's signal, which it was promised at submit; what a timeline is at; a wait as handed over; the
 * end. */
void adversary_timeline_promise(adversary_device *device, rota_exec_timeline *timeline, uint64_t value);
void adversary_timeline_reach(rota_exec_timeline *timeline, uint64_t value);
uint64_t adversary_timeline_value(const rota_exec_timeline *timeline);
void adversary_timeline_check(adversary_device *device, const rota_exec_timeline_wait *wait);
void adversary_timelines_free(adversary_device *device);

/* adversary_semaphore.c: the contract's calls ... */
rota_status adversary_semaphore_import(rota_exec_device *device, int fd, void **out_handle);
void adversary_semaphore_adopt(rota_exec_device *device, rota_exec_semaphore *semaphore);
rota_status adversary_semaphore_export(rota_exec_device *device, void *handle, int *out_fd);
void adversary_semaphore_look(rota_exec_device *device);
rota_status adversary_semaphore_signal(rota_exec_device *device, void *handle, uint64_t value);
/* ... and the end. False: somebody is at one at the deadline, or the thread in a signal. */
bool adversary_semaphores_end(adversary_device *device, uint64_t deadline_ns);

/* Counts a fault down; true when it strikes. */
bool adversary_strikes(_Atomic uint32_t *countdown);

/* Whether [address, address + size) lies inside one live memory; the lock is taken inside. */
bool adversary_range_is_live(adversary_device *device, uint64_t address, uint64_t size_bytes);

/* Whether the breaks of the options concern this program. */
bool adversary_breaks_program(const adversary_device *device, const rota_exec_program_desc *desc);

/* adversary_tear.c: lets a command that has just begun work on copies of its operands, which hold what these
 * hold now; and writes back what it may write. */
void adversary_tear(const adversary_work *work, adversary_running *running);
void adversary_mend(const adversary_work *work, adversary_running *running);
/* Frees those copies, written back or not. */
void adversary_drop(adversary_running *running);

/* adversary_loop.c: a command that decides begins (false: no memory); an iteration of it, if one is due; a command of
 * an iteration failed. */
bool adversary_loop_begin(const adversary_work *work, adversary_running *running);
adversary_step adversary_loop_step(adversary_device *device, adversary_running *running,
                                   adversary_work **out_iteration);
void adversary_loop_fail(adversary_device *device, const adversary_work *work, uint32_t command,
                         rota_status status, const char *why);

/* The executor thread. */
void *adversary_thread(void *device);

#endif
