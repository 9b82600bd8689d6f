/* Which CPUs are busy with interrupts, from counts as the kernel writes them; and threads kept off CPUs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/futex.h"
#include "base/thread_cpus.h"
#include "exec/interrupts.h"
#include "tests/kit/support.h"

#define SECOND UINT64_C(1000000000)

typedef struct machine {
    char folder[64], device[80], counts[80];
} machine;

static void write_counts(const machine *m, int number, const char *text) {
    char path[160];
    snprintf(path, sizeof path, "%s/%d", m->counts, number);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%d/per_cpu_count", m->counts, number);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    assert_int_equal(fclose(file), 0);
}

static void machine_make(machine *m, const int *numbers, size_t count) {
    snprintf(m->folder, sizeof m->folder, "/tmp/rota-interrupts-XXXXXX");
    assert_non_null(mkdtemp(m->folder));
    snprintf(m->device, sizeof m->device, "%s/device", m->folder);
    snprintf(m->counts, sizeof m->counts, "%s/irq", m->folder);
    char path[160];
    assert_int_equal(mkdir(m->device, 0700), 0);
    assert_int_equal(mkdir(m->counts, 0700), 0);
    snprintf(path, sizeof path, "%s/msi_irqs", m->device);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/msi_irqs/%d", m->device, numbers[i]);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
    }
}

static void machine_remove(const machine *m) {
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", m->folder);
    assert_int_equal(system(command), 0);
}

static void busy_cpus_are_found(void **state) {
    (void)state;
    machine m;
    const int numbers[] = {42, 107};
    machine_make(&m, numbers, 2);
    write_counts(&m, 42, "0,0,4294967290,7");
    write_counts(&m, 107, "5000000,0,0,0");
    rota_interrupts interrupts;
    rota_interrupts_open(&interrupts, m.device, m.counts);
    assert_int_equal(interrupts.count, 2);
    assert_false(rota_interrupts_look(&interrupts, 1 * SECOND)); /* since the machine's start: says nothing */
    write_counts(&m, 42, "0,0,1993,7");                          /* 1 999 more, past the counter's end */
    assert_false(rota_interrupts_look(&interrupts, 2 * SECOND));
    write_counts(&m, 42, "0,0,3994,7");
    assert_true(rota_interrupts_look(&interrupts, 3 * SECOND));
    assert_int_equal(CPU_COUNT(&interrupts.busy), 1);
    assert_true(CPU_ISSET(2, &interrupts.busy));
    write_counts(&m, 42, "0,0,6004,7");
    assert_false(rota_interrupts_look(&interrupts, 4 * SECOND)); /* known already */
    /* Two interrupts' counts add up, and the time between the looks counts. */
    write_counts(&m, 42, "0,0,6004,107");
    write_counts(&m, 107, "5000000,0,0,102");
    assert_true(rota_interrupts_look(&interrupts, 4 * SECOND + SECOND / 10));
    assert_int_equal(CPU_COUNT(&interrupts.busy), 2);
    assert_true(CPU_ISSET(3, &interrupts.busy));
    rota_interrupts_close(&interrupts);
    machine_remove(&m);
}

/* Interrupts that wander over the machine do not take one CPU after the other. */
static void old_cpus_are_forgotten(void **state) {
    (void)state;
    machine m;
    const int number = 9;
    machine_make(&m, &number, 1);
    write_counts(&m, 9, "0,0,0,0,0,0,0,0");
    rota_interrupts interrupts;
    rota_interrupts_open(&interrupts, m.device, m.counts);
    assert_false(rota_interrupts_look(&interrupts, SECOND));
    int counts[8] = {0};
    for (unsigned cpu = 0; cpu < 8; cpu++) {
        counts[cpu] = 10000;
        char text[128] = "";
        for (int i = 0, used = 0; i < 8; i++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%d", i ? "," : "", counts[i]);
        write_counts(&m, 9, text);
        assert_true(rota_interrupts_look(&interrupts, (cpu + UINT64_C(2)) * SECOND));
        assert_true(CPU_ISSET(cpu, &interrupts.busy));
        assert_true(CPU_COUNT(&interrupts.busy) <= 4);
    }
    rota_interrupts_close(&interrupts);
    machine_remove(&m);
}

static void nothing_to_read_is_nothing_found(void **state) {
    (void)state;
    rota_interrupts interrupts;
    rota_interrupts_open(&interrupts, "/nonexistent", "/nonexistent");
    assert_false(rota_interrupts_look(&interrupts, SECOND));
    assert_false(rota_interrupts_look(&interrupts, 2 * SECOND));
    rota_interrupts_close(&interrupts);
    machine m;
    const int number = 3;
    machine_make(&m, &number, 1); /* listed, but without counts */
    rota_interrupts_open(&interrupts, m.device, m.counts);
    assert_false(rota_interrupts_look(&interrupts, SECOND));
    assert_false(rota_interrupts_look(&interrupts, 2 * SECOND));
    rota_interrupts_close(&interrupts);
    machine_remove(&m);
}

/* ---- Placement ---- */

typedef struct placed {
    rota_thread_cpus placement;
    _Atomic uint32_t begun, stop;
} placed;

static void *placed_main(void *user) {
    placed *p = user;
    rota_thread_cpus_begin(&p->placement);
    ra_store_release(&p->begun, 1);
    rota_futex_wake(&p->begun, 1);
    while (!ra_load_acquire(&p->stop)) (void)rota_futex_wait(&p->stop, 0, UINT64_MAX / 2);
    rota_thread_cpus_end(&p->placement);
    return NULL;
}

static void threads_keep_off(void **state) {
    (void)state;
    cpu_set_t all, now, first;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    placed p = {0};
    CPU_ZERO(&first);
    for (unsigned cpu = 0; CPU_COUNT(&first) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &first);
    rota_thread_cpus_keep_off(&p.placement, &first); /* not running: nothing */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, placed_main, &p), 0);
    while (!ra_load_acquire(&p.begun)) (void)rota_futex_wait(&p.begun, 0, UINT64_MAX / 2);
    rota_thread_cpus_keep_off(&p.placement, &first);
    assert_int_equal(pthread_getaffinity_np(thread, sizeof now, &now), 0);
    int left = CPU_COUNT(&all) - 1;
    bool moves = left >= ROTA_THREAD_CPUS_MIN;
    assert_int_equal(CPU_COUNT(&now), moves ? left : left + 1);
    if (moves) {
        CPU_AND(&now, &now, &first);
        assert_int_equal(CPU_COUNT(&now), 0);
        cpu_set_t none;
        CPU_ZERO(&none);
        rota_thread_cpus_keep_off(&p.placement, &none); /* in place of the first, not on top of it */
        assert_int_equal(pthread_getaffinity_np(thread, sizeof now, &now), 0);
        assert_true(CPU_EQUAL(&now, &all));
    }
    rota_thread_cpus_keep_off(&p.placement, &all); /* not all of them */
    assert_int_equal(pthread_getaffinity_np(thread, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &all));
    ra_store_release(&p.stop, 1);
    rota_futex_wake(&p.stop, 1);
    pthread_join(thread, NULL);
    rota_thread_cpus_keep_off(&p.placement, &first); /* ended: nothing */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_cpus_are_found),
        cmocka_unit_test(old_cpus_are_forgotten),
        cmocka_unit_test(nothing_to_read_is_nothing_found),
        cmocka_unit_test(threads_keep_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
