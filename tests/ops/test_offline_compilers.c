/* Every shader that rota ships, compiled by drivers' compilers without their GPUs: RADV compiles for a family that it
 * is told (RADV_FORCE_FAMILY), ANV for a platform that Mesa's stand-in for the kernel's driver plays. The pipelines are
 * those that the kernel cases (kernel_cases.c) and fused random graphs ask the executor for, with their specialization
 * constants, and each once more with all operands and parameters in slots.
 *
 *     this process --a process for each GPU--> cases, graphs --> pipelines --> the driver --> a file --> the table
 *
 * Fails where a compiler refuses one, or keeps registers or arrays in memory and no line of `known` says why.
 *
 *     test_offline_compilers           some of each shader's pipelines, with this machine's RADV; 77 where it has none
 *                      --all           every pipeline
 *                      --table         and the table (docs/architecture/shaders.md)
 *                      --gpu NAME      with that one of `gpus` alone
 *                      --radv FILE     with that manifest of RADV's
 *                      --anv FILE SO   and that of ANV's, with libintel_noop_drm_shim.so
 *                      --here          in their place the first device that the environment's drivers have
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/vk/vk_count.h"
#include "exec/vk/vk_decide.h"
#include "exec/vk/vk_program.h"
#include "graph/kernel_calls.h"
#include "rota.h"
#include "tests/ops/fuse_graph.h"
#include "tests/ops/kernel_case.h"
#include "tests/ops/offline_device.h"

enum { PIPELINES_MAX = 16384, ROWS_MAX = 256, COLUMNS_MAX = 8, GRAPHS = 150, BUCKETS = 4096, SAMPLES = 8 };

typedef struct gpu {
    const char *name;
    bool anv;
} gpu;
static const gpu gpus[] = {{"polaris10", false}, {"navi21", false}, {"navi31", false}, {"gfx1201", false},
                           {"skl", true},        {"dg2", true},     {"lnl", true}};
enum { GPUS = sizeof gpus / sizeof *gpus };

/* What is kept in memory and why that may stay so. */
static const struct {
    const char *row, *device, *why; /* device: a part of its name */
    uint32_t before;                /* of drivers up to this version's; 0: of all */
} known[] = {
    {"matmul_large", "Intel", "64 sums an invocation, beside what is staged, are more than its 128 registers",
     0},
    {"matmul_f16_large", "Intel", "as matmul_large", 0},
    {"matmul_bf16_large", "Intel", "as matmul_large", 0},
    {"fused", "RADV", "Mesa 22.3.6 keeps the array of a program's values in memory, which 25.0.7 does not",
     VK_MAKE_API_VERSION(0, 25, 0, 7)},
    {"fused_half", "RADV", "as fused", VK_MAKE_API_VERSION(0, 25, 0, 7)},
};

/* ---- What the executor would ask for ---- */

static offline_pipeline pipelines[PIPELINES_MAX];
static uint32_t pipeline_next[PIPELINES_MAX], buckets[BUCKETS]; /* 1 + an index of pipelines; 0: none */
static uint32_t pipeline_count;

typedef struct row {
    char name[48];
    const uint32_t *words;
    uint32_t pipelines;
    offline_result most; /* of any of its pipelines */
} row;
static row rows[ROWS_MAX];
static uint32_t row_count;

static uint32_t row_of(const rota_kernel *recorded, const rota_kernel *kernel) {
    for (uint32_t i = 0; i < row_count; i++)
        if (rows[i].words == kernel->vk.words) return i;
    assert_true(row_count < ROWS_MAX);
    row *new_row = &rows[row_count];
    new_row->words = kernel->vk.words;
    const bool fused = strncmp(kernel->name, "fused:", 6) == 0;
    const bool half = fused ? kernel->vk.required_features != 0
                            : kernel != recorded && strcmp(kernel->name, recorded->name) == 0;
    (void)snprintf(new_row->name, sizeof new_row->name, "%s%s", fused ? "fused" : kernel->name,
                   half ? "_half" : "");
    return row_count++;
}

static void add(const rota_kernel *recorded, const rota_kernel *kernel, const void *params, bool in_slots) {
    offline_pipeline made = {.kernel = kernel};
    if (in_slots) {
        made.spec[0] = (1u << kernel->operand_count) - 1;
        made.spec[1] = (1u << recorded->bindable_count) - 1;
    }
    if (kernel->vk.spec_count) rota_kernel_vk_spec(kernel, params, made.spec + 2);
    made.row = row_of(recorded, kernel);
    made.in_row = rows[made.row].pipelines;
    uint64_t hash = made.row + 1;
    for (uint32_t i = 0; i < 2 + kernel->vk.spec_count; i++)
        hash = (hash ^ made.spec[i]) * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t *bucket = &buckets[hash >> 52];
    for (uint32_t i = *bucket; i; i = pipeline_next[i - 1])
        if (pipelines[i - 1].row == made.row &&
            memcmp(pipelines[i - 1].spec, made.spec, sizeof made.spec) == 0)
            return;
    assert_true(pipeline_count < PIPELINES_MAX);
    pipelines[pipeline_count] = made;
    pipeline_next[pipeline_count++] = *bucket;
    *bucket = pipeline_count;
    rows[made.row].pipelines++;
}

/* With what stands in on devices with the newest matrices, with those of a subgroup, with none, and on such without
 * 16-bit floats. */
static void collect_kernel(const rota_kernel *kernel, const void *params, const uint64_t *operand_bytes) {
    const uint32_t newest = ROTA_FEATURE_COOPERATIVE_MATRIX_2,
                   matrices = ROTA_FEATURE_COOPERATIVE_MATRIX | ROTA_FEATURE_COOPERATIVE_MATRIX_BF16;
    const uint32_t features[] = {~0u, ~newest, ~(newest | matrices), 0};
    for (uint32_t i = 0; i < sizeof features / sizeof *features; i++) {
        const rota_kernel *chosen = rota_kernel_vk_select(kernel, params, operand_bytes, features[i]);
        if (!chosen) chosen = kernel;
        if (!chosen->vk.words) continue;
        add(kernel, chosen, params, false);
        add(kernel, chosen, params, true);
    }
}

static void collect(const rota_kernel *kernel, const void *params, const uint64_t *operand_bytes) {
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    const uint32_t count = rota_kernel_has_parts(kernel) ? rota_kernel_parts(kernel, ROTA_EXEC_VK, params,
                                                                             operand_bytes, 0, NULL, parts)
                                                         : 0;
    if (!count) collect_kernel(kernel, params, operand_bytes);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes[ROTA_KERNEL_OPERANDS_MAX] = {0};
        for (uint32_t j = 0; j < parts[i].operand_count; j++) bytes[j] = operand_bytes[parts[i].operand[j]];
        collect_kernel(parts[i].kernel, parts[i].params, bytes);
    }
}

/* ---- The kernel cases, which run nothing here ---- */

bool kernel_case_is_short;

void kernel_check(const rota_kernel *kernel, const void *params, const kernel_array *arrays, uint32_t count,
                  double tolerance) {
    (void)tolerance;
    uint64_t bytes[ROTA_KERNEL_OPERANDS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) bytes[i] = arrays[i].count * rota_dtype_bytes(arrays[i].dtype);
    collect(kernel, params, bytes);
}

void kernel_check_given(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                        const void *const *given, uint32_t count, double tolerance) {
    (void)given;
    kernel_check(kernel, params, arrays, count, tolerance);
}

void kernel_check_variants(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                           uint32_t count, double tolerance) {
    kernel_check(kernel, params, arrays, count, tolerance);
}

/* Nothing is computed: contents don't matter. */
void kernel_case_fill(const kernel_array *array, void *contents) {
    memset(contents, 0, array->count * rota_dtype_bytes(array->dtype));
}

double kernel_case_element(rota_dtype dtype, const void *contents, uint64_t index) {
    (void)dtype, (void)contents, (void)index;
    return 0;
}

void kernel_case_on_cpu(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                        void *const *contents, uint32_t count) {
    (void)kernel, (void)params, (void)arrays, (void)contents, (void)count;
}

bool kernel_case_is_one(const rota_kernel *kernel, const void *params) {
    (void)params;
    return !rota_kernel_has_parts(kernel);
}

int kernel_case_judge(void **state) {
    (void)state;
    return 0;
}

static void collect_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < kernel_case_count; i++) kernel_cases[i].test_func(NULL);
    static const rota_kernel *const own[] = {&rota_vk_copy_kernel, &rota_vk_copy_bytes_kernel,
                                             &rota_vk_fill_kernel, &rota_vk_count_kernel,
                                             &rota_vk_decide_kernel};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) collect_kernel(own[i], NULL, NULL);
}

/* Every built-in kernel that Vulkan has is among them: a new one comes with its case. */
static void cases_have_all_kernels(void **state) {
    (void)state;
    static const rota_kernel *const all[] = {
#define KERNEL(name, ...) &rota_kernel_##name,
#include "ops/kernels.def"
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint32_t found = 0;
        while (found < row_count && rows[found].words != all[i]->vk.words) found++;
        if (found == row_count) fail_msg("no case of kernel '%s' came here", all[i]->name);
    }
}

/* ---- Fused nodes ---- */

static rota_status look_at_nodes(void *user, rota_rewriter *rewriter) {
    (void)user;
    const uint64_t count = rota_rewriter_node_count(rewriter);
    for (uint64_t i = 0; i < count; i++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, i, &view));
        if (!view.kernel || strncmp(view.kernel->name, "fused:", 6) != 0) continue;
        uint64_t bytes[ROTA_KERNEL_OPERANDS_MAX] = {0};
        collect(view.kernel, view.params, bytes);
    }
    return ROTA_OK;
}

/* Only analysed, without a device: then what is fused fits the shader, too. */
static void collect_fused(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        rota_graph *graph;
        rota_recorder *recorder;
        rota_tape *tape;
        rota_plan *plan;
        fuse_graph g;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_tape_create(recorder, NULL, &tape));
        assert_ok(fuse_graph_record(tape, seed, false, &g));
        rota_tape_destroy(tape);
        rota_recorder_close(recorder);
        assert_ok(rota_graph_fuse(graph));
        assert_ok(rota_graph_add_rewrite(graph, look_at_nodes, NULL));
        assert_ok(rota_compile(NULL, graph, NULL, &plan));
        rota_plan_release(plan);
        rota_graph_release(graph);
    }
}

/* ---- Compiling: in a process of its own, since drivers read their variables once, and may abort ---- */

static bool wants_table, wants_all, here;
static const char *radv, *anv, *shim, *results_file, *only;

static void more(uint64_t *most, uint64_t value) {
    if (value > *most) *most = value;
}

static bool is_explained(const char *row_name, const offline_device *device) {
    const uint32_t version = device->physical.properties.driverVersion;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].row, row_name) == 0 && strstr(device->name, known[i].device) &&
            (!known[i].before || version < known[i].before))
            return true;
    return false;
}

/* Some of each shader's, evenly from all that it has; the first two, plain and in slots, among them. */
static bool is_sampled(const offline_pipeline *pipeline) {
    const uint32_t step = (rows[pipeline->row].pipelines - 1) / SAMPLES + 1;
    return wants_all || pipeline->in_row < 2 || pipeline->in_row % (step | 1u) == 0;
}

static bool compile_one(const offline_device *device, const offline_pipeline *pipeline) {
    row *in = &rows[pipeline->row];
    offline_result result = {0};
    if (rota_offline_compile(device, pipeline, &result) != ROTA_OK) {
        fprintf(stderr, "%s refuses %s: %s\n", device->name, in->name, rota_last_error());
        return false;
    }
    more(&in->most.registers, result.registers);
    more(&in->most.scalar_registers, result.scalar_registers);
    more(&in->most.spilled, result.spilled);
    more(&in->most.scratch_bytes, result.scratch_bytes);
    more(&in->most.shared_bytes, result.shared_bytes);
    more(&in->most.code_bytes, result.code_bytes);
    in->most.compiled++;
    if ((!result.spilled && !result.scratch_bytes) || is_explained(in->name, device)) return true;
    fprintf(stderr, "%s: %s spills %llu registers and has %llu bytes of an invocation in memory; constants",
            device->name, in->name, (unsigned long long)result.spilled,
            (unsigned long long)result.scratch_bytes);
    for (uint32_t i = 0; i < 2 + pipeline->kernel->vk.spec_count; i++)
        fprintf(stderr, " %u", pipeline->spec[i]);
    fprintf(stderr, "\n");
    return false;
}

/* The rows and the device's name, for who started this. */
static void write_results(const char *device) {
    FILE *file = fopen(results_file, "wb");
    assert_non_null(file);
    char name[64] = "";
    (void)snprintf(name, sizeof name, "%s", device);
    assert_int_equal(fwrite(name, sizeof name, 1, file), 1);
    assert_int_equal(fwrite(&row_count, sizeof row_count, 1, file), 1);
    assert_int_equal(fwrite(rows, sizeof *rows, row_count, file), row_count);
    assert_int_equal(fclose(file), 0);
}

static void every_shader_compiles(void **state) {
    offline_device *device = *state;
    uint32_t wrong = 0, made = 0;
    /* Now already: a compiler that ends the process is no GPU that is not there. */
    write_results(device->name);
    for (uint32_t i = 0; i < pipeline_count; i++) {
        if (!rota_offline_runs(device, pipelines[i].kernel) || !is_sampled(&pipelines[i])) continue;
        made++;
        wrong += !compile_one(device, &pipelines[i]);
    }
    fprintf(stderr, "%s: %u of %u pipelines, %u wrong\n", device->name, made, pipeline_count, wrong);
    write_results(device->name);
    assert_int_equal(wrong, 0);
    assert_true(made > 0);
}

static int be_one(void) {
    static offline_device device;
    if (rota_offline_open(&device) != ROTA_OK) {
        fprintf(stderr, "%s\n", rota_last_error());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collect_cases),
        cmocka_unit_test(cases_have_all_kernels),
        cmocka_unit_test(collect_fused),
        cmocka_unit_test_prestate(every_shader_compiles, &device),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rota_offline_close(&device);
    return failed ? 1 : 0;
}

/* ---- One after the other ---- */

typedef struct column {
    char device[64];
    uint32_t row_count;
    row rows[ROWS_MAX];
} column;
static column columns[COLUMNS_MAX];
static uint32_t column_count;

/* Where the distributions have a driver's manifest. */
static const char *find_manifest(const char *a, const char *b) {
    return access(a, R_OK) == 0 ? a : access(b, R_OK) == 0 ? b : NULL;
}

static void be_gpu(const gpu *which) {
    if (here) return;
    const char *manifest = which->anv ? anv : radv;
    setenv("VK_DRIVER_FILES", manifest, 1);
    setenv("VK_ICD_FILENAMES", manifest, 1); /* its name for older loaders */
    setenv(which->anv ? "INTEL_STUB_GPU_PLATFORM" : "RADV_FORCE_FAMILY", which->name, 1);
    if (which->anv) setenv("LD_PRELOAD", shim, 1);
}

static bool read_results(const char *path, column *out) {
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    const bool is_whole = fread(out->device, sizeof out->device, 1, file) == 1 &&
                          fread(&out->row_count, sizeof out->row_count, 1, file) == 1 &&
                          out->row_count <= ROWS_MAX &&
                          fread(out->rows, sizeof *out->rows, out->row_count, file) == out->row_count;
    (void)fclose(file);
    return is_whole;
}

/* Whether all was well; true, too, where the driver knows no such GPU, which leaves no results. */
static bool run_for(const gpu *which) {
    char path[] = "/tmp/rota_offline_XXXXXX";
    const int made = mkstemp(path);
    if (made < 0) return false;
    close(made);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        be_gpu(which);
        execl("/proc/self/exe", "test_offline_compilers", "--one", path, wants_all ? "--all" : (char *)NULL,
              (char *)NULL);
        _exit(127);
    }
    int status = 0;
    const bool ended =
        child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const bool has_results = read_results(path, &columns[column_count]);
    unlink(path);
    column_count += has_results;
    if (!has_results) fprintf(stderr, "%s: the driver has no such GPU\n", here ? "here" : which->name);
    return ended || !has_results;
}

/* ---- The table ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

static void print_result(const offline_result *result) {
    if (!result->compiled) {
        printf(" | -");
        return;
    }
    printf(" | %llu", (unsigned long long)result->registers);
    if (result->spilled || result->scratch_bytes)
        printf(", %llu in memory", (unsigned long long)(result->spilled + result->scratch_bytes / 4));
}

static void print_table(void) {
    printf("| shader | pipelines |");
    for (uint32_t c = 0; c < column_count; c++) {
        qsort(columns[c].rows, columns[c].row_count, sizeof(row), by_name);
        printf(" %s |", columns[c].device);
    }
    printf(" shared memory, bytes |\n| --- | ---: |");
    for (uint32_t c = 0; c <= column_count; c++) printf(" ---: |");
    printf("\n");
    for (uint32_t i = 0; i < columns[0].row_count; i++) {
        uint64_t shared = 0;
        printf("| %s | %u", columns[0].rows[i].name, columns[0].rows[i].pipelines);
        for (uint32_t c = 0; c < column_count; c++) {
            print_result(&columns[c].rows[i].most);
            more(&shared, columns[c].rows[i].most.shared_bytes);
        }
        printf(" | %llu |\n", (unsigned long long)shared);
    }
}

static bool take_arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *is = argv[i];
        if (strcmp(is, "--table") == 0)
            wants_table = true;
        else if (strcmp(is, "--all") == 0)
            wants_all = true;
        else if (strcmp(is, "--here") == 0)
            here = true;
        else if (strcmp(is, "--radv") == 0 && i + 1 < argc)
            radv = argv[++i];
        else if (strcmp(is, "--gpu") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(is, "--one") == 0 && i + 1 < argc)
            results_file = argv[++i];
        else if (strcmp(is, "--anv") == 0 && i + 2 < argc) {
            anv = argv[++i];
            shim = argv[++i];
        } else {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    if (!take_arguments(argc, argv)) {
        fprintf(stderr,
                "usage: %s [--all] [--table] [--gpu NAME] [--here | --radv MANIFEST | --anv MANIFEST SHIM]\n",
                argv[0]);
        return 2;
    }
    if (results_file) return be_one();
    if (!radv)
        radv = find_manifest("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json",
                             "/usr/share/vulkan/icd.d/radeon_icd.json");
    bool all_well = true;
    for (size_t i = 0; i < (here ? 1 : GPUS); i++)
        if (here || ((gpus[i].anv ? anv : radv) && (!only || strcmp(only, gpus[i].name) == 0)))
            all_well = run_for(&gpus[i]) && all_well;
    if (!column_count) {
        fprintf(stderr, "skipped: no RADV that compiles without a GPU\n");
        return 77;
    }
    if (wants_table) print_table();
    return all_well ? 0 : 1;
}
