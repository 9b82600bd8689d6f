/* Files that rota_plan_write_dot and its like write, whole or not at all. */
#include "base/output.h"

#include <string.h>
#include "base/utf8.h"

static rota_status failed(const char *path, int error) {
    return rota_fail(ROTA_SYSTEM, "can't write '%s': %s", path, strerror(error));
}

rota_status rota_output_open(rota_output *output, const char *path) {
    *output = (rota_output){.path = path};
    const int error = rota_file_open(&output->writer, path, 0666);
    if (error) return failed(path, error);
    output->file = output->writer.stream;
    return ROTA_OK;
}

rota_status rota_output_close(rota_output *output, rota_status status) {
    if (!output->file) return status;
    output->file = NULL;
    if (status != ROTA_OK) {
        rota_file_abandon(&output->writer);
        return status;
    }
    const int error = rota_file_commit(&output->writer);
    return error ? failed(output->path, error) : ROTA_OK;
}

void rota_output_escape(FILE *file, const char *text) {
    size_t left = strlen(text);
    for (const unsigned char *next = (const unsigned char *)text; left;) {
        const size_t length = rota_utf8_length(next, left);
        if (!length)
            fputs(ROTA_UTF8_REPLACEMENT, file);
        else if (*next == '"' || *next == '\\')
            fprintf(file, "\\%c", *next);
        else if (*next < 0x20)
            fprintf(file, "\\u%04x", *next);
        else
            fwrite(next, 1, length, file);
        next += length ? length : 1;
        left -= length ? length : 1;
    }
}
