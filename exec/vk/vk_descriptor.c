/* Vulkan lets a driver believe an opaque descriptor that it is given, and NVIDIA's (580) does: of /dev/null it says
 * VK_ERROR_INITIALIZATION_FAILED, and later allocations of that process fail, of 16 KiB beside 149 GB that are free, in
 * 20 of 30 runs beside nine others (in 0 of 30 without it). So what is no file of the kind that the driver itself hands
 * out, a device's or one of an anonymous file system's, is refused before the driver sees it. */
#include <sys/stat.h>
#include <unistd.h>

#include "exec/vk/vk_descriptor.h"

static bool is_like(const struct stat *file, const struct stat *own) {
    if ((file->st_mode & S_IFMT) != (own->st_mode & S_IFMT)) return false;
    if (S_ISCHR(own->st_mode)) return file->st_rdev == own->st_rdev;
    return file->st_dev == own->st_dev;
}

rota_status rota_vk_descriptor_check(const rota_exec_device *device, int fd, int own, const char *of) {
    struct stat file, expected;
    const bool is_file = fstat(fd, &file) == 0, is_known = fstat(own, &expected) == 0;
    (void)close(own);
    if (!is_file)
        return rota_fail(ROTA_INVALID_ARGUMENT, "%s: %d is no file descriptor of %s", device->info.id, fd,
                         of);
    if (is_known && !is_like(&file, &expected))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "%s: the descriptor %d is of another kind of file than those of %s that the driver "
                         "hands out",
                         device->info.id, fd, of);
    return ROTA_OK;
}
