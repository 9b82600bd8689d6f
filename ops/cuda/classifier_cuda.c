/* classifier_in_pieces as a library node: for one piece of rows after the other the scores' product, the loss
 * with its gradient in their place, and the two products of that. The weights' gradient is added up in f32. */
#include "ops/cuda/classifier_cuda.h"
#include "ops/cuda/image.h"
#include "ops/cuda/loss_cuda.h"
#include "ops/cuda/matmul_cuda.h"
#include "ops/kernel_objects.h"

enum { X, W, LABELS, LOSSES, LSE, DX, DW, OWN };
enum { SCORES_OF, DW_OF, DX_OF, PRODUCTS }; /* dx may be in the place of x, which dw is made of */
#define HALF_BYTES 2u
#define PLACE 256u /* where the sums begin in the workspace: at a multiple of this */

/* One product of a piece. */
typedef struct product {
    rota_matmul_params params;
    uint64_t operands[3], bytes[3];
} product;

static uint64_t scores_bytes(const rota_cuda_classifier_params *p) {
    return ((uint64_t)p->piece * p->loss.pitch * HALF_BYTES + PLACE - 1) / PLACE * PLACE;
}

static uint64_t weights(const rota_cuda_classifier_params *p) {
    return (uint64_t)p->k * p->loss.pitch;
}

static uint64_t workspace_bytes(const void *params, const uint64_t *operand_bytes,
                                const rota_cuda_target *target) {
    (void)operand_bytes, (void)target;
    const rota_cuda_classifier_params *p = params;
    return scores_bytes(p) + (p->dw_dtype == ROTA_F32 ? 0 : weights(p) * sizeof(float));
}

/* Where dw is added up. */
static uint64_t sums_of(const rota_cuda_call *call) {
    const rota_cuda_classifier_params *p = call->params;
    return p->dw_dtype == ROTA_F32 ? call->operands[DW] : call->operands[OWN] + scores_bytes(p);
}

static rota_matmul_params params_of(const rota_cuda_classifier_product *about, uint32_t m, uint32_t n,
                                    uint32_t k, uint32_t c_dtype) {
    return (rota_matmul_params){.m = m,
                                .n = n,
                                .k = k,
                                .lda = about->lda,
                                .ldb = about->ldb,
                                .ldc = about->ldc,
                                .flags = about->flags,
                                .c_dtype = c_dtype,
                                .alpha = 1.0f,
                                .batch = {1, 1, 1}};
}

/* Rows [first, first + rows) of an array of 16 bits. */
static void rows_of(const rota_cuda_call *call, uint32_t operand, uint64_t ld, uint64_t columns,
                    uint64_t first, uint64_t rows, uint64_t *out_address, uint64_t *out_bytes) {
    *out_address = call->operands[operand] + first * ld * HALF_BYTES;
    *out_bytes = ((rows - 1) * ld + columns) * HALF_BYTES;
}

static void products_of(const rota_cuda_call *call, uint32_t first, uint32_t rows, product out[PRODUCTS]) {
    const rota_cuda_classifier_params *p = call->params;
    const uint32_t classes = p->loss.pitch, dtype = p->loss.dtype;
    const bool of_x = (p->flags & ROTA_CUDA_CLASSIFIER_DW_OF_X) != 0;
    const uint64_t scores = call->operands[OWN], scores_size = (uint64_t)rows * classes * HALF_BYTES;
    uint64_t x, x_bytes, dx, dx_bytes;
    rows_of(call, X, p->scores.lda, p->k, first, rows, &x, &x_bytes);
    rows_of(call, DX, p->dx.ldc, p->k, first, rows, &dx, &dx_bytes);
    out[SCORES_OF] = (product){.params = params_of(&p->scores, rows, classes, p->k, dtype),
                               .operands = {x, call->operands[W], scores},
                               .bytes = {x_bytes, call->operand_bytes[W], scores_size}};
    out[DW_OF] = (product){
        .params = params_of(&p->dw, of_x ? p->k : classes, of_x ? classes : p->k, rows, ROTA_F32),
        .operands = {of_x ? x : scores, of_x ? scores : x, sums_of(call)},
        .bytes = {of_x ? x_bytes : scores_size, of_x ? scores_size : x_bytes, weights(p) * sizeof(float)}};
    out[DX_OF] = (product){.params = params_of(&p->dx, rows, p->k, classes, dtype),
                           .operands = {scores, call->operands[W], dx},
                           .bytes = {scores_size, call->operand_bytes[W], dx_bytes}};
    if (first > 0) out[DW_OF].params.flags |= ROTA_MATMUL_ACCUMULATE;
}

static rota_cuda_call call_of(const rota_cuda_call *call, const product *of) {
    rota_cuda_call made = *call;
    made.params = &of->params;
    made.operands = of->operands;
    made.operand_bytes = of->bytes;
    made.operand_count = 3;
    return made;
}

static uint32_t rows_at(const rota_cuda_classifier_params *p, uint32_t first) {
    const uint32_t left = p->loss.rows - first;
    return left < p->piece ? left : p->piece;
}

static rota_status call_piece(const rota_cuda_call *call, uint32_t first) {
    const rota_cuda_classifier_params *p = call->params;
    const rota_dtype dtype = (rota_dtype)p->loss.dtype;
    const rota_cuda_loss_piece_params piece = {p->loss, first, rows_at(p, first)};
    product products[PRODUCTS];
    products_of(call, first, piece.count, products);
    const uint64_t operands[] = {call->operands[OWN], call->operands[LABELS], call->operands[LOSSES],
                                 call->operands[LSE]},
                   bytes[] = {products[SCORES_OF].bytes[2], call->operand_bytes[LABELS],
                              call->operand_bytes[LOSSES], call->operand_bytes[LSE]};
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        const rota_cuda_call of = call_of(call, &products[i]);
        ROTA_TRY(rota_cuda_call_product(&of, dtype));
        if (i == SCORES_OF)
            ROTA_TRY(rota_cuda_image_run(&rota_cuda_cross_entropy_piece, call, operands, bytes, &piece));
    }
    return ROTA_OK;
}

static rota_status call_classifier(const rota_cuda_call *call) {
    const rota_cuda_classifier_params *p = call->params;
    for (uint64_t first = 0; first < p->loss.rows; first += p->piece)
        ROTA_TRY(call_piece(call, (uint32_t)first));
    if (p->dw_dtype == ROTA_F32) return ROTA_OK;
    const uint64_t operands[] = {sums_of(call), call->operands[DW]},
                   bytes[] = {weights(p) * sizeof(float), call->operand_bytes[DW]};
    const rota_cast_params cast = {.count = (uint32_t)weights(p), .from = ROTA_F32, .to = p->dw_dtype};
    return rota_cuda_image_run(&rota_kernel_cast, call, operands, bytes, &cast);
}

/* The first piece, the second, which adds to what the first wrote, and the last, which may be smaller. */
static rota_status tune_classifier(const rota_cuda_call *call) {
    const rota_cuda_classifier_params *p = call->params;
    const uint32_t last = (p->loss.rows - 1) / p->piece * p->piece,
                   firsts[] = {0, p->piece < last ? p->piece : last, last};
    for (uint32_t i = 0; i < 3; i++) {
        product products[PRODUCTS];
        products_of(call, firsts[i], rows_at(p, firsts[i]), products);
        for (uint32_t k = 0; k < PRODUCTS; k++) {
            const rota_cuda_call of = call_of(call, &products[k]);
            ROTA_TRY(rota_matmul_choice_measure(&of, (rota_dtype)p->loss.dtype, NULL));
        }
    }
    return ROTA_OK;
}

static double work(const void *params, const uint64_t *operand_bytes) {
    (void)operand_bytes;
    const rota_cuda_classifier_params *p = params;
    return 6.0 * p->loss.rows * (double)weights(p);
}

const rota_kernel rota_cuda_classifier_in_pieces = {
    .name = "classifier_in_pieces",
    .operand_count = ROTA_CUDA_CLASSIFIER_OPERANDS,
    .param_bytes = sizeof(rota_cuda_classifier_params),
    .flags = ROTA_KERNEL_PURE,
    .inplace_outputs = 1u << DX,
    .inplace_inputs = 1u << X,
    .work = work,
    .cuda = {.call = call_classifier, .tune = tune_classifier, .workspace = workspace_bytes},
};

bool rota_cuda_classifier_takes(const rota_cuda_target *target) {
    return target && rota_cublaslt_present() && rota_cuda_cross_entropy_piece.cuda.image &&
           rota_kernel_cast.cuda.image;
}
