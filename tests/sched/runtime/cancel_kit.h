/* What the tests of cancelled tickets have in common: what is wanted of one, nodes that stay until they may go, and
 * submissions that are held. */
#ifndef ROTA_TESTS_CANCEL_KIT_H
#define ROTA_TESTS_CANCEL_KIT_H

#include "tests/sched/runtime/travel_kit.h"

#define BYTES ((uint64_t)4 * WORDS)
#define SOON_NS 10000000000u

/* Waits; the ticket was cancelled by a call, which is said of `of`. `when` is for the test's own message. */
void expect_cancelled(rota_ticket ticket, const char *of, const char *when);
/* The status, with what is said last, is that of something after `of`, which was cancelled. */
void expect_inherited(rota_status status, const char *of, const char *when);
/* The buffer counts as failed, for `of` was cancelled; and nothing of it is read. */
void expect_bad(rota_buffer *buffer, const char *of, const char *when);

void fill(rota_buffer *buffer, rota_device *device, uint32_t value);

/* Adds a node of the CPU's that writes 7 to x, and of which it can be known that it runs. While nodes are held it stays
 * until it may go. */
void add_stay(sketch *s, rota_device *cpu, bool is_host, rota_buffer *x);
void hold_nodes(void);
void let_nodes_go(void);
/* One has begun since they are held. */
void until_begun(void);

typedef void (*case_fn)(house *h, rota_device *device, const char *on);
/* On each device that there is, by its name. */
void on_each(case_fn fn);

rota_external_timeline *timeline_of(const house *h);
/* After the timeline's 1. */
rota_ticket submit_after(rota_plan *plan, rota_args *args, rota_external_timeline *timeline);
rota_ticket submit(rota_plan *plan);

#endif
