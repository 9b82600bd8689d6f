/* What moves in a collective: pieces of so many elements that each rank's part fits in a cell, a round of messages a
 * piece, or two where it reduces for all. What goes out is copied into cells first, and what comes is used when all of
 * the round is there, so a piece may be written over its own input.
 *
 * all_reduce: rank k gets everybody's k-th part of the piece, combines them in ascending order of ranks, and sends the
 * result to all. So each sum is made once, on one rank, in one order, and each byte goes twice over the wire, as in a
 * ring. */
#include <string.h>

#include "exec/comm/elements.h"
#include "exec/comm/messages_parts.h"

static uint32_t bytes_each(const rota_messages *m) {
    return rota_collective_type_bytes(m->now.collective.type);
}
static uint8_t *outgoing(const rota_messages *m, uint32_t i) {
    return m->outgoing + m->cell_bytes * i;
}
static uint8_t *incoming(const rota_messages *m, uint32_t i) {
    return m->incoming + m->cell_bytes * i;
}

/* Elements [*out_first, + count) of the piece are rank i's. */
static uint64_t part(const rota_messages *m, uint32_t i, uint64_t *out_first) {
    const uint64_t piece = m->now.piece, most = (piece + m->base.size - 1) / m->base.size;
    const uint64_t first = most * i < piece ? most * i : piece;
    *out_first = first;
    return piece - first < most ? piece - first : most;
}

static void begin_piece(rota_messages *m) {
    const rota_collective *c = &m->now.collective;
    uint64_t most = m->cell_bytes / bytes_each(m);
    if (c->kind == ROTA_COLLECTIVE_ALL_REDUCE) most *= m->base.size;
    m->now.piece = c->count - m->now.position < most ? c->count - m->now.position : most;
    m->now.round = 0;
}

/* The first element of this piece: of an operand of one part, or of rank i's part of one that has a part for each. */
static uint8_t *address_of(const rota_messages *m, const void *operand, uint32_t i) {
    return (uint8_t *)(uintptr_t)operand + (m->now.collective.count * i + m->now.position) * bytes_each(m);
}

/* What this rank sends to all is copied once, into its own cell. */
static void stage(rota_messages *m) {
    const rota_collective *c = &m->now.collective;
    const bool sends = c->kind == ROTA_COLLECTIVE_ALL_GATHER || c->kind == ROTA_COLLECTIVE_SEND ||
                       (c->kind == ROTA_COLLECTIVE_BROADCAST && c->peer == m->base.rank);
    if (sends) memcpy(outgoing(m, m->base.rank), address_of(m, c->input, 0), m->now.piece * bytes_each(m));
}

/* Messages to and from rank i in this round. */
static rota_status begin_with(rota_messages *m, uint32_t i) {
    const rota_collective *c = &m->now.collective;
    const uint32_t each = bytes_each(m), self = m->base.rank;
    const void *from = outgoing(m, self), *copied = NULL;
    uint64_t out = m->now.piece, in = m->now.piece, first, own_first;
    const uint64_t others = part(m, i, &first), own = part(m, self, &own_first);
    switch (c->kind) {
    case ROTA_COLLECTIVE_ALL_REDUCE:
        out = m->now.round ? own : others;
        in = m->now.round ? others : own;
        if (!m->now.round) copied = address_of(m, c->input, 0) + first * each;
        break;
    case ROTA_COLLECTIVE_REDUCE_SCATTER:
    case ROTA_COLLECTIVE_ALL_TO_ALL:
        copied = address_of(m, c->input, i);
        break;
    case ROTA_COLLECTIVE_BROADCAST:
        if (c->peer != self) out = 0;
        if (c->peer != i) in = 0;
        break;
    case ROTA_COLLECTIVE_SEND:
        in = 0;
        break;
    case ROTA_COLLECTIVE_RECEIVE:
        out = 0;
        break;
    default:
        break;
    }
    if (copied) {
        memcpy(outgoing(m, i), copied, out * each);
        from = outgoing(m, i);
    }
    return rota_messages_exchange(m, ROTA_MESSAGES_MOVE, i, from, out * each, incoming(m, i), in * each);
}

static rota_status begin_round(rota_messages *m) {
    if (!m->now.round) stage(m);
    for (uint32_t i = 0; i < m->base.size; i++)
        if (rota_messages_has_part(m, i)) ROTA_TRY(begin_with(m, i));
    return ROTA_OK;
}

/* What all ranks sent of this rank's part, and its own, combined. */
static void combine(rota_messages *m, const void *own, uint64_t count, void *out) {
    const rota_collective *c = &m->now.collective;
    const uint32_t size = m->base.size;
    for (uint32_t i = 0; i < size; i++) m->sources[i] = i == m->base.rank ? own : incoming(m, i);
    rota_elements_combine(c->type, c->reduction, m->sources, size, count, out);
}

/* The results of a piece's last round. */
static void store(rota_messages *m) {
    const rota_collective *c = &m->now.collective;
    const uint32_t each = bytes_each(m), self = m->base.rank;
    uint64_t first, count;
    switch (c->kind) {
    case ROTA_COLLECTIVE_ALL_REDUCE:
        for (uint32_t i = 0; i < m->base.size; i++) {
            count = part(m, i, &first);
            memcpy(address_of(m, c->output, 0) + first * each, i == self ? outgoing(m, i) : incoming(m, i),
                   count * each);
        }
        return;
    case ROTA_COLLECTIVE_REDUCE_SCATTER:
        combine(m, address_of(m, c->input, self), m->now.piece, address_of(m, c->output, 0));
        return;
    case ROTA_COLLECTIVE_ALL_GATHER:
        for (uint32_t i = 0; i < m->base.size; i++)
            memcpy(address_of(m, c->output, i), i == self ? outgoing(m, i) : incoming(m, i),
                   m->now.piece * each);
        return;
    case ROTA_COLLECTIVE_ALL_TO_ALL:
        for (uint32_t i = 0; i < m->base.size; i++)
            memmove(address_of(m, c->output, i), i == self ? address_of(m, c->input, i) : incoming(m, i),
                    m->now.piece * each);
        return;
    case ROTA_COLLECTIVE_BROADCAST:
    case ROTA_COLLECTIVE_RECEIVE:
        memcpy(address_of(m, c->output, 0), c->peer == self ? outgoing(m, self) : incoming(m, c->peer),
               m->now.piece * each);
        return;
    default:
        return;
    }
}

rota_status rota_rounds_begin(rota_messages *m, bool *out_over) {
    m->now.position = 0;
    *out_over = m->now.collective.count == 0 || m->now.collective.kind == ROTA_COLLECTIVE_BARRIER;
    if (*out_over) return ROTA_OK;
    begin_piece(m);
    return begin_round(m);
}

rota_status rota_rounds_go_on(rota_messages *m, bool *out_over) {
    const rota_collective *c = &m->now.collective;
    *out_over = false;
    if (c->kind == ROTA_COLLECTIVE_ALL_REDUCE && m->now.round == 0) {
        uint64_t first;
        const uint64_t count = part(m, m->base.rank, &first);
        combine(m, address_of(m, c->input, 0) + first * bytes_each(m), count, outgoing(m, m->base.rank));
        m->now.round = 1;
        return begin_round(m);
    }
    store(m);
    m->now.position += m->now.piece;
    *out_over = m->now.position == c->count;
    if (*out_over) return ROTA_OK;
    begin_piece(m);
    return begin_round(m);
}
