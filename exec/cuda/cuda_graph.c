/* Executable graphs of segments, built node by node with the addresses of an instance's memories. */
#include "exec/cuda/cuda_graph.h"
#include "base/clock.h"
#include "base/futex.h"
#include "exec/common/checks.h"
#include "exec/cuda/cuda_arguments.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_library.h"
#include "exec/cuda/cuda_names.h"
#include "exec/cuda/cuda_steady.h"
#include <stdlib.h>
#include <string.h>

#define UPLOAD_THREADS_MAX 1024u
#define UPLOAD_SPIN_NS 30000ull
#define UPLOAD_NAP_NS 20000ull
#define UPLOAD_TIMEOUT_NS (120ull * 1000000000ull)
#define UPLOAD_SETTLE_NS (5ull * 1000000000ull)

typedef rota_cuda_building building;

rota_status rota_cuda_building_kernel(building *b, CUfunction function, const rota_cuda_launch *launch,
                                      void **parameters, const CUgraphNode *before, size_t before_count,
                                      CUgraphNode *out_node) {
    const CUDA_KERNEL_NODE_PARAMS params = rota_cuda_node_params(function, launch, parameters);
    CUresult result = b->device->cu->GraphAddKernelNode(out_node, b->graph, before, before_count, &params);
    if (result != CUDA_SUCCESS) return rota_cuda_check(b->device, result, "cuGraphAddKernelNode");
    if (launch->cluster[0] * launch->cluster[1] * launch->cluster[2] <= 1) return ROTA_OK;
    CUlaunchAttributeValue cluster = {
        .clusterDim = {.x = launch->cluster[0], .y = launch->cluster[1], .z = launch->cluster[2]}};
    result = b->device->cu->GraphKernelNodeSetAttribute(*out_node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                                        &cluster);
    return rota_cuda_check(b->device, result, "cuGraphKernelNodeSetAttribute");
}

/* The node may be launched while the kernel before it runs, and waits itself until that is complete and what it
 * wrote is visible. */
static rota_status add_early_edge(building *b, CUgraphNode before, CUgraphNode node) {
    const rota_cuda_edge edge = {.from_port = ROTA_CUDA_PORT_PROGRAMMATIC,
                                 .type = ROTA_CUDA_EDGE_PROGRAMMATIC};
    return rota_cuda_check(b->device, b->device->cu->GraphAddDependencies(b->graph, &before, &node, &edge, 1),
                           "cuGraphAddDependencies");
}

/* Whether the command's kernel comes after one other kernel and nothing else. That edge alone may be such: of
 * whatever is behind this node both are complete when it is, since none of its threads ends before the other
 * kernel has (rota_kernel_early.cuh). */
static bool starts_early(const building *b, uint32_t position) {
    const rota_cuda_dispatch *dispatches = b->program->dispatches + b->segment->first_command;
    const uint32_t first = b->fold.first[position];
    if (!dispatches[position].starts_early || b->is_body || b->instance->timestamps ||
        b->fold.first[position + 1] - first != 1)
        return false;
    const rota_cuda_dispatch *before = &dispatches[b->fold.before[first]];
    if (!b->nodes[b->fold.before[first]]) return false; /* complete: in an earlier graph of a script */
    return before->form == ROTA_CUDA_KERNEL && !(before->count && before->count->items_per_group);
}

static uint64_t address_of(const building *b, const rota_exec_operand *operand) {
    return b->memories[operand->memory]->address + operand->offset_bytes;
}

static rota_status prepare(building *b, const rota_exec_command *command, const rota_cuda_dispatch *dispatch,
                           const rota_cuda_arguments *arguments) {
    const rota_exec_operand *operands = b->desc->operands + command->first_operand;
    uint64_t operand_bytes[ROTA_CUDA_OPERANDS_MAX];
    const uint32_t operand_count = (uint32_t)command->operand_count - command->is_counted;
    for (uint32_t i = 0; i < operand_count; i++) operand_bytes[i] = operands[i].size_bytes;
    memset(b->prepared, 0, ROTA_CUDA_PREPARED_MAX);
    rota_cuda_call call = {
        .target = rota_cuda_target_of(b->device, b->desc),
        .stream = b->device->own.stream,
        .operands = arguments->words,
        .operand_bytes = operand_bytes,
        .operand_count = operand_count,
        .params = command->u.kernel.params,
        .user = dispatch->kernel->user,
    };
    return dispatch->kernel->cuda.prepare(&call, b->prepared);
}

static rota_status add_command_kernel(building *b, uint32_t position, size_t before_count,
                                      CUgraphNode *out_node) {
    const uint32_t index = b->segment->first_command + position;
    const rota_cuda_dispatch *dispatch = &b->program->dispatches[index];
    rota_cuda_arguments arguments;
    rota_cuda_arguments_fill(b->program, index, b->memories, b->block_address, NULL, &arguments);
    void *parameters[2] = {&arguments, b->prepared};
    if (dispatch->kernel->cuda.prepare) ROTA_TRY(prepare(b, &b->desc->commands[index], dispatch, &arguments));
    CUgraphNode step = NULL;
    if (dispatch->count) {
        ROTA_TRY(rota_cuda_bodies_count(b, index, b->before, before_count, &step));
        b->before[0] = step;
        before_count = 1;
    }
    const bool early = !dispatch->count && starts_early(b, position);
    ROTA_TRY(rota_cuda_building_kernel(b, dispatch->function, &dispatch->launch, parameters, b->before,
                                       early ? 0 : before_count, out_node));
    if (early) ROTA_TRY(add_early_edge(b, b->before[0], *out_node));
    if (step) ROTA_TRY(rota_cuda_bodies_set_grid(b, index, step, *out_node));
    if (b->steady && (dispatch->slot_mask | dispatch->bind_mask)) b->steady->kernels[position] = *out_node;
    return ROTA_OK;
}

static rota_status add_memcpy(building *b, const rota_exec_command *command, size_t before_count,
                              CUgraphNode *out_node) {
    const rota_exec_operand *operands = b->desc->operands + command->first_operand;
    CUDA_MEMCPY3D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = address_of(b, &operands[1]),
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = address_of(b, &operands[0]),
        .WidthInBytes = operands[0].size_bytes,
        .Height = 1,
        .Depth = 1,
    };
    return rota_cuda_check(b->device,
                           b->device->cu->GraphAddMemcpyNode(out_node, b->graph, b->before, before_count,
                                                             &copy, b->device->context),
                           "cuGraphAddMemcpyNode");
}

rota_status rota_cuda_building_empty(building *b, const CUgraphNode *before, size_t before_count,
                                     CUgraphNode *out_node) {
    return rota_cuda_check(b->device,
                           b->device->cu->GraphAddEmptyNode(out_node, b->graph, before, before_count),
                           "cuGraphAddEmptyNode");
}

/* The captured graph's only node where that is a kernel; else NULL. */
static rota_status only_kernel(building *b, CUgraph captured, size_t count, CUgraphNode *out_node) {
    const rota_cuda_api *cu = b->device->cu;
    CUgraphNode node = NULL;
    CUgraphNodeType type;
    *out_node = NULL;
    if (count != 1) return ROTA_OK;
    ROTA_TRY(rota_cuda_check(b->device, cu->GraphGetNodes(captured, &node, &count), "cuGraphGetNodes"));
    ROTA_TRY(rota_cuda_check(b->device, cu->GraphNodeGetType(node, &type), "cuGraphNodeGetType"));
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) *out_node = node;
    return ROTA_OK;
}

/* A kernel node like one of another graph: function, parameters, and what launches it beside them (clusters,
 * shared memory's share, programmatic launches). */
static rota_status add_kernel_like(building *b, CUgraphNode like, size_t before_count,
                                   CUgraphNode *out_node) {
    const rota_cuda_api *cu = b->device->cu;
    CUDA_KERNEL_NODE_PARAMS params;
    ROTA_TRY(rota_cuda_check(b->device, cu->GraphKernelNodeGetParams(like, &params),
                             "cuGraphKernelNodeGetParams"));
    ROTA_TRY(rota_cuda_check(b->device,
                             cu->GraphAddKernelNode(out_node, b->graph, b->before, before_count, &params),
                             "cuGraphAddKernelNode"));
    return rota_cuda_check(b->device, cu->GraphKernelNodeCopyAttributes(*out_node, like),
                           "cuGraphKernelNodeCopyAttributes");
}

/* A library node: what it put on a stream. One kernel, as of most products, becomes a kernel node; more
 * become a child graph (which is copied). */
static rota_status add_captured(building *b, CUgraph captured, size_t before_count, CUgraphNode *out_node) {
    const rota_cuda_api *cu = b->device->cu;
    size_t count = 0;
    CUgraphNode kernel;
    ROTA_TRY(rota_cuda_check(b->device, cu->GraphGetNodes(captured, NULL, &count), "cuGraphGetNodes"));
    if (count == 0) return rota_cuda_building_empty(b, b->before, before_count, out_node);
    ROTA_TRY(only_kernel(b, captured, count, &kernel));
    if (kernel) return add_kernel_like(b, kernel, before_count, out_node);
    return rota_cuda_check(b->device,
                           cu->GraphAddChildGraphNode(out_node, b->graph, b->before, before_count, captured),
                           "cuGraphAddChildGraphNode");
}

static rota_status add_library(building *b, uint32_t command, size_t before_count, CUgraphNode *out_node) {
    CUgraph child = NULL;
    ROTA_TRY(rota_cuda_library_capture(b->device, b->program, command, b->memories, b->block, &child));
    rota_status status = add_captured(b, child, before_count, out_node);
    rota_status destroyed = rota_cuda_check(b->device, b->device->cu->GraphDestroy(child), "cuGraphDestroy");
    return status == ROTA_OK ? destroyed : status;
}

static rota_status add_timestamp(building *b, uint32_t command, bool end, const CUgraphNode *before,
                                 size_t before_count, CUgraphNode *out_node) {
    rota_cuda_launch one = {.groups = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {1, 1, 1}};
    uint64_t address = b->instance->timestamps_address + (2 * (uint64_t)command + end) * 8;
    void *parameters[] = {&address};
    return rota_cuda_building_kernel(b, b->device->helpers.timestamp, &one, parameters, before, before_count,
                                     out_node);
}

static rota_status add_command(building *b, uint32_t position) {
    uint32_t index = b->segment->first_command + position;
    const rota_exec_command *command = &b->desc->commands[index];
    const rota_cuda_dispatch *dispatch = &b->program->dispatches[index];
    size_t count = 0;
    for (uint32_t e = b->fold.first[position]; e < b->fold.first[position + 1]; e++)
        if (b->nodes[b->fold.before[e]]) b->before[count++] = b->nodes[b->fold.before[e]];
    if (count == 0 && b->head) b->before[count++] = b->head;
    const bool is_timed = b->instance->timestamps && !b->is_body;
    if (is_timed) {
        CUgraphNode begin = NULL;
        ROTA_TRY(add_timestamp(b, index, false, b->before, count, &begin));
        b->before[0] = begin;
        count = 1;
    }
    CUgraphNode node = NULL;
    rota_status status = ROTA_OK;
    switch ((rota_cuda_form)dispatch->form) {
    case ROTA_CUDA_NOTHING:
        status = dispatch->count ? rota_cuda_bodies_count(b, index, b->before, count, &node)
                                 : rota_cuda_building_empty(b, b->before, count, &node);
        break;
    case ROTA_CUDA_KERNEL:
        status = add_command_kernel(b, position, count, &node);
        break;
    case ROTA_CUDA_MEMCPY:
        status = add_memcpy(b, command, count, &node);
        break;
    case ROTA_CUDA_LIBRARY:
        status = add_library(b, index, count, &node);
        break;
    case ROTA_CUDA_DECISION:
        status = rota_cuda_bodies_add(b, index, b->before, count, &node);
        break;
    }
    if (status != ROTA_OK) return rota_fail_at_node(status, &b->device->host, b->desc, index);
    if (is_timed) {
        const CUgraphNode last = node;
        ROTA_TRY(add_timestamp(b, index, true, &last, last != NULL, &node));
    }
    b->nodes[position] = node;
    return ROTA_OK;
}

/* The first nodes: the timestamps of an earlier launch cleared, and the argument block brought to the device. */
static rota_status add_head(building *b, const rota_cuda_segment *about) {
    if (b->instance->timestamps) {
        rota_cuda_arguments arguments = {0};
        uint64_t bytes = 16 * (uint64_t)b->segment->command_count;
        rota_cuda_launch few = {.groups = {1, 1, 1}, .block = {256, 1, 1}, .cluster = {1, 1, 1}};
        arguments.words[0] = b->instance->timestamps_address + 16 * (uint64_t)b->segment->first_command;
        memcpy(&arguments.words[1], &(rota_cuda_fill_params){.size_bytes = bytes},
               sizeof(rota_cuda_fill_params));
        void *parameters[] = {&arguments};
        ROTA_TRY(rota_cuda_building_kernel(b, b->device->helpers.fill, &few, parameters, NULL, 0, &b->head));
    }
    if (!about->uses_block) return ROTA_OK;
    uint64_t to = b->block_address, from = b->instance->host_block.address;
    uint32_t words = b->desc->block_words;
    rota_cuda_launch one = {.groups = {1, 1, 1}, .block = {words, 1, 1}, .cluster = {1, 1, 1}};
    if (words > UPLOAD_THREADS_MAX) one.block[0] = UPLOAD_THREADS_MAX;
    void *parameters[] = {&to, &from, &words};
    CUgraphNode before = b->head;
    ROTA_TRY(rota_cuda_building_kernel(b, b->device->helpers.upload, &one, parameters,
                                       before ? &before : NULL, before != NULL, &b->head));
    if (b->steady) b->steady->upload = b->head;
    return ROTA_OK;
}

/* Looks until the event has come, for a moment without sleeping: an upload takes about 10 us. */
static rota_status wait_for(rota_cuda_device *device, CUevent event) {
    const uint64_t begin = rota_clock_ns();
    for (;;) {
        CUresult result = device->cu->EventQuery(event);
        if (result != CUDA_ERROR_NOT_READY) return rota_cuda_check(device, result, "cuGraphUpload");
        const uint64_t now = rota_clock_ns();
        if (ra_load_acquire(&device->lost)) /* pairs with rota_cuda_lose */
            return rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
        if (now - begin > UPLOAD_TIMEOUT_NS)
            return rota_fail(ROTA_TIMEOUT, "%s: a graph's upload did not end within two minutes",
                             device->base.info.id);
        if (now - begin > UPLOAD_SPIN_NS)
            rota_nap_until(now + UPLOAD_NAP_NS);
        else
            ra_pause();
    }
}

/* Brings a graph to the device, and returns when it is there. On a stream of its own: a launch on another
 * stream is not ordered behind an upload (with several processes on the GPU it ran ahead of one, and a graph
 * of five branches stood still for ever), hence the wait; and on the stream of a queue an upload takes the
 * place of the launch that the submit thread is about to put behind a wait: the launch then ran ahead of what
 * the wait was for (both H200, driver 580). */
static rota_status upload(rota_cuda_device *device, CUgraphExec exec) {
    const rota_cuda_api *cu = device->cu;
    CUevent event;
    ROTA_TRY(rota_cuda_check(device, cu->EventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    pthread_mutex_lock(&device->upload.lock);
    CUresult result = cu->GraphUpload(exec, device->upload.stream);
    bool uploads = result == CUDA_SUCCESS;
    if (uploads) result = cu->EventRecord(event, device->upload.stream);
    pthread_mutex_unlock(&device->upload.lock);
    rota_status status = rota_cuda_check(device, result, "cuGraphUpload");
    if (status == ROTA_OK) status = wait_for(device, event);
    /* The caller destroys the graph. */
    if (uploads && status != ROTA_OK && status != ROTA_TIMEOUT && !ra_load_acquire(&device->noisy))
        (void)rota_cuda_settle(device, device->upload.stream, UPLOAD_SETTLE_NS);
    (void)cu->EventDestroy(event);
    return status;
}

static rota_status instantiate(building *b, CUgraphExec *out_exec) {
    const rota_cuda_api *cu = b->device->cu;
    CUgraphExec exec = NULL;
    const CUresult result = cu->GraphInstantiateWithFlags(&exec, b->graph, 0);
    ROTA_TRY(b->roots && b->roots->decides && !b->script
                 ? rota_cuda_bodies_check(b->device, result, "cuGraphInstantiateWithFlags")
                 : rota_cuda_check(b->device, result, "cuGraphInstantiateWithFlags"));
    /* What the first launch would allocate on the device is allocated now, where running out of memory is no
     * disaster; a variant's first launch follows at once. */
    rota_status status = b->block ? ROTA_OK : upload(b->device, exec);
    if (status != ROTA_OK) {
        (void)cu->GraphExecDestroy(exec);
        return status;
    }
    *out_exec = exec;
    return ROTA_OK;
}

rota_status rota_cuda_building_commands(building *b) {
    ROTA_TRY(rota_cuda_fold_create(b->desc, b->segment, ROTA_CUDA_LANES, &b->fold));
    b->nodes = calloc(b->fold.count + 1, sizeof(CUgraphNode));
    b->before = calloc(b->fold.most + 1, sizeof(CUgraphNode));
    if (!b->nodes || !b->before)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a graph of %u commands", b->fold.count);
    for (uint32_t i = 0; i < b->fold.count; i++) {
        rota_cuda_range_node(b->device, b->desc, &b->desc->commands[b->segment->first_command + i]);
        const rota_status status = add_command(b, i);
        rota_cuda_range_end(b->device->names);
        if (status != ROTA_OK) return status;
    }
    return ROTA_OK;
}

rota_status rota_cuda_building_cut(building *b) {
    const rota_cuda_api *cu = b->device->cu;
    rota_cuda_line line = {.kind = ROTA_CUDA_LINE_LAUNCH};
    size_t count = 0;
    ROTA_TRY(rota_cuda_check(b->device, cu->GraphGetNodes(b->graph, NULL, &count), "cuGraphGetNodes"));
    if (count == 0) return ROTA_OK;
    ROTA_TRY(instantiate(b, &line.exec));
    const rota_status status = rota_cuda_script_add(b->script, &line);
    if (status != ROTA_OK) {
        (void)cu->GraphExecDestroy(line.exec);
        return status;
    }
    const CUgraph graph = b->graph;
    b->graph = NULL;
    ROTA_TRY(rota_cuda_check(b->device, cu->GraphDestroy(graph), "cuGraphDestroy"));
    ROTA_TRY(rota_cuda_check(b->device, cu->GraphCreate(&b->graph, 0), "cuGraphCreate"));
    b->head = NULL;
    if (b->nodes) memset(b->nodes, 0, b->fold.count * sizeof *b->nodes);
    return ROTA_OK;
}

void rota_cuda_building_free(building *b) {
    rota_cuda_fold_free(&b->fold);
    free(b->nodes);
    free(b->before);
}

static rota_status build(building *b, uint32_t segment, CUgraphExec *out_exec) {
    b->prepared = malloc(ROTA_CUDA_PREPARED_MAX);
    if (!b->prepared)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a graph of %u commands",
                         b->segment->command_count);
    ROTA_TRY(rota_cuda_check(b->device, b->device->cu->GraphCreate(&b->graph, 0), "cuGraphCreate"));
    ROTA_TRY(add_head(b, &b->program->segments[segment]));
    ROTA_TRY(rota_cuda_building_commands(b));
    return b->script ? rota_cuda_building_cut(b) : instantiate(b, out_exec);
}

/* As build; ends with b. */
static rota_status build_and_end(building *b, uint32_t segment, CUgraphExec *out_exec) {
    rota_status status = build(b, segment, out_exec);
    if (b->graph && b->steady) {
        b->steady->graph = b->graph;
    } else if (b->graph) {
        CUresult result = b->device->cu->GraphDestroy(b->graph);
        if (status == ROTA_OK && result != CUDA_SUCCESS) {
            if (*out_exec) (void)b->device->cu->GraphExecDestroy(*out_exec);
            *out_exec = NULL;
            status = rota_cuda_check(b->device, result, "cuGraphDestroy");
        }
    }
    rota_cuda_building_free(b);
    free(b->prepared);
    return status;
}

rota_status rota_cuda_graph_build(rota_cuda_device *device, rota_cuda_instance *instance,
                                  rota_exec_memory *const *memories, uint32_t segment, const uint64_t *block,
                                  CUgraphExec *out_exec, rota_cuda_script **out_script) {
    if (rota_cuda_segment_is_scripted(device, instance->program, segment)) /* freed with its instance */
        ROTA_TRY(rota_cuda_script_create(device, instance->program, segment, &instance->segments[segment],
                                         out_script));
    const building fresh = {
        .device = device,
        .program = instance->program,
        .desc = instance->program->desc,
        .instance = instance,
        .memories = memories,
        .block = block,
        .segment = &instance->program->desc->segments[segment],
        .block_address = instance->segments[segment].block_address,
        .steady = instance->segments[segment].steady,
        .roots = instance->program->segments[segment].roots,
        .loops = instance->segments[segment].loops,
        .script = *out_script,
    };
    building b = fresh;
    const rota_status status = build_and_end(&b, segment, out_exec);
    /* A driver may take such nodes, and no graph with them. */
    if (!b.sets_grids || (status != ROTA_SYSTEM && status != ROTA_UNSUPPORTED)) return status;
    b = fresh;
    b.keeps_grids = true;
    return build_and_end(&b, segment, out_exec);
}
