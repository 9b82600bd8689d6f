/* Running an op's example (ops/table.h): inputs filled by kind from a seed, in persistent buffers of a
 * device. */
#ifndef ROTA_TESTS_EXAMPLES_H
#define ROTA_TESTS_EXAMPLES_H

#include "ops/table.h"
#include "tests/conformance/conformance.h"

typedef struct example_run {
    const rota_op *op;
    rota_op_use use;
    uint8_t *inputs[ROTA_OP_INPUTS_MAX]; /* contents, as uploaded */
    uint64_t bytes[ROTA_OP_INPUTS_MAX];
} example_run;

/* Host contents of the example's inputs, the same for one seed wherever they go. */
bool example_prepare(conf *c, const rota_op *op, const rota_op_example *example, uint64_t seed,
                     example_run *out_run);
void example_free(example_run *run);

/* Makes persistent buffers: inputs with their contents, and, with `destinations`, outputs prefilled with the
 * f32 -999 (as a byte pattern whatever the dtype). */
bool example_write(conf *c, example_run *run, rota_runtime *runtime, rota_device *device, bool destinations);
void example_release(example_run *run);

/* Records the op. */
bool example_record(conf *c, example_run *run, rota_tape *tape);

/* An element of a tensor's bytes as a number. */
double example_value(rota_dtype dtype, const uint8_t *bytes, uint64_t index);

#endif
