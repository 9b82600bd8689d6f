/* The transport contract on ranks that are threads of this process, as they are, and where every message's end is seen
 * late and in any order; and elements as they are combined. */
#include <math.h>
#include <pthread.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sleep.h"
#include "exec/comm/elements.h"
#include "exec/comm/messages.h"
#include "exec/comm/threads.h"
#include "tests/exec/comm/transport_contract.h"
#include "tests/kit/support.h"
#include "tests/ranks/rank_cases.h"

enum { RANKS_MOST = 5 };

/* ---- An engine that is late ---- */

typedef struct late_engine {
    rota_engine base;
    rota_engine *real;
    uint64_t random;
} late_engine;

static late_engine *late_of(rota_engine *engine) {
    return (late_engine *)(void *)engine;
}
static rota_status late_send(rota_engine *engine, uint32_t to, uint32_t tag, const void *bytes, uint64_t size,
                             rota_engine_request **out) {
    return late_of(engine)->real->vtable->send(late_of(engine)->real, to, tag, bytes, size, out);
}
static rota_status late_receive(rota_engine *engine, uint32_t from, uint32_t tag, void *bytes, uint64_t least,
                                uint64_t size, rota_engine_request **out) {
    return late_of(engine)->real->vtable->receive(late_of(engine)->real, from, tag, bytes, least, size, out);
}
static rota_status late_test(rota_engine *engine, rota_engine_request *request, bool *out_over) {
    *out_over = false;
    if (test_random(&late_of(engine)->random) >> 62) return ROTA_OK;
    return late_of(engine)->real->vtable->test(late_of(engine)->real, request, out_over);
}
static bool late_cancel(rota_engine *engine, rota_engine_request *request) {
    return late_of(engine)->real->vtable->cancel(late_of(engine)->real, request);
}
static void late_detach(rota_engine *engine, rota_engine_request *request) {
    late_of(engine)->real->vtable->detach(late_of(engine)->real, request);
}
static void late_close(rota_engine *engine) {
    late_of(engine)->real->vtable->close(late_of(engine)->real);
    free(engine);
}
static const rota_engine_vtable late_vtable = {late_send,   late_receive, late_test, late_cancel,
                                               late_detach, late_close,   NULL,      NULL};

static rota_engine *make_late(rota_engine *real) {
    late_engine *made = calloc(1, sizeof *made);
    made->base =
        (rota_engine){&late_vtable, "late",   real->rank, real->size, real->last_tag, real->is_ended_together,
                      NULL,         real->id, false};
    made->real = real;
    made->random = real->rank + 77;
    return &made->base;
}

/* ---- The contract ---- */

static void *run_rank(void *engine) {
    rota_transport *transport;
    uint64_t abandoned = 1;
    rank_ok(rota_messages_open(engine, "world", 30000000000u, &transport));
    transport_contract(transport);
    rota_transport_close(transport, rota_deadline_after(10000000000u), &abandoned);
    rank_want(abandoned == 0, "%llu bytes abandoned", (unsigned long long)abandoned);
    return NULL;
}

static void run_contract(uint32_t size, bool late) {
    rota_engine *engines[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    assert_ok(rota_threads_open(size, engines));
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, run_rank, late ? make_late(engines[i]) : engines[i]), 0);
    for (uint32_t i = 0; i < size; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void on_threads(void **state) {
    (void)state;
    for (uint32_t size = 1; size <= RANKS_MOST; size++) run_contract(size, false);
}

static void on_late_messages(void **state) {
    (void)state;
    for (uint32_t size = 2; size <= RANKS_MOST; size++) run_contract(size, true);
}

/* ---- Opened ---- */

/* Whose sends are not over while it is held, and which can't receive. */
typedef struct held_engine {
    late_engine late;
    bool is_held;
} held_engine;

static rota_status no_receive(rota_engine *engine, uint32_t from, uint32_t tag, void *bytes, uint64_t least,
                              uint64_t size, rota_engine_request **out) {
    (void)engine, (void)tag, (void)bytes, (void)least, (void)size, (void)out;
    return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a message of rank %u", from);
}
static rota_status held_test(rota_engine *engine, rota_engine_request *request, bool *out_over) {
    *out_over = false;
    if (((const held_engine *)(const void *)engine)->is_held) return ROTA_OK;
    return late_of(engine)->real->vtable->test(late_of(engine)->real, request, out_over);
}
static const rota_engine_vtable held_vtable = {late_send,   no_receive, held_test, late_cancel,
                                               late_detach, late_close, NULL,      NULL};

static void close_well(rota_transport *transport) {
    uint64_t abandoned = 1;
    rota_transport_close(transport, rota_deadline_after(10000000000u), &abandoned);
    assert_int_equal(abandoned, 0);
}

/* One that has ended as it was opened tells the others so for its timeout, and not for none. */
static void ended_as_it_opens(void **state) {
    (void)state;
    rota_engine *engines[2];
    rota_transport *transport, *other;
    bool is_over, moved;
    assert_ok(rota_threads_open(2, engines));
    assert_ok(rota_messages_open(engines[1], "half", 30000000000u, &other));
    held_engine *held = calloc(1, sizeof *held);
    assert_non_null(held);
    held->late.base = *engines[0];
    held->late.base.vtable = &held_vtable;
    held->late.real = engines[0];
    held->is_held = true;
    assert_ok(rota_messages_open(&held->late.base, "half", 30000000000u, &transport));
    assert_true(transport->vtable->flush(transport));
    held->is_held = false;
    assert_false(transport->vtable->flush(transport));
    const rota_collective barrier = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "barrier"};
    other->vtable->post(other, &barrier);
    assert_status(other->vtable->progress(other, &is_over, &moved), ROTA_NODE_FAILED);
    expect_said("no host memory for a message of rank 1");
    close_well(transport);
    close_well(other);
}

/* Who gives up before its timeout, since all of opening has one deadline, says how long it waited. */
static void gives_up_as_it_opens(void **state) {
    (void)state;
    rota_engine *engines[2];
    rota_transport *transport;
    assert_ok(rota_threads_open(2, engines));
    engines[0]->id = 0; /* none that was agreed on */
    assert_ok(rota_messages_open(engines[0], "late", 600000000000u, &transport));
    assert_status(rota_transport_identify(transport, rota_deadline_after(300000000u)), ROTA_NODE_FAILED);
    expect_said("communicator 'late': rank 0 waited ");
    const double waited = strtod(strstr(rota_last_error(), "waited ") + strlen("waited "), NULL);
    if (waited < 0.3 || waited > 60) fail_msg("it says %s", rota_last_error());
    close_well(transport);
    engines[1]->vtable->close(engines[1]);
}

/* ---- Told ---- */

static bool is_awake(rota_sleeper *sleeper) {
    const bool is = ra_load_seq_cst(&sleeper->asleep) == 0;
    rota_sleeper_prepare(sleeper);
    return is;
}

/* Who sleeps until a message comes, or is taken, is woken by that, and by nothing else, until it closes. */
static void messages_wake(void **state) {
    (void)state;
    enum { COUNT = 1000, TAG = 3 };
    static uint32_t x[COUNT], y[COUNT];
    rota_sleeper sleeper = {0};
    rota_engine *engines[2];
    rota_engine_request *mine[2], *others[2];
    bool is_over;
    assert_ok(rota_threads_open(2, engines));
    rota_engine *own = engines[0], *other = engines[1];
    assert_false(own->is_told);
    own->vtable->tell(own, &sleeper);
    assert_true(own->is_told && !other->is_told);
    rota_sleeper_prepare(&sleeper);
    for (uint32_t count = 1; count <= COUNT;
         count += COUNT - 1) { /* copied at once, or when they are wanted */
        const uint64_t size = count * sizeof *x;
        assert_ok(own->vtable->receive(own, 1, TAG, y, size, size, &mine[0]));
        assert_false(is_awake(&sleeper));
        assert_ok(other->vtable->send(other, 0, TAG, x, size, &others[0]));
        assert_true(is_awake(&sleeper));
        assert_ok(own->vtable->send(own, 1, TAG, x, size, &mine[1]));
        assert_false(is_awake(&sleeper));
        assert_ok(other->vtable->receive(other, 0, TAG, y, size, size, &others[1]));
        assert_int_equal(is_awake(&sleeper), count == COUNT); /* else it was over before */
        for (uint32_t i = 0; i < 2; i++) {
            assert_ok(own->vtable->test(own, mine[i], &is_over));
            assert_true(is_over);
            assert_ok(other->vtable->test(other, others[i], &is_over));
            assert_true(is_over);
        }
        assert_false(is_awake(&sleeper));
    }
    own->vtable->close(own);
    other->vtable->close(other);
}

/* ---- Elements ---- */

static float of_f16(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 0x3FF;
    double magnitude = exponent ? ldexp(fraction + 1024, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
    return (float)(h & 0x8000 ? -magnitude : magnitude);
}

/* The nearest of all, of equally near ones the even. */
static uint16_t nearest_f16(double x) {
    if (isnan(x)) return 0x7E00;
    uint16_t best = 0;
    double least = INFINITY;
    for (uint32_t h = 0; h <= 0x7C00; h++) {
        const double value = h == 0x7C00 ? 65536.0 : (double)of_f16((uint16_t)h), off = fabs(value - fabs(x));
        if (off < least || (off == least && h % 2 == 0)) {
            least = off;
            best = (uint16_t)h;
        }
    }
    return (uint16_t)(best | (signbit(x) ? 0x8000 : 0));
}

/* Sums of two f16, of all kinds of numbers, by brute force. */
static void f16_is_rounded_once(void **state) {
    (void)state;
    uint64_t random = 5;
    for (uint32_t i = 0; i < 3000; i++) {
        uint16_t a = (uint16_t)(test_random(&random) >> 40), b = (uint16_t)(test_random(&random) >> 40), got;
        if (i % 3 == 0) a &= 0x83FF, b &= 0x83FF; /* subnormal */
        const void *const sources[2] = {&a, &b};
        rota_elements_combine(ROTA_COLLECTIVE_F16, ROTA_COLLECTIVE_SUM, sources, 2, 1, &got);
        const float sum = of_f16(a) + of_f16(b);
        if (isnan(sum)) {
            assert_true((got & 0x7C00) == 0x7C00 && (got & 0x3FF) != 0);
            continue;
        }
        if (got != nearest_f16((double)sum) && !(sum == 0 && (got & 0x7FFF) == 0))
            fail_msg("%04x + %04x is %04x, not %04x", a, b, got, nearest_f16((double)sum));
    }
}

static void bf16_is_rounded_once(void **state) {
    (void)state;
    uint64_t random = 6;
    for (uint32_t i = 0; i < 100000; i++) {
        const uint16_t a = (uint16_t)(test_random(&random) >> 40), b = (uint16_t)(test_random(&random) >> 40);
        uint16_t got;
        const void *const sources[2] = {&a, &b};
        rota_elements_combine(ROTA_COLLECTIVE_BF16, ROTA_COLLECTIVE_SUM, sources, 2, 1, &got);
        float x, y;
        const uint32_t wide_a = (uint32_t)a << 16, wide_b = (uint32_t)b << 16;
        memcpy(&x, &wide_a, 4);
        memcpy(&y, &wide_b, 4);
        x += y;
        uint32_t bits;
        memcpy(&bits, &x, 4);
        if (isnan(x)) {
            assert_true((got & 0x7F80) == 0x7F80 && (got & 0x7F) != 0);
            continue;
        }
        const uint32_t low = bits & 0xFFFF, high = bits >> 16;
        const uint32_t nearest = low > 0x8000 || (low == 0x8000 && high % 2) ? high + 1 : high;
        assert_int_equal(got, nearest);
    }
}

/* In the order of the sources, and NaN goes through. */
static void order_and_nan(void **state) {
    (void)state;
    const float a = 1e8f, b = -1e8f, c = 1, nan_one = NAN;
    float got;
    const void *const first[3] = {&a, &b, &c}, *const second[3] = {&c, &a, &b};
    rota_elements_combine(ROTA_COLLECTIVE_F32, ROTA_COLLECTIVE_SUM, first, 3, 1, &got);
    assert_true(got == 1);
    rota_elements_combine(ROTA_COLLECTIVE_F32, ROTA_COLLECTIVE_SUM, second, 3, 1, &got);
    assert_true(got == 0);
    rota_elements_combine(ROTA_COLLECTIVE_F32, ROTA_COLLECTIVE_MEAN, first, 3, 1, &got);
    assert_true(got == 1.0f / 3);
    const void *const with_nan[2] = {&a, &nan_one}, *const nan_first[2] = {&nan_one, &a};
    for (uint32_t i = 0; i < 2; i++) {
        rota_elements_combine(ROTA_COLLECTIVE_F32, i ? ROTA_COLLECTIVE_MAX : ROTA_COLLECTIVE_MIN, with_nan, 2,
                              1, &got);
        assert_true(isnan(got));
        rota_elements_combine(ROTA_COLLECTIVE_F32, i ? ROTA_COLLECTIVE_MAX : ROTA_COLLECTIVE_MIN, nan_first,
                              2, 1, &got);
        assert_true(isnan(got));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_is_rounded_once),  cmocka_unit_test(bf16_is_rounded_once),
        cmocka_unit_test(order_and_nan),        cmocka_unit_test(ended_as_it_opens),
        cmocka_unit_test(gives_up_as_it_opens), cmocka_unit_test(messages_wake),
        cmocka_unit_test(on_threads),           cmocka_unit_test(on_late_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
