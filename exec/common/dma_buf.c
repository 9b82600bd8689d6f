/* See dma_buf.h. A size that is not so is found here: of a mapping it would be found by SIGBUS, of an import by the
 * GPU. */
#include "exec/common/dma_buf.h"

#include <sys/stat.h>
#include <unistd.h>

/* The kernel gives a dma-buf's file its size since 5.3; before, it can be sought, which moves nothing. */
static uint64_t bytes_of(int fd, const struct stat *about) {
    if (about->st_size > 0) return (uint64_t)about->st_size;
    const off_t end = lseek(fd, 0, SEEK_END);
    return end > 0 ? (uint64_t)end : 0;
}

rota_status rota_dma_buf_check(const char *device, const rota_exec_foreign *from, const char *name) {
    struct stat about;
    if (fstat(from->fd, &about) != 0)
        return rota_fail(ROTA_INVALID_ARGUMENT, "%s: '%s': %d is no file descriptor, expected a dma-buf's",
                         device, name, from->fd);
    const uint64_t bytes = bytes_of(from->fd, &about);
    if (bytes >= from->allocation_bytes) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "%s: '%s': the descriptor %d is of %llu bytes, expected a dma-buf of at least %llu",
                     device, name, from->fd, (unsigned long long)bytes,
                     (unsigned long long)from->allocation_bytes);
}
