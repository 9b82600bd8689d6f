/* Messages between ranks of one process: a mutex over lists of what was sent and what is wanted. A message is copied
 * once, by whoever comes second, from the sender's bytes to the receiver's: a send is over only when it was wanted.
 * A small one that nobody wants yet is copied at once, and over: both as MPI has it. */
#include "exec/comm/threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "exec/comm/messages.h"
#include "exec/common/link.h"

enum { SMALL_BYTES = 2048 };

typedef struct message {
    rota_link link; /* of the receiver's `sent` or `wanted`, or alone */
    uint32_t from, to, tag;
    bool is_over, is_misfit, is_copy; /* is_copy: nobody's, with its bytes behind it, until it is wanted */
    const void *bytes;                /* sent */
    void *room;                       /* wanted: of least_bytes to size_bytes */
    uint64_t least_bytes, size_bytes;
    uint64_t got_bytes; /* of a misfit */
} message;

typedef struct mailbox {
    rota_link sent, wanted; /* oldest first */
    rota_sleeper *sleeper;  /* of its owner's; NULL: that looks now and then */
} mailbox;

/* All but `users` under the mutex. */
typedef struct world {
    pthread_mutex_t mutex;
    uint32_t size, users;
    mailbox *boxes; /* by receiver */
} world;

typedef struct threads_engine {
    rota_engine base;
    world *world;
} threads_engine;

static threads_engine *engine_of(rota_engine *engine) {
    return (threads_engine *)(void *)engine;
}

static void add_last(rota_link *list, rota_link *link) {
    rota_link_add(list->previous, link);
}

/* Looked through once a message, not once a node: a receiver has about one message of each other rank and communicator
 * at a time, and ranks of one process are few, as each has a runtime. */
static message *find(rota_link *list, const message *other) {
    for (rota_link *link = list->next; link != list; link = link->next) {
        message *found = ROTA_LINKED(link, message, link);
        if (found->from == other->from && found->tag == other->tag) return found;
    }
    return NULL;
}

static void deliver(message *sent, message *wanted) {
    const bool fits = rota_engine_fits(sent->size_bytes, wanted->least_bytes, wanted->size_bytes);
    if (fits && sent->size_bytes) memcpy(wanted->room, sent->bytes, sent->size_bytes);
    wanted->is_misfit = !fits;
    wanted->got_bytes = sent->size_bytes;
    sent->is_over = wanted->is_over = true;
}

/* That rank's request is over. Under the mutex, so that it can't close meanwhile. It says that it sleeps before it asks
 * under the mutex whether the request is over: it sees that, or is seen asleep here. */
static void wake(const world *own, uint32_t rank) {
    rota_sleeper *sleeper = own->boxes[rank].sleeper;
    if (sleeper) rota_sleeper_wake(sleeper);
}

/* What was sent is kept by the mailbox, behind that one. False: there is no memory, and its sender keeps it. */
static bool keep_copy(rota_link *before, message *own) {
    message *copy = malloc(sizeof *copy + own->size_bytes);
    if (!copy) return false;
    *copy = *own;
    copy->is_copy = true;
    copy->bytes = memcpy(copy + 1, own->bytes, own->size_bytes);
    rota_link_add(before, &copy->link);
    own->is_over = true;
    return true;
}

static rota_status put(threads_engine *engine, const message *made, rota_engine_request **out_request) {
    message *own = malloc(sizeof *own);
    if (!own) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a message");
    *own = *made;
    rota_link_begin(&own->link);
    mailbox *box = &engine->world->boxes[made->to];
    rota_link *others = made->bytes ? &box->wanted : &box->sent;
    (void)pthread_mutex_lock(&engine->world->mutex);
    message *other = find(others, own);
    if (other) {
        rota_link_remove(&other->link);
        rota_link_begin(&other->link);
        deliver(made->bytes ? own : other, made->bytes ? other : own);
        if (other->is_copy)
            free(other);
        else
            wake(engine->world, made->bytes ? other->to : other->from);
    } else if (!made->bytes || made->size_bytes > SMALL_BYTES || !keep_copy(box->sent.previous, own)) {
        add_last(made->bytes ? &box->sent : &box->wanted, &own->link);
    }
    (void)pthread_mutex_unlock(&engine->world->mutex);
    *out_request = own;
    return ROTA_OK;
}

static rota_status send(rota_engine *base, uint32_t to, uint32_t tag, const void *bytes, uint64_t size_bytes,
                        rota_engine_request **out_request) {
    const message made = {.from = base->rank, .to = to, .tag = tag, .bytes = bytes, .size_bytes = size_bytes};
    return put(engine_of(base), &made, out_request);
}

static rota_status receive(rota_engine *base, uint32_t from, uint32_t tag, void *bytes, uint64_t least_bytes,
                           uint64_t size_bytes, rota_engine_request **out_request) {
    const message made = {.from = from,
                          .to = base->rank,
                          .tag = tag,
                          .room = bytes,
                          .least_bytes = least_bytes,
                          .size_bytes = size_bytes};
    return put(engine_of(base), &made, out_request);
}

static rota_status test(rota_engine *base, rota_engine_request *request, bool *out_over) {
    message *own = request;
    (void)pthread_mutex_lock(&engine_of(base)->world->mutex);
    *out_over = own->is_over;
    (void)pthread_mutex_unlock(&engine_of(base)->world->mutex);
    if (!*out_over) return ROTA_OK;
    const message ended = *own;
    free(own);
    return ended.is_misfit
               ? rota_engine_fail_misfit(ended.from, ended.got_bytes, ended.least_bytes, ended.size_bytes)
               : ROTA_OK;
}

static bool cancel(rota_engine *base, rota_engine_request *request) {
    message *own = request;
    (void)pthread_mutex_lock(&engine_of(base)->world->mutex);
    const bool is_taken_back = own->bytes && !own->is_over;
    rota_link_remove(&own->link);
    rota_link_begin(&own->link);
    own->is_over = true;
    (void)pthread_mutex_unlock(&engine_of(base)->world->mutex);
    return is_taken_back;
}

static void detach(rota_engine *base, rota_engine_request *request) {
    message *own = request;
    (void)pthread_mutex_lock(&engine_of(base)->world->mutex);
    if (!own->is_over) {
        (void)keep_copy(own->link.previous, own);
        rota_link_remove(&own->link);
        rota_link_begin(&own->link);
        own->is_over = true;
    }
    (void)pthread_mutex_unlock(&engine_of(base)->world->mutex);
}

static void end_world(world *ended) {
    for (uint32_t i = 0; i < ended->size; i++) {
        rota_link *sent = &ended->boxes[i].sent;
        while (sent->next && !rota_link_is_alone(sent)) { /* copies: all else was cancelled */
            rota_link *link = sent->next;
            rota_link_remove(link);
            free(ROTA_LINKED(link, message, link));
        }
    }
    (void)pthread_mutex_destroy(&ended->mutex);
    free(ended->boxes);
    free(ended);
}

/* Who closes has cancelled all of its messages, or let go of them. */
static void close_engine(rota_engine *base) {
    world *left = engine_of(base)->world;
    (void)pthread_mutex_lock(&left->mutex);
    left->boxes[base->rank].sleeper = NULL;
    const bool is_last = --left->users == 0;
    (void)pthread_mutex_unlock(&left->mutex);
    if (is_last) end_world(left);
    free(base);
}

static void tell(rota_engine *base, rota_sleeper *sleeper) {
    world *told = engine_of(base)->world;
    (void)pthread_mutex_lock(&told->mutex);
    told->boxes[base->rank].sleeper = sleeper;
    (void)pthread_mutex_unlock(&told->mutex);
    base->is_told = true;
}

static const rota_engine_vtable vtable = {send, receive, test, cancel, detach, close_engine, NULL, tell};

rota_status rota_threads_open(uint32_t size, rota_engine **out_engines) {
    world *made = calloc(1, sizeof *made);
    mailbox *boxes = made ? calloc(size, sizeof *boxes) : NULL;
    if (!boxes || pthread_mutex_init(&made->mutex, NULL) != 0) {
        free(boxes);
        free(made);
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %u ranks", size);
    }
    made->boxes = boxes;
    made->size = made->users = size;
    const uint64_t id = rota_messages_make_id();
    uint32_t count = 0;
    for (; count < size; count++) {
        rota_link_begin(&boxes[count].sent);
        rota_link_begin(&boxes[count].wanted);
        threads_engine *engine = calloc(1, sizeof *engine);
        if (!engine) break;
        engine->base = (rota_engine){&vtable, "threads", count, size, UINT32_MAX, false, NULL, id, false};
        engine->world = made;
        out_engines[count] = &engine->base;
    }
    if (count == size) return ROTA_OK;
    while (count) free(out_engines[--count]);
    end_world(made);
    return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %u ranks", size);
}
