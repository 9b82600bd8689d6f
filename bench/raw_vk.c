/* The same dispatches through Vulkan alone. */
#include "bench/raw_vk.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#define BUFFER_BYTES 256
#define WAIT_NS UINT64_C(30000000000)
#define MERGED_MAX 64

#define INSTANCE_FUNCTIONS(X)                                                                                \
    X(DestroyInstance)                                                                                       \
    X(EnumeratePhysicalDevices)                                                                              \
    X(GetPhysicalDeviceProperties)                                                                           \
    X(GetPhysicalDeviceMemoryProperties)                                                                     \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                \
    X(CreateDevice)                                                                                          \
    X(GetDeviceProcAddr)
#define DEVICE_FUNCTIONS(X)                                                                                  \
    X(DestroyDevice)                                                                                         \
    X(GetDeviceQueue)                                                                                        \
    X(CreateBuffer)                                                                                          \
    X(DestroyBuffer)                                                                                         \
    X(GetBufferMemoryRequirements)                                                                           \
    X(AllocateMemory)                                                                                        \
    X(FreeMemory)                                                                                            \
    X(BindBufferMemory)                                                                                      \
    X(MapMemory)                                                                                             \
    X(GetBufferDeviceAddress)                                                                                \
    X(CreateShaderModule)                                                                                    \
    X(DestroyShaderModule)                                                                                   \
    X(CreatePipelineLayout)                                                                                  \
    X(DestroyPipelineLayout)                                                                                 \
    X(CreateComputePipelines)                                                                                \
    X(DestroyPipeline)                                                                                       \
    X(CreateCommandPool)                                                                                     \
    X(DestroyCommandPool)                                                                                    \
    X(AllocateCommandBuffers)                                                                                \
    X(BeginCommandBuffer)                                                                                    \
    X(EndCommandBuffer)                                                                                      \
    X(CmdBindPipeline)                                                                                       \
    X(CmdPushConstants)                                                                                      \
    X(CmdDispatch)                                                                                           \
    X(CmdPipelineBarrier)                                                                                    \
    X(CmdCopyBuffer)                                                                                         \
    X(CreateSemaphore)                                                                                       \
    X(DestroySemaphore)                                                                                      \
    X(WaitSemaphores)                                                                                        \
    X(GetSemaphoreCounterValue)

struct raw_vk {
    void *library;
    VkInstance instance;
    VkDevice device;
    VkQueue queue;
    VkBuffer buffer, staging;
    VkDeviceMemory memory, staging_memory;
    uint32_t *mapped;
    uint64_t address, bytes;
    VkPipelineLayout layouts[BENCH_OPERANDS_MAX];
    VkPipeline pipelines[BENCH_OPERANDS_MAX];
    VkCommandPool pool;
    VkCommandBuffer graph_commands, upload_commands, download_commands;
    VkSemaphore timeline;
    uint64_t submitted, barriers;
    PFN_vkQueueSubmit2 QueueSubmit2;
#define DECLARE(name) PFN_vk##name name;
    INSTANCE_FUNCTIONS(DECLARE)
    DEVICE_FUNCTIONS(DECLARE)
#undef DECLARE
};

/* What the push constants of the trivial kernels look like (exec/vk/rota_kernel.glsl). */
typedef struct push_block {
    uint64_t block;
    uint64_t operands[BENCH_OPERANDS_MAX];
} push_block;

static bool check_result(VkResult result, const char *call) {
    if (result == VK_SUCCESS) return true;
    fprintf(stderr, "raw Vulkan: %s failed with %d\n", call, (int)result);
    return false;
}
#define CHECK(call)                                                                                          \
    if (!check_result(call, #call)) return false

static bool open_instance(raw_vk *raw) {
    raw->library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!raw->library) {
        fprintf(stderr, "raw Vulkan: %s\n", dlerror());
        return false;
    }
    PFN_vkGetInstanceProcAddr get;
    *(void **)&get = dlsym(raw->library, "vkGetInstanceProcAddr");
    PFN_vkCreateInstance create = get ? (PFN_vkCreateInstance)get(NULL, "vkCreateInstance") : NULL;
    if (!create) {
        fprintf(stderr, "raw Vulkan: libvulkan.so.1 has no vkCreateInstance\n");
        return false;
    }
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "rota-bench",
                                           .apiVersion = VK_API_VERSION_1_3};
    CHECK(create(&(VkInstanceCreateInfo){.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                         .pApplicationInfo = &application},
                 NULL, &raw->instance));
#define LOAD(name) raw->name = (PFN_vk##name)get(raw->instance, "vk" #name);
    INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

/* What commands and signals are made of. */
static bool make_pool(raw_vk *raw, uint32_t family) {
    CHECK(
        raw->CreateCommandPool(raw->device,
                               &(VkCommandPoolCreateInfo){.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                                          .queueFamilyIndex = family},
                               NULL, &raw->pool));
    const VkSemaphoreTypeCreateInfo timeline = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                                .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    CHECK(raw->CreateSemaphore(
        raw->device,
        &(VkSemaphoreCreateInfo){.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &timeline}, NULL,
        &raw->timeline));
    return true;
}

static bool open_device(raw_vk *raw, uint32_t index) {
    if (!open_instance(raw)) return false;
    VkPhysicalDevice physical[32];
    uint32_t count = 32;
    VkResult listed = raw->EnumeratePhysicalDevices(raw->instance, &count, physical);
    if ((listed != VK_SUCCESS && listed != VK_INCOMPLETE) || index >= count) {
        fprintf(stderr, "raw Vulkan: there is no device %" PRIu32 " of %" PRIu32 "\n", index, count);
        return false;
    }
    VkPhysicalDeviceProperties properties;
    raw->GetPhysicalDeviceProperties(physical[index], &properties);
    VkQueueFamilyProperties families[32];
    uint32_t family_count = 32, family = 0;
    raw->GetPhysicalDeviceQueueFamilyProperties(physical[index], &family_count, families);
    while (family < family_count && !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) family++;
    if (family == family_count) {
        fprintf(stderr, "raw Vulkan: '%s' has no compute queue\n", properties.deviceName);
        return false;
    }
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    VkPhysicalDeviceSynchronization2Features synchronization2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES, .synchronization2 = VK_TRUE};
    VkPhysicalDeviceVulkan12Features features12 = {.sType =
                                                       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                   .pNext = &synchronization2,
                                                   .timelineSemaphore = VK_TRUE,
                                                   .bufferDeviceAddress = VK_TRUE,
                                                   .scalarBlockLayout = VK_TRUE};
    const VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                                .pNext = &features12,
                                                .features = {.shaderInt64 = VK_TRUE}};
    const bool core = properties.apiVersion >= VK_API_VERSION_1_3;
    const char *extension = VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME;
    CHECK(raw->CreateDevice(physical[index],
                            &(VkDeviceCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                                  .pNext = &features,
                                                  .queueCreateInfoCount = 1,
                                                  .pQueueCreateInfos = &queue,
                                                  .enabledExtensionCount = core ? 0 : 1,
                                                  .ppEnabledExtensionNames = &extension},
                            NULL, &raw->device));
#define LOAD(name) raw->name = (PFN_vk##name)raw->GetDeviceProcAddr(raw->device, "vk" #name);
    DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    raw->QueueSubmit2 = (PFN_vkQueueSubmit2)raw->GetDeviceProcAddr(raw->device, core ? "vkQueueSubmit2"
                                                                                     : "vkQueueSubmit2KHR");
    raw->GetDeviceQueue(raw->device, family, 0, &raw->queue);
    return make_pool(raw, family);
}

static bool make_buffer(raw_vk *raw, uint32_t index, bool host, VkBuffer *out_buffer,
                        VkDeviceMemory *out_memory) {
    VkPhysicalDevice physical[32];
    uint32_t count = 32;
    raw->EnumeratePhysicalDevices(raw->instance, &count, physical);
    VkPhysicalDeviceMemoryProperties memory;
    raw->GetPhysicalDeviceMemoryProperties(physical[index], &memory);
    CHECK(raw->CreateBuffer(raw->device,
                            &(VkBufferCreateInfo){.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                                  .size = raw->bytes,
                                                  .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                                           VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                                           VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                                           VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT},
                            NULL, out_buffer));
    VkMemoryRequirements needs;
    raw->GetBufferMemoryRequirements(raw->device, *out_buffer, &needs);
    VkMemoryPropertyFlags wanted =
        host ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
             : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    uint32_t type = 0;
    while (type < memory.memoryTypeCount && (!(needs.memoryTypeBits >> type & 1) ||
                                             (memory.memoryTypes[type].propertyFlags & wanted) != wanted))
        type++;
    if (type == memory.memoryTypeCount) {
        fprintf(stderr, "raw Vulkan: no memory of the kind needed\n");
        return false;
    }
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    CHECK(raw->AllocateMemory(raw->device,
                              &(VkMemoryAllocateInfo){.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                                      .pNext = &flags,
                                                      .allocationSize = needs.size,
                                                      .memoryTypeIndex = type},
                              NULL, out_memory));
    CHECK(raw->BindBufferMemory(raw->device, *out_buffer, *out_memory, 0));
    return true;
}

static bool make_pipelines(raw_vk *raw) {
    for (uint32_t i = 0; i < BENCH_OPERANDS_MAX; i++) {
        VkShaderModule module;
        const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                           8 + 8 * (i + 1) + sizeof(bench_params)};
        CHECK(raw->CreateShaderModule(
            raw->device,
            &(VkShaderModuleCreateInfo){.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                        .codeSize = bench_kernels[i].vk.size_bytes,
                                        .pCode = bench_kernels[i].vk.words},
            NULL, &module));
        CHECK(raw->CreatePipelineLayout(
            raw->device,
            &(VkPipelineLayoutCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                          .pushConstantRangeCount = 1,
                                          .pPushConstantRanges = &range},
            NULL, &raw->layouts[i]));
        const VkPipelineShaderStageCreateInfo stage = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
            .stage = VK_SHADER_STAGE_COMPUTE_BIT,
            .module = module,
            .pName = "main"};
        CHECK(raw->CreateComputePipelines(
            raw->device, VK_NULL_HANDLE, 1,
            &(VkComputePipelineCreateInfo){.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                           .stage = stage,
                                           .layout = raw->layouts[i]},
            NULL, &raw->pipelines[i]));
        raw->DestroyShaderModule(raw->device, module, NULL);
    }
    return true;
}

/* What a careful caller would put between dispatches: no more than dispatches after dispatches. */
static void barrier(raw_vk *raw, VkCommandBuffer commands) {
    raw->CmdPipelineBarrier(
        commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
        &(VkMemoryBarrier){.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT},
        0, NULL, 0, NULL);
}

/* Which buffers were read and written since the last barrier. */
typedef struct touched {
    uint64_t *read_since, *written_since; /* by buffer: number of barriers when it last was, plus 1 */
} touched;

static bool needs_barrier(const touched *t, const bench_node *node, uint64_t barriers) {
    for (uint32_t a = 0; a < node->access_count; a++) {
        uint64_t buffer = node->accesses[a].buffer;
        if (t->written_since[buffer] == barriers + 1) return true;
        if (node->accesses[a].mode != ROTA_READ && t->read_since[buffer] == barriers + 1) return true;
    }
    return false;
}

static bool record_graph(raw_vk *raw, const bench_graph *graph) {
    touched t = {calloc(graph->buffer_count, sizeof(uint64_t)),
                 calloc(graph->buffer_count, sizeof(uint64_t))};
    bool good = t.read_since && t.written_since;
    if (!good) fprintf(stderr, "raw Vulkan: out of memory\n");
    VkCommandBuffer commands = raw->graph_commands;
    good = good &&
           check_result(raw->BeginCommandBuffer(commands,
                                                &(VkCommandBufferBeginInfo){
                                                    .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                                    .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT}),
                        "vkBeginCommandBuffer");
    /* After the submission before this one. */
    if (good) barrier(raw, commands);
    uint32_t bound = BENCH_OPERANDS_MAX;
    for (uint64_t i = 0; i < graph->node_count && good; i++) {
        bench_node node;
        bench_graph_node(graph, i, &node);
        if (needs_barrier(&t, &node, raw->barriers)) {
            barrier(raw, commands);
            raw->barriers++;
        }
        uint32_t pipeline = node.access_count - 1;
        if (pipeline != bound)
            raw->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, raw->pipelines[pipeline]);
        bound = pipeline;
        push_block push = {0};
        for (uint32_t a = 0; a < node.access_count; a++) {
            const bench_access *access = &node.accesses[a];
            push.operands[a] = raw->address + access->buffer * BUFFER_BYTES + access->offset_bytes;
            if (access->mode != ROTA_WRITE) t.read_since[access->buffer] = raw->barriers + 1;
            if (access->mode != ROTA_READ) t.written_since[access->buffer] = raw->barriers + 1;
        }
        unsigned char bytes[sizeof push + sizeof node.params];
        uint32_t pointers = 8 + 8 * node.access_count;
        memcpy(bytes, &push, pointers);
        memcpy(bytes + pointers, &node.params, sizeof node.params);
        raw->CmdPushConstants(commands, raw->layouts[pipeline], VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              pointers + (uint32_t)sizeof node.params, bytes);
        raw->CmdDispatch(commands, 1, 1, 1);
    }
    good = good && check_result(raw->EndCommandBuffer(commands), "vkEndCommandBuffer");
    free(t.read_since);
    free(t.written_since);
    return good;
}

static bool record_copy(raw_vk *raw, VkCommandBuffer commands, VkBuffer from, VkBuffer to) {
    CHECK(raw->BeginCommandBuffer(
        commands, &(VkCommandBufferBeginInfo){.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO}));
    raw->CmdPipelineBarrier(
        commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
        &(VkMemoryBarrier){.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT},
        0, NULL, 0, NULL);
    raw->CmdCopyBuffer(commands, from, to, 1, &(VkBufferCopy){.size = raw->bytes});
    raw->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                            VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
                            &(VkMemoryBarrier){.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                               .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT |
                                                                VK_ACCESS_SHADER_READ_BIT |
                                                                VK_ACCESS_SHADER_WRITE_BIT},
                            0, NULL, 0, NULL);
    CHECK(raw->EndCommandBuffer(commands));
    return true;
}

static bool submit(raw_vk *raw, VkCommandBuffer commands, uint32_t count) {
    VkCommandBufferSubmitInfo buffers[MERGED_MAX];
    for (uint32_t i = 0; i < count; i++)
        buffers[i] = (VkCommandBufferSubmitInfo){.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
                                                 .commandBuffer = commands};
    const VkSemaphoreSubmitInfo signal = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                          .semaphore = raw->timeline,
                                          .value = raw->submitted + 1,
                                          .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
    VkResult result = raw->QueueSubmit2(raw->queue, 1,
                                        &(VkSubmitInfo2){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                                                         .commandBufferInfoCount = count,
                                                         .pCommandBufferInfos = buffers,
                                                         .signalSemaphoreInfoCount = 1,
                                                         .pSignalSemaphoreInfos = &signal},
                                        VK_NULL_HANDLE);
    if (!check_result(result, "vkQueueSubmit2")) return false;
    raw->submitted++;
    return true;
}

static bool create(raw_vk *raw, const bench_graph *graph, uint32_t index) {
    raw->bytes = graph->buffer_count * BUFFER_BYTES;
    if (!open_device(raw, index) || !make_buffer(raw, index, false, &raw->buffer, &raw->memory) ||
        !make_buffer(raw, index, true, &raw->staging, &raw->staging_memory) || !make_pipelines(raw))
        return false;
    CHECK(raw->MapMemory(raw->device, raw->staging_memory, 0, VK_WHOLE_SIZE, 0, (void **)&raw->mapped));
    raw->address = raw->GetBufferDeviceAddress(
        raw->device, &(VkBufferDeviceAddressInfo){.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                                  .buffer = raw->buffer});
    VkCommandBuffer buffers[3];
    CHECK(raw->AllocateCommandBuffers(
        raw->device,
        &(VkCommandBufferAllocateInfo){.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                       .commandPool = raw->pool,
                                       .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                       .commandBufferCount = 3},
        buffers));
    raw->graph_commands = buffers[0];
    raw->upload_commands = buffers[1];
    raw->download_commands = buffers[2];
    uint32_t *state = bench_graph_state(graph, 0, NULL);
    if (!state) return false;
    memset(raw->mapped, 0, raw->bytes);
    for (uint64_t buffer = 0; buffer < graph->buffer_count; buffer++)
        memcpy(raw->mapped + buffer * (BUFFER_BYTES / 4), state + buffer * BENCH_WORDS_MAX,
               (size_t)BENCH_WORDS_MAX * 4);
    free(state);
    return record_graph(raw, graph) && record_copy(raw, raw->upload_commands, raw->staging, raw->buffer) &&
           record_copy(raw, raw->download_commands, raw->buffer, raw->staging) &&
           submit(raw, raw->upload_commands, 1) && raw_vk_wait(raw);
}

raw_vk *raw_vk_create(const bench_graph *graph, uint32_t index) {
    raw_vk *raw = calloc(1, sizeof *raw);
    if (raw && create(raw, graph, index)) return raw;
    raw_vk_destroy(raw);
    return NULL;
}

void raw_vk_destroy(raw_vk *raw) {
    if (!raw) return;
    if (raw->device) {
        if (raw->timeline && raw->submitted) (void)raw_vk_wait(raw);
        for (uint32_t i = 0; i < BENCH_OPERANDS_MAX; i++) {
            raw->DestroyPipeline(raw->device, raw->pipelines[i], NULL);
            raw->DestroyPipelineLayout(raw->device, raw->layouts[i], NULL);
        }
        raw->DestroyCommandPool(raw->device, raw->pool, NULL);
        raw->DestroySemaphore(raw->device, raw->timeline, NULL);
        raw->DestroyBuffer(raw->device, raw->buffer, NULL);
        raw->DestroyBuffer(raw->device, raw->staging, NULL);
        raw->FreeMemory(raw->device, raw->memory, NULL);
        raw->FreeMemory(raw->device, raw->staging_memory, NULL);
        raw->DestroyDevice(raw->device, NULL);
    }
    if (raw->instance) raw->DestroyInstance(raw->instance, NULL);
    if (raw->library) dlclose(raw->library);
    free(raw);
}

bool raw_vk_submit(raw_vk *raw) {
    return submit(raw, raw->graph_commands, 1);
}

bool raw_vk_submit_merged(raw_vk *raw, uint32_t count) {
    return submit(raw, raw->graph_commands, count < MERGED_MAX ? count : MERGED_MAX);
}

bool raw_vk_wait(raw_vk *raw) {
    VkResult result =
        raw->WaitSemaphores(raw->device,
                            &(VkSemaphoreWaitInfo){.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                                   .semaphoreCount = 1,
                                                   .pSemaphores = &raw->timeline,
                                                   .pValues = &raw->submitted},
                            WAIT_NS);
    return check_result(result, "vkWaitSemaphores");
}

uint64_t raw_vk_submitted(const raw_vk *raw) {
    return raw->submitted;
}

uint64_t raw_vk_completed(const raw_vk *raw) {
    uint64_t value = 0;
    return raw->GetSemaphoreCounterValue(raw->device, raw->timeline, &value) == VK_SUCCESS ? value : 0;
}

uint64_t raw_vk_barriers(const raw_vk *raw) {
    return raw->barriers;
}

bool raw_vk_check(raw_vk *raw, const bench_graph *graph, uint64_t replays) {
    if (!submit(raw, raw->download_commands, 1) || !raw_vk_wait(raw)) return false;
    uint32_t *state = bench_graph_state(graph, replays, NULL);
    if (!state) return false;
    bool good = true;
    for (uint64_t buffer = 0; buffer < graph->buffer_count && good; buffer++) {
        if (!graph->persistent_number[buffer]) continue;
        uint32_t got = raw->mapped[buffer * (BUFFER_BYTES / 4)], expected = state[buffer * BENCH_WORDS_MAX];
        good = got == expected;
        if (!good)
            fprintf(stderr,
                    "raw Vulkan: place %" PRIu64 " holds %" PRIu32 " after %" PRIu64 " replays, not %" PRIu32
                    "\n",
                    buffer, got, replays, expected);
    }
    free(state);
    return good;
}
