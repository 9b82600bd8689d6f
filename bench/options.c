/* Strict command-line options: one table from which the parser, its errors and --help come. */
#include "bench/options.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void print_accepted(FILE *stream, const option *options, size_t option_count) {
    fprintf(stream, "accepted:");
    for (size_t i = 0; i < option_count; i++) {
        const option *o = &options[i];
        fprintf(stream, o->required ? " %s" : " [%s", o->name);
        if (o->form) fprintf(stream, " %s", o->form);
        if (!o->required) fputc(']', stream);
    }
    fputc('\n', stream);
}

option_result options_bad(const char *program, const option *options, size_t option_count, const char *format,
                          ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, list);
    fputs("; ", stderr);
    va_end(list);
    print_accepted(stderr, options, option_count);
    return OPTIONS_BAD;
}

/* The place of `word` in "a|b|c", or -1. */
static int choice_index(const char *form, const char *word) {
    size_t length = strlen(word);
    for (int index = 0; *form; index++) {
        size_t part = strcspn(form, "|");
        if (part == length && memcmp(form, word, part) == 0) return index;
        form += part;
        if (*form == '|') form++;
    }
    return -1;
}

static bool parse_count(const option *o, const char *text) {
    if (*text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || (double)value < o->least || (double)value > o->most) return false;
    /* A double is not exact beyond 2^53. */
    if (o->most < 0x1p64 && value > (unsigned long long)o->most) return false;
    *(uint64_t *)o->value = value;
    return true;
}

static bool parse_real(const option *o, const char *text) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || errno || *end || !isfinite(value) || value < o->least || value > o->most) return false;
    *(double *)o->value = value;
    return true;
}

/* 0, or the error that writing the file would meet: known before the work whose result it is to hold. */
static int output_error(const char *path) {
    struct stat status;
    if (stat(path, &status) == 0)
        return S_ISDIR(status.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
    if (errno != ENOENT) return errno;
    char *copy = strdup(path);
    if (!copy) return ENOMEM;
    const int error = access(dirname(copy), W_OK | X_OK) == 0 ? 0 : errno;
    free(copy);
    return error;
}

/* An argument's value; OPTIONS_OK: it is taken. */
static option_result take_value(const char *program, const option *options, size_t option_count,
                                const option *o, const char *text) {
    switch (o->kind) {
    case OPTION_STRING:
    case OPTION_OUTPUT:
        *(const char **)o->value = text;
        if (!*text)
            return options_bad(program, options, option_count, "%s takes %s, not ''", o->name, o->form);
        const int error = o->kind == OPTION_OUTPUT ? output_error(text) : 0;
        if (!error) return OPTIONS_OK;
        fprintf(stderr, "%s: %s: '%s' can't be written: %s\n", program, o->name, text, strerror(error));
        return OPTIONS_BAD;
    case OPTION_CHOICE:
        *(int *)o->value = choice_index(o->form, text);
        if (*(int *)o->value >= 0) return OPTIONS_OK;
        return options_bad(program, options, option_count, "%s takes %s, not '%s'", o->name, o->form, text);
    case OPTION_COUNT:
        if (parse_count(o, text)) return OPTIONS_OK;
        return options_bad(program, options, option_count,
                           "%s takes a whole number from %.0f to %.0f, not '%s'", o->name, o->least, o->most,
                           text);
    case OPTION_REAL:
        if (parse_real(o, text)) return OPTIONS_OK;
        return options_bad(program, options, option_count, "%s takes a number from %g to %g, not '%s'",
                           o->name, o->least, o->most, text);
    case OPTION_FLAG:
        break;
    }
    return OPTIONS_OK;
}

option_result options_parse(const char *program, const option *options, size_t option_count, int argc,
                            char **argv) {
    uint64_t seen = 0;
    for (int a = 0; a < argc; a++) {
        if (strcmp(argv[a], "--help") == 0) {
            printf("%s ", program);
            print_accepted(stdout, options, option_count);
            return OPTIONS_HELP;
        }
        const option *o = NULL;
        for (size_t i = 0; i < option_count && !o; i++)
            if (strcmp(options[i].name, argv[a]) == 0) o = &options[i];
        if (!o) return options_bad(program, options, option_count, "unknown argument '%s'", argv[a]);
        uint64_t bit = (uint64_t)1 << (o - options);
        if (seen & bit) return options_bad(program, options, option_count, "%s is given twice", o->name);
        seen |= bit;
        if (o->kind == OPTION_FLAG) {
            *(bool *)o->value = true;
            continue;
        }
        if (a + 1 == argc)
            return options_bad(program, options, option_count, "%s needs a value: %s", o->name, o->form);
        const option_result taken = take_value(program, options, option_count, o, argv[++a]);
        if (taken != OPTIONS_OK) return taken;
    }
    for (size_t i = 0; i < option_count; i++)
        if (options[i].required && !(seen >> i & 1))
            return options_bad(program, options, option_count, "%s %s is needed", options[i].name,
                               options[i].form);
    return OPTIONS_OK;
}
