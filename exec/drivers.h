/* The executors that are built in. Internal; not installed. */
#ifndef ROTA_EXEC_DRIVERS_H
#define ROTA_EXEC_DRIVERS_H

#include "exec/exec.h"

extern const rota_exec_driver *const rota_exec_drivers[];
extern const uint32_t rota_exec_driver_count;

#endif
