/* How far a long action is. */
#include "bench/progress.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"

#define BAR_WIDTH 24
#define FIRST_NS UINT64_C(1000000000)
#define REDRAW_NS UINT64_C(500000000)
#define PLAIN_NS UINT64_C(10000000000)

static _Thread_local bool is_quiet;

void progress_quiet(void) {
    is_quiet = true;
}

/* "12", "1.2k", "3.4M", "5.6G". */
static void describe(double value, char text[16]) {
    static const char *const units[] = {"", "k", "M", "G", "T"};
    size_t unit = 0;
    for (; value >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1000;
    (void)snprintf(text, 16, value < 10 && (unit || value < 1) ? "%.1f%s" : "%.0f%s", value, units[unit]);
}

static void describe_seconds(double seconds, char text[24]) {
    const uint64_t whole = (uint64_t)seconds, minutes = whole / 60, hours = minutes / 60;
    if (minutes < 60)
        (void)snprintf(text, 24, "%u:%02u", (unsigned)minutes, (unsigned)(whole % 60));
    else
        (void)snprintf(text, 24, "%llu h %02u", (unsigned long long)hours, (unsigned)(minutes % 60));
}

/* Under the lock. */
static void write_line(progress_bar *p, uint64_t now_ns) {
    uint64_t done = atomic_load_explicit(&p->done, memory_order_relaxed); /* see progress_at */
    const uint64_t before = atomic_load_explicit(&p->before, memory_order_relaxed);
    const double seconds = (double)(now_ns - p->begun_ns) / 1e9;
    char bar[BAR_WIDTH + 1], rate[16], time[24];
    if (p->total && done > p->total) done = p->total;
    const double here = done > before ? (double)(done - before) : 0;
    if (p->terminal) fputs("\r\033[K", p->stream);
    if (p->total) {
        for (uint64_t i = 0; i < BAR_WIDTH; i++)
            bar[i] = (double)i < (double)done / (double)p->total * BAR_WIDTH ? '#' : '.';
        bar[BAR_WIDTH] = 0;
        if (p->terminal) fprintf(p->stream, "[%s] %3.0f%%  ", bar, 100.0 * (double)done / (double)p->total);
    }
    fputs(p->what, p->stream);
    if (p->total && !p->terminal) fprintf(p->stream, "  %.0f%%", 100.0 * (double)done / (double)p->total);
    if (p->unit) {
        describe(here / seconds, rate);
        fprintf(p->stream, "  %s %s/s", rate, p->unit);
    }
    if (p->total && here > 0) {
        describe_seconds(seconds / here * (double)(p->total - done), time);
        fprintf(p->stream, "  %s left", time);
    } else {
        describe_seconds(seconds, time);
        fprintf(p->stream, "  %s so far", time);
    }
    if (p->note[0]) fprintf(p->stream, "  %s", p->note);
    if (!p->terminal) fputc('\n', p->stream);
    (void)fflush(p->stream);
    p->drawn = p->terminal;
}

/* Under the lock. */
static void erase(progress_bar *p) {
    if (!p->drawn) return;
    fputs("\r\033[K", p->stream);
    (void)fflush(p->stream);
    p->drawn = false;
}

static void *watch(void *argument) {
    progress_bar *p = argument;
    uint64_t due_ns = p->begun_ns + p->first_ns;
    (void)pthread_mutex_lock(&p->lock);
    while (!p->ended) {
        const struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000u),
                                     .tv_nsec = (long)(due_ns % 1000000000u)};
        if (pthread_cond_timedwait(&p->ends, &p->lock, &due) != ETIMEDOUT) continue;
        write_line(p, rota_clock_ns());
        due_ns = rota_clock_ns() + p->every_ns;
    }
    erase(p);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

void progress_begin_on(progress_bar *p, FILE *stream, bool terminal, uint64_t first_ns, uint64_t every_ns,
                       const char *what, const char *unit, uint64_t total) {
    memset(p, 0, sizeof *p);
    p->what = what;
    p->unit = unit;
    p->total = total;
    p->stream = stream;
    p->terminal = terminal;
    p->begun_ns = rota_clock_ns();
    p->first_ns = first_ns;
    p->every_ns = every_ns;
    (void)pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* rota_clock_ns's */
    (void)pthread_cond_init(&p->ends, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    p->runs = !is_quiet && pthread_create(&p->thread, NULL, watch, p) == 0;
}

void progress_begin(progress_bar *p, const char *what, const char *unit, uint64_t total) {
    const bool terminal = isatty(STDERR_FILENO) == 1;
    progress_begin_on(p, stderr, terminal, terminal ? FIRST_NS : PLAIN_NS, terminal ? REDRAW_NS : PLAIN_NS,
                      what, unit, total);
}

void progress_from(progress_bar *p, uint64_t before) {
    atomic_store_explicit(&p->before, before, memory_order_relaxed); /* as `done` */
    progress_at(p, before);
}

void progress_note(progress_bar *p, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)pthread_mutex_lock(&p->lock);
    (void)vsnprintf(p->note, sizeof p->note, format, arguments);
    (void)pthread_mutex_unlock(&p->lock);
    va_end(arguments);
}

void progress_clear(progress_bar *p) {
    if (!p) return;
    (void)pthread_mutex_lock(&p->lock);
    erase(p);
    (void)pthread_mutex_unlock(&p->lock);
}

void progress_end(progress_bar *p) {
    (void)pthread_mutex_lock(&p->lock);
    p->ended = true;
    (void)pthread_cond_signal(&p->ends);
    (void)pthread_mutex_unlock(&p->lock);
    if (p->runs) (void)pthread_join(p->thread, NULL);
    (void)pthread_cond_destroy(&p->ends);
    (void)pthread_mutex_destroy(&p->lock);
}
