/* A kernel that does one thing that it does not declare: see tests/sched/plan/test_check.c. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

#ifndef UNSIZED
layout(local_size_x = 64) in;
#endif

#ifndef OPERANDS
#define OPERANDS 3
#endif

ROTA_KERNEL_BEGIN(OPERANDS)
    uint n;
    uint fault;
    uint add;
#ifdef MORE
    uvec2 more;
#endif
ROTA_KERNEL_END

const uint PAST_END = 1, BEFORE = 2, CHANGES_READ = 3, LEAVES_WRITE = 4, READS_WRITE = 5, READS_OUTSIDE = 6;

void main() {
    uint i = rota_index();
    if (i >= pc.n) return;
    rota_u32 x = rota_u32(rota_operand(0)), y = rota_u32(rota_operand(1)), z = rota_u32(rota_operand(2));
    z.v[i] += x.v[i];
    if (pc.fault == LEAVES_WRITE && i == 5) return;
    uint old = pc.fault == READS_WRITE && i == 7 ? y.v[i] : 0;
    uint from = pc.fault == READS_OUTSIDE ? i + 1 : i;
    y.v[i] = x.v[from] + rota_param_u32(0, pc.add) + old;
    if (i != 0) return;
    if (pc.fault == PAST_END) y.v[pc.n + 2] = 9;
    if (pc.fault == BEFORE) rota_u32(rota_operand(2) - 8).v[0] = 9;
    if (pc.fault == CHANGES_READ) x.v[3] = 9;
}
