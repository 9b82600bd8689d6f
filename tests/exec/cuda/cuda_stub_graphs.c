/* The CUDA stand-in's graphs, streams and events, and the thread that runs what is on them; see cuda_stub.h.
 */
#include "tests/exec/cuda/cuda_stub.h"

#ifdef ROTA_HAVE_CUDA
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "tests/exec/cuda/cuda_stub_internal.h"
#include "tests/kit/random.h"

/* ---- Graphs ---- */

CUgraphNode stub_node_new(CUgraph graph, node_kind kind, const CUgraphNode *before, size_t count) {
    CUgraphNode node = calloc(1, sizeof *node);
    uint32_t *indices = calloc(count + 1, sizeof *indices);
    CUgraphNode *nodes = realloc(graph->nodes, (graph->count + 1) * sizeof *nodes);
    if (!node || !indices || !nodes) abort();
    for (size_t i = 0; i < count; i++) {
        if (before[i]->graph != graph) stub_violate("an edge from another graph");
        indices[i] = before[i]->index;
        for (size_t j = 0; j < i; j++)
            if (indices[j] == indices[i]) stub_violate("the same edge twice");
    }
    *node = (struct CUgraphNode_st){.graph = graph,
                                    .kind = kind,
                                    .index = graph->count,
                                    .before = indices,
                                    .before_count = (uint32_t)count,
                                    .cluster = 1};
    graph->nodes = nodes;
    graph->nodes[graph->count++] = node;
    return node;
}

static void graph_free(CUgraph graph) {
    for (uint32_t i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->child) graph_free(graph->nodes[i]->child);
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++) graph_free(graph->nodes[i]->bodies[b]);
        free(graph->nodes[i]->bodies);
        stub_launch_free(&graph->nodes[i]->launch);
        stub_updatable_free(graph->nodes[i]->device);
        free(graph->nodes[i]->before);
        free(graph->nodes[i]);
    }
    stub_handles_free(graph);
    free(graph->nodes);
    free(graph);
}

static CUgraph graph_copy(CUgraph from) {
    CUgraph graph = calloc(1, sizeof *graph);
    if (!graph) abort();
    for (uint32_t i = 0; i < from->count; i++) {
        CUgraphNode old = from->nodes[i], node = stub_node_new(graph, old->kind, NULL, 0);
        uint32_t *before = realloc(node->before, (old->before_count + 1) * sizeof *before);
        if (!before) abort();
        node->before = before;
        memcpy(node->before, old->before, old->before_count * sizeof *node->before);
        node->before_count = old->before_count;
        node->cluster = old->cluster;
        node->copy = old->copy;
        node->launch = stub_launch_copy(&old->launch);
        if (old->child) node->child = graph_copy(old->child);
        node->handle = old->handle;
        node->type = old->type;
        node->device = stub_updatable_copy(old->device);
        node->threads = old->threads;
        node->bodies = calloc(old->body_count + 1, sizeof *node->bodies);
        if (!node->bodies) abort();
        for (uint32_t b = 0; b < old->body_count; b++) node->bodies[b] = graph_copy(old->bodies[b]);
        node->body_count = old->body_count;
    }
    stub_handles_copy(graph, from);
    graph->is_body = from->is_body;
    return graph;
}

CUresult CUDAAPI stub_GraphCreate(CUgraph *out, unsigned flags) {
    (void)flags;
    ENTER(GraphCreate);
    *out = stub_take(GRAPH, sizeof(struct CUgraph_st));
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphDestroy(CUgraph graph) {
    ENTER_END(GraphDestroy);
    if (graph->is_body) stub_violate("the body of a conditional node destroyed");
    stub_give(GRAPH);
    graph_free(graph);
    return stub_leave(result_);
}
CUresult CUDAAPI stub_GraphGetNodes(CUgraph graph, CUgraphNode *out, size_t *count) {
    ENTER(GraphGetNodes);
    for (size_t i = 0; out && i < *count && i < graph->count; i++) out[i] = graph->nodes[i];
    if (!out || *count > graph->count) *count = graph->count;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphNodeGetType(CUgraphNode node, CUgraphNodeType *out) {
    ENTER(GraphNodeGetType);
    static const CUgraphNodeType types[] = {[NODE_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
                                            [NODE_MEMCPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
                                            [NODE_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
                                            [NODE_CHILD] = CU_GRAPH_NODE_TYPE_GRAPH,
                                            [NODE_CONDITIONAL] = (CUgraphNodeType)ROTA_CUDA_NODE_CONDITIONAL};
    *out = types[node->kind];
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out) {
    ENTER(GraphKernelNodeGetParams);
    *out = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)(void *)(uintptr_t)node->launch.kernel,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = node->launch.params};
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
    ENTER(GraphKernelNodeCopyAttributes);
    to->cluster = from->cluster;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                         size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
    ENTER(GraphAddKernelNode);
    if (params->gridDimX == 0 || params->gridDimY == 0 || params->gridDimZ == 0)
        return stub_leave(CUDA_ERROR_INVALID_VALUE);
    *out = stub_node_new(graph, NODE_KERNEL, before, count);
    (*out)->launch = stub_launch_new((stub_kernel *)(void *)params->func, params->kernelParams);
    (*out)->threads = params->blockDimX * params->blockDimY * params->blockDimZ;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    ENTER(GraphKernelNodeSetParams);
    if (node->kind != NODE_KERNEL) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    stub_launch_free(&node->launch);
    node->launch = stub_launch_new((stub_kernel *)(void *)params->func, params->kernelParams);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID which,
                                                  const CUlaunchAttributeValue *value) {
    ENTER(GraphKernelNodeSetAttribute);
    if (which == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        node->cluster = value->clusterDim.x * value->clusterDim.y * value->clusterDim.z;
    /* What comes out is written where the value is, for all that it is said to be constant. */
    if ((int)which == ROTA_CUDA_ATTRIBUTE_UPDATABLE)
        return stub_leave(stub_updatable_make(node, (CUlaunchAttributeValue *)(uintptr_t)value));
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                         size_t count, const CUDA_MEMCPY3D *copy, CUcontext context) {
    (void)context;
    ENTER(GraphAddMemcpyNode);
    *out = stub_node_new(graph, NODE_MEMCPY, before, count);
    (*out)->copy = *copy;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                        size_t count) {
    ENTER(GraphAddEmptyNode);
    *out = stub_node_new(graph, NODE_EMPTY, before, count);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                             size_t count, CUgraph child) {
    ENTER(GraphAddChildGraphNode);
    if (stub_graph_decides(child)) return stub_leave(CUDA_ERROR_NOT_SUPPORTED);
    *out = stub_node_new(graph, NODE_CHILD, before, count);
    (*out)->child = graph_copy(child);
    return stub_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI stub_GraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           const rota_cuda_edge *edges, size_t count) {
    ENTER(GraphAddDependencies);
    for (size_t i = 0; i < count; i++) {
        CUgraphNode node = to[i];
        if (from[i]->graph != graph || node->graph != graph) stub_violate("an edge from another graph");
        if (graph->is_body) stub_violate("an early edge in the body of a conditional node");
        /* Who starts early waits for one kernel, and says that it does. */
        if (edges[i].type != ROTA_CUDA_EDGE_PROGRAMMATIC ||
            edges[i].from_port != ROTA_CUDA_PORT_PROGRAMMATIC || edges[i].to_port ||
            from[i]->kind != NODE_KERNEL || node->kind != NODE_KERNEL || !stub.starts_early ||
            node->before_count || from[i]->device || node->device)
            stub_violate("an early edge that is none between two kernels");
        node->before[node->before_count++] = from[i]->index; /* there is room for one */
        node->early_count++;
    }
    return stub_leave(CUDA_SUCCESS);
}

static bool graph_updates(CUgraph graph) {
    for (uint32_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->device) return true;
    return false;
}

static void describe_graph(CUgraph graph) {
    stub.last = (cuda_stub_graph){.nodes = graph->count};
    for (uint32_t i = 0; i < graph->count; i++) {
        CUgraphNode node = graph->nodes[i];
        stub.last.edges += node->before_count;
        stub.last.early_edges += node->early_count;
        stub.last.roots += node->before_count == 0;
        stub.last.kernels += node->kind == NODE_KERNEL;
        stub.last.memcpys += node->kind == NODE_MEMCPY;
        stub.last.children += node->kind == NODE_CHILD;
        stub.last.empties += node->kind == NODE_EMPTY;
        stub.last.conditionals += node->kind == NODE_CONDITIONAL;
        stub.last.updatables += node->device != NULL;
        if (node->cluster > stub.last.widest_cluster) stub.last.widest_cluster = node->cluster;
    }
}
CUresult CUDAAPI stub_GraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    (void)flags;
    ENTER(GraphInstantiateWithFlags);
    if (!stub_handles_have_nodes(graph)) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    describe_graph(graph);
    *out = stub_take(EXEC, sizeof(struct CUgraphExec_st));
    (*out)->graph = graph_copy(graph);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode of,
                                                   const CUDA_KERNEL_NODE_PARAMS *params) {
    ENTER(GraphExecKernelNodeSetParams);
    if (exec->in_flight) stub_violate("an executable graph rewritten in flight");
    if (of->graph->is_body) stub_violate("a node of a conditional node's body rewritten");
    CUgraphNode node = exec->graph->nodes[of->index];
    if (node->kind != NODE_KERNEL) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    stub_launch_free(&node->launch);
    node->launch = stub_launch_new((stub_kernel *)(void *)params->func, params->kernelParams);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphNodeSetEnabled(CUgraphExec exec, CUgraphNode of, unsigned enabled) {
    ENTER(GraphNodeSetEnabled);
    if (exec->in_flight) stub_violate("an executable graph rewritten in flight");
    exec->graph->nodes[of->index]->disabled = enabled == 0;
    return stub_leave(CUDA_SUCCESS);
}
static operation *push(CUstream stream, operation what) {
    operation *op = malloc(sizeof *op);
    if (!op) abort();
    /* A driver of the real GPU was seen to let a launch behind a wait run ahead of what the wait is for when
     * another thread's upload of a graph came in between, on the same stream. */
    if (stream->waits && !pthread_equal(stream->waiter, pthread_self()))
        stub_violate("something put on a stream between another thread's wait and what waits");
    stream->waits = what.kind == WAIT || what.kind == SEMAPHORE_WAIT || what.kind == WORD_WAIT;
    stream->waiter = pthread_self();
    stream->put++;
    *op = what;
    op->next = NULL;
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    return op;
}

/* Likewise, whether or not the threads met here. */
static void check_uses(const struct CUstream_st *stream) {
    if (stream->uploads && stream->works) stub_violate("graphs uploaded on a stream that works are put on");
}

CUresult CUDAAPI stub_GraphUpload(CUgraphExec exec, CUstream stream) {
    ENTER(GraphUpload);
    stub_check_stream(stream);
    if (stream->capturing) stub_violate("an upload on a stream that is captured");
    stream->uploads = true;
    check_uses(stream);
    exec->in_flight++;
    push(stream, (operation){.kind = UPLOAD, .exec = exec});
    exec->upload = stream->put;
    exec->uploaded_on = stream;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GraphExecDestroy(CUgraphExec exec) {
    ENTER_END(GraphExecDestroy);
    if (exec->in_flight && !stub.sticky && !stub.lost)
        stub_violate("an executable graph destroyed in flight");
    while (exec->runs) pthread_cond_wait(&stub.changed, &stub.lock); /* to its loop's iteration */
    stub_give(EXEC);
    graph_free(exec->graph);
    exec->graph = NULL;
    if (!exec->in_flight) free(exec);
    return stub_leave(result_);
}

/* ---- Streams and events ---- */

static void let_go(record *r) {
    if (r && --r->references == 0) free(r);
}

CUresult CUDAAPI stub_GraphLaunch(CUgraphExec exec, CUstream stream) {
    ENTER(GraphLaunch);
    stub_check_stream(stream);
    if (!exec->upload && graph_updates(exec->graph))
        stub_violate("a graph launched that was not uploaded, and of which the device sets grids");
    if (exec->upload && exec->uploaded_on->seen < exec->upload)
        stub_violate(
            "a graph launched before its upload was known to be there, behind which it is not ordered");
    stream->works = true;
    check_uses(stream);
    exec->in_flight++;
    push(stream, (operation){.kind = LAUNCH, .exec = exec});
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_LaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                   unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                                   void **extra) {
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    ENTER(LaunchKernel);
    stub_check_stream(stream);
    stub_launch launch = stub_launch_new((stub_kernel *)(void *)function, params);
    if (stream->capturing) {
        CUgraphNode before = stream->captured;
        stream->captured = stub_node_new(stream->capturing, NODE_KERNEL, &before, before != NULL);
        stream->captured->launch = launch;
        stream->captured->cluster = stub.captured_cluster ? stub.captured_cluster : 1;
    } else {
        push(stream, (operation){.kind = KERNEL, .launch = launch});
    }
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER(MemcpyAsync);
    stub_check_stream(stream);
    stub_check_reach(to);
    stub_check_reach(from);
    stream->works = true;
    check_uses(stream);
    push(stream, (operation){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    return stub_leave(CUDA_SUCCESS);
}
static CUresult make_stream(CUstream *out, unsigned flags) {
    if (flags != CU_STREAM_NON_BLOCKING) stub_violate("a stream that waits for the default stream");
    uint32_t i = 0;
    while (i < STREAMS_MAX && stub.streams[i]) i++;
    if (i == STREAMS_MAX) abort();
    *out = stub.streams[i] = stub_take(STREAM, sizeof(struct CUstream_st));
    (*out)->context = stub_current();
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_StreamCreate(CUstream *out, unsigned flags) {
    ENTER(StreamCreate);
    return make_stream(out, flags);
}
CUresult CUDAAPI stub_StreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
    ENTER(StreamCreateWithPriority);
    if (priority < STUB_PRIORITY || priority > 0) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    return make_stream(out, flags);
}
CUresult CUDAAPI stub_CtxGetStreamPriorityRange(int *out_least, int *out_greatest) {
    ENTER(CtxGetStreamPriorityRange);
    *out_least = 0;
    *out_greatest = STUB_PRIORITY;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_StreamDestroy(CUstream stream) {
    ENTER_END(StreamDestroy);
    if (stream->first && !stub_failed(stream->context)) stub_violate("a stream destroyed with work on it");
    while (stream->runs) pthread_cond_wait(&stub.changed, &stub.lock);
    for (uint32_t i = 0; i < STREAMS_MAX; i++)
        if (stub.streams[i] == stream) stub.streams[i] = NULL;
    while (stream->first) {
        operation *op = stream->first;
        stream->first = op->next;
        let_go(op->recorded);
        stub_launch_free(&op->launch);
        if (op->exec && --op->exec->in_flight == 0 && !op->exec->graph) free(op->exec);
        free(op);
    }
    stub_give(STREAM);
    free(stream);
    return stub_leave(result_);
}
CUresult CUDAAPI stub_StreamSynchronize(CUstream stream) {
    ENTER(StreamSynchronize);
    stub_check_stream(stream);
    if (stream->capturing) stub_violate("a wait for a stream that is captured");
    while (stream->first && !stub_failed(stream->context)) pthread_cond_wait(&stub.changed, &stub.lock);
    if (!stub_failed(stream->context)) stream->seen = stream->put;
    return stub_leave(stub_failed(stream->context));
}
CUresult CUDAAPI stub_StreamQuery(CUstream stream) {
    ENTER(StreamQuery);
    stub_check_stream(stream);
    if (stub_failed(stream->context)) return stub_leave(stub_failed(stream->context));
    if (!stream->first) stream->seen = stream->put;
    return stub_leave(stream->first ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}
CUresult CUDAAPI stub_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    (void)flags;
    ENTER(StreamWaitEvent);
    stub_check_stream(stream);
    stream->works = true;
    check_uses(stream);
    if (!event->last) stub_violate("a wait for an event that was never recorded");
    if (!event->last) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    event->last->references++;
    push(stream, (operation){.kind = WAIT, .recorded = event->last});
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_StreamGetCtx(CUstream stream, CUcontext *out) {
    ENTER(StreamGetCtx);
    stub_check_stream(stream);
    *out = stream->context;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_StreamIsCapturing(CUstream stream, CUstreamCaptureStatus *out) {
    ENTER(StreamIsCapturing);
    stub_check_stream(stream);
    *out = stream->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_StreamAddCallback(CUstream stream, CUstreamCallback fn, void *user, unsigned flags) {
    ENTER(StreamAddCallback);
    stub_check_stream(stream);
    if (stream->capturing || flags) stub_violate("a function on a stream that is captured, or with flags");
    stream->works = true;
    push(stream, (operation){.kind = CALL, .fn = fn, .user = user});
    return stub_leave(CUDA_SUCCESS);
}
void cuda_stub_hold(CUstream stream, bool (*is_over)(void *user), void *user) {
    pthread_mutex_lock(&stub.lock);
    stub_check_stream(stream);
    if (stream->capturing) stub_violate("another library's work on a stream that is captured");
    stream->works = true;
    push(stream, (operation){.kind = HELD, .is_over = is_over, .user = user});
    pthread_cond_broadcast(&stub.changed);
    pthread_mutex_unlock(&stub.lock);
}
CUresult CUDAAPI stub_StreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
    ENTER(StreamBeginCapture);
    stub_check_stream(stream);
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED || stream->capturing)
        stub_violate("a capture that is not relaxed or alone");
    stream->capturing = stub_take(GRAPH, sizeof(struct CUgraph_st));
    stream->captured = NULL;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_StreamEndCapture(CUstream stream, CUgraph *out) {
    ENTER_END(StreamEndCapture);
    CUgraph graph = stream->capturing;
    stream->capturing = NULL;
    if (result_ != CUDA_SUCCESS && graph) {
        stub_give(GRAPH);
        graph_free(graph);
        graph = NULL;
    }
    *out = graph;
    return stub_leave(result_);
}
CUresult CUDAAPI stub_EventCreate(CUevent *out, unsigned flags) {
    (void)flags;
    ENTER(EventCreate);
    *out = stub_take(EVENT, sizeof(struct CUevent_st));
    (*out)->context = stub_current();
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_EventDestroy(CUevent event) {
    ENTER_END(EventDestroy);
    let_go(event->last);
    stub_give(EVENT);
    free(event);
    return stub_leave(result_);
}
CUresult CUDAAPI stub_EventRecord(CUevent event, CUstream stream) {
    ENTER(EventRecord);
    stub_check_stream(stream);
    let_go(event->last);
    event->last = calloc(1, sizeof *event->last);
    if (!event->last) abort();
    event->last->references = 2;
    event->last->stream = stream;
    event->last->number = stream->put;
    push(stream, (operation){.kind = RECORD, .recorded = event->last});
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_EventQuery(CUevent event) {
    ENTER(EventQuery);
    if (stub_failed(event->context)) return stub_leave(stub_failed(event->context));
    for (uint32_t i = 0; i < STREAMS_MAX && event->last && event->last->done; i++)
        if (stub.streams[i] && stub.streams[i] == event->last->stream &&
            stub.streams[i]->seen < event->last->number)
            stub.streams[i]->seen = event->last->number;
    return stub_leave(!event->last || event->last->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

/* ---- Timelines of another driver ---- */

CUresult CUDAAPI stub_ImportExternalSemaphore(CUexternalSemaphore *out,
                                              const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *from) {
    ENTER(ImportExternalSemaphore);
    if (from->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD)
        return stub_leave(CUDA_ERROR_INVALID_VALUE);
    void *word = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, from->handle.fd, 0);
    if (word == MAP_FAILED) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    stub_semaphore *semaphore = stub_take(SEMAPHORE, sizeof *semaphore);
    *semaphore = (stub_semaphore){.fd = from->handle.fd, .word = word};
    *out = (CUexternalSemaphore)(void *)semaphore;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_WaitExternalSemaphoresAsync(const CUexternalSemaphore *semaphores,
                                                  const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
                                                  unsigned count, CUstream stream) {
    ENTER(WaitExternalSemaphoresAsync);
    stub_check_stream(stream);
    for (unsigned i = 0; i < count; i++) {
        stub_semaphore *semaphore = (stub_semaphore *)(void *)semaphores[i];
        semaphore->in_flight++;
        push(stream, (operation){.kind = SEMAPHORE_WAIT,
                                 .semaphore = semaphore,
                                 .value = params[i].params.fence.value});
    }
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_SignalExternalSemaphoresAsync(const CUexternalSemaphore *semaphores,
                                                    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
                                                    unsigned count, CUstream stream) {
    ENTER(SignalExternalSemaphoresAsync);
    stub_check_stream(stream);
    for (unsigned i = 0; i < count; i++) {
        stub_semaphore *semaphore = (stub_semaphore *)(void *)semaphores[i];
        semaphore->in_flight++;
        push(stream, (operation){.kind = SEMAPHORE_SIGNAL,
                                 .semaphore = semaphore,
                                 .value = params[i].params.fence.value});
    }
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_DestroyExternalSemaphore(CUexternalSemaphore external) {
    ENTER_END(DestroyExternalSemaphore);
    stub_semaphore *semaphore = (stub_semaphore *)(void *)external;
    if (semaphore->in_flight && !stub.sticky && !stub.lost) stub_violate("a timeline destroyed in flight");
    stub_give(SEMAPHORE);
    (void)munmap((void *)(uintptr_t)semaphore->word, 8);
    (void)close(semaphore->fd);
    free(semaphore);
    return stub_leave(result_);
}

/* ---- Words in memory ---- */

CUresult CUDAAPI stub_StreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                        unsigned flags) {
    ENTER(StreamWaitValue64);
    stub_check_stream(stream);
    if (flags != CU_STREAM_WAIT_VALUE_GEQ) stub_violate("a wait for a word with other flags");
    push(stream, (operation){.kind = WORD_WAIT, .from = address, .value = value});
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_StreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                         unsigned flags) {
    ENTER(StreamWriteValue64);
    stub_check_stream(stream);
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) stub_violate("a word written without a fence before it");
    push(stream, (operation){.kind = WORD_WRITE, .to = address, .value = value});
    return stub_leave(CUDA_SUCCESS);
}

/* ---- Running ---- */

static bool is_hung(CUgraph graph) {
    for (uint32_t i = 0; stub.hang && graph && i < graph->count; i++) {
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            if (is_hung(graph->nodes[i]->bodies[b])) return true;
        if ((graph->nodes[i]->kind == NODE_KERNEL &&
             strcmp(graph->nodes[i]->launch.kernel->entry, stub.hang) == 0) ||
            (graph->nodes[i]->child && is_hung(graph->nodes[i]->child)))
            return true;
    }
    return false;
}

static void run_kernel(const stub_launch *launch, uint64_t threads) {
    if (stub.fault && strcmp(launch->kernel->entry, stub.fault) == 0)
        stub.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!stub.sticky) stub_launch_run(launch, threads);
}

/* The nodes in random order, each after those that its edges name. */
void stub_run_graph(CUgraph graph) {
    uint32_t *left = calloc(graph->count + 1, sizeof *left), *ready = calloc(graph->count + 1, sizeof *ready);
    uint32_t ready_count = 0;
    if (!left || !ready) abort();
    for (uint32_t i = 0; i < graph->count; i++) {
        left[i] = graph->nodes[i]->before_count;
        if (left[i] == 0) ready[ready_count++] = i;
    }
    /* Who waits for whom, the other way round. */
    uint32_t *first = calloc(graph->count + 2, sizeof *first), edges = 0;
    if (!first) abort();
    for (uint32_t i = 0; i < graph->count; i++)
        for (uint32_t e = 0; e < graph->nodes[i]->before_count; e++)
            first[graph->nodes[i]->before[e] + 1]++, edges++;
    for (uint32_t i = 0; i < graph->count; i++) first[i + 1] += first[i];
    uint32_t *after = calloc(edges + 1, sizeof *after), *cursor = calloc(graph->count + 1, sizeof *cursor);
    if (!after || !cursor) abort();
    for (uint32_t i = 0; i < graph->count; i++)
        for (uint32_t e = 0; e < graph->nodes[i]->before_count; e++) {
            uint32_t before = graph->nodes[i]->before[e];
            after[first[before] + cursor[before]++] = i;
        }
    while (ready_count && !stub.sticky) {
        uint32_t pick = (uint32_t)(test_random(&stub.seed) % ready_count), index = ready[pick];
        ready[pick] = ready[--ready_count];
        CUgraphNode node = graph->nodes[index];
        if (node->kind == NODE_KERNEL && !node->disabled)
            run_kernel(&node->launch, stub_updatable_threads(node));
        if (node->kind == NODE_MEMCPY)
            memmove((void *)(uintptr_t)node->copy.dstDevice, (const void *)(uintptr_t)node->copy.srcDevice,
                    node->copy.WidthInBytes);
        if (node->kind == NODE_CHILD) stub_run_graph(node->child);
        if (node->kind == NODE_CONDITIONAL) stub_run_conditional(node);
        for (uint32_t e = first[index]; e < first[index + 1]; e++)
            if (--left[after[e]] == 0) ready[ready_count++] = after[e];
    }
    free(left);
    free(ready);
    free(first);
    free(after);
    free(cursor);
}

static bool hangs(const stub_launch *launch) {
    return stub.hang && strcmp(launch->kernel->entry, stub.hang) == 0;
}

static _Atomic uint64_t *word_at(CUdeviceptr address) {
    return (_Atomic uint64_t *)(uintptr_t)address;
}

static bool can_run(const struct CUstream_st *stream) {
    const operation *op = stream ? stream->first : NULL;
    if (!op || stream->runs || stub_failed(stream->context) || (op->kind == WAIT && !op->recorded->done))
        return false;
    if (op->kind == SEMAPHORE_WAIT && atomic_load(op->semaphore->word) < op->value) return false;
    if (op->kind == WORD_WAIT && (int64_t)(atomic_load(word_at(op->from)) - op->value) < 0) return false;
    if (op->kind == LAUNCH && is_hung(op->exec->graph)) return false;
    if (op->kind == KERNEL && hangs(&op->launch) && !stub.hang_after) return false;
    return op->kind != HELD || op->is_over(op->user);
}

/* Outside of the driver, which it must not enter. */
static void call(CUstream stream, operation *op) {
    const CUstreamCallback fn = op->fn;
    const CUresult result = stub_failed(stream->context);
    void *user = op->user; /* the stream may be gone with it meanwhile, where the context has failed */
    op->fn = NULL;
    stub_inside = false;
    stub_calls = true;
    (void)pthread_mutex_unlock(&stub.lock);
    fn(stream, result, user);
    (void)pthread_mutex_lock(&stub.lock);
    stub_calls = false;
    stub_inside = true;
}

/* Where the context has failed, functions are called all the same, one at a time. */
static bool call_failed(void) {
    for (uint32_t i = 0; (stub.sticky || stub.lost) && i < STREAMS_MAX; i++)
        for (operation *op = stub.streams[i] && stub_failed(stub.streams[i]->context) ? stub.streams[i]->first
                                                                                      : NULL;
             op; op = op->next)
            if (op->kind == CALL && op->fn) {
                call(stub.streams[i], op);
                return true;
            }
    return false;
}

static void run_launch(CUstream stream, CUgraphExec exec) {
    stream->runs = exec->runs = true;
    stub_handles_begin(exec->graph);
    stub_run_graph(exec->graph);
    stream->runs = exec->runs = false;
    pthread_cond_broadcast(&stub.changed);
}

static void run_first(CUstream stream) {
    operation *op = stream->first;
    if (op->kind == UPLOAD || op->kind == LAUNCH) {
        if (op->kind == LAUNCH) run_launch(stream, op->exec);
        if (--op->exec->in_flight == 0 && !op->exec->graph) free(op->exec);
    } else if (op->kind == KERNEL) {
        if (hangs(&op->launch)) stub.hang_after--;
        run_kernel(&op->launch, UINT64_MAX);
    } else if (op->kind == COPY) {
        memmove((void *)(uintptr_t)op->to, (const void *)(uintptr_t)op->from, op->bytes);
    } else if (op->kind == RECORD && !stub.sticky) {
        op->recorded->done = true;
    } else if (op->kind == SEMAPHORE_SIGNAL && !stub.sticky) {
        atomic_store(op->semaphore->word, op->value);
    } else if (op->kind == WORD_WRITE && !stub.sticky) {
        atomic_store(word_at(op->to), op->value);
    }
    if (op->kind == CALL && op->fn) call(stream, op);
    if (op->semaphore) op->semaphore->in_flight--;
    stream->first = op->next;
    if (!stream->first) stream->last = NULL;
    let_go(op->recorded);
    stub_launch_free(&op->launch);
    free(op);
}

void stub_run_others(void) {
    pthread_cond_broadcast(&stub.changed);
    pthread_mutex_unlock(&stub.lock);
    pthread_mutex_lock(&stub.lock);
    while (stub.paused && stub.running && !stub.sticky) pthread_cond_wait(&stub.changed, &stub.lock);
    for (uint32_t i = 0; i < STREAMS_MAX && !stub.sticky; i++) {
        const CUstream stream = stub.streams[i];
        if (!can_run(stream) || (stream->first->exec && (stream->first->exec->runs ||
                                                         stub_graph_decides(stream->first->exec->graph))))
            continue;
        run_first(stream);
        pthread_cond_broadcast(&stub.changed);
        return;
    }
}

static void wait_shortly(void) {
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    (void)pthread_cond_timedwait(&stub.changed, &stub.lock, &until);
}

/* Whether a stream is at what ends when others do something elsewhere. */
static bool has_held(void) {
    bool has = false;
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        const operation *first = stub.streams[i] ? stub.streams[i]->first : NULL;
        has = has || (first && (first->kind == HELD || first->kind == WORD_WAIT));
    }
    return has;
}

void *stub_run_main(void *unused) {
    (void)unused;
    stub_inside = true;
    pthread_mutex_lock(&stub.lock);
    while (stub.running) {
        uint32_t count = 0, able[STREAMS_MAX];
        for (uint32_t i = 0; i < STREAMS_MAX; i++)
            if (can_run(stub.streams[i])) able[count++] = i;
        if (!stub.paused && call_failed()) continue;
        if (count == 0 || stub.paused || stub.sticky) {
            if (stub.alive[SEMAPHORE] || has_held()) /* which others signal, or end */
                wait_shortly();
            else
                pthread_cond_wait(&stub.changed, &stub.lock);
            continue;
        }
        run_first(stub.streams[able[test_random(&stub.seed) % count]]);
        pthread_cond_broadcast(&stub.changed);
        /* Others get a word in between. */
        pthread_mutex_unlock(&stub.lock);
        pthread_mutex_lock(&stub.lock);
    }
    pthread_mutex_unlock(&stub.lock);
    return NULL;
}
#endif
