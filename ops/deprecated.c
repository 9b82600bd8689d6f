/* Calls under the names that they had at first. */
#include "ops/deprecated.h"

rota_status rota_runtime_buffer(rota_runtime *runtime, const char *name, uint64_t size_bytes,
                                rota_buffer **out_buffer) {
    return rota_buffer_create_in(runtime, name, size_bytes, out_buffer);
}

rota_status rota_buffer_view(rota_buffer *parent, uint64_t offset_bytes, uint64_t size_bytes,
                             rota_buffer **out_view) {
    return rota_buffer_create_view(parent, offset_bytes, size_bytes, out_view);
}

rota_status rota_device_tape(rota_device *device, const rota_tape_options *options, rota_tape **out_tape) {
    return rota_tape_create_on(device, options, out_tape);
}

rota_status rota_device_tensor(rota_device *device, const char *name, rota_dtype dtype, uint32_t rank,
                               const uint64_t *shape, const void *data, rota_tensor *out_tensor) {
    return rota_tensor_create(device, name, dtype, rank, shape, data, out_tensor);
}
