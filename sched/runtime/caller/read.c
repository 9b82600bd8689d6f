/* rota_buffer_read and its like: one submission, and so one place in the order, whatever its size. */
#include <stdlib.h>

#include "base/clock.h"
#include "sched/runtime/caller/room.h"
#include "sched/runtime/kinds/read.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/mailboxes.h"

static rota_status promise(const rota_host_read *read, rota_room_wait *w) {
    rota_runtime *runtime = read->runtime;
    if (runtime->options.memory_limit_bytes == 0) return ROTA_OK;
    rota_promised wanted = {runtime, read->size};
    if (read->data) {
        rota_turns *turns = &runtime->budget.promise_turns;
        if ((rota_turns_are_none(turns) || (rota_promise_is_free(&wanted, ra_load_relaxed(&turns->wanted)) &&
                                            rota_turns_lapse(turns, rota_clock_ns()))) &&
            rota_staging_promise(runtime, read->size))
            return ROTA_OK;
        return rota_fail(ROTA_BUSY,
                         "read of buffer '%s': its %llu bytes of staging memory do not fit beside what "
                         "others have before them",
                         read->residency->buffer->name, (unsigned long long)read->size);
    }
    const rota_room in_limit = rota_promise_room(&wanted, NULL);
    rota_taking got;
    return rota_room_take(w, &in_limit, &w->promise, &got);
}

/* Those that nobody waits for in the call have no other bound: each of the others keeps its thread. */
static rota_status check_kept(const rota_residency *residency) {
    if (ra_load_relaxed(&residency->kept) < ROTA_KEPT_MAX) return ROTA_OK;
    rota_sequencer_request_reap(residency->runtime);
    return rota_fail(ROTA_BUSY,
                     "read of buffer '%s': %d reads and writes of it wait for kernels or other devices, at "
                     "most %d may",
                     residency->buffer->name, ROTA_KEPT_MAX, ROTA_KEPT_MAX);
}

/* `data`: where the completer brings the bytes; NULL: `out_read`, which is then held for the caller too. */
static rota_status submit_read(rota_residency *residency, uint64_t offset, uint64_t size, uint8_t *data,
                               rota_host_read **out_read, rota_ticket *out_ticket) {
    if (data) ROTA_TRY(check_kept(residency));
    rota_host_read *read = calloc(1, sizeof *read);
    if (!read)
        return rota_fail(ROTA_OUT_OF_MEMORY, "read of buffer '%s': no host memory", residency->buffer->name);
    atomic_init(&read->references, data ? 1 : 2);
    read->residency = residency;
    read->offset = offset;
    read->size = size;
    read->data = data;
    read->runtime = residency->runtime;
    *out_read = read;
    rota_room_wait w;
    rota_room_wait_begin(&w, read->runtime);
    rota_status status = promise(read, &w);
    if (status == ROTA_OK)
        status = rota_room_publish(read->runtime, ROTA_RECORD_READ, read, data ? NULL : &w, out_ticket);
    else
        read->is_returned = true;
    rota_room_leave_all(&w);
    if (status != ROTA_OK) {
        rota_host_read_return_staging(read);
        free(read);
    }
    return status;
}

rota_status rota_buffer_read(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                             uint64_t size_bytes) {
    rota_residency *residency;
    rota_host_read *read;
    rota_ticket ticket;
    ROTA_TRY(rota_host_check_range(buffer, offset_bytes, out_data, size_bytes, &residency));
    if (size_bytes == 0) return ROTA_OK;
    ROTA_TRY(submit_read(residency, buffer->root_offset + offset_bytes, size_bytes, NULL, &read, &ticket));
    rota_status status = rota_wait(ticket, 0);
    if (status == ROTA_OK) rota_host_read_deliver(read, out_data);
    rota_host_read_release(read);
    return status;
}

rota_status rota_buffer_read_async(rota_buffer *buffer, uint64_t offset_bytes, void *out_data,
                                   uint64_t size_bytes, rota_ticket *out_ticket) {
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    rota_residency *residency;
    rota_host_read *read;
    ROTA_TRY(rota_host_check_range(buffer, offset_bytes, out_data, size_bytes, &residency));
    if (size_bytes == 0) return ROTA_OK;
    return submit_read(residency, buffer->root_offset + offset_bytes, size_bytes, out_data, &read,
                       out_ticket);
}
