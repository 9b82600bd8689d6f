/* An op of one's own, outside the library: what its functions (rota_op in ops/table.h) check shapes, record
 * nodes and pass gradients with. The library's own ops are made of the same. examples/basics/custom_op.c is a
 * complete one.
 *
 * Make one `static const rota_op` per op and keep it as long as tapes that used it; `shape`, `record` and
 * (where it is differentiable) `gradient` are functions like these:
 *
 *     shape     fails with rota_op_fail, or gives every output dtype, rank, shape and contiguous strides, for
 *               which rota_shape_like and rota_tensor_of(NULL, ...) do
 *     record    records the nodes: the use's outputs have buffers, contiguous ones at multiples of 4 bytes
 *               (but of an op with strided_output); inputs may be any views, which rota_record_contiguous
 *               copies where needed
 *     gradient  records nodes that add to the gradients of the inputs, from those of the outputs
 *
 * Each gets the use, whose op has a pointer of yours (rota_op.user).
 *
 * and a function of yours calls rota_op_apply with a use. It checks the op as well as the use;
 * INVALID_ARGUMENT says what an op lacks. All of this is called by the thread that uses the tape; the
 * functions below may block in malloc, and fail with OUT_OF_MEMORY or as rota_record_kernel does. Cost O(1),
 * apart from what they record. */
#ifndef ROTA_OPS_CUSTOM_H
#define ROTA_OPS_CUSTOM_H

#include "table.h"

/* ---- Shape rules ---- */

/* Sets this thread's sentence, "op 'name': ...", and returns `status`. Wait-free. */
ROTA_API rota_status rota_op_fail(const rota_op *op, rota_status status, const char *format, ...)
    ROTA_PRINTF(3, 4);
/* All inputs of the mask that are there have this dtype; else an error that names the input. */
ROTA_API rota_status rota_shape_require(const rota_op_use *use, uint32_t inputs, rota_dtype dtype);
/* The inputs of the mask that are there are alike of one dtype of real numbers; else an error that names both
 * dtypes. INVALID_ARGUMENT also if none of them is there. */
ROTA_API rota_status rota_shape_require_real(const rota_op_use *use, uint32_t inputs, rota_dtype *out_dtype);
/* The shape that the inputs of the mask broadcast to, right-aligned; else an error with all of theirs. */
ROTA_API rota_status rota_shape_broadcast(const rota_op_use *use, uint32_t inputs, uint32_t *out_rank,
                                          uint64_t *out_shape);
/* *out is a contiguous tensor of x's shape, without a buffer. */
ROTA_API rota_status rota_shape_like(const rota_tensor *x, rota_dtype dtype, rota_tensor *out_tensor);

/* ---- Nodes ---- */

/* All of a tensor's bytes. */
ROTA_API rota_access rota_tensor_access(const rota_tensor *tensor, rota_access_mode mode);
/* WRITE, or READWRITE if the tensor has gaps. */
ROTA_API rota_access rota_tensor_write(const rota_tensor *tensor);
/* A node of the kernel, with the tape's placement and name, or the op's. `params` is kernel->param_bytes long
 * and copied.
 */
ROTA_API rota_status rota_tape_kernel(rota_tape *tape, const rota_kernel *kernel, const rota_access *accesses,
                                      uint32_t count, const void *params, const rota_param_binding *bindings,
                                      uint32_t binding_count);
/* A value as a field of the parameters (0 of a slot), and as a binding if it needs one. */
ROTA_API float rota_value_f32(rota_value value);
ROTA_API uint32_t rota_value_u32(rota_value value);
ROTA_API void rota_value_bind(rota_value value, uint32_t bindable, rota_param_binding *bindings,
                              uint32_t *count);
/* A contiguous transient. */
ROTA_API rota_status rota_tape_temporary(rota_tape *tape, const char *name, rota_dtype dtype, uint32_t rank,
                                         const uint64_t *shape, rota_tensor *out_tensor);
/* x if contiguous and at an address that is a multiple of 4, else a contiguous copy. */
ROTA_API rota_status rota_record_contiguous(rota_tape *tape, const rota_tensor *x, rota_tensor *out_y);

/* ---- Gradients: for rota_op.gradient only, which may also use ops (rota_op_mul) on what it is given ---- */

/* The gradient of an output of the use. Only output 0's is there; read it, don't write it. */
ROTA_API const rota_tensor *rota_gradient_output(const rota_tape *tape, uint32_t output);
/* Whether anyone wants the gradient of this input. Those of others are thrown away. */
ROTA_API bool rota_gradient_wanted(rota_tape *tape, const rota_tensor *x);
/* Adds alpha * contribution, of x's shape or of one that x was broadcast to (it is then summed). Nothing if
 * it is not wanted. */
ROTA_API rota_status rota_gradient_add(rota_tape *tape, const rota_tensor *x, const rota_tensor *contribution,
                                       float alpha);
/* Where to write x's gradient: a tensor with x's strides. out_fresh: nothing was added to these elements yet,
 * so the caller overwrites all of them; else it must add. The caller records the write right after, before it
 * asks for another gradient. Only of an x that is wanted, and that holds no element several times (by a
 * stride of 0, or as windows that overlap): INTERNAL names the buffer of one that is not wanted, and for
 * others there is rota_gradient_begin. */
ROTA_API rota_status rota_gradient_target(rota_tape *tape, const rota_tensor *x, rota_tensor *out_dx,
                                          bool *out_fresh);
/* For kernels that only write contiguous results: between begin and end the caller overwrites all of dx,
 * which is contiguous, of x's shape and dtype. */
typedef struct rota_gradient_write {
    rota_tensor dx;
    bool direct; /* dx is the gradient's own memory */
} rota_gradient_write;
ROTA_API rota_status rota_gradient_begin(rota_tape *tape, const rota_tensor *x,
                                         rota_gradient_write *out_write);
ROTA_API rota_status rota_gradient_end(rota_tape *tape, const rota_tensor *x,
                                       const rota_gradient_write *write);

#endif
