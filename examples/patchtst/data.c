/* The time series that train_patchtst learns. */
#include "examples/patchtst/data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/files.h"

static const char *const part_names[SERIES_PARTS] = {"training", "validation", "testing"};

/* ---- Lines and fields ---- */

/* Ends the line at *cursor and moves on to the next; NULL where there is none. */
static char *next_line(char **cursor, const char *end) {
    char *line = *cursor;
    if (line >= end) return NULL;
    char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = line + strlen(line);
    *cursor = stop + 1;
    *stop = 0;
    if (stop > line && stop[-1] == '\r') stop[-1] = 0;
    return line;
}

static uint64_t count_fields(const char *line) {
    uint64_t count = 1;
    for (; *line; line++) count += *line == ',';
    return count;
}

/* Ends the field at *cursor and moves on to the next. */
static char *next_field(char **cursor) {
    char *field = *cursor, *stop = strchr(field, ',');
    *cursor = stop ? stop + 1 : field + strlen(field);
    if (stop) *stop = 0;
    return field;
}

static bool parse_number(const char *field, float *out) {
    char *end;
    double value = strtod(field, &end);
    while (*end == ' ') end++;
    *out = (float)value;
    return end != field && !*end && isfinite(*out);
}

/* ---- Reading ---- */

/* `names` is the header line, still whole. */
static void column_name(const char *names, uint64_t column, char *out, size_t capacity) {
    for (; column; column--) names = strchr(names, ',') + 1;
    snprintf(out, capacity, "%.*s", (int)strcspn(names, ","), names);
}

/* Before there is memory for rows times columns, which a file that has only some of each need not have. */
static bool check_columns(const series_source *source, const series *s, const char *text, const char *end) {
    for (uint64_t row = 0; row < s->rows; row++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        uint64_t columns = 1;
        if (!stop) stop = end;
        for (; text < stop; text++) columns += *text == ',';
        text = stop + 1;
        if (columns == s->channels + 1) continue;
        fprintf(stderr, "'%s' line %" PRIu64 " has %" PRIu64 " columns, and the first line has %" PRIu64 "\n",
                source->path, row + 2, columns, s->channels + 1);
        return false;
    }
    return true;
}

static bool parse_line(const series_source *source, series *s, const char *names, char *line, uint64_t row) {
    next_field(&line);
    for (uint64_t c = 0; c < s->channels; c++) {
        const char *field = next_field(&line);
        if (parse_number(field, &s->values[c * s->rows + row])) continue;
        char name[64];
        column_name(names, c + 1, name, sizeof name);
        fprintf(stderr, "'%s' row %" PRIu64 " (line %" PRIu64 "), column '%s': '%.40s' is no finite number\n",
                source->path, row + 1, row + 2, name, field);
        return false;
    }
    return true;
}

static bool parse(const series_source *source, char *text, size_t size, series *s) {
    char *cursor = text, *end = text + size;
    /* Lines that the file ends with and that are empty are no rows. */
    while (end > text && (end[-1] == '\n' || end[-1] == '\r')) *--end = 0;
    if (memchr(text, 0, (size_t)(end - text))) {
        fprintf(stderr, "'%s' is no text: it has a byte 0\n", source->path);
        return false;
    }
    for (const char *line = text; (line = memchr(line, '\n', (size_t)(end - line))); line++) s->rows++;
    const char *names = next_line(&cursor, end);
    if (!names || !s->rows || count_fields(names) < 2) {
        fprintf(stderr,
                "'%s' is no table: expected a line of column names, a time's first, and lines of numbers\n",
                source->path);
        return false;
    }
    s->channels = count_fields(names) - 1;
    if (!check_columns(source, s, cursor, end)) return false;
    s->values = calloc(s->channels * s->rows, sizeof *s->values);
    if (!s->values) {
        fprintf(stderr, "no memory for the %" PRIu64 " rows of '%s'\n", s->rows, source->path);
        return false;
    }
    for (uint64_t row = 0; row < s->rows; row++)
        if (!parse_line(source, s, names, next_line(&cursor, end), row)) return false;
    return true;
}

/* ---- Splitting and standardising ---- */

static bool split(const series_source *source, series *s) {
    uint64_t begin = 0;
    s->window = source->look_back + source->horizon;
    for (int p = 0; p < SERIES_PARTS; p++) {
        const uint64_t before = p ? source->look_back : 0, end = begin + source->rows[p];
        if (end > s->rows) {
            fprintf(stderr, "'%s' has %" PRIu64 " rows, too few for %s, which ends with row %" PRIu64 "\n",
                    source->path, s->rows, part_names[p], end);
            return false;
        }
        if (source->rows[p] + before < s->window || begin < before) {
            fprintf(stderr,
                    "'%s': %" PRIu64 " rows for %s are too few for a window of %" PRIu64 " and %" PRIu64
                    " rows\n",
                    source->path, source->rows[p], part_names[p], source->look_back, source->horizon);
            return false;
        }
        s->first[p] = begin - before;
        s->count[p] = source->rows[p] + before - s->window + 1;
        begin = end;
    }
    return true;
}

/* A channel that stays the same in the training rows is only moved. */
static void standardise(series *s, uint64_t training_rows) {
    for (uint64_t c = 0; c < s->channels; c++) {
        float *x = s->values + c * s->rows;
        double sum = 0, squares = 0;
        for (uint64_t i = 0; i < training_rows; i++) sum += (double)x[i];
        const double mean = sum / (double)training_rows;
        for (uint64_t i = 0; i < training_rows; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        double deviation = sqrt(squares / (double)training_rows);
        if (!(deviation > 0)) deviation = 1;
        for (uint64_t i = 0; i < s->rows; i++) x[i] = (float)(((double)x[i] - mean) / deviation);
    }
}

bool series_read(const series_source *source, series *out) {
    size_t size;
    *out = (series){0};
    char *text = file_read(source->path, &size);
    if (!text) return false;
    bool good = parse(source, text, size, out) && split(source, out);
    if (good)
        standardise(out, source->rows[SERIES_TRAIN]);
    else
        series_free(out);
    free(text);
    return good;
}

void series_free(series *s) {
    free(s->values);
    *s = (series){0};
}

void series_window(const series *s, uint64_t row, float *out) {
    for (uint64_t c = 0; c < s->channels; c++)
        memcpy(out + c * s->window, s->values + c * s->rows + row, s->window * sizeof *out);
}
