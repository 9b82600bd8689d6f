/* What tests/preempt.sh preloads stops the first thread, and one that blocks all signals. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/signals.h"
#include "tests/kit/support.h"

enum { OFTEN = 3 };

typedef uint64_t count_function(void);

static count_function *preemptions;

/* The thread's own count, once it is enough or a minute is over. */
static void *wait_stopped(void *out_count) {
    sigset_t before;
    rota_signals_block(&before);
    const uint64_t deadline = rota_deadline_after(60000000000ull);
    while (preemptions() < OFTEN && rota_clock_ns() < deadline) continue;
    *(uint64_t *)out_count = preemptions();
    rota_signals_restore(&before);
    return NULL;
}

static void threads_are_stopped(void **state) {
    (void)state;
    void *found = dlsym(RTLD_DEFAULT, "test_preemptions");
    assert_non_null(found);
    memcpy(&preemptions, &found, sizeof preemptions);
    uint64_t first = 0, other = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_stopped, &other), 0);
    wait_stopped(&first);
    pthread_join(thread, NULL);
    assert_true(first >= OFTEN);
    assert_true(other >= OFTEN);
}

int main(int argc, char **argv) {
    (void)argc;
    if (!getenv("ROTA_PREEMPT")) {
        setenv("ROTA_PREEMPT", "0", 1);
        setenv("LD_PRELOAD", ROTA_PREEMPT_LIBRARY, 1);
        execv("/proc/self/exe", argv);
        fail_msg("%s cannot be started again", argv[0]);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_are_stopped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
