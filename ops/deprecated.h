/* Calls under the names that they had at first. They do what those that they name do, and stay for as long as
 * the SONAME does; compilers warn of them. */
#ifndef ROTA_OPS_DEPRECATED_H
#define ROTA_OPS_DEPRECATED_H

#include "direct.h"

/* rota_buffer_create_in. */
ROTA_API rota_status rota_runtime_buffer(rota_runtime *runtime, const char *name, uint64_t size_bytes,
                                         rota_buffer **out_buffer) ROTA_DEPRECATED("rota_buffer_create_in");

/* rota_buffer_create_view. */
ROTA_API rota_status rota_buffer_view(rota_buffer *parent, uint64_t offset_bytes, uint64_t size_bytes,
                                      rota_buffer **out_view) ROTA_DEPRECATED("rota_buffer_create_view");

/* rota_tape_create_on. */
ROTA_API rota_status rota_device_tape(rota_device *device, const rota_tape_options *options,
                                      rota_tape **out_tape) ROTA_DEPRECATED("rota_tape_create_on");

/* rota_tensor_create. */
ROTA_API rota_status rota_device_tensor(rota_device *device, const char *name, rota_dtype dtype,
                                        uint32_t rank, const uint64_t *shape, const void *data,
                                        rota_tensor *out_tensor) ROTA_DEPRECATED("rota_tensor_create");

#endif
