/* The pipeline cache on disk: one file per device and driver in the user's cache folder (base/file.h), with a
 * checksum so that a damaged file is ignored. */
#include "exec/vk/vk_cache.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/hash.h"
#include "exec/vk/vk_device.h"

#define MAGIC 0x726F7461766B3031ull /* "rotavk01" */
/* No pipeline cache of ours comes near; a larger file is not one. */
#define FILE_BYTES_MAX (256u << 20)

typedef struct file_header {
    uint64_t magic, size_bytes, checksum;
} file_header;

/* From malloc; NULL: there is to be no cache. */
static char *cache_path(const rota_vk_device *device) {
    char *folder = rota_cache_folder(device->options.cache_dir);
    if (!folder) return NULL;
    const VkPhysicalDeviceProperties *p = &device->physical.properties;
    char uuid[2 * VK_UUID_SIZE + 1], name[96];
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        snprintf(uuid + 2 * i, 3, "%02x", device->physical.cache_uuid[i]);
    snprintf(name, sizeof name, "vk-%04x-%04x-%08x-%s.bin", p->vendorID, p->deviceID, p->driverVersion, uuid);
    char *path = rota_cache_path(folder, name);
    free(folder);
    return path;
}

uint8_t *rota_vk_cache_read(FILE *file, size_t *out_size) {
    file_header header;
    uint8_t *data = NULL;
    if (fread(&header, sizeof header, 1, file) == 1 && header.magic == MAGIC && header.size_bytes > 0 &&
        header.size_bytes < FILE_BYTES_MAX && rota_file_bytes(file) == sizeof header + header.size_bytes)
        data = malloc(header.size_bytes);
    if (data && (fread(data, 1, header.size_bytes, file) != header.size_bytes || fgetc(file) != EOF ||
                 rota_hash_bytes(ROTA_HASH_BEGIN, data, header.size_bytes) != header.checksum)) {
        free(data);
        data = NULL;
    }
    if (data) *out_size = header.size_bytes;
    return data;
}

/* The kept payload, from malloc, or NULL if there is no good one. */
static uint8_t *read_kept(const rota_vk_device *device, size_t *out_size) {
    char *path = cache_path(device);
    const char *why = NULL;
    FILE *file = path ? rota_cache_open(path, &why) : NULL;
    uint8_t *data = file ? rota_vk_cache_read(file, out_size) : NULL;
    if (file) fclose(file);
    if (why)
        rota_log_write(&device->host.log, ROTA_LOG_WARNING, "%s: the pipeline cache %s is not used: %s",
                       device->base.info.id, path, why);
    free(path);
    return data;
}

rota_status rota_vk_cache_open(rota_vk_device *device) {
    size_t size = 0;
    uint8_t *data = read_kept(device, &size);
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = size, .pInitialData = data};
    VkResult result = device->vk.CreatePipelineCache(device->handle, &info, device->application.allocator,
                                                     &device->compiled.cache);
    if (result != VK_SUCCESS && data) { /* the driver doesn't like it: without */
        info.initialDataSize = 0;
        info.pInitialData = NULL;
        result = device->vk.CreatePipelineCache(device->handle, &info, device->application.allocator,
                                                &device->compiled.cache);
    }
    free(data);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkCreatePipelineCache");
}

void rota_vk_cache_save(rota_vk_device *device) {
    char *path = device->compiled.cache_dirty ? cache_path(device) : NULL;
    size_t size = 0;
    uint8_t *data = NULL;
    if (path &&
        device->vk.GetPipelineCacheData(device->handle, device->compiled.cache, &size, NULL) == VK_SUCCESS &&
        size)
        data = malloc(size);
    if (data &&
        device->vk.GetPipelineCacheData(device->handle, device->compiled.cache, &size, data) == VK_SUCCESS) {
        const file_header header = {
            .magic = MAGIC, .size_bytes = size, .checksum = rota_hash_bytes(ROTA_HASH_BEGIN, data, size)};
        const int error = rota_cache_write(path, &header, sizeof header, data, size);
        if (error)
            rota_log_write(&device->host.log, ROTA_LOG_WARNING,
                           "%s: the pipeline cache %s was not written: %s", device->base.info.id, path,
                           strerror(error));
    }
    free(data);
    free(path);
}
