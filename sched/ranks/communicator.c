/* A communicator's life, and what its thread does with what is posted.
 *
 * Whose memory it is: the application has one reference until it closes, the token's memory is in the struct, so the
 * runtime gives the second one back when no graph, plan or submission names the token any more, and a look that is
 * queued has one, so that the thread never gets what is gone. */
#include "sched/communicator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/given.h"
#include "sched/embed.h"
#include "sched/ranks/flush.h"
#include "sched/ranks/parts.h"

static const uint64_t answer_late_ns =
    100000000u; /* how long the thread may take for the answer after a deadline */

/* ---- What is posted ---- */

void rota_communicator_release(rota_communicator *communicator) {
    if (ra_fetch_sub_acq_rel(&communicator->references, 1) != 1) return; /* pairs with itself */
    rota_rank_thread_release(communicator->thread);
    rota_order_release(communicator);
    free(communicator);
}

void rota_communicator_notify(rota_communicator *communicator) {
    /* Pairs with the exchange in look_at_posted: if a look is queued still, it sees what was posted before this. */
    if (ra_exchange_acq_rel(&communicator->posted.is_queued, 1)) return;
    rota_rank_thread_call(communicator->thread, &rota_communicator_retain(communicator)->posted.look);
}

/* Neither closed nor about to be. */
static bool is_open(const rota_under_way *own) {
    return own->transport && !own->close;
}

static rota_status fail_closed(const rota_communicator *c) {
    return rota_fail(ROTA_WRONG_STATE, "communicator '%s' is closed on rank %u", c->name, c->rank);
}

/* Whether one was left out that has its turn now: those that were submitted before it have ended. Both loads pair with
 * collective.c. */
static bool has_left_out(const rota_communicator *c) {
    return ra_load_acquire(&c->posted.left_out) &&
           (ra_load_acquire(&c->posted.is_skipped) || c->under_way.ended_count >= c->posted.left_out_after);
}

/* Begins what is posted, if nothing is under way. True: something is. */
static bool begin_next(rota_communicator *c) {
    rota_under_way *own = &c->under_way;
    if (is_open(own) && has_left_out(c)) {
        char cause[320];
        (void)snprintf(cause, sizeof cause,
                       "communicator '%s': rank %u left out its node '%s', since what that depends on has "
                       "failed there or "
                       "it was cancelled",
                       c->name, c->rank, c->posted.left_out_name);
        own->transport->vtable->abort(own->transport, cause);
        rota_communicator_flush(c);
        rota_order_ended(c, 0, cause);
    }
    if (own->run || own->split) return true;
    rota_host_run *run = ra_exchange_acq_rel(&c->posted.run, NULL); /* pairs with the store in begin */
    if (!run) return false;
    if (!is_open(own) || ra_load_acquire(&c->posted.is_closed)) {
        rota_host_end(run, fail_closed(c));
        return false;
    }
    own->run = run;
    rota_order_begin(c, &c->posted.collective);
    if (c->posted.collective.on_device) {
        rota_rank_thread_look_on(c->thread);
        rota_nccl_stir(c->on_device.nccl);
    }
    own->transport->vtable->post(own->transport, &c->posted.collective);
    return true;
}

static void look_at_posted(rota_rank_call *call) {
    rota_communicator *c = ROTA_STACK_OBJECT(call, rota_communicator, posted.look);
    (void)ra_exchange_acq_rel(&c->posted.is_queued, 0);
    const bool was_listed = c->under_way.run || c->under_way.split;
    if (begin_next(c) && !was_listed) rota_rank_thread_add(c->thread, &c->under_way.work);
    rota_communicator_release(c);
}

/* ---- Split on the thread ---- */

typedef struct asked_split {
    rota_rank_asked asked;
    rota_communicator *communicator;
    uint32_t color, key;
    char name[64];
    rota_transport *transport;
    const rota_collective *compares; /* instead: a barrier with what is compared; NULL: a split */
} asked_split;

static void split_on_thread(rota_rank_call *call) {
    asked_split *asked = (asked_split *)(void *)call;
    rota_communicator *c = asked->communicator;
    rota_under_way *own = &c->under_way;
    if (!is_open(own)) {
        (void)rota_rank_answer(&asked->asked, fail_closed(c));
        return;
    }
    if (own->run || own->split) {
        (void)rota_rank_answer(
            &asked->asked,
            rota_fail(
                ROTA_WRONG_STATE,
                "communicator '%s': a collective, another split or another compilation with compare_ranks "
                "began during its split or compilation; they are one thread's, one at a time",
                c->name));
        return;
    }
    own->split = &asked->asked;
    if (asked->compares)
        own->transport->vtable->post(own->transport, asked->compares);
    else
        own->transport->vtable->split(own->transport, asked->color, asked->key);
    rota_rank_thread_add(c->thread, &own->work);
}

static void end_split(rota_communicator *c, rota_status status) {
    asked_split *asked = (asked_split *)(void *)c->under_way.split;
    rota_transport *transport = c->under_way.transport, *made = NULL;
    c->under_way.split = NULL;
    if (status != ROTA_OK) rota_order_ended(c, 0, NULL);
    if (status != ROTA_OK && !c->under_way.close) rota_communicator_flush(c);
    if (status == ROTA_OK && !asked->compares && asked->color != ROTA_COMMUNICATOR_NO_COLOR)
        status = transport->vtable->take_split(transport, asked->name, &made);
    asked->transport = made;
    if (rota_rank_answer(&asked->asked, status) && made) rota_communicator_drop(c->thread, made);
}

static void end_close(rota_communicator *c, uint64_t abandoned_bytes) {
    rota_rank_asked *asked = c->under_way.close;
    char why[ROTA_ERROR_MESSAGE_MAX];
    if (abandoned_bytes) (void)snprintf(why, sizeof why, "%s", rota_last_error());
    c->under_way.close = NULL;
    c->under_way.transport = NULL;
    (void)begin_next(c); /* what was posted meanwhile is refused */
    if (!rota_rank_answer(asked, abandoned_bytes ? rota_fail(ROTA_TIMEOUT, "%s", why) : ROTA_OK)) return;
    /* Nobody waits for it, and lets go of what its owner had. */
    rota_rank_thread_leave(c->thread);
    rota_communicator_release(c);
}

static bool end_run(rota_communicator *c, rota_status status) {
    rota_host_run *run = c->under_way.run;
    c->under_way.run = NULL;
    c->under_way.ended_count++;
    /* Before who waits for it may know, and submit no more. */
    if (status != ROTA_OK) rota_order_ended(c, c->under_way.transport->crossed, rota_last_error());
    if (status != ROTA_OK && !c->under_way.close) rota_communicator_flush(c);
    /* Before it ends: then who posts may write it. The next one comes soon while a step is under way. */
    if (c->posted.collective.on_device) rota_rank_thread_look_on(c->thread);
    rota_host_end(run, status);
    return begin_next(c);
}

/* A device's library may touch what a run has: it is closed when that is over. */
static bool look_at_close(rota_communicator *c) {
    rota_under_way *own = &c->under_way;
    uint64_t abandoned = 0;
    if (!rota_rank_device_close(c)) {
        own->work.is_told = false; /* nobody says when the library has ended */
        return true;
    }
    if (!own->transport->vtable->close(own->transport, own->close_deadline_ns, &abandoned)) {
        if (!own->transport->lingers) return true;
        rota_communicator_drop(c->thread, own->transport);
    }
    end_close(c, abandoned); /* from here on it may be gone */
    return false;
}

/* rota_rank_work.look. */
static bool look_at_work(rota_rank_work *work, bool *out_moved) {
    rota_communicator *c = ROTA_STACK_OBJECT(work, rota_communicator, under_way.work);
    rota_under_way *own = &c->under_way;
    bool is_over;
    rota_status status;
    *out_moved = false;
    work->is_told = own->transport->is_told && !c->on_device.opening && !c->on_device.carries;
    if (own->close) (void)own->transport->vtable->flush(own->transport);
    if (c->on_device.opening) return rota_rank_device_open(c, out_moved) || own->close;
    if (c->on_device.carries) {
        if (!rota_rank_device_carry(c, out_moved, &status)) return true;
        return end_run(c, status) || own->close;
    }
    if (own->close) return look_at_close(c);
    status = own->transport->vtable->progress(own->transport, &is_over, out_moved);
    if (!is_over) {
        if (!*out_moved && own->run) rota_order_waits(c); /* of a split nothing is compared */
        return true;
    }
    if (own->run && status == ROTA_OK && c->posted.collective.on_device) {
        rota_rank_device_begin(c);
        return true;
    }
    if (own->run) return end_run(c, status);
    end_split(c, status);
    return begin_next(c);
}

/* ---- Closing on the thread ---- */

typedef struct asked_close {
    rota_rank_asked asked;
    rota_communicator *communicator;
    uint64_t deadline_ns;
} asked_close;

static void close_on_thread(rota_rank_call *call) {
    asked_close *asked = (asked_close *)(void *)call;
    rota_communicator *c = asked->communicator;
    rota_under_way *own = &c->under_way;
    if (own->run || own->split || c->on_device.opening) {
        char cause[192];
        (void)snprintf(cause, sizeof cause, "communicator '%s': rank %u closed it with %s under way", c->name,
                       c->rank, c->on_device.opening ? "its opening" : "a collective");
        own->transport->vtable->abort(own->transport, cause);
        rota_rank_thread_remove(c->thread, &own->work); /* which looks itself: */
        /* After an abort the next look is the last one, but for a library's: that takes its time. */
        for (bool moved; (own->run || own->split) && !c->on_device.carries;)
            (void)look_at_work(&own->work, &moved);
    }
    /* Other ranks are told at once, whatever the device's library takes to end. */
    if (!c->on_device.carries && !c->on_device.opening)
        own->transport->vtable->begin_to_close(own->transport);
    rota_communicator_stop_flushing(c);
    own->close = &asked->asked;
    own->close_deadline_ns = asked->deadline_ns;
    (void)begin_next(c);                            /* what was posted meanwhile is refused */
    rota_rank_thread_remove(c->thread, &own->work); /* it may be there for a device */
    rota_rank_thread_add(c->thread, &own->work);
}

/* ---- Open ---- */

static void give_back_token(void *user) {
    rota_communicator_release(user);
}

rota_status rota_communicator_make(rota_runtime *runtime, rota_device *device, rota_rank_thread *thread,
                                   rota_communicator **out_communicator) {
    rota_communicator *c = aligned_alloc(64, (sizeof *c + 63) / 64 * 64);
    rota_status status = ROTA_OK;
    if (c) {
        memset(c, 0, sizeof *c);
        c->runtime = runtime;
        c->process = getpid();
        status = rota_order_find(c);
    }
    if (c && status == ROTA_OK) {
        const rota_adopt_options token =
            ROTA_ADOPT_OPTIONS(.name = "communicator", .kind = ROTA_MEMORY_HOST, .memory = c->token_memory,
                               .size_bytes = sizeof c->token_memory, .release = give_back_token, .user = c);
        status = rota_buffer_adopt(device, &token, &c->token);
    } else if (!c) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "a communicator: no host memory");
    }
    if (status != ROTA_OK) {
        if (c) rota_order_release(c);
        free(c);
        rota_rank_thread_leave(thread);
        rota_rank_thread_release(thread);
        return status;
    }
    atomic_init(&c->references, 2);
    c->device = device;
    c->thread = thread;
    c->posted.look.fn = look_at_posted;
    c->under_way.work.look = look_at_work;
    *out_communicator = c;
    return ROTA_OK;
}

void rota_communicator_unmake(rota_communicator *c) {
    rota_rank_thread_leave(c->thread);
    rota_buffer_release(c->token);
    rota_communicator_release(c);
}

void rota_communicator_carry_by(rota_communicator *c, rota_transport *transport) {
    (void)snprintf(c->name, sizeof c->name, "%s", transport->name);
    c->kind = strcmp(transport->kind, "threads") == 0 && transport->size == 1 ? "alone" : transport->kind;
    c->rank = transport->rank;
    c->size = transport->size;
    c->timeout_ns = transport->timeout_ns;
    c->under_way.transport = transport;
    rota_order_join(c);
}

/* ---- Its owner's calls ---- */

static rota_status check_process(const rota_communicator *communicator) {
    if (communicator->process == getpid()) return ROTA_OK;
    return rota_fail(ROTA_WRONG_STATE, "communicator '%s' is the parent's: it does not survive fork",
                     communicator->name);
}

uint32_t rota_communicator_rank(const rota_communicator *communicator) {
    return communicator ? communicator->rank : 0;
}
uint32_t rota_communicator_size(const rota_communicator *communicator) {
    return communicator ? communicator->size : 0;
}
const char *rota_communicator_name(const rota_communicator *communicator) {
    return communicator ? communicator->name : "";
}
rota_device *rota_communicator_device(const rota_communicator *communicator) {
    return communicator ? communicator->on_device.device : NULL;
}
const char *rota_communicator_transport(const rota_communicator *communicator) {
    return communicator ? communicator->kind : "";
}

rota_status rota_communicator_open_split(rota_communicator *communicator, uint32_t color, uint32_t key,
                                         const char *name, rota_communicator **out_communicator) {
    ROTA_GIVEN(out_communicator);
    *out_communicator = NULL;
    ROTA_GIVEN(communicator);
    ROTA_TRY(check_process(communicator));
    if (ra_load_acquire(&communicator->posted.is_closed)) return fail_closed(communicator);
    /* What was submitted is over on this rank then; others' may not be, and their part of the split waits for that. */
    uint32_t unused;
    ROTA_TRY(rota_buffer_read(communicator->token, 0, &unused, sizeof unused));
    rota_communicator *made;
    rota_rank_thread_share(communicator->thread);
    ROTA_TRY(
        rota_communicator_make(communicator->runtime, communicator->device, communicator->thread, &made));
    asked_split *asked = (asked_split *)(void *)rota_rank_ask(sizeof *asked, split_on_thread);
    if (!asked) {
        rota_communicator_unmake(made);
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory", communicator->name);
    }
    asked->communicator = communicator;
    asked->color = color;
    asked->key = key;
    if (name)
        (void)snprintf(asked->name, sizeof asked->name, "%s", name);
    else
        (void)snprintf(asked->name, sizeof asked->name, "%.40s of %u", communicator->name, color);
    bool is_answered;
    const rota_status status = rota_rank_wait(
        communicator->thread, &asked->asked,
        rota_deadline_after(rota_rank_patience_ns(communicator->timeout_ns, 1, 0)), "a split", &is_answered);
    rota_transport *transport = is_answered ? asked->transport : NULL;
    if (is_answered) rota_rank_forget(&asked->asked);
    if (!transport) {
        rota_communicator_unmake(made);
        return status;
    }
    made->ordered.is_own = communicator->ordered.is_own;
    made->on_device.is_deterministic = communicator->on_device.is_deterministic;
    rota_communicator_carry_by(made, transport);
    *out_communicator = made;
    return communicator->on_device.device
               ? rota_communicator_open_devices(out_communicator, 1, &communicator->on_device.device)
               : ROTA_OK;
}

/* ---- Comparing ---- */

struct rota_comparison {
    asked_split split;
    rota_collective barrier;
    char graph[64];
    rota_ticket submitted; /* the read of the token, which comes after what was; none: it is over */
    uint32_t unused;
};

/* The thread's reference, and that of who asks. */
static void forget_unposted(rota_comparison *comparison) {
    rota_rank_forget(&comparison->split.asked);
    rota_rank_forget(&comparison->split.asked);
}

static rota_status read_token(rota_comparison *made) {
    rota_buffer *token = made->split.communicator->token;
    const rota_status status =
        rota_buffer_read_async(token, 0, &made->unused, sizeof made->unused, &made->submitted);
    if (status != ROTA_BUSY) return status;
    made->submitted = (rota_ticket){0}; /* no room for one more: this one waits here */
    return rota_buffer_read(token, 0, &made->unused, sizeof made->unused);
}

rota_status rota_comparison_begin(rota_communicator *c, const rota_collective_position *first,
                                  rota_comparison **out) {
    *out = NULL;
    ROTA_TRY(check_process(c));
    if (ra_load_acquire(&c->posted.is_closed)) return fail_closed(c);
    rota_comparison *made = (rota_comparison *)(void *)rota_rank_ask(sizeof *made, split_on_thread);
    if (!made) return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory", c->name);
    (void)snprintf(made->graph, sizeof made->graph, "%s", first->graph ? first->graph : "");
    made->barrier = (rota_collective){.kind = ROTA_COLLECTIVE_BARRIER, .name = "compile", .position = *first};
    made->barrier.position.graph = made->graph;
    made->barrier.position.lane = NULL;
    made->barrier.position.index = made->barrier.position.list_count = 0;
    made->split.communicator = c;
    made->split.compares = &made->barrier;
    const rota_status status = read_token(made);
    if (status == ROTA_OK)
        *out = made;
    else
        forget_unposted(made);
    return status;
}

rota_status rota_comparison_await_turn(rota_comparison *comparison) {
    const rota_status status = comparison->submitted.id ? rota_wait(comparison->submitted, 0) : ROTA_OK;
    /* Else it may be written still, and is kept for good. */
    if (status != ROTA_OK && status != ROTA_TIMEOUT) forget_unposted(comparison);
    return status;
}

void rota_comparison_post(rota_comparison *comparison) {
    rota_rank_thread_call(comparison->split.communicator->thread, &comparison->split.asked.call);
}

uint64_t rota_comparison_patience_ns(const rota_comparison *comparison) {
    return rota_rank_patience_ns(comparison->split.communicator->timeout_ns, 1, 0);
}

rota_status rota_comparison_wait(rota_comparison *comparison, uint64_t *deadline_ns, bool *out_is_over) {
    const rota_communicator *c = comparison->split.communicator;
    char what[128];
    (void)snprintf(what, sizeof what, "communicator '%s': comparing a graph's collectives", c->name);
    const rota_status status = rota_rank_await(&comparison->split.asked, deadline_ns, what, out_is_over);
    if (*out_is_over) rota_rank_forget(&comparison->split.asked);
    return status;
}

typedef struct asked_abort {
    rota_rank_asked asked;
    rota_communicator *communicator;
    char cause[512];
} asked_abort;

static void abort_on_thread(rota_rank_call *call) {
    asked_abort *asked = (asked_abort *)(void *)call;
    rota_communicator *c = asked->communicator;
    const rota_status status = is_open(&c->under_way) ? ROTA_OK : fail_closed(c);
    if (status == ROTA_OK) {
        c->under_way.transport->vtable->abort(c->under_way.transport, asked->cause);
        rota_communicator_flush(c);
        rota_order_ended(c, 0, asked->cause);
    }
    (void)rota_rank_answer(&asked->asked, status);
}

rota_status rota_communicator_abort(rota_communicator *communicator, const char *cause) {
    ROTA_GIVEN(communicator);
    ROTA_GIVEN(cause);
    ROTA_TRY(check_process(communicator));
    if (ra_load_acquire(&communicator->posted.is_closed)) return fail_closed(communicator);
    asked_abort *asked = (asked_abort *)(void *)rota_rank_ask(sizeof *asked, abort_on_thread);
    if (!asked) return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory", communicator->name);
    asked->communicator = communicator;
    (void)snprintf(asked->cause, sizeof asked->cause, "communicator '%s': rank %u ended it: %s",
                   communicator->name, communicator->rank, cause);
    bool is_answered;
    const rota_status status =
        rota_rank_wait(communicator->thread, &asked->asked, rota_deadline_after(ROTA_RANK_ANSWER_NS),
                       "ending a communicator", &is_answered);
    if (is_answered) rota_rank_forget(&asked->asked);
    return status;
}

rota_status rota_communicator_close(rota_communicator *communicator, uint64_t timeout_ns) {
    if (!communicator) return ROTA_OK;
    if (check_process(communicator) != ROTA_OK) { /* there is no thread to ask, and nothing to be told */
        rota_buffer_release(communicator->token);
        return ROTA_OK;
    }
    asked_close *asked = (asked_close *)(void *)rota_rank_ask(sizeof *asked, close_on_thread);
    if (!asked) return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory", communicator->name);
    ra_store_release(&communicator->posted.is_closed, 1); /* pairs with begin_next */
    rota_order_leave(communicator);
    rota_buffer *token = communicator->token;
    const uint64_t deadline_ns = rota_deadline_after(timeout_ns ? timeout_ns : communicator->timeout_ns);
    asked->communicator = communicator;
    asked->deadline_ns = deadline_ns;
    char what[128];
    (void)snprintf(what, sizeof what, "closing communicator '%s'", communicator->name);
    bool is_answered;
    const rota_status status =
        rota_rank_wait(communicator->thread, &asked->asked, rota_rank_later(deadline_ns, answer_late_ns),
                       what, &is_answered);
    rota_buffer_release(token);
    if (!is_answered) return status; /* the thread is in its library still, and has the communicator */
    rota_rank_forget(&asked->asked);
    rota_rank_thread_leave(communicator->thread);
    rota_communicator_release(communicator);
    return status;
}
