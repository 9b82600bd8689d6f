/* Files that pictures, traces and reports are written to, whole or not at all. Internal; not installed. */
#ifndef ROTA_BASE_OUTPUT_H
#define ROTA_BASE_OUTPUT_H

#include <stdio.h>
#include "base/file.h"
#include "base/status.h"

typedef struct rota_output {
    FILE *file;
    const char *path; /* borrowed */
    rota_file writer;
} rota_output;

/* SYSTEM names the file and the reason. */
rota_status rota_output_open(rota_output *output, const char *path);

/* The file appears if everything was written and `status` is ROTA_OK; otherwise what was there before stays.
 * Returns `status`, or what went wrong with the file. */
rota_status rota_output_close(rota_output *output, rota_status status);

/* Text inside double quotes, as JSON and Graphviz want it: U+FFFD for each byte that is not UTF-8. */
void rota_output_escape(FILE *file, const char *text);

#endif
