/* Each scenario is proven red: with the mechanism that it guards switched off in the adversarial executor, it
 * fails, at one fixed seed. (With nothing switched off it passes there: conformance_adversary.) Each runs in
 * a process of its own, which may come to any harm. */
#include "tests/kit/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sched/plan/compiled.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/conformance/conformance.h"

/* ATTEMPTS: what depends on submissions that meet, or that are in flight at a call, needs its thread to be
 * let run for QUIET_NS at a time; twice as long in each attempt, up to QUIET_MOST_NS, as the machine may be
 * busy. */
enum { ATTEMPTS = 10, PATIENCE_S = 60, QUIET_NS = 2000000, QUIET_MOST_NS = 128000000 };

typedef enum mechanism {
    ORDER,       /* barriers and edges inside segments, and waits between works */
    WAITS,       /* waits between works */
    COMPLETION,  /* values are reported before the work has run: reuse of staging, instances and memory */
    DESTINATION, /* a kernel's result goes elsewhere */
    ARGUMENTS,   /* a submission sees the arguments of the one before */
    FAILURES,    /* nobody is told that a command failed */
    FREEING,     /* programs and instances are not destroyed */
    FAULTS       /* what the case is about does not happen: the fault, the limit, the undefined bytes */
} mechanism;

static const struct proof {
    const char *name;
    mechanism off;
    uint64_t seed;
} proofs[] = {
    {"s1.smoke", ORDER, 1},
    {"s1.smoke_graph", ORDER, 1},
    {"s1.upload_storm", COMPLETION, 1},
    {"s1.many_in_flight", WAITS, 1},
    {"s1.submit_fails", FAULTS, 1},
    {"s1.signal_never_comes", FAULTS, 1},
    {"s1.device_lost", FAULTS, 1},
    {"s1.smoke_refused", FAULTS, 1},
    {"s2.table", ORDER, 1},
    {"s2.shared_sum", WAITS, 1},
    {"s2.private_graphs", ORDER, 1},
    {"s2.views", COMPLETION, 1},
    {"s2.all_at_once", ORDER, 1},
    {"s3.every_op", DESTINATION, 1},
    {"s3.reshape_into", DESTINATION, 1},
    {"s3.add_in_place", ORDER, 1},
    {"s3.into_preseeded", DESTINATION, 1},
    {"s3.patchtst", ORDER, 1},
    {"s4.random_queues", WAITS, 1},
    {"s5.raw_chain", ORDER, 1},
    {"s5.war", ORDER, 1},
    {"s5.waw", ORDER, 2},
    {"s5.index_add", ORDER, 1},
    {"s5.two_outputs", ORDER, 1},
    {"s5.attention_backward", ORDER, 1},
    {"s5.layernorm_backward", ORDER, 1},
    {"s5.adamw_twice", ORDER, 1},
    {"s5.decay", WAITS, 1},
    {"s5.argument", ARGUMENTS, 1},
    {"s5.dropped_reference", COMPLETION, 1},
    {"s5.cached_cast", ORDER, 1},
    {"s5.partial_overlaps", ORDER, 1},
    {"s1.out_of_memory", FAULTS, 1},
    {"contract.deadline", COMPLETION, 1},
    {"contract.observers", COMPLETION, 1},
    {"contract.errors_travel", FAILURES, 1},
    {"contract.undefined_read", FAULTS, 1},
    {"contract.leaks", FREEING, 1},
    {"contract.close_in_flight", COMPLETION, 1},
    {"contract.memory_limit", FAULTS, 1},
    {"contract.one_order", WAITS, 1},
    {"contract.host_order", WAITS, 1},
    {"contract.release_in_flight", COMPLETION, 1},
};

static const conf_case *find(const char *name) {
    static const conf_case *const groups[] = {conf_cases_s1, conf_cases_s2, conf_cases_s3,
                                              conf_cases_s4, conf_cases_s5, conf_cases_contract};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const conf_case *one = groups[g]; one->name; one++)
            if (strcmp(one->name, name) == 0) return one;
    return NULL;
}

static void switch_off(conf *c, mechanism off) {
    c->has_breaks = true;
    switch (off) {
    case ORDER:
        c->breaks.barrier = c->breaks.edge = c->breaks.wait = ADVERSARY_ALL;
        break;
    case WAITS:
        c->breaks.wait = ADVERSARY_ALL;
        break;
    case COMPLETION:
        c->breaks.early_signal = true;
        break;
    case DESTINATION:
        c->breaks.stray_writes = true;
        break;
    case ARGUMENTS:
        c->breaks.stale_block = true;
        break;
    case FAILURES:
        c->breaks.mute_failures = true;
        break;
    case FREEING:
        c->breaks.keep_objects = true;
        break;
    case FAULTS:
        c->no_faults = true;
        break;
    }
}

/* In a child: 0 if the case passed, 1 if it failed; it writes why to `out`. */
static void run_child(const conf_case *one, mechanism off, uint64_t seed, uint64_t quiet_ns, int out) {
    static conf c;
    c.device = "adversary";
    c.seed = seed;
    c.expect_errors = true;
    c.quiet_ns = quiet_ns;
    pthread_mutex_init(&c.lock, NULL);
    switch_off(&c, off);
    alarm(PATIENCE_S);
    bool good = conf_run(&c, one);
    ssize_t written = write(out, c.why, strlen(c.why));
    _exit(good || written < 0 ? 0 : 1);
}

/* Whether the case fails at this seed; an accident of the child (memory in use was freed) counts as failing.
 */
static bool fails(const conf_case *one, mechanism off, uint64_t seed, uint64_t quiet_ns, char *why,
                  size_t capacity) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) run_child(one, off, seed, quiet_ns, ends[1]);
    close(ends[1]);
    ssize_t got = read(ends[0], why, capacity - 1);
    why[got > 0 ? got : 0] = 0;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) snprintf(why, capacity, "ended by signal %d", WTERMSIG(status));
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void every_scenario_goes_red(void **state) {
    (void)state;
    uint32_t green = 0;
    for (size_t p = 0; p < sizeof proofs / sizeof *proofs; p++) {
        const conf_case *one = find(proofs[p].name);
        assert_non_null(one);
        char why[768] = "";
        bool red = false;
        uint64_t seed = proofs[p].seed;
        uint32_t attempt = 0;
        uint64_t quiet_ns = QUIET_NS;
        while (attempt++ < ATTEMPTS && !red) {
            red = fails(one, proofs[p].off, seed, quiet_ns, why, sizeof why);
            if (quiet_ns < QUIET_MOST_NS) quiet_ns *= 2;
        }
        if (red)
            print_message("%-26s red at seed %llu%s: %s\n", one->name, (unsigned long long)seed,
                          attempt > 2 ? ", not at once" : "", why);
        if (!red) print_message("%-26s STAYS GREEN with its mechanism off\n", one->name);
        green += !red;
    }
    assert_int_equal(green, 0);
}

/* What the scenarios rely on to see a late write: the adversary's own look at memory that was destroyed. */
static void late_writes_are_seen(void **state) {
    (void)state;
    enum { SIZE = 4096 };
    for (uint32_t written = 0; written < 4; written++) {
        adversary_options options = {0};
        rota_runtime *runtime;
        rota_device *device;
        rota_exec_memory *memory;
        assert_ok(adversary_runtime_open(&options, NULL, &runtime));
        assert_ok(rota_device_open(runtime, "adversary", &device));
        rota_exec_device *exec = rota_device_exec(device);
        assert_ok(exec->vtable->memory_create(exec, SIZE, 0, "late", &memory));
        uint8_t *bytes = (uint8_t *)(uintptr_t)memory->address;
        exec->vtable->memory_destroy(exec, memory);
        const uint32_t changed[] = {0, SIZE / 2, SIZE - 1};
        if (written < 3) bytes[changed[written]] = 1;
        assert_ok(rota_runtime_close(runtime, 0));
        assert_int_equal(atomic_load(&options.violations), written < 3 ? 1 : 0);
        if (written < 3) assert_non_null(strstr(options.violation, "destroyed memory 'late' was written"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(late_writes_are_seen),
                                       cmocka_unit_test(every_scenario_goes_red)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
