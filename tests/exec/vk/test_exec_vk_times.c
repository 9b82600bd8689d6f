/* Times of commands on exec/vk: the device's timer against the host's clock, where a thread is held between the two. */
#include "tests/exec/vk/exec_vk_kit.h"
#include "tests/kit/nap.h"

static uint32_t compared;

/* As of a software device, whose timer is the host's clock; the thread is held between the two, the first time. */
static VkResult VKAPI_CALL held_between_clocks(VkDevice device, uint32_t count,
                                               const VkCalibratedTimestampInfoEXT *infos, uint64_t *values,
                                               uint64_t *deviation) {
    (void)device, (void)count, (void)infos;
    values[0] = rota_clock_ns();
    if (compared++ == 0) test_nap_ms(50);
    values[1] = rota_clock_ns();
    *deviation = 1;
    return VK_SUCCESS;
}

static void clocks_are_compared_again(void **state) {
    (void)state;
    fixture *f = open_with(&(rota_exec_open_options){.diagnostics = true});
    rota_vk_device *device = (rota_vk_device *)f->device;
    const float ns_a_tick = device->physical.properties.limits.timestampPeriod;
    if (f->device->info.device_class != ROTA_DEVICE_SOFTWARE_GPU || ns_a_tick < 1 || ns_a_tick > 1) {
        close_quiet(f, false);
        skip();
        return;
    }
    device->physical.calibrated_timestamps = true;
    device->vk.GetCalibratedTimestampsEXT = held_between_clocks;
    compared = 0;
    rota_exec_memory *memories[] = {shared(f, 2 * BYTES)};
    memset(memories[0]->host, 0, 2 * BYTES);
    const contract_step_params params = {COUNT, 1, 0};
    test_program *p = chain_program(1, &params);
    loaded l = load(f, p, memories);
    rota_exec_work w = work(f, l, 0, 0, NULL, 0, NULL);
    rota_exec_time time;
    const uint64_t begin = rota_clock_ns();
    submit(f, &w, 1);
    wait_for(f, 0);
    const uint64_t end = rota_clock_ns();
    assert_ok(f->device->vtable->times(f->device, l.instance, &time));
    assert_true(compared > 1);
    assert_true(time.begin_ns >= begin && time.end_ns <= end);
    unload(f, l);
    free(p);
    close_quiet(f, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(clocks_are_compared_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
