/* Turns that no kernel of kernels.def names (dispatch.h has the others). Internal. */
#ifndef ROTA_OPS_VK_TURNS_H
#define ROTA_OPS_VK_TURNS_H

#include <stdint.h>

uint64_t rota_vk_turns_matmul_large(const void *params);

#endif
