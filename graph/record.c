/* Recording: one thread appends node records to its lane.
 *
 * Within reserved room every call here is wait-free: it writes the lane's own memory, reads the graph's constant parts,
 * and takes a buffer reference (one atomic increment) for a persistent buffer not seen lately. */
#include "graph/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/given.h"
#include "base/prefetch.h"
#include "base/sized_copy.h"
#include "graph/conditional_internal.h"
#include "graph/graph_internal.h"
#include "graph/kernel_calls.h"

enum { FIRST_CHUNK_BYTES = 4096, CHUNK_MAX_BYTES = 1 << 20 };
/* Recording waits for memory more than it computes, so what it is about to touch is asked for early: the node's buffers
 * at once, and the lines that the fourth record or so from here will fill (a record is about two lines; past the end of
 * the chunk this does nothing). A reference taken to a buffer waits for all stores before it. */
enum { AHEAD_BYTES = 512 };

const char *rota_node_record_name(const rota_node_record *node) {
    if (node->name) return node->name;
    switch ((rota_node_kind)node->kind) {
    case ROTA_NODE_KERNEL:
        return node->u.kernel.kernel->name;
    case ROTA_NODE_COPY:
        return "copy";
    case ROTA_NODE_FILL:
        return "fill";
    case ROTA_NODE_HOST:
        return "host";
    case ROTA_NODE_CONDITIONAL:
        return rota_conditional_kind_name(node->u.conditional->kind);
    }
    return "node";
}

/* ---- Room in the lane ---- */

static rota_status add_chunk(rota_recorder *lane, size_t bytes) {
    size_t want = lane->chunk ? lane->chunk->usable_bytes * 2 : FIRST_CHUNK_BYTES;
    if (want > CHUNK_MAX_BYTES) want = CHUNK_MAX_BYTES;
    if (want < bytes + sizeof(rota_lane_chunk)) want = bytes + sizeof(rota_lane_chunk);
    size_t usable;
    rota_lane_chunk *chunk = rota_chunk_alloc(want, &usable);
    if (!chunk)
        return rota_fail(ROTA_OUT_OF_MEMORY, "recorder '%s': no host memory for %zu bytes of nodes",
                         lane->name, want);
    *chunk = (rota_lane_chunk){.usable_bytes = usable};
    if (lane->chunk) {
        lane->chunk->end = lane->next;
        lane->chunk->next = chunk;
    } else {
        lane->first_chunk = chunk;
    }
    lane->chunk = chunk;
    lane->next = (uint8_t *)(chunk + 1);
    lane->end = (uint8_t *)chunk + usable;
    return ROTA_OK;
}

static rota_status grow_held(rota_recorder *lane, uint64_t capacity) {
    size_t usable;
    rota_buffer **grown = rota_chunk_alloc(sizeof *grown * (size_t)capacity, &usable);
    if (!grown)
        return rota_fail(ROTA_OUT_OF_MEMORY, "recorder '%s': no host memory for %llu references", lane->name,
                         (unsigned long long)capacity);
    if (lane->held_count) memcpy(grown, lane->held, sizeof *grown * (size_t)lane->held_count);
    rota_chunk_free(lane->held, lane->held_usable);
    lane->held = grown;
    lane->held_usable = usable;
    lane->held_capacity = usable / sizeof *grown;
    return ROTA_OK;
}

rota_status rota_recorder_reserve(rota_recorder *recorder, uint64_t nodes, uint64_t accesses,
                                  uint64_t param_bytes) {
    ROTA_GIVEN(recorder);
    if (ra_load_relaxed(&recorder->closed))
        return rota_fail(ROTA_WRONG_STATE, "reserve: recorder '%s' is closed", recorder->name);
    const uint64_t limit = (uint64_t)1 << 40;
    if (nodes > limit || accesses > limit || param_bytes > limit)
        return rota_fail(ROTA_OUT_OF_RANGE, "reserve on recorder '%s': counts above 2^40", recorder->name);
    /* Per node: header, and rounding of the parameters. A binding takes twice the 4 bytes that its parameter has. */
    uint64_t bytes = nodes * (sizeof(rota_node_record) + 8) +
                     accesses * (sizeof(rota_access_record) + sizeof(rota_wide_range)) +
                     param_bytes * (1 + sizeof(rota_param_binding) / 4);
    if (bytes > (uint64_t)(recorder->end - recorder->next)) ROTA_TRY(add_chunk(recorder, (size_t)bytes));
    /* Each access may be the first, or the first for a while, of a persistent buffer. */
    if (recorder->held_capacity - recorder->held_count < accesses)
        return grow_held(recorder, recorder->held_count + accesses);
    return ROTA_OK;
}

/* The graph keeps a reference to each persistent buffer that a lane names. */
static rota_status hold_buffer(rota_recorder *lane, rota_buffer *root, rota_buffer **recent) {
    if (__builtin_expect(lane->held_count == lane->held_capacity, 0))
        ROTA_TRY(grow_held(lane, lane->held_capacity * 2));
    rota_buffer_retain(root);
    lane->held[lane->held_count++] = root;
    *recent = root;
    return ROTA_OK;
}

/* ---- Checks ---- */

/* Where a check happens, for its sentence: lane (or "rewrite"), node number, node name. */
typedef struct context {
    const rota_graph *graph;
    const char *lane;
    uint32_t index;
    const char *name;
    rota_recorder *recorder; /* NULL: a rewrite's, with `arena` */
    rota_arena *arena;
    size_t record_bytes; /* at recorder->next */
} context;

#define AT ROTA_NODE_TEXT
#define AT_ARGUMENTS(c) (c)->name, (c)->lane, (c)->index

/* Whether the buffer is of a graph that this one is a body within. */
static bool is_of_outer(const rota_graph *graph, const rota_buffer *buffer) {
    for (const rota_graph *outer = graph->outer; outer; outer = outer->outer)
        if (buffer->graph == outer) return true;
    return false;
}

/* What is wrong with an access that resolve_access refused. */
static __attribute__((cold, noinline)) rota_status refuse_access(const context *where, uint32_t number,
                                                                 const rota_access *access) {
    const rota_buffer *buffer = access->buffer;
    if (!buffer)
        return rota_fail(ROTA_INVALID_ARGUMENT, AT "access %u has no buffer", AT_ARGUMENTS(where), number);
    uint64_t offset = access->offset_bytes, size = access->size_bytes;
    if (size == ROTA_WHOLE && offset <= buffer->size_bytes) size = buffer->size_bytes - offset;
    if (offset > buffer->size_bytes || size > buffer->size_bytes - offset || size == 0)
        return rota_fail(ROTA_OUT_OF_RANGE, AT "access %u: bytes [%llu, +%llu) of buffer '%s' of %llu bytes",
                         AT_ARGUMENTS(where), number, (unsigned long long)offset, (unsigned long long)size,
                         buffer->root->name, (unsigned long long)buffer->size_bytes);
    if ((unsigned)access->mode >= ROTA_ACCESS_MODE_COUNT)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         AT "access %u: mode %d, expected READ, WRITE, READWRITE or ACCUMULATE",
                         AT_ARGUMENTS(where), number, (int)access->mode);
    if (buffer->is_read_only && access->mode != ROTA_READ)
        return rota_fail(ROTA_INVALID_ARGUMENT, AT "access %u: %s of %s buffer '%s', which nodes only read",
                         AT_ARGUMENTS(where), number, rota_access_mode_name(access->mode),
                         buffer->kind == ROTA_BUFFER_INPUT ? "INPUT" : "read-only", buffer->root->name);
    if (buffer->graph && buffer->graph != where->graph && !is_of_outer(where->graph, buffer))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         AT "access %u: buffer '%s' belongs to graph '%s', not to '%s'", AT_ARGUMENTS(where),
                         number, buffer->root->name, ((rota_graph *)buffer->graph)->name, where->graph->name);
    return rota_fail(
        ROTA_MISALIGNED, AT "access %u starts at byte %llu of buffer '%s', expected a multiple of 4",
        AT_ARGUMENTS(where), number, (unsigned long long)(buffer->root_offset + offset), buffer->root->name);
}

/* Room for a range that a record does not hold: within reserved room at the end of the lane's. */
static __attribute__((cold, noinline)) rota_wide_range *add_wide(const context *where) {
    rota_recorder *lane = where->recorder;
    if (!lane) return rota_arena_alloc(where->arena, sizeof(rota_wide_range), 8);
    if ((size_t)(lane->end - lane->next) < where->record_bytes + sizeof(rota_wide_range))
        return rota_arena_alloc(&lane->arena, sizeof(rota_wide_range), 8);
    lane->end -= sizeof(rota_wide_range);
    return (rota_wide_range *)lane->end;
}

/* Fills the record of one access. `alignment` is that of the first byte, 1 or 4: kernels may read words. */
static inline __attribute__((always_inline)) rota_status resolve_access(const context *where, uint32_t number,
                                                                        const rota_access *access,
                                                                        uint64_t alignment,
                                                                        rota_access_record *out) {
    const rota_buffer *buffer = access->buffer;
    if (__builtin_expect(!buffer, 0)) return refuse_access(where, number, access);
    uint64_t offset = access->offset_bytes, size = access->size_bytes;
    uint64_t left = buffer->size_bytes - offset; /* nonsense if the offset is outside, which is seen below */
    if (size == ROTA_WHOLE) size = left;
    uint64_t start = buffer->root_offset + offset;
    if (__builtin_expect(offset > buffer->size_bytes || size > left || size == 0 ||
                             (unsigned)access->mode >= ROTA_ACCESS_MODE_COUNT ||
                             (buffer->is_read_only && access->mode != ROTA_READ) || start % alignment != 0,
                         0))
        return refuse_access(where, number, access);
    uint64_t stored = buffer->graph ? buffer->graph_key : (uint64_t)(uintptr_t)buffer->root;
    if (__builtin_expect(buffer->graph != where->graph && buffer->graph, 0)) {
        if (!is_of_outer(where->graph, buffer)) return refuse_access(where, number, access);
        stored = (uint64_t)(uintptr_t)buffer->root | ROTA_ACCESS_OUTER;
    }
    rota_wide_range *wide = NULL;
    if (__builtin_expect(rota_access_is_wide(start, size), 0)) {
        wide = add_wide(where);
        if (!wide)
            return rota_fail(ROTA_OUT_OF_MEMORY, AT "access %u: no host memory", AT_ARGUMENTS(where), number);
    }
    *out = rota_access_record_of(stored, start, size, access->mode, wide);
    return ROTA_OK;
}

static inline bool ranges_overlap(const rota_access_record *a, const rota_access_record *b) {
    return rota_access_stored(a) == rota_access_stored(b) &&
           rota_access_offset(a) < rota_access_offset(b) + rota_access_size(b) &&
           rota_access_offset(b) < rota_access_offset(a) + rota_access_size(a);
}

/* A bit of 64 for a buffer: accesses with different bits are of different buffers. Neighbours in a lane, and
 * in memory, have different bits. */
static inline uint64_t buffer_bit(const rota_access_record *access) {
    return (uint64_t)1 << ((access->buffer_mode >> 1 ^ access->buffer_mode >> 7) % 64);
}

/* Two accesses of one node may overlap if neither writes, if they are the same range and the kernel's
 * in-place masks pair them, or if both write and the kernel interleaves what it writes. `kernel` is NULL for
 * nodes that allow no overlap. */
static __attribute__((noinline)) rota_status check_overlaps(const context *where, const rota_kernel *kernel,
                                                            const rota_access_record *accesses,
                                                            const rota_access *given, uint32_t count) {
    for (uint32_t j = 1; j < count; j++)
        for (uint32_t i = 0; i < j; i++) {
            if (__builtin_expect(!ranges_overlap(&accesses[i], &accesses[j]), 1)) continue;
            const bool writes_i = ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ,
                       writes_j = ROTA_ACCESS_MODE(&accesses[j]) != ROTA_READ;
            if (!writes_i && !writes_j) continue;
            if (writes_i && writes_j && kernel && kernel->flags & ROTA_KERNEL_INTERLEAVED) continue;
            bool same = ROTA_ACCESS_OFFSET(&accesses[i]) == ROTA_ACCESS_OFFSET(&accesses[j]) &&
                        rota_access_size(&accesses[i]) == rota_access_size(&accesses[j]);
            if (same && kernel) {
                const uint32_t operands = (1u << kernel->operand_count) - 1; /* a count is none of them */
                uint32_t out = kernel->inplace_outputs & operands, in = kernel->inplace_inputs & operands;
                if (((out >> i & 1) && (in >> j & 1)) || ((out >> j & 1) && (in >> i & 1))) continue;
            }
            return rota_fail(
                ROTA_OVERLAP, AT "accesses %u (%s) and %u (%s) overlap in buffer '%s'%s; %s allows %s",
                AT_ARGUMENTS(where), i, rota_access_mode_name(ROTA_ACCESS_MODE(&accesses[i])), j,
                rota_access_mode_name(ROTA_ACCESS_MODE(&accesses[j])), given[i].buffer->root->name,
                same ? "" : " in part", kernel ? kernel->name : where->name,
                kernel && kernel->inplace_outputs ? "only whole operands in place" : "no overlap");
        }
    return ROTA_OK;
}

/* What is patched in at each replay must lie in the parameters. */
static rota_status check_bindables(const context *where, const rota_kernel *kernel) {
    for (uint32_t i = 0; i < kernel->bindable_count; i++) {
        const rota_kernel_bindable *bindable = &kernel->bindables[i];
        const bool fits = bindable->type == ROTA_VALUE_ANY ||
                          (bindable->type == ROTA_VALUE_U64 && bindable->size_bytes == 8) ||
                          (bindable->type < ROTA_VALUE_U64 && bindable->size_bytes == 4);
        if (fits && (bindable->size_bytes == 4 || bindable->size_bytes == 8) &&
            bindable->offset_bytes % bindable->size_bytes == 0 &&
            (uint32_t)bindable->offset_bytes + bindable->size_bytes <= kernel->param_bytes)
            continue;
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         AT
                         "parameter '%s' of kernel '%s' has %u bytes at byte %u of %u, expected 4 or 8 bytes "
                         "(f32, u32: 4, u64: 8), aligned to their size, inside the parameters",
                         AT_ARGUMENTS(where), bindable->name, kernel->name, bindable->size_bytes,
                         bindable->offset_bytes, kernel->param_bytes);
    }
    return ROTA_OK;
}

static const char *const type_names[] = {"any", "f32", "u32", "u64"};

/* The first node to say a type gives it to the slot. Relaxed: the type is all there is to see; lanes that say
 * different ones at once are both wrong, and one of them is told. */
static rota_status check_type(const context *where, const rota_kernel *kernel,
                              const rota_kernel_bindable *bindable, rota_slot_info *slot) {
    uint32_t known = ra_load_relaxed(&slot->type);
    if (bindable->type == ROTA_VALUE_ANY || known == bindable->type) return ROTA_OK;
    if (known == ROTA_VALUE_ANY && ra_cas_acq_rel(&slot->type, &known, (uint32_t)bindable->type))
        return ROTA_OK;
    if (known == bindable->type) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     AT "parameter '%s' of kernel '%s' is %s, but slot '%s' is bound to one that is %s",
                     AT_ARGUMENTS(where), bindable->name, kernel->name, type_names[bindable->type],
                     slot->name, type_names[known]);
}

static rota_status check_bindings(const context *where, const rota_kernel_node *node) {
    const rota_kernel *kernel = node->kernel;
    const rota_graph *slots_of = rota_graph_outermost(where->graph);
    uint32_t bound = 0;
    ROTA_TRY(check_bindables(where, kernel));
    for (uint32_t i = 0; i < node->binding_count; i++) {
        const rota_param_binding *binding = &node->bindings[i];
        if (binding->bindable >= kernel->bindable_count)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             AT "binding %u names bindable parameter %u of kernel '%s', which has %u",
                             AT_ARGUMENTS(where), i, binding->bindable, kernel->name, kernel->bindable_count);
        const rota_kernel_bindable *bindable = &kernel->bindables[binding->bindable];
        if (bound >> binding->bindable & 1)
            return rota_fail(ROTA_INVALID_ARGUMENT, AT "parameter '%s' of kernel '%s' is bound twice",
                             AT_ARGUMENTS(where), bindable->name, kernel->name);
        bound |= 1u << binding->bindable;
        if (binding->slot.index == ROTA_SLOT_CONSTANT.index) continue;
        /* Acquire pairs with add_slot's release. */
        if (binding->slot.index == 0 || binding->slot.index > ra_load_acquire(&slots_of->slot_count))
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             AT "parameter '%s' is bound to slot %u; graph '%s' has no such slot",
                             AT_ARGUMENTS(where), bindable->name, binding->slot.index, slots_of->name);
        rota_slot_info *slot = rota_graph_slot_info(slots_of, binding->slot.index);
        if (slot->size_bytes != bindable->size_bytes)
            return rota_fail(ROTA_INVALID_ARGUMENT, AT "parameter '%s' has %u bytes, slot '%s' has %u",
                             AT_ARGUMENTS(where), bindable->name, bindable->size_bytes, slot->name,
                             slot->size_bytes);
        ROTA_TRY(check_type(where, kernel, bindable, slot));
    }
    for (uint32_t i = 0; i < kernel->bindable_count; i++)
        if (kernel->bindables[i].varies_by_step && !(bound >> i & 1))
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             AT "parameter '%s' of kernel '%s' changes from step to step and was given as a "
                                "plain value; bind "
                                "it to a slot, or say ROTA_CONSTANT",
                             AT_ARGUMENTS(where), kernel->bindables[i].name, kernel->name);
    return ROTA_OK;
}

/* What is wrong with a node that check_kernel refused. */
static __attribute__((cold, noinline)) rota_status refuse_kernel(const context *where,
                                                                 const rota_kernel_node *node) {
    const rota_kernel *kernel = node->kernel;
    if (node->access_count != kernel->operand_count || node->access_count > ROTA_KERNEL_OPERANDS_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, AT "%u accesses, kernel '%s' has %u operands (at most %d)",
                         AT_ARGUMENTS(where), node->access_count, kernel->name, kernel->operand_count,
                         ROTA_KERNEL_OPERANDS_MAX);
    if (kernel->param_bytes > ROTA_KERNEL_PARAM_BYTES_MAX || kernel->param_bytes % 4 != 0 ||
        kernel->bindable_count > ROTA_KERNEL_BINDABLE_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         AT "kernel '%s' has %u bytes of parameters and %u bindable ones, expected at most "
                            "%d (a multiple of 4) "
                            "and %d",
                         AT_ARGUMENTS(where), kernel->name, kernel->param_bytes, kernel->bindable_count,
                         ROTA_KERNEL_PARAM_BYTES_MAX, ROTA_KERNEL_BINDABLE_MAX);
    if (kernel->param_bytes && !node->params)
        return rota_fail(ROTA_INVALID_ARGUMENT, AT "no parameters, kernel '%s' has %u bytes of them",
                         AT_ARGUMENTS(where), kernel->name, kernel->param_bytes);
    return rota_fail(ROTA_INVALID_ARGUMENT, AT "placement on device %u, queue %u; expected below %u and %u",
                     AT_ARGUMENTS(where), node->placement.device_plus_1 - 1, node->placement.queue_plus_1 - 1,
                     UINT8_MAX, UINT16_MAX);
}

static __attribute__((noinline)) rota_status check_functions(const context *where,
                                                             const rota_kernel *kernel) {
    const rota_status status = rota_kernel_check_functions(kernel);
    return status == ROTA_OK ? status : rota_fail_context(status, AT, AT_ARGUMENTS(where));
}

static inline __attribute__((always_inline)) rota_status check_kernel(const context *where,
                                                                      const rota_kernel_node *node) {
    const rota_kernel *kernel = node->kernel;
    if (__builtin_expect(
            node->access_count != kernel->operand_count || node->access_count > ROTA_KERNEL_OPERANDS_MAX ||
                kernel->param_bytes > ROTA_KERNEL_PARAM_BYTES_MAX || kernel->param_bytes % 4 != 0 ||
                kernel->bindable_count > ROTA_KERNEL_BINDABLE_MAX || (kernel->param_bytes && !node->params) ||
                node->placement.device_plus_1 > UINT8_MAX || node->placement.queue_plus_1 > UINT16_MAX,
            0))
        return refuse_kernel(where, node);
    if (kernel->flags & ROTA_KERNEL_HAS_FUNCTIONS) ROTA_TRY(check_functions(where, kernel));
    if (kernel->bindable_count || node->binding_count) return check_bindings(where, node);
    return ROTA_OK;
}

rota_status rota_record_check_kernel(const rota_recorder *recorder, const rota_kernel_node *node) {
    const char *name = node->name || !node->kernel ? node->name : node->kernel->name;
    const context where = {.graph = recorder->graph,
                           .lane = recorder->name,
                           .index = recorder->node_count,
                           .name = name ? name : ""};
    if (!node->kernel) return rota_fail(ROTA_INVALID_ARGUMENT, AT "no kernel", AT_ARGUMENTS(&where));
    if (node->binding_count > ROTA_KERNEL_BINDABLE_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, AT "%u bindings, expected at most %d", AT_ARGUMENTS(&where),
                         node->binding_count, ROTA_KERNEL_BINDABLE_MAX);
    return check_kernel(&where, node);
}

rota_status rota_record_check_word(const rota_recorder *recorder, const char *name, const char *what,
                                   const rota_buffer *buffer, uint64_t offset_bytes) {
    const uint64_t size = buffer->size_bytes, start = buffer->root_offset + offset_bytes;
    if (offset_bytes > size || size - offset_bytes < sizeof(uint32_t))
        return rota_fail(ROTA_OUT_OF_RANGE,
                         ROTA_NODE_TEXT "its %s is bytes [%llu, +4) of buffer '%s' of %llu bytes",
                         ROTA_NODE_ARGUMENTS(recorder, name), what, (unsigned long long)offset_bytes,
                         buffer->root->name, (unsigned long long)size);
    if (start % sizeof(uint32_t))
        return rota_fail(ROTA_MISALIGNED,
                         ROTA_NODE_TEXT "its %s starts at byte %llu of buffer '%s', expected a multiple of 4",
                         ROTA_NODE_ARGUMENTS(recorder, name), what, (unsigned long long)start,
                         buffer->root->name);
    return ROTA_OK;
}

/* ---- Records ---- */

size_t rota_kernel_record_bytes(const rota_kernel_node *node) {
    size_t bytes = sizeof(rota_node_record) + sizeof(rota_access_record) * node->access_count +
                   sizeof(rota_param_binding) * node->binding_count + node->kernel->param_bytes;
    return (bytes + 7) & ~(size_t)7;
}

static inline __attribute__((always_inline)) rota_status
build_kernel(const context *where, const rota_kernel_node *node, size_t record_bytes,
             rota_node_record *record, uint32_t *out_persistent) {
    ROTA_TRY(check_kernel(where, node));
    rota_access_record *accesses = (rota_access_record *)(record + 1);
    const uint32_t count = node->access_count;
    uint64_t seen = 0, seen_twice = 0;
    uint32_t persistent = 0;
    for (uint32_t i = 0; i < count; i++) {
        ROTA_TRY(resolve_access(where, i, &node->accesses[i], 4, &accesses[i]));
        uint64_t bit = buffer_bit(&accesses[i]);
        seen_twice |= seen & bit;
        seen |= bit;
        persistent |= (uint32_t)ROTA_ACCESS_IS_PERSISTENT(rota_access_stored(&accesses[i])) << i;
    }
    if (seen_twice) ROTA_TRY(check_overlaps(where, node->kernel, accesses, node->accesses, count));
    *out_persistent = persistent;
    *record = (rota_node_record){
        .record_words = rota_record_words(record_bytes) & 0x3fffu,
        .param_words = (uint8_t)(node->kernel->param_bytes / 4),
        .kind = ROTA_NODE_KERNEL,
        .access_count = (uint8_t)node->access_count,
        .binding_count = node->binding_count & 0x1fu,
        .device_plus_1 = (uint8_t)node->placement.device_plus_1,
        .queue_plus_1 = (uint16_t)node->placement.queue_plus_1,
        .name = node->name,
        .u.kernel = {.kernel = node->kernel, .groups = {node->groups[0], node->groups[1], node->groups[2]}}};
    rota_param_binding *bindings = (rota_param_binding *)(accesses + count);
    if (node->binding_count) memcpy(bindings, node->bindings, sizeof *bindings * node->binding_count);
    if (node->kernel->param_bytes)
        memcpy(bindings + node->binding_count, node->params, node->kernel->param_bytes);
    return ROTA_OK;
}

rota_status rota_kernel_record_build(rota_graph *graph, const rota_kernel_node *node, rota_arena *arena,
                                     rota_node_record *out_record) {
    context where = {.graph = graph,
                     .lane = "rewrite",
                     .name = node->name ? node->name : node->kernel->name,
                     .arena = arena};
    uint32_t persistent;
    return build_kernel(&where, node, rota_kernel_record_bytes(node), out_record, &persistent);
}

static inline rota_status begin_record(rota_recorder *lane, size_t bytes, const char *name) {
    if (__builtin_expect(ra_load_relaxed(&lane->closed), 0))
        return rota_fail(ROTA_WRONG_STATE, "node '%s': recorder '%s' is closed%s", name, lane->name,
                         ra_load_acquire(&lane->graph->compiled) ? " and its graph already compiled" : "");
    if (__builtin_expect(lane->node_count == UINT32_MAX, 0))
        return rota_fail(ROTA_OUT_OF_RANGE, "node '%s': lane '%s' has 2^32 - 1 nodes, the most there can be",
                         name, lane->name);
    if (__builtin_expect(bytes > (size_t)(lane->end - lane->next), 0)) ROTA_TRY(add_chunk(lane, bytes));
    return ROTA_OK;
}

static inline rota_status hold_persistent(rota_recorder *lane, rota_buffer *root) {
    rota_buffer **recent = &lane->recent[root->number % (sizeof lane->recent / sizeof *lane->recent)];
    return *recent == root ? ROTA_OK : hold_buffer(lane, root, recent);
}

/* The record at lane->next is complete: hold the persistent ones of its buffers, a bit for each access, and
 * make it part of the lane. */
static inline rota_status commit_record(rota_recorder *lane, const rota_access *given, uint32_t persistent,
                                        rota_node *out_node) {
    for (; persistent; persistent &= persistent - 1)
        ROTA_TRY(hold_persistent(lane, given[__builtin_ctz(persistent)].buffer->root));
    const rota_node_record *record = (const rota_node_record *)lane->next;
    lane->next += rota_record_bytes(record);
    for (uint32_t line = 0; line < 2; line++)
        rota_prefetch_for_write(lane->next + AHEAD_BYTES + (size_t)64 * line);
    if (out_node) *out_node = (rota_node){lane->lane, lane->node_count};
    lane->node_count++;
    lane->access_count += record->access_count;
    return ROTA_OK;
}

/* A node of a caller's who was built with another version. */
static __attribute__((noinline, cold)) rota_status
record_other_kernel(rota_recorder *recorder, const rota_kernel_node *given, rota_node *out_node) {
    rota_kernel_node room;
    if (!rota_sized_in(given, sizeof room, "rota_kernel_node", &room)) return ROTA_INVALID_ARGUMENT;
    if (given->struct_size > sizeof room) room = *given;
    room.struct_size = sizeof room;
    return rota_record_kernel(recorder, &room, out_node);
}

rota_status rota_record_kernel(rota_recorder *recorder, const rota_kernel_node *node, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(node);
    if (__builtin_expect(node->struct_size != sizeof *node, 0))
        return record_other_kernel(recorder, node, out_node);
    if (__builtin_expect(!node->kernel, 0))
        return rota_fail(ROTA_INVALID_ARGUMENT, ROTA_NODE_TEXT "no kernel",
                         ROTA_NODE_ARGUMENTS(recorder, node->name ? node->name : ""));
    context where = {.graph = recorder->graph,
                     .lane = recorder->name,
                     .index = recorder->node_count,
                     .name = node->name ? node->name : node->kernel->name,
                     .recorder = recorder};
    if (__builtin_expect(node->binding_count > ROTA_KERNEL_BINDABLE_MAX, 0))
        return rota_fail(ROTA_INVALID_ARGUMENT, AT "%u bindings, expected at most %d", AT_ARGUMENTS(&where),
                         node->binding_count, ROTA_KERNEL_BINDABLE_MAX);
    if (__builtin_expect(node->access_count > ROTA_KERNEL_OPERANDS_MAX, 0))
        return refuse_kernel(&where, node);
    for (uint32_t i = 0; i < node->access_count; i++) rota_prefetch(node->accesses[i].buffer);
    size_t bytes = where.record_bytes = rota_kernel_record_bytes(node);
    ROTA_TRY(begin_record(recorder, bytes, where.name));
    uint32_t persistent;
    ROTA_TRY(build_kernel(&where, node, bytes, (rota_node_record *)recorder->next, &persistent));
    return commit_record(recorder, node->accesses, persistent, out_node);
}

rota_status rota_record_plain(rota_recorder *lane, const rota_node_record *header,
                              const rota_access *accesses, rota_node *out_node) {
    const bool is_conditional = header->kind == ROTA_NODE_CONDITIONAL,
               is_kernel = header->kind == ROTA_NODE_KERNEL;
    context where = {.graph = lane->graph,
                     .lane = lane->name,
                     .index = lane->node_count,
                     .name = rota_node_record_name(header),
                     .recorder = lane,
                     .record_bytes = rota_record_bytes(header)};
    ROTA_TRY(begin_record(lane, where.record_bytes, where.name));
    rota_node_record *record = (rota_node_record *)lane->next;
    *record = *header;
    rota_access_record *resolved = (rota_access_record *)(record + 1);
    uint32_t persistent = 0;
    for (uint32_t i = 0; i < header->access_count; i++) {
        ROTA_TRY(resolve_access(&where, i, &accesses[i], header->kind == ROTA_NODE_HOST || is_kernel ? 4 : 1,
                                &resolved[i]));
        if (!ROTA_ACCESS_IS_PERSISTENT(rota_access_stored(&resolved[i]))) continue;
        if (is_conditional) /* which may have more than there are bits; more references than needed do no harm */
            ROTA_TRY(hold_persistent(lane, accesses[i].buffer->root));
        else
            persistent |= (uint32_t)1 << i;
    }
    if (header->kind == ROTA_NODE_FILL &&
        (ROTA_ACCESS_OFFSET(resolved) % 4 != 0 || rota_access_size(resolved) % 4 != 0))
        return rota_fail(ROTA_MISALIGNED,
                         AT "fill of bytes [%llu, +%llu) of buffer '%s', expected multiples of 4",
                         AT_ARGUMENTS(&where), (unsigned long long)ROTA_ACCESS_OFFSET(resolved),
                         (unsigned long long)rota_access_size(resolved), accesses->buffer->root->name);
    const rota_kernel *kernel = is_kernel ? header->u.kernel.kernel : NULL;
    if (!is_conditional) ROTA_TRY(check_overlaps(&where, kernel, resolved, accesses, header->access_count));
    return commit_record(lane, accesses, persistent, out_node);
}

static uint32_t plain_words(uint32_t access_count) {
    return rota_record_words(sizeof(rota_node_record) + sizeof(rota_access_record) * access_count);
}

rota_status rota_record_copy(rota_recorder *recorder, rota_buffer *destination,
                             uint64_t destination_offset_bytes, rota_buffer *source,
                             uint64_t source_offset_bytes, uint64_t size_bytes, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(destination);
    ROTA_GIVEN(source);
    rota_access accesses[2] = {{destination, destination_offset_bytes, size_bytes, ROTA_WRITE},
                               {source, source_offset_bytes, size_bytes, ROTA_READ}};
    if (size_bytes == ROTA_WHOLE && destination && source &&
        destination_offset_bytes <= destination->size_bytes && source_offset_bytes <= source->size_bytes) {
        /* Each side's rest must then be the same; offsets outside are found out below. */
        uint64_t left_destination = destination->size_bytes - destination_offset_bytes;
        uint64_t left_source = source->size_bytes - source_offset_bytes;
        if (left_destination != left_source)
            return rota_fail(
                ROTA_INVALID_ARGUMENT,
                "copy (lane '%s', node %u): ROTA_WHOLE of %llu bytes of '%s' to %llu bytes of '%s'",
                recorder->name, recorder->node_count, (unsigned long long)left_source, source->root->name,
                (unsigned long long)left_destination, destination->root->name);
    }
    rota_node_record header = {
        .record_words = plain_words(2) & 0x3fffu, .kind = ROTA_NODE_COPY, .access_count = 2};
    return rota_record_plain(recorder, &header, accesses, out_node);
}

static rota_status record_fill(rota_recorder *recorder, const char *name, rota_buffer *destination,
                               uint64_t offset_bytes, uint64_t size_bytes, uint32_t pattern,
                               rota_node *out_node) {
    rota_access access = {destination, offset_bytes, size_bytes, ROTA_WRITE};
    rota_node_record header = {.record_words = plain_words(1) & 0x3fffu,
                               .kind = ROTA_NODE_FILL,
                               .access_count = 1,
                               .name = name,
                               .u.fill = {pattern}};
    return rota_record_plain(recorder, &header, &access, out_node);
}

rota_status rota_record_fill(rota_recorder *recorder, rota_buffer *destination, uint64_t offset_bytes,
                             uint64_t size_bytes, uint32_t pattern, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(destination);
    return record_fill(recorder, NULL, destination, offset_bytes, size_bytes, pattern, out_node);
}

rota_status rota_record_named_fill(rota_recorder *recorder, const char *name, rota_buffer *destination,
                                   uint64_t offset_bytes, uint64_t size_bytes, uint32_t pattern) {
    return record_fill(recorder, name, destination, offset_bytes, size_bytes, pattern, NULL);
}
