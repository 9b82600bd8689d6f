/* What the tests of cancelled tickets have in common. */
#include "tests/sched/runtime/cancel_kit.h"

#include <stdio.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "tests/kit/nap.h"

void expect_cancelled(rota_ticket ticket, const char *of, const char *when) {
    const rota_status status = rota_wait(ticket, 0);
    if (status != ROTA_CANCELLED)
        fail_msg("%s: the ticket is %s: %s", when, rota_status_name(status), rota_last_error());
    char said[128];
    (void)snprintf(said, sizeof said, "%s, submission ", of);
    expect_said(said);
    expect_said("was cancelled by a call");
}

void expect_inherited(rota_status status, const char *of, const char *when) {
    if (status != ROTA_NODE_FAILED) fail_msg("%s: %s: %s", when, rota_status_name(status), rota_last_error());
    char said[128];
    (void)snprintf(said, sizeof said, "%s, submission ", of);
    expect_said(said);
    expect_said("was cancelled by a call");
}

void expect_bad(rota_buffer *buffer, const char *of, const char *when) {
    uint32_t words[WORDS];
    memset(words, 0xee, sizeof words);
    expect_inherited(rota_buffer_read(buffer, 0, words, sizeof words), of, when);
    expect_untouched(words, WORDS, when);
}

void fill(rota_buffer *buffer, rota_device *device, uint32_t value) {
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = value;
    assert_ok(rota_buffer_write(buffer, device, 0, words, BYTES, NULL));
}

static _Atomic uint32_t stays, begun;

static rota_status stay(uint32_t *words, uint64_t bytes) {
    const uint64_t deadline = rota_deadline_after(2 * SOON_NS);
    ra_store_release(&begun, 1);
    while (ra_load_acquire(&stays) && rota_clock_ns() < deadline) test_nap_us(50);
    for (uint64_t i = 0; i < bytes / 4; i++) words[i] = 7;
    return ROTA_OK;
}
static rota_status stay_host(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)user, (void)count;
    return stay(operands[0], bytes[0]);
}
static rota_status stay_call(const rota_kernel_call *call) {
    return stay(call->operands[0], call->operand_bytes[0]);
}
static const rota_kernel stay_kernel = {.name = "stay", .operand_count = 1, .cpu = {.fn = stay_call}};

void add_stay(sketch *s, rota_device *cpu, bool is_host, rota_buffer *x) {
    const rota_access access = {x, 0, ROTA_WHOLE, ROTA_WRITE};
    rota_host_node host = ROTA_HOST_NODE(stay_host, NULL, "stay", &access, 1);
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &stay_kernel, .accesses = &access, .access_count = 1,
                                             .placement = {.device_plus_1 = number_of(s, cpu)});
    assert_ok(is_host ? rota_record_host(s->recorder, &host, NULL)
                      : rota_record_kernel(s->recorder, &node, NULL));
}

void hold_nodes(void) {
    ra_store_release(&begun, 0);
    ra_store_release(&stays, 1);
}

void let_nodes_go(void) {
    ra_store_release(&stays, 0);
}

void until_begun(void) {
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!ra_load_acquire(&begun) && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(ra_load_acquire(&begun), 1);
}

void on_each(case_fn fn) {
    house *h = open_house(false);
    for (uint32_t k = 0; k < KINDS; k++)
        if (h->devices[k]) fn(h, h->devices[k], ids[k]);
    close_house(h);
}

rota_external_timeline *timeline_of(const house *h) {
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(h->runtime, "frames", &timeline));
    return timeline;
}

rota_ticket submit_after(rota_plan *plan, rota_args *args, rota_external_timeline *timeline) {
    const rota_external_point point = {timeline, 1};
    rota_ticket ticket;
    assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.args = args, .after = &point, .after_count = 1),
                               &ticket));
    return ticket;
}

rota_ticket submit(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    return ticket;
}
