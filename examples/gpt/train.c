/* Training a GPT: steps, measuring, saving, stopping. */
#include "examples/gpt/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "examples/gpt/checkpoint_files.h"
#include "examples/gpt/eval.h"
#include "examples/gpt/memory.h"
#include "examples/gpt/weights.h"

static const char program[] = "train_gpt";

static double learning_rate(const gpt_settings *s, uint64_t step) {
    if (step <= s->warmup) return s->lr * (double)step / (double)s->warmup;
    if (s->schedule == GPT_CONSTANT) return s->lr;
    if (step >= s->iters) return s->min_lr;
    double part = (double)(step - s->warmup) / (double)(s->iters - s->warmup);
    double left = s->schedule == GPT_LINEAR ? 1 - part : 0.5 * (1 + cos(3.141592653589793 * part));
    return s->min_lr + (s->lr - s->min_lr) * left;
}

/* ---- Steps, which take turns ---- */

/* After such a step the weights are looked at, so the next isn't begun before. */
static bool pauses_after(const gpt_settings *s, uint64_t step) {
    return step == s->iters || (s->eval_interval && step % s->eval_interval == 0);
}

static gpt_turn *turn_of(gpt_trainer *t, uint64_t step) {
    return &t->train.turns[step % GPT_TURNS];
}

/* Draws the next step's batch and sends it. */
static rota_status send(gpt_trainer *t) {
    const uint64_t step = t->submitted + 1;
    if (t->sent == step) return ROTA_OK;
    gpt_turn *turn = turn_of(t, step);
    random_state random =
        t->submitted == t->progress.step ? t->progress.random : t->random_after[t->submitted % GPT_TURNS];
    const gpt_config *c = &t->settings->config;
    gpt_text_step(&t->text, c->accumulate, c->batch, c->block, t->ranks.group, t->ranks.groups, &random,
                  turn->tokens, turn->targets);
    t->random_after[step % GPT_TURNS] = random;
    const uint64_t begin = rota_clock_ns();
    rota_ticket ticket;
    ROTA_TRY(gpt_train_send(&t->train, turn, &ticket));
    t->sent = step;
    if (t->report) {
        char name[48];
        snprintf(name, sizeof name, "batch of step %" PRIu64, step);
        run_report_follow_upload(t->report, name, begin, 2 * t->train.rows * t->train.length * 4, ticket);
    }
    return ROTA_OK;
}

static rota_status submit(gpt_trainer *t) {
    const gpt_settings *s = t->settings;
    const uint64_t step = t->submitted + 1;
    const uint32_t seed = (uint32_t)(s->seed ^ s->seed >> 32);
    turn_of(t, step)->asks_end = *t->interrupted ? 1 : 0;
    ROTA_TRY(
        gpt_train_submit(&t->train, turn_of(t, step), (float)learning_rate(s, step), (uint32_t)step, seed));
    t->submitted = step;
    if (!t->settings->keep_every || step % t->settings->keep_every || !t->ranks.communicator) return ROTA_OK;
    gpt_progress after = t->progress;
    after.step = step;
    after.random = t->random_after[step % GPT_TURNS];
    return gpt_keep(&t->keeper, t->settings->keep_every, &t->model, &after);
}

/* The step that the report shows: a later one, when all is warm, with the next one's batch on its way. The
 * step after it is not submitted until its times were taken; failing all that, the last step is shown. */
static bool is_reported(const gpt_trainer *t, uint64_t step) {
    enum { WARM = 8 };
    /* The same on all ranks, of which one has a report. */
    const bool waits = t->ranks.communicator ? (t->settings->report || t->settings->profile) && !t->reported
                                             : t->report && !run_report_has_times(t->report);
    return waits && step + 1 - t->meter.first_step >= WARM && !pauses_after(t->settings, step);
}

/* One of several ranks ends when all do: after a step by which each has heard of it. */
static bool is_to_stop(const gpt_trainer *t) {
    return t->ranks.communicator ? t->stops : *t->interrupted;
}

/* Keeps the device busy: the batch of the next step is drawn and sent while this one runs. */
static rota_status submit_ahead(gpt_trainer *t) {
    if (t->submitted == t->progress.step) t->began_ns = rota_clock_ns();
    while (t->submitted < t->settings->iters && t->submitted - t->progress.step < GPT_TURNS) {
        bool idle = t->submitted == t->progress.step;
        if (!idle && (is_to_stop(t) || pauses_after(t->settings, t->submitted))) break;
        ROTA_TRY(send(t));
        if (!idle && is_reported(t, t->submitted)) break;
        ROTA_TRY(submit(t));
    }
    return ROTA_OK;
}

/* A loss that isn't finite ends the training; --find-nan says where it came from. */
static int check_loss(gpt_trainer *t, const gpt_turn *turn, uint64_t step, float loss) {
    char text[256] = "";
    bool found = gpt_train_find_nan(&t->train, turn, text, sizeof text);
    if (isfinite(loss) && !found) return EXIT_GOOD;
    gpt_meter_break(&t->meter);
    if (!found && t->ranks.rank) return EXIT_CHECK_FAILED; /* all ranks see this loss */
    fprintf(stderr, "%s: %s of step %" PRIu64 " %s; nothing was saved%s\n", program,
            found ? "the first" : "the loss", step, found ? text : "is not finite",
            found || t->settings->find_nan ? "" : "; --find-nan says which tensor was the first");
    return EXIT_CHECK_FAILED;
}

int gpt_rank_failure(gpt_trainer *t, rota_status status) {
    t->is_cut_off = t->ranks.communicator && (status == ROTA_NODE_FAILED || status == ROTA_TIMEOUT);
    t->follows = t->ranks.said && atomic_exchange(t->ranks.said, true);
    return t->follows ? EXIT_CHECK_FAILED : gpt_memory_failure(program, status, &t->model);
}

/* ---- Measuring and saving ---- */

static double best_loss(const gpt_progress *p) {
    double best;
    memcpy(&best, &p->best_bits, sizeof best);
    return best;
}

static int save_weights(gpt_trainer *t, const char *path) {
    if (t->ranks.rank) {
        const rota_status status = gpt_model_follow(&t->model, GPT_VALUES + 1);
        return status == ROTA_OK ? EXIT_GOOD : gpt_rank_failure(t, status);
    }
    gpt_meter_break(&t->meter);
    return gpt_weights_save(path, &t->model, (rota_dtype)t->settings->weights_dtype) ? EXIT_GOOD
                                                                                     : EXIT_BAD_ARGUMENT;
}

static int save(gpt_trainer *t) {
    bool saved;
    if (!t->settings->checkpoint) return EXIT_GOOD;
    if (t->settings->checkpoint_shards && t->ranks.communicator) {
        if (!t->ranks.rank) gpt_meter_break(&t->meter);
        const rota_status status = gpt_checkpoint_save_shards(
            t->settings->checkpoint, &t->model, &t->text, &t->progress, &t->ranks, &t->saved.number, &saved);
        if (status != ROTA_OK) return gpt_rank_failure(t, status);
        t->saved.number = 0;
    } else if (t->ranks.rank) {
        const rota_status status = gpt_model_follow(&t->model, GPT_PARTS);
        t->saved.followed_step = t->progress.step;
        return status == ROTA_OK ? EXIT_GOOD : gpt_rank_failure(t, status);
    } else {
        gpt_meter_break(&t->meter);
        saved = gpt_checkpoint_save(t->settings->checkpoint, &t->model, &t->text, &t->progress, 0);
    }
    if (saved) t->saved.step = t->progress.step;
    return saved ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
}

/* Another rank is gone: what was kept is saved by each that lives, as none knows who else does; all of one step write
 * the same, and the file is there whole or as it was. But not over what was saved since. */
static void save_kept(gpt_trainer *t) {
    const gpt_kept *kept = t->settings->keep_every && t->is_cut_off ? gpt_keeper_latest(&t->keeper) : NULL;
    if (!kept) return;
    const uint64_t newer = gpt_saved_since(&t->saved, t->settings->checkpoint, kept->progress.step);
    if (newer) {
        fprintf(stderr,
                "%s: rank %" PRIu32 " kept the training as after step %" PRIu64
                "; the checkpoint in %s, of step %" PRIu64 ", is no older\n",
                program, t->ranks.rank, kept->progress.step, t->settings->checkpoint, newer);
        return;
    }
    t->model.kept = (const float *const *)kept->parts;
    t->model.kept_scale = kept->scale;
    if (gpt_checkpoint_save(t->settings->checkpoint, &t->model, &t->text, &kept->progress, t->saved.number))
        fprintf(stderr, "%s: rank %" PRIu32 " saved the training as after step %" PRIu64 " in %s\n", program,
                t->ranks.rank, kept->progress.step, t->settings->checkpoint);
    t->model.kept = NULL;
    t->model.kept_scale = NULL;
}

/* Counts evaluations without a better loss; weights better than any before are kept beside the checkpoint. */
static int note_evaluation(gpt_trainer *t, double val_loss) {
    const gpt_settings *s = t->settings;
    t->progress.since_best++;
    if (!(val_loss < best_loss(&t->progress))) return EXIT_GOOD;
    memcpy(&t->progress.best_bits, &val_loss, sizeof val_loss);
    t->progress.since_best = 0;
    if (!s->patience || !s->checkpoint) return EXIT_GOOD;
    size_t size = strlen(s->checkpoint) + sizeof "/best.safetensors";
    char *path = malloc(size);
    if (!path) {
        fprintf(stderr, "%s: no memory for a name\n", program);
        return EXIT_BAD_ARGUMENT;
    }
    snprintf(path, size, "%s/best.safetensors", s->checkpoint);
    int code = save_weights(t, path);
    free(path);
    return code;
}

static bool out_of_patience(const gpt_trainer *t) {
    return t->settings->patience && t->progress.since_best >= t->settings->patience;
}

/* The split's loss after the last step is over all of it, in between over random batches. */
static int measure(gpt_trainer *t, gpt_metrics *metrics) {
    const gpt_settings *s = t->settings;
    const bool last = metrics->step == s->iters;
    int code = EXIT_GOOD;
    if (is_to_stop(t) || !s->eval_iters || !pauses_after(s, metrics->step)) return EXIT_GOOD;
    gpt_evaluation e = {
        .model = &t->model, .text = &t->text, .plan = &t->loss, .ranks = &t->ranks, .stop = t->interrupted};
    /* A split shorter than a block has no random windows. */
    bool whole = last || t->text.count - t->text.train_count <= s->config.block;
    rota_status status =
        whole ? gpt_whole_loss(&e, &metrics->val_loss)
              : gpt_sampled_loss(&e, s->seed, metrics->step, s->eval_iters, &metrics->val_loss);
    if (status == ROTA_OK && !e.cut) code = note_evaluation(t, metrics->val_loss);
    if (status == ROTA_OK && code == EXIT_GOOD && !e.cut && !whole && out_of_patience(t))
        status = gpt_whole_loss(&e, &metrics->val_loss);
    if (status != ROTA_OK) return gpt_rank_failure(t, status);
    t->stops |= e.cut;
    /* Cut short, it is no mean of anything. */
    if (e.cut) metrics->val_loss = NAN;
    return code;
}

static rota_status report_step(gpt_trainer *t, const gpt_metrics *m) {
    const bool shown = is_reported(t, m->step);
    t->reported |= shown;
    if (!t->report) return ROTA_OK;
    run_report_add_step(t->report, &(run_report_step){m->step, m->loss, m->val_loss, m->lr, m->tok_s, m->ms});
    const bool last = m->step == t->settings->iters && !run_report_has_times(t->report);
    /* A step may have been submitted behind the first of them before. */
    const bool alone = t->submitted == m->step;
    return alone && (last || shown) ? run_report_take_plan(t->report, t->train.plan) : ROTA_OK;
}

void gpt_rank_give_up(gpt_trainer *t) {
    char why[96];
    if (t->follows) return;
    if (t->ranks.said) atomic_store(t->ranks.said, true);
    snprintf(why, sizeof why, "the training ended on rank %" PRIu32 ", which says why", t->ranks.rank);
    gpt_ranks_give_up(&t->ranks, why);
}

/* ---- Training ---- */

/* Waits for the next step and sees to what follows it; *out_stop: it was the last one for now. */
static int finish_step(gpt_trainer *t, bool *out_stop) {
    const gpt_settings *s = t->settings;
    const uint64_t step = t->progress.step + 1;
    gpt_turn *turn = turn_of(t, step);
    gpt_metrics metrics = {.step = step, .lr = learning_rate(s, step), .val_loss = NAN};
    float loss = NAN, norm = NAN;
    int code = EXIT_GOOD;
    rota_status status = gpt_train_wait(&t->train, turn, &loss, &norm);
    if (status != ROTA_OK) return gpt_rank_failure(t, status);
    t->stops |= gpt_train_ends(&t->train, turn);
    if (t->saved.followed_step > t->saved.step) t->saved.step = t->saved.followed_step;
    uint64_t now = rota_clock_ns();
    double seconds = (double)(now - t->began_ns) / 1e9;
    if (t->steps++ == 1) t->spent_ns = 0; /* the first one had what is made once */
    t->spent_ns += now - t->began_ns;
    t->began_ns = now;
    t->progress.step = step;
    t->progress.random = t->random_after[step % GPT_TURNS];
    metrics.loss = loss;
    metrics.grad_norm = norm;
    metrics.scales = t->model.scale != NULL;
    if (metrics.scales && !isfinite(norm))
        t->skipped++; /* as the loss scale's op has it: nothing was updated */
    metrics.skipped = t->skipped;
    metrics.ms = seconds * 1e3;
    metrics.tok_s = (double)(t->train.rows * t->ranks.groups * t->train.length) / seconds;
    code = check_loss(t, turn, step, loss);
    if (code == EXIT_GOOD) code = measure(t, &metrics);
    if (code == EXIT_GOOD && !gpt_meter_step(&t->meter, &metrics)) code = EXIT_BAD_ARGUMENT;
    if (code == EXIT_GOOD) REPORT_TRY(report_step(t, &metrics));
    bool interrupted = is_to_stop(t) && t->submitted == step, tired = out_of_patience(t);
    if (code == EXIT_GOOD && (pauses_after(s, step) || interrupted)) code = save(t);
    *out_stop = step == s->iters || interrupted || tired;
    if (code != EXIT_GOOD || step == s->iters || !*out_stop || t->ranks.rank) goto done;
    gpt_meter_break(&t->meter);
    if (interrupted)
        printf("stopped after step %" PRIu64 "%s%s\n", step, s->checkpoint ? ", saved in " : "",
               s->checkpoint ? s->checkpoint : "");
    else
        printf("stopped early after step %" PRIu64 ": %" PRIu64
               " evaluations without a validation loss below %.4f\n",
               step, t->progress.since_best, best_loss(&t->progress));
done:
    return code;
}

int gpt_train(gpt_trainer *t) {
    int code = EXIT_GOOD;
    bool stop = t->progress.step >= t->settings->iters || out_of_patience(t);
    t->submitted = t->sent = t->progress.step;
    if (t->settings->keep_every) t->saved.found_step = gpt_checkpoint_files_step(t->settings->checkpoint);
    while (!stop && code == EXIT_GOOD) {
        rota_status status = submit_ahead(t);
        code = status == ROTA_OK ? finish_step(t, &stop) : gpt_rank_failure(t, status);
    }
    if (code == EXIT_GOOD && t->settings->save_weights) code = save_weights(t, t->settings->save_weights);
    if (code != EXIT_GOOD) gpt_rank_give_up(t);
    if (code != EXIT_GOOD) save_kept(t);
    return code;
}
