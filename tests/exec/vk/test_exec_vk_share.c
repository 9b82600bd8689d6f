/* What exec/vk shares with other drivers of the GPU: memory, and timelines that works wait for and signal. */
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include <string.h>
#include <unistd.h>
#include "tests/exec/vk/exec_vk_kit.h"

/* Memory of one device is another's by its descriptor: each has works that write what the other reads. */
static void test_shared(void **state) {
    (void)state;
    fixture *f[2] = {open_with(NULL), open_with(NULL)};
    if (!f[0]->device->caps.shares_memory) {
        print_message("skipped: %s shares no memory\n", f[0]->device->info.id);
        for (uint32_t d = 0; d < 2; d++) close_quiet(f[d], false);
        skip();
    }
    assert_memory_equal(f[0]->device->gpu, f[1]->device->gpu, sizeof f[0]->device->gpu);
    enum { WORDS = 3000 };
    rota_exec_memory *mapped[2], *m[2] = {memory(f[0], WORDS * 4, ROTA_EXEC_MEMORY_SHARED), NULL};
    uint64_t held = ra_load_relaxed(&((rota_vk_device *)f[1]->device)->objects.memory_bytes);
    rota_exec_export export;
    assert_ok(f[0]->device->vtable->memory_export(f[0]->device, m[0], false, &export));
    assert_ok(f[1]->device->vtable->memory_import(f[1]->device, &export, "imported", &m[1]));
    /* Of less than is asked of it nothing is made. */
    rota_exec_export less = export;
    rota_exec_memory *none = NULL;
    less.size_bytes = less.allocation_bytes * 2;
    assert_int_not_equal(f[1]->device->vtable->memory_import(f[1]->device, &less, "less", &none), ROTA_OK);
    assert_null(none);
    assert_int_equal(close(export.fd), 0);
    assert_int_equal(m[1]->address % 256, 0);
    assert_int_equal(m[1]->size_bytes, WORDS * 4);
    assert_int_equal(ra_load_relaxed(&((rota_vk_device *)f[1]->device)->objects.memory_bytes),
                     held); /* its owner's */
    for (uint32_t d = 0; d < 2; d++) mapped[d] = shared(f[d], WORDS * 4);
    for (uint32_t round = 0; round < 20; round++)
        for (uint32_t d = 0; d < 2; d++) {
            uint32_t *words = mapped[d]->host;
            for (uint32_t i = 0; i < WORDS; i++) words[i] = round * 1000 + d * 7 + i;
            rota_exec_copy in = {m[d], mapped[d], 0, 0, WORDS * 4},
                           out = {mapped[!d], m[!d], 0, 0, WORDS * 4};
            rota_exec_work write = {.copies = &in,
                                    .copy_count = 1,
                                    .queue = 0,
                                    .signal_value = ++f[d]->next[0],
                                    .acquires = true};
            submit(f[d], &write, 1);
            wait_for(f[d], 0);
            rota_exec_work read = {.copies = &out,
                                   .copy_count = 1,
                                   .queue = 1,
                                   .signal_value = ++f[!d]->next[1],
                                   .acquires = true};
            submit(f[!d], &read, 1);
            wait_for(f[!d], 1);
            assert_memory_equal(mapped[!d]->host, words, WORDS * 4);
        }
    for (uint32_t d = 2; d-- > 0;) {
        f[d]->device->vtable->memory_destroy(f[d]->device, m[d]);
        f[d]->device->vtable->memory_destroy(f[d]->device, mapped[d]);
        close_quiet(f[d], false);
    }
}

/* A work waits for a timeline that the host signals here, as another driver would, and signals one that a work of
 * another queue waits for. Without the validation layer: where the host signals what is waited for on a queue, it
 * reports that its own picture of the semaphore is late ("most likely a validation bug"). */
static void test_timelines(void **state) {
    (void)state;
    fixture *f = open_as(NULL, false);
    rota_exec_device *device = f->device;
    const rota_exec_device_vtable *v = device->vtable;
    rota_exec_timeline *theirs, *ours, *none = NULL;
    assert_ok(v->timeline_create(device, -1, &theirs));
    assert_ok(v->timeline_create(device, -1, &ours));
    assert_status(v->timeline_create(device, 0, &none), ROTA_UNSUPPORTED);
    if (device->caps.makes_timelines) {
        int fd = -1;
        assert_int_equal(device->caps.timeline_queues & 3u, 3u);
        assert_ok(v->timeline_export(device, ours, &fd));
        assert_int_equal(close(fd), 0);
    } else {
        assert_int_equal(device->caps.timeline_queues, 0);
        print_message("not tried: %s makes no timelines that others can have\n", device->info.id);
    }
    rota_exec_memory *from = shared(f, 4096), *to = shared(f, 4096);
    for (uint32_t round = 1; round <= 10; round++) {
        memset(from->host, (int)round, 4096);
        rota_exec_copy copy = {to, from, 0, 0, 4096};
        rota_exec_timeline_wait first = {.timeline = theirs, .value = round * 3},
                                second = {.timeline = ours, .value = f->next[0] + 1};
        rota_exec_work works[] = {{.copies = &copy,
                                   .copy_count = 1,
                                   .queue = 0,
                                   .signal_value = ++f->next[0],
                                   .acquires = true,
                                   .timeline_waits = &first,
                                   .timeline_wait_count = 1,
                                   .timeline = ours},
                                  {.queue = 1,
                                   .signal_value = ++f->next[1],
                                   .acquires = true,
                                   .timeline_waits = &second,
                                   .timeline_wait_count = 1}};
        submit(f, works, 2);
        if (round == 1) test_nap_ms(20);
        assert_true(atomic_load(&f->host.reached[0]) < f->next[0]);
        assert_true(atomic_load(&f->host.reached[1]) < f->next[1]);
        assert_ok(v->timeline_signal(device, theirs, round * 3));
        assert_ok(v->timeline_signal(device, theirs, round * 3)); /* nothing is left to do */
        wait_for(f, 1);
        wait_for(f, 0);
        assert_memory_equal(to->host, from->host, 4096);
    }
    v->memory_destroy(device, from);
    v->memory_destroy(device, to);
    close_quiet(f, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared), cmocka_unit_test(test_timelines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
