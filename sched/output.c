/* Files that appear whole or not at all. */
#include "sched/output.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic.h"

/* Renaming over a device or a pipe would replace it. */
static bool is_other_than_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

rota_status rota_output_open(rota_output *output, const char *path) {
    static _Atomic uint32_t opened; /* two threads that write one path do not meet in its temporary */
    *output = (rota_output){.path = path};
    const char *name = path;
    if (!is_other_than_file(path)) {
        int length = snprintf(output->temporary, sizeof output->temporary, "%s.%ld-%u.tmp", path,
                              (long)getpid(), ra_fetch_add_relaxed(&opened, 1));
        if (length < 0 || (size_t)length >= sizeof output->temporary)
            return rota_fail(ROTA_INVALID_ARGUMENT, "path '%.64s...' is longer than %zu bytes", path,
                             sizeof output->temporary - 48);
        name = output->temporary;
    }
    output->file = fopen(name, "we");
    if (!output->file) return rota_fail(ROTA_SYSTEM, "can't write '%s': %s", path, strerror(errno));
    return ROTA_OK;
}

rota_status rota_output_close(rota_output *output, rota_status status) {
    if (!output->file) return status;
    const bool renames = output->temporary[0] != 0;
    errno = 0;
    bool written = fflush(output->file) == 0 && !ferror(output->file) && status == ROTA_OK;
    int error = errno;
    if (fclose(output->file) != 0 && written) {
        written = false;
        error = errno;
    }
    if (written && renames && rename(output->temporary, output->path) != 0) {
        written = false;
        error = errno;
    }
    if (written) return ROTA_OK;
    if (renames) (void)remove(output->temporary);
    if (status != ROTA_OK) return status;
    return rota_fail(ROTA_SYSTEM, "can't write '%s': %s", output->path, strerror(error ? error : EIO));
}

void rota_output_escape(FILE *file, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else if (*at < 0x20)
            fprintf(file, "\\u%04x", *at);
        else
            fputc(*at, file);
    }
}
