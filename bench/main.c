/* rota-bench: measures rota and shows what it does. rota-bench COMMAND [OPTIONS] */
#include <stdio.h>
#include <string.h>
#include "bench/commands.h"
#include "bench/report.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} commands[] = {
#define COMMAND(name, text) {#name, bench_##name, text},
    BENCH_COMMANDS(COMMAND)
#undef COMMAND
};

static void list_commands(FILE *stream) {
    fprintf(stream, "rota-bench COMMAND [OPTIONS]; each command takes --help\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stream, "  %-8s %s\n", commands[i].name, commands[i].text);
    fprintf(stream, "exit codes: 0 good, 1 bad argument, 2 a check failed, 3 no usable device, 4 timed out "
                    "or device lost\n");
}

int main(int argc, char **argv) {
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
        list_commands(stdout);
        return EXIT_GOOD;
    }
    for (size_t i = 0; argc >= 2 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, argv[1]) == 0)
            return report_end("rota-bench", commands[i].run(argc - 2, argv + 2));
    if (argc >= 2)
        fprintf(stderr, "rota-bench: unknown command '%s'\n", argv[1]);
    else
        fprintf(stderr, "rota-bench: which command?\n");
    list_commands(stderr);
    return EXIT_BAD_ARGUMENT;
}
