/* The pipeline cache on disk: one file per device and driver in the user's cache folder, written beside and
 * renamed, with a checksum so that a damaged file is ignored. */
#include "exec/vk/vk_device.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x726F7461766B3031ull /* "rotavk01" */
#define PATH_BYTES 1024
/* No pipeline cache of ours comes near; a larger file is not one. */
#define FILE_BYTES_MAX (256u << 20)

typedef struct file_header {
    uint64_t magic, size_bytes, checksum;
} file_header;

static uint64_t checksum(const uint8_t *data, size_t size) {
    uint64_t sum = 0xCBF29CE484222325ull;
    for (size_t i = 0; i < size; i++) sum = (sum ^ data[i]) * 0x100000001B3ull;
    return sum;
}

/* The folder, or false if there is to be no cache. */
static bool cache_folder(const rota_vk_device *device, char *out, size_t size) {
    const char *given = device->options.cache_dir;
    int length = -1;
    if (given) {
        if (!given[0]) return false;
        length = snprintf(out, size, "%s", given);
    } else {
        const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        if (xdg && xdg[0] == '/')
            length = snprintf(out, size, "%s/rota", xdg);
        else if (home && home[0] == '/')
            length = snprintf(out, size, "%s/.cache/rota", home);
    }
    return length > 0 && (size_t)length < size;
}

static bool cache_path(const rota_vk_device *device, char *out, size_t size) {
    char folder[PATH_BYTES];
    if (!cache_folder(device, folder, sizeof folder)) return false;
    const VkPhysicalDeviceProperties *p = &device->physical.properties;
    char uuid[2 * VK_UUID_SIZE + 1];
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        snprintf(uuid + 2 * i, 3, "%02x", device->physical.cache_uuid[i]);
    int length = snprintf(out, size, "%s/vk-%04x-%04x-%08x-%s.bin", folder, p->vendorID, p->deviceID,
                          p->driverVersion, uuid);
    return length > 0 && (size_t)length < size;
}

/* The file's payload, malloc'ed, or NULL if there is no good one. */
static uint8_t *read_cache(const char *path, size_t *out_size) {
    FILE *file = fopen(path, "rbe");
    if (!file) return NULL;
    file_header header;
    uint8_t *data = NULL;
    if (fread(&header, sizeof header, 1, file) == 1 && header.magic == MAGIC && header.size_bytes > 0 &&
        header.size_bytes < FILE_BYTES_MAX)
        data = malloc(header.size_bytes);
    if (data && (fread(data, 1, header.size_bytes, file) != header.size_bytes || fgetc(file) != EOF ||
                 checksum(data, header.size_bytes) != header.checksum)) {
        free(data);
        data = NULL;
    }
    fclose(file);
    if (data) *out_size = header.size_bytes;
    return data;
}

rota_status rota_vk_cache_open(rota_vk_device *device) {
    char path[PATH_BYTES];
    size_t size = 0;
    uint8_t *data = cache_path(device, path, sizeof path) ? read_cache(path, &size) : NULL;
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = size, .pInitialData = data};
    VkResult result = device->vk.CreatePipelineCache(device->handle, &info, NULL, &device->cache);
    if (result != VK_SUCCESS && data) { /* the driver doesn't like it: without */
        info.initialDataSize = 0;
        info.pInitialData = NULL;
        result = device->vk.CreatePipelineCache(device->handle, &info, NULL, &device->cache);
    }
    free(data);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkCreatePipelineCache");
}

static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(path, 0700); /* what is missing shows when the file is opened */
        *slash = '/';
    }
}

static bool write_all(int file, const void *data, size_t size) {
    const uint8_t *bytes = data;
    while (size > 0) {
        ssize_t written = write(file, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

void rota_vk_cache_save(rota_vk_device *device) {
    char path[PATH_BYTES], temporary[PATH_BYTES + 32];
    if (!device->cache_dirty || !cache_path(device, path, sizeof path)) return;
    size_t size = 0;
    if (device->vk.GetPipelineCacheData(device->handle, device->cache, &size, NULL) != VK_SUCCESS ||
        size == 0)
        return;
    uint8_t *data = malloc(size);
    if (!data || device->vk.GetPipelineCacheData(device->handle, device->cache, &size, data) != VK_SUCCESS) {
        free(data);
        return;
    }
    make_folders(path);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int file = mkostemp(temporary, O_CLOEXEC);
    bool good = file >= 0;
    if (good) {
        file_header header = {.magic = MAGIC, .size_bytes = size, .checksum = checksum(data, size)};
        good = write_all(file, &header, sizeof header) && write_all(file, data, size);
        good = close(file) == 0 && good;
        good = good && rename(temporary, path) == 0;
        if (!good) (void)unlink(temporary);
    }
    if (!good)
        rota_log_write(&device->host.log, ROTA_LOG_WARNING, "%s: the pipeline cache %s was not written: %s",
                       device->base.info.id, path, strerror(errno));
    free(data);
}
