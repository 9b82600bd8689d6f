/* Files that appear whole or not at all. */
#include "bench/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void note_error(file_writer *file) {
    if (file->failed) return;
    file->failed = true;
    file->error = errno ? errno : EIO;
}

bool file_open(file_writer *file, const char *path) {
    *file = (file_writer){.path = strdup(path)};
    if (!file->path) {
        fprintf(stderr, "out of memory for the name of '%s'\n", path);
        return false;
    }
    struct stat status;
    /* Renaming over a device or a pipe would replace it. */
    bool regular = stat(path, &status) != 0 || S_ISREG(status.st_mode);
    const char *name = file->path;
    if (regular) {
        size_t length = strlen(path) + sizeof ".tmp";
        file->temporary = malloc(length);
        if (!file->temporary) {
            fprintf(stderr, "out of memory for the name of '%s'\n", path);
            free(file->path);
            return false;
        }
        snprintf(file->temporary, length, "%s.tmp", path);
        name = file->temporary;
    }
    file->stream = fopen(name, "wb");
    if (!file->stream) {
        fprintf(stderr, "'%s' can't be written: %s\n", path, strerror(errno));
        free(file->temporary);
        free(file->path);
        return false;
    }
    return true;
}

void file_put(file_writer *file, const void *data, size_t size) {
    errno = 0;
    if (!file->failed && fwrite(data, 1, size, file->stream) != size) note_error(file);
}

bool file_commit(file_writer *file) {
    errno = 0;
    if (fflush(file->stream) != 0) note_error(file);
    if (!file->failed && file->temporary && fsync(fileno(file->stream)) != 0) note_error(file);
    if (fclose(file->stream) != 0) note_error(file);
    if (!file->failed && file->temporary && rename(file->temporary, file->path) != 0) note_error(file);
    if (file->failed) {
        fprintf(stderr, "'%s' can't be written: %s\n", file->path, strerror(file->error));
        if (file->temporary) unlink(file->temporary);
    }
    free(file->temporary);
    free(file->path);
    return !file->failed;
}

void file_abandon(file_writer *file) {
    fclose(file->stream);
    if (file->temporary) unlink(file->temporary);
    free(file->temporary);
    free(file->path);
}

bool file_write_text(const char *path, const char *text) {
    file_writer file;
    if (!file_open(&file, path)) return false;
    file_put(&file, text, strlen(text));
    return file_commit(&file);
}

char *file_read(const char *path, size_t *out_size) {
    struct stat status;
    /* Most have no end. */
    if (stat(path, &status) == 0 && S_ISCHR(status.st_mode)) {
        fprintf(stderr, "'%s' can't be read: it is a device, not a file\n", path);
        return NULL;
    }
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        fprintf(stderr, "'%s' can't be read: %s\n", path, strerror(errno));
        return NULL;
    }
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
    return data;

failed:
    fprintf(stderr, "'%s' can't be read: %s\n", path, strerror(errno ? errno : EIO));
    free(data);
    fclose(stream);
    return NULL;
}
