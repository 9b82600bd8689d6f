/* Stacks that several threads pop from: a thread may be stopped between looking at the head and replacing it,
 * and in that time the same entry may have come back on top of others. So no head comes back, whatever is on
 * top. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include "base/atomic.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/runtime.h"

enum { ROUNDS = 16 };

/* The heads differ, though the same entry was on top. */
static void expect_changes(const uint64_t *heads, uint64_t top_mask) {
    for (uint32_t i = 0; i < ROUNDS; i++)
        for (uint32_t j = 0; j < i; j++) {
            assert_int_equal(heads[i] & top_mask, heads[j] & top_mask);
            if (heads[i] == heads[j])
                fail_msg("the head is 0x%llx after rounds %u and %u", (unsigned long long)heads[i], j, i);
        }
}

static void *submit_once(void *plan) {
    return rota_submit_wait(plan, NULL, 0, NULL) == ROTA_OK ? plan : NULL;
}

/* A thread's lane goes back when the thread ends. */
static void lanes(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *x = test_words(f->device, "x", 16, 1);
    rota_plan *plan = test_plan_1(f->device, "increment", &test_increment, x, ROTA_READWRITE);
    uint64_t heads[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, submit_once, plan), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, plan);
        heads[i] = ra_load_relaxed(&f->runtime->handle.lanes_free);
    }
    expect_changes(heads, ((uint64_t)1 << (ROTA_LANE_BITS + 1)) - 1);
    test_expect_words(x, 16, 1 + ROUNDS);
    rota_plan_release(plan);
    rota_buffer_release(x);
}

static void staging_blocks(void **state) {
    runtime_fixture *f = *state;
    uint64_t heads[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        rota_staging *block;
        assert_ok(rota_staging_acquire(f->device, 1, ROTA_EXEC_MEMORY_HOST_WRITE, &block));
        const rota_staging_shelf *shelf = &f->device->staging->shelves[block->use][block->size_class];
        rota_staging_release(block);
        heads[i] = ra_load_relaxed(&shelf->head);
        assert_true((uint32_t)heads[i] != 0);
    }
    expect_changes(heads, UINT32_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lanes, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(staging_blocks, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
