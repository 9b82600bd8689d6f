/* Plans of cuDNN that are kept. */
#include "ops/cuda/cudnn_kept.h"

#if __has_include(<cudnn.h>)

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/driver.h"

/* The plan of the current context. The lock is held. NULL: out of memory. */
static rota_cudnn_kept *find(rota_cudnn_keeper *keeper, const void *about, const rota_cuda_target *target,
                             unsigned long long context) {
    for (rota_cudnn_kept *kept = keeper->plans; kept; kept = kept->next)
        if (kept->context == context && memcmp(kept->about, about, keeper->about_bytes) == 0) return kept;
    rota_cudnn_kept *kept = calloc(1, sizeof *kept + keeper->about_bytes);
    if (!kept) return NULL;
    kept->context = context;
    memcpy(kept->about, about, keeper->about_bytes);
    kept->status = keeper->make(kept, target);
    if (kept->status != ROTA_OK) {
        snprintf(kept->why, sizeof kept->why, "%s", rota_last_error());
        keeper->say(kept, target);
        if (kept->plan.graph.descriptor_count) rota_cudnn_plan_free(&kept->plan);
    }
    kept->next = keeper->plans;
    keeper->plans = kept;
    return kept;
}

rota_status rota_cudnn_kept_get(rota_cudnn_keeper *keeper, const void *about, const rota_cuda_target *target,
                                rota_cudnn_kept **out_kept) {
    rota_cuda_scope scope;
    *out_kept = NULL;
    ROTA_TRY(rota_cuda_scope_enter(target->ordinal, &scope));
    rota_cudnn_lock();
    *out_kept = find(keeper, about, target, scope.context);
    rota_cudnn_unlock();
    rota_cuda_scope_leave(&scope);
    return *out_kept ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a plan of cuDNN");
}

#endif
