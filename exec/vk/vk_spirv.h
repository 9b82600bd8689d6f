/* SPIR-V is looked at before a driver gets it: drivers trust what they are given, and a truncated module
 * takes the process with it. Internal; not installed. */
#ifndef ROTA_EXEC_VK_VK_SPIRV_H
#define ROTA_EXEC_VK_VK_SPIRV_H

#include <stddef.h>
#include <stdint.h>
#include "base/log.h"
#include "base/status.h"

/* The module's structure: header, bound of the ids, word counts, functions and their blocks from begin to
 * end, targets of calls and branches, strings that end, the entry point for compute and its workgroup. Linear
 * in the words. INVALID_ARGUMENT says what is wrong, and where; OUT_OF_MEMORY. Any thread. */
rota_status rota_spirv_check(const uint32_t *words, size_t size_bytes, const char *entry);

/* The whole of it by SPIRV-Tools' validator, where its shared library is there and knows what the module
 * declares; else `log` is told, the first time and for each such module. INVALID_ARGUMENT with the
 * validator's sentence. Any thread; may block in malloc. */
rota_status rota_spirv_validate(const rota_log *log, const char *name, const uint32_t *words,
                                size_t size_bytes);

#endif
