/* The time series that train_patchtst learns: read from a CSV file, split by rows, standardised, cut into
 * windows. */
#ifndef ROTA_EXAMPLES_PATCHTST_DATA_H
#define ROTA_EXAMPLES_PATCHTST_DATA_H

#include <stdbool.h>
#include <stdint.h>

typedef enum series_part { SERIES_TRAIN, SERIES_VALIDATE, SERIES_TEST, SERIES_PARTS } series_part;

typedef struct series {
    uint64_t channels, rows;
    float *values;   /* [channels, rows]: a channel's window is one run */
    uint64_t window; /* rows: look-back and horizon */
    /* Windows of each part: the first row of the first one, and how many there are, each a row further. */
    uint64_t first[SERIES_PARTS], count[SERIES_PARTS];
} series;

typedef struct series_source {
    const char *path;
    uint64_t rows[SERIES_PARTS]; /* of each part, one after the other */
    uint64_t look_back, horizon;
} series_source;

/* Reads a file with a line of column names, whose first column, a time, is left out. Each channel is
 * standardised by mean and deviation of its training rows. A window's horizon lies in its part; its look-back
 * may reach into the part before, as is usual for this data. False with one sentence on stderr: the file
 * can't be read, a line has other columns than the first, a value is no finite number (row and column), too
 * few rows. */
bool series_read(const series_source *source, series *out);
void series_free(series *s);

/* The window that begins at `row`, into out [channels, window]. */
void series_window(const series *s, uint64_t row, float *out);

#endif
