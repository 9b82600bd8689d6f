/* For tests of ops: records with a tape, runs on the CPU executor, hands results back; and op examples with
 * contents and their f64 reference. */
#ifndef ROTA_TESTS_OP_KIT_H
#define ROTA_TESTS_OP_KIT_H

#include "tests/kit/support.h"

#include "bench/ops_reference.h"
#include "rota.h"

/* Runs the cases of a test program, which share a runtime and its CPU device. How many failed, counting what
 * went wrong when the runtime was opened or closed and, in the build without sanitizers, each message of the
 * validation layer: main's result. */
int op_kit_run_tests(const struct CMUnitTest *tests, size_t count);

/* The device of the kits that are run from now on; false, with a message, where it can't be opened. */
bool op_kit_use_device(const char *id);
/* The test on cpu, vk:0 and cuda:0, where they can be opened; then the CPU is the device again. */
void op_kit_on_each_device(void (*test)(const char *device));
/* Whether kernels of plans compiled from now on are watched (rota_compile_options.check_kernels). */
void op_kit_watch(bool watch);
/* What it is. */
const rota_device_info *op_kit_device_info(void);

#define OP_ARRAYS_MAX 64

typedef struct op_kit {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan *plan;
    rota_args *args;
    uint32_t input_count, output_count;
    rota_buffer *inputs[OP_ARRAYS_MAX], *outputs[OP_ARRAYS_MAX];
    void *input_data[OP_ARRAYS_MAX], *output_data[OP_ARRAYS_MAX];
    uint64_t input_bytes[OP_ARRAYS_MAX], output_bytes[OP_ARRAYS_MAX];
} op_kit;

void op_kit_open(op_kit *kit);
/* An INPUT tensor of these contents (copied). */
rota_tensor op_kit_input(op_kit *kit, rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                         const void *data);
/* The same in a TRANSIENT buffer, for operands that are written. */
rota_tensor op_kit_variable(op_kit *kit, rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                            const void *data);
/* Copies a tensor into an OUTPUT buffer at this place of the record; the number to ask its contents by. */
uint32_t op_kit_output(op_kit *kit, rota_tensor tensor);
/* Closes the lane, compiles if needed, submits, and waits: the status of the compilation or the wait. */
rota_status op_kit_try_run(op_kit *kit);
void op_kit_run(op_kit *kit);
const float *op_kit_f32(const op_kit *kit, uint32_t output);
void op_kit_close(op_kit *kit);

/* Values of slots, before a run. */
void op_kit_set_u32(op_kit *kit, rota_slot slot, uint32_t value);
void op_kit_set_f32(op_kit *kit, rota_slot slot, float value);

/* ---- Elements of any dtype ---- */

double element_load(rota_dtype dtype, const void *data, uint64_t index);
void element_store(rota_dtype dtype, void *data, uint64_t index, double value);

/* ---- Examples with contents ---- */

typedef struct op_trial {
    rota_op_example example;
    void *data[ROTA_OP_INPUTS_MAX]; /* as the dtype says */
    reference reference;
    rota_tensor result[ROTA_OP_OUTPUTS_MAX]; /* shapes of the outputs */
    rota_op_use described; /* the example's use with the outputs' shapes, for the reference */
} op_trial;

/* Fills in example `index` of the op with contents; false past the last. */
bool op_trial_make(const rota_op *op, uint32_t index, op_trial *trial);
/* Gives any example contents; false, with the last error, if the shape rule refuses it. */
bool op_trial_of(const rota_op_example *example, uint64_t seed, op_trial *trial);
void op_trial_free(op_trial *trial);
/* A use of the op with the trial's inputs as tensors of the kit; what is written by the op is a variable. */
rota_op_use op_trial_use(op_kit *kit, const op_trial *trial);

/* How far the result of an op may be from its f64 reference. */
double op_trial_bound(const op_trial *trial, uint32_t output);

/* Runs the reference, which may change the inputs of ops in place: once for a trial. */
void op_trial_reference(const op_trial *trial);
/* An output's contents against the reference, which has run. */
void op_trial_compare(const op_trial *trial, uint32_t output, const void *got, const char *how);
/* Records the use, runs it, and compares all that it writes; what recording refused, if it did. */
rota_status op_trial_try(const op_trial *trial);
/* The same, where nothing is to be refused. */
void op_trial_check(const op_trial *trial);

#endif
