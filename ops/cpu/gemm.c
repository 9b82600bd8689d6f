/* A matrix product of our own, for CPUs that the installed BLAS does not know: a distribution's OpenBLAS runs
 * on a newer core with the kernels of the oldest one (SSE3), at a tenth of its speed.
 *
 * b is packed into panels of a few vectors' width; a is read in place, an element of each of a few rows at a
 * time. An element of c is one chain of fused multiply-adds over each block of the summed dimension, whatever
 * tile it is computed in. */
#include "cpu.h"
#include "gemm.h"

#include <cblas.h>
#include <strings.h>
#include "base/atomic.h"

/* Summed dimension and columns of a packed block: a panel of it stays in the first-level cache, all of it in
 * the second. */
enum { BLOCK_K = 256, BLOCK_N = 256 };

/* What a block of rows times a packed panel needs. */
typedef struct panel_call {
    uint64_t depth;
    const float *a;
    uint64_t row_step, depth_step; /* of a */
    const float *b;                /* depth rows of a panel's width */
    float *c;
    uint64_t ldc;
    uint64_t columns; /* of c, at most the width */
    float alpha, beta;
} panel_call;

#if defined(__x86_64__) && defined(__GNUC__) && defined(__OPTIMIZE__)
#define HAS_PANELS 1

/* Feature by feature: not every compiler has names for the levels, v4 and v3, in its questions to the CPU. */
#define NARROW "avx,avx2,bmi,bmi2,fma"
#define WIDE NARROW ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl"

/* ROWS rows of c, VECTORS vectors of LANES wide; the sums stay in registers. */
#define PANEL(NAME, ARCH, LANES, VECTORS, ROWS)                                                              \
    __attribute__((target(ARCH))) static void NAME(const panel_call *call) {                                 \
        typedef float vector __attribute__((vector_size(4 * (LANES)), aligned(4)));                          \
        const float *a = call->a, *b = call->b;                                                              \
        const uint64_t row_step = call->row_step, depth_step = call->depth_step;                             \
        vector sum[ROWS][VECTORS];                                                                           \
        _Pragma("GCC unroll 16") for (int r = 0; r < (ROWS); r++)                                            \
            _Pragma("GCC unroll 4") for (int v = 0; v < (VECTORS); v++) sum[r][v] = (vector){0};             \
        for (uint64_t p = 0; p < call->depth; p++) {                                                         \
            vector right[VECTORS];                                                                           \
            _Pragma("GCC unroll 4") for (int v = 0; v < (VECTORS); v++) right[v] =                           \
                *(const vector *)(b + (ptrdiff_t)v * (LANES));                                               \
            _Pragma("GCC unroll 16") for (int r = 0; r < (ROWS); r++) {                                      \
                const float left = a[(uint64_t)r * row_step];                                                \
                _Pragma("GCC unroll 4") for (int v = 0; v < (VECTORS); v++) sum[r][v] += left * right[v];    \
            }                                                                                                \
            a += depth_step;                                                                                 \
            b += (ptrdiff_t)(LANES) * (VECTORS);                                                             \
        }                                                                                                    \
        const float alpha = call->alpha, beta = call->beta;                                                  \
        for (int r = 0; r < (ROWS); r++) {                                                                   \
            float *c = call->c + (uint64_t)r * call->ldc;                                                    \
            const float *from = (const float *)sum[r];                                                       \
            if (beta == 0.0f)                                                                                \
                for (uint64_t i = 0; i < call->columns; i++) c[i] = alpha * from[i];                         \
            else                                                                                             \
                for (uint64_t i = 0; i < call->columns; i++) c[i] = alpha * from[i] + beta * c[i];           \
        }                                                                                                    \
    }

PANEL(wide_8, WIDE, 16, 2, 8)
PANEL(wide_4, WIDE, 16, 2, 4)
PANEL(wide_2, WIDE, 16, 2, 2)
PANEL(wide_1, WIDE, 16, 2, 1)
PANEL(narrow_6, NARROW, 8, 2, 6)
PANEL(narrow_4, NARROW, 8, 2, 4)
PANEL(narrow_2, NARROW, 8, 2, 2)
PANEL(narrow_1, NARROW, 8, 2, 1)

/* Row counts in falling order, the last 1. */
typedef struct panel_kernels {
    uint64_t width;
    uint64_t rows[4];
    void (*run[4])(const panel_call *call);
} panel_kernels;

static const panel_kernels wide = {32, {8, 4, 2, 1}, {wide_8, wide_4, wide_2, wide_1}};
static const panel_kernels narrow = {16, {6, 4, 2, 1}, {narrow_6, narrow_4, narrow_2, narrow_1}};

static bool has_narrow(void) {
    return __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
}

static bool has_wide(void) {
    return has_narrow() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

/* Those with panels of this width (0: the widest), if the CPU has them. */
static const panel_kernels *panels(uint64_t width) {
    if (width != narrow.width && has_wide()) return &wide;
    if (width != wide.width && has_narrow()) return &narrow;
    return NULL;
}

/* depth x columns of b as panels of `width`, the last filled up with 0. */
ROTA_VECTOR static void pack(bool transpose, const float *b, uint64_t ldb, uint64_t depth, uint64_t columns,
                             uint64_t width, float *restrict to) {
    for (uint64_t j = 0; j < columns; j += width, to += depth * width) {
        const uint64_t count = columns - j < width ? columns - j : width;
        if (count < width) memset(to, 0, depth * width * sizeof(float));
        if (!transpose) {
            for (uint64_t p = 0; p < depth; p++)
                memcpy(to + p * width, b + p * ldb + j, count * sizeof(float));
            continue;
        }
        /* Eight columns at a time: their elements share the destination's cache lines. */
        for (uint64_t i = 0; i < count; i += 8) {
            const uint64_t some = count - i < 8 ? count - i : 8;
            const float *restrict from = b + (j + i) * ldb;
            if (some == 8)
                for (uint64_t p = 0; p < depth; p++)
                    for (uint64_t l = 0; l < 8; l++) to[p * width + i + l] = from[l * ldb + p];
            else
                for (uint64_t p = 0; p < depth; p++)
                    for (uint64_t l = 0; l < some; l++) to[p * width + i + l] = from[l * ldb + p];
        }
    }
}

/* All rows of c against the packed panels of `columns` columns. */
static void run_block(const panel_kernels *kernels, panel_call call, uint64_t m, uint64_t columns,
                      const float *packed) {
    const panel_call base = call;
    for (uint64_t j = 0; j < columns; j += kernels->width) {
        call.b = packed + j * call.depth;
        call.columns = columns - j < kernels->width ? columns - j : kernels->width;
        uint64_t row = 0;
        for (int size = 0; size < 4; size++)
            for (; m - row >= kernels->rows[size]; row += kernels->rows[size]) {
                call.a = base.a + row * base.row_step;
                call.c = base.c + row * base.ldc + j;
                kernels->run[size](&call);
            }
    }
}

bool rota_cpu_own_sgemm(uint64_t width, bool transpose_a, bool transpose_b, uint64_t m, uint64_t n,
                        uint64_t k, float alpha, const float *a, uint64_t lda, const float *b, uint64_t ldb,
                        float beta, float *c, uint64_t ldc) {
    const panel_kernels *kernels = panels(width);
    if (!kernels) return false;
    _Alignas(64) float packed[BLOCK_K * BLOCK_N];
    for (uint64_t k0 = 0; k0 < k; k0 += BLOCK_K) {
        panel_call call = {
            .depth = k - k0 < BLOCK_K ? k - k0 : BLOCK_K,
            .a = transpose_a ? a + k0 * lda : a + k0,
            .row_step = transpose_a ? 1 : lda,
            .depth_step = transpose_a ? lda : 1,
            .ldc = ldc,
            .alpha = alpha,
            .beta = k0 == 0 ? beta : 1.0f,
        };
        for (uint64_t n0 = 0; n0 < n; n0 += BLOCK_N) {
            const uint64_t columns = n - n0 < BLOCK_N ? n - n0 : BLOCK_N;
            pack(transpose_b, transpose_b ? b + n0 * ldb + k0 : b + k0 * ldb + n0, ldb, call.depth, columns,
                 kernels->width, packed);
            call.c = c + n0;
            run_block(kernels, call, m, columns, packed);
        }
    }
    return true;
}

#else

bool rota_cpu_own_sgemm(uint64_t width, bool transpose_a, bool transpose_b, uint64_t m, uint64_t n,
                        uint64_t k, float alpha, const float *a, uint64_t lda, const float *b, uint64_t ldb,
                        float beta, float *c, uint64_t ldc) {
    (void)width, (void)transpose_a, (void)transpose_b, (void)m, (void)n, (void)k, (void)alpha, (void)a,
        (void)lda, (void)b;
    (void)ldb, (void)beta, (void)c, (void)ldc;
    return false;
}

#endif

/* ---- Which one ---- */

enum { UNKNOWN, USE_BLAS, USE_OWN };

/* OpenBLAS names the core that it chose its kernels for; these have vectors of 8 or more. */
static uint32_t choose(void) {
#ifdef HAS_PANELS
    static const char *const fast[] = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"};
    const char *core = openblas_get_corename();
    for (uint32_t i = 0; i < sizeof fast / sizeof fast[0]; i++)
        if (strcasecmp(core, fast[i]) == 0) return USE_BLAS;
    if (panels(0)) return USE_OWN;
#endif
    return USE_BLAS;
}

/* A BLAS refuses rows that are closer together than they are long, even where there is one row and the
 * distance means nothing, as in a view of a 1-long axis. */
static blasint leading(uint64_t distance, uint64_t rows, uint64_t columns) {
    return (blasint)(rows <= 1 && distance < columns ? columns : distance);
}

/* One sum after the other, for what a BLAS's integers of 32 bits have no room for. */
static void plain(bool transpose_a, bool transpose_b, uint64_t m, uint64_t n, uint64_t k, float alpha,
                  const float *a, uint64_t lda, const float *b, uint64_t ldb, float beta, float *c,
                  uint64_t ldc) {
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (uint64_t p = 0; p < k; p++)
                sum +=
                    a[transpose_a ? p * lda + i : i * lda + p] * b[transpose_b ? j * ldb + p : p * ldb + j];
            c[i * ldc + j] = alpha * sum + (beta == 0.0f ? 0.0f : beta * c[i * ldc + j]);
        }
}

void rota_cpu_why_sgemm(rota_text_out *out, uint64_t longest) {
    const char *core = openblas_get_corename();
    if (choose() == USE_OWN) {
        rota_text_say(out,
                      "rota's own panels, vectors as wide as the CPU has\nwhy: by table, not measured: "
                      "OpenBLAS takes the "
                      "CPU for '%s', whose kernels have short vectors\nleft out: OpenBLAS\n",
                      core);
    } else if (longest > INT32_MAX) {
        rota_text_say(
            out, "one sum after the other\nwhy: an extent or a leading dimension has more than 31 bits, and "
                 "OpenBLAS counts in those\n");
    } else {
        rota_text_say(
            out,
            "OpenBLAS, kernels for '%s', on the thread that has the tile\nwhy: by table, not measured: "
            "those have vectors of 8 floats or more, or the CPU has no wider\nleft out: rota's own panels, "
            "for CPUs that OpenBLAS doesn't know\n",
            core);
    }
}

void rota_cpu_sgemm(bool transpose_a, bool transpose_b, uint64_t m, uint64_t n, uint64_t k, float alpha,
                    const float *a, uint64_t lda, const float *b, uint64_t ldb, float beta, float *c,
                    uint64_t ldc) {
    /* Several threads may each find it out at first: the same answer. Acquire and release pair here. */
    static _Atomic uint32_t chosen;
    uint32_t use = ra_load_acquire(&chosen);
    if (use == UNKNOWN) {
        openblas_set_num_threads(1); /* the executor is what spreads the work */
        use = choose();
        ra_store_release(&chosen, use);
    }
    if (use == USE_OWN) {
        (void)rota_cpu_own_sgemm(0, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    if ((m | n | k | lda | ldb | ldc) > INT32_MAX) {
        plain(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a,
                leading(lda, transpose_a ? k : m, transpose_a ? m : k), b,
                leading(ldb, transpose_b ? n : k, transpose_b ? k : n), beta, c, leading(ldc, m, n));
}
