/* Writing wholly on the device: a graph that decides reads a token, chooses the next by its logits, and goes on until
 * the end of a text. The host gets the tokens by a ring of submissions, some tokens each, and prints those of one while
 * the device is at the next ones, so it is never waited for. */
#ifndef ROTA_EXAMPLES_GPT_LOOP_H
#define ROTA_EXAMPLES_GPT_LOOP_H

#include <stdatomic.h>
#include "examples/gpt/choose.h"
#include "examples/gpt/decode.h"

/* Submissions under way at most, and tokens that one reads at most. */
#define GPT_LOOP_TURNS 3
#define GPT_LOOP_TOKENS 16

typedef struct gpt_loop_turn {
    rota_args *args;
    gpt_loop_control control;
    int32_t given[GPT_LOOP_TOKENS], chosen[GPT_LOOP_TOKENS];
    uint32_t points[GPT_LOOP_TOKENS];
    rota_ticket ticket;
} gpt_loop_turn;

typedef struct gpt_loop {
    gpt_plan plan;
    gpt_cache cache;
    gpt_sampling sampling;
    rota_buffer *state, *control, *given, *points, *chosen;
    gpt_loop_turn *turns;
} gpt_loop;

/* UNSUPPORTED: the device runs no nodes that decide (graph/conditional.h). */
rota_status gpt_loop_create(gpt_model *model, const gpt_sampling *sampling, gpt_loop *out);
void gpt_loop_free(gpt_loop *loop);

typedef struct gpt_writing {
    const int32_t *prompt; /* at least one token */
    uint64_t prompt_count;
    uint64_t count; /* of tokens to write */
    int32_t end;    /* the token that ends a text; -1: none */
    random_state random;
    const atomic_bool *stop; /* ends early where it is set */
    void (*write)(void *user, int32_t token);
    void *user;
} gpt_writing;
/* Gives the tokens that follow the prompt to `write`, up to one that ends the text, which it does not get. Where the
 * model's block is full, the older half is forgotten. out_count may be NULL. */
rota_status gpt_loop_write(gpt_loop *loop, const gpt_writing *writing, uint64_t *out_count);

#endif
