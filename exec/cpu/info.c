/* What the machine is: cores, memory and names, by hwloc.
 *
 * Threads: any at once. Each call reads the topology anew, which takes some milliseconds. */
#include "exec/cpu/info.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rota_status load_topology(hwloc_topology_t *out_topology) {
    if (hwloc_topology_init(out_topology) != 0)
        return rota_fail(ROTA_SYSTEM, "cpu: hwloc cannot be initialised");
    if (hwloc_topology_load(*out_topology) != 0) {
        hwloc_topology_destroy(*out_topology);
        return rota_fail(ROTA_SYSTEM, "cpu: hwloc cannot read this machine's topology");
    }
    return ROTA_OK;
}

/* The process's affinity; all of the machine where the system does not tell. The caller frees it; NULL: no
 * memory. */
static hwloc_bitmap_t affinity(hwloc_topology_t topology) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!set) return NULL;
    if (hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0 &&
        hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(set, hwloc_topology_get_allowed_cpuset(topology));
    return set;
}

/* A control group's limit, or UINT64_MAX. */
static uint64_t group_limit(void) {
    uint64_t limit = UINT64_MAX;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    if (!file) return limit;
    unsigned long long value;
    if (fscanf(file, "%llu", &value) == 1) limit = value;
    (void)fclose(file);
    return limit;
}

static uint64_t memory_total(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t total = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    uint64_t limit = group_limit();
    return limit < total ? limit : total;
}

/* One set per core of the process's affinity. */
static rota_status list_cores(hwloc_topology_t topology, cpu_set_t **out_sets, uint32_t *out_count) {
    rota_status status = ROTA_OK;
    int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    hwloc_obj_type_t type = cores > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    if (cores <= 0) cores = hwloc_get_nbobjs_by_type(topology, type);
    hwloc_bitmap_t allowed = affinity(topology), part = hwloc_bitmap_alloc();
    cpu_set_t *sets = calloc(cores > 0 ? (size_t)cores : 1, sizeof *sets);
    uint32_t count = 0;
    if (!allowed || !part || !sets) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for a list of %d cores", cores);
        goto done;
    }
    for (int i = 0; i < cores && count < ROTA_CPU_WORKERS_MAX; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(topology, type, (unsigned)i);
        hwloc_bitmap_and(part, core->cpuset, allowed);
        if (hwloc_bitmap_iszero(part)) continue;
        if (hwloc_cpuset_to_glibc_sched_affinity(topology, part, &sets[count], sizeof sets[count]) == 0)
            count++;
    }
    if (count == 0) {
        /* Nothing known: one worker, wherever the process may run. */
        memset(&sets[0], 0xff, sizeof sets[0]);
        count = 1;
    }
    *out_sets = sets;
    *out_count = count;
    sets = NULL;
done:
    free(sets);
    if (part) hwloc_bitmap_free(part);
    if (allowed) hwloc_bitmap_free(allowed);
    return status;
}

rota_status rota_cpu_describe(rota_device_info *out, void **out_sets) {
    hwloc_topology_t topology;
    ROTA_TRY(load_topology(&topology));
    memset(out, 0, sizeof *out);
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (!model) model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "CPUModel");
    (void)snprintf(out->id, sizeof out->id, "cpu");
    (void)snprintf(out->name, sizeof out->name, "%s", model ? model : "CPU");
    (void)snprintf(out->driver, sizeof out->driver, "rota %s", rota_version());
    cpu_set_t *sets = NULL;
    rota_status status = list_cores(topology, &sets, &out->compute_units);
    hwloc_topology_destroy(topology);
    ROTA_TRY(status);
    if (out_sets)
        *out_sets = sets;
    else
        free(sets);
    out->kind = ROTA_EXEC_CPU;
    out->device_class = ROTA_DEVICE_CPU;
    out->usable = true;
    out->features = ROTA_FEATURE_F16_STORAGE | ROTA_FEATURE_INT64_ATOMICS | ROTA_FEATURE_INT8_STORAGE;
    out->memory_bytes = out->max_allocation_bytes = memory_total();
    out->compute_queues = 1;
    out->subgroup_size = 1;
    return ROTA_OK;
}
