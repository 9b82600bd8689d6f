/* Who had the memory before. Internal to certify*.c. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_TENANTS_H
#define ROTA_SCHED_PLAN_CERTIFY_TENANTS_H

#include "sched/plan/certify_parts.h"

/* Gives each piece of an arena a tree over the ends of the buffers in it. */
rota_status rota_certify_make_arenas(certifier *c);
/* Operation n uses the instance: after all uses of those that had its memory, or out_of_order is set. */
rota_status rota_certify_use_memory(certifier *c, uint32_t index, uint32_t n);
/* Where that is: pair by pair. */
rota_status rota_certify_check_all_tenants(certifier *c);
/* An operation whose output takes its input's memory: its kernel says that it may. */
rota_status rota_certify_check_inplace(const certifier *c, uint32_t n);

#endif
