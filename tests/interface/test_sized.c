/* Structs that may grow (base/sized.h): what a call makes of those of a caller who was built with an earlier
 * version, with a later one, or who never set the size. */
#include "tests/kit/support.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "rota.h"

enum { BEYOND = 64, GARBAGE = 0xa5, BYTES_MAX = 2048 };
#define PATIENCE_NS 20000000000u

typedef struct scene {
    rota_runtime *runtime;
    rota_device *device;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x, w, v, m, labels, table, other, pair;
    rota_access access;
} scene;

static scene s;

static rota_tensor tensor_of(const char *name, rota_dtype dtype, uint32_t rank, const uint64_t *shape) {
    rota_buffer *buffer;
    rota_tensor tensor;
    assert_ok(rota_buffer_create(name, 4096, &buffer));
    assert_ok(rota_tensor_of(buffer, 0, dtype, rank, shape, &tensor));
    return tensor;
}

static int open_scene(void **state) {
    (void)state;
    s = (scene){0};
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.cache_dir = ""), &s.runtime));
    assert_ok(rota_device_open(s.runtime, "cpu", &s.device));
    assert_ok(rota_graph_create(NULL, &s.graph));
    assert_ok(rota_recorder_open(s.graph, 0, NULL, &s.recorder));
    assert_ok(rota_tape_create(s.recorder, NULL, &s.tape));
    s.x = tensor_of("x", ROTA_F32, ROTA_SHAPE(4, 4));
    s.w = tensor_of("w", ROTA_F32, ROTA_SHAPE(4, 4));
    s.v = tensor_of("v", ROTA_F32, ROTA_SHAPE(4, 4));
    s.m = tensor_of("m", ROTA_F32, ROTA_SHAPE(4, 4));
    s.labels = tensor_of("labels", ROTA_I32, ROTA_SHAPE(4));
    s.table = tensor_of("table", ROTA_F32, ROTA_SHAPE(4));
    s.other = tensor_of("other", ROTA_F32, ROTA_SHAPE(4));
    s.pair = tensor_of("pair", ROTA_F32, ROTA_SHAPE(2));
    s.access = (rota_access){s.x.buffer, 0, 64, ROTA_READWRITE};
    return 0;
}

static int close_scene(void **state) {
    (void)state;
    rota_tape_destroy(s.tape);
    rota_recorder_close(s.recorder);
    rota_graph_release(s.graph);
    rota_buffer *const buffers[] = {s.x.buffer,      s.w.buffer,     s.m.buffer,     s.v.buffer,
                                    s.labels.buffer, s.table.buffer, s.other.buffer, s.pair.buffer};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(s.runtime, PATIENCE_NS));
    return 0;
}

/* ---- What callers give ---- */

static rota_status host_function(void *user, void *const *operands, const uint64_t *operand_bytes,
                                 uint32_t operand_count) {
    (void)user, (void)operands, (void)operand_bytes, (void)operand_count;
    return ROTA_OK;
}

static rota_status call_runtime_options(const void *given) {
    rota_runtime *runtime;
    rota_status status = rota_runtime_open(given, &runtime);
    return status == ROTA_OK ? rota_runtime_close(runtime, PATIENCE_NS) : status;
}
static rota_status call_graph_options(const void *given) {
    rota_graph *graph;
    rota_status status = rota_graph_create(given, &graph);
    rota_graph_release(graph);
    return status;
}
static rota_status call_compile_options(const void *given) {
    rota_graph *graph;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    rota_status status = rota_compile(NULL, graph, given, &plan);
    rota_plan_release(plan);
    rota_graph_release(graph);
    return status;
}
static rota_plan *analysed(void) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, s.x.buffer, 0, 64, 1, NULL));
    assert_ok(rota_record_fill(recorder, s.w.buffer, 0, 64, 1, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(NULL, graph, NULL, &plan));
    rota_graph_release(graph);
    return plan;
}
static rota_status call_draw_options(const void *given) {
    rota_plan *plan = analysed();
    rota_status status = rota_plan_draw(plan, given, "/dev/null");
    rota_plan_release(plan);
    return status;
}
static rota_status call_tape_options(const void *given) {
    rota_tape *tape;
    rota_status status = rota_tape_create(s.recorder, given, &tape);
    rota_tape_destroy(tape);
    return status;
}
static rota_status call_backward_options(const void *given) {
    rota_tensor y, loss, grad = ROTA_TENSOR_NONE;
    assert_ok(rota_op_mul(s.tape, s.x, s.w, &y));
    assert_ok(rota_op_sum_squares(s.tape, y, &loss));
    return rota_backward(s.tape, loss, &s.w, 1, &grad, given);
}
static rota_status call_linear(const void *given) {
    rota_tensor y;
    return rota_op_linear(s.tape, s.x, s.w, given, &y);
}
static rota_status call_batch_norm(const void *given) {
    rota_tensor y;
    return rota_op_batch_norm(s.tape, s.x, given, &y);
}
static rota_status call_conv(const void *given) {
    rota_tensor x, w, y;
    assert_ok(rota_tensor_reshape(&s.x, ROTA_SHAPE(1, 4, 2, 2), &x));
    assert_ok(rota_tensor_reshape(&s.w, ROTA_SHAPE(4, 4, 1, 1), &w));
    return rota_op_conv2d(s.tape, x, w, given, &y);
}
static rota_status call_pool(const void *given) {
    rota_tensor x, y;
    assert_ok(rota_tensor_reshape(&s.x, ROTA_SHAPE(1, 4, 2, 2), &x));
    return rota_op_max_pool2d(s.tape, x, given, &y, NULL);
}
static rota_status call_rope(const void *given) {
    rota_tensor y;
    return rota_op_rope(s.tape, s.x, given, &y);
}
static rota_status call_classifier(const void *given) {
    rota_tensor loss;
    return rota_op_classifier(s.tape, s.x, s.labels, given, &loss);
}
static rota_status call_adamw(const void *given) {
    return rota_op_adamw(s.tape, s.x, s.w, s.m, s.v, given);
}
static rota_status call_sgd(const void *given) {
    return rota_op_sgd(s.tape, s.x, s.w, s.v, given);
}
static rota_status call_lion(const void *given) {
    return rota_op_lion(s.tape, s.x, s.w, s.v, given);
}
static rota_status call_loss_scale(const void *given) {
    rota_tensor factor, norm;
    assert_ok(rota_tensor_slice(&s.table, 0, 0, 1, &norm));
    return rota_op_loss_scale(s.tape, norm, s.pair, given, &factor);
}
static rota_status call_kernel_node(const void *given) {
    return rota_record_kernel(s.recorder, given, NULL);
}
static double work_function(void *user, const void *params, const uint64_t *operand_bytes) {
    (void)user, (void)params, (void)operand_bytes;
    return 1;
}
static rota_status call_kernel_functions(const void *given) { /* the graph is never compiled */
    static rota_kernel kernel = {.name = "sized", .operand_count = 1, .flags = ROTA_KERNEL_HAS_FUNCTIONS};
    kernel.functions = given;
    return rota_record_kernel(
        s.recorder, &ROTA_KERNEL_NODE(.kernel = &kernel, .accesses = &s.access, .access_count = 1), NULL);
}
static rota_status call_host_node(const void *given) {
    return rota_record_host(s.recorder, given, NULL);
}

static rota_status call_adopt_options(const void *given) {
    rota_buffer *buffer;
    rota_status status = rota_buffer_adopt(s.device, given, &buffer);
    rota_buffer_release(buffer);
    return status;
}

/* Without libcbor there are no graph files, which is said once the sizes are good. */
static rota_status unless_absent(rota_status status) {
#ifdef ROTA_HAVE_CBOR
    return status;
#else
    return status == ROTA_UNSUPPORTED ? ROTA_OK : status;
#endif
}
static rota_status call_graph_save_options(const void *given) {
    rota_graph *graph;
    assert_ok(rota_graph_create(NULL, &graph));
    rota_status status = unless_absent(rota_graph_save(graph, given, "/dev/null"));
    rota_graph_release(graph);
    return status;
}
/* The path of an empty graph's file. */
static const char *graph_path(void) {
    static char path[64];
    if (path[0]) return path;
    rota_graph *graph;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", memfd_create("graph", MFD_CLOEXEC));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(unless_absent(rota_graph_save(graph, NULL, path)));
    rota_graph_release(graph);
    return path;
}
static rota_status call_graph_load_options(const void *given) {
    rota_graph_file *file;
    rota_status status = unless_absent(rota_graph_load(graph_path(), given, &file));
    rota_graph_file_release(file);
    return status;
}

static const rota_kernel touches = {.name = "touches", .operand_count = 1};

/* Each with its first members set, and what a call says then. */
static void all_given(void (*judge)(const char *type, size_t size, const void *whole,
                                    rota_status (*call)(const void *))) {
#define GIVEN(type, ...)                                                                                     \
    judge("rota_" #type, sizeof(rota_##type),                                                                \
          &(rota_##type){.struct_size = sizeof(rota_##type), __VA_ARGS__}, call_##type)
    GIVEN(runtime_options, .worker_threads = 1);
    GIVEN(graph_options, .name = "sized");
    GIVEN(compile_options, .name = "sized");
    GIVEN(draw_options, .format = ROTA_DRAW_SVG);
    GIVEN(tape_options, .no_gradients = true);
    GIVEN(backward_options, .accumulate = false);
    GIVEN(linear, .bias = s.table);
    GIVEN(batch_norm, .axis = 1, .running_mean = s.table, .running_variance = s.other);
    GIVEN(conv, .bias = s.table);
    GIVEN(pool, .window = {1, 2}, .padding = {0, 1});
    GIVEN(rope, .offset = ROTA_CONSTANT(0), .base = 10000);
    GIVEN(classifier, .ignored = ROTA_IGNORED_LABEL);
    GIVEN(adamw, .lr = ROTA_CONSTANT(1), .step = ROTA_CONSTANT(1));
    GIVEN(sgd, .lr = ROTA_CONSTANT(1));
    GIVEN(lion, .lr = ROTA_CONSTANT(1));
    GIVEN(loss_scale, .interval = 5);
    GIVEN(kernel_node, .kernel = &touches, .accesses = &s.access, .access_count = 1);
    GIVEN(kernel_functions, .work = work_function);
    static _Alignas(64) uint8_t memory[64];
    GIVEN(adopt_options, .name = "sized", .memory = memory, .size_bytes = sizeof memory);
    GIVEN(graph_save_options, .replays = 2);
    GIVEN(graph_load_options, .limit_bytes = 1000);
    GIVEN(host_node, .fn = host_function, .accesses = &s.access, .access_count = 1);
#undef GIVEN
}

static void macro_name(const char *type, char *text) {
    do *text++ = (char)toupper((unsigned char)*type);
    while (*type++);
}

static void judge_size(const char *type, size_t size, const void *whole, rota_status (*call)(const void *)) {
    size_t bytes[BYTES_MAX / sizeof(size_t)];
    char macro[64];
    macro_name(type, macro);
    const size_t wrong[] = {0, 1, sizeof(size_t), size + 1, SIZE_MAX, (size_t)1 << 32};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(bytes, whole, size);
        bytes[0] = wrong[i];
        assert_status(call(bytes), ROTA_INVALID_ARGUMENT);
        assert_non_null(strstr(rota_last_error(), type));
        assert_non_null(strstr(rota_last_error(), macro));
    }
}

static void a_size_that_was_never_set_is_refused(void **state) {
    (void)state;
    all_given(judge_size);
}

static void judge_later(const char *type, size_t size, const void *whole, rota_status (*call)(const void *)) {
    size_t bytes[BYTES_MAX / sizeof(size_t)] = {0};
    assert_ok(call(whole));
    memcpy(bytes, whole, size);
    bytes[0] = size + BEYOND;
    assert_ok(call(bytes));
    ((unsigned char *)bytes)[size + BEYOND] = 1; /* behind it */
    assert_ok(call(bytes));
    for (size_t offset = size; offset < size + BEYOND; offset += BEYOND - 1) {
        char said[128];
        ((unsigned char *)bytes)[offset] = 1;
        assert_status(call(bytes), ROTA_INVALID_ARGUMENT);
        (void)snprintf(said, sizeof said, "%s of %zu bytes has something at byte %zu;", type, size + BEYOND,
                       offset);
        assert_non_null(strstr(rota_last_error(), said));
        ((unsigned char *)bytes)[offset] = 0;
    }
}

static void what_a_later_version_has_is_taken_as_0_only(void **state) {
    (void)state;
    all_given(judge_later);
}

/* The last sentence without its numbers: each call's node has another. */
static void sentence(char *text, size_t capacity) {
    (void)snprintf(text, capacity, "%s", rota_last_error());
    for (; *text; text++)
        if (isdigit((unsigned char)*text)) *text = '#';
}

/* Cut off after each word: as if the rest were 0, though it isn't. */
static void judge_earlier(const char *type, size_t size, const void *whole,
                          rota_status (*call)(const void *)) {
    (void)type;
    for (size_t length = 2 * sizeof(size_t); length < size; length += sizeof(size_t)) {
        size_t bytes[BYTES_MAX / sizeof(size_t)];
        char expected[ROTA_ERROR_MESSAGE_MAX], said[ROTA_ERROR_MESSAGE_MAX];
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, whole, length);
        (void)rota_fail(ROTA_OK, "%s", "");
        rota_status status = call(bytes);
        sentence(expected, sizeof expected);
        memset(bytes, GARBAGE, sizeof bytes);
        memcpy(bytes, whole, length);
        bytes[0] = length;
        (void)rota_fail(ROTA_OK, "%s", "");
        assert_int_equal(call(bytes), status);
        sentence(said, sizeof said);
        assert_string_equal(said, expected);
    }
}

static void what_an_earlier_version_lacks_is_0(void **state) {
    (void)state;
    all_given(judge_earlier);
}

/* Defaults themselves, where one shows: a limit that was cut off is none. */
static void a_member_that_is_cut_off_has_its_default(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_buffer *buffer;
    rota_device *device;
    for (int cut = 0; cut < 2; cut++) {
        rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = 4096);
        if (cut) options.struct_size = offsetof(rota_runtime_options, memory_limit_bytes);
        assert_ok(rota_runtime_open(&options, &runtime));
        assert_ok(rota_buffer_create_in(runtime, "large", 1 << 20, &buffer));
        rota_status status = rota_device_open(runtime, "cpu", &device);
        if (status == ROTA_OK) status = rota_buffer_prepare(buffer, device);
        assert_int_equal(status == ROTA_OK, cut);
        rota_buffer_release(buffer);
        assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
    }
}

/* ---- What calls fill in ---- */

static rota_status fill_runtime_stats(void *out) {
    return rota_runtime_get_stats(s.runtime, out);
}
#ifdef ROTA_HAVE_CBOR
static rota_status fill_graph_file_info(void *out) {
    rota_graph_file *file;
    assert_ok(rota_graph_load(graph_path(), NULL, &file));
    rota_status status = rota_graph_file_get_info(file, out);
    rota_graph_file_release(file);
    return status;
}
#endif
static rota_status fill_plan_stats(void *out) {
    rota_plan *plan = analysed();
    rota_status status = rota_plan_get_stats(plan, out);
    rota_plan_release(plan);
    return status;
}
static rota_status fill_device_info(void *out) {
    uint32_t count;
    return rota_devices(s.runtime, out, 1, &count);
}
static rota_status fill_plan_command(void *out) {
    rota_plan *plan = analysed();
    size_t room[BYTES_MAX / sizeof(size_t)]; /* for both */
    memcpy(room, out, sizeof room[0]);
    rota_status status = rota_plan_get_commands(plan, (rota_plan_command *)room, 2);
    if (status == ROTA_OK) {
        assert_int_equal(room[0], ((size_t *)out)[0]);
        size_t second;
        memcpy(&second, (char *)room + room[0], sizeof second);
        assert_int_equal(second, room[0]); /* each element has it */
        memcpy(out, room, room[0]);
        memset(out, 0, offsetof(rota_plan_command, kind)); /* its name went with the plan */
        memcpy(out, room, sizeof room[0]);
    }
    rota_plan_release(plan);
    return status;
}

typedef struct viewing {
    void *out;
    bool target;
    rota_status status;
} viewing;
static rota_status look(void *user, rota_rewriter *rewriter) {
    viewing *v = user;
    const rota_placement placement = {0};
    v->status = v->target ? rota_rewriter_target(rewriter, &placement, v->out)
                          : rota_rewriter_view(rewriter, 0, v->out);
    return ROTA_OK;
}
static rota_status fill_in_rewrite(void *out, bool target) {
    viewing v = {.out = out, .target = target};
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, s.x.buffer, 0, 64, 1, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_graph_add_rewrite(graph, look, &v));
    assert_ok(rota_compile(NULL, graph, NULL, &plan));
    rota_plan_release(plan);
    rota_graph_release(graph);
    return v.status;
}
static rota_status fill_node_view(void *out) {
    rota_status status = fill_in_rewrite(out, false);
    rota_node_view *view = out;
    if (status == ROTA_OK && view->struct_size > offsetof(rota_node_view, access_count))
        view->accesses = NULL;
    return status;
}
static rota_status fill_rewrite_target(void *out) {
    return fill_in_rewrite(out, true);
}

static void all_filled(void (*judge)(const char *type, size_t size, rota_status (*fill)(void *))) {
#define FILLED(type) judge("rota_" #type, sizeof(rota_##type), fill_##type)
    FILLED(runtime_stats);
    FILLED(plan_stats);
    FILLED(device_info);
    FILLED(plan_command);
    FILLED(node_view);
    FILLED(rewrite_target);
#ifdef ROTA_HAVE_CBOR
    FILLED(graph_file_info);
#endif
#undef FILLED
}

static void judge_filled(const char *type, size_t size, rota_status (*fill)(void *)) {
    size_t whole[BYTES_MAX / sizeof(size_t)], bytes[BYTES_MAX / sizeof(size_t)];
    char macro[64];
    macro_name(type, macro);
    memset(bytes, GARBAGE, sizeof bytes);
    bytes[0] = 0;
    assert_status(fill(bytes), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), type));
    assert_non_null(strstr(rota_last_error(), macro));
    bytes[0] = SIZE_MAX;
    assert_status(fill(bytes), ROTA_INVALID_ARGUMENT);

    memset(whole, 0, sizeof whole);
    whole[0] = size;
    assert_ok(fill(whole));
    assert_int_equal(whole[0], size);
    for (size_t length = 2 * sizeof(size_t); length <= size + BEYOND; length += sizeof(size_t)) {
        memset(bytes, GARBAGE, sizeof bytes);
        bytes[0] = length;
        assert_ok(fill(bytes));
        assert_int_equal(bytes[0], length);
        for (size_t offset = size; offset < length; offset++)
            assert_int_equal(((unsigned char *)bytes)[offset], 0);
        for (size_t offset = length; offset < length + BEYOND; offset++)
            assert_int_equal(((unsigned char *)bytes)[offset], GARBAGE);
        /* What time changes is not compared. */
        if (strcmp(type, "rota_runtime_stats") != 0 && strcmp(type, "rota_node_view") != 0 && length <= size)
            assert_memory_equal((char *)bytes + sizeof(size_t), (char *)whole + sizeof(size_t),
                                length - sizeof(size_t));
    }
}

static void as_much_is_filled_in_as_there_is_room_for(void **state) {
    (void)state;
    all_filled(judge_filled);
}

/* An earlier and a later version's arrays: each element where that version looks for it. */
static void elements_are_where_the_caller_looks_for_them(void **state) {
    (void)state;
    uint32_t count;
    assert_ok(rota_devices(s.runtime, NULL, 0, &count));
    assert_true(count >= 1);
    rota_device_info infos[16] = {ROTA_DEVICE_INFO()};
    assert_ok(rota_devices(s.runtime, infos, 16, &count));
    for (uint32_t i = 0; i < count; i++) assert_int_equal(infos[i].struct_size, sizeof *infos);
    const size_t strides[] = {sizeof(rota_device_info) - 8, sizeof(rota_device_info) + BEYOND};
    for (size_t k = 0; k < 2; k++) {
        char *room = calloc(16, strides[k]);
        assert_non_null(room);
        memcpy(room, &strides[k], sizeof strides[k]);
        assert_ok(rota_devices(s.runtime, (rota_device_info *)room, 16, &count));
        for (uint32_t i = 0; i < count; i++)
            assert_string_equal(room + i * strides[k] + offsetof(rota_device_info, id), infos[i].id);
        free(room);
    }
}

/* The one that the library owns says how much of it there is. */
static void what_the_library_owns_has_its_size(void **state) {
    (void)state;
    assert_int_equal(rota_device_get_info(s.device)->struct_size, sizeof(rota_device_info));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_size_that_was_never_set_is_refused),
        cmocka_unit_test(what_a_later_version_has_is_taken_as_0_only),
        cmocka_unit_test(what_an_earlier_version_lacks_is_0),
        cmocka_unit_test(a_member_that_is_cut_off_has_its_default),
        cmocka_unit_test(as_much_is_filled_in_as_there_is_room_for),
        cmocka_unit_test(elements_are_where_the_caller_looks_for_them),
        cmocka_unit_test(what_the_library_owns_has_its_size),
    };
    return cmocka_run_group_tests(tests, open_scene, close_scene);
}
