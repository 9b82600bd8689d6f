/* What the completer has to do, on its way to it. */
#include "sched/runtime_internal.h"

void rota_completer_push(rota_runtime *runtime, rota_job *job) {
    job->next = ra_load_relaxed(&runtime->jobs);
    /* Releases the job to the exchange in the completer; seq_cst with its sleep flag. */
    while (!ra_cas_seq_cst(&runtime->jobs, &job->next, job)) {
    }
    rota_sleeper_wake(&runtime->completer_sleeper);
}
