/* The command line of the small examples: what the linker calls in the place of their main (--wrap=main), so that each
 * of them is a program as its reader would write it, and still has --help, errors that name what is wrong, and
 * completions. Which example it is, BASICS_NAME says; its table is here. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "bench/options.h"
#include "bench/report.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static const char *text; /* the examples read their arguments themselves */
static uint64_t threads = 8, rounds = 1000;

#define EXIT_CODES "0 good, else not"
#define ROW_DEVICE                                                                                           \
    {                                                                                                        \
        "DEVICE", OPTION_STRING, &text, OPTION_DEVICES, 0, 0, false,                                         \
            "where it runs; by default the best device"                                                      \
    }

static const option device_rows[] = {ROW_DEVICE};
static const option thread_rows[] = {
    ROW_DEVICE,
    {"THREADS", OPTION_COUNT, &threads, "N", 1, 64, false, "threads that submit"},
    {"ROUNDS", OPTION_COUNT, &rounds, "N", 1, 1e5, false, "submissions of each"}};

static const option_table tables[] = {
    {"axpy", "2 x + y on the best device, in twenty lines", "axpy", NULL, 0, EXIT_CODES},
    {"quickstart", "a graph recorded once and replayed with an argument that changes", "quickstart cpu",
     device_rows, 1, EXIT_CODES},
    {"custom_kernel", "a kernel of one's own: a C function, SPIR-V and CUDA C", "custom_kernel cpu",
     device_rows, 1, EXIT_CODES},
    {"custom_op", "an op of one's own with its gradient, and a training with it", "custom_op vk:0",
     device_rows, 1, EXIT_CODES},
    {"early_exit", "a larger classifier is asked only where a small one is unsure", "early_exit cpu",
     device_rows, 1, EXIT_CODES},
    {"concurrent", "many threads that submit at once, to the bit as one", "concurrent cpu 4 200", thread_rows,
     3, EXIT_CODES},
};

/* The examples read numbers without units. These have no options, so that an argument's position is its row's. */
static void give_numbers(const option_table *table, int argc, char **argv) {
    static char digits[4][24];
    for (int a = 1; a < argc; a++) {
        const option *o = &table->options[a - 1];
        if (o->kind != OPTION_COUNT) continue;
        snprintf(digits[a - 1], sizeof *digits, "%" PRIu64, *(const uint64_t *)o->value);
        argv[a] = digits[a - 1];
    }
}

int __wrap_main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i].program, BASICS_NAME) != 0) continue;
        const option_result parsed = options_parse(&tables[i], argc - 1, argv + 1);
        if (parsed != OPTIONS_OK)
            return parsed == OPTIONS_HELP ? report_end(BASICS_NAME, EXIT_GOOD) : EXIT_BAD_ARGUMENT;
        give_numbers(&tables[i], argc, argv);
    }
    return __real_main(argc, argv);
}
