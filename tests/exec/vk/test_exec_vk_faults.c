/* exec/vk over drivers that fail: functions of the real driver replaced by others. */
#include "tests/exec/vk/exec_vk_kit.h"
#include "tests/kit/nap.h"
#include <string.h>

/* Drivers that fail, put under the executor in place of the real functions. */
static VKAPI_ATTR VkResult VKAPI_CALL submit_lost(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                                  VkFence fence) {
    (void)queue, (void)count, (void)infos, (void)fence;
    return VK_ERROR_DEVICE_LOST;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit_swallowed(VkQueue queue, uint32_t count,
                                                       const VkSubmitInfo2 *infos, VkFence fence) {
    (void)queue, (void)count, (void)infos, (void)fence;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_lost(VkDevice device, const VkSemaphoreWaitInfo *info,
                                                uint64_t timeout) {
    (void)device, (void)info, (void)timeout;
    return VK_ERROR_DEVICE_LOST;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_fails(VkDevice device, const VkMemoryAllocateInfo *info,
                                                     const VkAllocationCallbacks *callbacks,
                                                     VkDeviceMemory *memory) {
    (void)device, (void)info, (void)callbacks, (void)memory;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static void wait_lost_flag(fixture *f) {
    uint64_t deadline = rota_deadline_after(5000000000ull);
    while (!atomic_load(&f->host.lost) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(atomic_load(&f->host.lost), 1);
}

static void test_lost(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < 2; kind++) {
        fixture *f = open_with(NULL);
        rota_vk_device *device = (rota_vk_device *)f->device;
        rota_exec_work empty = {.queue = 1, .signal_value = 1};
        if (kind == 0) {
            device->vk.QueueSubmit2 = submit_lost;
            assert_status(f->device->vtable->submit(f->device, &empty, 1), ROTA_DEVICE_LOST);
        } else {
            device->vk.WaitSemaphores = wait_lost;
            submit(f, &empty, 1);
        }
        wait_lost_flag(f);
        empty.signal_value = 2;
        assert_status(f->device->vtable->submit(f->device, &empty, 1), ROTA_DEVICE_LOST);
        rota_exec_memory *m;
        assert_status(f->device->vtable->memory_create(f->device, 1024, 0, "late", &m), ROTA_DEVICE_LOST);
        assert_int_equal(atomic_load(&f->host.lost), 1);
        close_quiet(f, false);
    }
}

static void test_out_of_memory(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    rota_vk_device *device = (rota_vk_device *)f->device;
    PFN_vkAllocateMemory good = device->vk.AllocateMemory;
    device->vk.AllocateMemory = allocate_fails;
    rota_exec_memory *m = NULL;
    assert_status(f->device->vtable->memory_create(f->device, 12345, 0, "weights", &m), ROTA_OUT_OF_MEMORY);
    assert_non_null(strstr(rota_last_error(), "12345"));
    assert_non_null(strstr(rota_last_error(), "free"));
    device->vk.AllocateMemory = good;
    assert_ok(f->device->vtable->memory_create(f->device, 12345, 0, "weights", &m));
    close_quiet(f, false);
}

/* A compiler that takes its time: until told, or until nobody does for 20 s. */
static PFN_vkCreateComputePipelines real_compile;
static _Atomic uint32_t compiling, compile_now, was_not_told;

static VKAPI_ATTR VkResult VKAPI_CALL compile_slowly(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                     const VkComputePipelineCreateInfo *infos,
                                                     const VkAllocationCallbacks *callbacks,
                                                     VkPipeline *pipelines) {
    uint64_t deadline = rota_deadline_after(20000000000ull);
    atomic_store(&compiling, 1);
    while (!atomic_load(&compile_now) && rota_clock_ns() < deadline) test_nap_ms(1);
    if (!atomic_load(&compile_now)) atomic_store(&was_not_told, 1);
    return real_compile(device, cache, count, infos, callbacks, pipelines);
}

static void *compile(void *context) {
    fixture *f = context;
    test_program *p = chain_program(1, &(contract_step_params){.count = COUNT, .add = 1});
    rota_exec_program *program = NULL;
    if (f->device->vtable->program_create(f->device, &p->desc, &program) == ROTA_OK)
        f->device->vtable->program_destroy(f->device, program);
    free(p);
    return NULL;
}

/* While the driver compiles for one thread, another makes, runs and drops what needs no compiler. */
static void test_slow_compiler(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    rota_vk_device *device = (rota_vk_device *)f->device;
    rota_exec_memory *a = shared(f, BYTES), *b = shared(f, BYTES);
    test_program *p = test_program_new(QUEUES, 2, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, 0, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READ);
    rota_exec_memory *memories[] = {a, b};
    loaded copy = load(f, p, memories);
    real_compile = device->vk.CreateComputePipelines;
    device->vk.CreateComputePipelines = compile_slowly;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, compile, f), 0);
    while (!atomic_load(&compiling)) test_nap_ms(1);
    rota_exec_memory *c = shared(f, BYTES);
    rota_exec_instance *instance;
    assert_ok(f->device->vtable->instance_create(f->device, copy.program, memories, &instance));
    rota_exec_work w = work(f, copy, 0, 0, NULL, 0, NULL);
    submit(f, &w, 1);
    wait_for(f, 0);
    f->device->vtable->instance_destroy(f->device, instance);
    f->device->vtable->memory_destroy(f->device, c);
    atomic_store(&compile_now, 1);
    pthread_join(thread, NULL);
    if (atomic_load(&was_not_told)) fail_msg("another's compiler was waited for");
    unload(f, copy);
    f->device->vtable->memory_destroy(f->device, a);
    f->device->vtable->memory_destroy(f->device, b);
    free(p);
    close_quiet(f, false);
}

static fixture *abandoned_fixture; /* what is abandoned is still pointed to */

/* A signal that never comes: close ends at its deadline and counts what it leaves. */
static void test_abandoned(void **state) {
    (void)state;
    fixture *f = abandoned_fixture = open_with(NULL);
    rota_vk_device *device = (rota_vk_device *)f->device;
    memory(f, 4096, ROTA_EXEC_MEMORY_DEVICE);
    device->vk.QueueSubmit2 = submit_swallowed;
    rota_exec_work empty = {.queue = 0, .signal_value = 1};
    submit(f, &empty, 1);
    uint64_t begin = rota_clock_ns(), abandoned = 0;
    f->device->vtable->close(f->device, begin + 300000000ull, &abandoned);
    assert_true(rota_clock_ns() - begin < 12000000000ull);
    assert_true(abandoned > 4096); /* the memory, and the device itself */
    assert_int_equal(atomic_load(&f->host.reached[0]), 0);
}

/* A device that is given up for completing nothing, as its first work waits for the test, goes on all the same: what
 * it uses stays until close, though it was destroyed meanwhile. */
static void test_stall(void **state) {
    (void)state;
    enum { WORKS = 12 };
    rota_vk_test_options test = {.stall_ns = 1};
    fixture *f = open_as(&(rota_exec_open_options){.test = &test, .max_in_flight = 2}, false);
    rota_exec_memory *memories[] = {shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < 2 * COUNT; i++) x[i] = i;
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = chain_program(CHAIN, &params);
    loaded l = load(f, p, memories);
    rota_exec_timeline_wait held = {.value = 1};
    assert_ok(f->device->vtable->timeline_create(f->device, -1, &held.timeline));
    rota_status status = ROTA_OK;
    uint32_t given = 0;
    for (; given < WORKS && status == ROTA_OK; given++) {
        rota_exec_wait behind = {.queue = 0, .value = f->next[0]};
        rota_exec_work w = work(f, l, 0, 0, &behind, 1, NULL);
        w.timeline_waits = &held;
        w.timeline_wait_count = given == 0;
        status = f->device->vtable->submit(f->device, &w, 1);
    }
    assert_int_equal(status, ROTA_DEVICE_LOST);
    assert_non_null(strstr(rota_last_error(), "completed for too long"));
    given--; /* the one that found no room */
    unload(f, l);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    assert_int_equal(x[COUNT - 1], COUNT - 1);
    assert_ok(f->device->vtable->timeline_signal(f->device, held.timeline, 1));
    uint64_t deadline = rota_deadline_after(20000000000ull);
    const _Atomic uint32_t *last = (const _Atomic uint32_t *)&x[COUNT - 1];
    uint32_t expected = stepped(COUNT - 1, 2 * COUNT - 1, given * CHAIN);
    while (atomic_load(last) != expected && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(x[COUNT - 1], expected);
    free(p);
    close_quiet(f, false);
}

/* What a driver was asked for, one after the other: s a submission, i a wait until a queue is idle, d the end of a
 * semaphore. */
static PFN_vkQueueSubmit2KHR real_submit;
static PFN_vkQueueWaitIdle real_idle;
static PFN_vkDestroySemaphore real_destroy_semaphore;
static char asked[64];

static void note(char what) {
    size_t length = strlen(asked);
    if (length + 1 < sizeof asked) asked[length] = what;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit_noted(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                                   VkFence fence) {
    note('s');
    return real_submit(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL idle_noted(VkQueue queue) {
    note('i');
    return real_idle(queue);
}

static VKAPI_ATTR void VKAPI_CALL destroy_semaphore_noted(VkDevice device, VkSemaphore semaphore,
                                                          const VkAllocationCallbacks *callbacks) {
    note('d');
    real_destroy_semaphore(device, semaphore, callbacks);
}

/* A driver's thread may use the semaphores that a batch waited for after the host has seen the batch's end: Mesa's
 * does. They end once each real queue is idle. */
static void test_semaphores_end_idle(void **state) {
    static const rota_vk_test_options two_queues = {.split_transfer = true};
    for (uint32_t split = 0; split < 2; split++) {
        (void)state;
        fixture *f = open_as(&(rota_exec_open_options){.test = split ? (void *)&two_queues : NULL}, false);
        rota_vk_device *device = (rota_vk_device *)f->device;
        uint32_t reals = device->real_count;
        memset(asked, 0, sizeof asked);
        real_submit = device->vk.QueueSubmit2;
        real_idle = device->vk.QueueWaitIdle;
        real_destroy_semaphore = device->vk.DestroySemaphore;
        rota_exec_timeline *timeline;
        assert_ok(f->device->vtable->timeline_create(f->device, -1, &timeline));
        device->vk.QueueSubmit2 = submit_noted;
        device->vk.QueueWaitIdle = idle_noted;
        device->vk.DestroySemaphore = destroy_semaphore_noted;
        rota_exec_timeline_wait wait = {.timeline = timeline, .value = 1};
        rota_exec_work works[] = {
            {.queue = 0, .signal_value = ++f->next[0], .acquires = true, .timeline = timeline},
            {.queue = 0,
             .signal_value = ++f->next[0],
             .acquires = true,
             .timeline_waits = &wait,
             .timeline_wait_count = 1}};
        submit(f, works, 2);
        wait_for(f, 0);
        close_quiet(f, false);
        char expected[8] = "";
        for (uint32_t i = 0; i < reals; i++) expected[i] = 'i';
        const char *ends = strchr(asked, 'd'), *last = strrchr(asked, 's');
        assert_non_null(ends);
        assert_non_null(last);
        assert_int_equal(strspn(ends, "d"), reals + 1); /* the real queues' own and the timeline */
        if (ends - last - 1 != (ptrdiff_t)reals || memcmp(last + 1, expected, reals) != 0)
            fail_msg("%u queues, asked for: %s", reals, asked);
    }
}

/* Barriers as they were recorded: what comes before, and after. */
enum { BARRIERS_MAX = 16 };
static struct { VkPipelineStageFlags2 from, to; } recorded[BARRIERS_MAX];
static uint32_t recorded_count;
static PFN_vkCmdPipelineBarrier2 real_barrier;

static VKAPI_ATTR void VKAPI_CALL barrier_noted(VkCommandBuffer buffer, const VkDependencyInfo *info) {
    assert_int_equal(info->memoryBarrierCount, 1);
    assert_true(recorded_count < BARRIERS_MAX);
    recorded[recorded_count].from = info->pMemoryBarriers[0].srcStageMask;
    recorded[recorded_count++].to = info->pMemoryBarriers[0].dstStageMask;
    real_barrier(buffer, info);
}

/* Batches of one command each, 'd' a dispatch and 't' a transfer: each comes after all before it, of both
 * kinds, which are named once for each kind that follows; and where the host may read what was written, the
 * host after them. */
static void test_barriers_recorded(void **state) {
    (void)state;
    static const VkPipelineStageFlags2 D = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT,
                                       T = VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
    const struct {
        const char *batches;
        bool mapped;
        struct {
            VkPipelineStageFlags2 from, to;
        } wanted[4];
    } cases[] = {
        {"ddd", false, {{D, D}, {D, D}}},
        {"ttt", false, {{T, T}, {T, T}}},
        {"dtd", false, {{D, T}, {D | T, D}}},
        {"tdt", false, {{T, D}, {D | T, T}}},
        {"ddt", false, {{D, D}, {D, T}}},
        {"dtt", false, {{D, T}, {T, T}}},
        {"dt", true, {{D, T}, {D | T, VK_PIPELINE_STAGE_2_HOST_BIT}}},
        {"d", true, {{D, VK_PIPELINE_STAGE_2_HOST_BIT}}},
    };
    fixture *f = open_with(NULL);
    rota_vk_device *device = (rota_vk_device *)f->device;
    const contract_step_params params = {COUNT, 1, 0};
    real_barrier = device->vk.CmdPipelineBarrier2;
    device->vk.CmdPipelineBarrier2 = barrier_noted;
    for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        rota_exec_memory *memories[] = {cases[c].mapped ? shared(f, 2 * BYTES)
                                                        : memory(f, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
        test_program *p = test_program_new(QUEUES, 1, 0);
        test_program_segment(p, 0);
        for (const char *batch = cases[c].batches; *batch; batch++) {
            test_program_batch(p);
            if (*batch == 'd')
                test_program_kernel(p, &step, &params);
            else
                test_program_copy(p);
            test_program_operand(p, 0, false, 0, BYTES, *batch == 'd' ? ROTA_READWRITE : ROTA_WRITE);
            test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
        }
        recorded_count = 0;
        loaded l = load(f, p, memories);
        uint32_t wanted = 0;
        while (wanted < 4 && cases[c].wanted[wanted].to) wanted++;
        if (!cases[c].mapped &&
            ((const rota_vk_memory *)memories[0])->base.host) /* all of its memory is the host's too */
            recorded_count--;
        assert_int_equal(recorded_count, wanted);
        for (uint32_t i = 0; i < wanted; i++) {
            if (recorded[i].from != cases[c].wanted[i].from || recorded[i].to != cases[c].wanted[i].to)
                fail_msg("%s, barrier %u: 0x%llx before 0x%llx", cases[c].batches, i,
                         (unsigned long long)recorded[i].from, (unsigned long long)recorded[i].to);
        }
        unload(f, l);
        free(p);
    }
    device->vk.CmdPipelineBarrier2 = real_barrier;
    close_quiet(f, false);
}

static uint32_t buffers_submitted;

static VKAPI_ATTR VkResult VKAPI_CALL submit_counted(VkQueue queue, uint32_t count,
                                                     const VkSubmitInfo2 *infos, VkFence fence) {
    for (uint32_t i = 0; i < count; i++) buffers_submitted += infos[i].commandBufferInfoCount;
    return real_submit(queue, count, infos, fence);
}

/* Copies that wait for copies before them on their queue have a barrier between them, and those that do not
 * have none. */
static void test_copies_are_ordered(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    rota_vk_device *device = (rota_vk_device *)f->device;
    rota_exec_memory *a = shared(f, BYTES), *b = shared(f, BYTES), *c = shared(f, BYTES);
    const rota_exec_copy first = {.destination = b, .source = a, .size_bytes = BYTES},
                         second = {.destination = c, .source = b, .size_bytes = BYTES};
    real_submit = device->vk.QueueSubmit2;
    device->vk.QueueSubmit2 = submit_counted;
    for (uint32_t waits = 0; waits < 2; waits++) {
        memset(a->host, 0x11 + (int)waits, BYTES);
        const rota_exec_wait wait = {.queue = 0, .value = f->next[0] + 1};
        const rota_exec_work works[] = {
            {.queue = 0, .signal_value = f->next[0] + 1, .copies = &first, .copy_count = 1},
            {.queue = 0,
             .signal_value = f->next[0] + 2,
             .copies = &second,
             .copy_count = 1,
             .waits = &wait,
             .wait_count = waits}};
        f->next[0] += 2;
        buffers_submitted = 0;
        submit(f, works, 2);
        wait_for(f, 0);
        assert_int_equal(buffers_submitted, 2 + waits);
    }
    for (uint32_t i = 0; i < BYTES; i++) assert_int_equal(((const uint8_t *)c->host)[i], 0x12);
    device->vk.QueueSubmit2 = real_submit;
    close_quiet(f, false);
}

static PFN_vkGetBufferDeviceAddress real_address;
static uint64_t misplaced_by;

static VKAPI_ATTR VkDeviceAddress VKAPI_CALL address_misplaced(VkDevice device,
                                                               const VkBufferDeviceAddressInfo *info) {
    misplaced_by += 16;
    return (real_address(device, info) & ~(VkDeviceAddress)(ROTA_BUFFER_ALIGNMENT - 1)) + misplaced_by;
}

/* A driver that places no two buffers alike, and none at rota's alignment: copies and fills, a plan's and the
 * host's, find what each memory skips at its front. */
static void test_misplaced(void **state) {
    (void)state;
    enum { WORDS = BYTES / 4 };
    fixture *f = open_with(NULL);
    rota_vk_device *device = (rota_vk_device *)f->device;
    real_address = device->vk.GetBufferDeviceAddress;
    misplaced_by = 0;
    device->vk.GetBufferDeviceAddress = address_misplaced;
    rota_exec_memory *memories[] = {shared(f, BYTES), shared(f, BYTES), shared(f, BYTES)};
    device->vk.GetBufferDeviceAddress = real_address;
    for (uint32_t m = 0; m < 3; m++) {
        const rota_vk_memory *of = (const rota_vk_memory *)memories[m];
        assert_int_equal(of->buffer_offset, ROTA_BUFFER_ALIGNMENT - 16 * (m + 1));
        for (uint32_t i = 0; i < WORDS; i++) ((uint32_t *)memories[m]->host)[i] = 10000 * m + i;
    }
    test_program *p = test_program_new(QUEUES, 3, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, 512, 1024, ROTA_WRITE);
    test_program_operand(p, 0, false, 256, 1024, ROTA_READ);
    test_program_fill(p, 77);
    test_program_operand(p, 2, false, 512, 256, ROTA_WRITE);
    loaded l = load(f, p, memories);
    const rota_exec_work segment = work(f, l, 0, 0, NULL, 0, NULL);
    submit(f, &segment, 1);
    const rota_exec_copy copy = {.destination = memories[2],
                                 .destination_offset = 1024,
                                 .source = memories[0],
                                 .source_offset = 2048,
                                 .size_bytes = 512};
    const rota_exec_work host = {.copies = &copy, .copy_count = 1, .queue = 1, .signal_value = ++f->next[1]};
    submit(f, &host, 1);
    wait_for(f, 0);
    wait_for(f, 1);
    for (uint32_t i = 0; i < WORDS; i++) {
        const uint32_t *words[] = {memories[0]->host, memories[1]->host, memories[2]->host};
        assert_int_equal(words[0][i], i);
        assert_int_equal(words[1][i], i >= 128 && i < 384 ? i - 64 : 10000 + i);
        assert_int_equal(words[2][i], i >= 128 && i < 192 ? 77 : i >= 256 && i < 384 ? i + 256 : 20000 + i);
    }
    unload(f, l);
    free(p);
    for (uint32_t m = 0; m < 3; m++) f->device->vtable->memory_destroy(f->device, memories[m]);
    close_quiet(f, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_slow_compiler),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_semaphores_end_idle),
        cmocka_unit_test(test_barriers_recorded),
        cmocka_unit_test(test_misplaced),
        cmocka_unit_test(test_copies_are_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
