/* SPIRV-Tools' validator, where its shared library is there. Internal; not installed. */
#ifndef ROTA_EXEC_VK_VK_SPIRV_TOOLS_H
#define ROTA_EXEC_VK_VK_SPIRV_TOOLS_H

#include <stddef.h>
#include <stdint.h>
#include "base/log.h"
#include "base/status.h"

/* The whole of it by SPIRV-Tools' validator, where its shared library is there and knows what the module
 * declares; else `log` is told, the first time and for each such module. INVALID_ARGUMENT with the
 * validator's sentence. Any thread; may block in malloc. */
rota_status rota_spirv_validate(const rota_log *log, const char *name, const uint32_t *words,
                                size_t size_bytes);

#endif
