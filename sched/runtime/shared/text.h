/* Text appended within a capacity. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_TEXT_H
#define ROTA_SCHED_RUNTIME_SHARED_TEXT_H

#include <stddef.h>
#include "base/status.h"

/* Appends to a text of that capacity, cutting. */
void rota_append(char *text, size_t capacity, size_t *length, const char *format, ...) ROTA_PRINTF(4, 5);

#endif
