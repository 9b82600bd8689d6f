/* DLPack: memory that comes from other libraries with its shape, and goes to them. */
#include "ops/dlpack.h"

#include <stdlib.h>
#include "base/given.h"
#include "graph/buffer_internal.h" /* IWYU pragma: keep */
#include "ops/dlpack_abi.h"
#include "ops/layout.h"
#include "sched/embed.h"

static const struct {
    uint8_t code, bits;
} dtypes[ROTA_DTYPE_COUNT] = {
    [ROTA_F32] = {ROTA_DLPACK_FLOAT, 32},     [ROTA_F16] = {ROTA_DLPACK_FLOAT, 16},
    [ROTA_BF16] = {ROTA_DLPACK_BFLOAT, 16},   [ROTA_I32] = {ROTA_DLPACK_INT, 32},
    [ROTA_U32] = {ROTA_DLPACK_UINT, 32},      [ROTA_F8_E4M3FN] = {ROTA_DLPACK_F8_E4M3FN, 8},
    [ROTA_F8_E5M2] = {ROTA_DLPACK_F8_E5M2, 8}};

static rota_status check_form(rota_dlpack_form form) {
    if ((unsigned)form < ROTA_DLPACK_FORM_COUNT) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "DLPack: form %d, expected ROTA_DLPACK_FORM_UNVERSIONED or ROTA_DLPACK_FORM_VERSIONED",
                     (int)form);
}

/* The number of a CUDA device by its id. */
static int32_t cuda_number(const rota_device_info *info) {
    return (int32_t)strtol(info->id + sizeof "cuda:" - 1, NULL, 10);
}

/* ---- From others ---- */

static void end_unversioned(void *user) {
    rota_dlpack_unversioned *managed = user;
    if (managed->deleter) managed->deleter(managed);
}

static void end_versioned(void *user) {
    rota_dlpack_versioned *managed = user;
    if (managed->deleter) managed->deleter(managed);
}

static rota_status find_dtype(const rota_dlpack_tensor *given, rota_dtype *out_dtype) {
    if (given->lanes != 1)
        return rota_fail(ROTA_UNSUPPORTED, "DLPack: elements are vectors of %u lanes, expected 1",
                         given->lanes);
    for (uint32_t dtype = 0; dtype < ROTA_DTYPE_COUNT; dtype++)
        if (dtypes[dtype].code == given->code && dtypes[dtype].bits == given->bits) {
            *out_dtype = (rota_dtype)dtype;
            return ROTA_OK;
        }
    return rota_fail(
        ROTA_UNSUPPORTED,
        "DLPack: dtype of code %u and %u bits, expected f32, f16, bf16, i32, u32, f8_e4m3fn or f8_e5m2",
        given->code, given->bits);
}

static rota_status find_memory(const rota_device *device, const rota_dlpack_tensor *given,
                               rota_memory_kind *out_kind) {
    const rota_device_info *info = rota_device_get_info(device);
    *out_kind = ROTA_MEMORY_HOST;
    if (given->device_type == ROTA_DLPACK_CPU || given->device_type == ROTA_DLPACK_CUDA_HOST) return ROTA_OK;
    if (given->device_type != ROTA_DLPACK_CUDA && given->device_type != ROTA_DLPACK_CUDA_MANAGED)
        return rota_fail(ROTA_UNSUPPORTED,
                         "DLPack: memory of device type %d, expected 1 (the CPU), 2 (CUDA), 3 (pinned) or 13 "
                         "(managed by CUDA)",
                         given->device_type);
    *out_kind = ROTA_MEMORY_DEVICE;
    if (info->kind != ROTA_EXEC_CUDA)
        return rota_fail(ROTA_UNSUPPORTED, "DLPack: memory of CUDA device %d, and device '%s' is none",
                         given->device_id, info->id);
    if (given->device_id != cuda_number(info))
        return rota_fail(ROTA_INVALID_ARGUMENT, "DLPack: memory of CUDA device %d, expected that of '%s'",
                         given->device_id, info->id);
    return ROTA_OK;
}

/* Along axes of one element a stride means nothing, and is left as it is in a dense tensor. */
static rota_status find_strides(const rota_dlpack_tensor *given, rota_tensor *tensor) {
    for (uint32_t i = 0; given->stride && i < tensor->rank; i++) {
        if (tensor->shape[i] <= 1) continue;
        if (given->stride[i] < 0)
            return rota_fail(ROTA_UNSUPPORTED, "DLPack: stride %lld along axis %u, expected none below 0",
                             (long long)given->stride[i], i);
        tensor->stride[i] = (uint64_t)given->stride[i];
    }
    return ROTA_OK;
}

/* The tensor but for its buffer, and how many bytes there are from its first element on. */
static rota_status describe(const rota_dlpack_tensor *given, rota_tensor *tensor, uint64_t *out_bytes) {
    rota_dtype dtype = ROTA_F32;
    uint64_t shape[ROTA_RANK_MAX];
    ROTA_TRY(find_dtype(given, &dtype));
    if (given->rank < 0 || given->rank > ROTA_RANK_MAX || (given->rank && !given->shape))
        return rota_fail(ROTA_INVALID_ARGUMENT, "DLPack: rank %d with the shape at %p, expected 0 to %d",
                         given->rank, (const void *)given->shape, ROTA_RANK_MAX);
    const uint32_t rank = (uint32_t)given->rank;
    for (uint32_t i = 0; i < rank; i++) {
        if (given->shape[i] < 0)
            return rota_fail(ROTA_INVALID_ARGUMENT, "DLPack: extent %lld along axis %u",
                             (long long)given->shape[i], i);
        shape[i] = (uint64_t)given->shape[i];
    }
    ROTA_TRY(rota_tensor_of(NULL, 0, dtype, rank, shape, tensor));
    ROTA_TRY(find_strides(given, tensor));
    *out_bytes = 0;
    if (rota_tensor_is_empty(tensor)) return ROTA_OK;
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t more;
        if (__builtin_mul_overflow(tensor->shape[i] - 1, tensor->stride[i], &more) ||
            __builtin_add_overflow(elements, more, &elements) || elements > ROTA_BUFFER_SIZE_MAX / 4)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "DLPack: stride %llu along axis %u of %llu elements is beyond all memory",
                             (unsigned long long)tensor->stride[i], i, (unsigned long long)tensor->shape[i]);
    }
    *out_bytes = elements * rota_dtype_bytes(dtype);
    return ROTA_OK;
}

/* Nothing is adopted where there is nothing. */
static rota_status take_empty(rota_device *device, const rota_adopt_options *adopt, rota_tensor *tensor) {
    ROTA_TRY(rota_buffer_create_in(rota_device_runtime(device), adopt->name, ROTA_ADOPT_ALIGNMENT,
                                   &tensor->buffer));
    adopt->release(adopt->user);
    return ROTA_OK;
}

static rota_status take(rota_device *device, const rota_dlpack_tensor *given, rota_adopt_options *adopt,
                        rota_tensor *tensor) {
    uint64_t bytes;
    ROTA_TRY(describe(given, tensor, &bytes));
    ROTA_TRY(find_memory(device, given, &adopt->kind));
    if (bytes == 0) return take_empty(device, adopt, tensor);
    uint64_t begin;
    if (!given->data || __builtin_add_overflow((uint64_t)(uintptr_t)given->data, given->offset_bytes, &begin))
        return rota_fail(ROTA_INVALID_ARGUMENT, "DLPack: data at %p, %llu bytes on", given->data,
                         (unsigned long long)given->offset_bytes);
    if (begin % rota_dtype_bytes(tensor->dtype) != 0)
        return rota_fail(ROTA_MISALIGNED, "DLPack: data at %llx, expected a multiple of %s's %u bytes",
                         (unsigned long long)begin, rota_dtype_name(tensor->dtype),
                         rota_dtype_bytes(tensor->dtype));
    tensor->offset_bytes = begin % ROTA_ADOPT_ALIGNMENT;
    adopt->memory = (void *)(uintptr_t)(begin - tensor->offset_bytes);
    adopt->size_bytes = tensor->offset_bytes + bytes;
    return rota_buffer_adopt(device, adopt, &tensor->buffer);
}

rota_status rota_tensor_from_dlpack(rota_device *device, const char *name, void *managed,
                                    rota_dlpack_form form, rota_tensor *out_tensor) {
    ROTA_GIVEN(out_tensor);
    *out_tensor = ROTA_TENSOR_NONE;
    ROTA_GIVEN(device);
    ROTA_GIVEN(managed);
    ROTA_TRY(check_form(form));
    const rota_dlpack_versioned *versioned = form == ROTA_DLPACK_FORM_VERSIONED ? managed : NULL;
    if (versioned && versioned->major != ROTA_DLPACK_MAJOR)
        return rota_fail(ROTA_UNSUPPORTED, "DLPack: version %u.%u, expected %u", versioned->major,
                         versioned->minor, ROTA_DLPACK_MAJOR);
    const rota_dlpack_tensor *given =
        versioned ? &versioned->tensor : &((const rota_dlpack_unversioned *)managed)->tensor;
    rota_adopt_options adopt = ROTA_ADOPT_OPTIONS(.name = name, .user = managed);
    adopt.read_only = versioned && versioned->flags & ROTA_DLPACK_READ_ONLY;
    adopt.release = versioned ? end_versioned : end_unversioned;
    rota_tensor tensor;
    ROTA_TRY(take(device, given, &adopt, &tensor));
    *out_tensor = tensor;
    return ROTA_OK;
}

/* ---- To others ---- */

typedef struct lent {
    union {
        rota_dlpack_unversioned unversioned;
        rota_dlpack_versioned versioned;
    } managed; /* first: it is what the others have */
    rota_buffer *buffer;
    int64_t shape[ROTA_RANK_MAX], stride[ROTA_RANK_MAX];
} lent;

static void give_back(lent *ours) {
    rota_buffer_release(ours->buffer);
    free(ours);
}
static void delete_unversioned(rota_dlpack_unversioned *self) {
    give_back(self->user);
}
static void delete_versioned(rota_dlpack_versioned *self) {
    give_back(self->user);
}

static rota_status check_lendable(const rota_tensor *tensor, const rota_device_info *info,
                                  rota_dlpack_form form) {
    char text[ROTA_TENSOR_TEXT_MAX];
    ROTA_TRY(check_form(form));
    if (!tensor->buffer) return rota_fail(ROTA_INVALID_ARGUMENT, "DLPack: the tensor has no buffer");
    const rota_status status = rota_tensor_check(tensor);
    if (status != ROTA_OK) return rota_fail_context(status, "DLPack: the tensor ");
    if (rota_buffer_get_kind(tensor->buffer) != ROTA_BUFFER_PERSISTENT)
        return rota_fail(ROTA_INVALID_ARGUMENT, "DLPack: %s is no PERSISTENT buffer's",
                         rota_tensor_describe(tensor, text, sizeof text));
    if (info->kind != ROTA_EXEC_CPU && info->kind != ROTA_EXEC_CUDA)
        return rota_fail(ROTA_UNSUPPORTED, "DLPack: device '%s', expected the CPU or a CUDA device",
                         info->id);
    if (tensor->buffer->is_read_only && form != ROTA_DLPACK_FORM_VERSIONED)
        return rota_fail(ROTA_UNSUPPORTED,
                         "DLPack: %s is only to be read, which an unversioned struct can't say",
                         rota_tensor_describe(tensor, text, sizeof text));
    return ROTA_OK;
}

static void fill(rota_dlpack_tensor *out, const rota_tensor *tensor, uint64_t address,
                 const rota_device_info *info, lent *ours) {
    for (uint32_t i = 0; i < tensor->rank; i++) {
        ours->shape[i] = (int64_t)tensor->shape[i];
        /* Along one element, and where there is none, it may be anything, also what has no place for a sign. */
        ours->stride[i] = tensor->stride[i] <= INT64_MAX ? (int64_t)tensor->stride[i] : 1;
    }
    *out =
        (rota_dlpack_tensor){.data = (void *)(uintptr_t)address,
                             .device_type = info->kind == ROTA_EXEC_CUDA ? ROTA_DLPACK_CUDA : ROTA_DLPACK_CPU,
                             .device_id = info->kind == ROTA_EXEC_CUDA ? cuda_number(info) : 0,
                             .rank = (int32_t)tensor->rank,
                             .code = dtypes[tensor->dtype].code,
                             .bits = dtypes[tensor->dtype].bits,
                             .lanes = 1,
                             .shape = ours->shape,
                             .stride = ours->stride,
                             .offset_bytes = tensor->offset_bytes};
}

rota_status rota_tensor_to_dlpack(const rota_tensor *tensor, rota_device *device, rota_dlpack_form form,
                                  void **out_managed) {
    ROTA_GIVEN(out_managed);
    *out_managed = NULL;
    ROTA_GIVEN(tensor);
    ROTA_GIVEN(device);
    const rota_device_info *info = rota_device_get_info(device);
    ROTA_TRY(check_lendable(tensor, info, form));
    uint64_t address;
    ROTA_TRY(rota_buffer_address(tensor->buffer, device, &address));
    lent *ours = calloc(1, sizeof *ours);
    if (!ours) return rota_fail(ROTA_OUT_OF_MEMORY, "DLPack: no host memory for a struct");
    const bool is_versioned = form == ROTA_DLPACK_FORM_VERSIONED;
    fill(is_versioned ? &ours->managed.versioned.tensor : &ours->managed.unversioned.tensor, tensor, address,
         info, ours);
    if (is_versioned) {
        rota_dlpack_versioned *managed = &ours->managed.versioned;
        managed->major = ROTA_DLPACK_MAJOR;
        managed->minor = ROTA_DLPACK_MINOR;
        managed->flags = tensor->buffer->is_read_only ? ROTA_DLPACK_READ_ONLY : 0;
        managed->user = ours;
        managed->deleter = delete_versioned;
    } else {
        ours->managed.unversioned.user = ours;
        ours->managed.unversioned.deleter = delete_unversioned;
    }
    ours->buffer = tensor->buffer;
    rota_buffer_retain(tensor->buffer);
    *out_managed = &ours->managed;
    return ROTA_OK;
}
