/* rota-bench soak: threads that do for minutes what programs do, each with its results checked: whether
 * anything comes out wrong, grows, or is left over. What the threads do is bench/soak_work.c. */
#include "bench/soak.h"

#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "bench/commands.h"
#include "bench/options.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "sched/testing.h"

static const char program[] = "rota-bench soak";
#define THREADS_MAX 64
#define LOOK_NS UINT64_C(5000000000)
/* Staging memory that is idle for so long is given back: what is looked at is what stays. */
#define STAGING_IDLE_NS UINT64_C(200000000)
/* The longest that a look waits for the threads' rounds to end. */
#define REST_NS UINT64_C(20000000000)
#define MINUTE_NS UINT64_C(60000000000)
/* The first minute is not judged, and a slope only over so long: below that it says more about a page than
 * about an hour. */
#define JUDGED_NS (8 * MINUTE_NS)
/* What is idle is given back after 5 s, and threads end. */
#define SETTLE_NS UINT64_C(15000000000)
#define CLOSE_NS UINT64_C(30000000000)
/* Blocks for small reads and writes stay with each device. */
#define STAGING_KEPT_BYTES (UINT64_C(1) << 20)
#define OWN_PAGES_BYTES (1 << 16)
#define MIB 1048576.0

/* ---- What the process has ---- */

static uint64_t entries_of(const char *folder) {
    DIR *dir = opendir(folder);
    uint64_t count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) count += entry->d_name[0] != '.';
    if (dir) closedir(dir);
    return count;
}

typedef struct holdings {
    uint64_t threads, files;
} holdings;

static holdings look_at_process(void) {
    return (holdings){entries_of("/proc/self/task"), entries_of("/proc/self/fd")};
}

/* Bytes; 0: not known. What malloc keeps of freed memory is given back first, so that it is not taken for
 * growth. */
static uint64_t resident_bytes(void) {
    char text[128] = "", *after = NULL;
    (void)malloc_trim(0);
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || !fgets(text, sizeof text, file)) text[0] = '\0';
    if (file) fclose(file);
    (void)strtoull(text, &after, 10); /* the whole of it; what is resident stands second */
    return strtoull(after, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What malloc has given out, of all of its arenas: what grows here is kept by somebody; resident memory that
 * grows beside it lies between. */
static uint64_t heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* What is looked at while the threads rest. */
typedef struct memory {
    uint64_t resident, heap;
} memory;

/* Least squares: MiB an hour, with the standard error of it as if what is left over were independent. */
typedef struct line {
    uint64_t count;
    double first_s, last_s, t, y, tt, ty, yy;
} line;

static void line_add(line *l, double s, double mib) {
    if (l->count++ == 0) l->first_s = s;
    l->last_s = s;
    s -= l->first_s;
    l->t += s, l->y += mib, l->tt += s * s, l->ty += s * mib, l->yy += mib * mib;
}

static double line_slope(const line *l, double *out_error) {
    double n = (double)l->count, across = l->tt - l->t * l->t / n;
    *out_error = 0;
    if (l->count < 3 || across <= 0) return 0;
    double slope = (l->ty - l->t * l->y / n) / across;
    double left = l->yy - l->y * l->y / n - slope * slope * across;
    *out_error = sqrt((left > 0 ? left : 0) / (n - 2) / across) * 3600;
    return slope * 3600;
}

/* ---- Devices ---- */

static int open_devices(soak *s, char *ids) {
    int code = EXIT_GOOD;
    char *rest = NULL;
    for (char *id = strtok_r(ids, ",", &rest); id; id = strtok_r(NULL, ",", &rest)) {
        if (s->device_count == SOAK_DEVICES_MAX) {
            fprintf(stderr, "%s: --device takes %d devices at most\n", program, SOAK_DEVICES_MAX);
            return EXIT_BAD_ARGUMENT;
        }
        rota_device **device = &s->devices[s->device_count];
        if (s->device_count == 0) {
            opened_device opened;
            code =
                report_open(program, id, &ROTA_RUNTIME_OPTIONS(.staging_idle_ns = STAGING_IDLE_NS), &opened);
            if (code != EXIT_GOOD) return code;
            s->runtime = opened.runtime;
            *device = opened.device;
        } else {
            rota_status status = rota_device_open(s->runtime, id, device);
            if (status != ROTA_OK) {
                report_failure(program, status);
                return EXIT_NO_DEVICE;
            }
            printf("device %s: %s\n", id, rota_device_get_info(*device)->name);
        }
        for (uint32_t d = 0; d < s->device_count; d++)
            if (s->devices[d] == *device) {
                fprintf(stderr, "%s: --device names '%s' twice\n", program, id);
                return EXIT_BAD_ARGUMENT;
            }
        s->device_count++;
    }
    if (s->device_count) return EXIT_GOOD;
    fprintf(stderr, "%s: --device takes ID[,ID...]\n", program);
    return EXIT_BAD_ARGUMENT;
}

/* Drivers keep threads, files and memory of their own from the first use on: they are there before anything
 * is counted. */
static int use_once(const soak *s) {
    soak other = {.runtime = s->runtime, .device_count = s->device_count};
    memcpy(other.devices, s->devices, sizeof other.devices);
    soak_thread thread = {.soak = &other, .seed = 1, .kind = SOAK_OPENER};
    if (soak_round(&thread)) return EXIT_GOOD;
    fprintf(stderr, "%s: %s\n", program, thread.message);
    return EXIT_CHECK_FAILED;
}

/* The pages of a device's upload ring come when its slots are first written, and stay: all of them at the
 * beginning, since slow devices take minutes for that. */
#define RING_SLOTS 16
#define SLOT_BYTES (1u << 20)
static rota_status fill_rings(const soak *s) {
    void *bytes = calloc(1, SLOT_BYTES);
    rota_buffer *buffer = NULL;
    rota_status status = bytes ? rota_buffer_create_in(s->runtime, "ring", SLOT_BYTES, &buffer)
                               : rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %u bytes", SLOT_BYTES);
    for (uint32_t i = 0; i < 4 * RING_SLOTS * s->device_count && status == ROTA_OK; i++) {
        rota_ticket ticket;
        status = rota_buffer_write(buffer, s->devices[i % s->device_count], 0, bytes, SLOT_BYTES, &ticket);
        if (status == ROTA_OK) status = rota_wait(ticket, 0);
    }
    rota_buffer_release(buffer);
    free(bytes);
    return status;
}

/* ---- Running ---- */

static uint64_t sum(const soak_thread *threads, uint32_t count, bool rounds) {
    uint64_t total = 0;
    for (uint32_t t = 0; t < count; t++)
        total += rounds ? atomic_load(&threads[t].rounds) : atomic_load(&threads[t].failures);
    return total;
}

static progress_bar bar;

static void print_line(const soak *s, const soak_thread *threads, uint32_t count, double seconds, memory now,
                       uint64_t staging, cJSON *list) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(s->runtime, &stats);
    uint64_t rounds = sum(threads, count, true), failures = sum(threads, count, false);
    progress_clear(&bar);
    printf("%8.0f s  %12" PRIu64 " submissions  %8" PRIu64
           " failed as asked for  RSS %8.2f MiB  heap %8.2f MiB  staging %7.2f MiB  "
           "%10" PRIu64 " rounds  %" PRIu64 " failures\n",
           seconds, stats.submissions, stats.failed, (double)now.resident / MIB, (double)now.heap / MIB,
           (double)staging / MIB, rounds, failures);
    fflush(stdout);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddItemToArray(list, row);
    cJSON_AddNumberToObject(row, "seconds", seconds);
    cJSON_AddNumberToObject(row, "submissions", (double)stats.submissions);
    cJSON_AddNumberToObject(row, "submissions_failed_as_asked", (double)stats.failed);
    cJSON_AddNumberToObject(row, "rss_bytes", (double)now.resident);
    cJSON_AddNumberToObject(row, "heap_bytes", (double)now.heap);
    cJSON_AddNumberToObject(row, "staging_bytes", (double)staging);
    cJSON_AddNumberToObject(row, "memory_bytes", (double)stats.memory_bytes);
    cJSON_AddNumberToObject(row, "rounds", (double)rounds);
    cJSON_AddNumberToObject(row, "failures", (double)failures);
}

static void *thread_main(void *argument) {
    soak_thread *thread = argument;
    soak *s = thread->soak;
    while (!atomic_load(&s->stop)) {
        if (atomic_load(&s->pause)) {
            atomic_fetch_add(&s->resting, 1);
            while (atomic_load(&s->pause)) usleep(1000);
            atomic_fetch_sub(&s->resting, 1);
            continue;
        }
        if (!soak_round(thread)) {
            atomic_fetch_add(&thread->failures, 1);
            atomic_store(&s->stop, true); /* what comes after a difference says nothing more */
            return NULL;
        }
        atomic_fetch_add(&thread->rounds, 1);
    }
    return NULL;
}

/* Whether the runtime holds nothing but what it is to keep; what it holds comes back a while after its last
 * use. */
static bool is_at_rest(const soak *s, uint64_t memory_before, rota_runtime_stats *out_stats,
                       uint64_t *out_staging) {
    rota_runtime_get_stats(s->runtime, out_stats);
    *out_staging = rota_runtime_staging_bytes(s->runtime);
    return out_stats->buffers == 0 && out_stats->plans == 0 && out_stats->reclaim_pending == 0 &&
           out_stats->memory_bytes <= memory_before + *out_staging &&
           *out_staging <= s->device_count * STAGING_KEPT_BYTES &&
           out_stats->submissions == out_stats->completed;
}

/* Resident bytes while nothing is in use, which others would be lost in; false where the threads did not come
 * to rest. */
static bool resident_at_rest(soak *s, uint32_t count, uint64_t memory_before, memory *out_memory) {
    uint64_t deadline = rota_deadline_after(REST_NS), staging;
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    bool rests = false;
    atomic_store(&s->pause, true);
    while (!rests && !atomic_load(&s->stop) && rota_clock_ns() < deadline) {
        usleep(5000);
        rests = atomic_load(&s->resting) == count && is_at_rest(s, memory_before, &stats, &staging);
    }
    *out_memory = (memory){resident_bytes(), heap_bytes()};
    atomic_store(&s->pause, false);
    return rests;
}

static void look_until(soak *s, const soak_thread *threads, uint32_t count, uint64_t length_ns,
                       uint64_t memory_before, line out_lines[2], cJSON *list) {
    uint64_t begin = rota_clock_ns(), due = begin, minute = begin;
    memory now_used = {0};
    progress_begin(&bar, "running", NULL, length_ns);
    while (!atomic_load(&s->stop) && rota_clock_ns() - begin < length_ns) {
        due += LOOK_NS;
        if (due > begin + length_ns) due = begin + length_ns;
        while (rota_clock_ns() < due && !atomic_load(&s->stop)) {
            usleep(20000);
            progress_at(&bar, rota_clock_ns() - begin);
        }
        uint64_t staging = rota_runtime_staging_bytes(s->runtime);
        bool rests = resident_at_rest(s, count, memory_before, &now_used);
        uint64_t now = rota_clock_ns();
        double seconds = (double)(now - begin) * 1e-9;
        if (rests && now - begin > MINUTE_NS) {
            line_add(&out_lines[0], seconds, (double)now_used.resident / MIB);
            line_add(&out_lines[1], seconds, (double)now_used.heap / MIB);
        }
        if (now - minute < MINUTE_NS && now - begin < length_ns) continue;
        minute += MINUTE_NS;
        print_line(s, threads, count, seconds, now_used, staging, list);
    }
    progress_end(&bar);
}

/* What the runtime still counts once everything was released, after a while in which it may give back what is
 * idle. */
static uint32_t left_in_runtime(const soak *s, uint64_t memory_before, cJSON *json) {
    uint64_t deadline = rota_deadline_after(SETTLE_NS), staging;
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    bool settled = is_at_rest(s, memory_before, &stats, &staging);
    while (!settled && rota_clock_ns() < deadline) {
        usleep(20000);
        settled = is_at_rest(s, memory_before, &stats, &staging);
    }
    uint64_t unfinished = stats.submissions - stats.completed; /* failed ones are completed */
    cJSON *left = cJSON_AddObjectToObject(json, "left");
    cJSON_AddNumberToObject(left, "buffers", (double)stats.buffers);
    cJSON_AddNumberToObject(left, "plans", (double)stats.plans);
    cJSON_AddNumberToObject(left, "submissions", (double)unfinished);
    cJSON_AddNumberToObject(left, "reclaim_pending", (double)stats.reclaim_pending);
    cJSON_AddNumberToObject(left, "staging_bytes", (double)staging);
    printf("left when all was released: %" PRIu64 " buffers, %" PRIu64 " plans, %" PRIu64
           " submissions, %" PRIu64 " to reclaim, %" PRIu64 " bytes beyond the %" PRIu64
           " of open devices, %" PRIu64 " of staging kept\n",
           stats.buffers, stats.plans, unfinished, stats.reclaim_pending,
           stats.memory_bytes > staging + memory_before ? stats.memory_bytes - staging - memory_before : 0,
           memory_before, staging);
    return settled ? 0 : 1;
}

static uint32_t left_in_process(holdings before, cJSON *json) {
    uint64_t deadline = rota_deadline_after(SETTLE_NS);
    holdings now = look_at_process();
    while ((now.threads > before.threads || now.files > before.files) && rota_clock_ns() < deadline) {
        usleep(50000);
        now = look_at_process();
    }
    uint64_t threads = now.threads > before.threads ? now.threads - before.threads : 0;
    uint64_t files = now.files > before.files ? now.files - before.files : 0;
    cJSON *left = cJSON_GetObjectItem(json, "left");
    cJSON_AddNumberToObject(left, "threads", (double)threads);
    cJSON_AddNumberToObject(left, "files", (double)files);
    printf("left after close: %" PRIu64 " threads, %" PRIu64 " open files, %u devices given up\n", threads,
           files, rota_devices_abandoned());
    return (uint32_t)(threads + files) + rota_devices_abandoned();
}

/* What opening the devices tried them with goes first. */
static uint64_t memory_settled(soak *s) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(s->runtime, &stats);
    const uint64_t settled_by = rota_deadline_after(SETTLE_NS);
    while ((stats.buffers || stats.plans || stats.reclaim_pending) && rota_clock_ns() < settled_by) {
        usleep(1000);
        rota_runtime_get_stats(s->runtime, &stats);
    }
    return stats.memory_bytes - rota_runtime_staging_bytes(s->runtime);
}

/* Lets the threads work for so long; how many of them were started. */
static uint32_t work_for(soak *s, soak_thread *threads, uint32_t count, uint64_t length_ns,
                         uint64_t memory_before, line lines[2], cJSON *json) {
    pthread_t ids[THREADS_MAX];
    uint32_t started = 0;
    for (; started < count; started++)
        if (pthread_create(&ids[started], NULL, thread_main, &threads[started]) != 0) break;
    if (started < count) {
        fprintf(stderr, "%s: thread %u of %u can't be started\n", program, started + 1, count);
        atomic_store(&s->stop, true);
    }
    look_until(s, threads, started, length_ns, memory_before, lines, cJSON_AddArrayToObject(json, "minutes"));
    atomic_store(&s->stop, true);
    for (uint32_t t = 0; t < started; t++) pthread_join(ids[t], NULL);
    return started;
}

/* What the threads saw, and how memory grew meanwhile: how many faults that is. */
static uint32_t judge(soak *s, const soak_thread *threads, uint32_t count, const line lines[2],
                      double most_slope, cJSON *json) {
    const line *rss = &lines[0];
    uint64_t refusals = 0, reopened = 0;
    uint32_t bad = 0;
    for (uint32_t t = 0; t < count; t++) {
        refusals += threads[t].refusals, reopened += threads[t].reopened;
        if (!atomic_load(&threads[t].failures)) continue;
        fprintf(stderr, "%s: thread %u: %s\n", program, t, threads[t].message);
        bad++;
    }
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(s->runtime, &stats);
    double error, heap_error, slope = line_slope(rss, &error),
                              heap_slope = line_slope(&lines[1], &heap_error);
    bool judged = rss->last_s - rss->first_s >= (double)JUDGED_NS * 1e-9;
    printf("%u differences; %" PRIu64 " submissions, %" PRIu64 " runtimes opened and closed, %" PRIu64
           " refusals of memory; RSS %.3f MiB an hour (+- %.3f, %" PRIu64
           " samples%s), heap %.3f (+- %.3f)\n",
           bad, stats.submissions, reopened, refusals, slope, error, rss->count,
           judged ? "" : ", too few to judge", heap_slope, heap_error);
    cJSON_AddNumberToObject(json, "differences", bad);
    cJSON_AddNumberToObject(json, "submissions", (double)stats.submissions);
    cJSON_AddNumberToObject(json, "runtimes_reopened", (double)reopened);
    cJSON_AddNumberToObject(json, "memory_refusals", (double)refusals);
    cJSON_AddNumberToObject(json, "rss_slope_mib_per_hour", slope);
    cJSON_AddNumberToObject(json, "rss_slope_error", error);
    cJSON_AddNumberToObject(json, "heap_slope_mib_per_hour", heap_slope);
    cJSON_AddNumberToObject(json, "heap_slope_error", heap_error);
    cJSON_AddBoolToObject(json, "rss_slope_judged", judged);
    if (judged && slope > most_slope) {
        fprintf(stderr, "%s: memory grows by %.3f MiB an hour; %.3f are allowed\n", program, slope,
                most_slope);
        bad++;
    }
    return bad;
}

static int run(soak *s, soak_thread *threads, uint32_t count, uint64_t length_ns, double most_slope,
               holdings before, cJSON *json) {
    line lines[2] = {{0}};
    const uint64_t memory_before = memory_settled(s);
    rota_status filled = fill_rings(s);
    if (filled != ROTA_OK) {
        report_failure(program, filled);
        return EXIT_CHECK_FAILED;
    }
    const uint32_t started = work_for(s, threads, count, length_ns, memory_before, lines, json);
    uint32_t bad = judge(s, threads, count, lines, most_slope, json);
    if (started < count) return EXIT_BAD_ARGUMENT;
    bad += left_in_runtime(s, memory_before, json);
    rota_status closed = rota_runtime_close(s->runtime, CLOSE_NS);
    s->runtime = NULL;
    if (closed != ROTA_OK) {
        fprintf(stderr, "%s: closing: %s\n", program, rota_last_error());
        bad++;
    }
    bad += left_in_process(before, json);
    return bad ? EXIT_CHECK_FAILED : EXIT_GOOD;
}

int bench_soak(int argc, char **argv) {
    uint64_t count = 6, seed = 1;
    double minutes = 1, slope = 1;
    int work = SOAK_KINDS;
    const char *device = "auto", *out = NULL;
    const option options[] = {
        {"--device", OPTION_STRING, &device, "ID[,ID...]", 0, 0, false, "the devices, none twice"},
        {"--minutes", OPTION_REAL, &minutes, "M", 0.01, 100000, false, "how long"},
        {"--threads", OPTION_COUNT, &count, "T", 1, THREADS_MAX, false, "threads that work"},
        {"--work", OPTION_CHOICE, &work, SOAK_FORM, 0, 0, false,
         "what all threads do; else each one of them in turn"},
        {"--seed", OPTION_COUNT, &seed, "N", 0, 1e15, false, "chooses what exactly is done"},
        {"--slope", OPTION_REAL, &slope, "MIB_PER_HOUR", 0, 1e6, false,
         "growth of memory that is a failure, MiB an hour; judged after nine minutes"},
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench soak --device cpu,vk:0 --minutes 60 --out soak.json",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;

    /* What the program's threads take for their own data has pages of its own: in malloc's arenas it would
     * leave those full of holes, each kept by something small of whoever allocated meanwhile. */
    (void)mallopt(M_MMAP_THRESHOLD, OWN_PAGES_BYTES);
    soak s = {0};
    static soak_thread threads[THREADS_MAX];
    char *ids = strdup(device);
    cJSON *json = report_new();
    int code = ids ? open_devices(&s, ids) : EXIT_BAD_ARGUMENT;
    if (code == EXIT_GOOD) code = use_once(&s);
    if (code != EXIT_GOOD) goto done;

    /* The runtime is opened anew, so that what was there before it can be counted. */
    report_close(&(opened_device){.runtime = s.runtime});
    s.runtime = NULL;
    s.device_count = 0;
    memcpy(ids, device, strlen(device) + 1);
    usleep(200000); /* threads of drivers that are about to end */
    holdings before = look_at_process();
    code = open_devices(&s, ids);
    if (code != EXIT_GOOD) goto done;
    cJSON *list = cJSON_AddArrayToObject(json, "devices");
    for (uint32_t d = 0; d < s.device_count; d++)
        cJSON_AddItemToArray(list, report_device(rota_device_get_info(s.devices[d])));
    cJSON_AddNumberToObject(json, "threads", (double)count);
    cJSON_AddNumberToObject(json, "seed", (double)seed);
    for (uint32_t t = 0; t < count; t++)
        threads[t] = (soak_thread){.soak = &s,
                                   .kind = work == SOAK_KINDS ? t % SOAK_KINDS : (uint32_t)work,
                                   .seed = seed * 1000003 + t};
    code = run(&s, threads, (uint32_t)count, (uint64_t)(minutes * 60e9), slope, before, json);
done:
    if (s.runtime) report_close(&(opened_device){.runtime = s.runtime});
    free(ids);
    return report_write(json, out, code);
}
