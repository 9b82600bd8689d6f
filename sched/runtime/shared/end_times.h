/* When values of a timeline were published. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_END_TIMES_H
#define ROTA_SCHED_RUNTIME_SHARED_END_TIMES_H

#include <stdint.h>

typedef struct rota_end_times rota_end_times;

#define ROTA_END_TIMES 1024                  /* that a timeline keeps */
rota_end_times *rota_end_times_create(void); /* NULL: no host memory */
void rota_end_times_destroy(rota_end_times *end_times);
/* The value is about to be published. */
void rota_end_times_add(rota_end_times *end_times, uint64_t value);
/* The sequencer's: when a value was published that it has seen published; values ascend from call to call.
 * Where that end time is lost, that of the oldest later value that is kept. */
uint64_t rota_end_times_take(rota_end_times *end_times, uint64_t value);

#endif
