/* The file by which ranks meet: the job's key, then an address of rank 0's a line. */
#include "exec/comm/meeting_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADDRESSES = 16 }; /* of a host, that are written */

/* Whole at once, since others look at it at any time; and over what another job has left. */
rota_status rota_meeting_file_write(const char *path, uint64_t key, uint32_t port, const char *name) {
    rota_socket_address own[ADDRESSES];
    char text[ADDRESSES * ROTA_SOCKET_TEXT * 2], part[1100];
    uint32_t count = rota_socket_own_addresses(ADDRESSES, own);
    int used = snprintf(text, sizeof text, "rota %016" PRIx64 "\n", key);
    for (uint32_t i = 0; i < count; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%c %u ",
                         own[i].family == AF_INET ? '4' : '6', port);
        for (uint32_t b = 0; b < sizeof own[i].bytes; b++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%02x", own[i].bytes[b]);
        used += snprintf(text + used, sizeof text - (size_t)used, "\n");
    }
    (void)snprintf(part, sizeof part, "%s.%" PRIx64, path, key);
    const int file = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_good = file >= 0 && write(file, text, (size_t)used) == used;
    if (file >= 0) is_good = close(file) == 0 && is_good;
    if (is_good && rename(part, path) == 0) return ROTA_OK;
    const int error = errno;
    if (file >= 0) (void)unlink(part);
    return rota_fail(ROTA_SYSTEM, "communicator '%.63s': ranks can't meet by '%s': %s", name, path,
                     strerror(error));
}

/* "4 40123 7f0000010000...": a family, a port, the bytes. */
static bool read_address(const char *line, rota_socket_address *out) {
    char *end = NULL, digits[3] = "";
    *out = (rota_socket_address){.family = *line == '4' ? AF_INET : AF_INET6};
    if ((*line != '4' && *line != '6') || line[1] != ' ') return false;
    out->port = (uint32_t)strtoul(line + 2, &end, 10);
    const char *bytes = end + 1;
    if (*end != ' ' || strspn(bytes, "0123456789abcdef") != 2 * sizeof out->bytes) return false;
    for (size_t b = 0; b < sizeof out->bytes; b++) {
        memcpy(digits, bytes + 2 * b, 2);
        out->bytes[b] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

uint32_t rota_meeting_file_read(const char *path, uint32_t most, uint64_t *out_key,
                                rota_socket_address *out_addresses) {
    char line[128];
    uint32_t count = 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fgets(line, sizeof line, file) && strncmp(line, "rota ", 5) == 0) {
        *out_key = strtoull(line + 5, NULL, 16);
        while (count < most && fgets(line, sizeof line, file) && read_address(line, &out_addresses[count]))
            count++;
    }
    (void)fclose(file);
    return count;
}

void rota_meeting_file_remove(const char *path, uint64_t key) {
    uint64_t written = 0;
    rota_socket_address unused;
    (void)rota_meeting_file_read(path, 1, &written, &unused);
    if (written == key) (void)unlink(path);
}
