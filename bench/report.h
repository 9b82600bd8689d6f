/* What the subcommands share: exit codes, opening the device, JSON results, and numbers from samples. */
#ifndef ROTA_BENCH_REPORT_H
#define ROTA_BENCH_REPORT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include "rota.h"

/* Exit codes of every program here. */
enum {
    EXIT_GOOD = 0,
    EXIT_BAD_ARGUMENT = 1, /* also: a file can't be read or written, too little memory */
    EXIT_CHECK_FAILED = 2,
    EXIT_NO_DEVICE = 3,
    EXIT_DEVICE_GONE = 4 /* timed out or device lost */
};

/* Prints "PROGRAM: rota's sentence" to stderr and returns the exit code for the status. */
int report_failure(const char *program, rota_status status);

#define REPORT_TRY(expression)                                                                               \
    do {                                                                                                     \
        rota_status report_status_ = (expression);                                                           \
        if (report_status_ != ROTA_OK) {                                                                     \
            code = report_failure(program, report_status_);                                                  \
            goto done;                                                                                       \
        }                                                                                                    \
    } while (0)

/* A runtime and its device, opened as --device says (NULL: the best); says on stdout which and why. Warnings
 * of rota's go to stderr, behind the program's name (which lives as long as both). On failure returns the
 * exit code and leaves both NULL. `id` of another form than the accepted ones is a bad argument. */
typedef struct opened_device {
    rota_runtime *runtime;
    rota_device *device;
} opened_device;
int report_open(const char *program, const char *id, const rota_runtime_options *options, opened_device *out);
/* Its two halves, for one of several ranks, of which one says it. */
int report_open_quietly(const char *program, const char *id, const rota_runtime_options *options,
                        opened_device *out);
void report_say_device(const char *id, const opened_device *opened);
void report_close(opened_device *opened);

/* {id, backend, name, driver, class, memory_bytes, compute_units}. */
cJSON *report_device(const rota_device_info *info);
const char *report_device_class(rota_device_class device_class);

/* {timestamp: now in UTC, ISO 8601}. */
cJSON *report_new(void);

/* Writes the result to `path` (NULL: nowhere) and frees it. Returns `code`, or EXIT_BAD_ARGUMENT if it can't
 * be written. */
int report_write(cJSON *result, const char *path, int code);

/* The last thing that main does. What was printed must have got out: returns `code`, or EXIT_BAD_ARGUMENT, with a
 * line that says why, if standard output did not take it, as on a full disk. Where a device was given up, whose
 * driver may wait for it in the process's exit handlers, it does not return: a line says so, and the process ends at
 * once, with EXIT_DEVICE_GONE instead of 0. */
int report_end(const char *program, int code);

/* Sorts the samples; percentile 0 to 100 by nearest rank; median as the mean of the middle two. */
typedef struct sample_stats {
    double median, least, most, p95, p99, p999;
} sample_stats;
sample_stats samples_describe(double *samples, size_t count);

#endif
