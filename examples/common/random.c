#include "examples/common/random.h"

#include <math.h>

#define STEP UINT64_C(0x9e3779b97f4a7c15)

uint64_t random_next(random_state *random) {
    uint64_t z = (random->state += STEP);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double random_uniform(random_state *random) {
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

/* Box-Muller; the second value is dropped so that the state stays one word. */
double random_normal(random_state *random) {
    double radius = sqrt(-2 * log(1 - random_uniform(random)));
    return radius * cos(6.283185307179586 * random_uniform(random));
}

void random_skip(random_state *random, uint64_t count) {
    random->state += count * STEP; /* modulo 2^64, as one by one */
}
