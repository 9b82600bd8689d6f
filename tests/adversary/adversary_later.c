/* Host functions that end later than they return, such as collectives. One that has begun keeps nothing else of its
 * work, of others or of the device from beginning, however many there are: on the rank that it waits for, those may
 * come first that come last here. What has ended is noticed some time after. */
#include "tests/adversary/adversary_later.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/atomic.h"
#include "graph/host_run.h" /* IWYU pragma: keep */
#include "tests/kit/nap.h"

struct adversary_later {
    rota_host_run run;
    _Atomic uint32_t is_over;
    rota_status status;
    char message[ROTA_ERROR_MESSAGE_MAX];
};

static void end_run(rota_host_run *run, rota_status status, const char *message) {
    adversary_later *later = (adversary_later *)(void *)run;
    later->status = status;
    (void)snprintf(later->message, sizeof later->message, "%s", message);
    ra_store_release(&later->is_over,
                     1); /* pairs with adversary_later_is_over; it may be gone from here on */
}

bool adversary_is_later(const rota_exec_command *command) {
    return command->kind == ROTA_EXEC_COMMAND_HOST && command->u.host.later;
}

rota_status adversary_later_begin(const rota_exec_command *command, adversary_running *running) {
    adversary_later *later = calloc(1, sizeof *later);
    if (!later) return rota_fail(ROTA_OUT_OF_MEMORY, "the adversary itself is out of memory");
    later->run.end = end_run;
    const rota_status status = command->u.host.later->begin(
        command->u.host.user, running->operands, running->operand_bytes, command->operand_count, &later->run);
    if (status == ROTA_OK)
        running->later = later;
    else
        free(later);
    return status;
}

bool adversary_later_is_over(const adversary_running *running) {
    return ra_load_acquire(&running->later->is_over); /* pairs with end_run */
}

rota_status adversary_later_end(adversary_running *running) {
    adversary_later *const later = running->later;
    while (!adversary_later_is_over(running)) test_nap_us(20);
    running->later = NULL;
    const rota_status status =
        later->status == ROTA_OK ? ROTA_OK : rota_fail(later->status, "%s", later->message);
    free(later);
    return status;
}

void adversary_later_skip(const rota_exec_command *command) {
    if (adversary_is_later(command) && command->u.host.later->skipped)
        command->u.host.later->skipped(command->u.host.user);
}

void adversary_later_leave_out(const rota_exec_program_desc *desc, uint32_t segment) {
    const rota_exec_segment *const left = &desc->segments[segment];
    for (uint32_t c = left->first_command; c < left->first_command + left->command_count; c++)
        adversary_later_skip(&desc->commands[c]);
}
