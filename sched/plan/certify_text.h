/* Why a plan is wrong, in a sentence. Internal to certify*.c. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_TEXT_H
#define ROTA_SCHED_PLAN_CERTIFY_TEXT_H

#include "sched/plan/certify_parts.h"

rota_status rota_certify_no_memory(const certifier *c);
rota_status rota_certify_wrong(const certifier *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
rota_status rota_certify_unordered(const certifier *c, uint32_t earlier, uint32_t later, const char *why,
                                   bool by_edges);

#endif
