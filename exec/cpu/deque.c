/* The memory of a work-stealing deque; all else of it is in deque.h. */
#include "exec/cpu/deque.h"

#include <stdlib.h>

bool rota_cpu_deque_init(rota_cpu_deque *deque, int64_t capacity) {
    atomic_init(&deque->top, 0);
    atomic_init(&deque->bottom, 0);
    deque->capacity = capacity;
    deque->slots = calloc((size_t)capacity, sizeof *deque->slots);
    return deque->slots != NULL;
}

void rota_cpu_deque_free(rota_cpu_deque *deque) {
    free((void *)deque->slots);
    deque->slots = NULL;
}
