/* The executor contract (exec_contract.h) kept by exec/vk, under the validation layer: with one real queue,
 * and with a second timeline for the transfer queue's copies. Without a device every case is skipped by name.
 */
#include "tests/exec/exec_contract.h"

#include "exec/vk/vk_device.h"
#include "exec/vk/vk_instance.h"

static const rota_vk_test_options split_options = {.split_transfer = true};

static void validate(contract *c, rota_exec_open_options *options) {
    (void)c;
    options->validation = true;
}

static void validate_split(contract *c, rota_exec_open_options *options) {
    validate(c, options);
    options->test = (void *)(uintptr_t)&split_options;
}

static void validate_few_turns(contract *c, rota_exec_open_options *options) {
    validate(c, options);
    options->few_turns = true;
}

static void no_messages(contract *c) {
    char text[1024];
    const uint64_t messages = rota_vk_validation_messages(c->device, text, sizeof text);
    if (messages) fail_msg("%llu validation messages, the last: %s", (unsigned long long)messages, text);
    const rota_vk_device *device = (const rota_vk_device *)c->device;
    const bool two = device->options.test != NULL || c->device->info.transfer_queues > 0;
    if (!device->options.diagnostics) assert_int_equal(device->real_count, two ? 2 : 1);
}

static uint64_t in_use(contract *c) {
    return ra_load_relaxed(&((rota_vk_device *)c->device)->objects.memory_bytes);
}

static PFN_vkQueueWaitIdle wait_idle;

/* Nothing of a device that is gone is under way any more. */
static VKAPI_ATTR VkResult VKAPI_CALL submit_lost(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                                  VkFence fence) {
    (void)count, (void)infos, (void)fence;
    (void)wait_idle(queue);
    return VK_ERROR_DEVICE_LOST;
}

static void lose(contract *c) {
    rota_vk_table *vk = &((rota_vk_device *)c->device)->vk;
    wait_idle = vk->QueueWaitIdle;
    vk->QueueSubmit2 = submit_lost;
}

int main(void) {
    contract_kit kit = {.name = "vk",
                        .driver = &rota_exec_vk_driver,
                        .is_optional = true,
                        .slow = 3,
                        .before_open = validate,
                        .before_close = no_messages,
                        .in_use = in_use,
                        .lose = lose};
    int failed = contract_main(&kit);
    kit.name = "vk with two real queues";
    kit.before_open = validate_split;
    failed += contract_main(&kit);
    kit.name = "vk with a turn of each loop";
    kit.before_open = validate_few_turns;
    failed += contract_main(&kit);
    return failed;
}
