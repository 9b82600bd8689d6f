/* Torn commands: a command reads everything when it begins and writes everything when it ends, as a device
 * may that keeps operands in registers or caches. Whatever else touches the same bytes in between is lost or
 * not seen, so that also a command that is one indivisible step here (x += 1 of a few bytes) suffers from a
 * missing barrier or wait. */
#include "tests/adversary/adversary_internal.h"

#include <stdlib.h>
#include <string.h>

static bool may_tear(const rota_exec_command *command) {
    if (command->kind == ROTA_EXEC_COMMAND_COPY) return true;
    /* Atomic sums may overlap one another and must then all count. */
    return command->kind == ROTA_EXEC_COMMAND_KERNEL &&
           !(command->u.kernel.kernel->flags & ROTA_KERNEL_ATOMIC_ACCUMULATE);
}

/* Adds a range, merging it with those that it shares bytes with: in place stays in place. */
static void add_range(adversary_running *running, uint8_t *begin, uint64_t bytes) {
    uint8_t *end = begin + bytes;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < running->copy_count; i++) {
        const adversary_copy *other = &running->copies[i];
        if (other->real < end && begin < other->real + other->bytes) {
            if (other->real < begin) begin = other->real;
            if (other->real + other->bytes > end) end = other->real + other->bytes;
        } else {
            running->copies[kept++] = *other;
        }
    }
    running->copies[kept] = (adversary_copy){.real = begin, .bytes = (uint64_t)(end - begin)};
    running->copy_count = kept + 1;
}

static uint8_t *copied(const adversary_running *running, const uint8_t *real) {
    for (uint32_t i = 0; i < running->copy_count; i++) {
        const adversary_copy *copy = &running->copies[i];
        if (real >= copy->real && real < copy->real + copy->bytes) return copy->copy + (real - copy->real);
    }
    return NULL;
}

void adversary_drop(adversary_running *running) {
    for (uint32_t i = 0; i < running->copy_count; i++)
        if (running->copies[i].copy) free(running->copies[i].copy - running->copies[i].skip);
    running->copy_count = 0;
}

void adversary_tear(const adversary_work *work, adversary_running *running) {
    const rota_exec_command *command = &work->desc->commands[running->command];
    if (!may_tear(command)) return;
    for (uint32_t k = 0; k < command->operand_count; k++)
        if (running->operand_bytes[k]) add_range(running, running->operands[k], running->operand_bytes[k]);
    for (uint32_t i = 0; i < running->copy_count; i++) {
        adversary_copy *copy = &running->copies[i];
        /* At the same distance from an aligned address: kernels may rely on it. */
        copy->skip = (uintptr_t)copy->real % ROTA_BUFFER_ALIGNMENT;
        uint64_t bytes = copy->skip + copy->bytes;
        uint8_t *memory =
            aligned_alloc(ROTA_BUFFER_ALIGNMENT, (bytes + ROTA_BUFFER_ALIGNMENT - 1) / ROTA_BUFFER_ALIGNMENT *
                                                     ROTA_BUFFER_ALIGNMENT);
        if (!memory) {
            adversary_drop(running);
            return;
        }
        copy->copy = memory + copy->skip;
        memcpy(copy->copy, copy->real, copy->bytes);
    }
    for (uint32_t k = 0; k < command->operand_count; k++) {
        running->real[k] = running->operands[k];
        if (running->operand_bytes[k]) running->operands[k] = copied(running, running->operands[k]);
    }
}

void adversary_mend(const adversary_work *work, adversary_running *running) {
    const rota_exec_command *command = &work->desc->commands[running->command];
    for (uint32_t k = 0; running->copy_count && !running->failed && k < command->operand_count; k++)
        if (work->desc->operands[command->first_operand + k].mode != ROTA_READ && running->operand_bytes[k])
            memcpy(running->real[k], copied(running, running->real[k]), running->operand_bytes[k]);
    adversary_drop(running);
}
