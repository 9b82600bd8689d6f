/* Waits until a submission is sequenced: what it waits for, is copied from and may skip has been decided. Its
 * number alone is known before that. */
#ifndef ROTA_TESTS_SEQUENCED_H
#define ROTA_TESTS_SEQUENCED_H

#include "base/clock.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"

static inline void test_sequenced(rota_ticket ticket) {
    uint64_t number = 0;
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (rota_ticket_number(ticket, &number) == ROTA_BUSY && rota_clock_ns() < deadline) test_nap_us(100);
    assert_true(number != 0);
    rota_sequencer_reap_now(ticket.runtime); /* a round that begins now is over */
}

#endif
