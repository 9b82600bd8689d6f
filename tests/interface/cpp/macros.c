/* The public macros that make values, in functions' arguments, with numbers that are known at run time only:
 * compiled as C17 and as C++17. */
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #condition, rota_last_error());          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static rota_status tried(int n) {
    ROTA_TRY(n < 0 ? rota_fail(ROTA_OUT_OF_RANGE, "%d is below 0", n) : ROTA_OK);
    return ROTA_OK;
}

int main(int argc, char **argv) {
    (void)argv;
    const uint64_t n = (uint64_t)argc + 2; /* 3 */
    rota_buffer *buffer;
    EXPECT(rota_buffer_create("b", 4096, &buffer) == ROTA_OK);
    rota_tensor tensor;
    EXPECT(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(n, 64, n + 1), &tensor) == ROTA_OK);
    EXPECT(tensor.rank == 3 && tensor.shape[0] == 3 && tensor.shape[1] == 64 && tensor.shape[2] == 4);
    EXPECT(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(n), &tensor) == ROTA_OK && tensor.rank == 1);
    EXPECT(rota_shape_bytes(ROTA_F16, ROTA_SHAPE(n, n, n, n, n, n, n, 1)) == 2 * 2187);
    const rota_tensor none = ROTA_TENSOR_NONE;
    EXPECT(none.buffer == NULL && none.rank == 0);
    EXPECT(rota_tensor_count(&tensor) == 3);

    rota_param_binding binding = {0, ROTA_SLOT_CONSTANT};
    EXPECT(binding.slot.index == UINT32_MAX);
    rota_slot slot = {7};
    EXPECT(ROTA_SLOT(slot).kind == ROTA_VALUE_SLOT && ROTA_SLOT(slot).slot.index == 7);
    EXPECT(ROTA_PLAIN(argc).kind == ROTA_VALUE_PLAIN && ROTA_PLAIN(argc).number == argc);
    EXPECT(ROTA_CONSTANT(n).kind == ROTA_VALUE_CONSTANT && ROTA_CONSTANT(n).number == 3);
    EXPECT(tried(1) == ROTA_OK && tried(-argc) == ROTA_OUT_OF_RANGE);
    EXPECT(ROTA_WHOLE > ROTA_BUFFER_SIZE_MAX);
    rota_buffer_release(buffer);

    /* Structs that may grow, with designated initializers where the language has them. */
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS();
    EXPECT(options.struct_size == sizeof options && options.memory_limit_bytes == 0 && !options.cache_dir);
    options.memory_limit_bytes = n;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    EXPECT(stats.struct_size == sizeof stats && stats.devices == 0);
#if !defined(__cplusplus) || __cplusplus >= 202002L
    options = ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = n + 1, .cache_dir = "");
    EXPECT(options.struct_size == sizeof options && options.memory_limit_bytes == n + 1 && options.cache_dir);
#endif
#ifndef __cplusplus
    rota_graph *graph;
    EXPECT(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "g"), &graph) == ROTA_OK);
    rota_graph_release(graph);
#endif
    return 0;
}
