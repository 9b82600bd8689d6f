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

#include <stdlib.h>
#include <string.h>

#include "exec/comm/messages_parts.h"

typedef struct named {
    uint32_t tag, size_bytes;
} named;

typedef struct taken {
    rota_engine_request *request;
    void *bytes;
} taken;

typedef enum stage { COUNTS, NAMES, TAKES, DONE } stage;

typedef struct peer {
    stage stage;
    uint32_t count_out, count_in, done_out, done_in;
    named *names_out, *names_in;
    taken *takes; /* count_in */
    rota_engine_request *sends[3], *receives;
} peer;

struct rota_drain {
    rota_engine *engine;
    peer *peers; /* by rank */
    bool is_told, has_failed;
};

static void send(rota_drain *d, uint32_t to, const void *bytes, uint64_t size_bytes,
                 rota_engine_request **request) {
    d->has_failed = d->has_failed || d->engine->vtable->send(d->engine, to, ROTA_MESSAGES_DRAIN, bytes,
                                                             size_bytes, request) != ROTA_OK;
}

static void receive(rota_drain *d, uint32_t from, uint32_t tag, void *bytes, uint64_t size_bytes,
                    rota_engine_request **request) {
    d->has_failed = d->has_failed ||
                    d->engine->vtable->receive(d->engine, from, tag, bytes, size_bytes, request) != ROTA_OK;
}

/* Whether there is none. */
static bool is_over(rota_drain *d, rota_engine_request **request) {
    bool over = true;
    if (*request) (void)d->engine->vtable->test(d->engine, *request, &over);
    if (over) *request = NULL;
    return over;
}

static bool name_all(rota_drain *d, const rota_drain_message *messages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) d->peers[messages[i].to].count_out++;
    for (uint32_t i = 0; i < d->engine->size; i++) {
        peer *p = &d->peers[i];
        if (p->count_out && !(p->names_out = calloc(p->count_out, sizeof *p->names_out))) return false;
        p->count_out = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        peer *p = &d->peers[messages[i].to];
        p->names_out[p->count_out++] = (named){messages[i].tag, (uint32_t)messages[i].size_bytes};
    }
    return true;
}

rota_drain *rota_drain_begin(rota_engine *engine, const rota_drain_message *messages, uint32_t count) {
    rota_drain *d = calloc(1, sizeof *d);
    peer *peers = d ? calloc(engine->size, sizeof *peers) : NULL;
    if (!peers) {
        free(d);
        return NULL;
    }
    d->engine = engine;
    d->peers = peers;
    d->has_failed = !name_all(d, messages, count);
    for (uint32_t i = 0; i < engine->size && !d->has_failed; i++) {
        peer *p = &peers[i];
        if (i == engine->rank) continue;
        receive(d, i, ROTA_MESSAGES_DRAIN, &p->count_in, sizeof p->count_in, &p->receives);
        send(d, i, &p->count_out, sizeof p->count_out, &p->sends[0]);
        if (p->count_out)
            send(d, i, p->names_out, (uint64_t)p->count_out * sizeof *p->names_out, &p->sends[1]);
    }
    return d;
}

static void take_all(rota_drain *d, uint32_t from) {
    peer *p = &d->peers[from];
    if (p->count_in && !(p->takes = calloc(p->count_in, sizeof *p->takes))) d->has_failed = true;
    for (uint32_t i = 0; i < p->count_in && !d->has_failed; i++) {
        const named *one = &p->names_in[i];
        if (!(p->takes[i].bytes = malloc(one->size_bytes ? one->size_bytes : 1)))
            d->has_failed = true;
        else
            receive(d, from, one->tag, p->takes[i].bytes, one->size_bytes, &p->takes[i].request);
    }
    receive(d, from, ROTA_MESSAGES_DRAIN, &p->done_in, sizeof p->done_in, &p->receives);
}

static void cancel_takes(rota_drain *d, peer *p) {
    for (uint32_t i = 0; i < p->count_in; i++)
        if (!is_over(d, &p->takes[i].request))
            (void)d->engine->vtable->cancel(d->engine, p->takes[i].request);
}

/* The peer's next word has come. */
static void hear(rota_drain *d, uint32_t from) {
    peer *p = &d->peers[from];
    if (p->stage == COUNTS && p->count_in) {
        p->stage = NAMES;
        if (!(p->names_in = calloc(p->count_in, sizeof *p->names_in)))
            d->has_failed = true;
        else
            receive(d, from, ROTA_MESSAGES_DRAIN, p->names_in, (uint64_t)p->count_in * sizeof *p->names_in,
                    &p->receives);
    } else if (p->stage == COUNTS || p->stage == NAMES) {
        p->stage = TAKES;
        take_all(d, from);
    } else if (p->stage == TAKES) {
        p->stage = DONE;
        cancel_takes(d, p);
    }
}

static bool is_peer_through(rota_drain *d, peer *p) {
    bool over = p->stage == DONE;
    for (uint32_t i = 0; i < 3; i++) over = is_over(d, &p->sends[i]) && over;
    for (uint32_t i = 0; i < p->count_in && p->takes; i++) over = is_over(d, &p->takes[i].request) && over;
    return over;
}

bool rota_drain_go_on(rota_drain *d, bool is_own_over) {
    bool are_through = true;
    for (uint32_t i = 0; i < d->engine->size && !d->has_failed; i++) {
        peer *p = &d->peers[i];
        if (i == d->engine->rank) continue;
        if (is_own_over && !d->is_told) send(d, i, &p->done_out, sizeof p->done_out, &p->sends[2]);
        if (p->stage != DONE && is_over(d, &p->receives)) hear(d, i);
        are_through = is_peer_through(d, p) && are_through;
    }
    d->is_told = d->is_told || is_own_over;
    return are_through && d->is_told && !d->has_failed;
}

uint64_t rota_drain_bytes(const rota_drain *d) {
    uint64_t bytes = sizeof *d + d->engine->size * sizeof *d->peers;
    for (uint32_t i = 0; i < d->engine->size; i++)
        for (uint32_t t = 0; t < d->peers[i].count_in && d->peers[i].names_in; t++)
            bytes += d->peers[i].names_in[t].size_bytes;
    return bytes;
}

void rota_drain_free(rota_drain *d) {
    for (uint32_t i = 0; i < d->engine->size; i++) {
        peer *p = &d->peers[i];
        for (uint32_t t = 0; t < p->count_in && p->takes; t++) free(p->takes[t].bytes);
        free(p->takes);
        free(p->names_in);
        free(p->names_out);
    }
    free(d->peers);
    free(d);
}
