/* Staging memory: what lies between the host's memory and a device's while bytes go from one to the other.
 *
 * Writes of up to a slot go through the upload ring, which is made with the device. All else gets blocks out
 * of the device's pool: of 16 MiB each, and one of the next power of two for the rest. Idle blocks lie on a
 * shelf for each size, a stack whose head is changed by compare and swap, so that one is found and put back
 * in O(1), and a thread that is stopped keeps nothing but its own. Blocks are numbered and stay until the
 * device is closed, with memory or without, since a thread may still look at one that another has taken; the
 * head's upper half counts its changes.
 *
 * What lay on a shelf unneeded for the idle time is given back, by the reclaimer, since a driver may keep who
 * frees; so is all that is idle when an allocation does not fit into the runtime's memory limit. Under such a
 * limit reads and large writes are promised their memory before they are submitted, or wait until others have
 * returned theirs: once submitted they have their place in the order, and cannot. What is then still on its
 * way back, since a driver takes its time to free, is waited for by who needs it: a caller in its call, and a
 * work that is to be handed over by being blocked (batch_memory.c). */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/runtime/memory/memory.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

#define BLOCK_BYTES_MIN ((uint64_t)4096)
#define BLOCK_BYTES_MAX (BLOCK_BYTES_MIN << (ROTA_STAGING_CLASSES - 1))
/* One block of each of these sizes stays where it is, so that a small read now and then costs no allocation.
 */
#define KEPT_CLASSES 5
/* Slots of the ring that a claim looks at: they come free in the order in which they were claimed, but for
 * those of stopped threads. */
#define SLOTS_LOOKED_AT 64u
#define TRIM_NS 1000000000u   /* without progress */
#define TRIMS_NS 16000000000u /* in all */
#define COPIES_MIN 8u

enum { USE_WRITE, USE_READ };

/* ---- Stacks of blocks ---- */

static rota_staging *block_at(const rota_staging_shared *pool, uint32_t number) {
    /* Acquire: with the release in add_block, of a thread that may not be the one that gave the number away.
     */
    rota_staging *chunk = ra_load_acquire(&pool->chunks[(number - 1) / ROTA_STAGING_CHUNK]);
    return &chunk[(number - 1) % ROTA_STAGING_CHUNK];
}

static uint64_t changed(uint64_t head, uint32_t number) {
    return ((head >> 32) + 1) << 32 | number;
}

static void push(_Atomic uint64_t *stack, rota_staging *block) {
    uint64_t head = ra_load_relaxed(stack);
    do ra_store_relaxed(&block->next, (uint32_t)head);
    while (!ra_cas_acq_rel(stack, &head, changed(head, block->number))); /* releases the block to pop */
}

static rota_staging *pop(const rota_staging_shared *pool, _Atomic uint64_t *stack) {
    uint64_t head = ra_load_acquire(stack); /* with the push */
    while ((uint32_t)head) {
        rota_staging *block = block_at(pool, (uint32_t)head);
        /* What `next` says counts only where nobody changed the head meanwhile. */
        if (ra_cas_acq_rel(stack, &head, changed(head, ra_load_relaxed(&block->next)))) return block;
    }
    return NULL;
}

static rota_staging *take_idle(rota_staging_shared *pool, rota_staging_shelf *shelf) {
    rota_staging *block = pop(pool, &shelf->head);
    if (block) (void)ra_fetch_add_relaxed(&shelf->count, (uint32_t)-1);
    return block;
}

/* No more than these were there without being needed. */
static void note_left(rota_staging_shelf *shelf) {
    const uint32_t left = ra_load_relaxed(&shelf->count);
    uint32_t fewest = ra_load_relaxed(&shelf->fewest);
    while (left < fewest && !ra_cas_acq_rel(&shelf->fewest, &fewest, left)) {
    }
}

static void put_idle(rota_staging *block) {
    rota_staging_shelf *shelf = &block->device->staging->shelves[block->use][block->size_class];
    /* First, so that who pops it does not count below 0. */
    (void)ra_fetch_add_relaxed(&shelf->count, 1);
    push(&shelf->head, block);
}

/* ---- Blocks ---- */

/* One more block without memory; NULL: no host memory, or the pool is full. */
static rota_staging *add_block(rota_device *device) {
    rota_staging_shared *pool = device->staging;
    uint32_t index = ra_load_relaxed(&pool->count);
    do {
        if (index == ROTA_STAGING_CHUNK * ROTA_STAGING_CHUNKS) return NULL;
        _Atomic(rota_staging *) *chunk = &pool->chunks[index / ROTA_STAGING_CHUNK];
        rota_staging *none = NULL;
        if (ra_load_acquire(chunk)) continue;
        rota_staging *made = calloc(ROTA_STAGING_CHUNK, sizeof *made);
        if (!made) return NULL;
        if (!ra_cas_acq_rel(chunk, &none, made)) free(made); /* releases it to block_at */
    } while (!ra_cas_acq_rel(&pool->count, &index, index + 1));
    rota_staging *block = block_at(pool, index + 1);
    block->number = index + 1;
    block->device = device;
    return block;
}

/* `out_is_limited` NULL: waits for what others may give back. */
static rota_status new_block(rota_device *device, uint8_t use, uint8_t size_class, uint32_t flags,
                             bool *out_is_limited, rota_staging **out_block) {
    rota_staging_shared *pool = device->staging;
    rota_staging *block = pop(pool, &pool->blanks);
    if (!block) block = add_block(device);
    if (!block)
        return rota_fail(ROTA_OUT_OF_MEMORY,
                         "device '%s': no host memory for a staging block, or %d are in use", device->id,
                         ROTA_STAGING_CHUNK * ROTA_STAGING_CHUNKS);
    const uint64_t bytes = BLOCK_BYTES_MIN << size_class;
    rota_status status =
        out_is_limited
            ? rota_device_memory_try(device, bytes, flags, "staging", out_is_limited, &block->memory)
            : rota_device_memory_create(device, bytes, flags, "staging", &block->memory);
    if (status != ROTA_OK) {
        push(&pool->blanks, block);
        return status;
    }
    (void)ra_fetch_add_relaxed(&device->runtime->budget.staging_bytes, block->memory->size_bytes);
    block->use = use;
    block->size_class = size_class;
    *out_block = block;
    return ROTA_OK;
}

static uint8_t class_for(uint64_t size_bytes) {
    uint8_t size_class = 0;
    while (size_class + 1 < ROTA_STAGING_CLASSES && BLOCK_BYTES_MIN << size_class < size_bytes) size_class++;
    return size_class;
}

static rota_status acquire(rota_device *device, uint64_t size_bytes, uint32_t flags, bool makes,
                           bool *out_is_limited, rota_staging **out_span) {
    rota_staging_shared *pool = device->staging;
    *out_span = NULL;
    uint8_t use = flags & ROTA_EXEC_MEMORY_HOST_READ ? USE_READ : USE_WRITE;
    if (device->exec->caps.unified_host) { /* one kind of memory serves both */
        use = USE_WRITE;
        flags = ROTA_EXEC_MEMORY_HOST_READ | ROTA_EXEC_MEMORY_HOST_WRITE;
    }
    rota_staging **end = out_span;
    for (uint64_t left = size_bytes; left != 0;) {
        uint8_t size_class = class_for(left);
        rota_staging *block = take_idle(pool, &pool->shelves[use][size_class]);
        rota_status status = block    ? ROTA_OK
                             : !makes ? ROTA_BUSY
                                      : new_block(device, use, size_class, flags, out_is_limited, &block);
        if (status != ROTA_OK) {
            rota_staging_release(*out_span);
            *out_span = NULL;
            if (!makes) return status;
            return rota_fail_context(status, "%llu bytes of staging memory on device '%s': ",
                                     (unsigned long long)size_bytes, device->id);
        }
        ra_store_relaxed(&block->busy, 1);
        block->used = left < BLOCK_BYTES_MAX ? left : BLOCK_BYTES_MAX;
        block->more = NULL;
        left -= block->used;
        *end = block;
        end = &block->more;
    }
    /* What is put back, as there is not enough, was not needed. */
    for (const rota_staging *block = *out_span; block; block = block->more)
        note_left(&pool->shelves[block->use][block->size_class]);
    return ROTA_OK;
}

rota_status rota_staging_acquire(rota_device *device, uint64_t size_bytes, uint32_t flags,
                                 rota_staging **out_span) {
    return acquire(device, size_bytes, flags, true, NULL, out_span);
}

rota_status rota_staging_try(rota_device *device, uint64_t size_bytes, uint32_t flags, bool *out_is_limited,
                             rota_staging **out_span) {
    *out_is_limited = false;
    return acquire(device, size_bytes, flags, true, out_is_limited, out_span);
}

rota_staging *rota_staging_take(rota_device *device, uint64_t size_bytes, uint32_t flags) {
    rota_staging *span;
    (void)acquire(device, size_bytes, flags, false, NULL, &span);
    return span;
}

void rota_staging_release(rota_staging *span) {
    while (span) {
        rota_staging *next = span->more;
        ra_store_release(&span->busy, 0); /* with rota_staging_is_busy */
        put_idle(span);
        span = next;
    }
}

bool rota_staging_is_busy(const rota_device *device) {
    const rota_staging_shared *pool = device->staging;
    uint32_t count = ra_load_acquire(&pool->count);
    for (uint32_t number = 1; number <= count; number++)
        if (ra_load_acquire(&block_at(pool, number)->busy)) return true;
    return false;
}

/* ---- Promises ---- */

/* Memory that spans of so many bytes take, in whatever order they are cut. */
static uint64_t bytes_of_blocks(uint64_t size_bytes) {
    uint64_t rest = size_bytes % BLOCK_BYTES_MAX;
    return size_bytes - rest + (rest ? BLOCK_BYTES_MIN << class_for(rest) : 0);
}

/* Beside so many bytes that others were promised. */
static bool may_promise(const rota_runtime *runtime, uint64_t promised, uint64_t blocks) {
    const uint64_t held = ra_load_relaxed(&runtime->budget.memory_bytes),
                   own = ra_load_relaxed(&runtime->budget.staging_bytes);
    const uint64_t others = held > own ? held - own : 0; /* not of one moment */
    return promised == 0 || others + promised + blocks <= runtime->options.memory_limit_bytes;
}

bool rota_staging_may_promise(const rota_runtime *runtime, uint64_t size_bytes) {
    return may_promise(runtime, ra_load_relaxed(&runtime->budget.staging_promised),
                       bytes_of_blocks(size_bytes));
}

bool rota_staging_promise(rota_runtime *runtime, uint64_t size_bytes) {
    const uint64_t wanted = bytes_of_blocks(size_bytes);
    if (runtime->options.memory_limit_bytes == 0) return true;
    uint64_t promised = ra_load_relaxed(&runtime->budget.staging_promised);
    do {
        if (!may_promise(runtime, promised, wanted)) return false;
        /* Acquire: with the release in rota_staging_return, so that what came back is seen on its shelf. */
    } while (!ra_cas_acq_rel(&runtime->budget.staging_promised, &promised, promised + wanted));
    return true;
}

void rota_staging_return(rota_runtime *runtime, uint64_t size_bytes) {
    if (runtime->options.memory_limit_bytes == 0) return;
    (void)ra_fetch_sub_release(&runtime->budget.staging_promised, bytes_of_blocks(size_bytes));
}

/* ---- Copies ---- */

static rota_exec_copy *room_for_copies(rota_staging *span, uint32_t count) {
    if (count <= span->copy_capacity) return span->copies;
    if (count < COPIES_MIN) count = COPIES_MIN;
    rota_exec_copy *copies = malloc(count * sizeof *copies);
    if (!copies) return NULL;
    free(span->copies);
    span->copies = copies;
    span->copy_capacity = count;
    return copies;
}

static uint32_t block_count(const rota_staging *span) {
    uint32_t count = 0;
    for (; span; span = span->more) count++;
    return count;
}

rota_status rota_staging_copies_in(rota_staging *span, rota_exec_memory *source, const rota_extent *extents,
                                   uint32_t extent_count, rota_exec_work *out) {
    rota_exec_copy *copies = room_for_copies(span, block_count(span) + extent_count);
    if (!copies) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %u copies", extent_count);
    uint32_t count = 0;
    uint64_t filled = 0;
    rota_staging *block = span;
    for (uint32_t e = 0; e < extent_count; e++)
        for (uint64_t done = 0; done < extents[e].size;) {
            if (filled == block->used) {
                block = block->more;
                filled = 0;
            }
            uint64_t left = extents[e].size - done, room = block->used - filled,
                     bytes = left < room ? left : room;
            copies[count++] =
                (rota_exec_copy){block->memory, source, filled, extents[e].offset + done, bytes};
            done += bytes;
            filled += bytes;
        }
    out->copies = copies;
    out->copy_count = count;
    return ROTA_OK;
}

rota_status rota_staging_copies_out(rota_staging *span, rota_exec_memory *destination, uint64_t offset,
                                    rota_exec_work *out) {
    uint32_t count = block_count(span);
    rota_exec_copy *copies = room_for_copies(span, count);
    if (!copies) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %u copies", count);
    out->copies = copies;
    out->copy_count = count;
    for (const rota_staging *block = span; block; block = block->more) {
        *copies++ = (rota_exec_copy){destination, block->memory, offset, 0, block->used};
        offset += block->used;
    }
    return ROTA_OK;
}

/* ---- Uploads ---- */

rota_slot_state rota_staging_claim_slot(rota_device *device, bool may_claim, uint32_t *out_slot) {
    uint32_t count = device->uploads.slot_count, looks = count < SLOTS_LOOKED_AT ? count : SLOTS_LOOKED_AT;
    bool moves = false, is_kept = false;
    for (uint32_t i = 0; i < looks; i++) {
        uint32_t index = ra_fetch_add_relaxed(&device->staging->next_slot, 1) % count;
        rota_upload_slot *slot = &device->uploads.slots[index];
        uint64_t state = ra_load_acquire(&slot->state); /* with the sequencer's release of the point */
        if (state == 1) continue;
        if (state != 0 && !rota_point_passed(device->runtime, state & ~ROTA_UPLOAD_KEPT)) {
            if (state & ROTA_UPLOAD_KEPT)
                is_kept = true;
            else
                moves = true;
            continue;
        }
        if (!may_claim) return ROTA_SLOT_IS_FREE;
        if (!ra_cas_acq_rel(&slot->state, &state, 1)) {
            moves = true;
            continue;
        }
        *out_slot = index;
        return ROTA_SLOT_CLAIMED;
    }
    return is_kept && !moves ? ROTA_SLOTS_ARE_KEPT : ROTA_SLOTS_ARE_TAKEN;
}

uint64_t rota_staging_charge(const rota_runtime *runtime, uint64_t size_bytes) {
    return size_bytes > runtime->options.staging_slot_bytes ? size_bytes : bytes_of_blocks(size_bytes);
}

void rota_staging_retire(rota_staging *span, uint64_t bytes, uint64_t uploading, uint64_t point) {
    rota_assert_owner(&span->device->runtime->sequencing.owner);
    rota_staging_shared *pool = span->device->staging;
    span->point = point;
    span->bytes = bytes;
    span->uploading = uploading;
    span->later = NULL;
    const uint32_t queue = rota_point_queue(point);
    if (pool->newest[queue])
        pool->newest[queue]->later = span;
    else
        pool->oldest[queue] = span;
    pool->newest[queue] = span;
}

/* Uploads of one queue come to their ends in order; those that a lost device left, when it is quiet. */
static void give_back_uploads(rota_runtime *runtime, rota_staging_shared *pool, bool is_quiet) {
    for (uint32_t q = 0; q < runtime->queue_count; q++)
        while (pool->oldest[q] && (is_quiet || rota_point_passed(runtime, pool->oldest[q]->point))) {
            rota_staging *span = pool->oldest[q];
            pool->oldest[q] = span->later;
            if (!pool->oldest[q]) pool->newest[q] = NULL;
            const uint64_t bytes = span->bytes, uploading = span->uploading;
            rota_staging_release(span);
            rota_staging_return(runtime, bytes);
            if (uploading) (void)ra_fetch_sub_release(&pool->uploading, (int64_t)uploading); /* with fits */
        }
}

/* ---- Giving memory back ---- */

void rota_staging_free_memory(rota_staging *block) {
    rota_device *device = block->device;
    (void)ra_fetch_add_relaxed(&device->runtime->budget.staging_bytes,
                               (uint64_t)0 - block->memory->size_bytes);
    rota_device_memory_destroy(device, block->memory);
    block->memory = NULL;
    push(&device->staging->blanks, block);
}

static void give_back(rota_runtime *runtime, rota_staging *block) {
    block->released.kind = ROTA_RELEASED_STAGING;
    (void)ra_fetch_add_relaxed(&runtime->budget.staging_dying, 1);
    rota_reclaim_push_unused(runtime, &block->released);
}

static uint32_t kept_blocks(const rota_device *device, uint32_t size_class) {
    return size_class < KEPT_CLASSES && !rota_device_is_lost(device) ? 1 : 0;
}

/* Gives back what no transfer needed since the last time. */
static void give_back_idle(rota_runtime *runtime, rota_device *device) {
    rota_staging_shared *pool = device->staging;
    for (uint32_t use = 0; use < 2; use++)
        for (uint32_t size_class = 0; size_class < ROTA_STAGING_CLASSES; size_class++) {
            rota_staging_shelf *shelf = &pool->shelves[use][size_class];
            uint32_t spare = ra_load_relaxed(&shelf->fewest), kept = kept_blocks(device, size_class);
            for (; spare > kept; spare--) {
                rota_staging *block = take_idle(pool, shelf);
                if (!block) break;
                give_back(runtime, block);
            }
            ra_store_relaxed(&shelf->fewest, ra_load_relaxed(&shelf->count));
        }
}

bool rota_staging_has_idle(const rota_runtime *runtime) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        const rota_staging_shared *pool = runtime->devices[d]->staging;
        for (uint32_t q = 0; q < runtime->queue_count; q++)
            if (pool->oldest[q]) return true;
        for (uint32_t size_class = 0; size_class < ROTA_STAGING_CLASSES; size_class++)
            for (uint32_t use = 0; use < 2; use++)
                if (ra_load_relaxed(&pool->shelves[use][size_class].count) >
                    kept_blocks(runtime->devices[d], size_class))
                    return true;
    }
    return false;
}

void rota_staging_sweep(rota_runtime *runtime, uint64_t quiet) {
    rota_assert_owner(&runtime->sequencing.owner);
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        give_back_uploads(runtime, runtime->devices[d]->staging, quiet >> d & 1u);
}

void rota_staging_sweep_idle(rota_runtime *runtime) {
    rota_assert_owner(&runtime->sequencing.owner);
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) give_back_idle(runtime, runtime->devices[d]);
}

/* Those of a device whose memory is not the host's go by way of the reclaimer. */
static void give_back_all(rota_runtime *runtime, rota_device *device) {
    rota_staging_shared *pool = device->staging;
    for (uint32_t i = 0; i < 2 * ROTA_STAGING_CLASSES; i++) {
        rota_staging_shelf *shelf = &pool->shelves[i / ROTA_STAGING_CLASSES][i % ROTA_STAGING_CLASSES];
        for (rota_staging *block; (block = take_idle(pool, shelf));)
            if (device->exec->caps.unified_host)
                rota_staging_free_memory(block);
            else
                give_back(runtime, block);
        note_left(shelf);
    }
}

void rota_trim_begin(rota_runtime *runtime, uint64_t size_bytes, rota_trim *out_trim) {
    const uint64_t before = ra_load_relaxed(&runtime->budget.memory_bytes);
    *out_trim = (rota_trim){.size_bytes = size_bytes,
                            .before = before,
                            .least = before,
                            .fewest = UINT64_MAX,
                            .last_ns = rota_deadline_after(TRIMS_NS)};
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) give_back_all(runtime, runtime->devices[d]);
}

void rota_trim_begin_for_span(rota_runtime *runtime, uint64_t size_bytes, rota_trim *out_trim) {
    rota_trim_begin(runtime, bytes_of_blocks(size_bytes), out_trim);
}

/* What a driver has to free is the reclaimer's, who may be kept for long. What it frees counts no more from when
 * it begins; where it gets to nothing, it is not waited for after a while. */
rota_trim_state rota_trim_look(rota_runtime *runtime, rota_trim *trim) {
    const uint64_t limit = runtime->options.memory_limit_bytes;
    /* Acquire: with the reclaimer's release, after which the memory counts no more. */
    const uint64_t dying = ra_load_acquire(&runtime->budget.staging_dying);
    const uint64_t held = ra_load_relaxed(&runtime->budget.memory_bytes), now = rota_clock_ns();
    if (trim->size_bytes <= limit && held <= limit - trim->size_bytes) return ROTA_TRIM_ROOM;
    if (dying == 0) return held < trim->before ? ROTA_TRIM_ROOM : ROTA_TRIM_NONE;
    if (held < trim->least || dying < trim->fewest) trim->deadline_ns = now + TRIM_NS; /* it gets on */
    if (held < trim->least) trim->least = held;
    if (dying < trim->fewest) trim->fewest = dying;
    return now >= trim->deadline_ns || now >= trim->last_ns ? ROTA_TRIM_NONE : ROTA_TRIM_WAIT;
}

bool rota_staging_trim(rota_runtime *runtime, uint64_t size_bytes) {
    rota_trim trim;
    rota_trim_state state;
    rota_trim_begin(runtime, size_bytes, &trim);
    while ((state = rota_trim_look(runtime, &trim)) == ROTA_TRIM_WAIT)
        rota_nap_until(rota_deadline_after(50000));
    return state == ROTA_TRIM_ROOM;
}

rota_status rota_staging_create(rota_device *device) {
    device->staging = calloc(1, sizeof *device->staging);
    if (!device->staging) return rota_fail(ROTA_OUT_OF_MEMORY, "device '%s': no host memory", device->id);
    return ROTA_OK;
}

void rota_staging_close(rota_device *device) {
    rota_staging_shared *pool = device->staging;
    uint32_t count = ra_load_acquire(&pool->count);
    for (uint32_t number = 1; number <= count; number++) {
        rota_staging *block = block_at(pool, number);
        if (block->memory) rota_device_memory_destroy(device, block->memory);
        block->memory = NULL;
    }
}

void rota_staging_free(rota_device *device) {
    rota_staging_shared *pool = device->staging;
    if (!pool) return;
    uint32_t count = ra_load_acquire(&pool->count);
    for (uint32_t number = 1; number <= count; number++) free(block_at(pool, number)->copies);
    for (uint32_t chunk = 0; chunk < ROTA_STAGING_CHUNKS; chunk++)
        free(ra_load_relaxed(&pool->chunks[chunk]));
    free(pool);
    device->staging = NULL;
}

/* ---- Memory of devices, in whose favour staging gives way ---- */

rota_status rota_device_memory_create(rota_device *device, uint64_t size_bytes, uint32_t flags,
                                      const char *name, rota_exec_memory **out_memory) {
    bool is_limited;
    rota_status status = rota_device_memory_try(device, size_bytes, flags, name, &is_limited, out_memory);
    for (int i = 0; i < ROTA_TRIMS_MAX && status != ROTA_OK && is_limited; i++) {
        if (!rota_staging_trim(device->runtime, size_bytes)) break;
        status = rota_device_memory_try(device, size_bytes, flags, name, &is_limited, out_memory);
    }
    return status;
}
