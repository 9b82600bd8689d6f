/* Runs one built-in kernel on a Vulkan device and its CPU kernel on the same random operands, and compares.
 */
#ifndef ROTA_TESTS_SHADER_CASE_H
#define ROTA_TESTS_SHADER_CASE_H

#include "support.h"

#include "exec/exec.h"
#include "ops/kernels.h"

/* One operand: its element type, mode, number of elements, and the range its random values come from. */
typedef struct shader_array {
    rota_dtype dtype;
    rota_access_mode mode;
    uint64_t count;
    double low, high;
    uint32_t same_as; /* 1 + the operand whose memory this one is (in place); 0: its own */
} shader_array;

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

/* Opens device vk:<index> with the validation layer. Returns NULL, with a line on stderr, where there is
 * none. */
rota_exec_device *shader_device_open(uint32_t index);
/* rota_device_feature bits of the open device. */
uint32_t shader_device_features(void);
/* Closes it and fails unless it reported no error and the layer no message. */
void shader_device_close(void);

/* Runs the kernel on the device and fails unless every written operand is within tolerance * (1 + |expected|)
 * of what the CPU kernel gives (0: equal) and what is not written is unchanged. The first time for each
 * kernel, runs it again with operands and bindable parameters in argument words: the same bits. */
void shader_check(const rota_kernel *kernel, const void *params, const shader_array *arrays, uint32_t count,
                  double tolerance);

#define CHECK(kernel, params, tolerance, ...)                                                                \
    shader_check(&rota_kernel_##kernel, params, (const shader_array[]){__VA_ARGS__},                         \
                 sizeof((const shader_array[]){__VA_ARGS__}) / sizeof(shader_array), tolerance)

#endif
