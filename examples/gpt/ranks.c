/* What the ranks of a training tell one another beside their steps' graphs. */
#include "examples/gpt/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One collective of x, by itself. */
static rota_status submit_alone(rota_device *cpu, const gpt_ranks *ranks, rota_tensor x,
                                rota_tensor gathered) {
    rota_tape *tape;
    rota_ticket ticket;
    ROTA_TRY(rota_tape_create_on(cpu, NULL, &tape));
    rota_status status = rota_tape_name(tape, "what ranks tell");
    if (status == ROTA_OK)
        status = gathered.buffer
                     ? rota_op_all_gather_into(tape, ranks->communicator, x, gathered)
                     : rota_op_all_reduce_into(tape, ranks->communicator, x, ROTA_COLLECTIVE_SUM, x);
    if (status == ROTA_OK) status = rota_tape_submit(tape, NULL, &ticket);
    if (status == ROTA_OK) status = rota_wait(ticket, 0);
    rota_tape_destroy(tape);
    return status;
}

rota_status gpt_ranks_sum(const gpt_ranks *ranks, rota_runtime *runtime, float *values, uint64_t count) {
    rota_device *cpu;
    rota_tensor x = ROTA_TENSOR_NONE;
    if (!ranks->communicator) return ROTA_OK;
    ROTA_TRY(rota_device_open(runtime, "cpu", &cpu));
    ROTA_TRY(rota_tensor_create(cpu, "values of all ranks", ROTA_F32, ROTA_SHAPE(count), values, &x));
    rota_status status = submit_alone(cpu, ranks, x, ROTA_TENSOR_NONE);
    if (status == ROTA_OK) status = rota_tensor_read(&x, values, count * sizeof *values);
    rota_buffer_release(x.buffer);
    return status;
}

rota_status gpt_ranks_agree(const gpt_ranks *ranks, rota_runtime *runtime, const char *what,
                            uint64_t number) {
    const uint32_t halves[2] = {(uint32_t)number, (uint32_t)(number >> 32)};
    rota_device *cpu;
    rota_tensor x = ROTA_TENSOR_NONE, all = ROTA_TENSOR_NONE;
    if (!ranks->communicator) return ROTA_OK;
    uint32_t *theirs = calloc(ranks->size, sizeof halves);
    if (!theirs)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for what %" PRIu32 " ranks say", ranks->size);
    rota_status status = rota_device_open(runtime, "cpu", &cpu);
    if (status == ROTA_OK)
        status = rota_tensor_create(cpu, "what this rank has", ROTA_U32, ROTA_SHAPE(2), halves, &x);
    if (status == ROTA_OK)
        status = rota_tensor_create(cpu, "what all have", ROTA_U32, ROTA_SHAPE((uint64_t)2 * ranks->size),
                                    theirs, &all);
    if (status == ROTA_OK) status = submit_alone(cpu, ranks, x, all);
    if (status == ROTA_OK) status = rota_tensor_read(&all, theirs, ranks->size * sizeof halves);
    for (uint32_t r = 1; r < ranks->size && status == ROTA_OK; r++)
        if (theirs[(size_t)2 * r] != theirs[0] || theirs[(size_t)2 * r + 1] != theirs[1])
            status = rota_fail(
                ROTA_INVALID_ARGUMENT,
                "%s of rank %" PRIu32 " is another than rank 0's: all ranks are to have the same", what, r);
    rota_buffer_release(all.buffer);
    rota_buffer_release(x.buffer);
    free(theirs);
    return status;
}

void gpt_ranks_count_once(const gpt_ranks *ranks, float *values, uint64_t count) {
    if (rota_communicator_rank(ranks->one_model) > 0) memset(values, 0, count * sizeof *values);
}

/* Each one once. */
static uint32_t list(const gpt_ranks *ranks, rota_communicator *out[3]) {
    uint32_t count = 0;
    if (ranks->one_model) out[count++] = ranks->one_model;
    if (ranks->one_part && ranks->one_part != ranks->communicator) out[count++] = ranks->one_part;
    if (ranks->communicator) out[count++] = ranks->communicator;
    return count;
}

rota_status gpt_ranks_close(gpt_ranks *ranks) {
    rota_communicator *all[3];
    rota_status status = ROTA_OK;
    const uint32_t count = list(ranks, all);
    for (uint32_t i = 0; i < count; i++) {
        const rota_status closed = rota_communicator_close(all[i], 0);
        if (status == ROTA_OK) status = closed;
    }
    ranks->communicator = ranks->one_model = ranks->one_part = NULL;
    return status;
}

void gpt_ranks_give_up(const gpt_ranks *ranks, const char *why) {
    rota_communicator *all[3];
    const uint32_t count = list(ranks, all);
    for (uint32_t i = 0; i < count; i++) (void)rota_communicator_abort(all[i], why);
}
