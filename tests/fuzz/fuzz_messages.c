/* Messages of another rank: each a byte that says of which channel, two that say how long, and its bytes. The rank that
 * gets them is at an all_reduce, and before looks at what lies ahead where the first byte of all is odd. It ends well
 * or with a sentence. */
#include "tests/exec/comm/wire_rank.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wire_rank wire;
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const rota_collective c = {.kind = ROTA_COLLECTIVE_ALL_REDUCE,
                               .type = ROTA_COLLECTIVE_F32,
                               .count = 8,
                               .input = x,
                               .output = x,
                               .name = "x"};
    const bool looks_ahead = size && (data[0] & 1);
    if (!wire_rank_open(&wire, 1000000000u)) return 0;
    for (size_t i = 1; i + 3 <= size;) {
        const size_t left = size - i - 3, told = (size_t)data[i + 1] | (size_t)data[i + 2] << 8;
        const size_t length = told < left ? told : left;
        if (!wire_rank_send(&wire, (rota_messages_channel)(data[i] % ROTA_MESSAGES_DRAIN), data + i + 3,
                            length))
            break;
        i += 3 + length;
    }
    if (looks_ahead) {
        const rota_announcement *said;
        (void)wire.transport->vtable->ahead(wire.transport, 1, &said);
        if (said) FUZZ_CHECK(said->order_count <= ROTA_COLLECTIVE_ORDERS);
    }
    const rota_status status = wire_rank_carry_out(&wire, &c, 64);
    FUZZ_CHECK(status == ROTA_OK || (status == ROTA_NODE_FAILED && rota_last_error()[0]));
    wire_rank_close(&wire);
    return 0;
}
