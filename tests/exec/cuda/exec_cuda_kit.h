/* What the tests of exec/cuda's contract share: kernels, an open device with its checks at close, and short
 * names for the contract's calls. They run over the stand-in for the driver, or (exec_cuda_real) on a device.
 */
#ifndef ROTA_TESTS_EXEC_CUDA_KIT_H
#define ROTA_TESTS_EXEC_CUDA_KIT_H

#include "tests/kit/support.h"
#include "tests/exec/vk_support.h"
#include <stdlib.h>
#include "base/clock.h"
#include "cuda/test_kernels.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_module.h"
#include "exec/cuda/cuda_program.h"
#include "tests/exec/exec_contract.h"
#include "tests/exec/cuda/cuda_stub.h"

#define COUNT 1024u
#define BYTES (COUNT * 4u)
#define QUEUES 3u

#if ROTA_CUDA_HAVE_test_kernels
#define TEST_IMAGE ROTA_CUDA_IMAGE_test_kernels
#else
#define TEST_IMAGE .image = "", .size_bytes = 1 /* enough for the stand-in */
#endif

typedef struct step_params {
    uint32_t count, add;
    uint64_t wide;
} step_params;

/* x = 3 x + y + add + (wide >> 32), of tests/kernels/test_kernels.cu. */
extern const rota_kernel cuda_step;

typedef struct cuda_fixture {
    test_host host;
    rota_exec_device *device;
    uint64_t next[ROTA_EXEC_QUEUES_MAX];
} cuda_fixture;

typedef struct cuda_loaded {
    rota_exec_program *program;
    rota_exec_instance *instance;
    uint32_t *edges; /* of the description */
} cuda_loaded;

/* Over the stand-in unless this is set; then cases are skipped by name where there is no device. */
extern bool exec_cuda_real;

cuda_fixture *cuda_open(const rota_exec_open_options *changes);
/* Closes, and wants nothing abandoned, violated or left alive. */
void cuda_close(cuda_fixture *f);
rota_exec_memory *cuda_memory(cuda_fixture *f, uint64_t size, uint32_t flags);
rota_exec_memory *cuda_shared(cuda_fixture *f, uint64_t size);
/* Gives the description edges: all commands of a batch to all of the next (batch order says no more). */
uint32_t *cuda_edges(test_program *p);
cuda_loaded cuda_load(cuda_fixture *f, test_program *p, rota_exec_memory *const *memories);
void cuda_unload(cuda_fixture *f, cuda_loaded l);
rota_exec_work cuda_work(cuda_fixture *f, cuda_loaded l, uint32_t segment, uint32_t queue,
                         const rota_exec_wait *waits, uint32_t wait_count, const uint64_t *block);
void cuda_submit(cuda_fixture *f, const rota_exec_work *works, uint32_t count);
void cuda_wait(cuda_fixture *f, uint32_t queue);
/* The program's segment 0 on queue 0, so many times, each waited for. */
void cuda_run(cuda_fixture *f, cuda_loaded l, const uint64_t *block, uint32_t times);
uint32_t cuda_stepped(uint32_t x, uint32_t y, uint32_t times);
/* `length` steps, a batch each. */
test_program *cuda_chain(uint32_t length, const step_params *params);

/* For exec_contract.h, over either. */
contract_kit exec_cuda_contract(void);

/* The cases of its own that run over both. */
extern const struct CMUnitTest exec_cuda_cases[];
extern const size_t exec_cuda_case_count;
int exec_cuda_run(const char *name, const struct CMUnitTest *more, size_t more_count);

#endif
