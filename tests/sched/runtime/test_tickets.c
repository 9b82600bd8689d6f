/* Tickets that are none: made up, of another runtime, of an earlier open. They are refused by every call, and
 * nothing that they name is looked at. */
#include "tests/kit/runtime_support.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/atomic.h"

static _Atomic uint32_t calls;

static void count_call(void *user, rota_status status, const char *message) {
    (void)user;
    (void)status;
    (void)message;
    (void)ra_fetch_add_seq_cst(&calls, 1);
}

/* By each call that takes a ticket. */
static void expect_refused(rota_ticket ticket, rota_status expected) {
    uint64_t number = 1;
    int event = eventfd(0, EFD_NONBLOCK);
    assert_true(event >= 0);
    uint32_t before = ra_load_seq_cst(&calls);
    assert_status(rota_poll(ticket), expected);
    assert_status(rota_wait(ticket, 0), expected);
    assert_status(rota_wait(ticket, 1000000), expected);
    assert_status(rota_ticket_number(ticket, &number), expected);
    assert_true(number == 0);
    assert_status(rota_ticket_on_complete(ticket, count_call, NULL), expected);
    assert_status(rota_ticket_eventfd(ticket, event), expected);
    assert_status(rota_wait_inputs_taken(ticket, 0), expected);
    assert_int_equal(ra_load_seq_cst(&calls), before);
    uint64_t count;
    assert_int_equal(read(event, &count, sizeof count), -1);
    (void)close(event);
}

static void made_up_tickets_are_refused(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    rota_ticket ticket;
    for (int i = 0; i < 10; i++) assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    const uint64_t ids[] = {0,
                            1,
                            42,
                            1024,
                            5 * 1024 + 3,
                            (uint64_t)1 << 20,
                            UINT64_MAX,
                            UINT64_MAX >> 1,
                            ticket.id + 1,   /* of a lane that nobody has */
                            ticket.id ^ 777, /* likewise */
                            ticket.id + ((uint64_t)1 << 17) /* this thread's next one */,
                            ticket.id + ((uint64_t)1 << 40)};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        expect_refused((rota_ticket){f->runtime, ids[i]}, ROTA_INVALID_ARGUMENT);
    expect_refused((rota_ticket){NULL, ticket.id}, ROTA_INVALID_ARGUMENT);
    assert_ok(rota_poll(ticket));
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

/* A page that ends whoever looks at it stands for a runtime. */
static void what_is_no_runtime_is_not_followed(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    void *page = mmap(NULL, (size_t)1 << 22, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    expect_refused((rota_ticket){page, ticket.id}, ROTA_INVALID_ARGUMENT);
    expect_refused((rota_ticket){(rota_runtime *)(uintptr_t)8, ticket.id}, ROTA_INVALID_ARGUMENT);
    (void)munmap(page, (size_t)1 << 22);
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

static void tickets_of_others_are_refused(void **state) {
    runtime_fixture *f = *state, *other;
    void *second;
    (void)runtime_setup(&second);
    other = second;
    runtime_fixture *both[] = {f, other};
    rota_buffer *buffers[2];
    rota_plan *plans[2];
    rota_ticket tickets[2];
    for (int i = 0; i < 2; i++) {
        buffers[i] = test_words(both[i]->device, "x", 4, 0);
        plans[i] = test_plan_1(both[i]->device, "inc", &test_increment, buffers[i], ROTA_READWRITE);
        assert_ok(rota_submit_wait(plans[i], NULL, 0, &tickets[i]));
        assert_ok(rota_wait(tickets[i], 0));
    }
    expect_refused((rota_ticket){f->runtime, tickets[1].id}, ROTA_INVALID_ARGUMENT);
    expect_refused((rota_ticket){other->runtime, tickets[0].id}, ROTA_INVALID_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        assert_ok(rota_poll(tickets[i]));
        rota_plan_release(plans[i]);
        rota_buffer_release(buffers[i]);
    }
    /* Of a runtime that is closed, and of an earlier open of what is open again. */
    (void)runtime_teardown(&second);
    expect_refused(tickets[1], ROTA_WRONG_STATE);
    (void)runtime_setup(&second);
    other = second;
    if (other->runtime == tickets[1].runtime) expect_refused(tickets[1], ROTA_WRONG_STATE);
    (void)runtime_teardown(&second);
}

/* A thread whose submissions are taken has room for the next one at once, however many it makes: more than
 * any chunk of tickets holds. */
static void there_is_always_room(void **state) {
    const runtime_fixture *f = *state;
    enum { SUBMISSIONS = 1600 };
    rota_buffer *x = test_words(f->device, "x", 4, 0);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, x, ROTA_READWRITE);
    for (uint32_t i = 0; i < SUBMISSIONS; i++) {
        rota_ticket ticket;
        assert_ok(rota_submit(plan, NULL, &ticket)); /* BUSY neither */
        assert_ok(rota_wait(ticket, 0));
    }
    test_expect_words(x, 4, SUBMISSIONS);
    rota_plan_release(plan);
    rota_buffer_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_up_tickets_are_refused, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_runtime_is_not_followed, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(tickets_of_others_are_refused, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(there_is_always_room, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
