/* What is near a device, of a machine that is made up, and an executor's thread that serves one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "exec/common/completer.h"
#include "exec/locality.h"
#include "tests/kit/made_up_machine.h"
#include "tests/kit/memory_policy.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"

enum { SECOND_MEMORY = 4, SECOND_PACKAGE = 8 }; /* their first CPUs */

/* Where the process may use `count` CPUs from `first` on; 0: all. */
static rota_locality locality_of(const char *pci, unsigned first, unsigned count) {
    rota_locality locality = {.told = 0};
    made_up_machine_begin(first, count);
    rota_locality_find(&locality, pci);
    made_up_machine_end();
    return locality;
}

static void expect_cpus(const cpu_set_t *cpus, int first, int count) {
    assert_int_equal(CPU_COUNT(cpus), count);
    for (int i = 0; i < count; i++) assert_true(CPU_ISSET((size_t)(first + i), cpus));
}

static void expect_nodes(const rota_nodes *nodes, uint32_t first, uint32_t count) {
    assert_int_equal(rota_nodes_count(nodes), count);
    for (uint32_t i = 0; i < count; i++) assert_true(rota_nodes_has(nodes, first + i));
}

static void those_of_what_it_hangs_on(void **state) {
    (void)state;
    rota_locality locality = locality_of("0000:11:00.0", 0, 0);
    expect_cpus(&locality.cpus, SECOND_MEMORY, 4);
    expect_nodes(&locality.nodes, 1, 1);
    /* Two memories of the host's; the GPU's own is none of them. */
    locality = locality_of("0000:21:00.0", 0, 0);
    expect_cpus(&locality.cpus, SECOND_PACKAGE, 8);
    expect_nodes(&locality.nodes, 2, 2);
    /* One CPU is too few for its threads. */
    locality = locality_of("0000:31:00.0", 0, 0);
    expect_cpus(&locality.cpus, 0, 0);
    expect_nodes(&locality.nodes, 0, 1);
    /* All are as near. */
    locality = locality_of("0000:41:00.0", 0, 0);
    expect_cpus(&locality.cpus, 0, 0);
    expect_nodes(&locality.nodes, 0, 0);
}

/* Memory is the system's to refuse; CPUs are the process's own. */
static void only_what_the_process_may_use(void **state) {
    (void)state;
    rota_locality locality = locality_of("0000:21:00.0", 6, 8);
    expect_cpus(&locality.cpus, SECOND_PACKAGE, 6);
    expect_nodes(&locality.nodes, 2, 2);
    locality = locality_of("0000:11:00.0", SECOND_MEMORY, 4); /* it has no others */
    expect_cpus(&locality.cpus, 0, 0);
    expect_nodes(&locality.nodes, 1, 1);
    locality = locality_of("0000:11:00.0", SECOND_PACKAGE, 8); /* none is near */
    expect_cpus(&locality.cpus, 0, 0);
    locality = locality_of("0000:11:00.0", 5, 11); /* three are, too few */
    expect_cpus(&locality.cpus, 0, 0);
}

static void nothing_is_known(void **state) {
    (void)state;
    const char *const unknown[] = {"0000:51:00.0", "no bus id", ""};
    for (uint32_t i = 0; i < 3; i++) {
        const rota_locality locality = locality_of(unknown[i], 0, 0);
        expect_cpus(&locality.cpus, 0, 0);
        expect_nodes(&locality.nodes, 0, 0);
    }
    rota_locality locality = {.told = 0};
    assert_int_equal(setenv("HWLOC_XMLFILE", "/nowhere/at/all", 1), 0);
    rota_locality_find(&locality, "0000:11:00.0");
    assert_int_equal(unsetenv("HWLOC_XMLFILE"), 0);
    expect_cpus(&locality.cpus, 0, 0);
    expect_nodes(&locality.nodes, 0, 0);
}

static void numbers_of_memories(void **state) {
    (void)state;
    rota_nodes nodes = {{0}};
    rota_nodes_add(&nodes, 0);
    rota_nodes_add(&nodes, 64);
    rota_nodes_add(&nodes, ROTA_NODES_MAX - 1);
    rota_nodes_add(&nodes, ROTA_NODES_MAX);
    assert_int_equal(rota_nodes_count(&nodes), 3);
    assert_true(rota_nodes_has(&nodes, 64) && rota_nodes_has(&nodes, ROTA_NODES_MAX - 1));
    assert_false(rota_nodes_has(&nodes, 1) || rota_nodes_has(&nodes, ROTA_NODES_MAX));
}

/* ---- Threads ---- */

static void *until_close(void *user) {
    rota_completer_shared *completer = user;
    while (!ra_load_acquire(&completer->closing)) test_nap(); /* pairs with rota_completer_stop */
    rota_completer_is_done(completer);
    return NULL;
}

/* Where an executor's thread begins that serves such a device. */
static cpu_set_t cpus_of_thread(rota_locality *locality) {
    rota_completer_shared completer = {0};
    assert_ok(rota_completer_start(&completer, until_close, &completer, "made up", locality));
    const cpu_set_t cpus = made_up_machine_cpus(completer.thread);
    assert_int_equal(rota_completer_stop(&completer, rota_deadline_after(10000000000u)),
                     ROTA_COMPLETER_QUIET);
    return cpus;
}

static void a_thread_stays_near_its_device(void **state) {
    (void)state;
    rota_locality locality = locality_of("0000:11:00.0", 0, 0);
    cpu_set_t cpus = cpus_of_thread(&locality);
    expect_cpus(&cpus, SECOND_MEMORY, 4);
    locality = locality_of("0000:41:00.0", 0, 0);
    cpus = cpus_of_thread(&locality);
    expect_cpus(&cpus, 0, 0);
}

typedef struct heard {
    uint32_t count;
    rota_log_level level;
    char text[256];
} heard;

static void hear(void *user, rota_log_level level, const char *message) {
    heard *h = user;
    h->count++;
    h->level = level;
    (void)snprintf(h->text, sizeof h->text, "%s", message);
}

/* It runs anywhere then, and the log says so once. */
static void refused_cpus_are_told_once(void **state) {
    (void)state;
    heard h = {0};
    const rota_log log = {hear, &h, ROTA_LOG_DEBUG};
    rota_locality locality = locality_of("0000:11:00.0", 0, 0);
    locality.device = "gpu:7";
    locality.log = &log;
    made_up_machine_refuse(EINVAL);
    for (uint32_t i = 0; i < 3; i++) {
        const cpu_set_t cpus = cpus_of_thread(&locality);
        expect_cpus(&cpus, 0, 0);
    }
    made_up_machine_refuse(0);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.level, ROTA_LOG_DEBUG);
    assert_non_null(strstr(h.text, "gpu:7: its threads run anywhere"));
}

/* ---- Memory ---- */

static void what_is_made_meanwhile_is_near(void **state) {
    (void)state;
    bool node_0;
    rota_locality locality = locality_of("0001:01:01.0", 0, 0), several = locality_of("0000:21:00.0", 0, 0);
    rota_locality none = locality_of("0000:41:00.0", 0, 0);
    if (!test_policy_set(MPOL_DEFAULT)) skip();
    assert_true(rota_locality_enter(&locality));
    assert_int_equal(test_policy(NULL, &node_0), MPOL_PREFERRED);
    assert_true(node_0);
    assert_false(rota_locality_enter(&locality)); /* it has been placed */
    rota_locality_leave(false);
    assert_int_equal(test_policy(NULL, &node_0), MPOL_PREFERRED);
    rota_locality_leave(true);
    assert_int_equal(test_policy(NULL, &node_0), MPOL_DEFAULT);
    assert_false(rota_locality_enter(&none));
    assert_int_equal(test_policy(NULL, &node_0), MPOL_DEFAULT);
    rota_nodes_add(&several.nodes, 0); /* 2 and 3 may not be there */
    assert_true(rota_locality_enter(&several));
    assert_int_equal(test_policy(NULL, &node_0), MPOL_INTERLEAVE);
    rota_locality_leave(true);
    assert_int_equal(test_policy(NULL, &node_0), MPOL_DEFAULT);
}

/* Of a memory that there is not, or in a container that allows none of it. */
static void refused_memory_is_told_once(void **state) {
    (void)state;
    heard h = {0};
    const rota_log log = {hear, &h, ROTA_LOG_DEBUG};
    rota_locality locality = {.device = "gpu:7", .log = &log};
    rota_nodes_add(&locality.nodes, ROTA_NODES_MAX - 1);
    void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    for (uint32_t i = 0; i < 3; i++) {
        rota_locality_place(&locality, memory, 1 << 20);
        assert_false(rota_locality_enter(&locality));
    }
    memset(memory, 1, 1 << 20);
    assert_int_equal(munmap(memory, 1 << 20), 0);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.level, ROTA_LOG_DEBUG);
    assert_non_null(strstr(h.text, "gpu:7: its memory comes from anywhere"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_of_what_it_hangs_on),
        cmocka_unit_test(only_what_the_process_may_use),
        cmocka_unit_test(nothing_is_known),
        cmocka_unit_test(numbers_of_memories),
        cmocka_unit_test(a_thread_stays_near_its_device),
        cmocka_unit_test(refused_cpus_are_told_once),
        cmocka_unit_test(what_is_made_meanwhile_is_near),
        cmocka_unit_test(refused_memory_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
