/* Ops that are other ops: 8-bit floats with the scale that brings a tensor into their range. */
#include "base/given.h"
#include "ops/op.h" /* IWYU pragma: keep */

#include <math.h>

/* Of zeroes alone the scale is this: it is divided by. */
#define SCALE_LEAST 0x1p-100

static double largest_of(rota_dtype dtype) {
    return dtype == ROTA_F8_E4M3FN ? 448 : 57344;
}

static rota_status check(const char *op, const rota_tensor *x, rota_dtype dtype, bool by_rows) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (!x->buffer || !rota_dtype_is_real(x->dtype) || rota_tensor_is_empty(x) || (by_rows && x->rank == 0))
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': x is %s; expected f32, f16 or bf16, not empty%s",
                         op, x->buffer ? rota_tensor_describe(x, text, sizeof text) : "missing",
                         by_rows ? ", in rows" : "");
    if (!rota_dtype_is_f8(dtype))
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': to %s, expected f8_e4m3fn or f8_e5m2", op,
                         rota_dtype_name(dtype));
    return ROTA_OK;
}

static rota_status largest_magnitude(rota_tape *tape, rota_tensor x, bool by_rows, rota_tensor *out_y) {
    rota_tensor y;
    ROTA_TRY(rota_op_abs(tape, x, &y));
    if (!by_rows) ROTA_TRY(rota_op_reshape(tape, y, ROTA_SHAPE(rota_tensor_count(&y)), &y));
    ROTA_TRY(rota_op_max(tape, y, y.rank - 1, true, &y));
    *out_y = y;
    return y.dtype == ROTA_F32 ? ROTA_OK : rota_op_cast(tape, y, ROTA_F32, out_y);
}

static rota_status scale_of(rota_tape *tape, rota_tensor x, rota_dtype dtype, bool by_rows,
                            rota_tensor *out_scale) {
    rota_tensor largest;
    ROTA_TRY(largest_magnitude(tape, x, by_rows, &largest));
    ROTA_TRY(rota_op_scale(tape, largest, rota_value_plain(1 / largest_of(dtype)), &largest));
    return rota_op_clamp(tape, largest, rota_value_plain(SCALE_LEAST), rota_value_plain((double)INFINITY),
                         out_scale);
}

/* A scale is a constant to gradients. */
static rota_status constant_scale(rota_tape *tape, rota_tensor x, rota_dtype dtype, bool by_rows,
                                  rota_tensor *out_scale) {
    const bool remembered = tape->remember;
    tape->remember = false;
    const rota_status status = scale_of(tape, x, dtype, by_rows, out_scale);
    tape->remember = remembered;
    return status;
}

rota_status rota_op_f8_scale(rota_tape *tape, rota_tensor x, rota_dtype dtype, bool by_rows,
                             rota_tensor *out_scale) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_scale);
    *out_scale = ROTA_TENSOR_NONE;
    ROTA_TRY(check("f8_scale", &x, dtype, by_rows));
    ROTA_TAPE_AS_OP(tape, "f8_scale", constant_scale(tape, x, dtype, by_rows, out_scale));
}

/* In f32, so that the quotient is not rounded to 16 bits first. */
static rota_status quantize(rota_tape *tape, rota_tensor x, rota_dtype dtype, bool by_rows,
                            rota_tensor *out_y, rota_tensor *out_scale) {
    rota_tensor wide = x;
    ROTA_TRY(constant_scale(tape, x, dtype, by_rows, out_scale));
    if (x.dtype != ROTA_F32) ROTA_TRY(rota_op_cast(tape, x, ROTA_F32, &wide));
    ROTA_TRY(rota_op_div(tape, wide, *out_scale, &wide));
    return rota_op_cast(tape, wide, dtype, out_y);
}

rota_status rota_op_quantize(rota_tape *tape, rota_tensor x, rota_dtype dtype, bool by_rows,
                             rota_tensor *out_y, rota_tensor *out_scale) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    ROTA_GIVEN(out_scale);
    *out_y = *out_scale = ROTA_TENSOR_NONE;
    ROTA_TRY(check("quantize", &x, dtype, by_rows));
    ROTA_TAPE_AS_OP(tape, "quantize", quantize(tape, x, dtype, by_rows, out_y, out_scale));
}
