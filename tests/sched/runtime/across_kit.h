/* Two devices of the adversary that are one GPU and wait for each other there, and what the tests of a lost
 * one have in common. */
#ifndef ROTA_TESTS_ACROSS_KIT_H
#define ROTA_TESTS_ACROSS_KIT_H

#include "tests/adversary/adversary.h"
#include "tests/kit/runtime_support.h"

#define WORDS 512u

typedef struct pair {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *devices[2];
    char told[512];           /* the last that was said of ordering */
    _Atomic uint32_t loss_ms; /* between a loss and that anybody but who asks is told of it */
} pair;

/* timeline_fails_in: as adversary_options.faults; with 1 the host orders the two. */
pair *open_pair(uint64_t seed, uint64_t timeout_ns, uint32_t timeline_fails_in);
pair *open_pair_with(const adversary_options *adversary, uint64_t timeout_ns);
/* In order: nothing is left, and nothing was done that may not be. */
void close_pair(pair *p);

/* Each of the kernels changes x, each on the other device than the one before; with `out_slot`, x is what
 * that is bound to. */
rota_plan *in_turns(pair *p, rota_buffer *x, const rota_kernel *const *kernels, uint32_t nodes,
                    rota_buffer **out_slot);
/* in, of host memory, on the device `first` to t, t on the other one to out, of host memory; the first comes
 * after what was done to `behind` before, which it changes, unless that is NULL. */
rota_plan *through_both(pair *p, uint32_t first, rota_buffer *behind, rota_buffer **out_in,
                        rota_buffer **out_out);

/* What the tests of a lost device have: on the first a gate before an increment of x; on the second a copy of
 * x to y, a copy of y to z, and w for itself. */
typedef struct scene {
    pair *p;
    rota_buffer *x, *y, *z, *w;
    rota_plan *gate, *step, *copy, *next, *alone;
    rota_ticket step_ticket, copy_ticket, next_ticket, alone_ticket;
} scene;

/* Its buffers and plans, of a pair. */
void scene_on(scene *s, pair *p);
/* Submits all but the gate's opening: the gate is shut. */
void scene_submit(scene *s);
/* ... of a pair of its own, once round. */
void scene_open(scene *s, uint64_t timeout_ns);
/* The gate is shut; all are submitted, and the copy is with its device, waiting. */
void scene_wait_on_device(scene *s);
void scene_release(scene *s);

/* The adversary may look at its options for as long as a device that was given up runs. */
void keep(pair *p);
/* Closes as far as a lost device lets it; nothing was done that may not be. The pair is kept. */
void close_after_loss(pair *p);

#endif
