/* Random numbers of a trainer: weights, batches, dropout's seeds. */
#ifndef ROTA_EXAMPLES_COMMON_RANDOM_H
#define ROTA_EXAMPLES_COMMON_RANDOM_H

#include <stdint.h>

/* splitmix64. The state is all of it, and is what a checkpoint keeps. */
typedef struct random_state {
    uint64_t state;
} random_state;
uint64_t random_next(random_state *random);
/* In [0, 1). */
double random_uniform(random_state *random);
double random_normal(random_state *random); /* two numbers of random_next */
/* As if random_next had been called so often. */
void random_skip(random_state *random, uint64_t count);

#endif
