/* Text that is put together within a capacity, whose whole length is known all the same. Internal; not installed. */
#ifndef ROTA_BASE_TEXT_OUT_H
#define ROTA_BASE_TEXT_OUT_H

#include <stdint.h>
#include "base/status.h"

/* Whoever gets one appends; `text` is terminated wherever capacity is not 0. One thread's. */
typedef struct rota_text_out {
    char *text; /* the owner's; may be NULL with capacity 0 */
    uint64_t capacity, length;
} rota_text_out;

/* Appends as printf does; what has no room is counted in `length`. */
void rota_text_say(rota_text_out *out, const char *format, ...) ROTA_PRINTF(2, 3);

#endif
