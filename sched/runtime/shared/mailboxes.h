/* What one thread gives another. All are lock-free, but for the last. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_MAILBOXES_H
#define ROTA_SCHED_RUNTIME_SHARED_MAILBOXES_H

#include <stdint.h>
#include "base/stack_upmc.h"
#include "exec/exec.h"
#include "sched/runtime.h"
#include "sched/runtime/shared/released.h"

typedef struct rota_submission rota_submission;

typedef enum rota_completion_kind {
    ROTA_COMPLETION_DELIVERY,
    ROTA_COMPLETION_CALLBACK,
    ROTA_COMPLETION_EVENTFD,
    ROTA_COMPLETION_EXTERNAL,
    ROTA_COMPLETION_STREAM
} rota_completion_kind;

typedef struct rota_completion {
    struct rota_completion *next;
    rota_stack_entry entry; /* on the way to the completer, or to the callback thread */
    uint32_t kind;
    /* The completer's: by value of the timeline that is waited for, and then by arrival; a heap. */
    uint64_t value, arrival;
    struct rota_completion *child, *sibling;
    union {
        rota_submission *submission;
        struct {
            rota_ticket ticket;
            rota_ticket_fn fn;
            void *user;
            int eventfd;
            rota_external_point external; /* whose timeline is held */
            rota_device *device;          /* of a stream of the application's, and what keeps that */
            rota_exec_stream_latch *latch;
            /* Once it has ended; the message is the completion's, NULL: none. */
            rota_status status;
            char *message;
        } watch;
    } u;
} rota_completion;

/* Released: to the sequencer, which knows when its last use is over. */
void rota_reclaim_push(rota_runtime *runtime, rota_released *released);
/* What has no use left: to the reclaimer. */
void rota_reclaim_push_unused(rota_runtime *runtime, rota_released *released);
/* What the completer has to do. */
void rota_completer_push(rota_runtime *runtime, rota_completion *completion);
/* The completer's: the callback of a ticket that has ended. */
void rota_callbacks_push(rota_runtime *runtime, rota_completion *completion);
/* The sequencer gives back what has passed. */
void rota_sequencer_request_reap(rota_runtime *runtime);
/* Waits until the sequencer has recycled what is complete by now (diagnostics). */
void rota_sequencer_reap_now(rota_runtime *runtime);

#endif
