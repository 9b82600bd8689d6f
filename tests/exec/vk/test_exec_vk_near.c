/* Mapped memory of a device that is near some of the host's memory comes from there. */
#include "tests/exec/vk/exec_vk_kit.h"
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
    expect_policy(f, ROTA_EXEC_MEMORY_HOST_WRITE, MPOL_DEFAULT);
    rota_nodes_add(&device->base.locality.nodes, 0);
    expect_policy(f, ROTA_EXEC_MEMORY_HOST_WRITE, MPOL_PREFERRED);
    expect_policy(f, ROTA_EXEC_MEMORY_HOST_READ, MPOL_PREFERRED);
    expect_policy(f, ROTA_EXEC_MEMORY_DEVICE, MPOL_DEFAULT);
    device->vk.AllocateMemory = real_allocate;
    close_quiet(f, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mapped_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
