/* Which CPUs are near a PCI device. Internal; not installed. */
#ifndef ROTA_EXEC_LOCALITY_H
#define ROTA_EXEC_LOCALITY_H

#include <sched.h>
#include <stdbool.h>

/* Of the CPUs that the process may use, those near the device `pci` ("0000:01:00.0"), by hwloc: of the memory, or the
 * package, that it hangs on. False where all are as near, none may be used, or nothing is known of the device. Any
 * thread; reads the machine's topology, which takes some milliseconds. */
bool rota_locality_cpus(const char *pci, cpu_set_t *out_cpus);

#endif
