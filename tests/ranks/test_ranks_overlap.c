/* What is recorded behind a collective on a CUDA device and does not depend on it runs beside it: by the stand-ins,
 * with another rank held back, or stopped in the middle. What depends on it waits, and is left out where it fails. */
#include "tests/kit/support.h"

#include "tests/exec/cuda/cuda_stub_kit.h"

#ifdef ROTA_HAVE_CUDA
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "exec/smoke_kernel.h"
#include "tests/ranks/device_cases.h"
#include "tests/ranks/nccl_ranks.h"

enum { WORDS = 64, BYTES = WORDS * 4, BUCKETS = 6 };
static const uint64_t short_ns = 400000000u, long_ns = 20000000000u;

/* A host node's: whether it ran, and what it saw. */
typedef struct seen {
    _Atomic uint32_t has_run;
    uint32_t word;
} seen;

static rota_status see(void *user, void *const *operands, const uint64_t *operand_bytes,
                       uint32_t operand_count) {
    seen *own = user;
    (void)operand_bytes, (void)operand_count;
    own->word = *(const uint32_t *)operands[0];
    ra_store_release(&own->has_run, 1); /* pairs with the load in has_come */
    return ROTA_OK;
}

static bool has_come(seen *own, uint64_t timeout_ns) {
    const uint64_t deadline_ns = rota_clock_ns() + timeout_ns;
    while (!ra_load_acquire(&own->has_run) && rota_clock_ns() < deadline_ns) (void)usleep(1000);
    return ra_load_acquire(&own->has_run);
}

static rota_buffer *words_of(rota_runtime *runtime, const char *name, uint32_t value) {
    rota_buffer *buffer;
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = value;
    assert_ok(rota_buffer_create_in(runtime, name, BYTES, &buffer));
    assert_ok(rota_buffer_write(buffer, NULL, 0, words, BYTES, NULL));
    return buffer;
}

/* A graph while it is recorded. */
typedef struct recording {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
} recording;

static recording begin(void) {
    recording r;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "overlaps"), &r.graph));
    assert_ok(rota_recorder_open(r.graph, 0, NULL, &r.recorder));
    assert_ok(rota_tape_create(r.recorder, NULL, &r.tape));
    return r;
}

static rota_plan *compile(recording *r, rota_runtime *runtime, rota_device *device, rota_packing packing) {
    rota_plan *plan;
    rota_tape_destroy(r->tape);
    rota_recorder_close(r->recorder);
    const rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .packing = packing, .certify = true);
    assert_ok(rota_compile(runtime, r->graph, &options, &plan));
    rota_graph_release(r->graph);
    return plan;
}

static void reduce(const recording *r, rota_communicator *communicator, const char *name,
                   rota_buffer *buffer) {
    rota_tensor tensor;
    assert_ok(rota_tensor_of(buffer, 0, ROTA_U32, ROTA_SHAPE(WORDS), &tensor));
    assert_ok(rota_tape_name(r->tape, name));
    assert_ok(rota_op_all_reduce_into(r->tape, communicator, tensor, ROTA_COLLECTIVE_SUM, tensor));
}

static void copy(const recording *r, rota_buffer *to, rota_buffer *from) {
    assert_ok(rota_record_copy(r->recorder, to, 0, from, 0, BYTES, NULL));
}

static void look(const recording *r, rota_buffer *buffer, seen *own) {
    const rota_access access = {buffer, 0, ROTA_WHOLE, ROTA_READ};
    assert_ok(rota_record_host(
        r->recorder, &ROTA_HOST_NODE(.fn = see, .user = own, .accesses = &access, .access_count = 1), NULL));
}

/* Of each rank: buckets, each made by way of a transient and reduced; behind all of them a look at what does not depend
 * on any, and one at what depends on the last. */
typedef struct training {
    rota_buffer *source, *buckets[BUCKETS], *apart, *y;
    seen independent, dependent;
    rota_plan *plan;
    rota_ticket ticket;
} training;

static void record(const fixture *f, uint32_t rank, rota_packing packing, training *t) {
    rota_runtime *runtime = f->runtimes[rank];
    recording r = begin();
    memset(t, 0, sizeof *t);
    t->source = words_of(runtime, "source", rank + 1);
    t->apart = words_of(runtime, "apart", 0);
    t->y = words_of(runtime, "y", 77);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        rota_buffer *temporary;
        char name[16];
        t->buckets[i] = words_of(runtime, "bucket", 0);
        assert_ok(rota_graph_buffer(r.graph, ROTA_BUFFER_TRANSIENT, "temporary", BYTES, &temporary));
        copy(&r, temporary, t->source);
        copy(&r, t->buckets[i], temporary);
        (void)snprintf(name, sizeof name, "bucket %u", i);
        reduce(&r, f->communicators[rank], name, t->buckets[i]);
    }
    copy(&r, t->apart, t->source);
    look(&r, t->apart, &t->independent);
    copy(&r, t->y, t->buckets[BUCKETS - 1]);
    look(&r, t->y, &t->dependent);
    t->plan = compile(&r, runtime, f->devices[rank], packing);
}

static void end(training *t) {
    rota_plan_release(t->plan);
    for (uint32_t i = 0; i < BUCKETS; i++) rota_buffer_release(t->buckets[i]);
    rota_buffer_release(t->source);
    rota_buffer_release(t->apart);
    rota_buffer_release(t->y);
}

static void submit(training *t) {
    ra_store_relaxed(&t->independent.has_run, 0);
    ra_store_relaxed(&t->dependent.has_run, 0);
    assert_ok(rota_submit_wait(t->plan, NULL, 0, &t->ticket));
}

static void a_rank_held_back(void **state) {
    (void)state;
    for (uint32_t packing = 0; packing < 2; packing++) {
        fixture f;
        training ranks[2];
        open_all(&f, 2, long_ns);
        for (uint32_t i = 0; i < 2; i++)
            record(&f, i, packing ? ROTA_PACK_CONCURRENT : ROTA_PACK_TIGHT, &ranks[i]);
        for (uint32_t replay = 0; replay < 4; replay++) {
            const uint32_t held = replay % 2;
            submit(&ranks[!held]);
            assert_true(has_come(&ranks[!held].independent, long_ns / 2));
            assert_int_equal(ranks[!held].independent.word, !held + 1);
            (void)usleep(20000);
            assert_false(ra_load_acquire(&ranks[!held].dependent.has_run));
            assert_int_equal(nccl_standin_done(), 2 * BUCKETS * replay);
            submit(&ranks[held]);
            for (uint32_t i = 0; i < 2; i++) {
                assert_ok(rota_wait(ranks[i].ticket, 0));
                assert_true(ra_load_acquire(&ranks[i].dependent.has_run));
                assert_int_equal(ranks[i].dependent.word, 3);
            }
        }
        for (uint32_t i = 0; i < 2; i++) end(&ranks[i]);
        close_all(&f);
    }
}

/* A plan's works are handed over together. That one is complete is told while a later one of its queue, which is the
 * last one's as well, still runs. */
static void beside_a_kernel_that_runs_on(void **state) {
    (void)state;
    enum { MANY = 12, ALL = 2 * MANY };
    fixture f;
    rota_buffer *buckets[2][MANY], *sources[2][2];
    rota_plan *plans[2];
    rota_ticket tickets[2];
    const uint32_t params[2] = {WORDS, 0};
    open_all(&f, 2, long_ns);
    for (uint32_t i = 0; i < 2; i++) {
        recording r = begin();
        for (uint32_t k = 0; k < 2; k++) sources[i][k] = words_of(f.runtimes[i], "source", 0);
        for (uint32_t k = 0; k < MANY; k++) {
            buckets[i][k] = words_of(f.runtimes[i], "bucket", 0);
            copy(&r, buckets[i][k], sources[i][0]);
            reduce(&r, f.communicators[i], "bucket", buckets[i][k]);
        }
        const rota_access accesses[3] = {{sources[i][0], 0, ROTA_WHOLE, ROTA_READ},
                                         {sources[i][0], 0, ROTA_WHOLE, ROTA_READ},
                                         {sources[i][1], 0, ROTA_WHOLE, ROTA_WRITE}};
        assert_ok(rota_record_kernel(r.recorder,
                                     &ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .accesses = accesses,
                                                       .access_count = 3, .params = params),
                                     NULL));
        plans[i] = compile(&r, f.runtimes[i], f.devices[i], ROTA_PACK_TIGHT);
    }
    cuda_stub_hang(rota_smoke_kernel.cuda.entry);
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_submit_wait(plans[i], NULL, 0, &tickets[i]));
    const uint64_t deadline_ns = rota_clock_ns() + long_ns / 2;
    while (nccl_standin_done() < ALL && rota_clock_ns() < deadline_ns) (void)usleep(1000);
    assert_int_equal(nccl_standin_done(), ALL);
    cuda_stub_hang(NULL);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_wait(tickets[i], 0));
        rota_plan_release(plans[i]);
        for (uint32_t k = 0; k < MANY; k++) rota_buffer_release(buckets[i][k]);
        for (uint32_t k = 0; k < 2; k++) rota_buffer_release(sources[i][k]);
    }
    close_all(&f);
}

/* What is independent is done, and stays; what depends on the collective is left out. */
static void a_rank_that_stops_in_it(void **state) {
    (void)state;
    fixture f;
    training ranks[2];
    uint32_t words[WORDS];
    open_all(&f, 2, short_ns);
    for (uint32_t i = 0; i < 2; i++) record(&f, i, ROTA_PACK_TIGHT, &ranks[i]);
    nccl_standin_stop_rank(1);
    for (uint32_t i = 0; i < 2; i++) submit(&ranks[i]);
    for (uint32_t i = 0; i < 2; i++) {
        assert_status(rota_wait(ranks[i].ticket, 0), ROTA_NODE_FAILED);
        assert_non_null(strstr(rota_last_error(), "all_reduce 'bucket 0'"));
        assert_true(ra_load_acquire(&ranks[i].independent.has_run));
        assert_false(ra_load_acquire(&ranks[i].dependent.has_run));
        assert_ok(rota_buffer_read(ranks[i].apart, 0, words, BYTES));
        assert_int_equal(words[WORDS - 1], i + 1);
    }
    for (uint32_t i = 0; i < 2; i++) end(&ranks[i]);
    close_all(&f);
}

/* Left out before it began: what had begun beside it ends, and the other rank is told. */
static void cancelled_while_held_back(void **state) {
    (void)state;
    fixture f;
    training ranks[2];
    open_all(&f, 2, long_ns);
    for (uint32_t i = 0; i < 2; i++) record(&f, i, ROTA_PACK_TIGHT, &ranks[i]);
    submit(&ranks[0]);
    assert_true(has_come(&ranks[0].independent, long_ns / 2));
    assert_ok(rota_ticket_cancel(ranks[0].ticket));
    submit(&ranks[1]);
    const uint64_t begin_ns = rota_clock_ns();
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(rota_wait(ranks[i].ticket, 0) != ROTA_OK);
        assert_false(ra_load_acquire(&ranks[i].dependent.has_run));
    }
    assert_true(rota_clock_ns() - begin_ns < long_ns / 2);
    for (uint32_t i = 0; i < 2; i++) end(&ranks[i]);
    close_all(&f);
}

/* ---- Another communicator ---- */

static rota_plan *reduce_one(const fixture *f, uint32_t rank, rota_communicator *communicator,
                             const char *name, rota_buffer *buffer) {
    recording r = begin();
    reduce(&r, communicator, name, buffer);
    return compile(&r, f->runtimes[rank], f->devices[rank], ROTA_PACK_TIGHT);
}

/* Both communicators' ranks, with words to be reduced by each. */
typedef struct two {
    fixture f;
    rota_communicator *others[2];
    rota_buffer *x[2], *z[2];
} two;

static void open_two(two *t) {
    open_all(&t->f, 2, long_ns);
    /* Of an order of its own: what is asked here is the order within one plan. */
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = "v", .timeout_ns = long_ns, .devices = t->f.devices,
                                  .own_order = true);
    assert_ok(rota_communicator_open_ranks(t->f.runtimes, 2, &options, t->others));
    for (uint32_t i = 0; i < 2; i++) {
        t->x[i] = words_of(t->f.runtimes[i], "x", i + 1);
        t->z[i] = words_of(t->f.runtimes[i], "z", i + 5);
    }
}

static void close_two(two *t) {
    for (uint32_t i = 0; i < 2; i++) {
        rota_buffer_release(t->x[i]);
        rota_buffer_release(t->z[i]);
        assert_ok(rota_communicator_close(t->others[i], 0));
    }
    close_all(&t->f);
}

/* x by the one, then z by the other, then a look at z. */
static rota_plan *reduce_both(const two *t, uint32_t rank, seen *behind) {
    recording r = begin();
    reduce(&r, t->f.communicators[rank], "x", t->x[rank]);
    reduce(&r, t->others[rank], "z", t->z[rank]);
    look(&r, t->z[rank], behind);
    return compile(&r, t->f.runtimes[rank], t->f.devices[rank], ROTA_PACK_TIGHT);
}

/* One rank has the collectives of both in one plan, the other one in plans of their own, the first of which is held
 * back: the second does not begin before the first one. All ranks record one order, and so none finds another. */
static void in_the_order_of_the_record(void **state) {
    (void)state;
    two t;
    seen behind = {0};
    rota_ticket tickets[3];
    open_two(&t);
    rota_plan *plans[3] = {reduce_both(&t, 0, &behind), reduce_one(&t.f, 1, t.others[1], "z", t.z[1]),
                           reduce_one(&t.f, 1, t.f.communicators[1], "x", t.x[1])};
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_submit_wait(plans[i], NULL, 0, &tickets[i]));
    assert_false(has_come(&behind, 100000000u));
    assert_int_equal(nccl_standin_done(), 0);
    assert_ok(rota_submit_wait(plans[2], NULL, 0, &tickets[2]));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_wait(tickets[i], 0));
        rota_plan_release(plans[i]);
    }
    assert_int_equal(behind.word, 11);
    close_two(&t);
}

/* They come after one another, and do not depend on one another. */
static void behind_one_that_fails(void **state) {
    (void)state;
    two t;
    seen behind[2] = {0};
    rota_plan *plans[2];
    rota_ticket tickets[2];
    open_two(&t);
    assert_ok(rota_communicator_abort(t.f.communicators[0], "enough"));
    for (uint32_t i = 0; i < 2; i++) {
        plans[i] = reduce_both(&t, i, &behind[i]);
        assert_ok(rota_submit_wait(plans[i], NULL, 0, &tickets[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_status(rota_wait(tickets[i], 0), ROTA_NODE_FAILED);
        assert_non_null(strstr(rota_last_error(), "enough"));
        assert_true(has_come(&behind[i], long_ns / 2));
        assert_int_equal(behind[i].word, 11);
        rota_plan_release(plans[i]);
    }
    close_two(&t);
}

/* ---- Gradients ---- */

static rota_status wait_at_gate(void *user, void *const *operands, const uint64_t *operand_bytes,
                                uint32_t operand_count) {
    _Atomic uint32_t *is_open = user;
    uint32_t *words = operands[0];
    const uint64_t deadline_ns = rota_clock_ns() + long_ns / 2;
    (void)operand_bytes, (void)operand_count;
    while (!ra_load_acquire(is_open) && rota_clock_ns() < deadline_ns) (void)usleep(1000);
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 5;
    return ROTA_OK;
}

/* Two buckets, then what uses the first and what uses the second: the first use is over while one rank has not made its
 * second bucket yet. */
static void an_update_before_the_last_bucket(void **state) {
    (void)state;
    fixture f;
    rota_buffer *buckets[2][2], *updated[2][2];
    rota_plan *plans[2];
    rota_ticket tickets[2];
    seen uses[2][2] = {0};
    _Atomic uint32_t gates[2] = {1, 0};
    open_all(&f, 2, long_ns);
    for (uint32_t i = 0; i < 2; i++) {
        recording r = begin();
        for (uint32_t k = 0; k < 2; k++) {
            buckets[i][k] = words_of(f.runtimes[i], "bucket", i + 1);
            updated[i][k] = words_of(f.runtimes[i], "updated", 0);
        }
        reduce(&r, f.communicators[i], "first", buckets[i][0]);
        const rota_access access = {buckets[i][1], 0, ROTA_WHOLE, ROTA_WRITE};
        assert_ok(rota_record_host(
            r.recorder,
            &ROTA_HOST_NODE(.fn = wait_at_gate, .user = &gates[i], .accesses = &access, .access_count = 1),
            NULL));
        reduce(&r, f.communicators[i], "last", buckets[i][1]);
        for (uint32_t k = 0; k < 2; k++) {
            copy(&r, updated[i][k], buckets[i][k]);
            look(&r, updated[i][k], &uses[i][k]);
        }
        plans[i] = compile(&r, f.runtimes[i], f.devices[i], ROTA_PACK_TIGHT);
    }
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_submit_wait(plans[i], NULL, 0, &tickets[i]));
    assert_true(has_come(&uses[0][0], long_ns / 4));
    assert_int_equal(uses[0][0].word, 3);
    assert_false(ra_load_acquire(&uses[0][1].has_run));
    ra_store_release(&gates[1], 1); /* pairs with the load in wait_at_gate */
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_wait(tickets[i], 0));
        assert_int_equal(uses[i][1].word, 10);
        rota_plan_release(plans[i]);
        for (uint32_t k = 0; k < 2; k++) {
            rota_buffer_release(buckets[i][k]);
            rota_buffer_release(updated[i][k]);
        }
    }
    close_all(&f);
}

static void *reduce_gradients(void *user) {
    const device_rank *own = user;
    rank_data_parallel(own->runtime, own->communicator);
    rank_last_bucket(own->runtime, own->communicator);
    return NULL;
}

/* What is recorded for ranks with devices, small gradients of several buckets together and copied back last, or with
 * the last bucket, comes to what is reduced one by one; in plans for the CPU, since the stand-in has not these
 * kernels. */
static void gradients_in_buckets(void **state) {
    (void)state;
    fixture f;
    device_rank ranks[2];
    pthread_t threads[2];
    open_all(&f, 2, long_ns);
    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = (device_rank){f.runtimes[i], f.devices[i], f.communicators[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, reduce_gradients, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    close_all(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_held_back),
        cmocka_unit_test(beside_a_kernel_that_runs_on),
        cmocka_unit_test(behind_one_that_fails),
        cmocka_unit_test(a_rank_that_stops_in_it),
        cmocka_unit_test(cancelled_while_held_back),
        cmocka_unit_test(in_the_order_of_the_record),
        cmocka_unit_test(an_update_before_the_last_bucket),
        cmocka_unit_test(gradients_in_buckets),
    };
    if (!cuda_stub_has_images()) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 77;
}
#endif
