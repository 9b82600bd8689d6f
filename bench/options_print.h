/* What of a table of options is printed. For bench/options.c, and for rota-bench, whose commands have a table each. */
#ifndef ROTA_BENCH_OPTIONS_PRINT_H
#define ROTA_BENCH_OPTIONS_PRINT_H

#include <stdio.h>
#include "bench/options.h"

#define OPTIONS_HELP_COLUMNS 100
#define OPTIONS_EXIT_CODES                                                                                   \
    "0 good, 1 bad argument, 2 a check failed, 3 no usable device, 4 timed out or device lost" /* report.h */

/* What follows --print; the words are also what packages name the files by. */
typedef enum options_format {
    OPTIONS_MAN,
    OPTIONS_BASH,
    OPTIONS_ZSH,
    OPTIONS_FISH,
    OPTIONS_FORMATS
} options_format;
extern const char *const options_format_names[OPTIONS_FORMATS];

/* Words in lines of at most OPTIONS_HELP_COLUMNS, from column `at` on and then indented by `indent`; ends the line. */
void options_print_wrapped(FILE *stream, size_t column, size_t indent, const char *text);
void options_print_help(FILE *stream, const option_table *table);
/* " (default 12)", or "" where the default is to have none. */
void options_default(const option *o, char *out_text, size_t capacity);
/* Whether a row is an option or an argument; and which of the two. */
bool options_is_row(const option *o);
bool options_is_argument(const option *o);

/* A whole page or script; of a command of a program (a blank is in its name) its part of the program's. */
void options_print(FILE *stream, const option_table *table, options_format format);

/* What stands before and after the commands' parts. `commands` are rows of kind OPTION_HEADING, whose names are the
 * commands' and whose texts say what they do. */
void options_print_begin(FILE *stream, const option_table *commands, options_format format);
void options_print_end(FILE *stream, const option_table *commands, options_format format);

/* ---- Of the two files that do this ---- */

void options_man(FILE *stream, const option_table *table);
void options_man_begin(FILE *stream, const option_table *commands);
void options_man_end(FILE *stream, const option_table *commands);

#endif
