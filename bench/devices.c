/* rota-bench devices: every device with what it offers or lacks. rota-bench smoke: the smoke test of one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/commands.h"
#include "bench/options.h"
#include "bench/report.h"
#include "ops/kernels.h"
#include "ops/cuda/libraries.h"

static const struct {
    uint32_t bit;
    const char *name;
} features[] = {{ROTA_FEATURE_F16_STORAGE, "f16 storage"},
                {ROTA_FEATURE_F16_ARITHMETIC, "f16 arithmetic"},
                {ROTA_FEATURE_COOPERATIVE_MATRIX, "cooperative matrix"},
                {ROTA_FEATURE_COOPERATIVE_MATRIX_BF16, "cooperative matrix bf16"},
                {ROTA_FEATURE_COOPERATIVE_MATRIX_2, "cooperative matrix 2"},
                {ROTA_FEATURE_SUBGROUP_SIZE_CONTROL, "subgroup size control"},
                {ROTA_FEATURE_INT64_ATOMICS, "int64 atomics"},
                {ROTA_FEATURE_INT8_STORAGE, "int8 storage"},
                {ROTA_FEATURE_CUDA_IMAGES, "CUDA images"},
                {ROTA_FEATURE_F64, "f64"}};

/* Whether the ops have code for a device in this build. */
static bool has_kernels(const rota_device_info *info) {
    return info->kind != ROTA_EXEC_CUDA || rota_kernels_have_cuda_images();
}

static cJSON *describe(const rota_device_info *info) {
    cJSON *device = report_device(info);
    cJSON_AddBoolToObject(device, "usable", info->usable);
    cJSON_AddStringToObject(device, "missing", info->missing);
    cJSON_AddNumberToObject(device, "max_allocation_bytes", (double)info->max_allocation_bytes);
    cJSON_AddNumberToObject(device, "compute_queues", info->compute_queues);
    cJSON_AddNumberToObject(device, "transfer_queues", info->transfer_queues);
    cJSON_AddNumberToObject(device, "subgroup_size", info->subgroup_size);
    cJSON_AddBoolToObject(device, "kernels", has_kernels(info));
    cJSON *list = cJSON_AddArrayToObject(device, "features");
    for (size_t f = 0; f < sizeof features / sizeof *features; f++)
        if (info->features & features[f].bit)
            cJSON_AddItemToArray(list, cJSON_CreateString(features[f].name));
    return device;
}

static void print_device(const rota_device_info *info) {
    printf("%-6s %-13s %s\n", info->id, report_device_class(info->device_class), info->name);
    printf("       driver %s; %.1f GiB; %" PRIu32 " compute units; queues: %" PRIu32 " compute, %" PRIu32
           " transfer\n",
           info->driver, (double)info->memory_bytes / (1 << 30), info->compute_units, info->compute_queues,
           info->transfer_queues);
    if (!has_kernels(info)) puts("       without kernels: this build had no nvcc, so no op runs here");
    if (!info->usable) {
        printf("       not usable: %s\n", info->missing);
        return;
    }
    const char *separator = "       ";
    for (size_t f = 0; f < sizeof features / sizeof *features; f++) {
        if (!(info->features & features[f].bit)) continue;
        printf("%s%s", separator, features[f].name);
        separator = ", ";
    }
    if (*separator == ',') putchar('\n');
}

/* "a, b": the files that were tried. */
static void files_tried(const rota_cuda_library *library, char *out_text, size_t capacity) {
    size_t used = 0;
    out_text[0] = 0;
    for (const char *const *file = library->files; *file && used < capacity; file++)
        used += (size_t)snprintf(out_text + used, capacity - used, "%s%s", used ? ", " : "", *file);
}

/* The libraries that CUDA devices work with, and what is lost without them. */
static cJSON *describe_libraries(void) {
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < ROTA_CUDA_LIBRARY_COUNT; i++) {
        const rota_cuda_library *library = rota_cuda_library_get((rota_cuda_library_kind)i);
        char tried[512];
        files_tried(library, tried, sizeof tried);
        if (library->file)
            printf("%-13s %s\n", library->name, library->file);
        else
            printf("%-13s not found (tried %s); lost: %s\n", library->name, tried, library->lost);
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddItemToArray(list, entry);
        cJSON_AddStringToObject(entry, "name", library->name);
        cJSON_AddBoolToObject(entry, "found", library->file != NULL);
        cJSON_AddStringToObject(entry, "file", library->file ? library->file : "");
        cJSON_AddStringToObject(entry, "tried", tried);
        cJSON_AddStringToObject(entry, "lost", library->file ? "" : library->lost);
    }
    return list;
}

int bench_devices(int argc, char **argv) {
    static const char program[] = "rota-bench devices";
    const char *out = NULL;
    const option options[] = {OPTION_ROW_OUT(out)};
    const option_table table = {program, bench_text(program), NULL, options, sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;

    int code = EXIT_GOOD;
    opened_device opened = {0};
    rota_device_info *infos = NULL;
    cJSON *result = report_new();
    uint32_t count = 0;
    REPORT_TRY(rota_runtime_open(NULL, &opened.runtime));
    REPORT_TRY(rota_devices(opened.runtime, NULL, 0, &count));
    infos = calloc(count ? count : 1, sizeof *infos);
    if (!infos) {
        fprintf(stderr, "%s: out of memory\n", program);
        code = EXIT_BAD_ARGUMENT;
        goto done;
    }
    uint32_t capacity = count;
    infos->struct_size = sizeof *infos;
    REPORT_TRY(rota_devices(opened.runtime, infos, capacity, &count));
    const char *absent = rota_last_error();
    if (absent[0]) printf("not there: %s\n", absent);
    cJSON_AddStringToObject(result, "absent", absent);
    if (count > capacity) count = capacity;
    cJSON *list = cJSON_AddArrayToObject(result, "devices");
    for (uint32_t d = 0; d < count; d++) {
        print_device(&infos[d]);
        cJSON_AddItemToArray(list, describe(&infos[d]));
    }
    cJSON_AddItemToObject(result, "cuda_libraries", describe_libraries());
    rota_status status = rota_device_open(opened.runtime, NULL, &opened.device);
    if (status != ROTA_OK) {
        report_failure(program, status);
        code = EXIT_NO_DEVICE;
        goto done;
    }
    const rota_device_info *best = rota_device_get_info(opened.device);
    printf("default: %s (%s)\n", best->id, rota_device_choice(opened.runtime));
    cJSON_AddStringToObject(result, "default", best->id);
    cJSON_AddStringToObject(result, "why", rota_device_choice(opened.runtime));
done:
    free(infos);
    report_close(&opened);
    return report_write(result, code == EXIT_GOOD ? out : NULL, code);
}

int bench_smoke(int argc, char **argv) {
    static const char program[] = "rota-bench smoke";
    const char *out = NULL, *id = NULL;
    uint64_t rounds = 10, idle_ms = 0;
    const option options[] = {
        OPTION_ROW_DEVICE(id),
        {"--rounds", OPTION_COUNT, &rounds, "N", 1, 1e6, false, "how often the test is run"},
        {"--idle-ms", OPTION_COUNT, &idle_ms, "N", 0, 60000, false, "milliseconds of rest between its steps"},
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench smoke --device vk:0 --rounds 100",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;

    opened_device opened;
    int code = report_open(program, id, NULL, &opened);
    if (code != EXIT_GOOD) return code;
    cJSON *result = report_new();
    cJSON_AddItemToObject(result, "device", report_device(rota_device_get_info(opened.device)));
    cJSON_AddNumberToObject(result, "rounds", (double)rounds);
    cJSON_AddNumberToObject(result, "idle_ms", (double)idle_ms);
    uint64_t begin = rota_clock_ns();
    for (uint64_t r = 0; r < rounds && code == EXIT_GOOD; r++) {
        rota_status status = rota_device_smoke(opened.device, idle_ms * 1000000);
        if (status == ROTA_OK) continue;
        /* The device opened, so a refusal now is a wrong result. */
        code = report_failure(program, status);
        if (status == ROTA_REFUSED) code = EXIT_CHECK_FAILED;
    }
    double ms = (double)(rota_clock_ns() - begin) / 1e6;
    cJSON_AddBoolToObject(result, "passed", code == EXIT_GOOD);
    cJSON_AddNumberToObject(result, "ms", ms);
    if (code == EXIT_GOOD)
        printf("smoke test passed %" PRIu64
               " times in %.1f ms: two uploads, an add, 65536 sums of exactly 3\n",
               rounds, ms);
    report_close(&opened);
    return report_write(result, out, code);
}
