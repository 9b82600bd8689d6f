/* Devices are opened through their trials: the runtime starts one, and lets it be seen once it passed these. */
#include "base/given.h"
#include "sched/embed.h"
#include "sched/opened.h"
#include "sched/runtime/life/application.h"
#include "sched/runtime/life/device_open.h"
#include "sched/trials/ordering.h"
#include "sched/trials/sharing.h"
#include "sched/trials/smoke.h"

static const rota_trials trials = {
    .smoke = rota_trial_smoke, .sharing = rota_trial_sharing, .ordering = rota_trial_ordering};

rota_status rota_device_open(rota_runtime *runtime, const char *id, rota_device **out_device) {
    ROTA_GIVEN(out_device);
    return rota_device_open_tried(runtime, id, &trials, out_device);
}

rota_status rota_device_open_vulkan(rota_runtime *runtime, const rota_vulkan_device *vulkan,
                                    rota_device **out_device) {
    ROTA_GIVEN(out_device);
    *out_device = NULL;
    ROTA_GIVEN(vulkan);
    return rota_device_open_vulkan_tried(runtime, vulkan, &trials, out_device);
}

rota_status rota_device_open_cuda(rota_runtime *runtime, const rota_cuda_context *cuda,
                                  rota_device **out_device) {
    ROTA_GIVEN(out_device);
    *out_device = NULL;
    ROTA_GIVEN(cuda);
    return rota_device_open_cuda_tried(runtime, cuda, &trials, out_device);
}

rota_status rota_device_smoke(rota_device *device, uint64_t idle_ns) {
    ROTA_GIVEN(device);
    ROTA_TRY(rota_runtime_check(rota_device_runtime(device)));
    return rota_trial_smoke(device, idle_ns, 0);
}
