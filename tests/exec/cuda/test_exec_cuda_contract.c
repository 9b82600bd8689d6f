/* The executor contract (exec_contract.h) kept by exec/cuda over the stand-in for the driver: one with conditional
 * nodes, and one without. */
#include "tests/exec/exec_contract.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include "tests/exec/cuda/exec_cuda_kit.h"

static void lose(contract *c) {
    (void)c;
    cuda_stub_fail("EventRecord", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void) {
    contract_kit kit = exec_cuda_contract();
    kit.idle_ms_max = 30;
    kit.lose = lose;
    const int failed = contract_main(&kit);
    exec_cuda_hosted = true;
    kit.name = "cuda over the stand-in, decided by the host";
    return failed + contract_main(&kit);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
