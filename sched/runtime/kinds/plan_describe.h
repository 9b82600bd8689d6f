/* A replay described: as rota_kind says (kinds.h). Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_PLAN_DESCRIBE_H
#define ROTA_SCHED_RUNTIME_KINDS_PLAN_DESCRIBE_H

#include <stddef.h>
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"

const char *rota_kind_plan_name(const rota_submission *submission);
void rota_kind_plan_describe(rota_runtime *runtime, const rota_submission *submission, char *text,
                             size_t capacity, size_t *length);

#endif
