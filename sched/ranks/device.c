/* Collectives of a device's memory, carried out by its library (NCCL): opened between the ranks, and each one of them
 * from the ranks' agreement to its end.
 *
 * All of this is the communicator's thread's, and nothing of it is waited for by another thread: workers post and go
 * on, threads that submit to devices see a host node that has not ended yet. What may block of the library is called by
 * a thread of its own (exec/nccl/caller.h), so that the thread that aborts is never one that the library holds.
 *
 * A run's way: a worker posts it (parts.h) when the node's first kernel is complete; the transport has the ranks agree;
 * rota_rank_device_begin gives it to the library; when its event has come on this rank's device the run ends, and the
 * node's last kernel may begin. What fails between, the library's error, another rank's farewell, the timeout, becomes
 * the transport's end first, which tells the other ranks while the farewell still says in which collective. Then the
 * library is aborted; the run ends only when the device touches nothing of it any more (P1). */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sched/ranks/flush.h"
#include "sched/ranks/parts.h"

enum {
    TEXT_WORDS = 64,
    TEXT_BYTES = 4 * TEXT_WORDS,
    ID_WORDS = ROTA_NCCL_ID_BYTES / 4,
    SPINS_NS = 1000000 /* how long a collective is looked at without a nap: longer ones bear one */
};

/* ---- Opening ---- */

/* What ranks say to each other: 32-bit words. */
typedef struct said {
    uint32_t is_ready;
    rota_nccl_about about;
    uint32_t text[TEXT_WORDS]; /* why not; a string */
} said;
typedef struct said_id {
    uint32_t is_ready, id[ID_WORDS], text[TEXT_WORDS];
} said_id;

typedef enum opening_stage { TELLS, NAMES, OPENS, CONCLUDES } opening_stage;

typedef struct rota_opening {
    rota_rank_asked asked;
    rota_communicator *communicator;
    rota_device *device;
    uint32_t index; /* of CUDA's */
    opening_stage stage;
    said own, *all; /* by rank */
    said_id id;
    uint32_t is_open, are_open;
    uint64_t deadline_ns; /* of OPENS */
    rota_nccl *nccl;
    char cause[512]; /* why it is not open here */
} rota_opening;

static void exchange(rota_communicator *c, rota_collective_kind kind, rota_collective_reduction reduction,
                     uint64_t bytes, const void *input, void *output, const char *name) {
    const rota_collective words = {.kind = kind,
                                   .type = ROTA_COLLECTIVE_U32,
                                   .reduction = reduction,
                                   .count = bytes / 4,
                                   .input = input,
                                   .output = output,
                                   .name = name};
    c->under_way.transport->vtable->post(c->under_way.transport, &words);
}

/* Answers; with a status that is not OK and its sentence, what was made is undone. */
static bool end_opening(rota_opening *o, rota_status status) {
    rota_communicator *c = o->communicator;
    c->on_device.opening = NULL;
    c->on_device.nccl = o->nccl;
    if (status == ROTA_OK) {
        c->on_device.device = o->device;
        (void)snprintf(c->on_device.id, sizeof c->on_device.id, "cuda:%u", o->index);
    }
    free(o->all);
    o->all = NULL;
    (void)rota_rank_answer(&o->asked, status); /* who has left closes it, and what was made with it */
    return false;
}

/* Each rank comes to the same, since all have what all said. */
static rota_status judge(const rota_opening *o) {
    const rota_communicator *c = o->communicator;
    for (uint32_t r = 0; r < c->size; r++)
        if (!o->all[r].is_ready)
            return rota_fail(ROTA_UNSUPPORTED,
                             "communicator '%s': rank %u can't have collectives on its device: %.*s", c->name,
                             r, TEXT_BYTES - 1, (const char *)o->all[r].text);
    for (uint32_t r = 1; r < c->size; r++)
        if (o->all[r].about.version != o->all[0].about.version)
            return rota_fail(
                ROTA_UNSUPPORTED,
                "communicator '%s': rank %u has NCCL of version %u, and rank 0 of version %u; they must "
                "be the same",
                c->name, r, o->all[r].about.version, o->all[0].about.version);
    for (uint32_t r = 1; r < c->size; r++)
        if (o->all[r].about.pinned != o->all[0].about.pinned)
            return rota_fail(ROTA_UNSUPPORTED,
                             "communicator '%s': ranks %u and 0 are not deterministic alike: all are, by one "
                             "NCCL_ALGO and "
                             "NCCL_PROTO, or none is",
                             c->name, r);
    for (uint32_t r = 1; r < c->size; r++)
        for (uint32_t k = 0; k < r; k++)
            if (memcmp(o->all[r].about.device, o->all[k].about.device, sizeof o->own.about.device) == 0)
                return rota_fail(
                    ROTA_UNSUPPORTED,
                    "communicator '%s': ranks %u and %u have the same GPU; NCCL needs another one for "
                    "each rank",
                    c->name, k, r);
    return ROTA_OK;
}

static void say_why(uint32_t text[TEXT_WORDS]) {
    (void)snprintf((char *)text, TEXT_BYTES, "%s", rota_last_error());
}

static bool name_ranks(rota_opening *o) {
    rota_communicator *c = o->communicator;
    const rota_status status = judge(o);
    if (status != ROTA_OK) return end_opening(o, status);
    if (c->rank == 0) {
        rota_nccl_id made;
        o->id.is_ready = rota_nccl_make_id(&made) == ROTA_OK;
        if (o->id.is_ready)
            memcpy(o->id.id, made.bytes, sizeof o->id.id);
        else
            say_why(o->id.text);
    }
    o->stage = NAMES;
    exchange(c, ROTA_COLLECTIVE_BROADCAST, ROTA_COLLECTIVE_SUM, sizeof o->id, &o->id, &o->id, "id of NCCL's");
    return true;
}

static void conclude(rota_opening *o, bool is_open) {
    o->is_open = is_open;
    if (!is_open) {
        (void)snprintf(o->cause, sizeof o->cause, "%s", rota_last_error());
        if (o->nccl) rota_nccl_abort(o->nccl);
    }
    o->stage = CONCLUDES;
    exchange(o->communicator, ROTA_COLLECTIVE_ALL_REDUCE, ROTA_COLLECTIVE_MIN, sizeof o->is_open, &o->is_open,
             &o->are_open, "open by NCCL");
}

/* Devices of the other ranks in this process. Returns how many. */
static uint32_t find_others(const rota_opening *o, uint32_t *out_devices) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < o->communicator->size; r++)
        if (r != o->communicator->rank && o->all[r].about.process == o->own.about.process)
            out_devices[count++] = o->all[r].about.index;
    return count;
}

static bool open_library(rota_opening *o) {
    const rota_communicator *c = o->communicator;
    rota_nccl_id id;
    if (!o->id.is_ready)
        return end_opening(o, rota_fail(ROTA_UNSUPPORTED, "communicator '%s': rank 0 has no id for it: %.*s",
                                        c->name, TEXT_BYTES - 1, (const char *)o->id.text));
    memcpy(id.bytes, o->id.id, sizeof id.bytes);
    o->stage = OPENS;
    /* The half, so that ranks which could not, and conclude already, do not give up on this one. */
    o->deadline_ns = rota_deadline_after(c->timeout_ns / 2);
    uint32_t *others = calloc(c->size, sizeof *others);
    const rota_status status =
        others ? rota_nccl_open(o->index, &id, c->rank, c->size, others, find_others(o, others), &o->nccl)
               : rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %u ranks", c->size);
    free(others);
    if (status != ROTA_OK) conclude(o, false);
    return true;
}

static bool look_at_library(rota_opening *o) {
    bool is_over;
    if (rota_nccl_progress(o->nccl, &is_over) != ROTA_OK) {
        conclude(o, false);
    } else if (is_over) {
        conclude(o, true);
    } else if (o->communicator->under_way.close) {
        (void)rota_fail(ROTA_WRONG_STATE, "it was closed meanwhile");
        conclude(o, false);
    } else if (rota_clock_ns() > o->deadline_ns) {
        (void)rota_fail(ROTA_TIMEOUT, "NCCL did not find all ranks within %.1f s",
                        (double)o->communicator->timeout_ns * 0.5e-9);
        conclude(o, false);
    }
    return true;
}

static bool end_concluded(rota_opening *o) {
    const rota_communicator *c = o->communicator;
    if (o->are_open) return end_opening(o, ROTA_OK);
    if (!o->is_open)
        return end_opening(o, rota_fail(ROTA_SYSTEM,
                                        "communicator '%s': rank %u can't have collectives on its device: %s",
                                        c->name, c->rank, o->cause));
    rota_nccl_abort(o->nccl);
    return end_opening(
        o, rota_fail(ROTA_SYSTEM,
                     "communicator '%s': another rank than %u can't have collectives on its device, "
                     "and says why",
                     c->name, c->rank));
}

bool rota_rank_device_open(rota_communicator *c, bool *out_moved) {
    rota_opening *o = c->on_device.opening;
    rota_transport *transport = c->under_way.transport;
    bool is_over;
    if (o->stage == OPENS) return look_at_library(o);
    const rota_status status = transport->vtable->progress(transport, &is_over, out_moved);
    if (!is_over) return true;
    if (status != ROTA_OK) return end_opening(o, status);
    *out_moved = true;
    if (o->stage == TELLS) return name_ranks(o);
    if (o->stage == NAMES) return open_library(o);
    return end_concluded(o);
}

static void open_on_thread(rota_rank_call *call) {
    rota_opening *o = (rota_opening *)(void *)call;
    rota_communicator *c = o->communicator;
    c->on_device.opening = o;
    o->own.is_ready = rota_nccl_look(o->index, &o->own.about) == ROTA_OK;
    if (o->own.is_ready && c->on_device.is_deterministic)
        o->own.is_ready = rota_nccl_pins(&o->own.about.pinned) == ROTA_OK;
    if (!o->own.is_ready) say_why(o->own.text);
    exchange(c, ROTA_COLLECTIVE_ALL_GATHER, ROTA_COLLECTIVE_SUM, sizeof o->own, &o->own, o->all,
             "devices of ranks");
    rota_rank_thread_add(c->thread, &c->under_way.work);
}

static rota_status index_of(const rota_communicator *c, rota_device *device, uint32_t *out_index) {
    const rota_device_info *info = device ? rota_device_get_info(device) : NULL;
    char *end = NULL;
    if (!info || rota_device_runtime(device) != c->runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "communicator '%s': rank %u has no device of its runtime, expected one", c->name,
                         c->rank);
    const unsigned long index =
        info->kind == ROTA_EXEC_CUDA ? strtoul(info->id + strlen("cuda:"), &end, 10) : 0;
    if (end && *end == 0 && end != info->id + strlen("cuda:")) {
        *out_index = (uint32_t)index;
        return ROTA_OK;
    }
    return rota_fail(
        ROTA_UNSUPPORTED,
        "communicator '%s': rank %u is to have collectives on '%s', expected a CUDA device that rota has "
        "opened, as \"cuda:0\"",
        c->name, c->rank, info->id);
}

static rota_status ask(rota_communicator *c, rota_device *device, rota_opening **out_opening) {
    uint32_t index = 0;
    ROTA_TRY(index_of(c, device, &index));
    rota_opening *o = (rota_opening *)(void *)rota_rank_ask(sizeof *o, open_on_thread);
    said *all = o ? calloc(c->size, sizeof *all) : NULL;
    if (!all) {
        free(o);
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory for its ranks' devices",
                         c->name);
    }
    o->communicator = c;
    o->device = device;
    o->index = index;
    o->all = all;
    rota_rank_thread_call(c->thread, &o->asked.call);
    *out_opening = o;
    return ROTA_OK;
}

/* Where it was not answered the thread has it still, and closing the communicator aborts it. */
static rota_status wait_for(rota_communicator *c, rota_opening *o) {
    bool is_answered;
    char what[128];
    (void)snprintf(what, sizeof what, "communicator '%s': opening it on its ranks' devices", c->name);
    /* Three exchanges, and the library's own wait for all ranks. */
    uint64_t deadline_ns = rota_deadline_after(rota_rank_patience_ns(c->timeout_ns, 3, c->timeout_ns / 2));
    const rota_status status = rota_rank_await(&o->asked, &deadline_ns, what, &is_answered);
    if (is_answered) rota_rank_forget(&o->asked);
    return status;
}

rota_status rota_rank_devices_open(rota_communicator *const *communicators, uint32_t count,
                                   rota_device *const *devices) {
    uint32_t index;
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(index_of(communicators[i], devices[i], &index));
    rota_opening **openings = calloc(count, sizeof *openings);
    char text[ROTA_ERROR_MESSAGE_MAX];
    rota_status first =
        openings ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "devices of ranks: no host memory");
    for (uint32_t i = 0; i < count && first == ROTA_OK; i++)
        first = ask(communicators[i], devices[i], &openings[i]);
    if (first != ROTA_OK) (void)snprintf(text, sizeof text, "%s", rota_last_error());
    /* Where one could not be asked those before it wait for it until their timeout. */
    for (uint32_t i = 0; i < count && openings; i++) {
        const rota_status status = openings[i] ? wait_for(communicators[i], openings[i]) : ROTA_OK;
        if (status == ROTA_OK || first != ROTA_OK) continue;
        first = status;
        (void)snprintf(text, sizeof text, "%s", rota_last_error());
    }
    free(openings);
    return first == ROTA_OK ? ROTA_OK : rota_fail(first, "%s", text);
}

/* ---- A collective ---- */

/* The transport has ended, and says at the run's end by what. Its farewell goes meanwhile: the library and the device
 * take as long as they like, and other ranks' wait for nothing of that. */
static void fail(rota_communicator *c) {
    c->on_device.has_failed = true;
    if (!c->under_way.close) rota_communicator_flush(c); /* else who closes it does */
    rota_nccl_abort(c->on_device.nccl);
}

/* As this rank has found, by a deadline or not: the others are told. */
static void fail_here(rota_communicator *c, const char *what, bool gave_up) {
    char cause[960];
    const rota_collective *collective = &c->posted.collective;
    rota_transport *transport = c->under_way.transport;
    (void)snprintf(cause, sizeof cause,
                   "communicator '%s': rank %u: %s '%s' on '%s', to which all its ranks had come: %s",
                   c->name, c->rank, rota_collective_kind_text(collective->kind), collective->name,
                   c->on_device.id, what);
    transport->vtable->carried(transport, cause, gave_up);
    fail(c);
}

void rota_rank_device_begin(rota_communicator *c) {
    rota_on_device *own = &c->on_device;
    own->carries = true;
    own->has_failed = false;
    own->stands = 0;
    own->since_ns = own->looked_ns = rota_clock_ns();
    if (rota_nccl_post(own->nccl, &c->posted.collective) != ROTA_OK) fail_here(c, rota_last_error(), false);
}

/* Whether it has come to its end well; else what is wrong, if anything, is so from here on. */
static bool is_done(rota_communicator *c, bool *out_moved) {
    rota_on_device *own = &c->on_device;
    rota_transport *transport = c->under_way.transport;
    bool is_over, has_ended, moved;
    if (rota_nccl_progress(own->nccl, &is_over) != ROTA_OK) {
        fail_here(c, rota_last_error(), false);
        return false;
    }
    /* Before what others say: this rank has its result. */
    if (is_over) {
        transport->vtable->carried(transport, NULL, false);
        return true;
    }
    if (transport->vtable->progress(transport, &has_ended, &moved) != ROTA_OK) {
        fail(c);
        return false;
    }
    const uint64_t now = rota_clock_ns();
    if (rota_transport_stood_ns(transport, own->looked_ns, now) && own->stands++ < ROTA_TRANSPORT_STANDS)
        own->since_ns = now;
    own->looked_ns = now;
    const uint64_t passed_ns = now - own->since_ns;
    if (passed_ns > c->timeout_ns) {
        char what[96];
        (void)snprintf(what, sizeof what,
                       "it did not end within %.1f s: another rank, or its device, stopped in it",
                       (double)c->timeout_ns * 1e-9);
        fail_here(c, what, true);
    }
    *out_moved = passed_ns < SPINS_NS;
    if (*out_moved) (void)sched_yield(); /* others have their turn, as while messages are looked for */
    return false;
}

bool rota_rank_device_carry(rota_communicator *c, bool *out_moved, rota_status *out_status) {
    rota_on_device *own = &c->on_device;
    bool moved, is_over = !own->has_failed && is_done(c, out_moved);
    if (is_over) *out_status = ROTA_OK;
    if (own->has_failed) {
        if (rota_nccl_progress(own->nccl, &is_over) != ROTA_OK) is_over = false;
        if (is_over)
            *out_status = c->under_way.transport->vtable->progress(c->under_way.transport, &is_over, &moved);
    }
    if (is_over) own->carries = false;
    return is_over;
}

bool rota_rank_device_close(rota_communicator *c) {
    if (c->on_device.nccl && !rota_nccl_close(c->on_device.nccl, c->under_way.close_deadline_ns))
        return false;
    c->on_device.nccl = NULL;
    return true;
}
