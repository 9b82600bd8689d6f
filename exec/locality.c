/* See locality.h.
 *
 * hwloc says where things are; the placing is by Linux's own calls, so that it is the same on a machine that hwloc was
 * told of (HWLOC_XMLFILE, HWLOC_SYNTHETIC), and no topology need be kept. */
#include "exec/locality.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/thread_cpus.h"

enum { TOLD_OF_THREADS = 1, TOLD_OF_MEMORY = 2 };

/* ---- Where it is ---- */

/* Of the CPUs that the process may use, those of the holder. Where too few are, the device's threads, which look for
 * work without sleeping, would be in one another's way. */
static void find_cpus(hwloc_topology_t topology, hwloc_obj_t holder, cpu_set_t *out_cpus) {
    const hwloc_bitmap_t near = hwloc_bitmap_alloc();
    if (!near) return;
    if (hwloc_get_cpubind(topology, near, HWLOC_CPUBIND_PROCESS) != 0)
        (void)hwloc_bitmap_copy(near, hwloc_topology_get_allowed_cpuset(topology));
    const bool all = hwloc_bitmap_isincluded(near, holder->cpuset);
    (void)hwloc_bitmap_and(near, near, holder->cpuset);
    if (!all && hwloc_bitmap_weight(near) >= ROTA_THREAD_CPUS_MIN &&
        hwloc_cpuset_to_glibc_sched_affinity(topology, near, out_cpus, sizeof *out_cpus) != 0)
        CPU_ZERO(out_cpus);
    hwloc_bitmap_free(near);
}

/* The host's own: a GPU's memory can be a node, too. */
static bool is_hosts(hwloc_obj_t node) {
    return !node->subtype || strcmp(node->subtype, "DRAM") == 0;
}

static void find_nodes(hwloc_topology_t topology, hwloc_obj_t holder, rota_nodes *out_nodes) {
    const hwloc_const_nodeset_t allowed = hwloc_topology_get_allowed_nodeset(topology);
    bool all = true;
    for (hwloc_obj_t node = NULL; (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node));) {
        if (!is_hosts(node) || !hwloc_bitmap_isset(allowed, node->os_index)) continue;
        if (hwloc_bitmap_isset(holder->nodeset, node->os_index))
            rota_nodes_add(out_nodes, node->os_index);
        else
            all = false;
    }
    if (all) memset(out_nodes, 0, sizeof *out_nodes);
}

void rota_locality_find(rota_locality *locality, const char *pci) {
    hwloc_topology_t topology;
    if (!pci[0] || hwloc_topology_init(&topology) != 0) return;
    /* Devices are left out of a topology that nobody asked for them. */
    const bool loaded = hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 &&
                        hwloc_topology_load(topology) == 0;
    const hwloc_obj_t device = loaded ? hwloc_get_pcidev_by_busidstring(topology, pci) : NULL;
    const hwloc_obj_t holder = device ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;
    if (holder && holder->cpuset) find_cpus(topology, holder, &locality->cpus);
    if (holder && holder->nodeset) find_nodes(topology, holder, &locality->nodes);
    hwloc_topology_destroy(topology);
}

uint32_t rota_nodes_count(const rota_nodes *nodes) {
    int count = 0;
    for (size_t i = 0; i < sizeof nodes->bits / sizeof nodes->bits[0]; i++)
        count += __builtin_popcountl(nodes->bits[i]);
    return (uint32_t)count;
}

/* ---- What is placed ---- */

static void tell(rota_locality *locality, uint32_t bit, const char *what, int error) {
    if (ra_fetch_or_acq_rel(&locality->told, bit) & bit) return;
    rota_log_write(locality->log, ROTA_LOG_DEBUG, "%s: %s: %s",
                   locality->device ? locality->device : "a device", what, strerror(error));
}

int rota_locality_start(rota_locality *locality, const cpu_set_t *cpus, pthread_t *out_thread,
                        void *(*main)(void *), void *user) {
    if (!cpus) cpus = &locality->cpus;
    if (CPU_COUNT(cpus) == 0) return pthread_create(out_thread, NULL, main, user);
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error) return error;
    /* Before it begins, since what it begins with is where it may be put back to (base/thread_cpus.h). */
    error = pthread_attr_setaffinity_np(&attributes, sizeof *cpus, cpus);
    if (!error) error = pthread_create(out_thread, &attributes, main, user);
    (void)pthread_attr_destroy(&attributes);
    if (!error) return 0;
    const int refused = error;
    error = pthread_create(out_thread, NULL, main, user);
    if (!error)
        tell(locality, TOLD_OF_THREADS, "its threads run anywhere, as the system refuses their CPUs",
             refused);
    return error;
}

/* How pages come from the nodes; MPOL_DEFAULT: from anywhere, as there are none, or somebody has placed what this
 * thread uses. */
static int policy_of(rota_locality *locality) {
    const uint32_t count = rota_nodes_count(&locality->nodes);
    if (count == 0) return MPOL_DEFAULT;
    int placed = MPOL_DEFAULT;
    if (syscall(SYS_get_mempolicy, &placed, NULL, 0ul, NULL, 0ul) != 0) {
        tell(locality, TOLD_OF_MEMORY,
             "its memory comes from anywhere, as the system does not say how it is placed", errno);
        return MPOL_DEFAULT;
    }
    if (placed != MPOL_DEFAULT) return MPOL_DEFAULT;
    return count == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE;
}

static const char refused_memory[] = "its memory comes from anywhere, as the system refuses to place it";

/* Both calls take one bit fewer than they are told. */

void rota_locality_place(rota_locality *locality, void *begin, size_t size_bytes) {
    const int policy = policy_of(locality);
    if (policy == MPOL_DEFAULT) return;
    if (syscall(SYS_mbind, begin, size_bytes, policy, locality->nodes.bits, ROTA_NODES_MAX + 1ul, 0u) != 0)
        tell(locality, TOLD_OF_MEMORY, refused_memory, errno);
}

bool rota_locality_enter(rota_locality *locality) {
    const int policy = policy_of(locality);
    if (policy == MPOL_DEFAULT) return false;
    if (syscall(SYS_set_mempolicy, policy, locality->nodes.bits, ROTA_NODES_MAX + 1ul) == 0) return true;
    tell(locality, TOLD_OF_MEMORY, refused_memory, errno);
    return false;
}

void rota_locality_leave(bool entered) {
    if (entered) (void)syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0ul);
}
