/* What a plan needs to run: programs, transient arenas, and instances, which are made as replays overlap: the
 * first with the plan, others by a thread that does nothing else. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime_internal.h"

enum { MEMORY_BORROWED, MEMORY_OWNED, MEMORY_WRAPPER };

static void free_instance(rota_plan_run *run, rota_run_instance *instance) {
    const rota_plan *plan = run->plan;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        rota_device *device = run->parts[p].device;
        if (instance->parts && instance->parts[p])
            device->exec->vtable->instance_destroy(device->exec, instance->parts[p]);
    }
    for (uint32_t p = 0; instance->memories && instance->owned && p < plan->part_count; p++) {
        rota_exec_memory **memories = instance->memories[p];
        uint8_t *owned = instance->owned[p];
        for (uint32_t m = 0; memories && owned && m < plan->parts[p].desc.memory_count; m++) {
            if (owned[m] == MEMORY_OWNED)
                rota_device_memory_destroy(run->parts[p].device, memories[m]);
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
static rota_status prepare_persistent(const rota_plan_run *run, const rota_plan_memory *memory,
                                      rota_device *device, rota_exec_memory **out) {
    rota_residency *residency = run->plan->buffers[memory->buffer].buffer->residency;
    ROTA_TRY(rota_residency_prepare(residency, device));
    *out = ra_load_acquire(&residency->memory[device->index]);
    if (memory->foreign_part == ROTA_NONE) return ROTA_OK;
    const rota_device *other = run->parts[memory->foreign_part].device;
    if (rota_residency_bit(residency, device) == rota_residency_bit(residency, other)) return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED,
                     "buffer '%s' has memory of its own on '%s' or '%s' since a device was lost",
                     residency->buffer->name, device->id, other->id);
}

/* The plan whose arena is used as far as it goes: it is held, and so freed later. */
static const rota_plan_run *lender_of(const rota_plan_run *run) {
    return run->plan->options.arena_of ? run->plan->options.arena_of->run : NULL;
}

/* Memory of the lender's for this piece of the arena, counted in the same order; NULL: none that will do. */
static rota_exec_memory *lent(const rota_plan_run *run, uint32_t p, uint32_t m) {
    const rota_plan_run *lender = lender_of(run);
    if (!lender || p != 0 || run->parts[0].device != lender->parts[0].device) return NULL;
    const rota_plan_memory *wanted = run->plan->parts[0].memories, *theirs = lender->plan->parts[0].memories;
    uint32_t before = 0;
    for (uint32_t i = 0; i < m; i++) before += wanted[i].kind == ROTA_EXEC_BASE_ARENA;
    for (uint32_t i = 0; i < lender->plan->parts[0].desc.memory_count; i++) {
        if (theirs[i].kind != ROTA_EXEC_BASE_ARENA || before--) continue;
        const bool fits = theirs[i].size_bytes >= wanted[m].size_bytes && theirs[i].flags == wanted[m].flags;
        return fits ? lender->arenas[0][i] : NULL;
    }
    return NULL;
}

/* Arena memory: lent, or made by its part, imported by the later ones that share it. */
static rota_status make_arena(rota_plan_run *run, uint32_t arena, uint32_t p, uint32_t m,
                              rota_exec_memory **out) {
    const rota_plan *plan = run->plan;
    const rota_plan_memory *memory = &plan->parts[p].memories[m];
    rota_exec_memory **slot = &run->arenas[arena][run->arena_base[p] + m];
    rota_status status = ROTA_OK;
    uint32_t owner = memory->foreign_part;
    if (!*slot) *slot = lent(run, p, m);
    if (!*slot && owner == ROTA_NONE)
        status = rota_device_memory_create(run->parts[p].device, memory->size_bytes, memory->flags,
                                           plan->name, slot);
    else if (!*slot)
        status = rota_share_import(run->parts[owner].device,
                                   run->arenas[arena][run->arena_base[owner] + memory->foreign_memory],
                                   run->parts[p].device, plan->name, slot);
    *out = *slot;
    return status;
}

/* The memory itself; foreign staging memory is wrapped in a second pass, when what it wraps exists. */
static rota_status make_memory(rota_plan_run *run, rota_run_instance *instance, uint32_t p, uint32_t m) {
    rota_plan *plan = run->plan;
    const rota_plan_memory *memory = &plan->parts[p].memories[m];
    rota_device *device = run->parts[p].device;
    rota_exec_memory **out = &instance->memories[p][m];
    if (memory->kind == ROTA_EXEC_BASE_PERSISTENT) return prepare_persistent(run, memory, device, out);
    if (memory->kind == ROTA_EXEC_BASE_ARENA) return make_arena(run, instance->arena, p, m, out);
    if (memory->foreign_part != ROTA_NONE) return ROTA_OK;
    ROTA_TRY(rota_device_memory_create(device, memory->size_bytes, memory->flags, plan->name, out));
    instance->owned[p][m] = MEMORY_OWNED;
    return ROTA_OK;
}

static rota_status wrap_memory(rota_plan_run *run, rota_run_instance *instance, uint32_t p, uint32_t m) {
    const rota_plan_memory *memory = &run->plan->parts[p].memories[m];
    if (memory->foreign_part == ROTA_NONE || memory->kind != ROTA_EXEC_BASE_STAGING) return ROTA_OK;
    const rota_exec_memory *wrapped = instance->memories[memory->foreign_part][memory->foreign_memory];
    rota_exec_memory *wrapper = calloc(1, sizeof *wrapper);
    if (!wrapper) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", run->plan->name);
    *wrapper = (rota_exec_memory){(uint64_t)(uintptr_t)wrapped->host, wrapped->host, wrapped->size_bytes};
    instance->memories[p][m] = wrapper;
    instance->owned[p][m] = MEMORY_WRAPPER;
    return ROTA_OK;
}

/* How often as long as for the plan's first instance a driver may be at one part of a later one, while it
 * does much else, before who waits for it counts that as no progress. */
#define PATIENCE 4u

/* The maker's, and who compiles: begins what takes a driver's time for one part; that is progress of what
 * waits for the instance (chain.h), as is its taking as long as could be expected. */
static uint64_t begin_step(rota_plan_run *run, uint32_t part) {
    rota_device *maker = run->parts[0].device;
    const uint64_t now = rota_clock_ns();
    if (!ra_load_acquire(&run->instances[0].created)) return now; /* with make: nobody waits for the first */
    ra_store_relaxed(&maker->making_until_ns, now + PATIENCE * run->parts[part].made_ns);
    ra_store_release(&maker->making_ns, now); /* with rota_progress_look */
    return now;
}

static void end_step(rota_plan_run *run, uint32_t part, uint64_t begin) {
    if (!ra_load_acquire(&run->instances[0].created)) run->parts[part].made_ns += rota_clock_ns() - begin;
}

static rota_status make_instance(rota_plan_run *run, rota_run_instance *instance) {
    const rota_plan *plan = run->plan;
    rota_status no_memory = ROTA_OUT_OF_MEMORY;
    instance->parts = calloc(plan->part_count, sizeof *instance->parts);
    instance->memories = calloc(plan->part_count, sizeof *instance->memories);
    instance->owned = calloc(plan->part_count, sizeof *instance->owned);
    if (!instance->parts || !instance->memories || !instance->owned)
        return rota_fail(no_memory, "plan '%s': no host memory for an instance", plan->name);
    for (uint32_t p = 0; p < plan->part_count; p++) {
        uint32_t count = plan->parts[p].desc.memory_count;
        instance->owned[p] = calloc(count ? count : 1, sizeof **instance->owned);
        instance->memories[p] = calloc(count ? count : 1, sizeof **instance->memories);
        if (!instance->owned[p] || !instance->memories[p])
            return rota_fail(no_memory, "plan '%s': no host memory for an instance", plan->name);
    }
    for (uint32_t p = 0; p < plan->part_count; p++) {
        const uint64_t begin = begin_step(run, p);
        for (uint32_t m = 0; m < plan->parts[p].desc.memory_count; m++)
            ROTA_TRY(make_memory(run, instance, p, m));
        end_step(run, p, begin);
    }
    for (uint32_t p = 0; p < plan->part_count; p++)
        for (uint32_t m = 0; m < plan->parts[p].desc.memory_count; m++)
            ROTA_TRY(wrap_memory(run, instance, p, m));
    for (uint32_t p = 0; p < plan->part_count; p++) {
        rota_device *device = run->parts[p].device;
        const uint64_t begin = begin_step(run, p);
        ROTA_TRY(device->exec->vtable->instance_create(device->exec, run->parts[p].program,
                                                       instance->memories[p], &instance->parts[p]));
        end_step(run, p, begin);
    }
    return ROTA_OK;
}

static rota_status make(rota_run_instance *instance) {
    rota_status status = make_instance(instance->run, instance);
    /* Releases it; seq_cst: with the submit threads' last look before they sleep. */
    if (status == ROTA_OK)
        ra_store_seq_cst(&instance->created, 1);
    else
        free_instance(instance->run, instance);
    return status;
}

/* ---- Making instances beyond the first ----
 *
 * A driver may take its time for an instance, and others wait for its locks meanwhile. So a plan's first is
 * made when it is compiled, and the others here, by a thread per device that nobody waits for but the works
 * that need them. Those wait on sidings, as for another device. It makes one at a time, and is asked for one
 * at a time: a replay that would have to wait until it is through with something else takes an instance that
 * is there, after the replay that has that. So an instance that takes a driver minutes keeps the replays that
 * it is for, and no others. */

bool rota_run_instance_is_near(const rota_plan_run *run, uint32_t index) {
    const rota_run_instance *instance = &run->instances[index];
    const rota_device *maker = run->parts[0].device;
    if (ra_load_acquire(&instance->created)) return true; /* with make */
    /* With answer: the maker has left what it was asked for last. */
    return ra_load_acquire(&maker->makings_done) == ra_load_relaxed(&maker->makings_asked);
}

bool rota_run_instance_is_decided(const rota_run_instance *instance) {
    return ra_load_seq_cst(&instance->created) || ra_load_seq_cst(&instance->making) == ROTA_MAKING_FAILED;
}

bool rota_run_instance_ask(rota_plan_run *run, uint32_t index) {
    rota_run_instance *instance = &run->instances[index];
    if (ra_load_acquire(&instance->created)) return true; /* with make */
    if (ra_load_acquire(&instance->making) == ROTA_MAKING_ASKED) return false;
    ra_store_relaxed(&instance->making, ROTA_MAKING_ASKED);
    rota_device *device = run->parts[0].device;
    ra_store_relaxed(&device->makings_asked, ra_load_relaxed(&device->makings_asked) + 1);
    instance->next_asked = ra_load_relaxed(&device->asked);
    /* Releases the request to the maker's exchange; seq_cst: with its last look before it sleeps. */
    while (!ra_cas_seq_cst(&device->asked, &instance->next_asked, instance)) {
    }
    rota_sleeper_wake(&device->maker_sleeper);
    return false;
}

/* Its works go on, and with the last of them the plan may be gone. */
static void answer(rota_device *device, rota_run_instance *instance) {
    rota_runtime *runtime = device->runtime;
    rota_status status = make(instance);
    if (status != ROTA_OK) {
        /* Release: with prepare_segment. */
        ra_store_release(&instance->failure, rota_cause_new(runtime, status, "%s", rota_last_error()));
        ra_store_seq_cst(&instance->making, ROTA_MAKING_FAILED); /* as `created` */
    }
    ra_store_release(&device->makings_done, ra_load_relaxed(&device->makings_done) + 1);
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) rota_sleeper_wake(&runtime->devices[d]->sleeper);
}

static void *maker_main(void *user) {
    rota_device *device = user;
    rota_runtime *runtime = device->runtime;
    while (!ra_load_acquire(&runtime->stop) && !ra_load_acquire(&device->closed)) {
        rota_run_instance *stack = ra_exchange_acq_rel(&device->asked, NULL), *oldest = NULL;
        while (stack) {
            rota_run_instance *next = stack->next_asked;
            stack->next_asked = oldest;
            oldest = stack;
            stack = next;
        }
        if (!oldest) {
            rota_sleeper_prepare(&device->maker_sleeper);
            if (ra_load_seq_cst(&device->asked) || ra_load_seq_cst(&runtime->stop) ||
                ra_load_seq_cst(&device->closed))
                rota_sleeper_cancel(&device->maker_sleeper);
            else
                rota_sleeper_wait(&device->maker_sleeper, rota_deadline_after(1000000000u));
        }
        while (oldest && !ra_load_acquire(&runtime->stop)) {
            rota_run_instance *instance = oldest;
            oldest = instance->next_asked; /* before its works go on */
            answer(device, instance);
        }
    }
    rota_runtime_thread_ends(runtime);
    ra_store_release(&device->maker_ended, 1); /* with rota_runtime_close */
    return NULL;
}

rota_status rota_makers_start(rota_device *device) {
    int error = pthread_create(&device->maker, NULL, maker_main, device);
    if (error != 0)
        return rota_fail(ROTA_SYSTEM, "device '%s': no thread to make instances: %s", device->id,
                         strerror(error));
    device->maker_started = true;
    return ROTA_OK;
}

static void destroy_arena(const rota_plan_run *run, rota_exec_memory *const *memories) {
    const rota_plan *plan = run->plan;
    bool kept = false;
    for (uint32_t owners = 0; owners < 2; owners++) /* imports first */
        for (uint32_t p = 0; p < plan->part_count; p++)
            for (uint32_t m = 0; m < plan->parts[p].desc.memory_count; m++) {
                rota_exec_memory *memory = memories[run->arena_base[p] + m];
                if (memory && memory == lent(run, p, m)) continue;
                bool is_import = plan->parts[p].memories[m].foreign_part != ROTA_NONE;
                if (memory && is_import && owners == 0)
                    kept = !rota_share_end(run->parts[p].device, memory) || kept;
                else if (memory && !is_import && owners == 1 && !kept)
                    rota_device_memory_destroy(run->parts[p].device, memory);
            }
}

void rota_run_destroy(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    for (uint32_t i = 0; run->instances && i < run->instance_capacity; i++)
        if (run->instances[i].parts) free_instance(run, &run->instances[i]);
    for (uint32_t a = 0; run->arenas && a < run->arena_count; a++) {
        if (run->arenas[a]) destroy_arena(run, run->arenas[a]);
        free(run->arenas[a]);
    }
    for (uint32_t p = 0; run->parts && p < plan->part_count; p++) {
        rota_run_part *part = &run->parts[p];
        if (part->program) part->device->exec->vtable->program_destroy(part->device->exec, part->program);
        free(part->by_node);
    }
    free(run->arenas);
    free(run->arena_base);
    free(run->own_points);
    rota_replay_destroy(run->replay);
    free(run->instances);
    free(run->parts);
    free(run->slot_buffers);
    free(run->slot_of_buffer);
    free(run->direct);
    free(run->needed);
    free(run->no_arguments);
}

/* How replays share instances: those whose executor may have one in flight several times go round the arenas;
 * others take one that is idle. */
static void choose_sharing(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    bool shared = !run->has_staging;
    for (uint32_t p = 0; p < plan->part_count; p++)
        if (plan->parts[p].desc.block_words && !run->parts[p].device->exec->caps.reuse_in_flight)
            shared = false;
    run->rotates = !shared;
    run->arena_count = plan->options.arenas ? plan->options.arenas : 1;
    uint32_t instances = plan->options.instances ? plan->options.instances : 4;
    if (instances < run->arena_count) instances = run->arena_count;
    run->instance_capacity = shared ? run->arena_count : instances;
    run->instance_count = shared ? run->arena_count : 1;
}

static int by_segment(const void *a, const void *b, void *user) {
    const rota_plan_transfer *transfers = user;
    const uint32_t left = transfers[*(const uint32_t *)a].segment,
                   right = transfers[*(const uint32_t *)b].segment;
    return left < right ? -1 : left > right;
}

static rota_status list_direct(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    run->direct = malloc((plan->transfer_count - plan->input_count + 1u) * sizeof *run->direct);
    if (!run->direct) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    for (uint32_t t = plan->input_count; t < plan->transfer_count; t++)
        if (plan->transfers[t].word != ROTA_NONE) run->direct[run->direct_count++] = t;
    qsort_r(run->direct, run->direct_count, sizeof *run->direct, by_segment, plan->transfers);
    return ROTA_OK;
}

static rota_status list_needed(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    run->needed = malloc(run->payload_words + 1u);
    run->no_arguments = calloc(run->payload_words + 1u, sizeof *run->no_arguments);
    if (!run->needed || !run->no_arguments)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    for (uint32_t w = 0; w < run->payload_words; w++) {
        run->needed[w] =
            w >= plan->word_count || plan->words[w].kind != ROTA_WORD_VALUE || plan->words[w].used;
        run->needed_count += run->needed[w];
    }
    return ROTA_OK;
}

static rota_status describe(rota_plan_run *run) {
    const rota_plan *plan = run->plan;
    uint32_t memories = 0;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        const rota_plan_part *part = &plan->parts[p];
        run->parts[p].device = part->device;
        run->device_mask |= (uint64_t)1 << part->device->index;
        run->arena_base[p] = memories;
        memories += part->desc.memory_count;
        for (uint32_t m = 0; m < part->desc.memory_count; m++) {
            if (part->memories[m].kind == ROTA_EXEC_BASE_ARENA) run->has_arena = true;
            if (part->memories[m].kind == ROTA_EXEC_BASE_STAGING) run->has_staging = true;
        }
    }
    /* An input that commands read where the caller has it is taken when the replay is complete, not before.
     */
    run->stages_inputs = run->has_staging;
    for (uint32_t t = 0; t < plan->input_count; t++)
        if (plan->transfers[t].memory == ROTA_NONE) run->stages_inputs = false;
    run->arena_memories = memories;
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const rota_buffer *buffer = plan->buffers[b].buffer;
        run->slot_of_buffer[b] = ROTA_NONE;
        if (buffer->kind == ROTA_BUFFER_PERSISTENT) {
            const rota_residency *residency = buffer->residency;
            if (!residency || residency->closed || residency->runtime != plan->runtime)
                return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': buffer '%s' is not of this runtime",
                                 plan->name, buffer->name);
        }
    }
    for (uint32_t w = 0; w < plan->word_count; w++) {
        uint32_t b = plan->words[w].index;
        if (plan->words[w].kind != ROTA_WORD_BUFFER || run->slot_of_buffer[b] != ROTA_NONE) continue;
        run->slot_of_buffer[b] = run->slot_buffer_count;
        run->slot_buffers[run->slot_buffer_count++] = b;
    }
    run->payload_words =
        plan->word_count + 2 * run->slot_buffer_count + (run->has_staging ? plan->transfer_count : 0);
    if (run->payload_words > ROTA_PAYLOAD_WORDS_MAX)
        return rota_fail(ROTA_UNSUPPORTED,
                         "plan '%s': it takes %u words of arguments, at most %d are possible", plan->name,
                         run->payload_words, ROTA_PAYLOAD_WORDS_MAX);
    choose_sharing(run);
    ROTA_TRY(list_direct(run));
    return list_needed(run);
}

static rota_status build(rota_plan_run *run) {
    rota_plan *plan = run->plan;
    run->parts = calloc(plan->part_count, sizeof *run->parts);
    run->arena_base = calloc(plan->part_count, sizeof *run->arena_base);
    run->slot_buffers = calloc(plan->buffer_count + 1u, sizeof *run->slot_buffers);
    run->slot_of_buffer = calloc(plan->buffer_count + 1u, sizeof *run->slot_of_buffer);
    if (!run->parts || !run->arena_base || !run->slot_buffers || !run->slot_of_buffer)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    ROTA_TRY(describe(run));
    run->instances = calloc(run->instance_capacity, sizeof *run->instances);
    run->arenas = calloc(run->arena_count, sizeof *run->arenas);
    run->own_points = calloc(run->arena_count, sizeof *run->own_points);
    if (!run->instances || !run->arenas || !run->own_points)
        return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    run->arena_points = lender_of(run) ? lender_of(run)->arena_points : run->own_points;
    for (uint32_t i = 0; i < run->instance_capacity; i++) {
        run->instances[i].run = run;
        run->instances[i].arena = i % run->arena_count;
    }
    for (uint32_t a = 0; a < run->arena_count; a++) {
        run->arenas[a] = calloc(run->arena_memories + 1u, sizeof **run->arenas);
        if (!run->arenas[a]) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    }
    for (uint32_t p = 0; p < plan->part_count; p++) {
        rota_exec_device *exec = run->parts[p].device->exec;
        ROTA_TRY(exec->vtable->program_create(exec, &plan->parts[p].desc, &run->parts[p].program));
    }
    return make(&run->instances[0]);
}

rota_status rota_plan_run_create(rota_plan *plan) {
    rota_runtime *runtime = plan->runtime;
    ROTA_TRY(rota_runtime_check(runtime));
    rota_plan_run *run = calloc(1, sizeof *run);
    if (!run) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    run->dead.kind = ROTA_DEAD_PLAN;
    run->plan = plan;
    rota_status status = build(run);
    if (status != ROTA_OK) {
        rota_run_destroy(run);
        free(run);
        return rota_fail_context(status, "plan '%s': ", plan->name);
    }
    plan->run = run;
    (void)ra_fetch_add_relaxed(&runtime->plan_count, 1);
    (void)pthread_mutex_lock(&runtime->objects_mutex);
    run->next = runtime->runs;
    if (run->next) run->next->previous = run;
    runtime->runs = run;
    (void)pthread_mutex_unlock(&runtime->objects_mutex);
    return ROTA_OK;
}

void rota_plan_run_release(rota_plan *plan) {
    /* After close only the plan's own memory is left. */
    if (plan->run && plan->run->abandoned) return;
    if (!plan->run || plan->run->closed) {
        free(plan->run);
        plan->run = NULL;
        rota_plan_free(plan);
        return;
    }
    rota_reclaim_push(plan->runtime, &plan->run->dead);
}

rota_status rota_plan_check(const rota_plan *plan) {
    if (!plan->run) return rota_fail(ROTA_WRONG_STATE, "plan '%s': " ROTA_PLAN_ANALYSED, plan->name);
    ROTA_TRY(rota_runtime_check(plan->runtime));
    if (plan->run->closed)
        return rota_fail(ROTA_WRONG_STATE, "plan '%s': its runtime was closed", plan->name);
    return ROTA_OK;
}

/* Host times of the last completed replay, and the instance that ran it. */
static rota_status last_replay(rota_plan *plan, rota_plan_replay_times *out_times, uint32_t *out_instance) {
    ROTA_TRY(rota_plan_check(plan));
    rota_runtime *runtime = plan->runtime;
    if (!runtime->options.diagnostics)
        return rota_fail(ROTA_WRONG_STATE, "plan '%s': times need a runtime opened with diagnostics",
                         plan->name);
    rota_sequencer_reap_now(runtime);
    (void)pthread_mutex_lock(&runtime->times_mutex);
    *out_times = plan->run->times;
    *out_instance = plan->run->times_instance;
    (void)pthread_mutex_unlock(&runtime->times_mutex);
    if (out_times->number == 0)
        return rota_fail(ROTA_WRONG_STATE, "plan '%s' has completed no replay", plan->name);
    return ROTA_OK;
}

rota_status rota_plan_run_times(rota_plan *plan, uint32_t part, rota_exec_time *out) {
    rota_plan_replay_times replay;
    uint32_t instance;
    ROTA_TRY(last_replay(plan, &replay, &instance));
    rota_device *device = plan->run->parts[part].device;
    if (!device->exec->vtable->times)
        return rota_fail(ROTA_UNSUPPORTED, "device '%s' measures no times", device->id);
    const rota_run_instance *of = &plan->run->instances[instance];
    if (!ra_load_acquire(&of->created)) /* with make */
        return rota_fail(ROTA_WRONG_STATE, "plan '%s': the last replay failed before it reached a device",
                         plan->name);
    return device->exec->vtable->times(device->exec, of->parts[part], out);
}

rota_status rota_plan_run_replay_times(rota_plan *plan, rota_plan_replay_times *out) {
    uint32_t instance;
    return last_replay(plan, out, &instance);
}
