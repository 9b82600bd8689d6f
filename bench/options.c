/* Command-line options: the parser and its errors. */
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
#include "base/export.h"
#include "bench/options_print.h"

#define WORD_MAX 48 /* longer words are like no other */

/* How many letters must be put in, left out, changed or exchanged with their neighbour to make one of the other
 * (optimal string alignment). */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][WORD_MAX + 1], m = strlen(a), n = strlen(b);
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    if (m > WORD_MAX || n > WORD_MAX) return SIZE_MAX;
    for (size_t j = 0; j <= n; j++) last[j] = before[j] = j;
    for (size_t i = 1; i <= m; i++) {
        now[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t least = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < least) least = last[j] + 1;
            if (now[j - 1] + 1 < least) least = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < least)
                least = before[j - 2] + 1;
            now[j] = least;
        }
        size_t *free_row = before;
        before = last, last = now, now = free_row;
    }
    return last[n];
}

const char *options_nearest(const char *word, const char *(*word_at)(const void *user, size_t i),
                            const void *user, size_t count) {
    const char *nearest = NULL;
    const size_t length = strlen(word);
    size_t least = length < 3 ? 1 : (length + 1) / 3; /* a third of the letters may be wrong */
    for (size_t i = 0; i < count; i++) {
        const char *other = word_at(user, i);
        if (!other) continue;
        /* What begins so may be cut off; what is nearer still goes before it. */
        const size_t apart = length > 3 && strncmp(word, other, length) == 0 ? 1 : distance(word, other);
        if (apart < least || (apart == least && !nearest)) least = apart, nearest = other;
    }
    return nearest;
}

option_result options_bad(const option_table *table, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%s: ", table->program);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "; %s --help says more\n", table->program);
    return OPTIONS_BAD;
}

/* "; did you mean X?", or "". */
static const char *meant(const char *nearest, char *out_text, size_t capacity) {
    snprintf(out_text, capacity, "%s%s%s", nearest ? "; did you mean " : "", nearest ? nearest : "",
             nearest ? "?" : "");
    return out_text;
}

static const char *option_name_at(const void *user, size_t i) {
    const option_table *table = user;
    const option *o = &table->options[i];
    return options_is_row(o) && !options_is_argument(o) ? o->name : NULL;
}

/* The words of "a|b|c", by their number. */
typedef struct choice_words {
    char text[8][WORD_MAX];
    size_t count;
} choice_words;

static choice_words words_of(const char *form) {
    choice_words words = {0};
    for (; *form && words.count < sizeof words.text / sizeof *words.text; words.count++) {
        const size_t length = strcspn(form, "|");
        snprintf(words.text[words.count], WORD_MAX, "%.*s", (int)length, form);
        form += length + (form[length] == '|');
    }
    return words;
}

static const char *choice_at(const void *user, size_t i) {
    return ((const choice_words *)user)->text[i];
}

/* The index of `word` in "a|b|c", or -1. */
static int choice_index(const char *form, const char *word) {
    const size_t length = strlen(word);
    for (int index = 0; *form; index++) {
        const size_t part = strcspn(form, "|");
        if (part == length && memcmp(form, word, part) == 0) return index;
        form += part;
        if (*form == '|') form++;
    }
    return -1;
}

static bool parse_count(const option *o, const char *text) {
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {{"", 1},
                 {"K", 1000},
                 {"M", 1000000},
                 {"G", 1000000000},
                 {"T", 1000000000000},
                 {"Ki", UINT64_C(1) << 10},
                 {"Mi", UINT64_C(1) << 20},
                 {"Gi", UINT64_C(1) << 30},
                 {"Ti", UINT64_C(1) << 40}};
    if (*text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    size_t unit = 0;
    while (unit < sizeof units / sizeof *units && strcmp(units[unit].name, end) != 0) unit++;
    if (errno || unit == sizeof units / sizeof *units ||
        __builtin_mul_overflow(value, units[unit].factor, &value))
        return false;
    if ((double)value < o->least || (double)value > o->most) return false;
    /* A double is not exact beyond 2^53. */
    if (o->most < 0x1p64 && value > (uint64_t)o->most) return false;
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

static option_result take_choice(const option_table *table, const option *o, const char *text) {
    const int index = choice_index(o->form, text);
    if (index >= 0) {
        *(int *)o->value = index;
        return OPTIONS_OK;
    }
    char hint[WORD_MAX + 32];
    const choice_words words = words_of(o->form);
    meant(options_nearest(text, choice_at, &words, words.count), hint, sizeof hint);
    return options_bad(table, "%s takes %s, not '%s'%s", o->name, o->form, text, hint);
}

/* An argument's value; OPTIONS_OK: it is taken. */
static option_result take_value(const option_table *table, const option *o, const char *text) {
    switch (o->kind) {
    case OPTION_OPTIONAL:
        *(const char **)o->value = text;
        return OPTIONS_OK;
    case OPTION_STRING:
    case OPTION_OUTPUT:
        if (!*text) return options_bad(table, "%s takes %s, not ''", o->name, o->form);
        *(const char **)o->value = text;
        const int error = o->kind == OPTION_OUTPUT ? output_error(text) : 0;
        if (!error) return OPTIONS_OK;
        fprintf(stderr, "%s: %s: '%s' can't be written: %s\n", table->program, o->name, text,
                strerror(error));
        return OPTIONS_BAD;
    case OPTION_CHOICE:
        return take_choice(table, o, text);
    case OPTION_COUNT:
        if (parse_count(o, text)) return OPTIONS_OK;
        return options_bad(
            table,
            "%s takes a whole number from %.0f to %.0f, after which K, M, G, T, Ki, Mi, Gi or Ti may "
            "stand, not '%s'",
            o->name, o->least, o->most, text);
    case OPTION_REAL:
        if (parse_real(o, text)) return OPTIONS_OK;
        return options_bad(table, "%s takes a number from %g to %g, not '%s'", o->name, o->least, o->most,
                           text);
    case OPTION_FLAG:
    case OPTION_HEADING:
        break;
    }
    return OPTIONS_OK;
}

/* The option that an argument names, with the value that stands behind a '=' in it, or NULL; NULL: it names none. */
static const option *find(const option_table *table, const char *argument, const char **out_value) {
    const size_t length = strcspn(argument, "=");
    *out_value = argument[length] ? argument + length + 1 : NULL;
    for (size_t i = 0; i < table->option_count; i++) {
        const option *o = &table->options[i];
        if (!options_is_row(o) || options_is_argument(o)) continue;
        if (strlen(o->name) == length && memcmp(o->name, argument, length) == 0) return o;
    }
    return NULL;
}

/* Whether the value of the option that argv[a] names is the argument after it; NULL there: that is missing. */
static bool takes_next(const option *o, const char *value, const char *next) {
    if (!o || o->kind == OPTION_FLAG || value) return false;
    return o->kind != OPTION_OPTIONAL || (next && next[0] != '-');
}

/* The index of the next argument that may be an option. */
static int step_over(const option_table *table, int argc, char **argv, int a) {
    const char *value;
    const option *o = find(table, argv[a], &value);
    return a + (takes_next(o, value, a + 1 < argc ? argv[a + 1] : NULL) ? 2 : 1);
}

bool options_given(const option_table *table, int argc, char **argv, const char *name) {
    const char *value;
    for (int a = 0; a < argc; a = step_over(table, argc, argv, a)) {
        const option *o = find(table, argv[a], &value);
        if (o && strcmp(o->name, name) == 0) return true;
    }
    return false;
}

int options_before_rest(const option_table *table, int argc, char **argv) {
    int a = 0;
    while (a < argc && argv[a][0] == '-' && argv[a][1]) {
        if (strcmp(argv[a], "--") == 0) return a + 1;
        /* --print has a value, too, though it is no row. */
        a = strcmp(argv[a], "--print") == 0 ? a + 2 : step_over(table, argc, argv, a);
    }
    return a < argc ? a : argc;
}

/* --help, --version and --print, which every program has. OPTIONS_OK: none of them is there. */
static option_result print_asked(const option_table *table, int argc, char **argv) {
    for (int a = 0; a < argc; a = step_over(table, argc, argv, a)) {
        if (strcmp(argv[a], "--help") == 0 || strcmp(argv[a], "-h") == 0) {
            options_print_help(stdout, table);
            return OPTIONS_HELP;
        }
        if (strcmp(argv[a], "--version") == 0) {
            printf("%.*s %d.%d.%d\n", (int)strcspn(table->program, " "), table->program, ROTA_VERSION_MAJOR,
                   ROTA_VERSION_MINOR, ROTA_VERSION_PATCH);
            return OPTIONS_HELP;
        }
        if (strcmp(argv[a], "--print") != 0) continue;
        for (int f = 0; a + 1 < argc && f < OPTIONS_FORMATS; f++)
            if (strcmp(argv[a + 1], options_format_names[f]) == 0) {
                options_print(stdout, table, (options_format)f);
                return OPTIONS_HELP;
            }
        return options_bad(table, "--print takes man|bash|zsh|fish, not '%s'",
                           a + 1 < argc ? argv[a + 1] : "");
    }
    return OPTIONS_OK;
}

/* argv[*a], and the argument after it where that is its value. */
static option_result take_option(const option_table *table, int argc, char **argv, int *a, uint64_t *seen) {
    const char *value;
    const option *o = find(table, argv[*a], &value);
    if (!o) {
        char hint[WORD_MAX + 32], word[WORD_MAX];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(argv[*a], "="), argv[*a]);
        meant(options_nearest(word, option_name_at, table, table->option_count), hint, sizeof hint);
        return options_bad(table, "unknown option '%s'%s", argv[*a], hint);
    }
    *seen |= o->required ? (uint64_t)1 << (o - table->options) : 0;
    if (o->kind == OPTION_FLAG) {
        if (value) return options_bad(table, "%s takes no value, not '%s'", o->name, value);
        *(bool *)o->value = true;
        return OPTIONS_OK;
    }
    const char *next = *a + 1 < argc ? argv[*a + 1] : NULL;
    if (o->kind == OPTION_OPTIONAL && !value && !takes_next(o, value, next)) value = "";
    if (!value) {
        if (!next) return options_bad(table, "%s needs a value: %s", o->name, o->form);
        value = next;
        ++*a;
    }
    return take_value(table, o, value);
}

option_result options_parse(const option_table *table, int argc, char **argv) {
    const option_result asked = print_asked(table, argc, argv);
    if (asked != OPTIONS_OK) return asked;
    uint64_t seen = 0; /* of what is required: such a row is one of the first 64 */
    size_t next = 0;   /* the first row that an argument without a name may be */
    for (int a = 0; a < argc; a++) {
        option_result taken;
        if (argv[a][0] == '-' && argv[a][1]) {
            taken = take_option(table, argc, argv, &a, &seen);
        } else {
            while (next < table->option_count && !options_is_argument(&table->options[next])) next++;
            if (next == table->option_count)
                return options_bad(table, "what is '%s'? It takes no such argument", argv[a]);
            seen |= table->options[next].required ? (uint64_t)1 << next : 0;
            taken = take_value(table, &table->options[next++], argv[a]);
        }
        if (taken != OPTIONS_OK) return taken;
    }
    for (size_t i = 0; i < table->option_count; i++)
        if (table->options[i].required && !(seen >> i & 1))
            return options_bad(table, "%s%s%s is needed", table->options[i].name,
                               options_is_argument(&table->options[i]) ? "" : " ",
                               options_is_argument(&table->options[i]) ? "" : table->options[i].form);
    return OPTIONS_OK;
}
