/* Runs the probes that tests/interface/misuse.py wrote, each in a process that may die of it: one goes on with the next
 * probes as long as it lives. test_misuse [FUNCTION]: only those of one function, and what each said. */
#include "ops/dlpack_abi.h"
#include "tests/interface/misuse.h"

#include "graph/graph_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_SECONDS 10
#define UNTOUCHED "nothing was said"

misuse_world w;
static const misuse_probe *probe;

/* What one process leaves for the one that looks after it. */
typedef struct outcome {
    bool ended, fresh; /* fresh: the call left a sentence */
    rota_status status;
    char said[256];
} outcome;
static struct {
    volatile uint32_t current;
    volatile bool begun; /* the world is made: what happens now is the call's doing */
    outcome of[];
} * shared;

#define MUST(call)                                                                                           \
    do {                                                                                                     \
        if ((call) != ROTA_OK) {                                                                             \
            fprintf(stderr, "%s: %s\n", #call, rota_last_error());                                           \
            _exit(2);                                                                                        \
        }                                                                                                    \
    } while (0)

/* ---- What calls are given ---- */

static rota_status kernel_fn(const rota_kernel_call *call) {
    memset(call->operands[0], 0, call->operand_bytes[0]);
    return ROTA_OK;
}
static const rota_kernel_bindable bindable = {.name = "value", .size_bytes = 4, .type = ROTA_VALUE_F32};
const rota_kernel misuse_kernel = {.name = "misuse",
                                   .operand_count = 1,
                                   .param_bytes = 4,
                                   .bindables = &bindable,
                                   .bindable_count = 1,
                                   .cpu = {.fn = kernel_fn}};

rota_status misuse_host(void *user, void *const *operands, const uint64_t *operand_bytes,
                        uint32_t operand_count) {
    (void)user, (void)operands, (void)operand_bytes, (void)operand_count;
    return ROTA_OK;
}

rota_status misuse_rewrite(void *user, rota_rewriter *rewriter) {
    (void)user, (void)rewriter;
    return ROTA_OK;
}

void misuse_ended(void *user, rota_status status, const char *message) {
    (void)user, (void)status, (void)message;
}

rota_tensor misuse_tensor(uint32_t number, rota_dtype dtype, uint32_t rank, const uint64_t *shape) {
    rota_tensor tensor;
    MUST(rota_tensor_of(w.buffer, (uint64_t)number * MISUSE_TENSOR_BYTES, dtype, rank, shape, &tensor));
    return tensor;
}

rota_tensor misuse_tensor_dtype(rota_tensor tensor) {
    tensor.dtype = (rota_dtype)77;
    return tensor;
}

rota_tensor misuse_tensor_rank(rota_tensor tensor) {
    tensor.rank = 1000;
    return tensor;
}

rota_tensor misuse_tensor_offset(rota_tensor tensor) {
    tensor.offset_bytes = UINT64_MAX - 3;
    return tensor;
}

rota_runtime *misuse_new_runtime(void) {
    rota_runtime *runtime;
    MUST(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = ""), &runtime));
    return runtime;
}

rota_buffer *misuse_new_buffer(void) {
    rota_buffer *buffer;
    MUST(rota_buffer_create("new", 256, &buffer));
    return buffer;
}

rota_graph *misuse_new_graph(void) {
    rota_graph *graph;
    MUST(rota_graph_create(NULL, &graph));
    return graph;
}

rota_recorder *misuse_take_recorder(void) {
    rota_recorder *recorder = w.recorder;
    w.recorder = NULL;
    return recorder;
}

rota_graph *misuse_new_body(void) {
    static rota_graph *last; /* with a reference of its own, beside the one that a node may have taken */
    if (last) {
        const bool is_taken = last->is_taken;
        if (!is_taken) rota_graph_release(last);
        rota_graph_release(last);
    }
    last = NULL;
    if (rota_graph_create_body(w.graph, NULL, &last) != ROTA_OK) return w.graph; /* it is compiled */
    rota_graph_retain(last);
    return last;
}

rota_graph *misuse_closed_graph(void) {
    rota_recorder_close(misuse_take_recorder());
    return w.graph;
}

rota_plan *misuse_new_plan(void) {
    rota_plan_retain(w.plan);
    return w.plan;
}

rota_args *misuse_new_args(void) {
    rota_args *args;
    /* Not of a runtime that was closed. */
    return rota_args_create(w.plan, &args) == ROTA_OK ? args : NULL;
}

void *misuse_managed(void) {
    static int64_t shape[] = {4};
    static rota_dlpack_unversioned managed = {.tensor = {.device_type = ROTA_DLPACK_CPU,
                                                         .rank = 1,
                                                         .code = ROTA_DLPACK_FLOAT,
                                                         .bits = 32,
                                                         .lanes = 1,
                                                         .shape = shape}};
    managed.tensor.data = misuse_pages;
    return &managed;
}

rota_communicator *misuse_new_communicator(void) {
    rota_communicator *made;
    const rota_communicator_options options = ROTA_COMMUNICATOR_OPTIONS(.transport = "alone");
    /* Likewise. */
    return rota_communicator_open(w.runtime, &options, &made) == ROTA_OK ? made : NULL;
}

rota_communicator *misuse_alone(void) {
    (void)rota_communicator_close(w.alone, 0);
    w.alone = misuse_new_communicator();
    return w.alone;
}

rota_external_timeline *misuse_new_timeline(void) {
    rota_external_timeline *timeline;
    /* Likewise. */
    return rota_external_timeline_create(w.runtime, "new", &timeline) == ROTA_OK ? timeline : NULL;
}

rota_device *misuse_new_device(void) {
    rota_device *device;
    MUST(rota_open("cpu", &ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = ""), &device));
    return device;
}

/* With an op; not of a runtime that was closed. */
rota_tape *misuse_device_tape(void) {
    rota_tape *tape;
    if (probe->end == MISUSE_RUNTIME) return w.tape;
    MUST(rota_tape_create_on(w.device, NULL, &tape));
    MUST(rota_op_exp_into(tape, w.tensors[0], w.tensors[1]));
    return tape;
}

rota_tape *misuse_take_tape(void) {
    rota_tape *tape = w.tape;
    w.tape = NULL;
    return tape;
}

_Alignas(64) uint8_t misuse_pages[64];

int misuse_eventfd(void) {
    static int descriptor = -1;
    if (descriptor < 0) descriptor = eventfd(0, EFD_CLOEXEC);
    return descriptor;
}

const rota_gradient_write *misuse_begun(void) {
    if (probe->context == MISUSE_GRADIENT) MUST(rota_gradient_begin(w.tape, &w.use.inputs[0], &w.write));
    return &w.write;
}

/* ---- The world ---- */

static rota_status node(rota_recorder *recorder, rota_buffer *buffer, rota_node *out_node) {
    const rota_access access = {buffer, 0, 64, ROTA_WRITE};
    const uint32_t params[1] = {0};
    const rota_param_binding binding = {0, ROTA_SLOT_CONSTANT};
    return rota_record_kernel(recorder,
                              &ROTA_KERNEL_NODE(.kernel = &misuse_kernel, .accesses = &access,
                                                .access_count = 1, .params = params, .bindings = &binding,
                                                .binding_count = 1),
                              out_node);
}

static void set_args(rota_args *args) {
    MUST(rota_args_set_input(args, w.input, w.data, 64, true));
    MUST(rota_args_set_output(args, w.output, w.data, 64));
    MUST(rota_args_set_buffer(args, w.slot_buffer, w.other));
    MUST(rota_args_set_f32(args, w.f32_slot, 1));
}

static void make_plan(void) {
    rota_recorder *recorder;
    MUST(rota_graph_create(NULL, &w.planned));
    MUST(rota_graph_slot(w.planned, "f32", 4, &w.f32_slot));
    MUST(rota_graph_slot(w.planned, "u32", 4, &w.u32_slot));
    MUST(rota_graph_slot(w.planned, "u64", 8, &w.u64_slot));
    MUST(rota_graph_buffer(w.planned, ROTA_BUFFER_INPUT, "input", 64, &w.input));
    MUST(rota_graph_buffer(w.planned, ROTA_BUFFER_OUTPUT, "output", 64, &w.output));
    MUST(rota_graph_buffer(w.planned, ROTA_BUFFER_SLOT, "slot", 64, &w.slot_buffer));
    MUST(rota_recorder_open(w.planned, 0, "planned", &recorder));
    MUST(node(recorder, w.buffer, &w.planned_node));
    MUST(rota_record_copy(recorder, w.output, 0, w.input, 0, 64, NULL));
    MUST(rota_record_copy(recorder, w.buffer, 0, w.slot_buffer, 0, 64, NULL));
    const rota_access access = {w.buffer, 64, 64, ROTA_WRITE};
    const rota_param_binding binding = {0, w.f32_slot};
    MUST(
        rota_record_kernel(recorder,
                           &ROTA_KERNEL_NODE(.kernel = &misuse_kernel, .accesses = &access, .access_count = 1,
                                             .params = w.params, .bindings = &binding, .binding_count = 1),
                           NULL));
    rota_recorder_close(recorder);
    MUST(rota_compile(w.runtime, w.planned, &ROTA_COMPILE_OPTIONS(.devices = &w.device, .device_count = 1),
                      &w.plan));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    MUST(rota_plan_get_stats(w.plan, &stats));
    w.commands = stats.commands;
    rota_args *args = misuse_new_args();
    set_args(args);
    MUST(rota_submit(w.plan, args, &w.ticket));
    MUST(rota_wait(w.ticket, 0));
    rota_args_release(args);
}

static rota_sharding *last_sharding;

rota_sharding *misuse_sharding(void) {
    rota_tensor grads[1] = {ROTA_TENSOR_NONE};
    rota_sharding_release(last_sharding);
    last_sharding = NULL;
    if (rota_sharding_create(w.communicators[0], &last_sharding) != ROTA_OK) return NULL;
    const rota_data_parallel parallel =
        ROTA_DATA_PARALLEL(.communicator = w.communicators[0], .sharding = last_sharding);
    (void)rota_backward(w.tape, w.loss, w.tensors, 1, grads,
                        &ROTA_BACKWARD_OPTIONS(.data_parallel = &parallel));
    return last_sharding;
}

rota_sharding *misuse_group(void) {
    rota_sharding_release(last_sharding);
    last_sharding = NULL;
    (void)rota_sharding_create_group(w.communicators[0], w.tensors, 1, &last_sharding);
    return last_sharding;
}

rota_tensor misuse_shard(void) {
    return misuse_tensor(6, ROTA_F32, 1, (const uint64_t[]){64});
}

rota_sharding *misuse_take_sharding(void) {
    rota_sharding *sharding = misuse_sharding();
    last_sharding = NULL;
    return sharding;
}

rota_graph_file *misuse_new_file(void) {
    rota_graph_file *file;
    /* Likewise. */
    return rota_graph_load(w.file_path, &ROTA_GRAPH_LOAD_OPTIONS(.runtime = w.runtime), &file) == ROTA_OK
               ? file
               : NULL;
}

/* A graph in memory that has a file's name, and what is loaded from there; none without libcbor. */
static void make_file(void) {
#ifdef ROTA_HAVE_CBOR
    static const uint8_t zeroes[64];
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *buffer;
    rota_slot slot;
    (void)snprintf(w.file_path, sizeof w.file_path, "/proc/self/fd/%d", memfd_create("graph", MFD_CLOEXEC));
    MUST(rota_buffer_create("filed", sizeof zeroes, &buffer));
    MUST(rota_graph_create(NULL, &graph));
    MUST(rota_graph_slot(graph, "slot", 4, &slot));
    MUST(rota_recorder_open(graph, 0, "filed", &recorder));
    MUST(rota_record_fill(recorder, buffer, 0, sizeof zeroes, 0, NULL));
    rota_recorder_close(recorder);
    const rota_graph_file_bytes result = {buffer, zeroes, 0};
    MUST(
        rota_graph_save(graph, &ROTA_GRAPH_SAVE_OPTIONS(.results = &result, .result_count = 1), w.file_path));
    rota_graph_release(graph);
    rota_buffer_release(buffer);
    MUST(rota_graph_load(w.file_path, &ROTA_GRAPH_LOAD_OPTIONS(.runtime = w.runtime), &w.file));
    MUST(rota_graph_file_prepare(w.file, w.device, NULL));
#endif
}

static void open_world(void) {
    static const float zeroes[MISUSE_BUFFER_BYTES / sizeof(float)];
    w = (misuse_world){0};
    MUST(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "",
                                                 .timeout_ns = 5000000000u, .diagnostics = true),
                           &w.runtime));
    MUST(rota_device_open(w.runtime, "cpu", &w.device));
    MUST(rota_buffer_create_in(w.runtime, "buffer", MISUSE_BUFFER_BYTES, &w.buffer));
    MUST(rota_buffer_create_in(w.runtime, "other", MISUSE_BUFFER_BYTES, &w.other));
    MUST(rota_buffer_write(w.buffer, w.device, 0, zeroes, sizeof zeroes, NULL));
    MUST(rota_buffer_write(w.other, w.device, 0, zeroes, sizeof zeroes, NULL));
    MUST(rota_buffer_create("loose", 4096, &w.loose));
    MUST(rota_external_timeline_create(w.runtime, "timeline", &w.timeline));
    MUST(rota_communicator_open_ranks((rota_runtime *[2]){w.runtime, misuse_new_runtime()}, 2, NULL,
                                      w.communicators));
    make_plan();
    make_file();
}

static void open_probe(void) {
    const uint64_t shape[] = {4, 4};
    for (uint32_t i = 0; i < 4; i++) {
        w.tensors[i] = misuse_tensor(i, ROTA_F32, 2, shape);
        w.out_tensors[i] = w.grads[i] = ROTA_TENSOR_NONE;
    }
    for (uint32_t i = 0; i < ROTA_RANK_MAX; i++) w.shape[i] = 4, w.order[i] = i;
    w.tensor = misuse_tensor(5, ROTA_F32, 2, shape);
    w.out_tensor = ROTA_TENSOR_NONE;
    w.accesses[0] = (rota_access){w.buffer, 0, 64, ROTA_WRITE};
    w.bindings[0] = (rota_param_binding){0, ROTA_SLOT_CONSTANT};
    w.use = (rota_op_use){rota_op_find("add"), 2, 1, .inputs = {w.tensors[0], w.tensors[1]}};
    w.infos[0] = ROTA_DEVICE_INFO();
    w.plan_commands[0] = ROTA_PLAN_COMMAND();
    w.out_u32 = 0;
    MUST(rota_graph_create(NULL, &w.graph));
    MUST(rota_graph_slot(w.graph, "slot", 4, &w.slot));
    MUST(rota_recorder_open(w.graph, 1, "lane", &w.recorder));
    MUST(rota_tape_create(w.recorder, NULL, &w.tape));
    MUST(node(w.recorder, w.buffer, &w.earlier));
    MUST(node(w.recorder, w.buffer, &w.later));
    MUST(rota_op_mse(w.tape, w.tensors[0], w.tensors[1], &w.loss));
    w.args = misuse_new_args();
    set_args(w.args);
}

/* Device and persistent buffers stay; not those of a runtime that was closed. */
static void close_probe(bool runtime_ended) {
    rota_args_release(w.args);
    rota_tape_destroy(w.tape);
    rota_recorder_close(w.recorder);
    rota_graph_release(w.graph);
    w.recorder = NULL;
    if (!runtime_ended) return;
    rota_plan_release(w.plan);
    rota_graph_release(w.planned);
    rota_buffer_release(w.buffer);
    rota_buffer_release(w.other);
    rota_buffer_release(w.loose);
    rota_external_timeline_release(w.timeline);
    (void)rota_communicator_close(w.communicators[0], 0);
    (void)rota_communicator_close(w.communicators[1], 0);
    (void)rota_communicator_close(w.alone, 0);
    w.alone = NULL;
    open_world();
}

/* ---- One probe ---- */

static bool was_called;

static void call(void) {
    outcome *out = &shared->of[shared->current];
    was_called = true;
    (void)rota_fail(ROTA_INTERNAL, UNTOUCHED);
    out->status = probe->call();
    const char *said = rota_last_error();
    out->fresh = *said && strcmp(said, UNTOUCHED) != 0;
    (void)snprintf(out->said, sizeof out->said, "%s", said);
}

static rota_status in_rewrite(void *user, rota_rewriter *rewriter) {
    (void)user;
    w.rewriter = rewriter;
    call();
    w.rewriter = NULL;
    return ROTA_OK;
}

static rota_status op_shape(const rota_op_use *use, rota_tensor *out_outputs) {
    return rota_shape_like(&use->inputs[0], ROTA_F32, &out_outputs[0]);
}
static rota_status op_record(rota_tape *tape, rota_op_use *use) {
    const rota_access access = rota_tensor_write(&use->outputs[0]);
    const rota_param_binding binding = {0, ROTA_SLOT_CONSTANT};
    return rota_tape_kernel(tape, &misuse_kernel, &access, 1, w.params, &binding, 1);
}
static rota_status op_gradient(rota_tape *tape, const rota_op_use *use) {
    (void)tape;
    w.use = *use;
    call();
    return ROTA_OK;
}
static const rota_op gradient_op = {.name = "misuse",
                                    .input_count = 1,
                                    .output_count = 1,
                                    .input_names = {"x"},
                                    .output_names = {"y"},
                                    .shape = op_shape,
                                    .record = op_record,
                                    .gradient = op_gradient,
                                    .differentiable = 1};

static void call_in_place(void) {
    const uint64_t one[] = {1};
    rota_tensor x = misuse_tensor(6, ROTA_F32, 1, one), gradient = ROTA_TENSOR_NONE;
    rota_op_use use = {&gradient_op, 1, 1, .inputs = {x}};
    rota_plan *plan;
    switch (probe->context) {
    case MISUSE_REWRITE:
        rota_recorder_close(misuse_take_recorder());
        MUST(rota_graph_add_rewrite(w.graph, in_rewrite, NULL));
        if (rota_compile(w.runtime, w.graph, NULL, &plan) == ROTA_OK) rota_plan_release(plan);
        break;
    case MISUSE_GRADIENT:
        MUST(rota_op_apply(w.tape, &use));
        (void)rota_backward(w.tape, use.outputs[0], &x, 1, &gradient, NULL);
        break;
    default:
        call();
    }
}

static void run(void) {
    open_probe();
    if (probe->end == MISUSE_RECORDER) {
        rota_plan *plan;
        rota_recorder_close(w.recorder);
        MUST(rota_compile(w.runtime, w.graph, NULL, &plan));
        rota_plan_release(plan);
    } else if (probe->end == MISUSE_RUNTIME) {
        MUST(rota_runtime_close(w.runtime, 5000000000u));
    }
    shared->begun = true;
    was_called = false;
    call_in_place();
    if (!was_called) {
        fprintf(stderr, "%s: the place of the call was not reached: %s\n", probe->function,
                rota_last_error());
        _exit(2);
    }
    if (probe->end == MISUSE_RECORDER) w.recorder = NULL; /* closed */
    close_probe(probe->end == MISUSE_RUNTIME);
    shared->begun = false;
    shared->of[shared->current].ended = true;
}

/* ---- All of them ---- */

char misuse_folder[32] = "/tmp/rota-misuse-XXXXXX";

static void remove_folder(void) {
    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", misuse_folder);
    if (system(command) != 0) perror(command);
}

static bool is_asked_for(const misuse_probe *one, const char *function) {
    return !function || strcmp(one->function, function) == 0;
}

static void child(uint32_t first, const char *function) {
    alarm(PROBE_SECONDS);
    open_world();
    for (uint32_t i = first; i < misuse_probe_count; i++) {
        probe = &misuse_probes[i];
        if (!is_asked_for(probe, function)) continue;
        shared->current = i;
        alarm(PROBE_SECONDS);
        run();
    }
    _exit(0); /* the runtime's threads end with the process */
}

/* What is wrong with an outcome; NULL: nothing. */
static const char *judge(const misuse_probe *one, const outcome *out) {
    if (one->expected == MISUSE_NO_STATUS) return NULL;
    if (one->expected == MISUSE_RIGHT) return out->status == ROTA_OK ? NULL : "expected OK";
    if (out->status == ROTA_OK) return one->expected == MISUSE_ALLOWED ? NULL : "expected an error";
    if ((unsigned)out->status >= ROTA_STATUS_COUNT) return "that is no status";
    if (!out->fresh) return "expected a sentence";
    if (one->expected == MISUSE_NULL && out->status != ROTA_INVALID_ARGUMENT)
        return "expected INVALID_ARGUMENT";
    if (one->expected == MISUSE_NULL && !strstr(out->said, "NULL"))
        return "expected a sentence that says NULL";
    return NULL;
}

int main(int argc, char **argv) {
    const char *function = argc > 1 ? argv[1] : NULL;
    const size_t bytes = sizeof *shared + misuse_probe_count * sizeof shared->of[0];
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return perror("mmap"), 1;
    if (!mkdtemp(misuse_folder)) return perror("mkdtemp"), 1;
    (void)atexit(remove_folder); /* children leave by _exit */
    uint32_t faults = 0, deaths = 0, probes = 0, functions = 0;
    for (uint32_t next = 0; next < misuse_probe_count;) {
        shared->current = UINT32_MAX;
        shared->begun = false;
        const pid_t process = fork();
        if (process < 0) return perror("fork"), 1;
        if (process == 0) child(next, function);
        int status;
        if (waitpid(process, &status, 0) != process) return perror("waitpid"), 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        const uint32_t current = shared->current;
        if (current == UINT32_MAX || !shared->begun) {
            fprintf(stderr, "%s: no world to call in\n",
                    current == UINT32_MAX ? "the first" : misuse_probes[current].function);
            return 1;
        }
        const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        printf("%s, %s: %s\n", misuse_probes[current].function, misuse_probes[current].what,
               number == SIGALRM ? "it does not return"
               : number          ? strsignal(number)
                                 : "the process ended");
        deaths++;
        next = current + 1;
    }
    for (uint32_t i = 0; i < misuse_probe_count; i++) {
        const misuse_probe *one = &misuse_probes[i];
        const outcome *out = &shared->of[i];
        if (!is_asked_for(one, function)) continue;
        probes++;
        functions += i == 0 || strcmp(one->function, misuse_probes[i - 1].function) != 0;
        const char *wrong = out->ended ? judge(one, out) : NULL;
        faults += wrong != NULL;
        if (wrong || (function && out->ended))
            printf("%s, %s: %s%s%s%s%s\n", one->function, one->what, rota_status_name(out->status),
                   out->fresh ? ": " : "", out->fresh ? out->said : "", wrong ? "; " : "",
                   wrong ? wrong : "");
    }
    printf("%u functions, %u calls, of which %u ended the process and %u answered wrongly\n", functions,
           probes, deaths, faults);
    if (probes == 0) return fprintf(stderr, "there is no such function\n"), 1;
    return deaths + faults > 0;
}
