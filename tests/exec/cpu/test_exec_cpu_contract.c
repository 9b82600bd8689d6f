/* The executor contract (exec_contract.h) kept by exec/cpu. */
#include "tests/exec/exec_contract.h"

#include "exec/cpu/device.h"

static uint64_t in_use(contract *c) {
    return rota_cpu_device_of(c->device)->objects.allocated_bytes;
}

static void lose(contract *c) {
    rota_cpu_lose(rota_cpu_device_of(c->device), "given up by a test");
}

int main(void) {
    const contract_kit kit = {
        .name = "cpu", .driver = &rota_exec_cpu_driver, .idle_ms_max = 30, .in_use = in_use, .lose = lose};
    return contract_main(&kit);
}
