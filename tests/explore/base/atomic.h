/* base/atomic.h's operations as the explorer does them: this folder stands before the tree's in the include
 * path of what is explored. An operation that base/atomic.h gets and this file lacks does not compile there.
 *
 * Internal; tests only. */
#ifndef ROTA_BASE_ATOMIC_H
#define ROTA_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>
#include "tests/explore/explore.h"

#define ROTA_ATOMICS_ARE_SEEN 1
#define EXPLORE_SITE(name)                                                                                   \
    __extension__({                                                                                          \
        static const explore_site explore_site_ = {__FILE__, __func__, name, __LINE__};                      \
        &explore_site_;                                                                                      \
    })
#define EXPLORE_TYPE(p) __typeof__((void)0, *(p))
#define EXPLORE_WORD(p, v)                                                                                   \
    __extension__({                                                                                          \
        EXPLORE_TYPE(p) explore_value_ = (v);                                                                \
        (uint64_t)(uintptr_t) explore_value_;                                                                \
    })

#define EXPLORE_LOAD(p, order, name)                                                                         \
    ((EXPLORE_TYPE(p))(uintptr_t)explore_load((const volatile void *)(p), sizeof *(p), order,                \
                                              EXPLORE_SITE(name)))
#define EXPLORE_STORE(p, v, order, name)                                                                     \
    explore_store((volatile void *)(p), sizeof *(p), EXPLORE_WORD(p, v), order, EXPLORE_SITE(name))
#define EXPLORE_RMW(p, v, kind, order, name)                                                                 \
    ((EXPLORE_TYPE(p))(uintptr_t)explore_rmw((volatile void *)(p), sizeof *(p), kind, EXPLORE_WORD(p, v),    \
                                             order, EXPLORE_SITE(name)))
#define EXPLORE_CAS(p, expected, v, order, failure, name)                                                    \
    __extension__({                                                                                          \
        __typeof__(expected) explore_expected_ = (expected);                                                 \
        uint64_t explore_seen_ = (uint64_t)(uintptr_t)*explore_expected_;                                    \
        const _Bool explore_done_ = explore_cas((volatile void *)(p), sizeof *(p), &explore_seen_,           \
                                                EXPLORE_WORD(p, v), order, failure, EXPLORE_SITE(name));     \
        if (!explore_done_) *explore_expected_ = (EXPLORE_TYPE(p))(uintptr_t)explore_seen_;                  \
        explore_done_;                                                                                       \
    })

#define ra_load_relaxed(p) EXPLORE_LOAD(p, EXPLORE_RELAXED, "load relaxed")
#define ra_load_acquire(p) EXPLORE_LOAD(p, EXPLORE_ACQUIRE, "load acquire")
#define ra_load_seq_cst(p) EXPLORE_LOAD(p, EXPLORE_SEQ_CST, "load seq_cst")
#define ra_store_relaxed(p, v) EXPLORE_STORE(p, v, EXPLORE_RELAXED, "store relaxed")
#define ra_store_release(p, v) EXPLORE_STORE(p, v, EXPLORE_RELEASE, "store release")
#define ra_store_seq_cst(p, v) EXPLORE_STORE(p, v, EXPLORE_SEQ_CST, "store seq_cst")
#define ra_exchange_acq_rel(p, v) EXPLORE_RMW(p, v, EXPLORE_SET, EXPLORE_ACQ_REL, "exchange acq_rel")
#define ra_exchange_seq_cst(p, v) EXPLORE_RMW(p, v, EXPLORE_SET, EXPLORE_SEQ_CST, "exchange seq_cst")
#define ra_fetch_add_relaxed(p, v) EXPLORE_RMW(p, v, EXPLORE_ADD, EXPLORE_RELAXED, "add relaxed")
#define ra_fetch_add_acq_rel(p, v) EXPLORE_RMW(p, v, EXPLORE_ADD, EXPLORE_ACQ_REL, "add acq_rel")
#define ra_fetch_add_seq_cst(p, v) EXPLORE_RMW(p, v, EXPLORE_ADD, EXPLORE_SEQ_CST, "add seq_cst")
#define ra_fetch_sub_release(p, v) EXPLORE_RMW(p, v, EXPLORE_SUB, EXPLORE_RELEASE, "sub release")
#define ra_fetch_sub_acq_rel(p, v) EXPLORE_RMW(p, v, EXPLORE_SUB, EXPLORE_ACQ_REL, "sub acq_rel")
#define ra_fetch_or_acq_rel(p, v) EXPLORE_RMW(p, v, EXPLORE_OR, EXPLORE_ACQ_REL, "or acq_rel")
#define ra_fetch_or_seq_cst(p, v) EXPLORE_RMW(p, v, EXPLORE_OR, EXPLORE_SEQ_CST, "or seq_cst")
#define ra_fetch_and_seq_cst(p, v) EXPLORE_RMW(p, v, EXPLORE_AND, EXPLORE_SEQ_CST, "and seq_cst")
#define ra_cas_acq_rel(p, expected, v)                                                                       \
    EXPLORE_CAS(p, expected, v, EXPLORE_ACQ_REL, EXPLORE_ACQUIRE, "cas acq_rel")
#define ra_cas_seq_cst(p, expected, v)                                                                       \
    EXPLORE_CAS(p, expected, v, EXPLORE_SEQ_CST, EXPLORE_SEQ_CST, "cas seq_cst")

/* Of what no other thread uses yet. */
#undef atomic_init
#define atomic_init(p, v) ra_store_relaxed(p, v)

/* A hint only: what waits in a loop yields or sleeps, too. */
static inline void ra_pause(void) {}
static inline void ra_prefetch(const void *address) {
    (void)address;
}

#endif
