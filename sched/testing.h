/* What tests and benchmarks may ask of a runtime beyond the public calls: in builds with hooks alone (base/hooks.h),
 * which the library that is installed is not. Internal; not installed. */
#ifndef ROTA_SCHED_TESTING_H
#define ROTA_SCHED_TESTING_H

#include "exec/exec.h"
#include "sched/runtime.h"

/* Makes a further driver known to the runtime, for rota_devices and rota_device_open by id; "auto" never
 * chooses a device of class ROTA_DEVICE_TEST. `test` is handed on as rota_exec_open_options.test. Both are
 * borrowed until the runtime closes. A driver of the same name as a built-in one takes its place. Before any
 * device is opened; not thread-safe. */
rota_status rota_runtime_add_driver(rota_runtime *runtime, const rota_exec_driver *driver, void *test);

/* Opens Vulkan devices in touch mode (rota_exec_open_options.touch) from now on: nodes declare their accesses
 * to the validation layer instead of computing. Before any device is opened; not thread-safe. */
rota_status rota_runtime_set_touch(rota_runtime *runtime, bool touch);

/* Vulkan devices opened from now on record a turn of each loop, and go on with all of them
 * (rota_exec_open_options.few_turns). Before any device is opened; not thread-safe. */
rota_status rota_runtime_set_few_turns(rota_runtime *runtime, bool few_turns);

/* Devices opened from now on share no memory with others. Before any device is opened; not thread-safe. */
rota_status rota_runtime_set_unshared(rota_runtime *runtime, bool unshared);

/* Devices opened from now on may share memory, but wait for each other through the host. Before any device is
 * opened; not thread-safe. */
rota_status rota_runtime_set_host_ordered(rota_runtime *runtime, bool host_ordered);

/* The baseline of rota-bench submit. While locked, the sequencer thread rests and only rota_submit_locked may
 * submit: it holds one mutex while it resolves hazards and hands over with the sequencer's own code. Nothing
 * may be submitted during the change. TIMEOUT. */
rota_status rota_runtime_lock_submission(rota_runtime *runtime, bool locked);
rota_status rota_submit_locked(rota_plan *plan, rota_args *args, rota_ticket *out_ticket);

/* Of the runtime's memory_bytes those that staging memory takes, beside the upload rings. Wait-free. */
uint64_t rota_runtime_staging_bytes(rota_runtime *runtime);

#endif
