/* Which cores are near one another, as hwloc tells it of machines that are made up, and that workers steal
 * from near ones first, and wake near ones first. */
#include "tests/exec/cpu/exec_cpu_kit.h"

#include <hwloc.h>
#include <stdio.h>
#include <unistd.h>
#include "exec/cpu/device.h"
#include "exec/cpu/info.h"
#include "tests/kit/made_up_machine.h"
#include "tests/kit/memory_policy.h"

/* Two packages of two memories, of two caches, of two cores. */
static const char two_by_two[] = "pack:2 node:2 l3:2 core:2 pu:1";

static rota_cpu_core *describe(const char *synthetic, uint32_t expected) {
    rota_device_info info;
    rota_cpu_core *cores = NULL;
    assert_int_equal(setenv("HWLOC_SYNTHETIC", synthetic, 1), 0);
    assert_ok(rota_cpu_describe(&info, &cores));
    assert_int_equal(unsetenv("HWLOC_SYNTHETIC"), 0);
    assert_int_equal(info.compute_units, expected);
    return cores;
}

static void expect_level(const rota_cpu_near *near, uint32_t level, uint32_t first, uint32_t count) {
    assert_true(level < near->level_count);
    assert_int_equal(near->levels[level].first, first);
    assert_int_equal(near->levels[level].count, count);
}

static void expect_two_by_two(const rota_cpu_core *cores) {
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(cores[i].near.level_count, 3);
        expect_level(&cores[i].near, 0, i / 2 * 2, 2);
        expect_level(&cores[i].near, 1, i / 4 * 4, 4);
        expect_level(&cores[i].near, 2, i / 8 * 8, 8);
        assert_int_equal(cores[i].node, i / 4);
    }
}

static void neighbourhoods(void **state) {
    (void)state;
    rota_cpu_core *cores = describe(two_by_two, 16);
    expect_two_by_two(cores);
    free(cores);
    /* A package has one memory and one cache: one level. Cores have two threads each. */
    cores = describe("pack:2 node:1 l3:1 core:4 pu:2", 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(cores[i].near.level_count, 1);
        assert_int_equal(CPU_COUNT(&cores[i].set), 2);
        expect_level(&cores[i].near, 0, i / 4 * 4, 4);
        assert_int_equal(cores[i].node, i / 4);
    }
    free(cores);
    /* All are equally near. */
    cores = describe("pack:1 l3:1 core:6 pu:1", 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(cores[i].near.level_count, 0);
        assert_int_equal(cores[i].node, -1);
    }
    free(cores);
}

/* The same machine by a file, as hwloc writes it of a real one. */
static void neighbourhoods_by_file(void **state) {
    (void)state;
    char path[] = "/tmp/rota-test-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    hwloc_topology_t topology;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, two_by_two), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    assert_int_equal(hwloc_topology_export_xml(topology, path, 0), 0);
    hwloc_topology_destroy(topology);
    rota_device_info info;
    rota_cpu_core *cores = NULL;
    assert_int_equal(setenv("HWLOC_XMLFILE", path, 1), 0);
    assert_ok(rota_cpu_describe(&info, &cores));
    assert_int_equal(unsetenv("HWLOC_XMLFILE"), 0);
    assert_int_equal(info.compute_units, 16);
    expect_two_by_two(cores);
    free(cores);
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
}

/* With fewer workers than cores a level ends where the workers do, and one that has all of them is none. */
static void fewer_workers(void **state) {
    (void)state;
    rota_cpu_core *cores = describe(two_by_two, 16);
    rota_cpu_near near = rota_cpu_near_cut(&cores[5].near, 6);
    assert_int_equal(near.level_count, 1);
    expect_level(&near, 0, 4, 2);
    near = rota_cpu_near_cut(&cores[4].near, 5);
    assert_int_equal(near.level_count, 0);
    near = rota_cpu_near_cut(&cores[8].near, 11);
    assert_int_equal(near.level_count, 2);
    expect_level(&near, 0, 8, 2);
    expect_level(&near, 1, 8, 3);
    assert_int_equal(rota_cpu_near_cut(&cores[1].near, 1).level_count, 0);
    free(cores);
}

/* How many of the three levels two cores have not in common. */
static uint32_t distance(uint32_t a, uint32_t b) {
    return a / 2 == b / 2 ? 0 : a / 4 == b / 4 ? 1 : a / 8 == b / 8 ? 2 : 3;
}

/* Every worker but the thief has a task: they come by distance, each once, and not always in one order. */
static void the_nearest_first(void **state) {
    (void)state;
    enum { WORKERS = 16, ROUNDS = 64 };
    static rota_cpu_device device;
    static rota_cpu_worker workers[WORKERS];
    static rota_cpu_task tasks[WORKERS];
    rota_cpu_core *cores = describe(two_by_two, WORKERS);
    device.workers = workers;
    device.worker_count = WORKERS;
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i].device = &device;
        workers[i].index = i;
        workers[i].random = i;
        workers[i].near = cores[i].near;
        tasks[i].unit = i;
        assert_true(rota_cpu_deque_init(&workers[i].deque, 4));
    }
    for (uint32_t thief = 0; thief < WORKERS; thief++) {
        uint32_t firsts = 0; /* of those furthest away, a bit each that came first */
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint32_t taken = 1u << thief, last = 0;
            for (uint32_t i = 0; i < WORKERS; i++)
                if (i != thief) assert_true(rota_cpu_deque_push(&workers[i].deque, &tasks[i]));
            for (uint32_t i = 1; i < WORKERS; i++) {
                const rota_cpu_task *task = rota_cpu_steal(&workers[thief]);
                assert_non_null(task);
                assert_int_equal(taken >> task->unit & 1u, 0);
                taken |= 1u << task->unit;
                const uint32_t away = distance(thief, task->unit);
                assert_true(away >= last);
                if (away == 3 && last < 3) firsts |= 1u << task->unit;
                last = away;
            }
            assert_null(rota_cpu_steal(&workers[thief]));
        }
        assert_true(__builtin_popcount(firsts) > 1);
    }
    for (uint32_t i = 0; i < WORKERS; i++) rota_cpu_deque_free(&workers[i].deque);
    free(cores);
}

/* Tasks are pushed while all others sleep, or those of some distance: the nearest sleeper is woken, and one everywhere
 * where none is near. Whoever is no worker wakes the first, and nobody is woken while somebody searches. */
static void the_nearest_is_woken(void **state) {
    (void)state;
    enum { WORKERS = 160, NEAR = 5, FAR = 3 };
    static rota_cpu_device device;
    static rota_cpu_worker workers[WORKERS];
    static rota_cpu_task task;
    /* Levels of 5, 20 and 80: neighbourhoods that lie across the words of sleepers. */
    rota_cpu_core *cores = describe("pack:2 node:4 l3:4 core:5 pu:1", WORKERS);
    device.workers = workers;
    device.worker_count = WORKERS;
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i].device = &device;
        workers[i].index = i;
        workers[i].near = cores[i].near;
        assert_int_equal(workers[i].near.level_count, 3);
        assert_true(rota_cpu_deque_init(&workers[i].deque, 4));
    }
    static const uint32_t sizes[] = {NEAR, 20, 80, WORKERS};
    for (uint32_t pusher = 0; pusher <= WORKERS; pusher++)
        for (uint32_t away = 0; away <= FAR; away++) {
            /* All sleep but the pusher and those that are nearer to it than `away` says. */
            const uint32_t size = away ? sizes[away - 1] : 1;
            uint32_t expected = WORKERS;
            memset((void *)device.tasks.idle, 0, sizeof device.tasks.idle);
            for (uint32_t i = WORKERS; i-- > 0;) {
                ra_store_relaxed(&workers[i].wake_word, 0);
                if (pusher < WORKERS && i / size == pusher / size) continue;
                device.tasks.idle[i / 64] |= (uint64_t)1 << i % 64;
                if (pusher == WORKERS || i / sizes[away] == pusher / sizes[away]) expected = i;
            }
            ra_store_relaxed(&device.tasks.searchers, 1);
            rota_cpu_notify(&device, pusher < WORKERS ? &workers[pusher].near : NULL);
            for (uint32_t i = 0; i < WORKERS; i++) assert_false(ra_load_relaxed(&workers[i].wake_word));
            ra_store_relaxed(&device.tasks.searchers, 0);
            if (pusher < WORKERS) {
                rota_cpu_push(&workers[pusher], &task);
                assert_ptr_equal(rota_cpu_deque_pop(&workers[pusher].deque), &task);
            } else {
                rota_cpu_notify(&device, NULL);
            }
            for (uint32_t i = 0; i < WORKERS; i++)
                assert_int_equal(ra_load_relaxed(&workers[i].wake_word), i == expected);
            assert_int_equal(device.tasks.idle[expected / 64] >> expected % 64 & 1u, 0);
            assert_int_equal(ra_load_relaxed(&device.tasks.searchers), 1);
        }
    for (uint32_t i = 0; i < WORKERS; i++) rota_cpu_deque_free(&workers[i].deque);
    free(cores);
}

/* Workers that are not as near to one another do the same work. */
static void work_is_shared(void **state) {
    (void)state;
    enum { NODES = 3000, BYTES = 4096 };
    kit_host host;
    assert_int_equal(setenv("HWLOC_SYNTHETIC", two_by_two, 1), 0);
    rota_exec_device *device = kit_open(&host, 12, 1, false);
    assert_int_equal(unsetenv("HWLOC_SYNTHETIC"), 0);
    assert_int_equal(device->info.compute_units, 16);
    assert_int_equal(rota_cpu_device_of(device)->workers[1].near.level_count, 3);
    assert_int_equal(rota_cpu_device_of(device)->workers[9].near.level_count, 2);
    rota_exec_memory *memory;
    assert_ok(device->vtable->memory_create(device, BYTES, ROTA_EXEC_MEMORY_HOST_READ, "counter", &memory));
    memset(memory->host, 0, BYTES);
    kit_program *p = kit_begin(NODES, 1, 1);
    const rota_exec_operand operand = {
        .memory = 0, .is_slot = 1, .size_bytes = BYTES, .mode = ROTA_ACCUMULATE};
    for (uint32_t i = 0; i < NODES; i++) kit_kernel(p, &count_kernel, NULL, 1, &operand);
    rota_exec_program *program;
    rota_exec_instance *instance;
    assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
    assert_ok(device->vtable->instance_create(device, program, &memory, &instance));
    for (uint64_t r = 1; r <= 20; r++) kit_submit(device, instance, 0, r, &memory->address, 0, NULL);
    kit_wait(&host, 0, 20);
    assert_int_equal(ra_load_acquire((_Atomic uint32_t *)memory->host), 20 * NODES);
    device->vtable->instance_destroy(device, instance);
    device->vtable->program_destroy(device, program);
    device->vtable->memory_destroy(device, memory);
    kit_close(device);
    kit_free(p);
}

/* Each worker on a core of its own, of those that the process may use; where there are too few, anywhere. */
static void workers_stand_on_allowed_cores(void **state) {
    (void)state;
    enum { FIRST = 3, CORES = 4 };
    for (uint32_t workers = 0; workers <= CORES + 1; workers++) {
        kit_host host;
        assert_int_equal(setenv("HWLOC_SYNTHETIC", two_by_two, 1), 0);
        made_up_machine_allow(FIRST, CORES);
        rota_exec_device *device = kit_open(&host, workers, 1, false);
        made_up_machine_allow(0, 0);
        assert_int_equal(unsetenv("HWLOC_SYNTHETIC"), 0);
        assert_int_equal(device->info.compute_units, CORES);
        const rota_cpu_device *cpu = rota_cpu_device_of(device);
        assert_int_equal(cpu->worker_count, workers ? workers : CORES);
        for (uint32_t i = 0; i < cpu->worker_count; i++) {
            const cpu_set_t cpus = made_up_machine_cpus(cpu->workers[i].thread);
            assert_int_equal(CPU_COUNT(&cpus), workers <= CORES);
            if (workers <= CORES) assert_true(CPU_ISSET(FIRST + i, &cpus));
        }
        kit_close(device);
    }
}

/* ---- Memory ---- */

static void cores_have_memories(void **state) {
    (void)state;
    rota_cpu_core *cores = describe(two_by_two, 16);
    for (uint32_t first = 0; first < 16; first++)
        for (uint32_t count = 0; count <= 16 - first; count++) {
            rota_nodes nodes = {{0}};
            rota_cpu_nodes(cores + first, count, &nodes);
            for (uint32_t node = 0; node < 5; node++)
                assert_int_equal(rota_nodes_has(&nodes, node),
                                 count && first / 4 <= node && node <= (first + count - 1) / 4);
        }
    free(cores);
}

/* A device of so many workers, of a machine that is made up, and large memory of its own. */
typedef struct large_memory {
    kit_host host;
    rota_exec_device *device;
    rota_exec_memory *memory;
} large_memory;

static void large_open(large_memory *m, const char *synthetic, uint32_t workers) {
    assert_int_equal(setenv("HWLOC_SYNTHETIC", synthetic, 1), 0);
    m->device = kit_open(&m->host, workers, 1, false);
    assert_int_equal(unsetenv("HWLOC_SYNTHETIC"), 0);
    assert_ok(m->device->vtable->memory_create(m->device, 4 << 20, ROTA_EXEC_MEMORY_HOST_READ, "large",
                                               &m->memory));
}

static void large_close(large_memory *m) {
    m->device->vtable->memory_destroy(m->device, m->memory);
    kit_close(m->device);
}

/* Its memory comes from `nodes` of the machine's, from the first on, and by such a policy. */
static void expect_policy(const char *synthetic, uint32_t workers, uint32_t nodes, int expected) {
    large_memory m;
    bool node_0;
    large_open(&m, synthetic, workers);
    assert_int_equal(rota_nodes_count(&m.device->locality.nodes), nodes);
    for (uint32_t i = 0; i < nodes; i++) assert_true(rota_nodes_has(&m.device->locality.nodes, i));
    const int policy = test_policy(m.memory->host, &node_0);
    /* A container may refuse it, and a machine lack the other nodes. */
    if (policy >= 0 && test_policy_set(MPOL_DEFAULT)) {
        assert_int_equal(policy, expected);
        if (nodes == 1) assert_true(node_0);
    }
    large_close(&m);
}

/* Of one if all workers are near that, whoever touches it first; else of all that they are near, in turns. */
static void memory_is_near_the_workers(void **state) {
    (void)state;
    expect_policy(two_by_two, 4, 1, MPOL_PREFERRED);
    expect_policy(two_by_two, 5, 2, MPOL_INTERLEAVE);
    expect_policy(two_by_two, 16, 4, MPOL_INTERLEAVE);
    /* Workers that have no core of their own run on any. */
    expect_policy(two_by_two, 17, 4, MPOL_INTERLEAVE);
    expect_policy("pack:1 l3:1 core:6 pu:1", 4, 0, MPOL_DEFAULT);
}

/* Who has placed the process's memory has done it for a reason. */
static void memory_that_is_placed_stays(void **state) {
    (void)state;
    bool node_0;
    large_memory m;
    if (!test_policy_set(MPOL_INTERLEAVE)) skip();
    large_open(&m, two_by_two, 4);
    const int policy = test_policy(m.memory->host, &node_0), own = test_policy(NULL, &node_0);
    large_close(&m);
    assert_true(test_policy_set(MPOL_DEFAULT));
    assert_int_equal(policy, MPOL_DEFAULT); /* none of its own: as whoever touches it has it */
    assert_int_equal(own, MPOL_INTERLEAVE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbourhoods),
        cmocka_unit_test(neighbourhoods_by_file),
        cmocka_unit_test(fewer_workers),
        cmocka_unit_test(the_nearest_first),
        cmocka_unit_test(the_nearest_is_woken),
        cmocka_unit_test(work_is_shared),
        cmocka_unit_test(workers_stand_on_allowed_cores),
        cmocka_unit_test(cores_have_memories),
        cmocka_unit_test(memory_is_near_the_workers),
        cmocka_unit_test(memory_that_is_placed_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
