/* What segments touch outside the plan. Internal. */
#ifndef ROTA_SCHED_PLAN_EXTERNALS_H
#define ROTA_SCHED_PLAN_EXTERNALS_H

#include "sched/plan/compiler.h"

/* An access to a PERSISTENT or SLOT buffer, noted in record order. */
typedef struct rota_external_note {
    uint32_t buffer; /* plan buffer */
    uint32_t operation;
    uint64_t low, high;
    uint32_t flags; /* rota_external_flags, INCOMING already decided */
} rota_external_note;

rota_status rota_compile_externals(rota_compiler *compiler);

#endif
