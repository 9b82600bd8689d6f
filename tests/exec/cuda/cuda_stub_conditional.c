/* The CUDA stand-in's conditional nodes, and kernel nodes whose grids kernels set; see cuda_stub.h. It takes what the
 * driver's documentation says that graphs with such nodes may have, and what no correct program does with them is a
 * violation. */
#include "tests/exec/cuda/cuda_stub.h"

#ifdef ROTA_HAVE_CUDA
#include <stdlib.h>
#include <string.h>
#include "tests/exec/cuda/cuda_stub_internal.h"

/* ---- Handles: values in memory of each launch ---- */

CUresult CUDAAPI stub_GraphConditionalHandleCreate(unsigned long long *out, CUgraph graph, CUcontext context,
                                                   unsigned value, unsigned flags) {
    ENTER(GraphConditionalHandleCreate);
    if (flags > 1) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    if (context != stub_current()) stub_violate("a handle of another context than the current one");
    stub_handle *handle = calloc(1, sizeof *handle);
    stub_handle **handles = realloc(graph->handles, (graph->handle_count + 1) * sizeof *handles);
    if (!handle || !handles) abort();
    *handle = (stub_handle){.references = 1, .graph = graph, .first = value, .has_first = flags != 0};
    graph->handles = handles;
    graph->handles[graph->handle_count++] = handle;
    *out = (unsigned long long)(uintptr_t)handle;
    return stub_leave(CUDA_SUCCESS);
}

void stub_handles_copy(CUgraph to, CUgraph from) {
    to->handles = calloc(from->handle_count + 1, sizeof *to->handles);
    if (!to->handles) abort();
    for (uint32_t i = 0; i < from->handle_count; i++) {
        to->handles[i] = from->handles[i];
        to->handles[i]->references++;
    }
    to->handle_count = from->handle_count;
}

void stub_handles_free(CUgraph graph) {
    for (uint32_t i = 0; i < graph->handle_count; i++)
        if (--graph->handles[i]->references == 0) free(graph->handles[i]);
    free(graph->handles);
}

/* Called from kernels. */
void stub_set_conditional(uint64_t address, uint32_t value) {
    stub_handle *handle = (stub_handle *)(uintptr_t)address;
    handle->value = value;
    handle->is_set = true;
}

/* ---- Nodes ---- */

static bool is_taken(const rota_cuda_conditional_node *params) {
    const bool switches = stub.version >= ROTA_CUDA_SWITCHES_NEEDED;
    if (stub.version < ROTA_CUDA_CONDITIONALS_NEEDED) return false;
    switch (params->u.is.type) {
    case ROTA_CUDA_CONDITIONAL_IF:
        return params->u.is.size == 1 || (switches && params->u.is.size == 2);
    case ROTA_CUDA_CONDITIONAL_WHILE:
        return params->u.is.size == 1;
    case ROTA_CUDA_CONDITIONAL_SWITCH:
        return switches && params->u.is.size > 0;
    default:
        return false;
    }
}

CUresult CUDAAPI stub_GraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                   const rota_cuda_edge *edges, size_t count,
                                   rota_cuda_conditional_node *params) {
    ENTER(GraphAddNode);
    if (edges) stub_violate("edges of other kinds into a conditional node");
    rota_cuda_conditional_node zeros = *params;
    memset(&zeros.u.is, 0, sizeof zeros.u.is);
    zeros.node_type = 0;
    for (size_t i = 0; i < sizeof zeros; i++)
        if (((const unsigned char *)&zeros)[i]) stub_violate("a node with reserved bytes that are not zero");
    stub_handle *handle = (stub_handle *)(uintptr_t)params->u.is.handle;
    if (params->node_type != ROTA_CUDA_NODE_CONDITIONAL || !is_taken(params) || !handle ||
        handle->graph != graph || handle->has_node)
        return stub_leave(CUDA_ERROR_INVALID_VALUE);
    if (params->u.is.context != stub_current())
        stub_violate("a node of another context than the current one");
    handle->has_node = true;
    CUgraphNode node = stub_node_new(graph, NODE_CONDITIONAL, before, count);
    node->handle = handle;
    node->type = params->u.is.type;
    node->body_count = params->u.is.size;
    node->bodies = calloc(node->body_count, sizeof *node->bodies);
    if (!node->bodies) abort();
    for (uint32_t i = 0; i < node->body_count; i++) {
        node->bodies[i] = calloc(1, sizeof *node->bodies[i]);
        if (!node->bodies[i]) abort();
        node->bodies[i]->is_body = true;
    }
    params->u.is.bodies = node->bodies;
    *out = node;
    return stub_leave(CUDA_SUCCESS);
}

/* ---- Graphs ---- */

bool stub_graph_decides(CUgraph graph) {
    for (uint32_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->kind == NODE_CONDITIONAL ||
            (graph->nodes[i]->child && stub_graph_decides(graph->nodes[i]->child)))
            return true;
    return false;
}

bool stub_handles_have_nodes(CUgraph graph) {
    for (uint32_t i = 0; i < graph->handle_count; i++)
        if (!graph->handles[i]->has_node) return false;
    for (uint32_t i = 0; i < graph->count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            if (!stub_handles_have_nodes(graph->nodes[i]->bodies[b])) return false;
    return true;
}

void stub_handles_begin(CUgraph graph) {
    for (uint32_t i = 0; i < graph->handle_count; i++) {
        graph->handles[i]->is_set = graph->handles[i]->has_first;
        graph->handles[i]->value = graph->handles[i]->first;
    }
    for (uint32_t i = 0; i < graph->count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            stub_handles_begin(graph->nodes[i]->bodies[b]);
}

/* ---- Grids that the device sets ---- */

CUresult stub_updatable_make(CUgraphNode node, CUlaunchAttributeValue *value) {
    rota_cuda_updatable updatable;
    memcpy(&updatable, value, sizeof updatable);
    if (stub.version < ROTA_CUDA_CONDITIONALS_NEEDED) return CUDA_ERROR_INVALID_VALUE;
    if (node->graph->is_body)
        stub_violate("a node of a body whose grid the device sets, which nobody promises");
    if (updatable.is_updatable != 1 || node->kind != NODE_KERNEL || node->device)
        return CUDA_ERROR_INVALID_VALUE;
    node->device = calloc(1, sizeof *node->device);
    if (!node->device) abort();
    node->device->references = 1;
    updatable.node = (uint64_t)(uintptr_t)node->device;
    memcpy(value, &updatable, sizeof updatable);
    return CUDA_SUCCESS;
}

stub_device_node *stub_updatable_copy(stub_device_node *device) {
    if (device && device->is_made) stub_violate("a graph made executable twice, whose grids the device sets");
    if (device) device->is_made = true;
    if (device) device->references++;
    return device;
}

void stub_updatable_free(stub_device_node *device) {
    if (device && --device->references == 0) free(device);
}

/* Called from kernels. */
void stub_set_groups(uint64_t address, uint32_t groups) {
    stub_device_node *device = (stub_device_node *)(uintptr_t)address;
    if (groups == 0) stub_violate("an empty grid set by the device");
    device->groups = groups;
    device->is_set = true;
}

uint64_t stub_updatable_threads(const struct CUgraphNode_st *node) {
    if (!node->device) return UINT64_MAX;
    if (!node->device->is_set) stub_violate("a grid that the device was to set, and did not in this launch");
    node->device->is_set = false;
    return (uint64_t)node->device->groups * node->threads;
}

/* ---- Running ---- */

static uint32_t value_of(const struct CUgraphNode_st *node) {
    if (!node->handle->is_set) stub_violate("a conditional node whose handle nothing has set");
    return node->handle->value;
}

void stub_run_conditional(CUgraphNode node) {
    uint32_t value = value_of(node);
    if (node->type == ROTA_CUDA_CONDITIONAL_IF) {
        if (value)
            stub_run_graph(node->bodies[0]);
        else if (node->body_count == 2)
            stub_run_graph(node->bodies[1]);
    } else if (node->type == ROTA_CUDA_CONDITIONAL_SWITCH) {
        if (value < node->body_count) stub_run_graph(node->bodies[value]);
    } else {
        for (; value && !stub.sticky && stub.running; value = value_of(node)) {
            stub_run_graph(node->bodies[0]);
            stub_run_others();
        }
    }
}
#endif
