/* A training run as one HTML file: writing. The page (run_report.html) has all that draws; here its data are
 * put into it as JSON, in which nothing can be taken for markup. */
#include "examples/common/run_report_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include "bench/files.h"
#include "examples/common/utf8.h"
#include "run_report_page.h"

/* A JSON string that may stand in a script element; U+FFFD for each byte that is not UTF-8. */
static void put_text(FILE *file, const char *text) {
    size_t left = strlen(text);
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; left;) {
        size_t length;
        if (utf8_decode(c, left, &length) >= UTF8_RAW_BYTE)
            fputs("\xEF\xBF\xBD", file);
        else if (*c < 0x20 || *c == '"' || *c == '\\' || *c == '<' || *c == '>' || *c == '&' || *c == 0x7f)
            fprintf(file, "\\u%04x", *c);
        else
            fwrite(c, 1, length, file);
        c += length;
        left -= length;
    }
    fputc('"', file);
}

static void put_number(FILE *file, double value) {
    if (isfinite(value))
        fprintf(file, "%.9g", value);
    else
        fputs("null", file);
}

static void put_point(FILE *file, const run_report_point *point, bool first) {
    fprintf(file, "%s[%" PRIu64, first ? "" : ",", point->step);
    for (int v = 0; v < RUN_REPORT_VALUES; v++) {
        fputc(',', file);
        put_number(file, point->count[v] ? point->sum[v] / point->count[v] : NAN);
    }
    fputc(']', file);
}

static void put_steps(FILE *file, const run_report *report) {
    fprintf(file, ",\"stride\":%u,\n\"steps\":[", report->stride);
    for (uint32_t i = 0; i < report->point_count; i++) put_point(file, &report->points[i], i == 0);
    if (report->in_open) put_point(file, &report->open, report->point_count == 0);
    fputc(']', file);
}

/* ---- The plan ---- */

/* Names and kernels are said once each. */
typedef struct text_table {
    const char **texts;
    uint32_t *entries; /* open addressing; index + 1 */
    uint32_t count, entry_count;
} text_table;

static uint32_t text_index(text_table *table, const char *text) {
    uint32_t hash = 2166136261u;
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    uint32_t entry = hash % table->entry_count;
    while (table->entries[entry] && strcmp(table->texts[table->entries[entry] - 1], text) != 0)
        entry = (entry + 1) % table->entry_count;
    if (!table->entries[entry]) {
        table->texts[table->count++] = text;
        table->entries[entry] = table->count;
    }
    return table->entries[entry] - 1;
}

/* Microseconds since the run's replay was submitted. */
static void put_time(FILE *file, const run_report *report, uint64_t ns) {
    fprintf(file, "%.3f", ((double)ns - (double)report->replay.submitted_ns) / 1e3);
}

static void put_command(FILE *file, const run_report *report, text_table *table, uint64_t i) {
    const rota_plan_command *c = &report->commands[i];
    fprintf(file, "%s[%u,\"%s\",%d,%u,%u,%u,%" PRIu64 ",%" PRIu64 ",", i ? ",\n" : "",
            text_index(table, c->name), run_report_kind_name(c->kind),
            c->kernel ? (int)text_index(table, c->kernel->name) : -1, c->queue, c->segment, c->batch,
            c->read_bytes, c->written_bytes);
    put_number(file, c->work);
    fprintf(file, ",%" PRIu64 ",", c->live_bytes);
    if (report->has_times && report->times[i].end_ns) {
        put_time(file, report, report->times[i].begin_ns);
        fputc(',', file);
        put_time(file, report, report->times[i].end_ns);
    } else {
        fputs("null,null", file);
    }
    fputc(']', file);
}

static bool put_plan(FILE *file, const run_report *report) {
    const uint32_t most = (uint32_t)report->command_count * 2 + 1;
    text_table table = {.entry_count = most * 2};
    if (!report->command_count) {
        fputs(",\n\"plan\":null", file);
        return true;
    }
    table.texts = calloc(most, sizeof *table.texts);
    table.entries = calloc(table.entry_count, sizeof *table.entries);
    const bool good = table.texts && table.entries;
    if (good) {
        const rota_plan_stats *s = &report->stats;
        fprintf(file,
                ",\n\"plan\":{\"nodes\":%" PRIu64 ",\"recomputed\":%" PRIu64 ",\"arena\":%" PRIu64
                ",\"lower\":%" PRIu64 ",\"commands\":[",
                s->nodes, s->recomputed, s->arena_bytes, s->arena_lower_bound_bytes);
        for (uint64_t i = 0; i < report->command_count; i++) put_command(file, report, &table, i);
        fputs("],\"strings\":[", file);
        for (uint32_t i = 0; i < table.count; i++) {
            if (i) fputc(',', file);
            put_text(file, table.texts[i]);
        }
        fputs("]}", file);
    }
    free(table.texts);
    free(table.entries);
    return good;
}

static void put_uploads(FILE *file, run_report *report) {
    fputs(",\n\"uploads\":[", file);
    const uint32_t count =
        report->upload_count < RUN_REPORT_UPLOADS ? report->upload_count : RUN_REPORT_UPLOADS;
    const uint64_t from = report->replay.submitted_ns, to = report->replay.completed_ns;
    bool first = true;
    for (uint32_t i = 0; i < count && report->has_times; i++) {
        run_report_upload *u = &report->uploads[i];
        const uint64_t end = atomic_load_explicit(&u->end_ns, memory_order_relaxed);
        if (!u->begin_ns || !end || end < from || u->begin_ns > to) continue;
        fputs(first ? "[" : ",[", file);
        put_text(file, u->name);
        fprintf(file, ",%" PRIu64 ",", u->bytes);
        put_time(file, report, u->begin_ns);
        fputc(',', file);
        put_time(file, report, end);
        fputc(']', file);
        first = false;
    }
    fputs("],\n\"replay\":", file);
    if (!report->has_times) {
        fputs("null", file);
        return;
    }
    const rota_plan_replay *r = &report->replay;
    const uint64_t stages[] = {r->submitted_ns, r->sequenced_ns, r->handed_over_ns, r->completed_ns};
    for (int i = 0; i < 4; i++) {
        fputc(i ? ',' : '[', file);
        put_time(file, report, stages[i]);
    }
    fputc(']', file);
}

/* ---- Facts ---- */

static void put_fact(FILE *file, const char *name, const char *value, bool first) {
    fputs(first ? "[" : ",\n[", file);
    put_text(file, name);
    fputc(',', file);
    put_text(file, value);
    fputc(']', file);
}

static void put_facts(FILE *file, const run_report *report, const rota_device_info *info) {
    char text[512];
    struct utsname host;
    fputs(",\n\"facts\":[", file);
    put_fact(file, "Command", report->command, true);
    snprintf(text, sizeof text, "%s: %s", info->id, info->name);
    put_fact(file, "Device", text, false);
    put_fact(file, "Driver", info->driver, false);
    if (info->memory_bytes) {
        snprintf(text, sizeof text, "%.1f GiB", (double)info->memory_bytes / (1 << 30));
        put_fact(file, "Device memory", text, false);
    }
    if (info->compute_units) {
        snprintf(text, sizeof text, "%u", info->compute_units);
        put_fact(file, info->kind == ROTA_EXEC_CPU ? "Cores" : "Compute units", text, false);
    }
    snprintf(text, sizeof text, "%u, and %u for transfers", info->compute_queues, info->transfer_queues);
    if (info->kind != ROTA_EXEC_CPU) put_fact(file, "Queues of the device", text, false);
    if (report->command_count) {
        const rota_plan_stats *s = &report->stats;
        snprintf(text, sizeof text,
                 "%" PRIu64 " nodes, %" PRIu64 " edges (%" PRIu64 " more were implied), %" PRIu64
                 " barriers, %" PRIu64 " batches, %" PRIu64 " segments on %u queue(s)",
                 s->nodes, s->edges, s->edges_dropped, s->barriers, s->batches, s->segments, s->queues);
        put_fact(file, "Plan", text, false);
    }
    for (uint32_t i = 0; i < report->fact_count; i++)
        put_fact(file, report->facts[i].name, report->facts[i].value, false);
    if (uname(&host) == 0) {
        snprintf(text, sizeof text, "%s %s, %s", host.sysname, host.release, host.machine);
        put_fact(file, "Host", text, false);
    }
    snprintf(text, sizeof text, "%s %s, C%ld%s; CUDA kernels %s",
#ifdef __clang__
             "clang", __clang_version__,
#else
             "gcc", __VERSION__,
#endif
             __STDC_VERSION__ / 100 % 100,
#ifdef NDEBUG
             "",
#else
             ", with assertions",
#endif
             rota_kernels_have_cuda_images() ? "built in" : "left out");
    put_fact(file, "Build", text, false);
    fputc(']', file);
}

static bool put_data(FILE *file, run_report *report, const rota_device_info *info) {
    const time_t now = time(NULL);
    struct tm utc;
    char text[512];
    fputs("{\"title\":", file);
    put_text(file, report->title);
    if (!gmtime_r(&now, &utc) || !strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc)) text[0] = 0;
    fputs(",\"created\":", file);
    put_text(file, text);
    snprintf(text, sizeof text, "%s: %s", info->id, info->name);
    fputs(",\"device\":", file);
    put_text(file, text);
    fputs(",\"rate\":", file);
    put_text(file, report->rate);
    fputs(",\"unit\":", file);
    put_text(file, report->unit);
    fputs(",\"untimed\":", file);
    put_text(file, report->has_times ? "" : report->untimed);
    fprintf(file, ",\"persistent\":%" PRIu64 ",\"transfers\":%u", report->persistent_bytes,
            info->transfer_queues);
    fputs(",\"peaks\":{\"bandwidth\":", file);
    put_number(file, report->peaks.bandwidth);
    fputs(",\"single\":", file);
    put_number(file, report->peaks.single);
    fputs(",\"half\":", file);
    put_number(file, report->peaks.half);
    fputs(",\"how\":", file);
    put_text(file, report->peaks.how);
    fputs("},\"unmeasured\":", file);
    put_text(file, report->peaks.unmeasured);
    put_steps(file, report);
    put_uploads(file, report);
    put_facts(file, report, info);
    const bool good = put_plan(file, report);
    fputs("}\n", file);
    return good;
}

bool run_report_write(run_report *report, rota_device *device) {
    static const char token[] = "<!--DATA-->";
    const char *page = (const char *)run_report_page, *found = strstr(page, token);
    file_writer writer;
    if (!file_open(&writer, report->path)) return false;
    FILE *file = writer.file.stream;
    fwrite(page, 1, (size_t)(found - page), file);
    fputs("<script type=\"application/json\" id=\"data\">\n", file);
    const bool good = put_data(file, report, rota_device_get_info(device));
    fputs("</script>", file);
    fputs(found + sizeof token - 1, file);
    if (good) return file_commit(&writer);
    fprintf(stderr, "'%s' can't be written: no memory for its plan\n", report->path);
    file_abandon(&writer);
    return false;
}
