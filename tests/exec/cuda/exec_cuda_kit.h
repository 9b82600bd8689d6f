/* What the tests of exec/cuda's own share beside the contract's kernel and programs (exec_contract.h): an open device
 * with its checks at close, and short names for the contract's calls. They run over the stand-in for the driver, or
 * (exec_cuda_real) on a device. */
#ifndef ROTA_TESTS_EXEC_CUDA_KIT_H
#define ROTA_TESTS_EXEC_CUDA_KIT_H

#include "tests/kit/support.h"
#include "tests/exec/vk_support.h"
#include <stdlib.h>
#include "base/clock.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_module.h"
#include "exec/cuda/cuda_program.h"
#include "tests/exec/exec_contract.h"
#include "tests/exec/cuda/cuda_stub.h"

#define COUNT CONTRACT_COUNT
#define BYTES CONTRACT_BYTES
#define QUEUES CONTRACT_QUEUES

typedef struct cuda_fixture {
    test_host host;
    rota_exec_device *device;
    uint64_t next[ROTA_EXEC_QUEUES_MAX];
} cuda_fixture;

/* Over the stand-in unless this is set; then cases are skipped by name where there is no device. */
extern bool exec_cuda_real;
/* As with a driver that has no conditional nodes: what they would decide is decided by the host (cuda_script.c). */
extern bool exec_cuda_hosted;
/* Of the process's driver: devices opened from now on find none, until rota_cuda_api_use(NULL). False: no driver. */
bool exec_cuda_hide_conditionals(void);

cuda_fixture *cuda_open(const rota_exec_open_options *changes);
/* Closes, and wants nothing abandoned, violated or left alive. */
void cuda_close(cuda_fixture *f);
rota_exec_memory *cuda_memory(cuda_fixture *f, uint64_t size, uint32_t flags);
rota_exec_memory *cuda_shared(cuda_fixture *f, uint64_t size);
contract_loaded cuda_load(cuda_fixture *f, test_program *p, rota_exec_memory *const *memories);
void cuda_unload(cuda_fixture *f, contract_loaded l);
rota_exec_work cuda_work(cuda_fixture *f, contract_loaded l, uint32_t segment, uint32_t queue,
                         const rota_exec_wait *waits, uint32_t wait_count, const uint64_t *block);
void cuda_submit(cuda_fixture *f, const rota_exec_work *works, uint32_t count);
void cuda_wait(cuda_fixture *f, uint32_t queue);
/* The program's segment 0 on queue 0, so many times, each waited for. */
void cuda_run(cuda_fixture *f, contract_loaded l, const uint64_t *block, uint32_t times);

/* A host that keeps why its device was lost, and names nodes by their numbers. */
typedef struct lost_host {
    test_host host;
    char message[512];
} lost_host;
rota_exec_open_options lost_host_options(lost_host *host, bool diagnostics);
/* Waits for the one loss; up to 10 s. */
bool lost_host_wait(lost_host *host);

/* For exec_contract.h, over either. */
contract_kit exec_cuda_contract(void);

/* The cases of its own that run over both. */
extern const struct CMUnitTest exec_cuda_cases[];
extern const size_t exec_cuda_case_count;
int exec_cuda_run(const char *name, const struct CMUnitTest *more, size_t more_count);

#endif
