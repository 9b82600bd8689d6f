/* See nccl_standin.h. One mutex guards everything; where both are taken the CUDA stand-in's is outside. */
#include "tests/exec/comm/nccl_standin.h"

#ifdef ROTA_HAVE_CUDA
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/comm/elements.h"
#include "tests/exec/cuda/cuda_stub.h"

enum { PARTS_MAX = 2 * NCCL_STANDIN_RANKS };

typedef enum part_kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE } part_kind;

typedef struct part {
    part_kind kind;
    const uint8_t *from;
    uint8_t *to;
    size_t count;
    int type, reduction, peer;
    bool is_done;
} part;

/* What one call, or one group of calls, puts on a stream. */
typedef struct operation {
    struct operation *next_made;
    rota_nccl_comm comm;
    rota_nccl_stream stream;
    part parts[PARTS_MAX];
    uint32_t part_count;
    bool has_come, is_over, is_aborted; /* has_come: its turn on the stream */
    uint64_t aborted_ns;
} operation;

typedef struct world {
    struct world *next;
    uint64_t number;
    uint32_t size, devices; /* as bits: between GPUs of one process kernels reach each other's operands */
    rota_nccl_comm comms[NCCL_STANDIN_RANKS];
} world;

struct ncclComm {
    struct ncclComm *next_made;
    world *world;
    rota_nccl_comm parent, child; /* a parent does not block, its child does, and has its abort flag */
    rota_nccl_comm *wants_child;  /* where to put it, once all ranks have come */
    uint32_t rank, inside;        /* inside: calls that are being made */
    operation *running;           /* the last one */
    bool is_ended, is_aborted, is_finalized;
    uint64_t finalized_ns; /* from when on it is */
};

static struct {
    pthread_mutex_t lock;
    uint64_t numbers, posted, done, abort_ns, finalize_ns;
    world *worlds;
    operation *operations;
    struct ncclComm *comms;
    uint32_t alive, violations, aborts, stopped, broken, held, held_count;
    char violation[256];
    const char *fails;
    rota_nccl_result result;
    bool never_opens;
    int version;
} standin = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .stopped = UINT32_MAX, .broken = UINT32_MAX, .held = UINT32_MAX};

static _Thread_local uint32_t depth;
static _Thread_local operation *grouped;

static void violate(const char *what) {
    if (standin.violations++ == 0) (void)snprintf(standin.violation, sizeof standin.violation, "%s", what);
}

/* Under the lock. */
static bool fails(const char *name, rota_nccl_result *out_result) {
    if (!standin.fails || strcmp(standin.fails, name) != 0) return false;
    standin.fails = NULL;
    *out_result = standin.result;
    return true;
}

static bool begin(rota_nccl_comm comm) {
    (void)pthread_mutex_lock(&standin.lock);
    if (comm && comm->is_ended) violate("a call on a communicator that has ended");
    if (comm && comm->inside) violate("a call on a communicator while another thread is in one");
    return !comm || !comm->is_ended;
}
static rota_nccl_result finish(rota_nccl_result result) {
    (void)pthread_mutex_unlock(&standin.lock);
    return result;
}

/* ---- What runs ---- */

static rota_collective_type type_of(int type) {
    switch (type) {
    case ROTA_NCCL_I32:
        return ROTA_COLLECTIVE_I32;
    case ROTA_NCCL_U32:
        return ROTA_COLLECTIVE_U32;
    case ROTA_NCCL_F16:
        return ROTA_COLLECTIVE_F16;
    case ROTA_NCCL_BF16:
        return ROTA_COLLECTIVE_BF16;
    default:
        if (type != ROTA_NCCL_F32) violate("a type that rota has not");
        return ROTA_COLLECTIVE_F32;
    }
}

static size_t bytes_of(const part *p) {
    return p->count * rota_collective_type_bytes(type_of(p->type));
}

static rota_collective_reduction reduction_of(int reduction) {
    static const rota_collective_reduction all[] = {[ROTA_NCCL_SUM] = ROTA_COLLECTIVE_SUM,
                                                    [ROTA_NCCL_PRODUCT] = ROTA_COLLECTIVE_PRODUCT,
                                                    [ROTA_NCCL_MAX] = ROTA_COLLECTIVE_MAX,
                                                    [ROTA_NCCL_MIN] = ROTA_COLLECTIVE_MIN,
                                                    [ROTA_NCCL_MEAN] = ROTA_COLLECTIVE_MEAN};
    return all[reduction];
}

static part *part_of(const world *w, uint32_t rank) {
    return &w->comms[rank]->running->parts[0];
}

/* NCCL's largest and smallest of real numbers is of those that are numbers; which one means nothing here. */
static void leave_nan_out(const part *p, uint8_t *to) {
    const rota_collective_type type = type_of(p->type);
    const size_t each = rota_collective_type_bytes(type);
    const uint32_t infinity = each == 4 ? 0x7f800000u : type == ROTA_COLLECTIVE_F16 ? 0x7c00u : 0x7f80u;
    if (type == ROTA_COLLECTIVE_I32 || type == ROTA_COLLECTIVE_U32) return;
    if (p->reduction != ROTA_NCCL_MAX && p->reduction != ROTA_NCCL_MIN) return;
    for (size_t i = 0; i < p->count; i++) {
        uint32_t word = 0;
        memcpy(&word, to + i * each, each);
        if ((word & (each == 4 ? 0x7fffffffu : 0x7fffu)) > infinity) memset(to + i * each, 0, each);
    }
}

static void reduce(const world *w, uint32_t rank, size_t first, uint8_t *to) {
    const part *own = part_of(w, rank);
    const void *sources[NCCL_STANDIN_RANKS];
    const size_t each = rota_collective_type_bytes(type_of(own->type));
    for (uint32_t r = 0; r < w->size; r++) sources[r] = part_of(w, r)->from + first * each;
    rota_elements_combine(type_of(own->type), reduction_of(own->reduction), sources, w->size, own->count, to);
    leave_nan_out(own, to);
}

/* All ranks' results, apart from what they are made of, which may be the same memory. */
static void run_all(world *w) {
    uint8_t *results[NCCL_STANDIN_RANKS];
    size_t sizes[NCCL_STANDIN_RANKS];
    for (uint32_t r = 0; r < w->size; r++) {
        const part *own = part_of(w, r), *first = part_of(w, 0);
        if (own->kind != first->kind || own->count != first->count || own->type != first->type ||
            own->reduction != first->reduction || own->peer != first->peer)
            violate("ranks that differ in what they do");
        sizes[r] = bytes_of(own) * (own->kind == ALL_GATHER ? w->size : 1);
        results[r] = malloc(sizes[r] + 1);
        if (!results[r]) abort();
        if (own->kind == ALL_REDUCE) reduce(w, r, 0, results[r]);
        if (own->kind == REDUCE_SCATTER) reduce(w, r, own->count * r, results[r]);
        if (own->kind == BROADCAST) memcpy(results[r], part_of(w, (uint32_t)own->peer)->from, sizes[r]);
        for (uint32_t k = 0; k < w->size && own->kind == ALL_GATHER; k++)
            memcpy(results[r] + bytes_of(own) * k, part_of(w, k)->from, bytes_of(own));
    }
    for (uint32_t r = 0; r < w->size; r++) {
        memcpy(part_of(w, r)->to, results[r], sizes[r]);
        free(results[r]);
        w->comms[r]->running->is_over = true;
        standin.done++;
    }
}

static part *find_part(operation *o, part_kind kind, uint32_t peer) {
    for (uint32_t i = 0; o && i < o->part_count; i++)
        if (o->parts[i].kind == kind && o->parts[i].peer == (int)peer && !o->parts[i].is_done)
            return &o->parts[i];
    return NULL;
}

static bool has_come(rota_nccl_comm comm) {
    return comm && comm->running && comm->running->has_come && !comm->running->is_over &&
           !comm->running->is_aborted && comm->rank != standin.stopped;
}

/* What this rank sends, where the other one is about to receive it; and the other way round when that one is asked. */
static void run_pairs(operation *own) {
    world *w = own->comm->world;
    bool are_done = true;
    for (uint32_t i = 0; i < own->part_count; i++) {
        part *sent = &own->parts[i];
        rota_nccl_comm peer = w->comms[sent->peer];
        part *wanted = sent->kind == SEND && !sent->is_done && has_come(peer)
                           ? find_part(peer->running, RECEIVE, own->comm->rank)
                           : NULL;
        if (wanted && (wanted->count != sent->count || wanted->type != sent->type))
            violate("a message of another size than is wanted");
        if (wanted) {
            if (sent->from < wanted->to + bytes_of(wanted) && wanted->to < sent->from + bytes_of(sent))
                violate("a message to where it comes from");
            memmove(wanted->to, sent->from, bytes_of(sent));
            wanted->is_done = sent->is_done = true;
        }
        are_done = are_done && sent->is_done;
    }
    if (!are_done) return;
    own->is_over = true;
    standin.done++;
}

static void check_reached(const operation *own) {
    const uint32_t devices = own->comm->world->devices;
    for (uint32_t i = 0; i < own->part_count; i++) {
        const part *p = &own->parts[i];
        if (p->from && (cuda_stub_reached_by((CUdeviceptr)(uintptr_t)p->from) & devices) != devices)
            violate("an input that another GPU of the process can't reach");
        if (p->to && (cuda_stub_reached_by((CUdeviceptr)(uintptr_t)p->to) & devices) != devices)
            violate("an output that another GPU of the process can't reach");
    }
}

/* By the CUDA stand-in's thread. */
static bool is_over(void *user) {
    operation *own = user;
    (void)pthread_mutex_lock(&standin.lock);
    world *w = own->comm->world;
    if (!own->has_come) check_reached(own);
    own->has_come = true;
    if (own->is_aborted && !own->is_over && rota_clock_ns() >= own->aborted_ns) {
        for (uint32_t i = 0; i < own->part_count; i++)
            if (own->parts[i].to) memset(own->parts[i].to, 0xEE, bytes_of(&own->parts[i]));
        own->is_over = true;
    }
    if (has_come(own->comm) && own->parts[0].kind >= SEND) {
        run_pairs(own);
    } else if (has_come(own->comm)) {
        bool have_all = true;
        for (uint32_t r = 0; r < w->size; r++) have_all = have_all && has_come(w->comms[r]);
        if (have_all) run_all(w);
    }
    const bool over = own->is_over;
    (void)pthread_mutex_unlock(&standin.lock);
    return over;
}

/* ---- Life ---- */

static rota_nccl_result get_version(int *out) {
    *out = standin.version;
    return ROTA_NCCL_SUCCESS;
}
static const char *error_string(rota_nccl_result result) {
    return result == 6 ? "remote process exited or there was a network error" : "an error of the stand-in's";
}
static const char *last_error(rota_nccl_comm comm) {
    (void)comm;
    return "said last";
}
static rota_nccl_result unique_id(rota_nccl_id *out) {
    rota_nccl_result result = ROTA_NCCL_SUCCESS;
    (void)begin(NULL);
    memset(out, 0, sizeof *out);
    const uint64_t number = ++standin.numbers;
    memcpy(out->bytes, &number, sizeof number);
    (void)fails("GetUniqueId", &result);
    return finish(result);
}

static world *world_of(uint64_t number, uint32_t size) {
    world *w = standin.worlds;
    while (w && w->number != number) w = w->next;
    if (w) return w;
    w = calloc(1, sizeof *w);
    if (!w) abort();
    *w = (world){.next = standin.worlds, .number = number, .size = size};
    standin.worlds = w;
    return w;
}

static rota_nccl_comm make_comm(world *w, uint32_t rank) {
    struct ncclComm *made = calloc(1, sizeof *made);
    if (!made) abort();
    made->next_made = standin.comms;
    standin.comms = made;
    made->world = w;
    made->rank = rank;
    if (w->comms[rank]) violate("a rank that is there twice");
    w->comms[rank] = made;
    w->devices |= 1u << cuda_stub_current_device();
    standin.alive++;
    return made;
}

static rota_nccl_result open_comm(rota_nccl_comm *out, int ranks, rota_nccl_id id, int rank,
                                  rota_nccl_config *config) {
    rota_nccl_result result = ROTA_NCCL_IN_PROGRESS;
    uint64_t number;
    memcpy(&number, id.bytes, sizeof number);
    (void)begin(NULL);
    if (config->magic != ROTA_NCCL_MAGIC || config->size != sizeof *config || config->blocking != 0 ||
        config->split_share != 1)
        violate("a config that is none, or blocks, or has its child share nothing");
    if (fails("CommInitRankConfig", &result)) return finish(result);
    world *w = world_of(number, (uint32_t)ranks);
    if (w->size != (uint32_t)ranks) violate("another number of ranks");
    *out = make_comm(w, (uint32_t)rank);
    return finish(result);
}

static bool are_all_there(const world *w) {
    for (uint32_t r = 0; r < w->size; r++)
        if (!w->comms[r]) return false;
    return true;
}

static rota_nccl_result split(rota_nccl_comm comm, int color, int key, rota_nccl_comm *out,
                              rota_nccl_config *config) {
    rota_nccl_result result = ROTA_NCCL_IN_PROGRESS;
    *out = NULL;
    if (!begin(comm)) return finish(5);
    if (comm->child || color != 0 || key != (int)comm->rank || config->magic != ROTA_NCCL_MAGIC ||
        config->blocking != 1 || !are_all_there(comm->world))
        violate("a split that is none, or too early");
    if (fails("CommSplit", &result)) return finish(result);
    comm->child = make_comm(world_of(comm->world->number | UINT64_C(1) << 32, comm->world->size), comm->rank);
    comm->child->parent = comm;
    comm->wants_child = out;
    return finish(result);
}

static rota_nccl_result state_of(rota_nccl_comm comm) {
    if (comm->is_finalized)
        return rota_clock_ns() < comm->finalized_ns ? ROTA_NCCL_IN_PROGRESS : ROTA_NCCL_SUCCESS;
    if (!are_all_there(comm->world) || standin.never_opens) return ROTA_NCCL_IN_PROGRESS;
    if (comm->rank == standin.broken && comm->running) return 6;
    if (!comm->wants_child) return ROTA_NCCL_SUCCESS;
    if (!are_all_there(comm->child->world)) return ROTA_NCCL_IN_PROGRESS;
    *comm->wants_child = comm->child;
    comm->wants_child = NULL;
    return ROTA_NCCL_SUCCESS;
}

static rota_nccl_result async_error(rota_nccl_comm comm, rota_nccl_result *out) {
    rota_nccl_result result = ROTA_NCCL_SUCCESS;
    if (!begin(comm)) return finish(5);
    *out = state_of(comm);
    (void)fails("CommGetAsyncError", &result);
    return finish(result);
}

static void abort_running(rota_nccl_comm comm) {
    operation *running = comm->running;
    if (!running || running->is_aborted) return;
    running->is_aborted = true;
    running->aborted_ns = rota_clock_ns() + standin.abort_ns;
}

static rota_nccl_result end_comm(rota_nccl_comm comm, bool is_abort) {
    if (!begin(comm)) return finish(5);
    operation *running = comm->running;
    if (running && !running->is_over && !is_abort) violate("a communicator destroyed in use");
    if (is_abort) {
        comm->is_aborted = true;
        abort_running(comm);
        /* The child's flag, too, but the child is there until it ends itself. */
        if (comm->child && !comm->child->is_ended) abort_running(comm->child);
        if (comm->wants_child && !comm->child->is_ended) { /* it never was one */
            comm->child->is_ended = true;
            standin.alive--;
        }
    } else if (comm->child && !comm->child->is_ended) {
        violate("a parent destroyed before its child");
    }
    if (is_abort && !comm->parent && !(comm->is_finalized && rota_clock_ns() >= comm->finalized_ns))
        standin.aborts++;
    comm->is_ended = true;
    standin.alive--;
    return finish(ROTA_NCCL_SUCCESS);
}
static rota_nccl_result destroy(rota_nccl_comm comm) {
    return end_comm(comm, false);
}
static rota_nccl_result abort_comm(rota_nccl_comm comm) {
    return end_comm(comm, true);
}
/* Under the lock, which others have meanwhile: a call that blocks, for so long, or until an abort: false. */
static bool stay_inside(rota_nccl_comm comm, uint64_t ns) {
    const uint64_t until_ns = rota_clock_ns() + ns;
    comm->inside++;
    while (!comm->parent->is_aborted && rota_clock_ns() < until_ns) {
        (void)pthread_mutex_unlock(&standin.lock);
        (void)usleep(200);
        (void)pthread_mutex_lock(&standin.lock);
    }
    comm->inside--;
    return !comm->parent->is_aborted;
}

static rota_nccl_result finalize(rota_nccl_comm comm) {
    rota_nccl_result result = ROTA_NCCL_SUCCESS;
    if (!begin(comm)) return finish(5);
    if (comm->parent && !stay_inside(comm, standin.finalize_ns)) return finish(6);
    comm->is_finalized = true;
    (void)fails("CommFinalize", &result);
    return finish(result);
}

/* ---- Calls ---- */

/* Under the lock. */
static operation *new_operation(rota_nccl_comm comm, rota_nccl_stream stream) {
    operation *made = calloc(1, sizeof *made);
    if (!made) abort();
    made->next_made = standin.operations;
    standin.operations = made;
    made->comm = comm;
    made->stream = stream;
    return made;
}

/* Under the lock, which it gives back. */
static rota_nccl_result post(operation *made) {
    rota_nccl_comm comm = made->comm;
    if (!comm->parent) {
        violate("a collective of a communicator that does not block");
        return finish(5);
    }
    if (comm->running && !comm->running->is_over) violate("a call while another is under way");
    if (comm->rank == standin.held) {
        standin.held_count++;
        if (!stay_inside(comm, UINT64_C(100000000000))) return finish(6);
    }
    comm->running = made;
    standin.posted++;
    if (comm->parent->is_aborted) abort_running(comm);
    (void)finish(ROTA_NCCL_SUCCESS);
    cuda_stub_hold(made->stream, is_over, made);
    return ROTA_NCCL_SUCCESS;
}

static rota_nccl_result add(const char *name, rota_nccl_comm comm, rota_nccl_stream stream,
                            const part *made) {
    rota_nccl_result result = ROTA_NCCL_SUCCESS;
    if (!begin(comm)) return finish(5);
    if (fails(name, &result)) return finish(result);
    if (depth && made->kind < SEND) violate("a collective in a group of messages");
    operation *own = depth && grouped ? grouped : new_operation(comm, stream);
    if (own->part_count == PARTS_MAX) abort();
    own->parts[own->part_count++] = *made;
    if (!depth) return post(own);
    grouped = own;
    return finish(ROTA_NCCL_SUCCESS);
}

static rota_nccl_result all_reduce(const void *from, void *to, size_t count, int type, int reduction,
                                   rota_nccl_comm comm, rota_nccl_stream stream) {
    return add("AllReduce", comm, stream, &(part){ALL_REDUCE, from, to, count, type, reduction, 0, false});
}
static rota_nccl_result reduce_scatter(const void *from, void *to, size_t count, int type, int reduction,
                                       rota_nccl_comm comm, rota_nccl_stream stream) {
    return add("ReduceScatter", comm, stream,
               &(part){REDUCE_SCATTER, from, to, count, type, reduction, 0, false});
}
static rota_nccl_result all_gather(const void *from, void *to, size_t count, int type, rota_nccl_comm comm,
                                   rota_nccl_stream stream) {
    return add("AllGather", comm, stream, &(part){ALL_GATHER, from, to, count, type, 0, 0, false});
}
static rota_nccl_result broadcast(const void *from, void *to, size_t count, int type, int root,
                                  rota_nccl_comm comm, rota_nccl_stream stream) {
    return add("Broadcast", comm, stream, &(part){BROADCAST, from, to, count, type, 0, root, false});
}
static rota_nccl_result send(const void *from, size_t count, int type, int peer, rota_nccl_comm comm,
                             rota_nccl_stream stream) {
    return add("Send", comm, stream, &(part){SEND, from, NULL, count, type, 0, peer, false});
}
static rota_nccl_result receive(void *to, size_t count, int type, int peer, rota_nccl_comm comm,
                                rota_nccl_stream stream) {
    return add("Recv", comm, stream, &(part){RECEIVE, NULL, to, count, type, 0, peer, false});
}
static rota_nccl_result group_start(void) {
    depth++;
    return ROTA_NCCL_SUCCESS;
}
static rota_nccl_result group_end(void) {
    operation *own = grouped;
    rota_nccl_result result = ROTA_NCCL_SUCCESS;
    (void)begin(NULL);
    if (depth-- == 0) violate("a group that was not begun");
    grouped = NULL;
    if (fails("GroupEnd", &result) || !own) return finish(result);
    return post(own);
}

const rota_nccl_api *nccl_standin_api(void) {
    static rota_nccl_api api = {.GetVersion = get_version,
                                .GetErrorString = error_string,
                                .GetLastError = last_error,
                                .GetUniqueId = unique_id,
                                .CommInitRankConfig = open_comm,
                                .CommSplit = split,
                                .CommGetAsyncError = async_error,
                                .CommFinalize = finalize,
                                .CommDestroy = destroy,
                                .CommAbort = abort_comm,
                                .AllReduce = all_reduce,
                                .ReduceScatter = reduce_scatter,
                                .AllGather = all_gather,
                                .Broadcast = broadcast,
                                .Send = send,
                                .Recv = receive,
                                .GroupStart = group_start,
                                .GroupEnd = group_end};
    api.version = standin.version;
    return &api;
}

/* ---- What tests call ---- */

void nccl_standin_start(void) {
    standin.posted = standin.done = standin.abort_ns = standin.finalize_ns = 0;
    standin.violations = standin.aborts = standin.alive = 0;
    standin.stopped = standin.broken = standin.held = UINT32_MAX;
    standin.held_count = 0;
    standin.fails = NULL;
    standin.never_opens = false;
    standin.version = 22809;
    rota_nccl_api_use(nccl_standin_api());
}

void nccl_standin_stop(void) {
    rota_nccl_api_use(NULL);
    for (world *w; (w = standin.worlds);) {
        standin.worlds = w->next;
        free(w);
    }
    for (operation *o; (o = standin.operations);) {
        standin.operations = o->next_made;
        free(o);
    }
    for (struct ncclComm *c; (c = standin.comms);) {
        standin.comms = c->next_made;
        free(c);
    }
}

#define GET(type, expression)                                                                                \
    (void)pthread_mutex_lock(&standin.lock);                                                                 \
    const type got = expression;                                                                             \
    (void)pthread_mutex_unlock(&standin.lock);                                                               \
    return got
#define SET(field, value)                                                                                    \
    (void)pthread_mutex_lock(&standin.lock);                                                                 \
    standin.field = value;                                                                                   \
    (void)pthread_mutex_unlock(&standin.lock)

uint32_t nccl_standin_alive(void) {
    GET(uint32_t, standin.alive);
}
uint64_t nccl_standin_posted(void) {
    GET(uint64_t, standin.posted);
}
uint64_t nccl_standin_done(void) {
    GET(uint64_t, standin.done);
}
uint32_t nccl_standin_aborts(void) {
    GET(uint32_t, standin.aborts);
}
uint32_t nccl_standin_violations(char *out_text, size_t text_bytes) {
    (void)pthread_mutex_lock(&standin.lock);
    (void)snprintf(out_text, text_bytes, "%s", standin.violations ? standin.violation : "");
    const uint32_t count = standin.violations;
    (void)pthread_mutex_unlock(&standin.lock);
    return count;
}
void nccl_standin_fail(const char *name, rota_nccl_result result) {
    SET(result, result);
    SET(fails, name);
}
void nccl_standin_stop_rank(uint32_t rank) {
    SET(stopped, rank);
}
void nccl_standin_async_error(uint32_t rank) {
    SET(broken, rank);
}
void nccl_standin_hold_rank(uint32_t rank) {
    SET(held, rank);
}

uint32_t nccl_standin_held(void) {
    GET(uint32_t, standin.held_count);
}
void nccl_standin_never_opens(bool never) {
    SET(never_opens, never);
}
void nccl_standin_abort_takes(uint64_t ns) {
    SET(abort_ns, ns);
}
void nccl_standin_finalize_takes(uint64_t ns) {
    SET(finalize_ns, ns);
}
void nccl_standin_version(int version) {
    SET(version, version);
    (void)nccl_standin_api();
}
#endif
