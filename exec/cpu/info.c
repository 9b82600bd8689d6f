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
    char text[32] = "", *end = text;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    if (!file) return UINT64_MAX;
    const bool has_line = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    const unsigned long long limit = has_line ? strtoull(text, &end, 10) : 0;
    return end == text ? UINT64_MAX : limit; /* "max" is no number */
}

static uint64_t memory_total(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t total = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    uint64_t limit = group_limit();
    return limit < total ? limit : total;
}

/* The cores that may be used, in the topology's order. */
typedef struct listed {
    hwloc_obj_t objects[ROTA_CPU_WORKERS_MAX];
    uint32_t count;
} listed;

/* Around core `index`: those that lie in the set, as far as they follow one another. */
static rota_cpu_range run_in(const listed *cores, uint32_t index, hwloc_const_bitmap_t set) {
    uint32_t first = index, end = index + 1;
    while (first > 0 && hwloc_bitmap_isincluded(cores->objects[first - 1]->cpuset, set)) first--;
    while (end < cores->count && hwloc_bitmap_isincluded(cores->objects[end]->cpuset, set)) end++;
    return (rota_cpu_range){first, end - first};
}

static hwloc_obj_t node_of(hwloc_topology_t topology, hwloc_obj_t core) {
    const int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    for (int i = 0; i < nodes; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        if (hwloc_bitmap_isincluded(core->cpuset, node->cpuset)) return node;
    }
    return NULL;
}

static rota_cpu_near find_near(hwloc_topology_t topology, const listed *cores, uint32_t index) {
    hwloc_obj_t core = cores->objects[index];
    hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L3CACHE, core);
    if (!cache) cache = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L2CACHE, core);
    const hwloc_obj_t around[ROTA_CPU_LEVELS_MAX] = {
        cache, node_of(topology, core), hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core)};
    rota_cpu_near near = {.level_count = 0};
    for (uint32_t level = 0; level < ROTA_CPU_LEVELS_MAX; level++)
        if (around[level])
            rota_cpu_near_add(&near, run_in(cores, index, around[level]->cpuset), cores->count);
    return near;
}

static void fill_cores(hwloc_topology_t topology, hwloc_const_bitmap_t allowed, hwloc_bitmap_t part,
                       listed *list, rota_cpu_core *out_cores) {
    int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    const hwloc_obj_type_t type = cores > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    if (cores <= 0) cores = hwloc_get_nbobjs_by_type(topology, type);
    for (int i = 0; i < cores && list->count < ROTA_CPU_WORKERS_MAX; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(topology, type, (unsigned)i);
        cpu_set_t *set = &out_cores[list->count].set;
        hwloc_bitmap_and(part, core->cpuset, allowed);
        if (hwloc_bitmap_iszero(part)) continue;
        if (hwloc_cpuset_to_glibc_sched_affinity(topology, part, set, sizeof *set) == 0)
            list->objects[list->count++] = core;
    }
    const bool one_node = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) < 2;
    for (uint32_t i = 0; i < list->count; i++) {
        out_cores[i].near = find_near(topology, list, i);
        const hwloc_obj_t node = one_node ? NULL : node_of(topology, list->objects[i]);
        out_cores[i].node = node ? (int32_t)node->os_index : -1;
    }
    if (list->count == 0) {
        /* Nothing known: one worker, wherever the process may run. */
        memset(&out_cores[0].set, 0xff, sizeof out_cores[0].set);
        out_cores[0].node = -1;
        list->count = 1;
    }
}

/* One for each core of the process's affinity. */
static rota_status list_cores(hwloc_topology_t topology, rota_cpu_core **out_cores, uint32_t *out_count) {
    hwloc_bitmap_t allowed = affinity(topology), part = hwloc_bitmap_alloc();
    rota_cpu_core *cores = calloc(ROTA_CPU_WORKERS_MAX, sizeof *cores);
    listed list = {.count = 0};
    rota_status status = ROTA_OK;
    if (!allowed || !part || !cores)
        status = rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for a list of cores");
    else
        fill_cores(topology, allowed, part, &list, cores);
    if (status == ROTA_OK) {
        *out_cores = cores;
        *out_count = list.count;
    } else {
        free(cores);
    }
    if (part) hwloc_bitmap_free(part);
    if (allowed) hwloc_bitmap_free(allowed);
    return status;
}

rota_status rota_cpu_describe(rota_device_info *out, rota_cpu_core **out_cores) {
    hwloc_topology_t topology;
    ROTA_TRY(load_topology(&topology));
    memset(out, 0, sizeof *out);
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (!model) model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "CPUModel");
    (void)snprintf(out->id, sizeof out->id, "cpu");
    (void)snprintf(out->name, sizeof out->name, "%s", model ? model : "CPU");
    (void)snprintf(out->driver, sizeof out->driver, "rota %s", rota_version());
    rota_cpu_core *cores = NULL;
    rota_status status = list_cores(topology, &cores, &out->compute_units);
    hwloc_topology_destroy(topology);
    ROTA_TRY(status);
    if (out_cores)
        *out_cores = cores;
    else
        free(cores);
    out->kind = ROTA_EXEC_CPU;
    out->device_class = ROTA_DEVICE_CPU;
    out->usable = true;
    out->features =
        ROTA_FEATURE_F16_STORAGE | ROTA_FEATURE_INT64_ATOMICS | ROTA_FEATURE_INT8_STORAGE | ROTA_FEATURE_F64;
    out->memory_bytes = out->max_allocation_bytes = memory_total();
    out->compute_queues = 1;
    out->subgroup_size = 1;
    return ROTA_OK;
}
