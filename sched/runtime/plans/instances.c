/* Instances of a plan: what a replay runs in, programs with their memories; and the arenas. The first is made
 * with the plan, others by a thread that does nothing else (builder.c). */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/memory/import.h"
#include "sched/runtime/memory/memory.h"
#include "sched/runtime/memory/peers.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/instances.h"
#include "sched/runtime/shared/runtime.h"

enum { MEMORY_BORROWED, MEMORY_OWNED, MEMORY_WRAPPER };

void rota_instance_free(rota_executable *executable, rota_instance *instance) {
    const rota_plan *plan = executable->plan;
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        rota_device *device = executable->partitions[p].device;
        if (instance->parts && instance->parts[p])
            device->exec->vtable->instance_destroy(device->exec, instance->parts[p]);
    }
    for (uint32_t p = 0; instance->memories && instance->owned && p < plan->partition_count; p++) {
        rota_exec_memory **memories = instance->memories[p];
        uint8_t *owned = instance->owned[p];
        for (uint32_t m = 0; memories && owned && m < plan->partitions[p].desc.memory_count; m++) {
            if (owned[m] == MEMORY_OWNED)
                rota_device_memory_destroy(executable->partitions[p].device, memories[m]);
            else if (owned[m] == MEMORY_WRAPPER)
                free(memories[m]);
        }
        free(memories);
        free(owned);
    }
    free(instance->memories);
    free(instance->owned);
    free(instance->parts);
    instance->parts = NULL;
    instance->memories = NULL;
    instance->owned = NULL;
}

/* Memory of the buffer on the part's device, the same as on the device that the compiler took it to be shared
 * with. */
static rota_status prepare_persistent(const rota_executable *executable, const rota_plan_memory *memory,
                                      rota_device *device, rota_exec_memory **out) {
    rota_residency *residency = executable->plan->buffers[memory->buffer].buffer->residency;
    ROTA_TRY(rota_residency_prepare(residency, device));
    *out = ra_load_acquire(&residency->memory[device->index]);
    if (memory->foreign_part == ROTA_NONE) return ROTA_OK;
    const rota_device *other = executable->partitions[memory->foreign_part].device;
    if (rota_residency_bit(residency, device) == rota_residency_bit(residency, other)) return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED,
                     "buffer '%s' has memory of its own on '%s' or '%s' since a device was lost",
                     residency->buffer->name, device->id, other->id);
}

const rota_executable *rota_executable_arena_owner_of(const rota_executable *executable) {
    return executable->plan->options.arena_of ? executable->plan->options.arena_of->executable : NULL;
}

/* Memory of the lender's for this piece of the arena, counted in the same order; NULL: none that will do. */
static rota_exec_memory *shared_arena(const rota_executable *executable, uint32_t p, uint32_t m) {
    const rota_executable *lender = rota_executable_arena_owner_of(executable);
    if (!lender || p != 0 || executable->partitions[0].device != lender->partitions[0].device) return NULL;
    const rota_plan_memory *wanted = executable->plan->partitions[0].memories,
                           *theirs = lender->plan->partitions[0].memories;
    uint32_t before = 0;
    for (uint32_t i = 0; i < m; i++) before += wanted[i].kind == ROTA_EXEC_BASE_ARENA;
    for (uint32_t i = 0; i < lender->plan->partitions[0].desc.memory_count; i++) {
        if (theirs[i].kind != ROTA_EXEC_BASE_ARENA || before--) continue;
        const bool fits = theirs[i].size_bytes >= wanted[m].size_bytes && theirs[i].flags == wanted[m].flags;
        return fits ? lender->arenas.memory[0][i] : NULL;
    }
    return NULL;
}

/* Arena memory: lent, or made by its part, imported by the later ones that share it. */
static rota_status make_arena(rota_executable *executable, uint32_t arena, uint32_t p, uint32_t m,
                              rota_exec_memory **out) {
    const rota_plan *plan = executable->plan;
    const rota_plan_memory *memory = &plan->partitions[p].memories[m];
    rota_exec_memory **slot = &executable->arenas.memory[arena][executable->arenas.base[p] + m];
    rota_status status = ROTA_OK;
    uint32_t owner = memory->foreign_part;
    if (!*slot) *slot = shared_arena(executable, p, m);
    if (!*slot && owner == ROTA_NONE)
        status = rota_device_memory_create(executable->partitions[p].device, memory->size_bytes,
                                           memory->flags, plan->name, slot);
    else if (!*slot)
        status = rota_share_import(
            executable->partitions[owner].device,
            executable->arenas.memory[arena][executable->arenas.base[owner] + memory->foreign_memory],
            executable->partitions[p].device, plan->name, slot);
    *out = *slot;
    return status;
}

/* The memory itself; foreign staging memory is wrapped, and peers' is named, in a second pass, when it exists. */
static rota_status make_memory(rota_executable *executable, rota_instance *instance, uint32_t p, uint32_t m) {
    rota_plan *plan = executable->plan;
    const rota_plan_memory *memory = &plan->partitions[p].memories[m];
    rota_device *device = executable->partitions[p].device;
    rota_exec_memory **out = &instance->memories[p][m];
    if (memory->is_peer) return ROTA_OK;
    if (memory->kind == ROTA_EXEC_BASE_PERSISTENT) return prepare_persistent(executable, memory, device, out);
    if (memory->kind == ROTA_EXEC_BASE_ARENA) return make_arena(executable, instance->arena, p, m, out);
    if (memory->foreign_part != ROTA_NONE) return ROTA_OK;
    ROTA_TRY(rota_device_memory_create(device, memory->size_bytes, memory->flags, plan->name, out));
    instance->owned[p][m] = MEMORY_OWNED;
    return ROTA_OK;
}

/* A peer's, which stays that one's: this part's copies read it. */
static rota_status name_memory(const rota_executable *executable, rota_instance *instance, uint32_t p,
                               uint32_t m) {
    const rota_plan_memory *memory = &executable->plan->partitions[p].memories[m];
    rota_device *device = executable->partitions[p].device,
                *owner = executable->partitions[memory->foreign_part].device;
    rota_exec_memory *theirs = instance->memories[memory->foreign_part][memory->foreign_memory];
    instance->memories[p][m] = theirs;
    if (memory->kind == ROTA_EXEC_BASE_ARENA) return rota_peer_open(owner, theirs, device);
    const rota_residency *residency = executable->plan->buffers[memory->buffer].buffer->residency;
    if (rota_residency_is_open(residency, owner, device)) return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED, "plan '%s': memory of buffer '%s' on '%s' is not open to '%s'",
                     executable->plan->name, residency->buffer->name, owner->id, device->id);
}

static rota_status wrap_memory(rota_executable *executable, rota_instance *instance, uint32_t p, uint32_t m) {
    const rota_plan_memory *memory = &executable->plan->partitions[p].memories[m];
    if (memory->is_peer) return name_memory(executable, instance, p, m);
    if (memory->foreign_part == ROTA_NONE || memory->kind != ROTA_EXEC_BASE_STAGING) return ROTA_OK;
    const rota_exec_memory *wrapped = instance->memories[memory->foreign_part][memory->foreign_memory];
    rota_exec_memory *wrapper = calloc(1, sizeof *wrapper);
    if (!wrapper) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", executable->plan->name);
    *wrapper = (rota_exec_memory){(uint64_t)(uintptr_t)wrapped->host, wrapped->host, wrapped->size_bytes};
    instance->memories[p][m] = wrapper;
    instance->owned[p][m] = MEMORY_WRAPPER;
    return ROTA_OK;
}

/* How often as long as for the plan's first instance a driver may be at one part of a later one, while it
 * does much else, before who waits for it counts that as no progress. */
#define PATIENCE 4u

/* The builder's, and who compiles: begins what takes a driver's time for one part; that is progress of what
 * waits for the instance (progress.h), as is its taking as long as could be expected. */
static uint64_t begin_step(rota_executable *executable, uint32_t part) {
    rota_device *builder = executable->partitions[0].device;
    const uint64_t now = rota_clock_ns();
    if (!ra_load_acquire(&executable->instances[0].created))
        return now; /* with rota_instance_make: nobody waits for the first */
    ra_store_relaxed(&builder->building.until_ns, now + PATIENCE * executable->partitions[part].made_ns);
    ra_store_release(&builder->building.began_ns, now); /* with rota_progress_look */
    return now;
}

static void end_step(rota_executable *executable, uint32_t part, uint64_t begin) {
    if (!ra_load_acquire(&executable->instances[0].created))
        executable->partitions[part].made_ns += rota_clock_ns() - begin;
}

static rota_status make_instance(rota_executable *executable, rota_instance *instance) {
    const rota_plan *plan = executable->plan;
    rota_status no_memory = ROTA_OUT_OF_MEMORY;
    instance->parts = calloc(plan->partition_count, sizeof *instance->parts);
    instance->memories = calloc(plan->partition_count, sizeof *instance->memories);
    instance->owned = calloc(plan->partition_count, sizeof *instance->owned);
    if (!instance->parts || !instance->memories || !instance->owned)
        return rota_fail(no_memory, "plan '%s': no host memory for an instance", plan->name);
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        uint32_t count = plan->partitions[p].desc.memory_count;
        instance->owned[p] = calloc(count ? count : 1, sizeof **instance->owned);
        instance->memories[p] = calloc(count ? count : 1, sizeof **instance->memories);
        if (!instance->owned[p] || !instance->memories[p])
            return rota_fail(no_memory, "plan '%s': no host memory for an instance", plan->name);
    }
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        const uint64_t begin = begin_step(executable, p);
        for (uint32_t m = 0; m < plan->partitions[p].desc.memory_count; m++)
            ROTA_TRY(make_memory(executable, instance, p, m));
        end_step(executable, p, begin);
    }
    for (uint32_t p = 0; p < plan->partition_count; p++)
        for (uint32_t m = 0; m < plan->partitions[p].desc.memory_count; m++)
            ROTA_TRY(wrap_memory(executable, instance, p, m));
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        rota_device *device = executable->partitions[p].device;
        const uint64_t begin = begin_step(executable, p);
        ROTA_TRY(device->exec->vtable->instance_create(device->exec, executable->partitions[p].program,
                                                       instance->memories[p], &instance->parts[p]));
        end_step(executable, p, begin);
    }
    return ROTA_OK;
}

rota_status rota_instance_make(rota_instance *instance) {
    rota_status status = make_instance(instance->executable, instance);
    /* Releases it; seq_cst: with the submit threads' last look before they sleep. */
    if (status == ROTA_OK)
        ra_store_seq_cst(&instance->created, 1);
    else
        rota_instance_free(instance->executable, instance);
    return status;
}

bool rota_instance_is_near(const rota_executable *executable, uint32_t index) {
    const rota_instance *instance = &executable->instances[index];
    const rota_device *builder = executable->partitions[0].device;
    if (ra_load_acquire(&instance->created)) return true; /* with rota_instance_make */
    /* With answer: the builder has left what it was asked for last. */
    return ra_load_acquire(&builder->building.done_count) == ra_load_relaxed(&builder->building.asked_count);
}

bool rota_instance_is_decided(const rota_instance *instance) {
    return ra_load_seq_cst(&instance->created) ||
           ra_load_seq_cst(&instance->building) == ROTA_BUILDING_FAILED;
}

/* Once an instance is decided the builder reads nothing of it any more: what came next in its list it has by then. */
bool rota_executable_is_asked_for(const rota_executable *executable) {
    for (uint32_t i = 0; i < executable->order.instance_count; i++) {
        const rota_instance *instance = &executable->instances[i];
        if (ra_load_relaxed(&instance->building) == ROTA_BUILDING_ASKED &&
            !rota_instance_is_decided(instance))
            return true;
    }
    return false;
}

bool rota_instance_ask(rota_executable *executable, uint32_t index) {
    rota_instance *instance = &executable->instances[index];
    if (ra_load_acquire(&instance->created)) return true; /* with rota_instance_make */
    if (ra_load_acquire(&instance->building) == ROTA_BUILDING_ASKED) return false;
    ra_store_relaxed(&instance->building, ROTA_BUILDING_ASKED);
    rota_device *device = executable->partitions[0].device;
    ra_store_relaxed(&device->building.asked_count, ra_load_relaxed(&device->building.asked_count) + 1);
    /* Releases the request to the builder; ordered with its last look before it sleeps. */
    rota_stack_push_upmc(&device->building.asked, &instance->asked);
    rota_sleeper_wake(&device->building.sleeper);
    return false;
}

void rota_executable_arena_destroy(const rota_executable *executable, rota_exec_memory *const *memories) {
    const rota_plan *plan = executable->plan;
    bool kept = false;
    for (uint32_t owners = 0; owners < 2; owners++) /* imports first */
        for (uint32_t p = 0; p < plan->partition_count; p++)
            for (uint32_t m = 0; m < plan->partitions[p].desc.memory_count; m++) {
                rota_exec_memory *memory = memories[executable->arenas.base[p] + m];
                if (memory && memory == shared_arena(executable, p, m)) continue;
                bool is_import = plan->partitions[p].memories[m].foreign_part != ROTA_NONE;
                if (memory && is_import && owners == 0)
                    kept = !rota_share_end(executable->partitions[p].device, memory) || kept;
                else if (memory && !is_import && owners == 1 && !kept)
                    rota_device_memory_destroy(executable->partitions[p].device, memory);
            }
}
