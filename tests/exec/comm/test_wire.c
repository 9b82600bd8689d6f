/* What comes from another rank is not believed: counts, kinds, numbers of ranks and sizes that can't be, as a damaged
 * memory, another build or a stranger sends them, end the communicator with a sentence that says what was wrong. */
#include <stdio.h>

#include "exec/comm/drain.h"
#include "exec/comm/threads.h"
#include "tests/exec/comm/wire_rank.h"
#include "tests/kit/support.h"

static const uint64_t timeout_ns = 30000000000u;

static const rota_collective barrier = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "together"};

/* What rank 1 would say, and so many bytes of it. */
static rota_announcement announced(void) {
    rota_announcement said;
    rota_announce(&barrier, 1, &said);
    return said;
}

/* Rank 0 is at the barrier, and hears this of it. */
static void expect_refused(const void *bytes, uint64_t size_bytes, const char *text) {
    wire_rank wire;
    assert_true(wire_rank_open(&wire, timeout_ns));
    assert_true(wire_rank_send(&wire, ROTA_MESSAGES_AGREE, bytes, size_bytes));
    assert_int_equal(wire_rank_carry_out(&wire, &barrier, 1000), ROTA_NODE_FAILED);
    if (!strstr(rota_last_error(), text) || !strstr(rota_last_error(), "communicator 'wire'"))
        fail_msg("not '%s': %s", text, rota_last_error());
    wire_rank_close(&wire);
}

static void one_that_is_right(void **state) {
    (void)state;
    wire_rank wire;
    rota_announcement said = announced();
    assert_true(wire_rank_open(&wire, timeout_ns));
    assert_true(wire_rank_send(&wire, ROTA_MESSAGES_AGREE, &said, rota_announcement_bytes(&said)));
    assert_ok(wire_rank_carry_out(&wire, &barrier, 1000));
    wire_rank_close(&wire);
}

static void counts_of_orders(void **state) {
    (void)state;
    rota_announcement said = announced();
    const uint64_t bare = rota_announcement_bytes(&said);
    said.order_count = UINT32_MAX;
    expect_refused(
        &said, bare,
        "rank 1 says of its collective makes no sense: its number of other communicators is 4294967295, "
        "expected 16 at the most");
    said.order_count = ROTA_COLLECTIVE_ORDERS + 1;
    expect_refused(&said, sizeof said, "is 17, expected 16 at the most");
    /* Fewer came than it says. */
    for (uint32_t i = 0; i < ROTA_COLLECTIVE_ORDERS; i++) said.orders[i].communicator = 7 + i;
    said.order_count = 3;
    expect_refused(&said, bare + sizeof *said.orders, "is 3, expected 1 at the most");
}

static void fields_of_one(void **state) {
    (void)state;
    rota_announcement said = announced();
    const uint64_t bytes = rota_announcement_bytes(&said);
    said.kind = ROTA_COLLECTIVE_KIND_COUNT;
    expect_refused(&said, bytes, "its kind is 8, expected 7 at the most");
    said = announced();
    said.type = UINT32_MAX;
    expect_refused(&said, bytes, "its type is 4294967295");
    said = announced();
    said.reduction = 1000;
    expect_refused(&said, bytes, "its reduction is 1000");
    said = announced();
    said.peer = 2;
    expect_refused(&said, bytes, "its peer is 2, expected 1 at the most");
    said = announced();
    said.is_end = 2;
    expect_refused(&said, bytes, "its end flag is 2");
    said = announced();
    memset(said.name, 'x', sizeof said.name); /* without an end */
    memset(said.graph, 'y', sizeof said.graph);
    memset(said.lane, 'z', sizeof said.lane);
    said.index = said.list_count = 1;
    expect_refused(&said, bytes, "the ranks' collectives differ");
}

static void sizes_of_messages(void **state) {
    (void)state;
    static const uint8_t large[sizeof(rota_announcement) + 1];
    rota_announcement said = announced();
    const uint64_t bytes = rota_announcement_bytes(&said);
    char expected[96];
    snprintf(expected, sizeof expected, "a message of rank 1 has %zu bytes, expected %llu to %zu",
             sizeof large, (unsigned long long)bytes, sizeof said);
    expect_refused(large, sizeof large, expected);
    snprintf(expected, sizeof expected, "has %llu bytes, expected %llu to", (unsigned long long)bytes - 1,
             (unsigned long long)bytes);
    expect_refused(&said, bytes - 1, expected);
    expect_refused(NULL, 0, "a message of rank 1 has 0 bytes");
}

/* A farewell that is cut, or empty, has no cause that could be read, and a result no elements. */
static void shorter_than_wanted(void **state) {
    (void)state;
    wire_rank wire;
    rota_messages_farewell farewell = {.is_failure = 1};
    assert_true(wire_rank_open(&wire, timeout_ns));
    assert_true(wire_rank_send(&wire, ROTA_MESSAGES_END, &farewell, sizeof farewell));
    assert_int_equal(wire_rank_carry_out(&wire, &barrier, 1000), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "communicator 'wire': rank 1 ended it, and does not say why"));
    wire_rank_close(&wire);

    (void)snprintf(farewell.cause, sizeof farewell.cause, "this is not to be read");
    assert_true(wire_rank_open(&wire, timeout_ns));
    assert_true(wire_rank_send(&wire, ROTA_MESSAGES_END, &farewell, sizeof farewell - 1));
    assert_int_equal(wire_rank_carry_out(&wire, &barrier, 1000), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "a message of rank 1 has"));
    wire_rank_close(&wire);

    uint32_t elements[4] = {1, 2, 3, 4}, result[4] = {0};
    const rota_collective c = {.kind = ROTA_COLLECTIVE_BROADCAST,
                               .type = ROTA_COLLECTIVE_U32,
                               .peer = 1,
                               .count = 4,
                               .input = result,
                               .output = result,
                               .name = "cut"};
    rota_announcement said;
    rota_announce(&c, 1, &said);
    assert_true(wire_rank_open(&wire, timeout_ns));
    assert_true(wire_rank_send(&wire, ROTA_MESSAGES_AGREE, &said, rota_announcement_bytes(&said)));
    assert_true(wire_rank_send(&wire, ROTA_MESSAGES_MOVE, elements, sizeof elements - 4));
    assert_int_equal(wire_rank_carry_out(&wire, &c, 1000), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "a message of rank 1 has 12 bytes, expected 16 to 16"));
    assert_int_equal(result[0], 0);
    wire_rank_close(&wire);
}

/* The same where it came before this rank is there, and another one of the process waits and looks. */
static void what_lies_ahead(void **state) {
    (void)state;
    wire_rank wire;
    rota_announcement said = announced();
    const uint64_t bytes = rota_announcement_bytes(&said);
    said.order_count = 1u << 31;
    assert_true(wire_rank_open(&wire, timeout_ns));
    assert_true(wire_rank_send(&wire, ROTA_MESSAGES_AGREE, &said, bytes));
    const rota_announcement *found;
    assert_status(wire.transport->vtable->ahead(wire.transport, 1, &found), ROTA_NODE_FAILED);
    if (!strstr(rota_last_error(), "makes no sense")) fail_msg("%s", rota_last_error());
    assert_null(found);
    assert_ok(wire.transport->vtable->ahead(wire.transport, 1, &found)); /* it has ended, and says so once */
    assert_null(found);
    assert_int_equal(wire_rank_carry_out(&wire, &barrier, 1000), ROTA_NODE_FAILED);
    if (!strstr(rota_last_error(), "makes no sense")) fail_msg("%s", rota_last_error());
    wire_rank_close(&wire);
}

/* ---- The drain's ---- */

/* Rank 1 names these as what rank 0 is to take, where it may name two. */
static void expect_drain_refused(uint32_t count, const uint32_t *names, uint64_t name_bytes,
                                 const char *text) {
    rota_engine *engines[2];
    rota_engine_request *sends[2] = {NULL};
    bool is_over;
    assert_ok(rota_threads_open(2, engines));
    rota_drain *drain = rota_drain_begin(engines[0], NULL, 0, 2);
    assert_non_null(drain);
    assert_ok(engines[1]->vtable->send(engines[1], 0, ROTA_MESSAGES_DRAIN, &count, sizeof count, &sends[0]));
    if (names)
        assert_ok(engines[1]->vtable->send(engines[1], 0, ROTA_MESSAGES_DRAIN, names, name_bytes, &sends[1]));
    for (uint32_t i = 0; i < 10; i++) assert_false(rota_drain_go_on(drain, true));
    if (!strstr(rota_drain_failure(drain), text)) fail_msg("not '%s': '%s'", text, rota_drain_failure(drain));
    assert_true(rota_drain_bytes(drain) < 4096);
    for (uint32_t i = 0; i < 2; i++) {
        if (!sends[i]) continue;
        (void)engines[1]->vtable->cancel(engines[1], sends[i]);
        (void)engines[1]->vtable->test(engines[1], sends[i], &is_over);
    }
    rota_drain_free(drain); /* kept for good where another one may still write there */
    for (uint32_t i = 0; i < 2; i++) engines[i]->vtable->close(engines[i]);
}

static void messages_that_are_named(void **state) {
    (void)state;
    const uint32_t names[4] = {5, 1u << 31, 5, 8};
    expect_drain_refused(UINT32_MAX, NULL, 0, "rank 1 names messages 4294967295, expected 2 at the most");
    expect_drain_refused(3, NULL, 0, "rank 1 names messages 3, expected 2 at the most");
    expect_drain_refused(2, names, sizeof names,
                         "rank 1 names a message of bytes 2147483648, expected 1048576");
    expect_drain_refused(2, names, sizeof names - 4, "a message of rank 1 has 12 bytes, expected 16 to 16");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_right),       cmocka_unit_test(counts_of_orders),
        cmocka_unit_test(fields_of_one),           cmocka_unit_test(sizes_of_messages),
        cmocka_unit_test(shorter_than_wanted),     cmocka_unit_test(what_lies_ahead),
        cmocka_unit_test(messages_that_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
