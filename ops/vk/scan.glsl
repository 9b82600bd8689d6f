/* Sums of whole numbers over a workgroup of 256 invocations, each with a number of its own. */
#ifndef ROTA_OPS_SCAN_GLSL
#define ROTA_OPS_SCAN_GLSL

#define SCAN_GROUP 256u

shared uint rota_scan[SCAN_GROUP];

/* The sum of the numbers of the invocations before this one, and of all. */
uint workgroup_sum_before(uint value, out uint total) {
    const uint t = gl_LocalInvocationIndex;
    uint sum = value;
    rota_scan[t] = sum;
    barrier();
    for (uint step = 1u; step < SCAN_GROUP; step <<= 1) {
        const uint left = t >= step ? rota_scan[t - step] : 0u;
        barrier();
        sum += left;
        rota_scan[t] = sum;
        barrier();
    }
    total = rota_scan[SCAN_GROUP - 1u];
    barrier();
    return sum - value;
}

#endif
