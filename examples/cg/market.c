/* Matrices and vectors in Matrix Market files.
 *
 *     entries as they stand in the file --by column--> columns --by row--> rows, each in order of its columns
 *
 * A sort by counting is a transposition, and two of them sort each row. Every entry keeps its line for what may be
 * wrong with it. What the file says of its sizes is believed as far as it has bytes for them. */
#include "examples/cg/market.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "bench/files.h"

enum { ENTRY_BYTES = 4 }; /* at least: "1 1\n" */

typedef struct market_reader {
    const char *path;
    char *next, *end;
    uint64_t line; /* of what next_line gave */
    bool is_graph; /* whose entries are edges: nothing is asked of them */
} market_reader;

static bool __attribute__((format(printf, 3, 4)))
refuse(const market_reader *reader, uint64_t line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "'%s' line %" PRIu64 ": ", reader->path, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

static bool no_memory(const market_reader *reader) {
    fprintf(stderr, "'%s': no memory\n", reader->path);
    return false;
}

/* ---- Lines and words ---- */

/* Ends it where it lies; NULL past the last. */
static char *next_line(market_reader *reader) {
    if (reader->next >= reader->end) return NULL;
    char *line = reader->next, *stop = memchr(line, '\n', (size_t)(reader->end - line));
    if (!stop) stop = reader->end; /* where file_read put a 0 */
    *stop = 0;
    reader->next = stop + 1;
    reader->line++;
    return line;
}

/* The next that is neither empty nor a comment. */
static char *next_content(market_reader *reader) {
    char *line;
    while ((line = next_line(reader)) && (*line == '%' || !line[strspn(line, " \t\r")])) {
    }
    return line;
}

/* Ends it where it lies; "" past the last. */
static const char *next_word(char **line) {
    char *word = *line + strspn(*line, " \t\r"), *stop = word + strcspn(word, " \t\r");
    *line = *stop ? stop + 1 : stop;
    *stop = 0;
    return word;
}

static bool parse_count(const char *word, uint64_t most, uint64_t *out) {
    char *end;
    if (!isdigit((unsigned char)*word)) return false;
    *out = strtoull(word, &end, 10);
    return !*end && *out <= most && end - word < 20; /* 19 digits are below 2^64 */
}

static bool parse_number(const char *word, double *out) {
    char *end;
    *out = strtod(word, &end);
    return *word && !*end && isfinite(*out);
}

static int find_word(const char *word, const char *const *words, int count) {
    for (int i = 0; i < count; i++)
        if (strcasecmp(word, words[i]) == 0) return i;
    return -1;
}

/* ---- The first line ---- */

typedef struct market_kind {
    bool is_pattern, is_symmetric;
} market_kind;

static bool read_kind(market_reader *reader, bool is_matrix, market_kind *out) {
    static const char *const fields[] = {"real", "integer", "pattern"}, *const shapes[] = {"general",
                                                                                           "symmetric"};
    char *line = next_line(reader);
    const char *expected = is_matrix ? "matrix coordinate real|integer|pattern symmetric|general"
                                     : "matrix array real|integer general";
    if (!line || strcasecmp(next_word(&line), "%%MatrixMarket") != 0)
        return refuse(reader, 1, "it is no Matrix Market file: expected '%%%%MatrixMarket %s'", expected);
    const char *object = next_word(&line), *format = next_word(&line), *field = next_word(&line),
               *shape = next_word(&line);
    const int which = find_word(field, fields, is_matrix ? 3 : 2);
    const int form = find_word(shape, shapes, is_matrix ? 2 : 1);
    if (strcasecmp(object, "matrix") != 0 || strcasecmp(format, is_matrix ? "coordinate" : "array") != 0 ||
        which < 0 || form < 0 || *next_word(&line))
        return refuse(reader, 1, "'%s %s %s %s', expected '%s'", object, format, field, shape, expected);
    *out = (market_kind){which == 2, form == 1};
    return true;
}

/* ---- Entries ---- */

typedef struct entry_list {
    sparse_matrix m; /* sorted by `starts` alone until it was transposed twice */
    uint64_t *lines; /* of its entries */
} entry_list;

static bool list_allocate(const market_reader *reader, uint64_t rows, uint64_t entries, entry_list *out) {
    if (!matrix_allocate(rows, entries, &out->m)) return false;
    out->lines = calloc(entries ? entries : 1, sizeof *out->lines);
    return out->lines || no_memory(reader);
}

static void list_free(entry_list *list) {
    matrix_free(&list->m);
    free(list->lines);
    *list = (entry_list){0};
}

/* One entry of the file. */
typedef struct market_entry {
    uint32_t row, column;
    double value;
    uint64_t line;
} market_entry;

/* Of `count` entries, and, of a symmetric file, of their mirrored ones. */
static bool sort_by_column(const market_reader *reader, const market_entry *entries, uint64_t count,
                           uint64_t rows, bool is_symmetric, entry_list *out) {
    uint64_t all = count;
    for (uint64_t i = 0; i < count; i++) all += is_symmetric && entries[i].row != entries[i].column;
    if (!list_allocate(reader, rows, all, out)) return false;
    uint64_t *starts = out->m.starts;
    for (uint64_t i = 0; i < count; i++) {
        starts[entries[i].column + 1]++;
        if (is_symmetric && entries[i].row != entries[i].column) starts[entries[i].row + 1]++;
    }
    for (uint64_t i = 0; i < rows; i++) starts[i + 1] += starts[i];
    for (uint64_t i = 0; i < count; i++)
        for (int mirrored = 0; mirrored < (is_symmetric && entries[i].row != entries[i].column ? 2 : 1);
             mirrored++) {
            const uint64_t position = starts[mirrored ? entries[i].row : entries[i].column]++;
            out->m.columns[position] = mirrored ? entries[i].column : entries[i].row;
            out->m.values[position] = entries[i].value;
            out->lines[position] = entries[i].line;
        }
    memmove(starts + 1, starts, rows * sizeof *starts);
    starts[0] = 0;
    return true;
}

static bool transpose(const market_reader *reader, const entry_list *from, entry_list *out) {
    const uint64_t rows = from->m.rows;
    if (!list_allocate(reader, rows, from->m.entries, out)) return false;
    uint64_t *starts = out->m.starts;
    for (uint64_t i = 0; i < from->m.entries; i++) starts[from->m.columns[i] + 1]++;
    for (uint64_t i = 0; i < rows; i++) starts[i + 1] += starts[i];
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t i = from->m.starts[row]; i < from->m.starts[row + 1]; i++) {
            const uint64_t position = starts[from->m.columns[i]]++;
            out->m.columns[position] = (uint32_t)row;
            out->m.values[position] = from->m.values[i];
            out->lines[position] = from->lines[i];
        }
    memmove(starts + 1, starts, rows * sizeof *starts);
    starts[0] = 0;
    return true;
}

/* ---- What conjugate gradient needs of them ---- */

/* Of a symmetric one, in the triangle that the file has. */
static bool check_rows(const market_reader *reader, const entry_list *list, bool is_symmetric) {
    const sparse_matrix *m = &list->m;
    for (uint64_t row = 0; row < m->rows; row++) {
        bool has_diagonal = false;
        for (uint64_t i = m->starts[row]; i < m->starts[row + 1]; i++) {
            if (is_symmetric && m->columns[i] > row) break;
            if (i > m->starts[row] && m->columns[i] == m->columns[i - 1])
                return refuse(reader,
                              list->lines[i] > list->lines[i - 1] ? list->lines[i] : list->lines[i - 1],
                              "entry (%" PRIu64 ", %u) is there twice", row + 1, m->columns[i] + 1);
            if (m->columns[i] != row) continue;
            has_diagonal = true;
            if (!(m->values[i] > 0))
                return refuse(reader, list->lines[i],
                              "diagonal entry (%" PRIu64 ", %" PRIu64 ") is %g; the matrix is not positive "
                              "definite",
                              row + 1, row + 1, m->values[i]);
        }
        if (!has_diagonal)
            return refuse(reader, reader->line,
                          "the last, and there is no diagonal entry (%" PRIu64 ", %" PRIu64
                          "); the matrix is "
                          "not positive definite",
                          row + 1, row + 1);
    }
    return true;
}

/* Of a general one, against its transposed. */
static bool check_symmetry(const market_reader *reader, const entry_list *list, const entry_list *other) {
    const sparse_matrix *m = &list->m, *t = &other->m;
    for (uint64_t row = 0; row < m->rows; row++) {
        uint64_t i = m->starts[row], j = t->starts[row];
        for (; i < m->starts[row + 1] || j < t->starts[row + 1]; i++, j++) {
            const bool has = i < m->starts[row + 1], mirrored = j < t->starts[row + 1];
            if (has && (!mirrored || m->columns[i] < t->columns[j]))
                return refuse(reader, list->lines[i],
                              "entry (%" PRIu64 ", %u) has no (%u, %" PRIu64 "); the matrix is not symmetric",
                              row + 1, m->columns[i] + 1, m->columns[i] + 1, row + 1);
            if (!has || m->columns[i] > t->columns[j])
                return refuse(reader, other->lines[j],
                              "entry (%u, %" PRIu64 ") has no (%" PRIu64 ", %u); the matrix is not symmetric",
                              t->columns[j] + 1, row + 1, row + 1, t->columns[j] + 1);
            if (m->values[i] != t->values[j])
                return refuse(reader, list->lines[i],
                              "entry (%" PRIu64 ", %u) is %.17g, and (%u, %" PRIu64 "), of line %" PRIu64
                              ", %.17g; the matrix is not symmetric",
                              row + 1, m->columns[i] + 1, m->values[i], m->columns[i] + 1, row + 1,
                              other->lines[j], t->values[j]);
        }
    }
    return true;
}

static bool sort(const market_reader *reader, const market_entry *entries, uint64_t count, uint64_t rows,
                 bool is_symmetric, sparse_matrix *out) {
    entry_list columns = {0}, sorted = {0}, transposed = {0};
    bool good = sort_by_column(reader, entries, count, rows, is_symmetric, &columns) &&
                transpose(reader, &columns, &sorted) &&
                (reader->is_graph || check_rows(reader, &sorted, is_symmetric));
    if (good && !is_symmetric && !reader->is_graph)
        good = transpose(reader, &sorted, &transposed) && check_symmetry(reader, &sorted, &transposed);
    if (good) {
        *out = sorted.m;
        sorted.m = (sparse_matrix){0};
    }
    list_free(&columns);
    list_free(&sorted);
    list_free(&transposed);
    return good;
}

/* ---- Matrices ---- */

static bool read_sizes(market_reader *reader, uint64_t *out_rows, uint64_t *out_count) {
    char *line = next_content(reader);
    uint64_t columns;
    if (!line)
        return refuse(reader, reader->line,
                      "the last, and there are no sizes: expected 'rows columns entries'");
    const char *words[3] = {next_word(&line), next_word(&line), next_word(&line)};
    if (!parse_count(words[0], UINT32_MAX, out_rows) || !parse_count(words[1], UINT32_MAX, &columns) ||
        !parse_count(words[2], UINT64_MAX, out_count) || *next_word(&line) || !*out_rows)
        return refuse(reader, reader->line,
                      "'%s %s %s', expected 'rows columns entries', at most 2^32 - 1 rows", words[0],
                      words[1], words[2]);
    if (*out_rows != columns)
        return refuse(reader, reader->line,
                      "%" PRIu64 " rows and %" PRIu64 " columns; the matrix is not square", *out_rows,
                      columns);
    if (*out_count < *out_rows && !reader->is_graph)
        return refuse(reader, reader->line,
                      "%" PRIu64 " entries of %" PRIu64 " rows; a matrix with zeros on its diagonal is not "
                      "positive definite",
                      *out_count, *out_rows);
    const uint64_t left = reader->next < reader->end ? (uint64_t)(reader->end - reader->next) : 0;
    if (*out_count > left / ENTRY_BYTES + 1) /* the last may end without its newline */
        return refuse(reader, reader->line,
                      "%" PRIu64 " entries, for which the file has too few bytes: %" PRIu64, *out_count,
                      left);
    return true;
}

static bool read_entry(market_reader *reader, uint64_t index, uint64_t count, uint64_t rows, market_kind kind,
                       market_entry *out) {
    char *line = next_content(reader);
    uint64_t row, column;
    if (!line)
        return refuse(reader, reader->line, "the last, and it has %" PRIu64 " entries of %" PRIu64, index,
                      count);
    const char *first = next_word(&line), *second = next_word(&line);
    if (!parse_count(first, rows, &row) || !parse_count(second, rows, &column) || !row || !column)
        return refuse(reader, reader->line, "entry (%s, %s), expected a row and a column from 1 to %" PRIu64,
                      first, second, rows);
    out->value = 1;
    if (!kind.is_pattern) {
        const char *value = next_word(&line);
        if (!parse_number(value, &out->value))
            return refuse(reader, reader->line, "the value '%s' of entry (%s, %s) is no finite number", value,
                          first, second);
    }
    const char *more = next_word(&line);
    if (*more) return refuse(reader, reader->line, "'%s' behind entry (%s, %s)", more, first, second);
    if (kind.is_symmetric && column > row)
        return refuse(reader, reader->line,
                      "entry (%s, %s) is above the diagonal; a symmetric file has the lower triangle", first,
                      second);
    out->row = (uint32_t)row - 1;
    out->column = (uint32_t)column - 1;
    out->line = reader->line;
    return true;
}

static bool read_matrix(market_reader *reader, sparse_matrix *out) {
    market_kind kind;
    uint64_t rows, count;
    if (!read_kind(reader, true, &kind) || !read_sizes(reader, &rows, &count)) return false;
    market_entry *entries = calloc(count ? count : 1, sizeof *entries);
    if (!entries) return no_memory(reader);
    bool good = true;
    for (uint64_t i = 0; i < count && good; i++) good = read_entry(reader, i, count, rows, kind, &entries[i]);
    if (good && next_content(reader))
        good = refuse(reader, reader->line, "more than the %" PRIu64 " entries that there should be", count);
    good = good && sort(reader, entries, count, rows, kind.is_symmetric, out);
    free(entries);
    return good;
}

/* The text of a file, which has no byte 0. */
static char *open_file(const char *path, market_reader *out) {
    size_t size;
    char *text = file_read(path, &size);
    if (!text) return NULL;
    *out = (market_reader){.path = path, .next = text, .end = text + size};
    if (!memchr(text, 0, size)) return text;
    fprintf(stderr, "'%s' is no text: it has a byte 0\n", path);
    free(text);
    return NULL;
}

static bool read_file(const char *path, bool is_graph, sparse_matrix *out) {
    market_reader reader;
    *out = (sparse_matrix){0};
    char *text = open_file(path, &reader);
    reader.is_graph = is_graph;
    const bool good = text && read_matrix(&reader, out);
    free(text);
    return good;
}

bool market_read_matrix(const char *path, sparse_matrix *out) {
    return read_file(path, false, out);
}

bool market_read_graph(const char *path, sparse_matrix *out) {
    return read_file(path, true, out);
}

/* ---- Vectors ---- */

static bool read_vector(market_reader *reader, uint64_t rows, double *values) {
    market_kind kind;
    uint64_t given, columns;
    if (!read_kind(reader, false, &kind)) return false;
    char *line = next_content(reader);
    if (!line)
        return refuse(reader, reader->line, "the last, and there are no sizes: expected '%" PRIu64 " 1'",
                      rows);
    const char *first = next_word(&line), *second = next_word(&line);
    if (!parse_count(first, UINT64_MAX, &given) || !parse_count(second, UINT64_MAX, &columns) ||
        *next_word(&line) || given != rows || columns != 1)
        return refuse(reader, reader->line, "'%s %s', expected '%" PRIu64 " 1': the matrix has so many rows",
                      first, second, rows);
    for (uint64_t i = 0; i < rows; i++) {
        line = next_content(reader);
        if (!line)
            return refuse(reader, reader->line, "the last, and it has %" PRIu64 " numbers of %" PRIu64, i,
                          rows);
        const char *word = next_word(&line);
        if (!parse_number(word, &values[i]) || *next_word(&line))
            return refuse(reader, reader->line, "'%s' is not one finite number", word);
    }
    return !next_content(reader) || refuse(reader, reader->line, "more than %" PRIu64 " numbers", rows);
}

double *market_read_vector(const char *path, uint64_t rows) {
    market_reader reader;
    char *text = open_file(path, &reader);
    if (!text) return NULL;
    double *values = malloc(rows * sizeof *values);
    bool good = values || no_memory(&reader);
    if (good && !read_vector(&reader, rows, values)) {
        free(values);
        values = NULL;
    }
    free(text);
    return values;
}

bool market_write_vector(const char *path, const double *values, uint64_t rows) {
    file_writer file;
    char line[64];
    if (!file_open(&file, path)) return false;
    int length =
        snprintf(line, sizeof line, "%%%%MatrixMarket matrix array real general\n%" PRIu64 " 1\n", rows);
    file_put(&file, line, (size_t)length);
    for (uint64_t i = 0; i < rows; i++) {
        length = snprintf(line, sizeof line, "%.17g\n", values[i]);
        file_put(&file, line, (size_t)length);
    }
    return file_commit(&file);
}
