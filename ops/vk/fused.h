/* Fused nodes on Vulkan devices. Internal. */
#ifndef ROTA_OPS_VK_FUSED_H
#define ROTA_OPS_VK_FUSED_H

#include "ops/fusion.h"

/* Whether the shader has room for steps, values and words of that shape with so many operands. */
bool rota_vk_fused_fits(const rota_fused_shape *shape, uint32_t operand_count);
/* Fills in the kernel's part for Vulkan; leaves it empty where the shape does not fit. */
void rota_vk_fused_kernel(const rota_fused_shape *shape, rota_kernel *kernel);

#endif
