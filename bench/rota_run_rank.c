/* One rank that rota-run started: it runs the program on its share of the host's processors, tags what it prints, and
 * says how it ended. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECT of a pipe */
#endif
#include "bench/rota_run_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/report.h"

#define TAG_MOST 64u
#define LINE_MOST (RANK_PACKET - TAG_MOST - 1) /* what is longer goes out as several lines */
#define REST_MS 500 /* for what a program that has ended leaves to its children to print */
#define LAST_MS                                                                                              \
    600 /* of a rank that is to end, before all of its processes are killed; mpirun's is 1 s or more */

/* A number that one of these variables says; `fallback` if none does. */
static unsigned number_in(const char *const *names, unsigned fallback) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text) return (unsigned)strtoul(text, NULL, 10);
    }
    return fallback;
}

static unsigned own_rank(void) {
    /* Open MPI; MPICH and Intel's; PMIx. */
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL};
    return number_in(names, 0);
}

/* Ranks of one host have its processors between them, each those that lie side by side. With fewer processors than
 * ranks, or where the host is not known, each has all: it is slower, not wrong. */
static void take_share(void) {
    static const char *const index_names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", NULL};
    static const char *const count_names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    const unsigned index = number_in(index_names, 0), count = number_in(count_names, 1);
    hwloc_topology_t topology;
    if (count < 2 || index >= count || hwloc_topology_init(&topology) != 0) return;
    hwloc_cpuset_t mine = hwloc_bitmap_alloc();
    hwloc_cpuset_t *sets = calloc(count, sizeof(hwloc_cpuset_t));
    if (mine && sets && hwloc_topology_load(topology) == 0 &&
        hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_topology_restrict(topology, mine, 0) == 0 && hwloc_bitmap_weight(mine) >= (int)count) {
        hwloc_obj_t root = hwloc_get_root_obj(topology);
        if (hwloc_distrib(topology, &root, 1, sets, count, INT_MAX, 0) == 0)
            (void)hwloc_set_cpubind(topology, sets[index], HWLOC_CPUBIND_PROCESS);
        for (unsigned i = 0; i < count; i++) hwloc_bitmap_free(sets[i]);
    }
    free(sets);
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(topology);
}

/* ---- Signals ---- */

static int wake_pipe[2];
/* Between the handler, on whichever thread, and follow: lock-free, so allowed in a handler. Each bit is a signal that
 * is to be passed on. */
static atomic_uint asked_signals;
static atomic_bool is_ended; /* mpirun ends all ranks */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2, "a handler takes no lock");

static void on_signal(int number) {
    const int error = errno;
    if (number == SIGTERM)
        atomic_store_explicit(&is_ended, true, memory_order_release); /* with follow's acquire */
    if (number != SIGCHLD)
        atomic_fetch_or_explicit(&asked_signals, 1u << (number == SIGUSR1 ? SIGTERM : number),
                                 memory_order_release); /* with pass_signals' exchange */
    if (write(wake_pipe[1], "", 1) < 0) errno = 0;      /* full: it wakes in any case */
    errno = error;
}

static bool watch_signals(void) {
    static const int numbers[] = {SIGCHLD, SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP};
    if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return true;
}

/* ---- What it prints ---- */

typedef struct stream {
    int from;
    char tag[TAG_MOST]; /* before each line */
    size_t tag_size, used;
    bool ended;
    char line[LINE_MOST];
} stream;

static void write_all(const char *bytes, size_t count) {
    while (count) {
        const ssize_t done = write(STDERR_FILENO, bytes, count);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 1000);
            continue;
        }
        if (done <= 0) return; /* nobody reads any more */
        bytes += done, count -= (size_t)done;
    }
}

static void put_line(const stream *s, const char *text, size_t count) {
    char whole[RANK_PACKET];
    memcpy(whole, s->tag, s->tag_size);
    memcpy(whole + s->tag_size, text, count);
    whole[s->tag_size + count] = '\n';
    write_all(whole, s->tag_size + count + 1);
}

static void put_lines(stream *s) {
    char *line = s->line, *end;
    size_t left = s->used;
    while (left && (end = memchr(line, '\n', left))) {
        put_line(s, line, (size_t)(end - line));
        left -= (size_t)(end + 1 - line);
        line = end + 1;
    }
    if (left && (left == sizeof s->line || s->ended)) {
        put_line(s, line, left);
        left = 0;
    }
    memmove(s->line, line, left);
    s->used = left;
}

static void take(stream *s) {
    const ssize_t got = read(s->from, s->line + s->used, sizeof s->line - s->used);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got > 0)
        s->used += (size_t)got;
    else
        s->ended = true;
    put_lines(s);
}

/* ---- The program ---- */

typedef struct rank_process {
    const char *token;
    unsigned rank;
    pid_t pid;
    int status; /* once is_over */
    bool is_over;
    stream streams[2];
} rank_process;

static void say(const rank_process *p, const char *what, int number) {
    char host[65] = "", text[256];
    (void)gethostname(host, sizeof host - 1);
    const int size = snprintf(text, sizeof text, RANK_MARK "%s %s %u %d %d %s\n", p->token, what, p->rank,
                              number, (int)p->pid, host[0] ? host : "?");
    write_all(text, (size_t)size);
}

static void look_after(rank_process *p) {
    int status;
    while (!p->is_over && waitpid(p->pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == p->pid) {
        if (WIFSTOPPED(status))
            say(p, "stopped", WSTOPSIG(status));
        else if (WIFCONTINUED(status))
            say(p, "continued", 0);
        else
            p->status = status, p->is_over = true;
    }
}

static void run_program(char **argv, const int outs[2], pid_t parent) {
    /* A group of its own: mpirun signals groups, and what it passes is the rank's to pass on. */
    (void)setpgid(0, 0);
    (void)dup2(outs[0], STDOUT_FILENO);
    (void)dup2(outs[1], STDERR_FILENO);
    (void)signal(SIGPIPE, SIG_DFL); /* what is handled is so again by itself */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) execvp(argv[0], argv);
    const int error = errno;
    fprintf(stderr, "rota-run: '%s' can't be run: %s\n", argv[0], strerror(error));
    _exit(error == ENOENT ? 127 : 126);
}

static bool start(rank_process *p, char **argv) {
    int pipes[2][2];
    for (int i = 0; i < 2; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0) return false;
    const pid_t self = getpid();
    p->pid = fork();
    if (p->pid < 0) return false;
    if (p->pid == 0) run_program(argv, (const int[]){pipes[0][1], pipes[1][1]}, self);
    (void)setpgid(p->pid, p->pid); /* whichever comes first */
    for (int i = 0; i < 2; i++) {
        stream *s = &p->streams[i];
        (void)close(pipes[i][1]);
        s->from = pipes[i][0];
        s->tag_size = (size_t)snprintf(s->tag, sizeof s->tag, RANK_MARK "%.24s %s %u ", p->token,
                                       i ? "error" : "out", p->rank);
    }
    return true;
}

static void pass_signals(const rank_process *p) {
    const unsigned asked =
        atomic_exchange_explicit(&asked_signals, 0, memory_order_acquire); /* with on_signal's */
    for (int number = 1; number < 32; number++)
        if (asked >> number & 1 && !p->is_over) (void)kill(-p->pid, number);
}

/* Until the program has ended and all it printed is out; what children of it still hold open is not waited for. */
static void follow(rank_process *p) {
    for (;;) {
        struct pollfd fds[3] = {{.fd = wake_pipe[0], .events = POLLIN}};
        for (int i = 0; i < 2; i++)
            fds[1 + i] =
                (struct pollfd){.fd = p->streams[i].ended ? -1 : p->streams[i].from, .events = POLLIN};
        if (p->is_over && p->streams[0].ended && p->streams[1].ended) return;
        const bool ends = atomic_load_explicit(&is_ended, memory_order_acquire);
        const int ready = poll(fds, 3, p->is_over ? REST_MS : ends ? LAST_MS : -1);
        if (ready == 0 && p->is_over) break;
        if (ready == 0) (void)kill(-p->pid, SIGKILL);
        char bytes[64];
        while (read(wake_pipe[0], bytes, sizeof bytes) > 0) {
        }
        pass_signals(p);
        if (ready > 0)
            for (int i = 0; i < 2; i++)
                if (fds[1 + i].revents) take(&p->streams[i]);
        look_after(p);
    }
    for (int i = 0; i < 2; i++) {
        p->streams[i].ended = true;
        put_lines(&p->streams[i]);
    }
}

/* mpirun may leave what a process said last: until it has been read, for at most a second. */
static void await_read(void) {
    int left = 0;
    for (int i = 0; i < 200 && ioctl(STDERR_FILENO, FIONREAD, &left) == 0 && left > 0; i++)
        (void)poll(NULL, 0, 5);
}

int rank_run(const char *token, char **argv) {
    static rank_process p; /* its lines are large */
    p.token = token, p.rank = own_rank();
    take_share();
    const int flags = fcntl(STDERR_FILENO, F_GETFL);
    /* Not a pipe, or of an old kernel: then lines of several ranks may run into one another. */
    if (flags < 0 || fcntl(STDERR_FILENO, F_SETFL, flags | O_DIRECT) != 0) errno = 0;
    if (!watch_signals() || !start(&p, argv)) {
        fprintf(stderr, "rota-run: rank %u can't be started: %s\n", p.rank, strerror(errno));
        return EXIT_BAD_ARGUMENT;
    }
    say(&p, "started", 0);
    follow(&p);
    const bool killed = WIFSIGNALED(p.status);
    const int number = killed ? WTERMSIG(p.status) : WEXITSTATUS(p.status);
    say(&p, killed ? "killed" : "exited", number);
    await_read();
    return killed ? 128 + number : number;
}
