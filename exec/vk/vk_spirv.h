/* SPIR-V is looked at before a driver gets it: drivers trust what they are given, and a truncated module
 * takes the process with it. Internal; not installed. */
#ifndef ROTA_EXEC_VK_VK_SPIRV_H
#define ROTA_EXEC_VK_VK_SPIRV_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* The module's structure: header, bound of the ids, word counts, functions and their blocks from begin to
 * end, targets of calls and branches, strings that end, the entry point for compute and its workgroup. Linear
 * in the words. INVALID_ARGUMENT says what is wrong, and where; OUT_OF_MEMORY. Any thread. */
rota_status rota_spirv_check(const uint32_t *words, size_t size_bytes, const char *entry);

#endif
