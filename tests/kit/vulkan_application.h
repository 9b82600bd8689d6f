/* An application that has a VkInstance, a VkDevice and a queue of its own, under the Khronos validation layer, as tests
 * of rota inside one need it. */
#ifndef ROTA_TESTS_VULKAN_APPLICATION_H
#define ROTA_TESTS_VULKAN_APPLICATION_H

#include <pthread.h>
#include "exec/vk/vk_loader.h"
#include "rota.h"

/* How the application names the features that it switches on. */
typedef enum application_features {
    APPLICATION_VERSIONS,  /* in the structs of Vulkan 1.2 and 1.3, with what kernels use where it is on */
    APPLICATION_EXTENSIONS /* in a struct each, and only what rota can't do without */
} application_features;

typedef struct application {
    rota_vk_instance_table i;
    rota_vk_table vk;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkDebugUtilsMessengerEXT messenger;
    _Atomic uint32_t messages; /* of the validation layer; each is printed */
    VkAllocationCallbacks callbacks;
    _Atomic uint64_t made, live;          /* allocations by them */
    _Atomic uint64_t pieces, pieces_live; /* of device memory that it gave */
    pthread_mutex_t lock;                 /* of the queue */
    pthread_t caller;                     /* who calls rota, and may not be seen with the lock */
    _Atomic uint32_t locked, locked_by_caller, locked_by_others; /* than submit threads */
    VkDeviceCreateInfo info;
    struct {
        VkDeviceQueueCreateInfo queue;
        float priority;
        const char *extensions[8];
        VkPhysicalDeviceFeatures2 core;
        VkPhysicalDeviceVulkan11Features v11;
        VkPhysicalDeviceVulkan12Features v12;
        VkPhysicalDeviceVulkan13Features v13;
        VkPhysicalDeviceTimelineSemaphoreFeatures timeline;
        VkPhysicalDeviceBufferDeviceAddressFeatures address;
        VkPhysicalDeviceScalarBlockLayoutFeatures scalar;
        VkPhysicalDeviceSynchronization2Features sync2;
    } parts; /* which `info` points into */
} application;

/* Of the first physical device; skips the test, by name, where Vulkan has none that is of Vulkan 1.3. */
application *application_open(application_features features);
/* Ends all of it; the layer has said nothing, and rota has given back all that it allocated. */
void application_close(application *app);
/* What rota is told of it. `shares`: its queue, with its lock. */
rota_vulkan_device application_given(application *app, bool shares);
/* And has device memory of it, too: each piece behind another one's bytes in an allocation. */
void application_gives_memory(application *app, rota_vulkan_device *given);
/* A semaphore of its own, a timeline at 0. */
VkSemaphore application_semaphore(application *app);
/* Under the lock: a submission of nothing but a wait and a signal; no semaphore: none of them. */
void application_submit(application *app, VkSemaphore waited, uint64_t from, VkSemaphore signalled,
                        uint64_t to);
/* Waits until the queue is through, and the driver with what it waited for. */
void application_idle(application *app);
uint64_t application_value(application *app, VkSemaphore semaphore);
/* Waits until it is reached, 20 s at most. */
void application_wait(application *app, VkSemaphore semaphore, uint64_t value);

/* c = a + b, and then a = c, of f32, on the device: each replay adds b to a. */
typedef struct adding {
    rota_buffer *a, *b, *c;
    rota_plan *plan;
} adding;
#define ADDING_COUNT 4096u
adding adding_make(rota_device *device, float a, float b);
void adding_submit(const adding *sums, rota_ticket *out_ticket);
/* What a is, everywhere. */
void adding_expect(const adding *sums, float expected);
void adding_release(adding *sums);

#endif
