/* See cancelling.h. */
#include "tests/random/cancelling.h"

#include <sched.h>
#include <string.h>
#include "base/clock.h"
#include "base/futex.h"
#include "tests/kit/random.h"

bool cancelling_draw_deadline(uint64_t *random, rota_submit_options *options) {
    if (test_below(random, 6)) return false;
    options->deadline_ns = 1u << test_below(random, 22);
    return true;
}

bool cancelling_draw(cancelling *c, uint64_t *random, rota_ticket ticket) {
    if (test_below(random, 4)) return false;
    const uint32_t pause = test_below(random, 3);
    if (pause == 1) (void)sched_yield();
    if (pause == 2) rota_nap_until(rota_deadline_after(test_below(random, 200000)));
    c->asked++;
    if (rota_ticket_cancel(ticket) != ROTA_OK) return false; /* so that what comes of it is not allowed */
    if (test_below(random, 8) == 0) (void)rota_ticket_cancel(ticket);
    return true;
}

bool cancelling_allows(cancelling *c, rota_status status, bool asked) {
    switch (status) {
    case ROTA_OK:
        c->well++;
        return true;
    case ROTA_CANCELLED:
        if (strstr(rota_last_error(), "by its deadline")) c->late++;
        c->cancelled++;
        return asked && strstr(rota_last_error(), "was cancelled");
    case ROTA_NODE_FAILED:
        if (strstr(rota_last_error(), "its count is")) {
            c->exceeded++;
            return c->may_exceed;
        }
        c->inherited++;
        return strstr(rota_last_error(), "was cancelled") != NULL;
    default:
        return false;
    }
}
