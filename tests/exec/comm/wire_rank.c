/* The other rank of a communicator, as the test likes: see wire_rank.h. */
#include "tests/exec/comm/wire_rank.h"

#include "base/clock.h"
#include "exec/comm/messages.h"
#include "exec/comm/threads.h"

bool wire_rank_open(wire_rank *wire, uint64_t timeout_ns) {
    rota_engine *engines[2];
    *wire = (wire_rank){.send_count = 0};
    if (rota_threads_open(2, engines) != ROTA_OK) return false;
    wire->other = engines[1];
    if (rota_messages_open(engines[0], "wire", timeout_ns, &wire->transport) == ROTA_OK) return true;
    wire->other->vtable->close(wire->other);
    return false;
}

bool wire_rank_send(wire_rank *wire, rota_messages_channel channel, const void *bytes, uint64_t size_bytes) {
    static const uint8_t nothing;
    return wire->send_count < WIRE_SENDS_MOST &&
           wire->other->vtable->send(wire->other, 0, channel, bytes ? bytes : &nothing, size_bytes,
                                     &wire->sends[wire->send_count++]) == ROTA_OK;
}

rota_status wire_rank_carry_out(wire_rank *wire, const rota_collective *collective, uint32_t looks) {
    rota_transport *t = wire->transport;
    t->vtable->post(t, collective);
    for (uint32_t i = 0;; i++) {
        bool is_over, has_moved;
        if (i == looks) t->vtable->abort(t, "the test has ended it");
        const rota_status status = t->vtable->progress(t, &is_over, &has_moved);
        if (is_over) return status;
    }
}

void wire_rank_close(wire_rank *wire) {
    uint64_t abandoned;
    rota_engine *other = wire->other;
    for (uint32_t i = 0; i < wire->send_count; i++) {
        bool is_over;
        (void)other->vtable->cancel(other, wire->sends[i]);
        (void)other->vtable->test(other, wire->sends[i], &is_over);
    }
    rota_transport_close(wire->transport, rota_deadline_after(1000000000u), &abandoned);
    other->vtable->close(other);
}
