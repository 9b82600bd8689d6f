/* An application that cancels at random: what may be said of a ticket, or of bytes, then. */
#ifndef ROTA_TESTS_CANCELLING_H
#define ROTA_TESTS_CANCELLING_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/submit.h"

/* How often each was seen. */
typedef struct cancelling {
    uint64_t asked, cancelled, late, inherited, exceeded, well, healed;
    bool may_exceed; /* counts may be too high, which may be the cause as well */
} cancelling;

/* Now and then the submission has a deadline that it may not keep. Whether it may be cancelled. */
bool cancelling_draw_deadline(uint64_t *random, rota_submit_options *options);
/* Now and then the ticket is cancelled, at once or after a while. Whether it may be. */
bool cancelling_draw(cancelling *c, uint64_t *random, rota_ticket ticket);
/* Whether that may be said of a ticket, `asked`: that may be cancelled; or of what such a one may have written. With
 * the sentence in rota_last_error. What is said to be well must be right, and is compared by the caller. */
bool cancelling_allows(cancelling *c, rota_status status, bool asked);

#endif
