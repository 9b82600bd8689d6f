/* rota-run: starts a program as several ranks, on this host and others. mpirun starts them and is what their MPI talks
 * to; rota-run says how many, tags what they print, passes signals, and says whose fault it was. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/options.h"
#include "bench/report.h"
#include "bench/rota_run_rank.h"

static const char program[] = "rota-run";
#define RANKS_MOST 65536
#define LINE_MOST (128u << 10)

typedef struct run_settings {
    uint64_t ranks;
    const char *hosts, *mpirun, *name; /* name: of the program */
    bool oversubscribe;
} run_settings;

/* ---- What ranks say ---- */

typedef struct rank_fault {
    bool known;
    unsigned rank;
    bool killed; /* by signal `number`; else it ended with that status */
    int number, pid;
    char host[65];
} rank_fault;

typedef struct run {
    char token[24];
    pid_t mpirun;
    unsigned asked;          /* signals that are yet to be passed, as bits */
    bool passed;             /* a signal: mpirun's own status may then be bad though all ended well */
    uint64_t started, ended; /* ranks that said so */
    rank_fault fault;        /* of the first that ended badly */
    rank_fault stopped;      /* of the last that stands still */
    char *kept;              /* what mpirun says itself: printed if no rank says why */
    size_t kept_size;
} run;

static void note_event(run *r, const char *what, unsigned rank, int number, int pid, const char *host) {
    rank_fault now = {
        .known = true, .rank = rank, .killed = strcmp(what, "killed") == 0, .number = number, .pid = pid};
    snprintf(now.host, sizeof now.host, "%s", host);
    if (strcmp(what, "started") == 0) {
        r->started++;
        return;
    }
    if (strcmp(what, "stopped") == 0) {
        r->stopped = now;
        fprintf(stderr, "%s: rank %u (process %d on %s) stands still, by signal %d (%s)\n", program, rank,
                pid, host, number, strsignal(number));
        return;
    }
    /* mpirun has all go on before it ends them. */
    if (!r->fault.known && r->stopped.known && r->stopped.rank == rank) r->stopped.known = false;
    if (strcmp(what, "continued") == 0) {
        if (!r->fault.known) fprintf(stderr, "%s: rank %u goes on\n", program, rank);
        return;
    }
    r->ended++;
    if (!r->fault.known && (now.killed || number)) r->fault = now;
}

/* The next word at *cursor, which then stands behind the blank after it; "": there is none, or it is longer. */
static void take_word(const char **cursor, char *out_word, size_t capacity) {
    const size_t length = strcspn(*cursor, " \n");
    snprintf(out_word, capacity, "%.*s", length < capacity ? (int)length : 0, *cursor);
    *cursor += length;
    *cursor += **cursor == ' ';
}

static unsigned take_number(const char **cursor) {
    char word[16];
    take_word(cursor, word, sizeof word);
    return (unsigned)strtoul(word, NULL, 10);
}

/* A line of standard error, of a rank or of mpirun's own. */
static void take_error_line(run *r, const char *line, size_t size) {
    char what[16], host[65];
    const size_t mark_size = sizeof RANK_MARK - 1, token = strlen(r->token);
    const bool is_ours = size > mark_size + token && memcmp(line, RANK_MARK, mark_size) == 0 &&
                         memcmp(line + mark_size, r->token, token) == 0 && line[mark_size + token] == ' ';
    if (is_ours) {
        const char *cursor = line + mark_size + token + 1;
        take_word(&cursor, what, sizeof what);
        const unsigned rank = take_number(&cursor);
        if (strcmp(what, "out") == 0 || strcmp(what, "error") == 0) {
            FILE *to = what[0] == 'o' ? stdout : stderr;
            fprintf(to, "[%u] ", rank);
            fwrite(cursor, 1, size - (size_t)(cursor - line), to);
            fflush(to);
            return;
        }
        const int number = (int)take_number(&cursor), pid = (int)take_number(&cursor);
        take_word(&cursor, host, sizeof host);
        note_event(r, what, rank, number, pid, host);
        return;
    }
    char *larger = realloc(r->kept, r->kept_size + size);
    if (!larger || r->kept_size > LINE_MOST) {
        fwrite(line, 1, size, stderr);
        return;
    }
    r->kept = larger;
    memcpy(r->kept + r->kept_size, line, size);
    r->kept_size += size;
}

typedef struct output {
    int from;
    size_t used;
    bool is_error, ended;
    char bytes[LINE_MOST];
} output;

static void take(run *r, output *o) {
    const ssize_t got = read(o->from, o->bytes + o->used, sizeof o->bytes - 1 - o->used);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    o->ended = got <= 0;
    if (got > 0) o->used += (size_t)got;
    char *line = o->bytes, *end;
    size_t left = o->used;
    while (left) {
        end = memchr(line, '\n', left);
        const size_t size = end ? (size_t)(end + 1 - line) : left;
        if (!end && left + 1 < sizeof o->bytes && !o->ended) break;
        const char after = line[size];
        line[size] = 0; /* words end there */
        if (o->is_error)
            take_error_line(r, line, size);
        else
            fwrite(line, 1, size, stdout);
        line += size, left -= size;
        *line = after;
    }
    memmove(o->bytes, line, left);
    o->used = left;
    fflush(stdout);
}

/* ---- Signals ---- */

static int wake_pipe[2];
/* Between the handler, on whichever thread, and pass_signals: lock-free, so allowed in a handler. Each bit is a signal
 * that is to be passed on; asked_count: how often the ranks were asked to end. */
static atomic_uint asked_signals, asked_count;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a handler takes no lock");
#define ASKS_TO_END (1u << SIGINT | 1u << SIGTERM | 1u << SIGHUP)

static void on_signal(int number) {
    const int error = errno;
    /* Both with pass_signals' exchange, which sees the count of what it takes. */
    if (ASKS_TO_END >> number & 1) atomic_fetch_add_explicit(&asked_count, 1, memory_order_release);
    if (number != SIGCHLD) atomic_fetch_or_explicit(&asked_signals, 1u << number, memory_order_release);
    if (write(wake_pipe[1], "", 1) < 0) errno = 0;
    errno = error;
}

/* The first signal goes to each rank, as one that asks it to end in its own time: mpirun passes SIGUSR1 and SIGUSR2,
 * and ends all at once at any other. A second one does that, and one that comes before all ranks have started. What
 * mpirun is to pass waits for that: before, it would end mpirun itself. */
static void pass_signals(run *r, uint64_t ranks) {
    const bool early = r->started < ranks;
    r->asked |= atomic_exchange_explicit(&asked_signals, 0, memory_order_acquire); /* with on_signal's */
    const bool asks = r->asked & ASKS_TO_END;
    if (!r->asked || (early && !asks)) return;
    r->passed = true;
    for (int number = 1; number < 32 && !early; number++)
        if ((r->asked & ~ASKS_TO_END) >> number & 1) (void)kill(r->mpirun, number);
    r->asked &= early ? ~ASKS_TO_END : 0;
    if (asks && (early || atomic_load_explicit(&asked_count, memory_order_acquire) > 1))
        (void)kill(r->mpirun, SIGTERM);
    else if (asks)
        (void)kill(r->mpirun, SIGUSR1);
}

/* ---- mpirun ---- */

/* What mpirun takes by options of other names, or not at all, it takes by its environment: Open MPI before 5, and from
 * then on. */
static void set_environment(const run_settings *s) {
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1); /* a container's user often is */
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    (void)setenv("PRTE_ALLOW_RUN_AS_ROOT", "1", 1);
    (void)setenv("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    /* Each rank takes its share of the processors itself: one core a rank, which is mpirun's, is too few. */
    (void)setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    (void)setenv("PRTE_MCA_hwloc_default_binding_policy", "none", 0);
    if (s->oversubscribe || !s->hosts) { /* without hosts the processors were counted here */
        (void)setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
        (void)setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1);
    }
    if (s->hosts) (void)setenv("OMPI_MCA_mca_base_env_list", "PATH;LD_LIBRARY_PATH", 0);
}

static void exec_mpirun(const run_settings *s, const run *r, char **argv, int argc) {
    char self[4096] = "", count[24], ranks[] = "-n", file[] = "-machinefile", as_rank[] = "--as-rank";
    const ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0) _exit(EXIT_BAD_ARGUMENT);
    snprintf(count, sizeof count, "%" PRIu64, s->ranks);
    char **all = calloc((size_t)argc + 16, sizeof *all);
    if (!all) _exit(EXIT_BAD_ARGUMENT);
    size_t n = 0;
    all[n++] = (char *)(uintptr_t)s->mpirun;
    all[n++] = ranks;
    all[n++] = count;
    if (s->hosts) {
        all[n++] = file;
        all[n++] = (char *)(uintptr_t)s->hosts;
    }
    all[n++] = self;
    all[n++] = as_rank;
    all[n++] = (char *)(uintptr_t)r->token;
    for (int i = 0; i < argc; i++) all[n++] = argv[i];
    set_environment(s);
    execvp(s->mpirun, all);
    fprintf(stderr, "%s: '%s' can't be run: %s; it is MPI's (Debian and Ubuntu: openmpi-bin, or mpich)\n",
            program, s->mpirun, strerror(errno));
    _exit(127);
}

static bool start(const run_settings *s, run *r, char **argv, int argc, output *outputs) {
    int pipes[2][2];
    for (int i = 0; i < 2; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0) return false;
    r->mpirun = fork();
    if (r->mpirun < 0) return false;
    if (r->mpirun == 0) {
        (void)dup2(pipes[0][1], STDOUT_FILENO);
        (void)dup2(pipes[1][1], STDERR_FILENO);
        (void)setpgid(
            0, 0); /* a terminal's Ctrl-C is rota-run's to pass on; so nothing is read from there either */
        if (isatty(STDIN_FILENO)) {
            const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
            if (none >= 0) (void)dup2(none, STDIN_FILENO);
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        exec_mpirun(s, r, argv, argc);
    }
    for (int i = 0; i < 2; i++) {
        (void)close(pipes[i][1]);
        outputs[i].from = pipes[i][0];
        outputs[i].is_error = i == 1;
    }
    return true;
}

static int follow(run *r, uint64_t ranks, output *outputs) {
    int status = 0;
    bool over = false;
    while (!over || !outputs[0].ended || !outputs[1].ended) {
        struct pollfd fds[3] = {{.fd = wake_pipe[0], .events = POLLIN}};
        for (int i = 0; i < 2; i++)
            fds[1 + i] = (struct pollfd){.fd = outputs[i].ended ? -1 : outputs[i].from, .events = POLLIN};
        const int ready = poll(fds, 3, over ? 2000 : -1);
        if (ready == 0) break; /* somebody that a rank left behind holds it open */
        char bytes[64];
        while (read(wake_pipe[0], bytes, sizeof bytes) > 0) {
        }
        if (ready > 0)
            for (int i = 0; i < 2; i++)
                if (fds[1 + i].revents) take(r, &outputs[i]);
        if (!over) pass_signals(r, ranks);
        if (!over && waitpid(r->mpirun, &status, WNOHANG) == r->mpirun) over = true;
    }
    return status;
}

/* Whose fault it was, and the exit status. */
static int judge(const run_settings *s, const run *r, int status) {
    const rank_fault *f = &r->fault;
    const bool good = r->ended == s->ranks && (r->passed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    if (r->kept_size && !f->known && !(good && r->passed)) fwrite(r->kept, 1, r->kept_size, stderr);
    if (f->known) {
        char how[96];
        if (f->killed)
            snprintf(how, sizeof how, "was ended by signal %d (%s)", f->number, strsignal(f->number));
        else
            snprintf(how, sizeof how, "ended with exit status %d", f->number);
        fprintf(stderr, "%s: rank %u (process %d on %s) %s%s\n", program, f->rank, f->pid, f->host, how,
                s->ranks > 1 ? ", as the first; the others were ended" : "");
        if (r->stopped.known && r->stopped.rank != f->rank)
            fprintf(stderr, "%s: rank %u (process %d on %s) stood still, by signal %d (%s)\n", program,
                    r->stopped.rank, r->stopped.pid, r->stopped.host, r->stopped.number,
                    strsignal(r->stopped.number));
        return f->killed ? 128 + f->number : f->number;
    }
    if (good) return EXIT_GOOD;
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: %s was ended by signal %d (%s)\n", program, s->mpirun, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else
        fprintf(stderr,
                "%s: %s ended with exit status %d, when %" PRIu64 " of %" PRIu64 " ranks had ended well\n",
                program, s->mpirun, WEXITSTATUS(status), r->ended, s->ranks);
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    return WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_CHECK_FAILED;
}

static int run_ranks(const run_settings *s, char **argv, int argc) {
    static output outputs[2]; /* large */
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    run r = {.mpirun = -1};
    snprintf(r.token, sizeof r.token, "%d", (int)getpid());
    if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) goto failed;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
    fflush(stdout);
    if (!start(s, &r, argv, argc, outputs)) goto failed;
    const int code = judge(s, &r, follow(&r, s->ranks, outputs));
    free(r.kept);
    return code;
failed:
    fprintf(stderr, "%s: nothing can be started: %s\n", program, strerror(errno));
    return EXIT_BAD_ARGUMENT;
}

/* ---- Before anything starts ---- */

/* Whether execvp will find it. */
static bool can_run(const char *name) {
    if (strchr(name, '/')) return access(name, X_OK) == 0;
    const char *path = getenv("PATH");
    for (path = path ? path : "/bin:/usr/bin"; path;) {
        const size_t length = strcspn(path, ":");
        char whole[4096];
        snprintf(whole, sizeof whole, "%.*s/%s", (int)length, length ? path : ".", name);
        if (access(whole, X_OK) == 0) return true;
        path = path[length] ? path + length + 1 : NULL;
    }
    return false;
}

static bool check(const option_table *table, const run_settings *s) {
    if (!s->ranks) {
        (void)options_bad(table, "-n N is needed: how many ranks");
        return false;
    }
    if (s->hosts && access(s->hosts, R_OK) != 0) {
        (void)options_bad(table, "--hosts '%s' can't be read: %s", s->hosts, strerror(errno));
        return false;
    }
    if (!can_run(s->mpirun)) {
        (void)options_bad(table, "'%s' is not there: it is MPI's (Debian and Ubuntu: openmpi-bin, or mpich)",
                          s->mpirun);
        return false;
    }
    if (s->hosts) return true; /* what they have, they know */
    if (!can_run(s->name)) {
        (void)options_bad(table, "the program '%s' is not there, or can't be run", s->name);
        return false;
    }
    cpu_set_t set;
    const uint64_t processors = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint64_t)CPU_COUNT(&set)
                                                                            : UINT64_MAX; /* more than 1024 */
    if (s->ranks <= processors || s->oversubscribe) return true;
    (void)options_bad(table,
                      "%" PRIu64 " ranks on the %" PRIu64
                      " processors of this host: --oversubscribe lets them take "
                      "turns, --hosts FILE names others",
                      s->ranks, processors);
    return false;
}

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "--as-rank") == 0) return rank_run(argv[2], argv + 3);
    run_settings s = {.mpirun = "mpirun"};
    const option options[] = {
        {"--ranks", OPTION_COUNT, &s.ranks, "N", 1, RANKS_MOST, false, "how many ranks to start"},
        {"-n", OPTION_COUNT, &s.ranks, "N", 1, RANKS_MOST, false, "the same"},
        {"--hosts", OPTION_STRING, &s.hosts, "FILE", 0, 0, false,
         "hosts that they are started on, by ssh: a name a line, and behind it slots=N, in Open MPI's form "
         "(MPICH: "
         "NAME:N)"},
        {"--oversubscribe", OPTION_FLAG, &s.oversubscribe, NULL, 0, 0, false,
         "also where there are more ranks than processors"},
        {"--mpirun", OPTION_STRING, &s.mpirun, "PROGRAM", 0, 0, false, "MPI's own, which starts them"},
        {"PROGRAM", OPTION_STRING, &s.name, "PROGRAM", 0, 0, true,
         "what each rank runs, with all that follows"},
    };
    const option_table table = {
        program,
        "starts a program as several ranks, and says which of them failed",
        "rota-run -n 2 train_gpt --data book.txt\n"
        "rota-run -n 16 --hosts hosts.txt train_gpt --data book.txt --checkpoint run",
        options,
        sizeof options / sizeof *options,
        "the first failed rank's, 128 + N if signal N ended it; 0 all well; 1 also: bad argument"};
    const int rest = 1 + options_before_rest(&table, argc - 1, argv + 1);
    const bool dashes = rest > 1 && strcmp(argv[rest - 1], "--") == 0;
    /* The program's own arguments are none of rota-run's. */
    char **own = calloc((size_t)argc + 1, sizeof *own);
    if (!own) return EXIT_BAD_ARGUMENT;
    int count = 0;
    for (int a = 1; a < rest - dashes; a++) own[count++] = argv[a];
    if (rest < argc) own[count++] = argv[rest];
    const option_result parsed = options_parse(&table, count, own);
    free(own);
    if (parsed != OPTIONS_OK)
        return report_end(program, parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT);
    if (!check(&table, &s)) return EXIT_BAD_ARGUMENT;
    return report_end(program, run_ranks(&s, argv + rest, argc - rest));
}
