/* Collectives as nodes: host nodes that end later. A worker posts one and goes on; the communicator's thread ends it.
 */
#include "sched/collectives.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/given.h"
#include "base/hash.h"
#include "exec/address_kernels.h"
#include "exec/comm/agreement.h"
#include "graph/host_run.h"
#include "graph/record.h"
#include "sched/ranks/parts.h"

struct rota_listed_collectives {
    rota_listed_collectives *next;
    const rota_communicator *communicator;
    rota_graph *graph; /* whose lane it is */
    uint32_t count;    /* of the lane's so far */
};

static bool find_next(const void *node, rota_collective *out);

/* As recorded, in the lane's memory. Operand 0 is the token. */
typedef struct recorded {
    rota_communicator *communicator;
    rota_collective collective;
    const rota_listed_collectives *list; /* the lane's, of all ranks'; whole once the lane is closed */
    uint8_t input, output;               /* operands; 0: none */
    uint64_t input_before,
        output_before; /* bytes that it has before what that operand has: in place, in part */
    /* Of all ranks', written as a plan is compiled, each time the same: the next one of the graph's on the
     * communicator, and a digest of what is compared of this one and all that follow, with how many they are. */
    _Atomic(const struct recorded *) next;
    _Atomic uint64_t rest;
    _Atomic uint32_t rest_count;
} recorded;

static rota_collective collective_of(const recorded *node) {
    rota_collective collective = node->collective;
    rota_collective_position *position = &collective.position;
    position->list_count = node->list->count;
    position->node = node;
    position->next = find_next;
    position->rest =
        ra_load_relaxed(&node->rest); /* before the plan was given out, and so before all of its replays */
    position->rest_count = ra_load_relaxed(&node->rest_count);
    return collective;
}

/* rota_collective_position.next. */
static bool find_next(const void *node, rota_collective *out) {
    const recorded *next = ra_load_relaxed(&((const recorded *)node)->next);
    if (next) *out = collective_of(next);
    return next != NULL;
}

/* Shows the thread what was posted. From the store that posted it on the run may end, the communicator be closed and
 * the token be given back, so who posts has a reference of its own. */
static void notify_and_release(rota_communicator *communicator) {
    rota_communicator_notify(communicator);
    rota_communicator_release(communicator);
}

/* `input` and `output` are the run's until it ends. */
static rota_status post(const recorded *node, bool on_device, const void *input, void *output,
                        rota_host_run *run) {
    rota_posted *posted = &node->communicator->posted;
    /* Each collective writes the token, so the one before has ended: on this runtime its node is complete, and its run
     * was taken. */
    if (ra_load_acquire(&posted->run))
        return rota_fail(ROTA_INTERNAL, "communicator '%s': '%s' begins while another collective does",
                         node->communicator->name, node->collective.name);
    posted->collective = collective_of(node);
    posted->collective.on_device = on_device;
    posted->collective.input = input;
    posted->collective.output = output;
    rota_communicator *communicator = rota_communicator_retain(node->communicator);
    ra_store_release(&posted->run, run); /* pairs with the exchange in begin_next */
    notify_and_release(communicator);
    return ROTA_OK;
}

static rota_status begin(void *user, void *const *operands, const uint64_t *operand_bytes,
                         uint32_t operand_count, rota_host_run *run) {
    const recorded *node = user;
    (void)operand_bytes, (void)operand_count;
    const uint8_t *input = node->input ? operands[node->input] : NULL;
    uint8_t *output = node->output ? operands[node->output] : NULL;
    return post(node, false, input ? input - node->input_before : NULL,
                output ? output - node->output_before : NULL, run);
}

/* Operands 1 to 3 are at addresses of the device's (rota_host_on_device), where all that they depend on is complete:
 * what the library is given later needs no wait on the device. */
static rota_status begin_on_device(void *user, void *const *operands, const uint64_t *operand_bytes,
                                   uint32_t operand_count, rota_host_run *run) {
    const recorded *node = user;
    const uint64_t *addresses = operands[1];
    (void)operand_bytes, (void)operand_count;
    *(uint32_t *)operands[2] = 0;
    if (run->is_brief) run->is_brief(run);
    return post(
        node, true,
        node->input ? (const void *)(uintptr_t)(addresses[node->input - 1] - node->input_before) : NULL,
        node->output ? (void *)(uintptr_t)(addresses[node->output - 1] - node->output_before) : NULL, run);
}

/* The largest or smallest of real numbers: NCCL leaves out what is NaN, and the reductions hand it on
 * (exec/collective.h). */
static bool hides_nan(const rota_collective *c) {
    const bool is_real = c->type != ROTA_COLLECTIVE_I32 && c->type != ROTA_COLLECTIVE_U32;
    return rota_collective_reduces(c->kind) && is_real &&
           (c->reduction == ROTA_COLLECTIVE_MAX || c->reduction == ROTA_COLLECTIVE_MIN);
}

static bool is_beside(const void *user, const void *device) {
    const recorded *node = user;
    const rota_device *own = node->communicator->on_device.device;
    return own && own == device;
}

static bool is_on(const void *user, const void *device) {
    const recorded *node = user;
    return is_beside(user, device) && !hides_nan(&node->collective);
}

/* Once `after` others have ended, which were submitted before it. */
static void leave_out(const recorded *node, uint64_t after) {
    rota_communicator *communicator = rota_communicator_retain(node->communicator);
    rota_posted *posted = &communicator->posted;
    if (!ra_exchange_acq_rel(&posted->is_left_out, 1)) {
        /* Copied, since the graph may be gone when it is read. */
        (void)snprintf(posted->left_out_name, sizeof posted->left_out_name, "%s", node->collective.name);
        posted->left_out_after = after;
        ra_store_release(&posted->left_out, 1); /* pairs with the load in has_left_out */
    }
    notify_and_release(communicator);
}

static void skipped(void *user) {
    const recorded *node = user;
    /* Pairs with the load in has_left_out; also where one that was submitted later was left out first. */
    if (ra_exchange_acq_rel(&node->communicator->posted.is_skipped, 1)) return;
    leave_out(node, 0);
}

/* ---- As a plan is compiled, and submitted ---- */

static void submitted(void *user) {
    const recorded *node = user;
    node->communicator->posted.submitted++;
    rota_order_submitted(node->communicator, node, &node->collective);
}

/* By the sequencer, as the above: what it submitted before may be under way, or wait for other ranks still. */
static void failed(void *user) {
    const recorded *node = user;
    const rota_posted *posted = &node->communicator->posted;
    if (!ra_load_acquire(&posted->is_left_out)) leave_out(node, posted->submitted);
}

static uint64_t digest_of(const recorded *node, uint64_t rest) {
    rota_announcement said;
    const rota_collective collective = collective_of(node);
    rota_announce(&collective, 0, &said);
    return rota_hash_bytes(ROTA_HASH_BEGIN ^ rest, &said, offsetof(rota_announcement, rest));
}

/* By communicator, of a graph's nodes that are all ranks': one of them, as who walks them has it. */
typedef struct by_communicator {
    const recorded **cells; /* NULL: empty */
    uint64_t mask;
} by_communicator;

/* Of so many nodes at the most. False: there is no memory. */
static bool begin_by_communicator(by_communicator *all, uint32_t count) {
    uint64_t size = 4;
    while (size < 2 * (uint64_t)count) size *= 2;
    all->mask = size - 1;
    all->cells = calloc(size, sizeof *all->cells);
    return all->cells != NULL;
}

static const recorded **cell_of(const by_communicator *all, const rota_communicator *communicator) {
    uint64_t i = rota_hash_pointer(communicator) & all->mask;
    while (all->cells[i] && all->cells[i]->communicator != communicator) i = (i + 1) & all->mask;
    return &all->cells[i];
}

/* Backwards, so that the last that was met of a communicator's is the next one. Without memory none has a digest, and
 * each is compared as it runs. */
static void arranged(void *const *users, uint32_t count) {
    by_communicator last;
    if (!begin_by_communicator(&last, count)) return;
    for (uint32_t i = count; i-- > 0;) {
        recorded *node = users[i];
        if (rota_collective_is_of_two(node->collective.kind)) continue;
        const recorded **cell = cell_of(&last, node->communicator), *next = *cell;
        *cell = node;
        ra_store_relaxed(&node->next, next);
        ra_store_relaxed(&node->rest, digest_of(node, next ? ra_load_relaxed(&next->rest) : 0));
        ra_store_relaxed(&node->rest_count, next ? ra_load_relaxed(&next->rest_count) + 1 : 1);
    }
    free(last.cells);
}

/* rota_collective_position.next, of what comes before a graph's first. */
static bool find_first(const void *node, rota_collective *out) {
    *out = collective_of(node);
    return true;
}

/* A communicator's part of a graph that is compared. */
typedef struct compared_part {
    const recorded *first;
    rota_comparison *comparison; /* NULL: it has failed */
} compared_part;

/* The first failure of several, which are all gone through. */
typedef struct first_failure {
    rota_status status;
    char text[ROTA_ERROR_MESSAGE_MAX];
} first_failure;

/* `status`, whose message is the thread's last. */
static rota_status keep_first_failure(first_failure *failure, rota_status status) {
    if (status != ROTA_OK && failure->status == ROTA_OK) {
        failure->status = status;
        (void)snprintf(failure->text, sizeof failure->text, "%s", rota_last_error());
    }
    return status;
}

static uint32_t find_parts(void *const *users, uint32_t count, const by_communicator *first,
                           compared_part *parts) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const recorded *node = users[i], **cell = cell_of(first, node->communicator);
        if (rota_collective_is_of_two(node->collective.kind) || *cell) continue;
        *cell = node;
        parts[found++].first = node;
    }
    return found;
}

/* All are begun, then all are posted, then all are waited for, by one deadline: so it is no matter in which order ranks
 * have them, and no communicator waits for another one. One that fails keeps none of the others: other ranks, which are
 * told of that one, are at those. */
static void compare_parts(compared_part *parts, uint32_t count, first_failure *failure) {
    uint64_t patience_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        rota_collective_position position = collective_of(parts[i].first).position;
        position.next = find_first;
        (void)keep_first_failure(
            failure, rota_comparison_begin(parts[i].first->communicator, &position, &parts[i].comparison));
    }
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].comparison &&
            keep_first_failure(failure, rota_comparison_await_turn(parts[i].comparison)) != ROTA_OK)
            parts[i].comparison = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!parts[i].comparison) continue;
        const uint64_t own_ns = rota_comparison_patience_ns(parts[i].comparison);
        if (own_ns > patience_ns) patience_ns = own_ns;
        rota_comparison_post(parts[i].comparison);
    }
    uint64_t deadline_ns = rota_deadline_after(patience_ns);
    for (uint32_t i = 0; i < count; i++) {
        bool is_over = true;
        if (parts[i].comparison)
            (void)keep_first_failure(failure,
                                     rota_comparison_wait(parts[i].comparison, &deadline_ns, &is_over));
        /* A thread that does not come back has it. */
        if (!is_over) rota_graph_retain(parts[i].first->list->graph);
    }
}

static rota_status compared(void *const *users, uint32_t count) {
    first_failure failure = {.status = ROTA_OK};
    by_communicator first;
    compared_part *parts = calloc(count, sizeof *parts);
    if (parts && begin_by_communicator(&first, count)) {
        compare_parts(parts, find_parts(users, count, &first, parts), &failure);
        free(first.cells);
    } else {
        (void)keep_first_failure(
            &failure, rota_fail(ROTA_OUT_OF_MEMORY, "no host memory to compare %u collectives", count));
    }
    free(parts);
    return failure.status == ROTA_OK ? ROTA_OK : rota_fail(failure.status, "%s", failure.text);
}

static const rota_host_on_device later = {{begin, skipped},
                                          {begin_on_device, skipped},
                                          is_on,
                                          is_beside,
                                          rota_address_kernels,
                                          rota_address_ends,
                                          arranged,
                                          submitted,
                                          failed,
                                          compared};

/* ---- The lists ---- */

/* The lane's list. A graph's nodes keep the communicator's token and so the communicator: no other one has its address.
 * NULL: no memory. */
static rota_listed_collectives *list_of(rota_recorder *recorder, const rota_communicator *communicator) {
    rota_listed_collectives *list = recorder->collectives;
    while (list && list->communicator != communicator) list = list->next;
    if (list || !(list = rota_arena_alloc(&recorder->arena, sizeof *list, 8))) return list;
    *list = (rota_listed_collectives){
        .next = recorder->collectives, .communicator = communicator, .graph = recorder->graph};
    recorder->collectives = list;
    return list;
}

/* ---- In place ---- */

static uint64_t begin_of(const rota_access *a) {
    return a->buffer->root_offset + a->offset_bytes;
}

static bool is_same(const rota_access *a, const rota_access *b) {
    return a->buffer->root == b->buffer->root && begin_of(a) == begin_of(b) && a->size_bytes == b->size_bytes;
}

/* Of a kind of which one operand has a part for each rank and the other one's is this rank's part of it. */
static bool is_own_part(const rota_collective_node *node, const rota_access *part, const rota_access *whole) {
    const rota_collective_kind kind = node->collective.kind;
    const uint64_t before = rota_communicator_rank(node->communicator) * part->size_bytes;
    return (kind == ROTA_COLLECTIVE_ALL_GATHER || kind == ROTA_COLLECTIVE_REDUCE_SCATTER) &&
           part->buffer->root == whole->buffer->root && begin_of(part) == begin_of(whole) + before &&
           before + part->size_bytes <= whole->size_bytes;
}

/* What it touches, behind the token; returns how many. In place it has one access of what is read and written, and, of
 * what has more, one before and one after that: no two of a node's may overlap. */
static uint32_t have_accesses(const rota_collective_node *node, recorded *made, rota_access *accesses) {
    const bool both = node->input.buffer && node->output.buffer;
    uint32_t count = 1;
    if (both && is_same(&node->input, &node->output)) {
        made->input = made->output = (uint8_t)count;
        accesses[count] = node->input;
        accesses[count++].mode = ROTA_READWRITE;
        return count;
    }
    const bool gathers = node->collective.kind == ROTA_COLLECTIVE_ALL_GATHER;
    const rota_access *part = gathers ? &node->input : &node->output,
                      *whole = gathers ? &node->output : &node->input;
    if (both && is_own_part(node, part, whole)) {
        const uint64_t before = begin_of(part) - begin_of(whole),
                       after = whole->size_bytes - before - part->size_bytes;
        made->input = made->output = (uint8_t)count;
        *(gathers ? &made->output_before : &made->input_before) = before;
        accesses[count] = *part;
        accesses[count++].mode = ROTA_READWRITE;
        if (before)
            accesses[count++] = (rota_access){whole->buffer, whole->offset_bytes, before, whole->mode};
        if (after)
            accesses[count++] = (rota_access){whole->buffer, whole->offset_bytes + before + part->size_bytes,
                                              after, whole->mode};
        return count;
    }
    if (node->input.buffer) {
        made->input = (uint8_t)count;
        accesses[count++] = node->input;
    }
    if (node->output.buffer) {
        made->output = (uint8_t)count;
        accesses[count++] = node->output;
    }
    return count;
}

rota_status rota_record_collective(rota_recorder *recorder, const rota_collective_node *node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(node->communicator);
    rota_communicator *communicator = node->communicator;
    if (ra_load_acquire(&communicator->posted.is_closed))
        return rota_fail(ROTA_WRONG_STATE, "%s '%s': communicator '%s' is closed",
                         rota_collective_kind_text(node->collective.kind), node->collective.name,
                         communicator->name);
    rota_listed_collectives *list = list_of(recorder, communicator);
    recorded *made = list ? rota_arena_alloc(&recorder->arena, sizeof *made, 8) : NULL;
    if (!made)
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s '%s': no host memory",
                         rota_collective_kind_text(node->collective.kind), node->collective.name);
    *made = (recorded){.communicator = communicator, .collective = node->collective, .list = list};
    made->collective.position = (rota_collective_position){
        .graph = recorder->graph->name, .lane = recorder->name, .index = list->count + 1};
    rota_access accesses[1 + ROTA_ADDRESSED_MAX] = {{communicator->token, 0, ROTA_WHOLE, ROTA_READWRITE}};
    const uint32_t count = have_accesses(node, made, accesses);
    const rota_host_node host = ROTA_HOST_NODE(.user = made, .name = node->collective.name,
                                               .accesses = accesses, .access_count = count);
    ROTA_TRY(rota_record_host_on_device(recorder, &host, &later));
    list->count += !rota_collective_is_of_two(made->collective.kind);
    return ROTA_OK;
}
