/* Persistent buffers: their memory on each device, made once and never moved (P5). Devices that share memory
 * have one for all of them. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/buffer_internal.h"
#include "sched/embed.h"
#include "sched/runtime/memory/adopt.h"
#include "sched/runtime/memory/import.h"
#include "sched/runtime/memory/memory.h"
#include "sched/runtime/memory/peers.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"

/* The last reference went. */
static void released(rota_buffer *buffer) {
    rota_residency *residency = buffer->residency;
    if (residency->closed) {
        free(residency);
        rota_buffer_free(buffer);
        return;
    }
    rota_reclaim_push(residency->runtime, &residency->released);
}

rota_status rota_residency_create(rota_runtime *runtime, const char *name, uint64_t size_bytes,
                                  rota_residency **out_residency) {
    rota_residency *residency = calloc(1, sizeof *residency);
    if (!residency) return rota_fail(ROTA_OUT_OF_MEMORY, "buffer '%s': no host memory", name ? name : "");
    rota_buffer *buffer;
    rota_status status = rota_buffer_create(name, size_bytes, &buffer);
    if (status != ROTA_OK) {
        free(residency);
        return status;
    }
    residency->last_release = released;
    residency->released.kind = ROTA_RELEASED_BUFFER;
    residency->runtime = runtime;
    residency->buffer = buffer;
    rota_ranges_start(residency);
    (void)pthread_mutex_init(&residency->memory_mutex, NULL);
    buffer->residency = residency;
    *out_residency = residency;
    return ROTA_OK;
}

void rota_residency_show(rota_residency *residency) {
    rota_runtime *runtime = residency->runtime;
    (void)pthread_mutex_lock(&runtime->objects.mutex);
    residency->next = runtime->objects.residencies;
    if (residency->next) residency->next->previous = residency;
    runtime->objects.residencies = residency;
    (void)pthread_mutex_unlock(&runtime->objects.mutex);
    (void)ra_fetch_add_relaxed(&runtime->objects.buffer_count, 1);
}

rota_status rota_buffer_create_in(rota_runtime *runtime, const char *name, uint64_t size_bytes,
                                  rota_buffer **out_buffer) {
    ROTA_GIVEN(out_buffer);
    *out_buffer = NULL;
    ROTA_TRY(rota_runtime_check(runtime));
    rota_residency *residency;
    ROTA_TRY(rota_residency_create(runtime, name, size_bytes, &residency));
    rota_residency_show(residency);
    *out_buffer = residency->buffer;
    return ROTA_OK;
}

/* Memory on the device: that of another device that shares it, where one has made some; else new. */
static rota_status make_memory(rota_residency *residency, rota_device *device,
                               rota_exec_memory **out_memory) {
    rota_runtime *runtime = residency->runtime;
    const char *name = residency->buffer->name;
    uint64_t imported = ra_load_relaxed(&residency->memory_is.imported),
             unshared = ra_load_relaxed(&residency->memory_is.unshared);
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    bool is_lost = false;
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *owner = runtime->devices[d];
        rota_exec_memory *memory = ra_load_relaxed(&residency->memory[d]); /* of this mutex's */
        if (!memory || owner->domain != device->domain || (imported | unshared) >> d & 1u) continue;
        rota_status status = rota_device_is_lost(owner)
                                 ? ROTA_DEVICE_LOST
                                 : rota_share_import(owner, memory, device, name, out_memory);
        if (status == ROTA_OK) {
            ra_store_relaxed(&residency->memory_is.imported, imported | (uint64_t)1 << device->index);
            return ROTA_OK;
        }
        if (!rota_device_is_lost(owner))
            return rota_fail_context(status, "memory of '%s' on device '%s' for device '%s': ", name,
                                     owner->id, device->id);
        is_lost = true;
    }
    if (is_lost) ra_store_relaxed(&residency->memory_is.unshared, unshared | (uint64_t)1 << device->index);
    uint32_t flags = device->exec->caps.shares_memory ? ROTA_EXEC_MEMORY_SHARED : ROTA_EXEC_MEMORY_DEVICE;
    return rota_device_memory_create(device, residency->buffer->size_bytes, flags, name, out_memory);
}

rota_status rota_residency_prepare(rota_residency *residency, rota_device *device) {
    _Atomic(rota_exec_memory *) *slot = &residency->memory[device->index];
    if (ra_load_acquire(slot)) return ROTA_OK; /* with the release below */
    rota_status status = ROTA_OK;
    (void)pthread_mutex_lock(&residency->memory_mutex);
    if (!ra_load_relaxed(slot)) {
        rota_exec_memory *memory;
        status = make_memory(residency, device, &memory);
        if (status == ROTA_OK) {
            rota_residency_open(residency, device, memory);
            ra_store_release(slot, memory);
        }
    }
    (void)pthread_mutex_unlock(&residency->memory_mutex);
    return status;
}

void rota_residency_destroy(rota_residency *residency, bool keep_struct) {
    uint64_t imported = ra_load_relaxed(&residency->memory_is.imported);
    const uint32_t devices = ra_load_acquire(&residency->runtime->device_count);
    bool kept = false;
    if (residency->adopted) rota_adopted_end(residency, keep_struct);
    for (uint32_t owners = 0; owners < 2; owners++)
        for (uint32_t d = 0; d < devices; d++) {
            if ((imported >> d & 1u) == owners) continue; /* imports first */
            rota_exec_memory *memory = ra_exchange_acq_rel(&residency->memory[d], NULL);
            if (memory && owners == 0)
                kept = !rota_share_end(residency->runtime->devices[d], memory) || kept;
            else if (memory && !kept)
                rota_device_memory_destroy(residency->runtime->devices[d], memory);
        }
    rota_ranges_end(residency);
    free(ra_load_acquire(&residency->turns)); /* with turns_of in caller/write.c */
    ra_store_relaxed(&residency->turns, NULL);
    (void)pthread_mutex_destroy(&residency->memory_mutex);
    if (!keep_struct) free(residency);
}

/* The residency of a buffer of an open runtime. */
static rota_status residency_of(rota_buffer *buffer, rota_residency **out) {
    rota_residency *residency = buffer ? buffer->root->residency : NULL;
    if (!residency || buffer->kind != ROTA_BUFFER_PERSISTENT)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s' is not a runtime's persistent buffer",
                         buffer ? rota_buffer_name(buffer) : "(NULL)");
    if (residency->closed)
        return rota_fail(ROTA_WRONG_STATE, "buffer '%s': its runtime was closed", rota_buffer_name(buffer));
    *out = residency;
    return rota_runtime_check(residency->runtime);
}

rota_status rota_buffer_prepare(rota_buffer *buffer, rota_device *device) {
    ROTA_GIVEN(device);
    rota_residency *residency;
    ROTA_TRY(residency_of(buffer, &residency));
    if (!device || device->runtime != residency->runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s' and the device are of different runtimes",
                         rota_buffer_name(buffer));
    return rota_residency_prepare(residency, device);
}

static rota_status export_as(rota_buffer *buffer, rota_device *device, bool is_dma_buf,
                             rota_memory_export *out_export) {
    ROTA_GIVEN(device);
    ROTA_GIVEN(out_export);
    ROTA_TRY(rota_sized_check(out_export->struct_size, "rota_memory_export"));
    ROTA_TRY(rota_buffer_prepare(buffer, device));
    const rota_residency *residency = buffer->root->residency;
    const uint64_t others =
        ra_load_relaxed(&residency->memory_is.imported) | ra_load_relaxed(&residency->memory_is.unshared);
    if (!device->exec->caps.shares_memory)
        return rota_fail(ROTA_UNSUPPORTED, "buffer '%s': device '%s' exports no %s", rota_buffer_name(buffer),
                         device->id, is_dma_buf ? "dma-buf" : "memory");
    if (others >> device->index & 1u)
        return rota_fail(ROTA_UNSUPPORTED, "buffer '%s': its memory on device '%s' is not that device's own",
                         rota_buffer_name(buffer), device->id);
    rota_exec_export made;
    rota_exec_memory *memory = ra_load_acquire(&residency->memory[device->index]); /* with prepare */
    ROTA_TRY(device->exec->vtable->memory_export(device->exec, memory, is_dma_buf, &made));
    /* With move_range: nobody else has it before this returns. */
    ra_store_release(&buffer->root->is_lent, 1);
    const rota_memory_export given =
        ROTA_MEMORY_EXPORT(.fd = made.fd, .allocation_bytes = made.allocation_bytes,
                           .offset_bytes = made.offset_bytes + buffer->root_offset,
                           .size_bytes = rota_buffer_size(buffer), .memory_type = made.memory_type);
    rota_sized_out(out_export, &given, sizeof given);
    return ROTA_OK;
}

rota_status rota_buffer_export(rota_buffer *buffer, rota_device *device, rota_memory_export *out_export) {
    return export_as(buffer, device, false, out_export);
}

rota_status rota_buffer_export_dma_buf(rota_buffer *buffer, rota_device *device,
                                       rota_memory_export *out_export) {
    return export_as(buffer, device, true, out_export);
}

rota_status rota_buffer_address(rota_buffer *buffer, rota_device *device, uint64_t *out_address) {
    ROTA_GIVEN(device);
    ROTA_GIVEN(out_address);
    *out_address = 0;
    rota_residency *residency;
    ROTA_TRY(residency_of(buffer, &residency));
    if (!device || device->runtime != residency->runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s' and the device are of different runtimes",
                         rota_buffer_name(buffer));
    const rota_exec_memory *memory = ra_load_acquire(&residency->memory[device->index]);
    if (!memory)
        return rota_fail(ROTA_NOT_FOUND, "buffer '%s' has no memory on device '%s' yet",
                         rota_buffer_name(buffer), device->id);
    ra_store_release(&buffer->root->is_lent, 1); /* with move_range */
    *out_address = memory->address + buffer->root_offset;
    return ROTA_OK;
}
