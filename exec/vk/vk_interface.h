/* Whether a shader takes what its kernel is given: the push constants of rota_kernel.glsl. Internal; not
 * installed. */
#ifndef ROTA_EXEC_VK_VK_INTERFACE_H
#define ROTA_EXEC_VK_VK_INTERFACE_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* Of a module that rota_spirv_check took, and a kernel of so many operands and bytes of parameters:
 * INVALID_ARGUMENT where its push constants have room for another number of operands, or go on behind the
 * parameters: it would take operands for parameters, or what nobody wrote. A module without push constants,
 * or with others than the macros of rota_kernel.glsl declare, is taken as it is. Linear in the words.
 * OUT_OF_MEMORY. Any thread. */
rota_status rota_spirv_check_interface(const uint32_t *words, size_t size_bytes, uint32_t operand_count,
                                       uint32_t param_bytes);

#endif
