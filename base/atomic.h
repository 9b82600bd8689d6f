/* C11 atomics behind names that say their order. Each operation is a stop: in a build with ROTA_TEST_STOPS every call
 * first runs the thread's stop hook, with which tests halt a thread exactly there.
 * In a release build the wrappers are the bare operations.
 *
 * rota uses acquire and release on the objects themselves and no free fences: a thread sanitizer does not see
 * fences. Where a store must be ordered before a later load (sleep flags), both sides use the seq_cst forms.
 *
 * Internal; not installed. */
#ifndef ROTA_BASE_ATOMIC_H
#define ROTA_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/prefetch.h"

#ifdef ROTA_NO_ATOMICS
#error                                                                                                       \
    "compiled once for the builds with stops and without: name this file in CMakeLists.txt's ROTA_PLAIN_SOURCES filter"
#endif

/* Defined where somebody must see each operation on an object that threads share, and none may be done by code that
 * does not go through here: who halts threads at stops, the thread sanitizer. */
#if defined(ROTA_TEST_STOPS) || defined(__SANITIZE_THREAD__)
#define ROTA_ATOMICS_ARE_SEEN 1
#endif

#ifdef ROTA_TEST_STOPS
/* A stop in the source. All of the program's stand, as pointers, between __start_rota_stops and
 * __stop_rota_stops; one in an inline function of a header stands there once for each file that uses it. */
typedef struct rota_stop_site {
    const char *file, *function;
    int line;
} rota_stop_site;
/* Called before each atomic operation of the calling thread while the thread's hook is set. */
typedef void (*rota_stop_fn)(void *user, const rota_stop_site *site);
extern _Thread_local rota_stop_fn rota_stop_hook;
extern _Thread_local void *rota_stop_user;
#define ROTA_STOP()                                                                                          \
    __extension__({                                                                                          \
        static const rota_stop_site rota_stop_site_ = {__FILE__, __func__, __LINE__};                        \
        static const rota_stop_site *const rota_stop_entry_ __attribute__((section("rota_stops"), used)) =   \
            &rota_stop_site_;                                                                                \
        if (rota_stop_hook) rota_stop_hook(rota_stop_user, &rota_stop_site_);                                \
    })
#else
#define ROTA_STOP() ((void)0)
#endif

#define ra_load_relaxed(p) (ROTA_STOP(), atomic_load_explicit((p), memory_order_relaxed))
#define ra_load_acquire(p) (ROTA_STOP(), atomic_load_explicit((p), memory_order_acquire))
#define ra_load_seq_cst(p) (ROTA_STOP(), atomic_load_explicit((p), memory_order_seq_cst))
#define ra_store_relaxed(p, v) (ROTA_STOP(), atomic_store_explicit((p), (v), memory_order_relaxed))
#define ra_store_release(p, v) (ROTA_STOP(), atomic_store_explicit((p), (v), memory_order_release))
#define ra_store_seq_cst(p, v) (ROTA_STOP(), atomic_store_explicit((p), (v), memory_order_seq_cst))
#define ra_exchange_acq_rel(p, v) (ROTA_STOP(), atomic_exchange_explicit((p), (v), memory_order_acq_rel))
#define ra_exchange_seq_cst(p, v) (ROTA_STOP(), atomic_exchange_explicit((p), (v), memory_order_seq_cst))
#define ra_fetch_add_relaxed(p, v) (ROTA_STOP(), atomic_fetch_add_explicit((p), (v), memory_order_relaxed))
#define ra_fetch_add_acq_rel(p, v) (ROTA_STOP(), atomic_fetch_add_explicit((p), (v), memory_order_acq_rel))
#define ra_fetch_add_seq_cst(p, v) (ROTA_STOP(), atomic_fetch_add_explicit((p), (v), memory_order_seq_cst))
#define ra_fetch_sub_release(p, v) (ROTA_STOP(), atomic_fetch_sub_explicit((p), (v), memory_order_release))
#define ra_fetch_sub_acq_rel(p, v) (ROTA_STOP(), atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel))
#define ra_fetch_or_acq_rel(p, v) (ROTA_STOP(), atomic_fetch_or_explicit((p), (v), memory_order_acq_rel))
#define ra_fetch_or_seq_cst(p, v) (ROTA_STOP(), atomic_fetch_or_explicit((p), (v), memory_order_seq_cst))
#define ra_fetch_and_seq_cst(p, v) (ROTA_STOP(), atomic_fetch_and_explicit((p), (v), memory_order_seq_cst))
/* Strong compare-and-swap; on failure *expected holds the value seen, loaded with acquire. */
#define ra_cas_acq_rel(p, expected, v)                                                                       \
    (ROTA_STOP(), atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel,        \
                                                          memory_order_acquire))
#define ra_cas_seq_cst(p, expected, v)                                                                       \
    (ROTA_STOP(), atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_seq_cst,        \
                                                          memory_order_seq_cst))

/* A hint that the cache line will soon be written. */
static inline void ra_prefetch(const void *address) {
    rota_prefetch_for_write(address);
}

/* A hint to the core inside a spin loop. */
static inline void ra_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
