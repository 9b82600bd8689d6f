/* Taking in and filling in structs that may grow (base/sized.h). Internal; not installed. */
#ifndef ROTA_BASE_SIZED_COPY_H
#define ROTA_BASE_SIZED_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include "base/sized.h"
#include "base/status.h"

/* A caller's struct as this library knows it, by its first member: `given` itself where it is of that size,
 * else `room`, filled in from it, or `given` where it is larger and holds nothing that isn't known. NULL:
 * refused, as INVALID_ARGUMENT. */
#define ROTA_SIZED_IN(type, given, room)                                                                     \
    ((given)->struct_size == sizeof(type)                                                                    \
         ? (given)                                                                                           \
         : (const type *)rota_sized_in((given), sizeof(type), #type, (room)))
const void *rota_sized_in(const void *given, size_t size, const char *type, void *room);

/* INVALID_ARGUMENT unless a struct that is to be filled in has a size that can be. */
rota_status rota_sized_check(size_t struct_size, const char *type);
/* Fills in as much as there is room for; `out` keeps its size. Both begin with a struct_size. */
void rota_sized_out(void *out, const void *made, size_t size);

#endif
