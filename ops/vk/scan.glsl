/* Sums of whole numbers over a workgroup of 256 invocations, each with a number of its own: of SCAN_NUMBER, if that is
 * defined before, else of uint. */
#ifndef ROTA_OPS_SCAN_GLSL
#define ROTA_OPS_SCAN_GLSL

#define SCAN_GROUP 256u
#ifndef SCAN_NUMBER
#define SCAN_NUMBER uint
#endif

shared SCAN_NUMBER rota_scan[SCAN_GROUP];

/* The sum of the numbers of the invocations before this one, and of all. */
SCAN_NUMBER workgroup_sum_before(SCAN_NUMBER value, out SCAN_NUMBER total) {
    const uint t = gl_LocalInvocationIndex;
    SCAN_NUMBER sum = value;
    rota_scan[t] = sum;
    barrier();
    for (uint step = 1u; step < SCAN_GROUP; step <<= 1) {
        const SCAN_NUMBER left = t >= step ? rota_scan[t - step] : SCAN_NUMBER(0);
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
