/* Bodies of nodes that decide. Internal to certify*.c. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_BODIES_H
#define ROTA_SCHED_PLAN_CERTIFY_BODIES_H

#include "sched/plan/certify_parts.h"

/* What the commands of bodies touch lies within the operands of the command that decides, and is written only where
 * that writes: the rest of the certificate looks at those. What is inside a body its own certificate is about. */
rota_status rota_certify_bodies(const certifier *c);

#endif
