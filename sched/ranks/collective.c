/* Collectives as nodes: host nodes that end later. A worker posts one and goes on; the communicator's thread ends it.
 */
#include "sched/collectives.h"

#include <stdio.h>

#include "base/given.h"
#include "exec/address_kernels.h"
#include "graph/host_run.h"
#include "graph/record.h"
#include "sched/ranks/parts.h"

struct rota_listed_collectives {
    rota_listed_collectives *next;
    const rota_communicator *communicator;
    uint32_t count; /* of the lane's so far */
};

/* As recorded, in the lane's memory. Operand 0 is the token. */
typedef struct recorded {
    rota_communicator *communicator;
    rota_collective collective;
    const rota_listed_collectives *list; /* the lane's, of all ranks'; whole once the lane is closed */
    uint8_t input, output;               /* operands; 0: none */
} recorded;

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
    posted->collective = node->collective;
    posted->collective.position.list_count = node->list->count;
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
    return post(node, false, node->input ? operands[node->input] : NULL,
                node->output ? operands[node->output] : NULL, run);
}

/* Operands 1 and 2 are at addresses of the device's (rota_host_on_device), where all that they depend on is complete:
 * what the library is given later needs no wait on the device. */
static rota_status begin_on_device(void *user, void *const *operands, const uint64_t *operand_bytes,
                                   uint32_t operand_count, rota_host_run *run) {
    const recorded *node = user;
    const uint64_t *addresses = operands[1];
    (void)operand_bytes, (void)operand_count;
    *(uint32_t *)operands[2] = 0;
    if (run->is_brief) run->is_brief(run);
    return post(node, true, node->input ? (const void *)(uintptr_t)addresses[node->input - 1] : NULL,
                node->output ? (void *)(uintptr_t)addresses[node->output - 1] : NULL, run);
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

static void skipped(void *user) {
    const recorded *node = user;
    rota_posted *posted = &node->communicator->posted;
    /* Nodes of a communicator come one after the other, so nobody else writes here; the name is copied, since the graph
     * may be gone when it is read. */
    if (ra_load_acquire(&posted->left_out)) return;
    (void)snprintf(posted->left_out_name, sizeof posted->left_out_name, "%s", node->collective.name);
    rota_communicator *communicator = rota_communicator_retain(node->communicator);
    ra_store_release(&posted->left_out, 1); /* pairs with the load in begin_next */
    notify_and_release(communicator);
}

static const rota_host_on_device later = {{begin, skipped}, {begin_on_device, skipped}, is_on,
                                          is_beside,        rota_address_kernels,       rota_address_ends};

/* ---- The lists ---- */

/* The lane's list. A graph's nodes keep the communicator's token and so the communicator: no other one has its address.
 * NULL: no memory. */
static rota_listed_collectives *list_of(rota_recorder *recorder, const rota_communicator *communicator) {
    rota_listed_collectives *list = recorder->collectives;
    while (list && list->communicator != communicator) list = list->next;
    if (list || !(list = rota_arena_alloc(&recorder->arena, sizeof *list, 8))) return list;
    *list = (rota_listed_collectives){.next = recorder->collectives, .communicator = communicator};
    recorder->collectives = list;
    return list;
}

static bool is_same(const rota_access *a, const rota_access *b) {
    return a->buffer == b->buffer && a->offset_bytes == b->offset_bytes && a->size_bytes == b->size_bytes;
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
    rota_access accesses[3] = {{communicator->token, 0, ROTA_WHOLE, ROTA_READWRITE}};
    uint32_t count = 1;
    if (node->input.buffer) {
        made->input = (uint8_t)count;
        accesses[count++] = node->input;
    }
    if (node->output.buffer && node->input.buffer && is_same(&node->input, &node->output)) {
        made->output = made->input;
        accesses[made->input].mode = ROTA_READWRITE;
    } else if (node->output.buffer) {
        made->output = (uint8_t)count;
        accesses[count++] = node->output;
    }
    const rota_host_node host = ROTA_HOST_NODE(.user = made, .name = node->collective.name,
                                               .accesses = accesses, .access_count = count);
    ROTA_TRY(rota_record_host_on_device(recorder, &host, &later));
    list->count += !rota_collective_is_of_two(made->collective.kind);
    return ROTA_OK;
}
