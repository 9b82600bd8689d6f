/* An application whose timelines move at random: submissions that come after points of them. */
#ifndef ROTA_TESTS_HELD_H
#define ROTA_TESTS_HELD_H

#include "sched/embed.h"
#include "sched/submit.h"

typedef struct held held;

/* Of a runtime, with a thread that moves the timelines until held_close, which must come before the runtime's. */
held *held_open(rota_runtime *runtime, uint64_t seed);
void held_close(held *h);
/* Now and then the submission comes after one point, or two, which are reached some time after. One thread. */
void held_draw(held *h, uint64_t *random, rota_submit_options *options);
/* How many submissions came after points so far. */
uint64_t held_count(const held *h);

#endif
