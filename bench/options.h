/* Command-line options: one table a program, from which come the parser, its errors, --help, the manual page and the
 * completions of bash, zsh and fish. */
#ifndef ROTA_BENCH_OPTIONS_H
#define ROTA_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_HEADING,  /* no option: what the rows after it are about; `name` alone */
    OPTION_FLAG,     /* bool */
    OPTION_STRING,   /* const char *, not empty */
    OPTION_OPTIONAL, /* const char *: the next argument where it does not begin with '-', else "" */
    OPTION_OUTPUT,   /* a string: a file to be written, which is refused here already where it can't be */
    OPTION_COUNT,    /* uint64_t between least and most; K, M, G, T, Ki, Mi, Gi, Ti may follow its digits */
    OPTION_REAL,     /* double between least and most */
    OPTION_CHOICE    /* int: which word of `form`, counted from 0; form is "a|b|c" */
} option_kind;

typedef struct option {
    const char
        *name; /* with its dashes; without: an argument that has its position, as in `quickstart DEVICE` */
    option_kind kind;
    void *value;      /* what it holds before the parse is the default that --help shows */
    const char *form; /* what the value looks like: FILE, SECONDS, f32|f16|bf16; NULL for flags */
    double least, most;
    bool required;
    const char *text; /* what it does, as a phrase: "steps to train" */
} option;

typedef struct option_table {
    const char *program;  /* "train_gpt"; with a blank, a command of a program: "rota-bench plan" */
    const char *summary;  /* what it does, as a phrase */
    const char *examples; /* lines of what is typed; NULL: none */
    const option *options;
    size_t option_count;
    const char *exit_codes; /* NULL: those of bench/report.h */
} option_table;

/* Rows that many programs have. */
#define OPTION_DEVICES "auto|cpu|vk:N|cuda:N"
#define OPTION_ROW_HEADING(words)                                                                            \
    { .name = words, .kind = OPTION_HEADING }
#define OPTION_ROW_DEVICE(variable)                                                                          \
    {                                                                                                        \
        "--device", OPTION_STRING, &(variable), OPTION_DEVICES, 0, 0, false,                                 \
            "where it runs; auto, the default: the best device that passes its smoke test"                   \
    }
#define OPTION_ROW_OUT(variable)                                                                             \
    { "--out", OPTION_OUTPUT, &(variable), "FILE", 0, 0, false, "write the result there as JSON" }
#define OPTION_ROW_SAVE(variable)                                                                            \
    { "--save", OPTION_OUTPUT, &(variable), "FILE", 0, 0, false, "write the graph there, for rota-bench run" }
#define OPTION_ROW_TRACE(variable)                                                                           \
    {                                                                                                        \
        "--trace", OPTION_OUTPUT, &(variable), "FILE", 0, 0, false,                                          \
            "write there when each node of the last replay ran, as a Chrome trace"                           \
    }

#define OPTION_ROW_CAPTURE(variable)                                                                         \
    {                                                                                                        \
        "--capture", OPTION_STRING, &(variable), "FOLDER", 0, 0, false,                                      \
            "save each graph that is compiled to a file there, with what its buffers hold, for "             \
            "rota-bench run"                                                                                 \
    }
#define OPTION_ROW_PROFILE(variable)                                                                         \
    {                                                                                                        \
        "--profile", OPTION_FLAG, &(variable), NULL, 0, 0, false,                                            \
            "print at the end what a step takes by kind of node, the share of the device's peaks that each " \
            "reaches, and what bounds it"                                                                    \
    }
/* Of the runtime's options: what --capture asks for. */
#define OPTION_CAPTURED(variable)                                                                            \
    .compiled = (variable) ? rota_capture_contents : NULL, .compiled_user = (void *)(uintptr_t)(variable)

#define OPTION_ROW_DEBUG_NAMES(variable)                                                                     \
    {                                                                                                        \
        "--debug-names", OPTION_FLAG, &(variable), NULL, 0, 0, false,                                        \
            "names of plans and nodes for RenderDoc and Nsight (VK_EXT_debug_utils, NVTX)"                   \
    }

typedef enum option_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_BAD } option_result;

/* Reads argv[0..argc): "--name value" or "--name=value"; of an option that is given twice the last value counts. A
 * bad argument prints one line to stderr, which names it, what it takes, and what was meant perhaps. --help,
 * --version and --print man|bash|zsh|fish, wherever they stand, print to stdout, and nothing else is looked at
 * (OPTIONS_HELP). Strings are borrowed from argv. */
option_result options_parse(const option_table *table, int argc, char **argv);

/* Whether an option of this name is among the arguments, which were parsed. */
bool options_given(const option_table *table, int argc, char **argv, const char *name);

/* How many arguments there are up to the first that is neither an option nor an option's value, without it: of a
 * program that takes another one's command line behind its own options. "--" ends the options, and is counted. */
int options_before_rest(const option_table *table, int argc, char **argv);

/* Prints "PROGRAM: ", the sentence, and how to get help, in one line to stderr; returns OPTIONS_BAD. */
option_result options_bad(const option_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Which of `count` words is most like this one, so that it may have been meant; NULL: none is. Takes word(i). */
const char *options_nearest(const char *word, const char *(*word_at)(const void *user, size_t i),
                            const void *user, size_t count);

#endif
