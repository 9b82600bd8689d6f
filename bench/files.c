/* Files that appear whole or not at all. */
#include "bench/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool failed(const char *path, int error) {
    fprintf(stderr, "'%s' can't be written: %s\n", path, strerror(error));
    return false;
}

static bool open_as(file_writer *file, const char *path, mode_t mode) {
    *file = (file_writer){.path = strdup(path)};
    if (!file->path) {
        fprintf(stderr, "out of memory for the name of '%s'\n", path);
        return false;
    }
    const int error = rota_file_open(&file->file, path, mode);
    if (!error) return true;
    free(file->path);
    return failed(path, error);
}

bool file_open(file_writer *file, const char *path) {
    return open_as(file, path, 0666);
}

bool file_open_private(file_writer *file, const char *path) {
    return open_as(file, path, 0600);
}

void file_put(file_writer *file, const void *data, size_t size) {
    errno = 0;
    if (!file->error && fwrite(data, 1, size, file->file.stream) != size) file->error = errno ? errno : EIO;
}

bool file_commit(file_writer *file) {
    int error = file->error;
    if (error)
        rota_file_abandon(&file->file);
    else
        error = rota_file_commit(&file->file);
    const bool good = !error || failed(file->path, error);
    free(file->path);
    return good;
}

void file_abandon(file_writer *file) {
    rota_file_abandon(&file->file);
    free(file->path);
}

bool file_write_text(const char *path, const char *text) {
    file_writer file;
    if (!file_open(&file, path)) return false;
    file_put(&file, text, strlen(text));
    return file_commit(&file);
}

/* NULL with a sentence. */
static FILE *open_to_read(const char *path) {
    struct stat status;
    /* Most have no end. */
    if (stat(path, &status) == 0 && S_ISCHR(status.st_mode)) {
        fprintf(stderr, "'%s' can't be read: it is a device, not a file\n", path);
        return NULL;
    }
    FILE *stream = fopen(path, "rb");
    if (!stream) fprintf(stderr, "'%s' can't be read: %s\n", path, strerror(errno));
    return stream;
}

char *file_read(const char *path, size_t *out_size) {
    FILE *stream = open_to_read(path);
    return stream ? file_read_stream(stream, path, out_size) : NULL;
}

char *file_read_head(const char *path, size_t most, size_t *out_size, uint64_t *out_whole) {
    struct stat status;
    FILE *stream = open_to_read(path);
    if (!stream) return NULL;
    char *data = NULL;
    errno = 0;
    if (fstat(fileno(stream), &status) == 0) {
        const uint64_t whole = (uint64_t)status.st_size;
        const size_t size = whole < most ? (size_t)whole : most;
        data = malloc(size + 1);
        *out_size = data ? fread(data, 1, size, stream) : 0;
        *out_whole = whole;
        if (data) data[*out_size] = 0;
    }
    if (!data || ferror(stream)) {
        fprintf(stderr, "'%s' can't be read: %s\n", path, strerror(errno ? errno : EIO));
        free(data);
        data = NULL;
    }
    fclose(stream);
    return data;
}

char *file_read_stream(FILE *stream, const char *path, size_t *out_size) {
    char *data = NULL;
    size_t size = 0, capacity = 0;
    errno = 0;
    for (;;) {
        if (capacity - size < 2) {
            capacity = capacity ? capacity * 2 : 1 << 16;
            char *larger = realloc(data, capacity);
            if (!larger) {
                errno = ENOMEM;
                goto failed;
            }
            data = larger;
        }
        size_t got = fread(data + size, 1, capacity - size - 1, stream);
        size += got;
        if (got == 0) break;
    }
    if (ferror(stream)) goto failed;
    fclose(stream);
    data[size] = 0;
    *out_size = size;
    char *exact = realloc(data, size + 1); /* and not up to twice as much, for as long as it is kept */
    return exact ? exact : data;

failed:
    fprintf(stderr, "'%s' can't be read: %s\n", path, strerror(errno ? errno : EIO));
    free(data);
    fclose(stream);
    return NULL;
}
