/* The short way: a device with all that it needs, tensors with data, and ops that are recorded, compiled and
 * submitted in one go. Nothing here is apart from the rest: a tensor's buffer, a tape's recorder and graph, a
 * device's runtime go with every other call. examples/basics/axpy.c is a complete program. */
#ifndef ROTA_OPS_DIRECT_H
#define ROTA_OPS_DIRECT_H

#include "../sched/plan.h"
#include "../sched/runtime.h"
#include "ops.h"
#include "table.h"

/* ---- A device ---- */

/* Opens a runtime and a device of it: `id` as of rota_device_open (NULL: the best that passes its smoke
 * test), `options`, which may be NULL, as of rota_runtime_open. The caller ends both by rota_close. Errors as
 * of those two; nothing stays open then. May block. */
ROTA_API rota_status rota_open(const char *id, const rota_runtime_options *options, rota_device **out_device);

/* Closes the device's runtime, with every device of it: rota_runtime_close, which says what timeout_ns and
 * errors mean. The device ends. NULL is ignored. */
ROTA_API rota_status rota_close(rota_device *device, uint64_t timeout_ns);

/* ---- Tensors with data ---- */

/* A dense tensor in a PERSISTENT buffer of its own, with memory on the device, that holds `data`: as many
 * elements as the shape says, row-major, copied before the call returns; NULL: undefined until something
 * writes them (an op, or rota_buffer_write). `name`, of the buffer, is copied and may be NULL. The caller
 * owns one reference of the buffer: rota_buffer_release(out_tensor->buffer), at any time. Errors as of
 * rota_tensor_of, rota_buffer_create_in and rota_buffer_write; *out_tensor is none then. May block in malloc
 * and the driver. */
ROTA_API rota_status rota_tensor_create(rota_device *device, const char *name, rota_dtype dtype,
                                        uint32_t rank, const uint64_t *shape, const void *data,
                                        rota_tensor *out_tensor);

/* Reads all elements of a tensor in a PERSISTENT buffer, row-major, whatever its strides: rota_buffer_read,
 * which waits for what was submitted before. size_bytes is theirs (rota_shape_bytes). Of a tensor with gaps
 * all bytes from its first to its last element are read, and must have been written. INVALID_ARGUMENT:
 * another size, another kind of buffer (the sentence says what to do). After an error out_data is as it was.
 * May block in malloc; O(elements). */
ROTA_API rota_status rota_tensor_read(const rota_tensor *tensor, void *out_data, uint64_t size_bytes);

/* ---- Ops at once ---- */

/* A tape with a graph and a recorder of its own (rota_tape_graph, rota_tape_recorder, which are the tape's
 * and stay open until it is submitted), for plans on this device. Ended by rota_tape_destroy, also while what
 * was submitted runs. Ops that make their result make a TRANSIENT, which lives inside the tape's submissions:
 * what is to be read is written into a tensor of rota_tensor_create (rota_op_<name>_into). `options` may be
 * NULL. One thread at a time. WRONG_STATE: the runtime is closed. May block in malloc. */
ROTA_API rota_status rota_tape_create_on(rota_device *device, const rota_tape_options *options,
                                         rota_tape **out_tape);

/* The plan of what was recorded, for rota_args_create, rota_submit, statistics. The first call ends the
 * recording (ops on the tape are WRONG_STATE from then on) and compiles; later ones give the same plan. The
 * caller owns one reference. WRONG_STATE: also a tape of rota_tape_create, whose graph is the caller's to
 * compile. Further errors as of rota_compile, which may be tried again. May block in malloc and drivers. */
ROTA_API rota_status rota_tape_compile(rota_tape *tape, rota_plan **out_plan);

/* Submits what was recorded: rota_submit_with, of the plan of rota_tape_compile. The first call compiles;
 * each later one replays, and is lock-free. `options` may be NULL: it then waits for room. `out_ticket` may
 * be NULL. */
ROTA_API rota_status rota_tape_submit(rota_tape *tape, const rota_submit_options *options,
                                      rota_ticket *out_ticket);

/* Records one use of an op, compiles and submits it. Inputs and destinations lie in PERSISTENT buffers; an
 * output whose buffer is NULL is made by rota_tensor_create, and its buffer the caller's to release, each of
 * them where an op has several. Values are numbers, not slots. Each call compiles: what is repeated goes on a
 * tape of rota_tape_create_on. Waits for room, up to the default deadline. `out_ticket` may be NULL. Errors as
 * of rota_op_apply, rota_compile and rota_submit_wait; outputs that were made are gone then, and `use` is as
 * it was. Any thread, several at once. May block in malloc and drivers. */
ROTA_API rota_status rota_op_submit(rota_device *device, rota_op_use *use, rota_ticket *out_ticket);

#endif
