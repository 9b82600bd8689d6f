/* Why things failed, each sentence once. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_CAUSES_H
#define ROTA_SCHED_RUNTIME_SHARED_CAUSES_H

#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/marks.h"

/* A sentence that says why something failed; lives until the runtime closes. Where it names a submission, it
 * has ROTA_CAUSE_NUMBER in the number's place, which a rota_reason (marks.h) has. */
struct rota_cause {
    struct rota_cause *next;
    rota_status status;
    uint32_t number_at;  /* UINT32_MAX: it names none */
    const char *message; /* in the same block */
};
#define ROTA_CAUSE_NUMBER "\x1a"
#define ROTA_CAUSE_BUCKETS 1024
#define ROTA_CAUSES_MAX 16384

/* The cause of that sentence: of sentences that are the same it is the same. */
const rota_cause *rota_cause_new(rota_runtime *runtime, rota_status status, const char *format, ...)
    ROTA_PRINTF(3, 4);
/* The status that a ticket has whose work depends on what failed with this cause. */
rota_status rota_cause_inherited(const rota_cause *cause);
/* rota_fail with the reason's sentence. Wait-free. */
rota_status rota_reason_fail(rota_status status, rota_reason reason);
void rota_causes_free(rota_runtime *runtime);

#endif
