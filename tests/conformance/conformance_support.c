/* What the conformance cases share: runtimes, graphs, tensors, threads. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include "sched/runtime/shared/mailboxes.h"
#include "sched/testing.h"
#include "tests/conformance/conformance.h"
#include "tests/kit/nap.h"

uint64_t conf_patience_ns = 120u * 1000000000ull;

bool conf_fail(conf *c, const char *format, ...) {
    pthread_mutex_lock(&c->lock);
    if (!c->why[0]) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(c->why, sizeof c->why, format, arguments);
        va_end(arguments);
    }
    pthread_mutex_unlock(&c->lock);
    return false;
}

bool conf_skip(conf *c, const char *why) {
    c->skipped = true;
    snprintf(c->why, sizeof c->why, "%s", why);
    return true;
}

bool conf_run(conf *c, const conf_case *one) {
    c->why[0] = 0;
    c->skipped = c->expect_errors = false;
    c->digest = 0;
    atomic_store(&c->errors_logged, 0);
    return one->run(c) && (c->skipped || !c->why[0]);
}

static void log_line(void *user, rota_log_level level, const char *message) {
    conf *c = user;
    const bool layer = strstr(message, "Vulkan validation") != NULL; /* never expected */
    if (!layer && (level < ROTA_LOG_ERROR || c->expect_errors)) return;
    if (atomic_fetch_add(&c->errors_logged, 1) == 0) fprintf(stderr, "rota: %s\n", message);
}

bool conf_open(conf *c, const rota_runtime_options *options, rota_runtime **out_runtime,
               rota_device **out_device) {
    rota_runtime_options mine = options ? *options : ROTA_RUNTIME_OPTIONS();
    mine.log = (rota_log){log_line, c, ROTA_LOG_WARNING};
    mine.validation = c->validation;
    if (!mine.timeout_ns) mine.timeout_ns = CONF_PATIENCE_NS;
    memset(&c->adversary, 0, sizeof c->adversary);
    atomic_store(&c->adversary.seed, c->seed);
    c->adversary.quiet_ns = c->quiet_ns;
    c->adversary.submit_never_blocks = c->seed % 2;
    CONF_OK(c, adversary_runtime_open(&c->adversary, &mine, out_runtime));
    rota_status status = rota_device_open(*out_runtime, c->device, out_device);
    if (status != ROTA_OK) {
        c->is_absent = status == ROTA_NOT_FOUND || status == ROTA_UNSUPPORTED;
        (void)conf_fail(c, "opening %s: %s: %s", c->device, rota_status_name(status), rota_last_error());
        rota_runtime_close(*out_runtime, CONF_PATIENCE_NS);
        return false;
    }
    if (c->has_breaks) c->adversary.breaks = c->breaks; /* The device is idle. */
    return true;
}

bool conf_close(conf *c, rota_runtime *runtime) {
    CONF_OK(c, rota_runtime_close(runtime, CONF_PATIENCE_NS));
    CONF_CHECK(c, atomic_load(&c->adversary.violations) == 0, "the executor contract is violated: %s",
               c->adversary.violation);
    CONF_CHECK(c, atomic_load(&c->errors_logged) == 0, "errors were logged");
    return true;
}

bool conf_end(conf *c, rota_runtime *runtime, rota_plan *plan, const rota_tensor *tensors, size_t count) {
    rota_plan_release(plan);
    for (size_t i = 0; i < count; i++) rota_buffer_release(tensors[i].buffer);
    return conf_close(c, runtime);
}

bool conf_graph_begin(conf *c, conf_graph *out_graph) {
    memset(out_graph, 0, sizeof *out_graph);
    CONF_OK(c, rota_graph_create(NULL, &out_graph->graph));
    CONF_OK(c, rota_recorder_open(out_graph->graph, 1, "main", &out_graph->recorder));
    CONF_OK(c, rota_tape_create(out_graph->recorder, NULL, &out_graph->tape));
    return true;
}

bool conf_graph_end(conf *c, conf_graph *graph, rota_device *device, const rota_compile_options *options,
                    rota_plan **out_plan) {
    rota_compile_options mine = options ? *options : ROTA_COMPILE_OPTIONS();
    mine.certify = true;
    mine.devices = &device;
    mine.device_count = 1;
    rota_tape_destroy(graph->tape);
    rota_recorder_close(graph->recorder);
    rota_status status = rota_compile(rota_device_runtime(device), graph->graph, &mine, out_plan);
    rota_graph_release(graph->graph);
    CONF_CHECK(c, status == ROTA_OK, "compile: %s: %s", rota_status_name(status), rota_last_error());
    return true;
}

bool conf_replay(conf *c, rota_plan *plan, rota_args *args, uint32_t times) {
    rota_ticket ticket = {0};
    for (uint32_t i = 0; i < times; i++) CONF_OK(c, rota_submit_wait(plan, args, CONF_PATIENCE_NS, &ticket));
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    return true;
}

bool conf_write_f32(conf *c, const rota_tensor *tensor, rota_device *device, const float *values) {
    CONF_OK(c, rota_buffer_write(tensor->buffer, device, tensor->offset_bytes, values,
                                 rota_tensor_count(tensor) * sizeof(float), NULL));
    return true;
}

bool conf_read_f32(conf *c, const rota_tensor *tensor, float *out_values) {
    CONF_OK(c, rota_buffer_read(tensor->buffer, tensor->offset_bytes, out_values,
                                rota_tensor_count(tensor) * sizeof(float)));
    return true;
}

bool conf_tensor(conf *c, rota_runtime *runtime, rota_device *device, const char *name, uint32_t rank,
                 const uint64_t *shape, double start, double step, rota_tensor *out_tensor) {
    uint64_t bytes = rota_shape_bytes(ROTA_F32, rank, shape), count = bytes / sizeof(float);
    rota_buffer *buffer = NULL;
    CONF_OK(c, rota_buffer_create_in(runtime, name, bytes, &buffer));
    CONF_OK(c, rota_tensor_of(buffer, 0, ROTA_F32, rank, shape, out_tensor));
    float *values = malloc(bytes);
    CONF_CHECK(c, values, "out of memory");
    for (uint64_t i = 0; i < count; i++) values[i] = (float)(start + step * (double)i);
    bool good = conf_write_f32(c, out_tensor, device, values);
    free(values);
    return good;
}

bool conf_near(conf *c, const char *what, const float *got, const float *want, uint64_t count,
               double absolute, double relative) {
    for (uint64_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - (double)want[i]);
        if (error > absolute + relative * fabs((double)want[i]) || isnan(got[i]) != isnan(want[i]))
            return conf_fail(c, "%s: element %llu of %llu is %.9g, expected %.9g", what,
                             (unsigned long long)i, (unsigned long long)count, (double)got[i],
                             (double)want[i]);
    }
    return true;
}

typedef struct thread_start {
    bool (*fn)(void *one);
    void *user;
    bool good;
    pthread_barrier_t *barrier;
} thread_start;

static void *thread_main(void *user) {
    thread_start *start = user;
    pthread_barrier_wait(start->barrier);
    start->good = start->fn(start->user);
    return NULL;
}

bool conf_threads(conf *c, uint32_t count, bool (*fn)(void *one), void *users, size_t stride) {
    pthread_t threads[64];
    thread_start starts[64];
    pthread_barrier_t barrier;
    if (count > 64 || pthread_barrier_init(&barrier, NULL, count)) return conf_fail(c, "too many threads");
    for (uint32_t i = 0; i < count; i++) {
        starts[i] = (thread_start){fn, (char *)users + i * stride, false, &barrier};
        if (pthread_create(&threads[i], NULL, thread_main, &starts[i])) return conf_fail(c, "no thread");
    }
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        good &= starts[i].good;
    }
    pthread_barrier_destroy(&barrier);
    return good || conf_fail(c, "a thread failed");
}

bool conf_sequenced(conf *c, rota_ticket ticket) {
    const uint64_t deadline = rota_deadline_after(CONF_PATIENCE_NS);
    uint64_t number = 0;
    while (rota_ticket_number(ticket, &number) == ROTA_BUSY && rota_clock_ns() < deadline) test_nap();
    CONF_CHECK(c, number != 0, "a submission was not sequenced");
    rota_sequencer_reap_now(ticket.runtime); /* its number is known before: a round that begins now is over */
    return true;
}

/* ---- Custom kernels ---- */

_Atomic uint32_t conf_slow_held, conf_slow_goes_on;

static rota_status run_slow(const rota_kernel_call *call) {
    const conf_slow_params *params = call->params;
    float *x = call->operands[0];
    if (params->is_held) {
        const uint64_t deadline = rota_deadline_after(2 * CONF_PATIENCE_NS);
        (void)ra_fetch_add_seq_cst(&conf_slow_held, 1);
        while (!ra_load_acquire(&conf_slow_goes_on) && rota_clock_ns() < deadline) test_nap();
    }
    if (params->fail) return rota_fail(ROTA_NODE_FAILED, "conf_slow: told to fail");
    for (uint64_t i = call->begin; i < call->end; i++) x[i] = params->alpha * x[i] + params->beta;
    return ROTA_OK;
}

static void items_slow(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                       uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const conf_slow_params *)params)->n;
    *out_grain = *out_items; /* one piece: it is held once */
}

static const rota_kernel_bindable slow_bindables[] = {
    {"alpha", offsetof(conf_slow_params, alpha), 4, false, ROTA_VALUE_F32},
    {"fail", offsetof(conf_slow_params, fail), 4, false, ROTA_VALUE_U32}};

const rota_kernel conf_slow_kernel = {.name = "conf_slow",
                                      .operand_count = 1,
                                      .param_bytes = sizeof(conf_slow_params),
                                      .bindables = slow_bindables,
                                      .bindable_count = 2,
                                      .cpu = {run_slow, items_slow}};
