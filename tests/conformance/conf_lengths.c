/* Counted nodes that take their count from ops that give a length: nothing goes to the host in between. */
#include "graph/counted.h"
#include "ops/custom.h"
#include "tests/conformance/conformance.h"
#include "tests/kernels/kernels.h"

enum { N = 40000, OLD = 7 };

typedef struct lengths {
    rota_tensor x, mapped,
        copied; /* of words: in which some are not zero; made of their indices; those indices */
} lengths;

static bool record(conf *c, conf_graph *graph, const lengths *l) {
    rota_tensor index, count;
    const test_params params = {.n = N, .p = 3};
    const rota_param_binding seed = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    CONF_TRY(conf_graph_begin(c, graph));
    CONF_OK(c, rota_op_nonzero(graph->tape, l->x, &index, &count));
    const rota_access maps[] = {rota_tensor_access(&index, ROTA_READ),
                                rota_tensor_access(&l->mapped, ROTA_WRITE)};
    const rota_count items = ROTA_COUNT(.buffer = count.buffer, .offset_bytes = count.offset_bytes, .max = N,
                                        .items_per_group = TEST_ITEMS_PER_GROUP,
                                        .bindable_plus_1 = TEST_BIND_COUNT + 1),
                     words = ROTA_COUNT(.buffer = count.buffer, .offset_bytes = count.offset_bytes, .max = N,
                                        .unit_bytes = 4);
    CONF_OK(c, rota_record_counted_kernel(graph->recorder,
                                          &ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel,
                                                            .accesses = maps, .access_count = 2,
                                                            .params = &params, .bindings = &seed,
                                                            .binding_count = 1),
                                          &items, NULL));
    CONF_OK(c, rota_record_counted_copy(graph->recorder, l->copied.buffer, 0, index.buffer,
                                        index.offset_bytes, &words, NULL));
    return true;
}

/* One in `every` words is not zero; 0: none. */
static bool run(conf *c, const lengths *l, rota_device *device, rota_plan *plan, uint32_t every) {
    static uint32_t x[N], old[N], mapped[N], copied[N];
    uint32_t count = 0;
    for (uint32_t i = 0; i < N; i++) {
        x[i] = every && i % every == every - 1 ? 1 + i : 0;
        old[i] = OLD;
    }
    CONF_OK(c, rota_buffer_write(l->x.buffer, device, 0, x, sizeof x, NULL));
    CONF_OK(c, rota_buffer_write(l->mapped.buffer, device, 0, old, sizeof old, NULL));
    CONF_OK(c, rota_buffer_write(l->copied.buffer, device, 0, old, sizeof old, NULL));
    CONF_TRY(conf_replay(c, plan, NULL, 1));
    CONF_OK(c, rota_buffer_read(l->mapped.buffer, 0, mapped, sizeof mapped));
    CONF_OK(c, rota_buffer_read(l->copied.buffer, 0, copied, sizeof copied));
    for (uint32_t i = 0; i < N; i++)
        if (x[i]) {
            CONF_CHECK(c, copied[count] == i && mapped[count] == test_mix(i + 3, count),
                       "one in %u: the copy of index %u is %u, and what is made of it %u, expected %u and %u",
                       every, count, copied[count], mapped[count], i, test_mix(i + 3, count));
            count++;
        }
    for (uint32_t i = count; i < N; i++)
        CONF_CHECK(c, copied[i] == OLD && mapped[i] == OLD,
                   "of %u counted, word %u is %u and %u, expected %u", count, i, copied[i], mapped[i], OLD);
    return true;
}

bool conf_lengths(conf *c) {
    static const uint32_t every[] = {0, 1, 2, 3, 41, N, 1, 7};
    rota_runtime *runtime;
    rota_device *device;
    lengths l;
    conf_graph graph;
    rota_plan *plan = NULL;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor *const tensors[] = {&l.x, &l.mapped, &l.copied};
    for (int i = 0; i < 3; i++) {
        rota_buffer *buffer;
        CONF_OK(c, rota_buffer_create_in(runtime, "words", (uint64_t)N * 4, &buffer));
        CONF_OK(c, rota_tensor_of(buffer, 0, ROTA_U32, ROTA_SHAPE(N), tensors[i]));
    }
    CONF_TRY(record(c, &graph, &l));
    rota_tape_destroy(graph.tape);
    rota_recorder_close(graph.recorder);
    const rota_status status = rota_compile(
        runtime, graph.graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan);
    const bool is_run = status != ROTA_UNSUPPORTED || !strstr(rota_last_error(), "is counted");
    CONF_CHECK(c, status == ROTA_OK || !is_run, "%s: %s", rota_status_name(status), rota_last_error());
    rota_graph_release(graph.graph);
    for (uint32_t i = 0; is_run && i < sizeof every / sizeof *every; i++)
        CONF_TRY(run(c, &l, device, plan, every[i]));
    for (int i = 0; i < 3; i++) rota_buffer_release(tensors[i]->buffer);
    CONF_TRY(conf_end(c, runtime, plan, NULL, 0));
    return is_run || conf_skip(c, "no counted nodes: refused when they are compiled");
}
