/* The Vulkan loader, opened at run time, and tables of the functions that rota calls: one list each
 * (X-macros), from which the tables and their filling come. Nothing links to libvulkan. Internal; not
 * installed. */
#ifndef ROTA_EXEC_VK_VK_LOADER_H
#define ROTA_EXEC_VK_VK_LOADER_H

#include "base/status.h"
#include "exec/vk/vk_newer.h"

#define ROTA_VK_GLOBAL_FUNCTIONS(X)                                                                          \
    X(EnumerateInstanceVersion)                                                                              \
    X(EnumerateInstanceLayerProperties)                                                                      \
    X(EnumerateInstanceExtensionProperties)                                                                  \
    X(CreateInstance)

#define ROTA_VK_INSTANCE_FUNCTIONS(X)                                                                        \
    X(DestroyInstance)                                                                                       \
    X(EnumeratePhysicalDevices)                                                                              \
    X(EnumerateDeviceExtensionProperties)                                                                    \
    X(GetPhysicalDeviceProperties2)                                                                          \
    X(GetPhysicalDeviceFeatures2)                                                                            \
    X(GetPhysicalDeviceMemoryProperties2)                                                                    \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                \
    X(GetPhysicalDeviceExternalBufferProperties)                                                             \
    X(GetPhysicalDeviceExternalSemaphoreProperties)                                                          \
    X(CreateDevice)                                                                                          \
    X(GetDeviceProcAddr)

/* May be absent: extensions. */
#define ROTA_VK_INSTANCE_OPTIONAL(X)                                                                         \
    X(CreateDebugUtilsMessengerEXT)                                                                          \
    X(DestroyDebugUtilsMessengerEXT)                                                                         \
    X(SetDebugUtilsObjectNameEXT)                                                                            \
    X(CmdBeginDebugUtilsLabelEXT)                                                                            \
    X(CmdEndDebugUtilsLabelEXT)                                                                              \
    X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR)                                                       \
    X(GetPhysicalDeviceCalibrateableTimeDomainsEXT)

#define ROTA_VK_DEVICE_FUNCTIONS(X)                                                                          \
    X(DestroyDevice)                                                                                         \
    X(GetDeviceQueue)                                                                                        \
    X(QueueWaitIdle)                                                                                         \
    X(AllocateMemory)                                                                                        \
    X(FreeMemory)                                                                                            \
    X(MapMemory)                                                                                             \
    X(CreateBuffer)                                                                                          \
    X(DestroyBuffer)                                                                                         \
    X(GetBufferMemoryRequirements)                                                                           \
    X(BindBufferMemory)                                                                                      \
    X(GetBufferDeviceAddress)                                                                                \
    X(CreateShaderModule)                                                                                    \
    X(DestroyShaderModule)                                                                                   \
    X(CreatePipelineLayout)                                                                                  \
    X(DestroyPipelineLayout)                                                                                 \
    X(CreatePipelineCache)                                                                                   \
    X(DestroyPipelineCache)                                                                                  \
    X(GetPipelineCacheData)                                                                                  \
    X(CreateComputePipelines)                                                                                \
    X(DestroyPipeline)                                                                                       \
    X(CreateDescriptorSetLayout)                                                                             \
    X(DestroyDescriptorSetLayout)                                                                            \
    X(CreateDescriptorPool)                                                                                  \
    X(DestroyDescriptorPool)                                                                                 \
    X(ResetDescriptorPool)                                                                                   \
    X(AllocateDescriptorSets)                                                                                \
    X(UpdateDescriptorSets)                                                                                  \
    X(CreateCommandPool)                                                                                     \
    X(DestroyCommandPool)                                                                                    \
    X(ResetCommandPool)                                                                                      \
    X(AllocateCommandBuffers)                                                                                \
    X(BeginCommandBuffer)                                                                                    \
    X(EndCommandBuffer)                                                                                      \
    X(CmdBindPipeline)                                                                                       \
    X(CmdBindDescriptorSets)                                                                                 \
    X(CmdPushConstants)                                                                                      \
    X(CmdDispatch)                                                                                           \
    X(CmdDispatchIndirect)                                                                                   \
    X(CmdCopyBuffer)                                                                                         \
    X(CmdFillBuffer)                                                                                         \
    X(CmdCopyQueryPoolResults)                                                                               \
    X(CmdResetQueryPool)                                                                                     \
    X(CreateQueryPool)                                                                                       \
    X(DestroyQueryPool)                                                                                      \
    X(GetQueryPoolResults)                                                                                   \
    X(ResetQueryPool)                                                                                        \
    X(CreateFence)                                                                                           \
    X(DestroyFence)                                                                                          \
    X(WaitForFences)                                                                                         \
    X(CreateSemaphore)                                                                                       \
    X(DestroySemaphore)                                                                                      \
    X(WaitSemaphores)                                                                                        \
    X(SignalSemaphore)                                                                                       \
    X(GetSemaphoreCounterValue)

/* Core in Vulkan 1.3, with the suffix KHR before. */
#define ROTA_VK_SYNC2_FUNCTIONS(X)                                                                           \
    X(QueueSubmit2)                                                                                          \
    X(CmdPipelineBarrier2)                                                                                   \
    X(CmdWriteTimestamp2)

#define ROTA_VK_DEVICE_OPTIONAL(X)                                                                           \
    X(GetCalibratedTimestampsEXT)                                                                            \
    X(GetMemoryFdKHR)                                                                                        \
    X(GetMemoryFdPropertiesKHR)                                                                              \
    X(GetMemoryHostPointerPropertiesEXT)                                                                     \
    X(GetSemaphoreFdKHR)                                                                                     \
    X(ImportSemaphoreFdKHR)                                                                                  \
    X(CreateCuModuleNVX)                                                                                     \
    X(DestroyCuModuleNVX)                                                                                    \
    X(CreateCuFunctionNVX)                                                                                   \
    X(DestroyCuFunctionNVX)                                                                                  \
    X(CmdCuLaunchKernelNVX)

#define ROTA_VK_MEMBER(name) PFN_vk##name name;
#define ROTA_VK_MEMBER_KHR(name) PFN_vk##name##KHR name;

typedef struct rota_vk_global {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    ROTA_VK_GLOBAL_FUNCTIONS(ROTA_VK_MEMBER)
} rota_vk_global;

typedef struct rota_vk_instance_table {
    ROTA_VK_INSTANCE_FUNCTIONS(ROTA_VK_MEMBER)
    ROTA_VK_INSTANCE_OPTIONAL(ROTA_VK_MEMBER)
} rota_vk_instance_table;

typedef struct rota_vk_table {
    ROTA_VK_DEVICE_FUNCTIONS(ROTA_VK_MEMBER)
    ROTA_VK_SYNC2_FUNCTIONS(ROTA_VK_MEMBER_KHR)
    ROTA_VK_DEVICE_OPTIONAL(ROTA_VK_MEMBER)
} rota_vk_table;

/* Opens libvulkan.so.1 once a process (it stays open: drivers do not survive being unloaded). UNSUPPORTED,
 * with the system's reason, where there is none. Any thread; blocks in the dynamic linker the first time. */
rota_status rota_vk_global_get(const rota_vk_global **out_global);

/* Fill the tables; UNSUPPORTED names the first function that is missing. */
rota_status rota_vk_instance_load(const rota_vk_global *global, VkInstance instance,
                                  rota_vk_instance_table *out_table);
rota_status rota_vk_device_load(const rota_vk_instance_table *instance, VkDevice device,
                                rota_vk_table *out_table);

/* "VK_ERROR_DEVICE_LOST" and the like; static storage. */
const char *rota_vk_result_name(VkResult result);

/* The status that a Vulkan error stands for, with a sentence "<what>: <result name>". */
rota_status rota_vk_fail(VkResult result, const char *what);

#endif
