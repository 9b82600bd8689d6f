/* Work for the completer. Data alone. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_STATE_JOB_H
#define ROTA_SCHED_RUNTIME_STATE_JOB_H

#include <stdint.h>
#include "base/stack_upmc.h"
#include "sched/runtime.h"

typedef struct rota_submission rota_submission;

typedef enum rota_job_kind { ROTA_JOB_OUTPUTS, ROTA_JOB_CALLBACK, ROTA_JOB_EVENTFD } rota_job_kind;

typedef struct rota_job {
    struct rota_job *next;
    rota_stack_entry entry; /* on the way to the completer, or to the callback thread */
    uint32_t kind;
    /* The completer's: by value of the timeline that is waited for, and then by arrival; a heap. */
    uint64_t value, arrival;
    struct rota_job *child, *sibling;
    union {
        rota_submission *submission;
        struct {
            rota_ticket ticket;
            rota_ticket_fn fn;
            void *user;
            int eventfd;
            /* Once it has ended; the message is the job's, NULL: none. */
            rota_status status;
            char *message;
        } watch;
    } u;
} rota_job;

#endif
