/* rota-fuzz: random graphs on a device and on the reference that runs nodes one by one; integer contents,
 * compared bit for bit. Every case follows from its seed; a failure prints the command that repeats it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "sched/plan/compiled.h"
#include "sched/runtime.h"
#include "sched/runtime/memory/import.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/kernels/kernels.h"
#include "tests/random/cancelling.h"
#include "tests/random/decide.h"
#include "tests/random/faulting.h"
#include "tests/random/held.h"
#include "tests/random/hosts_later.h"
#include "tests/random/mirror.h"
#include "tests/kit/random.h"
#include "tests/random/reach.h"

enum { SCRIPT_MAX = 16, CASES_PER_RUNTIME = 64, DEVICES_MAX = 3 };
static const char *const device_option[DEVICES_MAX] = {"--device", "--second", "--third"};
static const uint64_t patience_ns = 30u * 1000000000ull;

typedef struct fuzz {
    const char *ids[DEVICES_MAX]; /* of the devices that nodes are placed on at random; NULL past the last */
    uint64_t count, seed;
    mirror_limits limits;
    uint32_t mode;   /* the adversary's, plus 1; 0: drawn */
    uint64_t order;  /* changes the adversary's choices and nothing else */
    const char *dot; /* the last graph's plan goes there */
    bool touch, validation, print, trace, no_reach;
    bool few_turns;         /* Vulkan devices record a turn of each loop */
    bool watched;           /* kernels are (check_kernels) */
    bool after;             /* submissions come after points of an application's */
    bool cancel;            /* tickets are cancelled */
    bool conditional;       /* nodes are in bodies of nodes that decide */
    bool later;             /* host nodes end later than they begin */
    bool shared, apart;     /* the devices must share memory, the adversary's say so; they must not */
    bool peers;             /* or read each other's: the adversary's, or the stand-in's, are peers */
    bool fault;             /* and one of them reports an error, once a case */
    bool ordered;           /* and some must have waited for each other without the host, if any could */
    bool can_wait;          /* of some runtime that was open some could */
    uint64_t configuration; /* of the open runtime */
    adversary_options adversary;
    rota_runtime *runtime;
    held *held; /* NULL: no submission comes after points */
    cancelling cancelling;
    faulting faulting;
    rota_device *devices[DEVICES_MAX];
    uint32_t device_count, queues;
    _Atomic uint32_t errors_logged;
    uint64_t nodes, submissions, largest, device_waits, peer_bytes, held_count, iterations, counted;
} fuzz;

/* ---- The runtime ---- */

static void log_line(void *user, rota_log_level level, const char *message) {
    fuzz *f = user;
    if (level >= ROTA_LOG_ERROR && !f->fault) {
        atomic_fetch_add(&f->errors_logged, 1);
        fprintf(stderr, "rota: %s\n", message);
    }
}

static int fail(const char *what) {
    fprintf(stderr, "rota-fuzz: %s: %s\n", what, rota_last_error());
    return 2;
}

/* Of the stand-in's driver: ifs for switches; all; no conditional nodes, so that no device waits for this one without
 * the host. */
static int stub_version(uint64_t seed) {
    static const int versions[] = {12040, 13000, 12030};
    return versions[seed % 3];
}

/* "cuda-stub": cuda:0 with the stand-in for the CUDA driver. False where a build has no CUDA kernels. */
static bool open_stub(const fuzz *f, uint64_t seed) {
    if (strcmp(f->ids[0], "cuda-stub") != 0) return true;
#ifdef ROTA_HAVE_CUDA
    if (!test_kernels[0].kernel.cuda.image) return false;
    cuda_stub_start(seed + f->order, 2);
    if (f->peers) cuda_stub_gpus_apart();
    for (uint32_t k = 0; k < TEST_KERNEL_COUNT; k++) cuda_stub_kernel(&test_kernels[k].kernel);
    cuda_stub_kernel(&decide_count_down);
    cuda_stub_version(stub_version(seed));
    return true;
#else
    (void)seed;
    return false;
#endif
}

static int close_stub(const fuzz *f) {
    int result = 0;
#ifdef ROTA_HAVE_CUDA
    if (strcmp(f->ids[0], "cuda-stub") != 0) return 0;
    char text[256];
    if (cuda_stub_violations(text, sizeof text)) result = 2;
    if (result) fprintf(stderr, "rota-fuzz: %s\n", text);
    if (cuda_stub_alive(text, sizeof text)) {
        fprintf(stderr, "rota-fuzz: left in the driver: %s\n", text);
        result = 2;
    }
    cuda_stub_stop();
#else
    (void)f;
#endif
    return result;
}

static bool is_stub(const fuzz *f) {
    return strcmp(f->ids[0], "cuda-stub") == 0;
}

static bool has_adversary(const fuzz *f) {
    for (uint32_t i = 0; i < DEVICES_MAX && f->ids[i]; i++)
        if (strncmp(f->ids[i], "adversary", 9) == 0) return true;
    return false;
}

static const char *device_id(const char *name) {
    return strcmp(name, "cuda-stub") == 0 ? "cuda:0" : name;
}

static int close_runtime(fuzz *f) {
    if (!f->runtime) return 0;
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(f->runtime, &stats);
    f->device_waits += stats.device_waits;
    f->peer_bytes += stats.peer_bytes;
    if (f->held) {
        f->held_count += held_count(f->held);
        held_close(f->held);
        f->held = NULL;
    }
    rota_status status = rota_runtime_close(f->runtime, patience_ns);
    f->runtime = NULL;
    if (status != ROTA_OK) return fail("closing the runtime");
    return close_stub(f);
}

/* Cases in a row share a runtime; what varies between runtimes follows from the case's seed too. */
static int open_runtime(fuzz *f, uint64_t seed) {
    uint64_t configuration = seed / CASES_PER_RUNTIME;
    if (f->runtime && f->configuration == configuration && !f->fault) return 0; /* a lost device stays lost */
    if (close_runtime(f)) return 2;
    uint64_t random = configuration;
    f->configuration = configuration;
    f->queues = 1 + test_below(&random, 5);
    rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.log = {log_line, f, ROTA_LOG_WARNING}, .timeout_ns = patience_ns,
                             .queues_per_device = f->queues, .staging_slots = 2 + test_below(&random, 6),
                             .staging_slot_bytes = 1024u << test_below(&random, 6),
                             .validation = f->validation, .diagnostics = test_below(&random, 8) == 0,
                             .worker_threads =
                                 strcmp(f->ids[0], "cpu") == 0 ? 1 + test_below(&random, 4) : 0);
    memset(&f->adversary, 0, sizeof f->adversary);
    f->adversary.trace = f->trace;
    f->adversary.unified_host = test_below(&random, 4) == 0;
    f->adversary.submit_never_blocks = test_below(&random, 2) == 0;
    f->adversary.no_host_nodes = test_below(&random, 4) == 0;
    f->adversary.mode = (adversary_mode)test_below(&random, 3);
    f->adversary.shares_memory = f->shared;
    f->adversary.timelines = (f->shared || f->peers) && configuration % 4 != 0;
    f->adversary.foreign = f->shared && is_stub(f);
    f->adversary.peers = f->peers;
    f->can_wait |=
        (f->adversary.timelines || !has_adversary(f)) && !(is_stub(f) && stub_version(seed) < 12040);
    /* No less than the smoke test's buffers; arenas are cut at it. */
    if (f->mode) f->adversary.mode = (adversary_mode)(f->mode - 1);
    if (test_below(&random, 3) == 0) f->adversary.max_allocation_bytes = 262144;
    if (f->print)
        printf("runtime: %u queues, %u staging slots of %u bytes, diagnostics %d; adversary: unified %d, "
               "submit never blocks %d, "
               "no host nodes %d, mode %d\n",
               f->queues, options.staging_slots, (unsigned)options.staging_slot_bytes, options.diagnostics,
               f->adversary.unified_host, f->adversary.submit_never_blocks, f->adversary.no_host_nodes,
               (int)f->adversary.mode);
    if (!open_stub(f, seed)) {
        rota_fail(ROTA_UNSUPPORTED, "this build has no CUDA kernels");
        return 3;
    }
    rota_status status = rota_runtime_open(&options, &f->runtime);
    if (status == ROTA_OK) status = rota_runtime_add_driver(f->runtime, &adversary_driver, &f->adversary);
    if (status == ROTA_OK && f->apart) status = rota_runtime_set_unshared(f->runtime, true);
    if (status == ROTA_OK && f->touch) status = rota_runtime_set_touch(f->runtime, true);
    if (status == ROTA_OK && f->few_turns) status = rota_runtime_set_few_turns(f->runtime, true);
    f->device_count = 0;
    while (status == ROTA_OK && f->device_count < DEVICES_MAX && f->ids[f->device_count]) {
        status =
            rota_device_open(f->runtime, device_id(f->ids[f->device_count]), &f->devices[f->device_count]);
        f->device_count++;
    }
    if (status == ROTA_OK && f->shared && !rota_device_shares(f->devices[0], f->devices[1])) {
        (void)rota_fail(ROTA_SYSTEM, "the first two devices share no memory");
        return fail("opening the devices");
    }
    if (status == ROTA_OK && f->after) f->held = held_open(f->runtime, seed);
    if (status == ROTA_OK) return 0;
    (void)fail("opening the device");
    /* A device that is there and fails its smoke test is no reason to skip. */
    return status == ROTA_NOT_FOUND || status == ROTA_UNSUPPORTED ? 3 : 2;
}

/* ---- One case ---- */

typedef struct run {
    fuzz *f;
    mirror_case mirror;
    uint64_t random;
    uint32_t replay_count;
    bool cancels; /* what is submitted now may be cancelled */
    bool faults;  /* a device may fail, or has */
    struct {
        mirror_graph *graph;
        mirror_replay replay;
        rota_ticket ticket;
        bool asked; /* it may be cancelled */
    } replays[SCRIPT_MAX];
    char trouble[512];
} run;

static bool trouble(run *r, const char *what) {
    if (!r->trouble[0]) snprintf(r->trouble, sizeof r->trouble, "%s: %s", what, rota_last_error());
    return false;
}

static bool differ(run *r, const char *what, const char *name, uint32_t index, uint32_t byte,
                   unsigned expected, unsigned got) {
    if (!r->trouble[0])
        snprintf(r->trouble, sizeof r->trouble, "%s '%s' %u, byte %u: %02x expected, %02x found", what, name,
                 index, byte, expected, got);
    return false;
}

static bool make_persistents(run *r) {
    mirror_case *mirror = &r->mirror;
    for (uint32_t p = 0; p < mirror->persistent_count; p++) {
        char name[16];
        snprintf(name, sizeof name, "p%u", p);
        mirror_persistent *persistent = &mirror->persistents[p];
        if (rota_buffer_create_in(r->f->runtime, name, persistent->bytes, &persistent->handle) != ROTA_OK)
            return trouble(r, "making a buffer");
        rota_device *device = test_below(&r->random, 2) ? r->f->devices[0] : NULL;
        if (!device && r->f->device_count > 1)
            device = r->f->devices[test_below(&r->random, r->f->device_count)];
        if (rota_buffer_write(persistent->handle, device, 0, persistent->values, persistent->bytes, NULL) !=
            ROTA_OK)
            return trouble(r, "writing a buffer");
    }
    return true;
}

static bool compile_graphs(run *r) {
    for (uint32_t g = 0; g < r->mirror.graph_count; g++) {
        mirror_graph *graph = &r->mirror.graphs[g];
        if (mirror_record(&r->mirror, graph, &r->random) != ROTA_OK) return trouble(r, "recording");
        /* Where it can be, in the memory of the one before. */
        const mirror_graph *before = g > 0 ? &r->mirror.graphs[g - 1] : NULL;
        if (before && r->f->device_count == 1 && before->options.arenas == 1 && graph->options.arenas == 1)
            graph->options.arena_of = before->plan;
        graph->options.check_kernels = r->f->watched;
        if (mirror_compile(graph, r->f->runtime, r->f->devices, r->f->device_count) != ROTA_OK)
            return trouble(r, "compiling");
        r->f->nodes += graph->node_count;
        for (uint32_t n = 0; n < graph->node_count; n++)
            r->f->counted += graph->nodes[n].count_max_plus_1 != 0;
        if (r->f->dot && rota_plan_write_dot(graph->plan, r->f->dot) != ROTA_OK)
            return trouble(r, "writing the dot file");
        if (graph->node_count > r->f->largest) r->f->largest = graph->node_count;
        char message[384];
        for (reach_mode mode = REACH_BATCHES; mode <= REACH_EDGES && !r->f->no_reach; mode++)
            if (!reach_check(graph->plan, mode, NULL, message, sizeof message)) {
                snprintf(r->trouble, sizeof r->trouble, "graph %u: %s", g, message);
                return false;
            }
    }
    return true;
}

/* Whether what was asked for is well, or was cancelled, or is a lost device's, where it may be: then *out_is_well is
 * false. */
static bool is_allowed(run *r, rota_status status, bool asked, const char *what, bool *out_is_well) {
    *out_is_well = status == ROTA_OK;
    if (r->faults && faulting_allows(&r->f->faulting, status)) return true;
    if (*out_is_well && !r->f->cancel) return true;
    if (r->f->cancel && cancelling_allows(&r->f->cancelling, status, asked)) return true;
    return trouble(r, what);
}

static bool host_write(run *r, mirror_persistent *persistent) {
    uint32_t offset = test_below(&r->random, persistent->bytes);
    uint32_t bytes = 1 + test_below(&r->random, persistent->bytes - offset);
    uint8_t *own = malloc(bytes);
    if (!own) abort();
    for (uint32_t i = 0; i < bytes; i++) own[i] = (uint8_t)test_random(&r->random);
    rota_ticket ticket;
    bool is_well;
    const rota_status status = rota_buffer_write(persistent->handle, NULL, offset, own, bytes, &ticket);
    const bool good = status == ROTA_OK || is_allowed(r, status, false, "writing a buffer", &is_well);
    if (status == ROTA_OK) memcpy(persistent->values + offset, own, bytes); /* else nothing was written */
    free(own);
    if (status == ROTA_OK && r->f->cancel) (void)cancelling_draw(&r->f->cancelling, &r->random, ticket);
    return good;
}

static bool host_read(run *r, uint32_t p, bool whole) {
    const mirror_persistent *persistent = &r->mirror.persistents[p];
    uint32_t offset = whole ? 0 : test_below(&r->random, persistent->bytes);
    uint32_t bytes = whole ? persistent->bytes : 1 + test_below(&r->random, persistent->bytes - offset);
    uint8_t *got = malloc(bytes);
    if (!got) abort();
    memset(got, 0x77, bytes);
    rota_status status;
    bool asked = false, is_well;
    if ((offset ^ bytes) & 1u) {
        rota_ticket ticket;
        status = rota_buffer_read_async(persistent->handle, offset, got, bytes, &ticket);
        if (status == ROTA_OK && r->f->cancel && !whole)
            asked = cancelling_draw(&r->f->cancelling, &r->random, ticket);
        if (status == ROTA_OK) status = rota_wait(ticket, 0);
    } else {
        status = rota_buffer_read(persistent->handle, offset, got, bytes);
    }
    bool good = is_allowed(r, status, asked, "reading a buffer", &is_well);
    for (uint32_t i = 0; i < bytes && good && !r->f->touch; i++) {
        const uint8_t expected = is_well ? persistent->values[offset + i] : 0x77; /* left as it was */
        if (got[i] != expected)
            good = differ(r, "persistent buffer", rota_buffer_name(persistent->handle), p, offset + i,
                          expected, got[i]);
    }
    free(got);
    return good;
}

/* Now and then more than a node may count, which fails, and with it what reads of that: as what is cancelled. */
static void draw_excess(run *r, const mirror_graph *graph, mirror_replay *replay) {
    const uint32_t word = test_below(&r->random, MIRROR_COUNTS);
    if (graph->count_most[word] == 0 || test_below(&r->random, 4)) return;
    replay->counts[word] = graph->count_most[word] + 1 + test_below(&r->random, 3);
}

static bool submit(run *r, mirror_graph *graph) {
    uint32_t index = r->replay_count++;
    mirror_replay *replay = &r->replays[index].replay;
    r->replays[index].graph = graph;
    mirror_replay_generate(&r->mirror, graph, &r->random, replay);
    if (r->cancels && r->f->limits.counted) draw_excess(r, graph, replay);
    bool copy = test_below(&r->random, 3) == 0, is_well;
    rota_status status = mirror_set_args(&r->mirror, graph, replay, copy);
    if (status != ROTA_OK) { /* nothing was submitted */
        r->replay_count--;
        mirror_replay_free(graph, replay);
        return is_allowed(r, status, false, "setting arguments", &is_well);
    }
    reference_run(&r->mirror, graph, replay);
    r->f->iterations += decide_iterations(graph);
    rota_submit_options options = ROTA_SUBMIT_OPTIONS(.args = graph->args, .timeout_ns = patience_ns);
    if (r->f->held) held_draw(r->f->held, &r->random, &options);
    r->replays[index].asked = r->cancels && cancelling_draw_deadline(&r->random, &options);
    if (rota_submit_with(graph->plan, &options, &r->replays[index].ticket) != ROTA_OK)
        return trouble(r, "submitting");
    r->f->submissions++;
    const uint32_t other = test_below(&r->random, r->replay_count);
    if (r->cancels && cancelling_draw(&r->f->cancelling, &r->random, r->replays[other].ticket))
        r->replays[other].asked = true;
    /* A copied input may be changed at once, a borrowed one after its inputs were taken. */
    if (!copy && test_below(&r->random, 4)) return true;
    status = copy ? ROTA_OK : rota_wait_inputs_taken(r->replays[index].ticket, patience_ns);
    if (status != ROTA_OK && !is_allowed(r, status, false, "waiting for inputs taken", &is_well))
        return false;
    for (uint32_t b = 0; b < graph->buffer_count; b++)
        if (graph->buffers[b].kind == ROTA_BUFFER_INPUT && !graph->buffers[b].is_view)
            memset(replay->data[b], 0x5a, graph->buffers[b].bytes);
    return true;
}

static bool play_script(run *r) {
    mirror_case *mirror = &r->mirror;
    for (uint32_t i = 0; i < mirror->script_length && i < SCRIPT_MAX; i++) {
        uint32_t action = test_below(&r->random, 12), p = test_below(&r->random, mirror->persistent_count);
        bool good = true;
        if (action == 0)
            good = host_write(r, &mirror->persistents[p]);
        else if (action == 1)
            good = host_read(r, p, false);
        else
            good = submit(r, &mirror->graphs[test_below(&r->random, mirror->graph_count)]);
        bool is_well;
        if (good && action == 2 && r->replay_count)
            good = is_allowed(r, rota_wait(r->replays[r->replay_count - 1].ticket, patience_ns),
                              r->replays[r->replay_count - 1].asked, "waiting", &is_well);
        if (!good) return false;
    }
    return true;
}

/* Nothing is left of what was cancelled once all has been written over: then everything is well again. */
static bool heal(run *r) {
    r->cancels = false;
    for (uint32_t p = 0; p < r->mirror.persistent_count; p++) {
        const mirror_persistent *persistent = &r->mirror.persistents[p];
        if (rota_buffer_write(persistent->handle, NULL, 0, persistent->values, persistent->bytes, NULL) !=
            ROTA_OK)
            return trouble(r, "writing a buffer");
    }
    const uint32_t before = r->replay_count;
    for (uint32_t g = 0; g < r->mirror.graph_count && r->replay_count < SCRIPT_MAX; g++)
        if (!submit(r, &r->mirror.graphs[g])) return false;
    for (uint32_t i = before; i < r->replay_count; i++) {
        if (rota_wait(r->replays[i].ticket, patience_ns) != ROTA_OK) return trouble(r, "waiting");
        r->f->cancelling.healed++;
    }
    return true;
}

/* What is written anew on the last device, which is none of the GPU's, is there again. A write that comes after what a
 * lost device left fails with it; the next one comes after that write alone. */
static bool renew(run *r) {
    faulting_disarm(is_stub(r->f), &r->f->adversary);
    r->faults = false;
    for (uint32_t p = 0; p < r->mirror.persistent_count; p++) {
        const mirror_persistent *persistent = &r->mirror.persistents[p];
        rota_status status = ROTA_DEVICE_LOST;
        for (uint32_t tries = 0; status == ROTA_DEVICE_LOST && tries < 2; tries++) {
            rota_ticket ticket;
            status = rota_buffer_write(persistent->handle, r->f->devices[r->f->device_count - 1], 0,
                                       persistent->values, persistent->bytes, &ticket);
            if (status == ROTA_OK) status = rota_wait(ticket, patience_ns);
        }
        if (status != ROTA_OK) return trouble(r, "writing a buffer anew");
        r->f->faulting.healed++;
    }
    return true;
}

static bool check_replays(run *r) {
    for (uint32_t i = 0; i < r->replay_count; i++) {
        bool is_well;
        if (!is_allowed(r, rota_wait(r->replays[i].ticket, patience_ns), r->replays[i].asked, "waiting",
                        &is_well))
            return false;
        if (!is_well) continue;
        if (r->replays[i].replay.exceeds && !r->f->touch)
            return trouble(r, "a count was too high, and the submission is well");
        const mirror_graph *graph = r->replays[i].graph;
        for (uint32_t b = 0; b < graph->buffer_count && !r->f->touch; b++) {
            const mirror_buffer *buffer = &graph->buffers[b];
            if (buffer->kind != ROTA_BUFFER_OUTPUT || buffer->is_view) continue;
            const mirror_replay *replay = &r->replays[i].replay;
            int64_t word = reference_compare(buffer, replay->expected[b], replay->data[b]);
            if (word >= 0)
                return differ(r, "output", buffer->name, i, (uint32_t)word, replay->expected[b][word],
                              replay->data[b][word]);
        }
    }
    return true;
}

static bool run_case(fuzz *f, uint64_t seed) {
    run *r = calloc(1, sizeof *r);
    if (!r) abort();
    r->f = f;
    r->random = seed ^ 0x5eed;
    mirror_limits limits = f->limits;
    limits.queues = f->queues;
    limits.devices = f->device_count;
    mirror_generate(&r->mirror, seed, &limits);
    /* Bodies run where their nodes do, on the first device: CUDA's takes no host functions there. */
    if (f->conditional) decide_draw(&r->mirror, strncmp(f->ids[0], "cuda", 4) != 0, &r->random);
    if (f->later) hosts_later_draw(&r->mirror, &r->random);
    if (f->print) mirror_print(&r->mirror);
    atomic_store(&f->adversary.seed, seed + f->order);
    r->cancels = f->cancel;
    f->cancelling.may_exceed = f->limits.counted;
    bool good = make_persistents(r) && compile_graphs(r);
    r->faults = good && f->fault;
    if (r->faults) faulting_arm(&f->faulting, &r->random, is_stub(f), &f->adversary);
    good = good && play_script(r) && (!f->cancel || heal(r));
    /* Destroying what is in flight is legal; half of the cases do. */
    bool early = test_below(&r->random, 2) == 0;
    for (uint32_t g = 0; g < r->mirror.graph_count && early; g++) mirror_release(&r->mirror.graphs[g]);
    good = good && check_replays(r) && (!f->fault || renew(r));
    for (uint32_t p = 0; p < r->mirror.persistent_count && good; p++) good = host_read(r, p, true);
    if (good && atomic_load(&f->adversary.violations)) {
        snprintf(r->trouble, sizeof r->trouble, "contract violated: %s", f->adversary.violation);
        good = false;
    }
    if (good && atomic_load(&f->errors_logged)) {
        snprintf(r->trouble, sizeof r->trouble, "an error was logged");
        good = false;
    }
    for (uint32_t g = 0; g < r->mirror.graph_count && !early; g++) mirror_release(&r->mirror.graphs[g]);
    for (uint32_t p = 0; p < r->mirror.persistent_count; p++)
        rota_buffer_release(r->mirror.persistents[p].handle);
    if (!good) {
        printf("FAILED seed %" PRIu64 ": %s\nrepeat: rota-fuzz", seed, r->trouble);
        for (uint32_t d = 0; d < f->device_count; d++) printf(" %s %s", device_option[d], f->ids[d]);
        printf(" --seed %" PRIu64 " --count 1 --nodes %u --bytes %u%s%s%s%s\n", seed, f->limits.nodes,
               f->limits.bytes, f->touch ? " --touch" : "",
               f->shared  ? " --shared"
               : f->peers ? " --peers"
                          : "",
               f->apart ? " --apart" : "",
               f->watched  ? " --watched"
               : f->cancel ? " --cancel"
                           : "");
        if (f->after) printf("repeat with --after\n");
        if (f->fault) printf("repeat with --fault\n");
        if (f->conditional) printf("repeat with --conditional%s\n", f->few_turns ? " --few-turns" : "");
        if (f->limits.counted) printf("repeat with --counted\n");
        if (f->later) printf("repeat with --later\n");
    }
    if (good)
        for (uint32_t i = 0; i < r->replay_count; i++)
            mirror_replay_free(r->replays[i].graph, &r->replays[i].replay);
    if (good) mirror_free(&r->mirror);
    if (good) free(r); /* Else what is in flight may still look at it. */
    return good;
}

/* ---- The program ---- */

static const char usage[] =
    "rota-fuzz [--device cpu|adversary|vk:0|cuda:0|cuda-stub|...] [--second DEVICE [--third DEVICE]] "
    "[--shared|--peers [--ordered] [--fault]] [--apart]\n"
    "          [--count N] [--seed S] [--nodes N] [--bytes N] [--touch] [--validation] [--no-reach] "
    "[--no-host-nodes] [--watched] [--after] [--cancel] [--conditional] [--few-turns] [--counted] [--later] "
    "[--place] [--print]\n"
    "          [--trace] [--keep NODES] [--dot FILE] [--seconds N] [--mode 1|2|3 (either, batches, edges)] "
    "[--order N]\n";

/* An option without a value. False: there is no such. */
static bool take_flag(fuzz *f, const char *option) {
    if (strcmp(option, "--touch") == 0)
        f->touch = f->validation = true;
    else if (strcmp(option, "--validation") == 0)
        f->validation = true;
    else if (strcmp(option, "--shared") == 0)
        f->shared = true;
    else if (strcmp(option, "--peers") == 0)
        f->peers = true;
    else if (strcmp(option, "--ordered") == 0)
        f->ordered = true;
    else if (strcmp(option, "--fault") == 0)
        f->fault = true;
    else if (strcmp(option, "--apart") == 0)
        f->apart = true;
    else if (strcmp(option, "--no-reach") == 0)
        f->no_reach = true;
    else if (strcmp(option, "--watched") == 0)
        f->watched = true;
    else if (strcmp(option, "--after") == 0)
        f->after = true;
    else if (strcmp(option, "--cancel") == 0)
        f->cancel = true;
    else if (strcmp(option, "--conditional") == 0)
        f->conditional = true;
    else if (strcmp(option, "--few-turns") == 0)
        f->few_turns = true;
    else if (strcmp(option, "--counted") == 0)
        f->limits.counted = true;
    else if (strcmp(option, "--later") == 0)
        f->later = f->limits.many_host_nodes = true;
    else if (strcmp(option, "--place") == 0)
        f->limits.automatic = true;
    else if (strcmp(option, "--no-host-nodes") == 0)
        f->limits.host_nodes = false;
    else if (strcmp(option, "--print") == 0)
        f->print = true;
    else if (strcmp(option, "--trace") == 0)
        f->trace = true;
    else
        return false;
    return true;
}

/* Of what options asked for. */
static void print_counts(const fuzz *f) {
    if (f->after) printf("%" PRIu64 " submissions came after points\n", f->held_count);
    if (f->conditional) printf("%" PRIu64 " iterations of bodies\n", f->iterations);
    if (f->limits.counted)
        printf("%" PRIu64 " of the nodes were counted; %" PRIu64 " times a count was too high\n", f->counted,
               f->cancelling.exceeded);
    if (f->later) printf("%" PRIu64 " host nodes ended later\n", hosts_later_stop());
    if (f->fault)
        printf("%" PRIu64 " devices were to fail: %" PRIu64 " were told of a loss, %" PRIu64
               " failed with what came before, %" PRIu64 " were well, and %" PRIu64 " buffers afterwards\n",
               f->faulting.armed, f->faulting.lost, f->faulting.inherited, f->faulting.well,
               f->faulting.healed);
    if (f->cancel)
        printf("%" PRIu64 " were cancelled of %" PRIu64 " that were to be, %" PRIu64 " by deadlines, %" PRIu64
               " failed with them, %" PRIu64 " were well, and %" PRIu64 " afterwards\n",
               f->cancelling.cancelled, f->cancelling.asked, f->cancelling.late, f->cancelling.inherited,
               f->cancelling.well, f->cancelling.healed);
}

static int run_all(int argc, char **argv) {
    static fuzz f = {.ids = {"adversary"},
                     .count = 1000,
                     .seed = 1,
                     .limits = {.nodes = 500, .bytes = 8192, .granule = 4, .host_nodes = true}};
    uint64_t seconds = 0;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        bool takes = true;
        uint32_t device = 0;
        while (device < DEVICES_MAX && strcmp(option, device_option[device]) != 0) device++;
        if (device < DEVICES_MAX)
            f.ids[device] = value;
        else if (strcmp(option, "--count") == 0)
            f.count = strtoull(value, NULL, 0);
        else if (strcmp(option, "--seed") == 0)
            f.seed = strtoull(value, NULL, 0);
        else if (strcmp(option, "--nodes") == 0)
            f.limits.nodes = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(option, "--bytes") == 0)
            f.limits.bytes = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(option, "--keep") == 0)
            f.limits.keep_nodes = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(option, "--mode") == 0)
            f.mode = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(option, "--order") == 0)
            f.order = strtoull(value, NULL, 0);
        else if (strcmp(option, "--dot") == 0)
            f.dot = value;
        else if (strcmp(option, "--seconds") == 0)
            seconds = strtoull(value, NULL, 0);
        else {
            takes = false;
            if (!take_flag(&f, option)) {
                fputs(usage, stderr);
                return 1;
            }
        }
        i += takes;
    }
    if ((f.ids[2] && !f.ids[1]) || f.limits.nodes == 0 || f.limits.bytes < 64 || f.count == 0 ||
        (f.fault && !((f.shared || f.peers) && f.ids[2]))) {
        fputs(usage, stderr);
        return 1;
    }
    if (f.touch) f.limits.granule = 16;
    uint64_t begin = rota_clock_ns(), done = 0;
    int result = 0;
    if (f.later) hosts_later_start();
    for (; done < f.count && result == 0; done++) {
        if (seconds && rota_clock_ns() - begin > seconds * 1000000000u) break;
        result = open_runtime(&f, f.seed + done);
        if (result == 3) {
            printf("skipped: %s is not usable: %s\n", f.ids[0], rota_last_error());
            return 77;
        }
        if (result == 0 && !run_case(&f, f.seed + done)) return 2;
    }
    if (result == 0) result = close_runtime(&f);
    printf("%s: %" PRIu64 " cases from seed %" PRIu64 ": %" PRIu64 " nodes (largest graph %" PRIu64
           "), %" PRIu64 " submissions, %" PRIu64 " waits of a device for another, %.1f s%s\n",
           f.ids[0], done, f.seed, f.nodes, f.largest, f.submissions, f.device_waits,
           (double)(rota_clock_ns() - begin) * 1e-9, result ? ", FAILED" : "");
    print_counts(&f);
    if (f.peers) printf("%" PRIu64 " bytes were read of another device's memory\n", f.peer_bytes);
    if (f.peers && result == 0 && done >= 32 && f.peer_bytes == 0) {
        fprintf(stderr, "rota-fuzz: no device read another one's memory\n");
        return 2;
    }
    if (f.ordered && f.can_wait && result == 0 && f.device_waits == 0) {
        fprintf(stderr, "rota-fuzz: no device waited for another one without the host\n");
        return 2;
    }
    if (f.fault && result == 0 && done >= 32 && f.faulting.lost + f.faulting.inherited == 0) {
        fprintf(stderr, "rota-fuzz: no device failed\n");
        return 2;
    }
    return result;
}

/* Not by the drivers' exit handlers where a device was given up. */
int main(int argc, char **argv) {
    int code = run_all(argc, argv);
    if (rota_devices_abandoned() == 0) return code;
    (void)fflush(NULL);
    _exit(code ? code : 2);
}
