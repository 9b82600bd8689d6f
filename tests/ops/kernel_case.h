/* Runs one built-in kernel on a GPU and its CPU kernel on the same random operands, and compares. */
#ifndef ROTA_TESTS_KERNEL_CASE_H
#define ROTA_TESTS_KERNEL_CASE_H

#include "tests/kit/support.h"

#include "exec/exec.h"
#include "ops/kernel_objects.h"

/* One operand: its element type, mode, number of elements, and the range its random values come from. */
typedef struct kernel_array {
    rota_dtype dtype;
    rota_access_mode mode;
    uint64_t count;
    double low, high;
    uint32_t same_as; /* 1 + the operand whose memory this one is (in place); 0: its own */
} kernel_array;

#define IN(count)                                                                                            \
    { ROTA_F32, ROTA_READ, (count), -2, 2, 0 }
#define IN_RANGE(count, low, high)                                                                           \
    { ROTA_F32, ROTA_READ, (count), (low), (high), 0 }
#define INDEX(count, classes)                                                                                \
    { ROTA_I32, ROTA_READ, (count), 0, (classes), 0 }
#define OUT(count)                                                                                           \
    { ROTA_F32, ROTA_WRITE, (count), 0, 0, 0 }
#define OUT_ON(count, operand)                                                                               \
    { ROTA_F32, ROTA_WRITE, (count), 0, 0, 1 + (operand) }
#define INOUT(count)                                                                                         \
    { ROTA_F32, ROTA_READWRITE, (count), -2, 2, 0 }
/* The same of any dtype, and loops over dtypes. */
#define IN_AS(dtype, count, low, high)                                                                       \
    { dtype, ROTA_READ, (count), (low), (high), 0 }
#define OUT_AS(dtype, count)                                                                                 \
    { dtype, ROTA_WRITE, (count), 0, 0, 0 }
#define OUT_AS_ON(dtype, count, operand)                                                                     \
    { dtype, ROTA_WRITE, (count), 0, 0, 1 + (operand) }
#define INOUT_AS(dtype, count)                                                                               \
    { dtype, ROTA_READWRITE, (count), -2, 2, 0 }
#define FOR_REAL(dtype) for (rota_dtype dtype = ROTA_F32; dtype <= ROTA_BF16; dtype++)
#define FOR_F8(dtype) for (rota_dtype dtype = ROTA_F8_E4M3FN; dtype <= ROTA_F8_E5M2; dtype++)

/* A tolerance of f32 results with what two correct roundings of them to a dtype may be apart. */
static inline double rounded(rota_dtype dtype, double tolerance) {
    return tolerance + (dtype == ROTA_F16 ? 0x1p-10 : dtype == ROTA_BF16 ? 0x1p-7 : 0);
}

/* Runs the kernel on the device; the test fails unless every written operand is within tolerance * (1 +
 * |expected|) of what the CPU kernel gives (0: equal) and what is not written is unchanged. The first time
 * for each kernel, runs it again with operands and bindable parameters in argument words: the same bits. */
void kernel_check(const rota_kernel *kernel, const void *params, const kernel_array *arrays, uint32_t count,
                  double tolerance);
/* The same with contents of operands given where given[i] is not NULL: of what a kernel can't take at random. */
void kernel_check_given(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                        const void *const *given, uint32_t count, double tolerance);
/* Contents as kernel_check has them, and an element of some; and the kernel on the CPU alone, of contents of all
 * operands, which gets those that it writes. */
void kernel_case_fill(const kernel_array *array, void *contents);
double kernel_case_element(rota_dtype dtype, const void *contents, uint64_t index);
void kernel_case_on_cpu(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                        void *const *contents, uint32_t count);
/* As kernel_check with each kernel that may stand in for this one on a device like the open one: with fewer or more
 * features, or multiprocessors. */
void kernel_check_variants(const rota_kernel *kernel, const void *params, const kernel_array *arrays,
                           uint32_t count, double tolerance);

/* Whether a kernel that is several on some devices is one on this. */
bool kernel_case_is_one(const rota_kernel *kernel, const void *params);

#define CHECK(kernel, params, tolerance, ...)                                                                \
    kernel_check(&rota_kernel_##kernel, params, (const kernel_array[]){__VA_ARGS__},                         \
                 sizeof((const kernel_array[]){__VA_ARGS__}) / sizeof(kernel_array), tolerance)

/* The teardown of each case: fails it where a result was wrong. */
int kernel_case_judge(void **state);
#define KERNEL_CASE(test) cmocka_unit_test_teardown(test, kernel_case_judge)

/* Products (kernel_cases_products.c). */
void test_matmul(void **state);
void test_matmul_fine(void **state);
void test_matmul_large(void **state);
void test_scaled_matmul(void **state);
void test_linear_gelu_gradient(void **state);
void test_attention(void **state);
void test_attention_half(void **state);
void test_attention_draw(void **state);
void test_attention_dropout(void **state);

/* By rows (kernel_cases_rows.c). */
void test_embedding(void **state);
void test_embedding_more(void **state);
void test_softmax(void **state);
void test_norm(void **state);
void test_batch_norm(void **state);
void test_rope(void **state);
void test_cross_entropy(void **state);

/* Convolutions and pooling (kernel_cases_window.c). */
void test_conv(void **state);
void test_pool(void **state);

/* Results with a length (kernel_cases_length.c). */
void test_length(void **state);
void test_sort(void **state);

/* Whether kernel by kernel fewer sizes are run. */
extern bool kernel_case_is_short;
/* The cases (kernel_cases.c), for kernel_case_main. */
extern const struct CMUnitTest kernel_cases[];
extern const size_t kernel_case_count;
/* Runs them all on a driver's first device, on Vulkan under the validation layer, and fails if that reported
 * anything; a test program's whole main, where arguments pick cases by name (* for any characters), --without
 * before them leaves those out, --short before all some sizes, and --list names them. 77, with a line on
 * stderr, where there is no device, 2 where no case has a name. */
int kernel_case_main(const rota_exec_driver *driver, int argc, char **argv);

#endif
