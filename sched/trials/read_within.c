/* Reading a buffer with a deadline of the trial's: by a read that nobody waits for, into memory that outlives the
 * deadline. */
#include "sched/trials/read_within.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"

/* rota_ticket_fn: the read has ended, and its memory is nobody's. */
static void forget(void *data, rota_status status, const char *message) {
    (void)status, (void)message;
    free(data);
}

/* There is room for the read as soon as others' have theirs behind them. */
static rota_status begin(rota_buffer *buffer, void *data, uint64_t size_bytes, uint64_t deadline_ns,
                         rota_ticket *out_ticket) {
    for (;;) {
        const rota_status status = rota_buffer_read_async(buffer, 0, data, size_bytes, out_ticket);
        if (status != ROTA_BUSY || rota_clock_ns() >= deadline_ns) return status;
        rota_nap_until(rota_deadline_after(1000000));
    }
}

rota_status rota_trial_read(rota_buffer *buffer, void *out_data, uint64_t size_bytes, uint64_t patience_ns) {
    if (patience_ns == 0) return rota_buffer_read(buffer, 0, out_data, size_bytes);
    const uint64_t deadline = rota_deadline_after(patience_ns);
    void *data = malloc(size_bytes);
    if (!data) return rota_fail(ROTA_OUT_OF_MEMORY, "read of a trial's buffer: no host memory");
    rota_ticket ticket;
    rota_status status = begin(buffer, data, size_bytes, deadline, &ticket);
    if (status != ROTA_OK) {
        free(data);
        return status;
    }
    const uint64_t now = rota_clock_ns();
    status = rota_wait(ticket, now < deadline ? deadline - now : 1);
    if (status == ROTA_OK) memcpy(out_data, data, size_bytes);
    if (status != ROTA_TIMEOUT) {
        free(data);
        return status;
    }
    char text[ROTA_ERROR_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s", rota_last_error());
    /* Without memory to say so it stays. */
    (void)rota_ticket_on_complete(ticket, forget, data);
    return rota_fail(status, "%s", text);
}
