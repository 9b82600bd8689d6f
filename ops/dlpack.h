/* Tensors of other libraries and for them, without a copy: DLPack, by which they pass memory with its shape and who
 * frees it. */
#ifndef ROTA_OPS_DLPACK_H
#define ROTA_OPS_DLPACK_H

#include "../sched/runtime.h"
#include "tensor.h"

/* Which of DLPack's two structs a pointer is to. */
typedef enum rota_dlpack_form {
    ROTA_DLPACK_FORM_UNVERSIONED, /* DLManagedTensor; a capsule "dltensor" */
    ROTA_DLPACK_FORM_VERSIONED,   /* DLManagedTensorVersioned, of version 1; a capsule "dltensor_versioned" */
    ROTA_DLPACK_FORM_COUNT
} rota_dlpack_form;

/* A tensor over the memory of another library's, which becomes a PERSISTENT buffer's on `device`
 * (rota_buffer_adopt, which says what that means, what the other library may do meanwhile, and the errors): the CPU's
 * and pinned memory on `cpu` and Vulkan devices that import host memory, CUDA's on the device of that number. It begins
 * at the last multiple of ROTA_ADOPT_ALIGNMENT before the tensor's first element. The bytes count as written: who has
 * written them has waited for that. One that is read-only is read-only here. Two tensors over the same bytes are two
 * buffers', between which nothing is put in order.
 *
 * `managed` is rota's from then on, and its deleter called once, when nothing of rota's touches the memory any more, on
 * rota's reclaiming thread or in rota_runtime_close; of a tensor without elements, before the call returns. After an
 * error it stays the caller's. `name`, of the buffer, is copied and may be NULL. The caller owns one reference of the
 * buffer: rota_buffer_release(out_tensor->buffer).
 *
 * May block in malloc and the driver. UNSUPPORTED: another major version, dtypes that are no rota_dtype, vectors
 * (lanes), negative strides, memory of other kinds of devices; INVALID_ARGUMENT: a rank above ROTA_RANK_MAX, negative
 * extents, more than 2^32 - 1 elements, no data, memory of another device; MISALIGNED: not at a multiple of its
 * element; the sentence says what there is. */
ROTA_API rota_status rota_tensor_from_dlpack(rota_device *device, const char *name, void *managed,
                                             rota_dlpack_form form, rota_tensor *out_tensor);

/* The tensor's memory on `device`, the CPU or a CUDA device, for another library: a struct of that form, which the
 * caller, or whom it is given to, ends by its deleter, once, from any thread. It holds the buffer, which is PERSISTENT,
 * until then; the memory itself is there until the device's runtime is closed.
 *
 * Nothing is waited for: the bytes are those that were last written on that device, once the caller has waited for
 * the submissions that do, and rota's order does not reach what the other library does. On the CPU that is all there
 * is to it where no plan writes the buffer on another device.
 *
 * May block in malloc. NOT_FOUND: no memory on that device (rota_buffer_prepare); UNSUPPORTED: a Vulkan device, whose
 * addresses mean nothing to others, or memory that is only to be read in the unversioned form, which can't say so;
 * INVALID_ARGUMENT: none, a buffer of a graph's; and as ops do of a tensor made by hand. */
ROTA_API rota_status rota_tensor_to_dlpack(const rota_tensor *tensor, rota_device *device,
                                           rota_dlpack_form form, void **out_managed);

#endif
