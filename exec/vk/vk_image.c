/* CUDA images on devices with VK_NVX_binary_import: modules and functions, made at the first use and kept by
 * the device until it closes, and what such a kernel may ask for.
 *
 * Vulkan says nothing of the device's CUDA architecture. An image of kernels named after theirs does: the
 * driver loads the best that the device can run. */
#include "cuda/architecture.h"
#include "exec/vk/vk_image.h"
#include "graph/kernel_calls.h"
#include "exec/vk/vk_device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With more dynamic shared memory a launch loses the device (seen with driver 580). */
#define SHARED_BYTES_MAX (47u * 1024u)
#define BLOCK_THREADS_MAX 1024u

/* Of the process. NVIDIA's Vulkan driver keeps a CUDA context per device, and takes its own lock and CUDA's
 * in one order where it makes or ends one, in the other where CUDA calls it back: two threads that did so at
 * once, for devices of their own, waited for each other for ever (driver 580). So one at a time. */
static pthread_mutex_t cuda_lock = PTHREAD_MUTEX_INITIALIZER;

void rota_vk_cuda_lock(void) {
    pthread_mutex_lock(&cuda_lock);
}
void rota_vk_cuda_unlock(void) {
    pthread_mutex_unlock(&cuda_lock);
}

struct rota_vk_image {
    rota_vk_image *next;
    VkCuModuleNVX module;
    VkCuFunctionNVX function;
    /* The key, a copy: the kernel may be gone when another comes with the same address. */
    void *bytes;
    size_t size_bytes;
    char *entry;
};

static void image_free(rota_vk_device *device, rota_vk_image *image) {
    rota_vk_cuda_lock();
    if (image->function)
        device->vk.DestroyCuFunctionNVX(device->handle, image->function, device->application.allocator);
    if (image->module)
        device->vk.DestroyCuModuleNVX(device->handle, image->module, device->application.allocator);
    rota_vk_cuda_unlock();
    free(image->bytes);
    free(image->entry);
    free(image);
}

/* Under cuda_lock. */
static rota_status make_function(rota_vk_device *device, const void *bytes, size_t size_bytes,
                                 const char *entry, VkCuModuleNVX *out_module,
                                 VkCuFunctionNVX *out_function) {
    VkCuModuleCreateInfoNVX module_info = {
        .sType = VK_STRUCTURE_TYPE_CU_MODULE_CREATE_INFO_NVX, .dataSize = size_bytes, .pData = bytes};
    VkResult result = VK_SUCCESS;
    if (!*out_module)
        result = device->vk.CreateCuModuleNVX(device->handle, &module_info, device->application.allocator,
                                              out_module);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateCuModuleNVX");
    VkCuFunctionCreateInfoNVX function_info = {
        .sType = VK_STRUCTURE_TYPE_CU_FUNCTION_CREATE_INFO_NVX, .module = *out_module, .pName = entry};
    result = device->vk.CreateCuFunctionNVX(device->handle, &function_info, device->application.allocator,
                                            out_function);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateCuFunctionNVX");
    return ROTA_OK;
}

/* ---- The device ---- */

#if ROTA_CUDA_HAVE_architecture
static uint32_t find_capability(rota_vk_device *device) {
    static const uint32_t known[] = {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    const struct {
        const void *image;
        size_t size_bytes;
    } probe = {ROTA_CUDA_IMAGE_architecture};
    VkCuModuleNVX module = VK_NULL_HANDLE;
    uint32_t found = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known && !found; i++) {
        char entry[32];
        snprintf(entry, sizeof entry, "architecture_%u", known[i]);
        VkCuFunctionNVX function = VK_NULL_HANDLE;
        if (make_function(device, probe.image, probe.size_bytes, entry, &module, &function) == ROTA_OK)
            found = known[i];
        if (function)
            device->vk.DestroyCuFunctionNVX(device->handle, function, device->application.allocator);
        if (!module) break;
    }
    if (module) device->vk.DestroyCuModuleNVX(device->handle, module, device->application.allocator);
    return found;
}
#else
static uint32_t find_capability(rota_vk_device *device) {
    (void)device;
    return 0;
}
#endif

void rota_vk_images_open(rota_vk_device *device) {
    rota_device_info *info = &device->base.info;
    bool complete = device->physical.binary_import && device->vk.CreateCuModuleNVX &&
                    device->vk.DestroyCuModuleNVX && device->vk.CreateCuFunctionNVX &&
                    device->vk.DestroyCuFunctionNVX && device->vk.CmdCuLaunchKernelNVX;
    uint32_t capability = 0;
    if (complete) {
        rota_vk_cuda_lock();
        capability = find_capability(device);
        rota_vk_cuda_unlock();
    }
    if (!capability) {
        info->features &= ~(uint32_t)ROTA_FEATURE_CUDA_IMAGES;
        return;
    }
    device->target = (rota_cuda_target){.compute_capability = capability,
                                        .multiprocessors = info->compute_units,
                                        .shared_bytes_max = SHARED_BYTES_MAX,
                                        .ordinal = -1,
                                        .name = info->name,
                                        .driver = info->driver};
    device->base.images = &device->target;
}

void rota_vk_images_close(rota_vk_device *device) {
    while (device->compiled.images) {
        rota_vk_image *image = device->compiled.images;
        device->compiled.images = image->next;
        image_free(device, image);
    }
}

/* ---- Kernels ---- */

static rota_status image_new(rota_vk_device *device, const rota_kernel *kernel, rota_vk_image **out_image) {
    rota_vk_image *image = calloc(1, sizeof *image);
    rota_status status = ROTA_OK;
    if (image) {
        image->bytes = malloc(kernel->cuda.size_bytes);
        image->entry = strdup(kernel->cuda.entry);
    }
    if (!image || !image->bytes || !image->entry) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for the CUDA image");
    } else {
        memcpy(image->bytes, kernel->cuda.image, kernel->cuda.size_bytes);
        image->size_bytes = kernel->cuda.size_bytes;
        rota_vk_cuda_lock();
        status = make_function(device, image->bytes, image->size_bytes, image->entry, &image->module,
                               &image->function);
        rota_vk_cuda_unlock();
    }
    if (status != ROTA_OK) {
        if (image) image_free(device, image);
        return rota_fail_context(status, "kernel '%s', entry '%s' of its CUDA image: ", kernel->name,
                                 kernel->cuda.entry);
    }
    *out_image = image;
    return ROTA_OK;
}

static bool same_image(const rota_vk_image *image, const rota_kernel *kernel) {
    return image->size_bytes == kernel->cuda.size_bytes && strcmp(image->entry, kernel->cuda.entry) == 0 &&
           memcmp(image->bytes, kernel->cuda.image, image->size_bytes) == 0;
}

/* The kernels that run by image are few (products), so a list does. */
rota_status rota_vk_image_get(rota_vk_device *device, const rota_kernel *kernel,
                              const rota_vk_image **out_image) {
    pthread_mutex_lock(&device->compiled.lock);
    rota_vk_image *image = device->compiled.images;
    while (image && !same_image(image, kernel)) image = image->next;
    rota_status status = ROTA_OK;
    if (!image) {
        status = image_new(device, kernel, &image);
        if (status == ROTA_OK) {
            image->next = device->compiled.images;
            device->compiled.images = image;
        }
    }
    pthread_mutex_unlock(&device->compiled.lock);
    if (status == ROTA_OK) *out_image = image;
    return status;
}

rota_status rota_vk_image_launch(const rota_vk_device *device, const rota_kernel *kernel, const void *params,
                                 const uint64_t *operand_bytes, const uint32_t *given_groups,
                                 rota_cuda_launch *out_launch) {
    const char *id = device->base.info.id;
    if (!kernel->cuda.entry)
        return rota_fail(ROTA_INVALID_ARGUMENT, "kernel '%s' names no entry of its CUDA image", kernel->name);
    ROTA_TRY(rota_kernel_check_functions(kernel));
    if (kernel->cuda.prepare || rota_kernel_has_workspace(kernel))
        return rota_fail(ROTA_UNSUPPORTED, "the CUDA image of kernel '%s' needs %s, which %s can't give it",
                         kernel->name, kernel->cuda.prepare ? "prepared parameters" : "a workspace", id);
    rota_cuda_launch launch = {.shared_bytes = kernel->cuda.shared_bytes};
    memcpy(launch.block, kernel->cuda.block, sizeof launch.block);
    rota_kernel_groups(kernel, kernel->cuda.grid, kernel->cuda.grid_with, params, operand_bytes, given_groups,
                       launch.groups);
    (void)rota_kernel_cuda_launch(kernel, params, operand_bytes, &device->target, &launch);
    uint64_t threads = 1, cluster = 1;
    for (uint32_t i = 0; i < 3; i++) {
        if (!launch.groups[i]) launch.groups[i] = 1;
        if (!launch.block[i]) launch.block[i] = 1;
        threads *= launch.block[i];
        cluster *= launch.cluster[i] ? launch.cluster[i] : 1;
    }
    if (threads > BLOCK_THREADS_MAX || launch.shared_bytes > SHARED_BYTES_MAX || cluster > 1)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "kernel '%s' asks for %llu threads and %u bytes of dynamic shared memory a block, %llu blocks a "
            "cluster; a CUDA image on %s has at most %u, %u and 1",
            kernel->name, (unsigned long long)threads, launch.shared_bytes, (unsigned long long)cluster, id,
            BLOCK_THREADS_MAX, SHARED_BYTES_MAX);
    *out_launch = launch;
    return ROTA_OK;
}

void rota_vk_image_record(rota_vk_device *device, VkCommandBuffer buffer, const rota_vk_image *image,
                          const rota_cuda_launch *launch, const void *arguments) {
    const void *const params[] = {arguments};
    VkCuLaunchInfoNVX info = {
        .sType = VK_STRUCTURE_TYPE_CU_LAUNCH_INFO_NVX,
        .function = image->function,
        .gridDimX = launch->groups[0],
        .gridDimY = launch->groups[1],
        .gridDimZ = launch->groups[2],
        .blockDimX = launch->block[0],
        .blockDimY = launch->block[1],
        .blockDimZ = launch->block[2],
        .sharedMemBytes = launch->shared_bytes,
        .paramCount = 1,
        .pParams = params,
    };
    device->vk.CmdCuLaunchKernelNVX(buffer, &info);
}
