/* Completions of shells. A program's script has a case for each command; a program without commands is one case of
 * its own name. */
#include <string.h>
#include "bench/options_print.h"

static const char *command_of(const option_table *table) {
    const char *blank = strchr(table->program, ' ');
    return blank ? blank + 1 : table->program;
}

/* A shell function's name: '-' is no letter of one. */
static void function_name(const option_table *table, char *out_text, size_t capacity) {
    snprintf(out_text, capacity, "_%.*s", (int)strcspn(table->program, " "), table->program);
    for (char *c = out_text; *c; c++)
        if (*c == '-') *c = '_';
}

/* What a value can be, with blanks between; "": nothing that is known. Of forms like vk:N the first. */
static void value_words(const option *o, char *out_text, size_t capacity) {
    size_t used = 0;
    out_text[0] = 0;
    if (!o->form || (o->kind != OPTION_CHOICE && !strchr(o->form, '|'))) return;
    for (const char *c = o->form; *c && used + 1 < capacity; c++)
        out_text[used++] = (char)(*c == '|' ? ' ' : *c == 'N' ? '0' : *c);
    out_text[used] = 0;
}

/* Whether a value is a file or a folder. */
static bool is_path(const option *o) {
    return o->kind == OPTION_OUTPUT ||
           (o->kind == OPTION_STRING && (strncmp(o->form, "FILE", 4) == 0 || strcmp(o->form, "DIR") == 0 ||
                                         strstr(o->form, ".txt") || strstr(o->form, ".json")));
}

/* In quotes; `special` gets a backslash. */
static void quoted(FILE *stream, const char *text, const char *special) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stream);
        else
            fprintf(stream, strchr(special, *text) ? "\\%c" : "%c", *text);
    }
}

/* ---- bash ---- */

static void bash_begin(FILE *stream, const option_table *table, bool has_commands) {
    char name[64];
    function_name(table, name, sizeof name);
    fprintf(stream,
            "# bash completion of %s\n%s() {\n    local cur=${COMP_WORDS[COMP_CWORD]} "
            "prev=${COMP_WORDS[COMP_CWORD-1]} "
            "words= files=\n",
            table->program, name);
    if (!has_commands) {
        fprintf(stream, "    case %s in\n", table->program);
        return;
    }
    fputs("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '", stream);
    for (size_t i = 0; i < table->option_count; i++) fprintf(stream, "%s ", table->options[i].name);
    fputs("--help --version --print' -- \"$cur\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n",
          stream);
}

static void bash_part(FILE *stream, const option_table *table) {
    char words[256];
    fprintf(stream, "    %s)\n        words='", command_of(table));
    for (size_t i = 0; i < table->option_count; i++) {
        const option *o = &table->options[i];
        if (!options_is_row(o)) continue;
        value_words(o, words, sizeof words);
        fprintf(stream, "%s ", options_is_argument(o) ? words : o->name);
    }
    fputs("--help --version'\n        case $prev in\n", stream);
    for (size_t i = 0; i < table->option_count; i++) {
        const option *o = &table->options[i];
        if (!options_is_row(o) || options_is_argument(o) || o->kind == OPTION_FLAG) continue;
        value_words(o, words, sizeof words);
        fprintf(stream, "            %s) words='%s'%s ;;\n", o->name, words, is_path(o) ? " files=yes" : "");
    }
    fputs("        esac\n        ;;\n", stream);
}

static void bash_end(FILE *stream, const option_table *table) {
    char name[64];
    function_name(table, name, sizeof name);
    fprintf(stream,
            "    esac\n    if [ \"$prev\" = --print ]; then words='man bash zsh fish'; fi\n"
            "    COMPREPLY=($(compgen -W \"$words\" ${files:+-f} -- \"$cur\"))\n}\ncomplete -o filenames -F "
            "%s %s\n",
            name, table->program);
}

/* ---- zsh ---- */

static void zsh_begin(FILE *stream, const option_table *table, bool has_commands) {
    fprintf(stream, "#compdef %s\n", table->program);
    if (!has_commands) {
        fprintf(stream, "case %s in\n", table->program);
        return;
    }
    fputs("local curcontext=\"$curcontext\" state line\nlocal -a commands\ncommands=(\n", stream);
    for (size_t i = 0; i < table->option_count; i++) {
        fprintf(stream, "    '%s:", table->options[i].name);
        quoted(stream, table->options[i].text, ":");
        fputs("'\n", stream);
    }
    fputs(")\n_arguments -C '--help[print the commands]' '--version[print the version]' "
          "'--print[print the manual page, or a completion]:what:(man bash zsh fish)' "
          "'1:command:->command' '*::option:->option'\n"
          "case $state in\ncommand) _describe command commands; return ;;\n*) ;;\nesac\ncase $line[1] in\n",
          stream);
}

static void zsh_value(FILE *stream, const option *o) {
    char words[256];
    value_words(o, words, sizeof words);
    fputc(':', stream);
    quoted(stream, o->form, ":[]\\");
    fputc(':', stream);
    if (is_path(o))
        fputs("_files", stream);
    else if (words[0]) {
        fputc('(', stream);
        quoted(stream, words, ":");
        fputc(')', stream);
    } else
        fputc(' ', stream);
}

static void zsh_part(FILE *stream, const option_table *table) {
    fprintf(stream, "%s)\n    _arguments", command_of(table));
    for (size_t i = 0, position = 1; i < table->option_count; i++) {
        const option *o = &table->options[i];
        if (!options_is_row(o)) continue;
        fputs(" \\\n        '", stream);
        if (options_is_argument(o))
            fprintf(stream, "%zu", position++);
        else {
            fprintf(stream, "%s[", o->name);
            quoted(stream, o->text, ":[]\\");
            fputc(']', stream);
        }
        if (o->kind != OPTION_FLAG) zsh_value(stream, o);
        fputc('\'', stream);
    }
    fputs(" \\\n        '--help[print the options]' '--version[print the version]'", stream);
    if (!strchr(table->program, ' '))
        fputs(" '--print[print the manual page, or a completion]:what:(man bash zsh fish)'", stream);
    fputs("\n    ;;\n", stream);
}

/* ---- fish ---- */

static void fish_line(FILE *stream, const option_table *table, const char *name, const char *text) {
    const size_t length = strcspn(table->program, " ");
    fprintf(stream, "complete -c %.*s", (int)length, table->program);
    if (table->program[length])
        fprintf(stream, " -n '__fish_seen_subcommand_from %s'", table->program + length + 1);
    if (name) fprintf(stream, " -l %s", name);
    fputs(" -d '", stream);
    quoted(stream, text, "\\");
    fputc('\'', stream);
}

static void fish_about(FILE *stream, const option_table *table) {
    fish_line(stream, table, "help", "print the options");
    fputc('\n', stream);
    fish_line(stream, table, "version", "print the version");
    fputc('\n', stream);
    if (strchr(table->program, ' ')) return;
    fish_line(stream, table, "print", "print the manual page, or a completion");
    fputs(" -x -a 'man bash zsh fish'\n", stream);
}

static void fish_begin(FILE *stream, const option_table *table, bool has_commands) {
    fprintf(stream, "# fish completion of %s\n", table->program);
    if (!has_commands) return;
    fprintf(stream, "complete -c %s -f\n", table->program);
    fish_about(stream, table);
    for (size_t i = 0; i < table->option_count; i++) {
        fprintf(stream, "complete -c %s -n __fish_use_subcommand -a %s -d '", table->program,
                table->options[i].name);
        quoted(stream, table->options[i].text, "\\");
        fputs("'\n", stream);
    }
}

static void fish_part(FILE *stream, const option_table *table) {
    char words[256];
    for (size_t i = 0; i < table->option_count; i++) {
        const option *o = &table->options[i];
        if (!options_is_row(o)) continue;
        value_words(o, words, sizeof words);
        fish_line(stream, table, options_is_argument(o) ? NULL : o->name + 2, o->text);
        if (o->kind != OPTION_FLAG && o->kind != OPTION_OPTIONAL)
            fputs(is_path(o) ? " -r -F" : options_is_argument(o) ? " -f" : " -x", stream);
        if (words[0]) fprintf(stream, " -a '%s'", words);
        fputc('\n', stream);
    }
    fish_about(stream, table);
}

/* ---- All ---- */

static void part(FILE *stream, const option_table *table, options_format format) {
    switch (format) {
    case OPTIONS_MAN:
        options_man(stream, table);
        break;
    case OPTIONS_BASH:
        bash_part(stream, table);
        break;
    case OPTIONS_ZSH:
        zsh_part(stream, table);
        break;
    case OPTIONS_FISH:
        fish_part(stream, table);
        break;
    case OPTIONS_FORMATS:
        break;
    }
}

static void begin(FILE *stream, const option_table *table, options_format format, bool has_commands) {
    if (format == OPTIONS_MAN && has_commands) options_man_begin(stream, table);
    if (format == OPTIONS_BASH) bash_begin(stream, table, has_commands);
    if (format == OPTIONS_ZSH) zsh_begin(stream, table, has_commands);
    if (format == OPTIONS_FISH) fish_begin(stream, table, has_commands);
}

static void end(FILE *stream, const option_table *table, options_format format, bool has_commands) {
    if (format == OPTIONS_MAN && has_commands) options_man_end(stream, table);
    if (format == OPTIONS_BASH) bash_end(stream, table);
    if (format == OPTIONS_ZSH) fputs("esac\n", stream);
}

void options_print(FILE *stream, const option_table *table, options_format format) {
    const bool whole = !strchr(table->program, ' ');
    if (whole) begin(stream, table, format, false);
    part(stream, table, format);
    if (whole) end(stream, table, format, false);
}

void options_print_begin(FILE *stream, const option_table *commands, options_format format) {
    begin(stream, commands, format, true);
}

void options_print_end(FILE *stream, const option_table *commands, options_format format) {
    end(stream, commands, format, true);
}
