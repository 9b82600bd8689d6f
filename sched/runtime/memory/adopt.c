/* Memory of the application's: it is a buffer's on one device for as long as that lives, and nothing here makes or
 * frees any.
 *
 * It is given back once, by the reclaimer when its last use has passed, or by who closes the runtime. Its executor is
 * asked first whether it has let go: one that was lost in a way that leaves it at work keeps the memory until it is
 * closed. Where it can't be closed, neither is it known that nothing touches the memory, and it is not given back. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/adopt.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"

static void give_back(rota_adopted *adopted) {
    if (adopted->release) adopted->release(adopted->user);
    free(adopted);
}

void rota_adopted_end(rota_residency *residency, bool is_closing) {
    rota_adopted *adopted = residency->adopted;
    rota_device *device = adopted->device;
    residency->adopted = NULL;
    rota_exec_memory *memory = ra_exchange_acq_rel(&residency->memory[device->index], NULL);
    const bool has_let_go = memory && device->exec->vtable->memory_return(device->exec, memory);
    if (has_let_go && !is_closing) {
        give_back(adopted);
        return;
    }
    rota_objects_shared *objects = &residency->runtime->objects;
    (void)pthread_mutex_lock(&objects->mutex);
    adopted->next = objects->unreturned;
    objects->unreturned = adopted;
    (void)pthread_mutex_unlock(&objects->mutex);
}

void rota_adopted_return(rota_runtime *runtime, uint64_t left) {
    (void)pthread_mutex_lock(&runtime->objects.mutex);
    rota_adopted *adopted = runtime->objects.unreturned;
    runtime->objects.unreturned = NULL;
    (void)pthread_mutex_unlock(&runtime->objects.mutex);
    while (adopted) {
        rota_adopted *next = adopted->next;
        if (left >> adopted->device->index & 1u)
            free(adopted);
        else
            give_back(adopted);
        adopted = next;
    }
}

static rota_status check(const rota_device *device, const rota_adopt_options *options) {
    const char *name = options->name ? options->name : "";
    if (options->kind >= ROTA_MEMORY_KIND_COUNT)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "buffer '%s': memory of kind %d, expected ROTA_MEMORY_HOST, ROTA_MEMORY_DEVICE, "
                         "ROTA_MEMORY_FD or ROTA_MEMORY_DMA_BUF",
                         name, (int)options->kind);
    if (options->size_bytes == 0 || options->size_bytes > ROTA_BUFFER_SIZE_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s': size %llu bytes, expected 1 to %llu", name,
                         (unsigned long long)options->size_bytes, (unsigned long long)ROTA_BUFFER_SIZE_MAX);
    const bool is_fd = options->kind == ROTA_MEMORY_FD || options->kind == ROTA_MEMORY_DMA_BUF;
    if (is_fd == (options->memory != NULL))
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s': memory at %p, expected %s", name,
                         options->memory, is_fd ? "NULL, since it is that of a descriptor" : "an address");
    const uint64_t begin = is_fd ? options->offset_bytes : (uint64_t)(uintptr_t)options->memory;
    if (begin % ROTA_ADOPT_ALIGNMENT != 0)
        return rota_fail(ROTA_MISALIGNED, "buffer '%s': memory at %llx, expected a multiple of %d", name,
                         (unsigned long long)begin, ROTA_ADOPT_ALIGNMENT);
    const uint64_t end = is_fd ? options->allocation_bytes : UINT64_MAX;
    if (begin > end || options->size_bytes > end - begin)
        return rota_fail(
            ROTA_INVALID_ARGUMENT, "buffer '%s': %llu bytes from %llu on, expected them to end by %llu", name,
            (unsigned long long)options->size_bytes, (unsigned long long)begin, (unsigned long long)end);
    if (!device->exec->vtable->memory_adopt)
        return rota_fail(ROTA_UNSUPPORTED, "buffer '%s': device '%s' adopts no memory", name, device->id);
    return ROTA_OK;
}

/* The residency has the memory, and the bytes that are there. */
static rota_status take(rota_residency *residency, rota_device *device, const rota_adopt_options *options) {
    const rota_exec_foreign from = {.kind = (rota_exec_foreign_kind)options->kind,
                                    .memory = options->memory,
                                    .fd = options->fd,
                                    .allocation_bytes = options->allocation_bytes,
                                    .offset_bytes = options->offset_bytes,
                                    .size_bytes = options->size_bytes,
                                    .is_read_only = options->read_only};
    rota_adopted *adopted = calloc(1, sizeof *adopted);
    if (!adopted)
        return rota_fail(ROTA_OUT_OF_MEMORY, "buffer '%s': no host memory", residency->buffer->name);
    rota_exec_memory *memory;
    rota_status status =
        device->exec->vtable->memory_adopt(device->exec, &from, residency->buffer->name, &memory);
    if (status != ROTA_OK) {
        free(adopted);
        return status;
    }
    *adopted = (rota_adopted){NULL, device, options->release, options->user};
    residency->adopted = adopted;
    ra_store_release(&residency->buffer->is_lent, 1); /* with move_range, as the others */
    residency->buffer->is_read_only = options->read_only;
    ra_store_relaxed(&residency->memory_is.unshared, (uint64_t)1 << device->index);
    if (!options->is_undefined) residency->first.valid = rota_residency_bit(residency, device);
    ra_store_relaxed(&residency->home_plus_1, device->index + 1);
    /* Published with the buffer, as is all of the above. */
    ra_store_release(&residency->memory[device->index], memory);
    return ROTA_OK;
}

rota_status rota_buffer_adopt(rota_device *device, const rota_adopt_options *options,
                              rota_buffer **out_buffer) {
    rota_adopt_options room = ROTA_ADOPT_OPTIONS();
    ROTA_GIVEN(out_buffer);
    *out_buffer = NULL;
    ROTA_GIVEN(device);
    ROTA_GIVEN(options);
    options = ROTA_SIZED_IN(rota_adopt_options, options, &room);
    if (!options) return ROTA_INVALID_ARGUMENT;
    ROTA_TRY(rota_runtime_check(device->runtime));
    ROTA_TRY(check(device, options));
    if (rota_device_is_lost(device))
        return rota_fail(ROTA_DEVICE_LOST, "buffer '%s': device '%s' is lost",
                         options->name ? options->name : "", device->id);
    rota_residency *residency;
    ROTA_TRY(rota_residency_create(device->runtime, options->name, options->size_bytes, &residency));
    const rota_status status = take(residency, device, options);
    if (status != ROTA_OK) {
        rota_buffer *buffer = residency->buffer;
        rota_residency_destroy(residency, false);
        rota_buffer_free(buffer);
        return status;
    }
    rota_residency_show(residency);
    *out_buffer = residency->buffer;
    return ROTA_OK;
}
