/* rota-bench ops: every op with every example of the op table, in its own shapes or in others, checked
 * against a reference in f64 and timed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/commands.h"
#include "bench/half.h"
#include "bench/ops_reference.h"
#include "bench/ops_shapes.h"
#include "bench/options.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "ops/ops.h"
#include "ops/table.h"

static const char program[] = "rota-bench ops";
/* Uses of the op in the graph that is timed, so that what a submission costs shows little. */
#define TIMED_USES 10

/* One example on a device. */
typedef struct trial {
    rota_op_example example;
    rota_buffer *inputs[ROTA_OP_INPUTS_MAX], *outputs[ROTA_OP_OUTPUTS_MAX];
    reference reference;
} trial;

typedef struct verdict {
    uint64_t fails, total;
    double max_abs;
} verdict;

static double element_number(const void *data, const rota_tensor *t, uint64_t i) {
    if (t->dtype == ROTA_I32) return ((const int32_t *)data)[i];
    if (t->dtype == ROTA_U32) return ((const uint32_t *)data)[i];
    return element_get(data, t->dtype, i);
}

static void set_number(void *data, const rota_tensor *t, uint64_t i, double value) {
    if (t->dtype == ROTA_I32)
        ((int32_t *)data)[i] = (int32_t)value;
    else if (t->dtype == ROTA_U32)
        ((uint32_t *)data)[i] = (uint32_t)value;
    else
        element_set(data, t->dtype, i, (float)value);
}

static uint64_t random_bits(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 31);
}

/* Contents of an input as its fill kind says. */
static double fill_value(rota_fill_kind kind, uint64_t i, uint64_t count, uint64_t classes, uint64_t *state) {
    double uniform = (double)(random_bits(state) >> 11) * 0x1p-53;
    switch (kind) {
    case ROTA_FILL_POSITIVE:
        return 0.5 + uniform;
    case ROTA_FILL_INDEX:
        return (double)(random_bits(state) % (classes ? classes : 1));
    case ROTA_FILL_ZERO:
        return 0;
    case ROTA_FILL_NEGATIVE:
        return -0.5 - uniform;
    case ROTA_FILL_DISTINCT: {
        /* 7919 is prime: a permutation unless the count is a multiple of it. */
        uint64_t position = i * 7919 % count;
        return 2 * ((double)position + 0.5) / (double)count - 1 +
               (position * 2 + 1 == count ? 0.25 / (double)count : 0);
    }
    default:
        return 2 * uniform - 1;
    }
}

static rota_status make_input(trial *t, uint32_t i, const opened_device *opened) {
    rota_tensor *x = &t->example.use.inputs[i];
    if (x->dtype == ROTA_DTYPE_COUNT || x->rank > ROTA_RANK_MAX) {
        *x = ROTA_TENSOR_NONE;
        return ROTA_OK;
    }
    uint64_t count = rota_tensor_count(x), bytes = rota_tensor_extent_bytes(x),
             state = (uint64_t)77 * (i + 1), size = bytes ? (bytes + 3) / 4 * 4 : 4;
    void *data = calloc(1, size);
    t->reference.in[i] = malloc((count + 1) * sizeof(double));
    rota_status status = ROTA_OK;
    if (!data || !t->reference.in[i]) status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for input %u", i);
    for (uint64_t e = 0; e < count && status == ROTA_OK; e++) {
        set_number(data, x, e, fill_value(t->example.fill[i], e, count, t->example.classes, &state));
        t->reference.in[i][e] = element_number(data, x, e);
    }
    if (status == ROTA_OK) status = rota_buffer_create_in(opened->runtime, "input", size, &t->inputs[i]);
    if (status == ROTA_OK) status = rota_buffer_write(t->inputs[i], opened->device, 0, data, size, NULL);
    x->buffer = t->inputs[i];
    free(data);
    return status;
}

/* Outputs, filled with NaN's bits so that what isn't written shows. */
static rota_status make_outputs(trial *t, const opened_device *opened) {
    rota_op_use *use = &t->example.use;
    rota_tensor shapes[ROTA_OP_OUTPUTS_MAX];
    memcpy(shapes, use->outputs, sizeof shapes);
    ROTA_TRY(use->op->shape(use, shapes));
    for (uint32_t i = 0; i < use->output_count; i++) {
        /* Some examples give the destination's shape themselves. */
        if (use->outputs[i].rank == 0) use->outputs[i] = shapes[i];
        uint64_t bytes = (rota_tensor_extent_bytes(&use->outputs[i]) + 3) / 4 * 4;
        if (bytes == 0) bytes = 4; /* no buffer is smaller */
        void *data = malloc(bytes);
        t->reference.out[i] = malloc((rota_tensor_count(&use->outputs[i]) + 1) * sizeof(double));
        if (!data || !t->reference.out[i]) {
            free(data);
            return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for output %u", i);
        }
        memset(data, 0xff, bytes);
        rota_status status = rota_buffer_create_in(opened->runtime, "output", bytes, &t->outputs[i]);
        if (status == ROTA_OK)
            status = rota_buffer_write(t->outputs[i], opened->device, 0, data, bytes, NULL);
        free(data);
        ROTA_TRY(status);
        use->outputs[i].buffer = t->outputs[i];
    }
    return ROTA_OK;
}

static void trial_free(trial *t) {
    for (int i = 0; i < ROTA_OP_INPUTS_MAX; i++) {
        rota_buffer_release(t->inputs[i]);
        free(t->reference.in[i]);
    }
    for (int i = 0; i < ROTA_OP_OUTPUTS_MAX; i++) {
        rota_buffer_release(t->outputs[i]);
        free(t->reference.out[i]);
    }
}

static rota_status make_plan(const trial *t, const opened_device *opened, uint32_t uses,
                             rota_plan **out_plan) {
    rota_graph *graph = NULL;
    rota_recorder *recorder = NULL;
    rota_tape *tape = NULL;
    rota_device *device = opened->device;
    rota_status status = rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = t->example.use.op->name), &graph);
    if (status == ROTA_OK) status = rota_recorder_open(graph, 0, NULL, &recorder);
    if (status == ROTA_OK)
        status = rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape);
    for (uint32_t u = 0; u < uses && status == ROTA_OK; u++) {
        rota_op_use use = t->example.use;
        status = rota_op_apply(tape, &use);
    }
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    if (status == ROTA_OK)
        status = rota_compile(opened->runtime, graph,
                              &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), out_plan);
    rota_graph_release(graph);
    return status;
}

static rota_status replay(rota_plan *plan) {
    rota_ticket ticket;
    ROTA_TRY(rota_submit_wait(plan, NULL, 0, &ticket));
    return rota_wait(ticket, 0);
}

/* Of what an op changes in place: a few roundings. */
static double in_place_bound(rota_dtype dtype) {
    return dtype == ROTA_F32 ? 32 * 0x1p-24 : dtype == ROTA_F16 ? 0x1p-11 : dtype == ROTA_BF16 ? 0x1p-8 : 0;
}

static rota_status compare(const rota_tensor *x, rota_buffer *buffer, const double *expected, double bound,
                           verdict *v) {
    uint64_t count = rota_tensor_count(x), bytes = (rota_tensor_extent_bytes(x) + 3) / 4 * 4;
    if (count == 0) return ROTA_OK;
    void *data = malloc(bytes);
    if (!data) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to compare %" PRIu64 " elements", count);
    rota_status status = rota_buffer_read(buffer, 0, data, bytes);
    for (uint64_t i = 0; i < count && status == ROTA_OK; i++) {
        double got = element_number(data, x, i), want = expected[i],
               difference = got == want ? 0 : fabs(got - want);
        v->total++;
        /* Written so that NaN fails. */
        if (!(difference <= bound)) v->fails++;
        if (!(difference <= v->max_abs)) v->max_abs = difference;
    }
    free(data);
    return status;
}

/* One run against the reference. */
static rota_status check(trial *t, const opened_device *opened, verdict *v) {
    rota_plan *plan = NULL;
    rota_op_use *use = &t->example.use;
    ROTA_TRY(make_plan(t, opened, 1, &plan));
    rota_status status = replay(plan);
    rota_plan_release(plan);
    t->reference.use = use;
    t->reference.by_matrix_units = rota_device_get_info(opened->device)->kind == ROTA_EXEC_CUDA;
    /* Of nothing there is no reference. */
    bool any = false;
    for (uint32_t i = 0; i < use->output_count; i++) any = any || !rota_tensor_is_empty(&use->outputs[i]);
    for (uint32_t i = 0; i < use->input_count; i++)
        any = any || (use->op->input_modes[i] != ROTA_READ && t->inputs[i] &&
                      !rota_tensor_is_empty(&use->inputs[i]));
    if (!any) return status;
    if (status == ROTA_OK && !reference_run(&t->reference))
        status = rota_fail(ROTA_INTERNAL, "op '%s' has no reference", use->op->name);
    for (uint32_t i = 0; i < use->output_count && status == ROTA_OK; i++)
        status = compare(&use->outputs[i], t->outputs[i], t->reference.out[i],
                         reference_bound(&t->reference, i), v);
    for (uint32_t i = 0; i < use->input_count && status == ROTA_OK; i++)
        if (use->op->input_modes[i] != ROTA_READ && t->inputs[i])
            status = compare(&use->inputs[i], t->inputs[i], t->reference.in[i],
                             in_place_bound(use->inputs[i].dtype), v);
    return status;
}

#define WARM_NS 100000000u

static rota_status time_uses(const trial *t, const opened_device *opened, uint64_t repeat,
                             sample_stats *out_us) {
    rota_plan *plan = NULL;
    double *us = calloc(repeat, sizeof *us);
    if (!us) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for samples");
    rota_status status = make_plan(t, opened, TIMED_USES, &plan);
    /* The check left the device idle; a GPU takes its clocks down then and needs a while to raise them. */
    bool is_gpu = rota_device_get_info(opened->device)->device_class == ROTA_DEVICE_GPU;
    uint64_t warm_from_ns = rota_clock_ns();
    do {
        if (status == ROTA_OK) status = replay(plan);
    } while (is_gpu && status == ROTA_OK && rota_clock_ns() - warm_from_ns < WARM_NS);
    for (uint64_t r = 0; r < repeat && status == ROTA_OK; r++) {
        uint64_t begin = rota_clock_ns();
        status = replay(plan);
        us[r] = (double)(rota_clock_ns() - begin) / 1e3 / TIMED_USES;
    }
    *out_us = samples_describe(us, repeat);
    rota_plan_release(plan);
    free(us);
    return status;
}

static rota_dtype example_dtype(const rota_op_use *use) {
    return use->input_count && use->inputs[0].dtype != ROTA_I32 ? use->inputs[0].dtype
                                                                : use->outputs[0].dtype;
}

/* Large examples of an op in a dtype, and what each may take: elements of all its operands together, of which
 * the host holds 12 bytes each, and steps of its plain reference. */
#define LARGE_EXAMPLES 2
#define LARGE_EXAMPLES_WALKED 5 /* in f32, of an op that walks an axis */
#define LARGE_ELEMENTS_MAX (UINT64_C(5) << 25)
#define LARGE_STEPS_MAX 4e9
#define SOFTWARE_ROWS_MAX (UINT64_C(1) << 18)

static uint32_t large_most(const rota_op_example *example) {
    const bool walked = shapes_walk(&example->use, NULL) && example_dtype(&example->use) == ROTA_F32;
    return walked ? LARGE_EXAMPLES_WALKED : LARGE_EXAMPLES;
}

static bool is_bounded(const rota_op_example *example, rota_device *device) {
    const rota_op_use *use = &example->use;
    const rota_device_info *info = rota_device_get_info(device);
    const bool software = info->device_class == ROTA_DEVICE_SOFTWARE_GPU;
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX];
    uint64_t elements = 0, walked = 1, rows = 0;
    memcpy(outputs, use->outputs, sizeof outputs);
    if (use->op->shape(use, outputs) != ROTA_OK) return true; /* says so when it is run */
    if (software && shapes_walk(use, &rows) && rows > SOFTWARE_ROWS_MAX) {
        printf("%-16s %-5s %-38s skipped: %" PRIu64
               " rows, a workgroup each, may take %s longer than its deadline\n",
               use->op->name, rota_dtype_name(example_dtype(use)), example->label, rows, info->id);
        return false;
    }
    for (uint32_t i = 0; i < use->op->input_count; i++) {
        if (use->inputs[i].dtype == ROTA_DTYPE_COUNT || use->inputs[i].rank > ROTA_RANK_MAX) continue;
        elements += rota_tensor_count(&use->inputs[i]);
    }
    for (uint32_t i = 0; i < use->op->output_count; i++) elements += rota_tensor_count(&outputs[i]);
    const bool attention = strncmp(use->op->name, "attention", 9) == 0;
    /* Products in so many small batches take lavapipe longer than its deadline. */
    const bool slow = software && (attention || strcmp(use->op->name, "weighted_matmul") == 0);
    if (attention) walked = use->inputs[1].shape[2];
    if (!slow && elements <= LARGE_ELEMENTS_MAX && (double)elements * (double)walked <= LARGE_STEPS_MAX)
        return true;
    printf("%-16s %-5s %-38s skipped: %" PRIu64 " elements, each walked %" PRIu64
           " times, are too much for the %s\n",
           use->op->name, rota_dtype_name(example_dtype(use)), example->label, elements, walked,
           software ? "device" : "host");
    return false;
}

/* The operand that is large. */
static const rota_tensor *shown(const rota_op *op, const rota_op_example *example) {
    return op->input_count ? &example->use.inputs[0] : &example->use.outputs[0];
}

static progress_bar bar;

/* One example; adds its row. UNSUPPORTED on this device is a row that says so, and so is an INVALID_ARGUMENT
 * where the shapes are not the example's own. */
static rota_status run_example(const rota_op *op, rota_op_example *example, bool timed, bool changed,
                               bool large, uint64_t repeat, const opened_device *opened, cJSON *rows,
                               uint64_t *out_fails) {
    trial t = {.example = *example};
    verdict v = {0};
    const uint64_t begin_ns = rota_clock_ns();
    sample_stats us = {0};
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < op->input_count && status == ROTA_OK; i++) status = make_input(&t, i, opened);
    if (status == ROTA_OK) status = make_outputs(&t, opened);
    if (status == ROTA_OK) status = check(&t, opened, &v);
    if (status == ROTA_OK && timed) status = time_uses(&t, opened, repeat, &us);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddItemToArray(rows, row);
    const char *dtype = rota_dtype_name(example_dtype(&t.example.use));
    cJSON_AddStringToObject(row, "op", op->name);
    cJSON_AddStringToObject(row, "example", example->label);
    cJSON_AddStringToObject(row, "dtype", dtype);
    const bool refused = changed && (status == ROTA_INVALID_ARGUMENT || status == ROTA_OUT_OF_RANGE);
    if (status == ROTA_UNSUPPORTED || refused) {
        cJSON_AddStringToObject(row, refused ? "refused" : "unsupported", rota_last_error());
        if (!refused || large)
            printf("%-16s %-5s %-38s %s: %s\n", op->name, dtype, example->label,
                   refused ? "skipped" : "not on this device", rota_last_error());
        trial_free(&t);
        return ROTA_OK;
    }
    cJSON_AddNumberToObject(row, "fails", (double)v.fails);
    cJSON_AddNumberToObject(row, "total", (double)v.total);
    cJSON_AddNumberToObject(row, "max_abs", v.max_abs);
    if (timed || v.fails || large) progress_clear(&bar);
    if (status == ROTA_OK && (timed || v.fails)) {
        printf("%-16s %-5s %-38s", op->name, dtype, example->label);
        if (timed) {
            double gb_s = example->bytes / us.median / 1e3, tflops = example->flops / us.median / 1e6;
            cJSON_AddNumberToObject(row, "us", us.median);
            cJSON_AddNumberToObject(row, "us_min", us.least);
            cJSON_AddNumberToObject(row, "us_max", us.most);
            cJSON_AddNumberToObject(row, "gb_s", gb_s);
            cJSON_AddNumberToObject(row, "tflops", tflops);
            printf(" %10.1f us %8.1f GB/s %8.4f TFLOP/s", us.median, gb_s, tflops);
        }
        printf("  %s\n", v.fails ? "WRONG" : "");
    } else if (status == ROTA_OK && large) {
        char text[ROTA_TENSOR_TEXT_MAX];
        printf("%-16s %-5s %-38s %s: %" PRIu64 " elements within their bounds, %.1f s\n", op->name, dtype,
               example->label, rota_tensor_describe(shown(op, example), text, sizeof text), v.total,
               (double)(rota_clock_ns() - begin_ns) / 1e9);
        fflush(stdout);
    }
    if (v.fails)
        fprintf(stderr, "%s: %s, %s: %" PRIu64 " of %" PRIu64 " elements wrong, largest difference %g\n",
                program, op->name, example->label, v.fails, v.total, v.max_abs);
    *out_fails += v.fails;
    trial_free(&t);
    return status;
}

/* "K/N", K from 1 to N; K is counted from 0 then. */
static bool parse_part(const char *text, uint32_t *out_part, uint32_t *out_parts) {
    char *slash = NULL, *end = NULL;
    const unsigned long part = strtoul(text, &slash, 10);
    if (*text < '0' || *text > '9' || *slash != '/' || slash[1] < '0' || slash[1] > '9') return false;
    const unsigned long parts = strtoul(slash + 1, &end, 10);
    if (*end || part < 1 || part > parts || parts > UINT32_MAX) return false;
    *out_part = (uint32_t)part - 1;
    *out_parts = (uint32_t)parts;
    return true;
}

/* What is asked of each op. */
typedef struct ops_settings {
    int shapes;
    uint64_t repeat, seed;
    bool check_only;
} ops_settings;

/* An op's examples, in the shapes that are asked for. */
static rota_status run_op(const ops_settings *s, const rota_op *op, opened_device *opened, cJSON *rows,
                          uint64_t *out_fails, uint64_t *out_examples) {
    /* One for each extent that becomes 0; by the first axis and by that which the op walks. */
    static const uint64_t turns[] = {1, 1, UINT64_MAX, 2};
    const bool is_large = s->shapes == SHAPES_LARGE;
    for (uint32_t size = 0; size < (s->check_only || s->shapes != SHAPES_AS_GIVEN ? 1u : 2u); size++) {
        rota_op_example example, changed;
        uint32_t large[ROTA_DTYPE_COUNT + 1] = {0};
        for (uint32_t e = 0; rota_op_get_example(op, e, size, &example); e++)
            for (uint64_t turn = 0; turn < turns[s->shapes]; turn++) {
                changed = example;
                if (!shapes_change(&changed, (shapes_kind)s->shapes,
                                   s->shapes == SHAPES_RANDOM ? 1000 * s->seed + e : turn)) {
                    if (is_large) continue;
                    break;
                }
                if (is_large && (large[example_dtype(&changed.use)]++ >= large_most(&example) ||
                                 !is_bounded(&changed, opened->device)))
                    continue;
                ++*out_examples;
                ROTA_TRY(run_example(op, &changed, size == 1, s->shapes != SHAPES_AS_GIVEN, is_large,
                                     s->repeat, opened, rows, out_fails));
            }
        if (is_large && !large[ROTA_F32] && !large[ROTA_I32]) {
            progress_clear(&bar);
            printf("%-16s skipped: none of its examples can be made so large by one axis\n", op->name);
        }
    }
    return ROTA_OK;
}

int bench_ops(int argc, char **argv) {
    const char *id = NULL, *out = NULL, *only = NULL, *part_text = "1/1";
    ops_settings s = {.shapes = SHAPES_AS_GIVEN, .repeat = 5, .seed = 1};
    uint32_t part, parts;
    const option options[] = {
        OPTION_ROW_DEVICE(id),
        {"--op", OPTION_STRING, &only, "NAME", 0, 0, false, "this op alone"},
        {"--repeat", OPTION_COUNT, &s.repeat, "N", 1, 10000, false, "how often each is timed"},
        {"--shapes", OPTION_CHOICE, &s.shapes, "given|random|empty|large", 0, 0, false,
         "the op table's examples, random ones, empty ones, or ones of over 2^24 elements"},
        {"--seed", OPTION_COUNT, &s.seed, "N", 0, 4294967295.0, false,
         "of the contents, and of random shapes"},
        {"--part", OPTION_STRING, &part_text, "K/N", 0, 0, false, "the K-th of N runs that share the ops"},
        {"--check-only", OPTION_FLAG, &s.check_only, NULL, 0, 0, false, "time nothing"},
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench ops --device cpu --check-only\n"
                                "rota-bench ops --op softmax --shapes random --seed 7",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (!parse_part(part_text, &part, &parts)) {
        options_bad(&table, "--part K/N: of N runs that share the ops, this is the K-th; not '%s'",
                    part_text);
        return EXIT_BAD_ARGUMENT;
    }
    if (only && !rota_op_find(only)) {
        fprintf(stderr, "%s: there is no op '%s'; there are", program, only);
        for (uint32_t i = 0; rota_op_at(i); i++) fprintf(stderr, " %s", rota_op_at(i)->name);
        fputc('\n', stderr);
        return EXIT_BAD_ARGUMENT;
    }
    opened_device opened;
    int code = report_open(program, id, NULL, &opened);
    if (code != EXIT_GOOD) return code;
    cJSON *result = report_new();
    cJSON_AddItemToObject(result, "device", report_device(rota_device_get_info(opened.device)));
    cJSON *rows = cJSON_AddArrayToObject(result, "rows");
    uint64_t fails = 0, examples = 0, ops = 0, done = 0;
    const rota_op *op;
    for (uint32_t o = 0; (op = rota_op_at(o)) != NULL; o++)
        ops += o % parts == part && (!only || strcmp(only, op->name) == 0);
    progress_begin(&bar, "checking", "ops", ops);
    for (uint32_t o = 0; (op = rota_op_at(o)) != NULL; o++) {
        if (o % parts != part || (only && strcmp(only, op->name) != 0)) continue;
        REPORT_TRY(run_op(&s, op, &opened, rows, &fails, &examples));
        progress_at(&bar, ++done);
    }
    progress_clear(&bar);
    printf("%" PRIu64 " examples, %" PRIu64 " wrong elements\n", examples, fails);
    if (fails) code = EXIT_CHECK_FAILED;
done:
    progress_end(&bar);
    report_close(&opened);
    return report_write(result, out, code);
}
