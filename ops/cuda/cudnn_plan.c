/* Describing graphs to cuDNN, and their plans. */
#include "ops/cuda/cudnn_plan.h"

#if __has_include(<cudnn.h>)

#include <pthread.h>
#include <string.h>
#include "ops/cuda/handles.h"
#include "ops/cuda/libraries.h"

#define FUNCTIONS(X)                                                                                         \
    X(Create)                                                                                                \
    X(SetStream)                                                                                             \
    X(GetVersion)                                                                                            \
    X(GetErrorString)                                                                                        \
    X(GetLastErrorString)                                                                                    \
    X(BackendCreateDescriptor)                                                                               \
    X(BackendDestroyDescriptor)                                                                              \
    X(BackendFinalize)                                                                                       \
    X(BackendSetAttribute)                                                                                   \
    X(BackendGetAttribute)                                                                                   \
    X(BackendExecute)

static struct {
#define FIELD(name) __typeof__(&cudnn##name) name;
    FUNCTIONS(FIELD)
#undef FIELD
} dnn;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static bool present;

static void load(void) {
#define LOAD(name)                                                                                           \
    if (!rota_cuda_library_find(ROTA_CUDA_LIBRARY_CUDNN, "cudnn" #name, &dnn.name, sizeof dnn.name)) return;
    FUNCTIONS(LOAD)
#undef LOAD
    present = true;
}

bool rota_cudnn_present(void) {
    pthread_once(&load_once, load);
    return present;
}

uint64_t rota_cudnn_version(void) {
    return rota_cudnn_present() ? dnn.GetVersion() : 0;
}

static rota_status check(cudnnStatus_t result, const char *what) {
    if (result == CUDNN_STATUS_SUCCESS) return ROTA_OK;
    char why[512] = "";
    dnn.GetLastErrorString(why, sizeof why);
    rota_status status = ROTA_INTERNAL;
    if (result == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
        result == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
        status = ROTA_OUT_OF_MEMORY;
    /* A graph that it can't compute, and one that it takes for wrong. */
    if ((int)result / 1000 == 2 || (int)result / 1000 == 3) status = ROTA_UNSUPPORTED;
    return rota_fail(status, "%s: %s (%d)%s%s", what, dnn.GetErrorString(result), (int)result,
                     why[0] ? ": " : "", why);
}

/* ---- Handles ---- */

static rota_cuda_handles_shared handles = ROTA_CUDA_HANDLES_INIT;

static rota_status make_handle(void **out_handle) {
    cudnnHandle_t handle;
    ROTA_TRY(check(dnn.Create(&handle), "cudnnCreate"));
    *out_handle = handle;
    return ROTA_OK;
}

rota_status rota_cudnn_handle(cudnnHandle_t *out_handle) {
    void *handle;
    if (!rota_cudnn_present()) return rota_fail(ROTA_UNSUPPORTED, "cuDNN is not there");
    ROTA_TRY(rota_cuda_handle_get(&handles, make_handle, "cuDNN", &handle));
    *out_handle = handle;
    return ROTA_OK;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void rota_cudnn_lock(void) {
    pthread_mutex_lock(&lock);
}

void rota_cudnn_unlock(void) {
    pthread_mutex_unlock(&lock);
}

/* ---- Describing ---- */

static void set(rota_cudnn_graph *graph, cudnnBackendDescriptor_t descriptor,
                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void *values, const char *what) {
    if (graph->status != ROTA_OK) return;
    graph->status = check(dnn.BackendSetAttribute(descriptor, name, type, count, values), what);
}

static void finalize(rota_cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, const char *what) {
    if (graph->status == ROTA_OK) graph->status = check(dnn.BackendFinalize(descriptor), what);
}

/* One that the graph keeps; NULL after a failure. */
static cudnnBackendDescriptor_t create(rota_cudnn_graph *graph, cudnnBackendDescriptorType_t type,
                                       const char *what) {
    cudnnBackendDescriptor_t descriptor = NULL;
    if (graph->status != ROTA_OK) return NULL;
    if (graph->descriptor_count == ROTA_CUDNN_DESCRIPTORS_MAX)
        graph->status = rota_fail(ROTA_INTERNAL, "a graph of cuDNN has more than %d descriptors",
                                  ROTA_CUDNN_DESCRIPTORS_MAX);
    else
        graph->status = check(dnn.BackendCreateDescriptor(type, &descriptor), what);
    if (graph->status == ROTA_OK) graph->descriptors[graph->descriptor_count++] = descriptor;
    return descriptor;
}

static void set_descriptor(rota_cudnn_graph *graph, cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value,
                           const char *what) {
    if (value) set(graph, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, what);
}

/* What cuDNN may count on: rota asks of tensors in memory that they lie at multiples of it. */
#define ALIGNMENT INT64_C(16)
/* Ids from here on are virtual tensors', which nobody asks for. */
#define VIRTUAL_IDS INT64_C(1000)

cudnnBackendDescriptor_t rota_cudnn_tensor(rota_cudnn_graph *graph, rota_cudnn_storage storage, int64_t id,
                                           cudnnDataType_t type, const int64_t shape[4],
                                           const int64_t stride[4]) {
    static const char what[] = "a tensor of cuDNN";
    const bool yes = true;
    const int64_t alignment = ALIGNMENT;
    if (storage == ROTA_CUDNN_VIRTUAL) id = VIRTUAL_IDS + graph->virtual_count++;
    cudnnBackendDescriptor_t tensor = create(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
    set(graph, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, what);
    set(graph, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape, what);
    set(graph, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride, what);
    set(graph, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, what);
    set(graph, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, what);
    if (storage == ROTA_CUDNN_VIRTUAL)
        set(graph, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes, what);
    if (storage == ROTA_CUDNN_BY_VALUE)
        set(graph, tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes, what);
    finalize(graph, tensor, what);
    return tensor;
}

static void operation_done(rota_cudnn_graph *graph, cudnnBackendDescriptor_t operation, const char *what) {
    finalize(graph, operation, what);
    if (graph->status != ROTA_OK) return;
    if (graph->operation_count == ROTA_CUDNN_OPERATIONS_MAX)
        graph->status = rota_fail(ROTA_INTERNAL, "a graph of cuDNN has more than %d operations",
                                  ROTA_CUDNN_OPERATIONS_MAX);
    else
        graph->operations[graph->operation_count++] = operation;
}

void rota_cudnn_pointwise(rota_cudnn_graph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t math,
                          int64_t axis, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                          cudnnBackendDescriptor_t t, cudnnBackendDescriptor_t y) {
    static const char what[] = "a pointwise operation of cuDNN";
    cudnnBackendDescriptor_t kind = create(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
    set(graph, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, what);
    set(graph, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math, what);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        set(graph, kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis, what);
    finalize(graph, kind, what);
    cudnnBackendDescriptor_t operation = create(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, what);
    operation_done(graph, operation, what);
}

void rota_cudnn_matmul(rota_cudnn_graph *graph, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                       cudnnBackendDescriptor_t c) {
    static const char what[] = "a product of cuDNN";
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t kind = create(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
    set(graph, kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math, what);
    finalize(graph, kind, what);
    cudnnBackendDescriptor_t operation = create(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind, what);
    operation_done(graph, operation, what);
}

void rota_cudnn_reduction(rota_cudnn_graph *graph, cudnnReduceTensorOp_t op, cudnnBackendDescriptor_t x,
                          cudnnBackendDescriptor_t y) {
    static const char what[] = "a reduction of cuDNN";
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t kind = create(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
    set(graph, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math, what);
    set(graph, kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op, what);
    finalize(graph, kind, what);
    cudnnBackendDescriptor_t operation = create(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y, what);
    operation_done(graph, operation, what);
}

void rota_cudnn_reshape(rota_cudnn_graph *graph, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y) {
    static const char what[] = "a reshape of cuDNN";
    cudnnBackendDescriptor_t operation = create(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x, what);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y, what);
    operation_done(graph, operation, what);
}

/* A convolution's operation: what computes each of its tensors names them, and its numbers, differently. */
typedef struct convolution_form {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
} convolution_form;

void rota_cudnn_convolution(rota_cudnn_graph *graph, rota_cudnn_product product,
                            const rota_cudnn_window *window, cudnnBackendDescriptor_t x,
                            cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y) {
    static const char what[] = "a convolution of cuDNN";
    static const convolution_form forms[] = {
        [ROTA_CUDNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        [ROTA_CUDNN_INPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        [ROTA_CUDNN_WEIGHT] = {
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
    const convolution_form *form = &forms[product];
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t axes = 2;
    const float one = 1.0f, zero = 0.0f;
    cudnnBackendDescriptor_t kind = create(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, what);
    set(graph, kind, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math, what);
    set(graph, kind, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode, what);
    set(graph, kind, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes, what);
    set(graph, kind, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, window->stride, what);
    set(graph, kind, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, window->dilation, what);
    set(graph, kind, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, window->padding, what);
    set(graph, kind, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, window->padding, what);
    finalize(graph, kind, what);
    cudnnBackendDescriptor_t operation = create(graph, form->type, what);
    set_descriptor(graph, operation, form->window, kind, what);
    set_descriptor(graph, operation, form->x, x, what);
    set_descriptor(graph, operation, form->w, w, what);
    set_descriptor(graph, operation, form->y, y, what);
    set(graph, operation, form->alpha, CUDNN_TYPE_FLOAT, 1, &one, what);
    set(graph, operation, form->beta, CUDNN_TYPE_FLOAT, 1, &zero, what);
    operation_done(graph, operation, what);
}

/* ---- Plans ---- */

#define ENGINES_MAX 32

/* The engine's number, and whether it has none of the notes that are refused. */
static bool is_wanted(rota_cudnn_graph *graph, cudnnBackendDescriptor_t configuration, uint32_t refused_notes,
                      int64_t *out_engine) {
    static const char what[] = "an engine of cuDNN";
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t engine;
    int64_t count = 0;
    graph->status = check(dnn.BackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), what);
    if (graph->status != ROTA_OK) return false;
    graph->status = check(dnn.BackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine),
                          what);
    if (graph->status == ROTA_OK)
        graph->status = check(dnn.BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                                      CUDNN_TYPE_INT64, 1, &count, out_engine),
                              what);
    if (graph->status == ROTA_OK)
        graph->status =
            check(dnn.BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes),
                  what);
    bool wanted = graph->status == ROTA_OK;
    for (int64_t i = 0; wanted && i < count; i++) wanted = !(refused_notes >> (uint32_t)notes[i] & 1u);
    (void)dnn.BackendDestroyDescriptor(engine);
    return wanted;
}

static void make_execution(rota_cudnn_graph *graph, cudnnHandle_t handle,
                           cudnnBackendDescriptor_t configuration, rota_cudnn_way *out_way) {
    static const char what[] = "a plan of cuDNN";
    int64_t bytes = 0;
    cudnnBackendDescriptor_t execution = create(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what);
    set(graph, execution, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, what);
    set_descriptor(graph, execution, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration, what);
    finalize(graph, execution, what);
    if (graph->status == ROTA_OK)
        graph->status = check(dnn.BackendGetAttribute(execution, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                      CUDNN_TYPE_INT64, 1, NULL, &bytes),
                              "the workspace of a plan of cuDNN");
    out_way->execution = execution;
    out_way->workspace_bytes = (uint64_t)bytes;
}

/* Configurations of engines, best guess first. */
static int64_t ask_heuristics(rota_cudnn_graph *graph, cudnnBackendDescriptor_t operations,
                              cudnnBackendHeurMode_t mode,
                              cudnnBackendDescriptor_t configurations[ENGINES_MAX]) {
    static const char what[] = "the heuristics of cuDNN";
    int64_t count = 0;
    cudnnBackendDescriptor_t heuristics = create(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
    set_descriptor(graph, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations, what);
    set(graph, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, what);
    finalize(graph, heuristics, what);
    for (int i = 0; i < ENGINES_MAX; i++)
        configurations[i] = create(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what);
    if (graph->status == ROTA_OK)
        graph->status =
            check(dnn.BackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES_MAX, &count, configurations),
                  what);
    return graph->status != ROTA_OK ? 0 : count < ENGINES_MAX ? count : ENGINES_MAX;
}

/* Adds the ways of one mode of the heuristics that are as wished. UNSUPPORTED, or what the last one failed with,
 * where there are none so far. */
static rota_status add_ways(rota_cudnn_plan *plan, const rota_cudnn_wish *wish, cudnnHandle_t handle,
                            cudnnBackendDescriptor_t operations, cudnnBackendHeurMode_t mode) {
    rota_cudnn_graph *graph = &plan->graph;
    cudnnBackendDescriptor_t configurations[ENGINES_MAX];
    const int64_t count = ask_heuristics(graph, operations, mode, configurations);
    ROTA_TRY(graph->status);
    rota_status why =
        rota_fail(ROTA_UNSUPPORTED, "cuDNN has no engine as wished for a graph of %u operations",
                  graph->operation_count);
    for (int64_t i = 0; i < count && plan->way_count < wish->way_count; i++) {
        rota_cudnn_way way = {0};
        if (!is_wanted(graph, configurations[i], wish->refused_notes, &way.engine) &&
            graph->status == ROTA_OK)
            continue;
        make_execution(graph, handle, configurations[i], &way);
        if (graph->status != ROTA_OK)
            why = graph->status;
        else if (way.workspace_bytes > wish->workspace_bytes_max)
            why = rota_fail(ROTA_UNSUPPORTED, "engine %lld of cuDNN wants %llu bytes of workspace",
                            (long long)way.engine, (unsigned long long)way.workspace_bytes);
        else
            plan->ways[plan->way_count++] = way;
        graph->status = ROTA_OK;
    }
    return plan->way_count ? ROTA_OK : why;
}

rota_status rota_cudnn_plan_make(rota_cudnn_plan *plan, const rota_cudnn_wish *wish, cudnnHandle_t handle) {
    static const char what[] = "a graph of cuDNN";
    rota_cudnn_graph *graph = &plan->graph;
    cudnnBackendDescriptor_t operations = create(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what);
    set(graph, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        graph->operation_count, graph->operations, what);
    set(graph, operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, what);
    finalize(graph, operations, what);
    ROTA_TRY(graph->status);
    const rota_status status = add_ways(plan, wish, handle, operations, CUDNN_HEUR_MODE_A);
    /* Of the best, many or all may be of a kind that is refused. */
    if (wish->refused_notes && plan->way_count < wish->way_count &&
        (status == ROTA_OK || status == ROTA_UNSUPPORTED))
        return add_ways(plan, wish, handle, operations, CUDNN_HEUR_MODE_FALLBACK);
    return status;
}

void rota_cudnn_plan_free(rota_cudnn_plan *plan) {
    for (uint32_t i = plan->graph.descriptor_count; i-- > 0;)
        (void)dnn.BackendDestroyDescriptor(plan->graph.descriptors[i]);
    *plan = (rota_cudnn_plan){0};
}

rota_status rota_cudnn_run(const rota_cudnn_way *way, cudnnHandle_t handle, uint32_t count,
                           const int64_t *ids, void *const *pointers, void *workspace, void *stream) {
    static const char what[] = "the tensors of a plan of cuDNN";
    rota_cudnn_graph pack = {0};
    cudnnBackendDescriptor_t variants = create(&pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, what);
    set(&pack, variants, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids, what);
    set(&pack, variants, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers, what);
    set(&pack, variants, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace, what);
    finalize(&pack, variants, what);
    rota_status status = pack.status;
    if (status == ROTA_OK) status = check(dnn.SetStream(handle, stream), "cudnnSetStream");
    if (status == ROTA_OK)
        status = check(dnn.BackendExecute(handle, way->execution, variants), "cudnnBackendExecute");
    if (variants) (void)dnn.BackendDestroyDescriptor(variants);
    return status;
}

#else

bool rota_cudnn_present(void) {
    return false;
}

uint64_t rota_cudnn_version(void) {
    return 0;
}

#endif
