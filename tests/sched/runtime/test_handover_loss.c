/* A device is lost while another one's submit thread looks at a work that waits for it and hands that over:
 * at each atomic operation of that thread in turn. The lost device is at its works still and gets through
 * with them only when the work has read: what that read is not to pass for good. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/nap.h"
#include "tests/kit/sequenced.h"
#include "tests/sched/runtime/across_kit.h"

typedef struct strike {
    rota_device *first, *second;
    uint32_t operation, seen; /* operations of the submit thread, from its first look on */
    _Atomic bool armed, struck, submitted;
} strike;

static strike now;

static bool is_through(const rota_device *device) {
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (atomic_load(&device->timelines[q].completed) < atomic_load(&device->timelines[q].handed_over))
            return false;
    return true;
}

static void wait_until_through(const rota_device *device, uint32_t ms) {
    const uint64_t deadline = rota_deadline_after(ms * 1000000u);
    while (!is_through(device) && rota_clock_ns() < deadline) test_nap_us(100);
}

static void at_stop(void *user, const rota_stop_site *site) {
    strike *s = user;
    if (!atomic_load(&s->armed)) return;
    if (s->seen == 0 && strcmp(site->function, "rota_device_is_lost") != 0) return;
    if (s->seen++ != s->operation) return;
    rota_stop_hook = NULL;
    atomic_store(&s->armed, false);
    rota_device_set_lost(s->first, "given up by the test");
    /* What waited on the device before has been let go, unless this thread keeps the gate. */
    wait_until_through(s->second, 50);
    test_nap_ms(2);
    atomic_store(&s->struck, true);
}

static void on_submit(void *user, uint32_t device) {
    strike *s = user;
    if (device != 1) return;
    rota_stop_user = s;
    rota_stop_hook = at_stop;
    if (!atomic_exchange(&s->armed, false)) return;
    rota_stop_hook = NULL;
    atomic_store(&s->submitted, true);
}

/* On the first device: x += 1, behind the gate. */
static rota_status late(const rota_kernel_call *call) {
    ROTA_TRY(test_gate.cpu.fn(call));
    uint32_t *x = call->operands[0];
    for (uint32_t i = 0; i < WORDS; i++) x[i]++;
    return ROTA_OK;
}
static const rota_kernel late_kernel = {.name = "late", .operand_count = 1, .cpu = {.fn = late}};

/* On the second: reads, and only then the first, where it was lost, gets through. */
static rota_status read_early(const rota_kernel_call *call) {
    memcpy(call->operands[1], call->operands[0], WORDS * 4);
    if (!atomic_load(&now.struck)) return ROTA_OK;
    test_gate_open(true);
    wait_until_through(now.first, 2000);
    return ROTA_OK;
}
static const rota_kernel read_early_kernel = {
    .name = "read early", .operand_count = 2, .cpu = {.fn = read_early}};

/* x is written late, and copied to y; where the second device waits for that itself, the copy is with it. */
static void begin_copy(pair *p, rota_plan *copy, bool on_device) {
    const uint64_t before = p->options.timeline_waits;
    const uint64_t deadline = rota_deadline_after(5000000000u);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(copy, NULL, 0, &ticket));
    test_sequenced(ticket);
    while (on_device && p->options.timeline_waits == before && rota_clock_ns() < deadline) test_nap_us(100);
}

/* False: the work was with its device before that operation. */
static bool loss_at(uint32_t operation, bool on_device) {
    pair *p = open_pair(7, 10000000000u, on_device ? 0 : 1);
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, 1);
    rota_buffer *y = test_words(p->devices[1], "y", WORDS, 1), *v = test_words(p->devices[1], "v", WORDS, 1);
    rota_plan *writer = test_plan_1(p->devices[0], "writer", &late_kernel, x, ROTA_READWRITE);
    rota_plan *copy = test_plan_copy_kernel(p->devices[1], "copy", x, y);
    test_node node = {
        &read_early_kernel, "read early", {{x, 0, ROTA_WHOLE, ROTA_READ}, {v, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *reader = test_plan(p->devices[1], "reader", &node, 1);
    rota_ticket ticket;
    memset((void *)&now, 0, sizeof now);
    now.first = p->devices[0];
    now.second = p->devices[1];
    now.operation = operation;
    p->options.on_submit_user = &now;
    atomic_store(&p->options.on_submit, on_submit);
    /* Once round: from then on the first signals what the second waits for. */
    test_gate_open(false);
    assert_ok(rota_submit_wait(writer, NULL, 0, NULL));
    begin_copy(p, copy, false);
    assert_ok(rota_submit_wait(reader, NULL, 0, &ticket));
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    test_gate_open(false);
    assert_ok(rota_submit_wait(writer, NULL, 0, NULL));
    if (on_device) begin_copy(p, copy, true);
    atomic_store(&now.armed, true);
    assert_ok(rota_submit_wait(reader, NULL, 0, &ticket));
    const uint64_t deadline = rota_deadline_after(5000000000u);
    while (!atomic_load(&now.struck) && !atomic_load(&now.submitted) && rota_clock_ns() < deadline)
        test_nap_us(100);
    const bool struck = atomic_load(&now.struck);
    assert_true(struck || atomic_load(&now.submitted));
    if (!struck) test_gate_open(true);
    const rota_status status = rota_wait(ticket, 0), wanted = struck ? ROTA_DEVICE_LOST : ROTA_OK;
    if (status != wanted)
        fail_msg("lost at operation %u: the ticket says %s", operation, rota_status_name(status));
    static uint32_t words[WORDS];
    assert_status(rota_buffer_read(v, 0, words, sizeof words), wanted);
    for (uint32_t w = 0; !struck && w < WORDS; w++) assert_int_equal(words[w], 3);
    test_gate_open(true);
    rota_plan *plans[] = {writer, copy, reader};
    rota_buffer *buffers[] = {x, y, v};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    /* Memory that the lost device has of the other one's may stay. */
    assert_ok(rota_runtime_close(p->runtime, 5000000000u));
    if (p->options.violations) fail_msg("%s", p->options.violation);
    free(p);
    return struck;
}

/* A runtime takes long to open under the thread sanitizer, which looks for something else here. */
#ifdef __SANITIZE_THREAD__
enum { STEP = 5 };
#else
enum { STEP = 1 };
#endif

static void waits_on_the_device(void **state) {
    (void)state;
    uint32_t operation = 0;
    while (operation < 200 && loss_at(operation, true)) operation += STEP;
    assert_in_range(operation, 10, 199);
}

/* The thread goes on looking: more operations than one look has. */
static void waits_of_the_host(void **state) {
    (void)state;
    for (uint32_t operation = 0; operation < 12; operation += STEP) assert_true(loss_at(operation, false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_on_the_device),
        cmocka_unit_test(waits_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
