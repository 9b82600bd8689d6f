/* Shared by the tests of the runtime: small kernels and one-lane plans. */
#ifndef ROTA_TESTS_RUNTIME_SUPPORT_H
#define ROTA_TESTS_RUNTIME_SUPPORT_H

#include "rota.h"
#include "tests/kit/support.h"

/* A runtime with one open device. */
typedef struct runtime_fixture {
    rota_runtime *runtime;
    rota_device *device;
} runtime_fixture;

#define RUNTIME_TIMEOUT_NS UINT64_C(20000000000)
int runtime_setup(void **state);    /* the CPU device, timeout 20 s */
int runtime_setup_1(void **state);  /* with one worker */
int runtime_setup_4(void **state);  /* with four */
int runtime_teardown(void **state); /* closes, and wants it clean */

/* x[i] += 1 for 32-bit words. */
extern const rota_kernel test_increment;
/* y[i] = x[i], as words. */
extern const rota_kernel test_copy;
/* Runs until test_gate_open(true); one item. Its operand is READWRITE. */
extern const rota_kernel test_gate;
void test_gate_open(bool open);
/* Waits until so many are running. */
void test_gates_running(uint32_t count);
/* Fails while test_fail is set; else writes 7 to its operand (WRITE). */
extern const rota_kernel test_failing;
extern _Atomic int test_fail;

/* Keeps the completer, in the log's function: with `.log = {test_hold_log, &hold, ROTA_LOG_WARNING}`. */
typedef struct test_hold {
    _Atomic uint32_t keeps, lines; /* warnings so far */
    char line[512];                /* the last one */
    int eventfd;
} test_hold;
void test_hold_log(void *user, rota_log_level level, const char *message);
/* From when the ticket ends; that it has begun is waited for, unless the ticket is still BUSY. */
void test_hold_begin(test_hold *hold, rota_ticket ticket);
void test_hold_end(test_hold *hold);

/* One node of a plan: kernel, and up to 3 accesses of whole buffers. */
typedef struct test_node {
    const rota_kernel *kernel;
    const char *name;
    rota_access accesses[3];
    uint32_t access_count;
} test_node;

/* Compiles nodes recorded in one lane, for one device. */
rota_plan *test_plan(rota_device *device, const char *name, const test_node *nodes, uint32_t count);
/* A plan with one node: `kernel` on the whole of `buffer`, with this mode. */
rota_plan *test_plan_1(rota_device *device, const char *name, const rota_kernel *kernel, rota_buffer *buffer,
                       rota_access_mode mode);
/* A plan of this node on a queue of the device, of so many. */
rota_plan *test_plan_on_queue(rota_device *device, uint32_t queue, uint32_t queues, const test_node *node);
/* A plan with one node, `test_copy`, of the whole of `from` into the whole of `to`. */
rota_plan *test_plan_copy_kernel(rota_device *device, const char *name, rota_buffer *from, rota_buffer *to);
/* A plan with one node, which copies the first `size_bytes` of `from` into `to`, without a kernel. */
rota_plan *test_plan_copy_node(rota_device *device, rota_buffer *from, rota_buffer *to, uint64_t size_bytes);
/* A plan of two nodes and one instance, so that a replay waits for the one before: `test_gate` at the whole of `x`,
 * which is then brought to *out_output, an OUTPUT of `size_bytes`. */
rota_plan *test_plan_gate_then_output(rota_device *device, rota_buffer *x, uint64_t size_bytes,
                                      rota_buffer **out_output);
rota_buffer *test_buffer(rota_runtime *runtime, const char *name, uint64_t size_bytes);
/* A buffer of words, all of this value, on the device. */
rota_buffer *test_words(rota_device *device, const char *name, uint32_t count, uint32_t value);
/* Wants every word of the buffer to be `value`. */
void test_expect_words(rota_buffer *buffer, uint32_t count, uint32_t value);

#endif
