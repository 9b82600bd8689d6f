/* What belongs to a thread of the runtime is called by that thread alone: a call from another one ends the program, in
 * builds that have assertions. So does a plan that takes another's residency for its own. */
#include "tests/kit/runtime_support.h"

#include <unistd.h>
#include "base/assert.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/completer/callbacks.h"
#include "sched/runtime/completer/completer.h"
#include "sched/runtime/completer/rescue.h"
#include "sched/runtime/order/chain.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/sequencer/last_use.h"
#include "sched/runtime/sequencer/sequencer.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/blocked.h"
#include "sched/runtime/submitter/submitter.h"
#include "tests/kit/assertion.h"

static void sequence(rota_runtime *runtime) {
    (void)rota_sequencer_round(runtime->sequencer);
}
static void sweep(rota_runtime *runtime) {
    rota_reclaim_sweep(runtime->sequencer, NULL);
}
static void want(rota_runtime *runtime) {
    rota_chain_want(runtime->sequencer, &runtime->sequencer->wanted, ROTA_POINT_PASSED);
}
static void look_at_held(rota_runtime *runtime) {
    (void)rota_blocked_any_ready(runtime->devices[0]->submitter);
}
static void watch_callbacks(rota_runtime *runtime) {
    (void)rota_callbacks_watch(runtime->completer);
}
static void rescue(rota_runtime *runtime) {
    rota_linked_rescue(runtime->completer);
}

/* A residency that a plan's replays own becomes another plan's, which was not given it. */
static void own_anothers(rota_runtime *runtime) {
    enum { BUFFERS = 8 }; /* as many externals as are worth owning */
    rota_buffer *buffers[BUFFERS];
    test_node nodes[BUFFERS];
    rota_ticket ticket;
    for (uint32_t i = 0; i < BUFFERS; i++) {
        buffers[i] = test_words(runtime->devices[0], "x", 16, i);
        nodes[i] = (test_node){&test_increment, "step", {{buffers[i], 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
    }
    rota_plan *owner = test_plan(runtime->devices[0], "owner", nodes, BUFFERS),
              *other = test_plan(runtime->devices[0], "other", nodes, BUFFERS);
    if (rota_submit_wait(owner, NULL, 0, &ticket) != ROTA_OK || rota_wait(ticket, 0) != ROTA_OK) _exit(1);
    rota_residency *residency = buffers[0]->residency;
    if (!residency->owner) _exit(2);
    rota_replay_own(other->executable, residency);
}

typedef void (*call)(rota_runtime *runtime);

/* With a runtime, whose threads run. NULL: no call. */
static void in_a_runtime(void *user) {
    const call *fn = user;
    rota_runtime *runtime;
    rota_device *device;
    if (rota_runtime_open(NULL, &runtime) != ROTA_OK || rota_device_open(runtime, "cpu", &device) != ROTA_OK)
        _exit(1);
    if (*fn) (*fn)(runtime);
}

static void a_call_from_another_thread_ends_the_program(void **state) {
    (void)state;
    if (!ROTA_ASSERTIONS) skip(); /* such calls are races then */
    assert_false(test_is_an_assertion(in_a_runtime, &(call){NULL}));
    call calls[] = {sequence, sweep, want, look_at_held, watch_callbacks, rescue};
    for (uint32_t i = 0; i < sizeof calls / sizeof *calls; i++)
        assert_true(test_is_an_assertion(in_a_runtime, &calls[i]));
}

static void a_residency_has_one_owner(void **state) {
    (void)state;
    if (!ROTA_ASSERTIONS) skip();
    assert_true(test_is_an_assertion(in_a_runtime, &(call){own_anothers}));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_call_from_another_thread_ends_the_program),
                                       cmocka_unit_test(a_residency_has_one_owner)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
