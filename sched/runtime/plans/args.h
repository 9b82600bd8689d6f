/* Inside of an argument set. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_ARGS_H
#define ROTA_SCHED_RUNTIME_PLANS_ARGS_H

#include "graph/buffer_internal.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"

#define ROTA_INPUT_COPIES 4

/* Copies of one input's contents, used in turn; each is free once the submission that used it last took its
 * inputs. */
typedef struct rota_input_copies {
    const void *source; /* the caller's; NULL: the input is borrowed, not copied */
    uint8_t *copies[ROTA_INPUT_COPIES];
    rota_ticket users[ROTA_INPUT_COPIES];
    uint32_t next, chosen;
} rota_input_copies;

struct rota_args {
    rota_released released;
    rota_runtime *runtime;
    rota_plan *plan;   /* held */
    uint64_t *payload; /* as a record carries it: block words, host pointers of transfers, bound buffers; and
                          room for points that it comes after */
    uint8_t *missing;  /* by payload word */
    uint32_t missing_count, copied_count;
    bool rebound; /* a slot was given another buffer since the bindings were last checked for overlaps */
    rota_buffer **bound;         /* held; by slot buffer */
    rota_input_copies *inputs;   /* input_count */
    uint64_t submitted;          /* submissions that read copies of the set's; by who submits */
    _Alignas(64) uint64_t ended; /* and how many of them nothing reads for any more; the sequencer's */
};

/* The sequencer's, of a set that was released: whether no submission uses it any more. That the set was
 * released brings the last of `submitted` along, since it was submitted before. */
bool rota_args_idle(const rota_args *args);

void rota_args_destroy(rota_args *args);

/* What rota_submit needs of an argument set. */
rota_status rota_args_payload(rota_plan *plan, rota_args *args, const uint64_t **out_payload);
void rota_args_submitted(rota_args *args, rota_ticket ticket);
/* Whether submissions made now read memory of the set's, and so hold it: copies of inputs. */
bool rota_args_copies(const rota_args *args);
/* The sequencer's: one of those submissions reads it no more. */
void rota_args_ended(rota_args *args);

#endif
