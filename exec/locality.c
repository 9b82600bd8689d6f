/* See locality.h. */
#include "exec/locality.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

/* The CPUs around a device, in `near`; false: all. */
static bool find_near(hwloc_topology_t topology, const char *pci, hwloc_bitmap_t near) {
    const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, pci);
    const hwloc_obj_t holder = device ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;
    if (!holder || !holder->cpuset) return false;
    if (hwloc_get_cpubind(topology, near, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(near, hwloc_topology_get_allowed_cpuset(topology));
    if (hwloc_bitmap_isincluded(near, holder->cpuset)) return false;
    hwloc_bitmap_and(near, near, holder->cpuset);
    return !hwloc_bitmap_iszero(near);
}

bool rota_locality_cpus(const char *pci, cpu_set_t *out_cpus) {
    hwloc_topology_t topology;
    if (!pci[0] || hwloc_topology_init(&topology) != 0) return false;
    const hwloc_bitmap_t near = hwloc_bitmap_alloc();
    /* Devices are left out of a topology that nobody asked for them. */
    const bool found = near &&
                       hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 &&
                       hwloc_topology_load(topology) == 0 && find_near(topology, pci, near) &&
                       hwloc_cpuset_to_glibc_sched_affinity(topology, near, out_cpus, sizeof *out_cpus) == 0;
    if (near) hwloc_bitmap_free(near);
    hwloc_topology_destroy(topology);
    return found;
}
