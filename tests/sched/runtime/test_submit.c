/* rota_submit_with: what its options say, what it refuses, and callers built with another version. */
#include <stddef.h>
#include <string.h>
#include "tests/kit/runtime_support.h"

static void options_say_how_to_submit(void **state) {
    rota_device *device = ((runtime_fixture *)*state)->device;
    rota_buffer *x = test_words(device, "x", 16, 0);
    rota_plan *increment = test_plan_1(device, "increment", &test_increment, x, ROTA_READWRITE);
    rota_ticket ticket;
    assert_ok(rota_submit_with(increment, NULL, &ticket));
    assert_ok(rota_submit_with(increment, &ROTA_SUBMIT_OPTIONS(.no_wait = true), &ticket));
    assert_ok(rota_submit_with(increment, &ROTA_SUBMIT_OPTIONS(.timeout_ns = 1000000000), &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(x, 16, 3);
    /* Refused, and nothing submitted. */
    ticket.id = 7;
    assert_status(
        rota_submit_with(increment, &ROTA_SUBMIT_OPTIONS(.no_wait = true, .timeout_ns = 5), &ticket),
        ROTA_INVALID_ARGUMENT);
    expect_said("no_wait");
    assert_int_equal(ticket.id, 0);
    assert_status(rota_submit_with(NULL, NULL, NULL), ROTA_INVALID_ARGUMENT);
    assert_status(rota_submit_with(increment, &(rota_submit_options){.no_wait = true}, NULL),
                  ROTA_INVALID_ARGUMENT);
    expect_said("ROTA_SUBMIT_OPTIONS");
    /* Of a program that was built when there were fewer, and of one that knows more. */
    struct {
        rota_submit_options known;
        uint64_t later;
    } options = {.known = ROTA_SUBMIT_OPTIONS(.no_wait = true)};
    options.known.struct_size = offsetof(rota_submit_options, no_wait);
    assert_ok(rota_submit_with(increment, &options.known, NULL));
    options.known.struct_size = sizeof options;
    assert_ok(rota_submit_with(increment, &options.known, NULL));
    options.later = 1;
    assert_status(rota_submit_with(increment, &options.known, NULL), ROTA_INVALID_ARGUMENT);
    test_expect_words(x, 16, 5);
    rota_plan_release(increment);
    rota_buffer_release(x);
}

/* BUSY at once, TIMEOUT after a while, and a place as soon as there is one. */
static void without_room(void **state) {
    rota_device *device = ((runtime_fixture *)*state)->device;
    rota_buffer *gate = test_words(device, "gate", 1, 0);
    rota_plan *gated = test_plan_1(device, "gated", &test_gate, gate, ROTA_READWRITE);
    rota_ticket ticket;
    test_gate_open(false);
    assert_ok(rota_submit_with(gated, NULL, NULL));
    test_gates_running(1);
    uint32_t submitted = 0;
    const uint64_t deadline = rota_deadline_after(20000000000u);
    rota_status status = ROTA_OK;
    while (rota_clock_ns() < deadline) {
        status = rota_submit_with(gated, &ROTA_SUBMIT_OPTIONS(.no_wait = true), NULL);
        if (status == ROTA_OK) submitted++;
        if (status == ROTA_BUSY && strstr(rota_last_error(), "works unfinished")) break;
    }
    assert_int_equal(status, ROTA_BUSY);
    expect_said("works unfinished");
    assert_status(rota_submit_with(gated, &ROTA_SUBMIT_OPTIONS(.timeout_ns = 20000000), &ticket),
                  ROTA_TIMEOUT);
    assert_int_equal(ticket.id, 0);
    test_gate_open(true);
    assert_ok(rota_submit_with(gated, NULL, &ticket));
    assert_ok(rota_wait(ticket, 0));
    assert_true(submitted > 256);
    rota_plan_release(gated);
    rota_buffer_release(gate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(options_say_how_to_submit, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(without_room, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
