/* rota_submit: what a caller does. Lock-free; nothing here allocates or enters a driver. */
#include "sched/runtime_internal.h"

/* Whether a device of the plan has so much unfinished that more would only pile up. */
static bool has_backlog(const rota_plan *plan) {
    const rota_runtime *runtime = plan->runtime;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        const rota_device *device = plan->parts[p].device;
        for (uint32_t q = 0; q < runtime->queue_count; q++) {
            const rota_timeline *timeline = &device->timelines[q];
            uint64_t issued = ra_load_relaxed(&timeline->issued),
                     completed = ra_load_relaxed(&timeline->completed);
            if (issued > completed && issued - completed > ROTA_DEVICE_BACKLOG &&
                !rota_device_is_lost(device))
                return true;
        }
    }
    return false;
}

rota_status rota_submit(rota_plan *plan, rota_args *args, rota_ticket *out_ticket) {
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    if (!plan || !plan->runtime || !plan->run)
        return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s' can't be submitted: " ROTA_PLAN_ANALYSED,
                         plan ? plan->name : "(NULL)");
    ROTA_TRY(rota_plan_check(plan));
    rota_runtime *runtime = plan->runtime;
    if (has_backlog(plan))
        return rota_fail(ROTA_BUSY, "plan '%s': its device has more than %d works unfinished", plan->name,
                         ROTA_DEVICE_BACKLOG);
    const uint64_t *payload;
    ROTA_TRY(rota_args_payload(plan, args, &payload));
    rota_ticket ticket;
    ROTA_TRY(rota_lane_publish(runtime, ROTA_RECORD_PLAN, plan, args && rota_args_copies(args) ? args : NULL,
                               payload, plan->run->payload_words, &ticket));
    if (args) rota_args_submitted(args, ticket);
    if (out_ticket) *out_ticket = ticket;
    return ROTA_OK;
}

/* Room comes as the plan's devices get on with what they have. */
static void watch_devices(rota_progress *progress, const rota_plan *plan) {
    for (uint32_t p = 0; p < plan->part_count; p++)
        rota_progress_watch_device(progress, plan->parts[p].device);
}

rota_status rota_submit_wait(rota_plan *plan, rota_args *args, uint64_t timeout_ns, rota_ticket *out_ticket) {
    rota_status status = rota_submit(plan, args, out_ticket);
    if (status != ROTA_BUSY) return status;
    rota_runtime *runtime = plan->runtime;
    bool from_progress = timeout_ns == 0;
    if (from_progress) timeout_ns = runtime->options.timeout_ns;
    rota_progress progress;
    rota_progress_begin(&progress, runtime);
    const uint64_t start = progress.since_ns;
    if (from_progress) watch_devices(&progress, plan);
    static _Atomic uint32_t
        never; /* room comes as works complete, many at a time: looking again soon is enough */
    for (uint64_t pause = 20000;; pause = pause < 200000 ? pause * 2 : pause) {
        (void)rota_futex_wait(&never, 0, rota_deadline_after(pause));
        status = rota_submit(plan, args, out_ticket);
        if (status != ROTA_BUSY) return status;
        uint64_t from = from_progress ? rota_progress_look(&progress) : start;
        uint64_t now = rota_clock_ns();
        if (now > from && now - from > timeout_ns)
            return rota_fail_context(ROTA_TIMEOUT, "no room within %.3f s: ", (double)timeout_ns * 1e-9);
    }
}
