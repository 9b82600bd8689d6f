/* Launching products of matrices with uneven rows: what is moved where, and the kernels after that. */
#include "ops/cuda/matmul_evened.h"

#include "base/divide.h"
#include "cuda/matmul_evened.h"
#include "ops/cuda/image.h"

#define PART 256u /* of the workspace begin at multiples of this */
#define HALF_BYTES 2u

#define TILE(...) ROTA_MATMUL_SM90_NAMES(matmul_evened, __VA_ARGS__),
static const char *const names[ROTA_MATMUL_SM90_TILE_COUNT][2][4] = {ROTA_MATMUL_SM90_TILES(TILE)};
#undef TILE

static void launch_move(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                        rota_cuda_launch *out_launch) {
    const rota_matmul_move_params *p = params;
    (void)operand_bytes, (void)target;
    *out_launch = (rota_cuda_launch){.groups = {p->of[0].blocks + p->of[1].blocks, 1, 1},
                                     .block = {ROTA_MATMUL_MOVE_THREADS, 1, 1}};
}

/* Its image has the products, too. */
static const rota_kernel move = {.name = "matmul_move",
                                 .operand_count = 4,
                                 .param_bytes = sizeof(rota_matmul_move_params),
                                 .flags = ROTA_KERNEL_PURE,
                                 .cuda = {ROTA_CUDA_IMAGE_matmul_evened,
                                          .entry = ROTA_CUDA_ENTRY_matmul_evened(matmul_move),
                                          .launch = launch_move}};

static uint64_t chunks_of(const rota_matmul_moved *of) {
    return rota_divide_up(of->rows, ROTA_MATMUL_MOVE_ROWS) * (of->even_ld / ROTA_MATMUL_EVEN);
}

static rota_matmul_moved moved_of(uint32_t rows, uint32_t length, uint32_t ld) {
    if (ld % ROTA_MATMUL_EVEN == 0) return (rota_matmul_moved){0};
    rota_matmul_moved of = {.rows = rows, .length = length, .ld = ld};
    of.even_ld = (uint32_t)rota_divide_up(length, ROTA_MATMUL_EVEN) * ROTA_MATMUL_EVEN;
    of.blocks = (uint32_t)rota_divide_up(chunks_of(&of), ROTA_MATMUL_MOVE_THREADS);
    return of;
}

/* Rows that don't begin, or don't end, at multiples of 16 bytes. */
static bool has_uneven_result(const rota_matmul_params *p) {
    const uint64_t bytes = rota_dtype_bytes((rota_dtype)p->c_dtype);
    return (p->ldc * bytes | p->n * bytes) % ROTA_MATMUL_EVEN_BYTES != 0;
}

/* Where in the workspace things are moved, and how many bytes it has. */
static void lay_out(rota_matmul_evened *e) {
    for (uint32_t i = 0; i < 2; i++) {
        e->offset[i] = e->workspace_bytes;
        e->workspace_bytes +=
            rota_divide_up((uint64_t)e->moved[i].rows * e->moved[i].even_ld * HALF_BYTES, PART) * PART;
    }
    if (e->moved[0].rows) e->params.lda = e->moved[0].even_ld;
    if (e->moved[1].rows) e->params.ldb = e->moved[1].even_ld;
}

void rota_matmul_evened_of(const rota_matmul_params *p, rota_matmul_evened *out) {
    const bool a_across = (p->flags & ROTA_MATMUL_TRANSPOSE_A) != 0,
               b_across = (p->flags & ROTA_MATMUL_TRANSPOSE_B) == 0;
    *out = (rota_matmul_evened){.params = *p};
    out->moved[0] = moved_of(a_across ? p->k : p->m, a_across ? p->m : p->k, p->lda);
    out->moved[1] = moved_of(b_across ? p->k : p->n, b_across ? p->n : p->k, p->ldb);
    lay_out(out);
    out->by_threads = p->c_dtype == ROTA_F32 || has_uneven_result(p);
}

const char *rota_matmul_evened_refuses(const rota_matmul_params *p, rota_dtype dtype,
                                       const rota_cuda_target *target) {
    rota_matmul_evened e;
    rota_matmul_evened_of(p, &e);
    if (p->flags & ROTA_LINEAR_EPILOGUE) return "something follows the product";
    if (!move.cuda.image) return "rota was built without their image (ROTA_CUDA, architecture 90a)";
    const char *refuses = rota_matmul_sm90_refuses_operands(p, dtype, target);
    if (refuses) return refuses;
    if (p->c_dtype != (uint32_t)dtype && p->c_dtype != ROTA_F32)
        return "results are neither of the operands' type nor f32";
    if (!e.workspace_bytes && !has_uneven_result(p)) return "all rows are a multiple of 16 bytes apart";
    if ((uint64_t)p->m * p->n < rota_divide_up(e.workspace_bytes * ROTA_MATMUL_EVENED_REUSE, p->k))
        return "to move its operands to even rows would cost more than it saves";
    /* The kernel that moves counts blocks and chunks so. */
    for (uint32_t i = 0; i < 2; i++)
        if (chunks_of(&e.moved[i]) > INT32_MAX) return "an operand has 2^36 elements or more";
    return NULL;
}

bool rota_matmul_evened_takes(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target) {
    return !rota_matmul_evened_refuses(p, dtype, target);
}

bool rota_linear_evened_takes(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target) {
    rota_matmul_evened e;
    rota_matmul_params alone = *p;
    alone.flags &= ~(uint32_t)ROTA_LINEAR_EPILOGUE;
    rota_matmul_evened_of(p, &e);
    return e.workspace_bytes && rota_matmul_evened_takes(&alone, dtype, target) &&
           rota_linear_sm90_takes(&e.params, dtype, target);
}

uint64_t rota_matmul_evened_workspace(const rota_matmul_params *p, rota_dtype dtype,
                                      const rota_cuda_target *target) {
    rota_matmul_params alone = *p;
    rota_matmul_evened e = {0};
    alone.flags &= ~(uint32_t)ROTA_LINEAR_EPILOGUE;
    if (rota_matmul_evened_takes(&alone, dtype, target)) rota_matmul_evened_of(&alone, &e);
    return e.workspace_bytes;
}

bool rota_matmul_evened_by_table(const rota_matmul_params *p) {
    return (p->flags & ROTA_MATMUL_ALIGNED_16) &&
           (uint64_t)p->m * p->n >= rota_divide_up(ROTA_MATMUL_EVENED_TABLE_MIN, p->k);
}

/* ---- Launching ---- */

/* Operands of the product once they are moved; false: the workspace is too small. */
static bool operands_of(const rota_cuda_call *call, const rota_matmul_evened *e, uint64_t out_operands[3]) {
    const bool has_workspace = call->operand_count > 3;
    if (e->workspace_bytes > (has_workspace ? call->operand_bytes[3] : 0)) return false;
    for (uint32_t i = 0; i < 3; i++)
        out_operands[i] = i < 2 && e->moved[i].rows ? call->operands[3] + e->offset[i] : call->operands[i];
    return true;
}

bool rota_matmul_evened_fits(const rota_cuda_call *call) {
    const rota_matmul_params *p = call->params;
    rota_matmul_evened e;
    uint64_t operands[3];
    rota_matmul_evened_of(p, &e);
    if (!operands_of(call, &e, operands)) return false;
    const uint64_t bytes = e.by_threads ? rota_dtype_bytes((rota_dtype)p->c_dtype) : ROTA_MATMUL_EVEN_BYTES;
    for (uint32_t i = 0; i < 2; i++)
        if (call->operands[i] % HALF_BYTES) return false;
    return (operands[0] | operands[1]) % ROTA_MATMUL_EVEN_BYTES == 0 && operands[2] % bytes == 0;
}

/* Both operands at once. */
static rota_status move_operands(const rota_cuda_call *call, const rota_matmul_evened *e,
                                 const uint64_t evened[3]) {
    const rota_matmul_move_params params = {{e->moved[0], e->moved[1]}};
    const uint64_t operands[] = {call->operands[0], evened[0], call->operands[1], evened[1]},
                   bytes[] = {0, 0, 0, 0}; /* which the launch does not look at */
    return e->workspace_bytes ? rota_cuda_image_run(&move, call, operands, bytes, &params) : ROTA_OK;
}

static rota_status no_workspace(const rota_cuda_call *call, const rota_matmul_evened *e) {
    const rota_matmul_params *p = call->params;
    return rota_fail(ROTA_UNSUPPORTED,
                     "a product %u x %u x %u whose operands are moved to even rows needs %llu bytes of "
                     "workspace, and has %llu",
                     p->m, p->n, p->k, (unsigned long long)e->workspace_bytes,
                     (unsigned long long)(call->operand_count > 3 ? call->operand_bytes[3] : 0));
}

rota_status rota_matmul_evened_move(const rota_cuda_call *call, rota_matmul_evened *out,
                                    uint64_t out_operands[3]) {
    rota_matmul_evened_of(call->params, out);
    if (!operands_of(call, out, out_operands)) return no_workspace(call, out);
    return move_operands(call, out, out_operands);
}

rota_status rota_matmul_evened_run(const rota_cuda_call *call, rota_dtype dtype, uint32_t tile) {
    const rota_matmul_sm90_kernels own = {.image = move.cuda.image, .names = names};
    rota_matmul_evened e;
    uint64_t operands[3];
    ROTA_TRY(rota_matmul_evened_move(call, &e, operands));
    return e.by_threads ? rota_matmul_sm90_put(call, &e.params, dtype, tile, operands, &own)
                        : rota_matmul_sm90_run_of(call, &e.params, dtype, tile, operands);
}
