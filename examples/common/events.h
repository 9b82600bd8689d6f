/* Numbers by step, in the files that TensorBoard reads: records of protocol buffers, each with checksums of its length
 * and of its bytes. */
#ifndef ROTA_EXAMPLES_COMMON_EVENTS_H
#define ROTA_EXAMPLES_COMMON_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct event_file {
    FILE *stream; /* NULL: nothing is written */
    char *path;
    long end; /* of the last whole record */
} event_file;

typedef struct event_value {
    const char *name; /* "loss/train": what stands before the slash is drawn together; at most 63 letters */
    double value;     /* NAN: it was not measured, and is left out */
} event_value;
#define EVENT_VALUES_MOST 8

/* A new file in DIR, which is made where it is missing; earlier ones stay, and TensorBoard reads all of them. `dir`
 * NULL: none, and the other calls do nothing. False with one sentence. */
bool event_file_open(event_file *file, const char *dir);
/* Values of a step, at most EVENT_VALUES_MOST. False with one sentence if they can't be written; the file then ends
 * with its last whole record. */
bool event_file_add(event_file *file, uint64_t step, const event_value *values, size_t count);
bool event_file_close(event_file *file);

#endif
