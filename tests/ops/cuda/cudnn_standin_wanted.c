/* Which attributes a descriptor of cuDNN's must have before it is finalized. */
#include "tests/ops/cuda/cudnn_standin.h"

const cudnnBackendAttributeName_t *cudnn_standin_wanted(cudnnBackendDescriptorType_t type) {
    static const cudnnBackendAttributeName_t
        none[] = {NO_NAME},
        tensor[] = {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,     CUDNN_ATTR_TENSOR_STRIDES,
                    CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, NO_NAME},
        pointwise[] = {CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC, NO_NAME},
        pointwise_operation[] = {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
                                 NO_NAME},
        matmul[] = {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                    CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_ATTR_OPERATION_MATMUL_DESC, NO_NAME},
        reduction[] = {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
                       CUDNN_ATTR_OPERATION_REDUCTION_DESC, NO_NAME},
        convolution[] = {CUDNN_ATTR_CONVOLUTION_COMP_TYPE,      CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                         CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,   CUDNN_ATTR_CONVOLUTION_DILATIONS,
                         CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                         CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,  NO_NAME},
        reshape[] = {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, NO_NAME},
        graph[] = {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, NO_NAME},
        heuristics[] = {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE, NO_NAME},
        plan[] = {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, NO_NAME},
        pack[] = {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                  CUDNN_ATTR_VARIANT_PACK_WORKSPACE, NO_NAME};
    switch ((int)type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return tensor;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        return pointwise;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise_operation;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return matmul;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduction;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return convolution;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return graph;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return heuristics;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return plan;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return pack;
    default:
        return none;
    }
}
