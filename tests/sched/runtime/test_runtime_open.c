/* Opening a runtime and its devices: options that are refused, what is kept of them, and what an application
 * sees of rota's threads; what closing leaves. Linked with --wrap for making and destroying mutexes. */
#include "tests/kit/runtime_support.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

static void impossible_options_are_refused(void **state) {
    (void)state;
    rota_runtime *runtime;
    assert_status(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.queues_per_device = 17), &runtime),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.staging_slot_bytes = 1000), &runtime),
                  ROTA_INVALID_ARGUMENT);
    /* Sixteen of these are 4096 bytes, modulo 2^64. */
    assert_status(
        rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.staging_slot_bytes = ((uint64_t)1 << 60) + 256), &runtime),
        ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "16 staging slots of 1152921504606847232 bytes"));
    assert_status(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.staging_slots = UINT32_MAX,
                                                          .staging_slot_bytes = (uint64_t)1 << 32),
                                    &runtime),
                  ROTA_INVALID_ARGUMENT);
    /* A slot that is left to the default has the default's size. */
    assert_status(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.staging_slots = 4294967292u), &runtime),
                  ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "4294967292 staging slots of 1048576 bytes"));
    assert_null(runtime);
}

static char seen_cache_dir[64];

static rota_status open_and_look(const rota_exec_driver *driver, uint32_t index,
                                 const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver;
    (void)strncpy(seen_cache_dir, options->cache_dir ? options->cache_dir : "", sizeof seen_cache_dir - 1);
    return adversary_driver.open(&adversary_driver, index, options, out_device);
}

static void the_cache_folder_is_copied(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 1};
    rota_exec_driver driver = adversary_driver;
    driver.open = open_and_look;
    char folder[] = "/tmp/somewhere";
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.cache_dir = folder), &runtime));
    memset(folder, 'x', sizeof folder - 1);
    assert_ok(rota_runtime_add_driver(runtime, &driver, &adversary));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_string_equal(seen_cache_dir, "/tmp/somewhere");
    assert_ok(rota_runtime_close(runtime, 0));
}

/* The process's threads, by id. */
enum { THREADS_MAX = 256 };
static uint32_t list_threads(long *out_ids) {
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    uint32_t count = 0;
    for (const struct dirent *entry; (entry = readdir(tasks)) && count < THREADS_MAX;)
        if (entry->d_name[0] != '.') out_ids[count++] = strtol(entry->d_name, NULL, 10);
    (void)closedir(tasks);
    return count;
}

/* The signals that a thread blocks, bit by number less 1. */
static uint64_t blocked_signals(long thread) {
    char path[64], line[128];
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/status", thread);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    uint64_t blocked = 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "SigBlk:", 7) == 0) blocked = strtoull(line + 7, NULL, 16);
    (void)fclose(file);
    return blocked;
}

static bool is_of_a_fault(int number) {
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
           number == SIGTRAP || number == SIGSYS;
}

/* A thread begins with all signals blocked, by the C library, and takes its own mask when it runs: on a busy
 * machine that may be later. */
static uint64_t blocked_signals_of_started(long thread) {
    const uint64_t deadline = rota_deadline_after(10000000000u);
    uint64_t blocked = blocked_signals(thread);
    while (blocked >> (SIGSEGV - 1) & 1 && rota_clock_ns() < deadline) {
        (void)sched_yield();
        blocked = blocked_signals(thread);
    }
    return blocked;
}

/* Handlers run on the application's threads: none that comes with a runtime and its devices takes a signal,
 * but for what its own instructions raise. */
static void signals_are_the_applications(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 1};
    rota_runtime *runtime;
    rota_device *device;
    long before[THREADS_MAX], after[THREADS_MAX];
    uint32_t before_count = list_threads(before), fresh = 0;
    assert_ok(adversary_runtime_open(&adversary, NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    uint32_t after_count = list_threads(after);
    for (uint32_t i = 0; i < after_count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < before_count; k++) known = known || before[k] == after[i];
        if (known) continue;
        fresh++;
        const uint64_t blocked = blocked_signals_of_started(after[i]);
        for (int number = 1; number < 32; number++)
            if (number != SIGKILL && number != SIGSTOP)
                assert_int_equal(blocked >> (number - 1) & 1, !is_of_a_fault(number));
    }
    /* sequencer, completer, reclaimer, a worker, the adversary's, two submit threads */
    assert_true(fresh >= 6);
    assert_ok(rota_runtime_close(runtime, 0));
}

static volatile int fault_signal;

static void end_by_fault(int number) {
    _exit(number == fault_signal ? 7 : 8);
}

static rota_status raise_a_fault(void *user, void *const *operands, const uint64_t *parameters,
                                 uint32_t count) {
    (void)user, (void)operands, (void)parameters, (void)count;
    (void)raise(fault_signal); /* to this thread */
    return ROTA_OK;
}

/* In a process of its own: a host function that faults on one of the runtime's threads. */
static void fault_on_a_worker(int number) {
    rota_runtime *runtime;
    rota_device *device;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_buffer *buffer;
    rota_ticket ticket;
    fault_signal = number;
    (void)signal(number, end_by_fault);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.cache_dir = ""), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    assert_ok(rota_buffer_create_in(runtime, "b", 64, &buffer));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    const rota_access access = {buffer, 0, 64, ROTA_WRITE};
    const rota_host_node node =
        ROTA_HOST_NODE(.fn = raise_a_fault, .name = "faults", .accesses = &access, .access_count = 1);
    assert_ok(rota_record_host(recorder, &node, NULL));
    rota_recorder_close(recorder);
    assert_ok(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    assert_ok(rota_submit(plan, NULL, &ticket));
    (void)rota_wait(ticket, 0);
    _exit(9); /* the handler didn't run */
}

/* An application's crash handler is called on whichever thread faults, the library's included. */
static void faults_reach_the_applications_handler(void **state) {
    (void)state;
    const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) fault_on_a_worker(numbers[i]);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 7);
    }
}

static void *choose(void *runtime) {
    rota_device *device;
    for (int i = 0; i < 5; i++) {
        const char *before = rota_device_choice(runtime);
        if (rota_device_open(runtime, NULL, &device) != ROTA_OK) return "open failed";
        const char *after = rota_device_choice(runtime);
        if (strncmp(after, "chose '", 7) != 0 || (*before && strcmp(before, after) != 0))
            return "other words";
    }
    return NULL;
}

/* The sentence may be read while others open: it is written once (the thread sanitizer watches). */
static void the_choice_is_made_once(void **state) {
    (void)state;
    rota_runtime *runtime;
    pthread_t threads[4];
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_string_equal(rota_device_choice(runtime), "");
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, choose, runtime), 0);
    for (int i = 0; i < 4; i++) {
        void *failure;
        assert_int_equal(pthread_join(threads[i], &failure), 0);
        assert_null(failure);
    }
    assert_ok(rota_runtime_close(runtime, 0));
}

static rota_status list_a_gpu(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                              uint32_t *out_count) {
    ROTA_TRY(adversary_driver.enumerate(driver, out_infos, capacity, out_count));
    if (*out_count > 1) *out_count = 1;
    out_infos[0].device_class = ROTA_DEVICE_GPU;
    return ROTA_OK;
}

static rota_status list_none(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                             uint32_t *out_count) {
    (void)driver, (void)out_infos, (void)capacity;
    *out_count = 0;
    (void)rota_fail(ROTA_OK, "nothing is installed");
    return ROTA_OK;
}

/* Why there is no GPU is said where there is none. */
static void the_choice_gives_its_reason(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 1};
    rota_exec_driver gpu = adversary_driver, gone = adversary_driver;
    rota_runtime *runtime;
    rota_device *device;
    gpu.enumerate = list_a_gpu;
    gone.enumerate = list_none;
    gone.name = "absent";
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &gone, &adversary));
    assert_status(rota_device_open(runtime, "absent:0", &device), ROTA_NOT_FOUND);
    assert_non_null(strstr(rota_last_error(), "absent: nothing is installed"));
    assert_ok(rota_runtime_add_driver(runtime, &gpu, &adversary));
    assert_ok(rota_device_open(runtime, NULL, &device));
    assert_non_null(strstr(rota_device_choice(runtime), "a GPU that passed its smoke test"));
    assert_null(strstr(rota_device_choice(runtime), "no GPU"));
    assert_ok(rota_runtime_close(runtime, 0));
}

/* One GPU, by both of its drivers, Vulkan's first. */
static rota_status list_both(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                             uint32_t *out_count) {
    ROTA_TRY(adversary_driver.enumerate(driver, out_infos, capacity, out_count));
    for (uint32_t i = 0; i < *out_count && i < 2; i++) out_infos[i].device_class = ROTA_DEVICE_GPU;
    out_infos[1].kind = ROTA_EXEC_CUDA;
    return ROTA_OK;
}

static rota_status open_first_only(const rota_exec_driver *driver, uint32_t index,
                                   const rota_exec_open_options *options, rota_exec_device **out_device) {
    if (index == 1) return rota_fail(ROTA_UNSUPPORTED, "this one does not open");
    return adversary_driver.open(driver, index, options, out_device);
}

/* CUDA is the faster way to a GPU; where it does not work there is the other. */
static void of_one_gpu_cuda_comes_first(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 1};
    rota_exec_driver gpu = adversary_driver;
    rota_runtime *runtime;
    rota_device *device;
    gpu.enumerate = list_both;
    for (int works = 0; works < 2; works++) {
        gpu.open = works ? adversary_driver.open : open_first_only;
        assert_ok(rota_runtime_open(NULL, &runtime));
        assert_ok(rota_runtime_add_driver(runtime, &gpu, &adversary));
        assert_ok(rota_device_open(runtime, NULL, &device));
        const rota_device_info *info = rota_device_get_info(device);
        assert_string_equal(info->id, works ? "adversary:1" : "adversary");
        assert_non_null(strstr(rota_device_choice(runtime), info->id));
        assert_int_equal(strstr(rota_device_choice(runtime), "this one does not open") != NULL, !works);
        assert_ok(rota_runtime_close(runtime, 0));
    }
}

static _Atomic int mutexes;
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __real_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
    const int error = __real_pthread_mutex_init(mutex, attributes);
    if (error == 0) mutexes++;
    return error;
}
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex) {
    const int error = __real_pthread_mutex_destroy(mutex);
    if (error == 0) mutexes--;
    return error;
}

/* A mutex may have memory of its own that only its end gives back: each one has an end, of a runtime, of its devices
 * and of what was made with them. */
static void every_mutex_is_destroyed(void **state) {
    (void)state;
    static const char *const ids[] = {"cpu", "adversary", "vk:0"};
    for (uint32_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        adversary_options adversary = {.seed = 1};
        rota_runtime *runtime;
        rota_device *device;
        rota_ticket ticket;
        const int before = mutexes;
        assert_ok(adversary_runtime_open(&adversary, &ROTA_RUNTIME_OPTIONS(.diagnostics = true), &runtime));
        assert_true(mutexes > before);
        if (rota_device_open(runtime, ids[i], &device) == ROTA_OK) {
            rota_buffer *x = test_words(device, "x", 16, 5);
            const test_node node = {&test_increment, "step", {{x, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
            if (strcmp(ids[i], "vk:0") != 0) { /* whose kernels are shaders */
                rota_plan *plan = test_plan(device, "step", &node, 1);
                assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
                assert_ok(rota_wait(ticket, 0));
                rota_plan_release(plan);
            }
            rota_buffer_release(x);
        } else {
            print_message("no %s: %s\n", ids[i], rota_last_error());
            assert_string_equal(ids[i], "vk:0");
        }
        assert_ok(rota_runtime_close(runtime, 0));
        assert_int_equal(mutexes, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(the_cache_folder_is_copied),
        cmocka_unit_test(signals_are_the_applications),
        cmocka_unit_test(faults_reach_the_applications_handler),
        cmocka_unit_test(the_choice_is_made_once),
        cmocka_unit_test(the_choice_gives_its_reason),
        cmocka_unit_test(of_one_gpu_cuda_comes_first),
        cmocka_unit_test(every_mutex_is_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
