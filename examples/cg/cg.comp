// The Vulkan form of conjugate gradient's kernels (kernels.c): which of them says a name that is defined.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 256) in;

#if defined(PRODUCT) || defined(CHOOSE_MIX)
ROTA_KERNEL_BEGIN(5)
#elif defined(BEGIN)
ROTA_KERNEL_BEGIN(4)
#else
ROTA_KERNEL_BEGIN(3)
#endif
    uint64_t rows;
    uint64_t grain;
    double factor;
ROTA_KERNEL_END

layout(buffer_reference, std430, buffer_reference_align = 8) buffer cg_f64 { double v[]; };

const uint GROUP_THREADS = 256u, BLOCK_ROWS = 4096u;

shared double sums[GROUP_THREADS];

// Of one an invocation, in the first of them: halves are added, the same ones each time.
double group_sum(double value) {
    sums[gl_LocalInvocationIndex] = value;
    for (uint half_of = GROUP_THREADS / 2u; half_of > 0u; half_of /= 2u) {
        barrier();
        if (gl_LocalInvocationIndex < half_of)
            sums[gl_LocalInvocationIndex] += sums[gl_LocalInvocationIndex + half_of];
    }
    return sums[0];
}

double sum_parts() {
    cg_f64 parts = cg_f64(rota_operand(0));
    uint blocks = uint((pc.rows + uint64_t(BLOCK_ROWS - 1u)) / uint64_t(BLOCK_ROWS));
    double sum = 0.0lf;
    for (uint i = gl_LocalInvocationIndex; i < blocks; i += GROUP_THREADS) sum += parts.v[i];
    return group_sum(sum);
}

bool is_finite(double value) { return !isnan(value) && !isinf(value); }

void main() {
#ifdef PRODUCT
    uint row = rota_index();
    if (uint64_t(row) >= pc.rows) return;
    rota_u64 starts = rota_u64(rota_operand(0));
    uint64_t columns = rota_operand(1), values = rota_operand(2);
    cg_f64 p = cg_f64(rota_operand(3));
    uint64_t end = starts.v[row + 1u];
    double sum = 0.0lf;
    for (uint64_t i = starts.v[row]; i < end; i++)
        sum += cg_f64(values + 8ul * i).v[0] * p.v[rota_u32(columns + 4ul * i).v[0]];
    cg_f64(rota_operand(4)).v[row] = sum;
#endif
#ifdef DOT
    uint block = rota_group_index();
    uint64_t first = uint64_t(block) * uint64_t(BLOCK_ROWS), left = first < pc.rows ? pc.rows - first : 0ul;
    uint end = uint(left < uint64_t(BLOCK_ROWS) ? left : uint64_t(BLOCK_ROWS));
    cg_f64 a = cg_f64(rota_operand(0) + 8ul * first), b = cg_f64(rota_operand(1) + 8ul * first);
    double sum = 0.0lf;
    for (uint i = gl_LocalInvocationIndex; i < end; i += GROUP_THREADS) sum += a.v[i] * b.v[i];
    sum = group_sum(sum);
    if (gl_LocalInvocationIndex == 0u && end > 0u) cg_f64(rota_operand(2)).v[block] = sum;
#endif
#ifdef UPDATE
    uint i = rota_index();
    if (uint64_t(i) >= pc.rows) return;
    double by = pc.factor * cg_f64(rota_operand(1)).v[0];
    cg_f64(rota_operand(2)).v[i] += by * cg_f64(rota_operand(0)).v[i];
#endif
#ifdef TURN
    uint i = rota_index();
    if (uint64_t(i) >= pc.rows) return;
    cg_f64 p = cg_f64(rota_operand(2));
    p.v[i] = cg_f64(rota_operand(0)).v[i] + cg_f64(rota_operand(1)).v[0] * p.v[i];
#endif
#ifdef BEGIN
    double square = sum_parts(), enough = pc.factor * pc.factor * square;
    if (gl_LocalInvocationIndex != 0u) return;
    rota_u32 more = rota_u32(rota_operand(3));
    cg_f64(rota_operand(1)).v[0] = square;
    cg_f64(rota_operand(2)).v[0] = enough;
    more.v[0] = square > enough && is_finite(square) ? 1u : 0u;
    more.v[1] = 0u;
#endif
#ifdef CHOOSE_STEP
    double curvature = sum_parts();
    if (gl_LocalInvocationIndex != 0u) return;
    bool is_good = curvature > 0.0lf && is_finite(curvature);
    double square = cg_f64(rota_operand(1)).v[0];
    cg_f64(rota_operand(2)).v[0] = is_good ? square / curvature : packDouble2x32(uvec2(0u, 0x7FF80000u));
#endif
#ifdef CHOOSE_MIX
    double next = sum_parts();
    if (gl_LocalInvocationIndex != 0u) return;
    cg_f64 square = cg_f64(rota_operand(1));
    rota_u32 more = rota_u32(rota_operand(4));
    cg_f64(rota_operand(3)).v[0] = next / square.v[0];
    square.v[0] = next;
    more.v[0] = next > cg_f64(rota_operand(2)).v[0] && is_finite(next) ? 1u : 0u;
    more.v[1]++;
#endif
}
