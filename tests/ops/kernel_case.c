/* Runs one built-in kernel on a GPU and its CPU kernel on the same random operands, and compares. */
#include "tests/kit/nap.h"
#include "bench/half.h"
#include "tests/ops/kernel_case.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/vk/vk_device.h"

#define ARRAYS_MAX 8u
#define GUARD 64u /* sentinel bytes on each side of an operand */
#define DEADLINE_NS 60000000000ull
#define KERNEL_CASES_MAX 64u

static rota_exec_device *device;
static _Atomic uint64_t reached;
static _Atomic uint32_t errors;
static uint64_t submitted;
static uint64_t seed = 1;

static void on_advanced(void *user, uint32_t queue, uint64_t value) {
    (void)user;
    (void)queue;
    ra_store_release(&reached, value); /* with run_on_device's load: the memory is read after it */
}
static void on_failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                      const char *message) {
    (void)user, (void)cookie, (void)owner, (void)node;
    ra_fetch_add_relaxed(&errors, 1);
    fprintf(stderr, "failed: %s: %s\n", rota_status_name(status), message);
}
static void on_lost(void *user, rota_status status, const char *message) {
    (void)user;
    ra_fetch_add_relaxed(&errors, 1);
    fprintf(stderr, "lost: %s: %s\n", rota_status_name(status), message);
}
static void on_log(void *user, rota_log_level level, const char *message) {
    (void)user;
    if (level < ROTA_LOG_ERROR) return;
    ra_fetch_add_relaxed(&errors, 1);
    fprintf(stderr, "log: %s\n", message);
}
static const char *node_name(const void *owner, uint32_t node) {
    (void)node;
    return owner;
}

/* Whether the driver has a device to run on; a line on stderr where it has not. */
static bool is_there(const rota_exec_driver *driver) {
    rota_device_info infos[8];
    uint32_t count = 0;
    const rota_status listed = driver->enumerate(driver, infos, 8, &count);
    if (listed != ROTA_OK || count == 0)
        fprintf(stderr, "skipped: no device: %s\n", rota_last_error());
    else if (!infos[0].usable)
        fprintf(stderr, "skipped: %s (%s) can't be used: %s\n", infos[0].id, infos[0].name, infos[0].missing);
    else
        return true;
    return false;
}

static const rota_exec_driver *main_driver;

static int open_device(void **state) {
    (void)state;
    static _Atomic uint32_t no_poison;
    rota_exec_open_options options = {
        .host = {.log = {.fn = on_log, .level = ROTA_LOG_ERROR},
                 .advanced = on_advanced,
                 .failed = on_failed,
                 .lost = on_lost,
                 .poison_active = &no_poison,
                 .node_name = node_name},
        .queue_count = 1,
        .transfer_queue = 1,
        .cache_dir = "",
        .validation = main_driver == &rota_exec_vk_driver,
    };
    assert_ok(main_driver->open(main_driver, 0, &options, &device));
    fprintf(stderr, "%s: %s, %s\n", device->info.id, device->info.name, device->info.driver);
    return 0;
}

static int close_device(void **state) {
    (void)state;
    uint64_t abandoned = 0;
    char text[1024];
    if (device->info.kind == ROTA_EXEC_VK && rota_vk_validation_messages(device, text, sizeof text))
        fail_msg("validation layer: %s", text);
    device->vtable->close(device, rota_deadline_after(DEADLINE_NS), &abandoned);
    device = NULL;
    assert_int_equal(abandoned, 0);
    assert_int_equal(ra_load_relaxed(&errors), 0);
    return 0;
}

static float half_to_float(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float value;
    if (exponent == 31)
        value = mantissa ? NAN : INFINITY;
    else
        value = exponent ? ldexpf((float)(mantissa + 1024), exponent - 25) : ldexpf((float)mantissa, -24);
    return bits >> 15 ? -value : value;
}

static uint64_t element_bytes(rota_dtype dtype) {
    return rota_dtype_bytes(dtype);
}

static double element(rota_dtype dtype, const void *data, uint64_t i) {
    switch (dtype) {
    case ROTA_F8_E4M3FN:
    case ROTA_F8_E5M2:
        return (double)element_get(data, dtype, i);
    case ROTA_F32:
        return (double)((const float *)data)[i];
    case ROTA_F16:
        return (double)half_to_float(((const uint16_t *)data)[i]);
    case ROTA_BF16: {
        const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
        float value;
        memcpy(&value, &bits, 4);
        return (double)value;
    }
    case ROTA_I32:
        return (double)((const int32_t *)data)[i];
    default:
        return (double)((const uint32_t *)data)[i];
    }
}

/* Random contents; a WRITE operand gets a NaN pattern, so that what is not written shows. */
static void fill(const kernel_array *a, void *data) {
    if (a->mode == ROTA_WRITE) {
        memset(data, 0xFF, a->count * element_bytes(a->dtype));
        return;
    }
    for (uint64_t i = 0; i < a->count; i++) {
        const double unit = (double)(test_random(&seed) >> 11) * 0x1p-53;
        const double value = a->low + (a->high - a->low) * unit;
        const float real = (float)value;
        uint32_t bits;
        memcpy(&bits, &real, 4);
        switch (a->dtype) {
        case ROTA_F32:
            ((float *)data)[i] = real;
            break;
        case ROTA_F8_E4M3FN:
        case ROTA_F8_E5M2: /* as they come, NaNs too, where `high` is no number */
            if (isnan(a->high))
                ((uint8_t *)data)[i] = (uint8_t)test_random(&seed);
            else
                element_set(data, a->dtype, i, real);
            break;
        case ROTA_BF16:
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
            break;
        case ROTA_F16: /* a random mantissa at an exponent below that of 2, of either sign where `low` is below 0 */
            ((uint16_t *)data)[i] =
                (uint16_t)((unit < 0.5 && a->low < 0 ? 0x8000 : 0) | (0x2C00 + (bits >> 7 & 0x13FF)));
            break;
        default:
            ((int32_t *)data)[i] = (int32_t)floor(value);
            break;
        }
    }
}

/* Where each operand starts in one block of memory: at multiples of 4 bytes, but of 16 only now and then. */
typedef struct layout {
    uint64_t offset[ARRAYS_MAX], bytes[ARRAYS_MAX], total;
} layout;

static layout lay_out(const kernel_array *arrays, uint32_t count) {
    layout l = {.total = GUARD};
    for (uint32_t i = 0; i < count; i++) {
        l.bytes[i] = arrays[i].count * element_bytes(arrays[i].dtype);
        if (arrays[i].same_as) {
            l.offset[i] = l.offset[arrays[i].same_as - 1];
            continue;
        }
        l.offset[i] = (l.total + 15) / 16 * 16 + test_random(&seed) % 2 * (test_random(&seed) % 4) * 4;
        l.total = l.offset[i] + (l.bytes[i] + 3) / 4 * 4 + GUARD;
    }
    return l;
}

/* What is several kernels there: one after the other. */
static void run_on_cpu(const rota_kernel *kernel, const void *params, uint32_t count, const layout *l,
                       uint8_t *block) {
    void *operands[ARRAYS_MAX];
    for (uint32_t i = 0; i < count; i++) operands[i] = block + l->offset[i];
    if (!kernel->cpu.fn) {
        rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
        const uint32_t part_count = kernel->parts(ROTA_EXEC_CPU, params, l->bytes, 0, NULL, parts);
        assert_true(part_count > 0);
        for (uint32_t i = 0; i < part_count; i++) {
            layout own = {.total = l->total};
            for (uint32_t o = 0; o < parts[i].operand_count; o++) {
                own.offset[o] = l->offset[parts[i].operand[o]];
                own.bytes[o] = l->bytes[parts[i].operand[o]];
            }
            run_on_cpu(parts[i].kernel, parts[i].params, parts[i].operand_count, &own, block);
        }
        return;
    }
    rota_kernel_call call = {
        .operands = operands, .params = params, .operand_count = count, .operand_bytes = l->bytes};
    uint64_t items = 1, grain = 1;
    if (kernel->cpu.items) kernel->cpu.items(params, l->bytes, &items, &grain);
    call.end = call.items = items;
    assert_ok(kernel->cpu.fn(&call));
}

static void run_on_device(const rota_kernel *kernel, const void *params, uint32_t count, const layout *l,
                          const kernel_array *arrays, bool slots, uint8_t *block) {
    rota_exec_memory *memory = NULL;
    assert_ok(
        device->vtable->memory_create(device, l->total, ROTA_EXEC_MEMORY_HOST_READ, "operands", &memory));
    memcpy(memory->host, block, l->total);

    uint64_t words[ARRAYS_MAX + ROTA_KERNEL_BINDABLE_MAX];
    uint32_t word_count = 0;
    uint8_t plain[ROTA_KERNEL_PARAM_BYTES_MAX];
    memcpy(plain, params, kernel->param_bytes);
    rota_exec_operand operands[ARRAYS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        operands[i] = rota_exec_operand_at(0, l->offset[i], l->bytes[i], (rota_access_mode)arrays[i].mode);
        if (!slots) continue;
        operands[i].is_slot = 1;
        rota_exec_operand_set_memory(&operands[i], word_count);
        operands[i].offset_bytes = 0;
        words[word_count++] = memory->address + l->offset[i];
    }
    rota_exec_binding bindings[ROTA_KERNEL_BINDABLE_MAX];
    uint32_t binding_count = 0;
    for (uint32_t i = 0; slots && i < kernel->bindable_count; i++) {
        const rota_kernel_bindable *b = &kernel->bindables[i];
        words[word_count] = 0;
        memcpy(&words[word_count], plain + b->offset_bytes, b->size_bytes);
        memset(plain + b->offset_bytes, 0xAB, b->size_bytes); /* must not be used */
        bindings[binding_count++] = (rota_exec_binding){.bindable = i, .word = word_count++};
    }
    rota_exec_command command = {.kind = ROTA_EXEC_COMMAND_KERNEL,
                                 .operand_count = (uint8_t)count,
                                 .binding_count = (uint8_t)binding_count,
                                 .u.kernel = {.kernel = kernel, .params = plain, .groups = {1, 1, 1}}};
    const rota_exec_batch batch = {0, 1};
    const rota_exec_segment segment = {.batch_count = 1, .command_count = 1};
    const uint32_t first_successor[2] = {0, 0}, none[1] = {0};
    const uint8_t memory_kind = ROTA_EXEC_BASE_ARENA;
    const rota_exec_program_desc desc = {.name = kernel->name,
                                         .queue_count = 1,
                                         .command_count = 1,
                                         .operand_count = count,
                                         .binding_count = binding_count,
                                         .batch_count = 1,
                                         .segment_count = 1,
                                         .memory_count = 1,
                                         .commands = &command,
                                         .operands = operands,
                                         .bindings = bindings,
                                         .batches = &batch,
                                         .segments = &segment,
                                         .first_successor = first_successor,
                                         .successor = none,
                                         .predecessor_count = none,
                                         .block_words = word_count,
                                         .memory_kind = &memory_kind,
                                         .owner = kernel->name};
    rota_exec_program *program = NULL;
    rota_exec_instance *instance = NULL;
    assert_ok(device->vtable->program_create(device, &desc, &program));
    assert_ok(device->vtable->instance_create(device, program, &memory, &instance));
    const rota_exec_work work = {
        .instance = instance, .signal_value = ++submitted, .block = word_count ? words : NULL};
    assert_ok(device->vtable->submit(device, &work, 1));
    const uint64_t deadline = rota_deadline_after(DEADLINE_NS);
    while (ra_load_acquire(&reached) < submitted) { /* with on_advanced's store */
        if (rota_clock_ns() > deadline) fail_msg("%s did not end in time", kernel->name);
        if (ra_load_relaxed(&errors)) fail_msg("%s failed", kernel->name);
        test_nap_us(20);
    }
    memcpy(block, memory->host, l->total);
    device->vtable->instance_destroy(device, instance);
    device->vtable->program_destroy(device, program);
    device->vtable->memory_destroy(device, memory);
}

/* A wrong result fails the test at its end, so that one run tells of all kernels and shapes. */
static uint32_t wrong_results;

int kernel_case_judge(void **state) {
    (void)state;
    const uint32_t wrong = wrong_results;
    wrong_results = 0;
    return wrong ? -1 : 0;
}

ROTA_PRINTF(1, 2) static void report_wrong(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (wrong_results++ < 20) {
        fputs("wrong: ", stderr);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
    }
    va_end(arguments);
}

/* Outside of written operands nothing may have changed; inside, each element is near the CPU's. */
static void compare(const rota_kernel *kernel, const kernel_array *arrays, uint32_t count, const layout *l,
                    const uint8_t *before, const uint8_t *expected, const uint8_t *got, double tolerance) {
    uint8_t *written = calloc(l->total, 1);
    assert_non_null(written);
    for (uint32_t i = 0; i < count; i++)
        if (arrays[i].mode != ROTA_READ) memset(written + l->offset[i], 1, l->bytes[i]);
    uint64_t other = 0;
    while (other < l->total && (written[other] || got[other] == before[other])) other++;
    if (other < l->total)
        report_wrong("%s changed byte %llu, which it does not write", kernel->name,
                     (unsigned long long)other);
    free(written);
    for (uint32_t i = 0; i < count; i++) {
        if (arrays[i].mode == ROTA_READ) continue;
        for (uint64_t e = 0; e < arrays[i].count; e++) {
            const double want = element(arrays[i].dtype, expected + l->offset[i], e);
            const double have = element(arrays[i].dtype, got + l->offset[i], e);
            if (want == have || (isnan(want) && isnan(have))) continue;
            if (fabs(want - have) <= tolerance * (1 + fabs(want))) continue;
            report_wrong("%s: operand %u, element %llu of %llu is %.9g, expected %.9g (tolerance %g)",
                         kernel->name, i, (unsigned long long)e, (unsigned long long)arrays[i].count, have,
                         want, tolerance);
            return;
        }
    }
}

/* Whether a kernel was not checked before. */
static bool first_time(const rota_kernel *kernel) {
    static const rota_kernel *seen[64];
    uint32_t i = 0;
    while (i < 64 && seen[i] && seen[i] != kernel) i++;
    if (i == 64 || seen[i]) return false;
    seen[i] = kernel;
    return true;
}

/* A shader with operands in slots is a pipeline of its own, in which a GPU's Vulkan driver may contract and
 * order f32 arithmetic otherwise (seen: 16-bit attention's gradient, H200, driver 580). A CUDA image is one
 * for both. */
static bool compiles_apart(void) {
    return device->info.kind == ROTA_EXEC_VK && device->info.device_class == ROTA_DEVICE_GPU;
}

bool kernel_case_is_one(const rota_kernel *kernel, const void *params) {
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    return kernel->parts(device->info.kind, params, NULL, 0, device->cuda, parts) == 0;
}

void kernel_case_on_cpu(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                        void *const *contents, uint32_t count) {
    const layout l = lay_out(arrays, count);
    uint8_t *block = calloc(1, l.total);
    assert_non_null(block);
    for (uint32_t i = 0; i < count; i++) memcpy(block + l.offset[i], contents[i], l.bytes[i]);
    run_on_cpu(kernel, params, count, &l, block);
    for (uint32_t i = 0; i < count; i++)
        if (arrays[i].mode != ROTA_READ) memcpy(contents[i], block + l.offset[i], l.bytes[i]);
    free(block);
}

void kernel_case_fill(const kernel_array *array, void *contents) {
    fill(array, contents);
}

double kernel_case_element(rota_dtype dtype, const void *contents, uint64_t index) {
    return element(dtype, contents, index);
}

void kernel_check(const rota_kernel *kernel, const void *params, const kernel_array *arrays, uint32_t count,
                  double tolerance) {
    const void *const none[ARRAYS_MAX] = {0};
    kernel_check_given(kernel, params, arrays, none, count, tolerance);
}

void kernel_check_given(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                        const void *const *given, uint32_t count, double tolerance) {
    assert_int_equal(count, kernel->operand_count);
    assert_true(count <= ARRAYS_MAX);
    const layout l = lay_out(arrays, count);
    uint8_t *before = malloc(l.total), *expected = malloc(l.total), *got = malloc(l.total),
            *again = malloc(l.total);
    assert_true(before && expected && got && again);
    memset(before, 0x5A, l.total);
    for (uint32_t i = 0; i < count; i++)
        if (given[i])
            memcpy(before + l.offset[i], given[i], l.bytes[i]);
        else if (!arrays[i].same_as)
            fill(&arrays[i], before + l.offset[i]);
    memcpy(expected, before, l.total);
    memcpy(got, before, l.total);
    memcpy(again, before, l.total);
    run_on_cpu(kernel, params, count, &l, expected);
    run_on_device(kernel, params, count, &l, arrays, false, got);
    compare(kernel, arrays, count, &l, before, expected, got, tolerance);
    if (first_time(kernel)) {
        run_on_device(kernel, params, count, &l, arrays, true, again);
        compare(kernel, arrays, count, &l, before, expected, again, tolerance);
        if (!compiles_apart() && memcmp(got, again, l.total) != 0)
            report_wrong("%s gives other bits with its operands in slots", kernel->name);
    }
    free(before);
    free(expected);
    free(got);
    free(again);
}

/* The kernels that may stand in for this one on Vulkan: those for some of the device's features, and those
 * that ask for none that it lacks. */
static uint32_t vk_variants(const rota_kernel *kernel, const void *params, rota_kernel *out,
                            uint32_t capacity) {
    const uint32_t matrices = ROTA_FEATURE_COOPERATIVE_MATRIX | ROTA_FEATURE_COOPERATIVE_MATRIX_BF16;
    const uint32_t features = device->info.features;
    const uint32_t others[] = {features, features & ~(uint32_t)ROTA_FEATURE_COOPERATIVE_MATRIX_2,
                               features & ~(ROTA_FEATURE_COOPERATIVE_MATRIX_2 | matrices),
                               features | matrices};
    uint32_t count = 0;
    for (uint32_t i = 0; i < 4 && count < capacity; i++) {
        const rota_kernel *chosen = kernel->vk.select(params, NULL, others[i]);
        if (chosen && (chosen->vk.required_features & ~features)) continue;
        out[count] = *kernel;
        if (chosen) out[count].vk = chosen->vk;
        out[count++].vk.select = NULL;
    }
    return count;
}

/* ... on CUDA: those for a device with one multiprocessor, with the real number, and with very many. */
static uint32_t cuda_variants(const rota_kernel *kernel, const void *params, const uint64_t *operand_bytes,
                              rota_kernel *out, uint32_t capacity) {
    const uint32_t sizes[] = {1, device->cuda->multiprocessors, 100000};
    uint32_t count = 0;
    for (uint32_t i = 0; i < 3 && count < capacity; i++) {
        rota_cuda_target target = *device->cuda;
        target.multiprocessors = sizes[i];
        const rota_kernel *chosen = kernel->cuda.select(params, operand_bytes, 0, &target);
        out[count] = *kernel;
        if (chosen) out[count].cuda = chosen->cuda;
        out[count++].cuda.select = NULL;
    }
    return count;
}

/* Programs may be told apart by the address of a kernel: these live as long as the device. */
void kernel_check_variants(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                           uint32_t count, double tolerance) {
    static rota_kernel kept[256];
    static uint32_t kept_count;
    rota_kernel variants[4];
    uint64_t bytes[ARRAYS_MAX];
    for (uint32_t i = 0; i < count; i++) bytes[i] = arrays[i].count * element_bytes(arrays[i].dtype);
    const uint32_t found = device->info.kind == ROTA_EXEC_VK
                               ? vk_variants(kernel, params, variants, 4)
                               : cuda_variants(kernel, params, bytes, variants, 4);
    kernel_check(kernel, params, arrays, count, tolerance);
    for (uint32_t i = 0; i < found; i++) {
        bool old = false;
        for (uint32_t j = 0; j < i; j++)
            old = old || memcmp(&variants[j], &variants[i], sizeof *variants) == 0;
        if (old) continue;
        uint32_t known = 0;
        while (known < kept_count && memcmp(&kept[known], &variants[i], sizeof *variants) != 0) known++;
        assert_true(known < sizeof kept / sizeof *kept);
        if (known == kept_count) kept[kept_count++] = variants[i];
        kernel_check(&kept[known], params, arrays, count, tolerance);
    }
}

bool kernel_case_is_short;

static bool is_named(const char *name, int count, char **patterns) {
    for (int i = 0; i < count; i++)
        if (fnmatch(patterns[i], name, 0) == 0) return true;
    return false;
}

int kernel_case_main(const rota_exec_driver *driver, int argc, char **argv) {
    argc--, argv++;
    kernel_case_is_short = argc > 0 && strcmp(argv[0], "--short") == 0;
    if (kernel_case_is_short) argc--, argv++;
    if (argc > 0 && strcmp(argv[0], "--list") == 0) {
        for (size_t i = 0; i < kernel_case_count; i++) puts(kernel_cases[i].name);
        return 0;
    }
    const bool without = argc > 0 && strcmp(argv[0], "--without") == 0;
    if (without) argc--, argv++;
    struct CMUnitTest chosen[KERNEL_CASES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < kernel_case_count; i++) {
        if (argc > 0 && is_named(kernel_cases[i].name, argc, argv) == without) continue;
        assert_true(count < KERNEL_CASES_MAX);
        chosen[count++] = kernel_cases[i];
    }
    for (int i = 0; i < argc; i++) {
        size_t found = 0;
        while (found < kernel_case_count && fnmatch(argv[i], kernel_cases[found].name, 0) != 0) found++;
        if (found < kernel_case_count) continue;
        fprintf(stderr, "no case is called %s (--list says which there are)\n", argv[i]);
        return 2;
    }
    main_driver = driver;
    if (!is_there(driver)) return 77;
    return _cmocka_run_group_tests("kernels", chosen, count, open_device, close_device);
}
