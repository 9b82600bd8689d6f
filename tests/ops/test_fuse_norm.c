/* Layer norms of f32 rows between 16 bits: what fusion makes one node of on CUDA devices, by the driver's stand-in
 * beside the CPU; and what it leaves, where somebody else reads what stands between. */
#include "tests/kit/support.h"

#ifdef ROTA_HAVE_CUDA
#include <math.h>
#include <string.h>
#include "ops/cuda/norm_mixed_cuda.h"
#include "ops/op.h"
#include "tests/ops/ops_stub.h"

enum { ROWS = 21, DIM = 16, COUNT = ROWS * DIM };

static uint32_t norms, gradients, norm_flags, gradient_flags;

static float element(const void *array, uint32_t dtype, uint64_t i) {
    return dtype == ROTA_F32 ? ((const float *)array)[i] : ops_stub_from_bf16(((const uint16_t *)array)[i]);
}

/* ---- What the kernels of the CUDA image do, for the stand-in ---- */

static rota_status norm_mixed(const rota_kernel_call *call) {
    const rota_cuda_mixed_norm_params *p = call->params;
    float *sum = call->operands[ROTA_MIXED_SUM], *stats = call->operands[ROTA_MIXED_STATS];
    const float *x = call->operands[ROTA_MIXED_X], *of = call->operands[ROTA_MIXED_OF],
                *bias = call->operands[ROTA_MIXED_BIAS];
    for (uint64_t r = 0; r < p->norm.rows; r++) {
        double value[DIM], mean = 0, spread = 0;
        for (uint64_t c = 0; c < DIM; c++) {
            const uint64_t i = r * DIM + c;
            value[c] = (double)x[i];
            if (p->norm.flags & ROTA_MIXED_RESIDUAL) {
                sum[i] = x[i] + element(call->operands[ROTA_MIXED_R], p->other, i);
                value[c] = (double)sum[i];
            }
            mean += value[c] / DIM;
        }
        for (uint64_t c = 0; c < DIM; c++) spread += (value[c] - mean) * (value[c] - mean) / DIM;
        stats[2 * r] = (float)mean;
        stats[2 * r + 1] = (float)(1 / sqrt(spread + (double)p->norm.eps));
        for (uint64_t c = 0; c < DIM; c++)
            ((uint16_t *)call->operands[ROTA_MIXED_Y])[r * DIM + c] =
                ops_stub_to_bf16((float)((value[c] - mean) * (double)stats[2 * r + 1]) *
                                     (p->norm.flags & ROTA_NORM_WEIGHT ? of[c] : 1.0f) +
                                 (p->norm.flags & ROTA_NORM_BIAS ? bias[c] : 0.0f));
    }
    norms++;
    norm_flags = p->norm.flags;
    return ROTA_OK;
}

static rota_status norm_mixed_gradient(const rota_kernel_call *call) {
    const rota_cuda_mixed_norm_params *p = call->params;
    const float *x = call->operands[ROTA_MIXED_GRADIENT_X], *of = call->operands[ROTA_MIXED_GRADIENT_OF],
                *stats = call->operands[ROTA_MIXED_GRADIENT_STATS],
                *addend = call->operands[ROTA_MIXED_GRADIENT_ADDEND];
    float *dx = call->operands[ROTA_MIXED_GRADIENT_DX],
          *partial = call->operands[ROTA_MIXED_GRADIENT_PARTIAL];
    const uint64_t chunks = (p->norm.rows + p->norm.chunk - 1) / p->norm.chunk;
    memset(partial, 0, 2 * chunks * DIM * sizeof *partial);
    for (uint64_t r = 0; r < p->norm.rows; r++) {
        float h[DIM], g[DIM], total = 0, total_h = 0;
        float *own = partial + r / p->norm.chunk * DIM;
        for (uint64_t c = 0; c < DIM; c++) {
            const float dy = element(call->operands[ROTA_MIXED_GRADIENT_DY], p->norm.dtype, r * DIM + c);
            h[c] = (x[r * DIM + c] - stats[2 * r]) * stats[2 * r + 1];
            g[c] = dy * (p->norm.flags & ROTA_NORM_WEIGHT ? of[c] : 1.0f);
            own[c] += dy * h[c];
            own[chunks * DIM + c] += dy;
            total += g[c] / DIM;
            total_h += g[c] * h[c] / DIM;
        }
        for (uint64_t c = 0; c < DIM; c++) {
            const uint64_t i = r * DIM + c;
            dx[i] = stats[2 * r + 1] * (g[c] - total - h[c] * total_h);
            if (p->norm.flags & ROTA_MIXED_ADDEND) dx[i] += addend[i];
            if (p->norm.flags & ROTA_MIXED_NARROW)
                ((uint16_t *)call->operands[ROTA_MIXED_GRADIENT_NARROW])[i] = ops_stub_to_bf16(dx[i]);
        }
    }
    gradients++;
    gradient_flags = p->norm.flags;
    return ROTA_OK;
}

/* ---- A residual stream of two norms, as automatic mixed precision has it ---- */

enum { X, R, WEIGHT, BIAS, DY, INPUTS };
enum { Y, SUM, DX, NARROW, DWEIGHT, DBIAS, OUTPUTS };
/* What is otherwise in a graph that is left as it is: y or the sum is read between, or dy's conversion is, or dx;
 * or rows of dx are filled before its conversion. */
enum { PLAIN, Y_IS_READ, SUM_IS_READ, DY_IS_READ, DX_IS_READ, DX_IS_FILLED, KINDS };

typedef struct values {
    float y[COUNT], sum[COUNT], dx[COUNT], narrow[COUNT], dweight[DIM], dbias[DIM];
} values;

static rota_tensor output(rota_tape *tape, rota_tensor x) {
    rota_tensor y, wide = x;
    if (x.dtype != ROTA_F32) assert_ok(rota_op_cast(tape, x, ROTA_F32, &wide));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, NULL, ROTA_F32, x.rank, x.shape, &y));
    assert_ok(rota_op_copy_into(tape, wide, y));
    return y;
}

/* What reads something between two nodes of the pattern. */
static void look(rota_tape *tape, bool looks, rota_tensor x) {
    rota_tensor total;
    if (!looks) return;
    assert_ok(rota_op_sum(tape, x, 1, false, &total));
}

/* sum = x + f32(r), y = bf16(norm(sum)); and, x being a gradient that is there, dx = x + the norm's of f32(dy),
 * narrow = bf16(dx). */
static void record(rota_tape *tape, int kind, bool affine, rota_tensor in[INPUTS],
                   rota_tensor made[OUTPUTS]) {
    const uint64_t row[] = {DIM}, all[] = {ROWS, DIM};
    rota_tensor wide, dy, rows, part, grads[ROTA_OP_INPUTS_MAX] = {0};
    rota_op_use norm = {.op = rota_op_at(ROTA_OP_layernorm), .input_count = 3, .output_count = 2};
    for (uint32_t i = 0; i < INPUTS; i++) {
        const bool is_row = i == WEIGHT || i == BIAS;
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, NULL, i == R || i == DY ? ROTA_BF16 : ROTA_F32,
                                   is_row ? 1 : 2, is_row ? row : all, &in[i]));
    }
    assert_ok(rota_op_cast(tape, in[R], ROTA_F32, &wide));
    assert_ok(rota_op_add(tape, in[X], wide, &made[SUM]));
    look(tape, kind == SUM_IS_READ, made[SUM]);
    norm.inputs[0] = made[SUM];
    if (affine) norm.inputs[1] = in[WEIGHT], norm.inputs[2] = in[BIAS];
    norm.attributes.eps = 1e-5f;
    assert_ok(rota_op_apply(tape, &norm));
    look(tape, kind == Y_IS_READ, norm.outputs[0]);
    assert_ok(rota_op_cast(tape, norm.outputs[0], ROTA_BF16, &made[Y]));
    assert_ok(rota_op_cast(tape, in[DY], ROTA_F32, &dy));
    look(tape, kind == DY_IS_READ, dy);
    assert_ok(rota_tape_temporary(tape, "rows", ROTA_F32, ROTA_SHAPE(2, DIM), &rows));
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_tensor_slice(&rows, 0, i, 1, &part));
        assert_ok(rota_tensor_reshape(&part, ROTA_SHAPE(DIM), &grads[1 + i]));
        made[DWEIGHT + i] = grads[1 + i];
    }
    assert_ok(rota_op_gradient(tape, &norm, dy, affine ? 7 : 1, grads));
    look(tape, kind == DX_IS_READ, grads[0]);
    assert_ok(rota_op_add(tape, in[X], grads[0], &made[DX]));
    if (kind == DX_IS_FILLED) {
        assert_ok(rota_tensor_slice(&made[DX], 0, 3, 2, &part));
        assert_ok(rota_op_fill_into(tape, part, 0));
    }
    assert_ok(rota_op_cast(tape, made[DX], ROTA_BF16, &made[NARROW]));
}

static void run(const ops_stub *stub, rota_device *device, int kind, bool affine, values *out) {
    static float data[COUNT], of[2][DIM];
    static uint16_t half[2][COUNT];
    ops_stub_graph g;
    rota_tensor in[INPUTS], made[OUTPUTS], go[OUTPUTS];
    for (uint32_t i = 0; i < COUNT; i++) {
        data[i] = (float)(i * 7 % 31) * 0.125f - 1.5f;
        half[0][i] = ops_stub_to_bf16((float)(i * 11 % 29) * 0.25f - 3.0f);
        half[1][i] = ops_stub_to_bf16((float)(i * 5 % 23) * 0.5f - 5.0f);
    }
    for (uint32_t c = 0; c < DIM; c++) of[0][c] = 1.0f + 0.1f * (float)c, of[1][c] = 0.3f - 0.05f * (float)c;
    ops_stub_record(&g, &ROTA_TAPE_OPTIONS(.no_gradients = true));
    record(g.tape, kind, affine, in, made);
    float *const to[OUTPUTS] = {out->y, out->sum, out->dx, out->narrow, out->dweight, out->dbias};
    const uint32_t count = affine ? OUTPUTS : DWEIGHT;
    for (uint32_t i = 0; i < count; i++) go[i] = output(g.tape, made[i]);
    ops_stub_compile(&g, stub, device);
    const void *given[INPUTS] = {data, half[0], of[0], of[1], half[1]};
    for (uint32_t i = 0; i < INPUTS; i++)
        assert_ok(rota_args_set_input(g.args, in[i].buffer, given[i], rota_buffer_size(in[i].buffer), false));
    for (uint32_t i = 0; i < count; i++)
        assert_ok(rota_args_set_output(g.args, go[i].buffer, to[i], rota_buffer_size(go[i].buffer)));
    (void)ops_stub_replay(&g);
}

static void expect(const float *is, const float *wanted, uint32_t count, float within, const char *what) {
    for (uint32_t i = 0; i < count; i++)
        if (fabsf(is[i] - wanted[i]) > within * (1 + fabsf(wanted[i])))
            fail_msg("%s[%u] is %g, not %g", what, i, (double)is[i], (double)wanted[i]);
}

static void what_stands_around_norms_joins_them(void **state) {
    (void)state;
    static const rota_kernel mixed[] = {{.name = "layernorm_mixed",
                                         .operand_count = ROTA_MIXED_OPERANDS,
                                         .param_bytes = sizeof(rota_cuda_mixed_norm_params),
                                         .cpu = {.fn = norm_mixed},
                                         .cuda = {.entry = "layernorm_mixed"}},
                                        {.name = "layernorm_mixed_gradient",
                                         .operand_count = ROTA_MIXED_GRADIENT_OPERANDS,
                                         .param_bytes = sizeof(rota_cuda_mixed_norm_params),
                                         .cpu = {.fn = norm_mixed_gradient},
                                         .cuda = {.entry = "layernorm_mixed_gradient"}}};
    static values beside, is;
    ops_stub stub;
    if (!ops_stub_open(&stub, mixed, 2)) return;
    for (int affine = 0; affine < 2; affine++)
        for (int kind = 0; kind < KINDS; kind++) {
            norms = gradients = 0;
            run(&stub, stub.cpu, kind, affine, &beside);
            run(&stub, stub.cuda, kind, affine, &is);
            assert_int_equal(norms, kind != Y_IS_READ);
            assert_int_equal(gradients, affine); /* without weights their sums are not made */
            const uint32_t of = affine ? ROTA_NORM_WEIGHT | ROTA_NORM_BIAS : 0;
            if (norms) assert_int_equal(norm_flags, of | (kind == SUM_IS_READ ? 0 : ROTA_MIXED_RESIDUAL));
            if (affine)
                assert_int_equal(gradient_flags,
                                 of | (kind == DX_IS_READ     ? 0
                                       : kind == DX_IS_FILLED ? ROTA_MIXED_ADDEND
                                                              : ROTA_MIXED_ADDEND | ROTA_MIXED_NARROW));
            expect(is.y, beside.y, COUNT, 0.01f, "y");
            expect(is.sum, beside.sum, COUNT, 0, "sum");
            expect(is.dx, beside.dx, COUNT, 1e-5f, "dx");
            expect(is.narrow, beside.narrow, COUNT, 0.01f, "narrow");
            if (!affine) continue;
            expect(is.dweight, beside.dweight, DIM, 1e-4f, "dweight");
            expect(is.dbias, beside.dbias, DIM, 1e-4f, "dbias");
        }
    ops_stub_close(&stub);
}
int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_stands_around_norms_joins_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    return 77; /* built without CUDA's headers */
}

#endif
