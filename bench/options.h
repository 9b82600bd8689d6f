/* Strict command-line options: one table from which the parser, its errors and --help come. */
#ifndef ROTA_BENCH_OPTIONS_H
#define ROTA_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_STRING, /* const char *, not empty */
    OPTION_OUTPUT, /* the same: a file to be written, which is refused here already where it can't be */
    OPTION_COUNT,  /* uint64_t between least and most */
    OPTION_REAL,   /* double between least and most */
    OPTION_CHOICE  /* int: which word of `form`, counted from 0; form is "a|b|c" */
} option_kind;

typedef struct option {
    const char *name; /* with its dashes */
    option_kind kind;
    void *value;
    const char *form; /* what the value looks like: FILE, N, f32|f16|bf16; NULL for flags */
    double least, most;
    bool required;
} option;

typedef enum option_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_BAD } option_result;

/* Reads argv[0..argc). A bad argument prints one line that names it and what is accepted, to stderr; --help
 * prints the table to stdout. No option may be given twice. Strings are borrowed from argv. */
option_result options_parse(const char *program, const option *options, size_t option_count, int argc,
                            char **argv);

/* Prints "PROGRAM: " and the sentence, then the accepted options, to stderr; returns OPTIONS_BAD. */
option_result options_bad(const char *program, const option *options, size_t option_count, const char *format,
                          ...) __attribute__((format(printf, 4, 5)));

#endif
