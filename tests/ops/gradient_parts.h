/* For tests of rota_backward by parts of one memory: what a part is, a parameter of N values, and a loss's check. */
#ifndef ROTA_TESTS_GRADIENT_PARTS_H
#define ROTA_TESTS_GRADIENT_PARTS_H

#include <string.h>
#include "tests/ops/gradient_kit.h"

static inline rota_tensor part(rota_tensor of, uint64_t offset, uint32_t rank, const uint64_t *shape,
                               const uint64_t *stride) {
    rota_tensor x = {.buffer = of.buffer,
                     .offset_bytes = of.offset_bytes + offset * rota_dtype_bytes(of.dtype),
                     .dtype = of.dtype,
                     .rank = rank};
    memcpy(x.shape, shape, rank * sizeof *shape);
    memcpy(x.stride, stride, rank * sizeof *stride);
    return x;
}
#define PART(of, offset, shape, ...) part(of, offset, ROTA_SHAPE shape, (const uint64_t[]){__VA_ARGS__})

/* A parameter of N values, and the gradient of a loss by it. */
static inline rota_tensor parameter(op_kit *kit, float *x) {
    fill_values(x);
    return op_kit_variable(kit, ROTA_F32, ROTA_SHAPE(N), x);
}

static inline void check_loss(op_kit *kit, rota_tensor loss, rota_tensor p, double (*f)(const double *x),
                              const float *x, const char *what) {
    rota_tensor grad = ROTA_TENSOR_NONE;
    assert_ok(rota_backward(kit->tape, loss, &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(kit, grad);
    op_kit_run(kit);
    check_function(f, x, op_kit_f32(kit, output), what);
    op_kit_close(kit);
}

static inline rota_tensor sum_of(op_kit *kit, rota_tensor a, rota_tensor b) {
    rota_tensor y;
    assert_ok(rota_op_add(kit->tape, total(kit, a), total(kit, b), &y));
    return y;
}

/* Values that f16 has. */
static inline rota_tensor half_parameter(op_kit *kit, float *x) {
    uint16_t halves[N];
    for (int i = 0; i < N; i++) {
        element_store(ROTA_F16, halves, (uint64_t)i, (double)(i + 3) / 8);
        x[i] = (float)element_load(ROTA_F16, halves, (uint64_t)i);
    }
    return op_kit_input(kit, ROTA_F16, ROTA_SHAPE(N), halves);
}

#endif
