/* What is exec/vk's own, under the validation layer, with programs put together by hand; what the contract asks
 * of every executor is exec_contract.h's. Without a Vulkan device every case is skipped by name. */
#include "tests/exec/vk/exec_vk_kit.h"
#include "tests/kit/nap.h"
#include "tests/kit/random.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Upload, saxpy at fixed addresses, read back. */
static void test_fixed(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    rota_exec_memory *memories[] = {memory(f, 3 * BYTES, ROTA_EXEC_MEMORY_DEVICE), shared(f, 3 * BYTES)};
    float *host = memories[1]->host;
    for (uint32_t i = 0; i < COUNT; i++) {
        host[i] = (float)i;
        host[COUNT + i] = 0.5f;
        host[2 * COUNT + i] = -999.0f;
    }
    saxpy_params params = {COUNT, 3.0f};
    test_program *p = test_program_new(QUEUES, 2, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 0, false, 0, 2 * BYTES, ROTA_WRITE);
    test_program_operand(p, 1, false, 0, 2 * BYTES, ROTA_READ);
    test_program_batch(p);
    saxpy_node(p, &params);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, 2 * BYTES, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, 2 * BYTES, BYTES, ROTA_READ);
    loaded l = load(f, p, memories);
    assert_int_equal(rota_vk_barriers_recorded(f->device), 2);
    rota_exec_work w = work(f, l, 0, 0, NULL, 0, NULL);
    submit(f, &w, 1);
    wait_for(f, 0);
    for (uint32_t i = 0; i < COUNT; i++)
        if (host[2 * COUNT + i] != 3.0f * (float)i + 0.5f)
            fail_msg("element %u is %f", i, (double)host[2 * COUNT + i]);
    unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    f->device->vtable->memory_destroy(f->device, memories[1]);
    close_quiet(f, false);
}

/* 1 000 submissions of a chain in flight at once, each behind the one before, merged into few driver calls.
 */
static void test_merged(void **state) {
    (void)state;
    fixture *f = open_with(&(rota_exec_open_options){.max_in_flight = 8});
    rota_exec_memory *memories[] = {shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = chain_program(3, &params);
    loaded l = load(f, p, memories);
    for (uint32_t sent = 0; sent < 1000;) {
        rota_exec_work works[10];
        rota_exec_wait waits[10];
        for (uint32_t i = 0; i < 10; i++, sent++) {
            waits[i] = (rota_exec_wait){.queue = 0, .value = f->next[0]};
            works[i] = work(f, l, 0, 0, &waits[i], 1, NULL);
        }
        submit(f, works, 10);
    }
    wait_for(f, 0);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], stepped(i, i, 3000));
    uint64_t calls, infos;
    rota_vk_submit_counts(f->device, &calls, &infos);
    assert_int_equal(calls, 100);
    /* With eight in flight at most, the first four of a call may be reported apart, the other six together.
     */
    assert_true(infos >= 100 && infos <= 500);
    /* Two that are handed over together while the device has nothing to do are reported each when it ends. */
    rota_exec_wait waits[2];
    rota_exec_work works[2];
    for (uint32_t i = 0; i < 2; i++) {
        waits[i] = (rota_exec_wait){.queue = 0, .value = f->next[0]};
        works[i] = work(f, l, 0, 0, &waits[i], 1, NULL);
    }
    submit(f, works, 2);
    wait_for(f, 0);
    uint64_t apart;
    rota_vk_submit_counts(f->device, &calls, &apart);
    assert_int_equal(calls, 101);
    assert_int_equal(apart - infos, 2);
    unload(f, l);
    free(p);
    close_quiet(f, false);
}

/* A wait holds for all later works of its logical queue, also when they run on the other real queue: the
 * transfer queue's copy waits for a chain, its kernel after it does not say so again. */
static void test_cumulative(void **state) {
    (void)state;
    rota_vk_test_options test = {.split_transfer = true};
    fixture *f = open_with(&(rota_exec_open_options){.test = &test});
    rota_vk_device *device = (rota_vk_device *)f->device;
    rota_exec_memory *memories[] = {shared(f, 3 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = chain_program(CHAIN, &params); /* segment 0, queue 0 */
    uint32_t transfer = QUEUES - 1;
    test_program_segment(p, transfer); /* 1: a copy of something else */
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 0, false, 2 * BYTES, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    test_program_segment(p, transfer); /* 2: a kernel on what the chain writes */
    test_program_batch(p);
    test_program_kernel(p, &step, &params);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    loaded l = load(f, p, memories);
    rota_exec_wait wait = {.queue = 0, .value = 1};
    rota_exec_work works[] = {work(f, l, 0, 0, NULL, 0, NULL), work(f, l, 1, transfer, &wait, 1, NULL),
                              work(f, l, 2, transfer, NULL, 0, NULL)};
    submit(f, works, 3);
    /* The kernel ran on the compute queue with a wait of its own for the chain. */
    assert_int_equal(device->logical[transfer].points[0].real, 1);
    assert_int_equal(device->logical[transfer].points[1].real, 0);
    assert_int_equal(device->reals[0].submit.covered[0], 1);
    assert_int_equal(device->reals[1].submit.covered[0], 1);
    wait_for(f, transfer);
    assert_int_equal(atomic_load(&f->host.reached[0]), 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(x[i], stepped(i, i, CHAIN + 1));
        assert_int_equal(x[2 * COUNT + i], i);
    }
    unload(f, l);
    free(p);
    close_quiet(f, false);
}

/* What cannot run is refused with names and both numbers. */
static void test_refusals(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    const rota_exec_device_vtable *v = f->device->vtable;
    rota_kernel big = saxpy;
    big.name = "big";
    big.param_bytes = ROTA_KERNEL_PARAM_BYTES_MAX;
    uint8_t params[ROTA_KERNEL_PARAM_BYTES_MAX] = {0};
    test_program *p = made_program(&big, params);
    rota_exec_program *program = NULL;
    if (f->device->info.max_push_constant_bytes < 288) {
        assert_status(v->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
        assert_non_null(strstr(rota_last_error(), "288"));
        assert_non_null(strstr(rota_last_error(), "'big'"));
    }
    rota_kernel wide = saxpy;
    wide.vk.grid = NULL;
    p->commands[0].u.kernel.kernel = &wide;
    p->commands[0].u.kernel.groups[1] = UINT32_MAX;
    assert_status(v->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "4294967295"));
    rota_kernel future = saxpy;
    future.vk.required_features = 1u << 31;
    p->commands[0].u.kernel.kernel = &future;
    assert_status(v->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
    free(p);
    close_quiet(f, false);
}

/* Touch mode: no message with all barriers, at least one when any barrier is left out. */
static void test_touch(void **state) {
    (void)state;
    fixture *f = open_with(&(rota_exec_open_options){.touch = true});
    if (!rota_vk_validation_active(f->device)) {
        print_message("skipped: the validation layer is not installed\n");
        close_quiet(f, false);
        skip();
    }
    rota_exec_memory *memories[] = {memory(f, 4 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p); /* independent: two fills */
    test_program_fill(p, 1);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_WRITE);
    test_program_fill(p, 2);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_WRITE);
    test_program_batch(p); /* kernel after fills, in place */
    test_program_kernel(p, &step, &params);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    test_program_batch(p); /* two readers, two writers of neighbours: no hazard among them */
    test_program_kernel(p, &step, &params);
    test_program_operand(p, 0, false, 2 * BYTES, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READ);
    test_program_copy(p);
    test_program_operand(p, 0, false, 3 * BYTES, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READ);
    test_program_batch(p); /* write after read */
    test_program_kernel(p, &step, &params);
    test_program_operand(p, 0, false, 16, 64, ROTA_WRITE);
    test_program_operand(p, 0, false, 0, 256, ROTA_READ);
    loaded l = load(f, p, memories);
    uint32_t barriers = rota_vk_barriers_recorded(f->device);
    assert_int_equal(barriers, 3);
    for (uint32_t i = 0; i < 3; i++) {
        rota_exec_wait wait = {.queue = 0, .value = f->next[0]};
        rota_exec_work w = work(f, l, 0, 0, &wait, 1, NULL);
        submit(f, &w, 1);
    }
    wait_for(f, 0);
    char text[1024];
    if (rota_vk_validation_messages(f->device, text, sizeof text)) fail_msg("with all barriers: %s", text);
    for (uint32_t skipped = 0; skipped < barriers; skipped++) {
        uint64_t before = rota_vk_validation_messages(f->device, NULL, 0);
        rota_vk_skip_barrier(f->device, skipped);
        rota_exec_instance *instance = NULL;
        assert_ok(f->device->vtable->instance_create(f->device, l.program, memories, &instance));
        uint64_t after = rota_vk_validation_messages(f->device, text, sizeof text);
        if (after == before) fail_msg("barrier %u was left out and nothing was said", skipped);
        assert_non_null(strstr(text, "SYNC-HAZARD"));
        f->device->vtable->instance_destroy(f->device, instance);
    }
    unload(f, l);
    free(p);
    close_quiet(f, true);
    /* The layer's library stays, so that what it leaves is known by its name; if it can be found by that at all. */
    void *layer = dlopen("libVkLayer_khronos_validation.so", RTLD_NOW | RTLD_NOLOAD);
    if (layer)
        (void)dlclose(layer);
    else
        assert_null(dlopen("libVkLayer_khronos_validation.so", RTLD_NOW));
}

/* In touch mode each operand takes a descriptor set: more than a few pools of them, and again for every
 * submission, where operands come by argument words. */
static void test_touch_words(void **state) {
    (void)state;
    enum { STEPS = 1000 };
    fixture *f = open_as(&(rota_exec_open_options){.touch = true}, false);
    rota_exec_memory *memories[] = {memory(f, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 1);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < STEPS; i++) {
        test_program_batch(p);
        test_program_kernel(p, &step, &params);
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, true, BYTES, BYTES, ROTA_READ); /* block[0] + BYTES */
    }
    loaded l = load(f, p, memories);
    const uint64_t block[] = {memories[0]->address};
    for (uint32_t round = 0; round < 2; round++) {
        rota_exec_work w = work(f, l, 0, 0, NULL, 0, block);
        submit(f, &w, 1);
        wait_for(f, 0);
    }
    unload(f, l);
    free(p);
    close_quiet(f, false);
}

/* A kernel may ask for subgroups of a size that the device has, and gets no other. */
static void test_subgroup_size(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    const rota_vk_device *device = (const rota_vk_device *)f->device;
    const uint32_t least = device->physical.subgroup.minSubgroupSize,
                   most = device->physical.subgroup.maxSubgroupSize;
    const bool has = f->device->info.features & ROTA_FEATURE_SUBGROUP_SIZE_CONTROL;
    assert_true(has || !device->physical.core13); /* which has it always */
    if (!has) {
        print_message("skipped: the device has no subgroup size control\n");
        close_quiet(f, false);
        skip();
    }
    const contract_step_params params = {COUNT, 1, 0};
    const uint32_t sizes[] = {least, most, 2 * most, most + 1};
    for (uint32_t i = 0; i < 4; i++) {
        rota_kernel sized = step;
        sized.vk.subgroup_size = sizes[i];
        test_program *p = test_program_new(QUEUES, 1, 0);
        rota_exec_program *program = NULL;
        test_program_segment(p, 0);
        test_program_batch(p);
        test_program_kernel(p, &sized, &params);
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
        const rota_status status = f->device->vtable->program_create(f->device, &p->desc, &program);
        assert_int_equal(status, i < 2 ? ROTA_OK : ROTA_UNSUPPORTED);
        if (program) f->device->vtable->program_destroy(f->device, program);
        free(p);
    }
    close_quiet(f, false);
}

static pthread_t asking;
static _Atomic uint32_t asked, asked_here;

enum { STUCK_AT = 3 };

/* As a device says that is at that command (lavapipe says nothing before the end). */
static VkResult VKAPI_CALL stuck_queries(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count,
                                         size_t size, void *data, VkDeviceSize stride,
                                         VkQueryResultFlags flags) {
    (void)device, (void)pool, (void)first, (void)size, (void)stride, (void)flags;
    (void)ra_fetch_add_relaxed(&asked, 1);
    if (pthread_equal(pthread_self(), asking)) (void)ra_fetch_add_relaxed(&asked_here, 1);
    uint64_t *timestamps = data;
    for (uint32_t q = 0; q < count; q++) {
        timestamps[2 * q] = 1;
        timestamps[2 * q + 1] = q < 2 * STUCK_AT || q % 2 == 0;
    }
    return VK_NOT_READY;
}

static void expect_times(const fixture *f, loaded l, uint32_t commands) {
    rota_exec_time *times = calloc(commands, sizeof *times);
    assert_non_null(times);
    assert_ok(f->device->vtable->times(f->device, l.instance, times));
    for (uint32_t c = 0; c < commands; c++) {
        assert_int_not_equal(times[c].begin_ns, 0);
        assert_true(times[c].end_ns >= times[c].begin_ns);
        if (c) assert_true(times[c].begin_ns >= times[c - 1].end_ns);
    }
    free(times);
}

/* What a device is at while a long program runs: found, where the driver answers at once. */
static void look_while_it_runs(bool queries_wait) {
#ifdef __SANITIZE_ADDRESS__ /* lavapipe allocates for each workgroup, which the sanitizer makes eight times  \
                               as slow */
    enum { LONG = 48, MANY = 1u << 16 };
#else
    enum { LONG = 48, MANY = 1u << 19 };
#endif
    fixture *f = open_with(&(rota_exec_open_options){.diagnostics = true});
    rota_vk_device *device = (rota_vk_device *)f->device;
    if (strstr(f->device->info.name, "llvmpipe")) assert_true(device->physical.queries_wait);
    device->physical.queries_wait = queries_wait;
    asking = pthread_self();
    ra_store_relaxed(&asked, 0);
    device->vk.GetQueryPoolResults = stuck_queries;
    rota_exec_memory *memories[] = {memory(f, 8ull * MANY, ROTA_EXEC_MEMORY_DEVICE)};
    contract_step_params params = {MANY, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < LONG; i++) {
        test_program_batch(p);
        test_program_kernel(p, &step, &params);
        test_program_operand(p, 0, false, 0, 4ull * MANY, ROTA_READWRITE);
        test_program_operand(p, 0, false, 4ull * MANY, 4ull * MANY, ROTA_READ);
    }
    loaded l = load(f, p, memories);
    rota_exec_wait wait = {.queue = 0, .value = f->next[0]};
    rota_exec_work w = work(f, l, 0, 0, &wait, 1, NULL);
    submit(f, &w, 1);
    rota_exec_stuck stuck = {.node = UINT32_MAX};
    const uint64_t deadline = rota_deadline_after(20000000000u);
    bool found = false;
    while (!queries_wait && !found && rota_clock_ns() < deadline) {
        found = f->device->vtable->stuck_node(f->device, l.instance, &stuck);
        (void)sched_yield();
    }
    assert_int_equal(found, !queries_wait);
    if (found) assert_int_equal(stuck.node, p->desc.commands[STUCK_AT].node);
    assert_int_equal(ra_load_relaxed(&asked_here), 0);
    wait_for(f, 0);
    assert_int_equal(ra_load_relaxed(&asked) != 0, !queries_wait);
    assert_false(f->device->vtable->stuck_node(f->device, l.instance, &stuck));
    if (queries_wait) expect_times(f, l, p->desc.command_count);
    assert_int_equal(ra_load_relaxed(&asked) != 0, !queries_wait);
    unload(f, l);
    free(p);
    close_quiet(f, false);
}

/* What a device is at can be asked inside a wait: the driver is asked by the executor's thread, beforehand.
 */
static void test_stuck(void **state) {
    (void)state;
    look_while_it_runs(false);
}

/* A driver that would keep that thread until all is over, and may look at what was freed, is not asked; nor for times,
 * which a plan's segments copy. */
static void test_queries_wait(void **state) {
    (void)state;
    look_while_it_runs(true);
}

static uint32_t files_in(const char *folder) {
    char command[256];
    snprintf(command, sizeof command, "ls %s | wc -l", folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    unsigned count = 0;
    assert_int_equal(fscanf(pipe, "%u", &count), 1);
    pclose(pipe);
    return count;
}

/* Of the only file there: vendor, device, driver, and the 16 bytes by which the driver names its caches. */
static void expect_cache_name(const char *folder) {
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (const struct dirent *entry; (entry = readdir(open));) {
        if (entry->d_name[0] == '.') continue;
        int end = 0;
        (void)sscanf(entry->d_name, "vk-%*8[0-9a-f]-%*8[0-9a-f]-%*8[0-9a-f]-%*32[0-9a-f].bin%n", &end);
        if (end == 0 || entry->d_name[end] != 0) fail_msg("the cache file is called '%s'", entry->d_name);
    }
    assert_int_equal(closedir(open), 0);
}

static char said[512];
static void hear(void *user, rota_log_level level, const char *message) {
    (void)user;
    if (level == ROTA_LOG_WARNING) snprintf(said, sizeof said, "%s", message);
}

/* Opens and closes a device with this cache folder; true if it said that it does not use the file there. */
static bool refuses_cache(const char *folder) {
    test_host host;
    rota_exec_open_options options = test_vk_options(&host, QUEUES);
    rota_exec_device *device;
    uint64_t abandoned = 1;
    options.cache_dir = folder;
    options.host.log = (rota_log){.fn = hear, .level = ROTA_LOG_WARNING};
    said[0] = 0;
    assert_ok(rota_exec_vk_driver.open(&rota_exec_vk_driver, 0, &options, &device));
    device->vtable->close(device, rota_deadline_after(10000000000ull), &abandoned);
    assert_int_equal(abandoned, 0);
    return strstr(said, "is not used: others may write it") != NULL;
}

/* The cache file is written once, read again, and ignored when damaged, or when others may have written it.
 */
static void test_cache(void **state) {
    (void)state;
    char folder[] = "/tmp/rota-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char nested[64], command[256];
    snprintf(nested, sizeof nested, "%s/a/b", folder);
    saxpy_params params = {COUNT, 1.0f};
    for (uint32_t round = 0; round < 3; round++) {
        fixture *f = open_with(&(rota_exec_open_options){.cache_dir = nested});
        test_program *p = made_program(&saxpy, &params);
        rota_exec_program *program = NULL;
        assert_ok(f->device->vtable->program_create(f->device, &p->desc, &program));
        f->device->vtable->program_destroy(f->device, program);
        free(p);
        close_quiet(f, false);
        assert_int_equal(files_in(nested), 1);
        expect_cache_name(nested);
        snprintf(command, sizeof command, "for i in %s/*; do printf damaged >> $i; done", nested);
        if (round == 1) assert_int_equal(system(command), 0);
    }
    assert_false(refuses_cache(nested));
    snprintf(command, sizeof command, "chmod g+w %s/*", nested);
    assert_int_equal(system(command), 0);
    assert_true(refuses_cache(nested));
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* A replay, then nothing: what the completion thread is seen to have looked. */
static void run_and_look(fixture *f, uint64_t least_ns) {
    rota_exec_memory *memories[] = {shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = chain_program(1, &params);
    loaded l = load(f, p, memories);
    rota_exec_work w = work(f, l, 0, 0, NULL, 0, NULL);
    submit(f, &w, 1);
    wait_for(f, 0);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], stepped(i, i, 1));
    rota_vk_device *device = (rota_vk_device *)f->device;
    uint64_t deadline = rota_deadline_after(10000000000ull);
    while (atomic_load(&device->completer.spin_ns) < least_ns) {
        if (rota_clock_ns() > deadline)
            fail_msg("looked for %llu ns of %llu",
                     (unsigned long long)atomic_load(&device->completer.spin_ns),
                     (unsigned long long)least_ns);
        test_nap_ms(1);
    }
    unload(f, l);
    free(p);
    close_quiet(f, false);
}

/* spin_ns: nothing is slept through that long, and close needs not wait for it. */
static void test_spin(void **state) {
    (void)state;
    const uint64_t spin_ns = 30000000u, for_ever_ns = 120000000000u;
    run_and_look(open_with(&(rota_exec_open_options){.spin_ns = spin_ns}), spin_ns);
    run_and_look(open_with(&(rota_exec_open_options){.spin_ns = for_ever_ns}), 0);
}

/* ---- Between the last look and the sleep ---- */

bool __real_rota_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);
bool __wrap_rota_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* Who is about to sleep for the word at `kept_at` stays before its sleep until that is 0. */
static _Atomic uintptr_t kept_at;
static _Atomic uint32_t is_kept, sleeps_on;

bool __wrap_rota_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
    if (ra_load_seq_cst(&kept_at) == (uintptr_t)word) {
        ra_store_seq_cst(&is_kept, 1);
        while (ra_load_seq_cst(&kept_at)) test_nap_us(100);
        ra_store_seq_cst(&sleeps_on, ra_load_seq_cst(word) == expected);
    }
    return __real_rota_futex_wait(word, expected, deadline_ns);
}

/* Works that come once the completion thread has seen that there are none keep it from sleeping. */
static void test_sleep(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    rota_exec_memory *memories[] = {shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = chain_program(1, &params);
    loaded l = load(f, p, memories);
    ra_store_seq_cst(&kept_at, (uintptr_t) & ((rota_vk_device *)f->device)->completer.sleeping);
    const uint64_t deadline = rota_deadline_after(10000000000ull);
    while (!ra_load_seq_cst(&is_kept) && rota_clock_ns() < deadline) test_nap_us(100);
    const bool was_kept = ra_load_seq_cst(&is_kept);
    rota_exec_work w = work(f, l, 0, 0, NULL, 0, NULL);
    submit(f, &w, 1);
    ra_store_seq_cst(&kept_at, 0);
    wait_for(f, 0);
    assert_true(was_kept);
    assert_int_equal(ra_load_seq_cst(&sleeps_on), 0);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], stepped(i, i, 1));
    unload(f, l);
    free(p);
    close_quiet(f, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed),         cmocka_unit_test(test_merged),
        cmocka_unit_test(test_cumulative),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_touch),         cmocka_unit_test(test_touch_words),
        cmocka_unit_test(test_subgroup_size), cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_queries_wait),  cmocka_unit_test(test_cache),
        cmocka_unit_test(test_spin),          cmocka_unit_test(test_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
