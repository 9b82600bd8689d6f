/* Before an engine ends whose messages can't be taken back, each rank takes what others had sent it and it did not want
 * any more, or MPI_Finalize would wait for that for good. All ranks do this, when the last transport of each is closed.
 *
 *   this rank                                    each other one
 *   how many messages, then which  ------------> takes them into memory that nobody looks at
 *   all of those have ended        ------------> takes back what it still waits for: it was there before
 *
 * A message may have been taken while it was named: then its receive is in vain, which is why the second step is there.
 * Between two ranks all of it has one tag, and so comes in order. */
#include "exec/comm/drain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/comm/messages_parts.h"

typedef struct named {
    uint32_t tag, size_bytes;
} named;

/* What a message can name. */
enum { NAMES_MOST = ROTA_ENGINE_MESSAGE_MOST / sizeof(named) };

typedef struct taken {
    rota_engine_request *request;
    void *bytes;
} taken;

typedef enum stage { COUNTS, NAMES, TAKES, DONE } stage;

/* What there is with another rank. */
typedef struct other {
    stage stage;
    uint32_t count_out, count_in, done_out, done_in;
    named *names_out, *names_in;
    taken *takes; /* count_in */
    rota_engine_request *sends[3], *receives;
} other;

struct rota_drain {
    rota_engine *engine;
    other *others; /* by rank */
    uint64_t most; /* messages that another rank can name */
    bool is_told, has_failed;
    char why[128];
};

static void send(rota_drain *d, uint32_t to, const void *bytes, uint64_t size_bytes,
                 rota_engine_request **request) {
    d->has_failed = d->has_failed || d->engine->vtable->send(d->engine, to, ROTA_MESSAGES_DRAIN, bytes,
                                                             size_bytes, request) != ROTA_OK;
}

static void receive(rota_drain *d, uint32_t from, uint32_t tag, void *bytes, uint64_t least_bytes,
                    uint64_t size_bytes, rota_engine_request **request) {
    d->has_failed = d->has_failed || d->engine->vtable->receive(d->engine, from, tag, bytes, least_bytes,
                                                                size_bytes, request) != ROTA_OK;
}

/* Whether there is none. */
static bool is_over(rota_drain *d, rota_engine_request **request) {
    bool over = true;
    if (*request) (void)d->engine->vtable->test(d->engine, *request, &over);
    if (over) *request = NULL;
    return over;
}

/* Nothing of what it says is used. */
static void refuse(rota_drain *d, uint32_t from, const char *what, uint64_t found, uint64_t most) {
    d->has_failed = true;
    (void)snprintf(d->why, sizeof d->why, "rank %u names %s %llu, expected %llu at the most", from, what,
                   (unsigned long long)found, (unsigned long long)most);
}

static bool name_all(rota_drain *d, const rota_drain_message *messages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) d->others[messages[i].to].count_out++;
    for (uint32_t i = 0; i < d->engine->size; i++) {
        other *p = &d->others[i];
        if (p->count_out > NAMES_MOST) return false;
        if (p->count_out && !(p->names_out = calloc(p->count_out, sizeof *p->names_out))) return false;
        p->count_out = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        other *p = &d->others[messages[i].to];
        p->names_out[p->count_out++] = (named){messages[i].tag, (uint32_t)messages[i].size_bytes};
    }
    return true;
}

rota_drain *rota_drain_begin(rota_engine *engine, const rota_drain_message *messages, uint32_t count,
                             uint64_t most) {
    rota_drain *d = calloc(1, sizeof *d);
    other *others = d ? calloc(engine->size, sizeof *others) : NULL;
    if (!others) {
        free(d);
        return NULL;
    }
    d->engine = engine;
    d->others = others;
    d->most = most < NAMES_MOST ? most : NAMES_MOST;
    d->has_failed = !name_all(d, messages, count);
    for (uint32_t i = 0; i < engine->size && !d->has_failed; i++) {
        other *p = &others[i];
        if (i == engine->rank) continue;
        receive(d, i, ROTA_MESSAGES_DRAIN, &p->count_in, sizeof p->count_in, sizeof p->count_in,
                &p->receives);
        send(d, i, &p->count_out, sizeof p->count_out, &p->sends[0]);
        if (p->count_out)
            send(d, i, p->names_out, (uint64_t)p->count_out * sizeof *p->names_out, &p->sends[1]);
    }
    return d;
}

/* Whether all that it names can be messages of a rank's. */
static bool are_messages(rota_drain *d, uint32_t from) {
    const other *p = &d->others[from];
    for (uint32_t i = 0; i < p->count_in && !d->has_failed; i++) {
        const named *one = &p->names_in[i];
        if (one->tag > d->engine->last_tag)
            refuse(d, from, "a message of tag", one->tag, d->engine->last_tag);
        if (one->size_bytes > ROTA_ENGINE_MESSAGE_MOST)
            refuse(d, from, "a message of bytes", one->size_bytes, ROTA_ENGINE_MESSAGE_MOST);
    }
    return !d->has_failed;
}

static void take_all(rota_drain *d, uint32_t from) {
    other *p = &d->others[from];
    if (p->count_in && !(p->takes = calloc(p->count_in, sizeof *p->takes))) d->has_failed = true;
    for (uint32_t i = 0; i < p->count_in && !d->has_failed; i++) {
        const named *one = &p->names_in[i];
        if (!(p->takes[i].bytes = malloc(one->size_bytes ? one->size_bytes : 1)))
            d->has_failed = true;
        else
            receive(d, from, one->tag, p->takes[i].bytes, 0, one->size_bytes, &p->takes[i].request);
    }
    receive(d, from, ROTA_MESSAGES_DRAIN, &p->done_in, sizeof p->done_in, sizeof p->done_in, &p->receives);
}

static void cancel_takes(rota_drain *d, other *p) {
    for (uint32_t i = 0; i < p->count_in; i++)
        if (!is_over(d, &p->takes[i].request))
            (void)d->engine->vtable->cancel(d->engine, p->takes[i].request);
}

static void receive_names(rota_drain *d, uint32_t from) {
    other *p = &d->others[from];
    const uint64_t bytes = (uint64_t)p->count_in * sizeof *p->names_in;
    if (p->count_in > d->most)
        refuse(d, from, "messages", p->count_in, d->most);
    else if (!(p->names_in = calloc(p->count_in, sizeof *p->names_in)))
        d->has_failed = true;
    else
        receive(d, from, ROTA_MESSAGES_DRAIN, p->names_in, bytes, bytes, &p->receives);
    if (!p->names_in) p->count_in = 0;
}

/* Its next word has come. */
static void hear(rota_drain *d, uint32_t from) {
    other *p = &d->others[from];
    if (p->stage == NAMES && !are_messages(d, from)) return;
    if (p->stage == COUNTS && p->count_in) {
        p->stage = NAMES;
        receive_names(d, from);
    } else if (p->stage == COUNTS || p->stage == NAMES) {
        p->stage = TAKES;
        take_all(d, from);
    } else if (p->stage == TAKES) {
        p->stage = DONE;
        cancel_takes(d, p);
    }
}

static bool is_through(rota_drain *d, other *p) {
    bool over = p->stage == DONE;
    for (uint32_t i = 0; i < 3; i++) over = is_over(d, &p->sends[i]) && over;
    for (uint32_t i = 0; i < p->count_in && p->takes; i++) over = is_over(d, &p->takes[i].request) && over;
    return over;
}

/* Whether its next word has, whole; one that failed says nothing. */
static bool has_come(rota_drain *d, uint32_t from) {
    bool over = true;
    rota_engine_request **request = &d->others[from].receives;
    if (*request && d->engine->vtable->test(d->engine, *request, &over) != ROTA_OK) {
        d->has_failed = true;
        (void)snprintf(d->why, sizeof d->why, "%s", rota_last_error());
    }
    if (over) *request = NULL;
    return over && !d->has_failed;
}

bool rota_drain_go_on(rota_drain *d, bool is_own_over) {
    bool are_through = true;
    for (uint32_t i = 0; i < d->engine->size && !d->has_failed; i++) {
        other *p = &d->others[i];
        if (i == d->engine->rank) continue;
        if (is_own_over && !d->is_told) send(d, i, &p->done_out, sizeof p->done_out, &p->sends[2]);
        if (p->stage != DONE && has_come(d, i)) hear(d, i);
        are_through = is_through(d, p) && are_through;
    }
    d->is_told = d->is_told || is_own_over;
    return are_through && d->is_told && !d->has_failed;
}

const char *rota_drain_failure(const rota_drain *d) {
    return d->why;
}

uint64_t rota_drain_bytes(const rota_drain *d) {
    uint64_t bytes = sizeof *d + d->engine->size * sizeof *d->others;
    for (uint32_t i = 0; i < d->engine->size; i++)
        for (uint32_t t = 0; t < d->others[i].count_in && d->others[i].takes; t++)
            if (d->others[i].takes[t].bytes) bytes += d->others[i].names_in[t].size_bytes;
    return bytes;
}

void rota_drain_free(rota_drain *d) {
    for (uint32_t i = 0; i < d->engine->size; i++) {
        other *p = &d->others[i];
        for (uint32_t t = 0; t < p->count_in && p->takes; t++) free(p->takes[t].bytes);
        free(p->takes);
        free(p->names_in);
        free(p->names_out);
    }
    free(d->others);
    free(d);
}
