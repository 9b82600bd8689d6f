/* The executor contract (exec/exec.h) as cases that each executor passes, before it is wired: one list of
 * cases over what a kit says of an executor. A kit is a driver and a few functions; a case opens a device by
 * it, and uses nothing of the device but the contract's calls.
 *
 * tests/test_exec_contract_*.c has a kit each. Whoever adds an executor writes one more. */
#ifndef ROTA_TESTS_EXEC_CONTRACT_H
#define ROTA_TESTS_EXEC_CONTRACT_H

#include "tests/kit/support.h"
#include <stdatomic.h>
#include <stdbool.h>
#include "exec/exec.h"
#include "tests/exec/vk_support.h"
#ifdef ROTA_HAVE_CUDA
#include "cuda/test_kernels.h"
#endif

#define CONTRACT_COUNT 1024u
#define CONTRACT_BYTES (CONTRACT_COUNT * 4u)
#define CONTRACT_QUEUES 3u

/* Initializers of rota_kernel.cuda, for entries of tests/kernels/test_kernels.cu. */
#if defined ROTA_CUDA_HAVE_test_kernels && ROTA_CUDA_HAVE_test_kernels
#define TEST_IMAGE ROTA_CUDA_IMAGE_test_kernels
#else
#define TEST_IMAGE .image = "", .size_bytes = 1 /* enough for the stand-in */
#endif

typedef struct contract contract;

typedef struct contract_kit {
    const char *name;
    const rota_exec_driver *driver;
    bool is_optional;     /* where there is no device, its cases are skipped by name */
    uint32_t slow;        /* rounds are divided by it; 0: 1 */
    uint64_t patience_ns; /* how long a value may take; 0: ten seconds */
    uint32_t idle_ms_max; /* CPU time of the process in a second without work; 0: not looked at */
    /* Each may be NULL. Before the device is opened: what the executor needs, and wants of the options. */
    void (*before_open)(contract *c, rota_exec_open_options *options);
    /* While nothing is in flight; and when the device is gone. Asserts. */
    void (*before_close)(contract *c);
    void (*after_close)(contract *c);
    /* What of the device's is in use: memory, and objects where they are counted. */
    uint64_t (*in_use)(contract *c);
    /* The next work that is handed over, or one of the next, loses the device. */
    void (*lose)(contract *c);
} contract_kit;

/* What the executor told its host. */
typedef struct contract_host {
    _Atomic uint64_t reached[ROTA_EXEC_QUEUES_MAX];
    _Atomic uint32_t inside[ROTA_EXEC_QUEUES_MAX];
    /* Calls of `advanced` that went back or stood still, came twice at a time, or after a loss. */
    _Atomic uint32_t disorder;
    _Atomic uint32_t lost, failures, failed_node, successes;
    _Atomic uint32_t poison;
    _Atomic uint32_t skipped; /* the node that must be, and 1 */
    _Atomic uint32_t goes_on; /* the device wants to be asked to: contract_go_on */
    char message[256];        /* of the failure */
} contract_host;

/* An open device. */
struct contract {
    const contract_kit *kit;
    contract_host host;
    rota_exec_device *device;
    const rota_exec_device_vtable *v;
    uint64_t next[ROTA_EXEC_QUEUES_MAX]; /* the last value handed over on each queue */
};

/* A program and one instance of it. */
typedef struct contract_loaded {
    rota_exec_program *program;
    rota_exec_instance *instance;
    uint32_t *edges; /* of the description */
} contract_loaded;

typedef struct contract_step_params {
    uint32_t count, add;
    uint64_t wide;
} contract_step_params;

/* x = 3 x + y + add + (wide >> 32), on every executor: another order gives other numbers. Parameters that can
 * be bound: 0 `add`, 1 `wide`, 2 `count`, which is how many items there are. */
extern const rota_kernel contract_step;
uint32_t contract_stepped(uint32_t x, uint32_t y, uint32_t times);

/* Skips the case where there is no device. Changes: queue_count, max_in_flight, diagnostics. */
contract *contract_open(const contract_kit *kit, const rota_exec_open_options *changes);
/* Wants nothing abandoned, and every order kept. */
void contract_close(contract *c);

rota_exec_memory *contract_memory(contract *c, uint64_t size, uint32_t flags);
/* That both sides read and write. */
rota_exec_memory *contract_mapped(contract *c, uint64_t size);
/* `length` steps on queue 0, a batch each. */
test_program *contract_chain(uint32_t length, const contract_step_params *params);
/* Gives the description edges (what its batches say), and memories of one kind where it has none. */
uint32_t *contract_edges(test_program *p);
contract_loaded contract_load(contract *c, test_program *p, rota_exec_memory *const *memories);
void contract_unload(contract *c, contract_loaded l);
rota_exec_work contract_work(contract *c, contract_loaded l, uint32_t segment, uint32_t queue,
                             const rota_exec_wait *wait, const uint64_t *block);
void contract_submit(contract *c, const rota_exec_work *works, uint32_t count);
/* In the place of a submit thread that is told so; contract_wait does it. */
void contract_go_on(contract *c);
void contract_wait(contract *c, uint32_t queue);
/* Segment 0 on queue 0, once, waited for. */
void contract_run(contract *c, contract_loaded l, const uint64_t *block);
uint32_t contract_rounds(const contract *c, uint32_t rounds);

typedef struct contract_case {
    const char *name;
    void (*run)(const contract_kit *kit);
} contract_case;

/* All cases; the last has no name. */
extern const contract_case contract_cases[];
/* Runs them by that kit; how many failed. */
int contract_main(const contract_kit *kit);
/* Runs one, in a process of its own and without a word: whether it passed. */
bool contract_passes(const contract_kit *kit, const char *name);

/* Of exec_contract_ends.c. */
void contract_refusals(const contract_kit *kit);
void contract_loss(const contract_kit *kit);
void contract_failures(const contract_kit *kit);
void contract_leaks(const contract_kit *kit);
void contract_threads(const contract_kit *kit);
void contract_idle(const contract_kit *kit);
void contract_listing(const contract_kit *kit);
/* Of exec_contract_random.c. */
void contract_random(const contract_kit *kit);
/* Of exec_contract_counted.c. */
void contract_counted(const contract_kit *kit);
void contract_counted_slots(const contract_kit *kit);
void contract_counted_excess(const contract_kit *kit);
/* Of exec_contract_loops.c. */
void contract_loops(const contract_kit *kit);
void contract_loops_fail(const contract_kit *kit);
void contract_loops_end(const contract_kit *kit);
/* Of exec_contract_words.c. */
void contract_steady_words(const contract_kit *kit);

#endif
