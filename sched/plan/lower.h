/* What executors get of each part, and the argument block. Internal. */
#ifndef ROTA_SCHED_PLAN_LOWER_H
#define ROTA_SCHED_PLAN_LOWER_H

#include "sched/plan/compiler.h"

rota_status rota_compile_lower(rota_compiler *compiler);

#endif
