/* The executor contract (exec_contract.h) kept by the adversarial executor, which does all else that it may:
 * by batches and by edges. And each case judges: over an adversary, or a table of calls, that breaks what the
 * case is about, it fails. */
#include "tests/exec/exec_contract.h"

#include <stdio.h>
#include <string.h>
#include "base/atomic.h"
#include "tests/adversary/adversary.h"

/* ---- The adversary ---- */

static adversary_options given, options;

static void begin(contract *c, rota_exec_open_options *open_options) {
    (void)c;
    options = given;
    options.counts_replays = true;
    open_options->test = &options;
}

static void end(contract *c) {
    (void)c;
    if (atomic_load(&options.violations)) fail_msg("the caller broke the contract: %s", options.violation);
}

static uint64_t in_use(contract *c) {
    (void)c;
    return atomic_load(&options.live_memories) + atomic_load(&options.live_programs) +
           atomic_load(&options.live_instances);
}

static void lose(contract *c) {
    (void)c;
    atomic_store(&options.faults.lost_in_works, 2);
}

/* ---- Tables of calls that break it ---- */

static rota_exec_device_vtable table;
static const rota_exec_device_vtable *sound;

static contract *breaking;
static rota_status (*broken_submit)(rota_exec_device *, const rota_exec_work *, uint32_t);
static rota_status (*broken_create)(rota_exec_device *, const rota_exec_program_desc *, rota_exec_program **);
static rota_status (*broken_times)(rota_exec_device *, rota_exec_instance *, rota_exec_time *);

/* Whoever gets the device from the driver finds the broken calls in it. */
static rota_status open_broken(const rota_exec_driver *driver, uint32_t index,
                               const rota_exec_open_options *open_options, rota_exec_device **out_device) {
    (void)driver;
    rota_status status = adversary_driver.open(&adversary_driver, index, open_options, out_device);
    if (status != ROTA_OK) return status;
    sound = (*out_device)->vtable;
    table = *sound;
    if (broken_submit) table.submit = broken_submit;
    if (broken_create) table.program_create = broken_create;
    if (broken_times) table.times = broken_times;
    (*out_device)->vtable = &table;
    return ROTA_OK;
}

static rota_status open_anything(const rota_exec_driver *driver, uint32_t index,
                                 const rota_exec_open_options *open_options, rota_exec_device **out_device) {
    (void)driver, (void)index;
    return adversary_driver.open(&adversary_driver, 0, open_options, out_device);
}

static rota_status enumerate(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                             uint32_t *out_count) {
    return adversary_driver.enumerate(driver, out_infos, capacity, out_count);
}

static const rota_exec_driver broken_driver = {
    .name = "adversary", .kind = ROTA_EXEC_CPU, .enumerate = enumerate, .open = open_broken};
static const rota_exec_driver careless_driver = {
    .name = "adversary", .kind = ROTA_EXEC_CPU, .enumerate = enumerate, .open = open_anything};

static void begin_broken(contract *c, rota_exec_open_options *open_options) {
    breaking = c;
    begin(c, open_options);
}

/* Tells of a loss twice. */
static rota_status lose_twice(rota_exec_device *device, const rota_exec_work *works, uint32_t count) {
    const rota_status status = sound->submit(device, works, count);
    if (status != ROTA_OK) ra_fetch_add_acq_rel(&breaking->host.lost, 1);
    return status;
}

/* Takes a kernel that it cannot run. */
static rota_status create_anything(rota_exec_device *device, const rota_exec_program_desc *desc,
                                   rota_exec_program **out_program) {
    (void)device, (void)desc, (void)out_program;
    return ROTA_OK;
}

/* Forgets the works of the last queue. */
static rota_status forget_queue(rota_exec_device *device, const rota_exec_work *works, uint32_t count) {
    return works[0].queue + 1 == ROTA_EXEC_QUEUES_MAX ? ROTA_OK : sound->submit(device, works, count);
}

/* Forgets the copies that come with works. */
static rota_status drop_copies(rota_exec_device *device, const rota_exec_work *works, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rota_exec_work one = works[i];
        one.copy_count = 0;
        const rota_status status = sound->submit(device, &one, 1);
        if (status != ROTA_OK) return status;
    }
    return ROTA_OK;
}

/* Times that run backwards. */
static rota_status backwards(rota_exec_device *device, rota_exec_instance *instance, rota_exec_time *out) {
    const rota_status status = sound->times(device, instance, out);
    const rota_exec_time first = out[0];
    out[0] = out[1];
    out[1] = first;
    return status;
}

/* ---- Each case is seen to fail ---- */

typedef struct plant {
    const char *name, *what; /* of the case */
    adversary_breaks breaks;
    uint64_t chance; /* of so many seeds one at least finds it; 0: the first does */
    rota_status (*submit)(rota_exec_device *, const rota_exec_work *, uint32_t);
    rota_status (*create)(rota_exec_device *, const rota_exec_program_desc *, rota_exec_program **);
    rota_status (*times)(rota_exec_device *, rota_exec_instance *, rota_exec_time *);
    bool is_careless, is_silent;
} plant;

static const plant plants[] = {
    {.name = "listing", .what = "any index opens", .is_careless = true},
    {.name = "refusals", .what = "a kernel without code is taken", .create = create_anything},
    {.name = "fixed", .what = "barriers are not kept", .breaks = {.barrier = ADVERSARY_ALL}, .chance = 8},
    {.name = "slots", .what = "commands see the words before", .breaks = {.stale_block = true}},
    {.name = "steady words", .what = "commands see the words before", .breaks = {.stale_block = true}},
    {.name = "transfers", .what = "barriers are not kept", .breaks = {.barrier = ADVERSARY_ALL}, .chance = 8},
    {.name = "many", .what = "waits are not kept", .breaks = {.wait = ADVERSARY_ALL}, .chance = 8},
    {.name = "queues", .what = "waits are not kept", .breaks = {.wait = ADVERSARY_ALL}, .chance = 8},
    {.name = "queues", .what = "works' own copies are forgotten", .submit = drop_copies},
    {.name = "cumulative", .what = "waits are not kept", .breaks = {.wait = ADVERSARY_ALL}, .chance = 8},
    {.name = "cumulative", .what = "values come early", .breaks = {.early_signal = true}, .chance = 8},
    {.name = "empty works", .what = "no value ever comes", .is_silent = true},
    {.name = "wide", .what = "barriers are not kept", .breaks = {.barrier = ADVERSARY_ALL}, .chance = 8},
    {.name = "random", .what = "barriers are not kept", .breaks = {.barrier = ADVERSARY_ALL}, .chance = 8},
    {.name = "counted", .what = "barriers are not kept", .breaks = {.barrier = ADVERSARY_ALL}, .chance = 8},
    {.name = "counted", .what = "counts are not looked at", .breaks = {.blind_counts = true}},
    {.name = "counted through slots", .what = "counts are not looked at", .breaks = {.blind_counts = true}},
    {.name = "counted through slots",
     .what = "commands see the words before",
     .breaks = {.stale_block = true}},
    {.name = "counted too high", .what = "counts are not looked at", .breaks = {.blind_counts = true}},
    {.name = "counted too high", .what = "nobody is told of a failure", .breaks = {.mute_failures = true}},
    {.name = "loops", .what = "barriers are not kept", .breaks = {.barrier = ADVERSARY_ALL}, .chance = 8},
    {.name = "loops", .what = "commands see the words before", .breaks = {.stale_block = true}},
    {.name = "loops", .what = "iterations overlap", .breaks = {.iterations = true}, .chance = 8},
    {.name = "loops that fail", .what = "nobody is told of a failure", .breaks = {.mute_failures = true}},
    {.name = "loops that are ended", .what = "a loop asks nobody", .breaks = {.deaf_loops = true}},
    {.name = "loops that are ended", .what = "a loss is told twice", .submit = lose_twice},
    {.name = "times", .what = "times run backwards", .times = backwards},
    {.name = "failures", .what = "nobody is told of a failure", .breaks = {.mute_failures = true}},
    {.name = "leaks", .what = "objects are not destroyed", .breaks = {.keep_objects = true}},
    {.name = "threads", .what = "waits are not kept", .breaks = {.wait = ADVERSARY_ALL}, .chance = 8},
    {.name = "idle", .what = "a queue is forgotten", .submit = forget_queue},
    {.name = "loss", .what = "a loss is told twice", .submit = lose_twice},
};

static bool is_found(const plant *p, adversary_mode mode) {
    contract_kit kit = {.name = "broken",
                        .driver = p->is_careless ? &careless_driver : &broken_driver,
                        .patience_ns = 500000000u,
                        .before_open = begin_broken,
                        .in_use = in_use,
                        .lose = lose};
    broken_submit = p->submit;
    broken_create = p->create;
    broken_times = p->times;
    for (uint64_t seed = 0; seed <= p->chance; seed++) {
        memset(&given, 0, sizeof given);
        given.seed = 1 + seed;
        given.mode = mode;
        given.breaks = p->breaks;
        if (mode == ADVERSARY_EDGES) given.breaks.edge = given.breaks.barrier;
        given.faults.silent = p->is_silent;
        if (!contract_passes(&kit, p->name)) return true;
    }
    return false;
}

#ifdef __SANITIZE_THREAD__ /* the tool has no threads after a fork */
static const bool can_fork = false;
#else
static const bool can_fork = true;
#endif

/* For each case there is a plant, and each plant is found. */
static int judge(void) {
    int missed = 0;
    for (const contract_case *one = contract_cases; one->name; one++) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < sizeof plants / sizeof *plants; i++) {
            const plant *p = &plants[i];
            if (strcmp(p->name, one->name) != 0) continue;
            found++;
            for (uint32_t mode = ADVERSARY_BATCHES; mode <= ADVERSARY_EDGES; mode++) {
                if (is_found(p, (adversary_mode)mode)) continue;
                printf("'%s' passes although %s\n", p->name, p->what);
                missed++;
            }
        }
        if (found) continue;
        printf("nobody has seen '%s' fail\n", one->name);
        missed++;
    }
    return missed;
}

/* A device is lost wherever its works stand: how many of them run then is drawn by the seed. */
static int lose_anywhere(void) {
    int failed = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        memset(&given, 0, sizeof given);
        given.seed = seed;
        given.mode = seed % 2 ? ADVERSARY_BATCHES : ADVERSARY_EDGES;
        const contract_kit kit = {.name = "lost anywhere",
                                  .driver = &adversary_driver,
                                  .before_open = begin,
                                  .after_close = end,
                                  .in_use = in_use,
                                  .lose = lose};
        if (contract_passes(&kit, "loss")) continue;
        printf("'loss' fails with seed %llu\n", (unsigned long long)seed);
        failed++;
    }
    return failed;
}

int main(void) {
    int failed = can_fork ? judge() + lose_anywhere() : 0;
    static const struct {
        adversary_mode mode;
        const char *name;
    } modes[] = {{ADVERSARY_BATCHES, "adversary by batches"}, {ADVERSARY_EDGES, "adversary by edges"}};
    for (uint32_t i = 0; i < 2; i++) {
        memset(&given, 0, sizeof given);
        given.mode = modes[i].mode;
        given.seed = 77;
        given.unified_host = i == 1;
        const contract_kit kit = {.name = modes[i].name,
                                  .driver = &adversary_driver,
                                  .slow = 2,
                                  .idle_ms_max = 30,
                                  .before_open = begin,
                                  .after_close = end,
                                  .in_use = in_use,
                                  .lose = lose};
        failed += contract_main(&kit);
    }
    return failed != 0;
}
