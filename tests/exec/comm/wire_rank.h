/* A transport of two ranks of this process, whose other rank is the test: it sends what it likes. */
#ifndef ROTA_TESTS_EXEC_COMM_WIRE_RANK_H
#define ROTA_TESTS_EXEC_COMM_WIRE_RANK_H

#include "exec/comm/messages_parts.h"

enum { WIRE_SENDS_MOST = 64 };

typedef struct wire_rank {
    rota_transport *transport; /* rank 0's */
    rota_engine *other;        /* rank 1's */
    rota_engine_request *sends[WIRE_SENDS_MOST];
    uint32_t send_count;
} wire_rank;

/* False: there is no memory. */
bool wire_rank_open(wire_rank *wire, uint64_t timeout_ns);
/* The bytes stay until it is closed. False: they are not sent. */
bool wire_rank_send(wire_rank *wire, rota_messages_channel channel, const void *bytes, uint64_t size_bytes);
/* Rank 0 carries it out, for so many looks at the most, and is ended then. OK, or the status that it has ended with. */
rota_status wire_rank_carry_out(wire_rank *wire, const rota_collective *collective, uint32_t looks);
void wire_rank_close(wire_rank *wire);

#endif
