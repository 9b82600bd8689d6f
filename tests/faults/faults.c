/* Every allocation, every thread that is started, every driver call and every call for files, pages and the
 * machine's shape fails once, in a run of: open, compile, first and 100th replay, read, write, close. After
 * each: what failed says so in a sentence, what is OK is right, what failed changed no memory of the
 * caller's, the other device works, nothing is left. A point is a call by its site (a hash of the stack),
 * the phase, and its number there.
 *
 * rota-faults [--device cpu|cuda-stub|vk:0] [--diagnostics] [--cache cold|warm]
 *             [--full | --parts N | --some N | --sample N] [--plant forgotten|wrong|silent|leak]
 *             [--seed S] [--only N] [--verbose]
 * Runs the first call of each site and N others; --some: about N drawn from all; --full: all; --parts: every
 * Nth of all, others each day, so that all were run after N days; $ROTA_DRAW, the day's number, repeats one.
 * With a plant the library errs from the failure on, and the program succeeds if it finds that. */
#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/arena.h"
#include "rota.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/faults/faults.h"
#include "tests/kernels/kernels.h"
#include "tests/kit/random.h"
#include "tests/kit/todays.h"

/* ---- Points ---- */

enum { POINTS_MAX = 1 << 16 };
enum {
    OPEN,
    DEVICE,
    BUFFERS,
    RECORD,
    COMPILE,
    FIRST,
    BETWEEN,
    HUNDREDTH,
    READ,
    WRITE,
    RELEASE,
    CLOSE,
    PHASES
};
static const char *const phase_names[PHASES] = {"open",    "device",       "buffers", "record",
                                                "compile", "first replay", "replay",  "100th replay",
                                                "read",    "write",        "release", "close"};
static struct { uint32_t site, ordinal, result; } points[POINTS_MAX];
static uint32_t point_count;

/* ---- One run ---- */

enum {
    SIDE = 16,
    WORDS = SIDE * SIDE,
    BYTES = WORDS * 4,
    LARGE_WORDS = 70000,
    REPLAYS = 100,
    PATIENCE_S = 60
};

typedef struct run {
    rota_runtime *runtime;
    rota_device *devices[2]; /* under test; the other */
    rota_buffer *x, *y, *z, *large;
    rota_buffer *l, *w[2]; /* of the library node; bound to the slot buffer in turns */
    rota_buffer *a, *c;    /* matrices, where the device has products */
    rota_graph *graph;
    rota_buffer *in, *out, *slot, *b;
    rota_slot p, seed;
    rota_plan *plan;
    rota_args *args;
    bool lost, failed; /* the device under test; any call */
    uint32_t mx[WORDS], my[WORDS], mz[WORDS], ml[WORDS], mw[2][WORDS], input[WORDS], output[WORDS];
    float ma[WORDS], mb[WORDS], mc[WORDS];
    char trouble[1024];
} run;

static const char *under_test = "cpu";
static bool verbose, with_diagnostics, with_products;
static char cache_folder[64]; /* "": none */
static plant planting;

static void trouble(run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void trouble(run *r, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (!r->trouble[0]) (void)vsnprintf(r->trouble, sizeof r->trouble, format, list);
    va_end(list);
}

/* Takes note of a status, and of what is wrong with it. */
static bool good(run *r, const char *what, rota_status status) {
    if (status == ROTA_OK) return true;
    const char *says = rota_last_error();
    if (status == ROTA_DEVICE_LOST || status == ROTA_REFUSED) r->lost = true;
    if (!atomic_load(&fired))
        trouble(r, "%s: %s before anything failed: %s", what, rota_status_name(status), says);
    if (status == ROTA_TIMEOUT || status == ROTA_INTERNAL || status == ROTA_BUSY || !strchr(says, ' '))
        trouble(r, "%s: %s: '%s'", what, rota_status_name(status), says);
    r->failed = true;
    return false;
}

/* One thing failed once: what is asked for again succeeds, unless the device is lost. */
#define AGAIN(call)                                                                                          \
    do {                                                                                                     \
        rota_status status_ = (call);                                                                        \
        if (!good(r, #call, status_)) {                                                                      \
            status_ = (call);                                                                                \
            if (!good(r, #call, status_) && !r->lost) trouble(r, "again: %s: %s", #call, rota_last_error()); \
            if (status_ != ROTA_OK) return false;                                                            \
        }                                                                                                    \
    } while (0)

/* A library node on CUDA, `map` elsewhere. */
static rota_kernel library_map;
#ifdef ROTA_HAVE_CUDA
static rota_status library_call(const rota_cuda_call *call) {
    struct {
        uint64_t block;
        uint32_t slot_mask, bind_mask;
        uint64_t operands[2];
        test_params params;
    } arguments = {.operands = {call->operands[0], call->operands[1]}};
    memcpy(&arguments.params, call->params, sizeof arguments.params);
    void *parameters[] = {&arguments};
    CUfunction function = NULL;
    CUresult result = cuda_stub_api()->ModuleGetFunction(&function, NULL, library_map.name);
    if (result == CUDA_SUCCESS)
        result = cuda_stub_api()->LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, call->stream, parameters, NULL);
    if (result == CUDA_SUCCESS) return ROTA_OK;
    return rota_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? ROTA_OUT_OF_MEMORY : ROTA_SYSTEM,
                     "the library's kernel is not launched (%d)", (int)result);
}
static rota_status library_tune(const rota_cuda_call *call) {
    (void)call;
    return ROTA_OK;
}
static uint64_t library_workspace(const void *params, const uint64_t *operand_bytes,
                                  const rota_cuda_target *target) {
    (void)params, (void)operand_bytes, (void)target;
    return 4096;
}
#endif

static void make_library_map(void) {
    library_map = test_kernels[TEST_KERNEL_map].kernel;
#ifdef ROTA_HAVE_CUDA
    library_map.name = library_map.cuda.entry;
    library_map.cuda =
        (rota_kernel_cuda){.call = library_call, .tune = library_tune, .workspace = library_workspace};
#endif
}

static void run_kernel(uint32_t k, const test_params *params, uint32_t *a, uint32_t *b) {
    void *operands[] = {a, b};
    const uint64_t bytes[] = {BYTES, BYTES};
    const rota_kernel_call call = {operands, params, 0, WORDS, WORDS, 2, bytes, NULL};
    (void)test_kernels[k].kernel.cpu.fn(&call);
}

static const uint32_t mixed_in = 5;
static void model(run *r, uint32_t p, uint64_t seed, uint32_t *bound) {
    test_params varying = {WORDS, WORDS, p, 0, seed}, fixed = {WORDS, WORDS, 1, 0, 2},
                library = {WORDS, WORDS, p, 0, 2};
    uint32_t t[WORDS];
    run_kernel(TEST_KERNEL_map, &fixed, r->input, t);
    run_kernel(TEST_KERNEL_update, &varying, r->mx, t);
    for (uint32_t i = 0; i < WORDS; i++) t[i] = test_mix(i < WORDS / 2 ? r->mx[i] : 9, mixed_in);
    run_kernel(TEST_KERNEL_map, &fixed, t, r->my);
    run_kernel(TEST_KERNEL_map, &fixed, r->my, r->mz);
    run_kernel(TEST_KERNEL_map, &library, r->input, r->ml);
    run_kernel(TEST_KERNEL_update, &fixed, bound, r->input);
    for (uint32_t i = 0; i < SIDE; i++)
        for (uint32_t k = 0; k < SIDE; k++) {
            r->mc[i * SIDE + k] = 0;
            for (uint32_t j = 0; j < SIDE; j++)
                r->mc[i * SIDE + k] += r->ma[i * SIDE + j] * r->mb[j * SIDE + k];
        }
}

static rota_status record_kernel(rota_recorder *recorder, uint32_t k, rota_buffer *a, rota_buffer *b,
                                 uint32_t device, const rota_param_binding *bindings,
                                 const rota_kernel *kernel) {
    const test_params params = {WORDS, WORDS, 1, 0, 2};
    const rota_param_binding constant = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    const rota_access accesses[] = {{a, 0, ROTA_WHOLE, test_kernels[k].operands[0].mode},
                                    {b, 0, ROTA_WHOLE, test_kernels[k].operands[1].mode}};
    return rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = kernel ? kernel : &test_kernels[k].kernel, .accesses = accesses,
                          .access_count = 2, .params = &params, .bindings = bindings ? bindings : &constant,
                          .binding_count = bindings ? 2 : 1, .placement = {.device_plus_1 = device + 1}),
        NULL);
}

/* c = a b, with an input b; sums of small integers, so that the order does not matter. */
static bool record_product(run *r, rota_recorder *recorder) {
    if (!with_products) return true;
    rota_tape *tape = NULL;
    rota_tensor a, b, c;
    AGAIN(rota_tape_create(recorder, NULL, &tape));
    AGAIN(rota_tensor_of(r->a, 0, ROTA_F32, ROTA_SHAPE(SIDE, SIDE), &a));
    AGAIN(rota_tensor_of(r->b, 0, ROTA_F32, ROTA_SHAPE(SIDE, SIDE), &b));
    AGAIN(rota_tensor_of(r->c, 0, ROTA_F32, ROTA_SHAPE(SIDE, SIDE), &c));
    rota_status status = rota_op_matmul_into(tape, a, b, false, false, c);
    if (!good(r, "product", status)) status = rota_op_matmul_into(tape, a, b, false, false, c);
    if (status != ROTA_OK) trouble(r, "product again: %s", rota_last_error());
    rota_tape_destroy(tape);
    return status == ROTA_OK;
}

static bool record(run *r) {
    rota_recorder *recorder = NULL;
    rota_buffer *t[4];
    AGAIN(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "faults"), &r->graph));
    AGAIN(rota_graph_buffer(r->graph, ROTA_BUFFER_INPUT, "in", BYTES, &r->in));
    AGAIN(rota_graph_buffer(r->graph, ROTA_BUFFER_OUTPUT, "out", BYTES, &r->out));
    AGAIN(rota_graph_buffer(r->graph, ROTA_BUFFER_SLOT, "slot", BYTES, &r->slot));
    if (with_products) AGAIN(rota_graph_buffer(r->graph, ROTA_BUFFER_INPUT, "b", BYTES, &r->b));
    for (uint32_t i = 0; i < 4; i++)
        AGAIN(rota_graph_buffer(r->graph, ROTA_BUFFER_TRANSIENT, "t", BYTES, &t[i]));
    AGAIN(rota_graph_slot(r->graph, "p", 4, &r->p));
    AGAIN(rota_graph_slot(r->graph, "seed", 8, &r->seed));
    AGAIN(rota_recorder_open(r->graph, 0, NULL, &recorder));
    const rota_param_binding slots[] = {{TEST_BIND_P, r->p}, {TEST_BIND_SEED, r->seed}};
    AGAIN(record_kernel(recorder, TEST_KERNEL_map, r->in, t[0], 0, NULL, NULL));
    AGAIN(record_kernel(recorder, TEST_KERNEL_update, r->x, t[0], 0, slots, NULL));
    AGAIN(record_kernel(recorder, TEST_KERNEL_update, r->slot, r->in, 0, NULL, NULL));
    const rota_param_binding library[] = {{TEST_BIND_P, r->p}, {TEST_BIND_SEED, ROTA_SLOT_CONSTANT}};
    AGAIN(record_kernel(recorder, TEST_KERNEL_map, r->in, r->l, 0, library, &library_map));
    if (!record_product(r, recorder)) return false;
    AGAIN(rota_record_fill(recorder, t[1], 0, BYTES, 9, NULL));
    AGAIN(rota_record_copy(recorder, t[1], 0, r->x, 0, BYTES / 2, NULL));
    const rota_access host[] = {{t[1], 0, ROTA_WHOLE, ROTA_READ}, {t[2], 0, ROTA_WHOLE, ROTA_WRITE}};
    AGAIN(rota_record_host(
        recorder, &ROTA_HOST_NODE(test_host_function, (void *)(uintptr_t)&mixed_in, NULL, host, 2), NULL));
    AGAIN(record_kernel(recorder, TEST_KERNEL_map, t[2], r->y, 0, NULL, NULL));
    AGAIN(record_kernel(recorder, TEST_KERNEL_map, r->y, r->z, 1, NULL, NULL));
    AGAIN(rota_record_copy(recorder, r->out, 0, r->y, 0, BYTES, NULL));
    rota_recorder_close(recorder);
    return true;
}

static bool is_untouched(const uint32_t *words) {
    for (uint32_t i = 0; i < WORDS; i++)
        if (words[i] != 0xeeeeeeee) return false;
    return true;
}

/* A read is right or it fails; once more it succeeds, unless what it reads failed. */
static bool check(run *r, rota_buffer *buffer, const void *expected, bool may_fail) {
    uint32_t words[WORDS];
    const char *name = rota_buffer_name(buffer);
    for (uint32_t turn = 0; turn < 2; turn++) {
        memset(words, 0xee, sizeof words);
        const rota_status status = rota_buffer_read(buffer, 0, words, sizeof words);
        if (good(r, name, status)) {
            if (memcmp(words, expected, sizeof words) != 0)
                trouble(r, "'%s' is read as OK, and is wrong", name);
            return true;
        }
        if (!is_untouched(words)) trouble(r, "a read of '%s' failed, and changed the memory", name);
    }
    if (!may_fail && !r->lost) trouble(r, "reading '%s' again: %s", name, rota_last_error());
    return false;
}

/* All that a replay writes. */
static bool check_all(run *r, uint32_t number, bool may_fail) {
    bool good = true;
    const struct {
        rota_buffer *buffer;
        const void *expected;
    } all[] = {
        {r->x, r->mx}, {r->y, r->my}, {r->z, r->mz}, {r->l, r->ml}, {r->w[number % 2], r->mw[number % 2]},
        {r->c, r->mc}};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].buffer) good = check(r, all[i].buffer, all[i].expected, may_fail) && good;
    return good;
}

/* False: it failed, and what it writes is either failed or as if it had not. */
static bool replay(run *r, uint32_t number) {
    rota_ticket ticket = {0};
    /* Few values: what CUDA makes for each is kept for the next time. */
    const uint32_t p = number % 3;
    AGAIN(rota_args_set_u32(r->args, r->p, p));
    AGAIN(rota_args_set_u64(r->args, r->seed, 7 * number));
    AGAIN(rota_args_set_buffer(r->args, r->slot, r->w[number % 2]));
    for (uint32_t i = 0; i < WORDS; i++) r->input[i] = number + i;
    for (uint32_t i = 0; i < WORDS; i++) r->mb[i] = (float)((number + i) % 5);
    memset(r->output, 0xee, sizeof r->output);
    AGAIN(rota_submit_wait(r->plan, r->args, 0, &ticket));
    model(r, p, 7 * number, r->mw[number % 2]);
    if (good(r, "replay", rota_wait(ticket, 0))) {
        if (memcmp(r->output, r->my, BYTES) != 0)
            trouble(r, "replay %u is OK and its output is wrong", number);
        return true;
    }
    if (!is_untouched(r->output)) trouble(r, "replay %u failed, and changed its output", number);
    (void)check_all(r, number, true);
    return false;
}

static bool replays(run *r, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        atomic_store(&phase, i == 0 ? FIRST : i == REPLAYS - 1 ? HUNDREDTH : BETWEEN);
        if (replay(r, i)) continue;
        if (r->lost) return false;
        /* What overwrites all of it heals it. */
        for (uint32_t k = 0; k < WORDS; k++) r->mx[k] = r->mw[i % 2][k] = k;
        AGAIN(rota_buffer_write(r->x, r->devices[0], 0, r->mx, BYTES, NULL));
        AGAIN(rota_buffer_write(r->w[i % 2], r->devices[0], 0, r->mw[i % 2], BYTES, NULL));
        if (!replay(r, i) && !r->lost) trouble(r, "replay %u fails again: %s", i, rota_last_error());
        if (r->lost) return false;
    }
    return true;
}

/* Until it is there. */
static bool write_words(run *r, rota_buffer *buffer, const void *words) {
    AGAIN(rota_buffer_write(buffer, r->devices[0], 0, words, BYTES, NULL));
    if (check(r, buffer, words, true)) return true;
    if (r->lost) return false;
    AGAIN(rota_buffer_write(buffer, r->devices[0], 0, words, BYTES, NULL));
    return check(r, buffer, words, false);
}

static bool middle(run *r, const char *id) {
    static uint32_t large[LARGE_WORDS], back[LARGE_WORDS];
    atomic_store(&phase, DEVICE);
    AGAIN(rota_device_open(r->runtime, id, &r->devices[0]));
    atomic_store(&phase, BUFFERS);
    AGAIN(rota_buffer_create_in(r->runtime, "x", BYTES, &r->x));
    AGAIN(rota_buffer_create_in(r->runtime, "y", BYTES, &r->y));
    AGAIN(rota_buffer_create_in(r->runtime, "z", BYTES, &r->z));
    AGAIN(rota_buffer_create_in(r->runtime, "large", sizeof large, &r->large));
    AGAIN(rota_buffer_create_in(r->runtime, "l", BYTES, &r->l));
    for (uint32_t i = 0; i < 2; i++)
        AGAIN(rota_buffer_create_in(r->runtime, i ? "w1" : "w0", BYTES, &r->w[i]));
    if (with_products) {
        AGAIN(rota_buffer_create_in(r->runtime, "a", BYTES, &r->a));
        AGAIN(rota_buffer_create_in(r->runtime, "c", BYTES, &r->c));
        for (uint32_t i = 0; i < WORDS; i++) r->ma[i] = (float)(i % 7);
        if (!write_words(r, r->a, r->ma)) return false;
    }
    for (uint32_t i = 0; i < WORDS; i++) r->mx[i] = r->mw[0][i] = r->mw[1][i] = i;
    for (uint32_t i = 0; i < 2; i++)
        if (!write_words(r, r->w[i], r->mw[i])) return false;
    AGAIN(rota_buffer_write(r->x, r->devices[0], 0, r->mx, BYTES, NULL));
    if (!check(r, r->x, r->mx, true)) {
        if (r->lost) return false;
        AGAIN(rota_buffer_write(r->x, r->devices[0], 0, r->mx, BYTES, NULL));
    }
    atomic_store(&phase, RECORD);
    if (!record(r)) return false;
    atomic_store(&phase, COMPILE);
    const rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = r->devices, .device_count = 2, .queues = 2, .certify = true);
    AGAIN(rota_compile(r->runtime, r->graph, &options, &r->plan));
    AGAIN(rota_args_create(r->plan, &r->args));
    AGAIN(rota_args_set_input(r->args, r->in, r->input, BYTES, true));
    if (with_products) AGAIN(rota_args_set_input(r->args, r->b, r->mb, BYTES, true));
    AGAIN(rota_args_set_output(r->args, r->out, r->output, BYTES));
    if (!replays(r, 0, REPLAYS)) return false;
    atomic_store(&phase, READ);
    if (!check_all(r, REPLAYS - 1, false)) return false;
    for (uint32_t turn = 0; turn < 2; turn++) {
        rota_ticket ticket;
        memset(back, 0xee, BYTES);
        AGAIN(rota_buffer_read_async(r->y, 0, back, BYTES, &ticket));
        const bool is_good = good(r, "asynchronous read", rota_wait(ticket, 0));
        if (is_good && memcmp(back, r->my, BYTES) != 0)
            trouble(r, "an asynchronous read is OK, and is wrong");
        if (!is_good && back[0] != 0xeeeeeeee)
            trouble(r, "an asynchronous read failed, and changed the memory");
        if (is_good) break;
    }
    atomic_store(&phase, WRITE);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < LARGE_WORDS; i++) large[i] = i * 3;
        AGAIN(rota_buffer_write(r->large, r->devices[0], 0, large, sizeof large, NULL));
        const rota_status status = rota_buffer_read(r->large, 0, back, sizeof back);
        if (!good(r, "large", status)) continue;
        if (memcmp(large, back, sizeof back) != 0) trouble(r, "'large' is read as OK, and is wrong");
        break;
    }
    return true;
}

/* What the other device does, whatever happened to the first. */
static void try_other(run *r) {
    uint32_t words[WORDS], back[WORDS] = {0};
    rota_buffer *buffer = NULL;
    for (uint32_t i = 0; i < WORDS; i++) words[i] = i * 11;
    rota_status status = rota_buffer_create_in(r->runtime, "others", BYTES, &buffer);
    if (status == ROTA_OK) status = rota_buffer_write(buffer, r->devices[1], 0, words, BYTES, NULL);
    if (status == ROTA_OK) status = rota_buffer_read(buffer, 0, back, BYTES);
    if (status != ROTA_OK)
        trouble(r, "the other device: %s: %s", rota_status_name(status), rota_last_error());
    else if (memcmp(words, back, BYTES) != 0)
        trouble(r, "the other device's bytes are wrong");
    rota_buffer_release(buffer);
}

#ifdef ROTA_HAVE_CUDA
static bool has_stub(void) {
    return strcmp(under_test, "vk:0") != 0;
}
#endif

/* Each run opens the one handle that there is. It keeps the lists of its lanes, one more in the first run in
 * which the sequencer comes to it. */
static rota_runtime *handle;
static uint32_t kept_with_handle(void) {
    uint32_t kept = 0;
    for (uint32_t i = 0; handle && i < ROTA_LANE_BLOCKS; i++) kept += handle->handle.lane_next[i] != NULL;
    return kept;
}

__attribute__((noinline)) static void run_once(run *r) {
    outermost = __builtin_return_address(0);
    *r = (run){0};
    atomic_store(&fired, false);
    atomic_store(&vk_lost, false);
    rota_chunk_cache_trim();
    for (uint32_t i = 0; i < SITES_MAX; i++) sites[i].seen = 0;
    planted = planting;
    const uint32_t before = live - kept_with_handle(), abandoned = rota_devices_abandoned();
    const int made_before = made;
#ifdef ROTA_HAVE_CUDA
    if (has_stub()) {
        cuda_stub_start(1, 1);
        for (uint32_t k = 0; k < TEST_KERNEL_COUNT; k++) cuda_stub_kernel(&test_kernels[k].kernel);
        if (strcmp(under_test, "cuda-stub") == 0) cuda_stub_watch(ask_stub);
    }
#endif
    const char *ids[2] = {strcmp(under_test, "cuda-stub") == 0 ? "cuda:0" : under_test,
                          strcmp(under_test, "cpu") == 0 ? "cuda:0" : "cpu"};
    const rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.timeout_ns = 8000000000u, .worker_threads = 2, .staging_slots = 2,
                             .staging_slot_bytes = 65536, .diagnostics = with_diagnostics,
                             .cache_dir = cache_folder);
    atomic_store(&phase, OPEN);
    atomic_store(&counting, true);
    rota_status status = rota_runtime_open(&options, &r->runtime);
    if (!good(r, "open", status)) status = rota_runtime_open(&options, &r->runtime);
    atomic_store(&counting, false);
    handle = r->runtime;
    if (status == ROTA_OK) status = rota_device_open(r->runtime, ids[1], &r->devices[1]);
    if (status != ROTA_OK) {
        trouble(r, "opening again, or the other device: %s", rota_last_error());
        return;
    }
    atomic_store(&counting, true);
    (void)middle(r, ids[0]);
    atomic_store(&counting, false); /* what is new there would fail with reason */
    try_other(r);
    atomic_store(&counting, true);
    atomic_store(&phase, RELEASE);
    rota_args_release(r->args);
    rota_plan_release(r->plan);
    rota_graph_release(r->graph);
    rota_buffer_release(r->x);
    rota_buffer_release(r->y);
    rota_buffer_release(r->z);
    rota_buffer_release(r->large);
    rota_buffer_release(r->l);
    rota_buffer_release(r->w[0]);
    rota_buffer_release(r->w[1]);
    rota_buffer_release(r->a);
    rota_buffer_release(r->c);
    atomic_store(&phase, CLOSE);
    status = rota_runtime_close(r->runtime, 0);
    atomic_store(&counting, false);
    if (status != ROTA_OK) trouble(r, "close: %s: %s", rota_status_name(status), rota_last_error());
    rota_chunk_cache_trim();
    if (rota_devices_abandoned() != abandoned) trouble(r, "a device was abandoned");
#ifdef ROTA_HAVE_CUDA
    if (has_stub()) {
        char text[256];
        if (cuda_stub_alive(text, sizeof text)) trouble(r, "left in the driver: %s", text);
        if (cuda_stub_violations(text, sizeof text)) trouble(r, "violated: %s", text);
        cuda_stub_stop();
    }
#endif
    /* The loader keeps one instance from the first run on. */
    if (wanted_site != UINT32_MAX && made != made_before)
        trouble(r, "%d objects left in the driver", made - made_before);
    if (wanted_site != UINT32_MAX && live - kept_with_handle() != before) {
        trouble(r, "%d blocks of memory left", (int)(live - kept_with_handle() - before));
        if (verbose) print_left();
    }
}

/* ---- All points ---- */

static uint32_t current = UINT32_MAX;

static void describe(uint32_t number) {
    const site *p = &sites[points[number].site];
    fprintf(stderr, "point %u: %s, %s, number %u, result %u, at", number, phase_names[p->phase], p->call,
            points[number].ordinal, points[number].result);
    for (uint32_t i = 0; i < FRAMES && p->frames[i]; i++)
        fprintf(stderr, " %tx", (char *)p->frames[i] - &__executable_start);
    fprintf(stderr, "\n");
}

/* By its site and number, as how many there are, and so their order, is not the same in each process. */
static uint32_t part_of(uint32_t number, uint32_t parts) {
    const uint64_t key = sites[points[number].site].key >> 8;
    return (uint32_t)((key + points[number].ordinal + points[number].result) % parts);
}

/* A hang or a crash says where. */
static void fatal(int signal_number) {
    fprintf(stderr, "signal %d at ", signal_number);
    if (current != UINT32_MAX) describe(current);
    _exit(3);
}

static void empty_cache_folder(void) {
    DIR *folder = opendir(cache_folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) (void)closedir(folder);
}

static plant plant_of(const char *name) {
    static const char *const names[] = {"none", "forgotten", "wrong", "silent", "leak"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return (plant)i;
    fprintf(stderr, "rota-faults: there is no plant '%s'\n", name);
    exit(1);
}

static void list_points(void) {
    uint32_t per_phase[PHASES] = {0}, site_count = 0;
    for (uint32_t p = 0; p < SITES_MAX; p++) {
        if (!sites[p].key) continue;
        site_count++;
        sites[p].count = sites[p].seen;
        for (uint32_t n = 1; n <= sites[p].count && point_count + RESULTS_MAX < POINTS_MAX; n++)
            for (uint32_t result = 0; result < sites[p].results; result++) {
                points[point_count].site = p;
                points[point_count].ordinal = n;
                points[point_count++].result = result;
                per_phase[sites[p].phase]++;
            }
    }
    fprintf(stderr, "%s: %u points at %u places:", under_test, point_count, site_count);
    for (int i = 0; i < PHASES; i++) fprintf(stderr, " %s %u", phase_names[i], per_phase[i]);
    fprintf(stderr, "\n");
}

int main(int argc, char **argv) {
    bool full = false;
    const char *cache = NULL;
    uint32_t some = 0, parts = 0;
    uint64_t seed = 1;
    uint32_t sample = 50, only = UINT32_MAX;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0) full = true;
        if (strcmp(argv[i], "--verbose") == 0) verbose = true;
        if (strcmp(argv[i], "--diagnostics") == 0) with_diagnostics = true;
        if (i + 1 == argc) continue;
        if (strcmp(argv[i], "--some") == 0) some = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--parts") == 0) parts = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--cache") == 0) cache = argv[i + 1];
        if (strcmp(argv[i], "--plant") == 0) planting = plant_of(argv[i + 1]);
        if (strcmp(argv[i], "--device") == 0) under_test = argv[i + 1];
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--sample") == 0) sample = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--only") == 0) only = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    }
#ifdef ROTA_HAVE_CUDA
    if (!test_kernels[0].kernel.cuda.image) return 77;
#else
    if (strcmp(under_test, "vk:0") != 0) return 77;
#endif
    with_products = strcmp(under_test, "cuda-stub") != 0;
    make_library_map();
    if (cache) {
        (void)snprintf(cache_folder, sizeof cache_folder, "/tmp/rota-faults-XXXXXX");
        if (!mkdtemp(cache_folder)) return 1;
    }
    const uint64_t draw = test_day();
    const uint32_t part = parts ? (uint32_t)(draw % parts) : 0;
    if (parts)
        fprintf(stderr, "%s: part %u of %u (ROTA_DRAW=%llu repeats it)\n", under_test, part + 1, parts,
                (unsigned long long)draw);
    (void)signal(SIGALRM, fatal);
#ifndef __SANITIZE_ADDRESS__
    (void)signal(SIGSEGV, fatal);
    (void)signal(SIGABRT, fatal);
#endif
    static run r;
    uint32_t runs = 0, missed = 0, troubles = 0, number = 0;
    /* The first two without a failure: what is made once a process is there after the first, and the second's
     * sites are counted. All runs are called from here, as that is part of their sites. */
    for (uint32_t turn = 0; turn < 2 || number < point_count; turn++) {
        if (turn == 1) memset(sites, 0, sizeof sites);
        if (turn >= 2) {
            const uint32_t now = number++;
            const bool is_sample = sample && test_random(&seed) % point_count < sample;
            if (only != UINT32_MAX ? now != only
                : parts            ? part_of(now, parts) != part
                : some             ? test_random(&seed) % point_count >= some
                                   : !full && points[now].ordinal > 1 && !is_sample)
                continue;
            wanted_site = points[now].site;
            wanted_ordinal = points[now].ordinal;
            wanted_result = points[now].result;
            current = now;
            if (verbose) describe(now);
        }
        if (cache && strcmp(cache, "cold") == 0) empty_cache_folder();
        (void)alarm(PATIENCE_S);
        run_once(&r);
        if (turn < 2 && r.trouble[0]) {
            fprintf(stderr, "without any failure: %s\n", r.trouble);
            return strstr(r.trouble, "there is no device") ? 77 : 1;
        }
        if (turn == 1) list_points();
        if (turn < 2) continue;
        runs++;
        missed += !atomic_load(&fired);
        if (verbose && !atomic_load(&fired)) fprintf(stderr, "  not reached\n");
        if (!r.trouble[0]) continue;
        troubles++;
        describe(current);
        fprintf(stderr, "  %s\n", r.trouble);
    }
    (void)alarm(0);
    fprintf(stderr, "%s: %u runs, %u points not reached, %u with trouble\n", under_test, runs, missed,
            troubles);
    if (cache) {
        empty_cache_folder();
        (void)rmdir(cache_folder);
    }
    if (planting != PLANT_NONE && !troubles) fprintf(stderr, "what was planted is not found\n");
    return (troubles != 0) != (planting != PLANT_NONE);
}
