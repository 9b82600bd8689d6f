/* Descriptors of dma-bufs, or of another kind of file that is memory, before a driver or the system sees them. Internal
 * to exec. */
#ifndef ROTA_EXEC_COMMON_DMA_BUF_H
#define ROTA_EXEC_COMMON_DMA_BUF_H

#include "exec/exec_memory.h"
#include "base/status.h"

/* INVALID_ARGUMENT: it is no descriptor, or of fewer bytes than it is said to be of. Any thread; wait-free but for the
 * system's calls. */
rota_status rota_dma_buf_check(const char *device, const rota_exec_foreign *from, const char *name);

#endif
