/* Stopped threads (P4): a thread halted at any marked point inside record, submit, poll, wait or release
 * delays nobody. The marked points are the atomic operations of base/atomic.h; every place that a call
 * reaches is found first, then a thread is halted at each in turn while eight others record, submit, wait and
 * release; then it goes on and its own work is checked. */
#include "tests/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/plan.h"
#include "sched/runtime.h"
#include "tests/kernels.h"

enum { OTHERS = 8, EACH = 6, SITES_MAX = 512, WORDS = 64 };
static const uint64_t patience_ns = 20u * 1000000000ull;

typedef enum call { CALL_RECORD, CALL_SUBMIT, CALL_POLL, CALL_WAIT, CALL_RELEASE, CALL_COUNT } call;
static const char *const call_names[] = {"record", "submit", "poll", "wait", "release"};

typedef struct site {
    const char *file;
    int line;
} site;

typedef struct world {
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *shared; /* every thread's plan adds into it */
    rota_graph *graph;   /* open: the victim and the others record into lanes of it */
    rota_plan *plan;
} world;

/* The thread that is halted. */
typedef struct victim {
    world *w;
    call what;
    bool collecting;
    site sites[SITES_MAX];
    uint32_t site_count;
    site halt_at;
    _Atomic uint32_t halted, go_on, done;
    bool active, was_halted; /* the victim's own */
    rota_ticket ticket;
    rota_status status;
    char message[256];
} victim;

static void nap(uint64_t us) {
    nanosleep(&(struct timespec){(time_t)(us / 1000000u), (long)(us % 1000000u) * 1000}, NULL);
}

static void on_mark(void *user, const char *file, int line) {
    victim *v = user;
    if (!v->active) return;
    if (v->collecting) {
        for (uint32_t i = 0; i < v->site_count; i++)
            if (v->sites[i].line == line && strcmp(v->sites[i].file, file) == 0) return;
        if (v->site_count < SITES_MAX) v->sites[v->site_count++] = (site){file, line};
        return;
    }
    if (v->was_halted || line != v->halt_at.line || strcmp(file, v->halt_at.file) != 0) return;
    v->was_halted = true;
    atomic_store(&v->halted, 1);
    while (!atomic_load(&v->go_on)) nap(50);
}

/* Adds 1 to every word of the shared buffer: scatter-free, one accumulate of a constant. */
static rota_status record_one(world *w, rota_recorder *recorder, rota_buffer *source) {
    test_params params = {.n = WORDS, .m = WORDS, .p = 0, .seed = 0};
    rota_access accesses[] = {{w->shared, 0, ROTA_WHOLE, ROTA_ACCUMULATE},
                              {source, 0, ROTA_WHOLE, ROTA_READ}};
    rota_param_binding binding = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    return rota_record_kernel(recorder,
                              &(rota_kernel_node){.kernel = &test_kernels[TEST_KERNEL_accumulate].kernel,
                                                  .accesses = accesses,
                                                  .access_count = 2,
                                                  .params = &params,
                                                  .bindings = &binding,
                                                  .binding_count = 1},
                              NULL);
}

static rota_buffer *ones;

static rota_status make_plan(world *w, rota_plan **out_plan) {
    rota_graph *graph = NULL;
    rota_recorder *recorder = NULL;
    ROTA_TRY(rota_graph_create(NULL, &graph));
    ROTA_TRY(rota_recorder_open(graph, 1, NULL, &recorder));
    ROTA_TRY(record_one(w, recorder, ones));
    rota_recorder_close(recorder);
    rota_status status = rota_compile(
        w->runtime, graph, &(rota_compile_options){.devices = &w->device, .device_count = 1}, out_plan);
    rota_graph_release(graph);
    return status;
}

/* The one call under test; what it needs is made before, with the hook inactive. */
static void victim_call(victim *v) {
    world *w = v->w;
    rota_recorder *recorder = NULL;
    rota_buffer *buffer = NULL;
    if (v->what == CALL_RECORD) {
        v->status = rota_recorder_open(w->graph, 1000, NULL, &recorder);
        if (v->status == ROTA_OK) v->status = rota_recorder_reserve(recorder, 8, 32, 1024);
    } else if (v->what == CALL_RELEASE) {
        v->status = rota_runtime_buffer(w->runtime, "victim's", 4096, &buffer);
        if (v->status == ROTA_OK) v->status = rota_buffer_prepare(buffer, w->device);
    } else if (v->what != CALL_SUBMIT) {
        v->status = rota_submit_wait(w->plan, NULL, patience_ns, &v->ticket);
    }
    if (v->status != ROTA_OK) return;
    v->active = true;
    switch (v->what) {
    case CALL_RECORD:
        for (uint32_t i = 0; i < 4 && v->status == ROTA_OK; i++) v->status = record_one(w, recorder, ones);
        break;
    case CALL_SUBMIT:
        v->status = rota_submit(w->plan, NULL, &v->ticket);
        break;
    case CALL_POLL:
        v->status = rota_poll(v->ticket) == ROTA_INTERNAL ? ROTA_INTERNAL : ROTA_OK;
        break;
    case CALL_WAIT:
        v->status = rota_wait(v->ticket, patience_ns);
        break;
    default:
        rota_buffer_release(buffer);
        break;
    }
    v->active = false;
    rota_recorder_close(recorder);
}

static void *victim_main(void *user) {
    victim *v = user;
    rota_mark_user = v;
    rota_mark_hook = on_mark;
    victim_call(v);
    rota_mark_hook = NULL;
    if (v->status != ROTA_OK) {
        strncpy(v->message, rota_last_error(), sizeof v->message - 1);
        v->message[sizeof v->message - 1] = 0;
    }
    atomic_store(&v->done, 1);
    return NULL;
}

/* One of the eight others: all five calls, to the end. */
typedef struct other {
    world *w;
    uint32_t index;
    rota_status status;
    char message[256];
} other;

static rota_status other_work(const other *o) {
    world *w = o->w;
    rota_recorder *recorder = NULL;
    ROTA_TRY(rota_recorder_open(w->graph, 1 + o->index, NULL, &recorder));
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < EACH && status == ROTA_OK; i++) {
        rota_buffer *buffer = NULL;
        rota_ticket ticket = {0};
        uint32_t word = o->index;
        status = record_one(w, recorder, ones);
        if (status == ROTA_OK) status = rota_submit_wait(w->plan, NULL, patience_ns, &ticket);
        if (status == ROTA_OK && rota_poll(ticket) != ROTA_BUSY) status = rota_poll(ticket);
        if (status == ROTA_OK) status = rota_wait(ticket, patience_ns);
        if (status == ROTA_OK) status = rota_runtime_buffer(w->runtime, "another's", 256, &buffer);
        if (status == ROTA_OK) status = rota_buffer_write(buffer, w->device, 0, &word, 4, NULL);
        rota_buffer_release(buffer);
    }
    rota_recorder_close(recorder);
    return status;
}

static void *other_main(void *user) {
    other *o = user;
    o->status = other_work(o);
    if (o->status != ROTA_OK) {
        strncpy(o->message, rota_last_error(), sizeof o->message - 1);
        o->message[sizeof o->message - 1] = 0;
    }
    return NULL;
}

static void others_finish(world *w, const char *when) {
    pthread_t threads[OTHERS];
    other others[OTHERS] = {0};
    uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < OTHERS; i++) {
        others[i] = (other){.w = w, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, other_main, &others[i]), 0);
    }
    for (uint32_t i = 0; i < OTHERS; i++) {
        pthread_join(threads[i], NULL);
        if (others[i].status != ROTA_OK)
            fail_msg("%s: thread %u: %s: %s", when, i, rota_status_name(others[i].status), others[i].message);
    }
    if (rota_clock_ns() - begin > patience_ns) fail_msg("%s: the others took too long", when);
}

static uint32_t shared_value(const world *w) {
    uint32_t words[WORDS];
    assert_ok(rota_buffer_read(w->shared, 0, words, sizeof words));
    for (uint32_t i = 1; i < WORDS; i++) assert_int_equal(words[i], words[0]);
    return words[0];
}

/* A thread in the call, halted at `at` (NULL: only the sites are collected); the others run meanwhile. */
static void round_of(world *w, call what, const site *at, victim *v) {
    char when[160];
    memset(v, 0, sizeof *v);
    v->w = w;
    v->what = what;
    v->collecting = at == NULL;
    if (at) v->halt_at = *at;
    snprintf(when, sizeof when, "halted in %s at %s:%d", call_names[what], at ? at->file : "",
             at ? at->line : 0);
    assert_ok(rota_graph_create(NULL, &w->graph));
    uint32_t before = shared_value(w);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, victim_main, v), 0);
    while (!atomic_load(&v->halted) && !atomic_load(&v->done)) nap(20);
    if (at) others_finish(w, when);
    atomic_store(&v->go_on, 1);
    pthread_join(thread, NULL);
    if (v->status != ROTA_OK) fail_msg("%s: it failed after going on: %s", when, v->message);
    if (v->ticket.id) assert_ok(rota_wait(v->ticket, patience_ns));
    /* Nothing was lost and nothing done twice. */
    uint32_t expected = before + (at ? OTHERS * EACH : 0) + (v->ticket.id ? 1 : 0), got = shared_value(w);
    if (got != expected) fail_msg("%s: the sum is %u, expected %u", when, got, expected);
    uint64_t nodes = (at ? (uint64_t)OTHERS * EACH : 0u) + (what == CALL_RECORD ? 4u : 0u);
    assert_int_equal(rota_graph_node_count(w->graph), nodes);
    rota_graph_release(w->graph);
}

static void nobody_waits_for_a_stopped_thread(void **state) {
    (void)state;
    world w = {0};
    assert_ok(rota_runtime_open(&(rota_runtime_options){.timeout_ns = patience_ns, .worker_threads = 2},
                                &w.runtime));
    assert_ok(rota_device_open(w.runtime, "cpu", &w.device));
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 1;
    assert_ok(rota_runtime_buffer(w.runtime, "ones", sizeof words, &ones));
    assert_ok(rota_buffer_write(ones, w.device, 0, words, sizeof words, NULL));
    memset(words, 0, sizeof words);
    assert_ok(rota_runtime_buffer(w.runtime, "shared", sizeof words, &w.shared));
    assert_ok(rota_buffer_write(w.shared, w.device, 0, words, sizeof words, NULL));
    assert_ok(make_plan(&w, &w.plan));
    static victim collected, halted;
    uint32_t total = 0;
    for (call what = 0; what < CALL_COUNT; what++) {
        /* Which places a call reaches depends on timing: those of several runs together. */
        site sites[SITES_MAX];
        uint32_t count = 0;
        for (uint32_t run = 0; run < 8; run++) {
            round_of(&w, what, NULL, &collected);
            for (uint32_t i = 0; i < collected.site_count; i++) {
                uint32_t k = 0;
                while (k < count && (sites[k].line != collected.sites[i].line ||
                                     strcmp(sites[k].file, collected.sites[i].file)))
                    k++;
                if (k == count && count < SITES_MAX) sites[count++] = collected.sites[i];
            }
        }
        uint32_t reached = 0;
        for (uint32_t i = 0; i < count; i++) {
            round_of(&w, what, &sites[i], &halted);
            reached += halted.was_halted;
        }
        print_message("%-8s %u marked points, halted at %u\n", call_names[what], count, reached);
        assert_true(count > 0);
        assert_true(reached > 0);
        total += reached;
    }
    assert_true(total >= 15);
    rota_plan_release(w.plan);
    rota_buffer_release(w.shared);
    rota_buffer_release(ones);
    assert_ok(rota_runtime_close(w.runtime, patience_ns));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_waits_for_a_stopped_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
