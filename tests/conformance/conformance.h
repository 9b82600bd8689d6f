/* The conformance cases: what every executor must do, each a function that says why it failed. `conformance`
 * runs them all on a device; test_proofs runs them on the adversary with a mechanism switched off, and
 * requires them to fail. */
#ifndef ROTA_TESTS_CONFORMANCE_H
#define ROTA_TESTS_CONFORMANCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "ops/ops.h"
#include "sched/plan.h"
#include "sched/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/random.h"

/* Longest that any one wait in a case may take. */
/* How long a case waits for what must come; --patience for tools under which all is many times slower. */
extern uint64_t conf_patience_ns;
#define CONF_PATIENCE_NS conf_patience_ns

typedef struct conf {
    const char *device;   /* id */
    bool full;            /* the counts of SCENARIOS.md; else what fits CI */
    uint32_t repeats;     /* at most so many of a case's repetitions; 0: as many as it has */
    uint32_t part, parts; /* this process's share, of S3's ops too: the part-th of `parts`; parts 0: all */
    bool validation;
    uint64_t seed;
    bool
        has_breaks; /* these take effect in the adversary once the smoke test of a case's device has passed */
    adversary_breaks breaks;
    adversary_options adversary;
    _Atomic uint32_t errors_logged;
    bool no_faults;     /* faults that a case injects are left out (test_proofs) */
    uint64_t quiet_ns;  /* adversary_options.quiet_ns */
    bool expect_errors; /* logged errors are part of the case */
    bool skipped;       /* `why` says why */
    bool is_absent;     /* opening the device failed because it isn't there, or can't be used */
    uint64_t digest;    /* of what another process must come to as well, to the bit; 0: nothing */
    pthread_mutex_t lock;
    char why[768]; /* the first failure */
} conf;

typedef bool (*conf_fn)(conf *c);

typedef struct conf_case {
    const char *name;
    conf_fn run;
} conf_case;

/* Every case, by scenario. */
extern const conf_case conf_cases_s1[], conf_cases_s2[], conf_cases_s3[], conf_cases_s4[], conf_cases_s5[],
    conf_cases_contract[]; /* each ends with a NULL name */

/* Cases with files of their own. */
bool conf_patchtst(conf *c);
bool conf_decides(conf *c);
bool conf_counted(conf *c);
bool conf_lengths(conf *c);

/* Runs one case; false with c->why if it failed. A skip is true with c->skipped. */
bool conf_run(conf *c, const conf_case *one);

/* Opens a runtime and the case's device. `options` may be NULL. */
bool conf_open(conf *c, const rota_runtime_options *options, rota_runtime **out_runtime,
               rota_device **out_device);
/* Closes it and checks that nothing was logged as an error nor, by the adversary, as a violation. */
bool conf_close(conf *c, rota_runtime *runtime);

/* The end of most cases: releases the plan and the buffers of these tensors, and closes the runtime. */
bool conf_end(conf *c, rota_runtime *runtime, rota_plan *plan, const rota_tensor *tensors, size_t count);
#define CONF_END(c, runtime, plan, ...)                                                                      \
    conf_end(c, runtime, plan, (const rota_tensor[]){__VA_ARGS__},                                           \
             sizeof((const rota_tensor[]){__VA_ARGS__}) / sizeof(rota_tensor))

/* Records a failure, the first one stays. Returns false. Any thread. */
bool conf_fail(conf *c, const char *format, ...) ROTA_PRINTF(2, 3);
/* The case does not apply to this device. Returns true. */
bool conf_skip(conf *c, const char *why);

static inline bool conf_is(const conf *c, const char *prefix) {
    return strncmp(c->device, prefix, strlen(prefix)) == 0;
}
/* `full` repetitions of the scenario, or `ci` of them; of these, this process's share, at least one. */
static inline uint32_t conf_times(const conf *c, uint32_t full, uint32_t ci) {
    uint32_t times = c->full ? full : ci;
    if (c->repeats && times > c->repeats) times = c->repeats;
    if (c->parts > 1) times = (times + c->parts - 1 - c->part) / c->parts;
    return times ? times : 1;
}

#define CONF_OK(c, expression)                                                                               \
    do {                                                                                                     \
        rota_status conf_status_ = (expression);                                                             \
        if (conf_status_ != ROTA_OK)                                                                         \
            return conf_fail(c, "%s:%d: %s: %s: %s", __FILE__, __LINE__, #expression,                        \
                             rota_status_name(conf_status_), rota_last_error());                             \
    } while (0)
#define CONF_CHECK(c, condition, ...)                                                                        \
    do {                                                                                                     \
        if (!(condition)) return conf_fail(c, __VA_ARGS__);                                                  \
    } while (0)
#define CONF_TRY(expression)                                                                                 \
    do {                                                                                                     \
        if (!(expression)) return false;                                                                     \
    } while (0)

/* ---- A graph being recorded, with one lane and a tape ---- */

typedef struct conf_graph {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
} conf_graph;

bool conf_graph_begin(conf *c, conf_graph *out_graph);
/* Closes the lane, compiles, drops the graph. `options` may be NULL; its devices are set here. */
bool conf_graph_end(conf *c, conf_graph *graph, rota_device *device, const rota_compile_options *options,
                    rota_plan **out_plan);
/* Submits `times` replays without waiting between them, then waits for the last. */
bool conf_replay(conf *c, rota_plan *plan, rota_args *args, uint32_t times);

/* A PERSISTENT f32 tensor, filled with f(i) = start + step * i (so start NaN prefills). */
bool conf_tensor(conf *c, rota_runtime *runtime, rota_device *device, const char *name, uint32_t rank,
                 const uint64_t *shape, double start, double step, rota_tensor *out_tensor);
bool conf_write_f32(conf *c, const rota_tensor *tensor, rota_device *device, const float *values);
bool conf_read_f32(conf *c, const rota_tensor *tensor, float *out_values);
/* |got - want| <= absolute + relative * |want| for all; NaN in `got` fails. */
bool conf_near(conf *c, const char *what, const float *got, const float *want, uint64_t count,
               double absolute, double relative);

/* Waits until a submission is sequenced, so that what is told of it can name its plan. */
bool conf_sequenced(conf *c, rota_ticket ticket);

/* Runs fn(user + i * stride) on `count` threads at once; false if any returned false. */
bool conf_threads(conf *c, uint32_t count, bool (*fn)(void *one), void *users, size_t stride);

/* ---- Custom kernels of the cases (C function only) ---- */

/* x[n] READWRITE: f32 x = alpha * x + beta (bindable "alpha"); where it `is_held`, not before conf_slow_goes_on. */
typedef struct conf_slow_params {
    uint32_t n, is_held, fail; /* fail: the node fails */
    float alpha, beta;
} conf_slow_params;
extern _Atomic uint32_t conf_slow_held, conf_slow_goes_on; /* held: calls that were, or are, up to now */
extern const rota_kernel conf_slow_kernel;

#endif
