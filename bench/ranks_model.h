/* What collectives of many ranks, and training steps with them, would take: a model, whose two numbers are measured
 * with few. For rota-bench ranks. */
#ifndef ROTA_BENCH_RANKS_MODEL_H
#define ROTA_BENCH_RANKS_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* How a collective's messages follow one another. */
typedef enum ranks_algorithm {
    RANKS_EXCHANGE, /* rota's messages: an agreement and two rounds, in each a message to every other rank */
    RANKS_RING,     /* twice around, a part of all ranks' at a time */
    RANKS_DOUBLING  /* with halves, then quarters, and so on, and back */
} ranks_algorithm;
#define RANKS_ALGORITHMS "exchange|ring|doubling"

/* An all_reduce of B bytes by N ranks takes messages(N) latencies one after the other, and the time in which a rank
 * sends 2 B (N - 1) / N bytes (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
 * MPICH", 2005, section 4.5: the sums are left out). Any rank's link is nobody else's. */
typedef struct ranks_model {
    ranks_algorithm algorithm;
    double latency_s;   /* of a message */
    double bytes_per_s; /* that a rank sends */
} ranks_model;

/* The model of `ranks` that fits times of all_reduce best, by least squares of what each is off in its own share;
 * `count` of at least 2, of different sizes. What measures below 0 is 0, or, of bytes, infinitely fast. */
ranks_model ranks_model_fit(ranks_algorithm algorithm, uint32_t ranks, const double *bytes,
                            const double *seconds, size_t count);

/* Seconds of an all_reduce. */
double ranks_model_all_reduce(const ranks_model *model, double bytes, uint32_t ranks);

/* A training step of one rank, without communication. Gradients become finished evenly over the backward pass, and
 * go together in buckets, of which one is under way at a time, beside the rest of the pass. */
typedef struct ranks_step {
    double seconds, backward_share; /* of them the backward pass, at the end */
    double gradient_bytes, bucket_bytes, first_bucket_bytes;
} ranks_step;

typedef struct ranks_step_times {
    double seconds, communication_s, hidden_s;
} ranks_step_times;

ranks_step_times ranks_model_step(const ranks_model *model, const ranks_step *step, uint32_t ranks);

#endif
