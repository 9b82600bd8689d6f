/* Files that appear whole or not at all: written to a temporary name, then renamed; devices and pipes are
 * written directly. Internal; not installed. */
#ifndef ROTA_SCHED_OUTPUT_H
#define ROTA_SCHED_OUTPUT_H

#include <stdio.h>
#include "base/status.h"

typedef struct rota_output {
    FILE *file;
    const char *path;     /* borrowed */
    char temporary[4096]; /* "": `path` itself is being written */
} rota_output;

/* SYSTEM names the file and the reason. */
rota_status rota_output_open(rota_output *output, const char *path);

/* Renames if everything was written and `status` is ROTA_OK; otherwise removes the temporary file. Returns
 * `status`, or what went wrong with the file. */
rota_status rota_output_close(rota_output *output, rota_status status);

/* Text inside double quotes, as JSON and Graphviz want it. */
void rota_output_escape(FILE *file, const char *text);

#endif
