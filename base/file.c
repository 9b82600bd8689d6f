/* Files that appear whole or not at all, and files of a cache. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 16 /* a random name of 64 bits is there already */

static int end(rota_file *file, int error) {
    free(file->name);
    if (file->folder >= 0) close(file->folder);
    *file = (rota_file){.folder = -1};
    return error;
}

/* ---- Writing ---- */

/* A name of what the process has open: renaming over it would replace /dev/stdout for everybody. */
static bool is_own_descriptor(const char *path) {
    return strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0 ||
           strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0;
}

/* What is written directly: a device, a pipe, an open file by its number; else EINVAL. A file is cut short
 * only where it is one of those: what was a device a moment ago may be a file by now. */
static int open_special(rota_file *file, const char *path) {
    struct stat status;
    const int descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0) return errno;
    if (fstat(descriptor, &status) != 0 ||
        (S_ISREG(status.st_mode) && (!is_own_descriptor(path) || ftruncate(descriptor, 0) != 0))) {
        close(descriptor);
        return EINVAL;
    }
    file->stream = fdopen(descriptor, "w");
    if (file->stream) return 0;
    const int error = errno;
    close(descriptor);
    return error;
}

/* Where `path` lies, and its last part. */
static int open_folder(rota_file *file, const char *path) {
    const char *slash = strrchr(path, '/');
    file->name = strdup(slash ? slash + 1 : path);
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int error = !file->name || !folder ? ENOMEM : !file->name[0] ? EISDIR : 0;
    if (!error) file->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!error && file->folder < 0) error = errno;
    free(folder);
    return error;
}

static int open_temporary(rota_file *file, mode_t mode) {
    for (int i = 0; i < TRIES; i++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) return errno ? errno : EIO;
        (void)snprintf(file->temporary, sizeof file->temporary, ".rota-%016" PRIx64 ".tmp", random);
        const int descriptor = openat(file->folder, file->temporary,
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, mode);
        if (descriptor < 0 && errno == EEXIST) continue;
        if (descriptor < 0) return errno;
        file->stream = fdopen(descriptor, "w");
        if (file->stream) return 0;
        const int error = errno;
        close(descriptor);
        (void)unlinkat(file->folder, file->temporary, 0);
        return error;
    }
    return EEXIST;
}

int rota_file_open(rota_file *file, const char *path, mode_t mode) {
    struct stat status;
    *file = (rota_file){.folder = -1};
    if (stat(path, &status) != 0) {
        if (errno == ENAMETOOLONG) return errno; /* which renaming would find, when all was written */
    } else if (!S_ISREG(status.st_mode) || is_own_descriptor(path)) {
        return S_ISDIR(status.st_mode) ? EISDIR : open_special(file, path);
    }
    int error = open_folder(file, path);
    if (!error) error = open_temporary(file, mode);
    return error ? end(file, error) : 0;
}

/* So that the name, too, outlives a power cut; a file system that can't is no failure of the write. */
static void sync_folder(int folder) {
    const int descriptor = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    (void)fsync(descriptor);
    close(descriptor);
}

int rota_file_commit(rota_file *file) {
    int error = 0;
    errno = 0;
    /* A write that failed before has set the flag; its errno is gone, and the next one's is most often the
     * same. */
    const bool failed = ferror(file->stream) != 0;
    if (fflush(file->stream) != 0 || failed) error = errno ? errno : EIO;
    if (!error && file->name && fsync(fileno(file->stream)) != 0) error = errno;
    if (fclose(file->stream) != 0 && !error) error = errno;
    if (file->name) {
        if (!error && renameat(file->folder, file->temporary, file->folder, file->name) != 0) error = errno;
        if (error)
            (void)unlinkat(file->folder, file->temporary, 0);
        else
            sync_folder(file->folder);
    }
    return end(file, error);
}

void rota_file_abandon(rota_file *file) {
    (void)fclose(file->stream);
    if (file->name) (void)unlinkat(file->folder, file->temporary, 0);
    (void)end(file, 0);
}

/* ---- Caches ---- */

char *rota_cache_path(const char *folder, const char *name) {
    const size_t length = strlen(folder) + strlen(name) + 2;
    char *path = malloc(length);
    if (path) (void)snprintf(path, length, "%s/%s", folder, name);
    return path;
}

char *rota_cache_folder(const char *given) {
    if (given) return given[0] ? strdup(given) : NULL;
    const char *folder = secure_getenv("XDG_CACHE_HOME");
    if (folder && folder[0] == '/') return rota_cache_path(folder, "rota");
    folder = secure_getenv("HOME");
    return folder && folder[0] == '/' ? rota_cache_path(folder, ".cache/rota") : NULL;
}

void rota_cache_make_folder(const char *folder) {
    char *path = strdup(folder);
    for (size_t i = 1; path && path[0]; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        const char kept = path[i];
        path[i] = 0;
        (void)mkdir(path, 0700);
        path[i] = kept;
        if (!kept) break;
    }
    free(path);
}

FILE *rota_cache_open(const char *path, const char **out_why) {
    struct stat status;
    const char *why = NULL;
    FILE *file = NULL;
    /* A pipe would block where it is opened. */
    const int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0)
        why = errno == ELOOP ? "it is a symbolic link" : NULL;
    else if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        why = "it is no regular file";
    else if (status.st_uid != geteuid() && status.st_uid != 0)
        why = "it belongs to another user";
    else if (status.st_mode & (S_IWGRP | S_IWOTH))
        why = "others may write it";
    else
        file = fdopen(descriptor, "r");
    if (!file && descriptor >= 0) close(descriptor);
    if (out_why) *out_why = why;
    return file;
}

uint64_t rota_file_bytes(FILE *file) {
    struct stat status;
    return fstat(fileno(file), &status) == 0 && status.st_size > 0 ? (uint64_t)status.st_size : 0;
}

int rota_cache_write(const char *path, const void *first, size_t first_bytes, const void *second,
                     size_t second_bytes) {
    rota_file file;
    const char *slash = strrchr(path, '/');
    char *folder = slash && slash > path ? strndup(path, (size_t)(slash - path)) : NULL;
    if (folder) rota_cache_make_folder(folder);
    free(folder);
    int error = rota_file_open(&file, path, 0600);
    if (error) return error;
    errno = 0;
    if (fwrite(first, 1, first_bytes, file.stream) == first_bytes &&
        fwrite(second, 1, second_bytes, file.stream) == second_bytes)
        return rota_file_commit(&file);
    error = errno ? errno : EIO;
    rota_file_abandon(&file);
    return error;
}
