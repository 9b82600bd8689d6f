/* Who comes after whom, by range. Internal to certify*.c. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_RANGES_H
#define ROTA_SCHED_PLAN_CERTIFY_RANGES_H

#include "sched/plan/certify_parts.h"

/* Sorts points and leaves each once. */
rota_status rota_certify_settle_points(certifier *c, uint64_t *points, uint64_t count, uint32_t *out_count);
uint32_t rota_certify_leaf_of(const uint64_t *points, uint32_t count, uint64_t point);
/* Gives each buffer that is touched in several ranges a tree over their ends. */
rota_status rota_certify_make_trees(certifier *c);
/* Operation n comes after all of the list, if it is not one of them. */
rota_status rota_certify_check_list(certifier *c, const meeting *m, uint32_t n, const char *why);
/* Node `v` of the tree has leaves [low, high): its left half follows it, its right half that. */
rota_status rota_certify_visit_range(certifier *c, range_uses *ranges, uint32_t low, uint32_t high,
                                     uint32_t since, between last, const range_access *a);

#endif
