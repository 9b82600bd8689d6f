/* The thread that calls tickets' callbacks, one after the other. A callback may take any time and may call
 * into the runtime: only other callbacks wait for it, and close, to its deadline. The completer, which gives
 * them here, looks at how long one takes, and says so in the log. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "sched/runtime/completer/callbacks.h"
#include "sched/runtime/completer/completer.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/ticket_state.h"

#define LONG_NS 1000000000u

bool rota_callbacks_watch(rota_completer *completer) {
    rota_runtime *runtime = completer->runtime;
    rota_assert_completer(completer);
    /* Acquire: the two others are this callback's, or a later one's, which then shows below. */
    const uint64_t since = ra_load_acquire(&runtime->callbacks.since_ns);
    if (since == 0) return !rota_stack_seems_empty_upmc(&runtime->callbacks.calls);
    const uint64_t now = rota_clock_ns();
    if (now - since < LONG_NS || completer->call_named_ns == since) return true;
    const uintptr_t fn = ra_load_acquire(&runtime->callbacks.fn);
    const uint64_t number = ra_load_acquire(&runtime->callbacks.number);
    if (ra_load_acquire(&runtime->callbacks.since_ns) != since) return true;
    completer->call_named_ns = since;
    rota_log_write(
        &runtime->options.log, ROTA_LOG_WARNING,
        "the callback 0x%llx of submission %llu has run for %.3f s: callbacks of other tickets wait for it",
        (unsigned long long)fn, (unsigned long long)number, (double)(now - since) * 1e-9);
    return true;
}

static void call(rota_runtime *runtime, rota_completion *completion) {
    uint64_t number = 0;
    (void)rota_ticket_point(completion->u.watch.ticket, &number); /* 0: it is no longer known */
    /* Each releases that the callback before has ended to the loads in rota_callbacks_watch. */
    ra_store_release(&runtime->callbacks.number, number);
    ra_store_release(&runtime->callbacks.fn, (uintptr_t)completion->u.watch.fn);
    ra_store_release(&runtime->callbacks.since_ns, rota_clock_ns());
    completion->u.watch.fn(completion->u.watch.user, completion->u.watch.status,
                           completion->u.watch.message ? completion->u.watch.message : "");
    ra_store_release(&runtime->callbacks.since_ns, 0);
    free(completion->u.watch.message);
    free(completion);
}

static void call_all(rota_runtime *runtime) {
    /* With rota_callbacks_push. */
    rota_stack_entry *entry = rota_stack_turned(rota_stack_take_upmc(&runtime->callbacks.calls));
    while (entry) {
        rota_completion *completion = ROTA_STACK_OBJECT(entry, rota_completion, entry);
        entry = entry->next;
        call(runtime, completion);
    }
}

void *rota_callbacks_main(void *user) {
    rota_runtime *runtime = user;
    /* Acquire: the order to stop comes after the completer's end, and so after its last push. */
    while (!ra_load_acquire(&runtime->callbacks.stop)) {
        call_all(runtime);
        rota_sleeper_prepare(&runtime->callbacks.sleeper);
        if (!rota_stack_is_empty_upmc(&runtime->callbacks.calls) || ra_load_seq_cst(&runtime->callbacks.stop))
            rota_sleeper_cancel(&runtime->callbacks.sleeper);
        else
            rota_sleeper_wait(&runtime->callbacks.sleeper, rota_deadline_after(1000000000u));
    }
    call_all(runtime);
    ra_store_release(&runtime->callbacks.thread_ended, 1); /* with rota_runtime_close */
    return NULL;
}
