/* Launching the gradient of attention on Hopper: tensor maps, shares, kernels out of the image. */
#include "ops/cuda/attention_sm90.h"

#include "cuda/attention_sm90.h"
#include "ops/attention.h"
#include "ops/cuda/attention_sm90_shares.h"
#include "ops/cuda/driver.h"
#include "ops/cuda/image.h"
#include "ops/cuda/tensor_map.h"
#include "ops/tensor.h"

#define ELEMENT_BYTES 2u
/* Sums beyond this are too much memory to ask for. */
#define SUMS_BYTES_MAX (UINT64_C(1) << 30)

/* rota_args of exec/cuda/rota_kernel.cuh with as many operands as a kernel has. */
typedef struct kernel_args_3 {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[3];
    rota_attention_backward_params params;
} kernel_args_3;
typedef struct kernel_args_4 {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[4];
    rota_attention_backward_params params;
} kernel_args_4;
typedef struct kernel_args_5 {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[5];
    rota_attention_backward_params params;
} kernel_args_5;

/* attention_prepared of attention_sm90.cuh. */
typedef struct prepared {
    uint64_t maps[7][ROTA_TENSOR_MAP_WORDS];
    rota_attention_sm90_shares shares;
} prepared;
_Static_assert(sizeof(prepared) == ROTA_ATTENTION_SM90_PREPARED_BYTES, "as the kernels have it");

static const rota_kernel image = {.cuda = {ROTA_CUDA_IMAGE_attention_sm90}};

static rota_dtype dtype_of(const rota_attention_backward_params *p) {
    return (rota_dtype)(p->flags >> ROTA_ATTENTION_DTYPE_SHIFT);
}

static uint64_t stats_bytes(const rota_attention_backward_params *p) {
    return rota_attention_sm90_pairs(p) * rota_attention_sm90_tiles(p->queries) *
           (uint64_t)ROTA_ATTENTION_SM90_STATS_BYTES;
}

/* Two turns a tile. */
static uint64_t turns_bytes(const rota_attention_backward_params *p) {
    return (rota_attention_sm90_pairs(p) * rota_attention_sm90_tiles(p->queries) * 2 * sizeof(uint32_t) +
            15) /
           16 * 16;
}

/* As most shares want; those that want more have a bound of their own. */
static uint64_t sums_bytes_most(const rota_attention_backward_params *p, uint32_t at_once) {
    const uint64_t pairs = rota_attention_sm90_pairs(p), most = at_once > 0 ? at_once + pairs % at_once : 1;
    return (pairs < most ? pairs : most) * rota_attention_sm90_tiles(p->queries) *
           (uint64_t)ROTA_ATTENTION_SM90_SUMS_BYTES;
}

static bool strides_fit(const rota_attention_backward_params *p, const uint32_t stride[3], uint32_t rows) {
    const uint32_t extent[3] = {p->batch, p->heads, rows};
    for (int axis = 0; axis < 3; axis++)
        if (extent[axis] > 1 && (stride[axis] % 8 != 0 || stride[axis] == 0)) return false;
    return true;
}

bool rota_attention_sm90_takes(const rota_attention_backward_params *p, const rota_cuda_target *target) {
    const rota_dtype dtype = dtype_of(p);
    if (!image.cuda.image || target->compute_capability != 90) return false;
    if (target->shared_bytes_max < ROTA_ATTENTION_SM90_SHARED) return false;
    if ((dtype != ROTA_F16 && dtype != ROTA_BF16) || !(p->flags & ROTA_ATTENTION_ALIGNED_16)) return false;
    if (p->dim == 0 || p->dim % 8 != 0 || p->dim > ROTA_ATTENTION_SM90_DIM) return false;
    if (rota_attention_sm90_pairs(p) == 0 || p->queries == 0 || p->keys == 0) return false;
    if ((p->flags & ROTA_ATTENTION_CAUSAL) && p->queries > p->keys) return false;
    if (p->queries > INT32_MAX / 2 || p->keys > INT32_MAX / 2) return false; /* coordinates */
    return sums_bytes_most(p, target->multiprocessors) <= SUMS_BYTES_MAX &&
           strides_fit(p, p->q_stride, p->queries) && strides_fit(p, p->kv_stride, p->keys) &&
           strides_fit(p, p->out_stride, p->queries);
}

/* Bytes to work with, and the shares that want them; 0: it isn't taken. */
static uint64_t divide(const rota_attention_backward_params *p, const rota_cuda_target *target,
                       rota_attention_sm90_shares *out) {
    if (!rota_attention_sm90_takes(p, target)) return 0;
    rota_attention_sm90_share(p, target, out);
    return stats_bytes(p) + turns_bytes(p) +
           rota_attention_sm90_share_sums(p, target, out) * rota_attention_sm90_tiles(p->queries) *
               (uint64_t)ROTA_ATTENTION_SM90_SUMS_BYTES;
}

uint64_t rota_attention_sm90_workspace(const rota_attention_backward_params *p,
                                       const rota_cuda_target *target) {
    rota_attention_sm90_shares shares;
    return divide(p, target, &shares);
}

/* ---- Launching ---- */

typedef struct kernel_launch {
    const char *name;
    uint64_t blocks;
    uint32_t threads, shared_bytes;
    bool together; /* its blocks wait for one another */
    void **parameters;
} kernel_launch;

static rota_status put(const rota_cuda_call *call, const kernel_launch *k) {
    const rota_cuda_driver *cu;
    CUfunction function;
    ROTA_TRY(rota_cuda_driver_get(&cu));
    ROTA_TRY(rota_cuda_image_function(image.cuda.image, k->name, k->shared_bytes, &function));
    CUlaunchAttribute together = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    const CUlaunchConfig config = {.gridDimX = (uint32_t)k->blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = k->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = k->shared_bytes,
                                   .hStream = (CUstream)call->stream,
                                   .attrs = &together,
                                   .numAttrs = k->together};
    return rota_cuda_driver_check(cu, cu->LaunchKernelEx(&config, function, k->parameters, NULL), k->name);
}

/* Rows of an operand, 64 columns and `box` rows at a time. */
static rota_status map_make(const rota_attention_backward_params *p, uint64_t address,
                            const uint32_t stride[3], uint32_t rows, uint32_t box,
                            uint64_t out_map[ROTA_TENSOR_MAP_WORDS]) {
    const uint64_t extents[] = {p->dim, rows, p->heads, p->batch};
    const uint32_t boxes[] = {ROTA_ATTENTION_SM90_DIM, box, 1, 1};
    uint64_t strides[3];
    for (int i = 0; i < 3; i++) /* that of one row, say, is none */
        strides[i] = (extents[i + 1] > 1 ? stride[2 - i] : 8u) * (uint64_t)ELEMENT_BYTES;
    return rota_tensor_map_make(dtype_of(p), 4, address, extents, strides, boxes, out_map);
}

static rota_status prepare(const rota_attention_backward_params *p, const uint64_t *o, prepared *out) {
    const uint32_t block = ROTA_ATTENTION_SM90_BLOCK; /* each warpgroup stores its half of one */
    const struct {
        uint32_t operand, rows, box;
        const uint32_t *stride;
    } all[7] = {{ROTA_ATTENTION_BACKWARD_Q, p->queries, block, p->q_stride},
                {ROTA_ATTENTION_BACKWARD_K, p->keys, block, p->kv_stride},
                {ROTA_ATTENTION_BACKWARD_V, p->keys, block, p->kv_stride},
                {ROTA_ATTENTION_BACKWARD_DOUT, p->queries, block, p->out_stride},
                {ROTA_ATTENTION_BACKWARD_DQ, p->queries, block / 2, p->q_stride},
                {ROTA_ATTENTION_BACKWARD_DK, p->keys, block / 2, p->kv_stride},
                {ROTA_ATTENTION_BACKWARD_DV, p->keys, block / 2, p->kv_stride}};
    for (int i = 0; i < 7; i++)
        ROTA_TRY(map_make(p, o[all[i].operand], all[i].stride, all[i].rows, all[i].box, out->maps[i]));
    return ROTA_OK;
}

/* draw: 0, or what is drawn from. */
static rota_status run(const rota_cuda_call *call, uint64_t draw, uint64_t workspace,
                       uint64_t workspace_bytes) {
    const rota_attention_backward_params *p = call->params;
    prepared maps = {0};
    const uint64_t *o = call->operands, wanted = divide(p, call->target, &maps.shares);
    const bool bf16 = dtype_of(p) == ROTA_BF16;
    if (wanted == 0 || workspace_bytes < wanted)
        return rota_fail(ROTA_UNSUPPORTED,
                         "attention's gradient on Hopper: %llu bytes to work with, it wants %llu",
                         (unsigned long long)workspace_bytes, (unsigned long long)wanted);
    uint64_t last_bits = workspace;
    for (uint32_t i = 0; i < ROTA_ATTENTION_BACKWARD_OPERANDS; i++) last_bits |= o[i];
    if (last_bits % 16 != 0) /* in a view of a buffer that begins there */
        return rota_fail(ROTA_UNSUPPORTED, "an operand of attention is at no multiple of 16 bytes");
    const uint64_t turns = workspace + stats_bytes(p), sums = turns + turns_bytes(p);
    ROTA_TRY(prepare(p, o, &maps));
    kernel_args_5 before = {.operands = {o[ROTA_ATTENTION_BACKWARD_OUT], o[ROTA_ATTENTION_BACKWARD_DOUT],
                                         o[ROTA_ATTENTION_BACKWARD_LSE], workspace, turns},
                            .params = *p};
    kernel_args_3 products = {.operands = {workspace, turns, sums}, .params = *p};
    kernel_args_4 dropping = {.operands = {workspace, turns, sums, draw}, .params = *p};
    const char *const names[2][2] = {{"attention_sm90_f16", "attention_sm90_dropout_f16"},
                                     {"attention_sm90_bf16", "attention_sm90_dropout_bf16"}};
    const kernel_launch first = {.name = bf16 ? "attention_sm90_prepare_bf16" : "attention_sm90_prepare_f16",
                                 .blocks =
                                     rota_attention_sm90_pairs(p) * rota_attention_sm90_tiles(p->queries),
                                 .threads = ROTA_ATTENTION_SM90_ROW_THREADS,
                                 .parameters = (void *[]){&before}},
                        second = {.name = names[bf16][draw != 0],
                                  .blocks = rota_attention_sm90_share_blocks(p, call->target, &maps.shares),
                                  .threads = ROTA_ATTENTION_SM90_THREADS,
                                  .shared_bytes = ROTA_ATTENTION_SM90_SHARED,
                                  .together = maps.shares.divided > 0 || maps.shares.each > 1,
                                  .parameters = (void *[]){draw ? (void *)&dropping : &products, &maps}};
    ROTA_TRY(put(call, &first));
    return put(call, &second);
}

rota_status rota_attention_sm90_run(const rota_cuda_call *call, uint64_t workspace,
                                    uint64_t workspace_bytes) {
    return run(call, 0, workspace, workspace_bytes);
}

rota_status rota_attention_sm90_run_dropout(const rota_cuda_call *call, uint64_t workspace,
                                            uint64_t workspace_bytes) {
    return run(call, call->operands[ROTA_ATTENTION_BACKWARD_DRAW], workspace, workspace_bytes);
}
