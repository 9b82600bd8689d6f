/* Collectives on CUDA devices, by a stand-in for NCCL over the stand-in for the driver: the cases of device_cases.c,
 * and what goes wrong: ranks that don't come or stop in the middle, errors of the library's, devices that won't do.
 * What is wanted of each: all ranks end, with a sentence that says where, and what depends on it is left as it was. */
#include "tests/kit/support.h"

#include "tests/exec/cuda/cuda_stub_kit.h"

#ifdef ROTA_HAVE_CUDA
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/nccl/nccl.h"
#include "tests/kit/await.h"
#include "tests/ranks/device_cases.h"
#include "tests/ranks/nccl_pins.h"
#include "tests/ranks/nccl_ranks.h"

enum { WORDS = 64 };

/* ---- The cases ---- */

typedef struct running {
    const device_case *now;
    device_rank rank;
} running;

static void *run_rank(void *user) {
    const running *own = user;
    own->now->run(&own->rank);
    return NULL;
}

/* What goes by copies between GPUs that reach one another's memory, and by NCCL between others. */
static bool is_by_copies(const device_case *now, bool apart) {
    return strncmp(now->name, "large", strlen("large")) == 0 && !apart;
}

/* How many ranks there are. The thread sanitizer, by which they take ten times as long, looks at their order, and sees
 * nothing in one rank alone; it has three ranks one way and four the other. */
#ifdef __SANITIZE_THREAD__
static const uint32_t sizes[2][3] = {{2, 4}, {2, 3}};
#else
static const uint32_t sizes[2][RANKS_MOST + 1] = {{1, 2, 3, 4}, {1, 2, 3, 4}};
#endif

static void run_cases(bool apart) {
    for (const device_case *now = device_cases; now->name; now++)
        for (const uint32_t *next = sizes[apart]; *next; next++) {
            const uint32_t size = *next;
            fixture f;
            running ranks[RANKS_MOST];
            pthread_t threads[RANKS_MOST];
            print_message("%s, %u ranks\n", now->name, size);
            open_devices(&f, size, false);
            if (apart) cuda_stub_gpus_out_of_reach();
            assert_ok(open_ranks(&f));
            for (uint32_t i = 0; i < size; i++) {
                ranks[i] = (running){now, {f.runtimes[i], f.devices[i], f.communicators[i]}};
                assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
            }
            for (uint32_t i = 0; i < size; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_true(size == 1 || (nccl_standin_done() == 0) == is_by_copies(now, apart));
            assert_int_equal(nccl_standin_aborts(), 0);
            close_all(&f);
        }
}

static void cases(void **state) {
    (void)state;
    run_cases(false);
}

static void cases_of_gpus_out_of_reach(void **state) {
    (void)state;
    run_cases(true);
}

/* Without one algorithm and one protocol in the environment it does not open, and says what is missing. */
static void deterministic(void **state) {
    (void)state;
    for (uint32_t i = 0; i < NCCL_PINS; i++) {
        const char *said = nccl_pins[i].said;
        fixture f;
        nccl_pin_set(&nccl_pins[i]);
        open_devices(&f, 2, false);
        f.deterministic = true;
        assert_status(open_ranks(&f), said ? ROTA_UNSUPPORTED : ROTA_OK);
        if (said) {
            expect_said("can't have collectives on its device: deterministic sums by NCCL need");
            expect_said(said);
        }
        close_all(&f); /* those that are not there are NULL */
        nccl_pin_unset();
    }
}

/* ---- Faults ---- */

/* Of each rank: x = the sum of all ranks' x, then y = x. */
typedef struct summing {
    rota_buffer *x[RANKS_MOST], *y[RANKS_MOST];
    rota_plan *plans[RANKS_MOST];
    rota_ticket tickets[RANKS_MOST];
    bool has_begun[RANKS_MOST];
} summing;

static rota_plan *sum_on(const fixture *f, uint32_t rank, rota_device *device, const char *name,
                         uint32_t words, rota_buffer *x, rota_buffer *y) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan *plan;
    rota_tensor tensor;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "sums"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    assert_ok(rota_tensor_of(x, 0, ROTA_U32, ROTA_SHAPE(words), &tensor));
    assert_ok(rota_tape_name(tape, name));
    assert_ok(rota_op_all_reduce_into(tape, f->communicators[rank], tensor, ROTA_COLLECTIVE_SUM, tensor));
    assert_ok(rota_record_copy(recorder, y, 0, x, 0, WORDS * sizeof(uint32_t), NULL));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1);
    assert_ok(rota_compile(f->runtimes[rank], graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

static rota_buffer *words_of(const fixture *f, uint32_t rank, uint32_t value) {
    rota_buffer *buffer;
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = value;
    assert_ok(rota_buffer_create_in(f->runtimes[rank], "words", sizeof words, &buffer));
    assert_ok(rota_buffer_write(buffer, NULL, 0, words, sizeof words, NULL));
    return buffer;
}

static void open_sums(fixture *f, uint32_t size, uint64_t timeout_ns, summing *s) {
    *s = (summing){0};
    open_all(f, size, timeout_ns);
    for (uint32_t i = 0; i < f->size; i++) {
        s->x[i] = words_of(f, i, i + 1);
        s->y[i] = words_of(f, i, 77);
        s->plans[i] = sum_on(f, i, f->devices[i], "grad", WORDS, s->x[i], s->y[i]);
    }
}

static void submit_some(summing *s, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(rota_submit_wait(s->plans[i], NULL, 0, &s->tickets[i]));
        s->has_begun[i] = true;
    }
}

static void submit_all(const fixture *f, summing *s) {
    submit_some(s, f->size);
}

static void expect_all_said(const char *const *texts) {
    for (; *texts; texts++)
        if (!strstr(rota_last_error(), *texts)) fail_msg("'%s' is not in: %s", *texts, rota_last_error());
}

/* Each rank that submitted fails with what is said, what depends on it was not run, and so does each later one. */
static void expect_failed(const fixture *f, summing *s, const char *const *texts) {
    for (uint32_t i = 0; i < f->size; i++) {
        uint32_t words[WORDS];
        if (s->has_begun[i]) {
            assert_status(rota_wait(s->tickets[i], 0), ROTA_NODE_FAILED);
            expect_all_said(texts);
        }
        rota_ticket again;
        assert_ok(rota_submit_wait(s->plans[i], NULL, 0, &again));
        assert_status(rota_wait(again, 0), ROTA_NODE_FAILED);
        /* What a node that was left out would have written: still what it was, though nobody may count on it. */
        const rota_status status = rota_buffer_read(s->y[i], 0, words, sizeof words);
        if (status == ROTA_OK) assert_int_equal(words[WORDS - 1], 77);
    }
}

static void end_sums(fixture *f, summing *s) {
    for (uint32_t i = 0; i < f->size; i++) {
        rota_plan_release(s->plans[i]);
        rota_buffer_release(s->x[i]);
        rota_buffer_release(s->y[i]);
    }
    close_all(f);
}

static const uint64_t short_ns = 2000000000u; /* in which all ranks come, however slow their threads are */

static void a_rank_that_never_comes(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 3, short_ns, &s);
    submit_some(&s, 2);
    expect_failed(&f, &s,
                  (const char *const[]){"communicator 'w'", "'grad'", "rank 2", "did not come", NULL});
    assert_int_equal(nccl_standin_done(), 0); /* nothing was begun on a device */
    end_sums(&f, &s);
}

static void a_rank_that_stops_in_it(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 3, short_ns, &s);
    nccl_standin_stop_rank(2);
    submit_all(&f, &s);
    expect_failed(&f, &s,
                  (const char *const[]){"communicator 'w'", "all_reduce 'grad'",
                                        "cuda:", "did not end within 2.0 s", NULL});
    assert_int_equal(nccl_standin_aborts(), 3);
    end_sums(&f, &s);
}

/* NCCL's call itself does not come back on one rank, as where it connects to one that dies: that rank's communicator
 * ends in time all the same, by its timeout or by who closes it. */
static void a_rank_that_is_held_in_a_call(void **state) {
    (void)state;
    for (uint32_t is_closed = 0; is_closed < 2; is_closed++) {
        fixture f;
        summing s;
        open_sums(&f, 2, is_closed ? 0 : short_ns, &s);
        nccl_standin_hold_rank(1);
        submit_all(&f, &s);
        if (is_closed) {
            test_await(nccl_standin_held() == 1 && nccl_standin_posted() == 1);
            assert_ok(rota_communicator_close(f.communicators[1], 5000000000u));
            f.communicators[1] = NULL;
            for (uint32_t i = 0; i < 2; i++) {
                assert_status(rota_wait(s.tickets[i], 0), ROTA_NODE_FAILED);
                expect_all_said((const char *const[]){"communicator 'w'", "rank 1 closed it", NULL});
            }
        } else {
            expect_failed(&f, &s,
                          (const char *const[]){"communicator 'w'", "all_reduce 'grad'",
                                                "did not end within 2.0 s", NULL});
        }
        assert_int_equal(nccl_standin_done(), 0);
        assert_int_equal(nccl_standin_aborts(), 2);
        end_sums(&f, &s);
    }
}

static void an_error_of_the_library(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 3, 0, &s);
    const uint64_t begin = rota_clock_ns();
    nccl_standin_stop_rank(0);
    nccl_standin_async_error(1);
    submit_all(&f, &s);
    /* Rank 1's, on each. */
    expect_failed(
        &f, &s,
        (const char *const[]){"communicator 'w'", "rank 1", "'grad'", "NCCL says 6", "remote process", NULL});
    assert_true(rota_clock_ns() - begin < 10000000000u); /* nobody waited for the timeout */
    end_sums(&f, &s);
}

static void calls_that_fail(void **state) {
    (void)state;
    static const char *const names[] = {"AllReduce", "CommGetAsyncError"};
    for (uint32_t i = 0; i < 2; i++) {
        fixture f;
        summing s;
        open_sums(&f, 2, 0, &s);
        nccl_standin_stop_rank(
            0); /* or the sum may be complete on one rank when the other is told of an error */
        nccl_standin_fail(names[i], 1);
        submit_all(&f, &s);
        expect_failed(&f, &s, (const char *const[]){"communicator 'w'", "'grad'", "NCCL says 1", NULL});
        end_sums(&f, &s);
    }
}

static void ranks_that_differ(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, 0, &s);
    rota_plan_release(s.plans[1]);
    s.plans[1] = sum_on(&f, 1, f.devices[1], "grad", WORDS - 1, s.x[1], s.y[1]);
    submit_all(&f, &s);
    expect_failed(&f, &s,
                  (const char *const[]){"the ranks' collectives differ", "of 64 u32, by sum, on a device",
                                        "of 63 u32", NULL});
    assert_int_equal(nccl_standin_done(), 0);
    end_sums(&f, &s);
}

/* One rank's plan is for the CPU, where NCCL has nothing to do. */
static void ranks_in_other_memory(void **state) {
    (void)state;
    fixture f;
    summing s;
    rota_device *cpu;
    open_sums(&f, 2, 0, &s);
    rota_plan_release(s.plans[1]);
    assert_ok(rota_device_open(f.runtimes[1], "cpu", &cpu));
    s.plans[1] = sum_on(&f, 1, cpu, "grad", WORDS, s.x[1], s.y[1]);
    submit_all(&f, &s);
    expect_failed(&f, &s,
                  (const char *const[]){"the ranks' collectives differ", "by sum, on a device", NULL});
    end_sums(&f, &s);
}

static void plans_for_the_cpu(void **state) {
    (void)state;
    fixture f;
    summing s = {0};
    open_all(&f, 2, 0);
    for (uint32_t i = 0; i < 2; i++) {
        rota_device *cpu;
        assert_ok(rota_device_open(f.runtimes[i], "cpu", &cpu));
        s.x[i] = words_of(&f, i, i + 1);
        s.y[i] = words_of(&f, i, 77);
        s.plans[i] = sum_on(&f, i, cpu, "grad", WORDS, s.x[i], s.y[i]);
    }
    submit_all(&f, &s);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t words[WORDS];
        assert_ok(rota_wait(s.tickets[i], 0));
        assert_ok(rota_buffer_read(s.y[i], 0, words, sizeof words));
        assert_int_equal(words[5], 3);
    }
    assert_int_equal(nccl_standin_done(), 0);
    end_sums(&f, &s);
}

/* The application gives up on one rank, while the device of another stands still. */
static void an_end_by_the_application(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, 0, &s);
    nccl_standin_stop_rank(0);
    submit_all(&f, &s);
    const uint64_t begin = rota_clock_ns();
    test_await(nccl_standin_posted() == 2);
    assert_ok(rota_communicator_abort(f.communicators[1], "enough"));
    expect_failed(&f, &s, (const char *const[]){"communicator 'w'", "rank 1", "enough", NULL});
    assert_true(rota_clock_ns() - begin < 10000000000u);
    end_sums(&f, &s);
}

/* P1: what the library may still write is nobody else's: the run ends only when the device is at rest. */
static void an_abort_that_takes_long(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, short_ns, &s);
    nccl_standin_abort_takes(300000000u);
    nccl_standin_stop_rank(1);
    const uint64_t begin = rota_clock_ns();
    submit_all(&f, &s);
    for (uint32_t i = 0; i < 2; i++) assert_status(rota_wait(s.tickets[i], 0), ROTA_NODE_FAILED);
    assert_true(rota_clock_ns() - begin >= short_ns + 300000000u);
    /* Overwritten from the host, it stays so. */
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t words[WORDS] = {4, 5, 6};
        assert_ok(rota_buffer_write(s.x[i], NULL, 0, words, sizeof words, NULL));
        (void)usleep(20000);
        assert_ok(rota_buffer_read(s.x[i], 0, words, sizeof words));
        assert_int_equal(words[2], 6);
    }
    end_sums(&f, &s);
}

/* The context fails under what the library has there: nothing is at work any more, and all ends. */
static void a_device_that_is_lost(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, 0, &s);
    nccl_standin_stop_rank(0);
    submit_all(&f, &s);
    test_await(nccl_standin_posted() == 2);
    const uint64_t begin = rota_clock_ns();
    cuda_stub_fail("EventQuery", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
    for (uint32_t i = 0; i < 2; i++) {
        const rota_status status = rota_wait(s.tickets[i], 0);
        if (status != ROTA_NODE_FAILED && status != ROTA_DEVICE_LOST)
            fail_msg("rank %u: %s: %s", i, rota_status_name(status), rota_last_error());
    }
    assert_true(rota_clock_ns() - begin < 15000000000u);
    end_sums(&f, &s);
}

static void closed_in_the_middle(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, 0, &s);
    nccl_standin_stop_rank(0);
    nccl_standin_abort_takes(100000000u);
    submit_all(&f, &s);
    test_await(nccl_standin_posted() == 2);
    assert_ok(rota_communicator_close(f.communicators[0], 5000000000u));
    f.communicators[0] = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        assert_status(rota_wait(s.tickets[i], 0), ROTA_NODE_FAILED);
        expect_all_said((const char *const[]){"communicator 'w'", "rank 0 closed it", NULL});
    }
    end_sums(&f, &s);
}

/* Plans that name it outlive it, and fail. */
static void plans_that_outlive_it(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, 0, &s);
    submit_all(&f, &s);
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_wait(s.tickets[i], 0));
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_communicator_close(f.communicators[i], 0));
        f.communicators[i] = NULL;
    }
    submit_all(&f, &s);
    for (uint32_t i = 0; i < 2; i++) assert_status(rota_wait(s.tickets[i], 0), ROTA_NODE_FAILED);
    end_sums(&f, &s);
}

/* What has been sent is given its time; not more than there is. */
static void closed_with_bytes_on_their_way(void **state) {
    (void)state;
    for (uint32_t is_late = 0; is_late < 2; is_late++) {
        fixture f;
        summing s;
        open_sums(&f, 2, 0, &s);
        submit_all(&f, &s);
        for (uint32_t i = 0; i < 2; i++) assert_ok(rota_wait(s.tickets[i], 0));
        nccl_standin_finalize_takes(is_late ? 60000000000u : 1300000000u);
        for (uint32_t i = 0; i < 2; i++) {
            assert_ok(rota_communicator_close(f.communicators[i], is_late ? 2 * short_ns : 0));
            f.communicators[i] = NULL;
        }
        assert_int_equal(nccl_standin_aborts(), is_late ? 2 : 0);
        end_sums(&f, &s);
    }
}

/* ---- Opening ---- */

static void expect_unopened(fixture *f, rota_status wanted, const char *const *texts) {
    assert_status(open_ranks(f), wanted);
    expect_all_said(texts);
    for (uint32_t i = 0; i < f->size; i++) assert_null(f->communicators[i]);
    close_all(f);
}

static void one_gpu_for_two(void **state) {
    (void)state;
    fixture f;
    open_devices(&f, 2, true);
    expect_unopened(&f, ROTA_UNSUPPORTED,
                    (const char *const[]){"communicator 'w'", "ranks 0 and 1 have the same GPU", NULL});
}

static void a_device_that_is_none(void **state) {
    (void)state;
    fixture f;
    open_devices(&f, 2, false);
    assert_ok(rota_device_open(f.runtimes[1], "cpu", &f.devices[1]));
    expect_unopened(&f, ROTA_UNSUPPORTED,
                    (const char *const[]){"communicator 'w'", "rank 1", "'cpu'", "CUDA device", NULL});
}

static void a_library_that_will_not_open(void **state) {
    (void)state;
    fixture f;
    open_devices(&f, 2, false);
    nccl_standin_fail("CommInitRankConfig", 3);
    f.timeout_ns = short_ns;
    expect_unopened(&f, ROTA_SYSTEM, (const char *const[]){"communicator 'w'", "rank", NULL});
    open_devices(&f, 2, false);
    nccl_standin_fail("CommSplit", 3);
    f.timeout_ns = short_ns;
    expect_unopened(&f, ROTA_SYSTEM, (const char *const[]){"communicator 'w'", "rank", NULL});
    open_devices(&f, 2, false);
    nccl_standin_never_opens(true);
    f.timeout_ns = short_ns;
    expect_unopened(&f, ROTA_SYSTEM, (const char *const[]){"did not find all ranks within 1.0 s", NULL});
    open_devices(&f, 2, false);
    nccl_standin_fail("GetUniqueId", 2);
    expect_unopened(&f, ROTA_UNSUPPORTED, (const char *const[]){"rank 0 has no id", "NCCL says 2", NULL});
}

static rota_nccl_result old_version(int *out) {
    *out = 21500;
    return ROTA_NCCL_SUCCESS;
}

static void *find_in_table(void *user, const char *name) {
    void *found = NULL;
    const rota_nccl_api *api = nccl_standin_api();
    if (strcmp(name, user) == 0) return NULL;
#define FIND(function, result, parameters)                                                                   \
    if (strcmp(name, "nccl" #function) == 0) memcpy(&found, &api->function, sizeof found);
    ROTA_NCCL_FUNCTIONS(FIND)
#undef FIND
    if (strcmp(user, "old") == 0 && strcmp(name, "ncclGetVersion") == 0) {
        rota_nccl_result (*const old)(int *) = old_version;
        memcpy(&found, &old, sizeof found);
    }
    return found;
}

static void libraries_that_will_not_do(void **state) {
    (void)state;
    rota_nccl_api api;
    nccl_standin_start();
    assert_status(rota_nccl_api_load("libnccl-that-is-not-there.so.2", &api), ROTA_UNSUPPORTED);
    expect_all_said((const char *const[]){"NCCL could not be opened", NULL});
    assert_ok(rota_nccl_api_fill("here", find_in_table, (void *)(uintptr_t) "", &api));
    assert_int_equal(api.version, 22809);
    assert_status(rota_nccl_api_fill("here", find_in_table, (void *)(uintptr_t) "ncclCommAbort", &api),
                  ROTA_UNSUPPORTED);
    expect_all_said((const char *const[]){"'here'", "ncclCommAbort", NULL});
    assert_status(rota_nccl_api_fill("here", find_in_table, (void *)(uintptr_t) "old", &api),
                  ROTA_UNSUPPORTED);
    expect_all_said((const char *const[]){"21500", "21800", NULL});
    nccl_standin_stop();
}

/* In a process of its own: its id, and the number that tells it from others. */
static int say_process(void) {
    rota_nccl_about about;
    cuda_stub_start(1, 1);
    nccl_standin_start();
    const rota_status status = rota_nccl_look(0, &about);
    if (status == ROTA_OK) printf("%ld %llu\n", (long)getpid(), (unsigned long long)about.process);
    cuda_stub_stop();
    nccl_standin_stop();
    return status != ROTA_OK;
}

/* As in two containers, whose first processes have one id: neither has the other's ranks. */
static void processes_of_one_id(void **state) {
    (void)state;
    char path[512], command[640];
    long ids[2] = {0};
    unsigned long long numbers[2] = {0};
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = 0;
    if (system("unshare --pid --fork true 2>/dev/null") != 0)
        skip(); /* NOLINT(cert-env33-c): no namespaces */
    (void)snprintf(command, sizeof command, "unshare --pid --fork '%s' process", path);
    for (uint32_t i = 0; i < 2; i++) {
        char line[64] = "", *end;
        FILE *said = popen(command, "r"); /* NOLINT(cert-env33-c): of this program */
        assert_non_null(said);
        assert_non_null(fgets(line, sizeof line, said));
        (void)pclose(said);
        ids[i] = strtol(line, &end, 10);
        numbers[i] = strtoull(end, NULL, 10);
    }
    assert_int_equal(ids[0], ids[1]);
    assert_true(numbers[0] != numbers[1]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),
        cmocka_unit_test(deterministic),
        cmocka_unit_test(cases_of_gpus_out_of_reach),
        cmocka_unit_test(a_rank_that_never_comes),
        cmocka_unit_test(a_rank_that_stops_in_it),
        cmocka_unit_test(a_rank_that_is_held_in_a_call),
        cmocka_unit_test(an_error_of_the_library),
        cmocka_unit_test(calls_that_fail),
        cmocka_unit_test(ranks_that_differ),
        cmocka_unit_test(ranks_in_other_memory),
        cmocka_unit_test(plans_for_the_cpu),
        cmocka_unit_test(an_end_by_the_application),
        cmocka_unit_test(an_abort_that_takes_long),
        cmocka_unit_test(a_device_that_is_lost),
        cmocka_unit_test(closed_in_the_middle),
        cmocka_unit_test(plans_that_outlive_it),
        cmocka_unit_test(closed_with_bytes_on_their_way),
        cmocka_unit_test(one_gpu_for_two),
        cmocka_unit_test(processes_of_one_id),
        cmocka_unit_test(a_device_that_is_none),
        cmocka_unit_test(a_library_that_will_not_open),
        cmocka_unit_test(libraries_that_will_not_do),
    };
    if (argc > 1 && strcmp(argv[1], "process") == 0) return say_process();
    if (!cuda_stub_has_images()) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 77;
}
#endif
