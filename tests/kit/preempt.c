/* Preloaded into a test (tests/preempt.sh): its threads are stopped at random for as long as a scheduler may take their
 * core away, up to a tenth of a second, wherever they are. What then fails depends on how fast threads run,
 * or in which order. By a signal, whose handler sleeps; interrupted system calls are made again where the kernel does
 * so by itself.
 * ROTA_PREEMPT=SEED: SEED modulo 3 is 0 for any thread, 1 for the first one above all, 2 for another one above all,
 * after a while for some other. ROTA_PREEMPT_IN=FOLDER: programs of that folder alone. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "tests/kit/random.h"

#define PREEMPT_SIGNAL (SIGRTMAX - 5)
#define MS 1000000ull
#define SEEN __attribute__((visibility("default")))

enum { ANY, FIRST, ANOTHER, THREADS_MAX = 512 };

static uint64_t mode;
static _Atomic uint64_t state;
static __thread uint64_t taken __attribute__((tls_model("initial-exec")));

static uint64_t draw(uint64_t below) {
    uint64_t own = atomic_fetch_add(&state, 1);
    return test_random(&own) % below;
}

/* Not through libc, whose functions a test may have replaced. */
static void sleep_ns(uint64_t ns) {
    struct timespec time = {.tv_nsec = (long)ns};
    (void)syscall(SYS_nanosleep, &time, NULL);
}

static void on_preempt(int number) {
    (void)number;
    const int kept = errno;
    const uint64_t kind = draw(100);
    taken++;
    if (kind < 50)
        sleep_ns(draw(MS));
    else if (kind < 85)
        sleep_ns(MS + draw(5 * MS));
    else if (kind < 98)
        sleep_ns(5 * MS + draw(20 * MS));
    else
        sleep_ns(30 * MS + draw(70 * MS));
    errno = kept;
}

/* How often the calling thread was stopped; found by name. */
SEEN uint64_t test_preemptions(void);
uint64_t test_preemptions(void) {
    return taken;
}

typedef int mask_function(int, const sigset_t *, sigset_t *);

static mask_function *real(const char *name) {
    mask_function *function;
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(&function, &found, sizeof function);
    return function;
}

/* Threads that block all signals are stopped, too. */
static int set_mask(const char *name, int how, const sigset_t *set, sigset_t *before) {
    sigset_t without;
    if (set && how != SIG_UNBLOCK) {
        without = *set;
        sigdelset(&without, PREEMPT_SIGNAL);
        set = &without;
    }
    return real(name)(how, set, before);
}

SEEN int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    return set_mask("pthread_sigmask", how, set, before);
}

SEEN int sigprocmask(int how, const sigset_t *set, sigset_t *before) {
    return set_mask("sigprocmask", how, set, before);
}

static uint32_t list_threads(pid_t except, pid_t *threads) {
    DIR *folder = opendir("/proc/self/task");
    uint32_t count = 0;
    const struct dirent *entry;
    while (folder && count < THREADS_MAX && (entry = readdir(folder))) {
        const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0 && thread != except) threads[count++] = thread;
    }
    if (folder) closedir(folder);
    return count;
}

static void *preempt(void *unused) {
    (void)unused;
    const pid_t process = getpid(), self = (pid_t)syscall(SYS_gettid);
    pid_t preferred = mode == FIRST ? process : 0, threads[THREADS_MAX];
    for (;;) {
        sleep_ns(mode == ANY ? 2 * MS + draw(20 * MS) : MS + draw(10 * MS));
        const uint32_t count = list_threads(self, threads);
        if (count == 0) continue;
        if (mode == ANOTHER && draw(20) == 0) preferred = threads[draw(count)];
        if (preferred) {
            sleep_ns(draw(MS));
            if (draw(4)) (void)syscall(SYS_tgkill, process, preferred, PREEMPT_SIGNAL);
            if (draw(4)) continue;
        }
        for (uint32_t i = 0; i < 1 + count / 8; i++)
            (void)syscall(SYS_tgkill, process, threads[draw(count)], PREEMPT_SIGNAL);
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void) {
    const char *seed = getenv("ROTA_PREEMPT"), *folder = getenv("ROTA_PREEMPT_IN");
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (!seed || length <= 0) return;
    program[length] = 0;
    if (folder && strncmp(program, folder, strlen(folder)) != 0) return;
    const uint64_t number = strtoull(seed, NULL, 10), process = (uint64_t)getpid();
    mode = number % 3;
    atomic_store(&state, number * 0x2545f4914f6cdd1dull + process);
    const struct sigaction action = {.sa_handler = on_preempt, .sa_flags = SA_RESTART};
    sigaction(PREEMPT_SIGNAL, &action, NULL);
    sigset_t all, before;
    sigfillset(&all);
    real("pthread_sigmask")(SIG_SETMASK, &all, &before);
    pthread_t thread;
    if (pthread_create(&thread, NULL, preempt, NULL) == 0) pthread_detach(thread);
    sigdelset(&before, PREEMPT_SIGNAL);
    real("pthread_sigmask")(SIG_SETMASK, &before, NULL);
}
