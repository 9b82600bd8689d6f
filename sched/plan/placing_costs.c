/* What nodes and copies cost where nothing was measured: from the bytes that a node declares, the arithmetic that its
 * kernel says it does, and what devices of a kind are like. The same on every run. */
#include "sched/plan/placing_costs.h"

#include <math.h>
#include "graph/conditional_internal.h"
#include "graph/kernel_calls.h"
#include "graph/lane_records.h"

/* What devices are like. They need to be right to a factor or so: what is close is measured (placing_history.h). */
typedef struct device_like {
    double begin_ns;                      /* of a node, beside its work */
    double overlap;                       /* the share of that in which no other can begin */
    double byte_ns;                       /* of its memory */
    double work_ns;                       /* an operation of arithmetic, on one of its units */
    uint32_t units;                       /* where a device doesn't say */
    double copy_latency_ns, copy_byte_ns; /* between its memory and the host's */
} device_like;

/* A core does 16 operations a nanosecond where its kernel is good at it, a multiprocessor some 100. */
static const device_like likes[] = {
    [ROTA_DEVICE_GPU] = {2000, 0.25, 0.001, 0.01, 64, 25000, 0.08},
    [ROTA_DEVICE_CPU] = {500, 0.25, 0.1, 0.06, 4, 2000, 0.1},
    [ROTA_DEVICE_SOFTWARE_GPU] = {20000, 1, 0.25, 0.25, 4, 40000, 0.25},
    [ROTA_DEVICE_TEST] = {1000, 1, 0.1, 0.1, 4, 10000, 0.1},
};
/* So many cores have all that the memory gives. */
enum { CORES_OF_MEMORY = 8 };
/* `vk:0` and `cuda:0` of one GPU: from one driver's work to the other's. */
#define TURN_NS 170000
/* GPUs that read each other's memory: from the end of a work on one to the begin of the copy on the other; over PCIe
 * and what is faster. */
#define PEER_NS 10000
#define PEER_BYTE_NS 0.01
/* What a loop is taken to come to. */
enum { ITERATIONS_LIKELY = 8 };

static const device_like *like(const rota_device_traits *device) {
    return &likes[device->device_class <= ROTA_DEVICE_TEST ? device->device_class : ROTA_DEVICE_CPU];
}

static bool has_kernel(const rota_device_traits *device, const rota_kernel *kernel) {
    if (device->kind == ROTA_EXEC_CPU) return kernel->cpu.fn != NULL;
    if (device->kind == ROTA_EXEC_CUDA)
        return kernel->cuda.image || kernel->cuda.call || rota_kernel_has_cuda_select(kernel);
    if ((device->features & ROTA_FEATURE_CUDA_IMAGES) && kernel->cuda.image) return true;
    return kernel->vk.words && (kernel->vk.required_features & ~device->features) == 0;
}

static void operand_bytes(const rota_node_record *record, uint64_t *out_bytes, double *out_sum) {
    const rota_access_record *accesses = rota_node_accesses(record);
    *out_sum = 0;
    for (uint32_t i = 0; i < record->access_count; i++) {
        if (i < ROTA_KERNEL_OPERANDS_MAX) out_bytes[i] = rota_access_size(&accesses[i]);
        *out_sum += (double)rota_access_size(&accesses[i]);
    }
}

/* Its kernels, if it is several there. */
static bool runs_kernel(const rota_device_traits *device, const rota_node_record *record,
                        const uint64_t *bytes) {
    const rota_kernel *kernel = record->u.kernel.kernel;
    if (has_kernel(device, kernel)) return true;
    if (!rota_kernel_has_parts(kernel) || record->is_counted) return false;
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX];
    memset(parts, 0, sizeof parts);
    const uint32_t count =
        rota_kernel_parts(kernel, device->kind, rota_node_params(record), bytes, 0, device->cuda, parts);
    for (uint32_t i = 0; i < count; i++)
        if (!has_kernel(device, parts[i].kernel)) return false;
    return count > 0;
}

static rota_placing_cost cost_of_kernel(const rota_device_traits *device, const rota_node_record *record,
                                        const uint64_t *bytes, double sum) {
    static const rota_placing_cost never = {INFINITY, INFINITY};
    if (!runs_kernel(device, record, bytes)) return never;
    const rota_kernel *kernel = record->u.kernel.kernel;
    const void *params = rota_node_params(record);
    const device_like *is = like(device);
    const double units = device->compute_units ? device->compute_units : is->units;
    double in_use = units;
    uint64_t items = 1, grain = 1;
    if (device->kind == ROTA_EXEC_CPU) {
        if (rota_kernel_items(kernel, params, bytes, &items, &grain) && grain)
            in_use = (double)(items / grain ? items / grain : 1);
        else
            in_use = 1;
        if (in_use > units) in_use = units;
    }
    const double work_ns = rota_kernel_work(kernel, params, bytes) * is->work_ns / in_use;
    double bytes_ns = sum * is->byte_ns;
    if (device->kind == ROTA_EXEC_CPU) bytes_ns /= in_use < CORES_OF_MEMORY ? in_use : CORES_OF_MEMORY;
    const double runs_ns = work_ns > bytes_ns ? work_ns : bytes_ns;
    return (rota_placing_cost){is->begin_ns + runs_ns, is->begin_ns * is->overlap + runs_ns * in_use / units};
}

static rota_placing_cost cost_of_bodies(const rota_device_traits *device, const rota_node_record *record) {
    const rota_conditional *conditional = record->u.conditional;
    double most = 0;
    for (uint32_t b = 0; b < conditional->body_count; b++) {
        const rota_graph *body = conditional->bodies[b];
        double sum = 0;
        for (uint32_t i = 0; body && i < body->lane_count; i++) {
            rota_record_cursor cursor = rota_lane_records(body->lanes[i]);
            for (const rota_node_record *own; (own = rota_record_take(&cursor));)
                sum += rota_placing_prior(device, own).span_ns;
        }
        if (sum > most) most = sum;
    }
    double times = 1;
    if (rota_conditional_is_loop(conditional->kind))
        times = conditional->iterations_max < ITERATIONS_LIKELY ? (double)conditional->iterations_max
                                                                : ITERATIONS_LIKELY;
    const double span = like(device)->begin_ns + most * times;
    return (rota_placing_cost){span, span};
}

rota_placing_cost rota_placing_prior(const rota_device_traits *device, const rota_node_record *record) {
    static const rota_placing_cost never = {INFINITY, INFINITY};
    uint64_t bytes[ROTA_KERNEL_OPERANDS_MAX];
    double sum;
    if (record->is_counted && !device->runs_counted) return never;
    operand_bytes(record, bytes, &sum);
    const device_like *is = like(device);
    switch ((rota_node_kind)record->kind) {
    case ROTA_NODE_KERNEL:
        return cost_of_kernel(device, record, bytes, sum);
    case ROTA_NODE_HOST:
        if (!device->runs_host_nodes) return never;
        return (rota_placing_cost){is->begin_ns + sum * is->byte_ns, is->begin_ns};
    case ROTA_NODE_CONDITIONAL:
        return device->runs_conditionals ? cost_of_bodies(device, record) : never;
    default:
        return (rota_placing_cost){is->begin_ns + sum * is->byte_ns,
                                   is->begin_ns * is->overlap + sum * is->byte_ns};
    }
}

/* ---- Copies ---- */

static bool by_host(const rota_device_traits *device) {
    return device->device_class == ROTA_DEVICE_CPU || device->device_class == ROTA_DEVICE_SOFTWARE_GPU;
}

bool rota_placing_same_hardware(const rota_device_traits *a, const rota_device_traits *b) {
    return a->device == b->device || a->domain == b->domain || (by_host(a) && by_host(b));
}

void rota_placing_prior_copy(const rota_device_traits *from, const rota_device_traits *to,
                             double *out_latency_ns, double *out_byte_ns) {
    *out_latency_ns = *out_byte_ns = 0;
    if (from->device == to->device) return;
    if (from->domain == to->domain) {
        *out_latency_ns = TURN_NS;
        return;
    }
    if (to->peers >> from->index & 1u) {
        *out_latency_ns = PEER_NS;
        *out_byte_ns = PEER_BYTE_NS;
        return;
    }
    *out_latency_ns = like(from)->copy_latency_ns + like(to)->copy_latency_ns;
    /* A host pointer is read and written where it is, by the other's copy. */
    if (!from->unified_host) *out_byte_ns += like(from)->copy_byte_ns;
    if (!to->unified_host) *out_byte_ns += like(to)->copy_byte_ns;
    if (from->unified_host || to->unified_host) *out_byte_ns += likes[ROTA_DEVICE_CPU].copy_byte_ns;
}

void rota_placing_prior_host(const rota_device_traits *device, double *out_latency_ns, double *out_byte_ns) {
    *out_latency_ns = like(device)->copy_latency_ns;
    *out_byte_ns = like(device)->copy_byte_ns;
    /* They go by staging memory, into which a thread copies them first. */
    if (!device->unified_host) *out_byte_ns += likes[ROTA_DEVICE_CPU].byte_ns;
}

double rota_placing_prior_taken(const rota_device_traits *device) {
    /* A thread reads it and writes it to staging memory, which the device reads. */
    return device->unified_host ? 0 : 3 * likes[ROTA_DEVICE_CPU].byte_ns / CORES_OF_MEMORY;
}
