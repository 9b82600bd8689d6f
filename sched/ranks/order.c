/* The order of a runtime's collectives: that in which its submissions have their turns, and of one submission that of
 * its records. Ranks that share communicators are to have one order of all collectives on them, or they may come to
 * wait for each other in a circle.
 *
 * Each collective is told, as its submission has its turn, how many of each other communicator went before it; its
 * announcement says so, and the transport compares what all ranks said (exec/comm/orders.c). That finds what differs
 * where all come to the same collective. Where they do not, rank 0 at A and rank 1 at B, their announcements find it,
 * too: that of A lies at rank 1, since announcements are wanted at any time (exec/comm/ahead.c), and says how many of B
 * rank 0 had submitted before. Rank 1 knows how many it has itself, before its own turn at A or, if that was not
 * submitted, so far, and so no fewer. So while a collective waits, its thread has those of the runtime's other
 * communicators look at what lies there. Nothing more is sent, and nothing is looked at while nothing waits.
 *
 * Whoever finds it ends both communicators, with one sentence, and so tells all their ranks. A communicator that has
 * ended is not compared: ranks may learn of that at different times, and stop submitting.
 *
 * Numbers of a runtime's communicators change under one mutex: by the sequencer, for each collective of a replay, and
 * by communicators' threads, which take what the sequencer noted as they begin. */
#include "sched/ranks/order.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/comm/agreement.h"
#include "sched/ranks/flush.h"
#include "sched/ranks/parts.h"

enum { PAUSE_NS = 10000000, LONG_PAUSE_NS = 500000000, QUEUE_LEAST = 64 };

struct rota_rank_order {
    pthread_mutex_t mutex;
    rota_rank_order *next;
    const rota_runtime *runtime;
    uint32_t users; /* under orders_mutex, as the list */
    rota_communicator *members;
};

/* One that was submitted and has not begun. */
typedef struct entry {
    const void *node;
    char name[64];   /* cut: the graph may go while it is read */
    uint64_t number; /* of all ranks', from 1; 0: a message to or from `peer` */
    uint64_t before; /* the first of rota_ordered.before */
    uint32_t before_count, peer;
    bool sends;
} entry;

static pthread_mutex_t orders_mutex = PTHREAD_MUTEX_INITIALIZER;
static rota_rank_order *orders;

/* ---- Queues ---- */

static void *element(const rota_order_queue *queue, size_t bytes, uint64_t number) {
    return queue->data + number % queue->capacity * bytes;
}

static bool put(rota_order_queue *queue, size_t bytes, const void *from) {
    if (queue->count == queue->capacity) {
        rota_order_queue larger = *queue;
        larger.capacity = queue->capacity ? 2 * queue->capacity : QUEUE_LEAST;
        larger.data = malloc(larger.capacity * bytes);
        if (!larger.data) return false;
        for (uint64_t i = queue->first; i < queue->first + queue->count; i++)
            memcpy(element(&larger, bytes, i), element(queue, bytes, i), bytes);
        free(queue->data);
        *queue = larger;
    }
    memcpy(element(queue, bytes, queue->first + queue->count++), from, bytes);
    return true;
}

static void drop(rota_order_queue *queue, uint64_t count) {
    queue->first += count;
    queue->count -= count;
}

static const entry *entry_of(const rota_ordered *own, uint64_t number) {
    return element(&own->entries, sizeof(entry), number);
}
static const rota_collective_order *before_of(const rota_ordered *own, uint64_t number) {
    return element(&own->before, sizeof(rota_collective_order), number);
}

/* ---- Life ---- */

rota_status rota_order_find(rota_communicator *c) {
    (void)pthread_mutex_lock(&orders_mutex);
    rota_rank_order *found = orders;
    while (found && found->runtime != c->runtime) found = found->next;
    if (!found && (found = calloc(1, sizeof *found))) {
        if (pthread_mutex_init(&found->mutex, NULL) == 0) {
            found->runtime = c->runtime;
            found->next = orders;
            orders = found;
        } else {
            free(found);
            found = NULL;
        }
    }
    if (found) found->users++;
    (void)pthread_mutex_unlock(&orders_mutex);
    c->ordered.order = found;
    return found ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "a communicator: no host memory");
}

void rota_order_release(rota_communicator *c) {
    rota_rank_order *order = c->ordered.order;
    if (!order || c->process != getpid())
        return; /* in a child another thread may have had the mutex at the fork */
    (void)pthread_mutex_lock(&orders_mutex);
    if (--order->users == 0) {
        rota_rank_order **link = &orders;
        while (*link != order) link = &(*link)->next;
        *link = order->next;
        (void)pthread_mutex_destroy(&order->mutex);
        free(order);
    }
    (void)pthread_mutex_unlock(&orders_mutex);
    free(c->ordered.entries.data);
    free(c->ordered.before.data);
}

static void link_first(rota_rank_order *order, rota_communicator *c) {
    c->ordered.previous = NULL;
    c->ordered.next = order->members;
    if (order->members) order->members->ordered.previous = c;
    order->members = c;
}

static void unlink_member(rota_rank_order *order, const rota_communicator *c) {
    const rota_ordered *own = &c->ordered;
    if (own->previous)
        own->previous->ordered.next = own->next;
    else
        order->members = own->next;
    if (own->next) own->next->ordered.previous = own->previous;
}

void rota_order_join(rota_communicator *c) {
    rota_ordered *own = &c->ordered;
    if (own->is_own || c->size == 1 || !c->under_way.transport->id) return;
    (void)pthread_mutex_lock(&own->order->mutex);
    own->id = c->under_way.transport->id;
    own->is_member = true;
    link_first(own->order, c);
    (void)pthread_mutex_unlock(&own->order->mutex);
}

static void leave(rota_communicator *c) {
    if (!c->ordered.is_member) return;
    c->ordered.is_member = false;
    unlink_member(c->ordered.order, c);
}

void rota_order_leave(rota_communicator *c) {
    (void)pthread_mutex_lock(&c->ordered.order->mutex);
    leave(c);
    (void)pthread_mutex_unlock(&c->ordered.order->mutex);
}

/* Whether its numbers count: not where a rank may have stopped submitting since it failed. */
static bool counts(const rota_communicator *c) {
    return !ra_load_acquire(&c->ordered.has_ended) && !ra_load_acquire(&c->posted.left_out) &&
           !ra_load_acquire(&c->posted.is_closed);
}

/* ---- Submitted ---- */

static bool note_before(rota_communicator *c, entry *made) {
    rota_ordered *own = &c->ordered;
    made->before = own->before.first + own->before.count;
    for (const rota_communicator *other = own->order->members; other; other = other->ordered.next) {
        if (other == c || !counts(other)) continue;
        if (made->before_count == ROTA_COLLECTIVE_ORDERS) break;
        rota_collective_order order = {.communicator = other->ordered.id, .before = other->ordered.submitted};
        (void)snprintf(order.name, sizeof order.name, "%.*s", ROTA_COLLECTIVE_ORDER_NAME - 1, other->name);
        if (!put(&own->before, sizeof order, &order)) return false;
        made->before_count++;
    }
    return true;
}

void rota_order_submitted(rota_communicator *c, const void *node, const rota_collective *collective) {
    rota_ordered *own = &c->ordered;
    (void)pthread_mutex_lock(&own->order->mutex);
    if (own->is_member) {
        const bool is_of_two = rota_collective_is_of_two(collective->kind);
        entry made = {.node = node, .peer = collective->peer};
        (void)snprintf(made.name, sizeof made.name, "%s", collective->name);
        made.sends = collective->kind == ROTA_COLLECTIVE_SEND;
        made.number = is_of_two ? 0 : own->submitted + 1;
        if (note_before(c, &made) && put(&own->entries, sizeof made, &made)) {
            if (!is_of_two) own->submitted++;
            unlink_member(own->order, c);
            link_first(own->order, c);
        } else {
            leave(c); /* without memory nothing is compared with it any more */
        }
    }
    (void)pthread_mutex_unlock(&own->order->mutex);
}

/* ---- Begun ---- */

static rota_communicator *find_member(const rota_rank_order *order, uint64_t id) {
    rota_communicator *found = order->members;
    while (found && found->ordered.id != id) found = found->ordered.next;
    return found;
}

/* Those before it were left out. */
static const entry *take_to(rota_ordered *own, const void *node) {
    for (uint64_t i = 0; i < own->entries.count; i++) {
        const entry *found = entry_of(own, own->entries.first + i);
        if (found->node != node) continue;
        drop(&own->before, found->before - own->before.first);
        drop(&own->entries, i);
        return found;
    }
    return NULL;
}

void rota_order_begin(rota_communicator *c, rota_collective *collective) {
    rota_ordered *own = &c->ordered;
    collective->orders = own->now;
    collective->order_count = 0;
    (void)pthread_mutex_lock(&own->order->mutex);
    const entry *taken = own->is_member ? take_to(own, collective->position.node) : NULL;
    for (uint32_t i = 0; taken && i < taken->before_count; i++) {
        const rota_collective_order *order = before_of(own, taken->before + i);
        const rota_communicator *other = find_member(own->order, order->communicator);
        if (other && counts(other)) own->now[collective->order_count++] = *order;
    }
    if (taken) {
        if (taken->number) {
            own->begun = taken->number;
            (void)snprintf(own->begun_name, sizeof own->begun_name, "%s", taken->name);
        }
        drop(&own->before, taken->before_count);
        drop(&own->entries, 1);
    }
    (void)pthread_mutex_unlock(&own->order->mutex);
    own->pause_ns = PAUSE_NS;
    own->asks_ns = rota_deadline_after(PAUSE_NS);
}

/* ---- Waiting ---- */

/* This rank's next collective that is the other's part of what is announced; NULL: it was not submitted. */
static const entry *own_part(const rota_ordered *own, uint32_t rank, const rota_announcement *a) {
    const bool is_of_two = rota_collective_is_of_two((rota_collective_kind)a->kind);
    for (uint64_t i = 0; i < own->entries.count; i++) {
        const entry *it = entry_of(own, own->entries.first + i);
        const bool is_part =
            is_of_two ? !it->number && it->peer == rank && it->sends == (a->kind == ROTA_COLLECTIVE_RECEIVE)
                      : it->number != 0;
        if (is_part) return it;
    }
    return NULL;
}

/* How many of the other one's this rank has submitted before that part; of one that was not submitted as many at least,
 * *out_at_least. False: it is not known. */
static bool own_before(const rota_ordered *own, const entry *part, const rota_communicator *other,
                       uint64_t *out_before, bool *out_at_least) {
    *out_at_least = !part;
    *out_before = other->ordered.submitted;
    if (!part) return true;
    for (uint32_t i = 0; i < part->before_count; i++) {
        const rota_collective_order *order = before_of(own, part->before + i);
        if (order->communicator != other->ordered.id) continue;
        *out_before = order->before;
        return true;
    }
    return false;
}

/* The node of a communicator's collective of that number, if that is known still. */
static const char *name_of(const rota_ordered *own, uint64_t number) {
    if (number == own->begun) return own->begun_name;
    for (uint64_t i = 0; i < own->entries.count; i++) {
        const entry *it = entry_of(own, own->entries.first + i);
        if (it->number == number) return it->name;
    }
    return NULL;
}

static void say(const rota_communicator *c, uint32_t rank, const rota_announcement *a,
                const rota_communicator *other, uint64_t said, uint64_t before, char *out_cause,
                size_t capacity) {
    char node[160] = "";
    const uint64_t number = (before < said ? before : said) + 1;
    const char *name = name_of(&other->ordered, number);
    if (name)
        (void)snprintf(node, sizeof node, "; number %llu there is '%.95s'", (unsigned long long)number, name);
    rota_crossing_describe(&(rota_crossing){c->name, other->name, a, {rank, c->rank}, {said, before}, node},
                           out_cause, capacity);
}

/* Whether what another rank has come to is, with what this one has submitted, another order. */
static uint64_t crossed_by(const rota_communicator *c, uint32_t rank, const rota_announcement *a,
                           char *out_cause, size_t capacity) {
    const rota_ordered *own = &c->ordered;
    const entry *part = own_part(own, rank, a);
    for (uint32_t i = 0; i < a->order_count; i++) {
        uint64_t before;
        bool at_least;
        const rota_communicator *other = find_member(own->order, a->orders[i].communicator);
        if (!other || !counts(other) || !own_before(own, part, other, &before, &at_least)) continue;
        const uint64_t said = a->orders[i].before;
        if (at_least ? before <= said : before == said) continue;
        say(c, rank, a, other, said, before, out_cause, capacity);
        return other->ordered.id;
    }
    return 0;
}

static void look_ahead(rota_communicator *c) {
    rota_transport *transport = c->under_way.transport;
    char cause[960];
    for (uint32_t r = 0; r < c->size; r++) {
        const rota_announcement *a;
        if (transport->vtable->ahead(transport, r, &a) != ROTA_OK) {
            /* By what lay there: who waits elsewhere goes on, and this one's ranks are told. */
            rota_communicator_flush(c);
            rota_order_ended(c, 0, NULL);
            return;
        }
        if (!a) continue;
        (void)pthread_mutex_lock(&c->ordered.order->mutex);
        const uint64_t crossed = c->ordered.is_member ? crossed_by(c, r, a, cause, sizeof cause) : 0;
        (void)pthread_mutex_unlock(&c->ordered.order->mutex);
        if (!crossed) continue;
        /* The other one first: it has this sentence before it hears what ranks say that are told of this one's end. */
        rota_order_ended(c, crossed, cause);
        transport->vtable->abort(transport, cause);
        rota_communicator_flush(c);
        return;
    }
}

static void look_on_thread(rota_rank_call *call) {
    rota_communicator *c = ROTA_STACK_OBJECT(call, rota_communicator, ordered.look);
    (void)ra_exchange_acq_rel(&c->ordered.is_asked, 0); /* pairs with rota_order_waits */
    if (c->under_way.transport && !c->under_way.close && !c->on_device.opening) look_ahead(c);
    rota_communicator_release(c);
}

void rota_order_waits(rota_communicator *c) {
    rota_ordered *own = &c->ordered;
    const uint64_t now = rota_clock_ns();
    if (now < own->asks_ns) return;
    own->asks_ns = now + own->pause_ns;
    if (own->pause_ns < LONG_PAUSE_NS) own->pause_ns *= 2;
    (void)pthread_mutex_lock(&own->order->mutex);
    /* Members are open, and so held by their owners: leaving takes the mutex. */
    for (rota_communicator *other = own->is_member ? own->order->members : NULL; other;
         other = other->ordered.next) {
        if (other == c || ra_exchange_acq_rel(&other->ordered.is_asked, 1)) continue;
        other->ordered.look.fn = look_on_thread;
        rota_rank_thread_call(other->thread, &rota_communicator_retain(other)->ordered.look);
    }
    (void)pthread_mutex_unlock(&own->order->mutex);
}

/* ---- Ended ---- */

typedef struct ending {
    rota_rank_call call;
    rota_communicator *communicator;
    char cause[960];
} ending;

static void end_on_thread(rota_rank_call *call) {
    ending *own = (ending *)(void *)call;
    rota_communicator *c = own->communicator;
    if (c->under_way.transport && !c->under_way.close) {
        c->under_way.transport->vtable->abort(c->under_way.transport, own->cause);
        rota_communicator_flush(c);
        ra_store_release(&c->ordered.has_ended, 1);
    }
    rota_communicator_release(c);
    free(own);
}

void rota_order_ended(rota_communicator *c, uint64_t crossed, const char *cause) {
    ra_store_release(&c->ordered.has_ended, 1); /* pairs with `counts` */
    ending *made = crossed ? calloc(1, sizeof *made) : NULL;
    if (!made) return; /* without memory the other one ends by its timeout */
    made->call.fn = end_on_thread;
    (void)snprintf(made->cause, sizeof made->cause, "%s", cause);
    (void)pthread_mutex_lock(&c->ordered.order->mutex);
    rota_communicator *other = find_member(c->ordered.order, crossed);
    if (other) made->communicator = rota_communicator_retain(rota_communicator_retain(other));
    (void)pthread_mutex_unlock(&c->ordered.order->mutex);
    if (!other) {
        free(made);
        return;
    }
    rota_rank_thread_call(other->thread, &made->call);
    rota_communicator_release(
        other); /* this thread's own: the call lets go of its, maybe before it was awake */
}
