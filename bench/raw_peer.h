/* Two GPUs through the CUDA driver alone: copies from one to the other by cuMemcpyPeerAsync, and a chain of small nodes
 * that take turns, ordered by events. What `rota-bench peer` measures rota against. */
#ifndef ROTA_BENCH_RAW_PEER_H
#define ROTA_BENCH_RAW_PEER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct raw_peer raw_peer;

/* The GPUs of these numbers, with memory for copies of so many bytes. On failure, or in a build without CUDA's headers,
 * prints one sentence and returns NULL. */
raw_peer *raw_peer_create(uint32_t from, uint32_t to, uint64_t bytes);
void raw_peer_destroy(raw_peer *raw);

/* One copy of all bytes, filled with the word before; microseconds by the events around it. False with a sentence. */
bool raw_peer_copy(raw_peer *raw, uint32_t word, double *out_us);
/* So many turns, each of which waits for the one before by an event, brings `bytes` from the other GPU and copies them
 * on its own; microseconds a turn, by the host's clock. */
bool raw_peer_turns(raw_peer *raw, uint32_t turns, uint64_t bytes, double *out_us);
/* Whether what the last copy brought is that word throughout. */
bool raw_peer_check(raw_peer *raw, uint32_t word);

#endif
