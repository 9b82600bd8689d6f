/* Growing arrays in recycled memory. */
#include "base/vector.h"

#include <string.h>
#include "base/arena.h"

/* From where on what is left over is given back: below, whoever builds the same again would ask the system for it. */
enum { SHRINK_BYTES = 8 << 20 };

bool rota_vector_grow(rota_vector *vector, size_t element_bytes, uint64_t need) {
    uint64_t want = vector->capacity * 2;
    if (want < need) want = need;
    if (want < 64) want = 64;
    size_t usable;
    void *grown = rota_chunk_alloc((size_t)want * element_bytes, &usable);
    if (!grown) return false;
    if (vector->data) memcpy(grown, vector->data, (size_t)vector->count * element_bytes);
    rota_chunk_free(vector->data, vector->usable_bytes);
    vector->data = grown;
    vector->usable_bytes = usable;
    vector->capacity = usable / element_bytes;
    return true;
}

void rota_vector_fit(rota_vector *vector, size_t element_bytes) {
    size_t need = (size_t)vector->count * element_bytes, usable;
    if (!vector->data) return;
    if (need > vector->usable_bytes / 2) {
        if (vector->usable_bytes >= SHRINK_BYTES)
            vector->usable_bytes = rota_chunk_shrink(vector->data, vector->usable_bytes, need);
        vector->capacity = vector->usable_bytes / element_bytes;
        return;
    }
    void *fitted = rota_chunk_alloc(need ? need : 1, &usable);
    if (!fitted) return;
    memcpy(fitted, vector->data, need);
    rota_chunk_free(vector->data, vector->usable_bytes);
    vector->data = fitted;
    vector->usable_bytes = usable;
    vector->capacity = usable / element_bytes;
}

void rota_vector_free(rota_vector *vector) {
    rota_chunk_free(vector->data, vector->usable_bytes);
    *vector = (rota_vector){0};
}
