/* Descriptors that somebody outside gives: see vk_descriptor.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_DESCRIPTOR_H
#define ROTA_EXEC_VK_VK_DESCRIPTOR_H

#include "exec/exec.h"

/* Takes own, a descriptor that the driver made, and compares what fd is of with it. INVALID_ARGUMENT, with the
 * sentence: fd is none, or of another kind of file. */
rota_status rota_vk_descriptor_check(const rota_exec_device *device, int fd, int own, const char *of);

#endif
