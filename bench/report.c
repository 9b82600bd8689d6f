/* What the subcommands share: exit codes, opening the device, JSON results, and numbers from samples. */
#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "bench/files.h"

/* At a program's end little is in flight; a device that has hung has had its deadline before. */
#define CLOSE_NS UINT64_C(4000000000)

int report_failure(const char *program, rota_status status) {
    fprintf(stderr, "%s: %s: %s\n", program, rota_status_name(status), rota_last_error());
    switch (status) {
    case ROTA_TIMEOUT:
    case ROTA_DEVICE_LOST:
        return EXIT_DEVICE_GONE;
    case ROTA_NOT_FOUND:
    case ROTA_REFUSED:
    case ROTA_UNSUPPORTED:
        return EXIT_NO_DEVICE;
    case ROTA_NODE_FAILED:
    case ROTA_INTERNAL:
        return EXIT_CHECK_FAILED;
    default:
        return EXIT_BAD_ARGUMENT;
    }
}

/* "auto", "cpu", or a driver's name, a colon and a number. */
static bool device_form(const char *id) {
    if (strcmp(id, "auto") == 0 || strcmp(id, "cpu") == 0) return true;
    const char *number = strncmp(id, "vk:", 3) == 0 ? id + 3 : strncmp(id, "cuda:", 5) == 0 ? id + 5 : "";
    size_t digits = strspn(number, "0123456789");
    return digits > 0 && digits < 4 && number[digits] == 0;
}

static void say(void *user, rota_log_level level, const char *message) {
    (void)level;
    fprintf(stderr, "%s: %s\n", (const char *)user, message);
}

int report_open_quietly(const char *program, const char *id, const rota_runtime_options *options,
                        opened_device *out) {
    *out = (opened_device){0};
    if (id && !device_form(id)) {
        fprintf(stderr, "%s: --device takes auto, cpu, vk:0, cuda:0, ..., not '%s'\n", program, id);
        return EXIT_BAD_ARGUMENT;
    }
    rota_runtime_options own = options ? *options : ROTA_RUNTIME_OPTIONS();
    own.log = (rota_log){.fn = say, .level = ROTA_LOG_WARNING};
    memcpy(&own.log.user, &program, sizeof program); /* which is not written to */
    rota_status status = rota_runtime_open(&own, &out->runtime);
    if (status == ROTA_OK) status = rota_device_open(out->runtime, id, &out->device);
    if (status != ROTA_OK) {
        int code = report_failure(program, status);
        report_close(out);
        return code == EXIT_DEVICE_GONE ? code : EXIT_NO_DEVICE;
    }
    return EXIT_GOOD;
}

void report_say_device(const char *id, const opened_device *opened) {
    const rota_device_info *info = rota_device_get_info(opened->device);
    const char *why = id && strcmp(id, "auto") != 0 ? "asked for" : rota_device_choice(opened->runtime);
    printf("device %s: %s, %s (%s)\n", info->id, info->name, info->driver, why);
    fflush(stdout);
}

int report_open(const char *program, const char *id, const rota_runtime_options *options,
                opened_device *out) {
    const int code = report_open_quietly(program, id, options, out);
    if (code == EXIT_GOOD) report_say_device(id, out);
    return code;
}

void report_close(opened_device *opened) {
    if (opened->runtime && rota_runtime_close(opened->runtime, CLOSE_NS) != ROTA_OK)
        fprintf(stderr, "closing: %s\n", rota_last_error());
    *opened = (opened_device){0};
}

const char *report_device_class(rota_device_class device_class) {
    switch (device_class) {
    case ROTA_DEVICE_GPU:
        return "gpu";
    case ROTA_DEVICE_CPU:
        return "cpu";
    case ROTA_DEVICE_SOFTWARE_GPU:
        return "software gpu";
    case ROTA_DEVICE_TEST:
        return "test";
    }
    return "unknown";
}

cJSON *report_device(const rota_device_info *info) {
    static const char *const backends[ROTA_EXEC_KIND_COUNT] = {"cpu", "vk", "cuda"};
    cJSON *device = cJSON_CreateObject();
    cJSON_AddStringToObject(device, "id", info->id);
    cJSON_AddStringToObject(device, "backend",
                            info->kind < ROTA_EXEC_KIND_COUNT ? backends[info->kind] : "unknown");
    cJSON_AddStringToObject(device, "name", info->name);
    cJSON_AddStringToObject(device, "driver", info->driver);
    cJSON_AddStringToObject(device, "class", report_device_class(info->device_class));
    cJSON_AddNumberToObject(device, "memory_bytes", (double)info->memory_bytes);
    cJSON_AddNumberToObject(device, "compute_units", info->compute_units);
    return device;
}

cJSON *report_new(void) {
    cJSON *result = cJSON_CreateObject();
    time_t now = time(NULL);
    struct tm utc;
    char text[32] = "";
    if (gmtime_r(&now, &utc)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    cJSON_AddStringToObject(result, "timestamp", text);
    return result;
}

int report_write(cJSON *result, const char *path, int code) {
    if (path) {
        char *text = cJSON_Print(result);
        bool written = false;
        if (!text)
            fprintf(stderr, "out of memory for the result\n");
        else
            written = file_write_text(path, text);
        cJSON_free(text);
        if (!written && code == EXIT_GOOD) code = EXIT_BAD_ARGUMENT;
    }
    cJSON_Delete(result);
    return code;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double rank(const double *sorted, size_t count, double percent) {
    size_t index = (size_t)ceil(percent / 100 * (double)count);
    return sorted[index ? index - 1 : 0];
}

int report_end(const char *program, int code) {
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        /* One that failed before has left no reason behind. */
        fprintf(stderr, "%s: standard output can't be written%s%s\n", program, errno ? ": " : "",
                errno ? strerror(errno) : "");
        if (code == EXIT_GOOD) code = EXIT_BAD_ARGUMENT;
    }
    if (rota_devices_abandoned() == 0) return code;
    fprintf(stderr, "%s: a device did not come to an end: leaving without the drivers' exit handlers\n",
            program);
    (void)fflush(NULL);
    _exit(code == EXIT_GOOD ? EXIT_DEVICE_GONE : code);
}

sample_stats samples_describe(double *samples, size_t count) {
    if (count == 0) return (sample_stats){0};
    qsort(samples, count, sizeof *samples, compare_doubles);
    return (sample_stats){.median = (samples[(count - 1) / 2] + samples[count / 2]) / 2,
                          .least = samples[0],
                          .most = samples[count - 1],
                          .p95 = rank(samples, count, 95),
                          .p99 = rank(samples, count, 99),
                          .p999 = rank(samples, count, 99.9)};
}
