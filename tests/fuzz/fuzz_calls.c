/* Bytes as calls of the public interface, on two threads over one runtime with the CPU and the adversary:
 * recording, compiling, submitting, waiting and releasing in any order, with arguments that are valid and
 * some that are not. Each call returns a status, of which an error has a sentence; the runtime closes, and
 * nothing is left. */
#include "tests/fuzz/support.h"

#include <pthread.h>
#include "rota.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

enum { GRAPHS = 2, BUFFERS = 6, OF_GRAPH = 12, PLANS = 3, TICKETS = 128, BYTES = 4096, CALLS = 120 };
static const uint64_t patience_ns = 5000000000u;

typedef struct caller {
    rota_runtime *runtime;
    rota_device *devices[2];
    const uint8_t *data;
    size_t left;
    rota_graph *graphs[GRAPHS];
    rota_recorder *recorders[GRAPHS];
    bool closed[GRAPHS];
    rota_buffer *of_graph[GRAPHS][OF_GRAPH];
    uint32_t of_graph_count[GRAPHS];
    rota_slot slots[GRAPHS];
    rota_node nodes[GRAPHS];
    rota_buffer *buffers[BUFFERS]; /* persistent ones, and views */
    rota_plan *plans[PLANS];
    uint32_t graph_of[PLANS]; /* its buffers are there as long as the plan, or the graph */
    rota_graph *held[PLANS];
    rota_args *args[PLANS];
    rota_ticket tickets[TICKETS];
    uint32_t ticket_count;
    uint8_t memory[BYTES];
} caller;

static uint32_t byte(caller *c) {
    if (c->left == 0) return 0;
    c->left--;
    return *c->data++;
}

static uint32_t below(caller *c, uint32_t bound) {
    return byte(c) % bound;
}

/* Mostly small and a multiple of 4. */
static uint64_t number(caller *c) {
    static const uint64_t odd[] = {
        0, 1, 3, 5, 4096, 1u << 20, UINT32_MAX, UINT64_MAX, UINT64_MAX - 3, (uint64_t)1 << 62};
    const uint32_t choice = byte(c);
    return choice < 232 ? choice / 8 * 4 : odd[choice % 10];
}

/* A status is one of the list, and an error says what was wrong. */
static rota_status said(rota_status status) {
    FUZZ_CHECK(strcmp(rota_status_name(status), "UNKNOWN") != 0);
    if (status != ROTA_OK) FUZZ_CHECK(strlen(rota_last_error()) > 8 && strchr(rota_last_error(), ' '));
    return status;
}

static rota_status run_on_host(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count && bytes[i]; i++) *(volatile uint8_t *)operands[i];
    return user ? rota_fail(ROTA_INVALID_ARGUMENT, "the host function was told to fail") : ROTA_OK;
}

/* ---- Recording ---- */

/* Of the graph, or, now and then, of another one or of the runtime. */
static rota_buffer *some_buffer(caller *c, uint32_t g) {
    const uint32_t choice = byte(c);
    if (choice >= 224) g = choice % GRAPHS;
    if (choice % 8 == 0 || c->of_graph_count[g] == 0) return c->buffers[choice / 8 % BUFFERS];
    return c->of_graph[g][choice / 8 % c->of_graph_count[g]];
}

static void make_graph(caller *c, uint32_t g) {
    if (c->graphs[g]) return;
    const rota_graph_options options =
        ROTA_GRAPH_OPTIONS(.name = "fuzzed", .memory_limit_bytes = below(c, 8) ? 0 : number(c));
    if (said(rota_graph_create(&options, &c->graphs[g])) != ROTA_OK) return;
    if (said(rota_recorder_open(c->graphs[g], byte(c), NULL, &c->recorders[g])) != ROTA_OK)
        c->recorders[g] = NULL;
    c->closed[g] = false;
    (void)said(rota_graph_slot(c->graphs[g], "slot", below(c, 9), &c->slots[g]));
}

static void make_graph_buffer(caller *c, uint32_t g) {
    rota_buffer *buffer;
    if (!c->graphs[g] || c->of_graph_count[g] == OF_GRAPH) return;
    static const rota_buffer_kind kinds[] = {ROTA_BUFFER_TRANSIENT, ROTA_BUFFER_TRANSIENT,
                                             ROTA_BUFFER_INPUT,     ROTA_BUFFER_OUTPUT,
                                             ROTA_BUFFER_SLOT,      ROTA_BUFFER_PERSISTENT};
    const rota_buffer_kind kind = kinds[below(c, 6)];
    const uint64_t size = number(c);
    if (said(c->recorders[g] && below(c, 2)
                 ? rota_recorder_buffer(c->recorders[g], kind, "made", size, &buffer)
                 : rota_graph_buffer(c->graphs[g], kind, NULL, size, &buffer)) == ROTA_OK)
        c->of_graph[g][c->of_graph_count[g]++] = buffer;
}

static void record_copy(caller *c, uint32_t g) {
    rota_buffer *to = some_buffer(c, g), *from = some_buffer(c, g);
    const uint64_t offset = number(c), from_offset = number(c), size = number(c);
    if (c->recorders[g] && to && from)
        (void)said(rota_record_copy(c->recorders[g], to, offset, from, from_offset, size, &c->nodes[g]));
}

static void record_fill(caller *c, uint32_t g) {
    rota_buffer *to = some_buffer(c, g);
    const uint64_t offset = number(c), size = below(c, 2) ? ROTA_WHOLE : number(c);
    if (c->recorders[g] && to) (void)said(rota_record_fill(c->recorders[g], to, offset, size, byte(c), NULL));
}

static void record_host(caller *c, uint32_t g) {
    rota_access accesses[3];
    const uint32_t count = below(c, 4);
    bool good = c->recorders[g] != NULL;
    for (uint32_t i = 0; i < count; i++) {
        accesses[i] = (rota_access){some_buffer(c, g), number(c), below(c, 2) ? ROTA_WHOLE : number(c),
                                    (rota_access_mode)below(c, 5)};
        good = good && accesses[i].buffer;
    }
    const rota_host_node node =
        ROTA_HOST_NODE(.fn = below(c, 16) ? run_on_host : NULL, .user = below(c, 8) ? NULL : c,
                       .accesses = accesses, .access_count = count);
    if (good) (void)said(rota_record_host(c->recorders[g], &node, NULL));
}

static void record_op(caller *c, uint32_t g) {
    static const char *const names[] = {"add", "mul", "exp", "copy", "softmax", "sum", "matmul", "fill"};
    rota_op_use use = {.op = rota_op_find(names[below(c, 8)])};
    rota_tape *tape;
    const rota_tape_options options = ROTA_TAPE_OPTIONS(.placement = {below(c, 4), below(c, 4) / 3});
    bool good = c->recorders[g] != NULL;
    use.input_count = use.op->input_count;
    use.output_count = use.op->output_count;
    for (uint32_t i = 0; i < use.input_count + use.output_count; i++) {
        rota_tensor *x = i < use.input_count ? &use.inputs[i] : &use.outputs[i - use.input_count];
        const bool by_hand = below(c, 4) == 0;
        rota_buffer *buffer = some_buffer(c, g);
        const uint64_t offset = number(c), shape[2] = {below(c, 5), below(c, 5)};
        const rota_dtype dtype = below(c, 8) ? ROTA_F32 : (rota_dtype)below(c, ROTA_DTYPE_COUNT);
        if (i >= use.input_count && below(c, 2)) continue; /* to be made */
        if (!buffer) good = false;
        if (!good) break;
        if (by_hand)
            *x = (rota_tensor){buffer, offset, dtype, 2, {shape[0], shape[1]}, {number(c), number(c)}};
        else
            good = said(rota_tensor_of(buffer, offset, dtype, 2, shape, x)) == ROTA_OK;
    }
    use.attributes.axis[0] = below(c, 3);
    if (!good || said(rota_tape_create(c->recorders[g], &options, &tape)) != ROTA_OK) return;
    if (said(rota_op_apply(tape, &use)) == ROTA_OK && below(c, 2)) {
        rota_tensor loss, grad = ROTA_TENSOR_NONE;
        if (said(rota_op_sum_squares(tape, use.outputs[0], &loss)) == ROTA_OK)
            (void)said(rota_backward(tape, loss, &use.inputs[0], 1, &grad, NULL));
    }
    rota_tape_destroy(tape);
}

static void close_recorder(caller *c, uint32_t g) {
    if (!c->recorders[g] || c->closed[g]) return;
    rota_recorder_close(c->recorders[g]);
    c->closed[g] = true;
    c->recorders[g] = NULL;
}

static void drop_graph(caller *c, uint32_t g) {
    close_recorder(c, g);
    rota_graph_release(c->graphs[g]);
    c->graphs[g] = NULL;
    c->of_graph_count[g] = 0;
}

/* ---- Plans ---- */

static void compile(caller *c, uint32_t g, uint32_t p) {
    if (!c->graphs[g] || c->plans[p]) return;
    rota_device *devices[3];
    const uint32_t count = below(c, 4);
    for (uint32_t i = 0; i < count; i++) devices[i] = c->devices[below(c, 2)];
    const rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = count ? devices : NULL, .device_count = count,
                             .packing = (rota_packing)below(c, 2), .queues = below(c, 6),
                             .transfer_queue = below(c, 2), .instances = below(c, 3), .arenas = below(c, 3),
                             .certify = below(c, 2), .allow_undefined_reads = below(c, 2),
                             .memory_limit_bytes = below(c, 8) ? 0 : number(c),
                             .arena_of = below(c, 4) ? NULL : c->plans[below(c, PLANS)]);
    if (below(c, 8)) close_recorder(c, g);
    if (said(rota_compile(c->runtime, c->graphs[g], below(c, 16) ? &options : NULL, &c->plans[p])) !=
        ROTA_OK) {
        c->plans[p] = NULL;
        return;
    }
    c->graph_of[p] = g;
    c->held[p] = c->graphs[g];
    if (said(rota_args_create(c->plans[p], &c->args[p])) != ROTA_OK) c->args[p] = NULL;
    if (!c->args[p]) return;
    /* What is asked for, most of the time, so that most submissions run. */
    for (uint32_t b = 0; b < c->of_graph_count[g] && below(c, 16); b++) {
        rota_buffer *buffer = c->of_graph[g][b];
        const uint64_t size = rota_buffer_size(buffer);
        if (size > BYTES) continue;
        if (rota_buffer_get_kind(buffer) == ROTA_BUFFER_INPUT)
            (void)said(rota_args_set_input(c->args[p], buffer, c->memory, size, below(c, 2)));
        if (rota_buffer_get_kind(buffer) == ROTA_BUFFER_OUTPUT)
            (void)said(rota_args_set_output(c->args[p], buffer, c->memory, size));
        rota_buffer *bound = c->buffers[below(c, BUFFERS)];
        if (rota_buffer_get_kind(buffer) == ROTA_BUFFER_SLOT && bound)
            (void)said(rota_args_set_buffer(c->args[p], buffer, bound));
    }
}

static void set_argument(caller *c, uint32_t p) {
    rota_args *args = c->args[p];
    if (!args) return;
    const uint32_t g = c->graph_of[p];
    const rota_slot slot = {below(c, 4) ? c->slots[g].index : (uint32_t)number(c)};
    rota_buffer *buffer = c->graphs[g] == c->held[p] ? some_buffer(c, g) : NULL,
                *bound = c->buffers[below(c, BUFFERS)];
    const uint64_t size = buffer && below(c, 2) ? rota_buffer_size(buffer) : number(c);
    switch (below(c, 6)) {
    case 0:
        (void)said(rota_args_set_f32(args, slot, 1.5f));
        return;
    case 1:
        (void)said(rota_args_set_u32(args, slot, 7));
        return;
    case 2:
        (void)said(rota_args_set_u64(args, slot, 7));
        return;
    case 3:
        if (buffer && size <= BYTES)
            (void)said(rota_args_set_input(args, buffer, c->memory, size, below(c, 2)));
        return;
    case 4:
        if (buffer && size <= BYTES) (void)said(rota_args_set_output(args, buffer, c->memory, size));
        return;
    default:
        if (buffer && bound) (void)said(rota_args_set_buffer(args, buffer, bound));
    }
}

static void keep_ticket(caller *c, rota_status status, rota_ticket ticket) {
    if (said(status) == ROTA_OK) c->tickets[c->ticket_count++] = ticket;
}

static void submit(caller *c, uint32_t p) {
    rota_ticket ticket = {0};
    if (!c->plans[p]) return;
    rota_args *args = below(c, 8) ? c->args[p] : c->args[below(c, PLANS)];
    const rota_status status =
        below(c, 2) ? rota_submit(c->plans[p], args, &ticket)
                    : rota_submit_wait(c->plans[p], args, 1000000u * (1 + below(c, 3)), &ticket);
    keep_ticket(c, status, ticket);
}

static void drop_plan(caller *c, uint32_t p) {
    if (below(c, 2)) {
        rota_args_release(c->args[p]);
        rota_plan_release(c->plans[p]);
    } else {
        rota_plan_release(c->plans[p]);
        rota_args_release(c->args[p]);
    }
    c->plans[p] = NULL;
    c->args[p] = NULL;
}

static void look_at_plan(caller *c, uint32_t p) {
    char text[200];
    uint64_t length, begin, end;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    if (!c->plans[p]) return;
    const rota_node node = c->nodes[below(c, GRAPHS)];
    (void)said(rota_plan_explain(c->plans[p], node, text, below(c, 200), &length));
    (void)said(rota_plan_node_times(c->plans[p], node, &begin, &end));
    rota_plan_get_stats(c->plans[p], &stats);
}

/* ---- Tickets ---- */

static void counted(void *user, rota_status status, const char *message) {
    (void)user;
    FUZZ_CHECK(status == ROTA_OK || (message && message[0]));
}

static void use_ticket(caller *c) {
    rota_ticket ticket = c->tickets[below(c, c->ticket_count + 1)];
    if (below(c, 8) == 0) ticket.id ^= (uint64_t)1 << below(c, 64);
    if (below(c, 16) == 0) ticket = (rota_ticket){c->runtime, number(c)};
    uint64_t order;
    switch (below(c, 5)) {
    case 0:
        (void)said(rota_poll(ticket));
        return;
    case 1:
        (void)said(rota_wait_inputs_taken(ticket, 1000000u * (1 + below(c, 3))));
        return;
    case 2:
        (void)said(rota_ticket_number(ticket, &order));
        return;
    case 3:
        (void)said(rota_ticket_on_complete(ticket, counted, NULL));
        return;
    default:
        (void)said(rota_wait(ticket, 1000000u * (1 + below(c, 3))));
    }
}

/* ---- Buffers ---- */

static void make_buffer(caller *c, uint32_t b) {
    if (c->buffers[b]) return;
    rota_buffer *parent = c->buffers[below(c, BUFFERS)];
    const uint64_t offset = number(c), size = number(c);
    if (said(parent && below(c, 2)
                 ? rota_buffer_create_view(parent, offset, size, &c->buffers[b])
                 : rota_buffer_create_in(c->runtime, NULL, size, &c->buffers[b])) != ROTA_OK)
        c->buffers[b] = NULL;
}

static void access_buffer(caller *c, uint32_t b) {
    if (!c->buffers[b]) return;
    rota_ticket ticket = {0};
    uint64_t address, offset = number(c), size = number(c);
    const uint32_t what = below(c, 5);
    rota_device *device = below(c, 3) ? c->devices[below(c, 2)] : NULL;
    if (size > BYTES && size <= rota_buffer_size(c->buffers[b]))
        return; /* it would be right, and memory has less */
    switch (what) {
    case 0:
        (void)said(rota_buffer_read(c->buffers[b], offset, c->memory, size));
        return;
    case 1:
        keep_ticket(c, rota_buffer_read_async(c->buffers[b], offset, c->memory, size, &ticket), ticket);
        return;
    case 2:
        if (device && rota_buffer_size(c->buffers[b]) <= BYTES)
            (void)said(rota_buffer_prepare(c->buffers[b], device));
        return;
    case 3:
        if (device) (void)said(rota_buffer_address(c->buffers[b], device, &address));
        return;
    default:
        keep_ticket(c, rota_buffer_write(c->buffers[b], device, offset, c->memory, size, &ticket), ticket);
    }
}

static void drop_buffer(caller *c, uint32_t b) {
    rota_buffer_release(c->buffers[b]);
    c->buffers[b] = NULL;
}

/* ---- All of it ---- */

static void call_one(caller *c) {
    const uint32_t choice = below(c, 20), which = byte(c), g = which % GRAPHS, p = which % PLANS,
                   b = which % BUFFERS;
    if (choice < 1)
        make_graph(c, g);
    else if (choice < 4)
        make_graph_buffer(c, g);
    else if (choice < 5)
        record_copy(c, g);
    else if (choice < 6)
        record_fill(c, g);
    else if (choice < 7)
        record_host(c, g);
    else if (choice < 9)
        record_op(c, g);
    else if (choice < 11)
        compile(c, g, p);
    else if (choice < 12)
        set_argument(c, p);
    else if (choice < 14)
        submit(c, p);
    else if (choice < 15)
        use_ticket(c);
    else if (choice < 16)
        make_buffer(c, b);
    else if (choice < 18)
        access_buffer(c, b);
    else if (which < 64)
        drop_plan(c, p);
    else if (which < 96)
        drop_graph(c, g);
    else if (which < 160)
        drop_buffer(c, b);
    else if (which < 176)
        close_recorder(c, g);
    else
        look_at_plan(c, p);
}

static void *call_all(void *user) {
    caller *c = user;
    for (uint32_t b = 0; b < 2; b++) make_buffer(c, b);
    make_graph(c, 0);
    for (uint32_t i = 0; i < CALLS && c->left > 0; i++) call_one(c);
    for (uint32_t p = 0; p < PLANS; p++) drop_plan(c, p);
    /* Outputs of theirs go to the caller's memory. */
    for (uint32_t t = 0; t < c->ticket_count; t++)
        FUZZ_CHECK(said(rota_wait(c->tickets[t], patience_ns)) != ROTA_TIMEOUT);
    for (uint32_t g = 0; g < GRAPHS; g++) drop_graph(c, g);
    for (uint32_t b = 0; b < BUFFERS; b++) drop_buffer(c, b);
    return NULL;
}

/* A runtime is for so many inputs, as opening one takes as long as some. */
enum { INPUTS = 64 };
static adversary_options adversary;
static rota_runtime *runtime;
static rota_device *devices[2];

static void open_runtime(const uint8_t *data) {
    memset(&adversary, 0, sizeof adversary);
    adversary.mode = (adversary_mode)(data[1] % 3);
    adversary.unified_host = data[1] & 8;
    adversary.no_host_nodes = data[1] & 16;
    const rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.timeout_ns = patience_ns, .worker_threads = 1 + (data[2] & 1),
                             .queues_per_device = 1 + data[2] / 2 % 3, .diagnostics = data[2] & 16,
                             .memory_limit_bytes = 1u << 24, .staging_slots = 2, .staging_slot_bytes = 65536,
                             .cache_dir = "");
    FUZZ_CHECK(rota_runtime_open(&options, &runtime) == ROTA_OK);
    FUZZ_CHECK(rota_runtime_add_driver(runtime, &adversary_driver, &adversary) == ROTA_OK);
    FUZZ_CHECK(rota_device_open(runtime, "cpu", &devices[0]) == ROTA_OK);
    FUZZ_CHECK(rota_device_open(runtime, "adversary", &devices[1]) == ROTA_OK);
}

static void close_runtime(void) {
    if (runtime) FUZZ_CHECK(rota_runtime_close(runtime, patience_ns) == ROTA_OK);
    runtime = NULL;
    if (adversary.violations) fuzz_failed(adversary.violation, __FILE__, __LINE__);
    FUZZ_CHECK(rota_devices_abandoned() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static caller callers[2];
    static uint32_t inputs;
    pthread_t other;
    if (size < 8) return -1;
    if (inputs == 0) atexit(close_runtime);
    if (inputs++ % INPUTS == 0) close_runtime();
    if (!runtime) open_runtime(data);
    adversary.seed = data[0];
    memset(callers, 0, sizeof callers);
    for (uint32_t i = 0; i < 2; i++) {
        callers[i].runtime = runtime;
        memcpy(callers[i].devices, devices, sizeof devices);
    }
    callers[0].data = data + 3;
    callers[0].left = (size - 3) / 2;
    callers[1].data = callers[0].data + callers[0].left;
    callers[1].left = size - 3 - callers[0].left;
    FUZZ_CHECK(pthread_create(&other, NULL, call_all, &callers[1]) == 0);
    (void)call_all(&callers[0]);
    pthread_join(other, NULL);
    if (adversary.violations) fuzz_failed(adversary.violation, __FILE__, __LINE__);
    return 0;
}
