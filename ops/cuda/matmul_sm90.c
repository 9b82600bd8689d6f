/* Launching the Hopper products: tensor maps, grids, kernels out of the image. */
#include "ops/cuda/matmul_sm90.h"

#include <math.h>
#include "base/divide.h"
#include "cuda/matmul_sm90.h"
#include "ops/cuda/driver.h"
#include "ops/cuda/image.h"
#include "ops/cuda/tensor_map.h"

#define TILE(ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING, GROUP)                        \
    {ROWS,      COLUMNS,   WARPGROUPS, STAGES,                                                               \
     CLUSTER_M, CLUSTER_N, GROUP,      ROTA_MATMUL_SM90_SHARED(ROWS, COLUMNS, WARPGROUPS, STAGES, STAGING)},
const rota_matmul_sm90_tile rota_matmul_sm90_tiles[ROTA_MATMUL_SM90_TILE_COUNT] = {
    ROTA_MATMUL_SM90_TILES(TILE)};
#undef TILE

#define TILE(...) ROTA_MATMUL_SM90_NAMES(matmul_sm90, __VA_ARGS__),
static const char *const names[ROTA_MATMUL_SM90_TILE_COUNT][2][4] = {ROTA_MATMUL_SM90_TILES(TILE)};
#undef TILE

/* The kernels' parameters: rota_args of exec/cuda/rota_kernel.cuh, and what matmul_sm90.cuh calls prepared.
 */
typedef struct kernel_args {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[3];
    rota_matmul_params params;
} kernel_args;

typedef struct prepared {
    uint64_t maps[3][ROTA_TENSOR_MAP_WORDS];
    uint32_t group, unused[15];
} prepared;
_Static_assert(sizeof(prepared) == ROTA_MATMUL_SM90_PREPARED_BYTES, "as the kernels have it");

static const rota_kernel image = {.cuda = {ROTA_CUDA_IMAGE_matmul_sm90}};

const char *rota_matmul_sm90_refuses_operands(const rota_matmul_params *p, rota_dtype dtype,
                                              const rota_cuda_target *target) {
    if (!image.cuda.image) return "rota was built without their image (ROTA_CUDA, architecture 90a)";
    if (target->compute_capability != 90) return "the device is not of compute capability 9.0";
    if (dtype != ROTA_F16 && dtype != ROTA_BF16) return "operands are not f16 or bf16";
    if (p->batch[0] != 1 || p->batch[1] != 1 || p->batch[2] != 1) return "there are several batches";
    if (p->m == 0 || p->n == 0 || p->k == 0) return "the product is empty";
    if (p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX) return "an extent has more than 31 bits";
    for (uint32_t i = 0; i < ROTA_MATMUL_SM90_TILE_COUNT; i++)
        if (rota_matmul_sm90_tiles[i].shared_bytes > target->shared_bytes_max)
            return "a block of the device has too little shared memory for one of the tiles";
    return NULL;
}

/* Whatever follows the product: why the kernels don't take it; NULL: they do. */
static const char *refuses_product(const rota_matmul_params *p, rota_dtype dtype,
                                   const rota_cuda_target *target) {
    const char *refuses = rota_matmul_sm90_refuses_operands(p, dtype, target);
    if (refuses) return refuses;
    if (p->c_dtype != (uint32_t)dtype) return "results are not of the operands' type";
    if (p->flags & ROTA_MATMUL_ACCUMULATE) return "the product is added to what is there";
    if (p->lda % 8 || p->ldb % 8 || p->ldc % 8) return "a leading dimension is not a multiple of 8 elements";
    /* The copy engine stores 16 bytes whole: it would write into the gap behind a row that ends within them. */
    if (p->n % 8) return "rows of the result are not a multiple of 8 elements long";
    return NULL;
}

static bool takes_product(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target) {
    return !refuses_product(p, dtype, target);
}

const char *rota_matmul_sm90_refuses(const rota_matmul_params *p, rota_dtype dtype,
                                     const rota_cuda_target *target) {
    return p->flags & ROTA_LINEAR_EPILOGUE ? "something follows the product"
                                           : refuses_product(p, dtype, target);
}

bool rota_matmul_sm90_takes(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target) {
    return !rota_matmul_sm90_refuses(p, dtype, target);
}

bool rota_linear_sm90_takes(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target) {
    const uint32_t gelu = ROTA_LINEAR_GELU | ROTA_LINEAR_KEEP, flags = p->flags & ROTA_LINEAR_EPILOGUE;
    return (flags & gelu) == gelu && (flags & ~gelu & ~ROTA_LINEAR_BIAS) == 0 && p->alpha == 1.0f &&
           ROTA_LINEAR_SM90_SHARED <= target->shared_bytes_max && !(p->flags & ROTA_MATMUL_TRANSPOSE_A) &&
           takes_product(p, dtype, target);
}

bool rota_linear_sm90_takes_gradient(const rota_matmul_params *p, rota_dtype dtype,
                                     const rota_cuda_target *target) {
    return p->alpha == 1.0f && ROTA_LINEAR_SM90_SHARED <= target->shared_bytes_max &&
           !(p->flags & ROTA_MATMUL_TRANSPOSE_A) && rota_matmul_sm90_takes(p, dtype, target);
}

/* Clusters' tiles. */
static uint64_t cluster_tiles(const rota_matmul_params *p, const rota_matmul_sm90_tile *t) {
    return rota_divide_up(p->m, (uint64_t)t->rows * t->cluster_m) *
           rota_divide_up(p->n, (uint64_t)t->columns * t->cluster_n);
}

static uint64_t clusters_at_once(const rota_matmul_sm90_tile *t, const rota_cuda_target *target) {
    uint64_t count = target->multiprocessors / (t->cluster_m * t->cluster_n);
    return count ? count : 1;
}

static double cost(const rota_matmul_params *p, const rota_cuda_target *target, uint32_t tile) {
    const rota_matmul_sm90_tile *t = &rota_matmul_sm90_tiles[tile];
    return (double)rota_divide_up(cluster_tiles(p, t), clusters_at_once(t, target)) * t->rows * t->columns;
}

double rota_matmul_sm90_cost(const rota_matmul_params *p, const rota_cuda_target *target, uint32_t tile) {
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < ROTA_MATMUL_SM90_TILE_COUNT; i++) least = fmin(least, cost(p, target, i));
    return cost(p, target, tile) / least;
}

/* An operand [positions, sums], or [sums, positions] in memory if `across`: contiguous along the positions. Blocks
 * that share it load a part each: of its positions, or, across, of its sums. */
static rota_matmul_sm90_map operand_map(uint64_t address, uint64_t positions, uint64_t sums, uint64_t ld,
                                        bool across, uint32_t tile_positions, uint32_t sharers) {
    rota_matmul_sm90_map map = {.address = address, .stride_y_bytes = ld * 2};
    map.extent_x = across ? positions : sums;
    map.extent_y = across ? sums : positions;
    /* NOLINTNEXTLINE(bugprone-branch-clone): equal today */
    map.box_x = across ? ROTA_MATMUL_SM90_PIECE : ROTA_MATMUL_SM90_STEP;
    map.box_y = (across ? ROTA_MATMUL_SM90_STEP : tile_positions) / sharers;
    return map;
}

static void maps_of(const rota_matmul_params *p, const rota_matmul_sm90_tile *t, const uint64_t operands[3],
                    rota_matmul_sm90_map out_maps[3]) {
    out_maps[0] = operand_map(operands[0], p->m, p->k, p->lda, (p->flags & ROTA_MATMUL_TRANSPOSE_A) != 0,
                              t->rows, t->cluster_n);
    out_maps[1] = operand_map(operands[1], p->n, p->k, p->ldb, (p->flags & ROTA_MATMUL_TRANSPOSE_B) == 0,
                              t->columns, t->cluster_m);
    out_maps[2] = (rota_matmul_sm90_map){
        operands[2], p->n, p->m, (uint64_t)p->ldc * 2, ROTA_MATMUL_SM90_PIECE, ROTA_MATMUL_SM90_PIECE};
}

void rota_matmul_sm90_maps(const rota_matmul_params *p, uint32_t tile, const uint64_t operands[3],
                           rota_matmul_sm90_map out_maps[3]) {
    maps_of(p, &rota_matmul_sm90_tiles[tile], operands, out_maps);
}

static void launch_of(const rota_matmul_params *p, const rota_matmul_sm90_tile *t,
                      const rota_cuda_target *target, rota_cuda_launch *out_launch) {
    const uint32_t cluster = t->cluster_m * t->cluster_n;
    uint64_t clusters = cluster_tiles(p, t), most = clusters_at_once(t, target);
    if (clusters > most) clusters = most;
    *out_launch = (rota_cuda_launch){.groups = {(uint32_t)clusters * cluster, 1, 1},
                                     .block = {(t->warpgroups + 1) * 128, 1, 1},
                                     .cluster = {cluster, 1, 1},
                                     .shared_bytes = t->shared_bytes};
}

void rota_matmul_sm90_launch_of(const rota_matmul_params *p, uint32_t tile, const rota_cuda_target *target,
                                rota_cuda_launch *out_launch) {
    launch_of(p, &rota_matmul_sm90_tiles[tile], target, out_launch);
}

bool rota_matmul_sm90_aligned(const uint64_t operands[3]) {
    return (operands[0] | operands[1] | operands[2]) % 16 == 0;
}

/* ---- Launching ---- */

static rota_status map_make(const rota_matmul_sm90_map *map, rota_dtype dtype,
                            uint64_t out_map[ROTA_TENSOR_MAP_WORDS]) {
    const uint64_t extents[] = {map->extent_x, map->extent_y}, strides[] = {map->stride_y_bytes};
    const uint32_t box[] = {map->box_x, map->box_y};
    return rota_tensor_map_make(dtype, 2, map->address, extents, strides, box, out_map);
}

/* Of the product in kernel_args, which has its operands' maps in `tensor_maps`. */
static rota_status put(const rota_cuda_call *call, const rota_matmul_sm90_tile *t, const void *of_image,
                       const char *name, kernel_args *args, void *tensor_maps) {
    const rota_cuda_driver *cu;
    rota_cuda_launch launch;
    CUfunction function;
    ROTA_TRY(rota_cuda_driver_get(&cu));
    launch_of(&args->params, t, call->target, &launch);
    ROTA_TRY(rota_cuda_image_function(of_image, name, launch.shared_bytes, &function));
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 .value.clusterDim = {launch.cluster[0], 1, 1}};
    const CUlaunchConfig config = {.gridDimX = launch.groups[0],
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = launch.block[0],
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = launch.shared_bytes,
                                   .hStream = (CUstream)call->stream,
                                   .attrs = &cluster,
                                   .numAttrs = 1};
    void *parameters[] = {args, tensor_maps};
    return rota_cuda_driver_check(cu, cu->LaunchKernelEx(&config, function, parameters, NULL),
                                  "cuLaunchKernelEx of a Hopper product");
}

rota_status rota_matmul_sm90_put(const rota_cuda_call *call, const rota_matmul_params *p, rota_dtype dtype,
                                 uint32_t tile, const uint64_t operands[3],
                                 const rota_matmul_sm90_kernels *kernels) {
    const uint32_t layout =
        (p->flags & ROTA_MATMUL_TRANSPOSE_A ? 2u : 0u) + (p->flags & ROTA_MATMUL_TRANSPOSE_B ? 1u : 0u);
    kernel_args args = {.operands = {operands[0], operands[1], operands[2]}, .params = *p};
    prepared tensor_maps = {.group = rota_matmul_sm90_tiles[tile].group};
    rota_matmul_sm90_map maps[3];
    rota_matmul_sm90_maps(p, tile, operands, maps);
    for (int i = 0; i < (kernels->by_map ? 3 : 2); i++)
        ROTA_TRY(map_make(&maps[i], dtype, tensor_maps.maps[i]));
    return put(call, &rota_matmul_sm90_tiles[tile], kernels->image,
               kernels->names[tile][dtype == ROTA_BF16][layout], &args, &tensor_maps);
}

rota_status rota_matmul_sm90_run_of(const rota_cuda_call *call, const rota_matmul_params *p, rota_dtype dtype,
                                    uint32_t tile, const uint64_t operands[3]) {
    const rota_matmul_sm90_kernels own = {.image = image.cuda.image, .names = names, .by_map = true};
    return rota_matmul_sm90_put(call, p, dtype, tile, operands, &own);
}

rota_status rota_matmul_sm90_run(const rota_cuda_call *call, rota_dtype dtype, uint32_t tile) {
    return rota_matmul_sm90_run_of(call, call->params, dtype, tile, call->operands);
}

/* ---- Products with what follows them ---- */

/* linear_prepared of linear_sm90.cuh. */
typedef struct linear_prepared {
    uint64_t maps[4][ROTA_TENSOR_MAP_WORDS];
    uint32_t group, unused[15];
} linear_prepared;
_Static_assert(sizeof(linear_prepared) == ROTA_LINEAR_SM90_PREPARED_BYTES, "as the kernels have it");

static const rota_matmul_sm90_tile linear_tile = {.rows = ROTA_LINEAR_SM90_ROWS,
                                                  .columns = ROTA_LINEAR_SM90_COLUMNS,
                                                  .warpgroups = 2,
                                                  .stages = ROTA_LINEAR_SM90_STAGES,
                                                  .cluster_m = ROTA_LINEAR_SM90_CLUSTER,
                                                  .cluster_n = 1,
                                                  .group = 8,
                                                  .shared_bytes = ROTA_LINEAR_SM90_SHARED};

#define LINEAR_NAMES(what)                                                                                   \
    {                                                                                                        \
        {ROTA_MATMUL_SM90_TEXT(ROTA_LINEAR_SM90_NAME(what, f16, nn)),                                        \
         ROTA_MATMUL_SM90_TEXT(ROTA_LINEAR_SM90_NAME(what, f16, nt))},                                       \
            {ROTA_MATMUL_SM90_TEXT(ROTA_LINEAR_SM90_NAME(what, bf16, nn)),                                   \
             ROTA_MATMUL_SM90_TEXT(ROTA_LINEAR_SM90_NAME(what, bf16, nt))},                                  \
    }
static const char *const linear_names[2][2][2] = {LINEAR_NAMES(gelu), LINEAR_NAMES(gelu_gradient)};

bool rota_linear_sm90_aligned(const rota_linear_sm90_operands *o) {
    return (o->a | o->b | o->c | o->kept) % 16 == 0;
}

rota_status rota_linear_sm90_run(const rota_cuda_call *call, const rota_matmul_params *p, rota_dtype dtype,
                                 bool gradient, const rota_linear_sm90_operands *o) {
    const uint64_t operands[] = {o->a, o->b, o->c};
    kernel_args args = {.operands = {o->other}, .params = *p};
    linear_prepared tensor_maps = {.group = linear_tile.group};
    rota_matmul_sm90_map maps[4];
    maps_of(p, &linear_tile, operands, maps);
    maps[3] = maps[2];
    maps[3].address = o->kept;
    for (int i = 0; i < 4; i++) ROTA_TRY(map_make(&maps[i], dtype, tensor_maps.maps[i]));
    const bool transposed = (p->flags & ROTA_MATMUL_TRANSPOSE_B) != 0;
    return put(call, &linear_tile, image.cuda.image, linear_names[gradient][dtype == ROTA_BF16][transposed],
               &args, &tensor_maps);
}
