/* rota-fuzz-ranks: random programs of collectives on 2 to 8 ranks, each a thread with a runtime of its own, or
 * processes under mpirun: groups, lanes, plans, submissions without waiting, in place or not, beside kernels of each
 * rank's. Where nothing goes wrong, all bytes are those of the steps taken one after the other. In half of the programs
 * of threads one rank does what it may not: then every ticket ends, all who depend on that fail, with a sentence, and
 * who does not has the bytes. A program follows from its seed. With --adversary each rank's nodes run on a device that
 * takes any order that is legal, and its kernels take their time, so that ranks come to their collectives in any order,
 * too. With --cuda each rank has a CUDA device, with collectives by NCCL and by copies, and what would be its kernels
 * are host nodes; --stand-ins: driver and NCCL are those of the tests. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "exec/nccl/nccl_api.h"
#include "exec/smoke_kernel.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"
#include "tests/exec/comm/nccl_standin.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/kit/nap.h"
#include "tests/kit/random.h"
#include "tests/ranks/random_ranks.h"
#include "tests/ranks/rank_cases.h"

static const char usage[] =
    "rota-fuzz-ranks [--count N] [--seed S] [--ranks 2..8] [--seconds N] [--no-faults] [--mpi] "
    "[--timeout SECONDS] "
    "[--adversary] [--cuda [--stand-ins]] [--print]\n";

enum { CUDA_FACTOR = 5 }; /* of counts: many are of more than 256 KiB */
/* Of a collective; what ends by it is wrong. More where a tool makes all slow. */
static uint64_t timeout_ns = 60000000000u; /* what hangs, and nothing else, takes so long */

/* What a rank does by itself. */
typedef struct local_params {
    uint32_t rank, count;
    uint32_t dtype;
    uint32_t fails, nap_us;
} local_params;

typedef struct fuzz_rank {
    const random_program *program;
    uint32_t rank;
    rota_runtime *runtime;
    rota_device *device;
    rota_communicator *communicators[RANDOM_COMMUNICATORS_MOST];
    rota_buffer *buffers[RANDOM_BUFFERS];
    rota_plan *plans[RANDOM_PLANS_MOST];
    const uint32_t *begin, *end; /* all ranks' words */
    uint32_t failed;             /* tickets */
    bool is_closed;              /* by the fault */
    bool by_adversary, on_cuda;
    local_params locals[RANDOM_PLANS_MOST * RANDOM_STEPS_MOST]; /* of host nodes */
    uint32_t local_count;
} fuzz_rank;

/* ---- Recording ---- */

static rota_status apply_local(const local_params *p, const uint32_t *x, uint32_t *y) {
    if (p->nap_us) test_nap_us(p->nap_us);
    if (p->fails) return rota_fail(ROTA_NODE_FAILED, "a kernel that fails");
    for (uint32_t i = 0; i < p->count; i++) y[i] = random_local((rota_dtype)p->dtype, x[i], p->rank, i);
    return ROTA_OK;
}

static rota_status run_local(const rota_kernel_call *call) {
    return apply_local(call->params, call->operands[0], call->operands[1]);
}

static rota_status run_local_on_host(void *user, void *const *operands, const uint64_t *operand_bytes,
                                     uint32_t operand_count) {
    (void)operand_bytes;
    return apply_local(user, operands[0], operands[operand_count - 1]);
}

static const rota_kernel local_kernel = {.name = "local",
                                         .operand_count = 2,
                                         .param_bytes = sizeof(local_params),
                                         .inplace_inputs = 1,
                                         .inplace_outputs = 2,
                                         .cpu = {.fn = run_local}};

/* In place it has one access. */
static void record_local_on_host(fuzz_rank *r, rota_recorder *lane, const local_params *params,
                                 const rota_access accesses[2], bool in_place) {
    rota_access own[2] = {accesses[0], accesses[1]};
    local_params *kept = &r->locals[r->local_count++];
    *kept = *params;
    if (in_place) own[0].mode = ROTA_READWRITE;
    rank_ok(rota_record_host(lane,
                             &ROTA_HOST_NODE(.fn = run_local_on_host, .user = kept, .name = "local",
                                             .accesses = own, .access_count = in_place ? 1 : 2),
                             NULL));
}

static void record_local(fuzz_rank *r, rota_recorder *lane, const random_step *s, bool fails) {
    if (s->count == 0) return;
    uint64_t state = r->program->seed * 64 + (uint64_t)r->rank * 8 + s->lane + s->x_first;
    const uint32_t nap_us = r->by_adversary && test_below(&state, 3) == 0 ? test_below(&state, 400) : 0;
    const local_params params = {r->rank, s->count, s->dtype, fails, nap_us};
    const uint64_t bytes = 4 * (uint64_t)s->count;
    const rota_access accesses[] = {{r->buffers[s->x], 4 * (uint64_t)s->x_first, bytes, ROTA_READ},
                                    {r->buffers[s->y], 4 * (uint64_t)s->y_first, bytes, ROTA_WRITE}};
    if (r->on_cuda)
        record_local_on_host(r, lane, &params, accesses, s->x == s->y);
    else
        rank_ok(rota_record_kernel(lane,
                                   &ROTA_KERNEL_NODE(.kernel = &local_kernel, .accesses = accesses,
                                                     .access_count = 2, .params = &params),
                                   NULL));
}

static rota_tensor tensor(const fuzz_rank *r, const random_step *s, uint32_t buffer, uint32_t first,
                          uint32_t rows) {
    rota_tensor made;
    rank_ok(rota_tensor_of(r->buffers[buffer], 4 * (uint64_t)first, s->dtype,
                           ROTA_SHAPE((uint64_t)rows * s->count), &made));
    return made;
}

static void record_send(const fuzz_rank *r, rota_tape *tape, const random_step *s, const random_group *g) {
    if (g->size == 1) return;
    const uint32_t from = random_from(s, g), to = random_to(s, g);
    rota_communicator *communicator = r->communicators[s->communicator];
    if (g->rank == from) rank_ok(rota_op_send(tape, communicator, to, tensor(r, s, s->x, s->x_first, 1)));
    if (g->rank == to)
        rank_ok(rota_op_receive_into(tape, communicator, from, tensor(r, s, s->y, s->y_first, 1)));
}

static void record_step(const fuzz_rank *r, rota_tape *tape, const random_step *s) {
    const random_group g = random_group_of(r->program, s->communicator, r->rank);
    rota_communicator *communicator = r->communicators[s->communicator];
    const bool x_is_whole = s->kind == RANDOM_REDUCE_SCATTER || s->kind == RANDOM_ALL_TO_ALL,
               y_is_whole = s->kind == RANDOM_ALL_GATHER || s->kind == RANDOM_ALL_TO_ALL;
    const rota_tensor x = tensor(r, s, s->x, random_x_first(s, g.rank), x_is_whole ? g.size : 1),
                      y = tensor(r, s, s->y, random_y_first(s, g.rank), y_is_whole ? g.size : 1);
    switch (s->kind) {
    case RANDOM_ALL_REDUCE:
        rank_ok(rota_op_all_reduce_into(tape, communicator, x, s->reduction, y));
        break;
    case RANDOM_REDUCE_SCATTER:
        rank_ok(rota_op_reduce_scatter_into(tape, communicator, x, s->reduction, y));
        break;
    case RANDOM_ALL_GATHER:
        rank_ok(rota_op_all_gather_into(tape, communicator, x, y));
        break;
    case RANDOM_ALL_TO_ALL:
        rank_ok(rota_op_all_to_all_into(tape, communicator, x, y));
        break;
    case RANDOM_BROADCAST:
        rank_ok(rota_op_broadcast_from_into(tape, communicator, random_from(s, &g), x, y));
        break;
    case RANDOM_SEND:
        record_send(r, tape, s, &g);
        break;
    default:
        rank_ok(rota_op_barrier(tape, communicator));
    }
}

static void compile_plan(fuzz_rank *r, uint32_t plan) {
    const random_program *p = r->program;
    rota_graph *graph;
    char name[16];
    (void)snprintf(name, sizeof name, "plan %u", plan);
    rank_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &graph));
    uint32_t k = 0;
    for (uint32_t lane = 0; lane < RANDOM_LANES; lane++) {
        rota_recorder *recorder;
        rota_tape *tape;
        rank_ok(rota_recorder_open(graph, lane, NULL, &recorder));
        rank_ok(rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
        for (; k < p->step_counts[plan] && p->steps[plan][k].lane == lane; k++) {
            random_step step = p->steps[plan][k];
            const bool is_fault = p->fault_rank == r->rank && p->fault_plan == plan && p->fault_step == k;
            if (is_fault && p->fault == RANDOM_OTHER_STEP) step.count++;
            if (step.kind == RANDOM_LOCAL)
                record_local(r, recorder, &step, is_fault && p->fault == RANDOM_NODE_FAILS);
            else
                record_step(r, tape, &step);
        }
        rota_tape_destroy(tape);
        rota_recorder_close(recorder);
    }
    rank_ok(rota_compile(r->runtime, graph,
                         &ROTA_COMPILE_OPTIONS(.devices = &r->device, .device_count = 1, .certify = true),
                         &r->plans[plan]));
    rota_graph_release(graph);
}

/* ---- Running ---- */

static void set_up(fuzz_rank *r) {
    const random_program *p = r->program;
    if (!r->on_cuda) rank_ok(rota_device_open(r->runtime, r->by_adversary ? "adversary" : "cpu", &r->device));
    for (uint32_t c = 1; c < p->communicator_count; c++) {
        char name[24];
        (void)snprintf(name, sizeof name, "split %u", c);
        rank_ok(rota_communicator_open_split(r->communicators[0], p->colors[c][r->rank], p->keys[c][r->rank],
                                             name, &r->communicators[c]));
    }
    for (uint32_t b = 0; b < RANDOM_BUFFERS; b++) {
        const size_t bytes = 4 * (size_t)p->elements;
        rank_ok(rota_buffer_create_in(r->runtime, "t", bytes, &r->buffers[b]));
        rank_ok(rota_buffer_write(r->buffers[b], NULL, 0,
                                  r->begin + ((size_t)r->rank * RANDOM_BUFFERS + b) * p->elements, bytes,
                                  NULL));
    }
    for (uint32_t plan = 0; plan < p->plan_count; plan++) compile_plan(r, plan);
}

/* What the fault's rank does at its place, that is no node's. */
static void do_fault(fuzz_rank *r) {
    const random_program *p = r->program;
    rota_communicator **communicator = &r->communicators[p->fault_communicator];
    if (p->fault == RANDOM_ABORT) rank_ok(rota_communicator_abort(*communicator, "given up by the fuzzer"));
    if (p->fault != RANDOM_CLOSE) return;
    rank_ok(rota_communicator_close(*communicator, 0));
    r->is_closed = true;
}

static void wait_for(fuzz_rank *r, rota_ticket ticket) {
    const uint64_t begin_ns = rota_clock_ns();
    const rota_status status = rota_wait(ticket, 0);
    if (status == ROTA_OK) return;
    const char *said = rota_last_error();
    rank_want(r->program->fault != RANDOM_NO_FAULT, "rank %u: %s: %s", r->rank, rota_status_name(status),
              said);
    rank_want(status != ROTA_TIMEOUT && rota_clock_ns() - begin_ns < timeout_ns,
              "rank %u: only the timeout ended it: %s: %s", r->rank, rota_status_name(status), said);
    rank_want(strstr(said, "timeout") == NULL, "rank %u: a collective's timeout ended it: %s", r->rank, said);
    rank_want(said[0], "rank %u: %s, without a sentence", r->rank, rota_status_name(status));
    r->failed++;
}

static void check_words(const fuzz_rank *r) {
    const random_program *p = r->program;
    uint32_t *got = malloc(4 * (size_t)p->elements);
    rank_want(got, "no memory");
    for (uint32_t b = 0; b < RANDOM_BUFFERS; b++) {
        const uint32_t *wanted = r->end + ((size_t)r->rank * RANDOM_BUFFERS + b) * p->elements;
        rank_ok(rota_buffer_read(r->buffers[b], 0, got, 4 * (size_t)p->elements));
        for (uint32_t i = 0; i < p->elements; i++)
            rank_want(random_same(random_buffer_dtype(b), got[i], wanted[i]),
                      "seed %llu: rank %u, buffer %u, element %u is %08x, expected %08x",
                      (unsigned long long)p->seed, r->rank, b, i, got[i], wanted[i]);
    }
    free(got);
}

/* Which of the program's submissions this rank's i-th is. */
static uint32_t submission_of(const fuzz_rank *r, uint32_t i) {
    const random_program *p = r->program;
    if (p->fault != RANDOM_CROSSES || p->fault_rank != r->rank) return i;
    return i == p->fault_submit ? i + 1 : i == p->fault_submit + 1 ? i - 1 : i;
}

static void *run_rank(void *user) {
    fuzz_rank *r = user;
    const random_program *p = r->program;
    rota_ticket tickets[RANDOM_SUBMITS_MOST];
    uint64_t state = p->seed * 31 + r->rank;
    set_up(r);
    for (uint32_t i = 0; i < p->submit_count; i++) {
        if (test_below(&state, 4) == 0) test_nap_us(test_below(&state, 300));
        if (p->fault && p->fault_rank == r->rank && p->fault_submit == i) do_fault(r);
        rank_ok(rota_submit(r->plans[p->submits[submission_of(r, i)]], NULL, &tickets[i]));
        if (test_below(&state, 6) == 0) wait_for(r, tickets[i]);
    }
    r->failed = 0;
    for (uint32_t i = 0; i < p->submit_count; i++) wait_for(r, tickets[i]);
    /* Where one crosses others, what it gives to those that it shares one plan with is of another order, too. */
    if (r->failed == 0 && p->fault != RANDOM_CROSSES) check_words(r);
    for (uint32_t plan = 0; plan < p->plan_count; plan++) rota_plan_release(r->plans[plan]);
    for (uint32_t b = 0; b < RANDOM_BUFFERS; b++) rota_buffer_release(r->buffers[b]);
    for (uint32_t c = p->communicator_count; c-- > 1;)
        if (!r->is_closed || c != p->fault_communicator)
            rank_ok(rota_communicator_close(r->communicators[c], 0));
    return NULL;
}

/* ---- Programs ---- */

/* Words of all ranks, before and after. */
static uint32_t *make_words(const random_program *p, bool at_end) {
    uint32_t *words = calloc((size_t)p->size * RANDOM_BUFFERS * p->elements, 4);
    rank_want(words, "no memory");
    random_program_begin(p, words);
    if (at_end) random_program_end(p, words);
    return words;
}

/* Whoever did not do what the others did, and they, have been told. */
static void check_told(const random_program *p, const fuzz_rank *ranks) {
    if (p->fault == RANDOM_NODE_FAILS)
        rank_want(ranks[p->fault_rank].failed, "a kernel failed, and no ticket");
    if (p->fault == RANDOM_CROSSES)
        rank_want(ranks[p->fault_rank].failed, "seed %llu: rank %u was not told that it crosses others",
                  (unsigned long long)p->seed, p->fault_rank);
    for (uint32_t r = 0; r < p->size && p->fault == RANDOM_CROSSES; r++)
        rank_want(r == p->fault_rank || ranks[r].failed ||
                      !random_plan_is_shared(p, p->submits[p->fault_submit], r, p->fault_rank) ||
                      !random_plan_is_shared(p, p->submits[p->fault_submit + 1], r, p->fault_rank),
                  "seed %llu: rank %u was not told that another one crosses it", (unsigned long long)p->seed,
                  r);
    if (p->fault != RANDOM_OTHER_STEP) return;
    const random_group g = random_group_of(p, p->fault_communicator, p->fault_rank);
    for (uint32_t i = 0; i < g.size && g.size > 1; i++)
        rank_want(ranks[g.members[i]].failed, "seed %llu: rank %u was not told that collectives differ",
                  (unsigned long long)p->seed, g.members[i]);
}

typedef struct fuzz_options {
    uint64_t seed, count, seconds;
    uint32_t ranks;
    bool no_faults, by_mpi, by_adversary, on_cuda, by_stand_ins, prints;
} fuzz_options;

/* Of each runtime. */
static adversary_options adversaries[RANDOM_RANKS_MOST];

/* Runtimes of one worker and of two. */
static void open_runtimes(const fuzz_options *o, uint32_t count, rota_runtime **out_runtimes,
                          rota_device **out_devices) {
    for (uint32_t r = 0; r < count; r++) {
        rank_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1 + r % 2, .cache_dir = ""),
                                  &out_runtimes[r]));
        /* In batches, which no device has that runs host functions, one rank's may have A before B, another's B before
         * A. */
        adversaries[r].mode = ADVERSARY_EDGES;
        if (o->by_adversary)
            rank_ok(rota_runtime_add_driver(out_runtimes[r], &adversary_driver, &adversaries[r]));
        if (!o->on_cuda) continue;
        char id[16];
        (void)snprintf(id, sizeof id, "cuda:%u", r);
        rank_ok(rota_device_open(out_runtimes[r], id, &out_devices[r]));
    }
}

static void close_runtimes(uint32_t count, rota_runtime **runtimes) {
    for (uint32_t r = 0; r < count; r++) {
        rank_ok(rota_runtime_close(runtimes[r], 20000000000u));
        rank_want(adversaries[r].violations == 0, "rank %u: %s", r, adversaries[r].violation);
    }
}

static void run_threads(const fuzz_options *o, const random_program *p, rota_runtime **runtimes,
                        rota_device **devices) {
    static fuzz_rank ranks[RANDOM_RANKS_MOST];
    rota_communicator *worlds[RANDOM_RANKS_MOST];
    pthread_t threads[RANDOM_RANKS_MOST];
    uint32_t *begin = make_words(p, false), *end = make_words(p, true);
    rank_ok(rota_communicator_open_ranks(
        runtimes, p->size,
        &ROTA_COMMUNICATOR_OPTIONS(.timeout_ns = timeout_ns, .devices = o->on_cuda ? devices : NULL),
        worlds));
    for (uint32_t r = 0; r < p->size; r++) {
        ranks[r] = (fuzz_rank){.program = p,
                               .rank = r,
                               .runtime = runtimes[r],
                               .communicators = {worlds[r]},
                               .begin = begin,
                               .end = end,
                               .device = devices[r],
                               .on_cuda = o->on_cuda,
                               .by_adversary = o->by_adversary};
        atomic_store(&adversaries[r].seed, p->seed * RANDOM_RANKS_MOST + r);
        rank_want(pthread_create(&threads[r], NULL, run_rank, &ranks[r]) == 0, "a thread");
    }
    for (uint32_t r = 0; r < p->size; r++) rank_want(pthread_join(threads[r], NULL) == 0, "a thread");
    check_told(p, ranks);
    for (uint32_t r = 0; r < p->size; r++)
        if (!ranks[r].is_closed || p->fault_communicator != 0) rank_ok(rota_communicator_close(worlds[r], 0));
    free(begin);
    free(end);
}

/* This process's rank under MPI. */
static void run_process(const random_program *p, rota_runtime *runtime, rota_communicator *world) {
    uint32_t *begin = make_words(p, false), *end = make_words(p, true);
    fuzz_rank rank = {.program = p,
                      .rank = rota_communicator_rank(world),
                      .runtime = runtime,
                      .communicators = {world},
                      .begin = begin,
                      .end = end};
    (void)run_rank(&rank);
    free(begin);
    free(end);
}

/* Ranks of MPI go on together: the clock of the first one whose time is over is all's. */
typedef struct agreement {
    rota_buffer *mine, *all;
    rota_plan *plan;
} agreement;

static void open_agreement(rota_runtime *runtime, rota_communicator *world, agreement *out) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_device *device;
    rota_tensor mine, all;
    rank_ok(rota_device_open(runtime, "cpu", &device));
    rank_ok(rota_buffer_create_in(runtime, "mine", 4, &out->mine));
    rank_ok(rota_buffer_create_in(runtime, "all", 4, &out->all));
    rank_ok(rota_graph_create(NULL, &graph));
    rank_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rank_ok(rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    rank_ok(rota_tensor_of(out->mine, 0, ROTA_U32, ROTA_SHAPE(1), &mine));
    rank_ok(rota_tensor_of(out->all, 0, ROTA_U32, ROTA_SHAPE(1), &all));
    rank_ok(rota_op_all_reduce_into(tape, world, mine, ROTA_COLLECTIVE_MAX, all));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    rank_ok(rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1),
                         &out->plan));
    rota_graph_release(graph);
}

static bool all_go_on(const agreement *a, bool goes_on) {
    uint32_t is_over = !goes_on;
    rota_ticket ticket;
    rank_ok(rota_buffer_write(a->mine, NULL, 0, &is_over, 4, NULL));
    rank_ok(rota_submit_wait(a->plan, NULL, 0, &ticket));
    rank_ok(rota_wait(ticket, 0));
    rank_ok(rota_buffer_read(a->all, 0, &is_over, 4));
    return !is_over;
}

static void close_agreement(const agreement *a) {
    rota_plan_release(a->plan);
    rota_buffer_release(a->mine);
    rota_buffer_release(a->all);
}

static bool goes_on(const fuzz_options *o, const agreement *a, uint64_t end_ns) {
    const bool mine = rota_clock_ns() < end_ns;
    return o->by_mpi && o->seconds ? all_go_on(a, mine) : mine;
}

static void run_all(const fuzz_options *o) {
    agreement agreed = {0};
    rota_runtime *runtimes[RANDOM_RANKS_MOST];
    rota_device *devices[RANDOM_RANKS_MOST] = {NULL};
    rota_communicator *world = NULL;
    const uint64_t end_ns = o->seconds ? rota_deadline_after(o->seconds * 1000000000u) : UINT64_MAX;
    uint64_t done = 0, faults[RANDOM_FAULT_COUNT] = {0}, steps = 0;
    const uint32_t runtime_count = o->by_mpi ? 1 : o->on_cuda ? o->ranks : RANDOM_RANKS_MOST;
    open_runtimes(o, runtime_count, runtimes, devices);
    if (o->by_mpi)
        rank_ok(rota_communicator_open(runtimes[0], &ROTA_COMMUNICATOR_OPTIONS(.timeout_ns = timeout_ns),
                                       &world));
    if (o->by_mpi) open_agreement(runtimes[0], world, &agreed);
    for (; done < o->count && goes_on(o, &agreed, end_ns); done++) {
        random_program p;
        random_program_draw(o->seed + done, o->by_mpi ? rota_communicator_size(world) : o->ranks,
                            !o->no_faults && !o->by_mpi, o->on_cuda ? CUDA_FACTOR : 1, &p);
        if (o->prints) random_program_print(&p, stdout);
        faults[p.fault]++;
        for (uint32_t i = 0; i < p.submit_count; i++) steps += p.step_counts[p.submits[i]];
        if (o->by_mpi)
            run_process(&p, runtimes[0], world);
        else
            run_threads(o, &p, runtimes, devices);
    }
    close_agreement(&agreed);
    printf("%llu programs from seed %llu: %llu steps; without fault %llu", (unsigned long long)done,
           (unsigned long long)o->seed, (unsigned long long)steps, (unsigned long long)faults[0]);
    for (uint32_t i = 1; i < RANDOM_FAULT_COUNT; i++)
        printf(", %s %llu", random_fault_name((random_fault)i), (unsigned long long)faults[i]);
    printf("\n");
    rank_ok(rota_communicator_close(world, 0));
    close_runtimes(runtime_count, runtimes);
}

/* ---- On CUDA devices ---- */

enum { CUDA_RANKS_MOST = 4 };

#ifdef ROTA_HAVE_CUDA
/* 0, or why not: 77, with a line. */
static int begin_cuda(const fuzz_options *o) {
    const rota_cuda_api *cu;
    const rota_nccl_api *nccl;
    int count = 0;
    if (!rota_smoke_kernel.cuda.image) {
        puts("skipped: this build has no CUDA images");
        return 77;
    }
    if (o->by_stand_ins) {
        cuda_stub_start(o->seed, (int)o->ranks);
        cuda_stub_gpus_apart();
        nccl_standin_start();
        return 0;
    }
    if (rota_cuda_api_get(&cu) != ROTA_OK || rota_nccl_api_get(&nccl) != ROTA_OK) {
        printf("skipped: %s\n", rota_last_error());
        return 77;
    }
    if (cu->Init(0) == CUDA_SUCCESS && cu->DeviceGetCount(&count) == CUDA_SUCCESS && count >= (int)o->ranks)
        return 0;
    printf("skipped: %d GPUs, %u are needed\n", count, o->ranks);
    return 77;
}

static void end_stand_ins(void) {
    char text[256];
    rank_want(nccl_standin_violations(text, sizeof text) == 0, "NCCL: %s", text);
    rank_want(cuda_stub_violations(text, sizeof text) == 0, "violated: %s", text);
    rank_want(cuda_stub_alive(text, sizeof text) == 0, "left in the driver: %s", text);
    printf("%llu collectives by NCCL\n", (unsigned long long)nccl_standin_done());
    cuda_stub_stop();
    nccl_standin_stop();
}
#else
static int begin_cuda(const fuzz_options *o) {
    (void)o;
    puts("skipped: this build was made without cuda.h");
    return 77;
}
static void end_stand_ins(void) {}
#endif

int main(int argc, char **argv) {
    fuzz_options o = {.seed = 1, .count = 100};
    bool counted = false;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(option, "--no-faults") == 0)
            o.no_faults = true;
        else if (strcmp(option, "--mpi") == 0)
            o.by_mpi = true;
        else if (strcmp(option, "--adversary") == 0)
            o.by_adversary = true;
        else if (strcmp(option, "--cuda") == 0)
            o.on_cuda = true;
        else if (strcmp(option, "--stand-ins") == 0)
            o.by_stand_ins = true;
        else if (strcmp(option, "--print") == 0)
            o.prints = true;
        else {
            i++;
            if (strcmp(option, "--count") == 0)
                o.count = strtoull(value, NULL, 0), counted = true;
            else if (strcmp(option, "--seed") == 0)
                o.seed = strtoull(value, NULL, 0);
            else if (strcmp(option, "--timeout") == 0)
                timeout_ns = strtoull(value, NULL, 0) * 1000000000u;
            else if (strcmp(option, "--seconds") == 0)
                o.seconds = strtoull(value, NULL, 0);
            else if (strcmp(option, "--ranks") == 0)
                o.ranks = (uint32_t)strtoul(value, NULL, 0);
            else {
                fputs(usage, stderr);
                return 1;
            }
        }
    }
    if (o.on_cuda && !o.ranks) o.ranks = 2;
    if (o.ranks == 1 || o.ranks > (o.on_cuda ? CUDA_RANKS_MOST : RANDOM_RANKS_MOST) ||
        o.by_mpi + o.by_adversary + o.on_cuda > 1 || (o.by_stand_ins && !o.on_cuda)) {
        fputs(usage, stderr);
        return 1;
    }
    if (o.seconds && !counted) o.count = UINT64_MAX;
    if (o.on_cuda) {
        const int skipped = begin_cuda(&o);
        if (skipped) return skipped;
    }
    run_all(&o);
    if (o.by_stand_ins) end_stand_ins();
    return 0;
}
