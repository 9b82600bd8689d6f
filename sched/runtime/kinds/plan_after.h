/* A replay that comes after points of the application's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_PLAN_AFTER_H
#define ROTA_SCHED_RUNTIME_KINDS_PLAN_AFTER_H

#include "sched/runtime/kinds/sequencing.h"

void rota_kind_after_drop(void *object, const uint64_t *words);
bool rota_kind_after_sequence(rota_sequencing *sequencing);
void rota_kind_after_forget(const rota_submission *submission);
void rota_kind_after_describe(rota_runtime *runtime, const rota_submission *submission, char *text,
                              size_t capacity, size_t *length);

#endif
