/* Division of counts. Internal; not installed. */
#ifndef ROTA_BASE_DIVIDE_H
#define ROTA_BASE_DIVIDE_H

#include <stdint.h>

/* How many parts of b make up a: a over b, rounded up, for every a. b is not 0. */
static inline uint64_t rota_divide_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

#endif
