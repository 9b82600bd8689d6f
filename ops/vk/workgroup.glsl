/* Reductions over one workgroup of a size given by specialization constant 2 (a power of two, by the kernel's
 * parameters alone): a fixed tree, so a result depends on neither timing nor other workgroups. */
#ifndef ROTA_OPS_WORKGROUP_GLSL
#define ROTA_OPS_WORKGROUP_GLSL

#include "each.glsl"

layout(local_size_x_id = 2) in;

shared float rota_tree[gl_WorkGroupSize.x];

#define ROTA_TREE(name, combine)                                                                             \
    float name(float value) {                                                                                \
        const uint t = gl_LocalInvocationIndex;                                                              \
        rota_tree[t] = value;                                                                                \
        barrier();                                                                                           \
        for (uint half_size = gl_WorkGroupSize.x / 2u; half_size > 0u; half_size >>= 1) {                    \
            if (t < half_size) rota_tree[t] = combine(rota_tree[t], rota_tree[t + half_size]);               \
            barrier();                                                                                       \
        }                                                                                                    \
        const float result = rota_tree[0];                                                                   \
        barrier();                                                                                           \
        return result;                                                                                       \
    }

float rota_add(float a, float b) { return a + b; }
/* The larger; NaN if either is. */
float rota_larger(float a, float b) { return isnan(a) || a > b ? a : b; }

ROTA_TREE(workgroup_sum, rota_add)
ROTA_TREE(workgroup_max, rota_larger)

#endif
