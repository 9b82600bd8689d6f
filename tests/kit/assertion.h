/* Whether a function ends the program by an assertion, seen from outside. */
#ifndef ROTA_TESTS_ASSERTION_H
#define ROTA_TESTS_ASSERTION_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/kit/support.h"

/* Calls it in a process of its own, which says nothing and leaves no core: true, it was ended by SIGABRT; false, the
 * call returned. Whatever else it comes to fails the test: the function may end with another status than this one. */
enum { TEST_RETURNED = 7 };
static inline bool test_is_an_assertion(void (*call)(void *user), void *user) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        (void)signal(SIGABRT, SIG_DFL);
        (void)freopen("/dev/null", "w", stderr);
        call(user);
        _exit(TEST_RETURNED);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) return true;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == TEST_RETURNED);
    return false;
}

#endif
