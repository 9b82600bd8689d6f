/* The memory of a work-stealing deque; all else of it is in deque.h. */
#include "exec/cpu/deque.h"

#include <stdlib.h>

bool rota_cpu_deque_init(rota_cpu_deque *deque, int64_t capacity) {
    atomic_init(&deque->top, 0);
    atomic_init(&deque->bottom, 0);
    deque->capacity = capacity;
    deque->cells = calloc((size_t)capacity, sizeof *deque->cells);
    return deque->cells != NULL;
}

void rota_cpu_deque_free(rota_cpu_deque *deque) {
    free((void *)deque->cells);
    deque->cells = NULL;
}
