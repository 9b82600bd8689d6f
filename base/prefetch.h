/* Asking for a cache line before it is needed. Internal; not installed.
 *
 * To gcc a function that does nothing but ask is one without effect, and its calls, with the loops around them, are
 * taken out: a compile asked for no buffer early for that. The empty statement is an effect, which costs no
 * instruction. */
#ifndef ROTA_BASE_PREFETCH_H
#define ROTA_BASE_PREFETCH_H

static inline void rota_prefetch(const void *address) {
    __builtin_prefetch(address);
    __asm__ volatile("");
}

/* The line will be written. */
static inline void rota_prefetch_for_write(const void *address) {
    __builtin_prefetch(address, 1);
    __asm__ volatile("");
}

#endif
