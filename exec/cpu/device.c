/* The CPU executor's driver: opening a device with its workers, and closing it by a deadline. */
#include "exec/cpu/device.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/signals.h"
#include "exec/cpu/info.h"
#include "exec/cpu/instance.h"
#include "exec/cpu/later.h"
#include "exec/cpu/program.h"

enum {
    STOP_LEAST_NS = 2000000, /* what any close may take */
    STOP_MOST_NS =
        100000000 /* how long a worker outside kernels is waited for beyond a deadline that has passed */
};

static rota_status enumerate(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                             uint32_t *out_count) {
    (void)driver;
    *out_count = 1;
    return capacity == 0 ? ROTA_OK : rota_cpu_describe(&out_infos[0], NULL);
}

/* The record among those of a body, or of bodies within it. A worker may have gone on meanwhile, also to programs that
 * are gone: what it showed is compared, and never looked into. */
static bool is_in_body(const rota_exec_program *body, const rota_cpu_record *record,
                       rota_exec_stuck *out_stuck) {
    if (!body) return false;
    const uintptr_t first = (uintptr_t)body->records, address = (uintptr_t)record;
    const uintptr_t index = (address - first) / sizeof *record;
    if (address >= first && index < body->desc->command_count) {
        out_stuck->body_owner = body->owner;
        out_stuck->body_node = body->records[index].node;
        return true;
    }
    for (uint32_t i = 0; i < body->body_count; i++)
        if (is_in_body(body->bodies[i], record, out_stuck)) return true;
    return false;
}

static void find_inner(const rota_exec_program *program, uint32_t node, const rota_cpu_record *record,
                       rota_exec_stuck *out_stuck) {
    for (uint32_t i = 0; record && i < program->conditional_count; i++) {
        const rota_cpu_conditional *conditional = &program->conditionals[i];
        if (program->desc->commands[conditional->command].node != node) continue;
        for (uint32_t b = 0; b < conditional->desc->body_count; b++)
            if (is_in_body(program->bodies[conditional->first_body + b], record, out_stuck)) return;
    }
}

/* The node that some worker runs for this instance now, or that runs elsewhere. Known without diagnostics: it costs two
 * plain stores a command. */
static bool stuck_node(rota_exec_device *base, rota_exec_instance *instance, rota_exec_stuck *out_stuck) {
    rota_cpu_device *device = rota_cpu_device_of(base);
    for (uint32_t i = 0; i < device->worker_count; i++) {
        rota_cpu_worker *worker = &device->workers[i];
        if (ra_load_acquire(&worker->instance) != instance) continue; /* pairs with run.c */
        uint32_t node = ra_load_acquire(&worker->node);
        if (node == ROTA_CPU_NONE || ra_load_relaxed(&worker->instance) != instance) continue;
        *out_stuck = (rota_exec_stuck){.node = node, .iterations = ra_load_relaxed(&worker->iteration)};
        find_inner(instance->program, node, ra_load_relaxed(&worker->inner), out_stuck);
        return true;
    }
    for (uint32_t i = 0; i < instance->program->later_count; i++) {
        const uint32_t node = ra_load_relaxed(&instance->laters[i].node);
        if (node == ROTA_CPU_NONE) continue;
        *out_stuck = (rota_exec_stuck){.node = node};
        return true;
    }
    return false;
}

/* ---- Close ---- */

static void free_device(rota_cpu_device *device) {
    for (uint32_t i = 0; device->workers && i < device->worker_count; i++)
        rota_cpu_deque_free(&device->workers[i].deque);
    free(device->workers);
    rota_cpu_deque_free(&device->tasks.inject);
    rota_cpu_queues_free(device);
    rota_cpu_instance_free_all(device);
    rota_cpu_program_free_all(device);
    rota_cpu_memory_free_all(device);
    (void)pthread_mutex_destroy(&device->objects.mutex);
    free(device);
}

/* Whether a worker that has not ended may be between a look at `stop` and a call to the host. Those calls
 * never block. */
static bool is_any_outside_kernels(rota_cpu_device *device, uint32_t started) {
    for (uint32_t i = 0; i < started; i++) {
        rota_cpu_worker *worker = &device->workers[i];
        if (!ra_load_acquire(&worker->exited) && ra_load_acquire(&worker->node) == ROTA_CPU_NONE) return true;
    }
    return false;
}

/* Stops the first `started` workers. True when all have ended before the deadline. A deadline that is too
 * near is put off a little: workers that are not inside a kernel or host function end at once, and must,
 * before the host may go. */
static bool stop_workers(rota_cpu_device *device, uint32_t started, uint64_t deadline_ns) {
    /* Pairs with the loads after each command, in next_task and in park. */
    ra_store_seq_cst(&device->end.stop, ROTA_CPU_CLOSES);
    rota_cpu_wake_all(device);
    rota_futex_wake(&device->end.stop, INT32_MAX); /* those parked */
    uint64_t least = rota_deadline_after(STOP_LEAST_NS), most = rota_deadline_after(STOP_MOST_NS);
    if (deadline_ns < least) deadline_ns = least;
    if (most < deadline_ns) most = deadline_ns;
    for (;;) {
        uint32_t exited = ra_load_seq_cst(&device->end.exited_count);
        if (exited == started) break;
        if (rota_futex_wait(&device->end.exited_count, exited, deadline_ns) || rota_clock_ns() < deadline_ns)
            continue;
        if (deadline_ns >= most || !is_any_outside_kernels(device, started)) break;
        deadline_ns = rota_deadline_after(STOP_LEAST_NS);
    }
    bool all = true;
    for (uint32_t i = 0; i < started; i++) {
        /* Pairs with the store at the worker's end: all it did is visible. */
        if (ra_load_acquire(&device->workers[i].exited)) {
            (void)pthread_join(device->workers[i].thread, NULL);
        } else {
            (void)pthread_detach(device->workers[i].thread);
            all = false;
        }
    }
    return all;
}

/* Devices given up by close: kept where a leak checker finds them. */
static _Atomic(rota_cpu_device *) abandoned_devices;

/* Leaves what is running after its present command. A worker that does not come back from its kernel or host
 * function by the deadline is left alone with all that it may touch: the device, its programs, instances and
 * memories stay allocated for ever. When it does come back it sees `stop` first and ends without touching the
 * host. So is a host function that ends later and has not. */
static void close_device(rota_exec_device *base, uint64_t deadline_ns, uint64_t *out_abandoned_bytes) {
    rota_cpu_device *device = rota_cpu_device_of(base);
    uint64_t abandoned = 0;
    if (stop_workers(device, device->worker_count, deadline_ns) && rota_cpu_later_wait(device, deadline_ns)) {
        free_device(device);
    } else {
        pthread_mutex_lock(&device->objects.mutex);
        /* With the device itself, so that the count is never 0 where something is abandoned. */
        abandoned =
            device->objects.allocated_bytes + sizeof *device + device->worker_count * sizeof *device->workers;
        pthread_mutex_unlock(&device->objects.mutex);
        rota_cpu_device *head = ra_load_relaxed(&abandoned_devices);
        do {
            device->next_abandoned = head;
        } while (!ra_cas_acq_rel(&abandoned_devices, &head, device)); /* only ever added to */
        rota_log_write(
            &device->host.log, ROTA_LOG_WARNING,
            "cpu: a kernel or host function did not end by the deadline of close; %llu bytes are abandoned",
            (unsigned long long)abandoned);
    }
    if (out_abandoned_bytes) *out_abandoned_bytes = abandoned;
}

/* ---- Open ---- */

static rota_status start_worker(rota_cpu_device *device, rota_cpu_worker *worker, const cpu_set_t *set) {
    const int error =
        rota_locality_start(&device->base.locality, set, &worker->thread, rota_cpu_worker_main, worker);
    if (error)
        return rota_fail(ROTA_SYSTEM, "cpu: worker %u of %u cannot be started: %s", worker->index,
                         device->worker_count, strerror(error));
    char name[16];
    (void)snprintf(name, sizeof name, "rota-cpu-%u", worker->index);
    (void)pthread_setname_np(worker->thread, name);
    return ROTA_OK;
}

static rota_status start_workers(rota_cpu_device *device, const rota_cpu_core *cores, uint32_t core_count) {
    sigset_t before;
    rota_signals_block(&before);
    rota_status status = ROTA_OK;
    uint32_t started = 0;
    /* More workers than cores: two pinned to one core could not move to another that is idle. */
    bool is_placed = device->worker_count <= core_count;
    for (uint32_t i = 0; is_placed && i < device->worker_count; i++)
        device->workers[i].near = rota_cpu_near_cut(&cores[i].near, device->worker_count);
    /* Else large memory, which any worker may read, would be where somebody happened to write it first. */
    rota_cpu_nodes(cores, is_placed ? device->worker_count : core_count, &device->base.locality.nodes);
    while (started < device->worker_count && status == ROTA_OK) {
        status = start_worker(device, &device->workers[started], is_placed ? &cores[started].set : NULL);
        if (status == ROTA_OK) started++;
    }
    rota_signals_restore(&before);
    /* They have no tasks, so they end at once; the deadline only bounds a machine that does not run them. */
    if (status != ROTA_OK)
        device->is_abandoned = !stop_workers(device, started, rota_deadline_after(10000000000u));
    return status;
}

static const rota_exec_device_vtable vtable = {
    .close = close_device,
    .memory_create = rota_cpu_memory_create,
    .memory_destroy = rota_cpu_memory_destroy,
    .memory_adopt = rota_cpu_memory_adopt,
    .memory_return = rota_cpu_memory_return,
    .program_create = rota_cpu_program_create,
    .program_destroy = rota_cpu_program_destroy,
    .instance_create = rota_cpu_instance_create,
    .instance_destroy = rota_cpu_instance_destroy,
    .submit = rota_cpu_submit,
    .times = rota_cpu_times_read,
    .stuck_node = stuck_node,
};

static rota_status fill_device(rota_cpu_device *device, const rota_exec_open_options *options,
                               const rota_cpu_core *cores, uint32_t core_count) {
    device->base.vtable = &vtable;
    device->base.caps = (rota_exec_caps){
        .unified_host = true,
        .reuse_in_flight = true,
        .submit_never_blocks = true,
        .runs_host_nodes = true,
        .runs_conditionals = true,
        .runs_counted = true,
        .asks_must_skip = true,
    };
    device->host = options->host;
    device->base.locality.device = device->base.info.id;
    device->base.locality.log = &device->host.log;
    device->queue_count = options->queue_count;
    device->diagnostics = options->diagnostics;
    device->worker_count = options->worker_threads ? options->worker_threads : core_count;
    if (device->worker_count > ROTA_CPU_WORKERS_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "cpu: %u worker threads asked for; at most %d are possible",
                         device->worker_count, ROTA_CPU_WORKERS_MAX);
    size_t bytes = device->worker_count * sizeof *device->workers;
    device->workers = aligned_alloc(64, bytes);
    if (!device->workers)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for %u workers", device->worker_count);
    memset(device->workers, 0, bytes);
    bool is_ready = rota_cpu_deque_init(&device->tasks.inject, ROTA_CPU_INJECT_CAPACITY);
    for (uint32_t i = 0; i < device->worker_count; i++) {
        rota_cpu_worker *worker = &device->workers[i];
        worker->device = device;
        worker->index = i;
        worker->random = i * 0x9e3779b97f4a7c15u + 1;
        atomic_init(&worker->node, ROTA_CPU_NONE);
        is_ready = rota_cpu_deque_init(&worker->deque, ROTA_CPU_DEQUE_CAPACITY) && is_ready;
    }
    if (!is_ready)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for the task queues of %u workers",
                         device->worker_count);
    ROTA_TRY(rota_cpu_queues_init(device));
    return start_workers(device, cores, core_count);
}

static rota_status open_device(const rota_exec_driver *driver, uint32_t index,
                               const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver;
    if (index != 0) return rota_fail(ROTA_NOT_FOUND, "cpu: there is device 0 only, not %u", index);
    if (options->queue_count == 0 || options->queue_count > ROTA_EXEC_QUEUES_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "cpu: %u queues asked for; 1 to %d are possible",
                         options->queue_count, ROTA_EXEC_QUEUES_MAX);
    rota_cpu_core *cores = NULL;
    uint32_t core_count = 0;
    rota_cpu_device *device = aligned_alloc(64, sizeof *device);
    if (!device) return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no memory for a device");
    memset(device, 0, sizeof *device);
    int error = pthread_mutex_init(&device->objects.mutex, NULL);
    if (error) {
        free(device);
        return rota_fail(ROTA_SYSTEM, "cpu: a mutex cannot be made: %s", strerror(error));
    }
    rota_link_begin(&device->objects.memories);
    rota_link_begin(&device->objects.programs);
    rota_link_begin(&device->objects.instances);
    rota_status status = rota_cpu_describe(&device->base.info, &cores);
    core_count = device->base.info.compute_units;
    if (status == ROTA_OK) status = fill_device(device, options, cores, core_count);
    free(cores);
    if (status != ROTA_OK) {
        if (!device->is_abandoned) free_device(device);
        return status;
    }
    *out_device = &device->base;
    return ROTA_OK;
}

const rota_exec_driver rota_exec_cpu_driver = {
    .name = "cpu", .kind = ROTA_EXEC_CPU, .enumerate = enumerate, .open = open_device};
