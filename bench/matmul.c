/* rota-bench matmul: a graph of products, recorded once and replayed, checked against a reference in f64. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/commands.h"
#include "bench/half.h"
#include "bench/matmul_reference.h"
#include "bench/matmul_shapes.h"
#include "bench/options.h"
#include "bench/pictures.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "bench/torch.h"
#include "ops/ops.h"

static const char program[] = "rota-bench matmul";
#define SETS_MAX 16
/* Operands rotate through at least this much memory where there are products enough: more than any cache
 * holds. */
#define ROTATION_BYTES (UINT64_C(256) << 20)
/* Rows of each timed product that are compared with the reference. */
#define SAMPLED_ROWS 4
/* torch.cuda.synchronize looks for the end without sleeping. Compared with it, rota's threads may do the same
 * over a replay; without, they are measured as they are. */
#define COMPARED_SPIN_NS UINT64_C(10000000)

typedef struct settings {
    matmul_shape shapes[MATMUL_SHAPES_MAX], check_shape;
    uint32_t shape_count;
    rota_dtype dtype;
    uint64_t iters, warmup, repeat;
    double atol, rtol;
    bool compare;
    plan_pictures pictures;
    const char *trace, *capture;
    bool debug_names, why;
} settings;

typedef struct check {
    double max_abs, max_rel;
    uint64_t fails, total;
} check;

/* Products of one shape: `sets` of operands, a graph of `products` that rotates through them. */
typedef struct products {
    matmul_shape shape;
    uint64_t sets, count;
    rota_buffer *a[SETS_MAX], *b[SETS_MAX], *c[SETS_MAX], *scale; /* of 8-bit floats: 1 */
    rota_graph *graph;
    rota_plan *plan;
    double record_ms;
    rota_node first; /* of the graph's nodes */
} products;

static void products_free(products *p) {
    rota_plan_release(p->plan);
    rota_graph_release(p->graph);
    for (uint64_t s = 0; s < p->sets; s++) {
        rota_buffer_release(p->a[s]);
        rota_buffer_release(p->b[s]);
        rota_buffer_release(p->c[s]);
    }
    rota_buffer_release(p->scale);
    *p = (products){0};
}

/* That of the results: the operands', but of 8-bit floats bf16. */
static rota_dtype result_dtype(rota_dtype dtype) {
    return rota_dtype_is_f8(dtype) ? ROTA_BF16 : dtype;
}

static rota_status tensor_of(const products *p, rota_buffer *buffer, rota_dtype dtype, matmul_extent e,
                             rota_tensor *out) {
    ROTA_TRY(rota_tensor_of(buffer, 0, dtype, ROTA_SHAPE(p->shape.batch, e.rows, e.stride), out));
    ROTA_TRY(rota_tensor_slice(out, 2, 0, e.columns, out));
    if (p->shape.batch > 1) return ROTA_OK;
    rota_tensor whole = *out;
    return rota_tensor_reshape(&whole, ROTA_SHAPE(e.rows, e.columns), out);
}

static rota_status record_one(const products *p, rota_tape *tape, rota_tensor a, rota_tensor b,
                              rota_tensor c) {
    rota_tensor scale;
    if (!p->scale) return rota_op_matmul_into(tape, a, b, p->shape.transpose_a, p->shape.transpose_b, c);
    ROTA_TRY(rota_tensor_of(p->scale, 0, ROTA_F32, ROTA_SHAPE(1), &scale));
    return rota_op_scaled_matmul_into(tape, a, b, scale, scale, ROTA_TENSOR_NONE, c);
}

static rota_status record(products *p, rota_dtype dtype) {
    rota_recorder *recorder;
    rota_tape *tape = NULL;
    ROTA_TRY(rota_recorder_open(p->graph, 0, "products", &recorder));
    rota_status status = rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape);
    for (uint64_t i = 0; i < p->count && status == ROTA_OK; i++) {
        uint64_t s = i % p->sets;
        rota_tensor a, b, c;
        status = tensor_of(p, p->a[s], dtype, matmul_extent_a(&p->shape), &a);
        if (status == ROTA_OK) status = tensor_of(p, p->b[s], dtype, matmul_extent_b(&p->shape), &b);
        if (status == ROTA_OK)
            status = tensor_of(p, p->c[s], result_dtype(dtype), matmul_extent_c(&p->shape), &c);
        if (status == ROTA_OK) status = record_one(p, tape, a, b, c);
        if (status == ROTA_OK && i == 0) status = rota_recorder_last_node(recorder, &p->first);
    }
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    return status;
}

/* Makes and fills the operands; each result starts as NaN. */
static rota_status make_operands(products *p, const opened_device *opened, rota_dtype dtype, FILE *copy) {
    const uint64_t most = rota_dtype_bytes(result_dtype(dtype));
    const uint64_t of_a = matmul_extent_count(&p->shape, matmul_extent_a(&p->shape));
    const uint64_t of_b = matmul_extent_count(&p->shape, matmul_extent_b(&p->shape));
    const uint64_t of_c = matmul_extent_count(&p->shape, matmul_extent_c(&p->shape));
    uint64_t largest = of_a > of_b ? of_a : of_b;
    if (of_c > largest) largest = of_c;
    void *data = malloc(largest * most);
    if (!data)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for an operand of %" PRIu64 " bytes", largest * most);
    rota_status status = ROTA_OK;
    if (rota_dtype_is_f8(dtype)) status = rota_buffer_create_in(opened->runtime, "scale", 4, &p->scale);
    if (p->scale && status == ROTA_OK)
        status = rota_buffer_write(p->scale, opened->device, 0, &(float){1}, 4, NULL);
    for (uint64_t s = 0; s < p->sets && status == ROTA_OK; s++) {
        const struct {
            const char *name;
            uint64_t count;
            rota_buffer **buffer;
        } operands[] = {{"a", of_a, &p->a[s]}, {"b", of_b, &p->b[s]}, {"c", of_c, &p->c[s]}};
        for (int o = 0; o < 3 && status == ROTA_OK; o++) {
            const rota_dtype own = o < 2 ? dtype : result_dtype(dtype);
            const uint64_t bytes = rota_dtype_bytes(own);
            if (o < 2)
                matmul_fill(data, own, operands[o].count, o ? matmul_seed_b(s) : matmul_seed_a(s));
            else
                for (uint64_t i = 0; i < operands[o].count; i++) element_set(data, own, i, NAN);
            if (copy && o < 2 && fwrite(data, bytes, operands[o].count, copy) != operands[o].count)
                status = rota_fail(ROTA_SYSTEM, "the operands for the comparison can't be written");
            if (status == ROTA_OK)
                status = rota_buffer_create_in(opened->runtime, operands[o].name,
                                               (operands[o].count * bytes + 3) / 4 * 4, operands[o].buffer);
            if (status == ROTA_OK)
                status = rota_buffer_write(*operands[o].buffer, opened->device, 0, data,
                                           operands[o].count * bytes, NULL);
        }
    }
    free(data);
    return status;
}

/* The operands live on the device, and one of them at a time on the host, while it is filled; the reference
 * needs a and b. Said before they are allocated, as a host that runs out of memory ends the process. */
static rota_status check_memory(const rota_device_info *info, const matmul_shape *of, uint64_t device_bytes,
                                uint64_t element_bytes) {
    const uint64_t a = matmul_extent_count(of, matmul_extent_a(of)),
                   b = matmul_extent_count(of, matmul_extent_b(of)),
                   c = matmul_extent_count(of, matmul_extent_c(of));
    uint64_t host_bytes = (c > a + b ? c : a + b) * element_bytes;
    uint64_t host_has = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (info->device_class != ROTA_DEVICE_GPU) host_bytes += device_bytes;
    bool on_host = info->device_class != ROTA_DEVICE_GPU || host_bytes > host_has;
    uint64_t needs = on_host ? host_bytes : device_bytes, has = on_host ? host_has : info->memory_bytes;
    if (!has || needs <= has) return ROTA_OK;
    char text[MATMUL_TEXT_MAX];
    return rota_fail(ROTA_OUT_OF_MEMORY, "%s needs about %" PRIu64 " bytes, and %s has %" PRIu64,
                     matmul_shape_text(of, text), needs, on_host ? "the host" : info->id, has);
}

static rota_status products_create(products *p, const opened_device *opened, rota_dtype dtype,
                                   const matmul_shape *of, uint64_t count, FILE *copy) {
    const uint64_t most = rota_dtype_bytes(result_dtype(dtype));
    const uint64_t set_bytes = rota_dtype_bytes(dtype) * (matmul_extent_count(of, matmul_extent_a(of)) +
                                                          matmul_extent_count(of, matmul_extent_b(of))) +
                               most * matmul_extent_count(of, matmul_extent_c(of));
    uint64_t sets = ROTATION_BYTES / set_bytes + 1;
    if (sets > SETS_MAX) sets = SETS_MAX;
    if (sets > count) sets = count;
    *p = (products){.shape = *of, .sets = sets, .count = count};
    ROTA_TRY(check_memory(rota_device_get_info(opened->device), of, sets * set_bytes, most));
    ROTA_TRY(make_operands(p, opened, dtype, copy));
    uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "matmul"), &p->graph));
    ROTA_TRY(record(p, dtype));
    rota_device *device = opened->device;
    ROTA_TRY(rota_compile(opened->runtime, p->graph,
                          &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &p->plan));
    p->record_ms = (double)(rota_clock_ns() - begin) / 1e6;
    return ROTA_OK;
}

static rota_status replay(const products *p, double *out_ms, double *out_submit_us) {
    rota_ticket ticket;
    uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_submit_wait(p->plan, NULL, 0, &ticket));
    uint64_t submitted = rota_clock_ns();
    ROTA_TRY(rota_wait(ticket, 0));
    *out_ms = (double)(rota_clock_ns() - begin) / 1e6;
    *out_submit_us = (double)(submitted - begin) / 1e3;
    return ROTA_OK;
}

static void compare_row(const double *sums, const void *row, rota_dtype dtype, uint64_t count, double atol,
                        double rtol, check *result) {
    for (uint64_t j = 0; j < count; j++) {
        const double difference = fabs(element_get(row, dtype, j) - sums[j]);
        const double relative = difference / fmax(fabs(sums[j]), 1e-6);
        /* Written so that NaN fails. */
        if (!(difference <= atol + rtol * fabs(sums[j]))) result->fails++;
        if (!(difference <= result->max_abs)) result->max_abs = difference;
        if (!(relative <= result->max_rel)) result->max_rel = relative;
        result->total++;
    }
}

/* Compares `rows` rows of set s, spread over the results, with the reference. */
static rota_status check_set(const products *p, rota_dtype dtype, uint64_t s, uint64_t rows, double atol,
                             double rtol, check *result) {
    const matmul_shape *of = &p->shape;
    const rota_dtype of_c = result_dtype(dtype);
    const uint64_t bytes = rota_dtype_bytes(of_c), all = of->batch * of->m, n = of->n;
    const uint64_t of_a = matmul_extent_count(of, matmul_extent_a(of));
    const uint64_t of_b = matmul_extent_count(of, matmul_extent_b(of));
    rota_status status = ROTA_OK;
    void *a = malloc(of_a * bytes), *b = malloc(of_b * bytes), *c = malloc(n * bytes);
    double *sums = malloc(n * sizeof *sums);
    if (!a || !b || !c || !sums) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the reference of a product");
        goto done;
    }
    matmul_fill(a, dtype, of_a, matmul_seed_a(s));
    matmul_fill(b, dtype, of_b, matmul_seed_b(s));
    if (rows > all) rows = all;
    for (uint64_t r = 0; r < rows; r++) {
        const uint64_t row = rows == 1 ? 0 : r * (all - 1) / (rows - 1);
        status = rota_buffer_read(p->c[s], row * (n + of->pad) * bytes, c, n * bytes);
        if (status != ROTA_OK) goto done;
        matmul_reference_row(of, dtype, a, b, row / of->m, row % of->m, sums);
        compare_row(sums, c, of_c, n, atol, rtol, result);
    }
done:
    free(a);
    free(b);
    free(c);
    free(sums);
    return status;
}

static int check_shape(const settings *s, const opened_device *opened, check *result) {
    int code = EXIT_GOOD;
    products p = {0};
    double ms, submit_us;
    REPORT_TRY(products_create(&p, opened, s->dtype, &s->check_shape, 1, NULL));
    REPORT_TRY(replay(&p, &ms, &submit_us));
    REPORT_TRY(check_set(&p, s->dtype, 0, s->check_shape.batch * s->check_shape.m, s->atol, s->rtol, result));
done:
    products_free(&p);
    return code;
}

#define WARM_NS 100000000u

typedef struct timing {
    sample_stats ms; /* of one product */
    double submit_us;
    double torch_ms, torch_graph_ms; /* NAN: not compared */
    rota_plan_stats stats;
    double record_ms;
    uint64_t replays;
} timing;

static progress_bar bar;

/* PyTorch's times in turns with rota's. */
typedef struct comparison {
    torch_child *child; /* NULL: none */
    double *eager_ms, *graph_ms;
} comparison;

static void compare_once(comparison *with, uint64_t iters, uint64_t repeat) {
    if (!with->child) return;
    bool answered = torch_run(with->child, false, iters, &with->eager_ms[repeat]);
    if (answered && with->child->gpu) answered = torch_run(with->child, true, iters, &with->graph_ms[repeat]);
    if (answered) return;
    progress_clear(&bar);
    fprintf(stderr, "%s: PyTorch did not run the product that it was given: it is not compared\n", program);
    with->child = NULL;
}

static uint64_t measured;

static int time_replays(const settings *s, const products *p, torch_child *child, timing *out) {
    int code = EXIT_GOOD;
    double *ms = calloc(s->repeat, sizeof *ms), *submit_us = calloc(s->repeat, sizeof *submit_us);
    comparison with = {child, calloc(s->repeat, sizeof(double)), calloc(s->repeat, sizeof(double))};
    if (!ms || !submit_us || !with.eager_ms || !with.graph_ms) {
        fprintf(stderr, "%s: out of memory\n", program);
        code = EXIT_BAD_ARGUMENT;
        goto done;
    }
    double ignored;
    /* The checks before left the device idle; a GPU takes its clocks down then and needs a while to raise
     * them. */
    uint64_t warm_from_ns = rota_clock_ns();
    for (uint64_t done_products = 0;
         done_products < s->warmup || (s->warmup && rota_clock_ns() - warm_from_ns < WARM_NS);
         done_products += s->iters) {
        REPORT_TRY(replay(p, &ignored, &ignored));
        out->replays++;
        compare_once(&with, s->iters, 0);
    }
    for (uint64_t r = 0; r < s->repeat; r++) {
        /* A GPU takes 200 to 300 us to turn from one process to another, and threads that slept wake late:
         * what is timed, here and in PyTorch, follows a run like it. */
        if (child) {
            REPORT_TRY(replay(p, &ignored, &ignored));
            out->replays++;
        }
        REPORT_TRY(replay(p, &ms[r], &submit_us[r]));
        ms[r] /= (double)s->iters;
        progress_at(&bar, ++measured);
        out->replays++;
        compare_once(&with, s->iters, r);
    }
    out->ms = samples_describe(ms, s->repeat);
    out->submit_us = samples_describe(submit_us, s->repeat).median;
    out->torch_ms = with.child ? samples_describe(with.eager_ms, s->repeat).median : NAN;
    out->torch_graph_ms = with.child && child->gpu ? samples_describe(with.graph_ms, s->repeat).median : NAN;
    out->record_ms = p->record_ms;
    out->stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(p->plan, &out->stats);
done:
    free(ms);
    free(submit_us);
    free(with.eager_ms);
    free(with.graph_ms);
    return code;
}

/* A number, or null where it is NAN. */
static void add_number(cJSON *row, const char *name, double value) {
    if (isnan(value))
        cJSON_AddNullToObject(row, name);
    else
        cJSON_AddNumberToObject(row, name, value);
}

static void add_row(cJSON *rows, const matmul_shape *of, const timing *t) {
    const double flops = 2.0 * (double)of->batch * (double)of->m * (double)of->n * (double)of->k;
    const double tflops = flops / t->ms.median / 1e9;
    char text[MATMUL_TEXT_MAX];
    (void)matmul_shape_text(of, text);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddItemToArray(rows, row);
    cJSON_AddStringToObject(row, "shape", text);
    cJSON_AddNumberToObject(row, "ms", t->ms.median);
    cJSON_AddNumberToObject(row, "min_ms", t->ms.least);
    cJSON_AddNumberToObject(row, "max_ms", t->ms.most);
    cJSON_AddNumberToObject(row, "p95_ms", t->ms.p95);
    cJSON_AddNumberToObject(row, "tflops", tflops);
    const double torch_best = fmin(t->torch_ms, t->torch_graph_ms); /* of the one that is there */
    add_number(row, "torch_ms", t->torch_ms);
    add_number(row, "torch_graph_ms", t->torch_graph_ms);
    add_number(row, "torch_tflops", flops / torch_best / 1e9);
    add_number(row, "ratio", torch_best / t->ms.median);
    cJSON_AddNumberToObject(row, "record_ms", t->record_ms);
    cJSON_AddNumberToObject(row, "submit_us", t->submit_us);
    cJSON_AddNumberToObject(row, "barriers", (double)t->stats.barriers);
    cJSON_AddNumberToObject(row, "reused_command_buffers", (double)(t->replays - 1));
    progress_clear(&bar);
    printf("%-18s %10.4f ms  (%.4f to %.4f)  %8.3f TFLOP/s", text, t->ms.median, t->ms.least, t->ms.most,
           tflops);
    if (!isnan(t->torch_ms)) printf("  PyTorch %.4f ms", t->torch_ms);
    if (!isnan(t->torch_graph_ms)) printf(", as a graph %.4f", t->torch_graph_ms);
    if (!isnan(torch_best))
        printf(", %.3f TFLOP/s, ratio %.3f", flops / torch_best / 1e9, torch_best / t->ms.median);
    printf("\n%-18s recorded and compiled in %.2f ms, submitted in %.1f us, %" PRIu64
           " barriers, replayed %" PRIu64 " times\n",
           "", t->record_ms, t->submit_us, t->stats.barriers, t->replays);
}

/* What the products run by and why, below the row and in it. They are all alike. */
static rota_status explain(const products *p, cJSON *rows) {
    uint64_t length;
    ROTA_TRY(rota_plan_explain_kernel(p->plan, p->first, NULL, 0, &length));
    char *text = malloc(length + 1);
    if (!text) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a text of %" PRIu64 " bytes", length);
    const rota_status status = rota_plan_explain_kernel(p->plan, p->first, text, length + 1, NULL);
    if (status == ROTA_OK) {
        progress_clear(&bar);
        for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
            end = line + strcspn(line, "\n");
            printf("    %.*s\n", (int)(end - line), line);
        }
        cJSON_AddStringToObject(cJSON_GetArrayItem(rows, cJSON_GetArraySize(rows) - 1), "why", text);
    }
    free(text);
    return status;
}

/* `child` may have no process. */
static int time_shape(const settings *s, const opened_device *opened, const matmul_shape *of,
                      torch_child *child, cJSON *rows, check *result) {
    int code = EXIT_GOOD;
    products p = {0};
    timing t = {.torch_ms = NAN, .torch_graph_ms = NAN};
    char copy_path[] = "/tmp/rota-operands-XXXXXX";
    FILE *copy = NULL;
    const bool compared = child->process > 0;
    if (compared) {
        int descriptor = mkstemp(copy_path);
        copy = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
        if (!copy) {
            fprintf(stderr, "%s: '%s' can't be made for the comparison\n", program, copy_path);
            return EXIT_BAD_ARGUMENT;
        }
    }
    rota_status made = products_create(&p, opened, s->dtype, of, s->iters, copy);
    if (compared && fclose(copy) != 0 && made == ROTA_OK)
        made = rota_fail(ROTA_SYSTEM, "'%s' can't be written", copy_path);
    REPORT_TRY(made);
    if (compared && !torch_set(child, of, p.sets, copy_path)) {
        char text[MATMUL_TEXT_MAX];
        progress_clear(&bar);
        fprintf(stderr, "%s: PyTorch did not take the operands of %s: from here on nothing is compared\n",
                program, matmul_shape_text(of, text));
        torch_stop(child);
    }
    code = time_replays(s, &p, child->process > 0 ? child : NULL, &t);
    for (uint64_t set = 0; set < p.sets && code == EXIT_GOOD; set++)
        REPORT_TRY(check_set(&p, s->dtype, set, SAMPLED_ROWS, s->atol, s->rtol, result));
    if (code == EXIT_GOOD) add_row(rows, of, &t);
    if (code == EXIT_GOOD && s->why) REPORT_TRY(explain(&p, rows));
    if (code == EXIT_GOOD) REPORT_TRY(plan_pictures_write(&s->pictures, p.plan));
    if (code == EXIT_GOOD && s->trace) REPORT_TRY(rota_plan_write_trace(p.plan, s->trace));
done:
    if (compared) unlink(copy_path);
    products_free(&p);
    return code;
}

/* Of those that were compared, where there are several. */
static void say_ratios(const cJSON *rows) {
    double ratios[MATMUL_SHAPES_MAX];
    const char *lowest = NULL;
    double least = INFINITY;
    uint32_t count = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        const cJSON *ratio = cJSON_GetObjectItem(row, "ratio");
        if (!cJSON_IsNumber(ratio)) continue;
        ratios[count++] = ratio->valuedouble;
        if (ratio->valuedouble >= least) continue;
        least = ratio->valuedouble;
        lowest = cJSON_GetObjectItem(row, "shape")->valuestring;
    }
    if (count < 2) return;
    const sample_stats all = samples_describe(ratios, count);
    printf("ratios of %u: %.3f to %.3f, median %.3f; the least is of %s\n", count, all.least, all.most,
           all.median, lowest);
}

/* Checks the product, times the shapes, and writes what came of it. */
static int run(const settings *s, const char *id, const char *shapes, const char *out) {
    opened_device opened;
    const rota_runtime_options runtime_options =
        ROTA_RUNTIME_OPTIONS(.diagnostics = s->trace != NULL, .debug_names = s->debug_names,
                             .spin_ns = s->compare ? COMPARED_SPIN_NS : 0, OPTION_CAPTURED(s->capture));
    int code = report_open(program, id, &runtime_options, &opened);
    if (code != EXIT_GOOD) return code;
    cJSON *result = report_new();
    cJSON_AddNumberToObject(result, "iters", (double)s->iters);
    cJSON_AddNumberToObject(result, "warmup", (double)s->warmup);
    cJSON_AddNumberToObject(result, "repeat", (double)s->repeat);
    cJSON_AddStringToObject(result, "dtype", rota_dtype_name(s->dtype));
    cJSON_AddStringToObject(result, "shapes", shapes);
    cJSON_AddItemToObject(result, "device", report_device(rota_device_get_info(opened.device)));
    check result_check = {0};
    cJSON *rows = cJSON_CreateArray();
    code = check_shape(s, &opened, &result_check);
    torch_child child = {0};
    if (s->compare && code == EXIT_GOOD)
        (void)torch_start(&child, rota_device_get_info(opened.device)->device_class == ROTA_DEVICE_GPU,
                          s->dtype);
    progress_begin(&bar, "measuring", "runs", s->shape_count * s->repeat);
    for (uint32_t i = 0; i < s->shape_count && code == EXIT_GOOD; i++)
        code = time_shape(s, &opened, &s->shapes[i], &child, rows, &result_check);
    progress_end(&bar);
    torch_stop(&child);
    if (code == EXIT_GOOD) say_ratios(rows);
    cJSON *checks = cJSON_AddObjectToObject(result, "check");
    cJSON_AddNumberToObject(checks, "max_abs", result_check.max_abs);
    cJSON_AddNumberToObject(checks, "max_rel", result_check.max_rel);
    cJSON_AddNumberToObject(checks, "fails", (double)result_check.fails);
    cJSON_AddNumberToObject(checks, "total", (double)result_check.total);
    cJSON_AddItemToObject(result, "rows", rows);
    if (code == EXIT_GOOD) {
        printf("check: %" PRIu64 " of %" PRIu64
               " elements outside the tolerance; largest difference %.3g, relative %.3g\n",
               result_check.fails, result_check.total, result_check.max_abs, result_check.max_rel);
        if (result_check.fails) {
            fprintf(stderr, "%s: the products are wrong\n", program);
            code = EXIT_CHECK_FAILED;
        }
    }
    report_close(&opened);
    return report_write(result, out, code);
}

/* What is said of the shapes: what was given, or of so many by the seed, how they were drawn. */
static const char *draw_shapes(settings *s, uint64_t count, uint64_t seed, const char *given, char text[64]) {
    if (!count) return given;
    s->shape_count = (uint32_t)count;
    matmul_shapes_draw(seed, s->shape_count, s->shapes);
    (void)snprintf(text, 64, "%" PRIu64 " drawn by seed %" PRIu64, count, seed);
    return text;
}

static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16, ROTA_F8_E4M3FN, ROTA_F8_E5M2};

/* Operands of 8-bit floats lie along the sums. False, with a sentence: some come in batches, or have gaps. */
static bool lay_along_sums(const option_table *table, settings *s) {
    for (uint32_t i = 0; i <= s->shape_count && rota_dtype_is_f8(s->dtype); i++) {
        matmul_shape *of = i < s->shape_count ? &s->shapes[i] : &s->check_shape;
        if (of->batch > 1 || of->pad) {
            options_bad(table, "--dtype %s: one product at a time, without PAD", rota_dtype_name(s->dtype));
            return false;
        }
        of->transpose_a = false;
        of->transpose_b = true;
    }
    return true;
}

int bench_matmul(int argc, char **argv) {
    settings s = {.iters = 40, .warmup = 8, .repeat = 3, .atol = 2e-2, .rtol = 1e-2};
    const char *shapes = "1024x1024x1024", *check_text = "384x384x384", *id = NULL, *out = NULL;
    int dtype = 0, compare = -1;
    uint64_t random = 0, seed = 1;
    const option options[] = {
        OPTION_ROW_DEVICE(id),
        {"--shapes", OPTION_STRING, &shapes, MATMUL_FORM "[,...]", 0, 0, false,
         "the products: M rows of K, times K rows of N; B of them at once; which of the two lie in memory "
         "turned; rows "
         "that are PAD elements longer than what they hold; gpt2: those of GPT-2's layers in three sizes, "
         "with both "
         "gradients"},
        {"--random", OPTION_COUNT, &random, "N", 1, MATMUL_SHAPES_MAX, false,
         "as many products in their place, of sizes from 64 to 16384 that are drawn"},
        {"--seed", OPTION_COUNT, &seed, "N", 0, 9007199254740992.0, false, "of the drawn ones"},
        {"--dtype", OPTION_CHOICE, &dtype, "f32|f16|bf16|f8_e4m3fn|f8_e5m2", 0, 0, false,
         "of the operands; sums are f32. Of 8 bits with scales of 1 to bf16, both operands lying along the "
         "sum"},
        {"--iters", OPTION_COUNT, &s.iters, "N", 1, 100000, false, "replays that are timed together"},
        {"--warmup", OPTION_COUNT, &s.warmup, "N", 0, 100000, false, "replays before those"},
        {"--repeat", OPTION_COUNT, &s.repeat, "N", 1, 100000, false,
         "how often that is done; the median counts"},
        {"--check-shape", OPTION_STRING, &check_text, MATMUL_FORM, 0, 0, false,
         "a product that is checked element by element"},
        {"--check-atol", OPTION_REAL, &s.atol, "X", 0, 1e6, false, "how far a result may be off, absolutely"},
        {"--check-rtol", OPTION_REAL, &s.rtol, "X", 0, 1e6, false, "and relative to what is right"},
        {"--compare", OPTION_CHOICE, &compare, "torch", 0, 0, false,
         "time PyTorch in between, on the same operands"},
        {"--why", OPTION_FLAG, &s.why, NULL, 0, 0, false,
         "say what each product runs by, and why: what was measured, what was left out"},
        OPTION_ROWS_PICTURES(s.pictures),
        OPTION_ROW_TRACE(s.trace),
        OPTION_ROW_DEBUG_NAMES(s.debug_names),
        OPTION_ROW_CAPTURE(s.capture),
        OPTION_ROW_OUT(out)};
    const option_table table = {
        program,
        bench_text(program),
        "rota-bench matmul --shapes 1024x1024x1024,4096x4096x4096 --dtype bf16 --compare torch",
        options,
        sizeof options / sizeof *options,
        NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (!plan_pictures_good(&table, &s.pictures)) return EXIT_BAD_ARGUMENT;
    uint32_t one;
    const bool good = matmul_shapes_parse(shapes, s.shapes, MATMUL_SHAPES_MAX, &s.shape_count);
    if (!good || !matmul_shapes_parse(check_text, &s.check_shape, 1, &one)) {
        options_bad(
            &table, "%s: " MATMUL_FORM ", each from 1 to 65536, PAD to 4096, at most %d of them; not '%s'",
            good ? "--check-shape" : "--shapes", good ? 1 : MATMUL_SHAPES_MAX, good ? check_text : shapes);
        return EXIT_BAD_ARGUMENT;
    }
    char drawn[64];
    shapes = draw_shapes(&s, random, seed, shapes, drawn);
    s.dtype = dtypes[dtype];
    s.compare = compare == 0;
    return lay_along_sums(&table, &s) ? run(&s, id, shapes, out) : EXIT_BAD_ARGUMENT;
}
