/* What sm_90a offers beside plain CUDA C, as functions: barriers in shared memory, bulk copies of tensor tiles,
 * products of a warpgroup, clusters. Names follow PTX. */
#ifndef ROTA_OPS_CUDA_HOPPER_CUH
#define ROTA_OPS_CUDA_HOPPER_CUH

#include <stdint.h>

/* What cuTensorMapEncodeTiled makes. */
struct alignas(64) tensor_map {
    uint64_t words[16];
};

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/* ---- Barriers (mbarrier) ---- */

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
/* Makes the initialisations visible to the copy engine and to the cluster. */
__device__ __forceinline__ void barrier_init_done() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect_bytes(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* At the same barrier of the cluster's block `rank`. Relaxed: it says that asynchronous reads of shared memory are
 * over, and orders no access of this thread (a release to the cluster waits for all of the thread's memory
 * accesses). */
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}
/* Until the phase of this parity has ended. */
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
/* The same, for relaxed arrivals from the blocks of the cluster. */
__device__ __forceinline__ void barrier_wait_cluster(uint32_t barrier, uint32_t parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
/* Among `threads` threads of the block that name the same number, 1 to 15. */
__device__ __forceinline__ void named_barrier(uint32_t number, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* ---- Clusters ---- */

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* ---- Bulk copies of tensor tiles; x is the coordinate that is contiguous in memory ---- */

__device__ __forceinline__ void tile_prefetch_map(const tensor_map *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void tile_load(uint32_t to, const tensor_map *map, uint32_t barrier, int32_t x, int32_t y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y)
                 : "memory");
}
/* To the same place in every block of the cluster whose bit is in `blocks`; signals the same barrier in each. */
__device__ __forceinline__ void tile_load_multicast(uint32_t to, const tensor_map *map, uint32_t barrier, int32_t x,
                                                    int32_t y, uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
                 : "memory");
}
__device__ __forceinline__ void tile_store(const tensor_map *map, uint32_t from, int32_t x, int32_t y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
                 "r"(x), "r"(y)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Until all but the newest `left` stores of this thread have read their shared memory. */
template <int left> __device__ __forceinline__ void tile_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
}
/* Of tensors of four axes; the coordinates are of the contiguous one first. */
__device__ __forceinline__ void tile_load(uint32_t to, const tensor_map *map, uint32_t barrier, int32_t x, int32_t y,
                                          int32_t z, int32_t w) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}
__device__ __forceinline__ void tile_store(const tensor_map *map, uint32_t from, int32_t x, int32_t y, int32_t z,
                                           int32_t w) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* ---- Bulk copies of bytes: addresses and sizes are multiples of 16 ---- */

__device__ __forceinline__ void bytes_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
/* Stores f32, or adds them to what is there. */
__device__ __forceinline__ void floats_store(float *to, uint32_t from, uint32_t bytes, bool add) {
    if (add)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                     "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                     : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Until all stores of this thread are done: what it adds from now on is added to them. */
__device__ __forceinline__ void stores_wait() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
/* Orders this thread's plain writes of shared memory before the copy engine's reads. */
__device__ __forceinline__ void fence_shared_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* Between plain accesses of any memory and the copy engine's, both ways. */
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

/* ---- Registers ---- */

template <int count> __device__ __forceinline__ void registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> __device__ __forceinline__ void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

__device__ __forceinline__ uint32_t load_shared(uint32_t address) {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

/* Four 8x8 matrices of 16-bit elements; lane 8 i + r gives the address of row r of matrix i. */
__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
}

/* ---- Products of a warpgroup (wgmma) ---- */

/* An operand in shared memory, 128-byte rows under the 128-byte swizzle. `leading` is the distance between pieces
 * of 64 elements along the contiguous axis (used where that is not the summed one), `stride` that between groups
 * of 8 rows. */
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
    return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
           static_cast<uint64_t>(stride >> 4) << 32 | UINT64_C(1) << 62;
}

__device__ __forceinline__ void products_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int left> __device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/* d [64, columns] = a [64, 16] b [16, columns] (+ d where `add`), in f32. An operand is `across` where its
 * contiguous axis is not the summed one. */
template <int columns, bool bf16, bool a_across, bool b_across> struct warpgroup_product;

#define ROTA_10(X, tens)                                                                                        \
    X(tens##0), X(tens##1), X(tens##2), X(tens##3), X(tens##4), X(tens##5), X(tens##6), X(tens##7), X(tens##8), \
        X(tens##9)
#define ROTA_TEXT(i) "%" #i
#define ROTA_TEXT_10(tens)                                                                                            \
    "%" #tens "0, %" #tens "1, %" #tens "2, %" #tens "3, %" #tens "4, %" #tens "5, %" #tens "6, %" #tens "7, %" #tens \
    "8, %" #tens "9"
#define ROTA_NAMES_32 ROTA_TEXT_10() ", " ROTA_TEXT_10(1) ", " ROTA_TEXT_10(2) ", %30, %31"
#define ROTA_NAMES_60 \
    ROTA_TEXT_10()    \
    ", " ROTA_TEXT_10(1) ", " ROTA_TEXT_10(2) ", " ROTA_TEXT_10(3) ", " ROTA_TEXT_10(4) ", " ROTA_TEXT_10(5)
#define ROTA_NAMES_64 ROTA_NAMES_60 ", %60, %61, %62, %63"
#define ROTA_NAMES_90 ROTA_NAMES_60 ", " ROTA_TEXT_10(6) ", " ROTA_TEXT_10(7) ", " ROTA_TEXT_10(8)
#define ROTA_NAMES_96 ROTA_NAMES_90 ", %90, %91, %92, %93, %94, %95"
#define ROTA_NAMES_128                                                          \
    ROTA_NAMES_90 ", " ROTA_TEXT_10(9) ", " ROTA_TEXT_10(10) ", " ROTA_TEXT_10(11) \
        ", %120, %121, %122, %123, %124, %125, %126, %127"
#define ROTA_OUT(i) "+f"(d[i])
#define ROTA_OUT_4(i) ROTA_OUT(i), ROTA_OUT(i + 1), ROTA_OUT(i + 2), ROTA_OUT(i + 3)
#define ROTA_OUT_FROM(i)                                                                                               \
    ROTA_OUT_4(i), ROTA_OUT_4(i + 4), ROTA_OUT_4(i + 8), ROTA_OUT_4(i + 12), ROTA_OUT_4(i + 16), ROTA_OUT_4(i + 20), \
        ROTA_OUT_4(i + 24), ROTA_OUT_4(i + 28)
#define ROTA_OUT_32 ROTA_OUT_FROM(0)
#define ROTA_OUT_64 ROTA_OUT_FROM(0), ROTA_OUT_FROM(32)
#define ROTA_OUT_96 ROTA_OUT_64, ROTA_OUT_FROM(64)
#define ROTA_OUT_128 ROTA_OUT_96, ROTA_OUT_FROM(96)

/* A, B, ADD, TA, TB: the operands' numbers that follow the accumulators. */
#define ROTA_WGMMA(COLUMNS, REGISTERS, TYPE, A, B, ADD, TA, TB)                                                    \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #ADD ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPE "." TYPE " {" ROTA_NAMES_##REGISTERS \
                 "}, %" #A ", %" #B ", add, 1, 1, %" #TA ", %" #TB ";\n}"                                          \
                 : ROTA_OUT_##REGISTERS                                                                            \
                 : "l"(a), "l"(b), "r"(add), "n"(a_across), "n"(b_across))
#define ROTA_WARPGROUP_PRODUCT(COLUMNS, REGISTERS, A, B, ADD, TA, TB)                                                  \
    template <bool bf16, bool a_across, bool b_across>                                                                 \
    struct warpgroup_product<COLUMNS, bf16, a_across, b_across> {                                                      \
        static __device__ __forceinline__ void add_to(float (&d)[REGISTERS], uint64_t a, uint64_t b, uint32_t add) {   \
            if constexpr (bf16)                                                                                        \
                ROTA_WGMMA(COLUMNS, REGISTERS, "bf16", A, B, ADD, TA, TB);                                             \
            else                                                                                                       \
                ROTA_WGMMA(COLUMNS, REGISTERS, "f16", A, B, ADD, TA, TB);                                              \
        }                                                                                                              \
    };
ROTA_WARPGROUP_PRODUCT(64, 32, 32, 33, 34, 35, 36)
ROTA_WARPGROUP_PRODUCT(128, 64, 64, 65, 66, 67, 68)
ROTA_WARPGROUP_PRODUCT(192, 96, 96, 97, 98, 99, 100)
ROTA_WARPGROUP_PRODUCT(256, 128, 128, 129, 130, 131, 132)

/* d [64, 64] (+)= a [64, 16] b [16, 64] with a in registers: of each thread those elements that it would hold of a
 * result of 16 columns, two in a word. b is across. */
#define ROTA_WGMMA_KEPT(TYPE)                                                                                        \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"                                                    \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" ROTA_NAMES_32                      \
                 "}, {%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}"                                                    \
                 : ROTA_OUT_32                                                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))
template <bool bf16>
__device__ __forceinline__ void product_of_kept(float (&d)[32], const uint32_t *a, uint64_t b, uint32_t add) {
    if constexpr (bf16)
        ROTA_WGMMA_KEPT("bf16");
    else
        ROTA_WGMMA_KEPT("f16");
}

#endif
