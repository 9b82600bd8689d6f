/* Listing, opening and closing CUDA devices, and the driver's entry in the executor contract. */
#include "exec/cuda/cuda_device.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/futex.h"
#include "exec/cuda/cuda_complete.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_instance.h"
#include "exec/cuda/cuda_adopt.h"
#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/cuda_names.h"
#include "exec/cuda/cuda_peer.h"
#include "exec/cuda/cuda_stream.h"
#include "exec/cuda/cuda_program.h"
#include "exec/cuda/cuda_running.h"
#include "exec/cuda/cuda_share.h"
#include "exec/cuda/cuda_times.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_NS 1000000000ull
#define PUSH_NAP_NS 1000000ull
#define DEVICES_MAX 32
/* Groups from which on the device sets the grid of a counted kernel. On an H200 (132 multiprocessors) 100 items in
 * groups of 64 took, with the groups of the most and with the device's: of 1 024 groups 5.4 and 5.5 us, of 2 048 6.7
 * and 5.5, of 65 536 82.8 and 5.5. */
#define ROTA_CUDA_GRID_MIN 1536u

/* ---- Listing ---- */

static void missing_add(rota_device_info *info, const char *what) {
    size_t used = strlen(info->missing);
    snprintf(info->missing + used, sizeof info->missing - used, "%s%s", used ? "; " : "", what);
    info->usable = false;
}

static int attribute(const rota_cuda_api *cu, CUdevice device, CUdevice_attribute which) {
    int value = 0;
    return cu->DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

static uint32_t capability(const rota_cuda_api *cu, CUdevice device) {
    return 10 * (uint32_t)attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
           (uint32_t)attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

static void describe(const rota_cuda_api *cu, CUdevice handle, uint32_t index, rota_device_info *info) {
    *info = ROTA_DEVICE_INFO(.kind = ROTA_EXEC_CUDA, .device_class = ROTA_DEVICE_GPU, .usable = true);
    snprintf(info->id, sizeof info->id, "cuda:%u", index);
    if (cu->DeviceGetName(info->name, sizeof info->name, handle) != CUDA_SUCCESS)
        snprintf(info->name, sizeof info->name, "a device that does not tell its name");
    int version = 0;
    if (cu->DriverGetVersion(&version) == CUDA_SUCCESS)
        snprintf(info->driver, sizeof info->driver, "NVIDIA, CUDA %d.%d", version / 1000,
                 version % 1000 / 10);
    size_t bytes = 0;
    if (cu->DeviceTotalMem(&bytes, handle) != CUDA_SUCCESS) missing_add(info, "memory of a known size");
    info->memory_bytes = info->max_allocation_bytes = bytes;
    info->compute_units = (uint32_t)attribute(cu, handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    info->subgroup_size = (uint32_t)attribute(cu, handle, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    info->compute_queues = 1;
    info->transfer_queues = (uint32_t)attribute(cu, handle, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    info->features = ROTA_FEATURE_F16_STORAGE | ROTA_FEATURE_F16_ARITHMETIC | ROTA_FEATURE_INT64_ATOMICS |
                     ROTA_FEATURE_INT8_STORAGE | ROTA_FEATURE_F64;
    uint32_t compute = capability(cu, handle);
    char text[96];
    if (compute < 75) {
        snprintf(text, sizeof text, "compute capability 7.5 (it has %u.%u)", compute / 10, compute % 10);
        missing_add(info, text);
    }
    if (attribute(cu, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED)
        missing_add(info, "permission: its compute mode is 'prohibited'");
    if (!attribute(cu, handle, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING))
        missing_add(info, "unified addresses");
    if (!rota_cuda_has_kernels()) missing_add(info, "kernels: this build of rota was made without nvcc");
}

/* Opens the driver and counts its devices; 0 with a sentence where there are none. */
static rota_status count_devices(const rota_cuda_api **out_cu, uint32_t *out_count) {
    *out_count = 0;
    ROTA_TRY(rota_cuda_api_get(out_cu));
    CUresult result = (*out_cu)->Init(0);
    if (result == CUDA_ERROR_NO_DEVICE) return rota_fail(ROTA_UNSUPPORTED, "the CUDA driver lists no device");
    if (result != CUDA_SUCCESS)
        return rota_fail_context(rota_cuda_fail(*out_cu, result, "cuInit"),
                                 "the CUDA driver does not start: ");
    int count = 0;
    result = (*out_cu)->DeviceGetCount(&count);
    if (result != CUDA_SUCCESS) return rota_cuda_fail(*out_cu, result, "cuDeviceGetCount");
    if (count <= 0) return rota_fail(ROTA_UNSUPPORTED, "the CUDA driver lists no device");
    *out_count = (uint32_t)count < DEVICES_MAX ? (uint32_t)count : DEVICES_MAX;
    return ROTA_OK;
}

static rota_status cuda_enumerate(const rota_exec_driver *driver, rota_device_info *out_infos,
                                  uint32_t capacity, uint32_t *out_count) {
    (void)driver;
    const rota_cuda_api *cu;
    /* No driver is no error: there are no devices, and the sentence says why. */
    if (count_devices(&cu, out_count) != ROTA_OK) return ROTA_OK;
    for (uint32_t i = 0; i < *out_count && i < capacity; i++) {
        CUdevice handle;
        CUresult result = cu->DeviceGet(&handle, (int)i);
        if (result != CUDA_SUCCESS) return rota_cuda_fail(cu, result, "cuDeviceGet");
        describe(cu, handle, i, &out_infos[i]);
    }
    return ROTA_OK;
}

/* ---- Opening ---- */

static void open_target(rota_cuda_device *device, uint32_t index) {
    const rota_cuda_api *cu = device->cu;
    device->cache_dir = rota_cache_folder(device->options.cache_dir);
    device->targets.measured = (rota_cuda_target){
        .compute_capability = capability(cu, device->handle),
        .multiprocessors = device->base.info.compute_units,
        .l2_bytes = (uint64_t)attribute(cu, device->handle, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        .shared_bytes_max =
            (uint32_t)attribute(cu, device->handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        .ordinal = (int32_t)index,
        .name = device->base.info.name,
        .driver = device->base.info.driver,
        .cache_dir = device->cache_dir,
        .log = &device->host.log,
    };
    device->targets.by_table = device->targets.measured;
    device->targets.by_table.by_table = true;
    device->targets.by_table.cache_dir = NULL;
    device->base.cuda = &device->targets.measured;
    device->base.cuda_by_table = &device->targets.by_table;
}

static rota_status open_context(rota_cuda_device *device) {
    const rota_device_info *info = &device->base.info;
    if (device->application.has_context) return ROTA_OK;
    CUresult result = device->cu->DevicePrimaryCtxRetain(&device->context, device->handle);
    if (result == CUDA_SUCCESS) return ROTA_OK;
    device->context = NULL;
    if (result == CUDA_ERROR_DEVICE_UNAVAILABLE || result == CUDA_ERROR_INVALID_DEVICE)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "%s (%s) is not available: it is in exclusive mode and another process has it, or in use by a "
            "debugger (%s)",
            info->id, info->name, rota_cuda_result_name(device->cu, result));
    if (rota_cuda_is_fatal(result))
        return rota_fail(
            ROTA_DEVICE_LOST,
            "%s (%s) cannot be opened again: a kernel of this process faulted on it, and the driver gives it "
            "back to a new process only (%s)",
            info->id, info->name, rota_cuda_result_name(device->cu, result));
    return rota_fail_context(rota_cuda_fail(device->cu, result, "cuDevicePrimaryCtxRetain"),
                             "%s (%s): ", info->id, info->name);
}

static void open_granularity(rota_cuda_device *device) {
    if (device->application.given.allocate) return; /* its memory can't be exported */
    if (!attribute(device->cu, device->handle, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
        !attribute(device->cu, device->handle,
                   CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        return;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->handle},
    };
    size_t bytes = 0;
    if (device->cu->MemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
        CUDA_SUCCESS)
        device->bounds.granularity = bytes;
    /* A container may keep a process from making any. */
    rota_cuda_mapping first = {0};
    if (device->bounds.granularity &&
        rota_cuda_map(device, device->bounds.granularity, &first) == CUDA_SUCCESS)
        rota_cuda_unmap(device, &first);
    else
        device->bounds.granularity = 0;
    CUuuid uuid;
    device->base.caps.shares_memory =
        device->bounds.granularity && device->cu->DeviceGetUuid(&uuid, device->handle) == CUDA_SUCCESS;
    if (!device->base.caps.shares_memory) return;
    memcpy(device->base.gpu, uuid.bytes, sizeof device->base.gpu);
    /* What it can't do of the two is found out when it is linked. */
    if (attribute(device->cu, device->handle, CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED) ||
        rota_cuda_has_words(device->cu, device->handle))
        device->base.caps.timeline_queues = (uint32_t)((1ull << device->options.queue_count) - 1);
}

static rota_status open_helpers(rota_cuda_device *device) {
    const struct {
        const char *entry;
        CUfunction *out;
    } helpers[] = {{"rota_upload", &device->helpers.upload},
                   {"rota_timestamp", &device->helpers.timestamp},
                   {"rota_fill", &device->helpers.fill},
                   {"rota_count", &device->helpers.count},
                   {"rota_answer", &device->helpers.answer}};
    for (uint32_t i = 0; i < sizeof helpers / sizeof helpers[0]; i++) {
        rota_kernel kernel = rota_cuda_copy_kernel; /* of the same image */
        kernel.name = kernel.cuda.entry = helpers[i].entry;
        ROTA_TRY(rota_cuda_function_get(device, &kernel, helpers[i].out, NULL));
    }
    return ROTA_OK;
}

/* What the device needs to set grids by itself, where the image has it. */
static rota_status open_grids(rota_cuda_device *device) {
    rota_kernel kernel = rota_cuda_decide_kernel; /* of the same image */
    kernel.name = kernel.cuda.entry = "rota_count_grid";
    device->bounds.grid_min = ROTA_CUDA_GRID_MIN;
    const rota_status status = rota_cuda_function_get(device, &kernel, &device->helpers.count_grid, NULL);
    if (status != ROTA_UNSUPPORTED) return status;
    device->helpers.count_grid = NULL;
    return ROTA_OK;
}

/* Conditional nodes, where driver and image know them. */
static rota_status open_conditionals(rota_cuda_device *device) {
    int version = 0;
    device->base.caps.hosts_decisions = true;
    if (!device->cu->GraphConditionalHandleCreate || !device->cu->GraphAddNode ||
        device->cu->DriverGetVersion(&version) != CUDA_SUCCESS || version < ROTA_CUDA_CONDITIONALS_NEEDED)
        return ROTA_OK;
    const rota_status status =
        rota_cuda_function_get(device, &rota_cuda_decide_kernel, &device->helpers.decide, NULL);
    if (status == ROTA_UNSUPPORTED) {
        rota_log_write(&device->host.log, ROTA_LOG_WARNING,
                       "%s: what nodes that decide choose is launched by the host: %s", device->base.info.id,
                       rota_last_error());
        return ROTA_OK;
    }
    ROTA_TRY(status);
    device->stops.has_switches = version >= ROTA_CUDA_SWITCHES_NEEDED;
    device->base.caps.hosts_decisions = false;
    return open_grids(device);
}

/* Else what the completion thread launches has streams of its own (cuda_script.c). */
static rota_status open_decisions(rota_cuda_device *device) {
    device->base.caps.runs_conditionals = true;
    ROTA_TRY(open_conditionals(device));
    if (!device->base.caps.hosts_decisions) return ROTA_OK;
    device->base.caps.timeline_queues = 0; /* a value of a queue may be reached by the host alone */
    for (uint32_t i = 0; i < device->options.queue_count; i++) {
        rota_cuda_queue *queue = &device->queues[i];
        ROTA_TRY(rota_cuda_stream_create(device, &queue->scripts));
        ROTA_TRY(rota_cuda_check(device, device->cu->EventCreate(&queue->scripted, CU_EVENT_DISABLE_TIMING),
                                 "cuEventCreate"));
    }
    return ROTA_OK;
}

static rota_status open_in_context(rota_cuda_device *device) {
    open_granularity(device);
    ROTA_TRY(open_helpers(device));
    device->base.caps.runs_counted = true;
    ROTA_TRY(open_decisions(device));
    ROTA_TRY(rota_cuda_stream_create(device, &device->own.stream));
    ROTA_TRY(rota_cuda_stream_create(device, &device->submit_stream));
    ROTA_TRY(rota_cuda_stream_create(device, &device->upload.stream));
    ROTA_TRY(rota_cuda_stream_create(device, &device->stops.stream));
    for (uint32_t i = 0; i < device->options.queue_count; i++)
        ROTA_TRY(rota_cuda_stream_create(device, &device->queues[i].stream));
    return ROTA_OK;
}

static void find_locality(rota_cuda_device *device) {
    char pci[40];
    snprintf(pci, sizeof pci, "%04x:%02x:%02x.0",
             (unsigned)attribute(device->cu, device->handle, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
             (unsigned)attribute(device->cu, device->handle, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
             (unsigned)attribute(device->cu, device->handle, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
    device->base.locality.device = device->base.info.id;
    device->base.locality.log = &device->host.log;
    rota_locality_find(&device->base.locality, pci);
}

static rota_status open_device(rota_cuda_device *device, uint32_t index) {
    uint32_t count;
    rota_device_info *info = &device->base.info;
    ROTA_TRY(count_devices(&device->cu, &count));
    const rota_cuda_context *given = device->options.cuda;
    if (given) ROTA_TRY(rota_cuda_application_open(device, given, &index));
    if (index >= count)
        return rota_fail(ROTA_NOT_FOUND, "there is no device cuda:%u; the CUDA driver lists %u", index,
                         count);
    CUresult result = device->cu->DeviceGet(&device->handle, (int)index);
    if (result != CUDA_SUCCESS) return rota_cuda_fail(device->cu, result, "cuDeviceGet");
    describe(device->cu, device->handle, index, info);
    if (given) snprintf(info->id, sizeof info->id, "%s", device->options.id);
    if (!info->usable)
        return rota_fail(ROTA_UNSUPPORTED, "%s (%s) lacks %s", info->id, info->name, info->missing);
    open_target(device, index);
    find_locality(device);
    ROTA_TRY(open_context(device));
    device->base.application = given ? device->context : NULL;
    ROTA_TRY(rota_cuda_enter(device));
    rota_status status = open_in_context(device);
    rota_cuda_leave(device);
    ROTA_TRY(status);
    device->names = rota_cuda_names_open(device);
    return rota_completer_start(&device->completer, rota_cuda_complete_main, device, info->id,
                                &device->base.locality);
}

/* ---- Closing ---- */

/* In the context: everything made by open, in reverse; whatever is missing is skipped, so it also ends a
 * failed open. On a lost device the calls fail, and what they would free goes with the context. */
static void destroy_in_context(rota_cuda_device *device) {
    const rota_cuda_api *cu = device->cu;
    /* At most a timestamp of the clock is on its way there, whose memory goes now. */
    if (device->own.stream && cu->StreamSynchronize(device->own.stream) != CUDA_SUCCESS)
        (void)rota_cuda_settle(device, device->own.stream, SETTLE_NS);
    /* Or a copy on its way to a loop. */
    if (device->stops.stream && cu->StreamSynchronize(device->stops.stream) != CUDA_SUCCESS)
        (void)rota_cuda_settle(device, device->stops.stream, SETTLE_NS);
    while (!rota_link_is_alone(&device->objects.instances)) {
        rota_cuda_instance *instance = ROTA_LINKED(device->objects.instances.next, rota_cuda_instance, link);
        rota_link_remove(&instance->link);
        rota_cuda_instance_free(device, instance);
    }
    rota_cuda_timelines_free(device);
    rota_cuda_latches_free(device);
    for (uint32_t i = 0; i < ROTA_CUDA_FOLLOWED; i++)
        if (device->timelines.followed.events[i])
            (void)cu->EventDestroy(device->timelines.followed.events[i]);
    rota_cuda_memories_free(device);
    rota_cuda_piece_give(device, &device->objects.pinned, &device->own.clock_piece);
    rota_cuda_piece_give(device, &device->objects.blocks, &device->stops.halt);
    rota_cuda_piece_give(device, &device->objects.pinned, &device->stops.halting);
    rota_cuda_pool_free(device, &device->objects.pinned);
    rota_cuda_pool_free(device, &device->objects.blocks);
    rota_cuda_pool_free(device, &device->objects.shared);
    for (uint32_t i = 0; i < ROTA_EXEC_QUEUES_MAX; i++) {
        rota_cuda_queue *queue = &device->queues[i];
        for (uint32_t m = 0; m < ROTA_CUDA_FENCES; m++)
            if (queue->fences[m].event) (void)cu->EventDestroy(queue->fences[m].event);
        if (queue->stream) (void)cu->StreamDestroy(queue->stream);
        if (queue->scripted) (void)cu->EventDestroy(queue->scripted);
        if (queue->scripts) (void)cu->StreamDestroy(queue->scripts);
    }
    if (device->own.stream) (void)cu->StreamDestroy(device->own.stream);
    if (device->submit_stream) (void)cu->StreamDestroy(device->submit_stream);
    if (device->upload.stream) (void)cu->StreamDestroy(device->upload.stream);
    if (device->stops.stream) (void)cu->StreamDestroy(device->stops.stream);
    rota_cuda_modules_free(device);
}

/* Bytes that stay with a device that cannot be freed; never 0. */
static uint64_t abandon(rota_cuda_device *device, const char *why) {
    uint64_t bytes = ra_load_relaxed(&device->objects.memory_bytes);
    if (bytes == 0) bytes = sizeof *device;
    rota_log_write(&device->host.log, ROTA_LOG_ERROR, "%s %s; %llu bytes of its memory are abandoned",
                   device->base.info.id, why, (unsigned long long)bytes);
    return bytes;
}

/* Where the driver does not make the context current, it is asked again: it may be short of memory for a
 * moment. */
static CUresult push_until(rota_cuda_device *device, uint64_t deadline_ns) {
    CUresult result = rota_cuda_push(device);
    while (result != CUDA_SUCCESS && rota_clock_ns() < deadline_ns) {
        rota_nap_until(rota_deadline_after(PUSH_NAP_NS));
        result = rota_cuda_push(device);
    }
    return result;
}

/* Returns the bytes that are abandoned: 0, unless the context could not be entered for SETTLE_NS. */
static uint64_t destroy_device(rota_cuda_device *device) {
    if (device->context) {
        CUresult entered = push_until(device, rota_deadline_after(SETTLE_NS));
        if (entered != CUDA_SUCCESS) {
            char why[96];
            snprintf(why, sizeof why, "cannot be entered to free what it has (cuCtxPushCurrent: %s)",
                     rota_cuda_result_name(device->cu, entered));
            return abandon(device, why);
        }
        destroy_in_context(device);
        rota_cuda_leave(device);
        rota_cuda_timelines_forget(device);
        if (!device->application.has_context) (void)device->cu->DevicePrimaryCtxRelease(device->handle);
    }
    rota_cuda_names_close(device->names);
    pthread_mutex_destroy(&device->objects.lock);
    pthread_mutex_destroy(&device->modules.lock);
    pthread_mutex_destroy(&device->own.lock);
    pthread_mutex_destroy(&device->upload.lock);
    pthread_mutex_destroy(&device->stops.lock);
    pthread_mutex_destroy(&device->stops.looks);
    pthread_mutex_destroy(&device->timelines.followed.lock);
    pthread_mutex_destroy(&device->timelines.latches.lock);
    pthread_mutex_destroy(&device->submit_lock);
    free(device->cache_dir);
    free(device);
    return 0;
}

/* What an application's allocator has put on rota's stream is not rota's to end, and the driver's calls that free
 * anything would wait for it without a deadline. */
static bool is_settled(rota_cuda_device *device, uint64_t deadline_ns) {
    if (!device->own.stream || !device->application.given.allocate) return true;
    const uint64_t now = rota_clock_ns();
    const bool is_in = rota_cuda_push(device) == CUDA_SUCCESS;
    const CUresult result =
        rota_cuda_settle(device, device->own.stream, deadline_ns > now ? deadline_ns - now : 0);
    if (is_in) rota_cuda_leave(device);
    return result != CUDA_ERROR_NOT_READY;
}

static void cuda_close(rota_exec_device *base, uint64_t deadline_ns, uint64_t *out_abandoned_bytes) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    rota_cuda_latches_open(base);
    /* Work in flight keeps the driver from freeing anything: every call would wait for it. */
    const bool stopped = rota_completer_stop(&device->completer, deadline_ns) == ROTA_COMPLETER_QUIET;
    /* Pairs with rota_cuda_give_up. */
    uint64_t bytes;
    if (!stopped || ra_load_acquire(&device->noisy))
        bytes = abandon(device, "does not answer");
    else if (!is_settled(device, deadline_ns))
        bytes = abandon(device, "has work of the application's allocator on its stream that does not end");
    else
        bytes = destroy_device(device);
    if (out_abandoned_bytes) *out_abandoned_bytes = bytes;
}

static const rota_exec_device_vtable cuda_vtable = {
    .close = cuda_close,
    .memory_create = rota_cuda_memory_create,
    .memory_destroy = rota_cuda_memory_destroy,
    .memory_export = rota_cuda_memory_export,
    .memory_import = rota_cuda_memory_import,
    .memory_adopt = rota_cuda_memory_adopt,
    .streams = &rota_cuda_streams,
    .peers = &rota_cuda_peers,
    .memory_return = rota_cuda_memory_return,
    .timeline_create = rota_cuda_timeline_create,
    .timeline_signal = rota_cuda_timeline_signal,
    .program_create = rota_cuda_program_create,
    .program_destroy = rota_cuda_program_destroy,
    .instance_create = rota_cuda_instance_create,
    .instance_destroy = rota_cuda_instance_destroy,
    .submit = rota_cuda_submit,
    .times = rota_cuda_times,
    .stuck_node = rota_cuda_stuck_node,
    .own_cpu_ns = rota_cuda_own_cpu_ns,
};

static rota_status cuda_open(const rota_exec_driver *driver, uint32_t index,
                             const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver;
    if (options->queue_count == 0 || options->queue_count > ROTA_EXEC_QUEUES_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "cuda:%u: %u logical queues asked for; 1 to %u are possible",
                         index, options->queue_count, ROTA_EXEC_QUEUES_MAX);
    rota_cuda_device *device = calloc(1, sizeof *device);
    if (!device) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for cuda:%u", index);
    device->base.vtable = &cuda_vtable;
    device->host = options->host;
    device->options = *options;
    if (options->id)
        snprintf(device->base.info.id, sizeof device->base.info.id, "%s", options->id);
    else
        snprintf(device->base.info.id, sizeof device->base.info.id, "cuda:%u", index);
    rota_link_begin(&device->objects.memories);
    rota_link_begin(&device->objects.instances);
    rota_cuda_pool_begin(&device->objects.pinned, ROTA_CUDA_POOL_PINNED);
    rota_cuda_pool_begin(&device->objects.blocks, ROTA_CUDA_POOL_DEVICE);
    rota_cuda_pool_begin(&device->objects.shared, ROTA_CUDA_POOL_SHARED);
    device->bounds.stall_ns = ROTA_CUDA_STALL_NS;
    device->bounds.in_flight_max =
        options->max_in_flight ? options->max_in_flight : ROTA_CUDA_IN_FLIGHT_DEFAULT;
    if (device->bounds.in_flight_max > ROTA_CUDA_FENCES) device->bounds.in_flight_max = ROTA_CUDA_FENCES;
    pthread_mutex_init(&device->objects.lock, NULL);
    pthread_mutex_init(&device->modules.lock, NULL);
    pthread_mutex_init(&device->own.lock, NULL);
    pthread_mutex_init(&device->upload.lock, NULL);
    pthread_mutex_init(&device->stops.lock, NULL);
    pthread_mutex_init(&device->timelines.followed.lock, NULL);
    pthread_mutex_init(&device->timelines.latches.lock, NULL);
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&device->submit_lock, &recursive);
    pthread_mutex_init(&device->stops.looks, &recursive);
    pthread_mutexattr_destroy(&recursive);
    rota_status status = open_device(device, index);
    if (status != ROTA_OK) {
        (void)destroy_device(device);
        return status;
    }
    device->options.cuda = NULL; /* was borrowed */
    *out_device = &device->base;
    return ROTA_OK;
}

const rota_exec_driver rota_exec_cuda_driver = {
    .name = "cuda",
    .kind = ROTA_EXEC_CUDA,
    .enumerate = cuda_enumerate,
    .open = cuda_open,
};
