/* Recording of counted nodes: the count is one access more, the last, and what is written may be kept. */
#include "graph/counted.h"

#include <string.h>

#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/kernel_calls.h"
#include "graph/record.h"

static rota_status check_count(const rota_recorder *lane, const char *name, const rota_count *count) {
    if (!count->buffer)
        return rota_fail(ROTA_INVALID_ARGUMENT, ROTA_NODE_TEXT "its count has no buffer",
                         ROTA_NODE_ARGUMENTS(lane, name));
    if (count->max == 0)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         ROTA_NODE_TEXT "its count's maximum (rota_count.max) is 0, expected 1 or more",
                         ROTA_NODE_ARGUMENTS(lane, name));
    return rota_record_check_word(lane, name, "count", count->buffer, count->offset_bytes);
}

static rota_access count_access(const rota_count *count) {
    return (rota_access){count->buffer, count->offset_bytes, sizeof(uint32_t), ROTA_READ};
}

/* The parameter that gets the count, which nothing else gives. */
static rota_status check_bindable(const rota_recorder *lane, const char *name, const rota_kernel_node *node,
                                  const rota_count *count) {
    const rota_kernel *kernel = node->kernel;
    const uint32_t index = count->bindable_plus_1 - 1;
    if (count->bindable_plus_1 == 0) return ROTA_OK;
    if (index >= kernel->bindable_count)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         ROTA_NODE_TEXT
                         "its count is for parameter %u (rota_count.bindable_plus_1 - 1), and kernel '%s' "
                         "has %u that may be bound",
                         ROTA_NODE_ARGUMENTS(lane, name), index, kernel->name, kernel->bindable_count);
    const rota_kernel_bindable *bindable = &kernel->bindables[index];
    if (bindable->size_bytes != sizeof(uint32_t) ||
        (bindable->type != ROTA_VALUE_ANY && bindable->type != ROTA_VALUE_U32))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         ROTA_NODE_TEXT
                         "its count is for parameter '%s' of kernel '%s', expected one of type u32",
                         ROTA_NODE_ARGUMENTS(lane, name), bindable->name, kernel->name);
    for (uint32_t i = 0; i < node->binding_count; i++)
        if (node->bindings[i].bindable == index && node->bindings[i].slot.index != ROTA_SLOT_CONSTANT.index)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             ROTA_NODE_TEXT
                             "parameter '%s' of kernel '%s' gets the count, and is bound to a slot",
                             ROTA_NODE_ARGUMENTS(lane, name), bindable->name, kernel->name);
    return ROTA_OK;
}

static rota_status check_counted_kernel(const rota_recorder *lane, const char *name,
                                        const rota_kernel_node *node, const rota_count *count) {
    ROTA_TRY(rota_record_check_kernel(lane, node));
    ROTA_TRY(check_count(lane, name, count));
    if (count->unit_bytes)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         ROTA_NODE_TEXT "a kernel's count with unit_bytes, which are a copy's; expected 0",
                         ROTA_NODE_ARGUMENTS(lane, name));
    if (node->groups[0] || node->groups[1] || node->groups[2])
        return rota_fail(ROTA_INVALID_ARGUMENT, ROTA_NODE_TEXT "groups beside a count; expected none",
                         ROTA_NODE_ARGUMENTS(lane, name));
    if (node->access_count >= ROTA_KERNEL_OPERANDS_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         ROTA_NODE_TEXT "%u accesses and a count, expected at most %d and the count",
                         ROTA_NODE_ARGUMENTS(lane, name), node->access_count, ROTA_KERNEL_OPERANDS_MAX - 1);
    if (rota_kernel_has_parts(node->kernel))
        return rota_fail(ROTA_UNSUPPORTED,
                         ROTA_NODE_TEXT "kernel '%s' is several on some devices, which no count can size",
                         ROTA_NODE_ARGUMENTS(lane, name), node->kernel->name);
    return check_bindable(lane, name, node, count);
}

/* What the executors take for the parameters where nothing is counted yet: items and groups are then those of the most
 * that there may be. */
static void put_max(const rota_kernel *kernel, const rota_count *count, void *params) {
    if (count->bindable_plus_1)
        memcpy((uint8_t *)params + kernel->bindables[count->bindable_plus_1 - 1].offset_bytes, &count->max,
               sizeof count->max);
}

rota_status rota_record_counted_kernel(rota_recorder *recorder, const rota_kernel_node *node,
                                       const rota_count *count, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(node);
    ROTA_GIVEN(count);
    rota_kernel_node node_room;
    rota_count count_room;
    if (!(node = ROTA_SIZED_IN(rota_kernel_node, node, &node_room)) ||
        !(count = ROTA_SIZED_IN(rota_count, count, &count_room)))
        return ROTA_INVALID_ARGUMENT;
    const char *name = node->name ? node->name : node->kernel ? node->kernel->name : "";
    ROTA_TRY(check_counted_kernel(recorder, name, node, count));
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < node->access_count; i++) {
        accesses[i] = node->accesses[i];
        if (accesses[i].mode == ROTA_WRITE) accesses[i].mode = ROTA_READWRITE;
    }
    accesses[node->access_count] = count_access(count);
    const rota_kernel *kernel = node->kernel;
    const size_t bytes = rota_kernel_record_bytes(node) + sizeof(rota_access_record);
    const rota_node_record header = {.record_words = rota_record_words(bytes) & 0x3fffu,
                                     .param_words = (uint8_t)(kernel->param_bytes / 4),
                                     .kind = ROTA_NODE_KERNEL,
                                     .is_counted = true,
                                     .access_count = (uint8_t)(node->access_count + 1),
                                     .binding_count = node->binding_count & 0x1fu,
                                     .device_plus_1 = (uint8_t)node->placement.device_plus_1,
                                     .queue_plus_1 = (uint16_t)node->placement.queue_plus_1,
                                     .name = node->name,
                                     .u.kernel = {.kernel = kernel,
                                                  .groups = {count->items_per_group, count->bindable_plus_1},
                                                  .count_max = count->max}};
    ROTA_TRY(rota_record_plain(recorder, &header, accesses, out_node));
    const rota_node_record *record = (const rota_node_record *)(recorder->next - bytes);
    rota_param_binding *bindings =
        (rota_param_binding *)((rota_access_record *)(record + 1) + record->access_count);
    if (node->binding_count) memcpy(bindings, node->bindings, sizeof *bindings * node->binding_count);
    if (kernel->param_bytes) memcpy(bindings + node->binding_count, node->params, kernel->param_bytes);
    put_max(kernel, count, bindings + node->binding_count);
    return ROTA_OK;
}

rota_status rota_record_counted_copy(rota_recorder *recorder, rota_buffer *destination,
                                     uint64_t destination_offset_bytes, rota_buffer *source,
                                     uint64_t source_offset_bytes, const rota_count *count,
                                     rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(destination);
    ROTA_GIVEN(source);
    ROTA_GIVEN(count);
    rota_count room;
    if (!(count = ROTA_SIZED_IN(rota_count, count, &room))) return ROTA_INVALID_ARGUMENT;
    const char *name = "copy";
    ROTA_TRY(check_count(recorder, name, count));
    if (count->items_per_group || count->bindable_plus_1)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         ROTA_NODE_TEXT "a copy's count with %s, which a kernel's has; expected 0",
                         ROTA_NODE_ARGUMENTS(recorder, name),
                         count->items_per_group ? "items_per_group" : "bindable_plus_1");
    const uint64_t unit = count->unit_bytes ? count->unit_bytes : 1, most = count->max * unit;
    const rota_access accesses[3] = {{destination, destination_offset_bytes, most, ROTA_READWRITE},
                                     {source, source_offset_bytes, most, ROTA_READ},
                                     count_access(count)};
    const rota_node_record header = {
        .record_words = rota_record_words(sizeof header + 3 * sizeof(rota_access_record)) & 0x3fff,
        .kind = ROTA_NODE_COPY,
        .is_counted = true,
        .access_count = 3,
        .u.copy = {.unit_bytes = unit, .count_max = count->max}};
    return rota_record_plain(recorder, &header, accesses, out_node);
}
