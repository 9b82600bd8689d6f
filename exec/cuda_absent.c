/* Stands in for exec/cuda in a build without the CUDA toolkit's headers: lists no device, and says why. */
#include "exec/exec.h" /* IWYU pragma: keep */

#ifndef ROTA_HAVE_CUDA
static rota_status absent(void) {
    return rota_fail(ROTA_UNSUPPORTED, "this build of rota has no CUDA executor: it was made without the "
                                       "CUDA toolkit's cuda.h (12.0 or newer)");
}

static rota_status absent_enumerate(const rota_exec_driver *driver, rota_device_info *out_infos,
                                    uint32_t capacity, uint32_t *out_count) {
    (void)driver, (void)out_infos, (void)capacity;
    *out_count = 0;
    (void)absent(); /* no driver is no error */
    return ROTA_OK;
}

static rota_status absent_open(const rota_exec_driver *driver, uint32_t index,
                               const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver, (void)index, (void)options, (void)out_device;
    return absent();
}

const rota_exec_driver rota_exec_cuda_driver = {
    .name = "cuda",
    .kind = ROTA_EXEC_CUDA,
    .enumerate = absent_enumerate,
    .open = absent_open,
};
#endif
