/* Ranks that are threads of this process, 1 to 4 of them, each with a runtime of its own: the cases of rank_cases.c.
 * And what is about one process: ranks that share a runtime and a graph, lives, closing, errors. */
#include <pthread.h>

#include "base/atomic.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include "tests/ranks/rank_cases.h"

enum { RANKS_MOST = 4 };

typedef struct one_rank {
    const rank_case *now;
    rota_runtime *runtime;
    rota_communicator *communicator;
} one_rank;

static void open_runtimes(uint32_t size, rota_runtime **out_runtimes) {
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 2, .cache_dir = "");
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_runtime_open(&options, &out_runtimes[i]));
}

static void close_runtimes(uint32_t size, rota_runtime **runtimes) {
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_runtime_close(runtimes[i], 20000000000u));
}

static void *run_rank(void *user) {
    const one_rank *rank = user;
    rank->now->run(rank->runtime, rank->communicator);
    return NULL;
}

static void run_case(const rank_case *now, uint32_t size) {
    rota_runtime *runtimes[RANKS_MOST];
    rota_communicator *communicators[RANKS_MOST];
    one_rank ranks[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    open_runtimes(size, runtimes);
    const rota_communicator_options options = ROTA_COMMUNICATOR_OPTIONS(.timeout_ns = now->timeout_ns);
    assert_ok(rota_communicator_open_ranks(runtimes, size, &options, communicators));
    for (uint32_t i = 0; i < size; i++) {
        ranks[i] = (one_rank){now, runtimes[i], communicators[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < size; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_communicator_close(communicators[i], 0));
    close_runtimes(size, runtimes);
}

static void cases(void **state) {
    (void)state;
    for (const rank_case *now = rank_cases; now->name; now++) {
        for (uint32_t size = now->least; size <= RANKS_MOST && (!now->most || size <= now->most); size++) {
            print_message("%s, %u ranks\n", now->name, size);
            run_case(now, size);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
