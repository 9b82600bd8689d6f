/* Recording host nodes: functions of the host's, what ends later, and what a device may do as well. */
#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/record.h"

rota_status rota_record_may_end_later(const rota_recorder *recorder, const char *name) {
    if (recorder->graph->depth == 0) return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED,
                     ROTA_NODE_TEXT "it ends later than its function, as collectives do, "
                                    "which no node of a body may; '%s' is the body of a node that decides",
                     ROTA_NODE_ARGUMENTS(recorder, name), recorder->graph->name);
}

static rota_status record_host(rota_recorder *recorder, const rota_host_node *node, bool may_be_on_device,
                               rota_node *out_node) {
    const char *name = node->name ? node->name : "host";
    const bool ends_later = node->ends_later && node->ends_later->begin;
    if (!node->fn == !ends_later)
        return rota_fail(ROTA_INVALID_ARGUMENT, ROTA_NODE_TEXT "%s host function, expected one",
                         ROTA_NODE_ARGUMENTS(recorder, name), ends_later ? "a second" : "no");
    if (ends_later) ROTA_TRY(rota_record_may_end_later(recorder, name));
    if (node->access_count > ROTA_KERNEL_OPERANDS_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, ROTA_NODE_TEXT "%u accesses, expected at most %d",
                         ROTA_NODE_ARGUMENTS(recorder, name), node->access_count, ROTA_KERNEL_OPERANDS_MAX);
    rota_node_record header = {
        .record_words =
            rota_record_words(sizeof header + sizeof(rota_access_record) * node->access_count) & 0x3fffu,
        .kind = ROTA_NODE_HOST,
        .access_count = (uint8_t)node->access_count,
        .may_be_on_device = may_be_on_device,
        .name = node->name,
        .u.host = {node->fn, node->user, ends_later ? node->ends_later : NULL}};
    return rota_record_plain(recorder, &header, node->accesses, out_node);
}

rota_status rota_record_host(rota_recorder *recorder, const rota_host_node *node, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(node);
    rota_host_node room;
    if (!(node = ROTA_SIZED_IN(rota_host_node, node, &room))) return ROTA_INVALID_ARGUMENT;
    return record_host(recorder, node, false, out_node);
}

rota_status rota_record_host_on_device(rota_recorder *recorder, const rota_host_node *node,
                                       const rota_host_on_device *on_device) {
    rota_host_node own = *node;
    own.ends_later = &on_device->host;
    return record_host(recorder, &own, true, NULL);
}
