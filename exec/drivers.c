/* The list of built-in executors. */
#include "exec/drivers.h"

const rota_exec_driver *const rota_exec_drivers[] = {&rota_exec_cpu_driver, &rota_exec_vk_driver,
                                                     &rota_exec_cuda_driver};
const uint32_t rota_exec_driver_count = sizeof rota_exec_drivers / sizeof rota_exec_drivers[0];
