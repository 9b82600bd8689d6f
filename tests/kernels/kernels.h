/* Integer kernels for tests: each as a C function, as SPIR-V and as CUDA C, alike to the bit. */
#ifndef ROTA_TESTS_KERNELS_H
#define ROTA_TESTS_KERNELS_H

#include "graph/kernel.h"
#include "graph/graph.h"

/* Parameters of every test kernel. `p` may be bound to a slot, `seed` must be, or said to be constant; `q` is nothing
 * but what a count is given to. */
typedef struct test_params {
    uint32_t n, m, p, q;
    uint64_t seed;
} test_params;

enum { TEST_BIND_P, TEST_BIND_SEED, TEST_BIND_COUNT };
enum { TEST_ITEMS_PER_GROUP = 64 };

/* How the length of an operand follows from the parameters, in words. */
typedef enum test_length { TEST_N, TEST_M } test_length;

typedef struct test_operand {
    rota_access_mode mode;
    test_length length;
} test_operand;

typedef struct test_kernel {
    rota_kernel kernel;
    test_operand operands[8];
} test_kernel;

/* map: y[n] = f(a[n]).             zip: y[n] = f(a[n], b[n]).
 * update: x[n] = f(x[n], a[m]).    accumulate: x[n] += a[n].
 * scatter: x[n] += at places that a[m] names, atomically.
 * split: y[n], z[n] = f(a[n]), g(a[n]).   reverse: y[n] = a[n] backwards.
 * sum: each y[n] from all of a[m]. wide: six inputs, one in and out, one output, all [n]. */
#define TEST_KERNEL_LIST(X)                                                                                  \
    X(map) X(zip) X(update) X(accumulate) X(scatter) X(split) X(reverse) X(sum) X(wide)

enum {
#define TEST_KERNEL_ENUM(name) TEST_KERNEL_##name,
    TEST_KERNEL_LIST(TEST_KERNEL_ENUM)
#undef TEST_KERNEL_ENUM
        TEST_KERNEL_COUNT
};

extern const test_kernel test_kernels[TEST_KERNEL_COUNT];

/* What the kernels compute with. */
uint32_t test_mix(uint32_t a, uint32_t b);

/* A host function: operand 0 [n] READ, operand 1 [n] WRITE; user points at a uint32_t that is mixed in. */
rota_status test_host_function(void *user, void *const *operands, const uint64_t *operand_bytes,
                               uint32_t operand_count);

#endif
