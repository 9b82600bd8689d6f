/* What belongs to a thread of the runtime is called by that thread alone: a call from another one ends the program, in
 * builds that have assertions. So does a plan that takes another's residency for its own. */
#include "tests/kit/runtime_support.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
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

/* In a process of its own, with a runtime of its own, whose threads run. */
static int status_of(call fn) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        (void)signal(SIGABRT, SIG_DFL);
        (void)freopen("/dev/null", "w", stderr);
        rota_runtime *runtime;
        rota_device *device;
        if (rota_runtime_open(NULL, &runtime) != ROTA_OK ||
            rota_device_open(runtime, "cpu", &device) != ROTA_OK)
            _exit(1);
        if (fn) fn(runtime);
        _exit(7);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_call_from_another_thread_ends_the_program(void **state) {
    (void)state;
    if (!ROTA_ASSERTIONS) skip(); /* such calls are races then */
    int status = status_of(NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    static const call calls[] = {sequence, sweep, want, look_at_held, watch_callbacks, rescue};
    for (uint32_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        status = status_of(calls[i]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

static void a_residency_has_one_owner(void **state) {
    (void)state;
    if (!ROTA_ASSERTIONS) skip();
    const int status = status_of(own_anothers);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_call_from_another_thread_ends_the_program),
                                       cmocka_unit_test(a_residency_has_one_owner)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
