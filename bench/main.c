/* rota-bench: measures rota and shows what it does. rota-bench COMMAND [OPTIONS] */
#include <stdio.h>
#include <string.h>
#include "bench/commands.h"
#include "bench/options_print.h"
#include "bench/report.h"

#define COMMAND_ROW(command, words) {.name = #command, .kind = OPTION_HEADING, .text = words},
static const option rows[] = {BENCH_COMMANDS(COMMAND_ROW)};
#define COMMAND_RUN(command, words) bench_##command,
static int (*const runs[])(int argc, char **argv) = {BENCH_COMMANDS(COMMAND_RUN)};
#define COMMAND_COUNT (sizeof rows / sizeof *rows)

static const option_table commands = {
    "rota-bench",
    "measures rota and shows what it does",
    "rota-bench devices\n"
    "rota-bench matmul --shapes 1024x1024x1024 --dtype f16 --out matmul.json\n"
    "rota-bench plan --graph train --nodes 100K --svg plan.svg --collapse\n"
    "rota-bench replay --help",
    rows,
    COMMAND_COUNT,
    NULL};

const char *bench_text(const char *program) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(program + sizeof "rota-bench", rows[i].name) == 0) return rows[i].text;
    return "";
}

static void list_commands(FILE *stream) {
    fprintf(stream, "rota-bench: %s\nusage: rota-bench COMMAND [OPTION ...]\n\nCommands, each with --help:\n",
            commands.summary);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(stream, "  %-12s", rows[i].name);
        options_print_wrapped(stream, 14, 14, rows[i].text);
    }
    fprintf(stream,
            "\nAbout the program:\n  --help, --version\n  --print man|bash|zsh|fish   print the manual page, "
            "or a shell's completion\n\nexit codes: " OPTIONS_EXIT_CODES "\n");
}

/* The page or script of all commands: each prints its part. */
static int print_all(int argc, char **argv) {
    int format = 0;
    while (format < OPTIONS_FORMATS && (argc != 1 || strcmp(argv[0], options_format_names[format]) != 0))
        format++;
    if (format == OPTIONS_FORMATS) {
        fprintf(stderr, "rota-bench: --print takes man|bash|zsh|fish%s%s%s\n", argc ? ", not '" : "",
                argc ? argv[0] : "", argc ? "'" : "");
        return EXIT_BAD_ARGUMENT;
    }
    options_print_begin(stdout, &commands, (options_format)format);
    for (size_t i = 0; i < COMMAND_COUNT; i++) (void)runs[i](2, (char *[]){(char[]){"--print"}, argv[0]});
    options_print_end(stdout, &commands, (options_format)format);
    return report_end("rota-bench", EXIT_GOOD);
}

static const char *command_at(const void *user, size_t i) {
    (void)user;
    return rows[i].name;
}

int main(int argc, char **argv) {
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
        list_commands(stdout);
        return report_end("rota-bench", EXIT_GOOD);
    }
    if (argc >= 2 && strcmp(argv[1], "--print") == 0) return print_all(argc - 2, argv + 2);
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) return runs[0](1, argv + 1);
    for (size_t i = 0; argc >= 2 && i < COMMAND_COUNT; i++)
        if (strcmp(rows[i].name, argv[1]) == 0) return report_end("rota-bench", runs[i](argc - 2, argv + 2));
    if (argc < 2) {
        fprintf(stderr, "rota-bench: which command?\n");
        list_commands(stderr);
        return EXIT_BAD_ARGUMENT;
    }
    const char *nearest = options_nearest(argv[1], command_at, NULL, COMMAND_COUNT);
    fprintf(stderr, "rota-bench: unknown command '%s'", argv[1]);
    if (nearest) fprintf(stderr, "; did you mean %s?", nearest);
    fprintf(stderr, "; rota-bench --help lists them\n");
    return EXIT_BAD_ARGUMENT;
}
