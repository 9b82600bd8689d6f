/* Mapped memory of a device that is near some of the host's memory comes from there, and its completion thread stays
 * near it. The driver of the tests does not say where on PCI its device is. */
#include "tests/exec/vk/exec_vk_kit.h"
#include <string.h>
#include "tests/kit/made_up_machine.h"
#include "tests/kit/memory_policy.h"

static PFN_vkAllocateMemory real_allocate;
static int policy;
static bool node_0;

static VkResult VKAPI_CALL allocate_noted(VkDevice device, const VkMemoryAllocateInfo *info,
                                          const VkAllocationCallbacks *callbacks, VkDeviceMemory *out) {
    policy = test_policy(NULL, &node_0);
    return real_allocate(device, info, callbacks, out);
}

static void expect_policy(fixture *f, uint32_t flags, int expected) {
    rota_exec_memory *made;
    policy = -1;
    assert_ok(f->device->vtable->memory_create(f->device, BYTES, flags, "memory", &made));
    f->device->vtable->memory_destroy(f->device, made);
    assert_int_equal(policy, expected);
    if (expected == MPOL_PREFERRED) assert_true(node_0);
    assert_int_equal(test_policy(NULL, &node_0), MPOL_DEFAULT);
}

static void test_mapped_memory(void **state) {
    (void)state;
    if (!test_policy_set(MPOL_DEFAULT)) skip();
    fixture *f = open_as(NULL, true);
    rota_vk_device *device = (rota_vk_device *)f->device;
    real_allocate = device->vk.AllocateMemory;
    device->vk.AllocateMemory = allocate_noted;
    memset(&device->base.locality.nodes, 0,
           sizeof device->base.locality.nodes); /* whatever it is near here */
    expect_policy(f, ROTA_EXEC_MEMORY_HOST_WRITE, MPOL_DEFAULT);
    rota_nodes_add(&device->base.locality.nodes, 0);
    expect_policy(f, ROTA_EXEC_MEMORY_HOST_WRITE, MPOL_PREFERRED);
    expect_policy(f, ROTA_EXEC_MEMORY_HOST_READ, MPOL_PREFERRED);
    expect_policy(f, ROTA_EXEC_MEMORY_DEVICE, MPOL_DEFAULT);
    device->vk.AllocateMemory = real_allocate;
    close_quiet(f, false);
}

static const char *said_pci; /* in place of what the driver says; NULL: that */

void __real_rota_locality_find(rota_locality *locality, const char *pci);
void __wrap_rota_locality_find(rota_locality *locality, const char *pci);
void __wrap_rota_locality_find(rota_locality *locality, const char *pci) {
    __real_rota_locality_find(locality, said_pci ? said_pci : pci);
}

static void test_completion_thread(void **state) {
    (void)state;
    made_up_machine_begin(0, 0);
    said_pci = "0000:11:00.0";
    fixture *f = open_as(NULL, true);
    said_pci = NULL;
    made_up_machine_end();
    const cpu_set_t cpus = made_up_machine_cpus(((rota_vk_device *)f->device)->completer.thread);
    assert_int_equal(CPU_COUNT(&cpus), 4);
    for (size_t i = 4; i < 8; i++) assert_true(CPU_ISSET(i, &cpus));
    assert_string_equal(f->device->locality.device, f->device->info.id);
    assert_non_null(f->device->locality.log);
    close_quiet(f, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mapped_memory),
                                       cmocka_unit_test(test_completion_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
