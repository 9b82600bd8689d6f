/* Growing arrays in recycled memory (base/arena.h's chunks), of elements whose size each call gives. Internal; not
 * installed. Not thread-safe. */
#ifndef ROTA_BASE_VECTOR_H
#define ROTA_BASE_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed storage is an empty array. */
typedef struct rota_vector {
    void *data;
    uint64_t count, capacity;
    size_t usable_bytes;
} rota_vector;

/* Room for `need` elements and for as many again as there was room for; false when out of memory, with the array as it
 * was. Elements move. May block in malloc. */
bool rota_vector_grow(rota_vector *vector, size_t element_bytes, uint64_t need);
/* Moves the elements to a smaller chunk where one of half the size holds them; of a large one the rest is given
 * back. */
void rota_vector_fit(rota_vector *vector, size_t element_bytes);
void rota_vector_free(rota_vector *vector);
/* Ensures room for `more` elements. */
static inline bool rota_vector_reserve(rota_vector *vector, size_t element_bytes, uint64_t more) {
    return vector->count + more <= vector->capacity ||
           rota_vector_grow(vector, element_bytes, vector->count + more);
}

#endif
