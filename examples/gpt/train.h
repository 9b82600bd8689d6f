/* Training a GPT: steps, measuring, saving, stopping. */
#ifndef ROTA_EXAMPLES_GPT_TRAIN_H
#define ROTA_EXAMPLES_GPT_TRAIN_H

#include <stdatomic.h>
#include "bench/pictures.h"
#include "bench/report.h"
#include "examples/gpt/checkpoint.h"
#include "examples/gpt/graph.h"
#include "examples/gpt/keep.h"
#include "examples/gpt/progress.h"
#include "examples/gpt/ranks.h"
#include "examples/gpt/sample.h"
#include "examples/common/run_report.h"

/* In the order of --schedule. */
typedef enum gpt_schedule { GPT_COSINE, GPT_LINEAR, GPT_CONSTANT } gpt_schedule;

/* In the order of --packing. */
typedef enum gpt_packing { GPT_PACK_AUTO, GPT_PACK_TIGHT, GPT_PACK_CONCURRENT } gpt_packing;

/* What the command line says. */
typedef struct gpt_settings {
    const char *device, *checkpoint, *resume, *init_from, *save_weights, *log, *tensorboard, *trace, *report,
        *capture, *prompt, *write_tokens;
    plan_pictures pictures;
    bool debug_names;
    int argc; /* the command line, for the report */
    char **argv;
    const char *generate; /* what the text begins with, or ""; NULL: training */
    bool find_nan, profile, no_fuse, shard_optimizer, shard_parameters, host_loop, checkpoint_shards,
        deterministic;
    int schedule, weights_dtype, packing;
    uint64_t iters, warmup, eval_interval, eval_iters, seed, sample, patience, memory_limit;
    uint64_t timeout;         /* seconds in which a device, or another rank, may get no further */
    uint64_t ranks;           /* of this process; under mpirun, those that it started; 0: not said */
    uint64_t bucket;          /* bytes of gradients that are reduced together; 0: as the library likes */
    uint64_t keep_every;      /* steps; 0: never */
    uint64_t tensor_parallel; /* ranks that have one model together; 0 and 1: each has its own */
    double lr, min_lr;
    gpt_sampling sampling;
    gpt_source source;
    gpt_stored stored; /* --resume */
    gpt_config config;
} gpt_settings;

/* How a rank fared. */
typedef struct gpt_rank_times {
    float step_ms; /* mean of the run, without its first step */
    float computation_ms, communication_ms,
        hidden_ms; /* of the last step, as overlap.h defines; below 0: not measured */
} gpt_rank_times;

typedef struct gpt_trainer {
    const gpt_settings *settings;
    const atomic_bool *interrupted;
    gpt_ranks ranks;
    bool stops;      /* of several ranks: all have heard that one was interrupted, and end at the same step */
    bool reported;   /* the step that the report shows is over */
    bool is_cut_off; /* another rank does not answer, or left */
    gpt_keeper keeper;
    gpt_saved saved;
    bool follows; /* it failed because another rank of the process did, which says why */
    gpt_text text;
    gpt_model model;
    gpt_model whole; /* all weights of one that is sharded, to write with in the end; else none */
    gpt_plan train, loss;
    gpt_progress progress;
    gpt_meter meter;
    run_report *report;                   /* --report, --profile; else NULL */
    random_state random_after[GPT_TURNS]; /* the generator when a turn's batch had been drawn */
    uint64_t submitted, sent;             /* steps; sent: their batches */
    uint64_t skipped;                     /* steps whose gradients overflowed f16 */
    uint64_t began_ns;                    /* the step at work */
    uint64_t steps, spent_ns;             /* this run's; in all of them but the first, if there are others */
    gpt_rank_times *times; /* of several ranks, rank after rank, once all have done their steps */
} gpt_trainer;

/* Runs the steps that are left. Returns the exit code. Of several ranks all do the same steps; the first writes what is
 * written. */
int gpt_train(gpt_trainer *t);
/* Says what failed, and returns the exit code. Of ranks in one process the first that fails says it; the others fail
 * with it. */
int gpt_rank_failure(gpt_trainer *t, rota_status status);
/* This rank has failed: ends the others' training. Of one rank nothing. */
void gpt_rank_give_up(gpt_trainer *t);

#endif
