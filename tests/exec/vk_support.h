/* Programs put together by hand and a host that records what an executor calls back, for tests that drive
 * exec/vk directly. */
#ifndef ROTA_TESTS_VK_SUPPORT_H
#define ROTA_TESTS_VK_SUPPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include "exec/exec.h"

#define PROGRAM_MAX 4096

/* A program description that grows by calls; zeroed storage is empty. */
typedef struct test_program {
    rota_exec_program_desc desc;
    rota_exec_command commands[PROGRAM_MAX];
    rota_exec_operand operands[3 * PROGRAM_MAX];
    rota_exec_binding bindings[PROGRAM_MAX];
    rota_exec_batch batches[PROGRAM_MAX];
    rota_exec_segment segments[64];
    uint32_t no_edges[PROGRAM_MAX + 1];
} test_program;

typedef struct test_host {
    _Atomic uint64_t reached[ROTA_EXEC_QUEUES_MAX];
    _Atomic uint32_t lost, calls, descending;
} test_host;

test_program *test_program_new(uint32_t queue_count, uint32_t memory_count, uint32_t block_words);
void test_program_segment(test_program *p, uint32_t queue);
void test_program_batch(test_program *p);
/* Commands go to the last batch of the last segment. Operands are given by test_program_operand right after.
 */
rota_exec_command *test_program_kernel(test_program *p, const rota_kernel *kernel, const void *params);
rota_exec_command *test_program_copy(test_program *p);
rota_exec_command *test_program_fill(test_program *p, uint32_t pattern);
void test_program_operand(test_program *p, uint32_t memory, bool is_slot, uint64_t offset, uint64_t size,
                          uint8_t mode);
void test_program_binding(test_program *p, uint32_t bindable, uint32_t word);

/* Options whose host records into `host`; validation on. */
rota_exec_open_options test_vk_options(test_host *host, uint32_t queue_count);
/* Waits up to ten seconds for a queue to reach a value. */
bool test_host_wait(test_host *host, uint32_t queue, uint64_t value);

#endif
