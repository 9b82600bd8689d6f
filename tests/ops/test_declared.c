/* Declared sets: every kernel that the ops record, run alone with every buffer snapshotted, on every
 * executor. Bytes changed outside the declared writes fail, and so does a byte of a declared WRITE that keeps
 * its poison: each node runs twice, over two poisons, and what was written is the same both times. */
#include "tests/kit/support.h"
#include "tests/kit/todays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sched/rewrite.h"
#include "tests/conformance/examples.h"
#include "tests/ops/fuse_graph.h"

enum { GUARD = 256, NODES_MAX = 64, BUFFERS_MAX = 64 };

typedef struct seen_node {
    const rota_kernel *kernel;
    uint8_t params[ROTA_KERNEL_PARAM_BYTES_MAX];
    rota_access access[ROTA_KERNEL_OPERANDS_MAX];
    uint32_t access_count;
} seen_node;

typedef struct seen {
    seen_node nodes[NODES_MAX];
    uint32_t node_count;
    struct {
        rota_buffer *root; /* of the recorded graph */
        uint64_t bytes;
        rota_buffer *handle; /* stands for it, with guards on both sides */
        uint8_t *now, *before;
    } buffers[BUFFERS_MAX];
    uint32_t buffer_count;
} seen;

static uint32_t buffer_index(seen *s, rota_buffer *root) {
    for (uint32_t b = 0; b < s->buffer_count; b++)
        if (s->buffers[b].root == root) return b;
    assert_true(s->buffer_count < BUFFERS_MAX);
    s->buffers[s->buffer_count].root = root;
    s->buffers[s->buffer_count].bytes = rota_buffer_size(root);
    return s->buffer_count++;
}

/* The rewrite hook changes nothing; it is where the recorded nodes can be looked at. */
static rota_status look(void *user, rota_rewriter *rewriter) {
    seen *s = user;
    uint64_t count = rota_rewriter_node_count(rewriter);
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (s->node_count == NODES_MAX) return rota_fail(ROTA_OUT_OF_RANGE, "more than %d nodes", NODES_MAX);
        seen_node *node = &s->nodes[s->node_count++];
        node->kernel = view.kernel;
        node->access_count = view.access_count;
        if (view.access_count) /* else removed */
            memcpy(node->access, view.accesses, view.access_count * sizeof *node->access);
        if (view.kernel && view.kernel->param_bytes)
            memcpy(node->params, view.params, view.kernel->param_bytes);
        for (uint32_t k = 0; k < view.access_count; k++) {
            uint32_t b = buffer_index(s, view.accesses[k].buffer);
            if (node->access[k].size_bytes == ROTA_WHOLE)
                node->access[k].size_bytes = s->buffers[b].bytes - node->access[k].offset_bytes;
        }
    }
    return ROTA_OK;
}

static uint8_t *bytes_of(seen *s, const rota_access *access) {
    return s->buffers[buffer_index(s, access->buffer)].now + GUARD + access->offset_bytes;
}

/* Whether the write of access k is to bytes that the node also reads. */
static bool is_in_place(const seen_node *node, uint32_t k) {
    for (uint32_t e = 0; e < node->access_count; e++)
        if (e != k && node->access[e].buffer == node->access[k].buffer &&
            node->access[e].offset_bytes < node->access[k].offset_bytes + node->access[k].size_bytes &&
            node->access[k].offset_bytes < node->access[e].offset_bytes + node->access[e].size_bytes)
            return true;
    return false;
}

/* Copies and fills between the kernels: done here, so that the next kernel has its inputs. */
static void do_on_host(seen *s, const seen_node *node) {
    if (node->access_count == 2)
        memcpy(bytes_of(s, &node->access[0]), bytes_of(s, &node->access[1]), node->access[0].size_bytes);
    else
        memset(bytes_of(s, &node->access[0]), 0, node->access[0].size_bytes);
}

static rota_status compile_alone(seen *s, const seen_node *node, rota_device *device, rota_plan **out_plan) {
    rota_graph *graph = NULL;
    rota_recorder *recorder = NULL;
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    rota_param_binding bindings[ROTA_KERNEL_BINDABLE_MAX];
    uint32_t bound = 0;
    for (uint32_t b = 0; b < node->kernel->bindable_count; b++)
        if (node->kernel->bindables[b].varies_by_step)
            bindings[bound++] = (rota_param_binding){b, ROTA_SLOT_CONSTANT};
    for (uint32_t k = 0; k < node->access_count; k++) {
        accesses[k] = node->access[k];
        accesses[k].buffer = s->buffers[buffer_index(s, node->access[k].buffer)].handle;
        accesses[k].offset_bytes += GUARD;
    }
    ROTA_TRY(rota_graph_create(NULL, &graph));
    ROTA_TRY(rota_recorder_open(graph, 1, NULL, &recorder));
    rota_status status = rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = node->kernel, .accesses = accesses, .access_count = node->access_count,
                          .params = node->params, .bindings = bindings, .binding_count = bound),
        NULL);
    rota_recorder_close(recorder);
    if (status == ROTA_OK)
        status = rota_compile(rota_device_runtime(device), graph,
                              &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), out_plan);
    rota_graph_release(graph);
    return status;
}

static bool in_declared_write(const seen *s, const seen_node *node, uint32_t buffer, uint64_t byte,
                              bool only_write) {
    for (uint32_t k = 0; k < node->access_count; k++) {
        const rota_access *access = &node->access[k];
        if (access->mode == ROTA_READ || s->buffers[buffer].root != access->buffer) continue;
        if (only_write && (access->mode != ROTA_WRITE || is_in_place(node, k))) continue;
        if (byte >= GUARD + access->offset_bytes && byte < GUARD + access->offset_bytes + access->size_bytes)
            return true;
    }
    return false;
}

/* Runs the node over one poison; `now` holds what came of it. */
static void run_over(seen *s, const seen_node *node, rota_plan *plan, rota_device *device, int poison) {
    for (uint32_t k = 0; k < node->access_count; k++)
        if (node->access[k].mode == ROTA_WRITE && !is_in_place(node, k))
            memset(bytes_of(s, &node->access[k]), poison, node->access[k].size_bytes);
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        uint64_t bytes = s->buffers[b].bytes + 2 * GUARD;
        memcpy(s->buffers[b].before, s->buffers[b].now, bytes);
        assert_ok(rota_buffer_write(s->buffers[b].handle, device, 0, s->buffers[b].now, bytes, NULL));
    }
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, &ticket));
    assert_ok(rota_wait(ticket, CONF_PATIENCE_NS));
    for (uint32_t b = 0; b < s->buffer_count; b++)
        assert_ok(
            rota_buffer_read(s->buffers[b].handle, 0, s->buffers[b].now, s->buffers[b].bytes + 2 * GUARD));
}

typedef enum verdict { GOOD, NOT_HERE, STRAYS, LEAVES } verdict;

/* NOT_HERE: the device has no such kernel. Where it finds something, `message` says what. */
static verdict check_node(seen *s, const seen_node *node, rota_device *device, char *message,
                          size_t capacity) {
    verdict found = GOOD;
    enum { POISON_A = 0xa5, POISON_B = 0x3c };
    rota_plan *plan = NULL;
    rota_status status = compile_alone(s, node, device, &plan);
    if (status == ROTA_UNSUPPORTED) return NOT_HERE;
    assert_ok(status);
    uint8_t *start[BUFFERS_MAX], *first[BUFFERS_MAX];
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        uint64_t bytes = s->buffers[b].bytes + 2 * GUARD;
        start[b] = malloc(bytes);
        first[b] = malloc(bytes);
        assert_true(start[b] && first[b]);
        memcpy(start[b], s->buffers[b].now, bytes);
    }
    run_over(s, node, plan, device, POISON_A);
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        uint64_t bytes = s->buffers[b].bytes + 2 * GUARD;
        for (uint64_t i = 0; i < bytes; i++)
            if (s->buffers[b].now[i] != s->buffers[b].before[i] && !in_declared_write(s, node, b, i, false)) {
                found = STRAYS;
                snprintf(message, capacity,
                         "kernel '%s' changes byte %lld of buffer %u, which it does not declare",
                         node->kernel->name, (long long)i - GUARD, b);
            }
        memcpy(first[b], s->buffers[b].now, bytes);
        memcpy(s->buffers[b].now, start[b], bytes);
    }
    run_over(s, node, plan, device, POISON_B);
    for (uint32_t b = 0; b < s->buffer_count; b++)
        for (uint64_t i = 0; i < s->buffers[b].bytes + 2 * GUARD; i++)
            if (in_declared_write(s, node, b, i, true) && s->buffers[b].now[i] == POISON_B &&
                first[b][i] == POISON_A && found == GOOD) {
                found = LEAVES;
                snprintf(message, capacity,
                         "kernel '%s' leaves byte %lld of buffer %u unwritten, which it declares as WRITE",
                         node->kernel->name, (long long)i - GUARD, b);
            }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        free(start[b]);
        free(first[b]);
    }
    rota_plan_release(plan);
    return found;
}

/* Memory for every buffer that was seen, full of a number. */
static void make_buffers(seen *s, rota_runtime *runtime) {
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        uint64_t bytes = s->buffers[b].bytes + 2 * GUARD;
        s->buffers[b].now = malloc(bytes);
        s->buffers[b].before = malloc(bytes);
        assert_true(s->buffers[b].now && s->buffers[b].before);
        memset(s->buffers[b].now, 0x5e, bytes); /* 4e18 as a float: finite, and easily seen */
        assert_ok(rota_buffer_create_in(runtime, "stands in", bytes, &s->buffers[b].handle));
    }
}

/* Records an example and, for ops that have one, its gradient; then takes it apart. The graph holds the
 * buffers. */
static rota_graph *collect_nodes(conf *c, rota_runtime *runtime, rota_device *device, example_run *run,
                                 bool backward, seen *s) {
    conf_graph graph;
    if (!example_write(c, run, runtime, device, true) || !conf_graph_begin(c, &graph)) fail_msg("%s", c->why);
    assert_ok(rota_graph_add_rewrite(graph.graph, look, s));
    if (!example_record(c, run, graph.tape)) fail_msg("%s", c->why);
    if (backward) {
        rota_tensor loss, output = run->use.outputs[0], params[ROTA_OP_INPUTS_MAX], grads[ROTA_OP_INPUTS_MAX];
        uint32_t count = 0;
        for (uint32_t i = 0; i < run->use.input_count; i++)
            if (run->op->differentiable >> i & 1 && run->inputs[i]) {
                params[count] = run->use.inputs[i];
                grads[count++] = ROTA_TENSOR_NONE;
            }
        assert_ok(rota_op_sum_squares(graph.tape, output, &loss));
        assert_ok(rota_backward(graph.tape, loss, params, count, grads, NULL));
    }
    rota_tape_destroy(graph.tape);
    rota_recorder_close(graph.recorder);
    rota_plan *plan = NULL;
    assert_ok(rota_compile(NULL, graph.graph, NULL, &plan));
    rota_plan_release(plan);
    make_buffers(s, runtime);
    for (uint32_t b = 0; b < s->buffer_count; b++)
        for (uint32_t i = 0; i < run->use.input_count; i++)
            if (run->inputs[i] && run->use.inputs[i].buffer == s->buffers[b].root)
                memcpy(s->buffers[b].now + GUARD, run->inputs[i], run->bytes[i]);
    return graph.graph;
}

/* Runs all nodes, one by one, and lets the buffers go. */
static void check_nodes(seen *s, rota_device *device, const char *label, uint32_t *checked,
                        uint32_t *missing) {
    for (uint32_t n = 0; n < s->node_count; n++) {
        char message[256];
        verdict found = GOOD;
        if (s->nodes[n].kernel)
            found = check_node(s, &s->nodes[n], device, message, sizeof message);
        else if (s->nodes[n].access_count)
            do_on_host(s, &s->nodes[n]);
        if (found == STRAYS || found == LEAVES) fail_msg("%s: %s", label, message);
        *checked += s->nodes[n].kernel && found == GOOD;
        *missing += found == NOT_HERE;
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        rota_buffer_release(s->buffers[b].handle);
        free(s->buffers[b].now);
        free(s->buffers[b].before);
    }
}

/* The nodes that fusion makes of random graphs of elementwise ops. */
static void check_fused(const char *id, rota_runtime *runtime, rota_device *device) {
    uint32_t checked = 0, missing = 0;
    /* A pipeline for each node takes its time. */
    const uint64_t graphs = strncmp(id, "vk", 2) == 0 ? 3 : 12;
    for (uint64_t seed = 500; seed < 500 + graphs; seed++) {
        static seen s;
        memset(&s, 0, sizeof s);
        rota_graph *graph;
        rota_recorder *recorder;
        rota_tape *tape;
        fuse_graph made;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_tape_create(recorder, NULL, &tape));
        assert_ok(fuse_graph_record(tape, seed, false, &made));
        rota_tape_destroy(tape);
        rota_recorder_close(recorder);
        assert_ok(rota_graph_fuse(graph));
        assert_ok(rota_graph_add_rewrite(graph, look, &s));
        rota_plan *plan = NULL;
        assert_ok(rota_compile(NULL, graph, NULL, &plan));
        rota_plan_release(plan);
        make_buffers(&s, runtime);
        char label[64];
        snprintf(label, sizeof label, "%s: fused graph %llu", id, (unsigned long long)seed);
        check_nodes(&s, device, label, &checked, &missing);
        rota_graph_release(graph);
    }
    print_message("%s: %u nodes of fused graphs checked, %u not on this device\n", id, checked, missing);
}

static void check_device(const char *id) {
    static conf c;
    memset(&c, 0, sizeof c);
    pthread_mutex_init(&c.lock, NULL);
    c.device = id;
    c.seed = 5;
    c.expect_errors = true;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    c.validation = strncmp(id, "vk:", 3) == 0;
#endif
    rota_runtime *runtime = NULL;
    rota_device *device = NULL;
    if (!conf_open(&c, NULL, &runtime, &device)) {
        print_message("%s: skipped: %s\n", id, c.why);
        return;
    }
    uint32_t checked = 0, missing = 0;
    const test_todays todays = test_todays_part();
    for (uint32_t o = (uint32_t)todays.part; o < rota_op_count(); o += (uint32_t)todays.parts) {
        const rota_op *op = rota_op_at(o);
        rota_op_example example;
        for (uint32_t e = 0; rota_op_get_example(op, e, 0, &example); e++) {
            bool f32_output = true;
            example_run run;
            static seen s;
            memset(&s, 0, sizeof s);
            if (!example_prepare(&c, op, &example, 7 + e, &run)) fail_msg("%s", c.why);
            for (uint32_t i = 0; i < run.use.input_count; i++)
                if (run.inputs[i] && run.op->differentiable >> i & 1 && run.use.inputs[i].dtype != ROTA_F32)
                    f32_output = false;
            char label[128];
            snprintf(label, sizeof label, "%s: %s, example '%s'", id, op->name, example.label);
            bool backward =
                op->gradient && op->differentiable && f32_output && op->output_count == 1 && e == 0;
            if (backward && strcmp(op->name, "cast") == 0) backward = false; /* a loss is f32 */
            rota_graph *graph = collect_nodes(&c, runtime, device, &run, backward, &s);
            check_nodes(&s, device, label, &checked, &missing);
            rota_graph_release(graph);
            example_release(&run);
            example_free(&run);
        }
    }
    print_message("%s: %u kernel nodes checked, %u not on this device\n", id, checked, missing);
    assert_true(checked > 50);
    check_fused(id, runtime, device);
    assert_ok(rota_runtime_close(runtime, CONF_PATIENCE_NS));
    assert_int_equal(atomic_load(&c.errors_logged), 0); /* the validation layer's */
}

/* Kernels that declare one thing and do another: the second word of two is left, or the word behind is
 * written too. */
static rota_status leave_one(const rota_kernel_call *call) {
    ((uint32_t *)call->operands[0])[0] = 1;
    return ROTA_OK;
}

static rota_status write_one_more(const rota_kernel_call *call) {
    for (uint32_t i = 0; i < 3; i++) ((uint32_t *)call->operands[0])[i] = 1;
    return ROTA_OK;
}

static void bad_kernels_are_noticed(void **state) {
    (void)state;
    static const rota_kernel bad[] = {{.name = "leaves", .operand_count = 1, .cpu = {.fn = leave_one}},
                                      {.name = "strays", .operand_count = 1, .cpu = {.fn = write_one_more}}};
    static conf c;
    pthread_mutex_init(&c.lock, NULL);
    c.device = "cpu";
    rota_runtime *runtime = NULL;
    rota_device *device = NULL;
    assert_true(conf_open(&c, NULL, &runtime, &device));
    rota_buffer *buffer = NULL;
    assert_ok(rota_buffer_create("two words of four", 16, &buffer));
    for (uint32_t k = 0; k < 2; k++) {
        static seen s;
        static uint8_t now[16 + 2 * GUARD], before[16 + 2 * GUARD];
        char message[256];
        memset(&s, 0, sizeof s);
        s.node_count = s.buffer_count = 1;
        s.buffers[0].root = buffer;
        s.buffers[0].bytes = 16;
        s.buffers[0].now = now;
        s.buffers[0].before = before;
        s.nodes[0] =
            (seen_node){.kernel = &bad[k], .access = {{buffer, 0, 8, ROTA_WRITE}}, .access_count = 1};
        assert_ok(rota_buffer_create_in(runtime, "stands in", sizeof now, &s.buffers[0].handle));
        assert_int_equal(check_node(&s, &s.nodes[0], device, message, sizeof message), k ? STRAYS : LEAVES);
        rota_buffer_release(s.buffers[0].handle);
    }
    rota_buffer_release(buffer);
    assert_true(conf_close(&c, runtime));
}

static void on_cpu(void **state) {
    (void)state;
    check_device("cpu");
}

static void on_the_adversary(void **state) {
    (void)state;
    check_device("adversary");
}

static void on_vulkan(void **state) {
    (void)state;
    check_device("vk:0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_kernels_are_noticed),
        cmocka_unit_test(on_cpu),
        cmocka_unit_test(on_the_adversary),
        cmocka_unit_test(on_vulkan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
