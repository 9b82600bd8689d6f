/* See vulkan_application.h. */
#include "tests/kit/vulkan_application.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "exec/smoke_kernel.h"
#include "tests/kit/support.h"

#define LAYER "VK_LAYER_KHRONOS_validation"
#define must(expression) assert_int_equal((expression), VK_SUCCESS)

/* ---- Allocation callbacks: blocks that know their size and are counted ---- */

static void *VKAPI_CALL allocate(void *user, size_t size, size_t alignment, VkSystemAllocationScope scope) {
    (void)scope;
    application *app = user;
    if (size == 0) return NULL;
    const size_t head = alignment > 16 ? alignment : 16;
    char *block = aligned_alloc(head, (head + size + head - 1) / head * head);
    if (!block) return NULL;
    memcpy(block + head - 16, &(size_t[2]){size, head}, 16);
    (void)ra_fetch_add_relaxed(&app->made, 1);
    (void)ra_fetch_add_relaxed(&app->live, 1);
    return block + head;
}

static void VKAPI_CALL release(void *user, void *memory) {
    application *app = user;
    if (!memory) return;
    size_t words[2];
    memcpy(words, (char *)memory - 16, 16);
    free((char *)memory - words[1]);
    (void)ra_fetch_sub_release(&app->live, 1);
}

static void *VKAPI_CALL reallocate(void *user, void *memory, size_t size, size_t alignment,
                                   VkSystemAllocationScope scope) {
    if (!memory) return allocate(user, size, alignment, scope);
    void *larger = allocate(user, size, alignment, scope);
    if (larger) {
        size_t words[2];
        memcpy(words, (char *)memory - 16, 16);
        memcpy(larger, memory, words[0] < size ? words[0] : size);
    }
    if (larger || size == 0) release(user, memory);
    return larger;
}

/* ---- The device ---- */

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *user) {
    (void)severity;
    if (!(types & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT)) return VK_FALSE;
    (void)ra_fetch_add_relaxed(&((application *)user)->messages, 1);
    (void)fprintf(stderr, "%s\n", data->pMessage);
    return VK_FALSE;
}

static bool has_layer(const rota_vk_global *global) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)global;
    return false; /* that is the plain build's */
#else
    VkLayerProperties layers[64];
    uint32_t count = 64;
    bool found = false;
    if (global->EnumerateInstanceLayerProperties(&count, layers) < 0) return false;
    for (uint32_t i = 0; i < count; i++) found = found || strcmp(layers[i].layerName, LAYER) == 0;
    return found;
#endif
}

static bool open_instance(application *app) {
    const rota_vk_global *global;
    if (rota_vk_global_get(&global) != ROTA_OK) return false;
    const char *layers[] = {LAYER}, *extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    const bool is_checked = has_layer(global);
    VkApplicationInfo about = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                               .pApplicationName = "an application",
                               .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &about,
                                 .enabledLayerCount = is_checked,
                                 .ppEnabledLayerNames = layers,
                                 .enabledExtensionCount = is_checked,
                                 .ppEnabledExtensionNames = extensions};
    if (global->CreateInstance(&info, NULL, &app->instance) != VK_SUCCESS) return false;
    assert_ok(rota_vk_instance_load(global, app->instance, &app->i));
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = app};
    if (is_checked)
        must(app->i.CreateDebugUtilsMessengerEXT(app->instance, &messenger, NULL, &app->messenger));
    uint32_t count = 1;
    if (app->i.EnumeratePhysicalDevices(app->instance, &count, &app->physical) < 0 || count == 0)
        return false;
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    app->i.GetPhysicalDeviceProperties2(app->physical, &properties);
    return properties.properties.apiVersion >= VK_API_VERSION_1_3;
}

static void chain(application *app, void *part, VkStructureType type) {
    VkBaseOutStructure *structure = part;
    structure->sType = type;
    structure->pNext = (VkBaseOutStructure *)(uintptr_t)app->info.pNext;
    app->info.pNext = part;
}

static void choose(application *app, application_features features) {
    VkPhysicalDeviceVulkan12Features has12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features has11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                              .pNext = &has12};
    VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &has11};
    app->i.GetPhysicalDeviceFeatures2(app->physical, &has);
    app->parts.core.features.shaderInt64 = VK_TRUE;
    chain(app, &app->parts.core, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    if (features == APPLICATION_EXTENSIONS) {
        app->parts.timeline.timelineSemaphore = app->parts.address.bufferDeviceAddress =
            app->parts.scalar.scalarBlockLayout = app->parts.sync2.synchronization2 = VK_TRUE;
        chain(app, &app->parts.timeline, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
        chain(app, &app->parts.address, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES);
        chain(app, &app->parts.scalar, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES);
        chain(app, &app->parts.sync2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES);
        return;
    }
    app->parts.core.features.shaderInt16 = has.features.shaderInt16;
    app->parts.v11.storageBuffer16BitAccess = has11.storageBuffer16BitAccess;
    app->parts.v12.timelineSemaphore = app->parts.v12.bufferDeviceAddress = app->parts.v12.scalarBlockLayout =
        VK_TRUE;
    app->parts.v12.shaderFloat16 = has12.shaderFloat16;
    app->parts.v12.shaderInt8 = has12.shaderInt8;
    app->parts.v12.storageBuffer8BitAccess = has12.storageBuffer8BitAccess;
    app->parts.v12.hostQueryReset = has12.hostQueryReset;
    app->parts.v12.shaderBufferInt64Atomics = has12.shaderBufferInt64Atomics;
    app->parts.v13.synchronization2 = VK_TRUE;
    chain(app, &app->parts.v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    chain(app, &app->parts.v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    chain(app, &app->parts.v13, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
}

/* Those of them that the device has. */
static void choose_extensions(application *app) {
    static const char *const wanted[] = {
        VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
        VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME};
    VkExtensionProperties has[512];
    uint32_t count = 512;
    must(app->i.EnumerateDeviceExtensionProperties(app->physical, NULL, &count, has));
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++)
        for (uint32_t i = 0; i < count; i++)
            if (strcmp(has[i].extensionName, wanted[w]) == 0)
                app->parts.extensions[app->info.enabledExtensionCount++] = wanted[w];
    app->info.ppEnabledExtensionNames = app->parts.extensions;
}

application *application_open(application_features features) {
    application *app = calloc(1, sizeof *app);
    assert_non_null(app);
    app->callbacks = (VkAllocationCallbacks){
        .pUserData = app, .pfnAllocation = allocate, .pfnReallocation = reallocate, .pfnFree = release};
    app->caller = pthread_self();
    assert_int_equal(pthread_mutex_init(&app->lock, NULL), 0);
    if (!open_instance(app)) {
        print_message("skipped: no device of Vulkan 1.3\n");
        if (app->instance) app->i.DestroyInstance(app->instance, NULL);
        free(app);
        skip();
    }
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    app->i.GetPhysicalDeviceQueueFamilyProperties(app->physical, &count, families);
    while (app->family < count && !(families[app->family].queueFlags & VK_QUEUE_COMPUTE_BIT)) app->family++;
    assert_true(app->family < count);
    app->info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    app->parts.priority = 1;
    app->parts.queue = (VkDeviceQueueCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                                 .queueFamilyIndex = app->family,
                                                 .queueCount = 1,
                                                 .pQueuePriorities = &app->parts.priority};
    app->info.queueCreateInfoCount = 1;
    app->info.pQueueCreateInfos = &app->parts.queue;
    choose(app, features);
    if (features == APPLICATION_VERSIONS) choose_extensions(app);
    must(app->i.CreateDevice(app->physical, &app->info, NULL, &app->device));
    assert_ok(rota_vk_device_load(&app->i, app->device, &app->vk));
    app->vk.GetDeviceQueue(app->device, app->family, 0, &app->queue);
    return app;
}

void application_close(application *app) {
    assert_int_equal(ra_load_acquire(&app->live), 0);
    assert_int_equal(ra_load_acquire(&app->pieces_live), 0);
    assert_int_equal(ra_load_relaxed(&app->locked_by_caller), 0);
    assert_int_equal(ra_load_relaxed(&app->locked_by_others), 0);
    must(app->vk.QueueWaitIdle(app->queue)); /* which is still there */
    app->vk.DestroyDevice(app->device, NULL);
    if (app->messenger) app->i.DestroyDebugUtilsMessengerEXT(app->instance, app->messenger, NULL);
    app->i.DestroyInstance(app->instance, NULL);
    assert_int_equal(ra_load_relaxed(&app->messages), 0);
    (void)pthread_mutex_destroy(&app->lock);
    free(app);
}

static void lock_queue(void *user) {
    application *app = user;
    (void)ra_fetch_add_relaxed(&app->locked, 1);
    if (pthread_equal(pthread_self(), app->caller)) (void)ra_fetch_add_relaxed(&app->locked_by_caller, 1);
    /* A submit thread has its process's name, or one of its own; this is the completion thread's. */
    char name[16] = "";
    (void)pthread_getname_np(pthread_self(), name, sizeof name);
    if (strcmp(name, "rota-vk-done") == 0) (void)ra_fetch_add_relaxed(&app->locked_by_others, 1);
    (void)pthread_mutex_lock(&app->lock);
}

static void unlock_queue(void *user) {
    (void)pthread_mutex_unlock(&((application *)user)->lock);
}

rota_vulkan_device application_given(application *app, bool shares) {
    rota_vulkan_device given =
        ROTA_VULKAN_DEVICE(.instance = app->instance, .physical_device = app->physical, .device = app->device,
                           .api_version = VK_API_VERSION_1_3, .create_info = &app->info,
                           .allocation_callbacks = &app->callbacks);
    given.compute.family = app->family;
    if (shares) {
        given.compute.lock = lock_queue;
        given.compute.unlock = unlock_queue;
        given.compute.user = app;
    }
    return given;
}

/* ---- Device memory ---- */

static bool give_piece(void *user, uint64_t size_bytes, uint64_t alignment_bytes, uint32_t memory_type,
                       bool is_mapped, rota_vulkan_memory *out_memory) {
    application *app = user;
    const uint64_t front = (4096 + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &flags,
                                 .allocationSize = front + size_bytes,
                                 .memoryTypeIndex = memory_type};
    VkDeviceMemory memory;
    void *host = NULL;
    if (app->vk.AllocateMemory(app->device, &info, NULL, &memory) != VK_SUCCESS) return false;
    if (is_mapped && app->vk.MapMemory(app->device, memory, 0, VK_WHOLE_SIZE, 0, &host) != VK_SUCCESS)
        return false;
    (void)ra_fetch_add_relaxed(&app->pieces, 1);
    (void)ra_fetch_add_relaxed(&app->pieces_live, 1);
    *out_memory = (rota_vulkan_memory){memory, front, host ? (char *)host + front : NULL, app};
    return true;
}

static void take_piece(void *user, const rota_vulkan_memory *memory) {
    application *app = user;
    if (memory->piece != app) return;
    app->vk.FreeMemory(app->device, memory->memory, NULL);
    (void)ra_fetch_sub_release(&app->pieces_live, 1);
}

void application_gives_memory(application *app, rota_vulkan_device *given) {
    given->allocate = give_piece;
    given->free = take_piece;
    given->memory_user = app;
}

/* ---- What it does itself ---- */

VkSemaphore application_semaphore(application *app) {
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore semaphore;
    must(app->vk.CreateSemaphore(app->device, &info, NULL, &semaphore));
    return semaphore;
}

void application_submit(application *app, VkSemaphore waited, uint64_t from, VkSemaphore signalled,
                        uint64_t to) {
    VkSemaphoreSubmitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                  .semaphore = waited,
                                  .value = from,
                                  .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT},
                          signal = wait;
    signal.semaphore = signalled;
    signal.value = to;
    VkSubmitInfo2 info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                          .waitSemaphoreInfoCount = waited != VK_NULL_HANDLE,
                          .pWaitSemaphoreInfos = &wait,
                          .signalSemaphoreInfoCount = signalled != VK_NULL_HANDLE,
                          .pSignalSemaphoreInfos = &signal};
    (void)pthread_mutex_lock(&app->lock);
    const VkResult result = app->vk.QueueSubmit2(app->queue, 1, &info, VK_NULL_HANDLE);
    (void)pthread_mutex_unlock(&app->lock);
    must(result);
}

void application_idle(application *app) {
    (void)pthread_mutex_lock(&app->lock);
    const VkResult result = app->vk.QueueWaitIdle(app->queue);
    (void)pthread_mutex_unlock(&app->lock);
    must(result);
}

uint64_t application_value(application *app, VkSemaphore semaphore) {
    uint64_t value = 0;
    must(app->vk.GetSemaphoreCounterValue(app->device, semaphore, &value));
    return value;
}

void application_wait(application *app, VkSemaphore semaphore, uint64_t value) {
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &semaphore,
                                .pValues = &value};
    must(app->vk.WaitSemaphores(app->device, &info, 20000000000u));
}

/* ---- A plan ---- */

static rota_buffer *floats(rota_device *device, const char *name, float value) {
    static _Thread_local float values[ADDING_COUNT];
    for (uint32_t i = 0; i < ADDING_COUNT; i++) values[i] = value;
    rota_buffer *buffer;
    assert_ok(rota_buffer_create_in(rota_device_runtime(device), name, sizeof values, &buffer));
    assert_ok(rota_buffer_write(buffer, device, 0, values, sizeof values, NULL));
    return buffer;
}

adding adding_make(rota_device *device, float a, float b) {
    adding sums = {floats(device, "a", a), floats(device, "b", b), floats(device, "c", 0), NULL};
    rota_graph *graph;
    rota_recorder *recorder;
    const uint32_t count = ADDING_COUNT;
    rota_access accesses[] = {{sums.a, 0, ROTA_WHOLE, ROTA_READ},
                              {sums.b, 0, ROTA_WHOLE, ROTA_READ},
                              {sums.c, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "adding"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .accesses = accesses,
                                                   .access_count = 3, .params = &count),
                                 NULL));
    assert_ok(rota_record_copy(recorder, sums.a, 0, sums.c, 0, ADDING_COUNT * sizeof(float), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        rota_device_runtime(device), graph,
        &ROTA_COMPILE_OPTIONS(.name = "adding", .devices = &device, .device_count = 1, .certify = true),
        &sums.plan));
    rota_graph_release(graph);
    return sums;
}

void adding_submit(const adding *sums, rota_ticket *out_ticket) {
    assert_ok(rota_submit_wait(sums->plan, NULL, 0, out_ticket));
}

void adding_expect(const adding *sums, float expected) {
    static _Thread_local float values[ADDING_COUNT];
    assert_ok(rota_buffer_read(sums->a, 0, values, sizeof values));
    for (uint32_t i = 0; i < ADDING_COUNT; i++)
        if (values[i] < expected || values[i] > expected)
            fail_msg("element %u is %g, expected %g", i, (double)values[i], (double)expected);
}

void adding_release(adding *sums) {
    rota_plan_release(sums->plan);
    rota_buffer_release(sums->a);
    rota_buffer_release(sums->b);
    rota_buffer_release(sums->c);
}
