/* Ranks under mpirun with a CUDA device each, and collectives by NCCL, both by stand-ins: sums of all, replay after
 * replay; or the last rank is killed before it has come to one, or in it, on its device, and the others end by their
 * timeout and close. mpi_nccl [[in_it] killed]; 77: MPI is not there, or this build has no CUDA images. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/smoke_kernel.h"
#include "tests/exec/comm/nccl_processes.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/ranks/rank_cases.h"

#ifdef ROTA_HAVE_CUDA
/* Within the timeout all ranks have come to the communicator's opening, too: processes may begin seconds after one
 * another where much else runs. */
enum { WORDS = 1000, REPLAYS = 30, TIMEOUT_S = 6 };
#define SECOND_NS UINT64_C(1000000000)

typedef struct nccl_rank {
    rota_runtime *runtime;
    rota_device *device;
    rota_communicator *world;
    rota_plan *plan;
    rota_buffer *x;
    uint32_t rank, size;
} nccl_rank;

/* Before there is a communicator: its device is of this number. */
static uint32_t launched_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return (uint32_t)strtoul(getenv(names[i]), NULL, 10);
    return 0;
}

static void make_plan(nccl_rank *r) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x;
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = (r->rank + 1) * (i + 1);
    rank_ok(rota_buffer_create_in(r->runtime, "x", sizeof words, &r->x));
    rank_ok(rota_buffer_write(r->x, NULL, 0, words, sizeof words, NULL));
    rank_ok(rota_graph_create(NULL, &graph));
    rank_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rank_ok(rota_tape_create(recorder, NULL, &tape));
    rank_ok(rota_tensor_of(r->x, 0, ROTA_U32, ROTA_SHAPE(WORDS), &x));
    rank_ok(rota_tape_name(tape, "the gradient"));
    rank_ok(rota_op_all_reduce_into(tape, r->world, x, ROTA_COLLECTIVE_SUM, x));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &r->device, .device_count = 1);
    rank_ok(rota_compile(r->runtime, graph, &options, &r->plan));
    rota_graph_release(graph);
}

static void expect_sums(const nccl_rank *r, uint32_t replays) {
    uint32_t words[WORDS], factor = r->size * (r->size + 1) / 2;
    for (uint32_t i = 1; i < replays; i++) factor *= r->size;
    rank_ok(rota_buffer_read(r->x, 0, words, sizeof words));
    for (uint32_t i = 0; i < WORDS; i++)
        rank_want(words[i] == factor * (i + 1), "word %u is %u, not %u", i, words[i], factor * (i + 1));
}

static void run_killed(const nccl_rank *r, bool in_it) {
    rota_ticket ticket;
    const bool is_last = r->rank == r->size - 1;
    if (is_last && !in_it) (void)raise(SIGKILL);
    if (is_last) nccl_processes_die_in(REPLAYS + 1);
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < 3; i++) rank_ok(rota_submit(r->plan, NULL, &ticket));
    const rota_status status = rota_wait(ticket, 0);
    rank_want(status == ROTA_NODE_FAILED, "%s: %s", rota_status_name(status), rota_last_error());
    const bool is_told = !in_it && strcmp(rank_transport(), "tcp") == 0; /* by its connection */
    const char *how = in_it ? "did not end within 6.0 s" : is_told ? "is gone" : "which did not come to it";
    char last[16];
    (void)snprintf(last, sizeof last, " %u", r->size - 1);
    const char *silent = strstr(rota_last_error(), "; nothing was heard then of rank");
    rank_want(is_told || (silent && strstr(silent, last)), "%s", rota_last_error());
    rank_want(strstr(rota_last_error(), "'the gradient'") && strstr(rota_last_error(), how) &&
                  strstr(rota_last_error(), "communicator 'world'"),
              "%s", rota_last_error());
    rank_want(rota_clock_ns() - begin < 5 * TIMEOUT_S * SECOND_NS, "it took %llu ms",
              (unsigned long long)(rota_clock_ns() - begin) / 1000000);
    if (r->rank == 0) (void)printf("%s\n", rota_last_error());
}

static void open_devices(nccl_rank *r) {
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 2, .cache_dir = "");
    char id[16];
    cuda_stub_start(3 + launched_rank(), NCCL_PROCESSES_RANKS);
    cuda_stub_gpus_apart();
    nccl_processes_start();
    (void)snprintf(id, sizeof id, "cuda:%u", launched_rank());
    rank_ok(rota_runtime_open(&options, &r->runtime));
    rank_ok(rota_device_open(r->runtime, id, &r->device));
}

int main(int argc, char **argv) {
    (void)argv;
    const bool is_killed = argc > 1, in_it = argc > 2;
    nccl_rank r = {.rank = 0};
    char text[256];
    if (!rota_smoke_kernel.cuda.image) {
        puts("skipped: this build has no CUDA images");
        return 77;
    }
    open_devices(&r);
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.transport = rank_transport(), .timeout_ns = TIMEOUT_S * SECOND_NS,
                                  .devices = &r.device);
    const rota_status opened = rota_communicator_open(r.runtime, &options, &r.world);
    if (opened == ROTA_UNSUPPORTED && strstr(rota_last_error(), "librota_mpi")) {
        (void)printf("skipped: %s\n", rota_last_error());
        _exit(77);
    }
    rank_ok(opened);
    r.rank = rota_communicator_rank(r.world);
    r.size = rota_communicator_size(r.world);
    rank_want(rota_communicator_device(r.world) == r.device, "its collectives are on no device");
    make_plan(&r);
    rota_ticket ticket;
    for (uint32_t i = 0; i < REPLAYS; i++) rank_ok(rota_submit_wait(r.plan, NULL, 0, &ticket));
    rank_ok(rota_wait(ticket, 0));
    expect_sums(&r, REPLAYS);
    if (is_killed) run_killed(&r, in_it);
    rota_plan_release(r.plan);
    rota_buffer_release(r.x);
    const rota_status closed = rota_communicator_close(r.world, 2000000000u);
    rank_want(closed == ROTA_OK || (is_killed && closed == ROTA_TIMEOUT), "%s", rota_last_error());
    rank_ok(rota_runtime_close(r.runtime, 20000000000u));
    rank_want(cuda_stub_violations(text, sizeof text) == 0, "violated: %s", text);
    rank_want(cuda_stub_alive(text, sizeof text) == 0, "left in the driver: %s", text);
    (void)printf("rank %u closed: %s\n", r.rank, rota_status_name(closed));
    (void)fflush(NULL);
    _exit(0);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 77;
}
#endif
