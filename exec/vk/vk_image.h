/* CUDA images: see vk_image.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_IMAGE_H
#define ROTA_EXEC_VK_VK_IMAGE_H

#include "exec/exec.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;
typedef struct rota_vk_image rota_vk_image;

/* Around what makes or ends the driver's CUDA context of a device, or a module in it. */
void rota_vk_cuda_lock(void);
void rota_vk_cuda_unlock(void);
/* Finds out what CUDA device this is, or takes the feature off. */
void rota_vk_images_open(rota_vk_device *device);
void rota_vk_images_close(rota_vk_device *device);
/* The function of a kernel's image, made when it is the first use. Blocks in the driver, under the device's
 * lock. */
rota_status rota_vk_image_get(rota_vk_device *device, const rota_kernel *kernel,
                              const rota_vk_image **out_image);
/* How the kernel is launched, checked against what images may have here. */
rota_status rota_vk_image_launch(const rota_vk_device *device, const rota_kernel *kernel, const void *params,
                                 const uint64_t *operand_bytes, const uint32_t *given_groups,
                                 rota_cuda_launch *out_launch);
/* `arguments`: a rota_args of exec/cuda/rota_kernel.cuh; read now. */
void rota_vk_image_record(rota_vk_device *device, VkCommandBuffer buffer, const rota_vk_image *image,
                          const rota_cuda_launch *launch, const void *arguments);

#endif
