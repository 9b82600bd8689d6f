/* Tensor maps, which the driver makes. */
#include "ops/cuda/tensor_map.h"

#include <string.h>
#include "ops/cuda/driver.h"

#define RANK_MAX 5u /* of a map */

_Static_assert(sizeof(CUtensorMap) == ROTA_TENSOR_MAP_WORDS * sizeof(uint64_t), "copied as bytes");

rota_status rota_tensor_map_make(rota_dtype dtype, uint32_t rank, uint64_t address, const uint64_t *extents,
                                 const uint64_t *stride_bytes, const uint32_t *box,
                                 uint64_t out_map[ROTA_TENSOR_MAP_WORDS]) {
    const rota_cuda_driver *cu;
    CUtensorMap encoded;
    const CUtensorMapDataType type =
        dtype == ROTA_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const cuuint32_t steps[RANK_MAX] = {1, 1, 1, 1, 1};
    void *memory;
    memcpy(&memory, &address, sizeof memory);
    ROTA_TRY(rota_cuda_driver_get(&cu));
    const CUresult result = cu->TensorMapEncodeTiled(
        &encoded, type, rank, memory, extents, stride_bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    ROTA_TRY(rota_cuda_driver_check(cu, result, "cuTensorMapEncodeTiled"));
    memcpy(out_map, &encoded, sizeof encoded);
    return ROTA_OK;
}
