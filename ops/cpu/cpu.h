/* The CPU half of the built-in kernels: declarations, and the vectorisable helpers that they share. Internal.
 *
 * Every kernel cuts its work into items whose results do not depend on which other items a call covers, and
 * sums in an order that follows from the parameters alone. */
#ifndef ROTA_OPS_CPU_CPU_H
#define ROTA_OPS_CPU_CPU_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/half.h"
#include "ops/kernels.h"

#define KERNEL(NAME, ...)                                                                                    \
    rota_status rota_cpu_##NAME(const rota_kernel_call *call);                                               \
    void rota_cpu_items_##NAME(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,       \
                               uint64_t *out_grain);
#include "ops/kernels.def"

/* One copy of a function per instruction set, chosen when the program is loaded. Results are bit-identical
 * only per machine. Sanitizers run before the chosen copy can be resolved, so their builds have the baseline
 * only. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#if __GNUC__ >= 12
#define ROTA_VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else /* older compilers know no levels */
#define ROTA_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define ROTA_VECTOR
#endif

/* The loop's iterations are independent even where an output is exactly an input. */
#if defined(__GNUC__) && !defined(__clang__)
#define ROTA_IVDEP _Pragma("GCC ivdep")
#else
#define ROTA_IVDEP
#endif

/* Elements of an elementwise kernel below which a task of its own costs more than it saves. */
#define ROTA_CPU_GRAIN 16384

#endif
