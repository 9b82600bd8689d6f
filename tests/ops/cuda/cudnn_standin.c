/* A stand-in for cuDNN's backend functions, built as a library of its name: it keeps descriptors as they are
 * set, and a plan's call computes the described graph on host memory, operation by operation in doubles. What
 * a caller got wrong (an attribute after finalizing, one missing, a tensor read before it is written, an
 * address at an odd place, no stream) is refused with its status. */
#include <cudnn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cpu/cpu.h"
#include "ops/cpu/half.h"
#include "tests/ops/cuda/cudnn_standin.h"

#define EXPORT __attribute__((visibility("default")))
#define ATTRIBUTES_MAX 10

/* What a test sets and reads. */
EXPORT bool standin_refuses;            /* the heuristics name no engine */
EXPORT int64_t standin_workspace_bytes; /* of every plan */
EXPORT bool standin_fails;              /* every call of a plan */
EXPORT bool standin_idle;               /* calls write one element of each result and compute nothing */
EXPORT bool standin_unsteady;           /* ... another one each time */
EXPORT double standin_run_ms, *standin_clock_ms; /* what a call takes, by whose clock */
EXPORT uint32_t standin_runs, standin_plans;
/* How many engines take a graph, the notes of each (bit i: note i), and what it takes beyond standin_run_ms. */
#define ENGINES_MAX 8
/* (The last one's number is what the heuristics fall back to.) */
EXPORT int standin_engines = 1;
EXPORT uint32_t standin_notes[ENGINES_MAX];
EXPORT double standin_engine_ms[ENGINES_MAX];
EXPORT int64_t standin_engine; /* of the last call */
EXPORT void *standin_stream;   /* of the last call */
/* NULL, or: calls compute nothing by themselves, but are kept by number, which this is given to put them
 * on the stream; standin_finish does a call's work. What it says false to is idle. */
EXPORT bool (*standin_put)(void *stream, uint32_t call);

typedef struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    void *values;
} attribute;

typedef struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool finalized, written;
    uint32_t count;
    attribute attributes[ATTRIBUTES_MAX];
    struct descriptor *graph; /* of a configuration */
    int64_t engine;           /* ... and of an engine */
    double *memory;           /* of a virtual tensor, while a plan runs */
    void *pointer;            /* of another */
    const int64_t *shape, *stride;
    int32_t dtype;
} descriptor;

struct cudnnContext {
    void *stream;
};

static char last_error[256];

static cudnnStatus_t fail(cudnnStatus_t status, const char *text) {
    snprintf(last_error, sizeof last_error, "%s", text);
    return status;
}

static size_t element_bytes(cudnnBackendAttributeType_t type) {
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default:
        return 4; /* enumerations */
    }
}

static const attribute *find(const descriptor *d, cudnnBackendAttributeName_t name) {
    for (uint32_t i = 0; i < d->count; i++)
        if (d->attributes[i].name == name) return &d->attributes[i];
    return NULL;
}

static descriptor *descriptor_in(const descriptor *d, cudnnBackendAttributeName_t name) {
    const attribute *a = find(d, name);
    return a ? *(descriptor **)a->values : NULL;
}

static int32_t number_in(const descriptor *d, cudnnBackendAttributeName_t name) {
    const attribute *a = find(d, name);
    return a ? *(int32_t *)a->values : -1;
}

static bool flag_in(const descriptor *d, cudnnBackendAttributeName_t name) {
    const attribute *a = find(d, name);
    return a && *(bool *)a->values;
}

/* ---- The functions that rota calls ---- */

EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    *handle = calloc(1, sizeof **handle);
    return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT size_t cudnnGetVersion(void) {
    return 91900;
}

EXPORT const char *cudnnGetErrorString(cudnnStatus_t status) {
    return status == CUDNN_STATUS_SUCCESS ? "SUCCESS" : "a failure of the stand-in";
}

EXPORT void cudnnGetLastErrorString(char *message, size_t size) {
    snprintf(message, size, "%s", last_error);
}

EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  cudnnBackendDescriptor_t *out) {
    descriptor *d = calloc(1, sizeof *d);
    if (!d) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    d->type = type;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t given) {
    descriptor *d = given;
    for (uint32_t i = 0; i < d->count; i++) free(d->attributes[i].values);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t given,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t count,
                                              const void *values) {
    descriptor *d = given;
    if (d->finalized) return fail(CUDNN_STATUS_BAD_PARAM, "an attribute after finalizing");
    if (find(d, name)) return fail(CUDNN_STATUS_BAD_PARAM, "an attribute twice");
    if (d->count == ATTRIBUTES_MAX || count < 1) return fail(CUDNN_STATUS_BAD_PARAM, "attributes");
    const size_t bytes = (size_t)count * element_bytes(type);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < count; i++)
            if (!((descriptor *const *)values)[i]->finalized)
                return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor not finalized");
    void *copy = malloc(bytes);
    if (!copy) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    memcpy(copy, values, bytes);
    d->attributes[d->count++] = (attribute){name, type, count, copy};
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t given) {
    descriptor *d = given;
    for (const cudnnBackendAttributeName_t *name = cudnn_standin_wanted(d->type); *name != NO_NAME; name++)
        if (!find(d, *name)) return fail(CUDNN_STATUS_BAD_PARAM, "an attribute is missing");
    if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
        d->shape = find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->values;
        d->stride = find(d, CUDNN_ATTR_TENSOR_STRIDES)->values;
        d->dtype = number_in(d, CUDNN_ATTR_TENSOR_DATA_TYPE);
    }
    d->finalized = true;
    standin_plans += d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t given,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t room, int64_t *count,
                                              void *values) {
    descriptor *d = given;
    (void)type;
    if (count) *count = 0;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && d->finalized) {
        const bool is_last = number_in(d, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
        while (!standin_refuses && *count < room && *count < (is_last ? 1 : standin_engines)) {
            descriptor *configuration = ((descriptor **)values)[*count];
            configuration->graph = descriptor_in(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
            configuration->engine = is_last ? ENGINES_MAX - 1 : *count;
            configuration->finalized = true;
            ++*count;
        }
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE && d->finalized) {
        descriptor *engine = *(descriptor **)values;
        engine->engine = d->engine;
        engine->finalized = true;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX && d->finalized) {
        *(int64_t *)values = d->engine;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && d->finalized) {
        for (int32_t note = 0; note < 32 && *count < room; note++)
            if (standin_notes[d->engine] >> note & 1u) ((int32_t *)values)[(*count)++] = note;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && d->finalized) {
        memcpy(values, &standin_workspace_bytes, sizeof standin_workspace_bytes);
        return CUDNN_STATUS_SUCCESS;
    }
    return fail(CUDNN_STATUS_BAD_PARAM, "what is asked for");
}

/* ---- Computing ---- */

static const int64_t *shape_of(const descriptor *t) {
    return t->shape;
}
static const int64_t *stride_of(const descriptor *t) {
    return t->stride;
}

/* Where the element is that takes part at `at` of a larger shape. */
static int64_t offset_of(const descriptor *t, const int64_t index[4]) {
    int64_t offset = 0;
    for (int i = 0; i < 4; i++)
        if (shape_of(t)[i] > 1) offset += index[i] * stride_of(t)[i];
    return offset;
}

static double load_at(const descriptor *t, int64_t offset) {
    if (t->memory) return t->memory[offset];
    uint32_t word;
    float f;
    switch (t->dtype) {
    case CUDNN_DATA_INT32:
        return ((const int32_t *)t->pointer)[offset];
    case CUDNN_DATA_HALF:
        return (double)rota_from_f16(((const uint16_t *)t->pointer)[offset]);
    case CUDNN_DATA_BFLOAT16:
        word = (uint32_t)((const uint16_t *)t->pointer)[offset] << 16;
        memcpy(&f, &word, 4);
        return (double)f;
    default:
        return (double)((const float *)t->pointer)[offset];
    }
}

static double load(const descriptor *t, const int64_t index[4]) {
    return load_at(t, offset_of(t, index));
}

static void store_at(descriptor *t, int64_t offset, double value) {
    if (t->memory) {
        t->memory[offset] = value;
        return;
    }
    float f = (float)value;
    uint32_t word;
    switch (t->dtype) {
    case CUDNN_DATA_HALF:
        ((uint16_t *)t->pointer)[offset] = rota_to_f16(f);
        break;
    case CUDNN_DATA_BFLOAT16:
        memcpy(&word, &f, 4);
        word += 0x7FFF + (word >> 16 & 1);
        ((uint16_t *)t->pointer)[offset] = (uint16_t)(word >> 16);
        break;
    default:
        ((float *)t->pointer)[offset] = f;
    }
}

double cudnn_standin_load(const void *given, int64_t offset) {
    return load_at(given, offset);
}

void cudnn_standin_store(void *given, int64_t offset, double value) {
    store_at(given, offset, value);
}

#define EACH(index, shape)                                                                                   \
    for (index[0] = 0; index[0] < (shape)[0]; index[0]++)                                                    \
        for (index[1] = 0; index[1] < (shape)[1]; index[1]++)                                                \
            for (index[2] = 0; index[2] < (shape)[2]; index[2]++)                                            \
                for (index[3] = 0; index[3] < (shape)[3]; index[3]++)

static double pointwise_at(int32_t mode, int64_t axis, const int64_t index[4], double x, double b, double t) {
    switch (mode) {
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_LOG:
        return log(x);
    case CUDNN_POINTWISE_GEN_INDEX:
        return (double)index[axis];
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b ? 1.0 : 0.0;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0 ? x : b;
    default:
        return NAN;
    }
}

static void run_pointwise(const descriptor *operation, descriptor *x, descriptor *b, descriptor *t,
                          descriptor *y) {
    const descriptor *kind = descriptor_in(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const attribute *axis = find(kind, CUDNN_ATTR_POINTWISE_AXIS);
    const int32_t mode = number_in(kind, CUDNN_ATTR_POINTWISE_MODE);
    int64_t index[4];
    EACH(index, shape_of(y))
    store_at(y, offset_of(y, index),
             pointwise_at(mode, axis ? *(int64_t *)axis->values : 0, index, load(x, index),
                          b ? load(b, index) : 0, t ? load(t, index) : 0));
}

/* Rows of one matrix, or of it transposed, one after the other. */
static double *gather(const descriptor *t, int64_t batch, int64_t head, bool transposed) {
    const int64_t rows = shape_of(t)[transposed ? 3 : 2], columns = shape_of(t)[transposed ? 2 : 3];
    const int64_t step[2] = {stride_of(t)[transposed ? 3 : 2], stride_of(t)[transposed ? 2 : 3]};
    const int64_t first = offset_of(t, (const int64_t[4]){batch, head, 0, 0});
    double *all = malloc((size_t)(rows * columns) * sizeof *all);
    for (int64_t i = 0; all && i < rows * columns; i++)
        all[i] = load_at(t, first + i / columns * step[0] + i % columns * step[1]);
    return all;
}

static cudnnStatus_t run_matmul(descriptor *a, descriptor *b, descriptor *c) {
    const int64_t k = shape_of(a)[3], *shape = shape_of(c);
    if (shape_of(b)[2] != k || shape_of(a)[2] != shape[2] || shape_of(b)[3] != shape[3])
        return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a product of other shapes");
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        double *left = gather(a, i / shape[1], i % shape[1], false),
               *right = gather(b, i / shape[1], i % shape[1], true);
        for (int64_t e = 0; left && right && e < shape[2] * shape[3]; e++) {
            double sum = 0;
            for (int64_t n = 0; n < k; n++) sum += left[e / shape[3] * k + n] * right[e % shape[3] * k + n];
            store_at(c,
                     offset_of(c, (const int64_t[4]){i / shape[1], i % shape[1], e / shape[3], e % shape[3]}),
                     sum);
        }
        const bool done = left && right;
        free(left);
        free(right);
        if (!done) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Along the last axis. */
static void run_reduction(const descriptor *operation, descriptor *x, descriptor *y) {
    const descriptor *kind = descriptor_in(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    const bool is_max = number_in(kind, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
    int64_t index[4];
    EACH(index, shape_of(y)) {
        double result = is_max ? -INFINITY : 0;
        for (int64_t k = 0; k < shape_of(x)[3]; k++) {
            const double value = load(x, (const int64_t[4]){index[0], index[1], index[2], k});
            result = is_max ? fmax(result, value) : result + value;
        }
        store_at(y, offset_of(y, index), result);
    }
}

/* Another shape and other strides of the same memory. */
static void run_reshape(descriptor *x, descriptor *y) {
    int64_t index[4];
    EACH(index, shape_of(y)) {
        const int64_t offset = offset_of(y, index);
        store_at(y, offset, load_at(x, offset));
    }
}

static cudnnStatus_t find_memory(descriptor *t, const descriptor *pack) {
    const attribute *ids = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const attribute *pointers = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const int64_t id = *(int64_t *)find(t, CUDNN_ATTR_TENSOR_UNIQUE_ID)->values;
    if (flag_in(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
        if (t->memory) return CUDNN_STATUS_SUCCESS;
        size_t extent = 1;
        for (int i = 0; i < 4; i++) extent += (size_t)((shape_of(t)[i] - 1) * stride_of(t)[i]);
        t->memory = malloc(extent * sizeof(double));
        return t->memory ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }
    t->pointer = NULL;
    for (int64_t i = 0; i < ids->count; i++)
        if (((int64_t *)ids->values)[i] == id) t->pointer = ((void **)pointers->values)[i];
    if (!t->pointer) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor without a pointer");
    if (!flag_in(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
        (uintptr_t)t->pointer % *(uint64_t *)find(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)->values != 0)
        return fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor at an odd place");
    return CUDNN_STATUS_SUCCESS;
}

/* Forward, of the weights, of the data: in the order of their types' numbers. */
static cudnnStatus_t run_convolution(const descriptor *operation, const descriptor *pack) {
    static const struct {
        cudnnBackendAttributeName_t window, x, w, y;
        cudnn_standin_result result;
    } forms[] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, STANDIN_Y},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         STANDIN_W},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         STANDIN_X}};
    const int form = (int)operation->type - (int)CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const descriptor *kind = descriptor_in(operation, forms[form].window);
    const cudnn_standin_window window = {find(kind, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)->values,
                                         find(kind, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)->values,
                                         find(kind, CUDNN_ATTR_CONVOLUTION_DILATIONS)->values};
    const cudnnBackendAttributeName_t names[3] = {forms[form].x, forms[form].w, forms[form].y};
    cudnn_standin_tensor t[3];
    for (int i = 0; i < 3; i++) {
        descriptor *operand = descriptor_in(operation, names[i]);
        const cudnnStatus_t status = find_memory(operand, pack);
        if (status != CUDNN_STATUS_SUCCESS) return status;
        t[i] = (cudnn_standin_tensor){operand, shape_of(operand), stride_of(operand)};
    }
    const char *wrong = cudnn_standin_convolve(forms[form].result, &window, &t[0], &t[1], &t[2]);
    return wrong ? fail(CUDNN_STATUS_BAD_PARAM, wrong) : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t run_operation(const descriptor *operation, const descriptor *pack) {
    static const struct {
        int type;
        cudnnBackendAttributeName_t operands[4]; /* the last one that is there is written */
    } forms[] = {
        {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
          CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC}},
        {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, NO_NAME,
          CUDNN_ATTR_OPERATION_MATMUL_CDESC}},
        {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, NO_NAME, NO_NAME, CUDNN_ATTR_OPERATION_REDUCTION_YDESC}},
        {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, NO_NAME, NO_NAME, CUDNN_ATTR_OPERATION_RESHAPE_YDESC}}};
    if (operation->type >= CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
        operation->type <= CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        return run_convolution(operation, pack);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        if ((int)operation->type != forms[f].type) continue;
        descriptor *t[4];
        for (int i = 0; i < 4; i++) {
            t[i] = descriptor_in(operation, forms[f].operands[i]);
            cudnnStatus_t status = t[i] ? find_memory(t[i], pack) : CUDNN_STATUS_SUCCESS;
            if (status != CUDNN_STATUS_SUCCESS) return status;
            if (t[i] && i < 3 && t[i]->memory && !t[i]->written)
                return fail(CUDNN_STATUS_BAD_PARAM, "a tensor read before it is written");
        }
        t[3]->written = true;
        if (f == 0) run_pointwise(operation, t[0], t[1], t[2], t[3]);
        if (f == 1) return run_matmul(t[0], t[1], t[3]);
        if (f == 2) run_reduction(operation, t[0], t[3]);
        if (f == 3) run_reshape(t[0], t[3]);
        return CUDNN_STATUS_SUCCESS;
    }
    return fail(CUDNN_STATUS_NOT_SUPPORTED, "an operation that the stand-in has not");
}

/* After a run virtual tensors hold nothing. */
static void forget(const descriptor *operation) {
    for (uint32_t i = 0; i < operation->count; i++) {
        if (operation->attributes[i].type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        descriptor *t = *(descriptor **)operation->attributes[i].values;
        free(t->memory);
        t->memory = NULL;
        t->written = false;
    }
}

static cudnnStatus_t touch_results(const descriptor *operation, const descriptor *pack) {
    static const cudnnBackendAttributeName_t results[] = {
        CUDNN_ATTR_OPERATION_POINTWISE_YDESC,          CUDNN_ATTR_OPERATION_MATMUL_CDESC,
        CUDNN_ATTR_OPERATION_REDUCTION_YDESC,          CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        descriptor *t = descriptor_in(operation, results[i]);
        if (!t || flag_in(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) continue;
        cudnnStatus_t status = find_memory(t, pack);
        if (status != CUDNN_STATUS_SUCCESS) return status;
        store_at(t, 0, standin_unsteady ? standin_runs % 2 + 1 : 1);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Calls for later ---- */

#define CALLS_MAX 64
typedef struct kept_call {
    const attribute *operations;
    descriptor pack;
    uint64_t values[ATTRIBUTES_MAX]; /* what values were when the call was made */
} kept_call;
static kept_call calls[CALLS_MAX];
static uint32_t call_count;

static void keep_values(kept_call *call, const descriptor *operation) {
    const attribute *ids = find(&call->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    void **pointers = find(&call->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->values;
    for (uint32_t i = 0; i < operation->count; i++) {
        if (operation->attributes[i].type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        const descriptor *t = *(descriptor **)operation->attributes[i].values;
        if (t->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || !flag_in(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE))
            continue;
        const int64_t id = *(int64_t *)find(t, CUDNN_ATTR_TENSOR_UNIQUE_ID)->values;
        for (int64_t k = 0; k < ids->count; k++) {
            uint64_t *kept = &call->values[id % ATTRIBUTES_MAX];
            if (((int64_t *)ids->values)[k] != id || pointers[k] == kept) continue;
            memcpy(kept, pointers[k], 4);
            pointers[k] = kept;
        }
    }
}

static bool put_call(void *stream, const attribute *operations, const descriptor *pack) {
    if (call_count == CALLS_MAX || !standin_put(stream, call_count)) return false;
    kept_call *call = &calls[call_count];
    *call = (kept_call){.operations = operations, .pack = {.type = pack->type}};
    for (uint32_t i = 0; i < pack->count; i++)
        (void)cudnnBackendSetAttribute(&call->pack, pack->attributes[i].name, pack->attributes[i].type,
                                       pack->attributes[i].count, pack->attributes[i].values);
    for (int64_t i = 0; i < operations->count; i++) keep_values(call, ((descriptor **)operations->values)[i]);
    call_count++;
    return true;
}

static cudnnStatus_t run_operations(const attribute *operations, const descriptor *pack) {
    descriptor *const *list = operations->values;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; i < operations->count && status == CUDNN_STATUS_SUCCESS; i++)
        status = run_operation(list[i], pack);
    for (int64_t i = 0; i < operations->count; i++) forget(list[i]);
    return status;
}

EXPORT cudnnStatus_t standin_finish(uint32_t call) {
    return run_operations(calls[call].operations, &calls[call].pack);
}

EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t given,
                                         cudnnBackendDescriptor_t pack) {
    descriptor *plan = given;
    if (!plan->finalized || !((descriptor *)pack)->finalized || !handle->stream)
        return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan, its tensors or the stream");
    if (standin_workspace_bytes && !*(void **)find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->values)
        return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace");
    const descriptor *configuration = descriptor_in(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                     *graph = configuration->graph;
    const attribute *operations = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    descriptor *const *list = operations->values;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (standin_fails) return fail(CUDNN_STATUS_EXECUTION_FAILED, "it was told to fail");
    standin_engine = configuration->engine;
    if (standin_clock_ms) *standin_clock_ms += standin_run_ms + standin_engine_ms[standin_engine];
    if (standin_put && put_call(handle->stream, operations, pack))
        ;
    else if (standin_put || standin_idle)
        for (int64_t i = 0; i < operations->count && status == CUDNN_STATUS_SUCCESS; i++)
            status = touch_results(list[i], pack);
    else
        status = run_operations(operations, pack);
    standin_stream = handle->stream;
    standin_runs++;
    return status;
}
