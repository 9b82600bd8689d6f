/* A host node's work on a device as the records that have a library of that device's do it (on_device.h). */
#include "sched/plan/on_device.h"

#include "graph/buffer_internal.h"
#include "graph/record.h"

enum {
    ADDRESS_BYTES = 8 * ROTA_ADDRESSED_MAX,
    END_BYTES = 4,
    TURN_BYTES = 4,
    KERNEL_ACCESSES_MAX = ROTA_ADDRESSED_MAX + 1,
    HOST_ACCESSES = 4
};

static const rota_host_on_device *on_device_of(const rota_node_record *record) {
    return (const rota_host_on_device *)(const void *)record->u.host.later;
}

/* The plan's first device, where the node may be on one; NULL: it may not. */
static const void *device_for(const rota_compiler *c, const rota_node_record *record) {
    const bool may = record->may_be_on_device && c->devices->count && c->partitions.cpu != ROTA_NONE &&
                     c->partitions.cpu != 0;
    return may ? c->devices->all[c->spread.placing.home].device : NULL;
}

bool rota_compile_is_on_device(const rota_compiler *c, const rota_node_record *record) {
    const void *device = device_for(c, record);
    return device && record->access_count > 1 && on_device_of(record)->is_on(record->u.host.user, device);
}

bool rota_compile_takes_turn(const rota_compiler *c, const rota_node_record *record) {
    const void *device = device_for(c, record);
    return device && on_device_of(record)->is_beside(record->u.host.user, device);
}

/* A record like the node's, with its first access and room for the others. */
static rota_node_record *add_record(rota_compiler *c, const rota_node_record *node, rota_node_kind kind,
                                    uint32_t access_count, rota_access_record first) {
    const size_t bytes = sizeof(rota_node_record) + sizeof(rota_access_record) * access_count;
    rota_node_record *made = rota_arena_alloc(&c->plan->arena, bytes, 8);
    if (!made) return NULL;
    *made = (rota_node_record){.record_words = rota_record_words(bytes) & 0x3fffu,
                               .kind = (unsigned)kind & 7u,
                               .access_count = (uint8_t)access_count,
                               .queue_plus_1 = node->queue_plus_1,
                               .name = rota_node_record_name(node)};
    ((rota_access_record *)(made + 1))[0] = first;
    return made;
}

static rota_access_record access_to(uint64_t buffer, uint64_t size, rota_access_mode mode) {
    return rota_access_record_of(buffer, 0, size, mode, NULL);
}

static rota_status make_buffer(rota_compiler *c, const char *name, uint64_t bytes, uint64_t *out_reference) {
    rota_buffer *buffer = rota_buffer_new(ROTA_BUFFER_TRANSIENT, name, bytes);
    if (!buffer) return rota_compile_no_memory(c);
    uint32_t index = ROTA_NONE;
    ROTA_TRY(rota_compile_own_buffer(c, buffer, &index));
    if (!rota_vector_reserve(&c->spread.ends.own, sizeof(uint32_t), 1)) return rota_compile_no_memory(c);
    ((uint32_t *)c->spread.ends.own.data)[c->spread.ends.own.count++] = index;
    *out_reference = rota_compile_own_reference(c, index);
    return ROTA_OK;
}

static rota_status make_turn(rota_compiler *c) {
    if (c->spread.ends.turn) return ROTA_OK;
    return make_buffer(c, "turn", TURN_BYTES, &c->spread.ends.turn);
}

static rota_access_record turn_access(const rota_compiler *c) {
    return access_to(c->spread.ends.turn, TURN_BYTES, ROTA_WRITE);
}

rota_status rota_compile_in_turn(rota_compiler *c, const rota_node_record *record,
                                 const rota_node_record **out_record) {
    const uint32_t count = record->access_count;
    const rota_access_record *accesses = rota_node_accesses(record);
    uint32_t first;
    /* As for those on the device. */
    ROTA_TRY(rota_compile_buffer_index(c, rota_access_stored(&accesses[0]), &first));
    ROTA_TRY(make_turn(c));
    rota_node_record *made = add_record(c, record, ROTA_NODE_HOST, count + 1, accesses[0]);
    if (!made) return rota_compile_no_memory(c);
    made->u.host = record->u.host;
    for (uint32_t i = 1; i < count; i++) ((rota_access_record *)(made + 1))[i] = accesses[i];
    ((rota_access_record *)(made + 1))[count] = turn_access(c);
    *out_record = made;
    return ROTA_OK;
}

/* The node's operands but the first one, behind the kernel's own. What the first kernel has as written, the second one
 * has as changed: the bytes are neither's, and come in between. */
static void have_operands(const rota_node_record *node, bool is_end, rota_node_record *kernel) {
    const rota_access_record *from = rota_node_accesses(node);
    rota_access_record *to = (rota_access_record *)(kernel + 1);
    for (uint32_t i = 1; i < node->access_count; i++) {
        rota_access_mode mode = ROTA_ACCESS_MODE(&from[i]);
        if (is_end && mode == ROTA_WRITE) mode = ROTA_READWRITE;
        to[i] = rota_access_record_like(&from[i], rota_access_stored(&from[i]), mode);
    }
}

rota_status rota_compile_on_device(rota_compiler *c, const rota_node_record *record,
                                   const rota_node_record *out_records[ROTA_ON_DEVICE_RECORDS]) {
    const uint32_t count = record->access_count, kernel = count - 2;
    uint64_t addresses, end;
    if (count > KERNEL_ACCESSES_MAX)
        return rota_fail(ROTA_INTERNAL, "node '%s' has %u operands on a device, at most %d are known",
                         rota_node_record_name(record), count - 1, ROTA_ADDRESSED_MAX);
    uint32_t first;
    /* Before buffers of the compiler's own, whose numbers count from a first one that is not 0. */
    ROTA_TRY(rota_compile_buffer_index(c, rota_access_stored(rota_node_accesses(record)), &first));
    ROTA_TRY(make_buffer(c, "addresses", ADDRESS_BYTES, &addresses));
    ROTA_TRY(make_buffer(c, "end", END_BYTES, &end));
    ROTA_TRY(make_turn(c));
    rota_node_record *tells =
        add_record(c, record, ROTA_NODE_KERNEL, count, access_to(addresses, ADDRESS_BYTES, ROTA_WRITE));
    rota_node_record *host =
        add_record(c, record, ROTA_NODE_HOST, HOST_ACCESSES, rota_node_accesses(record)[0]);
    rota_node_record *waits =
        add_record(c, record, ROTA_NODE_KERNEL, count, access_to(end, END_BYTES, ROTA_READ));
    if (!tells || !host || !waits) return rota_compile_no_memory(c);
    tells->u.kernel.kernel = &on_device_of(record)->tells[kernel];
    waits->u.kernel.kernel = &on_device_of(record)->ends[kernel];
    have_operands(record, false, tells);
    have_operands(record, true, waits);
    host->u.host.fn = NULL;
    host->u.host.user = record->u.host.user;
    host->u.host.later = &on_device_of(record)->device;
    ((rota_access_record *)(host + 1))[1] = access_to(addresses, ADDRESS_BYTES, ROTA_READ);
    ((rota_access_record *)(host + 1))[2] = access_to(end, END_BYTES, ROTA_WRITE);
    ((rota_access_record *)(host + 1))[3] = turn_access(c);
    out_records[0] = tells;
    out_records[ROTA_ON_DEVICE_HOST] = host;
    out_records[ROTA_ON_DEVICE_END] = waits;
    return ROTA_OK;
}

/* ---- The end queue ---- */

uint32_t rota_compile_end_queue(rota_compiler *c, uint32_t queue) {
    rota_end_queue *ends = &c->spread.ends;
    if (ends->is_there) return ends->queue;
    if (c->queue_count >= ROTA_PLAN_QUEUES_MAX) return queue; /* as if they were nodes like others */
    ends->is_there = true;
    return ends->queue = c->queue_count++;
}

static void outlive(rota_compiler *c, uint32_t physical) {
    rota_physical *it = &ROTA_PHYSICALS(c)[physical];
    if (it->last_operation != ROTA_NONE) it->last_operation = (uint32_t)c->operations.count - 1;
}

void rota_compile_end_lives(rota_compiler *c) {
    const uint32_t *own = c->spread.ends.own.data, *physical_of = c->spread.physical_of.data;
    const rota_mirror *mirrors = c->spread.mirrors.data;
    for (uint64_t i = 0; i < c->spread.ends.own.count; i++)
        for (uint32_t part = 0; part < c->partitions.count; part++) {
            const uint64_t cell = (uint64_t)own[i] * c->spread.part_stride + part;
            if (cell >= c->spread.physical_of.count || !physical_of[cell]) continue;
            outlive(c, physical_of[cell] - 1);
            for (uint32_t m = ROTA_PHYSICALS(c)[physical_of[cell] - 1].first_mirror; m;
                 m = mirrors[m - 1].next)
                outlive(c, mirrors[m - 1].physical);
        }
}
