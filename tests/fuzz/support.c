/* What the harnesses share. */
#include "tests/fuzz/support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/rota-fuzz-XXXXXX";
static pid_t owner;

static void remove_folder(void) {
    char command[64];
    if (getpid() != owner) return;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) _exit(1);
}

const char *fuzz_folder(void) {
    if (owner) return folder;
    if (!mkdtemp(folder)) abort();
    owner = getpid();
    atexit(remove_folder);
    return folder;
}

const char *fuzz_file(const char *name, const void *data, size_t size) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, data, size) != (ssize_t)size || close(file) != 0) abort();
    return path;
}

size_t fuzz_part(const uint8_t **data, size_t *size) {
    const uint8_t *begin = *data, *end = *size ? memchr(begin, 0xff, *size) : NULL;
    const size_t part = end ? (size_t)(end - begin) : *size, taken = end ? part + 1 : part;
    *data += taken;
    *size -= taken;
    return part;
}

_Noreturn void fuzz_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
    abort();
}
