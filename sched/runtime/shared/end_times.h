/* When values of a timeline were published. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_END_TIMES_H
#define ROTA_SCHED_RUNTIME_SHARED_END_TIMES_H

#include <stdint.h>

typedef struct rota_stamps rota_stamps;

#define ROTA_STAMPS 1024               /* that a timeline keeps */
rota_stamps *rota_stamps_create(void); /* NULL: no host memory */
void rota_stamps_destroy(rota_stamps *stamps);
/* The value is about to be published. */
void rota_stamps_add(rota_stamps *stamps, uint64_t value);
/* The sequencer's: when a value was published that it has seen published; values ascend from call to call.
 * Where that stamp is lost, that of the oldest later value that is kept. */
uint64_t rota_stamps_take(rota_stamps *stamps, uint64_t value);

#endif
