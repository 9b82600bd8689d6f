/* Writing wholly on the device. */
#include "examples/gpt/loop.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define STATE(field) offsetof(gpt_loop_state, field)

/* ---- The graph ----
 *
 *     begin --> while (more) ------------------------------------------------> chosen tokens
 *                 token and position --> layers --> if (chooses): head, choose --> advance
 */

/* What is recorded into the body goes by its own tape. */
typedef struct recording_body {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape, *outer;
} recording_body;

static rota_status open_body(gpt_recording *r, rota_graph *outer, const char *name, recording_body *b) {
    *b = (recording_body){.outer = r->tape};
    ROTA_TRY(rota_graph_create_body(outer, name, &b->graph));
    rota_status status = rota_recorder_open(b->graph, 0, name, &b->recorder);
    if (status == ROTA_OK)
        status = rota_tape_create(b->recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &b->tape);
    if (status != ROTA_OK) {
        rota_recorder_close(b->recorder);
        rota_graph_release(b->graph);
        return status;
    }
    r->tape = b->tape;
    return ROTA_OK;
}

static void close_body(gpt_recording *r, const recording_body *b) {
    rota_tape_destroy(b->tape);
    rota_recorder_close(b->recorder);
    r->tape = b->outer;
}

static rota_status record_choice(gpt_recording *r, rota_graph *outer, rota_tensor x) {
    const gpt_loop *loop = r->user;
    const uint64_t vocabulary = r->plan->model->config.vocabulary;
    rota_recorder *recorder = rota_tape_recorder(r->tape);
    recording_body body;
    rota_tensor logits;
    ROTA_TRY(open_body(r, outer, "choice", &body));
    rota_status status = gpt_record_head(r, x, r->weights[GPT_TOKENS], &logits);
    if (status == ROTA_OK)
        status = gpt_record_choose(body.recorder, &loop->sampling, logits.buffer, vocabulary, loop->points,
                                   loop->state);
    close_body(r, &body);
    if (status == ROTA_OK)
        status = rota_record_if(recorder,
                                &ROTA_IF_NODE(.name = "chooses", .condition = loop->state,
                                              .condition_offset_bytes = STATE(chooses), .body = body.graph),
                                NULL);
    if (status != ROTA_OK) rota_graph_release(body.graph);
    return status;
}

static rota_status record_body(gpt_recording *r, const recording_body *body) {
    const gpt_loop *loop = r->user;
    rota_tensor token, position, x;
    ROTA_TRY(rota_tensor_of(loop->state, STATE(token), ROTA_I32, ROTA_SHAPE(1, 1), &token));
    ROTA_TRY(rota_tensor_of(loop->state, STATE(position), ROTA_I32, ROTA_SHAPE(1, 1), &position));
    ROTA_TRY(gpt_record_token(r, &loop->cache, token, position, &x));
    ROTA_TRY(record_choice(r, body->graph, x));
    return gpt_record_advance(body->recorder, false, loop->control, loop->given, loop->state, loop->chosen);
}

static rota_status buffer_of_turns(gpt_recording *r, rota_buffer_kind kind, const char *name, uint64_t count,
                                   rota_buffer **out) {
    rota_tensor x;
    ROTA_TRY(rota_tape_tensor(r->tape, kind, name, ROTA_I32, ROTA_SHAPE(count), &x));
    *out = x.buffer;
    return ROTA_OK;
}

static rota_status record_loop(gpt_recording *r) {
    gpt_loop *loop = r->user;
    rota_recorder *recorder = rota_tape_recorder(r->tape);
    recording_body body;
    ROTA_TRY(buffer_of_turns(r, ROTA_BUFFER_INPUT, "control", sizeof(gpt_loop_control) / 4, &loop->control));
    ROTA_TRY(buffer_of_turns(r, ROTA_BUFFER_INPUT, "given", GPT_LOOP_TOKENS, &loop->given));
    ROTA_TRY(buffer_of_turns(r, ROTA_BUFFER_INPUT, "points", GPT_LOOP_TOKENS, &loop->points));
    ROTA_TRY(buffer_of_turns(r, ROTA_BUFFER_OUTPUT, "chosen", GPT_LOOP_TOKENS, &loop->chosen));
    ROTA_TRY(rota_record_fill(recorder, loop->chosen, 0, ROTA_WHOLE, UINT32_MAX, NULL)); /* -1: none */
    ROTA_TRY(gpt_record_advance(recorder, true, loop->control, loop->given, loop->state, loop->chosen));
    ROTA_TRY(open_body(r, r->plan->graph, "token", &body));
    rota_status status = record_body(r, &body);
    close_body(r, &body);
    if (status == ROTA_OK)
        status = rota_record_while(recorder,
                                   &ROTA_WHILE_NODE(.name = "write", .condition = loop->state,
                                                    .condition_offset_bytes = STATE(more), .body = body.graph,
                                                    .iterations_max = GPT_LOOP_TOKENS),
                                   NULL);
    if (status != ROTA_OK) rota_graph_release(body.graph);
    return status;
}

/* ---- Its arguments ---- */

static rota_status make_turn(gpt_loop *loop, gpt_loop_turn *turn) {
    ROTA_TRY(rota_args_create(loop->plan.plan, &turn->args));
    ROTA_TRY(rota_args_set_input(turn->args, loop->control, &turn->control, sizeof turn->control, true));
    ROTA_TRY(rota_args_set_input(turn->args, loop->given, turn->given, sizeof turn->given, true));
    ROTA_TRY(rota_args_set_input(turn->args, loop->points, turn->points, sizeof turn->points, true));
    return rota_args_set_output(turn->args, loop->chosen, turn->chosen, sizeof turn->chosen);
}

rota_status gpt_loop_create(gpt_model *model, const gpt_sampling *sampling, gpt_loop *out) {
    static const gpt_loop_state nothing = {0};
    *out = (gpt_loop){.plan = {.model = model, .rows = 1, .length = 1, .micro_batches = 1},
                      .sampling = *sampling,
                      .turns = calloc(GPT_LOOP_TURNS, sizeof(gpt_loop_turn))};
    rota_status status = out->turns ? gpt_cache_create(model, &out->cache)
                                    : rota_fail(ROTA_OUT_OF_MEMORY, "no memory to write");
    if (status == ROTA_OK)
        status = rota_buffer_create_in(model->runtime, "state", sizeof nothing, &out->state);
    if (status == ROTA_OK)
        status = rota_buffer_write(out->state, model->device, 0, &nothing, sizeof nothing, NULL);
    if (status == ROTA_OK)
        status = gpt_plan_make(
            model, &(gpt_plan_options){.name = "write", .record = record_loop, .user = out}, &out->plan);
    for (int t = 0; t < GPT_LOOP_TURNS && status == ROTA_OK; t++) status = make_turn(out, &out->turns[t]);
    if (status != ROTA_OK) gpt_loop_free(out);
    return status;
}

void gpt_loop_free(gpt_loop *loop) {
    bool over = true;
    for (int t = 0; loop->turns && t < GPT_LOOP_TURNS; t++) {
        over &= gpt_turn_over(&(gpt_turn){.ticket = loop->turns[t].ticket});
        rota_args_release(loop->turns[t].args);
    }
    if (over) free(loop->turns); /* else the device may still write to them */
    gpt_plan_free(&loop->plan);
    gpt_cache_free(&loop->cache);
    rota_buffer_release(loop->state);
    *loop = (gpt_loop){0};
}

/* ---- The host's side ---- */

typedef struct writer {
    gpt_loop *loop;
    const gpt_writing *w;
    random_state random;
    int32_t *tokens; /* all that are known: the prompt, and what was chosen */
    uint64_t known;
    uint64_t next;   /* of them or of those to come, the one that is read next by what is submitted next */
    uint64_t filled; /* positions taken by then */
    uint64_t asked, written; /* choices submitted, and got */
    uint64_t submitted, collected;
    bool restarts, ended;
} writer;

/* The next submission reads as many tokens as it may: those that are known, and those that are chosen meanwhile. */
static rota_status submit(writer *s) {
    const uint64_t block = s->loop->plan.model->config.block;
    gpt_loop_turn *turn = &s->loop->turns[s->submitted % GPT_LOOP_TURNS];
    const uint64_t room = block - s->filled < GPT_LOOP_TOKENS ? block - s->filled : GPT_LOOP_TOKENS;
    const uint64_t known = s->next < s->known ? s->known - s->next : 0, given = known < room ? known : room;
    const bool all = given == known;
    /* The last of those that are known is the first that another is chosen after. */
    const uint64_t first = given ? given - 1 : 0;
    uint64_t count = given;
    if (all) {
        count = first + (s->w->count - s->asked);
        if (count > room) count = room;
    }
    turn->control = (gpt_loop_control){.count = (uint32_t)count,
                                       .given = (uint32_t)(all ? given : given + 1),
                                       .restarts = s->restarts,
                                       .end = s->w->end};
    if (given) memcpy(turn->given, s->tokens + s->next, given * sizeof *turn->given);
    for (uint64_t i = first; all && i < count; i++) turn->points[i] = gpt_choose_point(&s->random);
    if (all) s->asked += count - first;
    s->next += count;
    s->filled += count;
    s->restarts = false;
    s->submitted++;
    return rota_submit_wait(s->loop->plan.plan, turn->args, 0, &turn->ticket);
}

static rota_status collect(writer *s) {
    gpt_loop_turn *turn = &s->loop->turns[s->collected++ % GPT_LOOP_TURNS];
    ROTA_TRY(rota_wait(turn->ticket, 0));
    for (uint32_t i = 0; i < turn->control.count && !s->ended; i++) {
        const int32_t token = turn->chosen[i];
        if (token < 0) continue;
        s->ended = token == s->w->end;
        if (s->ended || *s->w->stop) break;
        s->tokens[s->known++] = token;
        s->written++;
        s->w->write(s->w->user, token);
    }
    return ROTA_OK;
}

/* What stands in the block is over, and everything that was chosen is known. */
static void forget_half(writer *s) {
    s->next -= s->loop->plan.model->config.block / 2;
    s->filled = 0;
    s->restarts = true;
}

static rota_status write_all(writer *s) {
    const uint64_t block = s->loop->plan.model->config.block;
    while (!s->ended && !*s->w->stop) {
        const bool wants = s->asked < s->w->count;
        const uint64_t under_way = s->submitted - s->collected;
        if (!wants && !under_way) return ROTA_OK;
        if (wants && s->filled == block && !under_way) forget_half(s);
        if (wants && s->filled < block && under_way < GPT_LOOP_TURNS)
            ROTA_TRY(submit(s));
        else
            ROTA_TRY(collect(s));
    }
    return ROTA_OK;
}

rota_status gpt_loop_write(gpt_loop *loop, const gpt_writing *writing, uint64_t *out_count) {
    writer s = {.loop = loop,
                .w = writing,
                .random = writing->random,
                .tokens = malloc((writing->prompt_count + writing->count + 1) * sizeof *s.tokens),
                .known = writing->prompt_count,
                .restarts = true};
    if (!s.tokens) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " tokens", writing->count);
    memcpy(s.tokens, writing->prompt, writing->prompt_count * sizeof *s.tokens);
    rota_status status = write_all(&s);
    while (s.collected < s.submitted) {
        const rota_status ended = rota_wait(loop->turns[s.collected++ % GPT_LOOP_TURNS].ticket, 0);
        if (status == ROTA_OK) status = ended;
    }
    free(s.tokens);
    if (out_count) *out_count = s.written;
    return status;
}
