/* The pipeline cache on disk: see vk_cache.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_CACHE_H
#define ROTA_EXEC_VK_VK_CACHE_H

#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

typedef struct rota_vk_device rota_vk_device;

/* Makes the device's cache, from the file where there is a good one. */
rota_status rota_vk_cache_open(rota_vk_device *device);
/* Writes the file if pipelines were added; failures are logged and leave the older file. */
void rota_vk_cache_save(rota_vk_device *device);
/* The payload of a cache file, from malloc; NULL: it is damaged or cut short, or no memory. */
uint8_t *rota_vk_cache_read(FILE *file, size_t *out_size);

#endif
