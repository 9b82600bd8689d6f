/* Features: the chain of structures in which Vulkan tells of them, and is told. */
#include "exec/vk/vk_features.h"
#include "exec/vk/vk_physical.h"
#include <stddef.h>
#include <string.h>

static void push(rota_vk_features *chain, void *structure, VkStructureType type) {
    VkBaseOutStructure *base = structure;
    base->sType = type;
    base->pNext = chain->core.pNext;
    chain->core.pNext = base;
}

void rota_vk_features_begin(const rota_vk_physical *physical, rota_vk_features *out) {
    memset(out, 0, sizeof *out);
    out->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    push(out, &out->v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    push(out, &out->v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    push(out, &out->sync2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES);
    if (physical->core13 || physical->subgroup_control_extension)
        push(out, &out->subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
    if (physical->cooperative_matrix)
        push(out, &out->matrix, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
    if (physical->bfloat16)
        push(out, &out->bfloat16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
    if (physical->cooperative_matrix_2)
        push(out, &out->matrix2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
}

/* Each feature in every structure that an application may name it in: that of a version of Vulkan, and that of the
 * extension which it was before. */
#define GIVEN(X)                                                                                             \
    X(VULKAN_1_1, VkPhysicalDeviceVulkan11Features, storageBuffer16BitAccess, v11)                           \
    X(16BIT_STORAGE, VkPhysicalDevice16BitStorageFeatures, storageBuffer16BitAccess, v11)                    \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, timelineSemaphore, v12)                                  \
    X(TIMELINE_SEMAPHORE, VkPhysicalDeviceTimelineSemaphoreFeatures, timelineSemaphore, v12)                 \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, bufferDeviceAddress, v12)                                \
    X(BUFFER_DEVICE_ADDRESS, VkPhysicalDeviceBufferDeviceAddressFeatures, bufferDeviceAddress, v12)          \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, scalarBlockLayout, v12)                                  \
    X(SCALAR_BLOCK_LAYOUT, VkPhysicalDeviceScalarBlockLayoutFeatures, scalarBlockLayout, v12)                \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, hostQueryReset, v12)                                     \
    X(HOST_QUERY_RESET, VkPhysicalDeviceHostQueryResetFeatures, hostQueryReset, v12)                         \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, shaderFloat16, v12)                                      \
    X(SHADER_FLOAT16_INT8, VkPhysicalDeviceShaderFloat16Int8Features, shaderFloat16, v12)                    \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, shaderInt8, v12)                                         \
    X(SHADER_FLOAT16_INT8, VkPhysicalDeviceShaderFloat16Int8Features, shaderInt8, v12)                       \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, storageBuffer8BitAccess, v12)                            \
    X(8BIT_STORAGE, VkPhysicalDevice8BitStorageFeatures, storageBuffer8BitAccess, v12)                       \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, shaderBufferInt64Atomics, v12)                           \
    X(SHADER_ATOMIC_INT64, VkPhysicalDeviceShaderAtomicInt64Features, shaderBufferInt64Atomics, v12)         \
    X(VULKAN_1_2, VkPhysicalDeviceVulkan12Features, vulkanMemoryModel, v12)                                  \
    X(VULKAN_MEMORY_MODEL, VkPhysicalDeviceVulkanMemoryModelFeatures, vulkanMemoryModel, v12)                \
    X(VULKAN_1_3, VkPhysicalDeviceVulkan13Features, synchronization2, sync2)                                 \
    X(SYNCHRONIZATION_2, VkPhysicalDeviceSynchronization2Features, synchronization2, sync2)                  \
    X(VULKAN_1_3, VkPhysicalDeviceVulkan13Features, subgroupSizeControl, subgroup)                           \
    X(SUBGROUP_SIZE_CONTROL, VkPhysicalDeviceSubgroupSizeControlFeatures, subgroupSizeControl, subgroup)

/* As above, of extensions whose structures have their name behind FEATURES. */
#define GIVEN_EXTENSION(X)                                                                                   \
    X(COOPERATIVE_MATRIX_FEATURES_KHR, VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrix,      \
      matrix)                                                                                                \
    X(SHADER_BFLOAT16_FEATURES_KHR, VkPhysicalDeviceShaderBfloat16FeaturesKHR,                               \
      shaderBFloat16CooperativeMatrix, bfloat16)                                                             \
    X(COOPERATIVE_MATRIX_2_FEATURES_NV, VkPhysicalDeviceCooperativeMatrix2FeaturesNV,                        \
      cooperativeMatrixWorkgroupScope, matrix2)                                                              \
    X(COOPERATIVE_MATRIX_2_FEATURES_NV, VkPhysicalDeviceCooperativeMatrix2FeaturesNV,                        \
      cooperativeMatrixTensorAddressing, matrix2)                                                            \
    X(COOPERATIVE_MATRIX_2_FEATURES_NV, VkPhysicalDeviceCooperativeMatrix2FeaturesNV,                        \
      cooperativeMatrixPerElementOperations, matrix2)

typedef struct given_feature {
    VkStructureType type;
    size_t from, to; /* in the application's structure, and in rota's chain */
} given_feature;

#define ROW(type, structure, member, into)                                                                   \
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type##_FEATURES, offsetof(structure, member),                       \
     offsetof(rota_vk_features, into.member)},
#define ROW_EXTENSION(type, structure, member, into)                                                         \
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type, offsetof(structure, member),                                  \
     offsetof(rota_vk_features, into.member)},
static const given_feature given_features[] = {GIVEN(ROW) GIVEN_EXTENSION(ROW_EXTENSION)};

static void take_core(const VkPhysicalDeviceFeatures *from, rota_vk_features *out) {
    out->core.features.shaderInt64 |= from->shaderInt64;
    out->core.features.shaderInt16 |= from->shaderInt16;
    out->core.features.shaderFloat64 |= from->shaderFloat64;
}

void rota_vk_features_given(const VkDeviceCreateInfo *info, rota_vk_features *out) {
    memset(out, 0, sizeof *out);
    if (info->pEnabledFeatures) take_core(info->pEnabledFeatures, out);
    for (const VkBaseInStructure *given = info->pNext; given; given = given->pNext) {
        if (given->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2)
            take_core(&((const VkPhysicalDeviceFeatures2 *)(const void *)given)->features, out);
        for (size_t i = 0; i < sizeof given_features / sizeof given_features[0]; i++) {
            if (given_features[i].type != given->sType) continue;
            VkBool32 is_on;
            memcpy(&is_on, (const char *)given + given_features[i].from, sizeof is_on);
            if (is_on) memcpy((char *)out + given_features[i].to, &is_on, sizeof is_on);
        }
    }
}

void rota_vk_features_choose(const rota_vk_physical *physical, const rota_vk_features *have,
                             rota_vk_features *out_want) {
    rota_vk_features_begin(physical, out_want);
    out_want->core.features.shaderInt64 = VK_TRUE;
    out_want->core.features.shaderInt16 = have->core.features.shaderInt16;
    out_want->core.features.shaderFloat64 = have->core.features.shaderFloat64;
    out_want->v11.storageBuffer16BitAccess = have->v11.storageBuffer16BitAccess;
    out_want->v12.timelineSemaphore = out_want->v12.bufferDeviceAddress = out_want->v12.scalarBlockLayout =
        VK_TRUE;
    out_want->v12.hostQueryReset = have->v12.hostQueryReset;
    out_want->v12.shaderFloat16 = have->v12.shaderFloat16;
    out_want->v12.shaderInt8 = have->v12.shaderInt8;
    out_want->v12.storageBuffer8BitAccess = have->v12.storageBuffer8BitAccess;
    out_want->v12.shaderBufferInt64Atomics = have->v12.shaderBufferInt64Atomics;
    out_want->v12.vulkanMemoryModel = have->v12.vulkanMemoryModel;
    out_want->v12.vulkanMemoryModelDeviceScope = have->v12.vulkanMemoryModelDeviceScope;
    out_want->sync2.synchronization2 = VK_TRUE;
    out_want->subgroup.subgroupSizeControl = have->subgroup.subgroupSizeControl;
    out_want->subgroup.computeFullSubgroups = have->subgroup.computeFullSubgroups;
    out_want->matrix.cooperativeMatrix = have->matrix.cooperativeMatrix;
    out_want->bfloat16.shaderBFloat16Type = have->bfloat16.shaderBFloat16Type;
    out_want->bfloat16.shaderBFloat16CooperativeMatrix = have->bfloat16.shaderBFloat16CooperativeMatrix;
    void *matrix2_next = out_want->matrix2.pNext;
    VkStructureType matrix2_type = out_want->matrix2.sType;
    out_want->matrix2 = have->matrix2;
    out_want->matrix2.pNext = matrix2_next;
    out_want->matrix2.sType = matrix2_type;
}
