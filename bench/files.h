/* Files that appear whole or not at all. */
#ifndef ROTA_BENCH_FILES_H
#define ROTA_BENCH_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/file.h"

/* A file being written; it appears, or takes another's place, when all of it is there (base/file.h). */
typedef struct file_writer {
    rota_file file;
    char *path;
    int error; /* errno of the first failure */
} file_writer;

/* Each returns false with one sentence on stderr, naming the file and the reason. */
bool file_open(file_writer *file, const char *path);
/* For the user only, as cache files must be. */
bool file_open_private(file_writer *file, const char *path);
/* Remembers a failure; file_commit reports it. */
void file_put(file_writer *file, const void *data, size_t size);
/* Flushes to disk and renames. On failure an older file of that name stays. */
bool file_commit(file_writer *file);
/* Drops what was written. */
void file_abandon(file_writer *file);

bool file_write_text(const char *path, const char *text);

/* The whole file, NUL-terminated, from malloc; NULL with a sentence on stderr. */
char *file_read(const char *path, size_t *out_size);
/* Its first bytes, at most `most`, and how many it has in all; else as file_read. */
char *file_read_head(const char *path, size_t most, size_t *out_size, uint64_t *out_whole);
/* What is left of a stream, which ends; `path` is for the sentence. */
char *file_read_stream(FILE *stream, const char *path, size_t *out_size);

#endif
