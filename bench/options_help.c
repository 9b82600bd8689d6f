/* What --help prints, and manual pages. */
#include <stdlib.h>
#include <string.h>
#include "base/export.h"
#include "bench/options_print.h"

#define INDENT 2
#define TEXT_COLUMN 30        /* of --help: where what an option does begins */
#define MAN_DATE "2026-11-25" /* when these pages last said something else in earnest */

const char *const options_format_names[OPTIONS_FORMATS] = {"man", "bash", "zsh", "fish"};

bool options_is_row(const option *o) {
    return o->kind != OPTION_HEADING;
}

bool options_is_argument(const option *o) {
    return options_is_row(o) && o->name[0] != '-';
}

static bool is_command(const option_table *table) {
    return strchr(table->program, ' ') != NULL;
}

void options_print_wrapped(FILE *stream, size_t column, size_t indent, const char *text) {
    for (bool first = true; *text; first = false) {
        const size_t length = strcspn(text, " ");
        if (!first && column + 1 + length > OPTIONS_HELP_COLUMNS) {
            fprintf(stream, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', stream);
            column++;
        }
        fwrite(text, 1, length, stream);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}

void options_default(const option *o, char *out_text, size_t capacity) {
    char value[64] = "";
    switch (o->kind) {
    case OPTION_COUNT:
        if ((double)*(const uint64_t *)o->value >= o->least)
            snprintf(value, sizeof value, "%llu", (unsigned long long)*(const uint64_t *)o->value);
        break;
    case OPTION_REAL:
        snprintf(value, sizeof value, "%g", *(const double *)o->value);
        break;
    case OPTION_OPTIONAL:
    case OPTION_STRING:
    case OPTION_OUTPUT:
        if (*(const char *const *)o->value)
            snprintf(value, sizeof value, "%s", *(const char *const *)o->value);
        break;
    case OPTION_CHOICE: {
        const char *word = o->form;
        for (int i = *(const int *)o->value; i > 0 && *word; i--) {
            word += strcspn(word, "|");
            word += *word == '|';
        }
        if (*(const int *)o->value >= 0) snprintf(value, sizeof value, "%.*s", (int)strcspn(word, "|"), word);
        break;
    }
    case OPTION_FLAG:
    case OPTION_HEADING:
        break;
    }
    snprintf(out_text, capacity, "%s%s%s", *value ? " (default " : "", value, *value ? ")" : "");
}

/* The arguments that have their positions: " DEVICE [THREADS]". */
static void usage_arguments(const option_table *table, char *out_text, size_t capacity) {
    size_t used = 0;
    out_text[0] = 0;
    for (size_t i = 0; i < table->option_count && used < capacity; i++) {
        const option *o = &table->options[i];
        if (options_is_argument(o))
            used +=
                (size_t)snprintf(out_text + used, capacity - used, o->required ? " %s" : " [%s]", o->name);
    }
}

static void help_row(FILE *stream, const char *name, const char *form, const char *text,
                     const char *fallback) {
    const int width = fprintf(stream, "%*s%s%s%s", INDENT, "", name, form ? " " : "", form ? form : "");
    if (width + 2 > TEXT_COLUMN)
        fprintf(stream, "\n%*s", TEXT_COLUMN, "");
    else
        fprintf(stream, "%*s", TEXT_COLUMN - width, "");
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", text, fallback);
    options_print_wrapped(stream, TEXT_COLUMN, TEXT_COLUMN, whole);
}

static const char *exit_codes(const option_table *table) {
    return table->exit_codes ? table->exit_codes : OPTIONS_EXIT_CODES;
}

static void help_notes(FILE *stream, const option_table *table) {
    bool counts = false, options = false;
    for (size_t i = 0; i < table->option_count; i++) {
        counts |= table->options[i].kind == OPTION_COUNT;
        options |= options_is_row(&table->options[i]) && !options_is_argument(&table->options[i]);
    }
    if (counts)
        fputs("\nAfter the digits of a whole number K, M, G, T (thousands) or Ki, Mi, Gi, Ti (1024) may "
              "stand.\n",
              stream);
    if (options)
        fprintf(stream, "%sOf an option that is given twice the last value counts.\n", counts ? "" : "\n");
}

void options_print_help(FILE *stream, const option_table *table) {
    char text[512];
    snprintf(text, sizeof text, "%s: %s", table->program, table->summary);
    options_print_wrapped(stream, 0, 0, text);
    usage_arguments(table, text, sizeof text);
    fprintf(stream, "usage: %s [OPTION ...]%s\n", table->program, text);
    bool headed = false;
    for (size_t i = 0; i < table->option_count; i++) {
        const option *o = &table->options[i];
        if (!options_is_row(o) || !headed)
            fprintf(stream, "\n%s:\n", options_is_row(o) ? "Options" : o->name);
        headed = true;
        if (!options_is_row(o)) continue;
        options_default(o, text, sizeof text);
        help_row(stream, o->name, options_is_argument(o) ? NULL : o->form, o->text,
                 o->required ? " (needed)" : text);
    }
    fputs("\nAbout the program:\n", stream);
    help_row(stream, "--help", NULL, "print this", "");
    help_row(stream, "--version", NULL, "print the version", "");
    if (!is_command(table))
        help_row(stream, "--print", "man|bash|zsh|fish", "print the manual page, or a shell's completion",
                 "");
    help_notes(stream, table);
    if (table->examples) fprintf(stream, "\nExamples:\n");
    for (const char *line = table->examples; line && *line;) {
        const size_t length = strcspn(line, "\n");
        fprintf(stream, "  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    fprintf(stream, "\nexit codes: %s\n", exit_codes(table));
}

/* ---- Manual pages, in man(7) ---- */

/* As it stands: no minus becomes a hyphen, no first dot a request. `wrap`: in lines of at most 78 letters or so. */
static void man_text(FILE *stream, const char *text, size_t length, bool wrap) {
    for (size_t i = 0, column = 0; i < length && text[i]; i++) {
        if (wrap && text[i] == ' ' && column + strcspn(text + i + 1, " ") > 72) {
            fputc('\n', stream);
            column = 0;
            continue;
        }
        if ((text[i] == '.' || text[i] == '\'') && column == 0) fputs("\\&", stream);
        const bool special = text[i] == '-' || text[i] == '\\';
        if (special)
            fputs(text[i] == '-' ? "\\-" : "\\e", stream);
        else
            fputc(text[i], stream);
        column += special ? 2 : 1;
    }
}

static void man_string(FILE *stream, const char *text) {
    man_text(stream, text, SIZE_MAX, true);
}

static void man_examples(FILE *stream, const char *examples) {
    fputs(".nf\n", stream);
    for (const char *line = examples; *line;) {
        const size_t length = strcspn(line, "\n");
        man_text(stream, line, length, false);
        fputc('\n', stream);
        line += length + (line[length] == '\n');
    }
    fputs(".fi\n", stream);
}

static void man_row(FILE *stream, const char *name, const char *form, const char *text) {
    fputs(".TP\n\\fB", stream);
    man_string(stream, name);
    fputs("\\fP", stream);
    if (form) {
        fputs(" \\fI", stream);
        man_string(stream, form);
        fputs("\\fP", stream);
    }
    fputc('\n', stream);
    man_string(stream, text);
    fputc('\n', stream);
}

static void man_option(FILE *stream, const option *o) {
    char text[1024], fallback[256], range[128] = "";
    options_default(o, fallback, sizeof fallback);
    if (o->kind == OPTION_COUNT) snprintf(range, sizeof range, "; from %.0f to %.0f", o->least, o->most);
    if (o->kind == OPTION_REAL) snprintf(range, sizeof range, "; from %g to %g", o->least, o->most);
    snprintf(text, sizeof text, "%s%s%s", o->text, range, o->required ? " (needed)" : fallback);
    man_row(stream, o->name, options_is_argument(o) ? NULL : o->form, text);
}

static void man_options(FILE *stream, const option_table *table) {
    for (size_t i = 0; i < table->option_count; i++) {
        const option *o = &table->options[i];
        if (options_is_row(o))
            man_option(stream, o);
        else if (is_command(table)) /* inside a subsection */
            fprintf(stream, ".PP\n%s:\n", o->name);
        else
            fprintf(stream, ".SS %s\n", o->name);
    }
}

static void man_head(FILE *stream, const option_table *table, const char *usage) {
    char title[64];
    snprintf(title, sizeof title, "%s", table->program);
    for (char *c = title; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    fputs(".TH ", stream);
    man_string(stream, title);
    fprintf(stream, " 1 " MAN_DATE " \"rota %d.%d.%d\" \"rota\"\n.SH NAME\n", ROTA_VERSION_MAJOR,
            ROTA_VERSION_MINOR, ROTA_VERSION_PATCH);
    man_string(stream, table->program);
    fputs(" \\- ", stream);
    man_string(stream, table->summary);
    fputs("\n.SH SYNOPSIS\n\\fB", stream);
    man_string(stream, table->program);
    fprintf(stream, "\\fP%s\n", usage);
}

static void man_foot(FILE *stream, const option_table *table) {
    fputs(".SH NUMBERS\nAfter the digits of a whole number K, M, G, T (thousands) or Ki, Mi, Gi, Ti\n"
          "(1024) may stand. Of an option that is given twice the last value counts.\n.SH EXIT STATUS\n",
          stream);
    man_string(stream, exit_codes(table));
    fputs("\n.SH ENVIRONMENT\n.TP\n\\fBXDG_CACHE_HOME\\fP, \\fBHOME\\fP\n"
          "where compiled pipelines and measurements are kept: in\n"
          "$XDG_CACHE_HOME/rota, else in $HOME/.cache/rota\n",
          stream);
}

static void man_about(FILE *stream) {
    man_row(stream, "--help", NULL, "print the options");
    man_row(stream, "--version", NULL, "print the version");
    man_row(stream, "--print", "man|bash|zsh|fish", "print this page, or a shell's completion");
}

void options_man(FILE *stream, const option_table *table) {
    if (is_command(table)) {
        fputs(".SS ", stream);
        man_string(stream, table->program);
        fputc('\n', stream);
        man_string(stream, table->summary);
        fputs(".\n", stream);
        man_options(stream, table);
        if (table->examples) fputs(".PP\nExamples:\n", stream);
        if (table->examples) man_examples(stream, table->examples);
        return;
    }
    char usage[512];
    usage_arguments(table, usage, sizeof usage);
    char whole[600];
    snprintf(whole, sizeof whole, " [\\fIOPTION\\fP ...]%s", usage);
    man_head(stream, table, whole);
    fputs(".SH OPTIONS\n", stream);
    man_options(stream, table);
    fputs(".SS About the program\n", stream);
    man_about(stream);
    if (table->examples) fputs(".SH EXAMPLES\n", stream);
    if (table->examples) man_examples(stream, table->examples);
    man_foot(stream, table);
}

void options_man_begin(FILE *stream, const option_table *commands) {
    man_head(stream, commands, " \\fICOMMAND\\fP [\\fIOPTION\\fP ...]");
    fputs(".SH COMMANDS\n", stream);
    for (size_t i = 0; i < commands->option_count; i++)
        man_row(stream, commands->options[i].name, NULL, commands->options[i].text);
    fputs(".SH OPTIONS OF ALL COMMANDS\n", stream);
    man_about(stream);
    fputs(".SH COMMANDS WITH THEIR OPTIONS\n", stream);
}

void options_man_end(FILE *stream, const option_table *commands) {
    if (commands->examples) fputs(".SH EXAMPLES\n", stream);
    if (commands->examples) man_examples(stream, commands->examples);
    man_foot(stream, commands);
}
