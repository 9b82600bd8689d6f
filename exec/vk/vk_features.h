/* Features of a Vulkan device: those that it has, those that rota switches on, and those that an application did.
 * Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_FEATURES_H
#define ROTA_EXEC_VK_VK_FEATURES_H

#include <stdbool.h>
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_physical rota_vk_physical;

/* Every feature structure that rota reads or switches on; the same chain serves both. */
typedef struct rota_vk_features {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceSynchronization2Features sync2;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix;
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16;
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2;
} rota_vk_features;

/* All 0, chained as far as the device knows the structures. The chain points into *out. */
void rota_vk_features_begin(const rota_vk_physical *physical, rota_vk_features *out);
/* Those that a device was made with. */
void rota_vk_features_given(const VkDeviceCreateInfo *info, rota_vk_features *out);
/* Of those that it has, those that rota may use. */
void rota_vk_features_choose(const rota_vk_physical *physical, const rota_vk_features *have,
                             rota_vk_features *out_want);

#endif
