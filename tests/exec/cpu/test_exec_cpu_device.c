/* The CPU executor as a device: what it says of itself, memory, refused programs, idling, signals, works
 * that come back, and closing. With an argument "bench": the times that its clustering and queues were tuned by. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/cpu/device.h"
#include "tests/exec/cpu/exec_cpu_kit.h"
#include "tests/kit/nap.h"

/* ---- Description, memory, programs ---- */

static void memory_is_aligned_and_bounded(void **state) {
    (void)state;
    kit_host host;
    rota_exec_device *device = kit_open(&host, 1, 1, false);
    rota_exec_memory *memory;
    static const uint64_t sizes[] = {1, 4, 255, 257, (1 << 20) - 1, 1 << 20, (9 << 20) + 5};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ok(device->vtable->memory_create(device, sizes[i], 0, "m", &memory));
        assert_int_equal(memory->address % ROTA_BUFFER_ALIGNMENT, 0);
        assert_ptr_equal(memory->host, (void *)(uintptr_t)memory->address);
        assert_int_equal(memory->size_bytes, sizes[i]);
        memset(memory->host, 1, sizes[i]);
        device->vtable->memory_destroy(device, memory);
    }
    char asked[32];
    (void)snprintf(asked, sizeof asked, "%llu",
                   (unsigned long long)device->info.memory_bytes * 2 / 4096 * 4096);
    assert_status(device->vtable->memory_create(device, device->info.memory_bytes * 2 / 4096 * 4096, 0,
                                                "giant", &memory),
                  ROTA_OUT_OF_MEMORY);
    assert_non_null(strstr(rota_last_error(), "giant"));
    assert_non_null(strstr(rota_last_error(), asked));
    assert_status(device->vtable->memory_create(device, UINT64_MAX, 0, "absurd", &memory),
                  ROTA_OUT_OF_MEMORY);
    /* What is left over goes with the device (checked by the leak sanitizer). */
    assert_ok(device->vtable->memory_create(device, 4096, 0, "left over", &memory));
    kit_close(device);
}

static void device_describes_itself(void **state) {
    (void)state;
    rota_device_info info = ROTA_DEVICE_INFO();
    uint32_t count = 0;
    assert_ok(rota_exec_cpu_driver.enumerate(&rota_exec_cpu_driver, NULL, 0, &count));
    assert_int_equal(count, 1);
    assert_ok(rota_exec_cpu_driver.enumerate(&rota_exec_cpu_driver, &info, 1, &count));
    assert_string_equal(info.id, "cpu");
    assert_true(info.name[0] != 0 && info.usable && info.compute_units > 0 && info.memory_bytes > 1 << 20);
    assert_int_equal(info.device_class, ROTA_DEVICE_CPU);
    kit_host host;
    rota_exec_device *device = NULL;
    rota_exec_open_options options = {.queue_count = ROTA_EXEC_QUEUES_MAX + 1};
    assert_status(rota_exec_cpu_driver.open(&rota_exec_cpu_driver, 0, &options, &device),
                  ROTA_INVALID_ARGUMENT);
    options.queue_count = 1;
    assert_status(rota_exec_cpu_driver.open(&rota_exec_cpu_driver, 1, &options, &device), ROTA_NOT_FOUND);
    options.worker_threads = 100000;
    assert_status(rota_exec_cpu_driver.open(&rota_exec_cpu_driver, 0, &options, &device),
                  ROTA_INVALID_ARGUMENT);
    device = kit_open(&host, 0, 16, false);
    assert_true(device->caps.unified_host && device->caps.reuse_in_flight &&
                device->caps.submit_never_blocks && device->caps.runs_host_nodes &&
                device->caps.asks_must_skip);
    kit_close(device);
}

static void programs_are_refused_by_name(void **state) {
    (void)state;
    kit_host host;
    rota_exec_device *device = kit_open(&host, 1, 1, false);
    static const rota_kernel gpu_only = {.name = "gpu_only"};
    rota_exec_program *program;
    kit_program *p = kit_begin(1, 1, 0);
    rota_exec_operand operand = kit_at(0, 0, 64, ROTA_READWRITE);
    kit_kernel(p, &gpu_only, NULL, 1, &operand);
    assert_status(device->vtable->program_create(device, kit_finish(p, 0), &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "gpu_only"));
    assert_non_null(strstr(rota_last_error(), "test node"));
    p->nodes[0].u.kernel.kernel = &count_kernel;
    p->operands[0].memory = 1;
    assert_status(device->vtable->program_create(device, &p->desc, &program), ROTA_OUT_OF_RANGE);
    p->operands[0].memory = 0;
    assert_ok(device->vtable->program_create(device, &p->desc, &program));
    rota_exec_memory *memory;
    assert_ok(device->vtable->memory_create(device, 32, 0, "small", &memory));
    rota_exec_instance *instance;
    assert_status(device->vtable->instance_create(device, program, &memory, &instance), ROTA_OUT_OF_RANGE);
    device->vtable->program_destroy(device, program);
    device->vtable->memory_destroy(device, memory);
    kit_close(device);
    kit_free(p);
}

/* ---- Signals, idling ---- */

static rota_status look_at_signals(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)operands, (void)bytes, (void)count;
    sigset_t mask;
    if (pthread_sigmask(SIG_SETMASK, NULL, &mask) != 0) return rota_fail(ROTA_SYSTEM, "no mask");
    ra_store_release((_Atomic uint32_t *)user,
                     sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGUSR1) == 1 ? 1 : 2);
    return ROTA_OK;
}

static void workers_block_signals(void **state) {
    (void)state;
    kit_host host;
    sigset_t before, after;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    rota_exec_device *device = kit_open(&host, 1, 1, false);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
    _Atomic uint32_t seen = 0;
    kit_program *p = kit_begin(1, 1, 0);
    rota_exec_command *c = kit_node(p, ROTA_EXEC_COMMAND_HOST, 0, NULL);
    c->u.host.fn = look_at_signals;
    c->u.host.user = &seen;
    rota_exec_program *program;
    rota_exec_instance *instance;
    assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
    assert_ok(device->vtable->instance_create(device, program, NULL, &instance));
    kit_submit(device, instance, 0, 1, NULL, 0, NULL);
    kit_wait(&host, 0, 1);
    assert_int_equal(ra_load_acquire(&seen), 1);
    device->vtable->instance_destroy(device, instance);
    device->vtable->program_destroy(device, program);
    kit_close(device);
    kit_free(p);
}

/* CPU time of the executor's threads, told by their names; a BLAS has threads of its own, which spin a while.
 */
static uint64_t workers_time_ns(uint32_t *out_threads) {
    uint64_t total = 0;
    *out_threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[320], name[32] = "", times[96] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        bool ours = fgets(name, sizeof name, file) && strncmp(name, "rota-cpu", 8) == 0;
        fclose(file);
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        file = ours ? fopen(path, "r") : NULL;
        if (!file) continue;
        if (fgets(times, sizeof times, file)) {
            total += strtoull(times, NULL, 10);
            ++*out_threads;
        }
        fclose(file);
    }
    closedir(tasks);
    return total;
}

static void idle_workers_use_no_time(void **state) {
    (void)state;
    kit_host host;
    rota_exec_device *device = kit_open(&host, 4, 2, false);
    for (uint64_t i = 1; i <= 20; i++) {
        kit_submit(device, NULL, 0, i, NULL, 0, NULL);
        test_nap_ms(2); /* long enough to fall asleep: wakes are tested too */
    }
    kit_wait(&host, 0, 20);
    test_nap_ms(50);
    uint32_t threads, again;
    uint64_t before = workers_time_ns(&threads);
    test_nap_ms(400);
    uint64_t used = workers_time_ns(&again) - before;
    assert_int_equal(threads, 4);
    assert_int_equal(again, 4);
    if (used > 8000000) fail_msg("an idle device used %llu us in 400 ms", (unsigned long long)used / 1000);
    kit_close(device);
}

/* ---- Works that come back ---- */

/* In the pump, the last thing for a work is to give back what is free. */
static rota_cpu_device *at_rest(rota_exec_device *base) {
    rota_cpu_device *device = rota_cpu_device_of(base);
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (ra_load_acquire(&device->pump.events) != 0 && rota_clock_ns() < deadline) test_nap_us(20);
    assert_int_equal(ra_load_acquire(&device->pump.events), 0);
    return device;
}

/* One after the other on each queue, in turn: what came back of an idle one serves the next. */
static void queues_share_their_works(void **state) {
    (void)state;
    enum { EACH = 40 };
    kit_host host;
    rota_exec_device *device = kit_open(&host, 1, ROTA_EXEC_QUEUES_MAX, false);
    for (uint32_t q = 0; q < ROTA_EXEC_QUEUES_MAX; q++)
        for (uint64_t i = 1; i <= EACH; i++) {
            kit_submit(device, NULL, q, i, NULL, 0, NULL);
            kit_wait(&host, q, i);
        }
    uint32_t chunks = 0;
    /* Each begins with where the next one is. */
    for (void *chunk = at_rest(device)->works.chunks; chunk; chunk = *(void **)chunk) chunks++;
    assert_int_equal(chunks, 1);
    kit_close(device);
}

static uint32_t keep_memory(rota_cpu_work *work) {
    uint32_t count = 0;
    for (; work; work = ra_load_relaxed(&work->next)) count += work->keeps_memory;
    return count;
}

/* Those that keep memory are counted where they can be taken, whatever queue they were of. */
static void what_keeps_memory_can_be_taken(void **state) {
    (void)state;
    enum { EACH = 40, QUEUES = 4 };
    kit_host host;
    rota_exec_device *base = kit_open(&host, 1, QUEUES, false);
    rota_exec_memory *memory[2];
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(base->vtable->memory_create(base, 64, 0, "memory", &memory[i]));
    const rota_exec_copy copies[2] = {{memory[0], memory[1], 0, 0, 8}, {memory[0], memory[1], 8, 8, 8}};
    for (uint32_t q = 0; q < QUEUES; q++)
        for (uint64_t i = 1; i <= EACH; i++) {
            const rota_exec_work work = {.queue = q, .signal_value = i, .copies = copies, .copy_count = 2};
            assert_ok(base->vtable->submit(base, &work, 1));
            kit_wait(&host, q, i);
        }
    rota_cpu_device *device = at_rest(base);
    const uint32_t kept = ra_load_acquire(&device->recycled.large_kept);
    assert_true(kept > 0);
    assert_int_equal(keep_memory(device->works.free) + keep_memory(ra_load_acquire(&device->recycled.free)),
                     kept);
    for (uint32_t i = 0; i < 2; i++) base->vtable->memory_destroy(base, memory[i]);
    kit_close(base);
}

/* ---- Closing ---- */

/* One piece of a split kernel, or one of several nodes, does not end: close keeps its deadline and abandons.
 */
static _Atomic uint32_t stuck_release, stuck_inside;

static rota_status stuck_run(const rota_kernel_call *call) {
    if (call->begin != 0) return ROTA_OK;
    ra_store_release(&stuck_inside, 1);
    while (!ra_load_acquire(&stuck_release)) (void)sched_yield();
    *(uint64_t *)call->operands[0] = 1; /* must still be there */
    ra_store_release(&stuck_inside, 2);
    return ROTA_OK;
}
static const rota_kernel stuck_whole = {.name = "stuck", .cpu = {stuck_run, NULL}};
static const rota_kernel stuck_split = {.name = "stuck", .cpu = {stuck_run, mix_items}};

static void close_keeps_its_deadline(void **state) {
    (void)state;
    for (uint32_t split = 0; split < 2; split++) {
        ra_store_release(&stuck_release, 0);
        ra_store_release(&stuck_inside, 0);
        kit_host *host = malloc(sizeof *host);
        rota_exec_device *device = kit_open(host, 2, 1, false);
        rota_exec_memory *memory;
        assert_ok(device->vtable->memory_create(device, 1 << 18, 0, "m", &memory));
        kit_program *p = kit_begin(2, 1, 0);
        rota_exec_operand operand = kit_at(0, 0, 1 << 18, ROTA_READWRITE);
        kit_kernel(p, split ? &stuck_split : &stuck_whole, NULL, 1, &operand);
        kit_kernel(p, &count_kernel, NULL, 1, &operand);
        rota_exec_program *program;
        rota_exec_instance *instance;
        assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
        assert_ok(device->vtable->instance_create(device, program, &memory, &instance));
        kit_submit(device, instance, 0, 1, NULL, 0, NULL);
        uint64_t deadline = rota_deadline_after(20000000000u);
        while (!ra_load_acquire(&stuck_inside)) assert_true(rota_clock_ns() < deadline);
        rota_exec_stuck stuck = {.node = 9};
        assert_true(device->vtable->stuck_node(device, instance, &stuck));
        assert_int_equal(stuck.node, 0);
        uint64_t begin = rota_clock_ns(), abandoned = 0;
        device->vtable->close(device, rota_deadline_after(50000000), &abandoned);
        uint64_t took = rota_clock_ns() - begin;
        assert_true(took >= 45000000 && took < 2000000000);
        assert_true(abandoned > 1 << 18 && abandoned < 2 << 18);
        assert_int_equal(ra_load_acquire(&host->timeline[0]), 0);
        /* The host is gone when the kernel ends after all. */
        memset(host, 0xff, sizeof *host);
        free(host);
        kit_free(p);
        ra_store_release(&stuck_release, 1);
        deadline = rota_deadline_after(20000000000u);
        while (ra_load_acquire(&stuck_inside) != 2) assert_true(rota_clock_ns() < deadline);
        test_nap_ms(20);
    }
}

/* ---- Benchmark ---- */

static rota_status nothing_run(const rota_kernel_call *call) {
    *(volatile uint8_t *)call->operands[0] = (uint8_t)call->end;
    return ROTA_OK;
}
static const rota_kernel nothing = {.name = "nothing", .cpu = {nothing_run, NULL}};

/* Large kernels: how much a second worker brings. Four independent chains of whole kernels; one chain of
 * split ones. */
static void bench_large(bool is_split) {
    enum { NODES = 200, BYTES = 1 << 18, REPLAYS = 20 };
    double one = 0;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        kit_host host;
        rota_exec_device *device = kit_open(&host, workers, 1, false);
        rota_exec_memory *memories[4];
        for (uint32_t i = 0; i < 4; i++) {
            assert_ok(device->vtable->memory_create(device, BYTES, 0, "m", &memories[i]));
            memset(memories[i]->host, 1, BYTES);
        }
        uint32_t salt = 1;
        kit_program *p = kit_begin(NODES, 4, 0);
        for (uint32_t i = 0; i < NODES; i++) {
            rota_exec_operand operand = kit_at(is_split ? 0 : i % 4, 0, BYTES, ROTA_READWRITE);
            kit_kernel(p, is_split ? &mix_split : &mix_whole, &salt, 1, &operand);
        }
        rota_exec_program *program;
        rota_exec_instance *instance;
        assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
        assert_ok(device->vtable->instance_create(device, program, memories, &instance));
        uint64_t best = UINT64_MAX;
        for (uint64_t r = 1; r <= REPLAYS; r++) {
            uint64_t begin = rota_clock_ns();
            kit_submit(device, instance, 0, r, NULL, 0, NULL);
            while (ra_load_acquire(&host.timeline[0]) < r) (void)sched_yield();
            uint64_t took = rota_clock_ns() - begin;
            if (took < best) best = took;
        }
        if (workers == 1) one = (double)best;
        printf("%s, %u workers: %.1f us a kernel, %.2f times one worker's speed\n",
               is_split ? "chain of split kernels" : "4 chains of whole kernels", workers,
               (double)best / NODES / 1000, one / (double)best);
        device->vtable->instance_destroy(device, instance);
        device->vtable->program_destroy(device, program);
        for (uint32_t i = 0; i < 4; i++) device->vtable->memory_destroy(device, memories[i]);
        kit_close(device);
        kit_free(p);
    }
}

static int bench(void) {
    bench_large(false);
    bench_large(true);
    kit_host host;
    static const uint64_t sizes[] = {64, 4096};
    for (uint32_t s = 0; s < 2; s++) {
        for (uint32_t workers = 1; workers <= 2; workers++) {
            rota_exec_device *device = kit_open(&host, workers, 1, false);
            enum { NODES = 100000, MEMORIES = 200 };
            rota_exec_memory *memories[MEMORIES];
            for (uint32_t i = 0; i < MEMORIES; i++)
                assert_ok(device->vtable->memory_create(device, sizes[s], 0, "m", &memories[i]));
            kit_program *p = kit_begin(NODES, MEMORIES, 0);
            uint64_t seed = 3;
            for (uint32_t i = 0; i < NODES; i++) {
                /* Like training: mostly reads what came just before, sometimes what lies far back, writes a
                 * new place. */
                rota_exec_operand operands[4];
                uint32_t count = 1 + (uint32_t)(test_random(&seed) % 4);
                operands[0] = kit_at(i % MEMORIES, 0, sizes[s], ROTA_WRITE);
                for (uint32_t o = 1; o < count; o++) {
                    uint32_t back = o == 1 ? 1 + (uint32_t)(test_random(&seed) % 4)
                                           : 1 + (uint32_t)(test_random(&seed) % (MEMORIES - 1));
                    operands[o] = kit_at((i + MEMORIES - back) % MEMORIES, 0, sizes[s], ROTA_READ);
                }
                kit_kernel(p, &nothing, NULL, count, operands);
            }
            rota_exec_program *program;
            rota_exec_instance *instance;
            const rota_exec_program_desc *desc = kit_finish(p, 0);
            uint64_t begin = rota_clock_ns();
            assert_ok(device->vtable->program_create(device, desc, &program));
            uint64_t created = rota_clock_ns() - begin;
            assert_ok(device->vtable->instance_create(device, program, memories, &instance));
            uint64_t best = UINT64_MAX, sum = 0;
            enum { REPLAYS = 40 };
            for (uint64_t r = 1; r <= REPLAYS; r++) {
                begin = rota_clock_ns();
                kit_submit(device, instance, 0, r, NULL, 0, NULL);
                while (ra_load_acquire(&host.timeline[0]) < r) ra_pause();
                uint64_t took = rota_clock_ns() - begin;
                if (took < best) best = took;
                sum += took;
            }
            printf("train-like %d nodes of %llu bytes, %u workers: %.1f ns/node mean, %.1f best; create %.0f "
                   "ns/node\n",
                   NODES, (unsigned long long)sizes[s], workers, (double)sum / REPLAYS / NODES,
                   (double)best / NODES, (double)created / NODES);
            device->vtable->instance_destroy(device, instance);
            device->vtable->program_destroy(device, program);
            for (uint32_t i = 0; i < MEMORIES; i++) device->vtable->memory_destroy(device, memories[i]);
            kit_close(device);
            kit_free(p);
        }
    }
    for (uint32_t dependent = 0; dependent < 2; dependent++) {
        rota_exec_device *device = kit_open(&host, 2, 1, false);
        rota_exec_memory *memory;
        assert_ok(device->vtable->memory_create(device, 64, 0, "m", &memory));
        kit_program *p = kit_begin(8, 1, 0);
        rota_exec_operand operand = kit_at(0, 0, 64, ROTA_READWRITE);
        for (uint32_t i = 0; i < 8; i++) kit_kernel(p, &nothing, NULL, 1, &operand);
        rota_exec_program *program;
        rota_exec_instance *instance;
        assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
        assert_ok(device->vtable->instance_create(device, program, &memory, &instance));
        enum { WORKS = 1000000, WINDOW = 1000 };
        uint32_t threads;
        uint64_t begin = rota_clock_ns(), cpu = workers_time_ns(&threads);
        for (uint64_t i = 1; i <= WORKS; i++) {
            while (i > ra_load_acquire(&host.timeline[0]) + WINDOW) (void)sched_yield();
            rota_exec_wait wait = {0, i - 1};
            kit_submit(device, instance, 0, i, NULL, dependent && i > 1, &wait);
        }
        while (ra_load_acquire(&host.timeline[0]) < WORKS) (void)sched_yield();
        uint64_t took = rota_clock_ns() - begin;
        printf("8-command works, %s: %.0f ns each, %.0f a second; %.0f ns of the workers' CPU each\n",
               dependent ? "each after the last" : "independent", (double)took / WORKS,
               1e9 * WORKS / (double)took, (double)(workers_time_ns(&threads) - cpu) / WORKS);
        device->vtable->instance_destroy(device, instance);
        device->vtable->program_destroy(device, program);
        device->vtable->memory_destroy(device, memory);
        kit_close(device);
        kit_free(p);
    }
    return 0;
}

int main(int argument_count, char **arguments) {
    if (argument_count > 1 && strcmp(arguments[1], "bench") == 0) return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_describes_itself),      cmocka_unit_test(memory_is_aligned_and_bounded),
        cmocka_unit_test(programs_are_refused_by_name), cmocka_unit_test(workers_block_signals),
        cmocka_unit_test(idle_workers_use_no_time),     cmocka_unit_test(close_keeps_its_deadline),
        cmocka_unit_test(queues_share_their_works),     cmocka_unit_test(what_keeps_memory_can_be_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
